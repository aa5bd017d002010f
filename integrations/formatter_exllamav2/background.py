"""Masks that are made by the generator's threads, while the model runs."""

from __future__ import annotations

from concurrent.futures import Executor, Future
from typing import Any

from formatter_exllamav2 import _compat

__all__ = ["BackgroundFilter"]


class BackgroundFilter(_compat.Filter):  # type: ignore[misc]  # exllamav2 is not there when types are checked
    """A filter that a thread may ask in advance, in either way, whichever it is then read in.

    Upstream reads what the thread returned. Here the thread only does the work, and what it made is found again: beside
    filters of other kinds, upstream queues a list and then reads a mask.
    """

    background_result: Future[Any] | None
    is_written: bool
    """Whether the next mask was made."""
    _background: bool

    def use_background_worker(self) -> bool:
        """Whether the generator's threads make masks."""
        return self._background

    def answer(self) -> tuple[Any, Any]:
        """What `next` returns, as far as other filters do not matter: their threads may be at work."""
        raise NotImplementedError

    def background_next(self, pool: Executor) -> None:
        """Make what `next` returns in a thread of the pool."""
        # Behind drafts, releases before 0.2.7 ask once for each token that was kept, and the first time is enough.
        if self.background_result is None:
            self.background_result = pool.submit(self.answer)

    def background_prepare_logit_mask(self, pool: Executor) -> None:
        """Call `prepare_logit_mask` in a thread of the pool."""
        if self.background_result is None:
            self.background_result = pool.submit(self.prepare_logit_mask)

    def background_drop(self) -> None:
        """Wait for what a thread is making."""
        running = self.background_result
        if running is not None:
            running.exception()
            self.background_result = None

    def get_next(self, mask: bool = False) -> Any:
        """What `prepare_logit_mask` or `next` returns."""
        if self.is_written:  # the locks of a future cost more than the rest
            self.background_result = None
        self.background_drop()
        return self.prepare_logit_mask() if mask else self.next()
