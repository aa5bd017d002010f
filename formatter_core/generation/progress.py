"""Show a progress bar on standard error of a terminal: nothing in pipes, and nothing for less than a second."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable, Iterator
from typing import TypeVar

__all__ = ["progress"]

_Item = TypeVar("_Item")

_DELAY = 1.0
_EVERY = 0.1
_WIDTH = 30


def progress(items: Iterable[_Item], total: int, what: str) -> Iterator[_Item]:
    """Yield the items, and show a bar that says how many of `total` are done."""
    stream = sys.stderr
    begun = shown = time.monotonic()
    is_drawn = False
    try:
        for done, item in enumerate(items):
            now = time.monotonic()
            if now - begun > _DELAY and now - shown > _EVERY and stream.isatty():
                filled = _WIDTH * min(done, total) // max(1, total)
                stream.write(f"\r{what} [{'#' * filled}{' ' * (_WIDTH - filled)}] {done}/{total}")
                stream.flush()
                shown, is_drawn = now, True
            yield item
    finally:
        if is_drawn:
            stream.write("\r\x1b[K")
