"""What a request asks for: a format as JSON data among the request's own arguments.

The key is `formatter`; its value is an object with one of the keys `json_schema`, `regex`, `choice` (a list), `kbnf`,
or `format` (what `Format.to_json` gives), or the JSON text of such an object, which is what HTTP can carry. Beside it
`"fit": true` makes the output complete within the request's own `max_tokens`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from functools import lru_cache, partial
from typing import Any, NamedTuple

from formatter_core import Format, formats
from formatter_core.errors import InvalidFormat, InvalidSchema, LimitExceeded
from formatter_core.schema.load import read_json

__all__ = ["KEY", "Wanted", "create_extra_args", "read_request"]

#: The request's argument that holds the format.
KEY = "formatter"

_READERS: dict[str, Callable[[Any], Format]] = {
    "json_schema": formats.json_schema,
    "regex": formats.regex,
    "choice": formats.choice,
    "kbnf": formats.kbnf,
    "format": partial(formats.from_json, type=Any),  # a type stays with the client: here its schema is enough
}
_TYPES: dict[str, tuple[type, ...]] = {
    "json_schema": (dict, bool, str),
    "regex": (str,),
    "choice": (list, tuple),
    "kbnf": (str,),
    "format": (dict,),
}

#: Formats of at most this many characters are kept as they were read.
_SHORT = 20_000


class Wanted(NamedTuple):
    """What a request asks for.

    Attributes:
        format: the format of its output.
        fits: whether the output is to be complete within the request's `max_tokens`.
    """

    format: Format
    fits: bool = False


def create_extra_args(format: Any, *, fit: bool = False) -> dict[str, str]:
    """The request's arguments: `SamplingParams(extra_args=...)`, or `extra_body={"vllm_xargs": ...}` over HTTP.

    Args:
        format: whatever `Compiler.compile` takes. Captures are kept; for a Python type the server uses its JSON Schema.
        fit: whether each output is to be complete within the request's `max_tokens` (docs/budgets.md).

    Returns:
        the format as text: vLLM copies the arguments of every request, and HTTP carries no objects there.

    Raises:
        InvalidFormat: not a format.
    """
    fits = {"fit": True} if fit else {}
    return {KEY: json.dumps({"format": formats.as_format(format).to_json(), **fits})}


def read_request(arguments: Any) -> Wanted | None:
    """What a request's arguments ask for; None if they ask for no format.

    Raises:
        InvalidFormat: they ask for one in a way that cannot be read.
        FormatterError: whatever making the format raises.
    """
    if not isinstance(arguments, Mapping) or KEY not in arguments:
        return None
    wanted = arguments[KEY]
    if isinstance(wanted, str):
        return _read_text(wanted) if len(wanted) <= _SHORT else _read_text.__wrapped__(wanted)
    return _read(wanted)


@lru_cache(maxsize=64)  # many requests ask for the same
def _read_text(text: str) -> Wanted:
    try:
        wanted = read_json(text)
    except (InvalidSchema, LimitExceeded, RecursionError) as error:
        raise InvalidFormat(f"`{KEY}` is text, but not JSON text: {error}") from error
    return _read(wanted)


def _read(wanted: Any) -> Wanted:
    kinds = [key for key in wanted if key != "fit"] if isinstance(wanted, Mapping) else []
    if len(kinds) != 1 or kinds[0] not in _READERS:
        found = f"the keys {', '.join(map(repr, wanted))}" if isinstance(wanted, Mapping) else type(wanted).__name__
        raise InvalidFormat(f"`{KEY}` is an object with exactly one of the keys {', '.join(_READERS)}; found {found}")
    fits = wanted.get("fit", False)
    if not isinstance(fits, bool):
        raise InvalidFormat(f"`{KEY}.fit` is a {type(fits).__name__}; give true or false")
    (kind,) = kinds
    value = wanted[kind]
    if not isinstance(value, _TYPES[kind]):
        raise InvalidFormat(
            f"`{KEY}.{kind}` is a {type(value).__name__}; give {' or '.join(one.__name__ for one in _TYPES[kind])}"
        )
    return Wanted(_READERS[kind](value), fits)
