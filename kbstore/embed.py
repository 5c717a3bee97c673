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
from contextlib import contextmanager
from functools import cache, partial
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Literal, Protocol

import numpy as np
import numpy.typing as npt

from . import gguf_file, passage
from .errors import BadVectorError, InputError, ModelError, ModelUnavailableError

DIMENSION = 768
MODEL = "nomic-embed-text-v1.5"
MODEL_FILE = f"{MODEL}.f16.gguf"
STARTER = Path(__file__).resolve().parent / "starter" / MODEL_FILE
TEMPLATE = "{title}. Tags: {tags}. {description}. {body}"

_TEXTS = 64  # texts a call
_ATLAS = "https://api-atlas.nomic.ai"
_lock = threading.Lock()  # nomic keeps the loaded model in a module global
_loaded: str | None = None  # where the model that it holds came from

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
        says = str(_check(self.file, *_stamp(self.file)).get("general.description", ""))
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
        return _file_hash(self.file) == _file_hash(STARTER)

    @property
    def fingerprint(self) -> str:
        return _fingerprint("local", _file_hash(self.file)[:16])

    def embed(self, texts: Sequence[str], task: Task) -> Sequence[Sequence[float]]:
        with _lock, _nomic(str(self.file)) as nomic_embed:
            _check(self.file, *_stamp(self.file))
            try:
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
        with _lock, _nomic("remote") as nomic_embed:
            key = os.environ.get("NOMIC_API_KEY")
            if key:
                nomic_embed.atlas_class = SimpleNamespace(
                    atlas_api_path=os.environ.get("ATLAS_API_PATH", _ATLAS),
                    header={"Authorization": f"Bearer {key}"},
                )
            try:
                result = nomic_embed.text(
                    list(texts),
                    model=MODEL,
                    inference_mode="remote",
                    dimensionality=DIMENSION,
                    task_type=task,
                )
            except Exception as error:
                message = _one_line(error).replace(key, "…") if key else _one_line(error)
                raise ModelUnavailableError(f"the remote embedding failed: {message}") from error
        return result["embeddings"]  # type: ignore[no-any-return]


def candidates(mode: str | None = None) -> list[Embedder]:
    """The models that are here, the one to prefer first; never empty.

    ``mode`` is ``local`` or ``remote`` (None: ``KBSTORE_INFERENCE_MODE``, else local). Local looks
    for the model's file in ``KBSTORE_MODEL_DIR``, then in gpt4all's cache, then takes the starter.

    Raises InputError for another mode, ModelUnavailableError where no model can run.
    """
    mode = mode or os.environ.get("KBSTORE_INFERENCE_MODE") or "local"
    if mode == "remote":
        return [RemoteEmbedder()]
    if mode != "local":
        raise InputError(f"inference mode {mode!r} is neither 'local' nor 'remote'")
    if find_spec("gpt4all") is None:
        raise ModelUnavailableError(
            "no local model: the package gpt4all is not installed (it has no build for every"
            " processor); KBSTORE_INFERENCE_MODE=remote uses Nomic's server"
        )
    folders = [Path.home() / ".cache" / "gpt4all", STARTER.parent]
    chosen = os.environ.get("KBSTORE_MODEL_DIR")
    if chosen:
        folders.insert(0, Path(chosen).expanduser())
        if not (folders[0] / MODEL_FILE).is_file():
            raise ModelUnavailableError(
                f"KBSTORE_MODEL_DIR={chosen} has no file {MODEL_FILE} in it"
            )
    found: list[Embedder] = [LocalEmbedder(f) for f in folders if (f / MODEL_FILE).is_file()]
    if not found:
        raise ModelUnavailableError(
            f"no local model: there is no file {MODEL_FILE} in {folders[0]}"
        )
    return found


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


def _fingerprint(mode: str, file_hash: str) -> str:
    return f"{MODEL} {mode} {file_hash}; {TEMPLATE}; {passage.RULE}"


def _file_hash(file: Path) -> str:
    return _hash_of(file, *_stamp(file))


def _stamp(file: Path) -> tuple[int, int]:
    stat = file.stat()
    return stat.st_size, stat.st_mtime_ns


@cache
def _check(file: Path, size: int, mtime_ns: int) -> dict[str, Any]:
    return gguf_file.check(file).metadata


@cache
def _hash_of(file: Path, size: int, mtime_ns: int) -> str:
    with file.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


@contextmanager
def _nomic(source: str) -> Iterator[Any]:
    """nomic.embed, without its progress bars and, while it loads a model from ``source``, without
    what its C library writes to standard error when it looks for a graphics card."""
    global _loaded
    if _loaded == source:
        yield sys.modules["nomic.embed"]
        return
    with _silence():
        try:
            import nomic.embed
        except Exception as error:  # a missing package, but also a C library that does not load
            raise ModelUnavailableError(
                f"the embedding library nomic cannot be loaded: {_one_line(error)}"
            ) from error
        module: Any = nomic.embed
        module.tqdm = partial(getattr(module.tqdm, "func", module.tqdm), disable=True)
        yield module
    _loaded = source


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
