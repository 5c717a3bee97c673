"""A folder of notes and its copies elsewhere are kept equal by git: commit, fetch, merge, push.

The installed git does it, with the hooks, the credentials and the config that its user has given
it. Histories that have gone apart are merged in a work tree of their own, inside the repository:
whatever happens meanwhile, no note in the folder is ever half merged, and nobody who reads one
sees a conflict marker.
"""

from __future__ import annotations

import os
import re
import tempfile
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from . import commit
from .commit import shown
from .conflict import join
from .errors import GitError
from .repository import Answer, Failed, Repository, masked

TIMEOUT = 120.0  # seconds that one call over the network may take
ATTEMPTS = 5  # to push, while others are faster
OLDEST_GIT = (2, 20)

_BRANCH = "main"  # of a new repository
_UNFINISHED = {
    "MERGE_HEAD": "merge",
    "rebase-merge": "rebase",
    "rebase-apply": "rebase",
    "CHERRY_PICK_HEAD": "cherry-pick",
    "REVERT_HEAD": "revert",
}


class _InTheWay(Failed):
    """Files in the folder keep what was fetched from being written."""


@dataclass(frozen=True, slots=True)
class GitReport:
    """What a sync has done, or, with ``dry_run``, would do: ``committed`` here, ``pulled`` from the
    remote, as paths of files; ``conflicts`` are files that both sides had changed, and what was
    done with each. ``error`` is why it ended early: the notes and the commits are kept, and the
    next sync goes on."""

    remote: str | None
    branch: str
    committed: tuple[str, ...] = ()
    pulled: tuple[str, ...] = ()
    conflicts: tuple[tuple[str, str], ...] = ()
    pushed: bool = False
    error: str | None = None
    notes: tuple[str, ...] = ()
    dry_run: bool = False

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


def sync(folder: Path, remote: str | None, *, dry_run: bool = False) -> GitReport:
    """Commit what has changed in a folder, merge what the remote has, push what it has not.

    ``remote`` is an address or the name of one in the config; None: ``origin``, or no remote. A
    folder without a repository gets one. ``dry_run`` changes nothing, here or there.

    Raises GitError (no git or too old a one, no folder, inside another repository, a merge or the
    like going on). All else that goes wrong stands in the report.
    """
    work = _Sync(Path(folder).expanduser().absolute(), remote)
    try:
        work.check()
        if dry_run:
            work.preview()
        else:
            work.run()
    except (Failed, OSError) as error:
        work.error = work.git.masked(" ".join(str(error).split()))
    return work.report(dry_run)


class _Sync:
    """One sync of a folder, and what it has done so far."""

    def __init__(self, folder: Path, remote: str | None) -> None:
        self.folder = folder
        self.git = Repository(folder)
        self.wanted = remote or None
        self.remote = ""  # as git takes it: a name or an address
        self.address: str | None = None
        self.is_new = False
        self.branch = self.there = _BRANCH  # here and on the remote
        self.committed: dict[str, None] = {}
        self.pulled: dict[str, None] = {}
        self.conflicts: dict[str, str] = {}
        self.notes: dict[str, None] = {}
        self.pushed = False
        self.error: str | None = None

    def report(self, dry_run: bool) -> GitReport:
        return GitReport(
            remote=masked(self.address) if self.address else None,
            branch=self.branch,
            committed=tuple(map(shown, sorted(self.committed))),
            pulled=tuple(map(shown, sorted(self.pulled))),
            conflicts=tuple((shown(p), shown(said)) for p, said in self.conflicts.items()),
            pushed=self.pushed,
            error=self.error and shown(self.error),
            notes=tuple(map(shown, self.notes)),
            dry_run=dry_run,
        )

    # What must be so

    def check(self) -> None:
        """Raises GitError."""
        folder = self.folder
        if not folder.is_dir():
            raise GitError(f"there is no folder {folder}: make it, or give another")
        try:
            version = self.git.text("version") or ""
        except OSError:
            raise GitError("git is not installed: install it (https://git-scm.com)") from None
        found = re.search(r"(\d+)\.(\d+)", version)
        if found and (int(found[1]), int(found[2])) < OLDEST_GIT:
            oldest = ".".join(map(str, OLDEST_GIT))
            raise GitError(f"git {found[0]} is too old: install {oldest} or newer")
        answer = self.git.run("rev-parse", "--show-toplevel")
        if answer.code:
            if "not a git repository" not in answer.line or (folder / ".git").exists():
                raise GitError(f"git cannot use {folder}: {answer.line}")
            self.is_new = True
            return
        top = os.fsdecode(answer.out).removesuffix("\n")
        if not os.path.samefile(top, folder):
            raise GitError(
                f"{folder} lies in the git repository {top}: `git init` in the folder"
                " makes it one of its own, or sync that one"
            )
        self._check_state()

    def _check_state(self) -> None:
        place = self.git.path("rev-parse", "--absolute-git-dir")
        for name, what in _UNFINISHED.items():
            if (place / name).exists():
                raise GitError(
                    f"a {what} is going on in {self.folder}: end it with `git {what} --continue`"
                    f" or `git {what} --abort`"
                )
        branch = self.git.text("symbolic-ref", "-q", "HEAD")
        if branch is None:
            raise GitError(f"{self.folder} is on no branch (detached HEAD): check one out first")
        self.branch = self.there = branch.removeprefix("refs/heads/")
        if conflicts := self.git.index()[1]:
            name = shown(min(conflicts))
            raise GitError(f"{name} in {self.folder} has a conflict: end it and `git add` the file")

    def preview(self) -> None:
        """Find what would be done, and change nothing: not even the index is refreshed."""
        with tempfile.TemporaryDirectory() as place:
            options: tuple[str, ...] = ("--no-optional-locks",)
            if self.is_new:
                options = (f"--git-dir={place}", f"--work-tree={self.folder}")
                Repository(self.folder, options).out("init", "-q")
            gone, new, told = commit.find(Repository(self.folder, options))
        staged = {} if self.is_new else commit.staged(self.git)
        self.committed = dict.fromkeys([*gone, *new, *staged])
        self._tell(*told)
        if self._find_remote():
            theirs = self._look()
            if theirs is None:
                self._tell("the remote is empty")
            elif self._has(theirs):
                self._tell("the remote has nothing new")
            else:
                self._tell("the remote has something new")

    # What is done

    def run(self) -> None:
        if self.is_new:
            self.git.out("init", "-q")
            self.git.out("symbolic-ref", "HEAD", f"refs/heads/{_BRANCH}")  # old gits lack init -b
        for key, known in (("name", None), ("email", os.environ.get("EMAIL"))):
            if not known and not self.git.config.get(f"user.{key}"):
                value = "kbstore" if key == "name" else "kbstore@localhost"
                self.git.options += ("-c", f"user.{key}={value}")
        has_remote = self._find_remote()
        if self.remote == self.address and not self._address_of("origin"):
            self.git.out("remote", "add", "--", "origin", self.remote)
            self.remote = "origin"
        commit.exclude(self.git)
        self._commit()
        if has_remote:
            self._exchange()

    def _commit(self) -> bool:
        """Commit all changes in the folder; whether there were any."""
        gone, new, told = commit.find(self.git)
        self._tell(*told)
        changes = commit.stage(self.git, gone, new)
        if changes:
            commit.commit(self.git, "", changes, commit.named(changes))
            self.committed |= dict.fromkeys(changes)
        return bool(changes)

    def _exchange(self) -> None:
        theirs = self._look()
        for _ in range(ATTEMPTS):
            if theirs and not self._has(theirs):
                try:
                    theirs = self._pull(theirs)
                except _InTheWay:
                    if not self._commit():  # nobody has written a note meanwhile
                        raise
                    continue
            if self.git.commit("HEAD") in (None, theirs):
                return
            target = f"HEAD:refs/heads/{self.there}"
            answer = self._call("push", "-q", "--no-recurse-submodules", "--", self.remote, target)
            if not answer.code:
                self.pushed = True
                return
            seen, theirs = theirs, self._look()
            self.pushed = theirs == self.git.commit("HEAD")  # it has come through all the same
            if theirs == seen:
                raise self._unreachable(answer.line)
        raise Failed(f"the remote or the notes have changed {ATTEMPTS} times meanwhile: sync again")

    def _find_remote(self) -> bool:
        """Find what to call the remote: by its name where the config has one."""
        origin = self._address_of("origin")
        if self.wanted is None:
            self.remote, self.address = "origin", origin
        elif address := self._address_of(self.wanted):
            self.remote, self.address = self.wanted, address
        else:
            place = Path(self.wanted).expanduser()
            self.wanted = str(place.resolve()) if place.exists() else self.wanted
            self.remote, self.address = self.wanted, self.wanted
            if origin == self.wanted:
                self.remote = "origin"
        if self.address is None:
            self._tell("there is no remote: the notes are committed in the folder only")
            return False
        self.git.hidden.append(self.address)
        return True

    def _address_of(self, name: str) -> str | None:
        return self.git.config.get(f"remote.{name}.url")

    def _look(self) -> str | None:
        """The commit on the remote: that of our branch, else of its default one; None: neither."""
        ours = f"refs/heads/{self.branch}"
        answer = self._call("ls-remote", "--symref", "--", self.remote, "HEAD", ours)
        if answer.code:
            raise self._unreachable(answer.line)
        names: dict[str, str] = {}
        for line in os.fsdecode(answer.out).splitlines():
            value, name = line.split("\t", 1)
            names[f"ref: {name}" if value.startswith("ref: ") else name] = value
        default = names.get("ref: HEAD", "").removeprefix("ref: refs/heads/")
        if ours not in names and "HEAD" in names and default:
            self.there = default
            self._tell(f"the remote has no branch {self.branch}: its {default} is used")
            return names["HEAD"]
        self.there = self.branch
        return names.get(ours)

    def _call(self, *arguments: str) -> Answer:
        return self.git.run(*arguments, timeout=TIMEOUT)

    def _unreachable(self, line: str) -> Failed:
        return Failed(
            f"the remote {masked(self.address or '')}: {line};"
            " the commits are kept here: put it right and sync again"
        )

    def _has(self, theirs: str) -> bool:
        return self.git.is_ancestor(theirs, "HEAD")

    def _pull(self, theirs: str) -> str:
        """Fetch what the remote has, and bring the folder to a commit in which both sides are.

        Returns the commit that was fetched. Raises Failed; _InTheWay: when all else was done.
        """
        options = ("-q", "--no-tags", "--no-recurse-submodules")
        branch = f"refs/heads/{self.there}"
        answer = self._call("fetch", *options, "--", self.remote, branch)
        if answer.code:
            raise self._unreachable(answer.line)
        ours = self.git.commit("HEAD")
        theirs = self.git.commit("FETCH_HEAD") or theirs
        if ours and not self.git.text("merge-base", ours, theirs):
            self._tell("the folder and the remote had no common history: they are joined")
        result, said = join(self.git, ours, theirs)
        changes = commit.between(self.git, ours, result)
        if ours is None:  # then git does not look whether there are ignored files of these names
            for path in changes:
                if os.path.lexists(self.folder / path):
                    raise _in_the_way(path)
        answer = self.git.run("merge", "-q", "--ff-only", "--no-overwrite-ignore", result)
        if answer.code:
            named = [line[1:] for line in answer.said.splitlines() if line.startswith("\t")]
            raise _in_the_way(named[0]) if named else _InTheWay(f"git did not merge: {answer.line}")
        self.pulled |= dict.fromkeys(changes)
        self.conflicts |= said
        return theirs

    def _tell(self, *notes: str) -> None:
        self.notes |= dict.fromkeys(notes)


def _in_the_way(path: str) -> _InTheWay:
    return _InTheWay(f"{path} is in the way of a file from the remote: move it away and sync again")
