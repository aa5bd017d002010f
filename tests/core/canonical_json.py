"""Recognises JSON as a careful writer writes it, independently of the lowering of schemas.

`first_fault` says at which byte a text is spelt as no careful writer spells it, and why:

- a string escapes only what it must, by the short escape if there is one; beyond ASCII it may escape anything;
- the name of a property and a listed text have one spelling, the raw one;
- an integer has no fraction and no exponent; `-0` is not written; a listed number is spelt by its value;
- no number has more digits than a double or a 64-bit integer needs, and none reads as infinity;
- nothing stands before `:` and `,`; after `:` nothing or one space; after `,` and around what brackets hold nothing,
  one space, or a line break and at most 4 × (depth + 1) spaces, 64 where the depth is not known; nothing around the
  root.

Which names and values are listed depends on the schema: `places_of` finds the places for which keywords say so that
hold unconditionally (`properties`, `items`, `allOf`, references), so that what it does not find is merely not checked.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

__all__ = ["Fault", "Place", "digits_of", "first_fault", "places_of"]

Path = tuple[str | int, ...]

#: Digits before the point, and after it.
DIGITS = 20
#: Spaces after a line break where the depth is not known.
SPACES = 64

_NUMBER = re.compile(r"-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?")
_SHORT = {'"': '"', "\\": "\\", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t"}
_LITERALS = {"true": True, "false": False, "null": None}


@dataclass(frozen=True)
class Fault:
    """A departure from careful writing: its byte in the text, and the reason."""

    byte: int
    why: str


@dataclass(frozen=True)
class Place:
    """The constraints of a schema on the value at one path.

    Attributes:
        names: the properties of an object that the schema names.
        is_integer: only integers are allowed.
        is_listed: only values of `enum` or `const` are.
        has_depth: the depth is known, because no reference leads here.
    """

    names: frozenset[str] = frozenset()
    is_integer: bool = False
    is_listed: bool = False
    has_depth: bool = False


NOWHERE = Place()


def first_fault(text: str, places: Mapping[Path, Place] | None = None, digits: int = DIGITS) -> Fault | None:
    """The first fault of a JSON text, or None; `digits` is how many a part of a number may have."""
    reader = _Reader(text, places or {}, digits)
    try:
        reader.value((), 0)
        if reader.at < len(text):
            reader.fail("something follows the root value")
    except _Found as found:
        return Fault(len(text[: found.at].encode()), found.why)
    return None


class _Found(Exception):
    def __init__(self, at: int, why: str) -> None:
        super().__init__(at, why)
        self.at = at
        self.why = why


class _Reader:
    def __init__(self, text: str, places: Mapping[Path, Place], digits: int) -> None:
        self.text = text
        self.places = places
        self.digits = digits
        self.at = 0

    def fail(self, why: str, at: int | None = None) -> None:
        raise _Found(self.at if at is None else at, why)

    def peek(self) -> str:
        return self.text[self.at : self.at + 1]

    def value(self, path: Path, depth: int) -> None:
        place = self.places.get(path, NOWHERE)
        first = self.peek()
        if first == "{":
            self.object(path, depth + 1, place)
        elif first == "[":
            self.array(path, depth + 1, place)
        elif first == '"':
            self.string(is_listed=place.is_listed)
        elif first and first in "-0123456789":
            self.number(place)
        else:
            word = re.match(r"[a-z]*", self.text[self.at :])
            if word is None or word[0] not in _LITERALS:
                self.fail("expected a value")
            else:
                self.at += len(word[0])

    def object(self, path: Path, depth: int, place: Place) -> None:
        self.at += 1
        self.gap(depth, place)
        if self.peek() != "}":
            while True:
                if self.peek() != '"':
                    self.fail("expected a name")
                begun = self.at
                name = self.string(is_listed=False)
                if name in place.names and self.text[begun : self.at] != raw(name):
                    self.fail(f"the name {name!r} is not spelt raw", begun)
                if self.peek() != ":":
                    self.fail("expected `:` at once after a name")
                self.at += 1
                if self.peek() == " ":
                    self.at += 1
                self.value((*path, name), depth)
                if not self.has_more(depth, place, "}"):
                    break
        self.at += 1

    def array(self, path: Path, depth: int, place: Place) -> None:
        self.at += 1
        self.gap(depth, place)
        if self.peek() != "]":
            index = 0
            while True:
                self.value((*path, index), depth)
                index += 1
                if not self.has_more(depth, place, "]"):
                    break
        self.at += 1

    def has_more(self, depth: int, place: Place, closing: str) -> bool:
        """Read a comma with the gap after it, or the closing character; tell whether it was a comma."""
        if self.peek() == ",":
            self.at += 1
            self.gap(depth, place)
            if self.peek() == closing:
                self.fail("nothing follows the comma")
            return True
        self.gap(depth, place)
        if self.peek() != closing:
            self.fail("a blank before the comma" if self.peek() == "," else f"expected `,` or `{closing}`")
        return False

    def gap(self, depth: int, place: Place) -> None:
        begun = self.at
        blanks = re.match(r"[ \t\r\n]*", self.text[self.at :])
        found = blanks[0] if blanks else ""
        self.at += len(found)
        if found in ("", " "):
            return
        if found[0] != "\n" or found[1:].strip(" "):
            self.fail(f"the blanks {found[:20]!r}", begun)
        most = 4 * (depth + 1) if place.has_depth else max(SPACES, 4 * (depth + 1))
        if len(found) - 1 > most:
            self.fail(f"{len(found) - 1} spaces after a line break at depth {depth}", begun)

    def string(self, *, is_listed: bool) -> str:
        begun = self.at
        self.at += 1
        units: list[str] = []
        while (char := self.peek()) != '"':
            if char == "":
                self.fail("the string does not end")
            if char == "\\":
                units.append(self.escape())
                continue
            if char < " ":
                self.fail("a control character that is not escaped")
            units.append(char)
            self.at += 1
        self.at += 1
        read = "".join(units).encode("utf-16", "surrogatepass").decode("utf-16", "replace")
        if is_listed and self.text[begun : self.at] != raw(read):
            self.fail(f"the listed text {read!r} is not spelt raw", begun)
        return read

    def escape(self) -> str:
        begun = self.at
        kind = self.text[begun + 1 : begun + 2]
        if kind in _SHORT:
            self.at += 2
            return _SHORT[kind]
        code = re.match(r"u([0-9a-fA-F]{4})", self.text[begun + 1 :])
        if code is None:
            self.fail(f"the escape \\{kind} is needless")
            raise AssertionError
        self.at += 6
        char = chr(int(code[1], 16))
        if char in _SHORT.values():
            self.fail(f"{code[0]!r} has a short escape", begun)
        if " " <= char <= "\x7f":
            self.fail(f"{char!r} needs no escape", begun)
        if "\ud800" <= char <= "\udbff":
            low = re.match(r"\\u(d[c-f][0-9a-f]{2})", self.text[self.at :], re.IGNORECASE)
            if low is None:
                self.fail("half of a pair of escapes", begun)
                raise AssertionError
            self.at += 6
            return char + chr(int(low[1], 16))
        if "\udc00" <= char <= "\udfff":
            self.fail("half of a pair of escapes", begun)
        return char

    def number(self, place: Place) -> None:
        found = _NUMBER.match(self.text, self.at)
        if found is None:
            self.fail("not a number")
            raise AssertionError
        whole, fraction, exponent = found[1], found[2] or "", found[3] or ""
        if len(whole) > self.digits or len(fraction) - 1 > self.digits:
            self.fail(f"a number of {len(whole)} digits before the point and {max(0, len(fraction) - 1)} after it")
        if exponent and (len(whole) > 1 or len(exponent.lstrip("eE+-")) > 3):
            self.fail(f"the exponent form {found[0][:30]}")
        if found[0] == "-0":
            self.fail("-0")
        if not math.isfinite(float(found[0])):
            self.fail("a number that reads as infinity")
        is_whole = place.is_integer or (place.is_listed and float(found[0]).is_integer())
        if is_whole and (fraction or exponent):
            self.fail(f"the integer {found[0][:30]} has a fraction or an exponent")
        self.at = found.end()


def raw(text: str) -> str:
    """The one spelling of a name or a listed text: only what must be is escaped."""
    spelt = json.dumps(text, ensure_ascii=False)
    return re.sub(r"\\u00([0-9a-f]{2})", lambda code: "\\u00" + code[1].lower(), spelt)


def digits_of(schema: Any) -> int:
    """Return the most digits of a part of a number: those of the longest number in the schema, at least `DIGITS`."""
    return max([DIGITS, *(len(run) for run in re.findall(r"[0-9]+", json.dumps(schema)) if len(run) <= 400)])


# --- what a schema says about the places of a document ---------------------------------------------------------------


def places_of(schema: Any, document: Any) -> dict[Path, Place]:
    """Map each path of a document that unconditional keywords reach to its constraints."""
    found: dict[Path, Place] = {}
    for path, one in _places(schema, schema, document, (), True, 0):
        known = found.get(path)
        found[path] = one if known is None else _both(known, one)
    return found


def _both(one: Place, other: Place) -> Place:
    return Place(
        one.names | other.names,
        one.is_integer or other.is_integer,
        one.is_listed or other.is_listed,
        one.has_depth and other.has_depth,
    )


def _places(
    root: Any, schema: Any, value: Any, path: Path, has_depth: bool, references: int
) -> Iterator[tuple[Path, Place]]:
    if not isinstance(schema, dict) or references > 20:
        return
    properties = schema.get("properties") if isinstance(schema.get("properties"), dict) else {}
    is_closed = schema.get("type") in ("object", "array")
    yield (
        path,
        Place(
            frozenset(properties),
            schema.get("type") == "integer",
            "enum" in schema or "const" in schema,
            has_depth and is_closed,
        ),
    )
    reference = schema.get("$ref")
    if isinstance(reference, str):
        yield from _places(root, _resolve(root, reference), value, path, False, references + 1)
        if len(schema) > 1 and not str(root.get("$schema", "")).rstrip("#").endswith(
            ("2019-09/schema", "2020-12/schema")
        ):
            return  # in earlier drafts nothing else counts beside a reference
    for part in schema["allOf"] if isinstance(schema.get("allOf"), list) else ():
        yield from _places(root, part, value, path, False, references + 1)
    if isinstance(value, dict):
        for name, member in value.items():
            if name in properties:
                yield from _places(root, properties[name], member, (*path, name), has_depth, references)
            elif "patternProperties" not in schema:
                other = schema.get("additionalProperties")
                yield from _places(root, other, member, (*path, name), has_depth, references)
    if isinstance(value, list) and "prefixItems" not in schema:
        for index, item in enumerate(value):
            yield from _places(root, schema.get("items"), item, (*path, index), has_depth, references)


def _resolve(root: Any, reference: str) -> Any:
    """The schema that a reference within the document names; None for any other."""
    if not reference.startswith("#") or (len(reference) > 1 and reference[1] != "/"):
        return None
    found = root
    for part in reference[2:].split("/") if len(reference) > 1 else ():
        key = part.replace("~1", "/").replace("~0", "~")
        if not isinstance(found, dict) or key not in found:
            return None
        found = found[key]
    return found
