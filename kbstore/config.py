"""picobot's configuration file: the few keys that a knowledge base reads."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .errors import InputError

HOME = Path("~/.picobot")


@dataclass(frozen=True, slots=True)
class Config:
    """None: not set."""

    remote: str | None = None
    inference_mode: str | None = None
    hype: bool | None = None
    model: str | None = None


def load(file: Path | None = None) -> Config:
    """Read ``~/.picobot/config.json`` (or ``file``). None there: nothing set. Unknown keys are the
    agent's own.

    Raises InputError for a file that is no JSON, and for a key of ours with a wrong value.
    """
    file = (file or HOME / "config.json").expanduser()
    try:
        text = file.read_text(encoding="utf-8-sig")
    except FileNotFoundError:
        return Config()
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is not UTF-8"
        raise InputError(f"{file} cannot be read: {reason}") from error
    try:
        value = json.loads(text) if text.strip() else {}
    except (ValueError, RecursionError) as error:
        raise InputError(f"{file} is not valid JSON: {error}") from None
    if not isinstance(value, dict):
        raise InputError(f"{file} must hold a JSON object, not a {type(value).__name__}")
    mode = _get(value, "knowledge.embeddings.inference_mode", str, file)
    if mode not in (None, "local", "remote"):
        raise InputError(
            f"{file}: knowledge.embeddings.inference_mode is {mode!r}; it must be"
            ' "local" or "remote"'
        )
    return Config(
        remote=_get(value, "knowledge.remote", str, file) or None,
        inference_mode=mode,
        hype=_get(value, "knowledge.embeddings.hype", bool, file),
        model=_get(value, "agents.defaults.model", str, file) or None,
    )


def _get(value: dict[str, Any], key: str, kind: type, file: Path) -> Any:
    names = key.split(".")
    for depth, name in enumerate(names, 1):
        if not isinstance(value, dict):
            parent = ".".join(names[: depth - 1])
            raise InputError(f"{file}: {parent} must be an object, not {_shown(value)}")
        found = value.get(name)
        if found is None:
            return None
        value = found
    if not isinstance(value, kind):
        words = "true or false" if kind is bool else "a text"
        raise InputError(f"{file}: {key} must be {words}, not {_shown(value)}")
    return value


def _shown(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)[:60]
