"""From JSON text to Python values, however deep it is nested and however many digits a number has."""

from __future__ import annotations

import json
from decimal import Decimal
from typing import Any

__all__ = ["read_integer", "read_value"]


def read_integer(text: str) -> int:
    """The whole number that `text` spells. `int` refuses more than some thousand digits, and a model may write them."""
    try:
        return int(text)
    except ValueError:
        return int(Decimal(text))


def read_value(data: bytes) -> Any:
    """What `json.loads` makes of JSON text, which must be valid."""
    text = data.decode("utf-8")
    try:
        return json.loads(text)
    except (RecursionError, ValueError):
        return _Reader(text).value()


class _Reader:
    """Reads valid JSON without recursion: a generated text may be nested deeper than Python's stack is."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._scan = json.JSONDecoder(parse_int=read_integer).raw_decode
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
