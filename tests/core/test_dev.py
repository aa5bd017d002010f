"""`dev.py real` counts as passed only what ran, and says in its last line what did and what did not."""

from __future__ import annotations

import importlib.util
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def dev(monkeypatch):
    spec = importlib.util.spec_from_file_location("dev", ROOT / "dev.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    monkeypatch.setattr(module, "build_native", lambda: None)
    monkeypatch.setattr(module, "environment", Path)
    monkeypatch.setattr(module, "REAL", [("first", ["a.py"]), ("second", ["b.py"])])
    return module


@pytest.mark.parametrize(
    ("arguments", "spread"),
    [
        ([], True),
        (["-x", "-q", "-k", "schema"], True),
        (["--durations=20"], True),
        (["tests/sabotage"], False),
        (["tests/core/test_dev.py::test_the_fast_tests_run_on_several_cores"], False),
        (["-n0"], False),
        (["-p", "no:xdist"], False),
        (["--pdb"], False),
    ],
)
def test_the_fast_tests_run_on_several_cores(dev, monkeypatch, arguments, spread) -> None:
    run = []
    monkeypatch.setattr(dev, "python", lambda *words: run.extend(words))
    dev.test(arguments)
    assert run[-len(arguments) :] == arguments or not arguments
    assert ("--dist" in run) is spread


def pytest_that_ends(code: int, **counts: int):
    """Instead of pytest in an environment: a report with these counts, and an exit status."""

    def python(name: str, *arguments: str) -> int:
        (path,) = [one.removeprefix("--junitxml=") for one in arguments if one.startswith("--junitxml=")]
        if counts:
            told = " ".join(f'{key}="{number}"' for key, number in counts.items())
            Path(path).write_text(f"<testsuites><testsuite {told}/></testsuites>")
        return code

    return python


@pytest.mark.parametrize(
    ("python", "code", "told"),
    [
        (pytest_that_ends(0, tests=3, skipped=1), 0, "2 passed, 1 skipped"),
        (pytest_that_ends(0, tests=3), 0, "3 passed"),
        (pytest_that_ends(1, tests=5, failures=1, errors=1), 1, "2 failed, 3 passed"),
        (pytest_that_ends(0, tests=3, skipped=3), 1, "0 passed, 3 skipped"),
        (pytest_that_ends(5, tests=0), 1, "0 passed"),
        (pytest_that_ends(-4), 1, "died of SIGILL"),
        (pytest_that_ends(3), 1, "pytest ended with 3"),
    ],
)
def test_the_last_line_says_how_each_suite_ended(dev, monkeypatch, capsys, python, code, told) -> None:
    monkeypatch.setattr(dev, "python", python)
    assert dev.real([]) == code
    assert capsys.readouterr().out.splitlines()[-1] == f"ran: first ({told}), second ({told}); not run: nothing"


@pytest.mark.parametrize(("error", "code"), [("NotMade", 1), ("LeftOut", 0)])
def test_a_suite_that_is_not_run_is_named_and_does_not_pass(dev, monkeypatch, capsys, error, code) -> None:
    def environment(name: str) -> Path:
        if name == "second":
            raise getattr(dev, error)("no such package")
        return Path(name)

    monkeypatch.setattr(dev, "environment", environment)
    monkeypatch.setattr(dev, "python", pytest_that_ends(0, tests=3))
    assert dev.real([]) == code
    assert capsys.readouterr().out.splitlines()[-1] == "ran: first (3 passed); not run: second (no such package)"
    assert dev.real(["first"]) == 0
    assert dev.real(["third"]) == 2


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has other signals")
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT], ids=lambda number: number.name)
def test_a_signal_ends_the_command_too(number) -> None:
    child = (
        "import signal, sys, time\n"
        f"signal.signal({int(number)}, lambda *_: (print('told', flush=True), sys.exit(3)))\n"
        "print('ready', flush=True); time.sleep(60)"
    )
    program = f"import sys, dev; dev.command([sys.executable, '-c', {child!r}]); print('went on')"
    words = [sys.executable, "-c", program]
    with subprocess.Popen(
        words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True, env={**os.environ, "PYTHONPATH": str(ROOT)}
    ) as process:
        assert process.stdout.readline() == "ready\n"
        process.send_signal(number)
        assert process.stdout.read() == "told\n", "the command was stopped, and nothing else began"
    assert process.returncode == 128 + number


@pytest.mark.skipif(sys.platform == "win32", reason="the stand-in for cargo is a shell script")
@pytest.mark.parametrize(("told", "code"), [("Compiling formatter", 0), ("Finished release", 0), ("error: no", 1)])
def test_it_says_that_it_builds(tmp_path, monkeypatch, capfd, told, code) -> None:
    for program in ("cargo", "rustc"):
        version = f'[ "$*" = --version ] && echo {program} 1.80.0 && exit'
        (tmp_path / program).write_text(f"#!/bin/sh\n{version}\necho '   {told}' >&2\nexit {code}\n")
        (tmp_path / program).chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    spec = importlib.util.spec_from_file_location("dev", ROOT / "dev.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    if code:
        with pytest.raises(SystemExit):
            module.build_native()
    else:
        module.build_native()
    shown = "".join(capfd.readouterr())
    assert ("building the native library" in shown) is (told.startswith("Compiling"))
    assert (told in shown) is bool(code)


def test_every_benchmark_has_an_environment_and_a_line_in_the_list(dev) -> None:
    folder = ROOT / "benchmarks"
    names = {path.stem for path in folder.glob("*.py") if "\ndef measure(" in path.read_text(encoding="utf-8")}
    assert set(dev.BENCHMARKS) == names - {"exllamav2_gpu"}  # which needs an environment with a GPU's exllamav2
    listed = (folder / "README.md").read_text(encoding="utf-8")
    assert all(f"`{name}`" in listed for name in names)


def test_every_script_is_named_in_the_list_of_scripts() -> None:
    folder = ROOT / "scripts"
    listed = (folder / "README.md").read_text(encoding="utf-8")
    assert all(f"`{path.name}`" in listed for path in folder.glob("*.*") if path.suffix in (".py", ".cpp"))
