"""Let libFuzzer look for inputs that break a target: `python -m tests.fuzz TARGET PROGRAM [option or folder]...`.

PROGRAM is what libFuzzer starts when it wants a process of its own; options are those of libFuzzer. `dev.py fuzz`
builds the native library with counters of its branches, in a copy of the package, and calls this. libFuzzer itself is
in the package atheris, whose library is loaded before ours, so that ours finds it. Where Python does most of the work,
atheris counts the branches of Python instead.
"""

from __future__ import annotations

import ctypes
import os
import sys
import time
import traceback
from pathlib import Path

import atheris

from tests.fuzz.seeds import IN_PYTHON

#: CPU seconds after which an input of a native target is a finding. The clock of libFuzzer also runs while a busy
#: machine does something else.
SLOW = 5.0


def search_natively(name: str, words: list[str]) -> int:
    """Guided by the branches of the native library."""
    fuzzer = ctypes.CDLL(None)
    if not hasattr(fuzzer, "LLVMFuzzerRunDriver"):  # it is preloaded together with AddressSanitizer
        (path,) = Path(str(atheris.__file__)).parent.glob("core_with_libfuzzer*.so")
        fuzzer = ctypes.CDLL(str(path), mode=ctypes.RTLD_GLOBAL)
    from tests.fuzz.targets import TARGETS

    @ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_size_t)
    def call(data: int, length: int) -> int:
        begun = time.process_time()
        try:
            TARGETS[name](ctypes.string_at(data, length))
            assert time.process_time() - begun < SLOW, "this input is slow"
        except BaseException:  # noqa: BLE001 - whatever it is, it is a finding, which libFuzzer keeps on an abort
            traceback.print_exc()
            sys.stderr.flush()
            os.abort()
        return 0

    given = (ctypes.c_char_p * (len(words) + 1))(*(word.encode() for word in words), None)
    count, address = ctypes.c_int(len(words)), ctypes.c_void_p(ctypes.addressof(given))
    run = fuzzer.LLVMFuzzerRunDriver
    run.argtypes = [ctypes.c_void_p] * 3
    return int(run(ctypes.addressof(count), ctypes.addressof(address), ctypes.cast(call, ctypes.c_void_p)))


def search_in_python(name: str, words: list[str]) -> None:
    """Guided by the branches of our own Python code."""
    with atheris.instrument_imports(include=["formatter_core"]):
        from tests.fuzz.targets import TARGETS
    atheris.Setup(words, TARGETS[name])
    atheris.Fuzz()


def main() -> int:
    name, words = sys.argv[1], sys.argv[2:]
    if name not in IN_PYTHON:
        return search_natively(name, words)
    search_in_python(name, words)
    return 0


if __name__ == "__main__":
    sys.exit(main())
