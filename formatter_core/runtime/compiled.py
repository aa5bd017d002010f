"""Define a format compiled for one vocabulary."""

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
    """A format compiled for one vocabulary; it is immutable, and threads and sequences can share it.

    You can use it wherever you can use a format.
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
        """Return the state of a new sequence.

        Args:
            end_ids: end ids for this request, instead of the vocabulary's.
            max_tokens: a budget: the output is complete within this many tokens, including the end id. Near the limit
                only tokens are allowed that leave room for a completion. None: the budget of `within`, or none.

        Raises:
            InvalidVocabulary: an end id is outside the vocabulary, or there are none.
            BudgetTooSmall: no complete output is known to fit into `max_tokens`.
            UnsupportedByEngine: the engine does not support budgets.
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
        """Return the same format with a default budget, for sequences without their own; None changes nothing.

        Raises:
            BudgetTooSmall: no complete output is known to fit into `max_tokens`.
            UnsupportedByEngine: the engine does not support budgets.
            InvalidArgument: `max_tokens` is not a whole number of at least 1.
        """
        if max_tokens is None:
            return self
        self.formatter(max_tokens=max_tokens)
        return self._changed(max_tokens, self.forced_text)

    def with_forced_text(self, forced_text: MaskedText) -> CompiledFormat[Value_co]:
        """Return the same format with other masks where the text is certain, such as a key with its quotes.

        Args:
            forced_text: `"exact"` allows every token that fits the text. `"longest"` allows only the longest of the
                tokens that spell a prefix of the certain text; nearly always it is the token that the tokenizer itself
                would give, and models have been trained on no other there. The formatter still accepts the other
                tokens. Only the native engine leaves any out.

        Raises:
            InvalidArgument: `forced_text` is another value.
        """
        one_of(forced_text, "forced_text", get_args(MaskedText))
        return self if forced_text == self.forced_text else self._changed(self.max_tokens, forced_text)

    def _changed(self, max_tokens: int | None, forced_text: MaskedText) -> CompiledFormat[Value_co]:
        parts = self._lowering, self.engine_grammar, self.vocabulary, self.engine, self.limits
        return CompiledFormat(*parts, max_tokens, forced_text)

    def formatter_within(self, max_tokens: int) -> Formatter[Value_co]:
        """Return `formatter(max_tokens=max_tokens)` if an output fits and the engine supports budgets, else
        `formatter()`.
        """
        try:
            return self.formatter(max_tokens=max_tokens)
        except (BudgetTooSmall, UnsupportedByEngine):
            return self.formatter()

    def parse(self, text: str | bytes) -> Result[Value_co]:
        """Parse a text without tokens, and return the result; special tokens are spelt by name.

        If the text does not match, nothing raises until you read its value.
        """
        return result_of_text(self._of_text, text, self.limits)

    def to_grammar(self, limits: Limits) -> Lowered:
        """Lower the format to a grammar."""
        return self.format.to_grammar(limits)

    def to_json(self) -> dict[str, Any]:
        """Return the format as JSON data."""
        return self.format.to_json()

    def key(self) -> Hashable:
        """Return the key of the format."""
        return self.format.key()

    def to_bytes(self) -> bytes:
        """Return the compiled format as bytes, for `Compiler.from_bytes` with the same vocabulary.

        Raises:
            InvalidFormat: the format is of your own class, which `formats.from_json` does not read.
        """
        data = self.to_json()
        from_json(data, type=Any)
        return write_stored(bytes.fromhex(self.vocabulary.fingerprint), self.program, _as_text(data))

    @cached_property
    def _of_text(self) -> Lowered:
        """Return the grammar for a text without tokens: special tokens are spelt by name."""
        if self.as_written is self.lowered:
            return self.lowered
        return replace(self.lowered, grammar=without_specials(self.as_written.grammar, as_text))

    @cached_property
    def min_bytes(self) -> int:
        """Return the length in bytes of the shortest complete output.

        Raises:
            LimitExceeded: outputs need so many distinct values that the search for the shortest exceeds a limit.
        """
        return min_bytes(self.lowered.grammar, self.limits)

    @cached_property
    def min_tokens(self) -> int:
        """Return how many tokens suffice for a complete output, including the end id: the smallest valid `max_tokens`.

        This is an upper bound: it takes the first of the shortest outputs in bytes, and spells it in as few tokens as
        possible.

        Raises:
            UnsupportedByEngine: the engine does not support budgets.
            BudgetTooSmall: no output is known that the vocabulary can spell.
        """
        needed = self.engine_grammar.start().set_budget(0, ())
        if needed is None:
            raise BudgetTooSmall(0, None)
        return needed

    def memory(self) -> dict[str, int]:
        """Return the bytes that the format takes in the native library, by purpose.

        `program` is the grammar as bytes, `network` the data that masks are computed from. These grow with use:
        `states` (the states of all its sequences), `masks`, `moves` (transitions between states, byte by byte),
        `budgets` (the distance to the end), `sequences` (their histories), `captures` (the parser of results and
        events), `remembered values` (keys and values that occurred, where they must be distinct); such formats also
        have their own `automata` and `token classes`. `Compiler.memory` counts what formats share; Python's own objects
        are not counted. Grammar engines other than the native one do not report their memory.

        The call takes tens of microseconds, whatever the size, and does not block any sequence.
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
        """Return a hash of the stored format and the vocabulary (SHA-256, hexadecimal), equal in every process."""
        return hashlib.sha256(_as_text(self.to_json()) + self.vocabulary.fingerprint.encode()).hexdigest()


def _as_text(data: dict[str, Any]) -> bytes:
    """Return a format's JSON data as the stored bytes."""
    return json.dumps(data, separators=(",", ":")).encode()
