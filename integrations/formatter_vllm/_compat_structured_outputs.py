"""What the structured-outputs backend needs from vLLM: four functions are wrapped, once their signatures are known."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from importlib import import_module
from typing import Any

from formatter_core.errors import FormatterError
from formatter_vllm._compat_signatures import MANAGER, PARAMETERS, REQUEST, TYPES, check_signatures

__all__ = ["BACKEND", "GRAMMAR", "add_backend", "has_reasoning_parser", "structured_outputs_of"]

#: How vLLM calls the backend that nobody chose; then it is ours.
_UNCHOSEN = "auto"
_NAME = "formatter"
#: From this number of requests on, one call for all masks costs less than one call for each.
_TOGETHER = 4
#: Options of a request's structured outputs that another backend has.
_OPTIONS = ("disable_any_whitespace", "disable_additional_properties", "whitespace_pattern")


check_signatures()
BACKEND: Any = import_module(TYPES).StructuredOutputBackend
GRAMMAR: Any = import_module(TYPES).StructuredOutputGrammar
_key_of = import_module(REQUEST).get_structured_output_key


def has_reasoning_parser(config: Any) -> bool:
    """Whether vLLM separates reasoning from answers, by its configuration of structured outputs."""
    return bool(getattr(config, "reasoning_parser", ""))


def structured_outputs_of(config: Any, parameters: Any) -> tuple[str, str, bool] | None:
    """The kind of a request's structured outputs, what goes with it, and whether they stand behind reasoning.

    None where they are not ours to keep.
    """
    wanted = getattr(parameters, "structured_outputs", None)
    if wanted is None or config is None or config.backend != _UNCHOSEN:
        return None
    kind, specification = _key_of(wanted)
    return kind.name, specification, has_reasoning_parser(config)


def add_backend(backend: Any, check_request: Callable[[str, str, bool, Any], None]) -> None:
    """Serve structured outputs by a backend where no other was chosen by name. You may call it again.

    Args:
        backend: a class of vLLM's `StructuredOutputBackend`, which has `fill_bitmasks` too, and its grammars
            `fill_reasoning`.
        check_request: raises what is wrong with what `structured_outputs_of` gives, and with the other parameters.
    """
    manager: Any = import_module(MANAGER).StructuredOutputManager
    parameters: Any = import_module(PARAMETERS).SamplingParams
    invalid: type[Exception] = getattr(import_module("vllm.exceptions"), "VLLMValidationError", ValueError)
    begin, mask = inspect.unwrap(manager.grammar_init), inspect.unwrap(manager.grammar_bitmask)
    fill_rows = inspect.unwrap(manager._fill_bitmasks)
    validate = inspect.unwrap(parameters._validate_structured_outputs)

    @functools.wraps(begin)
    def grammar_init(self: Any, request: Any) -> None:
        wanted = getattr(request.sampling_params, "structured_outputs", None)
        if self.backend is None and wanted is not None and wanted._backend == _NAME:
            size = self.vllm_config.model_config.get_vocab_size()
            self.backend = backend(self.vllm_config, tokenizer=self.tokenizer, vocab_size=size)
        begin(self, request)

    @functools.wraps(mask)
    def grammar_bitmask(
        self: Any, requests: Any, structured_output_request_ids: Any, scheduled_spec_decode_tokens: Any
    ) -> Any:
        """The masks of a step in one call, where there are no drafts."""
        ids = structured_output_request_ids
        tensor, fill = self._grammar_bitmask, getattr(self.backend, "fill_bitmasks", None)
        if tensor is None or scheduled_spec_decode_tokens or len(ids) < _TOGETHER or fill is None:
            return mask(self, requests, ids, scheduled_spec_decode_tokens)
        rows = tensor.numpy()[: len(ids)]
        wanted = [requests[request_id] for request_id in ids]
        grammars = [request.structured_output_request.grammar for request in wanted]
        reasons = self.reasoner_cls is not None
        free = [n for n, one in enumerate(wanted) if reasons and self._get_constraint_bounds(one, ()).constraint_start]
        fill(grammars, rows, free)
        return rows

    @functools.wraps(fill_rows)
    def fill_bitmasks(self: Any, batch: Any) -> None:
        """Rows of requests that still reason have a mask of ours, too, where the grammar is ours."""
        for grammar, number, is_constrained in batch:
            fill_rows(self, ((grammar, number, is_constrained),))
            if not is_constrained and (fill := getattr(grammar, "fill_reasoning", None)) is not None:
                fill(self._grammar_bitmask[number].numpy())

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
        wanted._backend, wanted._backend_was_auto = _NAME, True

    manager.grammar_init, manager.grammar_bitmask, manager._fill_bitmasks = grammar_init, grammar_bitmask, fill_bitmasks
    parameters._validate_structured_outputs = validate_structured_outputs
