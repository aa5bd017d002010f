"""mlx-lm's OpenAI server with the masks of this project.

    python -m formatter_mlx.server --model MODEL [--layout hermes] [every option of mlx_lm.server]

`response_format`, `grammar`, `tools` and `tool_choice` become formats. A request whose format is faulty is answered
with status 400 before anything is generated; everything else, the parsing of tool calls too, is mlx-lm's own.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

from formatter_core.errors import InvalidArgument, UnsupportedByEngine
from formatter_core.formats.openai_request import has_format, requested_format
from formatter_core.layouts import Layout
from formatter_core.layouts.lookup import known_layout, layout_option
from formatter_mlx import _compat_server
from formatter_mlx.factory import create_logits_processor
from formatter_mlx.logits_processor import FormatterLogitsProcessor

__all__ = ["main"]


def main(arguments: Sequence[str] | None = None) -> None:
    """Serve; `arguments` are those of the command line."""
    layout, others = layout_option(arguments)
    _compat_server.serve(others, lambda asked: _processor_of(asked, layout))


def _processor_of(asked: _compat_server.Asked, layout: Layout | None) -> FormatterLogitsProcessor | None:
    if not has_format(asked.body):
        return None
    if layout is None:
        layout = known_layout(asked.tokenizer)
    format = requested_format(asked.body, layout, prompt=_prompt_of(asked, layout))
    if format is None:
        return None
    try:
        return create_logits_processor(asked.tokenizer, format, model=asked.model, max_tokens=asked.max_tokens)
    except UnsupportedByEngine:  # an engine without budgets
        return create_logits_processor(asked.tokenizer, format, model=asked.model)


def _prompt_of(asked: _compat_server.Asked, layout: Layout | None) -> str:
    """Return the text that the chat template writes before an answer; it may begin or end the model's reasoning."""
    messages, tools = asked.body.get("messages"), asked.body.get("tools")
    if layout is None or not messages or not asked.tokenizer.has_chat_template:
        return ""
    options = {**asked.template_options, "tokenize": False, "add_generation_prompt": True}
    try:
        return str(asked.tokenizer.apply_chat_template(messages, tools=tools or None, **options))
    except Exception as error:  # noqa: BLE001 - a template may raise anything about messages
        raise InvalidArgument(f"the chat template refuses these messages: {error}", argument="messages") from None


if __name__ == "__main__":
    main(sys.argv[1:])
