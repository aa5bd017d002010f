"""Documents sampled from the masks of Python types, and what becomes of their values."""

from __future__ import annotations

import collections
import dataclasses
import datetime
import decimal
import enum
import importlib
import ipaddress
import pathlib
import random
import typing
import uuid
import warnings
from typing import Annotated, Any, Literal, NamedTuple, Optional

import pydantic

from formatter_core import Compiler, Vocabulary
from formatter_core.errors import FormatterError, InvalidValue, LimitExceeded
from formatter_core.runtime.compiled import CompiledFormat

END = 256
VOCABULARY = Vocabulary.of_bytes()

#: Why a complete document of a type may have no value; the docs list these cases in the same words.
FILES = "files and directories that must exist"
CLOCKS = "dates in the past or in the future"
CARDS = "check digits"
VALIDATORS = "your own validators"
JSON_TEXT = "JSON inside a string"
SETS = "sets that need several distinct items"
DATES = "bounds of dates, times and durations"
FLOATS = "numbers too large for a float"
DEPTH = "values nested deeper than Python's stack"
LISTED = {
    "FilePath": FILES,
    "DirectoryPath": FILES,
    "SocketPath": FILES,
    "NewPath": FILES,
    "PastDate": CLOCKS,
    "FutureDate": CLOCKS,
    "PastDatetime": CLOCKS,
    "FutureDatetime": CLOCKS,
    "PaymentCardNumber": CARDS,
    "Json": JSON_TEXT,
    "Json[int]": JSON_TEXT,
    "set of two": SETS,
    "condate": DATES,
    "field_validator": VALIDATORS,
    "AfterValidator": VALIDATORS,
    "float": FLOATS,
    "StrictFloat": FLOATS,
    "OnErrorOmit": FLOATS,
    "Decimal": FLOATS,
    "Place": FLOATS,
}
#: Types that are refused when they are compiled.
REFUSED = {"ImportString"}


class Hue(enum.Enum):
    RED = "red"
    BLUE = 2


class Row(NamedTuple):
    left: str
    right: int


class Movie(pydantic.BaseModel):
    title: Annotated[str, pydantic.StringConstraints(strip_whitespace=True, min_length=2, max_length=9)]
    year: Annotated[int, pydantic.Field(ge=1890)] = 1999
    tags: set[int] = set()
    hue: Hue | None = None


class Open(pydantic.BaseModel, extra="allow"):
    name: str


class Checked(pydantic.BaseModel):
    x: int

    @pydantic.field_validator("x")
    @classmethod
    def even(cls, value: int) -> int:
        if value % 2:
            raise KeyError("odd")
        return value


@pydantic.dataclasses.dataclass
class Place:
    name: str
    where: tuple[float, float] | None = None


def short(text: str) -> str:
    if len(text) > 3:
        raise ValueError("too long")
    return text


def _written() -> dict[str, Any]:
    """Types with arguments, which no list of names can hold, and those of the standard library that pydantic takes."""
    p, field = pydantic, pydantic.Field
    plain = [
        decimal.Decimal,
        datetime.date,
        datetime.datetime,
        datetime.time,
        datetime.timedelta,
        uuid.UUID,
        pathlib.Path,
        ipaddress.IPv4Address,
        ipaddress.IPv4Interface,
        ipaddress.IPv4Network,
        ipaddress.IPv6Address,
        ipaddress.IPv6Interface,
        ipaddress.IPv6Network,
        complex,
        bytes,
        float,
        typing.Pattern,
        Hue,
        Row,
        Movie,
        Open,
        Place,
    ]
    return {
        **{getattr(tp, "__name__", str(tp)): tp for tp in plain},
        "conint": p.conint(gt=3, le=900, multiple_of=7),
        "confloat": p.confloat(ge=-1, lt=2.5),
        "constr": p.constr(strip_whitespace=True, min_length=1, to_upper=True),
        "constr with a pattern": p.constr(pattern=r"^[a-z]+-\d{2,3}$"),
        "conbytes": p.conbytes(min_length=1, max_length=3),
        "condecimal": p.condecimal(gt=decimal.Decimal("0.1"), max_digits=5, decimal_places=2),
        "condecimal of digits": p.condecimal(max_digits=4),
        "condecimal of places": p.condecimal(decimal_places=2),
        "condate": p.condate(gt=datetime.date(2020, 1, 1)),
        "conlist": p.conlist(int, min_length=1, max_length=3),
        "conset": p.conset(int, min_length=1, max_length=3),
        "set of two": Annotated[set[Literal[1, 2, 3] | bool], field(min_length=2)],
        "set of two of an enum": Annotated[set[Literal["a", "b", "c"]], field(min_length=2)],
        "frozenset": frozenset[Annotated[str, field(max_length=2)]],
        "dict of int": Annotated[dict[int, bool], field(min_length=1)],
        "dict of UUID": Annotated[dict[uuid.UUID, bool], field(max_length=2)],
        "dict of Literal": Annotated[dict[Literal["a", "b"], int], field(min_length=1)],
        "deque": Annotated[collections.deque[int], field()],
        "OrderedDict": Annotated[collections.OrderedDict[str, int], field()],
        "defaultdict": Annotated[collections.defaultdict[str, int], field()],
        "Counter": Annotated[typing.Counter[str], field()],
        "tuple": Annotated[tuple[int, datetime.date], field()],
        "UrlConstraints": Annotated[p.AnyUrl, p.UrlConstraints(allowed_schemes=["redis+x"], max_length=40)],
        "Json[int]": p.Json[int],
        "Secret": p.Secret[datetime.date],
        "field_validator": Checked,
        "AfterValidator": Annotated[str, p.AfterValidator(short)],
        "union": Movie | Place | Optional[datetime.timedelta],  # noqa: UP045
        "list of models": list[Movie],
        "dict of models": dict[str, Open | int],
        "RootModel": pydantic.RootModel[list[Hue]],
    }


def types() -> dict[str, Any]:
    """Every public type of pydantic that has a JSON Schema, by its name, and types with arguments."""
    found: dict[str, Any] = {}
    for module in ("pydantic.types", "pydantic.networks", "pydantic.color", "pydantic"):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            names = importlib.import_module(module)
            for name in getattr(names, "__all__", ["Color"]):
                tp = getattr(names, name)
                if has_schema(tp) and not isinstance(tp, typing.TypeVar):
                    found[name] = tp
    return {**found, **_written()}


def has_schema(tp: Any) -> bool:
    if not (isinstance(tp, type) or typing.get_origin(tp) is not None) or dataclasses.is_dataclass(tp):
        return False
    try:
        pydantic.TypeAdapter(tp).json_schema()
    except (pydantic.errors.PydanticUserError, TypeError, AttributeError, ImportError):
        return False
    return True


@dataclasses.dataclass
class Outcome:
    """The outcome for the documents of one type."""

    made: int = 0
    unfinished: int = 0
    refused: list[str] = dataclasses.field(default_factory=list)


def judge(compiled: CompiledFormat, rng: random.Random, documents: int) -> Outcome:
    """Sample documents and read their values; any error but `InvalidValue` comes out."""
    outcome = Outcome()
    for _ in range(documents):
        text = sample(compiled, rng)
        if text is None:
            outcome.unfinished += 1
            continue
        result = compiled.parse(text)
        assert result.is_complete, text
        try:
            _ = result.value
        except InvalidValue as error:
            assert error.text == result.text
            outcome.refused.append(f"{text.decode()[:200]} — {error.reason}"[:400])
        else:
            outcome.made += 1
    return outcome


def sample(compiled: CompiledFormat, rng: random.Random, longest: int = 600) -> bytes | None:
    """A random document of a format; None where it has not ended after `longest` bytes."""
    formatter = compiled.formatter()
    text = bytearray()
    while len(text) < longest:
        allowed = formatter.allowed_tokens()
        token = rng.choices(allowed, [weight(token, len(text)) for token in allowed])[0]
        formatter.accept_token(token)
        if token == END:
            return bytes(text)
        text.append(token)
    return None


def weight(token: int, length: int) -> float:
    """Weigh a byte: text ends soon, and blanks, escapes and characters outside ASCII are rare."""
    if token == END:
        return 20
    if token in b'"]}':
        return 4 + length / 8
    if token in b" \n\\" or token > 0x7E:
        return 0.1
    return 3 if chr(token).isdigit() else 1


def outcomes(documents: int, seed: int, names: typing.Collection[str] = ()) -> dict[str, Outcome | str]:
    """By type: what became of its documents, or why it was refused when it was compiled."""
    compiler = Compiler(VOCABULARY, engine="native")
    found: dict[str, Outcome | str] = {}
    for name, tp in types().items():
        if names and name not in names:
            continue
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                compiled = compiler.compile(tp)
            except FormatterError as error:
                found[name] = f"{type(error).__name__}: {error}"
                continue
            try:
                found[name] = judge(compiled, random.Random(f"{seed} {name}"), documents)
            except LimitExceeded as error:
                found[name] = f"{type(error).__name__} while sampling: {error}"
    return found
