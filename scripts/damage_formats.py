"""Read damaged bytes of compiled formats: each is a clear error or, if its check sum was made to fit, may be a format.

`compare_random.py damaged` reads many.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field

from formatter_core.errors import EngineFailed, FormatterError
from formatter_core.formats import json_schema, kbnf, regex, sequence, token
from formatter_core.grammar import Program
from formatter_core.limits import Limits
from formatter_core.runtime.compiler import Compiler
from formatter_core.runtime.stored import stored_program, stored_text, write_stored
from formatter_core.vocabulary import Vocabulary

_MOST_EDITS = 4
_STEPS = 6


@dataclass
class DamageReport:
    """Count what became of damaged bytes: errors by class, formats that were read and used, and other exceptions."""

    inputs: int = 0
    errors: dict[str, int] = field(default_factory=dict)
    formats: int = 0
    others: list[str] = field(default_factory=list)


def damage_formats(inputs: int, seed: int = 0, *, fitting: bool) -> DamageReport:
    """Read many damaged inputs.

    Args:
        inputs: the number of inputs.
        seed: chooses what is damaged, and how.
        fitting: damage the parts, and make sizes and check sum anew, so that the parts are read.
    """
    rng = random.Random(seed)
    vocabulary = Vocabulary([*(bytes([byte]) for byte in range(256)), None, None], [256])
    compiler = Compiler(vocabulary, limits=Limits(nodes=20_000, states=2_000, work=200_000))
    schema = {"type": "object", "properties": {"a": {"type": "integer", "minimum": 3}, "b": {"enum": ["x", 1, None]}}}
    parts = [json_schema(schema), regex("(?P<a>[a-z]{2,5})|é+"), sequence("a", token(257), regex("[0-9]*"))]
    sound = [compiler.compile(part).to_bytes() for part in (*parts, kbnf('start ::= "a" start "b" | x:("c");'))]
    report = DamageReport()
    for _ in range(inputs):
        data = rng.choice(sound)
        damaged = _damaged_parts(data, vocabulary, rng) if fitting else _damaged(data, rng)
        if damaged == data:
            damaged += b"\0"
        report.inputs += 1
        try:
            _use(compiler, damaged, rng)
            report.formats += 1
        except EngineFailed as error:
            report.others.append(f"{damaged!r}: {error!r}")
        except FormatterError as error:
            name = type(error).__name__
            report.errors[name] = report.errors.get(name, 0) + 1
        except Exception as error:  # noqa: BLE001 - the fault that is looked for
            report.others.append(f"{damaged!r}: {error!r}")
    return report


def _use(compiler: Compiler, data: bytes, rng: random.Random) -> None:
    formatter = compiler.from_bytes(data).formatter()
    for _ in range(_STEPS):
        allowed = [token_id for token_id in formatter.allowed_tokens() if token_id != 256]
        if not allowed:
            break
        formatter.accept_token(rng.choice(allowed))
    _ = formatter.result("length").missing


def _damaged_parts(data: bytes, vocabulary: Vocabulary, rng: random.Random) -> bytes:
    program, text = stored_program(data), stored_text(data)
    if rng.random() < 0.8:
        program = Program(_damaged(program.data, rng), program.nodes, program.tokens, program.names, program.regions)
    if rng.random() < 0.1:
        tokens, nodes = (rng.randrange(2**32),), rng.randrange(2**32)
        program = Program(program.data, nodes, tokens, program.names, program.regions)
    if rng.random() < 0.3:
        text = _damaged(text, rng)
    return write_stored(bytes.fromhex(vocabulary.fingerprint), program, text)


def _damaged(data: bytes, rng: random.Random) -> bytes:
    """Change, drop, double or insert a few bytes, or cut off the end."""
    made = bytearray(data)
    for _ in range(rng.randint(1, _MOST_EDITS)):
        place = rng.randrange(len(made) + 1)
        kind = rng.randrange(5)
        if kind == 0:
            made[place : place + 1] = bytes([rng.randrange(256)])
        elif kind == 1:
            del made[place : place + rng.randint(1, 8)]
        elif kind == 2:
            made[place:place] = made[place : place + rng.randint(1, 8)]
        elif kind == 3:
            made[place:place] = rng.randbytes(rng.randint(1, 4))
        elif rng.random() < 0.2:
            del made[place:]
    return bytes(made)
