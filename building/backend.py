"""The build backend: setuptools', with a Rust toolchain brought where the machine has none, or one that is too old."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from setuptools import build_meta
from setuptools.build_meta import (
    build_sdist,
    get_requires_for_build_sdist,
    prepare_metadata_for_build_editable,
    prepare_metadata_for_build_wheel,
)

from building.toolchain import BRINGS_RUST, NO_RUST, is_there

__all__ = [
    "build_editable",
    "build_sdist",
    "build_wheel",
    "get_requires_for_build_editable",
    "get_requires_for_build_sdist",
    "get_requires_for_build_wheel",
    "prepare_metadata_for_build_editable",
    "prepare_metadata_for_build_wheel",
]

_Settings: TypeAlias = Mapping[str, Any] | None


def get_requires_for_build_wheel(config_settings: _Settings = None) -> list[str]:
    """Return what the build needs: of a toolchain only what brings it, and only where it is needed."""
    return _with_rust(build_meta.get_requires_for_build_wheel(config_settings))


def get_requires_for_build_editable(config_settings: _Settings = None) -> list[str]:
    """Return the same for an editable installation."""
    return _with_rust(build_meta.get_requires_for_build_editable(config_settings))


def build_wheel(wheel_directory: str, config_settings: _Settings = None, metadata_directory: str | None = None) -> str:
    """Build the wheel, with the native library inside."""
    bring_rust()
    return str(build_meta.build_wheel(wheel_directory, config_settings, metadata_directory))


def build_editable(
    wheel_directory: str, config_settings: _Settings = None, metadata_directory: str | None = None
) -> str:
    """Build the wheel of an editable installation, and the native library in its place."""
    bring_rust()
    return str(build_meta.build_editable(wheel_directory, config_settings, metadata_directory))


def bring_rust() -> None:
    """Set PATH, CARGO_HOME and RUSTUP_HOME to a toolchain that is installed now, where there is none to use.

    Raises:
        SystemExit: it cannot be installed; the message says what helps.
    """
    if is_there():
        return
    try:
        os.environ.update(_setup_rust()())
    except Exception as error:  # noqa: BLE001 - the remedy is the same for any download error
        sys.exit(f"{type(error).__name__} while Rust was being installed: {error}\n\n{NO_RUST}")
    if not is_there():
        sys.exit(f"The toolchain that was installed does not run.\n\n{NO_RUST}")


def _setup_rust() -> Callable[[], dict[str, str]]:
    from puccinialin import setup_rust

    found: Callable[[], dict[str, str]] = setup_rust
    return found


def _with_rust(requirements: list[str]) -> list[str]:
    return requirements if is_there() else [*requirements, BRINGS_RUST]
