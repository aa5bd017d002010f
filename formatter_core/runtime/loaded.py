"""Compiled formats that were read from bytes."""

from __future__ import annotations

import json
from typing import Any

from formatter_core.engine.protocol import EngineGrammar, ReadsPrograms
from formatter_core.errors import InvalidFormat, LimitExceeded
from formatter_core.formats import from_json
from formatter_core.formats.protocol import Format, Lowered
from formatter_core.limits import Limits
from formatter_core.runtime.compiled import CompiledFormat
from formatter_core.runtime.lowering import Lowering, check_tokens, lower
from formatter_core.runtime.stored import StoredFormat
from formatter_core.support.generics import Value_co
from formatter_core.support.lazy import cached_property
from formatter_core.vocabulary import Vocabulary

__all__ = ["format_of", "load_format"]

#: Stands in the JSON of every format that names a Python type.
_PYTHON_TYPE = b'"python_type"'


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
    check_tokens(stored.program.tokens, vocabulary)
    loaded: _LoadedFormat[Any] = _LoadedFormat(
        stored, engine.load(stored.program, vocabulary, limits), vocabulary, engine.name, limits, type
    )
    if _PYTHON_TYPE in stored.format:
        _ = loaded.format  # which raises where the type is not given, or is another one
    return loaded


class _LoadedFormat(CompiledFormat[Value_co]):
    """A compiled format whose grammar as values is lowered from the format when it is first needed."""

    def __init__(
        self,
        stored: StoredFormat,
        engine_grammar: EngineGrammar,
        vocabulary: Vocabulary,
        engine: str,
        limits: Limits,
        type: Any,
    ) -> None:
        self._stored = stored
        self._type = type
        self.engine_grammar = engine_grammar
        self.vocabulary = vocabulary
        self.engine = engine
        self.limits = limits
        self.program = stored.program
        self.max_tokens = None

    @cached_property
    def format(self) -> Format:  # type: ignore[override]
        """See `PreparedFormat`."""
        return format_of(self._stored, self._type)

    @property
    def lowered(self) -> Lowered:  # type: ignore[override]
        """See `PreparedFormat`."""
        return self._lowering.lowered

    @property
    def as_written(self) -> Lowered:  # type: ignore[override]
        """See `PreparedFormat`."""
        return self._lowering.as_written

    @cached_property
    def _lowering(self) -> Lowering:
        made = lower(self.format, self.vocabulary, self.limits)
        if made.program != self.program:
            raise InvalidFormat(
                "the bytes of the compiled format hold another grammar than this release makes of it; compile it again"
            )
        return made
