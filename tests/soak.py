"""Many processes at one base for as long as is wanted, killed at any instant and started again.

    python tests/soak.py --minutes 60 --seed 7

Four writers, four readers, somebody who edits a mirrored folder, one process each that makes
vectors, has questions written, and backs up, restores (into a second file) and compacts. What they
are told is done stands in a journal outside of the base, on the disk before they go on. Every
minute a copy of the base is held against it, at the end the base itself.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import re
import selectors
import signal
import sys
import tempfile
import time
import traceback
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import apsw
from conftest import FakeEmbedder
from faults import FakeGenerator, findings, halves

import kbstore
from kbstore import backup, mirror
from kbstore import connection as connection_module
from kbstore.errors import BusyError, EditConflictError, NotFoundError

ROLES = ("writer",) * 4 + ("reader",) * 4 + ("folder", "embed", "hype", "upkeep")
NOTES = 30  # of each writer
VERSIONS = 60  # that the base keeps of each note
RECENT = 20  # texts of a note that must be somewhere; fewer than VERSIONS
WORDS = [
    "retry", "backoff", "jitter", "limit", "token", "cache", "queue", "shard", "index",
    "vector", "phrase", "ranking", "journal", "skill", "memory", "agent", "prompt",
    "schema", "trigger", "commit", "rollback", "checkpoint", "mirror", "folder",
    "frontmatter", "部署", "方案", "しりとり", "café", "naïve", "don't", "C++", "v1.0.21",
    "foo_bar.py", "a:b", "2026.4.10",
]  # fmt: skip


# Texts -------------------------------------------------------------------------------------------


def text_of(number: int) -> str:
    """The text that operation ``number`` writes; whole or not can be seen from itself."""
    rng = random.Random(number)
    count = 260 if number % 12 == 0 else 14  # several passages
    words = " ".join(rng.choice(WORDS) for _ in range(count))
    return f"Operation {number}. {words}\n\nEnd of {number}."


def number_of(title: str, body: str) -> int | None:
    """Which operation has written a note; None where it is not whole."""
    found = re.match(r"Operation (\d+)\.", body)
    if not found or title != f"Title {found[1]}" or body.rstrip("\n") != text_of(int(found[1])):
        return None
    return int(found[1])


# The processes -----------------------------------------------------------------------------------


class Stopped(Exception):
    pass


class Line:
    """From a process to the parent: it says something, and goes on when it is answered."""

    def __init__(self, reading: int, writing: int) -> None:
        self._answers = os.fdopen(reading, "r")
        self._writing = writing
        self.waited = 0.0  # for the write lock, at most, since it has last said something

    def say(self, kind: str, **what: Any) -> int:
        what |= {"kind": kind, "waited": round(self.waited, 3)}
        self.waited = 0.0
        data = json.dumps(what).encode() + b"\n"
        assert len(data) < 4096  # a pipe takes so much whole, or not at all
        os.write(self._writing, data)
        answer = self._answers.readline().strip()
        if answer in ("", "stop"):
            raise Stopped
        return int(answer)


class Process:
    """What all the processes have: a line to the parent, a store, chance."""

    def __init__(self, folder: Path, number: int, line: Line, rng: random.Random) -> None:
        self.folder, self.number, self.line, self.rng = folder, number, line, rng
        self.file = folder / "kb.sqlite3"

    def store(self, **options: Any) -> kbstore.Store:
        given: dict[str, Any] = {"embedder": FakeEmbedder("A"), "hype": None} | options
        return kbstore.Store(self.file, **given)

    def run(self, role: str) -> None:
        execute = connection_module.execute

        def timed(connection: apsw.Connection, sql: str, bindings: Any = None) -> apsw.Cursor:
            if sql != "begin immediate":
                return execute(connection, sql, bindings)
            begin = time.monotonic()
            try:
                return execute(connection, sql, bindings)
            finally:
                self.line.waited = max(self.line.waited, time.monotonic() - begin)

        connection_module.execute = timed
        getattr(self, role)()

    def writer(self) -> None:
        """Its own notes, notes that all append to, notes that several edit, notes of the folder."""
        kinds = {"put": 50, "append": 12, "pair": 6, "contest": 8, "mirrored": 6, "delete": 4,
                 "move": 6, "ask": 4, "veto": 4}  # fmt: skip
        with self.store() as store:
            number = self.line.say("ready")
            while True:
                kind = self.rng.choices(list(kinds), list(kinds.values()))[0]
                begin = time.monotonic()
                try:
                    done = getattr(self, f"_{kind}")(store, number)
                except BusyError as error:
                    number = self.line.say("busy", error=str(error), of=kind)
                else:
                    number = self.line.say("ack", of=kind, done=done, took=time.monotonic() - begin)

    def _own(self) -> str:
        return f"w{self.number}/{self.rng.randrange(NOTES)}.md"

    def _intend(self, **changes: int | None) -> None:
        """Say what the notes are to be (None: not there) before anything is done."""
        self.line.say("intend", changes=changes)

    def _put(self, store: kbstore.Store, number: int) -> bool:
        path = self._own()
        self._intend(**{path: number})
        defer = self.rng.random() < 0.4
        store.put(path, text_of(number), title=f"Title {number}", defer=defer)
        return True

    def _pair(self, store: kbstore.Store, number: int) -> bool:
        first, second = f"w{self.number}/pair-a.md", f"w{self.number}/pair-b.md"
        self._intend(**{first: number, second: number})
        with store.batch():
            for path in (first, second):
                store.put(path, text_of(number), title=f"Title {number}")
        return True

    def _append(self, store: kbstore.Store, number: int) -> bool:
        path = f"shared/{number // 400}.md"
        self.line.say("intend", append=path, number=number)
        store.append(path, f"Line {number}.", title="Lines")
        return True

    def _contest(self, store: kbstore.Store, number: int) -> bool:
        path = f"contested/{self.rng.randrange(6)}.md"
        read = store.get(path).content_hash if path in store else ""
        self.line.say("intend", text={path: number})
        with suppress(EditConflictError):
            store.put(path, text_of(number), title=f"Title {number}", expected_hash=read)
            return True
        return False

    def _mirrored(self, store: kbstore.Store, number: int) -> bool:
        path = f"m/{self.rng.randrange(NOTES)}.md"
        self.line.say("intend", text={path: number})
        store.put(path, text_of(number), title=f"Title {number}", defer=True)
        return True

    def _delete(self, store: kbstore.Store, number: int) -> bool:
        path = self._own()
        if path not in store:
            return False
        self._intend(**{path: None})
        store.delete(path)
        return True

    def _move(self, store: kbstore.Store, number: int) -> bool:
        old, new = self._own(), self._own()
        if old not in store or new in store:
            return False
        document = store.get(old)
        self._intend(**{old: None, new: number_of(document.title, document.body)})
        store.move(old, new)
        return True

    def _ask(self, store: kbstore.Store, number: int) -> bool:
        path = f"shared/{max(0, number // 400 - 1)}.md"
        self.line.say("intend", ask=path, number=number)
        with suppress(NotFoundError):
            store.questions.add(path, f"What is the line of {number}?")
            return True
        return False

    def _veto(self, store: kbstore.Store, number: int) -> bool:
        questions = [q for q in store.questions.list(self._own()) if q.origin == "llm"]
        if not questions:
            return False
        self.line.say("intend", veto=questions[0].id)
        with suppress(NotFoundError):  # the text, and with it the question, is another by now
            store.questions.veto([questions[0].id], True)
            return True
        return False

    def reader(self) -> None:
        """Searches and reads, and looks whether what it sees is whole."""
        with self.store(read_only=self.number % 2 == 0) as store:
            for count in range(1_000_000_000):
                if count % 10 == 0:
                    self.line.say("ready" if count == 0 else "read")
                for hit in store.search(" ".join(self.rng.choices(WORDS, k=2)), limit=5).hits:
                    with suppress(NotFoundError):  # deleted since
                        self._is_whole(store, hit.path)
                self._is_whole(store, f"w{self.rng.randrange(4)}/{self.rng.randrange(NOTES)}.md")
                if count % 25 == 3:
                    with store.session.snapshot():
                        for half in halves(store.connection):
                            self.line.say("wrong", what=f"a reader sees a half document: {half}")
                        self._see_pairs(store)
                    store.list(topic="w1")
                    store.status()

    def _is_whole(self, store: kbstore.Store, path: str) -> None:
        if not re.match(r"(w\d|contested|m)/", path) or path not in store:
            return
        document = store.get(path)
        if number_of(document.title, document.body) is None:
            what = f"a reader sees {path} as {document.title!r}: {document.body[:60]!r}"
            self.line.say("wrong", what=what)

    def _see_pairs(self, store: kbstore.Store) -> None:
        rows = store.connection.execute(
            """select substr(path, 1, 2), count(*), count(distinct body) from document
               where path glob 'w?/pair-?.md' group by 1"""
        ).fetchall()
        for name, count, texts in rows:
            if (count, texts) != (2, 1):
                self.line.say("wrong", what=f"a reader sees half of the pair of {name}")

    def folder_(self) -> None:
        """Edits files as a person does, and mirrors them."""
        root = self.folder / "notes"
        (root / "m").mkdir(parents=True, exist_ok=True)
        with self.store() as store:
            number = self.line.say("ready")
            while True:
                edited = {}
                for _ in range(self.rng.randint(1, 3)):
                    name = f"m/{self.rng.randrange(NOTES)}.md"
                    chance = self.rng.random()
                    if chance < 0.1:
                        (root / name).unlink(missing_ok=True)
                        edited.pop(name, None)
                    else:
                        draft = root / f"m/.{number}.tmp"
                        draft.write_text(f"---\ntitle: Title {number}\n---\n{text_of(number)}")
                        draft.replace(root / name)
                        edited[name] = number
                        self.line.say("intend", text=dict(edited))
                try:
                    report = mirror.sync(store, root, embed=self.rng.random() < 0.2, hype=False)
                except BusyError as error:
                    number = self.line.say("busy", error=str(error), of="sync")
                    continue
                refused = {problem.path for problem in report.problems}
                told = [f"{problem.path}: {problem.message}" for problem in report.problems[:3]]
                done = {name: n for name, n in edited.items() if name not in refused}
                number = self.line.say("ack", of="sync", done=True, text=done, problems=told)

    def embed(self) -> None:
        with self.store() as store:
            self.line.say("ready")
            while True:
                report = store.embed(limit=40)
                assert report.error is None, report.error
                self.line.say("ack", of="embed", done=True)

    def hype(self) -> None:
        with self.store(hype=FakeGenerator()) as store:
            self.line.say("ready")
            while True:
                report = store.hype(limit=8, parallel=2)
                assert report.error is None, report.error
                self.line.say("ack", of="hype", done=True)

    def upkeep(self) -> None:
        """Backs up, restores into a second base, compacts."""
        second = self.folder / "second.sqlite3"
        with self.store() as store:
            number = self.line.say("ready")
            while True:
                copy = self.folder / "backups" / f"{number}.sqlite3"
                try:
                    backup.backup(store, copy)
                    with kbstore.Store(second, embedder=None) as other:
                        before = backup.restore(other, copy)
                        before.unlink()
                        for problem in findings(other):
                            self.line.say("wrong", what=f"after a restore: {problem}")
                    number = self.line.say("ack", of="backup and restore", done=True)
                    if self.rng.random() < 0.2:
                        backup.compact(store)
                        number = self.line.say("ack", of="compact", done=True)
                    elif self.rng.random() < 0.3:
                        store.optimize()
                        number = self.line.say("ack", of="optimize", done=True)
                except BusyError as error:
                    number = self.line.say("busy", error=str(error), of="upkeep")
                for old in self.folder.glob("backups/*"):
                    if old.name != copy.name:
                        old.unlink()
                for old in self.folder.glob("second.sqlite3.before-*"):
                    old.unlink()


# What must be there ------------------------------------------------------------------------------


@dataclass
class Known:
    """What the processes have been told is done. ``possible``: what a note may be (None: not
    there), more than one where a process was killed while it was changing it."""

    possible: dict[str, set[int | None]] = field(
        default_factory=lambda: defaultdict(lambda: {None})
    )
    texts: dict[str, deque[int]] = field(
        default_factory=lambda: defaultdict(lambda: deque(maxlen=RECENT))
    )
    lines: dict[str, set[int]] = field(default_factory=lambda: defaultdict(set))
    questions: dict[str, set[int]] = field(default_factory=lambda: defaultdict(set))
    vetoes: set[int] = field(default_factory=set)

    def maybe(self, intent: dict[str, Any]) -> None:
        for path, number in intent.get("changes", {}).items():
            self.possible[path].add(number)

    def settle(self, intent: dict[str, Any], text: dict[str, int]) -> None:
        for path, number in intent.get("changes", {}).items():
            self.possible[path] = {number}
            if number is not None:
                self.texts[path].append(number)
        for path, number in (intent.get("text", {}) | text).items():
            self.texts[path].append(number)
        if "append" in intent:
            self.lines[intent["append"]].add(intent["number"])
        if "ask" in intent:
            self.questions[intent["ask"]].add(intent["number"])
        if "veto" in intent:
            self.vetoes.add(intent["veto"])

    def losses(self, connection: apsw.Connection, exact: bool) -> Iterator[str]:
        """What is not in the base. ``exact``: nobody has changed it since."""
        there = {}
        numbers: set[int] = set()
        for path, title, body in connection.execute("select path, title, body from document"):
            there[path] = (title, body)
            numbers.add(number_of(title, body) or 0)
        for title, body in connection.execute("select title, body from document_version"):
            numbers.add(number_of(title, body) or 0)
        for path, texts in self.texts.items():
            for number in texts:
                if number not in numbers:
                    yield f"the text of operation {number} in {path} is nowhere"
        for path, lines in self.lines.items():
            found = {int(n) for n in re.findall(r"Line (\d+)\.", there.get(path, ("", ""))[1])}
            yield from (f"line {number} of {path} is lost" for number in sorted(lines - found))
        rows = connection.execute(
            """select d.path, q.text from question q join document d on d.id = q.document_id
               where q.origin = 'user'"""
        )
        asked = set(rows)
        for path, numbers in self.questions.items():
            for number in numbers:
                if (path, f"What is the line of {number}?") not in asked:
                    yield f"question {number} of {path} is lost"
        open_again = {
            row[0] for row in connection.execute("select id from question where not vetoed")
        }
        yield from (f"the veto of question {n} is lost" for n in sorted(self.vetoes & open_again))
        if not exact:
            return
        for path, possible in self.possible.items():
            number = number_of(*there[path]) if path in there else None
            if number not in possible or (path in there and number is None):
                yield f"{path} has the text of operation {number}, not of {possible}"


# The parent --------------------------------------------------------------------------------------


@dataclass
class Child:
    role: str
    number: int
    pid: int
    reading: int
    writing: int
    rest: bytes = b""
    intent: dict[str, Any] = field(default_factory=dict)


class Soak:
    def __init__(self, folder: Path, seed: int, kill_every: int = 60) -> None:
        self.folder, self.rng, self.kill_every = folder, random.Random(seed), kill_every
        self.known = Known()
        self.children: list[Child] = []
        self.selector = selectors.DefaultSelector()
        self.operations: Counter[str] = Counter()
        self.kills: Counter[str] = Counter()
        self.problems: Counter[str] = Counter()  # of the mirror, which is no loss
        self.wrong: list[str] = []
        self.restarts = self.checks = self.reads = self.busy = 0
        self.longest = self.slowest = 0.0
        self.next_number = 1
        self.next_kill = kill_every

    def run(self, *, minutes: float = 0.0, operations: int = 0, check_every: int = 0) -> None:
        """Until so many minutes are over, or so many operations of the writers are done."""
        with kbstore.Store(self.folder / "kb.sqlite3", embedder=None) as store:
            store.session.set("keep_versions", VERSIONS)
            store.session.set("hype_model", FakeGenerator.name)
        self.journal = (self.folder / "journal").open("ab", buffering=0)
        for number, role in enumerate(ROLES):
            self._start(role, number)
        begin = minute = time.monotonic()
        checked = 0
        try:
            while True:
                for key, _ in self.selector.select(timeout=1.0):
                    self._hear(key.data)
                done = sum(self.operations.values())
                if done >= self.next_kill:
                    self._kill()
                if check_every and done >= checked + check_every:
                    checked = done
                    self._check(self._look_at_copy)
                if not check_every and time.monotonic() - minute > 60:
                    minute = time.monotonic()
                    self._check(self._look_at_copy)
                    print(f"  {(minute - begin) / 60:.0f} min: {self.line()}", flush=True)
                if done >= operations if operations else time.monotonic() - begin > minutes * 60:
                    break
        finally:
            self._stop()
        self._check(self._look_at_the_end)
        self.journal.close()

    # Children

    def _start(self, role: str, number: int) -> None:
        reading, theirs_out = os.pipe()
        theirs_in, writing = os.pipe()
        seed = self.rng.randrange(1 << 30)
        sys.stdout.flush()
        pid = os.fork()
        if not pid:
            for child in self.children:
                os.close(child.reading)
                os.close(child.writing)
            os.close(reading)
            os.close(writing)
            _serve(self.folder, role, number, Line(theirs_in, theirs_out), random.Random(seed))
        os.close(theirs_out)
        os.close(theirs_in)
        child = Child(role, number, pid, reading, writing)
        self.children.append(child)
        self.selector.register(reading, selectors.EVENT_READ, child)

    def _hear(self, child: Child) -> None:
        data = os.read(child.reading, 65_536)
        if not data:
            self._gone(child)
            self.restarts += 1
            self._start(child.role, child.number)
            return
        *lines, child.rest = (child.rest + data).split(b"\n")
        for line in lines:
            self._heard(child, json.loads(line))
            self._answer(child, str(self.next_number))
            self.next_number += 1

    def _answer(self, child: Child, text: str) -> None:
        with suppress(BrokenPipeError):
            os.write(child.writing, text.encode() + b"\n")

    def _heard(self, child: Child, said: dict[str, Any]) -> None:
        self.longest = max(self.longest, said["waited"])
        limit = connection_module.BUSY_TIMEOUT_MS / 1000
        if said["waited"] > limit + 5 and said["kind"] != "busy":
            self.wrong.append(f"{child.role} waited {said['waited']} s without an error")
        if said["kind"] == "intend":
            child.intent = said
            self.known.maybe(said)
        elif said["kind"] == "ack":
            if said["done"]:
                self.journal.write(json.dumps([child.number, child.intent, said]).encode() + b"\n")
                os.fsync(self.journal.fileno())
                self.known.settle(child.intent if child.role == "writer" else {},
                                  said.get("text", {}))  # fmt: skip
            self.operations[said["of"]] += 1
            self.slowest = max(self.slowest, said.get("took", 0.0))
            for problem in said.get("problems", []):
                self.problems[re.sub(r"\S*\d\S*", "…", problem)] += 1
            child.intent = {}
        elif said["kind"] == "busy":
            self.busy += 1
            if said["waited"] < limit * 0.9 or "more than 10 seconds" not in said["error"]:
                self.wrong.append(f"after {said['waited']} s: {said['error']}")
        elif said["kind"] == "read":
            self.reads += 10
        elif said["kind"] in ("wrong", "error"):
            self.wrong.append(f"{child.role}: {said['what']}")

    def _kill(self) -> None:
        """One of them at any instant; of ten times once all of them, so that nobody is left."""
        self.next_kill = sum(self.operations.values()) + self.rng.randint(1, 2 * self.kill_every)
        all_of_them = self.rng.random() < 0.1
        victims = list(self.children) if all_of_them else [self.rng.choice(self.children)]
        for child in victims:
            os.kill(child.pid, signal.SIGKILL)
            self.kills[child.role] += 1
        for child in victims:
            self._drain(child)
        for child in victims:
            self.restarts += 1
            self._start(child.role, child.number)

    def _drain(self, child: Child) -> None:
        """What it has still said counts."""
        data = child.rest
        while more := os.read(child.reading, 65_536):
            data += more
        for line in data.split(b"\n")[:-1]:
            self._heard(child, json.loads(line))
        self._gone(child)

    def _gone(self, child: Child) -> None:
        self.selector.unregister(child.reading)
        os.close(child.reading)
        os.close(child.writing)
        os.waitpid(child.pid, 0)
        self.children.remove(child)

    def _stop(self) -> None:
        """Each at the end of what it does."""
        for child in list(self.children):
            while child in self.children:
                data = os.read(child.reading, 65_536)
                if not data:
                    self._gone(child)
                    continue
                *lines, child.rest = (child.rest + data).split(b"\n")
                for line in lines:
                    self._heard(child, json.loads(line))
                    self._answer(child, "stop")

    # Checks

    def _check(self, look: Callable[[], Iterator[str]]) -> None:
        """In a process of its own: this one never opens the base while others are at work."""
        reading, writing = os.pipe()
        pid = os.fork()
        if not pid:
            os.close(reading)
            try:
                found = list(look())
            except BaseException:
                found = [traceback.format_exc()]
            with os.fdopen(writing, "w") as stream:
                json.dump(found[:50], stream)
            os._exit(0)
        os.close(writing)
        with os.fdopen(reading) as stream:
            self.wrong += json.load(stream)
        os.waitpid(pid, 0)
        self.checks += 1

    def _look_at_copy(self) -> Iterator[str]:
        copy = self.folder / "copy.sqlite3"
        with kbstore.Store(self.folder / "kb.sqlite3", embedder=None) as store:
            backup.backup(store, copy, force=True)
        with kbstore.Store(copy, embedder=FakeEmbedder("A")) as store:
            yield from findings(store)
            yield from halves(store.connection)
            yield from self.known.losses(store.connection, exact=False)

    def _look_at_the_end(self) -> Iterator[str]:
        with kbstore.Store(
            self.folder / "kb.sqlite3", embedder=FakeEmbedder("A"), hype=FakeGenerator()
        ) as store:
            yield from findings(store)
            yield from halves(store.connection)
            yield from map(str, store.connection.execute("pragma foreign_key_check"))
            yield from self.known.losses(store.connection, exact=True)
            store.embed()
            store.hype()
            status = store.status()
            if status.pending or status.unquestioned:
                yield f"at the end {status.pending}, {status.unquestioned} are pending"
            yield from findings(store)
            for path, possible in self.known.possible.items():
                if len(possible) == 1 and (number := next(iter(possible))) is not None:
                    hits = store.search(f'"End of {number}"', retrievers=["words"]).hits
                    if path not in [hit.path for hit in hits]:
                        yield f"{path} is not found by its words"

    def line(self) -> str:
        kinds = ", ".join(f"{n} {kind}" for kind, n in self.operations.most_common())
        roles = ", ".join(f"{n} {role}" for role, n in self.kills.most_common())
        return (
            f"soak: {sum(self.operations.values())} operations ({kinds}), {self.reads} reads,"
            f" {sum(self.kills.values())} kills ({roles}), {self.restarts} restarts,"
            f" {self.checks} checks; longest wait for the lock {self.longest:.2f} s, slowest write"
            f" {self.slowest:.2f} s, {self.busy} BusyErrors; losses = {len(self.wrong)}"
        )


def _serve(folder: Path, role: str, number: int, line: Line, rng: random.Random) -> None:
    """All that a child does; never returns."""
    try:
        process = Process(folder, number, line, rng)
        process.run("folder_" if role == "folder" else role)
    except Stopped:
        os._exit(0)
    except BaseException:
        with suppress(BaseException):
            line.say("error", what=traceback.format_exc()[-1500:])
        os._exit(1)


@contextmanager
def folder_for(place: str | None) -> Iterator[Path]:
    if place:
        Path(place).mkdir(parents=True, exist_ok=True)
        yield Path(place).resolve()
        return
    with tempfile.TemporaryDirectory(prefix="kbstore-soak-") as made:
        yield Path(made).resolve()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--minutes", type=float, default=60.0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--kill-every", type=int, default=60, metavar="OPERATIONS")
    parser.add_argument("--folder", help="where to work and what to leave there (default: none)")
    given = parser.parse_args()
    with folder_for(given.folder) as folder:
        soak = Soak(folder, given.seed, given.kill_every)
        soak.run(minutes=given.minutes)
        print(soak.line())
        for problem, count in soak.problems.most_common(10):
            print(f"  the mirror said {count} times: {problem}")
        for found, count in Counter(soak.wrong).most_common(30):
            print(f"  {count} times: {found}")
        sys.exit(bool(soak.wrong))


if __name__ == "__main__":
    main()
