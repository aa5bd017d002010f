"""Search for inputs that break a target of `tests/fuzz`, guided by the branches that they take in the native library.

    python3.11 dev.py fuzz schema --seconds 600     # a new finding ends it, and says where its input lies
    python3.11 dev.py fuzz all --seconds 10         # each target in turn
    python3.11 dev.py fuzz schema --keep            # and what was found goes into the corpus that the tests replay
    python3.11 dev.py fuzz schema --sanitize        # every access to memory is checked, too

The library is built once more, with counters of its branches and checks of overflows, into a copy of the package.
libFuzzer comes with the package atheris; a compiler for C is not needed. `--sanitize` adds AddressSanitizer, whose
runtime comes with atheris, too; it takes a nightly Rust.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from building.processes import ROOT
from building.variants import build_variant, copy_package
from dev import CRATE, cache_folder
from tests.fuzz.corpus import MOST_BYTES, read_corpus, write_corpus
from tests.fuzz.seeds import DICTIONARIES, IN_PYTHON, seeds
from tests.fuzz.targets import TARGETS

#: The library as it is used.
BUILT = CRATE / "target" / "release" / "libformatter_core_native.so"
#: Counters of edges and the operands of comparisons, as libFuzzer reads them. Their functions are found at run time.
FLAGS = [
    "passes=sancov-module",
    *(
        f"llvm-args=-sanitizer-coverage-{name}"
        for name in ("level=3", "inline-8bit-counters", "pc-table", "trace-compares")
    ),
    "debug-assertions=on",
    "overflow-checks=on",
    "link-arg=-Wl,--unresolved-symbols=ignore-all",
]
#: Seconds, as they pass on a busy machine, and megabytes after which an input is a finding. For targets that are not
#: `IN_PYTHON`, `tests.fuzz` bounds CPU time, too.
SLOW, LARGE = 60, 2_000


def build(cache: Path, sanitize: bool) -> Path:
    """Build the instrumented library."""
    flags = [*(f"-C {flag}" for flag in FLAGS), *(["-Z sanitizer=address"] if sanitize else [])]
    return build_variant(cache, flags, toolchain="nightly" if sanitize else "")


def sanitizer_settings() -> dict[str, str]:
    """Return the variables that a process needs to load a library with AddressSanitizer."""
    # Of gcc's runtime libFuzzer would learn no branches: it has functions of the same names.
    runtime = Path(sysconfig.get_path("platlib")) / "asan_with_fuzzer.so"
    # Python keeps memory until it ends.
    options = "detect_leaks=0:allocator_may_return_null=1"
    return {"LD_PRELOAD": str(runtime), "ASAN_OPTIONS": options, "PYTHONMALLOC": "malloc"}


def unpack(inputs: Iterable[bytes], folder: Path) -> None:
    folder.mkdir()
    for one in inputs:
        (folder / hashlib.sha256(one).hexdigest()[:24]).write_bytes(one)


def words(target: str) -> str:
    """A dictionary, as libFuzzer reads it."""
    found = ("".join(f"\\x{byte:02x}" for byte in word.encode()) for word in DICTIONARIES[target])
    return "".join(f'"{word}"\n' for word in found)


def search(target: str, folder: Path, options: argparse.Namespace) -> bool:
    """Look for findings of one target, in a folder for it; whether there are none."""
    folder.mkdir()
    copy_package(BUILT if target in IN_PYTHON else build(cache_folder(), options.sanitize), folder)
    unpack([*seeds(target), *read_corpus(target)], folder / "corpus")
    findings = cache_folder() / "fuzz-findings"
    findings.mkdir(parents=True, exist_ok=True)
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([str(folder), str(ROOT)])}
    if options.sanitize:
        env |= sanitizer_settings()
    # A program of its own, because libFuzzer calls itself to merge.
    program = folder / "fuzz"
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -m tests.fuzz {target} "$0" "$@"\n')
    program.chmod(0o755)
    settings = {
        "max_total_time": options.seconds,
        "max_len": options.longest,
        "seed": options.seed,
        "timeout": SLOW,
        "rss_limit_mb": LARGE * (4 if options.sanitize else 1),
        "artifact_prefix": f"{findings}/{target}-",
    }
    if target in DICTIONARIES:
        (folder / "words").write_text(words(target))
        settings["dict"] = folder / "words"
    given = [f"-{name}={value}" for name, value in settings.items()]
    if subprocess.run([str(program), *given, str(folder / "corpus")], cwd=folder, env=env, check=False).returncode:
        print(f"{target}: a finding; its input lies in {findings}")
        return False
    if options.keep:
        (folder / "least").mkdir()
        merge = [str(program), "-set_cover_merge=1", str(folder / "least"), str(folder / "corpus")]
        subprocess.run(merge, cwd=folder, env=env, check=True)
        kept = write_corpus(target, [path.read_bytes() for path in (folder / "least").iterdir()])
        print(f"{target}: {kept} inputs are in the corpus, of at most {MOST_BYTES} bytes")
    return True


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("target", choices=[*TARGETS, "all"])
    parser.add_argument("--seconds", type=int, default=60, help="of each target")
    parser.add_argument("--longest", type=int, default=300, help="bytes of an input")
    parser.add_argument("--seed", type=int, default=0, help="0 for another one each time")
    parser.add_argument("--keep", action="store_true", help="write the smallest set of inputs to the corpus")
    parser.add_argument("--sanitize", action="store_true", help="check accesses to memory with AddressSanitizer")
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as folder:
        targets = TARGETS if options.target == "all" else [options.target]
        return int(sum(not search(target, Path(folder) / target, options) for target in targets) > 0)


if __name__ == "__main__":
    sys.exit(main())
