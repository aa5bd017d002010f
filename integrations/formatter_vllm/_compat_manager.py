"""The functions of vLLM that the structured-outputs backend wraps; `_compat_probe` tries them."""

from __future__ import annotations

import functools
from collections.abc import Callable
from importlib import import_module
from typing import Any

from formatter_core.errors import FormatterError
from formatter_vllm._compat_structured_outputs import MANAGER, NAME, PARAMETERS, UNCHOSEN, structured_outputs_of
from formatter_vllm.vocabulary import logger

__all__ = ["MARK", "add_backend", "original", "remove_backend"]

#: From this number of requests on, one call for all masks costs less than one call for each.
_TOGETHER = 4
#: Options of a request's structured outputs that another backend has.
_OPTIONS = ("disable_any_whitespace", "disable_additional_properties", "whitespace_pattern")

#: An attribute that only wrapped functions have: what they wrap.
MARK = "formatter_wraps"

_WRAPPED = (
    (MANAGER, "StructuredOutputManager", ("grammar_init", "grammar_bitmask", "_fill_bitmasks")),
    (PARAMETERS, "SamplingParams", ("_validate_structured_outputs",)),
)


def add_backend(backend: Any, check_request: Callable[[str, str, bool, Any], None]) -> None:
    """Serve structured outputs by a backend where no other was chosen by name. You may call it again.

    A manager with an attribute `formatter_backend` uses that class instead.

    Args:
        backend: a class of vLLM's `StructuredOutputBackend`, which has `fill_bitmasks` too, and its grammars
            `mask_reasoning`.
        check_request: raises what is wrong with what `structured_outputs_of` gives, and with the other parameters.
    """
    manager: Any = import_module(MANAGER).StructuredOutputManager
    parameters: Any = import_module(PARAMETERS).SamplingParams
    invalid: type[Exception] = getattr(import_module("vllm.exceptions"), "VLLMValidationError", ValueError)
    begin, mask, fill_rows = map(original, (manager.grammar_init, manager.grammar_bitmask, manager._fill_bitmasks))
    validate = original(parameters._validate_structured_outputs)

    @functools.wraps(begin)
    def grammar_init(self: Any, request: Any) -> None:
        wanted = getattr(request.sampling_params, "structured_outputs", None)
        if wanted is not None and wanted._backend != NAME:
            _say_not_chosen(self.vllm_config, wanted._backend)
        if self.backend is None and wanted is not None and wanted._backend == NAME:
            size = self.vllm_config.model_config.get_vocab_size()
            kind = getattr(self, "formatter_backend", backend)
            self.backend = kind(self.vllm_config, tokenizer=self.tokenizer, vocab_size=size)
            self.backend_name = NAME  # from 0.33 on: the only one that this engine takes
        begin(self, request)

    @functools.wraps(mask)
    def grammar_bitmask(
        self: Any,
        requests: Any,
        structured_output_request_ids: Any,
        scheduled_spec_decode_tokens: Any,
        *others: Any,
        **named: Any,
    ) -> Any:
        """The masks of a step in one call, where there are no drafts: vLLM says which rows are whose."""
        arguments = (requests, structured_output_request_ids, scheduled_spec_decode_tokens, *others)
        fill = getattr(self.backend, "fill_bitmasks", None)
        if fill is None or scheduled_spec_decode_tokens or len(structured_output_request_ids) < _TOGETHER:
            return mask(self, *arguments, **named)
        rows: list[tuple[Any, int]] = []
        self.formatter_rows = rows
        try:
            masks = mask(self, *arguments, **named)
        finally:
            self.formatter_rows = None
        if rows:
            fill([grammar for grammar, _ in rows], self._grammar_bitmask.numpy(), [number for _, number in rows])
        return masks

    @functools.wraps(fill_rows)
    def fill_bitmasks(self: Any, batch: Any) -> None:
        """Rows are kept for one call; those of requests that still reason have a mask of ours on top of vLLM's."""
        rows = getattr(self, "formatter_rows", None)
        for entry in batch:  # the first three of it are the same in every release
            grammar, number, is_constrained, *_ = entry
            reason = getattr(grammar, "mask_reasoning", None)
            if rows is not None and is_constrained and reason is not None:
                rows.append((grammar, number))
                continue
            fill_rows(self, (entry,))
            if not is_constrained and reason is not None:
                reason(self._grammar_bitmask[number].numpy())

    @functools.wraps(validate)
    def validate_structured_outputs(
        self: Any, model_config: Any, structured_outputs_config: Any, tokenizer: Any
    ) -> None:
        wanted = self.structured_outputs
        found = structured_outputs_of(structured_outputs_config, self)
        if found is None or getattr(model_config, "is_diffusion", False) or tokenizer is None:
            validate(self, model_config, structured_outputs_config, tokenizer)
            return
        if unknown := [name for name in _OPTIONS if getattr(wanted, name, None)]:
            raise invalid(f"{', '.join(unknown)}: formatter-core has no such option; leave it out")
        try:
            check_request(*found, self)
        except FormatterError as error:
            raise invalid(str(error)) from None
        wanted._backend, wanted._backend_was_auto = NAME, True

    for own, theirs in (
        (grammar_init, begin),
        (grammar_bitmask, mask),
        (fill_bitmasks, fill_rows),
        (validate_structured_outputs, validate),
    ):
        setattr(own, MARK, theirs)
    manager.grammar_init, manager.grammar_bitmask, manager._fill_bitmasks = grammar_init, grammar_bitmask, fill_bitmasks
    parameters._validate_structured_outputs = validate_structured_outputs


@functools.cache
def _say_once(message: str, *values: object) -> None:
    logger.warning(message, *values)


def _say_not_chosen(config: Any, chosen: object) -> None:
    """Say once that a request came past the check that gives it to our backend, as from a front end that has none."""
    if getattr(getattr(config, "structured_outputs_config", None), "backend", None) == UNCHOSEN:
        _say_once(
            "a request came with the backend %r: vLLM's front end did not give it to formatter-core, and vLLM's own "
            "backend keeps it",
            chosen,
        )


def remove_backend() -> None:
    """Give vLLM its own functions back."""
    for module, kind, names in _WRAPPED:
        found = getattr(import_module(module), kind, None)
        for name in names:
            if hasattr(getattr(found, name, None), MARK):
                setattr(found, name, original(getattr(found, name)))


def original(function: Any) -> Any:
    """vLLM's own function, where this one is ours around it."""
    return getattr(function, MARK, function)
