"""Score options by their probability, with one forward pass over the trie of their tokens."""

from __future__ import annotations

import json
import math
from collections.abc import Awaitable, Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any, Literal, TypeAlias, get_args, get_origin, overload

import numpy as np

from formatter_core.errors import InvalidArgument, PromptTooLong
from formatter_core.errors.arguments import elements_of, true_or_false, utf8
from formatter_core.formats.choice import ChoiceFormat
from formatter_core.formats.combinators import SequenceFormat
from formatter_core.formats.protocol import Format
from formatter_core.formats.text import TextFormat
from formatter_core.generation.models import (
    AsyncChoosingModel,
    ChoosingModel,
    LogitsModel,
    ScoredText,
    SequenceBatch,
    with_logits,
)
from formatter_core.generation.prompts import OnePrompt, Prompts, as_list, as_text, beginning
from formatter_core.generation.results import Generated, Prompt
from formatter_core.generation.tries import Branches, OptionScore, OptionTrie, option_scores
from formatter_core.runtime.history import shared_length

__all__ = ["branches", "choose"]

#: The options that `choose` accepts; its docstring says how each is written as text.
Options: TypeAlias = Any

#: The size limit of the logits that one forward pass over a trie returns, in bytes of float32. More options take
#: several passes.
_MAX_LOGITS_BYTES = 256 * 2**20


@overload
def choose(
    model: AsyncChoosingModel, prompt: str | Generated | Prompt, options: Options, *, with_end: bool = False
) -> Awaitable[list[OptionScore]]: ...
@overload
def choose(
    model: AsyncChoosingModel, prompt: list[str], options: Options, *, with_end: bool = False
) -> Awaitable[list[list[OptionScore]]]: ...
@overload
def choose(
    model: AsyncChoosingModel, prompt: Prompts, options: Options, *, with_end: bool = False
) -> Awaitable[Any]: ...
@overload
def choose(
    model: LogitsModel | ChoosingModel, prompt: str | Generated | Prompt, options: Options, *, with_end: bool = False
) -> list[OptionScore]: ...
@overload
def choose(
    model: LogitsModel | ChoosingModel, prompt: list[str], options: Options, *, with_end: bool = False
) -> list[list[OptionScore]]: ...
@overload
def choose(model: LogitsModel | ChoosingModel, prompt: Prompts, options: Options, *, with_end: bool = False) -> Any: ...
def choose(
    model: LogitsModel | ChoosingModel | AsyncChoosingModel,
    prompt: Prompts,
    options: Options,
    *,
    with_end: bool = False,
) -> Any:
    """Score each option by its probability as the continuation of a prompt, in the order of the options.

    The prompt is computed once, and so are the tokens that options share: one forward pass computes the trie of their
    tokens, in which each token sees only the prompt and the tokens before it in its option. If an architecture does not
    support such a mask, it computes one row for each option, in one batch. Compare `logprob` for whole options,
    `mean_logprob` for log-probabilities per token, and `probability` for shares that add up to 1.

    For a model behind an API, the server computes the log-probabilities; with an asynchronous client the scores are
    awaited.

    Args:
        model: a model that gives its logits, or a model behind an API: `openai_model(...)`.
        prompt: text, token ids, messages, an earlier output, or an output with more text (`output + "text"`); or a list
            of these, which gives a list of scores each.
        options: texts, numbers, True, False or None as JSON writes them, members of an `Enum`, or the `Enum` or
            `Literal` itself; all different as text and none empty. `OptionScore.value` is the option as it was given.
        with_end: also count the end of the output. This distinguishes an option from a longer one that begins with
            it.

    Raises:
        InvalidArgument: there are no options, one is empty, or one occurs twice; or a server does not return the
            log-probabilities that this needs.
        PromptTooLong: the prompt and an option are longer than the model accepts.
    """
    if not isinstance(model, (ChoosingModel, AsyncChoosingModel)):
        with_logits(model)
    true_or_false(with_end, "with_end")
    values = _values_of(options)
    texts = [_text_of(value) for value in values]
    if not texts or not all(texts) or len(set(texts)) < len(texts):
        raise InvalidArgument("the options must be texts that are all different and not empty", argument="options")
    for text in texts:
        utf8(text, "option")
    prompts, is_one = as_list(prompt)

    def shaped(scored: Sequence[Sequence[ScoredText]]) -> Any:
        found = [
            option_scores(texts, [one.tokens for one in row], [one.logprob for one in row], values) for row in scored
        ]
        return found[0] if is_one else found

    async def awaited(asked: AsyncChoosingModel, begun: Sequence[str]) -> Any:
        return shaped(await asked.ascore_options(begun, texts, with_end=with_end))

    if isinstance(model, AsyncChoosingModel):
        return awaited(model, [as_text(one) for one in prompts])
    if isinstance(model, ChoosingModel):
        return shaped(model.score_options([as_text(one) for one in prompts], texts, with_end=with_end))
    return shaped([_behind(model, one, texts, with_end) for one in prompts])


def _behind(model: LogitsModel, prompt: OnePrompt, texts: Sequence[str], with_end: bool) -> list[ScoredText]:
    """Return the scores of texts after a prompt."""
    before = list(beginning(model, prompt, None).tokens)
    return _scored(model, before, [_continuation(model, prompt, before, text) for text in texts], with_end)


def _values_of(options: Any) -> list[Any]:
    """Return the options of a call as a list."""
    if get_origin(options) is Literal:
        return list(get_args(options))
    if isinstance(options, type) and issubclass(options, Enum):
        return list(options)
    return list(elements_of(options, "options", "texts"))


def _text_of(value: Any) -> str:
    """Return an option as text; empty if it has none."""
    inside = value.value if isinstance(value, Enum) else value
    if isinstance(inside, str):
        return str(inside)
    if inside is None or (isinstance(inside, (bool, int, float)) and math.isfinite(inside)):
        return json.dumps(inside)
    return ""


def branches(model: LogitsModel, output: Generated) -> list[Branches]:
    """Return each `choice` hole of an output, in order, with the probability that each of its options had there.

    The prompt and the output come before the hole, so with a prefix cache this takes one forward pass for each hole. If
    one option begins another, the text that follows the hole, or the end of the output, is scored with each option, to
    tell them apart.

    Args:
        model: the model that made the output.
        output: an output with a format, its prompt, and named `choice` holes.

    Raises:
        InvalidArgument: the output has no format or no prompt.
    """
    with_logits(model)
    if (
        not isinstance(output, Generated)
        or output.formatter is None
        or not output.prompt
        or isinstance(output.prompt, str)
    ):
        raise InvalidArgument("branches are those of an output with a format and with the ids of its prompt")
    holes = {hole.name: hole for hole in _holes(output.formatter.compiled.format)}
    result = output.result
    ends = [0]  # the byte offset at which each token of the output ends
    for token in output.tokens:
        ends.append(ends[-1] + len(model.vocabulary.text_token(token) or b""))
    found = []
    met: dict[str, int] = {}
    for span in result.spans if result else ():
        if span.name not in holes:
            continue
        hole, time = holes[span.name], met.get(span.name, 0)
        met[span.name] = time + 1
        is_prefix = any(a != b and b.startswith(a) for a in hole.options for b in hole.options)
        after = hole.followed_by[time % len(hole.followed_by)] if is_prefix else ""
        texts = [(option + (after or "")).encode() for option in hole.options]
        place, tokens = _from_a_token_on(model, output, ends, span.start, texts)
        before = [*output.prompt, *output.tokens[:place]]
        scored = _scored(model, before, tokens, with_end=is_prefix and after is None)
        scores = option_scores(hole.options, [one.tokens for one in scored], [one.logprob for one in scored])
        found.append(Branches(span.name, span.start, span.text, tuple(scores)))
    return found


def _from_a_token_on(
    model: LogitsModel, output: Generated, ends: Sequence[int], start: int, texts: Sequence[bytes]
) -> tuple[int, list[list[int]]]:
    """Return the options as tokens that start at the last token boundary before the hole.

    A token may contain the last characters before the hole and the first ones inside it. These characters are then put
    before every option. If that boundary is inside a character, the boundary before it is used.
    """
    for place in sorted((index for index, end in enumerate(ends) if end <= start), reverse=True):
        found = [model.encode_continuation(output.bytes[ends[place] : start] + text) for text in texts]
        tokens = [one for one in found if one]
        if len(tokens) == len(texts):
            return place, tokens
    raise InvalidArgument("the tokenizer has no tokens that spell the options")


@dataclass
class _Hole:
    """A named hole with options, and the literal text after each of its occurrences; None for the end of the output."""

    name: str
    options: tuple[str, ...]
    followed_by: list[str | None]


def _holes(format: Format) -> Iterator[_Hole]:
    """Find the named `choice` holes in a format, at any depth of texts and sequences."""
    found: dict[str, _Hole] = {}
    stack: list[tuple[Format | str, str | None]] = [(format, None)]
    while stack:
        one, following = stack.pop()
        if isinstance(one, SequenceFormat):
            # Only of the last part is the following text known.
            *first, last = one.parts or (None,)
            stack.extend((part, "") for part in first if part is not None)
            if last is not None:
                stack.append((last, following))
        if not isinstance(one, TextFormat):
            continue
        for index, part in enumerate(one.parts):
            if isinstance(part, str):
                continue
            rest = one.parts[index + 1 :]
            after = following if not rest else rest[0] if isinstance(rest[0], str) else ""
            if isinstance(part.format, ChoiceFormat) and part.name is not None:
                hole = found.setdefault(part.name, _Hole(part.name, part.format.options, []))
                hole.followed_by.append(after)
            else:
                stack.append((part.format, after))
    yield from found.values()


def _scored(model: LogitsModel, before: list[int], tokens: list[list[int]], with_end: bool) -> list[ScoredText]:
    """Return the scores of options, given as tokens after the tokens `before`."""
    longest = max(map(len, tokens), default=0) + with_end
    if len(before) + longest > model.max_length:
        raise PromptTooLong(len(before), model.max_length, output=longest)
    ends = model.vocabulary.end_ids
    whole = [[*option, ends[0]] if with_end else option for option in tokens]
    if len(set(map(tuple, whole))) < len(whole):
        raise InvalidArgument("two options have the same tokens")
    batch = model.start([before])
    totals = [0.0] * len(whole)
    for group in _groups(whole, max(1, _MAX_LOGITS_BYTES // (4 * len(model.vocabulary)))):
        trie = OptionTrie([whole[index] for index in group])
        for index, total in zip(group, _totals(model, batch, trie, ends if with_end else ()), strict=True):
            totals[index] = total
    return [ScoredText(tuple(ids), total) for ids, total in zip(whole, totals, strict=True)]


def _totals(model: LogitsModel, batch: SequenceBatch, trie: OptionTrie, ends: Sequence[int]) -> list[float]:
    inner = trie.inner()
    row_of = {-1: 0, **{node: row for row, node in enumerate(inner)}}
    logprobs = [0.0] * len(trie.nodes)

    def look_up(logits: Any, nodes: list[int]) -> None:
        # Any end id may end an option.
        ids = [ends if ends and trie.nodes[node].token_id == ends[0] else [trie.nodes[node].token_id] for node in nodes]
        rows = [row_of[trie.nodes[node].parent] for node, some in zip(nodes, ids, strict=True) for _ in some]
        found = iter(model.logprobs(logits, rows, [token for some in ids for token in some]))
        for node, some in zip(nodes, ids, strict=True):
            logprobs[node] = float(np.logaddexp.reduce([next(found) for _ in some]))

    look_up(batch.logits, [index for index, node in enumerate(trie.nodes) if node.parent < 0])
    if inner:
        parents = [-1 if (parent := trie.nodes[node].parent) < 0 else row_of[parent] for node in inner]
        tree = batch.forward_tree([trie.nodes[node].token_id for node in inner], parents)
        look_up(tree, [index for index, node in enumerate(trie.nodes) if node.parent >= 0])
    return trie.sums(logprobs)


def _groups(options: Sequence[Sequence[int]], nodes: int) -> Iterator[list[int]]:
    """Group the options so that each trie has at most this many nodes; a longer option has a group of its own."""
    group: list[int] = []
    size = 0
    last: tuple[int, ...] = ()
    for index in sorted(range(len(options)), key=lambda index: tuple(options[index])):
        option = tuple(options[index])
        shared = shared_length(last, option)
        if group and size + len(option) - shared > nodes:
            yield group
            group, size, shared = [], 0, 0
        group.append(index)
        size, last = size + len(option) - shared, option
    yield group


def _continuation(model: LogitsModel, prompt: OnePrompt, before: list[int], option: str) -> list[int]:
    """Return the tokens that spell exactly an option: a tokenizer may add a space before it, or merge it with the
    prompt.
    """
    data = utf8(option, "option")
    if isinstance(prompt, str):
        whole = model.encode(prompt + option)
        rest = whole[len(before) :]
        spelt = b"".join(model.vocabulary.text_token(token) or b"" for token in rest)
        if whole[: len(before)] == before and spelt == data and len(rest) > 0:
            return rest
    tokens = model.encode_continuation(data)
    if not tokens:
        raise InvalidArgument(f"the tokenizer has no tokens that spell the option {option!r} and nothing else")
    return tokens
