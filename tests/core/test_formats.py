"""Which texts each format accepts, and what it makes of them."""

from __future__ import annotations

import json

import pytest

from formatter_core import Compiler, FormatterBuilder, Vocabulary, formats
from formatter_core.errors import IncompleteResult, InvalidFormat, InvalidSchema

pytestmark = pytest.mark.usefixtures("no_error_says_anything_twice")

#: format, texts that are in it with their values, texts that are not
TABLE = [
    (formats.regex(r"\d{2}-[a-c]+"), {"12-abc": "12-abc", "٣٤-a": "٣٤-a"}, ["", "12-", "12-d", "1-a", "12-a\n"]),
    (formats.regex(""), {"": ""}, ["a"]),
    (formats.choice(["ab", "abc", "é"]), {"ab": "ab", "abc": "abc", "é": "é"}, ["", "a", "abcd", "abab", "\xc3"]),
    (formats.choice(["x|y", "(", 'a"b', "\\d", "${1}"]), {"x|y": "x|y", "(": "(", "\\d": "\\d"}, ["x", "1"]),
    (formats.substring_of("aé日😀"), {"": "", "é日": "é日", "aé日😀": "aé日😀"}, ["日é", "aa", "\U0001f601"]),
    (formats.until("</think>"), {"</think>": "", "a<b</think>": "a<b", "</th</think>": "</th"}, ["</", "a</think>b"]),
    (formats.until("aa"), {"aa": "", "baa": "b", "bab aa": "bab "}, ["aaa", "a", "baaa"]),
    (formats.integer(), {"0": 0, "-5": -5, "120": 120}, ["", "-", "-0", "007", "1.0", "+1", " 1"]),
    (formats.integer(minimum=-3, maximum=12), {"-3": -3, "0": 0, "9": 9, "12": 12}, ["-4", "13", "100", "-12"]),
    (formats.integer(minimum=5), {"5": 5, "10": 10, "999": 999}, ["4", "0", "-6"]),
    (formats.integer(maximum=-5), {"-5": -5, "-10": -10, "-6": -6}, ["-4", "0", "5"]),
    (formats.number(), {"0": 0.0, "-0.5": -0.5, "12.25": 12.25}, [".5", "5.", "1e3", "00.1", ""]),
    (formats.number(minimum=0.5, maximum="2.25"), {"0.5": 0.5, "0.50": 0.5, "1": 1.0, "2.25": 2.25, "2.1999": 2.1999},
     ["0.4999", "2.2501", "3", "0", "-1"]),
    (formats.number(maximum=-1), {"-1": -1.0, "-1.5": -1.5, "-22": -22.0}, ["-0.999", "0", "1"]),
    (formats.string(max_length=3), {"": "", "aé😀": "aé😀"}, ["abcd", "a\nb", "\r"]),
    (formats.string(pattern="[a-c\n]+", max_length=2), {"a": "a", "b\n": "b\n"}, ["", "abc", "d"]),
    (formats.kbnf('start ::= "a" start "b" | "";'), {"": "", "aabb": "aabb"}, ["aab", "ba", "abab"]),
    (formats.sequence(formats.until(";"), formats.integer()), {"x;5": ("x", 5), ";0": ("", 0)}, ["x;", "5", "x;y;5"]),
    (formats.sequence(), {"": ()}, ["a"]),
    (formats.json_schema({"type": "integer"}), {"5": 5, "-5": -5}, ["5.5", "5.0", "-0", '"5"']),
    (formats.json_schema({"type": "integer"}, spelling="any"), {"5": 5, "-5.0": -5.0}, ["5.5", '"5"']),
    (formats.text("a{b}\\d", formats.choice(["x"]), "${y}"), {"a{b}\\dx${y}": {}}, ["a{b}\\d${y}", "ab1x"]),
]  # fmt: skip


@pytest.mark.parametrize(
    ("format", "good", "bad"), TABLE, ids=lambda value: str(getattr(value, "key", lambda: "")())[:40]
)
class TestTable:
    @pytest.mark.contract(
        "`parse` is the same format without tokens",
        "choice, substring_of (cut at characters), kbnf, until, sequence, integer, number, string",
    )
    def test_texts_of_the_format_parse_to_their_value(self, compiler: Compiler, format, good, bad) -> None:
        compiled = compiler.compile(format)
        for text, value in good.items():
            result = compiled.parse(text)
            assert result.is_complete, text
            assert result.value == value
            assert type(result.value) is type(value)

    def test_other_texts_do_not(self, compiler: Compiler, format, good, bad) -> None:
        compiled = compiler.compile(format)
        for text in bad:
            result = compiled.parse(text)
            assert not result.is_complete, text
            with pytest.raises(IncompleteResult):
                _ = result.value

    def test_masks_agree_with_the_parse(self, compiler: Compiler, format, good, bad) -> None:
        compiled = compiler.compile(format)
        for text in [*good, *bad]:
            data = text.encode()
            formatter = compiled.formatter()
            taken = formatter.accept_tokens(data)
            assert (taken == len(data) and formatter.can_stop) == (text in good), text
            assert set(data[:taken]) <= set(range(256))
            if taken < len(data):
                assert data[taken] not in formatter.allowed_tokens()

    @pytest.mark.contract("formats go to JSON and back, captures included")
    def test_the_format_goes_to_json_and_back(self, compiler: Compiler, format, good, bad) -> None:
        again = formats.from_json(json.loads(json.dumps(format.to_json())))
        assert again.key() == format.key()
        for text, value in good.items():
            assert compiler.compile(again).parse(text).value == value


class TestBuilder:
    @pytest.mark.contract("an f-string works too")
    def test_holes_and_literals(self, compiler: Compiler) -> None:
        b = FormatterBuilder()
        age = b.integer(name="age", minimum=0)
        b.append("Name: ", b.string(name="name", max_length=40), ", age ", age, ".")
        b.append_line(f" Again: {age}.")
        result = compiler.compile(b).parse("Name: Ann, age 7. Again: 8.\n")
        assert result.captures == {"name": ("Ann",), "age": (7, 8)}
        assert result.value == {"name": "Ann", "age": (7, 8)}
        assert [(span.name, span.start, span.end) for span in result.spans] == [
            ("name", 6, 9), ("age", 15, 16), ("age", 25, 26)]  # fmt: skip

    @pytest.mark.contract("until: the end occurs not before, and is not captured")
    def test_the_span_of_until_leaves_the_end_out(self, compiler: Compiler) -> None:
        b = FormatterBuilder()
        b.append(b.until(".", name="sentence"), " ", b.until("!", name="cry"))
        result = compiler.compile(b).parse("Ab. Cd!")
        assert result.value == {"sentence": "Ab", "cry": "Cd"}
        assert [(span.text, span.start, span.end) for span in result.spans] == [("Ab", 0, 2), ("Cd", 4, 6)]

    @pytest.mark.contract("`append` takes text as it is, and returns the builder")
    def test_no_literal_needs_escaping(self, compiler: Compiler) -> None:
        literal = '${5} {x} {{y}} \\n \\$ #"re" ::= \' " \0 \x02hole 1\x03 é😀'
        b = FormatterBuilder()
        b.append(literal, b.choice(["a"], name="c"))
        result = compiler.compile(b).parse(literal + "a")
        assert result.value == {"c": "a"}

    def test_json_holes_give_values(self, compiler: Compiler) -> None:
        b = FormatterBuilder()
        b.append(
            "list: ", b.json({"type": "array", "items": {"type": "integer"}}, name="xs"), "\n", b.json(bool, name="ok")
        )
        assert compiler.compile(b).parse("list: [1, 2]\ntrue").value == {"xs": [1, 2], "ok": True}

    def test_holes_inside_json(self, compiler: Compiler) -> None:
        b = FormatterBuilder()
        name = b.regex(r'[^"\\\p{Cc}]*', name="name")
        b.append(f'{{"name": "{name}", "again": "{name}", "tags": ', b.json(list[str], name="tags"), "}")
        result = compiler.compile(b).parse('{"name": "Ann", "again": "é, \'x\'", "tags": ["a", "\\u00e9"]}')
        assert result.captures == {"name": ("Ann", "é, 'x'"), "tags": (["a", "é"],)}

    def test_holes_inside_repeats_inside_json(self, compiler: Compiler) -> None:
        grammar = formats.kbnf(
            'start ::= "[" (pair ("," pair)*)? "]"; pair ::= "{" key:text ":" value:(text | number | start) "}";'
            'text ::= #"\\"[a-z]*\\""; number ::= #"[0-9]+";'
        )
        result = compiler.compile(grammar).parse('[{"a":1},{"b":[{"c":"d"}]}]')
        assert result.captures == {"key": ('"a"', '"b"', '"c"'), "value": ("1", '[{"c":"d"}]', '"d"')}

    def test_a_hole_in_a_hole(self, compiler: Compiler) -> None:
        b = FormatterBuilder()
        b.append(b.format(formats.text("<", formats.Hole(formats.integer(), "inner"), ">"), name="outer"))
        result = compiler.compile(b).parse("<5>")
        assert result.captures == {"outer": ({"inner": 5},), "inner": (5,)}

    @pytest.mark.contract("captures come from the parse: written order, greedy, left to right")
    def test_alternatives_are_preferred_in_written_order(self, compiler: Compiler) -> None:
        b = FormatterBuilder()
        b.append(b.choice(["ab", "abc"], name="x"), b.regex("c?", name="y"))
        assert compiler.compile(b).parse("abc").value == {"x": "ab", "y": "c"}

    def test_named_groups_of_a_regex_are_captures(self, compiler: Compiler) -> None:
        result = compiler.compile(formats.regex(r"(?P<year>\d{4})-(?P<month>\d\d)")).parse("2024-05")
        assert result.captures == {"year": ("2024",), "month": ("05",)}

    def test_faults_are_named(self) -> None:
        b, other = FormatterBuilder(), FormatterBuilder()
        foreign = other.integer(name="n")
        for fault in (
            lambda: b.append(foreign),
            lambda: b.append(f"{foreign}"),
            lambda: b.append(5),
            lambda: b.append(f"{b.integer():>5}"),
            lambda: b.integer(name=""),
            lambda: b.integer(name=".x"),
            lambda: b.choice([]),
            lambda: b.choice("ab"),
            lambda: b.choice([1]),
            lambda: b.until(""),
            lambda: b.integer(minimum=3, maximum=2),
            lambda: b.number(minimum="x"),
            lambda: b.number(minimum=float("nan")),
            lambda: b.string(max_length=-1),
            lambda: b.format("x"),
            lambda: formats.text(3),
            lambda: formats.token(-1),
            lambda: formats.substring_of(b"x"),
            lambda: formats.from_json({"type": "no"}),
            lambda: formats.from_json({"type": "regex"}),
            lambda: formats.from_json(5),
        ):
            with pytest.raises(InvalidFormat):
                fault()

    def test_two_holes_of_one_name_are_refused(self, compiler: Compiler) -> None:
        b = FormatterBuilder()
        b.append(b.integer(name="n"), ",", b.integer(name="n"))
        with pytest.raises(InvalidFormat, match="'n'"):
            compiler.compile(b)


class TestWhatCompileTakes:
    @pytest.mark.contract("a Format, a builder, a schema as dict, bool or text, a type")
    def test_shorthands(self, compiler: Compiler) -> None:
        for shorthand in ({"type": "integer"}, '{"type": "integer"}', int, formats.json_schema({"type": "integer"})):
            assert compiler.compile(shorthand).parse("5").value == 5

    def test_a_list_of_texts_is_a_choice(self, compiler: Compiler) -> None:
        assert compiler.compile(["yes", "no"]) is compiler.compile(formats.choice(["yes", "no"]))

    @pytest.mark.parametrize("value", [[], ["a", 1], [formats.integer()], [{"a": 1}]])
    def test_any_other_list_is_refused(self, compiler: Compiler, value) -> None:
        with pytest.raises(InvalidFormat):
            compiler.compile(value)

    @pytest.mark.parametrize("example", [{"name": "Ann", "age": 5}, '{"name": "Ann"}', {5: 1}])
    def test_a_dict_without_any_keyword_is_probably_an_example(self, compiler: Compiler, example) -> None:
        with pytest.raises(InvalidSchema, match=r"formats\.example"):
            compiler.compile(example)

    def test_a_dict_with_a_keyword_or_nothing_is_a_schema(self, compiler: Compiler) -> None:
        for schema in ({}, {"x-name": "any", "title": "any"}):
            assert compiler.compile(schema).parse("[1]").value == [1]

    def test_a_compiled_format(self, compiler: Compiler) -> None:
        compiled = compiler.compile(formats.integer())
        assert compiler.compile(compiled) is compiled
        assert compiler.compile(formats.sequence(compiled, ";")).parse("5;").value == (5, ";")
        assert formats.from_json(compiled.to_json()).key() == compiled.key()
        same = Compiler(Vocabulary(compiler.vocabulary.tokens, compiler.vocabulary.end_ids), engine="native")
        assert same.compile(compiled).parse("5").value == 5
        with pytest.raises(InvalidFormat, match="another vocabulary"):
            Compiler(Vocabulary.of_bytes()).compile(compiled)

    @pytest.mark.parametrize("value", [5, b"x", 'a{"', "[0-9]+", "5", object()])
    def test_everything_else_is_refused(self, compiler: Compiler, value) -> None:
        with pytest.raises(InvalidFormat):
            compiler.compile(value)

    def test_equal_content_is_compiled_once(self, compiler: Compiler) -> None:
        first = compiler.compile(formats.choice(["once", "only"]))
        assert compiler.compile(formats.choice(["once", "only"])) is first
        assert compiler.compile(formats.choice(["only", "once"])) is not first


def test_a_schema_that_somebody_changed_does_not_come_back() -> None:
    text = '{"type": "object", "properties": {"a": {"type": "integer"}}}'
    first = formats.json_schema(text)
    assert formats.json_schema(text) == first
    assert isinstance(first.schema, dict)
    first.schema["type"] = "array"  # which nobody should
    assert formats.json_schema(text).schema == {"type": "object", "properties": {"a": {"type": "integer"}}}
