"""Hostile texts in every notation that is read: an answer or an error of ours, within the limits."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable
from typing import Any

import pytest

from formatter_core import Limits, check, formats, parse
from formatter_core.errors import InvalidGrammar, LimitExceeded
from tests.sampling import sampled

#: By notation: the reader, how a rule is written, and the start rule.
NOTATIONS: dict[str, tuple[Callable[[str], Any], str, str]] = {
    "gbnf": (formats.gbnf, "{} ::= {}", "root"),
    "ebnf": (formats.ebnf, "{} ::= {}", "root"),
    "lark": (formats.lark, "{}: {}", "start"),
    "kbnf": (formats.kbnf, "{} ::= {};", "start"),
}

#: Rules by name; the start rule is "S".
LARGE: dict[str, dict[str, str]] = {
    "a hundred thousand alternatives": {"S": " | ".join(f'"{i}x"' for i in range(100_000))},
    "a megabyte of literals": {"S": " ".join(f'"{i:0100}"' for i in range(10_000))},
    "a megabyte in one literal": {"S": '"' + "abcdefgh" * 131_072 + '"'},
    "a long escape": {"S": '"' + "\\n" * 100_000 + '"'},
    "many faults": {"S": "a " * 100_000},
}
RULES: dict[str, dict[str, str]] = {
    "a long gap": {"S": '"a"' + " " * 100_000 + "$"},
    "groups in groups": {"S": "(" * 5000 + '"a"' + ")" * 5000},
    "open groups": {"S": "(" * 5000},
    "a chain of rules": {"S": "r0", **{f"r{i}": f'"a" r{i + 1}?' for i in range(3000)}, "r3000": '"z"'},
    "a doubling chain": {"S": 'r0 | "y"', **{f"r{i}": f"r{i + 1} r{i + 1}" for i in range(60)}, "r60": '"z"'},
    "a cycle": {"S": 'a | "x"', "a": "b", "b": "a | S"},
    "only a cycle": {"S": "a", "a": "S"},
    "left recursion through empty rules": {"S": 'a S "x" | "y"', "a": '"" | a a'},
    "repeats of repeats": {"S": '"a"' + "{100}" * 30},
    "a large count": {"S": '"a"{99999999999999999999}'},
}

#: Texts with constructs that only one notation has.
OWN: list[tuple[str, str]] = [
    ("ebnf", "root ::= Token(" + "(" * 5000),
    ("ebnf", "root ::= Substring(" + ", ".join(f'"{i},"' for i in range(2000)) + ")"),
    ("ebnf", "root ::= Token(" + "9" * 5000 + ")"),
    ("ebnf", 'root ::= Regex("a", '),
    ("lark", "start: A0\n" + "\n".join(f"A{i}: A{i + 1} A{i + 1}" for i in range(300)) + "\nA300: /x/"),
    ("lark", "start: %json " + '{"not": ' * 5000),
    ("lark", 'start: start\n%ignore " "'),
]


def written(notation: str, rules: dict[str, str]) -> Any:
    """The format of some rules in a notation."""
    read, rule, start = NOTATIONS[notation]
    named = {start if name == "S" else name: body.replace("S", start) for name, body in rules.items()}
    return read("\n".join(rule.format(name, body) for name, body in named.items()))


@pytest.mark.parametrize("name", LARGE)
@pytest.mark.parametrize("notation", sampled(NOTATIONS, 1))
def test_an_answer_or_an_error_of_ours_to_a_large_text(notation: str, name: str) -> None:
    with contextlib.suppress(InvalidGrammar, LimitExceeded):
        check(written(notation, LARGE[name]))


@pytest.mark.parametrize("name", RULES)
@pytest.mark.parametrize("notation", NOTATIONS)
def test_an_answer_or_an_error_of_ours(notation: str, name: str) -> None:
    with contextlib.suppress(InvalidGrammar, LimitExceeded):
        check(written(notation, RULES[name]))


@pytest.mark.parametrize(("notation", "text"), OWN, ids=[text[:20] for _, text in OWN])
def test_constructs_of_one_notation(notation: str, text: str) -> None:
    with contextlib.suppress(InvalidGrammar, LimitExceeded):
        check(NOTATIONS[notation][0](text))


@pytest.mark.parametrize("notation", NOTATIONS)
def test_left_recursion_is_read(notation: str) -> None:
    format = written(notation, {"S": 'S "+" a | a', "a": 'S "-" | "1"'})
    assert parse(format, "1+1-+1").is_complete
    assert not parse(format, "1+").is_complete


@pytest.mark.parametrize("notation", NOTATIONS)
def test_a_rule_that_is_not_defined_is_shown_in_its_line(notation: str) -> None:
    with pytest.raises(InvalidGrammar, match="`unknown` is not defined") as caught:
        check(written(notation, {"S": '"a" | b', "b": '"c" unknown'}))
    *_, line, caret = str(caught.value).splitlines()
    assert line[caret.index("^") :].startswith("unknown")
    assert caught.value.line == 2


@pytest.mark.parametrize("notation", NOTATIONS)
def test_a_grammar_that_derives_nothing_is_an_error(notation: str) -> None:
    with pytest.raises(InvalidGrammar):
        check(written(notation, RULES["only a cycle"]))


@pytest.mark.parametrize("notation", NOTATIONS)
def test_the_limits_are_kept(notation: str) -> None:
    with pytest.raises(LimitExceeded):
        check(written(notation, LARGE["a megabyte of literals"]), limits=Limits(nodes=1000))


@pytest.mark.parametrize("notation", NOTATIONS)
def test_a_text_that_takes_long_to_read_is_not_read(notation: str) -> None:
    with pytest.raises(LimitExceeded, match=r"a grammar of \d+ characters") as caught:
        check(written(notation, {"S": '"a"' + " " * 3_000_000}))
    assert caught.value.limit == "work"


def _nested(count: int) -> Any:
    format: Any = {"type": "any_text"}
    for _ in range(count):
        format = {"type": "optional", "content": format}
    return format


def _many(kind: str, count: int, length: int) -> Any:
    return {"type": kind, "elements": [{"type": "const_string", "value": f"{i:0{length}}"} for i in range(count)]}


TAGS: dict[str, Any] = {
    "a hundred thousand alternatives": _many("or", 100_000, 6),
    "a megabyte of literals": _many("sequence", 10_000, 100),
    "a megabyte in one literal": {"type": "const_string", "value": "abcdefgh" * 131_072},
    "deep": _nested(300),
    "three hundred triggers": {
        "type": "triggered_tags",
        "triggers": [f"<{i}>" for i in range(300)],
        "tags": [{"type": "tag", "begin": f"<{i}>", "content": {"type": "any_text"}, "end": "</>"} for i in range(300)],
    },
    "a grammar that is a cycle": {"type": "grammar", "grammar": "root ::= a\na ::= root"},
    "a grammar with an unknown rule": {"type": "grammar", "grammar": "root ::= a"},
    "a large count": {"type": "repeat", "min": 10**30, "max": -1, "content": {"type": "any_text"}},
}


@pytest.mark.parametrize("name", TAGS)
def test_structural_tags(name: str) -> None:
    with contextlib.suppress(InvalidGrammar, LimitExceeded):
        check(formats.structural_tag(json.dumps({"format": TAGS[name]})))
