"""Define layouts: data that say how a chat model writes a turn."""

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

#: The slots of templates: first those of the call, then those of one parameter.
SlotKind: TypeAlias = Literal["name", "index", "id", "json", "parameters", "key", "type", "value"]
_OF_CALL = frozenset({"name", "index", "id", "json", "parameters"})
_OF_PARAMETER = frozenset({"key", "type", "value"})


@dataclass(frozen=True, slots=True)
class Slot:
    """A slot of a template.

    "name" is the tool's name, "index" the number of the call and "id" its id. "json" is the arguments as one JSON
    object. "parameters" is the arguments one by one, each by its own template, in which "key" is its name, "type" the
    JSON type of its value, and "value" the value: a string as it is, anything else as JSON.
    """

    kind: SlotKind


Piece: TypeAlias = str | Slot


@dataclass(frozen=True, slots=True)
class Region:
    """A region of a turn that contains a text.

    Attributes:
        open, close: the literals before and after the text.
        empty: the literal that replaces both if the text is empty, if it is a different one.
        required: whether the region is written even if it is empty.
        repeats: whether several such regions may follow one another.
    """

    open: str
    close: str
    empty: str = ""
    required: bool = False
    repeats: bool = False


@dataclass(frozen=True, slots=True)
class Calls:
    """The way a layout writes calls.

    Attributes:
        open, close: the literals around all calls of a turn.
        optional_close: whether some turns omit `close`.
        before: the literal between the text and the calls; it is part of neither.
        separator: the literal between two calls.
        parallel: whether a turn can contain several calls.
        after_text: whether calls can follow text in the same turn.
        preamble: the region of a text before calls, if it differs from that of the final text.
        templates: the templates of a call. Models write all of them; chat templates write the first.
        first_index: the number that the first call has as its "index".
        id_length: the number of letters and digits of an "id"; 0 allows any number.
        python_constants: whether an argument that is written separately may also be `True`, `False` or `None`, as chat
            templates print them.
        values: how a separate value is written: "plain" (a string as it is, anything else as JSON), "python" (Python
            literals), "json" (the same, but `true`, `false` and `null`), "delimited" (strings between two `quote`, keys
            without quotes), or "xml" (plain, but objects and lists as nested elements, each by the template of an
            argument).
        quote: the marker around strings, for "delimited"; the quote around a string argument, for "python".
        parameter_separator: the literal between two arguments.
        text_parameter: the template of a string argument, for "parameters".
        json_parameter: the template of any other argument.
        json_excludes: texts that JSON arguments never contain, such as a line break if readers look at one line.
        strips: whether readers strip the blanks around a string argument, so that none may be written there.
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
    """A description of how a chat model writes a turn. Layouts with equal data are equal.

    Attributes:
        name: the name of the layout.
        source: the source of each fact.
        markers: texts that separate regions and never occur inside one. Each is a special token if the vocabulary has
            one of that name, and otherwise text.
        reasoning: the region of the reasoning; None if the model has none.
        content: the region of the final text.
        calls: the way tools are called; None if the model calls none.
        start: the blanks at the start of a turn, if the prompt does not end in them.
        end: text that models may write at the end of a turn, before the token that ends it.
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
        """Return a layout that ships with this package.

        Raises:
            UnsupportedLayout: there is no layout of this name; the message lists the names.
        """
        shipped = _shipped()
        if not isinstance(name, str) or name not in shipped:
            raise UnsupportedLayout(f"there is no layout {shown(name)}; there are {', '.join(shipped)}")
        return shipped[name]

    @staticmethod
    def names() -> tuple[str, ...]:
        """Return the names of the layouts that ship with this package."""
        return tuple(_shipped())

    @staticmethod
    def from_tokenizer(tokenizer: Any) -> Layout:
        """Find the layout that a tokenizer's chat template writes, by rendering a few turns with the template.

        The candidates are, in this order: the checkpoint's own description (`response_template`, transformers 5.13 and
        later), the shipped layouts, and a layout derived from the template by comparing turns. The result is the first
        candidate that writes a text, a thought, a call, two calls and mixtures of them as the chat template does.

        Args:
            tokenizer: an object with transformers' `apply_chat_template`.

        Raises:
            UnsupportedLayout: no shipped layout writes all of these turns in the same way; the message shows the first
                difference. Or the description has an option that a mask cannot enforce; the message names it.
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
        """Make a layout from data, as `to_json` returns them; `docs/tool_calls.md` explains each field.

        Raises:
            InvalidFormat: the data do not describe a layout.
        """
        try:
            return _read(data)
        except (KeyError, TypeError, AttributeError, ValueError) as error:
            raise InvalidFormat(f"the layout {shown(data)} has a missing or malformed field: {error!r}") from None

    def to_json(self) -> dict[str, Any]:
        """Return the layout as JSON data."""
        return dict(_data_of(self))

    def opens_reasoning(self, prompt: str) -> bool:
        """Return whether a prompt ends inside the reasoning region, as some chat templates do."""
        _check_prompt(prompt)
        if self.reasoning is None or not self.reasoning.open:
            return False
        opening = self.reasoning.open.rstrip()
        return prompt.rstrip().endswith(opening)

    def closes_reasoning(self, prompt: str) -> bool:
        """Return whether a prompt ends after the reasoning region, as with chat templates that turn
        the reasoning off.
        """
        return self._ending_of(prompt) is not None

    def missing_blanks(self, prompt: str) -> str:
        """Return the blanks that a prompt lacks before a turn, or after reasoning that it has ended."""
        ending = self._ending_of(prompt)
        ending = self.start if ending is None else ending
        blanks, given = ending[len(ending.rstrip()) :], prompt[len(prompt.rstrip()) :]
        return blanks.removeprefix(given) if blanks.startswith(given) else ""

    def _ending_of(self, prompt: str) -> str | None:
        """Return the literal of the layout that ends the reasoning at the end of a prompt, if there is one."""
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
        """Split a literal of the layout into pieces, and tell whether each is a marker."""
        for index, piece in enumerate(self._any_marker.split(text) if self.markers else [text]):
            if piece:
                yield piece, bool(index % 2)

    @cached_property
    def _any_marker(self) -> re.Pattern[str]:
        longest_first = sorted(self.markers, key=len, reverse=True)
        return re.compile(f"({'|'.join(map(re.escape, longest_first))})")

    def render(self, answer: ChatAnswer) -> str:
        """Write an answer as the chat template does, up to the end of the turn.

        Raises:
            UnsupportedLayout: the layout has no place for a part of the answer.
            InvalidArgument: the object is not an answer, or its parts have the wrong types.
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
    """Return a layout from data, if it writes turns as the chat template does."""
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
    """Check that no marker is empty or begins inside another: the end of a text would be ambiguous."""
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
    """Return a part of a layout as JSON, without the fields that have their defaults."""
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


#: The types of those fields of calls that are not text.
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
