"""Compiled formats that were read from bytes."""

from __future__ import annotations

import json
from typing import Any

from formatter_core.engine.protocol import ReadsPrograms
from formatter_core.errors import InvalidFormat, InvalidGrammar, LimitExceeded
from formatter_core.formats import from_json
from formatter_core.formats.protocol import Format, Lowered
from formatter_core.grammar import Grammar, Program
from formatter_core.grammar.lazy import cached_property
from formatter_core.limits import Limits
from formatter_core.runtime.compiled import CompiledFormat
from formatter_core.runtime.lowering import Lowering, check_tokens
from formatter_core.runtime.raw_characters import characters_of
from formatter_core.runtime.stored import UNNAMED_AT, check_stored, read_stored, stored_program, stored_text
from formatter_core.vocabulary import Vocabulary

__all__ = ["format_of", "load_format"]


def format_of(stored: bytes, type: Any) -> Format:
    """The format in the bytes."""
    try:
        data = json.loads(stored_text(stored))
    except (ValueError, RecursionError) as error:
        raise InvalidFormat("the bytes of the compiled format describe no format; compile it again") from error
    try:
        return from_json(data, type=type)
    except RecursionError as error:
        raise LimitExceeded("levels", 0, "the nesting of formats", is_fixed=True) from error


def load_format(
    data: bytes, type: Any, engine: ReadsPrograms, vocabulary: Vocabulary, limits: Limits
) -> CompiledFormat[Any]:
    """Make a stored format ready: only what masks need. The rest is made of the format that is in the bytes."""
    begin, end, nodes, regions, _, has_type = read_stored(data)
    lowering = _StoredLowering(data, type, vocabulary, limits)
    try:
        engine_grammar = engine.load(data, begin, end, regions, vocabulary, limits)
    except InvalidGrammar:
        check_stored(data)
        raise
    if nodes > limits.nodes:
        raise LimitExceeded("nodes", limits.nodes, "the grammar")
    if begin != UNNAMED_AT:
        check_tokens(lowering.program.tokens, vocabulary)
    if has_type:
        _ = lowering.format  # which raises where the type is not given, or is another one
    return CompiledFormat(lowering, engine_grammar, vocabulary, engine.name, limits)


class _StoredLowering:
    """A format in bytes, and its grammar: all that is made when it is first needed. See `IsLowered`."""

    def __init__(self, data: bytes, type: Any, vocabulary: Vocabulary, limits: Limits) -> None:
        self._data = data
        self._type = type
        self._vocabulary = vocabulary
        self._limits = limits

    @cached_property
    def format(self) -> Format:
        """What was compiled."""
        return format_of(self._data, self._type)

    @cached_property
    def program(self) -> Program:
        """Its grammar as engines read it."""
        return stored_program(self._data)

    @property
    def as_written(self) -> Lowered:
        """Its grammar, with special tokens by name, and how its parse becomes values."""
        return self._made.as_written

    @property
    def lowered(self) -> Lowered:
        """The same with special tokens by id."""
        return self._made.lowered

    def grammars_made(self) -> tuple[Grammar, ...]:
        """See `IsLowered`."""
        return self._made.grammars_made() if "_made" in vars(self) else ()

    @cached_property
    def _made(self) -> Lowering:
        """The format lowered, whose grammar must be the one that was stored."""
        made = Lowering(self.format, self._vocabulary, self._limits, characters_of(self._vocabulary))
        if self.program != made.program:
            raise InvalidFormat(
                "the grammar in the bytes of the compiled format is not the one of this release; compile it again"
            )
        return made
