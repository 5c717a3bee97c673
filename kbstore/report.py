"""What the store says of the work it has done: frozen, and plain enough for JSON."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any, Literal


@dataclass(frozen=True, slots=True)
class PutReport:
    """``pending`` is true while the document has no vectors; ``note`` says why."""

    path: str
    action: Literal["created", "replaced", "unchanged"]
    pending: bool
    note: str | None = None

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True, slots=True)
class EmbedReport:
    """``reused`` documents took the vectors of the same text elsewhere, without a model call."""

    model: str | None
    documents: int = 0
    reused: int = 0
    passages: int = 0
    questions: int = 0
    failed: int = 0
    pending: int = 0
    error: str | None = None

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True, slots=True)
class Problem:
    """One sentence about one file or document."""

    path: str
    message: str


@dataclass(frozen=True, slots=True)
class SyncReport:
    """What a folder's reading has changed, as paths of documents."""

    root: str
    created: tuple[str, ...] = ()
    updated: tuple[str, ...] = ()
    moved: tuple[tuple[str, str], ...] = ()
    deleted: tuple[str, ...] = ()
    unchanged: int = 0
    read: int = 0
    problems: tuple[Problem, ...] = ()
    embedded: EmbedReport | None = field(default=None)

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True, slots=True)
class Status:
    """The state of the file. ``model`` made the vectors that serve; ``available_model`` would make
    new ones; ``degraded`` says what searches have to do without."""

    path: str
    schema_version: int
    documents: int
    skills: int
    journals: int
    pending: int
    failed: int
    last_error: str | None
    passages: int
    questions: int
    versions: int
    model: str | None
    available_model: str | None
    sqlite_vec: str | None
    size: int
    degraded: tuple[str, ...]

    def as_dict(self) -> dict[str, Any]:
        return asdict(self) | {"degraded": list(self.degraded)}
