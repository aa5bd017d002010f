"""Compiles formats for a vocabulary."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from dataclasses import replace
from typing import Any, NoReturn, TypeVar, overload

from formatter_core.engine import EngineName, choose_engine
from formatter_core.engine.protocol import GrammarEngine
from formatter_core.errors import InvalidArgument, InvalidFormat, InvalidGrammar, LimitExceeded
from formatter_core.formats import as_format
from formatter_core.formats.protocol import Format
from formatter_core.grammar import Node, Special, Token, as_text, without_specials
from formatter_core.limits import Limits, checked_limits
from formatter_core.runtime.cache import ByteBoundedCache
from formatter_core.runtime.collection import paused_collection
from formatter_core.runtime.compiled import CompiledFormat
from formatter_core.support.arguments import not_picklable, shown, whole_number
from formatter_core.vocabulary import Vocabulary

__all__ = ["BYTES_PER_NODE", "Compiler"]

_T = TypeVar("_T")

#: Bytes of one grammar node in Python and in the engine; measured on schemas, rounded up.
BYTES_PER_NODE = 400
_NAMES_SHOWN = 10


class Compiler:
    """Compiles formats for one vocabulary, each content once; safe to share between threads.

    Args:
        vocabulary: the tokens to compile for.
        engine: `"auto"` (the best one available), `"native"`, `"kbnf"`, or a grammar engine of your own.
        limits: what one format may cost.
        cache_bytes: bytes of compiled formats kept for reuse; 0 keeps none.

    Raises:
        EngineUnavailable: the grammar engine is not installed; the message names the remedies.
        InvalidArgument: an argument of the wrong type.
    """

    def __init__(
        self,
        vocabulary: Vocabulary,
        engine: EngineName | GrammarEngine = "auto",
        limits: Limits | None = None,
        cache_bytes: int = 256 * 2**20,
    ) -> None:
        if not isinstance(vocabulary, Vocabulary):
            raise InvalidArgument(
                f"expected a Vocabulary, found {type(vocabulary).__name__}; "
                "make one with Vocabulary.from_huggingface(tokenizer) or Vocabulary(tokens, end_ids)",
                argument="vocabulary",
            )
        self.vocabulary = vocabulary
        self.limits = Limits() if limits is None else checked_limits(limits)
        self._engine = choose_engine(engine)
        self._cache: ByteBoundedCache[CompiledFormat] = ByteBoundedCache(
            whole_number(cache_bytes, "cache_bytes"), _size_of
        )

    def __repr__(self) -> str:
        return f"<Compiler of {self.vocabulary!r}, engine {self.engine}>"

    def __copy__(self) -> Compiler:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> Compiler:
        return self

    def __reduce__(self) -> NoReturn:
        raise not_picklable(self, "send its vocabulary, and make a Compiler there")

    @property
    def engine(self) -> str:
        """The name of the grammar engine."""
        return self._engine.name

    @overload
    def compile(self, format: type[_T] | CompiledFormat[_T]) -> CompiledFormat[_T]: ...
    @overload
    def compile(self, format: Any) -> CompiledFormat[Any]: ...
    def compile(self, format: Any) -> CompiledFormat[Any]:
        """Compile a format, or a shorthand for one: a `FormatterBuilder`, a `CompiledFormat` of the same vocabulary, a
        JSON Schema (`dict`, `bool` or JSON text), a type, a list of texts, or a pattern of Python's `re`.

        Raises:
            InvalidFormat: not a valid format (`InvalidGrammar`, `InvalidRegex`, `InvalidSchema`).
            UnsupportedSchema: a schema keyword that is not enforced exactly.
            UnsatisfiableSchema: no document satisfies the schema.
            UnsupportedByEngine: the grammar engine cannot enforce a part of it.
            LimitExceeded: it costs more than `limits` allow.
        """
        try:
            made = as_format(format)
            if isinstance(made, CompiledFormat):
                made = self._of_same_vocabulary(made)
            key = made.key()
            compiled = self._cache.get(key, lambda: self._compile(made))
            if compiled.engine_grammar.is_usable():
                return compiled
            self._cache.forget(key, compiled)
            return self._cache.get(key, lambda: self._compile(made))
        except RecursionError as error:  # only formats nested in formats; everything else counts its depth
            raise LimitExceeded("depth", self.limits.depth, "the nesting of formats") from error

    def _of_same_vocabulary(self, compiled: CompiledFormat) -> Format:
        """The format of a `CompiledFormat`; refused if it belongs to another vocabulary."""
        own, other = self.vocabulary, compiled.vocabulary
        if own is not other and (len(own) != len(other) or own.fingerprint != other.fingerprint):
            raise InvalidFormat(
                f"the format was compiled for another vocabulary, {other!r}, and this compiler is for {own!r}; "
                "pass its `format` to compile it again"
            )
        return compiled.format

    def _compile(self, format: Format) -> CompiledFormat:
        with paused_collection():
            return self._compile_now(format)

    def _compile_now(self, format: Format) -> CompiledFormat:
        lowered = as_written = format.to_grammar(self.limits)
        program = lowered.grammar.check(self.limits)
        if program.specials:
            lowered = replace(lowered, grammar=without_specials(lowered.grammar, self._special_token))
            program = lowered.grammar.check(self.limits)
        self._check_tokens(program.tokens)
        try:
            engine_grammar = self._engine.compile(lowered.grammar, self.vocabulary, self.limits)
        except InvalidGrammar as error:  # the grammar derives no text
            raise lowered.why_empty() or error from None
        return CompiledFormat(
            format,
            lowered,
            engine_grammar,
            as_written=as_written,
            vocabulary=self.vocabulary,
            engine=self._engine.name,
            limits=self.limits,
            program=program,
        )

    def _special_token(self, special: Special) -> Node:
        """The token that the vocabulary calls so, or its name as text where that will do."""
        tokens = self.vocabulary.special_tokens
        token_id = tokens.get(special.name)
        if token_id is not None and token_id not in self.vocabulary.end_ids:
            return Token(token_id)
        if special.or_text:
            return as_text(special)
        if token_id is not None:
            raise InvalidFormat(
                f"the special token {special.name!r} is an end id; a format ends by itself, leave it out"
            )
        others = difflib.get_close_matches(special.name, tokens, _NAMES_SHOWN, 0.0) or ["none"]
        raise InvalidFormat(
            f"the vocabulary has no special token {shown(special.name)}; its special tokens are "
            f"{', '.join(others)}{', ...' if len(tokens) > len(others) else ''}"
        )

    def _check_tokens(self, tokens: Iterable[int]) -> None:
        """Raise unless each token that the grammar names by id is in the vocabulary, and neither text nor an end id."""
        for token_id in tokens:
            if token_id >= len(self.vocabulary):
                raise InvalidFormat(f"token {token_id} is outside the vocabulary of {len(self.vocabulary)} ids")
            if token_id in self.vocabulary.end_ids:
                raise InvalidFormat(f"token {token_id} is an end id, which a format never contains; remove it")
            if self.vocabulary.text_token(token_id):
                raise InvalidFormat(
                    f"token {token_id} is text ({self.vocabulary.text_token(token_id)!r}); "
                    "only special tokens can be given by id, so use the text instead"
                )


def _size_of(compiled: CompiledFormat) -> int:
    return compiled.program.nodes * BYTES_PER_NODE
