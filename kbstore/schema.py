"""Opens a knowledge base: makes the file, recognises it, refuses what is not ours."""

from __future__ import annotations

import os
import re
import secrets
import time
from contextlib import suppress
from pathlib import Path

import apsw

from . import queries
from .connection import (
    BUSY_TIMEOUT_MS,
    configure,
    driver_errors,
    execute,
    load_vec0,
    open_file,
    transaction,
)
from .errors import (
    DatabaseError,
    ForeignDatabaseError,
    InputError,
    NewerSchemaError,
    NotADatabaseError,
    NotFoundError,
    OlderSchemaError,
    ReadOnlyError,
)
from .migration import SCHEMA_VERSION, migrate

APPLICATION_ID = 0x6B627374  # "kbst"; `file` and SQLite see it in the header

_MAGIC = b"SQLite format 3\x00"


def connect(path: str | os.PathLike[str], *, read_only: bool = False) -> apsw.Connection:
    """Open the knowledge base at ``path``, made first if there is none, ready to use.

    The connection is in WAL mode, waits 10 seconds for a lock, checks foreign keys, and has vec0
    loaded where it can be. ``":memory:"`` gives one that is gone when it is closed.

    A file of an older schema is brought up to date, also for ``read_only``, after a copy of it has
    been made beside it.

    Raises NotFoundError (``read_only`` and no file), NotADatabaseError, ForeignDatabaseError,
    NewerSchemaError, OlderSchemaError (it may not be written), DatabaseError. A refused file is
    left untouched.
    """
    if os.fspath(path) == ":memory:":
        return adopt(apsw.Connection(":memory:"))
    file = expand_user(path).absolute()
    if "\0" in str(file):
        raise InputError("the path of the database has a NUL character in it")
    with driver_errors(str(file)):
        try:
            if not file.exists():
                if read_only:
                    raise NotFoundError(
                        f"there is no knowledge base at {file};"
                        " `kbstore init` or `kbstore sync DIR` makes one"
                    )
                _make(file)
            version = refuse_foreign_file(file)
        except OSError as error:
            raise DatabaseError(f"{file} cannot be opened: {error.strerror or error}") from error
        if version < SCHEMA_VERSION and read_only and os.access(file, os.W_OK):
            with suppress(ReadOnlyError):  # told below
                connect(file).close()
        connection = open_file(file, read_only=read_only)
        try:
            return adopt(connection)
        except BaseException:
            connection.close()
            raise


def expand_user(path: str | os.PathLike[str]) -> Path:
    """``~`` and ``~user`` replaced. Raises InputError where there is no such user."""
    try:
        return Path(path).expanduser()
    except RuntimeError:
        raise InputError(f"{path}: there is no such user") from None


def adopt(connection: apsw.Connection) -> apsw.Connection:
    """Make a connection that the host holds ready to use, as ``connect`` does; return it.

    An empty database gets the schema, one of an older schema is brought up to date.

    Raises ForeignDatabaseError, NewerSchemaError, OlderSchemaError, DatabaseError.
    """
    with driver_errors(connection.filename or "the database"):
        connection.set_busy_timeout(BUSY_TIMEOUT_MS)
        # Recognise before anything else is set: a pragma may write to a file that is not ours.
        if _is_empty(connection):
            configure(connection)
            create(connection)
            # Others recognise the file by its header, which is in the -wal file until now.
            connection.pragma("wal_checkpoint", "truncate")
        else:
            refuse_foreign_database(connection)
            configure(connection)
            if connection.readonly("main"):
                _refuse_older_schema(connection)
            else:
                migrate(connection)
        ensure_vectors(connection)
    return connection


def create(connection: apsw.Connection) -> None:
    """Create the whole schema in one transaction; another process may have been faster."""
    with transaction(connection):
        if not _is_empty(connection):
            refuse_foreign_database(connection)
            return
        for name in ("schema", "triggers", "views"):
            execute(connection, queries.read(name)).fetchall()
        connection.pragma("application_id", APPLICATION_ID)
        connection.pragma("user_version", SCHEMA_VERSION)


def ensure_vectors(connection: apsw.Connection) -> bool:
    """Whether the vec0 tables can be used; they are made where they, or parts, are missing."""
    if load_vec0(connection) is not None:
        return False
    if not execute(connection, queries.named("vec0_tables_exist")).get:
        if connection.readonly("main"):
            return False
        rebuild_vectors(connection)
    return True


def rebuild_vectors(connection: apsw.Connection) -> None:
    """Make the vec0 tables anew and fill them, whatever state they are in. In one transaction, so
    that nobody searches without them meanwhile; only where they are damaged in more than one.

    Raises DatabaseError.
    """
    if load_vec0(connection) is not None:
        return
    with driver_errors(connection.filename or "the database"):
        try:
            with transaction(connection):
                execute(connection, queries.named("vector_tables_drop")).fetchall()
                _make_vectors(connection)
        except DatabaseError:
            if connection.in_transaction:
                raise
            _forget_vectors(connection)  # damaged so that they cannot even be dropped
            with transaction(connection):
                _make_vectors(connection)


def _make_vectors(connection: apsw.Connection) -> None:
    execute(connection, queries.read("vectors")).fetchall()
    execute(connection, queries.named("vector_queue_all"))
    fill_vectors(connection)


def fill_vectors(connection: apsw.Connection) -> None:
    """Copy into the vec0 tables what the triggers have queued. The tables must be there."""
    for kind, row_id in execute(connection, queries.named("vector_queue")).fetchall():
        for step in (f"{kind}_vec_delete", f"{kind}_vec_insert", "vector_queue_done"):
            execute(connection, queries.named(step), {"kind": kind, "id": row_id})


def _forget_vectors(connection: apsw.Connection) -> None:
    """Take the vec0 tables out of the schema; VACUUM frees their pages."""
    connection.config(apsw.SQLITE_DBCONFIG_DEFENSIVE, 0)
    connection.pragma("writable_schema", True)
    try:
        with transaction(connection):
            execute(connection, queries.named("vector_tables_forget")).fetchall()
            connection.pragma("schema_version", connection.pragma("schema_version") + 1)
    finally:
        connection.pragma("writable_schema", False)
        connection.config(apsw.SQLITE_DBCONFIG_DEFENSIVE, 1)
    execute(connection, "vacuum").fetchall()


def _make(file: Path) -> None:
    """Make the file complete under another name, then give it its own: nobody, neither a process
    that opens it at the same time nor a crash, ever meets half of it."""
    if not file.parent.exists():
        file.parent.mkdir(parents=True, mode=0o700, exist_ok=True)
    _clear_drafts(file)
    draft = file.with_name(f".{file.name}.{secrets.token_hex(8)}")
    try:
        os.close(os.open(draft, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
        connection = apsw.Connection(str(draft), flags=apsw.SQLITE_OPEN_READWRITE)
        try:
            configure(connection)
            create(connection)
            ensure_vectors(connection)
            connection.pragma("wal_checkpoint", "truncate")
        finally:
            connection.close()
        with suppress(FileExistsError):
            try:
                os.link(draft, file)
            except OSError as error:
                if isinstance(error, FileExistsError) or file.exists():
                    raise FileExistsError from error
                os.rename(draft, file)  # a file system without hard links
    finally:
        for leftover in (draft, *(draft.with_name(draft.name + end) for end in ("-wal", "-shm"))):
            leftover.unlink(missing_ok=True)


def _clear_drafts(file: Path) -> None:
    """Remove what processes that were killed here have left an hour ago or longer."""
    ours = re.compile(rf"\.{re.escape(file.name)}\.[0-9a-f]{{16}}(-wal|-shm|-journal)?")
    for draft in file.parent.glob(".*"):
        if not ours.fullmatch(draft.name):
            continue  # somebody's own copy, perhaps
        with suppress(OSError):
            if time.time() - draft.stat().st_mtime > 3_600:
                draft.unlink()


def refuse_foreign_file(file: Path) -> int:
    """Judge by the first 100 bytes, before SQLite touches the file (opening a database in WAL
    mode already makes two files beside it); return the schema's version."""
    if file.is_dir():
        raise NotADatabaseError(f"{file} is a folder, not a knowledge base")
    if file.exists() and not file.is_file():  # reading from a pipe would wait for ever
        raise NotADatabaseError(f"{file} is not a regular file, not a knowledge base")
    with file.open("rb") as stream:
        header = stream.read(100)
    if not header:
        raise NotADatabaseError(f"{file} is an empty file, not a knowledge base; left as it is")
    if len(header) < 100 or not header.startswith(_MAGIC):
        raise NotADatabaseError(f"{file} is not an SQLite database; left as it is")
    application_id = int.from_bytes(header[68:72], "big")
    if application_id == 0 and file.with_name(file.name + "-wal").exists():
        # it may have just been made; once it is open, the database itself is asked
        return SCHEMA_VERSION
    version = int.from_bytes(header[60:64], "big")
    _refuse(str(file), application_id, version)
    return version


def refuse_foreign_database(connection: apsw.Connection) -> None:
    name = connection.filename or "the database"
    _refuse(name, connection.pragma("application_id"), connection.pragma("user_version"))


def _refuse(name: str, application_id: int, version: int) -> None:
    if application_id != APPLICATION_ID:
        raise ForeignDatabaseError(f"{name} is the database of another application; left as it is")
    if version > SCHEMA_VERSION:
        raise NewerSchemaError(
            f"{name} has schema version {version}, this kbstore knows {SCHEMA_VERSION}:"
            " upgrade kbstore to open it"
        )


def _refuse_older_schema(connection: apsw.Connection) -> None:
    version = connection.pragma("user_version")
    if version < SCHEMA_VERSION:
        name = connection.filename or "the database"
        raise OlderSchemaError(
            f"{name} has schema version {version}, this kbstore reads {SCHEMA_VERSION}; open it"
            " once where it may be written (`kbstore init --db FILE`): that brings it up to date"
        )


def _is_empty(connection: apsw.Connection) -> bool:
    tables = execute(connection, "select count(*) from sqlite_schema").get
    return bool(tables == 0 and connection.pragma("application_id") == 0)
