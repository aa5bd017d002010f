"""SGLang's grammar objects, driven as its scheduler does: tokens are accepted and taken back, rows filled together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar

import torch

from formatter_core import Compiler
from tests.adapters.contract import WIDTH, Request, Session


class GrammarSession(Session):
    cannot: ClassVar = {
        "own ends": "the ends are those that SGLang starts with",
        "placeholders": "SGLang accepts tokens that were sampled, or drafts",
        "not called": "there is no result: SGLang keeps the output itself",
        "reused": "a cached grammar is copied for each request",
        "result": "there is no result: the request is aborted with the message",
    }

    def __init__(self, compiler: Compiler, requests: Sequence[Request]) -> None:
        from formatter_sglang.grammar import FormatterGrammar

        self._fresh = [
            None if one.format is None else FormatterGrammar(compiler.compile(one.format)) for one in requests
        ]
        self._grammars = [None if fresh is None else fresh.copy() for fresh in self._fresh]
        self._kept: list[list[int]] = [[] for _ in requests]

    def masks(self, kept: Sequence[Sequence[int]], width: int = WIDTH) -> list[set[int]]:
        from sglang.srt.constrained.base_grammar_backend import GrammarRow

        entries = []
        for row, tokens in enumerate(kept):
            if (grammar := self._grammars[row]) is not None:
                self._follow(row, list(tokens))
                entries.append(GrammarRow(row, grammar))
        first = next(grammar for grammar in self._grammars if grammar is not None)
        rows = first.allocate_vocab_mask(width, len(kept), "cpu")
        first.reset_vocab_mask(rows)
        first.fill_vocab_mask_batched(entries, rows)
        logits = torch.zeros(len(kept), width)
        first.apply_vocab_mask(logits, first.move_vocab_mask(rows, "cpu"))
        return [set(row.isfinite().nonzero().flatten().tolist()) for row in logits]

    def drafts(self, kept: Sequence[int], drafts: Sequence[int]) -> list[set[int]]:
        found = [self.masks([[*kept, *drafts[:count]]])[0] for count in range(len(drafts) + 1)]
        self._follow(0, list(kept))
        return found

    def preempt(self, row: int) -> None:
        self._grammars[row], self._kept[row] = self._fresh[row].copy(), []

    def errors(self) -> Mapping[int, Exception]:
        found = {row: each.cursor.error for row, each in enumerate(self._grammars) if each is not None}
        return {row: error for row, error in found.items() if error is not None}

    def _follow(self, row: int, tokens: list[int]) -> None:
        grammar, kept = self._grammars[row], self._kept[row]
        common = len(kept)
        while kept[:common] != tokens[:common]:
            common -= 1
        if common < len(kept):
            grammar.rollback(len(kept) - common)
        for token in tokens[common:]:
            try:
                grammar.accept_token(token)
            except ValueError:
                assert grammar.cursor.error is not None
        self._kept[row] = tokens
