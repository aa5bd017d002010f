"""Write `formatter_core/syntax/regex/tables.json.zlib`: Unicode properties as compact strings, compressed.

The data is read out of the `regex` package (a development dependency), which carries a whole version of the Unicode
Character Database: every property is probed over all code points. Python's own `unicodedata` is older and knows
neither scripts nor binary properties, and two versions side by side would contradict each other.

Run it from the repository's root: `python scripts/make_unicode_tables.py`.
"""

from __future__ import annotations

import json
import re
import zlib
from collections.abc import Iterable
from importlib.metadata import distribution
from itertools import pairwise
from pathlib import Path
from typing import Any

import regex
import regex._regex

PROPERTIES: dict[str, Any] = vars(regex._regex)["get_properties"]()
TARGET = Path(__file__).parent.parent / "formatter_core" / "syntax" / "regex" / "tables.json.zlib"
ALPHABET = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz-_"
SCALAR_VALUES = "".join(chr(code) for code in range(0x110000) if not 0xD800 <= code <= 0xDFFF)
BINARY = [
    "alphabetic",
    "asciihexdigit",
    "bidicontrol",
    "bidimirrored",
    "cased",
    "caseignorable",
    "changeswhencasefolded",
    "changeswhencasemapped",
    "changeswhenlowercased",
    "changeswhentitlecased",
    "changeswhenuppercased",
    "dash",
    "defaultignorablecodepoint",
    "deprecated",
    "diacritic",
    "emoji",
    "emojicomponent",
    "emojimodifier",
    "emojimodifierbase",
    "emojipresentation",
    "extendedpictographic",
    "extender",
    "graphemebase",
    "graphemeextend",
    "hexdigit",
    "idcontinue",
    "idstart",
    "ideographic",
    "idsbinaryoperator",
    "idstrinaryoperator",
    "joincontrol",
    "logicalorderexception",
    "lowercase",
    "math",
    "noncharactercodepoint",
    "patternsyntax",
    "patternwhitespace",
    "quotationmark",
    "radical",
    "regionalindicator",
    "sentenceterminal",
    "softdotted",
    "terminalpunctuation",
    "unifiedideograph",
    "uppercase",
    "variationselector",
    "whitespace",
    "xidcontinue",
    "xidstart",
]


def number(value: int) -> str:
    digits = ""
    while value >= 32:
        digits += ALPHABET[32 + (value & 31)]
        value >>= 5
    return digits + ALPHABET[value]


def ranges(pattern: str) -> list[tuple[int, int]]:
    """The ranges of code points that the one-character pattern matches."""
    found: list[tuple[int, int]] = []
    for match in regex.finditer(pattern + "+", SCALAR_VALUES):
        low, high = ord(match.group()[0]), ord(match.group()[-1])
        if low < 0xD800 and high > 0xDFFF:
            found += [(low, 0xD7FF), (0xE000, high)]
        else:
            found.append((low, high))
    return found


def encode(pairs: Iterable[tuple[int, int]]) -> str:
    text, end = "", 0
    for low, high in pairs:
        text += number(low - end) + number(high - low)
        end = high + 1
    return text


def aliases(property_name: str) -> dict[int, list[str]]:
    """The names of every value of a property, the shortest (a code of two or four letters) first."""
    names: dict[int, list[str]] = {}
    for name, value in PROPERTIES[property_name.upper()][1].items():
        names.setdefault(value, []).append(name.lower())
    return {value: sorted(found, key=lambda name: (len(name), name)) for value, found in names.items()}


def binary_aliases() -> dict[str, str]:
    properties = {name.lower(): entry[0] for name, entry in PROPERTIES.items()}
    return {name: main for main in BINARY for name, value in properties.items() if value == properties[main]}


def case_orbits() -> str:
    """The sets of code points that are equal under simple case folding, in order of their first."""
    fold_case = vars(regex._regex)["fold_case"]
    flags = regex.UNICODE | regex.IGNORECASE
    orbits: dict[str, list[int]] = {}
    for character in SCALAR_VALUES:
        # The package leaves "I" alone, for Turkish; the Unicode data folds it to "i".
        folded = "i" if character == "I" else fold_case(flags, character)
        orbits.setdefault(folded, []).append(ord(character))
    text, previous = "", 0
    for orbit in sorted(orbit for orbit in orbits.values() if len(orbit) > 1):
        text += number(orbit[0] - previous) + number(len(orbit) - 1)
        text += "".join(number(high - low) for low, high in pairwise(orbit))
        previous = orbit[0]
    return text


def main() -> None:
    categories: dict[str, str] = {}
    category_names: dict[str, str] = {}
    for names in aliases("gc").values():
        code = names[0]
        if len(code) == 2 and code not in ("lc", "cs", "l&"):
            categories[code] = encode(ranges(rf"\p{{gc={code}}}"))
            category_names.update(dict.fromkeys(names[1:], code))
        else:
            category_names.update({name: code for name in names[1:] if not name.endswith("&")})
    scripts: dict[str, str] = {}
    extensions: dict[str, str] = {}
    script_names: dict[str, str] = {}
    for names in aliases("sc").values():
        own, extended = ranges(rf"\p{{sc={names[0]}}}"), ranges(rf"\p{{scx={names[0]}}}")
        if not own:
            continue
        scripts[names[0]] = encode(own)
        if own != extended:
            extensions[names[0]] = encode(extended)
        script_names.update(dict.fromkeys(names[1:], names[0]))
    version = re.search(r"supports Unicode ([\d.]+\d)", str(distribution("regex").read_text("METADATA")))
    tables = {
        "version": f"Unicode {version[1] if version else 'of unknown version'}, from `regex` {regex.__version__}",
        "categories": categories,
        "category_names": category_names,
        "scripts": scripts,
        "script_extensions": extensions,
        "script_names": script_names,
        "binary": {name: encode(ranges(rf"\p{{{name}}}")) for name in BINARY},
        "binary_names": {name: main for name, main in binary_aliases().items() if name != main},
        "case_orbits": case_orbits(),
    }
    TARGET.write_bytes(zlib.compress(json.dumps(tables, indent=0, sort_keys=True).encode("ascii"), 9))


if __name__ == "__main__":
    main()
