"""Outputs by their probability."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from formatter_core.errors import InvalidArgument
from formatter_core.errors.arguments import elements_of, shown
from formatter_core.generation.results import Generated

__all__ = ["best_of", "mean_logprob", "total_logprob"]


def total_logprob(output: Generated) -> float:
    """The sum of the log-probabilities of an output's tokens: among all tokens, or else among the allowed ones.

    Raises:
        InvalidArgument: the log-probabilities were not asked for.
    """
    return sum(_logprobs(output))


def mean_logprob(output: Generated) -> float:
    """`total_logprob` divided by the number of tokens, which does not punish length.

    Raises:
        InvalidArgument: the log-probabilities were not asked for.
    """
    logprobs = _logprobs(output)
    return sum(logprobs) / len(logprobs)


def best_of(outputs: Iterable[Generated], *, key: Callable[[Generated], float] = total_logprob) -> list[Generated]:
    """The outputs, the most probable first: best-of-n takes the first one of n samples.

    Truncated outputs come after those that ended, because what is missing would only lower them. Failed outputs are
    left out.

    Args:
        outputs: outputs with log-probabilities.
        key: what is compared, the greatest first: `total_logprob`, `mean_logprob`, or a function of your own.

    Raises:
        InvalidArgument: an output has no log-probabilities, or these are not outputs.
    """
    given = list(elements_of(outputs, "outputs", "outputs"))
    for output in given:
        if not isinstance(output, Generated):
            raise InvalidArgument(
                f"{shown(output)} is not an output; give a list of them, as a call with samples= returns",
                argument="outputs",
            )
    good = [output for output in given if output.error is None]
    return sorted(good, key=lambda one: (one.stopped == "length", -key(one)))


def _logprobs(output: Generated) -> list[float]:
    found = [one.logprob if one.unmasked_logprob is None else one.unmasked_logprob for one in output.chosen]
    logprobs = [logprob for logprob in found if logprob is not None]
    if not logprobs or len(logprobs) < len(found):
        raise InvalidArgument("the output has no log-probabilities of its tokens; ask for them when you generate")
    return logprobs
