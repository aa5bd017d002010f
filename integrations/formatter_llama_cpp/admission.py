"""Assignment of context slots to samples, and eviction of cells when no slot is free."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence

from formatter_core.runtime.history import shared_length
from formatter_llama_cpp.context import SharedContext
from formatter_llama_cpp.samples import Sample

__all__ = ["Slots"]

#: A sample waits for the prompt of another request that is being computed if they share this many tokens; a common
#: first token is no reason to compute prompts one after the other.
_WORTH_WAITING = 16
#: A sample is admitted if every running one has room for this many more tokens: fewer would soon be taken back.
_HEADROOM = 8
#: The number of waiting samples that are considered at a time, and how often one may be passed over before all wait for
#: it.
_WINDOW, _PATIENCE = 16, 64


class Slots:
    """The sequences of a context: the samples that run in them, and earlier texts that free sequences still contain.

    Samples are admitted as long as there is room for what they have and a few tokens more, not for all that they may
    write. When cells run out, earlier texts are dropped, then the latest samples are suspended: they wait, and their
    tokens are computed again.

    Attributes:
        running: the samples that have a slot, the longest first.
    """

    def __init__(self, context: SharedContext) -> None:
        self.running: list[Sample] = []
        self._context = context
        self._free = deque(range(context.max_sequences))  # the longest unused first

    def admit(self, waiting: deque[Sample]) -> Iterable[Sample]:
        """Give free slots to waiting samples, in their order as far as there is room; those that were admitted."""
        candidates = [waiting[place] for place in range(min(_WINDOW, len(waiting)))]
        for place, sample in enumerate(candidates):
            if not self._free:
                return
            if not self._take_slot(sample):
                if sample.passed_over >= _PATIENCE:
                    return
                continue
            for earlier in candidates[:place]:
                earlier.passed_over += earlier.slot is None
            waiting.remove(sample)
            self.running.append(sample)
            yield sample

    def release(self, sample: Sample) -> None:
        """Free the slot of a sample; its tokens stay there for other samples until the cells are needed."""
        if sample in self.running:
            self.running.remove(sample)
        if sample.slot is not None:
            self._free.append(sample.slot)
            sample.slot = None

    def make_room(self, parts: Sequence[tuple[Sample, list[int]]]) -> Sample | None:
        """Make room for what is to be decoded; the sample that has lost its slot for it, if one has."""
        context = self._context
        needed = sum(len(part) for _, part in parts)
        for slot in self._free:
            if context.used + needed <= context.context_size:
                return None
            context.truncate(slot, 0)
        if context.used + needed <= context.context_size or len(self.running) == 1:
            return None
        return self.preempt()

    def preempt(self) -> Sample:
        """Take the slot and the cells of the sample that was admitted last."""
        sample = self.running[-1]
        slot = sample.slot
        self.release(sample)
        if slot is not None:
            self._context.truncate(slot, 0)
        sample.pending = []
        return sample

    def drop_texts(self) -> None:
        """Drop the texts in all free slots."""
        for slot in self._free:
            self._context.truncate(slot, 0)

    # --- inside ------------------------------------------------------------------------------------------------

    def _take_slot(self, sample: Sample) -> bool:
        """Give a slot to a sample, with what the context has of its tokens; False where it has to wait."""
        context, whole = self._context, [*sample.request.prompt, *sample.tokens]
        shared = [shared_length(tokens, whole) for tokens in context.tokens]
        # Of equally good ones a free slot, which need not be copied.
        source = max(range(len(shared)), key=lambda slot: (shared[slot], slot in self._free))
        length = shared[source]
        if any(self._will_share(other, sample, whole, length) for other in self.running):
            return False
        if length == len(whole) and (sample.tokens or sample.request.prompt_logits is None):
            length -= 1  # the last token is computed again, for its logits
        if not self._fits(source, length, len(whole) - length):
            return False
        target = source if source in self._free else self._free[0]
        context.truncate(target, length if target == source else 0)
        context.share(source, target, length)
        self._free.remove(target)
        sample.slot, sample.pending = target, whole[length:]
        if not sample.tokens:
            sample.cached = min(length, len(sample.before))
        return True

    def _fits(self, source: int, length: int, new: int) -> bool:
        """Tell whether new tokens fit beside all running samples, after the cells of earlier texts are freed."""
        context = self._context
        held = [(sample.slot, len(context.tokens[sample.slot])) for sample in self.running if sample.slot is not None]
        growth = new + sum(len(sample.pending) for sample in self.running)
        if self.running:
            growth += _HEADROOM * (len(self.running) + 1)
        return context.cells_of([*held, (source, length)]) + growth <= context.context_size

    def _will_share(self, other: Sample, sample: Sample, whole: list[int], length: int) -> bool:
        """Tell whether waiting pays: another sample will compute more than the first `length` tokens of this one."""
        if other.slot is None or other.tokens:
            return False
        shared = shared_length([*self._context.tokens[other.slot], *other.pending], whole)
        return shared > length and (other.request is sample.request or shared >= _WORTH_WAITING)
