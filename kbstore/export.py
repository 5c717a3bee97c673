"""Writes documents as the markdown files that they are."""

from __future__ import annotations

import os

from . import frontmatter
from .document import Document
from .errors import ConflictError
from .folder import Folder
from .schema import expand_user
from .store import Store


def export(store: Store, folder: str | os.PathLike[str], *, force: bool = False) -> tuple[int, int]:
    """Write every document to ``folder``, under its path; (written, already there).

    Raises ConflictError, before anything is written, where a file is there that says something else
    (``force`` overwrites it), InputError (a link leads out of the folder), OSError.
    """
    root = expand_user(folder).absolute()
    root.mkdir(parents=True, exist_ok=True)
    where = Folder(root)
    todo: list[tuple[str, bytes, tuple[int, int] | None]] = []
    same = 0
    with store.session.snapshot():
        documents = [store.get(summary.path) for summary in store.list()]
    for document in documents:
        path, data = document.path, render(document)
        stamp = where.look(path)
        if stamp is not None and (root / path).read_bytes() == data:
            same += 1
        elif stamp is not None and not force:
            raise ConflictError(
                f"{root / path} is there and says something else; nothing was written"
                " (--force overwrites)"
            )
        else:
            todo.append((path, data, stamp))
    for path, data, stamp in todo:
        where.write(path, data, stamp)
    return len(todo), same


def render(document: Document, *, bom: bool = False) -> bytes:
    """The markdown file of a document. Of a kept header only those keys change whose value has."""
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
    return ("\ufeff" if bom else "").encode() + text.encode()
