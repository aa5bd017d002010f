"""Convert Python types and callables to JSON Schema, and JSON values to instances of them.

A type becomes a `Shaped`: its schema, and a function that makes the instance of a JSON value that satisfies it, or
raises `InvalidValue` if the type rejects the value. JSON values are those of `json_values.read_exact`: a number may be
a `Decimal`. Classes become definitions, so that a type may refer to itself.
"""

from __future__ import annotations

import collections.abc
import dataclasses
import enum
import inspect
import types
import typing
from collections.abc import Callable, Iterable, Mapping, Sequence
from decimal import Decimal
from functools import cache, partial
from math import isfinite
from typing import Any, cast

from formatter_core.errors import FormatterError, InvalidFormat, InvalidValue, LimitExceeded
from formatter_core.formats.arms import Arms
from formatter_core.formats.json_values import plain, refused
from formatter_core.formats.partial import Partial
from formatter_core.formats.shapes import HIDDEN, Inside, Shaped
from formatter_core.limits.turns import give_way

__all__ = ["shape_of"]

#: Maximum nesting of a type; deeper ones are refused.
_MAX_NESTED_TYPES = 100


def shape_of(tp: Any) -> Shaped:
    """Return the schema of a type, or of a callable's parameters, with the conversion of values.

    Supported are bool, int, float, str, None, Any, object, `Literal`, `Enum`, unions, list, tuple, set, frozenset, dict
    and their abstract counterparts, `TypedDict`, `NamedTuple` (as objects), dataclasses, `NewType`, functions (an
    object of keyword arguments), and `Annotated` with keywords of JSON Schema in a dict. If pydantic 2 is installed,
    its `TypeAdapter` reads all other types: models, other `Annotated`, dates … Of the user's code, only constructors of
    the classes and pydantic's validation are called.

    Raises:
        InvalidFormat: the type, or a part of it, is not supported.
        LimitExceeded: the type is nested too deeply.
    """
    reader = _Reader()
    shaped = reader.read(tp)
    if reader.definitions:
        shaped = Shaped({**shaped.schema, "$defs": reader.definitions}, shaped.convert, shaped.insides)
    return shaped


class _Reader:
    def __init__(self) -> None:
        self.definitions: dict[str, Any] = {}
        self._classes: dict[Any, Shaped] = {}
        self._adapters = 0
        self._depth = 0

    def read(self, tp: Any) -> Shaped:
        """Return the shape of one type."""
        if self._depth >= _MAX_NESTED_TYPES:
            raise LimitExceeded("levels", _MAX_NESTED_TYPES, "the nesting of the type", is_fixed=True)
        self._depth += 1
        give_way()
        try:
            return self._read(tp)
        finally:
            self._depth -= 1

    def _read(self, tp: Any) -> Shaped:
        origin, arguments = typing.get_origin(tp), typing.get_args(tp)
        if origin is not None:
            return self._generic(tp, origin, arguments)
        if tp is None or tp is type(None):
            return Shaped({"type": "null"}, _same)
        if tp is Any or tp is object:
            return _ANY
        if isinstance(tp, typing.NewType):
            return self.read(tp.__supertype__)
        if not isinstance(tp, type):
            return self._callable(tp) if inspect.isroutine(tp) else self._adapted(tp)
        if tp in _SCALARS:
            return _SCALARS[tp]
        if tp in _ITERABLES or tp is tuple:
            return self._generic(tp, tp, (Any, ...) if tp is tuple else (Any,))
        if tp in _MAPPINGS:
            return self._generic(tp, tp, (str, Any))
        if hasattr(tp, "__pydantic_core_schema__"):
            return self._adapted(tp)
        if issubclass(tp, enum.Enum):
            return _one_of({_key(member.value, tp): member for member in tp})
        if dataclasses.is_dataclass(tp) or typing.is_typeddict(tp) or hasattr(tp, "_field_defaults"):
            return self._class(tp)
        return self._adapted(tp)

    def _generic(self, tp: Any, origin: Any, arguments: tuple[Any, ...]) -> Shaped:
        if origin is typing.Annotated and all(isinstance(note, dict) for note in tp.__metadata__):
            return self._with_keywords(tp.__origin__, tp.__metadata__)
        if origin is typing.Literal:
            return _one_of({_key(value, tp): value for value in arguments})
        if origin in (typing.Union, types.UnionType):
            return _union([self.read(argument) for argument in arguments])
        if getattr(origin, "_name", None) in ("Required", "NotRequired", "ReadOnly"):
            return self.read(arguments[0])
        if origin is tuple:
            return self._tuple(arguments)
        if origin in _ITERABLES:
            item, make = self.read(arguments[0]), _ITERABLES[origin]
            if make in (set, frozenset) and _makes_unhashable(arguments[0]):
                raise InvalidFormat(f"{tp!r} has items that Python cannot hash; use a list, or items such as tuples")
            return _list_of(item, make)
        if origin in _MAPPINGS:
            return self._mapping(tp, *arguments)
        return self._adapted(tp)

    def _mapping(self, tp: Any, key_type: Any, item_type: Any) -> Shaped:
        key, item = self._key(key_type, tp), self.read(item_type)
        schema: dict[str, Any] = {"type": "object"}
        if key.schema != _SCALARS[str].schema:
            schema["propertyNames"] = key.schema
        if item.schema:
            schema["additionalProperties"] = item.schema
        insides = (Inside("object", part=lambda name: item),)
        if key is _SCALARS[str] and item is _ANY:
            return Shaped(schema, _ANY.convert, lambda: insides)

        def convert(value: Any, pointer: str, arms: Arms) -> Any:
            return {
                key.convert(name, _below(pointer, name), arms): item.convert(one, _below(pointer, name), arms)
                for name, one in value.items()
            }

        return Shaped(schema, convert, lambda: insides)

    def _key(self, tp: Any, mapping: Any) -> Shaped:
        """Return the shape of a type as a key of a `dict`: the texts that its instances are read
        from, as in pydantic.
        """
        if typing.get_origin(tp) in (typing.Union, types.UnionType):
            members = (member for member in typing.get_args(tp) if member is not type(None))  # None has no text
            return _union([self._key(member, mapping) for member in members])
        key = self.read(str if tp is Any or tp is object else tp)
        if _has_only_texts(key.schema):
            return key
        mapped = self._adapted(dict[tp, bool])
        if mapped.schema.get("propertyNames") is None:
            raise InvalidFormat(f"{mapping!r} has keys that JSON cannot represent; use str keys")
        return Shaped(
            mapped.schema["propertyNames"],
            lambda value, pointer, arms: next(iter(mapped.convert({value: True}, pointer.rpartition("/")[0], arms))),
        )

    def _with_keywords(self, tp: Any, notes: Iterable[dict[str, Any]]) -> Shaped:
        """Return a type with keywords of JSON Schema, `Annotated[str, {"maxLength": 40}]`, in addition to the type's
        own.
        """
        plain = self.read(tp)
        schema = plain.schema
        for note in notes:
            schema = {"allOf": [schema], **note} if schema.keys() & note.keys() else {**schema, **note}
        return Shaped(schema, plain.convert, lambda: plain.insides())

    def _tuple(self, arguments: tuple[Any, ...]) -> Shaped:
        if len(arguments) == 2 and arguments[1] is ...:
            return _list_of(self.read(arguments[0]), tuple)
        items = [self.read(argument) for argument in arguments]
        schema: dict[str, Any] = {"type": "array", "items": False, "minItems": len(items)}
        if items:
            schema["prefixItems"] = [item.schema for item in items]

        def convert(value: Any, pointer: str, arms: Arms) -> Any:
            pairs = enumerate(zip(items, value, strict=True))
            return tuple(item.convert(one, f"{pointer}/{index}", arms) for index, (item, one) in pairs)

        def part(index: int) -> Shaped | None:
            return items[index] if index < len(items) else None

        return Shaped(schema, convert, lambda: (Inside("array", part=part, show=tuple),))

    def _class(self, cls: type) -> Shaped:
        """Return a class with named fields, as a definition that it may refer to itself."""
        known = self._classes.get(cls)
        if known is not None:
            return known
        name, count = cls.__name__, 1
        while name in self.definitions:
            count += 1
            name = f"{cls.__name__}{count}"
        self.definitions[name] = {}
        shaped = self._classes[cls] = Shaped({"$ref": _below("#/$defs", name)}, _same)
        hints = _hints(cls)
        if dataclasses.is_dataclass(cls):
            fields, required = _dataclass_fields(cls, hints)
        elif typing.is_typeddict(cls):
            fields, required = hints, frozenset(cls.__required_keys__)  # type: ignore[attr-defined]
        else:
            fields = {field: hints.get(field, Any) for field in cls._fields}  # type: ignore[attr-defined]
            required = frozenset(fields) - frozenset(cls._field_defaults)  # type: ignore[attr-defined]
        make: Callable[..., Any] = dict if typing.is_typeddict(cls) else cls
        made = self._object(fields, required, make)
        self.definitions[name] = made.schema
        shaped.convert, shaped.insides = made.convert, made.insides
        return shaped

    def _object(self, fields: Mapping[str, Any], required: frozenset[str], make: Callable[..., Any]) -> Shaped:
        shapes = {name: self.read(tp) for name, tp in fields.items()}
        schema = {
            "type": "object",
            "properties": {name: shape.schema for name, shape in shapes.items()},
            "required": [name for name in shapes if name in required],
            "additionalProperties": False,
        }

        def convert(value: Any, pointer: str, arms: Arms) -> Any:
            fields = {name: shapes[name].convert(one, _below(pointer, name), arms) for name, one in value.items()}
            return _made(lambda: make(**fields), value, pointer)

        show: Callable[[Any], Any] = dict if make is dict else partial(Partial, cast("type[Any]", make))
        return Shaped(schema, convert, lambda: (Inside("object", part=shapes.get, show=show),))

    def _callable(self, function: Callable[..., Any]) -> Shaped:
        """Return the keyword arguments of a function, which is not called."""
        try:
            parameters = inspect.signature(function).parameters
        except (TypeError, ValueError) as error:
            raise InvalidFormat(
                f"{function!r} has no signature that Python can inspect; wrap it in a function"
            ) from error
        hints = _hints(function)
        fields: dict[str, Any] = {}
        for name, parameter in parameters.items():
            if parameter.kind not in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY):
                reason = f"the parameter {parameter} of {function!r} cannot be passed by name; wrap the function"
                raise InvalidFormat(reason)
            fields[name] = hints.get(name, Any)
        required = frozenset(name for name, parameter in parameters.items() if parameter.default is parameter.empty)
        return self._object(fields, required, dict)

    def _adapted(self, tp: Any) -> Shaped:
        """Return the shape of a type that pydantic knows."""
        try:
            from formatter_core.formats.pydantic_types import (
                adapt,  # only this module imports pydantic, which is optional
            )
        except ImportError as error:
            reason = f"{tp!r} is not a type that has a JSON Schema by itself; install pydantic, or use another type"
            raise InvalidFormat(reason) from error
        self._adapters += 1
        adapted = adapt(tp, f"pydantic.{self._adapters}." if self._adapters > 1 else "")
        self.definitions.update(adapted.definitions)
        insides = cache(lambda: _adapted_insides(tp))
        return Shaped(adapted.schema, lambda value, pointer, arms: adapted.convert(value, pointer), insides)


def _adapted_insides(tp: Any) -> Sequence[Inside]:
    """Return how to show pydantic's models and dataclasses, and types with notes for it."""
    from formatter_core.formats.pydantic_types import model_fields

    if typing.get_origin(tp) is typing.Annotated:
        return _insides_of(tp.__origin__)
    fields = model_fields(tp)
    if fields is None:
        return HIDDEN

    @cache
    def part(key: str) -> Shaped | None:
        found = fields.get(key)
        return _ANY if found is None else _field(found.type)

    def name(key: str) -> str:
        found = fields.get(key)
        return key if found is None else found.name

    return (Inside("object", part=part, name=name, show=partial(Partial, tp)),)


def _field(tp: Any) -> Shaped | None:
    """Return the shape of a model's field alone: its conversion, and how an unfinished value is shown."""
    if isinstance(tp, type) and tp in _SCALARS:
        return _SCALARS[tp]
    try:
        from formatter_core.formats.pydantic_types import adapt

        adapted = adapt(tp, "")
    except FormatterError:
        return None
    convert = adapted.convert
    return Shaped({}, lambda value, pointer, arms: convert(value, pointer), cache(lambda: _insides_of(tp)))


def _insides_of(tp: Any) -> Sequence[Inside]:
    try:
        return _Reader().read(tp).insides()
    except FormatterError:
        return HIDDEN


def _same(value: Any, pointer: str, arms: Arms) -> Any:
    return value


def _below(pointer: str, key: str) -> str:
    if "~" not in key and "/" not in key:
        return f"{pointer}/{key}"
    return f"{pointer}/{key.replace('~', '~0').replace('/', '~1')}"


def _made(make: Callable[[], Any], value: Any, pointer: str) -> Any:
    """Call the user's constructor, which may check more than its annotations say, and raise anything."""
    try:
        return make()
    except RecursionError:
        raise
    except Exception as error:
        raise refused(error, value, pointer) from error


def _makes_unhashable(tp: Any) -> bool:
    """Return whether no instance of a type can be in a set."""
    made = typing.get_origin(tp) or tp
    made = _ITERABLES.get(made, dict if made in _MAPPINGS else made)
    return isinstance(made, type) and made.__hash__ is None


def _list_of(item: Shaped, make: Callable[[Iterable[Any]], Any]) -> Shaped:
    def convert(value: Any, pointer: str, arms: Arms) -> Any:
        items = [item.convert(one, f"{pointer}/{index}", arms) for index, one in enumerate(value)]
        return items if make is list else _made(lambda: make(items), value, pointer)

    show = tuple if make is tuple else list
    insides = (Inside("array", part=lambda index: item, show=show),)
    return Shaped({"type": "array", **({"items": item.schema} if item.schema else {})}, convert, lambda: insides)


def _union(options: Sequence[Shaped]) -> Shaped:
    schemas = [option.schema for option in options]

    def convert(value: Any, pointer: str, arms: Arms) -> Any:
        refusals: list[InvalidValue] = []
        for index in arms.of(value, schemas):
            try:
                return options[index].convert(value, pointer, arms)
            except InvalidValue as error:  # the type's own check rejects the value
                refusals.append(error)
        raise refusals[0]

    return Shaped({"anyOf": schemas}, convert, lambda: [way for option in options for way in option.insides()])


def _has_only_texts(schema: Mapping[str, Any]) -> bool:
    listed = schema.get("enum", [schema["const"]] if "const" in schema else None)
    return schema.get("type") == "string" if listed is None else all(isinstance(value, str) for value in listed)


def _one_of(members: Mapping[tuple[bool, Any], Any]) -> Shaped:
    """Return the shape of one of these values; `_key` makes the keys from JSON values."""

    def key(value: Any) -> tuple[bool, Any]:
        exact = isinstance(value, bool), value
        return exact if exact in members else (exact[0], _rounded(value))

    listed = [value for _, value in members]
    insides = HIDDEN[:1] if any(isinstance(value, str) for value in listed) else ()
    return Shaped({"enum": listed}, lambda value, pointer, arms: members[key(value)], lambda: insides)


def _key(value: Any, tp: Any) -> tuple[bool, Any]:
    if isinstance(value, enum.Enum):
        value = value.value
    if not isinstance(value, (bool, int, float, str, type(None))):
        raise InvalidFormat(f"{tp!r} has the value {value!r}, which JSON cannot represent; use strings or numbers")
    for kind in (bool, str, int, float):
        if isinstance(value, kind):
            value = kind(value) if kind is not str else str.__str__(value)
            break
    return isinstance(value, bool), value


def _hints(thing: Any) -> dict[str, Any]:
    try:
        return typing.get_type_hints(thing, include_extras=True)
    except (NameError, TypeError, AttributeError) as error:
        raise InvalidFormat(f"the annotations of {thing!r} cannot be resolved: {error}") from None


def _dataclass_fields(cls: Any, hints: Mapping[str, Any]) -> tuple[dict[str, Any], frozenset[str]]:
    for name, hint in hints.items():
        if isinstance(hint, dataclasses.InitVar):
            raise InvalidFormat(f"{cls!r} has the InitVar {name!r}, which is not a field; use a plain field")
    fields = {field.name: hints[field.name] for field in dataclasses.fields(cls) if field.init}
    missing = type(dataclasses.MISSING)  # a class pickled by value, as Ray does, has its own MISSING
    return fields, frozenset(
        field.name
        for field in dataclasses.fields(cls)
        if field.init and isinstance(field.default, missing) and isinstance(field.default_factory, missing)
    )


def _rounded(value: Any) -> Any:
    return float(value) if isinstance(value, Decimal) else value


def _to_float(value: Any, pointer: str, arms: Arms) -> float:
    try:
        made = float(value)
    except OverflowError:
        made = float("inf")
    if not isfinite(made):
        raise InvalidValue("the number is too large for a float", text=str(Decimal(value)), pointer=pointer)
    return made


_ANY: Shaped = Shaped(
    {},
    lambda value, pointer, arms: plain(value),
    lambda: (Inside("string"), Inside("array", part=lambda index: _ANY), Inside("object", part=lambda key: _ANY)),
)
_SCALARS: dict[type, Shaped] = {
    bool: Shaped({"type": "boolean"}, _same),
    int: Shaped({"type": "integer"}, lambda value, pointer, arms: int(value)),
    float: Shaped({"type": "number"}, _to_float),
    str: Shaped({"type": "string"}, _same, lambda: (Inside("string"),)),
}
_ITERABLES: dict[Any, Callable[[Iterable[Any]], Any]] = {
    list: list,
    set: set,
    frozenset: frozenset,
    collections.abc.Sequence: list,
    collections.abc.MutableSequence: list,
    collections.abc.Iterable: list,
    collections.abc.Collection: list,
    collections.abc.Set: set,
    collections.abc.MutableSet: set,
}
_MAPPINGS = (dict, collections.abc.Mapping, collections.abc.MutableMapping)
