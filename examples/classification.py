"""Classification with probabilities: every class is scored, and uncertain answers are left to a person.

python examples/classification.py                      # the small model in this folder; no download
"""

from __future__ import annotations

import math
from pathlib import Path

from formatter_core.generation import choose
from formatter_transformers import transformers_model

CLASSES = ["doctor", "engineer", "nurse", "pilot", "teacher"]
TEXTS = [
    "Ivo is 41 years old, lives in Delhi and works as a pilot.",
    "Anna (52) was a teacher in Lima.",
    "Dr. Grace Hopper was an admiral in Arlington.",  # none of the classes, and no sentence that the model knows
]
SURE = 0.9


def main() -> None:
    model = transformers_model(str(Path(__file__).parent / "tiny_model"))
    for text in TEXTS:
        scores = choose(model, f"{text}\njob: ", CLASSES, with_end=True)
        best = max(scores, key=lambda score: score.probability)
        # Probabilities of the classes add up to 1. How much of all that it could write are they together?
        known = sum(math.exp(score.logprob) for score in scores)
        verdict = best.text if known * best.probability > SURE else f"ask a person: the classes have {known:.1%} in all"
        print(f"{text}\n  {verdict}")
        for score in sorted(scores, key=lambda score: -score.probability):
            print(f"    {score.text:10} {score.probability:6.1%}")


if __name__ == "__main__":
    main()
