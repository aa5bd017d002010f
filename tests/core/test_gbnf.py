"""GBNF: what each construct means, what is refused and where, and the way out."""

from __future__ import annotations

import pytest

from formatter_core import Compiler, Limits, Vocabulary, check, formats, parse, to_gbnf, to_kbnf
from formatter_core.engine import choose_engine
from formatter_core.errors import InvalidFormat, InvalidGrammar, LimitExceeded
from formatter_core.grammar import Bytes, Choice, Grammar, Reference, Repeat, Sequence
from formatter_core.syntax import bnf
from formatter_core.testing.compare import compare
from formatter_core.testing.oracle import OracleEngine
from formatter_core.testing.random_grammars import Features
from scripts.read_back import read_back_gbnf, read_back_kbnf
from tests.core.notation_checks import check_fault, check_texts
from tests.sampling import sampled

pytestmark = pytest.mark.usefixtures("no_error_says_anything_twice")

#: grammar, texts that it derives, texts that it does not
TABLE = [
    ('root ::= "a" | "b" "c"', ["a", "bc"], ["b", "ac", ""]),
    ('root ::= "a" |\n  "b" |\n"c"', ["a", "b", "c"], ["ab"]),
    ("root ::= | [ab]", ["", "a"], ["ab"]),
    ('root ::= ("a"\n  # a comment\n  "b")+ # another', ["ab", "abab"], ["a", ""]),
    ('root ::= "x"{2} "y"{1,} "z"{0,2} "w"{ 1 , 2 }', ["xxyw", "xxyyzzww"], ["xyw", "xxyzzzw", "xxyzwww"]),
    ('root ::= "a"{2}{3}', ["a" * 6], ["a" * 5, "aa"]),
    ('root ::= "a"*? "b"', ["b", "aab"], ["a"]),
    ('root ::= "a"{0} "b"', ["b"], ["ab"]),
    (r'root ::= "\"\\\n\t\r[]-\[\]\-\x41é\U0001F600"', ['"\\\n\t\r[]-[]-Aé😀'], [""]),
    (r"root ::= [a-c\]\\é-] [^\n\x00-\x1f]", ["a1", "]x", "\\é", "é-", "--"], ["d1", "a\n", "a"]),
    ("root ::= [-a] [a-]", ["--", "aa", "-a"], ["b-"]),
    ("root ::= . .", ["a\n", "é😀"], ["a"]),
    ('root ::= check-mate "." 1st rule_2\ncheck-mate ::= "#"\n1st ::= "1"\nrule_2 ::= "2"', ["#.12"], ["#"]),
    ('root ::= root "a" | "b"', ["b", "baa"], ["a"]),
    ('root ::= "(" root ")" | ""', ["", "(())"], ["(", "())"]),
    ('# first\n\n\troot ::=\n  a\r\na ::= "b"\r\n', ["b"], [""]),
    ('root ::= "" "a"', ["a"], [""]),
]


@pytest.mark.parametrize(("text", "good", "bad"), TABLE, ids=[repr(text) for text, _, _ in TABLE])
def test_constructs(text: str, good: list[str], bad: list[str]) -> None:
    check_texts(formats.gbnf(text), good, bad)


#: grammar, line, column, what the message says
FAULTS = [
    ('root ::= "a', 1, 10, "never closed"),
    ('root ::= "a" | item', 1, 16, "`item` is not defined"),
    ('root ::= itm\nitem ::= "a"', 1, 10, "did you mean `item`"),
    ('root ::= ("a"\nx ::= "b"', 1, 10, "this group is never closed"),
    ('root ::= "a"\n | "b"', 2, 2, "end of the line before"),
    ("root ::= [b-a]", 1, 11, "backwards"),
    ("root ::= [abc", 1, 10, "never closed"),
    ("root ::= []", 1, 10, r"write `\.`"),
    (r'root ::= "\q"', 1, 11, "no escape"),
    (r'root ::= "\ud800"', 1, 11, "lone surrogate"),
    (r'root ::= "\U00110000"', 1, 11, "not a character"),
    ('root = "a"', 1, 6, "expected `::=`"),
    ("root ::= *", 1, 10, "nothing before"),
    ('root ::= "a"{3,2}', 1, 13, "exceeds"),
    ('root ::= "a"{,2}', 1, 13, "{m,n}"),
    ('root ::= "a" )', 1, 14, "closes nothing"),
    ("root ::= !<[5]>", 1, 10, "counts tokens"),
    ("root ::= <think", 1, 10, "a token is written"),
    ('root ::= "a"\nroot ::= "b"', 2, 1, "defined twice, first at line 1"),
    ('root ::= "a", "b"', 1, 13, "found `,`"),
    ('<root> ::= "a"', 1, 1, "the name of a rule"),
]


@pytest.mark.parametrize(("text", "line", "column", "says"), FAULTS, ids=[repr(text) for text, *_ in FAULTS])
def test_faults_have_a_place(text: str, line: int, column: int, says: str) -> None:
    check_fault(formats.gbnf(text), line, column, says)


def test_the_start_rule() -> None:
    assert parse(formats.gbnf('top ::= "a"', start="top"), "a").is_complete
    for text in ("", "# nothing", 'rot ::= "a"'):
        with pytest.raises(InvalidGrammar, match="`root` is not defined"):
            check(formats.gbnf(text))
    with pytest.raises(InvalidFormat):
        formats.gbnf(5)  # type: ignore[arg-type]


def test_tokens_by_name_and_by_id() -> None:
    compiler = Compiler(Vocabulary([*Vocabulary.of_bytes().tokens, None, None], [256], {"<think>": 257}))
    formatter = compiler.compile(formats.gbnf('root ::= <think> "a" <[258]>')).formatter()
    assert formatter.allowed_tokens() == [257]
    formatter.accept_tokens([257, ord("a")])
    assert formatter.allowed_tokens() == [258]
    with pytest.raises(InvalidFormat, match="<think>"):
        compiler.compile(formats.gbnf("root ::= <thin>"))


@pytest.mark.parametrize("first", sampled(range(0, 60, 20), 1))
def test_random_grammars_survive_being_written_and_read(first: int) -> None:
    native = choose_engine("native")
    for again, features in ((read_back_gbnf, Features(captures=False)), (read_back_kbnf, Features())):
        report = compare(OracleEngine(), again(native), range(first, first + 20), features=features)
        assert not report.differences, report.differences[0]
        assert report.grammars > 3


@pytest.mark.parametrize(
    ("format", "good", "bad"),
    [
        (
            {"type": "object", "properties": {"a": {"type": "integer"}}},
            ['{"a": 5}', '{"b": [1]}'],
            ['{"a": "x"}', "[]"],
        ),
        (formats.until("</s>"), ["é</s>", "</</s>"], ["</s", "a</s>b"]),
        (formats.substring_of("abc"), ["", "bc"], ["ac"]),
        (["a", 'b"\\\n'], ["a", 'b"\\\n'], ["b"]),
        (formats.regex("[]^-]{2,5000}"), ["]^-", "--"], ["]", "a"]),
        (formats.kbnf('start ::= start "," n:"a" | "a";'), ["a", "a,a"], [",a"]),
    ],
)
def test_formats_written_in_gbnf(format: object, good: list[str], bad: list[str]) -> None:
    again = formats.gbnf(to_gbnf(format))
    for sample in [*good, *bad]:
        assert parse(again, sample).is_complete == (sample in good), sample


def test_formats_written_in_kbnf() -> None:
    again = formats.kbnf(to_kbnf(formats.sequence(formats.integer(), ";")))
    assert parse(again, "5;").is_complete


@pytest.mark.parametrize(
    ("format", "says"),
    [
        (formats.special("[TOOL]"), r"Special.*\[TOOL\]"),
        (formats.kbnf('start ::= a "x" | "y"; a ::= start "z";'), "left recursion"),
    ],
)
def test_what_gbnf_cannot_express(format: object, says: str) -> None:
    with pytest.raises(InvalidGrammar, match=says):
        to_gbnf(format)


def test_the_left_recursive_rule_that_is_named_is_always_the_same() -> None:
    """Which of several it was depended on how Python had hashed their names."""
    names = [f"r{number}" for number in range(50)]
    rules = {name: Choice((Sequence((Repeat(Bytes(b"a")), Reference(name))), Bytes(b"b"))) for name in names}
    start = Choice(tuple(Reference(name) for name in names))
    with pytest.raises(InvalidGrammar, match="the rule 'r0' is left-recursive"):
        bnf.to_gbnf(Grammar({"start": start, **rules}, "start"))


def test_a_long_chain_of_rules_is_written() -> None:
    last = 10_000
    rules = {f"r{number}": Sequence((Reference(f"r{number + 1}"), Bytes(b"a"))) for number in range(last)}
    text = bnf.to_gbnf(Grammar({**rules, f"r{last}": Bytes(b"b")}, "r0"))
    assert text.count("::=") == last + 1


def test_tokens_written() -> None:
    again = formats.gbnf(to_gbnf(formats.sequence(formats.special("<think>"), formats.token(258))))
    compiler = Compiler(Vocabulary([*Vocabulary.of_bytes().tokens, None, None], [256], {"<think>": 257}))
    formatter = compiler.compile(again).formatter()
    assert formatter.accept_tokens([257, 258, 256]) == 3


def test_limits() -> None:
    with pytest.raises(LimitExceeded):
        check(formats.gbnf('root ::= (("a"))'), limits=Limits(depth=2))
