"""The byte-bounded cache, alone and under threads."""

from __future__ import annotations

import threading

import pytest

from formatter_core.limits.cache import ByteBoundedCache


@pytest.mark.contract("compiled formats are kept within cache_bytes")
def test_it_keeps_the_most_recent_within_its_bytes() -> None:
    cache: ByteBoundedCache[str] = ByteBoundedCache(10, len)
    made = []

    def value(text: str) -> str:
        return cache.get(text, lambda: made.append(text) or text)

    for text in ("aaaa", "bbbb", "aaaa", "cccc", "bbbb"):
        assert value(text) == text
    assert made == ["aaaa", "bbbb", "cccc", "bbbb"]
    assert cache.bytes <= 10
    assert value("x" * 11) == "x" * 11
    assert cache.bytes <= 10
    cache.clear()
    assert (len(cache), cache.bytes) == (0, 0)


def test_a_failed_making_is_not_kept() -> None:
    cache: ByteBoundedCache[str] = ByteBoundedCache(10, len)
    with pytest.raises(ZeroDivisionError):
        cache.get("k", lambda: str(1 // 0))
    assert cache.get("k", lambda: "v") == "v"


def test_threads_share_one_making() -> None:
    cache: ByteBoundedCache[str] = ByteBoundedCache(1000, len)
    made, found = [], []
    gate = threading.Event()

    def make() -> str:
        made.append(1)
        gate.wait(10)
        return "v"

    workers = [threading.Thread(target=lambda: found.append(cache.get("k", make))) for _ in range(6)]
    for worker in workers:
        worker.start()
    gate.set()
    for worker in workers:
        worker.join()
    assert (len(made), found) == (1, ["v"] * 6)
