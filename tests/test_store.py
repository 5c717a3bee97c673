"""The store: what put, get, delete, move and list promise."""

from __future__ import annotations

import threading
from datetime import UTC, date, datetime

import pytest

import kbstore
from kbstore import errors


def state(kb: kbstore.Store) -> list[tuple]:
    return kb.connection.execute(
        "select path, title, tags, description, body, frontmatter, created, updated from document "
        "union all select event, title, tags, description, body, frontmatter, created, updated "
        "from document_version"
    ).fetchall()


class TestPut:
    def test_what_is_put_is_got(self, kb) -> None:
        report = kb.put(
            "domains/http-retries.md",
            "Wait, then try again.\n",
            title="HTTP retries",
            tags=["http", "reliability", "http"],
            description="When calls fail.",
            created="2026-01-02",
            updated="2026-03-04T10:00:00+09:00",
            frontmatter="title: HTTP retries\nowner: me\n",
        )
        assert report.as_dict() == {
            "path": "domains/http-retries.md",
            "action": "created",
            "pending": False,
            "note": None,
        }
        document = kb.get("domains/http-retries.md").as_dict()
        assert len(document.pop("content_hash")) == 64
        assert document == {
            "id": 1,
            "path": "domains/http-retries.md",
            "title": "HTTP retries",
            "tags": ["http", "reliability"],
            "description": "When calls fail.",
            "body": "Wait, then try again.\n",
            "topic": "domains",
            "type": "kb",
            "created": "2026-01-02",
            "updated": "2026-03-04T01:00:00Z",
            "frontmatter": "title: HTTP retries\nowner: me\n",
            "pending": False,
        }

    def test_what_is_not_given_is_what_one_would_expect(self, kb) -> None:
        before = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        kb.put("domains/http-retries.md", "text")
        kb.put("skills/release-notes/SKILL.md", "text")
        kb.put("journal/2026-03-04.md", "text")
        note = kb.get("domains/http-retries.md")
        assert (note.title, note.tags, note.frontmatter) == ("http-retries", (), None)
        assert note.created == note.updated
        assert before <= (note.updated or "") <= datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        assert kb.get("skills/release-notes/SKILL.md").title == "release-notes"
        assert kb.get("journal/2026-03-04.md").updated == "2026-03-04"

    def test_overwriting_keeps_what_is_not_given_and_the_old_text(self, kb) -> None:
        kb.put("a.md", "old", title="T", tags=["x"], description="d", created="2026-01-01")
        assert kb.put("a.md", "new").action == "replaced"
        document = kb.get("a.md")
        assert (document.title, document.tags, document.description) == ("T", ("x",), "d")
        assert (document.body, document.created) == ("new", "2026-01-01")
        assert kb.put("a.md", "new", tags=[]).action == "replaced"
        assert kb.get("a.md").tags == ()
        versions = kb.connection.execute(
            "select event, body, tags from document_version"
        ).fetchall()
        assert versions == [("update", "old", '["x"]'), ("update", "new", '["x"]')]

    def test_the_same_again_changes_nothing(self, kb) -> None:
        kb.put("a.md", "text", title="T")
        before = state(kb)
        assert kb.put("a.md", "text").action == "unchanged"
        assert kb.put("a.md", "text", title="T").action == "unchanged"
        assert state(kb) == before

    def test_it_is_durable_before_the_model_is_called(self, kb, embedder, database) -> None:
        seen = []

        def look(texts, task):
            with kbstore.Store(database, read_only=True, embedder=None) as other:
                seen.append(other.search("falcon").hits[0].path)
            raise errors.ModelUnavailableError("stop")

        embedder.embed = look
        kb.put("a.md", "the falcon flies")
        assert seen == ["a.md"]

    @pytest.mark.parametrize(
        ("arguments", "words"),
        [
            (("../x.md", "text"), "'../x.md'"),
            (("/etc/passwd", "text"), "'/etc/passwd'"),
            (("a/../../b", "text"), "'a/../../b'"),
            (("a\0b", "text"), "NUL"),
            (("x" * 2000, "text"), "2000 characters"),
            (("", "text"), "empty"),
            (("b.md", "  \n"), "b.md"),
            (("b.md", "nul \0 inside"), "b.md"),
            (("b.md", "lone \ud800 surrogate"), "b.md"),
            (("b.md", 7), "b.md"),
            (("b.md", "x" * 16_777_217), "b.md"),
        ],
    )
    def test_bad_input_is_refused_by_name_and_leaves_the_file_as_it_was(
        self, kb, arguments, words
    ) -> None:
        kb.put("a.md", "text")
        before = state(kb)
        with pytest.raises(errors.InputError, match=words) as raised:
            kb.put(*arguments)
        assert "\n" not in str(raised.value)
        assert len(str(raised.value)) < 300
        assert state(kb) == before

    @pytest.mark.parametrize(
        "options",
        [
            {"title": " "},
            {"title": "x" * 1001},
            {"title": "nul\0"},
            {"tags": "one"},
            {"tags": ["ok", ""]},
            {"tags": ["x" * 201]},
            {"tags": [str(i) for i in range(101)]},
            {"tags": [7]},
            {"updated": "2026-02-30"},
            {"updated": "yesterday"},
            {"created": "03/02/2026"},
            {"description": "nul\0"},
        ],
    )
    def test_bad_options_are_refused_by_the_document_s_name(self, kb, options) -> None:
        with pytest.raises(errors.InputError, match=r"b\.md"):
            kb.put("b.md", "text", **options)
        assert kb.list() == []

    def test_empty_text_replaces_nothing_silently(self, kb) -> None:
        kb.put("a.md", "text")
        for blank in ("", " \n\t"):
            with pytest.raises(errors.EmptyContentError, match="kept"):
                kb.put("a.md", blank)
        assert kb.get("a.md").body == "text"
        kb.put("a.md", "", allow_empty=True)
        assert kb.get("a.md").body == ""
        assert kb.put("a.md", "").action == "unchanged"  # it was empty already

    def test_a_composed_and_a_decomposed_path_are_one(self, kb) -> None:
        kb.put("caf\u00e9.md", "one")
        kb.put("cafe\u0301.md", "two")
        assert [document.path for document in kb.list()] == ["caf\u00e9.md"]
        assert kb.get("cafe\u0301.md").body == "two"


class TestTheRest:
    def test_what_is_not_there(self, kb) -> None:
        for call in (kb.get, kb.delete, lambda path: kb.move(path, "b.md")):
            with pytest.raises(errors.NotFoundError, match=r"no\.md"):
                call("no.md")

    def test_a_deleted_document_is_gone_and_kept(self, kb) -> None:
        kb.put("a.md", "the falcon")
        kb.delete("a.md")
        assert kb.search("falcon").hits == ()
        assert kb.list() == []
        (row,) = kb.connection.execute("select event, path, body from document_version").fetchall()
        assert row == ("delete", "a.md", "the falcon")

    def test_a_move_keeps_the_id_and_refuses_a_taken_path(self, kb) -> None:
        kb.put("a.md", "one")
        kb.put("b.md", "two")
        with pytest.raises(errors.ConflictError, match=r"b\.md"):
            kb.move("a.md", "b.md")
        before = kb.get("a.md").id
        kb.move("a.md", "journal/a.md")
        moved = kb.get("journal/a.md")
        assert (moved.id, moved.type, moved.body) == (before, "journal", "one")
        kb.move("b.md", "b.md")
        assert kb.get("b.md").body == "two"

    def test_listing(self, kb) -> None:
        kb.put("projects/x/a.md", "12345", tags=["One"], updated="2026-01-01")
        kb.put("journal/2026-01-01.md", "text")
        kb.put("projects/b.md", "text", defer=True)
        assert [d.path for d in kb.list()] == [
            "journal/2026-01-01.md",
            "projects/b.md",
            "projects/x/a.md",
        ]
        assert [d.path for d in kb.list(topic="projects/x")] == ["projects/x/a.md"]
        assert [d.path for d in kb.list(type="journal")] == ["journal/2026-01-01.md"]
        (row,) = kb.list(tag="one")
        assert row.as_dict() == {
            "path": "projects/x/a.md",
            "title": "a",
            "tags": ["One"],
            "topic": "projects",
            "type": "kb",
            "created": None,
            "updated": "2026-01-01",
            "characters": 5,
            "passages": 1,
            "questions": 0,
            "pending": False,
        }
        assert [d.path for d in kb.list() if d.pending] == ["projects/b.md"]

    def test_status_counts(self, kb) -> None:
        kb.put("a.md", "text")
        kb.put("journal/2026-01-01.md", "text")
        kb.put("a.md", "other text")
        kb.put("skills/s/SKILL.md", "text", defer=True)
        status = kb.status()
        assert (status.documents, status.skills, status.journals) == (3, 1, 1)
        assert (status.pending, status.passages, status.versions) == (1, 2, 1)
        assert (status.model, status.available_model, status.schema_version) == ("fake", "fake", 2)
        assert status.size > 0
        assert "1 of 3 documents" in status.degraded[0]

    def test_several_writes_are_all_or_nothing(self, kb) -> None:
        kb.put("a.md", "one")

        def delete_both() -> None:
            with kb.batch():
                kb.delete("a.md")
                kb.delete("no.md")

        with pytest.raises(errors.NotFoundError):
            delete_both()
        assert kb.get("a.md").body == "one"

    def test_inside_a_transaction_no_model_is_called(self, kb, embedder) -> None:
        with kb.batch():
            report = kb.put("a.md", "text")
        assert (report.pending, embedder.calls) == (True, [])
        assert "transaction" in (report.note or "")
        assert kb.embed().documents == 1

    def test_a_host_s_row_factory_changes_nothing(self, database, embedder) -> None:
        conn = kbstore.connect(database)
        conn.row_trace = lambda cursor, row: {"columns": row}
        with kbstore.Store(conn, embedder=embedder) as store:
            store.put("a.md", "the falcon", tags=["x"])
            assert store.get("a.md").tags == ("x",)
            assert [hit.path for hit in store.search("falcon").hits] == ["a.md"]
            assert store.status().documents == 1
        conn.close()

    def test_a_host_s_connection_stays_open(self, database, embedder) -> None:
        conn = kbstore.connect(database)
        with kbstore.Store(conn, embedder=embedder) as store:
            store.put("a.md", "text")
        assert conn.execute("select path from document").get == "a.md"
        conn.close()

    def test_threads_share_a_store(self, kb) -> None:
        failures: list[Exception] = []

        def work(number: int) -> None:
            try:
                for i in range(10):
                    kb.put(f"{number}/{i}.md", f"falcon number{number}x{i}")
                    assert kb.search(f"number{number}x{i}").hits[0].path == f"{number}/{i}.md"
            except Exception as error:
                failures.append(error)

        threads = [threading.Thread(target=work, args=(n,)) for n in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert failures == []
        assert (len(kb.list()), kb.status().pending) == (60, 0)

    @pytest.mark.parametrize(
        "options",
        [
            {"limit": 0},
            {"limit": -1},
            {"type": "poem"},
            {"since": "soon"},
            {"until": "2026-02-30"},
            {"now": "12"},
            {"retrievers": ["magic"]},
        ],
    )
    def test_a_search_with_bad_options_is_refused(self, kb, options) -> None:
        with pytest.raises(errors.InputError):
            kb.search("falcon", **options)


def test_every_error_is_one_of_ours_with_its_exit_code() -> None:
    tree = [e for e in vars(errors).values() if isinstance(e, type)]
    assert all(issubclass(error, errors.KBError) and error.__doc__ for error in tree)
    assert errors.__doc__
    assert all(error.__name__ in errors.__doc__ for error in tree)
    codes = {error.__name__: error.exit_code for error in tree}
    assert codes["InputError"] == codes["EmptyContentError"] == 2
    assert codes["NotFoundError"] == 3
    assert codes["DatabaseError"] == codes["ModelError"] == codes["KBError"] == 1


def test_dates_may_be_python_s(kb) -> None:
    kb.put(
        "a.md", "falcon", updated=datetime(2026, 1, 31, 10, tzinfo=UTC), created=date(2026, 1, 1)
    )
    document = kb.get("a.md")
    assert (document.created, document.updated) == ("2026-01-01", "2026-01-31T10:00:00Z")
    result = kb.search("falcon", since=date(2026, 1, 31), until=date(2026, 1, 31))
    assert [hit.path for hit in result] == ["a.md"]
    assert len(result) == 1
    assert len(kb.search("falcon", since=date(2026, 2, 1))) == 0


def test_a_word_in_a_base_of_one_note_is_a_full_match(kb) -> None:
    kb.put("a.md", "Between retries we wait.")
    (hit,) = kb.search("how long do we wait", retrievers=["words"])
    assert hit.words.contribution == pytest.approx(1 / 61)
