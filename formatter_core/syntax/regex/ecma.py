"""ECMA 262 syntax, for the keyword `pattern` of JSON Schema: ECMA-262, section 22.2.1, with the flag `u`.

The node matches every whole text in which the pattern is found somewhere, as `pattern` means it. What is malformed
under `u` but well formed in Annex B (B.1.2), as many real schemas are (`\\-`, `\\_`, a lone `]` or `{`, `[\\w-.]`,
a quantified look-ahead), is read as Annex B reads it; code points, `\\u{…}` and `\\p{…}` keep their meaning under `u`.
What schemas take over from Python and Rust, malformed under `u` too, is read as both mean it: `\\A`, `\\z`,
`(?P<name>…)`, and flags for the whole pattern at its beginning, as in `(?i)a`. Only what validators understand
differently is refused: other escaped letters and digits without a meaning in ECMA 262 (`\\Z`, `\\a`, `\\1` without a
group). Group names carry no meaning here.

Anchors, word boundaries, look-ahead, and look-behind of one character are exact; back-references are refused.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial
from typing import ClassVar

from formatter_core.grammar import ANY_TEXT, Node, nullable
from formatter_core.limits import DEFAULT_LIMITS, Limits
from formatter_core.syntax.regex import classes
from formatter_core.syntax.regex.classes import Ranges
from formatter_core.syntax.regex.lower import lower
from formatter_core.syntax.regex.scanner import Scanner
from formatter_core.syntax.regex.tree import Alternate, Anchor, Concat, Look, Tree, char, concat, is_node

__all__ = ["parse_ecma"]

_IGNORE_CASE, _DOT_ALL, _MULTI_LINE, _VERBOSE = 1, 2, 4, 8
_FLAGS = {"i": _IGNORE_CASE, "s": _DOT_ALL, "m": _MULTI_LINE, "x": _VERBOSE, "u": 0}
_LINE_ENDS: Ranges = ((0x0A, 0x0A), (0x0D, 0x0D), (0x2028, 0x2029))
_CONTROLS = {"f": 0x0C, "n": 0x0A, "r": 0x0D, "t": 0x09, "v": 0x0B}
_HYPHEN = classes.single(0x2D)
_PLAIN_RUN = re.compile(r"[^\\.+*?()|\[{^$\ud800-\udfff]+")
#: As Python and Rust have them: for the whole pattern.
_WHOLE_FLAGS = re.compile(r"\(\?([imsux]+)\)")
#: What a verbose pattern ignores outside of classes.
_IGNORED = re.compile(r"[ \t\n\r\f\v]+|#[^\n]*")
_COUNT = re.compile(r"\{([0-9]+)(?:(,)([0-9]*))?\}")
_GROUP = re.compile(r"\?(?:P?<([\w$]+)>|([ims]*)(-[ims]*)?:|(<?[=!]))")
_PAIR = r"([dD][89abAB][0-9A-Fa-f]{2})\\u([dD][c-fC-F][0-9A-Fa-f]{2})"
_CODE_UNITS = re.compile(r"u(?:\{([0-9A-Fa-f]+)\}|" + _PAIR + "|([0-9A-Fa-f]{4}))")


def parse_ecma(pattern: str, limits: Limits = DEFAULT_LIMITS) -> Node:
    """Read a pattern of JSON Schema: the node matches the whole texts that contain a match.

    Raises:
        InvalidRegex: a fault in the pattern, or something that is not expressed exactly, with its position.
        LimitExceeded: a count above `limits.repeat`, nesting above `limits.depth`, or too many nodes.
    """
    tree = _EcmaReader(pattern, limits).read()
    if is_node(tree) and nullable(tree):
        return ANY_TEXT
    return lower(concat((ANY_TEXT, tree, ANY_TEXT)), pattern, limits)


def _space() -> Ranges:
    """`\\s` (WhiteSpace and LineTerminator, ECMA-262, sections 12.2 and 12.3)."""
    return classes.union(classes.category("zs") or (), ((0x09, 0x0D), (0xFEFF, 0xFEFF)), _LINE_ENDS)


class _EcmaReader(Scanner):
    def __init__(self, pattern: str, limits: Limits) -> None:
        super().__init__(pattern, limits)
        self._classes: dict[tuple[str, int], tuple[int, Tree]] = {}

    def read(self) -> Tree:
        if flags := _WHOLE_FLAGS.match(self.pattern):
            self.at = flags.end()
            for one in flags[1]:
                self.flags |= _FLAGS[one]
        while self.at < len(self.pattern):
            if self.flags & _VERBOSE and (ignored := _IGNORED.match(self.pattern, self.at)):
                self.at = ignored.end()
            elif self.flags & (_IGNORE_CASE | _VERBOSE) or not self.read_run(_PLAIN_RUN):
                self._STEPS.get(self.pattern[self.at], _EcmaReader._read_character)(self)
        return self.finish()

    def _read_character(self) -> None:
        self.at += 1
        self.add(char(self._folded(classes.single(ord(self.pattern[self.at - 1])))))

    def _folded(self, ranges: Ranges) -> Ranges:
        return classes.fold(ranges) if self.flags & _IGNORE_CASE else ranges

    def _read_dot(self) -> None:
        self.at += 1
        self.add(char(classes.ALL if self.flags & _DOT_ALL else classes.negation(_LINE_ENDS)))

    def _read_anchor(self) -> None:
        if self.flags & _MULTI_LINE:
            raise self.error("anchors are not supported with the flag m; match the newlines as characters", self.at)
        self.add(Anchor(self.pattern[self.at] == "$", self.at))
        self.forbid_quantifier()
        self.at += 1

    def _read_quantifier(self) -> None:
        start = self.at
        minimum, maximum = {"*": (0, None), "+": (1, None), "?": (0, 1)}[self.pattern[start]]
        self.at += 1
        self._repeat(minimum, maximum, start)

    def _read_count(self) -> None:
        start = self.at
        count = _COUNT.match(self.pattern, start)
        if count is None:  # Annex B: a character
            self._read_character()
            return
        minimum = self._number(count[1])
        maximum = minimum if count[2] is None else self._number(count[3]) if count[3] else None
        self.at = count.end()
        self._repeat(minimum, maximum, start)

    def _repeat(self, minimum: int, maximum: int | None, start: int) -> None:
        self.repeat(minimum, maximum, not self.take("?"), start)
        self.forbid_quantifier()

    def _number(self, digits: str) -> int:
        """A count; with too many digits, any number above the limit."""
        return int(digits) if len(digits) < 20 else self.limits.repeat + 1

    def _read_open(self) -> None:
        start = self.at
        self.at += 1
        if self.peek() != "?":
            self.open(start)
            return
        group = _GROUP.match(self.pattern, self.at)
        if group is None or (group[1] and group[1][0].isdigit()):
            reason = "a group begins with `(`, `(?:`, `(?<name>`, `(?i:` or a look-around such as `(?=`"
            raise self.error(f"{reason}; flags for all stand at the beginning", start)
        self.at = group.end()
        if group[4]:
            self.open(start, partial(_look, sign=group[4], position=start))
            return
        self.open(start)
        for one in group[2] or "":
            self.flags |= _FLAGS[one]
        for one in (group[3] or "")[1:]:
            self.flags &= ~_FLAGS[one]

    def _read_escape(self) -> None:
        start, kind = self.at, self.peek(1)
        if kind in ("b", "B"):
            self.at += 2
            self.add(self._boundary(kind == "B", start))
            self.forbid_quantifier()
        elif kind in ("A", "z"):
            self.at += 2
            self.add(Anchor(kind != "A", start))
            self.forbid_quantifier()
        else:
            self.add(char(self._folded(self._read_escaped(in_class=False)[0])))

    def _boundary(self, negated: bool, position: int) -> Tree:
        word = char(self._word())

        def look(ahead: bool, refused: bool) -> Look:
            return Look(word, ahead, refused, position)

        return Alternate(
            (
                Concat((look(False, False), look(True, not negated))),
                Concat((look(False, True), look(True, negated))),
            )
        )

    def _word(self) -> Ranges:
        """`\\w` (WordCharacters, section 22.2.2.9.3)."""
        return self._folded(classes.POSIX["word"])

    def _read_escaped(self, in_class: bool) -> tuple[Ranges, int | None]:
        """The set that an escape denotes, and its code point if it is one character rather than a class."""
        start, kind = self.at, self.peek(1)
        self.at += 2
        if not kind:
            raise self.error("the pattern ends inside an escape; write `\\\\` for a backslash", start)
        if kind in "dDsSwW":
            ranges = {"d": lambda: classes.POSIX["digit"], "s": _space, "w": self._word}[kind.lower()]()
            return (classes.negation(ranges) if kind.isupper() else ranges), None
        if kind in "pP":
            return self._read_property(kind == "P", start), None
        code = self._read_code(kind, start, in_class)
        return classes.single(code), code

    def _read_code(self, kind: str, start: int, in_class: bool) -> int:
        """The code point of an escape for one character."""
        if kind in _CONTROLS:
            return _CONTROLS[kind]
        if kind == "0" and not self.peek().isdigit():
            return 0
        if kind == "b" and in_class:
            return 0x08
        if kind == "c" and self.peek().isascii() and self.peek().isalpha():
            self.at += 1
            return ord(self.pattern[self.at - 1]) % 32
        if kind == "x" and (digits := re.compile("[0-9A-Fa-f]{2}").match(self.pattern, self.at)):
            self.at = digits.end()
            return int(digits[0], 16)
        if kind == "u" and (units := _CODE_UNITS.match(self.pattern, start + 1)):
            self.at = units.end()
            if units[2]:
                return 0x10000 + (int(units[2], 16) - 0xD800) * 0x400 + int(units[3], 16) - 0xDC00
            code = int(units[1] or units[4], 16)
            if code > 0x10FFFF:
                raise self.error(f"U+{code:X} is not a Unicode character; use at most U+10FFFF", start)
            return code
        if kind == "0":
            raise self.error("an octal escape is not supported; write `\\x` and two hexadecimal digits", start)
        if kind == "k" or (kind.isascii() and kind.isdigit()):
            raise self.error(
                f"the back-reference `\\{kind}` is not regular, so it is not supported; write the alternatives out",
                start,
            )
        if kind.isascii() and kind.isalpha():
            raise self.error(f"`\\{kind}` is not an escape of ECMA 262; write `\\\\` for a backslash", start)
        return ord(kind)

    def _read_property(self, negated: bool, start: int) -> Ranges:
        """`\\p{L}`, `\\p{Script=Greek}`, `\\p{Emoji}`; names ignore case."""
        end = self.pattern.find("}", self.at)
        if self.peek() != "{" or end < 0:
            raise self.error("a Unicode property is written `\\p{…}`", start)
        text, self.at = self.pattern[self.at + 1 : end], end + 1
        name, sign, value = text.partition("=")
        name, value = classes.normal_name(name), classes.normal_name(value)
        found: Ranges | None = None
        if not sign:
            found = classes.category(name)
            found = classes.binary(name) if found is None else found
        elif name in ("gc", "generalcategory"):
            found = classes.category(value)
        elif name in ("sc", "script", "scx", "scriptextensions"):
            found = classes.script(value, extensions=name.startswith(("scx", "scripte")))
        if found is None:
            raise self.error(f"{text!r} is not a known Unicode property; write a script as `\\p{{Script=…}}`", start)
        return classes.negation(found) if negated else found

    def _read_class(self) -> None:
        start = self.at
        # The same class often comes again. No class ends before the first bracket.
        again = self._classes.get((self.pattern[start : self.pattern.find("]", start + 1) + 1], self.flags))
        if again is not None:
            self.at += again[0]
            self.add(again[1])
            return
        self.at += 1
        negated = self.take("^")
        members = classes.Members()
        while not self.take("]"):
            if not self.peek():
                raise self.error("this class is not closed; add `]`, or write `\\[` for the character", start)
            self.collect(members, self._read_member())
        ranges = self._folded(members.union())
        node = char(classes.negation(ranges) if negated else ranges)
        self._classes[self.pattern[start : self.at], self.flags] = self.at - start, node
        self.add(node)

    def _read_member(self) -> Ranges:
        """A character, a range or an escaped class inside brackets."""
        start = self.at
        low, low_code = self._read_single()
        if self.peek() != "-" or self.peek(1) in ("]", ""):
            return low
        self.at += 1
        high, high_code = self._read_single()
        if low_code is None or high_code is None:  # Annex B: the hyphen is a character
            return classes.union(low, _HYPHEN, high)
        if low_code > high_code:
            raise self.error("a range in a class ends before it begins; swap its ends", start)
        return classes.ranges_of([(low_code, high_code)])

    def _read_single(self) -> tuple[Ranges, int | None]:
        """A set inside brackets, and its code point if it is written as one character."""
        if self.peek() == "\\":
            return self._read_escaped(in_class=True)
        code = ord(self.peek())
        self.at += 1
        return classes.single(code), code

    _STEPS: ClassVar[dict[str, Callable[[_EcmaReader], None]]] = {
        "\\": _read_escape,
        ".": _read_dot,
        "[": _read_class,
        "(": _read_open,
        ")": Scanner.read_close,
        "|": Scanner.read_bar,
        "^": _read_anchor,
        "$": _read_anchor,
        "*": _read_quantifier,
        "+": _read_quantifier,
        "?": _read_quantifier,
        "{": _read_count,
    }


def _look(item: Tree, *, sign: str, position: int) -> Tree:
    return Look(item, sign[0] != "<", sign[-1] == "!", position)
