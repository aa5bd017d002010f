"""The filters of ExLlamaV2 and ExLlamaV3 in the jobs of each release, where both engines behave alike."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pytest

pytest.importorskip("torch", reason="the ExLlama adapters need torch")

from formatter_core import Compiler, FormatterBuilder, formats
from formatter_core.errors import (
    HookReused,
    IncompleteResult,
    InvalidArgument,
    LimitExceeded,
    TokenRejected,
)
from formatter_core.runtime.result import HoleOpened, ValueCompleted
from tests.adapters.contract import END, FailingEngine, compiler_on
from tests.adapters.exllama_releases import ENDS, NAMES, WORD, Release, release_of, text_of

pytestmark = pytest.mark.usefixtures("no_error_says_anything_twice")

A, B, C, X = b"abcx"


@pytest.fixture(params=NAMES)
def release(request: pytest.FixtureRequest) -> Iterator[Release]:
    with release_of(request.param) as made:
        yield made


def expected(format: Any, script: Sequence[int]) -> list[int]:
    """Return the tokens that the script leads to, by the oracle: the highest id replaces a wish that is not allowed."""
    formatter = compiler_on("oracle").compile(format).formatter()
    while not formatter.must_stop:
        allowed, place = formatter.allowed_tokens(), len(formatter.tokens)
        wish = script[place] if place < len(script) else None
        token = wish if wish in allowed else max(allowed)
        if token in ENDS:
            break
        formatter.accept_token(token)
    return list(formatter.tokens)


@pytest.mark.parametrize("background", [True, False])
def test_outputs_are_in_their_format(release: Release, background: bool) -> None:
    """From three jobs on, ExLlamaV2 samples in threads."""
    wanted = [
        (WORD, [A, B, X, X, END]),
        (formats.regex("(?s)[^x]{3}"), [X, X]),
        (formats.choice(["abc", "aaaa"]), [A, A, A, A]),
        *((WORD, [A, *[letter] * 3, END]) for letter in (B, C) * 3),
    ]
    jobs = [release.job_of(script, release.filter_of(format, background=background)) for format, script in wanted]
    free = release.job_of([X, X, X, END])
    release.run(*jobs, free)
    for job, (format, script) in zip(jobs, wanted, strict=True):
        assert [token for token in job.tokens if token not in ENDS] == expected(format, script)
        assert job.filters[0].result().is_complete
    assert free.tokens == [X, X, X, END]


@pytest.mark.parametrize("script", [[A, B, B, B, B], [A, B, B, END]], ids=["must stop", "may stop"])
def test_a_job_ends_without_stop_conditions(release: Release, script: list[int]) -> None:
    job = release.job_of(script, release.filter_of(), ends=())
    release.run(job)
    assert job.eos_reason == "end_filter"
    assert text_of(job) == (b"abb" if END in script else b"abbbb")
    assert job.filters[0].result({"eos_reason": "end_filter"}).is_complete


def test_one_filter_serves_one_job_after_the_other(release: Release) -> None:
    each, generator = release.filter_of(), release.generator()
    for script, limit, text in [
        ([A, B, B, END], 64, b"abb"),
        ([A, C, B], 2, b"ac"),  # cut off, with its next mask still asked for
        ([A, C, C, C, C], 64, b"acccc"),
    ]:
        job = release.job_of(script, each, max_new_tokens=limit)
        generator.run(job)
        assert text_of(job) == text
        output = {"eos_reason": job.eos_reason}
        assert each.result(output).bytes == text
        assert each.result(output).is_complete == (limit > 2)
    generator.run(second := release.job_of([A], each, max_new_tokens=1))
    with pytest.raises(IncompleteResult):
        _ = each.result({"eos_reason": second.eos_reason}).value


def test_a_filter_in_two_jobs_at_a_time_ends_both(release: Release) -> None:
    each = release.filter_of()
    twice = [release.job_of([A, letter, letter], each) for letter in (B, C)]
    other = release.job_of([A, B, B, END], release.filter_of())
    release.run(*twice, other)
    with pytest.raises(HookReused, match="one filter for each job"):
        each.result()
    assert [job.tokens[-1] in ENDS for job in twice] == [True, True]
    assert text_of(other) == b"abb"
    release.run(again := release.job_of([A, C, C, END], each))
    assert text_of(again) == b"acc"
    assert each.result().is_complete


def test_a_job_that_was_cancelled_does_not_keep_its_filter(release: Release) -> None:
    each, generator = release.filter_of(), release.generator()
    generator.enqueue(release.job_of([A, B, B], each))
    generator.iterate()
    generator.active_jobs.clear()
    generator.run(job := release.job_of([A, C, C, END], each))
    assert text_of(job) == b"acc"


def test_two_filters_on_one_job_allow_what_both_allow(release: Release) -> None:
    both = [release.filter_of(formats.regex(pattern)) for pattern in ("[ab]+c", "a[abc]{2,3}")]
    release.run(job := release.job_of([A, B, B, C, X], *both))
    assert text_of(job) == b"abbc"
    assert [each.result().text for each in both] == ["abbc"] * 2


@pytest.mark.parametrize("method", ["fill_bitmask", "accept_token"])
@pytest.mark.parametrize("background", [True, False])
def test_a_filter_that_fails_ends_its_job_alone(
    release: Release, method: str, background: bool, caplog: pytest.LogCaptureFixture
) -> None:
    error, engine = LimitExceeded("work", 1, "a step"), compiler_on("native")._engine
    failing = Compiler(compiler_on("native").vocabulary, engine=FailingEngine(engine, method, after=2, error=error))
    bad = release.filter_of(formats.regex("a[bc]{2,4}!"), failing, background=background)
    jobs = [release.job_of([A, B, B, B, B], each) for each in (release.filter_of(), bad, release.filter_of())]
    release.run(*jobs)
    assert [text_of(job) for job in jobs] == [b"abbbb", b"ab" + b"b" * (method == "accept_token"), b"abbbb"]
    assert bad.error is error
    with pytest.raises(LimitExceeded):
        bad.result()
    assert "aborted after" in caplog.text
    release.run(release.job_of([A, END], bad))  # it still works: the next job fails by itself
    assert bad.error is error


def test_a_format_goes_on_from_the_prompt(release: Release) -> None:
    each = release.filter_of(formats.json_schema({"const": {"name": 1}}, whitespace="compact"), prefix_str='{"na')
    for _ in range(2):
        release.run(job := release.job_of(list(b'me":1}'), each))
        assert text_of(job) == b'me":1}'
        assert each.result().value == {"name": 1}
    release.run(release.job_of(list(b'me":'), each, max_new_tokens=4))
    cut = each.result({"eos_reason": "stop_string", "full_completion": "me"})
    assert (cut.text, cut.ended, cut.is_complete) == ('{"name', "stop_string", False)
    with pytest.raises(TokenRejected, match="x"):
        release.filter_of(prefix_str="x")


def test_the_reason_for_which_a_job_ended(release: Release) -> None:
    each = release.filter_of(formats.regex("a[bc]*!?"))
    release.run(release.job_of([A, B, C, B], each, max_new_tokens=4))
    assert (each.result().ended, each.result().is_complete) == (None, False)
    for reason in ("max_new_tokens", "loop_detected"):
        assert each.result({"eos_reason": reason}).ended == "length"
    stopped = each.result({"eos_reason": "stop_string", "full_completion": "ab"})
    assert (stopped.text, stopped.ended) == ("ab", "stop_string")
    assert each.result({"eos_reason": "stop_string", "full_completion": "abcb"}).text == "abcb"
    assert each.result({"eos_reason": "stop_token"}).ended == "stop_string"  # at an id that is no end of ours
    assert each.formatter.text == "abcb"
    for output in ({}, {"eos_reason": None}, "abc", []):
        with pytest.raises(InvalidArgument, match="eos_reason"):
            each.result(output)


def test_the_output_of_another_job_is_refused(release: Release) -> None:
    release.run(job := release.job_of([A, B, B, END], each := release.filter_of()))
    output = {"eos_reason": "stop_token", "full_completion": each.result().text}
    assert text_of(job) == b"abb"
    assert each.result(output).is_complete
    for reason in ("stop_token", "stop_string"):
        with pytest.raises(InvalidArgument, match="differs from that of the"):
            each.result({"eos_reason": reason, "full_completion": "another text"})
    # An engine may add or leave out text at the edge of a character; that is no contradiction.
    assert each.result({**output, "full_completion": f" {output['full_completion']}\ufffd"}).is_complete


def test_events_tell_captures_while_they_are_written(release: Release) -> None:
    builder = FormatterBuilder()
    builder.append("a", builder.regex("[bc]{2}", name="word"), "!")
    each, generator, told = release.filter_of(builder), release.generator(), []
    generator.enqueue(release.job_of([*b"abc!", END], each))
    for _ in range(5):
        generator.iterate()
        told += each.events()
    assert HoleOpened("word", 1) in told
    assert ValueCompleted("word", "bc", 1, 3) in told
    assert each.end_ids == list(ENDS)


def test_banned_strings_that_filters_are_not_told_of_end_the_job(release: Release) -> None:
    job = release.job_of([A, B, B, B], release.filter_of(), banned_strings=[b"bb"])
    release.run(job)
    if release.name == NAMES[-1]:  # which takes tokens back in filters, too
        assert job.filters[0].result().is_complete
        return
    assert text_of(job) == b""
    with pytest.raises(InvalidArgument, match="banned_strings"):
        job.filters[0].result()
