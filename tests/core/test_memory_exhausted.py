"""A process that runs out of memory goes on after an error, or says so in one line and aborts."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.sampling import sampled

resource = pytest.importorskip("resource", reason="address space is limited on POSIX systems only")
if not Path("/proc/self/statm").exists():
    pytest.skip("the size of the address space is read from Linux's /proc", allow_module_level=True)

ROOT = Path(__file__).resolve().parents[2]

#: Does something with this much room, in KiB, beyond what the process has, and says how that ended.
CHILD = """
import random, resource, sys
from formatter_core import Compiler, Vocabulary, formats
from formatter_core.errors import FormatterError

def compile_schema():
    compiler.compile({"enum": [str(number) * 3 for number in range(20_000)]})

def compile_grammar():
    rules = (f'r{number} ::= "a" r{number + 1} | "b";' for number in range(30_000))
    compiler.compile(formats.kbnf("start ::= r0;" + "".join(rules) + 'r30000 ::= "c";'))

def mask():
    chooser = random.Random(1)
    for _ in range(20):
        formatter = many_states.formatter()
        for _ in range(200):
            formatter.allowed_tokens()
            formatter.accept_bytes(chooser.choice([b"a", b"b"]))

def parse():
    numbers.parse("[" + ",".join(map(str, range(100_000, 140_000))) + "]")

compiler = Compiler(Vocabulary.of_bytes())
small = compiler.compile({"type": "integer"})
assert small.formatter().allowed_tokens() and small.parse("1").is_complete
many_states = compiler.compile(formats.regex("(a|b)*a(a|b){12}c"))
numbers = compiler.compile({"type": "array", "items": {"type": "integer"}})
with open("/proc/self/statm") as file:
    size = int(file.read().split()[0]) * resource.getpagesize()
most = size + 1024 * int(sys.argv[2])
resource.setrlimit(resource.RLIMIT_AS, (most, resource.RLIM_INFINITY))
try:
    globals()[sys.argv[1]]()
    ended = "done"
except (FormatterError, MemoryError) as error:
    ended = type(error).__name__
resource.setrlimit(resource.RLIMIT_AS, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
assert small.formatter().allowed_tokens() and small.parse("1").is_complete
print(ended)
"""
#: From too little for anything to enough for everything.
ROOMS = [0, 64, 256, 1 << 10, 1 << 12, 1 << 14, 1 << 18]
#: The output of an abort; newer versions of Rust add a note.
ABORT = re.compile(r"memory allocation of \d+ bytes failed\n(note: .*\n)?")


@pytest.mark.parametrize("task", sampled(["mask", "compile_schema", "compile_grammar", "parse"], 1))
def test_where_memory_ends_a_process_goes_on_or_says_one_line_and_aborts(task: str) -> None:
    env = {**os.environ, "OPENBLAS_NUM_THREADS": "1", "PYTHONPATH": str(ROOT)}
    env.pop("RUST_BACKTRACE", None)
    found = []
    for room in ROOMS:
        command = [sys.executable, "-c", CHILD, task, str(room)]
        done = subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True, timeout=300, check=False)
        if done.returncode:
            assert done.returncode == -signal.SIGABRT, (room, done)
            assert ABORT.fullmatch(done.stderr), (room, done)
            found.append("abort")
        else:
            assert done.stdout in ("done\n", "MemoryError\n", "LimitExceeded\n"), (room, done)
            found.append(done.stdout.strip())
    assert found[-1] == "done"
    assert set(found) > {"done"}, found
