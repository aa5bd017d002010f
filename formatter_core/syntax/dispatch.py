"""Free text, or tokens, in which triggers begin something: the core of tool calls in XGrammar's notations."""

from __future__ import annotations

from collections.abc import Iterable
from collections.abc import Sequence as Items

from formatter_core.grammar import (
    ANY_CHAR,
    ANY_TEXT,
    AnySpecial,
    Choice,
    Complement,
    Intersection,
    Node,
    Repeat,
    Sequence,
    Special,
    Terminal,
    Token,
    literal,
    optional,
)

__all__ = ["any_special", "dispatch", "text_without", "token_dispatch", "tokens_without"]


def text_without(excluded: Iterable[str]) -> Node:
    """Make a node for any text in which none of the strings occurs."""
    return Terminal(Intersection((ANY_TEXT, Complement(_somewhere(excluded)))))


def dispatch(branches: Items[tuple[str, Node]], excluded: Items[str], *, loop: bool) -> Node:
    """Make a node for free text; after each occurrence of a branch's trigger, the rest of the branch follows.

    Args:
        branches: the triggers, and what comes after each.
        excluded: strings that do not occur in the free text.
        loop: whether free text continues after a branch; otherwise the branch ends it.
    """
    triggers = dict.fromkeys(trigger for trigger, _ in branches)
    strings = [*triggers, *excluded]
    free = text_without(strings)
    # The trigger ends the text in which no other string has come to an end before.
    early = Sequence((_somewhere(strings), Repeat(ANY_CHAR, 1)))
    parts = []
    for trigger in triggers:
        before = Terminal(Intersection((_ending(trigger), Complement(early), _free_of(excluded))))
        parts.append(Sequence((before, _after(branches, trigger))))
    if not parts:
        return free
    return Sequence((Repeat(Choice(tuple(parts))), free)) if loop else Choice((free, *parts))


def tokens_without(excluded: Iterable[Special | Token]) -> Node:
    """Make a node for any text and special tokens, except these tokens."""
    text = Terminal(ANY_TEXT)
    return Sequence((text, Repeat(Sequence((any_special(excluded), text)))))


def any_special(excluded: Iterable[Special | Token]) -> AnySpecial:
    """Make a node for any special token except these."""
    names = (each.name if isinstance(each, Special) else each.token_id for each in excluded)
    return AnySpecial(tuple(dict.fromkeys(names)))


def token_dispatch(
    branches: Items[tuple[Special | Token, Node]], excluded: Iterable[Special | Token], *, loop: bool
) -> Node:
    """Make a node for text and special tokens; after a branch's special token comes the rest of the branch.

    Args:
        branches: the special tokens, and what comes after each.
        excluded: special tokens that do not occur otherwise.
        loop: whether it continues after a branch; otherwise the branch ends it.
    """
    free = tokens_without((*(token for token, _ in branches), *excluded))
    one = Choice(tuple(map(Sequence, branches)))
    return Sequence((free, Repeat(Sequence((one, free))) if loop else optional(one)))


def _after(branches: Items[tuple[str, Node]], trigger: str) -> Node:
    nodes = tuple(node for other, node in branches if other == trigger)
    return nodes[0] if len(nodes) == 1 else Choice(nodes)


def _ending(trigger: str) -> Node:
    return Sequence((ANY_TEXT, literal(trigger)))


def _free_of(excluded: Items[str]) -> Node:
    return Complement(_somewhere(excluded)) if excluded else ANY_TEXT


def _somewhere(strings: Iterable[str]) -> Node:
    return Sequence((ANY_TEXT, Choice(tuple(literal(each) for each in strings)), ANY_TEXT))
