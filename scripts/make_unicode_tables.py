"""Write `unicode.bin` of the crate (`src/regular/regex`): Unicode properties, as `unicode.rs` beside it reads them.

The data is read out of the `regex` package (a development dependency), which carries a whole version of the Unicode
Character Database: every property is probed over all code points. Python's own `unicodedata` is older and knows
neither scripts nor binary properties, and two versions side by side would contradict each other.

Run it from the repository's root: `python scripts/make_unicode_tables.py`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from importlib.metadata import distribution
from itertools import pairwise
from pathlib import Path
from typing import Any

import regex
import regex._regex

PROPERTIES: dict[str, Any] = vars(regex._regex)["get_properties"]()
CRATE = Path(__file__).parent.parent / "formatter_core" / "engine" / "native"
TARGET = CRATE / "src" / "regular" / "regex" / "unicode.bin"
#: Ranges of code points.
Ranges = list[tuple[int, int]]
#: A set, by its names.
Entry = tuple[list[str], Ranges]
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


def number(value: int) -> bytes:
    """Write a number as LEB128."""
    digits = bytearray()
    while value >= 0x80:
        digits.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes((*digits, value))


def counted(data: bytes) -> bytes:
    return number(len(data)) + data


def ranges(pattern: str) -> Ranges:
    """Find the ranges of code points that the one-character pattern matches."""
    found: Ranges = []
    for match in regex.finditer(pattern + "+", SCALAR_VALUES):
        low, high = ord(match.group()[0]), ord(match.group()[-1])
        if low < 0xD800 and high > 0xDFFF:
            found += [(low, 0xD7FF), (0xE000, high)]
        else:
            found.append((low, high))
    return found


def table(entries: Iterable[Entry]) -> bytes:
    rows = [counted(" ".join(names).encode("ascii")) + counted(encode(pairs)) for names, pairs in entries]
    return number(len(rows)) + b"".join(rows)


def encode(pairs: Ranges) -> bytes:
    data, end = b"", 0
    for low, high in pairs:
        data += number(low - end) + number(high - low)
        end = high + 1
    return data


def aliases(property_name: str) -> dict[int, list[str]]:
    """Read the names of every value of a property, the shortest (a code of two or four letters) first."""
    names: dict[int, list[str]] = {}
    for name, value in PROPERTIES[property_name.upper()][1].items():
        names.setdefault(value, []).append(name.lower())
    return {value: sorted(found, key=lambda name: (len(name), name)) for value, found in names.items()}


def binary_properties() -> Iterable[Entry]:
    properties = {name.lower(): entry[0] for name, entry in PROPERTIES.items()}
    for main in BINARY:
        others = sorted(name for name, value in properties.items() if value == properties[main] and name != main)
        yield [main, *others], ranges(rf"\p{{{main}}}")
    for name in ("any", "ascii", "assigned"):
        yield [name], ranges(rf"\p{{{name}}}")


def categories() -> Iterable[Entry]:
    """Compute the general categories and groups of them; surrogates are in none."""
    for names in aliases("gc").values():
        found = ranges(rf"\p{{gc={names[0]}}}")
        if found:
            yield [name for name in names if not name.endswith("&")], found


def scripts(property_name: str) -> Iterable[Entry]:
    for names in aliases("sc").values():
        own, found = ranges(rf"\p{{sc={names[0]}}}"), ranges(rf"\p{{{property_name}={names[0]}}}")
        if own and (property_name == "sc" or own != found):
            yield names, found


def case_orbits() -> bytes:
    """Compute the sets of code points that are equal under simple case folding, in order of their first."""
    fold_case = vars(regex._regex)["fold_case"]
    flags = regex.UNICODE | regex.IGNORECASE
    orbits: dict[str, list[int]] = {}
    for character in SCALAR_VALUES:
        # The package leaves "I" alone, for Turkish; the Unicode data folds it to "i".
        folded = "i" if character == "I" else fold_case(flags, character)
        orbits.setdefault(folded, []).append(ord(character))
    data, previous = b"", 0
    for orbit in sorted(orbit for orbit in orbits.values() if len(orbit) > 1):
        data += number(orbit[0] - previous) + number(len(orbit) - 1)
        data += b"".join(number(high - low) for low, high in pairwise(orbit))
        previous = orbit[0]
    return data


def main() -> None:
    tables = [categories(), scripts("sc"), scripts("scx"), binary_properties()]
    TARGET.write_bytes(b"".join(map(table, tables)) + case_orbits())
    version = re.search(r"supports Unicode ([\d.]+\d)", str(distribution("regex").read_text("METADATA")))
    print(f"Unicode {version[1] if version else 'of unknown version'}, from `regex` {regex.__version__}")


if __name__ == "__main__":
    main()
