"""The string formats of JSON Schema (2020-12 validation, section 7.3) as regular languages of texts.

Three are not regular: `regex`, `idn-hostname`, and from draft 7 on `hostname`, whose labels may be Punycode. Of these
we allow a part that is regular; `left_out` says what is not in it.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

from formatter_core.grammar import (
    ANY_CHAR,
    Bytes,
    Chars,
    Choice,
    Intersection,
    Node,
    Repeat,
    Sequence,
    interned,
    literal,
)
from formatter_core.schema.regex_format import REGEX_LEFT_OUT, regex_node
from formatter_core.schema.spelling import Spelling, spell
from formatter_core.syntax.regex import parse_ecma

__all__ = [
    "DEFINED",
    "format_node",
    "left_out",
    "name_in",
    "spelled_format",
    "wide_name",
]

_HOUR = "(?:[01][0-9]|2[0-3])"
_MINUTE = "[0-5][0-9]"
_OFFSET = rf"[+-]{_HOUR}:{_MINUTE}"
_FRACTION = r"(?:\.[0-9]+)?"
_LEAP_YEAR = "(?:[0-9]{2}(?:0[48]|[2468][048]|[13579][26])|(?:[02468][048]|[13579][26])00)"

#: RFC 3339, section 5.6. Only a leap year has a 29th of February.
_DATE = (
    "(?:[0-9]{4}-(?:(?:0[13578]|1[02])-(?:0[1-9]|[12][0-9]|3[01])|(?:0[469]|11)-(?:0[1-9]|[12][0-9]|30)"
    f"|02-(?:0[1-9]|1[0-9]|2[0-8]))|{_LEAP_YEAR}-02-29)"
)
_TIME = f"{_HOUR}:{_MINUTE}:{_MINUTE}{_FRACTION}(?:[Zz]|{_OFFSET})"

#: RFC 3339, appendix A.
_TIME_PARTS = "T(?:[0-9]+H(?:[0-9]+M(?:[0-9]+S)?)?|[0-9]+M(?:[0-9]+S)?|[0-9]+S)"
_DATE_PARTS = "(?:[0-9]+Y(?:[0-9]+M(?:[0-9]+D)?)?|[0-9]+M(?:[0-9]+D)?|[0-9]+D)"
_DURATION = f"P(?:{_DATE_PARTS}(?:{_TIME_PARTS})?|{_TIME_PARTS}|[0-9]+W)"

#: RFC 2673, section 3.2, and RFC 4291, section 2.2, as RFC 3986 writes them.
_OCTET = "(?:25[0-5]|2[0-4][0-9]|1[0-9]{2}|[1-9]?[0-9])"
_IPV4 = rf"{_OCTET}(?:\.{_OCTET}){{3}}"
_GROUP = "[0-9A-Fa-f]{1,4}"
_TAIL = f"(?:{_GROUP}:{_GROUP}|{_IPV4})"
_IPV6 = "(?:{})".format(
    "|".join(
        [
            f"(?:{_GROUP}:){{6}}{_TAIL}",
            f"::(?:{_GROUP}:){{5}}{_TAIL}",
            *(f"(?:(?:{_GROUP}:){{0,{n}}}{_GROUP})?::(?:{_GROUP}:){{{4 - n}}}{_TAIL}" for n in range(5)),
            f"(?:(?:{_GROUP}:){{0,5}}{_GROUP})?::{_GROUP}",
            f"(?:(?:{_GROUP}:){{0,6}}{_GROUP})?::",
        ]
    )
)

#: RFC 1123, section 2.1: letters, digits and inner hyphens.
_OUTER, _INNER = "[A-Za-z0-9]", "[A-Za-z0-9-]"
_LABEL = f"{_OUTER}(?:{_INNER}{{0,61}}{_OUTER})?"
_HOSTNAME = rf"{_LABEL}(?:\.{_LABEL})*"
_LONGEST_HOSTNAME = 253
#: RFC 5890, section 2.3.1: labels with hyphens in the third and fourth place are Punycode, or reserved. These are the
#: others, of up to three characters, of four, and of more.
_PLAIN_LABEL = (
    f"{_OUTER}(?:{_INNER}?{_OUTER}|{_INNER}{{2}}{_OUTER}"
    f"|{_INNER}(?:{_OUTER}{_INNER}|-{_OUTER}){_INNER}{{0,58}}{_OUTER})?"
)
#: The format `hostname` from draft 7 on, without host names that have such labels.
_WITHOUT_PUNYCODE = "hostname without Punycode"
#: RFC 5892: letters without rules about what stands beside them, from left to right, in scripts up to U+D7A3.
_IDN_LETTERS = "ß-öø-ÿāăąćĉċčďđēĕėęěĝğġģĥħĩīĭįıĵķĺļľłńņňōŏőœŕŗřśŝşšţťŧũūŭůűųŵŷźżžά-ώа-џぁ-ゖァ-ヺ一-龥가-힣"
#: In Punycode, a label of that many such characters is never longer than 63.
_LONGEST_IDN_LABEL = 12

#: RFC 3987, section 2.2.
_UCS = r"\u00a0-\ud7ff\uf900-\ufdcf\ufdf0-\uffef" + "".join(
    rf"\u{{{plane:x}{'1' if plane == 14 else '0'}000}}-\u{{{plane:x}fffd}}" for plane in range(1, 15)
)
_PRIVATE = r"\ue000-\uf8ff\u{f0000}-\u{ffffd}\u{100000}-\u{10fffd}"


def _mailbox(more: str) -> str:
    """RFC 5321, section 4.1.2 (RFC 6531, section 3.3, with `more` characters)."""
    atom = rf"[A-Za-z0-9!#$%&'*+/=?^_`{{|}}~{more}-]+"
    quoted = rf'"(?:[ !#-\[\]-~{more}]|\\[ -~])*"'
    label = f"[A-Za-z0-9{more}](?:[A-Za-z0-9{more}-]*[A-Za-z0-9{more}])?"
    domain = rf"{label}(?:\.{label})*"
    address = rf"\[(?:{_IPV4}|[Ii][Pp][Vv]6:{_IPV6})\]"
    return rf"(?:{atom}(?:\.{atom})*|{quoted})@(?:{domain}|{address})"


def _uri(ucs: str, private: str, *, relative: bool) -> str:
    """RFC 3986, appendix A (RFC 3987, section 2.2, with `ucs` and `private` characters)."""
    plain = rf"A-Za-z0-9._~!$&'()*+,;={ucs}-"
    escaped = "%[0-9A-Fa-f]{2}"
    char = f"(?:[:@{plain}]|{escaped})"
    user = f"(?:[:{plain}]|{escaped})*"
    future = r"[vV][0-9A-Fa-f]+\.[:A-Za-z0-9._~!$&'()*+,;=-]+"
    host = rf"(?:\[(?:{_IPV6}|{future})\]|(?:[{plain}]|{escaped})*)"
    segments = f"(?:/{char}*)*"
    rooted = f"//(?:{user}@)?{host}(?::[0-9]*)?{segments}|/(?:{char}+{segments})?"
    tail = rf"(?:\?(?:[/?:@{private}{plain}]|{escaped})*)?(?:#(?:[/?:@{plain}]|{escaped})*)?"
    absolute = f"[A-Za-z][A-Za-z0-9+.-]*:(?:{rooted}|{char}+{segments})?{tail}"
    if not relative:
        return absolute
    return f"(?:{absolute}|(?:{rooted}|(?:[@{plain}]|{escaped})+{segments})?{tail})"


def _template() -> str:
    """RFC 6570, section 2, with erratum 6937: an apostrophe is a literal too."""
    escaped = "%[0-9A-Fa-f]{2}"
    literals = rf"(?:[!#$&'(-;=?-\[\]_a-z~{_UCS}{_PRIVATE}]|{escaped})"
    char = f"(?:[A-Za-z0-9_]|{escaped})"
    variable = rf"{char}(?:\.?{char})*(?::[1-9][0-9]{{0,3}}|\*)?"
    return rf"(?:{literals}|\{{[+#./;?&=,!@|]?{variable}(?:,{variable})*\}})*"


_POINTER = "(?:/(?:[^~/]|~[01])*)*"

_PATTERNS: dict[str, Callable[[], str]] = {
    "date": lambda: _DATE,
    "duration": lambda: _DURATION,
    "email": lambda: _mailbox(""),
    "idn-email": lambda: _mailbox(r"\u0080-\u{10ffff}"),
    "hostname": lambda: _HOSTNAME,
    _WITHOUT_PUNYCODE: lambda: rf"{_PLAIN_LABEL}(?:\.{_PLAIN_LABEL})*",
    "ipv4": lambda: _IPV4,
    "ipv6": lambda: _IPV6,
    "uri": lambda: _uri("", "", relative=False),
    "uri-reference": lambda: _uri("", "", relative=True),
    "iri": lambda: _uri(_UCS, _PRIVATE, relative=False),
    "iri-reference": lambda: _uri(_UCS, _PRIVATE, relative=True),
    "uuid": lambda: "[0-9A-Fa-f]{8}-(?:[0-9A-Fa-f]{4}-){3}[0-9A-Fa-f]{12}",
    "uri-template": _template,
    "json-pointer": lambda: _POINTER,
    "relative-json-pointer": lambda: f"(?:0|[1-9][0-9]*)(?:#|{_POINTER})",
}


#: The formats that JSON Schema defines, in whichever draft; others are annotations. Schemas that name an older draft
#: use `date` or `uuid` as the later ones define them, and mean it.
DEFINED = frozenset(["date-time", "time", "idn-hostname", "regex", *_PATTERNS]) - {_WITHOUT_PUNYCODE}

_LEFT_OUT = {
    _WITHOUT_PUNYCODE: "host names with a label in Punycode (`xn--…`) are left out",
    "idn-hostname": "host names with a label in Punycode, and beyond ASCII those of more than three labels, of labels "
    "longer than 12 characters, or of other letters than Latin, Greek, Cyrillic, Han, kana and Hangul are left out",
    "regex": REGEX_LEFT_OUT,
}


def name_in(name: str, draft: int) -> str:
    """Return the name by which `format_node` knows a format of a draft."""
    return _WITHOUT_PUNYCODE if name == "hostname" and draft >= 7 else name


def left_out(name: str) -> str | None:
    """What is left out of a format, of which we allow only a part; None if that is nothing."""
    return _LEFT_OUT.get(name)


def wide_name(name: str) -> str | None:
    """The name of a format that has all texts of one of these, also those that are left out; None for any text."""
    return {_WITHOUT_PUNYCODE: "hostname", "idn-hostname": None, "regex": None}.get(name, name)


@cache
def format_node(name: str) -> Node:
    """The texts that have a format, but for those that are left out."""
    node: Node
    if name == "time":
        node = Choice((_whole(_TIME), *_leap_seconds()))
    elif name == "date-time":
        node = Sequence((_whole(_DATE), _T, format_node("time")))
    elif name == "regex":
        node = regex_node()
    elif name == "idn-hostname":
        node = _idn_hostname()
    else:
        node = _whole(_PATTERNS[name]())
    is_host = name in ("hostname", _WITHOUT_PUNYCODE)
    return interned(Intersection((node, Repeat(ANY_CHAR, 1, _LONGEST_HOSTNAME))) if is_host else node)


def _idn_hostname() -> Node:
    """Host names of ASCII, and those of up to three labels, which are never too long."""
    outer = f"[a-z0-9{_IDN_LETTERS}]"
    label = Intersection((_whole(f"{outer}(?:-?{outer})*"), Repeat(ANY_CHAR, 1, _LONGEST_IDN_LABEL)))
    either = Choice((_whole(_PLAIN_LABEL), label))
    return Choice((format_node(_WITHOUT_PUNYCODE), Sequence((either, Repeat(Sequence((Bytes(b"."), either)), 0, 2)))))


@cache
def spelled_format(name: str, spelling: Spelling) -> Node:
    """The JSON spellings of such texts, without quotes.

    A time with a leap second is spelled without escapes, and with an offset of quarters of an hour: all others would
    cost a terminal as many states as there are minutes in a day, many times over.
    """
    if name == "time":
        return interned(Choice((spell(_whole(_TIME), spelling), _common_leap_seconds())))
    if name == "date-time":
        return interned(
            Sequence((spell(_whole(_DATE), spelling), spell(_T, spelling), spelled_format("time", spelling)))
        )
    return interned(spell(format_node(name), spelling))


_T = Chars.of([(0x54, 0x54), (0x74, 0x74)])
_Z = Chars.of([(0x5A, 0x5A), (0x7A, 0x7A)])


def _whole(pattern: str) -> Node:
    return parse_ecma(f"^(?:{pattern})$")


def _common_leap_seconds() -> Node:
    fraction = _whole(_FRACTION)
    options: list[Node] = []
    for quarter in range(96):
        hours, minutes = divmod(15 * quarter + 14, 60)
        ahead, behind = 15 * quarter + 15, 1425 - 15 * quarter
        offsets: list[Node] = [
            literal(f"{sign}{offset // 60 % 24:02d}:{offset % 60:02d}")
            for sign, offset in (("+", ahead), ("-", behind))
        ]
        if quarter == 95:
            offsets.append(_Z)
        options.append(Sequence((literal(f"{hours:02d}:{minutes:02d}:60"), fraction, Choice(tuple(offsets)))))
    return Choice(tuple(options))


def _leap_seconds() -> list[Node]:
    """Second 60 is 23:59:60 in UTC: the local time follows from the offset."""
    end = _whole(f":60{_FRACTION}")
    two_digits = _whole("[0-9]{2}")
    colon = Bytes(b":")

    def time(hours: Node, minutes: Node, sign: bytes, offset_hours: Node, offset_minutes: Node) -> Node:
        return Sequence((hours, colon, minutes, end, Bytes(sign), offset_hours, colon, offset_minutes))

    def pair(number: int) -> Node:
        return literal(f"{number:02d}")

    behind_hours = Choice(tuple(time(pair(23 - h), two_digits, b"-", pair(h), two_digits) for h in range(24)))
    behind_minutes = Choice(tuple(time(two_digits, pair(59 - m), b"-", two_digits, pair(m)) for m in range(60)))
    ahead_minutes = Choice(tuple(time(two_digits, pair((m + 59) % 60), b"+", two_digits, pair(m)) for m in range(60)))
    before_59 = _whole("[0-4][0-9]|5[0-8]")
    ahead_hours = Choice(
        (
            *(time(pair((h + 23) % 24), pair(59), b"+", pair(h), two_digits) for h in range(24)),
            *(time(pair(h), before_59, b"+", pair(h), two_digits) for h in range(24)),
        )
    )
    return [
        Sequence((literal("23:59"), end, _Z)),
        Intersection((behind_hours, behind_minutes)),
        Intersection((ahead_hours, ahead_minutes)),
    ]
