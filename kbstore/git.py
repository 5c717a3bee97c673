"""Placeholder until the real module is written over it."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from .errors import KBError


class GitError(KBError):
    pass


@dataclass(frozen=True, slots=True)
class GitReport:
    remote: str | None = None
    branch: str | None = None
    committed: tuple[str, ...] = ()
    pulled: tuple[str, ...] = ()
    conflicts: tuple[tuple[str, str], ...] = ()
    pushed: bool = False
    error: str | None = None
    notes: tuple[str, ...] = ()
    dry_run: bool = False

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


def sync(folder: Path, remote: str | None, *, dry_run: bool = False) -> GitReport:
    raise NotImplementedError
