"""Unicode properties, of `tables.json.zlib`, which `scripts/make_unicode_tables.py` makes.

A number is written with the digits `ALPHABET`, five bits each, the lowest first; a digit from 32 says that more
follow. A set of code points is the numbers *gap, length - 1* of its ranges in turn, each gap counted from the end of
the range before. Names are in lower case, without spaces, hyphens and underscores. Surrogates belong to no set.
"""

from __future__ import annotations

import json
import zlib
from importlib import resources
from typing import Any

ALPHABET = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz-_"
#: Data and no module: a module of this size would stand in an installation twice, as source and compiled.
_TABLES: dict[str, Any] = json.loads(
    zlib.decompress(resources.files("formatter_core.syntax.regex").joinpath("tables.json.zlib").read_bytes())
)
CATEGORIES: dict[str, str] = _TABLES["categories"]
CATEGORY_NAMES: dict[str, str] = _TABLES["category_names"]
SCRIPTS: dict[str, str] = _TABLES["scripts"]
#: Only the scripts whose extensions are another set.
SCRIPT_EXTENSIONS: dict[str, str] = _TABLES["script_extensions"]
SCRIPT_NAMES: dict[str, str] = _TABLES["script_names"]
BINARY: dict[str, str] = _TABLES["binary"]
BINARY_NAMES: dict[str, str] = _TABLES["binary_names"]
#: Characters equal but for case, set by set: gap from the first of the one before, count - 1, steps.
CASE_ORBITS: str = _TABLES["case_orbits"]
