"""Damage made by hand: all of it is found, and mended without a model, or named."""

from __future__ import annotations

import gzip
import json
import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import apsw
import numpy as np
import pytest
from conftest import FakeEmbedder

import kbstore
from kbstore import check as check_module
from kbstore import queries
from kbstore.check import CheckReport, check
from kbstore.errors import DatabaseError

PAGE = 4096
LINE = "The heron waits in the shallow water, line {}."


def shell(file: Path, *commands: str) -> str:
    """The bare sqlite3 shell, without any extension."""
    done = subprocess.run(
        ["sqlite3", "-batch", file, *commands], capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def pages(file: Path, name: str) -> list[int]:
    """Where in the file the leaves of a table or index begin."""
    connection = apsw.Connection(str(file), flags=apsw.SQLITE_OPEN_READONLY)
    leaves = "select pageno from dbstat where name = ? and pagetype = 'leaf' order by 1"
    found = [(number - 1) * PAGE for (number,) in connection.execute(leaves, (name,))]
    connection.close()
    return found


def flip(file: Path, at: int, bits: int = 1) -> None:
    with file.open("rb+") as stream:
        stream.seek(at)
        (byte,) = stream.read(1)
        stream.seek(at)
        stream.write(bytes([byte ^ bits]))


def wipe(file: Path, at: int) -> None:
    """Zeros over the header of a page: nothing that was on it can be read."""
    with file.open("rb+") as stream:
        stream.seek(at)
        stream.write(bytes(8))


def place(file: Path, what: bytes, within: str | None = None) -> int:
    data = file.read_bytes()
    if within is None:
        return data.index(what)
    return next(
        at for page in pages(file, within) if (at := data.find(what, page, page + PAGE)) > 0
    )


def kinds(report: CheckReport) -> set[tuple[str, str]]:
    return {(finding.kind, finding.what) for finding in report.findings}


def left(report: CheckReport) -> set[tuple[str, str]]:
    return {(finding.kind, finding.what) for finding in report.findings if not finding.done}


def texts(file: Path) -> list[list[tuple]]:
    """All that is nowhere else."""
    connection = apsw.Connection(str(file), flags=apsw.SQLITE_OPEN_READONLY)
    found = [
        connection.execute(f"select {columns} from {table} order by 1").fetchall()
        for table, columns in {
            "document": "id, path, title, tags, description, created, updated, body",
            "document_version": "id, document_id, path, event, replaced, body",
            "question": "id, document_id, text, origin, vetoed",
        }.items()
    ]
    connection.close()
    return found


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A base with everything in it, closed: a file and nothing beside it."""
    file = tmp_path_factory.mktemp("built") / "kb.sqlite3"
    with kbstore.Store(file, embedder=FakeEmbedder(), hype=None) as kb:
        for number in range(24):
            body = "\n".join(LINE.format(f"{number}x{i}") for i in range(30))
            kb.put(f"birds/{number}.md", body, title=f"Bird {number}", tags=["bird"], defer=True)
        kb.put("部署.md", "重跑gen-itgc后50条")
        kb.put("birds/3.md", "The heron has left.")
        kb.move("birds/4.md", "birds/four.md")
        kb.delete("birds/5.md")
        kb.questions.add("birds/1.md", "Where does the heron wait?")
        kb.questions.add("birds/2.md", "How deep is the water?")
        kb.embed()
    assert [entry.name for entry in file.parent.iterdir()] == [file.name]
    return file


@pytest.fixture
def base(built: Path, database: Path) -> Path:
    shutil.copyfile(built, database)
    return database


@pytest.fixture
def opened(base: Path, embedder: FakeEmbedder) -> Callable[[], kbstore.Store]:
    return lambda: kbstore.Store(base, embedder=embedder, hype=None)


# A sound file ------------------------------------------------------------------------------------


def pending(kb: kbstore.Store) -> None:
    kb.put("new.md", "not embedded yet", defer=True)


def hand_edits(kb: kbstore.Store) -> None:
    shell(
        Path(kb.connection.filename),
        "update document set body = '手で書いた text' where path = 'birds/1.md'",
        "update document set path = 'moved/2.md', title = 'Moved' where path = 'birds/2.md'",
        "insert into document (path, title, body) values ('hand.md', 'By hand', 'written')",
        "delete from document where path = 'birds/6.md'",
        "update question set vetoed = 1 where id = 1",
        "update document set body = 'plain now' where path = '部署.md'",
    )


def stale(kb: kbstore.Store) -> None:
    kb.connection.execute(
        """insert into question (document_id, text, origin, content_hash, model)
           select id, 'Stale?', 'llm', 'of an older text', 'llm' from document limit 1"""
    )
    kb.put("birds/7.md", "another text", defer=True)


def half_way_to_another_model(kb: kbstore.Store) -> None:
    with kbstore.Store(kb.connection.filename, embedder=FakeEmbedder("other")) as other:
        assert other.embed(limit=7).documents == 7


def another_model(kb: kbstore.Store) -> None:
    with kbstore.Store(kb.connection.filename, embedder=FakeEmbedder("other")) as other:
        other.embed()


def limits(kb: kbstore.Store) -> None:
    shell(
        Path(kb.connection.filename),
        "update setting set value = 2 where name = 'keep_versions'",
        "update setting set value = 0.5 where name = 'keep_days'",
        "update ranking set half_life_days = 90 where type = 'journal'",
        "update retriever set weight = 0 where name = 'vectors'",
        "create view mine as select path from document",
        "create table my_notes (id integer primary key, text)",
    )


CHANGES = [pending, hand_edits, stale, half_way_to_another_model, another_model, limits]


@pytest.mark.parametrize("change", CHANGES, ids=lambda change: change.__name__)
def test_a_sound_file_has_no_findings(change, opened) -> None:
    with opened() as kb:
        change(kb)
        report = check(kb)
        assert report.findings == ()
        assert report.complete
        assert report.documents == kb.status().documents
        assert report.vectors >= 45


def test_nor_has_an_empty_one_one_in_memory_or_one_without_vectors(kb, tmp_path) -> None:
    assert check(kb) == CheckReport(0, 0, ())
    for place in (":memory:", tmp_path / "words.sqlite3"):
        with kbstore.Store(place, embedder=None) as store:
            store.put("a.md", "text")
            assert check(store) == CheckReport(1, 0, ())


def test_nor_one_of_an_older_schema_that_was_brought_up_to_date(database) -> None:
    packed = Path(__file__).parent / "fixtures" / "schema_1.sqlite3.gz"
    database.write_bytes(gzip.decompress(packed.read_bytes()))
    with kbstore.Store(database, embedder=None) as store:
        assert check(store).findings == ()


def test_mending_a_sound_file_changes_nothing(base, opened, embedder) -> None:
    before = base.read_bytes()
    watching = apsw.Connection(str(base))
    version = watching.pragma("data_version")
    with opened() as kb:
        assert check(kb, fix=True).findings == ()
    assert watching.pragma("data_version") == version
    watching.close()
    assert base.read_bytes() == before
    assert embedder.calls == []


def test_a_reader_may_look_and_mends_nothing(base) -> None:
    with kbstore.Store(base, embedder=None, read_only=True) as kb:
        assert check(kb).findings == ()
    shell(base, "drop trigger document_after_change")
    with kbstore.Store(base, embedder=None, read_only=True) as kb:
        assert left(check(kb, fix=True)) == {("structure", "trigger document_after_change")}


# Damage that is mended ---------------------------------------------------------------------------

Damage = Callable[[Path], object]


def the_lowest_bit_of_a_vector(file: Path) -> None:
    vector = bytes.fromhex(shell(file, "select hex(embedding) from document_embedding limit 1"))
    flip(file, place(file, vector))


def the_lowest_bit_of_a_question_s_vector(file: Path) -> None:
    vector = bytes.fromhex(shell(file, "select hex(embedding) from question_embedding limit 1"))
    flip(file, place(file, vector, "question_embedding") + 4 * 40)


def an_index_that_lost_a_leaf(name: str) -> Damage:
    return lambda file: wipe(file, pages(file, name)[-1])


def one_letter_in_an_index(file: Path) -> None:
    digest = shell(file, "select content_hash from document limit 1").strip().encode()
    flip(file, place(file, digest, "document_content_hash"))


def sql(*statements: str) -> Damage:
    return lambda file: shell(file, *statements)


def bits_of_another_model(file: Path) -> None:
    connection = kbstore.connect(file)
    other = np.random.default_rng(0).normal(size=768).astype(np.float32)
    connection.execute("delete from document_vec where id = 3")
    connection.execute(
        "insert into document_vec (id, embedding, content_hash) select 3, vec_quantize_binary(?),"
        " content_hash from document_embedding where id = 3",
        (other.tobytes(),),
    )
    connection.close()


def a_vector_that_is_no_number(file: Path) -> None:
    nan = np.full(768, np.nan, np.float32).tobytes().hex()
    shell(file, f"update document_embedding set crc = null, embedding = x'{nan}' where id = 2")


def a_table_that_was_dropped(name: str) -> Damage:
    return sql(f"drop table {name}")


UNSEGMENTED = "delete from document_segmented"
BEHIND = """
drop trigger document_after_update;
update document set body = 'Another text.', content_hash = null where path = 'birds/1.md';
"""

MENDED: dict[str, tuple[Damage, set[tuple[str, str]]]] = {
    "a flipped bit in a segment of the full-text index": (
        lambda file: flip(file, pages(file, "document_fts_data")[-1] + 3000),
        {("words", "document_fts")},
    ),
    "a lost page of the full-text index": (
        lambda file: wipe(file, pages(file, "document_fts_data")[-1]),
        {("words", "document_fts_data")},
    ),
    "a lost page of the full-text index's own settings": (
        lambda file: wipe(file, pages(file, "document_fts_config")[-1]),
        {("words", "document_fts")},
    ),
    "a lost page of a vec0 table": (
        lambda file: wipe(file, pages(file, "document_vec_rowids")[-1]),
        {("vec0", "document_vec_rowids")},
    ),
    "a lost page of the bits": (
        lambda file: wipe(file, pages(file, "document_vec_auxiliary")[-1]),
        {("vec0", "document_vec_auxiliary")},
    ),
    "a deleted row of a vec0 table": (
        sql("delete from document_vec_rowids where rowid = 5"),
        {("vec0", "document_vec 5")},
    ),
    "a part of a vec0 table that is cut off": (
        sql("update document_vec_vector_chunks00 set vectors = substr(vectors, 1, 100)"),
        {("vec0", "document_vec chunk 1")},
    ),
    "marks of a vec0 table that are cut off": (
        sql("update hype_vec_chunks set validity = x'ff'"),
        {("vec0", "hype_vec chunk 1")},
    ),
    "a vec0 table that points past its end": (
        sql("update document_vec_rowids set chunk_offset = 100000 where rowid = 7"),
        {("vec0", "document_vec 7")},
    ),
    "a vec0 table that points nowhere": (
        sql("delete from document_vec_chunks"),
        {("vec0", "document_vec 1")},
    ),
    "a hash of a vec0 table that is gone": (
        sql("delete from document_vec_auxiliary where rowid = 7"),
        {("vec0", "document_vec 7")},
    ),
    "bits of another model": (bits_of_another_model, {("vec0", "document_vec 3")}),
    "the lowest bit of a vector": (the_lowest_bit_of_a_vector, {("vector", "document vector 1")}),
    "the lowest bit of a question's vector": (
        the_lowest_bit_of_a_question_s_vector,
        {("vector", "question vector 1")},
    ),
    "a vector that is no number": (
        a_vector_that_is_no_number,
        {("vector", "document vector 2")},
    ),
    "a lost page of vectors": (
        lambda file: wipe(file, pages(file, "document_embedding")[4]),
        {("database", "document_embedding")},
    ),
    "a lost page of an index": (
        an_index_that_lost_a_leaf("document_type_updated"),
        {("database", "document_type_updated")},
    ),
    "a lost page of the index over the paths": (
        an_index_that_lost_a_leaf("sqlite_autoindex_document_1"),
        {("database", "sqlite_autoindex_document_1")},
    ),
    "a lost page of the index over the vectors": (
        an_index_that_lost_a_leaf("sqlite_autoindex_document_embedding_1"),
        {("database", "sqlite_autoindex_document_embedding_1")},
    ),
    "one letter in an index": (one_letter_in_an_index, {("database", "document_content_hash")}),
    "a lost page of the split texts": (
        lambda file: wipe(file, pages(file, "document_segmented")[0]),
        {("database", "document_segmented")},
    ),
    "a lost page of the settings": (
        lambda file: wipe(file, pages(file, "setting")[0]),
        {("database", "setting")},
    ),
    "dropped triggers": (
        sql("drop trigger document_after_insert", "drop trigger question_before_delete"),
        {
            ("structure", "trigger document_after_insert"),
            ("structure", "trigger question_before_delete"),
        },
    ),
    "dropped views": (
        sql("drop view v_pending", "drop view document_segmenting"),
        {("structure", "view v_pending"), ("structure", "view document_segmenting")},
    ),
    "a view that lies": (
        sql("drop view document_words", "create view document_words as select * from document"),
        {("structure", "view document_words")},
    ),
    "a trigger that lies": (
        sql(
            "drop trigger document_after_change",
            "create trigger document_after_change after update on document begin select 1; end",
        ),
        {("structure", "trigger document_after_change")},
    ),
    "a dropped index": (
        sql("drop index document_embedding_reuse"),
        {("structure", "index document_embedding_reuse")},
    ),
    "dropped tables": (
        sql("drop table questioned", "drop table stop_word", "drop table retriever"),
        {
            ("structure", "table questioned"),
            ("structure", "table stop_word"),
            ("structure", "table retriever"),
        },
    ),
    "a dropped full-text index": (
        sql("drop table document_fts"),
        {("structure", "table document_fts")},
    ),
    "deleted settings": (
        sql("delete from setting where name in ('rrf_k', 'keep_days')"),
        {("setting", "rrf_k"), ("setting", "keep_days")},
    ),
    "settings that are no numbers": (
        sql(
            "update setting set value = 'x' where name = 'rrf_k'",
            "update setting set value = null where name = 'coverage'",
            "update setting set value = -1 where name = 'keep_versions'",
            "update setting set value = 99999999 where name = 'keep_days'",
        ),
        {
            ("setting", "rrf_k"),
            ("setting", "coverage"),
            ("setting", "keep_versions"),
            ("setting", "keep_days"),
        },
    ),
    "no model that serves": (
        sql("update setting set value = null where name = 'model'"),
        {("model", "setting model")},
    ),
    "a text that is not split": (sql(UNSEGMENTED), {("words", "部署.md")}),
    "an older text that is split": (
        sql("update document_segmented set body = '古い'"),
        {("words", "部署.md")},
    ),
    "a document that is not in the full-text index": (
        sql("delete from document_fts_docsize where id = 2"),
        {("words", "birds/1.md")},
    ),
    "a document that is gone, but in the full-text index": (
        sql("drop trigger document_before_delete", "delete from document where id = 24"),
        {("words", "document 24"), ("orphan", "vector 49")},
    ),
    "a lost page of the questions' words": (
        lambda file: wipe(file, pages(file, "question_fts_data")[-1]),
        {("words", "question_fts_data")},
    ),
    "a question whose words are not found": (
        sql("delete from question_fts where rowid = 1"),
        {("words", "question 1")},
    ),
    "a question whose words are others": (
        sql("update question_fts set text = 'Who is there?' where rowid = 2"),
        {("words", "question 2")},
    ),
    "words of a question that is gone": (
        sql("insert into question_fts (rowid, text) values (70, 'Who is there?')"),
        {("words", "question 70")},
    ),
    "a segment of the questions' words that is gone": (
        sql("update question_fts_data set block = x'00' where id = 10"),
        {("words", "question_fts")},
    ),
    "a full-text index that is behind the texts": (
        sql(BEHIND),
        {("words", "document_fts"), ("structure", "trigger document_after_update")},
    ),
}


@pytest.mark.parametrize("name", MENDED)
def test_it_is_found_and_mended_without_a_model(name, base, opened, embedder) -> None:
    damage, wanted = MENDED[name]
    damage(base)
    try:
        kept = texts(base)
    except apsw.CorruptError:  # an index that the reading needs
        kept = None
    with opened() as kb:
        report = check(kb)
        assert wanted <= kinds(report), report.findings
        assert not [finding for finding in report.findings if finding.done]
        mended = check(kb, fix=True)
        assert left(mended) == set(), mended.findings
        assert kinds(report) <= kinds(mended)
        assert all(finding.done for finding in mended.findings)
        assert check(kb).findings == ()
        assert embedder.calls == []
        assert kept in (None, texts(base))
        # and it works: words, vectors, a hand edit
        assert kb.search("heron", retrievers=["words"]).hits
        assert kb.search("重跑", retrievers=["words"]).hits[0].path == "部署.md"
        kb.embed()
        assert kb.search("The heron has left").hits[0].path == "birds/3.md"
        assert kb.search("Where does the heron wait?").hits[0].vectors
        kb.put("new.md", "a new 鳥")
        assert kb.search("鳥", retrievers=["words"]).hits[0].path == "new.md"
        assert kb.status().pending == 0
        assert check(kb).findings == ()


@pytest.mark.parametrize("part", ["chunks", "rowids", "vector_chunks00", "auxiliary", "info"])
@pytest.mark.parametrize("kind", ["document", "hype"])
def test_a_vec0_table_without_a_part_is_made_anew_at_opening(
    kind, part, base, opened, embedder
) -> None:
    shell(base, f"drop table {kind}_vec_{part}")
    with kbstore.Store(base, embedder=FakeEmbedder(), hype=None, read_only=True) as kb:
        degraded = kb.search("Where does the heron wait?").degraded
        assert any("vec0 tables are missing" in line for line in degraded)
    with opened() as kb:
        kb.embed()
        assert embedder.calls == []
        assert check(kb).findings == ()
        found = kb.search("Where does the heron wait?")
        assert found.degraded == ()
        assert found.hits[0].vectors


def test_a_lost_page_of_vectors_costs_only_those_on_it(base, opened, embedder) -> None:
    wipe(base, pages(base, "document_embedding")[4])
    with opened() as kb:
        report = check(kb)
        (lost,) = [finding for finding in report.findings if finding.kind == "vector"]
        assert "cannot be read" in lost.finding
        path = lost.finding.split("(of ")[1].rstrip(")")
        check(kb, fix=True)
        assert kb.get(path).pending
        assert kb.embed().documents == 1
        assert embedder.calls
        assert check(kb).findings == ()


def test_what_a_person_has_made_in_the_file_stays_when_it_is_made_anew(base, opened) -> None:
    shell(
        base,
        "create table mine (id integer primary key, text)",
        "insert into mine (text) values ('kept')",
        "create view my_view as select text from mine",
        "create trigger my_trigger after insert on document begin"
        " insert into mine (text) values (new.path); end",
        "create index my_index on mine (text)",
        "delete from stop_word where word = 'the'",
        "update setting set value = 3 where name = 'keep_versions'",
        "insert into document_version (document_id, path, title, tags, description, body, event)"
        " select 3, 'x.md', 't', '[]', '', value, 'update' from json_each('[1,2,3]')",
        "update sqlite_sequence set seq = 1000 where name = 'document'",
    )
    kept = texts(base)
    wipe(base, pages(base, "document_content_hash")[-1])
    with opened() as kb:
        assert left(check(kb, fix=True)) == set()
        assert texts(base) == kept
        assert shell(base, "select text from my_view") == "kept\n"
        kb.put("new.md", "text")
    assert shell(base, "select text from my_view order by 1") == "kept\nnew.md\n"
    assert shell(base, "select count(*) from stop_word where word = 'the'") == "0\n"
    assert shell(base, "select id from document where path = 'new.md'") == "1001\n"


def test_a_file_that_somebody_else_writes_is_not_replaced(base, opened, monkeypatch) -> None:
    wipe(base, pages(base, "document_content_hash")[-1])
    adopt = check_module.schema.adopt

    def write_meanwhile(connection: apsw.Connection) -> apsw.Connection:
        shell(base, "update setting set value = value + 1 where name = 'rrf_k'")
        return adopt(connection)

    with opened() as kb:
        monkeypatch.setattr(check_module.schema, "adopt", write_meanwhile)
        assert ("database", "document_content_hash") in left(check(kb, fix=True))
        monkeypatch.undo()
        written = kb.session.setting("rrf_k")
        assert written > 60
        assert left(check(kb, fix=True)) == set()
        assert kb.session.setting("rrf_k") == written


# Orphans -----------------------------------------------------------------------------------------

HASH = "'" + "0" * 64 + "'"
VECTOR = "(select embedding from document_embedding limit 1)"
ORPHANS = {
    "question 77": (
        "drop trigger question_before_insert;"
        "insert into question (id, document_id, text) values (77, 900, 'Why?');"
    ),
    "vector of question 901": f"insert into question_embedding values (901, {VECTOR}, 'm', null);",
    "vector 78": (
        "insert into document_embedding"
        " (id, document_id, seq, body_start, body_end, embedding, content_hash, model)"
        f" values (78, 900, 0, 0, 9, {VECTOR}, {HASH}, 'm');"
    ),
    "questioned 900": f"insert into questioned values (900, {HASH}, 'm', '2026-12-01');",
    "failure of document 900": (
        "insert into failure (document_id, stage, error) values (900, 'embed', 'e');"
    ),
    "file gone.md": "insert into source_file values ('/notes', 'gone.md', 900, 1, 1, 'x', null);",
    "segmented text 900": "insert into document_segmented values (900, 't', '[]', 'p', '', '鳥');",
}


@pytest.mark.parametrize("what", ORPHANS)
def test_an_orphan_is_found_and_deleted(what, base, opened) -> None:
    shell(base, "pragma foreign_keys = off", ORPHANS[what])
    kept = texts(base)
    with opened() as kb:
        assert ("orphan", what) in kinds(check(kb))
        assert left(check(kb, fix=True)) == set()
        assert check(kb).findings == ()
    if "question 77" not in what:
        assert texts(base) == kept


def test_all_orphans_at_once(base, opened) -> None:
    shell(base, "pragma foreign_keys = off", *ORPHANS.values())
    with opened() as kb:
        assert {("orphan", what) for what in ORPHANS} <= kinds(check(kb))
        assert left(check(kb, fix=True)) == set()
        assert check(kb).findings == ()
        assert kb.connection.execute("pragma foreign_key_check").fetchall() == []


# Texts -------------------------------------------------------------------------------------------


def test_a_flipped_letter_of_a_text_is_named_and_its_vectors_are_pending(base, opened) -> None:
    flip(base, place(base, LINE.format("9x3").encode()) + 4)
    with opened() as kb:
        assert kinds(check(kb)) == {("text", "birds/9.md"), ("words", "document_fts")}
        report = check(kb, fix=True)
        assert left(report) == set()
        (found,) = [finding for finding in report.findings if finding.kind == "text"]
        assert "content hash" in found.finding
        assert "pending" in found.done
        assert "history" in found.done
        assert kb.get("birds/9.md").pending
        assert kb.search("ieron", retrievers=["words"]).hits[0].path == "birds/9.md"
        assert check(kb).findings == ()
        assert kb.embed().documents == 1


def test_so_is_a_text_that_was_changed_by_force(base, opened) -> None:
    shell(
        base,
        "update document set content_hash = replace(content_hash, '0', '1')"
        " where path = 'birds/8.md'",
    )
    with opened() as kb:
        assert kinds(check(kb)) == {("text", "birds/8.md")}
        assert left(check(kb, fix=True)) == set()
        assert kb.get("birds/8.md").pending
        assert check(kb).findings == ()


def test_a_text_that_is_no_text_any_more_is_named_and_left(base, opened) -> None:
    flip(base, place(base, LINE.format("9x3").encode()) + 4, 0x80)
    before = texts_as_blobs(base)
    with opened() as kb:
        assert ("text", "birds/9.md") in kinds(check(kb))
        report = check(kb, fix=True)
        assert left(report) == {("text", "birds/9.md")}
        assert kinds(check(kb)) == {("text", "birds/9.md")}
        assert texts_as_blobs(base) == before
        assert kb.get("birds/10.md").body


def texts_as_blobs(file: Path) -> str:
    return shell(file, "select path, hex(body) from document order by path")


def test_a_page_of_texts_that_is_lost_is_named_and_nothing_is_made_worse(base, opened) -> None:
    wipe(base, pages(base, "document")[2])
    with opened() as kb:
        first = check(kb)
        gone = {what for kind, what in kinds(first) if kind == "text"}
        assert gone
        assert ("database", "document") in kinds(first)
        before = base.read_bytes()
        assert left(check(kb, fix=True)) == kinds(first)
        assert left(check(kb)) == kinds(first)
        rest = {path for number in range(24) if (path := f"birds/{number}.md") not in gone}
        assert kb.get(sorted(rest)[0]).body
        with pytest.raises(DatabaseError, match=r"damaged .*: `kbstore check` tells where"):
            kb.search("heron")  # it would have to say how many are pending
    assert base.read_bytes() == before


def test_so_is_one_of_the_history(base, opened) -> None:
    wipe(base, pages(base, "document_version")[0])
    with opened() as kb:
        assert ("database", "document_version") in left(check(kb, fix=True))
        assert kb.get("birds/1.md").body
        assert kb.search("heron").hits


@pytest.mark.parametrize("share", [0.3, 0.6, 0.97])
def test_a_file_that_was_cut_off_says_so(share, base) -> None:
    os.truncate(base, int(base.stat().st_size * share))
    try:
        with kbstore.Store(base, embedder=None) as kb:
            report = check(kb, fix=True)
    except DatabaseError as error:
        report, said = None, str(error)
    assert "database" in {kind for kind, _ in left(report)} if report else base.name in said


def test_a_damaged_path_stops_nothing(base, opened) -> None:
    for at in (place(base, b"birds/9.md", "document"),
               place(base, b"birds/9.md", "sqlite_autoindex_document_1")):  # fmt: skip
        flip(base, at + 6, 0x80)
    with opened() as kb:
        report = check(kb, fix=True)
        assert any("UTF-8" in finding.finding or "utf-8" in finding.finding
                   for finding in report.findings)  # fmt: skip
        assert left(report)


# The statement, progress, bounds -----------------------------------------------------------------


@pytest.mark.parametrize("damage", [UNSEGMENTED, *ORPHANS.values(), "delete from setting",
                                    "delete from document_fts_docsize",
                                    "update setting set value = 'x'"])  # fmt: skip
def test_the_bare_shell_finds_the_same(damage, base) -> None:
    shell(base, "pragma foreign_keys = off", damage)
    printed = shell(base, ".mode json", f".read '{queries.SQL_FOLDER / 'check.sql'}'")
    theirs = [tuple(row.values()) for row in json.loads(printed)]
    connection = kbstore.connect(base, read_only=True)
    assert theirs == connection.execute(queries.read("check")).fetchall()
    connection.close()
    assert theirs


def test_the_bare_shell_finds_nothing_in_a_sound_file(base) -> None:
    assert shell(base, f".read '{queries.SQL_FOLDER / 'check.sql'}'") == ""


def test_the_statement_knows_every_setting(conn) -> None:
    conn.execute("delete from setting")
    found = conn.execute(queries.read("check")).fetchall()
    fresh = kbstore.connect(":memory:")
    names = fresh.execute("select name from setting order by 1").fetchall()
    missing = [what for kind, what, finding in found if finding == "it is missing"]
    assert missing == [name for (name,) in names]


def test_progress_is_told_document_by_document(opened) -> None:
    seen: list[tuple[int, int]] = []
    with opened() as kb:
        check(kb, progress=lambda done, of: seen.append((done, of)))
        documents = kb.status().documents
    assert seen == [(number, documents) for number in range(1, documents + 1)]


@pytest.fixture
def bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(check_module, "_FIRST", 10_000)


def test_a_large_file_is_read_in_part_and_that_is_told(opened, bounded) -> None:
    with opened() as kb:
        report = check(kb)
        assert not report.complete
        assert 1 < report.documents < kb.status().documents
        assert report.vectors == 0
        report = check(kb, everything=True)
        assert report.complete
        assert report.documents == kb.status().documents
        assert report.vectors == kb.status().passages + 2


def test_a_file_of_just_that_size_was_read_whole(opened, monkeypatch) -> None:
    sizes: list[int] = []
    with opened() as kb:
        monkeypatch.setattr(check_module, "_FIRST", 1 << 40)
        look = check_module._Check(kb, False, None)
        assert look.run().complete
        sizes.append(look._read)
        monkeypatch.setattr(check_module, "_FIRST", sizes[0])
        assert check(kb).complete
        monkeypatch.setattr(check_module, "_FIRST", sizes[0] - 3072)
        assert not check(kb).complete


# The command line --------------------------------------------------------------------------------


def test_the_command_tells_what_it_has_looked_at(base, run) -> None:
    result = run("check")
    assert result.exit_code == 0
    assert result.stdout == "24 documents and 26 vectors looked at, 0 findings\n" or (
        "0 findings" in result.stdout
    )
    assert result.stderr == ""


def test_it_ends_with_1_where_something_is_damaged_and_with_0_once_it_is_mended(base, run) -> None:
    shell(base, "drop view v_topic", "delete from setting where name = 'rrf_k'")
    result = run("check")
    assert result.exit_code == 1
    assert "structure  view v_topic: it is missing" in result.stdout
    assert "2 findings are left" in result.stderr
    assert "check --fix" in result.stderr
    result = run("check", "--fix")
    assert result.exit_code == 0
    assert "structure  view v_topic: it is missing -> made anew" in result.stdout
    assert "setting    rrf_k: it is missing -> set to what a new file has" in result.stdout
    assert run("check").exit_code == 0


def test_it_names_the_ways_out_where_something_is_left(base, run) -> None:
    flip(base, place(base, LINE.format("9x3").encode()) + 4, 0x80)
    result = run("check", "--fix")
    assert result.exit_code == 1
    assert "birds/9.md" in result.stdout
    assert "kbstore restore FILE" in result.stderr
    assert "kbstore restore PATH@VERSION" in result.stderr


def test_as_json(base, run) -> None:
    shell(base, "drop view v_topic")
    result = run("check", "--json")
    assert result.exit_code == 1
    found = json.loads(result.stdout)
    assert found["findings"] == [
        {"kind": "structure", "what": "view v_topic", "finding": "it is missing", "done": ""}
    ]
    assert found["complete"] is True
    found = json.loads(run("check", "--fix", "--json").stdout)
    assert found["findings"][0]["done"] == "made anew"
    assert json.loads(run("check", "--json").stdout)["findings"] == []


def test_that_only_a_part_was_read_is_a_note(base, run, bounded) -> None:
    result = run("check")
    assert result.exit_code == 0
    assert "--all" in result.stderr
    assert run("check", "--all").stderr == ""


def test_a_file_that_cannot_be_opened_names_the_way_out(base, run) -> None:
    wipe(base, 100)  # the page that holds the schema
    result = run("check")
    assert result.exit_code == 1
    assert "kbstore restore FILE" in result.stderr
    base.write_bytes(bytes(8192))
    result = run("check")
    assert result.exit_code == 1
    assert "kbstore restore FILE" in result.stderr


def test_no_base_is_no_such_file(run) -> None:
    assert run("check").exit_code == 3
