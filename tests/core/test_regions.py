"""Budgets of tokens for parts of a text."""

from __future__ import annotations

import random
from typing import Any

import pytest

from formatter_core import Compiler, Formatter, FormatterBuilder, Vocabulary, bitmask, formats, to_gbnf, to_kbnf
from formatter_core.engine.native import NativeEngine
from formatter_core.errors import BudgetTooSmall, InvalidArgument, InvalidGrammar, TokenRejected, UnsupportedByEngine
from formatter_core.grammar import Bytes, Grammar, Member, Members, Region, Terminal, Way
from formatter_core.layouts import Layout
from formatter_core.limits import DEFAULT_LIMITS
from scripts.compare_budgets import compare_budgets

WORDS = ["think", "</think>", "</", ">{", "ab", "abab", '{"', '":', '"}', "]]", "x;", ";y"]
TOKENS = [*(bytes([byte]) for byte in range(256)), *(word.encode() for word in WORDS)]
END = len(TOKENS)
ANSWER = formats.json_schema({"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]})


@pytest.fixture(scope="module")
def compiler() -> Compiler:
    return Compiler(Vocabulary([*TOKENS, None], [END]), engine="native")


def ids(*texts: str) -> list[int]:
    return [TOKENS.index(text.encode()) for text in texts]


def walked(formatter: Formatter, rng: random.Random) -> list[int]:
    while not formatter.is_finished:
        formatter.accept_token(rng.choice(formatter.allowed_tokens()))
    return list(formatter.tokens)


def tokens_up_to(tokens: list[int], end: bytes) -> int:
    """Count the tokens up to the first `end`."""
    text = b""
    for count, token in enumerate(tokens, 1):
        text += TOKENS[token]
        if end in text:
            return count
    raise AssertionError(text)


@pytest.mark.parametrize("most", [1, 2, 5, 30])
def test_a_region_ends_within_its_budget(compiler: Compiler, most: int) -> None:
    compiled = compiler.compile(formats.sequence(formats.until("</think>", max_tokens=most), ANSWER))
    used = set()
    for seed in range(20):
        formatter = compiled.formatter(max_tokens=most + 40)
        tokens = walked(formatter, random.Random(seed))
        used.add(tokens_up_to(tokens, b"</think>"))
        assert formatter.result().is_complete
        assert len(tokens) <= most + 40
    assert max(used) == most


def test_at_the_end_of_the_budget_its_own_closing_is_what_remains(compiler: Compiler) -> None:
    formatter = compiler.compile(formats.sequence(formats.until("</think>", max_tokens=3), ANSWER)).formatter()
    formatter.accept_tokens(ids("a", "think"))
    assert formatter.allowed_tokens() == ids("</think>")
    formatter.accept_token(ids("</think>")[0])
    assert formatter.forced_bytes().startswith(b"{")
    assert formatter.result().shortened is not None


def test_far_from_the_end_of_the_budget_masks_are_the_ordinary_ones(compiler: Compiler) -> None:
    formats_of = [lambda most: formats.sequence(formats.until("</think>", max_tokens=most), ANSWER)]
    formats_of.append(lambda most: formats.repeat(formats.within(ANSWER, most) if most else ANSWER, separator=", "))
    for format_of in formats_of:
        plain, limited = (compiler.compile(format_of(most)).formatter() for most in (None, 1000))
        rng = random.Random(3)
        for _ in range(60):
            allowed = plain.allowed_tokens()
            assert limited.allowed_tokens() == allowed
            token = rng.choice(allowed)
            plain.accept_token(token)
            limited.accept_token(token)
        assert limited.result("length").shortened is None


def test_a_token_counts_for_the_part_that_it_begins_in(compiler: Compiler) -> None:
    part = formats.regex("a*;", max_tokens=2)
    compiled = compiler.compile(formats.sequence("x", part, "y"))
    formatter = compiled.formatter()
    assert formatter.accept_tokens(ids("x;", "y")) == 2  # the part has come with a token that begins before it
    formatter = compiled.formatter()
    assert formatter.accept_tokens(ids("x", "a", "a")) == 2
    assert formatter.allowed_tokens() == sorted(ids(";", ";y"))  # and may end with one that goes beyond it
    formatter = compiled.formatter()
    assert formatter.accept_tokens(ids("x", "a", ";y")) == 3
    assert formatter.must_stop


def test_each_entry_is_counted_anew(compiler: Compiler) -> None:
    compiled = compiler.compile(formats.repeat(formats.regex("[a-z]*;", max_tokens=3), 3, 3))
    for seed in range(10):
        tokens = walked(compiled.formatter(), random.Random(seed))
        parts = b"".join(b" " + TOKENS[token] for token in tokens[:-1]).split(b";")
        assert len(parts) == 4
        assert all(part.count(b" ") <= 4 for part in parts)


def test_regions_nest_and_recur(compiler: Compiler) -> None:
    grammar = 'start ::= "[" start? "]";'
    inner = formats.within(formats.kbnf(grammar), 6)
    compiled = compiler.compile(formats.within(formats.sequence("x", inner, formats.regex("b*;")), 8))
    for seed in range(20):
        tokens = walked(compiled.formatter(), random.Random(seed))
        text = b"".join(TOKENS[token] for token in tokens[:-1])
        assert len(tokens) - 1 <= 8
        assert tokens_up_to(tokens, b"]" * text.count(b"]")) <= 7


def test_too_small_a_budget_is_refused_when_it_is_compiled(compiler: Compiler) -> None:
    with pytest.raises(BudgetTooSmall, match="; give at least 4") as raised:
        compiler.compile(formats.sequence(formats.regex("x{4}y*"), formats.regex("c{4}", max_tokens=3)))
    assert raised.value.needed == 4
    assert raised.value.max_tokens == 3
    compiler.compile(formats.regex("c{4}", max_tokens=4))


DIFFERENT = formats.json_schema({"type": "array", "items": {"type": "string"}, "uniqueItems": True, "minItems": 3})
FOUR_KEYS = {"type": "object", "minProperties": 4}
WITH_ONE = {"type": "array", "items": {"type": ["string", "integer"]}, "uniqueItems": True, "contains": {"const": "ab"}}


@pytest.mark.parametrize(
    "format_",
    [
        formats.sequence(formats.until("</think>", max_tokens=1), formats.json_schema(FOUR_KEYS)),
        formats.sequence(formats.json_schema(WITH_ONE), formats.until("</think>", max_tokens=3)),
        formats.within(DIFFERENT, 20),
        formats.within(formats.sequence(formats.until("</think>", max_tokens=9), DIFFERENT), 30),
    ],
)
def test_values_that_differ_have_budgets_beside_and_inside_of_parts(compiler: Compiler, format_: Any) -> None:
    compiled = compiler.compile(format_)
    assert compiled.min_tokens < 40
    for seed in range(10):
        rng = random.Random(seed)
        formatter = compiled.formatter(max_tokens=compiled.min_tokens + seed)
        while not formatter.is_finished:
            allowed = formatter.allowed_tokens()
            assert allowed == [token for token in range(END + 1) if formatter.count_valid([token])]
            formatter.accept_token(rng.choice(allowed))
        assert len(formatter.tokens) <= compiled.min_tokens + seed


def test_values_that_differ_need_a_budget_of_their_own(compiler: Compiler) -> None:
    with pytest.raises(BudgetTooSmall) as raised:
        compiler.compile(formats.within(DIFFERENT, 11))
    assert raised.value.needed == 12  # ["","a","b"]
    compiler.compile(formats.within(DIFFERENT, 12))


def test_it_composes_with_a_budget_for_the_whole(compiler: Compiler) -> None:
    compiled = compiler.compile(formats.sequence(formats.until("</think>", max_tokens=9), ANSWER))
    assert compiled.min_tokens == compiler.compile(formats.sequence(formats.until("</think>"), ANSWER)).min_tokens
    for more in range(12):
        for seed in range(4):
            formatter = compiled.formatter(max_tokens=compiled.min_tokens + more)
            tokens = walked(formatter, random.Random(seed))
            assert len(tokens) <= compiled.min_tokens + more
            assert formatter.result().is_complete
            assert tokens_up_to(tokens, b"</think>") <= 9


def test_rollback_forks_drafts_and_batches_keep_it(compiler: Compiler) -> None:
    compiled = compiler.compile(formats.sequence(formats.until("</think>", max_tokens=4), ANSWER))
    formatter = compiled.formatter()
    assert formatter.count_valid(ids("a", "a", "a", "a", "a")) == 3
    assert formatter.accept_tokens(ids("a", "a", "a", "a")) == 3
    allowed = formatter.allowed_tokens()
    copy = formatter.fork()
    formatter.rollback(2)
    assert len(formatter.allowed_tokens()) > 100
    formatter.accept_tokens(ids("b", "c"))
    assert formatter.allowed_tokens() == allowed == copy.allowed_tokens() == ids("</think>")
    formatter.reset()
    rows = bitmask.allocate(2, len(compiled.vocabulary))
    bitmask.fill_batch([formatter, copy], rows)
    assert [len(bitmask.allowed_ids(row)) > 100 for row in rows] == [True, False]


def test_bytes_without_a_token_count_for_nothing(compiler: Compiler) -> None:
    formatter = compiler.compile(formats.sequence(formats.until("</think>", max_tokens=2), ANSWER)).formatter()
    formatter.accept_bytes(b"some text " * 20)
    formatter.accept_token(ids("a")[0])
    assert formatter.allowed_tokens() == ids("</think>")
    with pytest.raises(TokenRejected):
        formatter.accept_token(ids("b")[0])
    assert "budget of a part" in formatter.explain(ids("b")[0])
    assert formatter.explain(ids("</think>")[0]).startswith("allowed")


def test_end_ids_of_one_sequence_that_are_text_are_not_counted_on(compiler: Compiler) -> None:
    compiled = compiler.compile(formats.sequence(formats.until("</think>", max_tokens=8), ANSWER))
    end = ids("</think>")
    formatter = compiled.formatter(end_ids=end)
    for seed in range(5):
        formatter.reset()
        rng = random.Random(seed)
        while not formatter.can_stop:
            formatter.accept_token(rng.choice(formatter.allowed_tokens()))
        assert tokens_up_to(list(formatter.tokens), b"</think>") <= 8
    with pytest.raises(BudgetTooSmall):
        compiler.compile(formats.until("</think>", max_tokens=1)).formatter(end_ids=end)


def test_formats_with_budgets_are_stored_and_parsed(compiler: Compiler) -> None:
    builder = FormatterBuilder()
    builder.append("x: ", builder.string(max_tokens=5, name="x"), "\n", builder.until(";", max_tokens=3, name="y"))
    builder.append(builder.regex("[ab]+", max_tokens=2, name="z"))
    for format in (builder.build(), formats.within({"type": "integer"}, 3), formats.string("a*", max_tokens=2)):
        again = formats.from_json(format.to_json())
        assert again.key() == format.key()
        compiled = compiler.compile(format)
        stored = compiler.from_bytes(compiled.to_bytes())
        assert stored.formatter().allowed_tokens() == compiled.formatter().allowed_tokens()
        assert stored.program.regions == compiled.program.regions > 0
    result = compiler.compile(builder).parse("x: " + "long " * 20 + "\nmany words here;abab")
    assert result.is_complete
    assert result.value["z"] == "abab"


def test_what_cannot_keep_it_refuses() -> None:
    format = formats.until("</think>", max_tokens=9)
    with pytest.raises(UnsupportedByEngine):
        Compiler(Vocabulary.of_bytes(), engine="kbnf").compile(format)
    for write in (to_gbnf, to_kbnf):
        with pytest.raises(InvalidGrammar, match="budget"):
            write(format)
    member = Member((Way(Region(Bytes(b"a"), 2)),))
    with pytest.raises(InvalidGrammar, match="member"):
        Grammar({"r": Members((member,), Terminal(Bytes(b",")))}, "r").check(DEFAULT_LIMITS)


@pytest.mark.parametrize("most", [0, -1, 1.5, "4", True])
def test_other_budgets_are_refused(most: Any) -> None:
    for make in (formats.until, formats.regex, formats.string):
        with pytest.raises(InvalidArgument):
            make("a", max_tokens=most)
    with pytest.raises(InvalidArgument):
        formats.within(True, most)
    with pytest.raises(InvalidArgument):
        formats.chat_answer("qwen3", max_reasoning_tokens=most)


@pytest.mark.parametrize("name", [name for name in Layout.names() if Layout.named(name).reasoning is not None])
def test_reasoning_has_a_budget(compiler: Compiler, name: str) -> None:
    format = formats.chat_answer(name, reasoning="required", max_reasoning_tokens=60, content={"type": "integer"})
    compiled = compiler.compile(format)
    region = Layout.named(name).reasoning
    assert region is not None
    for seed in range(3):
        formatter = compiled.formatter()
        rng = random.Random(seed)
        while not formatter.must_stop and len(formatter.tokens) < 400:
            formatter.accept_token(rng.choice(formatter.allowed_tokens()))
        assert tokens_up_to(list(formatter.tokens), region.close.strip().encode()) <= len(region.open.encode()) + 60
    assert formats.from_json(format.to_json()).key() == format.key()


def test_what_could_leave_at_once_has_its_whole_budget(compiler: Compiler) -> None:
    compiled = compiler.compile(formats.sequence(formats.regex("[a-z]*", max_tokens=2), ";"))
    formatter = compiled.formatter(max_tokens=4)
    assert formatter.accept_tokens(ids("a", "b")) == 2
    assert formatter.allowed_tokens() == ids(";")


@pytest.mark.parametrize("seed", [1161, 1818, 2167, 2494])
def test_grammars_that_were_stranded_once(seed: int) -> None:
    assert compare_budgets(NativeEngine(), [seed], regions=True).differences == []


def test_brute_force_finds_no_fault() -> None:
    report = compare_budgets(NativeEngine(), range(24), regions=True, walks=1)
    assert report.differences == []
    assert report.grammars > 20 < report.narrowed
    assert report.completed > 15
