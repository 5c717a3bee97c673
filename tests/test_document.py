"""The rules that every document keeps, whoever stores it."""

from __future__ import annotations

import hashlib
import json
import re
import time
import unicodedata
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta, timezone
from functools import partial
from pathlib import Path

import apsw
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import kbstore
from kbstore import document
from kbstore.errors import InputError

EXACT = settings(derandomize=True, deadline=None, max_examples=200)

# path, what the message says of it
BAD_PATHS = [
    ("", "empty"),
    ("/etc/passwd", "'/etc/passwd'"),
    ("/", "'/'"),
    ("../../x", "'../../x'"),
    ("a/../../b", "'a/../../b'"),
    ("a/..", "'a/..'"),
    ("..", "'..'"),
    (".", "'.'"),
    ("./a.md", "'./a.md'"),
    ("a/./b.md", "'a/./b.md'"),
    ("a//b.md", "'a//b.md'"),
    ("a/", "'a/'"),
    ("a\\b.md", r"'a\\b.md'"),
    ("..\\x", r"'..\\x'"),
    ("a\0b.md", r"a\x00b.md"),
    ("a\nb.md", r"a\nb.md"),
    ("a\tb.md", r"a\tb.md"),
    ("a\x1bb.md", r"a\x1bb.md"),
    ("a\x7fb.md", r"a\x7fb.md"),
    ("a\ud800b.md", r"a\ud800b.md"),
    ("a" * 513, "513 characters"),
    ("a/" * 500_000 + "b", "1000001 characters"),
    (" ", "' '"),
]
GOOD_PATHS = [
    "a",
    "a.md",
    "domains/http-retries.md",
    "deep/er/and/deeper/x.md",
    ".hidden/x.md",
    "a/..b.md",
    "a/b..",
    "a/.../b.md",
    "with space/and (brackets) [x] #1.md",
    "日本語/部署方案.md",
    "emoji 😀.md",
    "-dash.md",
    "*?\"'%;:.md",
    "a" * 512,
]


@pytest.fixture(params=["UTC", "Asia/Tokyo", "America/New_York"])
def time_zone(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The machine's time zone, one after another."""
    with monkeypatch.context() as patch:
        patch.setenv("TZ", request.param)
        time.tzset()
        yield request.param
    time.tzset()


# Paths


@pytest.mark.parametrize(("path", "says"), BAD_PATHS, ids=[repr(p[:20]) for p, _ in BAD_PATHS])
def test_a_bad_path_is_refused_in_one_line_that_names_it(path: str, says: str) -> None:
    with pytest.raises(InputError) as caught:
        document.check_path(path)
    message = str(caught.value)
    assert says in message
    assert "\n" not in message
    assert len(message) < 300


@pytest.mark.parametrize("path", [None, 7, b"a.md", Path("a.md"), ["a.md"]])
def test_a_path_that_is_no_text_is_refused(path: object) -> None:
    with pytest.raises(InputError, match="the path must be a text") as caught:
        document.check_path(path)
    assert str(path) in str(caught.value)


@pytest.mark.parametrize("path", GOOD_PATHS, ids=[p[:20] for p in GOOD_PATHS])
def test_a_relative_path_is_kept_as_it_is(path: str) -> None:
    assert document.check_path(path) == path


def test_a_path_is_stored_in_composed_form() -> None:
    decomposed = unicodedata.normalize("NFD", "notes/café.md")
    assert decomposed != "notes/café.md"
    assert document.check_path(decomposed) == "notes/café.md"


def test_the_composed_form_is_what_counts_for_the_length() -> None:
    assert len(document.check_path("e\u0301" * 512)) == 512
    with pytest.raises(InputError, match="513 characters"):
        document.check_path("e\u0301" * 513)


def test_decomposed_and_composed_spellings_are_one_document(kb: kbstore.Store) -> None:
    kb.put(unicodedata.normalize("NFD", "café.md"), "first")
    assert kb.put(unicodedata.normalize("NFC", "café.md"), "second").action == "replaced"
    assert [d.path for d in kb.list()] == ["café.md"]
    assert kb.get(unicodedata.normalize("NFD", "café.md")).body == "second"


def test_a_bad_path_gets_through_no_door_of_the_store(kb: kbstore.Store) -> None:
    kb.put("a.md", "the only text")
    for path, _ in BAD_PATHS:
        doors: list[Callable[[], object]] = [
            partial(kb.put, path, "text"),
            partial(kb.get, path),
            partial(kb.delete, path),
            partial(kb.move, path, "b.md"),
            partial(kb.move, "a.md", path),
        ]
        for door in doors:
            with pytest.raises(InputError):
                door()
    assert [(d.path, kb.get(d.path).body) for d in kb.list()] == [("a.md", "the only text")]


def test_the_database_has_the_same_rule_for_paths(conn: apsw.Connection) -> None:
    insert = "insert into document (path, title, body) values (?, 'T', '')"
    for path in GOOD_PATHS:
        conn.execute(insert, (path,))
    for path, _ in BAD_PATHS:
        if path.strip() and "\ud800" not in path:
            with pytest.raises(apsw.ConstraintError):
                conn.execute(insert, (path,))
    assert [row[0] for row in conn.execute("select path from document order by id")] == GOOD_PATHS


@EXACT
@given(st.text(st.sampled_from("ab./\\ \0\ne\u0301é\u2126")) | st.text(max_size=20))
@example("a/\u2024\u2024/b")  # one dot leaders: they look like dots, and are none
@example("\u212b")
def test_whatever_is_accepted_as_a_path_is_safe_and_composed(text: str) -> None:
    try:
        path = document.check_path(text)
    except InputError:
        return
    parts = path.split("/")
    assert not {"", ".", ".."} & set(parts)
    assert not path.startswith("/")
    assert unicodedata.is_normalized("NFC", path)
    assert not re.search(r"[\x00-\x1f\x7f\\]", path)
    assert document.check_path(path) == path


# Titles, tags, text


@pytest.mark.parametrize(
    ("title", "kept"),
    [
        ("A title", "A title"),
        ("  spaces around \n", "spaces around"),
        ("two\nlines", "two\nlines"),
        ("x" * 1000, "x" * 1000),
        (" " + "x" * 1000 + " ", "x" * 1000),
        ('"quoted" # 😀', '"quoted" # 😀'),
    ],
)
def test_a_title_is_kept_without_the_space_around_it(title: str, kept: str) -> None:
    assert document.check_title(title, "a.md") == kept


@pytest.mark.parametrize(
    ("title", "says"),
    [
        ("", "a.md: the title is blank"),
        (" \t\n\u3000", "a.md: the title is blank"),
        ("x" * 1001, "a.md: the title has 1001 characters; 1000 is the most"),
        ("a\0b", "'a.md': the title has a NUL character in it"),
        ("a\udfffb", "'a.md': the title is not valid Unicode (a lone surrogate)"),
        (7, "a.md: the title must be a text, not int"),
        (None, "a.md: the title must be a text, not NoneType"),
    ],
)
def test_a_bad_title_is_refused_naming_the_document(title: object, says: str) -> None:
    with pytest.raises(InputError) as caught:
        document.check_title(title, "a.md")
    assert str(caught.value) == says


@pytest.mark.parametrize(
    ("tags", "kept"),
    [
        ([], ()),
        (["http", "retry"], ("http", "retry")),
        ([" http ", "http", "HTTP"], ("http", "HTTP")),
        (("b", "a", "b"), ("b", "a")),
        (iter(["a"]), ("a",)),
        (["a, b", "c d", '"q"'], ("a, b", "c d", '"q"')),
        (["x" * 200], ("x" * 200,)),
        ([str(n) for n in range(100)] * 2, tuple(str(n) for n in range(100))),
    ],
)
def test_tags_are_kept_in_order_once_each(tags: list[str], kept: tuple[str, ...]) -> None:
    assert document.check_tags(tags, "a.md") == kept


@pytest.mark.parametrize(
    ("tags", "says"),
    [
        ("http", "a.md: tags must be a list of texts, not one text"),
        (["a", " "], "a.md: a tag is blank"),
        (["a", 7], "a.md: the tag must be a text, not int"),
        (["a", None], "a.md: the tag must be a text, not NoneType"),
        (["a\0b"], "'a.md': the tag has a NUL character in it"),
        (["\ud800"], "'a.md': the tag is not valid Unicode (a lone surrogate)"),
        (["x" * 201], f"a.md: tag {'x' * 40!r}… has 201 characters; 200 is the most"),
        ([str(n) for n in range(101)], "a.md: there are 101 tags; 100 is the most"),
    ],
)
def test_bad_tags_are_refused_naming_the_document(tags: list[str], says: str) -> None:
    with pytest.raises(InputError) as caught:
        document.check_tags(tags, "a.md")
    assert str(caught.value) == says


@pytest.mark.parametrize("body", ["", " \n", "text\r\n", "\ufeff", "x" * document.MAX_BODY])
def test_a_text_is_kept_to_the_last_character(body: str) -> None:
    assert document.check_body(body, "a.md") is body


@pytest.mark.parametrize(
    ("body", "says"),
    [
        ("x" * (document.MAX_BODY + 1), "a.md: the text has 16,777,217 characters"),
        ("a\0b", "'a.md': the text has a NUL character in it"),
        ("a\ud800", "'a.md': the text is not valid Unicode"),
        (b"bytes", "a.md: the text must be a text, not bytes"),
    ],
    ids=["long", "NUL", "surrogate", "bytes"],
)
def test_a_bad_text_is_refused_naming_the_document(body: object, says: str) -> None:
    with pytest.raises(InputError) as caught:
        document.check_body(body, "a.md")
    assert str(caught.value).startswith(says)
    assert len(str(caught.value)) < 200


@pytest.mark.parametrize(
    ("path", "title"),
    [
        ("domains/http-retries.md", "http-retries"),
        ("skills/agent-swarm-launcher/SKILL.md", "agent-swarm-launcher"),
        ("SKILL.md", "SKILL"),
        ("notes/SKILL.md.md", "SKILL.md"),
        ("v1.2.3.md", "v1.2.3"),
        ("plain", "plain"),
        ("a/.md", ".md"),
        ("a/ .md", "a/ .md"),
        ("a/ x .md", "x"),
    ],
)
def test_a_note_without_a_title_has_that_of_its_file(path: str, title: str) -> None:
    assert document.title_from_path(path) == title


# Dates: one rule, whatever the machine's time zone


# as written, as stored (None: not a date)
DATES = [
    ("2026-02-03", "2026-02-03"),
    (" 2026-02-03\n", "2026-02-03"),
    ("2026-02-03 10:00", "2026-02-03T10:00:00Z"),
    ("2026-02-03T10:00", "2026-02-03T10:00:00Z"),
    ("2026-02-03T10:00:00Z", "2026-02-03T10:00:00Z"),
    ("2026-02-03t10:00:00z", "2026-02-03T10:00:00Z"),
    ("2026-02-03T10:00:00+09:00", "2026-02-03T01:00:00Z"),
    ("2026-02-03T10:00:00-0500", "2026-02-03T15:00:00Z"),
    ("2026-02-03 10:00 +09:00", "2026-02-03T01:00:00Z"),
    ("2026-02-03T04:00:00+09:00", "2026-02-02T19:00:00Z"),
    ("2026-12-31T23:30-01:00", "2027-01-01T00:30:00Z"),
    ("2026-02-03T10:00:00.999Z", "2026-02-03T10:00:00Z"),
    ("2026-02-03T10:00:00,5Z", "2026-02-03T10:00:00Z"),
    ("2026-02-03T10:00:00.123456789Z", "2026-02-03T10:00:00Z"),
    ("2024-02-29", "2024-02-29"),
    ("2027-06-01", "2027-06-01"),
    ("0001-01-01", "0001-01-01"),
    ("0987-01-01T00:00Z", "0987-01-01T00:00:00Z"),
    ("9999-12-31T23:59:59Z", "9999-12-31T23:59:59Z"),
    ("2026-02-30", None),
    ("2026-02-29", None),
    ("2026-13-01", None),
    ("03/02/2026", None),
    ("3 Feb 2026", None),
    ("99999-01-01", None),
    ("0000-01-01", None),
    ("", None),
    (" \n", None),
    ("12", None),
    ("now", None),
    ("20260203", None),
    ("2026-2-3", None),
    ("2026-02", None),
    ("2026-W06-2", None),
    ("2026-034", None),
    ("2026-02-03T", None),
    ("2026-02-03Z", None),
    ("2026-02-03T10", None),
    ("2026-02-03T24:00", None),
    ("2026-02-03T10:60", None),
    ("2026-02-03T10:00:60Z", None),
    ("2026-02-03T10:00+25:00", None),
    ("2026-02-03T10:00 Europe/Paris", None),
    ("0001-01-01T00:00+09:00", None),
    ("9999-12-31T23:00-09:00", None),
    ("２０２６-02-03", None),
    ("2026-02-03T1٠:00Z", None),
    ("2026-02-03\x00", None),
    ("2026-02-03 or so", None),
]


def test_a_date_means_the_same_in_every_time_zone(time_zone: str) -> None:
    """A day stays a day; a time is UTC unless it has an offset, and is stored in UTC."""
    assert {text: document.parse_date(text) for text, _ in DATES} == dict(DATES)


def test_the_database_accepts_every_date_that_is_one(conn: apsw.Connection) -> None:
    stored = [date for _, date in DATES if date]
    for n, date in enumerate(stored):
        conn.execute(
            "insert into document (path, title, created, updated) values (?, 'T', ?, ?)",
            (f"{n}.md", date, date),
        )
    assert [row[0] for row in conn.execute("select updated from document order by id")] == stored


@EXACT
@given(
    st.datetimes(datetime(1000, 1, 2), datetime(9999, 12, 30)),
    st.integers(-23 * 60, 23 * 60).map(lambda minutes: timezone(timedelta(minutes=minutes))),
)
def test_a_time_with_an_offset_is_stored_as_the_same_moment(
    moment: datetime, zone: timezone
) -> None:
    moment = moment.replace(tzinfo=zone)
    stored = document.parse_date(moment.isoformat())
    assert stored is not None
    assert datetime.fromisoformat(stored) == moment.replace(microsecond=0)
    assert stored.endswith("Z")
    assert document.parse_date(stored) == stored


@EXACT
@given(st.text(st.sampled_from("0123456789-:TZ +.,"), max_size=30))
def test_whatever_looks_like_a_date_is_one_or_is_none(text: str) -> None:
    stored = document.parse_date(text)
    if stored is not None:
        datetime.fromisoformat(stored)
        assert len(stored) in (10, 20)
        assert document.parse_date(stored) == stored


def test_a_bad_date_is_refused_with_the_document_the_field_and_the_value() -> None:
    with pytest.raises(InputError) as caught:
        document.check_date("2026-02-30", "journal/x.md", "updated")
    assert str(caught.value) == (
        "journal/x.md: updated is '2026-02-30', not a date such as 2026-12-01 or 2026-12-01T10:00Z"
    )
    with pytest.raises(InputError) as caught:
        document.check_date("9" * 10_000, "x.md", "created")
    assert len(str(caught.value)) < 200
    with pytest.raises(InputError, match=r"x\.md: the updated must be a text, not int"):
        document.check_date(2026, "x.md", "updated")


@pytest.mark.parametrize(
    ("path", "day"),
    [
        ("journal/2026-12-15.md", "2026-12-15"),
        ("journal/2026/2026-12-15 standup.md", "2026-12-15"),
        ("journal/notes-2026-12-15.md", "2026-12-15"),
        ("journal/2026-12-15/notes.md", None),
        ("journal/2026-02-30.md", None),
        ("journal/12026-12-15.md", None),
        ("journal/2026-12-150.md", None),
        ("journal/ideas.md", None),
    ],
)
def test_the_day_of_a_journal_is_that_in_its_file_name(path: str, day: str | None) -> None:
    assert document.date_in_path(path) == day


def test_this_moment_is_told_in_utc(time_zone: str) -> None:
    before = datetime.now(UTC).replace(microsecond=0)
    now = document.now()
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", now)
    assert before <= datetime.fromisoformat(now) <= datetime.now(UTC)


# What is embedded


def test_the_content_hash_of_a_text_never_changes() -> None:
    """Another value for the same text would make every stored vector stale."""
    embedded = '["Título", ["a", "b"], "what", "body\\n"]'
    found = document.content_hash("x.md", "Título", ["a", "b"], "what", "body\n")
    assert found == hashlib.sha256(embedded.encode()).hexdigest()
    assert found == "0e4f6a3e51727198ecc466efce7ad85f1a8a6b7638d32c8d7b5c9f53b6ec6e93"


def test_the_content_hash_tells_all_that_is_embedded_apart() -> None:
    texts = [
        ("a", ["b"], "c", "d"),
        ("A", ["b"], "c", "d"),
        ("a", ["B"], "c", "d"),
        ("a", ["b"], "C", "d"),
        ("a", ["b"], "c", "D"),
        ("a", ["b"], "c", "d "),
        ("a", [], "c", "d"),
        ("a", ["b", "e"], "c", "d"),
        ("a", ["e", "b"], "c", "d"),
        ("a", ["b, e"], "c", "d"),
        ("a", ["b"], "", "cd"),
        ("ab", [], "c", "d"),
        ("a", ["b"], "cd", ""),
        ('a", ["b"]', [], "c", "d"),
    ]
    assert len({document.content_hash("x.md", *text) for text in texts}) == len(texts)
    assert document.content_hash("y.md", "a", ("b",), "c", "d") == document.content_hash(
        "x.md", *texts[0]
    )


def test_a_title_that_is_the_file_s_name_is_not_content() -> None:
    named = [("a.md", "a"), ("b.md", "b"), ("b/a.md", "a"), ("skills/c/SKILL.md", "c")]
    assert len({document.content_hash(*name, [], "", "text") for name in named}) == 1
    assert document.content_hash("a.md", "b", [], "", "text") != document.content_hash(
        "b.md", "b", [], "", "text"
    )


@pytest.mark.parametrize(
    ("title", "tags", "description", "text"),
    [
        ("Retries", [], "", "Retries. "),
        ("Retries", ["http", "net"], "", "Retries. Tags: http, net. "),
        ("Retries", [], "How we retry.", "Retries. How we retry. "),
        ("Retries.", ("http",), "How.", "Retries. Tags: http. How. "),
        ("Why?", [], "", "Why?. "),
    ],
)
def test_the_heading_of_a_passage_is_title_tags_and_description(
    title: str, tags: list[str], description: str, text: str
) -> None:
    assert document.heading(title, tags, description) == text


def test_a_document_and_a_summary_are_plain_json(kb: kbstore.Store) -> None:
    kb.put("a/b.md", "text", title="T", tags=["x", "y"], updated="2026-12-01")
    for value in (kb.get("a/b.md").as_dict(), kb.list()[0].as_dict()):
        assert json.loads(json.dumps(value)) == value
        assert (value["path"], value["topic"], value["type"]) == ("a/b.md", "a", "kb")
        assert (value["title"], value["tags"], value["updated"]) == ("T", ["x", "y"], "2026-12-01")
