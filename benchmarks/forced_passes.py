"""Forward passes that forced text saves: greedy outputs of ten everyday schemas by the small trained model.

    python3.11 dev.py bench forced_passes

`exact` takes tokens without a choice, `drafts` proposes the tokenizer's own tokens of certain text to the model, and
`canonical` takes them. Times are CPU time on one thread, in turns; ratios are medians of pairs. A schema counts as
equal where the text is that of `off`.
"""

from __future__ import annotations

import argparse
import statistics
from functools import partial
from typing import Any

import torch

from benchmarks.harness import aim, markdown, seconds_of, take_turns
from formatter_core import formats
from formatter_core.generation import completion, greedy
from formatter_transformers import transformers_model

__all__ = ["OPTIONS", "SMOKE", "measure", "show"]

OPTIONS: dict[str, dict[str, Any]] = {"--repetitions": {"type": int, "default": 3}}
SMOKE = {"repetitions": 1}
MODES = ("off", "exact", "drafts", "canonical")
#: The share of passes that is to be saved at least, by whitespace.
AIMS = {"compact": 0.35, "flexible": 0.2}
PROMPT = "Ivo is 41 years old, lives in Delhi and works as a pilot.\n"


def _object(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": [*properties], "additionalProperties": False}


TEXT: dict[str, Any] = {"type": "string", "maxLength": 20}
NUMBER: dict[str, Any] = {"type": "integer", "minimum": 0, "maximum": 999}
YES: dict[str, Any] = {"type": "boolean"}
SCHEMAS: dict[str, dict[str, Any]] = {
    "person": _object(name=TEXT, age=NUMBER, city=TEXT, job=TEXT),
    "address": _object(street=TEXT, number=NUMBER, city=TEXT, country=TEXT),
    "order": _object(order_id=NUMBER, customer=TEXT, quantity=NUMBER, express_delivery=YES),
    "event": _object(
        title=TEXT,
        start_date={"type": "string", "format": "date"},
        participants={"type": "array", "items": TEXT, "maxItems": 2},
    ),
    "review": _object(
        product_name=TEXT, rating={"type": "integer", "minimum": 1, "maximum": 5}, recommended=YES, summary=TEXT
    ),
    "ticket": _object(
        category={"enum": ["billing", "technical", "account"]},
        priority={"enum": ["low", "medium", "high"]},
        description=TEXT,
    ),
    "measurement": _object(
        sensor_identifier=TEXT, temperature_celsius={"type": "integer", "minimum": -50, "maximum": 60}, is_valid=YES
    ),
    "contact": _object(
        person=_object(first_name=TEXT, last_name=TEXT), contact=_object(email_address=TEXT, phone_number=TEXT)
    ),
    "list": {"type": "array", "items": _object(identifier=NUMBER, label=TEXT), "minItems": 2, "maxItems": 2},
    "function call": _object(
        function={"const": "book_flight"}, arguments=_object(departure_city=TEXT, arrival_city=TEXT, passengers=NUMBER)
    ),
}


def measure(options: argparse.Namespace) -> dict[str, Any]:
    torch.set_num_threads(1)
    model = transformers_model("examples/tiny_model", cache_bytes=0)
    return {
        whitespace: {name: _measured(model, schema, whitespace, options.repetitions) for name, schema in chosen.items()}
        for whitespace in AIMS
        for chosen in [dict([*SCHEMAS.items()][: 1 if options.smoke else None])]
    }


def _measured(model: Any, schema: dict[str, Any], whitespace: Any, repetitions: int) -> dict[str, Any]:
    format = formats.json_schema(schema, whitespace=whitespace)
    writers = {
        mode: completion(model, format, sampling=greedy(), forced_text=mode, max_tokens=150)  # type: ignore[call-overload]
        for mode in MODES
    }
    found: dict[str, Any] = {}
    texts = {}
    for mode, write in writers.items():
        before = model.passes
        output = write(PROMPT)
        texts[mode] = output.text
        found[mode] = {"passes": model.passes - before, "tokens": len(output.tokens)}
    turns = take_turns({mode: seconds_of(partial(write, PROMPT)) for mode, write in writers.items()}, repetitions)
    for mode in MODES:
        pairs = zip(turns[mode], turns["off"], strict=True)
        found[mode] |= {"time": statistics.median(a / b for a, b in pairs), "is equal": texts[mode] == texts["off"]}
    return found


def show(found: dict[str, Any]) -> str:
    rows, aims = [], []
    for whitespace, share in AIMS.items():
        cases = found[whitespace].values()
        all_passes = sum(case["off"]["passes"] for case in cases)
        for mode in MODES[1:]:
            saved = 1 - sum(case[mode]["passes"] for case in cases) / all_passes
            time = statistics.median(case[mode]["time"] for case in cases)
            equal = sum(case[mode]["is equal"] for case in cases)
            rows.append([whitespace, mode, f"{100 * saved:.0f} %", f"{time:.2f}", f"{equal} of {len(cases)}"])
            if mode == "drafts":
                aims.append(aim(f"{whitespace}: share of passes saved by drafts", saved, share, at_least=True))
    table = markdown(["whitespace", "forced text", "passes saved", "CPU time beside off", "equal texts"], rows)
    return "\n\n".join([table, *aims])
