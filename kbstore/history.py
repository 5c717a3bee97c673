"""Older versions of documents: listing, comparing, taking one back, searching as of a day.

The versions themselves are kept by triggers, whoever makes the change.
"""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, fields
from datetime import date
from typing import Any

from . import search
from .connection import execute
from .document import check_path, parse_date
from .errors import ConflictError, InputError, NotFoundError
from .report import PutReport
from .store import Store

# A document that was deleted and taken back is another row, and says the same of its creation
_ONE_A_PATH = """
delete from temp.document where id not in (select min(id) from temp.document group by path)"""

# Scripts written without spaces, split as by the trigger document_segmenting_insert
_SPACELESS = re.compile("([฀-໿က-႟ក-៿぀-ヿㄅ-ㄯ㐀-鿿가-힣豈-﫿ｦ-ﾟ𠀀-𿿽])")
_TEXTS = "select id, title, tags, path, description, body from temp.document"
_SPLIT = """
update temp.document_fts set title = ?, tags = ?, path = ?, description = ?, body = ?
where rowid = ?"""


@dataclass(frozen=True, slots=True)
class Version:
    """What a document was until ``replaced`` (ISO 8601, UTC), when it was updated, moved or
    deleted (``event``). ``id`` names it: PATH@ID."""

    id: int
    path: str
    event: str
    replaced: str
    title: str
    tags: tuple[str, ...]
    description: str
    created: str | None
    updated: str | None
    frontmatter: str | None
    body: str

    @classmethod
    def of_row(cls, row: tuple[Any, ...]) -> Version:
        values = dict(zip((field.name for field in fields(cls)), row, strict=True))
        return cls(**values | {"tags": tuple(json.loads(values["tags"]))})

    def as_dict(self) -> dict[str, Any]:
        return asdict(self) | {"tags": list(self.tags)}


def history(store: Store, path: str) -> tuple[Version, ...]:
    """All versions of the document that is, or was last, at ``path``, the latest first; also those
    from before it was moved there.

    Raises NotFoundError where neither a document nor a version has this path.
    """
    path = check_path(path)
    rows = store.session.run("versions", path=path)
    if not rows and path not in store:
        raise NotFoundError(f"there is no document {path}, and there never was one")
    return tuple(Version.of_row(row) for row in rows)


def version(store: Store, path: str, number: int) -> Version:
    """Raises NotFoundError."""
    for found in history(store, path):
        if found.id == number:
            return found
    raise NotFoundError(f"{path} has no version {number}; `kbstore history {path}` lists them")


def diff(store: Store, path: str, old: int | None = None, new: int | None = None) -> str:
    """The change from version ``old`` (None: the latest one) to ``new`` (None: the document as it
    is) as a unified diff; "" where the text is the same. Raises NotFoundError."""
    versions = history(store, path)
    if old is None:
        if not versions:
            return ""
        old = versions[0].id
    before = version(store, path, old)
    if new is not None:
        after = version(store, path, new)
        name, lines = f"{after.path}@{after.id}", _lines(after)
    elif path in store:
        name, lines = path, _lines(store.get(path))
    else:
        name, lines = f"{path} (deleted)", []
    was = f"{before.path}@{before.id}"
    changes = difflib.unified_diff(_lines(before), lines, was, name, lineterm="")
    return "".join(f"{line}\n" for line in changes)


def _lines(text: Any) -> list[str]:
    """A text that ends with a line end has an empty last line, so a changed end is seen, too."""
    head = [f"title: {text.title}"]
    head += [f"tags: {', '.join(text.tags)}"] if text.tags else []
    head += [f"description: {text.description}"] if text.description else []
    return "\n".join([*head, "", text.body]).split("\n")


def undo(store: Store, path: str, number: int | None = None) -> PutReport:
    """Make a document what it was in version ``number`` (None: the latest one that is not just
    another path), under ``path``. What it is now goes into the history, so this can be undone, too.

    Raises NotFoundError, ConflictError (there is nothing to go back to).
    """
    versions = history(store, path)
    if path in store:
        versions = tuple(found for found in versions if found.event != "move")
    if not versions and number is None:
        raise ConflictError(f"{path} has no older version")
    found = versions[0] if number is None else version(store, path, number)
    return store.put(
        path,
        found.body,
        title=found.title,
        tags=found.tags,
        description=found.description,
        created=found.created or "",
        updated=found.updated,
        frontmatter=found.frontmatter or "",
        allow_empty=True,
    )


def search_as_of(
    store: Store, query: str, moment: str | date, *, limit: int = 10, **filters: Any
) -> search.SearchResult:
    """Search by words in the documents as they were at the end of a day, or at a moment.

    The same statement on temporary tables: the documents of that time stand in for those of now. A
    document counts from its ``created`` date on. Raises InputError.
    """
    found = parse_date(moment)
    if found is None:
        raise InputError(f"as-of is {moment!r}, not a date such as 2026-12-01")
    at = f"{found.removesuffix('Z')}~"  # after every time of that day, or of that second
    filters.setdefault("now", found)
    bindings = search.parameters(query, limit=limit, **filters)
    with store.session.reading(), _standing_in(store, at):
        hits, _ = search.run(store.connection, bindings, vectors=False)
    note = f"searched by words only, in the documents as they were on {found}"
    return search.SearchResult(bindings["query"], hits, (note,), None)


@contextmanager
def _standing_in(store: Store, at: str) -> Iterator[None]:
    try:
        store.session.run("as_of_documents", at=at)
        execute(store.connection, _ONE_A_PATH).fetchall()
        store.session.run("as_of_words")
        for row in execute(store.connection, _TEXTS).fetchall():
            if any(_SPACELESS.search(str(text)) for text in row[1:]):
                split = [_SPACELESS.sub("\u200b\\1\u200b", str(text)) for text in row[1:]]
                execute(store.connection, _SPLIT, (*split, row[0]))
        yield
    finally:
        store.session.run("as_of_drop")
