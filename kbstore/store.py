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
from .errors import (
    ConflictError,
    EditConflictError,
    EmptyContentError,
    InputError,
    ModelError,
    NotFoundError,
)
from .hype import Generator
from .questions import PARALLEL, Questions
from .report import EmbedReport, HypeReport, Progress, PutReport, Status
from .session import Session
from .sources import Sources
from .state import State
from .vectors import Vectors

_BULK = 100  # documents after which the full-text index is worth merging

Action = Literal["created", "replaced", "unchanged"]
Summaries = list[Summary]  # named here, since inside the class `list` is the method


class Store:
    """A knowledge base: documents in, the right document out.

    ``embedder``: ``"auto"`` takes the best model that is here, when it is first needed; None works
    by words only; anything with ``name``, ``fingerprint`` and ``embed()`` is taken as it is.

    ``hype``: the LLM that writes questions, by its litellm name; ``"auto"`` takes that of
    KBSTORE_HYPE_MODEL or the setting hype_model, if there is one; None makes no call; anything with
    ``name`` and ``questions()`` is taken as it is.

    One store may be used by several threads; they take turns. A model is never called inside a
    transaction, nor while another thread waits for the database.
    """

    def __init__(
        self,
        database: str | os.PathLike[str] | apsw.Connection,
        *,
        embedder: Embedder | Literal["auto"] | None = "auto",
        inference_mode: str | None = None,
        hype: Generator | Literal["auto"] | str | None = "auto",
        read_only: bool = False,
    ) -> None:
        self._owned = not isinstance(database, apsw.Connection)
        connection = (
            schema.adopt(database)
            if isinstance(database, apsw.Connection)
            else schema.connect(database, read_only=read_only)
        )
        self.session = Session(connection)
        self.vectors = Vectors(self.session, embedder, inference_mode)
        self.questions = Questions(self.session, self.vectors, hype)
        self.sources = Sources(self.session)
        self._state = State(self.session, self.vectors, self.questions)
        self._holds_model = embedder == "auto"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the file (not a connection that the host gave) and release the model."""
        if self._owned and self.session.is_ours:
            self.connection.close()
        if self._holds_model:
            release()

    @property
    def connection(self) -> apsw.Connection:
        return self.session.connection

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
        expected_hash: str | None = None,
        hype: bool = True,
        defer: bool = False,
    ) -> PutReport:
        """Store a note, durably; then make its vectors; then have its questions written, where an
        LLM is set. An overwritten note goes into the history; what is not given of it stays, but
        for ``updated``; ``""`` takes it away.

        A new note without ``title`` has the file's name; ``updated`` is the day in a journal's
        name, else this moment. ``hype=False`` asks no LLM, ``defer=True`` calls no model at all:
        `embed` and `hype` do it later. If a model fails the note is stored all the same, found by
        words, and pending: the report says why.

        ``expected_hash``, the content hash of the version that the caller has read ("": none), is
        for edits by several hands: a document that has changed since is left as it is.

        Raises InputError, EmptyContentError (blank text over a note that has some, unless
        ``allow_empty``), EditConflictError, DatabaseError.
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
        with self.session.transaction():
            self._expect(path, expected_hash)
            action, document_id = self._write(path, given, allow_empty)
        return self._follow(path, action, document_id, hype and not defer, defer)

    def append(
        self,
        path: str,
        text: str,
        *,
        title: str | None = None,
        tags: Iterable[str] | None = None,
        hype: bool = True,
        defer: bool = False,
    ) -> PutReport:
        """Add ``text`` to the end of a note, after a blank line, or make the note. Two that append
        at once both get in. ``title`` and ``tags`` are for a new note; else as `put`.
        """
        path = check_path(path)
        given = check_note(path, text, title=title, tags=tags)
        if not text.strip():
            raise EmptyContentError(f"{path}: the text is empty; nothing is added")
        with self.session.transaction():
            old = self._find(path)
            if old is not None:
                between = "\n\n" if old.body.strip() else ""
                body = f"{old.body.rstrip()}{between}{text}"
                given = check_note(path, body)
            action, document_id = self._write(path, given, False)
        return self._follow(path, action, document_id, hype and not defer, defer)

    def _expect(self, path: str, expected: str | None) -> None:
        if expected is None:
            return
        old = self._find(path)
        current = old.content_hash if old else ""
        if current != expected:
            now = (
                f"it is {current[:12]} of {old.updated or 'unknown date'}" if old else "it is gone"
            )
            was = f"version {expected[:12]}" if expected else "no document"
            raise EditConflictError(
                f"{path} has changed: {was} was expected, there is {now}; read it again and"
                " repeat the edit",
                expected,
                current,
            )

    def _follow(
        self, path: str, action: Action, document_id: int, hype: bool, defer: bool
    ) -> PutReport:
        """What the models have to do after a note was written."""
        notes = [] if defer else [self.vectors.embed_one(document_id)]
        if hype:
            notes.append(self.questions.ask_one(document_id))
            notes.append(self.vectors.embed_questions_of(document_id))
        pending = bool(self.session.run("pending_of", id=document_id))
        said = dict.fromkeys(note for note in notes if note)
        return PutReport(path, action, pending, "; ".join(said) or None)

    def _write(self, path: str, given: dict[str, Any], allow_empty: bool) -> tuple[Action, int]:
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
            self.session.run("document_hash", id=old.id, content_hash=digest)
            return "unchanged", old.id
        fields |= {
            "tags": json.dumps(fields["tags"], ensure_ascii=False),
            "content_hash": digest,
        }
        if old is None:
            return "created", self.session.run("document_insert", path=path, **fields)[0][0]
        self.session.run("document_update", id=old.id, **fields)
        return "replaced", old.id

    def get(self, path: str) -> Document:
        """Raises NotFoundError, InputError."""
        path = check_path(path)
        document = self._find(path)
        if document is None:
            raise NotFoundError(f"there is no document {path}; `kbstore ls` lists them")
        return document

    def _find(self, path: str) -> Document | None:
        rows = self.session.run("document", path=path)
        if not rows:
            return None
        return Document.of_row(rows[0])

    def __contains__(self, path: object) -> bool:
        return isinstance(path, str) and self._find(check_path(path)) is not None

    def delete(self, path: str) -> None:
        """Delete a document; its text stays in the history. Raises NotFoundError, InputError."""
        path = check_path(path)
        with self.session.transaction():
            self.get(path)
            self.session.run("document_delete", path=path)
            self.vectors.drain()

    def move(self, old: str, new: str) -> None:
        """Give a document another path, and title if that was its file's name; its vectors stay.

        Raises NotFoundError, ConflictError."""
        old, new = check_path(old), check_path(new)
        with self.session.transaction():
            document = self.get(old)
            if old != new and self._find(new):
                raise ConflictError(f"there is a document {new} already; {old} stays where it is")
            is_name = document.title == title_from_path(old)
            title = title_from_path(new) if is_name else document.title
            self.session.run("document_move", old=old, new=new, title=title)
            # The trigger has seen another title, but the content is the same.
            self.session.run("document_hash", id=document.id, content_hash=document.content_hash)

    def topics(self) -> dict[str, int]:
        """The first folders of the paths, with the number of documents in each."""
        return dict(self.session.run("topics"))

    def list(
        self, *, topic: str | None = None, type: str | None = None, tag: str | None = None
    ) -> Summaries:
        """All documents, or those below ``topic`` (a path), by path."""
        filters = search.parameters("", topic=topic, type=type, tag=tag)
        rows = self.session.run(
            "document_list", **{key: filters[key] for key in ("topic", "type", "tag")}
        )
        return [Summary.of_row(row) for row in rows]

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
        mmr: float | None = None,
    ) -> search.SearchResult:
        """Find documents; see ``sql/search.sql``. Never writes. Raises InputError, DatabaseError.

        What it had to do without (the extension, the model, vectors still to be made) stands in
        ``degraded``; it works by words all the same. ``mmr`` (0 to 1) chooses from more hits those
        that add most to the ones before: 1 is relevance alone, 0 diversity; see ``sql/mmr.sql``.
        """
        if mmr is not None and not 0 <= mmr <= 1:
            raise InputError(f"mmr is {mmr}; it must be from 0 to 1")
        wanted, limit = limit, limit if mmr is None else max(50, 5 * limit)
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
                found = self.vectors.of_query(bindings["query"][:4_000])
                if found:
                    bindings["embedding"], model = found
                degraded += self._state.pending_notes()
            except ModelError as error:
                degraded.append(f"searched by words only: {error}{self._state.pending_count()}")
                degraded += self._state.question_notes()
        with self.session.snapshot():
            if model and self.session.setting("model") != model.fingerprint:
                bindings["embedding"] = model = None
                degraded.append(
                    "searched by words only: another model's vectors have just taken over"
                )
            hits, displaced = search.run(
                self.connection, bindings, vectors=bindings["embedding"] is not None
            )
            if mmr is not None:
                hits, problem = search.diversify(self.connection, hits, mmr, wanted)
                degraded += [problem] if problem else []
        name = model.name if model else None
        return search.SearchResult(bindings["query"], hits, tuple(degraded), name, displaced)

    def embed(self, *, limit: int | None = None, progress: Progress | None = None) -> EmbedReport:
        """Make the vectors that are missing, newest documents first, committed as they come.

        May be killed and run again at any point. With a better model than the one whose vectors
        serve, it makes all of them anew beside the old, and switches when the last one is there.
        """
        report = self.vectors.embed_all(limit, progress)
        if report.documents + report.reused >= _BULK:
            self.optimize()
        return report

    def hype(
        self,
        *,
        limit: int | None = None,
        parallel: int = PARALLEL,
        again: bool = False,
        due: bool = False,
        progress: Progress | None = None,
    ) -> HypeReport:
        """Have the questions written that are missing, newest documents first, by ``parallel``
        calls at once, and make their vectors; committed as they come.

        May be killed and run again at any point. ``again`` asks also about what another LLM wrote
        questions for; ``due`` leaves out what has failed within the last 2 ** tries minutes. A
        provider that limits its rate slows the run down. Raises InputError, DatabaseError.
        """
        return self.questions.ask_all(
            limit=limit, parallel=parallel, again=again, due=due, progress=progress
        )

    def optimize(self) -> None:
        """Merge the full-text index into one segment, which makes every search cheaper."""
        with self.session.transaction():
            self.session.run("words_merge")

    # The file

    def status(self) -> Status:
        """Raises DatabaseError."""
        return self._state.status()

    @contextmanager
    def batch(self) -> Iterator[None]:
        """Several writes in one transaction; all or nothing."""
        with self.session.transaction():
            yield
