"""The order of the packages: data goes one way, so imports do too, lazy ones and those for type checkers included."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import formatter_core

ROOT = Path(formatter_core.__file__).parent
CRATE = ROOT / "engine" / "native" / "src"

#: From the lowest to the highest: a package may use those before it.
PACKAGES = (
    "errors",
    "limits",
    "grammar",
    "parsing",
    "vocabulary",
    "engine",
    "syntax",
    "schema",
    "layouts",
    "formats",
    "runtime",
    "generation",
    "trace",
    "testing",
    "__main__",
)
#: Packages that use the others as its users do.
USERS = ("__main__",)


def module_name(path: Path) -> str:
    parts = path.relative_to(ROOT.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


MODULES = {module_name(path): path for path in sorted(ROOT.rglob("*.py"))}


def package_of(module: str) -> str | None:
    """None for the package itself, which may use every package."""
    parts = module.split(".")
    return parts[1] if len(parts) > 1 else None


def imports_of(path: Path) -> set[str]:
    """Every module of ours that a file imports, at its top or inside a function, for use or for types alone."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert not node.level, f"{path} has a relative import"
            for alias in node.names:
                inner = f"{node.module}.{alias.name}"
                found.add(inner if inner in MODULES else str(node.module))
    return {name for name in found if name in MODULES}


GRAPH = {module: imports_of(path) - {module} for module, path in MODULES.items()}


def cycle_in(graph: dict[str, set[str]]) -> list[str] | None:
    """Some cycle, if there is one."""
    done: set[str] = set()
    for start in graph:
        path: list[str] = []
        stack: list[Iterator[str]] = []
        if start in done:
            continue
        path.append(start)
        stack.append(iter(sorted(graph[start])))
        while stack:
            following = next(stack[-1], None)
            if following is None:
                stack.pop()
                done.add(path.pop())
            elif following in path:
                return [*path[path.index(following) :], following]
            elif following not in done:
                path.append(following)
                stack.append(iter(sorted(graph[following])))
    return None


def test_every_module_is_in_a_package() -> None:
    assert {package_of(module) for module in MODULES} - {None} <= set(PACKAGES)


def test_no_arrow_runs_back_up() -> None:
    too_high = [
        (module, target)
        for module in MODULES
        for target in GRAPH[module]
        if (package := package_of(module)) is not None
        and (
            package not in USERS
            if package_of(target) is None
            else PACKAGES.index(str(package_of(target))) > PACKAGES.index(package)
        )
    ]
    assert not too_high


def test_modules_have_no_cycle() -> None:
    assert cycle_in(GRAPH) is None


#: The rooms of the crate, from the lowest to the highest: a module may use those before its own.
ROOMS = ("base", "regular", "tokens", "grammar", "budgets", "masks", "captures", "schema", "api")


def crate_module(path: Path) -> str:
    parts = path.relative_to(CRATE).with_suffix("").parts
    return "::".join(parts[:-1] if parts[-1] == "mod" else parts)


CRATE_MODULES = {
    crate_module(path): path for path in sorted(CRATE.rglob("*.rs")) if not path.stem.endswith(("lib", "_tests"))
}


def crate_uses(module: str) -> Iterator[str]:
    """The modules of the crate that a module uses, its tests left out."""
    text = CRATE_MODULES[module].read_text(encoding="utf-8").split("#[cfg(test)]")[0]
    text = re.sub(r"//.*", "", text)
    for match in re.finditer(r"\b(crate|(?:super::)*super)::([\w:]*)(?:\{([^;]*?)\})?", text):
        ups = match[1].count("super")
        above = module.split("::")[: -ups or None] if ups else []
        for inner in re.findall(r"(?:^|,)\s*([\w:]+)", match[3]) if match[3] else [""]:
            path = [*above, *filter(None, (match[2] + inner).split("::"))]
            while path and "::".join(path) not in CRATE_MODULES:
                path.pop()
            if path and "::".join(path) != module:
                yield "::".join(path)


CRATE_GRAPH = {module: set(crate_uses(module)) for module in CRATE_MODULES}


def test_modules_of_the_crate_have_no_cycle() -> None:
    assert len(CRATE_GRAPH) > 100
    assert cycle_in(CRATE_GRAPH) is None


def test_rooms_of_the_crate_use_those_below() -> None:
    assert {module.split("::")[0] for module in CRATE_MODULES} == set(ROOMS)
    room = {module: ROOMS.index(module.split("::")[0]) for module in CRATE_MODULES}
    too_high = [
        (module, used) for module, all_used in CRATE_GRAPH.items() for used in all_used if room[used] > room[module]
    ]
    assert not too_high


def private_names_of_others(path: Path) -> set[str]:
    """Return the private names that a module imports or reads of objects that are not its own."""
    tree = ast.parse(path.read_text(encoding="utf-8"))

    def is_private(name: str) -> bool:
        return name.startswith("_") and not name.startswith("__")

    own = {node.name for node in ast.walk(tree) if isinstance(node, (ast.FunctionDef, ast.ClassDef))}
    own |= {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
    read, imported = set(), set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and is_private(node.attr):
            if isinstance(node.value, ast.Name) and node.value.id in ("self", "cls"):
                own.add(node.attr)
            else:
                read.add(node.attr)
        elif isinstance(node, ast.ImportFrom) and str(node.module).startswith("formatter_core"):
            imported |= {alias.name for alias in node.names if is_private(alias.name)}
    # Private to an inference engine's or a library's object is another matter: see the adapters' `_compat`.
    return imported | (read - own)


def test_no_private_name_of_another_module_is_used() -> None:
    assert {module: found for module, path in MODULES.items() if (found := private_names_of_others(path))} == {}
