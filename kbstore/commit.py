"""What of a folder is committed: everything but databases, drafts and other repositories."""

from __future__ import annotations

import os
import stat
from collections import Counter
from collections.abc import Iterable, Mapping
from fnmatch import fnmatchcase
from pathlib import Path

from .repository import Entry, Failed, Repository

_NOTES = (".md", ".markdown")
_LINES = 5  # of the body of a message
_SQLITE = b"SQLite format 3\0"
_PAGE = 512  # bytes: the length of a database is a multiple of it
_DATABASES = ("*.sqlite3*", "*.sqlite", "*.sqlite-*", "*.db-wal", "*.db-shm", "*.db-journal")
_DRAFTS = ".*.kbstore-*"
_EXCLUDE = "\n".join(  # for a `git add` by hand; a note or a folder may be named after a database
    [
        "# kbstore: databases and drafts stay out",
        *_DATABASES,
        *(f"!{pattern}{end}" for pattern in _DATABASES for end in _NOTES if pattern[-1] == "*"),
        *(f"!{pattern}/" for pattern in _DATABASES),
        _DRAFTS,
        "",
    ]
)
_WORDS = {"A": "added", "D": "deleted"}  # all else: changed


def is_note(path: str) -> bool:
    return path.lower().endswith(_NOTES)


def exclude(work: Repository) -> None:
    """Tell git, for this copy of the repository only, what stays out."""
    file = work.path("rev-parse", "--git-path", "info/exclude")
    text = file.read_bytes() if file.exists() else b""
    if _EXCLUDE.encode() not in text:
        file.parent.mkdir(exist_ok=True)
        gap = b"\n" if text and not text.endswith(b"\n") else b""
        file.write_bytes(text + gap + _EXCLUDE.encode())


def find(work: Repository) -> tuple[list[str], list[str], list[str]]:
    """The files that the index is to lose, those that it is to take as they are now, and what is
    to be told. Raises Failed."""
    folder = work.folder
    gone = [name for name in work.names("ls-files", "-z") if _is_kept_out(folder / name)]
    told = [f"{name} was in git, where it does not belong: it stays in the folder" for name in gone]
    kept_out, new = set(gone), []
    options = ("--untracked-files=all", "--ignore-submodules=all", "--no-renames")
    for line in work.names("status", "--porcelain", "-z", *options):
        state, name = line[1], line[3:]
        if name.endswith("/"):
            told.append(f"{name} is a git repository of its own: left out")
        elif name in kept_out or state == " ":  # else it is in the index already
            continue
        elif state == "D":
            gone.append(name)
        elif not _is_kept_out(folder / name):
            new.append(name)
    return gone, new, told


def stage(work: Repository, gone: Iterable[str], new: Iterable[str]) -> dict[str, str]:
    """Put it into the index; the files that are other ones there than in the last commit, with
    git's letter for what has happened to each. Raises Failed."""
    for options, names in ((("--force-remove",), gone), (("--add", "--remove", "--replace"), new)):
        if data := b"".join(os.fsencode(name) + b"\0" for name in names):
            work.out("update-index", *options, "-z", "--stdin", data=data)
    return staged(work)


def staged(work: Repository) -> dict[str, str]:
    return _letters(work, "diff-index", "--cached", work.commit("HEAD") or empty_tree(work))


def between(work: Repository, old: str | None, new: str) -> dict[str, str]:
    """The files that are other ones in ``new`` than in ``old``."""
    return _letters(work, "diff-tree", "-r", old or empty_tree(work), new)


def empty_tree(work: Repository) -> str:
    return work.out("hash-object", "-t", "tree", "--stdin").decode().strip()


def commit(work: Repository, title: str, changes: Mapping[str, str], body: list[str]) -> None:
    """Commit the index. Raises Failed, as where a hook does not want it."""
    lines = [shown(line) for line in body[:_LINES]]
    if len(body) > _LINES:
        lines.append(f"and {len(body) - _LINES} more")
    message = ("-m", f"{title}{_counted(changes)}", "-m", "\n".join(lines))
    answer = work.run("commit", "-q", *message)
    if answer.code:
        raise Failed(
            f"git did not commit: {answer.line}; no note is lost: put it right and sync again"
        )


def named(changes: Mapping[str, str]) -> list[str]:
    """What has happened to each file, for the body of a message."""
    return [f"{_WORDS.get(letter, 'changed')} {path}" for path, letter in changes.items()]


def databases(work: Repository, files: Mapping[str, Entry], known: Iterable[Entry]) -> list[str]:
    """The files of a tree that stay out, by their names, or by their bytes but for those known."""
    named_so = [path for path in files if _is_named_so(path)]
    old = {entry.id for entry in known}
    ids = {e.id for p, e in files.items() if e.is_file and not is_note(p)} - old
    whole = [id_ for id_, size in work.sizes(ids).items() if size and size % _PAGE == 0]
    found = {id_ for id_, data in work.blobs(whole).items() if data.startswith(_SQLITE)}
    return named_so + [p for p, entry in files.items() if entry.id in found and p not in named_so]


def shown(text: str) -> str:
    """A name in one line that can be printed."""
    text = text.encode(errors="replace").decode()
    return "".join(c if c.isprintable() else repr(c)[1:-1] for c in text)


def _is_kept_out(file: Path) -> bool:
    return _is_named_so(file.name) or _is_database(file)


def _is_named_so(path: str) -> bool:
    name = path.rpartition("/")[2]
    if fnmatchcase(name, _DRAFTS):
        return True
    return not is_note(name) and any(fnmatchcase(name, pattern) for pattern in _DATABASES)


def _is_database(file: Path) -> bool:
    """Whether a file is one, or what SQLite has written beside one."""
    for end in ("-wal", "-shm", "-journal"):
        main = file.name.removesuffix(end)
        if main not in ("", file.name) and _is_database(file.with_name(main)):
            return True
    try:
        if not stat.S_ISREG(file.lstat().st_mode):
            return False
        with file.open("rb") as stream:
            return stream.read(len(_SQLITE)) == _SQLITE
    except OSError:
        return False  # git will say what is wrong with it


def _letters(work: Repository, *command: str) -> dict[str, str]:
    options = ("--no-renames", "--ignore-submodules=all", "--name-status", "-z")
    fields = iter(work.names(command[0], *options, *command[1:]))
    return {path: letter for letter, path in zip(fields, fields, strict=True)}


def _counted(changes: Mapping[str, str]) -> str:
    """Such as: 2 notes added, 1 changed; 1 file added."""
    parts = []
    for what, wanted in (("note", True), ("file", False)):
        letters = [letter for path, letter in changes.items() if is_note(path) is wanted]
        counts = Counter(_WORDS.get(letter, "changed") for letter in letters)
        told = [
            f"{counts[word]} {word}" for word in ("added", "changed", "deleted") if counts[word]
        ]
        if told:
            number, word = told[0].split()
            told[0] = f"{number} {what}{'' if number == '1' else 's'} {word}"
            parts.append(", ".join(told))
    return "; ".join(parts) or "nothing changed"
