"""Lower formats so that some markers do not occur in their texts."""

from __future__ import annotations

from dataclasses import replace

from formatter_core.formats.json_schema import JsonSchemaFormat
from formatter_core.formats.protocol import Format, Lowered
from formatter_core.formats.python_type import PythonTypeFormat
from formatter_core.grammar import Node, Schema, Terminal, children
from formatter_core.grammar.markers import marker_free_grammar
from formatter_core.limits import Limits
from formatter_core.limits.cache import ByteBoundedCache

__all__ = ["forget_tools", "is_canonical", "marker_free_format"]

#: The lowered tools, each with its format (whose key may be its identity) and its approximate size in bytes.
_lowered: ByteBoundedCache[tuple[Format, Lowered, int]] = ByteBoundedCache(64 << 20, lambda entry: entry[2])
_BYTES_OF_NODE, _BYTES_OF_TERMINAL, _BYTES_PER_CHARACTER = 200, 4000, 200


def marker_free_format(format: Format, markers: tuple[str, ...], limits: Limits) -> Lowered:
    """Return a format lowered and checked, without a marker in its texts; tools are cached."""

    def lower() -> tuple[Format, Lowered, int]:
        lowered = format.to_grammar(limits)
        grammar = marker_free_grammar(lowered.grammar, markers, in_json=is_canonical(format))
        grammar.check(limits)
        return format, replace(lowered, grammar=grammar), sum(map(_bytes_of, grammar.rules.values()))

    return _lowered.get((format.key(), markers, limits), lower)[1]


def forget_tools() -> None:
    """Drop the cached tools."""
    _lowered.clear()


def is_canonical(format: Format) -> bool:
    """Return whether a format is JSON in canonical spelling."""
    made = format.schema if isinstance(format, PythonTypeFormat) else format
    return isinstance(made, JsonSchemaFormat) and made.spelling == "canonical"


def _bytes_of(node: Node) -> int:
    """Estimate the bytes that a node takes: most terminals are shared, and few schemas are lowered here."""
    if isinstance(node, Schema):
        return _BYTES_PER_CHARACTER * len(node.source.text)
    if isinstance(node, Terminal):
        return _BYTES_OF_TERMINAL
    return _BYTES_OF_NODE + sum(map(_bytes_of, children(node)))
