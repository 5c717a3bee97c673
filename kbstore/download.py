"""Downloads of a large file that go on where they stopped, one process at a time."""

from __future__ import annotations

import errno
import json
import os
import re
import shutil
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, TYPE_CHECKING

from . import network
from .errors import ConflictError, InputError, ModelUnavailableError

if sys.platform == "win32":
    import msvcrt
else:
    import fcntl

if TYPE_CHECKING:
    from requests import Response

_PIECE = 64 * 1024  # bytes read at once; of a connection that is cut, the last piece is lost
_RETRIES = 5  # tries in a row that bring nothing

Progress = Callable[[int, int | None], None]  # (bytes there, of how many, if the server says so)


class Part:
    """What is there of a download: ``<name>.part``, and in ``<name>.part.json``, which is the lock
    as well, of which file it is in which version (its ETag or its date)."""

    def __init__(self, file: Path, side: IO[bytes]) -> None:
        self.data = part_of(file)
        self._side = side

    @property
    def size(self) -> int:
        return self.data.stat().st_size if self.data.exists() else 0

    def version(self, url: str) -> str | None:
        """None: another file's, or one that may be another when it is asked for again."""
        self._side.seek(0)
        try:
            kept = json.loads(self._side.read())
            return str(kept["version"]) if kept["url"] == network.shown(url) else None
        except (ValueError, TypeError, LookupError):  # cut short, or another program's
            return None

    def begin(self, url: str, version: str | None) -> None:
        """Forget what is there. In this order: never old bytes under the new version."""
        self.data.write_bytes(b"")
        self._side.truncate(0)
        if version:
            self._side.write(json.dumps({"url": network.shown(url), "version": version}).encode())
        self._side.flush()


def part_of(file: Path) -> Path:
    """Where a download of ``file`` is until it is whole."""
    return file.with_name(file.name + ".part")


@contextmanager
def claim(file: Path) -> Iterator[Part]:
    """The part of a download, for this process alone. Raises ConflictError."""
    path = file.with_name(file.name + ".part.json")
    while True:
        with path.open("a+b") as side:
            if not _lock(side):
                raise ConflictError(f"another download of {file} is running: wait for its end")
            # The one that had it has removed it at its end: then the lock is one of no file.
            if not path.exists() or not os.path.samestat(path.stat(), os.fstat(side.fileno())):
                continue
            part = Part(file, side)
            try:
                yield part
            finally:
                if not part.data.exists():
                    with suppress(OSError):  # Windows keeps it while it is open
                        path.unlink()
            return


def _lock(stream: IO[bytes]) -> bool:
    """Whether this process has it now; its end, however it comes, gives it back."""
    try:
        if sys.platform == "win32":
            stream.seek(_PIECE)  # a locked byte cannot be read: one beyond the end
            msvcrt.locking(stream.fileno(), msvcrt.LK_NBLCK, 1)
        else:
            fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno in (errno.EAGAIN, errno.EACCES, errno.EDEADLK):
            return False
        raise
    return True


def fetch(url: str, part: Part, progress: Progress | None) -> None:
    """Fetch until the part is as long as the server says, as long as there is progress."""
    from requests import RequestException
    from requests.exceptions import SSLError

    best = begun = part.size if part.version(url) else 0
    tries = 0
    while True:
        delay, problem = None, "the server's file changes while it is fetched"
        try:
            if _request(url, part, progress):
                return
        except RequestException as error:
            problem = network.explain(error, url) or type(error).__name__
            if isinstance(error, ValueError):
                raise InputError(problem) from None
            if isinstance(error, SSLError):
                tries = _RETRIES  # and will be so the next time
            if error.response is not None:
                delay = network.retry_after(error.response)
        except OSError as error:
            if error.errno in (errno.ENOSPC, errno.EDQUOT):
                raise _full(part, None) from None
            raise
        tries = 0 if part.size > best else tries + 1
        best = max(best, part.size)
        if tries > (_RETRIES if best > begun else 1):
            kept = f"; {part.data} keeps {part.size:,} bytes to go on from" if part.size else ""
            raise ModelUnavailableError(f"the download failed: {problem}{kept}")
        delay = network.backoff(tries) if delay is None else delay
        network.wait(min(delay, network.PATIENT.longest))


def _request(url: str, part: Part, progress: Progress | None) -> bool:
    """One request for what is missing; whether the part is whole then.

    Raises requests.RequestException where it may go better the next time, ModelUnavailableError
    where it will not.
    """
    import requests

    version = part.version(url)
    start = part.size if version else 0
    headers = {"Accept-Encoding": "identity"}  # else the lengths are those of something else
    if version and start:
        headers |= {"Range": f"bytes={start}-", "If-Range": version}
    timeout = (network.PATIENT.connect, network.PATIENT.read)
    with requests.get(url, headers=headers, timeout=timeout, stream=True) as response:
        status = response.status_code
        first, total = _range(response)
        if network.passing(status):
            raise requests.HTTPError(response=response)
        if start and status == 416 and total == start:
            return True
        changed = _versions(response) and version not in _versions(response)
        if start and (status == 416 or (status == 206 and (first != start or changed))):
            part.begin(url, None)
            return False
        encoding = response.headers.get("Content-Encoding", "identity")
        if (status != 200 and not (start and status == 206)) or encoding != "identity":
            raise ModelUnavailableError(
                f"{network.shown(url)} does not give the file as it is (HTTP {status}):"
                " give another address with --url or KBSTORE_MODEL_URL"
            )
        if status == 200:
            part.begin(url, next(iter(_versions(response)), None))
        missing = None if total is None else total - part.size
        if missing and missing > shutil.disk_usage(part.data.parent).free:
            raise _full(part, missing)
        with part.data.open("ab") as stream:
            for piece in response.iter_content(_PIECE):
                stream.write(piece)
                if progress:
                    progress(stream.tell(), total)
    return total is None or part.size == total


def _range(response: Response) -> tuple[int | None, int | None]:
    """The first byte of an answer, and of how many in all, as far as it says."""
    if response.status_code in (206, 416):
        said = response.headers.get("Content-Range", "")
        found = re.fullmatch(r"bytes (?:(\d+)-\d+|\*)/(?:(\d+)|\*)", said)
        first, total = found.groups() if found else (None, None)
    else:
        first, total = "0", response.headers.get("Content-Length")
    return int(first) if first else None, int(total) if total and total.isdecimal() else None


def _versions(response: Response) -> list[str]:
    """What tells the version of a file from another's; a weak ETag is of no use for that."""
    found = [response.headers.get("ETag", "W/"), response.headers.get("Last-Modified", "")]
    return [version for version in found if version and not version.startswith("W/")]


def _full(part: Part, missing: int | None) -> ModelUnavailableError:
    folder = part.data.parent
    need = f", the model needs {missing:,} more" if missing else ""
    return ModelUnavailableError(
        f"the disk is full: {folder} has {shutil.disk_usage(folder).free:,} bytes left{need}:"
        " make room and run `kbstore model pull` again, it goes on where it stopped"
    )
