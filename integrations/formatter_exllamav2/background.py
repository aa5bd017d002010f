"""Masks that are made by the generator's threads, while the model runs."""

from __future__ import annotations

from concurrent.futures import Executor
from typing import Any

from formatter_exllamav2 import _compat

__all__ = ["BackgroundFilter"]


class BackgroundFilter(_compat.Filter):  # type: ignore[misc]  # exllamav2 is not there when types are checked
    """A filter that a thread may compute in advance, as a list or as a mask, whichever is read later.

    Upstream keeps a future for each answer, and reads what the thread returned. Here the thread only does the work, and
    its result is stored in the filter: together with filters of other kinds, upstream queues a list and then reads a
    mask. No future is kept, so none has to be waited for and cleared away while the sampler waits. Work that no thread
    has begun is done by the caller that needs it; a later thread finds it done.
    """

    is_written: bool
    """True if the next mask was made."""
    _background: bool
    _may_mask: bool

    def use_background_worker(self) -> bool:
        """Tell whether the generator's threads make masks."""
        return self._background

    def masks_in_next(self) -> bool:
        """Tell whether `next` masks the logits itself, because the sampler supports only lists."""
        return self._may_mask and not _compat.MASKS_LOGITS

    def answer(self) -> tuple[Any, Any]:
        """Return the result of `next` without looking at other filters, whose threads may be at work."""
        raise NotImplementedError

    def background_next(self, pool: Executor) -> None:
        """Make what `next` returns in a thread of the pool."""
        pool.submit(self.prepare_logit_mask if self.masks_in_next() else self.answer)

    def background_prepare_logit_mask(self, pool: Executor) -> None:
        """Call `prepare_logit_mask` in a thread of the pool."""
        pool.submit(self.prepare_logit_mask)

    def background_drop(self) -> None:
        """Do nothing: a thread's result is always for the latest token."""

    def get_next(self, mask: bool = False) -> Any:
        """Return the result of `prepare_logit_mask` or of `next`."""
        if not mask:
            return self.next()
        return self.is_written or self.prepare_logit_mask()
