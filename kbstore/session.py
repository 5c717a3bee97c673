"""One connection shared by the threads of a store: named statements, transactions, turns."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import apsw

from . import queries
from .connection import driver_errors, execute, transaction
from .errors import ForkError

Rows = list[tuple[Any, ...]]


class Session:
    """Runs the statements of ``queries.sql`` by name; one thread at a time, of one process: a
    connection that was carried over a fork shares its locks and its place in the file with the
    parent, and would damage it. Whoever uses it there gets a ForkError."""

    def __init__(self, connection: apsw.Connection) -> None:
        self.connection = connection
        self.name = connection.filename or "the database"
        self._lock = threading.RLock()
        self._process = os.getpid()

    @property
    def is_ours(self) -> bool:
        """It was opened by this process, not by one that this was forked from."""
        return os.getpid() == self._process

    def _check_process(self) -> None:
        if not self.is_ours:  # before the lock, which a thread of the parent may hold for ever
            raise ForkError(
                f"{self.name} was opened before this process was forked off: open it again here"
            )

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """All or nothing; nests. Raises BusyError, ReadOnlyError, ForkError, DatabaseError."""
        self._check_process()
        with self._lock, transaction(self.connection, self.name):
            yield

    @contextmanager
    def snapshot(self) -> Iterator[None]:
        """Several reads of one state of the file. Takes no write lock. Raises DatabaseError."""
        with self.reading(), self.connection:
            yield

    @contextmanager
    def reading(self) -> Iterator[None]:
        """No other thread uses the connection meanwhile. Raises ForkError, DatabaseError."""
        self._check_process()
        with self._lock, driver_errors(self.name):
            yield

    def run(self, statement: str, /, **bindings: Any) -> Rows:
        """All rows of a statement."""
        with self.reading():
            return execute(self.connection, queries.named(statement), bindings).fetchall()

    def row(self, statement: str, /, **bindings: Any) -> tuple[Any, ...] | None:
        """The first row, or None."""
        rows = self.run(statement, **bindings)
        return rows[0] if rows else None

    def value(self, statement: str, /, **bindings: Any) -> Any:
        """The first value of the first row, or None."""
        row = self.row(statement, **bindings)
        return row[0] if row else None

    def setting(self, name: str) -> Any:
        return self.value("setting", name=name)

    def set(self, name: str, value: Any) -> None:
        self.run("setting_update", name=name, value=value)
