"""What a person may type: nothing raises, all of it is text, what is typed is found as written.

Each query goes three ways: by words only, by vectors only, and fused.
"""

from __future__ import annotations

import json
import math
import os
import random
import string
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import pytest
from conftest import FakeEmbedder

import kbstore
import kbstore.embed
from kbstore.search import Hit

NOW = "2026-12-01"
WAYS: dict[str, list[str] | None] = {
    "frontmatter": ["frontmatter"],
    "words": ["words"],
    "vectors": ["vectors"],
    "fused": None,
}


def ask(store: kbstore.Store, query: str, way: str = "fused", **options: object) -> list[str]:
    """The paths found, best first; every hit is checked on the way."""
    result = store.search(query, retrievers=WAYS[way], now=NOW, **options)
    check(result.hits, way)
    return [hit.path for hit in result.hits]


def check(hits: Sequence[Hit], way: str) -> None:
    """Distinct documents, best first, each found by whom it may, with a score that adds up."""
    assert len({hit.path for hit in hits}) == len(hits)
    assert [hit.score for hit in hits] == sorted((hit.score for hit in hits), reverse=True)
    for hit in hits:
        spoke = {n: e for n in ("frontmatter", "words", "vectors") if (e := getattr(hit, n))}
        assert spoke
        assert set(spoke) <= set(WAYS[way] or spoke)
        assert all(e.rank >= 1 and e.contribution >= 0 for e in spoke.values())
        added = sum(e.contribution for e in spoke.values())
        assert hit.score == pytest.approx(hit.type_weight * hit.recency * added, rel=1e-9)
        assert math.isfinite(hit.score)


def make(file: Path, notes: dict[str, str], embedder: FakeEmbedder) -> kbstore.Store:
    store = kbstore.Store(file, embedder=embedder)
    with store.batch():
        for path, body in notes.items():
            store.put(path, body, updated=None if "journal/" in path else "2026-06-01", defer=True)
    assert store.embed().pending == 0
    return store


NOTES = {
    "places/park.md": "We met in the park.",
    "plans/monday.md": "The plan is to sail on Monday.",
    "rules/agents.md": "For such work we use agents sparingly, and don't use robots.",
    "systems/many.md": "A multi-agent system that needs no leader.",
    "systems/one.md": "An agent alone in multi storey buildings.",
    "tickets/closed.md": "Ticket POL-358 is closed.",
    "tickets/open.md": "Ticket POL-359 is open, POL-35 too.",
    "flags/compiler.md": "Call it with -foo and --error-on-warnings set.",
    "flags/other.md": "Errors and warnings are printed on the terminal.",
    "languages/cpp.md": "Code in C++ is compiled for hours.",
    "syntax/pairs.md": "In the map a:b stands for kb::sync and grammar::fa too.",
    "syntax/fields.md": "A filter written title:foo is read from the left.",
    "files/current.md": "Look into current.md for the state.",
    "files/script.md": "Run foo_bar.py every night.",
    "files/versions.md": "Upgrade from v1.2.3 to 2026.4.10 soon.",
    "files/older.md": "Downgrade from v1.2.4 to 2026.4.1 later, 10 times 3.",
    "lists/and.md": "This AND that OR those NOT NEAR the sea.",
    "skills/agent-swarm-launcher/SKILL.md": "Starts many of them, then waits.",
    "skills/swarm/SKILL.md": "A launcher for an agent swarm, an agent for a launcher swarm.",
    "music/violin.md": "The violin teacher gives lessons on Thursday evenings.",
    "music/drums.md": "The drum teacher gives no lessons in summer.",
    "music/hall.md": "On Thursday the hall is closed; evenings are quiet.",
    "store/zx.md": "Part zx00841 lies in drawer nine.",
    "store/zy.md": "Part zx00842 lies in drawer ten.",
    "food/cafe.md": "Le café est bon.",
    "food/tea.md": "Le thé est chaud.",
    "cities/novosibirsk.md": "Поезд в новосибирск уходит утром.",
    "cities/omsk.md": "Поезд в омск уходит вечером.",
    "cjk/game.md": "今日は成語しりとりをした",
    "cjk/deploy.md": "部署方案",
    "cjk/run.md": "重跑gen-itgc后50条",
    "cjk/it.md": "it was the 50 of them, a gen of it",
    "cjk/names.md": "佐々木さんと会った",
    "cjk/seoul.md": "서울에서 만나요",
    "cjk/thai.md": "ภาษาไทยง่ายมาก",
    "weather/rain.md": "Umbrellas keep out the drizzle.",
    **{f"journal/2026-{m:02}-{d:02}.md": f"A day like others, number {m * d}."
       for m in (11, 12) for d in range(1, 26)},
}  # fmt: skip


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Iterator[kbstore.Store]:
    """All the notes above, with vectors; the tests only search in it."""
    with make(tmp_path_factory.mktemp("library") / "kb.sqlite3", NOTES, FakeEmbedder()) as store:
        yield store


# What is found


FOUND = [
    # query, the note, its place by words, by vectors and fused (0: vectors know whole words only)
    ("park.", "places/park.md", 1, 1, 1),
    ("what's the plan?", "plans/monday.md", 1, 1, 1),
    ("don't use agents", "rules/agents.md", 1, 1, 1),
    ("don’t use agents", "rules/agents.md", 1, 1, 1),
    ("POL-358", "tickets/closed.md", 1, 1, 1),
    ("pol-358", "tickets/closed.md", 1, 1, 1),
    ("multi-agent", "systems/many.md", 1, 1, 1),
    ("-foo", "flags/compiler.md", 3, 1, 3),
    ('"--error-on-warnings"', "flags/compiler.md", 1, 0, 3),
    ("--error-on-warnings", "flags/compiler.md", 1, 1, 1),
    ("C++ (foo", "languages/cpp.md", 1, 1, 1),
    ("C++", "languages/cpp.md", 1, 1, 1),
    ("a:b", "syntax/pairs.md", 1, 1, 1),
    ("kb::sync", "syntax/pairs.md", 1, 1, 1),
    ("grammar::fa", "syntax/pairs.md", 1, 1, 1),
    ("title:foo", "syntax/fields.md", 1, 1, 1),
    ("current.md", "files/current.md", 1, 1, 1),
    ("foo_bar.py", "files/script.md", 1, 1, 1),
    ("v1.2.3", "files/versions.md", 1, 1, 1),
    ("2026.4.10", "files/versions.md", 1, 1, 1),
    ("2026-12-15", "journal/2026-12-15.md", 1, 1, 1),
    ("journal/2026-12-15.md", "journal/2026-12-15.md", 1, 0, 1),
    ("agent-swarm-launcher", "skills/agent-swarm-launcher/SKILL.md", 1, 1, 1),
    ("violin teacher lessons thursday zeppelin", "music/violin.md", 1, 1, 1),
    ("zx00841 banana", "store/zx.md", 1, 1, 1),
    ("zx00841", "store/zx.md", 1, 1, 1),
    ("what keeps out the drizzle?", "weather/rain.md", 1, 1, 1),
    ("café", "food/cafe.md", 1, 1, 1),
    ("CAFÉ", "food/cafe.md", 1, 1, 1),
    ("новосибирск", "cities/novosibirsk.md", 1, 1, 1),
    ("НОВОСИБИРСК", "cities/novosibirsk.md", 1, 1, 1),
    ("Новосибирск!", "cities/novosibirsk.md", 1, 1, 1),
]


@pytest.mark.parametrize("row", FOUND, ids=lambda row: ascii(row[0]))
def test_the_note_is_found_by_words_by_vectors_and_by_both(
    library: kbstore.Store, row: tuple[str, str, int, int, int]
) -> None:
    query, path, *places = row
    for way, place in zip(("words", "vectors", "fused"), places, strict=True):
        found = ask(library, query, way)
        assert not place or path in found[:place], (way, found)


@pytest.mark.parametrize(
    ("query", "path"),
    [
        ("しりとり", "cjk/game.md"),
        ("成語しりとり", "cjk/game.md"),
        ("部署", "cjk/deploy.md"),
        ("方案 部署", "cjk/deploy.md"),
        ("部", "cjk/deploy.md"),
        ('"部署方案"', "cjk/deploy.md"),
        ("itgc", "cjk/run.md"),
        ("gen-itgc", "cjk/run.md"),
        ("itgc后", "cjk/run.md"),
        ("gen-itgc后", "cjk/run.md"),
        ("后50条", "cjk/run.md"),
        ("重跑gen-itgc后50条", "cjk/run.md"),
        ("佐々木", "cjk/names.md"),
        ("서울", "cjk/seoul.md"),
        ("ไทย", "cjk/thai.md"),
        ("cafe", "food/cafe.md"),
        ("cafe\u0301", "food/cafe.md"),
        ("CAFE\u0301", "food/cafe.md"),
    ],
)
@pytest.mark.parametrize("way", ["words", "fused"])
def test_a_part_of_unspaced_text_or_another_spelling_finds_the_note(
    library: kbstore.Store, query: str, path: str, way: str
) -> None:
    assert path in ask(library, query, way)[: 1 if way == "words" else 3]
    assert ask(library, query, "vectors")  # these know nothing of parts, but do not fail either


def test_accents_fold_whichever_way_the_note_is_written(kb: kbstore.Store) -> None:
    table = {"composed.md": "caf\u00e9", "decomposed.md": "cafe\u0301", "plain.md": "cafe"}
    for path, word in table.items():
        kb.put(path, f"a {word} by the sea")
    for word in (*table.values(), "CAFE\u0301", "Caf\u00c9"):
        for way in ("words", "fused"):
            assert set(ask(kb, word, way)) == set(table)


@pytest.mark.parametrize("way", ["frontmatter", "words", "fused"])
def test_a_skill_is_first_by_its_hyphenated_name(library: kbstore.Store, way: str) -> None:
    assert ask(library, "agent-swarm-launcher", way)[0] == "skills/agent-swarm-launcher/SKILL.md"


@pytest.mark.parametrize("way", ["frontmatter", "words", "vectors", "fused"])
def test_a_journal_is_first_by_its_day(library: kbstore.Store, way: str) -> None:
    """Also where it is older than fifty others, of which one is about that day."""
    assert ask(library, "2026-11-02", way)[0] == "journal/2026-11-02.md"


def test_a_hyphen_or_a_colon_never_leaves_anything_out(library: kbstore.Store) -> None:
    """FTS5 would read NOT, a column filter, or raise."""
    assert "systems/one.md" in ask(library, "multi -agent", "words")
    assert "tickets/open.md" in ask(library, "ticket -POL-359", "words")
    assert "syntax/fields.md" in ask(library, "- filter", "words")
    assert ask(library, "title:violin body:violin path:violin", "words") == []


def test_the_words_have_a_say_where_only_the_text_answers(library: kbstore.Store) -> None:
    hit = library.search("Which umbrellas keep out a drizzle?").hits[0]
    assert hit.path == "weather/rain.md"
    assert hit.frontmatter is None
    assert hit.words is not None
    assert hit.words.rank == 1
    assert hit.snippet == "**Umbrellas** **keep** out the **drizzle**."


def test_quotes_make_a_phrase_and_a_lone_one_is_text(library: kbstore.Store) -> None:
    table = [
        ('"violin teacher"', ["music/violin.md"]),
        ('"teacher violin"', []),
        ('"drum teacher" umbrellas', ["music/drums.md", "weather/rain.md"]),
        ('"violin', ["music/violin.md"]),
        ('violin"', ["music/violin.md"]),
        ('vio"lin', []),
        ('"" violin', ["music/violin.md"]),
        ('"""violin"""', ["music/violin.md"]),
        ('""', []),
        ('"', []),
    ]
    assert [(query, sorted(ask(library, query, "words"))) for query, _ in table] == table


def test_a_star_at_the_end_makes_a_prefix_and_elsewhere_nothing(library: kbstore.Store) -> None:
    table = [
        ("umbre*", ["weather/rain.md"]),
        ("UMBRE*", ["weather/rain.md"]),
        ("umbre", []),
        ("новос*", ["cities/novosibirsk.md"]),
        ("zx0084*", ["store/zx.md", "store/zy.md"]),
        ("pol-35*", ["tickets/closed.md", "tickets/open.md"]),
        ("*brellas", []),
        ("*umbrellas*", ["weather/rain.md"]),
        ("**umbrellas**", ["weather/rain.md"]),
        ("*", []),
        ("* *", []),
    ]
    assert [(query, sorted(ask(library, query, "words"))) for query, _ in table] == table


# What is typed is found as written

WRITTEN = [
    "POL-358", "multi-agent", "x86_64-linux-gnu", "self-hosted", "-v", "--dry-run",
    "v1.0.21", "2026.4.10", "1.2.3-rc.1+build5", "3.14159", "10.0.0.1/24", "12:30:45", "1,872",
    "a1b2c3d", "deadbeef-0000-4000-8000-00000000cafe", "0x1F", "HX-4471", "CVE-2026-12345",
    "current.md", "foo_bar.py", "src/kbstore/cli.py", "./run.sh", "~/.config/app.toml",
    "C:\\Users\\mirela", "archive.tar.gz", ".gitignore", "Makefile:12",
    "https://example.org/a?b=c&d=e#f", "user@example.org", "#1234", "@decorator", "$HOME",
    "${PATH}", "%TEMP%", "x=1", "kb::sync", "a.b.c()", "foo->bar", "std::vector<int>", "arr[0]",
    "{{name}}", "<div>", "f(x)", "&amp;", "s/old/new/", "AT&T", "TCP/IP", "o'brien", "rock'n'roll",
    "naïve", "Ångström", "straße", "søster", "Łódź", "ﬁn", "100%", "*args", "**kwargs", "`code`",
    "_emphasis_", "«guillemets»", "“curly”", "‘single’", "¿qué?", "café‑bar", "a…b", "x—y",
    "новосибирск-2", "Ελλάδα", "שלום", "مرحبا", "नमस्ते", "部署-v2", "v2部署", "第3章",
]  # fmt: skip


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Iterator[kbstore.Store]:
    """A note for each of them, among decoys with the same pieces in another order."""
    notes = {f"n/{i:03}.md": f"Remember {text} for later." for i, text in enumerate(WRITTEN)}
    for i, text in enumerate(WRITTEN):
        pieces = "".join(c if c.isalnum() else " " for c in text).split()
        if len(pieces) > 1:
            notes[f"decoy/{i:03}.md"] = f"Remember {' also '.join(reversed(pieces))} for later."
    with make(tmp_path_factory.mktemp("written") / "kb.sqlite3", notes, FakeEmbedder()) as store:
        yield store


@pytest.mark.parametrize("way", ["words", "vectors", "fused"])
def test_what_is_typed_is_found_as_written(written: kbstore.Store, way: str) -> None:
    missed = {
        text: found[:3]
        for i, text in enumerate(WRITTEN)
        if f"n/{i:03}.md" not in (found := ask(written, text, way))[:1]
    }
    assert missed == {}


@pytest.mark.parametrize("way", ["words", "vectors", "fused"])
def test_what_is_typed_in_a_sentence_is_found_as_written(written: kbstore.Store, way: str) -> None:
    """With words around it that are in no note, or in every one."""
    missed = {
        text: found[:3]
        for i, text in enumerate(WRITTEN)
        if f"n/{i:03}.md" not in (found := ask(written, f"where did we remember {text}", way))[:3]
    }
    assert missed == {}


@pytest.mark.parametrize(
    "typed",
    [
        "€retry", "£retry", "№retry", "→retry", "•retry", "‐retry", "‑retry", "−retry", "‹retry›",
        "„retry“", "†retry", "★retry", "✓retry", "▶retry", "🚀retry", "❤️retry", "retry🚀",
        "\u200bretry", "\u200eretry", "\u2060retry", "\ufeffretry", "retry\u200b", "。retry",
        "「retry」", "（retry）", "¡retry!", "§retry", "·retry", "|retry|", "\x01retry",
    ],
    ids=ascii,
)  # fmt: skip
@pytest.mark.parametrize("way", ["words", "fused"])
def test_a_sign_before_or_after_a_word_does_not_hide_it(
    kb: kbstore.Store, typed: str, way: str
) -> None:
    kb.put("a.md", "The retry came late.")
    kb.put("b.md", "Another note.")
    assert ask(kb, typed, way)[:1] == ["a.md"]
    kb.put("a.md", f"The {typed} came late.")
    assert ask(kb, typed, way)[:1] == ["a.md"]


@pytest.mark.parametrize(
    "sign", ["«", "»", "¿", "§", "·", "。", "、", "「", "–", "→", "|", "&", "-", "\\", "🚀", "\x01"]
)
def test_a_sign_alone_counts_for_nothing(library: kbstore.Store, sign: str) -> None:
    """It is no word that a title would have to cover, and does not turn `the` into a stop word."""
    for query in ("violin", "2026-12-15", "the"):
        plain = library.search(query, retrievers=["frontmatter", "words"], now=NOW).hits
        for text in (f"{sign} {query}", f"{query} {sign}", f"{sign} {query} {sign}"):
            assert library.search(text, retrievers=["frontmatter", "words"], now=NOW).hits == plain


@pytest.mark.parametrize(
    "space", [*"\t\n\r\v\f\x85\xa0\u1680\u2003\u2009\u2028\u2029\u202f\u205f\u3000"], ids=ascii
)
def test_any_white_space_parts_words(library: kbstore.Store, space: str) -> None:
    for way in ("words", "fused"):
        query = f"umbrellas{space}violin"
        assert {"weather/rain.md", "music/violin.md"} <= set(ask(library, query, way)[:3])


def test_random_identifiers_are_found_as_written(tmp_path: Path, embedder: FakeEmbedder) -> None:
    dice = random.Random(20261201)
    letters = string.ascii_letters + string.digits

    def identifier() -> str:
        parts = ["".join(dice.choices(letters, k=dice.randint(2, 6))) for _ in range(3)]
        marks = dice.choices(["-", ".", "_", ":", "::", "/", "+", "#", "@", "=", "->", ", "], k=2)
        opening, closing = dice.choice([("", ""), ("(", ")"), ("[", "]"), ("", "?"), ("--", "")])
        return opening + parts[0] + marks[0] + parts[1] + marks[1] + parts[2] + closing

    names = [identifier() for _ in range(150)]
    notes = {f"n/{i:03}.md": f"It says {name} there." for i, name in enumerate(names)}
    with make(tmp_path / "kb.sqlite3", notes, embedder) as store:
        missed = [
            (name, way)
            for i, name in enumerate(names)
            for way in ("words", "vectors", "fused")
            if ask(store, name, way, limit=1) != [f"n/{i:03}.md"]
        ]
    assert missed == []


# What is text and nothing else


@pytest.mark.parametrize(
    "query",
    [
        "", " ", "   \t \n ", "?", "???", "…", ".", "-", "--", "*", "**", '"', '""', "'", "()", "(",
        ")", "^", ":", "::", "{}", "\\", "\\\\", "/", "+", "|", "~", "`", "#", "🙂", "🙂 🚀 ❤️", "→",
        "\0", "\0\0", "\x01", "\u200b", "\ufeff", "\u3000", "\xa0", "。", "「」", "–—", "“”", "«»",
    ],
    ids=ascii,
)  # fmt: skip
@pytest.mark.parametrize("way", ["frontmatter", "words", "vectors", "fused"])
def test_a_query_without_a_word_finds_nothing(library: kbstore.Store, query: str, way: str) -> None:
    """Rather than everything."""
    assert ask(library, query, way) == []


ODD = [
    '"--error-on-warnings"', '"unbalanced', 'un"balanced', "(", "C++ (foo", "(foo OR", "foo)",
    "AND", "OR", "NOT", "NEAR", "NEAR(", "NEAR(a b, 5)", "NEAR/2", "a AND", "AND AND AND", "NOT a",
    "a NOT", "^x", "^", "x^y", "*", "x *", "* x", "x**", "+x", "x + y", "-x", "- x", "x -", "a:b",
    ":a", "a:", "title:", "title : x", "{title tags} : x", "{title", "- title : x", "a;b", "--",
    "/* x */", "'; drop table document; --", "') or 1=1 --", "%s %d {0} {x}", ":query", "?1", "@a",
    "$a", "\\", "\\\"", '\\" OR "', "\\u0000", "\\u0022", "\\x", "\\n", "a\\", '"\\', '","', '"]',
    "[1]", '["a"]', "null", "[", "]", "{", "}", "x\0y", "\0x", "x\0", "\ud800", "x\udfffy",
    "\udc80\udcff", "\x00\x01\x02\x1f\x7f", "\u0301", "\u200d", "\u202e", "\ufffe", "\uffff",
    "\U0010ffff", "\U000e0001", "e\u0301" * 50, "\u0301" * 200,
    "👩‍👩‍👧‍👦", "1️⃣", "½ ² ① Ⅳ", "ß ẞ ſ İ ı",
]  # fmt: skip


@pytest.mark.parametrize("query", ODD, ids=ascii)
def test_syntax_of_fts5_sql_and_json_is_text(library: kbstore.Store, query: str) -> None:
    for way in WAYS:
        ask(library, query, way)
        ask(library, f"violin {query}", way)
    assert "music/violin.md" in ask(library, f"violin {query}", "words")
    assert "music/violin.md" in ask(library, f"{query} violin", "fused")


@pytest.mark.parametrize("query", [None, 7, b"violin", ["violin"]], ids=repr)
def test_a_query_that_is_no_text_is_refused(library: kbstore.Store, query: object) -> None:
    with pytest.raises(kbstore.KBError, match="the query must be a text"):
        library.search(query)


# Bounded work

MOST_STEPS = 1_000_000  # of SQLite's virtual machine; a plain query here takes some 60,000


class Meter:
    """Counts what SQLite does, which is the same on every machine."""

    def __init__(self, store: kbstore.Store) -> None:
        self.ticks = 0
        store.connection.set_progress_handler(self._tick, 1000)

    def _tick(self) -> bool:
        self.ticks += 1
        return False

    def steps(self) -> int:
        ticks, self.ticks = self.ticks, 0
        return ticks * 1000


LONG = {
    "one word": "x" * 1_000_000,
    "the same word": "violin " * 150_000,
    "10,000 words": " ".join(f"word{i}" for i in range(10_000)),
    "one letter": "a " * 500_000,
    "hyphens": "violin-" * 150_000,
    "commas": "violin," * 150_000,
    "commas in quotes": '"' + "a," * 400_000 + '"',
    "dots": "1." * 500_000,
    "quotes": '"' * 1_000_000,
    "quoted words": '"a" ' * 250_000,
    "stars": "a* " * 300_000,
    "spaces": " " * 1_000_000 + "violin",
    "NUL": "\0" * 1_000_000,
    "lone surrogates": "\ud800" * 300_000,
    "brackets": "(" * 1_000_000,
    "backslashes": "\\" * 1_000_000,
    "Chinese": "部署" * 500_000,
    "Chinese in words": "部署 " * 300_000,
    "Chinese and Latin": "署violin" * 150_000,
    "accents": "e" + "\u0301" * 500_000,
    "emoji": "🙂" * 300_000,
}


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Iterator[kbstore.Store]:
    """A dozen of the notes, and an embedder that remembers what it was given."""
    notes = {path: NOTES[path] for path in list(NOTES)[:36:3]}
    notes |= {"music/violin.md": NOTES["music/violin.md"], "cjk/deploy.md": NOTES["cjk/deploy.md"]}
    with make(tmp_path_factory.mktemp("small") / "kb.sqlite3", notes, FakeEmbedder()) as store:
        yield store


@pytest.mark.parametrize("name", LONG)
def test_a_very_long_query_is_answered_in_bounded_work(library: kbstore.Store, name: str) -> None:
    """However many hits there are."""
    meter = Meter(library)
    for way in WAYS:
        ask(library, LONG[name], way, limit=100)
        assert meter.steps() < MOST_STEPS, way


def test_a_model_is_never_given_a_text_that_it_cannot_take(
    kb: kbstore.Store, embedder: FakeEmbedder
) -> None:
    """No lone surrogate, no NUL, nothing endless."""
    kb.put("a.md", "text")
    embedder.calls.clear()
    for query in (*ODD, *LONG.values()):
        ask(kb, query)
    assert {task for task, _ in embedder.calls} == {"search_query"}
    for _, text in embedder.calls:
        assert len(text) <= 8_192
        assert "\0" not in text
        text.encode()


PIECES = [
    '"', "'", "*", "-", "+", ":", "^", "(", ")", "{", "}", "[", "]", "\\", "/", "|", "&", "~", "`",
    "#", "%", "<", ">", ",", ";", ".", "?", "!", "@", "$", "=", "AND ", "OR ", "NOT ", "NEAR(",
    "NEAR/2 ", "title:", "path : ", "--", "/*", "*/", "\\u0041", "\\u0000", "\\n", "\0", "\x01",
    "\x1f", "\x7f", "\ud800", "\udfff", "violin", "teacher", "the", "v1.2.3", "foo_bar", " ", "  ",
    "\t", "\n", "\r", "\xa0", "\u3000", "\u2028", "\u200b", "\ufeff", "\ufffe", "\uffff", "café",
    "\u0301", "部", "署", "方案", "し", "서", "ไ", "𠀀", "🙂", "→", "“", "”", "…", "«", "½", "Ⅳ",
]  # fmt: skip


def scribble(dice: random.Random) -> str:
    """Signs that mean something to somebody, code points of all planes, or one thing repeated."""
    kind = dice.random()
    if kind < 0.6:
        return "".join(dice.choices(PIECES, k=dice.randint(1, 25)))
    if kind < 0.85:
        return "".join(chr(dice.randrange(0x110000)) for _ in range(dice.randint(1, 30)))
    if kind < 0.99:
        return "".join(chr(dice.randrange(0x250)) for _ in range(dice.randint(1, 100)))
    return "".join(dice.choices(PIECES, k=3)) * dice.randint(1_000, 20_000)


@pytest.mark.parametrize("seed", range(4))
def test_nothing_that_is_typed_raises_or_takes_long(small: kbstore.Store, seed: int) -> None:
    """2,000 random queries in all."""
    dice = random.Random(seed)
    meter = Meter(small)
    for number in range(500):
        query = scribble(dice)
        way = [*WAYS][number % 4]
        found = ask(small, query, way)
        assert meter.steps() < MOST_STEPS, (query[:80], len(query), way)
        if not any(character.isalnum() for character in query):
            assert found == [], query


# Order


@pytest.fixture(scope="module", params=["alone", "among others"])
def family(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[kbstore.Store]:
    """One note about who may not eat what, fifteen about calls of a brother, and perhaps others;
    the starter model."""
    starter = kbstore.embed.LocalEmbedder(kbstore.embed.STARTER.parent)
    file = tmp_path_factory.mktemp("family") / "kb.sqlite3"
    with kbstore.Store(file, embedder=starter) as store:
        store.put("user/guests.md", GUESTS, title="Dinner with the family: who must not eat what")
        others = OTHERS if request.param == "among others" else {}
        for path, body in (CALLS | others).items():
            store.put(path, body, defer=True)
        assert store.embed().pending == 0
    with kbstore.Store(file) as store:  # takes the starter, since nothing better is here
        yield store


def test_a_note_that_is_found_by_its_meaning_alone_is_first(family: kbstore.Store) -> None:
    query = "is it dangerous to cook seafood"  # no note has one of these words
    assert ask(family, query, "words") == []
    assert ask(family, query, "vectors")[0] == ask(family, query)[0] == "user/guests.md"


def test_many_weak_matches_of_words_do_not_bury_the_answer(family: kbstore.Store) -> None:
    """One common word of the question, and no other, is in fifteen notes; the answer has none."""
    query = "is it dangerous to cook seafood for my brother"
    assert ask(family, query, "vectors")[0] == "user/guests.md"
    assert sorted(ask(family, query, "words", limit=50)) == sorted(CALLS)
    assert "user/guests.md" in ask(family, query)[:3]


GUESTS = """Read this before you plan a dinner, choose a restaurant or order fish.

Emil has a severe allergy to shellfish. Prawns, crab and mussels can kill him. Not one bite, not a
taste, not a drop of their oil on a knife or a plate. His lips and tongue swell, his throat closes,
and he cannot get his breath. A cup of crab soup put him in hospital for a night; the doctor said
that ten more minutes would have meant death.

- Cod, salmon and other fish are safe. So are rice, eggs and meat.
- Fish sauce, oyster sauce and soup from a packet make him ill. Read the label.
- If he falls ill at the table: pen into the leg, call 113, second pen after five minutes.
"""
CALLS = {
    f"calls/{number:02}.md": f"The brother of Aksel {what}. We talked for a while."
    for number, what in enumerate(
        [
            "bought a used car and asked about winter tyres",
            "moved the piano to the second floor",
            "sent photographs from the north coast",
            "has a new telephone number",
            "wants the ladder back before Easter",
            "runs the marathon in October",
            "started at the shipyard",
            "wrote about the football cup",
            "repaired the roof of the boathouse",
            "found the lost umbrella",
            "bought tickets for the opera",
            "paints the fence white",
            "borrowed the drill",
            "called about the tax form",
            "sold the caravan",
        ]
    )
}
OTHERS = {
    f"others/{number:02}.md": f"{what}. Noted on a quiet evening."
    for number, what in enumerate(
        [
            "The tide table for the east quay is printed every Monday",
            "Backups are checked on the first day of the month",
            "The cello wants a humidity between forty and sixty percent",
            "Slides are scanned at four thousand dots an inch",
            "The timetable server answers slowly before six",
            "A second panel for the west quay costs too much",
            "Old wheels are kept for a rollback",
            "The attic server hums when the sun is on the roof",
            "Certificates run out in March",
            "The library opens at ten on Saturdays",
            "Lamps in the waiting room share one line",
            "Bread rises longer when the window is open",
            "The printer wants a new drum",
            "Clocks change on the last Sunday in October",
            "The gate to the boatyard sticks in wet weather",
            "Seven spare keys hang behind the door",
            "The choir rehearses in the school",
            "Snow chains are in the cellar",
            "Invoices are sent by the harbour office",
            "The lighthouse is painted every fifth year",
            "Two apple trees were planted by the wall",
            "Letters for the board go to the second floor",
            "The ferry turns back when the wind is above twenty metres",
            "Tickets are checked on the upper deck",
        ]
    )
}


def test_an_exact_rare_word_is_first_though_vectors_lead_elsewhere(
    kb: kbstore.Store, embedder: FakeEmbedder
) -> None:
    near = np.zeros(768)
    near[0] = 1.0
    other = np.zeros(768)
    other[1] = 0.9
    embedder.vectors = {
        "pump": [*(near + other)],
        "qx-9917": [*near],
        "QX-9917": [*(near * 0.3 + 0.05)],
    }
    for number in range(20):
        kb.put(f"pumps/{number:02}.md", f"The pump number {number} was cleaned.", defer=True)
    kb.put("zz/errors.md", "It blinked QX-9917 twice.")
    kb.embed()
    assert ask(kb, "qx-9917", "vectors")[0].startswith("pumps/")
    for way in ("words", "fused"):
        assert ask(kb, "qx-9917", way)[0] == "zz/errors.md"


def test_tied_documents_come_in_the_order_of_their_paths_in_every_process(tmp_path: Path) -> None:
    script = """
import json, sys
import kbstore

class Constant:
    name, fingerprint, weight = "constant", "constant", 1.0
    def embed(self, texts, task):
        return [[1.0] * 768 for _ in texts]

with kbstore.Store(sys.argv[1], embedder=Constant()) as store:
    if not store.list():
        for letter in "gcaefbdh":
            store.put(f"{letter}.md", "the same words", title="Same", updated="2026-06-01")
    found = {
        str(chosen): [hit.path for hit in store.search("same words", retrievers=chosen).hits]
        for chosen in (["frontmatter"], ["words"], ["vectors"], None)
    }
print(json.dumps(found))
"""
    answers = [
        subprocess.run(
            [sys.executable, "-c", script, str(tmp_path / "kb.sqlite3")],
            env=os.environ | {"PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    ]
    assert answers[0] == answers[1]
    expected = [f"{letter}.md" for letter in "abcdefgh"]
    for chosen, found in json.loads(answers[0]).items():
        assert found == ([] if "frontmatter" in chosen else expected), chosen


# Limits and filters


@pytest.mark.parametrize("way", ["vectors", "fused"])
def test_a_document_with_ten_near_questions_does_not_crowd_out_the_others(
    kb: kbstore.Store, way: str
) -> None:
    kb.put("many.md", "how often do we retry a failing call", defer=True)
    kb.connection.executemany(
        "insert into question (document_id, text) select id, ? from document",
        [(f"how often do we retry a failing call, variant{number}",) for number in range(10)],
    )
    for number in range(5):
        kb.put(f"other{number}.md", f"retry a failing call, part{number}", defer=True)
    kb.put("far.md", "an octopus has three hearts", defer=True)
    assert kb.embed().questions == 10
    query = "how often do we retry a failing call"
    found = ask(kb, query, way, limit=5)
    assert found[0] == "many.md"
    assert len(set(found)) == 5
    assert "far.md" not in found
    assert sorted(ask(kb, query, "vectors", limit=50)) == [
        "far.md", "many.md", *(f"other{number}.md" for number in range(5))
    ]  # fmt: skip


@pytest.mark.parametrize("limit", [5_000, 100_000])
def test_a_limit_above_what_a_scan_can_give_works(library: kbstore.Store, limit: int) -> None:
    for way in ("vectors", "fused"):
        assert sorted(ask(library, "violin", way, limit=limit)) == sorted(NOTES)
    assert ask(library, "violin", "words", limit=limit) == ["music/violin.md"]


def test_a_filter_holds_before_the_lists_are_cut(kb: kbstore.Store) -> None:
    """Three notes that 500 others surpass in every list come back when only they are asked for."""
    with kb.batch():
        for number in range(500):
            kb.put(f"projects/{number:03}.md", "harbour lights", title="Harbour", defer=True)
        for number in range(3):
            text = "a long note about many other things, and the harbour at last, " * 5
            kb.put(f"self/{number}.md", text + f"octopus{number}", defer=True)
    assert kb.embed().pending == 0
    mine = ["self/0.md", "self/1.md", "self/2.md"]
    for way in ("words", "vectors", "fused"):
        assert not set(mine) & set(ask(kb, "harbour", way, limit=20))
        assert sorted(ask(kb, "harbour", way, topic="self")) == mine
        assert sorted(ask(kb, "harbour", way, topic="self", limit=2)) <= mine
    assert sorted(ask(kb, "lights", "vectors", topic="self")) == mine  # near none of them
    assert ask(kb, "lights", "words", topic="self") == []
    assert sorted(ask(kb, "lights", "fused", topic="self")) == mine
