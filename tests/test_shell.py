"""The real sqlite3 shell: golden sessions, and the same rows as Python to the last digit."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

import kbstore
from kbstore import queries

SESSIONS = Path(__file__).parent / "sql"


def shell(database: Path, *arguments: str, input: str, extension: bool) -> str:
    """Run the shell where the .sql files lie, with the schema and, if wanted, vec0."""
    command = ["sqlite3", "-batch", *arguments, str(database)]
    if extension:
        import sqlite_vec

        command += ["-cmd", f".load {sqlite_vec.loadable_path()}"]
    done = subprocess.run(
        command,
        input=input,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        cwd=queries.SQL_FOLDER,
        timeout=60,
    )
    return done.stdout


@pytest.mark.parametrize("name", sorted(file.stem for file in SESSIONS.glob("*.sql")))
def test_a_session_prints_what_it_should(name: str, tmp_path: Path) -> None:
    extension = name == "vectors"
    session = (SESSIONS / f"{name}.sql").read_text()
    opening = (
        ".read schema.sql\n.read triggers.sql\n.read views.sql\n"
        + ".read vectors.sql\n" * extension
    )
    printed = shell(tmp_path / "kb.sqlite3", input=opening + session, extension=extension)
    assert printed == (SESSIONS / f"{name}.out").read_text()


@pytest.fixture
def filled(database: Path, embedder) -> Path:
    with kbstore.Store(database, embedder=embedder) as store:
        for i in range(30):
            store.put(
                f"{('domains', 'journal', 'projects')[i % 3]}/{i}.md",
                f"the falcon number{i} flies " + "over the lake " * (i % 4),
                title=f"Bird {i}",
                updated=f"2026-11-{i % 28 + 1:02}",
            )
        store.put("部署.md", "重跑gen-itgc后50条 café")
    return database


@pytest.mark.parametrize("query", ["falcon lake", '"number7 flies" bird', "部署", "itgc CAFÉ", "?"])
@pytest.mark.parametrize("statement", ["search", "search_words"])
def test_rows_and_scores_are_python_s_to_the_last_digit(filled, query, statement) -> None:
    vectors = statement == "search"
    quoted = "'" + query.replace("'", "''") + "'"
    session = [".parameter init"]
    parameters = {"query": quoted, "now": "'2026-12-01'", "limit": "15"}
    if vectors:
        parameters["embedding"] = "(select embedding from document_embedding where document_id = 4)"
    for name, value in parameters.items():
        session.append(
            f"insert into temp.sqlite_parameters values (':{name}', {value});"
        )  # what .parameter set does, without the shell's quoting
    session.append(f".read {statement}.sql")
    printed = shell(filled, "-json", input="\n".join(session), extension=vectors)
    theirs = json.loads(printed) if printed else []

    connection = kbstore.connect(filled, read_only=True)
    names = ("topic", "type", "tag", "since", "until", "retrievers", "embedding")
    bound = dict.fromkeys(names) | {"query": query, "now": "2026-12-01", "limit": 15}
    if vectors:
        bound["embedding"] = connection.execute(
            "select embedding from document_embedding where document_id = 4"
        ).get
    cursor = connection.execute(queries.read(statement), bound)
    ours = [dict(zip((c[0] for c in cursor.get_description()), row, strict=True)) for row in cursor]
    connection.close()
    assert [row["path"] for row in theirs] == [row["path"] for row in ours]
    for their, our in zip(theirs, ours, strict=True):
        for name, value in our.items():
            if isinstance(value, float):
                assert their[name] == pytest.approx(value, rel=1e-12, abs=0), name
            else:
                assert their[name] == value, name
    assert bool(ours) == (query != "?" or vectors)


def test_the_shell_s_start_file_runs(filled) -> None:
    printed = subprocess.run(
        [
            "sqlite3",
            "-batch",
            "-init",
            queries.SQL_FOLDER / "shell.sql",
            filled,
            "select 42 as answer",
        ],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert "v_pending" in printed.stdout
    assert "42" in printed.stdout
    assert "Error" not in printed.stderr
