"""A base of a thousand notes is embedded and questioned by a process that is killed (-9) at ten
moments and begun again each time: nothing is lost, done twice or half done.

The process is this file, run as a program. Its two models are a server in the parent, which counts
what is asked and kills the process at chosen requests.
"""

from __future__ import annotations

import hashlib
import json
import random
import subprocess
import sys
import threading
import urllib.request
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import numpy as np
from openai_server import OpenAI, questions_about, serving, title_of

import kbstore
from kbstore import embed as embed_module

NOTES = 1_000
Vectors = dict[str, bytes]


# The process -------------------------------------------------------------------------------------


class Remote:
    """Both models: the server is told of every text to embed, and writes the questions."""

    name = fingerprint = "by the server"
    weight = 1.0

    def __init__(self, url: str) -> None:
        self._url = f"{url}/chat/completions"

    def embed(self, texts: Sequence[str], task: str) -> list[list[float]]:
        self._ask("embed", json.dumps(texts))
        return [direction(text) for text in texts]

    def questions(self, note: str, avoid: Sequence[str] = ()) -> list[str]:
        return self._ask("hype", f"<note>\n{note}\n</note>").splitlines()

    def _ask(self, model: str, text: str) -> str:
        body = {"model": model, "messages": [{"role": "user", "content": text}]}
        with urllib.request.urlopen(self._url, json.dumps(body).encode()) as answer:
            return json.load(answer)["choices"][0]["message"]["content"]


def direction(text: str) -> list[float]:
    seed = int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big")
    return np.random.default_rng(seed).standard_normal(768).tolist()


def work(file: str, url: str) -> None:
    models = Remote(url)
    with kbstore.Store(file, embedder=models, hype=models) as kb:
        embedded = kb.embed()
        questioned = kb.hype(parallel=8)
    # Another run may have added questions since, so what is pending is judged at the end.
    assert (embedded.error, embedded.failed) == (None, 0), embedded
    assert (questioned.error, questioned.embedding_error) == (None, None), questioned
    assert (questioned.failed, questioned.pending) == (0, 0), questioned


# The server --------------------------------------------------------------------------------------


class Models:
    """What the server was asked, in order: texts to embed, titles of notes to write questions on.

    ``at``: request -> what is done when it comes, before it is answered.
    """

    def __init__(self, server: OpenAI) -> None:
        self.url = server.url
        self.embedded: list[str] = []
        self.asked: list[str] = []
        self.at: dict[int, Callable[[], object]] = {}
        self.requests = 0
        self._lock = threading.Lock()
        server.answer = self._answer

    def _answer(self, text: str) -> str:
        with self._lock:
            self.requests += 1
            if text.startswith("<note>"):
                self.asked.append(title_of(text))
            else:
                self.embedded += json.loads(text)
            then = self.at.pop(self.requests, None)
        if then:
            then()
        return questions_about(text)


@contextmanager
def models() -> Iterator[Models]:
    with serving() as server:
        yield Models(server)


def start(file: Path, models: Models) -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, __file__, str(file), models.url])


def fill(file: Path, count: int) -> None:
    with kbstore.Store(file, embedder=None, hype=None) as kb, kb.batch():
        for i in range(count):
            kb.put(f"{i}.md", f"Whatever there is to say about number {i}.", title=f"Note {i}")


# What is in the file -----------------------------------------------------------------------------


class State:
    """The notes that have been asked about; each text that has a vector, with that."""

    def __init__(self, file: Path) -> None:
        connection = kbstore.connect(file)
        sql = "select title from document join questioned on document_id = id"
        self.questioned = {title for (title,) in connection.execute(sql)}
        self.documents: Vectors = dict(
            connection.execute(
                "select title || '. ' || substr(body, body_start + 1, body_end - body_start),"
                " embedding from document d join document_embedding e on e.document_id = d.id"
            )
        )
        self.questions: Vectors = dict(
            connection.execute(
                "select text, embedding from question join question_embedding on question_id = id"
            )
        )
        connection.close()


def count(file: Path, sql: str) -> int:
    connection = kbstore.connect(file)
    try:
        return connection.execute(f"select count(*) from {sql}").get
    finally:
        connection.close()


def check_whole(file: Path, notes: int) -> None:
    """Every note has its vector and its five questions with theirs, and nothing else is there."""
    from test_processes import faults_of

    assert faults_of(file) == []
    state = State(file)
    titles = [f"Note {i}" for i in range(notes)]
    bodies = [f"Whatever there is to say about number {i}." for i in range(notes)]
    assert state.questioned == set(titles)
    assert state.documents.keys() == {
        f"{title}. {body}" for title, body in zip(titles, bodies, strict=True)
    }
    assert state.questions.keys() == {
        f"What is point {i} of {title}?" for title in titles for i in range(1, 6)
    }
    for text, vector in [*state.documents.items(), *state.questions.items()]:
        assert vector == embed_module.vector(direction(text), text)
    assert count(file, "document_embedding") == notes
    assert count(file, "question where origin = 'llm' and content_hash is not null") == 5 * notes
    assert count(file, "question_embedding") == 5 * notes
    for nothing in ("v_pending", "v_stale", "vector_queue", "failure"):
        assert count(file, nothing) == 0, nothing


def test_killed_ten_times_it_is_whole_in_the_end_and_nothing_was_done_twice(
    database: Path,
) -> None:
    from test_processes import faults_of

    chance = random.Random("ten kills")
    fill(database, NOTES)
    batches = NOTES // 16  # of documents, which are embedded first
    moments = sorted(
        chance.sample(range(2, batches), 3) + chance.sample(range(batches + 5, NOTES + batches), 7)
    )
    before: list[tuple[State, int, int]] = []  # state after a kill, texts embedded, notes asked
    with models() as asked:
        for moment in moments:
            child: list[subprocess.Popen[bytes]] = []
            begun = threading.Event()

            def kill(child: list[subprocess.Popen[bytes]] = child, begun=begun) -> None:
                begun.wait()
                child[0].kill()

            asked.at[moment] = kill
            child.append(start(database, asked))
            begun.set()
            assert child[0].wait() == -9
            assert faults_of(database) == []
            before.append((State(database), len(asked.embedded), len(asked.asked)))
        assert start(database, asked).wait() == 0
        check_whole(database, NOTES)
        requests = asked.requests
        assert start(database, asked).wait() == 0
        assert asked.requests == requests, "a second run has nothing to do"
    done = [len(state.documents) + len(state.questions) for state, _, _ in before]
    assert done == sorted(done)
    assert 0 < done[0] < NOTES <= done[3] < done[-1] < 6 * NOTES
    for state, embedded, questioned in before:
        assert not state.questioned & set(asked.asked[questioned:])
        again = set(asked.embedded[embedded:])
        assert not again & state.documents.keys()
        assert not again & state.questions.keys()
    # Each kill costs what was in flight: eight notes at most, and one batch.
    assert len(asked.asked) <= NOTES + 7 * 8
    assert max(Counter(asked.asked).values()) <= 3


def test_two_runs_at_once_do_not_get_in_each_other_s_way(database: Path) -> None:
    fill(database, 80)
    with models() as asked:
        runs = [start(database, asked), start(database, asked)]
        assert [run.wait() for run in runs] == [0, 0]
        check_whole(database, 80)
        assert set(asked.asked) == {f"Note {i}" for i in range(80)}
        assert max(Counter(asked.asked).values()) <= 2


if __name__ == "__main__":
    work(*sys.argv[1:])
