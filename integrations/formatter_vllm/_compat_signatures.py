"""The internal names of vLLM that the structured-outputs backend needs, and what must be the same in every release."""

from __future__ import annotations

import inspect
from importlib import import_module
from typing import Any

from formatter_core.errors import UnsupportedEngineVersion

__all__ = ["MANAGER", "PARAMETERS", "REQUEST", "TYPES", "check_signatures"]

TYPES = "vllm.v1.structured_output.backend_types"
MANAGER = "vllm.v1.structured_output"
REQUEST = "vllm.v1.structured_output.request"
PARAMETERS = "vllm.sampling_params"

#: Module, name, and its parameters as vLLM 0.31 to 0.33 have them.
_SIGNATURES = {
    (TYPES, "StructuredOutputBackend"): "vllm_config tokenizer vocab_size",
    (TYPES, "StructuredOutputBackend.compile_grammar"): "self request_type grammar_spec stop_token_ids",
    (TYPES, "StructuredOutputBackend.allocate_token_bitmask"): "self max_num_seqs",
    (TYPES, "StructuredOutputBackend.destroy"): "self",
    (TYPES, "StructuredOutputGrammar.accept_tokens"): "self request_id tokens",
    (TYPES, "StructuredOutputGrammar.validate_tokens"): "self tokens",
    (TYPES, "StructuredOutputGrammar.rollback"): "self num_tokens",
    (TYPES, "StructuredOutputGrammar.fill_bitmask"): "self bitmask batch_index",
    (TYPES, "StructuredOutputGrammar.is_terminated"): "self",
    (TYPES, "StructuredOutputGrammar.reset"): "self",
    (MANAGER, "StructuredOutputManager.grammar_init"): "self request",
    (MANAGER, "StructuredOutputManager._fill_bitmasks"): "self batch",
    (
        MANAGER,
        "StructuredOutputManager.grammar_bitmask",
    ): "self requests structured_output_request_ids scheduled_spec_decode_tokens",
    (MANAGER, "StructuredOutputManager._get_constraint_bounds"): "self request spec_tokens spec_tokens_committed",
    (REQUEST, "get_structured_output_key"): "params",
    (
        PARAMETERS,
        "SamplingParams._validate_structured_outputs",
    ): "self model_config structured_outputs_config tokenizer",
}


def check_signatures() -> None:
    """Refuse a vLLM whose names or parameters are other ones.

    Raises:
        UnsupportedEngineVersion: which.
    """
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
