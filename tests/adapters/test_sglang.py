"""The backend for SGLang beyond the contract, on stand-ins of its base classes."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("torch", reason="the SGLang adapter needs torch")
transformers = pytest.importorskip("transformers", reason="the tokenizer is one of transformers")

from formatter_core import bitmask  # noqa: E402
from formatter_core.errors import ConcurrentUse  # noqa: E402
from tests.adapters.sglang_stand_ins import SERVING, sglang_of  # noqa: E402
from tests.adapters.sglang_walks import jump, walk  # noqa: E402
from tests.core.wrong_calls import WRONG, Call, raw_errors  # noqa: E402
from tests.threads import in_threads  # noqa: E402

pytestmark = pytest.mark.usefixtures("no_error_says_anything_twice")

TINY = Path(__file__).resolve().parents[2] / "examples" / "tiny_model"


@pytest.fixture
def backend() -> Iterator[Any]:
    with sglang_of() as registry:
        from formatter_sglang import register

        register()
        register()
        tokenizer = transformers.AutoTokenizer.from_pretrained(TINY)
        yield registry["formatter"](None, tokenizer, 500, {0})


@pytest.mark.parametrize(
    ("kind", "spec", "text"),
    [
        ("json", '{"type": "object", "properties": {"a": {"const": 1}}, "required": ["a"]}', b'{"a":1}'),
        ("json", '{"properties": {"a": {"const": 1}, "b": {"const": 2}}, "type": "object"}', b'{"b":2,"a":1}'),
        ("json", "$$ANY$$", b'{"b": [1, null]}'),
        ("regex", "[a-c]{2}", b"ab"),
        ("ebnf", 'root ::= "x" root | "y"', b"xxy"),
        (
            "structural_tag",
            '{"type": "structural_tag", "format": {"type": "const_string", "value": "go"}}',
            b"go",
        ),
    ],
)
def test_what_requests_ask_for(backend: Any, kind: str, spec: str, text: bytes) -> None:
    grammar = getattr(backend, f"dispatch_{kind}")(spec)
    grammar.cursor.formatter.accept_bytes(text)
    assert grammar.cursor.formatter.can_stop
    assert backend.allocate_vocab_mask(500, 3, "cpu").shape == (3, 16)


@pytest.mark.parametrize(
    ("kind", "spec"),
    [("json", "{"), ("json", '{"type": "nothing"}'), ("regex", "(a"), ("ebnf", "root ="), ("structural_tag", "[]")],
)
def test_what_is_refused_says_why(backend: Any, kind: str, spec: str) -> None:
    assert getattr(backend, f"dispatch_{kind}")(spec).error_message


@pytest.mark.parametrize("kind", ["json", "regex", "ebnf", "structural_tag"])
def test_whatever_a_request_holds_ends_that_request_alone(backend: Any, kind: str) -> None:
    for wrong in (*WRONG, "\0", "\ud800", "[" * 5000):
        made = getattr(backend, f"dispatch_{kind}")(wrong() if callable(wrong) else wrong)
        assert getattr(made, "error_message", "") or made.copy().cursor.error is None


def test_wrong_settings_raise_errors_of_ours(backend: Any) -> None:
    call = Call("backend", type(backend), lambda: (transformers.AutoTokenizer.from_pretrained(TINY), 500, {0}))
    assert raw_errors([call], 60, seed=3) == []


def test_a_token_that_is_not_allowed_is_the_error_that_sglang_expects(backend: Any) -> None:
    grammar = backend.dispatch_regex("ab")
    other = grammar.copy()
    with pytest.raises(ValueError, match="expected"):
        grammar.accept_token(1)
    assert grammar.cursor.error is not None
    assert other.cursor.error is None


def test_a_request_that_two_threads_use_ends_alone(backend: Any) -> None:
    """The second thread is refused while the first is at work, and the other rows of its batch are filled."""
    shared, neighbour = backend.dispatch_regex("ab").copy(), backend.dispatch_regex("ab").copy()
    inside, leave = threading.Event(), threading.Event()
    formatter, rows = shared.cursor.formatter, backend.allocate_vocab_mask(500, 2, "cpu")

    def work() -> None:
        formatter._state.idle.pop()
        inside.set()
        leave.wait(10)
        formatter._state.idle.append(None)

    worker = threading.Thread(target=work)
    worker.start()
    inside.wait(10)
    try:
        entries = [SimpleNamespace(row=row, grammar=grammar) for row, grammar in enumerate([shared, neighbour])]
        shared.fill_vocab_mask_batched(entries, rows)
    finally:
        leave.set()
        worker.join()
    assert isinstance(shared.cursor.error, ConcurrentUse)
    ended, going = (bitmask.allowed_ids(row) for row in rows.numpy())
    assert ended == [0]
    assert going == neighbour.cursor.formatter.allowed_tokens()
    with pytest.raises(ValueError, match="thread"):
        shared.accept_token(going[0])
    neighbour.accept_token(going[0])


def test_threads_that_share_requests_get_right_masks_or_a_cause(backend: Any) -> None:
    """Each thread has its own rows; what they share is the compiled format, and one request that they should not."""
    fresh = backend.dispatch_regex("(ab){3}")
    misused = fresh.copy()
    expected = bitmask.allowed_ids(filled(fresh.copy()))
    begun = [fresh.copy() for _ in range(4)]

    def work(number: int) -> None:
        for _ in range(50):
            with suppress(ValueError):
                misused.accept_token(expected[0])
            filled(misused)
            own = begun[number].copy()
            assert bitmask.allowed_ids(filled(own)) == expected
            own.accept_token(expected[0])
            own.rollback(1)
            assert bitmask.allowed_ids(filled(own)) == expected

    in_threads(work, len(begun))
    assert misused.cursor.error is not None
    assert bitmask.allowed_ids(filled(misused)) == [0]


def filled(grammar: Any) -> Any:
    rows = grammar.allocate_vocab_mask(500, 1, "cpu")
    grammar.fill_vocab_mask(rows, 0)
    return rows.numpy()[0]


def test_text_that_has_to_come(backend: Any) -> None:
    grammar = backend.dispatch_regex("(Größe|Größer)")
    helper = grammar.try_jump_forward(None)
    assert grammar.jump_forward_str_state(helper) == ("Größe", -1)
    assert backend.dispatch_regex("[ab]").try_jump_forward(None) is None


def test_no_text_has_to_come_inside_a_character(backend: Any) -> None:
    grammar = backend.dispatch_regex("über")
    grammar.accept_token(backend.compiler.vocabulary.tokens.index("ü".encode()[:1]))
    assert grammar.try_jump_forward(None) is None


def test_random_walks_equal_fresh_replays(backend: Any) -> None:
    done = walk(backend, transformers.AutoTokenizer.from_pretrained(TINY), 600)
    assert done["different"] == 0
    assert done["jumped"] > 20
    assert done["jumps that changed earlier tokens"] > 5


def test_a_jump_after_reasoning(backend: Any) -> None:
    """The lists of a jump hold the whole output; the format has seen only what came after the reasoning."""
    grammar, tokenizer = backend.dispatch_regex("Größe: [0-9]"), transformers.AutoTokenizer.from_pretrained(TINY)
    tokens = tokenizer("Hm.", add_special_tokens=False)["input_ids"]
    reasoning = len(tokens)
    assert jump(grammar, tokens, tokenizer, reasoning)
    assert grammar.cursor.bytes == "Größe: ".encode()
    assert len(tokens) == reasoning + grammar.cursor.length
    with pytest.raises(ValueError, match="of the reasoning"):
        grammar.jump_and_retokenize(tokens, tokens[1:], -1)
    with pytest.raises(ValueError, match="expected"):
        grammar.jump_and_retokenize(tokens, [*tokens[:reasoning], tokens[0]], -1)


def test_the_end_and_back(backend: Any) -> None:
    grammar = backend.dispatch_regex("a?")
    grammar.accept_token(0)
    assert grammar.is_terminated()
    grammar.rollback(1)
    assert not grammar.is_terminated()


def test_a_format_begins_after_the_reasoning_where_sglang_has_a_parser(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(SERVING, "reasoning_parser", "qwen3")
    monkeypatch.setattr(SERVING, "enable_strict_thinking", True)
    with sglang_of() as registry:
        from formatter_sglang import FormatterGrammarBackend, register

        register()
        wrapped = registry["formatter"](None, transformers.AutoTokenizer.from_pretrained(TINY), 500, {0})
        assert isinstance(wrapped.grammar_backend, FormatterGrammarBackend)
        assert wrapped.is_strict
