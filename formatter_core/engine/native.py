"""The native grammar engine: masks by the Rust library."""

from __future__ import annotations

import ctypes
import sys
import weakref
from array import array
from collections.abc import Callable, Sequence
from copy import copy
from struct import Struct
from threading import Lock
from typing import Any

import numpy as np
from numpy.typing import NDArray

from formatter_core.engine.common_states import INSIDE_STRING, strings
from formatter_core.engine.native_calls import making_calls, step_calls
from formatter_core.engine.native_library import (
    STOPPED,
    Handle,
    bounds_of,
    check,
    fail,
    fault,
    load,
    made,
    numbers_of,
    owner_of,
    panics,
)
from formatter_core.engine.native_schema import NativeProgram
from formatter_core.engine.protocol import UNFIT
from formatter_core.engine.rows import INT32
from formatter_core.errors import BudgetTooSmall, InvalidVocabulary
from formatter_core.grammar import Grammar, Program, without_tokens
from formatter_core.limits import Limits
from formatter_core.limits.forking import hold_during_fork
from formatter_core.vocabulary import Vocabulary

__all__ = ["NativeEngine", "NativeGrammar", "NativeState"]

_LONGEST_TEXT = 2**32 - 1
_NO_TOKEN = 2**32 - 1
_NO_BUDGET = 2**32 - 1  # no output has that many tokens
_NEVER = (2**32 - 1) // 4  # the engine's answer where no number of tokens is enough

_POINTER = ctypes.c_void_p
_SIZE = ctypes.c_size_t
#: The categories by which the library counts bytes, in its order: see `TellsMemory`.
_OF_VOCABULARY = "vocabulary", "automata", "token classes", "workspace"
_OF_GRAMMAR = (
    "network", "automata", "token classes", "states", "remembered values", "masks", "moves", "budgets", "sequences"
)  # fmt: skip
#: A reference to nothing: a call gives None.
_nothing = type(None)
#: `Target` in the library: the address of a sequence, that of the array that is the row for its masks, and that of the
#: type that the row's items must have.
_TARGET = Struct("PPP")


class NativeEngine:
    """The grammar engine of the native library. One engine serves any number of vocabularies and threads.

    Args:
        shares_automata: whether grammars of one vocabulary share automata, which saves time and memory. If not, masks
            of other grammars never wait while one is compiled.

    Raises:
        EngineUnavailable: the library was not built, or is of another version than this module.
    """

    name = "native"

    def __init__(self, *, shares_automata: bool = True) -> None:
        self._library = load()
        self._latest: Callable[[], _Vocabulary | None] = _nothing
        self._shares_automata = shares_automata

    def compile(self, grammar: Grammar, vocabulary: Vocabulary, limits: Limits) -> NativeGrammar:
        """Compile a grammar. Every kind of node is supported.

        Raises:
            InvalidGrammar: the grammar derives no byte string.
            BudgetTooSmall: no text of a region fits into its budget.
            LimitExceeded: no answer was found within `limits`.
        """
        program = grammar.check(limits)
        if not set(program.tokens).isdisjoint(vocabulary.end_ids):  # an end id is never meant by a grammar
            program = without_tokens(grammar, vocabulary.end_ids).check(limits)
        return self.load_program(program, vocabulary, limits)

    def load(
        self, data: bytes, begin: int, end: int, regions: int, vocabulary: Vocabulary, limits: Limits
    ) -> NativeGrammar:
        """See `ReadsPrograms`."""
        grammar = NativeGrammar(data, self._tables_for(vocabulary), limits, (begin, end))
        if regions:
            grammar.check_budgets()
        return grammar

    def load_program(self, program: Program, vocabulary: Vocabulary, limits: Limits) -> NativeGrammar:
        """See `KeepsPrograms`."""
        tables = self._latest()  # mostly it is the same vocabulary again, which this finds sooner
        if tables is None or tables.of() is not vocabulary or not self._shares_automata:
            tables = self._tables_for(vocabulary)
        grammar = NativeGrammar(program, tables, limits)
        if program.regions:
            grammar.check_budgets()
        return grammar

    def _tables_for(self, vocabulary: Vocabulary) -> _Vocabulary:
        """Return the tables for one grammar."""
        tables = self._tables(vocabulary)
        return tables if self._shares_automata else tables.apart()

    def memory(self, vocabulary: Vocabulary) -> dict[str, int]:
        """See `TellsMemory`."""
        tables = _known_tables(vocabulary)
        return {} if tables is None else tables.memory()

    def forget(self, vocabulary: Vocabulary) -> None:
        """See `SharesMemory`."""
        if (tables := _known_tables(vocabulary)) is not None:
            check(self._library.fcn_vocabulary_renew(tables.handle.pointer))

    def prepare(self, vocabulary: Vocabulary) -> int:
        """Build the tables of a vocabulary ahead of its first grammar; how many bytes they take."""
        return self._tables(vocabulary).memory()["vocabulary"]

    def _tables(self, vocabulary: Vocabulary) -> _Vocabulary:
        tables = _tables(self._library, vocabulary)
        self._latest = weakref.ref(tables)
        return tables


class _Vocabulary:
    """The tables of one vocabulary, with the automata that its grammars share."""

    def __init__(self, library: ctypes.CDLL, vocabulary: Vocabulary) -> None:
        texts = [vocabulary.text_token(token_id) or b"" for token_id in range(len(vocabulary))]
        starts = np.zeros(len(texts) + 1, dtype=np.uint64)
        np.cumsum([len(text) for text in texts], out=starts[1:])
        if starts[-1] > _LONGEST_TEXT:
            raise InvalidVocabulary(f"the tokens have more than {_LONGEST_TEXT} bytes together; leave some out")
        starts = starts.astype(np.uint32)
        joined = b"".join(texts)
        self.of = weakref.ref(vocabulary)
        self.library = library
        self.size = len(vocabulary)
        self.words = vocabulary.words
        # A view of a row is refused where the row is too short or cannot be written to.
        self.row_type: Any = ctypes.c_uint32 * self.words
        self.calls = step_calls(library)
        self.making_calls = making_calls(library)
        self.bounds: tuple[Limits | None, bytes] = None, b""
        tokens = joined, len(joined), starts.ctypes.data, len(texts)
        self.handle = Handle(library.fcn_vocabulary_free, None, library.fcn_vocabulary_new, *tokens)
        for program in strings():
            state = NativeGrammar(program, self, Limits()).start()
            state.accept_bytes(INSIDE_STRING)
            state.fill_bitmask(np.zeros(self.words, dtype=np.int32))

    def apart(self) -> _Vocabulary:
        """Return a vocabulary with the same tables and its own automata."""
        other = copy(self)
        library = self.library
        other.handle = Handle(library.fcn_vocabulary_free, None, library.fcn_vocabulary_apart, self.handle.pointer)
        return other

    def memory(self) -> dict[str, int]:
        """See `TellsMemory`."""
        found = numbers_of(len(_OF_VOCABULARY), self.library.fcn_vocabulary_memory, self.handle.pointer)
        return dict(zip(_OF_VOCABULARY, found, strict=True))


_vocabularies: weakref.WeakKeyDictionary[Vocabulary, _Vocabulary] = weakref.WeakKeyDictionary()
_vocabularies_lock = Lock()
hold_during_fork(_vocabularies_lock)


def _tables(library: ctypes.CDLL, vocabulary: Vocabulary) -> _Vocabulary:
    """Return the tables of a vocabulary; they live as long as it does."""
    with _vocabularies_lock:
        tables = _vocabularies.get(vocabulary)
        if tables is None:
            tables = _vocabularies[vocabulary] = _Vocabulary(library, vocabulary)
        return tables


def _known_tables(vocabulary: Vocabulary) -> _Vocabulary | None:
    """Return the tables of a vocabulary; None if there are none yet."""
    with _vocabularies_lock:
        return _vocabularies.get(vocabulary)


class NativeGrammar(Handle):
    """A grammar compiled for one vocabulary. Immutable to its users, shared between threads."""

    __slots__ = ("_limits", "_vocabulary")

    def __init__(
        self,
        source: bytes | Program,
        vocabulary: _Vocabulary,
        limits: Limits,
        place: tuple[int, int] | None = None,
    ) -> None:
        known, bounds = vocabulary.bounds  # mostly they are those of the grammar before
        if known is not limits:
            bounds = bounds_of(limits)
            vocabulary.bounds = limits, bounds
        calls, tables = vocabulary.making_calls, vocabulary.handle.pointer
        if isinstance(source, NativeProgram):
            self.pointer, self._owner = calls.load_program(tables, source.pointer, bounds)
        else:
            data = source if isinstance(source, bytes) else source.data
            begin, end = place or (0, len(data))
            self.pointer, self._owner = calls.new_grammar(tables, data, begin, end, bounds)
        if self.pointer < 0:
            fail(self.pointer, limits)
        self._vocabulary = vocabulary
        self._limits = limits

    def check_budgets(self) -> None:
        """Check that some text fits into the budget of each region.

        Raises:
            BudgetTooSmall: none does.
        """
        library, budget, needed = self._vocabulary.library, ctypes.c_uint32(), ctypes.c_uint32()
        found = library.fcn_grammar_small_region(self.pointer, ctypes.byref(budget), ctypes.byref(needed))
        if check(found, self._limits):
            raise BudgetTooSmall(budget.value, needed.value, part="text of a part of the format")

    def start(self) -> NativeState:
        """Return the state of a new sequence."""
        vocabulary = self._vocabulary
        return NativeState(*vocabulary.making_calls.new_sequence(self.pointer), vocabulary, self._limits)

    def step_batch(
        self,
        states: Sequence[NativeState],
        token_ids: Sequence[int | None],
        rows: NDArray[np.int32],
        places: Sequence[int],
        logits: NDArray[np.float32] | None = None,
    ) -> Sequence[int | Exception]:
        """Accept a token and fill a mask for several sequences of this vocabulary, in one call."""
        return step_batch(states, token_ids, rows, places, logits)

    def is_usable(self) -> bool:
        """Tell whether new sequences can begin. They cannot after the engine failed in data that they would share."""
        return not panics or self._vocabulary.library.fcn_grammar_check(self.pointer) >= 0

    def memory(self) -> dict[str, int]:
        """See `TellsMemory`."""
        found = numbers_of(len(_OF_GRAMMAR), self._vocabulary.library.fcn_grammar_memory, self.pointer)
        return dict(zip(_OF_GRAMMAR, found, strict=True))

    def work_done(self) -> int:
        """Return the elementary steps so far: to compile the grammar, and for masks and moves of its sequences.

        Time follows from it, but unlike time it is the same in every run of one thread from a fresh vocabulary.
        """
        steps = ctypes.c_uint64()
        check(self._vocabulary.library.fcn_grammar_work(self.pointer, ctypes.byref(steps)))
        return steps.value


class NativeState(Handle):
    """The state of one sequence; made by `NativeGrammar.start` and `fork`. Only one thread at a time may use it.

    Args:
        answer: what the call that made it returned: a handle, or a fault.
        owner: what frees it.
    """

    __slots__ = (
        "_accept_token", "_advance", "_fill", "_limits", "_row", "_size", "_step", "_step_kept", "_target",
        "_vocabulary",
    )  # fmt: skip

    def __init__(self, answer: int, owner: object, vocabulary: _Vocabulary, limits: Limits) -> None:
        if answer < 0:
            fail(answer, None)
        self.pointer = answer
        self._owner = owner
        self._vocabulary = vocabulary
        self._limits = limits
        # What the calls of every step need is at hand.
        self._size = vocabulary.size
        self._fill, self._accept_token, self._step, self._advance, self._step_kept = vocabulary.calls
        self._row: Callable[[], NDArray[np.int32] | None] = _nothing
        self._target = _TARGET.pack(answer, 0, 0)

    def try_fill(self, row: NDArray[np.int32], words: int) -> int:
        """Call `fill_bitmask`, or return `UNFIT`, see `EngineState.try_fill`; the library checks the row."""
        if self._row() is not row or row is None:  # the weak reference gives None for a freed array
            self._point_to(row)
        answer: int = self._fill(self._target)
        if answer < 0 and answer != UNFIT:
            fail(answer, self._limits)
        return answer

    def fill_bitmask(self, row: NDArray[np.int32]) -> int:
        """Write the mask of the tokens that may come next; end ids are left 0.

        Raises:
            LimitExceeded: within the limits there is no answer.
            TypeError: the row cannot be written to.
            ValueError: it is too short.
        """
        answer = self.try_fill(row, self._vocabulary.words)
        return answer if answer != UNFIT else self._with_buffer(row, self._fill)

    def accept_token(self, token_id: int) -> bool:
        """Append one token; False, with nothing changed, where it is not allowed. Counts as one step."""
        if not 0 <= token_id < self._size:
            return False
        answer: int = self._accept_token(self._target, token_id)
        if answer < 0:
            fail(answer, self._limits)
        return answer > 0

    def step(self, token_id: int, row: NDArray[np.int32]) -> int:
        """Call `accept_token` and `fill_bitmask` at once; `row` is only written if the token is allowed."""
        if self._row() is not row or row is None:  # the weak reference gives None for a freed array
            self._point_to(row)
        if not 0 <= token_id < self._size:
            return 0
        answer: int = self._step(self._target, token_id)
        if answer < 0:
            if answer == UNFIT:
                return self._with_buffer(row, self._step, token_id)
            fail(answer, self._limits)
        return answer

    def advance(self, token_id: int) -> int:
        """Call `accept_token`; return what is known of the next mask, see `EngineState.advance`."""
        if not 0 <= token_id < self._size:
            return 0
        answer: int = self._advance(self._target, token_id)
        if answer < 0:
            fail(answer, self._limits)
        return answer

    def step_kept(self, token_id: int) -> int:
        """Call `step`, but return the number of a kept mask instead of writing it; see `EngineState.step_kept`."""
        if not 0 <= token_id < self._size:
            return 0
        answer: int = self._step_kept(self._target, token_id)
        if answer < 0:
            fail(answer, self._limits)
        return answer

    def accept_bytes(self, data: bytes) -> bool:
        """Append bytes; False, with nothing changed, where they are not allowed. Counts as one step."""
        answer = self._vocabulary.library.fcn_sequence_accept_bytes(self.pointer, data, len(data))
        if answer < 0:
            fail(answer, self._limits)
        return bool(answer)

    def rollback(self, steps: int) -> None:
        """Undo the last `steps` accepted tokens or byte strings."""
        answer = self._vocabulary.library.fcn_sequence_rollback(self.pointer, steps)
        if answer < 0:
            fail(answer, self._limits)
        if not answer:
            raise ValueError(f"there are fewer than {steps} steps to undo")

    def steps_taken(self) -> int:
        """See `EngineState.steps_taken`."""
        return check(self._vocabulary.library.fcn_sequence_steps(self.pointer), self._limits)

    def fork(self) -> NativeState:
        """Return an independent copy, including its rollback history. It shares all states with the original."""
        library = self._vocabulary.library
        answer = made(library.fcn_sequence_fork, self.pointer)
        return NativeState(answer, owner_of(answer, library.fcn_sequence_free), self._vocabulary, self._limits)

    def prefer_longest(self) -> None:
        """Leave out shorter tokens of text that must follow; see `EngineState.prefer_longest`."""
        check(self._vocabulary.library.fcn_sequence_prefer_longest(self.pointer))

    def set_budget(self, max_tokens: int, avoided: Sequence[int]) -> int | None:
        """Take at most `max_tokens` tokens; see `EngineState.set_budget`."""
        needed, ids = ctypes.c_uint32(), array("I", avoided)
        library = self._vocabulary.library
        check(
            library.fcn_sequence_set_budget(
                self.pointer, min(max_tokens, _NO_BUDGET), ids.buffer_info()[0], len(ids), ctypes.byref(needed)
            ),
            self._limits,
        )
        return needed.value if needed.value < _NEVER else None

    def can_stop(self) -> bool:
        """Tell whether the accepted text is complete."""
        return bool(check(self._vocabulary.library.fcn_sequence_can_stop(self.pointer), self._limits))

    def forced_bytes(self, limit: int) -> bytes:
        """Return the longest byte string that begins every completion of the rest, up to `limit`; empty if complete."""
        buffer = ctypes.create_string_buffer(limit)
        length = check(self._vocabulary.library.fcn_sequence_forced_bytes(self.pointer, buffer, limit), self._limits)
        return buffer.raw[:length]

    def _point_to(self, row: NDArray[np.int32]) -> None:
        """Note where a row is; usually the next mask goes to the same one."""
        if type(row) is np.ndarray and _KNOWS_ARRAYS:
            # A row can get other memory, for example by `__setstate__`. So we store the address of the array's fields,
            # not of its data; every call reads the fields again. A weak reference keeps none of that memory alive.
            place, self._row = id(row) + object.__basicsize__, weakref.ref(row)
        else:
            place, self._row = 0, _nothing
        self._target = _TARGET.pack(self.pointer, place, _KIND)

    def _with_buffer(self, row: NDArray[np.int32], call: Callable[..., int], *arguments: int) -> int:
        """Make a call for a row that the library cannot read as an array: it is given one made up for the row's memory.

        Raises:
            TypeError: it cannot be written to.
            ValueError: it is too short.
        """
        words = self._vocabulary.words
        memory = self._vocabulary.row_type.from_buffer(row)
        fields = _Array(ctypes.addressof(memory), 1, ctypes.pointer(ctypes.c_ssize_t(words)), 0, 0, _KIND, _PLAIN)
        return check(call(_TARGET.pack(self.pointer, ctypes.addressof(fields), _KIND), *arguments), self._limits)


class _Array(ctypes.Structure):
    """`Row` in the library."""

    _fields_ = (
        ("data", _POINTER),
        ("dimensions", ctypes.c_int),
        ("lengths", ctypes.POINTER(ctypes.c_ssize_t)),
        ("strides", _POINTER),
        ("base", _POINTER),
        ("kind", _POINTER),
        ("flags", ctypes.c_int),
    )


#: `PLAIN` in the library, and the address of numpy's own int32 type; other objects that are equal to it take longer.
_PLAIN, _KIND = 0x501, id(INT32)


def _knows_arrays() -> bool:
    """Tell whether arrays, whether fit for masks or not, are laid out as the library reads them."""
    if sys.implementation.name != "cpython":
        return False
    fixed = np.zeros(8, dtype=np.int32)
    fixed.setflags(write=False)
    found = []
    for row in (np.zeros(8, dtype=np.int32), np.zeros(8, dtype=np.uint32), np.zeros(16, dtype=np.int32)[::2], fixed):
        fields = _Array.from_address(id(row) + object.__basicsize__)
        is_read = fields.data == row.ctypes.data and fields.dimensions == 1 and fields.lengths[0] == 8
        found.append((is_read, fields.kind == _KIND, fields.flags & _PLAIN == _PLAIN))
    return found == [(True, True, True), (True, False, True), (True, True, False), (True, True, False)]


#: Asking an array by its own methods takes longer than most masks.
_KNOWS_ARRAYS = _knows_arrays()


def step_batch(
    states: Sequence[NativeState],
    token_ids: Sequence[int | None],
    rows: NDArray[np.int32],
    places: Sequence[int],
    logits: NDArray[np.float32] | None = None,
) -> Sequence[int | Exception]:
    """Call `step` for each state with its token, or `fill_bitmask` where that is None; return the calls' results.

    If a limit prevents an answer, the `LimitExceeded` is in its place. The states belong to one vocabulary. Rows are as
    `rows.check_rows` has it, logits as `rows.lie_plainly`.

    Raises:
        ValueError: there is no such place, or rows are too short or too long.
    """
    if not states:
        return ()
    vocabulary, count = states[0]._vocabulary, len(states)
    height = len(rows) if logits is None else min(len(rows), len(logits))
    if rows.shape[1] != vocabulary.words or not 0 <= min(places) <= max(places) < height:
        raise ValueError(f"rows of shape {rows.shape} have no room for {count} masks of {vocabulary.words} words")
    size = vocabulary.size
    tokens = [_NO_TOKEN if token is None else token if 0 <= token < size else size for token in token_ids]
    handles, ids = array("Q", [state.pointer for state in states]), array("I", tokens)
    targets, statuses = array("I", places), array("i", bytes(4 * count))
    vocabulary.library.fcn_step_many(
        *(handles.buffer_info()[0], ids.buffer_info()[0], rows.ctypes.data, rows.strides[0]),
        *(targets.buffer_info()[0], statuses.buffer_info()[0], count),
        *((None, 0, 0) if logits is None else (logits.ctypes.data, logits.strides[0], logits.shape[1])),
    )
    if min(statuses) >= 0:
        return statuses.tolist()
    answers: list[int | Exception] = [*statuses]
    for number, (one, state) in enumerate(zip(statuses, states, strict=True)):
        if one == STOPPED:  # a signal came, and its handler raised nothing: continue with the other states
            return [*answers[:number], *step_batch(states[number:], token_ids[number:], rows, places[number:], logits)]
        if one < 0:
            answers[number] = fault(one, state._limits)
    return answers
