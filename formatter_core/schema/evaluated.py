"""`unevaluatedProperties` and `unevaluatedItems`: values that no other keyword evaluated."""

from __future__ import annotations

from dataclasses import replace

from formatter_core.schema.load import TRUE, Loader, Location
from formatter_core.schema.report import Refusals
from formatter_core.schema.shapes import ArrayPart, ArraySet, ObjectPart, ObjectSet, Shape, meet_arrays, meet_objects

__all__ = ["with_rest"]


def with_rest(location: Location, shape: Shape, loader: Loader, refusals: Refusals) -> Shape:
    """The shape with both keywords applied, where the location has them."""
    if location.get("unevaluatedProperties") is not None:
        literal = loader.child(location, "unevaluatedProperties")
        objects = (_rest_of_object(item, literal) for item in shape.objects)
        shape = replace(shape, objects=tuple(item for item in objects if item is not None))
    if location.get("unevaluatedItems") is not None:
        literal = loader.child(location, "unevaluatedItems")
        if literal != TRUE and any(item.contains for item in shape.arrays):
            reason = "beside `contains` it depends on which items matched; remove one of them"
            refusals.refuse(location.pointer, "unevaluatedItems", reason)
            return shape
        arrays = (_rest_of_array(item, literal) for item in shape.arrays)
        shape = replace(shape, arrays=tuple(item for item in arrays if item is not None))
    return shape


def _rest_of_object(objects: ObjectSet, literal: int) -> ObjectSet | None:
    parts = [part for part in objects.parts if not part.silent]
    if any(part.evaluates for part in parts):
        return objects
    named = {name: TRUE for part in parts for name in part.named}
    patterns = tuple(dict.fromkeys((pattern, TRUE) for part in parts for pattern, _ in part.patterns))
    return meet_objects(objects, ObjectSet((ObjectPart(named, patterns, literal, evaluates=True),)))


def _rest_of_array(arrays: ArraySet, literal: int) -> ArraySet | None:
    parts = [part for part in arrays.parts if not part.silent]
    if any(part.evaluates for part in parts):
        return arrays
    longest = max((len(part.prefix) for part in parts), default=0)
    return meet_arrays(arrays, ArraySet((ArrayPart((TRUE,) * longest, literal, True),)))
