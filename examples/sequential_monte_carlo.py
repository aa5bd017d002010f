"""Sequential Monte Carlo: outputs in a format, weighed as the model itself would weigh them.

A mask leaves the model a choice among the allowed tokens only. So a text can come out often although the model finds
it improbable: the probability that the mask removed on the way is forgotten. Particles remember it as their weight, and
those of little weight are replaced by copies of better ones. A score of your own can count too: here it halves the
weight of a card whose age the sentence does not hold. What such samples are, and when to use them: docs/faithful.md.

python examples/sequential_monte_carlo.py --particles 32
"""

from __future__ import annotations

import argparse
from pathlib import Path

from formatter_core import formats
from formatter_core.generation import Generated, Particles, completion, multinomial, shares
from formatter_transformers import transformers_model

TINY_MODEL = Path(__file__).parent / "tiny_model"
PROMPT = "Dr. Grace Hopper (85) was an admiral in Arlington.\ncard: "
FORMAT = formats.regex(r"[A-Z][a-z]{1,8} [A-Z][a-z]{1,8} \(8[0-9]\), [a-z]{1,8} from [A-Z][a-z]{1,10}")


def score(output: Generated) -> float:
    return 1.0 if "(85)" in output.text else 0.5


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--particles", type=int, default=32)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    model = transformers_model(str(TINY_MODEL))
    write = completion(model, FORMAT, sampling=multinomial(), particles=Particles(score=score), batch=options.particles)
    outputs = write([PROMPT], samples=options.particles, seed=options.seed)[0]
    for text, share in [*shares(outputs).items()][:8]:
        print(f"{share:6.1%}  {text}")


if __name__ == "__main__":
    main()
