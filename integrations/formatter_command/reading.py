"""Input of the command line: formats, and files of any size and kind in bounded memory."""

from __future__ import annotations

import sys
from argparse import Namespace
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any, BinaryIO

from formatter_core import formats
from formatter_core.errors import InvalidFormat, LimitExceeded
from formatter_core.formats import as_format
from formatter_core.formats.json_schema import JsonSchemaFormat
from formatter_core.formats.protocol import Format
from formatter_core.formats.python_type import PythonTypeFormat

__all__ = ["STDIN", "CommandError", "opened", "read_for_texts", "read_format", "read_text"]

STDIN = "-"
#: A larger file is hardly a schema, a grammar or a prompt.
_MAX_FILE_BYTES = 16 * 2**20

_GRAMMARS: dict[str, Callable[..., Format]] = {
    ".kbnf": formats.kbnf,
    ".gbnf": formats.gbnf,
    ".ebnf": formats.ebnf,
    ".lark": formats.lark,
}
#: The grammars whose start rule can be named; Lark's is always `start`.
_STARTS = (".kbnf", ".gbnf", ".ebnf")
_ABSENT = object()


class CommandError(Exception):
    """A command cannot do what was requested; the message is a sentence for its user."""


@contextmanager
def opened(name: str) -> Iterator[BinaryIO]:
    """Open a file, or standard input for "-".

    Raises:
        CommandError: it cannot be opened, or read within the block.
    """
    try:
        if name != STDIN:
            with Path(name).open("rb") as file:
                yield file
        elif sys.stdin is None:
            raise CommandError("standard input is closed")
        else:
            yield sys.stdin.buffer
    except OSError as error:
        raise CommandError(f"{name}: {error.strerror or error}") from error


def read_text(name: str) -> str:
    """Read a file, or standard input for "-".

    Raises:
        CommandError: it cannot be read, is too long, or not UTF-8.
    """
    with opened(name) as file:
        data = file.read(_MAX_FILE_BYTES + 1)
    if len(data) > _MAX_FILE_BYTES:
        raise CommandError(f"{name}: longer than {_MAX_FILE_BYTES} bytes")
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise CommandError(f"{name}: not UTF-8 text (byte {error.start})") from error


def read_format(options: Namespace) -> Format:
    """Return the format that the argument FORMAT names.

    Raises:
        CommandError: there is no such file, module or type.
        FormatterError: it is not a valid format.
    """
    return _format_of(_read(options), options)


def read_for_texts(options: Namespace) -> Any:
    """Return what `parse` and `compile_to_read` take for texts that exist already; with options, the format itself.

    Raises:
        CommandError: as `read_format`.
        FormatterError: as `read_format`.
    """
    named = _read(options)
    return _format_of(named, options) if _given(options) else named


def _read(options: Namespace) -> Any:
    """Return the format that the options name, in a form that `as_format` takes."""
    texts = [*getattr(options, "files", ()), getattr(options, "prompt", None)]
    if (texts if options.regex else [*texts, options.format]).count(STDIN) > 1:
        raise CommandError("standard input can be read only once")
    if options.start is not None and (options.regex or Path(options.format).suffix.lower() not in _STARTS):
        raise CommandError(f"--start is only for {', '.join(_STARTS)}")
    return _named(options.format, options)


def _format_of(named: Any, options: Namespace) -> Format:
    format, given = as_format(named), _given(options)
    if not given:
        return format
    if isinstance(format, JsonSchemaFormat):
        return formats.json_schema(format.schema, **given)
    if isinstance(format, PythonTypeFormat):
        return formats.python_type(format.type, **given)
    raise CommandError("--whitespace, --key-order and --spelling are only for JSON Schemas and Python types")


def _given(options: Namespace) -> dict[str, Any]:
    """Return the schema options that were given."""
    names = ("whitespace", "key_order", "spelling")
    return {name: value for name in names if (value := getattr(options, name)) is not None}


def _named(name: str, options: Namespace) -> Any:
    """Return the format of a name, in a form that `as_format` takes."""
    if options.regex:
        return formats.regex(name)
    path, suffix = Path(name), Path(name).suffix.lower()
    if suffix in _GRAMMARS:
        return _GRAMMARS[suffix](read_text(name), **({} if options.start is None else {"start": options.start}))
    module, colon, attribute = name.partition(":")
    if colon and attribute.isidentifier() and not path.exists():
        return _imported(module, attribute)
    if name == STDIN or path.exists() or suffix == ".json":
        try:
            return formats.json_schema(read_text(name)).schema
        except (InvalidFormat, LimitExceeded) as error:
            raise CommandError(f"{name}: not a JSON Schema: {error}") from error
    raise CommandError(
        f"{name}: no such file; FORMAT is a JSON Schema file, a grammar (.kbnf, .gbnf, .ebnf, .lark), module:Type, or "
        "a pattern with --regex"
    )


def _imported(module: str, attribute: str) -> Any:
    """Import an object from the user's own module; the working directory is searched first, as by `python -m`."""
    sys.path.insert(0, "")
    try:
        imported = import_module(module)
        found = getattr(imported, attribute, _ABSENT)
    except (Exception, SystemExit) as error:
        raise CommandError(f"{module}:{attribute}: importing it raises {type(error).__name__}: {error}") from error
    finally:
        sys.path.remove("")
    if found is _ABSENT:
        raise CommandError(f"{module}:{attribute}: the module has no {attribute}")
    return found
