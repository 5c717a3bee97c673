"""Files of older schemas: each released one is kept, opened, and brought up to date."""

from __future__ import annotations

import gzip
import re
import stat
import subprocess
import sys
from pathlib import Path

import apsw
import pytest
from conftest import FakeEmbedder

import kbstore
from kbstore import errors, queries
from kbstore.migration import SCHEMA_VERSION

FIXTURES = Path(__file__).parent / "fixtures"
OLD = range(1, SCHEMA_VERSION)


def old_file(version: int, database: Path) -> Path:
    packed = (FIXTURES / f"schema_{version}.sqlite3.gz").read_bytes()
    database.write_bytes(gzip.decompress(packed))
    return database


def structure(connection: apsw.Connection) -> set[tuple[str, ...]]:
    return {
        (kind, name, re.sub(r"\s*([,\s])\s*", r"\1", re.sub("--.*", "", sql or "")))
        for kind, name, sql in connection.execute("select type, name, sql from sqlite_schema")
    }


def test_every_released_schema_has_its_fixture_and_its_migration() -> None:
    for version in OLD:
        assert (FIXTURES / f"schema_{version}.sqlite3.gz").is_file()
        assert queries.migration(version + 1)
    assert len(list((queries.SQL_FOLDER / "migrations").iterdir())) == SCHEMA_VERSION - 1


@pytest.mark.parametrize("version", OLD)
class TestFromEachVersion:
    def test_the_schema_is_that_of_a_new_file(self, version, database) -> None:
        migrated = kbstore.connect(old_file(version, database))
        fresh = kbstore.connect(":memory:")
        assert structure(migrated) == structure(fresh)
        for table in ("setting", "ranking", "retriever", "stop_word", "kb_help"):
            column = "type" if table == "ranking" else "word" if table == "stop_word" else "name"
            names = f"select {column} from {table} order by 1"
            assert migrated.execute(names).fetchall() == fresh.execute(names).fetchall()
        assert migrated.pragma("user_version") == SCHEMA_VERSION
        migrated.close()

    def test_nothing_is_lost(self, version, database) -> None:
        connection = kbstore.connect(old_file(version, database))
        before = apsw.Connection(f"{database}.schema-{version}")
        for table in ("document", "document_version", "question", "question_embedding",
                      "document_embedding", "failure", "ranking"):  # fmt: skip
            columns = ", ".join(row[1] for row in before.execute(f"pragma table_info({table})"))
            rows = f"select {columns} from {table} order by 1, 2"
            kept = before.execute(rows).fetchall()
            assert kept
            assert connection.execute(rows).fetchall() == kept
        before.close()
        assert connection.pragma("integrity_check") == "ok"
        connection.execute(
            "insert into document_fts(document_fts, rank) values('integrity-check', 1)"
        )
        connection.close()

    def test_it_works_on(self, version, database) -> None:
        with kbstore.Store(old_file(version, database), embedder=FakeEmbedder()) as store:
            assert store.search("exponential backoff").hits[0].path == "domains/http-retries.md"
            assert (
                store.search("しりとり", retrievers=["words"]).hits[0].path == "domains/idioms.md"
            )
            assert store.embed().pending == 0
            assert store.put("domains/http-retries.md", "Now it is six.").action == "replaced"
            store.delete("journal/2026-11-28.md")
            assert [q.state for q in store.questions.list("domains/http-retries.md")] == [
                "searched", "stale", "vetoed",
            ]  # fmt: skip

    def test_a_copy_of_the_old_file_is_kept_for_its_owner(self, version, database) -> None:
        kbstore.connect(old_file(version, database)).close()
        copy = Path(f"{database}.schema-{version}")
        assert stat.S_IMODE(copy.stat().st_mode) == 0o600
        old = apsw.Connection(str(copy))
        assert old.pragma("user_version") == version
        assert old.execute("select count(*) from document").get > 0
        old.close()
        left = {file.name for file in database.parent.iterdir()}
        assert left <= {database.name, copy.name, f"{database.name}-wal", f"{database.name}-shm"}

    def test_a_reader_that_may_write_brings_it_up_to_date(self, version, database) -> None:
        connection = kbstore.connect(old_file(version, database), read_only=True)
        assert connection.pragma("user_version") == SCHEMA_VERSION
        assert connection.readonly("main")
        connection.close()

    def test_where_nothing_may_be_written_the_way_out_is_named(
        self, version, database, monkeypatch
    ) -> None:
        old_file(version, database)
        monkeypatch.setattr("os.access", lambda *_: False)
        with pytest.raises(errors.OlderSchemaError, match="kbstore init --db"):
            kbstore.connect(database, read_only=True)

    def test_a_migration_that_fails_leaves_the_old_file_whole(
        self, version, database, monkeypatch
    ) -> None:
        old_file(version, database)
        real = queries.read
        broken = "create table half_done (id integer); select no_such_function();"
        monkeypatch.setattr(queries, "read", lambda name: broken if name == "views" else real(name))
        with pytest.raises(errors.DatabaseError, match="no_such_function"):
            kbstore.connect(database)
        connection = apsw.Connection(str(database))
        assert connection.pragma("user_version") == version
        assert (
            connection.execute("select count(*) from sqlite_schema where name = 'half_done'").get
            == 0
        )
        assert connection.execute("select count(*) from sqlite_schema where type = 'view'").get > 5
        connection.close()
        monkeypatch.undo()
        kbstore.connect(database).close()

    def test_without_room_for_the_copy_nothing_is_begun(
        self, version, database, monkeypatch
    ) -> None:
        old_file(version, database)

        def full(*_: object) -> None:
            raise OSError(28, "No space left on device")

        monkeypatch.setattr("os.replace", full)
        with pytest.raises(errors.DatabaseError, match="No space left"):
            kbstore.connect(database)
        connection = apsw.Connection(str(database))
        assert connection.pragma("user_version") == version
        connection.close()
        assert len(list(database.parent.glob(".*"))) == 0

    def test_several_processes_at_once(self, version, database) -> None:
        old_file(version, database)
        code = (
            "import sys, kbstore; c = kbstore.connect(sys.argv[1]);"
            "print(c.pragma('user_version'), c.execute('select count(*) from document').get)"
        )
        processes = [
            subprocess.Popen(
                [sys.executable, "-c", code, str(database)], stdout=subprocess.PIPE, text=True
            )
            for _ in range(4)
        ]
        said = {process.communicate()[0] for process in processes}
        connection = kbstore.connect(database)
        count = connection.execute("select count(*) from document").get
        connection.close()
        assert said == {f"{SCHEMA_VERSION} {count}\n"}


def test_a_connection_of_the_host_is_brought_up_to_date_too(database) -> None:
    connection = apsw.Connection(str(old_file(1, database)))
    kbstore.adopt(connection)
    assert connection.pragma("user_version") == SCHEMA_VERSION
    connection.close()
