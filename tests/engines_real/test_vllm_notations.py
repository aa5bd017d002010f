"""Grammars in the notations of XGrammar and llguidance, which vLLM brings along: the same texts for them as for us."""

from __future__ import annotations

import importlib.util
import json
from typing import Any

import pytest

for _engine in ("vllm", "xgrammar", "llguidance"):
    if importlib.util.find_spec(_engine) is None:
        pytest.skip(f"needs {_engine}", allow_module_level=True)

from benchmarks.notations import SPECIAL, Llguidance, XGrammar, outcome  # noqa: E402
from tests.core import test_ebnf, test_lark, test_structural_tag  # noqa: E402

#: Notation, its own engine, grammar. Without JSON and `%ignore`: `docs/grammars.md` says where engines differ there.
CASES: list[tuple[str, Any, str]] = [
    *(("ebnf", XGrammar, text) for text, *_ in test_ebnf.TABLE),
    *(("lark", Llguidance, text) for text, *_ in test_lark.TABLE if "%json" not in text and "%ignore" not in text),
    *(
        ("structural_tag", XGrammar, json.dumps({"type": "structural_tag", "format": format}))
        for format, *_ in [*test_structural_tag.TABLE, *test_structural_tag.TOKENS]
        if "json_schema" not in json.dumps(format)
    ),
]


@pytest.mark.parametrize(("kind", "engine", "text"), CASES, ids=[f"{kind} {text[:50]!r}" for kind, _, text in CASES])
def test_random_texts_get_the_same_answer(kind: str, engine: Any, text: str) -> None:
    found = outcome(kind, text, engine, 24, seed=0)
    if found["outcome"] == "refused by theirs":
        pytest.skip(f"{engine.__name__}: {found['theirs']}")
    # To XGrammar special tokens are text wherever it only looks for strings.
    different = [each for each in found["differences"] if max(each["text"]) < chr(SPECIAL) or "token" in text]
    assert not different, different
