"""GBNF as we read it and as llama.cpp's own grammar sampler does; what we write is read there too."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from formatter_core import formats, to_gbnf

pytest.importorskip("llama_cpp")
pytest.importorskip("gguf")

from benchmarks.notations import LlamaCpp, Ours, compared
from tests.engines_real.llama_cpp_models import write_spm

GRAMMARS = {
    "alternatives": 'root ::= "a" |\n  "b" [x-z]* | ("c" # a comment\n "d")+',
    "counts": 'root ::= [0-9]{2,4} ("," [0-9]{2}){0,3} "."{1,}',
    "negated classes": r'root ::= [^"\n\x00-\x1f]{0,8} ["\]\\-] .',
    "recursion": 'root ::= "(" root ")" root | ""',
    "names": 'root ::= list-of-words\nlist-of-words ::= word (" " word)*\nword ::= [a-zé😀]+',
    "a schema": to_gbnf({"type": "object", "properties": {"a": {"type": "integer"}}, "additionalProperties": False}),
    "an open schema": to_gbnf({"type": "array", "items": {}}),
    "free text": to_gbnf(formats.until("</s>")),
    "a choice": to_gbnf(["yes", 'no, "never"', "maybe\n"]),
    "a string": to_gbnf(formats.regex("[^a-f]{3,1500}-?")),
}


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_spm(tmp_path_factory.mktemp("models") / "bytes.gguf")


@pytest.mark.parametrize("name", GRAMMARS)
def test_both_accept_the_same_texts(name: str, model: Path) -> None:
    text = GRAMMARS[name]
    found = compared(Ours("gbnf", text), LlamaCpp("gbnf", text, str(model)), 60, random.Random(0))
    assert not found["differences"]
    assert found["texts"] >= 50


def test_llama_cpp_takes_no_left_recursion(model: Path) -> None:
    with pytest.raises(ValueError, match="does not read it"):
        LlamaCpp("gbnf", 'root ::= root "a" | "b"', str(model))
