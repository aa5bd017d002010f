"""Formats and compilers report the memory that they take."""

from __future__ import annotations

import gc
import random
import re
import threading
from pathlib import Path
from typing import Any

import pytest

from formatter_core import CompiledFormat, Compiler, Formatter, FormatterBuilder, Limits, Vocabulary, bitmask, formats
from formatter_core.testing.oracle import OracleEngine

VOCABULARY = Vocabulary.of_bytes()
LIMITS_PAGE = Path(__file__).resolve().parents[2] / "docs" / "limits.md"
OBJECT = {"type": "object", "properties": {"name": {"type": "string"}, "age": {"type": "integer"}}}
TEXT = b'{"name":"Ann","age":27}'


def compiled(form: Any = OBJECT) -> CompiledFormat[Any]:
    return Compiler(VOCABULARY, engine="native", cache_bytes=0).compile(form)


def walked(form: CompiledFormat[Any], text: bytes = TEXT, max_tokens: int | None = None) -> Formatter[Any]:
    formatter, row = form.formatter(max_tokens=max_tokens), bitmask.allocate(1, len(VOCABULARY))[0]
    formatter.fill_bitmask(row)
    for byte in text:
        formatter.step(byte, row)
    return formatter


def with_hole() -> CompiledFormat[Any]:
    built = FormatterBuilder()
    built.append("Name: ", built.regex("[A-Z][a-z]*", name="name"), ".")
    return compiled(built)


def test_the_page_has_all_kinds() -> None:
    """The tables of the page and the calls name the same kinds."""
    compiler = Compiler(VOCABULARY, engine="native")
    walked(compiler.compile(OBJECT))
    page = LIMITS_PAGE.read_text(encoding="utf-8").partition("## Memory")[2]
    named = set(re.findall(r"^\| `([a-z ]+)` \|", page, re.MULTILINE))
    assert named == set(compiler.memory()) | set(compiled().memory())


@pytest.mark.parametrize(
    ("kind", "form", "use"),
    [
        ("masks", compiled, walked),
        ("states", compiled, walked),
        ("sequences", compiled, walked),
        ("budgets", compiled, lambda form: walked(form, max_tokens=30)),
        ("captures", with_hole, lambda form: form.parse("Name: Ann.").value),
        ("captures", with_hole, lambda form: walked(form, b"Name: A").events()),
        ("moves", lambda: compiled(formats.choice(["ab", "b" * 300])), lambda form: walked(form, b"b" * 299)),
        (
            "remembered values",
            lambda: compiled({"type": "array", "items": {"type": "string"}, "uniqueItems": True}),
            lambda form: walked(form, b'["one","two",'),
        ),
    ],
)
def test_each_kind_grows_with_its_use(kind: str, form: Any, use: Any) -> None:
    one = form()
    before = one.memory()[kind]
    used = use(one)
    assert one.memory()[kind] > before, used


def test_histories_go_with_their_sequences() -> None:
    one = compiled()
    before = one.memory()["sequences"]
    formatter = walked(one)
    alone = one.memory()["sequences"] - before
    forks = [formatter.fork() for _ in range(8)]
    assert one.memory()["sequences"] - before > 4 * alone
    formatter.rollback(20)
    del formatter, forks
    assert one.memory()["sequences"] == before


@pytest.mark.parametrize("count", [300, 3000])
def test_a_long_history_is_counted(count: int) -> None:
    one = compiled(formats.regex("(a|b)*"))
    formatter = walked(one, b"ab" * (count // 2))
    assert 8 * count <= one.memory()["sequences"] < 8 * count + 20_000, formatter


def test_a_compiler_sums_what_it_keeps() -> None:
    compiler = Compiler(VOCABULARY, engine="native")
    empty = compiler.memory()
    forms = [compiler.compile({**OBJECT, "required": [name]}) for name in ("name", "age")]
    for form in forms:
        walked(form)
    full = compiler.memory()
    for kind in ("states", "masks", "network"):
        assert full[kind] - empty.get(kind, 0) == sum(form.memory()[kind] for form in forms)


def test_what_is_forgotten_is_gone() -> None:
    vocabulary = Vocabulary(VOCABULARY.tokens, VOCABULARY.end_ids)
    compiler = Compiler(vocabulary, engine="native")
    start = compiler.compile({"type": "string"})
    compiler.forget()
    before = compiler.memory()
    texts = [f"{number * 7919**5 % 10**16}" for number in range(1, 2000)]
    built = FormatterBuilder()
    built.append("It is ", built.json({"enum": texts}), ".")
    form = compiler.compile(built)
    form.formatter().allowed_tokens()
    grown = compiler.memory()
    assert grown["automata"] > before["automata"] + 500_000
    assert grown["schemas"] > before["schemas"]
    compiler.forget()
    assert compiler.memory()["automata"] > before["automata"] + 500_000, "the format still has them"
    assert form.parse(f'It is "{texts[7]}".').is_complete
    del form
    gc.collect()
    after = compiler.memory()
    assert after["automata"] <= 1.1 * before["automata"]
    assert after.get("states", 0) == before.get("states", 0)
    assert start.parse('"goes on"').is_complete


def test_a_compiler_drops_formats_that_have_grown() -> None:
    """A compiler's bound counts the states and masks that a format keeps later, not only its size after the compile."""
    compiler = Compiler(VOCABULARY, engine="native", cache_bytes=1 << 20, limits=Limits(cache_bytes=4 << 20))
    schema = {"type": "array", "items": {"type": "integer"}, "uniqueItems": True}
    form = compiler.compile(schema)
    for start in range(0, 3000, 10):
        walked(form, f"[{','.join(str(number) for number in range(start, start + 10))}]".encode())
    assert sum(form.memory().values()) > 1 << 20
    for number in range(3):
        compiler.compile({"type": "string", "maxLength": number})
    assert "remembered values" not in compiler.memory() or compiler.memory()["remembered values"] < 10_000
    assert compiler.compile(schema) is not form


def test_other_engines_say_what_is_not_theirs() -> None:
    compiler = Compiler(VOCABULARY, engine=OracleEngine())
    form = compiler.compile(formats.regex("a"))
    assert set(form.memory()) == {"program", "captures"}
    assert set(compiler.memory()) == {"captures", "schemas", "patterns"}
    compiler.forget()
    assert form.parse("a").is_complete


def test_it_is_told_while_threads_work() -> None:
    """Any thread may ask at any time, and nothing is below zero then."""
    compiler = Compiler(VOCABULARY, engine="native")
    form = compiler.compile({"type": "array", "items": {"type": "integer"}, "uniqueItems": True})
    over = threading.Event()

    def work(number: int) -> None:
        chooser = random.Random(number)
        while not over.is_set():
            walked(form, f"[{','.join(map(str, chooser.sample(range(10**6), 8)))}]".encode())

    threads = [threading.Thread(target=work, args=(number,)) for number in range(3)]
    for thread in threads:
        thread.start()
    try:
        found = [*(compiler.memory() for _ in range(200)), *(form.memory() for _ in range(200))]
    finally:
        over.set()
        for thread in threads:
            thread.join()
    assert all(0 <= count < 1 << 32 for one in found for count in one.values())
