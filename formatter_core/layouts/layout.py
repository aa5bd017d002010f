"""A layout: data that say how a chat model writes a turn."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, fields
from functools import cache, partial
from importlib import resources
from typing import Any, Literal, TypeAlias, get_args

from formatter_core.errors import InvalidArgument, InvalidFormat, UnsupportedLayout
from formatter_core.errors.arguments import one_of, shown
from formatter_core.grammar.lazy import cached_property
from formatter_core.layouts.answer import ChatAnswer, ToolCall
from formatter_core.layouts.derived import derived_data
from formatter_core.layouts.rendering import layout_of, rendered_id
from formatter_core.layouts.response_template import layout_data
from formatter_core.layouts.values import ValueStyle, json_type, written_value

__all__ = ["Calls", "Layout", "Piece", "Region", "Slot"]

#: What is filled in when a call is written: first for the call, then for one parameter.
SlotKind: TypeAlias = Literal["name", "index", "id", "json", "parameters", "key", "type", "value"]
_OF_CALL = frozenset({"name", "index", "id", "json", "parameters"})
_OF_PARAMETER = frozenset({"key", "type", "value"})


@dataclass(frozen=True, slots=True)
class Slot:
    """A place of a template.

    "name" is the tool's name, "index" the number of the call and "id" its id; "json" the arguments as one JSON object,
    and "parameters" each argument by a template of its own, in which "key" is its name, "type" the JSON type of its
    value, and "value" the value: text as it is, anything else as JSON.
    """

    kind: SlotKind


Piece: TypeAlias = str | Slot


@dataclass(frozen=True, slots=True)
class Region:
    """A text of a turn.

    Attributes:
        open, close: what stands before and after the text.
        empty: what replaces both if the text is empty and that differs.
        required: whether the region is written even where it is empty.
        repeats: whether several of it may follow one another.
    """

    open: str
    close: str
    empty: str = ""
    required: bool = False
    repeats: bool = False


@dataclass(frozen=True, slots=True)
class Calls:
    """How calls are written.

    Attributes:
        open, close: around all calls of a turn.
        optional_close: whether some turns leave `close` out.
        before: between the text and the calls; part of neither.
        separator: between two calls.
        parallel: whether a turn can hold several calls.
        after_text: whether calls can follow text in one turn.
        preamble: the region of a text that calls follow, where it is not that of the final text.
        templates: how a call is written; models write all of them, the first is the one that chat templates write.
        first_index: the "index" of the first call.
        id_length: how many letters and digits an "id" has; 0 where any does.
        python_constants: whether an argument by itself may also be `True`, `False` or `None`, as chat templates print.
        values: how a value by itself is written: "plain" (text as it is, anything else as JSON), "python" (as Python's
            literals), "json" (as these, but `true`, `false` and `null`), "delimited" (text between two `quote`, keys
            without quotes), or "xml" (plain, but objects and lists as elements inside one another, each by the
            template of an argument).
        quote: the marker around text, for "delimited"; the quote around an argument that is text, for "python".
        parameter_separator: between two arguments.
        text_parameter: the template of an argument that is text, for "parameters".
        json_parameter: the template of any other argument.
        json_excludes: texts that JSON arguments never contain, such as a line break where readers look at one line.
        strips: whether readers strip the blanks around a text argument, so that none is written there.
    """

    open: str
    close: str
    before: str
    separator: str
    parallel: bool
    after_text: bool
    templates: tuple[tuple[Piece, ...], ...]
    python_constants: bool = False
    text_parameter: tuple[Piece, ...] = ()
    json_parameter: tuple[Piece, ...] = ()
    values: ValueStyle = "plain"
    quote: str = ""
    parameter_separator: str = ""
    json_excludes: tuple[str, ...] = ()
    strips: bool = False
    preamble: Region | None = None
    optional_close: bool = False
    first_index: int = 0
    id_length: int = 0


@dataclass(frozen=True)
class Layout:
    """How a chat model writes a turn. Equal data are equal layouts.

    Attributes:
        name: what it is called.
        source: where each fact comes from.
        markers: texts that separate regions and so never occur inside one. Each is a special token where the
            vocabulary has one of that name, and text where it has not.
        reasoning: the region of the reasoning; None where the model has none.
        content: the region of the final text.
        calls: how tools are called; None where the model calls none.
        start: the blanks that a turn begins with where the prompt does not end in them.
        end: what models may write at the end of a turn, before the token that ends it.
    """

    name: str
    source: tuple[str, ...]
    markers: tuple[str, ...]
    reasoning: Region | None
    content: Region
    calls: Calls | None
    end: str = ""
    start: str = ""

    @staticmethod
    def named(name: str) -> Layout:
        """A layout that ships with this package.

        Raises:
            UnsupportedLayout: there is none of this name; the message lists those that there are.
        """
        shipped = _shipped()
        if not isinstance(name, str) or name not in shipped:
            raise UnsupportedLayout(f"there is no layout {shown(name)}; there are {', '.join(shipped)}")
        return shipped[name]

    @staticmethod
    def names() -> tuple[str, ...]:
        """The names of the layouts that ship with this package."""
        return tuple(_shipped())

    @staticmethod
    def from_tokenizer(tokenizer: Any) -> Layout:
        """The layout that a tokenizer's chat template writes, found by rendering a few turns with it.

        The candidates are, in this order: what the checkpoint itself describes (`response_template`, transformers 5.13
        and later), the shipped layouts, and a layout derived from the template by comparing turns. The first is taken
        that writes a text, a thought, a call, two calls and mixtures of them as the chat template does.

        Args:
            tokenizer: whatever has transformers' `apply_chat_template`.

        Raises:
            UnsupportedLayout: no shipped layout writes all of these turns so; the message shows the first that it does
                not. Or the description has something that a mask cannot keep; the message says what it is.
        """
        known = tuple(_shipped().values())
        refused: UnsupportedLayout | None = None
        described = getattr(tokenizer, "response_template", None)
        if described is not None:
            try:
                return _proven(tokenizer, layout_data(tokenizer, described), known)
            except UnsupportedLayout as error:
                refused = error
        try:
            return layout_of(tokenizer, known, known)
        except UnsupportedLayout as error:
            refused = refused or error
        derived = derived_data(tokenizer)
        if derived is not None:
            with suppress(UnsupportedLayout):
                return _proven(tokenizer, derived, known)
        raise refused from None

    @staticmethod
    def from_json(data: Any) -> Layout:
        """A layout from data, as `to_json` gives them; `docs/tool_calls.md` says what each field means.

        Raises:
            InvalidFormat: the data describe no layout.
        """
        try:
            return _read(data)
        except (KeyError, TypeError, AttributeError, ValueError) as error:
            raise InvalidFormat(f"the layout {shown(data)} has a missing or malformed field: {error!r}") from None

    def to_json(self) -> dict[str, Any]:
        """The layout as JSON data."""
        return dict(_data_of(self))

    def opens_reasoning(self, prompt: str) -> bool:
        """Whether a prompt ends inside the reasoning region, as some chat templates leave it."""
        _check_prompt(prompt)
        if self.reasoning is None or not self.reasoning.open:
            return False
        opening = self.reasoning.open.rstrip()
        return prompt.rstrip().endswith(opening)

    def closes_reasoning(self, prompt: str) -> bool:
        """Whether a prompt ends after the reasoning region, as with chat templates that turn the reasoning off."""
        return self._ending_of(prompt) is not None

    def missing_blanks(self, prompt: str) -> str:
        """The blanks at the start of a turn, or after reasoning that a prompt has ended, as far as it lacks them."""
        ending = self._ending_of(prompt)
        ending = self.start if ending is None else ending
        blanks, given = ending[len(ending.rstrip()) :], prompt[len(prompt.rstrip()) :]
        return blanks.removeprefix(given) if blanks.startswith(given) else ""

    def _ending_of(self, prompt: str) -> str | None:
        """Find what of the layout ends the reasoning at the end of a prompt."""
        _check_prompt(prompt)
        region, text = self.reasoning, prompt.rstrip()
        if region is None or not region.open.strip():
            return None
        if region.empty.strip() and text.endswith(region.empty.strip()):
            return region.empty
        _, opening, rest = text.rpartition(region.open.strip())
        thought, closing, after = rest.rpartition(region.close.strip())
        ends = opening and closing and not after and not any(marker in thought for marker in self.markers)
        return region.close if ends else None

    def pieces(self, text: str) -> Iterator[tuple[str, bool]]:
        """A literal of the layout in pieces, each with whether it is a marker."""
        for index, piece in enumerate(self._any_marker.split(text) if self.markers else [text]):
            if piece:
                yield piece, bool(index % 2)

    @cached_property
    def _any_marker(self) -> re.Pattern[str]:
        longest_first = sorted(self.markers, key=len, reverse=True)
        return re.compile(f"({'|'.join(map(re.escape, longest_first))})")

    def render(self, answer: ChatAnswer) -> str:
        """The text of an answer as the chat template writes it, up to the end of the turn.

        Raises:
            UnsupportedLayout: the layout has no place for what the answer holds.
            InvalidArgument: it is not an answer, or its parts are not what they should be.
        """
        _check_answer(answer)
        written = ""
        if answer.reasoning is not None:
            if self.reasoning is None:
                raise UnsupportedLayout(f"the layout {self.name} has no reasoning")
            written += self.reasoning.open + answer.reasoning + self.reasoning.close
        region = self.content
        if answer.tool_calls and self.calls is not None and self.calls.preamble is not None:
            region = self.calls.preamble
        if answer.content is not None or region.required:
            content = "" if answer.content is None else written_value(answer.content)
            written += region.open + content + region.close
        if answer.tool_calls:
            written += self._rendered_calls(answer.tool_calls, after_text=answer.content is not None)
        return written

    def _rendered_calls(self, tool_calls: Sequence[ToolCall], after_text: bool) -> str:
        calls = self.calls
        if calls is None or (len(tool_calls) > 1 and not calls.parallel):
            raise UnsupportedLayout(f"the layout {self.name} has no place for {len(tool_calls)} tool calls")
        written = calls.separator.join(_rendered(calls, index, call) for index, call in enumerate(tool_calls))
        return (calls.before if after_text else "") + calls.open + written + calls.close


def _proven(tokenizer: Any, data: Mapping[str, Any], known: Sequence[Layout]) -> Layout:
    """A layout from data, if it writes turns as the chat template does."""
    try:
        layout = Layout.from_json(data)
    except InvalidFormat as error:
        raise UnsupportedLayout(f"what the chat template writes is no layout: {error}") from None
    return layout_of(tokenizer, [layout], known)


def _check_prompt(prompt: object) -> None:
    if not isinstance(prompt, str):
        raise InvalidArgument(f"prompt is {shown(prompt)}; give the text of the prompt", argument="prompt")


def _check_answer(answer: ChatAnswer) -> None:
    faulty = None
    if not isinstance(answer, ChatAnswer):
        faulty = f"answer is {shown(answer)}; give a ChatAnswer"
    elif not isinstance(answer.reasoning, str | None):
        faulty = f"reasoning is {shown(answer.reasoning)}; give text or None"
    elif not isinstance(answer.tool_calls, tuple | list):
        faulty = f"tool_calls is {shown(answer.tool_calls)}; give a tuple of ToolCall"
    else:
        for call in answer.tool_calls:
            if not (isinstance(call, ToolCall) and isinstance(call.name, str) and isinstance(call.arguments, Mapping)):
                faulty = f"{shown(call)} is not a call; give ToolCall(name, arguments), the arguments as a dict"
    if faulty is not None:
        raise InvalidArgument(faulty, argument="answer")


def _rendered(calls: Calls, index: int, call: ToolCall) -> str:
    parts: list[str] = []
    for piece in calls.templates[0]:
        if isinstance(piece, str):
            parts.append(piece)
        elif piece.kind == "name":
            parts.append(call.name)
        elif piece.kind == "index":
            parts.append(str(index + calls.first_index))
        elif piece.kind == "id":
            parts.append(rendered_id(index)[: calls.id_length or None])
        elif piece.kind == "json":
            parts.append(json.dumps(call.arguments, ensure_ascii=False))
        else:
            written = [_rendered_parameter(calls, key, value) for key, value in call.arguments.items()]
            parts.append(calls.parameter_separator.join(written))
    return "".join(parts)


def _rendered_parameter(calls: Calls, key: str, value: Any) -> str:
    def element(key: str, value: str) -> str:
        filled = {"key": key, "value": value}
        return "".join(piece if isinstance(piece, str) else filled[piece.kind] for piece in calls.text_parameter)

    template = calls.text_parameter if isinstance(value, str) else calls.json_parameter
    written = written_value(value, calls.values, calls.quote, element)
    filled = {"key": key, "type": json_type(value), "value": written}
    return "".join(piece if isinstance(piece, str) else filled[piece.kind] for piece in template)


@cache
def _shipped() -> Mapping[str, Layout]:
    folder = resources.files("formatter_core.layouts") / "data"
    files = sorted((file for file in folder.iterdir() if file.name.endswith(".json")), key=lambda file: file.name)
    layouts = [Layout.from_json(json.loads(file.read_text(encoding="utf-8"))) for file in files]
    return {layout.name: layout for layout in layouts}


def _read(data: Any) -> Layout:
    _known(data, "name", "source", "markers", "reasoning", "content", "calls", "end", "start")
    markers = _texts(data["markers"])
    _check_markers(markers)
    calls = data.get("calls")
    return Layout(
        _text(data["name"]),
        _texts(data["source"]),
        markers,
        _region(data["reasoning"]) if data.get("reasoning") is not None else None,
        _region(data.get("content") or {}),
        None if calls is None else _calls(calls),
        _text(data.get("end", "")),
        _text(data.get("start", "")),
    )


def _check_markers(markers: tuple[str, ...]) -> None:
    """No marker may be empty, or begin inside another: where a text ends would be ambiguous."""
    if "" in markers:
        raise InvalidFormat("a marker of a layout is empty; leave it out")
    for first in markers:
        for second in markers:
            for length in range(1, min(len(first), len(second))):
                if first.endswith(second[:length]):
                    raise InvalidFormat(f"the marker {first!r} of a layout ends as {second!r} begins; rename one")


def _calls(data: Any) -> Calls:
    _known(data, *(field.name for field in fields(Calls)))
    made: dict[str, Any] = dict.fromkeys(("open", "close", "before", "separator"), "")
    made |= {"parallel": True, "after_text": True}
    made |= {name: _read_field(name, value) for name, value in data.items()}
    made.setdefault("json_parameter", made.get("text_parameter", ()))
    calls = Calls(**made)
    for template in calls.templates:
        kinds = [piece.kind for piece in template if isinstance(piece, Slot)]
        if "name" not in kinds or kinds.count("json") + kinds.count("parameters") != 1:
            raise ValueError('a template of a call needs a slot "name" and one slot "json" or "parameters"')
        if "parameters" in kinds and not calls.text_parameter:
            raise ValueError('the slot "parameters" needs "text_parameter"')
    if not calls.templates:
        raise ValueError("a call needs a template")
    return calls


def _template(data: Any, kinds: frozenset[str]) -> tuple[Piece, ...]:
    pieces: list[Piece] = []
    for piece in data:
        if isinstance(piece, str):
            pieces.append(piece)
            continue
        _known(piece, "slot")
        if piece["slot"] not in kinds:
            raise ValueError(f"{shown(piece['slot'])} is not a slot; there are {', '.join(sorted(kinds))}")
        pieces.append(Slot(piece["slot"]))
    return tuple(pieces)


def _data_of(part: Any) -> Any:
    """A part of a layout as JSON, without the fields that are as they are by default."""
    if isinstance(part, Slot):
        return {"slot": part.kind}
    if isinstance(part, tuple):
        return [_data_of(each) for each in part]
    if not isinstance(part, Region | Calls | Layout):
        return part
    given = ((field, getattr(part, field.name)) for field in fields(part))
    return {
        field.name: _data_of(value)
        for field, value in given
        if value is not None and (value != field.default or field.name == "empty")
    }


def _region(data: Any) -> Region:
    _known(data, *(field.name for field in fields(Region)))
    return Region(**{"open": "", "close": "", **{name: _read_field(name, value) for name, value in data.items()}})


def _known(data: Any, *keys: str) -> None:
    if not isinstance(data, Mapping):
        raise TypeError(f"{shown(data)} is not an object")
    unknown = [key for key in data if key not in keys]
    if unknown:
        raise ValueError(f"{shown(unknown[0])} is not a field; there are {', '.join(keys)}")


def _texts(values: Any) -> tuple[str, ...]:
    if not isinstance(values, list):
        raise TypeError(f"{shown(values)} is not a list of texts")
    return tuple(map(_text, values))


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{shown(value)} is not text")
    value.encode("utf-8")
    return value


#: How the fields of calls are read that are not text.
_READERS: Mapping[str, Callable[[Any], Any]] = {
    **dict.fromkeys(
        ("parallel", "after_text", "python_constants", "strips", "optional_close", "required", "repeats"), bool
    ),
    **dict.fromkeys(("first_index", "id_length"), int),
    **dict.fromkeys(("text_parameter", "json_parameter"), partial(_template, kinds=_OF_PARAMETER)),
    "templates": lambda given: tuple(_template(each, _OF_CALL) for each in given),
    "values": lambda given: one_of(given, "values", get_args(ValueStyle)),
    "json_excludes": _texts,
    "preamble": lambda given: None if given is None else _region(given),
}


def _read_field(name: str, value: Any) -> Any:
    read: Callable[[Any], Any] = _READERS.get(name, _text)
    return read(value)
