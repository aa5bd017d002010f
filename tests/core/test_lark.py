"""llguidance's Lark: what each construct means, what is refused and where."""

from __future__ import annotations

import json
from typing import Any

import pytest

from formatter_core import Compiler, Limits, Vocabulary, check, formats, parse
from formatter_core.errors import InvalidFormat, InvalidGrammar, InvalidSchema, UnsupportedSchema
from formatter_core.grammar import Node
from formatter_core.syntax.lark import lazy
from tests.core.notation_checks import check_fault, check_texts

pytestmark = pytest.mark.usefixtures("no_error_says_anything_twice")

#: grammar, texts that it derives, texts that it does not
TABLE = [
    ('start: "a" B? // comment\n  | "c" # comment\nB: /b+/', ["a", "abb", "c"], ["b", ""]),
    ('?start: (x | "-")+ -> alias\n!x: "1".."3" ["!"]', ["1", "2!-3", "-"], ["4", "!", ""]),
    ('start: "a"{2} "b"{1,} "c"{,2} "d"~2 "e"~1..2', ["aabdde", "aabbccddee"], ["abdde", "aabcccdde", "aabde"]),
    ("start: X*\nX: Y | Z\nY: DIGIT+\nDIGIT: /[0-9]/\nZ: /[a-z]/ Y", ["", "12a3"], ["a"]),
    ('start: "Yes"i /a.c/s /x y/x', ["yEsa\ncxy", "YESabcxy"], ["Yesacxy"]),
    (r'start: "\"\\\/\b\f\n\r\té\x41" /\/\d/', ['"\\/\b\f\n\r\téA/5'], [""]),
    ("start: A\nA: /[a-z]*/ & ~/(?s:.*)bad(?s:.*)/ | /[0-9]/", ["good", "", "ba", "1"], ["bad", "abade", "A", "12"]),
    ("start: X\nX: ~A /./ & /../\nA: /a/", ["bc"], ["ab", "abc"]),
    ('start: expr\nexpr: expr "+" NUM | NUM\nNUM: /[0-9]+/\n%ignore / +/', ["1", "1 + 2+3"], [" 1", "1 ", "1+"]),
    ('start: w*\nw: LETTER\n%ignore " "\n%import common.LETTER', ["", "ab", "a b"], [" ", "a "]),
    ("%import common (INT, CNAME)\n%import common.WORD -> W\nstart: INT CNAME | W", ["1a_b", "abc"], ["a1"]),
    ('start: "<" %json {"type": "integer"} ">"', ["<5>"], ["<5.5>", "<>"]),
    ('start: %regex {"substring_chars": "abc"} "."', ["bc.", "."], ["ac."]),
    ('start: %regex {"substring_chunks": ["abc", "de", "fg"]}', ["", "abcde", "defg"], ["ab", "abcfg"]),
    ('start: %regex {"substring_words": "to be. or"}', ["to be", "be. or", ""], ["o be"]),
    ("start: head /[0-9]/\nhead[lazy]: TEXT \"<f>\"\nTEXT: /(.|\\n)*/", ["a\n<f>1"], ["<f><f>1", "<f>"]),
    ('start: with /.*/\nwith[suffix="<e>"]: /.*/', ["a<e>", "<e>b<e>c"], ["a<e"]),
    ("%llguidance {}\nstart: A\nA: /a/", ["a"], [""]),
]  # fmt: skip


@pytest.mark.parametrize(("text", "good", "bad"), TABLE, ids=[repr(text) for text, _, _ in TABLE])
def test_constructs(text: str, good: list[str], bad: list[str]) -> None:
    check_texts(formats.lark(text), good, bad)


def test_captures() -> None:
    format = formats.lark('start: x ("," x)*\nx[capture="number"]: y+\ny[capture]: /[0-9]/\n%ignore " "')
    assert parse(format, "1 2, 3").captures == {"number": ("1 2", "3"), "y": ("1", "2", "3")}


def test_special_tokens() -> None:
    compiler = Compiler(Vocabulary([*Vocabulary.of_bytes().tokens, None, None], [256], {"<think>": 257}))
    formatter = compiler.compile(formats.lark('start: <think> "a" <[258]>')).formatter()
    assert formatter.accept_tokens([257, ord("a"), 258, 256]) == 4
    with pytest.raises(InvalidFormat, match="<think>"):
        compiler.compile(formats.lark("start: <thin>"))


TEXT = "\nrest: TEXT\nTEXT: /(.|\\n)*/\n"
CALL = TEXT + 'call: head /[0-9]+/ "</c>"\nhead[lazy]: TEXT "<c>"'
TWO = TEXT + 'h1[suffix="<a>"]: TEXT\nh2[lazy]: TEXT "b"'
NAMES = TEXT + 'h1[lazy]: TEXT "ab"\nh2[lazy]: TEXT "b"'

#: grammar, texts that it derives, texts that it does not; llguidance 1.9 accepts and refuses the same ones
LAZY = [
    (
        "start: call* rest" + CALL,
        ["a<c>5</c>b", "a<", "<c>1</c><c>2</c>", ""],
        ["<c>rm -rf</c>", "a<c>5</c><c>", "<c>"],
    ),
    ("start: call* rest" + CALL.replace("(.|\\n)*", "[^\\n]+"), ["<c>rm", "a<c>5</c>b"], ["a<c>rm"]),
    ("start: calls rest\ncalls: | call calls" + CALL, ["<c>1</c><c>2</c>x"], ["<c>1</c><c>"]),
    ("start: call? rest" + CALL, ["a", "<c>1</c><c>rm"], ["<c>rm"]),
    ('start: "A" NO "<b>" call* rest\nNO: /[^<]*/' + CALL, ["Aa<b>b<c>1</c>", "A<b>"], ["Aa<b>b<c>"]),
    ('start: (h1 "1" | h2 "2")* rest' + TWO, ["x<a>1", "x<a", "b2<a>1"], ["x<a>y", "x<a>2", "xb1"]),
    ('start: (h1 "1" | h2 "2")* rest' + NAMES, ["xab1", "xab2", "b2"], ["cb1", "xab"]),
    ('start: call* rest\n%ignore " "' + CALL, ["<c>1 </c> <c>1</c> x"], ["x <c>"]),
]


@pytest.mark.parametrize(("text", "good", "bad"), LAZY, ids=[repr(text) for text, _, _ in LAZY])
def test_free_text_ends_at_the_first_trigger_of_a_lazy_rule(text: str, good: list[str], bad: list[str]) -> None:
    check_texts(formats.lark(text), good, bad)


#: grammar, line, column, what the message says
NOT_LAZY = [
    ("start: (call | rest)*" + CALL, 2, 1, "let nothing follow it"),
    ("start: (rest call)* rest" + CALL, 2, 1, "let nothing follow it"),
    ('start: "A" rest | "A" call' + CALL, 2, 1, "write what both begin with once"),
    ('start: head | %json {"type": "object"}' + CALL, 1, 1, "write what both begin with once|let nothing follow it"),
]


@pytest.mark.parametrize(("text", "line", "column", "says"), NOT_LAZY, ids=[repr(text) for text, *_ in NOT_LAZY])
def test_where_that_cannot_be_said_it_is_refused(text: str, line: int, column: int, says: str) -> None:
    check_fault(formats.lark(text), line, column, says)


#: grammar, texts that fit its budget with a token for each byte, texts that do not
BUDGETS: list[tuple[str, list[str], list[str]]] = [
    ('start: "a" r "."\nr[max_tokens=2]: /x*/', ["a.", "axx."], ["axxx."]),
    ('start: "a" r "."\nr[max_tokens=0]: /x*/', ["a."], ["ax."]),
    ('start: "a" (r ".")+\nr[max_tokens=2]: X Y?\nX: "x"\nY: "y"', ["ax.xy."], ["axyy.", "ay."]),
    ("start: r r\nr[max_tokens=2, lazy]: /x+y/", ["xyxy"], ["xxyxy"]),
    ('start: r "!"\nr[max_tokens=2, suffix="."]: /x*/', ["x.!"], ["xx.!"]),
    ('start: r "."\nr[max_tokens=2, capture]: %json {"type": "integer"}\n%ignore " "', ["12 .", "7."], ["123."]),
]


@pytest.mark.parametrize(("text", "good", "bad"), BUDGETS, ids=[text for text, *_ in BUDGETS])
def test_budgets_of_tokens(text: str, good: list[str], bad: list[str]) -> None:
    compiled = Compiler(Vocabulary.of_bytes()).compile(formats.lark(text))
    for sample in [*good, *bad]:
        formatter = compiled.formatter()
        taken = formatter.accept_tokens(sample.encode())
        assert (taken == len(sample) and formatter.can_stop) == (sample in good), sample


#: grammar, line, column, what the message says
FAULTS = [
    ('start: "a" | item', 1, 14, "`item` is not defined"),
    ("start: ITEM\nITEMS: /a/", 1, 8, "did you mean `ITEMS`"),
    ("start: A\nA: B\nB: A /x/", 2, 1, "refers to itself"),
    ('start: "a" & "b"', 1, 12, "only in terminals"),
    ("start: A\nA: start", 2, 4, "cannot stand in a terminal"),
    ("start: A\nA: /(?=a)/", 2, 5, "look-around"),
    ('start: ("a"', 1, 8, "never closed"),
    ('start: "a" ) ', 1, 12, "found `\\)`"),
    ('start: "a" start: "b"', 1, 17, "end of the line|found `:`"),
    ("start[max_tokens=x]: /a/", 1, 18, "a whole number"),
    ('start[max_tokens=5]: start "a"', 1, 1, "terminals only"),
    ('start[stop="x"]: /a/', 1, 1, '"x" after each use, or use `suffix`'),
    ('start: w "b"\nw[stop="x"]: /a*/', 2, 1, '"x" after each use'),
    ('start: w\nw[stop="x"]: /a*/', 2, 1, '"x" after each use'),
    ('start: w "x"? \nw[stop="x"]: /a*/', 2, 1, '"x" after each use'),
    ('start: w "x"\nw[stop="x"]: /a*/\n%ignore " "', 2, 1, "leave %ignore out"),
    ('start: w "x"\nw[stop=/x+/]: /a*/', 2, 3, "a text that is not empty"),
    ('start: w "x"\nw[stop=""]: /a*/', 2, 3, "a text that is not empty"),
    ('start: w "x"\nw[stop="x", max_tokens=3]: /a*/', 2, 1, "without `lazy`, `suffix` and `max_tokens`"),
    ('start: w "x"\nw[stop_capture="x"]: /a*/', 2, 1, "add one"),
    ('start: w "x"\nw[suffix=/x+/, capture]: /a*/', 2, 1, "enforced where that is a text"),
    ("start: (h1 | h2)* rest" + TWO.replace('"<a>"', '"<a>", capture'), 4, 1, "leave `capture` out"),
    ('start[suffix=""]: /a/', 1, 7, "empty suffix"),
    ('start[suffix="x", suffix="y"]: /a/', 1, 19, "stands twice"),
    ('start[capture, max_tokens=3, capture="x"]: /a/', 1, 30, "stands twice"),
    ('%llguidance {"no_forcing": "yadda"}\nstart: "a"', 1, 1, "true or false"),
    ('%llguidance 5\nstart: "a"', 1, 1, "an object"),
    ("start[greedy]: /a/", 1, 7, "`capture`, `lazy`, `suffix`, `stop`, `stop_capture`"),
    ('start[lazy]: start "a"', 1, 1, "terminals only"),
    ('start.2: "a"', 1, 6, "priorities"),
    ('start{x}: "a"', 1, 6, "templates"),
    ("start: @other", 1, 8, "another grammar"),
    ("start: <[1-5]>", 1, 8, "a range of token ids"),
    ("%import lark.A\nstart: A", 1, 9, "`common`"),
    ("%import common.INTT\nstart: INTT", 1, 16, "did you mean `INT`"),
    ("%declare A\nstart: A", 2, 8, "`A` is not defined"),
    ('%override start: "a"', 1, 1, "not supported"),
    ('start: "a"~3..2', 1, 11, "exceeds"),
    ('start: %json {"type": }', 1, 23, "malformed"),
    ('start: "b".."a"', 1, 8, "a range"),
    ("start: $", 1, 8, "expected a rule"),
    ('start: "a"\nstart: "b"', 2, 1, "defined twice"),
]


@pytest.mark.parametrize(("text", "line", "column", "says"), FAULTS, ids=[repr(text) for text, *_ in FAULTS])
def test_faults_have_a_place(text: str, line: int, column: int, says: str) -> None:
    check_fault(formats.lark(text), line, column, says)


def test_schemas_are_refused_as_elsewhere() -> None:
    with pytest.raises(UnsupportedSchema):
        check(formats.lark('start: %json {"type": "array", "uniqueItems": true}'))


#: grammar, text, captures
CAPTURES: list[tuple[str, str, dict[str, tuple[str, ...]]]] = [
    ('start: a "."\na[capture, suffix="<end>"]: /.*/', "f<en<end>.", {"a": ("f<en",)}),
    ('start: a\na[capture, suffix="aba", stop_capture="e"]: /.*/', "xaba", {"a": ("x",), "e": ("aba",)}),
    ('start: a*\na[suffix="é", stop_capture="e"]: /.*/', "xéé", {"e": ("é", "é")}),
    ('start: a\na[capture="all"]: w "<e>"\nw[capture, stop="<e>"]: /.*/', "b<e>", {"all": ("b<e>",), "w": ("b",)}),
    ('start: (w "." | "-")*\nw[capture, stop="."]: /[a-z]*/', "a.-.b.", {"w": ("a", "", "b")}),
    ('start: w " " w\nw[capture, suffix="."]: /[a-z ]*/\n%ignore "_"', "a._ _b.", {"w": ("a", "b")}),
    ('start: r "!"\nr[max_tokens=2, suffix=".", capture]: /x*/', "x.!", {"r": ("x",)}),
    ("start: call* rest" + CALL.replace("[lazy]: TEXT", '[capture, suffix="<c>"]: TEXT').replace(' "<c>"', ""),
     "a<c>5</c>b<c>6</c>z", {"head": ("a", "b")}),
]  # fmt: skip


@pytest.mark.parametrize(("text", "sample", "captures"), CAPTURES, ids=[repr(text) for text, *_ in CAPTURES])
def test_a_capture_ends_before_a_suffix_or_a_stop(text: str, sample: str, captures: dict[str, tuple[str, ...]]) -> None:
    check_texts(formats.lark(text), [sample], ["<c>"])
    assert dict(parse(formats.lark(text), sample).captures) == captures


def test_nothing_before_a_suffix_ends_sooner() -> None:
    check_texts(formats.lark('start: a\na[capture, suffix="aba"]: /.*/'), ["xaba", "aba"], ["xababa", "abaaba", "ab"])


OBJECT = {"type": "object", "properties": {"a": {"oneOf": [{"type": "number"}, {"type": "integer"}]}, "b": {}}}
COMPACT = {"whitespace_flexible": False}


@pytest.mark.parametrize(
    ("options", "good", "bad"),
    [
        ({}, ['{"a": 1.5, "b": 2}', '{\n  "a":1.5}'], ['{"a": 1}']),
        ({"whitespace_flexible": True, "lenient": False, "whitespace_pattern": None}, ['{"a": 1.5}'], ['{"a": 1}']),
        (COMPACT, ['{"a":1.5,"b":2}'], ['{"a": 1.5}', '{"a":1.5, "b":2}']),
        ({**COMPACT, "item_separator": ", "}, ['{"a":1.5, "b":[1, 2]}'], ['{"a":1.5,"b":2}', '{"a":1.5, "b":[1,2]}']),
        ({**COMPACT, "item_separator": " , ", "key_separator": ": "}, ['{"a": 1.5 , "b": 2}'], ['{"a":1.5}']),
        ({"coerce_one_of": True}, ['{"a": 1}', '{"a": 1.5}'], ['{"a": "x"}']),
    ],
    ids=json.dumps,
)
def test_options_of_a_schema(options: dict[str, Any], good: list[str], bad: list[str]) -> None:
    grammar = formats.lark("start: %json " + json.dumps({"x-guidance": options, **OBJECT}))
    assert [text for text in good if not parse(grammar, text).is_complete] == []
    assert [text for text in bad if parse(grammar, text).is_complete] == []


@pytest.mark.parametrize(
    ("schema", "good", "bad"),
    [
        ({"anyOf": [{"minimum": 3}], "oneOf": [{"type": "integer"}, {"type": "number"}]}, "3", "2"),
        ({"allOf": [{"minimum": 3}], "anyOf": [{}], "oneOf": [{}, {}]}, "3", "2"),
        ({"items": {"oneOf": [{}, {"const": 1}]}, "type": "array"}, "[1]", "1"),
        ({"enum": [{"oneOf": 1}]}, '{"oneOf": 1}', '{"anyOf": 1}'),
        ({"properties": {"oneOf": {"type": "null"}}, "type": "object"}, '{"oneOf": null}', '{"oneOf": 1}'),
    ],
)
def test_one_of_as_any_of(schema: dict[str, Any], good: str, bad: str) -> None:
    grammar = formats.lark("start: %json " + json.dumps({"x-guidance": {"coerce_one_of": True}, **schema}))
    assert parse(grammar, good).is_complete
    assert not parse(grammar, bad).is_complete


@pytest.mark.parametrize(
    ("options", "kind", "says"),
    [
        ({"lenient": True}, UnsupportedSchema, "no keyword is ignored"),
        ({"whitespace_pattern": " "}, UnsupportedSchema, "whitespace_flexible"),
        ({"json_allowed_escapes": "n"}, UnsupportedSchema, "pattern"),
        ({"json_allow_general_unicode_escapes": True}, UnsupportedSchema, "spelling"),
        ({"item_separator": ", "}, UnsupportedSchema, '"whitespace_flexible": false'),
        ({**COMPACT, "key_separator": r"\s*:\s*"}, UnsupportedSchema, "not as a pattern"),
        ({"coerce_one_of": True}, UnsupportedSchema, "leads into a `oneOf`"),
        ({"whitespace_flexible": 1}, InvalidSchema, "true or false"),
        ({"item_separator": None}, InvalidSchema, "a pattern as a string"),
        ({"indent": 2}, InvalidSchema, "no such option"),
        ([], InvalidSchema, "an object of options"),
    ],
    ids=repr,
)
def test_options_of_a_schema_that_are_refused(options: Any, kind: type[Exception], says: str) -> None:
    schema = {"x-guidance": options, "oneOf": [{"type": "null"}], "items": {"$ref": "#/oneOf/0"}}
    with pytest.raises(kind, match=says):
        check(formats.lark("start: %json " + json.dumps(schema)))


def test_all_questions_about_lazy_lexemes_share_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each of them may be hard, and there are as many as pairs of lexemes."""
    steps = []
    decide = lazy.decide_empty

    def counted(node: Node, limits: Limits) -> tuple[bool, int]:
        found = decide(node, limits)
        steps.append(found[1])
        return found

    monkeypatch.setattr(lazy, "decide_empty", counted)
    hard = [rf"T{n}: /(a|b|<)*{letter}(a|b|<){{12}}{n}/" for n, letter in enumerate("ab")]
    text = "\n".join(["start: (call | T0 | T1)*", *hard, 'head[lazy]: /(.|\\n)*/ "<c>"', 'call: head /[0-9]+/ "</c>"'])
    with pytest.raises(InvalidGrammar):
        formats.lark(text).to_grammar(Limits(work=400_000))
    assert sum(steps) < 60_000
