"""Every sentence about the public names, with the tests that show it; what no other file shows is tested here."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from formatter_core import (
    Compiler,
    Formatter,
    FormatterBuilder,
    Vocabulary,
    bitmask,
    formats,
)
from formatter_core.engine import native_library
from formatter_core.errors import (
    BitmaskTooNarrow,
    ConcurrentUse,
    DeadEnd,
    EngineUnavailable,
    IncompleteResult,
    InvalidArgument,
    LimitExceeded,
    TokenRejected,
)
from formatter_core.testing.oracle import OracleEngine
from tests.threads import in_threads

from .conftest import END, TOKENS

ROOT = Path(__file__).resolve().parents[2]


#: Promises of the public names. A test that shows one has it as a mark: `@pytest.mark.contract("the sentence")`.
SENTENCES = (
    "a token's index is its id; None is never allowed",
    "vocabularies are read from Hugging Face tokenizers",
    "vocabularies are read from tiktoken and mistral-common",
    "vocabularies are read from SentencePiece",
    "the engine is chosen by name, and `auto` takes the best one that is there",
    "without a usable grammar engine the error names the remedies",
    "compiled formats are kept within cache_bytes",
    "`parse` is the same format without tokens",
    "`min_bytes` is the length of the shortest complete output",
    "`fingerprint` is a stable content hash",
    "a request may bring end ids of its own",
    "a row is int32, C-contiguous and writable",
    "a set bit means allowed",
    "words past the vocabulary are zeroed",
    "too short for an allowed id is BitmaskTooNarrow",
    "rows of every width, and wider than the vocabulary",
    "`step` is accept and fill",
    "`advance` is accept, and tells whether text may follow",
    "`allowed_tokens` is sorted",
    "`fill_batch` fills all rows, None for everything",
    "a token that is not allowed is TokenRejected and changes nothing",
    "bytes may be accepted as well",
    "`accept_tokens` stops before the first id that is not allowed",
    "`count_valid` takes none",
    "`rollback` counts tokens, end ids included, and un-finishes",
    "accept, rollback, fork and count_valid in any order",
    "`fork` is independent",
    "copies of a formatter are forks",
    "`reset` begins again",
    "`forced_bytes` is the longest common beginning, and may end inside a character",
    "`forced_bytes` is nothing where the text may end",
    "`forced_bytes` gives at most Limits.forced_bytes",
    "`explain` says the text so far, what is expected, and where",
    "`explain` agrees with the mask",
    "`tokens`, `bytes` and `text` are what was accepted",
    "`append` takes text as it is, and returns the builder",
    "an f-string works too",
    "every kind of hole, with a name or without",
    "the same hole may stand in several places",
    "a result has text, bytes, tokens, ended, is_complete, captures, value, missing",
    "a result is short to look at",
    "events open holes, add text, complete values",
    "events tell only what every surviving parse agrees on",
    "after a rollback past something delivered, Retracted",
    "complete means ended by the format's own rules",
    "the value of what is not complete says what was missing",
    "each limit is documented, with why it has its default",
    "a Format, a builder, a schema as dict, bool or text, a type",
    "a non-empty dict without a known keyword is InvalidSchema",
    "other text is InvalidFormat, and names what to use",
    "examples only through `formats.example`",
    "formats go to JSON and back, captures included",
    "vocabularies, compilers and compiled formats may be shared",
    "overlapping use of a formatter is ConcurrentUse",
    "a token is allowed iff some completion begins with the text plus its bytes",
    "no token and no end is DeadEnd, never an empty mask",
    "end ids are never text, whatever their bytes",
    "tokens with no bytes are never allowed",
    "an end id's bit is set exactly when the text may end",
    "`must_stop` is `can_stop` and no text token",
    "after an end id the mask is the end ids, and other ids are TokenRejected",
    "captures come from the parse: written order, greedy, left to right",
    "captures map a name to its values in order",
    "each error is a FormatterError with its facts as fields",
    "JSON Schema: whitespace",
    "JSON Schema: key_order",
    "JSON Schema: string_formats",
    "JSON Schema: on_unsupported",
    "JSON Schema: registry",
    "regex: Rust syntax, whole text, refusals with their position",
    "choice, substring_of (cut at characters), kbnf, until, sequence, integer, number, string",
    "python_type: generic aliases, unions, callables",
    "token by its id",
    "until: the end occurs not before, and is not captured",
    "reasoning first is sequence(until, json_schema)",
    "every adapter offers create_vocabulary(tokenizer, *, model=None, end_ids=None)",
)


def marked_sentences() -> Iterator[str]:
    """The sentences of all marks."""
    for path in (ROOT / "tests").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "contract":
                yield from map(ast.literal_eval, node.args)


def test_each_sentence_has_a_test_and_each_mark_a_sentence() -> None:
    assert {*marked_sentences()} == {*SENTENCES}


# --- The compiler ------------------------------------------------------------------------------------------------


@pytest.mark.contract("the engine is chosen by name, and `auto` takes the best one that is there")
def test_the_engine_is_chosen_by_name(vocabulary: Vocabulary) -> None:
    assert Compiler(vocabulary).engine == "native"
    for name in ("native", "kbnf"):
        try:
            assert Compiler(vocabulary, engine=name).engine == name
        except EngineUnavailable as fault:
            assert fault.engine == name


@pytest.mark.contract("without a usable grammar engine the error names the remedies")
def test_without_an_engine_the_remedies_are_named(monkeypatch: pytest.MonkeyPatch, vocabulary: Vocabulary) -> None:
    monkeypatch.setattr(native_library, "_library_files", list)
    native_library.load.cache_clear()
    try:
        for name in ("auto", "native", "kbnf", OracleEngine()):
            with pytest.raises(EngineUnavailable) as fault:
                Compiler(vocabulary, engine=name)
    finally:
        native_library.load.cache_clear()
    assert fault.value.remedies
    assert all(remedy in str(fault.value) for remedy in fault.value.remedies)


@pytest.mark.contract("compiled formats are kept within cache_bytes")
def test_cache_bytes_bound_what_is_kept(compiler: Compiler) -> None:
    keeping_none = Compiler(compiler.vocabulary, engine=compiler._engine, cache_bytes=0)
    first = keeping_none.compile(formats.regex("a+"))
    again = keeping_none.compile(formats.regex("a+"))
    assert first is not again
    assert first.fingerprint == again.fingerprint


@pytest.mark.contract("`parse` is the same format without tokens")
def test_parse_takes_text_and_bytes(compiler: Compiler) -> None:
    compiled = compiler.compile(formats.choice(["é", "日本"]))
    assert compiled.parse("é").value == compiled.parse("é".encode()).value == "é"
    assert compiled.parse("é").tokens == ()
    assert not compiled.parse(b"\xc3").is_complete


@pytest.mark.contract("`fingerprint` is a stable content hash")
def test_the_fingerprint_is_the_same_in_every_process() -> None:
    code = (
        "from formatter_core import Compiler, Vocabulary\n"
        "from formatter_core.testing.oracle import OracleEngine\n"
        "compiler = Compiler(Vocabulary([b'a', b'[', b']', None], [3]), engine=OracleEngine())\n"
        "print(compiler.compile({'type': 'array', 'items': {'enum': ['x', 1]}}).fingerprint)"
    )
    runs = [
        subprocess.run(
            [sys.executable, "-c", code],
            cwd=ROOT,
            env={"PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    ]
    assert runs[0] == runs[1]
    assert len(runs[0].strip()) == 64


# --- Masks -------------------------------------------------------------------------------------------------------


@pytest.mark.contract("rows of every width, and wider than the vocabulary")
def test_rows_of_every_width(compiler: Compiler) -> None:
    """Vocabularies of 1 to 130 ids and an end, rows as wide, one word narrower and three words wider."""
    for size in range(1, 131):
        tokens: list[bytes | None] = [b"ab"[index % 2 : index % 2 + 1] * (1 + index // 2) for index in range(size - 1)]
        vocabulary = Vocabulary([*tokens, None], [size - 1])
        formatter = Compiler(vocabulary, engine=compiler._engine).compile(formats.regex("(aa)*a{0,40}")).formatter()
        expected = [index for index, data in enumerate(tokens) if set(data or b"b") == {ord("a")}] + [size - 1]
        for words in (vocabulary.words, vocabulary.words + 3):
            row = np.full(words, -1, dtype=np.int32)
            formatter.fill_bitmask(row)
            assert bitmask.allowed_ids(row) == expected, (size, words)
        narrow = np.full(vocabulary.words - 1, -1, dtype=np.int32)
        with pytest.raises(BitmaskTooNarrow) as caught:
            formatter.fill_bitmask(narrow)
        assert (caught.value.width, caught.value.needed) == (vocabulary.words - 1, vocabulary.words)


@pytest.mark.contract("`allowed_tokens` is sorted")
def test_allowed_tokens_are_sorted(compiler: Compiler) -> None:
    formatter = compiler.compile(formats.regex("(?s)(ab|.)*")).formatter()
    allowed = formatter.allowed_tokens()
    assert allowed == sorted(set(allowed))
    assert len(allowed) > 100


# --- Steps -------------------------------------------------------------------------------------------------------


@pytest.mark.contract("bytes may be accepted as well")
def test_ids_and_bytes_are_taken_by_their_type(compiler: Compiler) -> None:
    formatter = compiler.compile(formats.regex("a*")).formatter()
    formatter.accept_token(np.int64(97))  # type: ignore[arg-type]
    assert formatter.accept_tokens(np.array([97, 97])) == 2
    formatter.accept_bytes(bytearray(b"aa"))
    formatter.accept_bytes(memoryview(b"a"))
    assert formatter.text == "aaaaaa"
    assert all(type(token) is int for token in formatter.tokens)
    for wrong in (97.0, "a", None):
        with pytest.raises(InvalidArgument):
            formatter.accept_token(wrong)  # type: ignore[arg-type]
    for wrong in (3, "a", None):
        with pytest.raises(InvalidArgument):
            formatter.accept_bytes(wrong)  # type: ignore[arg-type]
    assert formatter.text == "aaaaaa"


@pytest.mark.contract("`count_valid` takes none")
def test_count_valid_is_accept_tokens_without_taking(compiler: Compiler) -> None:
    formatter = compiler.compile(formats.choice(["abc", "ab"])).formatter()
    for ids in ([], [97], [97, 98], [97, 98, END], [97, 98, END, END, 97], [97, 120], [120], [-1], [10**6]):
        before = formatter.allowed_tokens()
        counted = formatter.count_valid(iter(ids))
        assert formatter.tokens == ()
        assert formatter.allowed_tokens() == before
        assert formatter.fork().accept_tokens(ids) == counted


class Failing:
    """A state that takes two tokens and then is out of work."""

    def __init__(self, state: Any) -> None:
        self._state, self._left = state, 2

    def __getattr__(self, name: str) -> Any:
        return getattr(self._state, name)

    def accept_token(self, token_id: int) -> bool:
        if not self._left:
            raise LimitExceeded("work", 1, "a step")
        self._left -= 1
        return self._state.accept_token(token_id)


@pytest.mark.contract("`count_valid` takes none")
def test_count_valid_changes_nothing_where_a_limit_is_hit(compiler: Compiler) -> None:
    formatter = compiler.compile(formats.regex("[ab]*")).formatter()
    formatter._state.engine = Failing(formatter._state.engine)
    with pytest.raises(LimitExceeded):
        formatter.count_valid(b"abab")
    assert formatter.tokens == ()
    assert ord("a") in formatter.allowed_tokens()


@pytest.mark.contract("`forced_bytes` is nothing where the text may end")
@pytest.mark.parametrize(
    "format",
    [formats.choice(["abcd", "abxe", "ab"]), formats.regex("éa|éb|è"), formats.kbnf('start ::= "x" start | "xy";')],
)
def test_forced_bytes_are_what_every_completion_begins_with(compiler: Compiler, format) -> None:
    """Followed to the end: exactly one byte may come wherever bytes are forced, and none is where the text may end."""
    formatter = compiler.compile(format).formatter()
    for _ in range(12):
        forced = formatter.forced_bytes()
        if formatter.can_stop:
            assert forced == b""
        ahead = formatter.fork()
        for byte in forced:
            assert [token for token in ahead.allowed_tokens() if token < 256] == [byte]
            assert not ahead.can_stop
            ahead.accept_token(byte)
        following = [token for token in ahead.allowed_tokens() if token < 256]
        assert len(following) != 1 or ahead.can_stop
        following = [token for token in formatter.allowed_tokens() if token < 256]
        if not following:
            break
        formatter.accept_token(following[-1])


@pytest.mark.contract("`explain` says the text so far, what is expected, and where")
def test_explain_names_the_hole_or_the_place_in_the_schema(compiler: Compiler) -> None:
    schema = {"type": "object", "properties": {"age": {"type": "integer"}}, "required": ["age"]}
    formatter = compiler.compile(schema).formatter()
    formatter.accept_bytes(b'{"age":')
    assert "#/properties/age" in formatter.explain(ord("x"))
    assert '{"age":' in formatter.explain(ord("x"))
    b = FormatterBuilder().append("n=")
    b.append(b.integer(name="count"))
    formatter = compiler.compile(b).formatter()
    formatter.accept_bytes(b"n=")
    assert "count" in formatter.explain(ord("x"))


@pytest.mark.contract(
    "`tokens`, `bytes` and `text` are what was accepted",
    "a result has text, bytes, tokens, ended, is_complete, captures, value, missing",
)
def test_what_was_accepted(compiler: Compiler, vocabulary: Vocabulary) -> None:
    formatter = compiler.compile(formats.regex("(ab|é)+")).formatter()
    ids = [vocabulary.tokens.index(b"ab"), 0xC3, 0xA9, END]
    formatter.accept_tokens(ids)
    assert (formatter.tokens, formatter.bytes, formatter.text) == (tuple(ids), "abé".encode(), "abé")
    result = formatter.result()
    assert (result.tokens, result.bytes, result.text) == (tuple(ids), "abé".encode(), "abé")
    assert (result.ended, result.is_complete, result.missing, dict(result.captures)) == ("end", True, None, {})


@pytest.mark.contract("`must_stop` is `can_stop` and no text token")
def test_must_stop(compiler: Compiler) -> None:
    formatter = compiler.compile(formats.regex("ab?")).formatter()
    seen = [formatter.must_stop]
    for token in (ord("a"), ord("b"), END):
        formatter.accept_token(token)
        seen.append(formatter.must_stop)
    assert seen == [False, False, True, True]
    formatter = compiler.compile(formats.regex("a*")).formatter()
    formatter.accept_token(END)
    assert formatter.must_stop  # nothing but ends may follow an end


# --- Threads -----------------------------------------------------------------------------------------------------


@pytest.mark.contract("vocabularies, compilers and compiled formats may be shared")
def test_threads_share_a_compiler(compiler: Compiler) -> None:
    patterns = ["(ab)+", "[0-9]{2,4}", "é|日本", "a(b|c)*"]
    alone = {pattern: compiler.compile(formats.regex(pattern)).formatter().allowed_tokens() for pattern in patterns}
    shared = Compiler(compiler.vocabulary, engine=compiler._engine)

    def work(shift: int) -> None:
        for index in range(12):
            pattern = patterns[(index + shift) % 4]
            assert shared.compile(formats.regex(pattern)).formatter().allowed_tokens() == alone[pattern]

    in_threads(work, 4)


USES: dict[str, Callable[[Formatter], Any]] = {
    "fill_bitmask": lambda formatter: formatter.fill_bitmask(np.zeros(20, dtype=np.int32)),
    "step": lambda formatter: formatter.step(97, np.zeros(20, dtype=np.int32)),
    "allowed_tokens": Formatter.allowed_tokens,
    "accept_token": lambda formatter: formatter.accept_token(97),
    "accept_bytes": lambda formatter: formatter.accept_bytes(b"a"),
    "accept_tokens": lambda formatter: formatter.accept_tokens([97]),
    "count_valid": lambda formatter: formatter.count_valid([97]),
    "rollback": lambda formatter: formatter.rollback(0),
    "fork": Formatter.fork,
    "reset": Formatter.reset,
    "can_stop": lambda formatter: formatter.can_stop,
    "must_stop": lambda formatter: formatter.must_stop,
    "forced_bytes": Formatter.forced_bytes,
    "explain": lambda formatter: formatter.explain(97),
    "captures": lambda formatter: formatter.captures,
    "events": Formatter.events,
    "snapshot": Formatter.snapshot,
    "deltas": Formatter.deltas,
    "result": Formatter.result,
}


@pytest.mark.contract("overlapping use of a formatter is ConcurrentUse")
@pytest.mark.parametrize("name", USES)
def test_every_method_notices_overlapping_use(compiler: Compiler, name: str) -> None:
    formatter = compiler.compile(formats.regex("a*")).formatter()
    formatter._state.idle.pop()
    with pytest.raises(ConcurrentUse):
        USES[name](formatter)
    formatter._state.idle.append(None)
    USES[name](formatter)


# --- End ids -----------------------------------------------------------------------------------------------------


@pytest.mark.contract("end ids are never text, whatever their bytes")
def test_end_ids_are_never_text_whatever_their_bytes(compiler: Compiler, vocabulary: Vocabulary) -> None:
    # An end id of the vocabulary whose bytes would fit, and one that a request brings.
    spelt = Vocabulary([*TOKENS[:256], b"b"], [256])
    formatter = Compiler(spelt, engine=compiler._engine).compile(formats.regex("ab?c")).formatter()
    formatter.accept_token(ord("a"))
    assert formatter.allowed_tokens() == [ord("b"), ord("c")]
    with pytest.raises(TokenRejected):
        formatter.accept_token(256)
    formatter = compiler.compile(formats.regex("a[bd]?c")).formatter(end_ids=[ord("b")])
    formatter.accept_token(ord("a"))
    allowed = formatter.allowed_tokens()
    assert ord("b") not in allowed
    assert {ord("c"), ord("d")} <= set(allowed)
    with pytest.raises(TokenRejected):
        formatter.accept_token(ord("b"))
    stuck = compiler.compile(formats.regex("a[b]c")).formatter(end_ids=[ord("b"), vocabulary.tokens.index(b"bc")])
    stuck.accept_token(ord("a"))
    with pytest.raises(DeadEnd):
        stuck.allowed_tokens()


# --- Formats -----------------------------------------------------------------------------------------------------


@pytest.mark.contract("JSON Schema: whitespace")
def test_flexible_whitespace_is_bounded(compiler: Compiler) -> None:
    compiled = compiler.compile({"type": "array", "items": {"type": "integer"}})
    for gap, fits in [("", 1), (" ", 1), ("\n", 1), ("\n" + " " * 4, 1), ("  ", 0), ("\n" + " " * 5, 0), ("\t", 0)]:
        assert compiled.parse(f"[1,{gap}2]").is_complete == bool(fits), repr(gap)
    assert not compiled.parse("[1] ").is_complete
    assert not compiled.parse(" [1]").is_complete
    with pytest.raises(IncompleteResult):
        _ = compiled.parse("[1]\n").value


@pytest.mark.contract("reasoning first is sequence(until, json_schema)")
def test_reasoning_first(compiler: Compiler) -> None:
    format = formats.sequence(formats.until("</think>"), formats.json_schema({"type": "integer"}))
    formatter = compiler.compile(format).formatter()
    assert formatter.accept_tokens(b"Six < seven.</think>13") == 22
    formatter.accept_token(END)
    assert formatter.result().value == ("Six < seven.", 13)


# --- Adapters ----------------------------------------------------------------------------------------------------


VOCABULARIES = sorted((ROOT / "integrations").glob("*/vocabulary.py"))


@pytest.mark.contract("every adapter offers create_vocabulary(tokenizer, *, model=None, end_ids=None)")
@pytest.mark.parametrize("path", VOCABULARIES, ids=lambda path: path.parent.name)
def test_adapters_offer_create_vocabulary(path: Path) -> None:
    """Read, not imported: the inference engine need not be there."""
    body = ast.parse(path.read_text(encoding="utf-8")).body
    functions = {node.name: node for node in body if isinstance(node, ast.FunctionDef)}
    arguments = functions["create_vocabulary"].args
    assert len(arguments.args) == 1  # a tokenizer, or the engine's one object that is tokenizer and model
    assert [argument.arg for argument in arguments.kwonlyargs] == ["model", "end_ids"]
    assert all(isinstance(default, ast.Constant) and default.value is None for default in arguments.kw_defaults)
    exported = (path.parent / "__init__.py").read_text(encoding="utf-8")
    assert '"create_vocabulary"' in exported
