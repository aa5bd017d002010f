"""Models for llama.cpp, made on the spot: random weights, a BPE or a SentencePiece vocabulary, under 1 MB."""

from __future__ import annotations

import itertools
import json
import re
from pathlib import Path

import gguf
import numpy as np
from tokenizers import Tokenizer, models, pre_tokenizers, trainers

NORMAL, UNKNOWN, CONTROL, USER_DEFINED, BYTE = 1, 2, 3, 4, 6
#: Longer than the 32 bytes that llama-cpp-python reserves for a piece, and than what the adapter tries first.
LONG_TOKEN = "internationalization_of_everything_everywhere" * 3

_WORDS = re.findall(
    r"\w+",
    """the name of a person is Ada and the age is forty two people live in Delhi Oslo Lima or Quito they write
code for long days and short nights true false null value values object array string number integer color colour red
green blue naïve café 日本 привет number of the house street city country state zip phone mail yes no maybe""",
)
_TEXT = [
    " ".join(_WORDS[i % len(_WORDS)] for i in range(start, start + 30 * step, step))
    for start in range(40)
    for step in (1, 3, 7)
]
_TEXT += [f'{{"name": "{word}", "age": {i}, "tags": ["{word}", true, null]}}' for i, word in enumerate(_WORDS)]


def write_bpe(
    path: Path, *, seed: int = 0, context: int = 2048, layers: int = 2, width: int = 64, size: int = 0
) -> Path:
    """Byte-level BPE: end of text and end of turn both end an output, and two more tokens are special.

    Made-up words fill the vocabulary up to `size` tokens; a model can write them, no text is cut into them.
    """
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(vocab_size=700, initial_alphabet=alphabet, show_progress=False)
    tokenizer.train_from_iterator(_TEXT, trainer)
    ranks = tokenizer.get_vocab()
    tokens = sorted(ranks, key=lambda piece: ranks[piece])
    types = [NORMAL] * len(tokens)
    special = {"bos": "<|begin|>", "eos": "<|end_of_text|>", "eot": "<|end_of_turn|>", "pad": "<|pad|>"}
    first = len(tokens)
    tokens += [*special.values(), LONG_TOKEN]
    types += [CONTROL] * len(special) + [USER_DEFINED]
    syllables = ["ba", "ce", "di", "fo", "gu", "la", "me", "ni", "po", "ru", "sa", "te", "vi", "zo", "ky", "xe"]
    words = ("Ġ" * (n % 2) + "".join(word) for n, word in enumerate(itertools.product(syllables, repeat=4)))
    tokens += itertools.islice((word for word in words if word not in ranks), max(0, size - len(tokens)))
    types += [NORMAL] * (len(tokens) - len(types))
    merges = json.loads(tokenizer.to_str())["model"]["merges"]
    writer = _writer(path, len(tokens), context, layers, width)
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("gpt-2")
    writer.add_token_list(tokens)
    writer.add_token_types(types)
    writer.add_token_merges([merge if isinstance(merge, str) else " ".join(merge) for merge in merges])
    writer.add_bos_token_id(first)
    writer.add_eos_token_id(first + 1)
    writer.add_eot_token_id(first + 2)
    writer.add_pad_token_id(first + 3)
    writer.add_add_bos_token(False)
    return _write(writer, path, layers, len(tokens), width, seed)


def write_spm(path: Path, *, seed: int = 0, context: int = 2048, layers: int = 2, width: int = 64) -> Path:
    """SentencePiece: single bytes, whose texts also stand as pieces, and pieces that begin with a space."""
    tokens = ["<unk>", "<s>", "</s>", *(f"<0x{byte:02X}>" for byte in range(256))]
    types = [UNKNOWN, CONTROL, CONTROL, *[BYTE] * 256]
    pieces = dict.fromkeys(
        ["▁", *(f"▁{word}"[:end] for word in _WORDS for end in range(2, len(word) + 2))]
        + [word[:end] for word in _WORDS for end in range(1, len(word) + 1)]
        + list('{}[]":,.0123456789-\n')
    )
    tokens += list(pieces)
    types += [NORMAL] * len(pieces)
    scores = [0.0] * 259 + [float(len(piece)) - 40 for piece in pieces]
    writer = _writer(path, len(tokens), context, layers, width)
    writer.add_tokenizer_model("llama")
    writer.add_token_list(tokens)
    writer.add_token_scores(scores)
    writer.add_token_types(types)
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)
    writer.add_unk_token_id(0)
    writer.add_add_bos_token(True)
    return _write(writer, path, layers, len(tokens), width, seed)


def _writer(path: Path, size: int, context: int, layers: int, width: int) -> gguf.GGUFWriter:
    writer = gguf.GGUFWriter(str(path), "llama")
    writer.add_context_length(context)
    writer.add_embedding_length(width)
    writer.add_block_count(layers)
    writer.add_feed_forward_length(2 * width)
    writer.add_head_count(4)
    writer.add_head_count_kv(4)
    writer.add_rope_dimension_count(width // 4)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_vocab_size(size)
    writer.add_file_type(gguf.LlamaFileType.ALL_F32)
    return writer


def _write(writer: gguf.GGUFWriter, path: Path, layers: int, size: int, width: int, seed: int) -> Path:
    random = np.random.default_rng(seed)

    def add(name: str, *shape: int, scale: float) -> None:
        writer.add_tensor(name, (random.standard_normal(shape) * scale).astype(np.float32))

    add("token_embd.weight", size, width, scale=0.4)
    writer.add_tensor("output_norm.weight", np.ones(width, np.float32))
    for layer in range(layers):
        for name in ("attn_norm", "ffn_norm"):
            writer.add_tensor(f"blk.{layer}.{name}.weight", np.ones(width, np.float32))
        for name in ("attn_q", "attn_k", "attn_v", "attn_output"):
            add(f"blk.{layer}.{name}.weight", width, width, scale=0.15)
        for name in ("ffn_gate", "ffn_up"):
            add(f"blk.{layer}.{name}.weight", 2 * width, width, scale=0.15)
        add(f"blk.{layer}.ffn_down.weight", width, 2 * width, scale=0.15)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path
