"""Drive the engines that are measured by one small interface: formatter-core, and the peers that are installed."""

from __future__ import annotations

import importlib.metadata
import json
from collections.abc import Callable
from typing import Any, Protocol

import numpy as np

from benchmarks.cases import Case
from benchmarks.data import Encode
from formatter_core import Compiler, Vocabulary, bitmask, formats
from formatter_core.engine import EngineName
from formatter_core.errors import TokenRejected

__all__ = ["DEFAULT", "ENGINES", "Engine", "NoNotationError", "Sequence", "build"]

WARM_UP = Case("warm-up", ("ab",), pattern="[a-z]+")


class NoNotationError(Exception):
    """Say that the engine has no notation for this case."""


class Sequence(Protocol):
    """Follow one sequence under a compiled format."""

    def mask(self) -> None:
        """Compute the mask of the next tokens into the engine's row."""

    def accept(self, token_id: int) -> bool:
        """Take a token if the mask allows it, and tell whether it does."""

    def step(self, token_id: int) -> bool:
        """Take a token and compute the next mask, as a serving loop does; tell whether the token was allowed."""

    def complete(self) -> bool:
        """Tell whether the text may end here."""

    def forced(self) -> bytes:
        """Return the bytes that every continuation begins with."""


class Engine(Protocol):
    """Stand for an engine with its vocabulary built."""

    version: str

    def compile(self, case: Case) -> Callable[[], Sequence]:
        """Compile anew, without any cache of whole formats, and return what makes sequences."""


class _Formatter:
    """Drive formatter-core by its public names."""

    grammar_engine: EngineName = "auto"

    def __init__(self, vocabulary: Vocabulary, _encode: Encode) -> None:
        self.compiler = Compiler(vocabulary, engine=self.grammar_engine, cache_bytes=0)
        self.version = f"formatter-core with {self.compiler.engine}"
        self.row = bitmask.allocate(1, len(vocabulary))[0]

    def compile(self, case: Case) -> Callable[[], Sequence]:
        compiled = self.compiler.compile(self.format(case))
        return lambda: _FormatterSequence(compiled.formatter(), self.row)

    def format(self, case: Case) -> Any:
        return case.format()


class _FormatterKbnf(_Formatter):
    grammar_engine = "kbnf"


class _FormatterAny(_Formatter):
    def __init__(self, vocabulary: Vocabulary, encode: Encode) -> None:
        super().__init__(vocabulary, encode)
        self.version += ", any key order and spelling"

    def format(self, case: Case) -> Any:
        if case.schema is None:
            return case.format()
        return formats.json_schema(case.schema, key_order="any", spelling="any")


class _FormatterSequence:
    def __init__(self, formatter: Any, row: Any) -> None:
        self.formatter, self.row = formatter, row

    def mask(self) -> None:
        self.formatter.fill_bitmask(self.row)

    def accept(self, token_id: int) -> bool:
        if not bitmask.get(self.row, token_id):
            return False
        self.formatter.accept_token(token_id)
        return True

    def step(self, token_id: int) -> bool:
        try:
            self.formatter.step(token_id, self.row)
        except TokenRejected:
            return False
        return True

    def complete(self) -> bool:
        return bool(self.formatter.can_stop)

    def forced(self) -> bytes:
        return bytes(self.formatter.forced_bytes())


class _LLGuidance:
    """Drive llguidance with its default slices."""

    def __init__(self, vocabulary: Vocabulary, encode: Encode) -> None:
        import llguidance
        import llguidance.numpy

        self.version = "llguidance " + importlib.metadata.version("llguidance")
        self.library = llguidance
        self.fill = llguidance.numpy.fill_next_token_bitmask

        self.tokenizer = llguidance.LLTokenizer(llguidance.TokenizerWrapper(_Description(vocabulary, encode)))
        self.rows = llguidance.numpy.allocate_token_bitmask(1, len(vocabulary))

    def compile(self, case: Case) -> Callable[[], Sequence]:
        make = self.library.LLMatcher
        if case.compact:
            compact = self.library.JsonCompiler(separators=(",", ":"), whitespace_flexible=False)
            grammar = compact.compile(json.dumps(case.schema))
        elif case.schema is not None:
            grammar = make.grammar_from_json_schema(json.dumps(case.schema))
        elif case.pattern is not None:
            grammar = make.grammar_from_regex(case.pattern)
        elif case.lark is not None:
            grammar = make.grammar_from_lark(case.lark)
        else:
            raise NoNotationError
        matcher = make(self.tokenizer, grammar)
        if matcher.is_error():
            raise ValueError(matcher.get_error())
        return lambda: _LLGuidanceSequence(matcher.deep_copy(), self.rows, self.fill)


class _Description:
    """Describe a tokenizer as llguidance asks for it."""

    def __init__(self, vocabulary: Vocabulary, encode: Encode) -> None:
        self.eos_token_id = vocabulary.end_ids[0]
        self.bos_token_id = None
        # A leading 0xFF is how that library tells special tokens from text.
        self.tokens = [b"\xff<|%d|>" % i if token is None else token for i, token in enumerate(vocabulary.tokens)]
        self.special_token_ids = [i for i, token in enumerate(vocabulary.tokens) if token is None]
        self.encode = encode

    def __call__(self, text: str) -> list[int]:
        return self.encode(text)


class _LLGuidanceSequence:
    def __init__(self, matcher: Any, rows: Any, fill: Any) -> None:
        self.matcher, self.rows, self.fill = matcher, rows, fill

    def mask(self) -> None:
        self.fill(self.matcher, self.rows, 0)

    def accept(self, token_id: int) -> bool:
        if not bitmask.get(self.rows[0], token_id):
            return False
        return bool(self.matcher.consume_token(token_id))

    def step(self, token_id: int) -> bool:
        allowed: bool = self.matcher.consume_token(token_id)
        self.fill(self.matcher, self.rows, 0)
        return allowed

    def complete(self) -> bool:
        return bool(self.matcher.is_accepting())

    def forced(self) -> bytes:
        return bytes(self.matcher.compute_ff_bytes())


class _XGrammar:
    """Drive xgrammar on one thread; it allows free whitespace, and extra properties if the schema does."""

    def __init__(self, vocabulary: Vocabulary, _encode: Encode) -> None:
        import xgrammar

        self.version = "xgrammar " + importlib.metadata.version("xgrammar")
        self.library = xgrammar
        self.end_id = vocabulary.end_ids[0]
        words = [b"" if token is None else token for token in vocabulary.tokens]
        words[self.end_id] = b"<|end|>"
        info = xgrammar.TokenizerInfo(
            words, xgrammar.VocabType.RAW, vocab_size=len(words), stop_token_ids=[self.end_id]
        )
        self.compiler = xgrammar.GrammarCompiler(info, max_threads=1, cache_enabled=False)
        self.rows = xgrammar.allocate_token_bitmask(1, len(words))

    def compile(self, case: Case) -> Callable[[], Sequence]:
        if case.schema is not None:
            blanks = {"any_whitespace": False, "separators": (",", ":")} if case.compact else {"any_whitespace": True}
            compiled = self.compiler.compile_json_schema(json.dumps(case.schema), strict_mode=False, **blanks)
        elif case.pattern is not None:
            compiled = self.compiler.compile_regex(case.pattern)
        elif case.ebnf is not None:
            compiled = self.compiler.compile_grammar(case.ebnf)
        elif case.tag is not None:
            compiled = self.compiler.compile_structural_tag(case.tag)
        else:
            raise NoNotationError
        return lambda: _XGrammarSequence(self.library.GrammarMatcher(compiled), self.rows, self.end_id)


class _XGrammarSequence:
    def __init__(self, matcher: Any, rows: Any, end_id: int) -> None:
        self.matcher, self.rows, self.end_id = matcher, rows, end_id

    def mask(self) -> None:
        self.matcher.fill_next_token_bitmask(self.rows)

    def accept(self, token_id: int) -> bool:
        return bool(self.matcher.accept_token(token_id))

    def step(self, token_id: int) -> bool:
        allowed: bool = self.matcher.accept_token(token_id)
        self.matcher.fill_next_token_bitmask(self.rows)
        return allowed

    def complete(self) -> bool:
        self.mask()
        return bitmask.get(np.asarray(self.rows[0]), self.end_id)

    def forced(self) -> bytes:
        return str(self.matcher.find_jump_forward_string()).encode()


ENGINES: dict[str, type[Any]] = {
    "formatter-core": _Formatter,
    "formatter-core/kbnf": _FormatterKbnf,
    "formatter-core/any": _FormatterAny,
    "llguidance": _LLGuidance,
    "xgrammar": _XGrammar,
}
#: The engines of a benchmark by default; the first is compared with the others.
DEFAULT = ["formatter-core", "llguidance", "xgrammar"]


def build(name: str, vocabulary: Vocabulary, encode: Encode) -> Engine | None:
    """Build the engine with its vocabulary; if it is not installed, say so and return None."""
    try:
        engine: Engine = ENGINES[name](vocabulary, encode)
        engine.compile(WARM_UP)().mask()  # what is made once for each vocabulary
    except Exception as error:  # noqa: BLE001 (whatever keeps a peer from being there)
        print(f"{name} is left out: {type(error).__name__}: {error}")
        return None
    return engine
