"""Models and schedulers of llama.cpp that are closed, by themselves, from inside a step, or by another thread."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from formatter_core import formats
from formatter_core.errors import InvalidArgument

pytestmark = pytest.mark.usefixtures("no_error_says_anything_twice")


def test_a_model_that_a_sampler_closes_ends_everything(made: Any) -> None:
    """Freed memory is not read any more."""
    contexts, llama = made
    from formatter_llama_cpp import Scheduler

    scheduler = Scheduler(llama, max_sequences=2, context_size=128)

    def close(ids: np.ndarray, scores: np.ndarray) -> np.ndarray:
        llama._stack.close()
        return scores

    scheduler.submit("a prompt", max_tokens=3, logits_processor=close)
    other = scheduler.submit("another", max_tokens=3)
    with pytest.raises(InvalidArgument, match="closed"):
        list(scheduler.run())
    scheduler.close()
    assert other.is_finished
    assert not any(context.is_open for context in contexts)


@pytest.mark.parametrize("how", ["close", "context", "model"])
def test_what_is_closed_is_not_used_again(made: Any, how: str) -> None:
    from formatter_llama_cpp import Scheduler

    llama = made[1]
    scheduler = Scheduler(llama, max_sequences=2, context_size=128)
    request = scheduler.submit("prompt", samples=2, max_tokens=4)
    updates = scheduler.run()
    next(updates)
    {"close": scheduler.close, "context": scheduler.context.close, "model": llama._stack.close}[how]()
    for call in (scheduler.step, lambda: next(scheduler.run()), lambda: scheduler.submit("x"), scheduler.__enter__):
        with pytest.raises(InvalidArgument, match="closed"):
            call()
    if how == "close":  # what was cancelled is returned to whoever is running it
        assert [update.output.stopped for update in updates if update.output is not None] == ["cancelled"] * 2
    scheduler.close()
    scheduler.cancel(request)
    assert request.is_finished
    assert scheduler.vocabulary is not None


def _calls(llama: Any) -> dict[str, Callable[[], Any]]:
    """Return calls of functions of the model itself."""
    from formatter_llama_cpp import Scheduler, create_logits_processor, create_vocabulary, llama_model

    model = llama_model(llama)
    return {
        "Scheduler": lambda: Scheduler(llama, context_size=64),
        "create_logits_processor": lambda: create_logits_processor(llama, formats.regex("a")),
        "create_vocabulary": lambda: create_vocabulary(llama, end_ids=[5]),
        "llama_model": lambda: llama_model(llama),
        "encode": lambda: model.encode("a"),
        "encode_continuation": lambda: model.encode_continuation(b"a"),
        "start": lambda: model.start([[5]]),
    }


def test_closing_a_model_waits_for_calls_of_its_functions(made: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Calls that come while it closes are refused, though its pointers still look as if it were open."""
    llama = made[1]
    inside, go_on, found = threading.Event(), threading.Event(), list[str]()
    llama._stack.callback(lambda: found.append("closed"))  # before all else, so this is called last
    calls = _calls(llama)
    tokenize = llama.tokenize

    def slowly(*arguments: Any, **options: Any) -> Any:
        inside.set()
        assert go_on.wait(20)
        found.append("called")
        return tokenize(*arguments, **options)

    monkeypatch.setattr(llama, "tokenize", slowly)
    threads = [threading.Thread(target=calls["encode"]), threading.Thread(target=llama._stack.close)]
    threads[0].start()
    assert inside.wait(20)
    threads[1].start()
    threads[1].join(0.05)
    assert found == []
    go_on.set()
    for thread in threads:
        thread.join(20)
    assert found == ["called", "closed"]
    for name, call in calls.items():
        with pytest.raises(InvalidArgument, match="closed"):
            call()
        assert llama.model is not None, name
