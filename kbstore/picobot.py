"""picobot's face: ``KnowledgeBase``, the notes of a workspace, found by words and by meaning.

The file ``<data_dir>/kb.sqlite3`` and the markdown below ``<workspace>/knowledge`` (and the skills
below ``<workspace>/skills``) are kept equal: what is edited on one side is found on the other.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from datetime import date, datetime
from pathlib import Path
from typing import Any, Literal, Self

import apsw

from . import config, git, mirror
from .document import Document, parse_date
from .embed import Embedder
from .errors import InputError, KBError, MassDeletionError
from .folder import Folder
from .hype import Generator
from .report import PutReport, SyncReport
from .schema import expand_user
from .search import SearchResult
from .slug import note_paths, title_key
from .store import Store

TOPICS = {
    "self": "What the agent knows about itself: abilities, limits, lessons.",
    "user": "What it knows about the people it works for.",
    "projects": "One note, or one folder, a project.",
    "domains": "Knowledge by subject.",
    "journal": "What happened, a note a day: 2026-12-01.md.",
}

_FRESH = 8  # edited notes that a search embeds before it answers; the rest is pending


@dataclass(frozen=True, slots=True)
class KnowledgeReport:
    """``folder``: what changed between store and folder; ``git``: None where there is no
    repository."""

    folder: SyncReport
    git: git.GitReport | None

    def as_dict(self) -> dict[str, Any]:
        return {"folder": self.folder.as_dict(), "git": self.git and self.git.as_dict()}


class KnowledgeBase:
    """An agent's knowledge: stored, found, mirrored as markdown, carried between machines by git.

    ``base_path``: the folder of the notes, ``<workspace>/knowledge`` by default; ``workspace``:
    ``~/.picobot/workspace``; ``data_dir``: ``~/.picobot/data``. What ``~/.picobot/config.json``
    sets holds where an argument is left at its default: ``knowledge.embeddings.inference_mode``,
    ``knowledge.embeddings.hype`` (false there always holds), ``agents.defaults.model`` (the LLM
    that writes questions), ``knowledge.remote``.

    Nothing is opened, and nothing made, before it is needed. One object may be used by several
    threads, and by ``asyncio.to_thread``. ``embedder`` and ``llm`` are for a host that brings its
    own models.

    Raises InputError for a wrong configuration.
    """

    def __init__(
        self,
        base_path: str | os.PathLike[str] | None = None,
        workspace: str | os.PathLike[str] | None = None,
        data_dir: str | os.PathLike[str] | None = None,
        inference_mode: str = "local",
        hype: bool = True,
        model: str | None = None,
        *,
        embedder: Embedder | Literal["auto"] | None = "auto",
        llm: Generator | None = None,
    ) -> None:
        home = config.HOME.expanduser()
        settings = config.load()
        base = None if base_path is None else expand_user(base_path).absolute()
        if workspace is None and base is not None and base.name == "knowledge":
            workspace = base.parent
        self.workspace = expand_user(workspace or home / "workspace").absolute()
        self.base_path = base or self.workspace / "knowledge"
        self.data_dir = expand_user(data_dir or home / "data").absolute()
        self.database = self.data_dir / "kb.sqlite3"
        self.remote = settings.remote
        if inference_mode == "local" and settings.inference_mode:
            inference_mode = settings.inference_mode
        if inference_mode not in ("local", "remote"):
            raise InputError(
                f"inference_mode is {inference_mode!r}; it must be 'local' or 'remote'"
            )
        asks = hype and settings.hype is not False
        self._options: dict[str, Any] = {
            "embedder": embedder,
            "inference_mode": os.environ.get("KBSTORE_INFERENCE_MODE") or inference_mode,
            "hype": (llm or model or settings.model or "auto") if asks else None,
        }
        self._folders = self._mirrored(given=base is not None and workspace is None)
        self._lock = threading.Lock()  # to open
        self._turn = threading.RLock()  # to look at the folders
        self._opened: Store | None = None

    def _mirrored(self, given: bool) -> tuple[Folder, ...]:
        if self.base_path == self.workspace / "knowledge":
            return (Folder(self.workspace, "knowledge", "skills"),)
        notes = Folder(self.base_path)
        return (notes,) if given else (notes, Folder(self.workspace, None, "skills"))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the file and release the model. The next use opens it again."""
        with self._lock:
            if self._opened:
                self._opened.close()
                self._opened = None

    @property
    def kb(self) -> Store:
        """The store below, opened when it is first needed. Raises DatabaseError."""
        with self._lock:
            if self._opened is None:
                self._opened = Store(self.database, **self._options)
            return self._opened

    @property
    def connection(self) -> apsw.Connection:
        """The database, for SQL of one's own."""
        return self.kb.connection

    def ensure_structure(self) -> None:
        """Make the folders of the topics, a README in each, and the database, where missing."""
        self.base_path.mkdir(parents=True, exist_ok=True)
        about = "# Knowledge\n\nNotes in markdown, one folder a topic. Edit them as you like.\n"
        _make_file(self.base_path / "README.md", about)
        for topic, what in TOPICS.items():
            (self.base_path / topic).mkdir(exist_ok=True)
            _make_file(self.base_path / topic / "README.md", f"# {topic}\n\n{what}\n")
        _ = self.kb

    # Storing

    def store(
        self,
        topic: str,
        title: str,
        content: str,
        tags: Iterable[str] | None = None,
        *,
        expected_hash: str | None = None,
        hype: bool = True,
        defer: bool = False,
    ) -> PutReport:
        """Store a note under a path made of its topic and title, and as a markdown file.

        The same topic and title replace the note, and its old text goes into the history; another
        title with the same path gets one of its own. Everything else as `Store.put`.

        Raises InputError, EmptyContentError, EditConflictError, DatabaseError.
        """
        return self._change(
            lambda: self.kb.put(
                note_path(self.kb, topic, title),
                content,
                title=title_key(title),
                tags=tags,
                expected_hash=expected_hash,
                hype=hype,
                defer=defer,
            )
        )

    def append(
        self,
        topic: str,
        title: str,
        content: str,
        tags: Iterable[str] | None = None,
        *,
        hype: bool = True,
        defer: bool = False,
    ) -> PutReport:
        """Add to the end of a note, or make it. Raises as `store`."""
        return self._change(
            lambda: self.kb.append(
                note_path(self.kb, topic, title),
                content,
                title=title_key(title),
                tags=tags,
                hype=hype,
                defer=defer,
            )
        )

    def journal(
        self, content: str, *, day: str | date | None = None, defer: bool = False
    ) -> PutReport:
        """Add to the journal of today, as the local clock has it, or of ``day``."""
        found = parse_date(day) if day is not None else datetime.now().date().isoformat()
        if found is None:
            raise InputError(f"day is {day!r}, not a date such as 2026-12-01")
        return self.append("journal", found[:10], content, defer=defer)

    def _change(self, write: Callable[[], PutReport]) -> PutReport:
        # What was edited on disk comes in first: it goes into the history, not under.
        said = self._refresh(embed=False)
        report = write()
        said += [note for note in self._refresh(embed=False) if note not in said]
        notes = [note for note in (report.note, *said) if note]
        return replace(report, note="; ".join(notes) or None)

    # Finding

    def search(self, query: str, topic: str | None = None, limit: int = 10) -> str:
        """The answer as an agent reads it: numbered notes with path, title, tags, date and the
        place that matched; one closing line where something was missing. Never raises."""
        try:
            return _told(self.search_hits(query, topic, limit))
        except KBError as error:
            return f"The search failed: {error}"

    def search_hits(
        self, query: str, topic: str | None = None, limit: int = 10, **filters: Any
    ) -> SearchResult:
        """The same as data; ``filters`` as in `Store.search`. Raises InputError, DatabaseError."""
        said = self._refresh(embed=True)
        result = self.kb.search(query, limit=limit, topic=topic or None, **filters)
        return replace(result, degraded=(*result.degraded, *said))

    def get(self, path: str) -> Document:
        """Raises NotFoundError, InputError."""
        return self.kb.get(path)

    def topics(self) -> dict[str, int]:
        """The topics with the number of notes in each."""
        self._refresh(embed=False)
        return self.kb.topics()

    # The folders

    def refresh(self) -> SyncReport:
        """Make store and folders equal now, vectors and questions too; `search` and `store` do the
        quick part of it by themselves. Raises MassDeletionError, DatabaseError."""
        with self._turn:
            reports = [mirror.sync(self.kb, folder) for folder in self._present()]
        return reports[0] if reports else SyncReport(str(self.base_path))

    def sync(self, remote: str | None = None, *, dry_run: bool = False) -> KnowledgeReport:
        """Commit the notes' folder, fetch, merge, push, by git; then take in what came.

        ``remote``: a URL or path; else ``knowledge.remote`` of the configuration, else the
        repository's origin. Without any of them, and without a repository, git is left alone.
        Conflicting edits of one note leave both texts in it.

        Raises GitError (no git, say), MassDeletionError, DatabaseError. An unreachable remote
        raises nothing: the report says so, and the next sync goes on.
        """
        remote = remote or self.remote
        self.base_path.mkdir(parents=True, exist_ok=True)
        before = self.refresh() if not dry_run else SyncReport(str(self.base_path))
        if remote is None and not (self.base_path / ".git").exists():
            return KnowledgeReport(before, None)
        found = git.sync(self.base_path, remote, dry_run=dry_run)
        after = self.refresh() if not dry_run else before
        return KnowledgeReport(_both(before, after), found)

    def _present(self) -> list[Folder]:
        known = self.kb.sources.roots()
        return [f for f in self._folders if f.root.is_dir() or str(f.root) in known]

    def _refresh(self, *, embed: bool) -> list[str]:
        """Take in and write out what has changed; what went wrong, in sentences. No LLM, and no
        more than a few vectors: an answer is waited for."""
        said: list[str] = []
        with self._turn:
            if self.kb.sources.home() != str(self._folders[0].root):
                self.kb.sources.set_home(str(self._folders[0].root))
            if not self.base_path.is_dir() and not self.kb.sources.roots():
                self.base_path.mkdir(parents=True, exist_ok=True)
            for folder in self._present():
                try:
                    report = mirror.sync(self.kb, folder, embed=False)
                except MassDeletionError as error:
                    said.append(f"the folder was not followed: {error}")
                else:
                    said += [f"{p.path}: {p.message}" for p in report.conflicts]
                    said += [f"{p.path}: {p.message}" for p in report.problems]
        if embed:
            self.kb.vectors.embed_some(_FRESH)
        return said


def note_path(store: Store, topic: str, title: str) -> str:
    """Where the note of this topic and title is, or is to be. Raises InputError."""
    first, second = note_paths(topic, title)
    with store.session.snapshot():  # nobody deletes it between the two questions
        if second in store:
            return second
        if first in store and title_key(store.get(first).title) != title_key(title):
            return second
    return first


def _told(result: SearchResult) -> str:
    lines = []
    for number, hit in enumerate(result.hits, 1):
        parts = [
            f"{number}. {hit.path}",
            " ".join(hit.title.split()),
            f"[{', '.join(hit.tags)}]" if hit.tags else "",
            (hit.updated or "")[:10],
        ]
        lines += [" | ".join(part for part in parts if part), f"   {hit.snippet}"]
    if not lines:
        what = f"for {result.query!r}" if result.query.strip() else "for an empty query"
        lines = [f"No results {what}."]
    if result.degraded:
        lines.append(f"Note: {'; '.join(result.degraded)}")
    return "\n".join(lines)


def _both(first: SyncReport, second: SyncReport) -> SyncReport:
    """Two reports of one folder as one."""
    names = ("created", "updated", "moved", "deleted", "written", "removed", "conflicts")
    joined: dict[str, Any] = {
        name: (*getattr(first, name), *getattr(second, name)) for name in names
    }
    return replace(second, **joined)


def _make_file(place: Path, text: str) -> None:
    if not place.exists():
        place.write_text(text, encoding="utf-8")
