"""Lets one release of exllamav2 run the filter, and writes a report as JSON; `test_exllamav2.py` runs it per release.

    python -m tests.engines_real.exllamav2_scenarios OUTPUT

Configuration, tokenizer, cache, generators, sampler and both thread pools are the release's own, its C++ included;
only the forward pass is simulated: its logits depend on nothing but the last token and its position.
"""

from __future__ import annotations

import asyncio
import json
import logging
import random
import sys
import tempfile
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import exllamav2
import torch
from exllamav2.generator import (
    ExLlamaV2BaseGenerator,
    ExLlamaV2DynamicGenerator,
    ExLlamaV2DynamicGeneratorAsync,
    ExLlamaV2DynamicJob,
    ExLlamaV2DynamicJobAsync,
    ExLlamaV2Sampler,
    ExLlamaV2StreamingGenerator,
)
from exllamav2.generator.filters import ExLlamaV2Filter, ExLlamaV2SelectFilter

from examples import exllamav2_simulated as simulated
from formatter_core import Compiler, FormatterBuilder, bitmask, formats
from formatter_core.errors import DeadEnd, FormatterError, LimitExceeded
from formatter_core.runtime.torch_bitmask import RowMasker
from formatter_exllamav2 import FormatterFilter, create_filter, create_vocabulary
from formatter_exllamav2._compat_jobs import least_logits
from tests.engines_real.exllamav2_filters import FailsOnce, Naive, OwnMask
from tests.schemas import closed

SCHEMA = closed(
    {
        "name": {"type": "string", "maxLength": 12},
        "age": {"type": "integer", "minimum": 0, "maximum": 120},
        "tags": {"type": "array", "items": {"enum": ["a", "bé", "日"]}, "maxItems": 3},
    }
)
FORMATS = [SCHEMA, formats.regex(r"[a-f]{1,20}(é|日)?\d{3}"), formats.choice(["true", "false", "name"]), SCHEMA]
PROMPTS = ["abcdefgh", "xyzxyzabc", "Ada the pilot", "true or false"]
Settings = ExLlamaV2Sampler.Settings

SCENARIOS: dict[str, Callable[[], Any]] = {}
_KEPT: dict[str, simulated.Parts] = {}


def scenario(function: Callable[[], Any]) -> Callable[[], Any]:
    SCENARIOS[function.__name__] = function
    return function


def parts(kind: str = "byte level", **options: Any) -> simulated.Parts:
    """Make the objects of the release around one small model; 259 and 265 ids wide, so that their logits are padded."""
    key = repr((kind, sorted(options.items())))
    if key not in _KEPT:
        folder = Path(tempfile.mkdtemp())
        if kind == "byte level":
            text = simulated.byte_level_tokenizer()
            first = len(json.loads(text)["model"]["vocab"])
            ends = [first + 1, first + 2]
        else:
            text, first, ends = simulated.byte_fallback_tokenizer(), 1, [2]
        size = 1 + max([*json.loads(text)["model"]["vocab"].values(), *ends])
        simulated.write_model(folder, text, vocab_size=size, bos=first, eos=ends)
        (folder / "generation_config.json").write_text(json.dumps({"eos_token_id": ends}))
        _KEPT[key] = simulated.Parts(folder, simulated.Random(3), **options)
    return _KEPT[key]


def modes() -> dict[str, dict[str, Any]]:
    """Return the ways to make a filter answer here: in the background or not, and attributes to set on it."""
    found: dict[str, dict[str, Any]] = {"the release's own": {}, "foreground": {"background": False}}
    if hasattr(ExLlamaV2Filter, "can_mask_logits"):
        found["list"] = {"can_mask_logits": lambda: False}
    if hasattr(ExLlamaV2Filter, "allow_return_type_list"):
        found["set"] = {"can_mask_logits": lambda: False, "allow_return_type_list": False}
    return found


def filters_of(made: simulated.Parts, mode: dict[str, Any], which: Sequence[Any] = FORMATS) -> list[FormatterFilter]:
    background, mode = mode.get("background", True), {name: mode[name] for name in mode if name != "background"}
    found = [create_filter(made.tokenizer, format, model=made.model, background=background) for format in which]
    for each in found:
        each.__dict__.update(mode)
    return found


def generated(made: simulated.Parts, filters: Sequence[Any], *, prompts: Any = None, **options: Any) -> dict[str, Any]:
    """Return the texts and ids of one batch, the reasons of their ends, and what the filters make of them."""
    options = {"max_new_tokens": 160, "seed": 7, "gen_settings": Settings(), **options}
    wanted = options.pop("stop_conditions", True)
    if wanted:
        options["stop_conditions"] = filters[0].end_ids
    texts, last = made.generator.generate(
        (prompts or PROMPTS)[: len(filters)],
        filters=[each if isinstance(each, list) else [each] for each in filters],
        completion_only=True,
        return_last_results=True,
        **options,
    )
    results = [
        each.result(output)
        for each, output in zip(filters, last, strict=True)
        if isinstance(each, FormatterFilter) and each.error is None
    ]
    return {
        "texts": texts,
        "reasons": [output["eos_reason"] for output in last],
        "read": [result.text for result in results],
        "complete": [result.is_complete for result in results],
        "accepted": sum(output.get("accepted_draft_tokens", 0) for output in last),
    }


def job_of(made: simulated.Parts, each: Any, prompt: Any = "abcdefgh", **options: Any) -> ExLlamaV2DynamicJob:
    options = {"max_new_tokens": 160, "seed": 7, "stop_conditions": each.end_ids, **options}
    ids = prompt if isinstance(prompt, list) else made.tokenizer.encode(prompt)
    return ExLlamaV2DynamicJob(input_ids=ids, filters=[each], **options)


def written(made: simulated.Parts, *filters: Any, prompt: str = "abcdefgh", max_new_tokens: int = 160) -> str:
    """Return the text of one job with all of these filters, of which one is ours."""
    ends = next(each.end_ids for each in filters if isinstance(each, FormatterFilter))
    options = {"max_new_tokens": max_new_tokens, "seed": 7, "stop_conditions": ends, "completion_only": True}
    return str(made.generator.generate(prompt, filters=list(filters), **options))


# --- the same text in every way ----------------------------------------------------------------------------------


@scenario
def ways() -> Any:
    return sorted(name for name in ("next", "get_next", "mask_logits") if hasattr(ExLlamaV2Filter, name))


@scenario
def texts() -> Any:
    found = {}
    for kind in ("byte level", "byte fallback"):
        made = parts(kind)
        for name, mode in modes().items():
            for batch in (1, 2, 4):  # from 3 jobs on they are sampled in threads
                found[f"{kind}, {batch}, {name}"] = generated(made, filters_of(made, mode, FORMATS[:batch]))
    return found


@scenario
def settings() -> Any:
    """Sampler settings that touch the logits before or behind the filters."""
    made = parts()
    width = made.forward.width
    bias = torch.linspace(-4, 4, width)
    variants = {
        "greedy": Settings.greedy(),
        "penalties": Settings(token_repetition_penalty=1.3, token_frequency_penalty=0.2, token_presence_penalty=0.1),
        "bias": Settings(token_bias=bias),
        "min_p": Settings(top_k=0, top_p=0.0, min_p=0.02, temperature=1.5, temperature_last=True),
        "typical": Settings(typical=0.9, tfs=0.95, top_k=0, top_p=0.9),
        "mirostat": Settings(mirostat=True),
    }
    if hasattr(Settings(), "dry_multiplier"):
        variants["dry"] = Settings(dry_multiplier=0.8)
    return {
        f"{name}, {way}": generated(made, filters_of(made, mode), gen_settings=variant.clone())
        for name, variant in variants.items()
        for way, mode in modes().items()
    }


@scenario
def sampler() -> Any:
    """Ask the sampler itself in each way with the same logits and random numbers, and count the differences."""
    made, differing, steps = parts(), 0, 0
    logits = torch.empty((1, 1, made.forward.width))
    ids = torch.zeros((1, 1), dtype=torch.long)
    chosen: dict[int, set[int]] = {}
    for mode in modes().values():
        (each,) = filters_of(made, mode, [SCHEMA])
        for seed in range(40):
            each.begin("")
            for step in range(8):
                made.forward.source.logits(logits[0, 0], 0, step, seed)
                token = ExLlamaV2Sampler.sample(
                    logits.clone(), Settings(), ids, (seed * 8 + step) / 331, made.tokenizer, filters=[each]
                )[0]
                chosen.setdefault(seed * 8 + step, set()).add(int(token))
                each.feed(token)
                steps += 1
            each.background_drop()
    differing = sum(len(tokens) > 1 for tokens in chosen.values())
    ends = {}
    for name, mode in modes().items():
        (each,) = filters_of(made, mode, [formats.regex("[a-z]*")])
        each.begin("")
        ends[name] = [
            int(ExLlamaV2Sampler.sample(zeros, Settings(), ids, 0.3, made.tokenizer, filters=[each], **wish)[0])
            == made.tokenizer.eos_token_id
            for zeros in [torch.zeros_like(logits)]
            for wish in ({}, {"filter_prefer_eos": True})
        ]
        each.background_drop()
    return {"steps": steps, "differing": differing, "ends": ends}


# --- ends ----------------------------------------------------------------------------------------------------------


@scenario
def ends() -> Any:
    made, found, records = parts(), {}, []
    handler = logging.Handler()
    handler.emit = lambda record: records.append(record.getMessage())  # type: ignore[method-assign]
    logging.getLogger("formatter_exllamav2").addHandler(handler)
    for name, mode in modes().items():
        for stop in (True, False):
            records.clear()
            found[f"{name}, {stop}"] = generated(made, filters_of(made, mode), stop_conditions=stop)
            found[f"{name}, {stop}"]["stop_conditions"] = sum("stop_conditions" in record for record in records)
        found[f"{name}, prefer_eos"] = generated(made, filters_of(made, mode), filter_prefer_eos=True)
        found[f"{name}, min_new_tokens"] = generated(made, filters_of(made, mode), min_new_tokens=100)
        found[f"{name}, cut"] = generated(made, filters_of(made, mode), max_new_tokens=5)
    logging.getLogger("formatter_exllamav2").removeHandler(handler)
    return found


# --- drafts, CFG, healing, other generators --------------------------------------------------------------------------


@scenario
def drafts() -> Any:
    found = {}
    again = parts()
    for kind, options in {
        "n-grams": {"use_ngram_draft": True},
        "draft model": {"draft_model": again.model, "draft_cache": again.cache, "num_draft_tokens": 3},
    }.items():
        made = parts(**options)
        for name, mode in modes().items():
            for batch in (1, 4):
                found[f"{kind}, {batch}, {name}"] = generated(made, filters_of(made, mode, FORMATS[:batch]))
    return found


@scenario
def unpaged() -> Any:
    made = parts(paged=False, max_batch_size=1)
    return {name: generated(made, filters_of(made, mode, [SCHEMA])) for name, mode in modes().items()}


@scenario
def cfg() -> Any:
    made, found = parts(), {}
    for name, mode in modes().items():
        (each,) = filters_of(made, mode, [SCHEMA])
        ids = [made.tokenizer.encode(prompt) for prompt in ("abcdefgh", "hgfedcba")]
        job = job_of(made, each, ids, gen_settings=Settings(cfg_scale=1.4))
        found[name] = result_of_jobs(made.generator, job)[0] | {"complete": each.result().is_complete}
    return found


def result_of_jobs(generator: ExLlamaV2DynamicGenerator, *jobs: ExLlamaV2DynamicJob) -> list[dict[str, Any]]:
    last: dict[Any, dict[str, Any]] = {}
    generator.enqueue(list(jobs))
    while generator.num_remaining_jobs():
        for output in generator.iterate():
            if output["eos"]:
                last[output["job"]] = output
    return [{"text": last[job]["full_completion"], "reason": last[job]["eos_reason"]} for job in jobs]


@scenario
def healing() -> Any:
    made = parts()
    return {name: generated(made, filters_of(made, mode), token_healing=True) for name, mode in modes().items()}


@scenario
def older_generators() -> Any:
    """Run the generators of 0.0.x, which begin filters with lists, None, or the token to be healed."""
    made, found = parts(), {}
    made.model.loaded = True
    for healed in (False, True):
        for name, mode in modes().items():
            (each,) = filters_of(made, mode, [SCHEMA])
            base = ExLlamaV2BaseGenerator(made.model, made.cache, made.tokenizer)
            text = base.generate_simple(
                "abcdefgh", Settings(), 160, seed=7, token_healing=healed, filters=[each], completion_only=True
            )
            found[f"simple, {healed}, {name}"] = {"text": text, "value": each.result().value}
            each = filters_of(made, mode, [SCHEMA])[0]
            streaming = ExLlamaV2StreamingGenerator(made.model, made.cache, made.tokenizer)
            streaming.set_stop_conditions(each.end_ids)
            random.seed(7)
            streaming.begin_stream_ex(
                made.tokenizer.encode("abcdefgh"), Settings(), filters=[each], token_healing=healed
            )
            pieces, ended = [], False
            while not ended and len(pieces) < 200:
                step = streaming.stream_ex()
                pieces.append(step["chunk"])
                ended = step["eos"]
            found[f"streaming, {healed}, {name}"] = {"text": "".join(pieces), "value": each.result().value}
    return found


@scenario
def asynchronous() -> Any:
    made = parts()

    async def one(generator: Any, prompt: str, each: FormatterFilter) -> str:
        options = {"max_new_tokens": 160, "filters": [each], "stop_conditions": each.end_ids}
        job = ExLlamaV2DynamicJobAsync(generator, input_ids=made.tokenizer.encode(prompt), **options)
        return "".join([output.get("text", "") async for output in job])

    async def all_of_them(found: list[FormatterFilter]) -> list[str]:
        generator = ExLlamaV2DynamicGeneratorAsync(
            made.model, made.cache, made.tokenizer, max_batch_size=16, max_q_size=8
        )
        tasks = [one(generator, prompt, each) for prompt, each in zip(PROMPTS, found, strict=True)]
        texts = await asyncio.gather(*tasks)
        await generator.close()
        return list(texts)

    found = filters_of(made, {})
    texts = asyncio.run(all_of_them(found))
    return {"texts": texts, "read": [each.result().text for each in found]}


# --- several filters -------------------------------------------------------------------------------------------------


@scenario
def several_filters() -> Any:
    made, found = parts(), {}
    word = formats.regex("[a-z0-9]{3,12}!")
    for name, mode in modes().items():
        for masks in (False, True):
            for background in (False, True):
                for is_first in (True, False):
                    (each,) = filters_of(made, mode, [word])
                    other = OwnMask(made, masks=masks, background=background)
                    both = [each, other] if is_first else [other, each]
                    texts = [written(made, *both, max_new_tokens=40)]
                    key = f"{name}, masks {masks}, background {background}, first {is_first}"
                    found[key] = {"texts": texts, "read": [each.result().text]}
    pair = filters_of(made, {}, [word, formats.regex("[a-c]+[!?]")])
    written(made, *pair, max_new_tokens=40)
    found["two of ours"] = {"read": [each.result().text for each in pair]}
    (each,) = filters_of(made, {}, [formats.regex("[a-z]{4}")])
    select = ExLlamaV2SelectFilter(made.model, made.tokenizer, ["name", "true", "Ada"])
    text = written(made, select, each, max_new_tokens=4)
    found["with upstream's"] = {"texts": [text], "read": [each.result().text]}
    return found


# --- what goes wrong -------------------------------------------------------------------------------------------------


@scenario
def failures() -> Any:
    made, found = parts(), {}
    for name, mode in modes().items():
        good = filters_of(made, mode, [SCHEMA] * 3)
        vocabulary = create_vocabulary(made.tokenizer, model=made.model)
        engine = FailsOnce(
            Compiler(vocabulary)._engine, "fill_bitmask", after=3, error=LimitExceeded("work", 1, "a step")
        )
        compiled = Compiler(vocabulary, engine=engine).compile(formats.regex("[a-f]{6,20}!"))
        bad = FormatterFilter(made.model, made.tokenizer, compiled)
        bad.__dict__.update(mode)
        batch = generated(made, [good[0], bad, *good[1:]])
        try:
            outcome = bad.result().text
        except FormatterError as error:
            outcome = type(error).__name__
        again = generated(made, [bad])  # its grammar is whole again
        found[name] = {**batch, "outcome": outcome, "again": again["complete"]}
    return found


@scenario
def forbidden() -> Any:
    """Ban all that the format allows by a bias of -inf; the sampler alone would then choose any token."""
    made = parts()
    bias = torch.zeros(made.forward.width)
    tokens = create_vocabulary(made.tokenizer).tokens
    bias[[n for n, data in enumerate(tokens) if data and data[:1] in b"bc"]] = -torch.inf
    (each,) = filters_of(made, {}, [formats.regex("a[bc]{3}")])
    output = generated(made, [each], gen_settings=Settings(token_bias=bias))
    return {"texts": output["texts"], "error": type(each.error).__name__, "reasons": output["reasons"]}


@scenario
def returned_logits() -> Any:
    """A job returns the logits of the model, not those that the filter has masked."""
    made, found = parts(), {}
    for name, mode in modes().items():
        (each,) = filters_of(made, mode, [SCHEMA])
        made.generator.enqueue(job_of(made, each, return_logits=True))
        least = 0.0
        while made.generator.num_remaining_jobs():
            for output in made.generator.iterate():
                if "logits" in output:
                    least = min(least, float(output["logits"][..., : len(create_vocabulary(made.tokenizer))].min()))
        found[name] = {"least": least, "text": each.result().text}
    return found


@scenario
def twice() -> Any:
    made = parts()
    (each,) = filters_of(made, {}, [SCHEMA])
    generated(made, [each, each])
    return {"error": type(each.error).__name__, "again": generated(made, [each])["complete"]}


@scenario
def again_and_again() -> Any:
    """Use one filter for job after job: whole jobs, jobs that are cut off, jobs that are cancelled."""
    made, found = parts(), {}
    for name, mode in modes().items():
        (each,) = filters_of(made, mode, [SCHEMA])
        alone = generated(made, [each])
        cut = generated(made, [each], max_new_tokens=4)
        made.generator.enqueue(job := job_of(made, each, max_new_tokens=50))
        for _ in range(6):
            made.generator.iterate()
        made.generator.cancel(job)
        later = [generated(made, [each])["texts"] for _ in range(2)]
        found[name] = [alone["texts"], cut["complete"], *later]
    return found


@scenario
def preferred_ends() -> Any:
    """Measure each text before its last token, of a format that may end after three letters."""
    made, found = parts(), {}
    for name, mode in modes().items():
        filters = filters_of(made, mode, [formats.regex("[a-z]{3,60}")] * 4)
        generated(made, filters, filter_prefer_eos=True)
        pieces = create_vocabulary(made.tokenizer).tokens
        tokens = [[token for token in each.formatter.tokens if token not in each.end_ids] for each in filters]
        found[name] = [sum(len(pieces[token]) for token in ids[:-1]) for ids in tokens]
    return found


@scenario
def banned_strings() -> Any:
    made = parts()
    (each,) = filters_of(made, {}, [SCHEMA])
    try:
        ExLlamaV2DynamicJob(made.tokenizer.encode("abc"), 10, filters=[each], banned_strings=["x"])
    except AssertionError as error:
        return str(error)
    return None


@scenario
def clones() -> Any:
    made = parts()
    (each,) = filters_of(made, {}, [SCHEMA])
    for copy in (each.clone(), each.clone().clone()):
        generated(made, [copy])
    each.begin("")
    each.feed(first_token(made, "{"))
    copy = each.clone()
    copy.feed(first_token(made, "\n"))
    return [each.formatter.text, copy.formatter.text, generated(made, [copy])["complete"]]


def first_token(made: simulated.Parts, text: str) -> torch.Tensor:
    return made.tokenizer.encode(text)[:, :1]


@scenario
def dead_end() -> Any:
    made = parts()
    lacking = [None if data == b"7" else data for data in create_vocabulary(made.tokenizer).tokens]
    from formatter_core import Vocabulary

    compiled = Compiler(Vocabulary(lacking, create_vocabulary(made.tokenizer).end_ids)).compile(formats.regex("17"))
    each = FormatterFilter(made.model, made.tokenizer, compiled)
    generated(made, [each])
    return isinstance(each.error, DeadEnd)


@scenario
def traps() -> Any:
    """Run filters that are written without care; their failures are the reasons for the design of ours."""
    made, found = parts(), {}
    logits = torch.zeros((1, 1, made.forward.width))
    logits[0, 0, [9, 250]] = torch.tensor([6.0, 5.0])
    ids = torch.zeros((1, 1), dtype=torch.long)

    def sampled(each: Any, scores: torch.Tensor = logits) -> int:
        return int(
            ExLlamaV2Sampler.sample(scores.clone(), Settings.greedy(), ids, 0.5, made.tokenizer, filters=[each])[0]
        )

    lists = hasattr(ExLlamaV2Filter, "allow_return_type_list")
    if lists:
        found["sorted"] = sampled(Naive(made, [3, 9, 250]))
        found["unsorted"] = sampled(Naive(made, [250, 3, 9]))
    if hasattr(ExLlamaV2Filter, "can_mask_logits"):
        found["nothing left"] = sampled(Naive(made, [3], masks=True), torch.full_like(logits, -torch.inf))
        end = made.tokenizer.eos_token_id
        output = result_of_jobs(
            made.generator,
            ExLlamaV2DynamicJob(made.tokenizer.encode("abcdefgh"), 20, filters=[Naive(made, [end], masks=True)]),
        )
        found["never stops"] = output[0]["reason"]
    if lists:
        drafting = parts(use_ngram_draft=True)
        jobs = [ExLlamaV2DynamicJob(made.tokenizer.encode("a" * 30), 30, filters=[Naive(drafting, [97])])]
        try:
            result_of_jobs(drafting.generator, *jobs)
            found["drafts"] = "fine"
        except AssertionError:
            found["drafts"] = "asserts"
        _KEPT.clear()
    return found


# --- tokenizers, prompts, values -------------------------------------------------------------------------------------


@scenario
def vocabularies() -> Any:
    found = {}
    for kind in ("byte level", "byte fallback"):
        made = parts(kind)
        vocabulary = create_vocabulary(made.tokenizer, model=made.model)
        pieces = made.tokenizer.get_id_to_piece_list()
        lossy = [n for n, piece in enumerate(pieces) if "\ufffd" in piece]
        differing = [
            n
            for n, piece in enumerate(pieces)
            if n not in lossy and (vocabulary.text_token(n) or b"").decode("utf-8", "replace") != piece
        ]
        single = {data for data in vocabulary.tokens if data is not None and len(data) == 1}
        found[kind] = {
            "width": len(vocabulary),
            "logits": made.forward.width,
            "bytes": len(single),
            "lossy": len(lossy),
            "differing": differing,
            "ends": list(vocabulary.end_ids),
            "once": create_vocabulary(made.tokenizer, model=made.model) is vocabulary,
        }
    return found


@scenario
def sentencepiece() -> Any:
    """Up to 0.3.0 a `tokenizer.model` is read where it stands alone."""
    import sentencepiece as library

    folder = Path(tempfile.mkdtemp())
    text = folder / "text"
    text.write_text("Ada is a pilot. true or false, name and age\n" * 50)
    library.SentencePieceTrainer.train(
        input=str(text),
        model_prefix=str(folder / "tokenizer"),
        vocab_size=300,
        hard_vocab_limit=False,
        byte_fallback=True,
        character_coverage=1.0,
        minloglevel=2,
    )
    simulated.write_model(folder, "{}", vocab_size=300, bos=1, eos=2)
    (folder / "tokenizer.json").unlink()
    try:
        made = simulated.Parts(folder, simulated.Random(5))
    except (ValueError, FileNotFoundError) as error:
        return str(error)
    (each,) = filters_of(made, {}, [SCHEMA])
    return generated(made, [each])["complete"]


@scenario
def from_the_prompt() -> Any:
    made = parts()
    each = create_filter(made.tokenizer, formats.json_schema(SCHEMA, whitespace="compact"), prefix_str='{"name":"A')
    return {"text": written(made, each, prompt='abc: {"name":"A'), "value": each.result().value}


@scenario
def captures() -> Any:
    made = parts()
    builder = FormatterBuilder()
    builder.append("Age: ", builder.integer(name="age", minimum=0, maximum=99))
    builder.append(", name: ", builder.regex("[a-z]{3}", name="name"), ".")
    each = create_filter(made.tokenizer, builder)
    seen = []
    made.generator.enqueue(job_of(made, each, max_new_tokens=60))
    while made.generator.num_remaining_jobs():
        made.generator.iterate()
        seen += [type(event).__name__ for event in each.events()]
    result = each.result()
    return {"captures": {name: list(values) for name, values in result.captures.items()}, "events": sorted(set(seen))}


@scenario
def fewer_logits() -> Any:
    """Compare the sampler's answers to all masked logits and to those that the filter leaves.

    Sometimes whole blocks of 32 are allowed, and each of their tokens passes min_p and top_a.
    """
    width, random_ = 4096, random.Random(0)
    tokenizer = SimpleNamespace(get_vocab_size=lambda: width, eos_token_id=1)
    row = bitmask.allocate(1, width)[0]
    mask, answers = RowMasker(row), []
    for _ in range(2000):
        row[:] = 0
        allowed = random_.choices(range(random_.randint(1, width)), k=random_.choice([1, 3, 50, 500]))
        if random_.random() < 0.2:
            allowed = list(range(random_.choice([32, 64, 96])))
        bitmask.set_ids(row, allowed)
        settings = Settings(top_k=random_.choice([-7, 0, 0, 1, 50, 700, 3000]), top_p=random_.choice([0, 0.8, 1]))
        settings.temperature, settings.min_p = random_.choice([0, 0.8, 20]), random_.choice([0, 0.05])
        settings.typical, settings.tfs = random_.choice([0, 0.9]), random_.choice([0, 0.9])
        settings.top_a, settings.mirostat = random_.choice([0, 0.001]), random_.random() < 0.1
        settings.temperature_last = settings.temperature > 0 and random_.random() < 0.5
        logits, drawn = torch.randn(width) * random_.choice([0.1, 1, 10]), random_.random()
        job = SimpleNamespace(return_top_tokens=0, gen_settings=settings)
        settings.xtc_probability, settings.min_temp, settings.max_temp = 0.0, 0.0, 0.0  # 0.2.0 does not know the first
        both = []
        for least in (None, least_logits(job)):
            settings.mirostat_mu = None
            masked = mask.masked(logits.clone(), least)
            assert masked is not None
            sampled = ExLlamaV2Sampler.sample(masked.view(1, 1, -1), settings, torch.tensor([[0]]), drawn, tokenizer)
            both.append([len(masked), sampled[0].item(), sampled[3].item()])
        answers.append([*both, both[1][1] in allowed])
    return answers


def main(output: str) -> None:
    report: dict[str, Any] = {"version": exllamav2.__version__}
    for name, function in SCENARIOS.items():
        try:
            report[name] = function()
        except Exception:  # noqa: BLE001 - reported to the test that reads it
            report[name] = {"failed": traceback.format_exc()}
            _KEPT.clear()  # jobs may be left in a generator
    Path(output).write_text(json.dumps(report), encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1])
