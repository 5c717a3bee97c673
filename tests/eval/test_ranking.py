"""How well the default ranking ranks, on public sets with real vectors:  pytest -m eval -n 0 -s

Each retriever, each pair, plain fusion and the default, with 95 % intervals; as rows of the table
measure in the database that KBSTORE_EVAL_RESULTS names, too. What was tried stands in TRIED.md.

Reads the folder that KBSTORE_EVAL_SETS names; each set in it is corpus.jsonl, queries.jsonl,
qrels.tsv, document_vectors.f16.npy and query_vectors.f16.npy (768 numbers a row).
"""

from __future__ import annotations

import json
import os
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import apsw
import ir_measures
import numpy as np
import pytest
from ir_measures import RR, R, nDCG

import kbstore
from kbstore import embed, mirror

SETS = Path(os.environ.get("KBSTORE_EVAL_SETS", "nowhere"))

pytestmark = [
    pytest.mark.eval,
    pytest.mark.skipif(not SETS.is_dir(), reason="KBSTORE_EVAL_SETS names no folder"),
]

FORMS: dict[str, dict[str, Any]] = {
    "frontmatter": {"retrievers": ["frontmatter"]},
    "words": {"retrievers": ["words"]},
    "vectors": {"retrievers": ["vectors"]},
    "frontmatter, words": {"retrievers": ["frontmatter", "words"]},
    "frontmatter, vectors": {"retrievers": ["frontmatter", "vectors"]},
    "words, vectors": {"retrievers": ["words", "vectors"]},
    "plain fusion": {},
    "default": {},
}
WHOLE = ("words", "vectors", "plain fusion", "default")  # the others on at most 200 queries
PLAIN = (
    "update retriever set power = 0, depth = entry;"
    " update setting set value = 0 where name = 'neighbours_weight'"
)
METRICS = (nDCG @ 10, R @ 10, RR @ 10)

# set -> least nDCG@10 of the default ranking
EXPECTED = {
    "heron_kb": 0.95,
    "anthropic_docs": 0.81,
    "anthropic_docs_pages": 0.87,
    "stackfaq": 0.94,
    "stackfaq_answers": 0.74,
    "stackfaq_answers with its questions": 0.95,
}

Search = Callable[[str], list[str]]


def lines(file: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in file.read_text().splitlines()]


class Given:
    """Vectors that were made elsewhere."""

    name = fingerprint = "all-MiniLM-L6-v2"
    weight = 1.0

    def __init__(self, queries: dict[str, np.ndarray]) -> None:
        self.queries = queries

    def embed(self, texts: list[str], task: str) -> list[np.ndarray]:
        return [self.queries[text] for text in texts]


def path_of(name: str) -> str:
    return name.strip("/").removesuffix(".md").replace("#", "__") + ".md"


class Set:
    """A retrieval set, stored through the public interface with its own vectors."""

    def __init__(self, name: str, database: Path) -> None:
        self.name = name.removesuffix(" with its questions")
        # stackfaq_answers is stackfaq without the titles: the answers alone
        self.source = SETS / self.name.removesuffix("_answers")
        corpus = lines(self.source / "corpus.jsonl")
        self.ids = {path_of(document["_id"]): document["_id"] for document in corpus}
        self.queries = {q["_id"]: q["text"] for q in lines(self.source / "queries.jsonl")}
        vectors = np.load(self.source / "query_vectors.f16.npy")
        given = dict(zip(self.queries.values(), vectors, strict=True))
        if name != self.name:
            questions = lines(SETS / self.name / "questions.jsonl")
            asked = np.load(SETS / self.name / "question_vectors.f16.npy")
            given |= {q["question"]: v for q, v in zip(questions, asked, strict=True)}
        self.qrels = list(ir_measures.read_trec_qrels(self._qrels()))
        self.store = kbstore.Store(database, embedder=Given(given))
        for document in corpus:
            self._put(document)
        self._give_vectors(corpus)
        if name != self.name:
            for q in questions:
                self.store.connection.execute(
                    "insert into question (document_id, text) "
                    "select id, ? from document where path = ?",
                    (q["question"], path_of(q["_id"])),
                )
        report = self.store.embed()
        assert (report.pending, report.error) == (0, None)

    def _qrels(self) -> str:
        rows = (self.source / "qrels.tsv").read_text().splitlines()[1:]
        return "\n".join("{} 0 {} {}".format(*row.split("\t")) for row in rows)

    def _put(self, document: dict[str, Any]) -> None:
        alone = self.name.endswith("_answers")
        self.store.put(
            path_of(document["_id"]),
            document["text"] or document["title"],
            title="-" if alone else document["title"].strip() or document["_id"],
            tags=[] if alone else document.get("tags", []),
            updated=document.get("date"),
            defer=True,
        )

    def _give_vectors(self, corpus: list[dict[str, Any]]) -> None:
        vectors = np.load(SETS / self.name / "document_vectors.f16.npy")
        run = self.store.connection.execute
        run("update setting set value = ? where name in ('model', 'model_name')", (Given.name,))
        for document, raw in zip(corpus, vectors, strict=True):
            run(
                "insert into document_embedding "
                "(document_id, seq, body_start, body_end, embedding, content_hash, model) "
                "select id, 0, 0, 0, ?, content_hash, ? from document where path = ?",
                (embed.vector(raw, "a"), Given.name, path_of(document["_id"])),
            )

    def measure(self, search: Search, sample: int | None = None) -> dict[Any, dict[str, float]]:
        """metric -> query -> value"""
        asked = list(self.queries.items())
        if sample is not None and len(asked) > sample:
            asked = random.Random(0).sample(asked, sample)
        run = [
            ir_measures.ScoredDoc(query_id, self.ids[path], -rank)
            for query_id, text in asked
            for rank, path in enumerate(search(text))
        ]
        names = {query_id for query_id, _ in asked}
        qrels = [qrel for qrel in self.qrels if qrel.query_id in names]
        values: dict[Any, dict[str, float]] = {metric: {} for metric in METRICS}
        for one in ir_measures.iter_calc(list(METRICS), qrels, run):
            values[one.measure][one.query_id] = one.value
        return values


def interval(gains: list[float], rounds: int = 2_000) -> tuple[float, float]:
    """The 95 % interval of a mean, by bootstrap over the queries (Efron, 1979)."""
    values = np.array(gains)
    draws = np.random.default_rng(0).integers(0, len(values), (rounds, len(values)))
    low, high = np.percentile(values[draws].mean(axis=1), [2.5, 97.5])
    return float(low), float(high)


def record(rows: list[tuple[Any, ...]]) -> None:
    """As rows of SQL, where KBSTORE_EVAL_RESULTS names a database."""
    file = os.environ.get("KBSTORE_EVAL_RESULTS")
    if not file:
        return
    connection = apsw.Connection(file)
    connection.execute(
        "create table if not exists measure (retrieval_set text, form text, metric text,"
        " value real, low real, high real, primary key (retrieval_set, form, metric)) without rowid"
    )
    for row in rows:
        connection.execute("insert or replace into measure values (?, ?, ?, ?, ?, ?)", row)
    connection.close()


@pytest.mark.parametrize("name", EXPECTED)
def test_the_default_ranking(name: str, tmp_path: Path) -> None:
    data = Set(name, tmp_path / "kb.sqlite3")
    found = {}
    rows: list[tuple[Any, ...]] = []
    for form, options in FORMS.items():
        plain = form == "plain fusion"
        if plain:
            data.store.connection.execute(f"begin; {PLAIN}")
        found[form] = data.measure(
            lambda text, options=options: [h.path for h in data.store.search(text, **options).hits],
            sample=None if form in WHOLE else 200,
        )
        if plain:
            data.store.connection.execute("rollback")
        for metric in METRICS:
            values = list(found[form][metric].values())
            rows.append((name, form, str(metric), float(np.mean(values)), *interval(values)))
    data.store.close()
    record(rows)
    print(f"\n{name} ({len(data.queries)} queries; 95 % intervals)")
    for form in FORMS:
        mine = [row for row in rows if row[1] == form]
        shown = "  ".join(f"{m} {v:.3f} [{low:.3f}, {high:.3f}]" for _, _, m, v, low, high in mine)
        print(f"  {form:22}{shown}")
    mean = {form: float(np.mean(list(found[form][nDCG @ 10].values()))) for form in WHOLE}
    best = max(("words", "vectors"), key=lambda form: mean[form])
    ours, theirs = found["default"][nDCG @ 10], found[best][nDCG @ 10]
    low, high = interval([ours[query] - theirs[query] for query in ours])
    print(f"  default - {best}: {mean['default'] - mean[best]:+.3f} [{low:+.3f}, {high:+.3f}]")
    assert mean["default"] >= EXPECTED[name]
    assert mean["default"] >= mean[best] - 0.01


def test_notes_in_a_folder_on_the_starter(tmp_path: Path) -> None:
    """Markdown files, synced and embedded by the model in this package."""
    source = SETS / "heron_kb"
    corpus = lines(source / "corpus.jsonl")
    for document in corpus:
        file = tmp_path / "notes" / document["_id"]
        file.parent.mkdir(parents=True, exist_ok=True)
        header = {k: document[k] for k in ("title", "tags") if document.get(k)}
        if document.get("date"):
            header["updated"] = document["date"]
        file.write_text(
            "---\n"
            + "".join(f"{key}: {json.dumps(value)}\n" for key, value in header.items())
            + f"---\n{document['text']}"
        )
    qrels = [
        ir_measures.Qrel(query, document, int(score))
        for query, document, score in (
            row.split("\t") for row in (source / "qrels.tsv").read_text().splitlines()[1:]
        )
    ]
    queries = lines(source / "queries.jsonl")
    values = {}
    with kbstore.Store(tmp_path / "kb.sqlite3") as store:
        report = mirror.sync(store, tmp_path / "notes")
        assert report.problems == ()
        assert len(report.created) == len(corpus) - sum(
            d["_id"].split("/")[-1] == "README.md" and d["_id"].count("/") < 2 for d in corpus
        )
        for form in ("words", "vectors", "default"):
            options = FORMS[form]
            run = [
                ir_measures.ScoredDoc(query["_id"], hit.path, hit.score)
                for query in queries
                for hit in store.search(query["text"], **options).hits
            ]
            values[form] = ir_measures.calc_aggregate([nDCG @ 10], qrels, run)[nDCG @ 10]
    print("\nheron_kb on the starter  " + "  ".join(f"{f} {v:.3f}" for f, v in values.items()))
    assert values["words"] >= 0.88
    assert values["default"] >= 0.90
