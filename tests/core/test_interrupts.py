"""Ctrl-C ends long calls of the main thread, and what was called goes on as before."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]

pytestmark = pytest.mark.skipif(
    os.name != "posix" or sys.implementation.name != "cpython", reason="long calls are interrupted on POSIX by CPython"
)

#: Interrupts a call as soon as it has taken some CPU time in the main thread, and says how much it took after that.
HARNESS = """
import os, signal, sys, threading, time
from formatter_core import Compiler, FormatterBuilder, Limits, Vocabulary, formats
from formatter_core.errors import FormatterError, LimitExceeded

clock = time.pthread_getcpuclockid(threading.main_thread().ident)
limits = Limits(work=10**12, nodes=10**9, states=10**9)
compiler = Compiler(Vocabulary.of_bytes(), limits=limits, cache_bytes=0)

def interrupted(call, after=0.1):
    begun, ended = time.clock_gettime(clock), threading.Event()
    def interrupt():
        while time.clock_gettime(clock) < begun + after:
            if ended.wait(0.002):
                return
        os.kill(os.getpid(), signal.SIGINT)
    thread = threading.Thread(target=interrupt)
    thread.start()
    try:
        call()
    except KeyboardInterrupt:
        return True
    finally:
        ended.set()
        thread.join()
    return False
"""

#: Calls that would take many seconds, minutes or for ever, and what is asked of the same objects afterwards.
CALLS = {
    "compile a pattern": """
hostile = formats.regex("(a|b)*a(a|b){40}(a|b)*c(a|b){40}")
assert interrupted(lambda: [compiler.compile(hostile).formatter().accept_bytes(b"ab" * 10**6)])
""",
    "compile a schema": """
pairs = zip("abcdefgh", "bcdefghi")
hostile = {"type": "string", "allOf": [{"pattern": f"{one}.{{9}}{other}"} for one, other in pairs]}
assert interrupted(lambda: compiler.compile(hostile))
""",
    "lower a schema": """
names = [f"p{n}" for n in range(6000)]
hostile = {"anyOf": [{"properties": {name: {"type": "integer"}}, "required": [name]} for name in names]}
assert interrupted(lambda: compiler.compile(hostile), 0.5)
""",
    "read a pattern": """
hostile = formats.regex("((a{1,90}b?){1,90}){1,90}")
assert interrupted(lambda: [compiler.compile(hostile) for _ in range(10**6)])
""",
    "the first mask of a grammar": """
grammar = formats.kbnf('start ::= a a a a a a a a "!"; a ::= "x" a a | "x" a | "x";')
formatter = compiler.compile(grammar).formatter()
assert interrupted(lambda: [formatter.accept_bytes(b"x") or formatter.allowed_tokens() for _ in range(10**6)])
length = len(formatter.bytes)
fresh = compiler.compile(grammar).formatter()
fresh.accept_bytes(b"x" * 3)
formatter.rollback(length - 3)
assert formatter.allowed_tokens() == fresh.allowed_tokens()
""",
    "parse a text": """
grammar = compiler.compile(formats.kbnf('start ::= "a" start start | "a";'))
assert interrupted(lambda: grammar.parse("a" * 100_001))
assert grammar.parse("a" * 11).is_complete
""",
    "the shortest text": """
lists = [{"type": "array", "uniqueItems": True, "items": {"enum": list(range(n))}, "minItems": n} for n in range(2, 60)]
hostile = {"type": "object", "properties": {str(n): each for n, each in enumerate(lists)}}
assert interrupted(lambda: [compiler.compile(hostile).min_bytes for _ in range(10**6)])
""",
    "build a vocabulary": """
tokens = [bytes([n % 256, n // 256 % 256, n // 65536]) * (n % 9 + 1) for n in range(300_000)] + [None]
assert interrupted(lambda: [Compiler(Vocabulary(tokens, end_ids=[300_000])) for _ in range(10**6)])
""",
}


def run(code: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", HARNESS + code], cwd=ROOT, capture_output=True, text=True, timeout=120, check=False
    )


@pytest.mark.parametrize("name", CALLS)
def test_an_interrupt_ends_a_long_call(name: str) -> None:
    done = run(CALLS[name] + "\nassert compiler.compile({'type': 'null'}).formatter().allowed_tokens()")
    assert (done.returncode, done.stderr) == (0, "")
