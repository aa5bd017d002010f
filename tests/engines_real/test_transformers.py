"""`generate` of transformers itself, in every mode: each row's text is judged by something else than this project."""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="needs torch")
pytest.importorskip("transformers.generation", reason="needs transformers")
import transformers  # noqa: E402
from transformers import LogitsProcessor  # noqa: E402

jsonschema = pytest.importorskip("jsonschema", reason="judges by jsonschema")

from formatter_core import FormatterBuilder, formats  # noqa: E402
from formatter_core.errors import (  # noqa: E402
    HookReused,
    InvalidArgument,
    MaskOverridden,
    NoTokenLeft,
    UnsupportedEngineVersion,
    WrongModel,
)
from formatter_transformers import (  # noqa: E402
    ForcedDrafts,
    create_logits_processor,
    create_vocabulary,
    transformers_model,
)
from tests.engines_real.reasoning_budgets import MOST, budgeted_answer, judged  # noqa: E402
from tests.engines_real.transformers_models import TAIL, metaspace_tokenizer, random_model, trained_tokenizer  # noqa: E402
from tests.engines_real.transformers_schedules import run_schedule  # noqa: E402
from tests.schemas import closed  # noqa: E402

PROMPTS = ["été", "a much longer prompt, abc", "日本 {", "x"]

SCHEMA = closed(
    {
        "name": {"type": "string", "maxLength": 5},
        "tags": {"type": "array", "items": {"enum": ["abc", "été", True, None]}, "maxItems": 3},
        "ok": {"type": "boolean"},
    },
    required=["name", "ok"],
)


@dataclass(frozen=True)
class Case:
    format: Any
    judge: Callable[[str], object]


def matches(pattern: str) -> Callable[[str], object]:
    return lambda text: re.fullmatch(pattern, text)


def is_valid(text: str) -> bool:
    jsonschema.validate(json.loads(text), SCHEMA)
    return True


def card() -> FormatterBuilder:
    b = FormatterBuilder()
    return b.append("n=", b.integer(minimum=-5, maximum=120, name="n"), "; ", b.regex("[a-j]{1,6}", name="w"), ".")


CASES = [
    Case(formats.regex(r"[a-j]{2,12}(é|日本)?"), matches(r"[a-j]{2,12}(é|日本)?")),
    Case(formats.json_schema(SCHEMA, whitespace="compact"), is_valid),
    Case(card(), matches(r"n=(-[1-5]|[0-9]|[1-9][0-9]|1[01][0-9]|120); [a-j]{1,6}\.")),
    Case(
        formats.choice(["abc", "abcabc", "été 日本", "😀!"]), lambda text: text in ("abc", "abcabc", "été 日本", "😀!")
    ),
]


@pytest.fixture(scope="module")
def tokenizer():
    return trained_tokenizer()


@pytest.fixture(scope="module", params=["llama", "gpt2"])
def model(request, tokenizer):
    return random_model(request.param, tokenizer)


@pytest.fixture(scope="module")
def llama(tokenizer):
    return random_model("llama", tokenizer)


@pytest.fixture(autouse=True)
def seeded() -> None:
    torch.manual_seed(1)


def inputs_of(tokenizer, prompts: list[str] = PROMPTS):
    return tokenizer(prompts, return_tensors="pt", padding=True)


def text_of(tokenizer, model, tokens: list[int]) -> str:
    """Return the text up to the first end id, decoded by the tokenizer."""
    ends = model.generation_config.eos_token_id
    first = next(index for index, token in enumerate(tokens) if token in ends)
    assert max(tokens) < len(tokenizer), "a token beyond the tokenizer's was generated"
    return tokenizer.decode(tokens[:first], skip_special_tokens=False, clean_up_tokenization_spaces=False)


def check(tokenizer, model, output, width: int, cases: list[Case | None]) -> list[str]:
    """Judge every row; the rows of one prompt stand side by side."""
    rows = output[:, width:].tolist()
    texts = []
    for index, row in enumerate(rows):
        case = cases[index * len(cases) // len(rows)]
        if case is not None:
            texts.append(text_of(tokenizer, model, row))
            assert case.judge(texts[-1]), texts[-1]
    return texts


MODES = {
    "greedy": {},
    "sampling": {"do_sample": True},
    "hot sampling": {"do_sample": True, "temperature": 3.0, "top_k": 0},
    "several outputs": {"do_sample": True, "num_return_sequences": 4},
    "beams": {"num_beams": 3},
    "several beams": {"num_beams": 4, "num_return_sequences": 2, "early_stopping": True},
    "static cache": {"cache_implementation": "static"},
    "warpers": {"do_sample": True, "top_p": 0.5, "repetition_penalty": 1.3},
    "renormalized": {"do_sample": True, "renormalize_logits": True},
}


class TestModes:
    @pytest.mark.parametrize("mode", MODES)
    def test_every_row_is_in_the_format_of_its_prompt(self, tokenizer, model, mode) -> None:
        processor = create_logits_processor(tokenizer, formats=[case.format for case in CASES], model=model)
        inputs = inputs_of(tokenizer)
        output = model.generate(**inputs, **MODES[mode], max_new_tokens=300, logits_processor=[processor])
        texts = check(tokenizer, model, output, inputs["input_ids"].shape[1], CASES)
        results = processor.results(output)
        assert [result.text for result in results] == texts
        assert all(result.ended == "end" and result.is_complete for result in results)
        assert processor.errors == {}

    def test_one_format_for_all_prompts(self, tokenizer, model) -> None:
        processor = create_logits_processor(tokenizer, CASES[1].format, model=model)
        inputs = inputs_of(tokenizer)
        output = model.generate(**inputs, do_sample=True, max_new_tokens=300, logits_processor=[processor])
        texts = check(tokenizer, model, output, inputs["input_ids"].shape[1], [CASES[1]])
        assert [result.value for result in processor.results(output)] == [json.loads(text) for text in texts]

    @pytest.mark.parametrize("seed", range(4))
    def test_reasoning_ends_within_its_budget(self, tokenizer, llama, seed) -> None:
        torch.manual_seed(seed)
        processor = create_logits_processor(tokenizer, budgeted_answer(), model=llama)
        inputs = inputs_of(tokenizer)
        output = llama.generate(**inputs, do_sample=True, max_new_tokens=150, logits_processor=[processor])
        vocabulary = create_vocabulary(tokenizer, model=llama)
        rows = output[:, inputs["input_ids"].shape[1] :].tolist()
        for row, result in zip(rows, processor.results(output), strict=True):
            reasoning, number, count = judged(vocabulary, row[: len(result.tokens)])
            assert (result.value.reasoning, result.value.content) == (reasoning, number)
            assert result.is_complete
            assert count <= MOST

    def test_an_unconstrained_prompt_writes_what_it_would_write_alone(self, tokenizer, llama) -> None:
        processor = create_logits_processor(tokenizer, formats=[CASES[0].format, None], model=llama)
        inputs = inputs_of(tokenizer, ["ab", "ab"])
        output = llama.generate(**inputs, max_new_tokens=20, logits_processor=[processor])
        free = llama.generate(**inputs, max_new_tokens=20)
        length = min(output.shape[1], free.shape[1])
        assert output[1, :length].tolist() == free[1, :length].tolist()
        assert processor.results(output)[1] is None

    def test_beam_sampling(self, tokenizer, llama) -> None:
        """Transformers before 4.50 cannot draw more beams than there are allowed tokens, and crashed or drew others."""
        inputs = inputs_of(tokenizer)
        for case in CASES:
            processor = create_logits_processor(tokenizer, case.format, model=llama)
            options = {"do_sample": True, "num_beams": 3, "max_new_tokens": 300, "logits_processor": [processor]}
            try:
                output = llama.generate(**inputs, **options)
            except UnsupportedEngineVersion as error:
                assert error.found < "4.50"
                return
            check(tokenizer, llama, output, inputs["input_ids"].shape[1], [case])

    def test_contrastive_search_is_refused(self, tokenizer, llama) -> None:
        """It chooses among the best tokens by another measure, masked or not; transformers 5 has it elsewhere."""
        processor = create_logits_processor(tokenizer, CASES[0].format, model=llama)
        options = {"penalty_alpha": 0.6, "top_k": 4, "logits_processor": [processor]}
        try:
            llama.generate(**inputs_of(tokenizer, ["x"]), **options)
        except InvalidArgument as error:
            assert error.argument == "penalty_alpha"
        except (ValueError, OSError) as error:
            pytest.skip(f"this transformers has no contrastive search: {str(error)[:80]}")
        else:
            pytest.fail("contrastive search ran")

    def test_groups_of_beams(self, tokenizer, llama) -> None:
        processor = create_logits_processor(tokenizer, formats=[case.format for case in CASES[:2]], model=llama)
        inputs = inputs_of(tokenizer, PROMPTS[:2])
        options = {"num_beams": 4, "num_beam_groups": 2, "diversity_penalty": 0.5}
        try:
            output = llama.generate(**inputs, **options, max_new_tokens=300, logits_processor=[processor])
        except ValueError as error:
            pytest.skip(f"this transformers has no groups of beams: {str(error)[:80]}")
        check(tokenizer, llama, output, inputs["input_ids"].shape[1], CASES[:2])

    def test_scores_are_masked_and_logits_are_left_alone(self, tokenizer, llama) -> None:
        processor = create_logits_processor(tokenizer, CASES[3].format, model=llama)
        inputs = inputs_of(tokenizer, ["x"])
        output = llama.generate(
            **inputs,
            max_new_tokens=20,
            logits_processor=[processor],
            return_dict_in_generate=True,
            output_scores=True,
            output_logits=True,
        )
        assert all(torch.isfinite(logits).all() for logits in output.logits)
        assert all(torch.isneginf(scores[:, -TAIL:]).all() for scores in output.scores)
        assert processor.results(output)[0].is_complete


class TestDrafts:
    #: It repeats texts of the formats, so that there are drafts, right ones and wrong ones.
    PROMPT = '{"name":"abc","ok":true} n=1; abc. été 日本 abcabc {"name":"abc","ok":true} n=1; abc.'

    @pytest.fixture(params=["prompt lookup", "assistant"])
    def drafting(self, request, tokenizer) -> dict[str, Any]:
        if request.param == "prompt lookup":
            return {"prompt_lookup_num_tokens": 6}
        assistant = random_model("llama", tokenizer)
        with torch.no_grad():
            for weight in assistant.parameters():
                weight.add_(torch.randn_like(weight) * 0.02)
        return {"assistant_model": assistant}

    @pytest.mark.parametrize("case", CASES)
    @pytest.mark.parametrize("sample", [False, True])
    def test_drafts_leave_outputs_in_their_format(self, tokenizer, llama, drafting, case, sample) -> None:
        inputs = inputs_of(tokenizer, [self.PROMPT])
        processor = create_logits_processor(tokenizer, case.format, model=llama)
        options = {"do_sample": sample, "max_new_tokens": 300, "logits_processor": [processor]}
        output = llama.generate(**inputs, **options, **drafting)
        check(tokenizer, llama, output, inputs["input_ids"].shape[1], [case])
        assert processor.results(output)[0].is_complete
        if not sample:
            processor.reset()
            assert output.tolist() == llama.generate(**inputs, **options).tolist()

    def test_an_assistant_with_a_tokenizer_of_its_own(self, tokenizer, llama) -> None:
        """The assistant's calls of the processor have ids of another vocabulary; they must not disturb the model's."""
        other = trained_tokenizer(size=400)
        processor = create_logits_processor(tokenizer, CASES[1].format, model=llama)
        inputs = inputs_of(tokenizer, ["a prompt"])
        output = llama.generate(
            **inputs,
            do_sample=False,
            max_new_tokens=300,
            logits_processor=[processor],
            assistant_model=random_model("llama", other, seed=5),
            tokenizer=tokenizer,
            assistant_tokenizer=other,
        )
        check(tokenizer, llama, output, inputs["input_ids"].shape[1], [CASES[1]])
        assert processor.results(output)[0].is_complete


class TestForcedDrafts:
    """Outputs are those without drafts, token for token, and there are fewer passes."""

    MIXED = formats.regex(r"abc été abc: ([0-9]{1,3}|none); abcabc 日本 abc[.!]{1,2}")

    @pytest.fixture
    def drafts(self, tokenizer) -> ForcedDrafts:
        try:
            return ForcedDrafts(tokenizer, most=8)
        except UnsupportedEngineVersion as error:
            assert error.found < "4.57"
            pytest.skip("generate takes no function that decodes")

    @staticmethod
    def both(tokenizer, model, format: Any, drafts: Any, prompt: str = "x", /, **options: Any) -> tuple[Any, list[int]]:
        """Generate with and without drafts, which must be equal, and return both outputs and their passes."""
        outputs, passes, tokens = [], [], []
        hook = model.register_forward_hook(lambda *_: passes.__setitem__(-1, passes[-1] + 1))
        for more in ({}, {"custom_generate": drafts}):
            passes.append(0)
            torch.manual_seed(1)
            processor = create_logits_processor(tokenizer, formats=[format], model=model)
            inputs = tokenizer(prompt, return_tensors="pt")
            output = model.generate(**inputs, **{"max_new_tokens": 80, **options, **more}, logits_processor=[processor])
            outputs.append(output)
            tokens.append(getattr(output, "sequences", output).tolist())
        hook.remove()
        assert tokens[0] == tokens[1]
        (result,) = processor.results(outputs[1])
        return (outputs, result), passes

    @pytest.mark.parametrize("mode", ["greedy", "sampling", "hot sampling", "warpers"])
    def test_certain_text(self, tokenizer, model, drafts, mode) -> None:
        for format in (self.MIXED, *(case.format for case in CASES[1:])):
            (_, result), (plain, drafted) = self.both(tokenizer, model, format, drafts, **MODES[mode])
            assert result.is_complete
            assert drafted <= plain
            if format is self.MIXED:
                assert drafted < plain
        assert drafts.proposed > 0

    def test_longest_tokens_are_those_that_are_proposed(self, tokenizer, llama, drafts) -> None:
        processor = create_logits_processor(tokenizer, self.MIXED, model=llama, forced_text="longest")
        inputs = inputs_of(tokenizer, ["x"])
        passes = []
        hook = llama.register_forward_hook(lambda *_: passes.append(1))
        output = llama.generate(**inputs, max_new_tokens=80, custom_generate=drafts, logits_processor=[processor])
        hook.remove()
        assert processor.result(output).is_complete
        assert len(passes) < len(processor.result(output).tokens) / 2

    def test_nothing_is_certain(self, tokenizer, llama, drafts) -> None:
        for format in (formats.regex("[a-j]{2,9}"), None):
            _, (plain, drafted) = self.both(tokenizer, llama, format, drafts, max_new_tokens=20)
            assert plain == drafted
        assert drafts.proposed == 0

    @pytest.mark.parametrize("limit", [1, 2, 5, 9, 17])
    def test_an_output_that_ends_inside_of_certain_text(self, tokenizer, llama, drafts, limit) -> None:
        (_, result), _ = self.both(tokenizer, llama, self.MIXED, drafts, max_new_tokens=limit)
        assert (result.ended, len(result.tokens)) == ("length", limit)
        stop = transformers.StopStringCriteria(tokenizer, ["abc: ", "bcab"][limit % 2])
        (_, result), _ = self.both(tokenizer, llama, self.MIXED, drafts, stopping_criteria=[stop])
        assert not result.is_complete

    def test_budgets(self, tokenizer, llama, drafts) -> None:
        within = formats.sequence(formats.choice(["abc été: "]), formats.regex("[a-j]{1,90}; abc"))
        outputs = []
        for more in ({}, {"custom_generate": drafts}):
            processor = create_logits_processor(tokenizer, within, model=llama, max_tokens=30)
            inputs = inputs_of(tokenizer, ["x"])
            outputs.append(llama.generate(**inputs, max_new_tokens=30, logits_processor=[processor], **more))
            assert processor.result(outputs[-1]).is_complete
        assert outputs[0].tolist() == outputs[1].tolist()

    def test_scores_streams_and_caches(self, tokenizer, llama, drafts) -> None:
        wanted = {"return_dict_in_generate": True, "output_scores": True, "output_logits": True}
        ((plain, drafted), _), _ = self.both(tokenizer, llama, self.MIXED, drafts, **wanted)
        for name in ("scores", "logits"):
            for own, other in zip(getattr(plain, name), getattr(drafted, name), strict=True):
                assert torch.allclose(own, other, atol=1e-4)
        assert plain.past_key_values.get_seq_length() == drafted.past_key_values.get_seq_length()

        shown: list[int] = []
        streamer = SimpleNamespace(put=lambda ids: shown.extend(ids.flatten().tolist()), end=lambda: shown.append(-1))
        ((_, output), _), _ = self.both(tokenizer, llama, self.MIXED, drafts, streamer=streamer)
        assert shown == [*output[0].tolist(), -1] * 2

        # A conversation goes on in the cache of the turn before.
        processor = create_logits_processor(tokenizer, self.MIXED, model=llama)
        again = torch.cat([drafted.sequences, tokenizer("ab", return_tensors="pt")["input_ids"]], dim=1)
        options = {"max_new_tokens": 80, "logits_processor": [processor], "custom_generate": drafts}
        more = llama.generate(again, past_key_values=drafted.past_key_values, **options)
        processor.reset()
        assert more.tolist() == llama.generate(again, **options).tolist()

    def test_padding_before_the_prompt(self, tokenizer, llama, drafts) -> None:
        padded = tokenizer("x", return_tensors="pt", padding="max_length", max_length=9)
        for more in ({}, {"custom_generate": drafts}):
            processor = create_logits_processor(tokenizer, self.MIXED, model=llama)
            output = llama.generate(**padded, max_new_tokens=80, logits_processor=[processor], **more)
            assert processor.result(output).is_complete
            alone, _ = self.both(tokenizer, llama, self.MIXED, drafts)
            assert alone[1].tokens == processor.result(output).tokens

    def test_a_window_that_fills(self, tokenizer, drafts) -> None:
        """Tokens that have left a window cannot be taken back, so there are drafts only until it is full."""
        model = random_model("mistral", tokenizer)
        for prompt in ("x", "x" * 40):
            (_, result), _ = self.both(tokenizer, model, self.MIXED, drafts, prompt)
            assert result.is_complete

    def test_a_tokenizer_that_spells_otherwise(self, tokenizer, llama) -> None:
        """The ids would be those of another vocabulary, so nothing is proposed."""
        try:
            others = ForcedDrafts(metaspace_tokenizer())
        except UnsupportedEngineVersion:
            pytest.skip("generate takes no function that decodes")
        (_, result), _ = self.both(tokenizer, llama, self.MIXED, others)
        assert result.is_complete

    @pytest.mark.parametrize(
        "options",
        [
            {"num_beams": 2},
            {"do_sample": True, "num_return_sequences": 2},
            {"use_cache": False},
            {"cache_implementation": "static"},
            {"return_dict_in_generate": True, "output_hidden_states": True},
        ],
    )
    def test_what_is_refused(self, tokenizer, llama, drafts, options) -> None:
        processor = create_logits_processor(tokenizer, self.MIXED, model=llama)
        inputs = inputs_of(tokenizer, ["x"])
        with pytest.raises(InvalidArgument, match="ForcedDrafts cannot decode"):
            llama.generate(**inputs, **options, max_new_tokens=9, custom_generate=drafts, logits_processor=[processor])

    def test_what_is_refused_of_a_model(self, tokenizer, drafts) -> None:
        with pytest.raises(UnsupportedEngineVersion):
            random_model("t5", tokenizer).generate(**inputs_of(tokenizer, ["x"]), custom_generate=drafts)


class TestEncoderDecoder:
    @pytest.mark.parametrize("mode", ["greedy", "several outputs", "beams"])
    def test_the_decoder_is_constrained(self, tokenizer, mode) -> None:
        model = random_model("t5", tokenizer)
        processor = create_logits_processor(tokenizer, formats=[case.format for case in CASES], model=model)
        inputs = inputs_of(tokenizer)
        output = model.generate(**inputs, **MODES[mode], max_new_tokens=300, logits_processor=[processor])
        texts = check(tokenizer, model, output, 1, CASES)
        assert [result.text for result in processor.results(output)] == texts


class TestEnds:
    def test_several_end_ids(self, tokenizer, llama) -> None:
        vocabulary = create_vocabulary(tokenizer, model=llama)
        assert vocabulary.end_ids == tuple(llama.generation_config.eos_token_id)
        assert len(vocabulary) == len(tokenizer) + TAIL
        processor = create_logits_processor(tokenizer, formats.regex("[a-j]{1,3}"), model=llama)
        inputs = inputs_of(tokenizer, ["x"])
        output = llama.generate(
            **inputs,
            do_sample=True,
            num_return_sequences=60,
            temperature=2.0,
            max_new_tokens=20,
            logits_processor=[processor],
        )
        used = set(output[:, inputs["input_ids"].shape[1] :].flatten().tolist())
        assert set(vocabulary.end_ids) <= used

    def test_min_new_tokens(self, tokenizer, llama) -> None:
        either = [formats.choice(["abc"]), formats.regex("[a-j]{1,60}")]
        processor = create_logits_processor(tokenizer, formats=either, model=llama)
        inputs = inputs_of(tokenizer, ["x", "y"])
        width = inputs["input_ids"].shape[1]
        output = llama.generate(**inputs, min_new_tokens=15, max_new_tokens=80, logits_processor=[processor])
        results = processor.results(output)
        assert results[0].value == "abc"
        assert len(results[1].tokens) > 15
        assert re.fullmatch("[a-j]{1,60}", text_of(tokenizer, llama, output[1, width:].tolist()))
        assert processor.errors == {}

    def test_stop_strings(self, tokenizer, llama) -> None:
        processor = create_logits_processor(tokenizer, formats.regex(r"ab; [a-j]{30}"), model=llama)
        inputs = inputs_of(tokenizer, ["x"])
        output = llama.generate(
            **inputs, stop_strings=["; "], tokenizer=tokenizer, max_new_tokens=80, logits_processor=[processor]
        )
        (result,) = processor.results(output)
        assert not result.is_complete
        assert result.text.startswith("ab;")
        assert len(result.text) < 20

    def test_banned_words_end_the_sequence_with_the_cause(self, tokenizer, llama) -> None:
        banned = [[token] for token in range(len(tokenizer)) if "b" in tokenizer.decode([token])]
        processor = create_logits_processor(
            tokenizer, formats=[formats.choice(["abc"]), formats.choice(["acd"])], model=llama
        )
        inputs = inputs_of(tokenizer, ["x", "y"])
        output = llama.generate(**inputs, bad_words_ids=banned, max_new_tokens=20, logits_processor=[processor])
        results = processor.results(output)
        assert [result.ended for result in results] == ["error", "end"]
        assert isinstance(processor.errors[0], NoTokenLeft)
        assert results[1].text == "acd"

    def test_a_length_that_is_too_short(self, tokenizer, llama) -> None:
        processor = create_logits_processor(tokenizer, formats.regex("[a-j]{50}"), model=llama)
        output = llama.generate(**inputs_of(tokenizer, ["x"]), max_new_tokens=3, logits_processor=[processor])
        assert processor.results(output)[0].ended == "length"


class TestTokenizers:
    def test_spaces_and_bytes_as_in_llama_2(self) -> None:
        tokenizer = metaspace_tokenizer()
        model = random_model("llama", tokenizer)
        patterns = [r"[a-j ]{10,30}", r"(cafe|été|日本|😀| ){3,9}", r'\{"name": \[[0-9], (a bad|head)\]\}']
        processor = create_logits_processor(
            tokenizer, formats=[formats.regex(pattern) for pattern in patterns], model=model
        )
        inputs = inputs_of(tokenizer, ["the cab", "a", "{"])
        output = model.generate(
            **inputs, do_sample=True, num_return_sequences=10, max_new_tokens=300, logits_processor=[processor]
        )
        for row, result in enumerate(processor.results(output)):
            assert re.fullmatch(patterns[row // 10], result.text)
            decoded = tokenizer.decode(output[row, inputs["input_ids"].shape[1] :], skip_special_tokens=True)
            assert decoded.lstrip(" ") == result.text.lstrip(" ")


class TestReuse:
    def test_one_processor_for_many_calls(self, tokenizer, llama) -> None:
        processor = create_logits_processor(tokenizer, CASES[1].format, model=llama)
        for prompts in (["x"], ["x"], ["xy"], ["xy", "a longer one"], PROMPTS, ["x"]):
            inputs = inputs_of(tokenizer, prompts)
            options = {"do_sample": True, "max_new_tokens": 300, "logits_processor": [processor]}
            output = llama.generate(**inputs, **options)
            check(tokenizer, llama, output, inputs["input_ids"].shape[1], [CASES[1]])
            for again in (inputs, {"input_ids": output}):
                with pytest.raises(HookReused):
                    llama.generate(**again, **options)
            assert all(result.is_complete for result in processor.results(output))
            processor.reset()

    def test_a_chat(self, tokenizer, llama) -> None:
        processor = create_logits_processor(tokenizer, CASES[2].format, model=llama)
        prompt = inputs_of(tokenizer, ["question"])["input_ids"]
        for _ in range(3):
            processor.reset()
            output = llama.generate(prompt, do_sample=True, max_new_tokens=300, logits_processor=[processor])
            check(tokenizer, llama, output, prompt.shape[1], [CASES[2]])
            prompt = torch.cat([output, inputs_of(tokenizer, [" and then?"])["input_ids"]], dim=1)

    @pytest.mark.parametrize("assisted", [False, True])
    def test_random_schedules(self, tokenizer, llama, assisted) -> None:
        """A sample; `python -m tests.engines_real.transformers_schedules` runs any number of them."""
        for seed in range(8):
            run_schedule(seed + 1000 * assisted, tokenizer, llama, llama if assisted else None)

    def test_a_second_processor_is_cheap(self, tokenizer, llama) -> None:
        first = create_vocabulary(tokenizer, model=llama)
        assert create_vocabulary(tokenizer, model=llama) is first
        assert create_vocabulary(tokenizer, end_ids=[5]) is not first

    def test_a_tokenizer_that_was_changed_is_read_again(self, tokenizer) -> None:
        changed = copy.deepcopy(tokenizer)
        letter = create_vocabulary(changed).tokens.index(b"z")
        changed.eos_token = changed.convert_ids_to_tokens(letter)
        assert create_vocabulary(changed).end_ids == (letter,)
        changed.add_special_tokens({"additional_special_tokens": ["y"]})
        assert b"y" not in create_vocabulary(changed).tokens
        changed.add_tokens(["xylophone"])
        assert b"xylophone" in create_vocabulary(changed).tokens
        space = create_vocabulary(changed).tokens.index(b" ")
        changed.add_tokens([changed.convert_ids_to_tokens(space)])  # which it had: now it stands for itself
        assert create_vocabulary(changed).tokens[space] == "Ġ".encode()
        changed.add_tokens(["x"], special_tokens=True)
        assert b"x" not in create_vocabulary(changed).tokens

    def test_prompts_as_embeddings(self, tokenizer, llama) -> None:
        processor = create_logits_processor(tokenizer, CASES[2].format, model=llama)
        embedded = llama.get_input_embeddings()(inputs_of(tokenizer, ["x"])["input_ids"])
        for _ in range(2):
            processor.reset()
            output = llama.generate(
                inputs_embeds=embedded, do_sample=True, max_new_tokens=300, logits_processor=[processor]
            )
            check(tokenizer, llama, output, 0, [CASES[2]])


class TestLaterProcessors:
    def test_a_masked_token_that_is_given_a_score_again(self, tokenizer, llama) -> None:
        class Opens(LogitsProcessor):
            def __call__(self, input_ids, scores):
                scores = scores.clone()
                if input_ids.shape[1] == width + 2:
                    scores[:, tokenizer.convert_tokens_to_ids("z")] = 1e3
                return scores

        processor = create_logits_processor(tokenizer, formats.regex("[a-j]{20}"), model=llama)
        inputs = inputs_of(tokenizer, ["x"])
        width = inputs["input_ids"].shape[1]
        for options in ({}, {"do_sample": True}, {"num_beams": 2}):
            processor.reset()
            output = llama.generate(**inputs, **options, max_new_tokens=40, logits_processor=[processor, Opens()])
            assert "z" not in tokenizer.decode(output[0, width:])
            assert isinstance(processor.errors[0], MaskOverridden)
            assert processor.results(output)[0].ended == "error"

    def test_a_compiled_processor(self, tokenizer, llama) -> None:
        """torch.compile finds nothing to trace in it, and leaves it as it is."""
        processor = create_logits_processor(tokenizer, CASES[2].format, model=llama)
        inputs = inputs_of(tokenizer)
        output = llama.generate(
            **inputs, do_sample=True, max_new_tokens=100, logits_processor=[torch.compile(processor)]
        )
        check(tokenizer, llama, output, inputs["input_ids"].shape[1], [CASES[2]])
        assert processor.errors == {}
        assert all(result.is_complete for result in processor.results(output))


class TestAnotherModel:
    def test_a_processor_of_one_model_in_another(self, tokenizer, llama) -> None:
        other = random_model("llama", tokenizer)
        processor = create_logits_processor(tokenizer, CASES[0].format, model=llama)
        with pytest.raises(WrongModel, match="another one"):
            other.generate(**inputs_of(tokenizer, ["x"]), max_new_tokens=5, logits_processor=[processor])
        processor.reset()
        wrapped = torch.compile(llama, backend="eager")
        output = wrapped.generate(**inputs_of(tokenizer, ["x"]), max_new_tokens=40, logits_processor=[processor])
        assert CASES[0].judge(processor.result(output).text)

    def test_a_tokenizer_with_more_tokens_than_the_model_has_logits(self, tokenizer, llama) -> None:
        small = trained_tokenizer(300)
        narrow = random_model("llama", small)
        for make in (
            lambda: create_logits_processor(tokenizer, CASES[0].format, model=narrow),
            lambda: create_vocabulary(tokenizer, model=narrow),
            lambda: transformers_model(narrow, tokenizer=tokenizer),
        ):
            with pytest.raises(WrongModel, match=f"model of {300 + TAIL} logits"):
                make()
        processor = create_logits_processor(tokenizer, CASES[0].format)
        with pytest.raises(WrongModel, match=f"model of {300 + TAIL} logits"):
            narrow.generate(**inputs_of(small, ["x"]), max_new_tokens=5, logits_processor=[processor])

    def test_a_model_whose_end_the_tokenizer_lacks(self, tokenizer, llama) -> None:
        small = trained_tokenizer(300)
        other = random_model("llama", tokenizer)
        other.generation_config.eos_token_id = len(tokenizer) - 1
        for make in (
            lambda: create_logits_processor(small, CASES[0].format, model=other),
            lambda: transformers_model(other, tokenizer=small),
        ):
            with pytest.raises(WrongModel, match=f"ends at {len(tokenizer) - 1}"):
                make()

    def test_added_tokens_without_logits(self, llama) -> None:
        """Tokens that were added to a tokenizer but not to the model are never allowed; nothing else changes."""
        larger = trained_tokenizer()
        larger.add_tokens([f"<{number}>" for number in range(TAIL + 8)])
        processor = create_logits_processor(larger, CASES[0].format, model=llama)
        output = llama.generate(**inputs_of(larger, ["x"]), max_new_tokens=40, logits_processor=[processor])
        assert CASES[0].judge(processor.result(output).text)


class TestMisuse:
    def test_formats_that_do_not_fit_the_prompts(self, tokenizer, llama) -> None:
        processor = create_logits_processor(tokenizer, formats=[CASES[0].format, CASES[1].format], model=llama)
        with pytest.raises(InvalidArgument, match="2 formats were given for 3 rows"):
            llama.generate(**inputs_of(tokenizer, PROMPTS[:3]), max_new_tokens=5, logits_processor=[processor])

    def test_a_processor_in_place_of_a_list(self, tokenizer, llama) -> None:
        processor = create_logits_processor(tokenizer, CASES[0].format, model=llama)
        with pytest.raises(InvalidArgument, match="a list of processors"):
            llama.generate(**inputs_of(tokenizer, ["x"]), max_new_tokens=5, logits_processor=processor)

    def test_the_texts_of_a_pipeline(self, tokenizer, llama) -> None:
        processor = create_logits_processor(tokenizer, CASES[0].format, model=llama)
        pipe = transformers.pipeline("text-generation", model=llama, tokenizer=tokenizer)
        texts = pipe("abc", max_new_tokens=40, logits_processor=[processor], return_full_text=False)
        assert CASES[0].judge(texts[0]["generated_text"])
        with pytest.raises(InvalidArgument, match=r"formatter_core\.parse"):
            processor.results(texts)


def test_fifty_outputs_are_complete_within_their_budgets(tokenizer, model) -> None:
    formats_of = [SCHEMA, formats.regex(r"a[a-j]*b"), card(), {"type": "array", "items": {"type": "string"}}]
    for seed in range(50):
        torch.manual_seed(seed)
        processor = create_logits_processor(tokenizer, formats_of[seed % 4], model=model, max_tokens=20 + seed)
        needed = processor.formats[0].min_tokens
        assert needed <= 20 + seed
        options = {"do_sample": True, "max_new_tokens": 20 + seed, "logits_processor": [processor]}
        output = model.generate(**inputs_of(tokenizer, PROMPTS[:2]), **options)
        assert all(result.is_complete for result in processor.results(output))
