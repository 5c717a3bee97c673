"""Markdown with a YAML header is read without ever failing, and written back as it was."""

from __future__ import annotations

import time
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import kbstore
from kbstore import document, frontmatter
from kbstore.errors import InputError

EXACT = settings(derandomize=True, deadline=None, max_examples=200)

# Every character that a text may have; those that YAML or markdown give a meaning come often.
CHARACTERS = st.sampled_from("'\"#:-[]{},&*!|>%@`\\~=?. \t\r\n\x1b\x7f\x85\u2028\ufeff0") | (
    st.characters(exclude_categories=["Cs"], exclude_characters="\0")
)


def parse(text: str, path: str = "notes/file-name.md") -> frontmatter.Note:
    return frontmatter.parse(text, path)


def render(body: str = "body\n", header: str | None = None, **fields: Any) -> str:
    """The file of a document that says what its header says, but for ``fields``."""
    path = fields.pop("path", "notes/file-name.md")
    seen = parse(f"---\n{header}---\n{body}" if header is not None else body, path)
    kept = {
        "title": seen.title,
        "tags": seen.tags,
        "description": seen.description,
        "created": seen.created,
        "updated": seen.updated,
    }
    return frontmatter.render(body, header, path=path, **(kept | fields))


# The two fences


@pytest.mark.parametrize(
    ("text", "header", "body"),
    [
        pytest.param("---\ntitle: A\n---\nbody\n", "title: A\n", "body\n", id="plain"),
        pytest.param("---\ntitle: A\n---\n\nbody", "title: A\n", "\nbody", id="blank line kept"),
        pytest.param("\ufeff---\ntitle: A\n---\nbody\n", "title: A\n", "body\n", id="BOM"),
        pytest.param("---\r\ntitle: A\r\n---\r\nbody\r\n", "title: A\r\n", "body\r\n", id="CRLF"),
        pytest.param(
            "\ufeff---\r\ntitle: A\r\n---\r\nb\r\n", "title: A\r\n", "b\r\n", id="BOM and CRLF"
        ),
        pytest.param("---\ntitle: A\n---", "title: A\n", "", id="fence at the end of the file"),
        pytest.param("---\r\ntitle: A\r\n---", "title: A\r\n", "", id="the same with CRLF"),
        pytest.param("---\ntitle: A\n---\n", "title: A\n", "", id="only a header"),
        pytest.param("---\ntitle: A\n...\nbody\n", "title: A\n", "body\n", id="closed by dots"),
        pytest.param("--- \ntitle: A\n---\t \nbody\n", "title: A\n", "body\n", id="space after"),
        pytest.param("---\n---\nbody\n", "", "body\n", id="empty header"),
        pytest.param("---\n# only a comment\n---\nb\n", "# only a comment\n", "b\n", id="comment"),
        pytest.param("", None, "", id="empty file"),
        pytest.param("\ufeff", None, "", id="only a BOM"),
        pytest.param("body\n", None, "body\n", id="no header"),
        pytest.param("\ufeffbody\n", None, "body\n", id="BOM and no header"),
        pytest.param("\n---\ntitle: A\n---\n", None, "\n---\ntitle: A\n---\n", id="not at the top"),
        pytest.param("---\ntitle: A\n\nbody\n", None, "---\ntitle: A\n\nbody\n", id="never closed"),
        pytest.param("----\ntitle: A\n---\n", None, "----\ntitle: A\n---\n", id="four dashes"),
        pytest.param("---title: A\n---\n", None, "---title: A\n---\n", id="text behind the fence"),
        pytest.param("---\n\ntext\n", None, "---\n\ntext\n", id="a rule"),
        pytest.param("---\n\ntext\n\n---\nmore\n", None, "---\n\ntext\n\n---\nmore\n", id="rules"),
        pytest.param("---\n- a\n- b\n---\n", None, "---\n- a\n- b\n---\n", id="list between rules"),
        pytest.param("---\n[x] *y\n---\n", None, "---\n[x] *y\n---\n", id="text that is no YAML"),
        pytest.param(
            "---\ntitle: A\n---\n---\nb\n---\n",
            "title: A\n",
            "---\nb\n---\n",
            id="rule below",
        ),
        pytest.param(
            "---\nx: |\n  ---\n  y\n---\nb\n", "x: |\n  ---\n  y\n", "b\n", id="fence in a value"
        ),
    ],
)
def test_a_file_is_a_header_and_a_body(text: str, header: str | None, body: str) -> None:
    note = parse(text)
    assert (note.frontmatter, note.body, note.problems) == (header, body, ())
    assert note.title == ("A" if header and "title" in header else "file-name")


# Fields


@pytest.mark.parametrize(
    ("path", "text", "title"),
    [
        ("a.md", "---\ntitle: A\nname: b\n---\n# C\n", "A"),
        ("a.md", "---\nname: b\n---\n# C\n", "b"),
        ("a.md", "---\ntitle:\nname: b\n---\n", "b"),
        ("a.md", "---\ntitle: '  '\n---\n# C\n", "C"),
        ("a.md", "---\ntags: x\n---\nfirst\n\n# C ##\n\n# D\n", "C"),
        ("a.md", "## not a title\n\n#hashtag\n\n#\tTitle\r\n", "Title"),
        ("a.md", "# C ##\r\n", "C"),
        ("a.md", "# Notes on C#\n", "Notes on C#"),
        ("a.md", "#   \ntext", "a"),
        ("a.md", "", "a"),
        ("skills/agent-swarm/SKILL.md", "text", "agent-swarm"),
        ("a.md", "---\ntitle: [a, b]\n---\n# C\n", "C"),
    ],
)
def test_a_title_is_the_headers_else_the_first_heading_else_the_files(
    path: str, text: str, title: str
) -> None:
    assert parse(text, path).title == title


@pytest.mark.parametrize(
    ("written", "title"),
    [
        ("2024", "2024"),
        ("007", "007"),
        ("1.10", "1.10"),
        ("1e3", "1e3"),
        ("0x1F", "0x1F"),
        ("1_000", "1_000"),
        ("12:30:45", "12:30:45"),
        ("true", "true"),
        ("no", "no"),
        ("null", "null"),
        ("~", "~"),
        ("2026-02-30", "2026-02-30"),
        ("2026-12-01T10:00:00Z", "2026-12-01T10:00:00Z"),
        (".nan", ".nan"),
        ("!!int 7", "7"),
        ("!!python/object/apply:os.system [x]", "file-name"),
        ("plain # comment", "plain"),
        ("'single ''quotes'''", "single 'quotes'"),
        (r'"a \"quote\", a \\ and \u00e9"', 'a "quote", a \\ and é'),
        ("|\n  two\n  lines", "two\nlines"),
        (">-\n  one\n  line", "one line"),
        ("one\n  line", "one line"),
        ("日本語 😀", "日本語 😀"),
    ],
)
def test_a_scalar_is_the_text_that_was_written(written: str, title: str) -> None:
    note = parse(f"---\ntitle: {written}\n---\nbody\n")
    assert note.title == title
    assert note.body == "body\n"


@pytest.mark.parametrize(
    ("written", "tags"),
    [
        ("tags: [2024, true, 1.0]", ("2024", "true", "1.0")),
        ("tags: [007, no, null, 2026-02-30]", ("007", "no", "null", "2026-02-30")),
        ("tags: one, two", ("one", "two")),
        ("tags: one", ("one",)),
        ("tags: two words", ("two words",)),
        ("tags:", ()),
        ("tags: ''", ()),
        ("tags: []", ()),
        ("tags: ['', a, ' ']", ("a",)),
        ("tags: [a, b, a, ' a ']", ("a", "b")),
        ("tags:\n- a\n- b", ("a", "b")),
        ("tags:\n  - a b\n  - 'c, d'", ("a b", "c, d")),
        ("tags: [\n  a,\n  b,\n]", ("a", "b")),
        ("x: &x a\ntags: [*x, b]", ("a", "b")),
        ("other: y", ()),
        (f"tags: [{', '.join(map(str, range(100)))}]", tuple(map(str, range(100)))),
    ],
)
def test_tags_are_a_list_or_a_line_of_texts(written: str, tags: tuple[str, ...]) -> None:
    note = parse(f"---\n{written}\n---\nbody\n")
    assert (note.tags, note.problems) == (tags, ())


@pytest.mark.parametrize(
    ("written", "tags", "problem"),
    [
        ("tags: {a: b}", (), "tags is a mapping, not a list; left out"),
        ("tags: [a, [b], c]", ("a", "c"), "a tag is a list, not a text; left out"),
        ("tags: [a, {b: c}]", ("a",), "a tag is a mapping, not a text; left out"),
        (f"tags: [{'x' * 201}, b]", ("b",), "is longer than 200 characters; left out"),
        (
            f"tags: [{', '.join(map(str, range(101)))}]",
            tuple(map(str, range(100))),
            "there are more than 100 tags; the first 100 are kept",
        ),
    ],
)
def test_tags_that_cannot_be_kept_are_told(
    written: str, tags: tuple[str, ...], problem: str
) -> None:
    note = parse(f"---\n{written}\n---\nbody\n")
    assert note.tags == tags
    assert len(note.problems) == 1
    assert problem in note.problems[0]


@pytest.mark.parametrize(
    ("path", "written", "created", "updated", "problems"),
    [
        ("a.md", "updated: 2026-02-03", None, "2026-02-03", ()),
        ("a.md", "created: 2026-01-01\nupdated: 2026-02-03", "2026-01-01", "2026-02-03", ()),
        ("a.md", "modified: 2026-02-03 10:00", None, "2026-02-03T10:00:00Z", ()),
        ("a.md", "date: '2026-02-03T10:00:00+09:00'", None, "2026-02-03T01:00:00Z", ()),
        ("a.md", "date: 2026-01-01\nupdated: 2026-02-03", None, "2026-02-03", ()),
        ("a.md", "updated:\ndate: 2026-01-01", None, "2026-01-01", ()),
        ("a.md", "updated:", None, None, ()),
        ("a.md", "x: y", None, None, ()),
        ("a.md", "updated: 2027-12-24", None, "2027-12-24", ()),
        ("a.md", "updated: 2026-02-30", None, None, ("updated is '2026-02-30'",)),
        ("a.md", "updated: 03/02/2026", None, None, ("updated is '03/02/2026'",)),
        ("a.md", "updated: 99999-01-01", None, None, ("updated is '99999-01-01'",)),
        ("a.md", "updated: [2026-01-01]", None, None, ("updated is a list, not a date",)),
        ("a.md", "created: soon", None, None, ("created is 'soon'",)),
        ("a.md", "updated: x\nmodified: 2026-01-01", None, "2026-01-01", ("updated is 'x'",)),
        ("a.md", "created: x\nupdated: y", None, None, ("created is 'x'", "updated is 'y'")),
        ("journal/2026-12-15.md", "x: y", None, "2026-12-15", ()),
        ("journal/2026-12-15.md", "updated: 2026-12-16", None, "2026-12-16", ()),
        ("journal/2026-12-15.md", "updated: no", None, "2026-12-15", ("updated is 'no'",)),
        ("journal/ideas.md", "created: 2026-01-01", "2026-01-01", "2026-01-01", ()),
        ("notes/2026-12-15.md", "x: y", None, None, ()),
    ],
)
def test_dates_are_read_and_bad_ones_are_told(
    path: str, written: str, created: str | None, updated: str | None, problems: tuple[str, ...]
) -> None:
    note = parse(f"---\n{written}\n---\nbody\n", path)
    assert (note.created, note.updated) == (created, updated)
    assert len(note.problems) == len(problems)
    for found, expected in zip(note.problems, problems, strict=True):
        assert found.startswith(expected)
        assert "left out" in found


def test_a_description_is_read() -> None:
    assert (
        parse("---\ndescription: >\n  When to\n  use it.\n---\n").description == "When to use it."
    )
    note = parse("---\ndescription: [a]\n---\nbody")
    assert (note.description, note.problems) == (
        "",
        ("description is a list, not a text; left out",),
    )


def test_a_title_that_is_too_long_is_cut_and_told() -> None:
    note = parse(f"---\ntitle: {'x' * 1200}\n---\n")
    assert note.title == "x" * 1000
    assert note.problems == ("the title has 1200 characters; its first 1000 are kept",)


# A header that is wrong


@pytest.mark.parametrize(
    ("header", "title", "tags"),
    [
        ("title: Governance: plan\n", "Governance: plan", ()),
        ("title: Governance: plan\ntags: [a, b]\n", "Governance: plan", ("a", "b")),
        ("tags: one, two\ntitle: Plan: the second\r\n", "Plan: the second", ("one", "two")),
        ("title: @x\n", "@x", ()),
        ("title: `code`\n", "`code`", ()),
        ("title: %x\n", "%x", ()),
        ('title: "unclosed\n', "unclosed", ()),
        ("title: [unclosed\n", "[unclosed", ()),
        ("title: A\n\ttags: x\n", "A", ("x",)),
        ("title: A\nnote: *missing\n", "A", ()),
        ("title: A\nx: {y: [z}\n", "A", ()),
        ("title: A\nx: y: z\n", "A", ()),
        ("title: A\n? [a]\n: b\n", "A", ()),
        ("title: A\nbell: \x07\n", "A", ()),
    ],
)
def test_a_broken_header_is_read_line_by_line_with_one_problem(
    header: str, title: str, tags: tuple[str, ...]
) -> None:
    note = parse(f"---\n{header}---\nthe text\n")
    assert (note.title, note.tags) == (title, tags)
    assert (note.frontmatter, note.body) == (header, "the text\n")
    assert len(note.problems) == 1
    assert note.problems[0].startswith("the header is not valid YAML")
    assert "\n" not in note.problems[0]


def test_the_problem_gives_the_line_in_the_file() -> None:
    (problem,) = parse("---\nok: 1\ntitle: Governance: plan\n---\n").problems
    assert "(line 3)" in problem


# Whatever it is, it ends soon, tells little, and gives something that can be stored.
HOSTILE = {
    "open brackets": "x: " + "[" * 60_000,
    "closed brackets": "x: " + "[" * 30_000 + "]" * 30_000,
    "mappings": "x: " + "{a: " * 15_000,
    "nested lines": "\n".join(" " * n + "a:" for n in range(350)),
    "dashes": "- " * 30_000,
    "alias bomb": "a: &a [x,x,x,x,x,x,x,x,x]\n"
    + "\n".join(
        f"{name}: &{name} [{','.join(['*' + last] * 9)}]"
        for last, name in zip("abcdefghijkl", "bcdefghijklm", strict=True)
    )
    + "\ntags: *m\ntitle: *m",
    "list in itself": "x: &x [*x]\ntags: *x",
    "spaces in a line": "x: y: z" + " " * 24_000 + "z",
    "tabs in a line": "x: y: z" + "\t" * 24_000 + "z",
    "spaces before a colon": "x: y: z\na" + " " * 24_000 + "b",
    "long key": "a" * 60_000 + ": x: y",
    "many keys": "\n".join(f"k{n}: x: y" for n in range(5_000)),
    "many lists as tags": "tags: [" + "[]," * 20_000 + "]",
    "many long tags": "tags: [" + ("x" * 201 + ",") * 300 + "]",
    "NUL in a tag": 'tags: ["a\\0b", c]',
    "NUL in texts": 'title: "a\\0b"\ndescription: "a\\0b"\nupdated: "\\0"',
    "surrogates": 'title: "\\uD83D\\uDE00"\ntags: ["\\uD83D"]',
    "odd spaces": 'title: "\\u3000"\ntags: ["\\u3000", "\\u00a0", "\\r"]',
    "tags of quotes": "tags: [\"'\", '\"']",
    "line separators": 'title: "a\\Lb\\Pc\\Nd"',
    "not characters": 'title: "\\uFFFE\\uFEFF"',
}


@pytest.mark.parametrize("header", HOSTILE.values(), ids=HOSTILE)
def test_a_hostile_header_costs_little_and_loses_no_text(header: str, kb: kbstore.Store) -> None:
    begun = time.process_time()
    note = parse(f"---\n{header}\n---\nthe text\n")
    assert time.process_time() - begun < 2
    assert note.body.endswith("the text\n")
    assert len(note.problems) <= 50
    assert max(map(len, note.problems), default=0) < 300
    kb.put(
        "notes/file-name.md",
        note.body,
        title=note.title,
        tags=note.tags,
        description=note.description,
        created=note.created,
        updated=note.updated,
        frontmatter=note.frontmatter,
        defer=True,
    )
    assert kb.get("notes/file-name.md").body == note.body


@pytest.mark.parametrize(
    "text",
    ["# x" + " " * 9_990 + "y\n" * 3, "#" * 10_000, "# " * 5_000, "---\n" * 20_000, "-" * 100_000],
    ids=["spaces in a heading", "hashes", "headings", "fences", "dashes"],
)
def test_a_hostile_body_costs_little(text: str) -> None:
    begun = time.process_time()
    assert parse(text).title
    assert time.process_time() - begun < 2


def test_a_header_longer_than_the_limit_is_text() -> None:
    text = f"---\ntitle: A\nx: {'y' * frontmatter.MAX_HEADER}\n---\nbody\n"
    note = parse(text)
    assert (note.frontmatter, note.body) == (None, text)


@EXACT
@given(
    st.lists(
        CHARACTERS | st.sampled_from(["\n---\n", "\ntitle: ", "\ntags: ", '"\\0"', "\n- ", "[x, "])
    ).map("".join)
)
@example('tags: ["a\\0b"]')
@example('tags: ["\'"]')
def test_any_header_gives_fields_that_can_be_stored(header: str) -> None:
    text = f"---\n{header}\n---\nend"
    note = parse(text)
    assert text.endswith(note.body)
    assert note.body.endswith("end")
    assert document.check_title(note.title, "x") == note.title
    assert document.check_tags(note.tags, "x") == note.tags
    document.check_text("description", note.description, "x")


# Written back

KEPT = """\
# a comment at the top
id: 007
version: 1.10   # a comment behind
title: Plan
"quoted key": 'yes'
aliases: [a, "b: c"]

nested:
  deep: [1, 2]
  title: not this one
text: |
  title: nor this
  tags: nor these
empty:
on: no
tags:
  - one
  - two
date: 2026-01-05
~: odd
"""


@pytest.mark.parametrize(
    "header",
    [
        KEPT,
        KEPT.replace("\n", "\r\n"),
        "title: Governance: plan\n",
        "name: x\n",
        "",
        "# only a comment\n",
        "updated: 2026-02-30\n",
        "{title: A, tags: [a]}\n",
    ],
    ids=["all", "CRLF", "broken", "name", "empty", "comment", "bad date", "braces"],
)
@pytest.mark.parametrize("body", ["body\n", "body", "", "\r\nbody\r\n", "---\nrule\n---\n"])
def test_a_header_that_still_says_what_is_so_stays_as_it_was(header: str, body: str) -> None:
    newline = "\r\n" if "\r\n" in header else "\n"
    assert render(body, header) == f"---{newline}{header}---{newline}{body}"


@pytest.mark.parametrize(
    ("field", "value", "old", "key"),
    [
        ("title", "New", "title: Plan\n", "title"),
        ("title", "2024", "title: Plan\n", "title"),
        ("title", "a: b #c", "title: Plan\n", "title"),
        ("title", "two\nlines", "title: Plan\n", "title"),
        ("tags", ("x", "y"), "tags:\n  - one\n  - two\n", "tags"),
        ("tags", ("a, b", "007"), "tags:\n  - one\n  - two\n", "tags"),
        ("tags", (), "tags:\n  - one\n  - two\n", "tags"),
        ("updated", "2026-12-01", "date: 2026-01-05\n", "date"),
        ("updated", "2026-12-01T10:00:00Z", "date: 2026-01-05\n", "date"),
        ("description", "What", "", "description"),
        ("created", "2025-01-01", "", "created"),
    ],
)
@pytest.mark.parametrize("newline", ["\n", "\r\n"], ids=["LF", "CRLF"])
def test_only_the_lines_of_what_has_changed_are_written_anew(
    field: str, value: Any, old: str, key: str, newline: str
) -> None:
    """Comments, the order and the quoting of the other keys, and line ends stay."""
    header = KEPT.replace("\n", newline)
    before, after = header.split(old.replace("\n", newline)) if old else (header, "")
    text = render("body\n", header, **{field: value})
    start, end = f"---{newline}{before}", f"{after}---{newline}body\n"
    assert text.startswith(start)
    assert text.endswith(end)
    line = text[len(start) : -len(end)]
    assert line.startswith(f"{key}: ")
    assert line.endswith(newline)
    assert line.count("\n") == 1
    was, now = parse(f"---\n{KEPT}---\nbody\n"), parse(text)
    for name in ("title", "tags", "description", "created", "updated"):
        assert getattr(now, name) == (value if name == field else getattr(was, name))
    assert now.problems == ()


def test_a_date_that_is_not_known_leaves_the_one_that_is_written() -> None:
    text = f"---\n{KEPT}---\nbody\n"
    assert render("body\n", KEPT, created=None, updated=None) == text


@pytest.mark.parametrize(
    "value",
    [
        "tags: [a, b]",
        "tags: a, b",
        "tags:",
        "tags :  [a]",
        "tags: # comment\n  - a",
        "tags:\n- a\n- b",
        "tags:\n  - a\n  - b",
        "tags:\n\n  - a\n\n  - b",
        "tags:\n- a\n\n- b",
        "tags:\n  - a\n\n\n  - b",
        "tags:\n- a\n# comment\n- b",
        "tags:\n  - a\n  # comment\n  - b",
        "tags: [\n  a,\n  b,\n]",
        "tags: [a,\nb]",
        "tags: {a: b}",
        '"tags": [a]',
        "'tags': [a]",
        "tags: &anchor [a]",
    ],
)
@pytest.mark.parametrize("after", ["", "x: 1\n", "\n# comment\nx: 1\n"], ids=["end", "key", "gap"])
def test_a_list_of_tags_is_replaced_whole_however_it_is_written(value: str, after: str) -> None:
    text = render("body\n", f"id: 007\n{value}\n{after}", tags=["n"])
    note = parse(text)
    assert (note.tags, note.body, note.problems) == (("n",), "body\n", ())
    assert note.frontmatter is not None
    assert note.frontmatter.startswith("id: 007\n")
    assert note.frontmatter.endswith(after)


@pytest.mark.parametrize(
    "value",
    [
        "title: A",
        "title:\n  A",
        "title: A\n  and\n  more",
        "title: A\n\n\n  and more",
        "title: |\n  A\n\n  and\n\n\n  more",
        "title: >-\n  A\n\n  and\n\n\n\n  more",
        'title: "A\n  B"',
        'title: "A\nB"',
        "title: 'A\n\n\n  B'",
        "title: A\ntitle: B",
        "title: A: B",
        "title:",
        "title: [a, b]",
    ],
)
def test_a_title_is_replaced_whole_however_it_is_written(value: str) -> None:
    note = parse(render("body\n", f"id: 007\n{value}\nx: '1'\n", title="New"))
    assert (note.title, note.body, note.problems) == ("New", "body\n", ())
    assert note.frontmatter is not None
    assert note.frontmatter.startswith("id: 007\n")
    assert note.frontmatter.endswith("x: '1'\n")


def test_a_header_in_braces_can_be_changed() -> None:
    note = parse(render("body\n", "{title: A, tags: [a], id: 007}\n", title="New"))
    assert (note.title, note.tags, note.problems) == ("New", ("a",), ())
    assert "007" in (note.frontmatter or "")


def test_a_note_without_a_header_gets_one_only_if_it_must() -> None:
    assert render("# Title\n\nbody\n") == "# Title\n\nbody\n"
    assert render("body\n", path="journal/2026-12-15.md") == "body\n"
    assert (
        render("body\n", title="Title", tags=["a"]) == "---\ntitle: Title\ntags: [a]\n---\nbody\n"
    )


def test_a_header_given_without_its_last_line_end_gets_one() -> None:
    written = frontmatter.render("body\n", "title: A", path="a.md", title="A", tags=())
    assert written == "---\ntitle: A\n---\nbody\n"
    written = frontmatter.render("body\n", "title: A", path="a.md", title="A", tags=["t"])
    assert written == "---\ntitle: A\ntags: [t]\n---\nbody\n"


@pytest.mark.parametrize(
    "body",
    [
        "---\nfoo: bar\n---\nhello",
        "---\ntitle: x\n---\n",
        "---\n---\n",
        "---\n\nrule\n\n---\n",
        "---\n",
        "\ufeffbody",
        "\n\nbody",
        "",
        "\r\n",
        "...\n",
    ],
)
@pytest.mark.parametrize("header", [None, "id: 007\n"], ids=["no header", "header"])
@pytest.mark.parametrize("title", ["file-name", "Title"])
def test_a_body_that_begins_like_a_header_is_read_back_as_a_body(
    body: str, header: str | None, title: str
) -> None:
    text = frontmatter.render(body, header, path="notes/file-name.md", title=title, tags=())
    note = parse(text)
    assert (note.title, note.body, note.problems) == (title, body, ())


@pytest.mark.parametrize(
    "title",
    [
        'a "quoted" title',
        "it's",
        "'single'",
        '"double"',
        "two\nlines",
        "three\n\n\nlines",
        "with\ttab",
        "a\rb",
        "a\r\nb",
        "a\x85b",
        "a\u2028b",
        "# no comment",
        "a #b",
        "😀",
        "---",
        "a\n---\nb",
        "...",
        "- x",
        "[x]",
        "{x}",
        "a: b",
        "@x",
        "%x",
        "!x",
        "&x",
        "*x",
        "|",
        ">",
        "~",
        "null",
        "no",
        "007",
        "2026-12-01",
        "\\n",
        "\x1b[1m",
        "\ufeffx",
        "x" * 1000,
    ],
)
def test_a_title_and_a_tag_are_the_same_after_export_and_import(title: str) -> None:
    tag = title[:200]
    text = frontmatter.render("b\n", None, path="a.md", title=title, tags=[tag, "z"])
    note = parse(text, "a.md")
    assert (note.title, note.tags, note.body, note.problems) == (title, (tag, "z"), "b\n", ())


def _accepted(check: Any) -> Any:
    """Maps a text to what the store would keep of it; what it refuses is left out."""

    def kept(text: str) -> Any:
        try:
            return check(text)
        except InputError:
            return None

    return kept


TITLES = st.text(CHARACTERS, min_size=1, max_size=40).map(
    _accepted(lambda text: document.check_title(text, "x"))
)
TAGS = st.lists(st.text(CHARACTERS, min_size=1, max_size=15), max_size=4).map(
    _accepted(lambda texts: document.check_tags(texts, "x"))
)


@EXACT
@given(TITLES.filter(bool), TAGS.filter(lambda tags: tags is not None), st.text(CHARACTERS))
@example("a", ("'",), "")
@example("a\x85b", (), "")
@example("a", (), "---\nx: y\n---\n")
def test_whatever_the_store_accepts_survives_export_and_import(
    title: str, tags: tuple[str, ...], body: str
) -> None:
    note = parse(frontmatter.render(body, None, path="a.md", title=title, tags=tags), "a.md")
    assert (note.title, note.tags, note.body, note.problems) == (title, tags, body, ())


@EXACT
@given(TITLES.filter(bool), TITLES.filter(bool), TAGS.filter(bool), TAGS.filter(bool))
@example("a\n\nb", "c", ("x",), ("y",))
@example("b", "a", ("x",), ("y",))
def test_a_written_header_can_be_written_again(
    title: str, new_title: str, tags: tuple[str, ...], new_tags: tuple[str, ...]
) -> None:
    """No rest of the old value stays behind, and what is not known of stays."""
    header = frontmatter.parse(
        frontmatter.render("b\n", "id: 007\n", path="a.md", title=title, tags=tags), "a.md"
    ).frontmatter
    assert header is not None
    text = frontmatter.render("b\n", header, path="a.md", title=new_title, tags=new_tags)
    note = parse(text, "a.md")
    assert (note.title, note.tags, note.body, note.problems) == (new_title, new_tags, "b\n", ())
    written = (note.frontmatter or "").splitlines()
    assert written[0] == "id: 007"
    assert sorted(line.partition(":")[0] for line in written[1:]) in (["tags", "title"], ["tags"])


def test_a_document_exported_and_imported_is_unchanged(kb: kbstore.Store) -> None:
    path = "notes/a.md"
    source = f"---\n{KEPT}---\n\n# Body\n\ntext\n"
    note = parse(source, path)
    fields = {
        "title": note.title,
        "tags": note.tags,
        "description": note.description,
        "created": note.created,
        "updated": note.updated,
        "frontmatter": note.frontmatter,
    }
    kb.put(path, note.body, **fields)
    stored = kb.get(path)
    written = frontmatter.render(
        stored.body,
        stored.frontmatter,
        path=path,
        title=stored.title,
        tags=stored.tags,
        description=stored.description,
        created=stored.created,
        updated=stored.updated,
    )
    assert written == source
    assert kb.put(path, note.body, **fields).action == "unchanged"
