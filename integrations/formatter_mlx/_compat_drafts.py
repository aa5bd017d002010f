"""Detection of the model whose step of mlx-lm's speculative decoding calls a processor."""

from __future__ import annotations

import importlib
import sys
from types import FrameType
from typing import Any

__all__ = ["stepping_model"]

_SPECULATIVE = importlib.import_module("mlx_lm.generate").speculative_generate_step.__code__
_STEP = next((one for one in _SPECULATIVE.co_consts if getattr(one, "co_name", "") == "_step"), None)


def stepping_model() -> Any:
    """Return the model of the step that the caller is part of, draft or main; None outside of these steps."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and frame.f_code is not _STEP:
        frame = frame.f_back
    return None if frame is None else frame.f_locals.get("model")
