"""Stand-ins for what SGLang 0.5.23 gives a grammar backend."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any, NamedTuple

from tests.adapters.engine_modules import modules_of


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


class ReasonerGrammarBackend(BaseGrammarBackend):
    def __init__(self, grammar_backend: Any, parser: Any, tokenizer: Any, enable_strict_thinking: bool) -> None:
        self.grammar_backend, self.is_strict = grammar_backend, enable_strict_thinking


#: SGLang's own settings of reasoning, which tests change.
SERVING = SimpleNamespace(reasoning_parser=None, enable_strict_thinking=False)


@contextmanager
def sglang_of(_: str = "") -> Iterator[dict[str, Any]]:
    """Import the adapter on these stand-ins, of one release alone, and give SGLang's registry."""
    registry: dict[str, Any] = {}
    classes = {one.__name__: one for one in (BaseGrammarObject, InvalidGrammarObject, GrammarRow, BaseGrammarBackend)}
    contents: dict[str, dict[str, Any]] = {
        "constrained.base_grammar_backend": {
            **classes,
            "GRAMMAR_BACKEND_REGISTRY": registry,
            "register_grammar_backend": registry.__setitem__,
        },
        "constrained.reasoner_grammar_backend": {"ReasonerGrammarBackend": ReasonerGrammarBackend},
        "constrained.torch_ops.token_filter_torch_ops": {"set_token_filter_torch": None},
        "parser.reasoning_parser": {"ReasoningParser": SimpleNamespace},
        "runtime_context": {"get_serving": lambda: SERVING},
        "server_args": {"add_grammar_backend_choices": lambda names: None},
    }
    with modules_of("formatter_sglang", {f"sglang.srt.{name}": content for name, content in contents.items()}):
        yield registry
