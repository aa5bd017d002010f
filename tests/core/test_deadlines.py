"""Calls that end before all outputs are there, progress on a terminal, and the counts of tokens."""

from __future__ import annotations

import io
import sys
from typing import Any

import pytest

from formatter_core import formats
from formatter_core.errors import InvalidArgument
from formatter_core.generation import Finished, Usage, completion, progress
from tests.core.tiny_logits_model import TinyModel, by_tokens

LONG = formats.regex("[ab]{50}")
PROMPTS = ["a", "b", "a"]


def test_what_is_not_finished_in_time_is_cancelled_and_can_go_on() -> None:
    write = completion(TinyModel(by_tokens()), LONG, batch=1)
    for output in write(PROMPTS, timeout=0):
        assert (output.stopped, output.tokens, output.error) == ("cancelled", (), None)
    assert [output.stopped for output in write(PROMPTS, timeout=1e9)] == ["end"] * 3
    asked = iter([False] * 5)
    first, *others = write(PROMPTS, cancelled=lambda: next(asked, True), timeout=1e9)
    assert (first.stopped, [other.stopped for other in others]) == ("cancelled", ["cancelled"] * 2)
    assert write(first).value.startswith(first.text)
    events = [event for event in write.stream(PROMPTS, timeout=0) if isinstance(event, Finished)]
    assert [event.output.stopped for event in events] == ["cancelled"] * 3


@pytest.mark.parametrize("given", [{"timeout": "soon"}, {"timeout": -1}, {"timeout": True}, {"cancelled": 5}])
def test_what_is_no_time_is_refused(given: dict[str, Any]) -> None:
    write = completion(TinyModel(by_tokens()), LONG)
    with pytest.raises(InvalidArgument, match=next(iter(given))):
        write("a", **given)


class Terminal(io.StringIO):
    """A standard error that somebody looks at, or not."""

    def __init__(self, is_watched: bool) -> None:
        super().__init__()
        self._is_watched = is_watched

    def isatty(self) -> bool:
        return self._is_watched


@pytest.fixture
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "_DELAY", -1.0)
    monkeypatch.setattr(progress, "_EVERY", -1.0)
    return


@pytest.mark.usefixtures("at_once")
@pytest.mark.parametrize(
    ("watched", "given", "shows"),
    [(True, {}, True), (False, {}, False), (True, {"progress": False}, False)],
)
def test_a_list_shows_its_progress_on_a_terminal(
    monkeypatch: pytest.MonkeyPatch, watched: bool, given: dict[str, Any], shows: bool
) -> None:
    terminal = Terminal(watched)
    monkeypatch.setattr(sys, "stderr", terminal)
    write = completion(TinyModel(by_tokens()), LONG, batch=1)
    write(PROMPTS, **given)
    assert ("outputs" in terminal.getvalue()) is shows
    assert terminal.getvalue()[-3:] in ("", "\x1b[K")
    alone = Terminal(True)
    monkeypatch.setattr(sys, "stderr", alone)
    write("a")
    assert alone.getvalue() == ""


def test_an_output_says_how_many_tokens_it_took() -> None:
    write = completion(TinyModel(by_tokens()), LONG)
    output = write("ab")
    assert output.usage == Usage(2, len(output.tokens), 0)
    assert output.usage.total_tokens == 2 + len(output.tokens)
    assert write(output + "a", format=["yes"], max_tokens=4).usage.prompt_tokens > 2


def test_an_output_prints_in_a_line() -> None:
    (output,) = completion(TinyModel(by_tokens()), LONG)(["ab"])
    assert repr(output) == f"Generated({output.text!r}, stopped='end', {len(output.tokens)} tokens)"
    long = completion(TinyModel(by_tokens()), formats.regex("[ab]{900}"))("a")
    assert len(repr(long)) < 200
    assert "\n" not in repr(completion(TinyModel(by_tokens()), formats.regex("[\n]{3}"))("a"))
    failed = completion(TinyModel(by_tokens()), LONG)([[999_999], "a"])[0]
    assert "error=InvalidArgument" in repr(failed)
