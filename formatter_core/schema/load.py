"""Loading: JSON text to numbered schema locations, and references to the locations they mean.

A location's number, its *literal*, stands for its schema everywhere else, the negative number for its negation.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import unquote, urldefrag, urljoin

from formatter_core.errors import FormatterError, InvalidSchema, LimitExceeded, UnsupportedSchema
from formatter_core.limits import Limits
from formatter_core.schema.data import brief
from formatter_core.schema.keywords import (
    DIALECTS,
    LATEST,
    OF_LISTS,
    OF_OBJECTS,
    OF_ONE,
    SINCE,
    escaped,
    subschemas,
)

__all__ = [
    "FALSE", "TRUE", "Loader", "Location", "Resource", "below", "draft_of", "own_uri", "uri_and_fragment",
]  # fmt: skip

#: The literals of the schemas `true` and `false`.
TRUE = 1
FALSE = -1

#: Keywords that give a schema a URI or an anchor.
_IDENTIFIERS = frozenset(["$id", "id", "$anchor", "$dynamicAnchor", "$recursiveAnchor"])
_REFERENCES = frozenset(["$ref", "$dynamicRef", "$recursiveRef"])
#: Keywords that say something beside a `$ref`.
_BESIDE_REFERENCES = SINCE.keys() - {"$ref", "$defs", "definitions", "maxContains", "minContains"}
_HOLDERS = OF_OBJECTS | OF_ONE | OF_LISTS


@dataclass(eq=False, slots=True)
class Resource:
    """A schema with a base URI of its own. `anchors` also holds dynamic anchors."""

    schema: Any
    uri: str
    pointer: str
    draft: int
    anchors: dict[str, tuple[Any, str]] = field(default_factory=dict)
    dynamic: set[str] = field(default_factory=set)


@dataclass(eq=False, slots=True)
class Location:
    """A schema and its JSON Pointer, which follows a URI if the schema is not in the root resource."""

    schema: dict[str, Any]
    pointer: str
    resource: Resource

    def get(self, keyword: str) -> Any:
        """The keyword's value; None where it is absent or newer than the location's draft."""
        value = self.schema.get(keyword)
        return value if value is None or SINCE.get(keyword, 0) <= self.resource.draft else None

    def refers_only(self) -> bool:
        """Whether all that the schema says is a reference."""
        return "$ref" in self.schema and (self.resource.draft <= 7 or _BESIDE_REFERENCES.isdisjoint(self.schema))

    def invalid(self, keyword: str, expected: str) -> InvalidSchema:
        """The error for a value that a keyword does not take."""
        reason = f"`{keyword}` is {brief(self.schema[keyword])}; give {expected}"
        return InvalidSchema(reason, pointer=self.pointer, keyword=keyword)

    def at(self, *path: str | int) -> str:
        """The pointer of something below this schema."""
        pointer = self.pointer
        for step in path:
            pointer += "/" + escaped(step) if isinstance(step, str) else f"/{step}"
        return pointer


class Loader:
    """The locations of one schema, numbered on first use."""

    def __init__(self, schema: Any, limits: Limits, registry: Mapping[str, Any] | None = None) -> None:
        self._limits = limits
        self._registry = {uri.rstrip("#"): schema for uri, schema in (registry or {}).items()}
        self._numbers: dict[int, int] = {}
        self.locations: list[Location] = []
        self._resources: dict[str, Resource] = {}
        self.root_resource = self._add_resource(schema, "", "", LATEST)
        self.root = self.number(schema, "", self.root_resource)

    def location(self, literal: int) -> Location:
        """The location of a literal other than `TRUE` and `FALSE`."""
        return self.locations[abs(literal) - 2]

    def child(self, location: Location, *path: str | int) -> int:
        """The literal of the subschema at `path` below a location.

        Raises:
            InvalidSchema: the value there is not a schema.
        """
        schema: Any = location.schema
        for step in path:
            schema = schema[step]
        return self._numbers.get(id(schema)) or self.number(schema, location.at(*path), location.resource)

    def number(self, schema: Any, pointer: str, resource: Resource) -> int:
        """The literal of a schema, numbered on first use."""
        number = self._numbers.get(id(schema))
        if number is None:
            if schema is True or (schema == {} and isinstance(schema, dict)):
                return TRUE
            if schema is False:
                return FALSE
            if not isinstance(schema, dict):
                raise InvalidSchema(
                    f"expected a schema (an object or a boolean), found {brief(schema)}", pointer=pointer
                )
            if None in schema.values():
                _check_nulls(schema, pointer)
            if schema is not resource.schema:
                resource = self._resource_of(schema, pointer, resource)
            number = self._numbers[id(schema)] = len(self.locations) + 2
            self.locations.append(Location(schema, pointer, resource))
            if number > self._limits.nodes:
                raise LimitExceeded("nodes", self._limits.nodes, "the schema")
        return number

    def synthetic(self, schema: dict[str, Any], pointer: str) -> int:
        """The literal of a schema that stands for a part of a keyword's value."""
        return self.number(schema, pointer, self.root_resource)

    def resolve(self, location: Location, keyword: str) -> int:
        """The literal that a reference means.

        Raises:
            InvalidSchema: it points at nothing.
            UnsupportedSchema: it points outside the schema and the registry.
        """
        reference = location.schema[keyword]
        if not isinstance(reference, str):
            raise location.invalid(keyword, "the URI of a schema, or a pointer such as '#/$defs/name'")
        uri, fragment = uri_and_fragment(reference)
        resource = location.resource
        if uri:
            resource = self._find_resource(location, keyword, urljoin(resource.uri, uri), reference)
        fragment = unquote(fragment)
        if not fragment:
            return self.number(resource.schema, resource.pointer, resource)
        if fragment.startswith("/"):
            return self._follow(resource, fragment, location, keyword)
        if fragment not in resource.anchors:
            raise InvalidSchema(
                f"nothing in the schema has the anchor of the reference {reference!r}; correct it",
                pointer=location.pointer,
                keyword=keyword,
            )
        schema, pointer = resource.anchors[fragment]
        return self.number(schema, pointer, resource)

    def resolved(self, literal: int) -> int:
        """The literal that a chain of references ends at; the same where it ends nowhere, or says more than that."""
        target, passed = literal, {literal}
        while target > TRUE and (location := self.location(target)).refers_only():
            try:
                target = self.resolve(location, "$ref")
            except FormatterError:  # which lowering it reports
                return literal
            if target in passed:
                return literal
            passed.add(target)
        return target if abs(target) > TRUE else literal

    def dynamic_resources(self, anchor: str) -> list[Resource]:
        """The resources that have this dynamic anchor."""
        return [resource for resource in self._resources.values() if anchor in resource.dynamic]

    def all_locations(self) -> Iterator[Location]:
        """The root schema and every schema written inside it, parents first."""
        stack = [self.root]
        while stack:
            literal = stack.pop()
            if abs(literal) == TRUE:
                continue
            location = self.location(literal)
            yield location
            below = subschemas(location.schema, location.pointer)
            numbers = [
                self.number(child, pointer, location.resource)
                for child, pointer in below
                if isinstance(child, (dict, bool))
            ]
            stack.extend(reversed(numbers))

    def _find_resource(self, location: Location, keyword: str, uri: str, reference: str) -> Resource:
        if uri not in self._resources and uri in self._registry:
            self._add_resource(self._registry[uri], uri, uri + "#", location.resource.draft)
        if uri not in self._resources:
            which = "it" if uri == reference else repr(uri)
            reason = f"the reference {reference!r} points outside the schema; pass a registry with a schema for {which}"
            raise UnsupportedSchema(reason, pointer=location.pointer, keyword=keyword)
        return self._resources[uri]

    def _follow(self, resource: Resource, fragment: str, location: Location, keyword: str) -> int:
        schema: Any = resource.schema
        for step in fragment[1:].split("/"):
            try:
                schema = below(schema, step)
            except (KeyError, ValueError, IndexError, TypeError) as error:
                reason = f"the reference {location.schema[keyword]!r} points at nothing; correct it"
                raise InvalidSchema(reason, pointer=location.pointer, keyword=keyword) from error
            if schema is not resource.schema and isinstance(schema, dict):
                resource = self._resource_of(schema, "", resource)
        where = (uri_and_fragment(location.schema[keyword])[0] and resource.pointer) or location.resource.pointer
        return self.number(schema, where + fragment, resource)

    def _resource_of(self, schema: dict[str, Any], pointer: str, resource: Resource) -> Resource:
        if schema.keys().isdisjoint(_IDENTIFIERS):  # which takes as long for any number of definitions
            return resource
        uri = own_uri(schema, resource.uri, resource.draft)
        return resource if uri is None else self._resources.get(uri, resource)

    def _add_resource(self, schema: Any, uri: str, pointer: str, draft: int) -> Resource:
        """Add a schema, and every schema inside that has a URI of its own, with their anchors."""
        draft = draft_of(schema, draft, pointer)
        resource = Resource(schema, uri, pointer, draft)
        self._resources[uri] = resource
        look_below = _has_identifiersbelow(schema, referred=bool(uri))
        stack: list[tuple[Any, str, Resource]] = [(schema, pointer, resource)]
        while stack:
            schema, pointer, resource = stack.pop()
            if not isinstance(schema, dict):
                continue
            own = own_uri(schema, resource.uri, resource.draft)
            if own is not None and own not in self._resources:
                if schema is resource.schema:
                    resource.uri = own
                else:
                    resource = Resource(schema, own, pointer, draft_of(schema, resource.draft, pointer))
                self._resources[own] = resource
            _add_anchors(schema, pointer, resource)
            if look_below:
                stack.extend((child, path, resource) for child, path in subschemas(schema, pointer))
        return self._resources[uri]


def _check_nulls(schema: dict[str, Any], pointer: str) -> None:
    for keyword, value in schema.items():
        if value is None and keyword in SINCE and keyword != "const":
            raise InvalidSchema(
                f"`{keyword}` is null; leave it out, or give it a value", pointer=pointer, keyword=keyword
            )


def uri_and_fragment(reference: str) -> tuple[str, str]:
    """Both parts of a reference; most references have a fragment only."""
    if reference.startswith("#"):
        return "", reference[1:]
    uri, fragment = urldefrag(reference)
    return uri, fragment


def _has_identifiersbelow(schema: Any, *, referred: bool) -> bool:
    """Whether any schema inside this one may have a URI or an anchor that matters: one is of another draft, or refers.

    A quick check, because most have none. `referred`: others may refer to them.
    """
    stack = [schema]
    identified = False
    while stack:
        each = stack.pop()
        if not isinstance(each, dict):
            continue
        referred = referred or not _REFERENCES.isdisjoint(each) or (each is not schema and "$schema" in each)
        identified = identified or (each is not schema and not _IDENTIFIERS.isdisjoint(each))
        if identified and referred:
            return True
        for keyword in _HOLDERS.intersection(each):
            value = each[keyword]
            if isinstance(value, list):
                stack.extend(value)
            elif isinstance(value, dict):
                stack.extend(value.values() if keyword in OF_OBJECTS else (value,))
    return False


def own_uri(schema: dict[str, Any], base: str, draft: int) -> str | None:
    """The URI that a schema gives itself, relative to that of what it stands in; None if it has none."""
    value = schema.get("id" if draft == 4 else "$id")
    if not isinstance(value, str) or value.startswith("#") or (draft <= 7 and "$ref" in schema):
        return None
    return urldefrag(urljoin(base, value))[0]


def _add_anchors(schema: dict[str, Any], pointer: str, resource: Resource) -> None:
    if _IDENTIFIERS.isdisjoint(schema):
        return
    value = schema.get("id" if resource.draft == 4 else "$id")
    if resource.draft <= 7 and isinstance(value, str) and "#" in value and "$ref" not in schema:
        anchor = urldefrag(value)[1]
        if anchor:
            resource.anchors[anchor] = (schema, pointer)
    if resource.draft >= 2019:
        for keyword in ("$anchor", "$dynamicAnchor"):
            if isinstance(schema.get(keyword), str):
                resource.anchors[schema[keyword]] = (schema, pointer)
        if isinstance(schema.get("$dynamicAnchor"), str):
            resource.dynamic.add(schema["$dynamicAnchor"])
        if schema.get("$recursiveAnchor") is True and schema is resource.schema:
            resource.dynamic.add("")


def draft_of(schema: Any, default: int, pointer: str) -> int:
    """The draft that a schema names, or the default.

    Raises:
        InvalidSchema: its `$schema` is not a text.
        UnsupportedSchema: it names an unknown dialect.
    """
    if not isinstance(schema, dict) or "$schema" not in schema:
        return default
    name = schema["$schema"]
    if not isinstance(name, str):
        raise InvalidSchema(f"`$schema` is {brief(name)}; give a URI", pointer=pointer, keyword="$schema")
    draft = DIALECTS.get(name.rstrip("#"))
    if draft is None:
        raise UnsupportedSchema(
            f"unknown dialect {name!r}; use one of {', '.join(DIALECTS)}", pointer=pointer, keyword="$schema"
        )
    return draft


def below(value: Any, step: str) -> Any:
    """What a step of a JSON Pointer leads to."""
    step = step.replace("~1", "/").replace("~0", "~")
    return value[int(step)] if isinstance(value, list) else value[step]
