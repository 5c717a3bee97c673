"""The command line: ``kbstore`` and ``python -m kbstore``.

Data goes to standard output, words about it to standard error. Exit codes: 0 done (also when
nothing was found), 1 error, 2 usage, 3 no such document or folder.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar, cast

import click

from . import __version__, frontmatter, mirror, queries
from .connection import vec0_path
from .demo import run_demo
from .document import check_note, check_path
from .errors import EmptyContentError, InputError, KBError, ModelError, NotFoundError
from .schema import expand_user
from .search import RETRIEVERS, TYPES
from .store import Store
from .terminal import print_hit, print_json, progress_bar, tell_embedded

DEFAULT_DATABASE = "~/.picobot/data/kb.sqlite3"

F = TypeVar("F", bound=Callable[..., Any])


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


@main.command()
@database
def init(db: Path) -> None:
    """Make an empty knowledge base."""
    existed = db.exists()
    with Store(db, embedder=None) as store:
        click.echo(f"{store.connection.filename}{' (exists already)' if existed else ''}")


@main.command()
@click.argument("folder", type=click.Path(path_type=Path))
@click.option("--force", is_flag=True, help="Go on though more than half of the files are gone.")
@click.option("--no-embed", is_flag=True, help="Leave the vectors to `kbstore embed`.")
@as_json
@database
def sync(db: Path, folder: Path, force: bool, no_embed: bool, as_json: bool) -> None:
    """Read a picobot workspace, or any folder of markdown, and follow its changes."""
    if not db.exists() and not expand_user(folder).is_dir():
        raise NotFoundError(f"there is no folder {folder}")
    with Store(db) as store, progress_bar("embedding") as progress:
        report = mirror.sync(store, folder, force=force, embed=not no_embed, progress=progress)
    if as_json:
        print_json(report.as_dict())
    else:
        click.echo(
            f"{len(report.created)} new, {len(report.updated)} changed, {len(report.moved)} moved,"
            f" {len(report.deleted)} deleted, {report.unchanged} unchanged"
        )
    for problem in report.problems:
        click.echo(f"Warning: {problem.path}: {problem.message}", err=True)
    if report.embedded:
        tell_embedded(report.embedded)


@main.command()
@click.argument("path")
@click.argument("file", type=click.File("rb"), default="-")
@click.option(
    "--title", help="Else the header's, the stored one, the first heading, the file's name."
)
@click.option(
    "--tag", "tags", multiple=True, help="Repeatable; else the header's, or the stored ones."
)
@click.option("--empty", is_flag=True, help="Allow an empty text to replace one that is not.")
@as_json
@database
def add(
    db: Path,
    path: str,
    file: Any,
    title: str | None,
    tags: tuple[str, ...],
    empty: bool,
    as_json: bool,
) -> None:
    """Store markdown from FILE, or from standard input, as the document PATH."""
    path = check_path(path)
    try:
        note = frontmatter.parse(file.read().decode(), path)
    except UnicodeDecodeError as error:
        raise InputError(f"{path}: the text is not UTF-8 (byte {error.start})") from None
    for message in note.problems:
        click.echo(f"Warning: {path}: {message}", err=True)
    has_header = note.frontmatter is not None
    check_note(path, note.body, title=title, tags=tags)
    if not note.body.strip() and not empty and not db.exists():
        raise EmptyContentError(f"{path}: the text is empty; nothing is stored")
    with Store(db) as store:
        # Without a header the title, tags and description of a stored note stay.
        reads = has_header or path not in store
        report = store.put(
            path,
            note.body,
            title=note.title if title is None and reads else title,
            tags=tags or (note.tags if reads else None),
            description=note.description if reads else None,
            created=note.created,
            updated=note.updated,
            frontmatter=note.frontmatter or ("" if reads else None),
            allow_empty=empty,
        )
    if as_json:
        print_json(report.as_dict())
    else:
        click.echo(f"{report.action} {report.path}")
    if report.note:
        click.echo(f"Note: no vectors yet: {report.note}", err=True)


@main.command()
@click.argument("path")
@as_json
@database
def get(db: Path, path: str, as_json: bool) -> None:
    """Print a document as markdown with its header."""
    with _reader(db) as store:
        document = store.get(path)
    if as_json:
        print_json(document.as_dict())
        return
    text = frontmatter.render(
        document.body,
        document.frontmatter,
        path=document.path,
        title=document.title,
        tags=document.tags,
        description=document.description,
        created=document.created,
        updated=document.updated,
    )
    # To the letter, also without a line end, unless it is a person who looks.
    click.echo(text.encode(), nl=sys.stdout.isatty() and not text.endswith("\n"))


@main.command()
@click.argument("topic", required=False)
@click.option("--type", type=click.Choice(TYPES), help="Only this type.")
@click.option("--tag", help="Only documents with this tag.")
@as_json
@database
def ls(db: Path, topic: str | None, type: str | None, tag: str | None, as_json: bool) -> None:
    """List the documents, or those below TOPIC."""
    with _reader(db) as store:
        documents = store.list(topic=topic, type=type, tag=tag)
    if as_json:
        print_json([document.as_dict() for document in documents])
        return
    width = max((len(document.path) for document in documents), default=0)
    for document in documents:
        title = " ".join(document.title.split())
        click.echo(f"{document.path:{width}}  {(document.updated or '')[:10]:10}  {title}")


@main.command()
@click.argument("paths", nargs=-1, required=True, metavar="PATH...")
@database
def rm(db: Path, paths: tuple[str, ...]) -> None:
    """Delete documents; their text stays in the history. All or none."""
    paths = tuple(dict.fromkeys(paths))
    with _existing(db) as store, store.batch():
        for path in paths:
            store.delete(path)
    for path in paths:
        click.echo(f"deleted {path}")


@main.command()
@click.argument("old")
@click.argument("new")
@database
def mv(db: Path, old: str, new: str) -> None:
    """Give a document another path; its vectors stay."""
    with _existing(db) as store:
        store.move(old, new)
    click.echo(f"moved {old} to {new}")


@main.command()
@click.argument("words", nargs=-1, required=True, metavar="QUERY...")
@click.option("--limit", "-n", default=10, show_default=True, help="How many hits.")
@click.option("--topic", help="Only documents below this path: projects, projects/atlas.")
@click.option("--type", type=click.Choice(TYPES), help="Only this type.")
@click.option("--tag", help="Only documents with this tag.")
@click.option("--since", metavar="DATE", help="Updated on this day or later.")
@click.option("--until", metavar="DATE", help="Updated on this day or earlier.")
@click.option("--now", metavar="DATE", help="Count ages from this moment.")
@click.option(
    "--retriever",
    "retrievers",
    type=click.Choice(RETRIEVERS),
    multiple=True,
    help="Only this one; repeatable.",
)
@click.option("--explain", is_flag=True, help="Show how each score came about.")
@as_json
@database
def search(db: Path, words: tuple[str, ...], explain: bool, as_json: bool, **options: Any) -> None:
    """Find documents by frontmatter, words and meaning.

    "two words" in quotes is a phrase, retr* a prefix. Write -- before words that begin with a dash.
    """
    query = " ".join(words)
    if not query.strip():
        raise click.UsageError("the query is empty")
    options["retrievers"] = options["retrievers"] or None
    with _reader(db) as store:
        result = store.search(query, **options)
    if as_json:
        print_json(result.as_dict())
    else:
        for rank, hit in enumerate(result.hits, 1):
            print_hit(rank, hit, explain)
        if not result.hits:
            click.echo("No results.", err=True)
        if explain and result.model:
            click.echo(f"Vectors by {result.model}.", err=True)
    for sentence in result.degraded:
        click.echo(f"Note: {sentence}", err=True)


@main.command()
@click.option("--limit", type=click.IntRange(min=1), help="At most so many documents.")
@as_json
@database
def embed(db: Path, limit: int | None, as_json: bool) -> None:
    """Make the vectors that are missing; with another model, make all of them anew."""
    with _existing(db) as store, progress_bar("embedding") as progress:
        report = store.embed(limit=limit, progress=progress)
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


@main.command()
@as_json
@database
def status(db: Path, as_json: bool) -> None:
    """Say what is in the file, what is pending, and which model serves."""
    with _reader(db) as store:
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


@main.command()
def demo() -> None:
    """Search a sample base of 23 notes and show how each result came about."""
    run_demo(click.echo)


@main.command()
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


def _existing(db: Path) -> Store:
    """A store of a file that must be there."""
    if not db.exists():
        raise NotFoundError(
            f"there is no knowledge base at {db}; `kbstore init` or `kbstore sync DIR` makes one"
        )
    return Store(db)


def _reader(db: Path) -> Store:
    return Store(db, read_only=True)
