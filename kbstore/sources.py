"""Which file of a mirrored folder is which document, and which of the two is newer. The one writer
of source_file."""

from __future__ import annotations

from typing import NamedTuple

from .session import Session


class Source(NamedTuple):
    """A mirrored file as it was when it was last read or written, and its document.

    ``path`` None: the document was deleted since. ``changed``: since when the document is newer
    than the file (ISO 8601, UTC, milliseconds); None: they are equal. ``hash`` "": the file has
    not been written yet.
    """

    size: int
    mtime_ns: int
    hash: str
    path: str | None
    changed: str | None

    @property
    def stamp(self) -> tuple[int, int]:
        return self.size, self.mtime_ns


class Sources:
    def __init__(self, session: Session) -> None:
        self._session = session

    def files(self, root: str) -> dict[str, Source]:
        """The mirrored files of a folder, by name."""
        return {row[0]: Source(*row[1:]) for row in self._session.run("sources", root=root)}

    def roots(self) -> tuple[str, ...]:
        """The mirrored folders."""
        return tuple(row[0] for row in self._session.run("source_roots"))

    def of(self, path: str) -> tuple[str, str] | None:
        """The (folder, file) that a document is mirrored in."""
        rows = self._session.run("source_of", path=path)
        return rows[0] if rows else None

    def unmirrored(self) -> list[str]:
        """The documents that are in no folder."""
        return [row[0] for row in self._session.run("source_less")]

    def home(self) -> str | None:
        """The folder that new notes are written to."""
        folder = self._session.setting("folder")
        return None if folder is None else str(folder)

    def set_home(self, root: str) -> None:
        with self._session.transaction():
            self._session.set("folder", root)

    def set(self, root: str, file: str, path: str, size: int, mtime_ns: int, hash: str) -> None:
        """The file and the document are equal."""
        with self._session.transaction():
            self._session.run(
                "source_update",
                root=root, file=file, path=path, size=size, mtime_ns=mtime_ns, hash=hash,
            )  # fmt: skip

    def seen(self, root: str, file: str, size: int, mtime_ns: int, hash: str) -> None:
        """The file is as it says; the document is still the newer one."""
        with self._session.transaction():
            self._session.run(
                "source_seen", root=root, file=file, size=size, mtime_ns=mtime_ns, hash=hash
            )

    def written(
        self, root: str, file: str, stamp: tuple[int, int], hash: str, changed: str | None
    ) -> None:
        """The file has what the document was at ``changed``; it may have changed again."""
        with self._session.transaction():
            self._session.run(
                "source_written",
                root=root, file=file, size=stamp[0], mtime_ns=stamp[1], hash=hash, changed=changed,
            )  # fmt: skip

    def reserve(self, root: str, file: str, path: str) -> None:
        """The document is to be written to this file, which is not there yet."""
        with self._session.transaction():
            self._session.run("source_reserve", root=root, file=file, path=path)

    def rename(self, root: str, file: str, new: str) -> None:
        with self._session.transaction():
            self._session.run("source_delete", root=root, file=new)
            self._session.run("source_renamed", root=root, file=file, new=new)

    def forget(self, root: str, file: str | None = None) -> None:
        """One file, or all of a folder."""
        with self._session.transaction():
            if file is None:
                self._session.run("source_forget", root=root)
            else:
                self._session.run("source_delete", root=root, file=file)
