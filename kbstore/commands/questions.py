"""The questions that notes answer: hype, and questions ls, add, rm, veto."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import click

from ..errors import ModelError
from ..hype import Estimate
from ..questions import PARALLEL
from ..store import Store
from ..terminal import print_json, progress_bar, tell_questioned
from .base import as_json, database, existing, reader

ID = click.IntRange(1, 2**63 - 1)  # as SQLite counts


@click.command()
@click.option("--model", help="The LLM, as litellm names it; else KBSTORE_HYPE_MODEL, the setting.")
@click.option("--limit", type=click.IntRange(min=1), help="At most so many documents.")
@click.option(
    "--parallel",
    type=click.IntRange(1, 64),
    default=PARALLEL,
    show_default=True,
    help="Calls at once.",
)
@click.option("--again", is_flag=True, help="Also where another LLM wrote the questions.")
@click.option("--dry-run", is_flag=True, help="Say what it would cost; call nothing.")
@as_json
@database
def hype(
    db: Path,
    model: str | None,
    limit: int | None,
    parallel: int,
    again: bool,
    dry_run: bool,
    as_json: bool,
) -> None:
    """Have an LLM write the questions that notes answer, so that they are found by them.

    Newest notes first, committed as they come: it can be stopped and run again at any time. The
    first LLM is remembered (setting hype_model), and asked about every note that is stored later.
    """
    with existing(db, hype=model or "auto", read_only=dry_run) as store:
        if dry_run:
            _tell_estimate(store.questions.estimate(limit=limit, again=again), as_json)
            return
        try:
            with progress_bar("asking") as progress:
                report = store.hype(limit=limit, parallel=parallel, again=again, progress=progress)
        except KeyboardInterrupt:
            click.echo("Stopped; what was answered is stored. Run it again to go on.", err=True)
            raise SystemExit(130) from None
    if as_json:
        print_json(report.as_dict())
    else:
        click.echo(
            f"{report.documents} documents asked about, {report.reused} reused,"
            f" {report.questions} questions, {report.failed} failed, {report.pending} pending"
        )
    tell_questioned(report)
    if report.error:
        raise ModelError(report.error)


def _tell_estimate(estimate: Estimate, as_json: bool) -> None:
    if as_json:
        print_json({name: getattr(estimate, name) for name in Estimate.__slots__})
        return
    if estimate.cost is None:
        cost = "cost not known (the model is not in litellm's price table)"
    else:
        cost = "less than $0.01" if 0 < estimate.cost < 0.01 else f"about ${estimate.cost:.2f}"
    click.echo(
        f"{estimate.model}: {estimate.calls} calls, about {estimate.prompt_tokens:,} tokens to read"
        f" and {estimate.completion_tokens:,} to write, {cost}"
    )


@click.group()
def questions() -> None:
    """List, add, delete and veto the questions that notes answer."""


@questions.command()
@click.argument("path", required=False)
@as_json
@database
def ls(db: Path, path: str | None, as_json: bool) -> None:
    """List the questions, of PATH or of all notes."""
    with reader(db) as store:
        if path is not None:
            path = store.get(path).path
        found = store.questions.list(path)
    if as_json:
        print_json([question.as_dict() for question in found])
        return
    before = None
    for question in found:
        if question.path != before:
            click.echo(click.style(question.path, bold=True))
            before = question.path
        marks: list[str] = [] if question.state == "searched" else [question.state]
        marks += ["yours"] if question.origin == "user" else []
        said = f"  ({', '.join(marks)})" if marks else ""
        click.echo(f"{question.id:>5}  {question.text}{said}")


@questions.command()
@click.argument("path")
@click.argument("words", nargs=-1, required=True, metavar="QUESTION...")
@database
def add(db: Path, path: str, words: tuple[str, ...]) -> None:
    """Add a question that the note PATH answers. The LLM never replaces it."""
    with existing(db) as store:
        question = store.questions.add(path, " ".join(words))
    click.echo(f"{question.id}  {question.text}")


@questions.command()
@click.argument("ids", nargs=-1, required=True, type=ID, metavar="ID...")
@database
def rm(db: Path, ids: tuple[int, ...]) -> None:
    """Delete questions. All or none. (A new text of the note may bring a deleted one back; a vetoed
    one stays away.)"""
    _change(db, ids, "deleted", lambda store: store.questions.remove(ids))


@questions.command()
@click.argument("ids", nargs=-1, required=True, type=ID, metavar="ID...")
@click.option("--undo", is_flag=True, help="Take the veto back.")
@database
def veto(db: Path, ids: tuple[int, ...], undo: bool) -> None:
    """Silence questions: not searched, never written again for their note. All or none."""
    word = "not vetoed" if undo else "vetoed"
    _change(db, ids, word, lambda store: store.questions.veto(ids, not undo))


def _change(db: Path, ids: tuple[int, ...], word: str, change: Callable[[Store], None]) -> None:
    with existing(db) as store:
        texts = {question.id: question.text for question in store.questions.list(None)}
        change(store)
    for question_id in dict.fromkeys(ids):
        click.echo(f"{word} {question_id}  {texts[question_id]}")
