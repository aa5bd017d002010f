"""Show unfinished instances of Python types while their JSON is written."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, Generic, NoReturn, TypeVar

from formatter_core.errors import InvalidValue
from formatter_core.errors.pointers import pointer_to
from formatter_core.formats.arms import Arms
from formatter_core.formats.json_reader import JsonFrame, JsonReader
from formatter_core.formats.json_values import read_exact
from formatter_core.formats.protocol import NOTHING
from formatter_core.formats.shapes import Inside, JsonKind, Shaped, opened

__all__ = ["Partial", "TypedView"]

T_co = TypeVar("T_co", covariant=True)


class Partial(Generic[T_co]):
    """An unfinished instance of a class, with the fields of which something is certain.

    A field is an attribute: `partial.name`; `hasattr(partial, "name")`, `"name" in partial` or `getattr(partial,
    "name", None)` tell whether it is known, and `vars(partial)` has all known fields. A complete field has the value of
    its type, a string is as long as it is written, a list has its complete items and the item that has begun, and an
    object that has begun is a `Partial` or a dict.
    """

    __slots__ = ("__dict__", "_type")

    def __init__(self, cls: type[T_co], fields: Mapping[str, Any]) -> None:
        object.__setattr__(self, "_type", cls)
        self.__dict__.update(fields)

    if TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any: ...
    else:

        def __getattr__(self, name: str) -> NoReturn:
            raise AttributeError(f"{name!r} is not written yet, or {self._type.__name__} has no such field")

    def __setattr__(self, name: str, value: Any) -> NoReturn:
        raise AttributeError("a snapshot cannot be changed")

    def __delattr__(self, name: str) -> NoReturn:
        raise AttributeError("a snapshot cannot be changed")

    def __contains__(self, name: object) -> bool:
        return name in self.__dict__

    def __iter__(self) -> Iterator[str]:
        """Iterate over the names of the known fields, in the order in which they were written."""
        return iter(self.__dict__)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Partial) and self._type is other._type and self.__dict__ == other.__dict__

    __hash__ = None  # type: ignore[assignment]  # its fields may be lists

    def __reduce__(self) -> tuple[Any, ...]:
        return Partial, (self._type, self.__dict__)

    def __repr__(self) -> str:
        fields = ", ".join(f"{name}={value!r}" for name, value in self.__dict__.items())
        return f"Partial[{self._type.__name__}]({fields})"


class TypedView:
    """A view of what a `JsonReader` has read as an instance of a type; the reader must keep its text.

    Each part is converted once when it is complete, and once more as part of the value around it.

    Args:
        shaped: the type.
        arms: decides between the alternatives of its unions.
        reader: the reader of the text.
    """

    def __init__(self, shaped: Shaped, arms: Arms, reader: JsonReader) -> None:
        self._shaped = shaped
        self._arms = arms
        self._reader = reader
        self._whole: Any = NOTHING

    def snapshot(self, open_numbers: bool) -> Any:
        """Return the instance so far; `NOTHING` before it begins."""
        reader = self._reader
        if reader.whole is not None:
            if self._whole is NOTHING:
                self._whole = self._converted(self._shaped, *reader.whole, "")
            return self._whole
        shaped: Shaped | None = self._shaped
        pointer = ""
        levels: list[tuple[JsonFrame, _Level]] = []
        for frame in reader.frames:
            if frame.view is None:
                frame.view = _Level(frame, shaped, pointer)
            level: _Level = frame.view
            self._take_fresh(frame, level)
            levels.append((frame, level))
            place = frame.place
            shaped = None if place is None else level.part(place)
            pointer = pointer if place is None else pointer_to(level.pointer, place)
        inside = self._open_scalar(shaped, open_numbers)
        for frame, level in reversed(levels):
            inside = level.shown(frame.place, inside)
        return inside

    def _open_scalar(self, shaped: Shaped | None, open_numbers: bool) -> Any:
        text = self._reader.open_text()
        if text is None:
            return self._reader.open_number() if open_numbers else NOTHING
        way = None if shaped is None else opened(shaped, "string")
        return text if way is not None and way.is_shown else NOTHING

    def _take_fresh(self, frame: JsonFrame, level: _Level) -> None:
        """Convert the values completed since the last call."""
        for place, start, end in frame.fresh:
            made = frame.value[place]  # type: ignore[index]
            level.add(place, self._converted(level.part(place), made, start, end, pointer_to(level.pointer, place)))
        frame.fresh.clear()

    def _converted(self, shaped: Shaped | None, made: Any, start: int, end: int, pointer: str) -> Any:
        """Return the instance of a text; JSON data if its type is not known yet, or rejects it.

        A rejected value raises an error when the whole value is read; until then it is shown as JSON data.
        """
        if shaped is None:
            return made
        try:
            return shaped.convert(read_exact(self._reader.text(start, end).encode()), pointer, self._arms)
        except (InvalidValue, RecursionError):
            return made


class _Level:
    """An open object or array, as its type shows it.

    Attributes:
        pointer: the JSON Pointer to it.
    """

    __slots__ = ("_made", "_way", "pointer")

    def __init__(self, frame: JsonFrame, shaped: Shaped | None, pointer: str) -> None:
        kind: JsonKind = "array" if isinstance(frame.value, list) else "object"
        self._way: Inside | None = None if shaped is None else opened(shaped, kind)
        self._made: Any = type(frame.value)()
        self.pointer = pointer

    def part(self, place: str | int) -> Shaped | None:
        return None if self._way is None else self._way.part(place)

    def add(self, place: str | int, value: Any) -> None:
        if isinstance(self._made, list):
            self._made.append(value)
        else:
            self._made[self._name(place)] = value

    def shown(self, place: str | int | None, inside: Any) -> Any:
        """Return the value so far, including the open value inside."""
        made = self._made.copy()
        if inside is NOTHING or place is None:
            pass
        elif isinstance(made, list):
            made.append(inside)
        else:
            made[self._name(place)] = inside
        return made if self._way is None else self._way.show(made)

    def _name(self, place: str | int) -> Any:
        return place if self._way is None else self._way.name(place)
