"""The hook: a logits processor for the V1 model runner and for Model Runner V2."""

from __future__ import annotations

from typing import Any

import torch

from formatter_core.errors import FormatterError, InvalidArgument
from formatter_vllm import _compat, _compat_parameters
from formatter_vllm.batch_rows import BatchRows
from formatter_vllm.compilers import RequestCompiler, check_content, compiler_of
from formatter_vllm.constraints import Constraints
from formatter_vllm.failures import CountingFailureLog
from formatter_vllm.figures import SHORTENED, MaskTimer, add
from formatter_vllm.masks import NO_DRAFTS, StepMasks
from formatter_vllm.request_slots import RequestSlots
from formatter_vllm.requests import content_of, is_to_fit
from formatter_vllm.structured_outputs import refuse_what_is_off
from formatter_vllm.vocabulary import create_vocabulary, logger

__all__ = ["FormatterLogitsProcessor"]


class FormatterLogitsProcessor(*_compat.interfaces()):  # type: ignore[misc]
    """A logits processor that allows each request with a format only the tokens that the format allows next.

    Pass the class to vLLM, which makes the objects: `LLM(logits_processors=[FormatterLogitsProcessor])` or
    `--logits-processors formatter_vllm:FormatterLogitsProcessor`. A request sets its format by
    `SamplingParams(extra_args=create_extra_args(format))`, or `vllm_xargs` over HTTP.

    Requests are checked when they come in. After that nothing raises: a request that cannot continue is forced to stop,
    and the cause is logged and counted in `failures`.
    """

    def __init__(self, vllm_config: Any, device_or_states: Any, is_pin_memory: bool | None = None) -> None:
        """Create the processor; vLLM passes the device and a flag (V1), or the states of its request slots (V2)."""
        self._compiler, unusable = _compiler(vllm_config)
        self._constraints = Constraints(self._compiler, unusable)
        self._rows = BatchRows(self._constraints, _compat.unknown_tokens_reason(vllm_config))
        self._slots = RequestSlots(self._constraints, device_or_states)
        self._masks = StepMasks(0 if self._compiler is None else len(self._compiler.vocabulary))
        self._failures = CountingFailureLog(logger)

    @property
    def failures(self) -> int:
        """The number of requests that were aborted because their format failed."""
        return self._failures.count

    @classmethod
    def validate_params(cls, sampling_params: Any) -> None:
        """Refuse a request whose format has a fault, when it comes in.

        Raises:
            ValueError: with the message of the error; vLLM answers with HTTP 400.
        """
        try:
            content = content_of(_compat_parameters.arguments_of(sampling_params))
            if content is None:
                refuse_what_is_off(sampling_params)
                return
            reason = _compat_parameters.reason_to_refuse(sampling_params, fits=is_to_fit(content))
            if reason is not None:
                raise InvalidArgument(reason)
            check_content(content, _compat_parameters.max_tokens_of(sampling_params))
        except FormatterError as error:
            raise ValueError(str(error)) from None
        except Exception as error:
            # Whatever it is, it must stay this request's fault.
            logger.exception("a format could not be checked")
            raise ValueError(f"the format could not be checked: {error!r}") from error

    def is_argmax_invariant(self) -> bool:
        """Return False: a mask can change which token is the most likely."""
        return False

    def update_state(self, batch_update: Any) -> None:
        """Update the batch after rows were removed, added or moved (V1)."""
        self._rows.update(batch_update)

    def add_request(self, req_idx: int, sampling_params: Any) -> bool:
        """Add a request in a slot; return whether it has a format (V2)."""
        return self._slots.add(req_idx, sampling_params)

    def apply_staged_writes(self) -> None:
        """Apply the staged changes before each forward pass (V2)."""
        self._slots.stage()

    def apply(self, logits: torch.Tensor, ctx: Any = None) -> torch.Tensor:
        """Mask the logits in place: float (rows, width); `ctx` is given by V2 alone."""
        rows, drafts = (
            (self._rows.follow(logits.shape[0]), NO_DRAFTS) if ctx is None else self._slots.follow(ctx, logits.shape[0])
        )
        if rows:
            with MaskTimer():
                self._masks.apply(logits, rows, drafts)
            for row, constraint in rows:
                if constraint.cursor.has_failed:
                    self._failures.report(constraint.cursor, f"request in row {row}", constraint.request_id)
                elif constraint.may_shorten and constraint.cursor.formatter.is_shortened:
                    constraint.may_shorten = False
                    add(SHORTENED)
        return logits


def _compiler(vllm_config: Any) -> tuple[RequestCompiler | None, Exception | None]:
    """Return the compiler for the engine's tokenizer, or the reason why there is none.

    An engine must start nevertheless: it may have loaded this class by its entry point, and serve no formats.
    """
    try:
        tokenizer = _compat.tokenizer_of(vllm_config)
        if tokenizer is None:
            return None, None
        return compiler_of(create_vocabulary(tokenizer, model=vllm_config)), None
    except Exception as error:  # noqa: BLE001 - as above; every request that asks for a format gets the cause
        logger.warning("formatter_vllm cannot serve formats with this tokenizer: %s", error)
        return None, error
