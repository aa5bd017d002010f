"""What tests of adapters ask for: no error that they meet says anything twice."""

from __future__ import annotations

import gc
import re
from collections.abc import Iterator

import pytest

from formatter_core.errors import FormatterError
from tests.printed_errors import printed, said_twice


@pytest.fixture(scope="module")
def no_error_says_anything_twice() -> Iterator[None]:
    """Neither its message nor those of its causes, which a traceback shows as well.

    An error is read when it is given up: kept until then, it would keep alive what its traceback holds. Bytes that it
    quotes are the text's own, and what an error replaced is none of its causes.
    """
    found: dict[str, set[str]] = {}

    def read(error: FormatterError) -> None:
        shown = re.sub("b'[^']*'", "b''", "\n".join(printed(error, replaced=False)))
        if twice := said_twice(shown):
            found[shown] = twice

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(FormatterError, "__del__", read, raising=False)
        yield
        gc.collect()
    assert found == {}
