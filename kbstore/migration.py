"""Brings a database of an older schema up to date: ``sql/migrations/NNNN_verb_noun.sql``, in order.

A migration changes tables only; triggers, views and kb_help are made anew from their own files
afterwards. All of it is one transaction, so a crash leaves the old schema, whole.
"""

from __future__ import annotations

import os
import secrets
from pathlib import Path

import apsw

from . import queries
from .connection import driver_errors, execute, transaction
from .errors import DatabaseError

SCHEMA_VERSION = 2


def migrate(connection: apsw.Connection) -> None:
    """Does nothing where the schema is the newest. A copy of the file as it was is made first,
    beside it: ``kb.sqlite3.schema-1``.

    Raises DatabaseError (no room for the copy, say; then nothing has changed).
    """
    version = connection.pragma("user_version")
    if version >= SCHEMA_VERSION:
        return
    if connection.filename and not connection.in_transaction:
        _copy(connection, version)
    with transaction(connection):
        version = connection.pragma("user_version")  # another process may have been faster
        if version >= SCHEMA_VERSION:
            return
        for number in range(version + 1, SCHEMA_VERSION + 1):
            execute(connection, queries.migration(number)).fetchall()
        for name in ("triggers", "views"):
            execute(connection, queries.read(name)).fetchall()
        execute(connection, queries.named("question_words"))
        connection.pragma("user_version", SCHEMA_VERSION)


def _copy(connection: apsw.Connection, version: int) -> None:
    target = Path(f"{connection.filename}.schema-{version}")
    draft = target.with_name(f".{target.name}.{secrets.token_hex(8)}")
    try:
        os.close(os.open(draft, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
        with driver_errors(f"{draft} (the copy before the schema is brought up to date)"):
            execute(connection, "vacuum into ?", (str(draft),))  # takes an empty file as none
        with draft.open("rb") as stream:
            copied = int.from_bytes(stream.read(64)[60:], "big")
        if copied == version:  # else another process was faster, and has made the copy
            os.replace(draft, target)
    except OSError as error:
        raise DatabaseError(
            f"{connection.filename} has an older schema, and no copy of it can be made beside it"
            f" ({error.strerror or error}); it is left as it is"
        ) from error
    finally:
        draft.unlink(missing_ok=True)
