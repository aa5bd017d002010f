"""The state of one request, which SGLang advances, rolls back, copies and uses for masks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from sglang.srt.constrained.base_grammar_backend import BaseGrammarObject

from formatter_core import CompiledFormat, Cursor
from formatter_core.runtime import torch_bitmask

__all__ = ["FormatterGrammar"]


class FormatterGrammar(BaseGrammarObject):  # type: ignore[misc]  # sglang is not there when types are checked
    """A sequence in its format. If a mask cannot be made, only the end ids are allowed; the rest of the batch
    continues.

    Args:
        compiled: the sequence's format.
    """

    def __init__(self, compiled: CompiledFormat, cursor: Cursor | None = None) -> None:
        super().__init__()
        self.compiled, self.vocabulary = compiled, compiled.vocabulary
        self.cursor = Cursor(compiled.formatter()) if cursor is None else cursor

    def accept_token(self, token: int) -> None:
        """Go on with a token that was sampled, or a draft.

        Raises:
            ValueError: it is not allowed, or the sequence has failed; SGLang ends the request with the message.
        """
        self.current_token = token
        self.cursor.append(token)
        if (error := self.cursor.error) is not None:
            raise ValueError(str(error))

    def rollback(self, k: int) -> None:
        """Take back the last `k` tokens, an end id included."""
        self.cursor.rollback(k)

    def is_terminated(self) -> bool:
        """Tell whether an end id was accepted."""
        return not self.cursor.has_failed and self.cursor.formatter.is_finished

    def copy(self) -> FormatterGrammar:
        """Return an independent sequence at the same place."""
        return FormatterGrammar(self.compiled, self.cursor.fork())

    def allocate_vocab_mask(self, vocab_size: int, batch_size: int, device: Any) -> torch.Tensor:
        """Allocate rows that allow everything, int32 (batch_size, words), on the host."""
        return torch_bitmask.allocate(batch_size, max(vocab_size, len(self.vocabulary)), fill="all")

    def fill_vocab_mask(self, vocab_mask: torch.Tensor, idx: int) -> None:
        """Write what may come next into a row."""
        self.cursor.fill_bitmask(vocab_mask.numpy()[idx])

    @staticmethod
    def fill_vocab_mask_batched(entries: Sequence[Any], vocab_mask: torch.Tensor) -> None:
        """Fill the masks of many rows with one call into the engine; rows of a reasoner may be among them."""
        own = [entry for entry in entries if isinstance(entry.grammar, FormatterGrammar)]
        Cursor.step_batch([entry.grammar.cursor for entry in own], vocab_mask.numpy(), [entry.row for entry in own])
        for entry in entries:
            if not isinstance(entry.grammar, FormatterGrammar):
                entry.grammar.fill_vocab_mask(vocab_mask, entry.row)

    @staticmethod
    def reset_vocab_mask(vocab_mask: torch.Tensor) -> None:
        """Allow everything again."""
        vocab_mask.fill_(-1)

    @staticmethod
    def move_vocab_mask(vocab_mask: torch.Tensor, device: Any) -> torch.Tensor:
        """Return the rows on the device of the logits."""
        return vocab_mask.to(device, non_blocking=True)

    @staticmethod
    def apply_vocab_mask(logits: torch.Tensor, vocab_mask: torch.Tensor) -> None:
        """Mask logits in place, on any device."""
        torch_bitmask.apply_inplace(logits, vocab_mask)

    def try_jump_forward(self, tokenizer: Any) -> tuple[list[int], str] | None:
        """Return the text that must come next, up to its last whole character; None inside a character."""
        forced = b"" if self.cursor.has_failed else self.cursor.formatter.forced_bytes()
        text = forced.decode("utf-8", "ignore")
        return ([], text) if text and forced.startswith(text.encode()) else None

    def jump_forward_str_state(self, helper: tuple[list[int], str]) -> tuple[str, int]:
        """Return the text of a jump; tokens are the only state."""
        return helper[1], -1

    def jump_and_retokenize(self, old_output_ids: list[int], new_output_ids: list[int], next_state: int) -> None:
        """Take other tokens for the output, or raise ValueError; both lists may begin with the model's reasoning."""
        begun = len(old_output_ids) - self.cursor.length
        if new_output_ids[:begun] != old_output_ids[:begun]:
            raise ValueError("a jump changed tokens of the reasoning")
        self.cursor.reset()
        for token in new_output_ids[begun:]:
            self.accept_token(token)
