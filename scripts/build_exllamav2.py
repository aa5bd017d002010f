#!/usr/bin/env python3
"""Make releases of exllamav2 usable on a machine without a GPU, for the tests.

    python scripts/build_exllamav2.py --cache FOLDER --python ENVIRONMENT/bin/python

Each release is installed, unmodified, into a folder of its own inside the environment (`exllamav2/VERSION`). Its wheel
holds sources: CUDA kernels, and the C++ of its sampler, which needs no GPU. Beside it is put an extension
`exllamav2_ext` that is compiled from the package's own sampler files, with the flags of the package; `exllamav2` then
finds it installed and compiles nothing itself. What is missing in it is what a GPU is needed for: every kernel.

The headers of CUDA that those files name without using them are given as empty files, so that nothing of CUDA is
needed. What was compiled is kept in the cache, named by a hash of the sources. One release takes about a minute.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

#: The last release of each generation of the filters' interface, and the last of all.
VERSIONS = ("0.2.0", "0.2.3", "0.2.6", "0.3.2")

#: What upstream compiles for its sampler, unmodified.
SOURCES = ("cpp/generator.cpp", "cpp/profiling.cpp", "cpp/sampling.cpp", "cpp/sampling_avx2.cpp")
SAMPLER = "ext_sampling.cpp"
FLAGS = [
    "-Ofast",
    "-fPIC",
    "-std=c++20",
    "-w",
    "-DTORCH_EXTENSION_NAME=exllamav2_ext",
    "-DTORCH_API_INCLUDE_EXTENSION_H",
]
#: Found among what torch has loaded by then, so no place is written into the extension.
LINKED = ["-lc10", "-ltorch_cpu", "-ltorch", "-ltorch_python"]
EMPTY_HEADERS = ("c10/cuda/CUDAGuard.h", "ATen/cuda/CUDAContext.h", "cuda_runtime.h", "cuda_fp16.h")

#: Asks an environment for what `Torch` holds.
_ASKED = """
import sysconfig, torch
from pathlib import Path
folder = Path(torch.__file__).parent
print(torch.__version__, sysconfig.get_config_var("EXT_SUFFIX"), folder / "lib", sep="\\n")
print(folder / "include", folder / "include/torch/csrc/api/include", sysconfig.get_path("include"), sep="\\n")
"""


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--cache", type=Path, required=True, help="the folder that keeps what was compiled")
    parser.add_argument("--python", type=Path, required=True, help="the interpreter of the environment, with torch")
    parser.add_argument("--versions", nargs="+", default=VERSIONS)
    options = parser.parse_args(arguments)
    python = str(options.python)
    torch = Torch(*output_of([python, "-c", _ASKED]).split("\n"))
    for version in options.versions:
        target = options.python.absolute().parent.parent / "exllamav2" / version
        shutil.rmtree(target, ignore_errors=True)
        fetch = [python, "-m", "pip", "install", "--quiet", "--no-deps", "--no-compile", "--target", str(target)]
        run([*fetch, f"exllamav2=={version}"])
        sources = target / "exllamav2" / "exllamav2_ext"
        built = extension(options.cache.absolute(), sources, torch)
        shutil.copy2(built, target / built.name)
        check = (
            "import torch, exllamav2_ext; exllamav2_ext.fast_fill_cpu_ones_bool(torch.zeros((1, 8), dtype=torch.bool))"
        )
        run([python, "-c", f"import sys; sys.path.insert(0, {str(target)!r}); {check}"])
    return 0


@dataclass(frozen=True)
class Torch:
    """What an extension is compiled against: torch's version, what extensions are called, and where things are."""

    version: str
    suffix: str
    libraries: str
    headers: str
    more_headers: str
    python_headers: str


def extension(cache: Path, sources: Path, torch: Torch) -> Path:
    """The compiled extension of these sources; made where it is absent."""
    digest = hashlib.sha256(repr((FLAGS, LINKED, bindings(sources), torch.version, torch.suffix)).encode())
    for path in sorted([*sources.glob("cpp/*"), *sources.glob("*.h"), sources / SAMPLER]):
        digest.update(path.read_bytes())
    built = cache / f"exllamav2-ext-{digest.hexdigest()[:12]}" / f"exllamav2_ext{torch.suffix}"
    if built.exists():
        return built
    built.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=built.parent) as made:
        work = Path(made)
        for name in EMPTY_HEADERS:
            (work / "empty" / name).parent.mkdir(parents=True, exist_ok=True)
            (work / "empty" / name).touch()
        module = work / "module.cpp"
        module.write_text(bindings(sources), encoding="utf-8")
        places = (work / "empty", sources, torch.headers, torch.more_headers, torch.python_headers)
        compiler = ["g++", *FLAGS, *(f"-I{place}" for place in places), "-c"]
        objects = {str(work / f"{path.stem}.o"): str(path) for path in (module, *(sources / name for name in SOURCES))}
        with ThreadPoolExecutor(os.cpu_count()) as pool:
            list(pool.map(lambda made: run([*compiler, objects[made], "-o", made]), objects))
        linked = work / built.name
        run(["g++", "-shared", *objects, f"-L{torch.libraries}", *LINKED, "-o", str(linked)])
        linked.replace(built)
    return built


def bindings(sources: Path) -> str:
    """The module: upstream's sampler file, one function of another, and upstream's own lines that export them."""
    exported = (sources / "ext_bindings.cpp").read_text(encoding="utf-8")
    sampler = (sources / "ext_sampling.h").read_text(encoding="utf-8") + (sources / "cpp/generator.h").read_text()
    lines = [
        line.strip()
        for line in exported.splitlines()
        if (found := re.match(r'\s*m\.def\("(\w+)"', line))
        and (found[1] == "count_match" or re.search(rf"\b{found[1]}\b\s*\(", sampler))
    ]
    # The drafting by n-grams counts with it; the file it is in is about caches on a GPU.
    count_match = re.search(
        r"^int count_match\n.*?^\}", (sources / "ext_cache.cpp").read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL
    )
    if count_match is None or not lines:
        sys.exit(f"{sources} is laid out in another way than the releases this is for: {', '.join(VERSIONS)}")
    body = "\n    ".join(lines)
    return f'#include "{SAMPLER}"\n\n{count_match[0]}\n\nPYBIND11_MODULE(TORCH_EXTENSION_NAME, m)\n{{\n    {body}\n}}\n'


def output_of(words: Sequence[str]) -> str:
    return subprocess.run(list(words), check=True, capture_output=True, text=True).stdout.strip()


def run(words: Sequence[str]) -> None:
    if subprocess.run(list(words), check=False).returncode:
        sys.exit(f"this failed: {' '.join(words)}")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
