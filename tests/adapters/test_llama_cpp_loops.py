"""The loops of the core on a model of llama-cpp-python, on the stand-ins of contexts: every number is compared."""

from __future__ import annotations

import re

import numpy as np
import pytest

from formatter_core import formats
from formatter_core.errors import InvalidArgument
from formatter_core.generation import (
    BeamSearch,
    NumpyLogits,
    ScoreSettings,
    beam_search,
    choose,
    completion,
    log_softmax,
)
from tests.adapters.contract import END, OTHER_END, PAD
from tests.adapters.llama_cpp_contexts import ContextLlama, logits_of

pytestmark = pytest.mark.usefixtures("no_error_says_anything_twice")

WORD = formats.regex("[a-z]{2,6}( [a-z]{2,4}){0,2}[.]")
IS_WORD = re.compile("[a-z]{2,6}( [a-z]{2,4}){0,2}[.]")


@pytest.mark.parametrize("max_sequences", [1, 3, 16])
@pytest.mark.parametrize("with_end", [False, True])
def test_options_are_scored_exactly(llama: ContextLlama, with_end: bool, max_sequences: int) -> None:
    from formatter_llama_cpp import llama_model

    options = ["a", "abc", "abd", "x", "xy!", "é"]
    prompt = [PAD, *b"pq"]
    scores = choose(llama_model(llama, max_sequences=max_sequences), "pq", options, with_end=with_end)
    for option, score in zip(options, scores, strict=True):
        total = 0.0
        for place, token in enumerate(option.encode()):
            total += log_softmax(logits_of([*prompt, *option.encode()[:place]]))[token]
        if with_end:
            total += np.logaddexp.reduce(log_softmax(logits_of([*prompt, *option.encode()]))[[END, OTHER_END]])
        assert score.logprob == pytest.approx(total)


def test_beams_equal_a_search_without_an_engine(llama: ContextLlama) -> None:
    from formatter_llama_cpp import llama_model
    from formatter_llama_cpp.vocabulary import compiler_for

    for width in (1, 3, 6):
        search = BeamSearch(compiler_for(llama).compile(WORD).formatter(), width)
        while not search.is_over:
            logits = [logits_of([PAD, *b"p", *beam.tokens]) for beam in search.beams]
            search.take(NumpyLogits.best(logits, search.masks, search.candidates))
        found = beam_search(llama_model(llama, max_sequences=width), "p", WORD, width=width, max_tokens=40)
        assert [output.tokens for output in found] == [beam.tokens for beam in search.finished]
        assert all(IS_WORD.fullmatch(output.text) for output in found)


def test_rows_fork_grow_and_shrink(llama: ContextLlama) -> None:
    from formatter_llama_cpp import llama_model

    batch = llama_model(llama, max_sequences=5).start([[PAD, *b"one and"], [PAD, *b"one or"]])
    texts = [[PAD, *b"one and"], [PAD, *b"one or"]]
    random = np.random.default_rng(1)
    for _ in range(60):
        rows = random.integers(0, len(texts), random.integers(1, 6)).tolist()
        batch.select(rows)
        texts = [list(texts[row]) for row in rows]
        if random.random() < 0.3:
            lengths = [int(random.integers(3, len(text) + 1)) for text in texts]
            batch.crop(lengths)
            texts = [text[:length] for text, length in zip(texts, lengths, strict=True)]
        new = [random.integers(97, 122, random.integers(1, 4)).tolist() for _ in rows]
        after = batch.forward(new, keep=2)
        for row, text in enumerate(texts):
            text += new[row]
            assert (batch.logits[row] == logits_of(text)).all()
            assert (after[row, -1] == logits_of(text)).all()
            assert len(new[row]) < 2 or (after[row, -2] == logits_of(text[:-1])).all()
        assert batch.tokens == texts
    with pytest.raises(InvalidArgument, match="max_sequences is 5"):
        batch.select([0] * 6)


def test_outputs_of_a_loop_in_python_equal_those_of_the_scheduler(llama: ContextLlama) -> None:
    from formatter_llama_cpp import generate_parallel, llama_model

    (expected,) = generate_parallel(llama, ["pq"], format=WORD, max_tokens=30, top_logprobs=2)
    scores = ScoreSettings(top=2, logprob=True)
    found = completion(llama_model(llama), WORD, max_tokens=30, scores=scores, forced_text="off")("pq")
    assert found.tokens == expected[0].tokens
    assert found.logprobs == pytest.approx(expected[0].logprobs, abs=1e-5)
    assert found.unmasked_logprobs == pytest.approx(expected[0].unmasked_logprobs, abs=1e-5)
    for one, other in zip(found.chosen, expected[0].chosen, strict=True):
        assert [score.token_id for score in one.top] == [score.token_id for score in other.top]
    exact = completion(llama_model(llama), WORD, max_tokens=30)("pq")
    assert exact.tokens == expected[0].tokens
