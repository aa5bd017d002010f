"""Cut a text where marked spans begin and end, and show it as HTML in notebooks."""

from __future__ import annotations

from collections.abc import Sequence

__all__ = ["Span", "pieces", "spans_as_html"]

#: A number, with its start and end in bytes.
Span = tuple[int, int, int]

#: The replacements of `html.escape`; its module loads a table of 2,000 names.
_ESCAPES = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;", "'": "&#x27;"})
_COLOURS = ("#c2410c", "#2563eb", "#15803d", "#a21caf", "#0e7490", "#a16207", "#be123c", "#4d7c0f")


def pieces(data: bytes, start: int, spans: Sequence[Span]) -> list[tuple[bytes, int]]:
    """Cut the bytes at the ends of spans; return each piece with the number of the innermost span around it, or -1.

    Args:
        data: a part of a text.
        start: the offset in the text at which the part begins.
        spans: the spans that overlap it, in order of their start, outer ones before inner ones.
    """
    found: list[tuple[bytes, int]] = []
    open_: list[Span] = []
    at, end = start, start + len(data)

    def cut(place: int) -> None:
        nonlocal at
        if min(place, end) > at:
            found.append((data[at - start : place - start], open_[-1][0] if open_ else -1))
            at = min(place, end)

    for span in spans:
        while open_ and open_[-1][2] <= span[1]:
            cut(open_[-1][2])
            open_.pop()
        cut(span[1])
        open_.append(span)
    while open_:
        cut(open_[-1][2])
        open_.pop()
    cut(end)
    return found


def spans_as_html(data: bytes, named: Sequence[tuple[str, int, int]], status: str) -> str:
    """Return a text as HTML with its named spans in colours, and a line above it.

    Args:
        data: the text.
        named: name, start and end of each span, outer ones before inner ones.
        status: the line, as plain text.
    """
    names = list(dict.fromkeys(name for name, _, _ in named))
    colours = {name: _COLOURS[number % len(_COLOURS)] for number, name in enumerate(names)}
    body = ""
    for piece, number in pieces(data, 0, [(number, low, high) for number, (_, low, high) in enumerate(named)]):
        text = piece.decode("utf-8", "backslashreplace").translate(_ESCAPES)
        if number >= 0:
            name = named[number][0]
            text = f'<b style="color: {colours[name]}" title="{name.translate(_ESCAPES)}">{text}</b>'
        body += text
    legend = " ".join(f'<b style="color: {colour}">{name.translate(_ESCAPES)}</b>' for name, colour in colours.items())
    return f'<div>{status.translate(_ESCAPES)} {legend}</div><pre style="white-space: pre-wrap">{body}</pre>'
