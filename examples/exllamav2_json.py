"""Three answers in one batch of ExLlamaV2's dynamic generator, each with a format of its own.

    python examples/exllamav2_json.py MODEL_FOLDER    # on a GPU
    python examples/exllamav2_json.py                 # without one: a simulated forward pass, so the texts are noise

The texts are in their formats in both cases.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import Any

import exllamav2_simulated as simulated

from formatter_core import FormatterBuilder

PERSON = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "maxLength": 20},
        "age": {"type": "integer", "minimum": 0, "maximum": 120},
        "pilot": {"type": "boolean"},
    },
    "required": ["name", "age", "pilot"],
    "additionalProperties": False,
}


def report() -> FormatterBuilder:
    builder = FormatterBuilder()
    builder.append("Weather: ", builder.choice(["sun", "rain", "snow"], name="weather"))
    builder.append(", ", builder.integer(name="degrees", minimum=-40, maximum=50), " degrees.")
    return builder


def main() -> None:
    tokenizer, model, generator = loaded(sys.argv[1]) if len(sys.argv) > 1 else made_up()

    from formatter_exllamav2 import create_filter

    prompts = ["A person as JSON: ", "Another one, as JSON: ", "Tomorrow's report. "]
    filters = [create_filter(tokenizer, format, model=model) for format in (PERSON, PERSON, report())]
    texts, outputs = generator.generate(
        prompts,
        max_new_tokens=200,
        filters=[[each] for each in filters],
        stop_conditions=filters[0].end_ids,
        completion_only=True,
        return_last_results=True,
        seed=1,
    )
    for text, each, output in zip(texts, filters, outputs, strict=True):
        result = each.result(output)
        print(repr(text))
        print("   ", result.value if result.is_complete else result.missing, dict(result.captures))


def loaded(folder: str) -> tuple[Any, Any, Any]:
    from exllamav2 import ExLlamaV2, ExLlamaV2Cache, ExLlamaV2Config, ExLlamaV2Tokenizer
    from exllamav2.generator import ExLlamaV2DynamicGenerator

    config = ExLlamaV2Config(folder)
    model = ExLlamaV2(config)
    cache = ExLlamaV2Cache(model, max_seq_len=16384, lazy=True)
    model.load_autosplit(cache)
    tokenizer = ExLlamaV2Tokenizer(config)
    return tokenizer, model, ExLlamaV2DynamicGenerator(model=model, cache=cache, tokenizer=tokenizer)


def made_up() -> tuple[Any, Any, Any]:
    simulated.use_release()
    folder = simulated.write_small_model(Path(tempfile.mkdtemp()))
    parts = simulated.Parts(folder, simulated.Random(3))
    return parts.tokenizer, parts.model, parts.generator


if __name__ == "__main__":
    main()
