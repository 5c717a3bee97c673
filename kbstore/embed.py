"""Texts in, unit vectors out: nomic-embed-text-v1.5 through ``nomic.embed.text``, local or remote.

Knows no database. ``import`` is cheap: nomic (1.2 s) is imported when the first text is embedded.
"""

from __future__ import annotations

import hashlib
import os
import sys
import tempfile
import threading
from collections.abc import Iterator, Sequence
from concurrent import futures
from contextlib import contextmanager, nullcontext
from functools import cache, cached_property, partial
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Literal, Protocol

import numpy as np
import numpy.typing as npt

from . import atlas, gguf_file, network, passage
from .errors import BadVectorError, InputError, ModelError, ModelUnavailableError

DIMENSION = 768
MODEL = "nomic-embed-text-v1.5"
MODEL_FILE = f"{MODEL}.f16.gguf"
STARTER = Path(__file__).resolve().parent / "starter" / MODEL_FILE
CACHE = "gpt4all's cache"  # one of the `places`
TEMPLATE = "{title}. Tags: {tags}. {description}. {body}"

_TEXTS = 64  # texts a call
_CHOSEN = "KBSTORE_MODEL_DIR"
_KIND = "nomic-bert"  # the architecture, as the model's file names it
_lock = threading.Lock()  # nomic keeps the loaded model and the account in module globals
_loaded: tuple[Path, int, int] | None = None  # the file that it holds, and its stamp

Task = Literal["search_document", "search_query"]


class Embedder(Protocol):
    """What a store needs of a model.

    ``fingerprint`` tells vectors apart that must not be mixed; ``weight`` (0 to 1) is how far the
    fusion trusts them beside words.
    """

    @property
    def name(self) -> str: ...
    @property
    def fingerprint(self) -> str: ...
    @property
    def weight(self) -> float: ...
    def embed(self, texts: Sequence[str], task: Task) -> Sequence[Sequence[float]]:
        """One vector of 768 numbers a text. Raises ModelError."""
        ...


class LocalEmbedder:
    """A GGUF file named like the model, in ``folder``, run on the processor, without a network."""

    def __init__(self, folder: Path) -> None:
        self.file = folder / MODEL_FILE

    @property
    def name(self) -> str:
        if self._is_starter:
            return "starter (6 MB stand-in for nomic-embed-text-v1.5)"
        says = str(_check(self.file, *self._seen).get("general.description", ""))
        if says.startswith("not the Nomic model"):
            return f"stand-in for {MODEL} (local, {says.partition(':')[2].strip()})"
        return f"{MODEL} (local)"

    @property
    def weight(self) -> float:
        # Measured with the starter on three public sets (nDCG@10, mean): words alone 0.831, vectors
        # alone 0.676; fused at weight 1 0.817, at 0.5 0.846, at 0.35 0.851, at 0.25 0.850.
        return 0.35 if self._is_starter else 1.0

    @property
    def _is_starter(self) -> bool:
        return _hash_of(self.file, *self._seen) == _hash_of(STARTER, *_stamp(STARTER))

    @cached_property
    def _seen(self) -> tuple[int, int]:
        """The file's stamp. The fingerprint stays that of one file, whatever takes its place."""
        return _stamp(self.file)

    @property
    def file_hash(self) -> str:
        """16 hexadecimal digits of the file's SHA-256; they stand in the fingerprint."""
        return _hash_of(self.file, *self._seen)[:16]

    @property
    def fingerprint(self) -> str:
        return f"{MODEL} local {self.file_hash}; {TEMPLATE}; {passage.RULE}"

    def embed(self, texts: Sequence[str], task: Task) -> Sequence[Sequence[float]]:
        global _loaded
        with _lock:
            if not self.file.is_file() or _stamp(self.file) != self._seen:
                raise ModelUnavailableError(
                    f"the model file {self.file} is not the one of before any more: try again"
                )
            _check(self.file, *self._seen)
            nomic_embed = _nomic()
            this = (self.file, *self._seen)
            if _loaded != this:
                nomic_embed.free_embedding_model()  # nomic goes by the name of the folder alone
                _loaded = None
            try:
                # Its C library writes to standard error when it looks for a graphics card.
                with nullcontext() if _loaded == this else _silence():
                    result = nomic_embed.text(
                        list(texts),
                        model=MODEL,
                        inference_mode="local",
                        dimensionality=DIMENSION,
                        task_type=task,
                        model_path=str(self.file.parent),
                        allow_download=False,  # else it asks its server for a list of models first
                        device="cpu",
                    )
                    # Read on the second call, filled in only where downloading is allowed.
                    nomic_embed._embed4all.gpt4all.config.setdefault("filename", MODEL_FILE)
                _loaded = this
            except Exception as error:
                raise ModelUnavailableError(
                    f"the model file {self.file} cannot be used: {_one_line(error)}"
                ) from error
        return result["embeddings"]  # type: ignore[no-any-return]


class RemoteEmbedder:
    """Nomic's server, with ``NOMIC_API_KEY`` or the login that ``nomic login`` has stored."""

    name = f"{MODEL} (remote)"
    fingerprint = f"{MODEL} remote; {TEMPLATE}; {passage.RULE}"
    weight = 1.0

    def embed(self, texts: Sequence[str], task: Task) -> Sequence[Sequence[float]]:
        with _lock:
            nomic_embed = _nomic()
            nomic_embed.atlas_class = account = atlas.account()
        # Not under the lock: a search does not wait for documents that wait for the server.
        try:
            answer = nomic_embed.text(
                list(texts),
                model=MODEL,
                inference_mode="remote",
                dimensionality=DIMENSION,
                task_type=task,
            )
            vectors: Sequence[Sequence[float]] = answer["embeddings"]
            if len(vectors) == len(texts):
                return vectors
            problem = f"the server gives {len(vectors)} vectors for {len(texts)} texts: try again"
        except Exception as error:
            problem = atlas.explain(error, account)
        # Outside of the except clause: no cause hangs on it that might show the key in a traceback.
        raise ModelUnavailableError(f"the remote embedding failed: {problem}")


def places() -> dict[str, Path]:
    """What is looked in -> the model's file there, in order. A download goes to the first."""
    folders = {CACHE: "~/.cache/gpt4all", "starter": str(STARTER.parent)}
    chosen = os.environ.get(_CHOSEN)
    if chosen:
        folders = {_CHOSEN: chosen} | folders
    return {place: Path(os.path.expanduser(path)) / MODEL_FILE for place, path in folders.items()}


def candidates(mode: str | None = None) -> list[Embedder]:
    """The models that are here, the one to prefer first; never empty.

    ``mode`` is ``local`` or ``remote`` (None: ``KBSTORE_INFERENCE_MODE``, else local). Local looks
    for the model's file in ``KBSTORE_MODEL_DIR``, then in gpt4all's cache, then takes the starter.
    A file that cannot be used is passed over, but not one in ``KBSTORE_MODEL_DIR``: whoever names
    a model is to hear of it at the first use, rather than to be given another.

    Raises InputError for another mode, ModelUnavailableError where no model can run.
    """
    if inference_mode(mode) == "remote":
        return [RemoteEmbedder()]
    if find_spec("gpt4all") is None:
        raise ModelUnavailableError(
            "no local model: the package gpt4all is not installed (it has no build for every"
            " processor); KBSTORE_INFERENCE_MODE=remote uses Nomic's server"
        )
    files = places()
    chosen = files.get(_CHOSEN)
    if chosen and not os.path.isfile(chosen):  # where a Path's raises, as in a closed folder
        raise ModelUnavailableError(
            f"{_CHOSEN}={os.environ[_CHOSEN]} has no file {MODEL_FILE} in it:"
            " `kbstore model pull` downloads it to there"
        )
    found: list[Embedder] = [
        LocalEmbedder(file.parent)
        for file in files.values()
        if file == chosen or (os.path.isfile(file) and not fault(file))
    ]
    if not found:
        raise ModelUnavailableError(f"no local model: {fault(next(iter(files.values())))}")
    return found


def broken_files(mode: str | None = None) -> list[str]:
    """A sentence for each file that would serve, but is passed over because it cannot be used."""
    found: list[str] = []
    if inference_mode(mode) == "remote":
        return found
    for place, file in places().items():
        there = os.path.isfile(file)
        problem = fault(file) if there else None
        if place == _CHOSEN or (there and not problem):
            break  # this one serves
        if problem:
            found.append(f"{problem}; until then it is passed over")
    return found


def inference_mode(mode: str | None = None) -> Literal["local", "remote"]:
    """``mode``, else ``KBSTORE_INFERENCE_MODE``, else local. Raises InputError for another."""
    mode = mode or os.environ.get("KBSTORE_INFERENCE_MODE") or "local"
    if mode not in ("local", "remote"):
        raise InputError(f"inference mode {mode!r} is neither 'local' nor 'remote'")
    return "remote" if mode == "remote" else "local"


def fault(file: Path) -> str | None:
    """Why a model's file cannot be used, in one line; None: it can. Cheap when asked again."""
    try:
        return _fault(file, *_stamp(file))
    except OSError as error:
        return f"the model file {file} cannot be read: {error.strerror}"


def foreign(metadata: dict[str, Any]) -> str | None:
    """What a GGUF file is instead of such a model, as far as it says; None: it may be one."""
    kind = metadata.get("general.architecture", _KIND)
    width = metadata.get(f"{kind}.embedding_length", DIMENSION)
    if (kind, width) == (_KIND, DIMENSION):
        return None
    return f"a model of the kind {kind} with {width} dimensions, not {_KIND} with {DIMENSION}"


def vector(raw: Sequence[float] | npt.NDArray[Any], what: str) -> bytes:
    """L2-normalise (numpy) and pack: 768 float32, 3,072 bytes.

    Raises BadVectorError for another width, zeros, NaN or infinity; ``what`` names the document.
    """
    try:
        array = np.asarray(raw, dtype=np.float64)
    except (TypeError, ValueError):
        raise BadVectorError(f"{what}: the model gave something that is no vector") from None
    if array.shape != (DIMENSION,):
        shape = "x".join(map(str, array.shape)) or "0"
        raise BadVectorError(f"{what}: the model gave a vector of {shape} numbers, not {DIMENSION}")
    if not np.isfinite(array).all():
        raise BadVectorError(f"{what}: the model gave a vector with NaN or infinity in it")
    norm = float(np.linalg.norm(array))
    if norm < 1e-9:
        raise BadVectorError(f"{what}: the model gave a vector of zeros")
    return (array / norm).astype(np.float32).tobytes()


def call(model: Embedder, texts: Sequence[str], task: Task) -> list[Sequence[float]]:
    """One raw vector a text, in as many calls as it takes.

    Raises ModelError, whatever a model of the host's own raises.
    """
    raws: list[Sequence[float]] = []
    try:
        for start in range(0, len(texts), _TEXTS):
            raws.extend(model.embed(texts[start : start + _TEXTS], task))
    except ModelError:
        raise
    except Exception as error:
        raise ModelUnavailableError(f"the model {model.name} failed: {_one_line(error)}") from error
    if len(raws) != len(texts):
        raise ModelError(f"the model {model.name} gave {len(raws)} vectors for {len(texts)} texts")
    return raws


def embed_query(model: Embedder, text: str) -> bytes:
    """The vector of a question or a search. Raises ModelError."""
    return vector(call(model, [text], "search_query")[0], "the query")


def release() -> None:
    """Free the loaded model; the next text loads it again."""
    global _loaded
    nomic_embed = sys.modules.get("nomic.embed")
    if nomic_embed:
        with _lock:
            nomic_embed.free_embedding_model()
            _loaded = None


def _stamp(file: Path) -> tuple[int, int]:
    stat = file.stat()
    return stat.st_size, stat.st_mtime_ns


@cache
def _check(file: Path, size: int, mtime_ns: int) -> dict[str, Any]:
    metadata = gguf_file.check(file).metadata
    other = foreign(metadata)
    if other:
        raise ModelUnavailableError(f"the model file {file} holds {other}")
    return metadata


@cache
def _fault(file: Path, size: int, mtime_ns: int) -> str | None:
    try:
        _check(file, size, mtime_ns)
    except ModelUnavailableError as error:
        return str(error)
    return None


@cache
def _hash_of(file: Path, size: int, mtime_ns: int) -> str:
    with file.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def _nomic() -> Any:
    """nomic.embed, without progress bars, and with our time-outs and retries in its requests."""
    with nullcontext() if "nomic.embed" in sys.modules else _silence():
        try:
            import nomic.cli
            import nomic.embed
            import requests
        except Exception as error:  # a missing package, but also a C library that does not load
            raise ModelUnavailableError(
                f"the embedding library nomic cannot be loaded: {_one_line(error)}"
            ) from error
    module: Any = nomic.embed
    cli: Any = nomic.cli
    module.tqdm = partial(getattr(module.tqdm, "func", module.tqdm), disable=True)
    module.request_backoff = lambda call, **_: call()  # its own sleeps whatever the server asks for
    module.concurrent = SimpleNamespace(
        futures=SimpleNamespace(**(vars(futures) | {"ThreadPoolExecutor": network.Pool}))
    )
    module.requests = cli.requests = SimpleNamespace(
        **(vars(requests) | {"post": atlas.post, "get": atlas.get})
    )
    return module


@contextmanager
def _silence() -> Iterator[None]:
    sys.stderr.flush()
    try:
        saved = os.dup(2)
    except OSError:  # a host without standard error
        yield
        return
    with tempfile.TemporaryFile() as chatter:
        os.dup2(chatter.fileno(), 2)
        try:
            yield
        finally:
            sys.stderr.flush()
            os.dup2(saved, 2)
            os.close(saved)


def _one_line(error: BaseException) -> str:
    return " ".join(str(error).split())[:300] or type(error).__name__
