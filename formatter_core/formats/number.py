"""Define integers and decimal numbers in plain text."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from typing import ClassVar, TypeAlias, get_args

from formatter_core.engine.native_leaves import number_node
from formatter_core.errors import InvalidFormat
from formatter_core.errors.arguments import one_of, shown
from formatter_core.formats.json_values import read_float, read_integer
from formatter_core.formats.one_of import Alternatives
from formatter_core.formats.protocol import Lowered
from formatter_core.grammar import Grammar, Terminal
from formatter_core.limits import Limits
from formatter_core.parsing.captures import Match
from formatter_core.schema import Spelling

__all__ = ["IntegerFormat", "Number", "NumberFormat", "integer", "number"]

Number: TypeAlias = int | float | Decimal

#: The maximum number of digits of a bound; it becomes an automaton with about that many states.
_LONGEST_BOUND = 400


@dataclass(frozen=True)
class IntegerFormat(Alternatives):
    """A format of a whole number without leading zeros; its value is an `int`."""

    kind: ClassVar = "integer"
    minimum: int | None
    maximum: int | None
    spelling: Spelling = "canonical"

    def to_grammar(self, limits: Limits) -> Lowered:
        node = number_node(self.minimum, self.maximum, whole=True, canonical=self.spelling == "canonical")
        return Lowered(Grammar({"integer": Terminal(node)}, "integer"), value=_to_int)


@dataclass(frozen=True)
class NumberFormat(Alternatives):
    """A format of a decimal number, with or without a fraction but never with an exponent.

    Its value is a `float`, or a `Decimal` if it is too large for a float.
    """

    kind: ClassVar = "number"
    minimum: Decimal | None
    maximum: Decimal | None
    spelling: Spelling = "canonical"

    def to_grammar(self, limits: Limits) -> Lowered:
        node = number_node(self.minimum, self.maximum, whole=False, canonical=self.spelling == "canonical")
        return Lowered(Grammar({"number": Terminal(node)}, "number"), value=_to_float)


def integer(
    minimum: int | None = None, maximum: int | None = None, *, spelling: Spelling = "canonical"
) -> IntegerFormat:
    """Return the format of a whole number from `minimum` to `maximum`, both included; None means no bound.

    It has at most 20 digits, or as many as the bounds need; with `spelling="any"` any number of digits.
    """
    one_of(spelling, "spelling", get_args(Spelling))
    for bound in (minimum, maximum):
        if bound is not None and (not isinstance(bound, int) or isinstance(bound, bool)):
            raise InvalidFormat(f"the bound {shown(bound)} is not an int; give an int, or None for no bound")
    _check(*(None if bound is None else Decimal(bound) for bound in (minimum, maximum)))
    return IntegerFormat(minimum, maximum, spelling)


def number(
    minimum: Number | str | None = None, maximum: Number | str | None = None, *, spelling: Spelling = "canonical"
) -> NumberFormat:
    """Return the format of a decimal number from `minimum` to `maximum`, both included; None means no bound.

    A float bound has its shortest decimal spelling: 0.1 is exactly one tenth. The number has at most 20 digits before
    the point and 20 after it, or as many as the bounds need; with `spelling="any"` any number of digits.
    """
    one_of(spelling, "spelling", get_args(Spelling))
    low, high = (_decimal(bound) for bound in (minimum, maximum))
    _check(low, high)
    return NumberFormat(low, high, spelling)


def _decimal(bound: Number | str | None) -> Decimal | None:
    if bound is None:
        return None
    try:
        if isinstance(bound, bool):
            raise TypeError
        made = Decimal(str(bound))
    except (InvalidOperation, TypeError) as error:
        raise InvalidFormat(
            f"the bound {shown(bound)} is not a number; give an int, a float or a Decimal, or None for no bound"
        ) from error
    if not made.is_finite():
        raise InvalidFormat(f"the bound {bound!r} is not finite; pass None for no bound")
    return made


def _check(minimum: Decimal | None, maximum: Decimal | None) -> None:
    for bound in (minimum, maximum):
        if bound is not None and abs(bound.adjusted()) + len(bound.as_tuple().digits) > _LONGEST_BOUND:
            raise InvalidFormat(f"a bound may have at most {_LONGEST_BOUND} digits; round it")
    if minimum is not None and maximum is not None and minimum > maximum:
        raise InvalidFormat(f"no number is at least {minimum} and at most {maximum}; swap the bounds")


def _to_int(match: Match) -> int:
    return read_integer(match.text)


def _to_float(match: Match) -> float | Decimal:
    return read_float(match.text)
