"""Define text with typed, named holes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable
from dataclasses import dataclass, replace
from typing import Any

from formatter_core.errors import FormatterError, InvalidFormat
from formatter_core.formats.one_of import Alternatives
from formatter_core.formats.protocol import VALUE, Converter, Format, Lowered, first_reason
from formatter_core.formats.unfinished import NamedParts, TextSoFar
from formatter_core.grammar import Capture, Grammar, Node, Reference, Sequence, is_internal, literal, map_children
from formatter_core.limits import Limits
from formatter_core.parsing.captures import Match

__all__ = ["Hole", "TextFormat", "text"]


@dataclass(frozen=True, eq=False)
class Hole:
    """A part of a text that the model fills in. The same hole may occur several times.

    A hole from a `FormatterBuilder` formats as a marker that only this builder understands, so that you can use it in
    an f-string.
    """

    format: Format
    name: str | None = None
    marker: str | None = None

    def __post_init__(self) -> None:
        if self.name is not None and (not isinstance(self.name, str) or not self.name or is_internal(self.name)):
            raise InvalidFormat(
                f"a hole cannot be named {self.name!r}; give a non-empty str that does not begin with '.'"
            )

    def __str__(self) -> str:
        if self.marker is None:
            raise InvalidFormat(
                "only a builder's own holes work in an f-string; pass this one to append() as an argument"
            )
        return self.marker

    def __format__(self, specification: str) -> str:
        if specification:
            raise InvalidFormat(f"a hole takes no format specification; remove {specification!r}")
        return str(self)


@dataclass(frozen=True)
class TextFormat(Alternatives):
    """A format of literal text and holes, one after the other.

    Its value maps each hole's name to the hole's value, or to a tuple of values if the hole occurs several times.
    """

    parts: tuple[str | Hole, ...]

    def to_grammar(self, limits: Limits) -> Lowered:
        rules: dict[str, Node] = {}
        converters: dict[str, Converter] = {}
        parts: dict[str, Lowered] = {}
        whys: list[Callable[[], FormatterError | None]] = []
        entries: dict[int, Node] = {}
        body: list[Node] = []
        for part in self.parts:
            if isinstance(part, str):
                body.append(literal(part))
                continue
            if id(part) not in entries:
                entries[id(part)] = self._lower_hole(part, len(entries), rules, converters, parts, whys, limits)
            body.append(entries[id(part)])
        rules["text"] = Sequence(tuple(body))
        uses = Counter(part.name for part in self.parts if isinstance(part, Hole) and part.name is not None)

        def value(match: Match) -> dict[str, Any]:
            values: dict[str, list[Any]] = {name: [] for name in uses}
            for child in match.children:
                if child.name in values:
                    values[child.name].append(converters[child.name](child))
            return {name: found[0] if uses[name] == 1 else tuple(found) for name, found in values.items()}

        several = frozenset(name for name, count in uses.items() if count > 1)
        unfinished = NamedParts({name: parts[name] for name in uses}, several)
        return Lowered(Grammar(rules, "text"), converters, value, first_reason(whys), unfinished)

    def to_json(self) -> dict[str, Any]:
        holes: dict[int, int] = {}
        parts: list[Any] = []
        for part in self.parts:
            if isinstance(part, str):
                parts.append(part)
            elif id(part) in holes:
                parts.append({"again": holes[id(part)]})
            else:
                holes[id(part)] = len(holes)
                parts.append({"name": part.name, "format": part.format.to_json()})
        return {"type": "text", "parts": parts}

    def key(self) -> Hashable:
        seen: dict[int, int] = {}
        parts: list[Hashable] = []
        for part in self.parts:
            if isinstance(part, str):
                parts.append(part)
            else:
                parts.append((seen.setdefault(id(part), len(seen)), part.name, part.format.key()))
        return ("text", tuple(parts))

    def _lower_hole(
        self,
        hole: Hole,
        index: int,
        rules: dict[str, Node],
        converters: dict[str, Converter],
        parts: dict[str, Lowered],
        whys: list[Callable[[], FormatterError | None]],
        limits: Limits,
    ) -> Node:
        lowered = hole.format.to_grammar(limits)
        whys.append(lowered.why_empty)
        new = {**lowered.converters, **({hole.name: lowered.value} if hole.name is not None else {})}
        if hole.name is not None:
            parts[hole.name] = lowered
        for name in new:
            if name in converters:
                raise InvalidFormat(
                    f"two different holes are named {name!r}; "
                    "rename one, or make the hole once and append it several times"
                )
        converters.update(new)
        grammar = lowered.grammar.renamed(f"{hole.name or f'hole {index}'}.")
        has_value = False

        def rename_value(node: Node) -> Node:
            nonlocal has_value
            if isinstance(node, Capture) and node.name == VALUE:
                has_value = True
                return node.item if hole.name is None else Capture(hole.name, node.item)
            return map_children(node, rename_value)

        # The capture that marks the value is in the format's own rule; nested formats have their own.
        rules.update(grammar.rules)
        rules[grammar.start] = rename_value(grammar.rules[grammar.start])
        if has_value and hole.name is not None and lowered.unfinished == TextSoFar(of_value=True):
            parts[hole.name] = replace(lowered, unfinished=TextSoFar())
        reference = Reference(grammar.start)
        return reference if hole.name is None or has_value else Capture(hole.name, reference)


def text(*parts: str | Hole | Format) -> TextFormat:
    """Return the format of literal text (`str`, without escapes) and holes; any other format is a
    hole without a name.
    """
    made: list[str | Hole] = []
    for part in parts:
        if isinstance(part, (str, Hole)):
            made.append(part)
        elif isinstance(part, Format) and not isinstance(part, type):
            made.append(Hole(part))
        else:
            raise InvalidFormat(f"{part!r} is neither a str nor a hole; pass a str, a Hole or a format")
    return TextFormat(tuple(made))
