"""Markdown with a YAML header: read it without ever failing, write it back as it was.

The header is kept verbatim. It is parsed only to read from it, with PyYAML's BaseLoader, which
leaves every scalar the text that was written: 2024, true, 007 and 2026-02-30 are texts.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import yaml

from .document import (
    MAX_TAG,
    MAX_TAGS,
    MAX_TITLE,
    clean,
    date_in_path,
    parse_date,
    title_from_path,
)

MAX_HEADER = 64 * 1024  # characters
_MAX_PROBLEMS = 20  # of one kind

_OPENING = re.compile(r"---[ \t]*\r?\n")
_CLOSING = re.compile(r"^(?:---|\.\.\.)[ \t]*(?:\r?\n|\Z)", re.MULTILINE)
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
        title = _first_heading(body) or title_from_path(path)
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
    """The markdown file of a document. Of a kept header only those keys change whose value has."""
    header = frontmatter or ""
    newline = "\r\n" if "\r\n" in header else "\n"
    if header and not header.endswith("\n"):
        header += newline
    tags = tuple(tags)
    wanted = (
        (("title", "name"), "title", title),
        (("tags",), "tags", tags),
        (("description",), "description", description),
        (("created",), "created", created),
        (("updated", "modified", "date"), "updated", updated),
    )
    for keys, field, value in wanted:
        seen = parse(f"---{newline}{header}---{newline}{body}", path)
        if value is not None and getattr(seen, field) != value:
            header = set_key(header, keys, value, newline)
    # Without a header the text itself must not look as if it had one.
    if not header and frontmatter is None and split(body) == (None, body) and body[:1] != "\ufeff":
        return body
    return f"---{newline}{header}---{newline}{body}"


def set_key(
    header: str, keys: tuple[str, ...], value: str | tuple[str, ...], newline: str = "\n"
) -> str:
    """Give the first of ``keys`` that the header has another value, else add the first of them.

    All else, comments and the order of keys too, stays as it is.
    """
    is_date = keys[0] in ("created", "updated")
    text = value if is_date and isinstance(value, str) else _yaml(value)
    try:
        root = yaml.compose(header, Loader=yaml.BaseLoader)
    except (yaml.YAMLError, RecursionError):
        return _set_line(header, keys, text, newline)
    if not isinstance(root, yaml.MappingNode):
        return f"{header}{keys[0]}: {text}{newline}"
    for key in keys:
        for key_node, value_node in reversed(root.value):  # of two alike, the last one counts
            if key_node.value == key:
                start, end = key_node.start_mark.index, _end(value_node)
                tail = newline if header[start:end].endswith("\n") else ""
                return f"{header[:start]}{key}: {text}{tail}{header[end:]}"
    if root.flow_style:
        brace = root.end_mark.index - 1
        comma = ", " if root.value else ""
        return f"{header[:brace].rstrip()}{comma}{keys[0]}: {text}{header[brace:]}"
    return f"{header}{keys[0]}: {text}{newline}"


def _end(node: yaml.Node) -> int:
    """Where a value ends; the end of a block collection, as PyYAML has it, is the next token."""
    if isinstance(node, yaml.CollectionNode) and not node.flow_style and node.value:
        last = node.value[-1]
        return _end(last[1] if isinstance(last, tuple) else last)
    return int(node.end_mark.index)


def _set_line(header: str, keys: tuple[str, ...], text: str, newline: str) -> str:
    """The same for a header that is not valid YAML and is read line by line."""
    for key in keys:
        found = re.search(rf"^[ \t]*{key}[ \t]*:.*(?:\n[ \t]+\S.*|\n-.*)*", header, re.MULTILINE)
        if found:
            tail = "\r" if found[0].endswith("\r") else ""
            return f"{header[: found.start()]}{key}: {text}{tail}{header[found.end() :]}"
    return f"{header}{keys[0]}: {text}{newline}"


def _yaml(value: str | tuple[str, ...]) -> str:
    """A value on one line: plain where every reader takes it for this very text, else quoted."""
    if isinstance(value, tuple):
        return f"[{', '.join(_yaml_text(item, '[{}]') for item in value)}]"
    return _yaml_text(value, "{}")


def _yaml_text(text: str, frame: str) -> str:
    try:
        loaded = yaml.safe_load(f"k: {frame.format(text)}")
    except (yaml.YAMLError, ValueError):
        loaded = None
    printable = text.isprintable()
    if loaded == {"k": [text] if frame == "[{}]" else text} and printable:
        return text
    if printable and "'" not in text:
        return f"'{text}'"
    quoted = json.dumps(text, ensure_ascii=False)
    return "".join(c if c.isprintable() else _escape(ord(c)) for c in quoted)


def _escape(number: int) -> str:
    return f"\\u{number:04x}" if number < 0x10000 else f"\\U{number:08x}"


def _load(header: str, problems: list[str]) -> dict[str, Any] | None:
    """The header's fields; None where it is no header at all, but text between two rules."""
    try:
        loaded = yaml.load(header, Loader=_LOADER)  # BaseLoader makes texts, lists and dicts only
    except (yaml.YAMLError, RecursionError, ValueError) as error:
        simple = _lines(header)
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


def _lines(header: str) -> dict[str, str]:
    """``key: value`` line by line, for a header that is not valid YAML."""
    found = {}
    for line in header.splitlines():
        key, colon, value = line.partition(":")
        key = key.strip()
        if colon and key[:1].isalpha() and key.replace("-", "_").isidentifier():
            found[key] = value.strip().strip("\"'")
    return found


def _first_heading(body: str) -> str:
    for line in body[:10_000].splitlines():
        if line.startswith(("# ", "#\t")):
            words = line[2:].split()
            if words and not words[-1].strip("#"):  # a closing row of them
                words.pop()
            if words:
                return " ".join(words)
    return ""


def _reason(error: Exception) -> str:
    return " ".join(str(getattr(error, "problem", None) or type(error).__name__).split())


def _scalar(fields: dict[str, Any], name: str, problems: list[str]) -> str:
    value = fields.get(name)
    if value is None or isinstance(value, str):
        return clean(value or "").strip()
    problems.append(f"{name} is a {_kind(value)}, not a text; left out")
    return ""


def _kind(value: object) -> str:
    return "list" if isinstance(value, list) else "mapping"


def _tags(value: object, problems: list[str]) -> tuple[str, ...]:
    if value is None:
        return ()
    if isinstance(value, str):
        pieces = value.strip().removeprefix("[").removesuffix("]").split(",")
        value = [piece.strip(" \t\n\"'") for piece in pieces]
    if not isinstance(value, list):
        problems.append("tags is a mapping, not a list; left out")
        return ()
    kept: dict[str, None] = {}
    left_out: dict[str, None] = {}
    for tag in value:
        text = clean(tag).strip() if isinstance(tag, str) else ""
        if not isinstance(tag, str):
            left_out[f"a tag is a {_kind(tag)}, not a text; left out"] = None
        elif len(text) > MAX_TAG:
            left_out[f"tag {text[:40]!r}… is longer than {MAX_TAG} characters; left out"] = None
        elif text and len(kept) == MAX_TAGS and text not in kept:
            left_out[f"there are more than {MAX_TAGS} tags; the first {MAX_TAGS} are kept"] = None
            break
        elif text:
            kept[text] = None
    problems.extend(list(left_out)[:_MAX_PROBLEMS])
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
