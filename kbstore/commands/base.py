"""What the commands share: which file, how it is opened, JSON."""

from __future__ import annotations

import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar, cast

import click

from ..errors import NotFoundError
from ..schema import expand_user
from ..store import Store

DEFAULT_DATABASE = "~/.picobot/data/kb.sqlite3"

F = TypeVar("F", bound=Callable[..., Any])


def database(command: F) -> F:
    """Adds ``--db``; the command gets ``db``, the path of the file."""

    @click.option(
        "--db",
        metavar="PATH",
        help=f"The database file.  [env var: KBSTORE_DB; default: {DEFAULT_DATABASE}]",
    )
    @click.pass_context
    @functools.wraps(command)
    def wrapper(ctx: click.Context, /, *args: Any, **options: Any) -> Any:
        path = options.pop("db") or ctx.obj or DEFAULT_DATABASE
        return ctx.invoke(command, *args, db=expand_user(path), **options)

    return cast(F, wrapper)


as_json = click.option("--json", "as_json", is_flag=True, help="Print JSON.")


def existing(db: Path, **options: Any) -> Store:
    """A store of a file that must be there."""
    if not db.exists():
        raise NotFoundError(
            f"there is no knowledge base at {db}; `kbstore init` or `kbstore sync DIR` makes one"
        )
    return Store(db, **options)


def reader(db: Path) -> Store:
    return Store(db, read_only=True)
