"""All outputs of a small format with their probabilities, and how well draws agree with them."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from formatter_core import Formatter, FormatterBuilder, bitmask, formats
from formatter_core.generation import LostMass, Sampling
from formatter_core.generation.lost_mass import Node
from tests.core.tiny_logits_model import TinyModel

__all__ = ["FORMATS", "Agreement", "agreement", "asap", "outputs_of", "total_variation"]

#: Cells of a chi-squared test are joined until each expects at least this many draws.
_LEAST = 5.0


def outputs_of(
    model: TinyModel, format: Any, prompt: Sequence[int], sampling: Sampling, max_tokens: int | None = None
) -> dict[tuple[int, ...], float]:
    """The probability that the model, sampled without a mask, writes each output of a format, end id included."""
    found: dict[tuple[int, ...], float] = {}
    compiled = model.compiler.compile(format)
    first = compiled.formatter() if max_tokens is None else compiled.formatter_within(max_tokens)
    stack: list[tuple[Formatter, tuple[int, ...], float]] = [(first, (), 1.0)]
    while stack:
        formatter, tokens, probability = stack.pop()
        ids, shares = sampling.candidates(model.function((*prompt, *tokens)))
        allowed = set(formatter.allowed_tokens())
        for token, share in zip(ids.tolist(), shares.tolist(), strict=True):
            if token not in allowed:
                continue
            whole = (*tokens, token)
            if token in model.vocabulary.end_ids:
                found[whole] = probability * share
            elif max_tokens is None or len(whole) < max_tokens:
                after = formatter.fork()
                after.accept_token(token)
                stack.append((after, whole, probability * share))
    return found


def asap(model: TinyModel, format: Any, prompt: Sequence[int], samples: int, seed: int) -> list[tuple[int, ...]]:
    """Samples by ASAp: drawn under the mask, each token in proportion to what is not known to be lost below it."""
    random = np.random.default_rng(seed)
    compiled, known = model.compiler.compile(format), LostMass(2**30)
    mask = bitmask.allocate(1, len(model.vocabulary))
    found = []
    for _ in range(samples):
        formatter, node, last = compiled.formatter(), known.root(""), None
        tokens: tuple[int, ...] = ()
        while not formatter.is_finished:
            if node is None:
                formatter.fill_bitmask(mask[0])
                weighed = model.weigh(model.function((*prompt, *tokens))[None], mask, Sampling(1.0))
                new = Node.of(weighed.weights[0], 1.0, 0.0, 0.0)
                node = known.begin("", new, set()) if last is None else known.add("", last, tokens[-1], new)
            token = node.pick(float(random.random()) * (node.kept - node.rest)).token
            assert token is not None
            tokens, last, node = (*tokens, token), node, node.children.get(token)
            formatter.accept_token(token)
        if last is not None:
            last.learnt()
        found.append(tokens)
    return found


@dataclass(frozen=True)
class Agreement:
    """A chi-squared test, and the distance between the draws and what is expected."""

    statistic: float
    freedom: int
    p_value: float
    distance: float


def agreement(expected: Mapping[Any, float], drawn: Iterable[Any]) -> Agreement:
    """Compare draws with weights, which need not add up to 1.

    Improbable outcomes are joined; without a second cell there is nothing to test, and the p-value is 1.
    """
    counts, total = Counter(drawn), sum(expected.values())
    draws = sum(counts.values())
    cells: list[tuple[float, int]] = []
    rest, rest_count = 0.0, draws
    for outcome, weight in sorted(expected.items(), key=lambda pair: -pair[1]):
        share = weight / total * draws
        if share >= _LEAST:
            cells.append((share, counts[outcome]))
            rest_count -= counts[outcome]
        else:
            rest += share
    if rest >= _LEAST:
        cells.append((rest, rest_count))
    elif cells:  # too few to be a cell of their own
        share, count = cells.pop()
        cells.append((share + rest, count + rest_count))
    statistic = sum((count - share) ** 2 / share for share, count in cells)
    freedom = max(0, len(cells) - 1)
    p_value = _chi_squared_above(statistic, freedom) if freedom else 1.0
    return Agreement(statistic, freedom, p_value, total_variation(expected, counts))


def total_variation(one: Mapping[Any, float], other: Mapping[Any, float]) -> float:
    """Half the sum of all differences of probability, from 0 to 1; weights need not add up to 1."""
    totals = sum(one.values()), sum(other.values())
    return sum(abs(one.get(key, 0) / totals[0] - other.get(key, 0) / totals[1]) for key in {*one, *other}) / 2


def _chi_squared_above(statistic: float, freedom: int) -> float:
    """The probability of a greater value (Abramowitz & Stegun 6.5.29 and 6.5.31)."""
    a, x = freedom / 2, statistic / 2
    if x <= 0:
        return 1.0
    scale = math.exp(-x + a * math.log(x) - math.lgamma(a))
    if x < a + 1:
        term = total = 1 / a
        n = a
        while term > total * 1e-14:
            n += 1
            term *= x / n
            total += term
        return max(0.0, 1 - scale * total)
    b = x + 1 - a
    c, d = 1e300, 1 / b
    value = d
    for step in range(1, 10_000):
        factor = -step * (step - a)
        b += 2
        d = 1 / (factor * d + b)
        c = b + factor / c
        value *= d * c
        if abs(d * c - 1) < 1e-14:
            break
    return scale * value


def _card() -> FormatterBuilder:
    b = FormatterBuilder()
    return b.append("na", b.choice(["me", "b", "cat"], name="kind"), ": ", b.integer(name="n", minimum=7, maximum=12))


#: Small formats: each has at most some hundreds of outputs, in all spellings.
FORMATS: dict[str, Any] = {
    "one word": formats.regex("cat"),
    "words": formats.regex("(ab|cat|na){1,2}!"),
    "repeated words": formats.regex("(ab|na){0,3}"),
    "bits": formats.regex("[01]{3}"),
    "bits of any length": formats.regex("[01]{0,4}"),
    "as many": formats.regex("0{1,2}1{1,2}|1{1,3}"),
    "a late choice": formats.regex("aaaa(b|cc)|ab"),
    "a rare ending": formats.regex("(a|b)x?y{1,3}"),
    "choice": ["ab", "abc", "cat", "the cat", "name"],
    "one option begins another": ["a", "ab", "aba", "abab"],
    "two digits": formats.regex("[0-9]{2}"),
    "a decimal": formats.regex(r"-?[0-9](\.[0-9])?"),
    "optional parts": formats.regex("(the )?(cat|ab)(, na)?"),
    "escapes": formats.regex(r'"(\\"|\\\\|a){1,2}"'),
    "beyond ASCII": formats.regex("[éa]{1,3}"),
    "a character of two spellings": formats.regex("é|è|e"),
    "dates": formats.regex("(19|20)[0-9]{2}"),
    "boolean": {"type": "boolean"},
    "null or a number": {"anyOf": [{"type": "null"}, {"type": "integer", "minimum": 0, "maximum": 20}]},
    "integer": {"type": "integer", "minimum": -3, "maximum": 25},
    "enum": {"enum": ["ab", "cat", 1, 17, None]},
    "const": {"const": {"b": "na"}},
    "object": formats.json_schema(
        {
            "type": "object",
            "properties": {"na": {"enum": [1, 2, 12]}},
            "required": ["na"],
            "additionalProperties": False,
        },
        whitespace="compact",
    ),
    "optional member": formats.json_schema(
        {
            "type": "object",
            "properties": {"a": {"type": "boolean"}, "b": {"enum": [1, 2]}},
            "additionalProperties": False,
        },
        whitespace="compact",
    ),
    "array": formats.json_schema({"type": "array", "items": {"enum": [1, 2]}, "maxItems": 3}, whitespace="compact"),
    "spaces": {"type": "array", "items": {"enum": [1]}, "minItems": 1, "maxItems": 2},
    "text with holes": _card(),
    "grammar": formats.kbnf('start ::= "a" | "(" inner ")"; inner ::= "a" | "b" "b";'),
    "until": formats.regex("[ab]{0,3}cat"),
    "sums": formats.regex("[1-3][+][1-3]=[2-6]"),
}
