"""Values of arguments as layouts write them that do not write JSON: Python's literals, and Gemma's delimited text."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, NoReturn

from formatter_core.errors import UnsupportedSchema
from formatter_core.formats.marker_free import marker_free_text
from formatter_core.formats.parameters import alternatives_of, properties_of, split
from formatter_core.grammar import (
    ANY_CHAR,
    ANY_TEXT,
    EMPTY,
    Bytes,
    Capture,
    Chars,
    Choice,
    Complement,
    Intersection,
    Member,
    Members,
    Node,
    Repeat,
    Sequence,
    Terminal,
    Way,
    literal,
    map_children,
)
from formatter_core.parsing.match import Match
from formatter_core.schema.plain_strings import plain_strings

__all__ = ["DelimitedValues", "as_python", "check_key", "in_any_order", "json_of_delimited", "json_of_python"]


_PYTHON = {b"true": b"True", b"false": b"False", b"null": b"None"}
_JSON = {python.decode(): json.decode() for json, python in _PYTHON.items()}
_STRING_OR_NAME = re.compile(r'"(?:[^"\\]|\\.)*"|\b(?:True|False|None)\b', re.DOTALL)
_KEY = re.compile(r"\w+")
_BARE_KEY = re.compile(r"(?<=[{,])(\w+):")
_MOST_LEVELS = 20
_ARRAY_KEYWORDS = {"type", "items", "minItems", "maxItems", "title", "description", "default", "examples"}


def as_python(terminal: Terminal) -> Terminal:
    """A terminal of JSON as Python's literals: `True` for `true`, and no escape that Python reads otherwise."""

    def spelt(node: Node) -> Node:
        return Bytes(_PYTHON.get(node.value, node.value)) if isinstance(node, Bytes) else map_children(node, spelt)

    return Terminal(Intersection((spelt(terminal.item), _PYTHON_ESCAPES)))


def _python_escapes() -> Node:
    """Texts without `\\/`, which Python keeps as two characters, and `\\ud800` to `\\udfff`, which it never joins."""
    backslash = literal("\\")
    unit = Sequence((literal("u"), _one_of("dD"), _one_of("89abAB")))
    plain = Chars.of([(0, 0x5B), (0x5D, 0xD7FF), (0xE000, 0x10FFFF)])
    before = Repeat(Choice((plain, Sequence((backslash, ANY_CHAR)))))
    return Complement(Sequence((before, backslash, Choice((literal("/"), unit)), ANY_TEXT)))


def _one_of(characters: str) -> Node:
    return Chars.of([(ord(character), ord(character)) for character in characters])


_PYTHON_ESCAPES = _python_escapes()


def json_of_python(text: str) -> str:
    """The JSON of a text of `as_python`."""
    return _STRING_OR_NAME.sub(lambda found: _JSON.get(found[0], found[0]), text)


def json_of_delimited(value: Match, quote: str) -> str:
    """The JSON of what `DelimitedValues` allows."""
    base, parts, at = value.start, [], value.start
    for child in value.children:
        parts += [_with_quoted_keys(_between(value, at - base, child.start - base), quote)]
        parts += [json.dumps(child.text, ensure_ascii=False)]
        at = child.end
    return "".join([*parts, _with_quoted_keys(_between(value, at - base, value.end - base), quote)])


def _between(value: Match, start: int, end: int) -> str:
    return value.data[start:end].decode("utf-8")


def _with_quoted_keys(text: str, quote: str) -> str:
    return _BARE_KEY.sub(r'"\1":', text.replace(quote, ""))


@dataclass(frozen=True)
class DelimitedValues:
    """Writes values whose text stands between two quotes that are markers, and whose keys stand alone.

    Attributes:
        schema: the schema of all arguments, which references lead to.
        markers: what never occurs in text.
        quote: the node of the marker around text.
        scalar: the node of a JSON Schema's values, its rules put among the others.
        define: makes a node a rule of its own; the reference to it.
    """

    schema: Mapping[str, Any]
    markers: tuple[str, ...]
    quote: Node
    scalar: Callable[[Any], Node]
    define: Callable[[Node], Node]

    def value(self, schema: Any, pointer: str, level: int = 0) -> Node:
        """The texts of the values of a schema.

        Raises:
            UnsupportedSchema: it allows values that are not described, or has a keyword that is enforced in JSON alone.
        """
        if level > _MOST_LEVELS:
            _refuse(pointer, "$ref", "its values nest without limit")
        written: list[Node] = []
        for alternative in alternatives_of(self.schema, schema, pointer):
            for kind, part in split(alternative):
                if kind == "text":
                    text = Terminal(marker_free_text(self.markers, plain_strings(part, pointer)))
                    written.append(Sequence((self.quote, Capture("text", text), self.quote)))
                else:
                    written += self._other(part, pointer, level)
        return Choice(tuple(written)) if len(written) != 1 else written[0]

    def _other(self, schema: Any, pointer: str, level: int) -> list[Node]:
        if not isinstance(schema, Mapping) or not {"type", "enum", "const"} & set(schema):
            _refuse(pointer, "type", "any value is allowed, but this layout needs its type")
        options = [schema["const"]] if "const" in schema else schema.get("enum")
        if options is not None:
            if any(isinstance(option, (list, dict)) for option in options):
                _refuse(pointer, "enum", "an array or object among the options is enforced only in JSON")
            return [self.scalar({"enum": options})]
        kinds = [schema["type"]] if isinstance(schema["type"], str) else schema["type"]
        written = [self._array(schema, pointer, level)] if "array" in kinds else []
        written += [self._object(schema, pointer, level)] if "object" in kinds else []
        scalars = [kind for kind in kinds if kind not in ("array", "object")]
        return [*written, *([self.scalar({**schema, "type": scalars})] if scalars else [])]

    def _array(self, schema: Mapping[str, Any], pointer: str, level: int) -> Node:
        for keyword in sorted(set(schema) - _ARRAY_KEYWORDS):
            _refuse(f"{pointer}/{keyword}", keyword, "it is enforced only in JSON")
        item = self.define(self.value(schema.get("items", True), f"{pointer}/items", level + 1))
        minimum, maximum = int(schema.get("minItems", 0)), schema.get("maxItems")
        most = None if maximum is None else int(maximum)
        items: list[Node] = [] if minimum else [literal("[]")]
        if most is None or most > 0:
            more = Repeat(Sequence((literal(","), item)), max(0, minimum - 1), None if most is None else most - 1)
            items.append(Sequence((literal("["), item, more, literal("]"))))
        return Choice(tuple(items))

    def _object(self, schema: Mapping[str, Any], pointer: str, level: int) -> Node:
        properties = properties_of(schema, pointer)
        if not properties:
            _refuse(pointer, "properties", "only named keys can be written by this layout")
        members: list[tuple[Node, bool]] = []
        for key, each, required in properties:
            check_key(key, pointer)
            value = self.value(each, f"{pointer}/properties/{key}", level + 1)
            members.append((Sequence((literal(f"{key}:"), value)), required))
        return Sequence((literal("{"), in_any_order(members, ","), literal("}")))


def check_key(key: str, pointer: str) -> None:
    """Whether a key can stand without quotes.

    Raises:
        UnsupportedSchema: it cannot.
    """
    if not _KEY.fullmatch(key):
        reason = f"the key {key!r} stands without quotes in this layout; use only letters, digits and _"
        _refuse(f"{pointer}/properties", "properties", reason)


def in_any_order(members: Iterable[tuple[Node, bool]], separator: str) -> Node:
    """The required members and any of the others, in any order, with a separator between two."""
    made = tuple(Member((Way(node),), required) for node, required in members)
    if not made:
        return EMPTY
    some = Members(made, Terminal(literal(separator)))
    return some if any(member.required for member in made) else Choice((some, EMPTY))


def _refuse(pointer: str, keyword: str, reason: str) -> NoReturn:
    raise UnsupportedSchema(pointer=pointer, keyword=keyword, reason=reason)
