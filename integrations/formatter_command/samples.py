"""Random texts of a format: walks through the masks of a vocabulary of bytes, each within a budget."""

from __future__ import annotations

import random
from collections.abc import Hashable
from dataclasses import dataclass, replace
from typing import Any

from formatter_core.formats.protocol import Format, Lowered
from formatter_core.grammar import as_text, without_specials
from formatter_core.limits import Limits
from formatter_core.runtime.compiler import Compiler
from formatter_core.vocabulary import Vocabulary

__all__ = ["TextSampler"]

#: The probability that a text that may end does end.
_STOP = 0.3
#: The relative weights of bytes: mostly letters and digits, and strings of about ten of them.
_WEIGHTS = [0.3 if byte >= 0x80 else 1.0 for byte in range(256)]
for _byte in b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789":
    _WEIGHTS[_byte] = 8.0
for _byte, _weight in zip(b'",]}', (60.0, 40.0, 20.0, 20.0), strict=True):
    _WEIGHTS[_byte] = _weight


class TextSampler:
    """A sampler of random texts of a format: every text that fits is possible; short texts of plain letters are
    likelier.

    Args:
        format: special tokens in it are written as text.
        room: at most this many bytes are written, or the fewest that a text of the format takes.
        seed: equal seeds give equal texts.

    Raises:
        FormatterError: the format is not valid, or the grammar engine keeps no budgets.
    """

    def __init__(self, format: Format, *, room: int = 200, seed: int = 0) -> None:
        self._compiled = Compiler(Vocabulary.of_bytes()).compile(_WithSpecialsAsText(format))
        self._most = max(room + 1, self._compiled.min_tokens)
        self._random = random.Random(seed)  # noqa: S311 (no secrets are made)

    def text(self) -> bytes:
        """Return another random text."""
        formatter = self._compiled.formatter(max_tokens=self._most)
        while not formatter.must_stop:
            if formatter.can_stop and self._random.random() < _STOP:
                break
            allowed = [token for token in formatter.allowed_tokens() if token < len(_WEIGHTS)]
            (byte,) = self._random.choices(allowed, [_WEIGHTS[token] for token in allowed])
            formatter.accept_token(byte)
        return formatter.bytes


@dataclass(frozen=True)
class _WithSpecialsAsText:
    """A format for a vocabulary that has no special tokens."""

    format: Format

    def to_grammar(self, limits: Limits) -> Lowered:
        lowered = self.format.to_grammar(limits)
        return replace(lowered, grammar=without_specials(lowered.grammar, as_text))

    def to_json(self) -> dict[str, Any]:
        return self.format.to_json()

    def key(self) -> Hashable:
        return type(self).__name__, self.format.key()
