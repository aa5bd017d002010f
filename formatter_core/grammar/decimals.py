"""Plain decimal spellings of the numbers in an interval, as regular nodes. Exact: no floats inside."""

from __future__ import annotations

from decimal import Decimal
from functools import lru_cache

from formatter_core.grammar import NOTHING, Bytes, Chars, Choice, Intersection, Node, Repeat, Sequence, optional
from formatter_core.grammar.values import value

__all__ = ["ANY_DIGITS", "Digits", "fraction_at_most", "integers", "numbers"]

_DIGIT = Chars(((0x30, 0x39),))
_NONZERO = Chars(((0x31, 0x39),))
_ZERO = Bytes(b"0")
_DIGITS = Repeat(_DIGIT)
_MINUS = Bytes(b"-")


@value()
class Digits:
    """How many digits a number may have before the point and after it; None for any number of them."""

    before: int | None = None
    after: int | None = None

    @property
    def fraction(self) -> Node:
        """A point and digits."""
        return _fraction(self.after)

    def further(self, count: int) -> Node:
        """Digits after the `count` that follow the point already."""
        return _DIGITS if self.after is None else Repeat(_DIGIT, 0, self.after - count)

    def zeros(self, count: int, least: int = 0) -> Node:
        """Zeros after the `count` digits that follow the point already."""
        return Repeat(_ZERO, least, None if self.after is None else self.after - count)

    def positive(self, count: int) -> Node:
        """Digits after the `count` that follow the point already, one of them not zero."""
        if self.after is None:
            return Sequence((Repeat(_ZERO), _NONZERO, _DIGITS))
        if count >= self.after:
            return NOTHING
        options = [self._after_zeros(zeros, self.after - count - zeros - 1) for zeros in range(self.after - count)]
        return Choice(tuple(options)) if len(options) > 1 else options[0]

    @staticmethod
    def _after_zeros(zeros: int, further: int) -> Node:
        """A digit that is not zero after these zeros, and at most `further` more."""
        before = (Bytes(b"0" * zeros),) if zeros else ()
        after = (Repeat(_DIGIT, 0, further),) if further else ()
        return Sequence((*before, _NONZERO, *after)) if zeros or further else _NONZERO


ANY_DIGITS = Digits()


@lru_cache(maxsize=1024)
def _fraction(most: int | None) -> Node:
    return Sequence((Bytes(b"."), Repeat(_DIGIT, 1, most)))


@lru_cache(maxsize=1024)
def _any_whole(most: int | None) -> Node:
    further = _DIGITS if most is None else Repeat(_DIGIT, 0, most - 1)
    return Choice((_ZERO, Sequence((_NONZERO, further))))


def integers(minimum: Decimal | None = None, maximum: Decimal | None = None, *, digits: Digits = ANY_DIGITS) -> Node:
    """The integers from `minimum` to `maximum`, both included, without leading zeros and without "-0".

    Where a bound is missing, `digits` tells how many there may be; a bound has no more.
    """
    low = None if minimum is None else int(minimum.to_integral_value("ROUND_CEILING"))
    high = None if maximum is None else int(maximum.to_integral_value("ROUND_FLOOR"))
    found: list[Node] = []
    if high is None or high >= 0:
        found.append(_whole(max(low or 0, 0), high, digits))
    if low is None or low < 0:
        least = max(-high, 1) if high is not None else 1
        found.append(Sequence((_MINUS, _whole(least, None if low is None else -low, digits))))
    return Choice(tuple(found))


def numbers(
    minimum: Decimal | None = None,
    maximum: Decimal | None = None,
    *,
    exclude_minimum: bool = False,
    exclude_maximum: bool = False,
    digits: Digits = ANY_DIGITS,
) -> Node:
    """The decimals of the interval, with or without a fraction; never in exponent notation, never "-0" or "-0.0".

    They have at most so many `digits`; so have the bounds.
    """
    low = None if minimum is None else _Bound(minimum, exclude_minimum)
    high = None if maximum is None else _Bound(maximum, exclude_maximum)
    zero = _Bound(Decimal(0), False)
    found: list[Node] = []
    if high is None or high.value >= 0:
        found.append(_magnitudes(low if low is not None and low.value >= 0 else zero, high, digits))
    if low is None or low.value < 0:
        # copy_negate, because a minus sign would round a Decimal to the context's precision.
        nearest = (
            _Bound(high.value.copy_negate(), high.strict)
            if high is not None and high.value < 0
            else _Bound(Decimal(0), True)
        )
        farthest = None if low is None else _Bound(low.value.copy_negate(), low.strict)
        found.append(Sequence((_MINUS, _magnitudes(nearest, farthest, digits))))
    return Choice(tuple(found))


@value()
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


def _magnitudes(low: _Bound, high: _Bound | None, digits: Digits) -> Node:
    """Decimals from `low` (at least 0) to `high`, without a sign."""
    at_least = _at_least(low, digits)
    if high is None:
        return at_least
    at_most = _at_most(high, digits)
    if low.value == 0 and not low.strict:
        return at_most
    return Intersection((at_least, at_most))


def _at_least(bound: _Bound, digits: Digits) -> Node:
    above = Sequence((_whole(bound.whole + 1, None, digits), optional(digits.fraction)))
    same = Sequence((Bytes(str(bound.whole).encode()), _fraction_at_least(bound.fraction, bound.strict, digits)))
    return Choice((above, same))


def _at_most(bound: _Bound, digits: Digits) -> Node:
    below = Sequence((_whole(0, bound.whole - 1, digits), optional(digits.fraction)))
    same = Sequence((Bytes(str(bound.whole).encode()), fraction_at_most(bound.fraction, digits, strict=bound.strict)))
    return Choice((below, same))


def _whole(low: int, high: int | None, digits: Digits) -> Node:
    """Whole numbers from `low` (at least 0) to `high`, without leading zeros."""
    if high is not None and high < low:
        return NOTHING
    if high is None:
        if low == 0:
            return _any_whole(digits.before)
        text = str(low)
        same = _same_length(text, "9" * len(text))
        if digits.before is not None and digits.before <= len(text):
            return same
        most = None if digits.before is None else digits.before - 1
        return Choice((same, Sequence((_NONZERO, Repeat(_DIGIT, len(text), most)))))
    found = []
    for length in range(len(str(low)), len(str(high)) + 1):
        first = max(low, 10 ** (length - 1) if length > 1 else 0)
        last = min(high, 10**length - 1)
        found.append(_same_length(str(first), str(last)))
    return Choice(tuple(found))


def _same_length(low: str, high: str) -> Node:
    """Digit strings from `low` to `high`, which are equally long: alternatives side by side, none inside another."""
    shared = next((index for index, digits in enumerate(zip(low, high, strict=True)) if len({*digits}) > 1), len(low))
    prefix = Bytes(low[:shared].encode())
    low, high = low[shared:], high[shared:]
    if low.strip("0") == "" and high.strip("9") == "":
        return Sequence((prefix, Repeat(_DIGIT, len(low), len(low))))
    found: list[Node] = []
    if int(high[0]) - int(low[0]) > 1:
        found.append(Sequence((_between(int(low[0]) + 1, int(high[0]) - 1), _digits(len(low) - 1))))
    for bound, least in ((low, "0"), (high, "9")):
        # Behind the last digit that counts, any digits will do.
        kept = bound[0] + bound[1:].rstrip(least)
        found.append(Sequence((Bytes(kept.encode()), _digits(len(bound) - len(kept)))))
        for index in range(1, len(kept)):
            digit = int(kept[index])
            beyond = (digit + 1, 9) if least == "0" else (0, digit - 1)
            if beyond[0] <= beyond[1]:
                others = (Bytes(kept[:index].encode()), _between(*beyond), _digits(len(bound) - index - 1))
                found.append(Sequence(others))
    return Sequence((prefix, Choice(tuple(found))))


def _fraction_at_least(bound: str, strict: bool, digits: Digits) -> Node:
    """What follows the digits before the point, for a fraction of at least `bound`."""
    if not bound:
        return Sequence((Bytes(b"."), digits.positive(0))) if strict else optional(digits.fraction)
    beyond = digits.positive(len(bound)) if strict else digits.further(len(bound))
    found: list[Node] = [Sequence((Bytes(bound.encode()), beyond))]
    for index, digit in enumerate(bound):
        if digit != "9":
            others = (Bytes(bound[:index].encode()), _between(int(digit) + 1, 9), digits.further(index + 1))
            found.append(Sequence(others))
    return Sequence((Bytes(b"."), Choice(tuple(found))))


def fraction_at_most(bound: str, digits: Digits, *, strict: bool = False) -> Node:
    """What follows the digits before the point, for a fraction of at most `bound`."""
    if not bound:
        return NOTHING if strict else optional(Sequence((Bytes(b"."), digits.zeros(0, 1))))
    found: list[Node] = [] if strict else [Sequence((Bytes(bound.encode()), digits.zeros(len(bound))))]
    for index, digit in enumerate(bound):
        # Stopping after the first digits means a smaller number, for the bound continues to a digit that is not 0.
        if index:
            found.append(Bytes(bound[:index].encode()))
        if digit != "0":
            others = (Bytes(bound[:index].encode()), _between(0, int(digit) - 1), digits.further(index + 1))
            found.append(Sequence(others))
    return optional(Sequence((Bytes(b"."), Choice(tuple(found)))))


def _digits(count: int) -> Node:
    return Repeat(_DIGIT, count, count)


def _between(low: int, high: int) -> Node:
    return Chars(((0x30 + low, 0x30 + high),))
