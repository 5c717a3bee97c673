"""``kbstore demo``: a sample base, half a dozen questions, and how each answer came about."""

from __future__ import annotations

import json
import shlex
import tempfile
from collections.abc import Callable
from pathlib import Path

from . import mirror, queries
from .search import Evidence, Hit
from .store import Store

SAMPLE = Path(__file__).resolve().parent / "sample"
NOW = "2026-12-01"  # the sample's journals are as old as this makes them

_ROW = "{:>3}  {:36} {:>11} {:>7} {:>9} {:>6} {:>9} {:>9}"


def run_demo(echo: Callable[[str], None]) -> Path:
    """Make the base in a temporary folder, search it, and return where the file is."""
    file = Path(tempfile.mkdtemp(prefix="kbstore-demo-")) / "kb.sqlite3"
    questions = json.loads((SAMPLE / "questions.json").read_text(encoding="utf-8"))
    with Store(file) as store:
        report = mirror.sync(store, SAMPLE)
        state = store.status()
        made_by = f"vectors by the {state.model}" if state.model else "no vectors"
        echo(f"{len(report.created)} notes in one file, {made_by}.")
        for sentence in state.degraded:
            echo(f"Note: {sentence}")
        for question in questions:
            result = store.search(question["query"], now=NOW, limit=4)
            echo(f"\n{question['query']}    ({question['why']})\n")
            echo(_ROW.format("", "", "frontmatter", "words", "vectors", "type", "recency", "score"))
            for rank, hit in enumerate(result.hits, 1):
                echo(_row(rank, hit))
    echo("\nThe numbers in the middle are ranks in each retriever. The file is yours to look at:\n")
    echo(f"sqlite3 {shlex.quote(str(file))}\n")
    echo("select path, type, age_days, recency, passages from v_document limit 8;")
    echo(""".parameter set :query "'retries after an outage'\"""")
    echo(f".read '{queries.SQL_FOLDER / 'search_words.sql'}'")
    return file


def _row(rank: int, hit: Hit) -> str:
    def place(evidence: Evidence | None) -> str:
        return str(evidence.rank) if evidence else "-"

    return _ROW.format(
        rank,
        hit.path,
        place(hit.frontmatter),
        place(hit.words),
        place(hit.vectors),
        f"x {hit.type_weight:g}",
        f"x {hit.recency:.3f}",
        f"{hit.score:.5f}",
    )
