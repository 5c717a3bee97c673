"""A folder of markdown and its documents are kept equal: new, edited, moved and deleted files."""

from __future__ import annotations

import itertools
import os
import time
import unicodedata
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path

import pytest
from conftest import NOW, FakeEmbedder

import kbstore
from kbstore import folder as folder_module
from kbstore import frontmatter, mirror
from kbstore.errors import MassDeletionError, ModelUnavailableError, NotFoundError
from kbstore.mirror import sync

_seconds = itertools.count(1_767_225_600)  # 2026-01-01


def write(place: Path, text: str | bytes, at: str | None = None) -> Path:
    """Write a file, a second later than the one before, or ``at`` that moment."""
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_bytes(text.encode() if isinstance(text, str) else text)
    touch(place, at)
    return place


def touch(place: Path, at: str | None = None) -> None:
    seconds = int(datetime.fromisoformat(at).timestamp()) if at else next(_seconds)
    os.utime(place, (seconds, seconds))


def documents(kb: kbstore.Store) -> dict[str, str]:
    """path -> text"""
    return {d.path: kb.get(d.path).body for d in kb.list()}


def problems(report: kbstore.SyncReport) -> dict[str, str]:
    assert len({p.path for p in report.problems}) == len(report.problems)
    return {p.path: p.message for p in report.problems}


def found(kb: kbstore.Store, query: str, limit: int = 10) -> list[str]:
    """What a search by words finds, best first."""
    result = kb.search(query, now=NOW, limit=limit, retrievers=["frontmatter", "words"])
    return [hit.path for hit in result.hits]


def changes(report: kbstore.SyncReport) -> dict[str, tuple[object, ...]]:
    """The changes that a report tells of, without the empty ones."""
    all_of_them = {
        "created": report.created,
        "updated": report.updated,
        "moved": report.moved,
        "deleted": report.deleted,
    }
    return {name: paths for name, paths in all_of_them.items() if paths}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with four notes that no test changes; it is not yet mirrored."""
    folder = tmp_path / "notes"
    for name in ("one", "two", "three", "four"):
        write(folder / f"filler/{name}.md", f"# Filler {name}\n\nThis is {name}.\n")
    return folder


FILLERS = ("filler/four.md", "filler/one.md", "filler/three.md", "filler/two.md")


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the files whose content is read from now on."""
    names: list[str] = []
    real = Path.read_bytes

    def reading(self: Path) -> bytes:
        names.append(self.name)
        return real(self)

    monkeypatch.setattr(Path, "read_bytes", reading)
    return names


@pytest.fixture(params=["UTC", "Asia/Tokyo", "America/New_York"])
def time_zone(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The machine's time zone, one after another."""
    with monkeypatch.context() as patch:
        patch.setenv("TZ", request.param)
        time.tzset()
        yield request.param
    time.tzset()


def refuse(monkeypatch: pytest.MonkeyPatch, place: Path) -> None:
    """Reading this file or folder is denied; file permissions would not stop root."""
    real_open, real_read, real_scan = Path.open, Path.read_bytes, os.scandir

    def denied(wanted: object) -> None:
        if os.fspath(wanted) == str(place):
            raise PermissionError(13, "Permission denied", str(place))

    def opening(self: Path, *args: object, **options: object) -> object:
        denied(self)
        return real_open(self, *args, **options)

    def reading(self: Path) -> bytes:
        denied(self)
        return real_read(self)

    def scanning(path: str = ".") -> object:
        denied(path)
        return real_scan(path)

    monkeypatch.setattr(Path, "open", opening)
    monkeypatch.setattr(Path, "read_bytes", reading)
    monkeypatch.setattr(os, "scandir", scanning)


# The first reading


def test_a_file_becomes_a_document_with_what_its_header_says(
    kb: kbstore.Store, tmp_path: Path
) -> None:
    header = (
        "# hand-made\ntitle: 'Retry: policy'\ntags: [http, 007]\ncreated: 2026-01-02\n"
        "updated: 2026-02-03T10:00:00+09:00\ndescription: How we retry.\nowner: ada\n"
    )
    write(tmp_path / "n/domains/retries.md", f"---\n{header}---\n\nThree times.\n")
    report = sync(kb, tmp_path / "n")
    assert changes(report) == {"created": ("domains/retries.md",)}
    assert (report.root, report.read, report.unchanged) == (str(tmp_path / "n"), 1, 0)
    assert report.problems == ()
    document = kb.get("domains/retries.md")
    assert (document.title, document.tags) == ("Retry: policy", ("http", "007"))
    assert (document.created, document.updated) == ("2026-01-02", "2026-02-03T01:00:00Z")
    assert (document.description, document.frontmatter) == ("How we retry.", header)
    assert (document.body, document.pending) == ("\nThree times.\n", False)
    assert found(kb, "three times") == ["domains/retries.md"]


@pytest.mark.parametrize(
    ("content", "title", "body"),
    [
        pytest.param(b"\xef\xbb\xbf---\ntitle: A\n---\nzebra\n", "A", "zebra\n", id="BOM"),
        pytest.param(b"---\r\ntitle: A\r\n---\r\nzebra\r\n", "A", "zebra\r\n", id="CRLF"),
        pytest.param(b"---\ntitle: zebra\n---", "zebra", "", id="fence at the end of the file"),
        pytest.param(b"---\ntitle: zebra\n---\n", "zebra", "", id="only a header"),
        pytest.param(b"zebra\n", "x", "zebra\n", id="no header"),
        pytest.param(b"# Zebra\n", "Zebra", "# Zebra\n", id="a heading"),
        pytest.param(b"---\n\nzebra\n\n---\n", "x", "---\n\nzebra\n\n---\n", id="rules"),
        pytest.param("---\ntitle: zebra été\n---\né\n".encode(), "zebra été", "é\n", id="UTF-8"),
    ],
)
def test_a_file_in_any_usual_form_is_read_and_found(
    kb: kbstore.Store, tmp_path: Path, content: bytes, title: str, body: str
) -> None:
    write(tmp_path / "n/x.md", content)
    assert sync(kb, tmp_path / "n").problems == ()
    assert (kb.get("x.md").title, kb.get("x.md").body) == (title, body)
    assert found(kb, "zebra") == ["x.md"]


def test_an_empty_file_is_a_document_without_text(kb: kbstore.Store, tmp_path: Path) -> None:
    write(tmp_path / "n/empty-note.md", "")
    report = sync(kb, tmp_path / "n")
    assert (changes(report), report.problems) == ({"created": ("empty-note.md",)}, ())
    assert documents(kb) == {"empty-note.md": ""}
    assert found(kb, "empty-note") == ["empty-note.md"]


def test_a_workspace_gives_its_knowledge_and_its_skills(kb: kbstore.Store, tmp_path: Path) -> None:
    workspace = {
        "knowledge/domains/http.md": "domains/http.md",
        "knowledge/journal/2026-11-01.md": "journal/2026-11-01.md",
        "knowledge/top.md": "top.md",
        "knowledge/domains/deep/README.md": "domains/deep/README.md",
        "knowledge/domains/AGENTS.md": "domains/AGENTS.md",
        "knowledge/README.md": None,
        "knowledge/domains/README.md": None,
        "knowledge/.obsidian/x.md": None,
        "knowledge/domains/picture.png": None,
        "skills/swarm/SKILL.md": "skills/swarm/SKILL.md",
        "skills/group/nested/SKILL.md": "skills/group/nested/SKILL.md",
        "skills/swarm/reference.md": None,
        "skills/swarm/README.md": None,
        "SOUL.md": None,
        "AGENTS.md": None,
        "USER.md": None,
        "IDENTITY.md": None,
        "README.md": None,
        "loose.md": None,
        "memory/other.md": None,
    }
    for name in workspace:
        write(tmp_path / "w" / name, f"text of {name}\n")
    report = sync(kb, tmp_path / "w")
    expected = {path: f"text of {name}\n" for name, path in workspace.items() if path}
    assert documents(kb) == expected
    assert report.created == tuple(sorted(expected))
    assert report.problems == ()
    types = {d.path: (d.type, d.topic, d.title) for d in kb.list()}
    assert types["skills/swarm/SKILL.md"] == ("skill", "skills", "swarm")
    assert types["journal/2026-11-01.md"] == ("journal", "journal", "2026-11-01")
    assert types["domains/http.md"] == ("kb", "domains", "http")


def test_a_folder_of_skills_alone_is_no_workspace(kb: kbstore.Store, tmp_path: Path) -> None:
    write(tmp_path / "w/loose.md", "loose\n")
    write(tmp_path / "w/skills/x/SKILL.md", "a skill\n")
    write(tmp_path / "w/skills/x/reference.md", "a reference\n")
    sync(kb, tmp_path / "w")
    assert {d.path: d.type for d in kb.list()} == {
        "loose.md": "kb",
        "skills/x/SKILL.md": "skill",
        "skills/x/reference.md": "kb",
    }


def test_any_other_folder_gives_its_markdown_files(kb: kbstore.Store, tmp_path: Path) -> None:
    files = {
        "a.md": True,
        "b.markdown": True,
        "C.MD": True,
        "sub/dir/d.md": True,
        "sub/dir/README.md": True,
        "sub/SOUL.md": True,
        "with space.md": True,
        "README.md": False,
        "sub/readme.md": False,
        "SOUL.md": False,
        "USER.md": False,
        ".hidden.md": False,
        ".git/x.md": False,
        "sub/.trash/x.md": False,
        "notes.txt": False,
        "md": False,
        "page.mdx": False,
        "a.md.bak": False,
    }
    for name in files:
        write(tmp_path / "n" / name, f"text of {name}\n")
    report = sync(kb, tmp_path / "n")
    expected = {name: f"text of {name}\n" for name, wanted in files.items() if wanted}
    assert documents(kb) == expected
    assert report.problems == ()


def test_a_folder_that_is_not_there_is_not_found(kb: kbstore.Store, tmp_path: Path) -> None:
    with pytest.raises(NotFoundError, match=r"there is no folder .*nowhere"):
        sync(kb, tmp_path / "nowhere")
    with pytest.raises(NotFoundError):
        sync(kb, write(tmp_path / "a-file.md", "text"))
    assert kb.list() == []


def test_a_folder_is_the_same_by_whatever_way_it_is_reached(
    kb: kbstore.Store, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sync(kb, folder)
    (folder.parent / "link").symlink_to(folder)
    monkeypatch.chdir(folder.parent)
    monkeypatch.setenv("HOME", str(folder.parent))
    for way in ("notes", "notes/filler/..", "link", "~/notes", f"{folder}/"):
        report = sync(kb, way)
        assert (changes(report), report.read, report.unchanged) == ({}, 0, 4)


def test_vectors_can_be_left_for_later(
    kb: kbstore.Store, embedder: FakeEmbedder, folder: Path
) -> None:
    report = sync(kb, folder, embed=False)
    assert (report.embedded, embedder.calls) == (None, [])
    assert [d.pending for d in kb.list()] == [True] * 4
    assert found(kb, "filler three")[0] == "filler/three.md"
    told: list[tuple[int, int]] = []
    report = sync(kb, folder, progress=lambda done, of: told.append((done, of)))
    assert report.embedded is not None
    assert (report.embedded.documents, report.embedded.pending) == (4, 0)
    assert (report.read, told[-1]) == (0, (4, 4))


def test_a_model_that_fails_stops_no_file(
    kb: kbstore.Store, embedder: FakeEmbedder, folder: Path
) -> None:
    embedder.fail = ModelUnavailableError("no model today")
    report = sync(kb, folder)
    assert report.created == FILLERS
    assert report.embedded is not None
    assert (report.embedded.pending, report.embedded.error) == (4, "no model today")
    embedder.fail = None
    report = sync(kb, folder)
    assert report.embedded is not None
    assert (report.read, report.embedded.documents, report.embedded.pending) == (0, 4, 0)


# What has not changed is left alone


def test_an_unchanged_file_is_not_even_read(
    kb: kbstore.Store, embedder: FakeEmbedder, folder: Path, reads: list[str]
) -> None:
    sync(kb, folder)
    assert sorted(reads) == ["four.md", "one.md", "three.md", "two.md"]
    reads.clear()
    embedder.calls.clear()
    report = sync(kb, folder)
    assert (reads, embedder.calls) == ([], [])
    assert (changes(report), report.read, report.unchanged) == ({}, 0, 4)
    write(folder / "filler/two.md", "# Filler two\n\nIt has changed.\n")
    report = sync(kb, folder)
    assert reads == ["two.md"]
    assert (report.updated, report.read, report.unchanged) == (("filler/two.md",), 1, 3)


def test_a_file_that_was_only_touched_changes_nothing(
    kb: kbstore.Store, embedder: FakeEmbedder, folder: Path, reads: list[str]
) -> None:
    sync(kb, folder)
    before = kb.get("filler/one.md")
    embedder.calls.clear()
    touch(folder / "filler/one.md")
    report = sync(kb, folder)
    assert (changes(report), report.read, report.unchanged) == ({}, 1, 4)
    assert (kb.get("filler/one.md"), kb.status().versions, embedder.calls) == (before, 0, [])
    reads.clear()
    assert sync(kb, folder).read == 0
    assert reads == []


def test_a_file_written_anew_with_the_same_text_changes_nothing(
    kb: kbstore.Store, embedder: FakeEmbedder, folder: Path
) -> None:
    sync(kb, folder)
    embedder.calls.clear()
    content = (folder / "filler/one.md").read_bytes()
    (folder / "filler/one.md").unlink()
    write(folder / "filler/one.md", content)
    assert changes(sync(kb, folder)) == {}
    assert (kb.status().versions, embedder.calls) == (0, [])


def test_a_new_date_in_the_header_needs_no_model(
    kb: kbstore.Store, embedder: FakeEmbedder, folder: Path
) -> None:
    write(folder / "a.md", "---\ntitle: A\nupdated: 2026-01-01\n---\ntext\n")
    sync(kb, folder)
    embedder.calls.clear()
    write(folder / "a.md", "---\ntitle: A\nupdated: 2026-02-01\n---\ntext\n")
    assert changes(sync(kb, folder)) == {"updated": ("a.md",)}
    assert (kb.get("a.md").updated, kb.get("a.md").pending) == ("2026-02-01", False)
    assert embedder.calls == []


# Edits


def test_an_edited_file_changes_its_document(
    kb: kbstore.Store, embedder: FakeEmbedder, folder: Path
) -> None:
    write(folder / "a.md", "---\ntitle: Old\ntags: [x]\n---\nabout aardvarks\n")
    sync(kb, folder)
    before = kb.get("a.md")
    embedder.calls.clear()
    write(folder / "a.md", "---\ntitle: New\ntags: [y]\n---\nabout zebras\n")
    assert changes(sync(kb, folder)) == {"updated": ("a.md",)}
    after = kb.get("a.md")
    assert (after.id, after.title, after.tags) == (before.id, "New", ("y",))
    assert (after.body, after.pending) == ("about zebras\n", False)
    assert embedder.calls == [("search_document", "New. Tags: y. about zebras\n")]
    assert found(kb, "zebras") == ["a.md"]
    assert found(kb, "aardvarks") == []
    (row,) = kb.connection.execute("select title, body from document_version").fetchall()
    assert row == ("Old", "about aardvarks\n")


def test_what_a_header_no_longer_says_is_no_longer_so(kb: kbstore.Store, folder: Path) -> None:
    write(
        folder / "a.md", "---\ntitle: T\ntags: [x]\ndescription: d\ncreated: 2026-01-01\n---\nb\n"
    )
    sync(kb, folder)
    write(folder / "a.md", "b\n", at="2026-03-04T05:06:07Z")
    sync(kb, folder)
    document = kb.get("a.md")
    assert (document.title, document.tags, document.description) == ("a", (), "")
    assert (document.frontmatter, document.body) == (None, "b\n")
    assert document.updated == "2026-03-04T05:06:07Z"
    assert document.created is None


@pytest.mark.parametrize("content", ["", "\n \n", "---\ntitle: A\n---\n", "\ufeff"])
def test_a_file_that_was_emptied_keeps_its_stored_text(
    kb: kbstore.Store, folder: Path, content: str
) -> None:
    write(folder / "a.md", "precious\n")
    sync(kb, folder)
    write(folder / "a.md", content)
    for _ in range(2):  # it is told for as long as it is so
        report = sync(kb, folder)
        assert list(problems(report)) == ["a.md"]
        assert "empty" in problems(report)["a.md"]
        assert changes(report) == {}
        assert kb.get("a.md").body == "precious\n"
    write(folder / "a.md", "new text\n")
    assert sync(kb, folder).problems == ()
    assert kb.get("a.md").body == "new text\n"


def test_an_empty_new_file_does_not_wipe_out_a_stored_text(kb: kbstore.Store, folder: Path) -> None:
    kb.put("a.md", "precious")
    write(folder / "a.md", "")
    assert list(problems(sync(kb, folder))) == ["a.md"]
    assert kb.get("a.md").body == "precious"


def test_a_file_takes_over_a_stored_document_of_its_path(kb: kbstore.Store, folder: Path) -> None:
    kb.put("a.md", "stored by hand", updated="2020-01-01")
    write(folder / "a.md", "from the file\n")
    assert changes(sync(kb, folder)) == {"created": FILLERS, "updated": ("a.md",)}
    assert kb.get("a.md").body == "from the file\n"
    (row,) = kb.connection.execute("select body from document_version").fetchall()
    assert row == ("stored by hand",)


# Files that go, and files that move


def test_a_deleted_file_takes_its_document_along(kb: kbstore.Store, folder: Path) -> None:
    sync(kb, folder)
    (folder / "filler/one.md").unlink()
    report = sync(kb, folder)
    assert (changes(report), report.unchanged) == ({"deleted": ("filler/one.md",)}, 3)
    assert "filler/one.md" not in documents(kb)
    assert "filler/one.md" not in found(kb, "filler one")
    (row,) = kb.connection.execute("select event, body from document_version").fetchall()
    assert row == ("delete", "# Filler one\n\nThis is one.\n")
    assert changes(sync(kb, folder)) == {}


def test_a_file_that_comes_back_is_a_new_document(kb: kbstore.Store, folder: Path) -> None:
    sync(kb, folder)
    before = kb.get("filler/one.md").id
    content = (folder / "filler/one.md").read_bytes()
    (folder / "filler/one.md").unlink()
    sync(kb, folder)
    write(folder / "filler/one.md", content)
    assert changes(sync(kb, folder)) == {"created": ("filler/one.md",)}
    assert kb.get("filler/one.md").id > before


def test_the_file_of_a_document_that_was_deleted_goes_too(kb: kbstore.Store, folder: Path) -> None:
    sync(kb, folder)
    kb.connection.execute("delete from document where path = 'filler/one.md'")
    assert sync(kb, folder).removed == ("filler/one.md",)
    assert not (folder / "filler/one.md").exists()
    assert changes(sync(kb, folder)) == {}


def test_a_file_edited_after_its_document_was_deleted_stays(
    kb: kbstore.Store, folder: Path
) -> None:
    sync(kb, folder)
    kb.delete("filler/one.md")
    write(folder / "filler/one.md", "still needed\n")
    report = sync(kb, folder)
    assert (report.created, report.removed) == (("filler/one.md",), ())
    assert "edited here since" in report.conflicts[0].message
    assert kb.get("filler/one.md").body == "still needed\n"


def test_files_that_are_no_documents_of_the_folder_are_left_alone(
    kb: kbstore.Store, folder: Path
) -> None:
    kb.put("mine.md", "not from any file")
    sync(kb, folder)
    (folder / "filler/one.md").unlink()
    sync(kb, folder)
    assert documents(kb)["mine.md"] == "not from any file"


@pytest.mark.parametrize("new", ["b.md", "deep/er/a.md", "日本.md"])
def test_a_renamed_file_keeps_its_document_and_needs_no_model(
    kb: kbstore.Store, embedder: FakeEmbedder, folder: Path, new: str
) -> None:
    write(folder / "a.md", "# About zebras\n\nThey have stripes.\n")
    sync(kb, folder)
    before = kb.get("a.md")
    kb.connection.execute(
        "insert into question (document_id, text) values (?, 'What has stripes?')", (before.id,)
    )
    kb.embed()
    embedder.calls.clear()
    (folder / new).parent.mkdir(parents=True, exist_ok=True)
    (folder / "a.md").rename(folder / new)
    report = sync(kb, folder)
    assert (changes(report), report.problems) == ({"moved": (("a.md", new),)}, ())
    after = kb.get(new)
    assert (after.id, after.content_hash, after.pending) == (before.id, before.content_hash, False)
    assert (after.body, after.updated) == (before.body, before.updated)
    assert embedder.calls == []
    assert kb.connection.execute("select count(*) from question_embedding").get == 1
    assert found(kb, "zebras") == [new]
    with pytest.raises(NotFoundError):
        kb.get("a.md")
    report = sync(kb, folder)
    assert (changes(report), report.read) == ({}, 0)


def test_a_renamed_folder_moves_its_documents(
    kb: kbstore.Store, embedder: FakeEmbedder, folder: Path
) -> None:
    sync(kb, folder)
    embedder.calls.clear()
    (folder / "filler").rename(folder / "renamed")
    report = sync(kb, folder)
    assert changes(report) == {
        "moved": tuple((path, path.replace("filler", "renamed")) for path in FILLERS)
    }
    assert embedder.calls == []


def test_a_copied_file_is_another_document_and_needs_no_model(
    kb: kbstore.Store, embedder: FakeEmbedder, folder: Path
) -> None:
    sync(kb, folder)
    embedder.calls.clear()
    write(folder / "copy.md", (folder / "filler/one.md").read_bytes())
    report = sync(kb, folder)
    assert changes(report) == {"created": ("copy.md",)}
    assert report.embedded is not None
    assert (report.embedded.reused, embedder.calls) == (1, [])
    assert kb.get("copy.md").id != kb.get("filler/one.md").id
    assert not kb.get("copy.md").pending


def test_one_of_two_equal_files_moves_alone(kb: kbstore.Store, folder: Path) -> None:
    write(folder / "a.md", "# Same\n")
    write(folder / "b.md", "# Same\n")
    sync(kb, folder)
    ids = {name: kb.get(name).id for name in ("a.md", "b.md")}
    (folder / "a.md").rename(folder / "c.md")
    assert changes(sync(kb, folder)) == {"moved": (("a.md", "c.md"),)}
    assert {name: kb.get(name).id for name in ("c.md", "b.md")} == {
        "c.md": ids["a.md"],
        "b.md": ids["b.md"],
    }


def test_a_file_renamed_and_edited_is_a_new_document(
    kb: kbstore.Store, embedder: FakeEmbedder, folder: Path
) -> None:
    write(folder / "a.md", "# A\n\nold words\n")
    sync(kb, folder)
    embedder.calls.clear()
    (folder / "a.md").rename(folder / "b.md")
    write(folder / "b.md", "# A\n\nnew words\n")
    assert changes(sync(kb, folder)) == {"created": ("b.md",), "deleted": ("a.md",)}
    assert documents(kb)["b.md"] == "# A\n\nnew words\n"
    assert found(kb, "old") == []
    assert [text for _, text in embedder.calls] == ["A. # A\n\nnew words\n"]


def test_two_files_that_swap_names_are_told_apart(
    kb: kbstore.Store, embedder: FakeEmbedder, folder: Path
) -> None:
    write(folder / "a.md", "# Aardvarks\n\nThey dig.\n")
    write(folder / "b.md", "# Zebras\n\nThey have stripes.\n")
    sync(kb, folder)
    embedder.calls.clear()
    (folder / "a.md").rename(folder / "t")
    (folder / "b.md").rename(folder / "a.md")
    (folder / "t").rename(folder / "b.md")
    report = sync(kb, folder)
    assert report.problems == ()
    assert not report.created
    assert not report.deleted
    assert (kb.get("a.md").title, kb.get("b.md").title) == ("Zebras", "Aardvarks")
    assert found(kb, "dig") == ["b.md"]
    assert found(kb, "stripes") == ["a.md"]
    assert not kb.get("a.md").pending
    assert not kb.get("b.md").pending
    assert embedder.calls == []  # nothing that is embedded is new


def test_names_that_move_on_by_one_need_no_model(
    kb: kbstore.Store, embedder: FakeEmbedder, folder: Path
) -> None:
    for n in (1, 2, 3):
        write(folder / f"{n}.md", f"# Chapter about {'abc'[n - 1] * 3}\n")
    sync(kb, folder)
    embedder.calls.clear()
    for n in (3, 2, 1):
        (folder / f"{n}.md").rename(folder / f"{n + 1}.md")
    sync(kb, folder)
    texts = {path: body for path, body in documents(kb).items() if "/" not in path}
    assert texts == {
        "2.md": "# Chapter about aaa\n",
        "3.md": "# Chapter about bbb\n",
        "4.md": "# Chapter about ccc\n",
    }
    assert not any(d.pending for d in kb.list())
    assert embedder.calls == []  # nothing that is embedded is new


def test_a_file_renamed_to_the_path_of_a_stored_document_stops_nothing(
    kb: kbstore.Store, folder: Path
) -> None:
    write(folder / "a.md", "text of the file\n")
    sync(kb, folder)
    kb.put("b.md", "stored by hand", updated="2020-01-01")
    (folder / "a.md").rename(folder / "b.md")
    write(folder / "z.md", "another file\n")
    sync(kb, folder)
    texts = {path: body for path, body in documents(kb).items() if "/" not in path}
    assert texts == {"b.md": "text of the file\n", "z.md": "another file\n"}


# More than half is gone


@pytest.mark.parametrize(
    ("files", "gone", "refused"),
    [
        (1, 1, False),
        (2, 1, False),
        (2, 2, True),
        (3, 2, True),
        (4, 2, False),
        (4, 3, True),
        (5, 5, True),
    ],
)
def test_when_more_than_half_of_the_files_are_gone_nothing_is_deleted(
    kb: kbstore.Store, tmp_path: Path, files: int, gone: int, refused: bool
) -> None:
    root = tmp_path / "n"
    for n in range(files):
        write(root / f"{n}.md", f"text {n}\n")
    sync(kb, root)
    before = documents(kb)
    for n in range(gone):
        (root / f"{n}.md").unlink()
    if refused:
        with pytest.raises(MassDeletionError) as caught:
            sync(kb, root)
        assert f"{gone} of {files}" in str(caught.value)
        assert str(root) in str(caught.value)
        assert "--force" in str(caught.value)
        assert documents(kb) == before
    report = sync(kb, root, force=True)
    assert report.deleted == tuple(f"{n}.md" for n in range(gone))
    assert len(kb.list()) == files - gone


def test_files_that_come_back_after_a_refusal_are_as_before(
    kb: kbstore.Store, embedder: FakeEmbedder, folder: Path
) -> None:
    sync(kb, folder)
    before = {d.path: kb.get(d.path) for d in kb.list()}
    embedder.calls.clear()
    (folder / "filler").rename(folder.parent / "away")
    with pytest.raises(MassDeletionError):
        sync(kb, folder)
    (folder.parent / "away").rename(folder / "filler")
    assert changes(sync(kb, folder)) == {}
    assert {d.path: kb.get(d.path) for d in kb.list()} == before
    assert embedder.calls == []


def test_when_the_folder_itself_is_gone_nothing_is_deleted(kb: kbstore.Store, folder: Path) -> None:
    sync(kb, folder)
    folder.rename(folder.parent / "away")
    with pytest.raises(MassDeletionError, match="is gone, with 4 mirrored files"):
        sync(kb, folder)
    assert tuple(documents(kb)) == FILLERS
    assert sync(kb, folder, force=True).deleted == FILLERS
    assert kb.list() == []


# Several folders, several files


def test_two_folders_in_one_database_know_nothing_of_each_other(
    kb: kbstore.Store, folder: Path, tmp_path: Path
) -> None:
    write(tmp_path / "other/b.md", "of the other folder\n")
    sync(kb, folder)
    assert changes(sync(kb, tmp_path / "other")) == {"created": ("b.md",)}
    (folder / "filler/one.md").unlink()
    assert changes(sync(kb, tmp_path / "other")) == {}
    assert changes(sync(kb, folder)) == {"deleted": ("filler/one.md",)}
    assert documents(kb)["b.md"] == "of the other folder\n"


def test_a_document_has_one_file_even_if_two_folders_have_its_path(
    kb: kbstore.Store, tmp_path: Path
) -> None:
    first = write(tmp_path / "first/a.md", "of the first\n")
    write(tmp_path / "second/a.md", "of the second\n")
    write(tmp_path / "second/b.md", "another\n")
    sync(kb, tmp_path / "first")
    for _ in range(2):
        report = sync(kb, tmp_path / "second")
        assert list(problems(report)) == ["a.md"]
        assert str(first) in problems(report)["a.md"]
        assert documents(kb) == {"a.md": "of the first\n", "b.md": "another\n"}
    assert changes(sync(kb, tmp_path / "first")) == {}
    first.unlink()
    sync(kb, tmp_path / "first", force=True)
    assert changes(sync(kb, tmp_path / "second")) == {"created": ("a.md",)}
    assert documents(kb)["a.md"] == "of the second\n"


def test_two_files_of_a_workspace_cannot_be_one_document(kb: kbstore.Store, tmp_path: Path) -> None:
    write(tmp_path / "w/knowledge/skills/x/SKILL.md", "in knowledge\n")
    write(tmp_path / "w/skills/x/SKILL.md", "in skills\n")
    for _ in range(2):
        report = sync(kb, tmp_path / "w")
        assert list(problems(report)) == ["skills/x/SKILL.md"]
        assert "skills/x/SKILL.md already" in problems(report)["skills/x/SKILL.md"]
        assert documents(kb) == {"skills/x/SKILL.md": "in knowledge\n"}


NFC, NFD = (unicodedata.normalize(form, "café.md") for form in ("NFC", "NFD"))


def test_a_decomposed_file_name_is_one_document_with_a_composed_path(
    kb: kbstore.Store, folder: Path
) -> None:
    write(folder / NFD, "first text\n")
    assert NFC in sync(kb, folder).created
    write(folder / NFD, "second text\n")
    assert changes(sync(kb, folder)) == {"updated": (NFC,)}
    assert changes(sync(kb, folder)) == {}
    assert [path for path in documents(kb) if "/" not in path] == [NFC]
    assert kb.get(NFC).body == "second text\n"


@pytest.mark.parametrize("text", ["first text\n", "second text\n"], ids=["as it was", "edited"])
def test_a_file_name_may_change_its_form(kb: kbstore.Store, folder: Path, text: str) -> None:
    """As when a folder goes from one system to another."""
    write(folder / NFD, "first text\n")
    sync(kb, folder)
    before = kb.get(NFC)
    (folder / NFD).unlink()
    write(folder / NFC, text)
    report = sync(kb, folder)
    assert (report.problems, report.deleted) == ((), ())
    assert (kb.get(NFC).id, kb.get(NFC).body) == (before.id, text)
    assert changes(sync(kb, folder)) == {}


def test_two_names_of_one_spelling_never_lose_the_stored_text(
    kb: kbstore.Store, folder: Path
) -> None:
    write(folder / NFC, "composed\n")
    sync(kb, folder)
    write(folder / NFD, "decomposed\n")
    if len(list(folder.glob("caf*"))) == 2:  # some file systems hold them for one
        for _ in range(2):
            assert sync(kb, folder).problems
            assert kb.get(NFC).body == "composed\n"


# Links


def test_links_are_followed_to_files_inside_the_folder_only(
    kb: kbstore.Store, folder: Path, tmp_path: Path
) -> None:
    secret = write(tmp_path / "outside/secret.md", "not for the agent\n")
    (folder / "inside.md").symlink_to(folder / "filler/one.md")
    (folder / "relative.md").symlink_to("filler/two.md")
    (folder / "outside.md").symlink_to(secret)
    (folder / "up.md").symlink_to("../outside/secret.md")
    (folder / "dangling.md").symlink_to(folder / "nothing.md")
    (folder / "itself.md").symlink_to(folder / "itself.md")
    (folder / "linked-folder").symlink_to(secret.parent)
    for _ in range(2):
        report = sync(kb, folder)
        assert problems(report) == {
            "outside.md": "it is a link to a file outside the folder; left out",
            "up.md": "it is a link to a file outside the folder; left out",
            "dangling.md": "it is a link to a file that is not there",
            "itself.md": "it is a link to a file that is not there",
        }
        assert documents(kb) == {
            **{path: (folder / path).read_text() for path in FILLERS},
            "inside.md": "# Filler one\n\nThis is one.\n",
            "relative.md": "# Filler two\n\nThis is two.\n",
        }
    assert found(kb, "agent") == []


def test_a_folder_beside_with_a_longer_name_is_outside(
    kb: kbstore.Store, folder: Path, tmp_path: Path
) -> None:
    secret = write(tmp_path / "notes-private/secret.md", "not for the agent\n")
    (folder / "x.md").symlink_to(secret)
    assert list(problems(sync(kb, folder))) == ["x.md"]
    assert tuple(documents(kb)) == FILLERS


def test_a_file_that_became_a_bad_link_keeps_its_stored_text(
    kb: kbstore.Store, folder: Path
) -> None:
    sync(kb, folder)
    (folder / "filler/one.md").unlink()
    (folder / "filler/one.md").symlink_to(folder / "nothing.md")
    report = sync(kb, folder)
    assert (list(problems(report)), changes(report)) == (["filler/one.md"], {})
    assert tuple(documents(kb)) == FILLERS


# Bad files


def test_bad_files_are_named_with_the_reason_and_stop_no_other(
    kb: kbstore.Store, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(folder_module, "MAX_FILE", 1_000)
    write(folder / "a-latin.md", "caf\xe9\n".encode("latin-1"))
    write(folder / "b-nul.md", b"a\0b\n")
    write(folder / "c-huge.md", "x" * 1_001)
    write(folder / "d-denied.md", "text\n")
    (folder / "e-folder.md").mkdir()
    os.mkfifo(folder / "f-pipe.md")
    write(folder / "g\\backslash.md", "text\n")
    write(folder / "h-utf16.md", "text\n".encode("utf-16"))
    write(folder / "z-last.md", "text\n")
    refuse(monkeypatch, folder / "d-denied.md")
    for _ in range(2):  # they are told for as long as they are so
        report = sync(kb, folder)
        reasons = {
            "a-latin.md": "the text is not UTF-8 (byte 3)",
            "b-nul.md": "NUL",
            "c-huge.md": "it has 1,001 bytes; 1,000 is the most",
            "d-denied.md": "Permission denied",
            "e-folder.md": "it is a folder, not a markdown file",
            "f-pipe.md": "it is not a regular file",
            "g\\backslash.md": "backslash",
            "h-utf16.md": "the text is not UTF-8 (byte 0)",
        }
        assert problems(report).keys() == reasons.keys()
        assert all(reasons[name] in message for name, message in problems(report).items())
        assert tuple(documents(kb)) == (*FILLERS, "z-last.md")


def test_one_bad_file_among_a_hundred_leaves_ninety_nine(kb: kbstore.Store, folder: Path) -> None:
    for n in range(95):
        write(folder / f"{n}.md", f"note number {n}\n")
    write(folder / "50x.md", b"\xff\xfe\x00")
    report = sync(kb, folder, embed=False)
    assert (len(report.created), list(problems(report))) == (99, ["50x.md"])
    assert len(kb.list()) == 99


def test_a_name_that_is_no_unicode_is_told(kb: kbstore.Store, folder: Path) -> None:
    try:
        Path(os.fsdecode(os.fsencode(folder) + b"/bad\xff.md")).write_text("text\n")
    except OSError:
        pytest.skip("this file system takes no such name")
    report = sync(kb, folder)
    assert len(report.problems) == 1
    assert report.problems[0].path.encode().startswith(b"bad")
    assert "not valid Unicode" in report.problems[0].message
    assert tuple(documents(kb)) == FILLERS


@pytest.mark.parametrize("spoil", ["bytes", "denied", "folder"])
def test_a_file_that_has_become_bad_keeps_its_stored_text(
    kb: kbstore.Store, folder: Path, monkeypatch: pytest.MonkeyPatch, spoil: str
) -> None:
    place = folder / "filler/one.md"
    sync(kb, folder)
    if spoil == "folder":
        place.unlink()
        place.mkdir()
    else:
        write(place, b"caf\xe9" if spoil == "bytes" else "other text")
    with monkeypatch.context() as patch:
        if spoil == "denied":
            refuse(patch, place)
        report = sync(kb, folder)
    assert (list(problems(report)), changes(report)) == (["filler/one.md"], {})
    assert kb.get("filler/one.md").body == "# Filler one\n\nThis is one.\n"
    if spoil == "denied":  # and is read as soon as it can be
        assert changes(sync(kb, folder)) == {"updated": ("filler/one.md",)}


def test_documents_of_a_folder_that_cannot_be_read_stay(
    kb: kbstore.Store, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(folder / "locked/deep/a.md", "precious\n")
    write(folder / "locked-not.md", "text\n")
    sync(kb, folder)
    (folder / "locked-not.md").unlink()
    refuse(monkeypatch, folder / "locked")
    report = sync(kb, folder)
    assert problems(report) == {"locked": "the folder cannot be read: Permission denied"}
    assert changes(report) == {"deleted": ("locked-not.md",)}
    assert kb.get("locked/deep/a.md").body == "precious\n"


def test_documents_stay_when_the_whole_folder_cannot_be_read_even_by_force(
    kb: kbstore.Store, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sync(kb, folder)
    refuse(monkeypatch, folder)
    report = sync(kb, folder, force=True)
    assert (len(report.problems), changes(report)) == (1, {})
    assert tuple(documents(kb)) == FILLERS


@pytest.mark.parametrize("seconds", [0, -1_000_000, 12_000_000_000], ids=["1970", "1969", "2350"])
def test_an_odd_time_of_a_file_stops_nothing(kb: kbstore.Store, folder: Path, seconds: int) -> None:
    os.utime(write(folder / "odd.md", "text\n"), (seconds, seconds))
    assert sync(kb, folder).created == (*FILLERS, "odd.md")
    assert sync(kb, folder).read == 0


# path, header: title, tags, number of problems
HEADERS = [
    ("title: Governance: plan", "Governance: plan", (), 1),
    ("title: @x", "@x", (), 1),
    ("title: Tabbed\n\ttags: y", "Tabbed", ("y",), 1),
    ("title: 2024", "2024", (), 0),
    ("tags: [2024, true, 1.0]", "x", ("2024", "true", "1.0"), 0),
    ("tags: one, two", "x", ("one", "two"), 0),
    ("tags:", "x", (), 0),
    ("tags: one", "x", ("one",), 0),
    ('tags: ["a\\0b", c]', "x", ("a b", "c"), 0),
    ("updated: 2026-02-30", "x", (), 1),
    ("updated: 03/02/2026", "x", (), 1),
    ("updated: 99999-01-01", "x", (), 1),
    ("updated:", "x", (), 0),
    ("title: [a]", "x", (), 1),
]


@pytest.mark.parametrize(("header", "title", "tags", "count"), HEADERS)
def test_a_note_with_a_bad_header_is_kept_found_and_told(
    kb: kbstore.Store,
    tmp_path: Path,
    header: str,
    title: str,
    tags: tuple[str, ...],
    count: int,
) -> None:
    write(tmp_path / "n/x.md", f"---\n{header}\n---\nabout zebras\n")
    write(tmp_path / "n/y.md", "another\n")
    report = sync(kb, tmp_path / "n")
    assert report.created == ("x.md", "y.md")
    assert [p.path for p in report.problems] == ["x.md"] * count
    document = kb.get("x.md")
    assert (document.title, document.tags, document.body) == (title, tags, "about zebras\n")
    assert document.frontmatter == f"{header}\n"
    assert found(kb, "zebras") == ["x.md"]


# Long files, and an end at any moment


def test_a_very_long_note_among_short_ones_is_found_to_its_end(
    kb: kbstore.Store, folder: Path, embedder: FakeEmbedder
) -> None:
    embedder.vectors = {"zanzibar": [1.0] * 768}
    words = "".join(f"Sentence {n % 97} of a very long note.\n" for n in range(2_000))
    body = words[:30_000] + "\nmiddlemarker\n" + words[30_000:60_000] + "\nendmarker zanzibar\n"
    assert len(body) > 60_000
    write(folder / "long.md", body)
    report = sync(kb, folder)
    assert (report.problems, len(report.created)) == ((), 5)
    assert kb.get("long.md").body == body
    assert kb.list(topic=None)[-1].passages >= 60_000 // 1_600
    assert found(kb, "middlemarker") == found(kb, "endmarker") == ["long.md"]
    by_meaning = kb.search("endmarker zanzibar", now=NOW, retrievers=["vectors"])
    assert by_meaning.hits[0].path == "long.md"
    assert found(kb, "filler three")[0] == "filler/three.md"


def test_an_interrupted_reading_goes_on_where_it_stopped(
    kb: kbstore.Store, tmp_path: Path, reads: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for n in range(10):
        write(tmp_path / f"n/{n}.md", f"note number {n}\n")
    monkeypatch.setattr(mirror, "_BATCH", 3)
    real = frontmatter.parse

    def parse(text: str, path: str) -> frontmatter.Note:
        if path == "7.md":
            raise KeyboardInterrupt
        return real(text, path)

    with monkeypatch.context() as patch:
        patch.setattr(frontmatter, "parse", parse)
        with pytest.raises(KeyboardInterrupt):
            sync(kb, tmp_path / "n")
    assert list(documents(kb)) == [f"{n}.md" for n in range(6)]  # whole batches only
    reads.clear()
    report = sync(kb, tmp_path / "n")
    assert reads == [f"{n}.md" for n in range(6, 10)]
    assert (len(report.created), report.unchanged) == (4, 6)
    assert documents(kb) == {f"{n}.md": f"note number {n}\n" for n in range(10)}
    assert not any(d.pending for d in kb.list())
    kb.connection.execute(
        "insert into document_fts (document_fts, rank) values ('integrity-check', 1)"
    )


def test_an_interrupted_embedding_goes_on_where_it_stopped(
    kb: kbstore.Store,
    embedder: FakeEmbedder,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for n in range(40):
        write(tmp_path / f"n/{n}.md", f"note number {n}\n")
    real = embedder.embed
    batches = itertools.count()

    def embed(texts: Sequence[str], task: str) -> list[Sequence[float]]:
        if next(batches) == 1:
            raise KeyboardInterrupt
        return real(texts, task)

    monkeypatch.setattr(embedder, "embed", embed)
    with pytest.raises(KeyboardInterrupt):
        sync(kb, tmp_path / "n")
    done = len(embedder.calls)
    assert 0 < done < 40
    assert sum(not d.pending for d in kb.list()) == done
    report = sync(kb, tmp_path / "n")
    assert report.embedded is not None
    assert (report.read, report.embedded.documents) == (0, 40 - done)
    assert len(set(embedder.calls)) == len(embedder.calls) == 40


# Dates, ages, and names, from files to the search


def _recency(kb: kbstore.Store) -> dict[str, float]:
    hits = kb.search("diary", now=NOW, limit=50).hits
    assert all(hit.type_weight == 0.8 for hit in hits)
    return {hit.path.removeprefix("journal/").removesuffix(".md"): hit.recency for hit in hits}


def test_ages_are_the_same_in_every_time_zone(
    kb: kbstore.Store, tmp_path: Path, time_zone: str
) -> None:
    """A day begins at midnight UTC; a time is UTC unless it has an offset."""
    updated = {  # name: as written, age in days on 2026-12-01
        "day": ("2026-11-01", 30),
        "time": ("2026-11-01 12:00", 29.5),
        "utc": ("2026-11-01T12:00:00Z", 29.5),
        "tokyo": ("2026-11-01T21:00:00+09:00", 29.5),
        "new-york": ("2026-11-01T07:00:00-05:00", 29.5),
        "quoted": ("'2026-11-01'", 30),
        "yesterday": ("2026-11-30", 1),
        "old": ("2026-09-02", 90),
        "today": ("2026-12-01", 0),
        "tonight": ("2026-12-01T23:00:00Z", 0),
        "next-year": ("2027-06-01", 0),
    }
    for name, (written, _) in updated.items():
        write(tmp_path / f"n/journal/{name}.md", f"---\nupdated: {written}\n---\ndear diary\n")
    write(tmp_path / "n/journal/2026-10-02.md", "dear diary\n")
    write(tmp_path / "n/journal/file.md", "dear diary\n", at="2026-11-16T12:00:00Z")
    assert sync(kb, tmp_path / "n").problems == ()
    ages = {name: age for name, (_, age) in updated.items()} | {"2026-10-02": 60, "file": 14.5}
    recency = _recency(kb)
    assert recency == pytest.approx({name: 0.5 ** (age / 30) for name, age in ages.items()})
    assert recency["yesterday"] == pytest.approx(0.977, abs=1e-3)
    assert (recency["day"], recency["old"]) == (pytest.approx(0.5), pytest.approx(0.125))


@pytest.mark.parametrize(
    ("written", "told"),
    [
        ("", False),
        ("updated:", False),
        ("updated: ''", False),
        ("updated: 2026-02-30", True),
        ("updated: 03/02/2026", True),
        ("updated: 99999-01-01", True),
        ("updated: yesterday", True),
        ("updated: [2026-01-01]", True),
    ],
)
def test_a_date_that_is_none_is_told_and_that_of_the_file_counts(
    kb: kbstore.Store, tmp_path: Path, written: str, told: bool
) -> None:
    text = f"---\ntitle: T\n{written}\n---\ndear diary\n"
    write(tmp_path / "n/journal/x.md", text, at="2026-11-01T00:00:00Z")
    write(tmp_path / "n/journal/2026-11-16.md", text, at="2026-01-01T00:00:00Z")
    report = sync(kb, tmp_path / "n")
    names = ["journal/2026-11-16.md", "journal/x.md"]
    assert [p.path for p in report.problems] == (names if told else [])
    assert all("updated is" in p.message for p in report.problems)
    assert kb.get("journal/x.md").updated == "2026-11-01T00:00:00Z"
    assert kb.get("journal/2026-11-16.md").updated == "2026-11-16"
    assert _recency(kb) == {"x": pytest.approx(0.5), "2026-11-16": pytest.approx(0.5**0.5)}


def test_a_journal_without_any_date_does_not_decay(kb: kbstore.Store, tmp_path: Path) -> None:
    write(tmp_path / "n/journal/x.md", "dear diary\n")
    sync(kb, tmp_path / "n")
    kb.connection.execute("update document set updated = null")
    assert _recency(kb) == {"x": 1.0}


def test_a_time_of_a_file_is_stored_in_utc(kb: kbstore.Store, folder: Path, time_zone: str) -> None:
    moment = datetime(2026, 3, 4, 23, 30, tzinfo=UTC)
    os.utime(write(folder / "a.md", "text\n"), (moment.timestamp(), moment.timestamp() + 0.9))
    sync(kb, folder)
    assert kb.get("a.md").updated == "2026-03-04T23:30:00Z"


def test_a_skill_is_first_for_its_name(kb: kbstore.Store, tmp_path: Path) -> None:
    write(
        tmp_path / "w/skills/agent-swarm-launcher/SKILL.md",
        "---\nname: agent-swarm-launcher\ndescription: Starts many workers.\n---\n\nSteps.\n",
    )
    write(tmp_path / "w/skills/agent/SKILL.md", "An agent.\n")
    for n in range(20):
        write(
            tmp_path / f"w/knowledge/agents/{n}.md",
            f"# Note {n}\n\nThe agent has a launcher for the swarm; agent-swarm, {n} of them.\n",
        )
    sync(kb, tmp_path / "w")
    path = "skills/agent-swarm-launcher/SKILL.md"
    assert kb.get(path).type == "skill"
    assert (kb.get(path).title, kb.get(path).description) == (
        "agent-swarm-launcher",
        "Starts many workers.",
    )
    assert kb.search("agent-swarm-launcher", now=NOW).hits[0].path == path
    assert found(kb, "agent-swarm-launcher")[0] == path


def test_a_journal_is_first_for_its_day(kb: kbstore.Store, tmp_path: Path) -> None:
    for month, days in ((11, 30), (12, 20)):
        for day in range(1, days + 1):
            write(
                tmp_path / f"w/knowledge/journal/2026-{month}-{day:02}.md",
                f"Stand-up. In 2026 we met {day} times, {month} of us; 15 were ill.\n",
            )
    report = sync(kb, tmp_path / "w")
    assert len(report.created) == 50
    assert kb.search("2026-12-15", now=NOW).hits[0].path == "journal/2026-12-15.md"
    assert found(kb, "2026-12-15")[0] == "journal/2026-12-15.md"
    assert kb.get("journal/2026-12-15.md").updated == "2026-12-15"


def test_a_file_that_takes_the_place_of_a_note_is_told(tmp_path: Path, kb: kbstore.Store) -> None:
    kb.put("a.md", "what the agent wrote")
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "a.md").write_text("what the person wrote")
    report = mirror.sync(kb, tmp_path / "notes")
    assert report.updated == ("a.md",)
    ((name, message),) = [(p.path, p.message) for p in report.conflicts]
    assert name == "a.md"
    assert "history" in message
    (old,) = kb.connection.execute("select body from document_version").fetchall()
    assert old == ("what the agent wrote",)


def test_a_folder_inside_a_synced_one_is_told(tmp_path: Path, kb: kbstore.Store) -> None:
    (tmp_path / "notes" / "journal").mkdir(parents=True)
    (tmp_path / "notes" / "journal" / "2026-11-20.md").write_text("Friday")
    assert mirror.sync(kb, tmp_path / "notes").problems == ()
    (problem,) = mirror.sync(kb, tmp_path / "notes" / "journal").problems
    assert "stored twice" in problem.message
