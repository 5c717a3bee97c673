"""What a document is: its fields, the rules they keep, and the text that is embedded.

Pure: no database, no files. The same rules stand as constraints in schema.sql; here they give a
message that names the document.
"""

from __future__ import annotations

import hashlib
import json
import re
import unicodedata
from collections.abc import Iterable
from dataclasses import asdict, dataclass, fields
from datetime import UTC, date, datetime
from typing import Any, Self

from .errors import InputError

MAX_PATH = 512  # characters
MAX_TITLE = 1_000  # characters
MAX_TAGS = 100
MAX_TAG = 200  # characters
MAX_BODY = 16 * 1024 * 1024  # characters

_CONTROL = re.compile(r"[\x00-\x1f\x7f\\]")
_DATE = re.compile(
    r"\d{4}-\d{2}-\d{2}(?:[T ]\d{2}:\d{2}(?::\d{2}(?:[.,]\d+)?)?\s*(?:Z|[+-]\d{2}:?\d{2})?)?", re.I
)
_DAY_IN_NAME = re.compile(r"(?<!\d)\d{4}-\d{2}-\d{2}(?!\d)")


@dataclass(frozen=True, slots=True)
class Document:
    """A stored note. ``created`` and ``updated`` are ISO 8601, UTC, a day or a second, or None;
    ``content_hash`` names this version of its title, tags, description and body."""

    id: int
    path: str
    title: str
    tags: tuple[str, ...]
    description: str
    body: str
    topic: str
    type: str
    created: str | None
    updated: str | None
    content_hash: str
    frontmatter: str | None
    pending: bool

    @classmethod
    def of_row(cls, row: tuple[Any, ...]) -> Self:
        """From a row of the statement ``document``, which gives the fields in this order."""
        values = _values(cls, row)
        if values["content_hash"] is None:  # edited by hand
            names = ("path", "title", "tags", "description", "body")
            values["content_hash"] = content_hash(**{name: values[name] for name in names})
        return cls(**values)

    def as_dict(self) -> dict[str, Any]:
        return asdict(self) | {"tags": list(self.tags)}


@dataclass(frozen=True, slots=True)
class Summary:
    """A stored note without its text, as a listing shows it."""

    path: str
    title: str
    tags: tuple[str, ...]
    topic: str
    type: str
    created: str | None
    updated: str | None
    characters: int
    passages: int
    questions: int
    pending: bool

    @classmethod
    def of_row(cls, row: tuple[Any, ...]) -> Self:
        """From a row of the statement ``document_list``."""
        return cls(**_values(cls, row))

    def as_dict(self) -> dict[str, Any]:
        return asdict(self) | {"tags": list(self.tags)}


def _values(cls: type, row: tuple[Any, ...]) -> dict[str, Any]:
    values = dict(zip((field.name for field in fields(cls)), row, strict=True))
    tags = tuple(json.loads(values["tags"]))
    return values | {"tags": tags, "pending": bool(values["pending"])}


def check_path(path: str) -> str:
    """The path as it is stored (NFC). Raises InputError for one that is not POSIX relative."""
    path = unicodedata.normalize("NFC", check_text("path", path, path))
    shown = repr(path if len(path) <= 80 else path[:80] + "…")
    if not path.strip():
        raise InputError(f"path {path!r} is empty; give one such as domains/http-retries.md")
    if len(path) > MAX_PATH:
        raise InputError(f"path {shown} has {len(path)} characters; {MAX_PATH} is the most")
    if _CONTROL.search(path):
        raise InputError(f"path {shown} has a control character or a backslash in it")
    if any(part in ("", ".", "..") for part in path.split("/")):
        raise InputError(
            f"path {shown} is not relative, with forward slashes, such as domains/http-retries.md"
        )
    return path


def check_title(title: str, path: str) -> str:
    title = check_text("title", title, path).strip()
    if not title:
        raise InputError(f"{path}: the title is blank")
    if len(title) > MAX_TITLE:
        raise InputError(f"{path}: the title has {len(title)} characters; {MAX_TITLE} is the most")
    return title


def check_tags(tags: Iterable[str], path: str) -> tuple[str, ...]:
    if isinstance(tags, str):
        raise InputError(f"{path}: tags must be a list of texts, not one text")
    kept: dict[str, None] = {}
    for tag in tags:
        tag = check_text("tag", tag, path).strip()
        if not tag:
            raise InputError(f"{path}: a tag is blank")
        if len(tag) > MAX_TAG:
            raise InputError(
                f"{path}: tag {tag[:40]!r}… has {len(tag)} characters; {MAX_TAG} is the most"
            )
        kept[tag] = None
    if len(kept) > MAX_TAGS:
        raise InputError(f"{path}: there are {len(kept)} tags; {MAX_TAGS} is the most")
    return tuple(kept)


def check_body(body: str, path: str) -> str:
    body = check_text("text", body, path)
    if len(body) > MAX_BODY:
        raise InputError(f"{path}: the text has {len(body):,} characters; {MAX_BODY:,} is the most")
    return body


def check_note(
    path: str,
    body: str,
    *,
    title: str | None = None,
    tags: Iterable[str] | None = None,
    description: str | None = None,
    created: str | date | None = None,
    updated: str | date | None = None,
    frontmatter: str | None = None,
) -> dict[str, Any]:
    """The fields as they are stored, None where one was not given. Raises InputError."""
    return {
        "title": None if title is None else check_title(title, path),
        "tags": None if tags is None else check_tags(tags, path),
        "description": description and check_text("description", description, path).strip(),
        "created": created and check_date(created, path, "created"),
        "updated": updated and check_date(updated, path, "updated"),
        "frontmatter": frontmatter and check_text("frontmatter", frontmatter, path),
        "body": check_body(body, path),
    }


def check_text(what: str, value: object, path: object) -> str:
    """A text that SQLite can hold: no NUL, no lone surrogate."""
    if not isinstance(value, str):
        raise InputError(f"{path}: the {what} must be a text, not {type(value).__name__}")
    if "\0" in value:
        raise InputError(f"{str(path)[:80]!r}: the {what} has a NUL character in it")
    try:
        value.encode()
    except UnicodeEncodeError:
        raise InputError(
            f"{str(path)[:80]!r}: the {what} is not valid Unicode (a lone surrogate)"
        ) from None
    return value


def clean(text: str) -> str:
    """Text that SQLite can hold: NUL is a space, a lone surrogate a question mark."""
    return text.replace("\0", " ").encode("utf-8", "replace").decode()


def parse_date(value: str | date) -> str | None:
    """A day stays a day; a time becomes UTC to the second, and without an offset it is UTC already,
    whatever the machine's time zone. None: not a date (ISO 8601: 2026-12-01, 2026-12-01T10:00Z).
    """
    value = value.isoformat() if isinstance(value, date) else value.strip()
    if not _DATE.fullmatch(value):
        return None
    try:
        moment = datetime.fromisoformat(
            re.sub(r"\s+(?=[Z+-])", "", value.upper().replace(",", "."))
        )
        if len(value) == 10:
            return value
        moment = moment.replace(tzinfo=moment.tzinfo or UTC).astimezone(UTC)
    except (ValueError, OverflowError):
        return None
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ").rjust(20, "0")


def check_date(value: str | date, path: str, name: str) -> str:
    found = parse_date(value if isinstance(value, date) else check_text(name, value, path))
    if found is None:
        raise InputError(
            f"{path}: {name} is {str(value)[:40]!r}, not a date such as 2026-12-01"
            " or 2026-12-01T10:00Z"
        )
    return found


def date_in_path(path: str) -> str | None:
    """The day that a journal's file name gives: journal/2026-12-15.md."""
    found = _DAY_IN_NAME.search(path.rsplit("/", 1)[-1])
    return parse_date(found[0]) if found else None


def title_from_path(path: str) -> str:
    """The file's name without its ending; a skill's is that of its folder."""
    parts = path.split("/")
    if parts[-1] == "SKILL.md" and len(parts) > 1:
        return parts[-2]
    stem = parts[-1].rsplit(".", 1)[0] or parts[-1]
    return stem.strip() or path


def heading(title: str, tags: Iterable[str], description: str = "") -> str:
    """What stands before the text, or before each passage of it, when it is embedded."""
    parts = [title, f"Tags: {', '.join(tags)}" if tags else "", description]
    return ". ".join(part.rstrip(".") for part in parts if part) + ". "


def content_hash(path: str, title: str, tags: Iterable[str], description: str, body: str) -> str:
    """SHA-256 (64 hexadecimal digits) of what is embedded.

    A title that is only the file's name is embedded, but not content: a renamed file, or the same
    text under two names, needs no second model call.
    """
    own_title = "" if title == title_from_path(path) else title
    content = json.dumps([own_title, list(tags), description, body], ensure_ascii=False)
    return hashlib.sha256(content.encode()).hexdigest()


def now() -> str:
    """This moment, as dates are stored."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
