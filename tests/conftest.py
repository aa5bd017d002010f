"""Tests need the native library, and none reaches for a model hub. Many check that no error says anything twice."""

import gc
import os
import re
from collections.abc import Iterator

import pytest
from hypothesis import settings

from formatter_core.engine.native_library import load
from formatter_core.errors import EngineUnavailable, FormatterError, InvalidValue
from tests.printed_errors import printed, said_twice

os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")

settings.register_profile("tests", deadline=None)  # no test asserts a duration
settings.load_profile("tests")


def pytest_sessionstart() -> None:
    """Nothing is tested without the native library."""
    try:
        load()
    except EngineUnavailable as error:
        pytest.exit(f"{error}; `python3.11 dev.py test` builds it", returncode=3)


@pytest.fixture(scope="module", autouse=True)
def _what_was_there_before_is_no_garbage() -> None:
    """Exclude the objects of earlier modules (torch, above all) from further collections of garbage."""
    gc.collect()
    gc.freeze()


@pytest.fixture(scope="module")
def no_error_says_anything_twice() -> Iterator[None]:
    """Neither its message nor those of its causes, which a traceback shows as well.

    An error is read when it is given up: kept until then, it would keep alive what its traceback holds. Bytes that it
    quotes are the text's own, and what an error replaced is none of its causes. An `InvalidValue` keeps the error that
    the type raised, whose traceback leads to code of the user's.
    """
    found: dict[str, set[str]] = {}

    def read(error: FormatterError) -> None:
        shown = "\n".join([str(error)] if isinstance(error, InvalidValue) else printed(error, replaced=False))
        shown = re.sub("b'[^']*'", "b''", shown)
        if twice := said_twice(shown):
            found[shown] = twice

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(FormatterError, "__del__", read, raising=False)
        yield
        gc.collect()
    assert found == {}
