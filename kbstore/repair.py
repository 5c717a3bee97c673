"""Mends what can be derived again without a model: from the ordinary tables, which are the truth.

What only a model or a person could make again (a damaged vector, a damaged text) is not guessed at:
the vector becomes pending, the text is named.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import apsw

from . import queries, schema
from .connection import execute, transaction
from .errors import DatabaseError
from .report import Finding
from .store import Store

# Tables that hold what is nowhere else: without every row of them nothing is made anew.
_KEPT = ("document", "document_version", "question")

# How to copy each table that is not derived; the documents early, the limits of the history last
_COPY = """
select t.name,
  'select ' || group_concat('"' || c.name || '"') || ' from "' || t.name || '"',
  'insert or replace into "' || t.name || '" (' || group_concat('"' || c.name || '"')
    || ') values (' || group_concat('?') || ')'
from pragma_table_list t join pragma_table_info(t.name) c
where t.schema = 'main' and t.type = 'table'
  and t.name not in ('sqlite_schema', 'document_segmented', 'vector_queue', 'kb_help')
group by t.name
order by t.name <> 'sqlite_sequence', t.name <> 'document', t.name = 'setting', t.name
"""


class Repair:
    """One way of mending for each kind of finding; none calls a model."""

    def __init__(self, store: Store, findings: tuple[Finding, ...]) -> None:
        self._store, self._session, self._findings = store, store.session, findings

    def run(self) -> dict[str, str]:
        """What was done, by kind. In an order in which each step can trust the ones before."""
        ways = {
            "database": (self._anew, "made anew from all that can be read"),
            "structure": (self._structure, "made anew"),
            "setting": (self._settings, "set to what a new file has"),
            "orphan": (self._orphans, "deleted"),
            "words": (self._words, "the full-text indexes are made anew from the texts"),
            "vector": (self._vectors, "deleted; `kbstore embed` makes it anew"),
            "text": (self._texts, "its vectors are pending; older texts: `kbstore history`"),
            "model": (self._model, "the model of the newest vectors serves"),
            "vec0": (self._vec0, "made anew from the vectors"),
        }
        kinds = {finding.kind for finding in self._findings}
        done = {}
        for kind, (way, words) in ways.items():
            if kind in kinds:
                with suppress(DatabaseError):  # the second look says what is left
                    way()
                    done[kind] = words
        return done

    def _anew(self) -> None:
        """Row by row into a new file, whose content then takes this one's place. Only where no text
        is lost; what has no vectors any more is pending."""
        old, fresh = self._store.connection, apsw.Connection("")  # a temporary file
        try:
            with self._session.reading():
                version = old.pragma("data_version")
                fresh.pragma("page_size", old.pragma("page_size"))
                schema.adopt(fresh)
                fresh.pragma("foreign_keys", False)
                ours = structure(fresh) | {("table", "sqlite_sequence"): ""}
                rows: list[Any] = execute(old, queries.named("structure")).fetchall()
                own = [(kind, str(sql)) for kind, name, sql in rows if (kind, name) not in ours]
                with transaction(fresh):
                    for sql in [sql for kind, sql in own if kind == "table"]:
                        execute(fresh, sql).fetchall()
                    tables: list[Any] = execute(fresh, _COPY).fetchall()
                    for name, reading, writing in tables:
                        kept = name in _KEPT or ("table", name) not in ours
                        with suppress(*(() if kept else (apsw.CorruptError, apsw.SQLError))):
                            _copy(old, fresh, name, reading, writing, kept)
                    for sql in [sql for kind, sql in own if kind != "table"]:
                        execute(fresh, sql).fetchall()
                if old.pragma("data_version") != version:
                    raise DatabaseError("another process has written meanwhile")
                with old.backup("main", fresh, "main") as work:
                    while not work.done:
                        work.step(-1)
        finally:
            fresh.close()
        self._vec0()

    def _structure(self) -> None:
        wanted, there = fresh_structure(), structure(self._store.connection)
        with self._session.transaction():
            for (kind, name), sql in wanted.items():
                if kind != "table" and plain(sql) != there.get((kind, name)):
                    for statement in (f"drop {kind} if exists {name}", sql):
                        execute(self._store.connection, statement).fetchall()
            for name in ("triggers", "views"):
                execute(self._store.connection, queries.read(name)).fetchall()
        if any(kind == "table" and (kind, name) not in there for kind, name in wanted):
            self._anew()

    def _settings(self) -> None:
        fresh = apsw.Connection(":memory:")
        schema.adopt(fresh)
        rows = execute(fresh, queries.named("settings")).fetchall()
        fresh.close()
        with self._session.transaction():
            wrong = {found.what for found in self._findings if found.kind == "setting"}
            for name, value in rows:
                self._session.run("setting_missing", name=name, value=value)
                if name in wrong:
                    self._session.set(name, value)

    def _orphans(self) -> None:
        with self._session.transaction():
            for name in (
                "orphan_question", "orphan_question_embedding", "orphan_document_embedding",
                "orphan_questioned", "orphan_failure", "orphan_source_file", "orphan_segmented",
            ):  # fmt: skip
                self._session.run(name)
            self._store.vectors.drain()

    def _words(self) -> None:
        with self._session.transaction():
            self._session.run("segmented_clear")
            self._session.run("segmented_fill")
            self._session.run("words_rebuild")
            # This one has its own copy of the texts, which may be what is damaged.
            for sql in ("drop table question_fts", fresh_structure()["table", "question_fts"]):
                execute(self._store.connection, sql).fetchall()
            self._session.run("question_words")

    def _vectors(self) -> None:
        for finding in self._findings:
            found = re.fullmatch(r"(document|question) vector (\d+)", finding.what)
            if finding.kind == "vector" and found:
                path = finding.finding.partition(" (of ")[2][:-1]
                with suppress(DatabaseError):  # its page cannot be read at all
                    self._session.run(f"{found[1]}_embedding_lost", id=int(found[2]), path=path)
        with self._session.transaction():
            self._store.vectors.drain()

    def _texts(self) -> None:
        with self._session.transaction():
            for finding in self._findings:
                if finding.kind == "text" and "content hash" in finding.finding:
                    self._session.run("document_hash_unknown", path=finding.what)

    def _model(self) -> None:
        with self._session.transaction():
            self._session.run("model_of_newest")
            self._session.run("vector_queue_all")
            self._store.vectors.drain()

    def _vec0(self) -> None:
        schema.rebuild_vectors(self._store.connection)


def _copy(
    old: apsw.Connection, fresh: apsw.Connection, name: str, reading: str, writing: str, whole: bool
) -> None:
    """All rows in place of those that a new file has; of a damaged table those that can be read."""
    try:
        with fresh:
            execute(fresh, f'delete from "{name}"')
            for row in execute(old, reading):
                execute(fresh, writing, row)
    except apsw.CorruptError:
        if whole:
            raise
        for row in _readable(old, reading.replace("select ", "select rowid, ", 1)):
            execute(fresh, writing, row)


def _readable(connection: apsw.Connection, reading: str) -> Iterator[tuple[Any, ...]]:
    """The rows on both sides of the damaged pages, and between them one by one."""
    rows: dict[int, tuple[Any, ...]] = {}
    ends = []
    for order in ("asc", "desc"):
        ends.append(0)
        with suppress(apsw.CorruptError):
            for row in execute(connection, f"{reading} order by rowid {order}"):
                rows[row[0]] = row[1:]
                ends[-1] = row[0]
    for row_id in range(ends[0] + 1, ends[1]):
        with suppress(apsw.CorruptError):
            for row in execute(connection, f"{reading} where rowid = ?", (row_id,)):
                rows[row_id] = row[1:]
    yield from rows.values()


def structure(connection: apsw.Connection) -> dict[tuple[str, str], str]:
    rows = execute(connection, queries.named("structure"))
    return {(kind, name): plain(sql or "") for kind, name, sql in rows}


def plain(sql: str) -> str:
    return re.sub(r"\s*([,\s])\s*", r"\1", re.sub("--.*", "", sql))


def fresh_structure() -> dict[tuple[str, str], str]:
    """The structure of a new file, in the order in which it is made."""
    connection = apsw.Connection(":memory:")
    schema.adopt(connection)
    rows: list[Any] = execute(connection, queries.named("structure")).fetchall()
    connection.close()
    order = ("table", "view", "index", "trigger")
    rows.sort(key=lambda row: order.index(row[0]))
    return {(kind, name): sql for kind, name, sql in rows}
