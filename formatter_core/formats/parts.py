"""The parts of formats made of others: formats or literal texts."""

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

#: A `str` is literal text.
Part: TypeAlias = str | Format
#: Makes of the parts by their captures how they are shown.
PartsKind: TypeAlias = Callable[[Mapping[str, Lowered]], ListedParts | ChosenPart]


def data_of(value: Any) -> Any:
    """What a field of a format holds as JSON data; text as it is."""
    if isinstance(value, tuple):
        return [data_of(item) for item in value]
    if isinstance(value, Decimal):
        return str(value)
    return value.to_json() if not isinstance(value, str) and isinstance(value, Format) else value


def key_of(value: Any) -> Hashable:
    """Equal for what means the same in a field of a format."""
    if isinstance(value, tuple):
        return tuple(map(key_of, value))
    return value.key() if not isinstance(value, str) and isinstance(value, Format) else value


class Parts:
    """Lowers parts into one grammar; part `i` is marked by an internal capture, `.i`.

    Args:
        limits: what lowering a part may cost.
        exclusive: whether a text has only one of the parts, so that two may capture values of one kind by one name.
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
        """Lower one more part; returns its node."""
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
        """The values of the parts in `match`, in order; with `only`, those of one part."""
        # Only direct children: a part of several parts uses the same internal names one level down.
        return [
            self._values[child.name](child)
            for child in match.children
            if (child.name in self._values if only is None else child.name == only)
        ]

    def lowered(
        self, name: str, body: Node, value: Converter, unfinished: PartsKind, only: str | None = None
    ) -> Lowered:
        """The grammar, with a start rule `name` over the parts.

        Args:
            name: the start rule.
            body: what it is.
            value: makes the value of a whole text.
            unfinished: how the values of the parts are shown while they are written.
            only: the one part that is shown; None for all.
        """
        grammar = Grammar({**self._rules, name: body}, name)
        parts = self._parts if only is None else {only: self._parts[only]}
        return Lowered(grammar, self._converters, value, first_reason(self._whys), unfinished(parts))
