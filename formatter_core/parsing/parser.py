"""The plain Python parser: recognising, and the captures of the preferred parse.

The preferred parse is defined in `formatter_core.grammar`; where left recursion makes the leftmost derivations of a
text endless, the finite ones in which no rule derives itself over the same text are meant.
"""

from __future__ import annotations

from collections.abc import Sequence as Items
from itertools import accumulate

from formatter_core.grammar import Capture, Choice, Grammar, Node, Reference, Repeat, Sequence
from formatter_core.limits import DEFAULT_LIMITS, Limits
from formatter_core.parsing.captures import Captures
from formatter_core.parsing.match import Match
from formatter_core.parsing.parts import Part, bytes_of
from formatter_core.parsing.preference import NOWHERE, Inside, Preference, resolve
from formatter_core.parsing.recognizer import Recognizer
from formatter_core.parsing.shape import Shape, shape_of
from formatter_core.parsing.shortest import min_bytes
from formatter_core.parsing.spans import Spans

__all__ = ["Recognizer", "captures_of", "min_bytes", "parse"]


def parse(grammar: Grammar, data: bytes | Items[Part], limits: Limits = DEFAULT_LIMITS) -> Match | None:
    """Parse a whole text: a match named "" whose children are the captures of the preferred parse.

    Args:
        grammar: the language.
        data: the text; or its parts in order, each bytes or the id of a `Token`, which adds nothing to the text.
        limits: `work` bounds each step of reading, and all the choosing between parses.

    Returns:
        The match, or None if the text is not in the language.

    Raises:
        InvalidGrammar: the grammar derives no text at all.
        LimitExceeded: the grammar or the work is past a limit.
    """
    captures = captures_of(grammar, data, limits)
    return None if captures is None else captures.match


def captures_of(grammar: Grammar, data: bytes | Items[Part], limits: Limits = DEFAULT_LIMITS) -> Captures | None:
    """The captures of the preferred parse, as columns; otherwise like `parse`."""
    parts: Items[Part] = [data] if isinstance(data, bytes) else data
    grammar = grammar.lowered
    recognizer = Recognizer(grammar, limits)
    steps: list[int] = []
    for part in parts:
        if isinstance(part, int):
            if not recognizer.push_token(part):
                return None
            steps.append(-1 - part)
            continue
        for byte in part:
            if not recognizer.push(byte):
                return None
        steps.extend(part)
    if not recognizer.can_stop():
        return None
    text = bytes_of(parts)
    offsets = list(accumulate((1 if step >= 0 else 0 for step in steps), initial=0))
    shape = shape_of(grammar, recognizer.tables)
    body = shape.body(grammar.start)
    if not shape.captures(body):
        return Captures(text)
    extraction = _Extraction(Preference(Spans(shape, recognizer, steps, limits), steps, limits), shape)
    extraction.walk(grammar.start, len(steps))
    return extraction.captures(text, offsets)


class _Extraction:
    """Walks down the preferred parse, as far as there are captures in it."""

    def __init__(self, preference: Preference, shape: Shape) -> None:
        self._preference = preference
        self._shape = shape
        # Captures by number, parents before their children, the whole text first: name, start and end in
        # steps, the parent's number.
        self._places: list[tuple[str, int, int, int]] = [("", 0, 0, 0)]
        self._stack: list[tuple[Node, int, int, Inside, int]] = []

    def walk(self, start_rule: str, length: int) -> None:
        """Find every capture of the parse."""
        body = self._shape.body(start_rule)
        self._push(body, 0, length, self._preference.entered(start_rule, NOWHERE), 0)
        while self._stack:
            node, start, end, inside, parent = self._stack.pop()
            if isinstance(node, Capture):
                self._places.append((node.name, start, end, parent))
                self._push(node.item, start, end, inside, len(self._places) - 1)
            elif isinstance(node, Reference):
                body = self._shape.body(node.name)
                self._push(body, start, end, self._preference.entered(node.name, inside), parent)
            elif isinstance(node, Choice):
                chosen: int = resolve(self._preference.choice(node, start, end, inside))
                self._push(node.items[chosen], start, end, inside, parent)
            elif isinstance(node, (Sequence, Repeat)):
                path: list[int] = resolve(self._preference.path(node, start, end, inside))
                items = node.items if isinstance(node, Sequence) else (node.item,) * (len(path) - 1)
                # The stack gives back the last one first, and captures are reported from the left.
                for index in range(len(items) - 1, -1, -1):
                    low, high = path[index], path[index + 1]
                    whole = (low, high) == (start, end)
                    self._push(items[index], low, high, inside if whole else NOWHERE, parent)

    def captures(self, text: bytes, offsets: list[int]) -> Captures:
        """The captures; `offsets` maps steps to bytes."""
        following = list(range(len(self._places)))
        for number in range(len(self._places) - 1, 0, -1):
            parent = self._places[number][3]
            following[parent] = max(following[parent], following[number])
        found = self._places[1:]
        starts, ends = [offsets[start] for _, start, _, _ in found], [offsets[end] for _, _, end, _ in found]
        return Captures(text, [name for name, *_ in found], starts, ends, following[1:])

    def _push(self, node: Node, start: int, end: int, inside: Inside, parent: int) -> None:
        if self._shape.captures(node):
            self._stack.append((node, start, end, inside, parent))
