"""Sets of characters: their algebra, case folding, and the named sets of Unicode and POSIX.

A set is a `Ranges`: sorted, disjoint, non-adjacent, inclusive ranges of Unicode scalar values. Surrogates belong to
no set, so that a range never spans them: U+D7FF and U+E000 are not neighbours.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator
from functools import cache, lru_cache, wraps
from itertools import chain
from typing import TypeAlias, TypeVar, cast

from formatter_core.grammar import Chars

__all__ = [
    "ALL",
    "NONE",
    "POSIX",
    "Members",
    "Ranges",
    "binary",
    "category",
    "difference",
    "fold",
    "fold_ascii",
    "intersection",
    "negation",
    "normal_name",
    "perl_digit",
    "perl_space",
    "perl_word",
    "ranges_of",
    "script",
    "single",
    "symmetric_difference",
    "union",
]

Ranges: TypeAlias = tuple[tuple[int, int], ...]

NONE: Ranges = ()
ALL: Ranges = ((0, 0xD7FF), (0xE000, 0x10FFFF))

_UPPER, _LOWER, _DIGITS = (0x41, 0x5A), (0x61, 0x7A), (0x30, 0x39)
POSIX: dict[str, Ranges] = {
    "alnum": (_DIGITS, _UPPER, _LOWER),
    "alpha": (_UPPER, _LOWER),
    "ascii": ((0, 0x7F),),
    "blank": ((0x09, 0x09), (0x20, 0x20)),
    "cntrl": ((0, 0x1F), (0x7F, 0x7F)),
    "digit": (_DIGITS,),
    "graph": ((0x21, 0x7E),),
    "lower": (_LOWER,),
    "print": ((0x20, 0x7E),),
    "punct": ((0x21, 0x2F), (0x3A, 0x40), (0x5B, 0x60), (0x7B, 0x7E)),
    "space": ((0x09, 0x0D), (0x20, 0x20)),
    "upper": (_UPPER,),
    "word": (_DIGITS, _UPPER, (0x5F, 0x5F), _LOWER),
    "xdigit": (_DIGITS, (0x41, 0x46), (0x61, 0x66)),
}


def ranges_of(pairs: Iterable[tuple[int, int]]) -> Ranges:
    """The set of some inclusive ranges in any order; surrogates are dropped."""
    return Chars.of(pairs).ranges


_Operation = TypeVar("_Operation", bound=Callable[..., Ranges])


def _remembered(operation: _Operation) -> _Operation:
    """Cache results for sets of common sizes, such as `\\w` and its negation."""
    cached = lru_cache(maxsize=64)(operation)

    @wraps(operation)
    def run(*sets: Ranges) -> Ranges:
        return cached(*sets) if sum(map(len, sets)) < 2048 else operation(*sets)

    return cast(_Operation, run)


class Members:
    """A growing union, compacted from time to time to bound its memory."""

    def __init__(self) -> None:
        self._parts: dict[int, Ranges] = {}
        self._pending = 0
        self._joined = 0

    def add(self, ranges: Ranges) -> int:
        """Add a set and return what it costs: its ranges, or nothing if it was the last time's object."""
        if id(ranges) in self._parts:
            return 0
        self._parts[id(ranges)] = ranges
        self._pending += len(ranges)
        if self._pending > 4096 + 2 * self._joined:
            joined = union(*self._parts.values())
            self._parts = {id(joined): joined}
            self._pending = 0
            self._joined = len(joined)
        return len(ranges)

    def union(self) -> Ranges:
        """The union so far."""
        return union(*self._parts.values())


def single(code: int) -> Ranges:
    """The set of one code point: empty for a surrogate."""
    return NONE if 0xD800 <= code <= 0xDFFF else ((code, code),)


@_remembered
def union(*sets: Ranges) -> Ranges:
    """The union of the sets."""
    merged: list[tuple[int, int]] = []
    for pair in sorted(chain.from_iterable(sets)):
        if merged and pair[0] <= merged[-1][1] + 1:
            if pair[1] > merged[-1][1]:
                merged[-1] = (merged[-1][0], pair[1])
        else:
            merged.append(pair)
    return tuple(merged)


@_remembered
def negation(ranges: Ranges) -> Ranges:
    """The complement of the set."""
    gaps, start = [], 0
    for low, high in ranges:
        if low > start:
            gaps.append((start, low - 1))
        start = high + 1
    if start <= 0x10FFFF:
        gaps.append((start, 0x10FFFF))
    return ranges_of(gaps)


def intersection(left: Ranges, right: Ranges) -> Ranges:
    """The intersection."""
    common, i, j = [], 0, 0
    while i < len(left) and j < len(right):
        low, high = max(left[i][0], right[j][0]), min(left[i][1], right[j][1])
        if low <= high:
            common.append((low, high))
        if left[i][1] < right[j][1]:
            i += 1
        else:
            j += 1
    return tuple(common)


def difference(left: Ranges, right: Ranges) -> Ranges:
    """The difference."""
    return intersection(left, negation(right))


def symmetric_difference(left: Ranges, right: Ranges) -> Ranges:
    """The symmetric difference."""
    return union(difference(left, right), difference(right, left))


@_remembered
def fold(ranges: Ranges) -> Ranges:
    """The set, and all that equals one of it under simple case folding (Unicode, CaseFolding.txt, C and S)."""
    orbits = _case_orbits()
    cased = _cased_characters()
    found: list[tuple[int, int]] = []
    for low, high in ranges:
        for at in range(bisect_left(cased, low), len(cased)):
            if cased[at] > high:
                break
            found += [(code, code) for code in orbits[cased[at]]]
    return ranges_of([*ranges, *found]) if found else ranges


def fold_ascii(ranges: Ranges) -> Ranges:
    """The same for the letters A to Z only."""
    upper, lower = intersection(ranges, (_LOWER,)), intersection(ranges, (_UPPER,))
    return union(
        ranges,
        tuple((low - 32, high - 32) for low, high in upper),
        tuple((low + 32, high + 32) for low, high in lower),
    )


def normal_name(name: str) -> str:
    """A property name as the tables spell it (loose matching, UAX #44, section 5.9.3)."""
    return re.sub(r"[\s_-]", "", name).lower()


@lru_cache(maxsize=128)
def category(name: str) -> Ranges | None:
    """The set of a general category, or None if there is none. Names are as in `normal_name`."""
    from formatter_core.syntax.regex import tables

    name = tables.CATEGORY_NAMES.get(name, name)
    if name in tables.CATEGORIES:
        return _decode(tables.CATEGORIES[name])
    parts = ["lu", "ll", "lt"] if name == "lc" else [code for code in tables.CATEGORIES if code[0] == name]
    return union(*(_decode(tables.CATEGORIES[part]) for part in parts)) if parts else None


@lru_cache(maxsize=128)
def script(name: str, extensions: bool = False) -> Ranges | None:
    """The set of a script, or of the characters whose script extensions name it."""
    from formatter_core.syntax.regex import tables

    name = tables.SCRIPT_NAMES.get(name, name)
    if extensions and name in tables.SCRIPT_EXTENSIONS:
        return _decode(tables.SCRIPT_EXTENSIONS[name])
    return _decode(tables.SCRIPTS[name]) if name in tables.SCRIPTS else None


@lru_cache(maxsize=128)
def binary(name: str) -> Ranges | None:
    """The set of a binary property."""
    if name in ("any", "ascii"):
        return ALL if name == "any" else POSIX["ascii"]
    from formatter_core.syntax.regex import tables

    if name == "assigned":
        return negation(_decode(tables.CATEGORIES["cn"]))
    name = tables.BINARY_NAMES.get(name, name)
    return _decode(tables.BINARY[name]) if name in tables.BINARY else None


@cache
def perl_digit() -> Ranges:
    """Unicode `\\d`: decimal numbers."""
    return category("nd") or NONE


@cache
def perl_space() -> Ranges:
    """Unicode `\\s`: white space."""
    return binary("whitespace") or NONE


@cache
def perl_word() -> Ranges:
    """Unicode `\\w` (UTS #18, annex C): alphabetic characters, marks, decimal numbers, connectors, join controls."""
    named = [binary("alphabetic"), category("m"), category("nd"), category("pc"), binary("joincontrol")]
    return union(*(ranges for ranges in named if ranges))


def _decode(text: str) -> Ranges:
    numbers = _numbers(text)
    ranges, end = [], 0
    for gap in numbers:
        low = end + gap
        high = low + next(numbers)
        ranges.append((low, high))
        end = high + 1
    return tuple(ranges)


def _numbers(text: str) -> Iterator[int]:
    from formatter_core.syntax.regex import tables

    value = shift = 0
    for digit in map({digit: at for at, digit in enumerate(tables.ALPHABET)}.__getitem__, text):
        value |= (digit & 31) << shift
        shift += 5
        if digit < 32:
            yield value
            value = shift = 0


@cache
def _case_orbits() -> dict[int, tuple[int, ...]]:
    from formatter_core.syntax.regex import tables

    orbits: dict[int, tuple[int, ...]] = {}
    numbers = _numbers(tables.CASE_ORBITS)
    first = 0
    for gap in numbers:
        first += gap
        orbit = [first]
        for _ in range(next(numbers)):
            orbit.append(orbit[-1] + next(numbers))
        orbits.update(dict.fromkeys(orbit, tuple(orbit)))
    return orbits


@cache
def _cased_characters() -> list[int]:
    return sorted(_case_orbits())
