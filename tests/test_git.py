"""A folder of notes and its remote, with the real git: commits, merges, pushes, and all that can go
wrong with them. The remotes are bare repositories on this disk."""

from __future__ import annotations

import json
import os
import random
import re
import shutil
import sqlite3
import subprocess
import sys
import threading
import time
import unicodedata
from collections.abc import Callable
from pathlib import Path

import pytest

from kbstore import frontmatter, git, merge, repository
from kbstore.errors import GitError
from kbstore.git import GitReport, sync

ROUNDS = 30  # of the storm; 200 pass as well, and take two minutes

posix = pytest.mark.skipif(sys.platform == "win32", reason="a hook or git itself as a shell script")


def run(folder: Path, *arguments: str, check: bool = True) -> str:
    """What git prints, run by hand."""
    command = ["git", "-C", folder, "-c", "user.name=t", "-c", "user.email=t@t", *arguments]
    done = subprocess.run(command, capture_output=True, check=False)
    assert not (check and done.returncode), done.stderr
    return done.stdout.decode(errors="surrogateescape")


def write(file: Path, text: str | bytes) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(text.encode() if isinstance(text, str) else text)


def script(file: Path, text: str) -> Path:
    write(file, f"#!/bin/sh\n{text}\n")
    file.chmod(0o755)
    return file


def files(folder: Path) -> dict[str, bytes]:
    """All files of a folder but the repository's own."""
    return {
        name: (folder / name).read_bytes()
        for name in sorted(
            file.relative_to(folder).as_posix()
            for file in folder.rglob("*")
            if file.is_file() and ".git" not in file.relative_to(folder).parts
        )
    }


def everything(folder: Path) -> dict[str, tuple[int, bytes]]:
    """Every file, the repository's own too, with its time."""
    found = (file for file in folder.rglob("*") if file.is_file())
    return {str(file): (file.stat().st_mtime_ns, file.read_bytes()) for file in found}


def tracked(folder: Path) -> list[str]:
    return sorted(name for name in run(folder, "ls-files", "-z").split("\0") if name)


def head(folder: Path, name: str = "HEAD") -> str:
    return run(folder, "rev-parse", name).strip()


def message(folder: Path) -> str:
    return run(folder, "log", "-1", "--format=%B").strip()


class Pair:
    """Two folders, and the remote that both are synced with."""

    def __init__(self, place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.remote = place / "remote.git"
        self.a, self.b = place / "a", place / "b"
        self.a.mkdir()
        self.b.mkdir()
        subprocess.run(["git", "init", "-q", "--bare", self.remote], check=True)
        run(self.remote, "symbolic-ref", "HEAD", "refs/heads/main")
        self._monkeypatch = monkeypatch
        self._second = 1_767_225_600  # 2026-01-01

    def sync(self, folder: Path, **options: bool) -> GitReport:
        """A sync that goes well, a second after the one before."""
        self._second += 1
        self._monkeypatch.setenv("GIT_COMMITTER_DATE", f"{self._second} +0000")
        report = sync(folder, str(self.remote), **options)
        assert report.error is None
        assert head_is_clean(folder)
        return report

    def both(self, *, last: Path | None = None) -> GitReport:
        """Sync both folders until they are equal; the report of the merge. ``last`` is the one
        that syncs second, so that the merge is made there; its commit is the newer one."""
        second = last or self.b
        first = self.a if second == self.b else self.b
        self.sync(first)
        report = self.sync(second)
        self.sync(first)
        assert files(self.a) == files(self.b)
        assert head(self.a) == head(self.b) == head(self.remote, "main")
        return report

    def begin(self, notes: dict[str, str | bytes]) -> None:
        """Give both folders the same notes; b is a copy, as a clone would be."""
        for name, text in notes.items():
            write(self.a / name, text)
        self.sync(self.a)
        shutil.copytree(self.a, self.b, symlinks=True, dirs_exist_ok=True)

    def conflict(self, name: str, base: str, ours: str, theirs: str) -> str:
        """The text of a note that is edited in both folders; b merges, so it is "ours"."""
        self.begin({name: base})
        write(self.a / name, theirs)
        write(self.b / name, ours)
        self.both()
        return (self.b / name).read_bytes().decode()


def head_is_clean(folder: Path) -> bool:
    """No merge is left going on, and no work tree of one."""
    place = Path(run(folder, "rev-parse", "--absolute-git-dir").strip())
    assert not list(place.glob("kbstore-merge-*"))
    assert not (place / "worktrees").exists()
    return not (place / "MERGE_HEAD").exists()


@pytest.fixture(autouse=True)
def _own_git(monkeypatch: pytest.MonkeyPatch) -> None:
    """No test sees the git config of whoever runs it."""
    for name in list(os.environ):
        if name.startswith(("GIT_", "SSH_")) or name in ("XDG_CONFIG_HOME", "EMAIL"):
            monkeypatch.delenv(name)
    monkeypatch.setenv("GIT_CONFIG_NOSYSTEM", "1")


@pytest.fixture
def pair(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Pair:
    return Pair(tmp_path, monkeypatch)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with one note and no repository."""
    write(tmp_path / "notes/one.md", "# One\n")
    return tmp_path / "notes"


def by_git(base: bytes, ours: bytes, theirs: bytes) -> bytes:
    folder = Path(os.environ["HOME"])
    for name, text in (("base", base), ("ours", ours), ("theirs", theirs)):
        write(folder / name, text)
    command = ["git", "merge-file", "-p", "-q", "ours", "base", "theirs"]
    return subprocess.run(command, cwd=folder, capture_output=True, check=False).stdout


def merged(base: str, ours: str, theirs: str, newer: merge.Side = "ours") -> str:
    found = merge.note(base, ours, theirs, path="note.md", newer=newer, three_way=by_git)
    return found.text


# The first run


def test_a_folder_without_a_repository_gets_one_and_is_pushed(pair: Pair) -> None:
    write(pair.a / "one.md", "# One\n")
    write(pair.a / "topic/two.md", "# Two\n")
    report = pair.sync(pair.a)
    assert report == GitReport(
        remote=str(pair.remote),
        branch="main",
        committed=("one.md", "topic/two.md"),
        pushed=True,
    )
    assert run(pair.a, "remote", "get-url", "origin").strip() == str(pair.remote)
    assert head(pair.a) == head(pair.remote, "main")
    assert json.loads(json.dumps(report.as_dict()))["committed"] == ["one.md", "topic/two.md"]


def test_nothing_new_is_no_commit(pair: Pair) -> None:
    pair.begin({"one.md": "# One\n"})
    before = head(pair.a)
    assert pair.sync(pair.a) == GitReport(remote=str(pair.remote), branch="main")
    os.utime(pair.a / "one.md", (1, 1))  # touched
    assert pair.sync(pair.a) == GitReport(remote=str(pair.remote), branch="main")
    assert head(pair.a) == before


def test_an_empty_folder_gets_what_the_remote_has(pair: Pair) -> None:
    write(pair.a / "one.md", "# One\n")
    pair.sync(pair.a)
    report = pair.sync(pair.b)
    assert report == GitReport(remote=str(pair.remote), branch="main", pulled=("one.md",))
    assert files(pair.b) == {"one.md": b"# One\n"}


def test_an_empty_folder_and_an_empty_remote(pair: Pair) -> None:
    assert pair.sync(pair.a) == GitReport(remote=str(pair.remote), branch="main")
    assert pair.sync(pair.a) == GitReport(remote=str(pair.remote), branch="main")


def test_a_folder_and_a_remote_that_never_met_are_joined(pair: Pair) -> None:
    write(pair.a / "same.md", "# Same\n")
    write(pair.a / "both.md", "---\ntitle: Both\ntags: [a]\n---\nfrom a\n")
    write(pair.a / "only-a.md", "a\n")
    pair.sync(pair.a)
    write(pair.b / "same.md", "# Same\n")
    write(pair.b / "both.md", "---\ntitle: Both\ntags: [b]\nowner: me\n---\nfrom b\n")
    write(pair.b / "only-b.md", "b\n")
    report = pair.both()
    assert files(pair.a) == {
        "both.md": b"---\ntitle: Both\ntags: [b, a]\nowner: me\n---\nfrom b\nfrom a\n",
        "only-a.md": b"a\n",
        "only-b.md": b"b\n",
        "same.md": b"# Same\n",
    }
    assert report.conflicts == (
        ("both.md", "the texts of both sides are in it; of the headers, this side's counts"),
    )
    assert report.notes == ("the folder and the remote had no common history: they are joined",)


def test_without_a_remote_it_is_only_committed(folder: Path) -> None:
    report = sync(folder, None)
    told = "there is no remote: the notes are committed in the folder only"
    assert report == GitReport(remote=None, branch="main", committed=("one.md",), notes=(told,))
    assert sync(folder, "").notes == (told,)


def test_without_an_address_origin_is_used(pair: Pair) -> None:
    pair.begin({"one.md": "# One\n"})
    write(pair.a / "two.md", "# Two\n")
    report = sync(pair.a, None)
    assert (report.remote, report.pushed) == (str(pair.remote), True)
    assert head(pair.a) == head(pair.remote, "main") == head(pair.a, "refs/remotes/origin/main")


def test_another_remote_than_origin_leaves_the_config_alone(pair: Pair, tmp_path: Path) -> None:
    pair.begin({"one.md": "# One\n"})
    other = tmp_path / "other.git"
    subprocess.run(["git", "init", "-q", "--bare", other], check=True)
    before = (pair.a / ".git/config").read_bytes()
    report = sync(pair.a, str(other))
    assert (report.remote, report.pushed) == (str(other), True)
    assert head(other, "main") == head(pair.a)
    assert (pair.a / ".git/config").read_bytes() == before
    run(pair.a, "remote", "add", "backup", str(other))
    write(pair.a / "two.md", "# Two\n")
    assert sync(pair.a, "backup").remote == str(other)
    assert head(other, "main") == head(pair.a) != head(pair.remote, "main")


def test_a_relative_path_is_one_from_here(
    pair: Pair, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(pair.a / "one.md", "# One\n")
    monkeypatch.chdir(tmp_path)
    assert sync(Path("a"), "remote.git").pushed
    assert sync(Path("a"), None).remote == str(pair.remote)


def test_a_remote_whose_default_branch_has_another_name(pair: Pair) -> None:
    run(pair.remote, "symbolic-ref", "HEAD", "refs/heads/trunk")
    other = pair.a.with_name("other")
    subprocess.run(["git", "init", "-q", other], check=True)
    run(other, "symbolic-ref", "HEAD", "refs/heads/trunk")
    write(other / "one.md", "# One\n")
    assert pair.sync(other).branch == "trunk"
    write(pair.a / "two.md", "# Two\n")
    report = pair.sync(pair.a)
    assert report.branch == "main"
    assert "the remote has no branch main: its trunk is used" in report.notes
    assert run(pair.remote, "branch", "--format=%(refname:short)").split() == ["trunk"]
    assert head(pair.remote, "trunk") == head(pair.a)
    assert files(pair.a).keys() == {"one.md", "two.md"}


def test_a_branch_of_another_name_is_synced_with_its_own(pair: Pair) -> None:
    pair.begin({"one.md": "# One\n"})
    run(pair.a, "checkout", "-q", "-b", "drafts/näxt")
    run(pair.a, "push", "-q", "origin", "drafts/näxt")
    write(pair.a / "two.md", "# Two\n")
    assert pair.sync(pair.a).branch == "drafts/näxt"
    assert head(pair.remote, "drafts/näxt") == head(pair.a) != head(pair.remote, "main")


# What must be so


def refused(folder: Path, match: str) -> None:
    before = everything(folder) if folder.exists() else {}
    for dry_run in (False, True):
        with pytest.raises(GitError, match=match) as caught:
            sync(folder, None, dry_run=dry_run)
        assert "\n" not in str(caught.value)
    assert (everything(folder) if folder.exists() else {}) == before


def test_no_git(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    refused(folder, "git is not installed: install it")


@posix
def test_an_old_git(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    script(tmp_path / "bin/git", "echo git version 2.19.6")
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    refused(folder, r"git 2\.19 is too old: install 2\.20 or newer")


def test_no_folder(tmp_path: Path) -> None:
    refused(tmp_path / "none", "there is no folder .*none: make it, or give another")


def test_a_folder_inside_another_repository(folder: Path, tmp_path: Path) -> None:
    run(tmp_path, "init", "-q")
    refused(folder, rf"notes lies in the git repository {re.escape(str(tmp_path))}: `git init`")
    refused(tmp_path / ".git", "git cannot use .*work tree")
    run(folder, "init", "-q")
    assert sync(folder, None).committed == ("one.md",)


def test_a_broken_repository(folder: Path) -> None:
    write(folder / ".git", "gitdir: nowhere\n")
    refused(folder, "git cannot use .*not a git repository")


@pytest.mark.parametrize("what", ["merge", "rebase", "cherry-pick", "revert"])
def test_a_merge_or_the_like_going_on(pair: Pair, what: str) -> None:
    pair.begin({"one.md": "one\n"})
    write(pair.a / "one.md", "two\n")
    pair.sync(pair.a)
    run(pair.a, "branch", "other", "HEAD^")
    run(pair.a, "checkout", "-q", "other")
    write(pair.a / "one.md", "three\n")
    run(pair.a, "commit", "-qam", "three")
    run(pair.a, what, "main" if what != "revert" else "HEAD^", check=False)
    refused(pair.a, f"a {what} is going on in .*: end it with `git {what} --continue`")


def test_no_branch(pair: Pair) -> None:
    pair.begin({"one.md": "one\n"})
    run(pair.a, "checkout", "-q", "--detach")
    refused(pair.a, "is on no branch .*: check one out first")


def test_a_conflict_that_was_left(pair: Pair) -> None:
    pair.begin({"one.md": "one\n"})
    write(pair.a / "one.md", "two\n")
    run(pair.a, "stash")
    write(pair.a / "one.md", "three\n")
    pair.sync(pair.a)
    run(pair.a, "stash", "pop", check=False)
    refused(pair.a, r"one\.md in .* has a conflict")


@posix
def test_inside_a_hook_of_another_repository(
    pair: Pair, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    host = tmp_path / "host"
    subprocess.run(["git", "init", "-q", host], check=True)
    code = f"from kbstore.git import sync; print(sync(__import__('pathlib').Path({str(pair.a)!r}),"
    code += f" {str(pair.remote)!r}).pushed)"
    script(host / ".git/hooks/pre-commit", f'{sys.executable} -c "{code}" > pushed')
    write(host / "code.py", "pass\n")
    write(pair.a / "one.md", "# One\n")
    run(host, "add", "code.py")
    run(host, "commit", "-qm", "code")
    assert (host / "pushed").read_text() == "True\n"
    assert tracked(host) == ["code.py"]
    assert tracked(pair.a) == ["one.md"]


# Who, and what is said


def test_an_author_only_where_none_is_configured(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    who = ("log", "-1", "--format=%an <%ae> %cn <%ce>")
    sync(folder, None)
    assert run(folder, *who).strip() == " ".join(["kbstore <kbstore@localhost>"] * 2)
    assert "user" not in (folder / ".git/config").read_text()
    run(folder, "config", "user.name", "Ada")
    write(folder / "two.md", "2\n")
    monkeypatch.setenv("EMAIL", "ada@example.org")
    sync(folder, None)
    assert run(folder, *who).strip() == " ".join(["Ada <ada@example.org>"] * 2)
    run(folder, "config", "user.email", "ada@work.example")
    write(folder / "two.md", "3\n")
    sync(folder, None)
    assert run(folder, *who).strip() == " ".join(["Ada <ada@work.example>"] * 2)


def test_the_message_counts_notes_and_names_a_few(folder: Path) -> None:
    write(folder / "two.md", "2\n")
    write(folder / "gone.MARKDOWN", "x\n")
    write(folder / "plan.png", b"\x89PNG\0")
    sync(folder, None)
    assert message(folder) == (
        "3 notes added; 1 file added\n\n"
        "added gone.MARKDOWN\nadded one.md\nadded plan.png\nadded two.md"
    )
    for number in range(6):
        write(folder / f"new-{number}.md", "n\n")
    write(folder / "two.md", "22\n")
    (folder / "gone.MARKDOWN").unlink()
    sync(folder, None)
    assert message(folder) == (
        "6 notes added, 1 changed, 1 deleted\n\ndeleted gone.MARKDOWN\n"
        + "".join(f"added new-{number}.md\n" for number in range(4))
        + "and 3 more"
    )
    write(folder / "plan.png", b"\x89PNG\1")
    sync(folder, None)
    assert message(folder) == "1 file changed\n\nchanged plan.png"


SECRET = "https://kim:s3cr3t-t0ken@127.0.0.1:1/kb.git?key=s3cr3t"


def test_no_secret_of_an_address_is_told(pair: Pair, tmp_path: Path) -> None:
    write(pair.a / "one.md", "# One\n")
    report = sync(pair.a, SECRET)
    assert report.remote == "https://127.0.0.1:1/kb.git"
    assert report.error is not None
    assert report.error.startswith("the remote https://127.0.0.1:1/kb.git: ")
    assert report.error.endswith("; the commits are kept here: put it right and sync again")
    again = sync(pair.a, None, dry_run=True)  # now from the config
    assert again.error is not None
    for text in (repr(report), repr(again), message(pair.a)):
        assert "s3cr3t" not in text
        assert "kim" not in text


@pytest.mark.parametrize(
    ("address", "shown"),
    [
        ("https://tok@example.org/a.git", "https://example.org/a.git"),
        ("ssh://git@example.org/a.git", "ssh://example.org/a.git"),
        ("git@example.org:a.git", "git@example.org:a.git"),
        ("me:pass@example.org:a.git", "example.org:a.git"),
        ("/srv/a?b#c.git", "/srv/a?b#c.git"),
    ],
)
def test_an_address_as_it_is_shown(address: str, shown: str) -> None:
    assert repository.masked(address) == shown
    git_ = repository.Repository(Path(), hidden=[address])
    assert git_.masked(f"fatal: unable to access '{address}/': no") == (
        f"fatal: unable to access '{shown}/': no"
    )


def test_an_address_is_never_an_option(pair: Pair, tmp_path: Path) -> None:
    write(pair.a / "one.md", "# One\n")
    report = sync(pair.a, f"--upload-pack=touch {tmp_path}/pwned")
    assert report.error is not None
    assert not (tmp_path / "pwned").exists()


# What stays out


def database(file: Path) -> bytes:
    file.parent.mkdir(parents=True, exist_ok=True)
    connection = sqlite3.connect(file)
    connection.execute("create table if not exists t(x)")
    connection.execute("insert into t values (?)", (str(file),))
    connection.commit()
    connection.close()
    return file.read_bytes()


OUT = [
    "kb.sqlite3",
    "kb.sqlite3-wal",
    "sub/.kb.sqlite3.0123456789abcdef",
    "old.sqlite",
    "cache.db-wal",
    "cache.db-shm",
    ".one.md.kbstore-1a2b",
]


def test_databases_and_drafts_stay_out(pair: Pair) -> None:
    for name in OUT:
        write(pair.a / name, "x")
    database(pair.a / "memory")  # told by its first bytes
    write(pair.a / "memory-wal", "x")
    database(pair.a / "sub/photo.png")
    database(pair.a / "team-journal")
    kept = {
        "what-is-a.sqlite3.md": "# A note\n",
        "kb.sqlite3.d/note.md": "# In a folder\n",
        "team-shm": "a list\n",
        "data.db": "no database\n",
        ".hidden.md": "# Hidden\n",
    }
    for name, text in kept.items():
        write(pair.a / name, text)
    for _ in range(2):
        pair.sync(pair.a)
    assert tracked(pair.a) == sorted(kept)
    run(pair.a, "add", "-A", "--dry-run")
    out = set(run(pair.a, "ls-files", "-oz").split("\0")) - {""}
    left = set(run(pair.a, "ls-files", "-oz", "--exclude-standard").split("\0")) - {""}
    assert left == {"memory", "memory-wal", "sub/photo.png", "team-journal"}
    assert out - left == set(OUT)
    exclude = (pair.a / ".git/info/exclude").read_text()
    assert exclude.count("kbstore: databases") == 1
    pair.sync(pair.b)
    assert sorted(files(pair.b)) == sorted(kept)


def test_what_the_user_excludes_stays_excluded(folder: Path) -> None:
    run(folder, "init", "-q")
    write(folder / ".git/info/exclude", "private/")
    write(folder / "private/diary.md", "x\n")
    write(folder / ".gitignore", "*.log\n")
    write(folder / "a.log", "x\n")
    assert sync(folder, None).committed == (".gitignore", "one.md")


def test_a_database_in_git_is_taken_out_and_stays_on_the_disk(pair: Pair) -> None:
    pair.begin({"one.md": "# One\n"})
    here = database(pair.a / "kb.sqlite3")
    memory = database(pair.a / "memory")
    run(pair.a, "add", "-f", "kb.sqlite3", "memory")
    run(pair.a, "commit", "-qm", "by hand")
    run(pair.a, "push", "-q", "origin", "main")
    run(pair.b, "pull", "-q", "origin", "main")
    there = database(pair.b / "kb.sqlite3")
    report = pair.sync(pair.a)
    told = "was in git, where it does not belong: it stays in the folder"
    assert report.notes == (f"kb.sqlite3 {told}", f"memory {told}")
    assert tracked(pair.a) == ["one.md"]
    assert (pair.a / "kb.sqlite3").read_bytes() == here
    pair.sync(pair.b)
    assert tracked(pair.b) == ["one.md"]
    assert (pair.b / "kb.sqlite3").read_bytes() == there
    assert (pair.b / "memory").read_bytes() == memory


@pytest.mark.parametrize("begun", [False, True])
@pytest.mark.parametrize("diverged", [False, True])
def test_a_database_on_the_remote_never_replaces_the_one_here(
    pair: Pair, begun: bool, diverged: bool
) -> None:
    write(pair.a / "one.md", "# One\n")
    pair.sync(pair.a)
    if begun:
        pair.sync(pair.b)
    database(pair.a / "kb.sqlite3")
    database(pair.a / "memory")
    write(pair.a / "two.md", "# Two\n")
    run(pair.a, "add", "-f", ".")
    run(pair.a, "commit", "-qm", "by hand")
    run(pair.a, "push", "-q", "origin", "main")
    write(pair.b / "kb.sqlite3", "ours")
    if diverged:
        write(pair.b / "three.md", "# Three\n")
    report = pair.sync(pair.b)
    assert (pair.b / "kb.sqlite3").read_text() == "ours"
    assert not (pair.b / "memory").exists()
    assert "kb.sqlite3" not in report.pulled
    assert dict(report.conflicts).keys() == {"kb.sqlite3", "memory"}
    assert not {"kb.sqlite3", "memory"} & set(tracked(pair.b))
    assert report.pushed
    pair.sync(pair.a)
    assert (pair.a / "kb.sqlite3").exists()


def test_other_repositories_in_the_folder_are_left_alone(pair: Pair) -> None:
    write(pair.a / "one.md", "# One\n")
    for name in ("empty", "sub"):
        subprocess.run(["git", "init", "-q", pair.a / name], check=True)
    write(pair.a / "sub/code.md", "x\n")
    sync(pair.a / "sub", None)
    report = pair.sync(pair.a)
    assert report.committed == ("one.md",)
    assert report.notes == (
        "empty/ is a git repository of its own: left out",
        "sub/ is a git repository of its own: left out",
    )


def test_submodules_are_left_as_they_are(pair: Pair, tmp_path: Path) -> None:
    write(tmp_path / "lib/code.md", "x\n")
    sync(tmp_path / "lib", None)
    write(pair.a / "one.md", "# One\n")
    pair.sync(pair.a)
    run(pair.a, "-c", "protocol.file.allow=always", "submodule", "add", "-q", str(tmp_path / "lib"))
    run(pair.a, "commit", "-qm", "by hand")
    pair.sync(pair.a)
    pair.sync(pair.b)
    write(pair.a / "lib/code.md", "y\n")
    sync(pair.a / "lib", None)
    write(pair.a / "one.md", "# One a\n")
    write(pair.b / "one.md", "# One b\n")
    pair.sync(pair.a)
    pair.sync(pair.b)
    pair.sync(pair.a)
    assert (pair.a / "one.md").read_bytes() == (pair.b / "one.md").read_bytes()
    assert run(pair.a, "ls-tree", "HEAD", "lib") == run(pair.b, "ls-tree", "HEAD", "lib")
    assert run(pair.a, "ls-tree", "HEAD", "lib").startswith("160000")
    assert head(pair.a / "lib") not in run(pair.a, "ls-tree", "HEAD", "lib")


# Merges


def test_edits_in_different_places_are_merged_by_git(pair: Pair) -> None:
    lines = [f"line {number}\n" for number in range(20)]
    text = pair.conflict(
        "one.md",
        "".join(lines),
        "".join(["first b\n", *lines[1:]]),
        "".join([*lines[:-1], "last a\n"]),
    )
    assert text == "".join(["first b\n", *lines[1:-1], "last a\n"])
    assert message(pair.a) == "Merge: 1 note changed"


@pytest.mark.parametrize("newer", ["a", "b"])
def test_edits_in_one_place_both_stay_and_the_newer_header_counts(pair: Pair, newer: str) -> None:
    base = "---\ntitle: One\nupdated: 2026-01-01\ntags: [x]\n---\n# One\n\ntext\n\nend\n"
    pair.begin({"one.md": base})
    a = "---\ntitle: One A\nupdated: 2026-01-02\ntags: [x, a]\nowner: ada\n---\n# One\n\nfrom a\n\n"
    b = "---\ntitle: One B\nupdated: 2026-01-03\ntags: [x, b]\n---\n# One\n\nfrom b\n\n"
    first, second = (pair.b, pair.a) if newer == "a" else (pair.a, pair.b)
    write(pair.a / "one.md", a + "end\n")
    write(pair.b / "one.md", b + "end\n")
    report = pair.both(last=second)
    text = (pair.a / "one.md").read_text()
    note = frontmatter.parse(text, "one.md")
    assert (note.title, note.updated) == (
        ("One A", "2026-01-02") if newer == "a" else ("One B", "2026-01-03")
    )
    assert set(note.tags) == {"x", "a", "b"}
    assert "owner: ada\n" in text
    assert note.body in (
        "# One\n\nfrom b\nfrom a\n\nend\n",
        "# One\n\nfrom a\nfrom b\n\nend\n",
    )
    assert report.conflicts == (
        ("one.md", "the texts of both sides are in it; of the headers, this side's counts"),
    )
    assert "one.md: the texts of both sides" in message(pair.a)
    assert first != second


def test_the_newer_header_may_be_the_other_side_s(pair: Pair) -> None:
    pair.begin({"one.md": "---\ntitle: One\n---\ntext\n", "two.md": "2\n"})
    write(pair.b / "one.md", "---\ntitle: One B\n---\ntext b\n")
    sync(pair.b, str(pair.b / "nowhere"))  # committed, not pushed: a's commit is newer
    write(pair.a / "one.md", "---\ntitle: One A\n---\ntext a\n")
    pair.sync(pair.a)
    write(pair.b / "two.md", "22\n")  # a newer commit, but of another note
    report = pair.both()
    assert (pair.a / "one.md").read_text() == "---\ntitle: One A\n---\ntext b\ntext a\n"
    assert report.conflicts == (
        ("one.md", "the texts of both sides are in it; of the headers, the other side's counts"),
    )


@pytest.mark.parametrize("deleted", ["a", "b"])
def test_deleted_here_and_edited_there_the_edit_stays(pair: Pair, deleted: str) -> None:
    pair.begin({"one.md": "one\n", "two.md": "two\n"})
    (getattr(pair, deleted) / "one.md").unlink()
    write((pair.b if deleted == "a" else pair.a) / "one.md", "one, edited\n")
    report = pair.both()
    assert files(pair.a)["one.md"] == b"one, edited\n"
    here, there = ("here", "on the other side")[:: 1 if deleted == "a" else -1]
    assert report.conflicts == (("one.md", f"changed {here}, deleted or moved {there}: it stays"),)


def test_deleted_on_both_sides(pair: Pair) -> None:
    pair.begin({"one.md": "one\n", "two.md": "two\n"})
    (pair.a / "one.md").unlink()
    (pair.b / "one.md").unlink()
    assert pair.both().conflicts == ()
    assert files(pair.a) == {"two.md": b"two\n"}


LONG = "".join(f"line {number} of a note\n" for number in range(12))


def test_renamed_here_and_edited_there(pair: Pair) -> None:
    pair.begin({"one.md": LONG})
    (pair.a / "one.md").rename(pair.a / "moved.md")
    write(pair.b / "one.md", LONG + "more\n")
    pair.both()
    assert files(pair.a) == {"moved.md": (LONG + "more\n").encode()}


def test_renamed_and_edited_here_and_edited_there(pair: Pair) -> None:
    pair.begin({"one.md": LONG})
    (pair.a / "one.md").unlink()
    write(pair.a / "moved.md", LONG + "more a\n")
    write(pair.b / "one.md", LONG + "more b\n")
    report = pair.both()
    assert files(pair.a) == {"moved.md": (LONG + "more b\nmore a\n").encode()}
    assert [path for path, _ in report.conflicts] == ["moved.md"]


@pytest.mark.parametrize("edited", [False, True])
def test_renamed_here_and_otherwise_there(pair: Pair, edited: bool) -> None:
    pair.begin({"one.md": LONG})
    for folder, name in ((pair.a, "a.md"), (pair.b, "b.md")):
        (folder / "one.md").unlink()
        write(folder / name, LONG + (f"more {name}\n" if edited else ""))
    report = pair.both()
    found = files(pair.a)
    assert found.keys() == {"a.md", "b.md"}
    if edited:
        assert found == {n: (LONG + f"more {n}\n").encode() for n in ("a.md", "b.md")}
    else:
        assert dict(report.conflicts).keys() == {"a.md", "b.md", "one.md"}


def test_two_notes_renamed_to_one_name(pair: Pair) -> None:
    other = LONG.replace("note", "text")
    pair.begin({"one.md": LONG, "two.md": other})
    (pair.a / "one.md").rename(pair.a / "new.md")
    (pair.b / "two.md").rename(pair.b / "new.md")
    report = pair.both()
    found = files(pair.a)
    assert found.keys() == {"new.md"}
    assert {*LONG.splitlines(), *other.splitlines()} <= set(found["new.md"].decode().splitlines())
    assert [path for path, _ in report.conflicts] == ["new.md"]


def test_renamed_here_and_written_new_there(pair: Pair) -> None:
    pair.begin({"one.md": LONG})
    (pair.a / "one.md").rename(pair.a / "new.md")
    write(pair.b / "one.md", LONG + "edited\n")
    write(pair.b / "new.md", "another note\n")
    pair.both()
    text = b"".join(files(pair.a).values()).decode()
    assert all(line in text for line in [*LONG.splitlines(), "edited", "another note"])
    assert "<<<<" not in text


def test_renamed_here_and_deleted_there(pair: Pair) -> None:
    pair.begin({"one.md": LONG, "two.md": "2\n"})
    (pair.a / "one.md").rename(pair.a / "new.md")
    (pair.b / "one.md").unlink()
    report = pair.both()
    assert files(pair.a)["new.md"] == LONG.encode()
    assert [path for path, _ in report.conflicts] == ["new.md"]


@pytest.mark.parametrize("last", ["a", "b"])
def test_a_note_here_where_there_is_a_folder_there(pair: Pair, last: str) -> None:
    pair.begin({"topic": "a file\n", "other.md": "x\n"})
    (pair.a / "topic").unlink()
    write(pair.a / "topic/note.md", "in a folder\n")
    write(pair.b / "topic", "a file, edited\n")
    report = pair.both(last=getattr(pair, last))
    assert files(pair.a) == {
        "other.md": b"x\n",
        "topic (other version)": b"a file, edited\n",
        "topic/note.md": b"in a folder\n",
    }
    told = "its old name is that of a folder, or of another kind of file, on one side"
    assert report.conflicts == (("topic (other version)", told),)


def test_a_new_note_here_where_there_is_a_new_folder_there(pair: Pair) -> None:
    pair.begin({"other.md": "x\n"})
    write(pair.a / "topic.md/note.md", "in a folder\n")
    write(pair.b / "topic.md", "a note\n")
    pair.both()
    assert files(pair.a) == {
        "other.md": b"x\n",
        "topic (other version).md": b"a note\n",
        "topic.md/note.md": b"in a folder\n",
    }


def test_a_folder_that_becomes_a_note_and_back(pair: Pair) -> None:
    pair.begin({"topic/note.md": "in a folder\n", "other.md": "x\n"})
    shutil.rmtree(pair.a / "topic")
    write(pair.a / "topic", "a file\n")
    pair.both()
    (pair.a / "topic").unlink()
    write(pair.a / "topic/note.md", "again\n")
    pair.both()
    assert files(pair.b) == {"topic/note.md": b"again\n", "other.md": b"x\n"}


def test_a_folder_renamed_here_and_a_new_note_in_it_there(pair: Pair) -> None:
    pair.begin({f"old/{n}.md": LONG.replace("note", n) for n in ("one", "two", "three")})
    (pair.a / "old").rename(pair.a / "new")
    write(pair.b / "old/four.md", "4\n")
    write(pair.b / "old/one.md", LONG.replace("note", "one") + "more\n")
    pair.both()
    assert files(pair.a).keys() == {"new/one.md", "new/two.md", "new/three.md", "old/four.md"}
    assert files(pair.a)["new/one.md"].endswith(b"more\n")


@pytest.mark.parametrize("name", ["plan.png", "data.csv", "latin.md", "nul.md"])
def test_what_is_no_note_stays_in_both_versions(pair: Pair, name: str) -> None:
    texts = {
        "plan.png": (b"\x89PNG\0", b"\x89PNG\0a", b"\x89PNG\0b"),
        "data.csv": (b"a,b\n", b"a,b,c\n", b"a,b,d\n"),
        "latin.md": (b"\xe4\n", b"\xe4 a\n", b"\xe4 b\n"),
        "nul.md": (b"\0\n", b"\0 a\n", b"\0 b\n"),
    }[name]
    pair.begin({name: texts[0]})
    write(pair.a / name, texts[1])
    write(pair.b / name, texts[2])
    report = pair.both()
    stem, dot, end = name.partition(".")
    other = f"{stem} (other version){dot}{end}"
    assert files(pair.a) == {name: texts[2], other: texts[1]}
    assert report.conflicts == (
        (name, f"this side's stays; the other side's is beside it: {other}"),
    )
    write(pair.a / name, texts[0] + b"again a")
    write(pair.b / name, texts[0] + b"again b")
    pair.both()
    assert files(pair.a)[f"{stem} (other version 2){dot}{end}"] == texts[0] + b"again a"


@posix
def test_a_link_here_and_a_note_there(pair: Pair) -> None:
    pair.begin({"one.md": "one\n", "two.md": "two\n"})
    for folder in (pair.a, pair.b):
        (folder / "one.md").unlink()
    (pair.a / "one.md").symlink_to("two.md")
    write(pair.b / "one.md", "one, edited\n")
    pair.both()
    assert sorted(p.name for p in pair.a.glob("*.md") if p.is_symlink()) != []
    assert b"one, edited\n" in files(pair.a).values()


@posix
def test_a_bit_here_and_an_edit_there(pair: Pair) -> None:
    pair.begin({"run.sh": "x\n", "one.md": "x\n"})
    (pair.a / "run.sh").chmod(0o755)
    write(pair.b / "run.sh", "y\n")
    pair.both()
    assert os.access(pair.b / "run.sh", os.X_OK)
    assert files(pair.a)["run.sh"] == b"y\n"


MARKS = "Title\n=======\n\n<<<<<<< HEAD\nours?\n=======\ntheirs?\n>>>>>>> other\n\n||||||| base\n"


def test_texts_that_look_like_conflict_markers_pass_unharmed(pair: Pair) -> None:
    text = pair.conflict("one.md", MARKS + "end\n", MARKS + "end b\n", MARKS + "end a\n")
    assert text == MARKS + "end b\nend a\n"
    write(pair.a / "two.md", MARKS + "a\n")
    write(pair.b / "two.md", "x\n" + MARKS)
    pair.both()
    found = files(pair.a)["two.md"].decode()
    assert {*MARKS.splitlines(), "a", "x"} == set(found.splitlines())
    assert all(found.count(mark) in (1, 2) for mark in ("<<<<<<< HEAD", ">>>>>>> other"))


def test_a_merge_by_lines_that_spoils_a_header_is_made_again(pair: Pair) -> None:
    """Git puts both tags into one header, each by itself without a conflict."""
    base = "---\ntitle: One\na: 1\nb: 2\nc: 3\nd: 4\n---\ntext\n"
    ours = base.replace("title: One\n", "title: One\ntags: [b]\n")
    theirs = base.replace("d: 4\n", "d: 4\ntags: [a]\n")
    text = pair.conflict("one.md", base, ours, theirs)
    assert text.count("tags:") == 1
    assert set(frontmatter.parse(text, "one.md").tags) == {"a", "b"}
    assert sorted(text.splitlines()[1:-2]) == sorted(
        ["title: One", "a: 1", "b: 2", "c: 3", "d: 4", "tags: [b, a]"]
    )


def test_the_same_of_yaml_that_is_not_valid_any_more(pair: Pair) -> None:
    base = "---\ntitle: One\ntags:\n  - x\na: 1\nb: 2\n---\ntext\n"
    ours = base.replace("tags:\n  - x\n", "tags:\n- x\n")
    theirs = base.replace("title: One\n", "title: Two\n").replace("b: 2\n", "b: 3\n")
    text = pair.conflict("one.md", base, ours, theirs)
    note = frontmatter.parse(text, "one.md")
    assert (note.title, note.tags, note.problems) == ("Two", ("x",), ())


def test_a_criss_cross_of_two_remotes(pair: Pair, tmp_path: Path) -> None:
    other = tmp_path / "other.git"
    subprocess.run(["git", "init", "-q", "--bare", other], check=True)
    pair.begin({"one.md": "one\n", "two.md": "two\n"})
    sync(pair.a, str(other))
    write(pair.a / "one.md", "one a\n")
    write(pair.b / "one.md", "one b\n")
    pair.sync(pair.a)
    sync(pair.b, str(other))
    pair.sync(pair.b)  # a merge of both here
    sync(pair.a, str(other))  # and another one of the same two
    write(pair.a / "one.md", (pair.a / "one.md").read_text() + "more a\n")
    write(pair.b / "one.md", (pair.b / "one.md").read_text() + "more b\n")
    pair.both()
    lines = files(pair.a)["one.md"].decode().splitlines()
    assert set(lines) == {"one a", "one b", "more a", "more b"}


def test_the_user_s_merge_config_is_no_trouble(pair: Pair) -> None:
    config = Path(os.environ["HOME"], ".gitconfig")
    write(
        config,
        "[merge]\nconflictStyle = diff3\nff = only\nlog = true\ndirectoryRenames = true\n"
        "[rerere]\nenabled = true\nautoUpdate = true\n[pull]\nrebase = true\n"
        "[core]\nquotePath = true\nautocrlf = false\n[status]\nshowUntrackedFiles = no\n"
        "[diff]\nnoprefix = true\nrenames = copies\nignoreSubmodules = none\n"
        "[commit]\nverbose = true\ncleanup = strip\n[color]\nui = always\n"
        "[push]\ndefault = nothing\n"
        "[branch]\nautoSetupMerge = always\n[init]\ndefaultBranch = trunk\n[fetch]\nprune = true\n",
    )
    text = pair.conflict("a/ö one.md", "one\n", "one b\n", "one a\n")
    assert text == "one b\none a\n"
    (pair.a / "a/ö one.md").unlink()
    write(pair.b / "a/ö one.md", "one c\n")
    pair.both()
    assert files(pair.a) == {"a/ö one.md": b"one c\n"}


# The texts


def test_an_edit_of_one_side_is_taken() -> None:
    assert merged("a\nb\n", "a\nb\n", "a\nc\n") == "a\nc\n"
    assert merged("a\nb\n", "a\n", "a\nb\n") == "a\n"


@pytest.mark.parametrize(
    ("ours", "theirs", "wanted"),
    [
        ("one\r\ntwo b\r\n", "one\r\ntwo a\r\n", "one\r\ntwo b\r\ntwo a\r\n"),
        ("one\ntwo b\n", "one\r\ntwo a\r\n", "one\ntwo b\ntwo a\n"),
        ("one\r\ntwo b\r\n", "one\ntwo a\n", "one\r\ntwo b\r\ntwo a\r\n"),
        ("one\ntwo b", "one\ntwo a", "one\ntwo b\ntwo a"),
        ("one\ntwo b", "one\ntwo a\n", "one\ntwo b\ntwo a\n"),
        ("\ufeffone\ntwo b\n", "one\ntwo a\n", "\ufeffone\ntwo b\ntwo a\n"),
        ("one\ntwo b\n", "\ufeffone\ntwo a\n", "one\ntwo b\ntwo a\n"),
        ("", "one\ntwo a\n", "one\ntwo a\n"),
        ("one\n \ntwo\u2028b\n", "one\n\ntwo\x0ca\n", "one\n \ntwo\u2028b\n\ntwo\x0ca\n"),
    ],
)
def test_ends_of_lines_and_marks_of_order(ours: str, theirs: str, wanted: str) -> None:
    assert merged("one\ntwo\n", ours, theirs) == wanted


def test_crlf_in_a_header() -> None:
    base = "\ufeff---\r\ntitle: One\r\ntags: [x]\r\n---\r\ntext\r\n"
    ours = base.replace("[x]", "[x, b]").replace("text", "text b")
    theirs = base.replace("[x]", "[x, a]").replace("text", "text a").replace("\r\n", "\n")
    assert merged(base, ours, theirs) == (
        "\ufeff---\r\ntitle: One\r\ntags: [x, b, a]\r\n---\r\ntext b\r\ntext a\r\n"
    )


def test_a_block_of_code_stays_whole() -> None:
    base = "# Run\n\n```sh\nmake\n```\n\nend\n"
    ours = base.replace("make", "make all\nmake test")
    theirs = base.replace("make", "make -j")
    assert merged(base, ours, theirs) == (
        "# Run\n\n```sh\nmake all\nmake test\n```\n\n```sh\nmake -j\n```\n\nend\n"
    )
    assert merged("", "```\na\n```\n", "~~~ py\n```\nb\n~~~\n") == (
        "```\na\n```\n\n~~~ py\n```\nb\n~~~\n"
    )
    assert merged("", "```\nnever closed\n", "text\n") == "```\nnever closed\ntext\n"


def test_a_table_stays_one() -> None:
    table = "text\n\n| a | b |\n|---|---|\n| 1 | 2 |\n"
    ours, theirs = table + "| 3 | 4 |\n\nend\n", table + "| 5 | 6 |\n\nthe end\n"
    assert merged(table + "\n", ours, theirs) == (
        table + "| 3 | 4 |\n| 5 | 6 |\n\nend\n\nthe end\n"
    )
    assert merged("", "| a |\n|---|\n| 1 |\n", "| b | c |\n|---|---|\n| 2 | 3 |\n") == (
        "| a |\n|---|\n| 1 |\n\n| b | c |\n|---|---|\n| 2 | 3 |\n"
    )
    assert merged("x\n", "| a |\n|---|\n| 1 |\n", "text\n") == "| a |\n|---|\n| 1 |\n\ntext\n"


def test_paragraphs_are_not_shuffled() -> None:
    ours, theirs = "# A\n\na one\n\na two\n", "# B\n\nb one\n\nb two\n\nb three\n"
    assert merged("", ours, theirs) == f"{ours}\n{theirs}"
    assert merged("", "text\n", "=====\n") == "text\n\n=====\n"  # no heading


def test_items_of_a_list_stay_one_list() -> None:
    base = "- one\n- two\n"
    assert merged(base, base + "- b\n", base + "- a\n") == base + "- b\n- a\n"


def header(text: str) -> str:
    return f"---\n{text}---\n"


@pytest.mark.parametrize(
    ("base", "ours", "theirs", "newer", "wanted"),
    [
        # One side alone has changed it, whichever is newer.
        ("t: 1\n", "t: 1\n", "t: 2\n", "ours", "t: 2\n"),
        ("t: 1\nu: 1\n", "t: 2\nu: 1\n", "t: 1\nu: 2\n", "theirs", "t: 2\nu: 2\n"),
        ("t: 1\nu: 1\n", "t: 1\n", "t: 2\nu: 1\n", "theirs", "t: 2\n"),
        ("t: 1\n", "t: 1 # why\n", "t: 1\nu: 2\n", "theirs", "t: 1 # why\nu: 2\n"),
        # Both have.
        ("t: 1\n", "t: 2\n", "t: 3\n", "ours", "t: 2\n"),
        ("t: 1\n", "t: 2\n", "t: 3\n", "theirs", "t: 3\n"),
        ("t: 1\n", "# n\nt: 2\nn: |\n  a\n\n  b\n", "t: 3\no: [1]\n", "ours",
         "# n\nt: 2\nn: |\n  a\n\n  b\no: [1]\n"),
        ("t: 1\nu: 1\n", "t: 2\n", "t: 1\nu: 2\n", "ours", "t: 2\nu: 2\n"),
        # Tags: both, without those that were taken away.
        ("tags: [a, b]\n", "tags: [a, b, c]\n", "tags: [b, d]\n", "ours", "tags: [b, c, d]\n"),
        ("", "tags:\n- a\n# end\n", "tags: [\"b, c\"]\n", "theirs", "tags: ['b, c', a]\n"),
        ("", "tags: [a]\n", "tags: b\n", "theirs", "tags: b\n"),
        ("", "tags: [a, b]\n", "tags: [b, a]\n", "theirs", "tags: [b, a]\n"),
        # What cannot be put together is the newer side's.
        ("", "t: {a: 1\n", "u: 2\n", "theirs", "u: 2\n"),
        ("", "{t: 1}\n", "u: 2\n", "ours", "{t: 1}\n"),
        ("", "t: &x 1\nu: *x\n", "t: 2\n", "theirs", "t: 2\n"),
        ("", "t: 1\nt: 2\n", "u: 1\n", "ours", "t: 1\nt: 2\n"),
    ],
)  # fmt: skip
def test_headers(base: str, ours: str, theirs: str, newer: merge.Side, wanted: str) -> None:
    text = merged(header(base), header(ours) + "b\n", header(theirs) + "a\n", newer)
    assert text == header(wanted) + "b\na\n"


def test_a_header_on_one_side_only() -> None:
    assert merged("x\n", "---\nt: 1\n---\nx\n", "x\ny\n") == "---\nt: 1\n---\nx\ny\n"
    assert merged("---\nt: 1\n---\nx\n", "x\n", "---\nt: 1\n---\ny\n") == "y\n"
    assert merged("---\nt: 1\n---\nx\n", "x\n", "---\nt: 2\n---\ny\n") == "---\nt: 2\n---\ny\n"
    assert merged("", "b\n", "---\nt: 2\n---\na\n") == "---\nt: 2\n---\nb\na\n"


def test_a_text_that_begins_with_a_rule() -> None:
    text = merged("", "---\n", "key: value\n---\nx\n")
    assert frontmatter.parse(text, "note.md").frontmatter in (None, "")
    assert set(text.splitlines()) == {"---", "key: value", "x"}


def test_another_version_has_a_name_that_is_free() -> None:
    assert merge.beside("a/plan.v1.png", set()) == "a/plan.v1 (other version).png"
    assert merge.beside(".env", {".env (other version)"}) == ".env (other version 2)"
    name = merge.beside("ä" * 124 + ".png", set())
    assert len(name.encode()) < 255
    assert name.endswith("ä (other version).png")


# What goes wrong


def test_others_are_faster(pair: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    pair.begin({"one.md": "one\n"})
    write(pair.b / "b.md", "b\n")
    left = [2]
    real = repository.Repository.run

    def slow(self: repository.Repository, *arguments: str, **options: float) -> object:
        if arguments[0] == "push" and self.folder == pair.b and left[0]:
            left[0] -= 1
            write(pair.a / "one.md", f"one {left[0]}\n")
            assert sync(pair.a, None).pushed
        return real(self, *arguments, **options)

    monkeypatch.setattr(repository.Repository, "run", slow)
    report = pair.sync(pair.b)
    assert report.pushed
    assert report.pulled == ("one.md",)
    assert (pair.b / "one.md").read_text() == "one 0\n"
    assert head(pair.b) == head(pair.remote, "main")
    left[0] = git.ATTEMPTS
    write(pair.b / "b.md", "bb\n")
    report = sync(pair.b, None)
    assert (report.error, report.pushed) == (
        "the remote or the notes have changed 5 times meanwhile: sync again",
        False,
    )
    assert sync(pair.b, None).pushed
    assert pair.both().error is None


def test_a_remote_that_is_away(pair: Pair) -> None:
    pair.begin({"one.md": "one\n"})
    away = pair.remote.with_name("away")
    pair.remote.rename(away)
    write(pair.a / "two.md", "two\n")
    report = sync(pair.a, str(pair.remote))
    assert report.committed == ("two.md",)
    assert not report.pushed
    assert report.error == (
        f"the remote {pair.remote}: '{pair.remote}' does not appear to be a git repository;"
        " the commits are kept here: put it right and sync again"
    )
    away.rename(pair.remote)
    report = pair.sync(pair.a)
    assert (report.committed, report.pushed) == ((), True)


@posix
def test_a_remote_that_does_not_answer(
    pair: Pair, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(pair.a / "one.md", "one\n")
    log = tmp_path / "pids"
    ssh = script(tmp_path / "ssh", f"echo $$ >> {log}\ntail -f /dev/null &\necho $! >> {log}\nwait")
    monkeypatch.setenv("GIT_SSH_COMMAND", str(ssh))
    monkeypatch.setattr(git, "TIMEOUT", 1)
    report = sync(pair.a, "ssh://example.org/kb.git")
    assert report.error == (
        "the remote ssh://example.org/kb.git: no answer in 1 seconds;"
        " the commits are kept here: put it right and sync again"
    )

    def alive(pid: str) -> bool:
        try:
            return Path(f"/proc/{pid}/stat").read_text().split(") ")[1][0] != "Z"
        except (FileNotFoundError, ProcessLookupError):
            return False

    deadline = time.monotonic() + 10  # a killed process may take a moment to go
    while (left := [pid for pid in log.read_text().split() if alive(pid)]) and (
        time.monotonic() < deadline
    ):
        pass
    assert left == []  # nothing that it has started


@posix
def test_ssh_asks_nothing(pair: Pair, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(pair.a / "one.md", "one\n")
    log = tmp_path / "log"
    script(tmp_path / "bin/ssh", f'echo "$@" >> {log}; echo no route >&2; exit 255')
    script(tmp_path / "mine", f"echo mine >> {log}; echo refused >&2; exit 255")
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}{os.pathsep}{os.environ['PATH']}")
    report = sync(pair.a, "ssh://example.org/kb.git")
    assert "ssh://example.org/kb.git: no route;" in (report.error or "")
    assert log.read_text().startswith("-o BatchMode=yes")
    log.unlink()
    run(pair.a, "config", "core.sshCommand", str(tmp_path / "mine"))
    assert "kb.git: refused;" in (sync(pair.a, None).error or "")
    assert set(log.read_text().split()) == {"mine"}  # it is asked what kind of one it is, too


@posix
def test_a_hook_of_the_remote_that_refuses(pair: Pair) -> None:
    pair.begin({"one.md": "one\n"})
    hook = script(pair.remote / "hooks/pre-receive", "echo; echo not on Sundays >&2; exit 1")
    write(pair.a / "two.md", "two\n")
    report = sync(pair.a, None)
    assert report.error == (
        f"the remote {pair.remote}: not on Sundays;"
        " the commits are kept here: put it right and sync again"
    )
    hook.unlink()
    assert pair.sync(pair.a).pushed


@posix
@pytest.mark.parametrize("hook", ["pre-commit", "commit-msg"])
def test_a_hook_that_refuses_the_commit(pair: Pair, hook: str) -> None:
    pair.begin({"one.md": "one\n"})
    before = head(pair.a)
    refuses = script(pair.a / f".git/hooks/{hook}", "echo Spelling: teh; echo more >&2; exit 1")
    write(pair.a / "one.md", "teh\n")
    report = sync(pair.a, None)
    assert report.error == (
        "git did not commit: Spelling: teh; no note is lost: put it right and sync again"
    )
    assert report.remote == str(pair.remote)
    assert (report.committed, head(pair.a)) == ((), before)
    refuses.unlink()
    assert pair.sync(pair.a).committed == ("one.md",)


@posix
def test_a_hook_that_refuses_the_push(pair: Pair) -> None:
    pair.begin({"one.md": "one\n"})
    refuses = script(pair.a / ".git/hooks/pre-push", "echo tests fail; exit 1")
    write(pair.a / "one.md", "two\n")
    assert f"the remote {pair.remote}: " in (sync(pair.a, None).error or "")
    refuses.unlink()
    assert pair.sync(pair.a).pushed


@posix
@pytest.mark.parametrize("conflict", [False, True])
def test_a_merge_that_fails_leaves_the_folder_as_it_was(pair: Pair, conflict: bool) -> None:
    pair.begin({"one.md": "one\n"})
    write(pair.a / "one.md", "one a\n")
    write(pair.b / ("one.md" if conflict else "two.md"), "one b\n")
    pair.sync(pair.a)
    test = 'git rev-parse -q --verify MERGE_HEAD >/dev/null && echo "no merges here" && exit 1'
    refuses = script(pair.b / ".git/hooks/pre-commit", f"{test}; exit 0")
    before = files(pair.b)
    report = sync(pair.b, None)
    assert report.error == (
        "git did not commit: no merges here; no note is lost: put it right and sync again"
    )
    assert (report.pulled, report.conflicts, report.pushed) == ((), (), False)
    assert files(pair.b) == before
    assert head_is_clean(pair.b)
    refuses.unlink()
    pair.both()


@posix
def test_a_hook_sees_the_merged_files(pair: Pair, tmp_path: Path) -> None:
    pair.begin({"one.md": "one\n", "x/two.md": "two\n"})
    write(pair.a / "one.md", "one a\n")
    write(pair.b / "one.md", "one b\n")
    pair.sync(pair.a)
    script(pair.b / ".git/hooks/pre-commit", f"cat one.md x/two.md >> {tmp_path / 'seen'}")
    pair.sync(pair.b)
    assert (tmp_path / "seen").read_text() == "one b\ntwo\none b\none a\ntwo\n"


@posix
def test_a_note_that_is_written_during_the_merge(pair: Pair) -> None:
    pair.begin({"one.md": "one\n"})
    write(pair.a / "one.md", "one a\n")
    write(pair.b / "one.md", "one b\n")
    pair.sync(pair.a)
    hook = f'git rev-parse -q --verify MERGE_HEAD && echo later >> {pair.b / "one.md"}; rm -f "$0"'
    script(pair.b / ".git/hooks/post-checkout", "exit 1")  # not run, and no trouble
    script(
        pair.b / ".git/hooks/pre-commit",
        f"git rev-parse -q --verify MERGE_HEAD >/dev/null || exit 0; {hook}",
    )
    report = pair.sync(pair.b)
    assert report.pushed
    lines = (pair.b / "one.md").read_text().splitlines()
    assert sorted(lines) == ["later", "one a", "one b"]
    (pair.b / ".git/hooks/post-checkout").unlink()
    pair.both()


def test_an_ignored_file_is_not_replaced_by_one_from_the_remote(pair: Pair) -> None:
    pair.begin({"one.md": "one\n"})
    write(pair.b / ".git/info/exclude", "private.md\n")
    write(pair.b / "private.md", "mine\n")
    write(pair.a / "private.md", "not mine\n")
    pair.sync(pair.a)
    report = sync(pair.b, None)
    assert report.error == (
        "private.md is in the way of a file from the remote: move it away and sync again"
    )
    assert (pair.b / "private.md").read_text() == "mine\n"
    (pair.b / "private.md").unlink()
    assert pair.sync(pair.b).pulled == ("private.md",)


def test_the_same_in_a_folder_without_commits(pair: Pair) -> None:
    write(Path(os.environ["HOME"], ".gitconfig"), f"[core]\nexcludesFile = {pair.b}/../ignored\n")
    write(pair.b / "../ignored", "private.md\n")
    write(pair.a / "one.md", "one\n")
    pair.sync(pair.a)
    write(pair.a / "private.md", "not mine\n")
    run(pair.a, "add", "-f", "private.md")
    pair.sync(pair.a)
    write(pair.b / "private.md", "mine\n")
    report = sync(pair.b, str(pair.remote))
    assert "private.md is in the way" in (report.error or "")
    assert files(pair.b) == {"private.md": b"mine\n"}


def test_a_lock_that_was_left(pair: Pair) -> None:
    pair.begin({"one.md": "one\n"})
    write(pair.a / "one.md", "two\n")
    write(pair.a / ".git/index.lock", "")
    report = sync(pair.a, None)
    assert "index.lock" in (report.error or "")
    (pair.a / ".git/index.lock").unlink()
    assert pair.sync(pair.a).committed == ("one.md",)


def test_the_work_tree_of_a_killed_merge_is_cleared(pair: Pair) -> None:
    pair.begin({"one.md": "one\n"})
    places = [pair.b / ".git" / f"kbstore-merge-{name}" for name in ("old", "new")]
    for place in places:
        run(pair.b, "worktree", "add", "-q", "--detach", str(place))
    os.utime(places[0], (1, 1))
    write(pair.a / "one.md", "one a\n")
    write(pair.b / "one.md", "one b\n")
    pair.sync(pair.a)
    assert sync(pair.b, None).error is None
    assert [place.exists() for place in places] == [False, True]  # another one may be at work
    assert "kbstore-merge-old" not in run(pair.b, "worktree", "list")


def test_two_syncs_of_one_folder_at_once(pair: Pair) -> None:
    pair.begin({"one.md": "one\n"})
    write(pair.a / "one.md", "one a\n")
    pair.sync(pair.a)
    write(pair.b / "one.md", "one b\n")
    threads = [threading.Thread(target=sync, args=(pair.b, str(pair.remote))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    pair.both()
    assert set(files(pair.b)["one.md"].split(b"\n")) == {b"one a", b"one b", b""}


# Without doing it


def test_a_dry_run_changes_nothing(pair: Pair) -> None:
    write(pair.a / "one.md", "one\n")
    database(pair.a / "kb.sqlite3")
    write(pair.a / ".gitignore", "*.log\n")
    write(pair.a / "a.log", "x")

    def dry(folder: Path, remote: str | None) -> GitReport:
        before = everything(pair.a), everything(pair.b), everything(pair.remote)
        report = sync(folder, remote, dry_run=True)
        assert report.dry_run
        assert (everything(pair.a), everything(pair.b), everything(pair.remote)) == before
        return report

    remote = str(pair.remote)
    assert dry(pair.a, remote) == GitReport(
        remote=remote,
        branch="main",
        committed=(".gitignore", "one.md"),
        notes=("the remote is empty",),
        dry_run=True,
    )
    assert dry(pair.a, None).notes == (
        "there is no remote: the notes are committed in the folder only",
    )
    pair.sync(pair.a)
    assert dry(pair.b, remote).notes == ("the remote has something new",)
    pair.sync(pair.b)
    assert dry(pair.b, None).notes == ("the remote has nothing new",)
    os.utime(pair.b / "one.md", (1, 1))  # not even the index is refreshed
    assert dry(pair.b, None).committed == ()
    write(pair.a / "one.md", "one a\n")
    (pair.a / ".gitignore").unlink()
    write(pair.a / "staged.md", "x\n")
    run(pair.a, "add", "staged.md")
    assert dry(pair.a, None).committed == (".gitignore", "a.log", "one.md", "staged.md")
    pair.sync(pair.a)
    write(pair.b / "two.md", "two\n")
    report = dry(pair.b, None)
    assert (report.committed, report.notes) == (("two.md",), ("the remote has something new",))
    assert "not appear" in (dry(pair.b, str(pair.remote / "none")).error or "")


# Names and numbers

NAMES = [
    "with space.md",
    "quote\"s and 'more'.md",
    "-dash.md",
    "--force.md",
    "ümläut/日本語.md",
    unicodedata.normalize("NFD", "café.md"),
    "#hash.md",
    "star*[1]?.md",
    ":(top)colon.md",
    "~tilde.md",
    "name~HEAD",
    "deep/" * 20 + "note.md",
]


def test_names(pair: Pair) -> None:
    names = list(NAMES)
    if sys.platform != "win32":
        names += ["new\nline.md", "tab\t.md", "back\\slash.md", "\x01control.md"]
    pair.begin({name: f"{name!r}\nend\n" for name in names})
    assert sorted(files(pair.b)) == sorted(names)
    for name in names:
        write(pair.a / name, f"{name!r}\nend a\n")
        write(pair.b / name, f"{name!r}\nend b\n")
    report = pair.both()
    found = files(pair.a)
    for name in names:
        if name.endswith(".md"):
            assert found[name].decode() == f"{name!r}\nend b\nend a\n"
    assert found["name~HEAD (other version)"] == b"'name~HEAD'\nend a\n"
    assert len(report.conflicts) == len(names)
    assert all("\n" not in path for path in report.pulled)
    for name in names:
        (pair.a / name).unlink()
    pair.both()
    assert files(pair.b).keys() == {"name~HEAD (other version)"}


@pytest.mark.skipif(sys.platform != "linux", reason="names that are not UTF-8")
def test_a_name_that_is_no_text(pair: Pair) -> None:
    name = os.fsdecode(b"latin-\xe4.md")
    pair.begin({name: "x\n"})
    assert files(pair.b) == {name: b"x\n"}
    write(pair.a / name, "a\n")
    write(pair.b / name, "b\n")
    report = pair.both()
    assert files(pair.a) == {name: b"b\na\n"}
    assert [path for path, _ in report.conflicts] == ["latin-?.md"]
    json.dumps(report.as_dict()).encode()


def test_a_thousand_notes(pair: Pair) -> None:
    for number in range(1_000):
        write(pair.a / f"{number % 10}/{number}.md", f"# {number}\n\ntext\n")
    report = pair.sync(pair.a)
    assert len(report.committed) == 1_000
    assert message(pair.a).startswith("1000 notes added\n")
    assert len(pair.sync(pair.b).pulled) == 1_000
    for number in range(500):
        write(pair.a / f"{number % 10}/{number}.md", f"# {number}\n\ntext a\n")
        write(pair.b / f"{999 - number:03}.md", "new\n")
    pair.both()
    assert len(files(pair.a)) == 1_500


# The storm

ACTIONS = {"new": 3, "insert": 8, "change": 4, "cut": 2, "delete": 1, "move": 2, "retitle": 1}


class Storm:
    """Two people who edit, delete and rename the same notes, and sync now and then.

    Every line that is written has a number. A line is gone when somebody who sees it deletes it,
    alone or with its note; every other one has to be in the notes at the end.
    """

    def __init__(self, pair: Pair, seed: int) -> None:
        self.pair = pair
        self.random = random.Random(seed)
        self.number = 0
        self.removed: set[str] = set()
        self.committed: set[str] = set()

    def line(self) -> str:
        self.number += 1
        shapes = ("text {}", "- item {}", "| row | {} |", "<<<<<<< {}", "> quote {}", "## Head {}")
        return self.random.choice(shapes).format(f"N{self.number}N") + "\n"

    def text(self) -> str:
        header = f"---\ntitle: Note\ntags: [t{self.random.randrange(9)}]\n---\n"
        body = "".join(self.line() for _ in range(self.random.randrange(1, 8)))
        code = "```\n" + self.line() + "```\n" if self.random.random() < 0.3 else ""
        return self.random.choice((header, "")) + body + "\n=======\n" + code

    def name(self) -> str:
        folder = self.random.choice(("", "", "x/", "y/", "y/z/"))
        end = self.random.choice((".md", ".md", ".md", ".txt"))
        return f"{folder}{self.random.choice('abcd')}{end}" if self.random.random() < 0.97 else "x"

    def act(self, folder: Path) -> None:
        names = sorted(files(folder))
        action = self.random.choices([*ACTIONS], [*ACTIONS.values()])[0]
        if action == "new" or not names:
            file = folder / self.name()
            if self.can_be(file):
                write(file, self.text())
            return
        hot = names[:1] if self.random.random() < 0.5 else names  # both edit one of them often
        file = folder / self.random.choice(hot)
        text = file.read_bytes().decode()
        if action == "delete":
            self.removed |= numbers(text)
            file.unlink()
        elif action == "move":
            to = folder / self.name()
            if self.can_be(to):
                to.parent.mkdir(parents=True, exist_ok=True)
                file.rename(to)
                if self.random.random() < 0.5:
                    write(to, f"{text}{self.line()}")
        elif action == "retitle":
            write(file, text.replace("title: ", f"title: {self.random.randrange(9)} ", 1))
        else:
            body = frontmatter.split(text)[1]
            lines = body.splitlines(keepends=True)
            at = self.random.choice((0, len(lines), self.random.randrange(len(lines) + 1)))
            old = lines[at : at + 1] if action != "insert" else []
            new = [self.line()] if action != "cut" else []
            self.removed |= numbers("".join(old))
            lines[at : at + len(old)] = new
            write(file, text.removesuffix(body) + "".join(lines))

    def can_be(self, file: Path) -> bool:
        above = [p for p in file.parents if {self.pair.a, self.pair.b} & {*p.parents}]
        return not file.exists() and all(p.is_dir() or not p.exists() for p in above)

    def sync(self, folder: Path) -> None:
        self.committed |= numbers(b"".join(files(folder).values()).decode())
        self.pair.sync(folder)
        for name, data in files(folder).items():
            marks = re.findall(r"^(?:<<<<<<<|>>>>>>>|\|\|\|\|\|\|\|).*$", data.decode(), re.M)
            assert all(re.fullmatch(r"<<<<<<< N\d+N", mark) for mark in marks), (name, marks)
            assert "~" not in name

    def run(self, rounds: int) -> None:
        for _ in range(rounds):
            for folder in self.random.sample((self.pair.a, self.pair.b), 2):
                for _ in range(self.random.randrange(4)):
                    self.act(folder)
                if self.random.random() < 0.7:
                    self.sync(folder)
        for folder in (self.pair.a, self.pair.b, self.pair.a):
            self.sync(folder)
        self.check()

    def check(self) -> None:
        assert files(self.pair.a) == files(self.pair.b)
        assert head(self.pair.a) == head(self.pair.b)
        there = numbers(b"".join(files(self.pair.a).values()).decode())
        assert self.committed - self.removed <= there
        for folder in (self.pair.a, self.pair.b):
            objects = run(folder, "rev-list", "--objects", "HEAD").splitlines()
            ids = "".join(line.split()[0] + "\n" for line in objects).encode()
            command = ["git", "-C", folder, "cat-file", "--batch"]
            history = subprocess.run(command, input=ids, capture_output=True, check=True).stdout
            assert self.committed <= numbers(history.decode(errors="replace"))


def numbers(text: str) -> set[str]:
    return set(re.findall(r"N\d+N", text))


def test_nothing_is_lost_in_a_storm(pair: Pair) -> None:
    Storm(pair, seed=1).run(ROUNDS)


def test_the_report_is_frozen() -> None:
    report = GitReport(remote=None, branch="main")
    change: Callable[[], None] = lambda: setattr(report, "branch", "x")  # noqa: E731
    with pytest.raises(AttributeError):
        change()
