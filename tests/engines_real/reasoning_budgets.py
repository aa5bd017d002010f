"""Reasoning with a budget of tokens, as a random model writes it: it would go on for ever."""

from __future__ import annotations

import re
from collections.abc import Sequence

from formatter_core import Format, Vocabulary, formats

__all__ = ["MOST", "budgeted_answer", "judged"]

#: Of the reasoning, with what ends it.
MOST = 30
_OPEN = "<think>\n"
_TURN = re.compile(rf"{_OPEN}(.*)\n</think>\n\n([0-9]{{1,2}})", re.DOTALL)


def budgeted_answer() -> Format:
    """Reasoning within `MOST` tokens, then a number."""
    number = formats.regex("[0-9]{1,2}")
    return formats.chat_answer("qwen3", reasoning="required", max_reasoning_tokens=MOST, content=number)


def judged(vocabulary: Vocabulary, tokens: Sequence[int]) -> tuple[str, str, int]:
    """Return the reasoning, the number after it, and how many tokens begin in the reasoning or in what ends it."""
    spelled = [vocabulary.spelled(token) for token in tokens if token not in vocabulary.end_ids]
    text = b"".join(spelled).decode()
    turn = _TURN.fullmatch(text)
    assert turn is not None, text
    begins = [sum(map(len, spelled[:index])) for index in range(len(spelled))]
    end = len(text[: turn.start(2)].encode())
    return turn[1], turn[2], sum(len(_OPEN) <= begin < end for begin in begins)
