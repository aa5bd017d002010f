"""The kbnf package itself, fenced in: loading, vocabularies, building engines, and what may be asked of them.

Nothing else touches the package. Measured against version 0.4.2; every rule here answers a fault of that version.
"""

from __future__ import annotations

import copy
import threading
from collections.abc import Callable
from functools import cache
from importlib import import_module, metadata
from importlib.util import find_spec
from typing import Any, TypeVar
from weakref import WeakKeyDictionary

from formatter_core.engine._kbnf_lower import ENGINE
from formatter_core.engine._kbnf_regular import SENTINEL, letters, special_letter
from formatter_core.errors import EngineUnavailable, UnsupportedByEngine
from formatter_core.vocabulary import Vocabulary

__all__ = [
    "BYTE_END",
    "BYTE_SPECIALS",
    "PatternError",
    "accepts",
    "allowed_ids",
    "available",
    "build",
    "byte_vocabulary",
    "fork",
    "guarded",
    "token_spelling",
    "token_vocabulary",
]

VERSION = "0.4.2"

#: Ids of the byte vocabulary: 0 to 255 are the bytes, then the end of the text, then "some special token".
BYTE_END = 256
BYTE_SPECIALS = frozenset(range(257, 262))

_T = TypeVar("_T")

_vocabularies: WeakKeyDictionary[Vocabulary, Any] = WeakKeyDictionary()
_vocabularies_lock = threading.Lock()


class PatternError(Exception):
    """A pattern that the package cannot build, or not within the memory given; it never leaves the engine."""


def available() -> bool:
    """Whether the version that all this was measured against is installed; nothing is loaded."""
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
        raise EngineUnavailable(ENGINE, [f"{remedy}; the installed one does not load: {error}"]) from error


def guarded(call: Callable[[], _T], node: str = "this grammar") -> _T:
    """Call into the package; its panics, which are no `Exception`s, become errors of ours."""
    try:
        return call()
    except BaseException as error:
        if type(error).__name__ != "PanicException":
            raise
        raise UnsupportedByEngine(f"the package failed: {error}", engine=ENGINE, node=node) from error


def token_spelling(vocabulary: Vocabulary, token_id: int) -> bytes | None:
    """What the package is told that a token spells; None for an id that there is not."""
    if not 0 <= token_id < len(vocabulary):
        return None
    data = vocabulary.text_token(token_id)
    if data is not None:
        return letters(data).encode()
    letter = special_letter(token_id)
    return None if letter is None else letter.encode()


def token_vocabulary(vocabulary: Vocabulary) -> Any:
    """The package's vocabulary: the token ids, then the sentinel, then a filler. Made once: it takes 0.3 s for 128,000.

    The package writes a complaint to the standard error stream about lead bytes that no token has; the filler has
    them all, and as it begins with a byte that begins no letter it is never even tried.
    """
    with _vocabularies_lock:
        if vocabulary not in _vocabularies:
            token = _package().Token
            table = {
                token_id: token(spelling)
                for token_id in range(len(vocabulary))
                if (spelling := token_spelling(vocabulary, token_id)) is not None
            }
            table[len(vocabulary)] = token(SENTINEL.encode())
            table[len(vocabulary) + 1] = token(_FILLER)
            _vocabularies[vocabulary] = _package().Vocabulary(table, {})
        return _vocabularies[vocabulary]


@cache
def byte_vocabulary() -> Any:
    """One token for each byte, one for the end, and one for each byte that begins the letters of special tokens."""
    token = _package().Token
    table = {byte: token(letters(bytes([byte])).encode()) for byte in range(256)}
    table[BYTE_END] = token(SENTINEL.encode())
    for special, lead in zip(sorted(BYTE_SPECIALS), range(0xF0, 0xF5), strict=True):
        table[special] = token(bytes([lead]))
    table[max(table) + 1] = token(_FILLER)
    return _package().Vocabulary(table, {})


_FILLER = bytes(range(0xC0, 0xF8))


def build(text: str, vocabulary: Any, pattern_bytes: int) -> Any:
    """An engine at the empty text.

    Args:
        text: the grammar.
        vocabulary: a vocabulary of the package.
        pattern_bytes: the memory that building one pattern may take.

    Raises:
        PatternError: one of the patterns is malformed to the package, or takes more memory.
        UnsupportedByEngine: anything else that it does not take.
    """
    package = _package()
    config = package.Config()
    regex = config.regex_config
    regex.max_memory_usage = pattern_bytes
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
            raise PatternError(message[:200]) from error
        raise UnsupportedByEngine(message[:200], engine=ENGINE, node="this grammar") from error


def fork(engine: Any) -> Any:
    """An independent engine in the same state. The package shares the grammar, and copies the masks that it keeps."""
    return guarded(lambda: copy.copy(engine))


def accepts(engine: Any, spelling: bytes) -> bool:
    """Append letters to an engine. Where it is False the engine is spoilt: hand in one that nobody needs."""
    try:
        guarded(lambda: engine.try_accept_new_bytes(spelling))
    except ValueError:
        return False
    return True


def allowed_ids(engine: Any) -> list[int]:
    """Compute which ids of its vocabulary may come next, and leave the engine where it was."""

    def call() -> Any:
        engine.compute_allowed_token_ids()
        return engine.get_allowed_token_ids_from_last_computation()

    return sorted(guarded(call))
