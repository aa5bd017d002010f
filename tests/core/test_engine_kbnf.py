"""The grammar engine on the kbnf package: right where the package is wrong, refusing where it cannot be right."""

from __future__ import annotations

import numpy as np
import pytest

from formatter_core.engine.kbnf.engine import KbnfEngine
from formatter_core.errors import InvalidGrammar, LimitExceeded, UnsupportedByEngine
from formatter_core.grammar import (
    ANY_CHAR,
    ANY_TEXT,
    EMPTY,
    NOTHING,
    Bytes,
    Capture,
    Chars,
    Choice,
    Complement,
    Grammar,
    Intersection,
    Node,
    Reference,
    Repeat,
    Sequence,
    Shortest,
    Substring,
    Terminal,
    Token,
    literal,
    optional,
)
from formatter_core.limits import Limits
from formatter_core.testing.oracle import OracleEngine
from formatter_core.vocabulary import Vocabulary
from tests.threads import in_threads

pytestmark = [
    pytest.mark.usefixtures("no_error_says_anything_twice"),
    pytest.mark.skipif(not KbnfEngine.available(), reason="the kbnf package is not installed"),
]

#: Few enough that every path of three tokens can be walked: whole and half characters, NUL, 0xFF, duplicates, holes.
TOKENS = (
    b"a", b"b", b"c", b"ab", b"aabcc", b"bca", b"\0", b"\xff", b"\xc3", b"\xa9", "é".encode(), "éa".encode(),
    b"ab", b"", None, None, b"(", b")a", b",", b"</s>",
)  # fmt: skip
SPECIAL, END = 14, 19
VOCABULARY = Vocabulary(TOKENS, [END])


def ref(name: str) -> Reference:
    return Reference(name)


def seq(*items: Node) -> Sequence:
    return Sequence(items)


def either(*items: Node) -> Choice:
    return Choice(items)


def rules(**bodies: Node) -> Grammar:
    """A grammar whose first rule is the start."""
    return Grammar(bodies, next(iter(bodies)))


def mask(state, vocabulary: Vocabulary = VOCABULARY) -> list[int]:
    row = np.full(vocabulary.words, -1, dtype=np.int32)
    state.fill_bitmask(row)
    return np.flatnonzero(np.unpackbits(row.view(np.uint8), bitorder="little")).tolist()


def compiled(grammar: Grammar, vocabulary: Vocabulary = VOCABULARY, limits: Limits | None = None):
    return KbnfEngine().compile(grammar, vocabulary, limits or Limits())


def after(text: bytes, grammar: Grammar, vocabulary: Vocabulary = VOCABULARY):
    state = compiled(grammar, vocabulary).start()
    assert state.accept_bytes(text)
    return state


A, B, C = Bytes(b"a"), Bytes(b"b"), Bytes(b"c")
CHAIN = either(A, seq(B, ref("x")))  # of the rule x
NESTED = Grammar({"start": ref("s"), "s": either(seq(A, ref("n")), B), "n": seq(ref("s"), C)}, "start")
JSON_LIKE = Grammar(
    {
        "object": seq(Bytes(b"{"), ref("pair"), Bytes(b"}")),
        "pair": seq(ref("string"), Bytes(b":"), ref("value")),
        "value": either(ref("string"), ref("object")),
        "string": seq(Bytes(b'"'), ref("chars"), Bytes(b'"')),
        "chars": either(EMPTY, seq(ref("chars"), Chars(((97, 122),)))),
    },
    "object",
)


# --- where the package alone is wrong --------------------------------------------------------------------------------


def bare_package(text: str, tokens: list[bytes]):
    kbnf = pytest.importorskip("kbnf")
    vocabulary = kbnf.Vocabulary({i: kbnf.Token(token) for i, token in enumerate(tokens)}, {})
    return kbnf.InternalEngine(text, vocabulary, kbnf.Config())


def test_the_package_alone_loses_the_end_of_a_nested_rule():
    tokens = [b"a", b"b", b"c", b"$", b"bc", b"cc"]
    engine = bare_package('start ::= s "$"; s ::= "a" n | "b"; n ::= s "c";', tokens)
    for byte in b"aabcc":
        engine.compute_allowed_token_ids()
        engine.try_accept_new_bytes(bytes([byte]))
    engine.compute_allowed_token_ids()
    allowed = [tokens[i] for i in engine.get_allowed_token_ids_from_last_computation()]
    assert b"$" not in allowed  # although it is the only one that is right


def test_the_end_of_a_nested_rule_is_found():
    state = compiled(NESTED).start()
    for byte in b"aabcc":
        assert mask(state)
        assert state.accept_bytes(bytes([byte]))
    assert state.can_stop()
    assert mask(state) == []


def test_a_token_that_closes_a_string_and_an_object_is_allowed():
    vocabulary = Vocabulary([*(bytes([i]) for i in range(256)), b'"}', b'":', b"</s>"], [258])
    state = compiled(JSON_LIKE, vocabulary).start()
    for byte in b'{"a":"b':
        mask(state, vocabulary)
        assert state.accept_bytes(bytes([byte]))
    allowed = mask(state, vocabulary)
    assert 256 in allowed
    assert 257 not in allowed


# --- against the oracle ----------------------------------------------------------------------------------------------

GRAMMARS: dict[str, Grammar] = {
    "nested": NESTED,
    "empty text only": rules(s=EMPTY),
    "all nullable": rules(s=seq(optional(A), Repeat(B), optional(ref("t"))), t=either(EMPTY, ref("s"))),
    "nullable run": rules(s=seq(*(optional(ref("x")) for _ in range(30)), C), x=CHAIN),
    "unit cycle": rules(s=either(ref("t"), A), t=either(ref("u"), B), u=either(ref("s"), C)),
    "cycle through empty": rules(s=either(seq(ref("e"), ref("s"), ref("e")), A), e=either(EMPTY, B)),
    "unproductive": rules(s=either(seq(A, ref("u")), B), u=seq(C, ref("u"))),
    "nothing inside": rules(s=either(seq(A, NOTHING), seq(B, Chars(())), C)),
    "left recursion": rules(s=either(seq(ref("s"), Bytes(b","), A), A)),
    "right recursion": rules(s=either(seq(ref("x"), Bytes(b","), ref("s")), ref("x")), x=CHAIN),
    "mutual right recursion": rules(s=either(seq(A, ref("t")), A), t=seq(Bytes(b","), ref("s"))),
    "both recursions": rules(s=either(seq(ref("s"), C), seq(A, ref("s")), B)),
    "operators": rules(s=either(seq(ref("s"), Bytes(b","), ref("s")), seq(ref("s"), ref("s")), seq(C, ref("s")), A)),
    "palindromes": rules(s=either(seq(A, ref("s"), A), seq(B, ref("s"), B), optional(C))),
    "greedy no matter": rules(s=seq(Repeat(A), Repeat(either(A, B), 2, 4), Repeat(A, 0, None, greedy=False))),
    "counted rules": rules(s=Repeat(ref("x"), 2, 11), x=CHAIN),
    "counted nullable": rules(s=Repeat(ref("x"), 3, 5), x=either(A, EMPTY, seq(B, ref("x")))),
    "repeat of repeat": rules(s=Repeat(Repeat(either(A, B), 1, 2), 2, 3)),
    "repeat of repeated pairs": rules(s=Repeat(Repeat(A, 2, 2), 1, 3)),
    "two substrings": rules(s=seq(Terminal(Substring("abca")), C, Terminal(Substring("éaé")))),
    "NUL and raw bytes": rules(s=seq(Repeat(Bytes(b"\0")), Bytes(b"\xff"), Repeat(either(Bytes(b"\xc3"), A)))),
    "partial characters": rules(s=Repeat(Chars(((0x61, 0x61), (0xE0, 0xFF), (0x1F600, 0x1F64F))), 1, 2)),
    "any text": rules(s=Terminal(ANY_TEXT)),
    "special token": rules(s=seq(A, either(Token(SPECIAL), B), Repeat(Token(SPECIAL + 1)))),
    "tokens that never come": rules(s=either(seq(A, Token(END)), seq(B, Token(5000)), C)),
    "complement": rules(s=seq(Terminal(Complement(seq(ANY_TEXT, B, ANY_TEXT))), B)),
    "complement of all": rules(s=either(Terminal(Complement(Repeat(Chars(((0, 0x10FFFF),))))), A)),
    "intersection": rules(s=Terminal(Intersection((Repeat(either(A, B), 2), Repeat(either(A, C)))))),
    "nullable intersection": rules(s=seq(A, Terminal(Intersection((Repeat(B), Repeat(either(B, C), 0, 3)))), C)),
    "shortest": rules(s=seq(Terminal(Shortest(seq(Repeat(ANY_CHAR), either(B, Bytes(b"ca"))))), C)),
    "captures": rules(s=seq(Capture("x", Repeat(Capture("y", either(A, B)))), Capture("z", C))),
    "brackets and quotes": rules(s=seq(literal('("'), either(literal("[(]{*)"), literal("\\x41 (* #\"")), A)),
    "equal rules": rules(s=either(A, seq(B, ref("t"))), t=either(A, seq(B, ref("t")))),
    "start is a rule's twin": rules(s=ref("t"), t=either(A, seq(B, ref("t")))),
}  # fmt: skip


@pytest.mark.parametrize("name", GRAMMARS)
def test_masks_are_the_oracles_along_every_short_path(name):
    grammar = GRAMMARS[name]
    grammar.check(Limits())
    pending = [(compiled(grammar).start(), OracleEngine().compile(grammar, VOCABULARY, Limits()).start(), 3)]
    while pending:
        state, oracle, steps = pending.pop()
        allowed = mask(oracle)
        assert mask(state) == allowed
        assert state.can_stop() == oracle.can_stop()
        assert state.forced_bytes(8) == oracle.forced_bytes(8)
        for token_id in range(len(TOKENS)):
            following = state.fork()
            assert following.accept_token(token_id) == (token_id in allowed)
            # There would be thousands of paths of three tokens where nearly everything is allowed.
            if steps > (1 if len(allowed) > 10 else 0) and token_id in allowed:
                other = oracle.fork()
                assert other.accept_token(token_id)
                pending.append((following, other, steps - 1))


@pytest.mark.parametrize("size", [1, 31, 32, 33, 63, 64, 65, 96, 97])
def test_only_the_row_is_written(size):
    vocabulary = Vocabulary([b"a"] * (size - 1) + [b"</s>"] if size > 1 else [b"</s>"], [size - 1])
    around = np.full(vocabulary.words + 8, 0x55555555, dtype=np.int32)
    compiled(Grammar({"s": Repeat(A)}, "s"), vocabulary).start().fill_bitmask(around[4:-4])
    bits = np.unpackbits(around[4:-4].view(np.uint8), bitorder="little")
    assert np.flatnonzero(bits).tolist() == list(range(size - 1))
    assert (around[:4] == 0x55555555).all()
    assert (around[-4:] == 0x55555555).all()


def test_ids_past_the_vocabulary_are_not_accepted():
    state = compiled(Grammar({"s": seq(Repeat(A), Repeat(Token(5000)))}, "s")).start()
    assert [state.accept_token(i) for i in (-1, len(TOKENS), len(TOKENS) + 1, 5000, 10**9)] == [False] * 5


# --- steps, rollback, fork -------------------------------------------------------------------------------------------


def test_rollback_goes_back_any_number_of_steps():
    state = compiled(JSON_LIKE, Vocabulary([bytes([i]) for i in range(256)], [0])).start()
    text = b'{"abc":{"d":{"e":"' + b"f" * 60 + b'"}}}'
    seen = []
    for byte in text:
        seen.append((state.can_stop(), state.forced_bytes(4)))
        assert state.accept_token(byte)
    assert state.can_stop()
    for kept in (len(text) - 1, len(text) - 2, 70, 69, 40, 12, 5, 0):
        state.rollback(len(text) - kept)
        assert (state.can_stop(), state.forced_bytes(4)) == seen[kept]
        assert state.accept_bytes(text[kept:])
        state.rollback(1)
        assert (state.can_stop(), state.forced_bytes(4)) == seen[kept]
        for byte in text[kept:]:
            assert state.accept_token(byte)


def test_an_empty_byte_string_is_a_step():
    state = after(b"a", NESTED)
    assert state.accept_bytes(b"")
    state.rollback(1)
    assert state.accept_bytes(b"bc")
    state.rollback(2)
    assert mask(state) == [0, 1, 3, 4, 12]


def test_a_refused_step_changes_nothing():
    state = after(b"a", NESTED)
    before = mask(state)
    for data in (b"c", b"abb", b"bca", "é".encode(), b"\xff", b"\0"):
        assert not state.accept_bytes(data)
        assert mask(state) == before
    assert state.accept_bytes(b"bc")
    assert state.can_stop()


def test_forks_are_independent():
    state = after(b"a", NESTED)
    mask(state)
    fork = state.fork()
    assert fork.accept_bytes(b"bc")
    assert fork.can_stop()
    assert not state.can_stop()
    assert state.accept_bytes(b"a")
    fork.rollback(2)
    assert fork.accept_bytes(b"b")
    assert fork.can_stop()
    assert mask(state) == [0, 1, 3, 4, 12]


def test_sequences_of_one_grammar_do_not_disturb_each_other():
    grammar = compiled(NESTED)
    states = [grammar.start() for _ in range(7)]
    oracles = [OracleEngine().compile(NESTED, VOCABULARY, Limits()).start() for _ in states]
    for step in range(12):
        for number, (state, oracle) in enumerate(zip(states, oracles, strict=True)):
            assert mask(state) == mask(oracle)
            data = b"a" if step < number else b"b" if step == number else b"c"
            assert state.accept_bytes(data) == oracle.accept_bytes(data)


def test_threads_share_a_grammar():
    grammar = compiled(NESTED)
    expected = {count: mask(after(b"a" * count + b"b" + b"c" * (count // 2), NESTED)) for count in range(20)}

    def run(_: int) -> None:
        for _ in range(3):
            for count in range(20):
                state = grammar.start()
                for byte in b"a" * count + b"b" + b"c" * (count // 2):
                    mask(state)
                    state.accept_bytes(bytes([byte]))
                assert mask(state) == expected[count]

    in_threads(run)


def test_masks_stay_right_when_they_are_thrown_away():
    state = compiled(NESTED, limits=Limits(cache_bytes=1)).start()
    oracle = OracleEngine().compile(NESTED, VOCABULARY, Limits()).start()
    for byte in b"aaaabcccc":
        assert mask(state) == mask(oracle)
        assert state.accept_bytes(bytes([byte]))
        assert oracle.accept_bytes(bytes([byte]))
    assert state.can_stop()


# --- bounds ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("rules", "error"),
    [
        ({"s": seq(A, ref("s"))}, InvalidGrammar),
        ({"s": NOTHING}, InvalidGrammar),
        ({"s": Terminal(Intersection((A, B)))}, InvalidGrammar),
        ({"s": Token(0)}, UnsupportedByEngine),
        ({"s": Token(2**21)}, UnsupportedByEngine),
        ({"s": Terminal(Substring("some text, " * 1000))}, UnsupportedByEngine),
        ({"s": Terminal(Complement(seq(ANY_TEXT, A, Repeat(either(A, B), 14, 14))))}, UnsupportedByEngine),
        ({"s": Repeat(seq(*(either(Bytes(b"%d" % i), ref("s")) for i in range(400))))}, LimitExceeded),
    ],
)  # fmt: skip
def test_what_it_cannot_do_is_refused(rules, error):
    limits = Limits(work=3_000) if error is LimitExceeded else Limits()
    with pytest.raises(error):
        compiled(Grammar(rules, "s"), limits=limits)


LETTER = Chars(((97, 122),))
WORDS = tuple(Bytes(b"w%d" % i) for i in range(20_000))
LARGE: dict[str, tuple[Grammar, bytes]] = {
    "counts that overlap": (rules(s=Terminal(seq(Repeat(LETTER, 1, 500), Repeat(LETTER, 1, 500)))), b"ab" * 20),
    "nested counts": (rules(s=Terminal(Repeat(Repeat(Repeat(LETTER, 0, 999), 0, 999), 0, 999))), b"ab" * 20),
    "exponential automaton": (rules(s=Terminal(seq(Repeat(LETTER), A, Repeat(LETTER, 25, 25)))), b"ab" * 20),
    "large count": (rules(s=Repeat(either(A, seq(Bytes(b"("), ref("s"), Bytes(b")"))), 0, 100_000)), b"aa(a)a"),
    "large count of letters": (rules(s=Repeat(Chars(((0x61, 0x7A), (0xE0, 0xFFFF))), 3, 65_535)), "aé€z".encode() * 9),
    "words left out": (rules(s=Terminal(Intersection((ANY_TEXT, Complement(Choice(WORDS[:900])))))), b"w1x"),
    "many optional": (rules(s=seq(*(optional(seq(word, ref("x"))) for word in WORDS[:500])), x=CHAIN), b"w3aw499bba"),
    "many words": (rules(s=Choice(WORDS)), b"w199"),
    "many alternatives": (rules(s=Choice(tuple(seq(word, ref("x")) for word in WORDS[:3_000])), x=CHAIN), b"w199bba"),
    "long row": (rules(s=seq(*[ref("x")] * 3_000), x=CHAIN), b"abba"),
    "long chain": (Grammar({**{f"r{i}": seq(A, ref(f"r{i + 1}")) for i in range(3_000)}, "r3000": B}, "r0"), b"aaa"),
    "long literal": (rules(s=Bytes(b"abc" * 30_000)), b"abca"),
    "deep text": (rules(s=either(seq(Bytes(b"("), ref("s"), Bytes(b")")), A)), b"(" * 300 + b"a" + b")" * 300),
    "ambiguous": (rules(s=either(seq(ref("s"), ref("s")), A)), b"a" * 200),
}  # fmt: skip


@pytest.mark.parametrize("name", LARGE)
def test_large_grammars_are_compiled_and_followed(name):
    grammar, text = LARGE[name]
    vocabulary = Vocabulary([bytes([byte]) for byte in range(256)], [0])
    state = compiled(grammar, vocabulary).start()
    for byte in text:
        assert byte in mask(state, vocabulary)
        assert state.accept_bytes(bytes([byte]))


def test_a_step_too_slow_for_the_limits_is_refused():
    grammar = Grammar({"s": seq(*[Repeat(ref("x"))] * 6), "x": either(A, seq(B, ref("x")))}, "s")
    state = compiled(grammar, limits=Limits(work=600)).start()
    with pytest.raises(LimitExceeded):
        for _ in range(500):
            mask(state)
            assert state.accept_bytes(b"a")
            assert state.accept_bytes(b"")


def test_the_package_has_nothing_to_complain_about(capfd, caplog):
    state = compiled(NESTED, Vocabulary([b"a", b"b", b"a", b"\xff", b"</s>"], [4])).start()
    state.accept_bytes(b"abcb")
    state.accept_bytes(b"a\xc3\xa9")
    state.fill_bitmask(np.zeros(1, dtype=np.int32))
    out, err = capfd.readouterr()
    assert out + err == ""
    assert caplog.records == []
