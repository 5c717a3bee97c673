"""Keeps a folder of markdown and a store equal, in both directions: new, edited, moved and deleted
notes, whichever side they changed on.

Where both sides have changed, the newer one stays and the other goes into the history, named in the
report. Nothing is written to a file that has not changed in the store.
"""

from __future__ import annotations

import hashlib
import os
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

from . import frontmatter
from .document import Document
from .errors import EmptyContentError, InputError, MassDeletionError, NotFoundError
from .export import render
from .folder import ChangedError, File, Folder, reason
from .report import EmbedReport, HypeReport, Problem, Progress, SyncReport
from .schema import expand_user
from .sources import Source
from .store import Store

_BATCH = 100  # files a transaction


def sync(
    store: Store,
    folder: str | os.PathLike[str] | Folder,
    *,
    force: bool = False,
    embed: bool = True,
    hype: bool = True,
    write: bool = True,
    progress: Progress | None = None,
) -> SyncReport:
    """Make the store's documents and the folder's files equal; then make missing vectors; then,
    where an LLM is set, have missing questions written (``embed=False``: neither). ``write=False``
    leaves the folder as it is.

    A file whose size and time are those of the last time is not read. A bad file never stops the
    rest; it stands in ``problems``, and what is stored of it stays. Documents that are in no folder
    go to the first one that was synced.

    Raises NotFoundError (no such folder), MassDeletionError (more than half of the files or of
    their documents are gone; ``force`` goes on), DatabaseError.
    """
    where = folder if isinstance(folder, Folder) else Folder.at(expand_user(folder).resolve())
    root = str(where.root)
    _settle_home(store, root)
    known = store.sources.files(root)
    if not where.root.is_dir():
        if known and not force:
            raise MassDeletionError(
                f"the folder {root} is gone, with {len(known)} mirrored files; nothing was deleted"
                " (--force deletes their documents)"
            )
        if not known:
            raise NotFoundError(f"there is no folder {root}")
    work = _Sync(store, where, known)
    for other in map(Path, store.sources.roots()):
        if other != where.root and (other in where.root.parents or where.root in other.parents):
            work.problem(root, f"{other} is synced, too: notes that are in both are stored twice")
    work.read()
    gone = work.gone - work.moved_from
    deleted = [name for name in work.files if _is_deleted(known.get(name))]
    most = max(len(gone), len(deleted) if write else 0)
    if not force and most > 1 and most * 2 > len(known):
        what = (
            f"{len(gone)} of {len(known)} mirrored files are gone from {root};"
            " no document was deleted (--force deletes them)"
            if gone
            else f"the documents of {len(deleted)} of {len(known)} files in {root} were deleted;"
            " no file was deleted (--force deletes them)"
        )
        raise MassDeletionError(what)
    # Before the deletions: a text that has gone on under another name keeps its vectors.
    embedded: EmbedReport | None = None
    questioned: HypeReport | None = None
    if embed:
        embedded = store.embed(progress=progress)
    work.delete(gone)
    if write and where.root.is_dir():
        work.write()
    if embed and hype and store.questions.name() is not None:
        questioned = store.hype(due=True, progress=progress)
    return replace(work.report(), embedded=embedded, questioned=questioned)


def _settle_home(store: Store, root: str) -> None:
    """The first folder that is synced takes the store's own notes; another one only where that is
    no longer there (the base was moved to another machine)."""
    home = store.sources.home()
    if home == root or (home is not None and Path(home).is_dir()):
        return
    if home is not None and Path(root).is_dir():
        store.sources.forget(home)
    if home is None or Path(root).is_dir():
        store.sources.set_home(root)


def _is_deleted(source: Source | None) -> bool:
    return source is not None and source.path is None


class _Sync:
    """One reading and writing of a folder, and what it has changed so far."""

    def __init__(self, store: Store, folder: Folder, known: dict[str, Source]) -> None:
        self.store, self.folder, self.known = store, folder, known
        self.root = str(folder.root)
        self.problems: list[Problem] = []
        self.files = folder.files(self.problems) if folder.root.is_dir() else {}
        unreadable = {problem.path for problem in self.problems}
        self.gone = {
            name
            for name, source in known.items()
            if name not in self.files
            and source.path is not None
            and source.changed is None  # else it is written anew
            and not unreadable & _above(name)
        }
        self.created: list[str] = []
        self.updated: list[str] = []
        self.moved: list[tuple[str, str]] = []
        self.deleted: list[str] = []
        self.written: list[str] = []
        self.removed: list[str] = []
        self.conflicts: list[Problem] = []
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
            written=tuple(sorted(self.written)),
            removed=tuple(sorted(self.removed)),
            unchanged=len(self.files) - len(self.touched) + self.same,
            read=len(self.touched),
            conflicts=tuple(self.conflicts),
            problems=tuple(self.problems),
        )

    def problem(self, name: str, message: str) -> None:
        self.problems.append(Problem(name, message))

    # From the folder into the store

    def read(self) -> None:
        fresh = [
            file
            for file in self.files.values()
            if file.name not in self.known
            or self.known[file.name].stamp != (file.size, file.mtime_ns)
        ]
        for start in range(0, len(fresh), _BATCH):
            with self.store.batch():
                for file in fresh[start : start + _BATCH]:
                    self.touched.add(file.name)
                    try:
                        self._read_one(file)
                    except (InputError, OSError) as error:
                        self.problem(file.name, reason(error))

    def delete(self, names: set[str]) -> None:
        with self.store.batch():
            for name in sorted(names):
                path = self.known[name].path
                if path is not None and path in self.store:  # else somebody was faster
                    self.store.delete(path)
                    self.deleted.append(path)
                self.store.sources.forget(self.root, name)

    def _read_one(self, file: File) -> None:
        data = Path(file.place).read_bytes()
        digest = hashlib.sha256(data).hexdigest()
        known = self.known.get(file.name)
        if known and known.hash == digest:  # only touched
            self.store.sources.seen(self.root, file.name, file.size, file.mtime_ns, digest)
            self.same += 1
            return
        if not known:
            self._follow_move(file, digest)
        # A document that was given another path in the store is still this file's.
        path = known.path if known and known.path else file.path
        self._claim(path, file.name)
        note = self._parse(data, path, file.name)
        stored = self.store.get(path) if path in self.store else None
        conflict = (
            stored is not None
            and (known is None or known.changed is not None)
            and not _says_the_same(stored, note)
        )
        try:
            report = self.store.put(
                path,
                note.body,
                title=note.title,
                tags=note.tags,
                description=note.description,
                created=note.created or "",
                updated=note.updated or _moment(file.mtime_ns),
                frontmatter=note.frontmatter or "",  # None would keep the old one
                allow_empty=stored is None,
                defer=True,
            )
        except EmptyContentError:
            raise InputError(
                "the file is empty now; the stored text is kept (delete the file to delete it)"
            ) from None
        if report.action == "unchanged":
            self.same += file.name not in self.followed
        elif report.action == "created":
            self.created.append(path)
            if _is_deleted(known):
                message = "deleted in the store, but edited here since: it is kept"
                self.conflicts.append(Problem(path, message))
        elif conflict and stored and not self._file_wins(file, known, stored):
            self._remember(file, path, digest)
            self._put_back(stored)  # which the schema notes as a change that the file has not seen
            return
        else:
            self.updated.append(path)
            if conflict:
                message = (
                    "changed on both sides; the file is newer, the store's text is in the history"
                )
                self.conflicts.append(Problem(path, message))
        self._remember(file, path, digest)

    def _parse(self, data: bytes, path: str, name: str) -> frontmatter.Note:
        try:
            text = data.decode()
        except UnicodeDecodeError as error:
            raise InputError(f"the text is not UTF-8 (byte {error.start})") from None
        if "\0" in text:
            raise InputError("the text has a NUL character in it")
        note = frontmatter.parse(text, path)
        for message in note.problems:
            self.problem(name, message)
        return note

    def _claim(self, path: str, name: str) -> None:
        """Raises InputError where the document is that of another file."""
        owner = self.store.sources.of(path)
        if owner is None or owner == (self.root, name):
            return
        if owner[0] == self.root and owner[1] in self.gone:
            self.moved_from.add(owner[1])  # the same document under another file name
        elif (owner[0] == self.root and owner[1] in self.files) or Path(*owner).is_file():
            raise InputError(f"another file, {Path(*owner)}, is the document {path} already")
        self.store.sources.forget(*owner)

    def _file_wins(self, file: File, known: Source | None, stored: Document) -> bool:
        changed = known.changed if known else stored.updated
        if changed is None:
            return True
        moment = datetime.fromisoformat(changed)
        moment = moment.replace(tzinfo=moment.tzinfo or UTC)
        return file.mtime_ns // 10**6 >= int(moment.timestamp() * 1000)

    def _put_back(self, stored: Document) -> None:
        """The store's text is the newer one: that of the file has just gone into the history."""
        self.store.put(
            stored.path,
            stored.body,
            title=stored.title,
            tags=stored.tags,
            description=stored.description,
            created=stored.created or "",
            updated=stored.updated,
            frontmatter=stored.frontmatter or "",
            allow_empty=True,
            defer=True,
        )
        message = "changed on both sides; the store is newer, the file's text is in the history"
        self.conflicts.append(Problem(stored.path, message))

    def _follow_move(self, file: File, digest: str) -> None:
        """A new file with the bytes of one that is gone: its document gets another path."""
        for name in sorted(self.gone - self.moved_from):
            known = self.known[name]
            path = known.path
            if known.hash != digest or path is None:
                continue
            if path != file.path and (file.path in self.store or path not in self.store):
                continue
            self.store.sources.forget(self.root, name)
            self.moved_from.add(name)
            if path != file.path:
                self.store.move(path, file.path)
                self.moved.append((path, file.path))
                self.followed.add(file.name)
            self._remember(file, file.path, digest)
            return

    def _remember(self, file: File, path: str, digest: str) -> None:
        self.store.sources.set(self.root, file.name, path, file.size, file.mtime_ns, digest)

    # From the store into the folder

    def write(self) -> None:
        sources = self.store.sources
        if sources.home() == self.root:
            for path in sources.unmirrored():
                name = self.folder.name_of(path)
                if name is not None:
                    sources.reserve(self.root, name, path)
        for name, source in sorted(sources.files(self.root).items()):
            if source.changed is None:
                continue
            try:
                if source.path is None:
                    self._remove_one(name, source)
                else:
                    self._write_one(name, source)
            except (ChangedError, NotFoundError):
                pass  # edited, moved or deleted this very moment: the next sync looks at both sides
            except (InputError, OSError) as error:
                self.problem(name, f"it cannot be written: {reason(error)}")

    def _remove_one(self, name: str, source: Source) -> None:
        """The document was deleted. Its text is in the history."""
        if self.folder.look(name) is not None:
            self.folder.remove(name, source.stamp)
            self.removed.append(name)
        self.store.sources.forget(self.root, name)

    def _write_one(self, name: str, source: Source) -> None:
        assert source.path is not None
        document = self.store.get(source.path)
        before = self.folder.look(name)
        if before is not None and before != source.stamp:
            raise ChangedError(name)
        old = (self.folder.root / name).read_bytes() if before else b""
        data = render(document, bom=old.startswith(b"\xef\xbb\xbf"))
        digest = hashlib.sha256(data).hexdigest()
        if self._name_changes(name, document.path):
            target = self.folder.name_of(document.path)
            if target is None:  # it has no place here any more: the file goes, the note stays
                self._remove_one(name, source)
                return
            if self.folder.look(target) is not None:
                raise InputError(f"another file, {target}, is in the way")
            stamp = self.folder.write(target, data, None)
            self.store.sources.rename(self.root, name, target)
            if before is not None:
                self.folder.remove(name, source.stamp)
            self.moved.append((self.folder.path_of(name), document.path))
            name = target
        elif data == old and before is not None:
            stamp = before
        else:
            stamp = self.folder.write(name, data, before)
            self.written.append(name)
        self.store.sources.written(self.root, name, stamp, digest, source.changed)

    def _name_changes(self, name: str, path: str) -> bool:
        return self.folder.path_of(name) != path


def _says_the_same(stored: Document, note: frontmatter.Note) -> bool:
    return (stored.title, stored.tags, stored.description, stored.body) == (
        note.title,
        note.tags,
        note.description,
        note.body,
    )


def _above(name: str) -> set[str]:
    """The file and the folders that it lies in."""
    return {name, *(parent.as_posix() for parent in Path(name).parents)}


def _moment(mtime_ns: int) -> str:
    return datetime.fromtimestamp(mtime_ns // 10**9, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
