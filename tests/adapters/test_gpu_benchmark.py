"""`dev.py gpu` without a GPU: its code runs, and its page says that it is no evidence."""

from __future__ import annotations

import argparse

import pytest

pytest.importorskip("torch", reason="needs torch")
pytest.importorskip("transformers", reason="needs transformers")

from benchmarks import gpu


def test_the_code_runs_and_the_page_says_not_run() -> None:
    options = argparse.Namespace(**{name.lstrip("-"): given.get("default") for name, given in gpu.OPTIONS.items()})
    vars(options).update(gpu.SMOKE, device="cpu")
    found = {"machine": "here", **gpu.measure(options)}
    page = gpu.show(found)
    assert "Not run on a GPU" in page
    assert page.endswith("waits for the device: not run.")
    assert set(found["masks"]) == set(found["completion"]) == {"1", "2"}
    assert "Run on a made-up device" in gpu.show(
        {**found, "gpu": "a made-up device", "synchronisations": {"free": 1.0}}
    )
