"""Whole jobs on many sequences: generation, the choice among options, beam search."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from formatter_core.errors import InvalidArgument
from formatter_core.generation import (
    BeamSearch,
    Generated,
    OptionScore,
    OptionTrie,
    Sampling,
    log_softmax,
    option_scores,
)
from formatter_llama_cpp.context import Entry, SharedContext
from formatter_llama_cpp.requests import PromptTooLong
from formatter_llama_cpp.scheduler import GREEDY, Scheduler
from formatter_llama_cpp.vocabulary import compiler_for, create_vocabulary

__all__ = ["beam_search", "choose", "generate_parallel"]


def generate_parallel(
    llama: Any,
    prompts: Sequence[str | bytes | Sequence[int]],
    *,
    samples: int = 1,
    format: Any = None,
    formats: Sequence[Any] | None = None,
    max_tokens: int = 128,
    sampling: Sampling = GREEDY,
    stop_strings: str | Iterable[str] = (),
    seed: int | None = None,
    top_logprobs: int | None = None,
    places: int = 16,
    cells: int | None = None,
) -> list[list[Generated]]:
    """The outputs of several prompts, each with its samples, in order; an output that failed carries its `error`.

    Args:
        llama: a `llama_cpp.Llama`.
        prompts: text or token ids.
        samples: how many outputs each prompt has.
        format: one format for all prompts.
        formats: one for each prompt, None where it is free, in place of `format`.
        max_tokens: tokens of each output at most.
        sampling: how tokens are chosen; give a temperature where samples should differ.
        stop_strings: see `Scheduler.submit`.
        seed: see `Scheduler.submit`.
        top_logprobs: see `Scheduler.submit`.
        places: how many sequences run at a time.
        cells: how many tokens the context holds; by default as many as that of `llama`.

    Raises:
        PromptTooLong: a prompt leaves no room for an output.
        InvalidArgument: `formats` has another length than `prompts`.
        FormatterError: whatever else `Scheduler.submit` raises.
    """
    wanted = [format] * len(prompts) if formats is None else list(formats)
    if len(wanted) != len(prompts):
        raise InvalidArgument(f"{len(wanted)} formats were given for {len(prompts)} prompts; give one for each prompt")
    stops = [stop_strings] if isinstance(stop_strings, str) else list(stop_strings)
    with Scheduler(llama, places=places, cells=cells) as scheduler:
        requests = [
            scheduler.submit(
                prompt,
                samples=samples,
                format=one,
                max_tokens=max_tokens,
                sampling=sampling,
                stop_strings=stops,
                seed=seed,
                top_logprobs=top_logprobs,
            )
            for prompt, one in zip(prompts, wanted, strict=True)
        ]
        for _ in scheduler.run():
            pass
        return [[sample.output for sample in request.samples if sample.output is not None] for request in requests]


def choose(
    llama: Any, prompt: str | bytes | Sequence[int], options: Sequence[str], *, with_end: bool = False
) -> list[OptionScore]:
    """The total log-probability of each option as the continuation of a prompt, in the order of the options.

    All options are computed together, the prompt and what options share once. Compare `logprob` for whole options,
    `mean_logprob` for log-probabilities a token: ``max(scores, key=lambda score: score.logprob).text``.

    Args:
        llama: a `llama_cpp.Llama`.
        prompt: text or token ids.
        options: texts, all different and none empty.
        with_end: count the end of the output as well, which is what tells an option from a longer one that begins
            with it.

    Raises:
        InvalidArgument: no options, an empty one, or the same one twice.
        PromptTooLong: prompt and options do not fit into the context.
    """
    if len(set(options)) < len(options) or not all(options):
        raise InvalidArgument("the options must be texts that are all different and not empty")
    before = _tokenized(llama, prompt)
    continued = [_continuation(llama, prompt, before, option) for option in options]
    ends = create_vocabulary(llama).end_ids
    trie = OptionTrie([[*tokens, ends[0]] if with_end else tokens for tokens in continued])
    inner = trie.inner()
    # A sequence for each option that something is computed for; the others are looked up in what their parents say.
    wanted = {number for index in inner for number in trie.nodes[index].options}
    place_of = {number: place for place, number in enumerate(sorted(wanted))}
    cells = int(llama.n_ctx())
    if len(before) + len(inner) > cells:
        raise PromptTooLong(len(before) + len(inner), cells)
    context = SharedContext(llama, sequences=max(1, len(place_of)), cells=cells)
    try:
        rows = {-1: _prefill(context, before)}
        for place in range(1, len(place_of)):
            context.share(0, place, len(before))
        for start in range(0, len(inner), context.batch):
            part = inner[start : start + context.batch]
            entries = [
                Entry(
                    trie.nodes[index].token_id,
                    tuple(place_of[n] for n in trie.nodes[index].options if n in place_of),
                    True,
                )
                for index in part
            ]
            context.decode(entries)
            rows.update((index, log_softmax(context.logits(place))) for place, index in enumerate(part))
    finally:
        context.close()

    def logprobs(node: int) -> NDArray[np.float64]:
        row = rows[node]
        if with_end:  # whichever of the ends it is
            row = row.copy()
            row[ends[0]] = np.logaddexp.reduce(row[list(ends)])
        return row

    return option_scores(options, trie.options, trie.totals(logprobs))


def beam_search(
    llama: Any, prompt: str | bytes | Sequence[int], format: Any, *, width: int = 4, max_tokens: int = 128
) -> list[Generated]:
    """The most probable outputs in a format that `width` beams find, the best first, all of them complete.

    The raw sum of log-probabilities among all tokens decides. There are fewer outputs than beams, or none, where
    `max_tokens` is too few for them to end.

    Args:
        llama: a `llama_cpp.Llama`.
        prompt: text or token ids.
        format: whatever `Compiler.compile` takes.
        width: how many beams.
        max_tokens: tokens of each output at most, the end id included.

    Raises:
        PromptTooLong: prompt and beams do not fit into the context.
        FormatterError: whatever compiling the format or one of its steps raises.
    """
    before = _tokenized(llama, prompt)
    search = BeamSearch(compiler_for(llama).compile(format).formatter(), width)
    cells = len(before) + 2 * width * max_tokens
    # Two sets of sequences: the beams of one step are copied into the other set by the next one.
    context = SharedContext(llama, sequences=2 * width, cells=cells)
    try:
        first = _prefill_logits(context, before)
        search.advance([first])
        old, new = [0] * width, list(range(width, 2 * width))
        for _ in range(max_tokens - 1):
            if search.is_over:
                break
            for place, beam in zip(new, search.beams, strict=False):
                context.share(old[beam.parent], place, len(context.tokens[old[beam.parent]]))
            places = new[: len(search.beams)]
            context.decode(
                [Entry(beam.tokens[-1], (place,), True) for place, beam in zip(places, search.beams, strict=True)]
            )
            search.advance([context.logits(place) for place in range(len(places))])
            old, new = new, list(range(width)) if new[0] else list(range(width, 2 * width))
    finally:
        context.close()
    return search.outputs(before)


def _prefill(context: SharedContext, tokens: Sequence[int]) -> NDArray[np.float64]:
    return log_softmax(_prefill_logits(context, tokens))


def _prefill_logits(context: SharedContext, tokens: Sequence[int]) -> NDArray[np.single]:
    """Decode a prompt in sequence 0; the logits after it."""
    if len(tokens) >= context.cells:
        raise PromptTooLong(len(tokens), context.cells)
    part: Sequence[int] = ()
    for start in range(0, len(tokens), context.batch):
        part = tokens[start : start + context.batch]
        ends = start + len(part) == len(tokens)
        context.decode([Entry(token, (0,), ends and place == len(part) - 1) for place, token in enumerate(part)])
    return context.logits(len(part) - 1)


def _tokenized(llama: Any, prompt: str | bytes | Sequence[int]) -> list[int]:
    if not isinstance(prompt, (str, bytes)):
        return [int(token) for token in prompt]
    data = prompt.encode() if isinstance(prompt, str) else prompt
    return [int(token) for token in llama.tokenize(data, add_bos=True, special=True)]


def _continuation(llama: Any, prompt: str | bytes | Sequence[int], before: list[int], option: str) -> list[int]:
    """The tokens that spell exactly an option: a tokenizer may put a space before it, or merge it with the prompt."""
    vocabulary = create_vocabulary(llama)
    data = option.encode()

    def spells(tokens: Sequence[int]) -> bool:
        return b"".join(vocabulary.text_token(token) or b"" for token in tokens) == data

    if isinstance(prompt, (str, bytes)):
        whole = _tokenized(llama, (prompt.encode() if isinstance(prompt, str) else prompt) + data)
        if whole[: len(before)] == before and spells(whole[len(before) :]):
            return whole[len(before) :]
    alone = [int(token) for token in llama.tokenize(data, add_bos=False, special=False)]
    if spells(alone):
        return alone
    behind = [int(token) for token in llama.tokenize(b"\n" + data, add_bos=False, special=False)]
    for start in range(1, len(behind)):
        if spells(behind[start:]):
            return behind[start:]
    raise InvalidArgument(f"the tokenizer has no tokens that spell the option {option!r} and nothing else")
