"""Processes with vLLM in them: their environment, their time-out, their end."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from tests.engines_real.local_servers import is_answered

ROOT = Path(__file__).resolve().parents[2]

#: Of every model that vLLM loads here. On a processor that announces AMX, vLLM's attention for bfloat16 uses it, and a
#: process that may not dies of SIGILL; `--dtype auto` would turn float32 weights into bfloat16 on a CPU.
DTYPE = "float32"

_SETTINGS = {
    "HF_HUB_OFFLINE": "1",
    "TRANSFORMERS_OFFLINE": "1",
    "VLLM_NO_USAGE_STATS": "1",
    "VLLM_DO_NOT_TRACK": "1",
    "VLLM_ENABLE_V1_MULTIPROCESSING": "0",
    "VLLM_LOGGING_LEVEL": "WARNING",
    # A server that hangs up on an idle client may do so just when the next request of it comes.
    "VLLM_HTTP_TIMEOUT_KEEP_ALIVE": "600",
    # A process that a signal ends says so first, also where it is one that vLLM started.
    "PYTHONFAULTHANDLER": "1",
}


def environment(extra_paths: Sequence[Path] | None = None, **settings: str) -> dict[str, str]:
    """Return the environment variables of a process with vLLM; `dev.py` has set those that depend on its version."""
    site = Path(__file__).with_name("vllm_site")
    paths = [*(extra_paths or ()), site, ROOT, ROOT / "integrations"]
    return {**_SETTINGS, **os.environ, "PYTHONPATH": os.pathsep.join(map(str, paths)), **settings}


class EngineDied(Exception):
    """A signal ended a process with vLLM in it; `conftest.py` reports this in one line."""


def signal_in(log: str, returncode: int | None = None) -> str | None:
    """Return one line on the signal that ended a process or one that it started, by its log; None where none did."""
    told = re.search(r"^(?:\([^)]*\) )?Fatal Python error: (.+)", log, re.MULTILINE)
    if told is not None:
        return f"vLLM died of a signal: {told[1]}"
    if returncode is not None and returncode < 0:
        return f"vLLM died of a signal: {signal.Signals(-returncode).name}"
    return None


def write_entry_point(folder: Path) -> Path:
    """Make a folder for the PYTHONPATH in which this project looks installed, entry point included."""
    described = folder / "site" / "formatter_core-0.dist-info"
    described.mkdir(parents=True)
    (described / "METADATA").write_text("Metadata-Version: 2.1\nName: formatter-core\nVersion: 0\n")
    (described / "entry_points.txt").write_text(
        "[vllm.logits_processors]\nformatter = formatter_vllm.entry_point:EntryPointLogitsProcessor\n"
        "[vllm.general_plugins]\nformatter = formatter_vllm.structured_outputs:register\n"
    )
    return described.parent


def run_python(arguments: Sequence[Any], env: dict[str, str], time_out: float) -> subprocess.CompletedProcess[str]:
    """Run a script to its end; its outputs come in one text. It and what it started are ended at the time-out.

    Raises:
        EngineDied: a signal ended it.
    """
    with started([sys.executable, *map(str, arguments)], env, subprocess.PIPE) as process:
        try:
            text, _ = process.communicate(timeout=time_out)
        except subprocess.TimeoutExpired:
            _end_group(process)
            text, _ = process.communicate()
            return subprocess.CompletedProcess(process.args, process.returncode, f"{text}\n(ended after {time_out} s)")
        if cause := signal_in(text, process.returncode):
            raise EngineDied(cause)
        return subprocess.CompletedProcess(process.args, process.returncode, text)


@contextlib.contextmanager
def started(
    words: Sequence[str], env: dict[str, str], output: Any, folder: Path = ROOT
) -> Iterator[subprocess.Popen[str]]:
    """Start a process in a group of its own; the whole group ends with the block."""
    process = subprocess.Popen(
        words, env=env, cwd=folder, stdout=output, stderr=subprocess.STDOUT, text=True, start_new_session=True
    )
    try:
        yield process
    finally:
        _end_group(process)
        process.wait(60)


@contextlib.contextmanager
def serve(
    model: Path,
    folder: Path,
    words: Sequence[str],
    settings: Mapping[str, str],
    time_out: float = 600,
) -> Iterator[tuple[str, subprocess.Popen[str], Path]]:
    """Start a server of vLLM on loopback with its worker in another process; give its address, process and log.

    The class is named, and found by its entry point besides. The model's name is `small`.

    Raises:
        EngineDied: a signal ended it.
        RuntimeError: it does not start; the message has its log.
    """
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    run = [str(Path(sys.executable).with_name("vllm")), "serve", str(model), "--enforce-eager"]
    run += ["--logits-processors", "formatter_vllm:FormatterLogitsProcessor"]
    run += ["--served-model-name", "small", "--host", "127.0.0.1", "--port", str(port)]
    run += ["--dtype", DTYPE, "--max-model-len", "512", "--disable-uvicorn-access-log", *words]
    log = folder / "log"
    env = environment([write_entry_point(folder)], VLLM_ENABLE_V1_MULTIPROCESSING="1", **settings)
    with log.open("w") as output, started(run, env, output) as process:
        wait_for(f"http://127.0.0.1:{port}/health", process, log, time_out)
        yield f"http://127.0.0.1:{port}/v1", process, log


def wait_for(url: str, process: subprocess.Popen[str], log: Path, time_out: float) -> None:
    """Wait for a server that writes this log.

    Raises:
        EngineDied: a signal ended it.
        RuntimeError: it does not start; the message has its log.
    """
    if is_answered(url, process, time_out):
        return
    text = log.read_text(errors="replace")
    if cause := signal_in(text, process.poll()):
        raise EngineDied(cause)
    raise RuntimeError(f"the server did not start:\n{text[-6000:]}")


def memory_of(process: subprocess.Popen[str]) -> int:
    """Return the bytes of main memory that the processes of the group hold."""
    return sum(used.memory for used in usage_of(process.pid).values())


class Usage(NamedTuple):
    """The resources of a process: bytes of main memory, threads, and CPU seconds since it began."""

    memory: int
    threads: int
    cpu: float


def usage_of(group: int) -> dict[str, Usage]:
    """Return the resources of each process of a group, by its name and id."""
    found = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            head, _, tail = stat.read_text().rpartition(")")
            fields = tail.split()
            if int(fields[2]) == group:
                number, _, name = head.partition(" (")
                ticks = int(fields[11]) + int(fields[12])
                memory = int(fields[21]) * os.sysconf("SC_PAGE_SIZE")
                found[f"{name} {number}"] = Usage(memory, int(fields[17]), ticks / os.sysconf("SC_CLK_TCK"))
    return found


def _end_group(process: subprocess.Popen[str]) -> None:
    """The leader may be gone before those that it started."""
    for how in (signal.SIGTERM, signal.SIGKILL):
        try:
            os.killpg(process.pid, how)
        except ProcessLookupError:
            return
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(20)
