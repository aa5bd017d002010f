"""Special builds of the native library, and copies of the package that use them."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

from building.processes import ROOT

__all__ = ["build_variant", "copy_package"]

_CRATE = ROOT / "formatter_core" / "engine" / "native"
#: A release without what makes it small and slow to build.
_PROFILE = ("lto=false", "strip=false", "codegen-units=16")


def build_variant(cache: Path, flags: Sequence[str] = (), features: Sequence[str] = (), toolchain: str = "") -> Path:
    """Build the library once more, with flags of the compiler and features of the crate, in a folder of `cache`.

    Returns:
        the library's file.
    """
    joined = " ".join(flags)
    name = hashlib.sha256(f"{joined} {' '.join(features)}".encode()).hexdigest()[:8]
    target = cache / f"variant-{name}"
    settings = [word for setting in _PROFILE for word in ("--config", f"profile.release.{setting}")]
    words = [
        "cargo",
        *([f"+{toolchain}"] if toolchain else []),
        "build",
        "--release",
        "--offline",
        "--target-dir",
        str(target),
        *settings,
    ]
    if features:
        words += ["--features", ",".join(features)]
    env = {**os.environ, "RUSTFLAGS": joined} if flags else None
    subprocess.run(words, cwd=_CRATE, env=env, check=True)
    return target / "release" / "libformatter_core_native.so"


def copy_package(library: Path, folder: Path) -> None:
    """Copy the package into a folder, with this library in the place where it looks first."""
    shutil.copytree(ROOT / "formatter_core", folder / "formatter_core", ignore=shutil.ignore_patterns("target", "*.so"))
    shutil.copy(library, folder / "formatter_core" / "engine" / "_native.so")
