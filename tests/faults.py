"""A disk that fails when it is told to, and what a knowledge base must be afterwards.

`Disk` is SQLite's own way to the file with a counter in it. Every write, truncation, sync and
deletion is a point, and so is every call by which kbstore itself handles files (fsync, link,
replace, unlink …). At a point the disk says that it cannot, or that it is full, or the process
ends there. Or nothing happens and all of it is written down: from that record `survivors` tells
what is left of the files where the process was killed at a point, or the power was cut.

``python tests/faults.py`` goes through every point of every operation; the tests take a part.
"""

from __future__ import annotations

import argparse
import builtins
import errno
import hashlib
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Literal, NamedTuple
from unittest import mock

import apsw
from conftest import FakeEmbedder

import kbstore
from kbstore import backup, folder, hype, hype_run, mirror, passage, schema, vectors
from kbstore import check as check_module
from kbstore.errors import ConflictError, KBError, NotFoundError

BASE = apsw.vfs_names()[0]
SECTOR = 512
FIXTURE = Path(__file__).parent / "fixtures" / "schema_1.sqlite3.gz"

Fault = Literal["error", "full", "kill", "half"]
Loss = Literal["kill", "half", "lost", "torn", "scattered"]


class Event(NamedTuple):
    """One thing done to a file. ``what``: create, write, truncate, sync, delete, link, replace,
    folder (created), names (of a folder, synced), whole (its content), ack (of a step)."""

    what: str
    name: str
    at: int = 0  # offset, size, time of the file; for a deletion: whether the folder is synced
    data: bytes = b""
    to: str = ""


Files = dict[str, tuple[bytes, int]]  # name -> content, mtime_ns


# The disk ----------------------------------------------------------------------------------------


class Disk(apsw.VFS):
    """``fault`` happens at point ``at`` (from 1); "full" stays so until `heal`."""

    def __init__(self, name: str = "faults") -> None:
        super().__init__(name, BASE)
        self.name = name
        self.root = ""
        self.begin("")

    def begin(self, root: str, fault: Fault | None = None, at: int = 0, sync: bool = True) -> None:
        self.root, self.fault, self.at, self.honest = root, fault, at, sync
        self.count, self.fired = 0, False
        self.log: list[Event] = []
        self.points: list[int] = []  # length of the log before each

    def heal(self) -> None:
        self.fault = None

    def point(self, event: Event, code: int, half: Callable[[], object] | None = None) -> None:
        """Raises what the disk says here; else the event is written down."""
        self.count += 1
        full = self.fault == "full" and event.what not in ("delete", "folder")
        hit = self.count >= self.at if full else self.count == self.at
        if hit and self.fault and (full or self.fault != "full"):
            if self.fault in ("half", "full") and half:
                half()
            if self.fault in ("kill", "half"):
                os._exit(9)
            if self.fault == "full" or self.count == self.at:
                self.fired = True
                _refuse(self.fault, code)
        self.points.append(len(self.log))
        self.log.append(event)

    def note(self, event: Event) -> None:
        self.log.append(event)

    def xOpen(self, name: Any, flags: list[int]) -> apsw.VFSFile:
        place = name.filename() if isinstance(name, apsw.URIFilename) else name
        if place and not os.path.exists(place):
            self.note(Event("create", place))
        return _DiskFile(self, place or "", name, flags)

    def xDelete(self, name: str, sync: bool) -> None:
        self.point(Event("delete", name, int(sync)), apsw.SQLITE_IOERR_DELETE)
        super().xDelete(name, False)

    def excepthook(self, *_: object) -> bool:
        return True  # a fault of ours while closing, which nobody can be told of

    # What kbstore does with files itself

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Fsync, link, replace, unlink, mkdir and creation below ``root`` are points, too."""
        real = SimpleNamespace(**{name: getattr(os, name) for name in _CALLS})

        def inside(place: object) -> bool:
            return isinstance(place, (str, os.PathLike)) and os.fspath(place).startswith(self.root)

        def whole(place: str) -> None:
            with builtins.open(place, "rb") as stream:
                content = stream.read()
            self.note(Event("whole", place, os.stat(place).st_mtime_ns, content))

        def fsync(handle: int) -> None:
            info = os.fstat(handle)
            place = next((p for p in _places(self.root) if os.path.samestat(p[1], info)), None)
            if place is None:
                return
            if os.path.isdir(place[0]):
                self._call(Event("names", place[0]))
                return
            whole(place[0])
            self._call(Event("sync", place[0]))

        def link(old: Any, new: Any) -> None:
            if inside(new):
                whole(os.fspath(old))
                self._call(Event("link", os.fspath(old), to=os.fspath(new)))
            real.link(old, new)

        def replace(old: Any, new: Any) -> None:
            if inside(new):
                whole(os.fspath(old))
                self._call(Event("replace", os.fspath(old), to=os.fspath(new)))
            real.replace(old, new)

        def unlink(place: Any, **more: Any) -> None:
            if inside(place) and os.path.lexists(place):
                self._call(Event("delete", os.fspath(place)), may_fail=False)
            real.unlink(place, **more)

        def mkdir(place: Any, *more: Any, **most: Any) -> None:
            if inside(place) and not os.path.exists(place):
                self._call(Event("folder", os.fspath(place)), may_fail=False)
            real.mkdir(place, *more, **most)

        def os_open(place: Any, flags: int, *more: Any, **most: Any) -> int:
            if inside(place) and flags & os.O_CREAT:
                self._call(Event("create", os.fspath(place)))
            return real.open(place, flags, *more, **most)

        def open_(place: Any, mode: str = "r", *more: Any, **most: Any) -> Any:
            if inside(place) and "r" not in mode:
                self._call(Event("create", os.fspath(place)))
            return builtins.open(place, mode, *more, **most)

        ours = {"fsync": fsync, "link": link, "replace": replace, "rename": replace,
                "unlink": unlink, "mkdir": mkdir, "open": os_open}  # fmt: skip
        with ExitStack() as stack:
            for name, function in ours.items():
                stack.enter_context(mock.patch.object(os, name, function))
            stack.enter_context(mock.patch.object(folder, "open", open_, create=True))
            yield

    def _call(self, event: Event, *, may_fail: bool = True) -> None:
        self.point(event, 0 if may_fail else -1)


_CALLS = ("fsync", "link", "replace", "rename", "unlink", "mkdir", "open")


class _DiskFile(apsw.VFSFile):
    def __init__(self, disk: Disk, place: str, name: Any, flags: list[int]) -> None:
        super().__init__(BASE, name, flags)
        self.disk, self.place = disk, place

    def xWrite(self, data: bytes, offset: int) -> None:
        event = Event("write", self.place, offset, bytes(data))
        write = super().xWrite
        self.disk.point(
            event, apsw.SQLITE_IOERR_WRITE, lambda: write(data[: len(data) // 2], offset)
        )
        write(data, offset)

    def xTruncate(self, size: int) -> None:
        self.disk.point(Event("truncate", self.place, size), apsw.SQLITE_IOERR_TRUNCATE)
        super().xTruncate(size)

    def xSync(self, flags: int) -> None:
        # Nothing is gained by a real one: the power that is cut is ours.
        what = "sync" if self.disk.honest else "ignored"
        self.disk.point(Event(what, self.place), apsw.SQLITE_IOERR_FSYNC)
        if self.place.endswith(("-wal", "-journal")) and self.disk.honest:
            self.disk.note(Event("names", os.path.dirname(self.place)))  # as SQLite does

    def excepthook(self, *_: object) -> bool:
        return True


class Broken(apsw.IOError):
    """What a `Disk` raises."""


class Full(apsw.FullError):
    """What a `Disk` raises when it is full."""


def _refuse(fault: Fault, code: int) -> None:
    if code == 0:
        number = errno.ENOSPC if fault == "full" else errno.EIO
        raise OSError(number, os.strerror(number))
    if code > 0:
        error = Full("the disk is full") if fault == "full" else Broken("the disk is broken")
        error.extendedresult = apsw.SQLITE_FULL if fault == "full" else code
        raise error


def _places(root: str) -> Iterator[tuple[str, os.stat_result]]:
    for top, _, files in os.walk(root):
        for place in (top, *(os.path.join(top, name) for name in files)):
            with suppress(OSError):
                yield place, os.stat(place)


# What is left ------------------------------------------------------------------------------------


@dataclass
class _Inode:
    content: bytearray
    mtime: int
    kept: bytes = b""  # as it was at the last sync
    since: list[Event] = field(default_factory=list)


def survivors(base: Files, log: Sequence[Event], loss: Loss, rng: random.Random) -> Files:
    """The files after ``log`` when then the process is killed (all that was written is there;
    "half": of the last write the first half), or the power is cut. "lost": nothing of a file
    survives but what was there at its last sync, and no name but those of synced folders; "torn":
    of what came later a first part survives, cut in the middle of a write; "scattered": any
    sectors of it do."""
    live = {name: _Inode(bytearray(data), mtime, data) for name, (data, mtime) in base.items()}
    kept = dict(live)
    names: list[Event] = []  # changes of names that no sync has made sure of
    inodes: dict[int, _Inode] = {}  # by the change that made it

    def change(where: dict[str, _Inode], event: Event) -> None:
        if event.what == "create":
            where.setdefault(event.name, inodes[id(event)])
        elif event.what in ("link", "replace"):
            inode = inodes[id(event)]
            where[event.to] = inode
            if event.what == "replace":
                where.pop(event.name, None)
        else:
            where.pop(event.name, None)

    if loss == "half" and log and log[-1].what == "write":
        last = log[-1]
        log = [*log[:-1], last._replace(data=last.data[: len(last.data) // 2])]
    for event in log:
        inode = live.get(event.name)
        if event.what in ("create", "link", "replace", "delete"):
            if event.what == "create":
                inodes[id(event)] = inode or _Inode(bytearray(), 0)
            elif inode:
                inodes[id(event)] = inode
            else:
                continue
            change(live, event)
            names.append(event)
            if event.what == "delete" and event.at:
                names = _make_sure(names, os.path.dirname(event.name), kept, change)
        elif event.what == "names":
            names = _make_sure(names, event.name, kept, change)
        elif inode is None:
            continue
        elif event.what == "sync":
            inode.kept, inode.since = bytes(inode.content), []
        elif event.what == "whole":
            inode.mtime = event.at
            if inode.content != event.data:
                inode.content = bytearray(event.data)
                inode.since.append(event)
        elif event.what in ("write", "truncate"):
            _apply(inode.content, event)
            inode.since.append(event)
    if loss in ("kill", "half"):
        return {name: (bytes(inode.content), inode.mtime) for name, inode in live.items()}
    if loss != "lost":
        for event in names[: rng.randint(0, len(names))]:
            change(kept, event)
    contents: dict[int, bytes] = {}
    for name in sorted(kept):
        contents.setdefault(id(kept[name]), _cut(kept[name], loss, rng))
    return {name: (contents[id(inode)], inode.mtime) for name, inode in kept.items()}


def _make_sure(
    names: list[Event], parent: str, kept: dict[str, _Inode], change: Callable[..., None]
) -> list[Event]:
    left = []
    for event in names:
        if os.path.dirname(event.to or event.name) == parent:
            change(kept, event)
        else:
            left.append(event)
    return left


def _apply(content: bytearray, event: Event) -> None:
    if event.what == "truncate":
        del content[event.at :]
        content.extend(bytes(max(0, event.at - len(content))))
    elif event.what == "whole":
        content[:] = event.data
    else:
        content.extend(bytes(max(0, event.at - len(content))))
        content[event.at : event.at + len(event.data)] = event.data


def _cut(inode: _Inode, loss: Loss, rng: random.Random) -> bytes:
    content = bytearray(inode.kept)
    if loss == "lost" or not inode.since:
        return bytes(content)
    if loss == "torn":
        whole = rng.randrange(len(inode.since))
        for event in inode.since[:whole]:
            _apply(content, event)
        last = inode.since[whole]
        sectors = rng.randint(0, len(last.data) // SECTOR)
        if last.what != "truncate":
            _apply(content, Event("write", "", last.at if last.what == "write" else 0,
                                  last.data[: sectors * SECTOR]))  # fmt: skip
        return bytes(content)
    for event in inode.since:
        if event.what == "truncate":
            if rng.random() < 0.5:
                _apply(content, event)
            continue
        start = event.at if event.what == "write" else 0
        while start < (event.at if event.what == "write" else 0) + len(event.data):
            offset = start - (event.at if event.what == "write" else 0)
            size = min(SECTOR - start % SECTOR, len(event.data) - offset)
            if rng.random() < 0.5:
                _apply(content, Event("write", "", start, event.data[offset : offset + size]))
            start += size
    return bytes(content)


def files_below(root: Path) -> Files:
    return {
        str(place): (place.read_bytes(), place.stat().st_mtime_ns)
        for place in sorted(root.rglob("*"))
        if place.is_file() and not place.name.endswith("-shm")
    }


def lay_out(root: Path, files: Files) -> None:
    """Make the folder hold these files and no others."""
    for place in root.iterdir():
        if place.is_dir():
            shutil.rmtree(place)
        else:
            place.unlink()
    for name, (data, mtime) in files.items():
        os.makedirs(os.path.dirname(name), exist_ok=True)
        with open(name, "wb") as stream:
            stream.write(data)
        os.utime(name, ns=(mtime, mtime))


# What a base holds -------------------------------------------------------------------------------

Content = dict[str, list[tuple[Any, ...]]]

CONTENT = {
    "documents": """
        select path, title, tags, description, created, updated, frontmatter, body, content_hash
        from document order by path""",
    "versions": """
        select path, event, title, tags, description, created, updated, frontmatter, body,
          content_hash
        from document_version order by id""",
    "questions by hand": """
        select d.path, q.text, q.origin, q.vetoed
        from question q join document d on d.id = q.document_id
        where q.origin = 'user' or q.vetoed order by 1, 2""",
    "questions": """
        select d.path, q.text, q.origin, q.vetoed, q.content_hash, q.model
        from question q join document d on d.id = q.document_id order by 1, 2""",
    "questioned": """
        select d.path, a.content_hash, a.model
        from questioned a join document d on d.id = a.document_id order by 1""",
    "vectors": """
        select d.path, e.model, e.content_hash, e.seq, e.body_start, e.body_end, e.crc
        from document_embedding e join document d on d.id = e.document_id order by 1, 2, 3, 4""",
    "vectors of questions": """
        select d.path, q.text, e.model, e.crc from question_embedding e
        join question q on q.id = e.question_id join document d on d.id = q.document_id
        order by 1, 2, 3""",
    "failures": "select document_id, stage, error from failure order by 1, 2",
    "files": """
        select s.root, s.file, d.path, s.size, s.hash, s.changed is not null
        from source_file s left join document d on d.id = s.document_id order by 1, 2""",
    "settings": "select name, value from setting order by 1",
    "queue": "select kind, id from vector_queue order by 1, 2",
}


BY_PEOPLE = ("documents", "versions", "questions by hand")  # the rest is made from it


def content_of(connection: apsw.Connection) -> Content:
    return {name: connection.execute(sql).fetchall() for name, sql in CONTENT.items()}


def halves(connection: apsw.Connection) -> list[str]:
    """Documents that are neither whole (text, vectors and questions of one content hash) nor
    visibly pending."""
    model = connection.execute("select value from setting where name = 'model'").get
    pending = set(connection.execute("select path, what from v_pending"))
    found = []
    documents = connection.execute("select id, path, body, content_hash from document").fetchall()
    for number, path, body, digest in documents:
        rows = connection.execute(
            """select seq, body_start, body_end from document_embedding
               where document_id = ? and content_hash = ? and model = ? order by seq""",
            (number, digest, model),
        ).fetchall()
        parts = [(i, part.start, part.end) for i, part in enumerate(passage.split(body))]
        if rows != (parts if (path, "document") not in pending else []):
            found.append(f"{path}: {len(rows)} of {len(parts)} vectors")
        asked = connection.execute(
            "select model from questioned where document_id = ? and content_hash = ?",
            (number, digest),
        ).fetchall()
        written = connection.execute(
            """select count(*) from question
               where document_id = ? and content_hash = ? and origin = 'llm'""",
            (number, digest),
        ).get
        if asked == [(FakeGenerator.name,)] and written != 3:
            found.append(f"{path}: {written} of 3 questions")
        unsearched = connection.execute(
            """select text from question q
               where document_id = ? and not vetoed and (content_hash is null or content_hash = ?)
                 and not exists (
                   select 1 from question_embedding e
                   where e.question_id = q.id and e.model = ?)""",
            (number, digest, model),
        ).fetchall()
        if unsearched and (path, "question") not in pending:
            found.append(f"{path}: {len(unsearched)} questions are neither searched nor pending")
    return found


_sound: set[frozenset[tuple[Any, ...]]] = set()


def findings(store: kbstore.Store) -> list[str]:
    """What `check` finds. A schema that it has found to be as it should be is not compared with
    that of a fresh file again: it would take as long as all the rest."""
    rows = frozenset(store.connection.execute("select type, name, sql from sqlite_schema"))
    with ExitStack() as stack:
        if rows in _sound:
            mocked = mock.patch.object(check_module._Check, "_structure", autospec=True)
            stack.enter_context(mocked)
        report = check_module.check(store, everything=True)
    if not report.findings:
        _sound.add(rows)
    return [f"{found.kind} {found.what}: {found.finding}" for found in report.findings]


def missing(before: Content, now: Content) -> list[str]:
    """What was stored before and is neither there nor in the history."""
    texts = {(row[1], row[-2]) for row in now["documents"]}
    texts |= {(row[2], row[-2]) for row in now["versions"]}
    titles = {row[0]: (row[1], row[-2]) for row in before["documents"]}
    lost = [f"the text of {path} is lost" for path, text in titles.items() if text not in texts]
    versions = Counter(now["versions"])
    versions.subtract(before["versions"])
    lost += [f"a version of {row[0]} is lost" for row, n in versions.items() if n < 0]
    paths = {row[0] for row in now["documents"]}
    by_hand = {row[:2] for row in now["questions by hand"]}
    lost += [
        f"the question {row[1]!r} of {row[0]} is lost"
        for row in before["questions by hand"]
        if row[0] in paths and row[:2] not in by_hand
    ]
    return lost


# Operations --------------------------------------------------------------------------------------


class FakeGenerator:
    """Writes three questions about a text, always the same."""

    name = "fake LLM"

    def questions(self, note: str, avoid: Sequence[str] = ()) -> list[str]:
        word = hashlib.sha256(note.encode()).hexdigest()[:8]
        return hype.parse("\n".join(f"What is number {n} of {word}?" for n in "123"))


Step = Callable[[kbstore.Store, Path], object]


@dataclass(frozen=True)
class Operation:
    """``base`` lays out what is there before. ``steps`` can be done again. ``spread``: about how
    many of its points the tests take for each fault (None: all)."""

    base: Callable[[Path], object]
    steps: tuple[Step, ...] = ()
    model: str = "A"
    mirror: bool = False
    heal: bool = False  # what is done again does not make the vectors that are missing
    make: bool = False  # by its path, through the default VFS
    checkpoint: int | None = None  # after so many pages
    spread: int | None = None


def _open(
    root: Path, model: str = "A", vfs: str | None = None, make: bool = False
) -> kbstore.Store:
    embedder, file = FakeEmbedder(model), root / "kb.sqlite3"
    if make:
        return kbstore.Store(file, embedder=embedder, hype=FakeGenerator())
    connection = apsw.Connection(str(file), vfs=vfs)
    try:
        return kbstore.Store(connection, embedder=embedder, hype=FakeGenerator())
    except BaseException:
        _close_connection(connection)
        raise


def _close(store: kbstore.Store) -> None:
    with suppress(Broken, Full):
        store.close()
    _close_connection(store.connection)


def _close_connection(connection: apsw.Connection) -> None:
    with suppress(Broken, Full):  # of a checkpoint: SQLite itself keeps quiet about it
        connection.close()


LONG = "\n\n".join(f"Paragraph {n}. " + f"word{n} backoff jitter limit " * 12 for n in range(9))


def _nothing(root: Path) -> None:
    pass


def _notes(root: Path) -> None:
    store = _open(root)
    day = "2026-11-01"
    store.put("domains/retries.md", "Retry with backoff.", tags=["http"], updated=day)
    store.put("domains/long.md", LONG, title="Long", updated=day)
    store.put("domains/cjk.md", "部署方案 and しりとり", title="漢字", updated=day)
    store.put("projects/old.md", "The first text.", updated=day)
    store.put("projects/old.md", "The second text.", updated="2026-11-02")
    store.put("projects/gone.md", "A text that was deleted.", updated=day)
    store.delete("projects/gone.md")
    store.questions.add("domains/retries.md", "How often do we try again?")
    store.questions.veto([store.questions.list("domains/retries.md")[0].id], True)
    _close(store)


def _pending(root: Path) -> None:
    _notes(root)
    store = _open(root)
    for number in range(5):
        body = LONG if number == 2 else f"A text {number} that waits."
        store.put(f"new/{number}.md", body, updated=f"2026-11-1{number}", defer=True)
    store.connection.execute(
        "insert into question (document_id, text) select id, 'Why ' || id || '?' from document"
    )
    _close(store)


def _mirrored(root: Path) -> None:
    _notes(root)
    (root / "notes" / "deep").mkdir(parents=True)
    for name in ("one", "two", "three", "four", "deep/five", "deep/six"):
        _file(root, name, f"# {name}\n\nThe text of {name}.\n")
    store = _open(root)
    mirror.sync(store, root / "notes", hype=False)
    _close(store)


def _file(root: Path, name: str, text: str, time: int = 1_790_000_000) -> None:
    place = root / "notes" / f"{name}.md"
    place.write_text(text)
    os.utime(place, (time, time))


def _edited_folder(root: Path) -> None:
    _mirrored(root)
    later = 1_790_009_000
    _file(root, "one", "# one\n\nAnother text.\n", later)
    _file(root, "deep/six", LONG, later)
    _file(root, "seven", "# seven\n\nA new one.\n", later)
    (root / "notes" / "two.md").rename(root / "notes" / "zwei.md")
    (root / "notes" / "three.md").unlink()


def _edited_store(root: Path) -> None:
    _mirrored(root)
    store = _open(root)
    store.put("one.md", "Another text.", updated="2026-11-20")
    store.put("new/seven.md", "A new one.", updated="2026-11-20")
    store.move("two.md", "deep/zwei.md")
    store.delete("three.md")
    _close(store)


def _backed_up(root: Path) -> None:
    _notes(root)
    store = _open(root)
    backup.backup(store, root / "copy.sqlite3")
    store.put("domains/retries.md", "Never retry.", updated="2026-11-20")
    store.put("later.md", "Not in the backup.", updated="2026-11-20")
    store.delete("projects/old.md")
    _close(store)


def _old_schema(root: Path) -> None:
    import gzip

    (root / "kb.sqlite3").write_bytes(gzip.decompress(FIXTURE.read_bytes()))


def _left_behind(root: Path) -> None:
    """The file of a process that was killed: the -wal file has all that was written."""
    _notes(root)
    base = files_below(root)
    disk = disk_of()
    disk.begin(str(root))
    store = _open(root, vfs=disk.name)
    store.put("later.md", LONG, updated="2026-11-20")
    store.delete("projects/old.md")
    log = list(disk.log)
    _close(store)
    lay_out(root, survivors(base, log, "kill", random.Random(0)))


def _put(path: str, body: str) -> Step:
    return lambda store, _: store.put(path, body, title="T", updated="2026-11-30")


def _done(error: type[KBError], step: Step) -> Step:
    def again(store: kbstore.Store, root: Path) -> None:
        with suppress(error):
            step(store, root)

    return again


class _UnfinishedError(KBError):
    pass


def _sync(store: kbstore.Store, root: Path, write: bool = True) -> None:
    report = mirror.sync(store, root / "notes", hype=False, write=write)
    if report.problems:
        raise _UnfinishedError(str(report.problems))


_DELETE = _done(NotFoundError, lambda store, _: store.delete("domains/long.md"))
_MOVE = _done(NotFoundError, lambda store, _: store.move("projects/old.md", "archive/older.md"))
_ADD = _done(
    ConflictError, lambda store, _: store.questions.add("projects/old.md", "What was first?")
)

OPERATIONS: dict[str, Operation] = {
    "put, a new note": Operation(_notes, (_put("new/one.md", "A new text. 部署"),)),
    "put, another text": Operation(_notes, (_put("domains/long.md", LONG[:1500]),)),
    "delete": Operation(_notes, (_DELETE,)),
    "move": Operation(_notes, (_MOVE,)),
    "veto": Operation(_notes, (lambda store, _: store.questions.veto([1, 2], True),)),
    "a question by hand": Operation(_notes, (_ADD,), heal=True),
    "embed": Operation(_pending, (lambda store, _: store.embed(),), spread=40),
    "hype": Operation(_pending, (lambda store, _: store.hype(parallel=1),), spread=40),
    "another model": Operation(_notes, (lambda store, _: store.embed(),), model="B", spread=30),
    "sync inward": Operation(
        _edited_folder,
        (lambda store, root: _sync(store, root, write=False),),
        mirror=True, spread=40,
    ),
    "sync outward": Operation(
        _edited_store,
        (_sync,),
        mirror=True, spread=60,
    ),
    "several, with checkpoints": Operation(
        _notes,
        (_put("a.md", "First."), _put("b.md", LONG[:1500]), _put("domains/cjk.md", "Second."),
         _DELETE, _MOVE),
        checkpoint=1, spread=40,
    ),
    "after a kill": Operation(_left_behind, (_put("a.md", "First."), _DELETE), spread=40),
    "migration": Operation(_old_schema, spread=40),
    "a new file": Operation(_nothing, make=True, spread=30),
    "a new file of a host": Operation(_nothing, spread=30),
    "backup": Operation(
        _notes, (lambda store, root: backup.backup(store, root / "copy.sqlite3", force=True),),
        spread=30,
    ),
    "restore": Operation(
        _backed_up, (lambda store, root: backup.restore(store, root / "copy.sqlite3"),), spread=40
    ),
    "compact": Operation(_pending, (lambda store, _: backup.compact(store),), spread=40),
}  # fmt: skip


@dataclass
class Reference:
    """How an operation goes when nothing happens. ``states``: the content after each commit;
    ``acks``: for each step the state at its end; ``log`` and ``points``: of the disk."""

    base: Files
    states: list[Content]
    acks: list[int]
    log: list[Event]
    points: list[int]
    after: Files


_disks: list[Disk] = []


def disk_of() -> Disk:
    if not _disks:
        _disks.append(Disk())
    return _disks[0]


@contextmanager
def small_batches() -> Iterator[None]:
    """So that a small base takes several transactions, too."""
    with (
        mock.patch.object(vectors, "_BATCH", 2),
        mock.patch.object(vectors, "_QUESTIONS", 4),
        mock.patch.object(mirror, "_BATCH", 2),
        mock.patch.object(hype_run, "_EMBED", 2),
    ):
        yield


def perform(
    root: Path,
    operation: Operation,
    disk: Disk,
    *,
    go_on: bool = False,
    prepare: Callable[[apsw.Connection], object] = lambda _: None,
) -> tuple[int, Exception | None]:
    """Do it on the disk; how many steps were acknowledged, and what was raised. ``go_on``: then
    the disk is well again, and all is done once more on the same connection."""
    acks = 0
    raised: Exception | None = None
    store = None
    with small_batches(), disk.watching():
        try:
            if operation.make:
                apsw.set_default_vfs(disk.name)
            store = _open(root, operation.model, disk.name, operation.make)
            if operation.checkpoint:
                store.connection.wal_autocheckpoint(operation.checkpoint)
            prepare(store.connection)
            for step in operation.steps:
                step(store, root)
                acks += 1
                disk.note(Event("ack", ""))
        except Exception as error:
            raised = error
        try:
            if store and go_on and disk.fired:
                disk.heal()
                for step in operation.steps:
                    step(store, root)
                acks = len(operation.steps)
        finally:
            apsw.set_default_vfs(BASE)
            if store:
                _close(store)
    return acks, raised


def reference(root: Path, operation: Operation) -> Reference:
    lay_out(root, {})
    operation.base(root)
    base = files_below(root)
    states: list[Content] = []
    acks: list[int] = []

    def commit(connection: apsw.Connection, *_: object) -> int:
        states.append(content_of(connection))
        return apsw.SQLITE_OK

    with small_batches():
        store = _open(root, operation.model, make=operation.make)
        states.append(content_of(store.connection))
        store.connection.set_wal_hook(commit)
        for step in operation.steps:
            step(store, root)
            if content_of(store.connection) != states[-1]:  # a restore is no statement
                states.append(content_of(store.connection))
            acks.append(len(states) - 1)
        _close(store)
    after = files_below(root)
    lay_out(root, base)
    disk = disk_of()
    disk.begin(str(root))
    _, error = perform(root, operation, disk)
    if error:
        raise error
    return Reference(base, states, acks, list(disk.log), list(disk.points), after)


# Judging -----------------------------------------------------------------------------------------


@dataclass
class Verdict:
    problems: list[str]
    state: int = -1  # of the reference; of equal ones the last
    lost: int = 0  # steps that were acknowledged, and are not there


def judge(
    root: Path,
    operation: Operation,
    known: Reference,
    acked: int,
    *,
    again: bool = False,
    names: Sequence[str] = tuple(CONTENT),
) -> Verdict:
    """Open what is left as anybody would, and look at all of it. ``acked``: so many steps must be
    there. ``again``: do the operation once more; then it must be there in full. ``names``: the
    content that must be that of a moment of the undisturbed run."""

    def view(content: Content) -> Content:
        return _without_headers(content) if operation.mirror else content

    states = [view(state) for state in known.states]
    verdict = Verdict([])
    problems = verdict.problems
    file = root / "kb.sqlite3"
    if operation.base is _old_schema:
        problems += _old_or_new(file, known)
    if operation.make and not file.exists():
        again = True
    try:
        store = _open(root, operation.model, make=operation.make)
    except Exception as error:
        problems.append(f"it cannot be opened: {error!r}")
        return verdict
    try:
        store.connection.pragma("synchronous", "off")  # nobody cuts the power of the judge
        now = view(content_of(store.connection))
        same = (i for i, s in enumerate(states) if all(s[name] == now[name] for name in names))
        verdict.state = max(same, default=-1)
        if verdict.state < 0:
            problems.append(f"a state that never was: {_difference(states, now)}")
        verdict.lost = sum(ack > verdict.state >= 0 for ack in known.acks[:acked])
        problems += missing(states[0], _with_copies(root, now))
        problems += _look(store)
        if operation.mirror:
            problems += _half_files(root, known)
        if again:
            with small_batches():
                for step in operation.steps:
                    step(store, root)
                if operation.heal:
                    store.embed()
            now = view(content_of(store.connection))
            if now != states[-1]:
                difference = _difference(states[-1:], now)
                problems.append(f"done again, it is not there in full: {difference}")
            problems += [f"done again: {problem}" for problem in _look(store)]
            if operation.mirror:
                problems += _half_files(root, known, final=True)
    except Exception as error:
        problems.append(f"afterwards: {error!r}")
    finally:
        _close(store)
    return verdict


def _with_copies(root: Path, now: Content) -> Content:
    """With what a restore has put aside."""
    for file in root.glob("kb.sqlite3.before-*"):
        connection = apsw.Connection(str(file), flags=apsw.SQLITE_OPEN_READONLY)
        now = {name: rows + now[name] for name, rows in content_of(connection).items()}
        connection.close()
    return now


def _without_headers(content: Content) -> Content:
    """A file that was written, but not recorded, is read like one that somebody has changed: the
    note then keeps its header, and a version that says the same."""
    said = {row[0]: row[1:4] + row[7:8] for row in content["documents"]}
    return content | {
        "documents": [row[:6] + row[7:] for row in content["documents"]],
        "versions": [
            row[:7] + row[8:]
            for row in content["versions"]
            if row[1] != "update" or said.get(row[0]) != row[2:5] + row[8:9]
        ],
    }


def _look(store: kbstore.Store) -> list[str]:
    found = findings(store)
    found += [f"foreign key {row}" for row in store.connection.execute("pragma foreign_key_check")]
    return found + halves(store.connection)


def _difference(states: list[Content], now: Content) -> str:
    """From the state that is nearest."""

    def parts(state: Content) -> dict[str, tuple[list[Any], list[Any]]]:
        return {
            name: (
                [row for row in state[name] if row not in now[name]],
                [row for row in now[name] if row not in state[name]],
            )
            for name in state
            if state[name] != now[name]
        }

    nearest = min(
        map(parts, states), key=lambda part: sum(len(a) + len(b) for a, b in part.values())
    )
    return "; ".join(f"{n}: -{_short(a)} +{_short(b)}" for n, (a, b) in nearest.items())


def _short(rows: list[tuple[Any, ...]]) -> str:
    return str([tuple(str(value)[:24] for value in row) for row in rows[:3]])[:400]


def _half_files(root: Path, known: Reference, *, final: bool = False) -> list[str]:
    """Files of the mirrored folder that are neither what they were nor what they are to be."""
    folder = str(root / "notes")
    now = {
        name: data
        for name, (data, _) in files_below(root).items()
        if name.startswith(folder) and folder_part not in Path(name).name
    }
    after = {name: data for name, (data, _) in known.after.items() if name.startswith(folder)}
    if final:
        return [] if now == after else [f"the folder holds {sorted(now)} at the end"]
    before = {name: data for name, (data, _) in known.base.items() if name.startswith(folder)}
    return [
        f"the file {name} holds {data[:40]!r} ({len(data)} bytes)"
        for name, data in now.items()
        if data not in (before.get(name), after.get(name))
    ]


folder_part = folder.DRAFT


def _old_or_new(file: Path, known: Reference) -> list[str]:
    """The schema is wholly the old one or wholly the new one."""
    connection = apsw.Connection(str(file))
    try:
        version = connection.pragma("user_version")
        tables = set(connection.execute("select name from sqlite_schema where type = 'table'"))
        new = {("questioned",), ("kb_help",)}
        expected = {1: 1, schema.SCHEMA_VERSION: 2}
        there = len(new & tables)
        return (
            [] if expected.get(version) == there else [f"version {version} with {there} of {new}"]
        )
    finally:
        connection.close()


def leftovers(root: Path) -> list[str]:
    """Drafts of which nobody would know any more. (A -journal file is SQLite's, and on a disk that
    refuses everything it may not be possible to delete it.)"""
    names = os.listdir(root)
    return [n for n in names if n.startswith(".") and not n.endswith("-journal")]


# Going through the points ------------------------------------------------------------------------


@dataclass
class Tally:
    points: int = 0
    runs: Counter[str] = field(default_factory=Counter)
    losses: list[str] = field(default_factory=list)
    unsynced: int = 0  # steps acknowledged before a power cut, and lost by it

    def line(self) -> str:
        runs = ", ".join(f"{self.runs[kind]} {kind}" for kind in sorted(self.runs))
        return (
            f"faults: {self.points} points; {runs}; acknowledged steps that a power cut took back"
            f" before the next sync: {self.unsynced}; losses = {len(self.losses)}"
        )

    def add(self, kind: str, label: str, verdict: Verdict, *, must: bool = True) -> None:
        self.runs[kind] += 1
        if must and verdict.lost:
            verdict.problems.append(f"{verdict.lost} acknowledged steps are lost")
        self.unsynced += 0 if must else verdict.lost
        self.losses += [f"{label}: {problem}" for problem in verdict.problems]


def spread(count: int, most: int | None, seed: str) -> list[int]:
    """So many of the points 1 … count, the last one always, else at random."""
    if most is None or most >= count:
        return list(range(1, count + 1))
    chosen = random.Random(seed).sample(range(1, count), most - 1)
    return sorted([*chosen, count])


def errors(
    root: Path, name: str, known: Reference, fault: Fault, points: Sequence[int], tally: Tally
) -> None:
    """The disk refuses, in this process. After every second point the same connection goes on."""
    operation, disk = OPERATIONS[name], disk_of()
    for at in points:
        event = known.log[known.points[at - 1]]
        if event.what in ("folder", "names") or (event.what == "delete" and not event.at):
            pass
        lay_out(root, known.base)
        disk.begin(str(root), fault, at)
        go_on = at % 2 == 0 and bool(operation.steps)
        label = f"{name}, {fault} at {at} ({event.what} of {os.path.basename(event.name)})"
        try:
            acked, raised = perform(root, operation, disk, go_on=go_on)
        except Exception as error:
            tally.losses.append(f"{label}: going on raises {error!r}")
            continue
        if raised is not None and not isinstance(raised, KBError):
            tally.losses.append(f"{label}: raises {raised!r}")
        if leftovers(root):
            tally.losses.append(f"{label}: {leftovers(root)} is left behind")
        disk.heal()
        tally.add(
            fault, label, judge(root, operation, known, acked, again=at % 3 == 0, names=BY_PEOPLE)
        )


def power_cuts(
    root: Path, name: str, known: Reference, loss: Loss, points: Sequence[int], tally: Tally
) -> None:
    operation = OPERATIONS[name]
    for at in points:
        end = known.points[at - 1]
        log = known.log[: end + 1] if loss == "half" else known.log[:end]
        files = survivors(known.base, log, loss, random.Random(f"{name} {loss} {at}"))
        lay_out(root, files)
        acks = [i for i, event in enumerate(log) if event.what == "ack"]
        wal = str(root / "kb.sqlite3-wal")
        synced = [i for i, e in enumerate(log) if e.what in ("sync", "delete") and e.name == wal]
        durable = sum(ack < max(synced, default=-1) for ack in acks)
        if loss in ("kill", "half"):
            durable = len(acks)
        label = f"{name}, {loss} at {at}"
        verdict = judge(root, operation, known, durable, again=at % 3 == 0)
        unsynced = sum(ack > verdict.state >= 0 for ack in known.acks[: len(acks)]) - verdict.lost
        tally.unsynced += unsynced
        tally.add(f"power {loss}" if durable < len(acks) or loss not in ("kill", "half") else loss,
                  label, verdict)  # fmt: skip


class Killer:
    """A process that forks one for every operation that is to be killed."""

    def __enter__(self) -> Killer:
        self._server = subprocess.Popen(
            [sys.executable, __file__, "--serve"],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip
        return self

    def __exit__(self, *_: object) -> None:
        assert self._server.stdin
        assert self._server.stdout
        self._server.stdin.close()
        self._server.wait()
        self._server.stdout.close()

    def run(self, root: Path, name: str, fault: Fault, at: int) -> tuple[int, int]:
        """The exit code, and how many steps were acknowledged."""
        assert self._server.stdin
        assert self._server.stdout
        self._server.stdin.write(json.dumps([str(root), name, fault, at]) + "\n")
        self._server.stdin.flush()
        code, acks = json.loads(self._server.stdout.readline())
        return code, acks


def _acknowledge(to: int, event: Event) -> None:
    if event.what == "ack":
        os.write(to, b".")


def _serve() -> None:
    disk = disk_of()
    for line in sys.stdin:
        root, name, fault, at = json.loads(line)
        reading, writing = os.pipe()
        child = os.fork()
        if not child:
            disk.begin(root, fault, at)
            disk.note = partial(_acknowledge, writing)  # type: ignore[method-assign]
            perform(Path(root), OPERATIONS[name], disk)
            os._exit(0)
        os.close(writing)
        _, status = os.waitpid(child, 0)
        acks = len(os.read(reading, 1000))
        os.close(reading)
        print(json.dumps([os.waitstatus_to_exitcode(status), acks]), flush=True)


def kills(
    root: Path, name: str, known: Reference, killer: Killer, points: Sequence[int], tally: Tally
) -> None:
    for at in points:
        lay_out(root, known.base)
        fault: Fault = "half" if at % 2 else "kill"
        code, acked = killer.run(root, name, fault, at)
        label = f"{name}, {fault} of the process at {at}"
        if code != 9:
            tally.losses.append(f"{label}: it ended with {code}")
        verdict = judge(root, OPERATIONS[name], known, acked, again=at % 3 == 0)
        tally.add("kills", label, verdict)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("operations", nargs="*", metavar="OPERATION", help="(default: all)")
    parser.add_argument(
        "--most", type=int, help="points of each operation and fault (default: all)"
    )
    parser.add_argument("--show", type=int, default=20, help="losses of each (default: 20)")
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.serve:
        _serve()
        return
    sums = Tally()
    with Killer() as killer, tempfile.TemporaryDirectory() as folder:
        root = Path(folder).resolve()
        for name in given.operations or OPERATIONS:
            begin = time.perf_counter()
            tally = Tally()
            known = reference(root, OPERATIONS[name])
            points = spread(len(known.points), given.most, name)
            tally.points = len(points)
            for fault in ("error", "full"):
                errors(root, name, known, fault, points, tally)
            kills(root, name, known, killer, points, tally)
            for loss in ("lost", "torn", "scattered"):
                power_cuts(root, name, known, loss, points, tally)
            print(f"{name}: {tally.line()} ({time.perf_counter() - begin:.1f} s)", flush=True)
            for problem in tally.losses[: given.show]:
                print("  ", problem)
            sums.points += tally.points
            sums.runs += tally.runs
            sums.losses += tally.losses
            sums.unsynced += tally.unsynced
    print(sums.line())
    sys.exit(bool(sums.losses))


if __name__ == "__main__":
    main()
