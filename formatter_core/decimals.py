"""Plain decimal spellings of the numbers in an interval, as regular nodes. Exact: no floats inside."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal

from formatter_core.grammar import EMPTY, NOTHING, Bytes, Chars, Choice, Intersection, Node, Repeat, Sequence, optional

__all__ = ["integers", "numbers"]

_DIGIT = Chars(((0x30, 0x39),))
_NONZERO = Chars(((0x31, 0x39),))
_ZERO = Bytes(b"0")
_DIGITS = Repeat(_DIGIT)
_WHOLE = Choice((_ZERO, Sequence((_NONZERO, _DIGITS))))
_FRACTION = Sequence((Bytes(b"."), Repeat(_DIGIT, 1)))
_MINUS = Bytes(b"-")


def integers(minimum: Decimal | None = None, maximum: Decimal | None = None) -> Node:
    """The integers from `minimum` to `maximum`, both included, without leading zeros and without "-0"."""
    low = None if minimum is None else int(minimum.to_integral_value("ROUND_CEILING"))
    high = None if maximum is None else int(maximum.to_integral_value("ROUND_FLOOR"))
    found: list[Node] = []
    if high is None or high >= 0:
        found.append(_whole(max(low or 0, 0), high))
    if low is None or low < 0:
        found.append(
            Sequence((_MINUS, _whole(max(-high, 1) if high is not None else 1, None if low is None else -low)))
        )
    return Choice(tuple(found))


def numbers(
    minimum: Decimal | None = None,
    maximum: Decimal | None = None,
    *,
    exclude_minimum: bool = False,
    exclude_maximum: bool = False,
) -> Node:
    """The decimals of the interval, with or without a fraction; never in exponent notation, never "-0"."""
    low = None if minimum is None else _Bound(minimum, exclude_minimum)
    high = None if maximum is None else _Bound(maximum, exclude_maximum)
    zero = _Bound(Decimal(0), False)
    found: list[Node] = []
    if high is None or high.value >= 0:
        found.append(_magnitudes(low if low is not None and low.value >= 0 else zero, high))
    if low is None or low.value < 0:
        # copy_negate, because a minus sign would round a Decimal to the context's precision.
        nearest = (
            _Bound(high.value.copy_negate(), high.strict)
            if high is not None and high.value < 0
            else _Bound(Decimal(0), True)
        )
        found.append(
            Sequence(
                (_MINUS, _magnitudes(nearest, None if low is None else _Bound(low.value.copy_negate(), low.strict)))
            )
        )
    return Choice(tuple(found))


@dataclass(frozen=True, slots=True)
class _Bound:
    value: Decimal
    strict: bool

    @property
    def whole(self) -> int:
        return int(self.value)

    @property
    def fraction(self) -> str:
        """The digits after the point, without the zeros at the end."""
        return format(self.value, "f").partition(".")[2].rstrip("0")


def _magnitudes(low: _Bound, high: _Bound | None) -> Node:
    """Decimals from `low` (at least 0) to `high`, without a sign."""
    at_least = _at_least(low)
    if high is None:
        return at_least
    at_most = _at_most(high)
    if low.value == 0 and not low.strict:
        return at_most
    return Intersection((at_least, at_most))


def _at_least(bound: _Bound) -> Node:
    above = Sequence((_whole(bound.whole + 1, None), optional(_FRACTION)))
    same = Sequence((Bytes(str(bound.whole).encode()), _fraction_at_least(bound.fraction, bound.strict)))
    return Choice((above, same))


def _at_most(bound: _Bound) -> Node:
    below = Sequence((_whole(0, bound.whole - 1), optional(_FRACTION)))
    same = Sequence((Bytes(str(bound.whole).encode()), _fraction_at_most(bound.fraction, bound.strict)))
    return Choice((below, same))


def _whole(low: int, high: int | None) -> Node:
    """Whole numbers from `low` (at least 0) to `high`, without leading zeros."""
    if high is not None and high < low:
        return NOTHING
    if high is None:
        if low == 0:
            return _WHOLE
        digits = str(low)
        longer = Sequence((_NONZERO, Repeat(_DIGIT, len(digits))))
        return Choice((_same_length(digits, "9" * len(digits)), longer))
    found = []
    for length in range(len(str(low)), len(str(high)) + 1):
        first = max(low, 10 ** (length - 1) if length > 1 else 0)
        last = min(high, 10**length - 1)
        found.append(_same_length(str(first), str(last)))
    return Choice(tuple(found))


def _same_length(low: str, high: str) -> Node:
    """Digit strings from `low` to `high`, which are equally long; linear in their length."""
    if not low:
        return EMPTY
    rest = len(low) - 1
    if low.strip("0") == "" and high.strip("9") == "":
        return Repeat(_DIGIT, len(low), len(low))
    if low[0] == high[0]:
        return Sequence((Bytes(low[0].encode()), _same_length(low[1:], high[1:])))
    found: list[Node] = [Sequence((Bytes(low[0].encode()), _same_length(low[1:], "9" * rest)))]
    if int(high[0]) - int(low[0]) > 1:
        found.append(Sequence((_between(int(low[0]) + 1, int(high[0]) - 1), Repeat(_DIGIT, rest, rest))))
    found.append(Sequence((Bytes(high[0].encode()), _same_length("0" * rest, high[1:]))))
    return Choice(tuple(found))


def _fraction_at_least(digits: str, strict: bool) -> Node:
    positive = Sequence((Repeat(_ZERO), _NONZERO, _DIGITS))
    if not digits:
        return Sequence((Bytes(b"."), positive)) if strict else optional(_FRACTION)
    tail: Node = positive if strict else _DIGITS
    for digit in reversed(digits):
        tail = _or_beyond(digit, int(digit) + 1, 9, Sequence((Bytes(digit.encode()), tail)))
    return Sequence((Bytes(b"."), tail))


def _fraction_at_most(digits: str, strict: bool) -> Node:
    if not digits:
        return NOTHING if strict else optional(Sequence((Bytes(b"."), Repeat(_ZERO, 1))))
    # After the first digits of the bound, stopping means a smaller number, for the bound goes on to a digit not 0.
    tail: Node = NOTHING if strict else Repeat(_ZERO)
    for index in range(len(digits) - 1, -1, -1):
        step = _or_beyond(digits[index], 0, int(digits[index]) - 1, Sequence((Bytes(digits[index].encode()), tail)))
        tail = Choice((step, EMPTY)) if index else step
    return optional(Sequence((Bytes(b"."), tail)))


def _or_beyond(digit: str, low: int, high: int, same: Node) -> Node:
    """`same`, or any digits after a first digit from `low` to `high`."""
    return same if high < low else Choice((same, Sequence((_between(low, high), _DIGITS))))


def _between(low: int, high: int) -> Node:
    return Chars(((0x30 + low, 0x30 + high),))
