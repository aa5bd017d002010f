"""Errors are values: they travel between processes with their message and their facts."""

from __future__ import annotations

import copy
import pickle

import pytest

from formatter_core import errors

SAMPLES = [
    errors.InvalidFormat("wrong"),
    errors.InvalidArgument("max_tokens is 0; give a number from 1", argument="max_tokens"),
    errors.InvalidGrammar("wrong", line=1, column=2),
    errors.InvalidRegex("wrong", pattern="a(", position=1),
    errors.InvalidSchema("wrong", pointer="/a", keyword="type"),
    errors.UnsupportedSchema("not exact", pointer="/a", keyword="format"),
    errors.UnsatisfiableSchema("empty", pointer="/a"),
    errors.UnsupportedByEngine("no", engine="kbnf", node="Token"),
    errors.UnsupportedFormat("no", server="some server"),
    errors.UnsupportedLayout("there is no layout x"),
    errors.BudgetTooSmall(3, 9),
    errors.LimitExceeded("work", 10, "this"),
    errors.InvalidVocabulary("twice", token_id=3),
    errors.EngineUnavailable("native", ["install it"]),
    errors.EngineFailed("native", "index out of bounds"),
    errors.UnsupportedEngineVersion("engine", found="1", needed=">= 2", missing="hook"),
    errors.TokenRejected(5, position=2, reason="not allowed"),
    errors.TokenRejected(None, position=2, reason="not allowed"),
    errors.MalformedAnswer("it has no choices", text="{}"),
    errors.DeadEnd(b"ab", "'c'"),
    errors.NoExactSample(1000, 1e-9),
    errors.NoParticleLeft(32),
    errors.NoTokenLeft(b"ab"),
    errors.MaskOverridden(3),
    errors.PromptTooLong(5, 4),
    errors.QueueFull(16),
    errors.QueueFull(16, wait_seconds=12.5),
    errors.InvalidBitmask("not int32"),
    errors.BitmaskTooNarrow(width=1, needed=2),
    errors.ConcurrentUse("two threads"),
    errors.HookNotCalled("pass it in a list"),
    errors.WrongModel(
        "FormatterFilter", made_for="a tokenizer of 9 ids", found="a model of 3 logits", remedy="make one"
    ),
    errors.HookReused("FormatterLogitsProcessor", "make another one"),
    errors.InvalidValue("the year 0 is out of range", text='{"when": "0000-01-01"}', pointer="/when"),
    errors.IncompleteResult(ended="length", missing="'}'"),
]


@pytest.mark.contract("each error is a FormatterError with its facts as fields")
def test_every_error_is_here_and_in_the_tree() -> None:
    assert {type(error).__name__ for error in SAMPLES} == {*errors.__all__} - {"FormatterError"}
    assert all(isinstance(error, errors.FormatterError) for error in SAMPLES)
    for kind in (errors.InvalidGrammar, errors.InvalidRegex, errors.InvalidSchema):
        assert issubclass(kind, errors.InvalidFormat)
    assert [name for name in errors.__all__ if name not in (errors.__doc__ or "")] == []


def test_a_bad_argument_is_also_a_value_error() -> None:
    with pytest.raises(ValueError, match="max_tokens"):
        raise errors.InvalidArgument("max_tokens is 0; give a number from 1", argument="max_tokens")


@pytest.mark.parametrize("error", SAMPLES, ids=lambda error: type(error).__name__)
def test_an_error_survives_pickling_and_copying(error: errors.FormatterError) -> None:
    for again in (pickle.loads(pickle.dumps(error)), copy.deepcopy(error)):
        assert type(again) is type(error)
        assert str(again) == str(error)
        assert vars(again) == vars(error)
