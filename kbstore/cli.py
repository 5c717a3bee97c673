"""The command line: ``kbstore`` and ``python -m kbstore``.

Data goes to standard output, words about it to standard error. Exit codes: 0 done (also when
nothing was found), 1 error, 2 usage, 3 no such document or folder.
"""

from __future__ import annotations

from typing import Any

import click

from . import __version__
from .commands import files, folders, model, notes, questions, ranking, safety, vectors
from .commands.base import DEFAULT_DATABASE
from .errors import KBError


class _Group(click.Group):
    """Ends with one line and the error's own exit code, never with a traceback."""

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except KBError as error:
            click.echo(f"Error: {error}", err=True)
            ctx.exit(error.exit_code)
        except OSError as error:
            if isinstance(error, BrokenPipeError):
                raise  # click ends quietly when nobody reads on
            what = f"{error.strerror}: {str(error.filename)[:200]}" if error.filename else error
            click.echo(f"Error: {what}", err=True)
            ctx.exit(1)


@click.group(cls=_Group, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="kbstore")
@click.option(
    "--db",
    envvar="KBSTORE_DB",
    default=DEFAULT_DATABASE,
    show_default=True,
    show_envvar=True,
    metavar="PATH",
    help="The database file; each command takes it, too.",
)
@click.pass_context
def main(ctx: click.Context, db: str) -> None:
    """An agent's knowledge base in one SQLite file: markdown notes in, the right note out."""
    ctx.obj = db


for command in (
    files.init, folders.sync, folders.watch, folders.export,
    notes.store, notes.append, notes.add, notes.get, notes.ls, notes.rm, notes.mv, notes.search,
    vectors.embed, questions.hype, questions.questions, model.model,
    ranking.evaluate, ranking.tune, safety.history, safety.diff, safety.check, safety.backup,
    safety.restore, safety.compact,
    files.status, files.demo, files.sql,
):  # fmt: skip
    main.add_command(command)
