"""Find the best tokens of a batch of logits, ties included, on the host; define the results for all engines."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias, cast

import numpy as np
from numpy.typing import NDArray

from formatter_core.engine import native_logits
from formatter_core.errors import InvalidArgument, LimitExceeded
from formatter_core.errors.arguments import elements_of, whole_number
from formatter_core.generation.results import ChosenToken, TokenScore, TokenScores
from formatter_core.limits import DEFAULT_LIMITS, Limits
from formatter_core.vocabulary import Vocabulary

__all__ = [
    "Candidate",
    "ScoreSettings",
    "Ties",
    "TopTokens",
    "as_candidates",
    "check_ids",
    "checked_counts",
    "chosen_token",
    "listed",
    "measured_tokens",
    "top_tokens",
]

Ties: TypeAlias = Literal["all", "none"]
Chosen: TypeAlias = "Sequence[int] | NDArray[np.integer[Any]]"

_NO_NUMBERS = "the logits hold NaN or +inf, so they say nothing; look for an overflow in the model"
#: The types that the native library reads; numpy computes the others.
_NATIVE = (np.float32, np.float16, np.uint16)


@dataclass(frozen=True, slots=True)
class Candidate:
    """A token with its rank and its text.

    Attributes:
        rank: 1 for the best; tokens with equal scores have the same rank.
        bytes: the bytes that the token adds to a text; None for an end id and for a token that never spells text.
        is_end: whether the token ends an output.
    """

    token_id: int
    logprob: float
    rank: int
    bytes: bytes | None
    is_end: bool

    @property
    def text(self) -> str:
        """Return the bytes as text; U+FFFD replaces bytes that are not a whole character."""
        return (self.bytes or b"").decode("utf-8", "replace")

    @property
    def is_whole(self) -> bool:
        """Return whether the bytes are whole characters, so that `text` shows all of them."""
        try:
            (self.bytes or b"").decode("utf-8")
        except UnicodeDecodeError:
            return False
        return True


def as_candidates(scores: Iterable[TokenScore], vocabulary: Vocabulary) -> tuple[Candidate, ...]:
    """Return tokens with their bytes and text, for `ChosenToken.top` and the like; this does not call a tokenizer."""
    ends = frozenset(vocabulary.end_ids)
    return tuple(
        Candidate(
            score.token_id,
            score.logprob,
            score.rank,
            vocabulary.text_token(score.token_id) if score.bytes is None else score.bytes,
            score.token_id in ends,
        )
        for score in scores
    )


@dataclass(frozen=True, slots=True)
class TopTokens:
    """The best tokens at one position, best first and ties by id, and the token that was taken there.

    A field that was not requested is empty or None.

    Attributes:
        ids: the token ids.
        logprobs: their log-probabilities (natural logarithm).
        ranks: 1 for the best; tokens with equal scores have the same rank, which is the number of better tokens plus
            one.
        is_cut: whether the list leaves out tokens that score the same as the last one.
        chosen: the token that was taken.
    """

    ids: tuple[int, ...] = ()
    logprobs: tuple[float, ...] = ()
    ranks: tuple[int, ...] = ()
    is_cut: bool = False
    chosen: int | None = None
    chosen_logprob: float | None = None
    chosen_rank: int | None = None

    @property
    def scores(self) -> Sequence[TokenScore]:
        """Return the log-probability and rank of each token."""
        return TokenScores(self.ids, self.logprobs, self.ranks) if self.ids else ()

    def candidates(self, vocabulary: Vocabulary) -> tuple[Candidate, ...]:
        """Return the tokens with their bytes and text, which the vocabulary knows without a call of the tokenizer."""
        return as_candidates(self.scores, vocabulary)


@dataclass(frozen=True, slots=True)
class ScoreSettings:
    """The scores that a generation loop computes for each token; it does not compute what is turned off.

    Attributes:
        top: the number of best tokens, plus those that tie with the last; 0 for none.
        logprob: the log-probability of the token that was taken.
        rank: its rank.
        prompt: compute the same for the tokens of the prompt, which no format constrains.
        unmasked: compute the same among all tokens as well, including the forbidden ones.
        ties: `"all"`; or `"none"` for exactly `top` tokens, of which the lowest ids win a tie.
        branches: compute how probable each option of every named `choice` hole was at that position. This takes one
            more forward pass for each hole, after the output is complete.
        limits: `max_top_n` limits `top` and the number of ties returned: `Limits(max_top_n=200)` allows more.
    """

    top: int = 0
    logprob: bool = False
    rank: bool = False
    prompt: bool = False
    unmasked: bool = True
    ties: Ties = "all"
    branches: bool = False
    limits: Limits = DEFAULT_LIMITS

    def __post_init__(self) -> None:
        checked_counts(self.top, 1, self.limits)

    def __bool__(self) -> bool:
        return bool(self.top) or self.logprob or self.rank


def chosen_token(masked: TopTokens, unmasked: TopTokens | None) -> ChosenToken:
    """Make the entry of `Generated.chosen` for one position; `unmasked` is None if it was not requested."""
    among_all = TopTokens() if unmasked is None else unmasked
    scores = masked.scores
    return ChosenToken(
        -1 if masked.chosen is None else masked.chosen,
        masked.chosen_logprob,
        among_all.chosen_logprob,
        scores,
        scores if among_all is masked else among_all.scores,
        masked.chosen_rank,
        among_all.chosen_rank,
    )


def checked_counts(n: int | Sequence[int], rows: int, limits: Limits) -> list[int]:
    """Return `n` for each row.

    Raises:
        InvalidArgument: a number is negative, or their count is not the number of rows.
        LimitExceeded: a number is greater than `Limits.max_top_n`.
    """
    is_one = hasattr(n, "__index__") and not getattr(n, "ndim", 0)
    given = [n] * rows if is_one else elements_of(cast("Sequence[int]", n), "n", "numbers")
    counts = [whole_number(count, "n") for count in given]
    if len(counts) != rows:
        raise InvalidArgument(f"n is {n!r} for {rows} rows of logits; give a number from 0, or one for each row")
    if max(counts, default=0) > limits.max_top_n:
        raise LimitExceeded("max_top_n", limits.max_top_n, f"top-{max(counts)}")
    return counts


def check_ids(tokens: Chosen, width: int) -> None:
    """Check that these are ids of tokens.

    Raises:
        InvalidArgument: one of them is not a token id.
    """
    for token in tokens:
        if not 0 <= token < width:
            raise InvalidArgument(f"the chosen token is {token}, but the logits cover tokens 0 to {width - 1}")


def top_tokens(
    logits: NDArray[Any],
    n: int | Sequence[int],
    *,
    chosen: Chosen | None = None,
    ties: Ties = "all",
    logprob: bool = True,
    rank: bool = True,
    limits: Limits = DEFAULT_LIMITS,
) -> list[TopTokens]:
    """Return the `n` best tokens of each row, and those that tie with the last of them.

    Tokens of -inf, which a mask forbids, are never returned. `formatter_transformers.top_tokens` does the same on torch
    tensors.

    Args:
        logits: floating-point (rows, width), as the model gives them; uint16 is read as the bits of bfloat16, which
            numpy does not have. The array is not changed.
        n: the number of tokens, for all rows or for each; 0 gives none.
        chosen: a token for each row whose log-probability and rank you want.
        ties: `"all"`, at most `Limits.max_top_n` tokens in total; or `"none"` for exactly `n`. Among tokens with equal
            scores the lowest ids come first and are kept.
        logprob: whether to compute the log-probability of the chosen token.
        rank: whether to compute its rank.
        limits: limits `n` and the number of ties returned.

    Raises:
        InvalidArgument: the logits have another shape or are not numbers, or `n` or `chosen` does not fit them.
        LimitExceeded: `n` is greater than `Limits.max_top_n`.
    """
    return measured_tokens(logits, n, chosen, ScoreSettings(0, logprob, rank, ties=ties, limits=limits))


def measured_tokens(
    logits: NDArray[Any], n: int | Sequence[int], chosen: Chosen | None, how: ScoreSettings
) -> list[TopTokens]:
    """Compute `top_tokens` with the settings of `how`; its `top` is ignored in favour of `n`."""
    is_bits = logits.dtype.newbyteorder("=") == np.uint16
    if logits.ndim != 2 or not (is_bits or np.issubdtype(logits.dtype, np.floating)):
        raise InvalidArgument(f"logits are floating (rows, width), but these are {logits.dtype} {logits.shape}")
    rows, width = logits.shape
    counts = [min(count, width) for count in checked_counts(n, rows, how.limits)]
    if chosen is not None:
        check_ids(chosen, width)
    taken = None if chosen is None else [int(token) for token in chosen]
    if taken is not None and len(taken) != rows:
        raise InvalidArgument(f"{len(taken)} chosen tokens for {rows} rows of logits; give one for each row")
    if logits.dtype in _NATIVE:
        return _by_the_library(logits, counts, taken, how)
    if is_bits:
        logits = (logits.astype(np.uint32) << 16).view(np.float32)
    return [_one(row, count, token, how) for row, count, token in zip(logits, counts, _each(taken, rows), strict=True)]


def _each(chosen: list[int] | None, rows: int) -> Sequence[int | None]:
    return [None] * rows if chosen is None else chosen


def _by_the_library(
    logits: NDArray[Any], counts: list[int], chosen: list[int] | None, how: ScoreSettings
) -> list[TopTokens]:
    most = max(counts, default=0)
    found = native_logits.best_tokens(
        logits,
        counts,
        chosen,
        room=how.limits.max_top_n if most and how.ties == "all" else most,
        wants_scale=how.logprob and chosen is not None,
        wants_rank=how.rank,
    )
    if found is None:
        raise InvalidArgument(_NO_NUMBERS)
    columns = zip(
        counts,
        found.amounts[:, 1].tolist(),
        found.ids.tolist(),
        found.logprobs.tolist(),
        found.ranks.tolist(),
        _each(chosen, len(counts)),
        (found.numbers[:, 1] - found.numbers[:, 0]).tolist(),
        found.amounts[:, 0].tolist(),
        strict=True,
    )
    return [listed(how, *column) for column in columns]


def listed(
    how: ScoreSettings,
    n: int,
    tied: int,
    ids: Sequence[int],
    logprobs: Sequence[float],
    ranks: Sequence[int],
    chosen: int | None,
    chosen_logprob: float,
    better: int,
) -> TopTokens:
    """Make the result of a row for the settings `how`; `n` tokens were requested, and `tied` counts them with their
    ties.

    `better` is the number of tokens that are better than the chosen one.
    """
    kept = min(tied, n if how.ties == "none" else how.limits.max_top_n)
    return TopTokens(
        tuple(ids[:kept]),
        tuple(logprobs[:kept]),
        tuple(ranks[:kept]),
        tied > kept,
        chosen,
        chosen_logprob if chosen is not None and how.logprob else None,
        better + 1 if chosen is not None and how.rank else None,
    )


def _one(row: NDArray[Any], n: int, chosen: int | None, how: ScoreSettings) -> TopTokens:
    scale = _log_sum(row) if n or (how.logprob and chosen is not None) else 0.0
    own = -np.inf if chosen is None else row[chosen]
    better = int(np.count_nonzero(row > own)) if how.rank else 0
    ids = np.flatnonzero((row >= np.partition(row, -n)[-n]) & (row > -np.inf)) if n else np.empty(0, dtype=np.int64)
    ids = ids[np.lexsort((ids, -row[ids]))]
    values = row[ids]
    ranks = 1 + np.searchsorted(-values, -values, side="left")
    logprobs = values.astype(np.float64) - scale
    found = ids.tolist(), logprobs.tolist(), ranks.tolist()
    return listed(how, n, len(ids), *found, chosen, float(own) - scale, better)


def _log_sum(row: NDArray[Any]) -> float:
    """Return the logarithm of the sum of the exponentials; 0 for a row in which nothing is allowed."""
    best = float(row.max())
    if best == -np.inf:
        return 0.0
    if not np.isfinite(best):
        raise InvalidArgument(_NO_NUMBERS)
    return best + float(np.log(np.exp(row.astype(np.float64) - best).sum()))
