"""The state of one sequence: every sentence of its contract."""

from __future__ import annotations

import re
import threading
from typing import Any

import numpy as np
import pytest

from formatter_core import Compiler, Formatter, Vocabulary, bitmask, formats
from formatter_core.errors import (
    BitmaskTooNarrow,
    ConcurrentUse,
    DeadEnd,
    FormatterError,
    IncompleteResult,
    InvalidArgument,
    InvalidBitmask,
    InvalidFormat,
    InvalidVocabulary,
    LimitExceeded,
    TokenRejected,
)
from tests.threads import in_threads

from .conftest import END


def formatter_of(compiler: Compiler, format, text: bytes = b"", **options) -> Formatter:
    formatter = compiler.compile(format).formatter(**options)
    if text:
        formatter.accept_bytes(text)
    return formatter


class TestMasks:
    @pytest.mark.contract(
        "a set bit means allowed", "a token is allowed iff some completion begins with the text plus its bytes"
    )
    def test_a_token_is_allowed_iff_it_begins_a_completion(self, compiler: Compiler, vocabulary: Vocabulary) -> None:
        words = ["abc", "ab", "été", "日本", "x😀"]
        formatter = formatter_of(compiler, formats.choice(words))
        expected = [
            token_id
            for token_id in range(len(vocabulary))
            if (data := vocabulary.text_token(token_id)) and any(word.encode().startswith(data) for word in words)
        ]
        assert formatter.allowed_tokens() == expected
        assert vocabulary.tokens.index(b"ab") in expected

    def test_duplicates_are_both_allowed(self, compiler: Compiler, vocabulary: Vocabulary) -> None:
        ids = [token_id for token_id, data in enumerate(vocabulary.tokens) if data == b"ab"]
        assert len(ids) == 2
        assert set(ids) <= set(formatter_of(compiler, formats.choice(["ab"])).allowed_tokens())

    @pytest.mark.contract("a token's index is its id; None is never allowed", "tokens with no bytes are never allowed")
    def test_tokens_without_bytes_are_never_allowed(self, compiler: Compiler, vocabulary: Vocabulary) -> None:
        allowed = set(formatter_of(compiler, formats.regex("(?s).*")).allowed_tokens())
        for token_id, data in enumerate(vocabulary.tokens):
            if token_id != END and not data:
                assert token_id not in allowed

    @pytest.mark.contract("a token is allowed iff some completion begins with the text plus its bytes")
    def test_a_token_may_end_inside_a_character(self, compiler: Compiler) -> None:
        formatter = formatter_of(compiler, formats.choice(["é"]), b"\xc3")
        assert formatter.allowed_tokens() == [0xA9]
        assert formatter.text == "\ufffd"
        assert not formatter.can_stop

    @pytest.mark.contract("words past the vocabulary are zeroed")
    def test_words_past_the_vocabulary_are_zeroed(self, compiler: Compiler, vocabulary: Vocabulary) -> None:
        formatter = formatter_of(compiler, formats.regex("a*"))
        row = np.full(vocabulary.words + 5, -1, dtype=np.int32)
        formatter.fill_bitmask(row)
        assert bitmask.allowed_ids(row) == formatter.allowed_tokens()

    @pytest.mark.contract("too short for an allowed id is BitmaskTooNarrow")
    def test_a_row_may_be_narrow_as_long_as_the_allowed_tokens_fit(self, compiler: Compiler) -> None:
        formatter = formatter_of(compiler, formats.choice(["\x01", "\x02"]))
        row = np.zeros(1, dtype=np.int32)
        formatter.fill_bitmask(row)
        assert bitmask.allowed_ids(row) == [1, 2]
        formatter.accept_bytes(b"\x01")
        with pytest.raises(BitmaskTooNarrow) as fault:
            formatter.fill_bitmask(row)
        assert (fault.value.width, fault.value.needed) == (1, END // 32 + 1)

    @pytest.mark.contract("a row is int32, C-contiguous and writable")
    @pytest.mark.parametrize(
        "row",
        [np.zeros(20, dtype=np.int64), np.zeros(20, dtype=np.uint32), np.zeros((2, 20), dtype=np.int32),
         np.zeros(40, dtype=np.int32)[::2], [0] * 20],
    )  # fmt: skip
    def test_other_rows_are_refused(self, compiler: Compiler, row) -> None:
        with pytest.raises(InvalidBitmask):
            formatter_of(compiler, formats.regex("a*")).fill_bitmask(row)

    @pytest.mark.contract("a row is int32, C-contiguous and writable")
    def test_read_only_rows_are_refused(self, compiler: Compiler, vocabulary: Vocabulary) -> None:
        row = np.zeros(vocabulary.words, dtype=np.int32)
        row.flags.writeable = False
        with pytest.raises(InvalidBitmask):
            formatter_of(compiler, formats.regex("a*")).fill_bitmask(row)

    @pytest.mark.contract("a row is int32, C-contiguous and writable")
    def test_a_row_is_looked_at_each_time(self, compiler: Compiler, vocabulary: Vocabulary) -> None:
        formatter = formatter_of(compiler, formats.regex("a*"))
        row = np.zeros(vocabulary.words, dtype=np.int32)
        formatter.fill_bitmask(row)
        expected = row.copy()
        row.flags.writeable = False
        with pytest.raises(InvalidBitmask):
            formatter.fill_bitmask(row)
        row.flags.writeable = True
        row.__setstate__(np.full(vocabulary.words + 1, -1, dtype=np.int32).__reduce__()[2])  # other memory
        formatter.fill_bitmask(row)
        assert (row == [*expected, 0]).all()
        row = None
        with pytest.raises(InvalidBitmask):
            formatter.fill_bitmask(row)
        with pytest.raises(InvalidBitmask):
            formatter.step(ord("a"), row)
        assert formatter.tokens == ()

    @pytest.mark.contract("`step` is accept and fill")
    def test_step_is_accept_and_fill(self, compiler: Compiler, vocabulary: Vocabulary) -> None:
        formatter = formatter_of(compiler, formats.regex("ab*"))
        row = np.zeros(vocabulary.words, dtype=np.int32)
        formatter.step(ord("a"), row)
        assert formatter.tokens == (ord("a"),)
        assert bitmask.allowed_ids(row) == formatter.allowed_tokens()

    def test_advancing_tells_what_may_follow_without_working_out_masks(self, vocabulary: Vocabulary) -> None:
        compiled = Compiler(vocabulary, engine="native").compile(formats.regex("a[bc]+(d|ee)"))
        seen = []
        for _ in range(2):
            formatter = compiled.formatter()
            for token in b"abcee":
                follows = formatter.advance(token)
                assert follows is not formatter.must_stop
                seen.append(follows is not None)
                formatter.allowed_tokens()
        assert not seen[0]
        assert all(seen[4:])

    @pytest.mark.contract("`advance` is accept, and tells whether text may follow")
    @pytest.mark.parametrize("ends", [None, [ord("c")]])
    def test_advance_is_accept_and_says_what_may_follow(self, compiler: Compiler, ends: Any) -> None:
        for pattern, text in (("ab?c?", b"abc"), ("a(bc)*d", b"abcbcd"), ("a[bc]*", b"abcbc"), ("(ab|ac)b?", b"acb")):
            advanced, taken = (compiler.compile(formats.regex(pattern)).formatter(ends) for _ in range(2))
            for token in text:
                try:
                    follows = advanced.advance(token)
                except TokenRejected as error:
                    with pytest.raises(TokenRejected, match=re.escape(str(error))):
                        taken.accept_token(token)
                    break
                taken.accept_token(token)
                assert (advanced.tokens, advanced.is_finished) == (taken.tokens, taken.is_finished)
                assert taken.must_stop is (follows is False)

    @pytest.mark.contract("`fill_batch` fills all rows, None for everything")
    def test_a_batch_is_filled_at_once(self, compiler: Compiler, vocabulary: Vocabulary) -> None:
        formatter = formatter_of(compiler, formats.regex("ab"))
        rows = bitmask.allocate(2, len(vocabulary))
        bitmask.fill_batch([formatter, None], rows)
        assert bitmask.allowed_ids(rows[0]) == formatter.allowed_tokens()
        assert set(range(len(vocabulary))) <= set(bitmask.allowed_ids(rows[1]))


class TestTogether:
    """`step_batch` leaves every formatter as `step` or `fill_bitmask` leaves it, and tells what they raise."""

    def both(self, formatters: list[Formatter], tokens: list[int | None], width: int) -> dict[int, Exception]:
        alone = [formatter.fork() for formatter in formatters]
        expected, raised = np.zeros((len(alone), width), dtype=np.int32), {}
        for number, (formatter, token) in enumerate(zip(alone, tokens, strict=True)):
            try:
                if token is None:
                    formatter.fill_bitmask(expected[number])
                else:
                    formatter.step(token, expected[number])
            except FormatterError as error:
                raised[number] = error
                expected[number] = 0
        rows = np.full((len(formatters) + 2, width), -1, dtype=np.int32)
        places = list(range(len(formatters), 0, -1))
        faults = Formatter.step_batch(formatters, tokens, rows, places)
        assert (rows[places] == expected).all()
        assert (rows[[0, -1]] == -1).all()
        assert {number: str(error) for number, error in faults.items()} == {n: str(e) for n, e in raised.items()}
        assert [formatter.tokens for formatter in formatters] == [formatter.tokens for formatter in alone]
        return faults

    @pytest.mark.parametrize("extra", [0, 3, -2])
    def test_whatever_each_of_them_does(self, compiler: Compiler, vocabulary: Vocabulary, extra: int) -> None:
        """Goes on, only asks, ends, has ended, is refused, ends by ids of its own; rows that fit, wide and narrow."""
        word, list_ = formats.regex("[a-c]{2,5}"), formats.regex("a(, a)*")
        ended = formatter_of(compiler, word, b"ab")
        ended.accept_token(END)
        cases: list[tuple[Formatter, int | None]] = [
            (formatter_of(compiler, word), ord("a")),
            (formatter_of(compiler, list_, b"a"), None),
            (formatter_of(compiler, word, b"abc"), END),
            (ended.fork(), None),
            (ended.fork(), END),
            (ended, ord("a")),
            (formatter_of(compiler, word), ord("x")),
            (formatter_of(compiler, word), -1),
            (formatter_of(compiler, word), len(vocabulary)),
            (formatter_of(compiler, word, b"a"), END),
            (formatter_of(compiler, word, b"ab", end_ids=[ord("c")]), ord("c")),
            (formatter_of(compiler, word, b"ab", end_ids=[ord("c"), END]), ord("a")),
            (formatter_of(compiler, word, b"abca"), ord("a")),
        ]
        faults = self.both([one for one, _ in cases], [token for _, token in cases], vocabulary.words + extra)
        assert set(faults) >= {5, 6, 7, 8, 9}

    def test_different_vocabularies(self, compiler: Compiler, vocabulary: Vocabulary) -> None:
        other = Compiler(Vocabulary([b"b", b"a", None], [2]))
        formatters = [formatter_of(one, formats.regex("ab")) for one in (compiler, other, compiler)]
        assert not self.both(formatters, [None, 1, ord("a")], vocabulary.words)

    def test_a_dead_end_is_that_of_one(self) -> None:
        compiler = Compiler(Vocabulary([b"a", b"c", None], [2]))
        formatters = [formatter_of(compiler, formats.regex(pattern)) for pattern in ("ab", "a", "a*")]
        faults = self.both(formatters, [0, 0, 0], 1)
        assert {number: type(fault) for number, fault in faults.items()} == {0: DeadEnd}

    def test_no_formatter_stands_in_two_places(self, compiler: Compiler, vocabulary: Vocabulary) -> None:
        formatter = formatter_of(compiler, formats.regex("a*"))
        rows = bitmask.allocate(2, len(vocabulary), fill="all")
        faults = Formatter.step_batch([formatter, formatter], [ord("a"), ord("a")], rows)
        assert isinstance(faults[1], ConcurrentUse)
        assert formatter.text == "a"
        assert not rows[1].any()
        formatter.accept_token(ord("a"))  # it is free again

    def test_rows_that_do_not_lie_together(self, compiler: Compiler, vocabulary: Vocabulary) -> None:
        formatters = [formatter_of(compiler, formats.regex("a*")) for _ in range(2)]
        rows = bitmask.allocate(4, len(vocabulary))[::2]
        assert not Formatter.step_batch(formatters, [ord("a"), None], rows)
        assert [bitmask.allowed_ids(row) for row in rows] == [one.allowed_tokens() for one in formatters]

    def test_rows_that_cannot_be_written_change_nothing(self, compiler: Compiler, vocabulary: Vocabulary) -> None:
        formatter = formatter_of(compiler, formats.regex("a*"))
        rows = bitmask.allocate(1, len(vocabulary))
        rows.flags.writeable = False
        for bad in (rows, bitmask.allocate(0, len(vocabulary)), rows[0]):
            with pytest.raises(InvalidBitmask):
                Formatter.step_batch([formatter], [ord("a")], bad)
        assert formatter.text == ""


class TestDeadEnd:
    @pytest.mark.contract("no token and no end is DeadEnd, never an empty mask")
    def test_a_vocabulary_that_lacks_the_bytes(self) -> None:
        compiler = Compiler(Vocabulary([b"a", b"c", None], [2]))
        formatter = compiler.compile(formats.regex("ab")).formatter()
        formatter.accept_token(0)
        with pytest.raises(DeadEnd) as fault:
            formatter.fill_bitmask(np.zeros(1, dtype=np.int32))
        assert fault.value.text == b"a"
        with pytest.raises(DeadEnd):
            formatter.allowed_tokens()

    @pytest.mark.contract(
        "no token and no end is DeadEnd, never an empty mask", "`must_stop` is `can_stop` and no text token"
    )
    def test_no_dead_end_where_the_format_may_end(self) -> None:
        compiler = Compiler(Vocabulary([b"a", b"c", None], [2]))
        formatter = compiler.compile(formats.regex("ab?")).formatter()
        formatter.accept_token(0)
        assert formatter.allowed_tokens() == [2]
        assert formatter.must_stop


class TestEnds:
    @pytest.mark.contract("an end id's bit is set exactly when the text may end")
    def test_the_end_is_allowed_exactly_when_the_format_may_end(self, compiler: Compiler) -> None:
        formatter = formatter_of(compiler, formats.choice(["a", "abc"]))
        seen = []
        for byte in b"abc":
            seen.append((formatter.can_stop, formatter.must_stop, END in formatter.allowed_tokens()))
            formatter.accept_token(byte)
        seen.append((formatter.can_stop, formatter.must_stop, END in formatter.allowed_tokens()))
        assert seen == [(False, False, False), (True, False, True), (False, False, False), (True, True, True)]

    @pytest.mark.contract(
        "`rollback` counts tokens, end ids included, and un-finishes",
        "after an end id the mask is the end ids, and other ids are TokenRejected",
    )
    def test_after_the_end_only_ends_count(self, compiler: Compiler) -> None:
        formatter = formatter_of(compiler, formats.regex("a*"))
        formatter.accept_token(ord("a"))
        formatter.accept_token(END)
        assert formatter.is_finished
        assert formatter.allowed_tokens() == [END]
        with pytest.raises(TokenRejected):
            formatter.accept_token(ord("a"))
        with pytest.raises(TokenRejected):
            formatter.accept_bytes(b"a")
        formatter.accept_token(END)
        assert formatter.tokens == (ord("a"), END, END)
        assert formatter.bytes == b"a"
        formatter.rollback(1)
        assert formatter.is_finished
        formatter.rollback(1)
        assert not formatter.is_finished
        assert formatter.allowed_tokens() == [ord("a"), 278, END] or ord("a") in formatter.allowed_tokens()

    @pytest.mark.contract("a request may bring end ids of its own")
    def test_a_request_may_have_end_ids_of_its_own(self, compiler: Compiler) -> None:
        formatter = formatter_of(compiler, formats.regex("[ab]*"), end_ids=[ord("b"), END + 1])
        allowed = formatter.allowed_tokens()
        assert {ord("a"), ord("b"), END + 1} <= set(allowed)
        assert END not in allowed
        formatter.accept_token(ord("b"))  # an end id is never text, whatever its bytes
        assert formatter.is_finished
        assert formatter.bytes == b""

    @pytest.mark.parametrize("end_ids", [[], [-1], [10**6]])
    def test_end_ids_that_cannot_be(self, compiler: Compiler, end_ids) -> None:
        with pytest.raises(InvalidVocabulary):
            compiler.compile(formats.regex("a")).formatter(end_ids=end_ids)

    def test_a_finished_sequence_forces_nothing(self, compiler: Compiler) -> None:
        formatter = formatter_of(compiler, formats.choice(["ab"]), b"ab")
        assert formatter.forced_bytes() == b""
        formatter.accept_token(END)
        assert formatter.forced_bytes() == b""


class TestSteps:
    @pytest.mark.contract("a token that is not allowed is TokenRejected and changes nothing")
    @pytest.mark.parametrize("token_id", [ord("x"), END, END + 1, -1, 10**6, 274 + 20])
    def test_a_rejected_token_changes_nothing(self, compiler: Compiler, token_id: int) -> None:
        formatter = formatter_of(compiler, formats.regex("ab+"))
        formatter.accept_token(ord("a"))
        before = formatter.allowed_tokens()
        with pytest.raises(TokenRejected) as fault:
            formatter.accept_token(token_id)
        assert (fault.value.token_id, fault.value.position) == (token_id, 1)
        assert formatter.allowed_tokens() == before
        assert formatter.tokens == (ord("a"),)

    @pytest.mark.contract("bytes may be accepted as well")
    def test_rejected_bytes_change_nothing(self, compiler: Compiler) -> None:
        formatter = formatter_of(compiler, formats.regex("ab+"), b"ab")
        with pytest.raises(TokenRejected):
            formatter.accept_bytes(b"bbx")
        assert formatter.bytes == b"ab"
        formatter.accept_bytes(b"bb")
        assert formatter.bytes == b"abbb"

    @pytest.mark.contract("`accept_tokens` stops before the first id that is not allowed")
    def test_accept_tokens_stops_before_the_first_that_is_not_allowed(self, compiler: Compiler) -> None:
        formatter = formatter_of(compiler, formats.regex("ab+"))
        assert formatter.count_valid(b"abxb") == 2
        assert formatter.tokens == ()
        assert formatter.accept_tokens(b"abxb") == 2
        assert formatter.bytes == b"ab"
        assert formatter.accept_tokens([ord("b"), END, ord("b")]) == 2
        assert formatter.is_finished

    @pytest.mark.contract("`rollback` counts tokens, end ids included, and un-finishes")
    def test_rollback_undoes_steps(self, compiler: Compiler, vocabulary: Vocabulary) -> None:
        formatter = formatter_of(compiler, formats.regex("(abc)*"))
        masks = []
        steps = [vocabulary.tokens.index(b"abc"), ord("a"), vocabulary.tokens.index(b"bc"), ord("a")]
        for token_id in steps:
            masks.append(formatter.allowed_tokens())
            formatter.accept_token(token_id)
        for token_id in reversed(steps):
            formatter.rollback(1)
            assert formatter.allowed_tokens() == masks.pop(), token_id
        assert formatter.bytes == b""
        for count in (1, -1):
            with pytest.raises(InvalidArgument):
                formatter.rollback(count)

    @pytest.mark.contract("`fork` is independent")
    def test_a_fork_goes_its_own_way(self, compiler: Compiler) -> None:
        formatter = formatter_of(compiler, formats.choice(["abc", "abd"]), b"ab")
        fork = formatter.fork()
        fork.accept_token(ord("d"))
        formatter.accept_token(ord("c"))
        assert (formatter.text, fork.text) == ("abc", "abd")
        fork.rollback(2)
        assert fork.bytes == b""
        assert fork.accept_tokens(b"abc") == 3

    @pytest.mark.contract("`reset` begins again")
    def test_a_reset_that_fails_changes_nothing(self, compiler: Compiler, monkeypatch: pytest.MonkeyPatch) -> None:
        formatter = formatter_of(compiler, formats.choice(["ab"]), b"a")

        def fail(*_: object) -> None:
            raise LimitExceeded("work", 1, "the budget")

        monkeypatch.setattr(type(formatter._state), "_limit_start", fail)
        with pytest.raises(LimitExceeded):
            formatter.reset()
        assert formatter.bytes == b"a"
        assert formatter.allowed_tokens() == [ord("b")]

    @pytest.mark.contract("`reset` begins again")
    def test_reset_begins_again(self, compiler: Compiler) -> None:
        formatter = formatter_of(compiler, formats.choice(["ab"]), b"ab")
        formatter.accept_token(END)
        formatter.reset()
        assert (formatter.tokens, formatter.bytes, formatter.is_finished) == ((), b"", False)
        assert formatter.accept_tokens(b"ab") == 2


class TestForcedBytes:
    @pytest.mark.contract("`forced_bytes` is the longest common beginning, and may end inside a character")
    @pytest.mark.parametrize(
        ("format", "text", "forced"),
        [
            (formats.choice(["abcd", "abce"]), b"", b"abc"),
            (formats.choice(["abcd", "abce"]), b"abc", b""),
            (formats.choice(["ab", "abcd"]), b"", b"ab"),
            (formats.choice(["ab", "abcd"]), b"ab", b""),
            (formats.choice(["é", "è"]), b"", b"\xc3"),
            (formats.json_schema({"type": "object", "properties": {"a": {"const": 1}}, "required": ["a"]}), b'{"a":',
             b""),
            (formats.kbnf('start ::= "(" start ")" | "[]";'), b"([", b"])"),
        ],
    )  # fmt: skip
    def test_the_longest_common_beginning(self, compiler: Compiler, format, text: bytes, forced: bytes) -> None:
        assert formatter_of(compiler, format, text).forced_bytes() == forced

    @pytest.mark.contract("`forced_bytes` gives at most Limits.forced_bytes")
    def test_it_is_bounded(self, vocabulary: Vocabulary) -> None:
        from formatter_core import Limits

        compiler = Compiler(vocabulary, limits=Limits(forced_bytes=5))
        assert compiler.compile(formats.choice(["abcdefgh"])).formatter().forced_bytes() == b"abcde"


class TestResult:
    @pytest.mark.contract("a result has text, bytes, tokens, ended, is_complete, captures, value, missing")
    def test_complete_by_an_end_id(self, compiler: Compiler) -> None:
        formatter = formatter_of(compiler, formats.integer())
        formatter.accept_tokens([ord("1"), ord("2"), END])
        result = formatter.result()
        assert (result.value, result.ended, result.is_complete, result.text) == (12, "end", True, "12")
        assert result.tokens == (ord("1"), ord("2"), END)

    @pytest.mark.contract(
        "complete means ended by the format's own rules", "the value of what is not complete says what was missing"
    )
    def test_a_cut_text_has_no_value_even_where_it_could_have_ended(self, compiler: Compiler) -> None:
        formatter = formatter_of(compiler, formats.integer(), b"12")
        for ended in ("length", "stop_string", "error", None):
            result = formatter.result(ended)
            assert not result.is_complete
            with pytest.raises(IncompleteResult) as fault:
                _ = result.value
            assert fault.value.ended == ended
            assert fault.value.missing

    @pytest.mark.contract("complete means ended by the format's own rules")
    def test_complete_because_nothing_may_follow(self, compiler: Compiler) -> None:
        assert formatter_of(compiler, formats.choice(["ab"]), b"ab").result("length").value == "ab"

    def test_captures_once_complete(self, compiler: Compiler) -> None:
        formatter = formatter_of(compiler, formats.text("n=", formats.Hole(formats.integer(), "n"), ";"), b"n=5")
        assert formatter.captures == {}
        formatter.accept_token(ord(";"))
        assert formatter.captures == {"n": (5,)}


class TestExplain:
    @pytest.mark.contract("`explain` says the text so far, what is expected, and where")
    def test_it_says_why(self, compiler: Compiler) -> None:
        formatter = formatter_of(compiler, formats.text("n=", formats.Hole(formats.integer(), "n"), ";"), b"n=")
        assert formatter.explain(ord("5")).startswith("allowed")
        assert formatter.explain(ord("x")).startswith("not allowed")
        assert "n" in formatter.explain(ord("x"))
        assert formatter.explain(END).startswith("not allowed")
        assert formatter.explain(10**6).startswith("not allowed")
        assert formatter.explain(-1).startswith("not allowed")

    @pytest.mark.contract("`explain` agrees with the mask")
    def test_it_agrees_with_the_mask(self, compiler: Compiler, vocabulary: Vocabulary) -> None:
        formatter = formatter_of(compiler, formats.regex("(ab|日)*c?"), b"ab")
        allowed = set(formatter.allowed_tokens())
        for token_id in range(len(vocabulary)):
            assert formatter.explain(token_id).startswith("allowed") == (token_id in allowed), token_id


class TestTokensById:
    @pytest.mark.contract("token by its id")
    def test_a_special_token_is_allowed_where_the_format_names_it(self, compiler: Compiler) -> None:
        special = END + 1
        format = formats.sequence(formats.choice(["a"]), formats.token(special), formats.choice(["b"]))
        formatter = formatter_of(compiler, format)
        assert special not in formatter.allowed_tokens()
        formatter.accept_token(ord("a"))
        assert formatter.allowed_tokens() == [special]
        assert formatter.forced_bytes() == b""
        assert formatter.accept_tokens([special, ord("b"), END]) == 3
        assert formatter.bytes == b"ab"
        assert formatter.result().value == ("a", special, "b")

    @pytest.mark.parametrize("token_id", [END, ord("a"), 10**6])
    def test_a_token_that_is_text_or_an_end_or_unknown_is_refused(self, compiler: Compiler, token_id: int) -> None:
        with pytest.raises(InvalidFormat):
            compiler.compile(formats.token(token_id))


class TestThreads:
    @pytest.mark.contract("overlapping use of a formatter is ConcurrentUse")
    def test_overlapping_use_is_noticed(self, compiler: Compiler) -> None:
        formatter = formatter_of(compiler, formats.regex("a*"))
        inside, leave = threading.Event(), threading.Event()
        fill = formatter._state.engine.try_fill

        def slow(row, words) -> int:
            inside.set()
            leave.wait(10)
            return fill(row, words)

        class Slow:
            try_fill = staticmethod(slow)

        formatter._state.engine = Slow()  # type: ignore[assignment]
        worker = threading.Thread(target=formatter.allowed_tokens)
        worker.start()
        inside.wait(10)
        try:
            with pytest.raises(ConcurrentUse):
                formatter.accept_token(ord("a"))
        finally:
            leave.set()
            worker.join()

    @pytest.mark.contract("vocabularies, compilers and compiled formats may be shared")
    def test_compiled_formats_are_shared(self, compiler: Compiler) -> None:
        compiled = compiler.compile(formats.regex("(ab)*"))

        def work(_: int) -> None:
            for _ in range(5):
                formatter = compiled.formatter()
                assert formatter.accept_tokens(b"ababab") == 6
                assert formatter.can_stop

        in_threads(work, 4)


@pytest.mark.contract("`min_bytes` is the length of the shortest complete output")
def test_min_bytes_and_fingerprint(compiler: Compiler, vocabulary: Vocabulary) -> None:
    compiled = compiler.compile(formats.choice(["abc", "é", "ab日"]))
    assert compiled.min_bytes == 2
    again = Compiler(vocabulary).compile(formats.choice(["abc", "é", "ab日"]))
    assert again.fingerprint == compiled.fingerprint
    assert compiler.compile(formats.choice(["abc", "é"])).fingerprint != compiled.fingerprint
