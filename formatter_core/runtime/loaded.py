"""Compiled formats that were read from bytes."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from formatter_core.engine.protocol import ReadsPrograms
from formatter_core.errors import InvalidFormat, LimitExceeded
from formatter_core.formats import from_json
from formatter_core.formats.protocol import Format
from formatter_core.grammar import Program
from formatter_core.limits import Limits
from formatter_core.runtime.compiled import CompiledFormat
from formatter_core.runtime.lowering import LoweredLater, Lowering, check_tokens, program_of
from formatter_core.runtime.stored import stored_text
from formatter_core.vocabulary import Vocabulary

__all__ = ["format_of", "load_format"]


def format_of(stored: bytes, begin: int, type: Any) -> Format:
    """The format that begins there in the bytes."""
    try:
        data = json.loads(stored_text(stored, begin))
    except (ValueError, RecursionError) as error:
        raise InvalidFormat("the bytes of the compiled format describe no format; compile it again") from error
    try:
        return from_json(data, type=type)
    except RecursionError as error:
        raise LimitExceeded("levels", 0, "the nesting of formats", is_fixed=True) from error


def load_format(
    program: Program, read: Callable[[], Format], engine: ReadsPrograms, vocabulary: Vocabulary, limits: Limits
) -> CompiledFormat[Any]:
    """Make a stored format ready: only what masks need. The rest is made of what `read` gives."""
    if program.tokens:
        check_tokens(program.tokens, vocabulary)
    lowering = _StoredLowering(read, program, vocabulary, limits)
    engine_grammar = engine.load(program, vocabulary, limits)
    return CompiledFormat(lowering, engine_grammar, vocabulary, engine.name, limits)


class _StoredLowering(LoweredLater):
    def make(self) -> Lowering:
        """Lower the format, whose grammar must be the one that was stored."""
        made = super().make()
        if self.program != made.program and self.program != program_of(self.format, self.limits):
            raise InvalidFormat(
                "the grammar in the bytes of the compiled format is not the one of this release; compile it again"
            )
        return made
