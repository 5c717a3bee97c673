"""Nothing is lost: check, backup, restore, compact, history, diff."""

from __future__ import annotations

import re
from pathlib import Path

import click

from .. import backup as copies
from .. import check as damage
from .. import history as past
from ..errors import DatabaseError, InputError, KBError, NotADatabaseError, NotFoundError
from ..schema import expand_user
from ..store import Store
from ..terminal import print_json, progress_bar
from .base import as_json, database, existing, reader


@click.command()
@click.option("--fix", is_flag=True, help="Mend what can be derived again; call no model.")
@click.option("--all", "everything", is_flag=True, help="Read all of a file of over a gigabyte.")
@as_json
@database
def check(db: Path, fix: bool, everything: bool, as_json: bool) -> None:
    """Look for damage: pages, structure, words, vectors, texts, what belongs to nothing.

    Ends with 1 where something is damaged, and with --fix where something could not be mended.
    """
    with _opened(db) as store, progress_bar("checking") as progress:
        report = damage.check(store, fix=fix, everything=everything, progress=progress)
    if as_json:
        print_json(report.as_dict())
    else:
        for found in report.findings:
            click.echo(f"{found.kind:10} {found.what}: {found.finding}"
                       + (f" -> {found.done}" if found.done else ""))  # fmt: skip
        click.echo(
            f"{report.documents} documents and {report.vectors} vectors looked at,"
            f" {len(report.findings)} findings"
        )
    if not report.complete:
        click.echo("Note: only the first gigabyte was read; --all reads everything", err=True)
    left = [found for found in report.findings if not found.done]
    if left:
        hint = (
            "`kbstore restore FILE` takes a backup, and so does `kbstore restore PATH@VERSION`"
            " an older text"
            if fix
            else "`kbstore check --fix` mends what it can"
        )
        raise DatabaseError(f"{len(left)} findings are left; {hint}")


@click.command()
@click.argument("target", type=click.Path(path_type=Path), metavar="FILE")
@click.option("--force", is_flag=True, help="Replace FILE if it is there.")
@click.option("--keep", type=click.IntRange(min=1), metavar="N",
              help="FILE is a folder: name the copy by the time, keep the N newest.")  # fmt: skip
@as_json
@database
def backup(db: Path, target: Path, force: bool, keep: int | None, as_json: bool) -> None:
    """Write a good copy of the base to FILE, while it is in use."""
    deleted: list[Path] = []
    with reader(db) as store:
        if keep is None:
            made = copies.backup(store, target, force=force)
        else:
            made, deleted = copies.rotate(store, target, keep)
    if as_json:
        print_json({"file": str(made), "deleted": [str(file) for file in deleted]})
    else:
        click.echo(str(made))
        for file in deleted:
            click.echo(f"deleted {file}", err=True)


@click.command()
@click.argument("target", metavar="FILE|PATH@VERSION")
@as_json
@database
def restore(db: Path, target: str, as_json: bool) -> None:
    """Make the base what the backup FILE is, or one document what it was (PATH@VERSION, PATH@ for
    the latest older one). What is replaced is kept. Where there is no base yet, FILE makes one."""
    found = re.fullmatch(r"(.+)@(\d{0,18})", target)
    if found and not Path(target).exists():
        with existing(db) as store:
            report = past.undo(store, found[1], int(found[2]) if found[2] else None)
        if as_json:
            print_json(report.as_dict())
        else:
            click.echo(f"{report.action} {report.path}")
        return
    fresh = not db.exists()
    if fresh and not expand_user(target).is_file():
        raise NotFoundError(f"there is no file {target}")
    try:
        with _opened(db, make=fresh) as store:
            kept = copies.restore(store, target)
    except KBError:
        if fresh:
            db.unlink(missing_ok=True)
        raise
    if fresh:
        kept.unlink()  # nothing was there
    if as_json:
        print_json({"restored": target, "before": None if fresh else str(kept)})
    else:
        before = "" if fresh else f"; what was there before is in {kept}"
        click.echo(f"restored {target}{before}")


def _opened(db: Path, make: bool = False) -> Store:
    """Raises DatabaseError, which says what to do about a file that is too damaged to be opened."""
    try:
        return Store(db) if make else existing(db)
    except DatabaseError as error:
        if type(error) in (DatabaseError, NotADatabaseError):
            hint = "if it was a base, move it away: `kbstore restore FILE` then takes a backup"
            raise DatabaseError(f"{error}; {hint}") from error
        raise


@click.command()
@as_json
@database
def compact(db: Path, as_json: bool) -> None:
    """Give unused space back, and drop versions beyond the limits of the history."""
    with existing(db) as store:
        before, after = copies.compact(store)
    if as_json:
        print_json({"before": before, "after": after})
    else:
        click.echo(f"{before:,} bytes -> {after:,} bytes")


@click.command()
@click.argument("path")
@as_json
@database
def history(db: Path, path: str, as_json: bool) -> None:
    """List the older versions of a document, also of a deleted one, the latest first."""
    with reader(db) as store:
        versions = past.history(store, path)
    if as_json:
        print_json([version.as_dict() for version in versions])
        return
    for version in versions:
        title = " ".join(version.title.split())
        click.echo(
            f"{version.path}@{version.id}  {version.event:6}  {version.replaced[:19]}"
            f"  {len(version.body):>7,}  {title}"
        )


@click.command()
@click.argument("old", metavar="PATH[@VERSION]")
@click.argument("new", required=False, type=int, metavar="[VERSION]")
@database
def diff(db: Path, old: str, new: int | None) -> None:
    """Show what changed from an older version (the latest one) to now, or to another VERSION."""
    found = re.fullmatch(r"(.+)@(\d{1,18})", old)
    path, number = (found[1], int(found[2])) if found else (old, None)
    if new is not None and number is None:
        raise InputError("two versions are needed: PATH@VERSION VERSION")
    with reader(db) as store:
        click.echo(past.diff(store, path, number, new), nl=False)
