"""Typed data from documents: each document becomes an object, and the model says how sure it was.

python examples/typed_data.py                          # the small model in this folder; no download
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path

from formatter_core.generation import completion
from formatter_transformers import transformers_model

DOCUMENTS = [
    "Ivo is 41 years old, lives in Delhi and works as a pilot.",
    "Zoë, a nurse from Kraków, is 29.",
    "In Lagos there is an engineer called Brunokea, aged 63.",
    "Captain Nemo of the Nautilus was last seen in 1868.",  # a sentence that the model was never trained for
]


@dataclass
class Person:
    name: str
    age: int
    city: str
    job: str


def main() -> None:
    write = completion(transformers_model(str(Path(__file__).parent / "tiny_model")), Person, max_tokens=80)
    for document, output in zip(DOCUMENTS, write([f"{text}\n" for text in DOCUMENTS]), strict=True):
        person = output.value  # a Person; raises where the text is not complete
        confidence = math.exp(sum(output.logprobs))  # of the whole text, among the texts of the format
        print(f"{document}\n  {person}, confidence {confidence:.1%}")


if __name__ == "__main__":
    main()
