"""The file: what it is made of, what it refuses, what a bare SQL edit sets off."""

from __future__ import annotations

import os
import stat
import subprocess
from pathlib import Path

import apsw
import pytest

import kbstore
from kbstore import errors, queries
from kbstore.schema import APPLICATION_ID, SCHEMA_VERSION

HASH = "0" * 64


def rows(conn: apsw.Connection, sql: str, *bindings: object) -> list[tuple]:
    return conn.execute(sql, bindings).fetchall()


def words_are_right(conn: apsw.Connection) -> None:
    conn.execute("insert into document_fts (document_fts, rank) values ('integrity-check', 1)")


class TestFile:
    def test_the_header_tells_whose_it_is(self, conn, database) -> None:
        header = database.read_bytes()[:100]
        assert int.from_bytes(header[68:72], "big") == APPLICATION_ID == 0x6B627374
        assert int.from_bytes(header[60:64], "big") == SCHEMA_VERSION == 2

    def test_it_is_the_owner_s_alone(self, conn, database) -> None:
        assert stat.S_IMODE(database.stat().st_mode) == 0o600

    def test_a_missing_folder_is_made_for_the_owner_alone(self, tmp_path) -> None:
        kbstore.connect(tmp_path / "deep" / "er" / "kb.sqlite3").close()
        assert stat.S_IMODE((tmp_path / "deep" / "er").stat().st_mode) == 0o700

    def test_nothing_else_is_left_beside_it(self, database) -> None:
        kbstore.connect(database).close()
        assert [file.name for file in database.parent.iterdir()] == ["kb.sqlite3"]

    def test_opening_again_changes_nothing(self, database) -> None:
        kbstore.connect(database).close()
        before = database.read_bytes()
        kbstore.connect(database).close()
        kbstore.connect(database, read_only=True).close()
        assert database.read_bytes() == before

    def test_every_table_is_strict_and_every_name_is_explained(self, conn) -> None:
        tables = rows(
            conn,
            "select name, type, strict from pragma_table_list where schema = 'main' "
            "and type in ('table', 'view', 'virtual') and name not like 'sqlite_%' "
            "and name not like '%_vec_%'",
        )
        assert all(strict for name, kind, strict in tables if kind == "table"), tables
        assert {name for name, *_ in tables} == {
            name for (name,) in rows(conn, "select name from kb_help")
        }

    def test_the_head_of_the_schema_maps_every_table(self, conn) -> None:
        head = queries.read("schema").split("create table", 1)[0]
        for (name,) in rows(
            conn, "select name from pragma_table_list where type in ('table', 'virtual') "
            "and schema = 'main' and name not like 'sqlite_%' and name not like '%_vec_%'"
        ):  # fmt: skip
            assert name in head, name

    def test_views_do_not_need_the_extension(self, conn) -> None:
        for (sql,) in rows(conn, "select sql from sqlite_schema where type in ('view', 'trigger')"):
            assert "_vec" not in sql.replace("vector_queue", "")


class TestConnection:
    def test_every_connection_is_set_up_alike(self, database) -> None:
        kbstore.connect(database).close()
        for read_only in (False, True):
            conn = kbstore.connect(database, read_only=read_only)
            assert conn.pragma("journal_mode") == "wal"
            assert conn.pragma("foreign_keys") == 1
            assert conn.pragma("recursive_triggers") == 1
            assert conn.pragma("synchronous") == 1
            assert conn.pragma("busy_timeout") >= 5_000
            assert conn.pragma("trusted_schema") == 0
            assert rows(conn, "select vec_version()") == [("v0.1.9",)]
            with pytest.raises(apsw.SQLError, match="not authorized"):
                conn.execute("select load_extension('x')")
            conn.close()

    def test_a_host_s_connection_is_adopted(self) -> None:
        host = apsw.Connection(":memory:")
        assert kbstore.adopt(host) is host
        host.execute("insert into document (path, title) values ('a.md', 'A')")
        assert rows(host, "select path from v_document") == [("a.md",)]
        assert kbstore.adopt(host) is host  # again

    def test_a_host_s_own_database_is_refused(self) -> None:
        host = apsw.Connection(":memory:")
        host.execute("create table mine (x)")
        with pytest.raises(errors.ForeignDatabaseError):
            kbstore.adopt(host)
        assert rows(host, "select name from sqlite_schema") == [("mine",)]

    def test_reading_waits_for_no_writer(self, database) -> None:
        with kbstore.Store(database, embedder=None) as store:
            store.put("a.md", "falcon")
            writer = kbstore.connect(database)
            writer.execute("begin immediate; insert into stop_word values ('x')")
            reader = kbstore.connect(database, read_only=True)
            with kbstore.Store(reader, embedder=None) as reading:
                assert [hit.path for hit in reading.search("falcon").hits] == ["a.md"]
                assert reading.status().documents == 1
            assert [hit.path for hit in store.search("falcon").hits] == ["a.md"]
            writer.execute("rollback")
            writer.close()
            reader.close()

    def test_a_read_only_connection_writes_nothing(self, database) -> None:
        kbstore.connect(database).close()
        with (
            kbstore.Store(database, read_only=True, embedder=None) as store,
            pytest.raises(errors.ReadOnlyError, match="cannot be written"),
        ):
            store.put("a.md", "text")

    def test_reading_what_is_not_there(self, database) -> None:
        with pytest.raises(errors.NotFoundError, match="kbstore init"):
            kbstore.connect(database, read_only=True)
        assert not database.exists()


class TestRefusal:
    @pytest.fixture(
        params=["empty", "text", "short", "other application", "no application", "newer", "folder"]
    )
    def refused(self, request, database: Path) -> tuple[Path, type, str]:
        kind = request.param
        if kind == "empty":
            database.touch()
            return database, errors.NotADatabaseError, "empty"
        if kind == "text":
            database.write_text("just some notes, " * 50)
            return database, errors.NotADatabaseError, "not an SQLite database"
        if kind == "short":
            database.write_bytes(b"SQLite format 3\x00")
            return database, errors.NotADatabaseError, "not an SQLite database"
        if kind == "folder":
            database.mkdir()
            return database, errors.NotADatabaseError, "folder"
        if kind == "newer":
            kbstore.connect(database).close()
            conn = apsw.Connection(str(database))
            conn.pragma("user_version", SCHEMA_VERSION + 1)
            conn.close()
            return database, errors.NewerSchemaError, "upgrade kbstore"
        conn = apsw.Connection(str(database))
        conn.execute("create table theirs (x)")
        if kind == "other application":
            conn.pragma("application_id", 12345)
        conn.close()
        return database, errors.ForeignDatabaseError, "another application"

    def test_a_pipe_is_refused_at_once(self, database) -> None:
        os.mkfifo(database)
        with pytest.raises(errors.NotADatabaseError, match="regular file"):
            kbstore.connect(database)

    def test_drafts_of_killed_processes_are_cleared_after_an_hour(self, database) -> None:
        old, fresh = (database.with_name(f".kb.sqlite3.{c * 16}") for c in "ab")
        old.touch()
        fresh.touch()
        copies = [database.with_name(name) for name in (
            ".kb.sqlite3.backup-of-2026-11-01", f".kb.sqlite3.{'a' * 17}", f".other.{'a' * 16}"
        )]  # fmt: skip
        for file in (old, *copies):
            file.touch()
            os.utime(file, (0, 0))
        kbstore.connect(database).close()
        assert (old.exists(), fresh.exists()) == (False, True)
        assert all(copy.exists() for copy in copies)

    @pytest.mark.parametrize("read_only", [False, True])
    def test_it_is_refused_and_left_as_it_is(self, refused, read_only) -> None:
        file, error, words = refused
        before = file.read_bytes() if file.is_file() else None
        with pytest.raises(error, match=words) as raised:
            kbstore.connect(file, read_only=read_only)
        assert str(file) in str(raised.value)
        assert "\n" not in str(raised.value)
        assert (file.read_bytes() if file.is_file() else None) == before
        assert [f.name for f in file.parent.iterdir()] == [file.name]


class TestHandEdits:
    @pytest.fixture
    def conn(self, conn: apsw.Connection) -> apsw.Connection:
        """With one document that has its vector and a generated question."""
        conn.execute(
            "insert into document (path, title, tags, body, content_hash) "
            "values ('a.md', 'Falcon', '[\"bird\"]', 'flies', ?)",
            (HASH,),
        )
        conn.execute("update setting set value = 'm' where name = 'model'")
        conn.execute(
            "insert into document_embedding"
            " values (null, 1, 0, 0, 5, zeroblob(3072), ?, 'm', null)",
            (HASH,),
        )
        conn.execute(
            "insert into question (document_id, text, origin, content_hash) "
            "values (1, 'Q?', 'llm', ?)",
            (HASH,),
        )
        conn.execute("insert into question_embedding values (1, zeroblob(3072), 'm', null)")
        conn.execute("delete from vector_queue")
        assert rows(conn, "select * from v_pending") == []
        return conn

    def find(self, conn: apsw.Connection, word: str) -> list[str]:
        return [p for (p,) in rows(
            conn, "select d.path from document_fts f join document d on d.id = f.rowid "
            "where document_fts match ? order by d.path", f'"{word}"'
        )]  # fmt: skip

    @pytest.mark.parametrize(
        ("column", "value", "word"),
        [
            ("title", "Heron", "heron"),
            ("tags", '["wader"]', "wader"),
            ("description", "A long neck", "neck"),
            ("body", "wades", "wades"),
        ],
    )
    def test_a_changed_text_is_found_at_once_and_pending(self, conn, column, value, word) -> None:
        conn.execute(f"update document set {column} = ?", (value,))
        assert self.find(conn, word) == ["a.md"]
        assert rows(conn, "select content_hash from document") == [(None,)]
        assert rows(conn, "select path, what from v_pending") == [("a.md", "document")]
        assert rows(conn, "select count(*) from v_stale") == [(2,)]
        words_are_right(conn)

    def test_a_withdrawn_word_is_gone(self, conn) -> None:
        conn.execute("update document set title = 'Heron'")
        assert self.find(conn, "falcon") == []

    def test_a_writer_that_knows_the_hash_sets_it(self, conn) -> None:
        conn.execute("update document set body = 'new', content_hash = ?", ("1" * 64,))
        assert rows(conn, "select content_hash from document") == [("1" * 64,)]

    def test_a_new_path_or_date_costs_no_vector(self, conn) -> None:
        conn.execute("update document set path = 'b/a.md', updated = '2026-01-01'")
        assert rows(conn, "select topic, content_hash from document") == [("b", HASH)]
        assert rows(conn, "select * from v_pending") == []
        assert self.find(conn, "b") == ["b/a.md"]

    def test_every_text_that_is_overwritten_moved_or_deleted_is_kept(self, conn) -> None:
        conn.execute("update document set body = 'swims'")
        conn.execute("update document set path = 'b.md'")
        conn.execute("update document set updated = '2026-01-01'")  # not a text
        conn.execute("delete from document")
        assert rows(conn, "select event, path, body from document_version order by id") == [
            ("update", "a.md", "flies"),
            ("move", "a.md", "swims"),
            ("delete", "b.md", "swims"),
        ]

    @pytest.mark.parametrize("foreign_keys", [True, False])
    def test_a_deleted_document_takes_all_with_it(self, conn, foreign_keys) -> None:
        conn.pragma("foreign_keys", foreign_keys)
        conn.execute("delete from document where path = 'a.md'")
        for table in ("document_embedding", "question", "question_embedding", "document_segmented"):
            assert rows(conn, f"select * from {table}") == [], table
        assert rows(conn, "select kind, id from vector_queue") == [("document", 1), ("hype", 1)]
        words_are_right(conn)

    def test_an_id_is_never_used_twice(self, conn) -> None:
        conn.execute("delete from document")
        conn.execute("insert into document (path, title) values ('a.md', 'Again')")
        assert rows(conn, "select id from document") == [(2,)]

    @pytest.mark.parametrize(
        "edit",
        [
            "insert or replace into document (path, title) values ('a.md', 'x')",
            "replace into document (id, path, title) values (1, 'b.md', 'x')",
            "insert into document (path, title) values ('a.md', 'x')",
            "update document set id = 9",
            "insert into document (path, title, tags) values ('b.md', 'x', '[1]')",
            "insert into document (path, title, tags) values ('b.md', 'x', '[\"\"]')",
            "insert into document (path, title, tags) values ('b.md', 'x', 'a, b')",
            "insert into document (path, title, tags) values ('b.md', 'x', '{\"a\": 1}')",
            "update document set tags = '[null]'",
            "update document set title = '  '",
            "update document set updated = '2026-02-30'",
            "update document set updated = '03/02/2026'",
            "update document set updated = '12'",
            "update document set updated = ''",
            "update document set created = 'yesterday'",
            "update document set content_hash = 'short'",
            "insert into question (document_id, text) values (1, ' ')",
            "insert into question (document_id, text) values (77, 'whose?')",
            "insert into question (document_id, text) values (1, 'Q?')",
            "insert into document_embedding"
            " values (null, 1, 9, 0, 5, zeroblob(12), 'h', 'm', null)",
            "insert into retriever (name) values ('magic')",
            "update ranking set half_life_days = 0",
            "update ranking set floor = 2",
        ],
    )
    @pytest.mark.parametrize("recursive_triggers", [True, False])
    def test_what_would_harm_the_file_is_refused(self, conn, edit, recursive_triggers) -> None:
        conn.pragma("recursive_triggers", recursive_triggers)
        before = rows(conn, "select * from document"), rows(conn, "select * from question")
        with pytest.raises(apsw.ConstraintError):
            conn.execute(edit)
        assert (
            rows(conn, "select * from document"),
            rows(conn, "select * from question"),
        ) == before
        words_are_right(conn)

    @pytest.mark.parametrize(
        "path",
        [
            "",
            "/etc/passwd",
            "../x",
            "a/../b",
            "a/./b",
            "./a",
            "a//b",
            "a/",
            "a\\b",
            "a\tb",
            "x" * 513,
        ],
    )
    def test_a_path_is_relative(self, conn, path) -> None:
        with pytest.raises(apsw.ConstraintError, match="path_is_relative"):
            conn.execute("insert into document (path, title) values (?, 'x')", (path,))

    def test_renaming_onto_another_document_is_refused(self, conn) -> None:
        conn.execute("insert into document (path, title) values ('b.md', 'B')")
        for edit in ("update", "update or replace"):
            with pytest.raises(apsw.ConstraintError, match="another document has this path"):
                conn.execute(f"{edit} document set path = 'a.md' where path = 'b.md'")
        assert rows(conn, "select count(*) from document") == [(2,)]

    def test_a_reworded_question_needs_a_new_vector(self, conn) -> None:
        conn.execute("update question set text = 'What flies?'")
        assert rows(conn, "select what, question from v_pending") == [("question", "What flies?")]


class TestScriptsWithoutSpaces:
    @pytest.mark.parametrize(
        ("body", "word"),
        [
            ("今日は成語しりとりをした", "しりとり"),
            ("部署方案", "部署"),
            ("部署方案", "案"),
            ("重跑gen-itgc后50条", "itgc"),
            ("重跑gen-itgc后50条", "50"),
            ("대한민국의 수도", "민국"),
            ("สวัสดีชาวโลก", "ชาว"),
            ("plain words", "words"),
        ],
    )
    def test_any_part_is_found(self, conn, body, word) -> None:
        conn.execute("insert into document (path, title, body) values ('a.md', 'x', ?)", (body,))
        bound = dict.fromkeys(
            ("topic", "type", "tag", "since", "until", "now", "limit", "retrievers")
        )
        found = conn.execute(queries.read("search_words"), bound | {"query": word}).fetchall()
        assert len(found) == 1
        words_are_right(conn)

    def test_a_long_text_is_split_without_loss(self, conn) -> None:
        """Across the borders of the pieces and of the blocks that it is split in."""
        body = "".join(
            chr(0x4E00 + i % 5000) + ("ab " if i % 7 == 0 else "") for i in range(70_000)
        )
        conn.execute("insert into document (path, title, body) values ('a.md', 'x', ?)", (body,))
        (split,) = rows(conn, "select body from document_segmented")[0]
        assert split.replace("\u200b", "") == body
        assert split.count("\u200b") >= 70_000
        words_are_right(conn)

    def test_only_such_documents_cost_space(self, conn) -> None:
        conn.execute(
            "insert into document (path, title) values ('a.md', 'plain'), ('b.md', '部署')"
        )
        assert rows(conn, "select path from document_segmented") == [("b.md",)]
        conn.execute("update document set title = 'plain'")
        assert rows(conn, "select path from document_segmented") == []
        words_are_right(conn)


def test_the_help_s_examples_run_in_a_shell_without_the_extension(database) -> None:
    with kbstore.Store(database, embedder=None) as store:
        store.put("domains/http-retries.md", "Exponential backoff for retries.")
    examples = "\n".join(
        row[0] for row in apsw.Connection(str(database)).execute("select example from kb_help")
    )
    done = subprocess.run(
        ["sqlite3", "-bail", str(database)], input=examples, capture_output=True, text=True
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert "Exponential [backoff] for [retries]." in done.stdout
