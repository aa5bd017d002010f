"""vLLM in one process, a format for each request, and typed results.

python examples/vllm_offline.py                          # the small model in this folder; no download
python examples/vllm_offline.py --model some/model       # any model that vLLM can load; on a CPU with --dtype float32
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from pathlib import Path

from vllm import LLM, SamplingParams

from formatter_core import FormatterBuilder, formats
from formatter_vllm import FormatterLogitsProcessor, create_extra_args, result

TINY_MODEL = Path(__file__).parent / "tiny_model"
SENTENCE = "Dr. Grace Hopper (85) was an admiral in Arlington."


@dataclass
class Person:
    name: str
    age: int
    city: str
    job: str


def card() -> FormatterBuilder:
    b = FormatterBuilder()
    name, age = b.regex(r"\p{L}[\p{L} .]{0,30}", name="name"), b.integer(minimum=0, maximum=150, name="age")
    return b.append(f"{name} ({age})")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default=str(TINY_MODEL))
    parser.add_argument("--dtype", default="auto", help="of the weights; float32 runs on every CPU")
    options = parser.parse_args()
    llm = LLM(options.model, dtype=options.dtype, logits_processors=[FormatterLogitsProcessor], enforce_eager=True)

    wanted = {"": Person, "card: ": card(), "job: ": formats.choice(["admiral", "doctor", "pilot"])}
    parameters = [
        SamplingParams(temperature=0, max_tokens=200, extra_args=create_extra_args(one)) for one in wanted.values()
    ]
    outputs = llm.generate([f"{cue}{SENTENCE}\n" for cue in wanted], parameters)
    for format, output in zip(wanted.values(), outputs, strict=True):
        found = result(output.outputs[0], format)
        print(f"{found.text!r}\n  is {found.value!r}" if found.is_complete else f"{found.text!r}: {found.missing}")


if __name__ == "__main__":
    main()
