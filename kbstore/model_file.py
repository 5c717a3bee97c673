"""The file of the local model: where it is, how it is downloaded, how one that is here is taken.

Knows no database. `embed.places` says where a model's file is looked for; a download goes to the
first of them, a link into gpt4all's cache.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import tempfile
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

from . import download, embed, gguf_file, network
from .errors import ConflictError, InputError, KBError, ModelUnavailableError, NotFoundError

URL = f"https://gpt4all.io/models/gguf/{embed.MODEL_FILE}"

Action = Literal["downloaded", "linked", "copied", "kept"]


@dataclass(frozen=True, slots=True)
class Place:
    """A place that is looked in. ``name`` and ``hash`` (16 digits, as in the fingerprint) are those
    of a file that can be used; ``problem`` says why it cannot."""

    place: str
    file: str
    exists: bool
    size: int | None
    usable: bool
    name: str | None
    hash: str | None
    taken: bool
    problem: str | None


@dataclass(frozen=True, slots=True)
class Survey:
    """``taken`` is the name of the model that makes new vectors; where it is None, ``problem`` says
    why there is none."""

    mode: str
    taken: str | None
    problem: str | None
    places: tuple[Place, ...]

    def as_dict(self) -> dict[str, Any]:
        return asdict(self) | {"places": [asdict(place) for place in self.places]}


@dataclass(frozen=True, slots=True)
class Outcome:
    """What `pull` or `use` has done, and the name of the model that ``file`` is now."""

    action: Action
    file: Path
    name: str


def survey() -> Survey:
    """Every place that is looked in, in order. No network; works without gpt4all.

    Raises InputError for an unknown inference mode.
    """
    mode, taken, problem = embed.inference_mode(), None, None
    try:
        taken = embed.candidates()[0]
    except KBError as error:
        problem = str(error)
    file = taken.file if isinstance(taken, embed.LocalEmbedder) else None
    if file:
        problem = embed.fault(file)  # of one that was named by hand: an error at its first use
    return Survey(
        mode=mode,
        taken=taken.name if taken and not problem else None,
        problem=problem,
        places=tuple(_place(name, at, at == file) for name, at in embed.places().items()),
    )


def _place(place: str, file: Path, taken: bool) -> Place:
    exists = file.is_file()
    problem = embed.fault(file) if exists else None
    if file.is_symlink() and not exists:
        problem = f"{file} is a link to {os.readlink(file)}, where there is no file"
    usable = exists and not problem
    model = embed.LocalEmbedder(file.parent) if usable else None
    return Place(
        place=place,
        file=str(file),
        exists=exists,
        size=file.stat().st_size if exists else None,
        usable=usable,
        name=model.name if model else None,
        hash=model.file_hash if model else None,
        taken=taken and usable,
        problem=problem,
    )


def pull(
    url: str | None = None,
    *,
    force: bool = False,
    progress: download.Progress | None = None,
    tell: Callable[[str], None] | None = None,
) -> Outcome:
    """Download the model's file to the first of `embed.places`: whole, or not at all.

    A download that was broken off goes on where it stopped. A usable file is kept, unless
    ``force``; another is replaced. ``url`` is the address (None: gpt4all's). ``tell`` is given a
    line on what is being done.

    Raises ModelUnavailableError, InputError (the address), ConflictError (another download is
    running), OSError.
    """
    url = url or URL
    tell = tell or (lambda line: None)
    file = next(iter(embed.places().values()))
    if file.is_file() and not force:
        problem = embed.fault(file)
        if not problem:
            return _outcome("kept", file)
        tell(f"{problem}; it is being replaced")
    file.parent.mkdir(parents=True, exist_ok=True)
    with download.claim(file) as part:
        if file.is_file() and not force and not embed.fault(file):
            return _outcome("kept", file)  # another download has just ended
        there = f", of which {part.size:,} bytes are there" if part.version(url) else ""
        tell(f"downloading {network.shown(url)} to {file}{there}")
        download.fetch(url, part, progress)
        what = _instead(part.data)
        if what:
            part.data.unlink()
            raise ModelUnavailableError(
                f"{network.shown(url)} gives {what}; it is removed again:"
                " give another address with --url or KBSTORE_MODEL_URL"
            )
        _to_disk(part.data)
        os.replace(part.data, file)
    return _outcome("downloaded", file)


def use(path: Path, *, force: bool = False) -> Outcome:
    """Make a model's file that is already somewhere that of gpt4all's cache: by a link, or where
    no link can be made by a copy. ``path`` is the file, or a folder with it.

    Raises NotFoundError, InputError (no such model), ConflictError (another model is there, and not
    ``force``), OSError.
    """
    source = path / embed.MODEL_FILE if path.is_dir() else path
    if not source.is_file():
        others = sorted(path.glob("*.gguf")) if path.is_dir() else []
        hint = f": name one of its files, such as {others[0]}" if others else ""
        raise NotFoundError(f"there is no file {source}{hint}")
    what = _instead(source)
    if what:
        raise InputError(f"{source} is {what}")
    source = source.resolve()
    file = embed.places()[embed.CACHE]
    if file.is_file() and not embed.fault(file):
        if file.samefile(source) or (not file.is_symlink() and _same(file, source)):
            return _outcome("kept", file)
        if not force and not _same(file, source):
            raise ConflictError(
                f"{file} is another model ({embed.LocalEmbedder(file.parent).name}):"
                f" --force puts {source} in its place"
            )
    file.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".", dir=file.parent) as folder:
        new = Path(folder) / file.name
        action = _link(source, new)
        os.replace(new, file)
    return _outcome(action, file)


def _outcome(action: Action, file: Path) -> Outcome:
    return Outcome(action, file, embed.LocalEmbedder(file.parent).name)


def _instead(file: Path) -> str | None:
    """What a file is instead of a whole model of the right kind."""
    try:
        return embed.foreign(gguf_file.check(file).metadata)
    except ModelUnavailableError:
        return f"no whole GGUF file ({file.stat().st_size:,} bytes)"


def _same(one: Path, other: Path) -> bool:
    if one.stat().st_size != other.stat().st_size:
        return False
    with one.open("rb") as a, other.open("rb") as b:
        digests = (hashlib.file_digest(stream, "sha256").digest() for stream in (a, b))
        return next(digests) == next(digests)


def _link(source: Path, new: Path) -> Action:
    for link in (os.symlink, os.link):  # Windows lets few users make the former
        with suppress(OSError, NotImplementedError):
            link(source, new)
            return "linked"
    shutil.copyfile(source, new)
    _to_disk(new)
    return "copied"


def _to_disk(file: Path) -> None:
    with file.open("rb+") as stream:
        os.fsync(stream.fileno())
