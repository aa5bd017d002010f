"""Many sequences at once: prompts are computed once, and all live sequences advance in one decode."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from types import TracebackType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from formatter_core import Cursor, Vocabulary
from formatter_core.errors import FormatterError, InvalidArgument
from formatter_core.generation import Generated, Sampling, Stopped, checked_counts, chosen_token, top_tokens
from formatter_core.generation.stopping import TextStream, cut_back, stop_bytes
from formatter_core.limits import DEFAULT_LIMITS
from formatter_core.runtime.result import Event
from formatter_llama_cpp.context import DecodeFailed, Entry, SharedContext, common_prefix
from formatter_llama_cpp.masks import Mask
from formatter_llama_cpp.requests import PromptTooLong, Request, Sample, Update
from formatter_llama_cpp.vocabulary import compiler_for

__all__ = ["Scheduler", "SchedulerInterrupted"]

logger = logging.getLogger(__name__)

GREEDY = Sampling()
#: A sample waits for the prompt of another request that is being computed if they share so many tokens; a common first
#: token is no reason to compute prompts one after the other.
_WORTH_WAITING = 16


class SchedulerInterrupted(FormatterError):
    """A step was left in the middle, for example by Ctrl-C: what its sequences hold need not be in the context."""

    def __init__(self) -> None:
        super().__init__(
            "the scheduler was interrupted in the middle of a step, so its sequences cannot go on; close it, and "
            "submit the prompts to a new one"
        )


class Scheduler:
    """Runs requests through a fixed number of places, each with a format of its own or none.

    A prompt is computed once for all its samples, and what it shares with another one that is still in the context is
    taken from there. All live sequences advance in one decode a step, and prompts are computed alongside. A place
    that gets free is taken by the next sample that waits, in the order of submission. One thread's at a time.

    Args:
        llama: a `llama_cpp.Llama`; its own context is neither used nor changed.
        max_sequences: at most this many sequences run at a time.
        context_size: how many tokens the context holds, all sequences together and shared ones once; by default as
            many as that of `llama`.
        batch: how many tokens one decode takes; by default as many as `llama` takes.
    """

    def __init__(
        self, llama: Any, *, max_sequences: int = 16, context_size: int | None = None, batch: int | None = None
    ) -> None:
        self._llama = llama
        self._compiler = compiler_for(llama)
        self.context = SharedContext(llama, max_sequences=max_sequences, context_size=context_size, batch=batch)
        self._free = deque(range(max_sequences))  # the longest unused first
        self._waiting: deque[Sample] = deque()
        self._running: list[Sample] = []
        self._updates: list[Update] = []
        self._is_interrupted = False
        self.decoded = 0
        """Tokens computed so far, prompts included."""

    @property
    def vocabulary(self) -> Vocabulary:
        """The vocabulary of the model."""
        return self._compiler.vocabulary

    @property
    def is_idle(self) -> bool:
        """Whether nothing runs, waits or is still to be told."""
        return not (self._waiting or self._running or self._updates)

    def submit(
        self,
        prompt: str | bytes | Sequence[int],
        *,
        samples: int = 1,
        format: Any = None,
        max_tokens: int = 128,
        sampling: Sampling = GREEDY,
        stop_strings: str | Iterable[str] = (),
        seed: int | None = None,
        top_logprobs: int | None = None,
        events: bool = False,
    ) -> Request:
        """Queue a prompt.

        Args:
            prompt: text, tokenized as `Llama.create_completion` does, or token ids.
            samples: how many sequences to generate from it.
            format: whatever `Compiler.compile` takes; None leaves the text free.
            max_tokens: tokens of each output at most, the end id included; fewer where the context is too small.
            sampling: how tokens are chosen; greedy by default. Each sample has draws of its own.
            stop_strings: the text ends before the first of these, as that of `Llama.create_completion` does; with a
                format it is then not complete, unless it can be nothing else. `tokens` keeps all tokens.
            seed: makes draws repeatable, in place of that of `sampling`.
            top_logprobs: None keeps no log-probabilities; 0 keeps those of the tokens that were taken, and `n` those of
                the `n` best at each place as well.
            events: whether updates tell what is new of the captures.

        Raises:
            PromptTooLong: there is no room for a token of output.
            InvalidFormat: an invalid format.
            InvalidArgument: an empty prompt or stop string, an id that the model lacks, a number out of range.
            LimitExceeded: `top_logprobs` is more than `Limits.max_top_n`.
            FormatterError: whatever else `Compiler.compile` raises.
        """
        ids = self._tokenized(prompt)
        if samples < 1 or max_tokens < 1:
            raise InvalidArgument(f"samples is {samples} and max_tokens {max_tokens}; both are at least 1")
        stops = stop_bytes(stop_strings)
        sampling = sampling if seed is None else replace(sampling, seed=seed)
        checked_counts(top_logprobs or 0, 1, DEFAULT_LIMITS)  # refused now, not in the middle of an output
        if len(ids) >= self.context.context_size:
            raise PromptTooLong(len(ids), self.context.context_size)
        compiled = None if format is None else self._compiler.compile(format)
        room = self.context.context_size - len(ids)
        request = Request(ids, compiled, min(max_tokens, room), top_logprobs, events)
        for index in range(samples):
            cursor = None if compiled is None else Cursor(compiled.formatter())
            mask = None if cursor is None else Mask(self.vocabulary)
            request.samples.append(Sample(request, index, sampling.sampler(index), cursor, mask, TextStream(stops)))
        self._waiting.extend(request.samples)
        return request

    def cancel(self, what: Request | Sample) -> None:
        """Finish a request or one of its sequences now; what it has so far is its output, the others go on."""
        for sample in what.samples if isinstance(what, Request) else [what]:
            if sample.output is None:
                self._finish(sample, "cancelled")

    def step(self) -> list[Update]:
        """Give free places to waiting samples, decode once, and take a token for each sequence that has its turn.

        Raises:
            SchedulerInterrupted: an earlier step was interrupted.
        """
        if self._is_interrupted:
            raise SchedulerInterrupted
        # Until the step is done its sequences, their tokens and the context need not agree.
        self._is_interrupted = True
        self._admit()
        parts = self._parts()
        if parts:
            self._decode(parts)
        updates, self._updates = self._updates, []
        self._is_interrupted = False
        return updates

    def run(self) -> Iterator[Update]:
        """The updates of all steps until nothing is left; more may be submitted or cancelled meanwhile."""
        while not self.is_idle:
            yield from self.step()

    def close(self) -> None:
        """Cancel what is left and free the context."""
        for sample in [*self._running, *self._waiting]:
            self.cancel(sample)
        self.context.close()

    def __enter__(self) -> Scheduler:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    # --- places ------------------------------------------------------------------------------------------------

    def _admit(self) -> None:
        while self._waiting and self._free and self._take_place(self._waiting[0]):
            sample = self._waiting.popleft()
            self._running.append(sample)
            if not sample.pending and sample.request.prompt_logits is not None:
                self._take_token(sample, sample.request.prompt_logits.copy())
            self._drop_logits(sample.request)

    def _take_place(self, sample: Sample) -> bool:
        """Give a place to a sample, with what the context has of its prompt; False while it has to wait."""
        context, request, prompt = self.context, sample.request, list(sample.request.prompt)
        shared = [common_prefix(tokens, prompt) for tokens in context.tokens]
        # Of equally good ones a free place, which need not be copied.
        source = max(range(len(shared)), key=lambda place: (shared[place], place in self._free))
        length = shared[source]
        if any(self._will_share(other, request, length) for other in self._running):
            return False
        if length == len(prompt) and request.prompt_logits is None:
            length -= 1  # the last token is computed again, for its logits
        target = source if source in self._free else self._free[0]
        context.truncate(target, length if target == source else 0)
        if not self._make_room(len(prompt) - length + request.max_tokens, keep=target):
            return False
        context.share(source, target, length)
        self._free.remove(target)
        sample.place, sample.pending = target, prompt[length:]
        return True

    def _will_share(self, other: Sample, request: Request, length: int) -> bool:
        """Whether another sample computes more than the first `length` tokens of a prompt, so that waiting pays."""
        if other.place is None or other.tokens:
            return False
        shared = common_prefix([*self.context.tokens[other.place], *other.pending], request.prompt)
        return shared > length and (other.request is request or shared >= _WORTH_WAITING)

    def _make_room(self, needed: int, keep: int) -> bool:
        """Whether so many cells are there beside those that running samples may need; old texts make way."""
        needed += sum(sample.unwritten for sample in self._running)
        for place in [place for place in self._free if place != keep]:
            if self.context.used + needed <= self.context.context_size:
                break
            self.context.truncate(place, 0)
        return self.context.used + needed <= self.context.context_size

    def _finish(self, sample: Sample, stopped: Stopped, error: Exception | None = None) -> None:
        if sample in self._running:
            self._running.remove(sample)
            self._free.append(sample.place or 0)
        elif sample in self._waiting:
            self._waiting.remove(sample)
        text = sample.text.finish()
        events: tuple[Event, ...] = ()
        cursor = sample.cursor
        if error is None:
            try:
                if cursor is not None and cursor.error is not None:  # the last token may be accepted only now
                    raise cursor.error
                events = self._events(sample)
            except Exception as fault:  # noqa: BLE001 - whatever it is, it ends this sequence, and this one alone
                stopped, error = "error", fault
        sample.output = Generated(
            tuple(sample.tokens),
            sample.text.bytes,
            stopped,
            error,
            tuple(sample.chosen),
            None if cursor is None else cursor.formatter,
            sample.request.prompt,
        )
        self._drop_logits(sample.request)
        if error is not None:
            logger.warning("a sequence is ended after %d tokens: %s", len(sample.tokens), error)
        self._updates.append(Update(sample, None, text, events, sample.output))

    def _drop_logits(self, request: Request) -> None:
        if not any(sample in self._waiting for sample in request.samples):
            request.prompt_logits = None

    # --- tokens ------------------------------------------------------------------------------------------------

    def _parts(self) -> list[tuple[Sample, list[int]]]:
        """What each sample contributes to the next decode: its last token, or as much of its prompt as has room."""
        room, parts = self.context.batch, []
        # Texts that are being written go on, whatever prompts wait.
        for sample in sorted(self._running, key=lambda sample: not sample.tokens):
            part = sample.pending[:room]
            room -= len(part)
            if part:
                parts.append((sample, part))
        return parts

    def _decode(self, parts: list[tuple[Sample, list[int]]]) -> None:
        entries: list[Entry] = []
        last: list[int] = []
        for sample, part in parts:
            ends = len(entries) + len(part) - 1 if len(part) == len(sample.pending) else -1
            last.append(ends)
            for token in part:
                entries.append(Entry(token, (sample.place or 0,), len(entries) == ends))
        try:
            self.context.decode(entries)
        except DecodeFailed as error:
            if len(parts) == 1:
                self._finish(parts[0][0], "error", error)
                return
            # Whose fault it is shows alone; texts that nobody writes on make room.
            for place in self._free:
                self.context.truncate(place, 0)
            for part_alone in parts:
                self._decode([part_alone])
            return
        self.decoded += len(entries)
        for (sample, part), place in zip(parts, last, strict=True):
            del sample.pending[: len(part)]
            if place >= 0:
                self._take_token(sample, self.context.logits(place))

    def _take_token(self, sample: Sample, logits: NDArray[np.single]) -> None:
        """Choose the next token; the logits are masked in place."""
        request, cursor, mask = sample.request, sample.cursor, sample.mask
        if not sample.tokens and any(other in self._waiting for other in request.samples):
            request.prompt_logits = logits.copy()
        try:
            unmasked = None if request.top is None else logits.copy()
            if cursor is not None and mask is not None:
                mask.apply(cursor, logits)
                if cursor.error is not None:
                    raise cursor.error
            elif not logits.max() > -np.inf:
                raise FormatterError(
                    "the model's logits are not numbers, so no token can be chosen; check the model file"
                )
            token = sample.sampler(logits)
            if not 0 <= token < self.context.width:  # llama.cpp would read past its tables
                raise InvalidArgument(f"the sampler took {token}, but the model has the tokens 0 to {len(logits) - 1}")
            if unmasked is not None:
                both = np.stack([logits, unmasked])
                sample.chosen.append(chosen_token(*top_tokens(both, request.top or 0, chosen=[token] * 2, rank=False)))
            if cursor is not None and mask is not None:
                cursor.append(token)  # accepted with the next mask, unless a sampler took what is masked
                if not mask.has(token) and cursor.error is not None:
                    raise cursor.error
            text = sample.text.add(self.vocabulary.text_token(token) or b"")
            if cursor is not None and sample.text.is_stopped:
                cut_back(cursor.formatter, sample.text.bytes)
            events = () if sample.text.holds_back else self._events(sample)
        except Exception as error:  # noqa: BLE001 - whatever it is, it ends this sequence, and this one alone
            self._finish(sample, "error", error)
            return
        sample.tokens.append(token)
        sample.pending = [token]
        self._updates.append(Update(sample, token, text, events))
        if sample.text.is_stopped:
            self._finish(sample, "stop_string")
        elif token in self.vocabulary.end_ids:
            self._finish(sample, "end")
        elif len(sample.tokens) >= request.max_tokens:
            self._finish(sample, "length")

    @staticmethod
    def _events(sample: Sample) -> tuple[Event, ...]:
        if sample.cursor is None or not sample.request.tells_events:
            return ()
        return tuple(sample.cursor.formatter.events())

    def _tokenized(self, prompt: str | bytes | Sequence[int]) -> tuple[int, ...]:
        if isinstance(prompt, (str, bytes)):
            data = prompt.encode() if isinstance(prompt, str) else prompt
            prompt = self._llama.tokenize(data, add_bos=True, special=True)
        ids = tuple(int(token) for token in prompt)
        if not ids:
            raise InvalidArgument("the prompt has no tokens; begin with the model's first token (token_bos) at least")
        for token in ids:
            if not 0 <= token < self.context.width:
                raise InvalidArgument(
                    f"the prompt holds {token}, but the model has the tokens 0 to {self.context.width - 1}"
                )
        return ids
