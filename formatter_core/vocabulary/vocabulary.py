"""The vocabulary of a model as immutable values."""

from __future__ import annotations

import hashlib
import operator
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from types import MappingProxyType
from typing import Any, NoReturn

import numpy as np

from formatter_core.errors import InvalidArgument, InvalidVocabulary
from formatter_core.errors.arguments import elements_of, not_a_token_id, shown, whole_number
from formatter_core.vocabulary.table import TokenTable

__all__ = ["Vocabulary", "checked_end_ids", "parts_of"]

#: More ids than any model has; a larger table would exhaust memory.
_LARGEST = 2**27
_NO_END = (
    "a vocabulary needs at least one end id, or no output could ever end; pass end_ids, for example the tokenizer's "
    "end-of-sequence id or the model's generation_config.eos_token_id"
)


class Vocabulary:
    """The bytes of every token id of a model, and the ids that end an output.

    Several ids may have the same bytes, tokens need not be whole characters, and unused ids (None) and empty tokens
    are never allowed. Instances never change and may be shared between threads. They are equal only to themselves;
    compare `fingerprint` for equal content.

    Args:
        tokens: the index is the token id; None is an id that never spells text.
        end_ids: the ids that end an output; they are never text, whatever their bytes.
        special_tokens: the ids of special tokens by name, for `formats.special`; none of them may be text.

    Attributes:
        tokens: the bytes of each token id; None for an id that is never text.
        end_ids: the ids that end an output, sorted.
        words: how many 32-bit words one bitmask row of this vocabulary has.

    Raises:
        InvalidVocabulary: a token that is neither bytes nor None, an end id out of range, no end id, or a special token
            that is text.
    """

    __slots__ = (
        "__weakref__", "_end_set", "_fingerprint", "_special_names", "_special_tokens", "end_ids", "tokens", "words"
    )  # fmt: skip

    tokens: tuple[bytes | None, ...]
    end_ids: tuple[int, ...]
    words: int
    _end_set: frozenset[int]
    _special_tokens: dict[str, int]
    _special_names: dict[int, str]
    _fingerprint: str | None

    def __init__(
        self,
        tokens: Sequence[bytes | None],
        end_ids: Iterable[int],
        special_tokens: Mapping[str, int] | None = None,
    ) -> None:
        table = tuple(elements_of(tokens, "tokens", "bytes and None"))
        if not {type(token) for token in table} <= {bytes, type(None)}:
            _refuse_token(table)
        set_field = object.__setattr__
        set_field(self, "tokens", table)
        set_field(self, "end_ids", checked_end_ids(end_ids, len(table)))
        set_field(self, "words", (len(table) + 31) // 32)
        set_field(self, "_end_set", frozenset(self.end_ids))
        set_field(self, "_special_tokens", _checked_special_tokens(special_tokens or {}, table, self._end_set))
        set_field(self, "_special_names", {token_id: name for name, token_id in self._special_tokens.items()})
        set_field(self, "_fingerprint", None)

    def __setattr__(self, name: str, value: object) -> NoReturn:
        raise AttributeError(f"a Vocabulary is immutable; make a new one instead of setting {name!r}")

    def __delattr__(self, name: str) -> NoReturn:
        raise AttributeError(f"a Vocabulary is immutable; make a new one instead of deleting {name!r}")

    def __reduce__(self) -> tuple[type[Vocabulary], tuple[Any, ...]]:
        return type(self), (self.tokens, self.end_ids, self._special_tokens)

    @property
    def special_tokens(self) -> Mapping[str, int]:
        """The ids of the special tokens by name, including end ids."""
        return MappingProxyType(self._special_tokens)

    @property
    def fingerprint(self) -> str:
        """A hash of the content (SHA-256, hexadecimal): equal for equal tokens and end ids, in every process."""
        if self._fingerprint is None:
            # Two threads may both compute this; the result is the same.
            object.__setattr__(self, "_fingerprint", _fingerprint(self.tokens, self.end_ids, self._special_tokens))
        return str(self._fingerprint)

    def text_token(self, token_id: int) -> bytes | None:
        """Return the bytes that this id adds to a text; None for end ids, unused ids, empty tokens and invalid ids."""
        try:
            if not 0 <= token_id < len(self.tokens) or token_id in self._end_set:
                return None
            return self.tokens[token_id] or None
        except (TypeError, ValueError, ArithmeticError) as error:
            raise not_a_token_id(token_id) from error

    def spelled(self, token_id: int) -> bytes:
        """Return the bytes that this id adds to a text, or the name of a special token; empty for any other id."""
        return self.text_token(token_id) or self._special_names.get(token_id, "").encode()

    def __len__(self) -> int:
        """Return the number of token ids."""
        return len(self.tokens)

    def __repr__(self) -> str:
        ends = ", ".join(map(str, self.end_ids[:4])) + (", ..." if len(self.end_ids) > 4 else "")
        return f"<Vocabulary of {len(self.tokens)} tokens, end ids {ends}>"

    @classmethod
    @cache
    def of_bytes(cls) -> Vocabulary:
        """Make a vocabulary for examples and tests: token id n is the byte n, and 256 is the end id."""
        return cls([*(bytes([byte]) for byte in range(256)), None], end_ids=[256])

    @classmethod
    def from_table(cls, table: TokenTable, end_ids: Iterable[int] | None = None, size: int | None = None) -> Vocabulary:
        """Build the vocabulary from the table that a tokenizer reader returned.

        Args:
            table: the tokens, and the end ids to use if `end_ids` is None.
            end_ids: the ids that end an output instead of the table's.
            size: the width of the model's logits, in ids. A shorter table is filled with unused ids; ids past it,
                which the model cannot produce, are dropped.

        Raises:
            InvalidVocabulary: see the class.
            InvalidArgument: a `size` that cannot be a width of logits.
        """
        tokens = list(table.tokens)
        if size is not None:
            size = whole_number(size, "size", 1)
            if size > _LARGEST:
                raise InvalidArgument(f"size is {size}; give the width of the model's logits", argument="size")
            tokens = tokens[:size] + [None] * (size - len(tokens))
        special = {name: token_id for name, token_id in table.special_tokens.items() if token_id < len(tokens)}
        return cls(tokens, table.end_ids if end_ids is None else end_ids, special)

    @classmethod
    def from_huggingface(
        cls, tokenizer: Any, *, end_ids: Iterable[int] | None = None, size: int | None = None
    ) -> Vocabulary:
        """Read a tokenizer of transformers (fast or slow), or a `tokenizers.Tokenizer`.

        See `formatter_core.vocabulary.huggingface` for what is read and how.

        Args:
            tokenizer: the tokenizer object.
            end_ids: the ids that end an output; by default the tokenizer's end-of-sequence id. Chat models often
                have several: pass what the model's `generation_config.eos_token_id` lists.
            size: the width of the model's logits, which may exceed the tokenizer's ids.

        Raises:
            InvalidVocabulary: the tokenizer does not define how its tokens become text, or has no end id.
        """
        from formatter_core.vocabulary.huggingface import read

        return cls.from_table(read(tokenizer), end_ids, size)

    @classmethod
    def from_tiktoken(
        cls, encoding: Any, *, end_ids: Iterable[int] | None = None, size: int | None = None
    ) -> Vocabulary:
        """Read a `tiktoken.Encoding`; by default its `<|endoftext|>` ends an output.

        Raises:
            InvalidVocabulary: no tiktoken encoding, or no end id.
        """
        from formatter_core.vocabulary.tiktoken import read

        return cls.from_table(read(encoding), end_ids, size)

    @classmethod
    def from_sentencepiece(
        cls, processor: Any, *, end_ids: Iterable[int] | None = None, size: int | None = None
    ) -> Vocabulary:
        """Read a `sentencepiece.SentencePieceProcessor`; by default its `eos_id()` ends an output.

        Raises:
            InvalidVocabulary: no SentencePiece processor, or no end id.
        """
        from formatter_core.vocabulary.sentencepiece import read

        return cls.from_table(read(processor), end_ids, size)

    @classmethod
    def from_mistral_common(
        cls, tokenizer: Any, *, end_ids: Iterable[int] | None = None, size: int | None = None
    ) -> Vocabulary:
        """Read a tokenizer of mistral-common: a `MistralTokenizer`, an instruct tokenizer or its inner one.

        Raises:
            InvalidVocabulary: no tokenizer of mistral-common, or no end id.
        """
        from formatter_core.vocabulary.mistral_common import read

        return cls.from_table(read(tokenizer), end_ids, size)


def _refuse_token(tokens: tuple[object, ...]) -> NoReturn:
    token_id, token = next((i, t) for i, t in enumerate(tokens) if t is not None and type(t) is not bytes)
    raise InvalidVocabulary(
        f"token {token_id} is {shown(token)}; give bytes, or None for an id that is never text", token_id=token_id
    )


def parts_of(vocabulary: Vocabulary, token_ids: Iterable[int]) -> list[bytes | int]:
    """Return `Vocabulary.text_token` of each id, or the id itself where that is None; one call for many ids."""
    tokens, ends, size = vocabulary.tokens, vocabulary._end_set, len(vocabulary)
    return [tokens[each] or each if 0 <= each < size and each not in ends else each for each in token_ids]


def checked_end_ids(end_ids: Iterable[int], size: int) -> tuple[int, ...]:
    """Return the end ids of a vocabulary of `size` ids, sorted.

    Raises:
        InvalidVocabulary: they are not a sequence, one is not an id of the vocabulary, or there is none.
    """
    if isinstance(end_ids, (str, bytes)) or not isinstance(end_ids, Iterable):
        raise InvalidVocabulary(f"end_ids is {shown(end_ids)}; give a sequence of token ids")
    checked: set[int] = set()
    for value in elements_of(end_ids, "end_ids", "token ids"):
        try:
            token_id = operator.index(value)
        except TypeError as error:
            raise InvalidVocabulary(f"the end id {shown(value)} is not a whole number; give token ids") from error
        if not 0 <= token_id < size:
            raise InvalidVocabulary(
                f"the end id {token_id} is outside the vocabulary of {size} ids; "
                "give ids of this tokenizer, or pass the width of the model's logits as size",
                token_id=token_id,
            )
        checked.add(token_id)
    if not checked:
        raise InvalidVocabulary(_NO_END)
    return tuple(sorted(checked))


def _checked_special_tokens(
    special_tokens: object, tokens: tuple[bytes | None, ...], end_ids: frozenset[int]
) -> dict[str, int]:
    if not isinstance(special_tokens, Mapping):
        raise InvalidVocabulary(f"special_tokens is {shown(special_tokens)}; give a mapping from names to token ids")
    for name, token_id in special_tokens.items():
        if not isinstance(name, str) or not name:
            raise InvalidVocabulary(f"the name of a special token is {shown(name)}; give a non-empty text")
        if type(token_id) is not int or not 0 <= token_id < len(tokens):
            raise InvalidVocabulary(
                f"the special token {name!r} has the id {shown(token_id)}; give an id from 0 to {len(tokens) - 1}"
            )
        if tokens[token_id] and token_id not in end_ids:
            raise InvalidVocabulary(
                f"the special token {name!r} is text ({tokens[token_id]!r}) in this vocabulary; give None as its bytes",
                token_id=token_id,
            )
    return dict(special_tokens)


def _fingerprint(tokens: tuple[bytes | None, ...], end_ids: tuple[int, ...], special_tokens: dict[str, int]) -> str:
    # Lengths delimit the tokens, so that different contents never hash the same input.
    lengths = np.array([-1 if token is None else len(token) for token in tokens], dtype="<i8")
    digest = hashlib.sha256(f"{len(tokens)} {end_ids}\n".encode())
    digest.update(lengths.tobytes())
    digest.update(b"".join(token for token in tokens if token))
    if special_tokens:
        digest.update(repr(sorted(special_tokens.items())).encode("utf-8", "surrogatepass"))
    return digest.hexdigest()
