"""Model Runner V2 on a CPU: its Triton kernels run in Triton's interpreter.

vLLM asks for a Triton backend for CPUs, of which no package is published; a stand-in that only says that it is active
is enough, since the interpreter compiles nothing.
"""

from __future__ import annotations

import os
import types
from typing import Any


def interpret_triton() -> None:
    """Call this before vLLM or Triton is imported."""
    os.environ["TRITON_INTERPRET"] = "1"
    from triton.backends import backends
    from triton.runtime import interpreter

    backends["cpu"] = types.SimpleNamespace(driver=_Driver, compiler=None)
    _take_masks_as_booleans(interpreter)


class _Driver:
    """Answers the questions that a driver is asked before the first kernel."""

    @staticmethod
    def is_active() -> bool:
        return True

    def get_current_device(self) -> int:
        return 0

    def get_current_stream(self, device: int | None = None) -> int:
        return 0

    def get_current_target(self) -> Any:
        return types.SimpleNamespace(backend="cpu", arch="cpu", warp_size=1)

    def get_active_torch_device(self) -> Any:
        import torch

        return torch.device("cpu")


def _take_masks_as_booleans(interpreter: Any) -> None:
    """The interpreter takes no masks but those of booleans, and the kernels make others by arithmetic."""
    builder = interpreter.InterpreterBuilder
    load, store = builder.create_masked_load, builder.create_masked_store

    def boolean(mask: Any) -> Any:
        if mask is not None and mask.data.dtype != bool:
            mask.data = mask.data.astype(bool)
        return mask

    def masked_load(self: Any, ptrs: Any, mask: Any, other: Any, cache_policy: Any, is_volatile: Any) -> Any:
        return load(self, ptrs, boolean(mask), other, cache_policy, is_volatile)

    def masked_store(self: Any, ptrs: Any, value: Any, mask: Any, cache_policy: Any) -> Any:
        return store(self, ptrs, value, boolean(mask), cache_policy)

    builder.create_masked_load = masked_load
    builder.create_masked_store = masked_store
