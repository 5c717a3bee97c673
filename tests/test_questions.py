"""The questions of a store: when an LLM is asked, what becomes of what it writes, what a person may
do with it, and what happens when it fails."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from conftest import FakeEmbedder
from openai_server import OpenAI, questions_about

import kbstore
from kbstore import hype, mirror
from kbstore.errors import (
    ConflictError,
    InputError,
    ModelError,
    ModelUnavailableError,
    NotFoundError,
    RateLimitedError,
)
from kbstore.report import HypeReport

LATER = "; `kbstore hype` has them written"
ASKED = "from v_pending where what = 'hype'"


class FakeLLM:
    """Five questions about the title of each note. ``answers`` overrides those of notes that have
    a word in them: questions, or what is raised. ``hook`` is called once, while it thinks."""

    def __init__(self, name: str = "fake/llm") -> None:
        self.name = name
        self.notes: list[str] = []
        self.avoided: list[tuple[str, ...]] = []
        self.answers: dict[str, Any] = {}
        self.hook: Callable[[], object] | None = None

    @property
    def titles(self) -> list[str]:
        return [note.partition(".")[0] for note in self.notes]

    def questions(self, note: str, avoid: Sequence[str] = ()) -> list[str]:
        self.notes.append(note)
        self.avoided.append(tuple(avoid))
        hook, self.hook = self.hook, None
        if hook:
            hook()
        for word, answer in self.answers.items():
            if word in note:
                if isinstance(answer, BaseException):
                    raise answer
                return answer
        return five(note.partition(".")[0])


def five(title: str) -> list[str]:
    return [f"What is point {i} of {title}?" for i in range(1, 6)]


@pytest.fixture
def fake() -> FakeLLM:
    return FakeLLM()


@pytest.fixture
def kb(database: Path, embedder: FakeEmbedder, fake: FakeLLM) -> Iterator[kbstore.Store]:
    """An empty store with the fake embedder and the fake LLM."""
    with kbstore.Store(database, embedder=embedder, hype=fake) as store:
        yield store


@pytest.fixture
def off(database: Path, embedder: FakeEmbedder) -> Iterator[kbstore.Store]:
    """The same file with no LLM."""
    with kbstore.Store(database, embedder=embedder, hype=None) as store:
        yield store


def rows(kb: kbstore.Store, sql: str) -> list[tuple[Any, ...]]:
    return kb.connection.execute(sql).fetchall()


def texts(kb: kbstore.Store, path: str | None = None) -> list[str]:
    return [question.text for question in kb.questions.list(path)]


def states(kb: kbstore.Store, path: str | None = None) -> dict[str, str]:
    return {question.text: question.state for question in kb.questions.list(path)}


def matched(kb: kbstore.Store, question: str) -> set[tuple[str, str | None]]:
    """Which notes are found by which question."""
    hits = kb.search(question, limit=50).hits
    return {(hit.path, hit.matched_question) for hit in hits if hit.matched_question}


def is_found(kb: kbstore.Store, path: str, question: str) -> bool:
    return (path, question) in matched(kb, question)


def embedded(embedder: FakeEmbedder) -> list[str]:
    return [text for task, text in embedder.calls if task == "search_query"]


def fill(kb: kbstore.Store, count: int, start: int = 0) -> None:
    """Notes 0.md, 1.md …, the last one the newest, about which nobody has been asked."""
    with kb.batch():
        for i in range(start, start + count):
            kb.put(
                f"{i}.md", f"text {i}", title=f"T{i}", defer=True,
                updated=f"2026-01-01T{i // 60:02}:{i % 60:02}Z",
            )  # fmt: skip


class TestPut:
    def test_asks_once_and_stores_what_is_found_at_once(self, kb, fake, embedder) -> None:
        report = kb.put("a.md", "The falcon flies.", title="Falcon", tags=["bird"])
        assert (report.action, report.pending, report.note) == ("created", False, None)
        assert fake.notes == ["Falcon. Tags: bird.\n\nThe falcon flies."]
        assert texts(kb) == five("Falcon")
        assert set(states(kb).values()) == {"searched"}
        (digest,) = rows(kb, "select content_hash from document")[0]
        found = rows(kb, "select distinct origin, model, content_hash, vetoed from question")
        assert found == [("llm", "fake/llm", digest, 0)]
        assert rows(kb, "select content_hash, model from questioned") == [(digest, "fake/llm")]
        assert embedded(embedder) == five("Falcon")
        assert is_found(kb, "a.md", "What is point 3 of Falcon?")
        status = kb.status()
        assert (status.questions, status.unquestioned, status.pending) == (5, 0, 0)
        assert (status.hype_model, status.degraded) == ("fake/llm", ())

    def test_questions_are_made_clean_and_the_first_ten_count(self, kb, fake) -> None:
        many = [f"What is number {i} of them?" for i in range(20)]
        fake.answers = {"falcon": ["1. *Why so?*", "No question.", "  why so??", *many, "\0"]}
        kb.put("a.md", "the falcon flies")
        assert texts(kb) == ["Why so?", *many[:9]]

    def test_a_generator_may_yield_them(self, kb, fake) -> None:
        fake.answers = {"falcon": (question for question in five("It"))}
        kb.put("a.md", "the falcon flies")
        assert texts(kb) == five("It")

    def test_an_llm_of_the_host_is_remembered_by_its_name(self, kb, fake) -> None:
        assert rows(kb, "select value from setting where name = 'hype_model'") == [(None,)]
        kb.put("a.md", "the falcon flies")
        assert rows(kb, "select value from setting where name = 'hype_model'") == [("fake/llm",)]

    @pytest.mark.parametrize("body", ["", " \n\t", "\n\n"])
    def test_nobody_is_asked_about_a_blank_note(self, kb, fake, body) -> None:
        kb.put("seen.md", "so that an LLM is set")
        assert not kb.put("a.md", body, allow_empty=True).pending
        kb.connection.execute("insert into document (path, title, body) values ('b.md', 'b', ' ')")
        report = kb.hype()
        assert (report.documents, report.failed, report.pending) == (0, 0, 0)
        assert fake.titles == ["seen"]
        assert kb.status().unquestioned == 0

    def test_inside_a_transaction_nobody_is_asked(self, kb, fake) -> None:
        with kb.batch():
            kb.put("a.md", "the falcon flies", title="Falcon")
            assert "inside a transaction no LLM is asked" in kb.hype().error
        assert fake.notes == []
        assert kb.hype().documents == 1
        assert texts(kb) == five("Falcon")

    def test_another_thread_s_transaction_is_waited_for(self, kb, fake, monkeypatch) -> None:
        """It is not taken for one's own."""
        kb.put("a.md", "the falcon flies", title="Falcon", defer=True)
        inside, waited_for, lock = threading.Event(), threading.Event(), kb.session._lock

        class Watched:
            def __enter__(self) -> None:
                if threading.current_thread() is threading.main_thread():
                    waited_for.set()
                lock.__enter__()

            def __exit__(self, *error: Any) -> None:
                lock.__exit__(*error)

        def write() -> None:
            with kb.batch():
                inside.set()
                assert waited_for.wait(10)

        monkeypatch.setattr(kb.session, "_lock", Watched())
        thread = threading.Thread(target=write)
        thread.start()
        assert inside.wait(10)
        assert kb.hype().documents == 1
        thread.join()

    def test_no_lock_is_held_while_the_llm_thinks(self, kb, off, fake) -> None:
        fake.hook = lambda: off.put("other.md", "stored meanwhile")
        kb.put("a.md", "the falcon flies")
        assert [summary.path for summary in kb.list()] == ["a.md", "other.md"]


class TestOff:
    def test_whoever_wants_no_questions_makes_no_call(self, kb, off, fake) -> None:
        off.put("a.md", "the falcon flies")
        kb.put("b.md", "the heron wades", hype=False)
        kb.put("c.md", "the owl hoots", defer=True)
        kb.append("d.md", "the crow caws", hype=False)
        assert fake.notes == []
        assert texts(kb) == []
        assert kb.hype().documents == 4

    def test_without_an_llm_nothing_is_pending(self, off) -> None:
        report = off.put("a.md", "the falcon flies")
        assert (report.pending, report.note) == (False, None)
        assert (off.status().unquestioned, off.status().hype_model) == (0, None)
        assert off.search("falcon").degraded == ()

    def test_a_run_without_an_llm_says_how_one_is_set(self, off) -> None:
        off.put("a.md", "the falcon flies")
        report = off.hype()
        assert (report.model, report.documents) == (None, 0)
        assert "no LLM is set" in report.error
        assert "KBSTORE_HYPE_MODEL=openai/gpt-4o-mini" in report.error
        with pytest.raises(ModelUnavailableError, match="no LLM is set"):
            off.questions.estimate()

    def test_what_was_put_off_is_said_and_made_up_for(self, kb, fake) -> None:
        kb.put("a.md", "the falcon flies")
        assert kb.put("b.md", "the heron wades", hype=False).pending
        assert kb.status().unquestioned == 1
        said = (f"1 of 2 documents have no questions yet{LATER}",)
        assert kb.search("heron").degraded == kb.status().degraded == said
        assert kb.hype().documents == 1
        assert kb.search("heron").degraded == kb.status().degraded == ()
        assert fake.titles == ["a", "b"]

    def test_the_llm_is_that_of_the_argument_the_environment_or_the_setting(
        self, database, monkeypatch
    ) -> None:
        def name(**options: Any) -> str | None:
            with kbstore.Store(database, embedder=None, **options) as store:
                return store.questions.name()

        assert name() is None
        with kbstore.Store(database, embedder=None) as store:
            store.connection.execute("update setting set value = 'x/set' where name = 'hype_model'")
        assert name() == "x/set"
        monkeypatch.setenv("KBSTORE_HYPE_MODEL", "x/env")
        assert name() == "x/env"
        assert name(hype="x/given") == "x/given"
        assert name(hype=FakeLLM("x/own")) == "x/own"
        assert name(hype=None) is None


class TestReuse:
    def test_what_is_unchanged_moved_or_renamed_costs_no_call(self, kb, fake, embedder) -> None:
        kb.put("a.md", "the falcon flies")
        before = (len(fake.notes), len(embedder.calls))
        kb.put("a.md", "the falcon flies")
        kb.put("a.md", "the falcon flies", updated="2026-01-01")
        kb.put("a.md", "the falcon flies", frontmatter="x: 1\n")
        kb.move("a.md", "b.md")
        kb.put("b.md", "the falcon flies")
        kb.hype()
        kb.embed()
        assert (len(fake.notes), len(embedder.calls)) == before
        assert (kb.status().unquestioned, kb.status().pending) == (0, 0)
        assert is_found(kb, "b.md", "What is point 2 of a?")

    @pytest.mark.parametrize("by", ["put", "hype"])
    def test_the_same_text_elsewhere_copies_questions_and_vectors(
        self, kb, fake, embedder, by
    ) -> None:
        kb.put("a.md", "the falcon flies", title="Falcon")
        calls = len(embedder.calls)
        kb.put("copy.md", "the falcon flies", title="Falcon", defer=by == "hype")
        if by == "hype":
            kb.embed()
            report = kb.hype()
            assert (report.documents, report.reused, report.questions) == (0, 1, 0)
        assert len(fake.notes) == 1
        assert len(embedder.calls) == calls
        assert texts(kb, "copy.md") == five("Falcon")
        assert set(states(kb, "copy.md").values()) == {"searched"}
        asked = rows(kb, "select content_hash, model, asked from questioned")
        assert len(asked) == 2
        assert asked[0] == asked[1]
        question = "What is point 1 of Falcon?"
        assert matched(kb, question) == {("a.md", question), ("copy.md", question)}

    def test_so_does_it_within_one_run(self, kb, fake) -> None:
        with kb.batch():
            for i in range(20):
                kb.put(f"{i}.md", "the falcon flies", title="Falcon", defer=True)
        report = kb.hype(parallel=8)
        assert (report.documents, report.reused, report.pending) == (1, 19, 0)
        assert len(fake.notes) == 1
        assert len(texts(kb)) == 100

    def test_where_the_first_of_them_fails_the_others_are_tried(self, kb, fake) -> None:
        with kb.batch():
            for i in range(3):
                kb.put(f"{i}.md", "the falcon flies", title="Falcon", defer=True)
        fake.answers = {"falcon": ModelError("no")}
        report = kb.hype()
        assert (report.documents, report.failed, len(fake.notes)) == (0, 3, 3)

    def test_what_a_person_did_to_the_source_is_not_copied(self, kb) -> None:
        kb.put("a.md", "the falcon flies", title="Falcon")
        first, second, third, *others = kb.questions.list("a.md")
        kb.questions.veto([first.id], True)
        kb.questions.remove([second.id])
        kb.connection.execute("update question set text = 'Mine?' where id = ?", (third.id,))
        kb.put("copy.md", "the falcon flies", title="Falcon")
        assert texts(kb, "copy.md") == [question.text for question in others]

    def test_a_text_that_came_back_has_its_questions_still(self, kb, off, fake) -> None:
        kb.put("a.md", "the falcon flies", title="Falcon")
        off.put("a.md", "the heron wades")
        off.put("a.md", "the falcon flies")
        assert is_found(kb, "a.md", "What is point 4 of Falcon?")
        assert kb.hype().documents == 0
        assert len(fake.notes) == 1

    def test_so_has_one_that_was_edited_to_and_fro_in_a_shell(self, database, fake) -> None:
        """No vectors, so that nothing but the run itself says that the text is the old one."""
        with kbstore.Store(database, embedder=None, hype=fake) as kb:
            kb.put("a.md", "the falcon flies")
            kb.connection.execute("update document set body = 'x'")
            kb.connection.execute("update document set body = 'the falcon flies'")
            assert kb.status().unquestioned == 1
            kb.questions.remove([1])
            report = kb.hype()
            assert (report.documents, report.reused, report.pending) == (0, 1, 0)
            assert len(fake.notes) == 1
            assert len(texts(kb)) == 4  # the deleted one stays away

    def test_two_runs_at_once_ask_about_each_note_once(self, kb, database, fake) -> None:
        """The second run does all of its work while the first one thinks about its first note."""
        fill(kb, 10)
        other = FakeLLM()

        def run() -> None:
            with kbstore.Store(database, embedder=FakeEmbedder(), hype=other) as second:
                assert second.hype(parallel=2).documents == 10

        fake.hook = run
        report = kb.hype(parallel=1)
        assert (report.documents, report.reused, report.pending) == (1, 9, 0)
        assert len(fake.notes) == 1
        assert len(texts(kb)) == len(set(texts(kb))) == 50
        assert set(states(kb).values()) == {"searched"}


class TestChange:
    @pytest.mark.parametrize(
        "change",
        [{"body": "the heron wades"}, {"title": "Heron"}, {"tags": ["x"]}, {"description": "d"}],
    )
    def test_a_changed_text_is_asked_about_anew(self, kb, fake, change) -> None:
        kb.put("a.md", "the falcon flies", title="Falcon")
        fake.answers = {"": five("Heron")}
        kb.put("a.md", **({"body": "the falcon flies"} | change))
        assert len(fake.notes) == 2
        assert texts(kb) == five("Heron")
        assert set(states(kb).values()) == {"searched"}
        assert kb.connection.execute("select count(*) from question_embedding").get == 5

    @pytest.mark.parametrize("by", ["put", "a failing put", "shell", "defer"])
    def test_the_old_questions_are_gone_at_once_though_the_llm_is_off(
        self, kb, off, fake, embedder, by
    ) -> None:
        embedder.vectors = {
            word: [float(i == axis) for i in range(768)]
            for axis, word in enumerate(("How fast", "How deep", "falcon", "heron"))
        }
        fake.answers = {"the falcon": ["How fast does a falcon fly?"]}
        kb.put("a.md", "the falcon", title="t")
        assert is_found(kb, "a.md", "How fast does a falcon fly?")
        fake.answers = {"heron": ModelUnavailableError("gone")}
        if by == "shell":
            kb.connection.execute("update document set body = 'the heron'")
        elif by == "put":
            off.put("a.md", "the heron")
        else:
            kb.put("a.md", "the heron", defer=by == "defer")
        assert [hit.score for hit in kb.search("falcon").hits if hit.score] == []
        assert matched(kb, "How fast does a falcon fly?") == set()
        assert states(kb) == {"How fast does a falcon fly?": "stale"}
        assert kb.status().unquestioned == 1
        fake.answers = {"heron": ["How deep does a heron wade?"]}
        report = kb.hype()
        assert (report.documents, report.pending) == (1, 0)
        assert texts(kb) == ["How deep does a heron wade?"]
        assert is_found(kb, "a.md", "How deep does a heron wade?")

    def test_a_text_that_changes_while_the_llm_thinks_gets_none_of_the_old_one_s(
        self, kb, off, fake
    ) -> None:
        fake.hook = lambda: off.put("a.md", "the heron wades")
        report = kb.put("a.md", "the falcon flies")
        assert report.pending is False  # there is no LLM yet, as far as the file knows
        assert texts(kb) == []
        assert rows(kb, "select count(*) from questioned") == [(0,)]
        fake.hook = lambda: off.put("a.md", "the owl hoots")
        assert kb.hype().questions == 0
        assert texts(kb) == []
        assert kb.hype().questions == 5
        assert "owl" in fake.notes[-1]

    def test_one_that_is_deleted_meanwhile_gets_none_either(self, kb, off, fake) -> None:
        fake.hook = lambda: off.delete("a.md")
        assert kb.put("a.md", "the falcon flies").action == "created"
        assert rows(kb, "select count(*) from question") == [(0,)]
        kb.put("b.md", "the heron wades", defer=True)
        fake.hook = lambda: off.delete("b.md")
        report = kb.hype()
        assert (report.questions, report.failed, report.pending) == (0, 0, 0)

    def test_a_deleted_note_takes_its_questions_along(self, kb) -> None:
        kb.put("a.md", "the falcon flies")
        kb.delete("a.md")
        for table in ("question", "questioned", "question_embedding", "hype_vec"):
            assert rows(kb, f"select count(*) from {table}") == [(0,)]


class TestVeto:
    def test_a_vetoed_question_is_kept_and_not_searched(self, kb) -> None:
        kb.put("a.md", "the falcon flies", title="Falcon")
        first = kb.questions.list()[0]
        kb.questions.veto([first.id], True)
        assert states(kb)[first.text] == "vetoed"
        assert not is_found(kb, "a.md", first.text)
        assert kb.status().questions == 4
        kb.questions.veto([first.id], False)
        assert states(kb)[first.text] == "searched"
        assert is_found(kb, "a.md", first.text)

    @pytest.mark.parametrize("again", ["the same text", "a changed text"])
    def test_it_is_never_written_again(self, kb, fake, again) -> None:
        kb.put("a.md", "the falcon flies", title="Falcon")
        first = kb.questions.list()[0]
        kb.questions.veto([first.id], True)
        if again == "the same text":
            kb.connection.execute("delete from questioned")
            assert kb.hype().documents == 1
        else:
            fake.answers = {"": [first.text.upper(), f"“{first.text}”", *five("Falcon")]}
            kb.put("a.md", "the falcon dives")
        assert fake.avoided[-1] == (first.text,)
        assert texts(kb) == five("Falcon")
        assert [question.id for question in kb.questions.list() if question.state == "vetoed"] == [
            first.id
        ]
        assert kb.status().questions == 4

    def test_of_several_all_or_none(self, kb) -> None:
        kb.put("a.md", "the falcon flies")
        with pytest.raises(NotFoundError, match="there is no question 99"):
            kb.questions.veto([1, 99], True)
        with pytest.raises(NotFoundError, match="there is no question 99"):
            kb.questions.remove([1, 2, 99])
        assert set(states(kb).values()) == {"searched"}
        kb.questions.veto([1, 2, 1], True)
        kb.questions.remove([1, 2, 1])
        assert texts(kb) == five("a")[2:]

    def test_a_veto_in_sql_is_the_same(self, kb, fake) -> None:
        kb.put("a.md", "the falcon flies")
        kb.connection.execute("update question set vetoed = 1 where id = 2")
        kb.put("a.md", "the falcon dives")
        assert fake.avoided[-1] == ("What is point 2 of a?",)
        assert states(kb)["What is point 2 of a?"] == "vetoed"


class TestByHand:
    @pytest.mark.parametrize("then", ["put", "put another", "embed", "hype"])
    def test_a_question_of_a_person_s_is_embedded_by_whoever_comes_next(
        self, kb, fake, then
    ) -> None:
        kb.put("a.md", "the falcon flies")
        kb.connection.execute("insert into question (document_id, text) values (1, 'Any quokkas?')")
        assert states(kb)["Any quokkas?"] == "pending"
        assert not is_found(kb, "a.md", "Any quokkas?")
        if then == "put":
            kb.put("a.md", "the falcon flies")
        elif then == "put another":
            kb.put("b.md", "the heron wades")
        elif then == "embed":
            assert kb.embed().questions == 1
        else:
            assert kb.hype().embedding_error is None
        assert states(kb)["Any quokkas?"] == "searched"
        assert is_found(kb, "a.md", "Any quokkas?")

    def test_it_survives_every_regeneration(self, kb, fake) -> None:
        kb.put("a.md", "the falcon flies")
        added = kb.questions.add("a.md", "  Any \n quokkas?  ")
        assert (added.text, added.origin, added.state) == ("Any quokkas?", "user", "searched")
        fake.answers = {"dives": ["any quokkas", "Any quokkas?", "How deep does it dive?"]}
        kb.put("a.md", "the falcon dives")
        assert fake.avoided[-1] == ("Any quokkas?",)
        assert texts(kb) == ["Any quokkas?", "How deep does it dive?"]
        kb.connection.execute("delete from questioned")
        kb.hype()
        with kbstore.Store(kb.status().path, embedder=FakeEmbedder(), hype=FakeLLM("B")) as other:
            other.hype(again=True)
        assert added in kb.questions.list()
        assert is_found(kb, "a.md", "Any quokkas?")

    def test_a_reworded_question_of_the_llm_s_is_the_person_s(self, kb, fake) -> None:
        kb.put("a.md", "the falcon flies")
        kb.connection.execute("update question set text = 'Any quokkas?' where id = 1")
        reworded = kb.questions.list()[0]
        assert (reworded.origin, reworded.model, reworded.state) == ("user", None, "pending")
        kb.put("a.md", "the falcon dives")
        assert kb.questions.list()[0].text == "Any quokkas?"
        assert is_found(kb, "a.md", "Any quokkas?")
        assert fake.avoided[-1] == ("Any quokkas?",)

    def test_a_deleted_question_stays_away_until_the_text_changes(self, kb, fake) -> None:
        kb.put("a.md", "the falcon flies")
        kb.questions.remove([1])
        kb.connection.execute("delete from question where id = 2")
        kb.put("a.md", "the falcon flies")
        kb.hype()
        kb.embed()
        assert texts(kb) == five("a")[2:]
        assert not is_found(kb, "a.md", "What is point 1 of a?")
        assert rows(kb, "select count(*) from hype_vec") == [(3,)]
        kb.put("a.md", "the falcon dives")
        assert texts(kb) == five("a")
        assert len(fake.notes) == 2

    def test_what_is_no_question_is_refused_and_changes_nothing(self, kb) -> None:
        kb.put("a.md", "the falcon flies")
        for path, text, error, words in (
            ("b.md", "Why?", NotFoundError, "there is no document b.md"),
            ("../b.md", "Why?", InputError, "relative"),
            ("a.md", " \n", InputError, "the question is blank"),
            ("a.md", "y" * 301, InputError, "has 301 characters; 300 is the most"),
            ("a.md", "a\0b", InputError, "NUL"),
            ("a.md", "a\ud800b", InputError, "surrogate"),
            ("a.md", five("a")[0], ConflictError, "has the question .* already"),
        ):
            with pytest.raises(error, match=words):
                kb.questions.add(path, text)
        assert texts(kb) == five("a")

    def test_paths_and_questions_are_composed(self, kb) -> None:
        kb.put("caf\u00e9.md", "the falcon flies")
        added = kb.questions.add("cafe\u0301.md", "Which cafe\u0301?")
        assert (added.path, added.text) == ("caf\u00e9.md", "Which caf\u00e9?")

    def test_a_stale_one_of_the_llm_s_does_not_stand_in_the_way(self, kb, off) -> None:
        kb.put("a.md", "the falcon flies")
        off.put("a.md", "the heron wades")
        text = five("a")[0]
        assert states(kb)[text] == "stale"
        assert off.questions.add("a.md", text).state == "searched"
        assert is_found(kb, "a.md", text)

    def test_a_vetoed_one_does_and_the_error_says_so(self, kb) -> None:
        kb.put("a.md", "the falcon flies")
        kb.questions.veto([1], True)
        with pytest.raises(ConflictError, match=r"already \(1, vetoed\)"):
            kb.questions.add("a.md", five("a")[0])

    def test_without_a_model_it_waits(self, database) -> None:
        with kbstore.Store(database, embedder=None) as kb:
            kb.put("a.md", "the falcon flies")
            assert kb.questions.add("a.md", "Any quokkas?").state == "pending"

    def test_they_are_listed_by_note_in_the_order_in_which_they_came(self, kb) -> None:
        kb.put("b.md", "the heron wades")
        kb.put("a.md", "the falcon flies")
        kb.questions.add("b.md", "Any quokkas?")
        assert texts(kb) == [*five("a"), *five("b"), "Any quokkas?"]
        assert texts(kb, "b.md") == [*five("b"), "Any quokkas?"]
        assert texts(kb, "c.md") == []
        assert kb.questions.list("a.md")[0].as_dict() == {
            "id": 6,
            "path": "a.md",
            "text": "What is point 1 of a?",
            "origin": "llm",
            "state": "searched",
            "model": "fake/llm",
        }


class Strange(ModelError):
    def __init__(self, one: int, two: int) -> None:
        super().__init__(f"{one} and {two}")


RAISED: list[BaseException] = [
    ModelError("it is too hot"),
    ModelUnavailableError("it is away"),
    Strange(1, 2),
    ZeroDivisionError("division by zero"),
    OSError(2, "No such file or directory"),
    RecursionError(),
    TimeoutError(),
    ExceptionGroup("several", [ValueError("one")]),
    StopIteration(),
]
WORSE: list[BaseException] = [SystemExit(3), asyncio.CancelledError(), GeneratorExit()]
GARBAGE: list[Any] = [
    None, 5, "Why?", b"Why is it so?", [], [None], {}, [""], [["?"]], object(), [b"\xff"],
    ["It is so."], ["x" * 10_000 + "?"], ["\0", "\ud83d"],
]  # fmt: skip


class TestFailure:
    @pytest.mark.parametrize("raised", RAISED, ids=repr)
    def test_whatever_is_raised_the_note_is_stored_and_the_error_kept(
        self, kb, fake, raised
    ) -> None:
        kb.put("good.md", "so that an LLM is set")
        fake.answers = {"falcon": raised}
        report = kb.put("a.md", "the falcon flies")
        assert (report.action, report.pending) == ("created", True)
        assert report.note.startswith("a.md: ")
        assert str(raised)[:20] in report.note
        assert kb.search("falcon").hits[0].path == "a.md"
        assert rows(kb, "select path, what, tries, error from v_pending") == [
            ("a.md", "hype", 1, report.note)
        ]

    @pytest.mark.parametrize("raised", RAISED + WORSE, ids=repr)
    def test_one_bad_note_does_not_hold_up_the_others(self, kb, fake, raised) -> None:
        fill(kb, 9)
        kb.put("bad.md", "the falcon flies", defer=True)
        fake.answers = {"falcon": raised}
        for tries in (1, 2):
            report = kb.hype(parallel=3)
            assert (report.documents, report.failed, report.pending) == (9 * (tries == 1), 1, 1)
            assert report.error is None
        ((path, count, error),) = rows(kb, f"select path, tries, error {ASKED}")
        assert (path, count) == ("bad.md", 2)
        assert error.startswith("bad.md: ")
        fake.answers = {}
        report = kb.hype()
        assert (report.documents, report.failed, report.pending) == (1, 0, 0)
        assert rows(kb, "select * from failure") == []

    @pytest.mark.parametrize("garbage", GARBAGE, ids=lambda value: repr(value)[:20])
    def test_nor_does_one_that_gets_garbage(self, kb, fake, garbage) -> None:
        fill(kb, 3)
        kb.put("bad.md", "the falcon flies", defer=True)
        fake.answers = {"falcon": garbage}
        report = kb.hype(parallel=2)
        assert (report.documents, report.failed, report.pending) == (3, 1, 1)
        ((error,),) = rows(kb, "select error from failure")
        assert error.startswith("bad.md: fake/llm ")
        assert len(texts(kb)) == 15

    def test_nor_one_that_is_not_utf8(self, kb, fake) -> None:
        fill(kb, 3)
        kb.connection.execute(
            "insert into document (path, title, body, updated)"
            " values ('bad.md', 'x', cast(x'ff61' as text), '2030-01-01')"
        )
        assert kb.hype(limit=1).documents == 1
        report = kb.hype()
        assert (report.documents, report.failed) == (2, 1)
        ((stage, error),) = rows(kb, "select stage, error from failure")
        assert stage == "hype"
        assert "not UTF-8" in error

    def test_errors_and_tries_are_seen_everywhere_until_it_works(self, kb, fake) -> None:
        kb.put("good.md", "so that an LLM is set")
        fake.answers = {"falcon": ModelError("it is too hot")}
        for tries in range(1, 4):
            kb.put("a.md", "the falcon flies")
            pending = rows(kb, "select path, what, error, tries from v_pending")
            assert pending == [("a.md", "hype", "a.md: it is too hot", tries)]
        status = kb.status()
        assert (status.unquestioned, status.failed, status.pending) == (1, 1, 0)
        assert status.last_error == "a.md: it is too hot"
        said = (f"1 of 2 documents have no questions yet (last error: a.md: it is too hot){LATER}",)
        for query in ("falcon", "anything at all"):
            assert kb.search(query).degraded == said
        assert status.degraded == said
        fake.answers = {}
        assert not kb.put("a.md", "the falcon flies").pending
        status = kb.status()
        assert (status.unquestioned, status.failed, status.last_error) == (0, 0, None)
        assert status.degraded == kb.search("falcon").degraded == ()

    def test_without_a_model_for_vectors_the_questions_wait(self, database, fake, embedder) -> None:
        with kbstore.Store(database, embedder=None, hype=fake) as kb:
            kb.put("a.md", "the falcon flies")
            kb.put("b.md", "the heron wades", defer=True)
            report = kb.hype()
            assert (report.documents, report.questions) == (1, 5)
            assert report.embedding_error == "embedding is switched off"
            assert set(states(kb).values()) == {"pending"}
        with kbstore.Store(database, embedder=embedder, hype=None) as kb:
            assert kb.embed().questions == 10
            assert is_found(kb, "b.md", "What is point 5 of b?")

    def test_an_embedder_that_fails_loses_no_question(self, kb, fake, embedder) -> None:
        fill(kb, 20)
        embedder.fail = ModelUnavailableError("the model is on fire")
        report = kb.hype()
        assert (report.documents, report.questions, report.error) == (20, 100, None)
        assert report.embedding_error == "the model is on fire"
        embedder.fail = None
        report = kb.hype()
        assert (report.documents, report.embedding_error) == (0, None)
        assert set(states(kb).values()) == {"searched"}
        assert len(fake.notes) == 20

    def test_one_question_with_a_bad_vector_does_not_hold_up_the_others(
        self, kb, fake, embedder
    ) -> None:
        fill(kb, 20)
        embedder.vectors["cursed"] = [0.0] * 768
        fake.answers = {"text 7": ["What is cursed here?", *five("T7")]}
        report = kb.hype()
        assert (report.documents, report.questions) == (20, 101)
        waiting = [text for text, state in states(kb).items() if state != "searched"]
        assert waiting == ["What is cursed here?"]
        path, error = rows(kb, "select path, error from v_pending where what = 'question'")[0]
        assert path == "7.md"
        assert "zeros" in error
        assert "What is cursed here?" in error
        assert is_found(kb, "7.md", "What is point 2 of T7?")

    def test_a_setting_that_is_no_number_is_told(self, database, llm) -> None:
        with kbstore.Store(database, embedder=None) as kb:
            for value in ("'hot'", "null", "x'00'"):
                kb.connection.execute(
                    f"update setting set value = {value} where name = 'hype_temperature'"
                )
                report = kb.put("a.md", f"the falcon flies {value}")
                assert report.action in ("created", "replaced")
                assert "the setting hype_temperature is" in report.note
                assert "the setting hype_temperature is" in kb.hype().error
        assert llm.requests == []


class TestRun:
    def test_the_newest_come_first_and_a_limit_holds(self, kb, fake) -> None:
        fill(kb, 5)
        report = kb.hype(limit=2, parallel=1)
        assert fake.titles == ["T4", "T3"]
        assert report == HypeReport("fake/llm", documents=2, questions=10, pending=3)
        assert kb.hype(parallel=1) == HypeReport("fake/llm", documents=3, questions=15)
        assert fake.titles == ["T4", "T3", "T2", "T1", "T0"]
        assert kb.hype() == HypeReport("fake/llm")
        assert len(fake.notes) == 5

    def test_a_blank_note_takes_nobody_s_place(self, kb, fake) -> None:
        fill(kb, 3)
        for i in range(4):
            kb.put(f"blank{i}.md", " ", allow_empty=True, updated="2030-01-01", defer=True)
        seen: list[tuple[int, int]] = []
        assert kb.hype(limit=2, progress=lambda *at: seen.append(at)).documents == 2
        assert seen == [(1, 2), (2, 2)]
        assert kb.hype(limit=2).documents == 1

    def test_progress_is_told(self, kb, fake) -> None:
        fill(kb, 5)
        kb.put("twin.md", "text 3", title="T3", updated="2025-01-01", defer=True)
        fake.answers = {"text 2": ModelError("no")}
        seen: list[tuple[int, int]] = []
        kb.hype(progress=lambda *at: seen.append(at))
        assert seen == [(i, 6) for i in range(1, 7)]

    def test_what_is_stopped_keeps_what_was_answered(self, kb, fake, embedder) -> None:
        fill(kb, 40)
        seen: list[int] = []

        def stop(done: int, of: int) -> None:
            seen.append(done)
            if done >= 10:
                raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            kb.hype(parallel=4, progress=stop)
        assert seen == list(range(1, 11))  # it is not called on the way out
        asked = [title for (title,) in rows(kb, "select title from document join questioned")]
        stored = rows(kb, "select count(*) from questioned")[0][0]
        assert 10 <= stored <= 14
        assert asked
        assert len(texts(kb)) == 5 * stored
        assert set(states(kb).values()) == {"searched"}
        assert rows(kb, "select * from failure") == []
        before = len(fake.notes)
        report = kb.hype()
        assert (report.documents, report.pending) == (40 - stored, 0)
        assert len(fake.notes) - before == 40 - stored
        assert len(texts(kb)) == len(set(texts(kb))) == 200

    def test_whoever_waits_for_a_turn_when_it_is_stopped_has_not_failed(
        self, database, llm, embedder
    ) -> None:
        llm.headers = {"Retry-After": "3600"}
        llm.answers = ["\n".join(five("T3")), 429, 429, 429]
        with kbstore.Store(database, embedder=embedder) as kb:
            fill(kb, 4)

            def stop(done: int, of: int) -> None:
                raise KeyboardInterrupt

            with pytest.raises(KeyboardInterrupt):
                kb.hype(parallel=1, progress=stop)
            assert rows(kb, "select * from failure") == []
            assert len(texts(kb)) == 5

    def test_an_llm_that_is_away_ends_the_run_after_a_few_notes(self, kb, fake) -> None:
        kb.put("good.md", "so that an LLM is set")
        fill(kb, 50)
        fake.answers = {"text": ModelUnavailableError("it is away")}
        report = kb.hype(parallel=8)
        asked = len(fake.notes) - 1
        assert 3 <= asked <= 10
        assert report.error.endswith(".md: it is away")
        assert (report.documents, report.failed, report.pending) == (0, asked, 50)
        assert rows(kb, "select count(*), max(tries) from failure") == [(asked, 1)]
        fake.answers = {}
        report = kb.hype(parallel=8)
        assert (report.documents, report.pending, report.error) == (50, 0, None)

    def test_three_bad_notes_in_between_do_not(self, kb, fake) -> None:
        fill(kb, 30)
        fake.answers = {f"text {i}5": ModelUnavailableError("too slow") for i in ("", "1", "2")}
        report = kb.hype(parallel=1)
        assert (report.documents, report.failed, report.error) == (27, 3, None)

    def test_a_rate_limit_that_does_not_end_ends_the_run(self, kb, fake) -> None:
        fill(kb, 30)
        fake.answers = {"text": RateLimitedError("come back tomorrow")}
        report = kb.hype(parallel=4)
        assert report.error.endswith(".md: come back tomorrow")
        assert report.documents == 0
        assert len(fake.notes) <= 4

    def test_due_leaves_out_what_has_just_failed(self, kb, fake) -> None:
        fill(kb, 3)
        fake.answers = {"text 1": ModelError("no")}
        kb.hype()
        fake.notes.clear()
        kb.put("new.md", "something new", title="New", defer=True)
        assert kb.hype(due=True).documents == 1
        assert fake.titles == ["New"]
        for tries, minutes, asked in ((1, 1, 0), (1, 3, 1), (3, 7, 0), (3, 9, 1), (40, 9_999, 0)):
            fake.notes.clear()
            kb.connection.execute(
                "update failure set tries = ?, failed = strftime('%Y-%m-%dT%H:%M:%SZ', 'now', ?)",
                (tries, f"-{minutes} minutes"),
            )
            kb.hype(due=True)
            assert len(fake.notes) == asked, (tries, minutes)
        fake.notes.clear()
        kb.hype()
        assert fake.titles == ["T1"]

    def test_what_has_failed_comes_last(self, kb, fake) -> None:
        fill(kb, 3)
        fake.answers = {"text 2": ModelError("no")}
        kb.hype(limit=1)
        fake.answers = {}
        fake.notes.clear()
        kb.hype(parallel=1)
        assert fake.titles == ["T1", "T0", "T2"]

    def test_another_llm_asks_again_only_if_it_is_told_to(self, kb, database, fake) -> None:
        fill(kb, 4)
        kb.hype()
        kb.questions.veto([1], True)
        kb.questions.add("0.md", "Any quokkas?")
        other = FakeLLM("fake/b")
        other.answers = {"": [f"How about {i} of it?" for i in range(5)]}
        with kbstore.Store(database, embedder=FakeEmbedder(), hype=other) as second:
            assert second.hype() == HypeReport("fake/b")
            report = second.hype(again=True)
            assert (report.documents, report.questions, report.reused) == (4, 20, 0)
            assert second.hype(again=True) == HypeReport("fake/b")
        kept = {(question.text, question.model) for question in kb.questions.list()}
        assert ("Any quokkas?", None) in kept
        assert {name for text, name in kept if text.startswith("How about")} == {"fake/b"}
        assert len(texts(kb)) == 22
        assert rows(kb, "select distinct model from questioned") == [("fake/b",)]
        assert fake.titles.count("T0") == 1

    def test_a_run_that_asks_again_may_be_stopped_and_gone_on_with(self, kb, database) -> None:
        fill(kb, 12)
        kb.hype()
        other = FakeLLM("fake/b")

        def stop(done: int, of: int) -> None:
            if done == 5:
                raise KeyboardInterrupt

        with kbstore.Store(database, embedder=FakeEmbedder(), hype=other) as second:
            with pytest.raises(KeyboardInterrupt):
                second.hype(again=True, parallel=1, progress=stop)
            done = rows(second, "select count(*) from questioned where model = 'fake/b'")[0][0]
            assert 5 <= done <= 6
            assert second.hype(again=True).documents == 12 - done
        assert len(texts(kb)) == 60

    @pytest.mark.parametrize("parallel", [0, -1])
    def test_no_threads_at_all_are_refused(self, kb, fake, parallel) -> None:
        fill(kb, 1)
        with pytest.raises(InputError, match=f"parallel is {parallel}; it must be 1 or more"):
            kb.hype(parallel=parallel)

    def test_an_empty_base_is_no_error(self, kb, fake) -> None:
        assert kb.hype() == HypeReport("fake/llm")


# By the real litellm -----------------------------------------------------------------------------


class Gate(threading.Event):
    """Opens for good when so many wait at once."""

    def __init__(self, count: int) -> None:
        super().__init__()
        self._count, self._lock = count, threading.Lock()

    def wait(self, timeout: float | None = None) -> bool:
        with self._lock:
            self._count -= 1
            if self._count == 0:
                self.set()
        return super().wait(30)


@pytest.fixture
def live(database: Path, embedder: FakeEmbedder, llm: OpenAI) -> Iterator[kbstore.Store]:
    """A store whose LLM is that of the environment: litellm and the local server."""
    with kbstore.Store(database, embedder=embedder) as store:
        yield store


class TestLitellm:
    def test_a_put_asks_the_llm_of_the_environment(self, live, llm) -> None:
        report = live.put("a.md", "the falcon flies", title="Falcon", tags=["bird"])
        assert (report.pending, report.note) == (False, None)
        assert llm.notes == ["<note>\nFalcon. Tags: bird.\n\nthe falcon flies\n</note>"]
        assert texts(live) == five("Falcon")
        assert live.questions.list()[0].model == "openai/test-model"
        assert is_found(live, "a.md", "What is point 1 of Falcon?")

    def test_the_settings_are_used(self, live, llm) -> None:
        for name, value in (
            ("hype_model", "openai/other"), ("hype_prompt", "Ask away!"), ("hype_temperature", 1),
            ("hype_max_tokens", 77),
        ):  # fmt: skip
            live.connection.execute("update setting set value = ? where name = ?", (value, name))
        live.put("a.md", "the falcon flies")
        (request,) = llm.requests
        assert request["model"] == "test-model"  # the environment comes first
        assert request["messages"][0]["content"] == "Ask away!"
        assert (request["temperature"], request["max_tokens"]) == (1, 77)

    def test_the_time_out_is_a_setting_too(self, live, llm) -> None:
        llm.release.clear()
        live.connection.execute("update setting set value = 0.05 where name = 'hype_timeout'")
        assert "cannot be reached" in live.put("a.md", "the falcon flies").note

    def test_a_vetoed_question_is_named_to_it(self, live, llm) -> None:
        live.put("a.md", "the falcon flies", title="Falcon")
        live.questions.veto([1], True)
        live.put("a.md", "the falcon dives")
        assert llm.notes[1].endswith("Do not write these again:\n- What is point 1 of Falcon?")
        assert texts(live) == five("Falcon")

    @pytest.mark.parametrize("parallel", [1, 4])
    def test_so_many_are_asked_at_once_and_no_more(self, live, llm, parallel) -> None:
        fill(live, 24)
        llm.release = Gate(parallel)  # nobody is answered before so many have asked
        report = live.hype(parallel=parallel)
        assert (report.documents, report.questions, report.pending) == (24, 120, 0)
        assert llm.most_at_once == parallel
        assert set(llm.calls.values()) == {1}
        assert len(llm.requests) == 24

    def test_a_rate_limit_slows_the_run_down_but_it_finishes(self, live, llm) -> None:
        fill(live, 30)
        llm.headers = {"Retry-After": "0"}
        count = iter(range(10_000))
        llm.answer = lambda note: 429 if next(count) % 3 == 0 else questions_about(note)
        report = live.hype(parallel=8)
        assert (report.documents, report.failed, report.error) == (30, 0, None)
        assert len(llm.requests) == 30 + sum(1 for i in range(len(llm.requests)) if i % 3 == 0)
        assert live.status().unquestioned == 0

    def test_an_llm_that_is_away_leaves_the_rest_untouched(self, live, llm) -> None:
        live.put("good.md", "so that an LLM is set")
        fill(live, 40)
        llm.answer, llm.message = lambda note: 401, "the key sk-the-key-of-the-tests is not known"
        report = live.hype(parallel=2)
        assert "openai/test-model cannot be used: the key … is not known" in report.error
        assert report.failed == len(llm.requests) - 1 <= 5
        assert report.pending == 40
        errors = rows(live, "select distinct error from failure")
        assert not any("sk-the" in error for (error,) in errors)

    def test_a_refused_note_is_the_only_one_that_waits(self, live, llm) -> None:
        fill(live, 8)
        llm.answer = lambda note: 400 if "text 3\n" in note else questions_about(note)
        llm.message = "against the rules"
        report = live.hype()
        assert (report.documents, report.failed, report.pending) == (7, 1, 1)
        said = "3.md: openai/test-model refused: against the rules"
        assert rows(live, f"select path, error {ASKED}") == [("3.md", said)]

    def test_the_first_llm_is_remembered_once_it_has_answered(self, live, llm, database) -> None:
        llm.answers = [401]
        live.put("a.md", "the falcon flies")
        assert rows(live, "select value from setting where name = 'hype_model'") == [(None,)]
        assert (live.status().failed, live.status().last_error[:6]) == (1, "a.md: ")
        live.put("a.md", "the falcon flies")
        remembered = rows(live, "select value from setting where name = 'hype_model'")
        assert remembered == [("openai/test-model",)]
        with kbstore.Store(database, embedder=None, hype="openai/other") as other:
            other.put("b.md", "the heron wades")
            assert rows(other, "select value from setting where name = 'hype_model'") == remembered

    def test_no_key_is_in_the_file(self, live, llm, database) -> None:
        llm.answer, llm.message = lambda note: 400, "Bearer sk-the-key-of-the-tests is odd"
        live.put("a.md", "the falcon flies")
        live.connection.execute("pragma wal_checkpoint(truncate)")
        assert b"sk-the-key" not in database.read_bytes()


class TestEstimate:
    @pytest.fixture
    def priced(self, database, embedder, llm) -> Iterator[kbstore.Store]:
        with kbstore.Store(database, embedder=embedder, hype="openai/gpt-4o-mini") as store:
            yield store

    def test_counts_what_a_run_would_ask(self, priced, llm) -> None:
        fill(priced, 3)
        priced.put("twin.md", "text 1", title="T1", defer=True)
        priced.put("blank.md", "\n", allow_empty=True, defer=True)
        found = priced.questions.estimate()
        assert (found.model, found.calls) == ("openai/gpt-4o-mini", 3)
        assert found.completion_tokens == 3 * 187 or found.completion_tokens == 562
        prompt = len(hype.PROMPT) // 5
        assert 3 * prompt < found.prompt_tokens < 3 * 2 * prompt
        assert priced.questions.estimate(limit=1).calls == 1
        assert llm.requests == []

    def test_what_was_asked_about_costs_nothing_unless_it_is_asked_again(
        self, priced, database, llm
    ) -> None:
        fill(priced, 3)
        with kbstore.Store(database, embedder=None, hype=FakeLLM()) as other:
            other.hype()
        priced.put("twin.md", "text 1", title="T1", defer=True)
        assert priced.questions.estimate().calls == 0
        assert priced.questions.estimate().cost == 0.0
        assert priced.questions.estimate(again=True).calls == 4
        priced.put("new.md", "new text", defer=True)
        assert priced.questions.estimate().calls == 1
        assert priced.hype(again=True).documents == len(llm.requests) == 5

    @pytest.mark.parametrize("name", ["gpt-4o-mini", "openai/gpt-4o-mini", "azure/gpt-4o-mini"])
    def test_the_price_is_that_of_litellm_s_table(self, database, llm, name) -> None:
        with kbstore.Store(database, embedder=None, hype=name) as kb:
            fill(kb, 200)
            found = kb.questions.estimate()
        costs = hype._litellm().cost_per_token(
            model=name,
            prompt_tokens=found.prompt_tokens,
            completion_tokens=found.completion_tokens,
        )
        assert found.cost == pytest.approx(sum(costs), abs=1e-6)
        assert found.cost > 0.01

    def test_a_price_for_long_prompts_is_not_that_of_many_short_ones(self, database, llm) -> None:
        """Some models cost more above 128,000 tokens a call: a run is many calls."""
        table = hype._litellm().model_cost
        name, entry = next(
            (name, entry)
            for name, entry in sorted(table.items())
            if entry.get("input_cost_per_token_above_128k_tokens")
            and entry.get("output_cost_per_token")
        )
        found = hype.LLM(name).estimate(["word " * 1_000] * 300)
        assert found.prompt_tokens > 128_000
        assert found.cost == pytest.approx(
            found.prompt_tokens * entry["input_cost_per_token"]
            + found.completion_tokens * entry["output_cost_per_token"]
        )

    @pytest.mark.parametrize("name", ["openai/test-model", "nonsense", "x/gpt-4o-mini", "ollama/q"])
    def test_a_model_that_is_not_in_it_has_no_price(self, database, llm, name) -> None:
        with kbstore.Store(database, embedder=None, hype=name) as kb:
            fill(kb, 2)
            found = kb.questions.estimate()
        assert (found.calls, found.cost) == (2, None)
        assert found.prompt_tokens > 0

    def test_a_note_that_is_not_utf8_is_left_out(self, priced) -> None:
        fill(priced, 2)
        priced.connection.execute(
            "insert into document (path, title, body) values ('bad.md', 'x', cast(x'ff61' as text))"
        )
        assert priced.questions.estimate().calls == 2

    def test_a_generator_of_the_host_s_has_no_price(self, kb) -> None:
        with pytest.raises(
            InputError, match="fake/llm is no litellm model: its price is not known"
        ):
            kb.questions.estimate()


class TestSync:
    @pytest.fixture
    def folder(self, tmp_path: Path) -> Path:
        folder = tmp_path / "notes"
        folder.mkdir()
        for i in range(12):
            (folder / f"{i}.md").write_text(f"# Note {i}\n\nThe text of number {i}.\n")
        return folder

    def test_asks_about_what_is_new(self, kb, fake, folder) -> None:
        report = mirror.sync(kb, folder)
        assert (report.questioned.documents, report.questioned.questions) == (12, 60)
        assert len(texts(kb)) == 60
        assert set(states(kb).values()) == {"searched"}

    def test_an_unchanged_folder_makes_no_call_nor_does_a_renamed_one(
        self, kb, fake, embedder, folder
    ) -> None:
        mirror.sync(kb, folder)
        before = texts(kb)
        fake.notes.clear()
        embedder.calls.clear()
        mirror.sync(kb, folder)
        for file in sorted(folder.iterdir()):
            file.rename(folder / f"renamed-{file.name}")
        report = mirror.sync(kb, folder)
        assert len(report.moved) == 12
        mirror.sync(kb, folder)
        assert (fake.notes, embedder.calls) == ([], [])
        assert kb.list()[0].path == "renamed-0.md"
        assert sorted(texts(kb)) == sorted(before)
        assert set(states(kb).values()) == {"searched"}
        assert (kb.status().pending, kb.status().unquestioned) == (0, 0)

    def test_nor_does_one_whose_files_were_only_touched(self, kb, fake, embedder, folder) -> None:
        mirror.sync(kb, folder)
        fake.notes.clear()
        embedder.calls.clear()
        for file in folder.iterdir():
            text = file.read_bytes()
            file.unlink()
            file.write_bytes(text)
        mirror.sync(kb, folder)
        assert (fake.notes, embedder.calls) == ([], [])

    def test_asks_nobody_when_it_is_told_so(self, kb, off, fake, folder) -> None:
        assert mirror.sync(kb, folder, hype=False).questioned is None
        assert mirror.sync(off, folder).questioned is None
        assert fake.notes == []

    def test_does_not_ask_again_what_has_just_failed(self, kb, fake, folder) -> None:
        fake.answers = {"number 3": ModelError("no")}
        assert mirror.sync(kb, folder).questioned.failed == 1
        fake.notes.clear()
        report = mirror.sync(kb, folder)
        assert (report.questioned.failed, report.questioned.pending) == (0, 1)
        assert fake.notes == []
