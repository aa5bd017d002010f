"""Lark text -> grammar, in the dialect of llguidance: its documentation calls it a variant of Lark's syntax.

A text is divided into terminals in every way that fits; llguidance itself takes the longest terminal it can.
"""

from formatter_core.syntax.lark.reader import parse_lark

__all__ = ["parse_lark"]
