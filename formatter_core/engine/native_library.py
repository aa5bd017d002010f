"""The Rust library behind ctypes, which frees the GIL during every call.

It is the file `_native*.so` (or what the platform calls it) beside this module, or the output of `cargo build
--release` in `native/target/release`.
"""

from __future__ import annotations

import ctypes
import sys
import threading
from collections.abc import Callable
from functools import cache
from operator import attrgetter
from pathlib import Path
from struct import Struct
from struct import error as StructError  # noqa: N812
from typing import Any, NoReturn

from formatter_core.errors import EngineFailed, EngineUnavailable, FormatterError, InvalidGrammar, LimitExceeded
from formatter_core.limits import Limits

__all__ = [
    "LONG", "PROTOTYPES", "STOPPED", "Handle", "bounds_of", "check", "fail", "fault", "load", "made", "numbers_of",
    "owner_of", "panics",
]  # fmt: skip

_INTERFACE_VERSION = 47
_EMPTY_LANGUAGE = -1
_EMPTY_MEMBER = -3
_MALFORMED = -2
#: A signal ended the call, which can be made again.
STOPPED = -5
_LIMITS = {-10: "nodes", -11: "states", -12: "cache_bytes", -13: "work"}
_PANIC = -1000  # less the number of the panic
_LONGEST_PANIC_TEXT = 4096  # bytes; the library keeps 1,000 characters

_POINTER = ctypes.c_void_p
_SIZE = ctypes.c_size_t
_INT = ctypes.c_int
#: The functions that the library exports: the result type and the argument types of each.
PROTOTYPES: dict[str, tuple[Any, tuple[Any, ...]]] = {
    "fcn_interface_version": (_INT, ()),
    "fcn_python_methods": (_POINTER, (_POINTER,)),
    "fcn_watch_interrupts": (None, (_POINTER, _SIZE)),
    "fcn_panic_text": (_INT, (ctypes.c_uint32, _POINTER, _SIZE)),
    "fcn_regular_count": (_INT, (ctypes.c_char_p, _SIZE, _POINTER, ctypes.c_uint32, _POINTER)),
    "fcn_regular_table": (_INT, (ctypes.c_char_p, _SIZE, _POINTER, ctypes.c_uint32, _POINTER)),
    "fcn_pattern_read": (_INT, (ctypes.c_char_p, _SIZE, ctypes.c_uint32, ctypes.c_char_p, _POINTER)),
    "fcn_vocabulary_new": (_INT, (_POINTER, _SIZE, _POINTER, _SIZE, _POINTER)),
    "fcn_vocabulary_apart": (_INT, (_POINTER, _POINTER)),
    "fcn_vocabulary_free": (None, (_POINTER,)),
    "fcn_vocabulary_renew": (_INT, (_POINTER,)),
    "fcn_vocabulary_memory": (_INT, (_POINTER, _POINTER)),
    "fcn_grammar_new": (_INT, (_POINTER, ctypes.c_char_p, *(_SIZE,) * 3, _POINTER, _POINTER)),
    "fcn_grammar_free": (None, (_POINTER,)),
    "fcn_grammar_small_region": (_INT, (_POINTER, _POINTER, _POINTER)),
    "fcn_grammar_check": (_INT, (_POINTER,)),
    "fcn_grammar_memory": (_INT, (_POINTER, _POINTER)),
    "fcn_grammar_work": (_INT, (_POINTER, _POINTER)),
    "fcn_parser_new": (_INT, (ctypes.c_char_p, _SIZE, _POINTER, _POINTER)),
    "fcn_parser_free": (None, (_POINTER,)),
    "fcn_parser_memory": (_INT, (_POINTER, _POINTER)),
    "fcn_parser_shortest": (_INT, (_POINTER, _POINTER)),
    "fcn_reading_new": (_INT, (_POINTER, _POINTER)),
    "fcn_reading_free": (None, (_POINTER,)),
    "fcn_reading_push": (_INT, (_POINTER, ctypes.c_char_p, _SIZE)),
    "fcn_reading_push_token": (_INT, (_POINTER, ctypes.c_uint32)),
    "fcn_reading_status": (_INT, (_POINTER,)),
    "fcn_reading_length": (_INT, (_POINTER,)),
    "fcn_reading_find_expected": (_INT, (_POINTER,)),
    "fcn_reading_expected": (_INT, (_POINTER, _POINTER)),
    "fcn_reading_find_captures": (_INT, (_POINTER,)),
    "fcn_reading_captures": (_INT, (_POINTER, _POINTER)),
    "fcn_following_new": (_INT, (_POINTER, _POINTER)),
    "fcn_following_free": (None, (_POINTER,)),
    "fcn_following_push": (_INT, (_POINTER, ctypes.c_char_p, _SIZE)),
    "fcn_following_push_token": (_INT, (_POINTER, ctypes.c_uint32)),
    "fcn_following_pop": (_INT, (_POINTER, _SIZE)),
    "fcn_following_find_news": (_INT, (_POINTER, _POINTER, _SIZE)),
    "fcn_following_marks": (_INT, (_POINTER, _POINTER)),
    "fcn_schema_common_new": (_INT, (*(ctypes.c_uint32,) * 2, ctypes.c_char_p, _SIZE, _POINTER, _POINTER)),
    "fcn_schema_common_free": (None, (_POINTER,)),
    "fcn_json_read": (_INT, (ctypes.c_char_p, _SIZE, ctypes.c_uint32, _POINTER, _POINTER)),
    "fcn_json_refer": (_INT, (_POINTER, ctypes.c_char_p, _SIZE, _POINTER)),
    "fcn_json_free": (None, (_POINTER,)),
    "fcn_schema_new": (
        _INT,
        (_POINTER, _POINTER, *(ctypes.c_uint64,) * 2, *(ctypes.c_uint32,) * 4, *(_POINTER,) * 3),
    ),
    "fcn_schema_texts": (
        _INT,
        (_POINTER, ctypes.c_uint32, *(ctypes.c_uint64,) * 2, ctypes.c_uint32, ctypes.c_char_p, _SIZE, _POINTER),
    ),
    "fcn_number_program": (
        _INT,
        (*(ctypes.c_char_p, _SIZE) * 2, *(ctypes.c_uint32,) * 2, _POINTER),
    ),
    "fcn_schemas_memory": (_INT, (_POINTER,)),
    "fcn_program_bytes": (_INT, (_POINTER, _POINTER)),
    "fcn_program_names": (_INT, (_POINTER, _POINTER)),
    "fcn_program_dropped": (_INT, (_POINTER, _POINTER)),
    "fcn_program_free": (None, (_POINTER,)),
    "fcn_schema_free": (None, (_POINTER,)),
    "fcn_schema_count": (_INT, (_POINTER,)),
    "fcn_schema_new_terminals": (_INT, (_POINTER, _POINTER)),
    "fcn_schema_keywords": (_INT, (_POINTER,)),
    "fcn_schema_names": (_INT, (_POINTER, _POINTER)),
    "fcn_schema_dropped": (_INT, (_POINTER, _POINTER)),
    "fcn_schema_write": (_INT, (_POINTER, ctypes.c_uint32, ctypes.c_char_p, _SIZE, _POINTER)),
    "fcn_sequence_new": (_INT, (_POINTER, _POINTER)),
    "fcn_sequence_prefer_longest": (_INT, (_POINTER,)),
    "fcn_sequence_set_budget": (_INT, (_POINTER, ctypes.c_uint32, _POINTER, _SIZE, _POINTER)),
    "fcn_sequence_fork": (_INT, (_POINTER, _POINTER)),
    "fcn_sequence_free": (None, (_POINTER,)),
    "fcn_step_many": (
        _INT,
        (*(_POINTER,) * 3, ctypes.c_ssize_t, _POINTER, _POINTER, _SIZE, _POINTER, ctypes.c_ssize_t, _SIZE),
    ),
    "fcn_sequence_accept_bytes": (_INT, (_POINTER, ctypes.c_char_p, _SIZE)),
    "fcn_sequence_rollback": (_INT, (_POINTER, _SIZE)),
    "fcn_sequence_steps": (_INT, (_POINTER,)),
    "fcn_sequence_can_stop": (_INT, (_POINTER,)),
    "fcn_best_tokens": (_INT, (_POINTER, _POINTER)),
    "fcn_mask_logits": (_INT, (_POINTER, _SIZE, ctypes.c_ssize_t, _POINTER, _SIZE)),
    "fcn_mask_or_copy": (ctypes.c_ssize_t, (*(_POINTER, _SIZE) * 2, _SIZE, _POINTER, _POINTER)),
    "fcn_mask_rows": (None, (_POINTER, _SIZE, _SIZE, _POINTER, _SIZE, _SIZE)),
    "fcn_sequence_forced_bytes": (_INT, (_POINTER, _POINTER, _SIZE)),
}

#: Functions that may take long, and that can be made again after a signal has ended them.
LONG = (
    "fcn_regular_count", "fcn_pattern_read", "fcn_vocabulary_new", "fcn_grammar_new", "fcn_grammar_small_region",
    "fcn_parser_new", "fcn_parser_shortest", "fcn_reading_new", "fcn_reading_find_expected",
    "fcn_reading_find_captures", "fcn_following_new", "fcn_following_push", "fcn_following_push_token",
    "fcn_following_find_news", "fcn_json_read", "fcn_schema_new", "fcn_schema_texts", "fcn_schema_write",
    "fcn_sequence_new", "fcn_sequence_set_budget", "fcn_sequence_accept_bytes", "fcn_sequence_forced_bytes",
)  # fmt: skip


_BOUNDS, _LARGEST_BOUND = Struct("4q"), 2**63 - 1
_bounds = attrgetter("nodes", "states", "cache_bytes", "work")


def bounds_of(limits: Limits) -> bytes:
    """Pack the limits that bound a grammar or a parser of the library."""
    bounds = _bounds(limits)
    try:
        return _BOUNDS.pack(*bounds)
    except StructError:
        return _BOUNDS.pack(*(min(bound, _LARGEST_BOUND) for bound in bounds))


class _Owner(tuple[Callable[[int], None], int]):
    """Frees a value of the library when it is freed itself, as the capsules of `MakingCalls` do.

    It consists of the function that frees the value, and the value's address. A tuple is made in one call, so that an
    interrupt finds no half of it.
    """

    __slots__ = ()

    def __del__(self) -> None:
        free, pointer = self
        free(pointer)


class Handle:
    """A value of the library, freed with this object.

    Args:
        free: frees it.
        limits: those that making it keeps.
        make: see `made`.
    """

    __slots__ = ("_owner", "pointer")

    def __init__(
        self, free: Callable[[int], None], limits: Limits | None, make: Callable[..., int], *arguments: Any
    ) -> None:
        self.pointer = check(made(make, *arguments), limits)
        self._owner = owner_of(self.pointer, free)


def owner_of(answer: int, free: Callable[[int], None]) -> object:
    """Return an object that frees a handle when it is freed itself; None for a fault or no handle."""
    return _Owner((free, answer)) if answer > 0 else None


def made(make: Callable[..., int], *arguments: Any) -> int:
    """Call a function that writes a handle to its last argument; return the handle, or the negative code of a fault."""
    found = _POINTER()
    answer = make(*arguments, ctypes.byref(found))
    return answer if answer < 0 else found.value or 0


def numbers_of(count: int, read: Callable[[int, Any], int], pointer: int) -> list[int]:
    """Read the numbers that a function of the library writes about a handle."""
    found = (_SIZE * count)()
    check(read(pointer, found))
    return list(found)


#: The panics of the library in this process so far.
panics: set[int] = set()


def check(answer: int, limits: Limits | None = None) -> int:
    """Return the answer of a call; raise if it is a fault."""
    if answer < 0:
        fail(answer, limits)
    return answer


def fail(answer: int, limits: Limits | None) -> NoReturn:
    """Raise the error of a negative answer."""
    raise fault(answer, limits)


def fault(answer: int, limits: Limits | None) -> FormatterError:
    """Make the error for an answer below zero."""
    if answer == _EMPTY_LANGUAGE:
        return InvalidGrammar("the grammar derives no text at all; give every rule an alternative that ends")
    if answer == _EMPTY_MEMBER:
        return InvalidGrammar("one of the `Members` of a list may be empty; leave the empty text out")
    if answer == _MALFORMED:
        return InvalidGrammar("the grammar's program is damaged, or from another version; compile the format again")
    name = _LIMITS.get(answer)
    if name is not None and limits is not None:
        return LimitExceeded(name, getattr(limits, name), "the native grammar engine")
    if answer <= _PANIC:
        text = ctypes.create_string_buffer(_LONGEST_PANIC_TEXT)
        length = load().fcn_panic_text(_PANIC - answer, text, len(text))
        panics.add(answer)
        return EngineFailed("native", text.raw[:length].decode() or "one of too many failures")
    return FormatterError(f"the native grammar engine failed with code {answer}; please report it with the format")


def _library_files() -> list[Path]:
    here = Path(__file__).parent
    ending = {"win32": ".dll", "darwin": ".dylib"}.get(sys.platform, ".so")
    installed = [path for path in here.glob("_native*") if path.suffix in (ending, ".so", ".pyd")]
    prefix = "" if sys.platform == "win32" else "lib"
    built = here / "native" / "target" / "release" / f"{prefix}formatter_core_native{ending}"
    return sorted(installed) + ([built] if built.exists() else [])


@cache
def load() -> ctypes.CDLL:
    """Load the library.

    Raises:
        EngineUnavailable: it was not built, or is of another version than this module; or this is a subinterpreter,
            or a Python without the GIL.
    """
    _check_interpreter()
    problems = []
    for path in _library_files():
        try:
            library = ctypes.CDLL(str(path))
            for name, (result, arguments) in PROTOTYPES.items():
                function = getattr(library, name)
                function.restype = result
                function.argtypes = arguments
        except (OSError, AttributeError) as error:
            problems.append(f"replace {path.name}, which cannot be loaded ({error})")
            continue
        version = library.fcn_interface_version()
        if version == _INTERFACE_VERSION:
            _watch_interrupts(library)
            return library
        problems.append(f"rebuild {path.name}: it has version {version}, but {_INTERFACE_VERSION} is needed")
    raise EngineUnavailable(
        "native",
        problems or ["install a wheel with the native library, or Rust's cargo and then formatter-core from source"],
    )


def _watch_interrupts(library: ctypes.CDLL) -> None:
    """Let Ctrl-C end long calls of the main thread; see `stop` in the library."""
    python = getattr(ctypes, "pythonapi", None)
    if python is None or not hasattr(python, "PyOS_setsig"):  # another implementation of Python
        return
    for name in LONG:
        getattr(library, name).errcheck = _again_if_stopped
    functions = [ctypes.cast(getattr(python, name), _POINTER).value for name in ("PyOS_getsig", "PyOS_setsig")]
    library.fcn_watch_interrupts((_POINTER * 2)(*functions), threading.main_thread().ident)


def _again_if_stopped(answer: int, function: Callable[..., int], arguments: tuple[Any, ...]) -> int:
    """Make a call, and repeat it if a signal ended it and Python's handlers raised nothing."""
    if answer != STOPPED:
        return answer
    ctypes.pythonapi.PyErr_CheckSignals()
    return function(*arguments)


def _check_interpreter() -> None:
    """Refuse interpreters that the library cannot serve.

    A process with a subinterpreter would wait at exit for the Python objects that the library keeps. The library has
    never been tested without the GIL.

    Raises:
        EngineUnavailable: another interpreter of this process came first, or the GIL is disabled.
    """
    if not getattr(sys, "_is_gil_enabled", lambda: True)():
        raise EngineUnavailable("native", ["enable the GIL, by PYTHON_GIL=1 or -X gil=1, or run a Python that has one"])
    api = getattr(ctypes, "pythonapi", None)
    if api is None or not hasattr(api, "PyInterpreterState_GetID"):  # another implementation of Python
        return
    api.PyInterpreterState_Get.restype = _POINTER
    api.PyInterpreterState_GetID.argtypes = (_POINTER,)
    api.PyInterpreterState_GetID.restype = ctypes.c_int64
    if api.PyInterpreterState_GetID(api.PyInterpreterState_Get()):
        raise EngineUnavailable("native", ["call it in the main interpreter; subinterpreters cannot share the library"])
