"""Outputs of real inference engines under budgets: `max_tokens` from the fewest that are enough to 200 more.

    PYTHONPATH=.:integrations PYTHON scripts/budget_runs.py transformers --output runs.json

PYTHON is that of an environment with the engine: transformers, vllm or llama_cpp. Small models of random weights write
at random, which is the worst of models. Half of the runs are streamed, half are batches of three. Every output must be
complete, in its format, and no longer than its budget.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import tempfile
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

from formatter_core import CompiledFormat, Compiler, formats

_MORE = 200
_BATCH = 3
_PROMPTS = ["the", "abc de", "fa"]
_PERSON = {
    "type": "object",
    "properties": {"name": {"type": "string", "minLength": 2}, "age": {"type": "integer"}, "ok": {"type": "boolean"}},
    "required": ["name", "age"],
}
_TAGS = {"type": "array", "items": {"type": "string"}, "minItems": 1, "uniqueItems": True}
FORMATS: list[Any] = [
    formats.json_schema(_PERSON),
    formats.json_schema(_PERSON, key_order="any"),
    formats.json_schema({"type": "array", "items": {"type": "string"}, "minItems": 2}),
    formats.json_schema(_TAGS),
    formats.regex("[a-z]{3,}( [a-z]+)*[.!]"),
]

#: What an engine wrote: texts, and how many tokens each took at most.
Outputs = list[tuple[str, int]]


class Run:
    """One run: a format, a budget, and how to run it."""

    def __init__(self, seed: int, compiler: Compiler) -> None:
        self.seed = seed
        self.format = FORMATS[seed // 2 % len(FORMATS)]
        self.is_streamed = seed % 2 == 1
        self.compiled: CompiledFormat = compiler.compile(self.format)
        self.max_tokens = self.compiled.min_tokens + random.Random(seed).randint(0, _MORE)

    @property
    def prompts(self) -> list[str]:
        return _PROMPTS[:1] if self.is_streamed else _PROMPTS[:_BATCH]

    def is_right(self, text: str, tokens: int) -> bool:
        return tokens <= self.max_tokens and self.compiled.parse(text).is_complete


def transformers(count: int) -> Iterator[tuple[Run, Outputs]]:
    """`generate()`, with a streamer or with several prompts."""
    import torch
    from transformers import TextIteratorStreamer

    from formatter_transformers import create_logits_processor, create_vocabulary

    models = import_module("tests.engines_real.transformers_models")
    tokenizer = models.trained_tokenizer()
    model = models.random_model("llama", tokenizer)
    compiler = Compiler(create_vocabulary(tokenizer, model=model))
    for seed in range(count):
        torch.manual_seed(seed)
        run = Run(seed, compiler)
        processor = create_logits_processor(tokenizer, run.format, model=model, max_tokens=run.max_tokens)
        inputs = tokenizer(run.prompts, return_tensors="pt", padding=True)
        streamer = TextIteratorStreamer(tokenizer, skip_prompt=True, skip_special_tokens=True)
        output = model.generate(
            **inputs,
            do_sample=True,
            max_new_tokens=run.max_tokens,
            logits_processor=[processor],
            streamer=streamer if run.is_streamed else None,
        )
        results: Any = processor.results(output)
        if run.is_streamed:
            text = "".join(streamer)
            yield run, [(text, len(results[0].tokens))]
        else:
            yield run, [(result.text, len(result.tokens)) for result in results]


def llama_cpp(count: int) -> Iterator[tuple[Run, Outputs]]:
    """`create_completion`, streamed, and the scheduler's batches."""
    from llama_cpp import Llama

    from formatter_core.generation import Sampling
    from formatter_llama_cpp import create_logits_processor, create_vocabulary, generate_parallel

    models = import_module("tests.engines_real.llama_cpp_models")
    with tempfile.TemporaryDirectory() as folder:
        path = models.write_bpe(Path(folder) / "model.gguf")
        llama = Llama(str(path), n_ctx=2048, n_threads=1, n_threads_batch=1, verbose=False, seed=1)
        compiler = Compiler(create_vocabulary(llama))
        for seed in range(count):
            run = Run(seed, compiler)
            if run.is_streamed:
                processor = create_logits_processor(llama, run.format, max_tokens=run.max_tokens)
                chunks: Any = llama.create_completion(
                    run.prompts[0],
                    max_tokens=run.max_tokens,
                    temperature=1.0,
                    seed=seed,
                    stream=True,
                    logits_processor=processor,
                )
                text = "".join(chunk["choices"][0]["text"] for chunk in chunks)
                yield run, [(text, len(processor.result(text).tokens))]
                continue
            batch: Any = generate_parallel(
                llama,
                run.prompts,
                format=run.format,
                max_tokens=run.max_tokens,
                sampling=Sampling(temperature=1.0, seed=seed),
            )
            yield run, [(one.result.text, len(one.result.tokens)) for (one,) in batch]


def vllm(count: int) -> Iterator[tuple[Run, Outputs]]:
    """`LLM.generate` with several prompts, and the engine's own steps with outputs as they come."""
    from vllm import LLM, SamplingParams
    from vllm.sampling_params import RequestOutputKind

    from formatter_vllm import FormatterLogitsProcessor, create_extra_args, create_vocabulary

    models = import_module("tests.engines_real.vllm_models")
    with tempfile.TemporaryDirectory() as folder:
        model = models.make_model(Path(folder) / "model")
        options: dict[str, Any] = {"dtype": "float32", "enforce_eager": True, "max_model_len": 512, "max_num_seqs": 8}
        llm = LLM(model=str(model), logits_processors=[FormatterLogitsProcessor], **options)
        compiler = Compiler(create_vocabulary(llm.get_tokenizer()))
        for seed in range(count):
            run = Run(seed, compiler)
            parameters = SamplingParams(
                max_tokens=run.max_tokens,
                temperature=1.0,
                seed=seed,
                extra_args=create_extra_args(run.format, fit=True),
                output_kind=RequestOutputKind.DELTA if run.is_streamed else RequestOutputKind.FINAL_ONLY,
            )
            if not run.is_streamed:
                outputs = llm.generate(run.prompts, parameters, use_tqdm=False)
                yield run, [(output.outputs[0].text, len(output.outputs[0].token_ids)) for output in outputs]
                continue
            engine = llm.llm_engine
            engine.add_request(str(seed), run.prompts[0], parameters)
            text, tokens = "", 0
            while engine.has_unfinished_requests():
                for output in engine.step():
                    text += output.outputs[0].text
                    tokens += len(output.outputs[0].token_ids)
            yield run, [(text, tokens)]


ENGINES = {"transformers": transformers, "llama_cpp": llama_cpp, "vllm": vllm}


def main() -> int:
    """Run them and write what was found."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("engine", choices=sorted(ENGINES))
    parser.add_argument("--runs", type=int, default=50)
    parser.add_argument("--output", type=Path)
    given = parser.parse_args()
    found: dict[str, Any] = {"engine": given.engine, "runs": 0, "streamed": 0, "outputs": 0, "right": 0}
    wrong = []
    for run, outputs in ENGINES[given.engine](given.runs):
        found["runs"] += 1
        found["streamed"] += run.is_streamed
        for text, tokens in outputs:
            found["outputs"] += 1
            found["right"] += run.is_right(text, tokens)
            if not run.is_right(text, tokens):
                wrong.append({"seed": run.seed, "max_tokens": run.max_tokens, "tokens": tokens, "text": text})
    text = json.dumps({**found, "wrong": wrong}, indent=1, ensure_ascii=False)
    if given.output:
        given.output.write_text(text + "\n", encoding="utf-8")
    sys.stdout.write(text + "\n")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
