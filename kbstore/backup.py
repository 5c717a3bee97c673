"""Copies of the file that are good, made while it is in use; and taking one back."""

from __future__ import annotations

import os
import re
import secrets
import shutil
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path

import apsw

from . import queries, schema
from .connection import driver_errors, execute, open_file
from .errors import ConflictError, DatabaseError, InputError, NotFoundError
from .migration import SCHEMA_VERSION, migrate
from .schema import expand_user
from .store import Store

_ROTATED = re.compile(r"kb-(\d{8}-\d{6})(?:-(\d+))?\.sqlite3")


def backup(store: Store, target: str | os.PathLike[str], *, force: bool = False) -> Path:
    """Write a copy of the base as it is at this moment: one file, readable by its owner only,
    compacted, checked before it gets its name. Readers and writers go on.

    Raises ConflictError (``target`` is there, and not ``force``), DatabaseError.
    """
    place, base = expand_user(target).absolute(), store.connection.filename
    if "\0" in str(place):
        raise InputError("the path of the copy has a NUL character in it")
    if base and place.exists() and place.samefile(base):
        raise InputError(f"{place} is the base itself; give the copy another name")
    if place.is_dir():
        raise InputError(f"{place} is a folder; --keep N puts copies into it, named by the time")
    if place.exists() and not force:
        raise ConflictError(f"{place} is there already; --force replaces it")
    for ending in ("-wal", "-journal"):  # SQLite would take it for a part of the copy
        if Path(f"{place}{ending}").exists():
            raise ConflictError(
                f"{place}{ending} is there: a base of that name is in use, or was not closed;"
                " give the copy another name"
            )
    draft = place.with_name(f".{place.name}.{secrets.token_hex(8)}")
    try:
        place.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        os.close(os.open(draft, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
        with store.session.reading(), driver_errors(str(place)):
            execute(store.connection, "vacuum into ?", (str(draft),))
        _check(draft)
        with draft.open("rb+") as stream:
            os.fsync(stream.fileno())
        _give_name(draft, place, force)
    except OSError as error:
        raise DatabaseError(f"{place} cannot be written: {error.strerror or error}") from error
    finally:
        with suppress(OSError):
            draft.unlink(missing_ok=True)
    return place


def _give_name(draft: Path, place: Path, force: bool) -> None:
    if not force:
        try:
            os.link(draft, place)  # unlike a rename, never over another file
            return
        except OSError as error:
            if isinstance(error, FileExistsError) or place.exists():
                raise ConflictError(f"{place} is there already; --force replaces it") from None
    os.replace(draft, place)  # also on a file system without links


def rotate(store: Store, folder: str | os.PathLike[str], keep: int) -> tuple[Path, list[Path]]:
    """A backup in ``folder``, named by the time; then only the ``keep`` newest of them stay.

    Returns the new one, and those that were deleted. Raises InputError, DatabaseError.
    """
    if keep < 1:
        raise InputError(f"keep is {keep}; it must be 1 or more")
    place = expand_user(folder).absolute()
    stem = datetime.now(UTC).strftime("kb-%Y%m%d-%H%M%S")
    made, number = None, 0
    while made is None:
        name = f"{stem}-{number}.sqlite3" if number else f"{stem}.sqlite3"
        try:
            made = backup(store, place / name)
        except ConflictError:  # two in one second
            number += 1
    files = [file for file in place.iterdir() if file.is_file()]
    found = [(match, file) for file in files if (match := _ROTATED.fullmatch(file.name))]
    found.sort(key=lambda pair: (pair[0][1], int(pair[0][2] or 0)))
    old = [file for _, file in found[:-keep] if file != made]
    for file in old:
        file.unlink(missing_ok=True)
    return made, old


def restore(store: Store, source: str | os.PathLike[str]) -> Path:
    """Make the base what ``source``, a backup, is. Other processes that have the base open see it
    at once. What was there before is kept in the returned file; a damaged base as it is.

    Raises NotFoundError, DatabaseError (the backup is damaged, say); then nothing has changed.
    """
    place = expand_user(source).absolute()
    if not place.is_file():
        raise NotFoundError(f"there is no file {place}")
    if not store.connection.filename:
        raise InputError("a base in memory cannot be restored")
    file = Path(store.connection.filename)
    if place.samefile(file):
        raise InputError(f"{place} is the base itself, not a backup of it")
    version = _check(place)
    before = _keep(store, file)
    draft = file.with_name(f".{file.name}.{secrets.token_hex(8)}")
    copy = open_file(place, read_only=True)
    try:
        # Page by page into the open file: a transaction like any other, so nobody sees half.
        with store.session.reading(), driver_errors(str(file)):
            size = store.connection.pragma("page_size")
            if copy.pragma("page_size") != size:
                copy.pragma("page_size", size)
                os.close(os.open(draft, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
                execute(copy, "vacuum into ?", (str(draft),))
                copy.close()
                copy = open_file(draft, read_only=True)
            with store.connection.backup("main", copy, "main") as work:
                while not work.done:
                    work.step(-1)
    finally:
        copy.close()
        draft.unlink(missing_ok=True)
    if version < SCHEMA_VERSION:
        migrate(store.connection)
    schema.ensure_vectors(store.connection)
    return before


def _keep(store: Store, file: Path) -> Path:
    """What is there now, beside the base: a good copy, or, where it is damaged, its bytes."""
    stamp = datetime.now(UTC).strftime("%Y%m%d-%H%M%S")
    before = file.with_name(f"{file.name}.before-{stamp}-{secrets.token_hex(2)}")
    try:
        return backup(store, before)
    except DatabaseError:
        try:
            with store.session.transaction():  # so that nobody writes meanwhile
                for ending in ("", "-wal"):
                    if (part := Path(f"{file}{ending}")).exists():
                        kept = Path(f"{before}{ending}")
                        kept.touch(0o600, exist_ok=False)
                        shutil.copyfile(part, kept)
        except OSError as error:
            for ending in ("", "-wal"):
                Path(f"{before}{ending}").unlink(missing_ok=True)
            raise DatabaseError(f"{before} cannot be written: {error.strerror}") from error
        return before


def compact(store: Store) -> tuple[int, int]:
    """Give unused space back: (bytes before, bytes after). The vec0 tables are made anew, since
    VACUUM does not shrink them; old versions beyond the limits of the history go.

    Raises DatabaseError (it needs as much free disk space as the file has).
    """
    session = store.session
    size = _size(store)
    with session.transaction():
        session.run("versions_prune")
    with session.reading():
        schema.rebuild_vectors(store.connection)
    session.run("words_merge")
    with session.reading():
        execute(store.connection, "vacuum").fetchall()
        store.connection.pragma("wal_checkpoint", "truncate")
    return size, _size(store)


def _size(store: Store) -> int:
    with store.session.reading():
        pages = store.connection.pragma("page_count")
        return int(pages * store.connection.pragma("page_size"))


def _check(file: Path) -> int:
    """The schema's version of a whole base. Raises DatabaseError, naming the file."""
    schema.refuse_foreign_file(file)
    connection = open_file(file, read_only=True)
    try:
        with driver_errors(str(file)):
            schema.refuse_foreign_database(connection)
            said = execute(connection, queries.named("check_pages")).get
            if said != "ok":
                raise DatabaseError(f"{file} is damaged: {str(said)[:200]}")
            return int(connection.pragma("user_version"))
    except apsw.Error as error:
        raise DatabaseError(f"{file} is damaged: {error}") from error
    finally:
        connection.close()
