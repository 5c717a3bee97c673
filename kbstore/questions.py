"""Keeps the questions of a store: which texts are still to be asked about, what the LLM wrote, what
a person added or vetoed.

The one writer of question and questioned; their vectors are made by `vectors`.
"""

from __future__ import annotations

import os
import unicodedata
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from itertools import islice
from typing import Any, Literal

from . import hype
from .document import check_path, check_text
from .errors import (
    ConflictError,
    DatabaseError,
    InputError,
    KBError,
    ModelError,
    ModelUnavailableError,
    NotFoundError,
)
from .hype import LLM, MAX_QUESTION, Estimate, Generator
from .hype_run import Run, Work, ask
from .pace import Pace
from .report import HypeReport, Progress
from .session import Session
from .vectors import Vectors

PARALLEL = 8  # calls of the LLM at once


@dataclass(frozen=True, slots=True)
class Question:
    """A stored question; ``state`` is searched, pending (no vector yet), stale (made from an older
    text of the document) or vetoed."""

    id: int
    path: str
    text: str
    origin: Literal["llm", "user"]
    state: Literal["searched", "pending", "stale", "vetoed"]
    model: str | None

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


class Questions:
    """The LLM is never called inside a transaction, nor while another thread waits."""

    def __init__(
        self,
        session: Session,
        vectors: Vectors,
        generator: Generator | Literal["auto"] | str | None,
    ) -> None:
        self._session = session
        self._vectors = vectors
        self._generator = generator

    # Which LLM

    def name(self) -> str | None:
        """The LLM that is asked; None: questions are not made."""
        if self._generator is None:
            return None
        if not isinstance(self._generator, str):
            return self._generator.name
        if self._generator != "auto":
            return self._generator
        chosen = os.environ.get("KBSTORE_HYPE_MODEL") or self._session.setting("hype_model")
        return str(chosen) if chosen else None

    def _llm(self, pace: Pace) -> Generator:
        if self._generator is not None and not isinstance(self._generator, str):
            return self._generator
        name = self.name()
        if name is None:
            raise ModelUnavailableError(
                "no LLM is set that could write questions: name one as litellm does, with"
                " KBSTORE_HYPE_MODEL=openai/gpt-4o-mini, say, or in the setting hype_model"
            )
        return LLM(
            name,
            api_base=os.environ.get("KBSTORE_HYPE_API_BASE") or None,
            temperature=self._number("hype_temperature"),
            max_tokens=int(self._number("hype_max_tokens")),
            timeout=self._number("hype_timeout"),
            prompt=str(self._session.setting("hype_prompt") or hype.PROMPT),
            pace=pace,
        )

    def _number(self, name: str) -> float:
        value = self._session.setting(name)
        try:
            return float(value)
        except (TypeError, ValueError):
            raise ModelUnavailableError(f"the setting {name} is {value!r}, no number") from None

    # Asking it

    def ask_one(self, document_id: int) -> str | None:
        """Have the questions of one document written; return why that was not possible, or None."""
        if self.name() is None or self._is_inside():
            return None
        try:
            work = self.read(document_id)
            if work is None or self._source(work) == document_id or self.reuse(work):
                return None
            try:
                generator = self._llm(Pace(patient=False))
                found = ask(generator, work)
                self.save(work, found, generator.name)
            except ModelError as error:
                self.fail(document_id, error)
                return str(error)
        except DatabaseError as error:  # the text is stored; only its questions are not
            return str(error)
        return None

    def ask_all(
        self,
        *,
        limit: int | None = None,
        parallel: int = PARALLEL,
        again: bool = False,
        due: bool = False,
        progress: Progress | None = None,
    ) -> HypeReport:
        """Ask about every document whose text has not been asked about, newest first.

        ``again``: also where another LLM wrote the questions. ``due``: leave out what failed a
        short while ago (2 ** tries minutes).
        """
        if parallel < 1:
            raise InputError(f"parallel is {parallel}; it must be 1 or more")
        if self._is_inside():
            said = "inside a transaction no LLM is asked; `hype` does it after it"
            return HypeReport(None, pending=self._pending(), error=said)
        pace = Pace(parallel)
        try:
            generator = self._llm(pace)
        except ModelError as error:
            return HypeReport(None, pending=self._pending(), error=str(error))
        ids = self._waiting(generator.name, limit, again, due)
        run = Run(self, generator, ids, min(parallel, len(ids)), pace, progress, again)
        report = run.finish()
        return replace(report, pending=self._pending())

    def estimate(self, *, limit: int | None = None, again: bool = False) -> Estimate:
        """What `ask_all` would cost. Raises ModelUnavailableError, InputError."""
        generator = self._llm(Pace())
        if not isinstance(generator, LLM):
            raise InputError(f"{generator.name} is no litellm model: its price is not known")
        notes: dict[str | int, str] = {}
        for document_id in self._waiting(generator.name, limit, again, False):
            work = self._readable(document_id)
            if work and (again or self._source(work) is None):
                notes[document_id if again else work.hash] = work.note
        return generator.estimate(list(notes.values()))

    def _waiting(self, model: str, limit: int | None, again: bool, due: bool) -> list[int]:
        rows = self._session.run("unquestioned", model=model if again else None, due=due)
        ids = (row[0] for row in rows)
        if limit is None:
            return list(ids)
        # Nobody is ever asked about a blank note: it must not take another's place.
        return list(islice((i for i in ids if self._readable(i)), limit))

    def _is_inside(self) -> bool:
        """Whether this thread is in the middle of a transaction; another one is waited for."""
        with self._session.reading():
            return self._session.connection.in_transaction

    def _pending(self) -> int:
        return int(self._session.value("hype_pending_count"))

    def read(self, document_id: int) -> Work | None:
        """None: deleted in the meantime, or blank."""
        row = self._session.row("document_text", id=document_id)
        if row is None or not row[5].strip():
            return None
        others = self._session.run("question_texts_kept", id=document_id)
        return Work(*row, avoid=tuple(text for (text,) in others))

    def _readable(self, document_id: int) -> Work | None:
        with suppress(DatabaseError):  # a text that is not UTF-8, from another program
            return self.read(document_id)
        return None

    def _source(self, work: Work) -> int | None:
        """A document whose text is the same and has been asked about; itself comes first."""
        if self._session.value("questioned", id=work.id) == work.hash:
            return work.id
        source: int | None = self._session.value("questioned_with_hash", content_hash=work.hash)
        return source

    def _is_current(self, work: Work) -> bool:
        now = self.read(work.id)
        return now is not None and now.hash == work.hash

    def reuse(self, work: Work) -> bool:
        """Take over the questions of the same text under another path, or those that it has."""
        if self._source(work) is None:
            return False
        with self._session.transaction():
            source = self._source(work)
            if source is None or not self._is_current(work):
                return False
            run = self._session.run
            run("document_hash", id=work.id, content_hash=work.hash)
            if source != work.id:
                run("question_clear", id=work.id)
                run("question_copy", id=work.id, source=source, content_hash=work.hash)
                run("question_embedding_copy", id=work.id, source=source)
                run("questioned_copy", id=work.id, source=source)
            run("failure_delete", id=work.id, stage="hype")
            self._vectors.drain()
        return True

    def save(self, work: Work, found: Iterable[str], model: str) -> int:
        """How many were stored; none where the text has changed in the meantime."""
        stored = 0
        with self._session.transaction():
            if not self._is_current(work):
                return 0
            run = self._session.run
            run("document_hash", id=work.id, content_hash=work.hash)
            run("question_clear", id=work.id)
            for text in found:
                stored += len(
                    run(
                        "question_insert",
                        id=work.id,
                        text=text,
                        origin="llm",
                        content_hash=work.hash,
                        model=model,
                    )
                )
            run("questioned_update", id=work.id, content_hash=work.hash, model=model)
            run("failure_delete", id=work.id, stage="hype")
            run("setting_default", name="hype_model", value=model)
            self._vectors.drain()
        return stored

    def fail(self, document_id: int, error: KBError) -> None:
        with self._session.transaction():
            self._session.run("failure_insert", id=document_id, stage="hype", error=str(error))

    def embed(self) -> str | None:
        return self._vectors.embed_questions_of(None)

    # By hand

    def list(self, path: str | None = None) -> tuple[Question, ...]:
        return tuple(Question(*row) for row in self._session.run("question_list", path=path))

    def add(self, path: str, text: str) -> Question:
        """Raises NotFoundError, InputError, ConflictError (the document has it already)."""
        path = check_path(path)
        text = " ".join(unicodedata.normalize("NFC", check_text("question", text, path)).split())
        if not text:
            raise InputError(f"{path}: the question is blank")
        if len(text) > MAX_QUESTION:
            raise InputError(
                f"{path}: the question has {len(text)} characters; {MAX_QUESTION} is the most"
            )
        with self._session.transaction():
            document_id = self._session.value("document_id", path=path)
            if document_id is None:
                raise NotFoundError(f"there is no document {path}; `kbstore ls` lists them")
            for old in self.list(path):
                if old.text == text and old.state == "stale":  # the LLM's, of an older text
                    self._session.run("question_delete", id=old.id)
                elif old.text == text:
                    raise ConflictError(
                        f"{path} has the question {text!r} already ({old.id}, {old.state})"
                    )
            rows = self._session.run(
                "question_insert",
                id=document_id, text=text, origin="user", content_hash=None, model=None,
            )  # fmt: skip
        self._vectors.embed_questions_of(document_id)
        return next(question for question in self.list(path) if question.id == rows[0][0])

    def remove(self, ids: Iterable[int]) -> None:
        """All or none. Raises NotFoundError."""
        with self._session.transaction():
            for question_id in dict.fromkeys(ids):
                self._exists(question_id)
                self._session.run("question_delete", id=question_id)
            self._vectors.drain()

    def veto(self, ids: Iterable[int], vetoed: bool) -> None:
        """Silence questions, or take that back. All or none. Raises NotFoundError."""
        with self._session.transaction():
            for question_id in dict.fromkeys(ids):
                self._exists(question_id)
                self._session.run("question_veto", id=question_id, vetoed=vetoed)

    def _exists(self, question_id: int) -> None:
        if not self._session.run("question", id=question_id):
            raise NotFoundError(
                f"there is no question {question_id}; `kbstore questions ls` lists them"
            )
