"""The ExLlamaV2 adapter in four releases of exllamav2 itself, one of each generation of the filters' interface.

There is no GPU: the forward pass is simulated, and it alone (see `exllamav2_scenarios`). Each release runs all
scenarios in a process of its own; what it tells is judged here.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from tests.schemas import closed

ROOT = Path(__file__).resolve().parents[2]
RELEASES = Path(sys.prefix) / "exllamav2"
VERSIONS = ("0.2.0", "0.2.3", "0.2.6", "0.3.2")
WAYS = {"0.2.0": {"set"}, "0.2.3": {"set", "list"}, "0.2.6": {"set", "list", "mask"}, "0.3.2": {"set", "list", "mask"}}
SCHEMA = closed(
    {
        "name": {"type": "string", "maxLength": 12},
        "age": {"type": "integer", "minimum": 0, "maximum": 120},
        "tags": {"type": "array", "items": {"enum": ["a", "bé", "日"]}, "maxItems": 3},
    }
)

if not RELEASES.is_dir():
    pytest.skip("no releases of exllamav2 here; scripts/build_exllamav2.py makes them", allow_module_level=True)


def environment_of(version: str) -> dict[str, str]:
    """Return variables with which Python imports this release."""
    sources = [RELEASES / version, ROOT, ROOT / "integrations"]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, sources)), "OMP_NUM_THREADS": "1"}


@cache
def reported(version: str) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as folder:  # not beside the release, which other checkouts use too
        output = Path(folder) / "report.json"
        words = [sys.executable, "-m", "tests.engines_real.exllamav2_scenarios", str(output)]
        run = subprocess.run(
            words, cwd=ROOT, env=environment_of(version), capture_output=True, text=True, timeout=600, check=False
        )
        assert run.returncode == 0, run.stderr[-4000:]
        report: dict[str, Any] = json.loads(output.read_text(encoding="utf-8"))
    assert report["version"] == version
    return report


class Report:
    """The report of one release, by scenario; reading a scenario that failed fails the test."""

    def __init__(self, version: str) -> None:
        self.version = version

    def __getattr__(self, name: str) -> Any:
        outcome = reported(self.version)[name]
        if isinstance(outcome, dict) and "failed" in outcome:
            pytest.fail(outcome["failed"])
        return outcome


@pytest.fixture(params=VERSIONS)
def report(request: pytest.FixtureRequest) -> Report:
    return Report(request.param)


def batches(outcome: Any) -> Iterator[tuple[str, dict[str, Any]]]:
    """Iterate over the batches of a scenario, each with its name."""
    yield from ((name, batch) for name, batch in outcome.items() if "texts" in batch)


def by_case(outcome: dict[str, Any]) -> dict[str, list[Any]]:
    """Collect the texts of each case over the ways in which the filter answered."""
    found: dict[str, list[Any]] = {}
    for name, batch in outcome.items():
        case = name.rpartition(", ")[0]
        found.setdefault(case, []).append(batch.get("texts", batch.get("text")))
    return found


def test_the_ways_in_which_a_filter_may_answer(report: Report) -> None:
    expected = {"set": "next", "list": "get_next", "mask": "mask_logits"}
    assert set(report.ways) == {expected[way] for way in WAYS[report.version] | {"set"}}


# --- the same text -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("scenario", ["texts", "settings", "drafts", "older_generators"])
def test_every_way_gives_the_same_texts(report: Report, scenario: str) -> None:
    for case, texts in by_case(getattr(report, scenario)).items():
        # Mirostat learns from each token that is sampled, and a list of one is not sampled but taken.
        assert case == "mirostat" or all(each == texts[0] for each in texts), case


@pytest.mark.parametrize("scenario", ["unpaged", "cfg", "healing"])
def test_every_way_gives_the_same_texts_here_too(report: Report, scenario: str) -> None:
    texts = [batch.get("texts", batch.get("text")) for batch in getattr(report, scenario).values()]
    assert all(each == texts[0] for each in texts)


@pytest.mark.parametrize("scenario", ["texts", "drafts", "unpaged", "cfg", "healing", "older_generators"])
def test_every_release_gives_the_same_texts(scenario: str) -> None:
    def of(version: str) -> Any:
        outcome = getattr(Report(version), scenario)
        if scenario in ("unpaged", "cfg", "healing"):
            return next(iter(outcome.values())).get("texts")
        return {case: texts[0] for case, texts in by_case(outcome).items()}

    first, *others = VERSIONS
    assert all(of(version) == of(first) for version in others)


def test_the_sampler_takes_the_same_token_in_every_way(report: Report) -> None:
    assert report.sampler["steps"] >= 600
    assert report.sampler["differing"] == 0
    assert report.sampler["ends"]
    assert all(found == [False, True] for found in report.sampler["ends"].values())


def test_the_sampler_answers_the_same_to_fewer_logits(report: Report) -> None:
    for (width, token, probability), (fewer, other, same), is_allowed in report.fewer_logits:
        assert fewer <= width
        assert (token, probability, is_allowed) == (other, same, True)
    assert sum(fewer < width / 2 for (width, *_), (fewer, *_), _ in report.fewer_logits) > 500


def test_drafts_change_nothing_but_how_many_passes_there_are(report: Report) -> None:
    alone = report.texts["byte level, 4, the release's own"]["texts"]
    for name, batch in report.drafts.items():
        assert batch["texts"] == alone[: len(batch["texts"])], name


@pytest.mark.parametrize("scenario", ["texts", "settings", "drafts", "unpaged", "healing"])
def test_every_output_is_in_its_format_and_read_as_it_is(report: Report, scenario: str) -> None:
    count = 0
    for name, batch in batches(getattr(report, scenario)):
        assert all(batch["complete"]), name
        assert set(batch["reasons"]) == {"stop_token"}, name
        for text, read in zip(batch["texts"], batch["read"], strict=True):
            assert text == read or (scenario == "healing" and text.endswith(read)), name
            if read.startswith("{"):
                jsonschema.validate(json.loads(read), SCHEMA)
                count += 1
    assert count


def test_older_generators(report: Report) -> None:
    for name, outcome in report.older_generators.items():
        jsonschema.validate(outcome["value"], SCHEMA)
        assert json.loads(outcome["text"]) == outcome["value"], name


def test_the_asynchronous_generator(report: Report) -> None:
    assert report.asynchronous["texts"] == report.asynchronous["read"]
    jsonschema.validate(json.loads(report.asynchronous["texts"][0]), SCHEMA)


def test_cfg(report: Report) -> None:
    for outcome in report.cfg.values():
        jsonschema.validate(json.loads(outcome["text"]), SCHEMA)
        assert outcome["complete"]


# --- ends ----------------------------------------------------------------------------------------------------------


def test_generation_stops_with_stop_conditions_and_without(report: Report) -> None:
    for name, batch in report.ends.items():
        if name.endswith("True"):
            assert (set(batch["reasons"]), batch["stop_conditions"]) == ({"stop_token"}, 0), name
        elif name.endswith("False"):
            assert set(batch["reasons"]) == {"end_filter"}, name
            assert batch["stop_conditions"] == len(batch["reasons"])
            assert all(batch["complete"])
            assert batch["texts"] == batch["read"]


def test_ends_that_are_preferred_or_put_off(report: Report) -> None:
    for name, batch in report.ends.items():
        if name.endswith(("prefer_eos", "min_new_tokens")):
            assert all(batch["complete"]), name
            assert set(batch["reasons"]) == {"stop_token"}, name


def test_an_output_that_is_cut_off_is_not_complete(report: Report) -> None:
    for name, batch in report.ends.items():
        if name.endswith("cut"):
            cut = [reason == "max_new_tokens" for reason in batch["reasons"]]
            assert any(cut)
            assert [not complete for complete in batch["complete"]] == cut


# --- several filters, failures, use again and again ------------------------------------------------------------------


def test_several_filters_on_one_job(report: Report) -> None:
    outcome = dict(report.several_filters)
    first, second = outcome.pop("two of ours")["read"]
    assert first == second
    assert set(first[:-1]) <= set("abc")
    (text,) = outcome.pop("with upstream's")["texts"]
    assert text in ("name", "true")
    texts = [batch["texts"] for batch in outcome.values()]
    assert all(each == texts[0] for each in texts)
    assert all(batch["texts"] == batch["read"] for batch in outcome.values())
    assert not any(character.isdigit() for character in texts[0][0])


def test_a_filter_that_fails_ends_its_job_alone(report: Report) -> None:
    alone = report.texts["byte level, 4, the release's own"]["texts"][0]
    for name, outcome in report.failures.items():
        assert outcome["outcome"] == "LimitExceeded", name
        assert outcome["complete"] == [True] * 3
        assert set(outcome["reasons"]) == {"stop_token"}
        assert outcome["texts"][0] == alone
        assert len(outcome["texts"][1]) < 20
        assert outcome["again"] == [True]


def test_what_is_allowed_may_be_forbidden_elsewhere(report: Report) -> None:
    assert report.forbidden == {"texts": ["a"], "error": "NoTokenLeft", "reasons": ["stop_token"]}


def test_returned_logits_are_those_of_the_model(report: Report) -> None:
    alone = report.texts["byte level, 1, the release's own"]["texts"]
    for name, outcome in report.returned_logits.items():
        assert -100 < outcome["least"] < 0, name
        assert [outcome["text"]] == alone


def test_one_filter_in_two_jobs_at_a_time_ends_both(report: Report) -> None:
    assert report.twice == {"error": "HookReused", "again": [True]}


def test_one_filter_for_one_job_after_the_other(report: Report) -> None:
    for name, (alone, cut, after, later) in report.again_and_again.items():
        assert cut == [False], name
        assert alone == after == later, name


def test_clones(report: Report) -> None:
    assert report.clones == ["{", "{\n", [True]]


def test_a_dead_end(report: Report) -> None:
    assert report.dead_end is True


def test_a_preferred_end_comes_as_soon_as_the_format_allows_it(report: Report) -> None:
    assert len(report.preferred_ends) >= 2
    for name, lengths in report.preferred_ends.items():
        assert max(lengths) < 3, name


def test_banned_strings_are_refused_beside_filters(report: Report) -> None:
    assert "filters" in report.banned_strings


def test_what_happens_to_a_filter_that_is_written_without_care(report: Report) -> None:
    expected = {
        "0.2.0": {},
        "0.2.3": {"drafts": "asserts"},
        "0.2.6": {"drafts": "asserts", "never stops": "max_new_tokens"},
        "0.3.2": {"drafts": "fine", "never stops": "max_new_tokens"},
    }[report.version]
    outcome = report.traps
    assert {name: outcome[name] for name in expected} == expected
    if "sorted" in outcome:
        assert (outcome["sorted"], outcome["unsorted"]) == (9, 250)
    if "nothing left" in outcome:
        assert outcome["nothing left"] != 3


# --- tokenizers, prompts, values -------------------------------------------------------------------------------------


def test_the_vocabulary_loses_nothing(report: Report) -> None:
    outcome = report.vocabularies
    for each in outcome.values():
        assert each["bytes"] == 256
        assert each["lossy"] >= 128  # what `get_id_to_piece_list` has lost
        assert each["differing"] == []
        assert each["width"] < each["logits"]
        assert each["logits"] % 32 == 0
        assert each["once"]
    assert len(outcome["byte level"]["ends"]) == 2  # one of them from generation_config.json


def test_a_sentencepiece_model(report: Report) -> None:
    if report.version == "0.3.2":
        assert "tokenizer" in report.sentencepiece  # it reads none any more
    else:
        assert report.sentencepiece == [True]


def test_a_format_that_begins_in_the_prompt(report: Report) -> None:
    outcome = report.from_the_prompt
    assert json.loads('{"name":"A' + outcome["text"]) == outcome["value"]
    jsonschema.validate(outcome["value"], SCHEMA)


def test_captures_and_events(report: Report) -> None:
    outcome = report.captures
    assert set(outcome["captures"]) == {"age", "name"}
    assert {"HoleOpened", "ValueCompleted"} <= set(outcome["events"])


# --- the page, the examples, the benchmark ---------------------------------------------------------------------------


def ran(*words: str) -> str:
    """Run a Python command line with the newest release, and return what it prints."""
    run = subprocess.run(
        [sys.executable, *words],
        cwd=ROOT,
        env=environment_of(VERSIONS[-1]),
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert run.returncode == 0, run.stderr[-4000:]
    return run.stdout


def test_the_code_of_the_page_runs(tmp_path: Path) -> None:
    text = (ROOT / "docs" / "exllamav2.md").read_text(encoding="utf-8")
    blocks = re.findall(r"^```python\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)
    page = tmp_path / "page.py"
    page.write_text("\n".join(blocks), encoding="utf-8")
    ran(str(page))


def test_the_examples_run() -> None:
    assert "'weather'" in ran("examples/exllamav2_json.py")
    assert "Yours, " in ran("examples/exllamav2_streaming.py")


def test_the_benchmark_runs(tmp_path: Path) -> None:
    table = ran("-m", "benchmarks", "exllama_paired", "--smoke", "--output", str(tmp_path / "it"))
    assert "with filters / with empty filters" in table
    assert {"it.json", "it.png"} <= {path.name for path in tmp_path.iterdir()}
