"""Write argument values for layouts that do not write JSON: Python's literals, Gemma's delimited text, XML."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Set
from dataclasses import dataclass
from typing import Any, NoReturn

from formatter_core.errors import UnsupportedSchema
from formatter_core.errors.pointers import unescaped
from formatter_core.formats.parameters import apart, arguments_of, with_definitions
from formatter_core.formats.plain_strings import plain_strings
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
from formatter_core.grammar.markers import marker_free_text
from formatter_core.limits import Limits
from formatter_core.parsing.captures import Match
from formatter_core.schema.keywords import keywords

__all__ = [
    "DelimitedValues", "ElementValues", "as_python", "check_key", "in_any_order", "json_of_delimited",
    "json_of_elements", "json_of_python",
]  # fmt: skip


_PYTHON = {b"true": b"True", b"false": b"False", b"null": b"None"}
_JSON = {python.decode(): json.decode() for json, python in _PYTHON.items()}
_QUOTE = Bytes(b'"')
_STRING_OR_NAME = re.compile(r'"(?:[^"\\]|\\.)*"|\b(?:True|False|None)\b', re.DOTALL)
_KEY = re.compile(r"\w+")
_WORD = Chars.of([(ord(low), ord(high)) for low, high in ("09", "AZ", "__", "az")])
_ANY_KEY = Sequence((Repeat(_WORD, 1), literal(":")))
_BARE_KEY = re.compile(r"(?<=[{,])(\w+):")
#: Keywords that allow an object without named keys.
_ALLOWING_NONE = {"type", "additionalProperties", "propertyNames", "maxProperties"}
#: Maximum nesting of a value that is written as rules.
_MAX_LEVELS = 20
#: The prefix before a key's name in the name of the capture of its value.
_KEY_OF = "key "
_ARRAY_KEYWORDS = {"type", "items", "minItems", "maxItems"}
#: Keywords that apply to values of only one JSON type.
_OF_TEXT = {"minLength", "maxLength", "pattern", "format", "contentEncoding", "contentMediaType"}
_OF_NUMBERS = {"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"}
_NAMES_KEYS = ("properties", "required", "patternProperties", "allOf", "anyOf", "oneOf")
_OF_OBJECTS = {
    "properties", "required", "additionalProperties", "patternProperties", "propertyNames", "dependentRequired",
    "dependentSchemas", "minProperties", "maxProperties", "unevaluatedProperties",
}  # fmt: skip
_NOT_OF_OBJECTS = (
    _OF_TEXT | _OF_NUMBERS | _ARRAY_KEYWORDS - {"type"} | {"uniqueItems", "contains", "prefixItems", "unevaluatedItems"}
)


def as_python(terminal: Terminal, *, constants: bool = True) -> Terminal:
    """Return a terminal of JSON as Python literals, without an escape that Python reads differently.

    With `constants`, `True` replaces `true`.
    """
    if not constants:
        return Terminal(Intersection((terminal.item, _PYTHON_ESCAPES)))

    def spelt(node: Node) -> Node:
        if isinstance(node, Sequence) and node.items[:1] == (_QUOTE,):
            return node  # a string, which may contain `true`
        return Bytes(_PYTHON.get(node.value, node.value)) if isinstance(node, Bytes) else map_children(node, spelt)

    return Terminal(Intersection((spelt(terminal.item), _PYTHON_ESCAPES)))


def _python_escapes() -> Node:
    """Return texts without `\\/`, which Python keeps as two characters, and `\\ud800` to `\\udfff`, which it never
    joins.
    """
    backslash = literal("\\")
    unit = Sequence((literal("u"), _one_of("dD"), _one_of("89abAB")))
    plain = Chars.of([(0, 0x5B), (0x5D, 0xD7FF), (0xE000, 0x10FFFF)])
    before = Repeat(Choice((plain, Sequence((backslash, ANY_CHAR)))))
    return Complement(Sequence((before, backslash, Choice((literal("/"), unit)), ANY_TEXT)))


def _one_of(characters: str) -> Node:
    return Chars.of([(ord(character), ord(character)) for character in characters])


_PYTHON_ESCAPES = _python_escapes()


def json_of_python(text: str) -> str:
    """Return the JSON of a text of `as_python` or of `in_quotes`."""
    if text.startswith("'"):
        return json.dumps(ast.literal_eval(text), ensure_ascii=False)
    return _STRING_OR_NAME.sub(lambda found: _JSON.get(found[0], found[0]), text)


def json_of_delimited(value: Match, quote: str) -> str:
    """Return the JSON of a value in the notation of `DelimitedValues`."""
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


def json_of_elements(value: Match) -> str:
    """Return the JSON of a value in the notation of `ElementValues`."""
    (inner,) = value.children
    if inner.name == "object":
        keys = (json.dumps(each.name.removeprefix(_KEY_OF), ensure_ascii=False) for each in inner.children)
        return (
            "{"
            + ", ".join(f"{key}: {json_of_elements(each)}" for key, each in zip(keys, inner.children, strict=True))
            + "}"
        )
    if inner.name == "list":
        return "[" + ", ".join(map(json_of_elements, inner.children)) + "]"
    return json.dumps(inner.text, ensure_ascii=False) if inner.name == "text" else inner.text


@dataclass(frozen=True)
class _Values:
    """A writer of values whose objects and lists are not those of JSON.

    Attributes:
        schema: the schema of all arguments, which references point into.
        markers: texts that never occur in strings.
        scalar: returns the node of a JSON Schema's values, after adding its rules to the grammar.
        define: makes a node a rule of its own, and returns the reference to it.
        limits: the maximum cost of reading a schema.
        enforce_formats: whether `format` is enforced.
    """

    schema: Mapping[str, Any]
    markers: tuple[str, ...]
    scalar: Callable[[Any], Node]
    define: Callable[[Callable[[Node], Node]], Node]
    limits: Limits
    enforce_formats: bool

    def value(self, schema: Any, pointer: str, level: int = 0) -> Node:
        """Return the node for the values of a schema.

        Raises:
            UnsupportedSchema: the schema has a keyword that is enforced only in JSON.
        """
        if level > _MAX_LEVELS:
            _refuse(pointer, "$ref", "its values nest without limit")
        if schema is True or not any(map(_is_constraint, schema)):
            return self._any()
        whole = with_definitions(self.schema, schema)
        plain = plain_strings(whole, self.limits, enforce_formats=self.enforce_formats)
        written: list[Node] = []
        if plain.text is not None:
            written.append(self._text(plain.text, plain.others))
        scalars = [kind for kind in plain.others if kind not in ("array", "object")]
        if scalars:
            written.append(self._json({"allOf": [schema], "type": scalars if len(scalars) > 1 else scalars[0]}))
        for kind in ("array", "object"):
            if kind in plain.others:
                written += self._nested(kind, schema, pointer, level)
        return Choice(tuple(written)) if len(written) != 1 else written[0]

    def _text(self, text: Node, others: Iterable[str] = ()) -> Node:
        """Return the node for a string, where values of these other types may occur, too."""
        raise NotImplementedError

    def _json(self, schema: Any) -> Node:
        return self.scalar(schema)

    def _any(self) -> Node:
        raise NotImplementedError

    def _list(self, item: Node, minimum: int, maximum: int | None) -> Node:
        raise NotImplementedError

    def _map(self, schema: Any, pointer: str, level: int) -> Node:
        """Return the node for an object whose keys no schema names."""
        raise NotImplementedError

    def _members(self, members: Iterable[tuple[str, Node, bool]], pointer: str) -> Node:
        """Return the node for an object of these keys, each with its value and whether it is required."""
        raise NotImplementedError

    def _nested(self, kind: str, schema: Any, pointer: str, level: int) -> Iterator[Node]:
        """Return the nodes for a schema's arrays or objects, following its references and unions."""
        for keyword in ("$ref", "anyOf", "oneOf", "allOf"):
            if not isinstance(schema, Mapping) or keyword not in schema:
                continue
            others = [name for name in schema if _is_constraint(name) and name not in (keyword, "type")]
            if others and not (kind == "object" and keyword != "$ref"):
                _refuse(f"{pointer}/{keyword}", keyword, f"beside `{others[0]}` it is enforced only in JSON")
            if others:
                break
            if keyword == "$ref":
                yield from self._nested(kind, self._target(schema["$ref"]), pointer, level + 1)
                return
            if keyword == "allOf" and len(schema["allOf"]) > 1:
                break
            plains = [plain_strings(with_definitions(self.schema, each), self.limits) for each in schema[keyword]]
            having = [index for index, each in enumerate(plains) if kind in each.others]
            if keyword == "oneOf" and len(having) > 1:
                break
            for index in having:
                yield from self._nested(kind, schema[keyword][index], f"{pointer}/{keyword}/{index}", level)
            return
        yield self._array(schema, pointer, level) if kind == "array" else self._object(schema, pointer, level)

    def _target(self, reference: str) -> Any:
        found: Any = self.schema
        for part in reference.split("/")[1:]:
            found = found[unescaped(part)]
        return found

    def _array(self, schema: Any, pointer: str, level: int) -> Node:
        if schema is True:
            return self._list(self._any(), 0, None)
        _refuse_others(schema, _ARRAY_KEYWORDS | _OF_TEXT | _OF_NUMBERS | _OF_OBJECTS, pointer)
        item = self.define(lambda _: self.value(schema.get("items", True), f"{pointer}/items", level + 1))
        maximum = schema.get("maxItems")
        return self._list(item, int(schema.get("minItems", 0)), None if maximum is None else int(maximum))

    def _object(self, schema: Any, pointer: str, level: int) -> Node:
        if schema is True or not any(keyword in schema for keyword in _NAMES_KEYS):
            return self._map({} if schema is True else schema, pointer, level)
        ways: list[Node] = []
        for arguments in arguments_of(self.schema, _without(schema, _NOT_OF_OBJECTS), pointer, self.limits):
            members = [
                (each.key, self.value(each.schema, f"{pointer}/properties/{each.key}", level + 1), each.required)
                for each in arguments
            ]
            ways.append(self._members(members, pointer))
        return Choice(tuple(ways)) if len(ways) != 1 else ways[0]


@dataclass(frozen=True)
class DelimitedValues(_Values):
    """A writer of values whose strings are between two markers, and whose keys have no quotes.

    Attributes:
        quote: the node of the marker around text.
    """

    quote: Node

    def _text(self, text: Node, others: Iterable[str] = ()) -> Node:
        return Sequence((self.quote, Capture("text", Terminal(marker_free_text(self.markers, text))), self.quote))

    def _any(self) -> Node:
        """Return the node for any value; its keys are those that can be written without quotes."""

        def rule(value: Node) -> Node:
            scalar = self.scalar({"type": ["null", "boolean", "number"]})
            return Choice((self._text(ANY_TEXT), scalar, self._list(value, 0, None), self._any_keys(value)))

        return self.define(rule)

    def _list(self, item: Node, minimum: int, maximum: int | None) -> Node:
        return _listed("[", item, "]", minimum, maximum)

    def _any_keys(self, value: Node) -> Node:
        return _listed("{", Sequence((Terminal(_ANY_KEY), value)), "}", 0, None)

    def _map(self, schema: Any, pointer: str, level: int) -> Node:
        _refuse_others(schema, {"type", "additionalProperties"} | _NOT_OF_OBJECTS, pointer)
        more = schema.get("additionalProperties", True)
        if more is False:
            return literal("{}")
        return self._any_keys(self.value(more, f"{pointer}/additionalProperties", level + 1))

    def _members(self, members: Iterable[tuple[str, Node, bool]], pointer: str) -> Node:
        made: list[tuple[Node, bool]] = []
        for key, value, required in members:
            check_key(key, pointer)
            made.append((Sequence((literal(f"{key}:"), value)), required))
        return Sequence((literal("{"), in_any_order(made, ","), literal("}")))


@dataclass(frozen=True)
class ElementValues(_Values):
    """A writer of objects and lists as nested elements, of strings as they are, and of anything else as JSON.

    An object whose keys no schema names is written as JSON: a grammar cannot express that an element with an unknown
    name ends with the same name. An argument with a list or an object that is enforced only in JSON is written as JSON,
    too.

    Attributes:
        element: writes a name and a value.
    """

    element: Callable[[str, Node], Node]

    def value(self, schema: Any, pointer: str, level: int = 0) -> Node:
        try:
            return super().value(schema, pointer, level)
        except UnsupportedSchema:
            if level:
                raise
        whole = with_definitions(self.schema, schema)
        plain = plain_strings(whole, self.limits, enforce_formats=self.enforce_formats)
        others = self._json({"allOf": [schema], "type": list(plain.others)})
        return others if plain.text is None else Choice((self._text(plain.text, plain.others), others))

    def _text(self, text: Node, others: Iterable[str] = ()) -> Node:
        text = apart(text, others) if others else text
        return Capture("text", Terminal(marker_free_text(self.markers, text)))

    def _json(self, schema: Any) -> Node:
        return Capture("json", self.scalar(schema))

    def _any(self) -> Node:
        kinds = ["null", "boolean", "number", "array", "object"]
        return Choice((self._text(ANY_TEXT, kinds), self._json({"type": kinds})))

    def _list(self, item: Node, minimum: int, maximum: int | None) -> Node:
        return Capture("list", Repeat(self.element("item", Capture("item", item)), minimum, maximum))

    def _map(self, schema: Any, pointer: str, level: int) -> Node:
        written = self._json({"allOf": [schema], "type": "object"})
        may_be_empty = not any(map(_is_constraint, set(schema) - _ALLOWING_NONE))
        return Choice((Capture("object", EMPTY), written)) if may_be_empty else written

    def _members(self, members: Iterable[tuple[str, Node, bool]], pointer: str) -> Node:
        made = [(self.element(key, Capture(_KEY_OF + key, value)), required) for key, value, required in members]
        return Capture("object", in_any_order(made, ""))


def _listed(opening: str, item: Node, closing: str, minimum: int, maximum: int | None) -> Node:
    """Return the node for items with commas between them."""
    items: list[Node] = [] if minimum else [literal(opening + closing)]
    if maximum is None or maximum > 0:
        most = None if maximum is None else maximum - 1
        more = Repeat(Sequence((literal(","), item)), max(0, minimum - 1), most)
        items.append(Sequence((literal(opening), item, more, literal(closing))))
    return Choice(tuple(items))


def _is_constraint(keyword: str) -> bool:
    return keyword in keywords().since and keyword not in keywords().annotations


def _refuse_others(schema: Mapping[str, Any], known: Set[str], pointer: str) -> None:
    for keyword in sorted(filter(_is_constraint, schema)):
        if keyword not in known:
            _refuse(f"{pointer}/{keyword}", keyword, "it is enforced only in JSON")


def _without(schema: Mapping[str, Any], keywords: Set[str]) -> Mapping[str, Any]:
    return {keyword: value for keyword, value in schema.items() if keyword not in keywords}


def check_key(key: str, pointer: str) -> None:
    """Check that a key can be written without quotes.

    Raises:
        UnsupportedSchema: the key needs quotes.
    """
    if not _KEY.fullmatch(key):
        reason = f"the key {key!r} stands without quotes in this layout; use only letters, digits and _"
        _refuse(f"{pointer}/properties", "properties", reason)


def in_any_order(members: Iterable[tuple[Node, bool]], separator: str) -> Node:
    """Return the node for the required members and any of the optional ones, in any order, with separators."""
    made = tuple(Member((Way(node),), required) for node, required in members)
    if not made:
        return EMPTY
    some = Members(made, Terminal(literal(separator)))
    return some if any(member.required for member in made) else Choice((some, EMPTY))


def _refuse(pointer: str, keyword: str, reason: str) -> NoReturn:
    raise UnsupportedSchema(pointer=pointer, keyword=keyword, reason=reason)
