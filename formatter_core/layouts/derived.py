"""Derive a layout from a chat template alone, by rendering turns with known parts and comparing the results.

The idea is that of llama.cpp's autoparser (`common/chat-diff-analyzer.cpp`). The derived layout is only a proposal: it
is accepted if it writes those turns as the template does.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from formatter_core.layouts import rendering
from formatter_core.layouts.answer import ToolCall
from formatter_core.layouts.rendering import CALLS, TEXT, THOUGHT, common_beginning, common_length, tail_of

__all__ = ["derived_data", "literals_of", "markers_in"]

#: Private-use characters that mark, in a rendered turn, the parts that a template fills in.
_SLOTS = {"\ue000": "name", "\ue001": "json", "\ue002": "id", "\ue003": "key", "\ue004": "value"}
_NAME, _JSON, _ID, _KEY, _VALUE = _SLOTS
_TAG = re.compile(r"<[^<>\s=\"]+[>=]|\[/?[A-Z_]+\]")
_LAST_TAG = re.compile(r"<[^<>\s]+>\s*\Z")
_SIDES = re.compile(r"start|end|open|close|begin|\W|_")


class _Call(NamedTuple):
    """A rendered call: the text before its name, the text from its name to its last argument, and
    the text after that.
    """

    before: str
    core: str
    after: str


def derived_data(tokenizer: Any) -> dict[str, Any] | None:
    """Return the data of a layout, for `Layout.from_json`; None if the template does not reveal one."""
    prompt, rendered = rendering.rendered_turns(tokenizer)
    tails = {turn.name: tail_of(text) for turn, text in rendered if text is not None}
    if not prompt or not {"text", "one call"} <= set(tails):
        return None
    tails["prompt"] = tail_of(prompt)
    header = common_beginning(*tails.values())
    shown = {name: tail for name, tail in tails.items() if THOUGHT in tail}
    if shown and (last := _LAST_TAG.search(header)):  # every turn opens the reasoning, so the header appears to do so
        closing = _TAG.search(next(iter(shown.values())).split(THOUGHT)[1])
        if closing and _SIDES.sub("", closing[0].lower()) == _SIDES.sub("", last[0].lower()):
            header = header[: last.start()]
    bodies = {name: tail[len(header) :] for name, tail in tails.items()}
    try:
        made = _Derived(bodies).data()
    except (ValueError, IndexError, KeyError):
        return None
    calls = rendering.messages_of([ToolCall(CALLS[0].name, {"city": "Paris", "days": True})])
    written = rendering.rendered_turn(tokenizer, {"content": "", "tool_calls": calls}) or ""
    made["calls"]["python_constants"] = "text_parameter" in made["calls"] and "True" in tail_of(written)
    return made


class _Derived:
    """A comparison of the bodies of rendered turns; it raises a ValueError if they contradict each other."""

    def __init__(self, bodies: Mapping[str, str]) -> None:
        self._bodies = bodies
        before, _, tail = bodies["text"].partition(TEXT)
        one = _split(bodies["one call"], CALLS[:1])[0]
        self._end: str | None = _from_tag(_common_end(tail, one.after))
        if not self._end and tail and _LAST_TAG.search(tail) and _LAST_TAG.search(one.after):
            self._end = None  # each kind of turn has its own end tag
        self._before, self._text_close = before, self._cut(tail)

    def data(self) -> dict[str, Any]:
        made: dict[str, Any] = {"name": "derived", "source": ["the checkpoint's chat template"]}
        reasoning, content_open = self._reasoning()
        made["reasoning"] = reasoning
        made["content"] = {"open": content_open, "close": self._text_close}
        made["calls"] = self._calls(reasoning)
        # If no tag distinguishes a call from text, the text before the call becomes a marker.
        signs = [made["calls"][name].strip() for name in ("open", "before", "separator") if made["calls"]["after_text"]]
        known = markers_in(made)
        others = [sign for sign in signs if re.search(r"\w|\W{3}", sign) and not any(tag in sign for tag in known)]
        made["markers"] = list(dict.fromkeys([*known, *others]))
        return made

    def _cut(self, text: str) -> str:
        """Return a text without the end of the turn."""
        return _LAST_TAG.sub("", text) if self._end is None else text.removesuffix(self._end)

    def _reasoning(self) -> tuple[dict[str, str] | None, str]:
        """Return the region of the reasoning, and the opening of the text."""
        if not any(THOUGHT in body for body in self._bodies.values()):
            _require(self._bodies["prompt"] == "")
            return None, self._before
        between: list[str] = []
        opening = ""
        for name in ("a thought and text", "a thought and a call"):
            if THOUGHT in (body := self._bodies.get(name, "")):
                opening, _, rest = body.partition(THOUGHT)
                between.append(rest.partition(TEXT)[0] if TEXT in rest else _split(rest, CALLS[:1])[0].before)
        closing = common_beginning(*between) if len(between) > 1 else between[0]
        content = between[0].removeprefix(closing) if len(between) > 1 else ""
        _require(self._before.endswith(content) and THOUGHT not in self._before)
        empty = self._before.removesuffix(content)
        region = {"open": opening, "close": closing, "empty": "" if empty in ("", opening + closing) else empty}
        return region, content

    def _calls(self, reasoning: Mapping[str, str] | None) -> dict[str, Any]:
        one = _split(self._bodies["one call"], CALLS[:1])[0]
        before = one.before
        if reasoning is not None:
            if THOUGHT in (body := self._bodies.get("a thought and a call", "")):
                before = _split(body.partition(THOUGHT)[2], CALLS[:1])[0].before.removeprefix(reasoning["close"])
            empties = ("", reasoning["empty"], reasoning["open"] + reasoning["close"])
            _require(one.before in [empty + before for empty in empties])
        made: dict[str, Any] = {}
        core, after = one.core, self._cut(one.after)
        both = _split(self._bodies["two calls"], CALLS) if "two calls" in self._bodies else []
        if len(both) == 2:
            core = _with_index(core, both[1].core)
        close_value = ""
        if _KEY in core:
            core, close_value, made = _parameters(core, after)
            after = after.removeprefix(close_value)
        opening, ending, separator = before, after, ""
        if len(both) == 2:
            gap = both[1].before.removeprefix(close_value)
            opening = _from_tag(_common_end(before, gap))
            ending = common_beginning(after, gap[: len(gap) - len(opening)])
            separator = gap[len(ending) : len(gap) - len(opening)]
        gap = self._bodies.get("text and a call", "").partition(TEXT)[2]
        follows = CALLS[0].name in gap and self._bodies["text and a call"].startswith(self._before)
        if follows:
            gap = _split(gap, CALLS[:1])[0].before
            _require(gap.startswith(self._text_close) and gap.endswith(before))
            gap = gap.removeprefix(self._text_close).removesuffix(before)
        return {
            **made,
            "open": before.removesuffix(opening),
            "close": after.removeprefix(ending),
            "separator": separator,
            "before": gap if follows else "",
            "parallel": len(both) == 2,
            "after_text": follows,
            "templates": [_pieces(opening + core + ending)],
        }


def _split(body: str, calls: tuple[ToolCall, ...]) -> list[_Call]:
    """Split a body with marked parts into its calls; `after` of one call is `before` of the next, too."""
    for index in range(len(CALLS)):
        body = body.replace(rendering.rendered_id(index), _ID)
    found: list[tuple[int, int]] = []
    at = 0
    for call in calls:
        start = body.index(call.name, at)
        body = body[:start] + body[start:].replace(call.name, _NAME)
        place = rendering.json_place(body[start:], call.arguments)
        if place is not None:
            body = body[: start + place[0]] + _JSON + body[start + place[1] :]
            at = start + place[0] + 1
        else:
            at = start
            for key, value in call.arguments.items():
                for part, sign in ((key, _KEY), (str(value), _VALUE)):
                    at = body.index(part, at)
                    body = body[:at] + sign + body[at + len(part) :]
            at += 1
        found.append((start, at))
    starts = [0, *(end for _, end in found)]
    stops = [*(start for start, _ in found[1:]), len(body)]
    return [
        _Call(body[begin:start], body[start:end], body[end:stop])
        for begin, (start, end), stop in zip(starts, found, stops, strict=False)
    ]


def _with_index(first: str, second: str) -> str:
    """Return the core that all calls share; if the first two differ in their number, it has a slot for it."""
    if first == second:
        return first
    before = first[: common_length(first, second)]
    after = first[len(before) + 1 :]
    _require(first == f"{before}0{after}" and second == f"{before}1{after}")
    return before + "\ue006" + after


def _parameters(core: str, after: str) -> tuple[str, str, dict[str, Any]]:
    """Return a call's core with one slot for its parameters, the end of a value, and how a parameter is written."""
    first, middle, between, second, _ = re.split(f"[{_KEY}{_VALUE}]", core)
    close = common_beginning(between, after)
    opening = _from_tag(_common_end(first, between.removeprefix(close)))
    made = {
        "text_parameter": _pieces(opening + _KEY + middle + _VALUE + close),
        "json_parameter": _pieces(opening + _KEY + second + _VALUE + close),
        "parameter_separator": between[len(close) : len(between) - len(opening)],
    }
    return first.removesuffix(opening) + "\ue005", close, made


def _pieces(text: str) -> list[Any]:
    slots = {**_SLOTS, "\ue005": "parameters", "\ue006": "index"}
    return [{"slot": slots[each]} if each in slots else each for each in re.split("([\ue000-\ue006])", text) if each]


def _common_end(one: str, two: str) -> str:
    return one[len(one) - common_length(one[::-1], two[::-1]) :]


def _from_tag(text: str) -> str:
    """Return a common end without the rest of a tag that begins before it, because two different tags may end alike."""
    closing, opening = text.find(">"), text.find("<")
    return text[closing + 1 :] if closing >= 0 and (closing < opening or opening < 0) else text


def _require(fits: bool) -> None:
    if not fits:
        raise ValueError("the turns do not fit together")


def markers_in(data: Any) -> list[str]:
    """Return the tags in the literals of a layout's data."""
    return list(dict.fromkeys(tag for text in literals_of(data) for tag in _TAG.findall(text)))


def literals_of(data: Any) -> Iterator[str]:
    """Yield the literals in a layout's data."""
    if isinstance(data, str):
        yield data
    elif isinstance(data, Mapping):
        yield from literals_of(list(data.values()))
    elif isinstance(data, list):
        for value in data:
            yield from literals_of(value)
