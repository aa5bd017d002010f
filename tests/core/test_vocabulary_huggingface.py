"""Vocabularies of the tokenizers library and of transformers, trained here: one of every kind."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from formatter_core.errors import InvalidVocabulary
from formatter_core.vocabulary import Vocabulary, tokenizers_json
from formatter_core.vocabulary.alphabets import BYTE_CHARACTERS
from tests.core.tokenizer_samples import CORPUS, HARD, SENTENCES

hf = pytest.importorskip("tokenizers", reason="tokenizers is not installed")

from tokenizers import decoders, models, normalizers, pre_tokenizers, trainers  # noqa: E402

SPECIAL = ["<unk>", "<s>", "</s>"]
ADDED = ["naïve Ġ", "a▁b", "x<0x41>y", "<tool>"]


def byte_level() -> Any:
    """As GPT-2, Llama 3, Qwen."""
    tokenizer = hf.Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(
        vocab_size=700, special_tokens=SPECIAL[1:], initial_alphabet=alphabet, show_progress=False
    )
    tokenizer.train_from_iterator(CORPUS, trainer)
    return tokenizer


def byte_level_without_decoder() -> Any:
    tokenizer = hf.Tokenizer.from_str(trained(byte_level).to_str())
    tokenizer.decoder = None
    return tokenizer


def byte_level_in_sequences() -> Any:
    """As models whose pre-tokenizer splits by a pattern first."""
    tokenizer = byte_level_without_decoder()
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)]
    )
    tokenizer.decoder = decoders.Sequence([decoders.ByteLevel(), decoders.Fuse()])
    return tokenizer


def bare_pieces() -> Any:
    """Byte-level pieces and nothing else, as when a tokenizer was rebuilt from its vocabulary and merges."""
    tokenizer = byte_level_without_decoder()
    tokenizer.pre_tokenizer = None
    return tokenizer


def byte_fallback() -> Any:
    """As Llama 2: marks for spaces by the normalizer, single bytes for what is not in the vocabulary."""
    tokenizer = hf.Tokenizer(models.BPE(unk_token="<unk>"))
    tokenizer.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    pieces = [*SPECIAL, *(f"<0x{byte:02X}>" for byte in range(256))]
    trainer = trainers.BpeTrainer(vocab_size=900, special_tokens=pieces, show_progress=False, max_token_length=12)
    tokenizer.train_from_iterator(SENTENCES[:10] * 4, trainer)
    description = json.loads(tokenizer.to_str())
    description["model"].update(byte_fallback=True, fuse_unk=True)
    description["added_tokens"] = description["added_tokens"][: len(SPECIAL)]
    tokenizer = hf.Tokenizer.from_str(json.dumps(description))
    tokenizer.decoder = decoders.Sequence(
        [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)]
    )
    return tokenizer


def byte_fallback_without_decoder() -> Any:
    tokenizer = hf.Tokenizer.from_str(trained(byte_fallback).to_str())
    tokenizer.decoder = None
    return tokenizer


def byte_fallback_metaspace() -> Any:
    """The flag of the model alone says that pieces such as <0x0A> are bytes."""
    tokenizer = hf.Tokenizer.from_str(trained(byte_fallback).to_str())
    tokenizer.normalizer = None
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="always", split=False)
    tokenizer.decoder = decoders.Metaspace(prepend_scheme="always", split=False)
    return tokenizer


def byte_fallback_never() -> Any:
    """As Gemma: no space in front."""
    tokenizer = hf.Tokenizer.from_str(trained(byte_fallback).to_str())
    tokenizer.normalizer = normalizers.Replace(" ", "▁")
    tokenizer.decoder = decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()])
    return tokenizer


def unigram() -> Any:
    """As T5 and XLM-R: SentencePiece unigrams without byte fallback."""
    tokenizer = hf.Tokenizer(models.Unigram())
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="always")
    tokenizer.decoder = decoders.Metaspace(prepend_scheme="always")
    trainer = trainers.UnigramTrainer(vocab_size=700, special_tokens=SPECIAL, unk_token="<unk>", show_progress=False)
    tokenizer.train_from_iterator(CORPUS, trainer)
    return tokenizer


def unigram_first() -> Any:
    tokenizer = hf.Tokenizer.from_str(trained(unigram).to_str())
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="first")
    tokenizer.decoder = None
    return tokenizer


def end_of_word() -> Any:
    """Byte pairs whose pieces carry a mark at the end of a word."""
    tokenizer = hf.Tokenizer(models.BPE(unk_token="<unk>", end_of_word_suffix="</w>"))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    tokenizer.decoder = decoders.BPEDecoder("</w>")
    trainer = trainers.BpeTrainer(
        vocab_size=900, special_tokens=SPECIAL, end_of_word_suffix="</w>", show_progress=False
    )
    tokenizer.train_from_iterator(CORPUS, trainer)
    return tokenizer


def word_piece() -> Any:
    """As BERT."""
    tokenizer = hf.Tokenizer(models.WordPiece(unk_token="<unk>"))
    tokenizer.normalizer = normalizers.BertNormalizer()
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.decoder = decoders.WordPiece()
    tokenizer.train_from_iterator(
        CORPUS, trainers.WordPieceTrainer(vocab_size=700, special_tokens=SPECIAL, show_progress=False)
    )
    return tokenizer


def word_level() -> Any:
    """Whole words, and no decoder: the library prints a space between them."""
    tokenizer = hf.Tokenizer(models.WordLevel(unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    tokenizer.train_from_iterator(CORPUS, trainers.WordLevelTrainer(special_tokens=SPECIAL, show_progress=False))
    return tokenizer


def characters() -> Any:
    """Single characters, put together as they are."""
    tokenizer = hf.Tokenizer(models.WordLevel(unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.Split("", "isolated")
    tokenizer.decoder = decoders.Fuse()
    tokenizer.train_from_iterator(CORPUS, trainers.WordLevelTrainer(special_tokens=SPECIAL, show_progress=False))
    return tokenizer


#: kind -> what its encoder puts before a text
SPELLS_EVERY_BYTE = {
    byte_level: "", byte_level_without_decoder: "", byte_level_in_sequences: "", byte_fallback: " ",
    byte_fallback_without_decoder: " ", byte_fallback_metaspace: " ", byte_fallback_never: "",
}  # fmt: skip
SPELLS_ITS_CORPUS = {unigram: " ", unigram_first: " ", characters: ""}
PRINTS_ITS_OWN_SPACES = {word_piece: (" ", ""), word_level: (" ", ""), end_of_word: ("", " ")}
ALL = [*SPELLS_EVERY_BYTE, *SPELLS_ITS_CORPUS, *PRINTS_ITS_OWN_SPACES]


@cache
def trained(kind: Callable[[], Any]) -> Any:
    return kind()


@cache
def vocabulary_of(kind: Callable[[], Any]) -> Vocabulary:
    return Vocabulary.from_huggingface(trained(kind), end_ids=[trained(kind).token_to_id("</s>")])


def spelt(vocabulary: Vocabulary, ids: list[int]) -> bytes:
    return b"".join(vocabulary.text_token(i) or b"?" for i in ids)


@pytest.mark.contract("vocabularies are read from Hugging Face tokenizers")
@pytest.mark.parametrize("kind", SPELLS_EVERY_BYTE)
def test_round_trip_of_any_text(kind: Callable[[], Any]) -> None:
    for text in SENTENCES + HARD:
        # Tokenizers split texts at their added tokens, and a text's own marks for spaces are lost before any of this.
        text = text.replace("</s>", "").replace("<s>", "").replace("<unk>", "")
        ids = trained(kind).encode(text, add_special_tokens=False).ids
        # Metaspace puts no space before a text that begins with one.
        before = "" if not text or (kind is byte_fallback_metaspace and text[0] == " ") else SPELLS_EVERY_BYTE[kind]
        assert spelt(vocabulary_of(kind), ids) == (before + text).encode()


@pytest.mark.parametrize("kind", SPELLS_ITS_CORPUS)
def test_round_trip_of_the_corpus(kind: Callable[[], Any]) -> None:
    for text in SENTENCES:
        ids = trained(kind).encode(text, add_special_tokens=False).ids
        assert spelt(vocabulary_of(kind), ids) == (SPELLS_ITS_CORPUS[kind] + text).encode()


@pytest.mark.parametrize("kind", PRINTS_ITS_OWN_SPACES)
def test_tokenizers_that_lose_spaces_give_what_they_print(kind: Callable[[], Any]) -> None:
    for text in SENTENCES:
        ids = trained(kind).encode(text, add_special_tokens=False).ids
        before, after = PRINTS_ITS_OWN_SPACES[kind]
        assert spelt(vocabulary_of(kind), ids).decode() == before + trained(kind).decode(ids) + after


@settings(deadline=None, max_examples=60)
@given(st.text())
def test_byte_level_round_trip(text: str) -> None:
    ids = trained(byte_level).encode(text, add_special_tokens=False).ids
    assert spelt(vocabulary_of(byte_level), ids) == text.encode()


@settings(deadline=None, max_examples=60)
@given(st.text(st.characters(exclude_characters="▁", exclude_categories=["Cs"])))
def test_byte_fallback_round_trip(text: str) -> None:
    ids = trained(byte_fallback_never).encode(text, add_special_tokens=False).ids
    assert spelt(vocabulary_of(byte_fallback_never), ids) == text.encode()


@pytest.mark.parametrize("kind", [*SPELLS_EVERY_BYTE, bare_pieces])
def test_every_byte_can_be_spelt(kind: Callable[[], Any]) -> None:
    assert {bytes([byte]) for byte in range(256)} <= set(vocabulary_of(kind).tokens)


def test_bare_byte_level_pieces() -> None:
    assert vocabulary_of(bare_pieces).tokens == vocabulary_of(byte_level).tokens


@pytest.mark.parametrize("kind", ALL)
def test_special_and_added_tokens(kind: Callable[[], Any]) -> None:
    tokenizer = hf.Tokenizer.from_str(trained(kind).to_str())
    tokenizer.add_tokens(ADDED)
    tokenizer.add_special_tokens(["<|end|>"])
    vocabulary = Vocabulary.from_huggingface(tokenizer, end_ids=[tokenizer.token_to_id("<|end|>")])
    assert len(vocabulary) == tokenizer.get_vocab_size()
    for special in [*SPECIAL, "<|end|>"]:
        token_id = tokenizer.token_to_id(special)
        assert token_id is None or vocabulary.tokens[token_id] is None
    for added in ADDED:
        assert vocabulary.tokens[tokenizer.token_to_id(added)] == added.encode()


def test_a_plain_tokenizer_has_no_end_id() -> None:
    with pytest.raises(InvalidVocabulary, match="pass end_ids"):
        Vocabulary.from_huggingface(trained(byte_level))


def test_the_logits_may_be_wider() -> None:
    vocabulary = Vocabulary.from_huggingface(trained(byte_level), end_ids=[1], size=1024)
    assert len(vocabulary) == 1024
    assert vocabulary.tokens[700:] == (None,) * 324


@pytest.mark.parametrize(
    "decoder",
    [
        decoders.CTC(),
        decoders.Replace(hf.Regex("a+"), "b"),
        decoders.Sequence([decoders.Fuse(), decoders.Replace("ab", "")]),
        decoders.Sequence([decoders.Fuse(), decoders.WordPiece()]),
    ],
    ids=["CTC", "pattern", "fused", "fused words"],
)
def test_a_decoder_that_depends_on_more_than_the_token(decoder: Any) -> None:
    tokenizer = hf.Tokenizer.from_str(trained(unigram).to_str())
    tokenizer.decoder = decoder
    with pytest.raises(InvalidVocabulary, match="not known") as caught:
        Vocabulary.from_huggingface(tokenizer, end_ids=[2])
    assert type(decoder).__name__ in str(caught.value) or "Fuse" in str(caught.value)


def test_a_description_that_says_nothing() -> None:
    tokenizer = hf.Tokenizer(models.BPE(vocab={"a": 0, "b": 1}, merges=[]))
    with pytest.raises(InvalidVocabulary, match=r"BPE.*does not define how"):
        Vocabulary.from_huggingface(tokenizer, end_ids=[0])


def test_byte_level_pieces_under_a_foreign_decoder() -> None:
    """As when a byte-level tokenizer.json is loaded through the class of another family."""
    tokenizer = hf.Tokenizer.from_str(trained(byte_fallback).to_str())
    description = json.loads(tokenizer.to_str())
    description["model"]["vocab"] = {char: i for i, char in enumerate(BYTE_CHARACTERS)}
    description["model"].update(merges=[], unk_token=None)
    with pytest.raises(InvalidVocabulary, match=r"byte-level, but the decoder \(Replace, ByteFallback, Fuse, Strip\)"):
        tokenizers_json.read(description)


@pytest.mark.parametrize(
    ("decoder", "piece", "token"),
    [
        ({"type": "ByteLevel"}, "Ġa", b" a"),
        ({"type": "ByteLevel"}, "Ġa b", "Ġa b".encode()),
        ({"type": "ByteLevel"}, "Ã", b"\xc3"),
        ({"type": "ByteFallback"}, "<0xe9>", b"\xe9"),
        ({"type": "ByteFallback"}, "<0xE9", b"<0xE9"),
        ({"type": "ByteFallback"}, "x<0x41>y", b"x<0x41>y"),
        ({"type": "Metaspace", "replacement": "_"}, "_a_b", b" a b"),
        ({"type": "WordPiece", "prefix": "##", "cleanup": True}, "##a", b"a"),
        ({"type": "WordPiece", "prefix": "##", "cleanup": True}, ".", b"."),
        ({"type": "WordPiece", "prefix": "##", "cleanup": False}, ".", b" ."),
        ({"type": "BPEDecoder", "suffix": "</w>"}, "a</w>", b"a "),
        ({"type": "Strip", "content": "_", "start": 1, "stop": 2}, "__a___", b"_a_"),
        ({"type": "Fuse"}, "▁Ġ", "▁Ġ".encode()),
    ],
)
def test_decoders_piece_by_piece(decoder: dict[str, Any], piece: str, token: bytes) -> None:
    model = {"type": "WordLevel", "vocab": {piece: 0}, "unk_token": "<unk>"}
    assert tokenizers_json.read({"model": model, "decoder": decoder}) == [token]


@pytest.fixture(scope="module")
def transformers() -> Any:
    return pytest.importorskip("transformers", reason="transformers is not installed")


@pytest.mark.parametrize("kind", [byte_level, byte_fallback, unigram, word_piece])
def test_fast_tokenizers_of_transformers(transformers: Any, kind: Callable[[], Any]) -> None:
    fast = transformers.PreTrainedTokenizerFast(
        tokenizer_object=trained(kind), eos_token="</s>", pad_token="<pad>", additional_special_tokens=["<|turn|>"]
    )
    fast.add_tokens(ADDED)
    vocabulary = Vocabulary.from_huggingface(fast)
    assert vocabulary.end_ids == (fast.eos_token_id,)
    assert len(vocabulary) == len(fast)
    assert {vocabulary.tokens[i] for i in fast.all_special_ids} == {None}
    assert vocabulary.special_tokens["<|turn|>"] == fast.convert_tokens_to_ids("<|turn|>")
    assert [vocabulary.tokens[i] for i in fast.convert_tokens_to_ids(ADDED)] == [added.encode() for added in ADDED]
    plain = vocabulary_of(kind)
    assert vocabulary.tokens[: len(plain)] == plain.tokens


def test_a_fast_tokenizer_without_an_end(transformers: Any) -> None:
    fast = transformers.PreTrainedTokenizerFast(tokenizer_object=trained(byte_level))
    if fast.eos_token_id is not None:
        pytest.skip("this version of transformers gives every tokenizer an end token")
    with pytest.raises(InvalidVocabulary, match="pass end_ids"):
        Vocabulary.from_huggingface(fast)


def test_a_slow_byte_level_tokenizer(transformers: Any, tmp_path: Path) -> None:
    """Clvp's is the one tokenizer that is slow and byte-level in every version of transformers."""
    model = json.loads(trained(byte_level).to_str())["model"]
    (tmp_path / "vocab.json").write_text(json.dumps({**model["vocab"], "[UNK]": 700, "<|end|>": 701}))
    merges = "\n".join(" ".join(merge) for merge in model["merges"])
    (tmp_path / "merges.txt").write_text(f"#version: 0.2\n{merges}\n")
    slow = transformers.ClvpTokenizer(
        str(tmp_path / "vocab.json"), str(tmp_path / "merges.txt"), unk_token="[UNK]", eos_token="<|end|>"
    )
    slow.add_tokens(["naïve Ġ"])
    vocabulary = Vocabulary.from_huggingface(slow)
    pieces = slow.convert_ids_to_tokens(list(range(700)))
    expected = dict(zip(model["vocab"], vocabulary_of(byte_level).tokens, strict=True))
    assert list(vocabulary.tokens[3:700]) == [expected[piece] for piece in pieces[3:]]
    assert vocabulary.tokens[slow.convert_tokens_to_ids("naïve Ġ")] == "naïve Ġ".encode()
    assert vocabulary.tokens[701] is None


def test_a_processor_is_read_as_its_tokenizer(transformers: Any) -> None:
    class Processor:
        tokenizer = transformers.PreTrainedTokenizerFast(tokenizer_object=trained(byte_level), eos_token="</s>")

    assert Vocabulary.from_huggingface(Processor()).tokens == vocabulary_of(byte_level).tokens


def test_a_slow_tokenizer_of_an_unknown_kind(transformers: Any) -> None:
    with pytest.raises(InvalidVocabulary, match=r"slow tokenizer CanineTokenizer does not define.*fast version"):
        Vocabulary.from_huggingface(transformers.CanineTokenizer())
