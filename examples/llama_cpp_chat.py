"""A chat completion of llama.cpp that becomes an instance of a Pydantic model.

python examples/llama_cpp_chat.py                       # the small model in this folder; needs the gguf package
python examples/llama_cpp_chat.py --model model.gguf    # any chat model
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

from llama_cpp import Llama
from pydantic import BaseModel, Field

from formatter_llama_cpp import create_logits_processor


class Person(BaseModel):
    name: str = Field(max_length=40)
    age: int = Field(ge=0, le=150)
    city: str = Field(max_length=40)
    job: str = Field(max_length=40)


SENTENCES = [
    "Ivo is 41 years old, lives in Delhi and works as a pilot.",
    "Dr. Grace Hopper (85) was an admiral in Arlington.",
    "Anna (7) is a doctor in Lima.",
]


def load(model: str | None, folder: Path) -> Llama:
    if model is None:
        from llama_cpp_tiny_model import write

        model = str(write(folder / "tiny.gguf"))
    return Llama(model, n_ctx=256, n_threads=1, verbose=False)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", help="a GGUF file")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        llama = load(options.model, Path(folder))
        for sentence in SENTENCES:
            messages = [{"role": "user", "content": sentence}]
            # Where something goes wrong inside, the sequence ends and the error is raised here, not forgotten.
            with create_logits_processor(llama, Person) as processor:
                output = llama.create_chat_completion(messages, logits_processor=processor, max_tokens=150)
            person = processor.result(output).value
            print(f"{sentence}\n  {person!r}")
        llama.close()


if __name__ == "__main__":
    main()
