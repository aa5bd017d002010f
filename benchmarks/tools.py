"""Make a case of tool calls in free text, as each engine describes them: 128 tools with schemas of maskbench."""

from __future__ import annotations

import importlib.util
import json
from typing import Any

from benchmarks.cases import Case
from benchmarks.data import read_cases, valid_documents
from formatter_core import formats, parse
from formatter_core.errors import FormatterError

__all__ = ["TOOLS", "listed_tools", "tool_cases"]

TOOLS, TEXTS = 128, 16
#: Keywords that another engine refuses or misreads.
_NOT_FOR_ALL = ("dependencies", "oneOf", "not", "if", "uniqueItems")
_BEGIN, _END = '<tool_call>\n{{"name": "{}", "arguments": ', "}\n</tool_call>"


def listed_tools() -> tuple[list[dict[str, Any]], list[str]]:
    """List the tools, fewer if the shared data are absent, and texts that call some of them."""
    tools: list[dict[str, Any]] = []
    texts: list[str] = []
    for case in read_cases():
        if len(tools) == TOOLS:
            break
        if not case["id"].startswith("Glaiveai2K") or case["schema"].get("type") != "object":
            continue
        if any(f'"{keyword}"' in json.dumps(case["schema"]) for keyword in _NOT_FOR_ALL):
            continue
        name = f"tool_{len(tools)}"
        tool = {"type": "function", "function": {"name": name, "parameters": case["schema"]}}
        calls = [
            "Let me look that up.\n" + _BEGIN.format(name) + json.dumps(document, ensure_ascii=False) + _END
            for document in valid_documents(case)[:1]
        ]
        try:
            calls = [text for text in calls if parse(formats.chat_answer("hermes", tools=[tool]), text).is_complete]
        except FormatterError:
            continue
        tools.append(tool)
        texts += calls if len(texts) < TEXTS else []
    return tools, texts


def tool_cases() -> list[Case]:
    """Return one case; none if the shared data are absent."""
    tools, texts = listed_tools()
    if len(tools) < TOOLS:
        return []
    return [
        Case(
            f"{TOOLS} tools",
            tuple(texts),
            own=formats.chat_answer("hermes", tools=tools),
            lark=_for_llguidance(tools),
            tag=_for_xgrammar(tools),
        )
    ]


def _for_llguidance(tools: list[dict[str, Any]]) -> str | None:
    if importlib.util.find_spec("llguidance") is None:
        return None
    from llguidance import StructTag

    functions = [tool["function"] for tool in tools]
    tags = [
        StructTag(trigger="<tool_call>", begin=_BEGIN.format(each["name"]), grammar=each["parameters"], end=_END)
        for each in functions
    ]
    return str(StructTag.to_grammar(tags, assume_special=False))


def _for_xgrammar(tools: list[dict[str, Any]]) -> Any:
    if importlib.util.find_spec("xgrammar") is None:
        return None
    from xgrammar import get_model_structural_tag

    return get_model_structural_tag("qwen_3", tools, reasoning="disabled")
