"""Speed, as ratios to a peer in the same run:  pytest -m bench -n 0 -s

1,000 notes of 1,000 words. Every figure is a median over the same queries; what is printed is the
machine's own, what is compared is the ratio.
"""

from __future__ import annotations

import os
import random
import statistics
import time
from collections.abc import Callable
from pathlib import Path

import apsw
import numpy as np
import pytest

import kbstore
from kbstore import mirror

pytestmark = pytest.mark.bench

NOTES, WORDS, QUERIES = 1_000, 1_000, 30
VOCABULARY = 20_000


class RandomEmbedder:
    """Costs nothing, so that only the store is measured."""

    name = fingerprint = "random"
    weight = 1.0

    def __init__(self) -> None:
        self.random = np.random.default_rng(7)

    def embed(self, texts: list[str], task: str) -> np.ndarray:
        return self.random.normal(size=(len(texts), 768))


def words(rng: random.Random, count: int) -> list[str]:
    """Words by Zipf's law, as in real text."""
    return [f"w{min(int(rng.paretovariate(0.8)), VOCABULARY)}" for _ in range(count)]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    rng = random.Random(7)
    folder = tmp_path_factory.mktemp("bench")
    for i in range(NOTES):
        file = folder / "notes" / f"topic{i % 20}" / f"{i}.md"
        file.parent.mkdir(parents=True, exist_ok=True)
        title = " ".join(words(rng, 4))
        file.write_text(f"---\ntitle: {title}\n---\n{' '.join(words(rng, WORDS))}\n")
    return folder


@pytest.fixture(scope="module")
def database(folder: Path) -> Path:
    database = folder / "kb.sqlite3"
    with kbstore.Store(database, embedder=RandomEmbedder()) as store:
        mirror.sync(store, folder / "notes")
    return database


@pytest.fixture(scope="module")
def plain(folder: Path) -> Path:
    """The same texts in an FTS5 table and nothing else."""
    plain = folder / "plain.sqlite3"
    connection = apsw.Connection(str(plain))
    connection.execute("create virtual table f using fts5 (title, body, tokenize = 'porter')")
    with connection:
        for i, file in enumerate(sorted((folder / "notes").rglob("*.md"))):
            connection.execute("insert into f values (?, ?)", (str(i), file.read_text()))
    connection.execute("insert into f (f) values ('optimize')")
    connection.close()
    return plain


def median_ms(work: Callable[[str], object]) -> float:
    rng = random.Random(11)
    times = []
    for _ in range(QUERIES):
        query = " ".join(f"w{rng.randint(20, 2_000)}" for _ in range(6))
        begun = time.perf_counter()
        work(query)
        times.append((time.perf_counter() - begun) * 1_000)
    return statistics.median(times)


def fts_alone(plain: Path) -> Callable[[str], object]:
    def work(query: str) -> object:
        connection = apsw.Connection(str(plain), flags=apsw.SQLITE_OPEN_READONLY)
        match = " OR ".join(f'"{word}"' for word in query.split())
        found = connection.execute(
            "select rowid, snippet(f, 1, '[', ']', '…', 24) from f where f match ? "
            "order by bm25(f) limit 10",
            (match,),
        ).fetchall()
        connection.close()
        return found

    return work


def test_a_search_by_words_is_of_the_order_of_fts5_alone(database, plain) -> None:
    """Opening the file and the first answer included, on both sides."""

    def ours(query: str) -> object:
        with kbstore.Store(database, read_only=True, embedder=None) as store:
            return store.search(query, retrievers=["words"])

    def all_words(query: str) -> object:
        with kbstore.Store(database, read_only=True, embedder=None) as store:
            return store.search(query, retrievers=["words", "frontmatter"])

    base = median_ms(fts_alone(plain))
    mine, both = median_ms(ours), median_ms(all_words)
    print(
        f"\nFTS5 alone {base:.2f} ms; words {mine:.2f} ms, ratio {mine / base:.1f};"
        f" words and frontmatter {both:.2f} ms, ratio {both / base:.1f}"
    )
    assert mine / base < 10


def test_vectors_beside_words(database) -> None:
    with kbstore.Store(database, read_only=True, embedder=RandomEmbedder()) as store:
        some = median_ms(lambda query: store.search(query, retrievers=["words"]))
        full = median_ms(store.search)
        topic = median_ms(lambda query: store.search(query, topic="topic3"))
    print(
        f"\nopen store: words {some:.2f} ms; all three {full:.2f} ms, ratio {full / some:.1f};"
        f" in one topic of twenty {topic:.2f} ms, ratio {topic / some:.1f}"
    )
    assert full / some < 10


def test_a_second_sync_costs_little_more_than_walking_the_folder(database, folder) -> None:
    begun = time.perf_counter()
    found = [
        os.stat(os.path.join(d, n)) for d, _, names in os.walk(folder / "notes") for n in names
    ]
    walk = time.perf_counter() - begun
    with kbstore.Store(database, embedder=RandomEmbedder()) as store:
        begun = time.perf_counter()
        report = mirror.sync(store, folder / "notes", embed=False)
        again = time.perf_counter() - begun
    print(f"\nwalk {walk * 1e3:.1f} ms; sync {again * 1e3:.1f} ms, ratio {again / walk:.1f}")
    assert (report.unchanged, report.read) == (len(found), 0)
    assert again / walk < 30


def test_text_without_spaces_costs_in_proportion(tmp_path) -> None:
    connection = kbstore.connect(tmp_path / "kb.sqlite3")
    times = {}
    for size in (10_000, 20_000, 40_000):
        begun = time.perf_counter()
        connection.execute(
            "insert into document (path, title, body) values (?, 'x', ?)",
            (f"{size}.md", "部署方案" * (size // 4)),
        )
        times[size] = time.perf_counter() - begun
    connection.close()
    print("\n" + "; ".join(f"{size:,} characters {t * 1e3:.0f} ms" for size, t in times.items()))
    assert times[40_000] / times[10_000] < 8
