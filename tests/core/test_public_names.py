"""Public names can be imported, and importing them costs little."""

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


def test_what_engines_load_by_name_is_frozen() -> None:
    text = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    for lines in (
        '"vllm.logits_processors"]\nformatter = "formatter_vllm.entry_point:EntryPointLogitsProcessor"\n',
        '"vllm.general_plugins"]\nformatter = "formatter_vllm.structured_outputs:register"\n',
        '"sglang.srt.plugins"]\nformatter = "formatter_sglang:register"\n',
    ):
        assert f"[project.entry-points.{lines}" in text
        module, name = lines.split('= "')[1].rstrip('"\n').split(":")
        path = ROOT.joinpath("integrations", *module.split("."))
        source = next(file for file in (path.with_suffix(".py"), path / "__init__.py") if file.exists())
        assert name in source.read_text(encoding="utf-8")


def test_what_is_shown_says_what_it_is() -> None:
    compiler = formatter_core.Compiler(formatter_core.Vocabulary.of_bytes())
    builder = formatter_core.FormatterBuilder()
    builder.append("age ", builder.integer(name="age"))
    compiled = compiler.compile(builder)
    formatter = compiled.formatter()
    formatter.accept_bytes(b"age 7")
    for thing, words in (
        (compiler, ["Compiler", "257 tokens", compiler.engine]),
        (builder, ["FormatterBuilder", "age {age}"]),
        (compiled, ["CompiledFormat", "'age '", "257 tokens", compiler.engine]),
        (formatter, ["Formatter", "age 7"]),
        (formatter.result(), ["Result", "age 7"]),
    ):
        assert [word for word in words if word not in repr(thing)] == []


def test_every_exported_name_is_there() -> None:
    pytest.importorskip("torch", reason="formatter_core.runtime.torch_bitmask imports torch")
    for name in MODULES:
        module = importlib.import_module(name)
        missing = [exported for exported in getattr(module, "__all__", []) if not hasattr(module, exported)]
        assert not missing, name


def test_a_name_is_imported_when_it_is_first_used() -> None:
    code = """
import sys
before = set(sys.modules)
import formatter_core
assert not {"numpy", "formatter_core.formats"} & set(sys.modules), sorted(set(sys.modules) - before)
assert set(formatter_core.__all__) <= set(dir(formatter_core))
formatter_core.Limits
assert "formatter_core.formats" not in sys.modules
names = {}
exec("from formatter_core import *", names)
assert set(formatter_core.__all__) <= set(names)
import pickle
assert pickle.loads(pickle.dumps([formatter_core.Limits(), formatter_core.Compiler]))[1] is names["Compiler"]
for wrong in ("compiler", "result", "Compilr"):
    assert not hasattr(formatter_core, wrong), wrong
"""
    subprocess.run([sys.executable, "-c", code], check=True, cwd=ROOT)


def test_type_checkers_see_the_same_names() -> None:
    tree = ast.parse((ROOT / "formatter_core" / "__init__.py").read_text(encoding="utf-8"))
    (block,) = [
        node for node in tree.body if isinstance(node, ast.If) and getattr(node.test, "id", "") == "TYPE_CHECKING"
    ]
    seen = {
        alias.name: importlib.import_module(f"{node.module}.{alias.name}")
        if f"{node.module}.{alias.name}" in MODULES
        else getattr(importlib.import_module(str(node.module)), alias.name)
        for node in block.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    assert seen == {name: getattr(formatter_core, name) for name in formatter_core.__all__ if name != "__version__"}


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
    code = f"import sys; from formatter_core import *; print([name for name in {heavy!r} if name in sys.modules])"
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
