"""Write ECMA 262 patterns for pydantic's types: never wider than the type, and hardly narrower."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

__all__ = [
    "DATETIME",
    "DECIMAL",
    "NUMBER",
    "TIGHTER_FORMATS",
    "TIME",
    "TIMEZONE_FREE",
    "TIMEZONE_FREE_TIME",
    "decimal_digits",
    "email",
    "integers",
    "url",
]

DECIMAL = r"^-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]{1,6})?$"

_LEAP_YEAR = "(?:[0-9]{2}(?:0[48]|[2468][048]|[13579][26])|(?:[02468][048]|[13579][26])00)"
_DATE = (
    "(?:[0-9]{4}-(?:(?:0[13578]|1[02])-(?:0[1-9]|[12][0-9]|3[01])|(?:0[469]|11)-(?:0[1-9]|[12][0-9]|30)"
    f"|02-(?:0[1-9]|1[0-9]|2[0-8]))|{_LEAP_YEAR}-02-29)"
)
_HOURS = "(?:[01][0-9]|2[0-3])"
_TIME = rf"{_HOURS}(?::[0-5][0-9]){{2}}(?:\.[0-9]+)?"
_OFFSET = f"(?:[Zz]|[+-]{_HOURS}:[0-5][0-9])"
#: RFC 3339 dates with times: without an offset, and with an optional one.
TIMEZONE_FREE = f"^(?!0000){_DATE}T{_TIME}$"
DATETIME = f"^(?!0000){_DATE}[Tt]{_TIME}{_OFFSET}?$"
TIMEZONE_FREE_TIME = f"^{_TIME}$"
TIME = f"^{_TIME}{_OFFSET}?$"

#: Numbers as keys of a `dict`; none is too large for a float.
NUMBER = r"^-?(?:0|[1-9][0-9]{0,17})(?:\.[0-9]{1,17})?(?:[eE][+-]?[0-9]{1,2})?$"
_LARGEST_INTEGER = 10**18 - 1

_OCTET = "(?:25[0-5]|2[0-4][0-9]|1[0-9]{2}|[1-9]?[0-9])"
_IPV4 = rf"{_OCTET}(?:\.{_OCTET}){{3}}"
_HEX = "[0-9A-Fa-f]"

#: Only single hyphens, which excludes Punycode; the last label begins with a letter, or it would be a number.
_LABEL = "[A-Za-z0-9]+(?:-[A-Za-z0-9]+)*"
_DOMAIN = rf"(?:{_LABEL}\.)*[A-Za-z][A-Za-z0-9]*(?:-[A-Za-z0-9]+)*"
_PORT = "(?::(?:[1-9][0-9]{0,3}|[1-5][0-9]{4}|6[0-4][0-9]{3}))?"
_CHAR = rf"(?:[A-Za-z0-9._~!$&()*+,;=:@-]|%{_HEX}{{2}})"
_USER = rf"(?:[A-Za-z0-9._~!$&()*+-]|%{_HEX}{{2}})+"
_USER = rf"(?:{_USER}(?::{_USER})?@)?"
_HOST = f"(?:{_DOMAIN}|{_IPV4})"
_TAIL = rf"(?:/(?:{_CHAR}|/)*)?(?:\?(?:{_CHAR}|[/?])*)?(?:#(?:{_CHAR}|[/?])*)?"
_SPECIAL = ("http", "https", "ws", "wss", "ftp")


def url(schemes: Iterable[str] | None, many: bool, host_required: bool) -> str:
    """Return URLs with one of these schemes (None means any), in lower case; with `many`, hosts separated by commas."""
    hosts = f"{_HOST}{_PORT}(?:,{_HOST}{_PORT})*" if many else f"{_HOST}{_PORT}"
    rooted = f"://{_USER}{hosts}{_TAIL}"
    on_disk = rf"file://(?:{_DOMAIN})?/(?:{_CHAR}|/)*"
    if schemes is not None:
        names = "|".join(name.replace("+", r"\+").replace(".", r"\.") for name in schemes if name != "file")
        options = [f"(?:{names}){rooted}"] if names else []
        return "^(?:{})$".format("|".join([*options, *([on_disk] if "file" in schemes else [])]))
    special = "|".join(_SPECIAL)
    opaque = "" if host_required else f"|:{_CHAR}(?:{_CHAR}|/)*"
    other = f"(?!(?:{special}|file):)[a-z][a-z0-9+.-]*(?:{rooted}{opaque})"
    return f"^(?:(?:{special}){rooted}|{on_disk}|{other})$"


def integers(minimum: int | None, maximum: int | None) -> str:
    """Return whole numbers of at most 18 digits, between two bounds."""
    least = -_LARGEST_INTEGER if minimum is None else max(minimum, -_LARGEST_INTEGER)
    most = _LARGEST_INTEGER if maximum is None else min(maximum, _LARGEST_INTEGER)
    options = [f"-{each}" for each in _positive(max(1, -most), -least)]
    options += ["0"] if least <= 0 <= most else []
    options += _positive(max(1, least), most)
    return "^(?:{})$".format("|".join(options) or "(?!)")


def _positive(least: int, most: int) -> list[str]:
    """Return patterns of the whole numbers between two positive bounds, in blocks with all endings of some length."""
    if (least, most) == (1, _LARGEST_INTEGER):
        return ["[1-9][0-9]{0,17}"]
    found = []
    while least <= most:
        digits = 0
        while least % 10 ** (digits + 1) == 0 and least + 10 ** (digits + 1) - 1 <= most:
            digits += 1
        found.append(f"{least // 10**digits}" + (f"[0-9]{{{digits}}}" if digits else ""))
        least += 10**digits
    return found


def email() -> str:
    """Return addresses of plain atoms and a domain that ends in letters, without special-use names."""
    atom = r"[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]+"
    special = r"(?!.*[@.](?:[Aa]rpa|[Ii]nvalid|[Ll]ocal|[Ll]ocalhost|[Oo]nion|[Tt]est|[Ee]xample)$)"
    return rf"^{special}(?=.{{1,60}}@){atom}(?:\.{atom})*@(?:(?=[^.]{{1,55}}\.){_LABEL}\.){{1,3}}[A-Za-z]{{2,20}}$"


def decimal_digits(digits: int | None, places: int | None) -> str:
    """Return plain decimals with at most `digits` digits, `places` of them after the point."""
    if digits is None:
        return rf"^-?(?:0|[1-9][0-9]*)(?:\.[0-9]{{1,{places}}})?$" if places else "^-?(?:0|[1-9][0-9]*)$"
    fractions = range(digits, -1, -1) if places is None else [min(places, digits)]
    return "^-?(?:{})$".format("|".join(_decimal(digits - fraction, fraction) for fraction in fractions))


def _decimal(whole: int, fraction: int) -> str:
    head = f"(?:0|[1-9][0-9]{{0,{whole - 1}}})" if whole else "0"
    return head + (rf"(?:\.[0-9]{{1,{fraction}}})?" if fraction else "")


def _networks_v4() -> str:
    options = [_IPV4]
    for prefix in range(33):
        whole, rest = divmod(prefix, 8)
        octets = [_OCTET] * whole
        if rest:
            octets.append("(?:{})".format("|".join(str(value) for value in range(0, 256, 2 ** (8 - rest)))))
        octets += ["0"] * (4 - len(octets))
        options.append(r"\.".join(octets) + f"/{prefix}")
    return "|".join(options)


def _networks_v6() -> str:
    """Return networks whose prefix is a whole number of hexadecimal digits, written with `::` at the end."""
    options = [f"::/{0}", f"(?:{_HEX}{{1,4}}:){{7}}{_HEX}{{1,4}}(?:/128)?"]
    for digits in range(1, 32):
        whole, rest = divmod(digits, 4)
        groups = [f"{_HEX}{{1,4}}"] * whole
        if rest:
            groups.append(f"{_HEX}{{{rest}}}" + "0" * (4 - rest))
        options.append(":".join(groups) + ("" if len(groups) == 8 else "::") + f"/{4 * digits}")
    return "|".join(options)


def _base64(last: str, two: str) -> str:
    """Return Base64 with these last two digits of its alphabet; any bytes, or those of ASCII text."""
    if not two:
        any_ = rf"[A-Za-z0-9{last}]"
        return f"^(?:{any_}{{4}})*(?:{any_}{any_}==|{any_}{{3}}=)?$"
    alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789" + last.replace("\\", "")
    first, second, third = (
        "[" + "".join(f"\\{c}" if c in "/+-" else c for i, c in enumerate(alphabet) if not i & bit) + "]"
        for bit in (32, 8, 2)
    )
    any_ = rf"[A-Za-z0-9{last}]"
    return f"^(?:{first}{second}{third}{any_})*(?:{first}{second}==|{first}{second}{third}=)?$"


_INTERFACE_V4 = f"{_IPV4}(?:/(?:[0-9]|[12][0-9]|3[0-2]))?"
_ADDRESSES = [{"format": "ipv4"}, {"format": "ipv6"}]


def _whole(pattern: str) -> dict[str, Any]:
    return {"pattern": f"^(?:{pattern})$"}


#: Patterns for formats that pydantic defines and JSON Schema does not.
TIGHTER_FORMATS: dict[str, dict[str, Any]] = {
    **{f"uuid{version}": {"format": "uuid", "pattern": f"^.{{14}}{version}.{{4}}[89abAB]"} for version in range(1, 9)},
    "ipvanyaddress": {"anyOf": _ADDRESSES},
    "ipvanyinterface": {"anyOf": [_whole(_INTERFACE_V4), {"format": "ipv6"}]},
    "ipvanynetwork": {"anyOf": [_whole(_networks_v4()), _whole(_networks_v6())]},
    "ipv4interface": _whole(_INTERFACE_V4),
    "ipv6interface": {"format": "ipv6"},
    "ipv4network": _whole(_networks_v4()),
    "ipv6network": _whole(_networks_v6()),
    "base64 bytes": {"pattern": _base64("+/", "")},
    "base64 str": {"pattern": _base64("+/", "ascii")},
    "base64url bytes": {"pattern": _base64("_-", "")},
    "base64url str": {"pattern": _base64("_-", "ascii")},
    "color": {"pattern": f"^#(?:{_HEX}{{3,4}}|{_HEX}{{6}}|{_HEX}{{8}})$"},
    "email": {"pattern": email()},
    "name-email": {"pattern": email()},
}
