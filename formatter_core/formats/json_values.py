"""Convert JSON text to Python values and back, for any nesting and any number of digits."""

from __future__ import annotations

import json
import re
from decimal import Context, Decimal, InvalidOperation
from math import isfinite
from typing import Any

from formatter_core.errors import InvalidValue
from formatter_core.schema.data import write_value

__all__ = [
    "integral",
    "is_integral",
    "may_overflow",
    "plain",
    "read_exact",
    "read_float",
    "read_integer",
    "read_value",
    "refused",
    "write_value",
]

#: A number too large for a float has hundreds of digits or an exponent of at least two digits. Searching for the `e` is
#: fast.
_EXPONENT = re.compile(rb"[eE](?<=[0-9].)\+?[0-9]{2}")
_TO_ZEROS = bytes.maketrans(b"123456789", b"000000000")
_DIGITS_BEYOND_FLOAT = b"0" * 300

#: The user's decimal context might turn invalid numbers into NaN.
_STRICT = Context(traps=[InvalidOperation])


def may_overflow(data: bytes) -> bool:
    """Return whether JSON text may contain a number too large for a float; False is certain."""
    return _EXPONENT.search(data) is not None or (
        len(data) >= len(_DIGITS_BEYOND_FLOAT) and _DIGITS_BEYOND_FLOAT in data.translate(_TO_ZEROS)
    )


def read_integer(text: str) -> int:
    """Return the integer that `text` spells, with any number of digits; `int` refuses thousands."""
    try:
        return int(text)
    except ValueError:
        return int(Decimal(text))


def read_float(text: str) -> float | Decimal:
    """Return the number that `text` spells: a float, or a `Decimal` if it is too large for one.

    Raises:
        InvalidValue: the exponent is too large even for a `Decimal`.
    """
    value = float(text)
    return value if isfinite(value) else _decimal(text)


def read_value(data: bytes) -> Any:
    """Read valid JSON text as `json.loads` does, with numbers as in `read_float`."""
    text = data.decode("utf-8")
    if may_overflow(data):
        return _read(text, parse_float=read_float, parse_int=read_integer)
    return _read(text)


def read_exact(data: bytes) -> Any:
    """Read valid JSON text, with a `Decimal` for each number that a float would spell differently.

    `write_value` then gives the same digits back.
    """
    text = data.decode("utf-8")
    return _read(text, parse_float=_exact, parse_int=read_integer if may_overflow(data) else int)


class _Spelt(Decimal):
    """A number whose text, such as 1.5e1, differs from that of its `Decimal`."""

    _text: str

    def __new__(cls, value: Decimal, text: str) -> _Spelt:
        made = super().__new__(cls, value)
        made._text = text
        return made

    def __str__(self) -> str:
        return self._text


def plain(value: Any) -> Any:
    """Turn a value of `read_exact` into one of `read_value`: in place, without recursion."""
    if not isinstance(value, (list, dict, Decimal)) or _is_plain(value):
        return value
    holder = [value]
    stack: list[Any] = [holder]
    while stack:
        inside = stack.pop()
        for key, one in inside.items() if isinstance(inside, dict) else enumerate(inside):
            if isinstance(one, Decimal):
                inside[key] = float(one) if isfinite(float(one)) else Decimal(one)
            elif isinstance(one, (list, dict)):
                stack.append(one)
    return holder[0]


def _is_plain(value: Any) -> bool:
    """Return whether a value certainly has no `Decimal`."""
    try:
        json.dumps(value)
    except (TypeError, ValueError, RecursionError):
        return False
    return True


def refused(error: Exception, value: Any, pointer: str) -> InvalidValue:
    """Return the error for a value for which the user's code raised; even its `repr` may raise."""
    try:
        reason = f"{type(error).__name__}: {error}"
    except Exception:  # noqa: BLE001 - the error's own `__str__` is the user's too
        reason = type(error).__name__
    return InvalidValue(reason, text=write_value(value), pointer=pointer)


def integral(value: Any) -> Any:
    """Return a value of `read_exact` with ints for numbers such as 1.0."""
    if isinstance(value, dict):
        return {key: integral(item) for key, item in value.items()}
    if isinstance(value, list):
        return list(map(integral, value))
    return int(value) if is_integral(value) else value


def is_integral(value: Any) -> bool:
    """Return whether a value of `read_exact` is a whole number written without an exponent, such as 1 or 1.0."""
    if isinstance(value, (float, Decimal)):
        return "e" not in str(value).lower() and value == int(value)
    return isinstance(value, int) and not isinstance(value, bool)


def _exact(text: str) -> float | Decimal:
    value = float(text)
    if repr(value) == text:
        return value
    exact = _decimal(text)
    return exact if str(exact) == text else _Spelt(exact, text)


def _decimal(text: str) -> Decimal:
    try:
        return Decimal(text, _STRICT)
    except InvalidOperation as error:
        if isfinite(float(text)):  # closer to 0 than a Decimal can be
            return Decimal(0)
        shown = text if len(text) <= 40 else f"{text[:37]}..."
        raise InvalidValue(f"the number {shown} is too large even for a Decimal", text=text) from error


def _read(text: str, **options: Any) -> Any:
    try:
        return json.loads(text, **options)
    except RecursionError:
        return _Reader(text, **options).value()


class _Reader:
    """A reader of valid JSON without recursion: a generated text may be nested deeper than Python's stack."""

    def __init__(self, text: str, **options: Any) -> None:
        self._text = text
        self._scan = json.JSONDecoder(**options).raw_decode
        self._open: list[list[Any]] = []  # the contents of each open array or object, including keys

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
