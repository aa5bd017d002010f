"""Both readers against outside implementations, on random patterns.

Rust syntax is judged by the package `regex`: full matches, and its partial matching ("can this prefix still become a
match?"). ECMA syntax is judged by `regex` on what the two have in common, and by Node.js where it is installed.

What `regex` means differently on purpose, and how it is kept out:

* `$` also matches before a last newline: anchors are written `\\A` and `\\Z` for it.
* `(?i)` has Turkish rules for dotted and dotless i, and full folding (`ß` is `ss`) in its version 1: the alphabet has
  no such i, and case-insensitive patterns run in version 0, which has no set operations.
* Its partial matching errs with lazy quantifiers: `A+?a` says that "AB" can still become a match. A lazy quantifier
  matches the same texts as a greedy one, so for it all are greedy.
* A partial match only says that the text ended while there was something left to try. Where nothing can follow, as
  after an anchor or with an empty class, it says yes: such patterns are compared on full matches only.
"""

from __future__ import annotations

import json
import random
import shutil
import subprocess

import pytest
import regex

from formatter_core.errors import InvalidRegex
from formatter_core.grammar import Grammar
from formatter_core.syntax.regex import as_terminal, parse_ecma, parse_rust
from formatter_core.testing.automaton import Automaton
from tests.core.native_parse import parse

LETTERS = "abkABKsS1_- éÉßσςΣЖж\u212a\u017f٣\u0301\n"
CHARACTERS = ["a", "b", "k", "S", "1", "-", "é", "ß", "σ", "ж", "\\n", "\\.", "\\x61", "\\u00e9", "ab", "kS"]
CLASSES = ["[ab]", "[^a]", "[a-k]", "[^é\\s]", "[\\w-]", "[1٣]", "[^\\W\\d]", "\\p{Lu}", "\\P{L}", "[\\p{Greek}1]"]
PERL = ["\\d", "\\w", "\\s", "\\D", "\\W", "\\S", "."]
SET_OPERATIONS = ["[a-z&&[^b]]", "[\\w--[a-k]]", "[a-k~~[b-s]]", "[^[a-b]é]", "[\\w&&\\p{Ll}--[b]]"]
QUANTIFIERS = ["*", "+", "?", "{2}", "{1,3}", "{2,}", "{0,2}"]


class Patterns:
    """Random patterns; each part is made twice, as we read it and as the outside reads it."""

    def __init__(self, seed: int, atoms: list[str], *, assertions: list[tuple[str, str]] = []) -> None:  # noqa: B006
        self.random = random.Random(seed)
        self.atoms = atoms
        self.assertions = assertions

    def pattern(self, depth: int = 3) -> tuple[str, str]:
        branches = [self.branch(depth) for _ in range(self.random.choice([1, 1, 2, 3]))]
        return "|".join(ours for ours, _ in branches), "|".join(theirs for _, theirs in branches)

    def branch(self, depth: int) -> tuple[str, str]:
        parts = [self.term(depth) for _ in range(self.random.randint(0 if depth < 3 else 1, 4))]
        return "".join(ours for ours, _ in parts), "".join(theirs for _, theirs in parts)

    def term(self, depth: int) -> tuple[str, str]:
        if self.assertions and self.random.random() < 0.2:
            ours, theirs = self.random.choice(self.assertions)
            if "%" not in ours:
                return ours, theirs
            inner, outer = self.pattern(depth - 1) if depth else ("a", "a")
            return ours.replace("%", inner), theirs.replace("%", outer)
        if depth and self.random.random() < 0.3:
            inner, outer = self.pattern(depth - 1)
            ours, theirs = f"(?:{inner})", f"(?:{outer})"
        else:
            ours = theirs = self.random.choice(self.atoms)
        if self.random.random() < 0.35 and (len(ours) == 1 or not ours.isalnum()):
            quantifier = self.random.choice(QUANTIFIERS)
            return ours + quantifier + self.random.choice(["", "", "?"]), theirs + quantifier
        return ours, theirs

    def texts(self, count: int, letters: str) -> list[str]:
        return ["".join(self.random.choices(letters, k=self.random.randint(1, 6))) for _ in range(count)]


def compare(ours: str, theirs: str, flags: int, texts: list[str], *, partial: bool) -> int:
    """Compare one pattern on texts and on what matches; the number of matches is returned."""
    automaton = Automaton(parse_rust(ours))
    judge = regex.compile(theirs, flags)
    matches = 0
    for text in texts:
        for end in range(len(text) + 1):
            prefix = text[:end]
            state = automaton.run(prefix.encode())
            full = judge.fullmatch(prefix) is not None
            assert automaton.accepting(state) == full, (ours, prefix)
            matches += full
            if partial:
                alive = judge.fullmatch(prefix, partial=True) is not None
                assert (state != 0) == alive, (ours, prefix)
                if not alive:
                    break
    return matches


@pytest.mark.parametrize("seed", range(4))
def test_rust_patterns_agree_on_full_and_partial_matches(seed: int) -> None:
    patterns = Patterns(seed, CHARACTERS * 2 + CLASSES + PERL + SET_OPERATIONS)
    matches = 0
    for _ in range(100):
        ours, theirs = patterns.pattern()
        matches += compare(ours, theirs, regex.VERSION1, patterns.texts(20, LETTERS), partial=True)
    assert matches > 300


@pytest.mark.parametrize("seed", range(10, 12))
def test_rust_patterns_that_ignore_case_agree(seed: int) -> None:
    patterns = Patterns(seed, CHARACTERS * 2 + CLASSES[:-4] + PERL)
    matches = 0
    for _ in range(100):
        ours, theirs = patterns.pattern()
        flags = regex.VERSION0 | regex.IGNORECASE
        matches += compare(f"(?i){ours}", theirs, flags, patterns.texts(20, LETTERS), partial=True)
    assert matches > 300


@pytest.mark.parametrize("seed", range(20, 22))
def test_rust_patterns_with_anchors_agree_on_full_matches(seed: int) -> None:
    anchors = [("^", r"\A"), ("$", r"\Z"), (r"\A", r"\A"), (r"\z", r"\Z")]
    patterns = Patterns(seed, ["a", "b", "ab", "1", "\\n", "[ab]", "."], assertions=anchors)
    matches = 0
    for _ in range(150):
        ours, theirs = patterns.pattern(2)
        matches += compare(ours, theirs, regex.VERSION1, patterns.texts(20, "aab1\n"), partial=False)
    assert matches > 300


@pytest.mark.parametrize("seed", range(25, 27))
def test_captures_agree_where_no_repeated_part_can_be_empty(seed: int) -> None:
    """An empty round of a repeat is a round for the package, and none for us."""
    source = random.Random(seed)

    def branch() -> str:
        parts = [
            source.choice(["a", "b", "[ab]", "."]) + source.choice(["", "", *QUANTIFIERS, "*?", "??"]) for _ in "12"
        ]
        return "".join(parts)

    found = 0
    for _ in range(60):
        groups = [f"(?P<n{index}>{branch()}|{branch()})" for index in range(source.randint(1, 3))]
        pattern = branch() + "".join(groups)
        grammar = Grammar({"start": as_terminal(parse_rust(pattern))}, "start")
        judge = regex.compile(pattern)
        for _ in range(5):
            text = "".join(source.choices("aab", k=source.randint(1, 6)))
            expected = judge.fullmatch(text)
            parsed = parse(grammar, text.encode())
            assert (parsed is None) == (expected is None), (pattern, text)
            if expected is not None and parsed is not None:
                found += 1
                assert {child.name: child.text for child in parsed.children} == expected.groupdict(), (pattern, text)
    assert found > 50


ECMA_ASSERTIONS = [
    ("^", r"\A"),
    ("$", r"\Z"),
    (r"\b", r"\b"),
    (r"\B", r"\B"),
    ("(?=%)", "(?=%)"),
    ("(?!%)", "(?!%)"),
    ("(?<=[ab])", "(?<=[ab])"),
    ("(?<!a)", "(?<!a)"),
]
ECMA_ATOMS = ["a", "b", "1", "-", "_", "ab", "\\w", "\\d", "\\W", "[ab]", "[^a]", "[\\w-]", "[^\\d]"]


@pytest.mark.parametrize("seed", range(27, 30))
def test_rust_patterns_that_look_around_agree_on_full_matches(seed: int) -> None:
    patterns = Patterns(seed, [*ECMA_ATOMS[:-1], "é", "."], assertions=ECMA_ASSERTIONS[2:])
    matches = refused = 0
    for _ in range(120):
        ours, theirs = patterns.pattern(2)
        try:
            automaton = Automaton(parse_rust(ours, look_around=True))
        except InvalidRegex:
            refused += 1
            continue
        judge = regex.compile(theirs, regex.VERSION1)
        for text in ["", *patterns.texts(25, "aab1_- é")]:
            expected = judge.fullmatch(text) is not None
            assert automaton.matches(text.encode()) == expected, (ours, text)
            matches += expected
    assert matches > 100
    assert refused < 20


@pytest.mark.parametrize("seed", range(33, 36))
def test_ecma_patterns_are_found_where_the_package_finds_them(seed: int) -> None:
    patterns = Patterns(seed, ECMA_ATOMS, assertions=ECMA_ASSERTIONS)
    found = refused = 0
    for _ in range(120):
        ours, theirs = patterns.pattern(2)
        try:
            automaton = Automaton(parse_ecma(ours))
        except InvalidRegex:
            refused += 1
            continue
        judge = regex.compile(theirs, regex.VERSION1 | regex.ASCII)
        for text in patterns.texts(25, "aab1_- "):
            expected = judge.search(text) is not None
            assert automaton.matches(text.encode()) == expected, (ours, text)
            found += expected
    assert found > 500
    assert refused < 20


@pytest.mark.skipif(shutil.which("node") is None, reason="Node.js, which judges ECMA 262 here, is not installed")
@pytest.mark.parametrize("seed", range(42, 44))
def test_ecma_patterns_are_found_where_node_finds_them(seed: int) -> None:
    anchors = [(ours, ours) for ours, _ in ECMA_ASSERTIONS]
    atoms = [
        *ECMA_ATOMS,
        ".",
        "\\s",
        "\\S",
        "é",
        "[\\s1]",
        "[^]",
        "\\p{L}",
        "[^\\p{Lu}é]",
        "\\u{1F600}",
        "\\ud83d\\ude00",
    ]
    patterns = Patterns(seed, atoms, assertions=anchors)
    sources = [patterns.pattern(1)[0] for _ in range(120)]
    texts = patterns.texts(40, "aab1_- éÉ😀\n\r\u2028\ufeff")
    assert compare_with_node(sources, texts) < 20


def compare_with_node(sources: list[str], texts: list[str]) -> int:
    """Compare ECMA patterns on texts; returns how many are refused."""
    script = """
        const [sources, texts] = JSON.parse(require("fs").readFileSync(0));
        const find = (regex) => texts.map((text) => regex.test(text));
        console.log(JSON.stringify(sources.map((source) => find(new RegExp(source, "u")))));
    """
    answer = subprocess.run(
        ["node", "-e", script], input=json.dumps([sources, texts]), capture_output=True, text=True, check=True
    )
    refused = 0
    for source, expected in zip(sources, json.loads(answer.stdout), strict=True):
        try:
            automaton = Automaton(parse_ecma(source))
        except InvalidRegex:
            refused += 1
            continue
        assert [automaton.matches(text.encode()) for text in texts] == expected, source
    return refused


def tempered_pattern(source: random.Random) -> str:
    """`^(?:(?!x)(?!y)c)*z$` and its like: look-aheads in a repeat that goes on as long as they hold."""

    def piece() -> str:
        atoms = ["a", "b", "c", "ab", "ba", "bc", "[ab]", ".", "a$", "(?:a|bc)", "b*c", "$", "\\w"]
        return "".join(source.choices(atoms, k=source.choice([1, 1, 2])))

    def looks() -> str:
        return "".join(f"({source.choice(['?!', '?!', '?='])}{piece()})" for _ in range(source.choice([0, 1, 1, 2, 3])))

    def one() -> str:
        return source.choice([".", "[\\s\\S]", "[ab]", "[^c]", "\\w", "a", "(?:a|b)"])

    def taken() -> str:
        kind = source.randrange(8)
        if kind == 0:
            return f"{looks()}{one()}{looks()}"
        if kind == 1:
            return f"{looks()}{one()}|{looks()}{one()}"
        if kind == 2:
            return f"{looks()}{one()}{looks()}{one()}"
        return f"{looks()}{one()}"

    count = source.choice(["*", "*", "*", "+", "{2,}", "{0,70}", "{1,70}", "*?", "+?", "{1,3}"])
    before = source.choice(["^", "^", "^", "", "^a", "b", "^(?:ab)?"])
    after = source.choice(["$", "$", "$", "", "c$", "c", "bc", "ab$", "(?:ab|c)$", "\\b", "(?!b)", "[^a]*$", "\\n"])
    return f"{before}(?:{taken()}){count}{after}"


@pytest.mark.skipif(shutil.which("node") is None, reason="Node.js, which judges ECMA 262 here, is not installed")
@pytest.mark.parametrize("seed", range(50, 52))
def test_look_aheads_in_a_repeat_hold_where_node_says_so(seed: int) -> None:
    source = random.Random(seed)
    texts = ["", *("".join(source.choices("aabbc-\n", k=source.randint(1, 8))) for _ in range(60))]
    assert compare_with_node([tempered_pattern(source) for _ in range(100)], texts) < 30
