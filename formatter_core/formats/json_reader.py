"""Read JSON text while it is written: its value so far, and the changes by each piece of text.

The text is valid, because a mask allowed it or a parser has checked it. So a small state machine suffices, and the cost
of a piece is proportional to its length. Complete containers never change again; snapshots share them.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from codecs import getincrementaldecoder
from typing import Any, Literal

from formatter_core.errors.pointers import pointer_to
from formatter_core.formats.json_values import read_value
from formatter_core.formats.protocol import NOTHING
from formatter_core.grammar.values import value

__all__ = ["JsonDelta", "JsonFrame", "JsonReader"]

_decoder = getincrementaldecoder("utf-8")
_PLAIN = re.compile(r'[^"\\]*')
_SCALAR = re.compile(r"[-+.0-9A-Za-z]*")
#: The longest part of an unfinished number that is itself a number.
_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][-+]?[0-9]+)?")
_LITERALS = {"true": True, "false": False, "null": None}
_ESCAPES = {'"': '"', "\\": "\\", "/": "/", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t"}


@value()
class JsonDelta:
    """A change of a JSON value that is being written.

    The changes `"add"` and `"append"` are enough to build the value: `"add"` is JSON Patch's (RFC 6902), `"append"`
    adds text to a string.

    Attributes:
        op: `"add"` puts a value at a path: a number, true, false or null when it is complete, an empty string, array or
            object when it begins; at the path `""` it replaces everything. `"append"` adds text to a string.
            `"complete"` changes nothing, but says that the value at the path is complete.
        path: a JSON Pointer (RFC 6901).
        value: the value or text to add; for `"complete"`, the whole value. Do not change it.
    """

    op: Literal["add", "append", "complete"]
    path: str
    value: Any

    def to_json(self) -> dict[str, Any]:
        """Return the change as JSON data, `{"op": …, "path": …, "value": …}`."""
        return {"op": self.op, "path": self.path, "value": self.value}


class JsonFrame:
    """An open object or array.

    Attributes:
        value: its complete members or items.
        key: in an object, the key whose value comes next or is open; None before a key.
        path: the JSON Pointer to it, if changes are recorded.
        fresh: the members or items completed since the list was last emptied, each with the start and end of its text,
            if text is kept.
        view: free for code that shows the value in another form.
    """

    __slots__ = ("fresh", "key", "path", "start", "value", "view")

    def __init__(self, value: dict[str, Any] | list[Any], path: str, start: int) -> None:
        self.value = value
        self.key: str | None = None
        self.path = path
        self.start = start
        self.fresh: list[tuple[str | int, int, int]] = []
        self.view: Any = None

    @property
    def place(self) -> str | int | None:
        """Return the key or index of the value that comes next or is open; None if it is not known."""
        return len(self.value) if isinstance(self.value, list) else self.key


class JsonReader:
    """A reader of JSON text, piece by piece.

    Args:
        records: whether to record changes, for `take_deltas`.
        keeps_text: whether to keep the text, for `text`.

    Attributes:
        frames: the open objects and arrays, from the outermost inwards.
        whole: the value, once it is complete, with the start and end of its text.
    """

    def __init__(self, *, records: bool = False, keeps_text: bool = False) -> None:
        self.frames: list[JsonFrame] = []
        self.whole: tuple[Any, int, int] | None = None
        self._records = records
        self._deltas: list[JsonDelta] = []
        self._decoder = _decoder("strict")
        self._keeps_text = keeps_text
        self._chunks: list[str] = []
        self._chunk_starts: list[int] = []
        self._read_to = 0  # characters before the current piece
        self._scalar = ""  # the text so far of a number or a name
        self._scalar_start = 0
        self._in_string = self._is_key = False
        self._string_start = 0
        self._pieces: list[str] = []  # of the open string
        self._so_far = ""  # the first `_joined` of them as one text
        self._joined = 0
        self._told = 0  # how many of them have been recorded
        self._path = ""  # path of the open string
        self._escape = ""  # an incomplete escape
        self._high = ""  # the first half of a surrogate pair
        self._snapshots: dict[bool, Any] = {}

    def append(self, data: bytes) -> None:
        """Read more of the text, which may end anywhere, even inside a character."""
        text = self._decoder.decode(data)
        if not text:
            return
        if self._snapshots:
            self._snapshots = {}
        if self._keeps_text:
            self._chunks.append(text)
            self._chunk_starts.append(self._read_to)
        at, size = 0, len(text)
        while at < size:
            if self._in_string:
                at = self._read_string(text, at)
            elif self._scalar:
                at = self._read_scalar(text, at)
            else:
                at = self._read_structure(text, at)
        self._read_to += size
        if self._records:
            self._record_text()

    def finish(self) -> None:
        """End the text, which also completes a number at its end."""
        if self._scalar:
            self._snapshots = {}
            self._complete(_scalar(self._scalar), self._scalar_start, self._read_to)
            self._scalar = ""

    def take_deltas(self) -> list[JsonDelta]:
        """Return the changes since the last call."""
        taken, self._deltas = self._deltas, []
        return taken

    def snapshot(self, open_numbers: bool = False) -> Any:
        """Return the value so far, which must not be changed; `NOTHING` before it begins.

        Args:
            open_numbers: whether to include a number that may have more digits, as far as it is written.
        """
        if open_numbers not in self._snapshots:
            self._snapshots[open_numbers] = self._shown(open_numbers)
        return self._snapshots[open_numbers]

    def open_text(self) -> str | None:
        """Return the open string as far as it is written; None if none is open, or if it is a key."""
        if not self._in_string or self._is_key:
            return None
        if self._joined < len(self._pieces):
            self._so_far += "".join(self._pieces[self._joined :])
            self._joined = len(self._pieces)
        return self._so_far

    def open_number(self) -> Any:
        """Return the value of the open number as far as it is written; `NOTHING` if there is none."""
        found = _NUMBER.match(self._scalar)
        return NOTHING if found is None else _scalar(found[0])

    def text(self, start: int, end: int) -> str:
        """Return the text between two positions, both in characters."""
        first = bisect_right(self._chunk_starts, start) - 1
        last = bisect_right(self._chunk_starts, end - 1)
        before = self._chunk_starts[first]
        return "".join(self._chunks[first:last])[start - before : end - before]

    def _shown(self, open_numbers: bool) -> Any:
        if self.whole is not None:
            return self.whole[0]
        text = self.open_text()
        inside = (self.open_number() if open_numbers else NOTHING) if text is None else text
        for frame in reversed(self.frames):
            made = frame.value.copy()
            if inside is NOTHING:
                pass
            elif isinstance(made, list):
                made.append(inside)
            elif frame.key is not None:
                made[frame.key] = inside
            inside = made
        return inside

    # --- the state machine ----------------------------------------------------------------------------------------

    def _read_structure(self, text: str, at: int) -> int:
        character = text[at]
        if character == '"':
            self._begin_string(self._read_to + at)
        elif character in "{[":
            made: Any = {} if character == "{" else []
            path = self._add(type(made)()) if self._records else ""
            self.frames.append(JsonFrame(made, path, self._read_to + at))
        elif character in "}]":
            frame = self.frames.pop()
            self._complete(frame.value, frame.start, self._read_to + at + 1)
        elif character == ",":
            self.frames[-1].key = None
        elif character not in ": \t\n\r":
            self._scalar_start = self._read_to + at
            return self._read_scalar(text, at)
        return at + 1

    def _read_scalar(self, text: str, at: int) -> int:
        found = _SCALAR.match(text, at)
        end = at if found is None else found.end()
        self._scalar += text[at:end]
        if end < len(text) or self._scalar in _LITERALS:
            made, self._scalar = self._scalar, ""
            self._complete(_scalar(made), self._scalar_start, self._read_to + end)
        return end

    def _begin_string(self, start: int) -> None:
        self._in_string = True
        self._string_start = start
        self._is_key = bool(self.frames) and isinstance(self.frames[-1].value, dict) and self.frames[-1].key is None
        if self._records and not self._is_key:
            self._path = self._add("")

    def _read_string(self, text: str, at: int) -> int:
        if self._escape:
            return self._read_escape(text, at)
        found = _PLAIN.match(text, at)
        end = at if found is None else found.end()
        if end > at:
            self._add_piece(text[at:end])
        if end == len(text):
            return end
        if text[end] == "\\":
            self._escape = "\\"
        else:
            self._end_string(self._read_to + end + 1)
        return end + 1

    def _read_escape(self, text: str, at: int) -> int:
        escape = self._escape = self._escape + text[at]
        if escape[1] != "u":
            self._escape = ""
            self._add_piece(_ESCAPES[escape[1]])
        elif len(escape) == 6:
            self._escape = ""
            code = int(escape[2:], 16)
            if 0xD800 <= code < 0xDC00:
                self._flush_high()
                self._high = chr(code)
            elif self._high and 0xDC00 <= code < 0xE000:
                pair, self._high = (ord(self._high) - 0xD800) * 0x400 + code - 0xDC00 + 0x10000, ""
                self._add_piece(chr(pair))
            else:
                self._add_piece(chr(code))
        return at + 1

    def _add_piece(self, piece: str) -> None:
        if self._high:
            self._flush_high()
        self._pieces.append(piece)

    def _flush_high(self) -> None:
        """Append half of a surrogate pair that stays alone, as `json.loads` does."""
        if self._high:
            self._pieces.append(self._high)
            self._high = ""

    def _end_string(self, end: int) -> None:
        self._flush_high()
        if self._records:
            self._record_text()
        text = self._pieces[0] if len(self._pieces) == 1 else "".join(self._pieces)
        self._in_string = False
        self._pieces, self._so_far, self._joined, self._told = [], "", 0, 0
        if self._is_key:
            self.frames[-1].key = text
        else:
            self._complete(text, self._string_start, end)

    # --- values ---------------------------------------------------------------------------------------------------

    def _complete(self, made: Any, start: int, end: int) -> None:
        """Take a complete value."""
        if self._records:
            is_scalar = not isinstance(made, (str, dict, list))
            path = self._add(made) if is_scalar else self._next_path()
            self._deltas.append(JsonDelta("complete", path, made))
        if not self.frames:
            self.whole = made, start, end
            return
        frame = self.frames[-1]
        place: str | int
        if isinstance(frame.value, list):
            place = len(frame.value)
            frame.value.append(made)
        else:
            place = frame.key or ""
            frame.value[place] = made
        if self._keeps_text:
            frame.fresh.append((place, start, end))

    def _next_path(self) -> str:
        if not self.frames:
            return ""
        frame = self.frames[-1]
        place = frame.place
        return pointer_to(frame.path, "" if place is None else place)

    def _add(self, made: Any) -> str:
        path = self._next_path()
        self._deltas.append(JsonDelta("add", path, made))
        return path

    def _record_text(self) -> None:
        """Record the new text of the open string."""
        if self._in_string and not self._is_key and self._told < len(self._pieces):
            self._deltas.append(JsonDelta("append", self._path, "".join(self._pieces[self._told :])))
            self._told = len(self._pieces)


def _scalar(text: str) -> Any:
    return _LITERALS[text] if text in _LITERALS else read_value(text.encode())
