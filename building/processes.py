"""Commands that `dev.py` runs: their variables, signals that are passed on, and interpreters of environments."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

__all__ = ["ROOT", "command", "interpreter", "pip_install", "running", "variables"]

ROOT = Path(__file__).resolve().parents[1]


def variables() -> dict[str, str]:
    """Return the environment variables for processes that import the project from this checkout."""
    sources = os.pathsep.join([str(ROOT), str(ROOT / "integrations")])
    return {**os.environ, "PYTHONPATH": sources, "OMP_NUM_THREADS": "1", "TOKENIZERS_PARALLELISM": "false"}


def command(words: Sequence[str], cwd: Path = ROOT, env: dict[str, str] | None = None) -> int:
    """Run a command; returns its exit status."""
    with running(words, cwd=cwd, env=env) as process:
        pass
    return process.returncode


@contextlib.contextmanager
def running(words: Sequence[str], **options: Any) -> Iterator[subprocess.Popen[Any]]:
    """Run a command that ends before the block is left. A signal that stops this process is passed on to it first."""
    process: subprocess.Popen[Any] | None = None
    received: list[int] = []

    def stop(number: int, frame: object) -> None:
        received.append(number)
        if process is not None and process.poll() is None and not _is_from_terminal(number):
            process.send_signal(number)

    signals = [getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)]
    handlers = [(number, signal.signal(number, stop)) for number in signals]
    try:
        process = subprocess.Popen(list(words), **options)
        for number in received:  # before there was a process
            process.send_signal(number)
        with process:
            yield process
    finally:
        for number, handler in handlers:
            signal.signal(number, handler)
    if received:  # nor does anything follow
        sys.exit(128 + received[0])


def _is_from_terminal(number: int) -> bool:
    """Tell whether a signal is a Ctrl-C, which a terminal sends to the command as well."""
    try:
        return number == signal.SIGINT and os.tcgetpgrp(sys.stdin.fileno()) == os.getpgrp()
    except (AttributeError, OSError, ValueError):  # no terminal
        return False


def interpreter(folder: Path) -> Path:
    """Return the Python interpreter of an environment."""
    return folder / "Scripts" / "python.exe" if sys.platform == "win32" else folder / "bin" / "python"


def pip_install(interpreter: str, *what: str, env: dict[str, str]) -> int:
    """Install packages; returns pip's exit status."""
    return command([interpreter, "-m", "pip", "install", "--quiet", *what], env=env)
