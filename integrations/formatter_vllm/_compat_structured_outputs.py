"""The structured-outputs backend's access to vLLM: its classes, its configuration and the fields of a request."""

from __future__ import annotations

from importlib import import_module
from typing import Any

__all__ = [
    "MANAGER",
    "NAME",
    "PARAMETERS",
    "UNCHOSEN",
    "grammar_of",
    "has_reasoning_parser",
    "implicit_reasoning_ends",
    "interfaces",
    "structured_outputs_of",
]

#: vLLM's name for a backend that was not chosen; then this backend serves.
UNCHOSEN = "auto"
#: The name of this backend in checked requests.
NAME = "formatter"

MANAGER = "vllm.v1.structured_output"
PARAMETERS = "vllm.sampling_params"


def interfaces() -> tuple[Any, Any]:
    """Return vLLM's base classes of backends and of grammars."""
    types: Any = import_module(f"{MANAGER}.backend_types")
    return types.StructuredOutputBackend, types.StructuredOutputGrammar


def has_reasoning_parser(config: Any) -> bool:
    """Tell whether vLLM separates reasoning from answers, by its configuration of structured outputs."""
    return bool(getattr(config, "reasoning_parser", ""))


def implicit_reasoning_ends(config: Any, tokenizer: Any) -> frozenset[int]:
    """Return the ids that end reasoning and belong to the answer, such as that of `<tool_call>`; none if unknown.

    Args:
        config: vLLM's configuration of structured outputs.
    """
    if not has_reasoning_parser(config):
        return frozenset()
    try:
        reasoner = import_module("vllm.reasoning").ReasoningParserManager.get_reasoning_parser(config.reasoning_parser)
        reads = reasoner(tokenizer)
        close = tokenizer.encode(reads.reasoning_end_str, add_special_tokens=False)
        return frozenset(reads.reasoning_end_token_ids) - set(close)
    except Exception:  # noqa: BLE001 - most parsers end reasoning at its own marker alone, and name no ids
        return frozenset()


def structured_outputs_of(config: Any, parameters: Any) -> tuple[str, str, bool] | None:
    """Return the kind of a request's structured outputs, their specification, and whether they follow reasoning.

    None if this backend does not serve them.
    """
    wanted = getattr(parameters, "structured_outputs", None)
    if wanted is None or config is None or config.backend != UNCHOSEN:
        return None
    kind, specification = import_module(f"{MANAGER}.request").get_structured_output_key(wanted)
    return kind.name, specification, has_reasoning_parser(config)


def grammar_of(parameters: Any) -> str | None:
    """Return the field `grammar` of the request's structured outputs."""
    found = getattr(getattr(parameters, "structured_outputs", None), "grammar", None)
    return found if isinstance(found, str) else None
