"""The local model's file: status, pull, use."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import click

from .. import download, embed, model_file
from ..schema import expand_user
from ..terminal import print_json
from .base import as_json


@click.group()
def model() -> None:
    """The embedding model's file: which one serves, get it, take one that is here."""


@model.command()
@as_json
def status(as_json: bool) -> None:
    """Say where the model's file is looked for, what is there, and which one is taken."""
    found = model_file.survey()
    if as_json:
        print_json(found.as_dict())
        return
    click.echo(f"{'mode':18} {found.mode}")
    click.echo(f"{'model':18} {found.taken or 'none'}")
    for place in found.places:
        click.echo(f"{place.place:18} {place.file}")
        if place.usable:
            taken = ", taken" if place.taken else ""
            click.echo(f"{'':18} {place.name}, {place.size:,} bytes, whole, {place.hash}{taken}")
        else:
            size = f"{place.size:,} bytes, not usable" if place.exists else "no such file"
            click.echo(f"{'':18} {size}")
    problems = dict.fromkeys([found.problem, *(place.problem for place in found.places)])
    for problem in filter(None, problems):
        click.echo(f"Note: {problem}", err=True)
    if any(place.problem for place in found.places):
        click.echo("Note: `kbstore model pull` replaces such a file", err=True)


@model.command()
@click.option("--force", is_flag=True, help="Download it though a whole one is there.")
@click.option(
    "--url",
    envvar="KBSTORE_MODEL_URL",
    show_envvar=True,
    help=f"Where it is.  [default: {model_file.URL}]",
)
def pull(url: str | None, force: bool) -> None:
    """Download nomic-embed-text-v1.5 (274 MB) to KBSTORE_MODEL_DIR, else to gpt4all's cache.

    Broken off, it goes on where it stopped when it is run again.
    """
    try:
        with _download_bar() as progress:
            outcome = model_file.pull(url, force=force, progress=progress, tell=_tell)
    except KeyboardInterrupt:
        part = download.part_of(next(iter(embed.places().values())))
        kept = f" {part} is kept: `kbstore model pull` goes on from there" if part.exists() else ""
        click.echo(f"Stopped.{kept}", err=True)
        raise click.exceptions.Exit(1) from None
    _report(outcome)
    if outcome.action == "kept":
        _tell("nothing was downloaded; --force does it all the same")


@model.command()
@click.argument("path", type=click.Path(path_type=Path))
@click.option("--force", is_flag=True, help="Replace another model that is there.")
def use(path: Path, force: bool) -> None:
    """Take a model's file that is already here: a folder with it, or the file itself.

    gpt4all's cache gets a link to it, so leave it where it is.
    """
    outcome = model_file.use(expand_user(path), force=force)
    _report(outcome)
    first, file = next(iter(embed.places().items()))
    if file != outcome.file:
        _tell(f"{first} is set and comes first: {file}")


def _report(outcome: model_file.Outcome) -> None:
    click.echo(f"{outcome.action} {outcome.file}: {outcome.name}")
    if outcome.action != "kept":
        _tell("`kbstore embed` lets it serve: run it once for each knowledge base")
    if os.environ.get("KBSTORE_INFERENCE_MODE") == "remote":
        _tell("KBSTORE_INFERENCE_MODE=remote is set: Nomic's server makes the vectors")


def _tell(line: str) -> None:
    click.echo(f"Note: {line}", err=True)


@contextmanager
def _download_bar() -> Iterator[download.Progress | None]:
    """Bytes, rate and remaining time on a terminal, nothing elsewhere."""
    if not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, TimeRemainingColumn, TransferSpeedColumn
    from rich.progress import Progress as Bar

    bar = Bar(
        BarColumn(), DownloadColumn(), TransferSpeedColumn(), TimeRemainingColumn(),
        console=Console(stderr=True), transient=True,
    )  # fmt: skip

    def show(done: int, of: int | None) -> None:
        if not bar.tasks:
            bar.add_task("", completed=done, total=of)  # what was there before counts for no rate
            bar.start()
        bar.update(bar.tasks[0].id, completed=done, total=of)

    try:
        yield show
    finally:
        bar.stop()
