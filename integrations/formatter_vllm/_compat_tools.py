"""Hooks into vLLM's parsers for tool calls; the parsers turn `tools` and `tool_choice` into structured outputs."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from importlib import import_module
from typing import Any

from formatter_vllm._compat_manager import MARK, original
from formatter_vllm._compat_server import optional_module

__all__ = ["invalid_error", "replace_refusal", "replace_structural_tags", "tool_choice_of", "tools_of"]

_PARAMETER_LEVEL = 2  # ToolStrictLevel.PARAMETER: every tool is strict


def replace_structural_tags(grammar_of: Callable[[str, Any, bool], str | None]) -> bool:
    """Replace the structural tags that parsers request by grammars; return False if that is not possible. This may be
    called again.

    Args:
        grammar_of: gives a grammar for the name of the parser's structural tag, the request, and whether all tools are
            strict.
    """
    parser: Any = getattr(optional_module("vllm.parser.abstract_parser"), "DelegatingParser", None)
    apply: Any = getattr(parser, "_apply_structural_tag", _nothing)
    apply = original(apply)
    if tuple(inspect.signature(apply).parameters) != ("self", "request"):
        return False

    @functools.wraps(apply)
    def apply_structural_tag(self: Any, request: Any) -> Any:
        has_format = request.extract_structured_outputs() is not None  # with calls as the other alternative
        request = apply(self, request)
        made = request.structured_outputs
        if has_format or made is None or made.structural_tag is None or tool_choice_of(request) is None:
            return request
        grammar = grammar_of(self.tool_parser.structural_tag_model, request, _is_strict(self))
        if grammar is not None:
            request.structured_outputs = type(made)(grammar=grammar)
        return request

    setattr(apply_structural_tag, MARK, apply)
    parser._apply_structural_tag = apply_structural_tag
    return True


def _is_strict(parser: Any) -> bool:
    """Tell whether the server makes all tools of a request strict."""
    level = parser.tool_strict_level
    if not level:  # None from 0.33 on: the tool parser's own default, which some earlier ones had too
        level = getattr(parser.tool_parser, "default_tool_strict_level", None) or 0
    return bool(level >= _PARAMETER_LEVEL)


def replace_refusal(grammar_of: Callable[[Any, Any], str | None]) -> bool:
    """Use a grammar where the parser of a `response_template` refuses strict, required and named tools.

    Return False if that is not possible. A vLLM without such a parser refuses nothing.

    Args:
        grammar_of: gives a grammar for the tokenizer and the request; None keeps the refusal.
    """
    module = optional_module("vllm.parser.response_template")
    parser: Any = getattr(module, "ResponseTemplateParser", None)
    adjust: Any = getattr(parser, "adjust_request", _nothing)
    adjust = original(adjust)
    if tuple(inspect.signature(adjust).parameters) != ("self", "request"):
        return parser is None

    @functools.wraps(adjust)
    def adjust_request(self: Any, request: Any) -> Any:
        try:
            return adjust(self, request)
        except invalid_error as error:
            parameter = getattr(error, "parameter", None)
            grammar = grammar_of(self.model_tokenizer, request) if parameter in _GUARANTEES else None
            if grammar is None:
                raise
            outputs = import_module("vllm.sampling_params").StructuredOutputsParams
            request.structured_outputs, request.response_format = outputs(grammar=grammar), None
            return request

    setattr(adjust_request, MARK, adjust)
    parser.adjust_request = adjust_request
    return True


#: The parameters of a request by which vLLM refuses what a `response_template` gives no grammar for.
_GUARANTEES = ("tools", "tool_choice", "parallel_tool_calls")


def tools_of(request: Any, is_strict: bool) -> list[dict[str, Any]]:
    """Return the functions of a request as in OpenAI's chat API; without parameters where any arguments are allowed.

    Args:
        is_strict: whether arguments have to follow all schemas, not only those of strict tools.
    """
    tools = []
    for tool in request.tools or ():
        function = getattr(tool, "function", tool)  # the Responses API has it flat
        written = {"name": function.name}
        if is_strict or getattr(function, "strict", None) is True:
            written["parameters"] = getattr(function, "parameters", None) or {"type": "object"}
        tools.append({"type": "function", "function": written})
    return tools


def tool_choice_of(request: Any) -> str | None:
    """Return `auto`, `required`, `none`, or the name of the tool that must be called; None for anything else."""
    choice = request.tool_choice
    name: str | None = choice if isinstance(choice, str) else getattr(getattr(choice, "function", choice), "name", None)
    return name


def _nothing() -> None:
    """Do nothing; a placeholder for functions that this vLLM does not have."""


invalid_error: type[Exception] = getattr(optional_module("vllm.exceptions"), "VLLMValidationError", ValueError)
