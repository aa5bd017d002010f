"""`sequence`, `one_of`, `optional`, `repeat`: which texts they accept, their values and captures, JSON and back."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from formatter_core import Compiler, FormatterBuilder, Vocabulary, formats, parse
from formatter_core.engine.native import NativeEngine
from formatter_core.errors import FormatterError, InvalidArgument, InvalidFormat, InvalidGrammar
from formatter_core.limits import DEFAULT_LIMITS
from formatter_core.testing.compare import Report, compare_case
from formatter_core.testing.oracle import OracleEngine
from formatter_core.testing.random_grammars import Case

pytestmark = pytest.mark.usefixtures("no_error_says_anything_twice")

integer = formats.integer()
INTEGERS = formats.python_type(list[int])


def named(format: Any, name: str) -> Any:
    return formats.text(formats.Hole(format, name))


#: format, texts that are in it with their values, texts that are not
TABLE = [
    (formats.sequence("a{", integer, '}"'), {'a{5}"': ("a{", 5, '}"')}, ["5", "a5", 'a{5}"x']),
    (formats.one_of(integer, "none"), {"5": 5, "none": "none"}, ["", "5none", "non"]),
    (formats.one_of("ab", formats.regex("a[b-d]"), integer), {"ab": "ab", "ac": "ac", "7": 7}, ["a", "abab", "ae"]),
    (integer | formats.regex("[a-z]"), {"5": 5, "x": "x"}, ["", "xx"]),
    ("x" | integer, {"x": "x", "5": 5}, ["x5"]),
    (formats.one_of({"items": {"type": "integer"}, "type": "array"}, formats.sequence("-", integer)),
     {"[1, 2]": [1, 2], "-5": ("-", 5)}, ["-", "[]5"]),
    (formats.optional(integer), {"": None, "5": 5}, ["5 ", "x"]),
    (formats.optional("no"), {"": None, "no": "no"}, ["n", "nono"]),
    (formats.optional(formats.regex("a*")), {"": "", "aa": "aa"}, ["b"]),
    (formats.repeat("ab"), {"": [], "ab": ["ab"], "abab": ["ab", "ab"]}, ["a", "aba"]),
    (formats.repeat(formats.regex("[ab]"), 2), {"ab": ["a", "b"], "aaa": ["a"] * 3}, ["", "a", "abc"]),
    (formats.repeat(integer, 1, 3, separator=", "), {"1": [1], "1, 2, 3": [1, 2, 3]}, ["", "1, ", "1, 2, 3, 4", "1,2"]),
    (formats.repeat(integer, separator=","), {"": [], "1": [1], "1,-2,3": [1, -2, 3]}, [",", "1,", ",1"]),
    (formats.repeat(integer, 2, 2, separator=formats.regex(" +")), {"1  2": [1, 2]}, ["1", "1 2 3", "12"]),
    (formats.repeat("a", 0, 1, separator=","), {"": [], "a": ["a"]}, ["a,a", ","]),
    (formats.repeat("a", 0, 0, separator=","), {"": []}, ["a"]),
    (formats.repeat(formats.sequence(formats.regex("[a-z]+"), "=", integer), 1, separator=formats.one_of(";", "\n")),
     {"a=1": [("a", "=", 1)], "a=1;bc=2\nd=3": [("a", "=", 1), ("bc", "=", 2), ("d", "=", 3)]},
     ["a=", "a=1;", "a=1 b=2"]),
    (formats.repeat(formats.repeat("a", 1), 1, separator="-"), {"a-aa": [["a"], ["a", "a"]]}, ["a-", "-a", ""]),
    (formats.optional(formats.optional(integer)), {"": None, "5": 5}, ["x"]),
    (formats.one_of(formats.until(";"), formats.until(".")), {"a;": "a", "a.": "a", "a.b;": "a.b"}, ["a", "a;;"]),
    (named(formats.sequence(formats.until(";"), integer), "x"), {"a;5": {"x": ("a", 5)}}, [";"]),
    (named(formats.repeat(formats.until(";"), 1), "x"), {"a;b;": {"x": ["a", "b"]}}, ["a", ""]),
    (named(formats.one_of(formats.until(";"), integer), "x"), {"a;": {"x": "a"}, "5": {"x": 5}}, ["a"]),
]  # fmt: skip


@pytest.mark.parametrize(("format", "good", "bad"), TABLE, ids=range(len(TABLE)))
class TestTable:
    def test_texts_parse_to_their_values_and_others_do_not(self, compiler: Compiler, format, good, bad) -> None:
        compiled = compiler.compile(format)
        for text, value in good.items():
            result = compiled.parse(text)
            assert result.is_complete, text
            assert result.value == value
            assert type(result.value) is type(value)
        for text in bad:
            assert not compiled.parse(text).is_complete, text

    def test_masks_agree_with_the_parse(self, compiler: Compiler, format, good, bad) -> None:
        compiled = compiler.compile(format)
        for text in [*good, *bad]:
            formatter = compiled.formatter()
            taken = formatter.accept_tokens(text.encode())
            assert (taken == len(text.encode()) and formatter.can_stop) == (text in good), text

    def test_they_go_to_json_and_back(self, compiler: Compiler, format, good, bad) -> None:
        again = formats.from_json(json.loads(json.dumps(format.to_json())))
        assert again.key() == format.key()
        for text, value in good.items():
            assert parse(again, text).value == value


class TestCaptures:
    def test_they_are_kept_with_their_values(self, compiler: Compiler) -> None:
        call = formats.text("call ", formats.Hole(formats.regex("[a-z]+"), "name"), formats.Hole(INTEGERS, "arguments"))
        format = formats.repeat(formats.one_of(call, named(integer, "number")), 1, separator=";")
        result = compiler.compile(format).parse("call add[1, 2];5;call x[]")
        assert result.captures == {"name": ("add", "x"), "arguments": ([1, 2], []), "number": (5,)}
        assert result.value == [{"name": "add", "arguments": [1, 2]}, {"number": 5}, {"name": "x", "arguments": []}]

    def test_alternatives_may_capture_one_name_with_values_of_one_kind(self, compiler: Compiler) -> None:
        hole = formats.Hole(INTEGERS, "x")
        format = formats.one_of(formats.text("a", hole), formats.text("b", hole))
        assert compiler.compile(format).parse("b[1]").captures == {"x": ([1],)}

    @pytest.mark.parametrize(
        "format",
        [
            formats.one_of(formats.text("a", formats.Hole(integer, "x")), named(formats.regex("b"), "x")),
            formats.sequence(named(integer, "x"), named(integer, "x")),
            formats.repeat(named(integer, "x"), separator=named(integer, "x")),
        ],
    )
    def test_a_name_with_two_meanings_is_refused(self, compiler: Compiler, format) -> None:
        with pytest.raises(InvalidFormat, match="'x'"):
            compiler.compile(format)

    def test_events_tell_of_captures_inside(self, compiler: Compiler) -> None:
        format = formats.repeat(named(integer, "n"), separator=",")
        formatter = compiler.compile(format).formatter()
        formatter.accept_tokens(b"1,23,")
        values = [event.value for event in formatter.events() if type(event).__name__ == "ValueCompleted"]
        assert values == [1, 23]


class TestArguments:
    @pytest.mark.parametrize(
        "make",
        [
            lambda: formats.repeat("a", -1),
            lambda: formats.repeat("a", 2, 1),
            lambda: formats.repeat("a", 0, "3"),
            lambda: formats.repeat("a", 0.5),  # type: ignore[arg-type]
        ],
    )
    def test_counts(self, make) -> None:
        with pytest.raises(InvalidArgument):
            make()

    @pytest.mark.parametrize("make", [formats.one_of, lambda: formats.optional(5), lambda: formats.sequence(b"x")])
    def test_parts(self, make) -> None:
        with pytest.raises(InvalidFormat):
            make()

    def test_a_lone_surrogate_is_refused_where_it_is_written(self) -> None:
        with pytest.raises(InvalidGrammar):
            formats.sequence("\ud800")

    @pytest.mark.parametrize("other", [5, int, {"type": "integer"}, None])
    def test_the_operator_takes_formats_and_texts_alone(self, other) -> None:
        with pytest.raises(TypeError):
            _ = integer | other

    def test_the_operator_is_one_of(self) -> None:
        assert (integer | "a" | "b").key() == formats.one_of(integer, "a", "b").key()
        assert ("b" | (integer | "a")).key() == formats.one_of("b", integer, "a").key()

    def test_choice_names_one_of(self) -> None:
        with pytest.raises(InvalidFormat, match="one_of"):
            formats.choice([integer])

    @pytest.mark.parametrize(
        "data",
        [
            {"type": "one_of"},
            {"type": "one_of", "alternatives": []},
            {"type": "one_of", "alternatives": [5]},
            {"type": "optional", "part": None},
            {"type": "repeat", "part": "a", "minimum": -1, "maximum": None, "separator": None},
            {"type": "repeat", "part": "a", "minimum": 1},
        ],
    )
    def test_faulty_data_are_refused(self, data) -> None:
        with pytest.raises(FormatterError):
            formats.from_json(data)


_TEXTS = st.text("ab", max_size=2)
_COUNTS = st.tuples(st.integers(0, 2), st.none() | st.integers(2, 3))
_FORMATS = st.recursive(
    _TEXTS | st.sampled_from([formats.regex("[ab]"), formats.regex("(ab)*"), formats.choice(["a", "ba"])]),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3).map(lambda parts: formats.sequence(*parts)),
        st.lists(inner, min_size=1, max_size=3).map(lambda parts: formats.one_of(*parts)),
        inner.map(formats.optional),
        st.builds(lambda part, counts, sep: formats.repeat(part, *counts, separator=sep),
                  inner, _COUNTS, st.none() | inner),
    ),
    max_leaves=6,
).map(formats.sequence)  # fmt: skip


def spelt(part: Any, text: str) -> set[int]:
    """Return the places where a part may end that begins the text: the combinators by their definition."""
    if isinstance(part, str):
        return {len(part)} if text.startswith(part) else set()
    data = part.to_json()
    if data["type"] not in ("sequence", "one_of", "optional", "repeat"):
        return {end for end in range(len(text) + 1) if parse(part, text[:end]).is_complete}
    if data["type"] == "one_of":
        return {end for one in part.alternatives for end in spelt(one, text)}
    if data["type"] == "optional":
        return {0} | spelt(part.part, text)
    if data["type"] == "sequence":
        ends = {0}
        for one in part.parts:
            ends = {start + end for start in ends for end in spelt(one, text[start:])}
        return ends
    found: set[int] = {0} if part.minimum == 0 else set()
    ends = {0}
    most = len(text) + part.minimum + 1 if part.maximum is None else part.maximum
    for count in range(1, most + 1):
        if count > 1 and part.separator is not None:
            ends = {start + end for start in ends for end in spelt(part.separator, text[start:])}
        ends = {start + end for start in ends for end in spelt(part.part, text[start:])}
        if count >= part.minimum:
            found |= ends
    return found


@settings(max_examples=150, deadline=None)
@given(_FORMATS, st.lists(st.text("ab", max_size=6), max_size=4))
def test_random_formats_mean_what_their_parts_mean_and_survive_json(format, texts) -> None:
    again = formats.from_json(json.loads(json.dumps(format.to_json())))
    assert again.key() == format.key()
    compiled = Compiler(Vocabulary.of_bytes()).compile(again)
    for text in texts:
        expected = len(text) in spelt(format, text)
        assert parse(format, text).is_complete == expected
        formatter = compiled.formatter()
        assert (formatter.accept_tokens(text.encode()) == len(text) and formatter.can_stop) == expected
        if expected:
            assert parse(again, text).value == parse(format, text).value


def test_a_builder_and_a_compiled_format_are_parts(compiler: Compiler) -> None:
    b = FormatterBuilder()
    b.append("<", b.integer(name="n"), ">")
    compiled = compiler.compile(integer)
    format = formats.one_of(b, formats.sequence("#", compiled))
    assert parse(format, "<5>").value == {"n": 5}
    assert parse(format, "#5").value == ("#", 5)
    assert parse(compiled | "none", "5").value == 5


@pytest.mark.parametrize(("format", "good", "bad"), TABLE, ids=range(len(TABLE)))
def test_the_oracle_finds_no_difference(format, good, bad) -> None:
    """Masks and captures of the native engine are those of the oracle, along random walks."""
    tokens = sorted(
        {text[start:end].encode() for text in good for start in range(4) for end in range(start + 1, 6)} - {b""}
    )
    vocabulary = Vocabulary([*Vocabulary.of_bytes().tokens, *tokens], [256])
    grammar = format.to_grammar(DEFAULT_LIMITS).grammar
    report = Report()
    for seed in range(5):
        compare_case(OracleEngine(), NativeEngine(), Case(seed, grammar, vocabulary), report)
    assert not report.differences
    assert report.grammars == 5
