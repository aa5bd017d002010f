"""Schemas straight to programs: what is plain by the native library, the rest as always.

Most schemas are plain: objects, arrays, references, unions of what is certainly apart, and intersections in which one
schema speaks of each property, or two that are plain themselves, and one of all others. Patterns for names are plain if
no name matches two of them. That needs no algebra, whatever items and properties need.
What the library makes of them are, byte for byte, the rules that `lower` makes. Scalars, and names that match a
pattern, that the library leaves to others are lowered here, each kind once.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache, lru_cache
from itertools import combinations
from json import dumps
from threading import Lock
from typing import Any, NamedTuple

from formatter_core.engine.native_schema import CommonTerminals, Markers, NativeJson, NativeSchema, begun
from formatter_core.errors import EngineUnavailable, FormatterError
from formatter_core.grammar import NOTHING, Node, Program, SchemaRules, Terminal, write_inside, write_kept
from formatter_core.grammar.json_text import long_escape
from formatter_core.grammar.markers import (
    escapable,
    marker_demands,
    marker_free_rules,
    marker_free_terminal,
    with_escapes,
)
from formatter_core.limits import DEFAULT_LIMITS, Limits
from formatter_core.limits.cache import ByteBoundedCache
from formatter_core.limits.collection import paused_collection
from formatter_core.limits.forking import hold_during_fork
from formatter_core.schema.indents import Depths, indented
from formatter_core.schema.keys import Keys
from formatter_core.schema.keywords import DIALECTS, LATEST, known
from formatter_core.schema.load import Loader, draft_of, read_json
from formatter_core.schema.lower import PartlyLowered, lower_beside
from formatter_core.schema.normal import Normalizer
from formatter_core.schema.numbers import ANY_INTEGER, ANY_NUMBER, has_large_steps, number_node
from formatter_core.schema.productive import derived, productive
from formatter_core.schema.report import Refusals
from formatter_core.schema.scalars import scalar_terminal
from formatter_core.schema.spelling import Spelling, free_body, free_char
from formatter_core.schema.string_formats import DEFINED, spelled_format
from formatter_core.schema.tokens import ANY_RULE, Tokens, tokens_of
from formatter_core.schema.whitespace import Whitespace, WhitespaceName, as_whitespace, is_named

__all__ = ["USUAL_FORMATS", "PlainOptions", "common_terminals", "prepare", "schema_program"]

_MOST_KEPT = 4096
#: The most bytes of a scalar's schema that is kept for other schemas.
_LONGEST_KEPT = 1024
_NAMES = {draft: name for name, draft in DIALECTS.items()}
#: Bytes of schemas in formats that are kept. We estimate those in the library by their texts, and count rules here.
_BYTES_OF_PARTS, _BYTES_OF_A_BYTE, _BYTES_OF_A_RULE = 32 * 2**20, 40, 2000
#: The largest count of items that the library takes.
_MOST_REPEATS = 100_000
#: How a schema begins whose names are wanted.
_OF_NAMES = b'{"patternProperties":'
_SCALARS = ("null", "boolean", "integer", "number", "string")
#: Formats that schemas often have, and whose terminals take long to make, each with a text that has it.
USUAL_FORMATS = {
    "date-time": "2020-01-31T12:34:56Z",
    "date": "2020-01-31",
    "time": "12:34:56Z",
    "email": "me@example.com",
    "uri": "https://example.com/",
    "uuid": "01234567-89ab-cdef-0123-456789abcdef",
    "ipv4": "192.168.0.1",
    "ipv6": "2001:db8::1",
}


class PlainOptions(NamedTuple):
    """How a schema is written: its blanks, spelling, order and string formats, without which markers, in what limits.

    There are markers only in canonical spelling.
    """

    whitespace: WhitespaceName | Whitespace
    spelling: Spelling
    in_any_order: bool
    enforce_formats: bool
    markers: tuple[str, ...]
    limits: Limits

    def tokens(self) -> Tokens:
        """The tokens, in which markers may still occur."""
        return tokens_of(as_whitespace(self.whitespace, self.spelling), self.spelling)

    def written(self, item: Node) -> bytes:
        """The inside of a terminal of these without markers, as a program."""
        return write_inside(self.free(Terminal(item)).item, DEFAULT_LIMITS)

    def free(self, terminal: Terminal) -> Terminal:
        """A terminal of these without markers."""
        return marker_free_terminal(terminal, self.markers, in_json=True) if self.markers else terminal


class _Found(NamedTuple):
    """What schemas of one dialect share, with some options; no terminals where the library lowers none."""

    draft: int
    options: PlainOptions
    common: CommonTerminals | None


#: The dialect and the options of the latest schema, mostly those of the next one, and what was found for them.
_latest: tuple[tuple[Any, ...], _Found | None] = (), None


@cache
def prepare() -> None:
    """Make what most schemas need of scalars, so that no request waits for it."""
    for draft in _NAMES:
        common_terminals(draft, PlainOptions("flexible", "canonical", False, True, (), DEFAULT_LIMITS))


def schema_program(
    json: NativeJson,
    read: Callable[[], Any],
    options: tuple[Any, ...],
    *,
    alone: bool,
) -> Program | SchemaRules | None:
    """The program of a schema, if it is plain and `alone`, a whole grammar; else its rules.

    None if only `lower_schema` can tell. `read` gives what its JSON says. In its texts no marker occurs. `options` are
    those of `PlainOptions`.

    Raises:
        FormatterError: what `lower_schema` raises.
    """
    global _latest
    given = json.dialect, options
    before, found = _latest
    if given != before:
        found = _of_dialect(json.dialect, PlainOptions(*options))
        _latest = given, found
    if found is None or found.common is None:
        return None
    if alone or json.content is None:
        native = begun(json, found.common, found.options.limits, alone=alone)
        return _rules(native, read, found) if isinstance(native, NativeSchema) else native
    return _parts.get((json.content, found.draft, found.options), _part_of, json, read, found)


def _part_of(json: NativeJson, read: Callable[[], Any], found: _Found) -> _Rules | None:
    """The rules of a schema that stands in another format."""
    native = found.common and begun(json, found.common, found.options.limits, alone=False)
    return _rules(native, read, found) if isinstance(native, NativeSchema) else None


def _rules(native: NativeSchema, read: Callable[[], Any], found: _Found) -> _Rules | None:
    """The rules of a schema; None if only `lower_schema` can tell."""
    with paused_collection():
        if not native.is_plain:
            return _partly_plain(native, read(), found.draft, found.options)
        wanted = _wanted(native, found.draft, found.options)
        return None if wanted is None else _Rules(native, {}, {}, 0, native.count(), (), wanted)


class _Rules:
    """See `SchemaRules`. `numbers` count from the first rule; `holes` are the names of rules that the library needs."""

    def __init__(
        self,
        native: NativeSchema,
        rules: Mapping[str, Node],
        numbers: Mapping[str, int],
        start: int,
        count: int,
        holes: Sequence[str],
        given: bytes,
    ) -> None:
        self.rules = rules
        self.count = count
        self._native = native
        self._numbers = numbers
        self._start = start
        self._holes = holes
        self._given = given

    def start(self, first: int) -> int:
        return first + self._start

    def numbers(self, first: int) -> Mapping[str, int]:
        return {name: first + number for name, number in self._numbers.items()}

    def write(self, first: int, written: bytes) -> tuple[bytes, int, bytes, int]:
        holes = [first + self._numbers[name] for name in self._holes]
        with _writing:
            return self._native.write(first + len(self.rules), holes, self._given, written)

    def names(self) -> list[str]:
        return [*self.rules, *self._native.titles()]

    def bytes_used(self) -> int:
        """Estimate the bytes that it takes, here and in the library."""
        return self._native.size * _BYTES_OF_A_BYTE + len(self.rules) * _BYTES_OF_A_RULE + len(self._given)


#: Equal schemas in formats are lowered once for the process, as the tools of one request are those of the next one.
_parts: ByteBoundedCache[_Rules | None] = ByteBoundedCache(
    _BYTES_OF_PARTS, lambda rules: _BYTES_OF_A_RULE if rules is None else rules.bytes_used()
)
#: One thread at a time writes rules that several may have.
_writing = Lock()
hold_during_fork(_writing)


def _partly_plain(native: NativeSchema, schema: dict[str, Any], draft: int, options: PlainOptions) -> _Rules | None:
    """The rules of a schema whose other parts are lowered here; None if only `lower_schema` can tell."""
    if not any(map(known, schema)):
        return None
    tokens, limits = options.tokens(), options.limits
    try:
        part = _not_plain(native, schema, tokens, options)
    except (FormatterError, RecursionError):  # which lowering it as a whole explains
        return None
    count, any_rule = native.lower(part.uses_any, limits)
    if not count and (part.plain or part.uses_any):
        return None
    rules = _productive(native, part)
    if rules is None:
        return None
    given = _wanted(native, draft, options)
    if given is None:
        return None
    if tokens.levels:
        rules = _indented(rules, part, native, tokens)
    if options.markers:
        rules = marker_free_rules(rules, options.markers, in_json=True)
    first = len(rules)
    numbers = {name: first + number for name, number in part.plain.items()} | {ANY_RULE: first + any_rule}
    numbers |= {name: number for number, name in enumerate(rules)}
    return _Rules(native, rules, numbers, numbers[part.start], first + count, part.holes, given)


def _of_dialect(dialect: bytes, options: PlainOptions) -> _Found | None:
    """What is there for the draft that a schema's `$schema` names, or the default; None if that names none."""
    try:
        draft = draft_of({"$schema": read_json(dialect.decode())}, LATEST, "") if dialect else LATEST
    except FormatterError:  # which lowering it reports
        return None
    return _Found(draft, options, common_terminals(draft, options))


def _wanted(native: NativeSchema, draft: int, options: PlainOptions) -> bytes | None:
    """What stands inside the terminals of scalars and names that are wanted; None if that is not known of all."""
    found = [
        _inside(_names if text.startswith(_OF_NAMES) else _scalars, text, draft, options) for text in native.wanted()
    ]
    return None if None in found else b"".join(each for each in found if each is not None)


def _not_plain(native: NativeSchema, schema: dict[str, Any], tokens: Tokens, options: PlainOptions) -> PartlyLowered:
    """What is not plain, lowered."""
    refusals, limits = Refusals(), options.limits
    loader = Loader(schema, limits)
    normalizer = Normalizer(loader, limits, refusals, options.enforce_formats)
    return lower_beside(native, loader, normalizer, refusals, tokens, options.in_any_order, limits)


def _indented(rules: dict[str, Node], part: PartlyLowered, native: NativeSchema, tokens: Tokens) -> dict[str, Node]:
    """The rules of a part with the tokens for their depths, which the library learns for its own."""
    depths = Depths(rules, tokens)
    depths.put(part.start, 0)
    before: bytes | None = None
    while True:
        known = [depths.known.get(name, -1) for name in part.plain]
        goals = bytearray(len(part.plain))
        for number, depth in zip(part.plain.values(), known, strict=True):
            goals[number] = depth + 1
        if bytes(goals) == before:
            return indented(rules, depths.known, tokens)
        before = bytes(goals)
        for name, depth in zip(part.holes, native.depths(before, len(part.holes)), strict=True):
            if depth:
                depths.put(name, depth - 1)


#: How often both kinds of rules are asked which of them derive something.
_MOST_ROUNDS = 8


def _productive(native: NativeSchema, part: PartlyLowered) -> dict[str, Node] | None:
    """The rules of a part without what derives nothing; None if one that is needed may do so."""
    found = {ANY_RULE}
    for _ in range(_MOST_ROUNDS):
        all_derive, goals = native.all_derive(bytes(name in found for name in part.holes), len(part.plain))
        if all_derive:
            break
        found.update(name for name, number in part.plain.items() if goals[number])
        found = derived(part.rules, found)
    else:
        return None
    starts = [name for name in (part.start, *part.holes) if name in part.rules]
    rules = productive(part.rules, starts, {*part.plain, ANY_RULE})
    return None if rules.get(part.start) == NOTHING else rules


@lru_cache(maxsize=64)
def common_terminals(draft: int, options: PlainOptions) -> CommonTerminals | None:
    """What many schemas have; None if with these options the library lowers none."""
    whitespace, spelling, in_any_order, enforce_formats, markers, limits = options
    if not is_named(as_whitespace(whitespace, spelling)):
        return None
    if limits.depth < DEFAULT_LIMITS.depth or limits.repeat < _MOST_REPEATS:
        return None
    tokens = options.tokens()
    *whole, colon = tokens.all_in_order()
    numbers = (number_node(each, spelling) for each in (ANY_NUMBER, ANY_INTEGER))
    parts = colon, free_body(spelling), free_char(spelling), *numbers
    texts = (dumps(schema, separators=(",", ":")).encode() for schema in _usual_scalars())
    usual = {text: _inside(_scalars, text, draft, options) for text in texts}
    escaped = sorted(escapable(markers))
    try:
        return CommonTerminals(
            draft,
            spelling == "canonical",
            len(tokens.levels),
            in_any_order,
            b"".join(
                (
                    *map(options.written, whole),
                    *(_part(item, escaped) for item in parts),
                    *map(options.written, tokens.levels_in_order()),
                )
            ),
            {name: _of_format(name, spelling, *escaped) for name in DEFINED} if enforce_formats else {},
            {text: inside for text, inside in usual.items() if inside is not None},
            _markers_of(markers, escaped),
        )
    except EngineUnavailable:
        return None


def _markers_of(markers: tuple[str, ...], escaped: Sequence[str]) -> Markers | None:
    if not markers:
        return None
    others = {marker[0] for marker in markers}.difference(escaped)
    demands = marker_demands(markers, in_json=True)
    return Markers(
        "".join(escaped),
        "".join(sorted(others)),
        b"".join(write_kept(node, DEFAULT_LIMITS) for node in (*map(long_escape, escaped), *demands)),
    )


def _part(node: Node, escaped: Sequence[str]) -> bytes:
    """A part of terminals, written as one node."""
    return write_kept(with_escapes(node, escaped), DEFAULT_LIMITS)


@cache
def _of_format(name: str, spelling: Spelling, *escaped: str) -> tuple[bytes, str] | None:
    """The spellings of the texts that have a format, and one of these texts; None if it is not a usual one."""
    example = USUAL_FORMATS.get(name)
    return None if example is None else (_part(spelled_format(name, spelling), escaped), example)


def _usual_scalars() -> list[dict[str, Any]]:
    types = [list(names) for count in range(1, 5) for names in combinations(_SCALARS, count)]
    schemas: list[dict[str, Any]] = [{"type": names} for names in types]
    schemas += [{"type": "string", "format": name} for name in USUAL_FORMATS]
    return schemas + [{"type": name, "minimum": minimum} for name in ("integer", "number") for minimum in (0, 1)]


@lru_cache(maxsize=_MOST_KEPT)
def _scalars(text: bytes, draft: int, options: PlainOptions) -> bytes | None:
    """What stands inside the terminal of a schema's scalars; None if there are none, or they are not regular."""
    loader = Loader({"$schema": _NAMES[draft], **read_json(text.decode())}, options.limits)
    shape = Normalizer(loader, options.limits, Refusals(), options.enforce_formats).goal((loader.root,))
    if shape.arrays or shape.objects or any(map(has_large_steps, shape.numbers)):
        return None
    terminal = scalar_terminal(shape, options.spelling)
    return None if terminal is None else write_inside(options.free(terminal).item, options.limits)


@lru_cache(maxsize=_MOST_KEPT)
def _names(text: bytes, draft: int, options: PlainOptions) -> bytes | None:
    """What stands inside the terminals of names that match a schema's pattern, other than its properties, and do not.

    None unless there are both, and it matches none of the properties.
    """
    limits = options.limits
    loader = Loader({"$schema": _NAMES[draft], **read_json(text.decode())}, limits)
    normalizer = Normalizer(loader, limits, Refusals(), enforce_formats=False)
    (objects,) = normalizer.goal((loader.root,)).objects
    names = normalizer.key_order((loader.root,)).names
    if any(normalizer.property_goal(objects.parts, name) for name in names):
        return None
    classes = Keys(normalizer, options.tokens()).extras(objects, names)
    keys = (options.free(each.key) for each in classes if isinstance(each.key, Terminal))
    inside = b"".join(write_inside(key.item, limits) for key in keys)
    return inside if len(classes) == 2 else None


def _inside(of: Any, text: bytes, draft: int, options: PlainOptions) -> bytes | None:
    """What `_scalars` or `_names` says of a schema; None also where lowering the whole schema explains why."""
    try:
        made = of if len(text) <= _LONGEST_KEPT else of.__wrapped__
        return made(text, draft, options)  # type: ignore[no-any-return]
    except (FormatterError, RecursionError):
        return None
