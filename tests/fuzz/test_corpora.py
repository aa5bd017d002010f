"""Inputs that a search by coverage has found, and those that were findings once, replayed with the plain library."""

from __future__ import annotations

import pytest

from tests.fuzz.corpus import read_corpus
from tests.fuzz.seeds import seeds
from tests.fuzz.targets import TARGETS

#: Inputs of one test.
PART = 100


@pytest.mark.parametrize(
    ("target", "begin"),
    [(target, begin) for target in TARGETS for begin in range(0, max(1, len(read_corpus(target))), PART)],
)
def test_kept_inputs_break_nothing(target: str, begin: int) -> None:
    for one in read_corpus(target)[begin : begin + PART]:
        TARGETS[target](one)


@pytest.mark.parametrize("target", TARGETS)
def test_the_beginnings_of_a_search_break_nothing(target: str) -> None:
    for one in seeds(target):
        TARGETS[target](one)
