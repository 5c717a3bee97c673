"""Folders of markdown: sync, watch, export."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import click

from .. import config, git, mirror
from ..errors import GitError, KBError, NotFoundError
from ..export import export as export_notes
from ..report import SyncReport
from ..schema import expand_user
from ..store import Store
from ..terminal import print_json, progress_bar, tell_embedded, tell_questioned
from .base import as_json, database, reader


def _folder(folder: Path | None) -> Path:
    return expand_user(folder if folder is not None else config.HOME / "workspace").absolute()


@click.command()
@click.argument("folder", required=False, type=click.Path(path_type=Path), metavar="[DIR]")
@click.option("--remote", metavar="URL", help="Also commit the notes' folder, merge and push it.")
@click.option("--force", is_flag=True, help="Go on though more than half of the files are gone.")
@click.option("--dry-run", is_flag=True, help="With --remote: say what git would do; do nothing.")
@click.option("--no-write", is_flag=True, help="Leave the folder as it is; only read it.")
@click.option("--no-embed", is_flag=True, help="Leave vectors and questions to embed and hype.")
@click.option("--no-hype", is_flag=True, help="Leave the questions to `kbstore hype`.")
@as_json
@database
def sync(
    db: Path,
    folder: Path | None,
    remote: str | None,
    force: bool,
    dry_run: bool,
    no_write: bool,
    no_embed: bool,
    no_hype: bool,
    as_json: bool,
) -> None:
    """Make a picobot workspace, or any folder of markdown, and the base equal, in both directions.

    DIR is ~/.picobot/workspace where it is not given; its remote is then knowledge.remote of
    ~/.picobot/config.json, if that is set.
    """
    place = _folder(folder)
    if not place.is_dir() and not db.exists():
        raise NotFoundError(f"there is no folder {folder or place}")
    remote = remote or (config.load().remote if folder is None else None)
    notes = place / "knowledge" if (place / "knowledge").is_dir() else place
    options: dict[str, Any] = {"force": force, "embed": not no_embed, "hype": not no_hype}
    options["write"] = not no_write
    if dry_run:
        _tell_git(git.sync(notes, remote, dry_run=True), as_json)
        return
    carried = None
    with Store(db) as store, progress_bar("reading and embedding") as progress:
        report = mirror.sync(store, place, progress=progress, **options)
        if remote:
            carried = git.sync(notes, remote)
            second = mirror.sync(store, place, progress=progress, **options)
    if as_json:
        both = {"git": carried.as_dict(), "after": second.as_dict()} if carried else {}
        print_json(report.as_dict() | both)
    else:
        click.echo(_summary(report))
        if carried:
            _tell_git(carried, False)
            click.echo(_summary(second))
    for one in (report, second) if carried else (report,):
        _tell_problems(one)
    if carried and carried.error:
        raise GitError(carried.error)


def _summary(report: SyncReport) -> str:
    out = len(report.written) + len(report.removed)
    return (
        f"{len(report.created)} new, {len(report.updated)} changed, {len(report.moved)} moved,"
        f" {len(report.deleted)} deleted, {report.unchanged} unchanged"
        + (f"; {out} files written" if out else "")
    )


def _tell_problems(report: SyncReport) -> None:
    for conflict in report.conflicts:
        click.echo(f"Conflict: {conflict.path}: {conflict.message}", err=True)
    for problem in report.problems:
        click.echo(f"Warning: {problem.path}: {problem.message}", err=True)
    if report.embedded:
        tell_embedded(report.embedded)
    if report.questioned:
        tell_questioned(report.questioned)
        if report.questioned.error:
            click.echo(f"Note: {report.questioned.error}", err=True)


def _tell_git(report: git.GitReport, as_json: bool) -> None:
    if as_json:
        print_json(report.as_dict())
        return
    would = "would be " if report.dry_run else ""
    click.echo(
        f"git: {len(report.committed)} {would}committed, {len(report.pulled)} pulled,"
        f" {'pushed' if report.pushed else 'not pushed'}"
    )
    for path, what in report.conflicts:
        click.echo(f"Conflict: {path}: {what}", err=True)
    for note in report.notes:
        click.echo(f"Note: {note}", err=True)


@click.command()
@click.argument("folder", required=False, type=click.Path(path_type=Path), metavar="[DIR]")
@click.option("--interval", type=click.FloatRange(min=0.1), default=2.0, show_default=True,
              help="Seconds between two looks.")  # fmt: skip
@click.option("--times", type=click.IntRange(min=1), help="Look so many times, then end.")
@as_json
@database
def watch(db: Path, folder: Path | None, interval: float, times: int | None, as_json: bool) -> None:
    """Keep a folder and the base equal until it is stopped with Ctrl-C."""
    place = _folder(folder)
    if not place.is_dir():
        raise NotFoundError(f"there is no folder {folder or place}")
    before = ""
    with Store(db) as store:
        try:
            while True:
                try:
                    report = mirror.sync(store, place)
                except KBError as error:
                    if str(error) != before:
                        click.echo(f"Error: {error}", err=True)
                    before = str(error)
                else:
                    before = ""
                    _tell_changes(report, as_json)
                if times is not None:
                    times -= 1
                    if not times:
                        return
                time.sleep(interval)
        except KeyboardInterrupt:
            return


def _tell_changes(report: SyncReport, as_json: bool) -> None:
    changes = (
        report.created, report.updated, report.moved, report.deleted, report.written,
        report.removed, report.conflicts, report.problems,
    )  # fmt: skip
    if not any(changes):
        return
    if as_json:
        print_json(report.as_dict())
    else:
        click.echo(_summary(report))
    _tell_problems(report)


@click.command()
@click.argument("folder", type=click.Path(path_type=Path), metavar="DIR")
@click.option("--force", is_flag=True, help="Overwrite files that say something else.")
@as_json
@database
def export(db: Path, folder: Path, force: bool, as_json: bool) -> None:
    """Write every document as a markdown file below DIR."""
    with reader(db) as store:
        written, same = export_notes(store, folder, force=force)
    if as_json:
        print_json({"folder": str(folder), "written": written, "unchanged": same})
    else:
        click.echo(f"{written} files written, {same} unchanged")
