"""Schemas whose values a structural tag writes between tags, one by one: text as it is, anything else as JSON."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from formatter_core.formats.call_values import in_any_order
from formatter_core.formats.json_schema import JsonSchemaFormat
from formatter_core.formats.marker_free import marker_free_text
from formatter_core.formats.parameters import parameters_of
from formatter_core.grammar import Chars, Choice, Node, Repeat, Sequence, Terminal, literal, optional
from formatter_core.schema import Spelling

__all__ = ["STYLES", "styled"]

#: By style: what stands before text, before anything else, and behind both; `KEY` is the name, `\n` any blanks.
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


def styled(
    schema: Mapping[str, Any],
    style: str,
    spelling: Spelling,
    lowered: Callable[[JsonSchemaFormat, str], Node],
    *,
    any_order: bool,
) -> Node:
    """The named properties of an object, in the order of the schema or in any.

    Args:
        schema: of the object.
        style: one of `STYLES`.
        spelling: of the values that are not text.
        lowered: makes a node of values that are not text, none of which spells the text that ends a value.
        any_order: whether the properties come in any order.

    Raises:
        UnsupportedSchema: a keyword of the object, or a value that may be text or something else.
    """
    before_text, before_other, end = STYLES[style]
    members: list[tuple[Node, bool]] = []
    for each in parameters_of(schema, spelling):
        ways: list[Node] = []
        if each.text is not None:
            ways.append(Sequence((_opening(before_text, each.key), Terminal(marker_free_text((end,), each.text)))))
        if each.other is not None:
            ways.append(Sequence((_opening(before_other, each.key), _BLANKS, lowered(each.other, end), _BLANKS)))
        members.append((Sequence((_BLANKS, Choice(tuple(ways)), literal(end))), each.required))
    if any_order:
        return Sequence((in_any_order(members, ""), _BLANKS))
    return Sequence((*(node if required else optional(node) for node, required in members), _BLANKS))


def _opening(template: str, key: str) -> Node:
    first, *others = (literal(part.replace("KEY", key)) for part in template.split("\n"))
    return Sequence((first, *(each for part in others for each in (_BLANKS, part))))
