"""Reads the header of a GGUF model file: what the model says of itself, and whether it is whole.

The library that runs the model crashes the process on a file that was cut short, so the length is
checked before it is loaded. Format: github.com/ggml-org/ggml, docs/gguf.md.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from .errors import ModelUnavailableError

_SCALARS = {
    0: "B",
    1: "b",
    2: "H",
    3: "h",
    4: "I",
    5: "i",
    6: "f",
    7: "?",
    10: "Q",
    11: "q",
    12: "d",
}
_STRING, _ARRAY = 8, 9
_MAX_TEXT = 16 * 1024 * 1024  # bytes; a longer one is a damaged length

# tensor type -> (elements a block, bytes a block)
_BLOCKS = {
    0: (1, 4), 1: (1, 2), 2: (32, 18), 3: (32, 20), 6: (32, 22), 7: (32, 24), 8: (32, 34),
    9: (32, 36), 10: (256, 84), 11: (256, 110), 12: (256, 144), 13: (256, 176), 14: (256, 210),
    15: (256, 292), 24: (1, 1), 25: (1, 2), 26: (1, 4), 27: (1, 8), 28: (1, 8), 30: (1, 2),
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class GgufFile:
    """``metadata`` without its long lists; ``needs`` is the number of bytes of a whole file."""

    metadata: dict[str, Any]
    needs: int
    size: int


def check(file: Path) -> GgufFile:
    """Raises ModelUnavailableError, naming the file, where it is no GGUF file or is cut short."""
    size = file.stat().st_size
    try:
        with file.open("rb") as stream:
            found = _read(stream, size)
    except (struct.error, ValueError, ArithmeticError, KeyError, TypeError, RecursionError):
        found = None
    if found is None or found.size < found.needs:
        needs = f" of {found.needs:,}" if found else ""
        raise ModelUnavailableError(
            f"the model file {file} is broken or cut short ({size:,}{needs} bytes):"
            " `kbstore model pull` fetches it again"
        )
    return found


def _read(stream: BinaryIO, size: int) -> GgufFile:
    magic, version, tensors, entries = struct.unpack("<4sIQQ", stream.read(24))
    if magic != b"GGUF" or version not in (2, 3) or tensors > 1_000_000 or entries > 1_000_000:
        raise ValueError("no GGUF file")
    metadata = {}
    for _ in range(entries):
        name = _text(stream)
        value = _value(stream, _number(stream, "I"))
        if not isinstance(value, list):
            metadata[name] = value
    ends = [0]
    for _ in range(tensors):
        _text(stream)
        elements = 1
        for _ in range(_number(stream, "I")):
            elements *= _number(stream, "Q")
        block, width = _BLOCKS.get(_number(stream, "I"), (1, 0))  # unknown type: at least its start
        ends.append(_number(stream, "Q") + -(-elements // block) * width)
    alignment = metadata.get("general.alignment", 32)
    data = -(-stream.tell() // alignment) * alignment
    return GgufFile(metadata, data + max(ends), size)


def _number(stream: BinaryIO, code: str) -> Any:
    return struct.unpack(f"<{code}", stream.read(struct.calcsize(f"<{code}")))[0]


def _text(stream: BinaryIO) -> str:
    length = _number(stream, "Q")
    if length > _MAX_TEXT:
        raise ValueError("damaged")
    data = stream.read(length)
    if len(data) < length:
        raise ValueError("cut short")
    return data.decode()


def _value(stream: BinaryIO, kind: int) -> Any:
    if kind == _STRING:
        return _text(stream)
    if kind == _ARRAY:
        item, count = _number(stream, "I"), _number(stream, "Q")
        if count > _MAX_TEXT:
            raise ValueError("damaged")
        if item in _SCALARS:
            stream.seek(count * struct.calcsize(f"<{_SCALARS[item]}"), 1)
        else:
            for _ in range(count):
                _value(stream, item)
        return []
    return _number(stream, _SCALARS[kind])
