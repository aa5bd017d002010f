"""`run` and `trace`: a model writes in a format, and what happened at each token."""

from __future__ import annotations

import json
import sys
from argparse import Namespace
from importlib import import_module
from pathlib import Path
from typing import Any

from formatter_command.reading import STDIN, CommandError, read_format, read_text
from formatter_core.errors import FormatterError
from formatter_core.generation import Finished, Generated, Sampling, ScoreSettings, TextDelta, completion
from formatter_core.generation.progress import progress
from formatter_core.trace import SCORES, trace_of

__all__ = ["run", "trace"]


def run(options: Namespace) -> int:
    """Print what a model writes; 0 if it is complete, else 1."""
    output = _written(options, None, echo=not options.value)
    status = _outcome(output)
    if options.value and not status:
        sys.stdout.write(f"{output.value!r}\n")
    return status


def trace(options: Namespace) -> int:
    """Write the trace of what a model writes to files, and print its traps and runs; 0 if complete."""
    output = _written(options, SCORES, echo=True)
    if output.error is None:
        seen = trace_of(output)
        for file, content in ((options.html, seen.to_html), (options.json, lambda: json.dumps(seen.to_json()))):
            if file is not None:
                _write(file, content())
        for trap in seen.traps:
            sys.stdout.write(f"- {trap}\n")
        for run in seen.runs:
            sys.stdout.write(f"- {run}\n")
    return _outcome(output)


def _written(options: Namespace, scores: ScoreSettings | None, *, echo: bool) -> Generated[Any]:
    """Return the output, and print it while it is written."""
    format = read_format(options)
    prompt = read_text(STDIN) if options.prompt == STDIN else options.prompt
    sampling = None if options.temperature is None else Sampling(temperature=options.temperature)
    write = completion(_model(options), format, max_tokens=options.max_tokens, sampling=sampling, scores=scores)
    events = write.stream(prompt, seed=options.seed)
    for event in progress(events, options.max_tokens, "tokens") if not echo or not sys.stdout.isatty() else events:
        if isinstance(event, TextDelta) and echo:
            sys.stdout.write(event.text)
            sys.stdout.flush()
        if isinstance(event, Finished):
            output = event.output
    if echo:
        sys.stdout.write("\n")
    return output


def _model(options: Namespace) -> Any:
    """Make the model with the adapter that was requested."""
    try:
        adapter = import_module(f"formatter_{options.engine}")
    except ImportError as error:
        raise CommandError(
            f"--engine {options.engine}: {error}; pip install 'formatter-core[{options.engine}]'"
        ) from error
    try:
        return getattr(adapter, f"{options.engine}_model")(options.model)
    except FormatterError:
        raise
    except Exception as error:  # libraries raise various errors for an unknown name
        first_line = (str(error).strip() or type(error).__name__).splitlines()[0]
        raise CommandError(f"{options.model}: {first_line}") from error


def _outcome(output: Generated[Any]) -> int:
    """Return 0 for a complete output; for any other, print what is wrong and return another code."""
    result = output.result
    if output.error is None and result is not None and result.is_complete:
        return 0
    sys.stderr.write(f"not complete: {output.error or (result and result.missing)}\n")
    return 1


def _write(file: str, content: str) -> None:
    try:
        Path(file).write_text(content, encoding="utf-8")
    except OSError as error:
        raise CommandError(f"{file}: {error.strerror or error}") from error
