"""Sequential Monte Carlo: outputs in a format, weighed as the model itself would weigh them.

A mask leaves the model a choice among the allowed tokens only. So a text can come out often although the model finds
it improbable: the probability that the mask removed on the way is forgotten. Here each particle remembers it. Its
weight is the product of the probabilities that the model gave to the allowed tokens at each position. Particles of
little weight are replaced by copies of better ones, so the rest is drawn from what the model would write if it always
wrote the format (Lew et al. 2023, "Sequential Monte Carlo Steering of Large Language Models using Probabilistic
Programs").

python examples/sequential_monte_carlo.py --particles 32
"""

from __future__ import annotations

import argparse
import math
import random
from collections import defaultdict
from pathlib import Path

from formatter_core import formats
from formatter_core.generation import Generated, ScoreSettings, completion, multinomial
from formatter_transformers import TransformersModel, transformers_model

TINY_MODEL = Path(__file__).parent / "tiny_model"
PROMPT = "Dr. Grace Hopper (85) was an admiral in Arlington.\ncard: "
FORMAT = formats.regex(r"[A-Z][a-z]{1,8} [A-Z][a-z]{1,8} \(8[0-9]\), [a-z]{1,8} from [A-Z][a-z]{1,10}")


def log_allowed(particle: Generated, since: int) -> float:
    """The logarithm of the probability that the model gave to what was allowed, for all tokens from `since` on."""
    return sum(particle.unmasked_logprobs[since:]) - sum(particle.logprobs[since:])


def resampled(particles: list[Generated], weights: list[float], draw: random.Random) -> list[Generated]:
    """As many particles, each as often as its weight says; one draw for all of them keeps the noise low."""
    total, start = sum(weights), draw.random()
    chosen, reached, index = [], weights[0], 0
    for number in range(len(particles)):
        while reached < (start + number) / len(particles) * total and index < len(particles) - 1:
            index += 1
            reached += weights[index]
        chosen.append(particles[index])
    return chosen


def steer(model: TransformersModel, prompt: str, count: int, seed: int) -> list[tuple[Generated, float]]:
    """Complete outputs and their weights."""
    draw = random.Random(seed)
    scores = ScoreSettings(logprob=True, unmasked=True)
    step = completion(model, FORMAT, max_tokens=3, sampling=multinomial(), scores=scores)
    particles = step(prompt, samples=count, seed=seed)
    logs = [log_allowed(particle, 0) for particle in particles]
    while any(particle.stopped == "length" for particle in particles):
        weights = [math.exp(log - max(logs)) for log in logs]
        if sum(weights) ** 2 < count / 2 * sum(weight**2 for weight in weights):
            particles, logs = resampled(particles, weights, draw), [0.0] * count
        going = [index for index, particle in enumerate(particles) if particle.stopped == "length"]
        # Unfinished outputs are prompts again: they go on in the format, and their keys and values are still there.
        for index, output in zip(going, step([particles[i] for i in going], seed=draw.getrandbits(32)), strict=True):
            logs[index] += log_allowed(output, len(particles[index].chosen))
            particles[index] = output
    return [(particle, math.exp(log - max(logs))) for particle, log in zip(particles, logs, strict=True)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--particles", type=int, default=32)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    shares: dict[str, float] = defaultdict(float)
    for particle, weight in steer(transformers_model(str(TINY_MODEL)), PROMPT, options.particles, options.seed):
        shares[particle.value] += weight
    for text, weight in sorted(shares.items(), key=lambda share: -share[1])[:8]:
        print(f"{weight / sum(shares.values()):6.1%}  {text}")


if __name__ == "__main__":
    main()
