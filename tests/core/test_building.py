"""The build from source uses the machine's Rust, brings one where there is none to use, or says what helps."""

from __future__ import annotations

import importlib.util
import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from building import toolchain

ROOT = Path(__file__).resolve().parents[2]

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="the stand-ins for cargo and rustc are shell scripts")


def put(folder: Path, says: str, code: int = 0, programs: tuple[str, ...] = ("cargo", "rustc")) -> Path:
    """Stand-ins that print and exit."""
    folder.mkdir(exist_ok=True)
    for program in programs:
        (folder / program).write_text(f"#!/bin/sh\necho '{says.format(program)}'\nexit {code}\n")
        (folder / program).chmod(0o755)
    return folder


@pytest.fixture
def alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that is all of PATH, in an environment that is put back at the end."""
    monkeypatch.setattr(os, "environ", {**os.environ, "PATH": str(tmp_path / "bin")})
    return tmp_path / "bin"


@pytest.mark.parametrize(
    ("says", "code", "expected"),
    [
        ("{} 1.75.0 (82e1608df 2023-12-21)", 0, True),
        ("{} 1.97.1-nightly (1 2026-11-01)", 0, True),
        ("{} 2.0.0", 0, True),
        ("{} 1.74.1 (a28077b28 2023-12-04)", 0, False),
        ("{} 1.8.0", 0, False),
        ("{} 1.90.0", 1, False),
        ("error: no default toolchain", 0, False),
        ("", 0, False),
    ],
)
def test_a_toolchain_counts_from_the_oldest_that_builds_on(alone: Path, says: str, code: int, expected: bool) -> None:
    put(alone, says, code)
    assert toolchain.is_there() is expected


def test_both_programs_are_needed(alone: Path) -> None:
    assert not toolchain.is_there()
    put(alone, "{} 1.90.0", programs=("cargo",))
    assert not toolchain.is_there()
    put(alone, "{} 1.70.0", programs=("rustc",))
    assert not toolchain.is_there()
    put(alone, "{} 1.90.0", programs=("rustc",))
    assert toolchain.is_there()


def test_the_oldest_is_that_of_the_crate() -> None:
    manifest = (ROOT / "formatter_core" / "engine" / "native" / "Cargo.toml").read_text(encoding="utf-8")
    named = ".".join(map(str, toolchain.OLDEST))
    assert f'rust-version = "{named}"' in manifest
    assert f"Rust {named} or newer" in toolchain.NO_RUST


class Setuptools(ModuleType):
    """The part of setuptools that the backend calls; it keeps the environment of each build."""

    def __init__(self) -> None:
        super().__init__("setuptools.build_meta")
        self.built: list[tuple[Any, ...]] = []
        for name in ("build_sdist", "get_requires_for_build_sdist"):
            setattr(self, name, lambda *_: "made")
        for kind in ("wheel", "editable"):
            setattr(self, f"prepare_metadata_for_build_{kind}", lambda *_: "metadata")
            setattr(self, f"get_requires_for_build_{kind}", lambda settings=None: ["setuptools-rust"])
            setattr(self, f"build_{kind}", self.builder(kind))

    def builder(self, kind: str) -> Callable[..., str]:
        def build(*given: Any) -> str:
            self.built.append((kind, given, {name: os.environ.get(name) for name in ("PATH", "CARGO_HOME")}))
            return "a.whl"

        return build


@pytest.fixture
def setuptools(monkeypatch: pytest.MonkeyPatch) -> Setuptools:
    made, above = Setuptools(), ModuleType("setuptools")
    above.build_meta = made  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "setuptools", above)
    monkeypatch.setitem(sys.modules, "setuptools.build_meta", made)
    return made


@pytest.fixture
def backend(setuptools: Setuptools, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.delitem(sys.modules, "building.backend", raising=False)
    return importlib.import_module("building.backend")


def bringing(monkeypatch: pytest.MonkeyPatch, setup_rust: Callable[[], dict[str, str]]) -> None:
    """Install a stand-in for the package that brings Rust."""
    module = ModuleType("puccinialin")
    module.setup_rust = setup_rust  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "puccinialin", module)


@pytest.mark.parametrize("kind", ["wheel", "editable"])
def test_a_build_with_rust_asks_for_nothing_more(
    alone: Path, backend: Any, setuptools: Setuptools, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    put(alone, "{} 1.80.0")
    monkeypatch.setitem(sys.modules, "puccinialin", None)  # importing it would fail
    assert getattr(backend, f"get_requires_for_build_{kind}")() == ["setuptools-rust"]
    assert getattr(backend, f"build_{kind}")("out", {"a": 1}, "metadata") == "a.whl"
    assert setuptools.built == [(kind, ("out", {"a": 1}, "metadata"), {"PATH": str(alone), "CARGO_HOME": None})]


@pytest.mark.parametrize("kind", ["wheel", "editable"])
@pytest.mark.parametrize("there", [None, "{} 1.74.0"])
def test_a_build_without_it_brings_one_and_builds_with_that(
    alone: Path, backend: Any, setuptools: Setuptools, monkeypatch: pytest.MonkeyPatch, kind: str, there: str | None
) -> None:
    if there is not None:
        put(alone, there)
    brought = put(alone.parent / "brought", "{} 1.95.0")
    path = f"{brought}{os.pathsep}{alone}"
    bringing(monkeypatch, lambda: {"PATH": path, "CARGO_HOME": "cargo", "RUSTUP_HOME": "rustup"})
    asked = getattr(backend, f"get_requires_for_build_{kind}")({"a": 1})
    assert asked == ["setuptools-rust", toolchain.BRINGS_RUST]
    assert getattr(backend, f"build_{kind}")("out") == "a.whl"
    assert setuptools.built == [(kind, ("out", None, None), {"PATH": path, "CARGO_HOME": "cargo"})]
    assert os.environ["RUSTUP_HOME"] == "rustup"


def refused() -> dict[str, str]:
    raise OSError("nobody answers")


@pytest.mark.parametrize(
    ("setup_rust", "says"),
    [(refused, "OSError while Rust was being installed: nobody answers"), (dict, "does not run")],
)
def test_where_it_cannot_be_had_the_build_fails_with_what_helps(
    alone: Path, backend: Any, setuptools: Setuptools, monkeypatch: pytest.MonkeyPatch, setup_rust: Any, says: str
) -> None:
    bringing(monkeypatch, setup_rust)
    with pytest.raises(SystemExit) as stopped:
        backend.build_wheel("out")
    assert says in str(stopped.value)
    assert str(stopped.value).endswith(toolchain.NO_RUST)
    assert setuptools.built == []


def test_a_source_distribution_needs_no_rust(alone: Path, backend: Any) -> None:
    assert backend.get_requires_for_build_sdist() is not None
    assert backend.build_sdist("out") is not None


@pytest.fixture
def dev(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    spec = importlib.util.spec_from_file_location("dev", ROOT / "dev.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    monkeypatch.setattr(module, "cache_folder", lambda: tmp_path)
    monkeypatch.setattr(module, "environment", lambda name: tmp_path / name)
    return module


def test_dev_brings_one_once_and_keeps_it(alone: Path, dev: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    brought = put(alone.parent / "brought", "{} 1.95.0")
    asked: list[list[str]] = []

    def command(words: list[str], **options: Any) -> int:
        asked.append(words[1:])
        Path(words[-1]).write_text(json.dumps({"env": {"PATH": str(brought), "CARGO_HOME": "cargo"}}))
        return 0

    monkeypatch.setattr(dev, "command", command)
    dev.use_rust()
    assert os.environ["CARGO_HOME"] == "cargo"
    assert asked == [["-m", "puccinialin", "--info-json", str(alone.parent / "rust.json")]]
    os.environ["PATH"] = str(alone)  # another process
    dev.use_rust()
    assert os.environ["PATH"] == str(brought)
    assert len(asked) == 1


def test_dev_says_what_helps(alone: Path, dev: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dev, "command", lambda words, **options: 1)
    with pytest.raises(SystemExit, match="Rust could not be installed") as stopped:
        dev.use_rust()
    assert str(stopped.value).endswith(toolchain.NO_RUST)

    def environment(name: str) -> Path:
        raise dev.NotMade("no such package")

    monkeypatch.setattr(dev, "environment", environment)
    with pytest.raises(SystemExit, match="no such package") as stopped:
        dev.use_rust()
    assert str(stopped.value).endswith(toolchain.NO_RUST)


def test_dev_uses_what_is_there(alone: Path, dev: Any) -> None:
    put(alone, "{} 1.75.0")
    dev.use_rust()
    assert os.environ["PATH"] == str(alone)
