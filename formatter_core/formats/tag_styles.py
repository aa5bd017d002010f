"""Read schemas whose values a structural tag writes between tags, one by one: strings as they are, else JSON."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from formatter_core.formats.call_values import in_any_order
from formatter_core.formats.json_schema import JsonSchemaFormat, json_schema
from formatter_core.formats.parameters import Parameter, arguments_of, parameter_of
from formatter_core.grammar import Chars, Choice, Node, Repeat, Sequence, Terminal, literal, optional
from formatter_core.grammar.markers import marker_free_text
from formatter_core.limits import Limits
from formatter_core.schema import Spelling

__all__ = ["STYLES", "free_arguments", "styled"]

#: By style: the text before a string, before any other value, and after both; `KEY` is the name, `\n` any blanks.
STYLES = {
    "qwen_xml": ("<parameter=KEY>", "<parameter=KEY>", "</parameter>"),
    "minimax_xml": ('<parameter name="KEY">', '<parameter name="KEY">', "</parameter>"),
    "glm_xml": ("<arg_key>KEY</arg_key>\n<arg_value>", "<arg_key>KEY</arg_key>\n<arg_value>", "</arg_value>"),
    "deepseek_xml": (
        '<｜DSML｜parameter name="KEY" string="true">',
        '<｜DSML｜parameter name="KEY" string="false">',
        "</｜DSML｜parameter>",
    ),
    "deepseek_v4_1_xml": (
        '<｜DSML｜ parameter name="KEY" string="true">',
        '<｜DSML｜ parameter name="KEY" string="false">',
        "</｜DSML｜ parameter>",
    ),
}

_BLANKS = Repeat(Chars.of([(ord(blank), ord(blank)) for blank in " \t\r\n"]))

#: The name of an argument that no schema names.
_LETTERS = [(ord("A"), ord("Z")), (ord("_"), ord("_")), (ord("a"), ord("z"))]
_NAME = Terminal(
    Sequence((Chars.of(_LETTERS), Repeat(Chars.of([(ord("-"), ord(".")), (ord("0"), ord("9")), *_LETTERS]))))
)


def styled(
    schema: Mapping[str, Any],
    style: str,
    spelling: Spelling,
    lowered: Callable[[JsonSchemaFormat, str], Node],
    limits: Limits,
    *,
    any_order: bool,
) -> Node:
    """Return the named properties of an object, in the order of the schema or in any order.

    Args:
        schema: the schema of the object.
        style: one of `STYLES`.
        spelling: the spelling of values that are not strings.
        lowered: makes the node of values that are not strings, none of which contains the text that ends a value.
        limits: the maximum cost of reading the schema.
        any_order: whether the properties may come in any order.

    Raises:
        UnsupportedSchema: a keyword of the object cannot be enforced.
    """
    before_text, before_other, end = STYLES[style]
    exact = before_text != before_other
    options = json_schema(True, spelling=spelling)
    found: list[Node] = []
    for arguments in arguments_of(schema, schema, "", limits):
        parameters = [parameter_of(schema, each, options, limits, exact=exact) for each in arguments]
        found.append(_written(parameters, before_text, before_other, end, lowered, any_order=any_order))
    return Choice(tuple(found)) if len(found) != 1 else found[0]


def _written(
    parameters: Iterable[Parameter],
    before_text: str,
    before_other: str,
    end: str,
    lowered: Callable[[JsonSchemaFormat, str], Node],
    *,
    any_order: bool,
) -> Node:
    members: list[tuple[Node, bool]] = []
    for each in parameters:
        ways: list[Node] = []
        if each.text is not None:
            ways.append(
                Sequence((_opening(before_text, literal(each.key)), Terminal(marker_free_text((end,), each.text))))
            )
        for _, other in each.others:
            ways.append(Sequence((_opening(before_other, literal(each.key)), _BLANKS, lowered(other, end), _BLANKS)))
        members.append((Sequence((_BLANKS, Choice(tuple(ways)), literal(end))), each.required))
    if any_order:
        return Sequence((in_any_order(members, ""), _BLANKS))
    return Sequence((*(node if required else optional(node) for node, required in members), _BLANKS))


def free_arguments(style: str, lowered: Callable[[JsonSchemaFormat, str], Node]) -> Node:
    """Return any number of arguments with any names: strings, or JSON if the style distinguishes it from strings.

    Args:
        style: one of `STYLES`.
        lowered: the same as in `styled`.
    """
    before_text, before_other, end = STYLES[style]
    ways: list[Node] = [Sequence((_opening(before_text, _NAME), Terminal(marker_free_text((end,)))))]
    if before_other != before_text:
        ways.append(Sequence((_opening(before_other, _NAME), _BLANKS, lowered(json_schema(True), end), _BLANKS)))
    return Sequence((Repeat(Sequence((_BLANKS, Choice(tuple(ways)), literal(end)))), _BLANKS))


def _opening(template: str, key: Node) -> Node:
    parts: list[Node] = []
    for number, line in enumerate(template.split("\n")):
        before, is_key, after = line.partition("KEY")
        parts += ([_BLANKS] if number else []) + [literal(before)] + ([key, literal(after)] if is_key else [])
    return Sequence(tuple(parts))
