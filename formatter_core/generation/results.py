"""What a generation loop returns for one sequence."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from contextlib import suppress
from copy import deepcopy
from dataclasses import dataclass, field, fields
from typing import Any, Generic, Literal, NamedTuple, TypeAlias, cast, overload

from formatter_core.errors import FormatterError, InvalidArgument
from formatter_core.errors.arguments import picklable, shown
from formatter_core.generation.tries import Branches
from formatter_core.grammar.lazy import cached_property
from formatter_core.runtime.compiled import CompiledFormat
from formatter_core.runtime.formatter import Formatter
from formatter_core.runtime.generics import Value_co
from formatter_core.runtime.result import READ, KeptReading, Result
from formatter_core.runtime.spans import spans_as_html

__all__ = ["ChosenToken", "Generated", "Prompt", "Stopped", "TokenScore", "TokenScores", "Usage", "formatter_in"]

#: `"end"`: an end id, or the format left nothing to write; `"stop_string"`, `"stop_token"`: the caller's own ends.
Stopped: TypeAlias = Literal["end", "length", "stop_string", "stop_token", "cancelled", "error"]


class TokenScore(NamedTuple):
    """A token, its log-probability (natural logarithm) and its rank: how many tokens are better, plus one.

    Attributes:
        token_id: -1 where a model behind an API does not tell ids.
        bytes: the token's text, where a model behind an API tells that; otherwise its `Vocabulary` knows.
    """

    token_id: int
    logprob: float
    rank: int
    bytes: bytes | None = None


class Usage(NamedTuple):
    """How many tokens an output took.

    Attributes:
        prompt_tokens: those of its prompt.
        completion_tokens: those that were written, with the id that ended them.
        cached_tokens: those of the prompt that were not computed, because they were kept from before.
    """

    prompt_tokens: int
    completion_tokens: int
    cached_tokens: int = 0

    @property
    def total_tokens(self) -> int:
        """Those of the prompt and those that were written."""
        return self.prompt_tokens + self.completion_tokens


class TokenScores(Sequence[TokenScore]):
    """The scores of several tokens, each made when it is read: a loop collects thousands that nobody looks at.

    Equal to any sequence of the same scores.
    """

    __slots__ = ("ids", "logprobs", "ranks")

    def __init__(self, ids: tuple[int, ...], logprobs: tuple[float, ...], ranks: tuple[int, ...]) -> None:
        self.ids = ids
        self.logprobs = logprobs
        self.ranks = ranks

    def __len__(self) -> int:
        return len(self.ids)

    @overload
    def __getitem__(self, place: int) -> TokenScore: ...
    @overload
    def __getitem__(self, place: slice) -> TokenScores: ...
    def __getitem__(self, place: int | slice) -> TokenScore | TokenScores:
        if isinstance(place, slice):
            return TokenScores(self.ids[place], self.logprobs[place], self.ranks[place])
        return TokenScore(self.ids[place], self.logprobs[place], self.ranks[place])

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and tuple(self) == tuple(other)

    def __hash__(self) -> int:
        return hash(tuple(self))

    def __repr__(self) -> str:
        return f"TokenScores({list(self)!r})"


@dataclass(frozen=True, slots=True)
class ChosenToken:
    """A token that was taken, and its log-probability at temperature 1; what was not asked for is None or empty.

    Attributes:
        logprob: among the tokens that the format allows.
        unmasked_logprob: among all tokens.
        top: the best tokens that the format allows, the best first; several with the value of the last one all count.
        unmasked_top: the same among all tokens.
        rank: how many of the allowed tokens are better, plus one.
        unmasked_rank: the same among all tokens.
        bytes: as in `TokenScore`, and `token_id` too.
    """

    token_id: int
    logprob: float | None
    unmasked_logprob: float | None
    top: Sequence[TokenScore] = ()
    unmasked_top: Sequence[TokenScore] = ()
    rank: int | None = None
    unmasked_rank: int | None = None
    bytes: bytes | None = None

    @property
    def masked_probability(self) -> float | None:
        """The probability of what the format forbids here: 0 where the model wanted nothing else anyway, 1 at most."""
        if self.logprob is None or self.unmasked_logprob is None:
            return None
        # Both count the same logit, one among the allowed tokens and one among all.
        return max(0.0, -math.expm1(min(0.0, self.unmasked_logprob - self.logprob)))


#: Characters of an output's text in its `repr`.
_SHOWN = 100


@dataclass(frozen=True, repr=False)
class Generated(Generic[Value_co]):
    """One finished sequence.

    Outputs can be pickled, for other processes and for caches. All that is described here is kept, the value and the
    captures too, which are read for it; only `formatter` is None afterwards, and an error whose class cannot be pickled
    becomes a `FormatterError` with its text. An unfinished output goes on all the same within the same format. A value
    of your own class is pickled as that class is.

    Attributes:
        tokens: the generated ids, including the end id; empty where an API tells none.
        bytes: the text that they spell, up to the stop string where one was met.
        stopped: why it is finished.
        error: what went wrong, where `stopped` is `"error"`.
        chosen: the log-probabilities of each token, where they were asked for.
        formatter: the state after the last token; None for a sequence without a format, and after pickling.
        prompt: the ids before it, or its text where an API takes nothing else.
        passes_saved: forward passes of the model that forced text made unnecessary.
        parsed: what a format makes of a text that came without tokens, or of an output that was pickled.
        prompt_chosen: the same as `chosen` for the prompt's tokens; None for the first one, which nothing predicts.
        branches: each named `choice` hole, and how probable its options were, where that was asked for.
        passes: forward passes of the model that the output took part in, those of its prompt apart.
        draws: drafts that a faithful sample took, the last one included.
        log_weight: the logarithm of the weight of a weighted sample; None where all outputs count alike.
        cached_tokens: how many tokens of the prompt were not computed, because the model had kept them.
        server_usage: what a server says of its tokens.
    """

    tokens: tuple[int, ...]
    bytes: bytes
    stopped: Stopped
    error: BaseException | None = None
    chosen: tuple[ChosenToken, ...] = ()
    formatter: Formatter[Value_co] | None = None
    prompt: tuple[int, ...] | str = ()
    passes_saved: int = 0
    parsed: Result[Value_co] | None = None
    prompt_chosen: tuple[ChosenToken | None, ...] = ()
    branches: tuple[Branches, ...] = ()
    passes: int = 0
    draws: int = 1
    log_weight: float | None = None
    cached_tokens: int = 0
    server_usage: Usage | None = None
    #: The fingerprint of the format whose formatter did not survive pickling.
    _format: str | None = field(default=None, compare=False)

    def __copy__(self) -> Generated[Value_co]:
        return self._with(self.__dict__)

    def __deepcopy__(self, memo: dict[int, Any]) -> Generated[Value_co]:
        return self._with(deepcopy(self.__dict__, memo))

    def _with(self, state: dict[str, Any]) -> Generated[Value_co]:
        """A copy with the state of its own, which `__getstate__` is not for: a copy keeps the formatter."""
        made = object.__new__(type(self))
        made.__dict__.update(state)
        return made

    def __getstate__(self) -> dict[str, Any]:
        state = {one.name: getattr(self, one.name) for one in fields(self)}
        state["error"] = None if self.error is None else picklable(self.error)
        if self.formatter is not None:
            try:
                state["parsed"] = self.result
            except Exception as error:  # noqa: BLE001 - a limit, for example: it is raised where the result is read
                kept = KeptReading({}, dict.fromkeys(READ, picklable(error)))
                state["parsed"] = Result(self.bytes, self.tokens, "error", False, kept, cause=error)
            compiled = self.formatter.compiled
            with suppress(FormatterError):  # a format of your own has none
                state["_format"] = compiled.fingerprint if isinstance(compiled, CompiledFormat) else None
        return {**state, "formatter": None}

    @property
    def usage(self) -> Usage | None:
        """How many tokens it took; None where a server does not say."""
        if self.server_usage is not None or isinstance(self.prompt, str):
            return self.server_usage
        return Usage(len(self.prompt), len(self.tokens), self.cached_tokens)

    @property
    def text(self) -> str:
        """The bytes as text; a character that was cut becomes U+FFFD."""
        return self.bytes.decode("utf-8", "replace")

    def __repr__(self) -> str:
        text = self.text if len(self.text) <= _SHOWN else f"{self.text[:_SHOWN]}…"
        error = "" if self.error is None else f", error={type(self.error).__name__}"
        return f"Generated({text!r}, stopped={self.stopped!r}, {len(self.tokens)} tokens{error})"

    def _repr_html_(self) -> str:
        ended = f"ended by {self.stopped!r}"
        # `result` shows what its format makes of the text; what is shown here is how it came about.
        shown = spans_as_html(self.bytes, (), ended) if self.result is None else self.result._repr_html_()
        return shown if self.error is None else spans_as_html(b"", (), f"{ended}: {self.error}") + shown

    @property
    def logprobs(self) -> tuple[float, ...]:
        """The log-probability of each token among those that were allowed, where they were asked for."""
        return tuple(token.logprob for token in self.chosen if token.logprob is not None)

    @property
    def unmasked_logprobs(self) -> tuple[float, ...]:
        """The log-probability of each token among all tokens, as the model sees it."""
        return tuple(token.unmasked_logprob for token in self.chosen if token.unmasked_logprob is not None)

    @property
    def logprob(self) -> float | None:
        """The log-probability of the output under the masks: the sum over its tokens, at temperature 1.

        None where the log-probability of a token is not known.
        """
        return self._total([token.logprob for token in self.chosen])

    @property
    def unmasked_logprob(self) -> float | None:
        """The same among all tokens: the log-probability that the model itself gives to the output.

        By default a loop does not compute it, because runs of forced text then cost more; ask with
        `scores=ScoreSettings(logprob=True)`.
        """
        return self._total([token.unmasked_logprob for token in self.chosen])

    @property
    def masked_logprob(self) -> float | None:
        """How far the masks bent the output: the logarithm of the product of the allowed mass, over all tokens.

        The allowed mass is the probability that the model gives to all allowed tokens together. 0 means that the model
        wanted nothing else; -3 means that the masks made the output e³ times as probable. It is `unmasked_logprob -
        logprob`, at most 0, and needs both.
        """
        masked, unmasked = self.logprob, self.unmasked_logprob
        return None if masked is None or unmasked is None else min(0.0, unmasked - masked)

    def _total(self, logprobs: Sequence[float | None]) -> float | None:
        known = [logprob for logprob in logprobs if logprob is not None]
        return sum(known) if known and len(known) == max(len(logprobs), len(self.tokens)) else None

    @cached_property
    def result(self) -> Result[Value_co] | None:
        """What the format makes of it, parsed when first asked for; None for a sequence without a format."""
        if self.formatter is None:
            return self.parsed
        if self.stopped == "cancelled":
            return self.formatter.result()
        return self.formatter.result("stop_string" if self.stopped == "stop_token" else self.stopped)

    @property
    def captures(self) -> Mapping[str, tuple[Any, ...]]:
        """The captured values by name; none without a format."""
        return {} if self.result is None else self.result.captures

    @property
    def value(self) -> Value_co:
        """The typed value of a complete output; its text where it has no format.

        Raises:
            BaseException: what went wrong with this sequence.
            IncompleteResult: the text is not complete.
        """
        self.raise_error()
        return cast(Value_co, self.text) if self.result is None else self.result.value

    def __add__(self, text: str) -> Prompt:
        """A prompt of what is here, its own prompt included, and more text.

        Raises:
            InvalidArgument: `text` is something else.
        """
        return Prompt(self, _text(text))

    def raise_error(self) -> None:
        """Raise what went wrong with this sequence, if something did."""
        if self.error is not None:
            raise self.error


def formatter_in(output: Generated[Any], compiled: CompiledFormat[Any]) -> Formatter[Any] | None:
    """The state after an output's last token, made again where the output was pickled.

    None where it was written in another format, or in none.
    """
    if output.formatter is not None:
        return output.formatter if output.formatter.compiled is compiled else None
    with suppress(FormatterError):  # a format of your own has no fingerprint
        if output._format is not None and output._format == compiled.fingerprint:
            again = compiled.formatter()
            return again if again.accept_tokens(output.tokens) == len(output.tokens) else None
    return None


@dataclass(frozen=True)
class Prompt:
    """A prompt that is followed by more text; made by `output + "text"`."""

    before: Generated
    text: str

    def __add__(self, text: str) -> Prompt:
        """The same with more text.

        Raises:
            InvalidArgument: `text` is something else.
        """
        return Prompt(self.before, self.text + _text(text))


def _text(text: Any) -> str:
    if not isinstance(text, str):
        raise InvalidArgument(f"only text can follow an output, not {shown(text)}; add a str", argument="text")
    return text
