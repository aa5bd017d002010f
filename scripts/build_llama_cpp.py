#!/usr/bin/env python3
"""Build llama-cpp-python from source, once, and install it into an environment.

    python scripts/build_llama_cpp.py --cache FOLDER --python ENVIRONMENT/bin/python

PyPI holds sources only, and pip builds much that the Python package never loads. This builds the one target that it
does load, with no instruction that is special to this machine's processor, and a wheel of the Python part. Both are
kept in a subfolder of the cache that is named by a hash of how they were made; the wheel is installed, and the
libraries are put where it looks for them. Releases from before the library's samplers lie beside, each in a folder of
its own, `ENVIRONMENT/releases/llama-cpp-python-VERSION`, to be put in front of the path of a process. About three
minutes of one processor for the newest and one minute for each of the others the first time, some seconds later on. The
environment needs what llama-cpp-python imports: numpy, typing-extensions, diskcache, jinja2.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import platform
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import tempfile
from collections.abc import Sequence
from pathlib import Path

VERSION = "0.3.36"
OPTIONS = [
    "-DCMAKE_BUILD_TYPE=Release",
    "-DGGML_NATIVE=OFF",
    "-DGGML_OPENMP=OFF",
    "-DLLAVA_BUILD=OFF",
    "-DSKBUILD_STATE=wheel",
]
#: The first release that is supported, and the last one before samplers came.
OLDER = ("0.2.64", "0.2.90")
#: What GGML_NATIVE was called then.
OLDER_OPTIONS = ["-DLLAMA_NATIVE=OFF"]
TOOLS = ["cmake>=3.21", "ninja"]


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--cache", type=Path, required=True, help="the folder that keeps what was built")
    parser.add_argument("--python", type=Path, required=True, help="the interpreter of the environment to install into")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="how many compilers run at a time")
    options = parser.parse_args(arguments)
    python = str(options.python)
    built = libraries(options.cache.absolute(), python, options.jobs)
    wheel = str(next(built.glob("*.whl")))
    run([python, "-m", "pip", "install", "--quiet", "--no-deps", "--force-reinstall", wheel])
    where = "import sysconfig; print(sysconfig.get_path('platlib'))"
    packages = Path(subprocess.run([python, "-c", where], check=True, capture_output=True, text=True).stdout.strip())
    target = packages / "llama_cpp" / "lib"
    shutil.rmtree(target, ignore_errors=True)
    target.mkdir()
    for library in (built / "lib").iterdir():
        shutil.copy2(library, target / library.name, follow_symlinks=False)
    run([python, "-c", "import llama_cpp; llama_cpp.llama_max_devices()"])
    for version in OLDER:
        release = options.python.absolute().parent.parent / "releases" / f"llama-cpp-python-{version}"
        shutil.rmtree(release, ignore_errors=True)
        shutil.copytree(libraries(options.cache.absolute(), python, options.jobs, version), release, symlinks=True)
        loads = {**os.environ, "PYTHONPATH": str(release)}
        run([python, "-c", f"import llama_cpp; assert llama_cpp.__version__ == {version!r}"], env=loads)
    return 0


def libraries(cache: Path, python: str, jobs: int, version: str = VERSION) -> Path:
    """The folder with the libraries and the wheel of the Python part; made where it is absent.

    Of an older release it holds the package itself, in place of a wheel.
    """
    settings = OPTIONS if version == VERSION else OPTIONS + OLDER_OPTIONS
    content = repr((version, settings, sysconfig.get_platform(), platform.machine()))
    folder = cache / f"llama-cpp-{version}-{hashlib.sha256(content.encode()).hexdigest()[:12]}"
    if (folder / "complete").exists():
        return folder
    cache.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=cache) as made:
        work = Path(made)
        fetch = [python, "-m", "pip", "download", "--quiet", "--no-deps", "--no-binary", "llama-cpp-python"]
        run([*fetch, f"llama-cpp-python=={version}", "--dest", made])
        sdist = next(work.glob("*.tar.gz"))
        with tarfile.open(sdist) as archive:
            archive.extractall(work / "source")  # what it holds is about to be run anyway
        source = next((work / "source").iterdir())
        environment = tools(work, python)
        generate = ["cmake", "-G", "Ninja", "-S", str(source), "-B", str(work / "build"), *settings]
        run([*generate, f"-DSKBUILD_PLATLIB_DIR={work / 'unused'}"], env=environment)
        run(["ninja", "-j", str(jobs), "-C", str(work / "build"), "llama"], env=environment)
        whole = work / "whole"
        if version == VERSION:
            package_it(work, sdist, whole, {**environment, "CMAKE_ARGS": "-DLLAMA_BUILD=OFF -DLLAVA_BUILD=OFF"}, python)
        else:
            # Releases differ in whether the libraries lie in the package or in a folder of it.
            shutil.copytree(source / "llama_cpp", whole / "llama_cpp")
            for place in (whole / "llama_cpp", whole / "llama_cpp" / "lib"):
                copy_libraries(work / "build", place)
        (whole / "complete").write_text(content)
        shutil.rmtree(folder, ignore_errors=True)
        whole.replace(folder)
    return folder


def package_it(work: Path, sdist: Path, whole: Path, environment: dict[str, str], python: str) -> None:
    """The libraries, and a wheel of the Python part, for which the package's own build is switched off."""
    copy_libraries(work / "build", whole / "lib")
    make = [python, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", str(whole), str(sdist)]
    run(make, env=environment)


def copy_libraries(build: Path, target: Path) -> None:
    """All shared libraries of a build, links as links."""
    target.mkdir(parents=True, exist_ok=True)
    for library in build.rglob("lib*.so*"):
        shutil.copy2(library, target / library.name, follow_symlinks=False)


def tools(work: Path, python: str) -> dict[str, str]:
    """Variables with which cmake and ninja are found; they are installed aside where the machine has none."""
    if shutil.which("cmake") and shutil.which("ninja"):
        return dict(os.environ)
    run([python, "-m", "pip", "install", "--quiet", "--target", str(work / "tools"), *TOOLS])
    path = os.pathsep.join([str(work / "tools" / "bin"), os.environ["PATH"]])
    return {**os.environ, "PATH": path, "PYTHONPATH": str(work / "tools")}


def run(words: Sequence[str], env: dict[str, str] | None = None) -> None:
    if subprocess.run(list(words), env=env, check=False).returncode:
        sys.exit(f"this failed: {' '.join(words)}")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
