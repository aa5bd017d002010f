"""Steps of JSON Pointers (RFC 6901)."""

from __future__ import annotations

__all__ = ["pointer_to", "unescaped"]


def pointer_to(path: str, step: str | int) -> str:
    """Return the pointer to a member or an item of the value at `path`."""
    if isinstance(step, str) and ("~" in step or "/" in step):
        step = step.replace("~", "~0").replace("/", "~1")
    return f"{path}/{step}"


def unescaped(step: str) -> str:
    """Return the name of the member that a step of a pointer leads to."""
    return step.replace("~1", "/").replace("~0", "~")
