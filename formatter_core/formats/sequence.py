"""Formats one after the other."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Any

from formatter_core.errors import FormatterError, InvalidFormat
from formatter_core.formats.coercion import as_format
from formatter_core.formats.protocol import Converter, Format, Lowered, first_reason
from formatter_core.grammar import Capture, Grammar, Node, Reference, Sequence
from formatter_core.limits import Limits
from formatter_core.parsing.match import Match

__all__ = ["SequenceFormat", "sequence"]


@dataclass(frozen=True)
class SequenceFormat:
    """The parts one after the other; the value is the tuple of the parts' values."""

    parts: tuple[Format, ...]

    def to_grammar(self, limits: Limits) -> Lowered:
        rules: dict[str, Node] = {}
        converters: dict[str, Converter] = {}
        values: dict[str, Converter] = {}
        body: list[Node] = []
        whys: list[Callable[[], FormatterError | None]] = []
        for index, part in enumerate(self.parts):
            lowered = part.to_grammar(limits)
            whys.append(lowered.why_empty)
            for name, converter in lowered.converters.items():
                if name in converters:
                    raise InvalidFormat(f"two parts of a sequence capture {name!r}; give each its own name")
                converters[name] = converter
            grammar = lowered.grammar.renamed(f"part {index + 1}.")
            rules.update(grammar.rules)
            values[f".{index}"] = lowered.value
            body.append(Capture(f".{index}", Reference(grammar.start)))
        rules["sequence"] = Sequence(tuple(body))

        def value(match: Match) -> tuple[Any, ...]:
            # Only direct children: a sequence inside a part uses the same internal names one level down.
            return tuple(values[child.name](child) for child in match.children if child.name in values)

        return Lowered(Grammar(rules, "sequence"), converters, value, first_reason(whys))

    def to_json(self) -> dict[str, Any]:
        return {"type": "sequence", "parts": [part.to_json() for part in self.parts]}

    def key(self) -> Hashable:
        return ("sequence", tuple(part.key() for part in self.parts))


def sequence(*parts: Any) -> SequenceFormat:
    """The parts one after the other, with nothing between them: formats, builders, schemas, types.

    Raises:
        InvalidFormat: a part is none of these, or is plain text, which `formats.text` makes a format of.
    """
    for part in parts:
        if isinstance(part, str):
            raise InvalidFormat(f"{part!r} is plain text, not a format; put formats.text({part!r}) there")
    return SequenceFormat(tuple(as_format(part) for part in parts))
