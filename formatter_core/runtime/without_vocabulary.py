"""Parse a text and check a format, without a vocabulary."""

from __future__ import annotations

from collections.abc import Hashable
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, TypeVar, overload

from formatter_core.errors import FormatterError, InvalidGrammar, LimitExceeded
from formatter_core.formats import as_format
from formatter_core.formats.coercion import widest_reading
from formatter_core.formats.protocol import Format, Lowered
from formatter_core.grammar import AnySpecial, Grammar, Node, Special, Token, as_text, map_children, without_specials
from formatter_core.limits import DEFAULT_LIMITS, Limits, checked_limits
from formatter_core.limits.cache import ByteBoundedCache
from formatter_core.runtime.compiled import CompiledFormat
from formatter_core.runtime.compiler import BYTES_PER_NODE, Compiler
from formatter_core.runtime.result import Ended, Result
from formatter_core.runtime.text_result import result_of_text
from formatter_core.vocabulary import Vocabulary

__all__ = ["check", "parse"]

_T = TypeVar("_T")

_CACHE_BYTES = 32 * 2**20
#: The only special token of the vocabulary that is used to check formats.
_SPECIAL = 257


@overload
def parse(format: type[_T] | CompiledFormat[_T], text: str | bytes, *, ended: Ended = "end") -> Result[_T]: ...
@overload
def parse(format: Any, text: str | bytes, *, ended: Ended = "end") -> Result[Any]: ...
def parse(format: Any, text: str | bytes, *, ended: Ended = "end") -> Result[Any]:
    """Parse a text in a format, without a model, a vocabulary or a grammar engine.

    If the text does not match, the result is not complete, but nothing raises until you read its value.

    If you give a JSON Schema or a type itself, the text is first read in canonical spelling and, if that fails, in any
    spelling and any order of keys; the values are the same. A format object is used unchanged.

    Args:
        format: a format that `Compiler.compile` accepts.
        text: the whole text.
        ended: how the text ended. If it did not end by itself (`"length"`, `"stop_string"`, `"error"`), it is
            complete only if nothing could follow it.

    Raises:
        FormatterError: the format is invalid; `check` raises the same errors.
        LimitExceeded: reading the text needs more work than `Limits` allow.
    """
    try:
        made = as_format(format)
        lowered = _lowered_of(made)
    except RecursionError as error:  # for formats nested in the user's formats; other code counts depth
        raise LimitExceeded("depth", DEFAULT_LIMITS.depth, "the nesting of formats") from error

    def wider() -> Lowered | None:
        wide = widest_reading(format, made)
        with suppress(FormatterError):  # in any order, a schema may be refused, or exceed a limit
            return None if wide is None else _lowered_of(wide)
        return None

    try:
        return result_of_text(lowered, text, DEFAULT_LIMITS, ended, wider=wider)
    except InvalidGrammar as error:  # the grammar matches no text
        raise lowered.why_empty() or error from None


def check(format: Any, *, limits: Limits = DEFAULT_LIMITS) -> None:
    """Raise the errors of `Compiler.compile`, except those that depend on a vocabulary.

    Args:
        format: a format that `Compiler.compile` accepts.
        limits: the maximum cost of the format.
    """
    _compiler(checked_limits(limits)).compile(_WithoutTokens(as_format(format)))


def _lowered_of(format: Format) -> Lowered:
    return _lowered.get(format.key(), lambda: _lower(format))[1]


def _lower(format: Format) -> tuple[Format, Lowered, int]:
    """Return the format, which must live as long as its key is in use, its grammar, and the grammar's size."""
    lowered = format.to_grammar(DEFAULT_LIMITS)
    census = lowered.grammar.check(DEFAULT_LIMITS)
    if census.specials:
        lowered = replace(lowered, grammar=without_specials(lowered.grammar, as_text))
    return format, lowered, census.nodes


_lowered: ByteBoundedCache[tuple[Format, Lowered, int]] = ByteBoundedCache(
    _CACHE_BYTES, lambda entry: entry[2] * BYTES_PER_NODE
)


@lru_cache(maxsize=4)
def _compiler(limits: Limits) -> Compiler:
    tokens = [*Vocabulary.of_bytes().tokens, None]
    return Compiler(Vocabulary(tokens, Vocabulary.of_bytes().end_ids), limits=limits, cache_bytes=_CACHE_BYTES)


@dataclass(frozen=True)
class _WithoutTokens:
    """A format whose named special tokens are all replaced by one."""

    format: Format

    def to_grammar(self, limits: Limits) -> Lowered:
        def rename(node: Node) -> Node:
            if isinstance(node, Special) and node.or_text:
                return as_text(node)
            return Token(_SPECIAL) if isinstance(node, (Token, Special, AnySpecial)) else map_children(node, rename)

        lowered = self.format.to_grammar(limits)
        census = lowered.grammar.check(limits)
        if not (census.tokens or census.specials):
            return lowered
        rules = {name: rename(rule) for name, rule in lowered.grammar.rules.items()}
        return replace(lowered, grammar=Grammar(rules, lowered.grammar.start))

    def to_json(self) -> dict[str, Any]:
        return self.format.to_json()

    def key(self) -> Hashable:
        return self.format.key()
