"""Patterns in Rust syntax and in that of ECMA 262, read by the native library: `regex/rust.rs` and `regex/ecma.rs`."""

from __future__ import annotations

import ctypes
import sys
from struct import Struct

from formatter_core.engine.native_calls import LibraryBytes
from formatter_core.engine.native_library import check, load
from formatter_core.grammar import Node
from formatter_core.limits import DEFAULT_LIMITS, Limits
from formatter_core.syntax.regex.decode import read_nodes
from formatter_core.syntax.regex.faults import fault_in

__all__ = ["escape", "parse_ecma", "parse_rust"]

_RUST, _ECMA, _RUST_WITH_LOOK = 0, 1, 2
_META = r"\.+*?()|[]{}^$#&-~"
_CODE_POINTS = f"utf-32-{sys.byteorder[0]}e"
_BOUNDS = Struct("4Q")
_LIMITS = ("nodes", "repeat", "depth", "work")
#: The largest bounds of the library: a count has 32 bits, and what is nested deeper fits on no stack.
_LARGEST = (2**63, 2**32 - 2, 250, 2**63)


class _Found(ctypes.Structure):
    """`Pattern` in the library."""

    _fields_ = (
        ("nodes", LibraryBytes),
        ("position", ctypes.c_uint64),
        ("numbers", ctypes.c_uint64 * 2),
        ("reason", ctypes.c_uint32),
    )


def parse_rust(pattern: str, limits: Limits = DEFAULT_LIMITS, *, look_around: bool = False) -> Node:
    """Read a pattern in Rust syntax: the node matches the texts that match as a whole.

    `(?P<name>…)` and `(?<name>…)` become a `Capture`; other groups only group. Nothing is wrapped in a `Terminal`.

    Args:
        pattern: the pattern.
        limits: what it may cost.
        look_around: whether to allow look-around and word boundaries, for which the text ends where the node does.

    Raises:
        InvalidRegex: a fault in the pattern, or something that is not regular, with its position.
        LimitExceeded: a count above `limits.repeat`, nesting above `limits.depth`, or too many nodes.
    """
    return _parse(pattern, _RUST_WITH_LOOK if look_around else _RUST, limits)


def parse_ecma(pattern: str, limits: Limits = DEFAULT_LIMITS) -> Node:
    """Read a pattern of JSON Schema: the node matches the whole texts that contain a match.

    Raises:
        InvalidRegex: a fault in the pattern, or something that is not expressed exactly, with its position.
        LimitExceeded: a count above `limits.repeat`, nesting above `limits.depth`, or too many nodes.
    """
    return _parse(pattern, _ECMA, limits)


def escape(text: str) -> str:
    """Return the pattern in Rust syntax that matches exactly this text."""
    return "".join("\\" + character if character in _META else character for character in text)


def _parse(pattern: str, dialect: int, limits: Limits) -> Node:
    bounds = [min(getattr(limits, name), most) for name, most in zip(_LIMITS, _LARGEST, strict=True)]
    found = _Found()
    data = pattern.encode(_CODE_POINTS, "surrogatepass")
    check(load().fcn_pattern_read(data, len(pattern), dialect, _BOUNDS.pack(*bounds), ctypes.byref(found)))
    if found.reason:
        numbers = (found.numbers[0], found.numbers[1])
        raise fault_in(pattern, found.reason, found.position, numbers, dict(zip(_LIMITS, bounds, strict=True)))
    return read_nodes(found.nodes.copied())
