"""The store: documents in, the right document out. The one writer of the documents.

Their words follow by trigger, their vectors by `vectors`.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from datetime import date
from typing import Any, Literal, Self

import apsw

from . import schema, search
from .connection import execute, load_vec0
from .document import (
    Document,
    Summary,
    check_note,
    check_path,
    content_hash,
    date_in_path,
    now,
    title_from_path,
)
from .embed import Embedder, release
from .errors import ConflictError, EmptyContentError, ModelError, NotFoundError
from .report import EmbedReport, PutReport, Status
from .session import Session
from .vectors import Progress, Vectors

_BULK = 100  # documents after which the full-text index is worth merging

Summaries = list[Summary]  # named here, since inside the class `list` is the method


class Store:
    """A knowledge base: documents in, the right document out.

    ``embedder``: ``"auto"`` takes the best model that is here, when it is first needed; None works
    by words only; anything with ``name``, ``fingerprint`` and ``embed()`` is taken as it is.

    One store may be used by several threads; they take turns. A model is never called inside a
    transaction, nor while another thread waits for the database.
    """

    def __init__(
        self,
        database: str | os.PathLike[str] | apsw.Connection,
        *,
        embedder: Embedder | Literal["auto"] | None = "auto",
        inference_mode: str | None = None,
        read_only: bool = False,
    ) -> None:
        self._owned = not isinstance(database, apsw.Connection)
        connection = (
            schema.adopt(database)
            if isinstance(database, apsw.Connection)
            else schema.connect(database, read_only=read_only)
        )
        self._session = Session(connection)
        self._vectors = Vectors(self._session, embedder, inference_mode)
        self._holds_model = embedder == "auto"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the file (not a connection that the host gave) and release the model."""
        if self._owned:
            self.connection.close()
        if self._holds_model:
            release()

    @property
    def connection(self) -> apsw.Connection:
        return self._session.connection

    # Documents

    def put(
        self,
        path: str,
        body: str,
        *,
        title: str | None = None,
        tags: Iterable[str] | None = None,
        description: str | None = None,
        created: str | date | None = None,
        updated: str | date | None = None,
        frontmatter: str | None = None,
        allow_empty: bool = False,
        embed: bool = True,
    ) -> PutReport:
        """Store a note, durably, before its vectors are made. An overwritten one goes into the
        history; what is not given of it stays, but for ``updated``; ``""`` takes it away.

        A new note without ``title`` has the file's name; ``updated`` is the day in a journal's
        name, else this moment. ``embed=False`` leaves it pending. If the model fails the note is
        stored all the same, found by words, and pending: the report says why.

        Raises InputError, EmptyContentError (blank text over a note that has some, unless
        ``allow_empty``), DatabaseError.
        """
        path = check_path(path)
        given = check_note(
            path,
            body,
            title=title,
            tags=tags,
            description=description,
            created=created,
            updated=updated,
            frontmatter=frontmatter,
        )
        with self._session.transaction():
            action, document_id = self._write(path, given, allow_empty)
        note = self._vectors.embed_one(document_id) if embed else None
        stored = self._find(path)  # None: another process has deleted it meanwhile
        return PutReport(path, action, stored is not None and stored.pending, note)

    def _write(
        self, path: str, given: dict[str, Any], allow_empty: bool
    ) -> tuple[Literal["created", "replaced", "unchanged"], int]:
        old = self._find(path)
        if not given["body"].strip() and not allow_empty and (old is None or old.body.strip()):
            done = "the stored one is kept; `kbstore rm` deletes it" if old else "nothing is stored"
            raise EmptyContentError(f"{path}: the text is empty; {done}")
        day = date_in_path(path) if path.startswith("journal/") else None
        fields: dict[str, Any] = {
            name: given[name] if given[name] is not None else getattr(old, name, None)
            for name in ("title", "tags", "description", "created", "frontmatter", "body")
        }
        fields["title"] = fields["title"] or title_from_path(path)
        fields["tags"] = fields["tags"] or ()
        fields["description"] = fields["description"] or ""
        fields["frontmatter"] = fields["frontmatter"] or None
        fields["created"] = fields["created"] or None
        same = old is not None and all(getattr(old, name) == fields[name] for name in fields)
        fields["updated"] = given["updated"] or day or (old.updated if same and old else now())
        if old is None and given["updated"] is None and given["created"] is None:
            fields["created"] = fields["created"] or fields["updated"]
        digest = content_hash(
            path, fields["title"], fields["tags"], fields["description"], fields["body"]
        )
        if old and same and fields["updated"] == old.updated:
            self._session.run("document_hash", id=old.id, content_hash=digest)
            return "unchanged", old.id
        fields |= {
            "tags": json.dumps(fields["tags"], ensure_ascii=False),
            "content_hash": digest,
        }
        if old is None:
            return "created", self._session.run("document_insert", path=path, **fields)[0][0]
        self._session.run("document_update", id=old.id, **fields)
        return "replaced", old.id

    def get(self, path: str) -> Document:
        """Raises NotFoundError, InputError."""
        path = check_path(path)
        document = self._find(path)
        if document is None:
            raise NotFoundError(f"there is no document {path}; `kbstore ls` lists them")
        return document

    def _find(self, path: str) -> Document | None:
        rows = self._session.run("document", path=path)
        if not rows:
            return None
        return Document(**_fields(_DOCUMENT, rows[0]))

    def __contains__(self, path: object) -> bool:
        return isinstance(path, str) and self._find(check_path(path)) is not None

    def delete(self, path: str) -> None:
        """Delete a document; its text stays in the history. Raises NotFoundError, InputError."""
        path = check_path(path)
        with self._session.transaction():
            self.get(path)
            self._session.run("document_delete", path=path)
            self._vectors.drain()

    def move(self, old: str, new: str) -> None:
        """Give a document another path, and title if that was its file's name; its vectors stay.

        Raises NotFoundError, ConflictError."""
        old, new = check_path(old), check_path(new)
        with self._session.transaction():
            document = self.get(old)
            if old != new and self._find(new):
                raise ConflictError(f"there is a document {new} already; {old} stays where it is")
            is_name = document.title == title_from_path(old)
            title = title_from_path(new) if is_name else document.title
            self._session.run("document_move", old=old, new=new, title=title)
            # The trigger has seen another title, but the content is the same.
            self._session.run("document_hash", id=document.id, content_hash=document.content_hash)

    def list(
        self, *, topic: str | None = None, type: str | None = None, tag: str | None = None
    ) -> Summaries:
        """All documents, or those below ``topic`` (a path), by path."""
        filters = search.parameters("", topic=topic, type=type, tag=tag)
        rows = self._session.run(
            "document_list", **{key: filters[key] for key in ("topic", "type", "tag")}
        )
        return [Summary(**_fields(_SUMMARY, row)) for row in rows]

    # Search

    def search(
        self,
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
    ) -> search.SearchResult:
        """Find documents; see ``sql/search.sql``. Never writes. Raises InputError, DatabaseError.

        What it had to do without (the extension, the model, vectors still to be made) stands in
        ``degraded``; it works by words all the same.
        """
        bindings = search.parameters(
            query, limit=limit, topic=topic, type=type, tag=tag, since=since, until=until,
            retrievers=retrievers, now=now,
        )  # fmt: skip
        degraded: list[str] = []
        model: Embedder | None = None
        chosen = bindings["retrievers"]
        vectors = not chosen or "vectors" in chosen
        if vectors and any(character.isalnum() for character in query):
            try:
                found = self._vectors.of_query(bindings["query"][:4_000])
                if found:
                    bindings["embedding"], model = found
                degraded += self._pending_note()
            except ModelError as error:
                degraded.append(f"searched by words only: {error}{self._pending_count()}")
        with self._session.snapshot():
            if model and self._session.setting("model") != model.fingerprint:
                bindings["embedding"] = model = None
                degraded.append(
                    "searched by words only: another model's vectors have just taken over"
                )
            hits = search.run(self.connection, bindings, vectors=bindings["embedding"] is not None)
        name = model.name if model else None
        return search.SearchResult(bindings["query"], hits, tuple(degraded), name)

    def _pending_note(self) -> tuple[str, ...]:
        """What has no vectors yet, or has some that the scan does not know yet."""
        notes = []
        pending = self._session.value("pending_count")
        if pending:
            error = self._session.value("last_failure")
            notes.append(
                f"{pending} of {self._session.value('document_count')} documents have no vectors"
                " yet"
                + (f" (last error: {error})" if error else "")
                + "; `kbstore embed` makes them"
            )
        queued = self._session.value("vector_queue_count")
        with self._session.reading():
            extension = load_vec0(self.connection) is None
        if queued and extension:
            notes.append(f"{queued} vectors are not indexed yet; `kbstore embed` does it")
        return tuple(notes)

    def _pending_count(self) -> str:
        pending = self._session.value("pending_count")
        documents = self._session.value("document_count")
        return f" ({pending} of {documents} documents have no vectors)" if pending else ""

    def embed(self, *, limit: int | None = None, progress: Progress | None = None) -> EmbedReport:
        """Make the vectors that are missing, newest documents first, committed as they come.

        May be killed and run again at any point. With a better model than the one whose vectors
        serve, it makes all of them anew beside the old, and switches when the last one is there.
        """
        report = self._vectors.embed_all(limit, progress)
        if report.documents + report.reused >= _BULK:
            self.optimize()
        return report

    def optimize(self) -> None:
        """Merge the full-text index into one segment, which makes every search cheaper."""
        with self._session.transaction():
            self._session.run("words_merge")

    # The file

    def status(self) -> Status:
        """Raises DatabaseError."""
        with self._session.reading():
            names = ("documents", "skills", "journals", "pending", "failed", "last_error")
            counts = dict(
                zip(
                    (*names, "passages", "questions", "versions"),
                    self._session.run("status")[0],
                    strict=True,
                )
            )
            file = self.connection.filename
            version = self.connection.pragma("user_version")
            problem = load_vec0(self.connection)
            extension = None if problem else execute(self.connection, "select vec_version()").get
        degraded = [problem] if problem else []
        available = None
        try:
            available = self._vectors.models()[0].name
            self._vectors.serving()
            degraded += self._pending_note()
        except ModelError as error:
            degraded.append(f"{error}{self._pending_count()}")
        return Status(
            path=file or ":memory:",
            schema_version=version,
            **counts,
            model=self._session.setting("model_name"),
            available_model=available,
            sqlite_vec=extension,
            size=os.stat(file).st_size if file else 0,
            degraded=tuple(degraded),
        )

    def source_files(self, root: str) -> dict[str, tuple[int, int, str, str]]:
        """The mirrored files of a folder: file -> (size, mtime_ns, hash of the file, document)."""
        return {row[0]: row[1:] for row in self._session.run("sources", root=root)}

    def source_roots(self) -> tuple[str, ...]:
        """The mirrored folders."""
        return tuple(row[0] for row in self._session.run("source_roots"))

    def source_of(self, path: str) -> tuple[str, str] | None:
        """The (folder, file) that a document is mirrored from."""
        rows = self._session.run("source_of", path=path)
        return rows[0] if rows else None

    def set_source_file(
        self, root: str, file: str, path: str, size: int, mtime_ns: int, hash: str
    ) -> None:
        with self._session.transaction():
            self._session.run(
                "source_update",
                root=root, file=file, path=path, size=size, mtime_ns=mtime_ns, hash=hash,
            )  # fmt: skip

    def forget_source_file(self, root: str, file: str) -> None:
        with self._session.transaction():
            self._session.run("source_delete", root=root, file=file)

    @contextmanager
    def batch(self) -> Iterator[None]:
        """Several writes in one transaction; all or nothing."""
        with self._session.transaction():
            yield


_DOCUMENT = (
    "id", "path", "title", "tags", "description", "body", "topic", "type", "created", "updated",
    "content_hash", "frontmatter", "pending",
)  # fmt: skip


_SUMMARY = (
    "path", "title", "tags", "topic", "type", "created", "updated", "characters", "passages",
    "questions", "pending",
)  # fmt: skip


def _fields(names: tuple[str, ...], row: tuple[Any, ...]) -> dict[str, Any]:
    fields = dict(zip(names, row, strict=True))
    tags = tuple(json.loads(fields["tags"]))
    return fields | {"tags": tags, "pending": bool(fields["pending"])}
