"""Looks for damage in the file, and mends what can be derived again without a model.

The ordinary tables are the truth: words, vec0 tables, triggers and views are made anew from them.
What only a model or a person could make again (a damaged vector, a damaged text) is not guessed at:
the vector becomes pending, the text is named.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from typing import Any
from zlib import crc32

import apsw
import numpy as np

from . import queries, schema
from .connection import execute, transaction
from .document import Document, content_hash
from .errors import DatabaseError, KBError
from .report import Progress
from .store import Store

_FIRST = 1 << 30  # bytes of text and vectors that are read unless all are asked for

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

_VECTOR_IDS = {
    "document": "select e.id, d.path from document_embedding e"
    " left join document d on d.id = e.document_id",
    "question": "select e.rowid, d.path from question_embedding e"
    " left join question q on q.id = e.question_id left join document d on d.id = q.document_id",
}
_VECTOR = {
    "document": "select embedding from document_embedding where id = ?",
    "question": "select embedding from question_embedding where rowid = ?",
}


@dataclass(frozen=True, slots=True)
class Finding:
    """``kind``: database, structure, orphan, words, vec0, vector, text, model or setting; ``done``:
    how it was mended, "" where it was not."""

    kind: str
    what: str
    finding: str
    done: str = ""


@dataclass(frozen=True, slots=True)
class CheckReport:
    """``complete`` is false where the file is larger than what was read of it."""

    documents: int
    vectors: int
    findings: tuple[Finding, ...]
    complete: bool = True

    def as_dict(self) -> dict[str, Any]:
        return asdict(self) | {"findings": [asdict(finding) for finding in self.findings]}


def check(
    store: Store, *, fix: bool = False, everything: bool = False, progress: Progress | None = None
) -> CheckReport:
    """Check the pages, the structure, the words, the vectors and the texts; ``fix`` mends.

    Reads the first gigabyte of texts and vectors; ``everything`` reads all. With ``fix`` it looks
    again afterwards: what it says is mended has been seen to be so.

    Raises DatabaseError, where the file cannot even be opened.
    """
    report = _Check(store, everything, progress).run()
    found, done = dict.fromkeys(report.findings), dict[str, str]()
    for _ in range(2 if fix else 0):  # what can be read again may show more
        if report.findings:
            done |= _Fix(store, report.findings).run()
            report = _Check(store, everything, progress).run()
            found |= dict.fromkeys(report.findings)
    left = {(finding.kind, finding.what) for finding in report.findings}
    findings = tuple(
        finding
        if (finding.kind, finding.what) in left
        else replace(finding, done=done.get(finding.kind, "mended with the rest"))
        for finding in found
    )
    return replace(report, findings=findings)


class _Check:
    def __init__(self, store: Store, everything: bool, progress: Progress | None) -> None:
        self._run = store.session.run
        self._connection = store.connection
        self._session = store.session
        self._most = None if everything else _FIRST
        self._progress = progress or (lambda done, of: None)
        self._findings: list[Finding] = []
        self._read = 0
        self._complete = True

    def run(self) -> CheckReport:
        with self._session.reading():
            steps: tuple[Callable[[], Any], ...] = (
                self._pages, self._structure, self._statement, self._words, self._vec0,
            )  # fmt: skip
            for step in steps:
                self._attempt("database", step.__name__.strip("_"), step)
            documents = self._attempt("database", "documents", self._texts) or 0
            vectors = self._attempt("database", "vectors", self._vectors) or 0
        return CheckReport(documents, vectors, tuple(self._findings), self._complete)

    def _found(self, kind: str, what: str, finding: str) -> None:
        self._findings.append(Finding(kind, what, finding))

    def _attempt(self, kind: str, what: str, step: Callable[[], Any]) -> Any:
        try:
            return step()
        except (apsw.Error, KBError, UnicodeDecodeError) as error:
            self._found(kind, what, f"cannot be read: {_one_line(error)}")

    def _rows(self, statement: str) -> Iterator[tuple[Any, ...]]:
        yield from execute(self._connection, queries.named(statement))

    def _pages(self) -> None:
        for (message,) in self._rows("check_pages"):
            for line in message.splitlines():
                if line != "ok" and not line.startswith("***"):
                    self._page(line)

    def _page(self, message: str) -> None:
        """Under the name of the table or index that the page belongs to, if it is known."""
        name = "pages"
        if tree := re.match(r"Tree (\d+) ", message):
            statement = "select name from sqlite_schema where rootpage = ?"
            name = execute(self._connection, statement, (int(tree[1]),)).get or name
        elif index := re.search(r"(?:index |table main\.|table \")(\w+)", message):
            name = index[1]
        derived = {"document_fts": "words", "document_vec": "vec0", "hype_vec": "vec0"}
        kinds = [kind for table, kind in derived.items() if table in name]
        self._found(kinds[0] if kinds else "database", name, message)

    def _structure(self) -> None:
        there = _structure(self._connection)
        for (kind, name), sql in _fresh().items():
            if (kind, name) not in there:
                self._found("structure", f"{kind} {name}", "it is missing")
            elif there[kind, name] != _plain(sql):
                self._found("structure", f"{kind} {name}", "it is not as it should be")

    def _statement(self) -> None:
        for row in execute(self._connection, queries.read("check")):
            self._found(*row)

    def _words(self) -> None:
        try:
            execute(self._connection, queries.named("check_words")).fetchall()
        except apsw.ReadOnlyError:
            pass  # the index checks itself by a kind of write
        except apsw.Error as error:
            message = f"the full-text index does not agree with the texts: {_one_line(error)}"
            self._found("words", "document_fts", message)

    def _vec0(self) -> None:
        if not schema.ensure_vectors(self._connection):
            return
        for kind in ("document", "hype"):
            try:
                for row_id, finding in self._rows(f"check_{kind}_vec"):
                    self._found("vec0", f"{kind}_vec {row_id}", finding)
                    break  # one tells that the table is to be made anew
            except apsw.Error as error:
                self._found("vec0", f"{kind}_vec", f"cannot be read: {_one_line(error)}")

    def _texts(self) -> int:
        """Document by document, so that a damaged page costs only those that are on it."""
        paths = [row[0] for row in execute(self._connection, queries.named("document_paths"))]
        for number, path in enumerate(paths, 1):
            if self._full():
                return number - 1
            self._progress(number, len(paths))
            try:
                row = self._run("document", path=path)[0]
                document = Document.of_row(row)
            except (apsw.Error, DatabaseError, ValueError, IndexError) as error:
                self._found("text", path, f"it cannot be read: {_one_line(error)}")
                continue
            self._read += len(document.body)
            names = ("path", "title", "tags", "description", "body")
            actual = content_hash(**{name: getattr(document, name) for name in names})
            if document.content_hash != actual:
                message = "its text is not that of its content hash: damaged, or changed by force"
                self._found("text", path, message)
        return len(paths)

    def _vectors(self) -> int:
        return sum(map(self._vectors_of, ("document", "question")))

    def _vectors_of(self, kind: str) -> int:
        count = 0
        try:
            for row_id, path, blob, crc in self._rows(f"check_{kind}_embedding"):
                if self._full():
                    break
                count += 1
                self._read += len(blob)
                vector = np.frombuffer(blob, np.float32)
                off = not np.isfinite(vector).all() or abs(float(np.linalg.norm(vector)) - 1) > 1e-3
                if off or (crc is not None and crc != crc32(blob)):
                    message = f"it is damaged (of {path})"
                    self._found("vector", f"{kind} vector {row_id}", message)
        except apsw.CorruptError:
            self._unreadable(kind)
        return count

    def _unreadable(self, kind: str) -> None:
        """One by one, by the ids that the indexes still have."""
        for row_id, path in execute(self._connection, _VECTOR_IDS[kind]).fetchall():
            try:
                execute(self._connection, _VECTOR[kind], (row_id,)).fetchall()
            except apsw.CorruptError:
                self._found("vector", f"{kind} vector {row_id}", f"it cannot be read (of {path})")

    def _full(self) -> bool:
        full = self._most is not None and self._read >= self._most
        self._complete &= not full
        return full


class _Fix:
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
            "words": (self._words, "full-text index made anew from the texts"),
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
                ours = _structure(fresh) | {("table", "sqlite_sequence"): ""}
                rows: list[Any] = execute(old, queries.named("structure")).fetchall()
                own = [(kind, str(sql)) for kind, name, sql in rows if (kind, name) not in ours]
                with transaction(fresh):
                    for sql in [sql for kind, sql in own if kind == "table"]:
                        execute(fresh, sql).fetchall()
                    tables: list[Any] = execute(fresh, _COPY).fetchall()
                    for name, reading, writing in tables:
                        kept = name in _KEPT or ("table", name) not in ours
                        with suppress(*(() if kept else (apsw.CorruptError, apsw.SQLError))):
                            for row in execute(old, reading):
                                execute(fresh, writing, row)
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
        wanted, there = _fresh(), _structure(self._store.connection)
        with self._session.transaction():
            for (kind, name), sql in wanted.items():
                if kind != "table" and _plain(sql) != there.get((kind, name)):
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

    def _vectors(self) -> None:
        for finding in self._findings:
            found = re.fullmatch(r"(document|question) vector (\d+)", finding.what)
            if finding.kind == "vector" and found:
                with suppress(DatabaseError):  # its page cannot be read at all
                    self._session.run(f"{found[1]}_embedding_delete", id=int(found[2]))
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
        with self._session.transaction():
            self._store.vectors.drain()


def _structure(connection: apsw.Connection) -> dict[tuple[str, str], str]:
    rows = execute(connection, queries.named("structure"))
    return {(kind, name): _plain(sql or "") for kind, name, sql in rows}


def _plain(sql: str) -> str:
    return re.sub(r"\s*([,\s])\s*", r"\1", re.sub("--.*", "", sql))


def _fresh() -> dict[tuple[str, str], str]:
    """The structure of a new file, in the order in which it is made."""
    connection = apsw.Connection(":memory:")
    schema.adopt(connection)
    rows: list[Any] = execute(connection, queries.named("structure")).fetchall()
    connection.close()
    order = ("table", "view", "index", "trigger")
    rows.sort(key=lambda row: order.index(row[0]))
    return {(kind, name): sql for kind, name, sql in rows}


def _one_line(error: BaseException) -> str:
    return " ".join(str(error).split())[:200] or type(error).__name__
