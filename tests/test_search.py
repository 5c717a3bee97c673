"""The statement, spoken to in SQL: ranks, fusion, weights, decay and filters, computed by hand.

The vectors are unit vectors e_i of 768 dimensions, and mixtures of them, so every cosine is known.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import apsw
import numpy as np
import pytest

from kbstore import queries

NOW = "2026-12-01"
HASH = "0" * 64
PARAMETERS = (
    "query", "embedding", "topic", "type", "tag", "since", "until", "now", "limit", "retrievers",
)  # fmt: skip

Search = Callable[..., list[dict[str, Any]]]


def axis(*weights: float) -> bytes:
    """A unit vector along (weights[0], weights[1], …, 0, 0)."""
    array = np.zeros(768, np.float32)
    array[: len(weights)] = weights
    return (array / np.linalg.norm(array)).tobytes()


def note(conn: apsw.Connection, path: str, body: str = "", **columns: Any) -> int:
    columns = {"title": "note", "content_hash": HASH} | columns | {"path": path, "body": body}
    conn.execute(
        f"insert into document ({', '.join(columns)}) values ({', '.join('?' * len(columns))})",
        tuple(columns.values()),
    )
    return conn.last_insert_rowid()


def embed(conn: apsw.Connection, document_id: int, vector: bytes, seq: int = 0) -> None:
    conn.execute(
        "insert into document_embedding values (null, ?, ?, 0, 0, ?, ?, 'm', null)",
        (document_id, seq, vector, HASH),
    )


def ask(conn: apsw.Connection, document_id: int, text: str, vector: bytes, **columns: Any) -> int:
    columns = {"document_id": document_id, "text": text} | columns
    conn.execute(
        f"insert into question ({', '.join(columns)}) values ({', '.join('?' * len(columns))})",
        tuple(columns.values()),
    )
    question_id = conn.last_insert_rowid()
    conn.execute("insert into question_embedding values (?, ?, 'm', null)", (question_id, vector))
    return question_id


@pytest.fixture
def conn(conn: apsw.Connection) -> apsw.Connection:
    """In the plain form, ranks alone; one test turns relative scores on."""
    conn.execute("update setting set value = 'm' where name = 'model'")
    conn.execute("update retriever set power = 0, depth = entry")
    return conn


@pytest.fixture
def search(conn: apsw.Connection) -> Search:
    def run(query: str | None = None, **bindings: Any) -> list[dict[str, Any]]:
        for kind, table in (("document", "document_embedding"), ("hype", "question_embedding")):
            key = "id" if kind == "document" else "question_id"
            conn.execute(f"delete from {kind}_vec")
            conn.execute(
                f"insert into {kind}_vec (id, embedding) "
                f"select {key}, vec_quantize_binary(embedding) from {table}"
            )
        name = bindings.pop("statement", "search")
        bound = dict.fromkeys(PARAMETERS) | {"query": query, "now": NOW} | bindings
        cursor = conn.execute(queries.read(name), bound)
        return [
            dict(zip((c[0] for c in cursor.get_description()), row, strict=True)) for row in cursor
        ]

    return run


def paths(rows: list[dict[str, Any]]) -> list[str]:
    return [row["path"] for row in rows]


def rrf(*ranks: int | None, k: int = 60) -> float:
    return sum(1 / (k + rank) for rank in ranks if rank)


class TestFusion:
    def test_a_document_adds_up_what_its_ranks_give(self, conn, search) -> None:
        """words   vectors   score
        both.md          2       1       1/62 + 1/61
        words.md         1       -       1/61
        vectors.md       -       2       1/62
        """
        embed(conn, note(conn, "both.md", "falcon and other birds"), axis(1, 0))
        note(conn, "words.md", "falcon falcon")
        embed(conn, note(conn, "vectors.md", "nothing alike"), axis(1, 1))
        rows = search("falcon", embedding=axis(1, 0))
        assert [(r["path"], r["words_rank"], r["vectors_rank"]) for r in rows] == [
            ("both.md", 2, 1),
            ("words.md", 1, None),
            ("vectors.md", None, 2),
        ]
        assert [r["score"] for r in rows] == pytest.approx([rrf(2, 1), rrf(1), rrf(2)])

    def test_three_retrievers_add_up(self, conn, search) -> None:
        embed(conn, note(conn, "a.md", "x", title="Falcon"), axis(1, 0))
        (row,) = search("falcon", embedding=axis(1, 0))
        assert (row["frontmatter_rank"], row["words_rank"], row["vectors_rank"]) == (1, 1, 1)
        assert row["score"] == pytest.approx(3 / 61)

    def test_the_columns_add_up_to_the_score(self, conn, search) -> None:
        conn.execute("update retriever set power = 1, depth = 200")
        for i, path in enumerate(("a.md", "skills/b/SKILL.md", "journal/2026-11-01.md")):
            document = note(conn, path, "falcon " * (i + 1), title="bird", updated="2026-11-01")
            embed(conn, document, axis(1, i))
        rows = search("falcon", embedding=axis(1, 0.5))
        assert len(rows) == 3
        for row in rows:
            parts = [row[f"{n}_contribution"] or 0 for n in ("frontmatter", "words", "vectors")]
            assert row["score"] == pytest.approx(sum(parts) * row["type_weight"] * row["recency"])

    def test_equal_evidence_is_an_equal_rank_and_falls_back_on_the_path(self, conn, search) -> None:
        for path in ("c.md", "a.md", "b.md"):
            note(conn, path, "falcon", title="same", tags="[]")
        rows = search("falcon")
        assert paths(rows) == ["a.md", "b.md", "c.md"]
        assert [r["words_rank"] for r in rows] == [1, 1, 1]

    def test_k_and_weights_are_rows(self, conn, search) -> None:
        note(conn, "a.md", "falcon")
        conn.execute("update setting set value = 10 where name = 'rrf_k'")
        conn.execute("update retriever set weight = 3 where name = 'words'")
        assert search("falcon")[0]["score"] == pytest.approx(3 / 11)

    def test_depth_and_entry(self, conn, search) -> None:
        """With entry 1 and depth 5 a list brings in its first only, but its other ranks count for
        what another list brings in."""
        conn.execute("update retriever set entry = 1, depth = 5")
        note(conn, "first.md", "falcon falcon falcon")
        second = note(conn, "second.md", "falcon heron")
        note(conn, "third.md", "falcon heron egret stork")
        embed(conn, second, axis(1, 0))
        rows = search("falcon", embedding=axis(1, 0), limit=1)
        assert [(r["path"], r["words_rank"], r["vectors_rank"]) for r in rows] == [
            ("second.md", 2, 1)
        ]
        conn.execute("update retriever set depth = 1")
        assert [(r["words_rank"], r["vectors_rank"]) for r in search("falcon", limit=1)] == [
            (1, None)
        ]

    def test_a_relative_score_scales_a_contribution(self, conn, search) -> None:
        conn.execute("update retriever set power = iif(name = 'vectors', 2, 0), depth = 200")
        embed(conn, note(conn, "near.md"), axis(1, 0))
        embed(conn, note(conn, "half.md"), axis(1, math.sqrt(3)))
        rows = search("x", embedding=axis(1, 0), retrievers="vectors")
        assert [r["vectors_score"] for r in rows] == pytest.approx([1, 0.5], abs=1e-6)
        # How far above the background (the mean cosine of the passages and of two that have
        # nothing in common with the query), of what is possible, in units of `full`.
        background, full = (1 + 0.5) / (2 + 2), 0.7
        relative = (0.5 - background) / (1 - background) / full
        assert [r["score"] for r in rows] == pytest.approx([1 / 61, relative**2 / 62], rel=1e-5)

    def test_words_side_by_side_count_more(self, conn, search) -> None:
        for i in range(12):
            note(conn, f"other/{i}.md", "filler text of no interest")
        note(conn, "a.md", "the bus was late and the stop was wet, number nine")
        note(conn, "b.md", "the bus stop was wet and the number nine was late")
        rows = search("bus stop", retrievers="words")
        assert [r["path"] for r in rows] == ["b.md", "a.md"]
        conn.execute("update setting set value = 0 where name = 'neighbours_weight'")
        one, two = search("bus stop", retrievers="words")
        assert one["words_score"] == pytest.approx(two["words_score"])

    def test_nothing_decays_for_whoever_names_a_date_or_the_journal(self, conn, search) -> None:
        note(conn, "journal/2026-03-02.md", "falcon", updated="2026-03-02")
        for query, options in (
            ("falcon on 2026-03-02", {}),
            ("falcon in 2026-03", {}),
            ("falcon on 2 March 2026", {}),
            ("falcon", {"topic": "journal"}),
            ("falcon", {"type": "journal"}),
            ("falcon", {"since": "2026-01-01"}),
        ):
            (row,) = search(query, retrievers="words", **options)
            assert (row["recency"], row["type_weight"]) == (1.0, 0.8), query
        for query in ("falcon", "falcon march", "falcon 12", "falcon 1.0.21", "falcon 555-1234"):
            (row,) = search(query, retrievers="words")
            assert row["recency"] < 0.01, query

    def test_a_leader_that_its_age_has_pushed_out_is_named(self, conn, search) -> None:
        conn.execute("update retriever set power = 2 where name = 'words'")
        note(conn, "journal/2026-01-02.md", "falcon", title="falcon", updated="2026-01-02")
        for name in "abc":
            note(conn, f"{name}.md", "falcon and a lot of other words beside it")
        rows = search("falcon", retrievers="words", limit=2)
        assert [r["path"] for r in rows] == ["a.md", "b.md"]
        assert [r["displaced"] for r in rows] == ['["journal/2026-01-02.md"]'] * 2
        rows = search("falcon", retrievers="words", limit=10)
        assert rows[-1]["path"] == "journal/2026-01-02.md"
        assert [r["displaced"] for r in rows] == [None] * 4
        assert rows[-1]["rank"] > rows[-1]["rank_without_age"]

    def test_words_are_scaled_by_the_share_of_what_the_terms_can_give(self, conn, search) -> None:
        conn.execute("update retriever set power = 1")
        for i in range(20):
            note(conn, f"other/{i}.md", "filler text of no interest")
        note(conn, "falcon.md", "falcon")
        note(conn, "heron.md", "heron")
        full, half = search("falcon")[0], search("falcon heron")[0]
        assert full["words_contribution"] == pytest.approx(1 / 61)
        assert half["words_contribution"] == pytest.approx(0.5 / 61)

    def test_the_weight_of_the_model_scales_vectors_only(self, conn, search) -> None:
        conn.execute("update setting set value = 0.5 where name = 'model_weight'")
        embed(conn, note(conn, "a.md", "falcon"), axis(1))
        (row,) = search("falcon", embedding=axis(1))
        assert row["vectors_contribution"] == pytest.approx(0.5 / 61)
        assert row["words_contribution"] == pytest.approx(1 / 61)

    @pytest.mark.parametrize("name", ["frontmatter", "words", "vectors"])
    def test_a_retriever_alone(self, conn, search, name) -> None:
        embed(conn, note(conn, "a.md", "falcon", title="falcon"), axis(1))
        (row,) = search("falcon", embedding=axis(1), retrievers=name)
        others = {"frontmatter", "words", "vectors"} - {name}
        assert row[f"{name}_rank"] == 1
        assert all(row[f"{other}_rank"] is None for other in others)

    def test_a_retriever_of_no_weight_brings_nothing_in(self, conn, search) -> None:
        conn.execute("update retriever set weight = 0 where name = 'words'")
        note(conn, "a.md", "falcon")
        assert search("falcon") == []


class TestTypeAndAge:
    @pytest.mark.parametrize(
        ("path", "type", "weight"),
        [
            ("domains/a.md", "kb", 1.0),
            ("skills/a/SKILL.md", "skill", 1.2),
            ("SKILL.md", "skill", 1.2),
            ("journal/2026-12-01.md", "journal", 0.8),
            ("projects/journal/a.md", "kb", 1.0),
            ("skills/a/NOTSKILL.md", "kb", 1.0),
        ],
    )
    def test_the_path_gives_the_type_and_the_type_the_weight(
        self, conn, search, path, type, weight
    ) -> None:
        note(conn, path, "falcon", title="x", updated=NOW)
        (row,) = search("falcon", retrievers="words")
        assert (row["type"], row["type_weight"]) == (type, weight)
        assert row["score"] == pytest.approx(weight / 61)

    @pytest.mark.parametrize(
        ("updated", "recency"),
        [
            ("2026-12-01", 1.0),
            ("2026-11-30", 0.977),
            ("2026-11-01", 0.5),
            ("2026-09-02", 0.125),
            ("2027-11-01", 1.0),  # the future is of age 0
            (None, 1.0),  # no date does not decay
            ("2026-11-30T12:00:00Z", 0.9885),
        ],
    )
    def test_a_journal_halves_in_thirty_days(self, conn, search, updated, recency) -> None:
        note(conn, "journal/a.md", "falcon", updated=updated)
        (row,) = search("falcon", retrievers="words")
        assert row["recency"] == pytest.approx(recency, abs=5e-4)
        assert row["score"] == pytest.approx(0.8 * row["recency"] / 61)

    def test_other_types_do_not_decay_unless_told_to(self, conn, search) -> None:
        note(conn, "a.md", "falcon", updated="2020-01-01")
        assert search("falcon")[0]["recency"] == 1
        conn.execute("update ranking set half_life_days = 1, floor = 0.25 where type = 'kb'")
        assert search("falcon")[0]["recency"] == 0.25

    def test_a_type_without_a_row_weighs_one(self, conn, search) -> None:
        conn.execute("delete from ranking")
        note(conn, "journal/a.md", "falcon", updated="2020-01-01")
        (row,) = search("falcon")
        assert (row["type_weight"], row["recency"]) == (1, 1)

    def test_a_month_old_journal_falls_behind_an_equal_note(self, conn, search) -> None:
        note(conn, "journal/a.md", "falcon", updated="2026-11-01")
        note(conn, "z.md", "falcon", updated="2026-11-01")
        assert paths(search("falcon")) == ["z.md", "journal/a.md"]

    def test_now_is_the_clock_where_it_is_not_given(self, conn, search) -> None:
        conn.execute("update ranking set half_life_days = 1 where type = 'kb'")
        note(conn, "a.md", "falcon", updated="2000-01-01")
        assert search("falcon", now=None)[0]["recency"] < 1e-100


class TestVectors:
    def test_the_best_of_passages_and_questions_is_the_document_s(self, conn, search) -> None:
        document = note(conn, "a.md")
        embed(conn, document, axis(0, 0, 1), seq=0)
        embed(conn, document, axis(1, 1), seq=1)
        (row,) = search("x", embedding=axis(1, 0))
        assert row["vectors_score"] == pytest.approx(math.sqrt(0.5), abs=1e-6)
        assert row["matched_question"] is None
        ask(conn, document, "Which bird?", axis(1, 0.1))
        (row,) = search("x", embedding=axis(1, 0))
        assert row["vectors_score"] == pytest.approx(1 / math.hypot(1, 0.1), abs=1e-6)
        assert row["matched_question"] == "Which bird?"

    def test_ten_near_questions_do_not_crowd_out_other_documents(self, conn, search) -> None:
        greedy = note(conn, "greedy.md")
        for i in range(10):
            ask(conn, greedy, f"question {i}", axis(1, i / 1000))
        for i in range(5):
            embed(conn, note(conn, f"other{i}.md"), axis(1, 0.5 + i / 10))
        found = paths(search("x", embedding=axis(1, 0), limit=5))
        assert found == ["greedy.md", "other0.md", "other1.md", "other2.md", "other3.md"]

    def test_nothing_stale_is_found(self, conn, search) -> None:
        """Vectors and generated questions count while their hash is the document's; a person's
        question always; a vetoed one never; another model's never."""
        document = note(conn, "a.md")
        embed(conn, document, axis(1))
        ask(conn, document, "generated", axis(0, 1), origin="llm", content_hash=HASH)
        ask(conn, document, "mine", axis(0, 0, 1))
        vetoed = ask(conn, document, "vetoed", axis(0, 0, 0, 1))
        conn.execute("update question set vetoed = 1 where id = ?", (vetoed,))

        def similarity(*weights: float) -> float:
            rows = search("x", embedding=axis(*weights))
            return round(rows[0]["vectors_score"], 3) if rows else 0.0

        sides = (1,), (0, 1), (0, 0, 1), (0, 0, 0, 1)
        assert [similarity(*side) for side in sides] == [1, 1, 1, 0]
        conn.execute("update document set content_hash = ?", ("1" * 64,))
        assert [similarity(*side) for side in sides] == [0, 0, 1, 0]
        conn.execute("update setting set value = 'another' where name = 'model'")
        assert search("x", embedding=axis(1)) == []

    def test_a_deleted_document_leaves_nothing(self, conn, search) -> None:
        embed(conn, note(conn, "a.md"), axis(1))
        search("x", embedding=axis(1))
        conn.execute("delete from document")
        bound = dict.fromkeys(PARAMETERS) | {"query": "x", "embedding": axis(1)}
        assert conn.execute(queries.read("search"), bound).fetchall() == []  # the bits are there

    def test_without_a_vector_the_statement_works_by_words(self, conn, search) -> None:
        embed(conn, note(conn, "a.md", "falcon"), axis(1))
        (row,) = search("falcon")
        assert (row["words_rank"], row["vectors_rank"]) == (1, None)

    def test_a_vector_without_words_finds_what_is_alike(self, conn, search) -> None:
        embed(conn, note(conn, "a.md", "falcon"), axis(1, 0))
        embed(conn, note(conn, "b.md", "heron"), axis(1, 1))
        assert paths(search(None, embedding=axis(0, 1))) == ["b.md", "a.md"]

    def test_more_than_vec0_gives_at_once(self, conn, search) -> None:
        with conn:
            for i in range(30):
                embed(conn, note(conn, f"{i:02}.md"), axis(1, i))
        assert len(search("x", embedding=axis(1), limit=5000)) == 30


class TestFrontmatter:
    @pytest.mark.parametrize(
        ("query", "found"),
        [
            ("backoff retries", True),  # all of them
            ("the retries with backoff", True),  # stop words do not count
            ("backoff retries http reliability domains", True),  # tags and path, too
            ("backoff retries http reliability plover", True),  # four of five
            ("backoff retries http plover", False),  # three of four
            ("plover", False),
            ("deep", False),  # in the body only
        ],
    )
    def test_title_tags_and_path_must_cover_the_query(self, conn, search, query, found) -> None:
        note(
            conn,
            "domains/http-retries.md",
            "deep in the text",
            title="Retries and backoff",
            tags='["http", "reliability"]',
        )
        note(conn, "other.md", "plover")
        rows = search(query, retrievers="frontmatter")
        assert paths(rows) == (["domains/http-retries.md"] if found else [])


class TestFilters:
    @pytest.fixture(autouse=True)
    def _notes(self, conn) -> None:
        for i, (path, tags, updated) in enumerate(
            [
                ("projects/atlas/plan.md", '["Design", "x"]', "2026-01-01"),
                ("projects/plan.md", "[]", "2026-01-31T23:59:00Z"),
                ("projectsnot/plan.md", '["design"]', "2026-02-01"),
                ("journal/2026-02-02.md", "[]", "2026-02-02"),
                ("skills/a/SKILL.md", "[]", None),
            ]
        ):
            document = note(conn, path, "falcon", title="t", tags=tags, updated=updated)
            embed(conn, document, axis(1, i))

    CASES = (
        ({"topic": "projects"}, {"projects/atlas/plan.md", "projects/plan.md"}),
        ({"topic": "projects/"}, {"projects/atlas/plan.md", "projects/plan.md"}),
        ({"topic": "projects/atlas"}, {"projects/atlas/plan.md"}),
        ({"topic": "project"}, set()),
        ({"type": "journal"}, {"journal/2026-02-02.md"}),
        ({"type": "skill"}, {"skills/a/SKILL.md"}),
        ({"tag": "design"}, {"projects/atlas/plan.md", "projectsnot/plan.md"}),
        ({"since": "2026-02-01"}, {"projectsnot/plan.md", "journal/2026-02-02.md"}),
        ({"until": "2026-01-31"}, {"projects/atlas/plan.md", "projects/plan.md"}),
        ({"since": "2026-01-31", "until": "2026-01-31"}, {"projects/plan.md"}),
        ({"until": "2026-02-01", "tag": "design", "topic": "projectsnot"}, {"projectsnot/plan.md"}),
    )

    @pytest.mark.parametrize(("filters", "expected"), CASES)
    @pytest.mark.parametrize("retrievers", [None, "words", "vectors"])
    def test_each_applies_in_each_retriever(self, search, filters, expected, retrievers) -> None:
        rows = search("falcon", embedding=axis(1), retrievers=retrievers, **filters)
        assert set(paths(rows)) == expected

    def test_it_is_applied_before_a_list_is_cut(self, conn, search) -> None:
        """500 nearer documents elsewhere do not hide three of the topic that is asked for."""
        with conn:
            for i in range(500):
                embed(conn, note(conn, f"crowd/{i}.md", "falcon falcon falcon"), axis(1, i / 1e6))
            for i in range(3):
                embed(conn, note(conn, f"self/{i}.md", "falcon at the end of it"), axis(0.1, 1))
        expected = {"self/0.md", "self/1.md", "self/2.md"}
        for retrievers in ("words", "vectors", None):
            rows = search("falcon", embedding=axis(1), topic="self", retrievers=retrievers)
            assert set(paths(rows)) == expected

    @pytest.mark.parametrize("value", ["'", "%", "projects%", "_", "\\", "a' or 1=1 --"])
    def test_a_filter_is_text(self, search, value) -> None:
        assert search("falcon", topic=value) == []
        assert search("falcon", tag=value) == []


class TestSnippet:
    def test_it_shows_the_match_in_its_place(self, conn, search) -> None:
        note(conn, "a.md", "word " * 100 + "a falcon\nflew " + "word " * 100)
        (row,) = search("falcon", retrievers="words")
        assert "a **falcon** flew" in row["snippet"]
        assert len(row["snippet"]) < 250

    def test_without_a_match_in_the_words_it_is_the_beginning(self, conn, search) -> None:
        embed(conn, note(conn, "a.md", "First line.\nSecond line. " + "more " * 100), axis(1))
        (row,) = search("zebra", embedding=axis(1))
        assert row["snippet"].startswith("First line. Second line. more")
        assert row["snippet"].endswith("…")


def test_the_form_without_the_extension_is_the_same_statement_less_the_vectors(
    conn, search
) -> None:
    """search_words.sql is search.sql without what is marked `vectors`, line for line."""
    kept, inside = [], False
    for line in queries.read("search").splitlines(keepends=True):
        if line.strip() == "-- vectors {":
            inside = True
        elif line.strip() == "-- }":
            inside = False
        elif not inside and not line.rstrip().endswith("-- vectors"):
            kept.append(line)
    assert "".join(kept) == queries.read("search_words")

    for path in ("a.md", "journal/b.md", "skills/c/SKILL.md"):
        note(conn, path, "falcon", updated="2026-11-01")
    assert search("falcon", statement="search_words") == search("falcon")


@pytest.mark.parametrize("name", ["search", "search_words"])
def test_the_driver_keeps_the_statement_prepared(conn, name) -> None:
    """It does so up to a size only; preparing costs as much as running."""
    limit = conn.cache_stats()["max_cacheable_bytes"]
    assert len(queries.statement(name).encode()) < limit
    bound = dict.fromkeys(PARAMETERS) | {"query": "falcon"}
    for _ in range(2):
        before = conn.cache_stats()["hits"]
        conn.execute(queries.statement(name), bound).fetchall()
    assert conn.cache_stats()["hits"] == before + 1


def test_without_its_comments_it_is_the_same_statement(conn, search) -> None:
    embed(conn, note(conn, "a.md", "falcon -- flies"), axis(1))
    bound = dict.fromkeys(PARAMETERS) | {"query": "falcon", "embedding": axis(1), "now": NOW}
    short = conn.execute(queries.statement("search"), bound).fetchall()
    assert short == conn.execute(queries.read("search"), bound).fetchall()
    assert len(short) == 1
