"""Vocabularies of tiktoken encodings and of mistral-common's tokenizers."""

from __future__ import annotations

import base64
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from formatter_core.errors import InvalidVocabulary
from formatter_core.vocabulary import Vocabulary
from tests.core.tokenizer_samples import HARD, SENTENCES

PATTERN = r"""[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s+"""


@cache
def encoding(special: tuple[str, ...] = ("<|endoftext|>", "<|tool|>")) -> Any:
    """All single bytes and some pairs, special tokens behind a hole of ten ids."""
    tiktoken = pytest.importorskip("tiktoken", reason="tiktoken is not installed")
    text = "".join(SENTENCES).encode()
    pairs = sorted({text[i : i + 2] for i in range(len(text) - 1)})
    ranks = {token: rank for rank, token in enumerate([*(bytes([b]) for b in range(256)), *pairs])}
    specials = {name: len(ranks) + 10 + i for i, name in enumerate(special)}
    return tiktoken.Encoding("sample", pat_str=PATTERN, mergeable_ranks=ranks, special_tokens=specials)


def spelt(vocabulary: Vocabulary, ids: list[int]) -> bytes:
    return b"".join(vocabulary.text_token(i) or b"?" for i in ids)


@pytest.mark.parametrize("text", SENTENCES + HARD)
def test_tiktoken_round_trip(text: str) -> None:
    assert spelt(Vocabulary.from_tiktoken(encoding()), encoding().encode(text)) == text.encode()


@settings(deadline=None, max_examples=50)
@given(st.text())
def test_tiktoken_round_trip_of_any_text(text: str) -> None:
    vocabulary = Vocabulary.from_tiktoken(encoding())
    assert spelt(vocabulary, encoding().encode(text, disallowed_special=())) == text.encode()


def test_tiktoken_special_tokens_holes_and_ends() -> None:
    vocabulary = Vocabulary.from_tiktoken(encoding())
    assert len(vocabulary) == encoding().n_vocab
    assert vocabulary.end_ids == (encoding().eot_token,)
    assert vocabulary.tokens[-12:] == (None,) * 12
    assert None not in vocabulary.tokens[:-12]
    last = len(vocabulary) - 1
    named = Vocabulary.from_tiktoken(encoding(("<|end_of_text|>", "<|eot_id|>")), end_ids=[last], size=4096)
    assert (named.end_ids, len(named)) == ((last,), 4096)


def test_tiktoken_without_its_usual_end_asks_for_one() -> None:
    with pytest.raises(InvalidVocabulary, match="pass end_ids"):
        Vocabulary.from_tiktoken(encoding(("<|eot_id|>",)))


def test_a_slow_tokenizer_on_tiktoken() -> None:
    """As the tokenizers that some models bring along: a slow tokenizer of transformers around an encoding."""

    class Slow:
        def __init__(self) -> None:
            self.model = encoding()
            self.eos_token_id = encoding().eot_token
            self.all_special_ids = [encoding().eot_token]
            self.added_tokens_decoder = {encoding().n_vocab: SimpleNamespace(content="Ġnaïve", special=False)}

        def __len__(self) -> int:
            return encoding().n_vocab

        def convert_ids_to_tokens(self, ids: list[int]) -> list[str]:
            return ["?"] * len(ids)

    vocabulary = Vocabulary.from_huggingface(Slow())
    assert vocabulary.tokens == (*Vocabulary.from_tiktoken(encoding()).tokens, "Ġnaïve".encode())
    assert vocabulary.end_ids == (encoding().eot_token,)


def test_llama_3(shared: Path) -> None:
    tiktoken = pytest.importorskip("tiktoken", reason="tiktoken is not installed")
    path = shared / "tokenizers" / "llama3.tiktoken"
    if not path.is_file():
        pytest.skip("tokenizers/llama3.tiktoken is absent from the shared data sets")
    ranks = {base64.b64decode(token): int(rank) for token, rank in map(bytes.split, path.read_bytes().splitlines())}
    llama = tiktoken.Encoding("llama3", pat_str=PATTERN, mergeable_ranks=ranks, special_tokens={"<|eot_id|>": 128_009})
    vocabulary = Vocabulary.from_tiktoken(llama, end_ids=[128_009], size=128_256)
    assert len(vocabulary) == 128_256
    assert sum(token is not None for token in vocabulary.tokens) == 128_000
    for text in SENTENCES + HARD:
        assert spelt(vocabulary, llama.encode(text)) == text.encode()


@cache
def mistral(version: str) -> Any:
    module = pytest.importorskip("mistral_common.tokens.tokenizers.mistral", reason="mistral-common is not installed")
    kwargs = {"is_tekken": True} if version == "tekken" else {}
    return getattr(module.MistralTokenizer, "v3" if version == "tekken" else version)(**kwargs)


@pytest.mark.contract("vocabularies are read from tiktoken and mistral-common")
@pytest.mark.parametrize("version", ["v1", "v3", "tekken"])
def test_mistral_common(version: str) -> None:
    tokenizer = mistral(version)
    inner = tokenizer.instruct_tokenizer.tokenizer
    vocabulary = Vocabulary.from_mistral_common(tokenizer)
    assert len(vocabulary) == inner.n_words
    assert vocabulary.end_ids == (inner.eos_id,)
    for text in SENTENCES + HARD:
        dummy = "" if version == "tekken" or not text else " "
        assert spelt(vocabulary, inner.encode(text, bos=False, eos=False)) == (dummy + text).encode()
    for name in ("<unk>", "<s>", "</s>"):
        assert vocabulary.tokens[inner.get_special_token(name)] is None
    if version != "v1":
        assert vocabulary.tokens[inner.get_special_token("[TOOL_CALLS]")] is None
    parts = [tokenizer.instruct_tokenizer, inner]
    assert {Vocabulary.from_mistral_common(part).fingerprint for part in parts} == {vocabulary.fingerprint}
