"""Many notes, several threads, one LLM: a run that may be stopped and begun again anywhere."""

from __future__ import annotations

import json
import queue
import threading
from collections import deque
from contextlib import suppress
from dataclasses import replace
from typing import Protocol

from . import hype
from .document import content_hash, heading
from .errors import DatabaseError, KBError, ModelError, ModelUnavailableError, RateLimitedError
from .hype import Generator
from .pace import Pace
from .report import HypeReport, Progress

_GIVE_UP = 3  # notes in a row for which the LLM could not be reached
_EMBED = 16  # documents after which their questions are embedded


class Base(Protocol):
    """What a run needs of the store; all of it is called from the thread that runs."""

    def read(self, document_id: int) -> Work | None: ...
    def reuse(self, work: Work) -> bool: ...
    def save(self, work: Work, found: list[str], model: str) -> int: ...
    def fail(self, document_id: int, error: KBError) -> None: ...
    def embed(self) -> str | None: ...


class Work:
    """A document to be asked about: its hash, its text for the LLM, the questions it has."""

    def __init__(
        self, id: int, path: str, title: str, tags: str, description: str, body: str, *,
        avoid: tuple[str, ...],
    ) -> None:  # fmt: skip
        labels = json.loads(tags)
        self.id, self.path, self.avoid = id, path, avoid
        self.hash = content_hash(path, title, labels, description, body)
        self.note = hype.note_text(heading(title, labels, description), body)


def ask(generator: Generator, work: Work) -> list[str]:
    """Raises ModelError, whatever a generator of the host's own raises."""
    try:
        answer = generator.questions(work.note, work.avoid)
        # Also what a host's own generator gives is made into clean questions.
        found = hype.parse("\n".join(map(str, answer)), work.avoid)
    except ModelError as error:
        kinds = (ModelUnavailableError, RateLimitedError, ModelError)
        kind = next(kind for kind in kinds if isinstance(error, kind))
        raise kind(f"{work.path}: {error}") from error
    except Exception as error:
        message = " ".join(str(error).split())[:300] or type(error).__name__
        raise ModelError(f"{work.path}: {generator.name} failed: {message}") from error
    if not found:
        raise ModelError(f"{work.path}: {generator.name} wrote no question")
    return found


class Run:
    """One bulk run: threads ask, this thread reads and writes the store."""

    def __init__(
        self,
        base: Base,
        generator: Generator,
        ids: list[int],
        parallel: int,
        pace: Pace,
        progress: Progress | None,
        again: bool,
    ) -> None:
        self._base, self._generator, self._pace = base, generator, pace
        self._ids, self._progress, self._again = deque(ids), progress, again
        self._of, self._parallel = len(ids), parallel
        self._todo: queue.SimpleQueue[Work | None] = queue.SimpleQueue()
        self._done: queue.SimpleQueue[tuple[Work, list[str] | ModelError]] = queue.SimpleQueue()
        self._report = HypeReport(generator.name)
        self._in_flight: dict[str, list[int]] = {}  # hash -> others with the same text, that wait
        self._in_vain = 0  # notes in a row for which the LLM could not be reached
        self._since_embedding = 0

    def finish(self) -> HypeReport:
        for _ in range(self._parallel):
            # Daemons: a call that hangs does not keep a process alive that was told to stop.
            threading.Thread(target=self._ask, daemon=True).start()
        try:
            while self._feed():
                with suppress(queue.Empty):  # a bounded wait lets Ctrl-C through everywhere
                    self._settle(*self._done.get(timeout=1.0))
        finally:
            self._pace.stop()
            for _ in range(self._parallel):
                self._todo.put(None)
            self._progress = None  # it may be what has raised
            with suppress(queue.Empty):
                while True:
                    work, outcome = self._done.get_nowait()
                    if not isinstance(outcome, ModelError):  # that of one who was stopped is none
                        self._settle(work, outcome)
            self._embed()
        return self._report

    def _ask(self) -> None:
        while work := self._todo.get():
            outcome: list[str] | ModelError
            try:
                outcome = ask(self._generator, work)
            except ModelError as error:
                outcome = error
            except BaseException as error:  # SystemExit, say: the run would wait for ever
                outcome = ModelError(f"{work.path}: {self._generator.name} failed: {error!r}")
            self._done.put((work, outcome))

    def _feed(self) -> bool:
        """Give the threads work; whether there is something to wait for."""
        while self._ids and len(self._in_flight) < self._parallel and not self._report.error:
            document_id = self._ids.popleft()
            try:
                work = self._base.read(document_id)
            except DatabaseError as error:  # a text that is not UTF-8, from another program
                self._base.fail(document_id, error)
                self._count(failed=1)
                continue
            if work is None:
                self._of -= 1
            elif not self._again and self._base.reuse(work):
                self._count(reused=1)
            elif work.hash in self._in_flight:
                self._in_flight[work.hash].append(document_id)
            else:
                self._in_flight[work.hash] = []
                self._todo.put(work)
        return bool(self._in_flight)

    def _settle(self, work: Work, outcome: list[str] | ModelError) -> None:
        self._ids.extendleft(self._in_flight.pop(work.hash))
        if isinstance(outcome, ModelError):
            self._base.fail(work.id, outcome)
            self._count(failed=1)
            unreachable = isinstance(outcome, ModelUnavailableError)
            self._in_vain = self._in_vain + 1 if unreachable else 0
            if self._in_vain >= _GIVE_UP or isinstance(outcome, RateLimitedError):
                self._report = replace(self._report, error=str(outcome))
            return
        self._in_vain = 0
        stored = self._base.save(work, outcome, self._generator.name)
        self._count(documents=1, questions=stored)
        self._since_embedding += 1
        if self._since_embedding >= _EMBED:
            self._embed()

    def _embed(self) -> None:
        self._since_embedding = 0
        problem = self._base.embed()
        self._report = replace(self._report, embedding_error=problem)

    def _count(self, **more: int) -> None:
        counts = {name: getattr(self._report, name) + n for name, n in more.items()}
        self._report = replace(self._report, **counts)
        if self._progress:
            report = self._report
            self._progress(report.documents + report.reused + report.failed, self._of)
