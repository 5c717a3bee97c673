"""How well the base finds its own notes, and which weights would find them better.

Without labels: every question that a note answers is a query whose note is known. It is held out of
the index for its own query, so it does not find itself. All runs are the one search statement, on
temporary tables that stand in for ranking and retriever: nothing in the file is changed.
"""

from __future__ import annotations

import csv
import io
import json
import random
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Any

from . import search
from .connection import load_vec0
from .document import clean
from .errors import InputError, ModelError, ModelUnavailableError
from .report import Progress
from .schema import ensure_vectors
from .store import Store

DEPTH = 10  # places of a result that count
FORMS: dict[str, tuple[str, ...] | None] = {
    "frontmatter": ("frontmatter",),
    "words": ("words",),
    "vectors": ("vectors",),
    "fused, unweighted": None,
    "default": None,
}
_SAMPLE = 500  # queries of a run
_FOLDS = 5


@dataclass(frozen=True, slots=True)
class Case:
    """A query, the notes that answer it, its vector, and the question that must not be searched."""

    query: str
    paths: frozenset[str]
    embedding: bytes | None
    question_id: int | None


@dataclass(frozen=True, slots=True)
class Measures:
    """Means over the queries, each from 0 to 1: recall@k is the share of queries whose note is
    among the first k (with several notes, the share of them), MRR@10 the mean of 1 / rank."""

    recall_1: float
    recall_5: float
    recall_10: float
    mrr_10: float


@dataclass(frozen=True, slots=True)
class Miss:
    """A query that went badly: the rank of its first note, None: not among the first 10."""

    query: str
    path: str
    rank: int | None
    first: str | None


@dataclass(frozen=True, slots=True)
class Evaluation:
    queries: int
    measures: dict[str, Measures]
    worst: tuple[Miss, ...]
    degraded: str | None = None

    def as_dict(self) -> dict[str, Any]:
        return {
            "queries": self.queries,
            "measures": {
                form: {name: getattr(m, name) for name in Measures.__slots__}
                for form, m in self.measures.items()
            },
            "worst": [{name: getattr(w, name) for name in Miss.__slots__} for w in self.worst],
            "degraded": self.degraded,
        }


@dataclass(frozen=True, slots=True)
class Tuning:
    """``weights`` are proposed for the table retriever. ``before`` and ``after`` are MRR@10 by
    cross-validation: each query is judged by weights that were chosen without it."""

    queries: int
    weights: dict[str, float]
    current: dict[str, float]
    before: float
    after: float
    better: bool  # the gain is more than chance (paired bootstrap, 95 %)

    def as_dict(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in Tuning.__slots__}


def read_queries(file: Path) -> list[tuple[str, frozenset[str]]]:
    """Labelled queries: JSON lines ({"query": …, "path": … or "paths": […]}), or CSV or TSV with
    the columns query and path; several lines of one query are several right answers.

    Raises InputError, which names the line.
    """
    try:
        text = file.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        raise InputError(f"{file}: not UTF-8 (byte {error.start})") from None
    labels: dict[str, set[str]] = {}
    for number, row in _rows(file, text):
        query, paths = row.get("query"), row.get("paths", row.get("path"))
        paths = paths if isinstance(paths, list) else [paths]
        texts = [text for text in (query, *paths) if isinstance(text, str) and text.strip()]
        if len(texts) != len(paths) + 1 or not paths:
            raise InputError(f"{file}, line {number}: a query and a path are needed")
        labels.setdefault(clean(texts[0]).strip(), set()).update(texts[1:])
    if not labels:
        raise InputError(f"{file} has no query in it")
    return [(query, frozenset(paths)) for query, paths in labels.items()]


def _rows(file: Path, text: str) -> Iterator[tuple[int, dict[str, Any]]]:
    if text.lstrip().startswith("{"):
        for number, line in enumerate(text.split("\n"), 1):
            if line.strip():
                try:
                    row = json.loads(line)
                except (ValueError, RecursionError) as error:
                    raise InputError(f"{file}, line {number}: not JSON: {error}") from None
                yield number, row if isinstance(row, dict) else {}
        return
    delimiter = "\t" if "\t" in text.split("\n", 1)[0] else ","
    reader = csv.DictReader(io.StringIO(text, newline=""), delimiter=delimiter)
    try:
        for row in reader:
            yield reader.line_num, row
    except csv.Error as error:
        raise InputError(f"{file}, line {reader.line_num}: {error}") from None


def cases(
    store: Store,
    labelled: Iterable[tuple[str, frozenset[str]]] | None = None,
    sample: int = _SAMPLE,
    seed: int = 0,
) -> tuple[list[Case], str | None]:
    """The queries of a run, ``sample`` at most, drawn with ``seed``; and why vectors are missing.

    Raises InputError where there is nothing to measure with.
    """
    if labelled is None:
        rows = store.session.run("held_out")
        if not rows:
            raise InputError(
                "there are no questions to measure with: `kbstore hype` has them written,"
                " `kbstore questions add` adds one, --queries FILE takes labelled ones"
            )
        chosen = _sample(rows, sample, seed)
        problem = _no_vectors(store)
        return [
            Case(text, frozenset({path}), None if problem else vector, question_id)
            for question_id, text, path, vector in chosen
        ], problem
    known = {summary.path for summary in store.list()}
    found, problem = list[Case](), None
    for query, paths in _sample(list(labelled), sample, seed):
        if not paths & known:
            raise InputError(f"{query!r}: there is no document {min(paths)}")
        vector = None
        if problem is None:
            try:
                made = store.vectors.of_query(query)
                vector = made[0] if made else None
            except ModelError as error:
                problem = str(error)
        found.append(Case(query, paths & known, vector, None))
    return found, problem


def _no_vectors(store: Store) -> str | None:
    with store.session.reading():
        if problem := load_vec0(store.connection):
            return problem
        ready = ensure_vectors(store.connection)
    return None if ready else "the vec0 tables are missing; `kbstore embed` makes them"


def evaluate(
    store: Store,
    labelled: Iterable[tuple[str, frozenset[str]]] | None = None,
    *,
    sample: int = _SAMPLE,
    worst: int = 10,
    progress: Progress | None = None,
) -> Evaluation:
    """Search for every query, by each retriever alone, fused, and with the weights of type and age.

    Raises InputError, DatabaseError.
    """
    chosen, problem = cases(store, labelled, sample)
    measures: dict[str, Measures] = {}
    misses: list[Miss] = []
    total = len(FORMS) * len(chosen)
    for index, (form, retrievers) in enumerate(FORMS.items()):
        results = []
        with _standing_in(store, ranking=form != "default"):
            for done, case in enumerate(chosen, 1):
                results.append(_paths(store, case, retrievers))
                if progress:
                    progress(index * len(chosen) + done, total)
        measures[form] = _measure(chosen, results)
        if form == "default":
            misses = [_miss(case, found) for case, found in zip(chosen, results, strict=True)]
    bad = [miss for miss in misses if miss.rank != 1]
    bad.sort(key=lambda miss: (-(miss.rank or DEPTH + 1), miss.query))
    return Evaluation(len(chosen), measures, tuple(bad[:worst]), problem)


def tune(
    store: Store,
    labelled: Iterable[tuple[str, frozenset[str]]] | None = None,
    *,
    sample: int = 200,
    progress: Progress | None = None,
) -> Tuning:
    """Propose weights for the retrievers; `apply` writes them.

    Raises InputError (fewer than 20 queries: too few to choose by), ModelUnavailableError (without
    vectors nothing can be said of their weight), DatabaseError.
    """
    chosen, problem = cases(store, labelled, sample)
    if problem:
        raise ModelUnavailableError(f"without vectors no weights are proposed: {problem}")
    if len(chosen) < 20:
        raise InputError(f"there are {len(chosen)} queries; to choose weights by, take 20 or more")
    current: dict[str, float] = dict(store.session.run("retriever_weights"))
    grid = _grid(current)
    table: list[list[float]] = []  # of each setting, 1 / rank of each query
    for index, weights in enumerate(grid):
        with _standing_in(store, weights=weights):
            table.append([_reciprocal(case, _paths(store, case, None)) for case in chosen])
        if progress:
            progress(index + 1, len(grid))
    folds = [list(range(len(chosen)))[fold::_FOLDS] for fold in range(_FOLDS)]
    after = [0.0] * len(chosen)
    for fold in folds:
        rest = [i for i in range(len(chosen)) if i not in set(fold)]
        best = _best(table, rest)
        for i in fold:
            after[i] = table[best][i]
    gains = [new - old for new, old in zip(after, table[0], strict=True)]
    return Tuning(
        len(chosen),
        grid[_best(table, range(len(chosen)))],
        current,
        fmean(table[0]),
        fmean(after),
        _low(gains) > 0,
    )


def apply(store: Store, weights: dict[str, float]) -> None:
    """Write what `tune` has proposed. Raises DatabaseError."""
    with store.session.transaction():
        for name, weight in weights.items():
            store.session.run("retriever_weight_update", name=name, weight=weight)


def _grid(current: dict[str, float]) -> list[dict[str, float]]:
    """The weights to try, the current ones first; the heaviest list keeps its weight, since only
    the ratios matter."""
    grid = [current]
    for vectors in (0.25, 0.5, 0.75, 1.0):
        for words in (0.25, 0.5, 0.75, 1.0):
            for frontmatter in (0.5, 1.0):
                if 1.0 in (vectors, words):
                    grid.append({"frontmatter": frontmatter, "vectors": vectors, "words": words})
    return grid


def _best(table: Sequence[Sequence[float]], queries: Iterable[int]) -> int:
    queries = list(queries)
    # The first, which is the current one, where nothing is better.
    return max(range(len(table)), key=lambda s: (fmean(table[s][i] for i in queries), -s))


def _low(gains: Sequence[float], rounds: int = 2_000) -> float:
    """The lower end of the 95 % interval of the mean, by bootstrap (Efron, 1979)."""
    draw = random.Random(0)
    means = sorted(fmean(draw.choices(gains, k=len(gains))) for _ in range(rounds))
    return means[int(rounds * 0.025)]


def _paths(store: Store, case: Case, retrievers: tuple[str, ...] | None) -> list[str]:
    bindings = search.parameters(case.query, limit=DEPTH, retrievers=retrievers)
    bindings["embedding"] = case.embedding
    store.session.run("hold_out", id=case.question_id)
    hits, _ = search.run(store.connection, bindings, vectors=case.embedding is not None)
    return [hit.path for hit in hits]


@contextmanager
def _standing_in(
    store: Store, *, ranking: bool = False, weights: dict[str, float] | None = None
) -> Iterator[None]:
    """Other weights for a while, in temporary tables, which hide those of the file."""
    made = []
    with store.session.reading():
        try:
            store.session.run("stand_in_question")
            made.append("stand_in_question_drop")
            if ranking:
                store.session.run("stand_in_ranking")
                made.append("stand_in_ranking_drop")
            if weights is not None:
                store.session.run("stand_in_retriever", weights=json.dumps(weights))
                made.append("stand_in_retriever_drop")
            yield
        finally:
            for name in made:
                store.session.run(name)


def _measure(chosen: Sequence[Case], results: Sequence[Sequence[str]]) -> Measures:
    def recall(k: int) -> float:
        shares = [
            len(case.paths & set(found[:k])) / min(k, len(case.paths))
            for case, found in zip(chosen, results, strict=True)
        ]
        return fmean(shares)

    reciprocal = fmean(map(_reciprocal, chosen, results))
    return Measures(recall(1), recall(5), recall(10), reciprocal)


def _reciprocal(case: Case, found: Sequence[str]) -> float:
    return next((1 / rank for rank, path in enumerate(found, 1) if path in case.paths), 0.0)


def _miss(case: Case, found: Sequence[str]) -> Miss:
    reciprocal = _reciprocal(case, found)
    first = found[0] if found else None
    return Miss(case.query, min(case.paths), round(1 / reciprocal) if reciprocal else None, first)


def _sample(items: Sequence[Any], size: int, seed: int) -> list[Any]:
    if len(items) <= size:
        return list(items)
    return random.Random(seed).sample(list(items), size)
