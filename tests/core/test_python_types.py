"""Python types: their JSON, and instances made of it."""

from __future__ import annotations

import dataclasses
import enum
import json
from collections import abc
from dataclasses import InitVar, dataclass, field
from typing import Annotated, Any, Generic, Literal, NamedTuple, NewType, Optional, TypedDict, TypeVar, Union
from uuid import UUID

import pytest

import formatter_core
from formatter_core import Compiler, formats
from formatter_core.errors import InvalidFormat
from formatter_core.formats.protocol import Format
from formatter_core.limits import DEFAULT_LIMITS
from tests.core.native_parse import parse

pytestmark = pytest.mark.usefixtures("no_error_says_anything_twice")


class Color(enum.Enum):
    RED = "red"
    BLUE = 2


class Level(enum.IntEnum):
    LOW = 1


@dataclass
class Point:
    x: int
    y: float = 0.0


@dataclass(kw_only=True)
class Tree:
    value: Point | None
    children: list[Tree] = field(default_factory=list)
    cached: int = field(default=0, init=False)


@dataclass
class WithInitVar:
    seed: InitVar[int]


class Movie(TypedDict, total=False):
    title: str
    year: int


class Pair(NamedTuple):
    left: str
    right: int = 3


T = TypeVar("T")


class Box(Generic[T]):
    pass


UserId = NewType("UserId", int)
Name = NewType("Name", str)


class Side(enum.Enum):
    LEFT = "left"
    RIGHT = "right"


def move(distance: int, *, to: Color = Color.RED, note: str | None = None) -> None:
    raise AssertionError("functions are never called")


def value_of(format: Format, text: str) -> Any:
    lowered = format.to_grammar(DEFAULT_LIMITS)
    match = parse(lowered.grammar, text.encode())
    return "rejected" if match is None else lowered.value(match)


ROWS: list[tuple[Any, str, Any]] = [
    (int, "3", 3),
    (int, "3.0", 3),
    (int, '"3"', "rejected"),
    (bool, "true", True),
    (float, "2", 2.0),
    (str, '"\\u00e9"', "é"),
    (type(None), "null", None),
    (Any, '{"a": [1]}', {"a": [1]}),
    (Literal["a", 1], "1", 1),
    (Literal["a", 1], "true", "rejected"),
    (Literal[True], "1", "rejected"),
    (Literal[2**64 + 1] | str, "18446744073709551617.0", 2**64 + 1),
    (Color, '"red"', Color.RED),
    (Color, "2", Color.BLUE),
    (Level, "1", Level.LOW),
    (Optional[int], "null", None),  # noqa: UP045
    (Union[int, str], '"x"', "x"),  # noqa: UP007
    (int | None, "1", 1),
    (Point | Movie, '{"x": 1}', Point(1)),
    (Point | Movie, '{"title": "t"}', {"title": "t"}),
    (list[int], "[1, 2]", [1, 2]),
    (list, '[1, "a"]', [1, "a"]),
    (tuple[int, str], '[1, "a"]', (1, "a")),
    (tuple[int, str], "[1]", "rejected"),
    (tuple[int, ...], "[1, 2, 3]", (1, 2, 3)),
    (tuple[()], "[]", ()),
    (set[str], '["a", "a"]', {"a"}),
    (frozenset[int], "[1]", frozenset({1})),
    (abc.Sequence[int], "[1]", [1]),
    (dict[str, Point], '{"p": {"x": 1}}', {"p": Point(1)}),
    (abc.Mapping[str, int], '{"p": 1}', {"p": 1}),
    (dict[Literal["p", "q"], int], '{"q": 1}', {"q": 1}),
    (dict[Literal["p", "q"], int], '{"r": 1}', "rejected"),
    (dict[Name, int], '{"\\u0061nn": 1}', {"ann": 1}),
    (dict[Annotated[str, {"maxLength": 1}], int], '{"pq": 1}', "rejected"),
    (dict[UUID, int], '{"12345678-1234-5678-1234-567812345678": 1}', {UUID("12345678-1234-5678-1234-567812345678"): 1}),
    (dict[int, str], '{"-3": "a"}', {-3: "a"}),
    (dict[int, str], '{"a": "a"}', "rejected"),
    (dict[Level, int], '{"1": 1}', {Level.LOW: 1}),
    (dict[Side, int] | int, '{"left": 1}', {Side.LEFT: 1}),
    (Point, '{"x": 1, "y": 2}', Point(1, 2.0)),
    (Point, '{"y": 2, "x": 1}', "rejected"),
    (Point, '{"x": 1, "z": 2}', "rejected"),
    (Tree, '{"value": null, "children": [{"value": {"x": 1}}]}', Tree(value=None, children=[Tree(value=Point(1))])),
    (Movie, '{"year": 1999}', {"year": 1999}),
    (Pair, '{"left": "l"}', Pair("l")),
    (UserId, "7", 7),
    (move, '{"distance": 3, "to": "red"}', {"distance": 3, "to": Color.RED}),
    (move, '{"to": "red"}', "rejected"),
]


@pytest.mark.contract("python_type: generic aliases, unions, callables")
@pytest.mark.parametrize(("tp", "text", "value"), ROWS)
def test_values_are_instances(tp: Any, text: str, value: Any) -> None:
    found = value_of(formats.python_type(tp, spelling="any"), text)
    assert found == value
    assert type(found) is type(value)


class Plain:
    pass


@pytest.mark.parametrize(
    "tp", [Plain, Box[int], dict[Color, str], dict[Literal["a", 1], str], WithInitVar, Literal[b"x"], object(), 3]
)
def test_other_types_are_refused(tp: Any) -> None:
    with pytest.raises(InvalidFormat):
        formats.python_type(tp)


def test_parameters_that_have_no_name_are_refused() -> None:
    def variadic(*values: int) -> None: ...

    with pytest.raises(InvalidFormat):
        formats.python_type(variadic)


def again(format: Format, **more: Any) -> Format:
    return formats.from_json(json.loads(json.dumps(format.to_json())), **more)


def test_a_type_comes_back_from_json_only_from_the_caller() -> None:
    made = formats.python_type(Point, whitespace="compact")
    with pytest.raises(InvalidFormat, match=r"'Point'.*type="):
        again(made)
    assert again(made, type=Point).key() == made.key()
    assert value_of(again(made, type=Point), '{"x":1}') == Point(1)
    assert again(made, type=Any) == made.schema
    assert made.key() != formats.python_type(Pair, whitespace="compact").key()
    with pytest.raises(InvalidFormat, match="another schema"):
        again(made, type=Pair)


def test_several_types_come_back_by_their_names() -> None:
    made = formats.sequence(formats.python_type(Point), formats.text(";"), formats.python_type(list[Color]))
    types = {"Point": Point, formats.python_type(list[Color]).to_json()["name"]: list[Color]}
    assert value_of(again(made, type=types), '{"x": 1};["red"]') == (Point(1), {}, [Color.RED])
    with pytest.raises(InvalidFormat, match="Point"):
        again(made, type={"list": list[Color]})


@pytest.mark.contract("examples only through `formats.example`")
def test_examples() -> None:
    made = formats.example({"name": "Ann", "ages": [1, None], "any": [], "ok": True, "x": 1.5})
    text = '{"name": "x", "ages": [null, 3, 4], "any": ["q"], "ok": false, "x": 2}'
    assert value_of(made, text) == json.loads(text)
    for wrong in ('{"name": "x"}', text.replace("false", "0"), text.replace("null", '"s"'), text[:-1] + ', "z": 1}'):
        assert value_of(made, wrong) == "rejected"
    for fault in ({1: 2}, object(), float("nan")):
        with pytest.raises(InvalidFormat):
            formats.example(fault)


def test_pydantic() -> None:
    pydantic = pytest.importorskip("pydantic")

    class Item(pydantic.BaseModel):
        name: Annotated[str, pydantic.Field(min_length=2)]
        parts: list[Item] = []  # noqa: RUF012

    class Order(pydantic.BaseModel):
        item: Item

    Item.model_rebuild(_types_namespace={"Item": Item})
    item = value_of(formats.python_type(Item), '{"name": "ab", "parts": [{"name": "cd"}]}')
    assert item == Item(name="ab", parts=[Item(name="cd")])
    assert value_of(formats.python_type(Item), '{"name": "a"}') == "rejected"
    both = formats.python_type(tuple[Item, Annotated[int, pydantic.Field(gt=3)], list[Order] | None])
    text = '[{"name": "ab"}, 4, [{"item": {"name": "xy"}}]]'
    assert value_of(both, text) == (Item(name="ab"), 4, [Order(item=Item(name="xy"))])
    assert value_of(both, '[{"name": "ab"}, 3, null]') == "rejected"


def test_pydantic_decimals_and_dates() -> None:
    pytest.importorskip("pydantic")
    import datetime
    import decimal

    assert value_of(formats.python_type(datetime.date), '"2024-02-29"') == datetime.date(2024, 2, 29)
    assert value_of(formats.python_type(datetime.date), '"2023-02-29"') == "rejected"
    assert value_of(formats.python_type(decimal.Decimal), '"1.50"') == decimal.Decimal("1.50")


def test_keywords_of_json_schema_in_annotated(compiler: Compiler) -> None:
    name = Annotated[str, {"maxLength": 3}]
    compiled = compiler.compile(dict[str, tuple[name, Annotated[int, {"minimum": 1}, {"maximum": 9}]]])
    assert compiled.parse('{"x": ["abc", 9]}').value == {"x": ("abc", 9)}
    for text in ('{"x": ["abcd", 9]}', '{"x": ["abc", 10]}', '{"x": ["abc", 0]}'):
        assert not compiled.parse(text).is_complete


def test_a_dataclass_that_was_pickled_by_value_requires_what_it_did() -> None:
    """Ray sends types to its actors in a way that makes `MISSING` another object of its class."""

    @dataclass
    class Row:
        number: int
        text: str = "x"

    for one in dataclasses.fields(Row):
        one.default_factory = type(dataclasses.MISSING)()
    dataclasses.fields(Row)[0].default = type(dataclasses.MISSING)()
    assert formatter_core.parse(Row, '{"number": 1}').is_complete
    assert not formatter_core.parse(Row, "{}").is_complete
