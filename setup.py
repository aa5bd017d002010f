"""Builds the wheel: the native grammar engine inside if cargo is on PATH, pure Python otherwise.

The environment variable FORMATTER_NATIVE decides: "require" fails without cargo, "forbid" never builds the library, and
"auto" (the default) builds it if cargo is on PATH. A crate that does not build always fails the build.
"""

from __future__ import annotations

import os
import re
import shutil
import sys
from pathlib import Path

from setuptools import setup
from setuptools.command.bdist_wheel import bdist_wheel
from setuptools.errors import BaseError, CompileError
from setuptools_rust import Binding, RustExtension
from setuptools_rust.build import build_rust

REMEDIES = (
    "cargo is on PATH, but it could not build the native grammar engine of formatter-core. Install Rust 1.75 or newer "
    "and try again; or set FORMATTER_NATIVE=forbid and install formatter-core[kbnf], which has a slower engine."
)


class PlatformWheel(bdist_wheel):
    """A wheel with the library is for any Python of its platform, because ctypes loads the library."""

    def get_tag(self) -> tuple[str, str, str]:
        """The tag of the wheel's file name."""
        platform = super().get_tag()[2]
        return "py3", "none", platform


class NativeLibrary(build_rust):
    """Says what to do if the crate does not build."""

    def run(self) -> None:
        """Build the crate."""
        try:
            super().run()
        except (BaseError, CompileError) as error:
            raise CompileError(f"{error}\n{REMEDIES}") from error


def native_extensions() -> list[RustExtension]:
    """The crate, or nothing where it is not to be built."""
    mode = os.environ.get("FORMATTER_NATIVE", "auto")
    if mode not in ("auto", "require", "forbid"):
        sys.exit(f"FORMATTER_NATIVE is {mode!r}; set it to auto, require or forbid")
    if mode == "forbid":
        return []
    if shutil.which("cargo") is None:
        if mode == "require":
            sys.exit("FORMATTER_NATIVE is 'require', but cargo is not on PATH; install Rust (1.75 or newer)")
        sys.stderr.write(
            "cargo is not on PATH: formatter-core is built without its native grammar engine. Install Rust and build "
            "again, or use the slower engine of formatter-core[kbnf].\n"
        )
        return []
    return [
        RustExtension(
            "formatter_core.engine._native",
            path="formatter_core/engine/native/Cargo.toml",
            binding=Binding.NoBinding,
            debug=False,
            # As fast as with LLVM's own threshold, within a hundredth, and a twelfth smaller; as fast without loops
            # that are unrolled at run time, and another 24 kB smaller.
            rustc_flags=["-C", "llvm-args=-inline-threshold=70 -unroll-runtime=false"],
        )
    ]


def long_description() -> str:
    """The readme for a package index, where links to files of the checkout lead nowhere: their texts alone."""
    text = Path(__file__).with_name("README.md").read_text(encoding="utf-8")
    return re.sub(r"\[([^\]]+)\]\((?!https?://|#)[^)]+\)", r"\1", text)


setup(
    rust_extensions=native_extensions(),
    cmdclass={"bdist_wheel": PlatformWheel, "build_rust": NativeLibrary},
    long_description=long_description(),
    long_description_content_type="text/markdown",
)
