"""Build the arguments of a call, each written by its own template: strings as they are, anything else as JSON.

Only arguments that the schema names can be written. Keywords about several arguments (`required`, `allOf`, `anyOf`,
`dependentRequired` …) are converted to alternative lists of arguments, and a call has one of the lists; a keyword that
cannot be converted is rejected.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple, NoReturn

from formatter_core.errors import UnsupportedSchema
from formatter_core.errors.pointers import unescaped
from formatter_core.formats.json_schema import JsonSchemaFormat
from formatter_core.formats.plain_strings import allows, matches, plain_strings
from formatter_core.grammar import ANY_TEXT, Chars, Choice, Complement, Intersection, Node, Repeat, Sequence, literal
from formatter_core.limits import Limits
from formatter_core.schema.keywords import keywords

__all__ = ["Argument", "Parameter", "apart", "arguments_of", "parameter_of", "with_definitions"]

#: Keywords of an object that are enforced in full, or that concern only keys that cannot be written.
_ENFORCED = frozenset(
    ("type", "properties", "required", "additionalProperties", "patternProperties", "propertyNames", "$ref", "allOf",
     "anyOf", "oneOf", "dependentRequired", "minProperties", "maxProperties", "unevaluatedProperties", "$defs",
     "definitions", "description")
)  # fmt: skip
#: Maximum ways in which the arguments of a tool may depend on one another, and schemas that are read for each way.
_MAX_VARIANTS = 64
_MAX_REFERENCES = 50


class Argument(NamedTuple):
    """A named argument: its schema, and whether it is required."""

    key: str
    schema: Any
    required: bool


@dataclass(frozen=True)
class Parameter:
    """The texts and values of one argument.

    Attributes:
        key: the name of the argument.
        required: whether the argument is required.
        text: the regular language of its strings; None if it takes no string.
        others: its values that are not strings, as JSON: each with its type, or all with "".
    """

    key: str
    required: bool
    text: Node | None
    others: tuple[tuple[str, JsonSchemaFormat], ...]


def parameter_of(
    root: Mapping[str, Any],
    argument: Argument,
    options: JsonSchemaFormat,
    limits: Limits,
    *,
    exact: bool,
    by_type: bool = False,
) -> Parameter:
    """Return an argument's strings and its other values.

    Args:
        root: the schema of all arguments, which references point into.
        argument: the argument.
        options: a format whose options apply to the values.
        limits: the maximum cost of reading the schema.
        exact: whether the notation distinguishes strings from other values; otherwise no string may look like another
            value that the schema allows.
        by_type: whether values of each type are written separately.
    """
    whole = with_definitions(root, argument.schema)
    plain = plain_strings(whole, limits, registry=options.registry, enforce_formats=options.string_formats == "enforce")
    text, kinds = plain.text, list(plain.others)
    if by_type:
        others = [(kind, options.of(_of_kinds(root, argument.schema, kind))) for kind in kinds]
    elif text is None:
        others = [("", options.of(whole))] if kinds else []
    else:
        some = kinds[0] if len(kinds) == 1 else kinds
        others = [("", options.of(_of_kinds(root, argument.schema, some)))] if kinds else []
        text = text if exact or not kinds else apart(text, plain.others)
    return Parameter(argument.key, argument.required, text, tuple(others))


def apart(text: Node, kinds: Iterable[str]) -> Node:
    """Return the texts that do not look like a value of these types."""
    return Intersection((text, Complement(Choice(tuple(_LIKE[kind] for kind in kinds)))))


def _of_kinds(root: Mapping[str, Any], schema: Any, kinds: Any) -> Any:
    if kinds == "null":
        return {"type": kinds}
    return with_definitions(root, {"type": kinds, **({"allOf": [schema]} if schema is not True else {})})


def with_definitions(root: Mapping[str, Any], schema: Any) -> Any:
    """Return a part of a schema with the definitions that its references point to."""
    definitions = {name: root[name] for name in ("$defs", "definitions", "$schema") if name in root}
    return {**schema, **definitions} if isinstance(schema, Mapping) else schema


def arguments_of(
    root: Mapping[str, Any], schema: Mapping[str, Any], pointer: str, limits: Limits
) -> list[list[Argument]]:
    """Yield the arguments of an object in schema order; if they depend on one another, one list for each alternative.

    Raises:
        UnsupportedSchema: the object has a keyword that cannot be converted.
    """
    found = list(_Objects(root, limits).variants(schema, pointer))
    if len(found) > _MAX_VARIANTS:
        _refuse(pointer, "anyOf", f"its arguments depend on one another in more than {_MAX_VARIANTS} ways")
    return found


class _Objects:
    """A reader of the schemas that apply to the keys of one object."""

    def __init__(self, root: Mapping[str, Any], limits: Limits) -> None:
        self._root = root
        self._limits = limits
        self._steps = 0

    def variants(self, schema: Mapping[str, Any], pointer: str) -> Iterator[list[Argument]]:
        for branches in self._branches([(schema, pointer)]):
            yield from self._arguments(branches, pointer)

    def _branches(self, open_: list[tuple[Any, str]]) -> Iterator[list[tuple[Mapping[str, Any], str]]]:
        """Yield the schemas that must all hold, once for each choice of alternatives of the unions."""
        known: list[tuple[Mapping[str, Any], str]] = []
        while open_:
            schema, pointer = open_.pop(0)
            self._steps += 1
            if self._steps > _MAX_REFERENCES * _MAX_VARIANTS:
                _refuse(pointer, "$ref", "its references are circular")
            if schema is True:
                continue
            if not isinstance(schema, Mapping):
                return
            for keyword in schema:
                if keyword in keywords().since and keyword not in keywords().annotations and keyword not in _ENFORCED:
                    _refuse(
                        f"{pointer}/{keyword}", keyword, "it is not enforced where each argument is written separately"
                    )
            known.append((schema, pointer))
            if "$ref" in schema:
                open_.insert(0, (self._target(schema["$ref"], pointer), pointer))
            open_ += [(each, f"{pointer}/allOf/{index}") for index, each in enumerate(schema.get("allOf", ()))]
            for keyword in ("anyOf", "oneOf"):
                if keyword in schema:
                    rest = {name: value for name, value in schema.items() if name not in (keyword, "$ref", "allOf")}
                    known[-1] = (rest, pointer)
                    for index, branch in enumerate(schema[keyword]):
                        ways = [(branch, f"{pointer}/{keyword}/{index}")]
                        if keyword == "oneOf":
                            ways += self._not_the_others(schema[keyword], index, pointer)
                        yield from self._branches([*known, *open_, *ways])
                    return
        yield known

    def _not_the_others(self, branches: list[Any], chosen: int, pointer: str) -> list[tuple[Any, str]]:
        """Return schemas that exclude the other branches of a `oneOf`, if these differ by one required key each."""
        ways: list[tuple[Any, str]] = []
        for index, branch in enumerate(branches):
            if index == chosen or _are_apart(branches[chosen], branch) or _are_apart(branch, branches[chosen]):
                continue
            own = set(branches[chosen].get("required", ())) if isinstance(branches[chosen], Mapping) else set()
            more = set(branch.get("required", ())) - own if isinstance(branch, Mapping) else set()
            if len(more) != 1:
                _refuse(f"{pointer}/oneOf", "oneOf", "its branches are not told apart by one required key each")
            ways.append(({"properties": {more.pop(): False}}, pointer))
        return ways

    def _target(self, reference: Any, pointer: str) -> Any:
        parts = reference.split("/") if isinstance(reference, str) else []
        if parts[:1] != ["#"]:
            _refuse(f"{pointer}/$ref", "$ref", "it does not lead to `$defs` or `definitions` of the schema")
        found: Any = self._root
        for part in parts[1:]:
            found = found.get(unescaped(part), {}) if isinstance(found, Mapping) else {}
        return found

    def _arguments(self, branches: list[tuple[Mapping[str, Any], str]], pointer: str) -> Iterator[list[Argument]]:
        if any(not _is_object(schema) for schema, _ in branches):
            return
        keys: dict[str, list[Any]] = {}
        required: set[str] = set()
        for schema, _ in branches:
            keys.update((key, []) for key, value in schema.get("properties", {}).items() if key not in keys)
            required |= set(schema.get("required", ()))
        keys.update((key, []) for key in sorted(required) if key not in keys)
        for key, parts in keys.items():
            for schema, _ in branches:
                parts += self._said_of(schema, key)
        allowed = {key: _joined(parts) for key, parts in keys.items() if False not in parts}
        if required - set(allowed):
            return
        for needed, left_out in _dependent(branches, frozenset(required)):
            arguments = [Argument(key, value, key in needed) for key, value in allowed.items() if key not in left_out]
            if needed <= {argument.key for argument in arguments}:
                yield from _counted(branches, arguments, pointer)

    def _said_of(self, schema: Mapping[str, Any], key: str) -> list[Any]:
        """Return the schemas that one schema applies to the value of a key; False if the key is forbidden."""
        said = [schema["properties"][key]] if key in schema.get("properties", {}) else []
        patterns = schema.get("patternProperties", {})
        said += [value for pattern, value in patterns.items() if matches(pattern, key, self._limits)]
        if not said and "additionalProperties" in schema:
            said = [schema["additionalProperties"]]
        if "propertyNames" in schema:
            names = with_definitions(self._root, schema["propertyNames"])
            said += [] if allows(names, key, self._limits) else [False]
        return said


def _are_apart(closed: Any, other: Any) -> bool:
    """Return whether one schema forbids a key that the other requires, or requires another constant for it."""
    if not isinstance(closed, Mapping) or not isinstance(other, Mapping):
        return False
    named, needed = closed.get("properties", {}), other.get("required", ())
    if closed.get("additionalProperties") is False and "patternProperties" not in closed:
        return any(key not in named for key in needed)
    return any(
        key in needed and not _may_agree(named[key], other["properties"][key])
        for key in set(named) & set(other.get("properties", {})) & set(closed.get("required", ()))
    )


def _may_agree(one: Any, two: Any) -> bool:
    """Return whether two schemas may have a common value; False only for two different constants."""
    both = [part["const"] for part in (one, two) if isinstance(part, Mapping) and isinstance(part.get("const"), str)]
    return len(both) < 2 or both[0] == both[1]


def _is_object(schema: Mapping[str, Any]) -> bool:
    kinds = schema.get("type", "object")
    return kinds == "object" or (isinstance(kinds, list) and "object" in kinds)


def _joined(parts: list[Any]) -> Any:
    parts = [part for part in parts if part is not True]
    return True if not parts else parts[0] if len(parts) == 1 else {"allOf": parts}


def _dependent(
    branches: list[tuple[Mapping[str, Any], str]], required: frozenset[str]
) -> Iterator[tuple[frozenset[str], frozenset[str]]]:
    """Yield the required and the omitted keys, for each choice among the keys that other keys depend on."""
    depending = [item for schema, _ in branches for item in schema.get("dependentRequired", {}).items()]
    ways = [(required, frozenset[str]())]
    for key, others in depending[:_MAX_VARIANTS]:
        ways = [way for needed, out in ways for way in ((needed | {key, *others}, out), (needed, out | {key}))]
        ways = [(needed, out) for needed, out in ways if not needed & out][: _MAX_VARIANTS + 1]
    return iter(ways)


def _counted(
    branches: list[tuple[Mapping[str, Any], str]], arguments: list[Argument], pointer: str
) -> Iterator[list[Argument]]:
    """Yield the arguments so that their number is within the limits of the schemas."""
    least, most = sum(argument.required for argument in arguments), len(arguments)
    low = max((schema.get("minProperties", 0) for schema, _ in branches), default=0)
    high = min((schema.get("maxProperties", most) for schema, _ in branches), default=most)
    if most < low or least > high:
        return
    if most > high and high <= least + 1 and low <= least + 1:  # at most one optional argument
        needed = [argument for argument in arguments if argument.required]
        if low <= least:
            yield needed
        if high > least:
            yield from ([*needed, Argument(each.key, each.schema, True)] for each in arguments if not each.required)
        return
    for keyword, is_met in (("maxProperties", most <= high), ("minProperties", least + 1 >= low)):
        if not is_met:
            _refuse(f"{pointer}/{keyword}", keyword, "it is not enforced where each argument is written separately")
    if least >= low:
        yield arguments
        return
    for argument in arguments:  # at least one optional argument
        if not argument.required:
            yield [Argument(each.key, each.schema, each.required or each is argument) for each in arguments]


def _refuse(pointer: str, keyword: str, reason: str) -> NoReturn:
    raise UnsupportedSchema(pointer=pointer, keyword=keyword, reason=reason)


# --- texts that readers may take for something else ------------------------------------------------------------------


def _one_of(characters: str) -> Node:
    return Chars.of([(ord(character), ord(character)) for character in characters])


def _word(word: str) -> Node:
    """Return a word in upper or lower case."""
    return Sequence(tuple(_one_of(letter.lower() + letter.upper()) for letter in word))


_BLANKS = Repeat(Chars.of([(code, code) for code in range(0x3001) if chr(code).isspace()]))
_SIGN = Repeat(_one_of("+-"), 0, 1)
_DIGITS = Sequence((_one_of("0123456789"), Repeat(_one_of("0123456789_"))))
_FRACTION = Sequence((literal("."), Repeat(_DIGITS, 0, 1)))
_EXPONENT = Sequence((_one_of("eE"), _SIGN, _DIGITS))
_NUMBER = Sequence(
    (
        _SIGN,
        Choice((Sequence((_DIGITS, Repeat(_FRACTION, 0, 1))), Sequence((literal("."), _DIGITS)))),
        Repeat(_EXPONENT, 0, 1),
    )
)


def _alone(*items: Node) -> Node:
    return Sequence((_BLANKS, Choice(items), _BLANKS))


_JSON_LIKE = Choice(
    (
        _alone(*map(_word, ("true", "false", "null", "nan", "infinity", "-infinity")), _NUMBER),
        Sequence((_BLANKS, _one_of('{["'), ANY_TEXT)),
    )
)
#: Texts that readers may take for a value of a type other than string, in Python's and in JSON's spelling.
_LIKE: dict[str, Node] = {
    "null": _alone(_word("null"), _word("none")),
    "boolean": _alone(_word("true"), _word("false"), literal("0"), literal("1")),
    "number": _alone(_NUMBER),
    "array": _JSON_LIKE,
    "object": _JSON_LIKE,
}
