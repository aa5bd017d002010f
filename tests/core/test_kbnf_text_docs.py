"""The grammars in the reference of KBNF are KBNF, by the reader and by the grammar of KBNF that stands there itself."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from formatter_core.limits import Limits
from formatter_core.syntax.kbnf import parse_kbnf, to_kbnf
from tests.core.native_parse import parse

PAGE = Path(__file__).parents[2] / "docs" / "kbnf.md"
GRAMMARS = re.findall(r"^```kbnf\n(.*?)^```", PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)


def test_there_are_grammars() -> None:
    assert len(GRAMMARS) >= 6


@pytest.mark.parametrize("text", GRAMMARS, ids=range(len(GRAMMARS)))
def test_grammars_of_the_page(text: str) -> None:
    notation = parse_kbnf(GRAMMARS[-1])
    limits = Limits(work=10**9)
    for written in (text, to_kbnf(parse_kbnf(text))):
        assert parse(notation, written.encode(), limits) is not None
    assert parse(notation, text.replace(";", "", 1).encode(), limits) is None
