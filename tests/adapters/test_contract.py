"""Each adapter against the contract; a case that cannot happen in an engine is skipped with the reason."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

pytest.register_assert_rewrite("tests.adapters.contract")

from tests.adapters.contract import AdapterContract, Harness  # noqa: E402
from tests.adapters.cursor_harness import CursorHarness  # noqa: E402

pytestmark = pytest.mark.usefixtures("no_error_says_anything_twice")


class TestCursor(AdapterContract):
    harness = CursorHarness()


class TestTransformers(AdapterContract):
    @pytest.fixture(autouse=True)
    def provide(self) -> None:
        pytest.importorskip("torch", reason="the transformers adapter needs torch")
        from tests.adapters.transformers_harness import TransformersHarness

        self.harness = TransformersHarness()


class _TestVllm(AdapterContract):
    @pytest.fixture(autouse=True)
    def provide(self) -> Iterator[None]:
        pytest.importorskip("torch", reason="the vLLM adapter needs torch")
        from tests.adapters.vllm_stand_ins import vllm_of

        with vllm_of("0.31"):
            self.harness = self.harness_of()
            yield

    def harness_of(self) -> Harness:
        raise NotImplementedError


class TestVllmBatch(_TestVllm):
    def harness_of(self) -> Harness:
        from tests.adapters.vllm_harness import BatchHarness

        return BatchHarness()


class TestVllmSlots(_TestVllm):
    def harness_of(self) -> Harness:
        from tests.adapters.vllm_harness import SlotHarness

        return SlotHarness()


class TestVllmRequest(_TestVllm):
    def harness_of(self) -> Harness:
        from tests.adapters.vllm_harness import RequestHarness

        return RequestHarness()


class _TestLlamaCpp(AdapterContract):
    @pytest.fixture(autouse=True)
    def provide(self) -> Iterator[None]:
        from tests.adapters.llama_cpp_stand_ins import llama_cpp_of

        with llama_cpp_of("0.3.36"):
            self.harness = self.harness_of()
            yield

    def harness_of(self) -> Harness:
        raise NotImplementedError


class TestLlamaCppOfOldReleases(_TestLlamaCpp):
    def harness_of(self) -> Harness:
        from tests.adapters.llama_cpp_harness import LIST_CALLED, ProcessorHarness

        return ProcessorHarness(LIST_CALLED)


class TestLlamaCpp(_TestLlamaCpp):
    def harness_of(self) -> Harness:
        from tests.adapters.llama_cpp_harness import ITERATED, ProcessorHarness

        return ProcessorHarness(ITERATED)


class TestLlamaCppSampler(_TestLlamaCpp):
    def harness_of(self) -> Harness:
        from tests.adapters.llama_cpp_harness import SamplerHarness

        return SamplerHarness()


class _TestExllamav3(AdapterContract):
    @pytest.fixture(autouse=True)
    def provide(self) -> Iterator[None]:
        pytest.importorskip("torch", reason="the ExLlamaV3 adapter needs torch")
        from tests.adapters.exllamav3_stand_ins import exllamav3_of

        with exllamav3_of(self.version):
            from tests.adapters.exllamav3_harness import FilterHarness

            self.harness = FilterHarness(self.version, background=self.background)
            yield

    version: str
    background = True


class TestExllamav3(_TestExllamav3):
    version = "1.4.1"


class TestExllamav3InTheMainThread(_TestExllamav3):
    version = "1.4.1"
    background = False


class TestExllamav3WithDenseMasks(_TestExllamav3):
    version = "0.0.5"


class _TestExLlamaV2(AdapterContract):
    generation: str

    @pytest.fixture(autouse=True)
    def provide(self) -> Iterator[None]:
        pytest.importorskip("torch", reason="the ExLlamaV2 adapter needs torch")
        from tests.adapters.exllamav2_harness import FilterHarness
        from tests.adapters.exllamav2_stand_ins import exllamav2_of

        with exllamav2_of(self.generation):
            self.harness = FilterHarness()
            yield


class TestExLlamaV2Sets(_TestExLlamaV2):
    generation = "0.2.0"


class TestExLlamaV2Lists(_TestExLlamaV2):
    generation = "0.2.3"


class TestExLlamaV2Masks(_TestExLlamaV2):
    generation = "0.3.2"


class _TestMlx(AdapterContract):
    @pytest.fixture(autouse=True)
    def provide(self) -> Iterator[None]:
        from tests.adapters.mlx_stand_ins import mlx_of

        with mlx_of():
            self.harness = self.harness_of()
            yield

    def harness_of(self) -> Harness:
        raise NotImplementedError


class TestMlxSequence(_TestMlx):
    def harness_of(self) -> Harness:
        from tests.adapters.mlx_harness import SequenceHarness

        return SequenceHarness()


class TestMlxBatch(_TestMlx):
    def harness_of(self) -> Harness:
        from tests.adapters.mlx_harness import BatchHarness

        return BatchHarness()


class TestSglang(AdapterContract):
    @pytest.fixture(autouse=True)
    def provide(self) -> Iterator[None]:
        pytest.importorskip("torch", reason="the SGLang adapter needs torch")
        from tests.adapters.sglang_stand_ins import sglang_of

        with sglang_of():
            from tests.adapters.sglang_harness import GrammarHarness

            self.harness = GrammarHarness()
            yield
