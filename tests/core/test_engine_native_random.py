"""The native engine beside the oracle, on random grammars: with small random vocabularies, and with a large one."""

from __future__ import annotations

import itertools
import os
import random

import pytest

from formatter_core.engine.native import NativeEngine
from formatter_core.testing.compare import Report, compare, compare_case
from formatter_core.testing.oracle import OracleEngine
from formatter_core.testing.random_grammars import Case, random_case
from formatter_core.vocabulary import Vocabulary

pytestmark = pytest.mark.skipif(not NativeEngine.available(), reason="the native library is not built")


# How many grammars are compared; 20,000 take some minutes.
GRAMMARS = int(os.environ.get("FORMATTER_RANDOM_GRAMMARS", "200"))


def test_random_grammars_give_the_oracles_answers() -> None:
    report = compare(OracleEngine(), NativeEngine(), range(GRAMMARS))
    assert not report.differences, str(report.differences[0])
    assert report.grammars == report.cases, report.summary()


def large_vocabulary() -> Vocabulary:
    """So many tokens that those which cross a terminal's end are looked at by classes of terminals in a row."""
    rng = random.Random(7)
    tokens = [bytes(token) for length in range(1, 5) for token in itertools.product(b"ab,1", repeat=length)]
    letters = ["a", "b", "c", "1", ",", '"', "[", "]", "é", "😀", "一"]
    for _ in range(700):
        text = "".join(rng.choice(letters) for _ in range(rng.randint(1, 9))).encode()
        tokens.append(text[rng.randint(0, 2) :][: rng.randint(1, 12)])
    tokens += [b"a" * length for length in (9, 17, 33, 70)]
    return Vocabulary([*tokens, b"</s>"], [len(tokens)])


def test_random_grammars_with_a_large_vocabulary() -> None:
    report = Report()
    vocabulary = large_vocabulary()
    for seed in range(5000, 5012):
        case = Case(seed, random_case(seed).grammar, vocabulary)
        compare_case(OracleEngine(), NativeEngine(), case, report, walks=1, length=4)
    assert not report.differences, str(report.differences[0])
    assert report.grammars > 9, report.summary()
