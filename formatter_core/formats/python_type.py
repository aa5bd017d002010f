"""Define JSON that is an instance of a Python type."""

from __future__ import annotations

from collections.abc import Collection, Hashable
from dataclasses import dataclass, field, replace
from typing import Any, NoReturn, get_origin

from formatter_core.errors import InvalidFormat, InvalidValue
from formatter_core.errors.arguments import not_picklable, shown
from formatter_core.formats.arms import Arms
from formatter_core.formats.json_schema import JsonSchemaFormat, json_schema
from formatter_core.formats.json_values import read_exact
from formatter_core.formats.one_of import Alternatives
from formatter_core.formats.partial import TypedView
from formatter_core.formats.protocol import Lowered
from formatter_core.formats.shapes import Shaped
from formatter_core.formats.type_schemas import shape_of
from formatter_core.formats.unfinished import JsonSoFar
from formatter_core.limits import Limits
from formatter_core.parsing.captures import Match

__all__ = ["PythonTypeFormat", "python_type", "with_schema"]


@dataclass(frozen=True)
class PythonTypeFormat(Alternatives):
    """A format of JSON for an instance of a type; the value is that instance."""

    type: Any
    schema: JsonSchemaFormat
    shaped: Shaped = field(compare=False, repr=False)

    def __copy__(self) -> PythonTypeFormat:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> PythonTypeFormat:
        return self

    def __reduce__(self) -> NoReturn:
        raise not_picklable(self, "send the type, and call formats.python_type there")

    def to_grammar(self, limits: Limits) -> Lowered:
        lowered = self.schema.to_grammar(limits)
        arms = Arms(self.schema, limits)
        unfinished = JsonSoFar(lambda reader: TypedView(self.shaped, arms, reader))
        value = _Instance(self, limits, arms)
        return Lowered(lowered.grammar, value=value, why_empty=lowered.why_empty, unfinished=unfinished)

    def to_json(self) -> dict[str, Any]:
        """Return the schema and the name of the type; `from_json` takes the type itself only from its caller."""
        name = getattr(self.type, "__qualname__", None) or shown(self.type)
        return {"type": "python_type", "name": name, "schema": self.schema.to_json()}

    def key(self) -> Hashable:
        try:
            hash(self.type)
        except TypeError:  # an `Annotated` with a dict; the format keeps the type, so its id stays valid
            return ("python_type", id(self.type), self.schema.key())
        return ("python_type", self.type, self.schema.key())


@dataclass(frozen=True)
class _Instance:
    """A converter from a text to an instance; those of one type are equal, so that alternatives may use one capture
    name.
    """

    format: PythonTypeFormat
    limits: Limits
    arms: Arms = field(compare=False)

    def __call__(self, match: Match) -> Any:
        try:
            return self.format.shaped.convert(read_exact(match.data), "", self.arms)
        except InvalidValue as error:
            raise InvalidValue(error.reason, text=match.text, pointer=error.pointer) from error.__cause__


def python_type(tp: Any, **options: Any) -> PythonTypeFormat:
    """Return the format of JSON for an instance of `tp`, with the options of `json_schema`.

    Supported types are bool, int, float, str, None, Any, `Literal`, `Enum`, unions, list, tuple, set, frozenset, dict
    and their abstract counterparts, `TypedDict`, `NamedTuple`, dataclasses and `NewType`. Functions are supported too,
    but never called: their value is a dict of keyword arguments. With pydantic 2 installed, its models and all types of
    its `TypeAdapter` are supported, too. An object of a dataclass, a `TypedDict` or a `NamedTuple` has the fields'
    names in their order and no others; fields with defaults may be omitted. The same holds for pydantic's models,
    unless they have `extra="allow"`.

    The schema is narrowed to what pydantic accepts, as far as masks can enforce it. In the other cases, reading the
    value of a complete text raises `InvalidValue`; docs/json_schema.md lists them.

    Raises:
        InvalidFormat: the type, or a part of it, is not supported.
    """
    if isinstance(tp, Collection) and not isinstance(tp, type) and not get_origin(tp):
        raise InvalidFormat(
            f"{shown(tp)} is not a type; give a type or a function, "
            "or use formats.json_schema(schema) for a schema and formats.example(value) for an example"
        )
    shaped = shape_of(tp)
    return PythonTypeFormat(tp, json_schema(shaped.schema, **options), shaped)


def with_schema(tp: Any, schema: JsonSchemaFormat) -> PythonTypeFormat:
    """Return the format of a type, with the options in `schema`, which was read from JSON.

    Raises:
        InvalidFormat: the schema of this type is different.
    """
    made = python_type(tp)
    if repr(made.schema.schema) != repr(schema.schema):
        raise InvalidFormat(
            f"the JSON data describe a type with another schema than {shown(tp)}; pass the type that was saved"
        )
    return replace(made, schema=schema)
