"""No adapter keeps a state of a sequence beside `Cursor`, the one that fails closed; hooks are short."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
#: A client of servers, which follows texts that came and makes no masks.
CLIENTS = ("formatter_openai",)
#: The modules that an inference engine calls.
HOOKS = {"backend", "filter", "grammar", "logits_processor", "sampler", "structured_outputs"}
MODULES = [
    path for path in sorted((ROOT / "integrations").glob("*/*.py")) if path.relative_to(ROOT).parts[1] not in CLIENTS
]


def states_beside_the_cursor(source: str) -> Iterator[int]:
    """Return the lines on which an object is given a formatter to keep, by its type or by where it comes from."""
    tree = ast.parse(source)
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef):
            fields = [one for one in node.body if isinstance(one, ast.AnnAssign)]
            yield from (one.lineno for one in fields if "Formatter" in names_in(one.annotation))
        is_annotated = isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Attribute)
        if is_annotated and "Formatter" in names_in(node.annotation):
            yield node.lineno
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            yield from kept_formatters(node)


def names_in(annotation: ast.expr) -> set[str]:
    return {node.id for node in ast.walk(annotation) if isinstance(node, ast.Name)}


def kept_formatters(function: ast.FunctionDef | ast.AsyncFunctionDef) -> Iterator[int]:
    """Return the assignments of a formatter to attributes and items, directly or by a local name."""
    made = {argument.arg for argument in function.args.args if "Formatter" in annotated(argument)}
    for node in ast.walk(function):
        if not isinstance(node, (ast.Assign, ast.AnnAssign)) or node.value is None:
            continue
        if not makes_formatter(node.value, made):
            continue
        for target in node.targets if isinstance(node, ast.Assign) else [node.target]:
            if isinstance(target, ast.Name):
                made.add(target.id)
            else:
                yield node.lineno


def annotated(argument: ast.arg) -> set[str]:
    return set() if argument.annotation is None else names_in(argument.annotation)


def makes_formatter(value: ast.expr, made: set[str]) -> bool:
    """Tell whether an expression makes a formatter that no cursor holds."""
    if isinstance(value, ast.Name):
        return value.id in made
    if isinstance(value, ast.Call):
        name = value.func.attr if isinstance(value.func, ast.Attribute) else getattr(value.func, "id", "")
        return name == "formatter" or (name == "fork" and makes_formatter(value.func.value, made))  # type: ignore[attr-defined]
    if isinstance(value, ast.IfExp):
        return makes_formatter(value.body, made) or makes_formatter(value.orelse, made)
    if isinstance(value, (ast.Tuple, ast.List)):
        return any(makes_formatter(one, made) for one in value.elts)
    return False


@pytest.mark.parametrize("path", MODULES, ids=lambda path: f"{path.parent.name}.{path.stem}")
def test_no_adapter_keeps_a_formatter(path: Path) -> None:
    assert list(states_beside_the_cursor(path.read_text(encoding="utf-8"))) == []


@pytest.mark.parametrize(
    "code",
    [
        "class Row:\n    state: Formatter | None",
        "def begin(self):\n    self._state: Formatter = make()",
        "def begin(self):\n    self._state = self.compiled.formatter()",
        "def begin(self):\n    start = compiled.formatter(ends)\n    self.rows[0] = start.fork()",
        "def begin(self):\n    self.pair = 1, None if free else compiled.formatter()",
        "def begin(self, state: Formatter):\n    self.state = state",
    ],
)
def test_a_state_beside_the_cursor_is_found(code: str) -> None:
    assert list(states_beside_the_cursor(code)) != []


def test_what_a_cursor_holds_is_not_a_state_beside_it() -> None:
    code = "def begin(self, format):\n    start = format.formatter()\n    self.cursor = Cursor(start)"
    assert list(states_beside_the_cursor(code)) == []


def test_hooks_and_what_inspects_an_engine_are_short() -> None:
    lines = {path: len(path.read_text(encoding="utf-8").splitlines()) for path in MODULES}
    most = {
        path: 150 if path.stem.startswith("_compat") else 200
        for path in MODULES
        if path.stem in HOOKS or "_compat" in path.stem
    }
    assert [str(path) for path, limit in most.items() if lines[path] > limit] == []
    assert len(most) > 20
