"""The type of what a format's value is, from a Python type to `Result.value`; read by mypy, never run."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from typing_extensions import assert_type

from formatter_core import (
    CompiledFormat,
    Compiler,
    Formatter,
    FormatterBuilder,
    Partial,
    Result,
    Vocabulary,
    formats,
    parse,
)
from formatter_core.generation import Generated, LogitsModel, completion, continuation
from formatter_transformers import create_logits_processor


@dataclass
class Person:
    name: str


def a_type(compiler: Compiler) -> None:
    compiled = compiler.compile(Person)
    assert_type(compiled, CompiledFormat[Person])
    assert_type(compiled.parse("{}"), Result[Person])
    assert_type(parse(Person, "{}").value, Person)
    assert_type(parse(["yes", "no"], "yes").value, Any)
    assert_type(compiled.parse("{}").value, Person)
    assert_type(compiled.formatter(), Formatter[Person])
    assert_type(compiled.formatter().fork().result("end").value, Person)
    assert_type(compiled.formatter().snapshot(), Person | Partial[Person] | None)
    assert_type(compiler.compile(list[Person]).formatter().snapshot(), list[Person | Partial[Person]] | None)
    assert_type(compiled.formatter().snapshot(plain=True), Any)
    assert_type(compiler.compile(list[int]).parse("[]").value, list[int])
    assert_type(compiler.compile(dict[str, Person]).parse("{}").value["a"].name, str)


def what_no_type_describes(compiler: Compiler) -> None:
    assert_type(compiler.compile({"type": "integer"}), CompiledFormat[Any])
    assert_type(compiler.compile(formats.regex("a")), CompiledFormat[Any])
    assert_type(compiler.compile(FormatterBuilder().append("a")), CompiledFormat[Any])


def a_wider_type(compiled: CompiledFormat[int]) -> CompiledFormat[float]:
    return compiled


def without_a_parameter(compiled: CompiledFormat, result: Result, formatter: Formatter) -> None:
    assert_type(compiled.parse("").value, Any)
    assert_type(result.value, Any)
    assert_type(formatter.result().value, Any)


def loops(model: LogitsModel, compiled: CompiledFormat[Person]) -> None:
    write = completion(model, Person)
    assert_type(write("Ivo"), Generated[Person])
    assert_type(write("Ivo").value.name, str)
    assert_type([each.value for each in write(["Ivo", "Ann"], seed=1)], list[Person])
    assert_type(completion(model, compiled)("Ivo").value, Person)
    assert_type(completion(model, {"type": "null"})("Ivo").value, Any)
    assert_type(continuation(model)("Ivo").value, str)


def logits_processor(tokenizer: Any, compiled: CompiledFormat[Person], output: Any) -> None:
    assert_type(create_logits_processor(tokenizer, Person).result(output).value, Person)
    assert_type(create_logits_processor(tokenizer, compiled, model=None).results(output), list[Result[Person] | None])
    assert_type(create_logits_processor(tokenizer, {"type": "null"}).result(output).value, Any)
    assert_type(create_logits_processor(tokenizer, formats=[Person, None]).results(output), list[Result | None])


def options_are_literals(vocabulary: Vocabulary, compiler: Compiler) -> None:
    Compiler(vocabulary, engine="fast")  # type: ignore[arg-type]
    formats.json_schema({}, key_order="random")  # type: ignore[arg-type]
    formats.json_schema({}, whitespace="none")  # type: ignore[arg-type]
    formats.json_schema({}, string_formats="check")  # type: ignore[arg-type]
    formats.json_schema({}, on_unsupported="ignore")  # type: ignore[arg-type]
    compiler.compile(Person).formatter().result("aborted")  # type: ignore[arg-type]
