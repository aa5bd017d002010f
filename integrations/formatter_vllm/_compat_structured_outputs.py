"""What the structured-outputs backend needs from vLLM: signatures are checked, and three functions wrapped."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from importlib import import_module
from typing import Any

from formatter_core.errors import FormatterError, UnsupportedEngineVersion

__all__ = ["BACKEND", "GRAMMAR", "add_backend", "has_reasoning_parser", "structured_outputs_of"]

_TYPES = "vllm.v1.structured_output.backend_types"
_MANAGER = "vllm.v1.structured_output"
_REQUEST = "vllm.v1.structured_output.request"
_PARAMETERS = "vllm.sampling_params"

#: Module, name, and its parameters as vLLM 0.31 to 0.33 have them.
_SIGNATURES = {
    (_TYPES, "StructuredOutputBackend"): "vllm_config tokenizer vocab_size",
    (_TYPES, "StructuredOutputBackend.compile_grammar"): "self request_type grammar_spec stop_token_ids",
    (_TYPES, "StructuredOutputBackend.allocate_token_bitmask"): "self max_num_seqs",
    (_TYPES, "StructuredOutputBackend.destroy"): "self",
    (_TYPES, "StructuredOutputGrammar.accept_tokens"): "self request_id tokens",
    (_TYPES, "StructuredOutputGrammar.validate_tokens"): "self tokens",
    (_TYPES, "StructuredOutputGrammar.rollback"): "self num_tokens",
    (_TYPES, "StructuredOutputGrammar.fill_bitmask"): "self bitmask batch_index",
    (_TYPES, "StructuredOutputGrammar.is_terminated"): "self",
    (_TYPES, "StructuredOutputGrammar.reset"): "self",
    (_MANAGER, "StructuredOutputManager.grammar_init"): "self request",
    (
        _MANAGER,
        "StructuredOutputManager.grammar_bitmask",
    ): "self requests structured_output_request_ids scheduled_spec_decode_tokens",
    (_MANAGER, "StructuredOutputManager._get_constraint_bounds"): "self request spec_tokens spec_tokens_committed",
    (_REQUEST, "get_structured_output_key"): "params",
    (
        _PARAMETERS,
        "SamplingParams._validate_structured_outputs",
    ): "self model_config structured_outputs_config tokenizer",
}
#: How vLLM calls the backend that nobody chose; then it is ours.
_UNCHOSEN = "auto"
_NAME = "formatter"
#: From this number of requests on, one call for all masks costs less than one call for each.
_TOGETHER = 4
#: Options of a request's structured outputs that another backend has.
_OPTIONS = ("disable_any_whitespace", "disable_additional_properties", "whitespace_pattern")


def _check() -> None:
    for (module, name), needed in _SIGNATURES.items():
        try:
            found: Any = import_module(module)
            for part in name.split("."):
                found = getattr(found, part)
            parameters = " ".join(inspect.signature(found).parameters)
        except (ImportError, AttributeError):
            parameters = ""
        if parameters != needed:
            raise UnsupportedEngineVersion(
                "vllm",
                found=getattr(import_module("vllm"), "__version__", "of unknown version"),
                needed=">= 0.31, < 0.34",
                missing=f"{module}.{name}({needed.replace(' ', ', ')})",
            )


_check()
BACKEND: Any = import_module(_TYPES).StructuredOutputBackend
GRAMMAR: Any = import_module(_TYPES).StructuredOutputGrammar
_key_of = import_module(_REQUEST).get_structured_output_key


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
    """Serve structured outputs by a backend where no other was chosen by name. May be called again.

    Args:
        backend: a class of vLLM's `StructuredOutputBackend`, which has `fill_bitmasks` too.
        check_request: raises what is wrong with what `structured_outputs_of` gives, and with the other parameters.
    """
    manager: Any = import_module(_MANAGER).StructuredOutputManager
    parameters: Any = import_module(_PARAMETERS).SamplingParams
    invalid: type[Exception] = getattr(import_module("vllm.exceptions"), "VLLMValidationError", ValueError)
    begin, mask = inspect.unwrap(manager.grammar_init), inspect.unwrap(manager.grammar_bitmask)
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

    manager.grammar_init, manager.grammar_bitmask = grammar_init, grammar_bitmask
    parameters._validate_structured_outputs = validate_structured_outputs
