"""The parser, which reads texts with their captures for every engine; the native library does the work."""

from __future__ import annotations

import ctypes
import weakref
from array import array
from collections.abc import Iterable, Iterator, Sequence, Set
from itertools import islice
from typing import NamedTuple

from formatter_core.engine.native_library import STOPPED, Handle, bounds_of, check, load, numbers_of
from formatter_core.errors import InvalidGrammar, LimitExceeded
from formatter_core.grammar import Grammar
from formatter_core.limits import Limits
from formatter_core.limits.forking import TABLES
from formatter_core.parsing.captures import Captures, Mark, News
from formatter_core.parsing.expectation import Expected, place, what_follows
from formatter_core.parsing.parts import Part, bytes_of, runs_of

__all__ = ["Following", "NativeParser", "Reading", "parser_of", "parsers_memory"]

#: The number of new marks that the first call returns; further marks take a second call.
_MARKS = 32


class NativeParser:
    """A grammar made ready for parsing, shared by threads."""

    def __init__(self, grammar: Grammar, limits: Limits) -> None:
        program = grammar.check(limits)
        if program.specials:
            raise InvalidGrammar("a special token is not resolved; replace each `Special` by a Token or text")
        self.library = load()
        self.limits = limits
        self._program = program.data
        self.names, self.rules, self.start = program.names, tuple(grammar.rules), grammar.start
        self.handle = self._made()

    def name_rules(self, names: tuple[str, ...], start: str) -> None:
        """Know the names of the rules, in the order of the program, and of the start rule."""
        self.rules, self.start = names, start

    def reading(self) -> Reading:
        """Begin to read a text."""
        return Reading(self)

    def following(self) -> Following:
        """Begin to follow a text that is still being written."""
        return Following(self)

    def memory(self) -> int:
        """Count the bytes that it takes, with the texts that are being read or followed."""
        return sum(numbers_of(3, self.library.fcn_parser_memory, self.handle.pointer))

    def shortest(self) -> int | None:
        """Find the length in bytes of the shortest text; None if members must differ. Tokens have no bytes."""
        length = ctypes.c_uint32()
        is_known = check(self.library.fcn_parser_shortest(self.handle.pointer, ctypes.byref(length)), self.limits)
        return length.value if is_known else None

    def renew(self, full: Handle) -> None:
        """Forget automata that are full: they are those of all texts so far."""
        if self.handle is full:
            self.handle = self._made()

    def read(self, parts: Sequence[Part]) -> Reading | None:
        """Read a text; None if no text of the language begins with it."""
        reading = self.reading()
        try:
            return reading if reading.append(parts) else None
        except LimitExceeded as error:
            if error.limit != "states":
                raise
            self.renew(reading.made_by)
            reading = self.reading()
            return reading if reading.append(parts) else None

    def captures(self, parts: Sequence[Part]) -> Captures | None:
        """Return the captures of the preferred parse of a text; None if the text is not in the language."""
        reading = self.read(parts)
        return reading.captures() if reading is not None and reading.can_stop() else None

    def _made(self) -> Handle:
        library, limits, program = self.library, self.limits, self._program
        bounds = bounds_of(limits)
        return Handle(library.fcn_parser_free, limits, library.fcn_parser_new, program, len(program), bounds)


class Reading:
    """One text, read from its beginning on. Only one thread at a time may use it.

    Raises:
        LimitExceeded: it needs more than `Limits.work` steps in all, beyond a constant number for each byte.
    """

    def __init__(self, parser: NativeParser) -> None:
        library = parser.library
        self._parser = parser
        self._library = library
        self._limits = parser.limits
        self._parts: list[Part] = []
        self._is_dead = False
        self.made_by = parser.handle
        self._begin()

    def _begin(self) -> None:
        library = self._library
        self._handle = Handle(library.fcn_reading_free, self._limits, library.fcn_reading_new, self.made_by.pointer)
        self._pointer = self._handle.pointer

    @property
    def length(self) -> int:
        """The number of bytes and tokens that were accepted, without a refused one."""
        return check(self._library.fcn_reading_length(self._pointer), self._limits) - self._is_dead

    def append(self, parts: Sequence[Part]) -> bool:
        """Append bytes and the ids of tokens; False if one was refused, after which only `length` is of use."""
        pushed = (self._push(run) for run in runs_of(parts))
        self._is_dead = self._is_dead or not all(pushed)
        return not self._is_dead

    def can_stop(self) -> bool:
        """Tell whether the text is in the language."""
        return bool(self._status() & 2)

    def may_go_on(self) -> bool:
        """Tell whether the text can continue."""
        return bool(self._status() & 1)

    def captures(self) -> Captures:
        """Return the captures of the preferred parse of the text, which is in the language."""
        count = check(self._library.fcn_reading_find_captures(self._pointer), self._limits)
        columns = array("I", bytes(16 * count))
        check(self._library.fcn_reading_captures(self._pointer, columns.buffer_info()[0]), self._limits)
        names, starts, ends, following = (columns[count * column : count * (column + 1)] for column in range(4))
        known = self._parser.names
        return Captures(bytes_of(self._parts), [known[name] for name in names], starts, ends, following)

    def expected(self) -> list[Expected]:
        """Describe for people what may come next, each with its capture or rule.

        This method and `rules` need a grammar whose schemas have been lowered.
        """
        parser, found = self._parser, dict[Expected, None]()
        for each in self._found():
            where = place(
                map(parser.names.__getitem__, each.names),
                parser.rules[each.rule],
                is_start=parser.rules[each.rule] == parser.start,
            )
            whats = what_follows(each.forced, each.first) if each.token is None else [f"the token {each.token}"]
            found.update(dict.fromkeys(Expected(what, where) for what in whats))
        if self.can_stop():
            found[Expected("the end", "")] = None
        return list(found)

    def rules(self) -> set[str]:
        """Return the rules in which something may come next."""
        return {self._parser.rules[each.rule] for each in self._found()}

    def next_tokens(self) -> list[int]:
        """Return the ids of the tokens named by the grammar that may come next, sorted."""
        return sorted({each.token for each in self._found() if each.token is not None})

    def _found(self) -> Iterator[_Found]:
        """Yield what may come next, read from the numbers of `fcn_reading_expected`."""
        count = check(self._library.fcn_reading_find_expected(self._pointer), self._limits)
        found = array("I", bytes(4 * count))
        check(self._library.fcn_reading_expected(self._pointer, found.buffer_info()[0]), self._limits)
        numbers = iter(found)
        for rule in numbers:
            names = tuple(islice(numbers, next(numbers)))
            if next(numbers):
                yield _Found(rule, names, next(numbers))
            else:
                words = list(islice(numbers, 8))
                first = {byte for byte in range(256) if words[byte >> 5] >> (byte & 31) & 1}
                yield _Found(rule, names, None, first, bytes(islice(numbers, next(numbers))))

    def _push(self, part: Part) -> bool:
        answer = self._pushed(part)
        while answer == STOPPED:  # what it left is half made
            ctypes.pythonapi.PyErr_CheckSignals()
            self._begin()
            answer = min(map(self._pushed, [*self._parts, part]))
        self._parts.append(part)
        return bool(check(answer, self._limits))

    def _pushed(self, part: Part) -> int:
        if isinstance(part, int):
            return int(self._library.fcn_reading_push_token(self._pointer, part))
        return int(self._library.fcn_reading_push(self._pointer, part, len(part)))

    def _status(self) -> int:
        return check(self._library.fcn_reading_status(self._pointer), self._limits)


class _Found(NamedTuple):
    """Something that may come next: a token, or text."""

    rule: int
    names: tuple[int, ...]
    token: int | None
    first: Set[int] = frozenset()
    forced: bytes = b""


class Following:
    """A text that is still being written, and what all its parses agree on.

    Where a step fails, nothing is changed.
    """

    def __init__(self, parser: NativeParser) -> None:
        self._parser = parser
        self._library = library = parser.library
        self._limits = parser.limits
        self._made_by = made_by = parser.handle
        self._handle = Handle(library.fcn_following_free, parser.limits, library.fcn_following_new, made_by.pointer)
        self._pointer = ctypes.c_void_p(self._handle.pointer)
        self._numbers = array("I", bytes(8 + 8 * _MARKS))
        self._address = self._numbers.buffer_info()[0]

    def push(self, data: bytes) -> None:
        """Append bytes."""
        self._check(self._library.fcn_following_push(self._pointer, data, len(data)))

    def push_token(self, token_id: int) -> None:
        """Append a token that the grammar names by its id."""
        self._check(self._library.fcn_following_push_token(self._pointer, token_id))

    def pop(self, steps: int) -> None:
        """Undo the last `steps` bytes and tokens."""
        check(self._library.fcn_following_pop(self._pointer, steps), self._limits)

    def news(self) -> News:
        """Return the marks that all parses have agreed on since the last call."""
        numbers = self._numbers
        count = self._check(self._library.fcn_following_find_news(self._pointer, self._address, _MARKS))
        kept, agreed_to = numbers[:2]
        if not count:
            return News(kept, [], agreed_to)
        marks = numbers[2 : 2 + 2 * count]
        if count > _MARKS:
            marks = array("I", bytes(8 * count))
            check(self._library.fcn_following_marks(self._pointer, marks.buffer_info()[0]), self._limits)
        names = self._parser.names
        pairs = zip(marks[::2], marks[1::2], strict=True)
        return News(kept, [Mark(symbol & 1 > 0, names[symbol >> 1], offset) for symbol, offset in pairs], agreed_to)

    def _check(self, answer: int) -> int:
        try:
            return check(answer, self._limits)
        except LimitExceeded as error:
            if error.limit == "states":
                self._parser.renew(self._made_by)
            raise


_KNOWN: dict[tuple[int, Limits], NativeParser] = {}


def parsers_memory(grammars: Iterable[Grammar], limits: Limits) -> int:
    """Count the bytes of the parsers of grammars, where they have been made."""
    keys = {(id(grammar), limits) for grammar in grammars}
    return sum(parser.memory() for key in keys if (parser := _KNOWN.get(key)) is not None)


def parser_of(grammar: Grammar, limits: Limits) -> NativeParser:
    """Return the parser of a grammar; it is made once and lives as long as the grammar."""
    key = (id(grammar), limits)
    if key not in _KNOWN:
        parser = NativeParser(grammar, limits)
        with TABLES:
            if key not in _KNOWN:
                _KNOWN[key] = parser
                weakref.finalize(grammar, _KNOWN.pop, key, None).atexit = False
    return _KNOWN[key]
