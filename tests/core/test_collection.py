"""Compiling pauses Python's cyclic collector, and leaves it as it was."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest

from formatter_core import Compiler, Vocabulary
from formatter_core.errors import UnsatisfiableSchema
from formatter_core.limits.collection import paused_collection

VOCABULARY = Vocabulary.of_bytes()


@pytest.fixture(params=[True, False], ids=["on", "off"])
def collecting(request: pytest.FixtureRequest) -> Iterator[bool]:
    was = gc.isenabled()
    (gc.enable if request.param else gc.disable)()
    yield request.param
    (gc.enable if was else gc.disable)()


def test_it_is_off_inside_and_as_before_outside(collecting: bool) -> None:
    with paused_collection():
        assert not gc.isenabled()
        with paused_collection():  # as another thread would
            assert not gc.isenabled()
        assert not gc.isenabled()
    assert gc.isenabled() is collecting


def test_compiling_leaves_it_as_it_was(collecting: bool) -> None:
    compiler = Compiler(VOCABULARY)
    compiler.compile({"type": "integer"})
    assert gc.isenabled() is collecting
    with pytest.raises(UnsatisfiableSchema):
        compiler.compile({"type": "integer", "minimum": 3, "maximum": 2})
    assert gc.isenabled() is collecting
