"""The vocabulary as a value: what it accepts, refuses and says."""

from __future__ import annotations

import copy
import gc
import pickle
import subprocess
import sys
import weakref
from typing import Any

import pytest

from formatter_core.errors import InvalidArgument, InvalidVocabulary
from formatter_core.vocabulary import Vocabulary
from formatter_core.vocabulary.table import TokenTable
from tests.threads import in_threads

TOKENS = [b"a", None, b"", b"a", b"\xff", b"</s>", b"</s>"]


def test_holes_duplicates_and_empty_tokens_are_fine() -> None:
    vocabulary = Vocabulary(TOKENS, [5])
    assert vocabulary.tokens == tuple(TOKENS)
    assert len(vocabulary) == 7
    assert [vocabulary.text_token(i) for i in range(-2, 9)] == [
        None, None, b"a", None, None, b"a", b"\xff", None, b"</s>", None, None,
    ]  # fmt: skip


def test_end_ids_are_sorted_and_counted_once() -> None:
    assert Vocabulary(TOKENS, iter([5, 1, 5])).end_ids == (1, 5)


@pytest.mark.parametrize(("count", "words"), [(1, 1), (32, 1), (33, 2), (64, 2), (65, 3)])
def test_words(count: int, words: int) -> None:
    assert Vocabulary([b"x"] * count, [0]).words == words


@pytest.mark.parametrize(
    ("tokens", "end_ids", "token_id", "says"),
    [
        ([b"a", "b"], [0], 1, "token 1 is 'b'; give bytes"),
        ([b"a", 7], [0], 1, "give bytes"),
        ([b"a", bytearray(b"b")], [0], 1, "give bytes"),
        ([b"a"], [], None, "at least one end id.*pass end_ids"),
        ([], [], None, "at least one end id"),
        ([b"a"], [1], 1, "outside the vocabulary of 1 ids"),
        ([b"a"], [-1], -1, "outside the vocabulary"),
        ([b"a"], ["a"], None, "not a whole number"),
        ([b"a"], [0.0], None, "not a whole number"),
        ([b"a"], 0, None, "give a sequence"),
        ([b"a"], b"\0", None, "give a sequence"),
    ],
)
def test_refusals(tokens: Any, end_ids: Any, token_id: int | None, says: str) -> None:
    with pytest.raises(InvalidVocabulary, match=says) as caught:
        Vocabulary(tokens, end_ids)
    assert caught.value.token_id == token_id


def test_the_fingerprint_is_of_the_content() -> None:
    first = Vocabulary(TOKENS, [5])
    assert first.fingerprint == Vocabulary(list(TOKENS), (5,)).fingerprint
    others = [
        Vocabulary(TOKENS, [6]),
        Vocabulary(TOKENS, [5, 6]),
        Vocabulary([*TOKENS, None], [5]),
        Vocabulary([b"", *TOKENS[1:]], [5]),
        Vocabulary([None, *TOKENS[1:]], [5]),
        Vocabulary([b"a", None, b"a", b"", *TOKENS[4:]], [5]),
    ]
    assert len({vocabulary.fingerprint for vocabulary in [first, *others]}) == 1 + len(others)


def test_the_fingerprint_is_the_same_in_every_process() -> None:
    code = "from formatter_core.vocabulary import Vocabulary; print(Vocabulary([b'ab', None, b''], [1]).fingerprint)"
    printed = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert printed.strip() == Vocabulary([b"ab", None, b""], [1]).fingerprint


def test_it_never_changes_and_can_be_shared() -> None:
    vocabulary = Vocabulary(TOKENS, [5])
    with pytest.raises(AttributeError):
        vocabulary.tokens = ()  # type: ignore[misc]
    with pytest.raises(AttributeError):
        vocabulary.end_ids = ()
    with pytest.raises(AttributeError):
        del vocabulary.words
    assert in_threads(lambda _: vocabulary.fingerprint, 8) == [vocabulary.fingerprint] * 8


def test_weak_references_and_copies() -> None:
    vocabulary = Vocabulary(TOKENS, [5])
    for other in (copy.copy(vocabulary), copy.deepcopy(vocabulary), pickle.loads(pickle.dumps(vocabulary))):
        assert other.fingerprint == vocabulary.fingerprint
    reference = weakref.ref(vocabulary)
    del vocabulary
    gc.collect()
    assert reference() is None


def test_repr_is_short() -> None:
    assert repr(Vocabulary([b"x"] * 100_000, range(50))) == "<Vocabulary of 100000 tokens, end ids 0, 1, 2, 3, ...>"


def test_from_table_sizes_to_the_logits() -> None:
    table = TokenTable([b"a", b"b", b"c"], (1,))
    assert Vocabulary.from_table(table).end_ids == (1,)
    assert Vocabulary.from_table(table, [2]).end_ids == (2,)
    assert Vocabulary.from_table(table, size=5).tokens == (b"a", b"b", b"c", None, None)
    assert Vocabulary.from_table(table, size=2).tokens == (b"a", b"b")
    with pytest.raises(InvalidVocabulary, match="outside"):
        Vocabulary.from_table(table, [2], size=2)
    for size in (0, 2**40):
        with pytest.raises(InvalidArgument, match="size is"):
            Vocabulary.from_table(table, size=size)


@pytest.mark.parametrize(
    ("reader", "wants"),
    [
        ("from_huggingface", "transformers"),
        ("from_tiktoken", "tiktoken.Encoding"),
        ("from_sentencepiece", "SentencePieceProcessor"),
        ("from_mistral_common", "MistralTokenizer"),
    ],
)
def test_readers_say_what_they_want(reader: str, wants: str) -> None:
    with pytest.raises(InvalidVocabulary, match=wants):
        getattr(Vocabulary, reader)(object())


def test_importing_imports_no_tokenizer_library() -> None:
    code = (
        "import sys; from formatter_core.vocabulary import huggingface, tiktoken, sentencepiece, mistral_common;"
        "libraries = {'torch', 'transformers', 'tokenizers', 'tiktoken', 'mistral_common', 'sentencepiece'};"
        "print(sorted(libraries & set(sys.modules)))"
    )
    printed = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert printed.strip() == "[]"


def test_spelled_is_the_text_of_a_token_or_the_name_of_a_special_one() -> None:
    vocabulary = Vocabulary([b"a", None, None, b"</s>"], [3], {"<tool>": 1, "</s>": 3})
    assert [vocabulary.spelled(token_id) for token_id in range(-1, 5)] == [b"", b"a", b"<tool>", b"", b"</s>", b""]
