"""A format made ready for one vocabulary."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, NoReturn

from formatter_core.engine.protocol import EngineGrammar
from formatter_core.formats.protocol import Format, Lowered
from formatter_core.grammar import Census
from formatter_core.limits import Limits
from formatter_core.parsing import Recognizer, min_bytes, parse
from formatter_core.runtime.explanation import describe
from formatter_core.runtime.result import Result
from formatter_core.support.arguments import as_bytes, not_picklable
from formatter_core.support.lazy import cached_property
from formatter_core.vocabulary import Vocabulary, checked_end_ids

if TYPE_CHECKING:
    from formatter_core.runtime.formatter import Formatter

__all__ = ["CompiledFormat"]


class CompiledFormat:
    """A format made ready for one vocabulary: immutable, and shared freely between threads and sequences.

    Attributes:
        format: what was compiled.
        vocabulary: what it was compiled for.
        engine: the name of the grammar engine that computes its masks.
        limits: the limits that each step keeps.
        census: what its grammar consists of.
    """

    def __init__(
        self,
        format: Format,
        lowered: Lowered,
        engine_grammar: EngineGrammar,
        *,
        vocabulary: Vocabulary,
        engine: str,
        limits: Limits,
        census: Census,
    ) -> None:
        self.format = format
        self.lowered = lowered
        self.engine_grammar = engine_grammar
        self.vocabulary = vocabulary
        self.engine = engine
        self.limits = limits
        self.census = census

    def __repr__(self) -> str:
        return f"<CompiledFormat {type(self.format).__name__} for {len(self.vocabulary)} tokens, engine {self.engine}>"

    def __copy__(self) -> CompiledFormat:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> CompiledFormat:
        return self

    def __reduce__(self) -> NoReturn:
        raise not_picklable(self, "send format.to_json() and compile formats.from_json of it there")

    def formatter(self, end_ids: Iterable[int] | None = None) -> Formatter:
        """The state of a new sequence.

        Args:
            end_ids: this request's own stop ids, in place of the vocabulary's.

        Raises:
            InvalidVocabulary: an end id lies outside the vocabulary, or there is none.
        """
        from formatter_core.runtime.formatter import Formatter  # the two modules refer to each other

        if end_ids is None:
            return Formatter(self, self.vocabulary.end_ids)
        chosen = checked_end_ids(end_ids, len(self.vocabulary))
        # The same ids are the same tuple, so that the formatter need not ask which of them are text.
        return Formatter(self, self.vocabulary.end_ids if chosen == self.vocabulary.end_ids else chosen)

    def parse(self, text: str | bytes) -> Result:
        """What the format makes of a text, without tokens; the value of a text that is not in it raises when read."""
        data = text.encode("utf-8", "surrogatepass") if isinstance(text, str) else as_bytes(text, "text")
        match = parse(self.lowered.grammar, data, self.limits)
        missing = None if match is not None else self._what_is_missing(data)
        return Result(data, (), "end" if match is not None else None, missing, self.lowered, match)

    @property
    def has_captures(self) -> bool:
        """Whether a parse of a text may hold captures, internal ones included."""
        return self.census.captures

    @cached_property
    def min_bytes(self) -> int:
        """The length in bytes of the shortest complete output."""
        return min_bytes(self.lowered.grammar, self.limits)

    @cached_property
    def fingerprint(self) -> str:
        """A hash of grammar and vocabulary: equal for equal content, in every process."""
        content = self.lowered.grammar.fingerprint + self.vocabulary.fingerprint
        return hashlib.sha256(content.encode()).hexdigest()

    def _what_is_missing(self, data: bytes) -> str:
        recognizer = Recognizer(self.lowered.grammar, self.limits)
        for place, byte in enumerate(data):
            if not recognizer.push(byte):
                return f"the text leaves the format at byte {place}; expected {describe(recognizer.expected())}"
        return f"the text ends too early; expected {describe(recognizer.expected())}"
