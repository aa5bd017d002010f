"""Descriptions of what is left out of the string formats that are not regular and are allowed only in part."""

from __future__ import annotations

__all__ = ["left_out", "name_in"]

#: The library's name for `hostname` from draft 7 on, whose labels may be Punycode.
_WITHOUT_PUNYCODE = "hostname without Punycode"
_LEFT_OUT = {
    _WITHOUT_PUNYCODE: "host names with a label in Punycode (`xn--…`) are left out",
    "idn-hostname": "host names with a label in Punycode, and beyond ASCII those of more than three labels, of labels "
    "longer than 12 characters, or of other letters than Latin, Greek, Cyrillic, Han, kana and Hangul are left out",
    "regex": "regular expressions with back-references, look-behind, names of groups, `\\p`, `\\c`, `\\0`, `\\u{…}`, "
    "groups nested more than four levels deep, and unusual counts or ranges of characters are left out",
}


def name_in(name: str, draft: int) -> str:
    """Return the name by which the library knows a format of a draft."""
    return _WITHOUT_PUNYCODE if name == "hostname" and draft >= 7 else name


def left_out(name: str) -> str | None:
    """Say what is left out of a format, of which we allow only a part; None if that is nothing."""
    return _LEFT_OUT.get(name)
