"""The ExLlamaV2 adapter on stand-ins for each generation of the filters' interface."""

from __future__ import annotations

import math
import types
from collections.abc import Iterator, Sequence
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="the ExLlamaV2 adapter needs torch")

from formatter_core import Compiler, Vocabulary, formats  # noqa: E402
from formatter_core.errors import (  # noqa: E402
    DeadEnd,
    InvalidArgument,
    NoTokenLeft,
    TokenRejected,
    UnsupportedEngineVersion,
    WrongModel,
)
from tests.adapters.contract import END, OTHER_END, TOKENS, WIDTH  # noqa: E402
from tests.adapters.exllama_releases import WORD, text_of  # noqa: E402
from tests.adapters.exllamav2_stand_ins import (  # noqa: E402
    FILTERS,
    GENERATIONS,
    ExLlamaV2DynamicGenerator,
    ExLlamaV2DynamicJob,
    ListFilter,
    MaskFilter,
    Settings,
    Tokenizer,
    allowed,
    description,
    exllamav2_of,
    sample,
    tokenizer_of,
)

pytestmark = pytest.mark.usefixtures("no_error_says_anything_twice")

A, B, C, X = b"abcx"
VOCABULARY = Vocabulary(TOKENS, [END, OTHER_END])
COMPILER = Compiler(VOCABULARY, engine="kbnf")
TOKENIZER = types.SimpleNamespace(config=types.SimpleNamespace(vocab_size=WIDTH))


@pytest.fixture(params=GENERATIONS)
def generation(request: pytest.FixtureRequest) -> Iterator[str]:
    with exllamav2_of(request.param):
        yield request.param


@pytest.fixture
def newest() -> Iterator[str]:
    with exllamav2_of("0.3.2"):
        yield "0.3.2"


def filter_of(format: Any = WORD, compiler: Compiler = COMPILER, **options: Any) -> Any:
    from formatter_exllamav2 import FormatterFilter

    return FormatterFilter(None, TOKENIZER, compiler.compile(format), **options)


def run(generation: str, *jobs: ExLlamaV2DynamicJob, drafts: int = 0) -> None:
    ExLlamaV2DynamicGenerator(generation, WIDTH, drafts=drafts).run(*jobs)


def job_of(script: Sequence[int], *filters: Any, ends: Sequence[int] = (END, OTHER_END), **more: Any) -> Any:
    return ExLlamaV2DynamicJob(script, list(filters), ends, **more)


# --- jobs ------------------------------------------------------------------------------------------------------------


def test_missing_stop_conditions_are_a_warning(generation: str, caplog: pytest.LogCaptureFixture) -> None:
    run(generation, job_of([A, B, B, END], filter_of(), ends=[OTHER_END, END]))
    assert not caplog.records
    run(generation, job_of([A, B, B, END], filter_of(), ends=()))
    assert "stop_conditions" in caplog.text
    assert str(filter_of().end_ids) in caplog.text


@pytest.mark.parametrize("drafts", [1, 3])
def test_drafts(generation: str, drafts: int) -> None:
    # Before 0.2.7 each token of a draft that was kept queues the filter once more.
    jobs = [job_of([A, B, C, B, C], filter_of()), job_of([A, C, C, END], filter_of(formats.regex("ac*")))]
    run(generation, *jobs, drafts=drafts)
    assert [text_of(job) for job in jobs] == [b"abcbc", b"acc"]
    assert all(job.filters[0].result().is_complete for job in jobs)


# --- several filters ----------------------------------------------------------------------------------------------


def test_two_filters_that_exclude_each_other(generation: str) -> None:
    stuck = [filter_of(formats.regex("[ab]+c")), filter_of(formats.regex("a[abc]{2,3}"))]
    jobs = [job_of([A, B, B, B], *stuck), job_of([A, C, C, C, C], filter_of())]
    run(generation, *jobs)
    assert text_of(jobs[0]) == b"abbb"
    assert text_of(jobs[1]) == b"acccc"
    for each in stuck:
        with pytest.raises(NoTokenLeft, match="another filter"):
            each.result()


def foreign(generation: str, kind: str) -> Any:
    """Make a filter of another package, which bans every `b`."""
    base = {"0.2.0": MaskFilter.__mro__[2], "0.2.3": ListFilter}.get(generation, MaskFilter)
    banned = [token for token, data in enumerate(TOKENS) if data and b"b" in data]
    allowed = set(range(WIDTH)) - set(banned)

    class Foreign(base):  # type: ignore[misc,valid-type]
        def next(self) -> Any:
            return allowed, set()

        def use_background_worker(self) -> bool:
            return "background" in kind

        def can_mask_logits(self) -> bool:
            return "mask" in kind

        def prepare_logit_mask(self) -> bool:
            return True

        def mask_logits(self, logits: torch.Tensor) -> torch.Tensor:
            masked = logits.clone()
            masked[banned] = -torch.inf
            return masked

    return Foreign(None, None)


@pytest.mark.parametrize("kind", ["list", "list background", "mask", "mask background"])
@pytest.mark.parametrize("is_first", [True, False])
def test_beside_a_filter_of_another_kind(generation: str, kind: str, is_first: bool) -> None:
    # Upstream queues ours as a list beside a mask that is made in the foreground, and then reads it as a mask.
    ours, other = filter_of(), foreign(generation, kind)
    job = job_of([A, B, B, END], *((ours, other) if is_first else (other, ours)))
    run(generation, job)
    assert set(text_of(job)) == {A, C}
    assert ours.result().is_complete


# --- what goes wrong ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("token", [torch.tensor([[A, B]]), "a", None])
def test_a_token_that_is_none(generation: str, token: Any) -> None:
    each = filter_of()
    each.begin("")
    each.feed(token)
    assert only_ends(each)
    assert each.error is not None


def only_ends(each: Any) -> bool:
    tokens: list[torch.Tensor] = []
    sample(torch.zeros(WIDTH), [each], lambda masked: tokens.append(masked) or 0)
    return set(tokens[0].isfinite().nonzero().flatten().tolist()) == {END, OTHER_END}


def test_a_format_that_nothing_can_begin_is_refused(newest: str) -> None:
    lacking = Vocabulary([None if data == b"b" else data for data in TOKENS], [END, OTHER_END])
    with pytest.raises(DeadEnd):
        filter_of(formats.regex("ba"), Compiler(lacking))


def test_all_that_is_allowed_is_forbidden_elsewhere(newest: str) -> None:
    # Of logits that are all -inf the C++ sampler takes any id.
    bias = torch.zeros(WIDTH)
    bias[[token for token, data in enumerate(TOKENS) if data and data[0] in b"bc"]] = -torch.inf
    stuck = job_of([A, B, B], filter_of(), bias=bias)
    run(newest, stuck)
    assert stuck.tokens[0] == A
    assert stuck.tokens[1] in (END, OTHER_END)
    assert isinstance(stuck.filters[0].error, NoTokenLeft)
    bias[[END, OTHER_END]] = -torch.inf
    ends = job_of([A], filter_of(formats.regex("a[bc]*")), bias=bias)
    run(newest, ends)
    assert ends.tokens[1] in (END, OTHER_END)
    assert ends.filters[0].result().is_complete


def test_ids_past_the_logits_are_never_offered(generation: str) -> None:
    from formatter_exllamav2 import create_filter

    tokenizer = tokenizer_of(description(more=["zz", "zzz"]), vocab_size=256, eos=3)
    each = create_filter(tokenizer, formats.regex("(?s).*"))
    assert len(each.formatter.compiled.vocabulary) == 256
    each.begin("")
    assert max(allowed(each, 256)) < 256


# --- begin, clone, result -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("prefix", ["", None, [], [""], [None]])
def test_begin_takes_what_generators_pass(generation: str, prefix: Any) -> None:
    each = filter_of()
    each.begin("")
    each.feed(A)
    each.begin(prefix)
    assert allowed(each, WIDTH) == {A, TOKENS.index(b"ab"), TOKENS.index(b"abc"), TOKENS.index(b"ab", 258)}


@pytest.mark.parametrize("prefix", [["a", "b"], 5, b"a", "\ufffd"])
def test_begin_refuses_what_cannot_be_right(generation: str, prefix: Any) -> None:
    with pytest.raises(InvalidArgument):
        filter_of().begin(prefix)


@pytest.mark.parametrize("healed", ["a", ["a"]])
def test_a_healed_token_begins_with_the_prompts_last_one(generation: str, healed: Any) -> None:
    each = filter_of(formats.regex("b[bc]?"))
    each.begin(healed)
    pair = {token for token, data in enumerate(TOKENS) if data == b"ab"}
    assert allowed(each, WIDTH) == {A, TOKENS.index(b"abc"), *pair}
    for token, text, then in [
        (A, b"", {B, TOKENS.index(b"bc")}),
        (TOKENS.index(b"abc"), b"bc", {END, OTHER_END}),
        (min(pair), b"b", {B, C, END, OTHER_END}),
    ]:
        each.begin(healed)
        each.feed(torch.tensor([[token]]))
        assert each.formatter.bytes == text
        assert allowed(each, WIDTH) == then
    each.begin(healed)
    each.feed(torch.tensor([[X]]))
    assert only_ends(each)
    assert isinstance(each.error, TokenRejected)


def test_a_clone_is_independent(generation: str) -> None:
    each = filter_of()
    each.begin("")
    each.feed(torch.tensor([[A]]))
    copy = each.clone()
    assert type(copy) is type(each)
    each.feed(torch.tensor([[B]]))
    copy.feed(torch.tensor([[C]]))
    assert each.formatter.text == "ab"
    assert copy.formatter.text == "ac"
    assert allowed(copy, WIDTH) == allowed(each, WIDTH)
    copy.feed(torch.tensor([[X]]))
    allowed(copy, WIDTH)
    assert each.error is None
    job = job_of([A, B, B, END], each.clone())
    run(generation, job)
    assert text_of(job) == b"abb"


# --- masks --------------------------------------------------------------------------------------------------------


def test_masked_logits_are_the_logits_or_minus_infinity(newest: str) -> None:
    each = filter_of(formats.regex("[a-c]*"))
    each.begin("")
    for width in (WIDTH, WIDTH + 35, WIDTH):
        logits = torch.linspace(-1e38, 1e38, width)
        logits[[A, B, C, END]] = torch.tensor([math.inf, -1e30, -0.0, 7.5])
        kept = logits.clone()
        assert each.prepare_logit_mask() is True
        masked = each.mask_logits(logits)
        assert torch.equal(logits, kept)
        assert (masked.shape, masked.dtype) == (logits.shape, torch.float32)
        may = torch.zeros(width, dtype=torch.bool)
        may[each.formatter.allowed_tokens()] = True
        assert torch.equal(masked[may], logits[may])
        assert bool((masked[~may] == -torch.inf).all())


@pytest.mark.parametrize("returned", [True, False])
def test_logits_that_a_job_returns_are_not_written_to(newest: str, returned: bool) -> None:
    each = filter_of(formats.regex("(?s).*"))
    run(newest, job_of([A, X, END], each, return_logits=returned))
    assert each._binding.may_write is not returned
    run(newest, job_of([A, A, END], each, filter_of()))
    assert each._binding.may_write is False


def widths(generation: str, *filters: Any, **options: Any) -> list[int]:
    """Run a job and return the number of logits from which each token was sampled."""
    more = {name: options.pop(name) for name in ("return_top_tokens", "return_logits") if name in options}
    job = job_of([A, B, B, END], *filters or [filter_of()], gen_settings=Settings(**options), **more)
    run(generation, job)
    assert text_of(job) == b"abb"
    return job.widths


def test_the_sampler_is_spared_logits_that_it_does_not_need(generation: str) -> None:
    needed = (max(filter_of().formatter.allowed_tokens()) // 32 + 2) * 32  # one block is left that holds none
    for top_k in (50, 1, 0, -1, -7, needed - 1):
        assert widths(generation, top_k=top_k)[0] == needed < WIDTH
    assert widths(generation, top_k=needed)[0] == needed + 32
    assert widths(generation, top_k=WIDTH)[0] == WIDTH
    for takes_all in ({"xtc_probability": 0.1}, {"max_temp": 2.0}, {"return_top_tokens": 3}, {"return_logits": True}):
        assert set(widths(generation, **takes_all)) == {WIDTH}
    assert set(widths(generation, filter_of(), filter_of())) == {WIDTH}


def test_who_adds_to_what_the_filter_returns_gets_all_logits(newest: str) -> None:
    class Outer(MaskFilter):
        """Adds something to what another filter returns."""

        def __init__(self, inner: Any) -> None:
            self.begin, self.feed, self.prepare_logit_mask = inner.begin, inner.feed, inner.prepare_logit_mask
            self.mask_logits = lambda logits: inner.mask_logits(logits) + torch.zeros(WIDTH)
            self.background_result = None

        def can_mask_logits(self) -> bool:
            return True

    assert set(widths(newest, Outer(filter_of()))) == {WIDTH}

    from formatter_exllamav2 import FormatterFilter

    class Biased(FormatterFilter):
        """Adds something to what the filter returns."""

        def mask_logits(self, logits: torch.Tensor) -> torch.Tensor:
            return super().mask_logits(logits) + torch.zeros(WIDTH)

    each = filter_of()
    each.__class__ = Biased
    assert set(widths(newest, each)) == {WIDTH}


@pytest.mark.parametrize("kind", [torch.float16, torch.bfloat16, torch.int64])
def test_logits_of_another_kind_end_the_job(newest: str, kind: torch.dtype) -> None:
    each = filter_of()
    each.begin("")
    each.prepare_logit_mask()
    masked = each.mask_logits(torch.zeros(WIDTH, dtype=torch.float32).to(kind))
    assert masked.dtype == torch.float32
    assert set(masked.isfinite().nonzero().flatten().tolist()) == {END, OTHER_END}
    assert isinstance(each.error, InvalidArgument)


@pytest.mark.parametrize(("width", "left"), [(200, [0]), (0, [])])
def test_logits_narrower_than_the_vocabulary(newest: str, width: int, left: list[int]) -> None:
    each = filter_of(formats.regex("[a-c]*"))
    each.begin("")
    each.prepare_logit_mask()
    assert each.mask_logits(logits := torch.zeros(width)).isfinite().nonzero().flatten().tolist() == left
    assert not logits.any()  # nothing was written
    with pytest.raises(WrongModel, match=f"{width} logits"):
        each.result()


def test_the_filter_of_another_model_ends_its_job(generation: str) -> None:
    def tokenizer(*pieces: str) -> Tokenizer:
        return Tokenizer(config=types.SimpleNamespace(vocab_size=WIDTH), get_id_to_piece_list=lambda: list(pieces))

    from formatter_exllamav2 import FormatterFilter

    for own, other, width, found in [
        (tokenizer("a"), tokenizer("b"), WIDTH, "other tokens"),
        (tokenizer("a"), tokenizer("a"), WIDTH, None),
        (tokenizer("a"), None, len(TOKENS) - 1, "302 logits"),
    ]:
        each, good = FormatterFilter(None, own, COMPILER.compile(WORD)), job_of([A, B, B, END], filter_of())
        generator = ExLlamaV2DynamicGenerator(generation, WIDTH)
        generator.tokenizer = other
        generator.model = types.SimpleNamespace(config=types.SimpleNamespace(vocab_size=width))
        job = job_of([A, C, C, END], each)
        if found is None:
            generator.run(job)
            assert text_of(job) == b"acc"
            continue
        generator.run(job)
        assert len(job.tokens) == 1
        with pytest.raises(WrongModel, match=found):
            each.result()
        run(generation, good)
        assert good.filters[0].result().is_complete


@pytest.mark.parametrize("background", [False, True])
def test_a_preferred_end_comes_as_soon_as_the_filters_allow_it(generation: str, background: bool) -> None:
    filters = [filter_of(WORD, background=background), filter_of(formats.regex("[abc]{4,9}"), background=background)]
    alone = job_of([A, B, B, B, B], filter_of(WORD, background=background), filter_prefer_eos=True)
    both = job_of([A, B, B, B, B], *filters, filter_prefer_eos=True)
    run(generation, alone, both)
    assert text_of(alone) == b"abb"
    assert text_of(both) == b"abbb"
    assert all(each.result().is_complete for each in (*alone.filters, *filters))


def test_a_dynamic_generator_whose_job_is_not_found_is_named(generation: str, monkeypatch: pytest.MonkeyPatch) -> None:
    from formatter_exllamav2 import _compat

    class Job:
        """The class that jobs had in another release."""

    Job.__module__ = _compat.Job.__module__
    monkeypatch.setattr(_compat, "Job", Job)
    job = job_of([A, B, B, END], filter_of())
    run(generation, job)
    assert text_of(job) == b""
    with pytest.raises(UnsupportedEngineVersion, match="job among the callers"):
        job.filters[0].result()


def test_masks_in_and_out_of_inference_mode(newest: str) -> None:
    # The first token is sampled under `inference_mode`, later ones in threads that are not.
    each = filter_of()
    with torch.inference_mode():
        each.begin("")
        each.prepare_logit_mask()
        first = each.mask_logits(torch.zeros(WIDTH))
        first[0] = -1.0
        logits = torch.zeros(WIDTH)
    each.feed(torch.tensor([[A]]))
    each.prepare_logit_mask()
    masked = each.mask_logits(logits)
    masked[-1] = -torch.inf
    assert bool(masked[B] == 0)


def test_lists_are_sorted_and_not_made_anew_while_the_mask_stays(newest: str) -> None:
    each = filter_of(formats.regex("[a-z]{0,40}"))
    each.begin("")
    each.can_mask_logits = lambda: False  # as beside a filter that cannot
    first, ends = each.next()
    assert first == sorted(first)
    assert set(ends) <= set(first)
    each.feed(torch.tensor([[X]]))
    assert each.next()[0] is first


@pytest.mark.parametrize("old", ["0.2.0", "0.2.3"])
def test_a_filter_inside_of_another_one_gives_it_ids(old: str) -> None:
    with exllamav2_of(old):
        inner, asked = filter_of(), []

        class Outer(FILTERS[old]):  # type: ignore[misc]
            def begin(self, prefix_str: Any) -> None:
                inner.begin(prefix_str)

            def feed(self, token: Any) -> None:
                inner.feed(token)

            def next(self) -> Any:
                passing, ends = inner.next()
                asked.append(passing)
                return passing, ends

        job = job_of([A, B, C, C, END], Outer(None, TOKENIZER))
        run(old, job)
        assert text_of(job) == b"abcc"
        assert None not in asked
        assert inner.result().is_complete
