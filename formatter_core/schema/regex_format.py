"""Texts that are certainly regular expressions of ECMA 262, for the format `regex`.

Groups nest and names of groups differ, so that all regular expressions are no regular language: these are a part of
them. Each is one with the flag `u` and without it, and for Python's `re`, with which many validators check the format.
"""

from __future__ import annotations

from formatter_core.grammar import Bytes, Choice, Node, Repeat, Sequence, optional
from formatter_core.syntax.regex import parse_ecma

__all__ = ["REGEX_LEFT_OUT", "regex_node"]

#: What `regex_node` leaves out.
REGEX_LEFT_OUT = (
    "regular expressions with back-references, look-behind, names of groups, `\\p`, `\\c`, `\\0`, `\\u{…}`, groups "
    "nested more than four levels deep, and unusual counts or ranges of characters are left out"
)
_DEPTH = 4

_CHAR = r"[^$\\.*+?()[\]{}|^]"
_HEX = "[0-9A-Fa-f]"
_ESCAPED = rf"\\(?:[dDsSwWtnvfr^$\\.*+?()[\]{{}}|/]|x{_HEX}{{2}}|u(?:[0-9A-CEFa-cef]{_HEX}|[Dd][0-7]){_HEX}{{2}})"

#: A class of characters: what stands for itself in it, and ranges.
_IN_CLASS = rf"[^\\\[\]^-]|\\-|{_ESCAPED}"
_RANGES = "|".join(
    [
        *(f"{low}-[{low}-9]" for low in range(10)),
        "a-[a-z]|[b-y]-z|A-[A-Z]|[B-Y]-Z|[ !]-~",
        "À-Ö|Ø-ö|ø-ÿ|À-ÿ|à-ÿ|α-ω|Α-Ω|а-я|А-Я|ぁ-ん|ァ-ヶ|一-龥|一-鿿|가-힣",
        r"\\x00-\\x(?:1[fF]|7[fF])|\\x20-\\x7[eE]|\\u0000-\\u(?:001[fF]|007[fF])|\\u4[eE]00-\\u9(?:[fF]{2}|fa5|FA5)",
        r"\\u0(?:0[cC]0-\\u00|400-\\u04|600-\\u06)[fF]{2}",
    ]
)
#: Numbers, and two in order: those of one digit, those with more digits or more tens.
_COUNTS = "|".join(
    [
        "(?:0|[1-9][0-9]{0,3}),?",
        *(f"{low},[{low}-9]" for low in range(10)),
        *(f"{tens}[0-9],[{tens + 1}-9][0-9]" for tens in range(1, 9)),
        "[0-9],[1-9][0-9]{1,3}|[1-9][0-9],[1-9][0-9]{2,3}|[1-9][0-9]{2},[1-9][0-9]{3}",
    ]
)


def regex_node() -> Node:
    """Make the node of these texts."""
    quantifier = _whole(rf"(?:(?:[*+?]|\{{(?:{_COUNTS})\}})\??)?")
    one_in_class = f"(?:{_IN_CLASS}|{_RANGES})"
    atom = _whole(rf"\.|{_CHAR}|{_ESCAPED}|\[\^?(?:-|{one_in_class})(?:{one_in_class}|\^)*-?\]")
    assertion = _whole(r"[$^|]|\\[bB]")
    # An empty alternative is one, too: `|` may stand anywhere.
    inside: Node = Repeat(Choice((assertion, Sequence((atom, quantifier)))))
    for _ in range(_DEPTH):
        group = Sequence((Bytes(b"("), optional(Bytes(b"?:")), inside, Bytes(b")")))
        before, inside = inside, Repeat(Choice((assertion, Sequence((Choice((atom, group)), quantifier)))))
    ahead = Sequence((_whole(r"\(\?[=!]"), before, Bytes(b")")))
    return Repeat(Choice((assertion, ahead, Sequence((Choice((atom, group)), quantifier)))))


def _whole(pattern: str) -> Node:
    return parse_ecma(f"^(?:{pattern})$")
