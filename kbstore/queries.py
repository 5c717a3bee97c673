"""Finds ``sql/`` and reads it: whole files, and the named statements of ``queries.sql``."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

_HERE = Path(__file__).resolve().parent
# In an installed package the folder lies inside it; in a checkout, beside it.
SQL_FOLDER = next(
    (folder for folder in (_HERE / "sql", _HERE.parent / "sql") if folder.is_dir()), _HERE / "sql"
)


@cache
def read(name: str) -> str:
    """The text of ``sql/<name>.sql``."""
    return (SQL_FOLDER / f"{name}.sql").read_text(encoding="utf-8")


@cache
def statement(name: str) -> str:
    """The same without its comments and indents: the driver keeps a statement prepared only up to
    16 KB, and preparing the search costs as much as running it."""
    lines = (line.split("--", 1)[0].strip() for line in read(name).splitlines())
    return "\n".join(line for line in lines if line)


@cache
def _named() -> dict[str, str]:
    pieces = re.split(r"^-- name: (\w+)$", read("queries"), flags=re.MULTILINE)
    return {name: text.strip() for name, text in zip(pieces[1::2], pieces[2::2], strict=True)}


def named(name: str) -> str:
    """The statement under ``-- name: <name>`` in ``sql/queries.sql``."""
    return _named()[name]


@cache
def migration(number: int) -> str:
    """The text of ``sql/migrations/<number>_….sql``."""
    (file,) = (SQL_FOLDER / "migrations").glob(f"{number:04}_*.sql")
    return file.read_text(encoding="utf-8")
