"""Read a checkpoint's description of its turns (`response_template` of transformers >= 5.13) as data of a layout.

The description says where a field opens and closes, and how its text is read. It does so loosely (`\\s*`), because it
was made for reading. What a model was trained to write is derived from its chat template, and each field must open
there as the description says.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any, NoReturn

from formatter_core.errors import UnsupportedLayout
from formatter_core.layouts.derived import derived_data, literals_of, markers_in
from formatter_core.layouts.rendering import CALLS, QUESTION, TEXT, messages_of, rendered_turn, tail_of

__all__ = ["layout_data"]

_REASONING = ("reasoning_content", "reasoning", "thinking")
_TEMPLATE_KEYS = {"version", "defaults", "fields", "start_anchor", "start_anchor_pattern"}
_FIELD_KEYS = {
    "open", "open_pattern", "close", "close_pattern", "content", "content_args", "repeats", "join", "optional",
    "transform", "transform_each",
}  # fmt: skip
#: Arguments of content kinds that do not change what may be written.
_CONTENT_ARGUMENTS = {"text": {"strip"}, "json": {"allow_non_json"}, "xml-inline": {"tag_pattern", "value_parser"}}
#: How separate arguments may be read: strings as they are, and anything else as JSON.
_VALUE_PARSERS = (None, {"name": "text"}, {"name": "json", "args": {"allow_non_json": True}})
_KINDS = {"tool_calls": {"json", "xml-inline"}}
_GROUP = re.compile(r"\(\?P?<\w+>")


def layout_data(tokenizer: Any, template: Any) -> dict[str, Any]:
    """Return the data of the layout, for `Layout.from_json`.

    Args:
        tokenizer: renders turns with its chat template.
        template: the tokenizer's `response_template`.

    Raises:
        UnsupportedLayout: the description has a field or an option that a mask cannot enforce, or its patterns do not
            occur in the turns that the chat template writes.
    """
    try:
        return _data(tokenizer, template)
    except (TypeError, AttributeError, LookupError) as error:
        _refuse(f"is malformed: {error!r}")


def _refuse(what: str) -> NoReturn:
    raise UnsupportedLayout(f"the checkpoint's response_template {what}; name a layout, or use Layout.from_json(data)")


class _Field:
    """A field of the description: where its text opens and closes, and how it is read."""

    def __init__(self, name: str, data: Any) -> None:
        if not isinstance(data, Mapping):
            _refuse(f"has a field {name!r} that is not an object")
        if unknown := sorted(set(data) - _FIELD_KEYS):
            _refuse(f"has the option {unknown[0]!r} in the field {name!r}, which is not known")
        self.kind = data.get("content", "text")
        self.arguments: Mapping[str, Any] = data.get("content_args") or {}
        if self.kind not in _KINDS.get(name, {"text"}):
            _refuse(f"reads the field {name!r} as {self.kind!r}, which no mask can be made for")
        if unknown := sorted(set(self.arguments) - _CONTENT_ARGUMENTS[self.kind]):
            _refuse(f"reads the field {name!r} with {unknown[0]!r}, which is not supported")
        if self.arguments.get("value_parser") not in _VALUE_PARSERS:
            _refuse(f"reads arguments with the value_parser {self.arguments['value_parser']!r}, which is not supported")
        for option in ("join", "transform_each"):
            if data.get(option):
                _refuse(f"has {option!r} in the field {name!r}, which is not supported")
        self.open = _anchor(name, data, "open")
        self.close = _anchor(name, data, "close")
        self.repeats = bool(data.get("repeats"))


def _anchor(name: str, data: Mapping[str, Any], kind: str) -> re.Pattern[str] | None:
    if f"{kind}_pattern" in data:
        pattern = str(data[f"{kind}_pattern"])
    elif kind in data:
        literals: list[str] = [data[kind]] if isinstance(data[kind], str) else data[kind]
        pattern = "|".join(re.escape(one) for one in sorted(literals, key=len, reverse=True))
    else:
        return None
    try:
        return re.compile(pattern, re.DOTALL)
    except re.error as error:
        _refuse(f"has a pattern at {name!r} that cannot be read: {error}")


def _data(tokenizer: Any, template: Any) -> dict[str, Any]:
    if not isinstance(template, Mapping) or not isinstance(template.get("fields"), Mapping):
        _refuse("is not an object with fields")
    if template.get("version", 1) != 1:
        _refuse(f"has the version {template['version']!r}, but only 1 is known")
    if unknown := sorted(set(template) - _TEMPLATE_KEYS):
        _refuse(f"has the key {unknown[0]!r}, which is not known")
    anchor = _anchor("start_anchor", template, "start_anchor")
    if anchor is None:
        _refuse("has no start_anchor")
    fields = {name: _Field(name, data) for name, data in template["fields"].items()}
    if unknown := sorted(set(fields) - {"content", "tool_calls", *_REASONING}):
        _refuse(f"has the field {unknown[0]!r}, but a layout has only reasoning, content and tool calls")
    made = derived_data(tokenizer)
    if made is None:
        _refuse("does not fit the chat template, which writes turns that do not fit together")
    text = rendered_turn(tokenizer, {"content": TEXT}) or ""
    if anchor.search(text, text.rfind(QUESTION)) is None:
        _refuse("does not fit the chat template, which has no start_anchor")
    call = rendered_turn(tokenizer, {"content": "", "tool_calls": messages_of(CALLS[:1])}) or ""
    opened = {"content": made["content"]["open"] + TEXT, "tool_calls": tail_of(call)}
    for name, where in opened.items():
        if name in fields and (pattern := fields[name].open) is not None and pattern.search(where) is None:
            what = "opens `content`" if name == "content" else "opens tool calls"
            _refuse(f"{what} as the chat template does not")
    if not set(fields) & set(_REASONING):
        made.pop("reasoning", None)
    calls = fields.get("tool_calls")
    if calls is None:
        del made["calls"]
    else:
        made["calls"]["parallel"] &= calls.repeats
        if calls.kind == "xml-inline":
            made["calls"]["strips"] = True  # as transformers' `parse_response` does
    patterns = [one.pattern for field in fields.values() for one in (field.open, field.close) if one]
    return {**made, "name": "response_template", "markers": _markers(tokenizer, made, patterns)}


def _markers(tokenizer: Any, data: Mapping[str, Any], patterns: Iterable[str]) -> list[str]:
    """Return the tokens and tags of a layout: those in its literals, and those that a reader looks for."""
    literals = [*literals_of(data), *(_GROUP.sub("", pattern).replace("\\", "") for pattern in patterns)]
    vocabulary: Mapping[str, int] = getattr(tokenizer, "get_added_vocab", dict)()
    tokens = [token for token in vocabulary if token.strip() and any(token in literal for literal in literals)]
    tags = [tag for tag in markers_in(literals) if not any(tag in token for token in tokens)]
    return list(dict.fromkeys([*tokens, *tags]))
