"""Exact sets of JSON numbers, and their spellings."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from dataclasses import replace
from decimal import Decimal
from fractions import Fraction
from functools import lru_cache
from math import ceil, floor, lcm, prod

from formatter_core.engine.emptiness import decide_empty
from formatter_core.grammar import (
    EMPTY,
    Bytes,
    Chars,
    Choice,
    Complement,
    Intersection,
    Multiples,
    Node,
    Repeat,
    Sequence,
    interned,
    optional,
)
from formatter_core.grammar.decimals import ANY_DIGITS, Digits, fraction_at_most, integers, numbers
from formatter_core.grammar.multiples import state_count
from formatter_core.grammar.values import value
from formatter_core.limits import Limits
from formatter_core.schema.spelling import Spelling

__all__ = [
    "ANY_INTEGER",
    "ANY_NUMBER",
    "MOST_STATES",
    "NumberSet",
    "as_decimal",
    "decide_no_number",
    "has_large_steps",
    "has_no_number",
    "meet_numbers",
    "narrowed",
    "number_node",
    "other_numbers",
]

_DIGIT = Chars(((0x30, 0x39),))
_NONZERO = Chars(((0x31, 0x39),))
_ZEROS = Sequence((Bytes(b"."), Repeat(Bytes(b"0"), 1)))
_MINUS = Bytes(b"-")
_PLUS = Bytes(b"+")
_E = Chars.of([(0x45, 0x45), (0x65, 0x65)])
_WHOLE = Choice((Bytes(b"0"), Sequence((_NONZERO, Repeat(_DIGIT)))))
_FRACTION = Sequence((Bytes(b"."), Repeat(_DIGIT, 1)))
_EXPONENT = Sequence((_E, optional(Chars.of([(0x2B, 0x2B), (0x2D, 0x2D)])), Repeat(_DIGIT, 1)))

#: Every number in every legal spelling.
_ANY_SPELLING = interned(Sequence((optional(_MINUS), _WHOLE, optional(_FRACTION), optional(_EXPONENT))))
_WITHOUT_FRACTION = Sequence((optional(_MINUS), _WHOLE))
_INTEGER = interned(Sequence((*_WITHOUT_FRACTION.items, optional(_ZEROS))))
_DECIMAL = Sequence((optional(_MINUS), _WHOLE, optional(_FRACTION)))

#: Maximum digits of a canonical number before the point, and after it: what a 64-bit integer and a double need.
_USUAL = 20
_USUAL_DIGITS = Digits(_USUAL, _USUAL)
#: Bounds that need more digits than these are not written out: a number stops at the usual ones.
_MOST_DIGITS = 100
#: The largest double.
_LARGEST = Fraction(repr(sys.float_info.max))


def _exponential() -> Node:
    """One digit that is not zero, perhaps a fraction, and an exponent, within what a double holds; without a sign.

    An exponent has a zero before its digit only as Python writes it (`1e-07`).
    """
    fraction = optional(_USUAL_DIGITS.fraction)
    padded = Sequence((Bytes(b"0"), _NONZERO))
    large = Sequence((optional(_PLUS), _from_one(307)))
    small = Sequence((_MINUS, Choice((_from_one(323), padded))))
    largest = Sequence((Bytes(b"1"), fraction_at_most("7976931348623157", _USUAL_DIGITS), _E))
    smallest = Sequence((Chars(((0x35, 0x39),)), fraction, _E, Bytes(b"-324")))
    usual = Sequence((_NONZERO, fraction, _E, Choice((large, small))))
    return Choice((usual, Sequence((largest, optional(_PLUS), Bytes(b"308"))), smallest))


def _from_one(most: int) -> Node:
    return integers(Decimal(1), Decimal(most))


#: As a careful writer spells numbers: all of them, those without an exponent, and the whole ones.
_CANONICAL_DECIMAL = numbers(digits=_USUAL_DIGITS)
_CANONICAL_NUMBER = interned(Sequence((Choice((_CANONICAL_DECIMAL, Sequence((optional(_MINUS), _exponential())))),)))
_CANONICAL_INTEGER = interned(
    Sequence((Choice((Bytes(b"0"), Sequence((optional(_MINUS), _NONZERO, Repeat(_DIGIT, 0, 19))))),))
)

#: Maximum states of an automaton that decides emptiness; above it the answer is "not known to be empty".
_DECIDING = Limits(states=2000, work=200_000)
#: Maximum multiples that we list one by one.
_MOST_LISTED = 2000
#: Maximum states of the multiples of all steps of one set, between its bounds.
MOST_STATES = 8192
#: Maximum states of the multiples of a step beside which digits are counted: each number of digits has them anew.
_MOST_COUNTED = 1024


@value()
class NumberSet:
    """The numbers between two bounds that are multiples of `multiple` and of no number in `not_multiples`.

    `values`, where not None, lists the members instead, and no other field counts but `pointed`: whether the members,
    whole numbers then, are spelled with a fraction, as for draft 4 the number 2 is an integer and 2.0 is not; None
    where both spellings are in the set. `excluded` are single numbers. `is_step` says of `values` that steps and bounds
    leave these, and no list names them: then zeros may follow a fraction.
    """

    low: Fraction | None = None
    high: Fraction | None = None
    low_open: bool = False
    high_open: bool = False
    multiple: Fraction | None = None
    not_multiples: tuple[Fraction, ...] = ()
    excluded: frozenset[Fraction] = frozenset()
    values: tuple[Fraction, ...] | None = None
    pointed: bool | None = None
    is_step: bool = False

    def __contains__(self, value: Fraction) -> bool:
        if self.values is not None:
            return value in self.values
        return not (
            (self.low is not None and (value < self.low or (self.low_open and value == self.low)))
            or (self.high is not None and (value > self.high or (self.high_open and value == self.high)))
            or (self.multiple is not None and (value / self.multiple).denominator != 1)
            or any((value / step).denominator == 1 for step in self.not_multiples)
            or value in self.excluded
        )


ANY_NUMBER = NumberSet()
ANY_INTEGER = NumberSet(multiple=Fraction(1))


def meet_numbers(a: NumberSet, b: NumberSet) -> NumberSet | None:
    """The intersection; None if it is certainly empty."""
    if a is ANY_NUMBER:
        return b
    if b is ANY_NUMBER:
        return a
    if None not in (a.pointed, b.pointed) and a.pointed != b.pointed:
        return None
    pointed = b.pointed if a.pointed is None else a.pointed
    if a.values is not None or b.values is not None:
        first, second = (a, b) if a.values is not None else (b, a)
        kept = tuple(value for value in first.values or () if value in second)
        is_step = first.is_step and (second.values is None or second.is_step)
        return _of_values(kept, pointed, is_step)
    low, low_open = max((a.low, a.low_open), (b.low, b.low_open), key=_low_key)
    high, high_open = min((a.high, a.high_open), (b.high, b.high_open), key=_high_key)
    steps = [step for step in (a.multiple, b.multiple) if step is not None]
    multiple = steps[0] if steps else None
    if len(steps) == 2:
        (p, q), (r, s) = ((step.numerator, step.denominator) for step in steps)
        multiple = Fraction(lcm(p * s, r * q), q * s)
    not_multiples = _least_steps((*a.not_multiples, *b.not_multiples))
    made = NumberSet(low, high, low_open, high_open, multiple, not_multiples, a.excluded | b.excluded, None, pointed)
    return narrowed(made)


def other_numbers(a: NumberSet) -> list[NumberSet]:
    """The numbers outside a set, as a union."""
    # A whole number in its other spelling.
    found = [] if a.pointed is None else [NumberSet(multiple=Fraction(1), pointed=not a.pointed)]
    if a.values is not None:
        return [*found, NumberSet(excluded=frozenset(a.values))]
    if a.low is not None:
        found.append(NumberSet(high=a.low, high_open=not a.low_open))
    if a.high is not None:
        found.append(NumberSet(low=a.high, low_open=not a.high_open))
    if a.multiple is not None:
        found.append(NumberSet(not_multiples=(a.multiple,)))
    found += [NumberSet(multiple=step) for step in a.not_multiples]
    if a.excluded:
        found.append(NumberSet(values=tuple(sorted(a.excluded))))
    return found


def number_node(numbers_: NumberSet, spelling: Spelling, *, plain: bool = False) -> Node:
    """The spellings of the numbers in the set: plain decimals, and exponents where it holds all and not `plain`.

    Steps that are too large are left out, see `has_large_steps`.
    """
    if has_large_steps(numbers_):
        numbers_ = replace(numbers_, multiple=None, not_multiples=())
    if numbers_.values is not None:
        return Choice(
            tuple(option for value in numbers_.values for option in _listed(value, numbers_, spelling, plain))
        )
    within = _without_idle_bounds(numbers_)
    if spelling == "canonical":
        return _canonical(within, plain)
    if numbers_ == ANY_NUMBER and not plain:
        return _ANY_SPELLING
    node = _interval(numbers_)
    if numbers_.multiple is not None and numbers_.multiple != 1:
        multiples = _multiples(numbers_.multiple)
        node = multiples if node is _DECIMAL else Intersection((node, multiples))
        if numbers_.pointed is not None:
            node = Intersection((node, Sequence((_WITHOUT_FRACTION, _tail(numbers_.pointed)))))
    node = _without_excluded(node, numbers_)
    return Choice((node, _CANONICAL_NUMBER)) if within == ANY_NUMBER and not plain else node


def _without_excluded(node: Node, numbers_: NumberSet) -> Node:
    for step in numbers_.not_multiples:
        node = Intersection((node, Complement(_INTEGER if step == 1 else _multiples(step))))
    if numbers_.excluded:
        excluded = tuple(_every_decimal(value) for value in sorted(numbers_.excluded))
        node = Intersection((node, Complement(Choice(excluded))))
    return node


def _without_idle_bounds(numbers_: NumberSet) -> NumberSet:
    """The set without bounds that every double keeps."""
    if numbers_.low is not None and numbers_.low <= -_LARGEST:
        numbers_ = replace(numbers_, low=None, low_open=False)
    if numbers_.high is not None and numbers_.high >= _LARGEST:
        numbers_ = replace(numbers_, high=None, high_open=False)
    return numbers_


def _canonical(numbers_: NumberSet, plain: bool) -> Node:
    if numbers_ == ANY_NUMBER:
        return _CANONICAL_DECIMAL if plain else _CANONICAL_NUMBER
    if not numbers_.pointed and replace(numbers_, pointed=None) == ANY_INTEGER:
        return _CANONICAL_INTEGER
    digits = _digits(numbers_)
    numbers_ = _within(numbers_, digits)
    steps: list[Multiples] = []
    if numbers_.multiple is not None and numbers_.multiple != 1:
        # The multiples count the digits before the point by themselves, without a product of states.
        multiples = _multiples(numbers_.multiple)
        if state_count(multiples, MOST_STATES) <= _MOST_COUNTED:
            multiples = replace(multiples, digits=digits.before or 0)
        steps.append(multiples)
        digits = replace(digits, before=None)
    if numbers_.multiple is None or numbers_.multiple.denominator != 1:
        node = _decimals(numbers_, digits)
    else:
        node = integers(*_whole_bounds(numbers_), digits=digits)
        if numbers_.pointed:
            node = Sequence((node, Bytes(b"."), digits.zeros(0, 1)))
    if steps:
        node = Intersection((node, *steps))
    return _without_excluded(node, numbers_)


def _digits(numbers_: NumberSet) -> Digits:
    """How many digits the canonical numbers of a set have: the usual ones, or more where it needs them."""
    low, high, step = numbers_.low, numbers_.high, numbers_.multiple or Fraction(0)
    bounds = [bound for bound in (low, high) if bound is not None]
    # Beyond the bound that is nearer to zero there must be some numbers.
    nearest = _nearest(numbers_) + max(step, Fraction(1))
    before = [_length(nearest), *(length for bound in bounds if (length := _length(bound)) <= _MOST_DIGITS)]
    after = [_places(step), *(1 + places for bound in bounds if (places := _places(bound)) < _MOST_DIGITS)]
    if low is not None and high is not None and high - low <= Fraction(1, 10**_USUAL):
        after += [1 + _places(low), 1 + _places(high)]
    return Digits(max(_USUAL, *before), max(_USUAL, *after))


def _nearest(numbers_: NumberSet) -> Fraction:
    """How far from zero the set begins."""
    return max(numbers_.low or Fraction(0), -(numbers_.high or Fraction(0)), Fraction(0))


def _within(numbers_: NumberSet, digits: Digits) -> NumberSet:
    """The numbers of so many digits that lie in a set, by bounds of no more digits, and within what a double holds."""
    low, high = numbers_.low, numbers_.high
    before, after = digits.before or 0, digits.after or 0
    if before > sys.float_info.max_10_exp and _nearest(numbers_) < _LARGEST:
        low = -_LARGEST if low is None else max(low, -_LARGEST)
        high = _LARGEST if high is None else min(high, _LARGEST)
    low_open, high_open = numbers_.low_open, numbers_.high_open
    unit = 10**after
    if low is not None and _length(low) > before:
        low, low_open = None, False
    elif low is not None and (low * unit).denominator != 1:
        low, low_open = Fraction(floor(low * unit), unit), True
    if high is not None and _length(high) > before:
        high, high_open = None, False
    elif high is not None and (high * unit).denominator != 1:
        high, high_open = Fraction(floor(high * unit), unit), False
    return replace(numbers_, low=low, high=high, low_open=low_open, high_open=high_open)


def _length(number: Fraction) -> int:
    """The digits of a number before the point."""
    return len(str(int(abs(number))))


def _places(number: Fraction) -> int:
    """The digits of a decimal after the point."""
    decimal = as_decimal(number)
    return 0 if decimal is None else -int(decimal.as_tuple().exponent)


def has_large_steps(numbers_: NumberSet) -> bool:
    """Whether telling the multiples of the steps takes more than `MOST_STATES` states."""
    steps = [step for step in (numbers_.multiple, *numbers_.not_multiples) if step is not None and step != 1]
    if not steps or numbers_.values is not None:
        return False
    digits = max(len(str(abs(int(bound or 0)))) for bound in (numbers_.low, numbers_.high))
    leaves = [_multiples(step) for step in steps]
    places = max(leaf.places for leaf in leaves)
    remainders = lcm(*(leaf.step * 10 ** (places - leaf.places) for leaf in leaves))
    counts = (state_count(leaf, MOST_STATES) for leaf in leaves)
    return digits * min(prod(counts), remainders * (1 + max(places, 0))) > MOST_STATES


def has_no_number(numbers_: NumberSet) -> bool:
    """Whether a set is known to be empty."""
    return decide_no_number(numbers_)[0]


@lru_cache(maxsize=1024)
def decide_no_number(numbers_: NumberSet) -> tuple[bool, int]:
    """Whether a set is known to be empty, and the elementary steps that the first call takes."""
    if numbers_.values is not None or not (numbers_.not_multiples or numbers_.excluded):
        return False, 0
    return decide_empty(number_node(numbers_, "any"), _DECIDING)


def as_decimal(value: Fraction) -> Decimal | None:
    """The exact decimal of a fraction; None where it has none."""
    rest, twos, fives = value.denominator, 0, 0
    while rest % 2 == 0:
        rest, twos = rest // 2, twos + 1
    while rest % 5 == 0:
        rest, fives = rest // 5, fives + 1
    if rest != 1:
        return None
    places = max(twos, fives)
    digits = value.numerator * 10**places // value.denominator
    return Decimal((int(digits < 0), tuple(map(int, str(abs(digits)))), -places))


def _least_steps(steps: Iterable[Fraction]) -> tuple[Fraction, ...]:
    """The steps that are no multiples of others: what is no multiple of those is none of these."""
    found: list[Fraction] = []
    for step in sorted(set(steps)):
        if not any((step / other).denominator == 1 for other in found):
            found.append(step)
    return tuple(found)


def _low_key(bound: tuple[Fraction | None, bool]) -> tuple[bool, Fraction, bool]:
    return (bound[0] is not None, bound[0] or Fraction(0), bound[1])


def _high_key(bound: tuple[Fraction | None, bool]) -> tuple[bool, Fraction, bool]:
    return (bound[0] is None, bound[0] or Fraction(0), not bound[1])


def narrowed(made: NumberSet) -> NumberSet | None:
    """The same set, listed if it is small; None if it is certainly empty."""
    low, high = made.low, made.high
    if made.multiple is not None and any((made.multiple / step).denominator == 1 for step in made.not_multiples):
        return None
    if low is not None and high is not None and (low > high or (low == high and (made.low_open or made.high_open))):
        return None
    step = made.multiple
    if step is None:
        if low is not None and low == high:
            return NumberSet(values=(low,), pointed=made.pointed) if low in made else None
        return made
    if low is None or high is None:
        return made
    first, last = -(-low // step), high // step
    if last - first > _MOST_LISTED or (step == 1 and not made.excluded and not made.not_multiples and last - first > 2):
        return made
    kept = tuple(value for value in (step * index for index in range(first, last + 1)) if value in made)
    return _of_values(kept, made.pointed, is_step=True)


def _of_values(values: tuple[Fraction, ...], pointed: bool | None, is_step: bool) -> NumberSet | None:
    is_step = is_step and any(value.denominator != 1 for value in values)
    return NumberSet(values=values, pointed=pointed, is_step=is_step) if values else None


def _interval(wanted: NumberSet) -> Node:
    """The decimals between the bounds, with any number of digits; the whole ones if the step is 1."""
    is_bounded = wanted.low is not None or wanted.high is not None
    if wanted.multiple != 1:
        return _with_negative_zero(_decimals(wanted, ANY_DIGITS), wanted, optional(_ZEROS)) if is_bounded else _DECIMAL
    tail = _tail(wanted.pointed)
    if not is_bounded:
        return _INTEGER if wanted.pointed is None else Sequence((*_WITHOUT_FRACTION.items, tail))
    return _with_negative_zero(Sequence((integers(*_whole_bounds(wanted)), tail)), wanted, tail)


def _decimals(wanted: NumberSet, digits: Digits) -> Node:
    low = None if wanted.low is None else as_decimal(wanted.low)
    high = None if wanted.high is None else as_decimal(wanted.high)
    return numbers(low, high, exclude_minimum=wanted.low_open, exclude_maximum=wanted.high_open, digits=digits)


def _whole_bounds(wanted: NumberSet) -> tuple[Decimal | None, Decimal | None]:
    """The least and the greatest whole number."""
    low, high = wanted.low, wanted.high
    least = None if low is None else ceil(low) + (wanted.low_open and low.denominator == 1)
    greatest = None if high is None else floor(high) - (wanted.high_open and high.denominator == 1)
    return None if least is None else Decimal(least), None if greatest is None else Decimal(greatest)


def _with_negative_zero(node: Node, wanted: NumberSet, tail: Node) -> Node:
    return Choice((node, Sequence((Bytes(b"-0"), tail)))) if Fraction(0) in wanted else node


def _listed(value: Fraction, numbers_: NumberSet, spelling: Spelling, plain: bool) -> list[Node]:
    """The spellings of one of the values of a set.

    The canonical one depends on the value alone: an integer if it is whole, else what `json.dumps` writes of the float,
    or if none has this value a plain decimal.
    """
    decimal = _plain(value)
    usual = repr(float(value)) if abs(value) < 1 and not plain else ""
    text = usual if "e" in usual and Fraction(usual) == value else decimal
    if spelling == "any":
        others = [Bytes(text.encode())] if text != decimal else []
        return [_every_decimal(value, numbers_.pointed), *others]
    if numbers_.is_step:
        places = len(decimal.partition(".")[2])
        zeros = Digits(after=max(_USUAL, places)).zeros(places, 0 if places else 1)
        return [Sequence((Bytes(decimal.encode()), zeros if places else optional(Sequence((Bytes(b"."), zeros)))))]
    return [Bytes(text.encode() + b".0" * (numbers_.pointed is True))]


def _every_decimal(value: Fraction, pointed: bool | None = None) -> Node:
    text = _plain(value)
    if "." in text:
        return Sequence((Bytes(text.encode()), Repeat(Bytes(b"0"))))
    sign = (optional(_MINUS),) if value == 0 else ()
    return Sequence((*sign, Bytes(text.encode()), _tail(pointed)))


def _plain(value: Fraction) -> str:
    """The shortest plain decimal of a value that has one."""
    decimal = as_decimal(value)
    text = "" if decimal is None else format(decimal, "f")
    return text.rstrip("0") if "." in text else text


def _tail(pointed: bool | None) -> Node:
    """What may follow the digits of a whole number."""
    if pointed is None:
        return optional(_ZEROS)
    return _ZEROS if pointed else EMPTY


def _multiples(step: Fraction) -> Multiples:
    """The multiples of `step`, which is a decimal."""
    places = 0
    while (step * 10**places).denominator != 1:
        places += 1
    whole = int(step * 10**places)
    while whole % 10 == 0:
        whole, places = whole // 10, places - 1
    return Multiples(whole, places)
