"""The ExLlamaV3 adapter on the real package: its tokenizer, base class and jobs, old releases and the newest.

There is no CPU version of its kernels, so the model and the sampler are simulated; see `exllamav3_without_gpu`.
"""

from __future__ import annotations

import importlib.util
import json
import os
import re
import runpy
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

for name in ("torch", "exllamav3"):
    if importlib.util.find_spec(name) is None:
        pytest.skip(f"{name} is not installed", allow_module_level=True)

import torch  # noqa: E402

from tests.engines_real import exllamav3_without_gpu as without_gpu  # noqa: E402
from tests.engines_real.exllamav3_without_gpu import (  # noqa: E402
    Loop,
    import_exllamav3,
    tokenizer_in,
    tokens_of,
)

exllamav3 = import_exllamav3()

from formatter_core import Compiler, formats  # noqa: E402
from formatter_core.errors import (  # noqa: E402
    HookNotCalled,
    HookReused,
    IncompleteResult,
    InvalidVocabulary,
    LimitExceeded,
    NoTokenLeft,
    TokenRejected,
)
from formatter_core.testing.oracle import OracleEngine  # noqa: E402
from formatter_exllamav3 import FormatterFilter, create_filter, create_vocabulary  # noqa: E402
from tests.adapters.contract import FailingEngine  # noqa: E402
from tests.pages import ROOT, run_page  # noqa: E402
from tests.schemas import closed  # noqa: E402

TINY = ROOT / "examples" / "tiny_model"
#: Further releases, unpacked where dev.py's environment keeps them.
RELEASES = sorted((Path(sys.prefix) / "releases").glob("exllamav3-*"))
IS_PACKED = hasattr(exllamav3.Filter, "rewind")
SCHEMA = closed({"name": {"type": "string", "maxLength": 12}, "age": {"type": "integer", "minimum": 0}})
WORDS = formats.regex("[a-z ]{20}!")
SENTENCE = formats.regex("(?s).{10,30}")


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Byte-level pieces; logits for two ids that no token has, one of them said to end outputs, and up to 480."""
    return tokenizer_in(tmp_path_factory.mktemp("byte_level"), TINY, vocab_size=450, eos_token_id=[0, 1, 449])


@pytest.fixture
def loop(tokenizer: Any) -> Loop:
    return Loop(tokenizer)


def job_of(tokenizer: Any, *filters: Any, prompt: str = "Ivo is 41", **options: Any) -> Any:
    options = {"max_new_tokens": 200, "stop_conditions": tokenizer.config.eos_token_id_list, **options}
    return exllamav3.Job(input_ids=tokenizer.encode(prompt, add_bos=False), filters=list(filters), **options)


# --- the vocabulary ----------------------------------------------------------------------------------------------


def test_pieces_are_raw(tokenizer: Any) -> None:
    vocabulary = create_vocabulary(tokenizer)
    assert (len(vocabulary), vocabulary.end_ids) == (448, (0, 1))
    assert {vocabulary.tokens[special] for special in (0, 1)} == {None}
    for text in ("Größe, 今朝の海 😀", '{"a": [1, -2.5e3]}\n', "tabs\tand  spaces", "\x00\x01\x7f\xad"):
        ids = tokenizer.encode(text, add_bos=False)[0].tolist()
        assert b"".join(vocabulary.tokens[token] or b"" for token in ids) == text.encode()
    lossy = sum("\ufffd" in piece for piece in tokenizer.get_id_to_piece_list())
    assert lossy > 100, "what the tokenizer offers as strings has become whole, and might be read instead"


def test_an_end_id_for_which_the_tokenizer_has_no_piece_is_never_offered(loop: Loop, tokenizer: Any) -> None:
    """The job would look its text up, and raise, inside the loop."""
    assert 449 in tokenizer.config.eos_token_id_list
    with pytest.raises(IndexError):
        tokenizer.get_id_to_piece_list()[449]
    with pytest.raises(InvalidVocabulary, match="449"):
        create_vocabulary(tokenizer, end_ids=[449])
    loop.run(job_of(tokenizer, create_filter(tokenizer, formats.regex("a?"), prefix_str="a")))
    assert loop.masks == [{0, 1}]


def test_pieces_with_byte_fallback_and_added_tokens(tmp_path: Path) -> None:
    import tokenizers

    pieces = ["<unk>", "<s>", "</s>", *(f"<0x{byte:02X}>" for byte in range(256)), "▁", "▁a", "a", "b", "é"]
    model = tokenizers.models.BPE({piece: i for i, piece in enumerate(pieces)}, [("▁", "a")], unk_token="<unk>")
    model.byte_fallback = True
    inner = tokenizers.Tokenizer(model)
    inner.normalizer = tokenizers.normalizers.Replace(" ", "▁")
    decoders = tokenizers.decoders
    inner.decoder = decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()])
    inner.add_special_tokens(["<unk>", "<s>", "</s>", "<|turn|>"])
    inner.add_tokens(["<|tool|>"])
    source = tmp_path / "source"
    source.mkdir()
    inner.save(str(source / "tokenizer.json"))
    turn, tool = inner.token_to_id("<|turn|>"), inner.token_to_id("<|tool|>")
    declared = {
        str(turn): {"content": "<|turn|>", "special": True},
        str(tool): {"content": "<|tool|>", "special": False},
        str(tool + 1): {"content": "<|later|>", "special": True},
    }
    (source / "tokenizer_config.json").write_text(json.dumps({"added_tokens_decoder": declared, "eos_token": "</s>"}))
    (source / "config.json").write_text((TINY / "config.json").read_text())
    tokenizer = tokenizer_in(tmp_path / "fallback", source, vocab_size=tool + 3, eos_token_id=[2, turn])
    vocabulary = create_vocabulary(tokenizer)
    assert vocabulary.tokens[3:259] == tuple(bytes([byte]) for byte in range(256))
    assert vocabulary.tokens[259:264] == (b" ", b" a", b"a", b"b", "é".encode())
    assert vocabulary.tokens[tool] == b"<|tool|>"
    assert {vocabulary.tokens[each] for each in (0, 1, 2, turn, tool + 1)} == {None}
    assert vocabulary.end_ids == (2, turn)


# --- masks and outputs -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("format", [SCHEMA, WORDS, SENTENCE, formats.choice(["Ivo", "Iva", "é"])])
@pytest.mark.parametrize("background", [True, False])
def test_masks_are_exact_at_each_step(loop: Loop, tokenizer: Any, format: Any, background: bool) -> None:
    filter = create_filter(tokenizer, format, background=background)
    job = job_of(tokenizer, filter)
    loop.run(job)
    formatter = Compiler(create_vocabulary(tokenizer), engine=OracleEngine()).compile(format).formatter()
    for token, mask in zip(tokens_of(job), loop.masks, strict=True):
        assert mask == set(formatter.allowed_tokens())
        formatter.accept_token(token)
    assert formatter.must_stop
    assert filter.result().is_complete


def test_a_batch_of_formats_and_a_job_without_one(loop: Loop, tokenizer: Any) -> None:
    prompts = ["Ivo is 41", "Ann is 7", "Bob is 30", "Eva is 12", "Tim is 64"]
    filters = [create_filter(tokenizer, SCHEMA) for _ in prompts]
    jobs = [job_of(tokenizer, filter, prompt=prompt) for filter, prompt in zip(filters, prompts, strict=True)]
    free = job_of(tokenizer, max_new_tokens=30)
    loop.run(*jobs, free)
    for job, filter in zip(jobs, filters, strict=True):
        assert json.loads(loop.text(job)) == filter.result().value
    assert len({loop.text(job) for job in jobs}) == len(jobs)
    assert len(tokens_of(free)) > 20


def test_a_filter_beside_one_with_dense_masks(loop: Loop, tokenizer: Any) -> None:
    class OnlyVowels(exllamav3.Filter):
        def reset(self) -> None:
            """It has no state."""

        def accept_token(self, token: int) -> None:
            """It has no state."""

        def is_completed(self) -> bool:
            return False

        def get_next_logit_mask(self) -> torch.Tensor:
            mask = torch.full((1, self.vocab_size), -torch.inf, dtype=torch.half)
            tokens = create_vocabulary(tokenizer).tokens
            vowels = [token for token, data in enumerate(tokens) if data and data in b"aeiou!"]
            mask[0, vowels] = 0
            return mask

    ours = create_filter(tokenizer, WORDS)
    job = job_of(tokenizer, OnlyVowels(tokenizer, None, None, False), ours)
    loop.run(job)
    assert re.fullmatch("[aeiou]{20}!", loop.text(job))
    assert ours.result().value == loop.text(job)


def test_a_job_that_is_queued_again_goes_on(loop: Loop, tokenizer: Any) -> None:
    if not hasattr(exllamav3.Job, "prepare_for_requeue"):
        pytest.skip("this release queues no job again")
    whole, cut = create_filter(tokenizer, WORDS), create_filter(tokenizer, WORDS)
    loop.run(job_of(tokenizer, whole))
    job = job_of(tokenizer, cut)
    loop.start(job)
    for _ in range(4):
        loop.step()
    loop.queue_again(job)
    loop.run()
    assert cut.result().value == whole.result().value


def test_a_healed_token_is_free_and_the_format_begins_behind_it(loop: Loop, tokenizer: Any) -> None:
    filter = create_filter(tokenizer, WORDS)
    job = job_of(tokenizer, filter, token_healing=True)
    loop.run(job)
    assert len(tokens_of(job)) == len(filter.formatter.tokens)
    assert re.fullmatch("[a-z ]{20}!", filter.result().value)


# --- ends, prefixes, triggers ------------------------------------------------------------------------------------


@pytest.mark.parametrize("stops", [None, [0, 1]])
def test_jobs_end_by_the_format_or_by_an_end_id(loop: Loop, tokenizer: Any, stops: Any) -> None:
    closed, open_ = create_filter(tokenizer, WORDS), create_filter(tokenizer, formats.regex("[a-z]+"))
    jobs = [job_of(tokenizer, each, stop_conditions=stops) for each in (closed, open_)]
    loop.start(jobs[1])
    loop.step()
    loop.wishes = [1]
    loop.run(jobs[0])
    assert loop.reason(jobs[0]) == "end_filter"
    assert loop.reason(jobs[1]) == ("stop_token" if stops else "end_filter")
    assert open_.result().is_complete
    assert closed.result().value == loop.text(jobs[0])


def test_the_rest_is_free_where_that_was_asked_for(loop: Loop, tokenizer: Any) -> None:
    filter = create_filter(tokenizer, formats.choice(["yes", "no"]), eos_after_completed=False)
    job = job_of(tokenizer, filter, max_new_tokens=30, stop_conditions=None)
    loop.run(job)
    assert loop.reason(job) == "max_new_tokens"
    assert filter.result().value in ("yes", "no")
    assert loop.text(job).startswith(filter.result().value)


def test_min_new_tokens_gives_way_to_a_format_that_must_end(loop: Loop, tokenizer: Any) -> None:
    filters = [
        create_filter(tokenizer, formats.choice(["yes"])),
        create_filter(tokenizer, formats.regex("a?"), prefix_str="a"),
    ]
    jobs = [job_of(tokenizer, each, min_new_tokens=20) for each in filters]
    loop.run(*jobs)
    assert [each.result().value for each in filters] == ["yes", "a"]


def test_a_format_goes_on_from_the_prompt(loop: Loop, tokenizer: Any) -> None:
    filter = create_filter(tokenizer, SCHEMA, prefix_str='{"name": "Iv')
    job = job_of(tokenizer, filter, prompt='Ivo is 41\n{"name": "Iv')
    loop.run(job)
    assert json.loads('{"name": "Iv' + loop.text(job)) == filter.result().value
    with pytest.raises(TokenRejected, match="nonsense"):
        create_filter(tokenizer, SCHEMA, prefix_str="nonsense")


def test_a_trigger_token_begins_the_format_each_time(loop: Loop, tokenizer: Any) -> None:
    vocabulary = create_vocabulary(tokenizer)
    hash_, comma = vocabulary.tokens.index(b"#"), vocabulary.tokens.index(b",")
    filter = create_filter(tokenizer, formats.choice(["aa", "bb"]), trigger_token=hash_, eos_after_completed=False)
    job = job_of(tokenizer, filter, max_new_tokens=24, stop_conditions=None)
    loop.start(job)
    with pytest.raises(HookNotCalled, match="trigger"):
        filter.result()
    loop.wishes = [comma, hash_, hash_, comma, comma, hash_]
    loop.run()
    text = loop.text(job)
    assert re.match(r",#(aa|bb)#(aa|bb),,#(aa|bb)", text), text
    assert filter.result().is_complete


def test_filters_that_are_replaced_while_a_job_runs(loop: Loop, tokenizer: Any) -> None:
    if not hasattr(exllamav3.Job, "set_filters"):
        pytest.skip("this release replaces no filters")
    first, second = create_filter(tokenizer, WORDS), create_filter(tokenizer, SCHEMA)
    job = job_of(tokenizer, first)
    loop.start(job)
    loop.step()
    job.set_filters([second])
    loop.run()
    assert second.result().is_complete
    assert not first.result().is_complete
    with pytest.raises(IncompleteResult):
        _ = first.result().value


def test_stop_strings_cut_the_text_and_the_result(loop: Loop, tokenizer: Any) -> None:
    filters = [create_filter(tokenizer, WORDS) for _ in range(6)]
    jobs = [
        job_of(tokenizer, filter, prompt=f"{number}", stop_conditions=["e", "ab", "n "])
        for number, filter in enumerate(filters)
    ]
    loop.run(*jobs)
    stopped = 0
    for job, filter in zip(jobs, filters, strict=True):
        last = next(each for each in loop.results if each["job"] is job and each["eos"])
        result = filter.result(last)
        stopped += last["eos_reason"] == "stop_string"
        assert result.text == last["full_completion"] == loop.text(job)
        assert result.is_complete == (last["eos_reason"] == "end_filter")
    assert stopped


# --- rewinding ---------------------------------------------------------------------------------------------------


@pytest.mark.skipif(not IS_PACKED, reason="filters are rewound from 1.4.1 on")
@pytest.mark.parametrize("count", [1, 3, 6])
def test_a_rewound_filter_is_as_if_made_anew(loop: Loop, tokenizer: Any, count: int) -> None:
    rewound, fresh = create_filter(tokenizer, SENTENCE), create_filter(tokenizer, SENTENCE)
    for filter in (rewound, fresh):
        loop.start(job_of(tokenizer, filter))
    fed = tokenizer.encode("Größe 今", add_bos=False)[0].tolist()
    assert len(fed) > 6
    for token in fed:
        rewound.feed(token)
    rewound.rewind(count)
    for token in fed[: len(fed) - count]:
        fresh.feed(token)
    assert torch.equal(rewound.get_next_logit_mask(), fresh.get_next_logit_mask())
    assert rewound.formatter.tokens == fresh.formatter.tokens


@pytest.mark.skipif(not IS_PACKED, reason="no banned strings beside filters before 1.4.1")
def test_banned_strings_are_left_out_and_the_format_holds(loop: Loop, tokenizer: Any) -> None:
    suppressed = 0
    for number in range(6):
        filter = create_filter(tokenizer, formats.regex("[a-m]{12}!"))
        job = job_of(tokenizer, filter, prompt=f"{number} is", banned_strings=["b", "ch", "mil"])
        loop.run(job)
        assert re.fullmatch("[a-m]{12}!", loop.text(job))
        assert not re.search("b|ch|mil", loop.text(job))
        assert filter.result().value == loop.text(job)
        suppressed += sum("suppressed_text" in each for each in loop.results if each["job"] is job)
    assert suppressed > 3


@pytest.mark.skipif(not IS_PACKED, reason="no banned strings beside filters before 1.4.1")
def test_a_banned_string_that_the_format_demands_ends_the_job(loop: Loop, tokenizer: Any) -> None:
    filter, other = create_filter(tokenizer, formats.choice(["xaby"])), create_filter(tokenizer, WORDS)
    job = job_of(tokenizer, filter, banned_strings=["ab"], min_new_tokens=10)
    loop.run(job, job_of(tokenizer, other))
    assert loop.text(job) == "x"
    with pytest.raises(NoTokenLeft):
        filter.result()
    assert other.result().is_complete


# --- what goes wrong ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", ["fill_bitmask", "accept_token"])
@pytest.mark.parametrize("minimum", [0, 50])
@pytest.mark.parametrize("ends_job", [True, False])
def test_a_failure_ends_its_job_alone(loop: Loop, tokenizer: Any, method: str, minimum: int, ends_job: bool) -> None:
    cause = LimitExceeded("work", 1, "a step")
    vocabulary = create_vocabulary(tokenizer)
    engine = FailingEngine(Compiler(vocabulary)._engine, method, after=3, error=cause)
    failing = Compiler(vocabulary, engine=engine).compile(WORDS)
    bad, good = FormatterFilter(tokenizer, failing, eos_after_completed=ends_job), create_filter(tokenizer, SCHEMA)
    job = job_of(tokenizer, bad, min_new_tokens=minimum)
    loop.run(job, job_of(tokenizer, good))
    assert len(tokens_of(job)) <= 5
    with pytest.raises(LimitExceeded) as caught:
        bad.result()
    assert caught.value is cause
    assert good.result().is_complete


@pytest.mark.parametrize("stops", [None, [0, 1]])
def test_one_filter_for_two_jobs_ends_both(loop: Loop, tokenizer: Any, stops: Any) -> None:
    filter = create_filter(tokenizer, WORDS)
    jobs = [job_of(tokenizer, filter, stop_conditions=stops) for _ in range(2)]
    loop.run(*jobs)
    assert [len(tokens_of(job)) for job in jobs] == [1, 1]
    with pytest.raises(HookReused):
        filter.result()
    loop.run(job_of(tokenizer, filter))
    assert filter.result().is_complete


# --- other releases, the page, the example -----------------------------------------------------------------------


def outputs(folder: Path) -> list[list[int]]:
    """Return the tokens of some jobs, on which the releases should agree."""
    tokenizer = tokenizer_in(folder, TINY, vocab_size=450)
    filters = [
        create_filter(tokenizer, format) for format in [SCHEMA, SENTENCE, WORDS, formats.choice(["Ivo", "Iva"])] * 3
    ]
    jobs = [job_of(tokenizer, filter, prompt=f"{number}") for number, filter in enumerate(filters)]
    Loop(tokenizer).run(*jobs)
    assert all(filter.result().is_complete for filter in filters)
    return [tokens_of(job) for job in jobs]


OLDER = """
import json, pathlib, pytest, sys
status = pytest.main([sys.argv[1], "-k", "not older and not page and not example"])
from tests.engines_real import test_exllamav3 as tests
assert pathlib.Path(tests.exllamav3.__file__).is_relative_to(sys.argv[2])
print("\\n" + json.dumps(tests.outputs(pathlib.Path(sys.argv[3]))))
sys.exit(status)
"""


@pytest.mark.parametrize("release", RELEASES, ids=lambda release: release.name)
def test_older_releases_pass_the_same_tests_and_give_the_same_outputs(release: Path, tmp_path: Path) -> None:
    path = os.pathsep.join([str(release), str(ROOT), str(ROOT / "integrations")])
    done = subprocess.run(
        [sys.executable, "-c", OLDER, str(Path(__file__)), str(release), str(tmp_path / "there")],
        env={**os.environ, "PYTHONPATH": path},
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-2000:]
    assert json.loads(done.stdout.splitlines()[-1]) == outputs(tmp_path / "here")


@pytest.fixture
def simulated(monkeypatch: pytest.MonkeyPatch) -> None:
    """Simulate the parts that need a GPU, for code that a user would write."""
    for name in ("Model", "Cache", "Generator"):
        monkeypatch.setattr(exllamav3, name, getattr(without_gpu, f"Simulated{name}"))
    monkeypatch.chdir(ROOT)


@pytest.mark.usefixtures("simulated")
def test_the_code_of_the_page_runs() -> None:
    run_page(ROOT / "docs" / "exllamav3.md")


@pytest.mark.usefixtures("simulated")
def test_the_example_runs(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(sys, "argv", ["exllamav3_json.py", "--model", str(TINY)])
    runpy.run_path(str(ROOT / "examples" / "exllamav3_json.py"), run_name="__main__")
    said = capsys.readouterr().out
    assert said.count("Person(name=") >= 3
    assert "thoughts" in said
