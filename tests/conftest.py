"""Fixtures: a connection, a store, an embedder that never fails, and the command line."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import apsw
import click.testing
import numpy as np
import pytest
from openai_server import OpenAI, serving

import kbstore
from kbstore.cli import main
from kbstore.pace import Pace

NOW = "2026-12-01"


class FakeEmbedder:
    """Deterministic vectors: a text is the sum of a random direction for each of its words, so
    texts that share words are near. ``vectors`` overrides single texts; ``fail`` is raised."""

    def __init__(self, name: str = "fake", weight: float = 1.0) -> None:
        self.name = name
        self.fingerprint = f"fingerprint of {name}"
        self.weight = weight
        self.calls: list[tuple[str, str]] = []  # (task, text)
        self.vectors: dict[str, Sequence[float]] = {}
        self.fail: Exception | None = None

    def embed(self, texts: Sequence[str], task: str) -> list[Sequence[float]]:
        self.calls += [(task, text) for text in texts]
        if self.fail:
            raise self.fail
        return [self._vector(text) for text in texts]

    def _vector(self, text: str) -> Sequence[float]:
        for part, vector in self.vectors.items():
            if part in text:
                return vector
        return [*sum((_direction(word) for word in text.lower().split()), np.full(768, 1e-3))]


def _direction(word: str) -> np.ndarray:
    seed = int.from_bytes(hashlib.sha256(word.strip(".,?!").encode()).digest()[:4], "big")
    return np.random.default_rng(seed).normal(size=768)


@pytest.fixture
def embedder() -> FakeEmbedder:
    return FakeEmbedder()


@pytest.fixture
def database(tmp_path: Path) -> Path:
    """Where a knowledge base may be made; there is none yet."""
    return tmp_path / "kb.sqlite3"


@pytest.fixture
def kb(database: Path, embedder: FakeEmbedder) -> Iterator[kbstore.Store]:
    """An empty store with the fake embedder."""
    with kbstore.Store(database, embedder=embedder) as store:
        yield store


@pytest.fixture
def conn(database: Path) -> Iterator[apsw.Connection]:
    """A connection to an empty knowledge base."""
    connection = kbstore.connect(database)
    yield connection
    connection.close()


@pytest.fixture
def run(database: Path) -> Callable[..., click.testing.Result]:
    """``run("search", "http")`` runs the command line on ``database``; the starter model embeds."""

    def invoke(*arguments: str, input: str | None = None) -> click.testing.Result:
        runner = click.testing.CliRunner(env={"KBSTORE_DB": str(database)})
        result = runner.invoke(main, arguments, input=input)
        if result.exception and not isinstance(result.exception, SystemExit):
            raise result.exception
        return result

    return invoke


@pytest.fixture
def llm(monkeypatch: pytest.MonkeyPatch) -> Iterator[OpenAI]:
    """A local server is the LLM, and the environment names it. Waits between two tries are only
    written down, in ``waits``."""
    wait = Pace.wait
    with serving() as server:
        server.waits = []

        def write_down(pace: Pace, seconds: float) -> bool:
            server.waits.append(seconds)
            return (pace._patient or seconds <= 1) and wait(pace, 0.0)

        monkeypatch.setattr(Pace, "wait", write_down)
        monkeypatch.setenv("KBSTORE_HYPE_API_BASE", server.url)
        monkeypatch.setenv("KBSTORE_HYPE_MODEL", "openai/test-model")
        monkeypatch.setenv("OPENAI_API_KEY", "sk-the-key-of-the-tests")
        yield server


@pytest.fixture(autouse=True)
def _own_environment(
    tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No test sees the home, the model folder or the keys of whoever runs it."""
    home = tmp_path_factory.mktemp("home")
    monkeypatch.setenv("HOME", str(home))
    for name in list(os.environ):
        if name.startswith(("KBSTORE_", "NOMIC_", "ATLAS_", "OPENAI_")):
            monkeypatch.delenv(name)
