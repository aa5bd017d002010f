"""Every byte of the native library is counted, by an allocator that counts too: a sample of `dev.py bench soak`."""

from __future__ import annotations

import argparse
import shutil
import statistics

import pytest

from benchmarks import soak

#: As far as all kinds of formats have come.
SECONDS = 15.0


@pytest.mark.skipif(shutil.which("cargo") is None, reason="cargo is not there, which builds the library that counts")
def test_every_byte_is_counted_and_comes_back() -> None:
    start, *readings, end = soak.readings(argparse.Namespace(seconds=SECONDS, formats=400, threads=3, seed=0))
    assert {"tokens", "values", "schemas", "chat answers"} <= set(readings[-1]["done"])
    shares = [abs(soak.missing(reading)) for reading in readings]
    assert statistics.median(shares) < soak.COUNTED
    assert max(shares) < 2 * soak.COUNTED  # a reading while tables grow or are let go may be a little farther away
    assert all(count >= 0 for reading in readings for count in reading["counted"].values())
    left = end["allocated"] - start["allocated"]
    assert left < 1 << 20, f"{left} bytes are left of {max(reading['allocated'] for reading in readings)}"
