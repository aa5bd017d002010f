"""Messages for the patterns that the library refuses; `regular/regex/fault.rs` defines the reasons as numbers."""

from __future__ import annotations

from formatter_core.errors import FormatterError, InvalidRegex, LimitExceeded

__all__ = ["fault_in"]

#: `{one}` is the character at the position, `{kind}` that after it; `{piece}` is the part of the pattern between the
#: two numbers that come with the reason, which are `{first}` and `{second}`.
_SENTENCES = {
    1: "this quantifier has nothing to repeat; escape it for the character",
    2: "minimum exceeds maximum in {{{first},{second}}}; swap them",
    3: "this `)` closes no group; remove it, or write `\\)` for the character",
    4: "this group is not closed; add `)`, or write `\\(` for the character",
    5: "the pattern ends inside an escape; write `\\\\` for a backslash",
    6: "this class is not closed; add `]`, or write `\\[` for the character",
    7: "a range in a class ends before it begins; swap its ends",
    8: "U+{digits} is not a Unicode character; use at most U+10FFFF",
    9: "the back-reference `\\{kind}` is not regular, so it is not supported; write the alternatives out",
    10: "look-behind is supported for one character only; match what precedes as part of the pattern",
    11: "an assertion in a repeat is supported only if it is a look-ahead and each round takes the same number "
    "of characters; bound the repeat by a count of at most {first}",
    12: "a look-around in a repeat needs an end that the repeat cannot take; write one, or bound the "
    "repeat by a count of at most {first}",
    13: "a named group cannot stand in a look-around, nor after a look-ahead that reaches it; leave its name out",
    20: "anchors are not supported with the flag m; match the newlines as characters",
    21: "a group begins with `(`, `(?:`, `(?<name>`, `(?i:` or a look-around such as `(?=`; flags for all stand at the "
    "beginning",
    22: "an octal escape is not supported; write `\\x` and two hexadecimal digits",
    23: "`\\{kind}` is not an escape of ECMA 262; write `\\\\` for a backslash",
    24: "a Unicode property is written `\\p{{…}}`",
    25: "{piece!r} is not a known Unicode property; write a script as `\\p{{Script=…}}`",
    40: "anchors are not supported under (?m); match the newlines as characters",
    41: "a repeat is `{{m}}`, `{{m,}}` or `{{m,n}}`; write `\\{{` to mean the character",
    42: "the look-around `({piece}` is not supported here; spell out what may stand there, or use "
    "`formats.regex` or `pattern` in a JSON Schema, which take look-around",
    43: "a group's name begins with a letter or `_` and ends with `>`",
    44: "a group's name has only letters, digits and the characters `_.[]`",
    45: "the group name {piece!r} is used twice; give each group its own name",
    46: "{one!r} is not a flag here; the flags are i, m, s, U, u, R and x",
    47: "flags are missing; a group without a name and flags begins with `(?:`",
    48: "the word boundary `\\{kind}` is not supported; write the characters beside it instead",
    49: "`\\{kind}` is not an escape of this syntax; write `\\\\` for a backslash",
    50: "`\\{kind}`, a back-reference or octal escape, is not supported; write `\\x{{…}}` for a character",
    51: "this escape has no hexadecimal digits; write `\\x41`, `\\u0041` or `\\x{{41}}`",
    52: "this property is not closed; add `}}`",
    53: "{piece!r} is not a known general category, script or binary property; check its spelling",
    54: "`\\{kind}` is not a character; take it out of the class",
    55: "a range in a class goes from one character to another; write `\\-` for a hyphen",
    56: "a lone surrogate occurs in no UTF-8 text; remove it",
    57: "`.` under (?-u) matches bytes that are not UTF-8; leave (?-u) out",
    58: "`[^` under (?-u) matches bytes that are not UTF-8; leave (?-u) out",
    59: "`[:^` under (?-u) matches bytes that are not UTF-8; leave (?-u) out",
    60: "`\\{kind}` under (?-u) matches bytes that are not UTF-8; leave (?-u) out",
    61: "a byte above 7F under (?-u) is not UTF-8; leave (?-u) out",
    62: "a class under (?-u) is ASCII; leave (?-u) out",
    63: "a Unicode property cannot stand under (?-u); leave (?-u) out",
}
#: The limits that a pattern exceeds, and where.
_LIMITS = {
    80: ("nodes", "the pattern"),
    81: ("depth", "the pattern"),
    82: ("depth", "the nesting of the pattern's groups"),
    83: ("depth", "the nesting of the pattern's classes"),
    84: ("repeat", "the repeat at position {position} of the pattern"),
    85: ("work", "reading the pattern's classes"),
    86: ("work", "expressing the pattern's assertions"),
}
_NOT_A_CHARACTER = 8


def fault_in(
    pattern: str, reason: int, position: int, numbers: tuple[int, int], limits: dict[str, int]
) -> FormatterError:
    """Make the error for a reason; `limits` are those that the pattern was read with."""
    if reason in _LIMITS:
        name, where = _LIMITS[reason]
        return LimitExceeded(name, limits[name], where.format(position=position))
    piece = pattern[slice(*numbers)]
    sentence = _SENTENCES[reason].format(
        one=pattern[position : position + 1],
        kind=pattern[position + 1 : position + 2],
        piece=piece,
        first=numbers[0],
        second=numbers[1],
        digits=f"{int(piece, 16):04X}" if reason == _NOT_A_CHARACTER else "",
    )
    return InvalidRegex(sentence, pattern=pattern, position=position)
