"""What is in the file, what is still to be done, and what a search has to do without."""

from __future__ import annotations

import os

from .connection import execute, load_vec0
from .errors import ModelError
from .questions import Questions
from .report import Status
from .session import Session
from .vectors import Vectors


class State:
    def __init__(self, session: Session, vectors: Vectors, questions: Questions) -> None:
        self._session, self._vectors, self._questions = session, vectors, questions

    def status(self) -> Status:
        """Raises DatabaseError."""
        with self._session.reading():
            names = (
                "documents", "skills", "journals", "pending", "unquestioned", "failed",
                "last_error",
            )  # fmt: skip
            counts = dict(
                zip(
                    (*names, "passages", "questions", "versions"),
                    self._session.run("status")[0],
                    strict=True,
                )
            )
            file = self._session.connection.filename
            version = self._session.connection.pragma("user_version")
            problem = load_vec0(self._session.connection)
            extension = (
                None if problem else execute(self._session.connection, "select vec_version()").get
            )
        degraded = [problem] if problem else []
        degraded += self._vectors.broken_files()
        available = None
        try:
            available = self._vectors.models()[0].name
            self._vectors.serving()
            degraded += self.pending_notes()
        except ModelError as error:
            degraded += [f"{error}{self.pending_count()}", *self.question_notes()]
        return Status(
            path=file or ":memory:",
            schema_version=version,
            **counts,
            model=self._session.setting("model_name"),
            available_model=available,
            hype_model=self._questions.name(),
            sqlite_vec=extension,
            size=os.stat(file).st_size if file else 0,
            degraded=tuple(degraded),
        )

    def pending_notes(self) -> tuple[str, ...]:
        """What has no vectors yet, or has some that the scan does not know yet; what has no
        questions yet."""
        notes = []
        pending = self._session.value("pending_count")
        if pending:
            error = self._session.value("last_failure", stage="embed")
            notes.append(
                f"{pending} of {self._session.value('document_count')} documents have no vectors"
                " yet"
                + (f" (last error: {error})" if error else "")
                + "; `kbstore embed` makes them"
            )
        queued = self._session.value("vector_queue_count")
        with self._session.reading():
            extension = load_vec0(self._session.connection) is None
        if queued and extension:
            notes.append(f"{queued} vectors are not indexed yet; `kbstore embed` does it")
        return (*notes, *self.question_notes())

    def question_notes(self) -> tuple[str, ...]:
        unquestioned = self._session.value("hype_pending_count")
        if not unquestioned:
            return ()
        error = self._session.value("last_failure", stage="hype")
        return (
            f"{unquestioned} of {self._session.value('document_count')} documents have no"
            " questions yet"
            + (f" (last error: {error})" if error else "")
            + "; `kbstore hype` has them written",
        )

    def pending_count(self) -> str:
        pending = self._session.value("pending_count")
        documents = self._session.value("document_count")
        return f" ({pending} of {documents} documents have no vectors)" if pending else ""
