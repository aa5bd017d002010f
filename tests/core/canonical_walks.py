"""Random walks through schemas in canonical spelling, judged by a recogniser that knows nothing of the lowering."""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from formatter_core import CompiledFormat, Compiler, Vocabulary, formats
from formatter_core.errors import FormatterError, UnsatisfiableSchema

from .canonical_json import digits_of, first_fault, places_of

__all__ = ["Walks", "walk_schemas"]

VOCABULARY = Vocabulary.of_bytes()
END = 256
#: A walk that is longer ends by the shortest way.
TOKENS = 400
#: Bytes that a walk draws from, one class at a time, so that rare ones are tried as often as letters.
CLASSES = (b'"', b"\\", b" \n\t\r", b"0123456789", b".eE+-", b",:", b"]}", b"[{", b"u/bfnrt", bytes(range(32)))


@dataclass
class Walks:
    """The outcome of the walks.

    Attributes:
        schemas: those that were walked through.
        walks: how many texts were written; `bytes`: their sizes together.
        refused: schemas that do not compile, by error.
        faults: the schema's name, what is wrong, and the text.
    """

    schemas: int = 0
    walks: int = 0
    bytes: int = 0
    refused: Counter[str] = field(default_factory=Counter)
    faults: list[dict[str, Any]] = field(default_factory=list)


def walk_schemas(cases: Iterable[tuple[str, Any]], schemas: int, each: int, seed: int) -> Walks:
    """Write `each` texts for every one of the first `schemas` that compile, and judge them."""
    found = Walks()
    compiler = Compiler(VOCABULARY, engine="native")
    for name, schema in cases:
        if found.schemas == schemas:
            break
        try:
            canonical = compiler.compile(formats.json_schema(schema, spelling="canonical"))
            wide = compiler.compile(formats.json_schema(schema, spelling="any"))
            most = max(TOKENS, 2 * (canonical.min_tokens or 0))
        except FormatterError as error:
            if not isinstance(error, UnsatisfiableSchema):
                found.refused[type(error).__name__] += 1
            continue
        found.schemas += 1
        for number in range(each):
            rng = random.Random(f"{seed} {name} {number}")
            text = write(canonical, rng, most)
            found.walks += 1
            found.bytes += len(text)
            why = judge(schema, canonical, wide, text)
            if why is not None:
                found.faults.append({"schema": name, "why": why, "text": text})
    return found


def write(compiled: CompiledFormat, rng: random.Random, most: int) -> str:
    """A text of the format, within a budget of tokens, that are bytes."""
    formatter = compiled.formatter(max_tokens=most)
    preferred = rng.choice((b'"]}', b"\\", b" \n", b"0123456789.eE-", bytes(range(0x80, 0x100)), b""))
    while not formatter.is_finished:
        allowed = formatter.allowed_tokens()
        if END in allowed and (len(allowed) == 1 or rng.random() < 0.3):
            formatter.accept_token(END)
            continue
        text = [token for token in allowed if token != END]
        classes = [mine for one in CLASSES if (mine := [token for token in text if token in one])]
        chosen = rng.choice([text, *classes])
        mine = [token for token in text if token in preferred]
        formatter.accept_token(rng.choice(mine if mine and rng.random() < 0.4 else chosen))
    return formatter.text


def judge(schema: Any, canonical: CompiledFormat, wide: CompiledFormat, text: str) -> str | None:
    """Return the fault of a text of the canonical format, or None."""
    value = json.loads(text)
    fault = first_fault(text, places_of(schema, value), digits_of(schema))
    if fault is not None:
        return f"at byte {fault.byte}: {fault.why}"
    read = canonical.parse(text)
    if not read.is_complete:
        return f"the format does not read what it wrote: {read.missing}"
    in_any = wide.parse(text)
    if not in_any.is_complete:
        return f"not in spelling='any': {in_any.missing}"
    if repr(read.value) != repr(in_any.value):
        return f"reads {read.value!r:.200}, but {in_any.value!r:.200} in spelling='any'"
    return None
