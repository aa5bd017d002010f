"""XGrammar's EBNF: what each construct means, what is refused and where."""

from __future__ import annotations

import pytest

from formatter_core import Compiler, Vocabulary, formats, parse
from tests.core.notation_checks import check_fault, check_texts

pytestmark = pytest.mark.usefixtures("no_error_says_anything_twice")

#: grammar, texts that it derives, texts that it does not
TABLE = [
    ('root ::= "a" | "b"\n  "c"\n | "d"', ["a", "bc", "d"], ["b", ""]),
    ('root ::= item("," item)*\nitem::=[0-9]+ # digits', ["1", "1,22"], ["", "1,"]),
    ('root ::= a b \n# c ::= "x"\na ::= "a"#\nb ::= "b"', ["ab"], ["a"]),
    ('root ::= root "a" | "b"', ["b", "baa"], ["a"]),
    ('root ::= "a"{2} "b"{1,} "c"{0,2} "d"{1, -1}', ["aabd", "aabbccdd"], ["abd", "aabcccd"]),
    ('root ::= ("a"+)? ( ) ""', ["", "aa"], ["b"]),
    (r'root ::= "\"\\\/\'\?\n\t\x1F600\u00e9\e"', ["\"\\/'?\n\t\U0001f600é\x1b"], [""]),
    (r"root ::= [^] [^a\n] [\-\]a-c]", ["\nx-", "ab]", "zzb"], ["zaa", "z\n-", "zzd"]),
    ('a-b.c ::= "x"\nroot ::= a-b.c', ["x"], [""]),
    (r'root ::= Regex("\\d+\\.[\\w-]*") "!"', ["12.a-_!", "1.!"], ["١.!", "1!", "1.é!"]),
    ('root ::= Regex("a.")', ["a\n", "ab"], ["a"]),
    ('root ::= Regex("a.", flags="")', ["ab"], ["a\n"]),
    ('root ::= "<" Regex("[^x]*", json_string=true) ">"', ["<ab>", "<>"], ['<">', "<\n>", "<\\>", "<x>"]),
    ('root ::= Substring("abc", "de", "fg")', ["", "abc", "de", "abcde", "defg", "abcdefg"], ["ab", "abcfg", "deabc"]),
    ('root ::= Substring("a", "b", "c")', ["", "ab", "bc"], ["ac"]),
    (
        'root ::= TagDispatch(("<c>", call), ("<d>", call)) "."\ncall ::= [0-9]',
        [".", "a < b.", "x<c>1y<d>2.", "<c.", "<c>1."],
        ["<c>.", "<c>x.", "a<d>"],
    ),
    (
        'root ::= b "</s>"\nb ::= TagDispatch(("<c>", c), loop_after_dispatch=false, excludes=("</s>",))\nc ::= "1"',
        ["ab</s>", "x<c>1</s>"],
        ["</s></s>", "<c>1x</s>"],
    ),
    ('root ::= "<" name ">" rest\nname[lazy] ::= [a-z]+\nrest ::= [a-z]+', ["<a>b"], ["<ab>c"]),
]


@pytest.mark.parametrize(("text", "good", "bad"), TABLE, ids=[repr(text) for text, _, _ in TABLE])
def test_constructs(text: str, good: list[str], bad: list[str]) -> None:
    check_texts(formats.ebnf(text), good, bad)


def test_captures() -> None:
    format = formats.ebnf('root ::= item ("," item)*\nitem[capture="number"] ::= digit+\ndigit[capture] ::= [0-9]')
    assert parse(format, "1,23").captures == {"number": ("1", "23"), "digit": ("1", "2", "3")}


def test_tokens_by_id() -> None:
    compiler = Compiler(Vocabulary([*Vocabulary.of_bytes().tokens, None, None], [256]))
    formatter = compiler.compile(formats.ebnf("root ::= Token(258, 257) [a-b]")).formatter()
    assert formatter.allowed_tokens() == [257, 258]
    calls = 'root ::= TokenTagDispatch((257, call), loop_after_dispatch=false)\ncall ::= "a"'
    formatter = compiler.compile(formats.ebnf(calls)).formatter()
    assert formatter.accept_tokens([*b"any text", 257, *b"a", 256]) == 11


#: grammar, texts that fit its budgets with a token for each byte, texts that do not
BUDGETS: list[tuple[str, list[str], list[str]]] = [
    ('root ::= "<" r ">"\nr[max_tokens=2] ::= [^]*', ["<>", "<ab>", "<é>"], ["<abc>", "<éa>"]),
    ('root ::= "<" r ">"\nr[max_chars=2, max_tokens=3] ::= [^]*', ["<ab>", "<éa>"], ["<abc>", "<éé>"]),
    ('root ::= ("<" r ">")+\nr[max_tokens=3] ::= "a" | "(" r ")"', ["<(a)><a>"], ["<((a))>"]),
    ('root ::= "<" r ">"\nr[max_chars=0] ::= [a-z]*', ["<>"], ["<a>"]),
]


@pytest.mark.parametrize(("text", "good", "bad"), BUDGETS, ids=[text for text, *_ in BUDGETS])
def test_budgets(text: str, good: list[str], bad: list[str]) -> None:
    compiled = Compiler(Vocabulary.of_bytes()).compile(formats.ebnf(text))
    for sample in [*good, *bad]:
        formatter = compiled.formatter()
        data = sample.encode()
        assert (formatter.accept_tokens(data) == len(data) and formatter.can_stop) == (sample in good), sample


#: grammar, line, column, what the message says
FAULTS = [
    ('root ::= "a" | item', 1, 16, "`item` is not defined"),
    ('root ::= "a" x ::= "b"', 1, 14, "a line of its own"),
    ('root ::= ("a"\nx ::= "b"', 1, 10, "never closed"),
    ('root ::= "a" |', 1, 15, "expected a literal"),
    ('root ::= | "a"', 1, 10, "expected a literal"),
    ('root ::= "a"++', 1, 14, "repeats a repeat"),
    ('root ::= "a"{,4}', 1, 13, "{m,n}"),
    ("root ::= []", 1, 10, r"\[\^\]"),
    (r"root ::= [\d]", 1, 11, "no escape"),
    ('root ::= "a\nb"', 1, 12, "one line"),
    ('root ::= "a" (= "b")', 1, 14, "look-ahead"),
    ("root ::= ExcludeToken(5)", 1, 10, "`ExcludeToken` is one token"),
    ("root ::= TokenTagDispatch((5, root), excludes=(5,))", 1, 10, "begins a branch and is excluded"),
    ('root ::= TokenTagDispatch(("a", root))', 1, 10, r"a pair `\(5, rule\)`"),
    ('root ::= TagDispatch(("a", "b"))', 1, 10, "the name of a rule"),
    ('root ::= TagDispatch(("a", b))', 1, 28, "`b` is not defined"),
    ('root ::= Regex("(")', 1, 10, "at position"),
    ('root ::= Regex("(?i)a")', 1, 10, "both cases"),
    ('root ::= Regex("a", flags="i")', 1, 10, "both cases"),
    ('root ::= Regex("a"', 1, 10, "never closed"),
    ('root[max_tokens=0] ::= "a"', 1, 6, "`max_tokens` is malformed"),
    ('root[max_chars] ::= "a"', 1, 6, "`max_chars` is malformed"),
    ('root[max_chars=5] ::= x\nx ::= "a"', 1, 1, "a rule with `max_chars`"),
    ('root[lazy, temperature=0.5] ::= "a"', 1, 11, "`temperature` is not enforced"),
    ('root[greedy] ::= "a"', 1, 6, "is not known"),
    ('root[lazy] ::= root "a"', 1, 1, "lazy rule"),
    ('root ::= "a"\nroot ::= "b"', 2, 1, "defined twice"),
    ('Token ::= "a"', 1, 1, "a meaning of its own"),
    ("root ::= 5", 1, 10, "found `5`"),
]


@pytest.mark.parametrize(("text", "line", "column", "says"), FAULTS, ids=[repr(text) for text, *_ in FAULTS])
def test_faults_have_a_place(text: str, line: int, column: int, says: str) -> None:
    check_fault(formats.ebnf(text), line, column, says)
