"""Captures as columns: the same as matches and as marks."""

from __future__ import annotations

import pytest

from formatter_core.parsing.captures import Captures, Mark, Match

TEXT = "ab é".encode()


def opens(name: str, offset: int) -> Mark:
    return Mark(True, name, offset)


def closes(name: str, offset: int) -> Mark:
    return Mark(False, name, offset)


#: Marks, the captures that they close, and whether all are closed.
CASES: list[tuple[list[Mark], list[tuple[str, int, int]], bool]] = [
    ([], [], True),
    ([opens("x", 0), closes("x", 2)], [("x", 0, 2)], True),
    ([opens("x", 0), closes("x", 2), opens("y", 2), closes("y", 2)], [("x", 0, 2), ("y", 2, 2)], True),
    ([opens("x", 0), opens("y", 2), closes("y", 2), closes("x", 2)], [("x", 0, 2), ("y", 2, 2)], True),
    ([opens("x", 0), opens("y", 1), closes("y", 4), closes("x", 5)], [("x", 0, 5), ("y", 1, 4)], True),
    ([opens("x", 0), opens("y", 1), closes("y", 3), opens("z", 3)], [("y", 1, 3)], False),
    ([opens("x", 0), closes("x", 0), opens("x", 0), opens("y", 1), closes("y", 3)], [("x", 0, 0), ("y", 1, 3)], False),
]


@pytest.mark.parametrize(("marks", "places", "closed"), CASES)
def test_marks(marks: list[Mark], places: list[tuple[str, int, int]], closed: bool) -> None:
    captures = Captures.of_marks(marks, TEXT)
    assert list(zip(captures.names, captures.starts, captures.ends, strict=True)) == places
    if closed:
        assert captures.marks() == marks
    else:
        assert Captures.of_marks(captures.marks(), TEXT).match == captures.match


def test_one_after_another_is_not_one_inside_it() -> None:
    after, inside = (Captures.of_marks(marks, TEXT).match for marks, _, _ in CASES[2:4])
    x, y = Match("x", 0, 2, b"ab"), Match("y", 2, 2, b"")
    assert after == Match("", 0, 5, TEXT, (x, y))
    assert inside == Match("", 0, 5, TEXT, (x._replace(children=(y,)),))


def test_each_match_has_those_inside_it() -> None:
    marks = [opens("x", 0), opens("y", 1), opens("z", 1), closes("z", 2), closes("y", 3), opens("z", 3)]
    captures = Captures.of_marks([*marks, closes("z", 4), closes("x", 5)], TEXT)
    assert [(match.name, [child.name for child in match.children]) for match in captures.matches] == [
        ("x", ["y", "z"]),
        ("y", ["z"]),
        ("z", []),
        ("z", []),
    ]


def test_texts() -> None:
    captures = Captures.of_marks(CASES[4][0], TEXT)
    assert captures.texts == ["ab é", "b �"]
    assert captures.texts == [match.text for match in captures.matches]
    assert Captures.of_marks(CASES[1][0], b"ab").texts == ["ab"]
