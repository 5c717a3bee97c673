"""The installed git, run in one folder as a program must: it asks nothing, it speaks English, and
no secret of an address is in what it says.
"""

from __future__ import annotations

import os
import re
import secrets
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

from . import network

_ASIDE = "kbstore-merge-"  # work trees, in the folder of the repository itself
_STALE = 3_600  # seconds after which one of them was left behind
_GRACE = 5.0  # seconds to remove its lock files, for a git that is stopped
_MAX_LINE = 300  # characters

# Set where the program itself is run by a git, in a hook: of another repository than ours.
_OF_THE_HOST = (
    "GIT_ALTERNATE_OBJECT_DIRECTORIES",
    "GIT_COMMON_DIR",
    "GIT_DIR",
    "GIT_INDEX_FILE",
    "GIT_INTERNAL_SUPER_PREFIX",
    "GIT_NAMESPACE",
    "GIT_OBJECT_DIRECTORY",
    "GIT_PREFIX",
    "GIT_QUARANTINE_PATH",
    "GIT_SHALLOW_FILE",
    "GIT_WORK_TREE",
)
_ADDRESS = re.compile(r"[A-Za-z][\w+.-]*://[^\s'\"]+")
_NOISE = ("hint:", "warning:", "to ", "**")  # before what is the matter


class Failed(Exception):
    """Git could not do it; the text is one line."""


class Entry(NamedTuple):
    """A file of a tree or of the index."""

    mode: str
    id: str

    @property
    def is_file(self) -> bool:
        return self.mode.startswith("100")  # no link, no submodule


class Answer(NamedTuple):
    """``said`` is what it says beside what it prints, without secrets."""

    code: int
    out: bytes
    said: str

    @property
    def line(self) -> str:
        """Of what it says, the line that tells what is wrong."""
        text = self.said or self.out.decode(errors="replace")
        lines = [line.removeprefix("remote:").strip() for line in text.splitlines()]
        told = [line for line in lines if line and not line.lower().startswith(_NOISE)]
        line = next(iter(told or lines), "").removeprefix("fatal: ").removeprefix("error: ")
        return line[:_MAX_LINE] or "it does not say why"


class Repository:
    """Git in ``folder``. ``options`` come before every command; ``hidden`` are addresses that
    stand nowhere as they are."""

    def __init__(
        self, folder: Path, options: Iterable[str] = (), hidden: Iterable[str] = ()
    ) -> None:
        self.folder = folder
        self.options = (*options,)
        self.hidden = [*hidden]

    def run(self, *arguments: str, data: bytes = b"", timeout: float | None = None) -> Answer:
        """What git answers, whether it goes well or not. Raises OSError where there is no git."""
        command = ["git", "-C", str(self.folder), *self.options, *arguments]
        # Files, not pipes: a helper that outlives its git would hold a pipe open.
        with (
            tempfile.TemporaryFile() as given,
            tempfile.TemporaryFile() as out,
            tempfile.TemporaryFile() as err,
        ):
            given.write(data)
            given.seek(0)
            process = subprocess.Popen(
                command,
                stdin=given if data else subprocess.DEVNULL,
                stdout=out,
                stderr=err,
                env=self._environment(timeout is not None),
                start_new_session=True,  # to stop what it has started, too
            )
            try:
                code = process.wait(timeout)
            except subprocess.TimeoutExpired:
                _stop(process)
                return Answer(-1, b"", f"no answer in {timeout:g} seconds")
            except BaseException:
                _stop(process)
                raise
            out.seek(0)
            err.seek(0)
            said = err.read().decode(errors="replace")
            return Answer(code, out.read(), self.masked(said))

    def out(self, *arguments: str, data: bytes = b"") -> bytes:
        """What it prints. Raises Failed where it does not go well."""
        answer = self.run(*arguments, data=data)
        if answer.code:
            raise Failed(f"git {arguments[0]} has failed in {self.folder}: {answer.line}")
        return answer.out

    def text(self, *arguments: str) -> str | None:
        """The one line that it prints; None where it does not go well, or prints nothing."""
        answer = self.run(*arguments)
        return (os.fsdecode(answer.out).removesuffix("\n") or None) if not answer.code else None

    def path(self, *arguments: str) -> Path:
        """The path that it prints, relative to the folder or not. Raises Failed."""
        return self.folder / os.fsdecode(self.out(*arguments)).removesuffix("\n")

    def names(self, *arguments: str) -> list[str]:
        """What it prints with ``-z``."""
        return [os.fsdecode(name) for name in self.out(*arguments).split(b"\0") if name]

    @cached_property
    def config(self) -> dict[str, str]:
        """The user's, the repository's and the machine's together, as at the first look."""
        pairs = (line.partition("\n") for line in self.names("config", "--list", "-z"))
        return {key: value for key, _, value in pairs}

    def commit(self, name: str) -> str | None:
        """The id of a commit, if there is one of this name."""
        return self.text("rev-parse", "-q", "--verify", f"{name}^0")

    def is_ancestor(self, old: str, new: str) -> bool:
        """False, too, where one of the two is not here yet."""
        return self.run("merge-base", "--is-ancestor", old, new).code == 0

    def tree(self, name: str | None) -> dict[str, Entry]:
        """The files of a commit by path; none of no commit."""
        if name is None:
            return {}
        lines = (line.split("\t", 1) for line in self.names("ls-tree", "-r", "-z", name))
        return {path: Entry(head.split()[0], head.split()[2]) for head, path in lines}

    def index(self) -> tuple[dict[str, Entry], dict[str, dict[int, Entry]]]:
        """The files of the index; and those in conflict, of each 1: what both sides began with,
        2: ours, 3: theirs."""
        files: dict[str, Entry] = {}
        conflicts: dict[str, dict[int, Entry]] = {}
        for line in self.names("ls-files", "-s", "-z"):
            head, path = line.split("\t", 1)
            mode, id_, stage = head.split()
            if stage == "0":
                files[path] = Entry(mode, id_)
            else:
                conflicts.setdefault(path, {})[int(stage)] = Entry(mode, id_)
        return files, conflicts

    def set_index(self, files: dict[str, Entry | None]) -> None:
        """Give the index these files and none of those that are None."""
        gone = [path for path, entry in files.items() if entry is None]
        new = [f"{e.mode} {e.id} 0\t{path}" for path, e in files.items() if e is not None]
        for options, lines in ((("--force-remove", "--stdin"), gone), (("--index-info",), new)):
            if lines:
                data = b"".join(os.fsencode(line) + b"\0" for line in lines)
                self.out("update-index", "-z", *options, data=data)

    def blobs(self, ids: Iterable[str]) -> dict[str, bytes]:
        """The contents of files by their ids."""
        data = self._batch("--batch", ids)
        found: dict[str, bytes] = {}
        at = 0
        while at < len(data):
            end = data.index(b"\n", at)
            id_, _, size = data[at:end].decode().split()
            found[id_] = data[end + 1 : end + 1 + int(size)]
            at = end + int(size) + 2
        return found

    def sizes(self, ids: Iterable[str]) -> dict[str, int]:
        lines = self._batch("--batch-check", ids).decode().splitlines()
        return {line.split()[0]: int(line.split()[2]) for line in lines}

    def _batch(self, option: str, ids: Iterable[str]) -> bytes:
        wanted = "".join(f"{id_}\n" for id_ in sorted(set(ids)))
        return self.out("cat-file", option, data=wanted.encode()) if wanted else b""

    def masked(self, text: str) -> str:
        """The text without the secrets of any address in it."""
        for address in self.hidden:
            text = text.replace(address, masked(address))
        # Git names addresses also without their users, or as the config rewrites them.
        return _ADDRESS.sub(lambda found: masked(found[0]), text)

    def _environment(self, goes_out: bool) -> dict[str, str]:
        environment = {k: v for k, v in os.environ.items() if k not in _OF_THE_HOST}
        environment |= {
            "GIT_EDITOR": "true",
            "GIT_MERGE_AUTOEDIT": "no",
            "GIT_TERMINAL_PROMPT": "0",
            "LC_ALL": "C",
        }
        theirs = "GIT_SSH_COMMAND" in environment or "GIT_SSH" in environment
        if goes_out and not theirs and not self.config.get("core.sshcommand"):
            environment["GIT_SSH_COMMAND"] = "ssh -o BatchMode=yes"
        return environment


def masked(address: str) -> str:
    """The address of a remote without what may be secret in it."""
    if "://" in address:
        return network.shown(address)
    return re.sub(r"^[^/@]*:[^/@]*@", "", address)  # user:password@host:path


@contextmanager
def aside(work: Repository, commit: str) -> Iterator[Repository]:
    """A work tree of its own at a commit, for as long as it is needed. Raises Failed."""
    home = work.path("rev-parse", "--absolute-git-dir")
    for old in home.glob(f"{_ASIDE}*"):
        if time.time() - old.stat().st_mtime > _STALE:  # of a process that was killed
            _remove(work, old)
    place = home / f"{_ASIDE}{secrets.token_hex(8)}"
    try:
        # The files come by a reset, which runs no hook.
        work.out("worktree", "add", "-q", "--detach", "--no-checkout", str(place), commit)
        there = Repository(place, work.options, work.hidden)
        there.out("reset", "-q", "--hard")
        yield there
    finally:
        _remove(work, place)


def _remove(work: Repository, place: Path) -> None:
    work.run("worktree", "remove", "--force", str(place))
    shutil.rmtree(place, ignore_errors=True)


def _stop(process: subprocess.Popen[bytes]) -> None:
    """End a git and what it has started, such as ssh."""
    for last in (False, True):
        try:
            if sys.platform == "win32":
                process.kill()
            else:
                os.killpg(process.pid, signal.SIGKILL if last else signal.SIGTERM)
        except ProcessLookupError:
            pass
        try:
            process.wait(_GRACE)
        except subprocess.TimeoutExpired:
            continue
        return
