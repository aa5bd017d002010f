"""The transformers adapter under loops like those of `generate`: which row is in which state, and what goes wrong."""

from __future__ import annotations

import logging
import random
import re
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial

import pytest

torch = pytest.importorskip("torch", reason="the transformers adapter needs torch")

from tests.adapters.transformers_loops import Loops, generate, provide_transformers  # noqa: E402

provide_transformers()

from formatter_core import Compiler, FormatterBuilder, Vocabulary, formats  # noqa: E402
from formatter_core.errors import (  # noqa: E402
    FormatterError,
    HookReused,
    IncompleteResult,
    InvalidArgument,
    InvalidVocabulary,
    LimitExceeded,
    MaskOverridden,
    NoTokenLeft,
    TokenRejected,
    UnsupportedEngineVersion,
    WrongModel,
)
from formatter_transformers import FormatterLogitsProcessor, create_logits_processor, create_vocabulary  # noqa: E402
from formatter_transformers.calls import OneCall  # noqa: E402
from tests.adapters.contract import FailingEngine  # noqa: E402

pytestmark = pytest.mark.usefixtures("no_error_says_anything_twice")

ENDS, PAD = (300, 302), 301
PIECES = [b'{"', b'": ', b'", "', b'"}', b"ab", b"abc", b"true", b"10", b"200", "é".encode(), b"\xc3", b"ba", b", "]
TOKENS = [*(bytes([byte]) for byte in range(256)), *PIECES]
TOKENS += [None] * (ENDS[-1] + 1 - len(TOKENS))
WIDTH = len(TOKENS) + 64

WORD, NUMBER, LIST = r"[ab]{3,9}", r"-?(0|[1-9][0-9]{0,6})", r"\[(true|[0-9]{1,3})(, (true|[0-9]{1,3})){0,4}\]"


@pytest.fixture(scope="module")
def compiler() -> Compiler:
    return Compiler(Vocabulary(TOKENS, ENDS))


@pytest.fixture
def loops() -> Loops:
    return Loops(WIDTH, ENDS, PAD)


def ids(text: str) -> list[int]:
    return list(text.encode())


def prompts_of(*texts: str):
    """Left-padded prompts, as tokenizers make them for generation."""
    longest = max(map(len, texts))
    return torch.tensor([[PAD] * (longest - len(text)) + ids(text) for text in texts])


def follow(processor, *steps, mode: str = "sample"):
    """Return the scores that one `generate` gets for these rows, which begin with the prompts."""
    loops = Loops(WIDTH, ENDS, PAD)
    return generate(lambda processors: [processors(rows, loops.logits(rows)) for rows in steps], processor, mode=mode)


def then(rows, *tokens: int):
    """Make a step for each token, which every row takes."""
    steps = [rows]
    for token in tokens:
        steps.append(torch.cat([steps[-1], torch.full((len(rows), 1), token)], dim=1))
    return steps


def allowed_in(scores) -> list[int]:
    return torch.isfinite(scores).nonzero().flatten().tolist()


def text_of(tokens: list[int]) -> str:
    """Join the bytes of the tokens up to the first end, from the table alone."""
    ends = [index for index, token in enumerate(tokens) if token in ENDS]
    assert ends, f"the row has no end: {tokens}"
    return b"".join(TOKENS[token] for token in tokens[: ends[0]]).decode()


def texts_of(rows, width: int) -> list[str]:
    return [text_of(row[width:]) for row in rows.tolist()]


class TestRows:
    @pytest.mark.parametrize("seed", range(5))
    def test_one_format_serves_every_row(self, compiler, loops, seed) -> None:
        loops.seed = seed
        processor = FormatterLogitsProcessor([compiler.compile(formats.regex(WORD))])
        prompts = prompts_of("a", "a longer prompt")
        for sample in (False, True):
            processor.reset()
            for text in texts_of(loops.generate(processor, prompts, sample=sample), prompts.shape[1]):
                assert re.fullmatch(WORD, text)

    @pytest.mark.parametrize("returned", [1, 3])
    def test_each_prompt_has_its_own_format(self, compiler, loops, returned) -> None:
        patterns = [WORD, NUMBER, LIST]
        processor = FormatterLogitsProcessor([compiler.compile(formats.regex(pattern)) for pattern in patterns])
        prompts = prompts_of("word", "a number", "x")
        rows = loops.generate(processor, prompts, returned=returned, sample=True)
        for row, text in enumerate(texts_of(rows, prompts.shape[1])):
            assert re.fullmatch(patterns[row // returned], text)

    def test_what_is_allowed_keeps_its_scores_exactly(self, compiler, loops) -> None:
        processor = FormatterLogitsProcessor([None, compiler.compile(formats.choice(["abc", "b"]))])
        prompts = prompts_of("p", "q")
        scores = loops.logits(prompts)
        (masked,) = follow(processor, prompts)
        assert torch.equal(masked[0], scores[0])
        allowed = sorted([ord("a"), ord("b"), TOKENS.index(b"ab"), TOKENS.index(b"abc")])
        assert allowed_in(masked[1]) == allowed
        assert torch.equal(masked[1, allowed], scores[1, allowed])

    def test_padding_after_an_end_is_no_error(self, compiler) -> None:
        processor = FormatterLogitsProcessor([compiler.compile(formats.regex(WORD))])
        steps = [prompts_of("p", "q")]
        for tokens in ([97, 97], [97, 97], [97, 97], [ENDS[1], 97], [PAD, 97], [PAD, 97]):
            steps.append(torch.cat([steps[-1], torch.tensor(tokens)[:, None]], dim=1))
        masked = follow(processor, *steps)[-1]
        assert allowed_in(masked[0]) == list(ENDS)
        assert torch.isfinite(masked[1, 97])
        assert processor.errors == {}


class TestBeams:
    @pytest.mark.parametrize("refill", [False, True])
    @pytest.mark.parametrize("groups", [1, 3])
    @pytest.mark.parametrize("seed", range(4))
    def test_rows_that_change_places(self, compiler, loops, seed, groups, refill) -> None:
        loops.seed = seed
        patterns = [LIST, WORD, NUMBER]
        processor = FormatterLogitsProcessor([compiler.compile(formats.regex(pattern)) for pattern in patterns])
        for texts in (("one", "two", "three"), ("the same", "the same", "the same")):
            prompts = prompts_of(*texts)
            processor.reset()
            rows = loops.beams(processor, prompts, beams=4, groups=groups, refill=refill)
            for pattern, text in zip(patterns, texts_of(rows, prompts.shape[1]), strict=True):
                assert re.fullmatch(pattern, text)


def repeats_itself(row: list[int]) -> list[int]:
    return row[-3:]


def offers_anything(row: list[int]) -> list[int]:
    return [97, 98, 300, 44, 301][: len(row) % 6]


def offers_nothing(row: list[int]) -> list[int]:
    return []


class TestDrafts:
    @pytest.mark.parametrize("draft", [repeats_itself, offers_anything, offers_nothing])
    @pytest.mark.parametrize("pattern", [WORD, NUMBER, LIST, r"(abc){2,30}"])
    def test_drafts_change_nothing(self, compiler, loops, draft, pattern) -> None:
        compiled = compiler.compile(formats.regex(pattern))
        prompt = prompts_of("prompt")
        plain = loops.generate(FormatterLogitsProcessor([compiled]), prompt)
        drafted = loops.drafted(FormatterLogitsProcessor([compiled]), prompt, draft)
        assert drafted.tolist() == plain.tolist()

    def test_right_drafts_are_taken(self, compiler, loops) -> None:
        compiled = compiler.compile(formats.regex(r"(ab|ba){5,20}"))
        prompt = prompts_of("prompt")
        plain = loops.generate(FormatterLogitsProcessor([compiled]), prompt)
        known = plain[0].tolist()
        drafted = loops.drafted(
            FormatterLogitsProcessor([compiled]), prompt, lambda row: known[len(row) : len(row) + 4]
        )
        assert drafted.tolist() == plain.tolist()

    def test_an_assistant_that_shares_the_processor(self, compiler, loops) -> None:
        processor = FormatterLogitsProcessor([compiler.compile(formats.regex(LIST))])
        assistant = Loops(WIDTH, ENDS, PAD, max_new_tokens=4, seed=0)
        prompt = prompts_of("prompt")

        def draft(row: list[int]) -> list[int]:
            return assistant.generate(processor, torch.tensor([row]))[0].tolist()[len(row) :]

        plain = loops.generate(FormatterLogitsProcessor(processor.formats), prompt)
        assert loops.drafted(processor, prompt, draft).tolist() == plain.tolist()


class TestReuse:
    """One call of `generate` after the other, with `reset` between them, and nothing else."""

    QUESTIONS = ("Question 1", "Question 12", "Question 123", "Question 1")

    @pytest.fixture
    def processor(self, compiler):
        return FormatterLogitsProcessor([compiler.compile(formats.regex("[0-9]{3}"))])

    def test_a_second_call_is_refused_whatever_its_prompt(self, processor, loops) -> None:
        prompts = prompts_of("Question 1")
        rows = loops.generate(processor, prompts)
        for again in (*map(prompts_of, self.QUESTIONS), rows, rows[:, :-1]):
            with pytest.raises(HookReused, match="reset"):
                loops.generate(processor, again)
        assert processor.results(rows)[0].value == texts_of(rows, prompts.shape[1])[0]

    def test_after_reset_the_next_call_begins_anew(self, processor, loops) -> None:
        for text in self.QUESTIONS:
            prompts = prompts_of(text)
            rows = loops.generate(processor, prompts)
            assert re.fullmatch("[0-9]{3}", texts_of(rows, prompts.shape[1])[0])
            assert processor.results(rows)[0].is_complete
            processor.reset()

    def test_an_output_that_was_cut_is_a_prompt_like_any_other(self, processor, loops) -> None:
        loops.max_new_tokens = 2
        rows = loops.generate(processor, prompts_of("p"))
        loops.max_new_tokens = 20
        with pytest.raises(HookReused):
            loops.generate(processor, rows)
        processor.reset()
        longer = loops.generate(processor, rows)
        assert re.fullmatch("[0-9]{3}", texts_of(longer, rows.shape[1])[0])

    @pytest.mark.parametrize("in_a_thread", [False, True])
    def test_another_call_while_one_runs(self, processor, loops, in_a_thread) -> None:
        def interrupts(input_ids, scores):
            for prompts in (input_ids, prompts_of("Question 1")):
                with pytest.raises(HookReused), ThreadPoolExecutor(1) as pool:
                    another = partial(Loops(WIDTH, ENDS, PAD).generate, processor, prompts)
                    pool.submit(another).result() if in_a_thread else another()
            return scores

        loops.after = [interrupts]
        rows = loops.generate(processor, prompts_of("Question 1"))
        assert re.fullmatch("[0-9]{3}", processor.results(rows)[0].value)

    def test_a_reset_ends_a_call_that_still_runs(self, processor, loops) -> None:
        def reset(input_ids, scores):
            processor.reset()
            return scores

        loops.after = [reset]
        with pytest.raises(HookReused):
            loops.generate(processor, prompts_of("Question 1"))

    def test_two_resets_at_once_let_no_running_call_in_again(self, processor, loops, monkeypatch) -> None:
        loops.generate(processor, prompts_of("p"))
        close, inside, goes_on = OneCall.close, threading.Event(), threading.Event()
        late = threading.Thread(target=processor.reset)

        def interrupted(call: OneCall) -> OneCall:
            if threading.current_thread() is late:
                inside.set()
                goes_on.wait(0.2)
            return close(call)

        def end_the_late_reset(input_ids, scores):
            goes_on.set()
            late.join()
            return scores

        monkeypatch.setattr(OneCall, "close", interrupted)
        loops.after = [end_the_late_reset]
        late.start()
        inside.wait()
        processor.reset()
        with suppress(HookReused):
            rows = loops.generate(processor, prompts_of("Question 1"))
            assert re.fullmatch("[0-9]{3}", texts_of(rows, len("Question 1"))[0])
        late.join()

    def test_results_between_two_tokens_disturb_nothing(self, compiler, loops) -> None:
        processor = FormatterLogitsProcessor([compiler.compile(formats.regex(LIST))])
        prompts = prompts_of("p")
        plain = loops.generate(processor, prompts)
        processor.reset()
        seen: list[str] = []

        def watched(input_ids, scores):
            masked = processor(input_ids, scores)
            seen.append(processor.results(input_ids)[0].text)
            return masked

        assert loops.generate(watched, prompts).tolist() == plain.tolist()
        assert len(seen) > 2
        assert texts_of(plain, prompts.shape[1])[0].startswith(seen[-1])

    def test_a_loop_without_generate_is_refused(self, processor, loops) -> None:
        prompts = prompts_of("p")
        with pytest.raises(InvalidArgument, match=r"compiled\.formatter"):
            processor(prompts, loops.logits(prompts))


def judged(processor, loops: Loops, prompts, rng: random.Random) -> str:
    """Run one `generate` and judge its text; what else comes has to be an error of ours."""
    pattern = processor.pattern
    try:
        rows = (
            loops.beams(processor, prompts, beams=2)
            if rng.random() < 0.2
            else loops.generate(processor, prompts, sample=True)
        )
    except FormatterError:
        return "error"
    assert re.fullmatch(pattern, texts_of(rows, prompts.shape[1])[0])
    if rng.random() < 0.5:
        # Another thread may have reset it, and begun again with the same prompt.
        with suppress(InvalidArgument):
            assert re.fullmatch(pattern, processor.results(rows)[0].value)
    return "text"


@pytest.mark.parametrize("seed", range(60))
def test_random_schedules_of_processors(compiler, seed) -> None:
    """Reused, nested, threaded and reset at any time: each text is in its format, or there is an error of ours."""
    rng = random.Random(seed)
    processors = []
    for pattern in rng.choices(["[0-9]{3}", WORD, NUMBER], k=rng.randint(1, 2)):
        processor = FormatterLogitsProcessor([compiler.compile(formats.regex(pattern))])
        processor.pattern = pattern
        processors.append(processor)
    outcomes: list[str] = []

    def act(depth: int, seed: int) -> None:
        own = random.Random(seed)
        processor = own.choice(processors)
        if own.random() < 0.3:
            processor.reset()
        loops = Loops(WIDTH, ENDS, PAD, max_new_tokens=40, seed=own.randint(0, 3))
        if depth < 2 and own.random() < 0.5:
            loops.after = [interruption(depth, own)]
        prompts = prompts_of(own.choice(["Question 1", "Question 12", "Question 123", "Question 1a", "x"]))
        outcomes.append(judged(processor, loops, prompts, own))

    def interruption(depth: int, own: random.Random):
        def interrupt(input_ids, scores):
            if own.random() < 0.2:
                own.choice(processors).reset()
            elif own.random() < 0.3:
                act(depth + 1, own.randint(0, 10**9))
            return scores

        return interrupt

    for _ in range(rng.randint(1, 3)):
        seeds = [rng.randint(0, 10**9) for _ in range(rng.choice([1, 1, 2, 5]))]
        with ThreadPoolExecutor(len(seeds)) as pool:
            for future in [pool.submit(act, 0, one) for one in seeds]:
                future.result()
    assert outcomes


class TestResults:
    def test_captures_and_values(self, compiler, loops) -> None:
        builder = FormatterBuilder()
        builder.append(
            "n=", builder.integer(name="n", minimum=0, maximum=99), " ", builder.choice(["ab", "ba"], name="c")
        )
        processor = FormatterLogitsProcessor([None, compiler.compile(builder)])
        prompts = prompts_of("p", "long")
        rows = loops.generate(processor, prompts, returned=2, sample=True)
        results = processor.results(rows)
        assert results[:2] == [None, None]
        for row, result in zip(rows.tolist()[2:], results[2:], strict=True):
            found = re.fullmatch(r"n=([0-9]+) (ab|ba)", text_of(row[prompts.shape[1] :]))
            assert result.ended == "end"
            assert result.is_complete
            assert dict(result.captures) == {"n": (int(found[1]),), "c": (found[2],)}

    def test_a_cut_output(self, compiler, loops) -> None:
        processor = FormatterLogitsProcessor([compiler.compile(formats.regex("a{30}"))])
        loops.max_new_tokens = 5
        result = processor.result(loops.generate(processor, prompts_of("p")))
        assert result.ended == "length"
        with pytest.raises(IncompleteResult):
            _ = result.value

    def test_an_output_that_a_stop_string_cut(self, compiler, loops) -> None:
        processor = FormatterLogitsProcessor([compiler.compile(formats.regex("a{30}"))])
        steps = then(prompts_of("p"), 97, 97, PAD, PAD)
        follow(processor, *steps[:-1])
        result = processor.results(steps[-1])[0]
        assert (result.ended, result.text) == ("stop_string", "aa")

    def test_a_sequence_off_the_format_says_where(self, compiler, loops) -> None:
        processor = FormatterLogitsProcessor([compiler.compile(formats.regex("a{30}"))])
        steps = then(prompts_of("p"), 97, 98, 97)
        follow(processor, *steps[:-1])
        result = processor.results(steps[-1])[0]
        assert result.ended == "error"
        assert isinstance(processor.errors[0], TokenRejected)
        assert processor.errors[0].position == 1

    def test_foreign_sequences(self, compiler, loops) -> None:
        processor = FormatterLogitsProcessor([compiler.compile(formats.regex("[ab]{3}"))])
        with pytest.raises(InvalidArgument, match="no generate has called"):
            processor.results(prompts_of("never seen"))
        rows = loops.generate(processor, prompts_of("a"))
        text = texts_of(rows, 1)[0]
        foreign = [[*ids("a" + other), ENDS[0]] for other in ("aab", "bba", "aba") if other[:2] != text[:2]]
        for sequences in (prompts_of("b"), torch.tensor(foreign[:1])):
            with pytest.raises(InvalidArgument, match="prompts"):
                processor.results(sequences)

    def test_sequences_of_a_longer_prompt(self, compiler, loops) -> None:
        """Another thread has reset the processor since, and gone on from the beginning of this prompt."""
        processor = FormatterLogitsProcessor([compiler.compile(formats.regex("[0-9]{3}"))])
        rows = loops.generate(processor, prompts_of("Question 1a"))
        processor.reset()
        loops.generate(processor, prompts_of("Question 1"))
        with pytest.raises(InvalidArgument, match="prompts"):
            processor.results(rows)

    def test_while_another_thread_generates(self, compiler, loops) -> None:
        processor = FormatterLogitsProcessor([compiler.compile(formats.regex("[ab]{3}"))])
        outcomes = []

        def read(input_ids, scores):
            with ThreadPoolExecutor(1) as pool, pytest.raises(InvalidArgument, match="prompts"):
                pool.submit(processor.results, input_ids).result()
            outcomes.append(processor.results(input_ids)[0].ended)
            return scores

        loops.after = [read]
        with ThreadPoolExecutor(1) as pool:
            rows = pool.submit(loops.generate, processor, prompts_of("a")).result()
            assert processor.result(rows).is_complete
        assert set(outcomes) == {"length"}

    @pytest.mark.parametrize(
        "wrong", [["abc"], [{"generated_text": "abc"}], "abc", None, torch.tensor([1, 2]), [[1, 2]]]
    )
    def test_what_are_no_sequences(self, compiler, loops, wrong) -> None:
        processor = FormatterLogitsProcessor([compiler.compile(formats.regex("[ab]{3}"))])
        loops.generate(processor, prompts_of("a"))
        with pytest.raises(InvalidArgument, match="generate returned"):
            processor.results(wrong)

    def test_the_output_object_of_generate(self, compiler, loops) -> None:
        processor = FormatterLogitsProcessor([compiler.compile(formats.regex("a"))])
        output = type("Output", (), {"sequences": loops.generate(processor, prompts_of("p"))})
        assert processor.results(output)[0].text == "a"


class TestFailing:
    @pytest.mark.parametrize("error", [LimitExceeded("work", 1, "a step"), RuntimeError("broken")])
    def test_one_sequence_ends_and_the_others_go_on(self, compiler, loops, error, caplog) -> None:
        engine = FailingEngine(compiler._engine, "fill_bitmask", after=2, error=error)
        compiled = compiler.compile(formats.regex(r"[a-f]{5}"))
        failing = Compiler(compiler.vocabulary, engine=engine).compile(formats.regex(r"[a-f]{5}!?"))
        processor = FormatterLogitsProcessor([compiled, failing, compiled])
        prompts = prompts_of("p", "q", "r")
        with caplog.at_level(logging.WARNING):
            rows = loops.generate(processor, prompts)
        assert processor.errors == {1: error}
        assert len(caplog.records) == 1
        results = processor.results(rows)
        assert [result.ended for result in results] == ["end", "error", "end"]
        assert processor.errors == {1: error}
        assert len(results[1].tokens) == 2
        for row in (0, 2):
            assert re.fullmatch("[a-f]{5}", results[row].text)


def forbid(*token_ids: int, until: int = 10**9):
    def processor(input_ids, scores):
        scores = scores.clone()
        if input_ids.shape[1] < until:
            scores[:, list(token_ids)] = -torch.inf
        return scores

    return processor


class TestOtherRules:
    def test_min_new_tokens_gives_way_to_a_format_that_must_end(self, compiler, loops) -> None:
        processor = FormatterLogitsProcessor(
            [compiler.compile(formats.regex("aa")), compiler.compile(formats.regex("a{2,40}"))]
        )
        prompts = prompts_of("p", "q")
        loops.before = [forbid(*ENDS, until=prompts.shape[1] + 20)]
        rows = loops.generate(processor, prompts)
        first, second = texts_of(rows, prompts.shape[1])
        assert first == "aa"
        assert re.fullmatch("a{20,40}", second)
        assert processor.errors == {}


class TestFailuresOfOneRow:
    """Rows with the same format and tokens share a state, but not what another processor does to one of them."""

    @pytest.mark.parametrize("is_after", [False, True])
    @pytest.mark.parametrize("length", [1, 2])
    def test_the_others_continue(self, compiler, loops, is_after, length) -> None:
        def forbids(input_ids, scores):
            scores = scores.clone()
            if input_ids.shape[1] == length:
                scores[1] = -torch.inf
            return scores

        processor = FormatterLogitsProcessor([compiler.compile(formats.regex("[ab]{4}"))])
        loops.before, loops.after = ([], [forbids]) if is_after else ([forbids], [])
        prompts = torch.cat([prompts_of("p")] * 3)
        results = processor.results(loops.generate(processor, prompts))
        assert [result.ended for result in results] == ["end", "error", "end"]
        assert list(processor.errors) == [1]
        assert isinstance(processor.errors[1], NoTokenLeft)
        assert processor.errors[1].text == results[0].bytes[: length - 1]
        assert results[0].text == results[2].text
        assert re.fullmatch("[ab]{4}", results[0].text)

    def test_a_beam(self, compiler, loops) -> None:
        def forbids(input_ids, scores):
            scores = scores.clone()
            if input_ids.shape[1] == 2:
                scores[scores.shape[0] // 2 :] = -torch.inf  # all beams of the second prompt
            return scores

        processor = FormatterLogitsProcessor([compiler.compile(formats.regex("[ab]{4}"))])
        loops.before = [forbids]
        rows = loops.beams(processor, prompts_of("p", "q"), beams=3)
        results = processor.results(rows)
        assert [result.ended for result in results] == ["end", "error"]
        assert isinstance(processor.errors[1], NoTokenLeft)


class TestAnotherModel:
    class Model:
        def __init__(self) -> None:
            self.config = object()

    def test_only_the_model_that_it_was_made_for_generates(self, compiler, loops) -> None:
        model, other = self.Model(), self.Model()
        wrapper = self.Model()
        wrapper.config = model.config
        rows = prompts_of("p")

        def step(processors):
            return processors(rows, loops.logits(rows))

        for generating in (model, wrapper):
            processor = FormatterLogitsProcessor([compiler.compile(formats.regex("a"))], model=model)
            assert allowed_in(generate(step, processor, model=generating)[0]) == [ord("a")]
        processor = FormatterLogitsProcessor([compiler.compile(formats.regex("a"))], model=model)
        with pytest.raises(WrongModel, match="another one"):
            generate(step, processor, model=other)

    def test_fewer_logits_than_the_tokenizer_has_tokens(self, compiler) -> None:
        processor = FormatterLogitsProcessor([compiler.compile(formats.regex("a"))], min_width=256)
        with pytest.raises(WrongModel, match="model of 200 logits"):
            generate(lambda processors: processors(prompts_of("p"), torch.zeros(1, 200)), processor)


class TestLaterProcessors:
    """Processors that run after the format's can change scores, but never let a masked token through."""

    def test_a_token_that_is_given_a_score_again(self, compiler, loops) -> None:
        compiled = compiler.compile(formats.regex("[ab]{4}"))
        processor = FormatterLogitsProcessor([compiled, compiled])

        def opens(input_ids, scores):
            scores = scores.clone()
            if input_ids.shape[1] == 3:
                scores[0, ord("z")] = 100.0
            return scores

        loops.after = [opens]
        rows = loops.generate(processor, torch.cat([prompts_of("p")] * 2))  # which share a state
        assert isinstance(processor.errors[0], MaskOverridden)
        assert processor.errors[0].token_id == ord("z")
        results = processor.results(rows)
        assert [result.ended for result in results] == ["error", "end"]
        assert len(results[0].tokens) == 2
        assert re.fullmatch("[ab]{4}", results[1].text)

    def test_changes_among_the_allowed_tokens_count(self, compiler, loops) -> None:
        def prefers_a(input_ids, scores):
            scores = scores.where(scores.isfinite(), torch.finfo(scores.dtype).min)  # as some processors mask
            scores[:, ord("a")] += 100.0
            return scores

        processor = FormatterLogitsProcessor([compiler.compile(formats.regex("[ab]{4}"))])
        loops.after = [prefers_a]
        rows = loops.generate(processor, prompts_of("p"))
        assert processor.errors == {}
        assert processor.results(rows)[0].value == "aaaa"


class TestMisuse:
    def test_no_formats(self) -> None:
        with pytest.raises(InvalidArgument, match="empty"):
            FormatterLogitsProcessor([])
        with pytest.raises(InvalidArgument, match="None"):
            create_logits_processor(object(), None)
        with pytest.raises(InvalidArgument, match="either a format"):
            create_logits_processor(object(), int, formats=[int])

    def test_one_result_of_several_sequences(self, compiler, loops) -> None:
        processor = FormatterLogitsProcessor([compiler.compile(formats.regex("a{3}"))])
        rows = loops.generate(processor, prompts_of("p", "q"))
        with pytest.raises(InvalidArgument, match="2 sequences; read them with results"):
            processor.result(rows)
        with pytest.raises(InvalidArgument, match="no format"):
            free = FormatterLogitsProcessor([None])
            free.result(loops.generate(free, prompts_of("p")))

    def test_the_name_of_a_tokenizer(self) -> None:
        with pytest.raises(InvalidArgument, match=r"AutoTokenizer\.from_pretrained\('gpt2'\)"):
            create_logits_processor("gpt2", int)

    @pytest.mark.parametrize("mode", ["contrastive_search", "constrained_beam_search"])
    def test_modes_that_take_masked_tokens(self, compiler, mode) -> None:
        processor = FormatterLogitsProcessor([compiler.compile(formats.regex("a"))])
        with pytest.raises(InvalidArgument, match="beam search"):
            follow(processor, prompts_of("p"), mode=mode)

    def test_beam_sampling_where_it_cannot_work(self, compiler, loops) -> None:
        processor = FormatterLogitsProcessor([compiler.compile(formats.regex("a"))])

        def beam_search(processors):
            beam_scorer = None  # noqa: F841 - this is how old releases are known
            return processors(prompts_of("p"), loops.logits(prompts_of("p")))

        with pytest.raises(UnsupportedEngineVersion, match=r"4\.50"):
            generate(beam_search, processor, mode="beam_sample")
        assert len(follow(processor, prompts_of("p"), mode="beam_sample")) == 1

    def test_a_processor_in_place_of_a_list(self, compiler) -> None:
        processor = FormatterLogitsProcessor([compiler.compile(formats.regex("a"))])
        with pytest.raises(InvalidArgument, match=r"logits_processor=\[processor\]"):
            len(processor)
        assert processor

    def test_what_is_no_tokenizer(self) -> None:
        with pytest.raises(InvalidVocabulary, match="AutoTokenizer"):
            create_vocabulary(object())

    def test_rows_that_cannot_be_shared_out(self, compiler, loops) -> None:
        processor = FormatterLogitsProcessor([compiler.compile(formats.regex("a"))] * 2)
        prompts = prompts_of("p", "q", "r")
        with pytest.raises(InvalidArgument, match="2 formats were given for 3 rows"):
            follow(processor, prompts)

    def test_flat_input_ids_as_continuous_batching_gives_them(self, compiler) -> None:
        processor = FormatterLogitsProcessor([compiler.compile(formats.regex("a"))])
        with pytest.raises(InvalidArgument, match="whole sequences"):
            processor(torch.tensor([1, 2, 3]), torch.zeros(3, WIDTH))
