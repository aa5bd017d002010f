"""Lower the parts of combined formats: formats or literal texts."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from decimal import Decimal
from typing import Any, TypeAlias

from formatter_core.errors import FormatterError, InvalidFormat
from formatter_core.formats.protocol import Converter, Format, Lowered, first_reason, text_of
from formatter_core.formats.unfinished import ChosenPart, ListedParts
from formatter_core.grammar import Capture, Grammar, Node, Reference, literal
from formatter_core.limits import Limits
from formatter_core.parsing.captures import Match

__all__ = ["Part", "Parts", "data_of", "key_of"]

#: A part of a format; a `str` is literal text.
Part: TypeAlias = str | Format
#: Makes the view of an unfinished text from its parts, by their captures.
PartsKind: TypeAlias = Callable[[Mapping[str, Lowered]], ListedParts | ChosenPart]


def data_of(value: Any) -> Any:
    """Return a field of a format as JSON data; a `str` stays unchanged."""
    if isinstance(value, tuple):
        return [data_of(item) for item in value]
    if isinstance(value, Decimal):
        return str(value)
    return value.to_json() if not isinstance(value, str) and isinstance(value, Format) else value


def key_of(value: Any) -> Hashable:
    """Return a key that is equal for field values with the same meaning."""
    if isinstance(value, tuple):
        return tuple(map(key_of, value))
    return value.key() if not isinstance(value, str) and isinstance(value, Format) else value


class Parts:
    """A collection of parts in one grammar; the internal capture `.i` marks part `i`.

    Args:
        limits: the maximum cost of lowering a part.
        exclusive: whether a text has only one of the parts, so that two of them may use the same name for captures of
            the same kind.
    """

    def __init__(self, limits: Limits, *, exclusive: bool = False) -> None:
        self._limits = limits
        self._exclusive = exclusive
        self._rules: dict[str, Node] = {}
        self._converters: dict[str, Converter] = {}
        self._values: dict[str, Converter] = {}
        self._parts: dict[str, Lowered] = {}
        self._whys: list[Callable[[], FormatterError | None]] = []

    def add(self, part: Part) -> Node:
        """Lower one more part, and return its node."""
        name = f".{len(self._values)}"
        if isinstance(part, str):
            self._values[name] = text_of
            self._parts[name] = Lowered(Grammar({name: literal(part)}, name))
            return Capture(name, literal(part))
        lowered = part.to_grammar(self._limits)
        self._whys.append(lowered.why_empty)
        for captured, converter in lowered.converters.items():
            if captured in self._converters and not (self._exclusive and self._converters[captured] == converter):
                kind = " values of different kinds as" if self._exclusive else ""
                raise InvalidFormat(f"two parts of the format have the same capture{kind} {captured!r}; rename one")
            self._converters[captured] = converter
        grammar = lowered.grammar.renamed(f"part {len(self._values) + 1}.")
        self._rules.update(grammar.rules)
        self._values[name] = lowered.value
        self._parts[name] = lowered
        return Capture(name, Reference(grammar.start))

    def values(self, match: Match, only: str | None = None) -> list[Any]:
        """Return the values of the parts in `match`, in order; with `only`, those of one part."""
        # Only direct children count: a part that has parts uses the same internal names one level down.
        return [
            self._values[child.name](child)
            for child in match.children
            if (child.name in self._values if only is None else child.name == only)
        ]

    def lowered(
        self, name: str, body: Node, value: Converter, unfinished: PartsKind, only: str | None = None
    ) -> Lowered:
        """Return the grammar, with a start rule `name` over the parts.

        Args:
            name: the start rule.
            body: the node of the start rule.
            value: makes the value of a whole text.
            unfinished: how to show the values of the parts while they are written.
            only: the only part to show; None for all.
        """
        grammar = Grammar({**self._rules, name: body}, name)
        parts = self._parts if only is None else {only: self._parts[only]}
        return Lowered(grammar, self._converters, value, first_reason(self._whys), unfinished(parts))
