"""The kbnf package itself, fenced in: loading, vocabularies, building engines, and what may be asked of them.

Nothing else touches the package. Measured against version 0.4.2; every rule here answers a fault of that version.
"""

from __future__ import annotations

import copy
import threading
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from importlib import import_module, metadata
from importlib.util import find_spec
from typing import Any, TypeVar
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from formatter_core.engine.kbnf.productions import ENGINE
from formatter_core.engine.kbnf.regular import SENTINEL, letters, special_letter
from formatter_core.errors import EngineUnavailable, UnsupportedByEngine
from formatter_core.limits.forking import hold_during_fork
from formatter_core.vocabulary import Vocabulary

__all__ = [
    "BYTE_END",
    "BYTE_SPECIALS",
    "PatternError",
    "TokenTable",
    "accepts",
    "allowed_ids",
    "available",
    "build",
    "byte_vocabulary",
    "feed",
    "fork",
    "guarded",
    "token_spelling",
    "token_table",
]

VERSION = "0.4.2"

#: Ids of the byte vocabulary: 0 to 255 are the bytes, then the end of the text, then "some special token".
BYTE_END = 256
BYTE_SPECIALS = frozenset(range(257, 262))

#: The package also complains about bytes that no token has. This token has them all, and as it begins with a byte
#: that begins no letter it is never even tried.
_FILLER = bytes((0xC0, *range(1, 0xF8)))

_T = TypeVar("_T")

_tables: WeakKeyDictionary[Vocabulary, TokenTable] = WeakKeyDictionary()
_tables_lock = threading.Lock()
hold_during_fork(_tables_lock)


class PatternError(Exception):
    """A pattern that the package cannot build, or not within the memory given; it never leaves the engine."""


def available() -> bool:
    """Tell whether the installed version is the one that all measurements here are of; this loads nothing."""
    try:
        return find_spec("kbnf") is not None and metadata.version("kbnf") == VERSION
    except (metadata.PackageNotFoundError, ValueError):
        return False


@cache
def _package() -> Any:
    remedy = f"install the kbnf package (pip install kbnf=={VERSION})"
    if not available():
        raise EngineUnavailable(ENGINE, [remedy])
    try:
        return import_module("kbnf")
    except ImportError as error:
        raise EngineUnavailable(ENGINE, [f"{remedy}; the installed one does not load: {error}"]) from None


def guarded(call: Callable[[], _T], node: str = "this grammar") -> _T:
    """Call into the package; turn its panics, which are not `Exception`s, into this project's errors."""
    try:
        return call()
    except BaseException as error:
        if type(error).__name__ != "PanicException":
            raise
        raise UnsupportedByEngine(f"the package failed: {error}", engine=ENGINE, node=node) from None


def token_spelling(vocabulary: Vocabulary, token_id: int) -> bytes | None:
    """Return the bytes that the package is given for a token; None for end ids and ids out of range."""
    if not 0 <= token_id < len(vocabulary) or token_id in vocabulary.end_ids:
        return None
    data = vocabulary.text_token(token_id)
    if data is not None:
        return letters(data).encode()
    letter = special_letter(token_id)
    return None if letter is None else letter.encode()


@dataclass(frozen=True)
class TokenTable:
    """The package's vocabulary: token ids, then the sentinel, then a filler.

    Of ids with the same bytes it is given the first, because it logs complaints about others; `firsts` and `others`
    are parallel arrays of ids.
    """

    native: Any
    firsts: NDArray[np.int64]
    others: NDArray[np.int64]


def token_table(vocabulary: Vocabulary) -> TokenTable:
    """Return the table that masks are computed over. It is made once per vocabulary: 0.3 s for 128,000 tokens."""
    with _tables_lock:
        if vocabulary not in _tables:
            _tables[vocabulary] = _new_table(vocabulary)
        return _tables[vocabulary]


def _new_table(vocabulary: Vocabulary) -> TokenTable:
    ids: dict[bytes, int] = {}
    same: list[tuple[int, int]] = []
    for token_id in range(len(vocabulary)):
        spelling = token_spelling(vocabulary, token_id)
        if spelling is not None:
            first = ids.setdefault(spelling, token_id)
            if first != token_id:
                same.append((first, token_id))
    token = _package().Token
    table = {token_id: token(spelling) for spelling, token_id in ids.items()}
    table[len(vocabulary)] = token(SENTINEL.encode())
    table[len(vocabulary) + 1] = token(_FILLER)
    firsts, others = np.array(same, dtype=np.int64).reshape(-1, 2).T
    return TokenTable(_package().Vocabulary(table, {}), firsts, others)


@cache
def byte_vocabulary() -> Any:
    """Make a vocabulary of one token per byte, one for the end, and one per first byte of special tokens' letters."""
    token = _package().Token
    table = {byte: token(letters(bytes([byte])).encode()) for byte in range(256)}
    table[BYTE_END] = token(SENTINEL.encode())
    for special, lead in zip(sorted(BYTE_SPECIALS), range(0xF0, 0xF5), strict=True):
        table[special] = token(bytes([lead]))
    table[max(table) + 1] = token(_FILLER)
    return _package().Vocabulary(table, {})


def build(text: str, vocabulary: Any, memory: int) -> Any:
    """Make an engine at the empty text.

    Args:
        text: the grammar.
        vocabulary: a vocabulary of the package.
        memory: the bytes that building one pattern may take.

    Raises:
        PatternError: one of the patterns is malformed to the package, or takes more memory.
        UnsupportedByEngine: anything else that it does not take.
    """
    package = _package()
    config = package.Config()
    regex = config.regex_config
    regex.max_memory_usage = memory
    # The eager cache loses tokens, and takes seconds to fill.
    regex.min_tokens_required_for_eager_regex_cache = None
    config.regex_config = regex
    compression = config.compression_config
    # Turning literals into automata ignores the memory bound.
    compression.min_terminals = 2**31
    config.compression_config = compression
    try:
        return guarded(lambda: package.InternalEngine(text, vocabulary, config))
    except ValueError as error:
        message = str(error)
        # A pattern that does not parse is reported as rest of the text that does not.
        if "size limit" in message or "parsing error" in message or "building NFA" in message:
            raise PatternError(message[:200]) from None
        raise UnsupportedByEngine(message[:200], engine=ENGINE, node="this grammar") from None


def fork(engine: Any) -> Any:
    """Return an independent engine in the same state.

    The package shares the grammar, and copies the masks that it keeps.
    """
    return guarded(lambda: copy.copy(engine))


def accepts(engine: Any, spelling: bytes) -> bool:
    """Append letters to an engine. If the result is False, the engine is unusable: pass one that is not needed
    afterwards.

    Byte by byte, because the package panics when it has to go back over more than one.
    """

    def call() -> None:
        for index in range(len(spelling)):
            engine.try_accept_new_bytes(spelling[index : index + 1])

    try:
        guarded(call)
    except ValueError:
        return False
    return True


def feed(engine: Any, spelling: bytes) -> None:
    """Append letters that are known to be accepted.

    Raises:
        UnsupportedByEngine: they were not: the package contradicts itself.
    """
    try:
        guarded(lambda: engine.try_accept_new_bytes(spelling))
    except ValueError as error:
        raise UnsupportedByEngine(
            "the package refuses a text that it has accepted before", engine=ENGINE, node="this grammar"
        ) from error


def allowed_ids(engine: Any) -> list[int]:
    """Compute which ids of its vocabulary may come next, and leave the engine where it was."""

    def call() -> Any:
        engine.compute_allowed_token_ids()
        return engine.get_allowed_token_ids_from_last_computation()

    return sorted(guarded(call))
