"""Stand-ins for the base classes of SGLang 0.5.23's grammar backends."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from types import ModuleType
from typing import Any, NamedTuple


class BaseGrammarObject:
    def __init__(self) -> None:
        self._finished = False
        self.grammar_stats = None
        self.current_token = None


class InvalidGrammarObject(BaseGrammarObject):
    def __init__(self, error_message: str) -> None:
        super().__init__()
        self.error_message = error_message


class GrammarRow(NamedTuple):
    row: int
    grammar: Any


class BaseGrammarBackend:
    def __init__(self) -> None:
        self.executor = ThreadPoolExecutor(1)


@contextmanager
def sglang() -> Iterator[dict[str, Any]]:
    """The adapter on these; gives SGLang's registry."""
    registry: dict[str, Any] = {}
    base, arguments = ModuleType("sglang.srt.constrained.base_grammar_backend"), ModuleType("sglang.srt.server_args")
    for one in (BaseGrammarObject, InvalidGrammarObject, GrammarRow, BaseGrammarBackend):
        setattr(base, one.__name__, one)
    base.__dict__.update(GRAMMAR_BACKEND_REGISTRY=registry, register_grammar_backend=registry.__setitem__)
    base.__dict__.update(register_vocab_mask_buffer=lambda name, rows, most: rows)
    arguments.__dict__.update(add_grammar_backend_choices=lambda names: None)
    packages = ("sglang", "sglang.srt", "sglang.srt.constrained")
    modules = {name: ModuleType(name) for name in packages} | {one.__name__: one for one in (base, arguments)}
    before = _taken_out()
    sys.modules.update(modules)
    try:
        yield registry
    finally:
        _taken_out()
        sys.modules.update(before)


def _taken_out() -> dict[str, ModuleType]:
    names = [name for name in sys.modules if name.split(".")[0] in ("sglang", "formatter_sglang")]
    return {name: sys.modules.pop(name) for name in names}
