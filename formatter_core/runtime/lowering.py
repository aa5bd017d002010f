"""Lower formats to grammars for one vocabulary."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import partial

from formatter_core.errors import InvalidFormat
from formatter_core.errors.arguments import shown
from formatter_core.formats.protocol import Format
from formatter_core.grammar import AnySpecial, Choice, Grammar, Node, Special, Token, as_text, without_specials
from formatter_core.limits import Limits
from formatter_core.runtime.raw_characters import Characters, with_spelled_texts
from formatter_core.vocabulary import Vocabulary

__all__ = ["Lowering", "check_tokens"]

_NAMES_SHOWN = 10


class Lowering:
    """A format lowered to a grammar for a vocabulary.

    Args:
        format: the format to lower.
        vocabulary: the vocabulary to lower it for.
        limits: the maximum cost.
        characters: the characters that the vocabulary can spell.

    Attributes:
        format: the same format.
        as_written: the grammar, with special tokens by name.
        lowered: the grammar with special tokens by id.
        program: the grammar of `lowered` as a program.

    Raises:
        InvalidFormat: the format is invalid, or names a token that it must not contain.
        LimitExceeded: the format costs more than `limits` allow.
        FormatterError: a schema in it cannot be lowered.
    """

    __slots__ = ("as_written", "format", "lowered", "program")

    def __init__(self, format: Format, vocabulary: Vocabulary, limits: Limits, characters: Characters) -> None:
        lowered = format.to_grammar(limits)
        if not characters.all_there_are:
            grammar = with_spelled_texts(lowered.grammar, characters)
            lowered = lowered if grammar is lowered.grammar else replace(lowered, grammar=grammar)
        self.format = format
        self.as_written = lowered
        if lowered.grammar.has_specials:
            lowered = replace(lowered, grammar=without_specials(lowered.grammar, partial(_special_token, vocabulary)))
        program = lowered.grammar.check(limits)
        if program.tokens:
            check_tokens(program.tokens, vocabulary)
        self.lowered = lowered
        self.program = program

    def grammars_made(self) -> tuple[Grammar, ...]:
        """Return the grammars made so far; see `IsLowered`."""
        return self.lowered.grammar, self.as_written.grammar


def _special_token(vocabulary: Vocabulary, special: Special | AnySpecial) -> Node:
    """Return the token that has this name in the vocabulary, or the name as text if that is permitted."""
    tokens = vocabulary.special_tokens
    if isinstance(special, AnySpecial):
        excluded = {_excluded_token(vocabulary, each) for each in special.excluded}.union(vocabulary.end_ids)
        return Choice(tuple(Token(token_id) for token_id in tokens.values() if token_id not in excluded))
    token_id = tokens.get(special.name)
    if token_id is not None and token_id not in vocabulary.end_ids:
        return Token(token_id)
    if special.or_text:
        return as_text(special)
    if token_id is not None:
        raise InvalidFormat(f"the special token {special.name!r} is an end id; leave it out: a format ends by itself")
    raise _unknown_special(special.name, tokens)


def _excluded_token(vocabulary: Vocabulary, token: str | int) -> int:
    """Return the id of a special token that a free region excludes."""
    if isinstance(token, str):
        if token not in vocabulary.special_tokens:
            raise _unknown_special(token, vocabulary.special_tokens)
        return vocabulary.special_tokens[token]
    if token >= len(vocabulary) or vocabulary.text_token(token):
        raise InvalidFormat(
            f"token {token} is not a special token, but only those can be excluded; exclude a text by `any_text` or "
            "`dispatch`"
        )
    return token


def _unknown_special(name: str, tokens: Mapping[str, int]) -> InvalidFormat:
    others = difflib.get_close_matches(name, tokens, _NAMES_SHOWN, 0.0) or ["none"]
    return InvalidFormat(
        f"the vocabulary has no special token {shown(name)}; its special tokens are "
        f"{', '.join(others)}{', ...' if len(tokens) > len(others) else ''}"
    )


def check_tokens(tokens: Iterable[int], vocabulary: Vocabulary) -> None:
    """Check that each token that the grammar names by id is in the vocabulary, and is neither text nor an end id."""
    for token_id in tokens:
        if token_id >= len(vocabulary):
            raise InvalidFormat(f"token {token_id} is outside the vocabulary of {len(vocabulary)} ids")
        if token_id in vocabulary.end_ids:
            raise InvalidFormat(f"token {token_id} is an end id, which a format never contains; remove it")
        if vocabulary.text_token(token_id):
            raise InvalidFormat(
                f"token {token_id} is text ({vocabulary.text_token(token_id)!r}); "
                "only special tokens can be given by id, so use the text instead"
            )
