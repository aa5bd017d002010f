"""Each adapter against the contract; a case that cannot happen in an engine is skipped with the reason."""

from __future__ import annotations

import pytest

pytest.register_assert_rewrite("tests.adapters.contract")

from tests.adapters.contract import AdapterContract  # noqa: E402
from tests.adapters.cursor_harness import CursorHarness  # noqa: E402


class TestCursor(AdapterContract):
    harness = CursorHarness()


class TestTransformers(AdapterContract):
    @pytest.fixture(autouse=True)
    def provide(self) -> None:
        pytest.importorskip("torch", reason="the transformers adapter needs torch")
        from tests.adapters.transformers_harness import TransformersHarness

        self.harness = TransformersHarness()
