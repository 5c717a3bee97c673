"""How well the base ranks: eval, tune."""

from __future__ import annotations

from pathlib import Path

import click

from .. import evaluation
from ..terminal import print_json, progress_bar
from .base import as_json, database, existing, reader

_queries = click.option(
    "--queries",
    "file",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Labelled queries (JSON lines, CSV or TSV with query and path); else the questions.",
)
_sample = click.option(
    "--sample", type=click.IntRange(min=1), help="At most so many queries, drawn at random."
)


@click.command("eval")
@_queries
@_sample
@click.option("--worst", type=click.IntRange(min=0), default=10, show_default=True,
              help="How many of the worst queries to list.")  # fmt: skip
@as_json
@database
def evaluate(db: Path, file: Path | None, sample: int | None, worst: int, as_json: bool) -> None:
    """Measure how well the base finds its own notes, by each retriever and by all.

    Every question that a note answers is a query whose answer is known; it is left out of the
    index for its own query. Nothing is changed, and no model is called but for --queries.
    """
    labelled = evaluation.read_queries(file) if file else None
    with reader(db) as store, progress_bar("searching") as progress:
        found = evaluation.evaluate(
            store, labelled, sample=sample or 500, worst=worst, progress=progress
        )
    if as_json:
        print_json(found.as_dict())
        return
    click.echo(f"{found.queries} queries        recall@1  recall@5 recall@10    MRR@10")
    for form, m in found.measures.items():
        numbers = (m.recall_1, m.recall_5, m.recall_10, m.mrr_10)
        click.echo(f"{form:18}" + "".join(f"{number:10.3f}" for number in numbers))
    if found.worst:
        click.echo("\nThe worst:")
    for miss in found.worst:
        place = f"rank {miss.rank}" if miss.rank else "not found"
        click.echo(
            f"  {miss.query}\n      {miss.path}: {place}; first is {miss.first or 'nothing'}"
        )
    if found.degraded:
        click.echo(f"Note: by words only: {found.degraded}", err=True)


@click.command()
@_queries
@_sample
@click.option("--write", is_flag=True, help="Write the proposed weights, if they are better.")
@as_json
@database
def tune(db: Path, file: Path | None, sample: int | None, write: bool, as_json: bool) -> None:
    """Propose weights for the retrievers, with the gain that cross-validation measures."""
    labelled = evaluation.read_queries(file) if file else None
    with (existing if write else reader)(db) as store, progress_bar("trying") as progress:
        found = evaluation.tune(store, labelled, sample=sample or 200, progress=progress)
        written = write and found.better
        if written:
            evaluation.apply(store, found.weights)
    if as_json:
        print_json(found.as_dict() | {"written": written})
        return
    for name, weight in sorted(found.weights.items()):
        click.echo(f"{name:12} {found.current[name]:g} -> {weight:g}")
    click.echo(
        f"MRR@10 of {found.queries} queries by cross-validation: {found.before:.3f} ->"
        f" {found.after:.3f}" + ("" if found.better else " (no more than chance: keep what is)")
    )
    if written:
        click.echo("written")
    elif found.better:
        click.echo("not written; --write does it", err=True)
