"""Builds the wheel, with the native library inside; `pyproject.toml` has the rest, and names the build backend."""

from __future__ import annotations

import re
from pathlib import Path

from setuptools import setup
from setuptools.command.bdist_wheel import bdist_wheel
from setuptools.errors import BaseError, CompileError
from setuptools_rust import Binding, RustExtension
from setuptools_rust.build import build_rust

from building.toolchain import NO_RUST


class PlatformWheel(bdist_wheel):
    """A wheel for any Python of its platform, because ctypes loads the library."""

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
            raise CompileError(f"{error}\n\n{NO_RUST}") from error


NATIVE = RustExtension(
    "formatter_core.engine._native",
    path="formatter_core/engine/native/Cargo.toml",
    binding=Binding.NoBinding,
    debug=False,
    # As fast as with LLVM's own threshold, within a hundredth, and a twelfth smaller; as fast without loops that are
    # unrolled at run time, and another 24 kB smaller.
    rustc_flags=["-C", "llvm-args=-inline-threshold=70 -unroll-runtime=false"],
)


def long_description() -> str:
    """The readme for a package index, where links to files of the checkout lead nowhere: their texts alone."""
    text = Path(__file__).with_name("README.md").read_text(encoding="utf-8")
    return re.sub(r"\[([^\]]+)\]\((?!https?://|#)[^)]+\)", r"\1", text)


setup(
    rust_extensions=[NATIVE],
    cmdclass={"bdist_wheel": PlatformWheel, "build_rust": NativeLibrary},
    long_description=long_description(),
    long_description_content_type="text/markdown",
)
