"""Two versions of a note become one in which nothing is missing that somebody wrote.

Pure: texts in, texts out. The lines are compared by the ``three_way`` that is given, which is
`git merge-file`; it gets numbers in place of lines, so that no line is ever taken for a conflict
marker, nor a marker for a line.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Container, Iterable
from dataclasses import dataclass
from itertools import count, takewhile
from pathlib import PurePosixPath
from typing import Literal

import yaml

from . import frontmatter

ThreeWay = Callable[[bytes, bytes, bytes], bytes]  # (base, ours, theirs) -> `git merge-file -p`
Side = Literal["ours", "theirs"]

_Unit = tuple[str, ...]  # lines that stay together
_BLANK: _Unit = ("",)
_FENCE = re.compile(r"[ \t>]*(`{3,}|~{3,})")
_TABLE_RULE = re.compile(r"[ \t>]*\|?[ \t]*:?-+:?[ \t]*(?:\|[ \t]*:?-+:?[ \t]*)*\|?[ \t]*")
_MAX_STEM = 200  # bytes; a name may have 255
_TOP = "#"  # in place of a key: the comments above the first one
_UNDERLINE = re.compile(r" {0,3}(?:-+|=+)[ \t]*")


@dataclass(frozen=True, slots=True)
class Merged:
    """``header`` is the side whose values count where both have changed one; None: nowhere."""

    text: str
    header: Side | None


@dataclass(frozen=True, slots=True)
class _Field:
    """A key of a header: as it is written, with the lines up to the next key, and what it says."""

    raw: str
    value: object


def note(
    base: str, ours: str, theirs: str, *, path: str, newer: Side, three_way: ThreeWay
) -> Merged:
    """One note of two that have gone apart since ``base``, which is empty where they never met.

    A key of the header or a line of the body that one side alone has changed is as that side has
    it. Where both have: of a key the newer side's value, of tags and of the body those of both.
    """
    old, left, right = (
        frontmatter.parse(text.replace("\r\n", "\n"), path) for text in (base, ours, theirs)
    )
    header, side = _header(old.frontmatter, left.frontmatter, right.frontmatter, newer)
    body = _body(old.body, left.body, right.body, three_way)
    text = body if header is None else f"---\n{header}---\n{body}"
    if frontmatter.parse(text, path).frontmatter != header:
        text = f"---\n---\n{body}"  # the body itself would be taken for a header
    style = ours if "\n" in ours else theirs
    if style.count("\r\n") * 2 > style.count("\n"):
        text = text.replace("\n", "\r\n")
    mark = "\ufeff" if ours.startswith("\ufeff") else ""
    return Merged(mark + text, side)


def is_sound(merged: str, ours: str, theirs: str, path: str) -> bool:
    """Whether a merge by lines has left the header as good as it was on both sides."""
    notes = [frontmatter.parse(text, path) for text in (ours, theirs)]
    result = frontmatter.parse(merged, path)
    if not set(result.problems) <= {problem for note in notes for problem in note.problems}:
        return False
    if all(_fields(note.frontmatter) for note in notes):
        # Cut off from its fence, or with a key that is there twice, whose first YAML forgets.
        return bool(_fields(result.frontmatter))
    return True


def beside(path: str, taken: Container[str]) -> str:
    """A free name for another version of a file."""
    place = PurePosixPath(path)
    stem = place.stem
    if len(stem.encode(errors="surrogateescape")) > _MAX_STEM:
        stem = stem.encode(errors="replace")[:_MAX_STEM].decode(errors="ignore")
    for number in count(1):
        version = f"other version {number}" if number > 1 else "other version"
        name = place.with_name(f"{stem} ({version}){place.suffix}").as_posix()
        if name not in taken:
            return name
    raise AssertionError("not reached")


# The header


def _header(
    base: str | None, ours: str | None, theirs: str | None, newer: Side
) -> tuple[str | None, Side | None]:
    if ours == theirs:
        return ours, None
    if theirs == base:
        return ours, "ours"
    if ours == base:
        return theirs, "theirs"
    winner, other = (ours, theirs) if newer == "ours" else (theirs, ours)
    first, second = _fields(winner), _fields(other)
    if first is None or second is None:
        return winner, newer
    fields = _fields_of_both(_fields(base) or {}, first, second)
    header = "".join(field.raw for field in fields.values())
    read = _fields(header)
    if read is None or _values(read) != _values(fields):
        return winner, newer  # such as an alias whose anchor is in the other header
    return header or (None if winner is None or other is None else ""), newer


def _fields_of_both(
    base: dict[str, _Field], winner: dict[str, _Field], other: dict[str, _Field]
) -> dict[str, _Field]:
    fields: dict[str, _Field] = {}
    for key in dict.fromkeys([*winner, *other]):
        was, mine, yours = base.get(key), winner.get(key), other.get(key)
        if mine == was or (mine is None and yours != was):
            mine = yours  # a None is a key that was taken away
        elif key == "tags" and mine and yours and yours != was:
            mine = _tags(was, mine, yours)
        if mine:
            fields[key] = mine
    return fields


def _tags(base: _Field | None, winner: _Field, other: _Field) -> _Field:
    """The tags of both lists, without those that one side has taken away."""
    first, second = _texts(winner.value), _texts(other.value)
    if first is None or second is None:
        return winner
    old = (base and _texts(base.value)) or []
    both = dict.fromkeys([*first, *second])
    kept = [tag for tag in both if (tag in first and tag in second) or tag not in old]
    if kept == first:
        return winner
    return _Field(frontmatter.set_key(winner.raw, ("tags",), tuple(kept)), kept)


def _texts(value: object) -> list[str] | None:
    """A list of nothing but texts; None: it is something else."""
    if isinstance(value, list) and all(isinstance(item, str) for item in value):
        return value
    return None


def _values(fields: dict[str, _Field]) -> dict[str, object]:
    return {key: field.value for key, field in fields.items() if key != _TOP}


def _fields(header: str | None) -> dict[str, _Field] | None:
    """A header cut at its keys; None where it is not one key below the other, each once."""
    if not header:
        return {}
    try:
        root = yaml.compose(header, Loader=yaml.BaseLoader)
        values = yaml.load(header, Loader=yaml.BaseLoader)
    except (yaml.YAMLError, RecursionError, ValueError):
        return None
    if root is None:  # comments
        return {_TOP: _Field(header, None)}
    if not isinstance(root, yaml.MappingNode) or root.flow_style:
        return None
    keys = [key for key, _ in root.value]
    if any(key.start_mark.column or not isinstance(key, yaml.ScalarNode) for key in keys):
        return None
    starts = [key.start_mark.index for key in keys]
    fields = {_TOP: _Field(header[: starts[0]], None)} if starts[0] else {}
    for key, start, end in zip(keys, starts, [*starts[1:], len(header)], strict=True):
        if key.value in fields:
            return None
        fields[key.value] = _Field(header[start:end], values.get(key.value))
    return fields


# The body


def _body(base: str, ours: str, theirs: str, three_way: ThreeWay) -> str:
    numbers: dict[_Unit, int] = {}
    units = [_units(text) for text in (base, ours, theirs)]
    # A blank line gets no number: git joins conflicts between which there is nothing else, so
    # that paragraphs of the two sides follow upon one another and are not shuffled.
    for unit in (unit for text in units for unit in text if unit != _BLANK):
        numbers.setdefault(unit, len(numbers))
    lines = {unit: b"%d" % number for unit, number in numbers.items()} | {_BLANK: b"."}
    files = [b"".join(lines[unit] + b"\n" for unit in text) for text in units]
    merged = _both(three_way(*files).splitlines(), {line: unit for unit, line in lines.items()})
    text = "\n".join(line for unit in merged for line in unit)
    return text + "\n" if merged and (ours.endswith("\n") or theirs.endswith("\n")) else text


def _units(text: str) -> list[_Unit]:
    """Lines; but a fenced block of code is one, and so is the head of a table with its rule."""
    lines = text.split("\n")
    if not lines[-1]:
        lines.pop()
    units: list[_Unit] = []
    at = 0
    while at < len(lines):
        end = at + 1
        if fence := _FENCE.match(lines[at]):
            end = _after_fence(lines, at, fence[1]) or end
        elif "|" in lines[at] and end < len(lines) and _is_table_rule(lines[end]):
            end += 1
        units.append(tuple(lines[at:end]))
        at = end
    return units


def _after_fence(lines: list[str], start: int, fence: str) -> int | None:
    for at in range(start + 1, len(lines)):
        closing = lines[at].strip(" \t>")
        if len(closing) >= len(fence) and closing.strip(fence[0]) == "":
            return at + 1
    return None  # never closed: then it is read line by line


def _is_table_rule(line: str) -> bool:
    return "|" in line and _TABLE_RULE.fullmatch(line) is not None


def _both(lines: Iterable[bytes], units: dict[bytes, _Unit]) -> list[_Unit]:
    """What `git merge-file` says, with the lines of both sides where it has a conflict."""
    merged: list[_Unit] = []
    ours: list[_Unit] = []
    theirs: list[_Unit] = []
    into = merged
    for line in lines:
        if line.startswith(b"<"):
            ours, theirs = [], []
            into = ours
        elif line.startswith(b"="):
            into = theirs
        elif line.startswith(b">"):
            merged += _one_after_the_other(ours, theirs)
            into = merged
        else:
            into.append(units[line])
    return merged


def _one_after_the_other(ours: list[_Unit], theirs: list[_Unit]) -> list[_Unit]:
    # Rows of a table that goes on from above stay in it.
    rows = [*takewhile(_is_row, ours)], [*takewhile(_is_row, theirs)]
    ours, theirs = ours[len(rows[0]) :], theirs[len(rows[1]) :]
    gap = [_BLANK] if ours and theirs and _needs_gap(ours, theirs) else []
    return [*rows[0], *rows[1], *ours, *gap, *theirs]


def _needs_gap(above: list[_Unit], below: list[_Unit]) -> bool:
    """Whether what the two sides have written would run into one without a line between."""
    last, first = above[-1], below[0]
    if _BLANK in (last, first):
        return False
    if _BLANK in above or _BLANK in below or len(last) > 1 or len(first) > 1:
        return True  # whole blocks, not single lines of one
    # A line of signs would make a heading of the one above, a table a row of the one below.
    return _UNDERLINE.fullmatch(first[0]) is not None or (_is_row(last) and not _is_row(first))


def _is_row(unit: _Unit) -> bool:
    return len(unit) == 1 and unit[0].lstrip(" \t>").startswith("|")
