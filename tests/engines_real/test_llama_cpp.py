"""The adapter on llama-cpp-python itself, with small models of random weights."""

from __future__ import annotations

import collections
import json
import re
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

llama_cpp = pytest.importorskip("llama_cpp", reason="llama-cpp-python is not installed")
pytest.importorskip("gguf", reason="the models are written with the gguf package")
pytest.importorskip("tokenizers", reason="the vocabulary of a model is trained with the tokenizers package")

from llama_cpp import Llama  # noqa: E402
from llama_cpp.llama_speculative import LlamaDraftModel  # noqa: E402

from formatter_core import FormatterBuilder, formats  # noqa: E402
from formatter_core.errors import HookNotCalled, HookReused, InvalidArgument, NoTokenLeft, WrongModel  # noqa: E402
from formatter_llama_cpp import (  # noqa: E402
    ForcedDrafts,
    Scheduler,
    create_logits_processor,
    create_sampler,
    create_vocabulary,
    llama_model,
    mask_logits,
)
from tests.engines_real.llama_cpp_models import LONG_TOKEN, write_bpe, write_spm  # noqa: E402
from tests.schemas import closed  # noqa: E402
from tests.threads import in_threads  # noqa: E402

SCHEMA = closed({"name": {"type": "string", "maxLength": 12}, "age": {"type": "integer", "minimum": 0, "maximum": 99}})
LINE = formats.regex("[a-z]{3,8}( [a-z]{2,6}){1,3}[.!]")
IS_LINE = re.compile("[a-z]{3,8}( [a-z]{2,6}){1,3}[.!]")


@pytest.fixture(scope="module", params=["bpe", "spm"])
def model(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    write = {"bpe": write_bpe, "spm": write_spm}[request.param]
    path = write(tmp_path_factory.mktemp("models") / f"{request.param}.gguf")
    assert path.stat().st_size < 1_000_000
    return path


def load(model: Path, **options: Any) -> Any:
    return llama_cpp.Llama(str(model), n_ctx=512, n_threads=1, n_threads_batch=1, verbose=False, seed=1, **options)


@pytest.fixture(scope="module")
def llama(model: Path) -> Iterator[Any]:
    llama = load(model)
    yield llama
    close(llama)


def close(llama: Any) -> None:
    """Close a model; releases before 0.2.77 free it when nothing holds it."""
    if hasattr(llama, "close"):
        llama.close()


needs_samplers = pytest.mark.skipif(
    not hasattr(llama_cpp, "llama_sampler_init"), reason="the release has no samplers of one's own"
)


# --- the vocabulary ----------------------------------------------------------------------------------------------


def test_a_text_is_the_bytes_of_its_tokens(llama: Any) -> None:
    vocabulary = create_vocabulary(llama)
    assert len(vocabulary) == llama.n_vocab()
    for text in ('{"name": "Ada", "age": 42}', "naïve café 日本 привет 😀\n\t", LONG_TOKEN, "a" * 80):
        ids = llama.tokenize(text.encode(), add_bos=False, special=False)
        assert b"".join(vocabulary.tokens[token] for token in ids).decode().lstrip(" ") == text
    assert create_vocabulary(llama) is vocabulary


def test_special_tokens_have_no_text_and_every_end_is_known(llama: Any) -> None:
    vocabulary = create_vocabulary(llama)
    is_bpe = LONG_TOKEN.encode() in vocabulary.tokens
    ends = {llama.token_eos(), llama._model.token_eot()} if is_bpe else {llama.token_eos()}
    assert len(ends) == 1 + is_bpe
    assert set(vocabulary.end_ids) == ends
    assert vocabulary.tokens[llama.token_bos()] is None
    assert all(vocabulary.text_token(end) is None for end in ends)


# --- the logits processor ----------------------------------------------------------------------------------------


def test_completions_are_in_their_format(llama: Any) -> None:
    for seed in range(4):
        with create_logits_processor(llama, LINE) as processor:
            output = llama.create_completion("the name", max_tokens=200, seed=seed, logits_processor=processor)
        assert IS_LINE.fullmatch(output["choices"][0]["text"])
        assert output["choices"][0]["finish_reason"] == "stop"
        assert processor.result(output).value == output["choices"][0]["text"]


def test_a_chat_completion_becomes_a_value(llama: Any) -> None:
    messages = [{"role": "user", "content": "Who?"}]
    for seed in range(3):
        with create_logits_processor(llama, SCHEMA) as processor:
            output = llama.create_chat_completion(messages, max_tokens=300, seed=seed, logits_processor=processor)
        value = processor.result(output).value
        assert value == json.loads(output["choices"][0]["message"]["content"])
        assert 0 <= value["age"] <= 99


def test_streams_are_in_their_format(llama: Any) -> None:
    with create_logits_processor(llama, LINE) as processor:
        chunks = llama.create_completion("the name", max_tokens=200, stream=True, logits_processor=processor)
        text = "".join(chunk["choices"][0]["text"] for chunk in chunks)
    assert IS_LINE.fullmatch(text)
    assert processor.result(text).value == text
    with create_logits_processor(llama, SCHEMA) as processor:
        stream = llama.create_chat_completion(
            [{"role": "user", "content": "Who?"}], max_tokens=300, stream=True, logits_processor=processor
        )
        text = "".join(chunk["choices"][0]["delta"].get("content", "") for chunk in stream)
    assert processor.result(text).value == json.loads(text)


@pytest.mark.parametrize(
    "options",
    [
        {"temperature": 0},
        {"temperature": 1.5, "top_k": 0, "top_p": 1.0, "min_p": 0.0},
        {"top_k": 1},
        {"mirostat_mode": 2},
        {"repeat_penalty": 1.3, "frequency_penalty": 0.5, "presence_penalty": 0.5},
        pytest.param({"temperature": -1.0}, marks=needs_samplers),
    ],
    ids=str,
)
def test_every_way_to_sample(llama: Any, options: dict[str, Any]) -> None:
    with create_logits_processor(llama, LINE) as processor:
        output = llama.create_completion("people", max_tokens=200, logits_processor=processor, **options)
    assert IS_LINE.fullmatch(output["choices"][0]["text"])


def test_generate_with_tokens(llama: Any) -> None:
    vocabulary = create_vocabulary(llama)
    ids = []
    with create_logits_processor(llama, LINE) as processor:
        for token in llama.generate(llama.tokenize(b"the"), temp=1.0, logits_processor=processor):
            if token in vocabulary.end_ids:
                break
            ids.append(token)
    assert IS_LINE.fullmatch(b"".join(vocabulary.tokens[token] for token in ids).decode())
    assert processor.formatter.tokens == tuple(ids)


def test_a_cut_output_is_not_complete(llama: Any) -> None:
    with create_logits_processor(llama, LINE) as processor:
        output = llama.create_completion("the", max_tokens=3, logits_processor=processor)
    result = processor.result(output)
    assert result.ended == "length"
    assert not result.is_complete
    assert result.text == output["choices"][0]["text"]


def test_fifty_outputs_are_complete_within_their_budgets(llama: Any) -> None:
    schema = {"type": "array", "items": {"type": "string"}, "minItems": 1}
    for seed in range(50):
        most = 12 + seed
        processor = create_logits_processor(llama, schema if seed % 2 else formats.regex("a[a-z ]*b"), max_tokens=most)
        options = {"max_tokens": most, "temperature": 1.0, "seed": seed, "logits_processor": processor}
        if seed % 5:
            output: Any = llama.create_completion("the", **options)
        else:
            chunks = llama.create_completion("the", stream=True, **options)
            output = "".join(chunk["choices"][0]["text"] for chunk in chunks)
        assert processor.result(output).is_complete


def test_a_stop_string_cuts(llama: Any) -> None:
    with create_logits_processor(llama, LINE) as processor:
        output = llama.create_completion("the", max_tokens=100, stop=[" "], logits_processor=processor)
    result = processor.result(output)
    assert result.ended == "stop_string"
    assert result.text == output["choices"][0]["text"]
    assert not result.is_complete


def test_captures_are_typed(llama: Any) -> None:
    builder = FormatterBuilder()
    builder.append("Age: ", builder.integer(name="age", minimum=0, maximum=150), ".")
    with create_logits_processor(llama, builder) as processor:
        output = llama.create_completion("the", max_tokens=50, logits_processor=processor)
    (age,) = processor.result(output).captures["age"]
    assert isinstance(age, int)
    assert 0 <= age <= 150


# --- the traps ---------------------------------------------------------------------------------------------------


def test_logit_bias_does_not_drop_the_format(llama: Any) -> None:
    a = llama.tokenize(b"a", add_bos=False)[-1]
    with create_logits_processor(llama, LINE) as processor:
        output = llama.create_completion("the", max_tokens=200, logit_bias={a: 3.0}, logits_processor=processor)
    assert IS_LINE.fullmatch(output["choices"][0]["text"])


def test_a_format_that_was_dropped_is_noticed(llama: Any) -> None:
    wrapped = llama_cpp.LogitsProcessorList()
    with pytest.raises(HookNotCalled), create_logits_processor(llama, LINE) as processor:
        wrapped.append(processor)
        llama.create_completion("the", max_tokens=5, logit_bias={5: 1.0}, logits_processor=wrapped)


def test_processors_of_others_run_first(llama: Any) -> None:
    def insist(ids: np.ndarray, scores: np.ndarray) -> np.ndarray:
        scores[:] = 0
        return scores

    with create_logits_processor(llama, LINE) as processor:
        processor.append(insist)
        output = llama.create_completion("the", max_tokens=200, logits_processor=processor)
    assert IS_LINE.fullmatch(output["choices"][0]["text"])


def test_when_others_forbid_all_the_sequence_ends_with_the_cause(llama: Any) -> None:
    def forbid(ids: np.ndarray, scores: np.ndarray) -> np.ndarray:
        return np.full_like(scores, -np.inf)

    processor = create_logits_processor(llama, LINE)
    processor.append(forbid)
    with pytest.raises(NoTokenLeft), processor:
        output = llama.create_completion("the", max_tokens=200, logits_processor=processor)
    assert output["choices"][0]["text"] == ""
    assert output["choices"][0]["finish_reason"] == "stop"


@pytest.mark.parametrize("error", [RuntimeError("broken"), KeyboardInterrupt()], ids=["bug", "interrupt"])
@pytest.mark.parametrize("stream", [False, True])
def test_an_error_inside_ends_the_sequence_and_reaches_the_caller(
    llama: Any, error: BaseException, stream: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    processor = create_logits_processor(llama, LINE)
    step, calls = type(processor.formatter).step, []

    def failing(self: Any, token: int, row: np.ndarray) -> None:
        calls.append(1)
        if len(calls) == 3:
            raise error
        step(self, token, row)

    monkeypatch.setattr(type(processor.formatter), "step", failing)
    with pytest.raises(type(error)) as caught, processor:
        output = llama.create_completion("the", max_tokens=200, stream=stream, logits_processor=processor)
        chunks = list(output) if stream else [output]
    assert caught.value is error
    assert chunks[-1]["choices"][0]["finish_reason"] == "stop"
    assert len(calls) == 3
    text = "".join(chunk["choices"][0]["text"] for chunk in chunks)
    assert text.startswith(processor.formatter.text)  # the latest token is accepted with the mask that failed
    with pytest.raises(type(error)):
        processor.result(text)


def test_one_object_serves_one_request_after_the_other(llama: Any) -> None:
    processor = create_logits_processor(llama, LINE)
    for prompt in ("the name", "the name", "the name of", "people", "people", "the name of a person is Ada"):
        output = llama.create_completion(prompt, max_tokens=200, logits_processor=processor)
        assert IS_LINE.fullmatch(output["choices"][0]["text"]), prompt
        assert processor.result(output).is_complete
    # A conversation: the prompt goes on from the last output.
    for _ in range(3):
        prompt += output["choices"][0]["text"]
        output = llama.create_completion(prompt, max_tokens=100, logits_processor=processor)
        assert IS_LINE.fullmatch(output["choices"][0]["text"]), prompt


@needs_samplers
def test_a_prompt_that_was_cut_short_begins_anew(llama: Any) -> None:
    """The next prompt is the last one and its first tokens: exactly what the old request would have gone on from."""
    processor = create_logits_processor(llama, LINE)
    prompt = llama.tokenize(b"the name")
    first = [
        token for _, token in zip(range(3), llama.generate(prompt, temp=0, logits_processor=processor), strict=False)
    ]
    begun = [next(iter(llama.generate([*prompt, *first], temp=0, logits_processor=processor)))]
    assert processor.formatter.tokens == ()
    vocabulary = create_vocabulary(llama)
    assert re.fullmatch("[a-z]+", vocabulary.tokens[begun[0]].decode())


def test_an_abandoned_stream_leaves_the_next_request_sound(llama: Any) -> None:
    for abandoned in (1, 4):
        stream = llama.create_completion(
            "the name", max_tokens=100, stream=True, logits_processor=create_logits_processor(llama, LINE)
        )
        for _ in range(abandoned):
            next(stream)
        stream.close()
        with create_logits_processor(llama, LINE) as processor:
            output = llama.create_completion("the name", max_tokens=200, logits_processor=processor)
        assert IS_LINE.fullmatch(output["choices"][0]["text"])


def test_sampling_by_hand(llama: Any) -> None:
    llama.reset()
    llama._sampler = None
    processor = create_logits_processor(llama, LINE)
    vocabulary = create_vocabulary(llama)
    llama.eval(llama.tokenize(b"the name"))
    ids: list[int] = []
    while not ids or ids[-1] not in vocabulary.end_ids:
        ids.append(llama.sample(temp=1.0, logits_processor=processor))
        llama.eval(ids[-1:])
    assert IS_LINE.fullmatch(b"".join(vocabulary.tokens[token] for token in ids[:-1]).decode())


def test_generate_goes_on_after_the_end_and_offers_ends_only(llama: Any) -> None:
    vocabulary = create_vocabulary(llama)
    tokens = llama.generate(
        llama.tokenize(b"the"), temp=1.0, logits_processor=create_logits_processor(llama, formats.choice(["ab"]))
    )
    ids = [token for _, token in zip(range(6), tokens, strict=False)]
    text = b"".join(vocabulary.tokens[token] or b"" for token in ids if token not in vocabulary.end_ids)
    assert text == b"ab"
    assert ids[-1] in vocabulary.end_ids


class Drafts(LlamaDraftModel):
    """Proposes tokens that are mostly wrong, and now and then what the format has just made likely."""

    def __init__(self, width: int) -> None:
        self.random, self.width = np.random.default_rng(0), width

    def __call__(self, input_ids: np.ndarray, /, **kwargs: Any) -> np.ndarray:
        count = int(self.random.integers(0, 6))
        guessed = self.random.integers(0, self.width, count)
        if len(input_ids) > 8 and self.random.random() < 0.7:
            guessed = input_ids[-count - 4 : -4] if count else guessed
        return np.asarray(guessed, dtype=np.intc)


def test_drafts_that_nobody_checked_are_not_followed(model: Path) -> None:
    plain = load(model)
    llama = load(model, draft_model=Drafts(plain.n_vocab()))
    strict = formats.regex("(ab|ba|[0-9]{1,3}){6,12}[.]")
    for seed in range(8):
        with create_logits_processor(llama, strict) as processor:
            output = llama.create_completion("the", max_tokens=200, seed=seed, logits_processor=processor)
        assert re.fullmatch("(ab|ba|[0-9]{1,3}){6,12}[.]", output["choices"][0]["text"])
    with create_logits_processor(llama, strict) as processor:
        drafted = llama.create_completion("the", max_tokens=200, temperature=0, logits_processor=processor)
    with create_logits_processor(plain, strict) as processor:
        alone = plain.create_completion("the", max_tokens=200, temperature=0, logits_processor=processor)
    assert drafted["choices"][0]["text"] == alone["choices"][0]["text"]


def test_forced_text_as_drafts(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Outputs are those without drafts, greedy or sampled, and there are fewer passes."""
    drafts = ForcedDrafts(most=8)
    plain, drafting = load(model), load(model, draft_model=drafts)
    passes: collections.Counter[Any] = collections.Counter()
    evaluate = Llama.eval
    monkeypatch.setattr(Llama, "eval", lambda self, tokens: (passes.update([self]), evaluate(self, tokens)))
    mixed = formats.regex("some text that is certain, ([0-9]{1,3}|none), and more that is certain[.!]")
    settings: list[dict[str, Any]] = [{"temperature": 0}, *({"seed": seed} for seed in range(6))]
    for options in settings:
        texts: list[str] = []
        for llama in (plain, drafting):
            with create_logits_processor(llama, mixed) as processor:
                output = llama.create_completion("the", max_tokens=200, logits_processor=processor, **options)
            assert processor.result(output).is_complete
            texts.append(output["choices"][0]["text"])
        # Before there were samplers, a draw depended on the logits of all rows of the pass.
        if options.get("temperature") == 0 or hasattr(llama_cpp, "llama_sampler_init"):
            assert texts[0] == texts[1]
    assert drafts.proposed > 0
    assert passes[drafting] < passes[plain]

    proposed = drafts.proposed
    with create_logits_processor(drafting, formats.regex("[a-z]{5}")) as processor:
        drafting.create_completion("the", max_tokens=20, seed=1, logits_processor=processor)
    drafting.create_completion("the", max_tokens=20, seed=1)
    assert drafts.proposed == proposed
    close(plain)
    close(drafting)


def test_a_special_token_that_the_format_names(llama: Any) -> None:
    special = formats.sequence(formats.choice(["a"]), formats.token(llama.token_bos()), formats.choice(["b"]))
    with create_logits_processor(llama, special) as processor:
        output = llama.create_completion("the", max_tokens=20, logits_processor=processor)
    assert output["choices"][0]["text"].replace("<s>", "") == "ab"


# --- bound to its model ------------------------------------------------------------------------------------------


def test_a_processor_of_another_model_ends_its_sequence(llama: Any, model: Path, tmp_path: Path) -> None:
    """Models of the same width, whose tokens are the same ones in another order."""
    others = [load(model), load(write_bpe(tmp_path / "other.gguf", seed=1, size=llama.n_vocab()))]
    for other in others:
        with pytest.raises(WrongModel), create_logits_processor(llama, SCHEMA) as processor:
            other.create_completion("the", max_tokens=20, logits_processor=processor)
        close(other)


def test_two_threads_cannot_share_a_processor(llama: Any, model: Path) -> None:
    other = load(model)
    models = (llama, other)
    for _ in range(10):
        processor = create_logits_processor(llama, LINE)

        def complete(number: int, processor: Any = processor) -> Any:
            return models[number].create_completion("the", max_tokens=60, logits_processor=processor)

        for number, output in enumerate(in_threads(complete, 2)):
            try:
                result = processor.result(output)
            except (WrongModel, InvalidArgument):
                continue
            # Each had the processor for itself, one after the other.
            assert result.is_complete == (number == 0)
            assert IS_LINE.fullmatch(result.text) or number
    close(other)


@pytest.mark.parametrize("max_tokens", [2, 5, 100])
def test_an_output_that_repeats_its_prompt(llama: Any, max_tokens: int) -> None:
    for prompt in ("the name", "café 日本", " the", "the name  of <s> x"):
        with create_logits_processor(llama, LINE) as processor:
            output = llama.create_completion(prompt, max_tokens=max_tokens, logits_processor=processor, echo=True)
        result = processor.result(output)
        assert output["choices"][0]["text"] == prompt + result.text
        assert result.is_complete == bool(IS_LINE.fullmatch(result.text))


def test_the_output_of_another_call_is_refused(llama: Any) -> None:
    with create_logits_processor(llama, formats.choice(["left"])) as processor:
        llama.create_completion("the", max_tokens=20, logits_processor=processor)
    with create_logits_processor(llama, formats.choice(["right"])) as other:
        output = llama.create_completion("the", max_tokens=20, logits_processor=other)
    with pytest.raises(InvalidArgument, match="differs from that of the"):
        processor.result(output)


@pytest.mark.parametrize("options", [{}, {"chat": {"type": "json_object"}}], ids=["grammar", "response_format"])
def test_a_grammar_beside_a_processor_is_refused(llama: Any, options: dict[str, Any]) -> None:
    """The grammar allows digits alone and the format letters alone: together they would abort the process."""
    processor = create_logits_processor(llama, LINE)
    grammar = llama_cpp.LlamaGrammar.from_string("root ::= [0-9] [0-9] [0-9]", verbose=False)
    with pytest.raises(InvalidArgument, match="LlamaGrammar"), processor:
        if options:
            messages = [{"role": "user", "content": "Who?"}]
            llama.create_chat_completion(
                messages, max_tokens=20, logits_processor=processor, response_format=options["chat"]
            )
        else:
            llama.create_completion("the", max_tokens=20, logits_processor=processor, grammar=grammar)
    with processor:
        output = llama.create_completion("the", max_tokens=100, logits_processor=processor)
    assert IS_LINE.fullmatch(processor.result(output).value)


@needs_samplers
def test_a_grammar_of_llama_cpp_is_taken_as_a_format(llama: Any) -> None:
    grammar = llama_cpp.LlamaGrammar.from_string('root ::= "n" [0-9] [0-9]? | "zero"', verbose=False)
    for seed in range(4):
        with create_logits_processor(llama, grammar) as processor:
            output = llama.create_completion("the", max_tokens=20, seed=seed, logits_processor=processor)
        assert re.fullmatch("n[0-9]{1,2}|zero", processor.result(output).value)


@pytest.mark.skipif(not hasattr(llama_cpp.Llama, "close"), reason="before 0.2.77 no model can be closed")
def test_a_closed_model_is_refused(model: Path) -> None:
    llama = load(model)
    formatter = create_logits_processor(llama, LINE).formatter
    llama.close()
    calls = [
        partial(create_vocabulary, llama),
        partial(create_logits_processor, llama, LINE),
        partial(mask_logits, llama, formatter),
        partial(llama_model, llama),
        partial(Scheduler, llama),
    ]
    for call in calls:
        with pytest.raises(InvalidArgument, match="closed"):
            call()


def test_a_model_without_weights_has_a_vocabulary_and_no_hooks(model: Path) -> None:
    llama = load(model, vocab_only=True)
    assert len(create_vocabulary(llama)) == llama.n_vocab()
    for make in (partial(create_logits_processor, format=LINE), Scheduler, llama_model):
        with pytest.raises(InvalidArgument, match="vocab_only"):
            make(llama)
    close(llama)


def test_a_result_needs_an_output(llama: Any) -> None:
    with create_logits_processor(llama, LINE) as processor:
        llama.create_completion("the", max_tokens=20, logits_processor=processor)
    with pytest.raises(InvalidArgument, match="create_chat_completion"):
        processor.result(3)


# --- the grammar hook --------------------------------------------------------------------------------------------


def chain_of(llama: Any, *samplers: Callable[[Any], None]) -> Any:
    chain = llama_cpp.llama_sampler_chain_init(llama_cpp.llama_sampler_chain_default_params())
    for add in samplers:
        add(chain)
    return chain


def stock(name: str, *arguments: Any) -> Callable[[Any], None]:
    return lambda chain: llama_cpp.llama_sampler_chain_add(
        chain, getattr(llama_cpp, f"llama_sampler_init_{name}")(*arguments)
    )


def sampled(llama: Any, chain: Any, ends: tuple[int, ...], prompt: bytes = b"the name", most: int = 200) -> list[int]:
    llama.reset()
    llama.eval(llama.tokenize(prompt))
    ids: list[int] = []
    while len(ids) < most and (not ids or ids[-1] not in ends):
        ids.append(llama_cpp.llama_sampler_sample(chain, llama.ctx, -1))
        llama.eval(ids[-1:])
    return ids


@needs_samplers
def test_a_sampler_in_a_chain(llama: Any) -> None:
    ends = create_vocabulary(llama).end_ids
    for seed in range(3):
        sampler = create_sampler(llama, LINE)
        chain = chain_of(llama, sampler.add_to, stock("top_k", 40), stock("temp", 1.2), stock("dist", seed))
        ids = sampled(llama, chain, ends)
        llama_cpp.llama_sampler_free(chain)
        assert sampler.error is None
        result = sampler.result()
        assert IS_LINE.fullmatch(result.value)
        assert result.tokens == tuple(ids)


@needs_samplers
def test_a_chain_is_reset_and_cloned(llama: Any) -> None:
    ends = create_vocabulary(llama).end_ids
    sampler = create_sampler(llama, LINE)
    chain = chain_of(llama, sampler.add_to, stock("greedy"))
    first = sampled(llama, chain, ends)
    llama_cpp.llama_sampler_reset(chain)
    begun = sampled(llama, chain, ends, most=3)
    assert begun == first[:3]
    copy = llama_cpp.llama_sampler_clone(chain)
    rest = []
    while not rest or rest[-1] not in ends:
        rest.append(llama_cpp.llama_sampler_sample(copy, llama.ctx, -1))
        llama.eval(rest[-1:])
    assert begun + rest == first
    assert sampler.formatter.tokens == tuple(begun)
    for chain_ in (copy, chain):
        llama_cpp.llama_sampler_free(chain_)


@needs_samplers
def test_samplers_are_given_back_to_no_one_twice(llama: Any) -> None:
    from formatter_llama_cpp import c_interface as module

    before = len(module.live)
    for _ in range(50):
        sampler = create_sampler(llama, LINE)
        chain = chain_of(llama, sampler.add_to)
        assert len(module.live) == before + 1
        with pytest.raises(HookReused, match="already"):
            sampler.add_to(chain)
        llama_cpp.llama_sampler_free(chain)
        assert len(module.live) == before


@needs_samplers
def test_a_failing_sampler_ends_its_sequence(llama: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    ends = create_vocabulary(llama).end_ids
    sampler = create_sampler(llama, LINE)
    error = RuntimeError("broken")

    def failing(self: Any, token: int, row: np.ndarray) -> None:
        raise error

    monkeypatch.setattr(type(sampler.formatter), "step", failing)
    chain = chain_of(llama, sampler.add_to, stock("dist", 1))
    ids = sampled(llama, chain, ends)
    llama_cpp.llama_sampler_free(chain)
    assert ids[-1] in ends
    assert len(ids) == 2
    with pytest.raises(RuntimeError, match="broken"):
        sampler.result()


@needs_samplers
def test_a_sampler_that_stands_too_late_never_takes_what_is_not_allowed(llama: Any) -> None:
    ends = create_vocabulary(llama).end_ids
    sampler = create_sampler(llama, formats.regex("[0-9]{40}"))
    chain = chain_of(llama, stock("top_k", 2), sampler.add_to, stock("dist", 1))
    ids = sampled(llama, chain, ends)
    llama_cpp.llama_sampler_free(chain)
    assert ids[-1] in ends
    assert re.fullmatch("[0-9]*", sampler.formatter.text)
    assert isinstance(sampler.error, NoTokenLeft)


@needs_samplers
def test_an_own_loop_masks_the_logits_in_place(llama: Any) -> None:
    vocabulary = create_vocabulary(llama)
    processor = create_logits_processor(llama, LINE)
    formatter = processor.compiled.formatter()
    chain = chain_of(llama, stock("top_k", 10), stock("dist", 3))
    llama.reset()
    llama.eval(llama.tokenize(b"the name"))
    while not formatter.is_finished:
        mask_logits(llama, formatter)
        row = np.ctypeslib.as_array(llama_cpp.llama_get_logits_ith(llama.ctx, -1), (len(vocabulary),))
        assert set(np.flatnonzero(np.isfinite(row)).tolist()) == set(formatter.allowed_tokens())
        token = llama_cpp.llama_sampler_sample(chain, llama.ctx, -1)
        formatter.accept_token(token)
        llama.eval([token])
    llama_cpp.llama_sampler_free(chain)
    assert IS_LINE.fullmatch(formatter.result().value)
