"""Judges texts by a schema's grammar, and prints documents in the order of the schema, for the tests of JSON Schema."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator
from typing import Any

from formatter_core.formats import json_schema
from formatter_core.grammar import Grammar
from formatter_core.limits import DEFAULT_LIMITS, Limits
from formatter_core.testing.recognizer import Recognizer

#: The most orders of keys that are tried, at each depth: a value inside others is judged like one alone.
_MOST_ORDERS = 60


def lowered(schema: Any, limits: Limits = DEFAULT_LIMITS, **options: Any) -> Grammar:
    """The grammar of a schema, which is checked, as rules."""
    grammar = json_schema(schema, **options).to_grammar(limits).grammar
    grammar.check(limits)
    return grammar.lowered


class Judge:
    """Tells whether a text is a spelling of a valid document, by the reference recognizer."""

    def __init__(self, schema: Any, **options: Any) -> None:
        text = schema if isinstance(schema, str) else json.dumps(schema)
        self.recognizer = Recognizer(lowered(text, **options))
        self._before = b""

    def accepts(self, text: str) -> bool:
        data = text.encode()
        # The recognizer has already read what the text has in common with the one before.
        same = itertools.takewhile(lambda pair: pair[0] == pair[1], zip(data, self._before, strict=False))
        shared = min(sum(1 for _ in same), self.recognizer.length)
        self.recognizer.pop(self.recognizer.length - shared)
        self._before = data
        return all(map(self.recognizer.push, data[shared:])) and self.recognizer.can_stop()

    def accepts_value(self, value: Any, orders: int = _MOST_ORDERS, indent: int | None = None) -> bool:
        """Tell whether the value is accepted with its keys in one of the first `orders` orders."""
        tried = itertools.islice(orders_of(value), orders)
        return any(self.accepts(json.dumps(order, ensure_ascii=False, indent=indent)) for order in tried)


def orders_of(value: Any) -> Iterator[Any]:
    """The value with its keys in every order, the order that it has first; of what is inside, in the first so many."""

    def inside(item: Any) -> list[Any]:
        return list(itertools.islice(orders_of(item), _MOST_ORDERS))

    if isinstance(value, dict):
        for keys in itertools.permutations(value):
            for inner in itertools.product(*(inside(value[key]) for key in keys)):
                yield dict(zip(keys, inner, strict=True))
    elif isinstance(value, list):
        yield from map(list, itertools.product(*map(inside, value)))
    else:
        yield value
