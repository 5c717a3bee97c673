"""Copies of the file that are good, made while it is in use; and taking one back."""

from __future__ import annotations

import os
import re
import secrets
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
    place = expand_user(target).absolute()
    if place.exists() and not force:
        raise ConflictError(f"{place} is there already; --force replaces it")
    if place == Path(store.connection.filename or "").absolute():
        raise InputError(f"{place} is the base itself; give the copy another name")
    draft = place.with_name(f".{place.name}.{secrets.token_hex(8)}")
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        os.close(os.open(draft, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
        with store.session.reading(), driver_errors(str(place)):
            execute(store.connection, "vacuum into ?", (str(draft),))
        _check(draft)
        with draft.open("rb+") as stream:
            os.fsync(stream.fileno())
        if force:
            os.replace(draft, place)
        else:
            os.link(draft, place)
    except FileExistsError:
        raise ConflictError(f"{place} is there already; --force replaces it") from None
    except OSError as error:
        raise DatabaseError(f"{place} cannot be written: {error.strerror or error}") from error
    finally:
        with suppress(OSError):
            draft.unlink(missing_ok=True)
    return place


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
    found = [(match, file) for file in place.iterdir() if (match := _ROTATED.fullmatch(file.name))]
    found.sort(key=lambda pair: (pair[0][1], int(pair[0][2] or 0)))
    old = [file for _, file in found[:-keep] if file != made]
    for file in old:
        file.unlink(missing_ok=True)
    return made, old


def restore(store: Store, source: str | os.PathLike[str]) -> Path:
    """Make the base what ``source``, a backup, is. Other processes that have the base open see it
    at once. What was there before is kept in the returned file.

    Raises NotFoundError, DatabaseError (the backup is damaged, say); then nothing has changed.
    """
    place = expand_user(source).absolute()
    if not place.is_file():
        raise NotFoundError(f"there is no file {place}")
    version = _check(place)
    file = Path(store.connection.filename)
    if not store.connection.filename:
        raise InputError("a base in memory cannot be restored")
    stamp = datetime.now(UTC).strftime("%Y%m%d-%H%M%S")
    before = backup(store, file.with_name(f"{file.name}.before-{stamp}-{secrets.token_hex(2)}"))
    copy = open_file(place, read_only=True)
    try:
        # Page by page into the open file: a transaction like any other, so nobody sees half.
        with (
            store.session.reading(),
            driver_errors(str(file)),
            store.connection.backup("main", copy, "main") as work,
        ):
            while not work.done:
                work.step(-1)
    finally:
        copy.close()
    if version < SCHEMA_VERSION:
        migrate(store.connection)
    schema.ensure_vectors(store.connection)
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
    schema.rebuild_vectors(store.connection)
    with session.transaction():
        store.vectors.drain()
        session.run("words_merge")
    with session.reading():
        execute(store.connection, "vacuum").fetchall()
        store.connection.pragma("wal_checkpoint", "truncate")
    return size, _size(store)


def _size(store: Store) -> int:
    with store.session.reading():
        store.connection.pragma("wal_checkpoint", "truncate")
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
