"""Values while they are written: snapshots at every byte, what they share, their changes, and types."""

from __future__ import annotations

import contextlib
import copy
import dataclasses
import datetime
import enum
import json
import pickle
import random
from collections.abc import Iterator, Sequence
from typing import Any, Literal, NamedTuple, TypedDict

import pydantic
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from formatter_core import Compiler, Formatter, FormatterBuilder, JsonDelta, Partial, Vocabulary, formats
from formatter_core.errors import InvalidArgument, InvalidFormat, InvalidValue
from formatter_core.generation import Finished, Snapshot, ValueDelta, completion
from tests.core import random_types
from tests.core.tiny_logits_model import TinyModel, writes
from tests.sampling import sampled

NOTHING = object()
COMPILER = Compiler(Vocabulary.of_bytes())
ANYTHING = COMPILER.compile(formats.json_schema(True, spelling="any"))

texts = st.text(
    alphabet=st.one_of(st.sampled_from('a"\\/\n\t~ é€😀'), st.characters(exclude_categories=["Cs"])), max_size=6
)
scalars = st.none() | st.booleans() | st.integers(-(10**20), 10**20) | st.floats(allow_nan=False, allow_infinity=False)
documents = st.recursive(
    scalars | texts,
    lambda inside: st.lists(inside, max_size=4) | st.dictionaries(texts, inside, max_size=4),
    max_leaves=12,
)


# --- an oracle: a writer that knows what it has written ----------------------------------------------------------


def written(value: Any, draw: random.Random) -> Iterator[tuple[str, Any]]:
    """The text of a value, a character or an escape at a time, each with what is certain of the value after it."""
    blank = draw.choice(["", " "])
    if isinstance(value, str):
        yield from written_text(value, draw)
    elif isinstance(value, dict):
        done: dict[str, Any] = {}
        yield "{", {}
        for count, (name, one) in enumerate(value.items()):
            for piece in ["," + blank] * (count > 0) + [piece for piece, _ in written_text(name, draw)] + [":" + blank]:
                yield from ((character, dict(done)) for character in piece)
            for piece, so_far in written(one, draw):
                yield piece, dict(done) if so_far is NOTHING else {**done, name: so_far}
            done[name] = one
        yield "}", value
    elif isinstance(value, list):
        yield "[", []
        for count, one in enumerate(value):
            for character in ("," + blank) * (count > 0):
                yield character, value[:count]
            for piece, so_far in written(one, draw):
                yield piece, value[:count] if so_far is NOTHING else [*value[:count], so_far]
        yield "]", value
    else:
        text = json.dumps(value)
        yield from ((character, NOTHING) for character in text[:-1])
        yield text[-1], NOTHING if isinstance(value, (int, float)) and not isinstance(value, bool) else value


def written_text(value: str, draw: random.Random) -> Iterator[tuple[str, str]]:
    yield '"', ""
    for count, character in enumerate(value):
        spelt = json.dumps(character, ensure_ascii=draw.random() < 0.5)[1:-1]
        yield from ((piece, value[:count]) for piece in spelt[:-1])
        yield spelt[-1], value[: count + 1]
    yield '"', value


def begins(part: Any, whole: Any) -> bool:
    """Tell whether one value is a prefix of another: all but the last item or member is the same."""
    if isinstance(part, str) and isinstance(whole, str):
        return whole.startswith(part)
    if isinstance(part, dict) and isinstance(whole, dict):
        return list(part) == list(whole)[: len(part)] and begins(list(part.values()), [whole[name] for name in part])
    if isinstance(part, list) and isinstance(whole, list):
        same = all(map(is_same, part[:-1], whole))
        return len(part) <= len(whole) and same and (not part or begins(part[-1], whole[len(part) - 1]))
    return is_same(part, whole)


def is_same(one: Any, other: Any) -> bool:
    return type(one) is type(other) and one == other


def applied(deltas: Sequence[JsonDelta], value: Any) -> Any:
    """Apply changes to a value, as a listener does."""
    for delta in deltas:
        keys = [key.replace("~1", "/").replace("~0", "~") for key in delta.path.split("/")[1:]]
        if delta.op == "complete":
            assert is_same(found_at(value, keys), delta.value)
            continue
        new = copy.deepcopy(delta.value) if delta.op == "add" else found_at(value, keys) + delta.value
        if not keys:
            value = new
            continue
        inside, last = found_at(value, keys[:-1]), keys[-1]
        if isinstance(inside, dict):
            inside[last] = new
        elif int(last) == len(inside):
            inside.append(new)
        else:
            inside[int(last)] = new
    return value


def found_at(value: Any, keys: Sequence[str]) -> Any:
    for key in keys:
        value = value[int(key)] if isinstance(value, (list, tuple)) else value[key]
    return value


def as_lists(value: Any) -> Any:
    """A snapshot with lists for tuples, as JSON has them."""
    if isinstance(value, (list, tuple)):
        return [as_lists(one) for one in value]
    return {name: as_lists(one) for name, one in value.items()} if isinstance(value, dict) else value


# --- JSON --------------------------------------------------------------------------------------------------------


@settings(max_examples=300, deadline=None)
@given(documents, st.randoms(use_true_random=False))
def test_a_snapshot_at_every_byte_is_what_the_writer_knows(value: Any, draw: random.Random) -> None:
    check_snapshots(value, draw)


@pytest.mark.slow
@settings(max_examples=2000, deadline=None)
@given(documents, st.randoms(use_true_random=False))
def test_a_snapshot_at_every_byte_of_many_documents(value: Any, draw: random.Random) -> None:
    check_snapshots(value, draw)


def check_snapshots(value: Any, draw: random.Random) -> None:
    formatter = ANYTHING.formatter()
    for piece, expected in written(value, draw):
        data = piece.encode()
        for byte in data[:-1]:
            before = formatter.snapshot()
            formatter.accept_bytes(bytes([byte]))
            assert formatter.snapshot() == before
        formatter.accept_bytes(data[-1:])
        found = formatter.snapshot()
        assert repr(found) == repr(None if expected is NOTHING else expected)
        assert expected is NOTHING or begins(found, value)
    formatter.accept_token(formatter.end_ids[0])
    assert is_same(formatter.snapshot(), value)


@settings(max_examples=150, deadline=None)
@given(documents, st.randoms(use_true_random=False))
def test_changes_make_the_snapshots(value: Any, draw: random.Random) -> None:
    text = "".join(piece for piece, _ in written(value, draw)).encode()
    formatter, heard, completed = ANYTHING.formatter(), None, []
    while text:
        size = draw.choice([1, 1, 2, 3, 10])
        formatter.accept_bytes(text[:size])
        text = text[size:]
        deltas = formatter.deltas()
        heard = applied(deltas, heard)
        completed += [delta.path for delta in deltas if delta.op == "complete"]
        assert repr(heard) == repr(formatter.snapshot(plain=True))
    formatter.accept_token(formatter.end_ids[0])
    deltas = formatter.deltas()
    assert is_same(applied(deltas, heard), value)
    completed += [delta.path for delta in deltas if delta.op == "complete"]
    assert sorted(completed) == sorted(pointers(value))
    assert formatter.deltas() == []


def pointers(value: Any, path: str = "") -> Iterator[str]:
    yield path
    if isinstance(value, dict):
        for name, one in value.items():
            yield from pointers(one, path + "/" + name.replace("~", "~0").replace("/", "~1"))
    elif isinstance(value, list):
        for index, one in enumerate(value):
            yield from pointers(one, f"{path}/{index}")


@settings(max_examples=100, deadline=None)
@given(documents, st.randoms(use_true_random=False))
def test_after_a_rollback_snapshots_and_changes_are_those_of_the_text(value: Any, draw: random.Random) -> None:
    text = json.dumps(value).encode()
    formatter, heard = ANYTHING.formatter(), None
    for _ in range(12):
        at = len(formatter.bytes)
        if draw.random() < 0.4:
            formatter.rollback(draw.randint(0, len(formatter.tokens)))
        else:
            formatter.accept_tokens(text[at : at + draw.randint(0, 9)])
        asked = draw.random()
        if asked < 0.7:
            fresh = ANYTHING.formatter()
            fresh.accept_tokens(formatter.tokens)
            heard = applied(formatter.deltas(), heard)
            assert repr(formatter.snapshot()) == repr(fresh.snapshot())
            assert repr(formatter.fork().snapshot()) == repr(fresh.snapshot())
            assert fresh.snapshot() is None or repr(heard) == repr(fresh.snapshot())


def test_earlier_snapshots_stay_and_share_what_is_complete() -> None:
    formatter = ANYTHING.formatter()
    seen: list[tuple[Any, str]] = []
    for byte in b'{"a":[1,{"b":"text"}],"c":{"d":[true,"more text"]}}':
        formatter.accept_bytes(bytes([byte]))
        snapshot = formatter.snapshot()
        seen.append((snapshot, repr(snapshot)))
    assert all(repr(snapshot) == shown for snapshot, shown in seen)
    with_c = [snapshot for snapshot, _ in seen if "c" in snapshot]
    assert len({id(snapshot["a"]) for snapshot in with_c}) == 1
    assert formatter.snapshot() is formatter.snapshot()


def test_numbers_are_there_when_they_are_complete_unless_asked() -> None:
    formatter = ANYTHING.formatter()
    found = []
    for byte in b"[-12.50e1,3":
        formatter.accept_bytes(bytes([byte]))
        found.append((formatter.snapshot(), formatter.snapshot(open_numbers=True)))
    assert [complete for complete, _ in found] == [[]] * 9 + [[-125.0]] * 2
    assert [so_far for _, so_far in found] == [
        [], [], [-1], [-12], [-12], [-12.5], [-12.5], [-12.5], [-125.0], [-125.0], [-125.0, 3],
    ]  # fmt: skip


def test_a_key_that_comes_again_replaces_its_value() -> None:
    formatter, heard = ANYTHING.formatter(), None
    for byte in b'{"a":[1,2],"b":0,"a":"x"}':
        formatter.accept_bytes(bytes([byte]))
        heard = applied(formatter.deltas(), heard)
        assert heard == formatter.snapshot()
    assert heard == {"a": "x", "b": 0}


def test_half_a_surrogate_pair_waits_for_the_other_half() -> None:
    formatter = ANYTHING.formatter()
    formatter.accept_bytes(rb'"a\ud83d')
    assert formatter.snapshot() == "a"
    formatter.accept_bytes(rb"\ude00b")
    assert formatter.snapshot() == "a😀b"


def test_a_snapshot_of_nothing() -> None:
    formatter = ANYTHING.formatter()
    assert formatter.snapshot() is None
    assert formatter.deltas() == []


# --- types -------------------------------------------------------------------------------------------------------


class Colour(enum.Enum):
    RED = "red"
    BLUE = "blue"


@dataclasses.dataclass
class Item:
    title: str
    price: float


class Point(NamedTuple):
    x: int
    y: int = 0


class Options(TypedDict, total=False):
    fast: bool
    note: str


@dataclasses.dataclass
class Order:
    name: str
    items: list[Item]
    colour: Colour
    size: Literal["s", "m"]
    at: Point
    options: Options
    pair: tuple[str, Item]
    tags: set[str]
    note: str | None = None


ORDER = (
    '{"name": "Ada", "items": [{"title": "pen", "price": 1.50}, {"title": "ink", "price": 3}], "colour": "red", '
    '"size": "m", "at": {"x": 1, "y": 2}, "options": {"note": "now"}, "pair": ["a", {"title": "b", "price": 1}], '
    '"tags": ["a", "b"], "note": "hm"}'
)


def after(format: Any, text: str, *, until: str = "") -> Formatter:
    """A sequence that has come as far as the first place behind `until`."""
    formatter = COMPILER.compile(format).formatter()
    formatter.accept_bytes(text[: text.index(until) + len(until)].encode() if until else text.encode())
    return formatter


@pytest.mark.parametrize(
    ("until", "expected"),
    [
        ("{", {}),
        ('"Ad', {"name": "Ad"}),
        ('"pen', {"name": "Ada", "items": [Partial(Item, {"title": "pen"})]}),
        ('"ink"', {"name": "Ada", "items": [Item("pen", 1.5), Partial(Item, {"title": "ink"})]}),
        ('"re', {"name": "Ada", "items": [Item("pen", 1.5), Item("ink", 3.0)]}),
        ('"red"', {"name": "Ada", "items": [Item("pen", 1.5), Item("ink", 3.0)], "colour": Colour.RED}),
    ],
)
def test_what_is_complete_is_an_instance_and_what_has_begun_is_partial(until: str, expected: dict[str, Any]) -> None:
    assert after(Order, ORDER, until=until).snapshot() == Partial(Order, expected)


@pytest.mark.parametrize(
    ("until", "name", "expected"),
    [
        ('"m"', "size", "m"),
        ('"x": 1,', "at", Partial(Point, {"x": 1})),
        ('"y": 2}', "at", Point(1, 2)),
        ('"note": "no', "options", {"note": "no"}),
        ('"pair": ["a"', "pair", ("a",)),
        ('"b", "pr', "pair", ("a", Partial(Item, {"title": "b"}))),
        ('"tags": ["a"', "tags", ["a"]),
        ('"tags": ["a", "b"]', "tags", {"a", "b"}),
        ('"hm', "note", "hm"),
    ],
)
def test_parts_of_types(until: str, name: str, expected: Any) -> None:
    found = getattr(after(Order, ORDER, until=until).snapshot(), name)
    assert type(found) is type(expected)
    assert found == expected


def test_the_last_snapshot_is_the_value_and_plain_ones_are_json_data() -> None:
    formatter = after(Order, ORDER)
    assert formatter.snapshot() == formatter.result("end").value
    assert formatter.snapshot(plain=True) == json.loads(ORDER)


def test_a_partial_says_which_fields_are_there() -> None:
    partial = after(Order, ORDER, until='"Ad').snapshot()
    assert isinstance(partial, Partial)
    assert partial.name == "Ad"
    assert "name" in partial
    assert "items" not in partial
    assert list(partial) == ["name"]
    assert vars(partial) == {"name": "Ad"}
    assert getattr(partial, "items", None) is None
    assert repr(partial) == "Partial[Order](name='Ad')"
    for copied in (copy.deepcopy(partial), copy.copy(partial), pickle.loads(pickle.dumps(partial))):
        assert copied == partial
    with pytest.raises(AttributeError, match="'items' is not written yet"):
        partial.items  # noqa: B018
    with pytest.raises(AttributeError, match="cannot be changed"):
        partial.name = "Eve"
    with pytest.raises(AttributeError, match="cannot be changed"):
        del partial.name


class Line(pydantic.BaseModel):
    sku: str = pydantic.Field(alias="SKU")
    when: datetime.date


class Invoice(pydantic.BaseModel):
    number: int
    lines: list[Line]
    paid: datetime.date | None = None
    remark: str = pydantic.Field(default="", max_length=20)


INVOICE = (
    '{"number": 7, "lines": [{"SKU": "a", "when": "2026-01-02"}, {"SKU": "b", "when": "2026-02-03"}], "remark": "ok"}'
)


@pytest.mark.parametrize(
    ("until", "expected"),
    [
        ('"SKU": "a', {"number": 7, "lines": [Partial(Line, {"sku": "a"})]}),
        ("2026-01", {"number": 7, "lines": [Partial(Line, {"sku": "a"})]}),
        ('02"', {"number": 7, "lines": [Partial(Line, {"sku": "a", "when": datetime.date(2026, 1, 2)})]}),
        ("}, ", {"number": 7, "lines": [Line(SKU="a", when=datetime.date(2026, 1, 2))]}),
        ('"remark": "o', {"number": 7, "lines": [Line(SKU="a", when=datetime.date(2026, 1, 2)),
                                                 Line(SKU="b", when=datetime.date(2026, 2, 3))], "remark": "o"}),
    ],
)  # fmt: skip
def test_models_of_pydantic(until: str, expected: dict[str, Any]) -> None:
    assert after(Invoice, INVOICE, until=until).snapshot() == Partial(Invoice, expected)


def test_of_several_types_that_could_be_meant_json_data_are_shown_until_it_is_complete() -> None:
    text = '[{"x": 1, "y": 5}, {"title": "a", "price": 2}]'
    tp = list[Point | Item]
    assert after(tp, text, until='"x": 1,').snapshot() == [{"x": 1}]
    assert after(tp, text, until='"a"').snapshot() == [Point(1, 5), {"title": "a"}]
    assert after(tp, text).snapshot() == [Point(1, 5), Item("a", 2.0)]


@dataclasses.dataclass
class Even:
    n: int

    def __post_init__(self) -> None:
        if self.n % 2:
            raise ValueError("odd")


def test_a_part_that_its_type_refuses_is_shown_as_json_data() -> None:
    formatter = after(list[Even], '[{"n": 2}, {"n": 3}]')
    assert after(list[Even], '[{"n": 2}, {"n": 3},', until="3},").snapshot() == [Even(2), {"n": 3}]
    assert formatter.snapshot() == [{"n": 2}, {"n": 3}]
    with pytest.raises(InvalidValue):
        formatter.result("end").value  # noqa: B018


def random_types_and_texts(draw: random.Random) -> Iterator[tuple[Any, bytes]]:
    for _ in range(6):
        tp = random_types.random_type(draw, 3)
        with contextlib.suppress(InvalidFormat):  # keys or items that no text gives
            compiled = COMPILER.compile(tp)
            for text in {random_types.random_text(tp, draw) for _ in range(4)}:
                if compiled.formatter().accept_tokens(text.encode()) == len(text.encode()):
                    yield tp, text.encode()


@pytest.mark.parametrize("seed", sampled(range(40), 15))
def test_random_types_show_their_value_at_the_end_and_nothing_raises_before(seed: int) -> None:
    draw = random.Random(seed)
    for tp, text in random_types_and_texts(draw):
        formatter = COMPILER.compile(tp).formatter()
        for byte in text:
            formatter.accept_bytes(bytes([byte]))
            formatter.snapshot()
        if not formatter.can_stop:
            continue
        result = formatter.result("end")
        formatter.accept_token(formatter.end_ids[0])
        try:
            value = result.value
        except InvalidValue:
            continue
        assert repr(formatter.snapshot()) == repr(value)


# --- text with holes ---------------------------------------------------------------------------------------------


def letter() -> FormatterBuilder:
    b = FormatterBuilder()
    name = b.string(name="name", max_length=10)
    b.append("Dear ", name, ": ", b.json(Item, name="item"), " x", b.integer(name="count"), ". ", name, "!")
    return b.append(b.until("end", name="rest"))


LETTER = 'Dear Zoë: {"title": "pé", "price": 2} x12. Zoë!so long, end'


@pytest.mark.parametrize(
    ("until", "expected"),
    [
        ("Dear", {}),
        ("Dear Zo", {"name": ("Zo",)}),
        ('"p', {"name": ("Zoë",), "item": Partial(Item, {"title": "p"})}),
        ("} x1", {"name": ("Zoë",), "item": Item("pé", 2.0)}),
        ("12. Z", {"name": ("Zoë", "Z"), "item": Item("pé", 2.0), "count": 12}),
        ("so long", {"name": ("Zoë", "Zoë"), "item": Item("pé", 2.0), "count": 12, "rest": "so long"}),
    ],
)
def test_holes_are_there_when_they_have_begun(until: str, expected: dict[str, Any]) -> None:
    assert after(letter(), LETTER, until=until).snapshot() == expected


COMBINED: list[tuple[Any, str]] = [
    (letter(), LETTER),
    (formats.sequence(formats.until("</think>"), formats.json_schema({"type": "object"})), 'Hm</x</think>{"a": [1]}'),
    (formats.repeat(formats.integer(), separator=", "), "1, 22, 333"),
    (formats.sequence("a", formats.optional("b"), formats.one_of("cc", Item)), 'a{"title": "", "price": 1}'),
    (formats.choice(["yes", "no"]), "yes"),
    (formats.regex("[a-z]*"), "abc"),
    (formats.integer(), "42"),
    (formats.until("."), "abc."),
    (formats.optional(formats.choice(["x"])), ""),
]


@pytest.mark.parametrize(("format", "text"), COMBINED)
def test_changes_make_the_snapshots_of_every_format(format: Any, text: str) -> None:
    formatter, heard = COMPILER.compile(format).formatter(), None
    for byte in text.encode():
        formatter.accept_bytes(bytes([byte]))
        heard = applied(as_json(formatter.deltas()), heard)
        assert heard == as_lists(formatter.snapshot(plain=True))
    formatter.accept_token(formatter.end_ids[0])
    heard = applied(as_json(formatter.deltas()), heard)
    assert heard == as_lists(formatter.snapshot(plain=True))
    assert formatter.snapshot() == formatter.result().value


def as_json(deltas: Sequence[JsonDelta]) -> list[JsonDelta]:
    return [JsonDelta(delta.op, delta.path, as_lists(delta.value)) for delta in deltas]


# --- streams -----------------------------------------------------------------------------------------------------


def test_a_stream_gives_snapshots_and_changes() -> None:
    text = '{"title": "a pen", "price": 1.5}'
    write = completion(TinyModel(writes(text.encode(), prompt=1)), Item, forced_text="off")
    events = list(write.stream("x", snapshots=True, deltas=True))
    values = [event.value for event in events if isinstance(event, Snapshot)]
    assert Partial(Item, {"title": "a p"}) in values
    assert values[-1] == Item("a pen", 1.5)
    heard = applied([event.delta for event in events if isinstance(event, ValueDelta)], None)
    assert heard == json.loads(text)
    assert isinstance(events[-1], Finished)
    plain = [event.value for event in write.stream("x", snapshots="plain") if isinstance(event, Snapshot)]
    assert plain[-1] == json.loads(text)
    assert not [event for event in write.stream("x") if isinstance(event, (Snapshot, ValueDelta))]


def test_a_snapshot_never_shows_what_may_be_a_stop_string() -> None:
    text = '{"title": "one, two", "price": 1}'
    write = completion(TinyModel(writes(text.encode(), prompt=1)), Item, forced_text="off", stop_strings=", two")
    values = [event.value for event in write.stream("x", snapshots=True) if isinstance(event, Snapshot)]
    assert values[-1] == Partial(Item, {"title": "one"})
    assert all(len(getattr(value, "title", "")) <= 3 for value in values)


@pytest.mark.parametrize("wrong", ["typed", 1, None])
def test_other_snapshots_are_refused(wrong: Any) -> None:
    with pytest.raises(InvalidArgument, match='give True, False or "plain"'):
        completion(TinyModel(writes(b"1", prompt=1)), int).stream("x", snapshots=wrong)
