"""Markdown with a YAML header: read it without ever failing, write it back as it was.

The header is kept verbatim. It is parsed only to read from it, with PyYAML's BaseLoader, which
leaves every scalar the text that was written: 2024, true, 007 and 2026-02-30 are texts.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import yaml

from .document import MAX_TAG, MAX_TAGS, MAX_TITLE, date_in_path, parse_date, title_from_path

MAX_HEADER = 64 * 1024  # characters

_OPENING = re.compile(r"---[ \t]*\r?\n")
_CLOSING = re.compile(r"^(?:---|\.\.\.)[ \t]*(?:\r?\n|\Z)", re.MULTILINE)
_KEY = re.compile(r"^[ \t]*([A-Za-z_][\w-]*)[ \t]*:(?:[ \t]+(.*?))?[ \t]*\r?$", re.MULTILINE)
_HEADING = re.compile(r"^#[ \t]+(.+?)[ \t#]*$", re.MULTILINE)
_LOADER = getattr(yaml, "CBaseLoader", yaml.BaseLoader)


@dataclass(frozen=True, slots=True)
class Note:
    """A markdown file as read. ``problems`` are sentences about what could not be read as meant."""

    title: str
    tags: tuple[str, ...]
    description: str
    created: str | None
    updated: str | None
    body: str
    frontmatter: str | None
    problems: tuple[str, ...] = ()


def parse(text: str, path: str) -> Note:
    """Read a markdown file that will be the document at ``path``.

    title: ``title``, else ``name``, else the first heading, else the file's name.
    updated: ``updated``, ``modified`` or ``date``; for a journal else the day in the file's name.
    Whatever is wrong with the header, the text is kept and the problem is told.
    """
    problems: list[str] = []
    header, body = split(text.removeprefix("\ufeff"))
    fields: dict[str, Any] = {}
    if header is not None:
        loaded = _load(header, problems)
        if loaded is None:  # a text that begins with a rule
            header, body = None, text.removeprefix("\ufeff")
        else:
            fields = loaded
    title = _scalar(fields, "title", problems) or _scalar(fields, "name", problems)
    if not title:
        first = _HEADING.search(body[:10_000])
        title = first[1].strip() if first else title_from_path(path)
    if len(title) > MAX_TITLE:
        problems.append(f"the title has {len(title)} characters; its first {MAX_TITLE} are kept")
        title = title[:MAX_TITLE]
    created = _date(fields, ("created",), problems)
    updated = _date(fields, ("updated", "modified", "date"), problems)
    if path.startswith("journal/"):
        updated = updated or created or date_in_path(path)
    return Note(
        title=title.strip() or title_from_path(path),
        tags=_tags(fields.get("tags"), problems),
        description=_scalar(fields, "description", problems),
        created=created,
        updated=updated,
        body=body,
        frontmatter=header,
        problems=tuple(problems),
    )


def split(text: str) -> tuple[str | None, str]:
    """The header between the two fences, without them, or None; and the rest."""
    opening = _OPENING.match(text)
    if not opening:
        return None, text
    closing = _CLOSING.search(text, opening.end(), opening.end() + MAX_HEADER)
    if not closing:
        return None, text
    return text[opening.end() : closing.start()], text[closing.end() :]


def render(
    body: str,
    frontmatter: str | None,
    *,
    path: str,
    title: str,
    tags: Iterable[str],
    description: str = "",
    created: str | None = None,
    updated: str | None = None,
) -> str:
    """The markdown file of a document. Of a kept header only those lines change whose value has."""
    header = frontmatter or ""
    tags = tuple(tags)
    newline = "\r\n" if "\r\n" in header else "\n"
    seen = parse(f"---\n{header}---\n{body}", path)
    if seen.title != title:
        header = _replace(header, ("title", "name"), title, newline)
    if seen.tags != tags:
        header = _replace(header, ("tags",), list(tags), newline)
    if seen.description != description:
        header = _replace(header, ("description",), description, newline)
    if created and seen.created != created:
        header = _replace(header, ("created",), created, newline)
    if updated and seen.updated != updated:
        header = _replace(header, ("updated", "modified", "date"), updated, newline)
    if not header and frontmatter is None:
        return body
    return f"---{newline}{header}---{newline}{body}"


def _load(header: str, problems: list[str]) -> dict[str, Any] | None:
    """The header's fields; None where it is no header at all, but text between two rules."""
    try:
        loaded = yaml.load(header, Loader=_LOADER)  # BaseLoader makes texts, lists and dicts only
    except (yaml.YAMLError, RecursionError, ValueError) as error:
        simple = {key: (value or "").strip("\"'") for key, value in _KEY.findall(header)}
        if not simple:
            return None
        mark = getattr(error, "problem_mark", None)
        where = f" (line {mark.line + 2})" if mark else ""
        problems.append(
            f"the header is not valid YAML{where}: {_reason(error)}; read line by line instead"
        )
        return simple
    if loaded is None or loaded == "":
        return {}
    return loaded if isinstance(loaded, dict) else None


def _reason(error: Exception) -> str:
    return " ".join(str(getattr(error, "problem", None) or type(error).__name__).split())


def _scalar(fields: dict[str, Any], name: str, problems: list[str]) -> str:
    value = fields.get(name)
    if value is None or isinstance(value, str):
        return (value or "").replace("\0", "").strip()
    problems.append(f"{name} is a {_kind(value)}, not a text; left out")
    return ""


def _kind(value: object) -> str:
    return "list" if isinstance(value, list) else "mapping"


def _tags(value: object, problems: list[str]) -> tuple[str, ...]:
    if value is None:
        return ()
    if isinstance(value, str):
        value = value.strip().removeprefix("[").removesuffix("]").split(",")
    if not isinstance(value, list):
        problems.append("tags is a mapping, not a list; left out")
        return ()
    kept: dict[str, None] = {}
    for tag in value:
        if not isinstance(tag, str):
            problems.append(f"a tag is a {_kind(tag)}, not a text; left out")
        elif len(tag) > MAX_TAG:
            problems.append(f"tag {tag[:40]!r}… is longer than {MAX_TAG} characters; left out")
        elif tag.strip(" \t\n\"'"):
            kept[tag.strip(" \t\n\"'")] = None
        if len(kept) == MAX_TAGS:
            problems.append(f"there are more than {MAX_TAGS} tags; the first {MAX_TAGS} are kept")
            break
    return tuple(kept)


def _date(fields: dict[str, Any], names: tuple[str, ...], problems: list[str]) -> str | None:
    for name in names:
        value = fields.get(name)
        if isinstance(value, str) and value.strip():
            date = parse_date(value)
            if date:
                return date
            problems.append(
                f"{name} is {value.strip()[:40]!r}, not a date such as 2026-12-01; left out"
            )
        elif value:
            problems.append(f"{name} is a {_kind(value)}, not a date; left out")
    return None


def _replace(header: str, names: tuple[str, ...], value: str | list[str], newline: str) -> str:
    """Give the first of the keys that is there another value, else add a line for the first."""
    text = (
        yaml.safe_dump(value, allow_unicode=True, default_flow_style=True, width=float("inf"))
        .removesuffix("...\n")
        .strip()
    )
    for name in names:
        # The key's line and what belongs to it: indented lines, list items, blank lines between.
        found = re.search(
            rf"^{name}[ \t]*:.*(?:\r?\n(?:[ \t]+\S.*|-(?:[ \t].*)?|[ \t]*(?=\r?\n[ \t])))*",
            header,
            re.MULTILINE,
        )
        if found:
            return f"{header[: found.start()]}{name}: {text}{header[found.end() :]}"
    if header and not header.endswith("\n"):
        header += newline
    return f"{header}{names[0]}: {text}{newline}"
