"""The native parser: the same answers as the reference parser, in bounded work."""

from __future__ import annotations

import random

import pytest

from formatter_core import FormatterBuilder, formats
from formatter_core.engine.native_parser import NativeParser, parser_of
from formatter_core.errors import InvalidGrammar, LimitExceeded
from formatter_core.formats import as_format
from formatter_core.formats.notations import kbnf
from formatter_core.grammar import (
    NOTHING,
    Bytes,
    Capture,
    Chars,
    Choice,
    Grammar,
    Member,
    Members,
    Reference,
    Repeat,
    Sequence,
    Terminal,
    Token,
    Way,
    optional,
)
from formatter_core.limits import DEFAULT_LIMITS, Limits
from scripts.compare_parsers import compare_parses


def captures(format: object, data: bytes) -> list[tuple[str, int, int]]:
    found = NativeParser(as_format(format).to_grammar(DEFAULT_LIMITS).grammar, DEFAULT_LIMITS).captures([data])
    assert found is not None
    return [(child.name, child.start, child.end) for child in found.match.children]


def test_random_grammars_give_the_captures_of_the_reference() -> None:
    report = compare_parses(range(150))
    assert not report.differences, report.differences[0]
    assert report.with_captures > 150
    assert report.cyclic > 50
    assert report.lengths > 300
    assert not report.refused


def test_random_lists_of_members_give_the_captures_of_the_reference() -> None:
    report = compare_parses(range(300_000, 300_055), ("members", "captures"))
    assert not report.differences, report.differences[0]
    assert report.with_members > 30
    assert report.expectations > 100
    assert report.with_captures > 80
    assert not report.refused


def test_people_are_told_what_is_expected_and_where() -> None:
    name = Capture("name", Terminal(Repeat(Chars.of([(0x61, 0x7A)]), 1)))
    whole = Sequence((Bytes(b"I am "), Reference("t"), Bytes(b"."), optional(Token(3))))
    reading = NativeParser(Grammar({"s": whole, "t": name}, "s"), DEFAULT_LIMITS).reading()
    assert reading.expected() == [("`I am `", "")]
    reading.append([b"I am "])
    assert reading.expected() == [("`a`–`z`", "inside `name`")]
    reading.append([b"x"])
    assert set(reading.expected()) == {("`a`–`z`", "inside `name`"), ("`.`", "")}
    reading.append([b"."])
    assert reading.expected() == [("the token 3", ""), ("the end", "")]


@pytest.mark.parametrize("last", ["never", "b"])
def test_nothing_comes_before_members_that_can_never_be_completed(last: str) -> None:
    names = [("a", True), ("never", False), (last, False)]
    members = tuple(Member((Way(Capture(name, Reference(name))),), required=required) for name, required in names)
    rules = {"a": Bytes(b"a"), "b": Bytes(b"b"), "never": Sequence((Bytes(b"c"), Reference("never")))}
    list_of_members = Capture("list", Members(members, Bytes(b","), ordered=True))
    parser = NativeParser(Grammar({"s": list_of_members, **rules}, "s"), DEFAULT_LIMITS)
    reading, following = parser.reading(), parser.following()
    reading.append([b"a"])
    following.push(b"a")
    may_go_on = last == "b"
    assert {each.what for each in reading.expected()} == ({"the end", "`,`"} if may_go_on else {"the end"})
    closed = [mark.name for mark in following.news().marks if not mark.opens]
    assert closed == (["a"] if may_go_on else ["a", "list"])


@pytest.mark.parametrize("count", [40, 200])
def test_captures_around_and_inside_of_many_members(count: int) -> None:
    """In any order, with a condition between two of them: what follows the list is found, and each member."""
    names = [f"key{index}" for index in range(count)]
    found = tuple(
        Member((Way(Capture(name, Bytes(name.encode())), meets=name == "key1"),), absent=name == "key0")
        for name in names
    )
    list_of_members = Capture("list", Members(found, Bytes(b","), conditions=1))
    grammar = Grammar({"s": Sequence((list_of_members, Capture("end", Repeat(Bytes(b",key0")))))}, "s")
    random.Random(count).shuffle(names)
    text = ",".join(names).encode()
    read = NativeParser(grammar, DEFAULT_LIMITS).captures([text, b",key0,key0"])
    assert read is not None
    match = read.match
    assert [(child.name, child.text) for child in match.children] == [("list", text.decode()), ("end", ",key0,key0")]
    assert [child.name for child in match.children[0].children] == names
    following = NativeParser(grammar, DEFAULT_LIMITS).following()
    following.push(text)
    marks = following.news().marks
    assert [mark.name for mark in marks if mark.opens] == ["list", *names, "end"]
    assert NativeParser(grammar, DEFAULT_LIMITS).captures([b"key0,key2"]) is None


@pytest.mark.parametrize(
    ("text", "taken"),
    [(b"", 0), (b"x", 0), (b"ax", 1), (b"abx", 2), (b"abcx", 3), (b"abc;x", 4), (b"abc;abd", 6), (b"abc;;", 4)],
)
def test_where_a_text_is_refused(text: bytes, taken: int) -> None:
    grammar = kbnf('start ::= item | start ";" item; item ::= x:("a" ("bc" | y:("b" "e")));').to_grammar(DEFAULT_LIMITS)
    reading = NativeParser(grammar.grammar, DEFAULT_LIMITS).reading()
    assert reading.append([text]) == (taken == len(text))
    assert reading.length == taken


def test_two_holes_that_could_be_cut_anywhere() -> None:
    b = FormatterBuilder()
    b.append(b.string(name="one"), b.string(name="other"))
    assert captures(b, b"x" * 4000) == [("one", 0, 4000), ("other", 4000, 4000)]


def test_a_long_hole() -> None:
    assert captures(formats.until("</think>"), b"</th" * 25_000 + b"</think>") == [(".value", 0, 100_000)]


def test_a_text_that_is_ambiguous_everywhere_ends() -> None:
    grammar = kbnf('start ::= start start | "a";').to_grammar(DEFAULT_LIMITS).grammar
    with pytest.raises(LimitExceeded) as error:
        NativeParser(grammar, DEFAULT_LIMITS).captures([b"a" * 400])
    assert error.value.limit == "work"


def test_work_counts_for_the_whole_text() -> None:
    b = FormatterBuilder()
    b.append(*(b.regex("(ab|a|b)*", name=f"hole{number}") for number in range(20)))
    grammar = as_format(b).to_grammar(DEFAULT_LIMITS).grammar
    with pytest.raises(LimitExceeded):
        NativeParser(grammar, Limits(work=20_000)).captures([b"ab"] * 2000)


def test_captures_count_as_work() -> None:
    round_ = Sequence((Bytes(b"a"), *[Capture("x", Sequence(()))] * 1000))
    parser = NativeParser(Grammar({"s": Repeat(round_)}, "s"), Limits(work=300_000))
    with pytest.raises(LimitExceeded, match="work"):
        parser.captures([b"a" * 1000])
    following = parser.following()
    with pytest.raises(LimitExceeded, match="work"):
        following.push(b"a" * 1000)


def test_automata_of_many_texts_are_let_go() -> None:
    words = (Terminal(Repeat(Bytes(bytes([letter])), 0, 150)) for letter in b"ab")
    parser = NativeParser(Grammar({"s": Choice(tuple(words))}, "s"), Limits(states=30))
    for letter in (b"a", b"b", b"a"):  # each alone needs 150 states of the 210 that 7 nodes may have
        before = parser.handle
        assert parser.captures([letter * 150]) is not None
    assert parser.handle is not before


def test_a_reading_goes_on_where_it_stood() -> None:
    reading = NativeParser(as_format(formats.until("x")).to_grammar(DEFAULT_LIMITS).grammar, DEFAULT_LIMITS).reading()
    assert reading.append([b"a"])
    assert not reading.can_stop()
    assert reading.may_go_on()
    assert reading.append([b"bx"])
    assert reading.can_stop()
    assert not reading.may_go_on()
    assert reading.captures().match.children[0].data == b"ab"


def test_what_does_not_go_on_is_told() -> None:
    reading = NativeParser(Grammar({"s": Bytes(b"ab")}, "s"), DEFAULT_LIMITS).reading()
    assert not reading.append([b"ac"])


def test_an_empty_language_is_refused() -> None:
    for body in (NOTHING, Sequence((Bytes(b"a"), Reference("s"))), Choice((Reference("s"),))):
        with pytest.raises(InvalidGrammar):
            NativeParser(Grammar({"s": body}, "s"), DEFAULT_LIMITS)


def test_a_grammar_has_one_parser_as_long_as_it_lives() -> None:
    grammar = Grammar({"s": Bytes(b"a")}, "s")
    assert parser_of(grammar, DEFAULT_LIMITS) is parser_of(grammar, DEFAULT_LIMITS)
