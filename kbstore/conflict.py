"""Two histories become one, and what git leaves undone of that is done so that nothing is missing
that somebody wrote.

It is done in a work tree of its own: the notes in the folder are never half merged.
"""

from __future__ import annotations

import re
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath

from . import commit, merge
from .commit import is_note
from .repository import Entry, Failed, Repository, aside

# How git names a file where the other side has a folder, or another kind of file.
_MOVED = re.compile(r"(.+)~(?:HEAD|[0-9a-f]{40,64})(?:_\d+)?", re.DOTALL)
_PLAIN = (
    *("-c", "rerere.enabled=false"),  # it would hide conflicts that it has an old answer to
    *("-c", "merge.directoryRenames=false"),  # a new note stays in the folder it was written in
)
_SUBMODULE = "160000"
_WORDS: dict[merge.Side, str] = {"ours": "this side's", "theirs": "the other side's"}


def join(work: Repository, ours: str | None, theirs: str) -> tuple[str, dict[str, str]]:
    """A commit in which both sides are, and what was done where they were in conflict, by path.

    Neither the folder nor its branch changes. Raises Failed.
    """
    is_ahead = ours is None or work.is_ancestor(ours, theirs)
    if is_ahead and not commit.databases(work, work.tree(theirs), work.tree(ours).values()):
        return theirs, {}
    with aside(work, theirs if ours is None or is_ahead else ours) as place:
        said = {} if ours is None or is_ahead else _merge(place, ours, theirs)
        databases = commit.databases(place, place.index()[0], work.tree(ours).values())
        place.set_index(dict.fromkeys(databases))
        said |= dict.fromkeys(databases, "it does not belong into git: not taken from the remote")
        place.out("checkout-index", "-q", "-f", "-a")  # for hooks that look at the files
        place.out("clean", "-q", "-ffdx")
        title = "Out of git: " if is_ahead else "Merge: "
        told = [f"{path}: {what}" for path, what in said.items()]
        commit.commit(place, title, commit.staged(place), told)
        return place.commit("HEAD") or theirs, said


def _merge(place: Repository, ours: str, theirs: str) -> dict[str, str]:
    """Merge in a work tree as far as to the commit; what was done with conflicts, by path."""
    # The strategy "ort" of many a git does not know how to leave renames alone.
    for strategy in ((), ("-srecursive", "-Xno-renames")):
        options = ("--no-commit", "--no-ff", "--allow-unrelated-histories", *strategy)
        answer = place.run(*_PLAIN, "merge", "-q", *options, theirs)
        if place.commit("MERGE_HEAD") is None:
            raise Failed(f"git did not merge: {answer.line}; put it right and sync again")
        said = _settle(place, ours, theirs)
        if said is not None:
            return said
        place.out("merge", "--abort")
    raise Failed("git has left conflict markers in a note: look at its merge drivers")


def _settle(place: Repository, ours: str, theirs: str) -> dict[str, str] | None:
    """End all conflicts in the index.

    None: the merge is to be made again without following renames, as git has put its markers, or
    half of a header, into a note that has two names.
    """
    with _three_way(place) as three_way:
        settling = _Settling(place, ours, theirs, three_way)
        if not settling.find():
            return None
        for path, stages in sorted(settling.conflicts.items()):
            settling.end(path, stages)
        place.set_index(settling.changes)
        return settling.said


class _Settling:
    """The end of one merge, and what it has changed so far."""

    def __init__(self, work: Repository, ours: str, theirs: str, three_way: merge.ThreeWay) -> None:
        self.work, self.ours, self.theirs, self.three_way = work, ours, theirs, three_way
        self.files, self.conflicts = work.index()
        base = work.text("merge-base", ours, theirs)
        self.trees = {1: work.tree(base), 2: work.tree(ours), 3: work.tree(theirs)}
        self.blobs: dict[str, bytes] = {}
        self.changes: dict[str, Entry | None] = {}
        self.said: dict[str, str] = {}
        self.dates: list[_Dates] = []

    def find(self) -> bool:
        """Find what is to be done; false where it cannot be done in this merge."""
        written = self.trees[2].keys() | self.trees[3].keys()
        known = {entry.id for side in (2, 3) for entry in self.trees[side].values()}
        for path in self.files.keys() - written:
            if _MOVED.fullmatch(path):
                self.conflicts[path] = {2: self.files.pop(path)}
        of_conflicts = [e for stages in self.conflicts.values() for e in stages.values()]
        made = {e.id for e in (*self.files.values(), *of_conflicts) if e.is_file} - known
        notes = [p for p, entry in self.files.items() if entry.id in made and is_note(p)]
        of_notes = [tree[p] for p in notes for tree in self.trees.values() if p in tree]
        self.blobs = self.work.blobs(
            made | {entry.id for entry in (*of_conflicts, *of_notes) if entry.is_file}
        )
        if any(b"> " + self.theirs.encode() in self.blobs[id_] for id_ in made):
            return False
        for path in notes:
            stages = {stage: tree[path] for stage, tree in self.trees.items() if path in tree}
            merged, ours, theirs = (
                self._text(entry) for entry in (self.files[path], stages.get(2), stages.get(3))
            )
            if merged is None or merge.is_sound(merged, ours or "", theirs or "", path):
                continue
            if ours is None or theirs is None:
                return False
            del self.files[path]
            self.conflicts[path] = stages
        self.changes = dict.fromkeys(self.conflicts)
        paths = self.files.keys() | self.conflicts.keys()
        self.folders = {p.as_posix() for path in paths for p in PurePosixPath(path).parents}
        self.taken = paths | self.folders
        return True

    def end(self, path: str, stages: dict[int, Entry]) -> None:
        """Put the file of one conflict, or the two of them, into the index."""
        base, ours, theirs = (stages.get(stage) for stage in (1, 2, 3))
        here = ours or theirs
        if here is None:
            self.said[path] = "both sides have moved or deleted it"
            return
        name = self._place(path)
        if not ours or not theirs:
            where, there = ("here", "on the other side")[:: 1 if ours else -1]
            what = (
                f"changed {where}, deleted or moved {there}: it stays"
                if base
                else f"named so {where}, otherwise {there}: both stay"
            )
        elif ours.id == theirs.id or ours.mode == theirs.mode == _SUBMODULE:
            what = "of another kind on the other side: this side's stays"
        elif merged := self._merged(path, base, ours, theirs):
            data = merged.text.encode()
            id_ = self.work.out("hash-object", "-w", "--stdin", data=data).decode().strip()
            here = Entry(ours.mode, id_)
            side = f"; of the headers, {_WORDS[merged.header]} counts" if merged.header else ""
            what = f"the texts of both sides are in it{side}"
        else:
            other = merge.beside(path, self.taken)
            self._put(other, theirs)
            what = f"this side's stays; the other side's is beside it: {other}"
        if name != path:
            what = "its old name is that of a folder, or of another kind of file, on one side"
        self.said[name] = what
        self._put(name, here)

    def _merged(
        self, path: str, base: Entry | None, ours: Entry, theirs: Entry
    ) -> merge.Merged | None:
        """None: it is no note, or no text."""
        first, second = self._text(ours), self._text(theirs)
        if not is_note(path) or first is None or second is None:
            return None
        return merge.note(
            self._text(base) or "",
            first,
            second,
            path=path,
            newer=self._newer(path),
            three_way=self.three_way,
        )

    def _newer(self, path: str) -> merge.Side:
        """The side of the newer commit that has changed a file; of two of one second, ours."""
        if not self.dates:
            pairs = ((self.ours, self.theirs), (self.theirs, self.ours))
            self.dates = [_Dates(self.work, *pair) for pair in pairs]
        ours, theirs = (dates.of(path) for dates in self.dates)
        return "theirs" if theirs > ours else "ours"

    def _place(self, path: str) -> str:
        """Where a file goes: its name may be taken by a folder or by another kind of file."""
        found = None if path in self.trees[2] or path in self.trees[3] else _MOVED.fullmatch(path)
        if not found and path not in self.folders:
            return path
        return merge.beside(found[1] if found else path, self.taken)

    def _put(self, path: str, entry: Entry) -> None:
        self.changes[path] = entry
        self.taken.add(path)

    def _text(self, entry: Entry | None) -> str | None:
        if entry is None or entry.id not in self.blobs:
            return None
        try:
            text = self.blobs[entry.id].decode()
        except UnicodeDecodeError:
            return None
        return None if "\0" in text else text


class _Dates:
    """When the files were last changed in the commits of ``side`` that ``other`` has not."""

    def __init__(self, work: Repository, side: str, other: str) -> None:
        self.last = int(work.out("log", "-1", "--format=%ct", side))
        self.files: dict[str, int] = {}
        log = ("log", "-z", "--name-only", "--no-renames", "--format=%x01%ct", side, "--not", other)
        date = self.last
        first = False
        for name in work.names(*log):
            if re.fullmatch(r"\n?\x01\d+", name):
                date, first = int(name.strip("\n\x01")), True
            else:
                self.files.setdefault(name.removeprefix("\n") if first else name, date)
                first = False

    def of(self, path: str) -> int:
        return self.files.get(path, self.last)


@contextmanager
def _three_way(work: Repository) -> Iterator[merge.ThreeWay]:
    with tempfile.TemporaryDirectory() as folder:
        base, ours, theirs = (Path(folder, name) for name in ("base", "ours", "theirs"))

        def three_way(*texts: bytes) -> bytes:
            for file, text in zip((base, ours, theirs), texts, strict=True):
                file.write_bytes(text)
            style = ("-c", "merge.conflictStyle=merge")
            answer = work.run(*style, "merge-file", "-p", "-q", str(ours), str(base), str(theirs))
            if not 0 <= answer.code < 128:  # the number of conflicts
                raise Failed(f"git merge-file has failed: {answer.line}")
            return answer.out

        yield three_way
