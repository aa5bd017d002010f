"""The mlx adapter in the loops of real mlx-lm on a CPU, with the small trained model of the repository."""

from __future__ import annotations

import gc
import importlib.util
import runpy
import threading
from itertools import product
from typing import Any

import pytest

for name in ("mlx", "mlx_lm"):
    if importlib.util.find_spec(name) is None:
        pytest.skip(f"{name} is not installed", allow_module_level=True)

import mlx.core as mx  # noqa: E402
import mlx_lm  # noqa: E402
import numpy as np  # noqa: E402
from mlx_lm.models.cache import make_prompt_cache  # noqa: E402
from mlx_lm.sample_utils import make_logits_processors, make_sampler  # noqa: E402

from formatter_core import Compiler, Cursor, Formatter, bitmask, formats, parse  # noqa: E402
from formatter_core.errors import (  # noqa: E402
    BudgetTooSmall,
    HookNotCalled,
    HookReused,
    IncompleteResult,
    InvalidArgument,
    InvalidVocabulary,
    LimitExceeded,
    TokenRejected,
    WrongModel,
)
from formatter_mlx import (  # noqa: E402
    ForcedDrafts,
    FormatterLogitsProcessor,
    create_logits_processor,
    create_vocabulary,
)
from formatter_mlx.masks import Mask, Row, kind_of  # noqa: E402
from formatter_mlx.sequences import Sequence  # noqa: E402

pytest.register_assert_rewrite("tests.adapters.contract")

from tests.adapters.contract import AdapterContract, FailingEngine  # noqa: E402
from tests.adapters.mlx_sessions import SequenceSession  # noqa: E402
from tests.pages import ROOT, run_page  # noqa: E402
from tests.schemas import closed  # noqa: E402

TINY = ROOT / "examples" / "tiny_model"
PROMPT = "Ivo is 41 years old, lives in Delhi and works as a pilot.\n"
OTHER = "Ann is 7 years old, lives in Oslo and works as a teacher.\n"
SCHEMA = closed(
    {
        "name": {"type": "string", "maxLength": 12},
        "age": {"type": "string", "pattern": "^[0-9]{1,3}$"},
        "city": {"enum": ["Oslo", "Delhi", "Lima"]},
    }
)
#: Each ends within 60 tokens, whatever is sampled.
FORMATS = [
    formats.json_schema(SCHEMA),
    formats.regex("[A-Z][a-z]{2,9}, [0-9]{1,3} years"),
    formats.choice(["yes", "no", "perhaps", "I do not know"]),
    formats.json_schema({"type": "array", "items": {"type": "boolean"}, "maxItems": 6}),
    formats.regex("(é|ü|感|[a-c]){3,12}"),
    formats.sequence(formats.choice(["Age: "]), formats.json_schema({"enum": ["old", "young", None, True]})),
    formats.kbnf('start ::= "(" start ")" | #"[a-z]{1,3}";') | formats.regex("[0-9]{4}-[0-9]{2}"),
    formats.substring_of("Ivo lives in Delhi."),
]
ENDLESS = formats.regex("(?s).*")


class TestContract(AdapterContract):
    """With real arrays; the loops themselves are below."""

    session = SequenceSession


@pytest.fixture(scope="module")
def loaded() -> tuple[Any, Any]:
    return mlx_lm.load(str(TINY))


@pytest.fixture
def model(loaded: tuple[Any, Any]) -> Any:
    return loaded[0]


@pytest.fixture
def tokenizer(loaded: tuple[Any, Any]) -> Any:
    return loaded[1]


@pytest.fixture
def drafting(model: Any, tokenizer: Any) -> Any:
    """Make a draft model that is often right: the model with noise on its weights."""
    other, _ = mlx_lm.load(str(TINY))
    key = mx.random.key(0)
    weights = [(name, value + 0.04 * mx.random.normal(value.shape, key=key)) for name, value in flat(other)]
    other.load_weights([(name, value.astype(mx.float16)) for name, value in weights])
    return other


def flat(model: Any) -> list[tuple[str, mx.array]]:
    from mlx.utils import tree_flatten

    return tree_flatten(model.parameters())


def last_of(model: Any, tokenizer: Any, prompt: Any, **options: Any) -> Any:
    responses = list(mlx_lm.stream_generate(model, tokenizer, prompt, **{"max_tokens": 60, **options}))
    return responses[-1]


@pytest.mark.parametrize("temperature", [0.0, 1.0, 3.0])
@pytest.mark.parametrize("number", range(len(FORMATS)))
def test_every_output_is_complete(model: Any, tokenizer: Any, number: int, temperature: float) -> None:
    for seed in range(2):
        mx.random.seed(seed)
        processor = create_logits_processor(tokenizer, FORMATS[number], model=model)
        options: dict[str, Any] = {"sampler": make_sampler(temperature, top_p=0.9 * seed), "max_tokens": 60}
        text = mlx_lm.generate(model, tokenizer, PROMPT, logits_processors=[processor], **options)
        result = processor.result(text)
        assert result.is_complete
        assert processor.result().text == result.text
        assert parse(FORMATS[number], result.bytes).is_complete


def test_what_comes_out_is_what_the_result_says(model: Any, tokenizer: Any) -> None:
    processor = create_logits_processor(tokenizer, SCHEMA, model=model)
    text = mlx_lm.generate(model, tokenizer, PROMPT, max_tokens=80, logits_processors=[processor])
    result = processor.result(text)
    assert result.value["name"] == "Ivo"
    assert result.text == text


def test_an_output_that_is_cut_says_so(model: Any, tokenizer: Any) -> None:
    processor = create_logits_processor(tokenizer, formats.regex("[a-z]{300}"))
    result = processor.result(last_of(model, tokenizer, PROMPT, max_tokens=9, logits_processors=[processor]))
    assert (result.ended, len(result.tokens)) == ("length", 9)
    with pytest.raises(IncompleteResult):
        _ = result.value


def test_with_a_budget_no_output_is_cut(model: Any, tokenizer: Any, drafting: Any) -> None:
    """Alone, with drafts and in a batch; the loop's own limit is the same number."""
    person = {**SCHEMA, "properties": {**SCHEMA["properties"], "age": {"type": "integer"}}}
    for seed, format in enumerate([person, formats.regex("[a-z]{3,300}"), formats.regex("(x, )*y")]):
        mx.random.seed(seed)
        for options in ({"sampler": make_sampler(1.5)}, {"draft_model": drafting}):
            processor = create_logits_processor(tokenizer, format, model=model, max_tokens=40)
            last = last_of(model, tokenizer, PROMPT, max_tokens=40, logits_processors=[processor], **options)
            assert processor.result(last).is_complete
        processor = create_logits_processor(tokenizer, format, model=model, max_tokens=40)
        prompts = [tokenizer.encode(text) for text in (PROMPT, OTHER)]
        batch = mlx_lm.batch_generate(model, tokenizer, prompts, max_tokens=40, logits_processors=[processor])
        assert all(result.is_complete for result in processor.results(batch))
    with pytest.raises(BudgetTooSmall):
        create_logits_processor(tokenizer, SCHEMA, max_tokens=2)


def test_a_stream_that_is_left_early(model: Any, tokenizer: Any) -> None:
    processor = create_logits_processor(tokenizer, SCHEMA)
    for response in mlx_lm.stream_generate(model, tokenizer, PROMPT, logits_processors=[processor]):
        if response.generation_tokens == 3:
            break
    result = processor.result(response)
    assert len(result.tokens) == 3
    assert not result.is_complete


def test_generate_step(model: Any, tokenizer: Any) -> None:
    from mlx_lm.generate import generate_step

    processor = create_logits_processor(tokenizer, FORMATS[2])
    tokens = []
    for token, _ in generate_step(mx.array(tokenizer.encode(PROMPT)), model, logits_processors=[processor]):
        if token in tokenizer.eos_token_ids:
            break
        tokens.append(token)
    assert processor.result().is_complete
    assert tokenizer.decode(tokens) == processor.result().text


@pytest.mark.parametrize("drafts", [1, 3])
@pytest.mark.parametrize("number", [0, 1, 5, 7])
def test_a_draft_model_changes_no_greedy_output(
    model: Any, tokenizer: Any, drafting: Any, number: int, drafts: int
) -> None:
    for prompt in (PROMPT, "A"):
        options: dict[str, Any] = {"max_tokens": 9 + 4 * number}
        alone = create_logits_processor(tokenizer, FORMATS[number], model=model)
        expected = alone.result(last_of(model, tokenizer, prompt, logits_processors=[alone], **options))
        options |= {"draft_model": drafting, "num_draft_tokens": drafts}
        drafted = create_logits_processor(tokenizer, FORMATS[number], model=model)
        result = drafted.result(last_of(model, tokenizer, prompt, logits_processors=[drafted], **options))
        assert (result.tokens, result.ended) == (expected.tokens, expected.ended)
        by_text = create_logits_processor(tokenizer, FORMATS[number])
        text = mlx_lm.generate(model, tokenizer, prompt, logits_processors=[by_text], **options)
        assert by_text.result(text).bytes == expected.bytes


def test_sampling_with_a_draft_model(model: Any, tokenizer: Any, drafting: Any) -> None:
    for seed, format in enumerate(FORMATS):
        mx.random.seed(seed)
        processor = create_logits_processor(tokenizer, format)
        options = {"draft_model": drafting, "num_draft_tokens": 3, "sampler": make_sampler(1.5)}
        assert processor.result(last_of(model, tokenizer, PROMPT, logits_processors=[processor], **options)).is_complete


@pytest.mark.parametrize("drafts", [1, 3, 8])
def test_forced_text_as_drafts(model: Any, tokenizer: Any, drafts: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Greedy outputs are those without drafts, and there are fewer passes; samples are in their formats."""
    passes = []
    compute = type(model).__call__
    monkeypatch.setattr(type(model), "__call__", lambda *given, **more: (passes.append(1), compute(*given, **more))[1])
    forced = ForcedDrafts(model, tokenizer)
    certain = formats.regex("[A-Z][a-z]{1,9} is ([0-9]{1,3}) years old, lives in (Oslo|Delhi) and works as a pilot")
    for number, format in enumerate([*FORMATS, certain]):
        counts, outputs = [], []
        for more in ({}, {"draft_model": forced, "num_draft_tokens": drafts}):
            passes.clear()
            processor = create_logits_processor(tokenizer, format, model=model)
            options: dict[str, Any] = {"max_tokens": 60 - 9 * (number % 3), **more}
            result = processor.result(last_of(model, tokenizer, PROMPT, logits_processors=[processor], **options))
            outputs.append((result.tokens, result.ended))
            counts.append(len(passes))
        assert outputs[0] == outputs[1]
        if format is certain:
            assert counts[1] < counts[0]
        mx.random.seed(number)
        processor = create_logits_processor(tokenizer, format, max_tokens=60)
        options = {"draft_model": forced, "num_draft_tokens": drafts, "sampler": make_sampler(1.5)}
        assert processor.result(last_of(model, tokenizer, PROMPT, logits_processors=[processor], **options)).is_complete
    proposed = forced.proposed
    assert proposed > 0

    processor = create_logits_processor(tokenizer, formats.regex("[a-z]{5,9}"))
    options = {"draft_model": forced, "num_draft_tokens": drafts, "logits_processors": [processor]}
    assert processor.result(last_of(model, tokenizer, PROMPT, **options)).is_complete
    assert forced.proposed == proposed


def test_what_forced_drafts_refuse(model: Any, tokenizer: Any) -> None:
    for wrong in ((None, tokenizer), (5, tokenizer)):
        with pytest.raises(InvalidArgument):
            ForcedDrafts(*wrong)
    with pytest.raises(InvalidVocabulary):
        ForcedDrafts(model, "a name")


def batch_of(loaded: tuple[Any, Any], requests: list[tuple[list[int], Any]], arrivals: int = 0) -> list[Any]:
    """Return the results of a `BatchGenerator` whose rows come in groups: the next ones after so many steps."""
    from mlx_lm.generate import BatchGenerator

    model, tokenizer = loaded
    generator = BatchGenerator(model, max_tokens=60, stop_tokens=[[end] for end in tokenizer.eos_token_ids])
    hooks, lasts, waiting = {}, {}, list(requests)

    def insert(count: int) -> None:
        for prompt, format in waiting[:count]:
            processor = None if format is None else create_logits_processor(tokenizer, format, model=model)
            (uid,) = generator.insert([prompt], logits_processors=[[] if processor is None else [processor]])
            hooks[uid] = processor
        del waiting[:count]

    insert(len(waiting) if not arrivals else 4)
    steps = 0
    while responses := generator.next_generated():
        lasts.update({response.uid: response for response in responses if response.finish_reason})
        steps += 1
        if waiting and steps % arrivals == 0:
            insert(3)
    generator.close()
    assert not waiting
    return [hooks[uid].result(lasts[uid]) if hooks[uid] else lasts[uid].all_tokens for uid in sorted(hooks)]


@pytest.mark.parametrize("arrivals", [0, 3])
def test_a_batch_of_sixteen_equals_solo_runs(loaded: tuple[Any, Any], arrivals: int) -> None:
    model, tokenizer = loaded
    prompts = [tokenizer.encode(text) for text in (PROMPT, OTHER, "Ann", "Is it so? ")]
    requests = [(prompts[row % 4], [*FORMATS, None][row % 9]) for row in range(16)]
    found = batch_of(loaded, requests, arrivals)
    for (prompt, format), result in zip(requests, found, strict=True):
        if format is None:
            continue
        processor = create_logits_processor(tokenizer, format)
        alone = processor.result(last_of(model, tokenizer, prompt, logits_processors=[processor]))
        assert (result.bytes, result.ended) == (alone.bytes, alone.ended)


def test_batch_generate_with_one_format_and_with_one_for_each_prompt(model: Any, tokenizer: Any) -> None:
    prompts = [tokenizer.encode(text) for text in (PROMPT, OTHER, "Ann")]
    processor = create_logits_processor(tokenizer, SCHEMA, model=model)
    batch = mlx_lm.batch_generate(model, tokenizer, prompts, max_tokens=60, logits_processors=[processor])
    results = processor.results(batch)
    assert [result.text for result in results] == batch.texts
    assert all(result.is_complete for result in results)
    with pytest.raises(InvalidArgument, match="results"):
        processor.result()
    several = create_logits_processor(tokenizer, formats=[SCHEMA, FORMATS[2], None])
    batch = mlx_lm.batch_generate(model, tokenizer, prompts, max_tokens=60, logits_processors=[several])
    first, second, third = several.results(batch)
    assert (first.text, second.text, third) == (*batch.texts[:2], None)
    short = create_logits_processor(tokenizer, formats=[SCHEMA, SCHEMA])
    batch = mlx_lm.batch_generate(model, tokenizer, prompts, max_tokens=60, logits_processors=[short])
    assert batch.texts[2] == ""
    with pytest.raises(InvalidArgument):
        short.results(batch)


def test_prompt_caches(model: Any, tokenizer: Any) -> None:
    """The conversation's beginning is in the cache, so that processors are shown the rest alone."""
    cache = make_prompt_cache(model)
    for number in (0, 2, 1):
        processor = create_logits_processor(tokenizer, FORMATS[number])
        options = {"prompt_cache": cache, "logits_processors": [processor]}
        result = processor.result(last_of(model, tokenizer, PROMPT, **options))
        assert result.is_complete


def test_beside_other_processors(model: Any, tokenizer: Any) -> None:
    """A bias towards what the format forbids, and penalties, before and behind the format."""
    others = make_logits_processors({5: 100.0}, repetition_penalty=1.3)
    for order in (lambda own: [*others, own], lambda own: [own, *others]):
        processor = create_logits_processor(tokenizer, SCHEMA)
        text = mlx_lm.generate(model, tokenizer, PROMPT, max_tokens=90, logits_processors=order(processor))
        assert processor.result(text).is_complete


def shown_by(change: Any, own: Any) -> Any:
    """Make a processor that shows another one something else than the loop's list."""
    return lambda tokens, logits: own(change(tokens), logits)


def test_a_list_that_is_not_the_loops_own(model: Any, tokenizer: Any) -> None:
    """The processor follows a part of the output that grows with it, and refuses any other part."""
    for change in (lambda tokens: tokens[3:], lambda tokens: tokens[-1:], lambda tokens: tokens[:5]):
        own = create_logits_processor(tokenizer, SCHEMA)
        options = {"logits_processors": [shown_by(change, own)], "max_tokens": 90}
        if len(change(mx.arange(9))) > 5:
            assert own.result(last_of(model, tokenizer, PROMPT, **options)).is_complete
        else:
            with pytest.raises((HookReused, InvalidArgument)):
                own.result(last_of(model, tokenizer, PROMPT, **options))


def test_an_output_of_many_tokens(model: Any, tokenizer: Any) -> None:
    """An output is the same whether its tokens are read one by one or with the whole list."""
    outputs = []
    for change in (lambda tokens: tokens, lambda tokens: tokens[0:]):
        own = create_logits_processor(tokenizer, formats.regex("[a-z ]{3000,}"))
        mx.random.seed(3)
        options = {"sampler": make_sampler(1.0), "max_tokens": 600, "logits_processors": [shown_by(change, own)]}
        result = own.result(last_of(model, tokenizer, PROMPT, **options))
        outputs.append((result.tokens, result.ended))
    assert outputs[0] == outputs[1]
    assert (len(outputs[0][0]), outputs[0][1]) == (600, "length")


def test_a_processor_that_lets_a_forbidden_token_through(model: Any, tokenizer: Any) -> None:
    def opened(tokens: mx.array, logits: mx.array) -> mx.array:
        return mx.zeros(logits.shape, logits.dtype)

    processor = create_logits_processor(tokenizer, SCHEMA)
    text = mlx_lm.generate(model, tokenizer, PROMPT, max_tokens=9, logits_processors=[processor, opened])
    with pytest.raises(TokenRejected):
        processor.result(text)


def test_logits_that_are_no_numbers(loaded: tuple[Any, Any]) -> None:
    """The sampled token is then outside the format, so the output may only end, and says why."""
    model, tokenizer = loaded

    def broken(tokens: mx.array, logits: mx.array) -> mx.array:
        return logits + float("nan")

    processor = create_logits_processor(tokenizer, formats.regex("[a-z]{5}"))
    text = mlx_lm.generate(model, tokenizer, PROMPT, max_tokens=9, logits_processors=[broken, processor])
    with pytest.raises(TokenRejected):
        processor.result(text)


# --- one hook, one call ----------------------------------------------------------------------------------------------


def test_a_second_call_with_the_same_prompt(model: Any, tokenizer: Any) -> None:
    processor = create_logits_processor(tokenizer, SCHEMA)
    first = mlx_lm.generate(model, tokenizer, PROMPT, max_tokens=60, logits_processors=[processor])
    gc.collect()
    for options in ({}, {"draft_model": model}):
        with pytest.raises(HookReused):
            mlx_lm.generate(model, tokenizer, PROMPT, max_tokens=60, logits_processors=[processor], **options)
    assert processor.result(first).is_complete
    processor.reset()
    assert mlx_lm.generate(model, tokenizer, PROMPT, max_tokens=60, logits_processors=[processor]) == first


def test_texts_of_other_calls_are_refused(model: Any, tokenizer: Any) -> None:
    prompts = [tokenizer.encode(text) for text in (PROMPT, OTHER)]
    processor, other = (create_logits_processor(tokenizer, format) for format in (SCHEMA, formats.regex("[a-z ]{20}")))
    first, second = (
        mlx_lm.batch_generate(model, tokenizer, prompts, max_tokens=60, logits_processors=[one])
        for one in (processor, other)
    )
    with pytest.raises(InvalidArgument, match="not an output of the call"):
        processor.results(second)
    again = mlx_lm.batch_generate(model, tokenizer, prompts, max_tokens=60, logits_processors=[processor])
    with pytest.raises(HookReused):  # its rows could only end
        processor.results(again)
    assert all(result.is_complete for result in processor.results(first))
    alone = create_logits_processor(tokenizer, SCHEMA)
    text = mlx_lm.generate(model, tokenizer, PROMPT, max_tokens=60, logits_processors=[alone])
    for wrong in ("", text[:-1], text + text, first.texts[1]):
        with pytest.raises(InvalidArgument, match="not an output of the call"):
            alone.result(wrong)
    assert alone.result(f" {text}").is_complete  # detokenizers differ in spaces


def test_a_text_may_have_the_name_of_its_end(model: Any, tokenizer: Any) -> None:
    """In letters; the detokenizer writes the name of the end id that follows, or leaves it out."""
    wanted = f"say {tokenizer.eos_token} now"
    processor = create_logits_processor(tokenizer, formats.choice([wanted]))
    text = mlx_lm.generate(model, tokenizer, PROMPT, max_tokens=60, logits_processors=[processor])
    assert processor.result(text).value == wanted


def test_two_calls_at_the_same_time(model: Any, tokenizer: Any) -> None:
    """The second is refused before a token is chosen; the first does not notice."""
    processor = create_logits_processor(tokenizer, SCHEMA)
    running = mlx_lm.stream_generate(model, tokenizer, PROMPT, logits_processors=[processor])
    parts = [next(running).text for _ in range(3)]
    with pytest.raises(HookReused):
        next(iter(mlx_lm.stream_generate(model, tokenizer, PROMPT, logits_processors=[processor])))
    causes: list[Any] = []

    def elsewhere() -> None:
        try:
            mlx_lm.generate(model, tokenizer, PROMPT, logits_processors=[processor])
        except HookReused as error:
            causes.append(error)

    thread = threading.Thread(target=elsewhere)
    thread.start()
    thread.join()
    assert len(causes) == 1
    text = "".join([*parts, *(response.text for response in running)])
    assert processor.result(text).text == text
    assert processor.result(text).is_complete


def lasts_of(loaded: tuple[Any, Any], *processors: Any) -> dict[int, Any]:
    """Run a batch with a row for each processor, and return the last response of each row."""
    from mlx_lm.generate import BatchGenerator

    model, tokenizer = loaded
    generator = BatchGenerator(model, max_tokens=60, stop_tokens=[[end] for end in tokenizer.eos_token_ids])
    prompts = [tokenizer.encode(PROMPT)] * len(processors)
    generator.insert(prompts, logits_processors=[[processor] for processor in processors])
    lasts: dict[int, Any] = {}
    while responses := generator.next_generated():
        lasts.update({response.uid: response for response in responses})
    generator.close()
    return lasts


def test_a_hook_of_a_batch_that_another_batch_gets(loaded: tuple[Any, Any]) -> None:
    model, tokenizer = loaded
    processor = create_logits_processor(tokenizer, SCHEMA)
    mlx_lm.generate(model, tokenizer, PROMPT, logits_processors=[processor])
    neighbour = create_logits_processor(tokenizer, SCHEMA)
    lasts = lasts_of(loaded, processor, neighbour)
    assert lasts[0].finish_reason == "stop"
    with pytest.raises(HookReused):
        processor.result(lasts[0])
    assert neighbour.result(lasts[1]).value["name"] == "Ivo"


def test_a_failing_row_ends_alone(loaded: tuple[Any, Any]) -> None:
    model, tokenizer = loaded
    broken = RuntimeError("broken")
    vocabulary = create_vocabulary(tokenizer, model=model)
    engine = FailingEngine(Compiler(vocabulary)._engine, "fill_bitmask", after=3, error=broken)
    failing = FormatterLogitsProcessor(Compiler(vocabulary, engine=engine).compile(formats.regex("[a-z]{9}!")))
    neighbour = create_logits_processor(tokenizer, SCHEMA)
    lasts = lasts_of(loaded, failing, neighbour)
    with pytest.raises(RuntimeError, match="broken"):
        failing.result(lasts[0])
    assert neighbour.result(lasts[1]).value["name"] == "Ivo"


def test_another_model(model: Any, tokenizer: Any, drafting: Any) -> None:
    processor = create_logits_processor(tokenizer, SCHEMA, model=model)
    with pytest.raises(WrongModel):
        mlx_lm.generate(drafting, tokenizer, PROMPT, logits_processors=[processor])


def test_embeddings_without_a_prompt_are_refused(model: Any, tokenizer: Any) -> None:
    """Their first token is sampled without a mask."""
    from mlx_lm.generate import generate_step

    processor = create_logits_processor(tokenizer, SCHEMA)
    embeddings = model.model.embed_tokens(mx.array(tokenizer.encode(PROMPT)))
    with pytest.raises((InvalidArgument, ValueError)):
        next(generate_step(mx.array([]), model, input_embeddings=embeddings, logits_processors=[processor]))


def test_wrong_calls(model: Any, tokenizer: Any) -> None:
    with pytest.raises(InvalidArgument):
        create_logits_processor(tokenizer)
    with pytest.raises(InvalidArgument):
        create_logits_processor(tokenizer, SCHEMA, formats=[SCHEMA])
    with pytest.raises(InvalidVocabulary):
        create_logits_processor("a name", SCHEMA)
    processor = create_logits_processor(tokenizer, SCHEMA)
    with pytest.raises(HookNotCalled):
        processor.result()
    with pytest.raises(InvalidArgument, match="list"):
        mlx_lm.generate(model, tokenizer, PROMPT, logits_processors=processor)
    last = last_of(model, tokenizer, PROMPT, logits_processors=[processor])
    other = create_logits_processor(tokenizer, formats.regex("[a-z]{9}"))
    last_of(model, tokenizer, PROMPT, logits_processors=[other])
    for output in (last, 3, object(), {"text": "a"}, [last]):
        with pytest.raises(InvalidArgument):
            other.result(output)
    for outputs in (last, "text", 3, [last, last], [3]):
        with pytest.raises(InvalidArgument):
            other.results(outputs)


@pytest.mark.parametrize("dtype", [mx.float32, mx.float16, mx.bfloat16])
@pytest.mark.parametrize("width", [77, 96, 1000, 1031])
def test_masks_are_exact(dtype: Any, width: int) -> None:
    """Whatever is allowed keeps its bits, and whatever is not is -inf, whatever it was; so too when it comes back."""
    rng = np.random.default_rng(width)
    values = rng.normal(size=(1, width)).astype(np.float32)
    values[0, :6] = np.inf, -np.inf, 0.0, -0.0, np.nan, -np.nan
    logits, bits = mx.array(values, dtype), {2: mx.uint16, 4: mx.uint32}[dtype.size]
    masks = [rng.random(1000) < share for share in (0, 0.001, 0.02, 0.5, 0.999, 1, 1)]
    masks += [np.isin(range(1000), ids) for ids in ([0, 64], [1])]  # whose words have the same sum
    for row, allowed in [*product([Row(1000)], masks), *product([Row(1000)], reversed(masks))]:
        allowed[width:] = False
        ids = np.flatnonzero(allowed)
        row.words[:] = 0
        bitmask.set_ids(row.words, ids.tolist())
        masked = row.mask(kind_of(width, dtype)).apply(logits)
        assert masked.dtype == dtype
        found = np.array(masked.astype(mx.float32))[0]
        assert np.isneginf(np.delete(found, ids)).all()
        same = np.array(masked.view(bits) == logits.view(bits))[0]
        assert same[ids].all()


@pytest.mark.parametrize("is_evaluated", [False, True])
def test_masked_logits_stay_as_they_are_and_may_be_changed_in_place(is_evaluated: bool) -> None:
    """Neither the next mask's logits nor what a loop writes into them changes any others."""
    row, outputs = Row(1000), []
    for number, ids in enumerate([[5], [5], [7, 9], list(range(990)), [5], [7, 9]]):
        row.words[:] = 0
        bitmask.set_ids(row.words, ids)
        masked = row.mask(kind_of(1000, mx.float32)).apply(mx.full((1, 1000), float(number)))
        if is_evaluated:
            mx.eval(masked)
        masked[:, 990 + number] = 100.0
        outputs.append((masked, ids, number))
    for masked, ids, number in outputs:
        expected = np.full((1, 1000), -np.inf)
        expected[:, ids] = number
        expected[:, 990 + number] = 100.0
        assert (np.array(masked) == expected).all()


def test_masks_that_are_known_by_numbers(tokenizer: Any) -> None:
    """The row is not written where its mask is on the device, and what comes back is the mask after the tokens kept."""
    compiled = Compiler(create_vocabulary(tokenizer)).compile(formats.regex("[a-z]{2,30}[.!]"))
    prompt, (letter, dot) = np.array([5]), tokenizer.encode("a.", add_special_tokens=False)
    logits = mx.zeros((1, len(compiled.vocabulary)))

    def begun() -> Sequence:
        return Sequence(compiled, prompt, False)

    def expected(tokens: list[int]) -> list[int]:
        formatter = compiled.formatter()
        assert formatter.accept_tokens(tokens) == len(tokens)
        return formatter.allowed_tokens()

    def allowed(sequence: Sequence) -> list[int]:
        return np.flatnonzero(np.array(sequence.masked(logits))[0] == 0).tolist()

    filled = []
    with pytest.MonkeyPatch.context() as patch:
        fill = Cursor.fill_bitmask
        patch.setattr(Cursor, "fill_bitmask", lambda self, row: (filled.append(self.length), fill(self, row)))
        for round in range(3):
            sequence = begun()
            filled.clear()
            for tokens in ([letter], [letter, letter], [letter, letter, dot], [letter], [letter, letter]):
                sequence.follow(np.array([*prompt, *tokens]))
                assert allowed(sequence) == expected(tokens)
            assert round < 2 or filled == [3, 1]  # where only the end may follow, and where tokens were taken back


def test_a_mask_of_a_failed_sequence_gets_no_number(tokenizer: Any) -> None:
    compiled = Compiler(create_vocabulary(tokenizer)).compile(formats.regex("[a-z]{2,30}[.!] 22"))
    letter = tokenizer.encode("a", add_special_tokens=False)[0]
    logits = mx.zeros((1, len(compiled.vocabulary)))
    formatter = compiled.formatter()
    formatter.step(letter, bitmask.allocate(1, len(compiled.vocabulary))[0])  # its mask is kept from now on
    allowed = formatter.allowed_tokens()

    def fail(self: Any, row: Any) -> None:
        raise LimitExceeded("work", 1, "the mask")

    for is_failing in (True, False):
        sequence = Sequence(compiled, np.array([5]), False)
        sequence.append(letter)
        with pytest.MonkeyPatch.context() as patch:
            if is_failing:
                patch.setattr(Formatter, "fill_bitmask", fail)
            found = np.flatnonzero(np.array(sequence.masked(logits))[0] == 0).tolist()
        assert found == (list(formatter.end_ids) if is_failing else allowed)


def test_masks_hold_no_logits() -> None:
    width, rows = 100_000, [Row(100_000) for _ in range(30)]
    before = mx.get_active_memory()
    for row in rows:
        bitmask.set_ids(row.words, [5])
        mask = row.mask(kind_of(width, mx.float32))
        assert mx.argmax(mask.apply(mx.zeros((1, width)))).item() == 5
    assert mx.get_active_memory() - before < 10 * 4 * width


def test_the_last_token_is_all_that_a_mask_waits_for(model: Any, tokenizer: Any) -> None:
    """The forward pass is under way before the mask is made, and its logits are never read on the host."""
    order: list[str] = []
    evaluate, apply = mx.async_eval, Mask.apply
    processor = create_logits_processor(tokenizer, SCHEMA)

    def noted(self: Any, *arguments: Any) -> Any:
        order.append("mask")
        return apply(self, *arguments)

    def noted_eval(*arrays: Any) -> None:
        order.append("model" if getattr(arrays[0], "ndim", 1) == 2 else "token")
        evaluate(*arrays)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Mask, "apply", noted)
        patch.setattr(mx, "async_eval", noted_eval)
        mlx_lm.generate(model, tokenizer, PROMPT, max_tokens=5, logits_processors=[processor])
    steps = [name for name in order if name != "token"]
    assert steps[:10] == ["model", "mask"] * 5


def test_the_example(capsys: pytest.CaptureFixture[str]) -> None:
    runpy.run_path(str(ROOT / "examples" / "mlx_json.py"), run_name="__main__")
    assert capsys.readouterr().out.startswith("Person(name='Ivo'")


def test_the_code_of_the_page_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    run_page(ROOT / "docs" / "mlx.md")
