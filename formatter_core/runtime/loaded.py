"""Compiled formats that were read from bytes."""

from __future__ import annotations

import json
from typing import Any

from formatter_core.engine.protocol import ReadsPrograms
from formatter_core.errors import InvalidFormat, LimitExceeded
from formatter_core.formats import from_json
from formatter_core.formats.protocol import Format
from formatter_core.limits import Limits
from formatter_core.runtime.compiled import CompiledFormat
from formatter_core.runtime.lowering import LoweredLater, Lowering, check_tokens, program_of
from formatter_core.runtime.stored import StoredFormat
from formatter_core.vocabulary import Vocabulary

__all__ = ["format_of", "load_format"]


def format_of(stored: StoredFormat, type: Any) -> Format:
    """The format that the bytes describe."""
    try:
        data = json.loads(stored.format)
    except (ValueError, RecursionError) as error:
        raise InvalidFormat("the bytes of the compiled format describe no format; compile it again") from error
    try:
        return from_json(data, type=type)
    except RecursionError as error:
        raise LimitExceeded("levels", 0, "the nesting of formats", is_fixed=True) from error


def load_format(
    stored: StoredFormat, engine: ReadsPrograms, vocabulary: Vocabulary, limits: Limits, type: Any
) -> CompiledFormat[Any]:
    """Make a stored format ready: only what masks need."""
    program = stored.program
    if program.tokens:
        check_tokens(program.tokens, vocabulary)
    lowering = _StoredLowering(lambda: format_of(stored, type), program, vocabulary, limits)
    if stored.has_type:
        _ = lowering.format  # which raises where the type is not given, or is another one
    engine_grammar = engine.load(program, vocabulary, limits)
    return CompiledFormat(lowering, engine_grammar, vocabulary=vocabulary, engine=engine.name, limits=limits)


class _StoredLowering(LoweredLater):
    def make(self) -> Lowering:
        """Lower the format, whose grammar must be the one that was stored."""
        made = super().make()
        if self.program != made.program and self.program != program_of(self.format, self.limits):
            raise InvalidFormat(
                "the grammar in the bytes of the compiled format is not the one of this release; compile it again"
            )
        return made
