"""Read pydantic's types: a JSON Schema as narrow as a formal language allows, and instances from JSON text.

Pydantic validates more than its own schemas say. This module adds what JSON Schema can express, so that a complete text
has a value; the rest (validators, files that must exist, clocks, check digits) is checked when a value is made. Only
this module imports pydantic.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from enum import Enum
from math import ceil, floor, isinf
from typing import Annotated, Any, NamedTuple

import pydantic
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue

from formatter_core.errors import InvalidFormat, InvalidValue
from formatter_core.errors.pointers import pointer_to
from formatter_core.formats.json_values import integral, may_overflow, refused, write_value
from formatter_core.formats.pydantic_patterns import (
    DATETIME,
    DECIMAL,
    NUMBER,
    TIGHTER_FORMATS,
    TIME,
    TIMEZONE_FREE,
    TIMEZONE_FREE_TIME,
    decimal_digits,
    integers,
    url,
)

__all__ = ["Adapted", "ModelField", "adapt", "model_fields"]


@dataclass(frozen=True)
class Adapted:
    """A type's schema, the definitions that it refers to, and a function that makes an instance.

    `convert` takes a value of `read_exact` and its JSON Pointer; it raises `InvalidValue` if the type rejects the
    value.
    """

    schema: dict[str, Any]
    definitions: dict[str, Any]
    convert: Callable[[Any, str], Any]


def adapt(tp: Any, prefix: str) -> Adapted:
    """Return pydantic's schema and validation of a type; the names of its definitions begin with `prefix`.

    Raises:
        InvalidFormat: pydantic has no JSON Schema for the type, or a text in it names something to import.
    """
    try:
        adapter = pydantic.TypeAdapter(tp)
        schema = adapter.json_schema(ref_template="#/$defs/" + prefix + "{model}", schema_generator=_Generator)
    except (pydantic.errors.PydanticUserError, NameError, TypeError, ImportError) as error:
        why = str(error).partition("\n")[0]  # the other lines address authors of pydantic extensions
        raise InvalidFormat(f"pydantic has no JSON Schema{'' if repr(tp) in why else f' for {tp!r}'}: {why}") from None
    definitions = {prefix + name: definition for name, definition in schema.pop("$defs", {}).items()}

    def convert(value: Any, pointer: str) -> Any:
        text = write_value(value)
        try:
            made = _validated(adapter, text, value)
        except pydantic.ValidationError as error:
            first = error.errors(include_url=False)[0]
            raise InvalidValue(first["msg"], text=text, pointer=pointer + _pointer(first["loc"], value)) from error
        except RecursionError:
            raise
        except Exception as error:  # a user's validator may raise anything
            raise refused(error, value, pointer) from error
        if may_overflow(text.encode()) and any(map(isinf, _floats(made))):
            raise InvalidValue("the number is too large for a float", text=text, pointer=pointer)
        return made

    return Adapted(schema, definitions, convert)


class ModelField(NamedTuple):
    """A field of a model: its name, and its type with its constraints."""

    name: str
    type: Any


def model_fields(tp: Any) -> dict[str, ModelField] | None:
    """Return the fields of a model or a dataclass by the keys that give them; None for any other type."""
    known = getattr(tp, "__pydantic_fields__", None)
    if not isinstance(tp, type) or not isinstance(known, Mapping) or issubclass(tp, pydantic.RootModel):
        return None
    found: dict[str, ModelField] = {}
    for name, info in known.items():
        aliases = info.validation_alias
        choices = aliases.choices if isinstance(aliases, pydantic.AliasChoices) else [aliases]
        notes = tuple(info.metadata)
        field = ModelField(name, Annotated[(info.annotation, *notes)] if notes else info.annotation)
        for key in (*choices, name):
            if isinstance(key, str):
                found.setdefault(key, field)
    return found


def _validated(adapter: pydantic.TypeAdapter[Any], text: str, value: Any) -> Any:
    try:
        return adapter.validate_json(text)
    except pydantic.ValidationError as error:
        # In JSON Schema 1.0 is an integer; in pydantic it is not if the type is strict, or the number is large.
        other = write_value(integral(value))
        if other == text:
            raise
        try:
            return adapter.validate_json(other)
        except pydantic.ValidationError:
            raise error from None


class _Generator(GenerateJsonSchema):
    """A generator of pydantic's schemas, narrowed to what its validation accepts; objects are closed unless extras are
    kept.
    """

    def generate_inner(self, schema: Any) -> JsonSchemaValue:
        if _imports(schema):
            raise InvalidFormat(
                "ImportString would import whatever the text names; use str, and import it yourself if that is safe"
            )
        made = super().generate_inner(schema)
        if made.get("type") == "string" and made.get("format") in ("base64", "base64url"):
            return _with(made, **TIGHTER_FORMATS[f"{made['format']} {schema.get('schema', {}).get('type')}"])
        if made.get("type") == "string" and made.get("format") in TIGHTER_FORMATS:
            return _with(made, **TIGHTER_FORMATS[made["format"]])
        if any(option.get("pattern", "").startswith(r"^\s*(\d*\.?\d+)\s*") for option in made.get("anyOf", ())):
            units = "|".join(sorted(pydantic.ByteSize.byte_sizes))
            size = {"type": "string", "pattern": rf"^[0-9]{{1,12}}(?:\.[0-9]{{1,6}})? ?(?:{units})?$"}
            return {**made, "anyOf": [size, {"type": "integer", "minimum": 0}]}
        return made

    def model_schema(self, schema: Any) -> JsonSchemaValue:
        made = super().model_schema(schema)
        return made if schema.get("root_model") else _closed(made, schema, schema["schema"])

    def dataclass_schema(self, schema: Any) -> JsonSchemaValue:
        return _closed(super().dataclass_schema(schema), schema)

    def typed_dict_schema(self, schema: Any) -> JsonSchemaValue:
        return _closed(super().typed_dict_schema(schema), schema)

    def tagged_union_schema(self, schema: Any) -> JsonSchemaValue:
        """Require the tag of a tagged union, even if its field has a default."""
        made = super().tagged_union_schema(schema)
        tag, known = schema["discriminator"], made.get("discriminator", {}).get("propertyName")
        if known is not None:
            made["oneOf"] = [_requiring(choice, known) for choice in made["oneOf"]]
        elif isinstance(tag, list):  # paths to the tag; only keys can be required
            keys = [path[0] for path in tag if isinstance(path, list) and len(path) == 1]
            made["anyOf"] = [{"required": [key]} for key in keys]
        return made

    def set_schema(self, schema: Any) -> JsonSchemaValue:
        return _set(super().set_schema(schema), schema)

    def frozenset_schema(self, schema: Any) -> JsonSchemaValue:
        return _set(super().frozenset_schema(schema), schema)

    def literal_schema(self, schema: Any) -> JsonSchemaValue:
        for value in schema["expected"]:
            if isinstance(value, Enum) and not isinstance(value, (str, int, float)):
                raise InvalidFormat(
                    f"pydantic takes {value!r} in a Literal from no JSON; use an enum of str, or a text"
                )
        return super().literal_schema(schema)

    def model_field_schema(self, schema: Any) -> JsonSchemaValue:
        return super().model_field_schema(self._with_a_key(schema))

    def dataclass_field_schema(self, schema: Any) -> JsonSchemaValue:
        return super().dataclass_field_schema(self._with_a_key(schema))

    def typed_dict_field_schema(self, schema: Any) -> JsonSchemaValue:
        return super().typed_dict_field_schema(self._with_a_key(schema))

    def _with_a_key(self, field: Any) -> Any:
        """Return a field, if an object's key gives it: its name or an alias, not only a path."""
        alias = field.get("validation_alias")
        by_name = any(getattr(self._config, name, None) for name in ("validate_by_name", "populate_by_name"))
        if (
            isinstance(alias, list)
            and not by_name
            and not any(isinstance(one, list) and len(one) == 1 for one in alias)
        ):
            raise InvalidFormat(f"a field is read from the path {alias!r} alone; give it an alias that is a key")
        return field

    def dict_schema(self, schema: Any) -> JsonSchemaValue:
        made = super().dict_schema(schema)
        names = self._names(schema["keys_schema"]) if "keys_schema" in schema else None
        if names is not None and names != {"type": "string"}:
            values = self.generate_inner(schema["values_schema"]) if "values_schema" in schema else {}
            made.pop("patternProperties", None)
            made["propertyNames"] = names
            made["additionalProperties"] = values or True
        return made

    def _names(self, key: Any) -> dict[str, Any] | None:
        """Return the texts that pydantic accepts for the keys of a `dict`; None for any."""
        if key["type"] == "nullable":  # None cannot be a key
            return self._names(key["schema"])
        if key["type"] == "union":
            choices = (choice[0] if isinstance(choice, tuple) else choice for choice in key["choices"])
            found = [self._names(choice) for choice in choices if choice["type"] != "none"]
            return {"anyOf": [each or {"type": "string"} for each in found]}
        if key["type"] in ("enum", "literal"):
            members = key["members"] if key["type"] == "enum" else key["expected"]
            return {"enum": [_name(member, key) for member in members]}
        made = self.generate_inner(key)
        kinds = made.get("type")
        bounds = made.keys() & {*_BOUNDS.values()} if key.get("allow_inf_nan", True) else set()
        if kinds == "integer" and "multipleOf" not in bounds:
            return {"type": "string", "pattern": integers(*_whole_bounds(made))}
        if kinds == "number" and not bounds:
            return {"type": "string", "pattern": NUMBER}
        if kinds in ("integer", "number"):
            raise InvalidFormat(f"a dict has keys that are numbers with bounds, {made}; use int, float or str keys")
        if kinds == "boolean":
            return {"enum": ["true", "false"]}
        if kinds in ("null", "array", "object"):
            raise InvalidFormat(f"a dict has keys that JSON cannot represent, {made}; use str keys")
        texts = [option for option in made.get("anyOf", ()) if option.get("type") == "string"]
        return (texts[0] if key["type"] == "decimal" and texts else made) or None

    def str_schema(self, schema: Any) -> JsonSchemaValue:
        made = super().str_schema(schema)
        if schema.get("strip_whitespace") and made.keys() & {"minLength", "pattern"}:
            made = _with(made, pattern=_NO_BLANKS_AROUND)
        return _with(made, pattern=_ASCII) if schema.get("ascii_only") else made

    def bytes_schema(self, schema: Any) -> JsonSchemaValue:
        made = super().bytes_schema(schema)
        return _with(made, pattern=_ASCII) if "max_length" in schema else made  # lengths count bytes, not characters

    def complex_schema(self, schema: Any) -> JsonSchemaValue:
        return _with(super().complex_schema(schema), pattern=r"^-?[0-9]{1,15}(?:\.[0-9]{1,15})?(?:[+-][0-9]{1,15}j)?$")

    def float_schema(self, schema: Any) -> JsonSchemaValue:
        made = super().float_schema(schema)
        if schema.get("allow_inf_nan") is False:
            if not made.keys() & {"minimum", "exclusiveMinimum"}:
                made["minimum"] = -_LARGEST
            if not made.keys() & {"maximum", "exclusiveMaximum"}:
                made["maximum"] = _LARGEST
        return made

    def decimal_schema(self, schema: Any) -> JsonSchemaValue:
        number: dict[str, Any] = {"type": "number"}
        for constraint, keyword in _BOUNDS.items():
            if schema.get(constraint) is not None:
                number[keyword] = Decimal(schema[constraint])
        digits, places = schema.get("max_digits"), schema.get("decimal_places")
        if digits is None and places is None:
            return number if len(number) > 1 else {"anyOf": [number, {"type": "string", "pattern": DECIMAL}]}
        pattern = {"type": "string", "pattern": decimal_digits(digits, places)}
        if len(number) == 1:
            limited = dict(number)
        else:
            limited, pattern = number, {}
        step = Decimal(1).scaleb(-(places or 0))
        limited = (
            {"allOf": [limited, {"multipleOf": step}]} if "multipleOf" in limited else {**limited, "multipleOf": step}
        )
        if digits is not None:
            most = Decimal(10) ** (digits - min(places or 0, digits))
            limited = {"allOf": [limited, {"exclusiveMinimum": -most, "exclusiveMaximum": most}]}
        return {"anyOf": [limited, pattern]} if pattern else limited

    def url_schema(self, schema: Any) -> JsonSchemaValue:
        return _url(schema, many=False)

    def multi_host_url_schema(self, schema: Any) -> JsonSchemaValue:
        return _url(schema, many=True)

    def date_schema(self, schema: Any) -> JsonSchemaValue:
        return {"type": "string", "format": "date", "pattern": "^(?!0000)"}

    def time_schema(self, schema: Any) -> JsonSchemaValue:
        offset = schema.get("tz_constraint")
        if offset is None or offset == "naive":
            return {"type": "string", "pattern": TIME if offset is None else TIMEZONE_FREE_TIME}
        return {"type": "string", "format": "time", "pattern": "^.{6}(?!60)"}

    def datetime_schema(self, schema: Any) -> JsonSchemaValue:
        offset = schema.get("tz_constraint")
        if offset is None or offset == "naive":
            return {"type": "string", "pattern": DATETIME if offset is None else TIMEZONE_FREE}
        return {"type": "string", "format": "date-time", "pattern": "^(?!0000).{17}(?!60)"}

    def timedelta_schema(self, schema: Any) -> JsonSchemaValue:
        return {"type": "string", "format": "duration", "pattern": "^(?!.*[0-9]{7})"}


_LARGEST = Decimal("1.7976931348623157e308")
_BOUNDS = {
    "ge": "minimum",
    "le": "maximum",
    "gt": "exclusiveMinimum",
    "lt": "exclusiveMaximum",
    "multiple_of": "multipleOf",
}
_ASCII = r"^[\x00-\x7f]*$"
#: Pydantic strips Unicode white space, which includes U+0085; ECMA 262 does not call it white space.
_NO_BLANKS_AROUND = r"^(?:[^\s\x85](?:[\s\S]*[^\s\x85])?)?$"


def _imports(schema: Mapping[str, Any]) -> bool:
    function = schema.get("function")
    return isinstance(function, dict) and getattr(function.get("function"), "__name__", None) == "import_string"


def _with(schema: dict[str, Any], **keywords: Any) -> dict[str, Any]:
    """Return a schema with more keywords instead of its `format`; keywords that it already has still hold."""
    plain = {keyword: value for keyword, value in schema.items() if keyword != "format"}
    return {"allOf": [plain, keywords]} if plain.keys() & keywords.keys() else {**plain, **keywords}


def _closed(made: JsonSchemaValue, *schemas: Mapping[str, Any]) -> JsonSchemaValue:
    kept = any(
        "allow" in (schema.get("extra_behavior"), schema.get("config", {}).get("extra_fields_behavior"))
        for schema in schemas
    )
    if made.get("type") == "object" and not kept:
        made.setdefault("additionalProperties", False)
    return made


def _requiring(schema: dict[str, Any], name: str) -> dict[str, Any]:
    required = schema.get("required", [])
    return schema if name in required else {**schema, "required": [*required, name]}


def _name(member: Any, key: Mapping[str, Any]) -> str:
    """Return the text from which pydantic reads an `Enum` or `Literal` member as a key of a `dict`."""
    value = member.value if isinstance(member, Enum) else member
    if isinstance(value, str):
        return str.__str__(value)
    is_number = key.get("sub_type") in ("int", "float") and isinstance(value, (int, float))
    if is_number or isinstance(value, bool):
        return write_value(value)
    raise InvalidFormat(f"a dict has the key {member!r}, which pydantic reads from no text; use str, or an IntEnum")


def _whole_bounds(schema: Mapping[str, Any]) -> tuple[int | None, int | None]:
    least = [ceil(schema["minimum"])] if "minimum" in schema else []
    least += [floor(schema["exclusiveMinimum"]) + 1] if "exclusiveMinimum" in schema else []
    most = [floor(schema["maximum"])] if "maximum" in schema else []
    most += [ceil(schema["exclusiveMaximum"]) - 1] if "exclusiveMaximum" in schema else []
    return max(least, default=None), min(most, default=None)


def _set(made: JsonSchemaValue, schema: Mapping[str, Any]) -> JsonSchemaValue:
    """Return a set as an array: duplicates count once, which matters only if a set must have several items."""
    if schema.get("items_schema", {}).get("type") in ("list", "set", "dict", "typed-dict"):
        raise InvalidFormat("a set has items that Python cannot hash; use a list, or items such as tuples")
    if made.get("minItems", 0) < 2 or not made["items"].keys() & {"enum", "const"}:
        made.pop("uniqueItems", None)
    return made


def _url(schema: Mapping[str, Any], many: bool) -> JsonSchemaValue:
    made = {"type": "string", "pattern": url(schema.get("allowed_schemes"), many, bool(schema.get("host_required")))}
    if "max_length" in schema:
        return {**made, "maxLength": schema["max_length"] - 1}  # pydantic adds a `/` after the host
    return made


def _pointer(location: Sequence[int | str], value: Any) -> str:
    """Return the JSON Pointer of a pydantic error location, without the names of validators."""
    pointer = ""
    for step in location:
        if isinstance(value, dict) and step in value:
            pointer = pointer_to(pointer, str(step))
            value = value[step]
        elif isinstance(value, list) and isinstance(step, int) and step < len(value):
            pointer = pointer_to(pointer, step)
            value = value[step]
    return pointer


def _floats(value: Any) -> Iterator[float]:
    """Yield every float in an object that pydantic made: in containers, models and dataclasses."""
    stack, seen = [value], set()
    while stack:
        one = stack.pop()
        if isinstance(one, float):
            yield one
        elif id(one) in seen or isinstance(one, (str, bytes, int, type)):
            continue
        elif isinstance(one, Mapping):
            stack.extend(one.values())
        elif isinstance(one, (list, tuple, set, frozenset)):
            stack.extend(one)
        elif hasattr(one, "__dict__"):
            stack.extend(vars(one).values())
        seen.add(id(one))
