"""The inputs that are kept of each target: files of lines in base64, which the fast tests replay."""

from __future__ import annotations

import base64
from collections.abc import Iterable
from pathlib import Path

__all__ = ["MOST_BYTES", "read_corpus", "write_corpus"]

FOLDER = Path(__file__).with_name("corpora")
#: Bytes of one file at most; the shortest inputs are kept.
MOST_BYTES = 120_000


def read_corpus(target: str) -> list[bytes]:
    """The inputs of a target that are kept; none where there is no file."""
    path = FOLDER / f"{target}.txt"
    return [base64.b64decode(line) for line in path.read_text().splitlines()] if path.exists() else []


def write_corpus(target: str, inputs: Iterable[bytes]) -> int:
    """Keep these inputs of a target, as many as there is room for; returns how many."""
    lines, size = [], 0
    for line in (base64.b64encode(one).decode() for one in sorted(set(inputs), key=lambda one: (len(one), one))):
        size += len(line) + 1
        if size > MOST_BYTES:
            break
        lines.append(line)
    FOLDER.mkdir(exist_ok=True)
    (FOLDER / f"{target}.txt").write_text("".join(f"{line}\n" for line in lines))
    return len(lines)
