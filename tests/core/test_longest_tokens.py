"""Masks with `forced_text="longest"`: where text is certain, only the longest of the tokens that spell it."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest

from formatter_core import Compiler, Vocabulary, bitmask, formats
from formatter_core.errors import InvalidArgument
from formatter_core.runtime.formatter import Formatter

PIECES = [
    '{"',
    '": ',
    '":',
    '",',
    ', "',
    '"}',
    '"na',
    "name",
    "nam",
    "ame",
    "age",
    '{"name',
    "true",
    "tr",
    "é",
    "é,",
    "12",
    "1",
]
VOCABULARY = Vocabulary(
    [*(bytes([byte]) for byte in range(256)), *(piece.encode() for piece in PIECES), b'"', None], [275]
)
PERSON = {
    "type": "object",
    "properties": {"name": {"type": "string", "maxLength": 3}, "age": {"enum": [12, 120]}, "é": {"const": True}},
    "required": ["name", "age", "é"],
    "additionalProperties": False,
}
FORMATS: dict[str, Any] = {
    "schema": formats.json_schema(PERSON),
    "compact": formats.json_schema(PERSON, whitespace="compact"),
    "choice": formats.choice(["name: true", "age: 12", "é,12"]),
    "regex": formats.regex("(name){1,3}[.]|12[0-9]true"),
    "text": formats.text('{"name": "', formats.regex("[a-z]{0,2}"), '", "age"'),
}


def expected(formatter: Formatter) -> set[int]:
    """Compute what is left of the exact mask, by the definition."""
    allowed, forced = set(formatter.allowed_tokens()), formatter.forced_bytes()
    beginnings = {
        token: len(text) for token in allowed if (text := VOCABULARY.tokens[token]) and forced.startswith(text)
    }
    longest = max(beginnings.values(), default=0)
    return {token for token in allowed if beginnings.get(token, longest) == longest}


@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize("budget", [None, 40, 17])
def test_masks_are_as_defined_along_random_walks(name: str, budget: int | None) -> None:
    compiled = Compiler(VOCABULARY).compile(FORMATS[name]).within(budget)
    longest = compiled.with_forced_text("longest")
    row = bitmask.allocate(1, len(VOCABULARY))[0]
    thinned = 0
    for seed in range(25):
        rng = random.Random(seed)
        exact, formatter = compiled.formatter(), longest.formatter()
        formatter.fill_bitmask(row)
        while not exact.is_finished:
            allowed = set(bitmask.allowed_ids(row))
            assert allowed == expected(exact) == set(formatter.allowed_tokens())
            thinned += len(allowed) < len(exact.allowed_tokens())
            if rng.random() < 0.2:
                formatter = formatter.fork()
            # Tokens that the mask leaves out are accepted all the same.
            token = rng.choice(sorted(allowed if rng.random() < 0.7 else exact.allowed_tokens()))
            exact.accept_token(token)
            if rng.random() < 0.5:
                formatter.step(token, row)
            else:
                formatter.accept_token(token)
                formatter.fill_bitmask(row)
            if rng.random() < 0.1:
                exact.rollback(1)
                formatter.rollback(1)
                formatter.fill_bitmask(row)
        assert formatter.result().is_complete
    assert thinned > 10
    formatter.reset()
    assert set(formatter.allowed_tokens()) == expected(compiled.formatter())


def test_masks_of_a_batch_are_as_those_of_single_sequences() -> None:
    compiled = Compiler(VOCABULARY).compile(FORMATS["text"])
    formatters = [compiled.formatter(), compiled.with_forced_text("longest").formatter()]
    rows = bitmask.allocate(2, len(VOCABULARY))
    bitmask.fill_batch(formatters, rows)
    for token in (VOCABULARY.tokens.index(b'{"'), VOCABULARY.tokens.index(b"n")):
        kept = [formatter.fork().step_kept(token) for formatter in formatters]
        assert kept[1] is None
        for formatter in formatters:
            formatter.accept_token(token)
        bitmask.fill_batch(formatters, rows)
        found = [set(bitmask.allowed_ids(row)) for row in rows]
        assert found[0] == set(formatters[0].allowed_tokens())
        assert found[1] == expected(formatters[0]) < found[0]


def test_the_option_is_kept_and_checked() -> None:
    compiled = Compiler(VOCABULARY).compile(FORMATS["schema"])
    longest = compiled.with_forced_text("longest")
    assert longest.with_forced_text("longest") is longest
    assert longest.within(60).forced_text == "longest"
    assert compiled.within(60).with_forced_text("longest").max_tokens == 60
    assert longest.with_forced_text("exact").formatter().allowed_tokens() == compiled.formatter().allowed_tokens()
    with pytest.raises(InvalidArgument, match="forced_text"):
        compiled.with_forced_text("canonical")  # type: ignore[arg-type]


def test_another_engine_gives_all_tokens() -> None:
    pytest.importorskip("kbnf", reason="the package kbnf is not installed")
    compiled = Compiler(VOCABULARY, engine="kbnf").compile(formats.choice(["name"]))
    assert compiled.with_forced_text("longest").formatter().allowed_tokens() == compiled.formatter().allowed_tokens()


def test_masks_of_certain_text_are_no_wider_than_a_row() -> None:
    longest = Compiler(VOCABULARY).compile(FORMATS["text"]).with_forced_text("longest").formatter()
    row = np.zeros(VOCABULARY.words, dtype=np.int32)
    longest.fill_bitmask(row)
    assert [VOCABULARY.tokens[token] for token in bitmask.allowed_ids(row)] == [b'{"name']
