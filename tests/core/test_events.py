"""Captures while streaming: certain, in order, taken back by rollback, and at the end those of the parse."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from formatter_core import Compiler, FormatterBuilder, Limits, Vocabulary, formats
from formatter_core.formats.protocol import Lowered
from formatter_core.grammar import Bytes, Choice, Grammar, Repeat, Sequence, Terminal
from formatter_core.grammar import Capture as CaptureNode
from formatter_core.runtime.events import EventStream
from formatter_core.runtime.result import Capture, Event, HoleOpened, Retracted, TextAdded, ValueCompleted

from .conftest import END, TOKENS


class Listener:
    """A listener that knows only the events."""

    def __init__(self) -> None:
        self.opened: list[HoleOpened] = []
        self.texts: list[tuple[str, str]] = []
        self.values: list[ValueCompleted] = []
        self.retractions = 0

    def hear(self, events: list[Event]) -> None:
        for event in events:
            if isinstance(event, HoleOpened):
                self.opened.append(event)
            elif isinstance(event, TextAdded):
                self.texts.append((event.name, event.text))
            elif isinstance(event, ValueCompleted):
                self.values.append(event)
            else:
                self.retractions += 1
                self.opened = [one for one in self.opened if one.offset < event.to]
                self.values = [one for one in self.values if one.end < event.to]


def kinds(events: list[Event]) -> list[tuple[object, ...]]:
    return [
        ("open", event.name, event.offset) if isinstance(event, HoleOpened)
        else ("text", event.name, event.text) if isinstance(event, TextAdded)
        else ("value", event.name, event.value) if isinstance(event, ValueCompleted)
        else ("back", event.to)
        for event in events
    ]  # fmt: skip


def person() -> FormatterBuilder:
    b = FormatterBuilder()
    return b.append("Name: ", b.regex("[A-Zé]*", name="name"), ", age ", b.integer(name="age"), ".")


@pytest.mark.contract("events open holes, add text, complete values")
def test_events_come_as_soon_as_they_are_certain(compiler: Compiler) -> None:
    formatter = compiler.compile(person()).formatter()
    heard = []
    for byte in "Name: Né, age 12.".replace("N", "N").encode():
        formatter.accept_token(byte)
        heard.extend(kinds(formatter.events()))
    assert heard == [
        ("open", "name", 6), ("text", "name", "N"), ("text", "name", "é"), ("value", "name", "Né"),
        ("open", "age", 15), ("text", "age", "1"), ("text", "age", "2"), ("value", "age", 12),
    ]  # fmt: skip


def test_an_open_hole_is_told_before_its_first_byte_only_where_it_is_certain(compiler: Compiler) -> None:
    formatter = compiler.compile(person()).formatter()
    formatter.accept_bytes(b"Name: ")
    assert kinds(formatter.events()) == [("open", "name", 6)]
    assert formatter.events() == []


@pytest.mark.contract("events tell only what every surviving parse agrees on")
def test_nothing_is_told_while_parses_disagree(compiler: Compiler) -> None:
    b = FormatterBuilder()
    b.append(b.choice(["ab", "abc"], name="x"), b.regex("c?d?", name="y"))
    formatter = compiler.compile(b).formatter()
    formatter.accept_bytes(b"abc")
    assert kinds(formatter.events()) == [("open", "x", 0), ("text", "x", "ab")]
    formatter.accept_token(END)
    assert kinds(formatter.events()) == [
        ("value", "x", "ab"),
        ("open", "y", 2),
        ("text", "y", "c"),
        ("value", "y", "c"),
    ]


@pytest.mark.contract("after a rollback past something delivered, Retracted")
def test_rollback_takes_back_what_was_told(compiler: Compiler) -> None:
    formatter = compiler.compile(person()).formatter()
    for step in (b"Name: A", b", age 1", b"2", b"."):
        formatter.accept_bytes(step)
    formatter.events()
    formatter.rollback(2)
    events = formatter.events()
    assert events[0] == Retracted(14)
    assert ("age", 12) not in [(e.name, e.value) for e in events if isinstance(e, ValueCompleted)]
    formatter.accept_bytes(b".")
    assert kinds(formatter.events())[-1] == ("value", "age", 1)


@pytest.mark.contract("after a rollback past something delivered, Retracted")
def test_other_text_in_place_of_what_was_told(compiler: Compiler) -> None:
    formatter = compiler.compile(person()).formatter()
    formatter.accept_bytes(b"Name: ABC")
    assert kinds(formatter.events()) == [("open", "name", 6), ("text", "name", "ABC")]
    formatter.rollback(1)
    formatter.accept_bytes(b"Name: AXY")
    assert kinds(formatter.events()) == [("back", 7), ("text", "name", "XY")]
    formatter.rollback(1)
    formatter.accept_bytes(b"Name: AXY, ")
    assert kinds(formatter.events()) == [("value", "name", "AXY")]


def test_events_go_on_after_automata_are_let_go() -> None:
    words = Choice(tuple(CaptureNode("word", Terminal(Repeat(Bytes(bytes([letter])), 0, 150))) for letter in b"ab"))
    grammar = Grammar({"s": Sequence((Repeat(Sequence((words, Bytes(b"."))), 0, None),))}, "s")
    limits = Limits(states=20)  # for each node; two words need more
    for letter in (b"a", b"b", b"a"):  # texts whose automata are made by one parser
        stream = EventStream(Lowered(grammar), limits)
        heard = []
        for part in (letter * 100, letter * 50, b"."):
            stream.append([part])
            heard += kinds(stream.advance(None))
        assert heard[0] == ("open", "word", 0)
        assert heard[-1] == ("value", "word", (letter * 150).decode())


@pytest.mark.contract("after a rollback past something delivered, Retracted")
def test_rollback_of_what_was_not_told_is_silent(compiler: Compiler) -> None:
    formatter = compiler.compile(person()).formatter()
    formatter.accept_bytes(b"Na")
    formatter.events()
    formatter.rollback(1)
    formatter.accept_bytes(b"Name: ")
    assert kinds(formatter.events()) == [("open", "name", 6)]


def test_captures_of_an_unfinished_text(compiler: Compiler) -> None:
    formatter = compiler.compile(person()).formatter()
    formatter.accept_bytes(b"Name: A, age 1")
    assert formatter.captures == {"name": ("A",)}
    assert formatter.result("length").captures == {"name": ("A",)}
    formatter.accept_bytes(b".")
    assert formatter.captures == {"name": ("A",), "age": (1,)}


@pytest.mark.contract("captures map a name to its values in order")
def test_a_hole_met_many_times_and_nested_ones(compiler: Compiler) -> None:
    grammar = formats.kbnf('start ::= item | start "," item; item ::= pair:(#"(?P<k>[a-z]+)=(?P<v>[0-9]+)");')
    formatter = compiler.compile(grammar).formatter()
    formatter.accept_bytes(b"a=1,b=22,")
    assert formatter.captures == {"pair": ("a=1", "b=22"), "k": ("a", "b"), "v": ("1", "22")}
    formatter.accept_tokens([*b"c=3", END])
    assert formatter.captures == {"pair": ("a=1", "b=22", "c=3"), "k": ("a", "b", "c"), "v": ("1", "22", "3")}


def test_a_character_that_is_cut_waits(compiler: Compiler) -> None:
    b = FormatterBuilder()
    formatter = compiler.compile(b.append(b.string(name="s"))).formatter()
    heard = []
    for byte in "x😀é".encode():
        formatter.accept_token(byte)
        heard.extend(kinds(formatter.events()))
    assert [event for event in heard if event[0] == "text"] == [
        ("text", "s", "x"),
        ("text", "s", "😀"),
        ("text", "s", "é"),
    ]


GRAMMARS = [
    ('start ::= a:(#"x*") b:(#"x*") ("," start)?;', "x,"),
    ('start ::= item | start "," item; item ::= v:("x" | "xy") w:("y"?);', "xy,"),
    ('start ::= v:("(" start ")") | w:("x" start?);', "()x"),
    ('start ::= (v:(#"[xy]") | w:("xy"))*;', "xy"),
    ('start ::= v:(start "+" start) | "x";', "x+"),
    ('start ::= v:(w:("x"?) "y"){0,3} "x"?;', "xy"),
]


@pytest.mark.contract("events tell only what every surviving parse agrees on")
@pytest.mark.parametrize(("source", "letters"), GRAMMARS)
def test_what_is_told_early_is_what_the_parse_says_in_the_end(source: str, letters: str) -> None:
    compiler = Compiler(Vocabulary(TOKENS, [END]))
    compiled = compiler.compile(formats.kbnf(source))
    choose = random.Random(source)
    for _ in range(25):
        formatter = compiled.formatter()
        listener = Listener()
        for _ in range(choose.randrange(1, 14)):
            allowed = [ord(c) for c in letters if formatter.count_valid([ord(c)])]
            if not allowed or (choose.random() < 0.15 and formatter.tokens):
                formatter.rollback(min(len(formatter.tokens), choose.randrange(3)))
            else:
                formatter.accept_token(choose.choice(allowed))
            if choose.random() < 0.7:
                listener.hear(formatter.events())
        while not formatter.can_stop:
            allowed = [ord(c) for c in letters if formatter.count_valid([ord(c)])]
            formatter.accept_token(allowed[-1] if choose.random() < 0.8 else choose.choice(allowed))
        listener.hear(formatter.events())
        formatter.accept_token(END)
        early = list(listener.values)
        before = listener.retractions
        listener.hear(formatter.events())
        assert listener.retractions == before  # what was certain stays
        spans = formatter.result().spans
        told = sorted((Capture(v.name, v.value, v.value, v.start, v.end) for v in listener.values), key=str)
        assert told == sorted(spans, key=str), (formatter.text, early)
        assert sorted((o.name, o.offset) for o in listener.opened) == sorted((s.name, s.start) for s in spans)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.sampled_from([1, 2, 3, 5, 8]), min_size=1, max_size=12), st.integers(0, 10**6))
def test_the_pieces_do_not_matter(sizes: list[int], seed: int) -> None:
    compiled = Compiler(Vocabulary(TOKENS, [END])).compile(person())
    text = f"Name: {'É' if seed % 2 else 'A'}B, age {seed}.".replace("É", "é").encode()
    formatter = compiled.formatter()
    texts: dict[str, str] = {}
    place = 0
    while place < len(text):
        size = sizes[place % len(sizes)]
        formatter.accept_bytes(text[place : place + size])
        place += size
        for event in formatter.events():
            if isinstance(event, TextAdded):
                texts[event.name] = texts.get(event.name, "") + event.text
    assert texts["age"] == str(seed)
    assert formatter.captures["age"] == (seed,)
