"""Let libFuzzer look for inputs that break a target: `python -m tests.fuzz TARGET [option of libFuzzer or folder]...`.

`dev.py fuzz` builds the native library with counters of its branches, in a copy of the package, and calls this.
libFuzzer itself is in the package atheris, whose library is loaded before ours, so that ours finds it.
"""

from __future__ import annotations

import ctypes
import importlib.util
import os
import sys
import traceback
from pathlib import Path


def _load_libfuzzer() -> ctypes.CDLL:
    found = importlib.util.find_spec("atheris")
    assert found is not None, "atheris is in the environment `fuzz`"
    assert found.origin is not None
    (path,) = Path(found.origin).parent.glob("core_with_libfuzzer*.so")
    return ctypes.CDLL(str(path), mode=ctypes.RTLD_GLOBAL)


@ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_size_t)
def _try(data: int, length: int) -> int:
    try:
        _target(ctypes.string_at(data, length))
    except BaseException:  # noqa: BLE001 - whatever it is, it is a finding, which libFuzzer keeps when the process aborts
        traceback.print_exc()
        sys.stderr.flush()
        os.abort()
    return 0


_fuzzer = _load_libfuzzer()
from tests.fuzz.targets import TARGETS  # noqa: E402 - after libFuzzer

_target = TARGETS[sys.argv[1]]


def main() -> int:
    words = [sys.argv[0], *sys.argv[2:]]
    given = (ctypes.c_char_p * (len(words) + 1))(*(word.encode() for word in words), None)
    count, address = ctypes.c_int(len(words)), ctypes.c_void_p(ctypes.addressof(given))
    run = _fuzzer.LLVMFuzzerRunDriver
    run.argtypes = [ctypes.c_void_p] * 3
    return int(run(ctypes.addressof(count), ctypes.addressof(address), ctypes.cast(_try, ctypes.c_void_p)))


if __name__ == "__main__":
    sys.exit(main())
