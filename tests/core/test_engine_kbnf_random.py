"""The grammar engine on the kbnf package beside the oracle, on random grammars and vocabularies."""

from __future__ import annotations

import pytest

from formatter_core.engine.kbnf.engine import KbnfEngine
from formatter_core.testing.compare import compare
from formatter_core.testing.oracle import OracleEngine

pytestmark = pytest.mark.skipif(not KbnfEngine.available(), reason="the kbnf package is not installed")


def test_random_grammars_give_the_oracles_answers():
    report = compare(OracleEngine(), KbnfEngine(), range(200))
    assert not report.differences, str(report.differences[0])
    assert report.grammars > 0.85 * report.cases, report.summary()
    assert report.share("recursive") > 0.5
    assert report.share("ambiguous") > 0.3
