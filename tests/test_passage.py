"""A long text is parted into passages where it breathes, and nothing of it is lost."""

from __future__ import annotations

import pytest
from conftest import FakeEmbedder
from hypothesis import example, given, settings
from hypothesis import strategies as st

import kbstore
from kbstore import passage
from kbstore.passage import MAX_HEADING, MAX_PASSAGE, split

EXACT = settings(derandomize=True, deadline=None, max_examples=300)


def texts(body: str, limit: int) -> list[str]:
    return [part.text for part in split(body, limit)]


def check(body: str, limit: int) -> None:
    """The promises: in order, within the limit, and only blank characters in no passage."""
    parts = split(body, limit)
    end = 0
    for part in parts:
        assert part.text == body[part.start : part.end] or not body.strip()
        assert len(part.text) <= limit
        assert not body[end : part.start].strip()
        assert part.end >= part.start >= end
        end = part.end
    assert not body[end:].strip()
    assert all(part.text.strip() for part in parts) or len(parts) == 1


@pytest.mark.parametrize("body", ["text", "x" * MAX_PASSAGE, "# a\n\nb\n\n# c\n" * 60, "\n x \n"])
def test_a_text_that_fits_is_one_passage(body: str) -> None:
    assert split(body) == [passage.Passage(0, len(body), body)]


@pytest.mark.parametrize("body", ["", " ", "\n" * 10, " \n\t" * 2_000])
def test_a_blank_text_is_one_empty_passage(body: str) -> None:
    assert split(body) == [passage.Passage(0, len(body), "")]


def test_one_character_more_makes_two_passages() -> None:
    assert [len(text) for text in texts("x" * (MAX_PASSAGE + 1), MAX_PASSAGE)] == [MAX_PASSAGE, 1]


# limit 40: the body, and the passages it is to give
PLACES = [
    pytest.param(
        "An opening line of text.\n## Heading\nWhat is said below it.",
        ["An opening line of text.\n", "## Heading\nWhat is said below it."],
        id="before a heading",
    ),
    pytest.param(
        "One paragraph of it.\n\n# Heading\none\n\ntwo\nthree four five",
        ["One paragraph of it.\n\n", "# Heading\none\n\ntwo\nthree four five"],
        id="before a heading rather than at a later paragraph",
    ),
    pytest.param(
        "A paragraph, long enough.\n\nA line\nand then another, with words.",
        ["A paragraph, long enough.\n\n", "A line\nand then another, with words."],
        id="between paragraphs rather than at a later line",
    ),
    pytest.param(
        "A paragraph, long enough.\n \t\nA line\nand then another, with words.",
        ["A paragraph, long enough.\n \t\n", "A line\nand then another, with words."],
        id="a line of spaces parts paragraphs",
    ),
    pytest.param(
        "A line of text, quite long\nSo. It is. And then other words follow.",
        ["A line of text, quite long\n", "So. It is. And then other words follow."],
        id="between lines rather than at a later sentence",
    ),
    pytest.param(
        "A sentence that is not too short. But one more that is longer.",
        ["A sentence that is not too short. ", "But one more that is longer."],
        id="between sentences rather than at a later word",
    ),
    pytest.param(
        "many words and more words and never ending at all or so",
        ["many words and more words and never ", "ending at all or so"],
        id="between words",
    ),
    pytest.param(
        "x" * 100, ["x" * 40, "x" * 40, "x" * 20], id="inside a word that is longer than a passage"
    ),
    pytest.param(
        "今日は成語しりとりをした。" * 5,
        ["今日は成語しりとりをした。" * 3, "今日は成語しりとりをした。" * 2],
        id="between sentences without spaces",
    ),
    pytest.param("部署方案" * 20, ["部署方案" * 10] * 2, id="anywhere in a script without spaces"),
    pytest.param(
        "#hashtag is no heading and\n#neither is this one or it",
        ["#hashtag is no heading and\n", "#neither is this one or it"],
        id="a hashtag is an ordinary line",
    ),
    pytest.param(
        "word\r\n" * 10,
        ["word\r\n" * 6, "word\r\n" * 4],
        id="after both characters of a line end",
    ),
    pytest.param(
        "First line of the text\n\nabcdefghijklmn\n# Heading\nand what is below",
        ["First line of the text\n\nabcdefghijklmn\n", "# Heading\nand what is below"],
        id="before a heading just behind the limit",
    ),
]


@pytest.mark.parametrize(("body", "expected"), PLACES)
def test_a_text_is_parted_where_it_breathes(body: str, expected: list[str]) -> None:
    assert "".join(expected) == body
    assert texts(body, 40) == expected


def test_a_heading_near_the_beginning_does_not_make_a_tiny_passage() -> None:
    body = "intro\n# Heading\n" + "word " * 20
    assert len(texts(body, 40)[0]) > 20


def test_blank_stretches_are_left_out_but_no_text_is() -> None:
    body = "begin" + "\n" * 200 + "middle" + " " * 200 + "end"
    parts = split(body, 40)
    assert [part.text.strip() for part in parts] == ["begin", "middle", "end"]
    check(body, 40)


@pytest.mark.parametrize(
    ("name", "body"),
    [
        ("words", "word " * 12_000),
        ("one word", "x" * 60_000),
        ("CJK", "部署方案。" * 12_000),
        ("lines", "- an item of a list\n" * 3_000),
        ("sections", "".join(f"## Section {n}\n\n{'Text. ' * 150}\n\n" for n in range(60))),
    ],
)
def test_a_long_text_gives_about_as_many_passages_as_it_must(name: str, body: str) -> None:
    check(body, MAX_PASSAGE)
    parts = split(body)
    assert "".join(part.text for part in parts) == body
    assert len(body) / MAX_PASSAGE <= len(parts) <= len(body) / MAX_PASSAGE * 2.5 + 1
    if name == "sections":
        assert all(part.text.startswith("## Section") for part in parts)


BREATHS = st.sampled_from(
    ["\n\n", "\n# ", "\n", ". ", "。", " ", "\t", "\r\n", "word", "x", "語", "é"]
)


@EXACT
@given(st.lists(BREATHS | st.text(max_size=30), max_size=60).map("".join), st.integers(2, 60))
@example("。" * 50, 2)
@example("\n" * 50, 3)
@example("# " * 50, 4)
def test_no_text_is_lost_and_no_passage_is_too_long(body: str, limit: int) -> None:
    check(body, limit)


def test_the_model_gets_every_passage_under_the_documents_heading(
    kb: kbstore.Store, embedder: FakeEmbedder
) -> None:
    body = "".join(f"Sentence number {n} of a long text. " for n in range(300))
    kb.put("a.md", body, title="A title", tags=["one"])
    received = [text for _, text in embedder.calls]
    head = "A title. Tags: one. "
    assert all(text.startswith(head) for text in received)
    assert "".join(text.removeprefix(head) for text in received) == body
    assert kb.list()[0].passages == len(received) > 5


def test_what_the_model_gets_is_never_longer_than_its_window(
    kb: kbstore.Store, embedder: FakeEmbedder
) -> None:
    kb.put("a.md", "y" * 5_200, title="x" * 1_000, tags=["t" * 200] * 3, description="d" * 5_000)
    assert {len(text) for _, text in embedder.calls} == {MAX_HEADING + MAX_PASSAGE, 240 + 200}


def test_the_database_says_which_part_of_the_text_a_vector_stands_for(kb: kbstore.Store) -> None:
    body = "".join(f"Sentence number {n} of a long text.\n" for n in range(150))
    kb.put("a.md", body)
    rows = kb.connection.execute(
        "select seq, substr(d.body, body_start + 1, body_end - body_start)"
        " from document_embedding e join document d on d.id = e.document_id order by seq"
    ).fetchall()
    assert rows == [(seq, part.text) for seq, part in enumerate(split(body))]
