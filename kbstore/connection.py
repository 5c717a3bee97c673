"""An apsw connection made fit for kbstore: pragmas, the vec0 extension, transactions, clear errors.

Nothing here is process-wide: all of it is set on the one connection.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import quote

import apsw

from .errors import BusyError, DatabaseError, NotADatabaseError, ReadOnlyError

BUSY_TIMEOUT_MS = 10_000
_WAL_LIMIT = 64 * 1024 * 1024  # bytes that the -wal file keeps after a checkpoint


def open_file(path: Path, *, read_only: bool = False) -> apsw.Connection:
    """Open an existing database file; no pragma is set yet.

    A file in WAL mode cannot be read without its -shm file. Where that can be neither found nor
    made (a read-only folder) and no -wal file waits, the file is opened as immutable.

    Raises DatabaseError.
    """
    flags = apsw.SQLITE_OPEN_READONLY if read_only else apsw.SQLITE_OPEN_READWRITE
    with driver_errors(str(path)):
        connection = apsw.Connection(str(path), flags=flags)
        connection.set_busy_timeout(BUSY_TIMEOUT_MS)  # after a crash somebody rebuilds the -shm
        if not read_only:
            return connection
        try:
            connection.pragma("schema_version")
        except (apsw.CantOpenError, apsw.ReadOnlyError):
            connection.close()
            if path.with_name(path.name + "-wal").exists():
                raise
            uri = f"file:{quote(str(path))}?immutable=1"
            connection = apsw.Connection(uri, flags=flags | apsw.SQLITE_OPEN_URI)
        return connection


def configure(connection: apsw.Connection) -> None:
    """Set what every connection needs. Takes no write lock where WAL mode is on."""
    connection.set_busy_timeout(BUSY_TIMEOUT_MS)
    connection.pragma("foreign_keys", True)
    connection.pragma("recursive_triggers", True)  # so that REPLACE fires the delete triggers
    connection.pragma("synchronous", "normal")
    connection.pragma("journal_size_limit", _WAL_LIMIT)
    connection.pragma("cache_size", -16_000)  # KiB; the exact cosines read 200 scattered vectors
    connection.pragma("trusted_schema", False)
    connection.config(apsw.SQLITE_DBCONFIG_DEFENSIVE, 1)
    if not connection.readonly("main") and connection.pragma("journal_mode") not in (
        "wal",
        "memory",
    ):
        connection.pragma("journal_mode", "wal")
    load_vec0(connection)


def load_vec0(connection: apsw.Connection) -> str | None:
    """Load the sqlite-vec extension; return why it is not there, or None."""
    try:
        execute(connection, "select vec_version()").fetchall()
        return None
    except apsw.SQLError:
        pass
    try:
        path = vec0_path()
        # This form of the switch lets only the C interface load, not SQL's load_extension().
        connection.config(apsw.SQLITE_DBCONFIG_ENABLE_LOAD_EXTENSION, 1)
        try:
            connection.load_extension(path)
        finally:
            connection.config(apsw.SQLITE_DBCONFIG_ENABLE_LOAD_EXTENSION, 0)
    except (ImportError, AttributeError, OSError, apsw.Error) as error:
        return (
            f"the sqlite-vec extension cannot be loaded ({_one_line(error)});"
            " `pip install sqlite-vec==0.1.9` brings it"
        )
    return None


def execute(
    connection: apsw.Connection, sql: str, bindings: apsw.Bindings | None = None
) -> apsw.Cursor:
    """Run a statement; rows are tuples, whatever row factory a host has set on the connection."""
    cursor = connection.cursor()
    cursor.row_trace = None
    return cursor.execute(sql, bindings)


@contextmanager
def transaction(connection: apsw.Connection, name: str = "") -> Iterator[None]:
    """All or nothing. Begins IMMEDIATE: a transaction that reads first and writes later would
    fail at once when another process wrote in between, whatever the busy timeout.

    Inside a transaction of the host it is a savepoint.

    Raises BusyError, ReadOnlyError, DatabaseError.
    """
    with driver_errors(name or "the database"):
        if connection.in_transaction:
            with connection:
                yield
            return
        execute(connection, "begin immediate")
        try:
            yield
            execute(connection, "commit")
        except BaseException:
            if connection.in_transaction:  # SQLite itself may have rolled back already
                execute(connection, "rollback")
            raise


def vec0_path() -> str:
    """Where the sqlite-vec extension is. Raises ImportError."""
    import sqlite_vec

    return str(sqlite_vec.loadable_path())


@contextmanager
def driver_errors(what: str) -> Iterator[None]:
    """Turn the driver's errors into ours, once, with the file's name in them."""
    try:
        yield
    except apsw.BusyError as error:
        seconds = BUSY_TIMEOUT_MS / 1000
        raise BusyError(
            f"{what} is busy: another process has been writing for more than {seconds:g} seconds;"
            " try again"
        ) from error
    except apsw.NotADBError as error:
        raise NotADatabaseError(f"{what} is not an SQLite database") from error
    except apsw.ReadOnlyError as error:
        raise ReadOnlyError(
            f"{what} cannot be written: the file or its folder is read-only"
        ) from error
    except apsw.FullError as error:
        raise DatabaseError(
            f"{what}: the disk is full; what was stored before is intact"
        ) from error
    except apsw.CorruptError as error:
        raise DatabaseError(
            f"{what} is damaged ({_one_line(error)}): `kbstore check` tells where, `kbstore check"
            " --fix` mends what can be derived, `kbstore restore` takes a backup"
        ) from error
    except apsw.CantOpenError as error:
        folder = os.path.dirname(what)
        if os.path.isdir(folder) and not os.access(folder, os.W_OK):
            raise ReadOnlyError(f"{what} cannot be opened: its folder is read-only") from error
        raise DatabaseError(f"{what}: {_one_line(error)}") from error
    except UnicodeDecodeError as error:
        raise DatabaseError(
            f"{what} holds a text that is not UTF-8: {error.object[:40]!r}"
        ) from error
    except (apsw.Error, UnicodeEncodeError) as error:
        raise DatabaseError(f"{what}: {_one_line(error)}") from error


def _one_line(error: BaseException) -> str:
    return " ".join(str(error).split()) or type(error).__name__
