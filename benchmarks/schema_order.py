"""Documents with their keys in the order that a format wants."""

from __future__ import annotations

import json
from typing import Any

from benchmarks.cases import Case
from formatter_core.errors import FormatterError

__all__ = ["in_schema_order"]

_MOST_TRIES = 20_000


def in_schema_order(engine: Any, case: Case, document: Any) -> str | None:
    """The document as text that `engine`, formatter-core, accepts; None where none was found."""
    try:
        state = engine.compile(case)().formatter
        found = _Writer().value(state, document)
    except FormatterError:
        return None
    return found[1] if found is not None and found[0].can_stop else None


class _Writer:
    def __init__(self) -> None:
        self.tries = 0

    def value(self, state: Any, value: Any) -> tuple[Any, str] | None:
        """The state after the value, and the value's text."""
        if isinstance(value, list):
            return self._array(state, value)
        if isinstance(value, dict):
            return self._object(state, value)
        return self._after(state, json.dumps(value, ensure_ascii=False))

    def _array(self, state: Any, items: list[Any]) -> tuple[Any, str] | None:
        found = self._after(state, "[")
        for index, item in enumerate(items):
            found = found and self._then(found, ", " if index else "")
            written = found and self.value(found[0], item)
            if not found or not written:
                return None
            found = written[0], found[1] + written[1]
        return found and self._then(found, "]")

    def _object(self, state: Any, entries: dict[str, Any]) -> tuple[Any, str] | None:
        found = self._after(state, "{")
        return found and self._entries(found, list(entries), entries)

    def _entries(self, found: tuple[Any, str], rest: list[str], entries: dict[str, Any]) -> tuple[Any, str] | None:
        """In a fixed order the key that goes first leaves most of the others possible: such keys are tried first."""
        if not rest:
            return self._then(found, "}")
        comma = ", " if len(rest) < len(entries) else ""
        possible = [key for key in rest if self._after(found[0], comma + _key(key))]
        later: list[tuple[int, str, tuple[Any, str]]] = []
        for key in possible:
            started = self._after(found[0], comma + _key(key))
            written = started and self.value(started[0], entries[key])
            if not started or not written:
                continue
            left = sum(key != other and bool(self._after(written[0], ", " + _key(other))) for other in possible)
            later.append((left, key, (written[0], found[1] + started[1] + written[1])))
            if left == len(possible) - 1:
                ended = self._entries(later.pop()[2], [other for other in rest if other != key], entries)
                if ended:
                    return ended
        for _, key, after in sorted(later, key=lambda each: -each[0]):
            ended = self._entries(after, [other for other in rest if other != key], entries)
            if ended:
                return ended
        return None

    def _then(self, found: tuple[Any, str], text: str) -> tuple[Any, str] | None:
        after = self._after(found[0], text)
        return after and (after[0], found[1] + text)

    def _after(self, state: Any, text: str) -> tuple[Any, str] | None:
        self.tries += 1
        if self.tries > _MOST_TRIES:
            return None
        copy = state.fork()
        try:
            copy.accept_bytes(text.encode())
        except FormatterError:
            return None
        return copy, text


def _key(name: str) -> str:
    return json.dumps(name, ensure_ascii=False) + ": "
