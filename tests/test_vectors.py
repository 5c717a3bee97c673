"""Vectors kept: what is pending, what a model call costs, what is never used."""

from __future__ import annotations

from collections.abc import Callable

import apsw
import numpy as np
import pytest
from conftest import FakeEmbedder

import kbstore
from kbstore import errors


def documents(embedder: FakeEmbedder) -> list[str]:
    return [text for task, text in embedder.calls if task == "search_document"]


def tables_agree(conn: apsw.Connection) -> None:
    """The vec0 tables hold the bits of the vectors that serve, and nothing else."""
    serving = "model = (select value from setting where name = 'model')"
    assert conn.execute("select count(*) from vector_queue").get == 0
    for table, key, source in (
        ("document_vec", "id", "document_embedding"),
        ("hype_vec", "question_id", "question_embedding"),
    ):
        ours = conn.execute(
            f"select {key}, vec_quantize_binary(embedding) from {source} where {serving} order by 1"
        ).fetchall()
        assert conn.execute(f"select id, embedding from {table} order by id").fetchall() == ours


class TestCalls:
    def test_what_is_unchanged_or_moved_or_the_same_elsewhere_costs_none(
        self, kb, embedder
    ) -> None:
        kb.put("a.md", "the falcon flies", title="T")
        assert len(documents(embedder)) == 1
        kb.put("a.md", "the falcon flies", title="T")
        kb.put("a.md", "the falcon flies", title="T", updated="2026-01-01")
        kb.move("a.md", "b.md")
        kb.put("copy.md", "the falcon flies", title="T")
        assert len(documents(embedder)) == 1
        assert kb.status().pending == 0
        assert {h.path for h in kb.search("falcon").hits if h.vectors} == {"b.md", "copy.md"}
        tables_agree(kb.connection)

    def test_nor_does_a_note_whose_title_is_its_name(self, kb, embedder) -> None:
        kb.put("a.md", "the falcon flies")
        kb.move("a.md", "b.md")
        assert (kb.get("b.md").title, kb.get("b.md").pending) == ("b", False)
        assert kb.put("b.md", "the falcon flies").action == "unchanged"
        kb.put("c.md", "the falcon flies")
        assert documents(embedder) == ["a. the falcon flies"]
        assert kb.status().pending == 0
        tables_agree(kb.connection)

    @pytest.mark.parametrize("change", [{"tags": ["x"]}, {"title": "U"}, {"description": "d"}])
    def test_a_changed_heading_costs_one(self, kb, embedder, change) -> None:
        kb.put("a.md", "the falcon flies", title="T")
        kb.put("a.md", "the falcon flies", **change)
        assert len(documents(embedder)) == 2
        tables_agree(kb.connection)

    def test_a_query_without_a_letter_costs_none(self, kb, embedder) -> None:
        kb.put("a.md", "the falcon flies")
        for query in ("", "  ", "?", "…", "🚀🚀"):
            assert kb.search(query).hits == ()
        assert [task for task, _ in embedder.calls] == ["search_document"]

    def test_words_alone_cost_none(self, kb, embedder) -> None:
        kb.put("a.md", "the falcon flies")
        assert kb.search("falcon", retrievers=["words", "frontmatter"]).model is None
        assert len(embedder.calls) == 1

    def test_texts_go_out_in_batches(self, kb, embedder) -> None:
        for i in range(40):
            kb.put(f"{i}.md", f"text {i}", defer=True)
        sizes: list[int] = []
        embed = embedder.embed
        embedder.embed = lambda texts, task: sizes.append(len(texts)) or embed(texts, task)
        seen: list[tuple[int, int]] = []
        report = kb.embed(progress=lambda done, of: seen.append((done, of)))
        assert (report.documents, report.passages, report.pending) == (40, 40, 0)
        assert sizes == [16, 16, 8]
        assert seen == [(16, 40), (32, 40), (40, 40)]
        tables_agree(kb.connection)

    def test_a_long_document_is_many_calls(self, kb, embedder) -> None:
        sizes: list[int] = []
        embed = embedder.embed
        embedder.embed = lambda texts, task: sizes.append(len(texts)) or embed(texts, task)
        kb.put("a.md", "Some words of a sentence. " * 10_000)
        assert max(sizes) == 64
        assert sum(sizes) == kb.list()[0].passages > 128

    def test_the_newest_come_first_and_a_limit_holds(self, kb, embedder) -> None:
        for day in ("03", "01", "02"):
            kb.put(f"{day}.md", f"text of day {day}", updated=f"2026-01-{day}", defer=True)
        report = kb.embed(limit=2)
        assert [text[-2:] for text in documents(embedder)] == ["03", "02"]
        assert (report.documents, report.pending) == (2, 1)


class TestFailure:
    def test_a_model_that_always_fails_costs_no_note(self, kb, embedder) -> None:
        embedder.fail = errors.ModelUnavailableError("the model is on fire")
        for i in range(50):
            report = kb.put(f"{i}.md", f"falcon number{i}")
            assert report.pending
            assert report.note == "the model is on fire"
        status = kb.status()
        assert (status.documents, status.pending, status.failed) == (50, 50, 50)
        assert status.last_error == "the model is on fire"
        result = kb.search("number7")
        assert result.hits[0].path == "7.md"
        assert any("on fire" in sentence for sentence in result.degraded)
        assert any("50 of 50" in sentence for sentence in result.degraded)
        calls = len(embedder.calls)
        assert kb.embed().error == "the model is on fire"
        assert len(embedder.calls) - calls <= 34  # gives up after the first batch
        embedder.fail = None
        report = kb.embed()
        assert (report.documents, report.pending, report.error) == (50, 0, None)
        assert kb.status().failed == 0
        tables_agree(kb.connection)

    @pytest.mark.parametrize(
        ("vector", "words"),
        [([0.0] * 768, "zeros"), ([float("nan")] * 768, "NaN"), ([1.0] * 512, "512")],
    )
    def test_one_bad_vector_holds_up_nothing_and_ranks_nowhere(
        self, kb, embedder, vector, words
    ) -> None:
        embedder.vectors["cursed"] = vector
        for i in range(5):
            kb.put(f"{i}.md", f"falcon {i}", defer=True)
        kb.put("bad.md", "cursed falcon", defer=True)
        report = kb.embed()
        assert (report.documents, report.failed, report.pending) == (5, 1, 1)
        assert kb.get("bad.md").pending
        (error,) = kb.connection.execute("select error from v_pending").fetchall()[0]
        assert "bad.md" in error
        assert words in error
        hits = kb.search("falcon").hits
        assert hits[0].path != "bad.md"
        assert next(hit for hit in hits if hit.path == "bad.md").vectors is None

    @pytest.mark.parametrize(
        "answer",
        [
            lambda texts: 1 / 0,
            lambda texts: None,
            lambda texts: [],
            lambda texts: [[1.0] * 768] * (len(texts) + 1),
            lambda texts: "nonsense",
        ],
    )
    def test_whatever_a_host_s_own_model_does_the_note_is_stored(
        self, kb, embedder, answer
    ) -> None:
        embedder.embed = lambda texts, task: answer(texts)
        report = kb.put("a.md", "the falcon flies")
        assert report.pending
        assert report.note
        result = kb.search("falcon")
        assert [hit.path for hit in result.hits] == ["a.md"]
        assert result.degraded
        assert kb.embed().pending == 1

    def test_a_model_may_answer_with_arrays(self, kb, embedder) -> None:
        embed = embedder.embed
        embedder.embed = lambda texts, task: np.array(embed(texts, task))
        assert not kb.put("a.md", "the falcon flies").pending
        assert kb.search("falcon").hits[0].vectors

    def test_a_text_that_is_not_utf8_holds_up_nothing(self, kb) -> None:
        kb.put("a.md", "falcon", defer=True)
        kb.connection.execute(
            "insert into document (path, title, body) values ('bad.md', 'x', cast(x'ff61' as text))"
        )
        report = kb.embed()
        assert (report.documents, report.failed, report.pending) == (1, 1, 1)
        path, error = kb.connection.execute("select path, error from v_pending").fetchall()[0]
        assert path == "bad.md"
        assert "not UTF-8" in error

    def test_a_query_that_fails_is_searched_by_words_and_says_so(self, kb, embedder) -> None:
        kb.put("a.md", "the falcon flies")
        embedder.fail = errors.ModelUnavailableError("gone")
        result = kb.search("falcon")
        assert [hit.path for hit in result.hits] == ["a.md"]
        assert result.degraded == ("searched by words only: gone",)
        assert result.model is None

    def test_tries_are_counted(self, kb, embedder) -> None:
        embedder.fail = errors.ModelUnavailableError("gone")
        kb.put("a.md", "text")
        kb.embed()
        kb.embed()
        assert kb.connection.execute("select tries from v_pending").get == 3


class TestNothingStale:
    def test_withdrawn_words_find_nothing(self, kb, embedder) -> None:
        embedder.vectors = {"falcon": [1.0] + [0.0] * 767, "heron": [0.0, 1.0] + [0.0] * 766}
        kb.put("a.md", "the falcon", title="t")
        embedder.fail = errors.ModelUnavailableError("gone")
        kb.put("a.md", "the heron", title="t")
        embedder.fail = None
        assert kb.search("falcon").hits == ()
        assert [hit.path for hit in kb.search("heron").hits] == ["a.md"]

    def test_the_vector_of_a_deleted_document_serves_no_other(self, kb, embedder) -> None:
        embedder.vectors = {"falcon": [1.0] + [0.0] * 767}
        kb.put("a.md", "the falcon", title="t")
        kb.delete("a.md")
        embedder.fail = errors.ModelUnavailableError("gone")
        kb.put("a.md", "about taxes", title="t")
        embedder.fail = None
        assert kb.search("falcon").hits == ()

    def test_a_text_that_changes_while_it_is_embedded_stays_pending(self, kb, embedder) -> None:
        kb.put("a.md", "first text", defer=True)
        embed = embedder.embed

        def edit_meanwhile(texts, task):
            kb.connection.execute("update document set body = 'second text'")
            embedder.embed = embed
            return embed(texts, task)

        embedder.embed = edit_meanwhile
        report = kb.embed()
        assert (report.documents, report.pending) == (0, 1)
        assert kb.connection.execute("select count(*) from document_embedding").get == 0
        assert kb.embed().documents == 1
        tables_agree(kb.connection)

    def test_no_lock_is_held_while_a_model_works(self, kb, embedder, database) -> None:
        embed = embedder.embed

        def write_meanwhile(texts, task):
            with kbstore.Store(database, embedder=None) as other:
                other.put("other.md", "text")
            embedder.embed = embed
            return embed(texts, task)

        embedder.embed = write_meanwhile
        kb.put("a.md", "text")
        assert {document.path for document in kb.list()} == {"a.md", "other.md"}


class TestLongDocuments:
    def test_every_part_is_found_by_words_and_by_meaning(self, kb, embedder) -> None:
        embedder.vectors = {"zanzibar": [1.0] + [0.0] * 767}
        filler = "Some sentence of no interest at all. "
        for size in (900, 10_000, 100_000):
            text = filler * (size // len(filler)) + "zanzibar"
            kb.put(f"{size}.md", text)
            kb.put(f"plain{size}.md", filler * (size // len(filler)))
        by_words = kb.search("zanzibar", retrievers=["words"]).hits
        by_meaning = kb.search("zanzibar", retrievers=["vectors"], limit=3).hits
        expected = {"900.md", "10000.md", "100000.md"}
        assert {hit.path for hit in by_words} == expected
        assert {hit.path for hit in by_meaning} == expected
        passages = {document.path: document.passages for document in kb.list()}
        assert passages["900.md"] == 1
        assert passages["100000.md"] > 60


class TestQuestions:
    def test_a_person_s_question_is_embedded_and_found(self, kb, embedder) -> None:
        embedder.vectors = {"Why?": [1.0] + [0.0] * 767, "why so": [1.0, 0.1] + [0.0] * 766}
        kb.put("a.md", "the falcon flies")
        kb.connection.execute("insert into question (document_id, text) values (1, 'Why?')")
        assert kb.status().pending == 1
        report = kb.embed()
        assert (report.questions, report.pending) == (1, 0)
        assert embedder.calls[-1] == ("search_query", "Why?")
        (hit,) = kb.search("why so").hits
        assert hit.matched_question == "Why?"
        tables_agree(kb.connection)

    @pytest.mark.parametrize(
        "edit", ["delete from question", "update question set vetoed = 1", "delete from document"]
    )
    def test_a_withdrawn_question_finds_nothing(self, kb, embedder, edit) -> None:
        embedder.vectors = {"Why?": [1.0] + [0.0] * 767, "falcon": [0.0, 1.0] + [0.0] * 766}
        kb.put("a.md", "the falcon flies")
        kb.connection.execute("insert into question (document_id, text) values (1, 'Why?')")
        kb.embed()
        kb.connection.execute(edit)
        assert all(hit.matched_question is None for hit in kb.search("Why?").hits)

    def test_a_reworded_question_is_embedded_anew(self, kb, embedder) -> None:
        kb.put("a.md", "the falcon flies")
        kb.connection.execute("insert into question (document_id, text) values (1, 'Why?')")
        kb.embed()
        kb.connection.execute("update question set text = 'How?'")
        assert kb.embed().questions == 1
        assert embedder.calls[-1] == ("search_query", "How?")
        tables_agree(kb.connection)


class TestAnotherModel:
    @pytest.fixture
    def reopen(self, kb, database) -> Callable[[FakeEmbedder], kbstore.Store]:
        for i in range(20):
            kb.put(f"{i}.md", f"falcon number{i}")
        kb.connection.execute("insert into question (document_id, text) values (1, 'Why?')")
        kb.embed()
        return lambda model: kbstore.Store(database, embedder=model)

    def test_it_never_mixes_and_says_so(self, reopen) -> None:
        other = FakeEmbedder("other", weight=0.5)
        with reopen(other) as store:
            result = store.search("number7")
            assert result.hits[0].path == "7.md"
            assert all(hit.vectors is None for hit in result.hits)
            assert "made by fake" in result.degraded[0]
            assert "kbstore embed" in result.degraded[0]
            report = store.put("new.md", "falcon number99")
            assert report.pending
            assert other.calls == []
            assert store.status().model == "fake"

    def test_embed_makes_all_anew_and_then_switches(self, reopen) -> None:
        other = FakeEmbedder("other", weight=0.5)
        with reopen(other) as store:
            report = store.embed()
            assert (report.documents, report.questions, report.pending) == (20, 1, 0)
            status = store.status()
            assert (status.model, status.pending, status.passages) == ("other", 0, 20)
            result = store.search("number7")
            assert (result.model, result.degraded) == ("other", ())
            assert result.hits[0].vectors
            assert store.connection.execute(
                "select count(*) from document_embedding where model like '%fake'"
            ).get == 0  # fmt: skip
            tables_agree(store.connection)

    def test_until_the_last_one_is_there_the_old_ones_serve(self, reopen, embedder) -> None:
        other = FakeEmbedder("other")
        with reopen(other) as store:
            report = store.embed(limit=15)
            assert report.documents == 15
            assert store.status().model == "fake"
        with reopen(embedder) as store:
            result = store.search("number7")
            assert (result.model, result.degraded) == ("fake", ())
            assert result.hits[0].vectors.rank == 1
        with reopen(other) as store:
            assert store.embed().documents == 5  # the rest only
            assert store.status().model == "other"
            tables_agree(store.connection)

    def test_a_document_that_fails_does_not_hold_up_the_switch(self, reopen) -> None:
        other = FakeEmbedder("other")
        other.vectors["number3"] = [0.0] * 768
        with reopen(other) as store:
            report = store.embed()
            assert (report.documents, report.failed) == (19, 1)
            assert store.status().model == "other"
            assert [d.path for d in store.list() if d.pending] == ["3.md"]


def test_vectors_made_without_the_extension_are_used_once_it_is_there(
    database, embedder, monkeypatch
) -> None:
    import sqlite_vec

    monkeypatch.setattr(sqlite_vec, "loadable_path", lambda: "/nowhere/vec0")
    with kbstore.Store(database, embedder=embedder) as store:
        assert not store.put("a.md", "the falcon flies").pending
        result = store.search("falcon")
        assert result.hits[0].vectors is None
        (sentence,) = result.degraded
        assert "sqlite-vec" in sentence
        assert "pip install" in sentence
        assert store.status().sqlite_vec is None
    monkeypatch.undo()
    with kbstore.Store(database, embedder=embedder) as store:
        store.embed()
        result = store.search("falcon")
        assert result.degraded == ()
        assert result.hits[0].vectors
        assert len(documents(embedder)) == 1
        tables_agree(store.connection)
