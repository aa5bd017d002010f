"""What a job captures, reported while it is still being written, and a format that begins in the prompt.

python examples/exllamav2_streaming.py MODEL_FOLDER
python examples/exllamav2_streaming.py                 # without a GPU, see exllamav2_json.py
"""

from __future__ import annotations

import sys

from exllamav2_json import loaded, made_up

from formatter_core import FormatterBuilder
from formatter_core.runtime.result import TextAdded, ValueCompleted


def main() -> None:
    tokenizer, _, generator = loaded(sys.argv[1]) if len(sys.argv) > 1 else made_up()

    from exllamav2.generator import ExLlamaV2DynamicJob

    from formatter_exllamav2 import create_filter

    builder = FormatterBuilder()
    builder.append("Dear ", builder.regex("[A-Z][a-z]{1,12}", name="who"), ",\n")
    builder.append(
        builder.string(name="text", max_length=60), "\nYours, ", builder.choice(["Ada", "Grace"], name="from")
    )
    beginning = "Dear A"
    each = create_filter(tokenizer, builder, prefix_str=beginning)
    job = ExLlamaV2DynamicJob(
        input_ids=tokenizer.encode(f"A short letter.\n{beginning}"),
        max_new_tokens=200,
        stop_conditions=each.end_ids,
        filters=[each],
        seed=2,
    )
    generator.enqueue(job)
    last = {}
    while generator.num_remaining_jobs():
        for output in generator.iterate():
            last = output
        for event in each.events():
            if isinstance(event, TextAdded):
                print(f"{event.name} goes on with {event.text!r}")
            elif isinstance(event, ValueCompleted):
                print(f"{event.name} is {event.value!r}")
    print(each.result(last).text)


if __name__ == "__main__":
    main()
