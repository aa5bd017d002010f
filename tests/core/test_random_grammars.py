"""The grammar engines beside the oracle, on random grammars and vocabularies; `dev.py compare` takes more of them."""

from __future__ import annotations

from typing import Any

import pytest

from formatter_core.engine.kbnf.engine import KbnfEngine
from formatter_core.engine.native import NativeEngine
from formatter_core.limits import Limits
from formatter_core.testing.compare import compare
from formatter_core.testing.oracle import OracleEngine
from formatter_core.testing.random_grammars import large_vocabulary


@pytest.mark.parametrize(
    ("engine", "seeds", "options", "share"),
    [
        (NativeEngine, range(80), {}, 1.0),
        (NativeEngine, range(9000, 9030), {"limits": Limits(cache_bytes=4096)}, 1.0),  # nothing is kept for long
        (NativeEngine, range(5000, 5012), {"walks": 1, "length": 4, "vocabulary": 7}, 0.8),  # a large vocabulary
        (KbnfEngine, range(80), {}, 0.85),
    ],
    ids=["native", "native, a small cache", "native, a large vocabulary", "kbnf"],
)
def test_random_grammars_give_the_oracles_answers(engine: Any, seeds: range, options: Any, share: float) -> None:
    if engine is KbnfEngine and not engine.available():
        pytest.skip(f"the engine {engine.name} is not installed")
    if "vocabulary" in options:
        options = {**options, "vocabulary": large_vocabulary(options["vocabulary"])}
    report = compare(OracleEngine(), engine(), seeds, **options)
    assert not report.differences, str(report.differences[0])
    assert report.grammars >= share * report.cases, report.summary()
    if not options:
        assert report.share("recursive") > 0.5
        assert report.share("ambiguous") > 0.3
