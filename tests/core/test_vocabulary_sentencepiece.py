"""Vocabularies of SentencePiece models, alone and inside a slow tokenizer of transformers."""

from __future__ import annotations

import io
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from formatter_core.errors import InvalidVocabulary
from formatter_core.vocabulary import Vocabulary
from tests.core.tokenizer_samples import CORPUS, HARD, SENTENCES

pytestmark = pytest.mark.contract("vocabularies are read from SentencePiece")

spm = pytest.importorskip("sentencepiece", reason="sentencepiece is not installed")


@cache
def model(kind: str) -> bytes:
    """A small model: byte pairs with byte fallback, or unigrams without; with or without a dummy prefix."""
    written = io.BytesIO()
    spm.SentencePieceTrainer.train(
        sentence_iterator=iter(CORPUS),
        model_writer=written,
        vocab_size=700,
        model_type=kind.split("-")[0],
        byte_fallback=kind.startswith("bpe"),
        add_dummy_prefix=not kind.endswith("bare"),
        user_defined_symbols=["<tool>", "▁==▁"],
        control_symbols=["<control>"],
        normalization_rule_name="identity",
        remove_extra_whitespaces=False,
        hard_vocab_limit=False,
        character_coverage=1.0,
        minloglevel=2,
    )
    return written.getvalue()


def processor(kind: str) -> Any:
    return spm.SentencePieceProcessor(model_proto=model(kind))


KINDS = ["bpe", "bpe-bare", "unigram", "unigram-bare"]
ROUND_TRIPS = [(kind, text) for kind in KINDS for text in SENTENCES + (HARD if kind.startswith("bpe") else [])]


@pytest.mark.parametrize(("kind", "text"), ROUND_TRIPS)
def test_round_trip(kind: str, text: str) -> None:
    sp = processor(kind)
    vocabulary = Vocabulary.from_sentencepiece(sp)
    spelt = b"".join(vocabulary.text_token(i) or b"?" for i in sp.encode(text))
    dummy = "" if kind.endswith("bare") or not text else " "
    assert spelt == (dummy + text).encode()


@pytest.mark.parametrize("kind", KINDS)
def test_types_of_pieces(kind: str) -> None:
    sp = processor(kind)
    vocabulary = Vocabulary.from_sentencepiece(sp)
    assert len(vocabulary) == sp.get_piece_size()
    assert vocabulary.end_ids == (sp.eos_id(),)
    silent = ["<unk>", "<s>", "</s>", "<control>"]
    assert [vocabulary.tokens[sp.piece_to_id(piece)] for piece in silent] == [None] * 4
    assert vocabulary.tokens[sp.piece_to_id("<tool>")] == b"<tool>"
    assert vocabulary.tokens[sp.piece_to_id("▁==▁")] == b" == "
    if kind.startswith("bpe"):
        for byte in range(256):
            assert vocabulary.tokens[sp.piece_to_id(f"<0x{byte:02X}>")] == bytes([byte])


def test_end_ids_and_size() -> None:
    vocabulary = Vocabulary.from_sentencepiece(processor("bpe"), end_ids=[5], size=2048)
    assert (vocabulary.end_ids, len(vocabulary), vocabulary.tokens[-1]) == ((5,), 2048, None)


def test_a_processor_without_a_model() -> None:
    with pytest.raises(InvalidVocabulary, match="has no model"):
        Vocabulary.from_sentencepiece(spm.SentencePieceProcessor())


@pytest.fixture(scope="module")
def slow(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """A slow tokenizer of transformers on a SentencePiece model, with added tokens."""
    pytest.importorskip("transformers", reason="transformers is not installed")
    path: Path = tmp_path_factory.mktemp("sp") / "m.model"
    path.write_bytes(model("bpe"))
    try:
        from transformers.tokenization_utils_sentencepiece import SentencePieceBackend as Slow
    except ImportError:
        from transformers import LlamaTokenizer as Slow
    tokenizer = Slow(vocab_file=str(path), bos_token="<s>", eos_token="</s>", unk_token="<unk>")
    tokenizer.add_tokens(["naïve▁Ġ<0x41>"])
    tokenizer.add_special_tokens({"pad_token": "<pad>"})
    return tokenizer


@pytest.mark.parametrize("text", SENTENCES)
def test_slow_round_trip(slow: Any, text: str) -> None:
    vocabulary = Vocabulary.from_huggingface(slow)
    ids = slow.encode(text, add_special_tokens=False)
    assert b"".join(vocabulary.text_token(i) or b"?" for i in ids) == b" " + text.encode()


def test_slow_special_and_added_tokens(slow: Any) -> None:
    vocabulary = Vocabulary.from_huggingface(slow)
    ids = slow.convert_tokens_to_ids(["<unk>", "<s>", "</s>", "<pad>", "<control>", "naïve▁Ġ<0x41>"])
    assert [vocabulary.tokens[i] for i in ids] == [None] * 5 + ["naïve▁Ġ<0x41>".encode()]
    assert vocabulary.end_ids == (slow.eos_token_id,)
    assert len(vocabulary) == len(slow)
