"""The grammar engine on the kbnf package.

Two of the package's engines serve one grammar. A *tracker* is an engine that never computes a mask. It is small, copied
for every step and never changed afterwards, and so is both the state of a sequence and the history that it rolls back
to. A *masker* keeps each mask that it has computed; a few of them are shared by all sequences of the grammar, advanced
to a state's text by feeding it (0.2 µs a byte), and dropped when their masks have grown past `Limits.cache_bytes`.

What the package would get wrong is kept from it: see `regular` (bytes as letters), `traits` (no large
automata), `lower` (no empty strings, no groups), `normal` (no cycles), `text` (sentinel and
twins), `package` (configuration).
"""

from __future__ import annotations

import time
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from formatter_core.engine.kbnf import package as native
from formatter_core.engine.kbnf.lower import lower
from formatter_core.engine.kbnf.maskers import MaskerPool
from formatter_core.engine.kbnf.normal import normalized
from formatter_core.engine.kbnf.productions import Regex, Rules
from formatter_core.engine.kbnf.regular import SENTINEL, Work, letters
from formatter_core.engine.kbnf.text import regex_text, written
from formatter_core.engine.protocol import NoBudget, OneByOne, StepInTwoCalls
from formatter_core.errors import InvalidGrammar, LimitExceeded, UnsupportedByEngine
from formatter_core.grammar import Grammar
from formatter_core.grammar.json_text import without_json_texts
from formatter_core.limits import Limits
from formatter_core.vocabulary import Vocabulary

__all__ = ["KbnfEngine"]

#: The memory that the patterns of one grammar may take in sum, and one of many at least.
_PATTERNS_BYTES = 32 * 2**20
_PATTERN_BYTES = 4 * 2**20
#: The maximum number of rounds in which patterns that are too large are divided into their parts.
_ROUNDS = 12
#: The time that a step of `Limits.work` may take within one mask, and the number of times that a slow pace is measured
#: again.
_SECONDS_PER_STEP = 1.5e-6
_TRIALS = 3
#: The number of earlier trackers that a state keeps.
_MARKS = 16
_SENTINEL = SENTINEL.encode()


class KbnfEngine:
    """An engine that computes masks with the kbnf package (0.4.2) and avoids its faults.

    The package holds the interpreter's lock while it builds a grammar, and frees it while it computes a mask. The
    first mask in a state costs tens of milliseconds with a large vocabulary, a repeated one microseconds.
    """

    name = "kbnf"

    @staticmethod
    def available() -> bool:
        """Tell whether the supported version of the package is installed."""
        return native.available()

    def compile(self, grammar: Grammar, vocabulary: Vocabulary, limits: Limits) -> KbnfGrammar:
        """Compile a grammar that `Grammar.check` has passed; see `GrammarEngine.compile`."""
        if grammar.check(limits).regions:
            raise UnsupportedByEngine("use the native engine", engine=self.name, node="a budget of tokens for a part")
        work = Work(limits)
        try:
            grammar = without_json_texts(grammar.written_out)
        except LimitExceeded as error:
            raise UnsupportedByEngine(str(error), engine=self.name, node="a list of members") from None
        refused: frozenset[str] = frozenset()
        memory = 0
        for _ in range(_ROUNDS):
            rules = normalized(lower(grammar, vocabulary, limits, work, refused), work)
            if rules.start is None and not rules.nullable:
                raise InvalidGrammar("the grammar derives no text at all; give its rules an alternative that ends")
            text = written(rules)
            patterns = _patterns(rules)
            memory = memory or max(_PATTERN_BYTES, _PATTERNS_BYTES // max(len(patterns), 1))
            try:
                return KbnfGrammar(text, memory, vocabulary, limits)
            except native.PatternError as error:
                more = frozenset(pattern for pattern in patterns if not _buildable(pattern, memory))
                if more <= refused:
                    raise UnsupportedByEngine(str(error), engine=self.name, node="this grammar") from None
                refused |= more
        raise LimitExceeded("states", limits.states, "an automaton of the kbnf package")


class KbnfGrammar(OneByOne):
    """A grammar compiled for one vocabulary; shared between threads."""

    def __init__(self, text: str, memory: int, vocabulary: Vocabulary, limits: Limits) -> None:
        table = native.token_table(vocabulary)
        self.vocabulary = vocabulary
        self.limits = limits
        self.slowest_pace = limits.work * _SECONDS_PER_STEP / len(vocabulary)
        self._build = partial(native.build, text, memory=memory)
        self._template = self._build(table.native)
        self.maskers = MaskerPool(self._template, len(vocabulary), table, limits.cache_bytes)
        self._prober: Any = None

    def start(self) -> KbnfState:
        return KbnfState(self, self._template)

    def prober(self) -> Any:
        """Return an engine of single bytes at the empty text; it is made when forced bytes are first requested."""
        if self._prober is None:
            self._prober = self._build(native.byte_vocabulary())
        return self._prober


class KbnfState(StepInTwoCalls, NoBudget):
    """The state of one sequence: its text in letters, and the tracker at its end."""

    def __init__(self, grammar: KbnfGrammar, tracker: Any) -> None:
        self._grammar = grammar
        self._text = bytearray()
        self._ends: list[int] = []  # where each step ends in the text
        self._tracker = tracker
        self._marks: list[tuple[int, Any]] = [(0, tracker)]  # steps taken, and the tracker after them
        self._last = (tracker, b"")  # the tracker before the last step that had bytes, and these
        self._pace = 0.0  # seconds that it took for each of them
        self._prober: tuple[bytes, Any] | None = None  # a text, and an engine of single bytes after it

    def fill_bitmask(self, row: NDArray[np.int32]) -> int:
        if self._pace > self._grammar.slowest_pace:
            self._check_pace()
        return self._grammar.maskers.fill(self._text, row)

    def accept_token(self, token_id: int) -> bool:
        spelling = native.token_spelling(self._grammar.vocabulary, token_id)
        return spelling is not None and self._accept(spelling)

    def accept_bytes(self, data: bytes) -> bool:
        return self._accept(letters(data).encode())

    def rollback(self, steps: int) -> None:
        if steps == 0:
            return
        self._pace = 0.0
        kept = len(self._ends) - steps
        del self._ends[kept:]
        del self._text[self._ends[-1] if self._ends else 0 :]
        while self._marks[-1][0] > kept:
            self._marks.pop()
        at, tracker = self._marks[-1]
        missing = bytes(self._text[self._ends[at - 1] if at else 0 :])
        if missing:
            tracker = native.fork(tracker)
            native.feed(tracker, missing)
        self._tracker = tracker

    def fork(self) -> KbnfState:
        other = KbnfState(self._grammar, self._tracker)
        other._text = self._text.copy()
        other._ends = self._ends.copy()
        other._marks = self._marks.copy()
        other._last = self._last
        other._pace = self._pace
        return other

    def can_stop(self) -> bool:
        return native.accepts(native.fork(self._tracker), _SENTINEL)

    def forced_bytes(self, limit: int) -> bytes:
        text = bytes(self._text)
        known, prober = self._prober or (b"", self._grammar.prober())
        if not text.startswith(known):
            known, prober = b"", self._grammar.prober()
        prober = native.fork(prober)
        native.feed(prober, text[len(known) :])
        self._prober = (text, native.fork(prober))
        forced = bytearray()
        while len(forced) < limit:
            allowed = native.allowed_ids(prober)
            if len(allowed) != 1 or allowed[0] >= native.BYTE_END:
                break
            forced.append(allowed[0])
            native.feed(prober, letters(bytes(allowed)).encode())
        return bytes(forced)

    def _accept(self, spelling: bytes) -> bool:
        if spelling:
            tracker = native.fork(self._tracker)
            begin = time.perf_counter()
            if not native.accepts(tracker, spelling):
                return False
            self._pace = (time.perf_counter() - begin) / len(spelling)
            self._last = self._tracker, spelling
            self._tracker = tracker
        self._text += spelling
        self._ends.append(len(self._text))
        self._remember()
        return True

    def _check_pace(self) -> None:
        """Refuse a mask that would take minutes, which nothing could interrupt: an ambiguous grammar, a long text.

        A mask appends about one byte for each token. How long that takes was seen at the last step; it is measured
        again, because the step may only have waited for its turn on the processor.

        Raises:
            LimitExceeded: a mask would take longer than `Limits.work` allows.
        """
        before, spelling = self._last
        for _ in range(_TRIALS):
            trial = native.fork(before)
            begin = time.perf_counter()
            native.feed(trial, spelling)
            self._pace = min(self._pace, (time.perf_counter() - begin) / len(spelling))
        if self._pace > self._grammar.slowest_pace:
            raise LimitExceeded("work", self._grammar.limits.work, "a mask after a text this long")

    def _remember(self) -> None:
        """Keep the tracker; of old ones keep fewer the older they are, so that memory is bounded."""
        self._marks.append((len(self._ends), self._tracker))
        if len(self._marks) > _MARKS:
            recent = _MARKS // 2
            self._marks = self._marks[:-recent:2] + self._marks[-recent:]


def _patterns(rules: Rules) -> set[str]:
    symbols = {symbol for alternatives in rules.productions for production in alternatives for symbol in production}
    return {symbol.pattern for symbol in (*symbols, rules.start) if isinstance(symbol, Regex)}


def _buildable(pattern: str, memory: int) -> bool:
    try:
        native.build(f'start ::= {regex_text(pattern)} "\\u{{0}}";', native.byte_vocabulary(), memory)
    except native.PatternError:
        return False
    return True
