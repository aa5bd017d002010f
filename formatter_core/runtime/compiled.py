"""A format compiled for one vocabulary."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Hashable, Iterable
from dataclasses import replace
from typing import Any, NoReturn, get_args

from formatter_core.engine.native_parser import parsers_memory
from formatter_core.engine.protocol import TellsMemory
from formatter_core.engine.shortest import min_bytes
from formatter_core.errors import BudgetTooSmall, UnsupportedByEngine
from formatter_core.errors.arguments import not_picklable, one_of, shown, whole_number
from formatter_core.formats import from_json
from formatter_core.formats.one_of import Alternatives
from formatter_core.formats.protocol import Lowered
from formatter_core.grammar import as_text, without_specials
from formatter_core.grammar.lazy import cached_property
from formatter_core.limits import Limits
from formatter_core.runtime.formatter import Formatter
from formatter_core.runtime.generics import Value_co
from formatter_core.runtime.prepared import MaskedText, PreparedFormat
from formatter_core.runtime.result import Result
from formatter_core.runtime.stored import write_stored
from formatter_core.runtime.text_result import result_of_text
from formatter_core.vocabulary import checked_end_ids

__all__ = ["CompiledFormat"]


class CompiledFormat(PreparedFormat[Value_co], Alternatives):
    """A format compiled for one vocabulary: immutable, and shared freely between threads and sequences.

    You can use it wherever you can use a format; it then means the format that was compiled.
    """

    def __repr__(self) -> str:
        return f"<CompiledFormat of {shown(self.format)}, {len(self.vocabulary)} tokens, engine {self.engine}>"

    def __copy__(self) -> CompiledFormat[Value_co]:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> CompiledFormat[Value_co]:
        return self

    def __reduce__(self) -> NoReturn:
        raise not_picklable(self, "send its to_bytes(), and call Compiler.from_bytes there")

    def formatter(self, end_ids: Iterable[int] | None = None, max_tokens: int | None = None) -> Formatter[Value_co]:
        """The state of a new sequence.

        Args:
            end_ids: this request's own end ids, instead of the vocabulary's.
            max_tokens: the output is complete within this many tokens, including the end id. Near the limit only
                tokens are allowed after which some completion still fits. None: the budget of `within`, or none.

        Raises:
            InvalidVocabulary: an end id is outside the vocabulary, or there are none.
            BudgetTooSmall: no complete output is known to fit into `max_tokens`.
            UnsupportedByEngine: the engine keeps no budgets.
        """
        if max_tokens is None:
            max_tokens = self.max_tokens
        else:
            whole_number(max_tokens, "max_tokens", 1)
        own = self.vocabulary.end_ids
        chosen = own if end_ids is None else checked_end_ids(end_ids, len(self.vocabulary))
        # Reuse the same tuple, so that the formatter need not check which ids are text.
        return Formatter(self, own if chosen == own else chosen, max_tokens)

    def within(self, max_tokens: int | None) -> CompiledFormat[Value_co]:
        """The same format, with a budget for every sequence that has none of its own; None changes nothing.

        Raises:
            BudgetTooSmall: no complete output is known to fit into `max_tokens`.
            UnsupportedByEngine: the engine keeps no budgets.
            InvalidArgument: `max_tokens` is not a whole number from 1.
        """
        if max_tokens is None:
            return self
        self.formatter(max_tokens=max_tokens)
        return self._changed(max_tokens, self.forced_text)

    def with_forced_text(self, forced_text: MaskedText) -> CompiledFormat[Value_co]:
        """The same format, with other masks where the text is certain, such as a key with its quotes.

        Args:
            forced_text: `"exact"`: every token that the text may go on with. `"longest"`: of those that spell a
                beginning of the certain text, only the longest; nearly always it is the one that the tokenizer itself
                would give, and models have seen no other there. The others are accepted all the same. Only the native
                engine leaves any out.

        Raises:
            InvalidArgument: `forced_text` is something else.
        """
        one_of(forced_text, "forced_text", get_args(MaskedText))
        return self if forced_text == self.forced_text else self._changed(self.max_tokens, forced_text)

    def _changed(self, max_tokens: int | None, forced_text: MaskedText) -> CompiledFormat[Value_co]:
        parts = self._lowering, self.engine_grammar, self.vocabulary, self.engine, self.limits
        return CompiledFormat(*parts, max_tokens, forced_text)

    def formatter_within(self, max_tokens: int) -> Formatter[Value_co]:
        """`formatter(max_tokens=max_tokens)` if some output fits and the engine keeps budgets, else `formatter()`."""
        try:
            return self.formatter(max_tokens=max_tokens)
        except (BudgetTooSmall, UnsupportedByEngine):
            return self.formatter()

    def parse(self, text: str | bytes) -> Result[Value_co]:
        """The result of a text, without tokens; special tokens are spelt by name.

        For a text that does not match, reading the value raises.
        """
        return result_of_text(self._of_text, text, self.limits)

    def to_grammar(self, limits: Limits) -> Lowered:
        """What its format lowers to."""
        return self.format.to_grammar(limits)

    def to_json(self) -> dict[str, Any]:
        """Its format as JSON data."""
        return self.format.to_json()

    def key(self) -> Hashable:
        """The key of its format."""
        return self.format.key()

    def to_bytes(self) -> bytes:
        """The compiled format as bytes, for `Compiler.from_bytes` with the same vocabulary.

        Raises:
            InvalidFormat: its format is one of your own, which `formats.from_json` does not read.
        """
        data = self.to_json()
        from_json(data, type=Any)
        return write_stored(bytes.fromhex(self.vocabulary.fingerprint), self.program, _as_text(data))

    @cached_property
    def _of_text(self) -> Lowered:
        """Its grammar as a text without tokens has it: special tokens are spelt."""
        if self.as_written is self.lowered:
            return self.lowered
        return replace(self.lowered, grammar=without_specials(self.as_written.grammar, as_text))

    @cached_property
    def min_bytes(self) -> int:
        """The length in bytes of the shortest complete output.

        Raises:
            LimitExceeded: outputs need so many different values that the search for the shortest exceeds a limit.
        """
        return min_bytes(self.lowered.grammar, self.limits)

    @cached_property
    def min_tokens(self) -> int:
        """How many tokens are enough for a complete output, including the end id: the smallest `max_tokens`.

        This is an upper bound: the first of the shortest outputs in bytes, spelt in as few tokens as possible.

        Raises:
            UnsupportedByEngine: the engine keeps no budgets.
            BudgetTooSmall: no output is known that the vocabulary can spell.
        """
        needed = self.engine_grammar.start().set_budget(0, ())
        if needed is None:
            raise BudgetTooSmall(0, None)
        return needed

    def memory(self) -> dict[str, int]:
        """Count the bytes that the format takes in the native library, by what they are for.

        `program` is its grammar as bytes, `network` what masks are worked out from. What grows with use: `states` (the
        situations of all its sequences), `masks`, `moves` (between situations, byte by byte), `budgets` (how far the
        end is), `sequences` (their histories), `captures` (the parser of results and events), `remembered values`
        (keys and values that have come, where they must differ); for such formats also `automata` and `token classes`
        of their own. What formats share is counted by `Compiler.memory`, Python's own objects nowhere. Other grammar
        engines than the native one do not say what they take.

        The call takes tens of microseconds, whatever there is, and no sequence waits for it.
        """
        counted = {"program": self.program.memory()}
        if isinstance(self.engine_grammar, TellsMemory):
            counted |= self.engine_grammar.memory()
        grammars = self._lowering.grammars_made()
        if "_of_text" in vars(self):
            grammars += (self._of_text.grammar,)
        return counted | {"captures": parsers_memory(grammars, self.limits)}

    @cached_property
    def fingerprint(self) -> str:
        """A hash of the format as it is stored and of the vocabulary (SHA-256, hexadecimal), equal in every process."""
        return hashlib.sha256(_as_text(self.to_json()) + self.vocabulary.fingerprint.encode()).hexdigest()


def _as_text(data: dict[str, Any]) -> bytes:
    """A format's JSON data as it is stored."""
    return json.dumps(data, separators=(",", ":")).encode()
