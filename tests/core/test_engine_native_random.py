"""The native engine beside the oracle, on random grammars: with small random vocabularies, and with a large one."""

from __future__ import annotations

import os

import pytest

from formatter_core.engine.native import NativeEngine
from formatter_core.limits import Limits
from formatter_core.testing.compare import compare
from formatter_core.testing.oracle import OracleEngine
from formatter_core.testing.random_grammars import large_vocabulary

pytestmark = pytest.mark.skipif(not NativeEngine.available(), reason="the native library is not built")


# How many grammars are compared; 20,000 take some minutes.
GRAMMARS = int(os.environ.get("FORMATTER_RANDOM_GRAMMARS", "200"))


def test_random_grammars_give_the_oracles_answers() -> None:
    report = compare(OracleEngine(), NativeEngine(), range(GRAMMARS))
    assert not report.differences, str(report.differences[0])
    assert report.grammars == report.cases, report.summary()


def test_random_grammars_where_nothing_is_kept_for_long() -> None:
    report = compare(OracleEngine(), NativeEngine(), range(9000, 9030), limits=Limits(cache_bytes=4096))
    assert not report.differences, str(report.differences[0])
    assert report.grammars == report.cases, report.summary()


def test_random_grammars_with_a_large_vocabulary() -> None:
    report = compare(
        OracleEngine(), NativeEngine(), range(5000, 5012), walks=1, length=4, vocabulary=large_vocabulary(7)
    )
    assert not report.differences, str(report.differences[0])
    assert report.grammars > 9, report.summary()
