"""Compiled formats as bytes, and back."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from formatter_core import CompiledFormat, Compiler, FormatterBuilder, Limits, Vocabulary, formats
from formatter_core.engine.native import NativeEngine
from formatter_core.engine.protocol import GrammarEngine
from formatter_core.errors import FormatterError, InvalidArgument, InvalidFormat, LimitExceeded, TokenRejected
from formatter_core.runtime.stored import stored_program, stored_text, write_stored
from scripts.damage_formats import damage_formats

from .conftest import END, TOKENS

pytestmark = pytest.mark.usefixtures("no_error_says_anything_twice")


@dataclass
class Person:
    name: str
    age: int


def builder() -> FormatterBuilder:
    b = FormatterBuilder()
    return b.append("Name: ", b.regex("[A-Zé]*", name="name"), ", age ", b.integer(name="age"), ".")


FORMATS: dict[str, tuple[Any, str]] = {
    "builder": (builder(), "Name: Aé, age 12."),
    "schema": ({"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}, '{"a": 3}'),
    "regex": (formats.regex("(?P<x>a+)b"), "aab"),
    "until": (formats.until("</t>"), "some</t>"),
    "chat answer": (formats.chat_answer("qwen3", reasoning="off"), "Hello."),
}


def of_bytes(engine: GrammarEngine, compiled: CompiledFormat, **options: Any) -> CompiledFormat:
    return Compiler(compiled.vocabulary, engine).from_bytes(compiled.to_bytes(), **options)


def test_a_stored_format_takes_a_budget(compiler: Compiler) -> None:
    again = of_bytes(NativeEngine(), Compiler(compiler.vocabulary, engine="native").compile(FORMATS["schema"][0]))
    formatter = again.within(9).formatter()
    assert formatter.max_tokens == 9
    for byte in b'{"a":3}':
        formatter.accept_token(byte)
    assert formatter.result("end").value == {"a": 3}
    assert again.max_tokens is None


@pytest.mark.parametrize("name", FORMATS)
def test_a_format_comes_back_from_its_bytes(compiler: Compiler, engine: GrammarEngine, name: str) -> None:
    format, text = FORMATS[name]
    compiled = compiler.compile(format)
    again = of_bytes(engine, compiled)
    ours, theirs = compiled.formatter(), again.formatter()
    for byte in text.encode():
        assert ours.allowed_tokens() == theirs.allowed_tokens()
        ours.accept_token(byte)
        theirs.accept_token(byte)
        assert ours.events() == theirs.events()
    assert ours.result("end").captures == theirs.result("end").captures
    assert compiled.parse(text).value == again.parse(text).value
    assert (again.fingerprint, again.min_bytes) == (compiled.fingerprint, compiled.min_bytes)
    assert again.to_bytes() == compiled.to_bytes()
    assert again.to_json() == compiled.to_json()
    assert compiler.compile(again) is compiled


def test_a_type_comes_back_only_from_the_caller(compiler: Compiler, engine: GrammarEngine) -> None:
    compiled = compiler.compile(Person)
    text = '{"name": "A", "age": 1}'
    assert of_bytes(engine, compiled, type=Person).parse(text).value == Person("A", 1)
    assert of_bytes(engine, compiled, type=Any).parse(text).value == {"name": "A", "age": 1}
    with pytest.raises(InvalidFormat, match="only the caller can give"):
        of_bytes(engine, compiled)
    with pytest.raises(InvalidFormat, match="another schema"):
        of_bytes(engine, compiled, type=dict[str, int])


def test_bytes_belong_to_a_vocabulary(compiler: Compiler, engine: GrammarEngine) -> None:
    data = compiler.compile(formats.regex("a")).to_bytes()
    other = Compiler(Vocabulary([*TOKENS[:255], b"ab", *TOKENS[256:]], [END]), engine)
    with pytest.raises(InvalidFormat, match="another vocabulary"):
        other.from_bytes(data)


def test_what_was_never_the_bytes_of_a_format(compiler: Compiler) -> None:
    data = compiler.compile(formats.regex("a")).to_bytes()
    later = bytearray(data)
    later[8] += 1
    for foreign, reason in (
        (b"", "not those"),
        (b"PK\x03\x04", "not those"),
        (bytes(later), "version 5, and this release reads 4; compile the format again"),
        (data[:30], "damaged"),
    ):
        with pytest.raises(InvalidFormat, match=reason):
            compiler.from_bytes(foreign)
    with pytest.raises(InvalidArgument):
        compiler.from_bytes("text")  # type: ignore[call-overload]


def test_limits_hold_for_stored_formats(compiler: Compiler, engine: GrammarEngine) -> None:
    data = compiler.compile(formats.regex("a(bc|d[e-z]){2,7}")).to_bytes()
    with pytest.raises(LimitExceeded):
        Compiler(compiler.vocabulary, engine, limits=Limits(nodes=3)).from_bytes(data)


def test_a_grammar_that_is_not_that_of_the_format_is_not_parsed_with(compiler: Compiler) -> None:
    if compiler.engine != NativeEngine.name:
        pytest.skip("this engine compiles the format anew")
    one, other = (compiler.compile(formats.regex(text)).to_bytes() for text in ("a", "b"))
    vocabulary = bytes.fromhex(compiler.vocabulary.fingerprint)
    mixed = compiler.from_bytes(write_stored(vocabulary, stored_program(one), stored_text(other)))
    assert mixed.formatter().allowed_tokens() == [ord("a")]
    with pytest.raises(InvalidFormat, match="not the one of this release"):
        mixed.parse("a")


def test_errors_of_a_format_whose_own_text_is_damaged_can_be_read(compiler: Compiler) -> None:
    if compiler.engine != NativeEngine.name:
        pytest.skip("this engine compiles the format anew")
    vocabulary = bytes.fromhex(compiler.vocabulary.fingerprint)
    program = stored_program(compiler.compile(formats.regex("a")).to_bytes())
    formatter = compiler.from_bytes(write_stored(vocabulary, program, b"{")).formatter()
    with pytest.raises(TokenRejected, match=r"token 98.* describe no format; compile it again"):
        formatter.step(ord("b"), np.zeros(compiler.vocabulary.words, dtype=np.int32))


def test_a_format_of_ones_own_is_refused_when_it_is_written(compiler: Compiler) -> None:
    class Own:
        def to_grammar(self, limits: Limits) -> Any:
            return formats.regex("a").to_grammar(limits)

        def to_json(self) -> dict[str, Any]:
            return {"type": "own"}

        def key(self) -> str:
            return "own"

    with pytest.raises(InvalidFormat, match="whose `type` is one of"):
        compiler.compile(Own()).to_bytes()


def test_damaged_bytes_are_clear_errors() -> None:
    report = damage_formats(400, fitting=False)
    assert not report.others
    assert report.errors == {"InvalidFormat": 400}


def test_bytes_made_to_do_harm_are_errors_or_work() -> None:
    report = damage_formats(400, fitting=True)
    assert not report.others, report.others[0]
    assert sum(report.errors.values()) > 200
    assert report.inputs == report.formats + sum(report.errors.values())


@pytest.mark.parametrize("name", ["builder", "schema"])
def test_numbers_of_the_header_that_cannot_be_are_errors_or_work(compiler: Compiler, name: str) -> None:
    data = compiler.compile(FORMATS[name][0]).to_bytes()
    for place in range(42, 66, 4):
        for number in (0, 1, 65, 66, 67, 68, len(data) - 5, len(data) - 4, len(data), 2**31, 2**32 - 1):
            made = data[:place] + number.to_bytes(4, "little") + data[place + 4 : -4]
            made += (int.from_bytes(made, "little") % (2**32 - 5)).to_bytes(4, "little")
            with contextlib.suppress(FormatterError):
                again = compiler.from_bytes(made)
                again.formatter().allowed_tokens()
                again.parse("a")


def test_the_check_sum_is_of_all_before_it(compiler: Compiler) -> None:
    data = compiler.compile(formats.regex("a")).to_bytes()
    assert int.from_bytes(data[-4:], "little") == int.from_bytes(data[:-4], "little") % (2**32 - 5)
