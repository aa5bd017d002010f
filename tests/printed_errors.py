"""Read an error as a user sees it: its message, those of its causes, and whether any of that is said twice."""

from __future__ import annotations

import re


def said_twice(text: str) -> set[str]:
    """Sentences and quoted texts of more than 20 characters that stand in a text more than once."""
    pieces = re.split(r"[.;:]\s+|\n", text)
    quoted = re.findall(r"'[^'\n]{21,}'|\"[^\"\n]{21,}\"|`[^`\n]{21,}`", text)
    return {piece for piece in (*pieces, *quoted) if len(piece) > 20 and text.count(piece) > 1}


def printed(error: BaseException | None, *, replaced: bool = True) -> list[str]:
    """The messages that a traceback shows; without `replaced` those of the error and its causes alone."""
    shown = []
    while error is not None:
        shown.append(str(error))
        context = error.__context__ if replaced and not error.__suppress_context__ else None
        error = error.__cause__ or context
    return shown
