"""The vectors: embed."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

import click

from ..errors import ModelError
from ..terminal import print_json, progress_bar, tell_embedded
from .base import as_json, database, existing


@click.command()
@click.option("--limit", type=click.IntRange(min=1), help="At most so many documents.")
@click.option("--dry-run", is_flag=True, help="Say how much it is; call nothing.")
@as_json
@database
def embed(db: Path, limit: int | None, dry_run: bool, as_json: bool) -> None:
    """Make the vectors that are missing; with another model, make all of them anew.

    Newest notes first, committed as they come: it can be stopped and run again at any time.
    """
    if dry_run:
        _tell_estimate(db, limit, as_json)
        return
    with existing(db) as store:
        try:
            with progress_bar("embedding") as progress:
                report = store.embed(limit=limit, progress=progress)
        except KeyboardInterrupt:
            click.echo("Stopped; what was embedded is stored. Run it again to go on.", err=True)
            raise SystemExit(130) from None
    if as_json:
        print_json(report.as_dict())
    else:
        click.echo(
            f"{report.documents} documents embedded in {report.passages} passages,"
            f" {report.reused} reused, {report.questions} questions,"
            f" {report.failed} failed, {report.pending} pending"
        )
    if report.error:
        raise ModelError(report.error)
    tell_embedded(report)


def _tell_estimate(db: Path, limit: int | None, as_json: bool) -> None:
    with existing(db, read_only=True) as store:
        work = store.vectors.estimate(limit)
    if as_json:
        print_json(asdict(work))
    else:
        click.echo(
            f"{work.model}: {work.documents} documents in {work.passages} passages and"
            f" {work.questions} questions, about {work.tokens:,} tokens"
            + (", on this machine" if work.local else "")
        )
