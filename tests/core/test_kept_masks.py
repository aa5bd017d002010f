"""The numbers of kept masks: the same one only for the same mask, and none where a mask is not kept."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from formatter_core import CompiledFormat, Compiler, Cursor, Formatter, Vocabulary, bitmask, formats
from formatter_core.errors import TokenRejected
from formatter_core.testing.oracle import OracleEngine

END, PAD = 256, 257
WORDS = [b"ab", b"bc", b"true", b"null", b'"a', b'": ', b", ", b"12", "é".encode()[:1], "né".encode()]
VOCABULARY = Vocabulary([*(bytes([byte]) for byte in range(256)), None, None, *WORDS], [END])
FORMATS = [
    formats.regex("(a|b|bc)*c?"),
    formats.regex("[^\\n]{2,40}\\n"),
    formats.choice(["yes", "no", "null", "né"]),
    formats.json_schema({"type": "object", "properties": {"a": {"type": "integer"}}, "maxProperties": 2}),
    formats.json_schema({"type": "array", "items": {"enum": [True, None, 12]}, "maxItems": 4}),
    formats.sequence(formats.regex("[ab]*", max_tokens=3), formats.regex("[0-9]+")),
]


@pytest.fixture(scope="module")
def compiled() -> list[CompiledFormat]:
    return [Compiler(VOCABULARY, engine="native").compile(format) for format in FORMATS]


def row_of(formatter: Formatter) -> np.ndarray:
    row = bitmask.allocate(1, len(VOCABULARY))[0]
    formatter.fill_bitmask(row)
    return row


def test_a_number_stands_for_one_mask(compiled: list[CompiledFormat]) -> None:
    """Whatever the format, the budget and what was taken back; and a step by number is a step."""
    rng, rows, told, steps = random.Random(0), dict[int, np.ndarray](), 0, 0
    for seed in range(300):
        options = {"max_tokens": rng.choice([None, 9, 30])}
        chosen = compiled[seed % len(compiled)]
        formatter, plain = chosen.formatter(**options), chosen.formatter(**options)
        for _ in range(rng.randrange(1, 12)):
            token = rng.choice(plain.allowed_tokens())
            if formatter.is_finished:
                break
            number = formatter.step_kept(token)
            if number is None:
                assert formatter.tokens == plain.tokens
                formatter.accept_token(token)
            plain.accept_token(token)
            row = row_of(plain)
            assert (row_of(formatter) == row).all()
            steps += 1
            if number is not None:
                told += 1
                assert (rows.setdefault(number, row) == row).all()
            if rng.random() < 0.2:
                back = rng.randrange(len(plain.tokens) + 1)
                formatter.rollback(back)
                plain.rollback(back)
        assert formatter.result().bytes == plain.result().bytes
        assert formatter.is_shortened == plain.is_shortened
    assert told > steps / 3
    assert len(rows) > 20


def test_no_number_stands_for_other_end_ids(compiled: list[CompiledFormat]) -> None:
    formatter = compiled[0].formatter(end_ids=[ord("c")])
    for _ in range(3):
        assert formatter.step_kept(ord("a")) is None
        formatter.accept_token(ord("a"))
        row_of(formatter)
        formatter.reset()


@pytest.mark.parametrize("token", [ord("x"), END, PAD, -1, 2**40])
def test_nothing_is_changed_without_a_number(compiled: list[CompiledFormat], token: int) -> None:
    formatter = compiled[1].formatter()
    assert formatter.accept_tokens(b"xy") == 2
    if token != ord("x"):
        row_of(formatter)
        assert formatter.step_kept(token) is None
        with pytest.raises(TokenRejected):
            formatter.accept_token(token)
    assert formatter.tokens == (ord("x"), ord("y"))


def test_after_the_end_there_is_no_number(compiled: list[CompiledFormat]) -> None:
    for _ in range(2):
        formatter = compiled[0].formatter()
        formatter.accept_tokens([ord("a"), END])
        assert formatter.step_kept(ord("a")) is None
        assert formatter.step_kept(END) is None
        assert bitmask.allowed_ids(row_of(formatter)) == [END]


def test_an_engine_that_keeps_no_masks_tells_no_numbers() -> None:
    cursor = Cursor(Compiler(VOCABULARY, engine=OracleEngine()).compile(FORMATS[0]).formatter())
    for token in b"ab":
        assert cursor.append_kept(token) is None
        cursor.fill_bitmask(bitmask.allocate(1, len(VOCABULARY))[0])
    assert cursor.formatter.text == "ab"


IDS: Any = st.sampled_from([*b"abcx", -1, END, 258, 259, "a", None])


@settings(max_examples=100, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 3), IDS), max_size=12))
def test_a_cursor_by_numbers_follows_as_one_without(steps: list[tuple[int, Any]]) -> None:
    chosen = Compiler(VOCABULARY, engine="native").compile(FORMATS[0])
    cursor, plain, rows = Cursor(chosen.formatter()), Cursor(chosen.formatter()), dict[int, np.ndarray]()
    for _ in range(2):
        for back, token in steps:
            for one in (cursor, plain):
                one.rollback(back)
            number = cursor.append_kept(token)
            plain.append(token)
            own, other = bitmask.allocate(2, len(VOCABULARY))
            cursor.fill_bitmask(own)
            plain.fill_bitmask(other)
            assert (own == other).all()
            assert number is None or (rows.setdefault(number, own) == other).all()
        assert str(cursor.error) == str(plain.error)
        assert cursor.bytes == plain.bytes
        cursor.reset()
        plain.reset()
