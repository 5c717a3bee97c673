"""Runs the search statement, which is in SQL whole: checks its parameters, names its columns."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import date
from typing import Any, NamedTuple

import apsw

from . import queries
from .connection import execute, load_vec0
from .document import clean, parse_date
from .errors import InputError

RETRIEVERS = ("frontmatter", "words", "vectors")
TYPES = ("kb", "skill", "journal")
MAX_LIMIT = 100_000


_PLAIN = (
    "path", "title", "tags", "type", "topic", "updated", "score", "snippet", "type_weight",
    "recency", "rank_without_age", "matched_question",
)  # fmt: skip


class Evidence(NamedTuple):
    """What one retriever says of a document: its rank (from 1), its own score, and what it adds."""

    rank: int
    score: float
    contribution: float


@dataclass(frozen=True, slots=True)
class Hit:
    """A document found. score = type_weight * recency * the sum of the contributions;
    ``rank_without_age`` is where it would stand if nothing decayed."""

    path: str
    title: str
    tags: tuple[str, ...]
    type: str
    topic: str
    updated: str | None
    score: float
    snippet: str
    type_weight: float
    recency: float
    rank_without_age: int
    matched_question: str | None
    frontmatter: Evidence | None
    words: Evidence | None
    vectors: Evidence | None

    def as_dict(self) -> dict[str, Any]:
        evidence = {name: getattr(self, name) for name in RETRIEVERS}
        return {
            **{name: getattr(self, name) for name in _PLAIN},
            "tags": list(self.tags),
            "retrievers": {name: e and e._asdict() for name, e in evidence.items()},
        }


@dataclass(frozen=True, slots=True)
class SearchResult:
    """The hits, best first; ``degraded`` says what the search had to do without, ``model`` whose
    vectors it used (None: none); ``displaced`` are paths that would be among the first three, but
    for their age."""

    query: str
    hits: tuple[Hit, ...]
    degraded: tuple[str, ...]
    model: str | None
    displaced: tuple[str, ...] = ()

    def __iter__(self) -> Iterator[Hit]:
        return iter(self.hits)

    def __len__(self) -> int:
        return len(self.hits)

    def as_dict(self) -> dict[str, Any]:
        return {
            "query": self.query,
            "hits": [hit.as_dict() for hit in self.hits],
            "degraded": list(self.degraded),
            "model": self.model,
            "displaced": list(self.displaced),
        }


def parameters(
    query: str,
    *,
    limit: int = 10,
    topic: str | None = None,
    type: str | None = None,
    tag: str | None = None,
    since: str | date | None = None,
    until: str | date | None = None,
    retrievers: Iterable[str] | None = None,
    now: str | date | None = None,
) -> dict[str, Any]:
    """The statement's parameters, checked; the embedding is added by the caller.

    Raises InputError.
    """
    if not isinstance(query, str):
        raise InputError("the query must be a text")
    if not 1 <= limit <= MAX_LIMIT:
        raise InputError(f"limit is {limit}; it must be from 1 to {MAX_LIMIT}")
    if type is not None and type not in TYPES:
        raise InputError(f"type is {type!r}; it must be one of {', '.join(TYPES)}")
    chosen = None if retrievers is None else list(retrievers)
    for name in chosen or ():
        if name not in RETRIEVERS:
            raise InputError(f"there is no retriever {name!r}; there are {', '.join(RETRIEVERS)}")
    dates = {"since": since, "until": until, "now": now}
    for name, value in dates.items():
        if value is not None:
            dates[name] = parse_date(value) if isinstance(value, str | date) else None
            if dates[name] is None:
                raise InputError(f"{name} is {value!r}, not a date such as 2026-12-01")
    return {
        "query": clean(query),
        "embedding": None,
        "limit": limit,
        "topic": clean(topic).strip("/") or None if topic is not None else None,
        "type": type,
        "tag": None if tag is None else clean(tag),
        "retrievers": ",".join(chosen) if chosen else None,
        **dates,
    }


def run(
    connection: apsw.Connection, bindings: dict[str, Any], *, vectors: bool
) -> tuple[tuple[Hit, ...], tuple[str, ...]]:
    """Run the statement; without ``vectors`` the form of it that needs no extension. The hits, and
    the paths that their age has displaced."""
    cursor = execute(
        connection, queries.statement("search" if vectors else "search_words"), bindings
    )
    names = None
    rows = []
    for row in cursor:
        names = names or [column[0] for column in cursor.get_description()]
        rows.append(dict(zip(names, row, strict=True)))
    displaced = json.loads(rows[0]["displaced"] or "[]") if rows else []
    return tuple(map(_hit, rows)), tuple(displaced)


def diversify(
    connection: apsw.Connection, hits: tuple[Hit, ...], mmr: float, limit: int
) -> tuple[tuple[Hit, ...], str | None]:
    """The ``limit`` hits that together say most, by maximal marginal relevance; and why not."""
    if problem := load_vec0(connection):
        return hits[:limit], f"not diversified: {problem}"
    given = json.dumps([[hit.path, hit.score] for hit in hits])
    bindings = {"hits": given, "lambda": mmr, "limit": limit}
    by_path = {hit.path: hit for hit in hits}
    rows = execute(connection, queries.statement("mmr"), bindings)
    return tuple(by_path[path] for _, path, *_ in rows), None


def _hit(row: dict[str, Any]) -> Hit:
    def evidence(name: str) -> Evidence | None:
        values = tuple(row[f"{name}_{field}"] for field in Evidence._fields)
        return None if values[0] is None else Evidence(*values)

    fields: dict[str, Any] = {name: row[name] for name in _PLAIN}
    fields["tags"] = tuple(json.loads(row["tags"]))
    fields |= {name: evidence(name) for name in RETRIEVERS}
    return Hit(**fields)
