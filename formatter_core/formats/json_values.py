"""From JSON text to Python values and back, however deep it is nested and however many digits a number has."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from decimal import Context, Decimal, InvalidOperation
from math import isfinite
from typing import Any

from formatter_core.errors import InvalidValue

__all__ = ["may_overflow", "read_exact", "read_float", "read_integer", "read_value", "write_value"]

#: What a number beyond a float is written with: hundreds of digits, or an exponent of two.
_MAY_OVERFLOW = re.compile(rb"[0-9]{300}|[0-9][eE]\+?[0-9]{2}")

#: A number of at most so many digits before its point is the same as a float.
_SAFE_DIGITS = 14

#: A caller's own context may turn what cannot be read into NaN.
_STRICT = Context(traps=[InvalidOperation])


def may_overflow(data: bytes) -> bool:
    """Whether JSON text may hold a number that is beyond a float; false only where none is."""
    return _MAY_OVERFLOW.search(data) is not None


def read_integer(text: str) -> int:
    """The integer that `text` spells. `int` refuses more than some thousand digits, and a model may write them."""
    try:
        return int(text)
    except ValueError:
        return int(Decimal(text))


def read_float(text: str) -> float | Decimal:
    """The number that `text` spells: a float, or a `Decimal` where it is finite but too large for one.

    Raises:
        InvalidValue: its exponent is too large for a `Decimal` too.
    """
    value = float(text)
    return value if isfinite(value) else _decimal(text)


def read_value(data: bytes) -> Any:
    """What `json.loads` makes of JSON text, which must be valid, but with numbers as `read_float` reads them."""
    text = data.decode("utf-8")
    if may_overflow(data):
        return _read(text, read_float)
    try:
        return json.loads(text)
    except RecursionError:
        return _Reader(text, float).value()


def read_exact(data: bytes) -> Any:
    """The value of JSON text, which must be valid: numbers with a fraction or an exponent exactly, as `Decimal`."""
    return _read(data.decode("utf-8"), _decimal)


def write_value(value: Any) -> str:
    """A value of `read_exact` as JSON text.

    Raises:
        TypeError: it is not JSON data.
        RecursionError: nested deeper than Python's stack.
    """
    if isinstance(value, dict):
        return "{" + ",".join(f"{json.dumps(key)}:{write_value(item)}" for key, item in value.items()) + "}"
    if isinstance(value, (list, tuple)):
        return "[" + ",".join(map(write_value, value)) + "]"
    if isinstance(value, Decimal):
        # An integer with zeros after its point as an integer: pydantic reads no large one otherwise.
        integer = int(value.as_tuple().exponent) <= 0 and value.adjusted() > _SAFE_DIGITS
        return str(value.to_integral_value() if integer and value == value.to_integral_value() else value)
    if isinstance(value, int) and not isinstance(value, bool):
        return str(Decimal(value))  # of an `int` with thousands of digits, `str` raises
    return json.dumps(value)


def _decimal(text: str) -> Decimal:
    try:
        return Decimal(text, _STRICT)
    except InvalidOperation as error:
        if isfinite(float(text)):  # nearer to 0 than a Decimal can be
            return Decimal(0)
        shown = text if len(text) <= 40 else f"{text[:37]}..."
        raise InvalidValue(f"the number {shown} is too large for a Decimal", text=text) from error


def _read(text: str, parse_float: Callable[[str], Any]) -> Any:
    try:
        return json.loads(text, parse_float=parse_float, parse_int=read_integer)
    except RecursionError:
        return _Reader(text, parse_float).value()


class _Reader:
    """Reads valid JSON without recursion: a generated text may be nested deeper than Python's stack is."""

    def __init__(self, text: str, parse_float: Callable[[str], Any]) -> None:
        self._text = text
        self._scan = json.JSONDecoder(parse_float=parse_float, parse_int=read_integer).raw_decode
        self._open: list[list[Any]] = []  # what stands in each array or object that is open; of objects, keys too

    def value(self) -> Any:
        place, whole = 0, None
        while place < len(self._text):
            character = self._text[place]
            if character in "[{":
                self._open.append([])
                place += 1
            elif character in ",: \n\r\t":
                place += 1
            else:
                if character in "]}":
                    items, place = self._open.pop(), place + 1
                    made: Any = items if character == "]" else dict(zip(items[::2], items[1::2], strict=True))
                else:
                    made, place = self._scan(self._text, place)
                if self._open:
                    self._open[-1].append(made)
                else:
                    whole = made
        return whole
