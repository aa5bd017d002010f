"""Ctrl-C ends long calls of the main thread, and what was called goes on as before."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]

pytestmark = pytest.mark.skipif(
    os.name != "posix" or sys.implementation.name != "cpython", reason="long calls are interrupted on POSIX by CPython"
)

#: Limits that nothing exceeds, so that each hostile call would take hours.
HARNESS = """
import os, signal, sys, threading, time
import numpy as np
from formatter_core import Compiler, FormatterBuilder, Limits, Vocabulary, bitmask, formats

signal.signal(signal.SIGINT, signal.default_int_handler)  # a job in the background of a shell inherits an ignored one
limits = Limits(work=10**12, nodes=10**9, states=10**9, repeat=10**6)
compiler = Compiler(Vocabulary([*(bytes([n]) for n in range(256)), b"x" * 50_000, None], end_ids=[257]), limits=limits)
ambiguous = formats.kbnf('start ::= a a a a a a a a "!"; a ::= "x" a a | "x" a | "x";')
captured = formats.kbnf('start ::= "a" start start | "a";')
clock = time.pthread_getcpuclockid(threading.main_thread().ident)

class Interrupted:
    \"\"\"Sends an interrupt when the main thread has worked for a while, or at the end of the block.\"\"\"

    def __enter__(self):
        self.ended, begun = threading.Event(), time.clock_gettime(clock)
        def interrupt():
            while time.clock_gettime(clock) < begun + 0.1 and not self.ended.wait(0.002):
                pass
            os.kill(os.getpid(), signal.SIGINT)
        self.thread = threading.Thread(target=interrupt)
        self.thread.start()

    def __exit__(self, *_):
        self.ended.set()
        self.thread.join()

def is_interrupted(call):
    try:
        with Interrupted():
            call()
            print("was not interrupted", file=sys.stderr)
    except KeyboardInterrupt:
        return True

def fresh():
    formatter = compiler.compile(ambiguous).formatter()
    formatter.accept_bytes(b"xx")
    return formatter
"""

#: Calls, and what is asked of the same objects afterwards.
CALLS = {
    "compiling a schema": """
pairs = zip("abcdefgh", "bcdefghi")
hostile = {"type": "string", "allOf": [{"pattern": f"{one}.{{9}}{other}"} for one, other in pairs]}
assert is_interrupted(lambda: compiler.compile(hostile))
""",
    "reading a schema": """
names = [f"p{n}" for n in range(6000)]
hostile = {"anyOf": [{"properties": {name: {"type": "integer"}}, "required": [name]} for name in names]}
assert is_interrupted(lambda: compiler.compile(hostile))
""",
    "a mask": """
formatter = fresh()
row = bitmask.allocate(1, 258)[0]
assert is_interrupted(lambda: formatter.fill_bitmask(row))
assert formatter.bytes == b"xx"
formatter.rollback(1)
formatter.accept_bytes(b"x")
assert formatter.can_stop is False
""",
    "a step": """
formatter = fresh()
row = bitmask.allocate(1, 258)[0]
assert is_interrupted(lambda: formatter.step(ord("x"), row))
assert formatter.bytes == b"xx"
formatter.accept_token(ord("x"))
assert formatter.bytes == b"xxx"
""",
    "a token": """
formatter = fresh()
assert is_interrupted(lambda: formatter.accept_token(256))
formatter.accept_token(ord("x"))
assert formatter.bytes == b"xxx"
""",
    "a batch": """
formatters = [fresh() for _ in range(3)]
assert is_interrupted(lambda: bitmask.fill_batch(formatters, bitmask.allocate(3, 258)))
formatters[2].accept_token(ord("x"))
assert formatters[2].bytes == b"xxx"
""",
    "bytes": """
formatter = fresh()
assert is_interrupted(lambda: formatter.accept_bytes(b"x" * 10**6))
formatter.accept_bytes(b"x" * 6 + b"!")
assert formatter.must_stop
""",
    "listed texts": """
texts = [f"{n * 7919}" * 9 for n in range(50_000)]
assert is_interrupted(lambda: compiler.compile({"enum": ["x" * 2_000_000, *texts]}))
assert compiler.compile({"const": "x" * 1000}).parse('"' + "x" * 1000 + '"').is_complete
""",
    "a budget": """
names = [f"p{n}" for n in range(1000)]
patterns = {name: {"type": "string", "pattern": f"^x{{{len(name) * 7}}}y*z$"} for name in names}
compiled = compiler.compile({"type": "object", "properties": patterns, "required": names})
assert is_interrupted(lambda: compiled.formatter(max_tokens=10**6))
formatter = compiled.formatter()
assert is_interrupted(lambda: formatter.set_budget(10**6))
formatter.accept_bytes(b'{"p0')
assert formatter.bytes == b'{"p0'
""",
    "min_bytes": """
distinct = {"type": "array", "items": {"type": "integer", "minimum": 0}, "uniqueItems": True, "minItems": 10_000}
compiled = compiler.compile(distinct)
assert is_interrupted(lambda: compiled.min_bytes)
assert compiled.formatter().allowed_tokens() == [ord("[")]
assert compiler.compile(formats.regex("a{3}|b{5}")).min_bytes == 3
""",
    "a vocabulary": """
import random
chooser = random.Random(1)
tokens = {chooser.randbytes(chooser.randint(2, 12)) for _ in range(400_000)}
vocabulary = Vocabulary([*(bytes([n]) for n in range(256)), *tokens, None], end_ids=[256 + len(tokens)])
assert is_interrupted(lambda: Compiler(vocabulary).compile({"type": "integer"}).formatter())
assert Compiler(vocabulary).compile({"type": "integer"}).parse("12").is_complete
""",
    "events": """
builder = FormatterBuilder()
builder.append(builder.regex("(a|aa|b)*", name="x"), builder.regex("(a|b)*", name="y"), ".")
formatter = compiler.compile(builder).formatter()
formatter.accept_bytes(b"ab" * 500_000)
assert is_interrupted(formatter.events)
formatter.reset()
formatter.accept_bytes(b"aa.")
assert [type(event).__name__ for event in formatter.events()].count("ValueCompleted") == 2
""",
    "parsing a text": """
compiled = compiler.compile(captured)
assert is_interrupted(lambda: compiled.parse("a" * 100_001))
assert compiled.parse("a" * 11).is_complete
""",
}


def run(code: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", HARNESS + code], cwd=ROOT, capture_output=True, text=True, timeout=300, check=False
    )


@pytest.mark.parametrize("name", CALLS)
def test_an_interrupt_ends_a_long_call_and_all_goes_on(name: str) -> None:
    done = run(CALLS[name] + "\nassert compiler.compile({'type': 'null'}).formatter().allowed_tokens()")
    assert (done.returncode, done.stderr) == (0, "")


WITHOUT_EXCEPTION = """
count = 0
def handle(number, frame):
    global count
    count += 1
signal.signal(signal.SIGINT, handle)

expected = compiler.compile(ambiguous).formatter()
expected.accept_bytes(b"x" * 150)
for call in ("bytes", "mask", "batch", "compile", "parse"):
    formatter = fresh()
    row = bitmask.allocate(1, 258)
    before = count
    with Interrupted():
        if call == "bytes":
            formatter.accept_bytes(b"x" * 148)
            assert formatter.bytes == expected.bytes
        elif call in ("mask", "batch"):
            small = Vocabulary([*(bytes([n]) for n in range(256)), b"x" * 150, None], end_ids=[257])
            other = Compiler(small, limits=limits).compile(ambiguous).formatter()
            if call == "mask":
                assert other.allowed_tokens() == [ord("x"), 256]
            else:
                bitmask.fill_batch([other, other.fork()], rows := bitmask.allocate(2, 258))
                assert bitmask.allowed_ids(rows[1]) == [ord("x"), 256]
        elif call == "compile":
            pattern = formats.regex("(a|b)*a(a|b){14}")
            assert compiler.compile(pattern).formatter().allowed_tokens() == [ord("a"), ord("b")]
        else:
            assert compiler.compile(captured).parse("a" * 151).is_complete
    assert count == before + 1, call
"""


def test_where_a_handler_raises_nothing_calls_come_to_their_answers() -> None:
    """A call that a signal has ended is made once more."""
    done = run(WITHOUT_EXCEPTION)
    assert (done.returncode, done.stderr) == (0, "")


OFTEN = """
from formatter_core import Formatter

class Stop(KeyboardInterrupt):
    pass

def stop(number, frame):
    raise Stop

signal.signal(signal.SIGALRM, stop)
compiled = compiler.compile(formats.regex("(abc)*"))
pair, rows, interrupts = [compiled.formatter(), compiled.formatter()], bitmask.allocate(2, 258), 0
expected = [[ord("a"), 257], [ord("b")], [ord("c")]]
chooser = np.random.default_rng(1)
end = time.process_time() + 1
while time.process_time() < end:
    try:
        try:
            signal.setitimer(signal.ITIMER_REAL, 1e-5 + 2e-4 * chooser.random())
            for _ in range(200):
                pair[0].accept_token(ord("a"))
                pair[0].step(ord("b"), rows[0])
                pair[0].advance(ord("c"))
                pair[0].accept_bytes(b"abca")
                pair[0].rollback(1)
                Formatter.step_batch(pair, [ord("a"), ord("a")], rows)
                pair[0].rollback(1)
                pair[1].rollback(1)
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
    except Stop:
        interrupts += 1
    for formatter in pair:
        found = formatter.allowed_tokens()
        length = len(formatter.bytes)
        assert found == expected[length % 3], (length, found)
        formatter.reset()
        assert (formatter.bytes, formatter.allowed_tokens()) == (b"", expected[0])
assert interrupts > 100, interrupts
"""


def test_however_often_steps_are_interrupted_a_formatter_knows_its_text() -> None:
    """The engine could be a token ahead of the transcript. Here the signal is another one, which has a timer."""
    done = run(OFTEN)
    assert (done.returncode, done.stderr) == (0, "")


IN_ANOTHER_THREAD = """
found = []
def work():
    formatter = fresh()
    formatter.accept_bytes(b"x" * 100)
    found.append(formatter.bytes)
thread = threading.Thread(target=work)
assert is_interrupted(lambda: (thread.start(), fresh().accept_bytes(b"x" * 10**6)))
thread.join()
assert found == [b"x" * 102]
"""


def test_calls_of_other_threads_are_not_interrupted() -> None:
    done = run(IN_ANOTHER_THREAD)
    assert (done.returncode, done.stderr) == (0, "")


IN_A_CHILD = """
assert is_interrupted(lambda: fresh().accept_bytes(b"x" * 10**6))
child = os.fork()
if not child:
    clock = time.pthread_getcpuclockid(threading.main_thread().ident)
    os._exit(0 if is_interrupted(lambda: fresh().accept_bytes(b"x" * 10**6)) else 1)
assert os.waitpid(child, 0)[1] == 0
# A handler that came later is kept, and ours goes before it again.
signal.signal(signal.SIGINT, signal.SIG_IGN)
signal.signal(signal.SIGINT, signal.default_int_handler)
assert is_interrupted(lambda: fresh().accept_bytes(b"x" * 10**6))
"""


def test_children_and_handlers_that_come_later() -> None:
    done = run(IN_A_CHILD)
    assert (done.returncode, done.stderr) == (0, "")
