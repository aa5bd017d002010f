"""Formats without a vocabulary: `formatter_core.parse`, `formatter_core.check`, `Vocabulary.of_bytes`."""

from __future__ import annotations

import pytest

import formatter_core
from formatter_core import Compiler, FormatterBuilder, Limits, Vocabulary, check, formats, parse
from formatter_core.errors import (
    IncompleteResult,
    InvalidArgument,
    InvalidFormat,
    InvalidGrammar,
    InvalidRegex,
    InvalidSchema,
    LimitExceeded,
    UnsatisfiableSchema,
    UnsupportedSchema,
)
from formatter_core.formats.protocol import Lowered
from formatter_core.grammar import NOTHING, Grammar

#: Formats that are not valid, or not within the limits.
FAULTY = [
    (formats.regex(r"(a)\1"), InvalidRegex),
    (formats.regex("["), InvalidRegex),
    (formats.kbnf("start ::= start;"), InvalidGrammar),
    (formats.kbnf("start ::="), InvalidGrammar),
    ({"type": "nothing"}, InvalidSchema),
    ({"type": "string", "minLength": 2, "maxLength": 1}, UnsatisfiableSchema),
    ({"items": {"uniqueItems": True}}, UnsupportedSchema),
    (formats.regex("a{10000000}"), LimitExceeded),
    (formats.text(formats.Hole(formats.integer(), "n"), formats.Hole(formats.integer(), "n")), InvalidFormat),
    (object(), InvalidFormat),
]


class Nested:
    """A format that holds itself."""

    def to_grammar(self, limits: Limits) -> Lowered:
        return self.to_grammar(limits)

    def to_json(self) -> dict[str, object]:
        return {}

    def key(self) -> str:
        return "nested"


class TestParse:
    def test_a_text_of_the_format(self) -> None:
        b = FormatterBuilder()
        b.append("age ", b.integer(name="age"), ".")
        result = parse(b, "age 7.")
        assert result.is_complete
        assert (result.value, result.captures, result.text) == ({"age": 7}, {"age": (7,)}, "age 7.")
        assert result.tokens == ()
        assert parse(list[int], b"[1, 2]").value == [1, 2]

    @pytest.mark.parametrize("text", ["", "12", "1x", "é", b"\xff", "\ud800", "12345"])
    def test_any_other_text_gives_an_incomplete_result(self, text) -> None:
        result = parse(formats.regex("[0-9]{3}"), text)
        assert not result.is_complete
        assert result.missing
        with pytest.raises(IncompleteResult):
            _ = result.value

    def test_a_text_that_is_neither_str_nor_bytes(self) -> None:
        with pytest.raises(InvalidArgument):
            parse(int, 5)  # type: ignore[arg-type]

    @pytest.mark.parametrize(("format", "error"), FAULTY, ids=range(len(FAULTY)))
    def test_a_faulty_format_is_refused(self, format, error) -> None:
        with pytest.raises(error):
            parse(format, "a")

    @pytest.mark.parametrize("ended", ["length", "stop_string", "error"])
    def test_a_text_that_was_cut_is_complete_only_if_nothing_could_follow(self, ended) -> None:
        b = FormatterBuilder()
        b.append(b.integer(name="a"), ",", b.regex("[0-9]{2,3}", name="b"))
        cut = parse(b, "5,12", ended=ended)
        assert not cut.is_complete
        assert cut.ended == ended
        assert cut.captures == {"a": (5,)}
        whole = parse(b, "5,123", ended=ended)
        assert whole.is_complete
        assert (whole.value, whole.ended) == ({"a": 5, "b": "123"}, ended)
        broken = parse(b, "5,", ended=ended)
        assert not broken.is_complete
        assert broken.ended == ended
        with pytest.raises(InvalidArgument):
            parse(b, "5,12", ended="full")  # type: ignore[arg-type]

    def test_it_agrees_with_a_compiled_format(self, compiler: Compiler) -> None:
        format = formats.sequence(formats.until(";"), formats.json_schema({"type": "integer"}))
        for text in ("a;5", "a;", ";5", "a;5;", ""):
            alone, compiled = parse(format, text), compiler.compile(format).parse(text)
            assert (alone.is_complete, alone.missing) == (compiled.is_complete, compiled.missing)


class TestCheck:
    @pytest.mark.parametrize("format", [int, {"type": "string"}, formats.regex("a"), formats.token(10**6)])
    def test_a_valid_format(self, format) -> None:
        check(format)  # raises nothing

    @pytest.mark.parametrize(("format", "error"), FAULTY, ids=range(len(FAULTY)))
    def test_a_faulty_format_is_refused_as_compiling_refuses_it(self, compiler: Compiler, format, error) -> None:
        with pytest.raises(error) as checked:
            check(format)
        with pytest.raises(error) as compiled:
            compiler.compile(format)
        assert checked.type is compiled.type

    def test_tokens_by_id_are_left_to_a_vocabulary(self) -> None:
        check(formats.sequence(formats.token(0), formats.token(999_999), formats.integer()))

    def test_limits_are_kept(self) -> None:
        with pytest.raises(LimitExceeded):
            check(formats.regex("a{200}"), limits=Limits(repeat=100))
        check(formats.regex("a{200}"))

    def test_formats_that_hold_themselves_are_too_deep(self) -> None:
        for use in (check, lambda format: parse(format, "")):
            with pytest.raises(LimitExceeded):
                use(Nested())

    def test_a_grammar_that_derives_nothing(self) -> None:
        class Nothing(Nested):
            def to_grammar(self, limits: Limits) -> Lowered:
                return Lowered(Grammar({"start": NOTHING}, "start"))

            def key(self) -> str:
                return "derives nothing"

        for use in (check, lambda format: parse(format, "")):
            with pytest.raises(InvalidGrammar):
                use(Nothing())


def test_the_vocabulary_of_bytes() -> None:
    vocabulary = Vocabulary.of_bytes()
    assert vocabulary.tokens == (*(bytes([byte]) for byte in range(256)), None)
    assert vocabulary.end_ids == (256,)
    assert Vocabulary.of_bytes() is vocabulary


def test_no_module_has_these_names() -> None:
    assert callable(formatter_core.parse)
    assert callable(formatter_core.check)
    with pytest.raises(ModuleNotFoundError):
        __import__("formatter_core.parse")
    with pytest.raises(ModuleNotFoundError):
        __import__("formatter_core.check")
