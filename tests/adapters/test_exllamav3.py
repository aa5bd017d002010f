"""The ExLlamaV3 adapter on stand-ins of each generation."""

from __future__ import annotations

import re
import types
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="the ExLlamaV3 adapter needs torch")
tokenizers = pytest.importorskip("tokenizers", reason="ExLlamaV3 has tokenizers of this package")

from formatter_core import Compiler, Vocabulary, formats  # noqa: E402
from formatter_core.errors import (  # noqa: E402
    HookNotCalled,
    InvalidVocabulary,
    LimitExceeded,
    NoTokenLeft,
    TokenRejected,
    UnsupportedEngineVersion,
    WrongModel,
)
from tests.adapters.contract import END, OTHER_END, SPECIAL, TOKENS, FailingEngine, compiler_on  # noqa: E402
from tests.adapters.exllamav3_stand_ins import (  # noqa: E402
    GENERATIONS,
    NEWEST,
    PADDED,
    Generator,
    Job,
    Tokenizer,
    dense,
    exllamav3_of,
    text_of,
)

pytestmark = pytest.mark.usefixtures("no_error_says_anything_twice")

WORD = formats.regex("a[bc]{2,12}")
IS_WORD = re.compile(b"a[bc]{2,12}")
THREE = formats.regex("[abc]{3}")
SENTENCE = formats.regex("(?s).{3,30}")


@pytest.fixture(params=GENERATIONS)
def generation(request: pytest.FixtureRequest) -> Iterator[str]:
    with exllamav3_of(request.param):
        yield request.param


@pytest.fixture
def newest() -> Iterator[str]:
    with exllamav3_of(NEWEST):
        yield NEWEST


def filter_of(format: Any = WORD, *, compiler: Compiler | None = None, **options: Any) -> Any:
    from formatter_exllamav3 import FormatterFilter

    return FormatterFilter(None, (compiler or compiler_on("native")).compile(format), **options)


def run(version: str, *jobs: Job) -> Generator:
    generator = Generator(version)
    generator.run(*jobs)
    assert not generator.nothing_was_left
    return generator


# --- the vocabulary ----------------------------------------------------------------------------------------------


def tokenizer_of(*, eos: Sequence[int | None] = (4,), vocab_size: int | None = 40, declared: Any = None) -> Tokenizer:
    pieces = ["<unk>", "<s>", "Ġ", "Ċ", "</s>", "a", "b", "c", "ab", "Ã", "©", "<turn>", "<tool>"]
    inner = tokenizers.Tokenizer(tokenizers.models.BPE({piece: i for i, piece in enumerate(pieces)}, []))
    inner.decoder = tokenizers.decoders.ByteLevel()
    inner.add_special_tokens(["<unk>", "<s>", "</s>"])
    return Tokenizer(inner, eos, declared=declared, vocab_size=vocab_size)


def test_tokens_are_raw_pieces_and_special_tokens_are_none(generation: str) -> None:
    from formatter_exllamav3 import create_vocabulary

    declared = {
        "11": {"content": "<turn>", "special": True},
        "12": {"content": "<tool>", "special": False},
        "14": {"content": "Ġx", "special": False},
    }
    tokenizer = tokenizer_of(eos=(4, 11), declared=declared)
    vocabulary = create_vocabulary(tokenizer)
    assert vocabulary.tokens[:5] == (None, None, b" ", b"\n", None)
    assert vocabulary.tokens[5:11] == (b"a", b"b", b"c", b"ab", b"\xc3", b"\xa9")
    assert vocabulary.tokens[11:] == (None, b"<tool>", None, "Ġx".encode())
    assert vocabulary.end_ids == (4, 11)
    assert create_vocabulary(tokenizer) is vocabulary
    assert create_vocabulary(tokenizer, end_ids=[4]).end_ids == (4,)
    narrow = types.SimpleNamespace(config=types.SimpleNamespace(vocab_size=12))
    assert len(create_vocabulary(tokenizer, model=narrow)) == 12


def test_ids_without_logits_or_without_a_piece_are_no_tokens(generation: str) -> None:
    from formatter_exllamav3 import create_vocabulary

    assert len(create_vocabulary(tokenizer_of(vocab_size=8))) == 8
    assert len(create_vocabulary(tokenizer_of(vocab_size=None))) == 13
    assert len(create_vocabulary(tokenizer_of(vocab_size=40))) == 13
    assert create_vocabulary(tokenizer_of(eos=(4, 20))).end_ids == (4,)
    with pytest.raises(InvalidVocabulary, match="20"):
        create_vocabulary(tokenizer_of(), end_ids=[20])


def test_an_end_id_that_no_file_names_is_not_made_up(generation: str) -> None:
    from formatter_exllamav3 import create_vocabulary

    nameless = tokenizer_of(eos=(None,))
    nameless.eos_token_id = 2  # what ExLlamaV3 takes where it knows nothing
    with pytest.raises(InvalidVocabulary, match="end id"):
        create_vocabulary(nameless)
    named = tokenizer_of(eos=())
    named.eos_token_id = 4
    named.tokenizer_config_dict = {"eos_token": "</s>"}
    assert create_vocabulary(named).end_ids == (4,)


def test_a_release_without_filters_is_named() -> None:
    with exllamav3_of("0.0.4") as module:
        del module.Filter
        with pytest.raises(UnsupportedEngineVersion, match=r"0\.0\.4.*0\.0\.5|exllamav3\.Filter") as caught:
            import formatter_exllamav3  # noqa: F401
        assert caught.value.found == "0.0.4"


# --- masks -------------------------------------------------------------------------------------------------------


def test_masks_are_of_the_kind_that_the_release_takes(generation: str) -> None:
    generator, filter = Generator(generation), filter_of(formats.choice(["ab", "c"]))
    job = Job([filter])
    job.generator = generator
    job.activate()
    mask = filter.get_next_logit_mask()
    allowed = {token for token, data in enumerate(TOKENS) if data in (b"a", b"ab", b"c")}
    if generation == NEWEST:
        assert (mask.dtype, tuple(mask.shape)) == (torch.int32, (1, PADDED // 32))
        bits = np.unpackbits(mask.numpy().view(np.uint8), bitorder="little")
        assert set(np.flatnonzero(bits).tolist()) == allowed
    else:
        assert (mask.dtype, tuple(mask.shape)) == (torch.half, (1, PADDED))
        assert set((mask[0] == 0).nonzero().flatten().tolist()) == allowed
        assert set(mask.unique().tolist()) == {0.0, -torch.inf}
    assert mask.is_contiguous()
    assert mask.device.type == "cpu"


@pytest.mark.parametrize("engine", ["native", "kbnf"])
@pytest.mark.parametrize("size", [897, 901, 928])
def test_nothing_is_written_past_the_mask(newest: str, engine: str, size: int) -> None:
    """An engine that writes 64 bits at a time would write past a row with an odd number of words."""
    from formatter_exllamav3 import FormatterFilter

    tokens = [bytes([token]) if token < 256 else None for token in range(size)]
    filter = FormatterFilter(None, Compiler(Vocabulary(tokens, [size - 1]), engine=engine).compile(SENTENCE))
    words = -(-size // 32)
    guarded = np.full(words + 8, 0x5A5A5A5A, dtype=np.int32)
    filter.get_next_logit_mask()
    filter._buffer.text = guarded[:words]
    filter.get_next_logit_mask()
    assert (guarded[words:] == 0x5A5A5A5A).all()
    assert (guarded[:words] != 0x5A5A5A5A).all()


# --- outputs -----------------------------------------------------------------------------------------------------


def test_threads_make_only_masks_that_are_not_known_yet(generation: str) -> None:
    compiler = Compiler(Vocabulary(TOKENS, [END]), engine="native")
    asked = []
    for filters in (1, 1, 2):
        job = Job([filter_of(formats.regex("(abc){9}d"), compiler=compiler) for _ in range(filters)])
        job.generator = Generator(generation)
        job.activate()
        asked.append(0)
        for token in b"abc" * 9:
            for each in job.filters:
                asked[-1] += each.use_background_worker()
                job.filter_futures.append(None)
                job.logit_masks.append(each.get_next_logit_mask())
            assert np.flatnonzero(job.prepare_logit_mask()[:256]).tolist() == [token]
            job.receive_sample(token)
    assert asked[0] > asked[1] == 1  # only for the first mask
    assert asked[2] == 2 * 27  # of several filters in one job


def test_a_budget_that_is_set_between_two_steps_holds_from_the_next_mask_on(generation: str) -> None:
    compiler = Compiler(Vocabulary(TOKENS, [END]), engine="native")
    for _ in range(2):  # the second job finds all masks known
        filter = filter_of(formats.regex("(ab|cde){1,30}"), compiler=compiler)
        job = Job([filter])
        job.generator = Generator(generation)
        job.activate()
        for place, token in enumerate(b"ababab"):
            if place == 4:
                filter.formatter.set_budget(3)
            filter.use_background_worker()
            job.filter_futures.append(None)
            job.logit_masks.append(filter.get_next_logit_mask())
            allowed = np.flatnonzero(job.prepare_logit_mask()).tolist()
            assert allowed == filter.formatter.allowed_tokens()
            job.receive_sample(token)
        assert filter.error is None


def test_two_filters_that_exclude_each_other_end_their_job(generation: str) -> None:
    stuck = [filter_of(formats.regex(pattern)) for pattern in ("ab+c", "ab{3}x")]
    job, beside = Job(stuck, script=b"abbb"), Job([filter_of(THREE)])
    Generator(generation).run(job, beside)
    assert len(job.tokens) == 5  # with one that neither allows
    for each in stuck:
        with pytest.raises(TokenRejected):
            each.result()
    assert beside.filters[0].result().is_complete


def test_a_job_that_is_queued_again_goes_on(generation: str) -> None:
    whole = Job([filter_of(THREE)])
    run(generation, whole)
    filter = filter_of(THREE)
    cut = Job([filter], cut=1)
    run(generation, cut)
    if generation == "0.0.5":  # has no such jobs
        return
    assert (cut.text, filter.result().value) == (whole.text, whole.text.decode())


# --- ends --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("stops", [(), (END, OTHER_END), (END,)])
@pytest.mark.parametrize("end", [END, OTHER_END])
@pytest.mark.parametrize("ends_job", [True, False])
def test_an_end_id_ends_the_job_whatever_its_stop_conditions_hold(
    generation: str, stops: Sequence[int], end: int, ends_job: bool
) -> None:
    filter = filter_of(formats.regex("[ab]{1,200}"), eos_after_completed=ends_job)
    job = Job([filter], stop_conditions=stops, script=[*b"ab", end])
    run(generation, job)
    assert (job.tokens, job.eos_reason) == ([*b"ab", end], "stop_token" if end in stops else "end_filter")
    assert filter.result().value == "ab"


def test_output_after_a_completed_filter_is_free_where_that_was_asked_for(generation: str) -> None:
    filter = filter_of(THREE, eos_after_completed=False)
    job = Job([filter], stop_conditions=[], max_new_tokens=20)
    run(generation, job)
    assert job.eos_reason == "max_new_tokens"
    assert re.match(b"[abc]{3}", job.text)
    assert not re.fullmatch(b"[abc]*", job.text)
    assert filter.result().value == job.text[:3].decode()


def test_a_format_that_is_complete_ends_before_min_new_tokens(generation: str) -> None:
    ends_by_itself, must_end = filter_of(THREE), filter_of(formats.regex("a?"), prefix_str="a")
    jobs = [Job([each], min_new_tokens=9) for each in (ends_by_itself, must_end)]
    run(generation, *jobs)
    assert [job.eos_reason for job in jobs] == ["end_filter", "stop_token"]
    assert (len(jobs[0].text), jobs[1].text) == (3, b"")
    assert ends_by_itself.result().is_complete
    assert must_end.result().value == "a"


@pytest.mark.parametrize("old", [generation for generation in GENERATIONS if generation != NEWEST])
def test_dense_masks_are_written_to_where_the_job_would_copy_them(old: str) -> None:
    """And not where it changes them there, or adds those of another filter."""
    with exllamav3_of(old):
        usual, once = Job([filter_of()]), Job([filter_of()], min_new_tokens=2, seed=1)
        two, waits = Job([filter_of(), filter_of()], seed=2), Job([filter_of(trigger_token=ord("t"))], seed=3)
        run(old, usual, once, two, waits)
        assert [usual.copied, once.copied, two.copied] == [1, 2, len(two.tokens)]


@pytest.mark.parametrize("old", [generation for generation in GENERATIONS if generation != NEWEST])
def test_a_mask_is_written_again_where_the_job_may_have_used_its_memory(old: str) -> None:
    """As it may after the format is complete, and before the trigger comes again."""
    with exllamav3_of(old):
        filter = filter_of(formats.regex("[ab]"), trigger_token=ord("t"), eos_after_completed=False)
        job = Job([filter])
        job.generator = Generator(old)
        job.activate()
        job.pinned_logit_mask = torch.zeros((1, PADDED), dtype=torch.half)
        for letter in b"ab":
            job.receive_sample(ord("t"))
            assert set(np.flatnonzero(dense(filter.get_next_logit_mask(), PADDED))) == set(b"ab")
            job.receive_sample(letter)
            job.pinned_logit_mask.zero_()


@pytest.mark.parametrize("seed", range(40))
def test_each_mask_of_a_job_is_that_of_its_format(generation: str, seed: int) -> None:
    """Whatever else the job writes to its masks, for example while the filter waits for its trigger."""
    rng = np.random.default_rng(seed)
    trigger = int(rng.choice([ord("t"), SPECIAL])) if rng.random() < 0.5 else None
    format = formats.regex(str(rng.choice(["[ab]*c?", "(?s).{2,9}", "(ab|c[de]f)+", "(abc){2}"])))
    filters = [filter_of(format, trigger_token=trigger, eos_after_completed=False) for _ in range(rng.integers(1, 3))]
    stops, minimum = [END, OTHER_END], int(rng.integers(0, 8))
    job = Job(filters, seed=seed, min_new_tokens=minimum, stop_conditions=stops, max_new_tokens=60)
    job.cut = int(rng.integers(3, 20)) if generation != "0.0.5" else None  # which begins its filters anew
    generator = Generator(generation)
    if trigger is not None:  # which the model would hardly ever say
        generator.wishes = dict.fromkeys((2, 7, 8, 20), trigger)
    generator.run(job)
    formatter = filter_of(format).compiled.formatter() if trigger is None else None
    for place, (token, mask) in enumerate(zip(job.tokens, job.masks, strict=True)):
        free = set(range(PADDED)) if formatter is None else set(formatter.allowed_tokens())
        expected = free - set(stops) if place < minimum else free
        assert mask == (expected or free), place
        if formatter is not None:
            formatter.accept_token(token)
            if formatter.is_finished or formatter.must_stop:
                formatter = None
        elif token == trigger:
            formatter = filter_of(format).compiled.formatter()


# --- prefixes and triggers ---------------------------------------------------------------------------------------


def test_a_trigger_token_begins_the_format(generation: str) -> None:
    filter = filter_of(THREE, trigger_token=ord("t"), eos_after_completed=False)
    job = Job([filter], stop_conditions=[], max_new_tokens=1500)
    run(generation, job)
    after = [job.tokens[place + 1 :] for place, token in enumerate(job.tokens[:-3]) if token == ord("t")]
    assert after, "the model never said it"
    text = text_of(after[0])
    assert re.match(b"[abc]{3}", text)
    assert filter.result().is_complete


def test_a_trigger_that_comes_again_begins_the_format_anew(newest: str) -> None:
    filter = filter_of(THREE, trigger_token=SPECIAL, eos_after_completed=False)
    generator, job = Generator(newest), Job([filter])
    job.generator = generator
    job.activate()
    for token in [*b"xy", SPECIAL, *b"abc", *b"zz", SPECIAL, *b"cba"]:
        assert filter.is_active == (filter.get_next_logit_mask() is not None and filter.is_active)
        assert not filter.feed(token)
    assert (filter.result().value, filter.is_active) == ("cba", False)
    filter.rewind(1)
    assert (filter.formatter.text, filter.is_active) == ("cb", True)
    filter.rewind(4)
    assert (filter.formatter.text, filter.is_active) == ("abc", False)
    filter.rewind(6)
    assert (filter.formatter.text, filter.is_active) == ("", False)


def test_a_trigger_that_never_came_is_told(generation: str) -> None:
    filter = filter_of(THREE, trigger_token=SPECIAL)
    run(generation, Job([filter], max_new_tokens=3))
    with pytest.raises(HookNotCalled, match="trigger token"):
        filter.result()


# --- banned strings ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("count", [1, 2, 3, 4])
def test_a_rewound_filter_is_as_if_the_tokens_had_never_come(newest: str, count: int) -> None:
    rewound, fresh = filter_of(SENTENCE), filter_of(SENTENCE)
    for filter in (rewound, fresh):
        job = Job([filter])
        job.generator = Generator(newest)
        job.activate()
    fed = [*"aé€b".encode()]
    for token in fed:
        rewound.feed(token)
    rewound.rewind(count)
    for token in fed[: len(fed) - count]:
        fresh.feed(token)
    assert torch.equal(rewound.get_next_logit_mask(), fresh.get_next_logit_mask())
    assert rewound.formatter.tokens == fresh.formatter.tokens


def test_what_was_completed_is_taken_back(newest: str) -> None:
    filter = filter_of(WORD)
    job = Job([filter])
    job.generator = Generator(newest)
    job.activate()
    fed = [*b"abb", END]
    assert [filter.feed(token) for token in fed] == [False, False, False, True]
    assert not filter.is_active
    filter.rewind(2)
    assert (filter.is_active, filter.formatter.text) == (True, "ab")
    assert [filter.feed(token) for token in [*b"cc", END]] == [False, False, True]
    assert filter.result().value == "abcc"


def test_banned_strings_are_left_out_and_the_format_holds(newest: str) -> None:
    suppressed = 0
    for seed in range(12):
        filter = filter_of(formats.regex("[abc]{8}!"))
        job = Job([filter], banned_strings=[b"bb", b"cab"], seed=seed)
        run(newest, job)
        assert re.fullmatch(b"[abc]{8}!", job.text)
        assert b"bb" not in job.text
        assert b"cab" not in job.text
        assert filter.result().value == job.text.decode()
        suppressed += len(job.suppressed)
    assert suppressed > 5


def test_a_banned_string_that_the_format_demands_ends_the_job_with_the_cause(newest: str) -> None:
    filter, other = filter_of(formats.choice(["xaby"])), filter_of(THREE)
    job, beside = Job([filter], banned_strings=[b"ab"]), Job([other])
    run(newest, job, beside)
    assert job.text == b"x"
    assert job.suppressed
    with pytest.raises(NoTokenLeft, match="'x'"):
        filter.result()
    assert other.result().is_complete


# --- what goes wrong ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", ["fill_bitmask", "accept_token"])
@pytest.mark.parametrize(("minimum", "ends_job"), [(0, False), (50, False), (50, True)])
def test_a_failure_ends_its_job_whatever_else_keeps_it_going(
    generation: str, method: str, minimum: int, ends_job: bool
) -> None:
    cause = LimitExceeded("work", 1, "a step")
    engine = FailingEngine(compiler_on("native")._engine, method, after=2, error=cause)
    compiler = Compiler(compiler_on("native").vocabulary, engine=engine)
    bad = filter_of(formats.regex("[abc]{6}!"), compiler=compiler, eos_after_completed=ends_job)
    job, beside = Job([bad], min_new_tokens=minimum), Job([filter_of(THREE)])
    run(generation, job, beside)
    assert job.eos_reason in ("stop_token", "end_filter")
    assert len(job.tokens) <= 4
    with pytest.raises(LimitExceeded) as caught:
        bad.result()
    assert caught.value is cause
    assert beside.filters[0].result().is_complete


def test_a_token_that_others_sampled_ends_the_job(generation: str) -> None:
    """A sampler of the user's own may leave the mask aside."""

    class Careless(Generator):
        def _choose(self, job: Job, allowed: np.ndarray) -> int:
            return ord("!") if len(job.tokens) == 2 else super()._choose(job, allowed)

    filter = filter_of(WORD, eos_after_completed=False)
    job = Job([filter])
    Careless(generation).run(job)
    assert (job.eos_reason, len(job.tokens)) == ("end_filter", 3)
    with pytest.raises(TokenRejected, match="after 2 tokens"):
        filter.result()


def test_drafts_are_followed_with_masks_or_the_job_ends(generation: str) -> None:
    """Releases before 0.0.32 sample behind an accepted draft with the mask of the place before."""
    format = formats.choice(["abc"])
    tokens = [ord("a"), ord("b"), ord("c")]

    class Drafting(Generator):
        def _choose(self, job: Job, allowed: np.ndarray) -> int:
            return next((token for token in tokens if allowed[token]), super()._choose(job, allowed))

    filter = filter_of(format, background=False)
    job, generator = Job([filter]), Drafting(generation)
    generator.drafts = tokens[:2]
    generator.run(job)
    if generation == "0.0.5":
        with pytest.raises(TokenRejected, match=r"before 0\.0\.32"):
            filter.result()
        assert len(job.tokens) == 2
    else:
        assert (job.text, filter.result().value) == (b"abc", "abc")


def test_the_filter_of_another_model_ends_its_job(generation: str) -> None:
    wide = Vocabulary([*TOKENS, *[None] * PADDED, b"a"], [len(TOKENS) + PADDED])
    filter = filter_of(WORD, compiler=Compiler(wide))
    job = Job([filter])
    generator = Generator(generation)
    generator.run(job)
    assert not generator.nothing_was_left
    assert (len(job.tokens), job.eos_reason) == (1, "end_filter")
    with pytest.raises(WrongModel, match="logits"):
        filter.result()
