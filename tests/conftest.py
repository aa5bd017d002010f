"""What holds for every test: no test reaches for a model hub."""

import gc
import os

import pytest

os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")


@pytest.fixture(scope="module", autouse=True)
def _what_was_there_before_is_no_garbage() -> None:
    """What earlier modules left (torch, above all) is not gone through again whenever garbage is collected."""
    gc.collect()
    gc.freeze()
