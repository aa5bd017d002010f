"""Make random numbers that depend on a sequence and a position in it, not on the order of computation."""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Callable, Iterator, Sequence
from itertools import count

import numpy as np
from numpy.typing import NDArray

from formatter_core.errors.arguments import whole_number

__all__ = ["sequence_key", "stream_of", "uniforms"]

#: Random numbers of a stream that are made in one call.
_NUMBERS = 64

# The constants of SplitMix64 (Steele, Lea, Flood 2014: Fast splittable pseudorandom number generators).
_GAMMA = np.uint64(0x9E3779B97F4A7C15)
_FIRST = np.uint64(0xBF58476D1CE4E5B9)
_SECOND = np.uint64(0x94D049BB133111EB)


def sequence_key(seed: int | None, prompt: Sequence[int], sample: int) -> int:
    """Return the key of a sequence's draws: it depends on the seed, the ids of its prompt, and the number of the
    sample.

    Without a seed, every call draws anew.

    Raises:
        InvalidArgument: the seed is not a whole number.
    """
    if seed is None:
        return secrets.randbits(64)
    content = f"{whole_number(seed, 'seed', -(2**63))} {sample} {','.join(map(str, prompt))}".encode()
    return int.from_bytes(hashlib.blake2b(content, digest_size=8).digest(), "little")


def uniforms(keys: Sequence[int], places: Sequence[int]) -> NDArray[np.float64]:
    """Return a number in [0, 1) for each sequence at its position, float64 (rows,); SplitMix64 with a counter."""
    state = np.array(keys, dtype=np.uint64) + _GAMMA * (np.array(places, dtype=np.uint64) + np.uint64(1))
    state = (state ^ (state >> np.uint64(30))) * _FIRST
    state = (state ^ (state >> np.uint64(27))) * _SECOND
    state = state ^ (state >> np.uint64(31))
    numbers: NDArray[np.float64] = (state >> np.uint64(11)).astype(np.float64) * 2.0**-53
    return numbers


def stream_of(key: int) -> Callable[[], float]:
    """Return a source of random numbers in [0, 1) that depend only on the key."""

    def numbers() -> Iterator[float]:
        for start in count(0, _NUMBERS):
            yield from uniforms([key] * _NUMBERS, range(start, start + _NUMBERS)).tolist()

    return numbers().__next__
