"""A process with several interpreters, and one that ends while threads are at work."""

from __future__ import annotations

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
import random, threading, time
from formatter_core import Compiler, Vocabulary
compiler = Compiler(Vocabulary.of_bytes(), cache_bytes=0)

def work(seed):
    chooser = random.Random(seed)
    while True:
        texts = ["".join(chooser.choices("abcdef", k=9)) for _ in range(3000)]
        formatter = compiler.compile({"enum": texts}).formatter()
        formatter.accept_token(formatter.allowed_tokens()[0])

for seed in range(3):
    threading.Thread(target=work, args=(seed,), daemon=True).start()
time.sleep(0.2)
print("ends")
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


def test_a_process_ends_while_threads_are_in_calls() -> None:
    done = run(WITH_THREADS)
    assert (done.returncode, done.stdout, done.stderr) == (0, "ends\n", "")
