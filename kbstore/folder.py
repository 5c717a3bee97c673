"""A folder of markdown on disk: which of its files are notes, and writing one without ever leaving
half of it.

A picobot workspace (a folder with ``knowledge/`` in it) gives the notes below ``knowledge/`` and
every ``SKILL.md`` below ``skills/``; any other folder gives all its markdown files.
"""

from __future__ import annotations

import os
import secrets
import stat
import unicodedata
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from .document import check_path
from .errors import InputError
from .report import Problem

MAX_FILE = 16 * 1024 * 1024  # bytes
IDENTITY_DOCUMENTS = frozenset({"SOUL.md", "AGENTS.md", "USER.md", "IDENTITY.md"})
DRAFT = ".kbstore-"  # in the name of a file that is being written

_ENDINGS = (".md", ".markdown")


@dataclass(frozen=True, slots=True)
class File:
    """A markdown file found: where it is, and which document it is to be."""

    name: str  # relative to the folder, with forward slashes, as the disk spells it
    place: str
    path: str
    size: int
    mtime_ns: int


class ChangedError(Exception):
    """The file is not as it was when it was looked at."""


class Folder:
    """``notes`` is the subfolder that holds the notes ("" where it is the folder itself), None
    where there are none; ``skills`` that with the skills."""

    def __init__(self, root: Path, notes: str | None = "", skills: str | None = None) -> None:
        self.root, self.notes, self.skills = root, notes, skills
        self._real_root = os.path.realpath(root)

    @classmethod
    def at(cls, root: Path) -> Folder:
        """The folder as it shows itself: a workspace, or plain markdown."""
        if (root / "knowledge").is_dir():
            return cls(root, "knowledge", "skills")
        return cls(root)

    # Names

    def path_of(self, name: str) -> str:
        """The document that a file is. Raises InputError where its name is no path."""
        if self.notes and name.startswith(f"{self.notes}/"):
            name = name.removeprefix(f"{self.notes}/")
        return check_path(unicodedata.normalize("NFC", name))

    def name_of(self, path: str) -> str | None:
        """The file that a document is to be; None: it has no place here."""
        is_skill = self.skills is not None and path.startswith(f"{self.skills}/")
        if is_skill and path.endswith("/SKILL.md"):
            name = path
        elif self.notes is None:
            return None
        else:
            name = f"{self.notes}/{path}" if self.notes else path
        hidden = any(part.startswith(".") for part in name.split("/"))
        return name if not hidden and self._is_wanted(name) else None

    def _is_wanted(self, name: str) -> bool:
        parts = name.split("/")
        if not parts[-1].lower().endswith(_ENDINGS):
            return False
        if self.skills is not None and parts[0] == self.skills:
            return parts[-1] == "SKILL.md"
        if self.notes:
            parts = parts[1:]
        if parts[-1].lower() == "readme.md" and len(parts) <= 2:
            return False
        return not (len(parts) == 1 and parts[0] in IDENTITY_DOCUMENTS)

    # Reading

    def files(self, problems: list[Problem]) -> dict[str, File]:
        """The markdown files that are to be documents, by name; links are followed to files inside
        the folder only. What cannot be read as one stands in ``problems``."""
        found: dict[str, File] = {}
        paths: set[str] = set()
        tops = [top for top in (self.notes, self.skills) if top is not None]
        for top in tops:
            place = os.path.join(self.root, top) if top else str(self.root)
            if top and not os.path.isdir(place):
                continue
            for entry, name in self._walk(place, top, problems):
                try:
                    file = self._file(entry, name)
                    if file.path in paths:
                        raise InputError(
                            f"another file in the folder is the document {file.path} already"
                        )
                except (InputError, OSError, UnicodeError) as error:
                    problems.append(Problem(_printable(name), reason(error)))
                else:
                    paths.add(file.path)
                    found[name] = file
        return found

    def _walk(
        self, place: str, name: str, problems: list[Problem]
    ) -> Iterator[tuple[os.DirEntry[str], str]]:
        try:
            with os.scandir(place) as listing:
                entries = sorted(listing, key=lambda entry: entry.name)
        except OSError as error:
            message = f"the folder cannot be read: {error.strerror}"
            problems.append(Problem(_printable(name or "."), message))
            return
        deeper = []
        for entry in entries:
            if entry.name.startswith("."):
                continue
            inner = f"{name}/{entry.name}" if name else entry.name
            if entry.is_dir(follow_symlinks=False):
                deeper.append((entry.path, inner))
                if entry.name.lower().endswith(_ENDINGS):
                    message = "it is a folder, not a markdown file"
                    problems.append(Problem(_printable(inner), message))
            elif self._is_wanted(inner):
                yield entry, inner
        for inner_place, inner in deeper:
            yield from self._walk(inner_place, inner, problems)

    def _file(self, entry: os.DirEntry[str], name: str) -> File:
        if entry.is_symlink():
            target = os.path.realpath(entry.path)
            if not os.path.exists(target):
                raise InputError("it is a link to a file that is not there")
            if os.path.commonpath([target, self._real_root]) != self._real_root:
                raise InputError("it is a link to a file outside the folder; left out")
        info = entry.stat()
        if not stat.S_ISREG(info.st_mode):
            raise InputError("it is not a regular file")
        if info.st_size > MAX_FILE:
            raise InputError(f"it has {info.st_size:,} bytes; {MAX_FILE:,} is the most")
        return File(name, entry.path, self.path_of(name), info.st_size, _time(info))

    # Writing

    def look(self, name: str) -> tuple[int, int] | None:
        """(size, mtime_ns) of a file, or None."""
        try:
            info = os.stat(self.root / name)
        except (FileNotFoundError, NotADirectoryError):
            return None
        return info.st_size, _time(info)

    def write(self, name: str, data: bytes, before: tuple[int, int] | None) -> tuple[int, int]:
        """Replace a file by its next version at once, or make it; return its (size, mtime_ns).

        ``before`` is what `look` said when the decision was made.

        Raises ChangedError (somebody has changed it since), InputError (a link leads out of the
        folder), OSError.
        """
        place = self._inside(name)
        if before is not None and place.is_symlink():
            place = Path(os.path.realpath(place))  # inside, or it would not have been read
        draft = place.with_name(f".{place.name[:100]}{DRAFT}{secrets.token_hex(6)}")
        try:
            with open(draft, "xb") as stream:
                stream.write(data)
                stream.flush()
                os.fsync(stream.fileno())
            if before is not None:
                os.chmod(draft, stat.S_IMODE(os.stat(place).st_mode))
            if self.look(name) != before:
                raise ChangedError(name)
            if before is None:
                try:
                    os.link(draft, place)  # unlike a rename, never over another file
                except FileExistsError:
                    raise ChangedError(name) from None
                except OSError:  # a file system without links
                    os.replace(draft, place)
            else:
                os.replace(draft, place)
            _sync_folder(place.parent)
        finally:
            draft.unlink(missing_ok=True)
        info = os.stat(place)
        return info.st_size, _time(info)

    def remove(self, name: str, before: tuple[int, int]) -> None:
        """Raises ChangedError, InputError, OSError."""
        place = self._inside(name)
        if self.look(name) != before:
            raise ChangedError(name)
        place.unlink()

    def _inside(self, name: str) -> Path:
        """The file's place; the folders that lead to it are made. Raises InputError, OSError."""
        place = self.root / name
        parent = place.parent
        existing = parent
        while not existing.exists() and existing != self.root:
            existing = existing.parent
        real = os.path.realpath(existing)
        if os.path.commonpath([real, self._real_root]) != self._real_root:
            raise InputError(f"{existing} is a link that leads out of the folder; nothing written")
        parent.mkdir(parents=True, exist_ok=True)
        return place


def reason(error: Exception) -> str:
    """What is wrong with a file, in words."""
    return error.strerror if isinstance(error, OSError) and error.strerror else str(error)


def _printable(name: str) -> str:
    return name.encode(errors="replace").decode()


def _time(info: os.stat_result) -> int:
    return min(info.st_mtime_ns, 2**63 - 1)  # the year 2262: the most that SQLite holds


def _sync_folder(folder: Path) -> None:
    """So that the new name, too, survives a power cut."""
    with suppress(OSError):  # not to be had on every system
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
