"""The file as a whole: init, status, demo, sql."""

from __future__ import annotations

from pathlib import Path

import click

from .. import queries
from ..connection import vec0_path
from ..demo import run_demo
from ..store import Store
from ..terminal import print_json
from .base import as_json, database, reader


@click.command()
@database
def init(db: Path) -> None:
    """Make an empty knowledge base."""
    existed = db.exists()
    with Store(db, embedder=None) as store:
        click.echo(f"{store.connection.filename}{' (exists already)' if existed else ''}")


@click.command()
@as_json
@database
def status(db: Path, as_json: bool) -> None:
    """Say what is in the file, what is pending, and which model serves."""
    with reader(db) as store:
        found = store.status()
    if as_json:
        print_json(found.as_dict())
        return
    for name, value in found.as_dict().items():
        if name == "degraded":
            for sentence in value:
                click.echo(f"Note: {sentence}", err=True)
        elif value is not None:
            click.echo(f"{name.replace('_', ' '):16} {value}")


@click.command()
def demo() -> None:
    """Search a sample base of 23 notes and show how each result came about."""
    run_demo(click.echo)


@click.command()
@click.argument(
    "name",
    type=click.Choice(["search", "search_words", "shell", "schema", "views", "vectors", "vec0"]),
)
@click.option("--path", "only_path", is_flag=True, help="Print where the file is instead.")
def sql(name: str, only_path: bool) -> None:
    """Print one of kbstore's SQL files, as the sqlite3 shell runs it.

    vec0 is where the sqlite-vec extension is, for the shell's .load.
    """
    if name == "vec0":
        click.echo(vec0_path())
    else:
        click.echo(queries.SQL_FOLDER / f"{name}.sql" if only_path else queries.read(name))
