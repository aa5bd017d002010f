"""Servers of llama-cpp-python and mlx-lm, each in a process of its own on loopback."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

__all__ = ["is_answered", "served", "serving"]

_TIME_OUT = 120


@contextmanager
def serving(module: str, model: Path, log: Path, *options: str) -> Iterator[str]:
    """Give the address of a server, a Python module that takes the command line of `llama_cpp.server`."""
    own = ("--model_alias", "small", "--n_ctx", "1024", "--n_threads", "1")
    with served(log, "-m", module, "--model", str(model), *own, *options) as address:
        yield address


@contextmanager
def served(log: Path, *words: str) -> Iterator[str]:
    """Give the address of a server that these words of Python's command line start, with a port added to them."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    words = (sys.executable, *words, "--host", "127.0.0.1", "--port", str(port))
    with log.open("w") as output:
        process = subprocess.Popen(words, stdout=output, stderr=subprocess.STDOUT, env=dict(os.environ))
        try:
            if not is_answered(f"http://127.0.0.1:{port}/v1/models", process, _TIME_OUT):
                pytest.fail(f"the server did not start:\n{log.read_text()[-4000:]}")
            yield f"http://127.0.0.1:{port}/v1"
        finally:
            process.terminate()
            process.wait(30)


def is_answered(url: str, process: subprocess.Popen[Any], time_out: float) -> bool:
    """Wait for a server; False if its process ends first, or the time does."""
    end = time.monotonic() + time_out
    while time.monotonic() < end and process.poll() is None:
        try:
            with urllib.request.urlopen(url, timeout=5) as answer:
                if answer.status == 200:
                    return True
        except (urllib.error.URLError, OSError):
            time.sleep(0.2)
    return False
