"""Token budgets: an output that is always complete within `max_tokens`."""

from __future__ import annotations

import json
import random
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from formatter_core import Compiler, Cursor, Formatter, Vocabulary, bitmask, formats
from formatter_core.engine.native import NativeEngine
from formatter_core.errors import BudgetTooSmall, InvalidArgument, TokenRejected, UnsupportedByEngine
from formatter_core.grammar import EMPTY, Bytes, Grammar, Member, Members, Sequence, Terminal, Way
from formatter_core.limits import DEFAULT_LIMITS
from scripts.compare_budgets import compare_budgets
from tests.sampling import sampled

pytestmark = [
    pytest.mark.usefixtures("no_error_says_anything_twice"),
]

END = 300
PERSON = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "minLength": 3},
        "tags": {"type": "array", "items": {"type": "string"}, "minItems": 1},
        "next": {"$ref": "#"},
    },
    "required": ["name", "tags"],
    "additionalProperties": False,
}
LETTERS = formats.regex('"[a-z]*"')
COMMA = Terminal(Bytes(b","))


def in_any_order(count: int, required: int, **keywords: Any) -> Any:
    """Objects of more keys than are written out as rules."""
    names = [f"{'ab'[index % 2]}{index}" for index in range(count)]
    kinds = ({"type": "integer"}, {"type": "string"}, {"$ref": "#"})
    properties = {name: kinds[index % 3 if index >= required else index % 2] for index, name in enumerate(names)}
    schema = {"type": "object", "properties": properties, "required": names[:required], **keywords}
    return formats.json_schema({"additionalProperties": False, **schema}, key_order="any")


PAIRS = [{"anyOf": [{"required": [f"a{2 * pair}"]}, {"required": [f"b{2 * pair + 1}"]}]} for pair in range(10)]
LISTS_OF_MEMBERS = [
    in_any_order(30, 8),
    in_any_order(20, 0, minProperties=3, maxProperties=5),
    in_any_order(20, 0, allOf=PAIRS),
    in_any_order(20, 1, dependentRequired={"a0": ["b1"], "b1": ["a4"], "b3": ["a4", "b5"]}, minProperties=4),
]
FORMATS: list[Any] = [
    PERSON,
    {"type": "array", "items": {"enum": ["a", "bc", 12, None]}, "minItems": 2},
    {"type": "string", "maxLength": 40},
    True,
    formats.regex("(ab|a)*c{3,9}"),
    formats.until("\n\n"),
    formats.sequence(formats.until("</think>"), formats.json_schema({"type": "integer"})),
    formats.kbnf("start ::= start 'x' | 'ab' start 'c' | 'd';"),
]


@pytest.fixture(scope="module")
def compiler() -> Compiler:
    quoted = ['"name"', '{"', '":', '","', '"}', "]}", '"]}', "]}}", '": "', '": [']
    words = [*quoted, "name", "tags", "ab", "abab", "cc", "think"]
    tokens = [*(bytes([byte]) for byte in range(256)), *(word.encode() for word in words)]
    padded = [*tokens, *[None] * (END + 1 - len(tokens))]
    return Compiler(Vocabulary(padded, [END]), engine="native")


def walked(formatter: Formatter, rng: random.Random) -> int:
    """Take random tokens to the end; how many they were."""
    count = 0
    while not formatter.is_finished:
        formatter.accept_token(rng.choice(formatter.allowed_tokens()))
        count += 1
    return count


@pytest.mark.parametrize("format", FORMATS, ids=str)
def test_every_walk_is_complete_within_its_budget(compiler: Compiler, format: Any) -> None:
    compiled = compiler.compile(format)
    for more in (0, 1, 2, 5, 20, 60):
        for seed in range(6):
            formatter = compiled.formatter(max_tokens=compiled.min_tokens + more)
            assert walked(formatter, random.Random(seed)) <= compiled.min_tokens + more
            assert formatter.result().is_complete
            assert compiled.parse(formatter.bytes).is_complete


def member(*texts: bytes, meets: int = 0, absent: int = 0, required: bool = False) -> Member:
    return Member(tuple(Way(Bytes(text), meets) for text in texts), required, absent=absent)


@pytest.mark.parametrize(
    ("members", "any_order", "in_order"),
    [
        (Members((member(b"a", required=True), member(b"ab", b"b", required=True)), Terminal(EMPTY)), "a b", "a b"),
        (Members((member(b"c"), member(b"b"), member(b"a"), member(b"aa")), COMMA, minimum=2), "a, b", "b,a"),
        (Members((member(b"a", meets=1), member(b"b", meets=2, absent=1)), COMMA, conditions=2), "a, b", "a, b"),
    ],
)
def test_members_are_completed_by_the_shortest_text(members: Members, any_order: str, in_order: str) -> None:
    """Of several the first; what stands between spaces is a token."""
    vocabulary = Vocabulary([*(bytes([byte]) for byte in range(256)), b"a,", b"ba", b"b,a", None], [259])
    for ordered, shortest in ((False, any_order), (True, in_order)):
        grammar = Grammar({"start": replace(members, ordered=ordered)}, "start")
        start = NativeEngine().compile(grammar, vocabulary, DEFAULT_LIMITS).start()
        assert start.set_budget(0, ()) == len(shortest.split()) + 1


@pytest.mark.parametrize("format", LISTS_OF_MEMBERS, ids=["required", "counted", "pairs", "dependent"])
def test_walks_through_members_that_are_not_written_out_are_complete(compiler: Compiler, format: Any) -> None:
    compiled = compiler.compile(format)
    for more in (0, 1, 5, 40):
        for seed in range(4):
            formatter = compiled.formatter(max_tokens=compiled.min_tokens + more)
            assert walked(formatter, random.Random(seed)) <= compiled.min_tokens + more
            assert json.loads(formatter.text)


def test_after_each_of_many_required_members_the_others_are_spelt_in_as_few_tokens_as_possible() -> None:
    """Tokens reach over the ends of members, over a whole one, and over the end of the list."""
    texts = [b"aa", b"ba", b"a", b"bb", b"c", b"ca", b"b", b"cc"]
    words = [b"a,b", b",bb,", b"c,ca,", b",c", b"aa,", b"a,aa", b"c!", b",c,c"]
    tokens = [*(bytes([byte]) for byte in range(256)), *words]
    vocabulary = Vocabulary([*tokens, None], [len(tokens)])
    members = Members(tuple(member(text, required=True) for text in texts), COMMA)
    grammar = Grammar({"start": Sequence((members, Terminal(Bytes(b"!"))))}, "start")
    compiled = NativeEngine().compile(grammar, vocabulary, DEFAULT_LIMITS)

    def fewest(text: bytes) -> int:
        counts = [0]
        for end in range(1, len(text) + 1):
            counts.append(1 + min(counts[end - len(token)] for token in tokens if text[:end].endswith(token)))
        return counts[-1]

    def completed(first: bytes) -> bytes:
        others = sorted((text for text in texts if text != first), key=lambda text: text + b",")
        return b",".join([first, *others]) + b"!"

    for prefix in {text[:length] for text in texts for length in (0, 1, 2)}:
        state = compiled.start()
        state.accept_bytes(prefix)
        rests = [completed(text)[len(prefix) :] for text in texts if text.startswith(prefix)]
        assert state.set_budget(0, ()) == fewest(min(rests)) + 1


def test_what_is_kept_of_a_list_does_not_grow_with_its_members() -> None:
    """Grammars that are written before the rest of a list count as memory, and are dropped while they are small."""
    length, names = 50_000, [bytes([name]) for name in b"abcdefgh"]
    long = Terminal(Bytes(b"y" * length))
    ways = [(Way(Bytes(name)), Way(Sequence((Terminal(Bytes(name)), long)))) for name in names]
    members = Members(tuple(Member(way, required=True) for way in ways), COMMA)
    compiled = NativeEngine().compile(Grammar({"start": members}, "start"), Vocabulary.of_bytes(), DEFAULT_LIMITS)
    sizes = []
    for name in names:
        state = compiled.start()
        state.accept_bytes(name + b"y")
        assert state.set_budget(0, ()) == length + 2 * (len(names) - 1)
        sizes.append(sum(compiled.memory().values()))
    assert sizes[1] - sizes[0] > 8 * (length - 2)
    assert max(sizes) - sizes[0] < 8 * (2**18 + length)


STRINGS = {"type": "array", "uniqueItems": True, "items": {"type": "string"}}
ONE_BYTE = [chr(code) for code in range(0x20, 0x80) if chr(code) not in '"\\']
CONTAINED = [{"contains": {"const": "long"}}, {"contains": {"enum": ["a", "long"]}}]


@pytest.mark.parametrize(
    ("schema", "shortest"),
    [
        ({**STRINGS, "minItems": 3}, '["","a","b"]'),
        (
            {**STRINGS, "minItems": 300},
            json.dumps(["", *ONE_BYTE, *map(str, range(10, 100)), *map(chr, range(0x80, 0xF3))], ensure_ascii=False),
        ),
        ({**STRINGS, "items": {"type": "integer"}, "minItems": 12}, "[0,1,2,3,4,5,6,7,8,9,10,11]"),
        ({**STRINGS, "items": {"type": ["number", "null"], "maximum": -8}, "minItems": 4}, "[-8,-9,-10,-11]"),
        ({**STRINGS, "items": {"type": "string", "pattern": "^(abcdefghij|k)$"}, "minItems": 2}, '["k","abcdefghij"]'),
        ({**STRINGS, "minItems": 2, "allOf": CONTAINED}, '["","long"]'),
        ({**STRINGS, "minItems": 1, "allOf": [*CONTAINED, {"contains": {"const": "b"}}]}, '["b","long"]'),
        ({"type": "object", "minProperties": 2, "maxProperties": 4, "required": ["name"]}, '{"name":0,"":0}'),
        (
            {
                "type": "object",
                "minProperties": 3,
                "patternProperties": {"^b?$": {"const": "xx"}},
                "additionalProperties": {"type": "integer"},
            },
            '{"a":0,"c":0,"d":0}',
        ),
    ],
)
def test_the_shortest_output_with_values_that_differ(compiler: Compiler, schema: Any, shortest: str) -> None:
    compiled = compiler.compile(formats.json_schema(schema, key_order="any"))
    text = json.dumps(json.loads(shortest), separators=(",", ":"), ensure_ascii=False)
    assert compiled.parse(text).is_complete
    assert compiled.min_bytes == len(text.encode())


@pytest.mark.parametrize("format", FORMATS, ids=str)
def test_one_token_less_than_needed_is_refused(compiler: Compiler, format: Any) -> None:
    compiled = compiler.compile(format)
    if compiled.min_tokens > 1:
        with pytest.raises(BudgetTooSmall, match=str(compiled.min_tokens)) as raised:
            compiled.formatter(max_tokens=compiled.min_tokens - 1)
        assert raised.value.needed == compiled.min_tokens
    assert compiled.min_tokens <= compiled.min_bytes + 1


def test_the_fewest_tokens_are_counted_and_not_the_longest_matches(compiler: Compiler) -> None:
    assert compiler.compile({"const": "ab"}).min_tokens == 4  # `"`, `ab`, `"`, the end
    assert compiler.compile(formats.choice(["abab"])).min_tokens == 2
    assert compiler.compile(formats.regex("a*")).min_tokens == 1


@pytest.mark.parametrize("first", sampled(range(0, 60, 15), 1))
def test_brute_force_finds_no_fault(first: int) -> None:
    report = compare_budgets(NativeEngine(), range(first, first + 15))
    assert report.differences == []
    assert report.grammars > 12 < report.narrowed
    assert "differences: 0" in report.summary()


@pytest.mark.parametrize("first", sampled([110, 146, 0, 10, 20], 2))
def test_brute_force_finds_no_fault_where_values_must_differ(first: int) -> None:
    report = compare_budgets(NativeEngine(), range(first, first + 10), values=True, walks=1)
    assert report.differences == []


@pytest.mark.parametrize("ordered", [False, True])
def test_required_members_come_beside_values_that_may_differ(ordered: bool) -> None:
    value = Member((Way(Terminal(Bytes(b"c"))),), repeated=True, distinct=True)
    required = tuple(Member((Way(Bytes(text)),), required=True) for text in (b"a", b"b"))
    grammar = Grammar({"list": Members((*required, value), COMMA, ordered)}, "list")
    vocabulary = Vocabulary([b"a", b"b", b"c", b",", b"</s>"], [4])
    state = NativeEngine().compile(grammar, vocabulary, DEFAULT_LIMITS).start()
    assert state.set_budget(4, ()) == 4
    for token in (0, 3, 1):
        assert state.accept_token(token), token
    assert state.can_stop()


LISTS_IN_LISTS = {"type": "array", "items": {"anyOf": [{"$ref": "#"}, {"type": "null"}]}, "minItems": 2}


@pytest.mark.parametrize("format", [PERSON, {"type": "object"}, LISTS_IN_LISTS])
def test_far_from_the_end_masks_are_the_ordinary_ones(compiler: Compiler, format: dict[str, Any]) -> None:
    compiled = compiler.compile(format)
    plain, budgeted = compiled.formatter(), compiled.formatter(max_tokens=10_000)
    rng = random.Random(4)
    for _ in range(60):
        allowed = plain.allowed_tokens()
        assert budgeted.allowed_tokens() == allowed
        token = rng.choice(allowed)
        plain.accept_token(token)
        budgeted.accept_token(token)
        if plain.is_finished:
            break
    assert budgeted.result("length").shortened is None


def after(compiler: Compiler, format: Any, text: bytes, **options: Any) -> Formatter:
    """A formatter after the bytes of a text, one token each."""
    formatter = compiler.compile(format).formatter(**options)
    for byte in text:
        formatter.accept_token(byte)
    return formatter


def test_the_result_says_where_the_budget_first_narrowed_a_choice(compiler: Compiler) -> None:
    formatter = compiler.compile(LETTERS).formatter(max_tokens=9)
    shortened = []
    for byte in b'"abcdef':
        formatter.accept_token(byte)
        formatter.allowed_tokens()
        shortened.append(formatter.result().shortened)
    assert shortened[:2] == [None, None]
    first = next(place for place in shortened if place is not None)
    assert shortened[-1] == first  # it stays the first one
    formatter.rollback(8 - first)
    assert formatter.result().shortened is None
    formatter.reset()
    assert formatter.allowed_tokens()
    assert formatter.result().shortened is None


def test_near_the_end_only_what_ends_in_time_is_left(compiler: Compiler) -> None:
    formatter = after(compiler, LETTERS, b'"abcdef', max_tokens=9)
    assert formatter.allowed_tokens() == [ord('"')]
    assert formatter.forced_bytes() == b'"'
    assert not formatter.must_stop
    with pytest.raises(TokenRejected, match="max_tokens = 9: 2"):
        formatter.accept_token(ord("g"))
    assert formatter.explain(ord("g")).startswith("not allowed")
    assert "max_tokens" in formatter.explain(ord("g"))
    assert formatter.explain(ord('"')).startswith("allowed")
    formatter.accept_token(ord('"'))
    assert formatter.must_stop
    assert formatter.can_stop
    assert formatter.allowed_tokens() == [END]
    formatter.accept_token(END)
    assert formatter.result().value == '"abcdef"'


def test_what_may_end_must_end_with_the_last_token(compiler: Compiler) -> None:
    formatter = after(compiler, formats.regex("a*"), b"aaa", max_tokens=4)
    assert formatter.allowed_tokens() == [END]
    assert formatter.must_stop


def test_rollback_forks_and_reset_keep_the_budget(compiler: Compiler) -> None:
    formatter = after(compiler, LETTERS, b'"abcd', max_tokens=8)
    near = formatter.allowed_tokens()
    fork = formatter.fork()
    formatter.accept_token(ord("e"))
    nearer = formatter.allowed_tokens()
    assert set(nearer) < set(near)
    formatter.rollback(1)
    assert formatter.allowed_tokens() == near == fork.allowed_tokens()
    assert fork.count_valid([ord("e"), ord("f"), ord("g")]) == 1
    formatter.reset()
    assert formatter.max_tokens == 8
    assert walked(formatter, random.Random(1)) <= 8


def test_bytes_without_a_token_count_as_none(compiler: Compiler) -> None:
    formatter = compiler.compile(LETTERS).formatter(max_tokens=3)
    formatter.accept_bytes(b'"a')
    formatter.accept_token(ord("b"))
    assert formatter.allowed_tokens() == [ord('"')]
    with pytest.raises(TokenRejected):
        formatter.accept_token(ord("c"))
    formatter.accept_bytes(b"c")
    formatter.rollback(3)
    assert len(formatter.allowed_tokens()) == 2  # a quote, and `"name"`
    formatter.accept_bytes(b'"a')
    assert len(formatter.allowed_tokens()) > 26


def test_a_budget_can_be_set_later(compiler: Compiler) -> None:
    formatter = after(compiler, LETTERS, b'"ab')
    with pytest.raises(BudgetTooSmall) as raised:
        formatter.set_budget(1)
    assert (raised.value.max_tokens, raised.value.needed) == (4, 5)
    formatter.set_budget(2)
    assert formatter.allowed_tokens() == [ord('"')]
    for more in (50, None):
        formatter.set_budget(more)
        assert len(formatter.allowed_tokens()) > 26
    assert formatter.max_tokens is None


def test_a_formatter_within_a_number_has_no_budget_where_nothing_fits(compiler: Compiler) -> None:
    compiled = compiler.compile(LETTERS)
    assert compiled.formatter_within(9).max_tokens == 9
    assert compiled.formatter_within(2).max_tokens is None


def test_batches_and_cursors_keep_budgets(compiler: Compiler) -> None:
    compiled = compiler.compile(LETTERS)
    near, plain = (after(compiler, LETTERS, b'"abc', max_tokens=most) for most in (7, None))
    rows = bitmask.allocate(2, len(compiler.vocabulary))
    assert not Formatter.step_batch([near, plain], [ord("d"), ord("d")], rows)
    masks = [bitmask.allowed_ids(row) for row in rows]
    assert masks[0] == [ord('"')]
    assert len(masks[1]) > 26
    assert near.result().shortened == 5
    assert plain.result().shortened is None

    cursor = Cursor(compiled.formatter(max_tokens=5))
    cursor.follow(list(b'"a'))
    rows = bitmask.allocate(3, len(compiler.vocabulary))
    assert cursor.fill_drafts(list(b"bc"), rows) == 1
    assert [bitmask.allowed_ids(row) for row in rows[1:]] == [[ord('"')], [END]]
    assert cursor.length == 2


def test_own_end_ids_that_are_text_are_no_way_to_the_end(compiler: Compiler) -> None:
    quote_brace = next(i for i, token in enumerate(compiler.vocabulary.tokens) if token == b'"}')
    compiled = compiler.compile({"const": {"a": "b"}})
    fewest = compiled.min_tokens
    with pytest.raises(BudgetTooSmall) as raised:
        compiled.formatter(end_ids=[quote_brace], max_tokens=fewest)
    assert raised.value.needed == fewest + 1
    formatter = compiled.formatter(end_ids=[quote_brace], max_tokens=fewest + 1)
    assert walked(formatter, random.Random(2)) == fewest + 1
    assert formatter.result().is_complete


def test_tokens_that_a_grammar_names_count_as_one() -> None:
    vocabulary = Vocabulary([*(bytes([byte]) for byte in range(256)), None, None], [257])
    compiled = Compiler(vocabulary, engine="native").compile(formats.sequence("a", formats.token(256), "bc"))
    assert compiled.min_tokens == 5
    assert walked(compiled.formatter(max_tokens=5), random.Random(0)) == 5


def test_a_vocabulary_without_single_bytes_is_spelt_by_what_it_has() -> None:
    vocabulary = Vocabulary([b"ab", b"abc", b"ca", b"b", None], [4])
    compiler = Compiler(vocabulary, engine="native")
    assert compiler.compile(formats.regex("abcab")).min_tokens == 3  # `abc`, `ab`, the end
    assert compiler.compile(formats.regex("abca")).min_tokens == 3  # `ab`, `ca`, the end
    with pytest.raises(BudgetTooSmall, match="no output of this format that the vocabulary can spell") as raised:
        compiler.compile(formats.regex("ac")).formatter(max_tokens=9)
    assert raised.value.needed is None


@pytest.mark.parametrize("budget", [0, -1, 1.5, "4"])
def test_other_budgets_are_refused(compiler: Compiler, budget: Any) -> None:
    with pytest.raises(InvalidArgument, match="max_tokens"):
        compiler.compile(LETTERS).formatter(max_tokens=budget)


def test_the_kbnf_engine_refuses_budgets() -> None:
    pytest.importorskip("kbnf")
    compiled = Compiler(Vocabulary.of_bytes(), engine="kbnf").compile({"const": 1})
    with pytest.raises(UnsupportedByEngine, match="native"):
        compiled.formatter(max_tokens=9)
    with pytest.raises(UnsupportedByEngine):
        _ = compiled.min_tokens


def test_masks_are_narrowed_word_for_word(compiler: Compiler) -> None:
    """A row that held something else before holds nothing of it afterwards."""
    formatter = after(compiler, LETTERS, b'"abcdef', max_tokens=9)
    row = np.full(compiler.vocabulary.words + 2, -1, dtype=np.int32)
    formatter.fill_bitmask(row)
    assert bitmask.allowed_ids(row) == [ord('"')]
