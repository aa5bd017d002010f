"""Options that are numbers or members of an `Enum`, and lists of prompts, for `choose` and `beam_search`."""

from __future__ import annotations

from enum import Enum, IntEnum
from typing import Any, Literal

import pytest

from formatter_core import formats
from formatter_core.errors import InvalidArgument
from formatter_core.generation import beam_search, choose
from tests.core.tiny_logits_model import TinyModel, by_tokens


class Colour(Enum):
    blue = "blue"
    green = "green"


class Size(IntEnum):
    small = 1
    large = 12


@pytest.fixture
def model() -> TinyModel:
    return TinyModel(by_tokens())


@pytest.mark.parametrize(
    ("options", "texts", "values"),
    [
        (["a", "b"], ["a", "b"], ["a", "b"]),
        (Colour, ["blue", "green"], [Colour.blue, Colour.green]),
        ([Colour.green, "red"], ["green", "red"], [Colour.green, "red"]),
        (Size, ["1", "12"], [Size.small, Size.large]),
        ([1, 2.5, True, None], ["1", "2.5", "true", "null"], [1, 2.5, True, None]),
        (Literal["x", 3], ["x", "3"], ["x", 3]),
    ],
)
def test_an_option_is_found_again_by_its_value(model: TinyModel, options: Any, texts: Any, values: Any) -> None:
    scores = choose(model, "ab", options)
    assert [score.text for score in scores] == texts
    assert [score.value for score in scores] == values
    assert sum(score.probability for score in scores) == pytest.approx(1)


@pytest.mark.parametrize("options", [[], ["a", "a"], ["1", 1], [float("nan")], [b"a"], [[]], Literal[""], 5])
def test_what_has_no_text_of_its_own_is_refused(model: TinyModel, options: Any) -> None:
    with pytest.raises(InvalidArgument, match="option"):
        choose(model, "ab", options)


def test_each_prompt_of_a_list_has_its_own(model: TinyModel) -> None:
    prompts = ["ab", "b", "ab"]
    assert choose(model, prompts, ["a", "b"]) == [choose(model, prompt, ["a", "b"]) for prompt in prompts]
    format = formats.regex("[ab]{3}")
    found = beam_search(model, prompts, format, width=3)
    alone = [beam_search(model, prompt, format, width=3) for prompt in prompts]
    assert [[one.tokens for one in row] for row in found] == [[one.tokens for one in row] for row in alone]
    assert choose(model, [97, 98], ["a"]) == choose(model, "ab", ["a"])
