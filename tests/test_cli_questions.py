"""The command line and the questions: hype, questions, and what add, sync, embed and status say."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click.testing
import pytest
from conftest import FakeEmbedder
from openai_server import OpenAI

import kbstore
from kbstore import embed as embed_module
from kbstore import passage

Result = click.testing.Result
Run = Callable[..., Result]

FALCON = [f"What is point {i} of Falcon?" for i in range(1, 6)]


@pytest.fixture(autouse=True)
def _model(monkeypatch: pytest.MonkeyPatch) -> None:
    """Vectors are made by the fake embedder."""
    monkeypatch.setattr(embed_module, "candidates", lambda mode=None: [FakeEmbedder()])


@pytest.fixture
def base(database: Path) -> Path:
    """Three notes with vectors; no LLM has been asked."""
    with kbstore.Store(database, embedder=FakeEmbedder(), hype=None) as kb:
        for day, (path, title) in enumerate(
            [("owl.md", "Owl"), ("heron.md", "Heron"), ("falcon.md", "Falcon")], 1
        ):
            kb.put(path, f"All about the {title}.", title=title, updated=f"2026-01-0{day}")
    return database


@pytest.fixture
def asked(base: Path, llm: OpenAI) -> Path:
    """The falcon's five questions are there."""
    with kbstore.Store(base, embedder=FakeEmbedder()) as kb:
        assert kb.hype(limit=1).questions == 5
    llm.requests.clear()
    return base


def done(result: Result) -> str:
    """What it printed; it had nothing to say beside."""
    assert (result.exit_code, result.stderr) == (0, "")
    return result.stdout


def error_of(result: Result, code: int = 1) -> str:
    """The one line of a command that was refused."""
    assert result.exit_code == code, result.stderr
    assert result.stdout == ""
    assert result.stderr.startswith("Error: ")
    assert result.stderr.count("\n") == 1
    return result.stderr.removeprefix("Error: ").strip()


def states(database: Path) -> dict[str, str]:
    with kbstore.Store(database, embedder=None, hype=None) as kb:
        return {question.text: question.state for question in kb.questions.list()}


class TestHype:
    def test_has_the_questions_written(self, run: Run, base: Path, llm: OpenAI) -> None:
        said = done(run("hype"))
        assert said == "3 documents asked about, 0 reused, 15 questions, 0 failed, 0 pending\n"
        assert list(states(base)) == [f"What is point {i} of {title}?" for title in (
            "Falcon", "Heron", "Owl") for i in range(1, 6)]  # fmt: skip
        assert set(states(base).values()) == {"searched"}
        again = done(run("hype"))
        assert again == "0 documents asked about, 0 reused, 0 questions, 0 failed, 0 pending\n"
        assert len(llm.requests) == 3
        found = json.loads(done(run("search", "--json", "What is point 2 of Owl?")))
        assert found["hits"][0]["matched_question"] == "What is point 2 of Owl?"

    def test_a_limit_takes_the_newest(self, run: Run, base: Path, llm: OpenAI) -> None:
        said = done(run("hype", "--limit", "2", "--parallel", "1"))
        assert said == "2 documents asked about, 0 reused, 10 questions, 0 failed, 1 pending\n"
        assert list(llm.calls) == ["Falcon", "Heron"]

    def test_json(self, run: Run, base: Path, llm: OpenAI) -> None:
        assert json.loads(done(run("hype", "--limit", "1", "--json"))) == {
            "model": "openai/test-model",
            "documents": 1,
            "reused": 0,
            "questions": 5,
            "failed": 0,
            "pending": 2,
            "error": None,
            "embedding_error": None,
        }

    def test_another_model_may_be_named_and_told_to_ask_again(
        self, run: Run, asked: Path, llm: OpenAI
    ) -> None:
        done(run("hype", "--model", "openai/other", "--limit", "1"))
        assert [request["model"] for request in llm.requests] == ["other"]
        assert list(llm.calls) == ["Heron"]
        llm.answer = lambda note: "\n".join(f"How about {i} then?" for i in range(5))
        said = done(run("hype", "--model", "openai/other", "--again"))
        assert said == "2 documents asked about, 0 reused, 10 questions, 0 failed, 0 pending\n"
        assert sorted(llm.calls.items()) == [("Falcon", 1), ("Heron", 1), ("Owl", 1)]
        assert not set(FALCON) & set(states(asked))
        status = json.loads(done(run("status", "--json")))
        assert status["hype_model"] == "openai/test-model"  # of the environment

    def test_without_an_llm_it_says_how_to_name_one(self, run: Run, base: Path) -> None:
        result = run("hype")
        assert result.exit_code == 1
        assert result.stderr.startswith("Error: no LLM is set that could write questions: name one")
        assert "KBSTORE_HYPE_MODEL=openai/gpt-4o-mini" in result.stderr
        assert "no LLM is set" in error_of(run("hype", "--dry-run"))

    def test_an_llm_that_is_away_ends_it_with_an_error(
        self, run: Run, asked: Path, llm: OpenAI
    ) -> None:
        llm.answer, llm.message = lambda note: 401, "who are you?"
        with kbstore.Store(asked, embedder=None, hype=None) as kb:
            for i in range(9):
                kb.put(f"{i}.md", f"text {i}")
        result = run("hype", "--parallel", "1")
        assert result.exit_code == 1
        assert result.stdout == (
            "0 documents asked about, 0 reused, 0 questions, 3 failed, 11 pending\n"
        )
        note, error = result.stderr.splitlines()
        assert note.startswith("Note: 3 documents have no questions: `select path, error from")
        assert error.startswith("Error: ")
        assert "openai/test-model cannot be used: who are you?" in error
        found = json.loads(run("hype", "--parallel", "1", "--json").stdout)
        assert "who are you?" in found["error"]

    def test_a_note_that_was_refused_is_told(self, run: Run, base: Path, llm: OpenAI) -> None:
        llm.answers = [400]
        result = run("hype", "--parallel", "1")
        assert result.exit_code == 0
        assert "2 documents asked about" in result.stdout
        assert result.stderr.startswith("Note: 1 documents have no questions: `select path, error")

    def test_stopping_it_says_that_nothing_is_lost(
        self, run: Run, base: Path, llm: OpenAI, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def interrupted(*_: object, **__: object) -> None:
            raise KeyboardInterrupt

        monkeypatch.setattr(kbstore.Store, "hype", interrupted)
        result = run("hype")
        assert (result.exit_code, result.stdout) == (130, "")
        assert result.stderr == "Stopped; what was answered is stored. Run it again to go on.\n"

    def test_a_dry_run_says_what_it_would_cost_and_calls_nothing(
        self, run: Run, base: Path, llm: OpenAI
    ) -> None:
        before = base.read_bytes()
        said = done(run("hype", "--dry-run", "--model", "openai/gpt-4o-mini"))
        assert said.startswith("openai/gpt-4o-mini: 3 calls, about ")
        assert said.endswith(" tokens to read and 562 to write, less than $0.01\n")
        said = done(run("hype", "--dry-run"))
        assert said.startswith("openai/test-model: 3 calls, about ")
        assert said.endswith(", cost not known (the model is not in litellm's price table)\n")
        assert done(run("hype", "--dry-run", "--limit", "1")).startswith("openai/test-model: 1 ")
        found = json.loads(done(run("hype", "--dry-run", "--json", "--model", "gpt-4o-mini")))
        assert set(found) == {"model", "calls", "prompt_tokens", "completion_tokens", "cost"}
        assert (found["model"], found["calls"]) == ("gpt-4o-mini", 3)
        assert 0 < found["cost"] < 0.01
        assert llm.requests == []
        assert base.read_bytes() == before

    def test_a_dry_run_tells_the_cents(self, run: Run, base: Path, llm: OpenAI) -> None:
        with kbstore.Store(base, embedder=None, hype=None) as kb, kb.batch():
            for i in range(100):
                kb.put(f"{i}.md", f"text {i}")
        found = json.loads(done(run("hype", "--dry-run", "--json", "--model", "gpt-4o-mini")))
        said = done(run("hype", "--dry-run", "--model", "gpt-4o-mini"))
        assert said == (
            f"gpt-4o-mini: 103 calls, about {found['prompt_tokens']:,} tokens to read and 19,312 to"
            f" write, about ${found['cost']:.2f}\n"
        )

    @pytest.mark.parametrize(
        "option",
        [
            ["--limit", "0"], ["--limit", "-1"], ["--limit", "x"], ["--parallel", "0"],
            ["--parallel", "65"], ["--model"], ["--due"], ["extra"],
        ],
        ids=" ".join,
    )  # fmt: skip
    def test_a_wrong_use_is_told(
        self, run: Run, base: Path, llm: OpenAI, option: list[str]
    ) -> None:
        result = run("hype", *option)
        assert result.exit_code == 2
        assert "Error: " in result.stderr
        assert llm.requests == []

    @pytest.mark.parametrize(
        "command", [["hype"], ["hype", "--dry-run"], ["questions", "add", "a.md", "Why?"]]
    )
    def test_without_a_base_it_is_not_made(
        self, run: Run, database: Path, llm: OpenAI, command: list[str]
    ) -> None:
        assert "there is no knowledge base at" in error_of(run(*command), 3)
        assert not database.exists()


class TestQuestions:
    def test_ls(self, run: Run, asked: Path) -> None:
        done(run("questions", "add", "owl.md", "Any", "quokkas?"))
        done(run("questions", "veto", "2"))
        assert done(run("questions", "ls")) == (
            "falcon.md\n"
            "    1  What is point 1 of Falcon?\n"
            "    2  What is point 2 of Falcon?  (vetoed)\n"
            "    3  What is point 3 of Falcon?\n"
            "    4  What is point 4 of Falcon?\n"
            "    5  What is point 5 of Falcon?\n"
            "owl.md\n"
            "    6  Any quokkas?  (yours)\n"
        )
        assert done(run("questions", "ls", "owl.md")) == "owl.md\n    6  Any quokkas?  (yours)\n"
        assert done(run("questions", "ls", "heron.md")) == ""
        assert error_of(run("questions", "ls", "x.md"), 3) == (
            "there is no document x.md; `kbstore ls` lists them"
        )

    def test_ls_says_what_is_stale_or_pending(self, run: Run, asked: Path) -> None:
        with kbstore.Store(asked, embedder=None, hype=None) as kb:
            kb.put("falcon.md", "Something else.")
            kb.connection.execute("insert into question (document_id, text) values (3, 'Why?')")
        lines = done(run("questions", "ls", "falcon.md")).splitlines()
        assert lines[1] == "    1  What is point 1 of Falcon?  (stale)"
        assert lines[-1] == "    6  Why?  (pending, yours)"

    def test_ls_as_json(self, run: Run, asked: Path) -> None:
        found = json.loads(done(run("questions", "ls", "--json")))
        assert len(found) == 5
        assert found[0] == {
            "id": 1,
            "path": "falcon.md",
            "text": "What is point 1 of Falcon?",
            "origin": "llm",
            "state": "searched",
            "model": "openai/test-model",
        }
        assert json.loads(done(run("questions", "ls", "owl.md", "--json"))) == []

    def test_add(self, run: Run, base: Path) -> None:
        assert done(run("questions", "add", "owl.md", " Any", "quokkas? ")) == "1  Any quokkas?\n"
        assert states(base) == {"Any quokkas?": "searched"}
        found = json.loads(done(run("search", "--json", "any quokkas")))
        assert found["hits"][0]["path"] == "owl.md"
        assert found["hits"][0]["matched_question"] == "Any quokkas?"

    @pytest.mark.parametrize(
        ("path", "question", "code", "words"),
        [
            ("x.md", "Why?", 3, "there is no document x.md; `kbstore ls` lists them"),
            ("owl.md", "  ", 2, "owl.md: the question is blank"),
            ("owl.md", "y" * 301, 2, "owl.md: the question has 301 characters; 300 is the most"),
            ("/owl.md", "Why?", 2, "path '/owl.md' is not relative"),
            ("falcon.md", FALCON[0], 1, "already (1, searched)"),
        ],
    )
    def test_add_refuses(
        self, run: Run, asked: Path, path: str, question: str, code: int, words: str
    ) -> None:
        assert words in error_of(run("questions", "add", path, question), code)
        assert list(states(asked)) == FALCON

    def test_rm(self, run: Run, asked: Path) -> None:
        assert done(run("questions", "rm", "2", "1", "2")) == (
            "deleted 2  What is point 2 of Falcon?\ndeleted 1  What is point 1 of Falcon?\n"
        )
        assert list(states(asked)) == FALCON[2:]

    def test_veto_and_undo(self, run: Run, asked: Path) -> None:
        assert done(run("questions", "veto", "1", "2")) == (
            "vetoed 1  What is point 1 of Falcon?\nvetoed 2  What is point 2 of Falcon?\n"
        )
        assert [states(asked)[text] for text in FALCON[:3]] == ["vetoed", "vetoed", "searched"]
        assert done(run("questions", "veto", "--undo", "1")) == (
            "not vetoed 1  What is point 1 of Falcon?\n"
        )
        assert [states(asked)[text] for text in FALCON[:3]] == ["searched", "vetoed", "searched"]

    @pytest.mark.parametrize("command", [["rm"], ["veto"], ["veto", "--undo"]], ids=" ".join)
    def test_of_several_all_or_none(self, run: Run, asked: Path, command: list[str]) -> None:
        said = error_of(run("questions", *command, "1", "99", "2"), 3)
        assert said == "there is no question 99; `kbstore questions ls` lists them"
        assert states(asked) == dict.fromkeys(FALCON, "searched")

    @pytest.mark.parametrize("command", ["rm", "veto"])
    @pytest.mark.parametrize("id", ["x", "0", "-1", "1.5", "9" * 30, ""])
    def test_what_is_no_number_of_a_question_is_a_wrong_use(
        self, run: Run, asked: Path, command: str, id: str
    ) -> None:
        result = run("questions", command, "--", id)
        assert result.exit_code == 2
        assert "Error: Invalid value for 'ID...'" in result.stderr
        assert states(asked) == dict.fromkeys(FALCON, "searched")

    def test_the_veto_holds_when_the_note_changes(self, run: Run, asked: Path, llm: OpenAI) -> None:
        done(run("questions", "veto", "3"))
        done(run("add", "falcon.md", input="Something else.\n"))
        assert llm.notes[0].endswith(f"Do not write these again:\n- {FALCON[2]}")
        assert [text for text, state in states(asked).items() if state == "vetoed"] == [FALCON[2]]


class TestOtherCommands:
    def test_add_asks_the_llm(self, run: Run, database: Path, llm: OpenAI) -> None:
        said = run("add", "falcon.md", "--title", "Falcon", input="It flies.\n")
        assert done(said) == "created falcon.md\n"
        assert states(database) == dict.fromkeys(FALCON, "searched")

    def test_add_without_hype_asks_nobody(self, run: Run, database: Path, llm: OpenAI) -> None:
        assert done(run("add", "a.md", "--no-hype", input="It flies.\n")) == "created a.md\n"
        assert llm.requests == []
        status = json.loads(done(run("status", "--json")))
        assert (status["passages"], status["questions"]) == (1, 0)

    def test_add_and_defer_calls_no_model_at_all(
        self, run: Run, asked: Path, llm: OpenAI, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        model = FakeEmbedder()
        monkeypatch.setattr(embed_module, "candidates", lambda mode=None: [model])
        found = json.loads(done(run("add", "a.md", "--defer", "--json", input="It flies.\n")))
        assert found == {"path": "a.md", "action": "created", "pending": True, "note": None}
        assert (llm.requests, model.calls) == ([], [])
        status = json.loads(run("status", "--json").stdout)
        assert (status["pending"], status["unquestioned"]) == (1, 3)

    def test_add_says_why_there_are_no_questions(self, run: Run, asked: Path, llm: OpenAI) -> None:
        llm.answer, llm.message = lambda note: 400, "against the rules"
        result = run("add", "a.md", input="It flies.\n")
        assert (result.exit_code, result.stdout) == (0, "created a.md\n")
        assert result.stderr.startswith("Note: a.md: openai/test-model refused: against the rules")
        assert result.stderr.count("\n") == 1
        search = run("search", "flies")
        assert "last error: a.md: openai/test-model refused: against the rules" in search.stderr
        assert "3 of 4 documents have no questions yet" in search.stderr

    @pytest.fixture
    def folder(self, tmp_path: Path) -> Path:
        folder = tmp_path / "notes"
        folder.mkdir()
        for name in ("falcon", "owl"):
            (folder / f"{name}.md").write_text(f"# {name.title()}\n\nAll about it.\n")
        return folder

    def test_sync_asks_the_llm(self, run: Run, database: Path, llm: OpenAI, folder: Path) -> None:
        result = run("sync", str(folder), "--json")
        assert result.exit_code == 0
        questioned = json.loads(result.stdout)["questioned"]
        assert (questioned["documents"], questioned["questions"]) == (2, 10)
        assert set(FALCON) < set(states(database))
        assert run("sync", str(folder)).exit_code == 0
        assert len(llm.requests) == 2

    @pytest.mark.parametrize("option", ["--no-hype", "--no-embed"])
    def test_sync_asks_nobody_when_it_is_told_so(
        self, run: Run, database: Path, llm: OpenAI, folder: Path, option: str
    ) -> None:
        result = run("sync", str(folder), option, "--json")
        assert result.exit_code == 0
        assert json.loads(result.stdout)["questioned"] is None
        assert llm.requests == []
        assert states(database) == {}

    def test_sync_goes_on_though_the_llm_is_away(
        self, run: Run, database: Path, llm: OpenAI, folder: Path
    ) -> None:
        llm.answer, llm.message = lambda note: 401, "who are you?"
        result = run("sync", str(folder))
        assert result.exit_code == 0
        assert "2 new" in result.stdout
        assert "Note: 2 documents have no questions" in result.stderr

    def test_embed_and_dry_run_says_how_much_it_is_and_calls_nothing(
        self, run: Run, base: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        model = FakeEmbedder()
        monkeypatch.setattr(embed_module, "candidates", lambda mode=None: [model])
        said = "fake: 0 documents in 0 passages and 0 questions, about 0 tokens\n"
        assert done(run("embed", "--dry-run")) == said
        text = "Some words. " * 400
        passages = len(passage.split(text))
        with kbstore.Store(base, embedder=None, hype=None) as kb:
            kb.put("long.md", text, defer=True)
            kb.put("twin.md", text, defer=True)
            kb.put("short.md", "x" * 100, updated="2020-01-01", defer=True)
            kb.connection.execute("insert into question (document_id, text) values (1, 'Why?')")
        before = base.read_bytes()
        said = done(run("embed", "--dry-run"))
        assert said.startswith(f"fake: 2 documents in {passages + 1} passages and 1 questions, abo")
        found = json.loads(done(run("embed", "--dry-run", "--json", "--limit", "1")))
        tokens = found.pop("tokens")
        assert found == {
            "model": "fake", "local": False, "documents": 1, "passages": passages, "questions": 1,
        }  # fmt: skip
        assert 1_200 < tokens < 1_300
        assert model.calls == []
        assert base.read_bytes() == before

    def test_embed_and_dry_run_says_that_a_local_model_costs_nothing(
        self, run: Run, base: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        starter = embed_module.LocalEmbedder(embed_module.STARTER.parent)
        monkeypatch.setattr(embed_module, "candidates", lambda mode=None: [starter])
        said = done(run("embed", "--dry-run"))
        assert said.startswith(
            "starter (6 MB stand-in for nomic-embed-text-v1.5): 3 documents in 3"
        )
        assert said.endswith(" tokens, on this machine\n")

    def test_embed_makes_the_vectors_of_questions(self, run: Run, base: Path) -> None:
        with kbstore.Store(base, embedder=None, hype=None) as kb:
            kb.questions.add("owl.md", "Any quokkas?")
        said = done(run("embed"))
        assert said == (
            "0 documents embedded in 0 passages, 0 reused, 1 questions, 0 failed, 0 pending\n"
        )
        assert states(base) == {"Any quokkas?": "searched"}

    def test_status_names_the_llm_and_counts_what_it_has_not_seen(
        self, run: Run, base: Path, asked: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.delenv("KBSTORE_HYPE_MODEL")
        result = run("status")
        lines = dict(line.split(maxsplit=1) for line in result.stdout.splitlines())
        assert "hype model       openai/test-model\n" in result.stdout
        assert lines["unquestioned"] == "2"
        assert lines["questions"] == "5"
        assert result.stderr == (
            "Note: 2 of 3 documents have no questions yet; `kbstore hype` has them written\n"
        )
        status: dict[str, Any] = json.loads(run("status", "--json").stdout)
        assert (status["hype_model"], status["unquestioned"]) == ("openai/test-model", 2)

    def test_status_of_a_base_without_an_llm(self, run: Run, base: Path) -> None:
        result = run("status")
        assert "hype model" not in result.stdout
        assert "unquestioned     0\n" in result.stdout
        assert result.stderr == ""
