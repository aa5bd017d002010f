"""Load compiled formats from bytes."""

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
    """Return the format in the bytes."""
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
    """Load a stored format with only the data that masks need; the rest is made later from the format in the bytes."""
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
        _ = lowering.format  # raises if the type is missing or is another one
    return CompiledFormat(lowering, engine_grammar, vocabulary, engine.name, limits)


class _StoredLowering:
    """A stored format and its grammar, each made on first use; see `IsLowered`."""

    def __init__(self, data: bytes, type: Any, vocabulary: Vocabulary, limits: Limits) -> None:
        self._data = data
        self._type = type
        self._vocabulary = vocabulary
        self._limits = limits

    @cached_property
    def format(self) -> Format:
        """Return the format."""
        return format_of(self._data, self._type)

    @cached_property
    def program(self) -> Program:
        """Return the grammar as a program for engines."""
        return stored_program(self._data)

    @property
    def as_written(self) -> Lowered:
        """Return the grammar with special tokens by name, and how its parse becomes values."""
        return self._made.as_written

    @property
    def lowered(self) -> Lowered:
        """Return the grammar with special tokens by id, and how its parse becomes values."""
        return self._made.lowered

    def grammars_made(self) -> tuple[Grammar, ...]:
        """Return the grammars made so far."""
        return self._made.grammars_made() if "_made" in vars(self) else ()

    @cached_property
    def _made(self) -> Lowering:
        """Return the lowered format; its grammar must be the stored one."""
        made = Lowering(self.format, self._vocabulary, self._limits, characters_of(self._vocabulary))
        if self.program != made.program:
            raise InvalidFormat(
                "the grammar in the bytes of the compiled format is not the one of this release; compile it again"
            )
        return made
