"""The class that the entry point `vllm.logits_processors` names; vLLM loads it wherever this package is installed.

It must never keep vLLM from starting. If the hook does not fit this vLLM, a substitute class leaves logits unchanged
and refuses requests that ask for a format.
"""

from __future__ import annotations

import inspect
import logging
from typing import Any

from formatter_vllm.requests import KEY

__all__ = ["EntryPointLogitsProcessor", "choose"]

logger = logging.getLogger("formatter_vllm")


def choose() -> type:
    """Return the hook, or the substitute class if the hook does not fit this vLLM."""
    try:
        return _hook()
    except Exception as error:  # noqa: BLE001 - vLLM must start despite any error
        logger.warning("formatter_vllm does not fit this vLLM and refuses all formats: %s", error)
        return _stand_in(str(error))


def _hook() -> type:
    from formatter_vllm import _compat
    from formatter_vllm.logits_processor import FormatterLogitsProcessor

    class EntryPointLogitsProcessor(FormatterLogitsProcessor):
        """`FormatterLogitsProcessor`, idle where the user named it, or a class derived from it: one mask is enough."""

        def __init__(self, vllm_config: Any, *arguments: Any) -> None:
            self._is_idle = _compat.lists_processor(vllm_config, FormatterLogitsProcessor)
            if not self._is_idle:
                super().__init__(vllm_config, *arguments)

        def update_state(self, batch_update: Any) -> None:
            if not self._is_idle:
                super().update_state(batch_update)

        def add_request(self, req_idx: int, sampling_params: Any) -> bool:
            return not self._is_idle and super().add_request(req_idx, sampling_params)

        def apply_staged_writes(self) -> None:
            if not self._is_idle:
                super().apply_staged_writes()

        def apply(self, logits: Any, ctx: Any = None) -> Any:
            return logits if self._is_idle else super().apply(logits, ctx)

    missing = EntryPointLogitsProcessor.__abstractmethods__ if inspect.isabstract(EntryPointLogitsProcessor) else ()
    if missing:
        raise NotImplementedError(
            f"this vLLM asks for {', '.join(sorted(missing))}, which formatter_vllm does not have"
        )
    return EntryPointLogitsProcessor


def _stand_in(reason: str) -> type:
    try:
        from formatter_vllm import _compat

        bases = _compat.INTERFACES
    except Exception:  # noqa: BLE001 - nothing of this vLLM is known
        bases = ()

    class RefusingLogitsProcessor(*bases):  # type: ignore[misc]
        """A substitute that leaves all logits unchanged and refuses requests that ask for a format."""

        def __init__(self, *arguments: Any) -> None:
            pass

        @classmethod
        def validate_params(cls, sampling_params: Any) -> None:
            if KEY in (getattr(sampling_params, "extra_args", None) or {}):
                raise ValueError(f"this server cannot enforce formats: {reason}")

        def is_argmax_invariant(self) -> bool:
            return True

        def update_state(self, batch_update: Any) -> None:
            pass

        def add_request(self, req_idx: int, sampling_params: Any) -> bool:
            return False

        def apply(self, logits: Any, ctx: Any = None) -> Any:
            return logits

    RefusingLogitsProcessor.__abstractmethods__ = frozenset()
    return RefusingLogitsProcessor


EntryPointLogitsProcessor = choose()
