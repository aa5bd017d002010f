"""The scalars of a shape as one terminal."""

from __future__ import annotations

from functools import cache, lru_cache

from formatter_core.grammar import Bytes, Terminal, interned
from formatter_core.schema.numbers import ANY_INTEGER, ANY_NUMBER, NumberSet, has_no_number, number_node
from formatter_core.schema.rules import any_of
from formatter_core.schema.shapes import Shape
from formatter_core.schema.spelling import Spelling
from formatter_core.schema.strings import ANY_STRING, StringSet, is_empty, string_nodes

__all__ = ["scalar_terminal"]

#: Maximum alternatives for strings that we check for emptiness.
_MOST_DECIDED = 8
_ALL_NUMBERS = ((), (ANY_NUMBER,), (ANY_INTEGER,))
_ALL_STRINGS = ((), (ANY_STRING,))


def scalar_terminal(shape: Shape, spelling: Spelling, *, plain: bool = False) -> Terminal | None:
    """The terminal of a shape's scalars: one object for equal scalars, so that engines build it once.

    None if there are none. With `plain` all numbers are plain decimals.
    """
    if shape.numbers in _ALL_NUMBERS and shape.strings in _ALL_STRINGS and not plain:
        number, integer = shape.numbers == (ANY_NUMBER,), shape.numbers == (ANY_INTEGER,)
        return _of_types(shape.null, shape.booleans, number, integer, bool(shape.strings), spelling)
    return _of_sets(shape.null, shape.booleans, shape.numbers, shape.strings, spelling, plain)


@lru_cache(maxsize=1024)
def _of_sets(
    null: bool,
    booleans: int,
    numbers: tuple[NumberSet, ...],
    strings: tuple[StringSet, ...],
    spelling: Spelling,
    plain: bool,
) -> Terminal | None:
    """One terminal for all scalars of a shape, in every schema that has them."""
    found = string_nodes((each for each in strings if len(strings) > _MOST_DECIDED or not is_empty(each)), spelling)
    found += [number_node(each, spelling, plain=plain) for each in numbers if not has_no_number(each)]
    found += [Bytes(word) for bit, word in ((1, b"false"), (2, b"true")) if booleans & bit]
    found += [Bytes(b"null")] if null else []
    return Terminal(any_of(found)) if found else None


@cache
def _of_types(
    null: bool, booleans: int, number: bool, integer: bool, string: bool, spelling: Spelling
) -> Terminal | None:
    """The terminal of whole types, shared by all schemas."""
    numbers = (ANY_NUMBER,) * number + (ANY_INTEGER,) * integer
    node = _of_sets(null, booleans, numbers, (ANY_STRING,) * string, spelling, plain=False)
    return None if node is None else interned(node)
