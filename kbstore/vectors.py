"""Keeps the vectors of a store: which are missing, who makes them, which model's serve.

The one writer of document_embedding, question_embedding, failure and the vec0 tables.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Literal
from unicodedata import normalize
from zlib import crc32

from . import embed, schema
from .connection import load_vec0
from .embed import Embedder, LocalEmbedder
from .errors import BadVectorError, DatabaseError, KBError, ModelError, ModelUnavailableError
from .report import EmbedEstimate, EmbedReport, Progress
from .session import Rows, Session
from .work import EmbedWork

_BATCH = 16  # documents a transaction
_QUESTIONS = 64  # questions a transaction
_DUE = 4  # other documents that a store tries again


class Vectors:
    """A model is never called inside a transaction, nor while another thread waits."""

    def __init__(
        self,
        session: Session,
        embedder: Embedder | Literal["auto"] | None,
        inference_mode: str | None,
    ) -> None:
        self._session = session
        self._embedder = embedder
        self._inference_mode = inference_mode

    # Which model

    def models(self) -> list[Embedder]:
        """The models that are here, the best first. Raises ModelUnavailableError, InputError."""
        if self._embedder is None:
            raise ModelUnavailableError("embedding is switched off")
        if self._embedder == "auto":
            return embed.candidates(self._inference_mode)
        return [self._embedder]

    def broken_files(self) -> list[str]:
        """Model files that would serve, but cannot be used, a sentence each."""
        return embed.broken_files(self._inference_mode) if self._embedder == "auto" else []

    def serving(self) -> Embedder:
        """The model whose vectors serve, or the best one while there are none.

        Raises ModelUnavailableError where it is not here: vectors of two models are never mixed.
        """
        fingerprint = self._fingerprint()
        models = self.models()
        for model in models:
            if fingerprint in (None, model.fingerprint):
                return model
        raise ModelUnavailableError(
            f"the vectors were made by {self._session.setting('model_name')}, which is not here;"
            f" `kbstore embed` makes them anew with {models[0].name}"
        )

    def _fingerprint(self) -> str | None:
        """That of the model whose vectors serve; None while there are no vectors."""
        made = self._session.value("any_vector")
        return str(self._session.setting("model")) if made else None

    def of_query(self, text: str) -> tuple[bytes, Embedder] | None:
        """The vector of a search and the model that made it; None where there are no vectors yet.

        Raises ModelError.
        """
        with self._session.reading():
            problem = load_vec0(self._session.connection)
            if problem:
                raise ModelUnavailableError(problem)
            if not schema.ensure_vectors(self._session.connection):
                raise ModelUnavailableError(
                    "the vec0 tables are missing; `kbstore embed` makes them"
                )
        model = self.serving()
        if self._fingerprint() is None:
            return None
        try:
            return embed.embed_query(model, normalize("NFC", text)), model
        except BadVectorError as error:
            raise BadVectorError(f"the {model.name} cannot read the query ({error})") from error

    # Making them

    def embed_all(self, limit: int | None, progress: Progress | None) -> EmbedReport:
        counts = _Counts()
        error: str | None = None
        name: str | None = None
        try:
            model = self.models()[0]
            name = model.name
            rows = self._session.run("pending_documents", model=model.fingerprint)
            ids = [row[0] for row in rows][:limit]
            for start in range(0, len(ids), _BATCH):
                self._embed_documents(ids[start : start + _BATCH], model, counts)
                if progress:
                    progress(min(start + _BATCH, len(ids)), len(ids))
            self._embed_questions(model, counts, None)
            self._switch(model)
            pending = self._waiting(model.fingerprint)
        except ModelError as failure:
            error = str(failure)
            pending = self._session.value("pending_count")
        self._clear_stale()
        return EmbedReport(name, **counts.__dict__, pending=pending, error=error)

    def estimate(self, limit: int | None) -> EmbedEstimate:
        """Raises ModelUnavailableError."""
        model = self.models()[0]
        rows = self._session.run("pending_documents", model=model.fingerprint)[:limit]
        documents = [self._session.row("document_text", id=row[0]) for row in rows]
        works = {work.hash: work for row in documents if row for work in [EmbedWork(*row)]}
        questions = self._pending_questions(model.fingerprint)
        texts = [text for work in works.values() for text in work.texts]
        characters = sum(map(len, texts)) + sum(len(row[2]) for row in questions)
        return EmbedEstimate(
            model.name,
            isinstance(model, LocalEmbedder),
            documents=len(works),
            passages=len(texts),
            questions=len(questions),
            tokens=characters // 4,
        )

    def _waiting(self, fingerprint: str) -> int:
        """How many documents have no vectors of this model, or a question without one."""
        ids = {row[0] for row in self._session.run("pending_documents", model=fingerprint)}
        ids |= {row[1] for row in self._pending_questions(fingerprint)}
        return len(ids)

    def embed_one(self, document_id: int) -> str | None:
        """Make the vectors of one document and its questions, then of a few others that wait;
        return why that was not possible, or None."""
        if self._reason_not_to():
            return self._reason_not_to()
        try:
            try:
                model = self.serving()
                self._embed_documents([document_id], model, _Counts())
                self._embed_questions(model, _Counts(), document_id)
            except ModelError as error:
                if self._failure(document_id) is None:
                    self._fail(document_id, error)
            else:
                self._embed_due(document_id, model, _DUE)
            with self._session.transaction():
                self._session.run("embedding_clear_stale_of", id=document_id)
                self._session.run("failure_settled")
                self.drain()
            return self._failure(document_id)
        except DatabaseError as error:  # the text is stored; only its vectors are not
            return str(error)

    def embed_questions_of(self, document_id: int | None) -> str | None:
        """Make the vectors of one document's questions, or of all; return why not, or None."""
        if self._reason_not_to():
            return self._reason_not_to()
        try:
            self._embed_questions(self.serving(), _Counts(), document_id)
        except (ModelError, DatabaseError) as error:
            return str(error)
        return None

    def _reason_not_to(self) -> str | None:
        if self._embedder is None:
            return "embedding is switched off"
        if self._session.connection.in_transaction:
            return "inside a transaction no model is called; `embed` makes the vectors after it"
        return None

    def embed_some(self, limit: int) -> None:
        """Make the vectors of a few documents that wait, as long as somebody waits for an answer:
        what a hand edit or a failed call has left behind is mended by whoever comes next."""
        if self._reason_not_to() or not self._session.value("pending_count"):
            return
        with suppress(ModelError):  # recorded, and told by every search
            self._embed_due(-1, self.serving(), limit)
            with self._session.transaction():
                self._session.run("embedding_clear_stale")
                self._session.run("failure_settled")
                self.drain()

    def _embed_due(self, but: int, model: Embedder, limit: int) -> None:
        """A few documents, and none again within 2 ** tries minutes of its failure."""
        rows = self._session.run("due_documents", id=but, limit=limit)
        with suppress(ModelError):  # recorded
            self._embed_documents([row[0] for row in rows], model, _Counts())
            self._embed_questions(model, _Counts(), None, due=True)

    def _embed_documents(self, ids: list[int], model: Embedder, counts: _Counts) -> None:
        """Raises ModelUnavailableError when the model fails for a document on its own, too."""
        fresh: list[EmbedWork] = []
        for document_id in ids:
            try:
                row = self._session.row("document_text", id=document_id)
            except DatabaseError as error:  # a text that is not UTF-8, from another program
                counts.failed += 1
                self._fail(document_id, error)
                continue
            work = EmbedWork(*row) if row else None  # deleted in the meantime
            if work and not self._reuse(work, model.fingerprint, counts):
                fresh.append(work)
        texts = [text for work in fresh for text in work.texts]
        if not texts:
            return
        try:
            raws = embed.call(model, texts, "search_document")
        except ModelError as error:
            if len(fresh) > 1:  # one bad text must not hold up the others
                for work in fresh:
                    self._embed_documents([work.id], model, counts)
                return
            counts.failed += 1
            self._fail(fresh[0].id, error)
            if isinstance(error, ModelUnavailableError):
                raise
            return
        with self._session.transaction():
            for work in fresh:
                mine, raws = raws[: len(work.texts)], raws[len(work.texts) :]
                try:
                    packed = [embed.vector(raw, work.path) for raw in mine]
                except ModelError as error:
                    counts.failed += 1
                    self._fail(work.id, error)
                    continue
                if self._is_current(work):
                    self._serve_first(model)
                    self._save(work, packed, model.fingerprint)
                    counts.documents += 1
                    counts.passages += len(packed)
            self.drain()

    def _reuse(self, work: EmbedWork, model: str, counts: _Counts) -> bool:
        """Take the vectors of the same text under another path, or those that are here already."""
        run = self._session.run
        with self._session.transaction():
            if not self._is_current(work):
                return True
            source = self._session.value(
                "embedding_with_hash", id=work.id, content_hash=work.hash, model=model
            )
            if source is None:
                return False
            run("document_hash", id=work.id, content_hash=work.hash)
            if source != work.id:
                run(
                    "embedding_copy",
                    id=work.id,
                    source=source,
                    content_hash=work.hash,
                    model=model,
                )
            run("failure_delete", id=work.id, stage="embed")
            self.drain()
        counts.reused += 1
        return True

    def _is_current(self, work: EmbedWork) -> bool:
        """Whether the document still has the text that was read."""
        row = self._session.row("document_text", id=work.id)
        return row is not None and EmbedWork(*row).hash == work.hash

    def _save(self, work: EmbedWork, packed: list[bytes], model: str) -> None:
        run = self._session.run
        run("document_hash", id=work.id, content_hash=work.hash)
        run("embedding_clear", id=work.id, model=model, content_hash=work.hash)
        for seq, (part, vector) in enumerate(zip(work.passages, packed, strict=True)):
            run(
                "embedding_insert",
                id=work.id,
                seq=seq,
                body_start=part.start,
                body_end=part.end,
                embedding=vector,
                crc=crc32(vector),
                content_hash=work.hash,
                model=model,
            )
        run("failure_delete", id=work.id, stage="embed")

    def _pending_questions(
        self, model: str, document_id: int | None = None, due: bool = False
    ) -> Rows:
        return self._session.run("pending_questions", model=model, document_id=document_id, due=due)

    def _embed_questions(
        self, model: Embedder, counts: _Counts, document_id: int | None, due: bool = False
    ) -> None:
        rows = self._pending_questions(model.fingerprint, document_id, due)
        for start in range(0, len(rows), _QUESTIONS):
            self._embed_batch(rows[start : start + _QUESTIONS], model, counts)

    def _embed_batch(self, batch: Rows, model: Embedder, counts: _Counts) -> None:
        """Raises ModelUnavailableError when the model fails for a question on its own, too."""
        try:
            raws = embed.call(model, [row[2] for row in batch], "search_query")
        except ModelError as error:
            if len(batch) > 1:  # one bad text must not hold up the others
                for row in batch:
                    self._embed_batch([row], model, counts)
                return
            counts.failed += 1
            self._fail(batch[0][1], error)
            if isinstance(error, ModelUnavailableError):
                raise
            return
        with self._session.transaction():
            for (question_id, document_id, text, path), raw in zip(batch, raws, strict=True):
                try:
                    vector = embed.vector(raw, f"{path}, question {text[:60]!r}")
                except ModelError as error:
                    counts.failed += 1
                    self._fail(document_id, error)
                    continue
                self._serve_first(model)
                self._session.run(
                    "question_embedding_insert",
                    id=question_id,
                    text=text,
                    embedding=vector,
                    crc=crc32(vector),
                    model=model.fingerprint,
                )
                counts.questions += 1
            self.drain()

    def _fail(self, document_id: int, error: KBError) -> None:
        with self._session.transaction():
            self._session.run("failure_insert", id=document_id, stage="embed", error=str(error))

    def _failure(self, document_id: int) -> str | None:
        error = self._session.value("failure", id=document_id, stage="embed")
        return None if error is None else str(error)

    # Which serve

    def _serve_first(self, model: Embedder) -> None:
        """The first model that makes a vector serves."""
        if self._fingerprint() is None and self._session.setting("model") != model.fingerprint:
            self._serve(model)

    def _serve(self, model: Embedder) -> None:
        self._session.set("model", model.fingerprint)
        self._session.set("model_name", model.name)
        self._session.set("model_weight", model.weight)

    def _switch(self, model: Embedder) -> None:
        """Let another model's vectors serve once every document has them or has failed to."""
        if self._fingerprint() in (None, model.fingerprint):
            return
        with self._session.transaction():
            for (document_id,) in self._session.run("pending_documents", model=model.fingerprint):
                if self._failure(document_id) is None:
                    return
            self._serve(model)
            self._session.run("embedding_drop_others", model=model.fingerprint)
            self._session.run("question_embedding_drop_others", model=model.fingerprint)
            self._session.run("vector_queue_all")

    def _clear_stale(self) -> None:
        """Drop the vectors of older texts. Not before the end: another document may have taken
        over such a text, as when two files swap their names, and reuse them."""
        with self._session.transaction():
            self._session.run("embedding_clear_stale")
            self._session.run("failure_settled")
            self.drain()

    def drain(self) -> None:
        """Copy into the vec0 tables what the triggers have queued; without vec0 it stays queued."""
        if not self._session.value("vector_queue_count"):
            return
        with self._session.transaction():
            if schema.ensure_vectors(self._session.connection):
                schema.fill_vectors(self._session.connection)


class _Counts:
    def __init__(self) -> None:
        self.documents = self.reused = self.passages = self.questions = self.failed = 0
