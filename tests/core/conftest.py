"""Fixtures of the core's tests: a vocabulary, and every grammar engine."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from formatter_core import Vocabulary

END = 300

#: Single bytes, then pieces that span characters and parts of a format, partial UTF-8, a duplicate, b"" and holes.
TOKENS: list[bytes | None] = [
    *(bytes([byte]) for byte in range(256)),
    b"ab", b"abc", b"bc", b'":', b'{"', b'"}', b", ", b": ", b"true", b"12", b"\xc3", b"\xa9!", "é".encode(),
    "日本".encode(), "😀".encode(), b"\xf0\x9f", b"\x98\x80", b"ab", b"", None, b"\n\n", b"  ", b"</", b"think>", b"aa",
]  # fmt: skip
TOKENS += [None] * (END + 2 - len(TOKENS))


@pytest.fixture(scope="session")
def vocabulary() -> Vocabulary:
    return Vocabulary(TOKENS, [END])


def _engine(name: str):
    if name == "oracle":
        from formatter_core.testing.oracle import OracleEngine

        return OracleEngine()
    if name == "kbnf":
        from formatter_core.engine.kbnf.engine import KbnfEngine

        if not KbnfEngine.available():
            pytest.skip("the kbnf package is not installed")
        return KbnfEngine()
    from formatter_core.engine.native import NativeEngine

    return NativeEngine()


@pytest.fixture(scope="session", params=["oracle", "kbnf", "native"])
def engine(request: pytest.FixtureRequest):
    """Each grammar engine in turn."""
    return _engine(request.param)


@pytest.fixture(scope="session")
def compiler(engine, vocabulary: Vocabulary):
    """A compiler on each grammar engine in turn."""
    from formatter_core.runtime.compiler import Compiler

    return Compiler(vocabulary, engine=engine)


@pytest.fixture(scope="session")
def shared() -> Path:
    """The folder of public data sets beside the checkout."""
    folder = Path(os.environ.get("FORMATTER_SHARED") or Path(__file__).resolve().parents[3] / "shared")
    if not folder.is_dir():
        pytest.skip("the folder of shared data sets is absent; set FORMATTER_SHARED")
    return folder
