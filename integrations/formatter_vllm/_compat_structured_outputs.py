"""What the structured-outputs backend needs of vLLM's internals: their signatures are checked, two of them replaced."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from importlib import import_module
from typing import Any

from formatter_core.errors import FormatterError, UnsupportedEngineVersion

__all__ = ["BACKEND", "GRAMMAR", "replace_guidance"]

_TYPES = "vllm.v1.structured_output.backend_types"
_GUIDANCE = "vllm.v1.structured_output.backend_guidance"
_MANAGER = "vllm.v1.structured_output"
_REQUEST = "vllm.v1.structured_output.request"

#: Module, name, and its parameters as vLLM 0.31 to 0.33 have them.
_SIGNATURES = {
    (_TYPES, "StructuredOutputBackend"): ("vllm_config", "tokenizer", "vocab_size"),
    (_TYPES, "StructuredOutputBackend.compile_grammar"): ("self", "request_type", "grammar_spec", "stop_token_ids"),
    (_TYPES, "StructuredOutputBackend.allocate_token_bitmask"): ("self", "max_num_seqs"),
    (_TYPES, "StructuredOutputBackend.destroy"): ("self",),
    (_TYPES, "StructuredOutputGrammar.accept_tokens"): ("self", "request_id", "tokens"),
    (_TYPES, "StructuredOutputGrammar.validate_tokens"): ("self", "tokens"),
    (_TYPES, "StructuredOutputGrammar.rollback"): ("self", "num_tokens"),
    (_TYPES, "StructuredOutputGrammar.fill_bitmask"): ("self", "bitmask", "batch_index"),
    (_TYPES, "StructuredOutputGrammar.is_terminated"): ("self",),
    (_TYPES, "StructuredOutputGrammar.reset"): ("self",),
    (_GUIDANCE, "validate_guidance_grammar"): ("sampling_params", "tokenizer"),
    (_REQUEST, "get_structured_output_key"): ("params",),
    (_MANAGER, "GuidanceBackend"): ("vllm_config", "tokenizer", "vocab_size"),
}


def _check() -> None:
    for (module, name), needed in _SIGNATURES.items():
        try:
            found: Any = import_module(module)
            for part in name.split("."):
                found = getattr(found, part)
            parameters = tuple(inspect.signature(found).parameters)
        except (ImportError, AttributeError):
            parameters = None
        if parameters != needed:
            raise UnsupportedEngineVersion(
                "vllm",
                found=getattr(import_module("vllm"), "__version__", "of unknown version"),
                needed=">= 0.31, < 0.34",
                missing=f"{module}.{name}({', '.join(needed)})",
            )


_check()
BACKEND: Any = import_module(_TYPES).StructuredOutputBackend
GRAMMAR: Any = import_module(_TYPES).StructuredOutputGrammar


def replace_guidance(backend: Any, check_request: Callable[[str, str, bool], None]) -> None:
    """Put a backend in the place of guidance, and its check of requests in the place of that of guidance."""
    key_of = import_module(_REQUEST).get_structured_output_key
    invalid: type[Exception] = getattr(import_module("vllm.exceptions"), "VLLMValidationError", ValueError)

    def validate_guidance_grammar(sampling_params: Any, tokenizer: Any = None) -> None:
        if sampling_params.structured_outputs is None:
            return
        kind, specification = key_of(sampling_params.structured_outputs)
        try:
            check_request(kind.name, specification, bool(sampling_params.min_tokens))
        except (FormatterError, ValueError) as error:
            raise invalid(str(error)) from error

    guidance: Any = import_module(_GUIDANCE)
    guidance.validate_guidance_grammar = validate_guidance_grammar
    guidance.GuidanceBackend = backend
    manager: Any = import_module(_MANAGER)
    manager.GuidanceBackend = backend
