"""Rust syntax against the crate `regex-automata` itself, which the package `kbnf` carries.

The package may only be asked what it answers right: a pattern begins with a character, so that it never matches the
empty string, and a terminal that no text holds stands behind it, so that "finished" is known. It has its own, older
version of Unicode; the characters here have long been in it.
"""

from __future__ import annotations

import random

import pytest

from formatter_core.errors import InvalidRegex
from formatter_core.syntax.regex import parse_rust
from formatter_core.testing.automaton import Automaton

kbnf = pytest.importorskip("kbnf")

MEMBERS = [
    *["a", "b", "K", "s", "é", "σ", "-", ":", "&", "^", "a-k", "α-ω", "[a-c]", "[^b]", "[[a]b]"],
    *["[:alpha:]", "[:^digit:]", "\\-", "\\d", "\\w", "\\S", "\\p{Lu}", "\\P{Ll}", "\\x{e9}"],
]
PIECES = ["a|b", "(?i:K)", "(?:K|é)+", ".", "\\w{1,2}?", "(?-i)s", " a", "[a b]", "σ", "(?-u:\\d)"]
FLAGS = ["", "", "(?i)", "(?x)", "(?U)", "(?s)", "(?-u)", "(?i-u)"]
LETTERS = "aabKkKsſéÉσς-:&^]1 ٣\nα"
ACCEPTED = "a** a{2}{3} a{5,} a} ] [a-] [-a] []a] [^]a] [a-z-9] [&&a] [a&&] [--a] [---] [a---b] [[:foo:]] a\\_\\@\\%"
REJECTED = (
    r"* (*) a|* a{ a{} a{,5} a{5,4} (?) (?i-) (?ii) (?P<1>a) [] [^] [a-\d] [z-a] [a \0 \q \é \x4 \p{foo} \pX a( a)"
)


def engine(pattern: str) -> object:
    quoted = "".join(f"\\u{{{ord(character):x}}}" for character in pattern)
    vocabulary = kbnf.Vocabulary(
        {byte: kbnf.Token(bytes([byte])) for byte in range(256)}, dict.fromkeys(range(256), "?")
    )
    return kbnf.Engine(f'start ::= #"{quoted}" "\\u{{0}}";', vocabulary)


def crate_matches(judge: object, text: str) -> bool:
    judge.reset()  # type: ignore[attr-defined]
    answer = None
    for byte in (*text.encode(), 0):
        try:
            answer = judge.try_accept_new_token(byte)  # type: ignore[attr-defined]
        except ValueError:
            return False
    return "Finished" in repr(answer)


def bracket(source: random.Random, depth: int = 2) -> str:
    text = "[" + source.choice(["", "", "^", "-", "^-", "]", "^]"])
    for _ in range(source.randint(1, 4)):
        text += bracket(source, depth - 1) if depth and source.random() < 0.2 else source.choice(MEMBERS)
        text += source.choice(["&&", "--", "~~", "", "", "", ""])
    return text + source.choice(["", "-"]) + "]"


@pytest.mark.parametrize("pattern", [*ACCEPTED.split(), "a{ 5 }", "(?x)a {5}", "(?x)[a b]"])
def test_what_the_crate_accepts_is_accepted(pattern: str) -> None:
    engine(f"x(?:{pattern})")
    parse_rust(pattern)


@pytest.mark.parametrize("pattern", REJECTED.split())
def test_what_the_crate_rejects_is_rejected(pattern: str) -> None:
    with pytest.raises(ValueError, match="error"):
        engine(pattern)
    with pytest.raises(InvalidRegex):
        parse_rust(pattern)


def test_classes_and_flags_mean_what_they_mean_in_the_crate() -> None:
    source = random.Random(3)
    texts = ["x" + "".join(source.choices(LETTERS, k=source.randint(0, 3))) for _ in range(30)]
    compared = refused = 0
    for _ in range(200):
        parts = [
            bracket(source) if source.random() < 0.5 else source.choice(PIECES) for _ in range(source.randint(1, 3))
        ]
        pattern = f"x(?:{source.choice(FLAGS)}{''.join(parts)})"
        try:
            judge = engine(pattern)
        except ValueError as error:
            if "is empty" not in str(error):  # a pattern that matches nothing is no grammar for the package
                refused += 1
                with pytest.raises(InvalidRegex):
                    parse_rust(pattern)
            continue
        automaton = Automaton(parse_rust(pattern))
        for text in texts:
            assert automaton.matches(text.encode()) == crate_matches(judge, text), (pattern, text)
        compared += 1
    assert compared > 100
    assert refused > 5
