"""Random Python types with texts, and what pydantic and the written order of unions say of them.

The judge knows no schema: outside of unions a value is what `TypeAdapter.validate_json` makes of its text. Of a union,
the first alternative that has the text on its own (`parse`, with only that type) makes the value.
"""

from __future__ import annotations

import dataclasses
import datetime
import enum
import ipaddress
import json
import random
import typing
import uuid
from functools import lru_cache
from typing import Annotated, Any, Literal, NamedTuple, TypedDict, Union

import pydantic

from formatter_core import Compiler, Vocabulary
from formatter_core.errors import InvalidFormat

COMPILER = Compiler(Vocabulary.of_bytes())
TEXTS_OF_A_TYPE = 24


class Hue(enum.Enum):
    RED = "red"
    TWO = 2


class Rank(enum.IntEnum):
    LOW = 1
    HIGH = 86400


class Model(pydantic.BaseModel):
    v: int
    tag: str = "m"


@dataclasses.dataclass(frozen=True)
class Record:
    v: str
    tag: Literal["r"] = "r"


SCALARS: list[Any] = [
    int, str, bool, float, type(None), Hue, Rank, Literal["5", 5, True], Literal["red"], pydantic.PositiveInt,
    pydantic.NegativeFloat, Annotated[str, pydantic.Field(max_length=2)], Annotated[int, pydantic.Field(multiple_of=3)],
    datetime.datetime, datetime.date, datetime.time, datetime.timedelta, pydantic.AwareDatetime, pydantic.NaiveDatetime,
    uuid.UUID, ipaddress.IPv4Address, pydantic.Base64Bytes, bytes, Model, Record,
]  # fmt: skip
KEYS: list[Any] = [str, int, bool, Rank, Literal["a", "b"], datetime.date, pydantic.PositiveInt]
TEXTS = [
    "5", "-5", "a", "red", "true", "2", "10", "0.5", "", "r", "1.2.3.4", "2026-01-02", "2026-01-02T03:04:05",
    "2026-01-02T03:04:05Z", "03:04:05", "03:04:05+01:00", "P1D", "YQ==", "12345678-1234-5678-1234-567812345678",
]  # fmt: skip
NUMBERS = ["0", "1", "2", "5", "-5", "3", "3.0", "0.5", "-0.5", "86400", "1e2", "1.5e1", "20"]


class _Number(float):
    """A float that keeps its text."""

    def __new__(cls, text: str) -> _Number:
        made = super().__new__(cls, text)
        made.text = text
        return made

    text: str


def written(value: Any) -> str:
    """JSON text with numbers as they were."""
    if isinstance(value, list):
        return "[" + ",".join(map(written, value)) + "]"
    if isinstance(value, dict):
        return "{" + ",".join(f"{json.dumps(key)}:{written(one)}" for key, one in value.items()) + "}"
    return value.text if isinstance(value, _Number) else json.dumps(value)


def random_type(rng: random.Random, depth: int) -> Any:
    """A type with at most so many levels."""
    if not depth or rng.random() < 0.35:
        return rng.choice(SCALARS)

    def inner() -> Any:
        return random_type(rng, depth - 1)

    kind = rng.randrange(9)
    if kind < 4:
        return Union[tuple(inner() for _ in range(rng.randint(2, 4)))]  # noqa: UP007
    if kind == 4:
        return list[inner()]
    if kind == 5:
        return tuple[inner(), inner()] if rng.random() < 0.5 else tuple[inner(), ...]
    if kind == 6:
        return dict[rng.choice(KEYS), inner()]
    fields = {name: inner() for name in ("v", "w")}
    if kind == 7:
        return TypedDict("Movie", fields)  # type: ignore[operator]
    if rng.random() < 0.5:
        return NamedTuple("Pair", list(fields.items()))  # type: ignore[misc]
    return dataclasses.make_dataclass("Point", fields.items())


def random_text(tp: Any, rng: random.Random) -> str:
    """A text that is probably of a type, and often of another alternative of its unions."""
    origin, arguments = typing.get_origin(tp), typing.get_args(tp)
    if origin is Union:
        return random_text(rng.choice(arguments), rng)
    if origin is list or (origin is tuple and arguments[-1] is ...):
        return "[" + ",".join(random_text(arguments[0], rng) for _ in range(rng.randrange(3))) + "]"
    if origin is tuple:
        return "[" + ",".join(random_text(argument, rng) for argument in arguments) + "]"
    if origin is dict:
        keys = rng.sample(["a", "5", "1", "true", "2026-01-02"], rng.randrange(3))
        return "{" + ",".join(f'"{key}":{random_text(arguments[1], rng)}' for key in keys) + "}"
    fields = _fields(tp)
    if fields:
        return "{" + ",".join(f'"{name}":{random_text(field, rng)}' for name, field in fields.items()) + "}"
    if tp in (Model, Record):
        return rng.choice(['{"v":5}', '{"v":"5"}', '{"v":"5","tag":"r"}', '{"v":5,"tag":"m"}', '{"tag":"m","v":5}'])
    if tp in (int, float, pydantic.PositiveInt, pydantic.NegativeFloat):
        return rng.choice(NUMBERS)
    return rng.choice([*map(json.dumps, TEXTS), *NUMBERS, "true", "null"])


def expected(tp: Any, value: Any) -> Any:
    """Return a JSON value as an instance of a type."""
    if _is_pydantics(tp):
        return pydantic.TypeAdapter(tp).validate_json(written(value))
    origin, arguments = typing.get_origin(tp), typing.get_args(tp)
    if origin is Union:
        return expected(next(argument for argument in arguments if has(argument, written(value))), value)
    if origin is list:
        return [expected(arguments[0], one) for one in value]
    if origin is tuple:
        kinds = [arguments[0]] * len(value) if arguments[-1] is ... else arguments
        return tuple(expected(kind, one) for kind, one in zip(kinds, value, strict=True))
    if origin is dict:
        return {expected_key(arguments[0], key): expected(arguments[1], one) for key, one in value.items()}
    made = {name: expected(_fields(tp)[name], one) for name, one in value.items()}
    return made if typing.is_typeddict(tp) else tp(**made)


def expected_key(tp: Any, key: str) -> Any:
    """Return a key as pydantic reads it."""
    return next(iter(pydantic.TypeAdapter(dict[tp, bool]).validate_json(json.dumps({key: True}))))


def has(tp: Any, text: str) -> bool:
    """Tell whether the format of a type alone accepts a text."""
    return _compiled(tp).parse(text).is_complete


@lru_cache(maxsize=512)
def _compiled(tp: Any) -> Any:
    return COMPILER.compile(tp)


def _fields(tp: Any) -> dict[str, Any]:
    if tp in (Model, Record) or not isinstance(tp, type) or typing.get_origin(tp) is not None:
        return {}
    if dataclasses.is_dataclass(tp):
        return {field.name: field.type for field in dataclasses.fields(tp)}
    if typing.is_typeddict(tp) or hasattr(tp, "_fields"):
        return dict(tp.__annotations__)
    return {}


def _is_pydantics(tp: Any) -> bool:
    """Tell whether pydantic reads a type as we do: it has no union, no named tuple and no `TypedDict`."""
    if typing.get_origin(tp) is Literal:
        return True
    if typing.get_origin(tp) is Union or typing.is_typeddict(tp) or hasattr(tp, "_fields"):
        return False
    parts = typing.get_args(tp)[:1] if typing.get_origin(tp) is Annotated else typing.get_args(tp)
    return all(map(_is_pydantics, [*parts, *_fields(tp).values()]))


def differences(types: int, seed: int) -> tuple[int, list[str]]:
    """Judge texts of random types; return how many there were, and the values that were not as expected."""
    rng, judged, wrong = random.Random(seed), 0, []
    for _ in range(types):
        tp = random_type(rng, 3)
        try:
            compiled = _compiled(tp)
        except InvalidFormat:  # keys or items that no text gives
            continue
        for text in {random_text(tp, rng) for _ in range(TEXTS_OF_A_TYPE)}:
            result = compiled.parse(text)
            if not result.is_complete:
                continue
            judged += 1
            made, other = result.value, expected(tp, json.loads(text, parse_float=_Number))
            if repr(made) != repr(other):
                wrong.append(f"{tp}: {text} gives {made!r}, not {other!r}")
    return judged, wrong
