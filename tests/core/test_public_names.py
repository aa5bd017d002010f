"""What can be imported, and what importing it costs."""

from __future__ import annotations

import ast
import importlib
import re
import subprocess
import sys
from pathlib import Path

import pytest

import formatter_core

ROOT = Path(__file__).resolve().parents[2]
MODULES = sorted(
    ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
    for path in (ROOT / "formatter_core").rglob("*.py")
)


def test_the_names_of_the_contract() -> None:
    for name in (
        "Compiler",
        "Cursor",
        "FormatterBuilder",
        "Limits",
        "Vocabulary",
        "formats",
        "bitmask",
        "Result",
        "Formatter",
    ):
        assert hasattr(formatter_core, name)


def test_the_version_is_written_once() -> None:
    text = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    assert 'version = { attr = "formatter_core.__version__" }' in text
    assert re.fullmatch(r"\d+\.\d+\.\d+", formatter_core.__version__)


@pytest.mark.parametrize("name", MODULES)
def test_every_exported_name_is_there(name: str) -> None:
    module = (
        importlib.import_module(name)
        if name != "formatter_core.runtime.torch_bitmask"
        else pytest.importorskip("torch") and importlib.import_module(name)
    )
    for exported in getattr(module, "__all__", []):
        assert hasattr(module, exported), exported


def test_importing_the_core_imports_no_inference_engine() -> None:
    heavy = [
        "torch",
        "transformers",
        "vllm",
        "kbnf",
        "tokenizers",
        "tiktoken",
        "sentencepiece",
        "pydantic",
        "llama_cpp",
    ]
    code = f"import sys, formatter_core; print([name for name in {heavy!r} if name in sys.modules])"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)
    assert run.stdout.strip() == "[]"


def test_no_assert_for_users_no_bare_except_no_print() -> None:
    def is_fault(node: ast.AST) -> bool:
        is_bare = isinstance(node, ast.ExceptHandler) and node.type is None
        is_print = isinstance(node, ast.Call) and getattr(node.func, "id", "") == "print"
        return isinstance(node, ast.Assert) or is_bare or is_print

    assert [
        f"{path.relative_to(ROOT)}:{node.lineno}"
        for folder in ("formatter_core", "integrations")
        for path in (ROOT / folder).rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if is_fault(node)
    ] == []
