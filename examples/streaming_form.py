"""Streaming into a form: each field fills while the model writes, and has its type once it is complete.

python examples/streaming_form.py                      # the small model in this folder; no download
"""

from __future__ import annotations

from pathlib import Path

from formatter_core import FormatterBuilder, HoleOpened, TextAdded, ValueCompleted
from formatter_core.generation import FormatEvent, completion
from formatter_transformers import transformers_model

PROMPT = "Ivo is 41 years old, lives in Delhi and works as a pilot.\ncard: "


def card() -> FormatterBuilder:
    b = FormatterBuilder()
    name, age = b.regex(r"\p{L}[\p{L} .]{0,30}", name="name"), b.integer(minimum=0, maximum=150, name="age")
    job, city = b.regex(r"[a-z]{1,20}", name="job"), b.regex(r"\p{Lu}[\p{L} ]{0,30}", name="city")
    return b.append(f"{name} ({age}), {job} from {city}")


def main() -> None:
    write = completion(transformers_model(str(Path(__file__).parent / "tiny_model")), card(), max_tokens=60)
    form: dict[str, str] = {}
    for event in write.stream(PROMPT):
        change = event.event if isinstance(event, FormatEvent) else None
        if isinstance(change, HoleOpened):
            form[change.name] = ""
        elif isinstance(change, TextAdded):
            form[change.name] += change.text
            print(f"{change.name:5} {form[change.name]}…")
        elif isinstance(change, ValueCompleted):
            print(f"{change.name:5} {change.value!r}  ({type(change.value).__name__})")


if __name__ == "__main__":
    main()
