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
from tests.sampling import sampled

#: Nothing is kept for long.
SMALL_CACHE: dict[str, Any] = {"limits": Limits(cache_bytes=4096)}
LARGE_VOCABULARY: dict[str, Any] = {"walks": 1, "length": 4, "vocabulary": 7}


@pytest.mark.parametrize(
    ("engine", "seeds", "options", "share"),
    sampled(
        [
            (NativeEngine, range(40), {}, 1.0),
            (NativeEngine, range(9000, 9015), SMALL_CACHE, 1.0),
            (NativeEngine, range(5000, 5006), LARGE_VOCABULARY, 0.8),
            (KbnfEngine, range(20), {}, 0.8),
            (NativeEngine, range(40, 80), {}, 1.0),
            (NativeEngine, range(9015, 9030), SMALL_CACHE, 1.0),
            (NativeEngine, range(5006, 5012), LARGE_VOCABULARY, 0.8),
            (KbnfEngine, range(20, 80), {}, 0.85),
        ],
        4,
    ),
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
        assert report.share("ambiguous") > 0.25
