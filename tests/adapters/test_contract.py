"""Each adapter against the contract; a case that cannot happen in an engine is skipped with the reason."""

from __future__ import annotations

from collections.abc import Iterator
from importlib import import_module

import pytest

from tests.adapters.contract import AdapterContract
from tests.adapters.cursor_sessions import CursorSession

pytestmark = pytest.mark.usefixtures("no_error_says_anything_twice")


class TestCursor(AdapterContract):
    session = CursorSession


class _OnStandIns(AdapterContract):
    """Imports the adapter on the stand-ins of a release, and its session after that."""

    engine: str
    name: str
    release = ""
    needs_torch = True

    @pytest.fixture(autouse=True)
    def provide(self) -> Iterator[None]:
        if self.needs_torch:
            pytest.importorskip("torch", reason=f"the adapter of {self.engine} needs torch")
        stand_ins = import_module(f"tests.adapters.{self.engine}_stand_ins")
        with getattr(stand_ins, f"{self.engine}_of")(self.release):
            self.session = getattr(import_module(f"tests.adapters.{self.engine}_sessions"), self.name)
            yield


class TestTransformers(AdapterContract):
    @pytest.fixture(autouse=True)
    def provide(self) -> None:
        pytest.importorskip("torch", reason="the transformers adapter needs torch")
        from tests.adapters.transformers_sessions import TransformersSession

        self.session = TransformersSession


class TestVllmBatch(_OnStandIns):
    engine, release, name = "vllm", "0.31", "BatchSession"


class TestVllmSlots(_OnStandIns):
    engine, release, name = "vllm", "0.31", "SlotSession"


class TestVllmRequest(_OnStandIns):
    engine, release, name = "vllm", "0.31", "RequestSession"


class _TestLlamaCpp(_OnStandIns):
    engine, release, needs_torch = "llama_cpp", "0.3.36", False


class TestLlamaCppOfOldReleases(_TestLlamaCpp):
    name = "ListCalledSession"


class TestLlamaCpp(_TestLlamaCpp):
    name = "ProcessorSession"


class TestLlamaCppSampler(_TestLlamaCpp):
    name = "SamplerSession"


class TestExllamav3(_OnStandIns):
    engine, release, name = "exllamav3", "1.4.1", "FilterSession"


class TestExllamav3InTheMainThread(_OnStandIns):
    engine, release, name = "exllamav3", "1.4.1", "ForegroundSession"


class TestExllamav3WithDenseMasks(_OnStandIns):
    engine, release, name = "exllamav3", "0.0.5", "DenseMasksSession"


class TestExLlamaV2Sets(_OnStandIns):
    engine, release, name = "exllamav2", "0.2.0", "FilterSession"


class TestExLlamaV2Lists(_OnStandIns):
    engine, release, name = "exllamav2", "0.2.3", "FilterSession"


class TestExLlamaV2Masks(_OnStandIns):
    engine, release, name = "exllamav2", "0.3.2", "FilterSession"


class TestMlxSequence(_OnStandIns):
    engine, name, needs_torch = "mlx", "SequenceSession", False


class TestMlxBatch(_OnStandIns):
    engine, name, needs_torch = "mlx", "BatchSession", False


class TestSglang(_OnStandIns):
    engine, name = "sglang", "GrammarSession"
