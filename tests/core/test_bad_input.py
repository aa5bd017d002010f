"""Bad and hostile input through the public names: a named error or a right answer, and a process that goes on.

Every case runs on every grammar engine, and a small good format is compiled and stepped through after each.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any

import numpy as np
import pytest

from formatter_core import Compiler, Formatter, FormatterBuilder, Limits, Vocabulary, formats
from formatter_core.errors import (
    DeadEnd,
    EngineUnavailable,
    FormatterError,
    InvalidArgument,
    InvalidBitmask,
    InvalidFormat,
    InvalidGrammar,
    InvalidRegex,
    InvalidSchema,
    InvalidVocabulary,
    LimitExceeded,
    TokenRejected,
    UnsatisfiableSchema,
    UnsupportedByEngine,
)
from formatter_core.testing.oracle import OracleEngine

pytestmark = pytest.mark.usefixtures("no_error_says_anything_twice")

END = 256
TOKENS: list[bytes | None] = [
    *(bytes([byte]) for byte in range(256)),
    None,
    b"ab",
    b"abc",
    b"aa",
    b"$",
    "é".encode()[:1],
]
VOCABULARY = Vocabulary(TOKENS, [END])


@pytest.fixture(scope="module", params=["kbnf", "native", "oracle"])
def compiler(request: pytest.FixtureRequest) -> Compiler:
    engine = OracleEngine() if request.param == "oracle" else request.param
    try:
        return Compiler(VOCABULARY, engine=engine, cache_bytes=0)
    except (EngineUnavailable, InvalidFormat) as error:
        pytest.skip(str(error))


@pytest.fixture(autouse=True)
def _sound_afterwards(request: pytest.FixtureRequest) -> Any:
    yield
    if "compiler" not in request.fixturenames:
        return
    compiler = request.getfixturevalue("compiler")
    formatter = compiler.compile(formats.kbnf('start ::= "(" start ")" | #"[xy]";')).formatter()
    assert formatter.allowed_tokens() == list(b"(xy")
    assert formatter.accept_tokens(b"((y)") == 4
    assert formatter.allowed_tokens() == list(b")")
    assert formatter.accept_tokens([*b")", END]) == 2


def kbnf(text: Any, start: Any = "start") -> Callable[[], Any]:
    return lambda: formats.kbnf(text, start)


def regex(pattern: Any) -> Callable[[], Any]:
    return lambda: formats.regex(pattern)


def given(value: Any) -> Callable[[], Any]:
    return lambda: value


def nested_schema(depth: int) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": "null"}
    for _ in range(depth):
        schema = {"type": "array", "items": schema}
    return schema


def nested_json(depth: int) -> dict[str, Any]:
    data: dict[str, Any] = {"type": "regex", "pattern": "a"}
    for _ in range(depth):
        data = {"type": "sequence", "parts": [data]}
    return data


def endless_schema() -> dict[str, Any]:
    schema: dict[str, Any] = {"type": "array"}
    schema["items"] = schema
    return schema


def schema_of_itself_twice() -> dict[str, Any]:
    schema: dict[str, Any] = {}
    schema["items"] = schema["not"] = schema
    return schema


def endless_list() -> list[Any]:
    items: list[Any] = []
    items.append(items)
    return items


def built(*parts: Callable[[FormatterBuilder], Any]) -> Callable[[], Any]:
    """A builder to which each part is appended; a part is made with the builder."""

    def make() -> FormatterBuilder:
        builder = FormatterBuilder()
        for part in parts:
            builder.append(part(builder))
        return builder

    return make


def nested_sequence(depth: int) -> Any:
    made: Any = formats.regex("a")
    for _ in range(depth):
        made = formats.sequence(made)
    return made


WORDS = [f"w{number}" for number in range(20_000)]

REFUSED: dict[str, tuple[Callable[[], Any], type[FormatterError] | tuple[type[FormatterError], ...]]] = {
    # KBNF
    "kbnf: nothing": (kbnf(""), InvalidGrammar),
    "kbnf: only a comment": (kbnf("(* start *)"), InvalidGrammar),
    "kbnf: byte order mark": (kbnf('\ufeffstart ::= "a";'), InvalidGrammar),
    "kbnf: unclosed comment": (kbnf('start ::= "a"; (* "'), InvalidGrammar),
    "kbnf: unclosed quote": (kbnf('start ::= "a;'), InvalidGrammar),
    "kbnf: unclosed group": (kbnf('start ::= ("a";'), InvalidGrammar),
    "kbnf: no end": (kbnf('start ::= "a"'), InvalidGrammar),
    "kbnf: character where a rule may start": (kbnf("世 ::= 'a';"), InvalidGrammar),
    "kbnf: groups 5,000 deep": (kbnf(f'start ::= {"(" * 5000}"a"{")" * 5000};'), LimitExceeded),
    "kbnf: unclosed groups 5,000 deep": (kbnf(f'start ::= {"{" * 5000}"a";'), (InvalidGrammar, LimitExceeded)),
    "kbnf: undefined rule": (kbnf("start ::= a;"), InvalidGrammar),
    "kbnf: undefined rule in an unused one": (kbnf('start ::= "a"; b ::= c;'), InvalidGrammar),
    "kbnf: undefined start": (kbnf('start ::= "a";', "root"), InvalidGrammar),
    "kbnf: bytes": (kbnf(b'start ::= "a";'), InvalidFormat),
    "kbnf: start is no name": (kbnf('start ::= "a";', 5), InvalidFormat),
    "kbnf: refers to itself": (kbnf("start ::= start;"), InvalidGrammar),
    "kbnf: cycle": (kbnf("start ::= a; a ::= b; b ::= a;"), InvalidGrammar),
    "kbnf: never ends": (kbnf('start ::= "a" start;'), InvalidGrammar),
    "kbnf: cycle with text": (kbnf('start ::= "x" a; a ::= b "y"; b ::= "z" a | a;'), InvalidGrammar),
    "kbnf: matches nothing": (kbnf('start ::= #ex"";'), InvalidGrammar),
    "kbnf: empty class": (kbnf(r'start ::= "a" #"[^\s\S]";'), InvalidGrammar),
    "kbnf: too large a repeat": (kbnf('start ::= "a"{0,1000001};'), LimitExceeded),
    "kbnf: repeat of a thousand digits": (kbnf(f'start ::= "a"{{{"9" * 5000}}};'), LimitExceeded),
    "kbnf: backward repeat": (kbnf('start ::= "a"{5,2};'), InvalidGrammar),
    "kbnf: lone surrogate": (kbnf('start ::= "\ud83d";'), InvalidGrammar),
    "kbnf: escaped lone surrogate": (kbnf(r'start ::= "\ud83d";'), InvalidGrammar),
    "kbnf: NUL outside quotes": (kbnf('start ::= "a";\0'), InvalidGrammar),
    "kbnf: bad regex": (kbnf('start ::= #"a(";'), InvalidGrammar),
    # regexes
    "regex: bytes": (regex(b"a"), InvalidFormat),
    "regex: None": (regex(None), InvalidFormat),
    "regex: unclosed group": (regex("a(b"), InvalidRegex),
    "regex: unopened group": (regex("a)b"), InvalidRegex),
    "regex: unclosed class": (regex("[a"), InvalidRegex),
    "regex: backward class": (regex("[z-a]"), InvalidRegex),
    "regex: nothing to repeat": (regex("*a"), InvalidRegex),
    "regex: backward repeat": (regex("a{2,1}"), InvalidRegex),
    "regex: too large a repeat": (regex("a{0,1000001}"), (InvalidRegex, LimitExceeded)),
    "regex: repeat of a thousand digits": (regex(f"a{{{'9' * 5000}}}"), (InvalidRegex, LimitExceeded)),
    "regex: look-ahead that nothing meets": (regex("a(?=b)"), InvalidGrammar),
    "regex: look-behind of two characters": (regex("a+(?<=aa)b"), InvalidRegex),
    "regex: named group after a look-ahead": (regex("(?=a)(?P<x>a)"), InvalidRegex),
    "regex: word boundary in a word": (regex(r"wo\brd"), InvalidGrammar),
    "regex: word boundary of a side": (regex(r"\<word\>"), InvalidRegex),
    "regex: backslash at the end": (regex("a\\"), InvalidRegex),
    "regex: no such property": (regex(r"\p{Nope}"), InvalidRegex),
    "regex: no such character": (regex(r"\x{110000}"), InvalidRegex),
    "regex: lone surrogate": (regex("a\ud83d"), FormatterError),
    "regex: empty class": (regex(r"a[^\s\S]"), InvalidGrammar),
    "regex: groups 5,000 deep": (regex("(" * 5000 + "a" + ")" * 5000), LimitExceeded),
    "regex: unclosed groups 5,000 deep": (regex("(" * 5000), (InvalidRegex, LimitExceeded)),
    "regex: classes 5,000 deep": (regex("[" * 5000 + "a" + "]" * 5000), LimitExceeded),
    # small formats
    "choice: nothing": (lambda: formats.choice([]), InvalidFormat),
    "choice: one text instead of a list": (lambda: formats.choice("abc"), InvalidFormat),
    "choice: lone surrogate": (lambda: formats.choice(["a", "\udc00"]), FormatterError),
    "choice: a list": (lambda: formats.choice([["a"]]), InvalidFormat),  # type: ignore[list-item]
    "choice: not iterable": (lambda: formats.choice(5), InvalidArgument),  # type: ignore[arg-type]
    "substring: a number": (lambda: formats.substring_of(5), InvalidFormat),  # type: ignore[arg-type]
    "substring: lone surrogate": (lambda: formats.substring_of("\udc00"), FormatterError),
    "until: nothing": (lambda: formats.until(""), InvalidFormat),
    "until: a number": (lambda: formats.until(5), InvalidFormat),  # type: ignore[arg-type]
    "until: lone surrogate": (lambda: formats.until("\udc00"), FormatterError),
    "token: negative": (lambda: formats.token(-1), InvalidFormat),
    "token: True": (lambda: formats.token(True), InvalidFormat),
    "special: a number": (lambda: formats.special(5), InvalidFormat),  # type: ignore[arg-type]
    "special: nothing": (lambda: formats.special(""), InvalidFormat),
    "token: a text": (lambda: formats.token("a"), InvalidFormat),  # type: ignore[arg-type]
    "integer: backward bounds": (lambda: formats.integer(5, 1), InvalidFormat),
    "integer: text": (lambda: formats.integer("5"), InvalidFormat),  # type: ignore[arg-type]
    "integer: True": (lambda: formats.integer(True), InvalidFormat),
    "integer: 5,000 digits": (lambda: formats.integer(10**5000), InvalidFormat),
    "number: not a number": (lambda: formats.number(float("nan")), InvalidFormat),
    "number: infinity": (lambda: formats.number(None, float("inf")), InvalidFormat),
    "number: text": (lambda: formats.number("abc"), InvalidFormat),
    "number: huge exponent": (lambda: formats.number("1e999999999"), InvalidFormat),
    "string: negative length": (lambda: formats.string(max_length=-1), InvalidFormat),
    "string: fractional length": (lambda: formats.string(max_length=1.5), InvalidFormat),  # type: ignore[arg-type]
    "string: too long": (lambda: formats.string(max_length=10**9), LimitExceeded),
    "string: bad pattern": (lambda: formats.string("("), InvalidRegex),
    "sequence: 5,000 deep": (lambda: nested_sequence(5000), LimitExceeded),
    "text: a number": (lambda: formats.text("a", 5), InvalidFormat),  # type: ignore[arg-type]
    "example: an object": (lambda: formats.example(object()), InvalidFormat),
    "example: a cycle": (lambda: formats.example(endless_list()), (InvalidFormat, LimitExceeded)),
    "from_json: None": (lambda: formats.from_json(None), InvalidFormat),
    "from_json: no type": (lambda: formats.from_json({}), InvalidFormat),
    "from_json: unknown type": (lambda: formats.from_json({"type": "nope"}), InvalidFormat),
    "from_json: a list for a type": (lambda: formats.from_json({"type": []}), InvalidFormat),
    "from_json: a part is missing": (lambda: formats.from_json({"type": "kbnf"}), InvalidFormat),
    "from_json: 5,000 deep": (lambda: formats.from_json(nested_json(5000)), FormatterError),
    "from_json: a garbled part": (lambda: formats.from_json({"type": "text", "parts": [{"again": 7}]}), InvalidFormat),
    # the builder
    "builder: a number": (built(lambda b: 5), InvalidFormat),
    "builder: another's hole": (built(lambda b: FormatterBuilder().integer()), InvalidFormat),
    "builder: another's hole in a text": (built(lambda b: f"{FormatterBuilder().integer()}"), InvalidFormat),
    "builder: format specification": (built(lambda b: f"{b.integer():>5}"), InvalidFormat),
    "builder: empty name": (built(lambda b: b.integer(name="")), InvalidFormat),
    "builder: internal name": (built(lambda b: b.integer(name=".x")), InvalidFormat),
    "builder: a text for a format": (built(lambda b: b.format("abc")), InvalidFormat),
    "builder: lone surrogate": (built(lambda b: "\ud83d"), FormatterError),
    "builder: bad regex": (built(lambda b: b.regex("(")), InvalidRegex),
    "builder: bad grammar": (built(lambda b: b.kbnf("start ::= ;")), InvalidGrammar),
    # what compile takes
    "compile: a number": (given(5), InvalidFormat),
    "compile: a list": (given([1, 2]), InvalidFormat),
    "compile: bytes": (given(b"{}"), InvalidFormat),
    "compile: an object": (given(object()), InvalidFormat),
    "compile: 100,000 brackets": (given("[" * 100_000), InvalidFormat),
    # schemas
    "schema: unknown type": (given({"type": "text"}), InvalidSchema),
    "schema: type is a number": (given({"type": 5}), InvalidSchema),
    "schema: reference to nothing": (given({"$ref": "#/$defs/nope"}), FormatterError),
    "schema: reference to itself": (given({"$ref": "#"}), FormatterError),
    "schema: reference to the network": (given({"$ref": "https://example.org/schema"}), FormatterError),
    "schema: nothing is valid": (given(False), UnsatisfiableSchema),
    "schema: 5,000 deep": (lambda: nested_schema(5000), (LimitExceeded, InvalidSchema)),
    "schema: contains itself": (endless_schema, FormatterError),
    "schema: contains itself twice": (lambda: formats.json_schema(schema_of_itself_twice()), LimitExceeded),
    "schema: const is no JSON": (given({"const": float("nan")}), FormatterError),
    "schema: bad pattern": (given({"type": "string", "pattern": "("}), FormatterError),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused(name: str, compiler: Compiler) -> None:
    make, errors = REFUSED[name]
    with pytest.raises(errors) as caught:
        compiler.compile(make())
    assert len(str(caught.value)) > 10
    assert len(str(caught.value)) < 2000


NULLABLE = " ".join(f'("{letter}" | "")' for letter in "abcdefghijklmnopqrst")
CHAIN = "".join(f'r{number} ::= "a" r{number + 1} | "b";' for number in range(2000)) + 'r2000 ::= "c";'

# name: how it is made, texts in it, texts not in it
ANSWERED: dict[str, tuple[Callable[[], Any], list[str], list[str]]] = {
    "kbnf: CRLF": (kbnf('start ::= "a"\r\n | "b"\r\n;\r\n'), ["a", "b"], ["", "\r"]),
    "kbnf: emoji and NUL": (kbnf('start ::= "🎉\0";'), ["🎉\0"], ["🎉", "\0"]),
    "kbnf: only the empty text": (kbnf('start ::= "";'), [""], ["a"]),
    "kbnf: NUL": (kbnf(r'start ::= "a" ("\0" | "\0\0b");'), ["a\0", "a\0\0b"], ["a", "a\0\0"]),
    "kbnf: any character": (kbnf('start ::= #"(?s:.)"+;'), ["\0", "é🎉\n"], [""]),
    "kbnf: 20,000 literals": (
        kbnf("start ::= " + "|".join(f'"{word}"' for word in WORDS) + ";"),
        ["w0", "w19999"],
        ["w", "w20000"],
    ),
    "kbnf: 2,000 rules": (kbnf(CHAIN, "r0"), ["a" * 1500 + "b", "a" * 2000 + "c"], ["a" * 2000 + "b"]),
    "kbnf: 20 nullable symbols": (kbnf(f"start ::= {NULLABLE};"), ["", "acet", "abcdefghijklmnopqrst"], ["ba"]),
    "kbnf: large repeat": (kbnf('start ::= "a"{0,1000} "b";'), ["b", "aaab", "a" * 1000 + "b"], ["a" * 1001 + "b"]),
    "kbnf: repeats of the empty text": (kbnf('start ::= ""+ ""* (""?)? "x" (("a"*)*)+;'), ["x", "xaaa"], ["", "xb"]),
    "kbnf: regexes that match nothing": (kbnf('start ::= #"a*" #"b*" (#"c*")*;'), ["", "aacc", "bc"], ["ba"]),
    "kbnf: ambiguous": (kbnf('start ::= start start | "a";'), ["a", "aaaaaaaa"], ["", "b"]),
    "kbnf: ambiguous and empty": (kbnf('start ::= start start | "a" | "";'), ["", "a", "aaaaa"], ["b"]),
    "kbnf: ambiguous sums": (kbnf('start ::= start "+" start | "a";'), ["a", "a+a+a+a"], ["", "a+", "aa"]),
    "kbnf: unit cycle": (kbnf('start ::= a "$"; a ::= b | "1"; b ::= a | "2";'), ["1$", "2$"], ["$", "12$"]),
    "kbnf: unit cycle through start": (kbnf('start ::= a | "1"; a ::= start | "2";'), ["1", "2"], ["", "12"]),
    "kbnf: hidden left recursion": (
        kbnf('start ::= n start "a" | "b"; n ::= "" | "n";'),
        ["b", "nnbaa", "baa"],
        ["nb"],
    ),
    "kbnf: dead alternative": (kbnf('start ::= "x" | "y" dead; dead ::= "z" dead;'), ["x"], ["y", "yz"]),
    "kbnf: useless rules": (kbnf('start ::= "a"; u ::= u u; v ::= "" v | "b";'), ["a"], ["b"]),
    "kbnf: two rules alike": (kbnf('start ::= "a" | "b" x; x ::= "a" | "b" x;'), ["a", "bba"], ["b"]),
    "kbnf: right corner": (
        kbnf('start ::= s "$"; s ::= "a" n | "b"; n ::= s "c";'),
        ["b$", "abc$", "aabcc$"],
        ["aabc$", "aabccc$"],
    ),
    "kbnf: self-embedding": (
        kbnf('start ::= s "$"; s ::= "c" | "a" n; n ::= s s | s;'),
        ["c$", "aaacc$"],
        ["ac", "a$"],
    ),
    "kbnf: two quotations": (kbnf('start ::= "-" #substrs"ab" "-" #substrs"vw";'), ["--", "-ab-w"], ["-v-"]),
    "kbnf: prefixes": (kbnf('start ::= "a" | "abc";'), ["a", "abc"], ["ab", ""]),
    "kbnf: deep input": (kbnf('start ::= "(" start ")" | "x";'), ["(" * 300 + "x" + ")" * 300], ["((x)"]),
    "regex: (a*)*b": (regex("(a*)*b"), ["b", "aaab"], ["", "a"]),
    "regex: (a|a)*b": (regex("(a|a|a)*b"), ["b", "a" * 40 + "b"], ["a" * 40]),
    "regex: (x+x+)+y": (regex("(x+x+)+y"), ["xxy", "x" * 40 + "y"], ["y", "xy"]),
    "regex: empty": (regex(""), [""], ["a"]),
    "regex: 20,000 characters": (regex("a" * 20_000 + "b?"), [], ["b", "a"]),
    "regex: 5,000 alternatives": (regex("|".join(WORDS[:5000])), ["w0", "w4999"], ["w5000", ""]),
    "regex: long classes": (regex(r"\w{0,64}"), ["", "é" * 64], ["a" * 65, " "]),
    "choice: the empty text": (lambda: formats.choice(["", "a", "a"]), ["", "a"], ["aa"]),
    "choice: prefixes": (lambda: formats.choice(["a", "ab", "abc"]), ["a", "ab", "abc"], ["", "ac"]),
    "substring: nothing": (lambda: formats.substring_of(""), [""], ["a"]),
    "substring: a long text": (lambda: formats.substring_of("ab" * 300 + "é"), ["", "baba", "abé"], ["aa", "éa"]),
    "until: overlaps": (lambda: formats.until("aab"), ["aab", "aaab", "xaaab"], ["aabx", "aa"]),
    "until: a long end": (lambda: formats.until("ab" * 30), ["ab" * 30, "abb" + "ab" * 30], ["ab" * 31, "ab"]),
    "sequence: nothing": (lambda: formats.sequence(), [""], ["a"]),
    "text: nothing": (lambda: FormatterBuilder(), [""], ["a"]),
    "text: looks like a hole": (
        lambda: FormatterBuilder().append("\x02hole {} 0\x03 {0} %s"),
        ["\x02hole {} 0\x03 {0} %s"],
        ["", "\x02"],
    ),
    "string: nothing": (lambda: formats.string(max_length=0), [""], ["a"]),
    "integer: one": (lambda: formats.integer(-3, -3), ["-3"], ["3", "-", "-33"]),
    "schema: anything": (given({"type": ["null", "boolean"]}), ["null", "true"], ["", "nul"]),
    "schema: 2,000 options": (given({"enum": WORDS[:2000]}), ['"w0"', '"w1999"'], ['"w2000"']),
}

MAY_BE_LIMITED = {
    "regex: (a|b)*a(a|b){20}": (regex("(a|b)*a(a|b){20}"), ["a" + "b" * 20], ["b" * 21, "a"]),
    "regex: repeats of repeats": (regex("((a{100}){100}){100}"), [], ["a", ""]),
    "regex: ((a{1000}){1000}){1000}": (regex("((a{1000}){1000}){1000}"), [], ["a", ""]),
    "regex: .{0,5000}": (regex(".{0,5000}"), ["", "é" * 100], ["\n"]),
    "regex: 20,000 alternatives": (regex("|".join(WORDS)), ["w0", "w19999"], ["w20000"]),
    "kbnf: a{0,100000}": (kbnf('start ::= "a"{0,100000};'), ["", "a", "a" * 20], ["b"]),
    "kbnf: repeats of repeats": (kbnf('start ::= ((("a"{0,100}){0,100}){0,100}){0,100};'), ["", "a" * 20], ["b"]),
    "substring: a very long text": (lambda: formats.substring_of("abc" * 1000), ["", "bca"], ["aa"]),
    "until: overlaps everywhere": (lambda: formats.until("a" * 100), ["a" * 100, "b" + "a" * 100], ["a" * 99]),
    "choice: 20,000 options": (lambda: formats.choice(WORDS), ["w0", "w19999"], ["w20000", ""]),
}


def check_answer(compiler: Compiler, format: Any, inside: list[str], outside: list[str]) -> None:
    compiled = compiler.compile(format)
    for text in inside:
        formatter = compiled.formatter()
        data = text.encode()
        if data:
            assert data[0] in formatter.allowed_tokens()
        assert formatter.accept_tokens(data) == len(data), text
        assert END in formatter.allowed_tokens(), text
    for text in outside:
        formatter = compiled.formatter()
        data = text.encode()
        taken = formatter.accept_tokens(data)
        refused = END if taken == len(data) else data[taken]
        assert refused not in formatter.allowed_tokens(), text


#: The oracle tries every alternative at every byte.
SLOW_FOR_THE_ORACLE = {"kbnf: 20,000 literals", "kbnf: repeats of repeats"}


@pytest.mark.parametrize("name", ANSWERED)
def test_answered(name: str, compiler: Compiler) -> None:
    if compiler.engine == "oracle" and name in SLOW_FOR_THE_ORACLE:
        pytest.skip("slow by design: judged on the other engines")
    make, inside, outside = ANSWERED[name]
    check_answer(compiler, make(), inside, outside)


@pytest.mark.parametrize("name", MAY_BE_LIMITED)
def test_answered_or_limited(name: str, compiler: Compiler) -> None:
    if compiler.engine == "oracle" and name in SLOW_FOR_THE_ORACLE:
        pytest.skip("slow by design: judged on the other engines")
    make, inside, outside = MAY_BE_LIMITED[name]
    with suppress(LimitExceeded, UnsupportedByEngine):
        check_answer(compiler, make(), inside, outside)


@pytest.mark.parametrize(
    "limits",
    [Limits(nodes=3), Limits(depth=1), Limits(repeat=1), Limits(work=1)],
    ids=["nodes", "depth", "repeat", "work"],
)
def test_small_limits(limits: Limits, compiler: Compiler) -> None:
    def run() -> None:
        format = formats.kbnf('start ::= (("a" #"b{5}c" | "d"){2})*;')
        formatter = Compiler(VOCABULARY, engine=compiler._engine, limits=limits).compile(format).formatter()
        formatter.accept_tokens(b"abbbbbcd")
        formatter.allowed_tokens()

    with pytest.raises(LimitExceeded):
        run()


NO_ROW: list[Any] = [
    None,
    [0] * 9,
    np.zeros(9, dtype=np.int64),
    np.zeros(9, dtype=np.uint32),
    np.zeros((1, 9), dtype=np.int32),
    np.zeros(18, dtype=np.int32)[::2],
    np.frombuffer(bytes(36), dtype=np.int32),
]


@pytest.mark.contract("`step` is accept and fill")
@pytest.mark.parametrize("row", NO_ROW, ids=lambda row: f"{type(row).__name__} {getattr(row, 'dtype', '')}")
def test_rows(row: Any, compiler: Compiler) -> None:
    formatter = compiler.compile(formats.regex("[ab]+")).formatter()
    with pytest.raises(InvalidBitmask):
        formatter.fill_bitmask(row)
    with pytest.raises(InvalidBitmask):
        formatter.step(ord("a"), row)
    assert formatter.tokens == ()
    with pytest.raises(TokenRejected):
        formatter.step(ord("c"), np.zeros(9, dtype=np.int32))
    assert formatter.tokens == ()
    assert formatter.accept_tokens([*b"b", END]) == 2


@pytest.mark.parametrize("token", [-1, -(2**63), len(TOKENS), 2**31, 2**64, ord("c"), END, 258, 260])
def test_tokens_that_are_not_allowed(token: int, compiler: Compiler) -> None:
    formatter = compiler.compile(formats.regex("a+b")).formatter()
    formatter.accept_tokens(b"aa")
    before = formatter.allowed_tokens()
    with pytest.raises(TokenRejected) as caught:
        formatter.accept_token(token)
    assert caught.value.token_id == token
    assert "not allowed" in formatter.explain(token)
    assert formatter.allowed_tokens() == before == [*b"ab", 257, 259]


@pytest.mark.parametrize("steps", [-1, 3, 2**70])
def test_rollbacks(steps: int, compiler: Compiler) -> None:
    formatter = compiler.compile(formats.regex("a+b")).formatter()
    formatter.accept_tokens(b"aa")
    with pytest.raises(InvalidArgument):
        formatter.rollback(steps)
    assert formatter.text == "aa"
    assert formatter.accept_tokens([*b"b", END]) == 2


def test_bytes_that_are_not_allowed(compiler: Compiler) -> None:
    formatter = compiler.compile(formats.regex("a+é")).formatter()
    for data in (b"b", b"ab", b"a\xc3a", b"\xff" * 1000):
        with pytest.raises(TokenRejected):
            formatter.accept_bytes(data)
    formatter.accept_bytes(b"")
    formatter.accept_bytes(b"aa\xc3")
    assert formatter.allowed_tokens() == [0xA9]


def test_after_the_end(compiler: Compiler) -> None:
    formatter = compiler.compile(formats.regex("a+")).formatter()
    assert formatter.accept_tokens([97, END, END]) == 3
    with pytest.raises(TokenRejected):
        formatter.accept_token(97)
    with pytest.raises(TokenRejected):
        formatter.accept_bytes(b"a")
    assert formatter.allowed_tokens() == [END]


@pytest.mark.parametrize("engine", ["auto", OracleEngine()], ids=["auto", "oracle"])
def test_a_vocabulary_that_cannot_go_on(engine: Any) -> None:
    formatter = Compiler(Vocabulary([b"a", None], [1]), engine=engine).compile(formats.regex("ab")).formatter()
    row = np.zeros(1, dtype=np.int32)
    formatter.fill_bitmask(row)
    with pytest.raises(DeadEnd):
        formatter.step(0, row)
    with pytest.raises(DeadEnd):
        formatter.allowed_tokens()
    formatter.rollback(1)
    assert formatter.allowed_tokens() == [0]


@pytest.mark.parametrize("end_ids", [[], [-1], [len(TOKENS)], [10**12]])
def test_end_ids_of_a_request(end_ids: list[int], compiler: Compiler) -> None:
    with pytest.raises(InvalidVocabulary):
        compiler.compile(formats.regex("a")).formatter(end_ids=end_ids)


VOCABULARIES: list[tuple[Any, Any]] = [
    ([b"a", b"b"], []),
    ([b"a", b"b"], [2]),
    ([b"a", b"b"], [-1]),
    ([b"a", b"b"], ["a"]),
    ([b"a", b"b"], [0.5]),
    (["a", "b"], [0]),
    ([b"a", 5], [0]),
    ([], [0]),
]


def test_a_text_is_no_vocabulary() -> None:
    with pytest.raises(InvalidArgument, match="sequence of bytes"):
        Vocabulary("ab", [0])  # type: ignore[arg-type]


@pytest.mark.parametrize(("tokens", "end_ids"), VOCABULARIES, ids=repr)
def test_vocabularies(tokens: Any, end_ids: Any) -> None:
    with pytest.raises(InvalidVocabulary):
        Vocabulary(tokens, end_ids)


@pytest.mark.parametrize(
    "limits", [{"nodes": -1}, {"states": 1.5}, {"depth": "9"}, {"work": True}, {"repeat": None}], ids=repr
)
def test_limits(limits: dict[str, Any]) -> None:
    with pytest.raises(InvalidArgument):
        Limits(**limits)


@pytest.mark.parametrize(
    "arguments",
    [
        {"vocabulary": None},
        {"vocabulary": [b"a"]},
        {"engine": "nope"},
        {"engine": ""},
        {"engine": 5},
        {"limits": {"nodes": 3}},
        {"cache_bytes": -1},
    ],
    ids=repr,
)
def test_compilers(arguments: dict[str, Any]) -> None:
    with pytest.raises(InvalidArgument):
        Compiler(**{"vocabulary": VOCABULARY, **arguments})


WRONG_KINDS: dict[str, Callable[[Compiler, Formatter], Any]] = {
    "sequence: bytes": lambda compiler, formatter: compiler.compile(formats.sequence(b"abc")),  # type: ignore[arg-type]
    "accept_tokens: text": lambda compiler, formatter: formatter.accept_tokens("ab"),  # type: ignore[arg-type]
    "accept_tokens: number": lambda compiler, formatter: formatter.accept_tokens(5),  # type: ignore[arg-type]
    "rollback: text": lambda compiler, formatter: formatter.rollback("a"),  # type: ignore[arg-type]
    "rollback: fraction": lambda compiler, formatter: formatter.rollback(0.5),  # type: ignore[arg-type]
    "explain: text": lambda compiler, formatter: formatter.explain("a"),  # type: ignore[arg-type]
    "result: unknown end": lambda compiler, formatter: formatter.result("nope"),  # type: ignore[arg-type]
    "end_ids: number": lambda compiler, formatter: formatter.compiled.formatter(end_ids=5),  # type: ignore[arg-type]
    "end_ids: text": lambda compiler, formatter: formatter.compiled.formatter(end_ids=["a"]),  # type: ignore[list-item]
    "parse: number": lambda compiler, formatter: formatter.compiled.parse(5),  # type: ignore[arg-type]
    "parse: None": lambda compiler, formatter: formatter.compiled.parse(None),  # type: ignore[arg-type]
}


@pytest.mark.parametrize("name", WRONG_KINDS)
def test_wrong_kinds(name: str, compiler: Compiler) -> None:
    formatter = compiler.compile(formats.regex("a+b")).formatter()
    with pytest.raises((FormatterError, TypeError)):
        WRONG_KINDS[name](compiler, formatter)
    assert formatter.accept_tokens([*b"ab", END]) == 3


def test_a_result_that_is_not_complete(compiler: Compiler) -> None:
    compiled = compiler.compile(formats.regex("a+b"))
    for text in ("", "aa", "aabb", "\ud83d", b"\xff"):
        result = compiled.parse(text)
        assert not result.is_complete
        with pytest.raises(FormatterError):
            _ = result.value
