"""Outputs by how probable the model holds them."""

from __future__ import annotations

from collections.abc import Iterable

from formatter_core.errors import InvalidArgument
from formatter_core.generation.results import Generated

__all__ = ["best_of", "total_logprob"]


def total_logprob(output: Generated, *, normalised: bool = False) -> float:
    """The sum of the log-probabilities of an output's tokens: among all tokens, or else among the allowed ones.

    Args:
        output: whose `chosen` were asked for.
        normalised: divide by the number of tokens, which does not punish length.

    Raises:
        InvalidArgument: the log-probabilities were not asked for.
    """
    found = [one.logprob if one.unmasked_logprob is None else one.unmasked_logprob for one in output.chosen]
    logprobs = [logprob for logprob in found if logprob is not None]
    if not logprobs or len(logprobs) < len(found):
        raise InvalidArgument("the output has no log-probabilities of its tokens; ask for them when you generate")
    return sum(logprobs) / (len(logprobs) if normalised else 1)


def best_of(outputs: Iterable[Generated], *, normalised: bool = False) -> list[Generated]:
    """The outputs, the most probable first: best-of-n takes the first one of n samples.

    Those that were cut come after those that ended, because what is missing would only lower them; outputs that
    went wrong are left out.

    Args:
        outputs: with log-probabilities.
        normalised: see `total_logprob`.

    Raises:
        InvalidArgument: an output has no log-probabilities.
    """
    good = [output for output in outputs if output.error is None]
    return sorted(good, key=lambda one: (one.stopped == "length", -total_logprob(one, normalised=normalised)))
