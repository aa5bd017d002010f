"""Python does not implement again what the native library does; docs/architecture.md says where each thing is."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import formatter_core

ROOT = Path(formatter_core.__file__).parent
CRATE = ROOT / "engine" / "native" / "src"
PAGE = ROOT.parent / "docs" / "architecture.md"

#: Names that a second implementation would define, and the modules that may: the reference and the frozen engine.
SECOND: dict[str, tuple[str, tuple[str, ...]]] = {
    "JSON Schema: reading, algebra, rules, string formats": (
        r"lower_schema|[Nn]ormali[sz]er|Loader|subtract|complement_of|meet_\w+|(Array|Object)\w+ing|Goals?$|evaluated",
        (),
    ),
    "sets of numbers and strings, decimals, spelling in JSON": (
        r"(Number|String|Object|Array)Set|text_node|Decimals?$|Multiples$|spell_\w+|free_(char|body|string)",
        ("testing/", "grammar/json_text.py", "grammar/nodes.py"),
    ),
    "patterns: reading, Unicode": (
        r"\w*Scanner|parse_class|case_fold\w*|\w*unicode_(table|propert)\w*",
        ("engine/kbnf/",),
    ),
    "terms, derivatives, emptiness, automata": (
        r"Terms?$|Term[A-Z]\w*|\w*[Dd]erivative\w*|\w*Automaton$",
        ("testing/", "engine/regular.py", "syntax/bnf/characters.py"),
    ),
    "captures, events, what may follow": (
        r"Chart$|Earley\w*|Recogni[sz]er$|\w*[Dd]erivation\w*$|Algebra$",
        ("testing/",),
    ),
    "lists of members": (r"write_out|can_be_complete", ("grammar/members.py",)),
}
#: Modules of Python in the rooms that the crate has, too, that are called as one of the crate's, and why.
NAMESAKES = {
    "engine/shortest.py": "asks the library",
    "engine/shortest_values.py": "the shortest text in bytes of lists of distinct values",
    "grammar/distinct.py": "values of lists that are written out",
    "grammar/markers.py": "texts of layouts, which are no schemas",
    "grammar/members.py": "lists written out as rules",
    "grammar/nodes.py": "grammars as values",
    "grammar/program.py": "writes programs, which the library reads",
    "grammar/utf8.py": "for the frozen engine and the reference",
    "grammar/values.py": "dataclasses",
    "schema/keywords.py": "asks the library",
    "schema/whitespace.py": "options of users",
    "syntax/regex/decode.py": "reads the nodes that the library writes",
}
ROOMS = ("engine", "grammar", "parsing", "schema", "syntax/regex")


def modules() -> Iterator[tuple[str, Path]]:
    for path in sorted(ROOT.rglob("*.py")):
        yield path.relative_to(ROOT).as_posix(), path


def definitions(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, (ast.ClassDef, ast.FunctionDef)):
            yield node.name.lstrip("_")


def rows() -> dict[str, tuple[str, str]]:
    """The table of the page: each thing, where it is, and where else."""
    text = PAGE.read_text(encoding="utf-8").split("## One of each")[1].split("\n## ")[0]
    found = (line.strip("| ").split(" | ") for line in text.splitlines() if line.startswith("|"))
    return {row[0]: (row[1], row[2]) for row in list(found)[2:]}


@pytest.mark.parametrize("thing", SECOND)
def test_nothing_is_implemented_a_second_time(thing: str) -> None:
    words, may = SECOND[thing]
    seconds = [
        f"{name}: {each}"
        for name, path in modules()
        if not name.startswith(may)
        for each in definitions(path)
        if re.fullmatch(words, each)
    ]
    assert seconds == []


def test_no_module_of_python_is_the_twin_of_one_in_the_crate() -> None:
    crate = {path.stem for path in CRATE.rglob("*.rs")}
    found = {
        name
        for name, path in modules()
        if name.startswith(ROOMS) and "/kbnf/" not in name and path.stem in crate and path.stem != "__init__"
    }
    assert found == set(NAMESAKES)


def test_the_page_says_where_each_thing_is() -> None:
    table = rows()
    assert set(SECOND) <= set(table)
    for place, others in table.values():
        named = re.findall(r"`([\w/.]+)`", f"{place} {others}")
        assert named
        assert [each for each in named if not (ROOT / each).exists()] == []
    for thing, (_, may) in SECOND.items():
        where = " ".join(table[thing])
        for each in may:
            if each.startswith(("testing/", "engine/kbnf/", "grammar/json_text", "grammar/members")):
                assert each in where, (thing, each)
