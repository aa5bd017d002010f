"""Rank outputs by their probability."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable

from formatter_core.errors import InvalidArgument
from formatter_core.errors.arguments import elements_of, shown
from formatter_core.generation.results import Generated

__all__ = ["best_of", "log_evidence", "mean_logprob", "shares", "total_logprob"]


def total_logprob(output: Generated) -> float:
    """Return the sum of the log-probabilities of an output's tokens: among all tokens, or else among the allowed ones.

    Raises:
        InvalidArgument: the log-probabilities were not computed.
    """
    return sum(_logprobs(output))


def mean_logprob(output: Generated) -> float:
    """Return `total_logprob` divided by the number of tokens, which does not penalise long outputs.

    Raises:
        InvalidArgument: the log-probabilities were not computed.
    """
    logprobs = _logprobs(output)
    return sum(logprobs) / len(logprobs)


def best_of(outputs: Iterable[Generated], *, key: Callable[[Generated], float] = total_logprob) -> list[Generated]:
    """Return the outputs, most probable first: best-of-n takes the first one of n samples.

    Truncated outputs come after those that ended, because their missing text would only lower the sum. Failed outputs
    are left out.

    Args:
        outputs: outputs with log-probabilities.
        key: the value to compare, the greatest first: `total_logprob`, `mean_logprob`, or your own function.

    Raises:
        InvalidArgument: an output has no log-probabilities, or an object is not an output.
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


def shares(outputs: Iterable[Generated]) -> dict[str, float]:
    """Return the share of each text among the samples, greatest first; weighted samples count by their weight.

    A sample without a weight counts as the mean of those that have one. Failed outputs are left out.

    Args:
        outputs: samples of one prompt.
    """
    good = [output for output in elements_of(outputs, "outputs", "outputs") if output.error is None]
    evidence = log_evidence(good)
    found: dict[str, float] = {}
    for output in good:
        weight = 1.0 if output.log_weight is None else math.exp(output.log_weight - evidence)
        found[output.text] = found.get(output.text, 0.0) + weight / len(good)
    total = sum(found.values())
    return dict(sorted(((text, share / total) for text, share in found.items()), key=lambda pair: -pair[1]))


def log_evidence(outputs: Iterable[Generated]) -> float:
    """Return the logarithm of the mean weight of weighted samples; -inf if there are none, or if all weights are 0.

    For particles, this is an unbiased estimate of the probability that the model's output follows the format, times the
    mean score of such outputs.
    """
    logs = [output.log_weight for output in elements_of(outputs, "outputs", "outputs") if output.log_weight is not None]
    best = max(logs, default=-math.inf)
    return best if best == -math.inf else best + math.log(sum(math.exp(log - best) for log in logs) / len(logs))


def _logprobs(output: Generated) -> list[float]:
    found = [one.logprob if one.unmasked_logprob is None else one.unmasked_logprob for one in output.chosen]
    logprobs = [logprob for logprob in found if logprob is not None]
    if not logprobs or len(logprobs) < len(found):
        raise InvalidArgument("the output has no log-probabilities of its tokens; ask for them when you generate")
    return logprobs
