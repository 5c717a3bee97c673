"""Single notes: add, store, append, get, ls, rm, mv, search."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from .. import frontmatter
from ..document import check_note, check_path
from ..errors import EmptyContentError, InputError
from ..history import search_as_of
from ..picobot import KnowledgeBase, note_path
from ..schema import expand_user
from ..search import RETRIEVERS, TYPES
from ..slug import note_paths, title_key
from ..store import Store
from ..terminal import print_hit, print_json
from .base import DEFAULT_DATABASE, as_json, database, existing, reader


@click.command()
@click.argument("path")
@click.argument("file", type=click.File("rb"), default="-")
@click.option(
    "--title", help="Else the header's, the stored one, the first heading, the file's name."
)
@click.option(
    "--tag", "tags", multiple=True, help="Repeatable; else the header's, or the stored ones."
)
@click.option("--empty", is_flag=True, help="Allow an empty text to replace one that is not.")
@click.option("--no-hype", is_flag=True, help="Ask no LLM for questions.")
@click.option("--defer", is_flag=True, help="Call no model: leave it to embed and hype.")
@as_json
@database
def add(
    db: Path,
    path: str,
    file: Any,
    title: str | None,
    tags: tuple[str, ...],
    empty: bool,
    no_hype: bool,
    defer: bool,
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
            hype=not no_hype,
            defer=defer,
        )
    if as_json:
        print_json(report.as_dict())
    else:
        click.echo(f"{report.action} {report.path}")
    if report.note:
        click.echo(f"Note: {report.note}", err=True)


def _titled(function: Callable[..., None]) -> click.Command:
    """The arguments and options that store and append share."""
    for decorate in (
        database,
        as_json,
        click.option("--defer", is_flag=True, help="Call no model: leave it to embed and hype."),
        click.option("--no-hype", is_flag=True, help="Ask no LLM for questions."),
        click.option("--tag", "tags", multiple=True, help="Repeatable."),
        click.argument("file", type=click.File("rb"), default="-"),
        click.argument("title"),
        click.argument("topic"),
    ):
        function = decorate(function)
    return click.command()(function)


@_titled
def store(db: Path, as_json: bool, **note: Any) -> None:
    """Store FILE, or standard input, as the note TITLE in TOPIC; its path is made of the two.

    The same topic and title replace the note; its old text stays in the history.
    """
    _store(db, "store", as_json, **note)


@_titled
def append(db: Path, as_json: bool, **note: Any) -> None:
    """Add FILE, or standard input, to the end of the note TITLE in TOPIC, or make the note."""
    _store(db, "append", as_json, **note)


def _store(
    db: Path, how: str, as_json: bool, topic: str, title: str, file: Any, tags: tuple[str, ...],
    no_hype: bool, defer: bool,
) -> None:  # fmt: skip
    try:
        text = file.read().decode()
    except UnicodeDecodeError as error:
        raise InputError(f"{topic}/{title}: not UTF-8 (byte {error.start})") from None
    options: dict[str, Any] = {"tags": tags or None, "hype": not no_hype, "defer": defer}
    if db == expand_user(DEFAULT_DATABASE):  # picobot's own: its folder follows
        with KnowledgeBase() as kb:
            report = getattr(kb, how)(topic, title, text, **options)
    else:
        note_paths(topic, title)  # before a file is made
        with Store(db) as base:
            put = base.put if how == "store" else base.append
            report = put(note_path(base, topic, title), text, title=title_key(title), **options)
    if as_json:
        print_json(report.as_dict())
    else:
        click.echo(f"{report.action} {report.path}")
    if report.note:
        click.echo(f"Note: {report.note}", err=True)


@click.command()
@click.argument("path")
@as_json
@database
def get(db: Path, path: str, as_json: bool) -> None:
    """Print a document as markdown with its header."""
    with reader(db) as store:
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


@click.command()
@click.argument("topic", required=False)
@click.option("--type", type=click.Choice(TYPES), help="Only this type.")
@click.option("--tag", help="Only documents with this tag.")
@as_json
@database
def ls(db: Path, topic: str | None, type: str | None, tag: str | None, as_json: bool) -> None:
    """List the documents, or those below TOPIC."""
    with reader(db) as store:
        documents = store.list(topic=topic, type=type, tag=tag)
    if as_json:
        print_json([document.as_dict() for document in documents])
        return
    width = max((len(document.path) for document in documents), default=0)
    for document in documents:
        title = " ".join(document.title.split())
        click.echo(f"{document.path:{width}}  {(document.updated or '')[:10]:10}  {title}")


@click.command()
@click.argument("paths", nargs=-1, required=True, metavar="PATH...")
@database
def rm(db: Path, paths: tuple[str, ...]) -> None:
    """Delete documents; their text stays in the history. All or none."""
    paths = tuple(dict.fromkeys(paths))
    with existing(db) as store, store.batch():
        for path in paths:
            store.delete(path)
    for path in paths:
        click.echo(f"deleted {path}")


@click.command()
@click.argument("old")
@click.argument("new")
@database
def mv(db: Path, old: str, new: str) -> None:
    """Give a document another path; its vectors stay."""
    with existing(db) as store:
        store.move(old, new)
    click.echo(f"moved {old} to {new}")


@click.command()
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
@click.option(
    "--mmr",
    is_flag=False,
    flag_value=0.5,
    type=click.FloatRange(0, 1),
    metavar="[0..1]",
    help="No note twice in other words: diversity by maximal marginal relevance.",
)
@click.option("--as-of", metavar="DATE", help="By words, in the documents as they were then.")
@click.option("--explain", is_flag=True, help="Show how each score came about.")
@as_json
@database
def search(
    db: Path,
    words: tuple[str, ...],
    as_of: str | None,
    explain: bool,
    as_json: bool,
    **options: Any,
) -> None:
    """Find documents by frontmatter, words and meaning.

    "two words" in quotes is a phrase, retr* a prefix. Write -- before words that begin with a dash.
    """
    query = " ".join(words)
    if not query.strip():
        raise click.UsageError("the query is empty")
    options["retrievers"] = options["retrievers"] or None
    with reader(db) as store:
        if as_of is None:
            result = store.search(query, **options)
        else:
            options["now"] = options["now"] or as_of
            if options.pop("mmr") is not None:
                raise click.UsageError("--mmr needs vectors; --as-of searches by words only")
            result = search_as_of(store, query, as_of, **options)
    if as_json:
        print_json(result.as_dict())
    else:
        for rank, hit in enumerate(result.hits, 1):
            print_hit(rank, hit, explain)
        if not result.hits:
            click.echo("No results.", err=True)
        for path in result.displaced if explain else ():
            click.echo(f"Not shown for its age alone: {path}", err=True)
        if explain and result.model:
            click.echo(f"Vectors by {result.model}.", err=True)
    for sentence in result.degraded:
        click.echo(f"Note: {sentence}", err=True)
