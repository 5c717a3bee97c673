"""What the store says of the work it has done: frozen, and plain enough for JSON."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

Progress = Callable[[int, int], None]  # (done, of)


@dataclass(frozen=True, slots=True)
class PutReport:
    """``pending`` is true while the document has no vectors, or no questions where an LLM is set to
    write them; ``note`` says why."""

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
class EmbedEstimate:
    """What `embed` would do; ``tokens`` are four characters each, as in English."""

    model: str
    local: bool
    documents: int
    passages: int
    questions: int
    tokens: int


@dataclass(frozen=True, slots=True)
class HypeReport:
    """``documents`` the LLM was asked about, ``reused`` took the questions of the same text
    elsewhere; ``error`` is why the run ended early, ``embedding_error`` why the questions have no
    vectors."""

    model: str | None
    documents: int = 0
    reused: int = 0
    questions: int = 0
    failed: int = 0
    pending: int = 0
    error: str | None = None
    embedding_error: str | None = None

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True, slots=True)
class Problem:
    """One sentence about one file or document."""

    path: str
    message: str


@dataclass(frozen=True, slots=True)
class SyncReport:
    """What has changed, as paths of documents, and ``written`` and ``removed`` as files of the
    folder. ``conflicts``: documents that had changed on both sides, and which of the two stayed.
    """

    root: str
    created: tuple[str, ...] = ()
    updated: tuple[str, ...] = ()
    moved: tuple[tuple[str, str], ...] = ()
    deleted: tuple[str, ...] = ()
    written: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    unchanged: int = 0
    read: int = 0
    conflicts: tuple[Problem, ...] = ()
    problems: tuple[Problem, ...] = ()
    embedded: EmbedReport | None = field(default=None)
    questioned: HypeReport | None = field(default=None)

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True, slots=True)
class Status:
    """The state of the file. ``pending`` documents lack vectors, ``unquestioned`` ones questions.
    ``model`` made the vectors that serve, ``available_model`` would make new ones, ``hype_model``
    would write questions; ``degraded`` says what searches have to do without."""

    path: str
    schema_version: int
    documents: int
    skills: int
    journals: int
    pending: int
    unquestioned: int
    failed: int
    last_error: str | None
    passages: int
    questions: int
    versions: int
    model: str | None
    available_model: str | None
    hype_model: str | None
    sqlite_vec: str | None
    size: int
    degraded: tuple[str, ...]

    def as_dict(self) -> dict[str, Any]:
        return asdict(self) | {"degraded": list(self.degraded)}


@dataclass(frozen=True, slots=True)
class Finding:
    """``kind``: database, structure, orphan, words, vec0, vector, text, model or setting; ``done``:
    how it was mended, "" where it was not."""

    kind: str
    what: str
    finding: str
    done: str = ""


@dataclass(frozen=True, slots=True)
class CheckReport:
    """``complete`` is false where the file is larger than what was read of it."""

    documents: int
    vectors: int
    findings: tuple[Finding, ...]
    complete: bool = True

    def as_dict(self) -> dict[str, Any]:
        return asdict(self) | {"findings": [asdict(finding) for finding in self.findings]}
