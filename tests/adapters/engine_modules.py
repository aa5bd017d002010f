"""Replaces the modules of an inference engine by stand-ins, and has its adapter imported anew on them."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from types import ModuleType
from typing import Any


@contextmanager
def modules_of(adapter: str, contents: Mapping[str, Mapping[str, Any]]) -> Iterator[dict[str, ModuleType]]:
    """Make modules with these names and contents, and give them; what was imported before comes back afterwards.

    Args:
        adapter: the package of ours, which is forgotten before and afterwards.
        contents: what each module has, by its full name. The packages around it are made, too.
    """
    packages = {adapter, *(name.partition(".")[0] for name in contents)}
    before = _taken_out(packages)
    for name, content in contents.items():
        parts = name.split(".")
        for end in range(1, len(parts) + 1):
            path = ".".join(parts[:end])
            if path not in sys.modules:
                sys.modules[path] = module = ModuleType(path)
                module.__path__ = []
                if end > 1:
                    setattr(sys.modules[".".join(parts[: end - 1])], parts[end - 1], module)
        vars(sys.modules[name]).update(content)
    try:
        yield {name: sys.modules[name] for name in contents}
    finally:
        _taken_out(packages)
        sys.modules.update(before)


def _taken_out(packages: set[str]) -> dict[str, ModuleType]:
    names = [name for name in sys.modules if name.partition(".")[0] in packages]
    return {name: sys.modules.pop(name) for name in names}
