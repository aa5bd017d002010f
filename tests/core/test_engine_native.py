"""The native engine: what it allows, undoes, refuses and shares."""

from __future__ import annotations

import ctypes
import weakref
from collections.abc import Callable, Iterable

import numpy as np
import pytest

from formatter_core import Compiler, formats
from formatter_core.engine.native import NativeEngine, NativeGrammar, NativeState, step_batch
from formatter_core.engine.native_library import fault
from formatter_core.engine.protocol import MaskStatus
from formatter_core.errors import EngineFailed, InvalidGrammar, LimitExceeded
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
    optional,
)
from formatter_core.limits import Limits
from formatter_core.vocabulary import Vocabulary
from tests.threads import in_threads

BYTES = Vocabulary([bytes([value]) for value in range(256)] + [b"</s>"], [256])
LOWER = Chars(((97, 122),))
A, B = Bytes(b"a"), Bytes(b"b")


def compiled(node: Node, vocabulary: Vocabulary = BYTES, limits: Limits | None = None, **rules: Node) -> NativeGrammar:
    grammar = Grammar({"start": node, **rules}, "start")
    limits = limits or Limits()
    grammar.check(limits)
    return NativeEngine().compile(grammar, vocabulary, limits)


def matches(grammar: NativeGrammar, text: bytes) -> bool:
    state = grammar.start()
    return state.accept_bytes(text) and state.can_stop()


def allowed(state: NativeState, vocabulary: Vocabulary = BYTES) -> list[int]:
    row = np.full(vocabulary.words, -1, dtype=np.int32)
    state.fill_bitmask(row)
    bits = np.unpackbits(row.view(np.uint8), bitorder="little")
    return [int(index) for index in np.flatnonzero(bits)]


def allowed_bytes(state: NativeState) -> bytes:
    return bytes(allowed(state))


def until(end: bytes) -> Node:
    """Non-empty text that does not hold `end`."""
    within = Sequence((ANY_TEXT, Bytes(end), ANY_TEXT))
    return Terminal(Intersection((Repeat(ANY_CHAR, 1), Complement(within))))


TABLES: list[tuple[str, Node, dict[str, Node], list[str], list[str]]] = [
    ("bytes", Bytes(b"ab"), {}, ["ab"], ["", "a", "abc", "ba"]),
    ("empty", EMPTY, {}, [""], ["a"]),
    ("chars", Chars(((233, 945),)), {}, ["é", "α"], ["", "e", "éé", "\u0800"]),
    ("any char", ANY_CHAR, {}, ["\x00", "é", "\U0010ffff"], ["", "ab"]),
    ("counted", Repeat(Sequence((A, optional(B))), 2, 3), {}, ["aa", "abab", "aaba"], ["a", "aaaa", "b"]),
    (
        "counted rule",
        Repeat(Reference("x"), 2, 3),
        {"x": Choice((A, Reference("y"))), "y": B},
        ["ab", "bba"],
        ["a", "aaaa"],
    ),
    ("at least", Repeat(Reference("x"), 2), {"x": Choice((A, Reference("y"))), "y": B}, ["aa", "abab"], ["", "a"]),
    ("choice of prefixes", Choice((Bytes(b"a"), Bytes(b"abc"))), {}, ["a", "abc"], ["ab"]),
    ("left recursion", Reference("x"), {"x": Choice((Sequence((Reference("x"), B)), A))}, ["a", "abbb"], ["b", "aa"]),
    ("right recursion", Reference("x"), {"x": Choice((Sequence((A, Reference("x"))), B))}, ["b", "aab"], ["a", "ba"]),
    (
        "middle recursion",
        Reference("x"),
        {"x": Choice((Sequence((A, Reference("x"), B)), EMPTY))},
        ["", "aabb"],
        ["aab"],
    ),
    (
        "hidden left recursion",
        Reference("x"),
        {
            "x": Choice((Sequence((Reference("n"), Reference("x"), B)), A)),
            "n": optional(Reference("m")),
            "m": Bytes(b"m"),
        },
        ["a", "ab", "mab", "mmabb"],
        ["mmab", "m"],
    ),
    (
        "cycle",
        Reference("x"),
        {"x": Choice((Reference("y"), A)), "y": Choice((Reference("x"), B))},
        ["a", "b"],
        ["", "aa"],
    ),
    (
        "rule of itself alone is left out",
        Choice((A, Reference("x"))),
        {"x": Sequence((B, Reference("x")))},
        ["a"],
        ["b"],
    ),
    ("nothing is left out", Sequence((A, Choice((NOTHING, B)))), {}, ["ab"], ["a"]),
    (
        "ambiguous",
        Reference("x"),
        {"x": Choice((Sequence((Reference("x"), Reference("x"))), A))},
        ["a", "aaaa"],
        ["", "b"],
    ),
    ("terminals overlap", Sequence((Terminal(Repeat(LOWER)), Terminal(Repeat(LOWER, 1)))), {}, ["a", "abc"], ["", "A"]),
    (
        "intersection",
        Terminal(Intersection((Repeat(LOWER), Repeat(ANY_CHAR, 2, 3)))),
        {},
        ["ab", "abc"],
        ["a", "aé", "abcd"],
    ),
    ("complement", Terminal(Intersection((Repeat(LOWER), Complement(Bytes(b"ab"))))), {}, ["", "a", "abc"], ["ab"]),
    ("shortest", Terminal(Shortest(Repeat(Bytes(b"ab")))), {}, ["ab"], ["", "abab"]),
    ("until", Sequence((until(b"--"), Bytes(b"--"))), {}, ["a--", "a-b--", "a---"], ["--", "a--b--"]),
    ("substring", Substring("aéb"), {}, ["", "a", "éb", "aéb"], ["ab", "ba"]),
    ("two substrings", Sequence((Substring("ab"), B, Substring("xy"))), {}, ["b", "abby", "abxy"], ["ax", "bab"]),
    ("captures are seen through", Capture("c", Sequence((A, Capture("d", B)))), {}, ["ab"], ["a"]),
    ("empty terminal", Sequence((Terminal(Repeat(A)), Terminal(Repeat(B)))), {}, ["", "a", "b", "aabb"], ["ba"]),
]


@pytest.mark.parametrize(("name", "node", "rules", "good", "bad"), TABLES, ids=[row[0] for row in TABLES])
def test_texts_are_told_apart(name: str, node: Node, rules: dict[str, Node], good: list[str], bad: list[str]) -> None:
    grammar = compiled(node, **rules)
    for text in good:
        assert matches(grammar, text.encode()), text
    for text in bad:
        assert not matches(grammar, text.encode()), text


def test_a_complement_takes_ill_formed_text() -> None:
    grammar = compiled(Terminal(Complement(Bytes(b"a"))))
    assert matches(grammar, b"\xff\x80")
    assert not matches(grammar, b"a")


def test_a_mask_is_what_can_be_completed() -> None:
    state = compiled(Choice((Bytes(b"ab"), Bytes(b"ac"), Sequence((B, NOTHING))))).start()
    assert allowed_bytes(state) == b"a"
    assert state.accept_bytes(b"a")
    assert allowed_bytes(state) == b"bc"


def test_a_token_that_leaves_no_room_for_a_pattern_is_not_in_the_mask() -> None:
    tokens = [*(bytes([byte]) for byte in range(256)), b"aaaaaaaa", None]
    compiler = Compiler(Vocabulary(tokens, [257]), engine="native")
    formatter = compiler.compile({"type": "string", "maxLength": 20, "pattern": "^a+@a+\\.a+$"}).formatter()
    formatter.accept_token(ord('"'))
    for count in range(17):
        assert (256 in formatter.allowed_tokens()) == (count + 8 + len("@a.a") <= 20)
        assert (ord("a") in formatter.allowed_tokens()) == (count < 16)
        if count < 16:
            formatter.accept_token(ord("a"))


def test_tokens_may_hold_several_terminals_and_parts_of_characters() -> None:
    tokens = [
        b'"',
        b'":',
        b'": "',
        b'"}',
        b"\xc3",
        b"\xa9",
        b'\xa9":',
        b'x"',
        b"ab\xc3",
        None,
        b"",
        b'":"}',
        b'"',
        b"</s>",
    ]
    vocabulary = Vocabulary(tokens, [13])
    text = Terminal(Sequence((Bytes(b'"'), Repeat(Chars(((0x20, 0x21), (0x23, 0x10FFFF)))), Bytes(b'"'))))
    pair = Sequence((text, Bytes(b":"), optional(Bytes(b" ")), text, Bytes(b"}")))
    state = compiled(pair, vocabulary).start()
    assert allowed(state, vocabulary) == [0, 1, 2, 3, 12]
    assert state.accept_token(0)
    assert allowed(state, vocabulary) == [0, 1, 2, 4, 7, 8, 11, 12]
    assert state.accept_token(8)
    assert allowed(state, vocabulary) == [5, 6]
    assert state.accept_token(6)
    assert allowed(state, vocabulary) == [0, 1, 2, 3, 11, 12]
    assert state.accept_token(12)
    assert state.accept_token(3)
    assert state.can_stop()
    assert allowed(state, vocabulary) == []


def test_tokens_by_id() -> None:
    vocabulary = Vocabulary([b"a", None, b"ab", b"</s>"], [3])
    grammar = compiled(Sequence((A, Choice((Token(1), Token(2), B, Token(3), Token(99))))), vocabulary)
    state = grammar.start()
    assert allowed(state, vocabulary) == [0, 2]
    assert not state.accept_token(1)
    assert state.accept_token(0)
    assert allowed(state, vocabulary) == [1, 2]
    assert state.forced_bytes(10) == b""
    assert not state.accept_token(3)
    assert not state.accept_token(99)
    assert state.accept_token(1)
    assert state.can_stop()


def test_a_token_may_be_meant_by_id_and_by_its_bytes() -> None:
    vocabulary = Vocabulary([b"a", b"b", b"c", b"</s>"], [3])
    state = compiled(Choice((Sequence((Token(0), B)), Sequence((A, Bytes(b"c"))))), vocabulary).start()
    assert state.accept_token(0)
    assert allowed(state, vocabulary) == [1, 2]


def test_a_rejected_token_changes_nothing() -> None:
    state = compiled(Sequence((Bytes(b"abc"), optional(B)))).start()
    assert state.accept_bytes(b"ab")
    assert not state.accept_bytes(b"cx")
    assert not state.accept_token(ord("x"))
    assert not state.accept_token(-1)
    assert not state.accept_token(2**40)
    assert allowed_bytes(state) == b"c"
    row = np.full(BYTES.words, 7, dtype=np.int32)
    for token_id in (ord("x"), -1, 2**40, 2**32 + ord("c")):
        assert state.step(token_id, row) == 0
    assert (row == 7).all()
    assert state.step(ord("c"), row) == MaskStatus.ACCEPTED | MaskStatus.HAS_TOKENS | MaskStatus.CAN_STOP
    assert row[ord("b") // 32] == 1 << ord("b") % 32


def test_a_row_is_found_again_wherever_it_lies() -> None:
    state = compiled(Repeat(A)).start()
    rows = np.zeros((3, BYTES.words), dtype=np.int32)
    for number in (0, 1, 1, 2, 0):
        row = rows[number]
        for _ in range(2):
            row.fill(0)
            state.fill_bitmask(row)
            assert row.any()
    row = np.zeros(BYTES.words, dtype=np.int32)
    state.fill_bitmask(row)
    with pytest.raises(ValueError, match="referenc"):
        row.resize(1000)
    gone = weakref.ref(row)
    del row
    assert gone() is None


def test_steps_are_undone_one_by_one() -> None:
    state = compiled(Reference("x"), x=Choice((Sequence((A, Reference("x"), B)), EMPTY))).start()
    masks = []
    for _ in range(300):
        masks.append(allowed_bytes(state))
        assert state.accept_token(ord("a"))
    for byte in b"b" * 300:
        masks.append(allowed_bytes(state))
        assert state.accept_token(byte)
    assert state.can_stop()
    for expected in reversed(masks):
        state.rollback(1)
        assert allowed_bytes(state) == expected
    with pytest.raises(ValueError, match="fewer than 1"):
        state.rollback(1)


def test_many_steps_are_undone_at_once_and_byte_strings_count_as_one() -> None:
    state = compiled(Repeat(Choice((A, Reference("b"))), 1), b=Sequence((B, A))).start()
    for _ in range(500):
        assert state.accept_bytes(b"ba")
        assert state.accept_bytes(b"")
    assert state.accept_token(ord("b"))
    state.rollback(1)
    assert allowed_bytes(state) == b"ab"
    state.rollback(1000)
    assert not state.can_stop()
    assert state.accept_bytes(b"aba")


def test_a_fork_goes_its_own_way() -> None:
    state = compiled(Repeat(Choice((Sequence((A, B)), Sequence((B, A)))))).start()
    for _ in range(200):
        assert state.accept_bytes(b"ab")
    fork = state.fork()
    assert fork.accept_bytes(b"b")
    assert state.accept_bytes(b"a")
    assert (allowed_bytes(fork), allowed_bytes(state)) == (b"a", b"b")
    fork.rollback(201)
    assert allowed_bytes(fork) == b"ab"
    assert allowed_bytes(state) == b"b"


def test_forced_bytes() -> None:
    state = compiled(Sequence((Bytes(b"abc"), Choice((Bytes(b"d"), Bytes(b"de"))), optional(B)))).start()
    assert state.forced_bytes(100) == b"abcd"
    assert state.forced_bytes(2) == b"ab"
    assert state.accept_bytes(b"abcd")
    assert state.forced_bytes(100) == b""
    half = compiled(Choice((Bytes("é".encode()), Bytes("è".encode())))).start()
    assert half.forced_bytes(100) == b"\xc3"


@pytest.mark.parametrize("node", [NOTHING, Reference("start"), Sequence((A, NOTHING)), Terminal(Intersection((A, B)))])
def test_an_empty_language_is_refused(node: Node) -> None:
    with pytest.raises(InvalidGrammar, match="derives no text"):
        compiled(node)


def test_long_texts_take_linear_time() -> None:
    item = Choice((Terminal(Repeat(Chars(((48, 57),)), 1)), Reference("array")))
    rest = Repeat(Sequence((Bytes(b","), Reference("item"))))
    grammar = compiled(
        Reference("item"),
        item=item,
        array=Sequence((Bytes(b"["), optional(Sequence((Reference("item"), rest))), Bytes(b"]"))),
    )
    flat = b"[" + b"1," * 100_000 + b"1]"
    deep = b"[" * 20_000 + b"]" * 20_000
    assert matches(grammar, flat)
    assert matches(grammar, deep)
    assert not matches(grammar, deep[:-1])


@pytest.mark.parametrize(
    ("limits", "node", "rules", "name"),
    [
        (Limits(nodes=100), Repeat(Reference("x"), 0, 1000), {"x": Choice((A, Reference("y"))), "y": B}, "nodes"),
        (Limits(work=1000), Repeat(Bytes(b"a" * 100), 0, 1000), {}, None),
        (Limits(work=100), Bytes(b"a" * 1000), {}, "work"),
        (Limits(states=100), Substring("ab" * 100), {}, "states"),
    ],
)
def test_limits_of_compiling(limits: Limits, node: Node, rules: dict[str, Node], name: str | None) -> None:
    if name is None:
        compiled(node, limits=limits, **rules)
        return
    with pytest.raises(LimitExceeded) as caught:
        compiled(node, limits=limits, **rules)
    assert caught.value.limit == name


def test_nodes_are_counted_alike_after_a_limit_was_too_low() -> None:
    node = Terminal(Repeat(Choice(tuple(Bytes(f"counted alike {number}".encode()) for number in range(9)))))
    with pytest.raises(LimitExceeded):
        compiled(node, limits=Limits(nodes=3))
    assert Grammar({"start": node}, "start").check(Limits()).nodes == 12


def test_that_two_of_many_searches_exclude_each_other_is_seen_at_once() -> None:
    words = [b"alpha", b"beta", b"gamma", b"delta", b"eps", b"zeta", b"eta_", b"theta"]
    letters = Repeat(Chars(((32, 33), (35, 126))))

    def search(word: bytes) -> Node:
        return Sequence((letters, Bytes(word), letters, Bytes(b'"')))

    exactly_one = Choice(
        tuple(
            Intersection((search(word), *(Complement(search(other)) for other in words if other != word)))
            for word in words
        )
    )
    state = compiled(Terminal(exactly_one), limits=Limits(work=200_000)).start()
    assert state.accept_bytes(b"no bet, no eps, alph")
    assert ord("a") not in allowed(state)
    assert {ord("b"), ord('"')} <= set(allowed(state))


def test_limits_of_a_step_leave_the_state_as_it_was() -> None:
    ambiguous = {"x": Choice((Sequence((Reference("x"), Reference("x"))), A))}
    state = compiled(Reference("x"), limits=Limits(work=20_000), **ambiguous).start()
    steps = 0
    with pytest.raises(LimitExceeded) as caught:
        while steps < 5000:
            assert state.accept_token(ord("a"))
            steps += 1
    assert caught.value.limit == "work"
    state.rollback(steps)
    assert allowed_bytes(state) == b"a"


def test_a_step_with_too_many_states_is_refused_and_many_small_steps_are_not() -> None:
    tail = Repeat(Choice((A, B)), 14, 14)
    grammar = compiled(Terminal(Sequence((Repeat(Choice((A, B))), A, tail))), limits=Limits(states=30))
    numbers = [f"{number:011b}".encode().translate(bytes.maketrans(b"01", b"ab")) for number in range(2000)]
    state = grammar.start()
    for number in numbers:
        assert state.accept_bytes(number)
    with pytest.raises(LimitExceeded) as caught:
        grammar.start().accept_bytes(b"".join(numbers[1000:1010]))
    assert caught.value.limit == "states"
    assert state.accept_bytes(numbers[0])


def test_a_full_cache_changes_no_mask() -> None:
    rules = {"x": Choice((Sequence((Bytes(b"("), Reference("x"), Bytes(b")"))), Terminal(Repeat(LOWER, 1, 30))))}
    small = compiled(Reference("x"), limits=Limits(cache_bytes=1000), **rules)
    large = compiled(Reference("x"), **rules)
    for depth in range(20):
        one, other = small.start(), large.start()
        for byte in b"(" * depth + b"abcdefghij" + b")" * depth:
            assert allowed(one) == allowed(other)
            assert one.accept_token(byte)
            assert other.accept_token(byte)
        assert one.can_stop()
    assert sum(small.memory().values()) < 100_000


def test_a_row_that_does_not_fit_is_refused() -> None:
    state = compiled(A).start()
    with pytest.raises(ValueError, match="too small"):
        state.fill_bitmask(np.zeros(BYTES.words - 1, dtype=np.int32))
    row = np.zeros(BYTES.words, dtype=np.int32)
    row.setflags(write=False)
    with pytest.raises(TypeError):
        state.fill_bitmask(row)


def test_masks_of_several_sequences_in_one_call() -> None:
    grammar = compiled(Repeat(Choice((A, Reference("b")))), b=Sequence((B, A)))
    states = [grammar.start() for _ in range(5)]
    assert states[1].accept_bytes(b"b")
    tokens, places = [None, None, ord("a"), ord("a"), 10**9], [0, 5, 2, 3, 1]
    assert states[3].accept_bytes(b"b")
    others = [state.fork() for state in states]
    rows = np.full((6, BYTES.words + 2), -1, dtype=np.int32)
    status = step_batch(states, tokens, rows[:, : BYTES.words], places)
    for state, other, token, place, of_it in zip(states, others, tokens, places, status, strict=True):
        expected = np.full(BYTES.words, -1, dtype=np.int32)
        assert (other.fill_bitmask(expected) if token is None else other.step(token, expected)) == of_it
        assert (rows[place, : BYTES.words] == expected).all()
        assert allowed(state) == allowed(other)
    assert status[4] == 0
    assert (rows[4] == -1).all()
    assert (rows[:, BYTES.words :] == -1).all()
    assert step_batch([], [], rows, []) == ()


def test_a_limit_in_one_of_several_sequences_leaves_the_others_alone() -> None:
    ambiguous = {"x": Choice((Sequence((Reference("x"), Reference("x"))), A))}
    grammar = compiled(Reference("x"), limits=Limits(work=20_000), **ambiguous)
    starved, steps = grammar.start(), 0
    rows = np.zeros((2, BYTES.words), dtype=np.int32)
    status: object = MaskStatus.ACCEPTED
    while isinstance(status, int) and steps < 5000:
        status, of_the_other = step_batch([starved, grammar.start()], [ord("a"), ord("a")], rows, [0, 1])
        assert isinstance(of_the_other, int)
        assert of_the_other & MaskStatus.ACCEPTED
        steps += 1
    assert isinstance(status, LimitExceeded)
    starved.rollback(steps - 1)
    assert allowed_bytes(starved) == b"a"


@pytest.mark.parametrize(("words", "places"), [(-1, [0]), (1, [0]), (0, [2]), (0, [-1])])
def test_rows_of_several_sequences_that_do_not_fit_are_refused(words, places) -> None:
    rows = np.zeros((2, BYTES.words + words), dtype=np.int32)
    with pytest.raises(ValueError, match="room"):
        step_batch([compiled(A).start()], [None], rows, places)


def test_threads_share_a_grammar() -> None:
    word = Terminal(Repeat(LOWER, 1, 200))
    grammar = compiled(Reference("x"), x=Choice((Sequence((Bytes(b"("), Reference("x"), Bytes(b")"))), word)))
    text = b"(((" + b"abcxyz" * 30 + b")))"

    def run(_: int) -> None:
        state = grammar.start()
        for byte in text:
            assert byte in allowed_bytes(state)
            assert state.accept_token(byte)
        assert state.can_stop()

    in_threads(run)


def test_states_outlive_their_grammar() -> None:
    def begun() -> Iterable[NativeState]:
        grammar = compiled(Sequence((A, B)), Vocabulary([b"a", b"b", b"</s>"], [2]))
        return [grammar.start(), grammar.start().fork()]

    for state in begun():
        assert state.accept_bytes(b"a")
        assert state.forced_bytes(9) == b"b"


def test_two_states_that_are_like_each_other() -> None:
    """Classes are worked out by comparison with others; here two states would compare with each other for ever."""
    tokens = [*(bytes([byte]) for byte in range(256)), b'",', b'": ', b'"}', b"ab", b'":"', None]
    schema = {"patternProperties": {"^[a-zA-Z0-9_]*": {"type": "object"}}}
    formatter = Compiler(Vocabulary(tokens, [len(tokens) - 1]), engine="native").compile(schema).formatter()
    formatter.accept_tokens(b'{"')
    allowed = formatter.allowed_tokens()
    assert ord("a") in allowed
    assert tokens.index(b'": ') in allowed
    assert tokens.index(b'":"') not in allowed


# --- faults of the engine -------------------------------------------------------------------------------------------

NOWHERE, GRAMMAR_LOCK, TERMS_LOCK = range(3)


def panic_in(state: NativeState, place: int) -> None:
    """A fault of the engine in a call for `state`, under the lock of the grammar, of the vocabulary's terms or none."""
    answer = state._vocabulary.library.fcn_test_panic(ctypes.c_void_p(state.pointer), place)
    with pytest.raises(EngineFailed, match=f"a panic asked for at place {place}") as caught:
        raise fault(answer, None)
    assert (caught.value.engine, caught.value.text) == ("native", f"a panic asked for at place {place}")


def is_alive(use: Callable[[], object]) -> bool:
    try:
        use()
    except EngineFailed as error:
        assert "a panic asked for at place" in error.text
        return False
    return True


@pytest.mark.parametrize(
    ("place", "living"),
    [
        (NOWHERE, {"other sequence", "same grammar", "other grammar", "new grammar", "other vocabulary"}),
        (GRAMMAR_LOCK, {"other grammar", "new grammar", "other vocabulary"}),
        (TERMS_LOCK, {"new grammar", "other vocabulary"}),
    ],
)
def test_after_a_panic_its_owner_is_dead_and_all_else_lives(place: int, living: set[str]) -> None:
    vocabulary = Vocabulary([*(bytes([value]) for value in range(256)), b"</s>"], [256])
    other_vocabulary = Vocabulary([b"a", b"</s>"], [1])
    text, other_text = Repeat(A, 3), Repeat(B, 3)
    grammar, other = compiled(text, vocabulary), compiled(other_text, vocabulary)
    struck, same = grammar.start(), grammar.start()
    allowed(same, vocabulary)
    sequences = {
        "other sequence": same,
        "other grammar": other.start(),
        "other vocabulary": compiled(text, other_vocabulary).start(),
    }
    panic_in(struck, place)
    row = np.zeros(vocabulary.words, dtype=np.int32)
    for use in (
        lambda: struck.fill_bitmask(row),
        lambda: struck.step(97, row),
        lambda: struck.accept_token(97),
        lambda: struck.accept_bytes(b"a"),
        lambda: struck.can_stop(),
        lambda: struck.forced_bytes(4),
        lambda: struck.rollback(0),
        lambda: struck.fork(),
    ):
        assert not is_alive(use)
    found = {name for name, state in sequences.items() if is_alive(state.fork)}
    if is_alive(grammar.start):
        found.add("same grammar")
    assert grammar.is_usable() == ("same grammar" in found)
    assert matches(compiled(text, vocabulary), b"aaa")
    assert found | {"new grammar"} == living


def test_in_a_batch_a_panic_ends_its_own_sequence_alone() -> None:
    grammar = compiled(Repeat(A, 3))
    states = [grammar.start() for _ in range(3)]
    panic_in(states[1], NOWHERE)
    rows = np.zeros((3, BYTES.words), dtype=np.int32)
    answers = step_batch(states, [97, 97, None], rows, range(3))
    assert isinstance(answers[1], EngineFailed)
    assert (answers[0], answers[2]) == (MaskStatus.ACCEPTED | MaskStatus.HAS_TOKENS, MaskStatus.HAS_TOKENS)


def test_a_format_whose_grammar_has_failed_is_compiled_anew() -> None:
    compiler = Compiler(BYTES, engine="native")
    first = compiler.compile(formats.regex("a{3}"))
    state = first.engine_grammar.start()
    assert isinstance(state, NativeState)
    panic_in(state, GRAMMAR_LOCK)
    with pytest.raises(EngineFailed, match="please report"):
        first.formatter()
    second = compiler.compile(formats.regex("a{3}"))
    assert second is not first
    assert second.formatter().allowed_tokens() == [97]
    assert compiler.compile(formats.regex("a{3}")) is second


def test_very_many_calls_under_way_that_are_alike() -> None:
    """Each of hundreds of terminals under way returns to a call of its own, and each of these to another one."""
    nested = Choice((Sequence((A, Reference("nested"), B)), Sequence((Terminal(Repeat(A, 1)), Bytes(b"x")))))
    grammar = compiled(Reference("nested"), nested=nested)
    for depth in (500, 600, 700):
        state = grammar.start()
        assert state.accept_bytes(b"a" * depth + b"x")
        for _ in range(depth - 1):
            assert state.can_stop()
            assert state.accept_bytes(b"b")
        assert state.can_stop()
        assert not state.accept_bytes(b"b")


def test_a_row_that_was_given_other_memory_is_written_there() -> None:
    """numpy frees the old memory, whatever has kept its address."""
    words = 4096
    tokens = [bytes([value]) for value in range(256)] + [b""] * (32 * words - 257) + [b"</s>"]
    state = compiled(Repeat(A), Vocabulary(tokens, [32 * words - 1])).start()
    for size in (3 * words, 40 * words, words, 9 * words):
        row = np.zeros(words, dtype=np.int32)
        state.fill_bitmask(row)
        # `resize` refuses an array with weak references, even where it is asked not to look; this does not.
        row.__setstate__((1, (size,), row.dtype, False, b"\xff" * (4 * size)))
        others = [np.zeros(words, dtype=np.int32) for _ in range(8)]  # which may be where the row was
        for status in (state.fill_bitmask(row), state.step(97, row)):
            assert status | MaskStatus.ACCEPTED == MaskStatus.ACCEPTED | MaskStatus.HAS_TOKENS | MaskStatus.CAN_STOP
            assert np.flatnonzero(row[:words]).tolist() == [3]
            assert row[3] == 1 << 1
            assert (row[words:] == -1).all()
            assert not any(other.any() for other in others)
