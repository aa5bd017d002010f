"""Tool calls in vLLM's own fields (`tools`, `tool_choice`, `strict`), enforced by this project's layouts.

vLLM's structural tags allow what its own parsers then misread, such as `</tool_call>` inside an argument, and vLLM has
none for checkpoints that describe their turns (`response_template`). A layout keeps markers out of arguments.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from formatter_core import Layout, formats
from formatter_core.errors import FormatterError
from formatter_vllm import _compat_tools as compat
from formatter_vllm._compat_sources import say
from formatter_vllm.settings import read_settings
from formatter_vllm.vocabulary import logger

__all__ = ["install"]

#: The name of a structural tag in vLLM's tool parsers, and this project's layout of the same calls.
_LAYOUTS = {"hermes": "hermes", "llama": "llama3-json", "qwen_3_coder": "qwen3-coder"}


def install() -> None:
    """Make vLLM's parsers use this project's grammars instead of structural tags; this may be called again."""
    if not compat.replace_structural_tags(_grammar_of_parser):
        say("tool calls keep vLLM's structural tags: DelegatingParser._apply_structural_tag is another function")
    if not compat.replace_refusal(_grammar_of_checkpoint):
        say("--tool-call-parser hf stays as vLLM has it: ResponseTemplateParser.adjust_request is another function")


def _grammar_of_parser(model: str, request: Any, is_strict: bool) -> str | None:
    """Return the grammar for a parser of this structural tag; None to use vLLM's own.

    Args:
        is_strict: whether arguments have to follow all schemas.
    """
    if model not in _LAYOUTS:
        return None
    layout = Layout.named(_LAYOUTS[model])
    return _grammar(layout, request, compat.tools_of(request, is_strict))


def _grammar_of_checkpoint(tokenizer: Any, request: Any) -> str | None:
    """Return the grammar for a checkpoint that describes its turns; None if no mask can enforce the description."""
    try:
        layout = Layout.from_tokenizer(tokenizer)
    except FormatterError as error:
        logger.warning("tool calls are not enforced for this checkpoint: %s", error)
        return None
    return _grammar(layout, request, compat.tools_of(request, is_strict=False))


def _grammar(layout: Layout, request: Any, tools: Sequence[Mapping[str, Any]]) -> str | None:
    """Return a content that the backend reads; None if the layout cannot leave the arguments of a tool free."""
    calls = layout.calls
    is_json = calls is not None and any(getattr(piece, "kind", "") == "json" for piece in calls.templates[0])
    if not is_json and any("parameters" not in tool["function"] for tool in tools):
        return None
    settings = read_settings()
    try:
        format = formats.chat_answer(
            layout,
            tools=tools,
            tool_choice=compat.tool_choice_of(request) or "auto",
            parallel=getattr(request, "parallel_tool_calls", None) is not False,
            reasoning="off",
            spelling=settings.spelling,
            key_order=settings.key_order,
        )
    except FormatterError as error:
        raise compat.invalid_error(str(error)) from None
    return json.dumps({"format": format.to_json()})
