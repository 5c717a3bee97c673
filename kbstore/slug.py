"""Makes a file name of a title, and a path of a topic and a title: safe on every system, the same
every time, and readable in every script."""

from __future__ import annotations

import hashlib
import re
import unicodedata

from .document import MAX_PATH, check_text
from .errors import InputError

MAX_NAME = 80  # characters of a name
_MAX_BYTES = 180  # of a name in UTF-8; file systems take 255, and drafts and endings need some

# Names that Windows keeps for devices, and those that a mirrored folder leaves out.
_RESERVED = re.compile(r"(con|prn|aux|nul|com[0-9]|lpt[0-9]|readme|skill)")


def slug(text: str) -> str:
    """``HTTP-Retries: how?`` becomes ``http-retries-how``. "" where nothing readable is left.

    Letters and digits of every script stay; Latin ones lose their accents; all else parts words.
    """
    folded = []
    for character in unicodedata.normalize("NFKC", text).casefold():
        base = unicodedata.normalize("NFKD", character)[0]
        folded.append(base if base.isascii() else character)
    name = "".join(c if _stays(c) else "-" for c in unicodedata.normalize("NFC", "".join(folded)))
    name = _cut(re.sub("-{2,}", "-", name).strip("-"))
    return f"{name}-note" if _RESERVED.fullmatch(name) else name


def note_paths(topic: str, title: str) -> tuple[str, str]:
    """Where the note of this title belongs, and where, if another title has that place.

    Raises InputError for a topic that leads out of the folder, and for a text that is none.
    """
    folder = topic_path(topic)
    shown = f"{topic}/{title}"
    name = slug(check_text("title", title, shown))
    mark = hashlib.sha256(title_key(title).encode()).hexdigest()[:8]
    if not title.strip():
        raise InputError(f"{shown!r}: the title is blank")
    first = f"{folder}{name or f'note-{mark}'}.md"
    second = f"{folder}{name or 'note'}-{mark}.md"
    if len(second) > MAX_PATH:
        raise InputError(f"the topic {topic[:60]!r}… is too long")
    return first, second


def topic_path(topic: str) -> str:
    """A topic as the folder of its notes: "" or ``projects/atlas/``. Raises InputError."""
    parts = check_text("topic", topic, topic).replace("\\", "/").strip("/").split("/")
    if topic.startswith("/") or any(part.strip() in (".", "..") for part in parts):
        raise InputError(f"topic {topic[:80]!r} leads out of the folder; give one such as domains")
    names = [slug(part) for part in parts]
    if any(part.strip() and not name for part, name in zip(parts, names, strict=True)):
        raise InputError(f"topic {topic[:80]!r} has no letter or digit in it")
    return "".join(f"{name}/" for name in names if name)


def title_key(title: str) -> str:
    """What makes two titles the same: all but white space."""
    return " ".join(unicodedata.normalize("NFC", title).split())


def _stays(character: str) -> bool:
    # Marks, too: without them words of Devanagari or Thai fall to pieces.
    return character.isalnum() or unicodedata.category(character) in ("Mn", "Mc")


def _cut(name: str) -> str:
    if len(name) <= MAX_NAME and len(name.encode()) <= _MAX_BYTES:
        return name
    cut = name[:MAX_NAME]
    while len(cut.encode()) > _MAX_BYTES:
        cut = cut[:-1]
    whole_words = cut.rpartition("-")[0]
    return (whole_words if len(whole_words) > len(cut) // 2 else cut).strip("-")
