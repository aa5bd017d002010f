"""Show a trace as one HTML page that loads nothing: it has the record as JSON, and a script that draws it.

Texts come from models and schemas, so they are never used as markup: they are in the JSON, in which `<`, `>` and `&`
are escaped, and the script only writes text nodes. A Content-Security-Policy allows only that script.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections.abc import Iterable, Sequence
from functools import cache
from importlib import resources
from typing import Any

from formatter_core.runtime.result import Capture, Result
from formatter_core.runtime.spans import Span, pieces
from formatter_core.trace.runs import Run
from formatter_core.trace.steps import Alternative, Step, shown_bytes
from formatter_core.trace.traps import Trap

__all__ = ["page_of"]

_UNSAFE = re.compile("[<>&\u2028\u2029]")
_DIGITS = 4


def page_of(
    steps: Sequence[Step],
    result: Result,
    captures: Sequence[Capture],
    traps: Sequence[Trap],
    runs: Sequence[Run] = (),
) -> str:
    """Return the page of one output."""
    texts = _Texts()
    names = list(dict.fromkeys(capture.name for capture in captures))
    record = {
        "ended": result.ended,
        "missing": result.missing,
        "names": names,
        "captures": [[names.index(one.name), one.start, one.end, shown_bytes(one.text.encode())] for one in captures],
        "steps": [
            [
                texts.of(step.bytes, is_end=step.bytes is None),
                step.token_id,
                step.start,
                step.allowed,
                round(step.masked_probability, _DIGITS),
                round(step.probability, _DIGITS),
                round(step.unmasked_probability, _DIGITS),
                [texts.row(other) for other in step.wanted],
                [texts.row(other) for other in step.alternatives],
                texts.of(step.expected.encode()),
                texts.of(step.place.encode()),
                [
                    part
                    for piece, number in pieces(step.bytes or b"", step.start, around)
                    for part in (shown_bytes(piece), number)
                ],
            ]
            for step, around in zip(steps, _captures_at(steps, captures), strict=True)
        ],
        "traps": [
            [
                trap.place,
                trap.steps,
                trap.causes,
                round(trap.blame, _DIGITS),
                trap.wanted,
                trap.expected,
                trap.proposal,
                trap.is_checked,
            ]
            for trap in traps
        ],
        "runs": [[run.text, run.count, run.steps] for run in runs],
        "texts": texts.texts,
    }
    head, tail = _template()
    return head + _as_script(record) + tail


def _as_script(data: Any) -> str:
    """Return JSON for a `<script>` element: no character in it can end the element."""
    text = json.dumps(data, ensure_ascii=False, separators=(",", ":"))
    # Lone surrogates cannot be written to a file, so they stay as escapes.
    text = text.encode("utf-16", "surrogatepass").decode("utf-16", "backslashreplace")
    return _UNSAFE.sub(lambda match: f"\\u{ord(match[0]):04x}", text)


class _Texts:
    """A table of texts by number: most tokens of a list occur many times."""

    def __init__(self) -> None:
        self.texts: list[str] = []
        self._numbers: dict[tuple[bytes, bool], int] = {}

    def of(self, data: bytes | None, *, is_end: bool = False) -> int:
        key = (data or b"", is_end)
        if key not in self._numbers:
            self._numbers[key] = len(self.texts)
            self.texts.append("end" if is_end else shown_bytes(data or b""))
        return self._numbers[key]

    def row(self, other: Alternative) -> list[Any]:
        """Return an alternative as a row: its text, its probability, whether it is allowed, and whether it is text."""
        is_text = other.bytes is not None
        name = other.bytes if is_text else b"end" if other.is_end else f"token {other.token_id}".encode()
        return [self.of(name), round(other.probability, _DIGITS), int(other.is_allowed), int(is_text)]


def _captures_at(steps: Sequence[Step], captures: Sequence[Capture]) -> Iterable[list[Span]]:
    """Return the captures that each token overlaps, as (number, start, end), outer ones first."""
    numbered = [(number, one.start, one.end) for number, one in enumerate(captures)]
    active: list[Span] = []
    following = 0
    for step in steps:
        end = step.start + len(step.bytes or b"")
        while following < len(numbered) and numbered[following][1] < end:
            active.append(numbered[following])
            following += 1
        active = [one for one in active if one[2] > step.start]
        yield active


@cache
def _template() -> tuple[str, str]:
    """Return the page before and after the record."""
    text = resources.files("formatter_core.trace").joinpath("page.html").read_text(encoding="utf-8")
    script = text.split("<script>", 1)[1].split("</script>", 1)[0]
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    head, tail = text.replace("SCRIPT_HASH", f"sha256-{digest}").split("RECORD", 1)
    return head, tail
