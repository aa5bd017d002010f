"""The prompts of one call of `generate`, and the states of its rows.

A row's state is found by the tokens that it has after its prompt, never by its number: beams change places between two
steps, drafts come and go, and a draft model shares the states.
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Iterable, Sequence

import numpy as np
import torch

from formatter_core import CompiledFormat, Cursor, Result
from formatter_core.errors import InvalidArgument, TokenRejected
from formatter_core.generation.stopping import accept_output, rejected
from formatter_core.runtime.hook import reused

__all__ = ["Generation"]

_ID_BYTES = np.dtype(np.int64).itemsize


class Generation:
    """One call of `generate`.

    Args:
        prompts: int64 (rows, length), what the first call of the processor saw, padding included.
        formats: one for all prompts, or one for each prompt; None leaves its rows unconstrained.
        has_beams: whether rows of one prompt change places between two steps.
        stop_strings: texts that end a row.

    Raises:
        InvalidArgument: the rows cannot be shared out among the formats.
    """

    def __init__(
        self,
        prompts: torch.Tensor,
        formats: Sequence[CompiledFormat | None],
        *,
        has_beams: bool = False,
        stop_strings: Sequence[str] = (),
    ) -> None:
        self._prompts = prompts.clone()
        self._has_beams = has_beams
        self._stops = tuple(stop.encode() for stop in stop_strings)
        self._latest: list[bytes] = []  # the keys of the rows in the latest step
        self._failures: dict[tuple[int, bytes], Exception] = {}
        self._formats = formats
        self._pools = {compiled: _Pool(compiled) for compiled in self.formats_of(len(prompts)) if compiled is not None}

    def formats_of(self, rows: int) -> list[CompiledFormat | None]:
        """Return the format of each row; the beams or returned sequences of one prompt are adjacent."""
        count = len(self._formats)
        if rows % count:
            raise InvalidArgument(
                f"{count} formats were given for {rows} rows; give one for all prompts, or one for each prompt",
                argument="formats",
            )
        return [self._formats[row * count // rows] for row in range(rows)]

    def cursors(self, input_ids: torch.Tensor) -> list[Cursor | None]:
        """Return the state of each row of int64 (rows, length), prompts included; None if it has no format.

        Raises:
            HookReused: other prompts.
        """
        keys = self._latest = self._keys(input_ids)
        formats = self.formats_of(len(keys))
        found = {
            compiled: pool.find(key for key, owner in zip(keys, formats, strict=True) if owner is compiled)
            for compiled, pool in self._pools.items()
        }
        return [None if owner is None else found[owner][key] for key, owner in zip(keys, formats, strict=True)]

    def fail(self, row: int, error: Exception) -> None:
        """Store the reason why a row of the latest step ends, independently of other rows with the same tokens."""
        self._failures[row, self._latest[row]] = error

    def failures(self) -> dict[int, Exception]:
        """Return the reasons why rows of the latest step ended early, by row."""
        found = ((row, self._failure_of(row, len(self._latest), key)) for row, key in enumerate(self._latest))
        return {row: error for row, error in found if error is not None}

    def is_begun_by(self, input_ids: torch.Tensor) -> bool:
        """Tell whether these rows begin with the prompts."""
        return torch.equal(input_ids[:, : self._prompts.shape[1]], self._prompts)

    def results(self, sequences: torch.Tensor) -> list[tuple[Result | None, Exception | None]] | None:
        """Return the result of each row that `generate` returned, and the error that ended it, if any.

        None if these are other sequences: the rows do not begin with the prompts, or go on as no row did. There may be
        another number of rows than prompts were seen, as long as each prompt has its share of them.
        """
        rows, (seen, width) = len(sequences), self._prompts.shape
        prompts = self._prompts[[row * seen // rows for row in range(rows)]].to(sequences.device)
        if not torch.equal(sequences[:, :width], prompts):
            return None
        found: list[tuple[Result | None, Exception | None]] = []
        for row, (key, compiled) in enumerate(zip(_generated(sequences, width), self.formats_of(rows), strict=True)):
            if compiled is None:
                found.append((None, None))
                continue
            pool, tokens = self._pools[compiled], _tokens_of(key)
            error = self._failure_of(row, rows, key) or pool.error_in(key)
            result, error = _result_of(compiled, tokens, error, self._stops)
            # Of a rejected token the one after it is looked at as well, because only the last one may be new.
            count = len(result.tokens) + (2 if isinstance(error, TokenRejected) else 0)
            if not pool.has_seen(key[: count * _ID_BYTES]):
                return None
            found.append((result, error))
        return found

    def _failure_of(self, row: int, rows: int, key: bytes) -> Exception | None:
        """Return the reason why a row ended early; for beams, that of a row of its prompt with the same tokens."""
        if not self._failures:
            return None
        moved = self._has_beams or rows != len(self._prompts)
        prompt = self._prompts[row * len(self._prompts) // rows]
        for (failed_row, failed_key), error in self._failures.items():
            is_row = torch.equal(self._prompts[failed_row], prompt) if moved else failed_row == row
            if is_row and key.startswith(failed_key):
                return error
        return None

    def _keys(self, input_ids: torch.Tensor) -> list[bytes]:
        if len(input_ids) == len(self._prompts):
            begun = input_ids[:, : self._prompts.shape[1]]
            # The beam search of 4.x fills the rows of a prompt that is done with copies of the first row of the batch.
            own, first = (begun == self._prompts).all(dim=1), (begun == self._prompts[0]).all(dim=1)
            if bool((own | first).all()):
                return _generated(input_ids, self._prompts.shape[1])
        raise reused()


class _Pool:
    """The states of one format's rows, the most recently used ones of them, by generated tokens."""

    def __init__(self, compiled: CompiledFormat) -> None:
        self._compiled = compiled
        self._cursors: OrderedDict[bytes, Cursor] = OrderedDict()
        self._is_whole = True

    def find(self, keys: Iterable[bytes]) -> dict[bytes, Cursor]:
        """Return the state of each key. A single row that continues a state takes it over; several rows get copies."""
        wanted = dict.fromkeys(keys)
        children = Counter(_parent_of(key) for key in wanted if key not in self._cursors)
        for key in wanted:
            if key not in self._cursors:
                self._cursors[key] = self._grown(key, is_only=children[_parent_of(key)] == 1)
                children[_parent_of(key)] -= 1
            self._cursors.move_to_end(key)
        # Beams drop branches for good, and groups of beams come in turns: keep enough for all of those.
        for _ in range(len(self._cursors) - 64 - 16 * len(wanted)):
            self._cursors.popitem(last=False)
            self._is_whole = False
        return {key: self._cursors[key] for key in wanted}

    def has_seen(self, key: bytes) -> bool:
        """Tell whether at most the last of these generated tokens is new."""
        rest = len(key) - _ID_BYTES
        return not self._is_whole or any(_shared(known, key) >= rest for known in self._cursors)

    def error_in(self, key: bytes) -> Exception | None:
        """Return the error that ended the row with these generated tokens; None if it has none."""
        known = max((known for known in self._cursors if key.startswith(known)), key=len, default=None)
        error = None if known is None else self._cursors[known].error
        return None if isinstance(error, TokenRejected) else error

    def _grown(self, key: bytes, *, is_only: bool) -> Cursor:
        parent = _parent_of(key)
        if parent in self._cursors and key:
            cursor = self._cursors.pop(parent) if is_only else self._cursors[parent].fork()
            cursor.append(_tokens_of(key[len(parent) :])[0])
            return cursor
        if not self._cursors:
            cursor = Cursor(self._compiled.formatter())
        else:
            cursor = self._cursors[max(self._cursors, key=lambda known: _shared(known, key))].fork()
        cursor.follow(_tokens_of(key))
        return cursor


def _generated(sequences: torch.Tensor, width: int) -> list[bytes]:
    ids = sequences[:, width:].cpu().numpy().astype(np.int64, order="C", copy=False)
    return [row.tobytes() for row in ids]


def _tokens_of(key: bytes) -> list[int]:
    """Return the token ids of a key. A key is the ids as int64, which numpy makes and compares fastest."""
    ids: list[int] = np.frombuffer(key, np.int64).tolist()
    return ids


def _parent_of(key: bytes) -> bytes:
    return key[:-_ID_BYTES]


def _shared(left: bytes, right: bytes) -> int:
    """Return the length of the common beginning of two keys in bytes, in whole token ids."""
    length = min(len(left), len(right))
    if left[:length] == right[:length]:
        return length
    differs = np.frombuffer(left[:length], np.int64) != np.frombuffer(right[:length], np.int64)
    return int(differs.argmax()) * _ID_BYTES


def _result_of(
    compiled: CompiledFormat, tokens: list[int], error: Exception | None, stops: Sequence[bytes]
) -> tuple[Result, Exception | None]:
    """Return the result of one row's generated tokens, and its error; tokens after the first end are padding.

    A row that was cut counts as ended by `"stop_string"` where padding follows, since only a stopping criterion ends
    a row before the others, or where a stop string ends in its last token; otherwise by `"length"`.
    """
    formatter = compiled.formatter()
    rest = tokens[accept_output(formatter, tokens) :]
    if error is not None:
        return formatter.result("error"), error
    if formatter.is_finished:
        return formatter.result("end"), None
    if not rest:
        last = len(compiled.vocabulary.text_token(tokens[-1]) or b"") if tokens else 0
        is_stopped = any(stop in formatter.bytes[-(last + len(stop) - 1) :] for stop in stops if last)
        return formatter.result("stop_string" if is_stopped else "length"), None
    if len(set(rest)) == 1 and compiled.vocabulary.text_token(rest[0]) is None:
        return formatter.result("stop_string"), None
    return formatter.result("error"), rejected(formatter, rest[0])
