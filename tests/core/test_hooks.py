"""Adapters share hooks of one sequence, formats of prompts, prompts by a tokenizer, drafts, and ends of outputs."""

from __future__ import annotations

from typing import Any

import pytest

from formatter_core import CompiledFormat, Compiler, Cursor, Vocabulary, formats
from formatter_core.errors import InvalidArgument, TokenRejected
from formatter_core.formats.openai_request import error_answer
from formatter_core.generation.forced import DraftsForForcedText, forced_drafts
from formatter_core.generation.stopping import accept_output, rejected
from formatter_core.generation.tokenizer_prompts import TokenizerPrompts, continuation
from formatter_core.layouts.lookup import known_layout, layout_option
from formatter_core.runtime.hook import SequenceHook, check_formats, compile_for_prompts, ids_within

END = 256
VOCABULARY = Vocabulary([*(bytes([byte]) for byte in range(256)), None], [END])


def compiled(pattern: str = "ab[cd]") -> CompiledFormat:
    return Compiler(VOCABULARY).compile(formats.regex(pattern))


class Hook(SequenceHook):
    def __init__(self) -> None:
        self._cursor = Cursor(compiled().formatter())

    def take(self, *token_ids: int) -> None:
        for token_id in token_ids:
            self._cursor.append(token_id)


class Tokenizer:
    """One token for each byte, with or without a chat template."""

    chat_template: str | None = "messages"

    def encode(self, text: str, add_special_tokens: bool = True) -> list[int]:
        return [*([0] if add_special_tokens else []), *text.encode()]

    def apply_chat_template(self, messages: list[Any], **options: Any) -> list[int]:
        assert options["tokenize"]
        return [len(messages)]


def test_a_hook_keeps_its_error_until_it_is_asked() -> None:
    hook = Hook()
    hook.take(*b"ab")
    hook.raise_error()
    assert hook.error is None
    assert hook.formatter.text == "ab"
    hook.take(ord("x"))
    assert isinstance(hook.error, TokenRejected)
    assert repr(hook).startswith("<Hook: ")
    with pytest.raises(TokenRejected):
        hook.raise_error()


def test_one_format_for_all_prompts_or_one_for_each() -> None:
    check_formats("x", None)
    check_formats(None, ["x", None])
    for wrong in ((None, None), ("x", ["x"]), (None, [])):
        with pytest.raises(InvalidArgument):
            check_formats(*wrong)
    several = [formats.regex("a+"), None]
    first, second = compile_for_prompts(Compiler(VOCABULARY), several, max_tokens=3, forced_text="longest")
    assert first is not None
    assert (first.max_tokens, first.forced_text) == (3, "longest")
    assert second is None


def test_ids_that_a_model_has() -> None:
    assert ids_within([3, 9], 9) == [3]
    assert ids_within([9], 9) == [0]


def test_prompts_by_a_tokenizer() -> None:
    model: Any = TokenizerPrompts()
    model.compiler, model.tokenizer = Compiler(VOCABULARY), Tokenizer()
    assert model.encode("ab") == [0, *b"ab"]
    assert model.encode_continuation(b"ab") == [*b"ab"]
    assert model.encode_continuation("é".encode()[:1]) is None
    assert model.encode_chat([{}, {}]) == [2]
    assert model.layout is None
    model.tokenizer.chat_template = None
    assert model.encode_chat([{}], chat_template="given") == [1]
    with pytest.raises(InvalidArgument, match="no chat template"):
        model.encode_chat([{}])


def test_drafts() -> None:
    def spell(vocabulary: Vocabulary) -> Any:
        return continuation(Tokenizer(), vocabulary)

    start, drafts = compiled("size [0-9]").formatter(), DraftsForForcedText(most=3)
    assert bytes(forced_drafts(lambda: start, spell, drafts.most)) == b"siz"
    assert repr(drafts) == "<DraftsForForcedText: 0 tokens proposed>"
    ended = start.fork()
    ended.accept_tokens([*b"size 1", END])
    assert forced_drafts(lambda: ended, spell, 3) == forced_drafts(lambda: None, spell, 3) == []
    with pytest.raises(InvalidArgument):
        DraftsForForcedText(most=0)


def test_outputs_end_at_their_first_end_id() -> None:
    whole, wrong = compiled().formatter(), compiled().formatter()
    assert accept_output(whole, [*b"abc", END, END, 5]) == 4
    assert whole.is_finished
    assert accept_output(wrong, b"abx") == 2
    error = rejected(wrong, ord("x"))
    assert (error.token_id, error.position) == (ord("x"), 2)
    assert "'x'" in str(error)


def test_layouts_of_servers() -> None:
    layout, others = layout_option(["--model", "m", "--layout", "hermes"])
    assert layout is not None
    assert (layout.name, others) == ("hermes", ["--model", "m"])
    assert layout_option(["--port", "1"]) == (None, ["--port", "1"])
    assert known_layout(object()) is None


def test_errors_for_clients() -> None:
    assert error_answer(InvalidArgument("no", argument="n"))["error"] == {
        "message": "no",
        "type": "invalid_request_error",
        "param": "n",
        "code": "InvalidArgument",
    }
    found = error_answer(ValueError("no"), is_fault_of_request=False)["error"]
    assert (found["message"], found["type"]) == ("ValueError: no", "server_error")
