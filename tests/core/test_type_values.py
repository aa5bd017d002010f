"""A complete document of a Python type has a value, or `InvalidValue` says why not."""

from __future__ import annotations

import datetime
import enum
import ipaddress
import json
import typing
import uuid
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Annotated, Any, Literal, Union

import pytest

from formatter_core import Compiler, Vocabulary, formats, parse
from formatter_core.errors import InvalidFormat, InvalidValue
from formatter_core.testing.oracle import OracleEngine

pytestmark = pytest.mark.usefixtures("no_error_says_anything_twice")

pydantic = pytest.importorskip("pydantic", reason="pydantic is not installed")
samples = pytest.importorskip("tests.core.type_samples")
random_types = pytest.importorskip("tests.core.random_types")

DOCS = Path(__file__).resolve().parents[2] / "docs" / "json_schema.md"


@pytest.fixture
def compiler(vocabulary: Vocabulary) -> Compiler:
    return Compiler(vocabulary, engine=OracleEngine())  # values are no engine's business


def test_sampled_documents_of_every_type_have_a_value_or_a_listed_reason() -> None:

    found = samples.outcomes(documents=12, seed=20)
    assert len(found) > 80
    for name, outcome in found.items():
        if name in samples.REFUSED:
            assert isinstance(outcome, str), name
            continue
        assert isinstance(outcome, samples.Outcome), (name, outcome)
        assert outcome.made + len(outcome.refused) > 6, name
        assert not outcome.refused or name in samples.LISTED, (name, outcome.refused[0])


def test_the_docs_list_the_reasons() -> None:
    page = " ".join(DOCS.read_text(encoding="utf-8").split())
    for reason in {*samples.LISTED.values(), samples.DEPTH}:
        assert reason in page, reason


class P(pydantic.BaseModel):
    name: str


class Kept(pydantic.BaseModel, extra="allow"):
    name: str


class Ratio(float, enum.Enum):
    HALF = 0.5


class Ratios(pydantic.BaseModel):
    ratio: Literal[Ratio.HALF]


class Sets(pydantic.BaseModel):
    numbers: set[int]


class Exact(pydantic.BaseModel):
    price: Decimal
    count: int


#: Texts that a mask once allowed although the type refuses them or drops a part.
REJECTED: list[tuple[Any, str]] = [
    (Decimal, '"abc"'),
    (Annotated[Decimal, pydantic.Field(gt=0)], '"-1"'),
    (Annotated[Decimal, pydantic.Field(gt=0)], "0"),
    (Annotated[Decimal, pydantic.Field(max_digits=4, decimal_places=2)], '"123.4"'),
    (Annotated[Decimal, pydantic.Field(max_digits=4, decimal_places=2)], "1.234"),
    (pydantic.HttpUrl, '"a:b"'),
    (pydantic.HttpUrl, '"http://1.2.3.4.5/"'),
    (pydantic.PostgresDsn, '"postgres"'),
    (datetime.datetime, '"2016-12-31T23:59:60Z"'),
    (datetime.datetime, '"0000-01-01T00:00:00Z"'),
    (datetime.date, '"0000-01-01"'),
    (datetime.time, '"23:59:60Z"'),
    (datetime.timedelta, '"P99999999999D"'),
    (pydantic.NaiveDatetime, '"2020-01-01T00:00:00Z"'),
    (pydantic.NaiveDatetime, '"2023-02-29T00:00:00"'),
    (pydantic.AwareDatetime, '"2026-01-02T03:04:05"'),
    (datetime.datetime, '"2026-01-02T03:04:05+24:00"'),
    (datetime.datetime, '"2026-01-02T24:00:00"'),
    (datetime.time, '"03:04:05+1:00"'),
    (pydantic.FiniteFloat, "1e999"),
    (pydantic.FiniteFloat, "1" + "0" * 309),
    (Annotated[str, pydantic.StringConstraints(strip_whitespace=True, min_length=3)], '"   "'),
    (Annotated[str, pydantic.StringConstraints(strip_whitespace=True, min_length=3)], '" a\\u0085"'),
    (Annotated[bytes, pydantic.Field(max_length=3)], '"éé"'),
    (pydantic.UUID4, '"00000000-0000-1000-8000-000000000000"'),
    (pydantic.IPvAnyAddress, '"somewhere"'),
    (pydantic.Base64Bytes, '"?"'),
    (Annotated[dict[int, str], pydantic.Field()], '{"a": "b"}'),
    (P, '{"name": "n", "zzz": [1]}'),
    (list[P], '[{"name": "n", "zzz": [1]}]'),
]


@pytest.mark.parametrize(("tp", "text"), REJECTED, ids=lambda value: str(value)[:60])
def test_what_a_type_refuses_is_no_text_of_its_format(compiler: Compiler, tp: Any, text: str) -> None:
    assert not compiler.compile(tp).parse(text).is_complete


ACCEPTED: list[tuple[Any, str, Any]] = [
    (Decimal, "1.25", Decimal("1.25")),
    (Decimal, '"-1.250"', Decimal("-1.250")),
    (Annotated[Decimal, pydantic.Field(gt=Decimal("0.1"))], "0.2", Decimal("0.2")),
    (Annotated[Decimal, pydantic.Field(max_digits=4, decimal_places=2)], '"12.34"', Decimal("12.34")),
    (Annotated[Decimal, pydantic.Field(max_digits=4)], '"0.123"', Decimal("0.123")),
    (pydantic.HttpUrl, '"https://example.com:8080/a/b?c=d#e"', pydantic.HttpUrl("https://example.com:8080/a/b?c=d#e")),
    (pydantic.AnyUrl, '"mailto:ann@example.com"', pydantic.AnyUrl("mailto:ann@example.com")),
    (pydantic.NaiveDatetime, '"2024-02-29T01:02:03.5"', datetime.datetime(2024, 2, 29, 1, 2, 3, 500000)),
    (datetime.datetime, '"2026-01-02T03:04:05"', datetime.datetime(2026, 1, 2, 3, 4, 5)),
    (datetime.datetime, '"2026-01-02T03:04:05Z"', datetime.datetime(2026, 1, 2, 3, 4, 5, tzinfo=datetime.timezone.utc)),
    (datetime.time, '"03:04:05"', datetime.time(3, 4, 5)),
    (datetime.time, '"03:04:05.5+00:00"', datetime.time(3, 4, 5, 500000, tzinfo=datetime.timezone.utc)),
    (pydantic.FiniteFloat, "-12.5", -12.5),
    (Annotated[str, pydantic.StringConstraints(strip_whitespace=True, min_length=3)], '"a c"', "a c"),
    (Kept, '{"name": "n", "zzz": [1]}', Kept(name="n", zzz=[1])),
    (Sets, '{"numbers": [1, 1, 2]}', Sets(numbers={1, 2})),
    (set[int], "[1, 1, 2]", {1, 2}),
    (pydantic.StrictInt, "443.0", 443),
    (Exact, '{"price": 0.1, "count": 100000000000000000000000.0}', Exact(price="0.1", count=10**23)),
]


@pytest.mark.parametrize(("tp", "text", "value"), ACCEPTED, ids=lambda value: str(value)[:60])
def test_what_a_type_takes_has_its_value(compiler: Compiler, tp: Any, text: str, value: Any) -> None:
    found = compiler.compile(formats.python_type(tp, spelling="any")).parse(text).value
    assert (type(found), found) == (type(value), value)


def test_the_schema_that_is_sent_says_whether_an_offset_is_needed() -> None:
    dated = {"2026-01-02T03:04:05Z": (datetime.datetime, pydantic.AwareDatetime)}
    dated["2026-01-02T03:04:05"] = (datetime.datetime, pydantic.NaiveDatetime)
    for text, types in dated.items():
        for tp in (datetime.datetime, pydantic.AwareDatetime, pydantic.NaiveDatetime):
            sent = formats.json_schema(formats.python_type(tp).schema.schema)
            assert parse(sent, json.dumps(text)).is_complete is (tp in types), (tp, text)
    rfc = formats.json_schema({"type": "string", "format": "date-time"})
    assert not parse(rfc, '"2026-01-02T03:04:05"').is_complete


class Level(enum.IntEnum):
    LOW = 1
    HIGH = 20


class Side(enum.Enum):
    LEFT = "left"


class Two(enum.Enum):
    TWO = 2


#: Types of keys, texts that their language has, and texts that it has not.
KEYS: list[tuple[Any, list[str], list[str]]] = [
    (int, ["0", "-5", "123456789012345678"], ["a", "", "01", "1.0", "+1", "-"]),
    (pydantic.PositiveInt, ["1", "20"], ["0", "-1"]),
    (Annotated[int, pydantic.Field(ge=-12, lt=1050)], ["-12", "-1", "0", "9", "99", "1049"], ["-13", "1050", "9999"]),
    (Annotated[int, pydantic.Field(gt=3, le=5)], ["4", "5"], ["3", "6", "45"]),
    (float, ["1", "1.5", "-0.5", "1e5"], ["nan", "inf", "1e999", ".5", "a"]),
    (pydantic.FiniteFloat, ["1.5"], ["nan"]),
    (bool, ["true", "false"], ["True", "1"]),
    (Level, ["1", "20"], ["2", "LOW"]),
    (Side, ["left"], ["right", "LEFT"]),
    (Literal["a", True], ["a", "true"], ["b", "1"]),
    (Decimal, ["1.5"], ["a"]),
    (datetime.date, ["2026-01-02"], ["2026-02-30"]),
    (datetime.datetime, ["2026-01-02T03:04:05", "2026-01-02T03:04:05Z"], ["2026-01-02"]),
    (uuid.UUID, ["12345678-1234-5678-1234-567812345678"], ["1"]),
    (int | None, ["7"], ["null"]),
    (bool | int, ["7", "true"], ["a"]),
]


@pytest.mark.parametrize("outside", [True, False])
@pytest.mark.parametrize(("tp", "texts", "others"), KEYS, ids=lambda value: str(value)[:50])
def test_keys_are_those_that_pydantic_reads_from_texts(
    compiler: Compiler, tp: Any, texts: list[str], others: list[str], outside: bool
) -> None:
    compiled = compiler.compile(dict[tp, int] if outside else Annotated[dict[tp, int], pydantic.Field()])
    for text in texts:
        document = json.dumps({text: 1})
        assert compiled.parse(document).value == pydantic.TypeAdapter(dict[tp, int]).validate_json(document)
    for text in others:
        assert not compiled.parse(json.dumps({text: 1})).is_complete, text


@pytest.mark.parametrize("tp", [Two, Literal[1], tuple[int, int], None, Annotated[float, pydantic.Field(gt=1)]])
def test_keys_that_no_text_gives_are_refused(tp: Any) -> None:
    with pytest.raises(InvalidFormat, match="key"):
        formats.python_type(dict[tp, int])


def test_only_python_types_are_closed(compiler: Compiler) -> None:
    text = '{"name": "n", "zzz": [1]}'
    assert compiler.compile(P.model_json_schema()).parse(text).value == json.loads(text)
    assert compiler.compile(formats.json_schema({"type": "string", "format": "uri"})).parse('"a:b"').value == "a:b"


@dataclass
class Even:
    number: int

    def __post_init__(self) -> None:
        if self.number % 2:
            raise ArithmeticError("odd")


class Checked(pydantic.BaseModel):
    inner: list[Even]

    @pydantic.field_validator("inner")
    @classmethod
    def short(cls, value: list[Even]) -> list[Even]:
        if len(value) > 1:
            raise LookupError("too many")
        return value


class Floats(pydantic.BaseModel):
    x: float


class SilentError(Exception):
    def __str__(self) -> str:
        raise LookupError


@dataclass
class Silent:
    number: int

    def __post_init__(self) -> None:
        raise SilentError


class SilentModel(pydantic.BaseModel):
    number: int

    @pydantic.field_validator("number")
    @classmethod
    def silent(cls, value: int) -> int:
        raise SilentError


class Paths(pydantic.BaseModel):
    number: int = pydantic.Field(validation_alias=pydantic.AliasPath("x", 0))


class PathsOrKey(pydantic.BaseModel):
    number: int = pydantic.Field(
        validation_alias=pydantic.AliasChoices(pydantic.AliasPath("x", 0), "key", pydantic.AliasPath("y"))
    )


class PathsOrName(Paths):
    model_config = pydantic.ConfigDict(populate_by_name=True)


class Shade(enum.Enum):
    RED = "red"


class Shades(pydantic.BaseModel):
    shade: Literal[Shade.RED]


class Sets(pydantic.BaseModel):
    items: set[list[int]]


@pytest.mark.parametrize(
    ("tp", "reason"),
    [
        (set[list[int]], "cannot hash"),
        (dict[str, frozenset[Even]], "cannot hash"),
        (Sets, "cannot hash"),
        (Paths, "alias that is a key"),
        (Shades, "Literal"),
    ],
)
def test_a_type_that_no_text_gives_a_value_is_refused(tp: Any, reason: str) -> None:
    with pytest.raises(InvalidFormat, match=reason):
        parse(tp, "{}")


@pytest.mark.parametrize(
    ("tp", "text", "value"),
    [
        (PathsOrKey, '{"key": 1}', PathsOrKey(key=1)),
        (PathsOrName, '{"number": 1}', PathsOrName(number=1)),
        (Literal[Shade.RED], '"red"', Shade.RED),
        (Ratios, '{"ratio": 0.5}', Ratios(ratio=Ratio.HALF)),
        (set[tuple[int, int]], "[[1, 2]]", {(1, 2)}),
    ],
)
def test_what_is_near_to_it_has_values(tp: Any, text: str, value: Any) -> None:
    assert parse(tp, text).value == value


INVALID: list[tuple[Any, str, str, str]] = [
    (float, "1e999", "", "too large for a float"),
    (dict[str, list[float]], '{"a/b": [1, 10e71005]}', "/a~1b/1", "too large for a float"),
    (Floats, '{"x": 10e71005}', "", "too large for a float"),
    (Floats, '{"x": 1' + "0" * 400 + "}", "", "too large for a float"),
    (list[Even], '[{"number": 2}, {"number": 3}]', "/1", "ArithmeticError: odd"),
    (Even | None, '{"number": 3}', "", "odd"),
    (dict[str, set[Even | int]], '{"a": [{"number": 2}]}', "/a", "unhashable"),
    (set[tuple[list[int], ...]], "[[[" + "1" * 5000 + "]]]", "", "unhashable"),
    (Silent, '{"number": 1}', "", "SilentError"),
    (list[SilentModel], '[{"number": 1}]', "/0", "SilentError"),
    (Checked, '{"inner": [{"number": 2}, {"number": 2}]}', "", "LookupError"),
    (Checked, '{"inner": [{"number": 1}]}', "", "odd"),
    (list[Exact], '[{"price": 1, "count": 1' + "0" * 5000 + "}]", "/0", "number"),
    (pydantic.Json[int], '"[]"', "", "valid integer"),
    (pydantic.PastDate, '"9999-01-01"', "", "past"),
    (tuple[pydantic.PastDate, int], '["9999-01-01", 1]', "/0", "past"),
]


@pytest.mark.parametrize(("tp", "text", "pointer", "reason"), INVALID, ids=lambda value: str(value)[:40])
def test_what_no_language_can_say_is_an_invalid_value(
    compiler: Compiler, tp: Any, text: str, pointer: str, reason: str
) -> None:
    result = compiler.compile(formats.python_type(tp, spelling="any")).parse(text)
    assert result.is_complete
    with pytest.raises(InvalidValue, match=reason) as caught:
        _ = result.value
    assert (caught.value.text, caught.value.pointer) == (text, pointer)


def test_the_first_alternative_that_matches_gives_the_value_unless_its_checks_refuse_it(compiler: Compiler) -> None:
    compiled = compiler.compile(Even | dict[str, int])
    assert compiled.parse('{"number": 2}').value == Even(2)
    assert compiled.parse('{"number": 3}').value == {"number": 3}
    with pytest.raises(InvalidValue, match="odd"):
        _ = compiler.compile(Even | str).parse('{"number": 3}').value


@dataclass
class Named:
    v: str


class Movie(typing.TypedDict):
    v: pydantic.PositiveInt | str


class Pair(typing.NamedTuple):
    v: datetime.datetime | int


@dataclass
class Holder:
    v: list[pydantic.PositiveInt | str]


@dataclass
class Ordered:
    x: int
    y: int = 0


@dataclass
class Turned:
    y: int
    x: int = 0


def tool(x: pydantic.PositiveInt | str, when: datetime.datetime | int) -> None:
    raise AssertionError("functions are never called")


@pytest.mark.parametrize(
    ("tp", "text", "value"),
    [
        (list[pydantic.PositiveInt | str], '["5"]', ["5"]),
        (datetime.datetime | int, "10", 10),
        (datetime.timedelta | float, "0.5", 0.5),
        (datetime.date | int, "86400", 86400),
        (ipaddress.IPv4Address | int, "20", 20),
        (pydantic.PositiveInt | bool, "true", True),
        (pydantic.PositiveInt | float, "-5", -5.0),
        (list[pydantic.PositiveInt] | list[str], '["5"]', ["5"]),
        (dict[str, pydantic.PositiveInt] | Named, '{"v":"5"}', Named("5")),
        (dict[str, pydantic.PositiveInt | str], '{"v":"5"}', {"v": "5"}),
        (dict[pydantic.PositiveInt | str, int], '{"-5":1}', {"-5": 1}),
        (tuple[pydantic.PositiveInt | str, ...], '["5"]', ("5",)),
        (list[pydantic.PositiveInt | list[pydantic.PositiveInt | str]], '[["5"], 5]', [["5"], 5]),
        (Movie, '{"v":"5"}', {"v": "5"}),
        (Pair, '{"v":10}', Pair(10)),
        (Holder, '{"v":["5"]}', Holder(["5"])),
        (tool, '{"x":"5","when":86400}', {"x": "5", "when": 86400}),
        (Ordered | Turned, '{"x":1,"y":2}', Ordered(1, 2)),
        (Ordered | Turned, '{"y":2,"x":1}', Turned(2, 1)),
        (Annotated[str, pydantic.Field(max_length=2)] | pydantic.Base64Str, '"YQ=="', "a"),
        (int | float, "1.5e1", 15.0),
        (float | int, "1", 1.0),
    ],
    ids=lambda value: str(getattr(value, "__name__", value))[:50],
)
def test_the_alternative_that_the_text_matches_gives_the_value(
    compiler: Compiler, tp: Any, text: str, value: Any
) -> None:
    found = compiler.compile(tp).parse(text).value
    assert repr(found) == repr(value)


@pytest.mark.parametrize("seed", range(6))
def test_values_of_random_types_are_pydantics_or_the_matching_alternatives(seed: int) -> None:
    judged, wrong = random_types.differences(25, seed)
    assert judged > 40
    assert not wrong, wrong[0]


class Cat(pydantic.BaseModel):
    kind: Literal["cat"] = "cat"
    x: int = 0


class Dog(pydantic.BaseModel):
    kind: Literal["dog"] = "dog"
    x: int = 0


@dataclass
class Line:
    kind: Literal["line"] = "line"


@dataclass
class Disc:
    kind: Literal["disc"] = "disc"


class Aliased(pydantic.BaseModel):
    kind: Literal["a"] = pydantic.Field("a", alias="k")


class AliasedToo(pydantic.BaseModel):
    kind: Literal["b"] = pydantic.Field("b", alias="k")


class Black(pydantic.BaseModel):
    kind: Literal["cat"] = "cat"
    color: Literal["black"] = "black"


class White(pydantic.BaseModel):
    kind: Literal["cat"] = "cat"
    color: Literal["white"] = "white"


def tagged(union: Any, tag: str = "kind") -> Any:
    return Annotated[union, pydantic.Field(discriminator=tag)]


class Owner(pydantic.BaseModel):
    free: Cat = Cat()
    pet: Cat | Dog = pydantic.Field(discriminator="kind")
    others: list[tagged(Cat | Dog)] = pydantic.Field(default=[])  # type: ignore[valid-type]


def keeper(pet: tagged(Cat | Dog), free: Cat) -> None:  # type: ignore[valid-type]
    raise AssertionError("functions are never called")


@pytest.mark.parametrize(
    ("tp", "text", "bad"),
    [
        (tagged(Cat | Dog), '{"kind":"dog","x":1}', '{"x":1}'),
        (tagged(Cat | Dog) | None, '{"kind":"dog"}', "{}"),
        (list[tagged(Cat | Dog)], '[{"kind":"dog"}]', "[{}]"),
        (dict[str, tagged(Cat | Dog)], '{"a":{"kind":"dog"}}', '{"a":{"x":1}}'),
        (tagged(Line | Disc), '{"kind":"disc"}', "{}"),
        (tagged(Aliased | AliasedToo), '{"k":"b"}', "{}"),
        (tagged(tagged(Black | White, "color") | Dog), '{"kind":"cat","color":"white"}', '{"kind":"cat"}'),
        (tagged(tagged(Black | White, "color") | Dog), '{"kind":"dog"}', '{"color":"white"}'),
        (Owner, '{"free":{},"pet":{"kind":"cat"},"others":[{"kind":"dog","x":1}]}', '{"pet":{}}'),
        (Owner, '{"pet":{"kind":"cat"}}', '{"pet":{"kind":"cat"},"others":[{"x":1}]}'),
        (keeper, '{"pet":{"kind":"cat"},"free":{}}', '{"pet":{},"free":{}}'),
    ],
    ids=lambda value: str(getattr(value, "__name__", value))[:50],
)
def test_a_tag_that_decides_a_union_is_required(compiler: Compiler, tp: Any, text: str, bad: str) -> None:
    compiled = compiler.compile(tp)
    made = compiled.parse(text).value
    if tp is not keeper:
        assert made == pydantic.TypeAdapter(tp).validate_json(text)
    assert not compiled.parse(bad).is_complete


@pytest.mark.parametrize("count", [40, 60, 200])
@pytest.mark.parametrize("is_discriminated", [False, True])
def test_a_union_of_very_many_tagged_models(compiler: Compiler, count: int, is_discriminated: bool) -> None:
    models = [
        pydantic.create_model(f"Model{n}", kind=(Literal[f"kind{n}"], f"kind{n}"), **{f"x{n % 7}": (int, 0)})  # type: ignore[call-overload]
        for n in range(count)
    ]
    union: Any = Union[tuple(models)]  # noqa: UP007
    compiled = compiler.compile(tagged(union) if is_discriminated else union)
    value = compiled.parse(f'{{"kind":"kind{count - 1}"}}').value
    assert type(value) is models[-1]


def test_captures_and_events_name_what_is_refused(compiler: Compiler) -> None:
    builder = formats.FormatterBuilder()
    builder.append("x: ", builder.json(list[float], name="x", spelling="any"), ".")
    with pytest.raises(InvalidValue) as caught:
        _ = compiler.compile(builder).parse("x: [1e999].").captures
    assert (caught.value.text, caught.value.pointer) == ("[1e999]", "/0")


def test_a_type_that_imports_what_a_text_names_is_refused() -> None:
    class Loader(pydantic.BaseModel):
        function: pydantic.ImportString[Any]

    for tp in (pydantic.ImportString, Loader):
        with pytest.raises(InvalidFormat, match="import"):
            formats.python_type(tp)


def test_deep_values_of_a_model_are_refused_by_name(compiler: Compiler) -> None:
    class Holder(pydantic.BaseModel):
        x: Any

    result = compiler.compile(Holder).parse('{"x":' + "[" * 500 + "]" * 500 + "}")
    assert result.is_complete
    with pytest.raises(InvalidValue, match=r"recursion|nested deeper"):
        _ = result.value
