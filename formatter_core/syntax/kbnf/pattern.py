"""Regular nodes -> Rust patterns: the inverse of `parse_rust`, for people to read."""

from __future__ import annotations

from functools import lru_cache

from formatter_core.grammar import Bytes, Capture, Chars, Choice, Node, Repeat, Sequence, Terminal, children, walk
from formatter_core.syntax.regex import parse_rust

__all__ = ["count_mark", "to_rust"]

# Precedence of a pattern; a pattern of lower precedence than its context needs goes into a group.
_ALTERNATIVES, _SEQUENCE, _REPEATED, _PRIMARY = range(4)

_NO_CHARACTER = r"[^\s\S]"
_MARKS = frozenset("\\.+*?()|[]{}^$")
_CLASS_MARKS = frozenset("\\[]^-&~")
_CONTROLS = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}
_SHORT_MARKS = {(0, 1): "?", (0, None): "*", (1, None): "+"}


def to_rust(node: Node) -> str | None:
    """Write a pattern in Rust syntax with the node's language, captures and preferences; None if there is none.

    There is one for `Bytes` that are UTF-8 text, `Chars`, and `Sequence`, `Choice`, `Repeat`, `Terminal` and, each
    name once, `Capture` of what has one.
    """
    names = [part.name for part in walk(node) if isinstance(part, Capture)]
    if len(set(names)) < len(names) or not all(_is_group_name(name) for name in names):
        return None
    written = _written(node)
    return None if written is None else written[0]


def count_mark(node: Repeat) -> str:
    """Write the quantifier, which regexes and KBNF share: `*`, `{2,5}`, `+?` …"""
    bounds = (node.minimum, node.maximum)
    if bounds in _SHORT_MARKS:
        mark = _SHORT_MARKS[bounds]
    elif node.minimum == node.maximum:
        mark = f"{{{node.minimum}}}"
    else:
        mark = f"{{{node.minimum},{'' if node.maximum is None else node.maximum}}}"
    return mark if node.greedy else mark + "?"


def _written(node: Node) -> tuple[str, int] | None:
    if isinstance(node, Bytes):
        return _text(node.value)
    if isinstance(node, Chars):
        return _class(node), _PRIMARY
    if not isinstance(node, (Sequence, Choice, Repeat, Terminal, Capture)):
        return None
    parts = []
    for child in children(node):
        part = _written(child)
        if part is None:
            return None
        parts.append(part)
    if isinstance(node, Repeat):
        return _inside(parts[0], _PRIMARY) + count_mark(node), _REPEATED
    if isinstance(node, Capture):
        return f"(?P<{node.name}>{parts[0][0]})", _PRIMARY
    if len(parts) == 1:
        return parts[0]
    if isinstance(node, Sequence):
        return ("".join(_inside(part, _SEQUENCE) for part in parts), _SEQUENCE) if parts else ("(?:)", _PRIMARY)
    return ("|".join(text for text, _ in parts), _ALTERNATIVES) if parts else (_NO_CHARACTER, _PRIMARY)


def _is_group_name(name: str) -> bool:
    return (name[:1] == "_" or name[:1].isalpha()) and all(char.isalnum() or char in "_.[]" for char in name)


def _inside(part: tuple[str, int], needed: int) -> str:
    text, precedence = part
    return text if precedence >= needed else f"(?:{text})"


def _text(value: bytes) -> tuple[str, int] | None:
    try:
        text = value.decode("utf-8")
    except UnicodeDecodeError:
        return None
    escaped = "".join(_char(ord(char), _MARKS) for char in text)
    return (escaped, _PRIMARY if len(text) == 1 else _SEQUENCE) if text else ("(?:)", _PRIMARY)


def _class(node: Chars) -> str:
    if not node.ranges:
        return _NO_CHARACTER
    short = _short_classes().get(node.ranges)
    if short is not None:
        return short
    others = _others(node)
    if len(others.ranges) < len(node.ranges):
        return f"[^{_ranges(others)}]"
    return f"[{_ranges(node)}]"


@lru_cache(maxsize=1)
def _short_classes() -> dict[tuple[tuple[int, int], ...], str]:
    shorts = (r"\d", r"\D", r"\s", r"\S", r"\w", r"\W", ".", "(?s:.)")
    parsed = ((parse_rust(short), short) for short in shorts)
    return {node.ranges: short for node, short in parsed if isinstance(node, Chars)}


def _others(node: Chars) -> Chars:
    edges = [-1, *(edge for bounds in node.ranges for edge in bounds), 0x110000]
    return Chars.of((low + 1, high - 1) for low, high in zip(edges[::2], edges[1::2], strict=True) if low + 1 < high)


def _ranges(node: Chars) -> str:
    ends = ((_char(low, _CLASS_MARKS), _char(high, _CLASS_MARKS)) for low, high in node.ranges)
    return "".join(low if low == high else f"{low}-{high}" for low, high in ends)


def _char(code_point: int, marks: frozenset[str]) -> str:
    char = chr(code_point)
    if char in marks:
        return "\\" + char
    return char if char.isprintable() else _CONTROLS.get(char, f"\\u{{{code_point:X}}}")
