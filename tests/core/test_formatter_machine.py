"""A formatter against a plain list of steps: accept, rollback, fork, count_valid in any order."""

from __future__ import annotations

from functools import lru_cache

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from formatter_core import Compiler, Formatter, Vocabulary, formats
from formatter_core.testing.recognizer import Recognizer

from .conftest import END, TOKENS

FORMATS = [
    formats.regex("(ab|abc|é)*[0-9]{1,3}"),
    formats.kbnf('start ::= "a" start "b" | "c" | start "," start;'),
    formats.choice(["abc", "ab", "bcab", "日本", "é!"]),
    formats.text("{", formats.Hole(formats.string(max_length=3), "s"), '"}'),
    formats.json_schema({"type": "array", "items": {"enum": ["ab", "abc", 12, True]}}),
]
STEPS = st.one_of(st.sampled_from([ord(c) for c in '{}[]",: abc012'] + [0xC3, 0xA9]), st.integers(256, END))


@lru_cache
def compiler_for(engine: str) -> Compiler:
    return Compiler(Vocabulary(TOKENS, [END]), engine=engine)


@pytest.mark.contract("accept, rollback, fork and count_valid in any order")
class FormatterMachine(RuleBasedStateMachine):
    """The model is a list of token ids; the recogniser, replayed from the start, says what is right."""

    engine = "kbnf"

    @initialize(format=st.sampled_from(FORMATS))
    def begin(self, format) -> None:
        compiled = compiler_for(self.engine).compile(format)
        self.grammar = compiled.lowered.grammar
        self.pairs: list[tuple[Formatter, list[int]]] = [(compiled.formatter(), [])]

    def valid(self, steps: list[int]) -> bool:
        recognizer = Recognizer(self.grammar)
        for place, step in enumerate(steps):
            if step == END:
                return recognizer.can_stop() and all(later == END for later in steps[place:])
            if not TOKENS[step] or not all(recognizer.push(byte) for byte in TOKENS[step] or b""):
                return False
        return True

    @rule(index=st.integers(0, 2), token_id=STEPS)
    def accept(self, index: int, token_id: int) -> None:
        formatter, model = self.pairs[index % len(self.pairs)]
        taken = formatter.accept_tokens([token_id])
        assert bool(taken) == self.valid([*model, token_id])
        model.extend([token_id] * taken)

    @rule(index=st.integers(0, 2), choice=st.integers(0, 10**6))
    def accept_an_allowed_one(self, index: int, choice: int) -> None:
        formatter, model = self.pairs[index % len(self.pairs)]
        allowed = formatter.allowed_tokens()
        token_id = allowed[choice % len(allowed)]
        formatter.accept_token(token_id)
        model.append(token_id)
        assert self.valid(model)

    @rule(index=st.integers(0, 2), token_ids=st.lists(STEPS, max_size=4))
    def count(self, index: int, token_ids: list[int]) -> None:
        formatter, model = self.pairs[index % len(self.pairs)]
        expected = 0
        while expected < len(token_ids) and self.valid([*model, *token_ids[: expected + 1]]):
            expected += 1
        assert formatter.count_valid(token_ids) == expected

    @rule(index=st.integers(0, 2), share=st.floats(0, 1))
    def rollback(self, index: int, share: float) -> None:
        formatter, model = self.pairs[index % len(self.pairs)]
        steps = int(share * len(model))
        formatter.rollback(steps)
        del model[len(model) - steps :]

    @precondition(lambda self: len(self.pairs) < 3)
    @rule(index=st.integers(0, 2))
    def fork(self, index: int) -> None:
        formatter, model = self.pairs[index % len(self.pairs)]
        self.pairs.append((formatter.fork(), list(model)))

    @invariant()
    def they_agree(self) -> None:
        for formatter, model in getattr(self, "pairs", []):
            assert list(formatter.tokens) == model
            assert formatter.bytes == b"".join(TOKENS[step] or b"" for step in model if step != END)
            assert formatter.is_finished == (END in model)
            assert formatter.can_stop == self.valid([*[step for step in model if step != END], END])


FormatterMachine.TestCase.settings = settings(
    max_examples=40, stateful_step_count=15, deadline=None, suppress_health_check=list(HealthCheck)
)
TestFormatterMachine = FormatterMachine.TestCase
