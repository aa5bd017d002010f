"""The native grammar engine: a Rust library behind ctypes, which frees the GIL during every call.

The library is the file `_native*.so` (or what the platform calls it) beside this module, or what `cargo build
--release` leaves in `native/target/release`.
"""

from __future__ import annotations

import ctypes
import sys
import weakref
from array import array
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from threading import Lock
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from formatter_core.engine._native_program import encode
from formatter_core.errors import EngineUnavailable, FormatterError, InvalidGrammar, LimitExceeded
from formatter_core.grammar import Grammar
from formatter_core.limits import Limits
from formatter_core.vocabulary import Vocabulary

__all__ = ["NativeEngine", "NativeGrammar", "NativeState"]

_INTERFACE_VERSION = 1
_EMPTY_LANGUAGE = -1
_LIMITS = {-10: "nodes", -11: "states", -12: "cache_bytes", -13: "work"}

_POINTER = ctypes.c_void_p
_SIZE = ctypes.c_size_t
_INT = ctypes.c_int
_PROTOTYPES: dict[str, tuple[Any, tuple[Any, ...]]] = {
    "fcn_interface_version": (_INT, ()),
    "fcn_vocabulary_new": (_INT, (_POINTER, _SIZE, _POINTER, _SIZE, _POINTER)),
    "fcn_vocabulary_free": (None, (_POINTER,)),
    "fcn_vocabulary_bytes": (_INT, (_POINTER, _POINTER, _POINTER)),
    "fcn_grammar_new": (_INT, (_POINTER, ctypes.c_char_p, _SIZE, _POINTER, _POINTER)),
    "fcn_grammar_free": (None, (_POINTER,)),
    "fcn_grammar_bytes": (_INT, (_POINTER, _POINTER)),
    "fcn_sequence_new": (_INT, (_POINTER, _POINTER)),
    "fcn_sequence_fork": (_INT, (_POINTER, _POINTER)),
    "fcn_sequence_free": (None, (_POINTER,)),
    "fcn_sequence_fill": (_INT, (_POINTER, _POINTER, _SIZE)),
    "fcn_fill_many": (_INT, (_POINTER, _POINTER, _SIZE, _SIZE)),
    "fcn_sequence_accept_token": (_INT, (_POINTER, ctypes.c_uint32)),
    "fcn_sequence_step": (_INT, (_POINTER, ctypes.c_uint32, _POINTER, _SIZE)),
    "fcn_sequence_accept_bytes": (_INT, (_POINTER, ctypes.c_char_p, _SIZE)),
    "fcn_sequence_rollback": (_INT, (_POINTER, _SIZE)),
    "fcn_sequence_can_stop": (_INT, (_POINTER,)),
    "fcn_sequence_forced_bytes": (_INT, (_POINTER, _POINTER, _SIZE)),
}


class NativeEngine:
    """Masks by the native library. One engine serves any number of vocabularies and threads.

    Raises:
        EngineUnavailable: the library was not built, or is of another version than this module.
    """

    name = "native"

    def __init__(self) -> None:
        self._library = _load()

    @staticmethod
    def available() -> bool:
        """Whether the library can be loaded."""
        try:
            _load()
        except EngineUnavailable:
            return False
        return True

    def compile(self, grammar: Grammar, vocabulary: Vocabulary, limits: Limits) -> NativeGrammar:
        """Compile a grammar that `Grammar.check` has passed. Nothing that a grammar can say is refused.

        Raises:
            InvalidGrammar: no byte string is derived at all.
            LimitExceeded: within `limits` there is no answer.
        """
        return NativeGrammar(encode(grammar), _tables(self._library, vocabulary), limits)

    def prepare(self, vocabulary: Vocabulary) -> int:
        """Build the tables of a vocabulary ahead of its first grammar; how many bytes they take."""
        return _tables(self._library, vocabulary).table_bytes()


class _Vocabulary:
    """The tables of one vocabulary, with the automata that its grammars share."""

    def __init__(self, library: ctypes.CDLL, vocabulary: Vocabulary) -> None:
        texts = [vocabulary.text_token(token_id) or b"" for token_id in range(len(vocabulary))]
        starts = np.zeros(len(texts) + 1, dtype=np.uint32)
        np.cumsum([len(text) for text in texts], out=starts[1:])
        joined = b"".join(texts)
        self.library = library
        self.words = -(-len(texts) // 32)
        self.handle = _made(
            library.fcn_vocabulary_free,
            lambda made: library.fcn_vocabulary_new(joined, len(joined), starts.ctypes.data, len(texts), made),
            self,
        )

    def table_bytes(self) -> int:
        tables, shared = _SIZE(), _SIZE()
        _check(self.library.fcn_vocabulary_bytes(self.handle, ctypes.byref(tables), ctypes.byref(shared)))
        return tables.value


_vocabularies: weakref.WeakKeyDictionary[Vocabulary, _Vocabulary] = weakref.WeakKeyDictionary()
_vocabularies_lock = Lock()


def _tables(library: ctypes.CDLL, vocabulary: Vocabulary) -> _Vocabulary:
    """The tables of a vocabulary; they live as long as it does."""
    with _vocabularies_lock:
        tables = _vocabularies.get(vocabulary)
        if tables is None:
            tables = _vocabularies[vocabulary] = _Vocabulary(library, vocabulary)
        return tables


class NativeGrammar:
    """A grammar compiled for one vocabulary. Immutable to its users, shared between threads."""

    def __init__(self, program: bytes, vocabulary: _Vocabulary, limits: Limits) -> None:
        library = vocabulary.library
        self._library = library
        self._vocabulary = vocabulary
        self._limits = limits
        bounds = (ctypes.c_uint64 * 4)(limits.nodes, limits.states, limits.cache_bytes, limits.work)
        self._handle = _made(
            library.fcn_grammar_free,
            lambda made: library.fcn_grammar_new(vocabulary.handle, program, len(program), bounds, made),
            self,
            limits,
        )

    def start(self) -> NativeState:
        """The state of a new sequence."""
        state = NativeState.__new__(NativeState)
        library = self._library
        handle = _made(library.fcn_sequence_free, lambda made: library.fcn_sequence_new(self._handle, made), state)
        state._set(library, handle, self._vocabulary.words, self._limits)
        return state

    def bytes_used(self) -> int:
        """How many bytes the grammar takes, with the states and masks that it keeps; an estimate."""
        size = _SIZE()
        _check(self._library.fcn_grammar_bytes(self._handle, ctypes.byref(size)))
        return size.value


class NativeState:
    """The state of one sequence; made by `NativeGrammar.start` and `fork`. One thread's at a time."""

    __slots__ = ("__weakref__", "_handle", "_library", "_limits", "_words")

    _library: ctypes.CDLL
    _handle: int
    _words: int
    _limits: Limits

    def _set(self, library: ctypes.CDLL, handle: int, words: int, limits: Limits) -> None:
        self._library = library
        self._handle = handle
        self._words = words
        self._limits = limits

    def fill_bitmask(self, row: NDArray[np.int32]) -> None:
        """Write the mask of the tokens that may come next; end ids are left 0.

        Raises:
            LimitExceeded: within the limits there is no answer.
        """
        answer = self._library.fcn_sequence_fill(self._handle, row.ctypes.data, self._words)
        if answer < 0:
            _fail(answer, self._limits)

    def accept_token(self, token_id: int) -> bool:
        """Append one token; False, with nothing changed, where it is not allowed. Counts as one step."""
        if not 0 <= token_id <= 0xFFFF_FFFF:
            return False
        answer = self._library.fcn_sequence_accept_token(self._handle, token_id)
        if answer < 0:
            _fail(answer, self._limits)
        return bool(answer)

    def step(self, token_id: int, row: NDArray[np.int32]) -> bool:
        """`accept_token` and `fill_bitmask` in one call; `row` is only written where the token is allowed."""
        if not 0 <= token_id <= 0xFFFF_FFFF:
            return False
        answer = self._library.fcn_sequence_step(self._handle, token_id, row.ctypes.data, self._words)
        if answer < 0:
            _fail(answer, self._limits)
        return bool(answer)

    def accept_bytes(self, data: bytes) -> bool:
        """Append bytes; False, with nothing changed, where they are not allowed. Counts as one step."""
        answer = self._library.fcn_sequence_accept_bytes(self._handle, data, len(data))
        if answer < 0:
            _fail(answer, self._limits)
        return bool(answer)

    def rollback(self, steps: int) -> None:
        """Undo the last `steps` accepted tokens or byte strings."""
        answer = self._library.fcn_sequence_rollback(self._handle, steps)
        if answer < 0:
            _fail(answer, self._limits)
        if not answer:
            raise ValueError(f"there are fewer than {steps} steps to undo")

    def fork(self) -> NativeState:
        """An independent copy, rollback history included. It shares all states with the original."""
        copy = NativeState.__new__(NativeState)
        library = self._library
        handle = _made(library.fcn_sequence_free, lambda made: library.fcn_sequence_fork(self._handle, made), copy)
        copy._set(library, handle, self._words, self._limits)
        return copy

    def can_stop(self) -> bool:
        """Whether what was accepted is a completion."""
        return bool(_check(self._library.fcn_sequence_can_stop(self._handle), self._limits))

    def forced_bytes(self, limit: int) -> bytes:
        """The longest byte string that begins every completion of the rest, cut at `limit`; empty when `can_stop()`."""
        buffer = ctypes.create_string_buffer(limit)
        length = _check(self._library.fcn_sequence_forced_bytes(self._handle, buffer, limit), self._limits)
        return buffer.raw[:length]


def fill_batch(states: Sequence[NativeState], rows: Sequence[NDArray[np.int32]]) -> None:
    """Write the mask of each state to its row, in one call. The states belong to one vocabulary.

    Raises:
        LimitExceeded: within the limits of one of them there is no answer; rows may be half written.
    """
    if not states:
        return
    handles = array("Q", [state._handle for state in states])
    pointers = array("Q", [row.ctypes.data for row in rows])
    first = states[0]
    _check(
        first._library.fcn_fill_many(handles.buffer_info()[0], pointers.buffer_info()[0], len(handles), first._words),
        first._limits,
    )


def _made(free: Callable[[int], None], make: Callable[[Any], int], owner: object, limits: Limits | None = None) -> int:
    """The handle that `make` writes; it is freed with `owner`."""
    made = _POINTER()
    _check(make(ctypes.byref(made)), limits)
    handle = int(made.value or 0)
    weakref.finalize(owner, free, handle).atexit = False
    return handle


def _check(answer: int, limits: Limits | None = None) -> int:
    if answer < 0:
        _fail(answer, limits)
    return answer


def _fail(answer: int, limits: Limits | None) -> NoReturn:
    if answer == _EMPTY_LANGUAGE:
        raise InvalidGrammar("the grammar derives no text at all; give every rule an alternative that ends")
    name = _LIMITS.get(answer)
    if name is not None and limits is not None:
        raise LimitExceeded(name, getattr(limits, name), "the native grammar engine")
    raise FormatterError(f"the native grammar engine failed with code {answer}; please report it with the format")


def _library_files() -> list[Path]:
    here = Path(__file__).parent
    ending = {"win32": ".dll", "darwin": ".dylib"}.get(sys.platform, ".so")
    installed = [path for path in here.glob("_native*") if path.suffix in (ending, ".so", ".pyd")]
    prefix = "" if sys.platform == "win32" else "lib"
    built = here / "native" / "target" / "release" / f"{prefix}formatter_core_native{ending}"
    return sorted(installed) + ([built] if built.exists() else [])


@cache
def _load() -> ctypes.CDLL:
    problems = []
    for path in _library_files():
        try:
            library = ctypes.CDLL(str(path))
            for name, (result, arguments) in _PROTOTYPES.items():
                function = getattr(library, name)
                function.restype = result
                function.argtypes = arguments
        except (OSError, AttributeError) as error:
            problems.append(f"replace {path.name}, which cannot be loaded ({error})")
            continue
        version = library.fcn_interface_version()
        if version == _INTERFACE_VERSION:
            return library
        problems.append(f"build {path.name} anew: it has version {version}, and {_INTERFACE_VERSION} is needed")
    raise EngineUnavailable(
        "native",
        problems or ["install Rust (cargo) and install formatter-core from source", 'use engine="kbnf"'],
    )
