"""Reads a folder of markdown into a store, and keeps it so: new, edited, moved and deleted files.

A picobot workspace (a folder with ``knowledge/`` in it) gives the notes below ``knowledge/`` and
every ``SKILL.md`` below ``skills/``; any other folder gives all its markdown files.
"""

from __future__ import annotations

import hashlib
import os
import stat
import unicodedata
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

from . import frontmatter
from .document import check_path
from .errors import EmptyContentError, InputError, MassDeletionError, NotFoundError
from .report import Problem, SyncReport
from .schema import expand_user
from .store import Store
from .vectors import Progress

MAX_FILE = 16 * 1024 * 1024  # bytes
IDENTITY_DOCUMENTS = frozenset({"SOUL.md", "AGENTS.md", "USER.md", "IDENTITY.md"})
_BATCH = 100  # files a transaction


@dataclass(frozen=True, slots=True)
class _File:
    """A markdown file found: where it is, and which document it is to be."""

    name: str  # relative to the folder, as the disk spells it
    place: Path
    path: str
    size: int
    mtime_ns: int


def sync(
    store: Store,
    folder: str | os.PathLike[str],
    *,
    force: bool = False,
    embed: bool = True,
    progress: Progress | None = None,
) -> SyncReport:
    """Make the store's documents from this folder equal to its files, then make missing vectors.

    A file whose size and time are those of the last reading is not read. A bad file never stops the
    rest; it stands in ``problems``, and what is stored of it stays.

    Raises NotFoundError (no such folder), MassDeletionError (more than half of the files are gone;
    ``force`` goes on), DatabaseError.
    """
    root = expand_user(folder).resolve()
    known = store.source_files(str(root))
    if not root.is_dir():
        if known and not force:
            raise MassDeletionError(
                f"the folder {root} is gone, with {len(known)} mirrored files; nothing was deleted"
                " (--force deletes their documents)"
            )
        if not known:
            raise NotFoundError(f"there is no folder {root}")
    problems: list[Problem] = []
    for other in map(Path, store.source_roots()):
        if other != root and (other in root.parents or root in other.parents):
            message = f"{other} is synced, too: notes that are in both are stored twice"
            problems.append(Problem(str(root), message))
    files = {file.name: file for file in _scan(root, problems)} if root.is_dir() else {}
    unreadable = {problem.path for problem in problems}
    gone = {name for name in known if name not in files and not unreadable & _above(name)}
    work = _Sync(store, str(root), known, gone, problems)
    work.read([f for f in files.values() if known.get(f.name, ())[:2] != (f.size, f.mtime_ns)])
    gone -= work.moved_from
    if not force and len(gone) * 2 > len(known):
        raise MassDeletionError(
            f"{len(gone)} of {len(known)} mirrored files are gone from {root};"
            " no document was deleted (--force deletes them)"
        )
    # Before the deletions: a text that has gone on under another name keeps its vectors.
    embedded = store.embed(progress=progress) if embed else None
    work.delete(gone)
    return replace(
        work.report(),
        unchanged=len(files) - len(work.touched) + work.same,
        problems=tuple(problems),
        embedded=embedded,
    )


def _above(name: str) -> set[str]:
    """The file and the folders that it lies in."""
    return {name, *(parent.as_posix() for parent in Path(name).parents)}


class _Sync:
    """One reading of a folder, and what it has changed so far."""

    def __init__(
        self,
        store: Store,
        root: str,
        known: dict[str, tuple[int, int, str, str]],
        gone: set[str],
        problems: list[Problem],
    ) -> None:
        self.store, self.root, self.known, self.problems = store, root, known, problems
        self.gone = gone
        self.created: list[str] = []
        self.updated: list[str] = []
        self.moved: list[tuple[str, str]] = []
        self.deleted: list[str] = []
        self.moved_from: set[str] = set()
        self.followed: set[str] = set()
        self.touched: set[str] = set()
        self.same = 0  # files that were read but say nothing new

    def report(self) -> SyncReport:
        return SyncReport(
            root=self.root,
            created=tuple(sorted(self.created)),
            updated=tuple(sorted(self.updated)),
            moved=tuple(sorted(self.moved)),
            deleted=tuple(sorted(self.deleted)),
            read=len(self.touched),
        )

    def read(self, files: list[_File]) -> None:
        for start in range(0, len(files), _BATCH):
            with self.store.batch():
                for file in files[start : start + _BATCH]:
                    self.touched.add(file.name)
                    try:
                        self._read_one(file)
                    except (InputError, OSError) as error:
                        self._problem(file.name, error)

    def delete(self, names: set[str]) -> None:
        with self.store.batch():
            for name in sorted(names):
                path = self.known[name][3]
                if path in self.store:  # else another process was faster
                    self.store.delete(path)
                    self.deleted.append(path)

    def _read_one(self, file: _File) -> None:
        data = file.place.read_bytes()
        digest = hashlib.sha256(data).hexdigest()
        known = self.known.get(file.name)
        if known and known[2] == digest:  # only touched
            self._remember(file, known[3], digest)
            self.same += 1
            return
        if not known:
            self._follow_move(file, digest)
        # A document that was given another path in the store is still this file's.
        path = known[3] if known else file.path
        owner = self.store.source_of(path)
        if owner and owner[0] == self.root and owner[1] in self.gone:
            self.store.forget_source_file(*owner)  # the same document under another file name
            self.moved_from.add(owner[1])
        elif owner and owner != (self.root, file.name):
            raise InputError(f"another file, {Path(*owner)}, is the document {path} already")
        try:
            text = data.decode()
        except UnicodeDecodeError as error:
            raise InputError(f"the text is not UTF-8 (byte {error.start})") from None
        if "\0" in text:
            raise InputError("the text has a NUL character in it")
        note = frontmatter.parse(text, path)
        for message in note.problems:
            self.problems.append(Problem(file.name, message))
        modified = datetime.fromtimestamp(file.mtime_ns // 10**9, UTC).strftime(
            "%Y-%m-%dT%H:%M:%SZ"
        )
        replaces = not known and owner is None and path in self.store
        try:
            report = self.store.put(
                path,
                note.body,
                title=note.title,
                tags=note.tags,
                description=note.description,
                created=note.created or "",
                updated=note.updated or modified,
                frontmatter=note.frontmatter or "",  # None would keep the old one
                allow_empty=path not in self.store,
                embed=False,
            )
        except EmptyContentError:
            raise InputError(
                "the file is empty now; the stored text is kept (delete the file to delete it)"
            ) from None
        self._remember(file, path, digest)
        if report.action == "unchanged":
            self.same += file.name not in self.followed
        elif report.action == "created":
            self.created.append(path)
        elif report.action == "replaced":
            self.updated.append(path)
            if replaces:
                message = f"it has replaced the stored {path}; the old text is in the history"
                self.problems.append(Problem(file.name, message))

    def _follow_move(self, file: _File, digest: str) -> None:
        """A new file with the bytes of one that is gone: its document gets another path."""
        for name, (_, _, old_digest, path) in self.known.items():
            if old_digest == digest and name in self.gone - self.moved_from:
                if path != file.path and (file.path in self.store or path not in self.store):
                    continue
                self.store.forget_source_file(self.root, name)
                self.moved_from.add(name)
                if path != file.path:
                    self.store.move(path, file.path)
                    self.moved.append((path, file.path))
                    self.followed.add(file.name)
                self._remember(file, file.path, digest)
                return

    def _remember(self, file: _File, path: str, digest: str) -> None:
        self.store.set_source_file(self.root, file.name, path, file.size, file.mtime_ns, digest)

    def _problem(self, name: str, error: Exception) -> None:
        message = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        self.problems.append(Problem(name, message))


def _scan(root: Path, problems: list[Problem]) -> Iterator[_File]:
    """The markdown files below the folder that are to be documents; links are followed to files
    inside the folder only."""
    workspace = (root / "knowledge").is_dir()
    real_root = os.path.realpath(root)
    paths: Counter[str] = Counter()

    def failed(error: OSError) -> None:
        name = os.path.relpath(error.filename or real_root, root)
        problems.append(Problem(name, f"the folder cannot be read: {error.strerror}"))

    for folder, subfolders, names in os.walk(root, onerror=failed):
        subfolders[:] = sorted(name for name in subfolders if not name.startswith("."))
        if workspace and folder == str(root):
            subfolders[:] = [name for name in subfolders if name in ("knowledge", "skills")]
            continue
        for subfolder in [s for s in subfolders if s.lower().endswith((".md", ".markdown"))]:
            name = os.path.relpath(os.path.join(folder, subfolder), root)
            problems.append(Problem(name, "it is a folder, not a markdown file"))
        for name in sorted(names):
            place = Path(folder, name)
            relative = place.relative_to(root).as_posix()
            if name.startswith(".") or not _is_wanted(relative, workspace):
                continue
            try:
                yield _file(place, relative, workspace, real_root, paths)
            except (InputError, OSError, UnicodeError) as error:
                message = (
                    error.strerror if isinstance(error, OSError) and error.strerror else str(error)
                )
                problems.append(Problem(relative.encode(errors="replace").decode(), message))


def _is_wanted(relative: str, workspace: bool) -> bool:
    parts = relative.split("/")
    if not parts[-1].lower().endswith((".md", ".markdown")):
        return False
    if workspace:
        if parts[0] == "skills":
            return parts[-1] == "SKILL.md"
        parts = parts[1:]
    if parts[-1].lower() == "readme.md" and len(parts) <= 2:
        return False
    return not (len(parts) == 1 and parts[0] in IDENTITY_DOCUMENTS)


def _file(
    place: Path, relative: str, workspace: bool, real_root: str, paths: Counter[str]
) -> _File:
    if place.is_symlink():
        target = os.path.realpath(place)
        if not os.path.exists(target):
            raise InputError("it is a link to a file that is not there")
        if os.path.commonpath([target, real_root]) != real_root:
            raise InputError("it is a link to a file outside the folder; left out")
    info = place.stat()
    if not stat.S_ISREG(info.st_mode):
        raise InputError("it is not a regular file")
    if info.st_size > MAX_FILE:
        raise InputError(f"it has {info.st_size:,} bytes; {MAX_FILE:,} is the most")
    path = relative.removeprefix("knowledge/") if workspace else relative
    path = check_path(unicodedata.normalize("NFC", path))
    paths[path] += 1
    if paths[path] > 1:
        raise InputError(f"another file in the folder is the document {path} already")
    mtime_ns = min(info.st_mtime_ns, 2**63 - 1)  # the year 2262: the most that SQLite holds
    return _File(relative, place, path, info.st_size, mtime_ns)
