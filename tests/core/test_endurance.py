"""A format that compiles can be walked to its end: no step of the native engine exceeds a limit or costs too much."""

from __future__ import annotations

import gzip
import itertools
import json
import random
from itertools import pairwise
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest

from formatter_core import CompiledFormat, Compiler, Formatter, Limits, Vocabulary, formats
from formatter_core.engine.native import NativeEngine
from formatter_core.errors import InvalidFormat, LimitExceeded, TokenRejected, UnsatisfiableSchema, UnsupportedSchema
from formatter_core.testing.compare import compare
from formatter_core.testing.oracle import OracleEngine
from tests.sampling import sampled

BYTES = [bytes([byte]) for byte in range(256)]
END = 256
HOST_NAME = r"^(?!.*://)(?=.{1,255}$)((.{1,63}\.){1,127}(?![0-9]*$)[a-z0-9-]+\.?)$"
#: Elementary steps of one mask: about 10 milliseconds on a slow machine.
MOST_WORK = 200_000


def compiled_for_bytes(format: Any, limits: Limits | None = None) -> CompiledFormat:
    """A format for a vocabulary of its own, so that nothing has been worked out before."""
    return Compiler(Vocabulary([*BYTES, b""], [END]), engine="native", limits=limits).compile(format)


def open_object(count: int) -> dict[str, Any]:
    return {"type": "object", "properties": {f"property{index}": {"type": "integer"} for index in range(count)}}


def work_of_masks(compiled: CompiledFormat, text: bytes) -> list[int]:
    """The elementary steps of the mask after each byte, with the byte; the text must be complete."""
    formatter, row = compiled.formatter(), np.zeros(compiled.vocabulary.words, dtype=np.int32)
    grammar: Any = compiled.engine_grammar
    formatter.fill_bitmask(row)
    found = [grammar.work_done()]
    for byte in text:
        formatter.step(byte, row)
        found.append(grammar.work_done())
    assert formatter.can_stop
    return [after - before for before, after in pairwise(found)]


@pytest.mark.parametrize(
    "text", ["www.example.org", ".".join(["abcdefg"] * 30), "." * 250 + "a", "a." * 100 + "\u00e9" * 10 + ".b"]
)
def test_nested_counts_stay_cheap(text: str) -> None:
    compiled = compiled_for_bytes({"type": "string", "pattern": HOST_NAME})
    for spelling in (json.dumps(text), json.dumps(text, ensure_ascii=False)):
        assert max(work_of_masks(compiled, spelling.encode())) < MOST_WORK


@pytest.mark.parametrize("closed", [False, True])
def test_masks_of_optional_properties_cost_in_proportion_to_their_number(closed: bool) -> None:
    def worst(count: int) -> int:
        schema = {**open_object(count), "additionalProperties": not closed}
        document = {f"property{index}": index for index in range(0, count, count // 5)}
        document |= {} if closed else {"other": 1, "and": [2]}
        return max(work_of_masks(compiled_for_bytes(schema), json.dumps(document).encode()))

    assert worst(1600) < 10 * worst(200)


def test_three_thousand_optional_properties() -> None:
    compiled = compiled_for_bytes(open_object(3000))
    for document in ({}, {"property0": 1, "property2999": 2, "property3000": None}):
        assert max(work_of_masks(compiled, json.dumps(document).encode())) < MOST_WORK


@pytest.mark.parametrize("closed", [False, True])
def test_counted_properties_cost_in_proportion_to_their_number(closed: bool) -> None:
    """Six million steps for the mask after the brace, with 200 properties."""
    schema = {**open_object(200), "additionalProperties": not closed, "minProperties": 1, "maxProperties": 20}
    document = {f"property{index}": index for index in range(0, 200, 10)}
    assert max(work_of_masks(compiled_for_bytes(schema), json.dumps(document).encode())) < 20_000


@pytest.mark.parametrize("key_order", ["schema", "any"])
def test_a_ring_of_keys_that_need_each_other(key_order: Any) -> None:
    ring = {f"key{index}": [f"key{(index + 1) % 60}"] for index in range(60)}
    compiled = compiled_for_bytes(
        formats.json_schema({**open_object(60), "dependentRequired": ring}, key_order=key_order)
    )
    keys = {f"key{index}": index for index in range(60)}
    for document in ({"property0": 1}, keys, {"property7": 2, **keys}):
        assert max(work_of_masks(compiled, json.dumps(document).encode())) < MOST_WORK


def test_gaps_before_a_key_are_not_multiplied_by_the_keys() -> None:
    """After each of 65 gaps stood all that may come there, worked out anew."""
    gaps = [b"\n" + b" " * count for count in range(65)]
    compiler = Compiler(Vocabulary([*BYTES, b"", *gaps], [END]), engine="native")
    compiled = compiler.compile(formats.json_schema(open_object(250), spelling="any"))
    formatter, grammar = compiled.formatter(), cast("Any", compiled.engine_grammar)
    formatter.accept_bytes(b'{"property0": 1,')
    before = grammar.work_done()
    assert {END + 1 + count for count in range(65)} <= set(formatter.allowed_tokens())
    assert grammar.work_done() - before < 80_000


@pytest.fixture(scope="module")
def words() -> Vocabulary:
    """Bytes and 20,000 words, some of which end a text or begin the next one."""
    chooser = random.Random(0)
    letters = "abcdefghijklmnopqrstuvwxyz ABCDEF0123456789\u00e9\u4e16"
    texts = {"".join(chooser.choices(letters, k=chooser.randint(2, 9))) for _ in range(19_000)}
    texts |= {text + end for text in list(texts)[:500] for end in ('"', '",', '": "')}
    return Vocabulary([*BYTES, b"", *(text.encode() for text in sorted(texts))], [END])


def first_mask(vocabulary: Vocabulary, schema: Any, text: bytes) -> int:
    """The elementary steps of the mask after a text that nobody has taken before."""
    compiled = Compiler(vocabulary, engine="native").compile(schema)
    grammar: Any = compiled.engine_grammar
    formatter = compiled.formatter()
    formatter.accept_bytes(text)
    before = grammar.work_done()
    formatter.allowed_tokens()
    return int(grammar.work_done() - before)


def test_names_that_overlap_in_many_ways_are_not_each_compared_with_the_whole_vocabulary(words: Vocabulary) -> None:
    """Which of four letters a name holds makes 16 terminals; each was followed along all tokens, in 32,000 steps."""
    patterns = [{"patternProperties": {letter: {"minimum": index}}} for index, letter in enumerate("abcd")]
    assert first_mask(words, {"type": "object", "allOf": patterns}, b'{"') < 20_000


def many_texts() -> list[str]:
    """20,000 texts that begin in a few thousand ways."""
    chooser = random.Random(1)
    letters = "abcdefghijklmnopqrstuvwxyz ABCDEF0123456789"
    return sorted({"".join(chooser.choices(letters, k=chooser.randint(5, 20))) for _ in range(20_000)})


@pytest.mark.parametrize("quoted", [False, True])
def test_many_texts_are_a_tree(words: Vocabulary, quoted: bool) -> None:
    """Texts share their common beginnings, so that a token visits only the texts that begin with it."""
    format: Any = {"enum": many_texts()} if quoted else formats.choice(many_texts())
    assert first_mask(words, format, b'"' if quoted else b"") < 40_000


def test_how_long_texts_of_a_tree_are_is_known_without_going_through_them(words: Vocabulary) -> None:
    """For each token the nearest end was looked for, text by text and byte by byte."""
    compiled = Compiler(words, engine="native").compile({"enum": many_texts()})
    grammar: Any = compiled.engine_grammar
    formatter = compiled.formatter(max_tokens=compiled.min_tokens + 4)
    formatter.accept_bytes(b'"')
    before = grammar.work_done()
    assert len(formatter.allowed_tokens()) > 100
    assert grammar.work_done() - before < 300_000


UUID = "[a-f0-9]{8}-[a-f0-9]{4}-[a-f0-9]{4}-[a-f0-9]{4}-[a-f0-9]{12}"
#: Formats whose text is as good as any at the place given: what a vocabulary knows of texts is enough for their masks.
INSIDE_TEXTS: dict[str, tuple[Any, bytes]] = {
    "any text": ({"type": "string"}, b'"'),
    "another name": ({"type": "object", "properties": {"name": {}, "number": {}}}, b'{"nx'),
    "a lower bound": ({"type": "string", "minLength": 8}, b'"'),
    "a higher lower bound": ({"type": "string", "minLength": 30}, b'"abc'),
    "both bounds": ({"type": "string", "minLength": 8, "maxLength": 2048}, b'"'),
    "near the upper bound": ({"type": "string", "minLength": 12, "maxLength": 16}, b'"abcdefghij'),
    "a match anywhere": ({"type": "string", "pattern": UUID}, b'"123e4567-e89b-12d3-a456-426655440000'),
}


@pytest.mark.parametrize("name", INSIDE_TEXTS)
def test_the_inside_of_texts_is_worked_out_with_the_vocabulary(words: Vocabulary, name: str) -> None:
    """Each such mask was a walk, or several, along all tokens."""
    assert first_mask(words, *INSIDE_TEXTS[name]) < 1_500


@pytest.mark.parametrize("text", [b"{", b'{"', b"{\n", b'{"property1": 1,'])
def test_names_that_begin_alike_are_followed_cheaply(text: bytes) -> None:
    """Each byte of each of a thousand names was worked out by itself, and again after each length of a gap."""
    gaps = [b" " * count for count in range(2, 65)]
    names = [b'"property', b"prop", b"property", b"erty1", b' "prop', b'\n  "prop']
    vocabulary = Vocabulary([*BYTES, b"", *names, *gaps, *(b"\n" + gap for gap in gaps)], [END])
    assert first_mask(vocabulary, open_object(1000), text) < 100_000


LIMITED: dict[str, Any] = {
    "characters": {"type": "string", "minLength": 3, "maxLength": 9},
    "a few of them": {"type": "string", "pattern": "^[a-zA-Z0-9 \u00e9\\\\]{2,7}$"},
    "characters or pairs": {"type": "string", "pattern": "^([a-z]|[A-F][A-F0-9])*$", "maxLength": 8},
    "items that may be cut in two ways": {"type": "string", "pattern": "^([a-z ]{1,2}){2,4}$"},
    "items that begin like the end": formats.regex(r"(?s)(.|-\+){2,6}-"),
}


@pytest.mark.parametrize("name", LIMITED)
def test_masks_of_limited_texts_hold_what_their_bytes_allow(words: Vocabulary, name: str) -> None:
    chooser = random.Random(name)
    compiled = Compiler(words, engine="native").compile(LIMITED[name])
    tokens = {index: words.text_token(index) or b"" for index in chooser.sample(range(len(words)), 1500)}
    tokens |= {index: bytes([index]) for index in range(256)}
    for _ in range(3):
        formatter = compiled.formatter()
        while not formatter.is_finished:
            allowed = set(formatter.allowed_tokens())
            valid = {index for index, text in tokens.items() if text and can_follow(formatter, text)}
            assert allowed & set(tokens) - {END} == valid, formatter.bytes
            # Mostly short tokens, so that a text is looked at in several places.
            formatter.accept_token(
                min(chooser.choices(sorted(allowed), k=4), key=lambda index: len(tokens.get(index, b"xxxx")))
            )


@pytest.mark.parametrize("text", ["abc." * 8, "x" * 40, "ab." + "c" * 61, ".".join(["abcdefg"] * 31)])
def test_masks_of_long_tokens_near_a_limit_hold_what_their_bytes_allow(text: str) -> None:
    """Long tokens in which a single byte may follow take that byte's transition alone."""
    ends = ["", ".", ".a", "\u00e9", '"', '.a"', "://"]
    runs = [byte * length + end for byte in "-=a./ " for length in range(2, 70) for end in ends]
    vocabulary = Vocabulary([*BYTES, b"", *(run.encode() for run in runs)], [END])
    formatter = Compiler(vocabulary, engine="native").compile({"type": "string", "pattern": HOST_NAME}).formatter()
    formatter.accept_bytes(b'"' + text.encode())
    allowed = set(formatter.allowed_tokens())
    valid = {END + 1 + index for index, run in enumerate(runs) if can_follow(formatter, run.encode())}
    assert {token for token in allowed if token > END} == valid
    assert 0 < len(valid) < len(runs)


def can_follow(formatter: Formatter, text: bytes) -> bool:
    try:
        formatter.fork().accept_bytes(text)
    except TokenRejected:
        return False
    return True


def test_a_counted_pattern_anywhere_with_a_length_stays_cheap() -> None:
    """An exact distance to a match for every state once took three million steps for one mask."""
    pattern = r"\d+-[A-Fa-f0-9]*-[A-Fa-f0-9]{24}"
    text = "1-60f6f7e7-0123456789abcdef01234567"
    for bounds in ({"minLength": 35}, {"minLength": 20, "maxLength": 40}):
        compiled = compiled_for_bytes({"type": "string", "pattern": pattern, **bounds})
        assert max(work_of_masks(compiled, json.dumps(text).encode())) < MOST_WORK


def nested_negations(count: int) -> dict[str, Any]:
    """Texts for which of each pair of unions, written with `not`, some pattern is found."""
    some = [{"not": {"anyOf": [{"pattern": one}, {"pattern": f"{one}.*{one}"}]}} for one in "abcdefgh"[:count]]
    nested = [{"not": {"anyOf": some[:index] + some[index + 1 :]}} for index in range(count)]
    return {"type": "string", "allOf": [*nested, {"pattern": "[xX][12].*[zZ]"}, {"minLength": 10}, {"maxLength": 20}]}


@pytest.mark.parametrize("count", [2, 3, 4, 5])
def test_alternatives_within_others_do_not_multiply(count: int) -> None:
    """Each choice of patterns was an intersection of its own, and their states multiplied."""
    compiled = compiled_for_bytes(nested_negations(count))
    text = "x1" + "abcdefgh"[:count] * 2 + "y" * (16 - 2 * count) + "z"
    assert max(work_of_masks(compiled, json.dumps(text).encode())) < MOST_WORK


def letters_apart(count: int, between: int) -> dict[str, Any]:
    """Texts with pairs of letters so many characters apart: one intersection, whose states multiply."""
    pairs = zip("abcdefgh"[:count], "bcdefghi", strict=False)
    return {
        "type": "string",
        "allOf": [*({"pattern": f"{one}.{{{between}}}{other}"} for one, other in pairs), {"maxLength": 30}],
    }


@pytest.mark.parametrize(("count", "between"), [(2, 3), (3, 8), (7, 3), (8, 4)])
@pytest.mark.parametrize("inside", sampled([True, False], 1))
def test_what_fails_on_the_way_is_refused_when_compiled(count: int, between: int, inside: bool) -> None:
    """A format that compiles meets no limit in the middle of a text, wherever the part stands in the format."""
    schema = letters_apart(count, between)
    if inside:
        schema = {"type": "object", "properties": {"name": {"type": "integer"}, "text": schema}}
    try:
        compiled = compiled_for_bytes(schema)
    except LimitExceeded as error:
        assert count > 2
        assert error.limit == "work"
        return
    assert count < 8
    for seed in range(3):
        random_walk(compiled, seed, 60)


#: Formats with large automata: counts from the end, intersections, complements, recursion around them, many words.
LARGE_AUTOMATA: dict[str, Any] = {
    "counted from the end": {"type": "string", "pattern": "^[ab]*a[ab]{20}$"},
    "host name": {"type": "string", "pattern": HOST_NAME},
    "other keys": {"type": "object", "propertyNames": {"pattern": "^[a-c]*a[a-c]{9}$"}, "additionalProperties": True},
    "until": formats.sequence(formats.until("abab"), formats.substring_of("abcabcab" * 9)),
    "nested": formats.kbnf('start ::= "(" start ")" | item item;\nitem ::= #"[ab]*b[ab]{7}c";'),
}


def random_walk(compiled: CompiledFormat, seed: int, length: int) -> list[list[int]]:
    """The allowed tokens along a walk that goes back and forks now and then."""
    chooser = random.Random(seed)
    formatter, found = compiled.formatter(), []
    for place in range(length):
        allowed = formatter.allowed_tokens()
        found.append(allowed)
        # Quotes and closing brackets would end it soon.
        allowed = [token for token in allowed if token != END and bytes([token]) not in b'"})c'] or allowed
        if END in allowed:
            break
        formatter.accept_token(chooser.choice(allowed))
        if place % 37 == 36:
            formatter.rollback(30)
            found.append(formatter.allowed_tokens())
        elif place % 53 == 52:
            formatter = formatter.fork()
    return found


@pytest.mark.parametrize("name", LARGE_AUTOMATA)
def test_masks_are_the_same_where_automata_are_made_anew(name: str) -> None:
    """An automaton that has used up its states makes room, and nobody notices."""
    vocabulary = Vocabulary([*BYTES, b""], [END])
    roomy = Compiler(vocabulary, engine="native").compile(LARGE_AUTOMATA[name])
    narrow = Compiler(vocabulary, engine="native", limits=Limits(states=300)).compile(LARGE_AUTOMATA[name])
    for seed in range(3):
        assert random_walk(narrow, seed, 300) == random_walk(roomy, seed, 300)


def test_a_format_outlives_its_states() -> None:
    """Walks through far more states than the automaton may keep, by several sequences in turn."""
    compiled = compiled_for_bytes(LARGE_AUTOMATA["counted from the end"], Limits(states=500))
    chooser, row = random.Random(1), np.zeros(9, dtype=np.int32)
    sequences = [compiled.formatter() for _ in range(4)]
    for formatter in sequences:
        formatter.accept_bytes(b'"')
    for _ in range(1000):
        for formatter in sequences:
            formatter.step(chooser.choice(b"ab"), row)
    for formatter in sequences:
        formatter.rollback(1000)
        formatter.accept_bytes(b"a" * 5000 + b'"')
        assert formatter.can_stop
    compiled.formatter().accept_bytes(b'"' + b"a" * 9000 + b'"')


@pytest.mark.parametrize("first", sampled(range(0, 100, 25), 1))
def test_random_grammars_whose_automata_are_made_anew(first: int) -> None:
    report = compare(OracleEngine(), NativeEngine(), range(first, first + 25), limits=Limits(states=16))
    assert report.differences == []
    assert report.refusals.total() < 5
    assert report.masks > 250


@pytest.mark.slow
def test_a_counted_complement_in_an_intersection() -> None:
    """Its first mask cost about the fourth power of the count."""
    assert compare(OracleEngine(), NativeEngine(), [100_488]).refusals.total() == 0


def test_real_schemas_end_as_they_promise(shared: Path) -> None:
    """Compiled schemas take random texts without a limit in the middle; `benchmarks/endurance.py` walks more."""
    with gzip.open(shared / "maskbench" / "maskbench_dev.jsonl.gz", "rt", encoding="utf-8") as lines:
        cases = [json.loads(line) for line in itertools.islice(lines, 0, None, 97)]
    walked = 0
    for case in cases:
        try:
            compiled = compiled_for_bytes(case["schema"])
        except (UnsupportedSchema, LimitExceeded, InvalidFormat, UnsatisfiableSchema):
            continue
        walked += 1
        grammar: Any = compiled.engine_grammar
        for seed in range(2):
            chooser, formatter = random.Random(seed), compiled.formatter()
            for _ in range(300):
                before = grammar.work_done()
                allowed = formatter.allowed_tokens()
                assert grammar.work_done() - before < MOST_WORK, case["id"]
                if END in allowed and (seed or allowed == [END]):
                    break
                # In every second walk whatever closes a value comes first.
                closing = [token for token in allowed if seed and token in b'"]}']
                formatter.accept_token(chooser.choice(closing or [token for token in allowed if token != END]))
    assert walked > 0.8 * len(cases)
