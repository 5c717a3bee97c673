"""Looks for damage in the file, and mends what can be derived again without a model.

The ordinary tables are the truth: words, vec0 tables, triggers and views are made anew from them.
What only a model or a person could make again (a damaged vector, a damaged text) is not guessed at:
the vector becomes pending, the text is named.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from typing import Any
from zlib import crc32

import apsw
import numpy as np

from . import queries, schema
from .connection import execute
from .document import Document, content_hash
from .errors import DatabaseError, KBError
from .report import Progress
from .store import Store

_FIRST = 1 << 30  # bytes of text and vectors that are read unless all are asked for


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
    if not fix or not report.findings:
        return report
    done = _Fix(store, report.findings).run()
    again = _Check(store, everything, progress).run()
    left = {(finding.kind, finding.what) for finding in again.findings}
    findings = tuple(
        Finding(
            found.kind,
            found.what,
            found.finding,
            "" if (found.kind, found.what) in left else done.get(found.kind, ""),
        )
        for found in report.findings
    )
    told = {(finding.kind, finding.what) for finding in findings}
    fresh = [finding for finding in again.findings if (finding.kind, finding.what) not in told]
    return CheckReport(again.documents, again.vectors, (*findings, *fresh), again.complete)


class _Check:
    def __init__(self, store: Store, everything: bool, progress: Progress | None) -> None:
        self._run = store.session.run
        self._connection = store.connection
        self._session = store.session
        self._most = None if everything else _FIRST
        self._progress = progress or (lambda done, of: None)
        self._findings: list[Finding] = []
        self._read = 0

    def run(self) -> CheckReport:
        with self._session.reading():
            steps: tuple[Callable[[], Any], ...] = (
                self._pages, self._structure, self._statement, self._words, self._vec0,
            )  # fmt: skip
            for step in steps:
                self._attempt("database", step.__name__.strip("_"), step)
            documents = self._attempt("database", "documents", self._texts) or 0
            vectors = self._attempt("database", "vectors", self._vectors) or 0
        complete = self._most is None or self._read < self._most
        return CheckReport(documents, vectors, tuple(self._findings), complete)

    def _found(self, kind: str, what: str, finding: str) -> None:
        self._findings.append(Finding(kind, what, finding))

    def _attempt(self, kind: str, what: str, step: Callable[[], Any]) -> Any:
        try:
            return step()
        except (apsw.Error, KBError) as error:
            self._found(kind, what, f"cannot be read: {_one_line(error)}")

    def _rows(self, statement: str) -> Iterator[tuple[Any, ...]]:
        yield from execute(self._connection, queries.named(statement))

    def _pages(self) -> None:
        for (message,) in self._rows("check_pages"):
            if message != "ok":
                # "malformed inverted index" and the like are of a virtual table: looked at below
                kind = "words" if "document_fts" in message else "database"
                self._found(kind, "pages", message)

    def _structure(self) -> None:
        fresh = apsw.Connection(":memory:")
        schema.adopt(fresh)
        wanted, there = _structure(fresh), _structure(self._connection)
        fresh.close()
        for (kind, name), sql in wanted.items():
            if (kind, name) not in there:
                self._found("structure", f"{kind} {name}", "it is missing")
            elif there[kind, name] != sql:
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
                break
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
        count = 0
        for kind in ("document", "question"):
            for row_id, path, blob, crc in self._rows(f"check_{kind}_embedding"):
                if self._full():
                    return count
                count += 1
                self._read += len(blob)
                vector = np.frombuffer(blob, np.float32)
                off = not np.isfinite(vector).all() or abs(float(np.linalg.norm(vector)) - 1) > 1e-3
                if off or (crc is not None and crc != crc32(blob)):
                    message = f"it is damaged (of {path})"
                    self._found("vector", f"{kind} vector {row_id}", message)
        return count

    def _full(self) -> bool:
        return self._most is not None and self._read >= self._most


class _Fix:
    """One way of mending for each kind of finding; none calls a model."""

    def __init__(self, store: Store, findings: tuple[Finding, ...]) -> None:
        self._store, self._session, self._findings = store, store.session, findings

    def run(self) -> dict[str, str]:
        """What was done, by kind. In an order in which each step can trust the ones before."""
        ways = {
            "structure": (self._structure, "triggers and views made anew"),
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
                try:
                    way()
                    done[kind] = words
                except DatabaseError:
                    continue  # the second look says what is left
        return done

    def _script(self, name: str) -> None:
        execute(self._store.connection, queries.read(name)).fetchall()

    def _structure(self) -> None:
        with self._session.transaction():
            self._script("triggers")
            self._script("views")

    def _settings(self) -> None:
        fresh = apsw.Connection(":memory:")
        schema.adopt(fresh)
        rows = execute(fresh, queries.named("settings")).fetchall()
        fresh.close()
        with self._session.transaction():
            for name, value in rows:
                self._session.run("setting_missing", name=name, value=value)

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
        with self._session.transaction():
            for finding in self._findings:
                found = re.fullmatch(r"(document|question) vector (\d+)", finding.what)
                if finding.kind == "vector" and found:
                    self._session.run(f"{found[1]}_embedding_delete", id=int(found[2]))
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
    return {
        (kind, name): re.sub(r"\s*([,\s])\s*", r"\1", re.sub("--.*", "", sql or ""))
        for kind, name, sql in rows
    }


def _one_line(error: BaseException) -> str:
    return " ".join(str(error).split())[:200] or type(error).__name__
