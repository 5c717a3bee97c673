"""The command line: data on standard output, words on standard error, an exit code for each end."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import sqlite3
import stat
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import click.testing
import pytest
import sqlite_vec

import kbstore
import kbstore.embed
from kbstore import cli, mirror, queries

Result = click.testing.Result
Run = Callable[..., Result]

STARTER = "starter (6 MB stand-in for nomic-embed-text-v1.5)"

# A workspace: each text has the word `harbour`, so that filters alone decide what is found.
WORKSPACE = {
    "knowledge/projects/atlas/plan.md": (
        "---\ntitle: Atlas plan\ntags: [atlas, Planning]\nupdated: 2026-03-01\n---\n"
        "The harbour board has seen the plan.\n"
    ),
    "knowledge/projects/atlas/notes/risk.md": (
        "---\ntitle: Risks\ntags: [planning]\nupdated: 2026-03-10\n---\nIce in the harbour.\n"
    ),
    "knowledge/projects/atlas.md": (
        "---\ntitle: Atlas\nupdated: 2026-02-01\n---\nA harbour for data.\n"
    ),
    "knowledge/projects/atlas2/other.md": (
        "---\ntitle: Second atlas\nupdated: 2026-02-02\n---\nAnother harbour.\n"
    ),
    "knowledge/self/me.md": (
        "---\ntitle: Myself\nupdated: 2026-01-15\n---\nI like the harbour at dusk.\n"
    ),
    "knowledge/journal/2026-02-10.md": "The harbour was calm.\n",
    "skills/launch/SKILL.md": (
        "---\nname: launch\ndescription: How to launch a boat.\n"
        "updated: 2026-03-05T23:30:00Z\n---\nLeave the harbour slowly.\n"
    ),
}
PATHS = {
    "plan": "projects/atlas/plan.md",
    "risk": "projects/atlas/notes/risk.md",
    "atlas": "projects/atlas.md",
    "other": "projects/atlas2/other.md",
    "me": "self/me.md",
    "day": "journal/2026-02-10.md",
    "launch": "skills/launch/SKILL.md",
}


def lay_out(folder: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        place = folder / name
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(text, encoding="utf-8")
    return folder


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The workspace's seven notes in a database, without vectors."""
    folder = tmp_path_factory.mktemp("template")
    with kbstore.Store(folder / "kb.sqlite3", embedder=None) as store:
        mirror.sync(store, lay_out(folder / "workspace", WORKSPACE), embed=False)
    return folder / "kb.sqlite3"


@pytest.fixture
def base(template: Path, database: Path) -> Path:
    """A copy of it as the database of this test."""
    shutil.copy(template, database)
    return database


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    return lay_out(tmp_path / "workspace", WORKSPACE)


@pytest.fixture
def no_model(monkeypatch: pytest.MonkeyPatch) -> None:
    """The package that runs the local model is not installed."""
    monkeypatch.setattr(kbstore.embed, "find_spec", lambda name: None)


def done(result: Result) -> Result:
    assert result.exit_code == 0, result.stderr
    return result


def data(result: Result) -> Any:
    """Standard output, all of it, as JSON."""
    return json.loads(done(result).stdout)


def error_of(result: Result, code: int) -> str:
    """The one line that a refused command leaves."""
    assert result.stdout == ""
    assert result.stderr.startswith("Error: "), result.stderr
    assert result.stderr.endswith("\n")
    assert result.stderr.count("\n") == 1, result.stderr
    assert result.exit_code == code, result.stderr
    return result.stderr.removeprefix("Error: ").strip()


def usage_error_of(result: Result) -> str:
    """The line after the hint how the command is used."""
    assert result.stdout == ""
    assert result.exit_code == 2, result.stderr
    lines = result.stderr.splitlines()
    assert lines[0].startswith("Usage: ")
    assert [line for line in lines if line.startswith("Error: ")] == lines[-1:]
    assert "Traceback" not in result.stderr
    return lines[-1].removeprefix("Error: ")


def notes(result: Result) -> list[str]:
    """What it says it had to do without; there is nothing else on standard error."""
    lines = result.stderr.splitlines()
    assert [line for line in lines if not line.startswith(("Note: ", "No results."))] == []
    return [line.removeprefix("Note: ") for line in lines if line.startswith("Note: ")]


def state(database: Path) -> str:
    """A fingerprint of what is stored: the file, and the log beside it if anything waits there."""
    log = database.with_name(database.name + "-wal")
    parts = [database.read_bytes(), log.read_bytes() if log.exists() else b""]
    return hashlib.sha256(b"|".join(parts)).hexdigest()


def found(result: Result) -> list[str]:
    return [hit["path"] for hit in data(result)["hits"]]


# Where the file is


def test_the_option_after_the_command_beats_the_one_before_it_which_beats_the_environment(
    tmp_path: Path,
) -> None:
    table = [
        # KBSTORE_DB  before     after      the file
        ("env", "before", "after", "after"),
        ("env", "before", None, "before"),
        ("env", None, "after", "after"),
        ("env", None, None, "env"),
        (None, "before", "after", "after"),
        (None, "before", None, "before"),
        (None, None, "after", "after"),
    ]
    picked = []
    for environment, before, after, _ in table:
        arguments = [
            *(["--db", str(tmp_path / before)] if before else []),
            "init",
            *(["--db", str(tmp_path / after)] if after else []),
        ]
        runner = click.testing.CliRunner(
            env={"KBSTORE_DB": str(tmp_path / environment) if environment else None}
        )
        result = done(runner.invoke(cli.main, arguments))
        picked.append(Path(result.stdout.split()[0]).name)
    assert picked == [row[3] for row in table]


def test_without_any_the_file_is_in_the_home_folder() -> None:
    result = done(click.testing.CliRunner().invoke(cli.main, ["init"]))
    file = Path(os.environ["HOME"], ".picobot/data/kb.sqlite3")
    assert result.stdout == f"{file}\n"
    assert file.is_file()


def test_a_tilde_in_the_environment_is_the_home_folder() -> None:
    runner = click.testing.CliRunner(env={"KBSTORE_DB": "~/notes.sqlite3"})
    done(runner.invoke(cli.main, ["init"]))
    assert Path(os.environ["HOME"], "notes.sqlite3").is_file()


@pytest.mark.parametrize(
    "command",
    [
        ["ls"],
        ["get", "a.md"],
        ["search", "word"],
        ["status"],
        ["embed"],
        ["rm", "a.md"],
        ["mv", "a.md", "b.md"],
        ["sync", "no/such/folder"],
        ["add", "a.md"],  # with nothing on standard input
        ["add", "../a.md"],
        ["add", "a.md", "--tag", ""],
    ],
    ids=" ".join,
)
def test_what_cannot_be_done_makes_no_database(
    run: Run, database: Path, command: list[str]
) -> None:
    result = run(*command)
    error_of(result, 2 if command[0] == "add" else 3)
    assert not database.exists()


@pytest.mark.parametrize(
    ("kind", "says"),
    [
        ("empty", "is an empty file, not a knowledge base"),
        ("text", "is not an SQLite database"),
        ("folder", "is a folder, not a knowledge base"),
        ("other", "is the database of another application"),
        ("newer", "upgrade kbstore"),
    ],
)
@pytest.mark.parametrize(
    "command",
    [["init"], ["ls"], ["search", "x"], ["status"], ["add", "a.md"], ["rm", "a.md"], ["embed"]],
    ids=lambda command: command[0],
)
def test_a_file_that_is_not_ours_is_refused_and_left_alone(
    run: Run, database: Path, kind: str, says: str, command: list[str]
) -> None:
    if kind == "empty":
        database.touch()
    elif kind == "text":
        database.write_text("Dear diary, " * 50)
    elif kind == "folder":
        database.mkdir()
    else:
        with sqlite3.connect(database) as other:
            other.execute("create table t (a)")
            if kind == "newer":
                other.execute(f"pragma application_id = {0x6B627374}")
                other.execute("pragma user_version = 99")
        other.close()
    before = None if kind == "folder" else state(database)
    message = error_of(run(*command, input="text"), 1)
    assert says in message
    assert str(database) in message
    assert before is None or state(database) == before


@pytest.mark.parametrize("command", [["init"], ["ls"], ["rm", "a.md"], ["sync", "."]], ids=" ".join)
@pytest.mark.parametrize("name", ["n" * 300, "~no-such-user/kb.sqlite3", "{file}/kb.sqlite3"])
def test_a_name_that_no_file_can_have_is_an_error_of_one_line(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, command: list[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "file").touch()
    place = name.format(file=tmp_path / "file")
    result = run(*command, "--db", place)
    assert result.exit_code in (1, 2, 3)
    error_of(result, result.exit_code)
    assert [file.name for file in tmp_path.iterdir()] == ["file"]


@pytest.mark.parametrize("folder", ["n" * 300, "~no-such-user/notes", "file"])
def test_a_folder_that_cannot_be_there_is_an_error_of_one_line(
    run: Run, tmp_path: Path, base: Path, folder: str
) -> None:
    (tmp_path / "file").touch()
    before = state(base)
    result = run("sync", folder if folder.startswith("~") else str(tmp_path / folder))
    assert result.exit_code in (1, 2, 3)
    error_of(result, result.exit_code)
    assert state(base) == before


# init


def test_init_makes_an_empty_private_file_and_prints_where_it_is(run: Run, tmp_path: Path) -> None:
    place = tmp_path / "new" / "folders" / "kb.sqlite3"
    assert done(run("init", "--db", str(place))).stdout == f"{place}\n"
    assert stat.S_IMODE(place.stat().st_mode) == 0o600
    assert data(run("status", "--json", "--db", str(place)))["documents"] == 0


def test_init_leaves_what_is_there(run: Run, base: Path) -> None:
    before = state(base)
    assert done(run("init")).stdout == f"{base} (exists already)\n"
    assert state(base) == before


# sync


def test_sync_tells_what_has_changed_in_the_folder(run: Run, tmp_path: Path) -> None:
    folder = lay_out(tmp_path / "f", {f"{n}.md": f"# Note {n}\n" for n in "abcdef"})
    table = [
        (lambda: None, "6 new, 0 changed, 0 moved, 0 deleted, 0 unchanged"),
        (lambda: None, "0 new, 0 changed, 0 moved, 0 deleted, 6 unchanged"),
        (
            lambda: (folder / "a.md").write_text("another text\n"),
            "0 new, 1 changed, 0 moved, 0 deleted, 5 unchanged",
        ),
        (
            lambda: (folder / "b.md").rename(folder / "z.md"),
            "0 new, 0 changed, 1 moved, 0 deleted, 5 unchanged",
        ),
        (lambda: (folder / "c.md").unlink(), "0 new, 0 changed, 0 moved, 1 deleted, 5 unchanged"),
    ]
    for change, says in table:
        change()
        result = done(run("sync", str(folder), "--no-embed"))
        assert result.stdout == f"{says}\n"
        assert result.stderr == ""
    listed = [row["path"] for row in data(run("ls", "--json"))]
    assert listed == ["a.md", "d.md", "e.md", "f.md", "z.md"]
    assert "another text" in run("get", "a.md").stdout


def test_sync_as_json_names_every_path(run: Run, tmp_path: Path) -> None:
    folder = lay_out(tmp_path / "f", {"a.md": "one\n", "b.md": "two\n"})
    (folder / "bad.md").write_bytes(b"caf\xe9")
    result = run("sync", str(folder), "--json")
    report = data(result)
    assert report == {
        "root": str(folder),
        "created": ["a.md", "b.md"],
        "updated": [],
        "moved": [],
        "deleted": [],
        "written": [],
        "removed": [],
        "unchanged": 0,
        "read": 3,
        "conflicts": [],
        "problems": [{"path": "bad.md", "message": "the text is not UTF-8 (byte 3)"}],
        "embedded": {
            "model": STARTER,
            "documents": 2,
            "reused": 0,
            "passages": 2,
            "questions": 0,
            "failed": 0,
            "pending": 0,
            "error": None,
        },
        "questioned": None,
    }
    assert result.stderr == "Warning: bad.md: the text is not UTF-8 (byte 3)\n"
    (folder / "a.md").rename(folder / "c.md")
    assert data(run("sync", str(folder), "--json"))["moved"] == [["a.md", "c.md"]]


def test_sync_without_embedding_leaves_the_vectors_to_embed(run: Run, workspace: Path) -> None:
    result = done(run("sync", str(workspace), "--no-embed"))
    assert result.stdout.startswith("7 new, ")
    assert data(run("sync", str(workspace), "--no-embed", "--json"))["embedded"] is None
    assert data(run("status", "--json"))["pending"] == 7


def test_sync_does_not_follow_a_folder_that_has_lost_its_files(
    run: Run, database: Path, workspace: Path
) -> None:
    done(run("sync", str(workspace), "--no-embed"))
    shutil.rmtree(workspace / "knowledge" / "projects")
    (workspace / "knowledge" / "self" / "me.md").unlink()
    before = state(database)
    assert error_of(run("sync", str(workspace)), 1) == (
        f"5 of 7 mirrored files are gone from {workspace};"
        " no document was deleted (--force deletes them)"
    )
    assert state(database) == before
    result = done(run("sync", str(workspace), "--force", "--no-embed"))
    assert result.stdout == "0 new, 0 changed, 0 moved, 5 deleted, 2 unchanged\n"
    assert [row["path"] for row in data(run("ls", "--json"))] == [PATHS["day"], PATHS["launch"]]


def test_sync_of_a_folder_that_is_gone_needs_force(run: Run, workspace: Path) -> None:
    done(run("sync", str(workspace), "--no-embed"))
    shutil.rmtree(workspace)
    assert "nothing was deleted" in error_of(run("sync", str(workspace)), 1)
    assert data(run("status", "--json"))["documents"] == 7
    assert " 7 deleted," in done(run("sync", str(workspace), "--force")).stdout
    assert data(run("status", "--json"))["documents"] == 0


# add


def test_add_reads_standard_input(run: Run) -> None:
    result = done(run("add", "domains/whales.md", input="# About whales\n\nThey sing.\n"))
    assert (result.stdout, result.stderr) == ("created domains/whales.md\n", "")
    document = data(run("get", "domains/whales.md", "--json"))
    assert document["title"] == "About whales"
    assert document["body"] == "# About whales\n\nThey sing.\n"
    assert document["pending"] is False


def test_add_reads_a_file_with_a_header(run: Run, tmp_path: Path) -> None:
    file = tmp_path / "note.md"
    file.write_text(
        "---\ntitle: From the header\ntags: [one, two]\ndescription: What it is.\n"
        "created: 2026-01-02\nupdated: 2026-03-04T05:06:07+02:00\ncolour: red # mine\n---\nText.\n"
    )
    done(run("add", "a.md", str(file)))
    document = data(run("get", "a.md", "--json"))
    assert {name: document[name] for name in ("title", "tags", "description", "body")} == {
        "title": "From the header",
        "tags": ["one", "two"],
        "description": "What it is.",
        "body": "Text.\n",
    }
    assert document["created"] == "2026-01-02"
    assert document["updated"] == "2026-03-04T03:06:07Z"
    assert "colour: red # mine\n" in run("get", "a.md").stdout


@pytest.mark.parametrize(
    ("options", "title", "tags"),
    [
        ([], "Header", ["x", "y"]),
        (["--title", "Given"], "Given", ["x", "y"]),
        (["--tag", "a"], "Header", ["a"]),
        (["--title", "Given", "--tag", "a", "--tag", "b c"], "Given", ["a", "b c"]),
    ],
)
@pytest.mark.usefixtures("no_model")
def test_add_takes_title_and_tags_from_its_options_before_the_header(
    run: Run, options: list[str], title: str, tags: list[str]
) -> None:
    text = "---\ntitle: Header\ntags: [x, y]\n---\nText.\n"
    done(run("add", "a.md", *options, input=text))
    document = data(run("get", "a.md", "--json"))
    assert (document["title"], document["tags"]) == (title, tags)
    assert f"title: {title}\n" in run("get", "a.md").stdout


def test_add_says_whether_the_document_is_new_replaced_or_the_same(run: Run) -> None:
    table = [("one\n", "created"), ("one\n", "unchanged"), ("two\n", "replaced")]
    for text, action in table:
        assert data(run("add", "a.md", "--json", input=text)) == {
            "path": "a.md",
            "action": action,
            "pending": False,
            "note": None,
        }
    with sqlite3.connect(data(run("status", "--json"))["path"]) as database:
        assert database.execute("select body from document_version").fetchall() == [("one\n",)]


def test_add_tells_what_it_could_not_read_in_the_header_and_keeps_the_text(run: Run) -> None:
    text = "---\ntitle: [a]\nupdated: 2026-02-30\n---\nThe text.\n"
    result = done(run("add", "a.md", input=text))
    assert result.stdout == "created a.md\n"
    assert result.stderr.splitlines() == [
        "Warning: a.md: title is a list, not a text; left out",
        "Warning: a.md: updated is '2026-02-30', not a date such as 2026-12-01; left out",
    ]
    assert data(run("get", "a.md", "--json"))["body"] == "The text.\n"


@pytest.mark.parametrize("text", ["", "  \n\t\n", "---\ntitle: Only a header\n---\n"])
@pytest.mark.usefixtures("no_model")
def test_an_empty_text_replaces_another_only_on_request(run: Run, text: str) -> None:
    assert error_of(run("add", "a.md", input=text), 2) == (
        "a.md: the text is empty; nothing is stored"
    )
    done(run("add", "a.md", input="Something.\n"))
    assert error_of(run("add", "a.md", input=text), 2) == (
        "a.md: the text is empty; the stored one is kept; `kbstore rm` deletes it"
    )
    assert data(run("get", "a.md", "--json"))["body"] == "Something.\n"
    assert done(run("add", "a.md", "--empty", input=text)).stdout == "replaced a.md\n"
    assert data(run("get", "a.md", "--json"))["body"].strip() == ""


def test_a_text_that_is_not_utf_8_is_refused_wherever_it_comes_from(
    run: Run, base: Path, tmp_path: Path
) -> None:
    bad = "naïve".encode("latin-1")
    (tmp_path / "bad.md").write_bytes(bad)
    before = state(base)
    for result in (run("add", "a.md", input=bad), run("add", "a.md", str(tmp_path / "bad.md"))):
        assert error_of(result, 2) == "a.md: the text is not UTF-8 (byte 2)"
    assert state(base) == before


# get


def test_get_prints_the_markdown_with_its_header(run: Run, base: Path) -> None:
    result = done(run("get", PATHS["plan"]))
    assert result.stdout == WORKSPACE["knowledge/projects/atlas/plan.md"]
    assert result.stderr == ""


def test_get_as_json_has_every_field(run: Run, base: Path) -> None:
    document = data(run("get", PATHS["launch"], "--json"))
    assert document.pop("id") > 0
    assert document.pop("content_hash")
    assert document.pop("created") is None
    assert document == {
        "path": "skills/launch/SKILL.md",
        "title": "launch",
        "tags": [],
        "description": "How to launch a boat.",
        "body": "Leave the harbour slowly.\n",
        "topic": "skills",
        "type": "skill",
        "updated": "2026-03-05T23:30:00Z",
        "frontmatter": (
            "name: launch\ndescription: How to launch a boat.\nupdated: 2026-03-05T23:30:00Z\n"
        ),
        "pending": True,
    }


TITLES = [
    "plain",
    "say \"hi\" to 'all'",
    "line one\nline two",
    "a\n\nb",
    "# no comment # here",
    "issue #12 # done",
    "🚀 部署 é",
    "Governance: plan",
    "- dash",
    "{x}",
    "@x",
    "!tag",
    "%",
    "yes",
    "null",
    "007",
    "2024-01-02",
    "back\\slash\\",
    "tab\there",
    "[a, b]",
    "'",
    "---",
    "separator\u2028here",
    "next line\x85here",
]
TAGS = [
    ("one", "two"),
    ("a, b", "x # y", "[z]", "k: v", "007", "yes"),
    ('q"uote', "o'clock", "🚀"),
    ("'tis", 'say "hi"'),
]
BODIES = [
    "plain\n",
    "no newline at the end",
    "\n\n  space around it  \n\n\n",
    "---\nnot: a header\n---\n\nA rule, then text.\n",
    "# Heading\n\n---\n\n```\ncode\n```\n",
    "odd \u2028 separators \x0c and \x85 more\n",
    "lines that end\r\nas on Windows\r\n",
]


@pytest.mark.parametrize(
    ("title", "tags", "body"),
    [
        *((title, TAGS[0], BODIES[0]) for title in TITLES),
        *(("x", tags, BODIES[0]) for tags in TAGS[1:]),
        *(("x", TAGS[0], body) for body in BODIES[1:]),
    ],
    ids=lambda value: ascii(value)[:30],
)
@pytest.mark.usefixtures("no_model")
def test_what_get_prints_add_stores_as_it_was(
    run: Run, database: Path, title: str, tags: tuple[str, ...], body: str
) -> None:
    with kbstore.Store(database, embedder=None) as store:
        store.put("a.md", body, title=title, tags=tags, created="2026-01-02", updated="2026-03-04")
    same = ("title", "tags", "description", "body", "created", "updated", "content_hash")
    printed = run("get", "a.md").stdout_bytes
    before = data(run("get", "a.md", "--json"))
    done(run("add", "a.md", input=printed))
    done(run("add", "copy.md", input=printed))
    for path in ("a.md", "copy.md"):
        after = data(run("get", path, "--json"))
        assert {key: after[key] for key in same} == {key: before[key] for key in same}
        assert run("get", path).stdout_bytes == printed
    assert run("add", "a.md", input=printed).stdout == "unchanged a.md\n"


def test_an_odd_header_comes_back_as_it_was_written(run: Run) -> None:
    text = (
        "---\n# about this note\nzeta: 007\ntitle:   'Spaced'\nalpha: {a: 1}\n\n"
        "tags:\n  - one\n  - two # second\ncreated: 2026-01-02\nupdated: 2026-03-04\n---\n\nText.\n"
    )
    done(run("add", "a.md", input=text))
    assert run("get", "a.md").stdout == text


# ls


def test_ls_prints_path_day_and_title_of_each_document(run: Run, base: Path) -> None:
    result = done(run("ls"))
    assert result.stdout.splitlines() == [
        "journal/2026-02-10.md         2026-02-10  2026-02-10",
        "projects/atlas.md             2026-02-01  Atlas",
        "projects/atlas/notes/risk.md  2026-03-10  Risks",
        "projects/atlas/plan.md        2026-03-01  Atlas plan",
        "projects/atlas2/other.md      2026-02-02  Second atlas",
        "self/me.md                    2026-01-15  Myself",
        "skills/launch/SKILL.md        2026-03-05  launch",
    ]
    assert result.stderr == ""


@pytest.mark.parametrize(
    ("arguments", "names"),
    [
        ([], "plan risk atlas other me day launch"),
        (["projects"], "plan risk atlas other"),
        (["projects/"], "plan risk atlas other"),
        (["projects/atlas"], "plan risk"),
        (["projects/atlas/notes"], "risk"),
        (["proj"], ""),
        (["--type", "kb"], "plan risk atlas other me"),
        (["--type", "skill"], "launch"),
        (["--type", "journal"], "day"),
        (["--tag", "planning"], "plan risk"),
        (["--tag", "ATLAS"], "plan"),
        (["--tag", "atlas2"], ""),
        (["projects", "--type", "journal"], ""),
        (["projects/atlas", "--tag", "atlas"], "plan"),
    ],
)
def test_ls_lists_by_topic_type_and_tag(
    run: Run, base: Path, arguments: list[str], names: str
) -> None:
    rows = data(run("ls", *arguments, "--json"))
    assert [row["path"] for row in rows] == sorted(PATHS[name] for name in names.split())


def test_ls_as_json_has_every_field(run: Run, base: Path) -> None:
    assert data(run("ls", "projects/atlas", "--tag", "atlas", "--json")) == [
        {
            "path": "projects/atlas/plan.md",
            "title": "Atlas plan",
            "tags": ["atlas", "Planning"],
            "topic": "projects",
            "type": "kb",
            "created": None,
            "updated": "2026-03-01",
            "characters": 37,
            "passages": 0,
            "questions": 0,
            "pending": True,
        }
    ]


def test_ls_of_an_empty_base_prints_nothing(run: Run) -> None:
    run("init")
    assert done(run("ls")).output == ""
    assert data(run("ls", "--json")) == []


# rm and mv


def test_rm_deletes_and_keeps_the_text_in_the_history(run: Run, base: Path) -> None:
    result = done(run("rm", PATHS["plan"], PATHS["me"]))
    assert result.stdout == "deleted projects/atlas/plan.md\ndeleted self/me.md\n"
    assert len(data(run("ls", "--json"))) == 5
    assert found(run("search", "board dusk", "--json")) == []
    with sqlite3.connect(base) as database:
        rows = database.execute("select path, event from document_version order by path").fetchall()
    assert rows == [("projects/atlas/plan.md", "delete"), ("self/me.md", "delete")]


@pytest.mark.parametrize(
    ("paths", "code"),
    [
        (["self/me.md", "none.md"], 3),
        (["none.md", "self/me.md"], 3),
        (["self/me.md", "../x"], 2),
        (["self/me.md", "projects/atlas.md", "self"], 3),
    ],
)
def test_rm_deletes_all_or_none(run: Run, base: Path, paths: list[str], code: int) -> None:
    before = state(base)
    error_of(run("rm", *paths), code)
    assert state(base) == before


def test_mv_gives_another_path_and_keeps_vectors_and_text(run: Run, database: Path) -> None:
    done(run("add", "a.md", input="The octopus has three hearts.\n"))
    before = data(run("get", "a.md", "--json"))
    assert done(run("mv", "a.md", "animals/b.md")).stdout == "moved a.md to animals/b.md\n"
    after = data(run("get", "animals/b.md", "--json"))
    assert after["pending"] is False
    # The title was the file's name, and is so still.
    assert after == before | {"path": "animals/b.md", "topic": "animals", "title": "b"}
    error_of(run("get", "a.md"), 3)
    hits = data(run("search", "octopus hearts", "--json"))["hits"]
    assert [hit["path"] for hit in hits] == ["animals/b.md"]
    assert hits[0]["retrievers"]["vectors"]["rank"] == 1


def test_mv_never_overwrites(run: Run, base: Path) -> None:
    before = state(base)
    assert error_of(run("mv", PATHS["me"], PATHS["plan"]), 1) == (
        "there is a document projects/atlas/plan.md already; self/me.md stays where it is"
    )
    assert state(base) == before


# search


def test_search_prints_rank_path_title_and_snippet(run: Run, base: Path) -> None:
    result = run("search", "dusk", "--retriever", "words")
    assert done(result).stdout == (
        "  1  self/me.md  Myself\n     I like the harbour at **dusk**.\n"
    )
    assert result.stderr == ""


def test_search_joins_its_arguments_to_one_query(run: Run, base: Path) -> None:
    assert data(run("search", "ice", "in the", "harbour", "--json"))["query"] == (
        "ice in the harbour"
    )


def test_search_takes_words_that_begin_with_a_dash_after_two_dashes(run: Run) -> None:
    done(run("add", "a.md", input="Call it with --error-on-warnings or -x.\n"))
    done(run("add", "b.md", input="Another note.\n"))
    for words in (["--error-on-warnings"], ["-x"], ["--", "-x"]):
        assert found(run("search", "--json", "--retriever", "words", "--", *words)) == ["a.md"]


@pytest.fixture(scope="module")
def answered_template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three notes with vectors by the starter model; the first has a question that it answers."""
    file = tmp_path_factory.mktemp("answered") / "kb.sqlite3"
    starter = kbstore.embed.LocalEmbedder(kbstore.embed.STARTER.parent)
    with kbstore.Store(file, embedder=starter) as store:
        store.put("domains/retries.md", "Back off, then try again.\n", title="HTTP retries")
        store.put("journal/2026-11-01.md", "Today the retries helped after an outage.\n")
        store.put("skills/deploy/SKILL.md", "Deploy slowly, watch the retries.\n")
        store.connection.execute(
            "insert into question (document_id, text)"
            " select id, 'How often do we call a failing server?' from document"
            " where path = 'domains/retries.md'"
        )
        assert store.embed().questions == 1
    return file


@pytest.fixture
def answered(answered_template: Path, database: Path) -> Path:
    shutil.copy(answered_template, database)
    return database


def test_search_as_json_is_a_contract(run: Run, answered: Path) -> None:
    result = run("search", "How often do we call a failing server?", "--json", "--now=2026-12-01")
    answer = data(result)
    assert result.stderr == ""
    assert list(answer) == ["query", "hits", "degraded", "model", "displaced"]
    assert answer["displaced"] == []
    assert answer["query"] == "How often do we call a failing server?"
    assert answer["degraded"] == []
    assert answer["model"] == STARTER
    assert len(answer["hits"]) == 3
    for hit in answer["hits"]:
        assert list(hit) == [
            "path", "title", "tags", "type", "topic", "updated", "score", "snippet", "type_weight",
            "recency", "rank_without_age", "matched_question", "retrievers",
        ]  # fmt: skip
        assert list(hit["retrievers"]) == ["frontmatter", "words", "vectors"]
        for evidence in hit["retrievers"].values():
            assert evidence is None or list(evidence) == ["rank", "score", "contribution"]
    first = answer["hits"][0]
    assert (first["path"], first["title"]) == ("domains/retries.md", "HTTP retries")
    assert (first["type"], first["topic"]) == ("kb", "domains")
    assert first["matched_question"] == "How often do we call a failing server?"
    assert first["retrievers"]["vectors"]["rank"] == 1
    assert first["retrievers"]["vectors"]["score"] == pytest.approx(1, abs=1e-4)
    assert {hit["matched_question"] for hit in answer["hits"][1:]} == {None}


def test_the_score_is_type_weight_times_recency_times_what_the_retrievers_add(
    run: Run, answered: Path
) -> None:
    hits = data(run("search", "retries after an outage", "--json", "--now=2026-12-01"))["hits"]
    assert {hit["path"]: (hit["type_weight"], round(hit["recency"], 6)) for hit in hits} == {
        "domains/retries.md": (1.0, 1.0),
        "journal/2026-11-01.md": (0.8, 0.5),
        "skills/deploy/SKILL.md": (1.2, 1.0),
    }
    for hit in hits:
        added = sum(e["contribution"] for e in hit["retrievers"].values() if e)
        assert added > 0
        assert hit["score"] == pytest.approx(hit["type_weight"] * hit["recency"] * added, rel=1e-12)
    assert [hit["score"] for hit in hits] == sorted((h["score"] for h in hits), reverse=True)


def test_explain_shows_the_same_numbers(run: Run, answered: Path) -> None:
    query = ["search", "how often do we call a failing server, with retries", "--now=2026-12-01"]
    hits = data(run(*query, "--json"))["hits"]
    result = run(*query, "--explain")
    blocks = re.split(r"^ +\d+  (?=\w+/)", done(result).stdout, flags=re.MULTILINE)[1:]
    assert len(blocks) == len(hits) == 3
    for hit, block in zip(hits, blocks, strict=True):
        assert block.startswith(f"{hit['path']}  {hit['title']}\n")
        shown = {
            name: (int(rank), float(score), float(adds))
            for name, rank, score, adds in re.findall(
                r"^ +(\w+) +rank (\d+) +score (\S+) +adds (\S+)$", block, re.MULTILINE
            )
        }
        expected = {name: e for name, e in hit["retrievers"].items() if e}
        assert shown.keys() == expected.keys()
        for name, evidence in expected.items():
            assert shown[name][0] == evidence["rank"]
            assert shown[name][1] == pytest.approx(evidence["score"], abs=1e-4)
            assert shown[name][2] == pytest.approx(evidence["contribution"], abs=1e-5)
        assert block.endswith(
            f"type {hit['type']} x {hit['type_weight']:g}, recency x {hit['recency']:.3f}"
            f" (updated {hit['updated']}), score {hit['score']:.5f}\n"
        )
    assert "question     How often do we call a failing server?\n" in blocks[0]
    assert result.stderr == f"Vectors by {STARTER}.\n"


@pytest.mark.parametrize(
    "chosen",
    [
        [],
        ["frontmatter"],
        ["words"],
        ["vectors"],
        ["frontmatter", "words"],
        ["vectors", "words"],
        ["vectors", "frontmatter"],
        ["words", "vectors", "frontmatter"],
    ],
    ids=lambda chosen: "+".join(chosen) or "all",
)
def test_only_the_chosen_retrievers_have_a_say(run: Run, answered: Path, chosen: list[str]) -> None:
    options = [part for name in chosen for part in ("--retriever", name)]
    answer = data(run("search", "HTTP retries", "--json", *options))
    asked = set(chosen or ["frontmatter", "words", "vectors"])
    spoke = {name for hit in answer["hits"] for name, e in hit["retrievers"].items() if e}
    assert spoke == asked
    assert answer["hits"][0]["path"] == "domains/retries.md"
    assert len(answer["hits"]) == (1 if chosen == ["frontmatter"] else 3)
    assert answer["model"] == (STARTER if "vectors" in asked else None)


@pytest.mark.parametrize(
    ("options", "names"),
    [
        ([], "plan risk atlas other me day launch"),
        (["--topic", "projects"], "plan risk atlas other"),
        (["--topic", "/projects/"], "plan risk atlas other"),
        (["--topic", "projects/atlas"], "plan risk"),
        (["--topic", "projects/atlas/notes"], "risk"),
        (["--topic", "proj"], ""),
        (["--topic", "self/me.md"], ""),
        (["--type", "kb"], "plan risk atlas other me"),
        (["--type", "skill"], "launch"),
        (["--type", "journal"], "day"),
        (["--tag", "planning"], "plan risk"),
        (["--tag", "ATLAS"], "plan"),
        (["--tag", "plan"], ""),
        (["--since", "2026-03-01"], "plan risk launch"),
        (["--since", "2026-03-02"], "risk launch"),
        (["--until", "2026-02-01"], "atlas me"),
        (["--since", "2026-03-05", "--until", "2026-03-05"], "launch"),
        (["--since", "2026-03-06", "--until", "2026-03-05"], ""),
        (["--until", "2026-03-05T23:29:59Z", "--type", "skill"], ""),
        (["--until", "2026-03-06T00:30:00+01:00", "--type", "skill"], "launch"),
        (["--topic", "projects", "--tag", "planning", "--until", "2026-03-05"], "plan"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else None,
)
def test_filters(run: Run, base: Path, options: list[str], names: str) -> None:
    result = run("search", "harbour", "--json", "--retriever=words", "-n", "50", *options)
    assert sorted(found(result)) == sorted(PATHS[name] for name in names.split())


def test_limit_is_how_many_hits_come_back_and_ten_by_default(run: Run, database: Path) -> None:
    with kbstore.Store(database, embedder=None) as store:
        for number in range(25):
            store.put(f"n/{number:02}.md", f"harbour note {number}", defer=True)
    full = found(run("search", "harbour", "--json", "--limit", "25"))
    assert len(full) == 25
    for options, count in (([], 10), (["-n", "1"], 1), (["--limit=24"], 24), (["-n5000"], 25)):
        assert found(run("search", "harbour", "--json", *options)) == full[:count]


@pytest.mark.parametrize("words", [[], [""], ["  "], ["\t", "\n"], ["\u3000"]], ids=repr)
def test_an_empty_query_is_a_usage_error(run: Run, base: Path, words: list[str]) -> None:
    message = usage_error_of(run("search", *words))
    assert message in ("the query is empty", "Missing argument 'QUERY...'.")


@pytest.mark.parametrize("query", ["zeppelin", "?", "…", "***", "🙂 🚀", '""'])
def test_no_hits_is_no_error(run: Run, base: Path, query: str) -> None:
    result = run("search", query, "--retriever", "words")
    assert done(result).stdout == ""
    assert result.stderr == "No results.\n"
    assert data(run("search", query, "--json", "--retriever", "words")) == {
        "query": query,
        "hits": [],
        "degraded": [],
        "model": None,
        "displaced": [],
    }


def test_bytes_that_are_no_text_in_a_query_are_no_reason_to_fail(run: Run, base: Path) -> None:
    query = os.fsdecode(b"harbour caf\xe9")  # as the shell hands over what was typed in Latin-1
    for result in (run("search", query), run("search", "--json", query)):
        assert done(result).stdout.count("harbour") >= 7
    assert len(found(run("search", "--json", query))) == 7


def test_search_says_how_many_documents_have_no_vectors_yet(run: Run, base: Path) -> None:
    result = run("search", "harbour")
    assert done(result).stdout.startswith("  1  ")
    assert notes(result) == ["7 of 7 documents have no vectors yet; `kbstore embed` makes them"]
    as_json = run("search", "harbour", "--json")
    assert data(as_json)["degraded"] == notes(as_json) == notes(result)
    assert notes(run("search", "harbour", "--retriever", "words")) == []


def test_reading_never_writes(run: Run, answered: Path) -> None:
    before = state(answered)
    for command in (
        ["search", "retries"],
        ["search", "retries", "--json", "--explain"],
        ["ls"],
        ["get", "domains/retries.md"],
        ["status"],
    ):
        done(run(*command))
        assert state(answered) == before


# embed


def test_embed_makes_the_missing_vectors_and_says_how_many(run: Run, base: Path) -> None:
    first = run("embed", "--limit", "3")
    assert done(first).stdout == (
        "3 documents embedded in 3 passages, 0 reused, 0 questions, 0 failed, 4 pending\n"
    )
    assert notes(first) == [
        "4 documents have no vectors yet and are found by words only; `kbstore embed` makes them"
    ]
    second = run("embed", "--json")
    assert data(second) == {
        "model": STARTER,
        "documents": 4,
        "reused": 0,
        "passages": 4,
        "questions": 0,
        "failed": 0,
        "pending": 0,
        "error": None,
    }
    assert second.stderr == ""
    assert done(run("embed")).stdout.startswith("0 documents embedded in 0 passages, ")
    assert len(found(run("search", "boats", "--json", "--retriever", "vectors"))) == 7


# status


def test_status_as_json_is_a_contract(run: Run, base: Path) -> None:
    found = data(run("status", "--json"))
    assert found.pop("size") == base.stat().st_size
    assert found == {
        "path": str(base),
        "schema_version": 2,
        "documents": 7,
        "skills": 1,
        "journals": 1,
        "pending": 7,
        "unquestioned": 0,
        "failed": 0,
        "last_error": None,
        "passages": 0,
        "questions": 0,
        "versions": 0,
        "model": None,
        "available_model": STARTER,
        "hype_model": None,
        "sqlite_vec": "v0.1.9",
        "degraded": ["7 of 7 documents have no vectors yet; `kbstore embed` makes them"],
    }


def test_status_prints_a_line_for_each(run: Run, base: Path) -> None:
    run("embed", "--limit", "2")
    result = done(run("status"))
    lines = dict(re.split(r" {2,}", line, maxsplit=1) for line in result.stdout.splitlines())
    assert lines["path"] == str(base)
    assert (lines["documents"], lines["pending"], lines["passages"]) == ("7", "5", "2")
    assert lines["model"] == lines["available model"] == STARTER
    assert notes(result) == ["5 of 7 documents have no vectors yet; `kbstore embed` makes them"]


# demo


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Result]:
    """What `kbstore demo` prints; it is run once."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tempfile, "tempdir", str(tmp_path_factory.mktemp("demo")))
        patch.setenv("HOME", str(tmp_path_factory.mktemp("home")))
        for name in [name for name in os.environ if name.startswith("KBSTORE_")]:
            patch.delenv(name)
        yield click.testing.CliRunner().invoke(cli.main, ["demo"], catch_exceptions=False)


QUESTIONS = json.loads((Path(cli.__file__).parent / "sample" / "questions.json").read_text())


def test_demo_says_what_it_has_made(demo: Result) -> None:
    assert done(demo).stdout.startswith(f"23 notes in one file, vectors by the {STARTER}.\n")
    assert demo.stderr == ""


@pytest.mark.parametrize("question", QUESTIONS, ids=lambda question: question["query"][:30])
def test_demo_answers_its_questions(demo: Result, question: dict[str, str]) -> None:
    after = demo.stdout.split(f"\n{question['query']}    ({question['why']})\n", 1)[1]
    ranked = re.findall(r"^ +(\d)  (\S+\.md) ", after.split("\n\n")[0], re.MULTILINE)
    assert [rank for rank, _ in ranked] == ["1", "2", "3", "4"]
    assert ranked[0][1] == question["expect"]


def test_demo_ends_with_lines_for_the_shell_that_work(demo: Result) -> None:
    opened, empty, *lines = demo.stdout.splitlines()[-5:]
    assert (empty, len(lines)) == ("", 3)
    assert opened.startswith("sqlite3 ")
    file = Path(opened.removeprefix("sqlite3 "))
    assert file.is_file()
    done = subprocess.run(
        ["sqlite3", "-batch", str(file)], input="\n".join(lines), capture_output=True, text=True
    )
    assert (done.returncode, done.stderr) == (0, "")
    rows = done.stdout.splitlines()
    assert len(rows) > 8
    assert {row.split("|")[1] for row in rows[8:10]} == {
        "domains/http-retries.md",
        "journal/2026-11-28.md",
    }


# sql


@pytest.mark.parametrize("name", ["search", "search_words", "schema", "views", "vectors"])
def test_sql_prints_a_file_or_where_it_is(run: Run, name: str) -> None:
    place = Path(done(run("sql", name, "--path")).stdout.rstrip("\n"))
    assert place == queries.SQL_FOLDER / f"{name}.sql"
    assert done(run("sql", name)).stdout.rstrip("\n") == place.read_text().rstrip("\n")


# Errors


@pytest.mark.parametrize(
    ("command", "code"),
    [
        (["get", "none.md"], 3),
        (["get", "../x"], 2),
        (["get", ""], 2),
        (["get", "self"], 3),
        (["rm", "none.md"], 3),
        (["rm", "/etc/passwd"], 2),
        (["mv", "none.md", "x.md"], 3),
        (["mv", "self/me.md", "a/../b.md"], 2),
        (["mv", "self/me.md", "projects/atlas.md"], 1),
        (["mv", "self/me.md", "x" * 600], 2),
        (["add", "/etc/passwd"], 2),
        (["add", "a//b.md"], 2),
        (["add", "a/./b.md"], 2),
        (["add", "a/../../b.md"], 2),
        (["add", "a\\b.md"], 2),
        (["add", "a\nb.md"], 2),
        (["add", "a\0b.md"], 2),
        (["add", "caf\udce9.md"], 2),
        (["add", "x" * 600 + ".md"], 2),
        (["add", "a.md", "--title", " "], 2),
        (["add", "a.md", "--title", "x" * 2000], 2),
        (["add", "a.md", "--tag", " "], 2),
        (["add", "a.md", "--tag", "x" * 300], 2),
        (["sync", "no/such/folder"], 3),
        (["search", "x", "--since", "yesterday"], 2),
        (["search", "x", "--since", "2026-02-30"], 2),
        (["search", "x", "--until", "03/02/2026"], 2),
        (["search", "x", "--until", "12"], 2),
        (["search", "x", "--now", ""], 2),
        (["search", "x", "--limit", "0"], 2),
        (["search", "x", "--limit", "-1"], 2),
        (["search", "x", "--limit", "100001"], 2),
        (["search", "x", "--limit", "9" * 30], 2),
    ],
    ids=lambda value: ascii(" ".join(value))[:50] if isinstance(value, list) else None,
)
def test_what_is_refused_leaves_one_line_and_the_database_as_it_was(
    run: Run, base: Path, command: list[str], code: int
) -> None:
    before = state(base)
    error_of(run(*command, input="some text\n"), code)
    assert state(base) == before


def test_a_text_with_a_nul_is_refused(run: Run, base: Path) -> None:
    before = state(base)
    assert "NUL" in error_of(run("add", "a.md", input="a\0b"), 2)
    assert state(base) == before


@pytest.mark.parametrize(
    ("command", "says"),
    [
        (["frobnicate"], "No such command 'frobnicate'."),
        (["search", "x", "--frob"], "No such option"),
        (["search", "x", "--type", "blog"], "'blog' is not one of 'kb', 'skill', 'journal'"),
        (["search", "x", "--retriever", "luck"], "'luck' is not one of"),
        (["search", "x", "--limit", "many"], "'many' is not a valid integer"),
        (["ls", "--type", "blog"], "'blog' is not one of"),
        (["get"], "Missing argument 'PATH'"),
        (["get", "a.md", "b.md"], "unexpected extra argument"),
        (["rm"], "Missing argument 'PATH...'"),
        (["mv", "a.md"], "Missing argument 'NEW'"),
        (["add", "a.md", "no-such-file.md"], "No such file or directory"),
        (["embed", "--limit", "0"], "0 is not in the range x>=1"),
        (["sql", "../../etc/passwd"], "is not one of"),
        (["export"], "Missing argument 'DIR'"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else None,
)
def test_a_wrong_use_is_told_and_changes_nothing(
    run: Run, base: Path, command: list[str], says: str
) -> None:
    before = state(base)
    assert says in usage_error_of(run(*command))
    assert state(base) == before


@pytest.mark.parametrize("command", ["", *sorted(cli.main.commands)])
def test_every_command_explains_itself(run: Run, command: str) -> None:
    for option in ("--help", "-h"):
        result = done(run(*command.split(), option))
        assert result.stdout.startswith("Usage: ")
        assert result.stderr == ""
    help_line = (cli.main.commands[command] if command else cli.main).help
    assert help_line
    assert all(word in result.stdout for word in help_line.split("\n\n")[0].split())


def test_version(run: Run) -> None:
    assert done(run("--version")).stdout == f"kbstore, version {kbstore.__version__}\n"


def test_a_real_process_says_nothing_but_its_own_lines(tmp_path: Path) -> None:
    """What libraries chat while they load and embed is seen by nobody."""
    folder = lay_out(tmp_path / "f", {f"{n}.md": f"A note about the number {n}.\n" for n in "abc"})
    (folder / "bad.md").write_bytes(b"\xff")
    environment = os.environ | {"KBSTORE_DB": str(tmp_path / "kb.sqlite3")}

    def process(*arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "kbstore", *arguments],
            capture_output=True,
            text=True,
            env=environment,
        )

    synced = process("sync", str(folder))
    assert synced.stderr == "Warning: bad.md: the text is not UTF-8 (byte 0)\n"
    assert synced.stdout == "3 new, 0 changed, 0 moved, 0 deleted, 0 unchanged\n"
    searched = process("search", "number", "--json")
    assert searched.stderr == ""
    answer = json.loads(searched.stdout)
    assert answer["model"] == STARTER
    assert {h["path"] for h in answer["hits"] if h["retrievers"]["vectors"]} == {
        "a.md",
        "b.md",
        "c.md",
    }
    assert (synced.returncode, searched.returncode) == (0, 0)


# Without the model


NO_MODEL = "no local model: the package gpt4all is not installed"


@pytest.mark.usefixtures("no_model")
def test_without_the_model_notes_are_stored_and_found_by_words(run: Run, workspace: Path) -> None:
    added = run("add", "a.md", input="The octopus has three hearts.\n")
    assert done(added).stdout == "created a.md\n"
    assert len(notes(added)) == 1
    assert NO_MODEL in notes(added)[0]
    report = data(run("add", "b.md", "--json", input="The squid has three, too.\n"))
    assert (report["action"], report["pending"]) == ("created", True)
    assert NO_MODEL in report["note"]
    synced = run("sync", str(workspace))
    assert done(synced).stdout.startswith("7 new, ")
    assert any(NO_MODEL in note for note in notes(synced))
    assert found(run("search", "octopus", "--json")) == ["a.md"]
    found_by = data(run("search", "octopus", "--json"))["hits"][0]["retrievers"]
    assert found_by["words"]["rank"] == 1
    assert found_by["vectors"] is None


@pytest.mark.usefixtures("no_model")
def test_without_the_model_a_search_says_so_in_one_clear_line(run: Run, base: Path) -> None:
    result = run("search", "harbour")
    assert done(result).stdout.startswith("  1  ")
    (note,) = notes(result)
    assert note.startswith("searched by words only: ")
    assert NO_MODEL in note
    assert "KBSTORE_INFERENCE_MODE=remote" in note
    assert data(run("search", "harbour", "--json"))["model"] is None


@pytest.mark.usefixtures("no_model")
def test_without_the_model_status_counts_what_is_pending(run: Run, base: Path) -> None:
    state = data(run("status", "--json"))
    assert (state["documents"], state["pending"], state["passages"]) == (7, 7, 0)
    assert (state["model"], state["available_model"]) == (None, None)
    assert any(NO_MODEL in sentence for sentence in state["degraded"])
    printed = run("status")
    assert re.search(r"^pending +7$", done(printed).stdout, re.MULTILINE)
    assert any(NO_MODEL in note for note in notes(printed))


@pytest.mark.usefixtures("no_model")
def test_without_the_model_embed_fails_with_one_error(run: Run, base: Path) -> None:
    for options in ([], ["--json"]):
        result = run("embed", *options)
        assert result.exit_code == 1
        errors = [line for line in result.stderr.splitlines() if line.startswith("Error: ")]
        assert len(errors) == 1, result.stderr
        assert NO_MODEL in errors[0]
    report = json.loads(result.stdout)
    assert (report["documents"], report["pending"]) == (0, 7)
    assert NO_MODEL in report["error"]


def test_when_the_model_is_back_what_was_pending_is_embedded(
    run: Run, base: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(kbstore.embed, "find_spec", lambda name: None)
        done(run("add", "late.md", input="The octopus has three hearts.\n"))
        assert data(run("status", "--json"))["pending"] == 8
    assert data(run("embed", "--json"))["documents"] == 8
    state = data(run("status", "--json"))
    assert (state["pending"], state["failed"], state["last_error"]) == (0, 0, None)
    assert data(run("search", "octopus", "--json"))["degraded"] == []


def test_vectors_without_their_model_are_not_used(
    run: Run, answered: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kbstore.embed, "find_spec", lambda name: None)
    result = run("search", "retries", "--json")
    answer = data(result)
    assert len(answer["hits"]) == 3
    assert {hit["retrievers"]["vectors"] for hit in answer["hits"]} == {None}
    assert len(notes(result)) == 1
    assert data(run("status", "--json"))["pending"] == 0


# Without the extension


def raising() -> str:
    raise FileNotFoundError("no build for this processor")


@pytest.fixture(params=["raises", "points nowhere"])
def no_extension(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """sqlite-vec cannot be loaded."""
    path = raising if request.param == "raises" else lambda: "/no/such/place/vec0"
    monkeypatch.setattr(sqlite_vec, "loadable_path", path)


@pytest.mark.usefixtures("no_extension")
def test_without_the_extension_everything_works_by_words(run: Run, workspace: Path) -> None:
    done(run("init"))
    assert done(run("sync", str(workspace))).stdout.startswith("7 new, ")
    assert done(run("add", "a.md", input="The octopus has three hearts.\n")).exit_code == 0
    done(run("mv", "a.md", "b.md"))
    done(run("rm", PATHS["me"]))
    result = run("search", "octopus")
    assert done(result).stdout == "  1  b.md  b\n     The **octopus** has three hearts.\n"
    (note,) = notes(result)
    assert note.startswith("searched by words only: the sqlite-vec extension cannot be loaded (")
    assert note.endswith("; `pip install sqlite-vec==0.1.9` brings it")
    assert len(found(run("search", "harbour", "--json"))) == 6
    assert data(run("search", "harbour", "--json"))["model"] is None


@pytest.mark.usefixtures("no_extension")
def test_without_the_extension_status_says_so(run: Run, base: Path) -> None:
    state = data(run("status", "--json"))
    assert (state["documents"], state["pending"]) == (7, 7)
    assert state["sqlite_vec"] is None
    assert "the sqlite-vec extension cannot be loaded" in state["degraded"][0]
    assert notes(run("status")) == state["degraded"]


def test_what_was_stored_without_the_extension_is_found_by_meaning_when_it_is_back(
    run: Run, answered: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(sqlite_vec, "loadable_path", raising)
        done(run("add", "late.md", input="The octopus has three hearts.\n"))
    answer = data(run("search", "octopus hearts", "--json", "--retriever", "vectors"))
    assert answer["hits"][0]["path"] == "late.md" or answer["degraded"]  # found, or told
    done(run("embed"))
    answer = data(run("search", "octopus hearts", "--json", "--retriever", "vectors"))
    assert answer["hits"][0]["path"] == "late.md"
    assert answer["degraded"] == []


def test_a_base_made_without_the_extension_gets_its_vectors_at_the_next_embed(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(sqlite_vec, "loadable_path", raising)
        done(run("add", "a.md", input="The octopus has three hearts.\n"))
    result = run("search", "octopus")
    assert done(result).stdout.startswith("  1  a.md")
    (note,) = notes(result)
    assert "`kbstore embed` makes them" in note
    done(run("embed"))
    answer = data(run("search", "octopus", "--json"))
    assert answer["hits"][0]["retrievers"]["vectors"]["rank"] == 1
    assert answer["degraded"] == []


def test_add_without_a_header_keeps_title_and_tags(run: Run) -> None:
    done(run("add", "a.md", "--title", "Storage", "--tag", "sqlite", input="first\n"))
    done(run("add", "a.md", input="second\n"))
    note = data(run("get", "a.md", "--json"))
    assert (note["title"], note["tags"], note["body"]) == ("Storage", ["sqlite"], "second\n")
    done(run("add", "a.md", input="---\ntitle: New\n---\nthird\n"))  # a header says it all
    note = data(run("get", "a.md", "--json"))
    assert (note["title"], note["tags"], note["body"]) == ("New", [], "third\n")


def test_what_no_word_has_found_is_marked(run: Run) -> None:
    done(run("add", "a.md", input="shellfish allergy\n"))
    assert "(by meaning only)" in done(run("search", "seafood")).stdout
    assert "(by meaning only)" not in done(run("search", "allergy")).stdout


def test_the_extension_s_place_is_printed(run: Run) -> None:
    place = done(run("sql", "vec0")).stdout.strip()
    assert Path(place).parent.is_dir()
    assert Path(place).name == "vec0"
