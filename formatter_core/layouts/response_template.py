"""A checkpoint's own description of its turns (`response_template` of transformers >= 5.13) as data of a layout.

The description says what to look for: where a field opens and closes, and how its text is read. It says so loosely
(`\\s*`), for it was made to read with. What a model was trained to write is learnt from its chat template: turns whose
parts are known are rendered, and what stands around those parts is taken literally.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any, NamedTuple, NoReturn

from formatter_core.errors import UnsupportedLayout
from formatter_core.layouts.answer import ToolCall
from formatter_core.layouts.rendering import CALLS, QUESTION, TEXT, THOUGHT, rendered_turn

__all__ = ["layout_data"]

_REASONING = ("reasoning_content", "reasoning", "thinking")
_TEMPLATE_KEYS = {"version", "defaults", "fields", "start_anchor", "start_anchor_pattern"}
_FIELD_KEYS = {
    "open", "open_pattern", "close", "close_pattern", "content", "content_args", "repeats", "join", "optional",
    "transform", "transform_each",
}  # fmt: skip
#: Arguments of content kinds that do not change what may be written.
_CONTENT_ARGUMENTS = {"text": {"strip"}, "json": {"allow_non_json"}, "xml-inline": {"tag_pattern", "value_parser"}}
#: How arguments by themselves may be read: text as it is, and anything else as JSON.
_VALUE_PARSERS = (None, {"name": "text"}, {"name": "json", "args": {"allow_non_json": True}})
_KINDS = {"tool_calls": {"json", "xml-inline"}}
#: What is a marker wherever it stands in a literal: a tag, or the beginning of one whose name follows.
_TAG = re.compile(r"<[^<>\s=\"]+[>=]")
_GROUP = re.compile(r"\(\?P?<\w+>")
_LAST_TAG = re.compile(r"<[^<>\s]+>\s*\Z")


def layout_data(tokenizer: Any, template: Any) -> dict[str, Any]:
    """The data of the layout, for `Layout.from_json`.

    Args:
        tokenizer: renders turns with its chat template.
        template: the tokenizer's `response_template`.

    Raises:
        UnsupportedLayout: the description has a field or an option that a mask cannot keep, or the chat template
            writes turns in which its patterns do not occur.
    """
    try:
        return _Reader(tokenizer, template).data()
    except (TypeError, AttributeError, LookupError) as error:
        _refuse(f"is malformed: {error!r}")


def _refuse(what: str) -> NoReturn:
    raise UnsupportedLayout(f"the checkpoint's response_template {what}; name a layout, or use Layout.from_json(data)")


class _CallText(NamedTuple):
    """A call, what stands between the one before it (or the beginning) and it, and what stands after it."""

    before: str
    text: str
    after: str


class _Field:
    """One field: where its text opens and closes, and how it is read."""

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


class _Reader:
    """Reads one description."""

    def __init__(self, tokenizer: Any, template: Any) -> None:
        if not isinstance(template, Mapping) or not isinstance(template.get("fields"), Mapping):
            _refuse("is not an object with fields")
        if template.get("version", 1) != 1:
            _refuse(f"has the version {template['version']!r}, but only 1 is known")
        if unknown := sorted(set(template) - _TEMPLATE_KEYS):
            _refuse(f"has the key {unknown[0]!r}, which is not known")
        self._tokenizer = tokenizer
        anchor = _anchor("start_anchor", template, "start_anchor")
        if anchor is None:
            _refuse("has no start_anchor")
        self._anchor = anchor
        self._anchored = ""
        self._fields = {name: _Field(name, data) for name, data in template["fields"].items()}
        known = {"content", "tool_calls", *_REASONING}
        if unknown := sorted(set(self._fields) - known):
            _refuse(f"has the field {unknown[0]!r}, but a layout has only reasoning, content and tool calls")
        self._thought = dict.fromkeys(_REASONING, THOUGHT)

    def data(self) -> dict[str, Any]:
        """The data of the layout."""
        opening, tail = self._around(self._turn(content=TEXT), TEXT)
        #: Whether turns end in a token, which is not a part of their text.
        self._ends_in_token = bool(tail.strip())
        made: dict[str, Any] = {
            "name": "response_template",
            "source": ["the checkpoint's response_template and chat template"],
            "content": {"open": self._content(opening)},
        }
        reasoning = next((self._fields[name] for name in _REASONING if name in self._fields), None)
        if reasoning is not None and (turn := self._turn_if_any(content=TEXT, **self._thought)) and THOUGHT in turn:
            made["reasoning"] = self._reasoning(reasoning, turn, made["content"]["open"])
        if "tool_calls" in self._fields:
            made["calls"] = self._calls(self._fields["tool_calls"], made.get("reasoning"), made["content"]["open"])
        patterns = [one.pattern for field in self._fields.values() for one in (field.open, field.close) if one]
        made["markers"] = _markers(self._tokenizer, made, patterns)
        return made

    def _turn(self, **message: Any) -> str:
        """What the model writes of a turn."""
        turn = self._turn_if_any(**message)
        if turn is None:
            _refuse(f"does not fit the chat template, which refuses the message {message!r} or has no start_anchor")
        return turn

    def _turn_if_any(self, **message: Any) -> str | None:
        text = rendered_turn(self._tokenizer, {"role": "assistant", **message})
        found = None if text is None else self._anchor.search(text, text.rfind(QUESTION))
        if text is None or found is None:
            return None
        self._anchored = found[0]
        return text[found.end() :]

    def _around(self, turn: str, part: str) -> tuple[str, str]:
        before, found, after = turn.partition(part)
        if not found:
            _refuse(f"cannot be learnt: the chat template does not write {part!r} of a message")
        return before, after

    def _content(self, before: str) -> str:
        """What opens the text, given all that stands before it: blanks at the beginning of a turn count as well."""
        blanks = before[: len(before) - len(before.lstrip())]
        field = self._fields.get("content")
        if field is None or field.open is None:
            return blanks
        found = _last(field.open, before)
        return blanks + before[found.start() :] if found else _refuse("opens `content` as the chat template does not")

    def _reasoning(self, field: _Field, turn: str, content: str) -> dict[str, str]:
        before, after = self._around(turn, THOUGHT)
        closing, _ = self._around(after, content + TEXT)
        if field.open is not None and (found := _last(field.open, before)) and found[0]:
            return {"open": before, "close": closing}
        last = _LAST_TAG.search(self._anchored)  # the prompt opens it, so that the anchor ends with its opening
        return {"open": (last[0] if last else "") + before, "close": closing}

    def _calls(self, field: _Field, reasoning: Mapping[str, str] | None, content: str) -> dict[str, Any]:
        one = self._call_texts(field, self._turn(content="", tool_calls=_messages(1)))
        if len(one) != 1:
            _refuse("opens tool calls as the chat template does not")
        if one[0].after:
            _refuse(f"does not say what {one[0].after!r} after the last tool call means")
        opening = one[0].before if reasoning is None else self._opening_after(field, reasoning["close"])
        turn = self._turn_if_any(content="", tool_calls=_messages(2)) if field.repeats else None
        both = [] if turn is None else self._call_texts(field, turn)
        found = both if len(both) == len(CALLS) else one
        made = [self._call_template(field, each.text, call) for each, call in zip(found, CALLS, strict=False)]
        before, text, after = (self._turn_if_any(content=TEXT, tool_calls=_messages(1)) or "").partition(TEXT)
        # Some templates show text before a call as reasoning.
        behind = self._call_texts(field, after) if text and before.endswith(content) else []
        return {
            **_with_index(made),
            "open": opening,
            "separator": both[1].before if found is both else "",
            "parallel": found is both,
            "before": behind[0].before.removesuffix(opening) if behind else "",
            "after_text": bool(behind),
        }

    def _opening_after(self, field: _Field, closing: str) -> str:
        """What stands between the reasoning and the first call."""
        turn = self._turn_if_any(content="", tool_calls=_messages(1), **self._thought)
        if turn is None or THOUGHT not in turn:
            return ""
        before = self._call_texts(field, turn.partition(THOUGHT)[2])[0].before
        if not before.startswith(closing):
            _refuse("closes the reasoning in two ways, before text and before tool calls")
        return before.removeprefix(closing)

    def _call_texts(self, field: _Field, turn: str) -> list[_CallText]:
        """The calls of a turn."""
        if field.open is None or field.close is None:
            _refuse("says nothing about where a tool call opens or closes")
        if self._ends_in_token:
            turn = _LAST_TAG.sub("", turn.rstrip())
        found: list[_CallText] = []
        at = 0
        while opened := field.open.search(turn, at):
            closed = field.close.search(turn, opened.end())
            end = len(turn) if closed is None else opened.end() + len(turn[opened.end() : closed.end()].rstrip())
            found.append(_CallText(turn[at : opened.start()], turn[opened.start() : end], turn[end:].strip()))
            at = max(end, opened.start() + 1)
        return found

    def _call_template(self, field: _Field, text: str, call: ToolCall) -> dict[str, Any]:
        before, after = self._around(text, call.name)
        opening = [before, {"slot": "name"}]
        if field.kind == "json":
            start, stop = _json_place(after, call.arguments)
            return {"templates": [[*opening, after[:start], {"slot": "json"}, after[stop:]]]}
        return self._parameters(field, opening, after, call)

    def _parameters(self, field: _Field, opening: list[Any], after: str, call: ToolCall) -> dict[str, Any]:
        pattern = field.arguments.get("tag_pattern")
        try:
            found = list(re.compile(pattern or "", re.DOTALL).finditer(after))
            pairs = [(match["key"], match["value"]) for match in found]
        except (re.error, IndexError) as error:
            _refuse(f"has a tag_pattern that cannot be read: {error}")
        if [(key.strip(), value.strip()) for key, value in pairs] != [(k, str(v)) for k, v in call.arguments.items()]:
            _refuse("has a tag_pattern that does not find the arguments that the chat template writes")
        gaps = {after[one.end() : two.start()] for one, two in pairwise(found)}
        tail = after[found[-1].end() :]
        if len(gaps) != 1 or not tail.startswith(gap := gaps.pop()):
            _refuse("separates arguments by something that does not follow the last one")
        templates = []
        for match, (key, value) in zip(found, call.arguments.items(), strict=True):
            whole = match[0] + gap
            head, rest = self._around(whole, key)
            between, tail_of = self._around(rest, str(value))
            templates.append([head, {"slot": "key"}, between, {"slot": "value"}, tail_of])
        if any(template != templates[0] for template in templates):
            _refuse("has arguments that the chat template does not write alike")
        closing = tail[len(gap) :]
        return {
            "templates": [[*opening, after[: found[0].start()], {"slot": "parameters"}, closing]],
            "text_parameter": templates[0],
            "strips": True,  # as transformers' `parse_response` does
        }


def _last(pattern: re.Pattern[str], text: str) -> re.Match[str] | None:
    matches = list(pattern.finditer(text))
    return matches[-1] if matches else None


def _messages(count: int) -> list[dict[str, Any]]:
    """The first calls as a message holds them."""
    return [
        {"type": "function", "id": "call00001", "function": {"name": call.name, "arguments": call.arguments}}
        for call in CALLS[:count]
    ]


def _json_place(text: str, arguments: Mapping[str, Any]) -> tuple[int, int]:
    """Where the arguments stand as JSON."""
    decoder = json.JSONDecoder()
    for opening in re.finditer(r"\{", text):
        try:
            value, stop = decoder.raw_decode(text, opening.start())
        except ValueError:
            continue
        if value == arguments:
            return opening.start(), stop
    _refuse("reads arguments as JSON, which the chat template does not write")


def _with_index(made: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """The template of all calls; where they differ in their number, it has a place."""
    first = made[0]
    if len(made) == 1 or all(one == first for one in made):
        return first
    pieces: list[Any] = []
    for one, two in zip(first["templates"][0], made[1]["templates"][0], strict=False):
        if one == two or not (isinstance(one, str) and isinstance(two, str)):
            pieces.append(one)
            continue
        before, _, after = one.partition("0")
        if f"{before}1{after}" != two:
            _refuse("has tool calls that the chat template does not write alike")
        pieces += [before, {"slot": "index"}, after]
    return {**first, "templates": [pieces]}


def _markers(tokenizer: Any, data: Mapping[str, Any], patterns: Sequence[str]) -> list[str]:
    """The tokens and tags of a layout: those in its literals, and those that a reader looks for."""
    literals = [*_literals([data.get(key) for key in ("reasoning", "content", "calls")])]
    literals += [_GROUP.sub("", pattern).replace("\\", "") for pattern in patterns]
    vocabulary: Mapping[str, int] = getattr(tokenizer, "get_added_vocab", dict)()
    tokens = [token for token in vocabulary if token.strip() and any(token in literal for literal in literals)]
    tags = [tag for literal in literals for tag in _TAG.findall(literal) if not any(tag in token for token in tokens)]
    return list(dict.fromkeys([*tokens, *tags]))


def _literals(data: Any) -> Iterator[str]:
    if isinstance(data, str):
        yield data
    elif isinstance(data, Mapping):
        for value in () if "slot" in data else data.values():
            yield from _literals(value)
    elif isinstance(data, list):
        for value in data:
            yield from _literals(value)
