"""The README runs as printed."""

from __future__ import annotations

import asyncio
import inspect
import os
import re
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

import kbstore
from kbstore import mirror

README = Path(__file__).resolve().parent.parent / "README.md"

NOTES = {
    "domains/http-retries.md": (
        "---\ntitle: HTTP retries\ntags: [http, reliability]\nupdated: 2026-11-02\n---\n"
        "Between retries we wait 1, 2, 4 and 8 seconds, plus jitter.\n"
    ),
    "skills/release/SKILL.md": (
        "---\nname: release\ndescription: How to publish a version.\nupdated: 2026-11-20\n---\n"
        "Tag the commit, build the wheel, wait for the checks, publish.\n"
    ),
    "journal/2026-11-30.md": (
        "---\ntitle: Monday\n---\nThe staging server was moved to the new rack.\n"
    ),
}


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", README.read_text(), re.MULTILINE | re.DOTALL)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with ``notes/`` in it, where ``kbstore`` and ``sqlite3`` are on the path."""
    for name, text in NOTES.items():
        file = tmp_path / "notes" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("KBSTORE_DB", str(tmp_path / "kb.sqlite3"))
    return tmp_path


def shell(command: str) -> str:
    done = subprocess.run(["sh", "-c", command], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_console_session_prints_what_is_printed(folder: Path) -> None:
    (session,) = blocks("console")
    commands = re.split(r"^\$ ", session, flags=re.MULTILINE)[1:]
    assert len(commands) == 8
    for step in commands:
        command, _, expected = step.partition("\n")
        assert shell(command) == expected, command


def test_an_agent_s_day_prints_what_is_printed(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    subprocess.run(["git", "init", "-q", "--bare", "notes.git"], check=True)
    day, tools, _ = blocks("python")
    exec(day.replace("/srv/git/notes.git", str(folder / "notes.git")), {})
    (expected,) = blocks("output")
    today = datetime.now(UTC).date().isoformat()
    printed = capsys.readouterr().out
    assert printed.replace(today, "2026-12-01") == expected
    scope: dict[str, Any] = {}
    exec(tools, scope)
    kb = kbstore.KnowledgeBase()
    note = {"topic": "user", "title": "Diet", "content": "No shellfish.", "tags": ["health"]}
    stored = asyncio.run(scope["KnowledgeStore"](kb).execute(**note))
    assert stored == "created user/diet.md"
    found = asyncio.run(scope["KnowledgeSearch"](kb).execute("shellfish", topic="user"))
    assert found.startswith("1. user/diet.md | Diet | [health]")
    for tool in (scope["KnowledgeStore"], scope["KnowledgeSearch"]):
        arguments = set(inspect.signature(getattr(kb, tool.name.removeprefix("kb_"))).parameters)
        assert set(tool.parameters["properties"]) <= arguments
    kb.close()


def test_the_python_example_runs(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    *_, example = blocks("python")
    exec(example, {})
    printed = capsys.readouterr().out.splitlines()
    assert printed[0].startswith("domains/http-retries.md 0.0")
    assert printed[-1] == "()"


def test_the_sql_examples_run_in_a_shell_without_the_extension(folder: Path) -> None:
    with kbstore.Store("kb.sqlite3") as store:
        mirror.sync(store, "notes")
    (examples,) = blocks("sql")
    done = subprocess.run(
        ["sqlite3", "-bail", "kb.sqlite3"], input=examples, capture_output=True, text=True
    )
    assert done.stderr == ""
    assert done.stdout.splitlines() == [
        "domains/http-retries.md|HTTP retries|kb|1",
        "journal/2026-11-30.md|Monday|journal|1",
        "skills/release/SKILL.md|release|skill|1",
        "domains/http-retries.md|update",
    ]
    (search,) = blocks("sh")
    assert (
        shell(search).splitlines()[0].startswith("1|domains/http-retries.md|Retrying HTTP calls|")
    )
    with kbstore.Store("kb.sqlite3") as store:
        assert [d.path for d in store.list() if d.pending] == ["domains/http-retries.md"]
        report = store.embed()
        assert (report.documents, report.questions, report.pending) == (1, 1, 0)


def test_the_demo_prints_the_result_that_is_shown(folder: Path) -> None:
    (shown,) = blocks("text")
    printed = shell(f"{sys.executable} -m kbstore demo")
    assert shown in printed


def test_every_command_is_named_in_the_readme() -> None:
    from kbstore.cli import main

    text = README.read_text()
    for name in main.commands:
        assert f"`{name}`" in text or f"kbstore {name}" in text, name
