"""Schemas as JSON data and JSON text, for any nesting and with numbers of any number of digits."""

from __future__ import annotations

import json
import sys
from collections.abc import Sized
from decimal import Decimal, InvalidOperation
from typing import Any, NoReturn

from formatter_core.errors import InvalidSchema, LimitExceeded
from formatter_core.errors.arguments import shown

__all__ = ["MAX_LEVELS", "brief", "own_json", "read_json", "too_long", "write_value"]

#: Maximum digits of a number in a schema; Python converts integers of 4,300 digits by default.
_MAX_DIGITS = 4000
_TOO_LARGE = 10**_MAX_DIGITS
#: Maximum values of parts of a schema that are used again, each time with all inside.
_MAX_REPEATED_VALUES = 100_000
#: Levels of nesting that the native library reads.
MAX_LEVELS = 1000
_AS_THEY_ARE = frozenset([str, bool, type(None)])


def write_value(value: Any, *, ensure_ascii: bool = True) -> str:
    """Write a value as JSON text; characters beyond ASCII are escaped if `ensure_ascii`. Numbers may be `Decimal`.

    Raises:
        TypeError: it is not JSON data.
        RecursionError: nested deeper than Python's stack.
    """
    try:
        return json.dumps(value, ensure_ascii=ensure_ascii)
    except (TypeError, ValueError):  # of a Decimal, and of an `int` with thousands of digits
        return _in_parts(value, ensure_ascii)


def _in_parts(value: Any, ensure_ascii: bool) -> str:
    if isinstance(value, dict):
        items = (f"{_in_parts(key, ensure_ascii)}:{_in_parts(item, ensure_ascii)}" for key, item in value.items())
        return "{" + ",".join(items) + "}"
    if isinstance(value, (list, tuple)):
        return "[" + ",".join(_in_parts(item, ensure_ascii) for item in value) + "]"
    if isinstance(value, Decimal):
        return str(value)
    if isinstance(value, int) and not isinstance(value, bool):
        return str(Decimal(value))
    return json.dumps(value, ensure_ascii=ensure_ascii)


def brief(value: Any) -> str:
    """Write the beginning of a value, for a message."""
    return _cut(json.dumps(value, default=float, ensure_ascii=False))


def read_json(text: str) -> Any:
    """Parse the JSON in `text`: fractions stay exact, as `Decimal`; if a name occurs twice, the last one counts.

    Raises:
        InvalidSchema: not JSON.
        LimitExceeded: nested too deeply.
    """
    try:
        return _DECODER.decode(text)
    except RecursionError as error:
        raise _too_deep("the nesting of the schema's JSON text") from error
    except json.JSONDecodeError as error:
        raise InvalidSchema(f"the text is not JSON: {error}") from None
    except ValueError as error:  # how `int` says that a number has too many digits
        raise too_long("an integer") from error


def own_json(data: Any) -> Any:
    """Copy JSON data into the form that `read_json` returns; later changes to `data` do not affect the copy.

    Raises:
        InvalidSchema: a part of it is not JSON data.
        LimitExceeded: nested too deeply, or contains itself, or is much longer as text, which repeats each part as
            often as it is used.
    """
    try:
        return _Copier().copy(data)
    except RecursionError as error:
        raise _too_deep("the nesting of the schema") from error


def too_long(what: str) -> InvalidSchema:
    """Make the error of a number with too many digits."""
    return InvalidSchema(f"{what} has more than {_MAX_DIGITS} digits without an exponent; use a shorter one")


class _Copier:
    def __init__(self) -> None:
        self._seen: set[int] = set()
        self._repeated = 0

    def copy(self, data: Any) -> Any:
        if isinstance(data, dict):
            self._count(data)
            made = {}
            for name, item in data.items():
                if not isinstance(name, str):
                    raise InvalidSchema(
                        f"the key {shown(name)} is not a str; "
                        "use str keys, or formats.example(value) if it is an example"
                    )
                made[str.__str__(name)] = item if type(item) in _AS_THEY_ARE else self.copy(item)
            return made
        if isinstance(data, (list, tuple)):
            self._count(data)
            return [item if type(item) in _AS_THEY_ARE else self.copy(item) for item in data]
        if isinstance(data, str):
            return str.__str__(data)
        if data is None or isinstance(data, bool):
            return data
        if isinstance(data, int):
            if abs(data) >= _TOO_LARGE:
                raise too_long("an integer")
            return int(data)
        if isinstance(data, float):
            return _exact(float.__repr__(data))
        if isinstance(data, Decimal):
            return _exact(str(data))
        raise InvalidSchema(f"{shown(data)} is not JSON data; use dict, list, str, int, float, bool or None")

    def _count(self, data: Sized) -> None:
        """Count repeated copies: twenty levels that each contain the next one twice would become a million."""
        if id(data) not in self._seen:
            self._seen.add(id(data))
            return
        self._repeated += 1 + len(data)
        if self._repeated > _MAX_REPEATED_VALUES:
            raise LimitExceeded(
                "repeated values",
                _MAX_REPEATED_VALUES,
                "the schema, whose parts are used several times,",
                is_fixed=True,
                remedy="write such parts once, below `$defs`, and refer to them",
            )


def _exact(text: str) -> Decimal | int:
    try:
        value = Decimal(text)
    except InvalidOperation as error:
        raise too_long(f"the number {_cut(text)}") from error
    if not value.is_finite():
        _no_constant(text)
    if not value:
        return 0
    if abs(value.adjusted()) + len(text) > _MAX_DIGITS:
        raise too_long(f"the number {_cut(text)}")
    return value


def _cut(text: str) -> str:
    return text if len(text) <= 40 else text[:37] + "..."


def _too_deep(what: str) -> LimitExceeded:
    return LimitExceeded("levels of Python's own stack", sys.getrecursionlimit(), what, is_fixed=True)


def _no_constant(name: str) -> NoReturn:
    raise InvalidSchema(f"{name} is not JSON; use a number")


_DECODER = json.JSONDecoder(parse_float=_exact, parse_constant=_no_constant)
