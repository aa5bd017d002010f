"""Define JSON that satisfies a JSON Schema."""

from __future__ import annotations

import json
import marshal
import warnings
from collections.abc import Callable, Hashable, Iterable, Mapping
from dataclasses import dataclass, fields, replace
from functools import lru_cache
from operator import is_
from typing import TYPE_CHECKING, Any, cast, get_args

from formatter_core.engine.native_schema import NativeJson, native_json
from formatter_core.errors import FormatterError, InvalidArgument, InvalidFormat, InvalidSchema, UnsatisfiableSchema
from formatter_core.errors.arguments import one_of, shown
from formatter_core.formats.json_values import read_value
from formatter_core.formats.one_of import Alternatives
from formatter_core.formats.protocol import Lowered
from formatter_core.formats.unfinished import JsonSoFar
from formatter_core.grammar import Grammar, Node, Program, Schema, SchemaRules
from formatter_core.grammar.lazy import cached_property
from formatter_core.grammar.read import rules_of
from formatter_core.grammar.values import value
from formatter_core.limits import DEFAULT_LIMITS, Limits
from formatter_core.limits.turns import give_way
from formatter_core.parsing.captures import Match
from formatter_core.schema import (
    Coverage,
    Dropped,
    KeyOrder,
    OnUnsupported,
    Spelling,
    StringFormats,
    Whitespace,
    WhitespaceName,
    contradiction_of,
    schema_coverage,
    why_unsatisfiable,
)
from formatter_core.schema.data import own_json, read_json, write_value
from formatter_core.schema.library import document, documents, schema_program
from formatter_core.schema.refusals import as_dropped, not_a_schema
from formatter_core.schema.whitespace import check_whitespace

__all__ = ["JsonSchemaFormat", "SchemaWarning", "forget_texts", "from_json", "json_schema", "schema_grammar"]


_CHOICES = {
    "spelling": get_args(Spelling),
    "key_order": get_args(KeyOrder),
    "string_formats": get_args(StringFormats),
    "on_unsupported": get_args(OnUnsupported),
}
#: The view of an unfinished value: JSON data.
_SO_FAR = JsonSoFar()


class SchemaWarning(UserWarning):
    """A warning about a keyword that is not enforced, because the format was made with `on_unsupported="warn"`."""


@dataclass(frozen=True, eq=False)
class JsonSchemaFormat(Alternatives):
    """A format of JSON that satisfies a schema. Its value is that of `json.loads`, but numbers too large for a float
    are `Decimal`.

    `schema` and the schemas of `registry`, by URI, are the format's own copies: do not change them.
    """

    # Filled on first access if the native library read the text.
    schema: dict[str, Any] | bool
    whitespace: WhitespaceName | Whitespace = "flexible"
    key_order: KeyOrder = "schema"
    string_formats: StringFormats = "enforce"
    on_unsupported: OnUnsupported = "error"
    registry: dict[str, Any] | None = None
    spelling: Spelling = "canonical"

    def __post_init__(self) -> None:
        for argument, choices in _CHOICES.items():
            one_of(getattr(self, argument), argument, choices)
        check_whitespace(self.whitespace)

    def to_grammar(self, limits: Limits) -> Lowered:
        grammar = _OneSchema(self, limits)
        return Lowered(grammar, value=_load, why_empty=grammar.why_empty, unfinished=_SO_FAR)

    @property
    def text(self) -> str:
        """Return the schema as JSON text."""
        content = None if self._json is None else self._json.content
        return write_value(self.schema, ensure_ascii=False) if content is None else content.decode()

    def coverage(self, limits: Limits = DEFAULT_LIMITS) -> Coverage:
        """Return the coverage report: whether each keyword is enforced, and why not. `str()` gives a table.

        Raises:
            InvalidSchema: the schema is invalid.
            LimitExceeded: lowering it needs more than `limits` allow.
        """
        return schema_coverage(self.schema, limits=limits, **self._options())

    def _why_empty(self, limits: Limits) -> FormatterError | None:
        return why_unsatisfiable(self.schema, limits=limits, on_unsupported=self.on_unsupported, **self._options())

    def _options(self) -> dict[str, Any]:
        return {
            "spelling": self.spelling,
            "whitespace": self.whitespace,
            "key_order": self.key_order,
            "string_formats": self.string_formats,
            "registry": self.registry,
        }

    def of(self, schema: Any) -> JsonSchemaFormat:
        """Return the format of another schema, with the same options."""
        return replace(self, schema=schema)

    def grammar_of(self, schema: Mapping[str, Any], limits: Limits, **options: Any) -> Grammar:
        """Return the grammar of another schema, with flexible whitespace and this format's other options, unless
        `options` change them.

        It gives no warnings: those for the whole schema cover the keywords dropped here.
        """
        given: dict[str, Any] = {"whitespace": "flexible", **options}
        source = _Source(replace(self, schema=_data(schema), **given), limits, warns=False)
        return Grammar({"#": Schema(source)}, "#")

    def to_json(self) -> dict[str, Any]:
        blanks = self.whitespace
        return {
            "type": "json_schema",
            "schema": _plain(self.schema),
            "spelling": self.spelling,
            "whitespace": blanks if isinstance(blanks, str) else vars(blanks).copy(),
            "key_order": self.key_order,
            "string_formats": self.string_formats,
            "on_unsupported": self.on_unsupported,
            "registry": self.registry and {uri: _plain(schema) for uri, schema in self.registry.items()},
        }

    def __eq__(self, other: object) -> bool:
        return isinstance(other, JsonSchemaFormat) and self.key() == other.key()

    def __hash__(self) -> int:
        return hash(self.key())

    def key(self) -> Hashable:
        return self._key

    def is_as_made(self) -> bool:
        """Return whether the schema is unchanged since it was read."""
        return "schema" not in vars(self) or self._content_read == _content(self.schema)

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            """Read the schema on first access."""
            own = vars(self)
            if name != "schema" or "_json" not in own:
                raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
            schema = self._read()
            own["_content_read"] = _content(schema)
            return own.setdefault("schema", schema)

    def _read(self) -> Any:
        """Return the schema; before its first access by the user, read it anew each time, so that internal uses do not
        keep it.
        """
        own = vars(self)
        return own["schema"] if "schema" in own else read_json(own["_json"].content.decode())

    def __getstate__(self) -> dict[str, Any]:
        return {field.name: getattr(self, field.name) for field in fields(self)}

    @cached_property
    def _json(self) -> NativeJson | None:
        try:
            return document(self.schema)
        except FormatterError:  # compiling raises the same error
            return None

    @cached_property
    def _document(self) -> NativeJson:
        """Return the schema with the documents of its registry."""
        if self._json is None or self.registry is not None:
            return document(self.schema, documents(self.registry))
        return self._json

    @cached_property
    def _content_read(self) -> Hashable:
        return _content(self.schema)

    @cached_property
    def _key(self) -> tuple[Hashable, ...]:
        content = None if self._json is None else self._json.content
        options = self.whitespace, self.key_order, self.string_formats, self.on_unsupported
        registry = None if self.registry is None else _content(self.registry)
        schema = _content(self.schema) if content is None else content
        return "json_schema", schema, *options, registry, self.spelling


@value(slots=False)
class _Source:
    """The source of a format's schema; see `SchemaSource`."""

    format: JsonSchemaFormat
    limits: Limits
    warns: bool = True
    markers: tuple[str, ...] = ()
    escaped: str = ""

    @property
    def text(self) -> str:
        return self.format.text

    def lowered(self) -> tuple[Mapping[str, Node], str]:
        return self._rules

    def program(self, limits: Limits, *, alone: bool) -> Program | SchemaRules:
        return _program(self.format, limits, self.warn, self.markers, self.escaped, alone=alone)

    def without(self, markers: tuple[str, ...]) -> _Source:
        return replace(self, markers=markers)

    def escaping(self, can_stay: Callable[[str], bool]) -> _Source:
        if self.format.spelling == "any":  # every character may be escaped
            return self
        registry = (self.format.registry or {}).values()
        texts = [self.text, *(write_value(each, ensure_ascii=False) for each in registry)]
        characters = sorted(char for char in set("".join(texts)) if char >= " " and not can_stay(char))
        return replace(self, escaped="".join(characters)) if characters else self

    @cached_property
    def _rules(self) -> tuple[Mapping[str, Node], str]:
        give_way()
        return rules_of(cast("Program", self.program(self.limits, alone=True)))

    def warn(self, dropped: Iterable[Dropped]) -> None:
        """Warn once of the keywords that are not enforced."""
        own = vars(self)
        if self.warns and not own.get("_has_warned"):
            own["_has_warned"] = True
            for entry in dropped:
                where = entry.pointer or "the root"
                reason = f"`{entry.keyword}` at {where} is not enforced: {entry.reason}"
                warnings.warn(reason, SchemaWarning, stacklevel=2)


class _OneSchema(Grammar):
    """The grammar of a single format. Mostly only its program is needed, so the rules are made on first access."""

    start = "#"
    has_specials = False

    def __init__(self, format: JsonSchemaFormat, limits: Limits) -> None:
        self._format = format
        self._limits = limits

    @cached_property
    def rules(self) -> Mapping[str, Node]:
        return {"#": Schema(self._source)}

    @cached_property
    def _source(self) -> _Source:
        return _Source(self._format, self._limits)

    def _warn(self, dropped: Iterable[Dropped]) -> None:
        self._source.warn(dropped)

    def written(self, limits: Limits) -> Program:
        return cast("Program", _program(self._format, limits, self._warn, alone=True))

    def why_empty(self) -> FormatterError | None:
        return self._format._why_empty(self._limits)


def _program(
    format: JsonSchemaFormat,
    limits: Limits,
    warn: Callable[[Iterable[Dropped]], None],
    markers: tuple[str, ...] = (),
    escaped: str = "",
    *,
    alone: bool,
) -> Program | SchemaRules:
    """Return the program of a schema; see `SchemaSource.program`."""
    lenient = format.on_unsupported == "warn"
    in_any_order, enforce_formats = format.key_order == "any", format.string_formats == "enforce"
    options = format.whitespace, format.spelling, in_any_order, enforce_formats, escaped, markers, limits
    try:
        found = schema_program(format._document, options, lenient=lenient, alone=alone)
    except UnsatisfiableSchema as error:
        given = {"on_unsupported": format.on_unsupported, **format._options()}
        raise contradiction_of(format.schema, error, limits=limits, **given) from None
    if found.dropped:
        warn(map(as_dropped, found.dropped))
    return found


def schema_grammar(schema: Any, limits: Limits, **options: Any) -> Grammar:
    """Return the grammar of a part of a format, checked now, while its place is known; with the options of
    `json_schema`.

    Raises:
        FormatterError: the error of compiling the schema alone.
    """
    if not isinstance(schema, (dict, bool)):
        raise not_a_schema(schema)
    grammar = json_schema(schema, **options).to_grammar(limits).grammar
    grammar.check(limits)
    return grammar


def json_schema(
    schema: Mapping[str, Any] | bool | str,
    *,
    spelling: Spelling = "canonical",
    whitespace: WhitespaceName | Whitespace = "flexible",
    key_order: KeyOrder = "schema",
    string_formats: StringFormats = "enforce",
    on_unsupported: OnUnsupported = "error",
    registry: Mapping[str, Any] | None = None,
) -> JsonSchemaFormat:
    """Return the format of JSON that satisfies `schema` (a dict, a bool, or JSON text).

    Every keyword is enforced exactly, or compiling raises `UnsupportedSchema`.

    Args:
        spelling: "canonical", the spelling of a careful writer (no needless escapes, one spelling of each name and
            listed text), or "any": every legal spelling.
        whitespace: "flexible" (usual blanks: after a comma and inside brackets nothing, one space, or a line break and
            an indentation; after a colon nothing or a space; with `spelling="any"` beside every token), "one_line" (a
            space after each comma and colon, and optionally inside brackets), "compact" (nothing) or a `Whitespace`.
        key_order: "schema" (an object's own `properties`, then the keys that the rest of the schema adds, from left to
            right, then all other keys) or "any".
        string_formats: "enforce" the formats that JSON Schema defines, or "annotate" to ignore them.
        on_unsupported: "error", or "warn" to ignore keywords that cannot be enforced, with a `SchemaWarning` for each.
        registry: schemas by URI, for references that point outside `schema`; a dict or a `referencing.Registry`.
            Nothing is fetched.

    Raises:
        InvalidSchema: the schema is not JSON.
        InvalidArgument: an option is invalid.
    """
    options = whitespace, key_order, string_formats, on_unsupported
    if registry is None:
        return _of_text(schema, *options, spelling) if isinstance(schema, str) else _made(schema, *options, spelling)
    known = {uri.rstrip("#"): _data(getattr(each, "contents", each)) for uri, each in _entries(registry)}
    return JsonSchemaFormat(_data(schema), *options, known, spelling)


#: The options in the order of the parameters, and their defaults.
_OPTIONS = "whitespace", "key_order", "string_formats", "on_unsupported", "spelling"
_DEFAULTS = tuple(getattr(JsonSchemaFormat, name) for name in _OPTIONS)
#: Formats are kept for at most this many texts of at most this length: a server reads the same schemas repeatedly.
_MAX_KEPT_CHARACTERS, _MAX_KEPT_FORMATS = 16_384, 128


def _of_text(text: str, *options: Any) -> JsonSchemaFormat:
    if len(text) > _MAX_KEPT_CHARACTERS:
        return _made(text, *options)
    try:
        made = _kept(text, *options)
    except TypeError:  # an option that has no valid type
        return _made(text, *options)
    return made if "schema" not in vars(made) or made.is_as_made() else _made(text, *options)


def _made(schema: Any, *options: Any) -> JsonSchemaFormat:
    found = native_json(schema)
    if found is None or found.content is None:
        made = JsonSchemaFormat(_data(schema), **_named(*options))
        _ = made._content_read
        return made
    made = object.__new__(JsonSchemaFormat)
    own = made.__dict__  # `cached_property` keeps its value there
    if not all(map(is_, options, _DEFAULTS)):  # the class has the defaults; `==` could run the user's code
        own.update(_checked(*options))
    own["_json"] = found
    return made


def _checked(*options: Any) -> dict[str, Any]:
    """Check the options of a format that has no schema yet."""
    own = vars(JsonSchemaFormat({}, **_named(*options)))
    del own["schema"]
    return own


def _named(*options: Any) -> dict[str, Any]:
    return dict(zip(_OPTIONS, options, strict=True))


_kept = lru_cache(maxsize=_MAX_KEPT_FORMATS)(_made)


def forget_texts() -> None:
    """Drop the formats kept for texts."""
    _kept.cache_clear()


def from_json(data: Mapping[str, Any]) -> JsonSchemaFormat:
    """Read the format that `JsonSchemaFormat.to_json` described; data without a spelling allow any spelling."""
    blanks: Any = data["whitespace"]
    if not isinstance(data["registry"], dict | None):
        raise InvalidFormat(f"`registry` is {shown(data['registry'])}; give an object from URI to schema, or null")
    return json_schema(
        data["schema"],
        spelling=data.get("spelling", "any"),
        whitespace=Whitespace(**blanks) if isinstance(blanks, dict) else blanks,
        key_order=data["key_order"],
        string_formats=data["string_formats"],
        on_unsupported=data["on_unsupported"],
        registry=data["registry"],
    )


def _entries(registry: Any) -> list[tuple[str, Any]]:
    try:
        entries = list(registry.items())
    except (AttributeError, TypeError):
        entries = [(None, None)]
    if not all(isinstance(uri, str) for uri, _ in entries):
        reason = f"registry is {shown(registry)}; give a dict from URI to schema, or a referencing.Registry"
        raise InvalidArgument(reason, argument="registry")
    return entries


def _data(schema: Any) -> Any:
    data = read_json(schema) if isinstance(schema, str) else own_json(schema)
    if not isinstance(data, (dict, bool)):
        raise InvalidFormat(f"expected a schema (a dict, a bool or JSON text), found {shown(schema)}")
    return data


def _content(data: Any) -> Hashable:
    """Return a key that differs for different data, also for 1 and True, and for orders of keys."""
    try:
        return marshal.dumps(data, 2)  # version 2 ignores interning; much faster than `repr`
    except ValueError:  # a `Decimal`
        return repr(data)


def _plain(schema: Any) -> Any:
    """Return a schema as data for `json.dumps`; as JSON text if it has a number with more digits than a float."""
    text = write_value(schema)
    data = json.loads(text)
    try:
        return data if repr(own_json(data)) == repr(schema) else text
    except InvalidSchema:  # too large for a float
        return text


def _load(match: Match) -> Any:
    return read_value(match.data)
