"""Checks that the tests of notations share."""

from __future__ import annotations

import json
from collections.abc import Sequence

import pytest

from formatter_core import Compiler, Format, Vocabulary, check, formats, parse
from formatter_core.errors import InvalidGrammar

__all__ = ["check_fault", "check_texts"]


def check_texts(format: Format, good: Sequence[str], bad: Sequence[str]) -> None:
    """The masks, of the format taken to JSON and back, and the parser derive all of `good` and nothing of `bad`."""
    compiled = Compiler(Vocabulary.of_bytes()).compile(formats.from_json(json.loads(json.dumps(format.to_json()))))
    for sample in [*good, *bad]:
        formatter = compiled.formatter()
        taken = formatter.accept_tokens(sample.encode())
        assert (taken == len(sample.encode()) and formatter.can_stop) == (sample in good), sample
        assert parse(format, sample).is_complete == (sample in good), sample


def check_fault(format: Format, line: int, column: int, says: str) -> None:
    """The error says what is wrong, and shows the line with a caret below the place."""
    with pytest.raises(InvalidGrammar, match=says) as caught:
        check(format)
    assert (caught.value.line, caught.value.column) == (line, column)
    assert str(caught.value).splitlines()[-1].strip() == "^"
