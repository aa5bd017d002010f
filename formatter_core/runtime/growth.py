"""Compute the value of an unfinished text: snapshots of it, and the changes between them."""

from __future__ import annotations

from codecs import getincrementaldecoder
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from formatter_core.errors import InvalidValue
from formatter_core.errors.pointers import pointer_to
from formatter_core.formats.json_reader import JsonDelta, JsonReader
from formatter_core.formats.protocol import NOTHING, VALUE, Lowered
from formatter_core.formats.unfinished import (
    ChosenPart,
    JsonSoFar,
    JsonView,
    ListedParts,
    NamedParts,
    TextSoFar,
    WhenComplete,
    kind_of,
)
from formatter_core.parsing.captures import Captures, Mark, Match
from formatter_core.parsing.parts import Part, bytes_of
from formatter_core.runtime.result import converted

__all__ = ["Growth"]

_decoder = getincrementaldecoder("utf-8")


class Growth:
    """A reader of the value of one text while it is written.

    Args:
        lowered: the format.
        records: whether `take_deltas` will be called.

    Attributes:
        length: the number of parts of the text that were read.
        records: the same as the argument.
        needs_marks: whether the captures are needed; otherwise the text suffices.
    """

    def __init__(self, lowered: Lowered, *, records: bool) -> None:
        self.length = 0
        self.records = records
        self._lowered = lowered
        kind = kind_of(lowered)
        self.needs_marks = not isinstance(kind, (JsonSoFar, WhenComplete)) and kind != TextSoFar()
        self._text = bytearray()
        self._marks: list[Mark] = []
        self._root = _Node("", 0)
        self._open = [self._root]

    def append(self, parts: Sequence[Part]) -> None:
        """Append what was accepted, in whole steps."""
        self.length += len(parts)
        self._text += bytes_of(parts)
        if not self.needs_marks:
            self._root.to = len(self._text)

    def follow(self, marks: Sequence[Mark], to: int) -> None:
        """Take the captures that all parses agree on; there are no other ones up to the byte `to`."""
        known = len(self._marks)
        if known > len(marks) or (known and marks[known - 1] != self._marks[-1]):
            self._begin_again()
        for mark in marks[len(self._marks) :]:
            self._add(mark)
        for node in self._open:
            node.to = to

    def settle(self, whole: Captures | None) -> None:
        """Take the captures of the complete text; None if its format has no captures that matter here."""
        if whole is None:
            self._root.close(len(self._text), self._text)
            return
        marks = whole.marks()
        if marks[: len(self._marks)] != self._marks:
            self._begin_again()
        self.follow(marks, len(self._text))
        self._root.close(len(self._text), self._text)

    def snapshot(self, *, plain: bool, open_numbers: bool) -> Any:
        """Return the value so far, as `Formatter.snapshot` does."""
        found = _Reader(self._text, plain, open_numbers, self.records).shown(self._root, self._lowered)
        return None if found is NOTHING else found

    def take_deltas(self) -> list[JsonDelta]:
        """Return the changes since the last call."""
        found: list[JsonDelta] = []
        _Reader(self._text, True, False, True).changes(self._root, self._lowered, "", found)
        return found

    def _begin_again(self) -> None:
        self._marks = []
        self._root = _Node("", 0)
        self._open = [self._root]

    def _add(self, mark: Mark) -> None:
        self._marks.append(mark)
        if mark.opens:
            node = _Node(mark.name, mark.offset)
            self._open[-1].inside.append(node)
            self._open.append(node)
        else:
            self._open.pop().close(mark.offset, self._text)


class _Node:
    """A capture, with the part of its text that was read.

    Attributes:
        to: the end of its text so far.
        inside: the captures directly inside this one.
        match: the match, once the capture is complete.
        is_told: whether all of it was reported as changes.
        next: the index of the first inner capture that was not reported completely.
        counts: how many inner captures have begun to be reported, by name.
        path: the JSON Pointer to its value, once that has begun to be reported.
    """

    __slots__ = (
        "_decoder", "_read_to", "_so_far", "counts", "inside", "is_begun", "is_told", "match", "name", "next", "path",
        "reader", "start", "to", "told_text", "value", "view",
    )  # fmt: skip

    def __init__(self, name: str, start: int) -> None:
        self.name = name
        self.start = self.to = self._read_to = start
        self.inside: list[_Node] = []
        self.match: Match | None = None
        self.reader: JsonReader | None = None
        self.view: JsonView | None = None
        self.value: Any = NOTHING
        self._decoder = _decoder("replace")
        self._so_far = ""
        self.is_begun = self.is_told = False
        self.next = self.told_text = 0
        self.counts: dict[str, int] = {}
        self.path: str | None = None

    def close(self, end: int, text: bytearray) -> None:
        """End the text of the capture here."""
        self.to = end
        inside = tuple(node.match for node in self.inside if node.match is not None)
        self.match = Match(self.name, self.start, end, bytes(text[self.start : end]), inside)

    def new_bytes(self, text: bytearray) -> bytes:
        """Return what was added to its text since the last call."""
        added = bytes(text[self._read_to : self.to])
        self._read_to = self.to
        return added

    def so_far(self, text: bytearray) -> str:
        """Return its text, in whole characters."""
        if self._read_to < self.to:
            self._so_far += self._decoder.decode(self.new_bytes(text))
        if self.match is not None:
            self._so_far += self._decoder.decode(b"", True)
        return self._so_far


class _Reader:
    """A converter of nodes to values.

    Args:
        text: the whole text.
        plain: whether JSON values are given as JSON data, whatever their types.
        open_numbers: see `JsonReader.snapshot`.
        records: whether JSON readers record changes.
    """

    def __init__(self, text: bytearray, plain: bool, open_numbers: bool, records: bool) -> None:
        self._text = text
        self._plain = plain
        self._open_numbers = open_numbers
        self._records = records

    def shown(self, node: _Node, lowered: Lowered) -> Any:
        """Return the value so far; `NOTHING` if nothing is certain."""
        kind = kind_of(lowered)
        is_made_of_parts = isinstance(kind, (NamedParts, ListedParts, ChosenPart))
        if node.match is not None and not isinstance(kind, JsonSoFar) and not (self._plain and is_made_of_parts):
            if node.value is NOTHING:
                node.value = self._whole(node.match, lowered)
            if node.value is not NOTHING:
                return node.value
        if isinstance(kind, JsonSoFar):
            reader = self._json(node, kind)
            if self._plain or node.view is None:
                return reader.snapshot(self._open_numbers)
            return node.view.snapshot(self._open_numbers)
        if isinstance(kind, TextSoFar):
            return self._so_far(node, kind)
        if isinstance(kind, NamedParts):
            return self._named(node, kind)
        if isinstance(kind, ListedParts):
            return kind.make(value for _, value in self._parts(node, kind.parts))
        if isinstance(kind, ChosenPart):
            nothing = NOTHING if node.match is None else None  # an optional part that was omitted
            return next((value for _, value in self._parts(node, kind.parts)), nothing)
        return NOTHING

    def changes(self, node: _Node, lowered: Lowered, path: str, found: list[JsonDelta]) -> None:
        """Append the changes that were not reported for a node and its inner nodes."""
        if node.is_told:
            return
        kind, is_over = kind_of(lowered), node.match is not None
        node.is_told = is_over
        if isinstance(kind, JsonSoFar):
            deltas = self._json(node, kind).take_deltas()
            found += [JsonDelta(one.op, path + one.path, one.value) for one in deltas] if path else deltas
            return
        if isinstance(kind, ChosenPart):
            for child, part in self._untold(node, kind.parts):
                self.changes(child, part, path, found)
            if is_over and not any(child.name in kind.parts for child in node.inside):
                self._tell(path, self.shown(node, lowered), found)
            return
        if isinstance(kind, WhenComplete):
            if is_over:
                self._tell(path, self.shown(node, lowered), found)
            return
        if isinstance(kind, TextSoFar):
            self._begin(node, path, "", found)
            text = self._so_far(node, kind)
            if node.told_text < len(text):
                found.append(JsonDelta("append", path, text[node.told_text :]))
                node.told_text = len(text)
        else:
            self._begin(node, path, {} if isinstance(kind, NamedParts) else [], found)
            for child, part in self._untold(node, kind.parts):
                self.changes(child, part, self._path(node, child, kind, path, found), found)
        if is_over:
            shown = self.shown(node, lowered)
            if isinstance(kind, NamedParts):
                several = sorted(name for name in map(_named_by(kind), kind.several) if name in shown)
                found += [JsonDelta("complete", pointer_to(path, name), shown[name]) for name in several]
            found.append(JsonDelta("complete", path, shown))

    def _path(
        self, node: _Node, child: _Node, kind: NamedParts | ListedParts, path: str, found: list[JsonDelta]
    ) -> str:
        """Return the JSON Pointer to the value of a part; it is fixed when the part is first reported."""
        if child.path is None:
            is_list = isinstance(kind, ListedParts)
            name = "" if isinstance(kind, ListedParts) else _named_by(kind)(child.name)
            count = node.counts[name] = node.counts.get(name, 0) + 1
            if is_list:
                child.path = pointer_to(path, count - 1)
            else:
                child.path = pointer_to(path, name)
                if isinstance(kind, NamedParts) and child.name in kind.several:
                    if count == 1:
                        found.append(JsonDelta("add", child.path, []))
                    child.path = pointer_to(child.path, count - 1)
        return child.path

    def _begin(self, node: _Node, path: str, empty: Any, found: list[JsonDelta]) -> None:
        if not node.is_begun:
            node.is_begun = True
            found.append(JsonDelta("add", path, empty))

    def _tell(self, path: str, value: Any, found: list[JsonDelta]) -> None:
        found += [JsonDelta("add", path, value), JsonDelta("complete", path, value)]

    def _untold(self, node: _Node, parts: Mapping[str, Lowered]) -> Iterator[tuple[_Node, Lowered]]:
        """Yield the parts that were not reported completely."""
        while node.next < len(node.inside):
            child = node.inside[node.next]
            if child.name in parts:
                yield child, parts[child.name]
            if child.match is None:
                return
            node.next += 1

    def _parts(self, node: _Node, parts: Mapping[str, Lowered]) -> Iterator[tuple[str, Any]]:
        """Yield the values of the parts that have one, with their names."""
        for child in node.inside:
            if child.name in parts and (value := self.shown(child, parts[child.name])) is not NOTHING:
                yield child.name, value

    def _named(self, node: _Node, kind: NamedParts) -> Any:
        found: dict[str, Any] = {}
        name_of = _named_by(kind)
        for child in node.inside:
            if child.name not in kind.parts:
                continue
            name, value = name_of(child.name), self.shown(child, kind.parts[child.name])
            if child.name in kind.several:
                found[name] = (*found.get(name, ()), *(() if value is NOTHING else (value,)))
            elif value is not NOTHING:
                found[name] = value
        return found if self._plain or kind.make is None else kind.make(found)

    def _so_far(self, node: _Node, kind: TextSoFar) -> str:
        if kind.of_value:
            return next((child.so_far(self._text) for child in node.inside if child.name == VALUE), "")
        return node.so_far(self._text)

    def _json(self, node: _Node, kind: JsonSoFar) -> JsonReader:
        """Return the JSON reader of a node, after it has read all of the node's text."""
        reader = node.reader
        if reader is None:
            reader = node.reader = JsonReader(records=self._records, keeps_text=kind.view is not None)
            node.view = None if kind.view is None else kind.view(reader)
        if added := node.new_bytes(self._text):
            reader.append(added)
        if node.match is not None:
            reader.finish()
        return reader

    def _whole(self, match: Match, lowered: Lowered) -> Any:
        """Return the value of a complete part; `NOTHING` if its type refuses it, which reading the result reports."""
        try:
            return converted(lowered.value, match)
        except InvalidValue:
            return NOTHING


def _named_by(kind: NamedParts) -> Callable[[str], str]:
    """Return a function from a part's name to the name of its value."""
    return lambda part: kind.names.get(part, part)
