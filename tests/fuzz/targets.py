"""Targets of the fuzzers: each takes arbitrary bytes, and raises where something is wrong.

Only errors of ours may leave the library, and none of these may be wrong: what a mask allows is accepted, a text that
may end is read by `jsonschema`, `re` or our own parser, and a state that was reached in any way equals that of a fresh
sequence with the same tokens. The limits are so low that an input which takes a second is a fault, too.
"""

from __future__ import annotations

import itertools
import json
import re
import unicodedata
import warnings
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from typing import Any, cast

import jsonschema
import numpy as np

from formatter_core import CompiledFormat, Compiler, Formatter, FormatterBuilder, Limits, Vocabulary, bitmask, formats
from formatter_core.engine.native import NativeEngine
from formatter_core.errors import BudgetTooSmall, DeadEnd, FormatterError, UnsatisfiableSchema
from tests.core.random_schemas import VALIDATORS
from tests.core.schema_judge import orders_of
from tests.fuzz.built_schemas import DRAFTS, build_document, build_schema
from tests.fuzz.decisions import Decisions

__all__ = ["TARGETS"]

LIMITS = Limits(
    nodes=20_000, states=5_000, cache_bytes=2**20, repeat=2_000, depth=40, work=300_000, forced_bytes=64, max_top_n=8
)
#: The most tokens of one walk.
STEPS = 120
BYTES = Vocabulary.of_bytes()
#: Tokens that overlap, cut characters and cross the borders of JSON's parts.
_TOKENS: list[bytes | None] = [
    *(bytes([byte]) for byte in range(256)),
    *(b'{"', b'":', b'": "', b'", "', b'"}', b"}}", b"[]", b"],", b"true", b"alse", b"null", b"12", b"123", b"-1"),
    *(b"ab", b"abc", b"bca", b"aa", b"aaaa", b"  ", b",\n", b"\n  ", b"\\u", b"\\n", b'\\"', b"\xc3\xa9", b"\xe6\x97"),
    *(b"\x97\xa5", b"name", b'"name"', b"<c>", b"</c>", b"kind", b"date", b"2026-", b"e+", b".5", b"0."),
    None,
]
OVERLAPPING = Vocabulary(_TOKENS, end_ids=[len(_TOKENS) - 1])


#: Documents that a schema may refer to: with a name inside, with a reference to itself and to another one.
REGISTRY: dict[str, Any] = {
    "http://r/a": {"$defs": {"n": {"$anchor": "n", "type": "integer", "maximum": 9}}, "type": ["null", "boolean"]},
    "http://r/b": {"type": "array", "items": {"anyOf": [{"$ref": "#"}, {"$ref": "a#n"}]}, "maxItems": 2},
}


def _split(data: bytes) -> tuple[int, bytes, Decisions]:
    """Options, a text, and what chooses tokens after it: the text ends at the first byte 0."""
    text, _, rest = data[1:].partition(b"\0")
    return data[0] if data else 0, text, Decisions(rest)


def _compile(compiler: Compiler, format: Any) -> CompiledFormat[Any] | None:
    """A format that is compiled, if it can be; whatever else than an error of ours is a fault."""
    try:
        return compiler.compile(format)
    except FormatterError as error:
        assert str(error)
        return None


@cache
def _compiler(of_bytes: bool = True) -> Compiler:
    return Compiler(BYTES if of_bytes else OVERLAPPING, limits=LIMITS, cache_bytes=0)


def _walk(compiled: CompiledFormat[Any], chosen: Decisions) -> Formatter[Any] | None:
    """A text of the format, token by token; None where limits end it."""
    formatter = compiled.formatter()
    ends = set(formatter.compiled.vocabulary.end_ids)
    try:
        for step in range(STEPS):
            allowed = formatter.allowed_tokens()
            assert allowed, "no token is allowed"
            assert formatter.can_stop == bool(ends & set(allowed))
            number = chosen.below(len(allowed)) if chosen.is_left else (len(allowed) - 1 if formatter.can_stop else 0)
            token_id = allowed[number]
            formatter.accept_token(token_id)
            if formatter.is_finished:
                break
            if step % 16 == 7:
                formatter.rollback(1)
                assert formatter.allowed_tokens() == allowed
                formatter.accept_token(token_id)
    except DeadEnd:
        raise AssertionError("every byte is a token, so no text may end in a dead end") from None
    except FormatterError:  # a limit
        return None
    return formatter


def _check_read(compiled: CompiledFormat[Any], formatter: Formatter[Any]) -> None:
    """The parser finds the written text in the format as well, and it may be cut anywhere."""
    try:
        result = compiled.parse(formatter.bytes)
        assert result.is_complete == (formatter.is_finished or formatter.can_stop), result.missing
    except FormatterError:  # a limit
        return


def program(data: bytes) -> None:
    """A program of the library as it is stored: `FCG6`, then whatever the input says."""
    length = 1 + (data[0] if data else 0)
    code, chosen = b"FCG6" + data[1 : 4 * length], Decisions(data[4 * length :])
    engine = _engine()
    try:
        grammar = engine.load(code, 0, len(code), 0, OVERLAPPING, LIMITS)
        state = grammar.start()
    except FormatterError:
        return
    row, again = (np.zeros(OVERLAPPING.words, dtype=np.int32) for _ in range(2))
    taken: list[int] = []
    try:
        for _ in range(STEPS // 4):
            state.fill_bitmask(row)
            fresh = grammar.start()
            assert all(fresh.accept_token(token_id) for token_id in taken)
            fresh.fill_bitmask(again)
            assert (row == again).all()
            assert state.can_stop() == fresh.can_stop()
            allowed = bitmask.allowed_ids(row)
            if not len(allowed) or not chosen.is_left:
                break
            token_id = int(allowed[chosen.below(len(allowed))])
            assert state.accept_token(token_id)
            taken.append(token_id)
            if chosen.below(4) == 0:
                back = chosen.below(len(taken) + 1)
                state.rollback(back)
                del taken[len(taken) - back :]
    except FormatterError:
        return


@cache
def _engine() -> NativeEngine:
    return NativeEngine()


def schema(data: bytes) -> None:
    """A JSON Schema with options, a walk through it, and `jsonschema` as the judge of its text."""
    bits, text, chosen = _split(data)
    source = text.decode("utf-8", "replace")
    options: dict[str, Any] = {
        "key_order": ("schema", "any")[bits & 1],
        "spelling": ("canonical", "any")[bits >> 1 & 1],
        "whitespace": ("flexible", "compact", "one_line", "flexible")[bits >> 2 & 3],
        "on_unsupported": ("error", "warn")[bits >> 4 & 1],
        "string_formats": ("enforce", "annotate")[bits >> 5 & 1],
        "registry": REGISTRY if bits >> 7 else None,
    }
    try:
        format = formats.json_schema(source, **options)
    except FormatterError:
        return
    compiled = _compile(_compiler(), format)
    if compiled is None:
        return
    if bits >> 6 & 1:
        stored = compiled.to_bytes()
        assert _compiler().from_bytes(stored).formatter().allowed_tokens() == compiled.formatter().allowed_tokens()
    formatter = _walk(compiled, chosen)
    if formatter is None:
        return
    _check_read(compiled, formatter)
    if (formatter.is_finished or formatter.can_stop) and options["on_unsupported"] == "error":
        _judge(source, formatter.text)


#: Schemas for which `jsonschema` departs from the specification: its patterns are Python's, and its numbers floats.
_OTHERWISE = re.compile(
    r'"(pattern|patternProperties|multipleOf|\$ref|\$dynamicRef|\$schema|\$id|id|format)"|[0-9]{15}|[0-9.][eE]|\\u'
)


#: Numbers that `jsonschema` may round.
_IMPRECISE = re.compile(r"[0-9]{15}|[0-9.][eE]")


def _judge(source: str, text: str) -> None:
    if _OTHERWISE.search(source) or _IMPRECISE.search(text):
        return
    value, wanted = json.loads(text), json.loads(source)
    try:
        is_valid = jsonschema.Draft202012Validator(wanted).is_valid(value)
    except Exception:  # noqa: BLE001 - a faulty schema, in any of its ways
        return
    assert is_valid, f"{text!r} was written for {source!r}"


def built_schema(data: bytes) -> None:
    """A schema that the input builds, in both orders of keys; `jsonschema` judges a text and a document."""
    chosen = Decisions(data)
    bits, draft = chosen.byte(), chosen.choice(list(DRAFTS))
    whitespace = ("flexible", "compact", "one_line", "flexible")[bits & 3]
    options: dict[str, Any] = {
        "spelling": ("canonical", "any")[bits >> 2 & 1],
        "whitespace": whitespace,
        "string_formats": "enforce" if bits >> 3 & 3 == 3 else "annotate",
    }
    wanted = build_schema(chosen, draft)
    validator = VALIDATORS[draft](wanted)
    document = build_document(chosen)
    in_order, in_any = (_built(wanted, key_order=order, **options) for order in ("schema", "any"))
    judged = options["string_formats"] == "annotate"  # `jsonschema` enforces no format
    if judged and isinstance(in_order, UnsatisfiableSchema):
        assert _verdict(validator, document) is not True, f"{wanted} has no document, but {document} is one"
    compiled = in_any if bits >> 5 & 1 else in_order
    if not isinstance(compiled, CompiledFormat):
        return
    formatter = _walk(compiled, chosen)
    if formatter is None:
        return
    _check_read(compiled, formatter)
    _check_stored(compiled, formatter)
    if formatter.is_finished or formatter.can_stop:
        if isinstance(in_any, CompiledFormat):
            assert _reads(in_any, formatter.text) is not False, f"not in any order: {formatter.text!r} for {wanted}"
        if judged and not _IMPRECISE.search(formatter.text) and '\\n"' not in formatter.text:
            verdict = _verdict(validator, json.loads(formatter.text))
            assert verdict is not False, f"{formatter.text!r} was written for {wanted}"
    if judged:
        expected = _verdict(validator, document)
        found = _accepts(in_order, in_any, document, options)
        assert None in (expected, found) or expected == found, f"{document} was judged {found} by {wanted}"


def _built(wanted: Any, **options: Any) -> CompiledFormat[Any] | FormatterError:
    """A compiled schema, or why there is none."""
    try:
        return _compiler().compile(formats.json_schema(wanted, **options))
    except FormatterError as error:
        return error


def _verdict(validator: Any, document: Any) -> bool | None:
    """Return whether `jsonschema` finds a document valid; None if it fails."""
    try:
        return bool(validator.is_valid(document))
    except Exception:  # noqa: BLE001 - `jsonschema` trips over some schemas, and recursion may have no end
        return None


def _reads(compiled: CompiledFormat[Any], text: str) -> bool | None:
    """Return whether a text is complete; None if limits end the reading."""
    try:
        return compiled.parse(text).is_complete
    except FormatterError:
        return None


def _accepts(in_order: Any, in_any: Any, document: Any, options: dict[str, Any]) -> bool | None:
    """Return whether a document is accepted, in one of the orders of its keys if the order of the schema counts."""
    if options["spelling"] == "canonical" and re.search(r"\d\.0\b", json.dumps(document)):
        return None
    separators = (",", ":") if options["whitespace"] == "compact" else None
    texts = [
        json.dumps(one, ensure_ascii=False, separators=separators) for one in itertools.islice(orders_of(document), 60)
    ]
    found = None
    if isinstance(in_order, CompiledFormat):
        verdicts = {_reads(in_order, text) for text in texts}
        found = None if None in verdicts else True in verdicts
    if isinstance(in_any, CompiledFormat):
        other = _reads(in_any, texts[-1])
        assert None in (found, other) or found == other, (
            f"orders of {texts[0]} are judged in two ways: {found}, {other}"
        )
        found = other if found is None else found
    return found


def _check_stored(compiled: CompiledFormat[Any], formatter: Formatter[Any]) -> None:
    """The format read back from its bytes goes the same way."""
    try:
        again = _compiler().from_bytes(compiled.to_bytes()).formatter()
        assert again.accept_tokens(formatter.tokens) == len(formatter.tokens)
        assert again.can_stop == formatter.can_stop
        if not formatter.is_finished:
            assert again.allowed_tokens() == formatter.allowed_tokens()
    except FormatterError:  # a limit
        return


def pattern(data: bytes) -> None:
    """A regular expression in one of three dialects; Python's own engine judges the texts of its dialect."""
    bits, text, chosen = _split(data)
    source = text.decode("utf-8", "replace")
    dialect = ("rust", "ecma", "python")[bits % 3]
    wanted: Any
    try:
        if dialect == "rust":
            wanted = formats.regex(source)
        elif dialect == "ecma":
            wanted = formats.json_schema({"type": "string", "pattern": source})
        else:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                wanted = re.compile(source)
    except (FormatterError, re.error, RecursionError, OverflowError, MemoryError):
        return
    compiled = _compile(_compiler(), wanted)
    formatter = None if compiled is None else _walk(compiled, chosen)
    if compiled is None or formatter is None:
        return
    _check_read(compiled, formatter)
    if dialect != "python" or not (formatter.is_finished or formatter.can_stop):
        return
    if all(unicodedata.category(character) != "Cn" for character in formatter.text):  # newer than Python's own tables
        assert wanted.fullmatch(formatter.text), f"{formatter.text!r} was written for {source!r}"


def notation(data: bytes) -> None:
    """A grammar in one of the notations, or a format as data."""
    bits, text, chosen = _split(data)
    source = text.decode("utf-8", "replace")
    read = _NOTATIONS[bits % len(_NOTATIONS)]
    try:
        format = read(source)
    except FormatterError:
        return
    compiled = _compile(_compiler(), format)
    formatter = None if compiled is None else _walk(compiled, chosen)
    if compiled is not None and formatter is not None:
        _check_read(compiled, formatter)


def _from_json(source: str) -> Any:
    try:
        data = json.loads(source)
    except (ValueError, RecursionError):
        data = source
    return formats.from_json(data)


_NOTATIONS: tuple[Callable[[str], Any], ...] = (
    formats.lark,
    formats.gbnf,
    formats.ebnf,
    formats.kbnf,
    formats.structural_tag,
    _from_json,
)


@cache
def _formats() -> list[CompiledFormat[Any]]:
    """Formats of all kinds of state: counted, distinct, in any order, with regions, captures, forks of the grammar."""
    builder = FormatterBuilder()
    builder.append("Name: ", builder.regex("[a-c]{1,4}", name="name"), ", age ", builder.integer(name="age"), ".")
    person = {
        "type": "object",
        "properties": {"name": {"type": "string"}, "age": {"type": "integer", "minimum": -12, "maximum": 123}},
        "required": ["name"],
        "additionalProperties": False,
    }
    distinct = {"type": "array", "items": {"enum": ["ab", "abc", 12, True, None]}, "uniqueItems": True, "minItems": 2}
    tagged = {
        "oneOf": [
            {"properties": {"kind": {"const": kind}, kind: {"type": "number"}}, "required": ["kind"]}
            for kind in ("ab", "abc", "b")
        ]
    }
    made: list[Any] = [
        builder,
        formats.json_schema(person),
        formats.json_schema(person, key_order="any", whitespace="compact"),
        formats.json_schema(person, spelling="any"),
        formats.json_schema(distinct),
        formats.json_schema(tagged),
        formats.json_schema({"type": ["string", "null"], "maxLength": 12, "format": "date"}),
        formats.json_schema(True),
        formats.kbnf('start ::= "a" start "b" | "c" | start "," start;'),
        formats.sequence(formats.until("</c>"), formats.choice(["ab", "abc", "é!"])),
        formats.sequence(formats.within(formats.until("ab"), 4), formats.regex("[0-9]*")),
        formats.lark('start: "<c>" (/[ab]+/ "," )* "</c>"'),
        formats.substring_of("the name of 日本 is abc"),
        formats.repeat(formats.one_of(formats.regex("a+"), formats.integer()), 0, 5, separator=","),
    ]
    compiler = _compiler(of_bytes=False)
    return [compiler.compile(one) for one in made]


def state(data: bytes) -> None:
    """A format of a table, then operations on its sequences, each compared with a fresh sequence of the same tokens."""
    chosen = Decisions(data)
    compiled = _formats()[chosen.below(len(_formats()))]
    budget = chosen.below(4) * 12 or None
    if chosen.below(3) == 0:
        compiled = compiled.with_forced_text("longest")
    try:
        live = [compiled.formatter(max_tokens=budget)]
    except BudgetTooSmall:
        return
    operations = 0
    while chosen.is_left and operations < STEPS:
        operations += 1
        formatter = live[chosen.below(len(live))]
        _OPERATIONS[chosen.below(len(_OPERATIONS))](formatter, chosen, live)
        del live[3:]
    for formatter in live:
        fresh = compiled.formatter(max_tokens=budget)
        assert fresh.accept_tokens(formatter.tokens) == len(formatter.tokens)
        assert fresh.allowed_tokens() == formatter.allowed_tokens()
        assert (fresh.can_stop, fresh.must_stop, fresh.bytes) == (
            formatter.can_stop,
            formatter.must_stop,
            formatter.bytes,
        )
        assert fresh.captures == formatter.captures
        assert fresh.forced_bytes() == formatter.forced_bytes()


def _accept(formatter: Formatter[Any], chosen: Decisions, _: list[Formatter[Any]]) -> None:
    allowed = formatter.allowed_tokens()
    token_id = allowed[chosen.below(len(allowed))]
    assert formatter.count_valid([token_id]) == 1
    if chosen.below(2):
        row = np.zeros(OVERLAPPING.words, dtype=np.int32)
        formatter.step(token_id, row)
        assert list(bitmask.allowed_ids(row)) == formatter.allowed_tokens()
    else:
        formatter.accept_token(token_id)


def _accept_any(formatter: Formatter[Any], chosen: Decisions, _: list[Formatter[Any]]) -> None:
    token_id, before = chosen.below(len(OVERLAPPING)), len(formatter.tokens)
    count = formatter.accept_tokens([token_id])
    assert len(formatter.tokens) == before + count


def _rollback(formatter: Formatter[Any], chosen: Decisions, _: list[Formatter[Any]]) -> None:
    formatter.rollback(chosen.below(len(formatter.tokens) + 1))


def _fork(formatter: Formatter[Any], _: Decisions, live: list[Formatter[Any]]) -> None:
    live.append(formatter.fork())


def _look(formatter: Formatter[Any], chosen: Decisions, _: list[Formatter[Any]]) -> None:
    """Events, snapshots, explanations and results change nothing."""
    allowed = formatter.allowed_tokens()
    list(formatter.events())
    formatter.snapshot()
    assert formatter.explain(chosen.below(len(OVERLAPPING)))
    assert formatter.result().is_complete == (formatter.is_finished or formatter.can_stop) or not formatter.is_finished
    assert formatter.allowed_tokens() == allowed


def _batch(formatter: Formatter[Any], _: Decisions, live: list[Formatter[Any]]) -> None:
    """The masks of all at once are those of each alone."""
    rows = bitmask.allocate(len(live), len(OVERLAPPING))
    bitmask.fill_batch(live, rows)
    for one, row in zip(live, rows, strict=True):
        assert list(bitmask.allowed_ids(row)) == one.allowed_tokens()


def _store(formatter: Formatter[Any], _: Decisions, live: list[Formatter[Any]]) -> None:
    """The format read back from its bytes takes the same tokens."""
    tokens, stored = formatter.tokens, cast("CompiledFormat[Any]", formatter.compiled).to_bytes()
    again = _compiler(of_bytes=False).from_bytes(stored).formatter(max_tokens=formatter.max_tokens)
    # Forced text is a setting of the one that compiles, and leaves out tokens that are allowed without it.
    assert again.accept_tokens(tokens) == len(tokens)
    assert {*formatter.allowed_tokens()} <= {*again.allowed_tokens()}


def _step_in_threads(formatter: Formatter[Any], chosen: Decisions, _: list[Formatter[Any]]) -> None:
    """Forks in two threads, which take the same tokens, go the same way."""
    choices = [chosen.byte() for _ in range(4)]

    def walk(fork: Formatter[Any]) -> list[list[int]]:
        found = [fork.allowed_tokens()]
        for choice in choices:
            if fork.is_finished:
                break
            fork.accept_token(found[-1][choice % len(found[-1])])
            found.append([] if fork.is_finished else fork.allowed_tokens())
        return found

    with ThreadPoolExecutor(2) as threads:
        one, other = threads.map(walk, [formatter.fork(), formatter.fork()])
    assert one == other


_Operation = Callable[[Formatter[Any], Decisions, list[Formatter[Any]]], None]
#: Accepting comes up most often, so that texts become long.
_OPERATIONS: tuple[_Operation, ...] = (
    *(_accept,) * 5,
    _accept_any,
    _rollback,
    _fork,
    _look,
    _batch,
    _store,
    _step_in_threads,
)

#: By name.
TARGETS: dict[str, Callable[[bytes], None]] = {
    "program": program,
    "schema": schema,
    "built_schema": built_schema,
    "pattern": pattern,
    "notation": notation,
    "state": state,
}
