"""One contract for whatever follows lists of kept token ids: the core's cursor, and the hook of each adapter.

A *session* drives one hook as its inference engine would, with lists that the contract makes up, and says which ids
are left to each row. To add one for another engine:

1. In a module of its own, or beside the engine's stand-ins, write a `Session`, which starts requests; its `masks` takes
   the whole output of each row so far and returns the ids that may come next.
2. Declare in `cannot` what never happens in that engine, by the name of the case, with the reason: the case is then
   skipped with it. What is not declared must work.
3. In `test_contract.py`, add `class TestNewEngine(AdapterContract): session = NewEngineSession`.

Every case runs on every grammar engine. What may come next is decided by the plain recognizer, from the whole list.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, ClassVar

import numpy as np
import pytest

from formatter_core import Compiler, Vocabulary, formats
from formatter_core.engine.protocol import EngineGrammar, EngineState, GrammarEngine, OneByOne, StepInTwoCalls
from formatter_core.errors import (
    BitmaskTooNarrow,
    DeadEnd,
    EngineUnavailable,
    HookNotCalled,
    HookReused,
    LimitExceeded,
    TokenRejected,
    WrongModel,
)
from formatter_core.grammar import Grammar
from formatter_core.limits import Limits
from formatter_core.testing.recognizer import Recognizer

END, OTHER_END, SPECIAL, PAD = 300, 302, 299, 301
PIECES = [b"ab", b"abc", b"bc", b"cb", b"\xc3", b"\xa9", "é".encode(), b"ab", b"", b'{"', b'":', b"true", b"}\n"]
TOKENS: list[bytes | None] = [*(bytes([byte]) for byte in range(256)), *PIECES]
TOKENS += [None] * (OTHER_END + 1 - len(TOKENS))
#: The width of the logits: wider than the vocabulary, and no multiple of 32.
WIDTH = len(TOKENS) + 77

A, B, C, X = b"abcx"
WORD = formats.regex("a[bc]{2,4}")
GRAMMAR_ENGINES = ("oracle", "native", "kbnf")


@dataclass(frozen=True)
class Request:
    """One row, with its format (None if it is unconstrained) and the end ids that it brings itself."""

    format: Any
    end_ids: tuple[int, ...] | None = None


class Session:
    """Requests that run. A subclass leaves out the methods for which its engine has no call.

    Attributes:
        cannot: the cases that cannot happen in this engine, by name, each with the reason.
        _hooks: the hook of each row, None for a row without a format, if hooks have an `error` and a `result`.
    """

    cannot: ClassVar[Mapping[str, str]] = {}
    _hooks: Sequence[Any]

    def __init__(self, compiler: Compiler, requests: Sequence[Request]) -> None:
        """Start the requests, each with an empty output."""

    def masks(self, kept: Sequence[Sequence[int]], width: int = WIDTH) -> list[set[int]]:
        """Return the ids below `width` (that of the logits) that may come next in each row, after its whole output."""
        raise NotImplementedError

    def drafts(self, kept: Sequence[int], drafts: Sequence[int]) -> list[set[int]]:
        """Return, for one row, the ids that may come after `kept` and after each draft; drafts are not kept."""
        raise NotImplementedError

    def preempt(self, row: int) -> None:
        """Make the hook forget the row's output; the next `masks` brings it back."""
        raise NotImplementedError

    def errors(self) -> Mapping[int, Exception]:
        """Return the error of each row that has one."""
        return {row: hook.error for row, hook in enumerate(self._hooks) if hook is not None and hook.error}

    def result(self, row: int) -> Any:
        """Return the result that the hook itself gives for a row."""
        return self._hooks[row].result()

    def reuse(self) -> Any:
        """Use the first row's hook for another request while it serves this one, and return its result."""
        raise NotImplementedError


@cache
def vocabulary() -> Vocabulary:
    return Vocabulary(TOKENS, [END, OTHER_END])


@cache
def compiler_on(engine: str) -> Compiler:
    if engine == "oracle":
        from formatter_core.testing.oracle import OracleEngine

        return Compiler(vocabulary(), engine=OracleEngine())
    try:
        return Compiler(vocabulary(), engine=engine)
    except EngineUnavailable as error:
        pytest.skip(str(error))


def allowed(format: Any, kept: Sequence[int], end_ids: Sequence[int] = (END, OTHER_END)) -> set[int]:
    """Return the ids that may come after `kept`, by the recognizer alone: tokens of a completion, and possible ends."""
    recognizer = Recognizer(format.to_grammar(Limits()).grammar)
    text = list(kept)
    while text and text[-1] in end_ids:
        text.pop()
    if not all(TOKENS[token] and all(recognizer.push(byte) for byte in TOKENS[token]) for token in text):
        return set(end_ids)
    if len(text) < len(kept):
        return set(end_ids)
    found = set(end_ids) if recognizer.can_stop() else set()
    for token, data in enumerate(TOKENS):
        if not data or token in end_ids:
            continue
        pushed = 0
        while pushed < len(data) and recognizer.push(data[pushed]):
            pushed += 1
        recognizer.pop(pushed)
        if pushed == len(data):
            found.add(token)
    return found


class AdapterContract:
    """The cases that every adapter passes. A subclass names the session."""

    session: type[Session]

    @pytest.fixture(params=GRAMMAR_ENGINES)
    def compiler(self, request: pytest.FixtureRequest) -> Compiler:
        return compiler_on(request.param)

    def begin(self, case: str, compiler: Compiler, *requests: Request) -> Session:
        if case in self.session.cannot:
            pytest.skip(self.session.cannot[case])
        return self.session(compiler, requests)

    def follow(self, session: Session, format: Any, *lists: Sequence[int]) -> None:
        """Check the mask after each list."""
        for kept in lists:
            (mask,) = session.masks([kept])
            assert mask == allowed(format, kept), f"after {list(kept)}"

    def test_appended_tokens(self, compiler: Compiler) -> None:
        session = self.begin("appended", compiler, Request(WORD))
        self.follow(session, WORD, [], [A], [A, B], [A, B, B], [A, B, B, C], [A, B, B, C, C], [A, B, B, C, C, END])
        assert session.errors() == {}

    def test_tokens_of_several_bytes_and_of_parts_of_characters(self, compiler: Compiler) -> None:
        format = formats.regex("(ab|c|é)*")
        session = self.begin("appended", compiler, Request(format))
        pair, start, rest = TOKENS.index(b"ab"), TOKENS.index(b"\xc3"), TOKENS.index(b"\xa9")
        self.follow(session, format, [], [pair], [pair, start], [pair, start, rest], [pair, start, rest, C])

    def test_several_at_once(self, compiler: Compiler) -> None:
        session = self.begin("several", compiler, Request(WORD))
        self.follow(session, WORD, [], [A, B, C], [A, B, C, B, C], [A, B, C, B, C, END])
        assert session.errors() == {}

    def test_lists_that_shrink(self, compiler: Compiler) -> None:
        session = self.begin("shrinking", compiler, Request(WORD))
        self.follow(session, WORD, [], [A], [A, B], [A, B, C], [A, B], [A], [A, C], [A, C, C])
        assert session.errors() == {}

    def test_lists_that_are_cleared(self, compiler: Compiler) -> None:
        session = self.begin("cleared", compiler, Request(WORD))
        self.follow(session, WORD, [], [A], [A, B], [A, B, C], [A, B, C, END], [], [A], [A, C])
        assert session.errors() == {}

    def test_an_end_that_is_taken_back(self, compiler: Compiler) -> None:
        session = self.begin("shrinking", compiler, Request(WORD))
        self.follow(session, WORD, [], [A], [A, B], [A, B, C], [A, B, C, END], [A, B, C], [A, B, C, C])

    def test_replay_after_preemption(self, compiler: Compiler) -> None:
        session = self.begin("preemption", compiler, Request(WORD), Request(WORD))
        session.masks([[], []])
        session.masks([[A], [A]])
        session.masks([[A, B], [A, C]])
        session.preempt(0)
        first, second = session.masks([[A, B, B], [A, C, B]])
        assert (first, second) == (allowed(WORD, [A, B, B]), allowed(WORD, [A, C, B]))
        session.preempt(1)
        assert session.masks([[A, B, B, C], []])[1] == allowed(WORD, [])
        assert session.errors() == {}

    @pytest.mark.parametrize(
        ("drafts", "taken"), [([], 0), ([B, C], 2), ([B, X, B], 1), ([X], 0), ([B, C, END], 3), ([B, C, END, B], 3)]
    )
    def test_unverified_drafts(self, compiler: Compiler, drafts: list[int], taken: int) -> None:
        session = self.begin("drafts", compiler, Request(WORD))
        session.masks([[]])
        session.masks([[A]])
        masks = session.drafts([A], drafts)
        for count in range(taken + 1):
            assert masks[count] == allowed(WORD, [A, *drafts[:count]]), drafts[:count]
        for mask in masks[taken + 1 :]:
            assert mask == {END, OTHER_END}
        self.follow(session, WORD, [A], [A, C], [A, C, C])
        assert session.errors() == {}

    def test_placeholders(self, compiler: Compiler) -> None:
        session = self.begin("placeholders", compiler, Request(WORD))
        session.masks([[A]])
        assert session.masks([[A, -1]]) == [{END, OTHER_END}]
        assert session.masks([[A, -1, -1]]) == [{END, OTHER_END}]
        self.follow(session, WORD, [A, B, C])
        assert session.errors() == {}

    def test_tokens_after_the_end(self, compiler: Compiler) -> None:
        session = self.begin("appended", compiler, Request(WORD), Request(WORD))
        for place in range(7):
            first = [A, B, C, END, END, A][:place]
            second = [A, B, C, C, C, OTHER_END][:place]
            masks = session.masks([first, second])
            assert masks == [allowed(WORD, first), allowed(WORD, second)]
            assert place == 6 or session.errors() == {}

    def test_logits_wider_than_the_vocabulary(self, compiler: Compiler) -> None:
        format = formats.regex("(?s).*")
        session = self.begin("appended", compiler, Request(format), Request(None))
        for kept in ([], [X], [X, END]):
            constrained, unconstrained = session.masks([kept, [X] * len(kept)])
            assert max(constrained) < len(TOKENS)
            assert constrained == allowed(format, kept)
            assert unconstrained >= set(range(len(TOKENS)))

    @pytest.mark.contract("an end id's bit is set exactly when the text may end")
    def test_every_end_id_is_offered_exactly_when_the_text_may_end(self, compiler: Compiler) -> None:
        format = formats.choice(["a", "abc"])
        session = self.begin("appended", compiler, Request(format))
        seen = [session.masks([kept])[0] & {END, OTHER_END} for kept in ([], [A], [A, B], [A, B, C])]
        assert seen == [set(), {END, OTHER_END}, set(), {END, OTHER_END}]

    @pytest.mark.contract("a request may bring end ids of its own")
    def test_end_ids_of_the_request(self, compiler: Compiler) -> None:
        session = self.begin("own ends", compiler, Request(WORD, (SPECIAL,)), Request(WORD))
        session.masks([[], []])
        session.masks([[A, B], [A, B]])
        first, second = session.masks([[A, B, C], [A, B, C]])
        assert first == allowed(WORD, [A, B, C], (SPECIAL,))
        assert second == allowed(WORD, [A, B, C])
        assert session.masks([[A, B, C, SPECIAL], [A, B, C, C]])[0] == {SPECIAL}

    def test_special_tokens_are_never_text(self, compiler: Compiler) -> None:
        session = self.begin("appended", compiler, Request(formats.regex("(?s).*")))
        never = {token for token, data in enumerate(TOKENS) if not data and token not in (END, OTHER_END)}
        assert {SPECIAL, PAD} <= never
        for kept in ([], [A], [A, B]):
            assert not session.masks([kept])[0] & never

    def test_a_special_token_that_the_format_names(self, compiler: Compiler) -> None:
        format = formats.sequence(formats.choice(["a"]), formats.token(SPECIAL), formats.choice(["b"]))
        session = self.begin("appended", compiler, Request(format))
        masks = [session.masks([kept])[0] for kept in ([], [A], [A, SPECIAL], [A, SPECIAL, B])]
        pair = {token for token, data in enumerate(TOKENS) if data == b"b"}
        assert masks == [{A}, {SPECIAL}, pair, {END, OTHER_END}]

    def test_two_formats_and_a_row_without_one(self, compiler: Compiler) -> None:
        other = formats.regex("[xy]*é?")
        session = self.begin("appended", compiler, Request(WORD), Request(None), Request(other))
        for count in range(4):
            lists = [[A, B, C][:count], [X, X, X][:count], [X, X, X][:count]]
            first, free, third = session.masks(lists)
            assert (first, third) == (allowed(WORD, lists[0]), allowed(other, lists[2]))
            assert free >= set(range(len(TOKENS)))
        assert session.errors() == {}

    def test_a_token_that_is_not_allowed_ends_its_row_alone(self, compiler: Compiler) -> None:
        session = self.begin("off the format", compiler, Request(WORD), Request(WORD), Request(None))
        for count in range(1, 5):
            lists = [[A, X, B, C][:count], [A, B, C, C][:count], [X, X, X, X][:count]]
            first, second, free = session.masks(lists)
            assert first == ({END, OTHER_END} if count > 1 else allowed(WORD, [A]))
            assert second == allowed(WORD, lists[1])
            assert free >= set(range(len(TOKENS)))
        assert set(session.errors()) == {0}
        assert isinstance(session.errors()[0], TokenRejected)

    def test_the_result_of_a_row_that_was_ended_raises_the_cause(self, compiler: Compiler) -> None:
        session = self.begin("off the format", compiler, Request(WORD))
        for kept in ([], [A], [A, X]):
            session.masks([kept])
        if "result" in self.session.cannot:
            pytest.skip(self.session.cannot["result"])
        with pytest.raises(TokenRejected):
            session.result(0)

    def test_a_hook_that_was_never_called_says_so(self, compiler: Compiler) -> None:
        session = self.begin("not called", compiler, Request(WORD))
        with pytest.raises(HookNotCalled):
            session.result(0)

    def test_a_hook_that_meets_another_request_says_so(self, compiler: Compiler) -> None:
        session = self.begin("reused", compiler, Request(WORD))
        session.masks([[]])
        session.masks([[A]])
        with pytest.raises(HookReused):
            session.reuse()

    def test_logits_narrower_than_the_vocabulary(self, compiler: Compiler) -> None:
        """With logits of another model, nothing is written past them, and the mask is right or the row is ended."""
        session = self.begin("narrow", compiler, Request(WORD), Request(None))
        mask, free = session.masks([[], []], 200)
        assert free == set(range(200))
        error = session.errors().get(0)
        if error is None:
            assert mask == {A}
        else:
            assert isinstance(error, (WrongModel, BitmaskTooNarrow))
            assert len(mask) <= 1  # an id to end with

    @pytest.mark.parametrize(
        "error", [LimitExceeded("work", 1, "a step"), RuntimeError("broken")], ids=["limit", "bug"]
    )
    @pytest.mark.parametrize("method", ["fill_bitmask", "accept_token"])
    def test_a_failing_sequence_ends_with_its_cause_and_the_others_go_on(
        self, compiler: Compiler, method: str, error: Exception
    ) -> None:
        failing = Compiler(vocabulary(), engine=FailingEngine(compiler._engine, method, after=2, error=error))
        bad, first_bad = formats.regex("a[bc]{2,4}!"), 2 if method == "fill_bitmask" else 3
        session = self.begin("appended", failing, Request(WORD), Request(bad), Request(None))
        for count in range(5):
            kept = [A, B, C, C][:count]
            good, bad_mask, free = session.masks([kept, kept, kept])
            assert good == allowed(WORD, kept)
            assert bad_mask == (allowed(bad, kept) if count < first_bad else {END, OTHER_END})
            assert free >= set(range(len(TOKENS)))
        assert dict(session.errors()) == {1: error}

    def test_a_dead_end_ends_its_row_alone(self, compiler: Compiler) -> None:
        lacking = Vocabulary([None if data == b"b" else data for data in TOKENS], [END, OTHER_END])
        stuck = formats.regex("ab")
        holes = Compiler(lacking, engine=compiler._engine)
        session = self.begin("appended", holes, Request(formats.regex("a[xy]{3}")), Request(stuck))
        session.masks([[], []])
        first, second = session.masks([[A], [A]])
        assert first == {X, X + 1}
        assert second == {END, OTHER_END}
        assert set(session.errors()) == {1}
        assert isinstance(session.errors()[1], DeadEnd)


class FailingEngine:
    """A grammar engine that fails in one method after `after` accepted steps, for formats that contain a `!`."""

    def __init__(self, engine: GrammarEngine, method: str, *, after: int, error: Exception) -> None:
        self.name = engine.name
        self._engine, self._method, self._after, self._error = engine, method, after, error

    def compile(self, grammar: Grammar, vocabulary: Vocabulary, limits: Limits) -> EngineGrammar:
        compiled = self._engine.compile(grammar, vocabulary, limits)
        return _FailingGrammar(self, compiled) if "!" in repr(grammar) else compiled

    def check(self, method: str, steps: int) -> None:
        if method == self._method and steps >= self._after:
            raise self._error


class _FailingGrammar(OneByOne):
    def __init__(self, engine: FailingEngine, compiled: EngineGrammar) -> None:
        self._engine, self._compiled = engine, compiled

    def start(self) -> EngineState:
        return _FailingState(self._engine, self._compiled.start(), 0)


class _FailingState(StepInTwoCalls):
    def __init__(self, engine: FailingEngine, state: EngineState, steps: int) -> None:
        self._engine, self._state, self._steps = engine, state, steps

    def fill_bitmask(self, row: np.ndarray) -> int:
        self._engine.check("fill_bitmask", self._steps)
        return self._state.fill_bitmask(row)

    def accept_token(self, token_id: int) -> bool:
        self._engine.check("accept_token", self._steps)
        taken = self._state.accept_token(token_id)
        self._steps += taken
        return taken

    def accept_bytes(self, data: bytes) -> bool:
        taken = self._state.accept_bytes(data)
        self._steps += taken
        return taken

    def rollback(self, steps: int) -> None:
        self._state.rollback(steps)
        self._steps -= steps

    def fork(self) -> EngineState:
        return _FailingState(self._engine, self._state.fork(), self._steps)

    def can_stop(self) -> bool:
        return self._state.can_stop()

    def forced_bytes(self, limit: int) -> bytes:
        return self._state.forced_bytes(limit)
