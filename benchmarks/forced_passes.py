"""Count the forward passes that forced text saves, in our loops and in those of inference engines.

    python3.11 dev.py bench forced_passes     # the loops of completion, and transformers' generate
    python3.11 dev.py run ENV -m benchmarks forced_passes --through NAME --beside forced_passes.json
        # llama_cpp and llama-cpp-python, mlx and mlx-lm; answers and any of them, also with --pretrained

Greedy outputs of the small trained model, or of SmolLM2-135M-Instruct, whose vocabulary of 49,152 tokens has more
spellings for a text. Formats are ten everyday schemas and those of the demo. In `completion`, `exact` takes tokens
without a choice, `drafts` proposes the tokenizer's own tokens of certain text to the model, and `canonical` takes them.
An engine's own loop gets them from its `ForcedDrafts`, also beside masks that hold only the longest tokens of certain
text (`longest`). Times are CPU time on one thread, in turns; ratios are medians of pairs. Passes, time and text are put
beside those of the same masks without drafts.
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias

from benchmarks.harness import aim, markdown, seconds_of, take_turns
from formatter_core import formats

__all__ = ["OPTIONS", "SMOKE", "measure", "show"]

TINY = Path(__file__).resolve().parents[1] / "examples" / "tiny_model"
#: Writes one output to a prompt and returns its text.
Write: TypeAlias = "Callable[[str], str]"
#: A writer for each mode of a format, and what has all forward passes so far as its `passes`.
Engine: TypeAlias = "tuple[Callable[[Any], Mapping[str, Write]], Any]"
#: Ends the names of results, behind the engine's, where the model is SmolLM2.
PRETRAINED = " with SmolLM2"

IN_DEV = ("completion", "transformers")
OPTIONS: dict[str, dict[str, Any]] = {
    "--repetitions": {"type": int, "default": 3},
    "--through": {"nargs": "+", "default": IN_DEV, "help": "what runs the model: ENGINES, by name"},
    "--pretrained": {"action": "store_true", "help": "SmolLM2 instead of the small trained model"},
    "--beside": {"type": Path, "help": "an earlier file, whose other engines are kept"},
}
SMOKE = {"repetitions": 1}
#: The share of passes that is to be saved at least, by whitespace.
AIMS = {"compact": 0.35, "flexible": 0.2}
PROMPT = "Ivo is 41 years old, lives in Delhi and works as a pilot.\n"
#: Tokens of an output, and of a proposal.
MOST, DRAFTS = 150, 16
#: mlx-lm verifies this many in each pass, whatever they are.
MLX_DRAFTS = 6


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


# --- the engines -----------------------------------------------------------------------------------------------------


class Passes:
    """Count the calls of a function."""

    def __init__(self) -> None:
        self.passes = 0

    def counted(self, compute: Callable[..., Any]) -> Callable[..., Any]:
        def run(*given: Any, **more: Any) -> Any:
            self.passes += 1
            return compute(*given, **more)

        return run


def model_folder(*, pretrained: bool) -> str:
    """Find the folder of the model for everything but llama.cpp."""
    from examples import real_model

    return str(real_model.folder() if pretrained else TINY)


def completion_engine(*, pretrained: bool) -> Engine:
    """Write by the loop of this project, on transformers."""
    from formatter_core.generation import completion, greedy
    from formatter_transformers import transformers_model

    model = transformers_model(model_folder(pretrained=pretrained), cache_bytes=0)

    def writers(format: Any) -> dict[str, Write]:
        found: dict[str, Write] = {}
        for mode in ("off", "exact", "drafts", "canonical"):
            write: Any = completion(model, format, sampling=greedy(), forced_text=mode, max_tokens=MOST)
            found[mode] = partial(text_of, write)
        return found

    return writers, model


def text_of(write: Callable[[str], Any], prompt: str) -> str:
    return str(write(prompt).text)


def hooks(write: Callable[..., str], plain: Any, drafting: Any) -> Callable[[Any], Mapping[str, Write]]:
    """Return the modes of a hook; `write` gets the format, the contents of masks, and how the engine runs."""
    return lambda format: {
        "off": partial(write, format, "exact", plain),
        "drafts": partial(write, format, "exact", drafting),
        "longest": partial(write, format, "longest", plain),
        "longest, drafts": partial(write, format, "longest", drafting),
    }


def transformers_engine(*, pretrained: bool) -> Engine:
    """Write by `generate` of transformers."""
    from transformers import AutoModelForCausalLM, AutoTokenizer

    from formatter_transformers import ForcedDrafts, create_logits_processor

    folder = model_folder(pretrained=pretrained)
    tokenizer: Any = AutoTokenizer.from_pretrained(folder)
    model: Any = AutoModelForCausalLM.from_pretrained(folder).eval()
    passes = Passes()
    model.register_forward_hook(passes.counted(lambda *_: None))

    def write(format: Any, forced_text: Any, options: dict[str, Any], prompt: str) -> str:
        processor = create_logits_processor(tokenizer, format, model=model, forced_text=forced_text)
        inputs = tokenizer(prompt, return_tensors="pt")
        output = model.generate(**inputs, max_new_tokens=MOST, logits_processor=[processor], do_sample=False, **options)
        return processor.result(output).text

    return hooks(write, {}, {"custom_generate": ForcedDrafts(tokenizer, most=DRAFTS)}), passes


def llama_cpp_engine(*, pretrained: bool) -> Engine:
    """Write by `Llama.create_completion` of llama-cpp-python."""
    from llama_cpp import Llama

    from examples import real_model
    from examples.llama_cpp_tiny_model import write as convert
    from formatter_llama_cpp import ForcedDrafts, create_logits_processor

    passes = Passes()

    def load(**options: Any) -> Any:
        with tempfile.TemporaryDirectory() as folder:
            path = real_model.file() if pretrained else convert(Path(folder) / "tiny.gguf")
            size = 512 if pretrained else 256
            llama: Any = Llama(str(path), n_ctx=size, n_threads=1, n_threads_batch=1, verbose=False, **options)
        llama.eval = passes.counted(llama.eval)
        return llama

    def write(format: Any, forced_text: Any, llama: Any, prompt: str) -> str:
        llama.reset()  # or the second time the prompt is not computed
        with create_logits_processor(llama, format, forced_text=forced_text) as processor:
            output = llama.create_completion(prompt, max_tokens=MOST, temperature=0, logits_processor=processor)
        return processor.result(output).text

    return hooks(write, load(), load(draft_model=ForcedDrafts(most=DRAFTS))), passes


def mlx_engine(*, pretrained: bool) -> Engine:
    """Write by `generate` of mlx-lm."""
    import mlx_lm

    from formatter_mlx import ForcedDrafts, create_logits_processor

    model, tokenizer, *_ = mlx_lm.load(model_folder(pretrained=pretrained))
    passes, kind = Passes(), type(model)
    kind.__call__ = passes.counted(kind.__call__)

    def write(format: Any, forced_text: Any, options: dict[str, Any], prompt: str) -> str:
        processor = create_logits_processor(tokenizer, format, model=model, forced_text=forced_text)
        asked = {"max_tokens": MOST, "logits_processors": [processor], **options}
        *_, last = mlx_lm.stream_generate(model, tokenizer, prompt, **asked)
        return str(processor.result(last).text)

    return hooks(write, {}, {"draft_model": ForcedDrafts(model, tokenizer), "num_draft_tokens": MLX_DRAFTS}), passes


ENGINES: dict[str, Callable[..., Engine]] = {
    "completion": completion_engine,
    "transformers": transformers_engine,
    "llama-cpp-python": llama_cpp_engine,
    "mlx-lm": mlx_engine,
}

# --- measuring -------------------------------------------------------------------------------------------------------


def measure(options: argparse.Namespace) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(options.beside.read_text(encoding="utf-8")) if options.beside else {}
    found.pop("machine", None)
    for name in options.through:
        engine = ENGINES[name](pretrained=options.pretrained)
        if name in IN_DEV:
            import torch

            torch.set_num_threads(1)
        with_demo = name in IN_DEV and not options.pretrained
        found[name + PRETRAINED * options.pretrained] = {
            group: summary(
                [
                    _measured(engine, prompt, format, options.repetitions)
                    for prompt, format in [*cases.values()][: 1 if options.smoke else None]
                ]
            )
            for group, cases in groups(with_demo=with_demo, pretrained=options.pretrained).items()
        }
    return found


def groups(*, with_demo: bool, pretrained: bool) -> dict[str, dict[str, tuple[str, Any]]]:
    """Return prompts and formats by name: the schemas by whitespace, and the demo's, which needs transformers."""
    from examples import real_model

    def prompt_of(name: str) -> str:
        return real_model.chat(f"{PROMPT}Write a JSON object: {name}.") if pretrained else PROMPT

    found: dict[str, dict[str, tuple[str, Any]]] = {
        whitespace: {
            name: (prompt_of(name), formats.json_schema(schema, whitespace=whitespace))  # type: ignore[arg-type]
            for name, schema in SCHEMAS.items()
        }
        for whitespace in AIMS
    }
    if with_demo:
        from examples.quickstart import SENTENCES, TASKS

        found["demo"] = {
            f"{what}, {sentence}": (f"{sentence}\n{cue}", format)
            for sentence in SENTENCES.values()
            for what, cue, format in TASKS
        }
    return found


def base_of(mode: str) -> str:
    """Return the mode with the same masks, without drafts."""
    return "longest" if mode.startswith("longest,") else "off"


def _measured(engine: Engine, prompt: str, format: Any, repetitions: int) -> dict[str, Any]:
    make, counter = engine
    writers = make(format)
    found: dict[str, Any] = {}
    texts = {}
    for mode, write in writers.items():
        before = counter.passes
        texts[mode] = write(prompt)
        found[mode] = {"passes": counter.passes - before}
    turns = take_turns({mode: seconds_of(partial(write, prompt)) for mode, write in writers.items()}, repetitions)
    for mode, times in turns.items():
        pairs = zip(times, turns[base_of(mode)], strict=True)
        found[mode] |= {
            "time": round(statistics.median(a / b for a, b in pairs), 3),
            "is equal": texts[mode] == texts[base_of(mode)],
        }
    return found


def summary(cases: Sequence[Mapping[str, Any]]) -> dict[str, dict[str, Any]]:
    """Summarise each mode: passes of all formats, the median of their times, and the number of equal texts."""
    return {
        mode: {
            "passes": sum(case[mode]["passes"] for case in cases),
            "time": statistics.median(case[mode]["time"] for case in cases),
            "equal": f"{sum(case[mode]['is equal'] for case in cases)} of {len(cases)}",
        }
        for mode in cases[0]
    }


def show(found: dict[str, Any]) -> str:
    rows, aims = [], []
    for engine, by_group in found.items():
        if engine == "machine":
            continue
        for group, modes in by_group.items():
            for mode, one in modes.items():
                if mode == "off":
                    continue
                saved = 1 - one["passes"] / modes[base_of(mode)]["passes"]
                rows.append([engine, group, mode, f"{100 * saved:.0f} %", f"{one['time']:.2f}", one["equal"]])
                if mode == "drafts" and group in AIMS:
                    aims.append(
                        aim(f"{engine}, {group}: share of passes saved by drafts", saved, AIMS[group], at_least=True)
                    )
    head = ["through", "formats", "forced text", "passes saved", "CPU time beside off", "equal texts"]
    return "\n\n".join([markdown(head, rows), "\n".join(aims)])
