"""Define the result of a generation loop for one sequence."""

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

#: `"end"`: an end id came, or the format allowed no more text. `"stop_string"`, `"stop_token"`: a stop that the caller
#: set.
Stopped: TypeAlias = Literal["end", "length", "stop_string", "stop_token", "cancelled", "error"]


class TokenScore(NamedTuple):
    """A token, its log-probability (natural logarithm) and its rank: the number of better tokens, plus one.

    Attributes:
        token_id: -1 if a model behind an API does not give ids.
        bytes: the token's text, if a model behind an API gives it; otherwise its `Vocabulary` has the text.
    """

    token_id: int
    logprob: float
    rank: int
    bytes: bytes | None = None


class Usage(NamedTuple):
    """The number of tokens that an output took.

    Attributes:
        prompt_tokens: the tokens of its prompt.
        completion_tokens: the tokens that were written, including the id that ended them.
        cached_tokens: the tokens of the prompt that came from a cache and were not computed.
    """

    prompt_tokens: int
    completion_tokens: int
    cached_tokens: int = 0

    @property
    def total_tokens(self) -> int:
        """Return the number of tokens of the prompt and the completion."""
        return self.prompt_tokens + self.completion_tokens


class TokenScores(Sequence[TokenScore]):
    """A sequence of token scores, each made when it is read: a loop collects thousands that are never read.

    It is equal to any sequence of the same scores.
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
    """A token that was taken, and its log-probability at temperature 1; fields that were not requested are None or
    empty.

    Attributes:
        logprob: the log-probability among the tokens that the format allows.
        unmasked_logprob: the log-probability among all tokens.
        top: the best tokens that the format allows, best first; all tokens that tie with the last are included.
        unmasked_top: the best among all tokens.
        rank: the number of better allowed tokens, plus one.
        unmasked_rank: the number of better tokens among all tokens, plus one.
        bytes: the token's text, as in `TokenScore`; so is `token_id`.
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
        """Return the probability of the tokens that the format forbids here: from 0, if the model gives them none, to
        1.
        """
        if self.logprob is None or self.unmasked_logprob is None:
            return None
        # Both come from the same logit, one normalised over the allowed tokens and one over all.
        return max(0.0, -math.expm1(min(0.0, self.unmasked_logprob - self.logprob)))


#: The maximum number of characters of an output's text in its `repr`.
_SHOWN = 100


@dataclass(frozen=True, repr=False)
class Generated(Generic[Value_co]):
    """A finished output of one sequence.

    Outputs can be pickled, for other processes and for caches. Every attribute here is kept, including the value and
    the captures, which are computed when the output is pickled; only `formatter` becomes None, and an error whose class
    cannot be pickled becomes a `FormatterError` with its text. You can still continue an unfinished output in the same
    format. A value of your own class is pickled as that class defines.

    Attributes:
        tokens: the generated ids, including the end id; empty if an API gives none.
        bytes: the text that the tokens spell, up to the stop string if there was one.
        stopped: why the output ended.
        error: the error, if `stopped` is `"error"`.
        chosen: the log-probabilities of each token, if they were requested.
        formatter: the state after the last token; None for a sequence without a format, and after pickling.
        prompt: the ids of the prompt, or its text for an API that takes only text.
        passes_saved: the number of forward passes that forced text saved.
        parsed: the parse result of a text that came without tokens, or of an output that was pickled.
        prompt_chosen: the scores of the prompt's tokens, like `chosen`; None for the first one, which nothing predicts.
        branches: each named `choice` hole with the probabilities of its options, if they were requested.
        passes: the number of forward passes that the output took part in, without those of its prompt.
        draws: the number of drafts of a faithful sample, including the last one.
        log_weight: the logarithm of the weight of a weighted sample; None if all outputs count alike.
        cached_tokens: how many tokens of the prompt came from the model's cache and were not computed.
        server_usage: the token counts that a server reports.
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
    #: The fingerprint of the format, for an output whose formatter was lost by pickling.
    _format: str | None = field(default=None, compare=False)

    def __copy__(self) -> Generated[Value_co]:
        return self._with(self.__dict__)

    def __deepcopy__(self, memo: dict[int, Any]) -> Generated[Value_co]:
        return self._with(deepcopy(self.__dict__, memo))

    def _with(self, state: dict[str, Any]) -> Generated[Value_co]:
        """Return a copy with this state. `__getstate__` is not used, because a copy keeps the formatter."""
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
            with suppress(FormatterError):  # a format of the user's own has none
                state["_format"] = compiled.fingerprint if isinstance(compiled, CompiledFormat) else None
        return {**state, "formatter": None}

    @property
    def usage(self) -> Usage | None:
        """Return the number of tokens that the output took; None if a server does not report it."""
        if self.server_usage is not None or isinstance(self.prompt, str):
            return self.server_usage
        return Usage(len(self.prompt), len(self.tokens), self.cached_tokens)

    @property
    def text(self) -> str:
        """Return the bytes as text; U+FFFD replaces a character that was cut."""
        return self.bytes.decode("utf-8", "replace")

    def __repr__(self) -> str:
        text = self.text if len(self.text) <= _SHOWN else f"{self.text[:_SHOWN]}…"
        error = "" if self.error is None else f", error={type(self.error).__name__}"
        return f"Generated({text!r}, stopped={self.stopped!r}, {len(self.tokens)} tokens{error})"

    def _repr_html_(self) -> str:
        ended = f"ended by {self.stopped!r}"
        # `result` shows how the text parses; this `repr` shows how the output was generated.
        shown = spans_as_html(self.bytes, (), ended) if self.result is None else self.result._repr_html_()
        return shown if self.error is None else spans_as_html(b"", (), f"{ended}: {self.error}") + shown

    @property
    def logprobs(self) -> tuple[float, ...]:
        """Return the log-probability of each token among the allowed tokens, if they were requested."""
        return tuple(token.logprob for token in self.chosen if token.logprob is not None)

    @property
    def unmasked_logprobs(self) -> tuple[float, ...]:
        """Return the log-probability of each token among all tokens, as the model gives it."""
        return tuple(token.unmasked_logprob for token in self.chosen if token.unmasked_logprob is not None)

    @property
    def logprob(self) -> float | None:
        """Return the log-probability of the output under the masks: the sum over its tokens, at temperature 1.

        It is None if the log-probability of a token is not known.
        """
        return self._total([token.logprob for token in self.chosen])

    @property
    def unmasked_logprob(self) -> float | None:
        """Return the log-probability that the model itself gives to the output, among all tokens.

        By default a loop does not compute it, because forced text then costs more; request it with
        `scores=ScoreSettings(logprob=True)`.
        """
        return self._total([token.unmasked_logprob for token in self.chosen])

    @property
    def masked_logprob(self) -> float | None:
        """Return how far the masks bent the output: the logarithm of the product of the allowed mass, over all tokens.

        The allowed mass is the probability that the model gives to all allowed tokens together. 0 means that the model
        gave no probability to other tokens; -3 means that the masks made the output e³ times as probable. The value is
        `unmasked_logprob - logprob`, at most 0, and needs both.
        """
        masked, unmasked = self.logprob, self.unmasked_logprob
        return None if masked is None or unmasked is None else min(0.0, unmasked - masked)

    def _total(self, logprobs: Sequence[float | None]) -> float | None:
        known = [logprob for logprob in logprobs if logprob is not None]
        return sum(known) if known and len(known) == max(len(logprobs), len(self.tokens)) else None

    @cached_property
    def result(self) -> Result[Value_co] | None:
        """Return the parse result of the format, computed on first access; None for a sequence without a format."""
        if self.formatter is None:
            return self.parsed
        if self.stopped == "cancelled":
            return self.formatter.result()
        return self.formatter.result("stop_string" if self.stopped == "stop_token" else self.stopped)

    @property
    def captures(self) -> Mapping[str, tuple[Any, ...]]:
        """Return the captured values by name; empty without a format."""
        return {} if self.result is None else self.result.captures

    @property
    def value(self) -> Value_co:
        """Return the typed value of a complete output, or its text if it has no format.

        Raises:
            BaseException: the error that ended this sequence.
            IncompleteResult: the text is not complete.
        """
        self.raise_error()
        return cast(Value_co, self.text) if self.result is None else self.result.value

    def __add__(self, text: str) -> Prompt:
        """Return a prompt of this output, with its own prompt before it and more text after it.

        Raises:
            InvalidArgument: `text` is not a string.
        """
        return Prompt(self, _text(text))

    def raise_error(self) -> None:
        """Raise the error that ended this sequence, if there is one."""
        if self.error is not None:
            raise self.error


def formatter_in(output: Generated[Any], compiled: CompiledFormat[Any]) -> Formatter[Any] | None:
    """Return the state after an output's last token; rebuild it if the output was pickled.

    Return None if the output was written in another format, or in none.
    """
    if output.formatter is not None:
        return output.formatter if output.formatter.compiled is compiled else None
    with suppress(FormatterError):  # a format of the user's own has no fingerprint
        if output._format is not None and output._format == compiled.fingerprint:
            again = compiled.formatter()
            return again if again.accept_tokens(output.tokens) == len(output.tokens) else None
    return None


@dataclass(frozen=True)
class Prompt:
    """A prompt that is an output followed by more text; made by `output + "text"`."""

    before: Generated
    text: str

    def __add__(self, text: str) -> Prompt:
        """Return the same prompt with more text.

        Raises:
            InvalidArgument: `text` is not a string.
        """
        return Prompt(self.before, self.text + _text(text))


def _text(text: Any) -> str:
    if not isinstance(text, str):
        raise InvalidArgument(f"only text can follow an output, not {shown(text)}; add a str", argument="text")
    return text
