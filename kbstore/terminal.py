"""How the command line shows things: hits, JSON, what is pending, a progress bar."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import click

from .report import EmbedReport, HypeReport, Progress
from .search import RETRIEVERS, Hit


def print_json(value: Any) -> None:
    click.echo(json.dumps(value, ensure_ascii=False, indent=2))


def print_hit(rank: int, hit: Hit, explain: bool) -> None:
    head = click.style(hit.path, bold=True)
    by_meaning = "" if hit.words or hit.frontmatter else "  (by meaning only)"
    click.echo(f"{rank:>3}  {head}  {' '.join(hit.title.split())}{by_meaning}")
    pieces = hit.snippet.split("**")
    marked = "".join(click.style(p, bold=True) if i % 2 else p for i, p in enumerate(pieces))
    terminal = sys.stdout.isatty() and len(pieces) % 2
    click.echo(f"     {marked if terminal else hit.snippet}")
    if explain:
        for name in RETRIEVERS:
            evidence = getattr(hit, name)
            if evidence:
                click.echo(
                    f"     {name:11}  rank {evidence.rank:<4} score {evidence.score:<8.4f}"
                    f"  adds {evidence.contribution:.5f}"
                )
        if hit.matched_question:
            click.echo(f"     question     {hit.matched_question}")
        click.echo(
            f"     type {hit.type} x {hit.type_weight:g}, recency x {hit.recency:.3f}"
            f" (updated {hit.updated or 'unknown'}), score {hit.score:.5f}"
            + (
                f"; rank {hit.rank_without_age} but for its age"
                if hit.rank_without_age < rank
                else ""
            )
        )


def tell_embedded(report: EmbedReport) -> None:
    if report.error:
        click.echo(f"Note: {report.error}", err=True)
    if report.pending:
        click.echo(
            f"Note: {report.pending} documents have no vectors yet and are found by words only;"
            " `kbstore embed` makes them",
            err=True,
        )


def tell_questioned(report: HypeReport) -> None:
    if report.failed:
        click.echo(
            f"Note: {report.failed} documents have no questions: `select path, error from v_pending"
            " where what = 'hype'` says why",
            err=True,
        )
    if report.embedding_error:
        click.echo(f"Note: the questions have no vectors yet: {report.embedding_error}", err=True)


@contextmanager
def progress_bar(what: str) -> Iterator[Progress | None]:
    """A progress bar on a terminal once the work has taken a second; nothing elsewhere."""
    if not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        ProgressColumn,
        Task,
        TextColumn,
        TimeRemainingColumn,
    )  # fmt: skip
    from rich.progress import Progress as Bar
    from rich.text import Text

    class Rate(ProgressColumn):
        def render(self, task: Task) -> Text:
            return Text(f"{task.speed:.1f}/s" if task.speed else "")

    bar = Bar(
        TextColumn(what), BarColumn(), MofNCompleteColumn(), Rate(), TimeRemainingColumn(),
        console=Console(stderr=True), transient=True,
    )  # fmt: skip
    begun = time.monotonic()
    task = bar.add_task(what)

    def show(done: int, of: int) -> None:
        if time.monotonic() - begun > 1 and done < of:
            bar.start()
        bar.update(task, completed=done, total=of)

    try:
        yield show
    finally:
        bar.stop()
