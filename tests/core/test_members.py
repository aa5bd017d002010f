"""`Members`: in any order or the written one, each at most once, with conditions between them."""

from __future__ import annotations

import json
import random
from dataclasses import replace
from typing import Any

import jsonschema
import pytest

from formatter_core import Compiler, formats, parse
from formatter_core.engine.native import NativeEngine, NativeGrammar
from formatter_core.engine.native_parser import NativeParser
from formatter_core.engine.shortest import min_bytes
from formatter_core.errors import InvalidGrammar, LimitExceeded
from formatter_core.grammar import (
    EMPTY,
    NOTHING,
    Bytes,
    Capture,
    Choice,
    Grammar,
    Member,
    Members,
    Node,
    Reference,
    Repeat,
    Sequence,
    Way,
    walk,
)
from formatter_core.limits import DEFAULT_LIMITS, Limits
from formatter_core.testing.compare import compare
from formatter_core.testing.oracle import OracleEngine
from formatter_core.testing.random_grammars import Features
from formatter_core.testing.recognizer import Recognizer
from formatter_core.vocabulary import Vocabulary
from tests.sampling import sampled

from .schema_judge import lowered

BYTES = Vocabulary([bytes([value]) for value in range(256)] + [b"</s>"], [256])


def member(text: str, *, required: bool = False, repeated: bool = False, meets: int = 0, absent: int = 0) -> Member:
    return Member((Way(Bytes(text.encode()), meets),), required, repeated, absent)


def members(
    *found: Member, ordered: bool = False, minimum: int = 1, maximum: int | None = None, **more: int
) -> Members:
    return Members(found, Bytes(b","), ordered, minimum, maximum, **more)


def compiled(node: Node, limits: Limits = DEFAULT_LIMITS, **rules: Node) -> NativeGrammar:
    return NativeEngine().compile(Grammar({"start": node, **rules}, "start"), BYTES, limits)


def accepts(node: Node, text: str, **rules: Node) -> bool:
    """Return the native engine's answer, which must be the reference's answer to the rules that are written out."""
    state = compiled(node, **rules).start()
    found = state.accept_bytes(text.encode()) and state.can_stop()
    recognizer = Recognizer(Grammar({"start": node, **rules}, "start"))
    assert found == (all(map(recognizer.push, text.encode())) and recognizer.can_stop())
    return found


A, B, C = member("a"), member("b"), member("c")
NEEDS_B = members(member("a"), member("b", meets=1), C, conditions=1)


@pytest.mark.parametrize(
    ("node", "good", "bad"),
    [
        (members(A, B, C), "a b c a,b b,a c,a,b b,c,a", "a,a a,b,a a, , ab d"),
        (members(A, B, C, ordered=True), "a b c a,b a,c b,c a,b,c", "b,a c,b a,a c,a"),
        (members(member("a", required=True), B), "a a,b b,a", "b b,b"),
        (members(member("a", required=True), member("b", required=True), ordered=True), "a,b", "a b b,a"),
        (members(A, member("x", repeated=True)), "a x x,x x,a,x,x a,x", "a,a x,a,x,a"),
        (members(A, member("x", repeated=True), B, ordered=True), "a,x,x,b x,x b a,b", "x,a b,x x,b,x"),
        (members(A, B, C, minimum=2), "a,b c,a c,b,a", "a b c"),
        (members(A, B, C, maximum=2), "a b,c c,a", "a,b,c c,b,a"),
        (members(A, B, member("x", repeated=True), minimum=3, maximum=3), "a,x,x x,x,x b,x,a", "a,b x,x a,b,x,x"),
        # If there is an a, there is a b.
        (members(member("a", absent=1), member("b", meets=1), C, conditions=1), "c b a,b b,a c,b,a", "a a,c c,a"),
        (members(member("a", absent=1), member("b", meets=1), ordered=True, conditions=1), "b a,b", "a b,a"),
        # One of a and b.
        (members(member("a", meets=1), member("b", meets=1), C, conditions=1), "a b c,a a,b", "c"),
        (members(member("a", meets=1), member("b", meets=1), C, conditions=1, once=1), "a b c,a b,c", "c a,b b,c,a"),
        # Just one of a and b, and one of b and c: with no room for more than one.
        (members(*(member("abc"[i], meets=[1, 3, 2][i]) for i in range(3)), conditions=2, maximum=1), "b", "a c b,a"),
        (members(member("a", absent=1), member("a,b", meets=1), conditions=1), "a,b a,a,b a,b,a", "a a,a"),
    ],
)
def test_what_members_match(node: Members, good: str, bad: str) -> None:
    for text in good.split(" "):
        assert accepts(node, text), text
    for text in [*bad.split(" "), ""]:
        assert not accepts(node, text), text


def test_ways_of_a_member() -> None:
    ways = (Way(Bytes(b"a1"), 1), Way(Bytes(b"a2")))
    node = members(Member(ways), B, conditions=1)
    assert accepts(node, "b,a1")
    assert accepts(node, "a1")
    assert not accepts(node, "a2")
    assert not accepts(node, "a1,a2")


@pytest.mark.parametrize("ordered", [False, True])
def test_what_derives_nothing_never_comes(ordered: bool) -> None:
    endless_ways = Way(Sequence((Bytes(b"a"), NOTHING))), Way(Reference("self"))
    node = members(Member(endless_ways), B, minimum=1, ordered=ordered)
    endless = Sequence((Bytes(b"("), Reference("self")))
    assert accepts(node, "b", self=endless)
    assert not compiled(node, self=endless).start().accept_bytes(b"a")
    required = Member((Way(NOTHING),), required=True)
    for empty in (members(A, B, minimum=3), members(required, B, ordered=ordered), members(ordered=ordered)):
        with pytest.raises(InvalidGrammar, match="derives no text"):
            compiled(empty)


def test_members_nest_repeat_and_recur() -> None:
    node = members(Member((Way(Sequence((Bytes(b"a("), Repeat(Reference("start"), 0, 1), Bytes(b")")))),)), B)
    for text, good in {"b,a(a(b))": True, "a(a(),b)": True, "a(b,b)": False, "a(a(a(b,a(b))))": True}.items():
        assert accepts(node, text) is good
    twice = Sequence((Repeat(members(A, B), 2, 2), Bytes(b".")))
    assert accepts(twice, "a,bb,a.")
    assert accepts(twice, "ab.")
    assert not accepts(twice, "a,b,a.")


def test_members_in_order_stand_anywhere() -> None:
    inner = members(A, B, member("c", repeated=True), ordered=True)
    either = Member((Way(Bytes(b"x")), Way(Sequence((Bytes(b"y("), inner, Bytes(b")"))))))
    outer = members(either, member("z", required=True), member("w", repeated=True), either, ordered=True)
    node = Sequence((Bytes(b"["), Repeat(Sequence((outer, Bytes(b";")))), Bytes(b"]"), inner))
    good = "[]a [z;]b [z;z;]a,b [x,z;]c,c [y(a,c,c),z,w,w;z,y(b);]a,c [z,x;]b,c,c [x,z,x;y(a),z;]b"
    bad = "[] [x;]a [z,]a [z;]a, [z,x,w;]a [y(b,a),z;]a [y(),z;]a [x,x,z;]a [z]a [z;]c,b [z,w,z;]a"
    for text in good.split():
        assert accepts(node, text), text
    for text in bad.split():
        assert not accepts(node, text), text


@pytest.mark.parametrize("ordered", [False, True])
def test_a_member_without_ways_never_comes(ordered: bool) -> None:
    node = members(A, Member(()), member("x", repeated=True), ordered=ordered)
    assert accepts(node, "a,x,x")
    found = NativeParser(Grammar({"start": Capture("all", node)}, "start"), DEFAULT_LIMITS).captures([b"a,x"])
    assert found is not None
    assert found.texts == ["a,x"]


@pytest.mark.parametrize("ordered", [False, True])
def test_a_member_is_never_empty(ordered: bool) -> None:
    for empty in (Repeat(Bytes(b"a")), Sequence((Reference("self"), Repeat(Reference("self"))))):
        node = members(A, Member((Way(Bytes(b"b")), Way(empty))), ordered=ordered)
        with pytest.raises(InvalidGrammar, match="may be empty"):
            compiled(node, self=Choice((Bytes(b"b"), EMPTY)))


@pytest.mark.parametrize(
    ("node", "message"),
    [
        (Members((A,), Reference("start")), "is not regular"),
        (members(A, minimum=3, maximum=2), "minimum <= maximum"),
        (members(member("a", required=True, repeated=True)), "repeated member"),
    ],
)
def test_what_is_not_well_formed(node: Members, message: str) -> None:
    with pytest.raises(InvalidGrammar, match=message):
        Grammar({"start": node}, "start").check(DEFAULT_LIMITS)


def test_counts_have_a_limit() -> None:
    with pytest.raises(LimitExceeded) as caught:
        Grammar({"start": members(A, minimum=1000)}, "start").check(Limits(repeat=100))
    assert caught.value.limit == "repeat"


@pytest.mark.parametrize("first", sampled(range(500_000, 500_060, 20), 1))
def test_the_same_as_written_out(first: int) -> None:
    features = Features(tokens=False, members=True)
    report = compare(OracleEngine(), NativeEngine(), range(first, first + 20), features=features)
    assert not report.differences


def test_values_of_a_list_that_is_captured_are_counted() -> None:
    assert not compare(OracleEngine(), NativeEngine(), [5_017_463]).differences


def test_forty_members_in_any_order() -> None:
    """A sequence has the memory of what it used; undone, it is as before."""
    names = [f"name{number}" for number in range(40)]
    grammar = compiled(members(*map(member, names)))
    rng = random.Random(7)
    for _ in range(20):
        rng.shuffle(names)
        state = grammar.start()
        for index, name in enumerate(names):
            assert state.accept_bytes((b"," if index else b"") + name.encode())
            fork = state.fork()
            assert not fork.accept_bytes(f",{rng.choice(names[: index + 1])},".encode())
        assert state.can_stop()
        assert not state.accept_bytes(b",")
        state.rollback(20)
        assert not state.accept_bytes(f",{names[3]},".encode())
        assert state.accept_bytes(f",{names[30]}".encode())


def test_implications_do_not_multiply() -> None:
    """24 times: if one comes, so does another. As states, in the written order, that were 2 to the power of 24."""
    found = [member(f"a{index}", absent=1 << index) for index in range(24)]
    found += [member(f"b{index}", meets=1 << index) for index in range(24)]
    for ordered in (False, True):
        grammar = compiled(Members(tuple(found), Bytes(b","), ordered, conditions=24))
        state = grammar.start()
        assert state.accept_bytes(b"a1,a7,b1")
        assert not state.can_stop()
        assert state.accept_bytes(b",b7")
        assert state.can_stop()


def test_the_shortest_text_is_found_whatever_the_order() -> None:
    node = members(member("aaaa", required=True), *(member(f"b{index}") for index in range(30)), minimum=2)
    assert min_bytes(Grammar({"start": node}, "start")) == len("aaaa,b1")


def test_what_long_separators_take_under_a_budget_is_charged() -> None:
    """Each way is kept with the separator before it: hundreds of megabytes were."""
    some = members(*(member(f"a{index}") for index in range(100)))
    grammar = compiled(replace(some, separator=Bytes(b"," * 50_000)), Limits(work=2_000_000))
    with pytest.raises(LimitExceeded, match="work"):
        grammar.start().set_budget(9, ())


@pytest.mark.parametrize("count", [30, 6_000])
def test_too_many_states_are_not_written_out(count: int) -> None:
    grammar = Grammar({"start": members(*(member(f"a{index}") for index in range(count)))}, "start")
    with pytest.raises(LimitExceeded, match="list of members"):
        Recognizer(grammar)


def test_members_in_order_are_written_out_without_a_bound() -> None:
    schema = {"properties": {f"key{number}": {"const": 1} for number in range(11_000)}, "type": "object"}
    grammar = lowered({**schema, "additionalProperties": False}, key_order="schema")
    assert min_bytes(grammar) == len("{}")
    assert len(grammar.written_out.rules) < 3 * 11_000
    required = {**schema, "required": ["key10999"]}
    assert min_bytes(lowered(required, key_order="schema")) == len('{"key10999":1}')


def test_each_member_in_order_is_written_once() -> None:
    choice = Member((Way(Bytes(b"b")), Way(Bytes(b"c"))))
    node = members(A, choice, member("x", repeated=True), member("z", required=True), ordered=True)
    rules = Grammar({"start": node}, "start").written_out.rules
    leaves = [each.value for body in rules.values() for each in walk(body) if isinstance(each, Bytes)]
    assert sorted(leaf for leaf in leaves if leaf != b",") == [b"a", b"b", b"c", b"x", b"z"]


@pytest.mark.contract("JSON Schema: key_order")
def test_objects_of_any_number_of_keys_in_any_order() -> None:
    names = [f"key{number}" for number in range(40)]
    schema = {"type": "object", "properties": {key: {"type": "integer"} for key in names}, "required": names[:30]}
    grammar = NativeEngine().compile(lowered(schema, key_order="any"), BYTES, DEFAULT_LIMITS)

    def accepts(text: str) -> bool:
        state = grammar.start()
        return state.accept_bytes(text.encode()) and state.can_stop()

    rng = random.Random(5)
    for _ in range(5):
        rng.shuffle(names)
        document = dict.fromkeys(names, 1)
        assert accepts(json.dumps(document))
        assert accepts(json.dumps({**document, "more": 1}))
        assert not accepts(json.dumps(document)[:-1] + f', "{names[3]}": 1}}')
        del document["key7"]
        assert not accepts(json.dumps(document))


PAIRS = range(24)
IMPLICATIONS: dict[str, dict[str, Any]] = {
    "24 implications": {
        "properties": {f"{letter}{index}": {} for letter in "ab" for index in PAIRS},
        "allOf": [{"if": {"required": [f"a{index}"]}, "then": {"required": [f"b{index}"]}} for index in PAIRS],
    },
    "16 alternatives": {
        "allOf": [{"anyOf": [{"required": [f"a{index}"]}, {"required": [f"b{index}"]}]} for index in PAIRS[:16]]
    },
    "a chain": {"dependentRequired": {f"a{index}": [f"a{index + 1}"] for index in PAIRS}},
}


@pytest.mark.parametrize("order", ["schema", "any"])
@pytest.mark.parametrize("name", IMPLICATIONS)
def test_implications_between_keys(name: str, order: Any) -> None:
    schema = {"type": "object", **IMPLICATIONS[name]}
    grammar = NativeEngine().compile(lowered(schema, key_order=order), BYTES, DEFAULT_LIMITS)
    whole = {f"a{index}": 0 for index in range(25)}
    kept = [whole, {**whole, "b3": 1}, {"b5": 0}, {}, {key: 0 for key in whole if key != "a9"}]
    for document in kept:
        ordered = sorted(document, key=lambda key: (int(key[1:]), key)) if name == "16 alternatives" else document
        state = grammar.start()
        accepted = state.accept_bytes(json.dumps(dict.fromkeys(ordered, 0)).encode()) and state.can_stop()
        assert accepted == jsonschema.Draft202012Validator(schema).is_valid(document)


@pytest.mark.parametrize("count", [40, 200])
def test_what_many_keys_in_any_order_expect_is_explained(count: int) -> None:
    names = [f"key{index}" for index in range(count)]
    schema = {"properties": {name: {"type": "integer"} for name in names}, "required": ["key7"]}
    format = formats.json_schema({**schema, "type": "object", "additionalProperties": False}, key_order="any")
    formatter = Compiler(BYTES).compile(format).formatter()
    formatter.accept_tokens(b'{"key9": 1')
    assert "expected" in str(formatter.result("length").missing)
    formatter.accept_tokens(b', "key')
    assert formatter.explain(ord("7")).startswith("allowed")
    formatter.accept_tokens(b'7": ')
    assert "at #/properties/key7" in formatter.explain(ord("x"))
    formatter.accept_tokens(b"1}")
    assert formatter.result("end").missing is None
    assert "does not match at byte 13" in str(parse(format, '{"key7": 1, "other": 2}').missing)


def test_texts_of_many_keys_in_any_order_are_read() -> None:
    names = [f"key{index}" for index in range(40)]
    schema = {"type": "object", "properties": {name: {"type": "integer"} for name in names}}
    format = formats.json_schema({**schema, "additionalProperties": False}, key_order="any")
    document = {name: index for index, name in enumerate(reversed(names[::3]))}
    assert parse(format, json.dumps(document)).value == document
    for text in ('{"key3": 1, "key3": 2}', '{"key3": "x"}', '{"key3": 1', ""):
        assert not parse(format, text).is_complete


@pytest.mark.contract("JSON Schema: key_order")
def test_a_key_that_comes_too_late_begins_only_where_another_key_may_go_on_from_it() -> None:
    """In the schema's order."""
    properties: dict[str, Any] = {"alpha": {"type": "integer"}, "beta": {"type": "integer"}}
    schema = {"type": "object", "properties": properties}

    def offers(text: str, **more: Any) -> bool:
        formatter = Compiler(BYTES).compile({**schema, **more}).formatter()
        formatter.accept_tokens(b'{"beta": 1, "')
        return formatter.accept_tokens(text.encode()) == len(text)

    assert offers("alphabet")
    assert not offers('alpha"')
    patterns = {"^al(ibi|phas?)$": {"type": "integer"}}
    assert offers("alibi", patternProperties=patterns, additionalProperties=False)
    assert offers("alphas", patternProperties=patterns, additionalProperties=False)
    assert not offers("alph", patternProperties={"^alibi$": {}}, additionalProperties=False)
