"""Wrong calls of every public name of the core raise errors of ours, whatever the arguments."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import formatter_core
from formatter_core import (
    ChatAnswer,
    ChatDeltas,
    Compiler,
    FormatterBuilder,
    Layout,
    Limits,
    ToolCall,
    Vocabulary,
    bitmask,
    formats,
)
from tests.core.wrong_calls import Call, raw_errors

pytestmark = pytest.mark.usefixtures("no_error_says_anything_twice")

END = 256
VOCABULARY = Vocabulary([*(bytes([byte]) for byte in range(256)), None, b"ab"], [END])
COMPILER = Compiler(VOCABULARY)
COMPILED = COMPILER.compile(formats.regex("(?P<a>[ab]+)c?"))


def formatter() -> Any:
    made = COMPILED.formatter()
    made.accept_tokens([97, 98])
    return made


def cursor() -> Any:
    return formatter_core.Cursor(formatter())


def row() -> np.ndarray:
    return bitmask.allocate(1, len(VOCABULARY))[0]


def on(make: Any, method: str) -> Any:
    """The method of an object that is made anew for each call."""
    return lambda *arguments, **options: getattr(make(), method)(*arguments, **options)


def builder_call(method: str, *arguments: Any, **options: Any) -> Call:
    return Call(
        f"FormatterBuilder.{method}", on(FormatterBuilder, method), lambda: arguments, lambda: {**options, "name": "n"}
    )


SCHEMA = {"type": "array", "items": {"type": "integer"}}
SCHEMA_OPTIONS = {
    "whitespace": "compact",
    "key_order": "any",
    "string_formats": "annotate",
    "on_unsupported": "warn",
    "registry": {},
}

CALLS = [
    Call("Vocabulary", Vocabulary, lambda: ([b"a", None], [1])),
    *(Call(f"Vocabulary.{name}", getattr(VOCABULARY, name), lambda: (3,)) for name in ("text_token", "spelled")),
    *(
        Call(f"Vocabulary.{name}", getattr(Vocabulary, name), lambda: (None,), lambda: {"end_ids": [1], "size": 5})
        for name in ("from_huggingface", "from_tiktoken", "from_sentencepiece", "from_mistral_common")
    ),
    Call("Compiler", Compiler, lambda: (VOCABULARY,), lambda: {"engine": "auto", "limits": Limits(), "cache_bytes": 0}),
    Call("Compiler.compile", COMPILER.compile, lambda: (SCHEMA,)),
    Call("Compiler.after_prompt", COMPILER.after_prompt, lambda: (COMPILED, [3])),
    Call("Compiler.from_bytes", COMPILER.from_bytes, lambda: (COMPILED.to_bytes(),)),
    Call("Compiler.memory", COMPILER.memory, tuple),
    Call("Compiler.forget", Compiler(VOCABULARY).forget, tuple),
    Call("CompiledFormat.memory", COMPILED.memory, tuple),
    Call("CompiledFormat.formatter", COMPILED.formatter, lambda: ([3],), lambda: {"max_tokens": 30}),
    Call("CompiledFormat.within", COMPILED.within, lambda: (30,)),
    Call("CompiledFormat.with_forced_text", COMPILED.with_forced_text, lambda: ("longest",)),
    Call("CompiledFormat.formatter_within", COMPILED.formatter_within, lambda: (30,)),
    Call("CompiledFormat.parse", COMPILED.parse, lambda: ("abc",)),
    Call("Formatter.fill_bitmask", on(formatter, "fill_bitmask"), lambda: (row(),)),
    Call("Formatter.step", on(formatter, "step"), lambda: (97, row())),
    Call("Formatter.advance", on(formatter, "advance"), lambda: (97,)),
    Call("Formatter.step_kept", on(formatter, "step_kept"), lambda: (97,)),
    Call(
        "Formatter.step_batch",
        formatter_core.Formatter.step_batch,
        lambda: ([formatter(), formatter()], [97, None], bitmask.allocate(2, len(VOCABULARY)), [1, 0]),
    ),
    Call("Formatter.accept_token", on(formatter, "accept_token"), lambda: (97,)),
    Call("Formatter.accept_bytes", on(formatter, "accept_bytes"), lambda: (b"a",)),
    Call("Formatter.accept_tokens", on(formatter, "accept_tokens"), lambda: ([97],)),
    Call("Formatter.count_valid", on(formatter, "count_valid"), lambda: ([97],)),
    Call("Formatter.set_budget", on(formatter, "set_budget"), lambda: (30,)),
    Call("Formatter.rollback", on(formatter, "rollback"), lambda: (1,)),
    Call("Formatter.explain", on(formatter, "explain"), lambda: (97,)),
    Call("Formatter.snapshot", on(formatter, "snapshot"), tuple, lambda: {"plain": True, "open_numbers": True}),
    Call("Formatter.result", on(formatter, "result"), lambda: ("end",)),
    Call("Cursor", formatter_core.Cursor, lambda: (formatter(),)),
    Call("Cursor.failed", formatter_core.Cursor.failed, lambda: (ValueError("why"), [END])),
    Call("Cursor.follow", on(cursor, "follow"), lambda: ([97],)),
    Call("Cursor.append", on(cursor, "append"), lambda: (97,)),
    Call("Cursor.append_kept", on(cursor, "append_kept"), lambda: (97,)),
    Call("Cursor.rollback", on(cursor, "rollback"), lambda: (1,)),
    Call("Cursor.count_valid", on(cursor, "count_valid"), lambda: ([97],)),
    Call("Cursor.fail", on(cursor, "fail"), lambda: (ValueError("why"),)),
    Call("Cursor.fill_bitmask", on(cursor, "fill_bitmask"), lambda: (row(),)),
    Call("Cursor.fill_drafts", on(cursor, "fill_drafts"), lambda: ([97], bitmask.allocate(2, len(VOCABULARY)))),
    Call(
        "Cursor.step_batch",
        formatter_core.Cursor.step_batch,
        lambda: ([cursor(), cursor()], bitmask.allocate(2, len(VOCABULARY)), [1, 0], np.zeros((2, 300), np.float32)),
    ),
    Call("Cursor.result", on(cursor, "result"), lambda: ("end",)),
    Call("Cursor.check_used", on(cursor, "check_used"), lambda: ("give the hook to the engine",)),
    Call("Limits", Limits, tuple, lambda: {"nodes": 1, "states": 1, "work": 1, "depth": 1, "max_top_n": 1}),
    # bitmasks
    Call("bitmask.words", bitmask.words, lambda: (5,)),
    Call("bitmask.allocate", bitmask.allocate, lambda: (1, 5, "all")),
    Call("bitmask.check_row", bitmask.check_row, lambda: (row(),)),
    Call("bitmask.check_rows", bitmask.check_rows, lambda: (bitmask.allocate(2, 5), 1)),
    Call("bitmask.get", bitmask.get, lambda: (row(), 3)),
    Call("bitmask.set_ids", bitmask.set_ids, lambda: (row(), [3])),
    Call("bitmask.clear_ids", bitmask.clear_ids, lambda: (row(), [3])),
    Call("bitmask.unpack", bitmask.unpack, lambda: (row(),)),
    Call("bitmask.allowed_ids", bitmask.allowed_ids, lambda: (row(),)),
    Call("bitmask.apply_inplace", bitmask.apply_inplace, lambda: (np.zeros(300), row())),
    Call("bitmask.apply_row", bitmask.apply_row, lambda: (np.zeros(300), row())),
    Call("bitmask.fill_batch", bitmask.fill_batch, lambda: ([formatter(), None], bitmask.allocate(2, 258))),
    # formats
    Call("formats.json_schema", formats.json_schema, lambda: (SCHEMA,), lambda: dict(SCHEMA_OPTIONS)),
    Call("formats.python_type", formats.python_type, lambda: (int,), lambda: dict(SCHEMA_OPTIONS)),
    Call("formats.python_type", formats.python_type, lambda: (int,)),
    Call("formats.regex", formats.regex, lambda: ("a",), lambda: {"max_tokens": 9}),
    Call("formats.choice", formats.choice, lambda: (["a"],)),
    Call("formats.substring_of", formats.substring_of, lambda: ("a",)),
    Call("formats.kbnf", formats.kbnf, lambda: ('start ::= "a";', "start")),
    Call("formats.integer", formats.integer, lambda: (1, 2)),
    Call("formats.number", formats.number, lambda: (1, 2)),
    Call("formats.string", formats.string, lambda: ("a", 2), lambda: {"max_tokens": 9}),
    Call("formats.ebnf", formats.ebnf, lambda: ('root ::= "a"',), lambda: {"start": "root"}),
    Call("formats.structural_tag", formats.structural_tag, lambda: ({"format": {"type": "any_text"}},)),
    Call("formats.lark", formats.lark, lambda: ('start: "a"',)),
    Call("formats.gbnf", formats.gbnf, lambda: ('root ::= "a"',), lambda: {"start": "root"}),
    Call("formatter_core.to_gbnf", formatter_core.to_gbnf, lambda: (SCHEMA,), lambda: {"limits": Limits()}),
    Call("formatter_core.to_kbnf", formatter_core.to_kbnf, lambda: (SCHEMA,), lambda: {"limits": Limits()}),
    Call("formats.until", formats.until, lambda: ("a",), lambda: {"max_tokens": 9}),
    Call("formats.within", formats.within, lambda: ({"type": "integer"}, 9)),
    Call("formats.token", formats.token, lambda: (1,)),
    Call("formats.special", formats.special, lambda: ("<x>",)),
    Call(
        "formats.chat_answer",
        formats.chat_answer,
        lambda: ("qwen3",),
        lambda: {"tools": [formatter], "tool_choice": "auto", "reasoning": "auto", "content": int},
    ),
    Call("Layout.named", Layout.named, lambda: ("qwen3",)),
    Call("Layout.from_json", Layout.from_json, lambda: (Layout.named("hermes").to_json(),)),
    Call("Layout.from_tokenizer", Layout.from_tokenizer, lambda: (None,)),
    Call("Layout.closes_reasoning", Layout.named("qwen3").closes_reasoning, lambda: ("<think></think>",)),
    Call("Layout.missing_blanks", Layout.named("qwen3").missing_blanks, lambda: ("<think></think>",)),
    Call("Layout.opens_reasoning", Layout.named("qwen3").opens_reasoning, lambda: ("<think>",)),
    Call("Layout.render", Layout.named("qwen3").render, lambda: (ChatAnswer("a", "b", (ToolCall("c", {}),)),)),
    Call("ChatDeltas.of", ChatDeltas().of, lambda: ([],)),
    Call("formats.text", formats.text, lambda: ("a", formats.regex("b"))),
    Call("formats.sequence", formats.sequence, lambda: (formats.regex("a"), formats.regex("b"))),
    Call("formats.one_of", formats.one_of, lambda: (formats.regex("a"), "b")),
    Call("formats.optional", formats.optional, lambda: (formats.regex("a"),)),
    Call("formats.repeat", formats.repeat, lambda: (formats.regex("a"), 1, 2), lambda: {"separator": ","}),
    Call("formatter_core.parse", formatter_core.parse, lambda: (SCHEMA, "[1]"), lambda: {"ended": "end"}),
    Call("formatter_core.check", formatter_core.check, lambda: (SCHEMA,), lambda: {"limits": Limits()}),
    Call("formats.example", formats.example, lambda: ([1],)),
    Call("formats.as_format", formats.as_format, lambda: (int,)),
    Call("formats.extra_body", formats.extra_body, lambda: (int,)),
    Call("formats.from_json", formats.from_json, lambda: ({"type": "regex", "pattern": "a"},)),
    *(
        Call(f"formats.from_json {name}", lambda *parts, name=name, **more: formats.from_json({**more, "type": name}),
             tuple, lambda parts=parts: {key: value for key, value in parts.items() if key != "type"})
        for name, parts in {
            made.to_json()["type"]: made.to_json()
            for made in (
                formats.regex("a"),
                formats.choice(["a"]),
                formats.kbnf('start ::= "a";'),
                formats.gbnf('root ::= "a"'),
                formats.lark('start: "a"'),
                formats.structural_tag({"format": {"type": "any_text", "excludes": ["a"]}}),
                formats.ebnf('root ::= "a"'),
                formats.text("a", formats.regex("b")),
                formats.sequence(formats.regex("a")),
                formats.integer(1, 2),
                formats.number(1, 2),
                formats.string("a"),
                formats.until("a"),
                formats.token(1),
                formats.special("<x>"),
                formats.substring_of("a"),
                formats.json_schema(True),
                formats.json_schema({}, whitespace=formats.Whitespace()),
            )
        }.items()
    ),
    Call("formats.Hole", formats.Hole, lambda: (formats.regex("a"), "name")),
    Call("formats.Whitespace", formats.Whitespace, lambda: (",", ":", 1, True, 1)),
    Call("FormatterBuilder.append", on(FormatterBuilder, "append"), lambda: ("a",)),
    Call("FormatterBuilder.append_line", on(FormatterBuilder, "append_line"), lambda: ("a",)),
    builder_call("regex", "a"),
    builder_call("choice", ["a"]),
    builder_call("substring_of", "a"),
    builder_call("json", {}),
    builder_call("kbnf", 'start ::= "a";', start="start"),
    builder_call("integer", minimum=1, maximum=2),
    builder_call("number", minimum=1, maximum=2),
    builder_call("string", pattern="a", max_length=2),
    builder_call("until", "a", max_tokens=9),
    builder_call("format", formats.regex("a")),
]  # fmt: skip


def compiled_too(call: Call) -> Call:
    """The call, and what it made compiled: an argument that is taken must not fail later as something else."""

    def made_and_compiled(*arguments: Any, **options: Any) -> None:
        made = call.function(*arguments, **options)
        COMPILER.compile(made)

    return call._replace(function=made_and_compiled)


FORMAT_CALLS = [
    compiled_too(call)
    for call in CALLS
    if call.name.startswith(("formats.", "FormatterBuilder.append"))
    and call.name not in ("formats.Hole", "formats.Whitespace")
]  # fmt: skip


@pytest.mark.parametrize("seed", range(4))
def test_wrong_calls_raise_errors_of_ours(seed: int) -> None:
    assert raw_errors([*CALLS, *FORMAT_CALLS], 1000, seed) == []


def public_functions() -> Iterator[str]:
    for name in bitmask.__all__:
        yield f"bitmask.{name}"
    for name in formats.__all__:
        if name != "FormatterBuilder":
            yield f"formats.{name}"
    kinds = (Vocabulary, Compiler, formatter_core.CompiledFormat, formatter_core.Formatter, formatter_core.Cursor)
    for kind in (*kinds, FormatterBuilder):
        for name, member in vars(kind).items():
            if not name.startswith("_") and callable(getattr(kind, name)) and not isinstance(member, property):
                yield f"{kind.__name__}.{name}"


def test_every_public_function_that_takes_arguments_is_called() -> None:
    without_arguments = {"Formatter.allowed_tokens", "Formatter.reset", "Formatter.fork", "Formatter.forced_bytes"}
    without_arguments |= {"Formatter.deltas", "Formatter.events", "FormatterBuilder.build", "Vocabulary.of_bytes"}
    without_arguments |= {"Cursor.fork", "Cursor.must_stop_or_wait", "Cursor.reset"}
    without_arguments |= {"CompiledFormat.to_json", "CompiledFormat.to_bytes", "CompiledFormat.key"}
    internal = {"Vocabulary.from_table", "CompiledFormat.to_grammar"}
    missing = {*public_functions()} - {call.name for call in CALLS} - without_arguments - internal
    assert not missing
