"""Processes with several interpreters or without the GIL, and some that end while threads are at work."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
#: The module of subinterpreters, which is not public yet.
MODULE = "_interpreters" if sys.version_info >= (3, 13) else "_xxsubinterpreters"

IN_ANOTHER = f"""
import {MODULE} as interpreters
code = '''
import warnings
warnings.simplefilter("ignore")  # numpy's, of subinterpreters
from formatter_core import Compiler, Vocabulary, errors
try:
    Compiler(Vocabulary.of_bytes())
except errors.EngineUnavailable as error:
    print(error)
'''
made = interpreters.create()
(getattr(interpreters, "exec", None) or interpreters.run_string)(made, code)
"""

WITH_THREADS = """
import atexit, os, random, signal, sys, threading, time
from formatter_core import Compiler, Vocabulary
compiler = Compiler(Vocabulary.of_bytes(), cache_bytes=0)

def work_once(seed):
    chooser = random.Random(seed)
    texts = ["".join(chooser.choices("abcdef", k=9)) for _ in range(3000)]
    formatter = compiler.compile({"enum": texts}).formatter()
    formatter.accept_token(formatter.allowed_tokens()[0])

def work(seed):
    while True:
        work_once(seed)

for seed in range(3):
    threading.Thread(target=work, args=(seed,), daemon=True).start()
time.sleep(0.2)
"""


def run(code: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=120, check=False
    )


@pytest.mark.skipif(sys.implementation.name != "cpython", reason="subinterpreters are CPython's")
def test_a_subinterpreter_is_refused() -> None:
    """It worked, and then the process did not end."""
    done = run(IN_ANOTHER)
    assert "call it in the main interpreter" in done.stdout, done
    assert done.returncode == 0


WITHOUT_GIL = """
import sys
sys._is_gil_enabled = lambda: False
from formatter_core import Compiler, Vocabulary, errors
try:
    Compiler(Vocabulary.of_bytes())
except errors.EngineUnavailable as error:
    print(error)
"""


def test_a_python_without_the_gil_is_refused() -> None:
    """Here one only says that it is: the library has never been tried on another."""
    done = run(WITHOUT_GIL)
    assert (done.returncode, done.stderr) == (0, "")
    assert "enable the GIL" in done.stdout


#: Ways in which the main thread ends, and with what the process ends then.
ENDINGS = {
    "its last line": ("print('ends')", 0, ""),
    "sys.exit": ("print('ends'); sys.exit(3)", 3, ""),
    "an exception": ("print('ends'); raise SystemError('of the test')", 1, "SystemError: of the test\n"),
    "an interrupt": (
        "signal.signal(2, signal.default_int_handler); print('ends', flush=True); os.kill(os.getpid(), 2)",
        -signal.SIGINT,
        "KeyboardInterrupt\n",
    ),
    "os._exit": ("print('ends', flush=True); os._exit(4)", 4, ""),
    "a handler at the end": ("atexit.register(lambda: (work_once(9), print('ends')))", 0, ""),
}


@pytest.mark.skipif(os.name != "posix", reason="signals are those of POSIX")
@pytest.mark.parametrize("ending", ENDINGS)
def test_a_process_ends_while_threads_are_in_calls(ending: str) -> None:
    code, answer, error = ENDINGS[ending]
    done = run(WITH_THREADS + code)
    assert (done.returncode, done.stdout) == (answer, "ends\n")
    assert done.stderr.endswith(error) if error else not done.stderr
