"""Exact sets of JSON numbers, and their plain decimal spellings."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from decimal import Decimal
from fractions import Fraction
from functools import lru_cache
from math import lcm, prod

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
from formatter_core.grammar.decimals import integers, numbers
from formatter_core.grammar.multiples import state_count
from formatter_core.grammar.values import value
from formatter_core.limits import Limits
from formatter_core.schema.spelling import Spelling

__all__ = [
    "ANY_INTEGER",
    "ANY_NUMBER",
    "ANY_NUMBER_NODE",
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
_ZEROS = Sequence((Bytes(b"."), Repeat(Bytes(b"0"), 1)))
_MINUS = Bytes(b"-")
_WHOLE = Choice((Bytes(b"0"), Sequence((Chars(((0x31, 0x39),)), Repeat(_DIGIT)))))
_FRACTION = Sequence((Bytes(b"."), Repeat(_DIGIT, 1)))
_EXPONENT = Sequence(
    (Chars.of([(0x45, 0x45), (0x65, 0x65)]), optional(Chars.of([(0x2B, 0x2B), (0x2D, 0x2D)])), Repeat(_DIGIT, 1))
)

#: Every number in every legal spelling.
ANY_NUMBER_NODE = interned(Sequence((optional(_MINUS), _WHOLE, optional(_FRACTION), optional(_EXPONENT))))
_WITHOUT_FRACTION = Sequence((optional(_MINUS), _WHOLE))
_INTEGER = interned(Sequence((*_WITHOUT_FRACTION.items, optional(_ZEROS))))
_DECIMAL = Sequence((optional(_MINUS), _WHOLE, optional(_FRACTION)))

#: Maximum states of an automaton that decides emptiness; above it the answer is "not known to be empty".
_DECIDING = Limits(states=2000, work=200_000)
#: Maximum multiples that we list one by one.
_MOST_LISTED = 2000
#: Maximum states of the multiples of all steps of one set, between its bounds.
MOST_STATES = 8192


@value()
class NumberSet:
    """The numbers between two bounds that are multiples of `multiple` and of no number in `not_multiples`.

    `values`, where not None, lists the members instead, and no other field counts but `pointed`: whether the members,
    whole numbers then, are spelled with a fraction, as for draft 4 the number 2 is an integer and 2.0 is not; None
    where both spellings are in the set. `excluded` are single numbers.
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
        return NumberSet(values=kept, pointed=pointed) if kept else None
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


def number_node(numbers_: NumberSet, spelling: Spelling = "any", *, plain: bool = False) -> Node:
    """The plain decimal spellings of the numbers in the set; every legal one where it holds all, unless `plain`.

    Steps that are too large are left out, see `has_large_steps`.
    """
    if has_large_steps(numbers_):
        numbers_ = replace(numbers_, multiple=None, not_multiples=())
    if numbers_ == ANY_NUMBER and not plain:
        return ANY_NUMBER_NODE
    if numbers_.values is not None:
        return Choice(tuple(_spelled(value, numbers_.pointed) for value in numbers_.values))
    node = _interval(numbers_)
    if numbers_.multiple is not None and numbers_.multiple != 1:
        multiples = _multiples(numbers_.multiple)
        node = multiples if node is _DECIMAL else Intersection((node, multiples))
        if numbers_.pointed is not None:
            node = Intersection((node, Sequence((_WITHOUT_FRACTION, _tail(numbers_.pointed)))))
    for step in numbers_.not_multiples:
        node = Intersection((node, Complement(_INTEGER if step == 1 else _multiples(step))))
    if numbers_.excluded:
        excluded = tuple(_spelled(value) for value in sorted(numbers_.excluded))
        node = Intersection((node, Complement(Choice(excluded))))
    return node


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
    return decide_empty(number_node(numbers_), _DECIDING)


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
    return NumberSet(values=kept, pointed=made.pointed) if kept else None


def _interval(wanted: NumberSet) -> Node:
    low = None if wanted.low is None else as_decimal(wanted.low)
    high = None if wanted.high is None else as_decimal(wanted.high)
    if wanted.multiple != 1:
        if low is None and high is None:
            return _DECIMAL
        node = numbers(low, high, exclude_minimum=wanted.low_open, exclude_maximum=wanted.high_open)
        return _with_negative_zero(node, wanted, optional(_ZEROS))
    tail = _tail(wanted.pointed)
    if low is None and high is None:
        return _INTEGER if wanted.pointed is None else Sequence((*_WITHOUT_FRACTION.items, tail))
    if low is not None and wanted.low_open and low == low.to_integral_value():
        low += 1
    if high is not None and wanted.high_open and high == high.to_integral_value():
        high -= 1
    return _with_negative_zero(Sequence((integers(low, high), tail)), wanted, tail)


def _with_negative_zero(node: Node, wanted: NumberSet, tail: Node) -> Node:
    return Choice((node, Sequence((Bytes(b"-0"), tail)))) if Fraction(0) in wanted else node


def _spelled(value: Fraction, pointed: bool | None = None) -> Node:
    decimal = as_decimal(value)
    text = "" if decimal is None else format(decimal, "f")
    if "." in text:
        return Sequence((Bytes(text.rstrip("0").encode()), Repeat(Bytes(b"0"))))
    sign = (optional(_MINUS),) if value == 0 else ()
    return Sequence((*sign, Bytes(text.encode()), _tail(pointed)))


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
