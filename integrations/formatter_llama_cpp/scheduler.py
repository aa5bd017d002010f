"""Many sequences at once: prompts are computed once, and all live sequences advance in one decode."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import replace
from types import TracebackType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from formatter_core import Cursor, Vocabulary
from formatter_core.errors import FormatterError, InvalidArgument, UnsupportedByEngine
from formatter_core.errors.arguments import elements_of, one_of, sample_count, shown, true_or_false, whole_number
from formatter_core.generation import NO_SCORES, Sampling, checked_counts
from formatter_core.generation.call_settings import asked_scores, check_names, drawing_of, sampling_of
from formatter_core.generation.forced import ForcedText
from formatter_core.generation.stopping import TextStream, stop_bytes
from formatter_core.limits import DEFAULT_LIMITS
from formatter_core.runtime.cursor import NotCopied
from formatter_llama_cpp import _compat
from formatter_llama_cpp.admission import Slots
from formatter_llama_cpp.context import DecodeFailed, Entry, SharedContext
from formatter_llama_cpp.prompts import continuation, prompt_of
from formatter_llama_cpp.requests import PromptTooLong, Request, Update
from formatter_llama_cpp.samples import Sample
from formatter_llama_cpp.vocabulary import compiled_format, compiler_for

__all__ = ["Scheduler", "SchedulerInterrupted"]

GREEDY = Sampling()
_OPTIONS = (
    *("samples", "n", "format", "max_tokens", "fit", "sampling", "temperature", "top_p", "top_k", "min_p"),
    *("stop_strings", "seed", "logprobs", "top_logprobs", "events", "forced_text", "logits_processor"),
)


class SchedulerInterrupted(FormatterError):
    """A step was interrupted, for example by Ctrl-C: its sequences and the context may disagree."""

    def __init__(self) -> None:
        super().__init__(
            "the scheduler was interrupted in the middle of a step, so its sequences cannot go on; close it, and "
            "submit the prompts to a new one"
        )


class Scheduler(NotCopied):
    """A scheduler that runs many requests at a time, each with its own format or none.

    A prompt is computed once for all its samples, and a beginning shared with a prompt that is still in the context is
    taken from there. All live sequences advance in one decode a step, and prompts are computed alongside. When a
    sequence ends, the next waiting sample starts, in the order of submission; if it does not fit, a later one that fits
    starts. When the context is full, the samples that were admitted last wait, and are computed again; their outputs
    stay the same.

    Threads may share it: a call waits until that of another thread is done, at most for one step. Each update is
    returned once, to the thread that makes the step.

    Args:
        llama: a `llama_cpp.Llama`; its own context is neither used nor changed.
        max_sequences: the maximum number of sequences that run at once.
        context_size: how many tokens the context holds, all sequences together and shared ones once; by default as
            many as that of `llama`, and at least 512 for each sequence as far as the model was trained for that.
        batch: how many tokens one decode takes; by default as many as `llama` takes.

    Raises:
        InvalidArgument: the model cannot be used in this way, or a number is out of range.
    """

    def __init__(
        self, llama: Any, *, max_sequences: int = 16, context_size: int | None = None, batch: int | None = None
    ) -> None:
        self._llama = llama
        self._compiler = compiler_for(llama)
        self.context = SharedContext(llama, max_sequences=max_sequences, context_size=context_size, batch=batch)
        self._slots = Slots(self.context)
        self._open: dict[Sample, None] = {}  # all that are not finished
        self._waiting: deque[Sample] = deque()
        self._updates: deque[Update] = deque()
        self._is_interrupted = False
        self.decoded = 0
        """The number of tokens computed so far, prompts included."""

    def __repr__(self) -> str:
        state = ", interrupted" if self._is_interrupted else ""
        return f"<Scheduler: {len(self._slots.running)} run, {len(self._waiting)} wait{state}>"

    @property
    def vocabulary(self) -> Vocabulary:
        """The vocabulary of the model."""
        return self._compiler.vocabulary

    @property
    def is_idle(self) -> bool:
        """Tell whether no sample is running or waiting, and no update is pending."""
        return not (self._open or self._updates)

    def submit(
        self,
        prompt: str | bytes | Sequence[int] | Sequence[Mapping[str, Any]],
        *,
        samples: int | None = None,
        n: int | None = None,
        format: Any = None,
        max_tokens: int | None = None,
        fit: bool | None = None,
        sampling: Sampling | None = None,
        temperature: float | None = None,
        top_p: float | None = None,
        top_k: int | None = None,
        min_p: float | None = None,
        stop_strings: str | Iterable[str] = (),
        seed: int | None = None,
        logprobs: bool | int | None = None,
        top_logprobs: int | None = None,
        events: bool = False,
        forced_text: ForcedText = "exact",
        logits_processor: Callable[..., Any] | Sequence[Callable[..., Any]] = (),
        **others: Any,
    ) -> Request:
        """Queue a prompt.

        Args:
            prompt: text, tokenized as `Llama.create_completion` does, or token ids; or the messages of a chat, written
                as `Llama.create_chat_completion` writes them, with its stop strings.
            samples, n: how many sequences to generate from it, by default one.
            format: anything that `Compiler.compile` takes, or a `LlamaGrammar`; None leaves the text free.
            max_tokens: tokens of each output at most, including the end id, by default 128; fewer where the context is
                too small. A number that is given is a budget: the output is complete within it, if the format has
                outputs that short (docs/budgets.md).
            fit: True raises where no output is that short, False cuts outputs at `max_tokens`, and None, the default,
                cuts those of a format that has none that short.
            sampling: how tokens are chosen; greedy by default. Each sample has its own random draws.
            temperature, top_p, top_k, min_p: of a `Sampling`, in place of `sampling`.
            stop_strings: the text ends before the first of these, as that of `Llama.create_completion` does; with a
                format it is then not complete, unless it can be nothing else. `tokens` keeps all tokens.
            seed: makes draws repeatable, instead of that of `sampling`.
            logprobs: True keeps the log-probability of each token that is taken; a number is `top_logprobs`.
            top_logprobs: None keeps no log-probabilities; 0 keeps those of the tokens that were taken, and `n` those of
                the `n` best at each position as well.
            events: whether updates have the new events of the captures.
            forced_text: `"exact"` computes runs of tokens without a choice in one decode, for the same output;
                `"canonical"` also takes the tokenizer's own tokens where the text is forced; `"off"` runs the model for
                each token. Log-probabilities always need the model for each token.
            logits_processor: one or several, as `Llama.create_completion` takes them: called with the ids so far and
                the logits, before the format masks them. For penalties, biases and the like.
            others: nothing; an error names the option that is meant.

        Raises:
            PromptTooLong: there is no room for a token of output.
            BudgetTooSmall: no output of the format is as short as `max_tokens`, and `fit` is true.
            InvalidFormat: an invalid format.
            InvalidArgument: an empty prompt or stop string, an id that the model lacks, a number out of range; the
                scheduler or its `Llama` is closed.
            ConcurrentUse: it is called from inside a step, for example by a sampler. So say all methods.
            LimitExceeded: `top_logprobs` is more than `Limits.max_top_n`.
            SchedulerInterrupted: an earlier step was interrupted.
            FormatterError: any other error of `Compiler.compile`.
        """
        check_names(others, _OPTIONS, "submit")
        with self._turn():
            self._check_whole()
            ids, chat_stops = prompt_of(self._llama, prompt, self.context.width)
        if samples is not None and n is not None:
            raise InvalidArgument("found both samples and n, which say the same thing; give one of them", argument="n")
        count = sample_count(next((number for number in (samples, n) if number is not None), 1))
        if fit is not None:
            true_or_false(fit, "fit")
        most = 128 if max_tokens is None else whole_number(max_tokens, "max_tokens", 1)
        one_of(forced_text, "forced_text", ("exact", "canonical", "off"))
        stops = (*stop_bytes(stop_strings), *stop_bytes(chat_stops))
        fields = {"temperature": temperature, "top_p": top_p, "top_k": top_k, "min_p": min_p}
        chosen = sampling_of(GREEDY if sampling is None else sampling, drawing_of({**fields, "sampling": sampling}))
        if not isinstance(chosen, Sampling):
            raise InvalidArgument(f"sampling is {shown(sampling)}; give a Sampling", argument="sampling")
        chosen = chosen if seed is None else replace(chosen, seed=seed)
        if logprobs is not None or top_logprobs is not None:
            scores = asked_scores(None, top_logprobs, logprobs, NO_SCORES)
            top_logprobs = scores.top if scores or top_logprobs is not None else None
        if top_logprobs is not None:
            checked_counts(top_logprobs, 1, DEFAULT_LIMITS)
        processors = _processors(logits_processor)
        room = self.context.context_size - len(ids)
        if room < 1:
            raise PromptTooLong(len(ids), self.context.context_size)
        compiled = None if format is None else compiled_format(self._llama, format)
        most = min(most, room)
        request = Request(ids, compiled, most, top_logprobs, events, forced_text, processors)
        start = None
        if compiled is not None:
            is_budget = max_tokens is not None and fit is not False
            start = compiled.formatter_within(most) if is_budget else compiled.formatter()
            if fit and most == max_tokens and start.max_tokens is None:
                with suppress(UnsupportedByEngine):
                    compiled.formatter(max_tokens=most)  # which says what is too small
        for index in range(count):
            cursor = None if start is None else Cursor(start.fork())
            sampler, bits = chosen.sampler(index), np.zeros(self.vocabulary.words, dtype=np.int32)
            request.samples.append(
                Sample(ids, most, cursor, TextStream(stops), request=request, index=index, sampler=sampler, bits=bits)
            )
        with self._turn():
            self._check_whole()  # another thread may have closed it meanwhile
            with self._in_one_piece():
                self._open.update(dict.fromkeys(request.samples))
                self._waiting.extend(request.samples)
        return request

    def cancel(self, what: Request | Sample) -> None:
        """End a request or one of its sequences now, with the output so far; the others continue.

        Finished outputs are not changed. After an interruption its parts may disagree, so its output is an error.

        Raises:
            InvalidArgument: `what` is not a request or a sequence, or runs in another scheduler.
        """
        with self._turn():
            self._end(self._own(what))

    def step(self) -> list[Update]:
        """Admit waiting samples, decode once, and take a token for each sequence that has its turn.

        Raises:
            InvalidArgument: the scheduler or its `Llama` is closed.
            SchedulerInterrupted: an earlier step was interrupted.
        """
        with self._turn():
            self._check_whole()
            with self._in_one_piece():
                self._advance()
                updates, self._updates = list(self._updates), deque()
                return updates

    def run(self) -> Iterator[Update]:
        """Yield the updates of all steps until no work is left; more may be submitted or cancelled meanwhile.

        Where another thread closes the scheduler, what it has cancelled is returned, and nothing more.

        Raises:
            InvalidArgument: the scheduler or its `Llama` is closed.
            SchedulerInterrupted: an earlier step was interrupted.
        """
        with self._turn():
            self._check_whole()
        try:
            while (updates := self._next()) is not None:
                yield from updates
        except (GeneratorExit, FormatterError):  # the rest is for the next call
            raise
        except BaseException:
            self._is_interrupted = True
            raise

    def close(self) -> None:
        """Cancel what is left and free the context."""
        with self._turn():
            self._end(list(self._open))
            self.context.close()

    def __enter__(self) -> Scheduler:
        self.context.check_open()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    # --- steps -------------------------------------------------------------------------------------------------

    def _turn(self) -> AbstractContextManager[None]:
        """Allow one call at a time, and none while the context or the model is being closed."""
        return self.context.turns.wait()

    def _check_whole(self) -> None:
        if self._is_interrupted:
            raise SchedulerInterrupted
        _compat.check_open(self._llama)
        self.context.check_open()

    @contextmanager
    def _in_one_piece(self) -> Iterator[None]:
        """Mark the scheduler as interrupted unless the block completes.

        An interrupted step leaves the sequences, their tokens and the context in disagreement.
        """
        self._is_interrupted = True
        yield
        self._is_interrupted = False

    def _next(self) -> Iterable[Update] | None:
        """Return the next updates, running another step if necessary; None if no work is left."""
        with self._turn():
            if self._is_interrupted:
                raise SchedulerInterrupted
            if not self._updates:
                if not self._open:
                    return None
                self._check_whole()
                with self._in_one_piece():
                    self._advance()
            return _drained(self._updates)

    def _own(self, what: Request | Sample) -> list[Sample]:
        """Return the sequences of a request of this scheduler, or the single one."""
        if not isinstance(what, (Request, Sample)):
            raise InvalidArgument(
                f"{shown(what)} can not be cancelled; give a Request that submit returned, or one of its samples",
                argument="what",
            )
        samples = what.samples if isinstance(what, Request) else [what]
        if any(sample.output is None and sample not in self._open for sample in samples):
            raise InvalidArgument("this runs in another scheduler; cancel it there", argument="what")
        return samples

    def _end(self, samples: Iterable[Sample]) -> None:
        error = SchedulerInterrupted() if self._is_interrupted else None
        with self._in_one_piece():
            for sample in samples:
                if sample.output is None:
                    if error is not None:
                        sample.fail(sample.error or error)
                    elif sample.error is None:
                        sample.stop("cancelled")
                    self._finish(sample)
        self._is_interrupted = error is not None

    def _advance(self) -> None:
        for sample in self._slots.admit(self._waiting):
            logits = sample.request.prompt_logits
            if not sample.pending and logits is not None:
                self._take_token(sample, logits.copy())
            self._drop_logits(sample.request)
        parts = self._parts()
        while (preempted := self._slots.make_room(parts)) is not None:
            self._waiting.appendleft(preempted)
            parts = [(sample, part) for sample, part in parts if sample is not preempted]
        if parts:
            self._decode(parts)

    def _parts(self) -> list[tuple[Sample, list[int]]]:
        """Return each sample's tokens for the next decode: its latest tokens, or as much of its prompt as fits."""
        room, parts = self.context.batch, []
        # Running texts continue, even if prompts wait.
        for sample in sorted(self._slots.running, key=lambda sample: not sample.tokens):
            part = sample.pending[:room]
            room -= len(part)
            if part:
                parts.append((sample, part))
        return parts

    def _decode(self, parts: list[tuple[Sample, list[int]]]) -> None:
        entries: list[Entry] = []
        for sample, part in parts:
            ends = len(part) if len(part) == len(sample.pending) else 0
            entries += [Entry(token, (sample.slot or 0,), at == ends) for at, token in enumerate(part, 1)]
        try:
            self.context.decode(entries)
        except DecodeFailed as error:
            self._decode_apart(parts, error)
            return
        self.decoded += len(entries)
        place = -1
        for sample, part in parts:
            place += len(part)
            del sample.pending[: len(part)]
            if entries[place].wants_logits:
                self._take_token(sample, self.context.logits(place))

    def _decode_apart(self, parts: list[tuple[Sample, list[int]]], error: DecodeFailed) -> None:
        """Decode one by one what failed together: whose fault it is shows alone, and cells need not lie together."""
        if len(parts) == 1:
            sample, part = parts[0]
            if error.code != 1 or len(part) == 1:
                sample.fail(error)
                self._finish(sample)
                return
            self._decode([(sample, part[: len(part) // 2])])
            if sample.output is None:
                self._decode([(sample, part[len(part) // 2 :])])
            return
        self._slots.drop_texts()
        for alone in parts:
            self._decode([alone])

    # --- tokens ------------------------------------------------------------------------------------------------

    def _take_token(self, sample: Sample, logits: NDArray[np.single]) -> None:
        """Choose the next token, and take what must follow it; the logits are masked in place."""
        request = sample.request
        if not sample.tokens and any(other in self._waiting for other in request.samples):
            request.prompt_logits = logits.copy()
        try:
            if not sample.tokens:
                sample.prepare()
            if sample.stopped is None:
                self._append(sample, sample.choose(logits))
            self._take_forced(sample)
        except Exception as error:  # noqa: BLE001 - any error ends this sequence and no other
            sample.fail(error)
        if sample.stopped is not None:
            self._finish(sample)

    def _take_forced(self, sample: Sample) -> None:
        if sample.forces and sample.request.forced_text == "canonical":
            for token in sample.canonical(continuation(self._llama, self.vocabulary)):
                if sample.stopped is None:
                    self._append(sample, token)
        while (only := sample.only_token()) is not None:
            # The sampler is asked all the same, so that its draws are those of an output without forced text.
            logits = np.full(self.context.width, -np.inf, dtype=np.single)
            logits[only] = 0.0
            self._append(sample, sample.choose(logits))

    def _append(self, sample: Sample, token: int) -> None:
        sample.take(token, self.vocabulary)
        self._updates.append(sample.update(token))
        sample.prepare()

    def _finish(self, sample: Sample) -> None:
        self._slots.release(sample)
        if sample in self._waiting:
            self._waiting.remove(sample)
        update = sample.update(None)
        self._open.pop(sample, None)  # not before it has an output: `close` gives one to all that are open
        self._drop_logits(sample.request)
        self._updates.append(update)

    def _drop_logits(self, request: Request) -> None:
        if not any(sample in self._waiting for sample in request.samples):
            request.prompt_logits = None


def _drained(updates: deque[Update]) -> Iterator[Update]:
    """Yield the updates in order, removing each when it is read; the rest stay for the next caller."""
    while True:
        try:
            update = updates.popleft()
        except IndexError:  # another thread may have taken the last one
            return
        yield update


def _processors(given: Any) -> tuple[Callable[..., Any], ...]:
    processors = (given,) if callable(given) else tuple(elements_of(given, "logits_processor", "functions"))
    if not all(map(callable, processors)):
        raise InvalidArgument(
            f"logits_processor is {shown(given)}; give functions of the ids so far and the logits",
            argument="logits_processor",
        )
    return processors
