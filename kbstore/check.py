"""Looks for damage in the file: pages, structure, words, vec0 tables, vectors, texts."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any
from zlib import crc32

import apsw
import numpy as np

from . import queries, schema
from .connection import execute
from .document import Document, content_hash
from .errors import DatabaseError, KBError
from .repair import Repair, fresh_structure, plain, structure
from .report import CheckReport, Finding, Progress
from .store import Store

_FIRST = 1 << 30  # bytes of text and vectors that are read unless all are asked for

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
            done |= Repair(store, report.findings).run()
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
        derived = {
            "document_fts": "words",
            "question_fts": "words",
            "document_vec": "vec0",
            "hype_vec": "vec0",
        }
        kinds = [kind for table, kind in derived.items() if table in name]
        self._found(kinds[0] if kinds else "database", name, message)

    def _structure(self) -> None:
        there = structure(self._connection)
        for (kind, name), sql in fresh_structure().items():
            if (kind, name) not in there:
                self._found("structure", f"{kind} {name}", "it is missing")
            elif there[kind, name] != plain(sql):
                self._found("structure", f"{kind} {name}", "it is not as it should be")

    def _statement(self) -> None:
        for row in execute(self._connection, queries.read("check")):
            self._found(*row)

    def _words(self) -> None:
        for kind, name in (("document", "check_words"), ("question", "check_question_words")):
            try:
                execute(self._connection, queries.named(name)).fetchall()
            except apsw.ReadOnlyError:
                pass  # the index checks itself by a kind of write
            except apsw.Error as error:
                message = f"the full-text index does not agree with the texts: {_one_line(error)}"
                self._found("words", f"{kind}_fts", message)

    def _vec0(self) -> None:
        if not schema.ensure_vectors(self._connection):
            return
        for kind in ("document", "hype"):
            try:
                for look in (f"check_{kind}_vec_parts", f"check_{kind}_vec"):
                    if row := next(self._rows(look), None):
                        self._found("vec0", f"{kind}_vec {row[0]}", row[1])
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


def _one_line(error: BaseException) -> str:
    return " ".join(str(error).split())[:200] or type(error).__name__
