"""XGrammar's structural tags: what each construct means, what is refused and where."""

from __future__ import annotations

import json
from typing import Any

import pytest

from formatter_core import Compiler, Vocabulary, check, formats, parse
from formatter_core.errors import (
    FormatterError,
    InvalidFormat,
    InvalidGrammar,
    InvalidSchema,
    LimitExceeded,
    UnsatisfiableSchema,
    UnsupportedSchema,
)

pytestmark = pytest.mark.usefixtures("no_error_says_anything_twice")

TEXT = {"type": "any_text"}
DIGIT = {"type": "regex", "pattern": "\\d"}
INTEGER = {"type": "json_schema", "json_schema": {"type": "integer"}}


def const(value: str) -> dict[str, Any]:
    return {"type": "const_string", "value": value}


def tag(begin: Any, content: Any, end: Any) -> dict[str, Any]:
    return {"type": "tag", "begin": begin, "content": content, "end": end}


def token(name: str) -> dict[str, Any]:
    return {"type": "token", "token": name}


TOKEN_CALLS: dict[str, Any] = {
    "type": "token_triggered_tags",
    "trigger_tokens": ["<a>"],
    "tags": [tag(token("<a>"), INTEGER, token("<b>"))],
}
CALLS: dict[str, Any] = {
    "type": "triggered_tags",
    "triggers": ["<f="],
    "tags": [tag("<f=a>", INTEGER, "</f>"), tag("<f=b>", DIGIT, ["</f>", ";"])],
}
ITEMS: dict[str, Any] = {"type": "tags_with_separator", "tags": [tag("<", DIGIT, ">")], "separator": ","}

#: format, texts that it describes, texts that it does not
TABLE: list[tuple[dict[str, Any], list[str], list[str]]] = [
    (const("a\"b"), ['a"b'], ["", "a"]),
    (INTEGER, ["5", "-1"], ["5.5", ""]),
    ({"type": "grammar", "grammar": 'root ::= "a" x\nx ::= [0-9]+'}, ["a12"], ["a"]),
    ({"type": "regex", "pattern": "[A-Z]{2}-\\d."}, ["AB-1\n"], ["AB-x.", "A-1."]),
    (TEXT, ["", "any\n<text>"], []),
    ({"type": "any_text", "excludes": ["<f", "x"]}, ["a<b"], ["a<f", "x"]),
    ({"type": "any_text", "excludes": ["x"], "max_chars": 2}, ["", "éa"], ["abc", "x"]),
    ({"type": "sequence", "elements": [const("a"), DIGIT]}, ["a1"], ["a", "1"]),
    ({"type": "or", "elements": [const("a"), DIGIT]}, ["a", "1"], ["a1"]),
    ({"type": "optional", "content": DIGIT}, ["", "1"], ["11"]),
    ({"type": "plus", "content": DIGIT}, ["1", "11"], [""]),
    ({"type": "star", "content": DIGIT}, ["", "11"], ["a"]),
    ({"type": "repeat", "min": 1, "max": 2, "content": DIGIT}, ["1", "12"], ["", "123"]),
    ({"type": "repeat", "min": 2, "max": -1, "content": DIGIT}, ["12", "12345"], ["1"]),
    (tag("<think>", TEXT, "</think>"), ["<think>a < b</think>"], ["<think></think></think>", "<think>"]),
    (tag("(", TEXT, [")", "]"]), ["(a)", "(]"], ["(a)]", "("]),
    (CALLS, ["", "a <f", "x<f=a>5</f>y<f=b>1;", "<f=a>5</f>"], ["<f=", "<f=c>", "<f=a>x</f>", "<f=a>5"]),
    ({**CALLS, "stop_after_first": True}, ["", "x<f=b>1;"], ["<f=b>1;x"]),
    ({**CALLS, "at_least_one": True}, ["<f=b>1;", "<f=b>1;x<f=a>5</f>"], ["", "x<f=b>1;"]),
    ({**CALLS, "at_least_one": True, "stop_after_first": True}, ["<f=b>1;"], ["", "<f=b>1;x"]),
    ({**CALLS, "excludes": ["!"]}, ["a<f=b>1;"], ["a!", "a!<f=b>1;"]),
    (tag("[", CALLS, "]"), ["[a<f=b>1;b]", "[]"], ["[a", "[]]"]),
    (ITEMS, ["", "<1>", "<1>,<2>"], ["<1>,", "<1><2>"]),
    ({**ITEMS, "at_least_one": True}, ["<1>,<2>"], [""]),
    ({**ITEMS, "stop_after_first": True}, ["", "<1>"], ["<1>,<2>"]),
    ({"type": "dispatch", "rules": [["#", DIGIT], ["##", const("x")]]}, ["a#1b", "#1#2"], ["a#b", "#"]),
    ({"type": "dispatch", "rules": [["#", DIGIT]], "loop": False, "excludes": ["!"]}, ["a", "a#1"], ["a#1b", "!"]),
]  # fmt: skip


@pytest.mark.parametrize(("format", "good", "bad"), TABLE, ids=[json.dumps(entry[0])[:60] for entry in TABLE])
def test_constructs(format: dict[str, Any], good: list[str], bad: list[str]) -> None:
    made = formats.structural_tag({"type": "structural_tag", "format": format})
    again = formats.from_json(json.loads(json.dumps(made.to_json())))
    assert again.key() == made.key()
    compiled = Compiler(Vocabulary.of_bytes()).compile(again)
    for sample in [*good, *bad]:
        formatter = compiled.formatter()
        taken = formatter.accept_tokens(sample.encode())
        assert (taken == len(sample.encode()) and formatter.can_stop) == (sample in good), sample
        assert parse(made, sample).is_complete == (sample in good), sample


def test_the_older_shape() -> None:
    structures = [{"begin": "<f=a>", "schema": {"type": "integer"}, "end": "</f>"}]
    format = formats.structural_tag(json.dumps({"structures": structures, "triggers": ["<f="]}))
    for text, good in (("hello <f=a>5</f>!", True), ("", True), ("<f=a>x</f>", False)):
        assert parse(format, text).is_complete == good


PERSON = {
    "type": "object",
    "properties": {"name": {"type": "string"}, "age": {"type": "integer"}, "job": {"enum": ["cook", "pilot"]}},
    "required": ["name"],
}
QWEN = "<parameter=name>{}</parameter>", "<parameter=age>{}</parameter>", "<parameter=job>{}</parameter>"
DEEPSEEK = '<｜DSML｜parameter name="{}" string="{}">{}</｜DSML｜parameter>'

#: style, texts that it allows, texts that it does not
STYLES: list[tuple[str, list[str], list[str]]] = [
    (
        "qwen_xml",
        [QWEN[0].format('</a> "x'), "\n".join(QWEN).format("Ann", "\n41 ", "cook") + "\n", QWEN[0].format("")],
        ["", QWEN[1].format(4), (QWEN[1] + QWEN[0]).format(4, "a"), "".join(QWEN).format("Ann", 41, "nurse"), "{}"],
    ),
    (
        "minimax_xml",
        ['<parameter name="name">Ann</parameter> <parameter name="age">4</parameter>'],
        ['<parameter name="name">Ann</parameter><parameter name="age">four</parameter>'],
    ),
    ("glm_xml", ["<arg_key>name</arg_key>\n<arg_value>Ann</arg_value>"], ["<arg_key>age</arg_key>"]),
    (
        "deepseek_xml",
        [DEEPSEEK.format("name", "true", "Ann") + DEEPSEEK.format("age", "false", 4)],
        [DEEPSEEK.format("name", "false", "Ann"), "".join(DEEPSEEK.format(key, "true", 4) for key in ("name", "age"))],
    ),
    (
        "deepseek_v4_1_xml",
        [DEEPSEEK.replace("｜param", "｜ param").format("name", "true", "Ann")],
        [DEEPSEEK.format("name", "true", "Ann")],
    ),
]


@pytest.mark.parametrize(("style", "good", "bad"), STYLES)
def test_styles_of_a_schema(style: str, good: list[str], bad: list[str]) -> None:
    tag = {"type": "json_schema", "json_schema": PERSON, "style": style}
    for text in [*good, *bad]:
        assert parse(formats.structural_tag({"format": tag}), text).is_complete == (text in good), text
        assert parse(formats.structural_tag({"format": {**tag, "any_order": True}}), text).is_complete == (
            text in good or text == (QWEN[1] + QWEN[0]).format(4, "a")
        ), text


@pytest.mark.parametrize("schema", [True, {}])
def test_a_style_without_a_schema_leaves_arguments_free(schema: Any) -> None:
    def allows(style: str, text: str) -> bool:
        tag = {"format": {"type": "json_schema", "json_schema": schema, "style": style}}
        return parse(formats.structural_tag(tag), text).is_complete

    for style, good, _ in STYLES:
        assert allows(style, "")
        assert all(allows(style, text) for text in good)
        assert not allows(style, "{}")
    assert allows("qwen_xml", "<parameter=any-name_1>41</parameter>\n<parameter=x> </a></parameter>")
    assert not allows("qwen_xml", "<parameter=a name>41</parameter>")
    assert not allows("qwen_xml", "<parameter=x>a</parameter> b</parameter>")
    assert allows("deepseek_xml", DEEPSEEK.format("x", "false", '{"a": [1]}'))
    assert not allows("deepseek_xml", DEEPSEEK.format("x", "false", "Ann"))


def test_the_end_of_a_value_stands_in_no_value() -> None:
    schema = {"type": "object", "properties": {"tags": {"type": "array", "items": {"type": "string"}}}}
    format = formats.structural_tag({"format": {"type": "json_schema", "json_schema": schema, "style": "qwen_xml"}})
    for value, good in (('["a<b"]', True), ('["</parameter>"]', False), ('["\\u003c/parameter>"]', True)):
        assert parse(format, f"<parameter=tags>{value}</parameter>").is_complete == good


def test_keys_in_any_order() -> None:
    format = formats.structural_tag({"format": {"type": "json_schema", "json_schema": PERSON, "any_order": True}})
    for text, good in (
        ('{"age": 4, "name": "Ann"}', True),
        ('{"age": 4}', False),
        ('{"name": "Ann", "name": "Bea"}', False),
    ):
        assert parse(format, text).is_complete == good


def test_a_schema_that_no_style_writes_is_refused_with_the_whole_pointer() -> None:
    schema = {"type": "object", "properties": {"a": {"type": "array", "uniqueItems": True}}}
    with pytest.raises(UnsupportedSchema, match="/format/json_schema/properties/a"):
        check(formats.structural_tag({"format": {"type": "json_schema", "json_schema": schema, "style": "qwen_xml"}}))


@pytest.mark.parametrize("style", ["json", "qwen_xml", "minimax_xml", "glm_xml", "deepseek_xml", "deepseek_v4_1_xml"])
@pytest.mark.parametrize(
    ("schema", "told"),
    [
        ({"type": "string", "minLength": "x"}, "at /format/json_schema/properties/a: `minLength`"),
        ({"type": "string", "pattern": 5}, "at /format/json_schema/properties/a: `pattern`"),
        ({"type": "string", "pattern": "(a"}, "`pattern` at /format/json_schema/properties/a"),
        ({"type": 5}, "at /format/json_schema/properties/a"),
        ({"anyOf": 5}, "at /format/json_schema/properties/a: `anyOf`"),
    ],
)
def test_a_faulty_schema_is_told_alike_in_every_style(style: str, schema: Any, told: str) -> None:
    schema = {"type": "object", "properties": {"a": schema}}
    with pytest.raises((InvalidSchema, UnsupportedSchema)) as caught:
        check(formats.structural_tag({"format": {"type": "json_schema", "json_schema": schema, "style": style}}))
    assert told in str(caught.value)


A, B, C = 257, 258, 259

#: format, outputs that it describes, outputs that it does not; special tokens as ids, text as text
TOKENS: list[tuple[dict[str, Any], list[list[Any]], list[list[Any]]]] = [
    ({"type": "any_tokens"}, [[], ["a", A, "b", B, C]], []),
    ({"type": "any_tokens", "exclude_tokens": ["<a>", B]}, [["a", C]], [[A], ["a", B]]),
    (tag(token("<a>"), {"type": "any_tokens"}, token("<b>")), [[A, "x", C, A, B]], [[A, "x"], [A, B, B]]),
    ({"type": "any_tokens", "max_tokens": 2}, [[], ["a", A], ["é"]], [["ab", A], ["a", A, B]]),
    (tag(token("<a>"), {"type": "any_tokens", "max_tokens": 0}, token("<b>")), [[A, B]], [[A, "x", B], [A, C, B]]),
    (tag("<", {"type": "any_text", "max_tokens": 2}, ">>"), [["<>>"], ["<ab>>"], ["<a>>>"]], [["<abc>>"], ["<ab"]]),
    ({"type": "any_text", "max_chars": 2, "max_tokens": 3}, [["ab"], ["éa"]], [["abc"], ["éé"]]),
    ({"type": "exclude_token", "exclude_tokens": ["<a>"]}, [["a"], [B]], [[], [A], ["ab"], ["a", B]]),
    (tag(token("<a>"), {"type": "exclude_token"}, token("<b>")), [[A, "x", B], [A, C, B]], [[A, B], [A, B, B]]),
    ({"type": "or", "elements": [{"type": "exclude_token"}, const("ab")]}, [["a"], ["ab"]], [["ac"]]),
    (TOKEN_CALLS, [[], ["x", A, "5", B, C, A, "6", B]], [[A, "x", B], [A, "5"]]),
    ({**TOKEN_CALLS, "exclude_tokens": ["<c>"]}, [["x", B]], [["x", C]]),
    ({**TOKEN_CALLS, "stop_after_first": True}, [["x"], ["x", A, "5", B]], [[A, "5", B, "x"]]),
    ({**TOKEN_CALLS, "at_least_one": True}, [[A, "5", B, "x"]], [[], ["x", A, "5", B]]),
    ({"type": "token_dispatch", "rules": [["<a>", DIGIT]]}, [["x", A, "1", B, A, "2"]], [[A], [A, "x"]]),
    ({"type": "token_dispatch", "rules": [[A, DIGIT]], "loop": False}, [["x"], [A, "1"]], [[A, "1", "x"]]),
]  # fmt: skip


@pytest.mark.parametrize(("format", "good", "bad"), TOKENS, ids=[json.dumps(entry[0])[:60] for entry in TOKENS])
def test_free_parts_of_tokens(format: dict[str, Any], good: list[list[Any]], bad: list[list[Any]]) -> None:
    special = {"<a>": A, "<b>": B, "<c>": C, "<end>": 256}
    compiler = Compiler(Vocabulary([*Vocabulary.of_bytes().tokens, None, None, None], [256], special))
    compiled = compiler.compile(formats.structural_tag({"format": format}))
    for output in [*good, *bad]:
        ids = [each for part in output for each in ([part] if isinstance(part, int) else part.encode())]
        formatter = compiled.formatter()
        assert (formatter.accept_tokens(ids) == len(ids) and formatter.can_stop) == (output in good), output


@pytest.mark.parametrize("excluded", [65, 1000, "<none>"])
def test_only_special_tokens_are_excluded(excluded: Any) -> None:
    format = formats.structural_tag({"format": {"type": "any_tokens", "exclude_tokens": [excluded]}})
    with pytest.raises(InvalidFormat, match="special token"):
        Compiler(Vocabulary.of_bytes()).compile(format)


def test_tokens() -> None:
    compiler = Compiler(Vocabulary([*Vocabulary.of_bytes().tokens, None, None], [256], {"<|call|>": 257}))
    inside = tag({"type": "token", "token": "<|call|>"}, TEXT, {"type": "token", "token": 258})
    formatter = compiler.compile(formats.structural_tag({"format": inside})).formatter()
    assert formatter.allowed_tokens() == [257]
    assert formatter.accept_tokens([257, *b"any", 258, 256]) == 6


#: format, pointer, what the message says
FAULTS: list[tuple[Any, str, str]] = [
    ({"type": "what"}, "/format", "const_string, json_schema"),
    ({"type": "const_string"}, "/format", "`value` is missing"),
    ({"type": "const_string", "value": 5}, "/format/value", "is a text, found 5"),
    ({"type": "const_string", "value": "a", "x": 1}, "/format", "`x` is not known"),
    ({"type": "sequence", "elements": [5]}, "/format/elements/0", "an object whose `type`"),
    ({"type": "or", "elements": []}, "/format/elements", "at least one"),
    ({"type": "repeat", "min": 3, "max": 1, "content": TEXT}, "/format", "less than"),
    ({"type": "any_text", "max_tokens": -1}, "/format/max_tokens", "from 0 up"),
    ({"type": "any_tokens", "max_tokens": 1.5}, "/format/max_tokens", "a whole number or null"),
    ({"type": "star", "content": {"type": "exclude_token"}}, "/format/content", "use `any_tokens`"),
    (tag("a", {"type": "exclude_token"}, token("<a>")), "/format/content", "between special tokens"),
    ({"type": "sequence", "elements": [{"type": "exclude_token"}, TEXT]}, "/format/elements/0", "use `any_tokens`"),
    ({"type": "any_tokens", "exclude_tokens": ["<a>", 1.5]}, "/format/exclude_tokens/1", "the id of a special token"),
    ({"type": "token_dispatch", "rules": [["<a>"]]}, "/format/rules/0", "a special token and a format"),
    ({**TOKEN_CALLS, "trigger_tokens": ["<b>"]}, "/format/tags/0/begin", "by the same name or id"),
    ({"type": "json_schema", "json_schema": {}, "style": "cohere_xml"}, "/format/style", "one of json, qwen_xml"),
    ({"type": "json_schema", "json_schema": False, "style": "qwen_xml"}, "/format/style", "the schema of an object"),
    ({"type": "json_schema", "json_schema": {}, "excludes": ["<"]}, "/format/excludes", "a `pattern`"),
    ({"type": "json_schema", "json_schema": {}, "max_whitespace_cnt": 0}, "/format/max_whitespace_cnt", "64 spaces"),
    ({"type": "grammar", "grammar": "root ::= a"}, "/format/grammar", "line 1, column 10"),
    ({"type": "regex", "pattern": "("}, "/format/pattern", "position"),
    (tag("a", {"type": "regex", "pattern": "[^\\s\\S]"}, "b"), "/format/content/pattern", "no text matches"),
    (
        {"type": "plus", "content": {"type": "grammar", "grammar": 'root ::= "a" root'}},
        "/format/content/grammar",
        "ends",
    ),
    ({**CALLS, "triggers": ["<g"]}, "/format/tags/0/begin", "no trigger"),
    ({**CALLS, "triggers": ["<", "<f="]}, "/format/tags/0/begin", "exactly one"),
    (tag("a", TEXT, []), "/format/end", "at least one"),
    ({"type": "dispatch", "rules": [["a"]]}, "/format/rules/0", "a pair"),
    ({"type": "token", "token": -1}, "/format/token", "the id of a special token"),
]


@pytest.mark.parametrize(("format", "pointer", "says"), FAULTS, ids=[json.dumps(entry[0])[:60] for entry in FAULTS])
def test_faults_have_a_pointer(format: Any, pointer: str, says: str) -> None:
    with pytest.raises(InvalidGrammar, match=says) as caught:
        check(formats.structural_tag({"format": format}))
    assert caught.value.pointer == pointer
    assert pointer in str(caught.value)


@pytest.mark.parametrize(
    ("data", "pointer"),
    [
        ({"type": "structural_tags", "format": TEXT}, "/type"),
        ({"type": 5, "format": TEXT}, "/type"),
        ({"type": "json_schema", "structures": [], "triggers": []}, "/type"),
        ({"format": {**CALLS, "tags": [{**tag("<f=a>", TEXT, "x"), "type": "tags"}]}}, "/format/tags/0/type"),
        ({"format": tag({"type": "tokens", "token": "<a>"}, TEXT, "b")}, "/format/begin/type"),
    ],
)
def test_a_type_that_is_something_else_is_refused(data: Any, pointer: str) -> None:
    with pytest.raises(InvalidGrammar, match="`type` is") as caught:
        check(formats.structural_tag(data))
    assert caught.value.pointer == pointer


@pytest.mark.parametrize(
    ("schema", "error"),
    [
        ({"type": "array", "uniqueItems": True}, UnsupportedSchema),
        ({"type": 5}, InvalidSchema),
        ({"allOf": [{"type": "string"}, {"type": "integer"}]}, UnsatisfiableSchema),
    ],
)
def test_schemas_are_refused_with_the_whole_pointer(schema: Any, error: type[FormatterError]) -> None:
    with pytest.raises(error, match="/format/elements/0/json_schema"):
        check(
            formats.structural_tag(
                {"format": {"type": "sequence", "elements": [{"type": "json_schema", "json_schema": schema}]}}
            )
        )


def test_hostile_data() -> None:
    deep: dict[str, Any] = DIGIT
    for _ in range(300):
        deep = {"type": "optional", "content": deep}
    with pytest.raises(LimitExceeded):
        check(formats.structural_tag({"format": deep}))
    broken: list[Any] = [5, [], "x", '{"format": ', None]
    for data in broken:
        with pytest.raises(FormatterError):
            check(formats.structural_tag(data))
