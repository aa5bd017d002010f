"""Checks of arguments, with clearer errors than Python's own."""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Iterator
from contextlib import suppress
from math import isfinite
from numbers import Real
from operator import index
from typing import Any, TypeVar

from formatter_core.errors import FormatterError, InvalidArgument

__all__ = [
    "as_bytes",
    "elements_of",
    "neither_format_nor_formats",
    "not_a_token_id",
    "not_picklable",
    "one_of",
    "picklable",
    "real_number",
    "sample_count",
    "shown",
    "token_ids_of",
    "true_or_false",
    "utf8",
    "whole_number",
]

_T = TypeVar("_T")

#: The number of characters of a value that a message shows.
_SHOWN = 80


def shown(value: Any) -> str:
    """Return a value as text for a message, shortened if it is long."""
    try:
        text = repr(value)
    except Exception:  # noqa: BLE001 - a value that cannot even be shown must not hide what is wrong with it
        text = f"a {type(value).__name__}"
    return text if len(text) <= _SHOWN else text[: _SHOWN - 3] + "..."


def whole_number(value: Any, argument: str, minimum: int = 0) -> int:
    """Return `value` if it is a whole number (numpy's included) of at least `minimum`.

    Raises:
        InvalidArgument: not one.
    """
    try:
        number = None if isinstance(value, bool) else index(value)
    except TypeError:
        number = None
    if number is not None and number.bit_length() > 1024:  # Python refuses to write integers with thousands of digits
        reason = f"{argument} is a number of {number.bit_length():,} bits; give one of at most 1,024"
        raise InvalidArgument(reason, argument=argument)
    if number is None or number < minimum:
        raise InvalidArgument(f"{argument} is {shown(value)}; give a whole number from {minimum}", argument=argument)
    return number


def sample_count(samples: Any) -> int:
    """Return the number of outputs of a prompt if it is valid; every output takes memory from the start.

    Raises:
        InvalidArgument: not a whole number from 1 to a million.
    """
    if whole_number(samples, "samples", 1) > 1_000_000:
        raise InvalidArgument("a prompt has at most 1,000,000 samples in one call; call again", argument="samples")
    return int(samples)


def real_number(value: Any, argument: str) -> float:
    """Return `value` if it is a finite number, numpy's included.

    Raises:
        InvalidArgument: not one.
    """
    try:
        number = None if isinstance(value, bool) or not isinstance(value, Real) else float(value)
    except OverflowError:  # the whole number exceeds every float
        number = None
    if number is None or not isfinite(number):
        raise InvalidArgument(f"{argument} is {shown(value)}; give a finite number", argument=argument)
    return number


def true_or_false(value: Any, argument: str) -> bool:
    """Return `value` if it is True or False.

    Raises:
        InvalidArgument: neither True nor False.
    """
    if not isinstance(value, bool):
        raise InvalidArgument(f"{argument} is {shown(value)}; give True or False", argument=argument)
    return value


def one_of(value: Any, argument: str, choices: Iterable[str]) -> str:
    """Return `value` if it is one of the allowed names.

    Raises:
        InvalidArgument: not one.
    """
    if isinstance(value, str) and value in choices:
        return value
    names = ", ".join(map(repr, choices))
    raise InvalidArgument(f"{argument} is {shown(value)}; give one of {names}", argument=argument)


def as_bytes(value: Any, argument: str) -> bytes:
    """Return the bytes of a bytes-like object.

    Raises:
        InvalidArgument: not bytes-like.
    """
    if type(value) is bytes:
        return value
    try:
        return bytes(memoryview(value))
    except (TypeError, ValueError, BufferError) as error:
        raise InvalidArgument(f"{argument} is {shown(value)}; give bytes", argument=argument) from error


def utf8(value: Any, argument: str) -> bytes:
    """Return a text as UTF-8.

    Raises:
        InvalidArgument: not a str, or it contains half of a surrogate pair.
    """
    if not isinstance(value, str):
        raise InvalidArgument(f"{argument} is {shown(value)}; give a str", argument=argument)
    try:
        return value.encode()
    except UnicodeEncodeError as error:
        reason = f"{argument} has half of a surrogate pair at {error.start}, which is no character; leave it out"
        raise InvalidArgument(reason, argument=argument) from error


def elements_of(values: Iterable[_T], argument: str, what: str) -> Iterator[_T]:
    """Return an iterator over the elements of an iterable.

    Raises:
        InvalidArgument: not iterable, or one text.
    """
    if not isinstance(values, str):  # a str would yield single characters
        with suppress(TypeError):
            return iter(values)
    raise InvalidArgument(f"{argument} is {shown(values)}; give a sequence of {what}", argument=argument)


def token_ids_of(values: Iterable[Any], argument: str) -> tuple[int, ...]:
    """Return token ids in the given order.

    Raises:
        InvalidArgument: not a sequence of whole numbers.
    """
    try:
        return tuple(map(index, values))
    except TypeError as error:
        reason = f"{argument} is {shown(values)}; give a sequence of token ids"
        raise InvalidArgument(reason, argument=argument) from error


def not_picklable(value: object, remedy: str) -> InvalidArgument:
    """Make the error for pickling an object that is bound to its process."""
    return InvalidArgument(f"a {type(value).__name__} cannot be pickled; {remedy}")


def picklable(error: BaseException) -> BaseException:
    """Return the error if pickling preserves it, else an error of this project with its message.

    Some errors of HTTP clients cannot be pickled.
    """
    try:
        survives = type(pickle.loads(pickle.dumps(error))) is type(error)  # noqa: S301 - pickled in this process
    except Exception:  # noqa: BLE001 - the class may raise anything
        survives = False
    return error if survives else FormatterError(f"{type(error).__name__}: {error}")


def neither_format_nor_formats() -> InvalidArgument:
    """Make the error for a hook that takes `format` or `formats` and got neither, or both."""
    return InvalidArgument(
        "give either a format for all prompts, or formats= with one for each prompt (None: unconstrained)",
        argument="format",
    )


def not_a_token_id(value: Any) -> InvalidArgument:
    """Make the error for a token id that is not a whole number."""
    return InvalidArgument(f"expected a token id, found {shown(value)}; give an int", argument="token_id")
