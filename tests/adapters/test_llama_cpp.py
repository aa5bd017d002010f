"""The llama.cpp adapter on stand-ins of each generation of llama-cpp-python."""

from __future__ import annotations

import ctypes
import re
import types
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from formatter_core import formats
from formatter_core.errors import (
    HookNotCalled,
    HookReused,
    InvalidArgument,
    InvalidVocabulary,
    NoTokenLeft,
    UnsupportedEngineVersion,
    WrongModel,
)
from tests.adapters import llama_cpp_stand_ins as stand_ins
from tests.adapters.contract import END, OTHER_END, PAD, SPECIAL, TOKENS, WIDTH
from tests.adapters.llama_cpp_stand_ins import GENERATIONS, LIST_CALLED, Llama, LogitsProcessorList, llama_cpp_of

pytestmark = pytest.mark.usefixtures("no_error_says_anything_twice")

WORD = formats.regex("a[bc]{2,12}")
IS_WORD = re.compile("a[bc]{2,12}")
LONG = b"x" * 100


@pytest.fixture(params=GENERATIONS)
def generation(request: pytest.FixtureRequest) -> Iterator[str]:
    with llama_cpp_of(request.param):
        yield request.param


@pytest.fixture
def newest() -> Iterator[types.ModuleType]:
    with llama_cpp_of(GENERATIONS[-1]) as module:
        yield module


def processor_of(llama: Llama, format: Any = WORD) -> Any:
    from formatter_llama_cpp import create_logits_processor

    return create_logits_processor(llama, format)


def text_of(output: Any) -> str:
    return output["choices"][0]["text"]


# --- the vocabulary ----------------------------------------------------------------------------------------------


def test_tokens_are_read_in_every_generation(generation: str, monkeypatch: pytest.MonkeyPatch) -> None:
    from formatter_llama_cpp import create_vocabulary

    monkeypatch.setattr(stand_ins, "PIECES", [*stand_ins.PIECES[:256], LONG, *stand_ins.PIECES[257:]])
    llama = Llama(generation)
    vocabulary = create_vocabulary(llama)
    assert len(vocabulary) == WIDTH
    assert vocabulary.end_ids == (END, OTHER_END)
    assert [token or None for token in vocabulary.tokens[:256]] == [token or None for token in TOKENS[:256]]
    assert vocabulary.tokens[256] == LONG
    assert {vocabulary.tokens[special] for special in (SPECIAL, PAD, END, OTHER_END)} == {None}
    assert set(vocabulary.tokens[len(TOKENS) :]) == {None}
    assert create_vocabulary(llama) is vocabulary
    assert create_vocabulary(llama, end_ids=[PAD]).end_ids == (PAD,)


def test_a_model_that_cannot_end_is_refused(generation: str, monkeypatch: pytest.MonkeyPatch) -> None:
    from formatter_llama_cpp import create_vocabulary

    monkeypatch.setattr(stand_ins, "is_end", lambda token: False)
    with pytest.raises(InvalidVocabulary, match="end id"):
        create_vocabulary(Llama(generation))


def test_a_release_without_what_is_needed_is_named() -> None:
    with llama_cpp_of("0.2.64") as module:
        from formatter_llama_cpp import create_sampler, create_vocabulary

        with pytest.raises(UnsupportedEngineVersion, match="llama_sampler_init") as caught:
            create_sampler(Llama("0.2.64"), WORD)
        assert caught.value.found == "0.2.64"
        del module.llama_token_is_eog
        with pytest.raises(UnsupportedEngineVersion, match="llama_token_is_eog"):
            create_vocabulary(Llama("0.2.64"))


# --- the logits processor ----------------------------------------------------------------------------------------


def test_outputs_are_in_their_format(generation: str) -> None:
    for seed in range(5):
        llama = Llama(generation, seed=seed)
        with processor_of(llama) as processor:
            output = llama.create_completion("p", logits_processor=processor)
        assert IS_WORD.fullmatch(text_of(output))
        assert processor.result(output).value == text_of(output)
        assert not llama.swallowed


@pytest.mark.parametrize("bias", [5.0, -5.0])
def test_logit_bias_keeps_the_format(generation: str, bias: float) -> None:
    llama = Llama(generation)
    with processor_of(llama) as processor:
        output = llama.create_completion("p", logits_processor=processor, logit_bias={ord("b"): bias, ord("z"): 90.0})
    assert IS_WORD.fullmatch(text_of(output))


def test_a_list_around_it_that_was_lost_is_noticed(generation: str) -> None:
    llama = Llama(generation)
    with processor_of(llama) as processor:
        output = llama.create_completion("p", logits_processor=LogitsProcessorList([processor]))
    assert IS_WORD.fullmatch(text_of(output))
    with pytest.raises(HookNotCalled), processor:
        llama.create_completion("p", logits_processor=LogitsProcessorList([processor]), logit_bias={1: 1.0})


def test_added_processors_run_before_the_format(generation: str) -> None:
    llama = Llama(generation)
    with processor_of(llama) as processor:
        processor.append(lambda ids, scores: np.where(np.arange(WIDTH) == ord("z"), 99.0, 0.0).astype(np.single))
        output = llama.create_completion("p", logits_processor=processor)
    assert IS_WORD.fullmatch(text_of(output))


@pytest.mark.parametrize("left", [-np.inf, np.nan], ids=["all forbidden", "not a number"])
def test_where_nothing_is_left_the_sequence_ends_with_the_cause(generation: str, left: float) -> None:
    llama = Llama(generation)
    processor = processor_of(llama)
    processor.append(lambda ids, scores: np.full(WIDTH, left, dtype=np.single))
    with pytest.raises(NoTokenLeft), processor:
        output = llama.create_completion("p", logits_processor=processor)
    assert (text_of(output), output["choices"][0]["finish_reason"]) == ("", "stop")


@pytest.mark.parametrize("error", [RuntimeError("broken"), KeyboardInterrupt()], ids=["bug", "interrupt"])
@pytest.mark.parametrize(("method", "call"), [("fill_bitmask", 1), ("step", 3)])
def test_whatever_goes_wrong_ends_the_sequence_and_is_raised_afterwards(
    generation: str, method: str, call: int, error: BaseException, monkeypatch: pytest.MonkeyPatch
) -> None:
    llama = Llama(generation)
    processor = processor_of(llama)
    real, calls = getattr(type(processor.formatter), method), []

    def failing(self: Any, *arguments: Any) -> Any:
        calls.append(arguments)
        if len(calls) == call:
            raise error
        return real(self, *arguments)

    monkeypatch.setattr(type(processor.formatter), method, failing)
    with pytest.raises(type(error)) as caught, processor:
        output = llama.create_completion("p", logits_processor=processor)
    assert caught.value is error
    assert len(calls) == call
    assert re.fullmatch("a[bc]+" if call > 1 else "", text_of(output))
    assert output["choices"][0]["finish_reason"] == "stop"
    assert not llama.swallowed
    with pytest.raises(type(error)):
        processor.result(output)


def test_an_error_of_the_caller_is_not_hidden(generation: str) -> None:
    with pytest.raises(ZeroDivisionError), processor_of(Llama(generation)):
        raise ZeroDivisionError


def test_one_object_serves_one_request_after_the_other(generation: str) -> None:
    llama = Llama(generation)
    processor = processor_of(llama)
    prompts = ["p", "p", "pq", "p", "z" * 300, "pqr"]
    for prompt in prompts:
        output = llama.create_completion(prompt, logits_processor=processor)
        assert IS_WORD.fullmatch(text_of(output)), prompt
        assert processor.result(output).text == text_of(output)
    for _ in range(4):  # a conversation: each prompt goes on from the last output
        prompt += text_of(output) + "?"
        output = llama.create_completion(prompt, logits_processor=processor)
        assert IS_WORD.fullmatch(text_of(output)), prompt


def test_a_request_is_told_by_its_sampler(newest: types.ModuleType) -> None:
    llama = Llama(GENERATIONS[-1])
    processor = processor_of(llama)
    prompt = [PAD, ord("p")]
    tokens = llama.generate(prompt, processor)
    begun = [next(tokens) for _ in range(3)]
    # The next prompt is what the old request would have gone on from.
    assert next(llama.generate([*prompt, *begun], processor)) in (ord("a"), 256, 257, 263)
    assert processor.formatter.tokens == ()


def test_sampling_by_hand_makes_a_sampler_for_each_token(newest: types.ModuleType) -> None:
    llama = Llama(GENERATIONS[-1])
    processor = processor_of(llama)
    ids = [PAD, ord("p")]
    while ids[-1] not in (END, OTHER_END):
        llama._sampler = stand_ins.ChainOfOneCall()
        scores = llama.logits(ids)
        for each in processor:
            scores = each(np.array(ids, dtype=np.intc), scores)
        ids.append(int(scores.argmax()))
    assert IS_WORD.fullmatch(b"".join(TOKENS[token] or b"" for token in ids[2:-1]).decode())


def drafts(llama: Llama, others: Callable[[np.ndarray], list[int]]) -> Llama:
    llama.draft_model = others
    return llama


@pytest.mark.parametrize("count", [0, 1, 3, 7])
def test_drafts_behind_the_kept_tokens_are_not_followed(generation: str, count: int) -> None:
    format = formats.regex("(ab|ba|[0-9]{1,2}){12}[.]")
    for seed in range(4):
        plain = Llama(generation, seed=seed)
        with processor_of(plain, format) as processor:
            expected = text_of(plain.create_completion("p", logits_processor=processor, max_tokens=200))
        answer = [PAD, *b"p", *expected.encode()]

        def mostly_right(ids: np.ndarray, answer: list[int] = answer) -> list[int]:
            guessed = answer[len(ids) : len(ids) + count]
            return [token if place % 3 else ord("q") for place, token in enumerate(guessed)]

        drafted = drafts(Llama(generation, seed=seed), mostly_right)
        with processor_of(drafted, format) as processor:
            assert text_of(drafted.create_completion("p", logits_processor=processor, max_tokens=200)) == expected
        assert not drafted.swallowed


# --- bound to its model ------------------------------------------------------------------------------------------


def test_a_processor_serves_its_own_llama_alone(generation: str) -> None:
    llama, other = Llama(generation), Llama(generation, seed=3)
    processor = processor_of(llama)
    mine, its = llama.generate([PAD, ord("p")], processor), other.generate([PAD, ord("p")], processor)
    begun = [next(mine) for _ in range(2)]
    assert next(its) in (END, OTHER_END)
    assert next(mine) in (END, OTHER_END)
    assert isinstance(processor.error, WrongModel)
    with pytest.raises(WrongModel, match="another Llama"):
        processor.result()
    # Nothing of the other model was followed, and the next request is sound.
    assert processor.formatter.tokens == tuple(begun[:1])
    with processor:
        output = llama.create_completion("p", logits_processor=processor)
    assert IS_WORD.fullmatch(processor.result(output).value)


def test_a_loop_of_ones_own_may_give_ids_of_its_own(generation: str) -> None:
    processor = processor_of(Llama(generation))
    scores = processor(np.array([PAD], dtype=np.intc), np.zeros(WIDTH, dtype=np.single))
    assert np.isfinite(scores[ord("a")])
    assert processor.error is None


def test_two_requests_at_a_time_cannot_share_a_processor(newest: types.ModuleType) -> None:
    processor = processor_of(Llama(GENERATIONS[-1]))
    with pytest.raises(HookReused), processor, processor:
        pass
    with pytest.raises(HookNotCalled), processor:
        pass


def test_a_text_that_contradicts_the_tokens_is_refused(generation: str) -> None:
    llama = Llama(generation)
    with processor_of(llama) as processor:
        output = llama.create_completion("p", logits_processor=processor)
    text = text_of(output)
    for wrong in ("x", f"{text}x", f"x{text}"):
        with pytest.raises(InvalidArgument, match="differs from that of the"):
            processor.result({"choices": [{"text": wrong, "finish_reason": "stop"}]})
    assert processor.result(output).is_complete


@pytest.mark.parametrize("max_tokens", [1, 2, 100])
def test_a_prompt_that_is_repeated_is_not_part_of_the_result(generation: str, max_tokens: int) -> None:
    for prompt in ("a question: ", "ab", " a"):
        llama = Llama(generation)
        with processor_of(llama) as processor:
            plain = llama.create_completion(prompt, logits_processor=processor, max_tokens=max_tokens)
        result = processor.result(plain)
        with processor:
            echoed = llama.create_completion(prompt, logits_processor=processor, max_tokens=max_tokens, echo=True)
        assert text_of(echoed) == prompt + text_of(plain)
        assert processor.result(echoed) == result


def test_a_closed_model_is_refused(newest: types.ModuleType) -> None:
    from formatter_llama_cpp import create_logits_processor, create_sampler, create_vocabulary, mask_logits

    llama = Llama(GENERATIONS[-1])
    formatter = processor_of(llama).formatter
    llama.model, llama.ctx = None, None
    calls: list[Callable[[], Any]] = [
        lambda: create_vocabulary(llama),
        lambda: create_logits_processor(llama, WORD),
        lambda: create_sampler(llama, WORD),
        lambda: mask_logits(llama, formatter),
    ]
    for call in calls:
        with pytest.raises(InvalidArgument, match="closed"):
            call()


def test_a_model_without_weights_has_a_vocabulary_and_no_hooks(newest: types.ModuleType) -> None:
    from formatter_llama_cpp import create_vocabulary

    llama = Llama(GENERATIONS[-1])
    llama.model_params = types.SimpleNamespace(vocab_only=True)
    assert len(create_vocabulary(llama)) == WIDTH
    with pytest.raises(InvalidArgument, match="vocab_only"):
        processor_of(llama)


def test_a_grammar_of_llama_cpp_is_a_format(generation: str) -> None:
    llama = Llama(generation)
    if stand_ins.parsed(generation) < (0, 3, 0):
        with pytest.raises(UnsupportedEngineVersion, match=r"formats\.gbnf"):
            processor_of(llama, stand_ins.LlamaGrammar(None))
        return
    processor = processor_of(llama, stand_ins.LlamaGrammar('root ::= "a" [bc] [bc]'))
    output = llama.create_completion("p", logits_processor=processor)
    assert re.fullmatch("a[bc]{2}", processor.result(output).value)


@pytest.mark.parametrize("release", ["0.2.64", LIST_CALLED])
def test_a_grammar_beside_a_processor_is_refused_before_a_token_is_chosen(release: str) -> None:
    with llama_cpp_of(release):
        llama = Llama(release)
        processor = processor_of(llama)
        with pytest.raises(InvalidArgument, match="grammar"):
            llama.create_completion("p", logits_processor=processor, grammar="a grammar")
        with pytest.raises(InvalidArgument, match="grammar"):
            processor.result()


def test_a_read_only_array_is_copied(newest: types.ModuleType) -> None:
    processor = processor_of(Llama(GENERATIONS[-1]))
    scores = np.zeros(WIDTH, dtype=np.single)
    scores.flags.writeable = False
    masked = processor(np.array([PAD], dtype=np.intc), scores)
    assert set(np.flatnonzero(np.isfinite(masked))) == {ord("a"), TOKENS.index(b"ab"), TOKENS.index(b"abc"), 263}


# --- results -----------------------------------------------------------------------------------------------------


def test_a_cut_output_is_not_complete(generation: str) -> None:
    llama = Llama(generation)
    with processor_of(llama) as processor:
        output = llama.create_completion("p", logits_processor=processor, max_tokens=2)
    result = processor.result(output)
    assert (result.ended, result.is_complete, result.text) == ("length", False, text_of(output))
    assert processor.result().ended is None


def test_a_stop_string_ends_an_output_early(generation: str) -> None:
    format = formats.regex("a{3}-?b{9}")
    llama = Llama(generation)
    with processor_of(llama, format) as processor:
        output = llama.create_completion("p", logits_processor=processor, stop=["bb"])
    result = processor.result(output)
    assert (result.ended, result.is_complete, result.text) == ("stop_string", False, text_of(output))


def test_a_piece_that_the_library_leaves_out_is_in_the_result(
    newest: types.ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stand_ins, "PIECES", [*stand_ins.PIECES[:256], LONG, *stand_ins.PIECES[257:]])
    llama = Llama(GENERATIONS[-1])
    # The only way to write it is the long piece, because every other token is forbidden.
    processor = processor_of(llama, formats.regex("x{100}y"))
    processor.append(
        lambda ids, scores: np.where(np.isin(np.arange(WIDTH), [256, ord("y"), END]), scores, -np.inf).astype(np.single)
    )
    with processor:
        output = llama.create_completion("p", logits_processor=processor)
    assert text_of(output) == "y"
    assert processor.result(output).value == "x" * 100 + "y"


def test_chats_and_texts_are_outputs_too(newest: types.ModuleType) -> None:
    llama = Llama(GENERATIONS[-1])
    with processor_of(llama) as processor:
        text = text_of(llama.create_completion("p", logits_processor=processor))
    chat = {"choices": [{"message": {"role": "assistant", "content": text}, "finish_reason": "stop"}]}
    assert processor.result(chat).value == processor.result(text).value == text
    for wrong in (3, {}, {"choices": []}, {"choices": [{"text": None}]}):
        with pytest.raises(InvalidArgument, match="create_completion"):
            processor.result(wrong)


# --- the grammar hook --------------------------------------------------------------------------------------------


def sampled(chain: list[Any], llama: Llama, count: int = 100) -> list[int]:
    ids: list[int] = []
    while len(ids) < count and not (ids and ids[-1] in (END, OTHER_END)):
        ids.append(stand_ins.sample(chain, llama.logits([PAD, *ids])))
    return ids


def test_a_sampler_follows_what_its_chain_accepts(newest: types.ModuleType) -> None:
    from formatter_llama_cpp import create_sampler

    for seed in range(5):
        llama, chain = Llama(GENERATIONS[-1], seed=seed), []
        sampler = create_sampler(llama, WORD)
        sampler.add_to(chain)
        ids = sampled(chain, llama)
        assert sampler.result().tokens == tuple(ids)
        assert IS_WORD.fullmatch(sampler.result().value)
        with pytest.raises(HookReused, match="already"):
            sampler.native()


def test_reset_clone_and_free_come_from_c(newest: types.ModuleType) -> None:
    from formatter_llama_cpp import create_sampler
    from formatter_llama_cpp.c_interface import live

    llama, chain = Llama(GENERATIONS[-1]), []
    sampler = create_sampler(llama, WORD)
    sampler.add_to(types.SimpleNamespace(sampler=chain))
    table = chain[0].contents.iface.contents
    assert table.name(chain[0]) == b"formatter-core"
    whole = sampled(chain, llama)
    table.reset(chain[0])
    assert sampler.formatter.tokens == ()
    begun = sampled(chain, llama, 2)
    copy = ctypes.cast(table.clone(chain[0]), ctypes.POINTER(stand_ins.Sampler))
    assert len(live) == 2
    rest = stand_ins.sample([copy], llama.logits([PAD, *begun]))
    assert [*begun, rest] == whole[:3]
    assert sampler.formatter.tokens == tuple(begun)
    table.free(copy)
    table.free(chain[0])
    assert not live


def test_a_sampler_behind_others_never_takes_what_is_not_allowed(newest: types.ModuleType) -> None:
    from formatter_llama_cpp import create_sampler

    def best_two(logits: np.ndarray) -> tuple[np.ndarray, list[int]]:
        ids = np.argsort(-logits)[:2]
        return logits[ids], ids.tolist()

    llama, chain = Llama(GENERATIONS[-1]), []
    sampler = create_sampler(llama, WORD)
    sampler.add_to(chain)
    assert stand_ins.sample(chain, *best_two(np.eye(1, WIDTH, ord("a"))[0])) == ord("a")
    assert sampler.error is None
    assert stand_ins.sample(chain, *best_two(np.eye(1, WIDTH, ord("z"))[0])) in (END, OTHER_END)
    assert isinstance(sampler.error, NoTokenLeft)
    with pytest.raises(NoTokenLeft):
        sampler.result()


def test_logits_are_masked_in_place(newest: Any) -> None:
    from formatter_llama_cpp import mask_logits

    logits = np.zeros((2, WIDTH), dtype=np.single)
    pointers = [row.ctypes.data_as(ctypes.POINTER(ctypes.c_float)) for row in logits]
    newest.llama_get_logits_ith = lambda context, index: pointers[index] if index < 2 else None
    newest.llama_get_model = lambda context: "model"
    newest.llama_vocab_n_tokens = lambda vocabulary: width
    formatter, width = processor_of(Llama(GENERATIONS[-1])).formatter, len(TOKENS) - 1
    with pytest.raises(WrongModel, match=f"model of {width} logits"):
        mask_logits("a context", formatter, 1)
    assert not logits.any()
    width = WIDTH
    mask_logits("a context", formatter, 1)
    assert set(np.flatnonzero(np.isfinite(logits[1])).tolist()) == set(formatter.allowed_tokens())
    assert not logits[0].any()
    with pytest.raises(InvalidArgument, match="token 2"):
        mask_logits(types.SimpleNamespace(ctx="a context"), formatter, 2)


# --- processors beside, and a model that is closed ---------------------------------------------------------------


class Failing:
    """A processor that fails at its `call`-th call: it raises, or returns what are no scores."""

    def __init__(self, call: int, outcome: Any) -> None:
        self.left, self.outcome = call, outcome

    def __call__(self, ids: np.ndarray, scores: np.ndarray) -> Any:
        self.left -= 1
        if self.left >= 0:
            return scores
        if isinstance(self.outcome, BaseException):
            raise self.outcome
        return self.outcome


@pytest.mark.parametrize("outcome", [KeyboardInterrupt(), OSError("of the test"), None, np.zeros(3), "scores"])
@pytest.mark.parametrize("call", [0, 2])
def test_what_a_processor_beside_raises_ends_the_sequence(generation: str, call: int, outcome: Any) -> None:
    llama = Llama(generation)
    kind = type(outcome) if isinstance(outcome, BaseException) else (InvalidArgument, ValueError)
    processor = processor_of(llama)
    processor.append(Failing(call, outcome))
    with pytest.raises(kind), processor:
        output = llama.create_completion("p", logits_processor=processor)
        assert llama.swallowed == []
        assert re.fullmatch("|a[bc]*", text_of(output)), "nothing may follow unconstrained"
    assert isinstance(processor.error, kind)
    with pytest.raises(kind):
        processor.result(output)
    # The next request has a chance of its own.
    processor.pop()
    with processor:
        output = llama.create_completion("p", logits_processor=processor)
    assert IS_WORD.fullmatch(processor.result(output).value)


def test_a_result_does_not_ask_a_model_that_is_closed(generation: str) -> None:
    llama = Llama(generation)
    processor = processor_of(llama)
    output = llama.create_completion("prompt", logits_processor=processor, echo=True)
    before = processor.result(output)
    llama.model = None  # as `Llama.close` leaves it
    assert processor.result(output) == before
    with pytest.raises(InvalidArgument, match="closed"):
        processor_of(llama)


def test_chains_and_contexts_that_are_none_are_refused(newest: types.ModuleType) -> None:
    from formatter_llama_cpp import create_sampler, mask_logits

    sampler = create_sampler(Llama(GENERATIONS[-1]), WORD)
    with pytest.raises(InvalidArgument, match="not an open chain"):
        sampler.add_to(None)
    sampler.add_to([])  # the sampler was not used up
    formatter = sampler.formatter
    for llama, one, index in ((None, formatter, 0), (5, formatter, 0), (2**40, 5, 0), (2**40, formatter, "x")):
        with pytest.raises(InvalidArgument):
            mask_logits(llama, one, index)
    with pytest.raises(InvalidArgument, match="no logits for token"):
        mask_logits(2**40, formatter, 2**32)  # which C would take for 0
