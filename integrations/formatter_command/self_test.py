"""`self-test`: what is installed, and whether the grammar engine answers as the oracle does."""

from __future__ import annotations

import logging
import platform
import sys
from argparse import Namespace
from importlib import metadata

import formatter_core
from formatter_core.engine import choose_engine
from formatter_core.generation.progress import progress
from formatter_core.testing.compare import compare
from formatter_core.testing.oracle import OracleEngine

__all__ = ["self_test"]

#: The libraries that an adapter is for, and those that a tokenizer may come from.
_LIBRARIES = (
    "numpy", "kbnf", "torch", "transformers", "vllm", "exllamav2", "exllamav3", "llama_cpp_python", "openai",
    "tokenizers", "tiktoken", "sentencepiece", "pydantic",
)  # fmt: skip

_WHAT_FOLLOWS = (
    "Compared on random grammars with a slow, simple implementation (the oracle). The percentages are the shares of "
    "these grammars that are recursive, ambiguous and so on: no results. The result is the number of differences, "
    "which must be 0.\n"
)


def self_test(options: Namespace) -> int:
    """Print versions, and compare the engine with the oracle on random grammars; 0 if all answers are equal, else 1."""
    before = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        return _compare_with_oracle(options)
    finally:
        logging.disable(before)


def _compare_with_oracle(options: Namespace) -> int:
    engine = choose_engine(options.engine)
    lines = [
        f"formatter-core {formatter_core.__version__}, Python {platform.python_version()}, {platform.platform()}",
        f"grammar engine: {engine.name}",
        "installed: " + (", ".join(_versions()) or "nothing else"),
    ]
    sys.stdout.write("\n".join(lines) + "\n")
    sys.stdout.write(_WHAT_FOLLOWS)
    report = compare(OracleEngine(), engine, progress(range(options.grammars), options.grammars, "comparing"))
    sys.stdout.write(f"{engine.name} and the oracle: {report.summary()}\n")
    for difference in report.differences:
        sys.stdout.write(f"{difference}\n")
    return int(bool(report.differences))


def _versions() -> list[str]:
    found = []
    for name in _LIBRARIES:
        try:
            found.append(f"{name} {metadata.version(name)}")
        except metadata.PackageNotFoundError:
            continue
    return found
