"""The ExLlamaV2 adapter reads tokenizers and recognises releases, on stand-ins."""

from __future__ import annotations

import json
import sys
import types
from collections.abc import Iterator

import numpy as np
import pytest

pytest.importorskip("torch", reason="the ExLlamaV2 adapter needs torch")

from formatter_core.errors import InvalidFormat, InvalidVocabulary, UnsupportedEngineVersion
from tests.adapters.exllamav2_stand_ins import (
    GENERATIONS,
    Tokenizer,
    allowed,
    description,
    exllamav2_of,
    tokenizer_of,
)

pytestmark = pytest.mark.usefixtures("no_error_says_anything_twice")


@pytest.fixture(autouse=True)
def release(request: pytest.FixtureRequest) -> Iterator[None]:
    with exllamav2_of(getattr(request, "param", GENERATIONS[-1])):
        yield


@pytest.mark.parametrize("release", GENERATIONS, indirect=True)
def test_the_vocabulary_is_read_from_the_raw_pieces() -> None:
    from formatter_exllamav2 import create_vocabulary

    tokenizer = tokenizer_of(description(), vocab_size=300, eos=3, ends=[1, 3, 4000], special={0: "<unk>", 1: "<s>"})
    vocabulary = create_vocabulary(tokenizer)
    assert len(vocabulary) == 300
    assert vocabulary.tokens[:4] == (None, None, b" a", None)
    assert vocabulary.tokens[4 : 4 + 256] == tuple(bytes([byte]) for byte in range(256))
    assert vocabulary.tokens[260:263] == ("日本".encode(), b"<|tool|>", None)
    assert vocabulary.end_ids == (1, 3)
    assert create_vocabulary(tokenizer) is vocabulary
    assert create_vocabulary(tokenizer, end_ids=[261]).end_ids == (261,)
    model = types.SimpleNamespace(config=types.SimpleNamespace(vocab_size=264, generation_config=None))
    assert len(create_vocabulary(tokenizer, model=model)) == 264
    assert create_vocabulary(tokenizer, model=model).end_ids == (3,)


def test_what_exllamav2_takes_for_special_is_never_text() -> None:
    from formatter_exllamav2 import create_vocabulary

    tokenizer = tokenizer_of(description(), vocab_size=300, eos=3, special={261: "<|tool|>", 5000: "<|far|>"})
    assert create_vocabulary(tokenizer).tokens[261] is None


def test_a_sentencepiece_model() -> None:
    from formatter_exllamav2 import create_vocabulary

    pieces = ["<unk>", "<s>", "</s>", "<0xC3>", "▁a"]
    processor = types.SimpleNamespace(
        get_piece_size=lambda: 5,
        eos_id=lambda: 2,
        id_to_piece=pieces.__getitem__,
        is_control=lambda piece: piece in (1, 2),
        is_unknown=lambda piece: piece == 0,
        is_unused=lambda piece: False,
        is_byte=lambda piece: piece == 3,
    )
    tokenizer = Tokenizer(
        tokenizer=types.SimpleNamespace(spm=processor),
        config=types.SimpleNamespace(vocab_size=8),
        eos_token_id=2,
        extended_id_to_piece={2: "</s>"},
    )
    vocabulary = create_vocabulary(tokenizer)
    assert vocabulary.tokens == (None, None, None, b"\xc3", b" a", None, None, None)
    assert vocabulary.end_ids == (2,)


def test_no_tokenizer() -> None:
    from formatter_exllamav2 import create_filter

    with pytest.raises(InvalidVocabulary, match="ExLlamaV2Tokenizer"):
        create_filter(object(), "{}")


@pytest.mark.parametrize(
    ("module", "name"),
    [("exllamav2.generator.filters", "ExLlamaV2Filter"), ("exllamav2.generator", "ExLlamaV2DynamicJob")],
)
def test_a_release_that_is_too_old(module: str, name: str) -> None:
    delattr(sys.modules[module], name)
    with pytest.raises(UnsupportedEngineVersion, match=name):
        import formatter_exllamav2  # noqa: F401


def test_create_filter_says_what_the_issue_of_a_format_is() -> None:
    from formatter_exllamav2 import create_filter

    tokenizer = tokenizer_of(json.loads(json.dumps(description())), vocab_size=300, eos=3)
    each = create_filter(tokenizer, {"type": "integer", "minimum": 0, "maximum": 9})
    each.begin("")
    digits = {4 + byte for byte in b"0123456789"}
    assert allowed(each, 320) == digits
    with pytest.raises(InvalidFormat):
        create_filter(tokenizer, "no schema")
    assert np.all(np.diff(each.end_ids) > 0)
