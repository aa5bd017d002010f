"""The commands and their options; each ends with 0 (yes), 1 (no) or 2 (it could not be found out)."""

from __future__ import annotations

import argparse
import io
import json
import os
import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Callable, Sequence
from typing import Any, TextIO, get_args

import formatter_core
from formatter_command.matching import match
from formatter_command.reading import CommandError, read_format
from formatter_command.running import run, trace
from formatter_command.samples import TextSampler
from formatter_command.self_test import self_test
from formatter_core.engine import EngineName
from formatter_core.errors import FormatterError
from formatter_core.formats.json_schema import JsonSchemaFormat
from formatter_core.formats.python_type import PythonTypeFormat
from formatter_core.generation.progress import progress
from formatter_core.schema import KeyOrder, Spelling, WhitespaceName

__all__ = ["main"]

_EPILOG = """\
FORMAT is a JSON Schema file, a grammar file (.kbnf, .gbnf, .ebnf, .lark), module:Type (a Python type, or a format), or
with --regex a pattern. "-" is standard input.

Exit status: 0 yes (all texts match, all keywords are enforced, the output is complete, the engine agrees), 1 no,
2 no answer was possible (wrong usage, a file that cannot be read, an invalid format), 130 interrupted.
"""
_MAX_FILE_BYTES = 64 * 2**20


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; returns its exit status."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:  # it was closed before the start
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115 - as long as the process
        stream = getattr(sys, name)
        if isinstance(stream, io.TextIOWrapper):  # a terminal that cannot show a character shows its number
            stream.reconfigure(errors="backslashreplace")
    options = _parser().parse_args(arguments)
    try:
        status: int = options.command(options)
        sys.stdout.flush()
    except (CommandError, FormatterError) as error:
        _print_error(f"{error}")
        return 2
    except KeyboardInterrupt:
        return 130
    except OSError as error:  # of the output, which goes nowhere from now on
        _discard(sys.stdout)
        if not isinstance(error, BrokenPipeError):  # the reader of a pipe has closed it
            _print_error(f"standard output: {error.strerror or error}")
        return 2
    return status


def _print_error(sentence: str) -> None:
    try:
        sys.stderr.write(f"formatter-core: {sentence}\n")
        sys.stderr.flush()
    except OSError:  # then the status says it alone
        _discard(sys.stderr)


def _discard(stream: TextIO) -> None:
    """Discard the buffered and all future output of a stream."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def coverage(options: Namespace) -> int:
    """Print the coverage report of a schema; 1 if a keyword is refused, or unknown and not called `x-…`."""
    format = read_format(options)
    schema = format.schema if isinstance(format, PythonTypeFormat) else format
    if not isinstance(schema, JsonSchemaFormat):
        raise CommandError(f"{options.format}: coverage is for JSON Schemas and Python types")
    report = schema.coverage()
    sys.stdout.write(f"{report}\n")
    unknown = [entry for entry in report.with_status("unknown") if not entry.keyword.startswith("x-")]
    return int(bool(unknown or report.with_status("refused")))


def sample(options: Namespace) -> int:
    """Print random texts of a format, each as a line, or as JSON strings."""
    sampler = TextSampler(read_format(options), room=options.length, seed=options.seed)
    for _ in progress(range(options.n), options.n, "samples"):
        text = sampler.text().decode("utf-8", "backslashreplace")
        sys.stdout.write((json.dumps(text) if options.json else text) + "\n")
    return 0


def _parser() -> ArgumentParser:
    parser = ArgumentParser(
        prog="formatter-core",
        description="Try formats for language models without writing a program.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=formatter_core.__version__)
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    one = _command(commands, match, "whether texts match a format, and if not, where they differ")
    one.add_argument("files", nargs="+", metavar="FILE", help='a text to match; "-" is standard input')
    one.add_argument("--exact", action="store_true", help="a newline at the end of a file is part of the text")
    one.add_argument("--max-bytes", type=_count, default=_MAX_FILE_BYTES, help="the longest file (default %(default)s)")

    _command(commands, coverage, "which keywords of a schema are enforced")

    one = _command(commands, sample, "random texts in a format")
    one.add_argument("-n", type=_count, default=1, help="how many texts (default 1)")
    one.add_argument("--seed", type=int, default=0, help="makes the texts repeatable (default 0)")
    one.add_argument(
        "--length",
        type=_count,
        default=200,
        help="write at most this many bytes, if a text can be so short (default 200)",
    )
    one.add_argument("--json", action="store_true", help="write JSON strings, one per line")

    one = _command(commands, run, "what a model writes in a format", has_model=True)
    one.add_argument("--value", action="store_true", help="print the value instead of the text")

    one = _command(commands, trace, "what the format did to the model, token by token", has_model=True)
    one.add_argument("--html", metavar="FILE", help="write an HTML page")
    one.add_argument("--json", metavar="FILE", help="write the record as JSON")

    one = commands.add_parser("self-test", help="versions, and whether the grammar engine answers as the oracle does")
    one.set_defaults(command=self_test)
    one.add_argument("--engine", choices=get_args(EngineName), default="auto")
    one.add_argument("--grammars", type=_count, default=200, help="how many random grammars (default 200)")
    return parser


def _command(commands: Any, function: Callable[..., int], help: str, *, has_model: bool = False) -> ArgumentParser:
    """Add a command that takes a format, and a model and a prompt if it needs them."""
    parser: ArgumentParser = commands.add_parser(function.__name__, help=help, description=help)
    parser.set_defaults(command=function)
    if has_model:
        parser.add_argument("model", metavar="MODEL", help="a folder or name, as the inference engine takes it")
    parser.add_argument("format", metavar="FORMAT", help="a file, module:Type, or a pattern with --regex")
    if has_model:
        parser.add_argument(
            "prompt", metavar="PROMPT", help='the text before the output; "-" reads it from standard input'
        )
        parser.add_argument(
            "--engine",
            choices=("transformers",) if function is trace else ("transformers", "openai"),
            default="transformers",
            help="what runs the model: a library, or a server (default %(default)s)",
        )
        parser.add_argument(
            "--max-tokens", type=_count, default=256, help="the most tokens to write (default %(default)s)"
        )
        parser.add_argument(
            "--temperature", type=float, help="0 takes the best token (default: the model's own, else 0)"
        )
        parser.add_argument("--seed", type=int, help="makes sampling repeatable")
    parser.add_argument("--regex", action="store_true", help="FORMAT is a regular expression (Rust syntax)")
    parser.add_argument("--start", help="the start rule of a grammar")
    parser.add_argument("--whitespace", choices=get_args(WhitespaceName), help="whitespace in JSON")
    parser.add_argument("--spelling", choices=get_args(Spelling), help="spelling of JSON")
    parser.add_argument("--key-order", choices=get_args(KeyOrder), help="key order in JSON objects")
    return parser


def _count(text: str) -> int:
    """Parse a whole number of at least 1."""
    if not text.isascii() or not text.isdigit() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number from 1")
    return int(text)
