"""Python declares the functions of the native library as the crate's source defines them."""

from __future__ import annotations

import ctypes
import re
from pathlib import Path
from typing import Any

import pytest

import formatter_core
from formatter_core.engine import native, native_calls, native_leaves, native_library, native_logits, native_schema
from formatter_core.engine.native_calls import MakingCalls, StepCalls
from formatter_core.engine.native_library import PROTOTYPES
from formatter_core.syntax.regex import reader

SOURCES = Path(formatter_core.__file__).parent / "engine" / "native" / "src"
if not SOURCES.is_dir():
    pytest.skip("the crate's source is not beside the package", allow_module_level=True)

_TEXTS = {path.stem: path.read_text(encoding="utf-8") for path in sorted((SOURCES / "api").glob("*.rs"))}
_SOURCE = "\n".join(_TEXTS.values())
_FUNCTION = re.compile(r'#\[no_mangle\]\s+pub (?:unsafe )?extern "C" fn (\w+)\(([^)]*)\)(?: -> ([^{]+?))? \{')
_STRUCT = re.compile(r"#\[repr\(C\)\][^{;]*?struct (\w+) \{\n(.*?)\n\}", re.DOTALL)
_FIELD = re.compile(r"^ *(?:pub )?(\w+): (.+),$", re.MULTILINE)

#: Types of the crate, and those of ctypes that are passed alike: ctypes has one type for all numbers of a kind.
_KINDS: dict[str, Any] = {
    "i32": ctypes.c_int32, "c_int": ctypes.c_int, "u32": ctypes.c_uint32, "i64": ctypes.c_int64,
    "u64": ctypes.c_uint64, "f32": ctypes.c_float, "f64": ctypes.c_double, "usize": ctypes.c_size_t,
    "isize": ctypes.c_ssize_t, "": None,
}  # fmt: skip
#: Functions that are called by CPython, or without prototypes, and one that only tests call.
_WITHOUT = {*(f"fcn_sequence_{name}" for name in StepCalls._fields), "fcn_test_panic"}


def kind_of(written: str) -> Any:
    """Return how a type of the crate is passed; a type without a name here is a pointer to data or to a function."""
    return _KINDS.get(written.strip(), ctypes.c_void_p)


def functions() -> dict[str, tuple[Any, list[Any]]]:
    """Return the result and the arguments of each function that the crate exports."""
    return {
        name: (kind_of(result), [kind_of(one.split(":", 1)[1]) for one in arguments.split(",") if one.strip()])
        for name, arguments, result in _FUNCTION.findall(_SOURCE)
    }


def structs() -> dict[str, list[tuple[str, str]]]:
    """The fields of each struct that C sees, with their types."""
    found = ((file, *each) for file, text in _TEXTS.items() for each in _STRUCT.findall(text))
    return {f"{file}.{name}": _FIELD.findall(body) for file, name, body in found}


def size_of(written: str) -> int:
    """Return the size of a type of the crate in bytes."""
    array = re.fullmatch(r"\[(\w+); (\d+)\]", written)
    if array:
        return size_of(array[1]) * int(array[2])
    if written == "Bytes":
        return sum(size_of(kind) for _, kind in structs()["interface_schema.Bytes"])
    return ctypes.sizeof(kind_of(written))


def test_the_source_is_read() -> None:
    assert _SOURCE.count("#[no_mangle]") == len(functions()) > 60


def test_a_prototype_is_that_of_the_function() -> None:
    crate = functions()
    for name, (result, arguments) in PROTOTYPES.items():
        pointers = [ctypes.c_void_p if each is ctypes.c_char_p else each for each in arguments]
        assert (result, pointers) == crate[name], name


def test_each_function_has_a_prototype() -> None:
    assert set(functions()) == {*PROTOTYPES, *_WITHOUT}


def test_each_long_function_has_an_answer_that_can_say_that_it_was_stopped() -> None:
    assert {functions()[name][0] for name in native_library.LONG} == {ctypes.c_int}


#: Structs on both sides, by the file of the crate and the name there.
SHARED: dict[str, type[ctypes.Structure]] = {
    "interface_leaves.PlainFound": native_leaves._Found,
    "interface_schema.Blanks": native_schema._Blanks,
    "interface_schema.Bytes": native_calls.LibraryBytes,
    "interface_schema.Found": native_calls.SchemaFound,
    "interface_schema.Json": native_calls._JsonRead,
    "interface_regex.Pattern": reader._Found,
    "interface_sequences.Row": native._Array,
    "python_calls.Method": native_calls._Method,
    "interface_logits.Rows": native_logits._Rows,
    "interface_logits.Found": native_logits._Found,
}


@pytest.mark.parametrize("name", SHARED)
def test_a_struct_has_the_same_fields(name: str) -> None:
    found = [(field, ctypes.sizeof(kind)) for field, kind, *_ in SHARED[name]._fields_]
    assert found == [(field, size_of(kind)) for field, kind in structs()[name]]


def test_what_the_library_needs_of_python_is_in_its_order() -> None:
    given = [name.lower().replace("_", "") for name in native_calls._NEEDED]
    fields = [field.replace("_", "") for field, _ in structs()["python_calls.Python"]]
    assert len(given) == len(fields)
    assert all(name.endswith(field) for name, field in zip(given, fields, strict=True)), (given, fields)


def test_the_functions_for_python_are_in_its_order() -> None:
    names = re.findall(r'    method\(b"(\w+)\\0"', _TEXTS["python_calls"])
    assert names == [*StepCalls._fields, *MakingCalls._fields]
