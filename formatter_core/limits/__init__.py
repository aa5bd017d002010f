"""Bounds on the cost of one format, caches that are bounded in size, and locks around a fork."""

from __future__ import annotations

from dataclasses import dataclass, fields

from formatter_core.errors import InvalidArgument
from formatter_core.errors.arguments import shown, whole_number

__all__ = ["DEFAULT_LIMITS", "Limits", "checked_limits"]


@dataclass(frozen=True, slots=True)
class Limits:
    """Bounds on the cost of one format; exceeding a bound raises `LimitExceeded`.

    Attributes:
        nodes: nodes of one grammar, all rules together. The largest real JSON Schemas become
            some ten thousand nodes; a million nodes are a few hundred MB of Python values.
        states: states of one terminal's automaton that are kept at a time. A 1,000-value enum has about 10,000. The
            native engine makes room for new ones; it refuses a single step that needs more.
        cache_bytes: bytes of masks that a grammar engine keeps for one compiled grammar.
        repeat: the largest finite count in a repeat (`{m,n}`, `maxLength`, `maxItems`). Real schemas go up to a
            million characters. Counting characters of a text costs nothing; counting an item costs a node.
        depth: nesting of groups, schemas or formats. Keeps every recursion over a format, never over
            a generated text, inside Python's own recursion limit.
        work: elementary steps of one compile, of one step of the Python parser, and of one whole output parsed
            natively, where each byte adds a constant number. Each character of a grammar's text is ten of them.
        forced_bytes: the most bytes that one call of `forced_bytes` returns.
        max_top_n: the most candidate tokens that one top-n request returns.
    """

    nodes: int = 1_000_000
    states: int = 200_000
    cache_bytes: int = 64 * 2**20
    repeat: int = 1_000_000
    depth: int = 100
    work: int = 20_000_000
    forced_bytes: int = 4096
    max_top_n: int = 64

    def __hash__(self) -> int:
        return self.nodes  # nearly always found by identity, and looked up for each schema

    def __post_init__(self) -> None:
        for field in fields(self):
            object.__setattr__(self, field.name, whole_number(getattr(self, field.name), f"Limits.{field.name}"))


DEFAULT_LIMITS = Limits()


def checked_limits(limits: object) -> Limits:
    """Return the limits if they are a `Limits`.

    Raises:
        InvalidArgument: they are not.
    """
    if not isinstance(limits, Limits):
        raise InvalidArgument(f"limits is {shown(limits)}; pass formatter_core.Limits(...)", argument="limits")
    return limits
