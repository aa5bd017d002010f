"""Build the grammar of a chat model's turn, and convert its parse."""

from __future__ import annotations

import json
from collections.abc import Callable
from collections.abc import Sequence as Many
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, Literal, NamedTuple, TypeAlias

from formatter_core.engine.regular import decide_empty
from formatter_core.errors import (
    FormatterError,
    InvalidFormat,
    InvalidSchema,
    LimitExceeded,
    UnsatisfiableSchema,
    UnsupportedSchema,
)
from formatter_core.formats.call_values import (
    DelimitedValues,
    ElementValues,
    as_python,
    check_key,
    in_any_order,
    json_of_delimited,
    json_of_elements,
    json_of_python,
)
from formatter_core.formats.json_schema import JsonSchemaFormat, json_schema
from formatter_core.formats.json_values import read_value
from formatter_core.formats.marker_free import is_canonical, marker_free_format
from formatter_core.formats.parameters import Argument, Parameter, arguments_of, parameter_of, with_definitions
from formatter_core.formats.protocol import Converter, Format, Lowered, first_reason
from formatter_core.formats.respelled import in_json, in_quotes, respelled
from formatter_core.formats.tools import Tool
from formatter_core.formats.turns_so_far import call_so_far, turn_so_far, written_call
from formatter_core.grammar import (
    ANY_CHAR,
    ANY_TEXT,
    EMPTY,
    NOTHING,
    Capture,
    Chars,
    Choice,
    Complement,
    Grammar,
    Intersection,
    Node,
    Reference,
    Region,
    Repeat,
    Sequence,
    Special,
    Terminal,
    literal,
)
from formatter_core.grammar.markers import map_terminals, marker_free_grammar, marker_free_terminal, marker_free_text
from formatter_core.layouts import ChatAnswer, Layout, ToolCall
from formatter_core.layouts.layout import Calls, Piece, Slot
from formatter_core.layouts.layout import Region as Around
from formatter_core.limits import Limits
from formatter_core.limits.turns import give_way
from formatter_core.parsing.captures import Match
from formatter_core.schema import KeyOrder, Spelling, StringFormats

__all__ = ["ChatTurn", "NotStrict", "OnUnsupportedTool", "Reasoning", "ToolCoverage", "lowered_turn", "tool_coverage"]

Reasoning: TypeAlias = Literal["auto", "required", "off"]
OnUnsupportedTool: TypeAlias = Literal["error", "loose", "drop"]
NotStrict: TypeAlias = Literal["enforce", "loose"]

_REMEDY = 'Remove it, or pass on_unsupported_tool="loose" to allow any arguments, or "drop" to leave the tool out'
#: The maximum number of states of an automaton that decides whether an argument can be written at all.
_DECIDING = Limits(states=500, work=20_000)
_CONSTANTS = {"True": "true", "False": "false", "None": "null"}
_BLANKS = Repeat(Chars.of([(ord(blank), ord(blank)) for blank in " \t\r\n"]))
#: Characters that some readers strip from a value; a value may not begin or end with one, so that none is lost.
_SPACE = Chars.of([(code, code) for code in range(0x3001) if chr(code).isspace()])
_TRIMMED = (Complement(Sequence((_SPACE, ANY_TEXT))), Complement(Sequence((ANY_TEXT, _SPACE))))
#: The characters that the name of a known or unknown tool may have.
_NAME = Repeat(Chars.of([(ord(low), ord(high)) for low, high in ("AZ", "az", "09", "__", "./", "--")]), 1)
#: The characters of an argument's name that no schema gives, if each argument is written separately.
_LETTERS = [(ord(low), ord(high)) for low, high in ("AZ", "__", "az")]
_FREE_KEY = Terminal(Sequence((Chars.of(_LETTERS), Repeat(Chars.of([*_LETTERS, (ord("0"), ord("9"))])))))
_DIGITS = Repeat(Chars.of([(ord("0"), ord("9"))]), 1, 9)
_OF_ID = Chars.of([(ord(low), ord(high)) for low, high in ("09", "AZ", "az")])
_ANY_ID = Repeat(Choice((_OF_ID, literal("_"), literal("-"))), 1, 64)


@dataclass(frozen=True)
class ChatTurn:
    """The settings of a turn; `chat_answer` explains the fields."""

    layout: Layout
    tools: tuple[Tool, ...]
    tool_choice: str
    parallel: bool
    reasoning: Reasoning
    reasoning_is_open: bool
    content: Format | None
    max_reasoning_tokens: int | None = None
    spelling: Spelling = "canonical"
    key_order: KeyOrder = "schema"
    string_formats: StringFormats = "enforce"
    on_unsupported_tool: OnUnsupportedTool = "error"
    not_strict: NotStrict = "enforce"
    lead: str = ""


class ToolCoverage(NamedTuple):
    """A report whether calls of a tool follow its schema: "enforced", "loose" (any arguments) or "dropped", and why."""

    name: str
    status: str
    reason: str = ""


def lowered_turn(turn: ChatTurn, limits: Limits) -> Lowered:
    """Lower a turn to its grammar; its value is a `ChatAnswer`."""
    return _Writer(turn, limits).lowered()


def tool_coverage(turn: ChatTurn, limits: Limits) -> tuple[ToolCoverage, ...]:
    """Return the coverage of each tool that the turn may call."""
    writer = _Writer(turn, limits)
    writer.lowered()
    return tuple(writer.coverage)


class _Writer:
    """A compiler of one chat answer to a grammar."""

    def __init__(self, turn: ChatTurn, limits: Limits) -> None:
        self._wanted = turn
        self._layout = turn.layout
        self._limits = limits
        self._rules: dict[str, Node] = {}
        self._whys: list[Callable[[], FormatterError | None]] = []
        self._calls: dict[str, Callable[[Match], ToolCall]] = {}
        self._converters: dict[str, Converter] = {}
        #: How an unfinished call is shown, by the name of its template's capture.
        self._so_far: dict[str, Lowered] = {}
        self._final: Lowered | None = None
        self.coverage: list[ToolCoverage] = []
        #: Terminals as Python writes them, by the identity of the JSON terminals.
        self._made: dict[int, tuple[Terminal, Terminal]] = {}

    def lowered(self) -> Lowered:
        end = Choice((self._literal(self._layout.end), EMPTY)) if self._layout.end else EMPTY
        body = Sequence((literal(self._wanted.lead), self._reasoning(), self._turn(), end))
        if self._calls:
            self._converters["tool_call"] = self._call_of
        grammar = Grammar({**self._rules, "chat answer": body}, "chat answer")
        try:
            grammar.check(self._limits)
        except LimitExceeded as error:
            if not self._calls:
                raise
            tools = self._wanted.tools
            largest = max(tools, key=lambda tool: len(repr(tool.schema)))
            what = f"an answer with {len(tools)} tools, of which {largest.name!r} has the largest schema,"
            raise LimitExceeded(error.limit, error.maximum, what, remedy="give fewer or smaller tools") from error
        region = self._layout.reasoning
        so_far = turn_so_far(self._final, self._so_far, self._call_of, region is not None and region.repeats)
        return Lowered(grammar, self._converters, self._answer_of, first_reason(self._whys), so_far)

    def _reasoning(self) -> Node:
        wanted, region = self._wanted, self._layout.reasoning
        if region is None or wanted.reasoning == "off":
            return EMPTY
        text = Capture("reasoning", Terminal(marker_free_text(self._layout.markers)))
        opening = EMPTY if wanted.reasoning_is_open else self._literal(region.open)
        rest: Node = Sequence((text, self._literal(region.close)))
        if region.repeats:
            rest = Sequence((rest, Repeat(Sequence((self._literal(region.open), rest)))))
        if wanted.reasoning_is_open and (closing := region.close.lstrip()) != region.close:
            rest = Choice((rest, self._literal(closing)))  # an empty thought, so that no line ends either
        if wanted.max_reasoning_tokens is not None:
            rest = Region(rest, wanted.max_reasoning_tokens)
        whole: Node = Sequence((opening, rest))
        if region.empty and not wanted.reasoning_is_open:
            whole = Choice((whole, self._literal(region.empty)))
        required = wanted.reasoning == "required" or wanted.reasoning_is_open
        return whole if required else Choice((whole, EMPTY))

    def _turn(self) -> Node:
        wanted, calls = self._wanted, self._layout.calls
        if calls is None or not wanted.tools or wanted.tool_choice == "none":
            return self._content()
        tools = [tool for tool in wanted.tools if wanted.tool_choice in ("auto", "required", tool.name)]
        written = self._all_calls(calls, tools)
        region = self._layout.content
        empty = (self._literal(region.open + region.close),) if region.required else ()
        if wanted.tool_choice != "auto":
            if written == NOTHING:
                raise InvalidFormat("every tool that may be called was dropped; give one whose schema is supported")
            return Sequence((*empty, written))
        if written == NOTHING:
            return self._content()
        if wanted.content is not None or not calls.after_text:
            return Choice((Sequence((*empty, written)), self._content(calls)))
        self._rules["calls"] = written
        alone = Sequence((*empty, Reference("calls")))
        if calls.preamble is not None:
            text = Terminal(Intersection(self._free_texts(calls)))
            before = self._in_region(calls.preamble, text, Reference("calls"))
            return Choice((alone, before, self._content(calls)))
        return Choice((alone, self._text_and_calls(calls)))

    def _text_and_calls(self, calls: Calls) -> Node:
        """Return the node for text, alone or before calls; text ends before `calls.before` if that occurs.

        Each answer has exactly one parse, so that a call is streamed as soon as its marker has come.
        """
        region = self._layout.content
        free = self._free_texts(calls)
        text: list[Node] = [*free]
        if not region.close and calls.before:
            text.append(Complement(Sequence((ANY_TEXT, literal(calls.before)))))
        if region.required or not (region.open or region.close):
            text.append(Repeat(ANY_CHAR, 1))  # the first alternative has the empty text
        ends: Node = EMPTY
        if calls.before:
            ends = Choice((EMPTY, Sequence((self._literal(calls.before), Reference("calls")))))
        return Choice(
            (
                self._in_content(Terminal(Intersection(tuple(text))), Reference("calls")),
                self._in_content(Terminal(Intersection(tuple(free))), ends),
            )
        )

    def _content(self, calls: Calls | None = None) -> Node:
        """Return the region of the final text; with `calls`, the text must not begin as a call does."""
        content = self._wanted.content
        if content is None:
            return self._in_content(Terminal(Intersection(self._free_texts(calls))))
        lowered = self._final = self._free(content)
        self._converters.update(lowered.converters)
        self._converters["content"] = lowered.value
        return self._in_content(self._placed(lowered, "content"))

    def _in_content(self, text: Node, *then: Node) -> Node:
        return self._in_region(self._layout.content, text, *then)

    def _in_region(self, region: Around, text: Node, *then: Node) -> Node:
        return Sequence((self._literal(region.open), Capture("content", text), self._literal(region.close), *then))

    def _free_texts(self, calls: Calls | None) -> tuple[Node, ...]:
        """Return text without a marker; if a call has none, the text must not begin, after blanks, as a call does."""
        openings = [] if calls is None else self._openings(calls)
        also = [Complement(Sequence((_BLANKS, opening, ANY_TEXT))) for opening in openings]
        return marker_free_text(self._layout.markers, *also).items

    def _openings(self, calls: Calls) -> list[Node]:
        """Return the beginnings of calls that contain no marker, up to the first slot after the tool's name."""
        found: list[Node] = []
        for first, *others in calls.templates:
            begin = calls.open + (first if isinstance(first, str) else "")
            if any(marker in begin for marker in self._layout.markers):
                continue
            behind = others[0] if not isinstance(first, str) and others and isinstance(others[0], str) else ""
            found.append(Sequence((literal(begin), _NAME, literal(behind))) if behind else literal(begin))
        return found

    def _all_calls(self, calls: Calls, tools: Many[Tool]) -> Node:
        """Return the node for all calls of a turn; `NOTHING` if no tool is left."""
        written = [node for index, tool in enumerate(tools) if (node := self._call(calls, tool, index)) is not None]
        if not written:
            return NOTHING
        self._rules["call"] = Choice(tuple(Capture("tool_call", node) for node in written))
        more: Node = EMPTY
        if calls.parallel and self._wanted.parallel:
            more = Repeat(Sequence((self._literal(calls.separator), Reference("call"))))
        closing = self._literal(calls.close)
        if calls.optional_close:
            closing = Choice((closing, EMPTY))
        return Sequence((self._literal(calls.open), Reference("call"), more, closing))

    def _call(self, calls: Calls, tool: Tool, index: int) -> Node | None:
        name, wanted = f".tool {index}", self._wanted
        if wanted.not_strict == "loose" and not tool.strict:
            return self._written(calls, tool, name, "it is not strict")
        before = len(self._rules), len(self._whys)
        try:
            return self._written(calls, tool, name)
        except (InvalidFormat, InvalidSchema, UnsupportedSchema, UnsatisfiableSchema, LimitExceeded) as error:
            if wanted.on_unsupported_tool == "error":
                raise _of_tool(tool.name, error) from None
            for rule in list(self._rules)[before[0] :]:
                del self._rules[rule]
            del self._whys[before[1] :]
            why = str(error.advising("") if isinstance(error, UnsupportedSchema) else error)
            if wanted.on_unsupported_tool == "loose":
                return self._written(calls, tool, name, why)
            self.coverage.append(ToolCoverage(tool.name, "dropped", why))
            return None

    def _written(self, calls: Calls, tool: Tool, name: str, why_loose: str | None = None) -> Node:
        give_way()
        is_loose = why_loose is not None
        written = [
            self._template(calls, each, tool, f"{name} {number}", is_loose=is_loose)
            for number, each in enumerate(calls.templates)
        ]
        self.coverage.append(ToolCoverage(tool.name, "loose" if is_loose else "enforced", why_loose or ""))
        return Choice(tuple(Capture(f"{name} {number}", node) for number, node in enumerate(written)))

    def _template(self, calls: Calls, template: tuple[Piece, ...], tool: Tool, label: str, *, is_loose: bool) -> Node:
        nodes: list[Node] = []
        named = False
        for piece in template:
            if isinstance(piece, str):
                nodes.append(self._literal(piece))
            elif piece.kind == "name":
                nodes.append(literal(tool.name) if named else Capture("tool_name", literal(tool.name)))
                named = True
            elif piece.kind == "index":
                nodes.append(Terminal(_DIGITS))
            elif piece.kind == "id":
                nodes.append(Terminal(Repeat(_OF_ID, calls.id_length, calls.id_length) if calls.id_length else _ANY_ID))
            elif piece.kind == "json":
                nodes.append(self._json_arguments(calls, tool, label, is_loose=is_loose))
            elif is_loose:
                nodes.append(self._free_parameters(calls, tool, label))
            else:
                nodes.append(self._parameters(calls, tool, label))
        return Sequence(tuple(nodes))

    def _json_arguments(self, calls: Calls, tool: Tool, label: str, *, is_loose: bool) -> Node:
        free = json_schema({"type": "object"}, spelling=self._wanted.spelling)
        lowered = self._lowered(free if is_loose else tool.arguments, calls.json_excludes)

        def call(match: Match) -> ToolCall:
            arguments = _child(match, "tool_arguments")
            return ToolCall(tool.name, lowered.value(arguments), arguments.text, not is_loose)

        self._calls[label] = call
        self._so_far[label] = call_so_far(lowered)
        if tool.text is None or is_loose:
            return Capture("tool_arguments", self._placed(lowered, label))
        markers = (*self._layout.markers, *calls.json_excludes)
        text = self._text_of(tool.text, label, lambda item: _marker_free_json(in_json(item), markers))
        return Capture("tool_arguments", Sequence((literal('{"input": "'), text, literal('"}'))))

    def _text_of(self, format: Format, label: str, change: Callable[[Node], Node]) -> Node:
        """Return the node for the text of a custom tool."""
        lowered = format.to_grammar(self._limits)
        return self._placed(replace(lowered, grammar=respelled(lowered.grammar, change)), f"{label} input")

    def _custom(self, calls: Calls, format: Format, label: str, keys: dict[str, str]) -> Node:
        """Return the node for the argument of a custom tool, if each argument is written separately."""
        markers, is_plain = self._layout.markers, calls.values == "plain"

        def free(item: Node) -> Node:
            return marker_free_text(markers, item)

        def quoted(item: Node) -> Node:
            if calls.quote:
                return free(in_quotes(item, calls.quote))
            return free(as_python(Terminal(in_json(item)), constants=False).item)

        is_python = calls.values in ("python", "json")
        name = f"{label} text" if is_plain else label
        keys[name] = "input"
        written: Node = self._text_of(format, label, quoted if is_python else free)
        if calls.values in ("delimited", "xml"):
            written = Capture("text", written)
        quote = calls.quote or ('"' if is_python else "")
        around = self._literal(quote) if calls.values == "delimited" else literal(quote)
        written = Capture(name, Sequence((around, written, around)) if quote else written)
        return self._filled(calls.text_parameter, "input", written)

    def _parameters(self, calls: Calls, tool: Tool, label: str, *, is_loose: bool = False) -> Node:
        # Read it as JSON first, to report any error of the schema with its place.
        convert = self._lowered(tool.arguments).value
        keys: dict[str, str] = {}
        written: dict[tuple[str, str], Node] = {}
        ways: list[Node] = []
        for arguments in arguments_of(tool.schema, tool.schema, "", self._limits):
            for argument in arguments:
                known = argument.key, repr(argument.schema)
                if known not in written:
                    made = self._argument(calls, tool, argument, f"{label}/{len(written)} {argument.key}", keys)
                    written[known] = made
            members = ((written[each.key, repr(each.schema)], each.required) for each in arguments)
            ways.append(in_any_order(members, calls.parameter_separator))
        if not ways:
            raise UnsatisfiableSchema("its keywords contradict each other; relax one of them")

        def call(match: Match) -> ToolCall:
            # The JSON text is joined from pieces, so that numbers stay exactly as they were written.
            found = [child for child in match.children if child.name in keys]
            written = [f"{_quoted(keys[child.name])}: {_as_json(child, calls)}" for child in found]
            text = "{" + ", ".join(written) + "}"
            data = text.encode("utf-8")
            return ToolCall(tool.name, convert(Match("", 0, len(data), data)), text, not is_loose)

        self._calls[label] = call
        self._so_far[label] = written_call(call)
        return ways[0] if len(ways) == 1 else Choice(tuple(ways))

    def _free_parameters(self, calls: Calls, tool: Tool, label: str) -> Node:
        """Return any number of arguments with any values. The names may be any; if the template writes a name twice,
        only names of the schema.
        """
        anything = replace(tool, arguments=json_schema({"type": "object"}, spelling=self._wanted.spelling), text=None)
        if sum(not isinstance(piece, str) and piece.kind == "key" for piece in calls.text_parameter) > 1:
            names = [key for key in tool.schema.get("properties", {}) if not self._fault_in(key, calls.text_parameter)]
            schema = {"type": "object", "properties": dict.fromkeys(names, True)}
            named = replace(tool, arguments=json_schema(schema, spelling=self._wanted.spelling), text=None)
            return self._parameters(calls, named, label, is_loose=True)
        value = f"{label}/value"
        name = Capture(f"{label}/key", _FREE_KEY)
        one = self._define(lambda _: self._argument(calls, anything, Argument("", True, False), value, {}, name))
        more = Repeat(Sequence((self._literal(calls.parameter_separator), one)))

        def call(match: Match) -> ToolCall:
            written: dict[str, str] = {}
            key = ""
            for child in match.children:
                if child.name == name.name:
                    key = child.text
                elif child.name.startswith(value):
                    written[key] = _as_json(child, calls)
            text = "{" + ", ".join(f"{_quoted(key)}: {given}" for key, given in written.items()) + "}"
            data = text.encode("utf-8")
            return ToolCall(tool.name, read_value(data), text, False)

        self._calls[label] = call
        self._so_far[label] = written_call(call)
        return Choice((Sequence((one, more)), EMPTY))

    def _argument(
        self, calls: Calls, tool: Tool, argument: Argument, label: str, keys: dict[str, str], name: Node | None = None
    ) -> Node:
        """Return the node for one argument; `keys` maps the captures in it to the argument's name.

        `name` is the node for the name, if it is not the argument's own.
        """
        if tool.text is not None and name is None:
            return self._custom(calls, tool.text, label, keys)
        if calls.values == "plain":
            by_type = any(not isinstance(piece, str) and piece.kind == "type" for piece in calls.json_parameter)
            exact = calls.text_parameter != calls.json_parameter
            given = tool.schema, argument, tool.json, self._limits
            return self._parameter(calls, parameter_of(*given, exact=exact, by_type=by_type), label, keys, name)
        if name is None and calls.values != "xml":
            check_key(argument.key, "")
            if calls.values != "delimited" and argument.key[0].isdigit():
                raise InvalidFormat(f"{argument.key!r} is no name in Python, as an argument's is in this layout")
        keys[label] = argument.key

        def scalar(part: Any) -> Node:
            name = f"{label}.{len(self._rules)}"
            return self._placed(self._lowered(tool.json.of(with_definitions(tool.schema, part))), name)

        if calls.values in ("python", "json"):
            written = self._python(calls, tool, argument, label)
        elif calls.values == "delimited":
            values = DelimitedValues(
                tool.schema, self._layout.markers, scalar, self._define, self._limits,
                tool.json.string_formats == "enforce", self._literal(calls.quote),
            )  # fmt: skip
            written = values.value(argument.schema, f"/properties/{argument.key}")
        else:

            def element(key: str, value: Node) -> Node:
                return self._filled(calls.text_parameter, key, value)

            elements = ElementValues(
                tool.schema, self._layout.markers, scalar, self._define, self._limits,
                tool.json.string_formats == "enforce", element,
            )  # fmt: skip
            written = elements.value(argument.schema, f"/properties/{argument.key}")
        return self._filled(calls.text_parameter, name or argument.key, Capture(label, written))

    def _python(self, calls: Calls, tool: Tool, argument: Argument, label: str) -> Node:
        """Return the node for a value as a Python literal."""

        def placed(format: JsonSchemaFormat) -> Node:
            lowered = format.to_grammar(self._limits)
            grammar = map_terminals(lowered.grammar, spelt, self._made)
            return self._placed(replace(lowered, grammar=grammar), label)

        def spelt(terminal: Terminal) -> Terminal:
            item = as_python(terminal, constants=calls.values == "python").item
            return Terminal(marker_free_text((*self._layout.markers, *calls.json_excludes), item))

        if not calls.quote:
            return placed(tool.json.of(with_definitions(tool.schema, argument.schema)))
        parameter = parameter_of(tool.schema, argument, tool.json, self._limits, exact=True)
        written = [placed(format) for _, format in parameter.others]
        if parameter.text is not None:
            text = Terminal(marker_free_text(self._layout.markers, in_quotes(parameter.text, calls.quote)))
            written.insert(0, Sequence((literal(calls.quote), text, literal(calls.quote))))
        return Choice(tuple(written)) if len(written) != 1 else written[0]

    def _define(self, make: Callable[[Node], Node]) -> Node:
        name = f".part {len(self._rules)}"
        self._rules[name] = EMPTY
        self._rules[name] = make(Reference(name))
        return Reference(name)

    def _parameter(
        self, calls: Calls, parameter: Parameter, label: str, keys: dict[str, str], name: Node | None
    ) -> Node:
        written: list[Node] = []
        key = name or parameter.key
        if parameter.text is not None:
            around = _TRIMMED if calls.strips else ()
            text = Terminal(marker_free_text(self._layout.markers, parameter.text, *around))
            if parameter.required and not parameter.others and decide_empty(text.item, _DECIDING)[0]:
                blanks = " or blanks around them" if calls.strips else ""
                reason = f"this layout can write none of its texts, as they have a marker in them{blanks}"
                raise UnsupportedSchema(reason, pointer=f"/properties/{parameter.key}", keyword="type")
            keys[f"{label} text"] = parameter.key
            written.append(self._filled(calls.text_parameter, key, Capture(f"{label} text", text)))
        for kind, format in parameter.others:
            suffix = f" {kind}" if kind else ""
            keys[f"{label}{suffix} json"] = parameter.key
            node = Capture(f"{label}{suffix} json", self._placed(self._lowered(format), f"{label}{suffix}"))
            written.append(self._filled(calls.json_parameter, key, node, kind))
            for each in _constants(format) if calls.python_constants else []:
                keys[f"{label} {each}"] = parameter.key
                node = Capture(f"{label} {each}", literal(each))
                written.append(self._filled(calls.json_parameter, key, node))
        return Choice(tuple(written))

    def _filled(self, template: tuple[Piece, ...], key: str | Node, value: Node, kind: str = "string") -> Node:
        if isinstance(key, str):
            if (fault := self._fault_in(key, template)) is not None:
                raise InvalidFormat(f"the layout {self._layout.name} cannot write the argument {key!r}, which {fault}")
            key = literal(key)
        slots = {"key": key, "type": literal(kind), "value": value}
        return Sequence(
            tuple(self._literal(piece) if isinstance(piece, str) else slots[piece.kind] for piece in template)
        )

    def _fault_in(self, key: str, template: tuple[Piece, ...]) -> str | None:
        """Say why a template cannot write a name, because readers would read another one; return None if it can."""
        if any(marker in key for marker in self._layout.markers):
            return "contains a marker"
        if key != key.strip() or not key:
            return "is empty, or has blanks at its edges"
        for piece, behind in pairwise(template):
            if piece == Slot("key") and isinstance(behind, str) and behind[0] in key:
                return f"contains {behind[0]!r}, where it ends for readers"
        return None

    def _lowered(self, format: Format, excluded: tuple[str, ...] = ()) -> Lowered:
        """Lower a tool's format without any marker or excluded text in it."""
        return marker_free_format(format, (*self._layout.markers, *excluded), self._limits)

    def _free(self, format: Format) -> Lowered:
        lowered = format.to_grammar(self._limits)
        grammar = marker_free_grammar(lowered.grammar, self._layout.markers, in_json=is_canonical(format))
        return replace(lowered, grammar=grammar)

    def _placed(self, lowered: Lowered, label: str) -> Node:
        """Add the rules of another format to this grammar, and return its node."""
        self._whys.append(lowered.why_empty)
        grammar = lowered.grammar.renamed(f"{label}.")
        self._rules.update(grammar.rules)
        return Reference(grammar.start)

    def _literal(self, text: str) -> Node:
        pieces = self._layout.pieces(text)
        nodes = tuple(Special(piece, or_text=True) if marker else literal(piece) for piece, marker in pieces)
        return nodes[0] if len(nodes) == 1 else Sequence(nodes)

    def _call_of(self, match: Match) -> ToolCall:
        inner = next(child for child in match.children if child.name in self._calls)
        return self._calls[inner.name](inner)

    def _answer_of(self, match: Match) -> ChatAnswer:
        content = None
        calls: list[ToolCall] = []
        thoughts: list[str] = []
        for child in match.children:
            if child.name == "reasoning":
                thoughts += [child.text] if child.text else []
            elif child.name == "content":
                content = self._converters["content"](child) if "content" in self._converters else child.text
            elif child.name == "tool_call":
                calls.append(self._call_of(child))
        return ChatAnswer("\n".join(thoughts) or None, None if content == "" else content, tuple(calls))


def _marker_free_json(item: Node, markers: tuple[str, ...]) -> Node:
    return marker_free_terminal(Terminal(item), markers, in_json=True).item if markers else item


def _of_tool(name: str, error: FormatterError) -> FormatterError:
    """Return the error with the name of the tool."""
    if isinstance(error, LimitExceeded):
        what = f"the tool {name!r} ({error.what})"
        return LimitExceeded(error.limit, error.maximum, what, is_fixed=error.is_fixed)
    told = error.advising(_REMEDY) if isinstance(error, UnsupportedSchema) else error
    return InvalidFormat(f"the tool {name!r} cannot be used: {told}")


def _constants(format: JsonSchemaFormat) -> list[str]:
    """Return the Python names of the constants that a schema of one type allows."""
    kind = format.schema.get("type") if isinstance(format.schema, dict) else None
    return {"boolean": ["True", "False"], "null": ["None"]}.get(str(kind), [])


def _as_json(value: Match, calls: Calls) -> str:
    """Return a separate argument as JSON: strings in quotes, Python's constants by their JSON names."""
    if calls.values in ("python", "json"):
        return json_of_python(value.text)
    if calls.values != "plain":
        return json_of_delimited(value, calls.quote) if calls.values == "delimited" else json_of_elements(value)
    if value.name.endswith(" json"):
        return value.text
    return _quoted(value.text) if value.name.endswith(" text") else _CONSTANTS[value.text]


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


def _child(match: Match, name: str) -> Match:
    return next(child for child in match.children if child.name == name)
