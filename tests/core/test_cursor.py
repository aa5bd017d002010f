"""A cursor follows whatever an inference engine does to its list of kept tokens."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from formatter_core import Compiler, Cursor, Vocabulary, bitmask, formats
from formatter_core.errors import DeadEnd, TokenRejected

from .conftest import END, TOKENS

A, B, C = ord("a"), ord("b"), ord("c")


def allowed(cursor: Cursor) -> list[int]:
    row = np.full(cursor.formatter.compiled.vocabulary.words + 2, -1, dtype=np.int32)
    cursor.fill_bitmask(row)
    return bitmask.allowed_ids(row)


@pytest.fixture
def cursor(compiler: Compiler) -> Cursor:
    return Cursor(compiler.compile(formats.regex("a[bc]{2,4}")).formatter())


def test_appended_one_by_one_and_several_at_once(cursor: Cursor) -> None:
    cursor.follow([A])
    cursor.follow([A, B, C])
    assert cursor.formatter.text == "abc"
    assert END in allowed(cursor)
    cursor.follow([A, B, C, END])
    assert cursor.formatter.is_finished
    assert allowed(cursor) == [END]
    cursor.follow([A, B, C, END, END])
    assert cursor.result().is_complete


def test_shrinking_and_cleared_lists(cursor: Cursor) -> None:
    cursor.follow([A, B, C, END])
    cursor.follow([A, B])
    assert cursor.formatter.text == "ab"
    cursor.follow([])
    assert cursor.formatter.text == ""
    assert A in allowed(cursor)


def test_another_ending_replay_after_preemption(cursor: Cursor, compiler: Compiler) -> None:
    cursor.follow([A, B, B])
    cursor.follow([A, C, B])
    assert cursor.formatter.text == "acb"
    again = Cursor(cursor.formatter.compiled.formatter())
    again.follow([A, C, B])
    assert allowed(again) == allowed(cursor)


def test_a_token_that_is_not_allowed_ends_the_sequence_until_it_is_gone(cursor: Cursor) -> None:
    cursor.follow([A, ord("x"), B])
    assert isinstance(cursor.error, TokenRejected)
    assert cursor.error.position == 1
    assert allowed(cursor) == [END]
    cursor.follow([A, ord("x"), B, B])
    assert cursor.error is not None
    assert cursor.result().ended == "error"
    assert not cursor.result().is_complete
    cursor.follow([A, B])
    assert cursor.error is None
    assert B in allowed(cursor)


def test_placeholders_hold_the_sequence_until_the_ids_are_known(cursor: Cursor) -> None:
    cursor.follow([A, -1])
    assert cursor.error is not None
    assert allowed(cursor) == [END]
    cursor.follow([A, B])
    assert cursor.error is None
    assert cursor.formatter.text == "ab"


def test_drafts_are_masked_without_being_kept(cursor: Cursor, vocabulary: Vocabulary) -> None:
    cursor.follow([A])
    rows = bitmask.allocate(5, len(vocabulary))
    assert cursor.fill_drafts([B, C, ord("x"), B], rows) == 2
    assert [B in bitmask.allowed_ids(row) for row in rows] == [True, True, True, False, False]
    assert bitmask.allowed_ids(rows[3]) == [END]
    assert cursor.formatter.text == "a"
    assert cursor.error is None


def test_a_dead_end_is_kept_as_the_error() -> None:
    cursor = Cursor(Compiler(Vocabulary([b"a", None], [1])).compile(formats.regex("ab")).formatter())
    cursor.follow([0])
    assert allowed(cursor) == [1]
    assert isinstance(cursor.error, DeadEnd)


def test_a_fork_is_independent(cursor: Cursor) -> None:
    cursor.follow([A, B])
    fork = cursor.fork()
    fork.follow([A, C])
    assert (cursor.formatter.text, fork.formatter.text) == ("ab", "ac")


LISTS = st.lists(st.sampled_from([A, B, C, ord("x"), -1, END, TOKENS.index(b"ab"), TOKENS.index(b"bc")]), max_size=5)


@settings(max_examples=100, deadline=None)
@given(st.lists(LISTS, min_size=2, max_size=5))
def test_any_history_of_lists_ends_like_the_last_list_alone(histories: list[list[int]]) -> None:
    compiled = Compiler(Vocabulary(TOKENS, [END])).compile(formats.regex("(a|b|bc)*c?"))
    wandering, direct = Cursor(compiled.formatter()), Cursor(compiled.formatter())
    for kept in histories:
        wandering.follow(kept)
    direct.follow(histories[-1])
    assert wandering.formatter.tokens == direct.formatter.tokens
    assert (wandering.error is None) == (direct.error is None)
    assert allowed(wandering) == allowed(direct)


def test_a_step_is_one_token_and_the_next_mask(cursor: Cursor) -> None:
    twin = cursor.fork()
    row = np.full(cursor.formatter.compiled.vocabulary.words + 2, -1, dtype=np.int32)
    for token in (A, B, C, ord("x"), B):
        cursor.append(token)
        cursor.fill_bitmask(row)
        twin.append(token)
        assert twin.formatter.tokens == cursor.formatter.tokens  # accepted without a mask
        assert bitmask.allowed_ids(row) == allowed(twin)
        assert type(cursor.error) is type(twin.error)
    cursor.follow([A, B])
    assert cursor.error is None
    assert cursor.formatter.text == "ab"


NEW = st.sampled_from([A, B, C, ord("x"), -1, END, TOKENS.index(b"ab"), None])


@settings(max_examples=60, deadline=None)
@given(steps=st.lists(st.tuples(NEW, NEW, NEW), max_size=6))
def test_cursors_that_go_on_together_end_like_each_alone(steps: list[tuple[int | None, ...]]) -> None:
    compiled = Compiler(Vocabulary(TOKENS, [END])).compile(formats.regex("a?[bc]{0,4}"))
    together, alone = ([Cursor(compiled.formatter()) for _ in range(3)] for _ in range(2))
    for tokens in steps:
        rows, expected = (bitmask.allocate(3, len(TOKENS) + 40, fill="all") for _ in range(2))
        for cursor, token in zip(together, tokens, strict=True):
            if token is not None:
                cursor.append(token)
        Cursor.step_batch(together, rows)
        for cursor, token, row in zip(alone, tokens, expected, strict=True):
            if token is not None:
                cursor.append(token)
            cursor.fill_bitmask(row)
        assert (rows == expected).all()
    for one, other in zip(together, alone, strict=True):
        assert str(one.error) == str(other.error)
        assert one.formatter.tokens == other.formatter.tokens
        one.follow([A, B])
        assert one.error is None
        assert one.formatter.text == "ab"


def some_logits(kind: str, count: int, width: int) -> np.ndarray:
    """Ones of which rows lie together, apart, one in another, or backwards; or of another kind."""
    match kind:
        case "strided":
            return np.ones((count, 2 * width + 3), dtype=np.float32)[:, ::2][:, :width]
        case "backwards":
            return np.ones((count, width), dtype=np.float32)[::-1]
        case "padded":
            return np.ones((count, width + 5), dtype=np.float32)[:, :width]
        case _:
            return np.ones((count, width), dtype=kind)


@settings(max_examples=100, deadline=None)
@given(
    steps=st.lists(st.tuples(NEW, NEW, NEW, NEW), min_size=1, max_size=5),
    places=st.permutations(range(5)),
    width=st.sampled_from([len(TOKENS), len(TOKENS) + 40, END + 1]),
    kind=st.sampled_from(["float32", "float32", "float16", "float64", "strided", "backwards", "padded"]),
    end_ids=st.sampled_from([[END], [END, C]]),
)
def test_logits_are_masked_in_the_call_that_makes_the_masks(
    steps: list[tuple[int | None, ...]], places: list[int], width: int, kind: str, end_ids: list[int]
) -> None:
    compiler = Compiler(Vocabulary(TOKENS, [END]))
    compiled, budgeted = compiler.compile(formats.regex("a?[bc]{0,4}")), compiler.compile(formats.regex("[abc]+"))
    cursors = [Cursor(compiled.formatter(end_ids)), Cursor(budgeted.formatter(max_tokens=4))]
    cursors += [Cursor(compiled.formatter()), Cursor.failed(ValueError("no format"), [END])]
    twins = [cursor.fork() for cursor in cursors]
    for tokens in steps:
        for cursor, twin, token in zip(cursors, twins, tokens, strict=True):
            if token is not None:
                cursor.append(token)
                twin.append(token)
        logits, rows = some_logits(kind, 5, width), bitmask.allocate(5, max(width, len(TOKENS)), fill="all")
        Cursor.step_batch(cursors, rows, places[:4], logits)
        expected = bitmask.allocate(5, max(width, len(TOKENS)), fill="all")
        for twin, place in zip(twins, places, strict=False):
            twin.fill_bitmask(expected[place])
        assert (rows == expected).all()
        assert (np.isneginf(logits) == ~bitmask.unpack(expected)[:, :width]).all()
    assert [str(cursor.error) for cursor in cursors] == [str(twin.error) for twin in twins]


def test_its_repr_says_how_far_it_is_and_why_it_failed(cursor: Cursor) -> None:
    cursor.follow([A, B])
    assert repr(cursor) == "<Cursor after 2 kept tokens>"
    cursor.fail(ValueError("no more"))
    assert "failed: no more" in repr(cursor)
