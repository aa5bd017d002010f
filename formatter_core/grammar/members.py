"""`Members` written out as rules, one for each state: for engines and notations that know only rules. `Region` goes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple, Optional, TypeAlias

from formatter_core.errors import LimitExceeded
from formatter_core.grammar.distinct import MAX_MEMBER_STATES, Value, by_value
from formatter_core.grammar.nodes import (
    NOTHING,
    Choice,
    Member,
    Members,
    Node,
    Reference,
    Region,
    Sequence,
    Terminal,
    children,
    map_children,
    optional,
)

__all__ = ["write_out"]


def write_out(rules: Mapping[str, Node]) -> Mapping[str, Node]:
    """Return the rules without `Members` and `Region`; the same object if they have none.

    Raises:
        LimitExceeded: there are too many states.
    """
    if not any(map(_needs_writing, rules.values())):
        return rules
    writer = _Writer(rules)
    for name, body in rules.items():
        writer.rules[name] = writer.replaced(name, body)
    return writer.rules


def _needs_writing(node: Node) -> bool:
    """Tell whether a list or a region occurs below a node; inside a `Terminal` there are none."""
    stack = [node]
    while stack:
        node = stack.pop()
        if type(node) is Members or type(node) is Region:
            return True
        if type(node) is not Terminal:
            stack += children(node)
    return False


class _State(NamedTuple):
    """The state after some members of a list.

    `place` counts the members passed in the written order, `used` has a bit for each one otherwise. `written` counts
    the members up to the number where more make no difference; `met` has a bit for each condition that is met; `seen`
    are the values that distinct members began with.
    """

    place: int
    used: int
    written: int
    met: int
    seen: frozenset[Value] = frozenset()


#: The next node, None for a skipped member, and the state after it.
_Step: TypeAlias = tuple[Optional[Node], _State]  # noqa: UP045 (evaluated when the module is imported)


class _Writer:
    def __init__(self, rules: Mapping[str, Node]) -> None:
        self.rules = dict(rules)
        self._states = 0
        self._places = 0

    def replaced(self, rule: str, node: Node) -> Node:
        """Return the node of a rule without `Members` and `Region`."""
        if isinstance(node, Terminal):
            return node
        if isinstance(node, Region):
            return self.replaced(rule, node.item)
        node = map_children(node, lambda child: self.replaced(rule, child))
        return self._first(rule, node) if isinstance(node, Members) else node

    def _first(self, rule: str, members: Members) -> Node:
        if _are_places(members):
            return self._in_places(rule, members)
        first = _State(0, 0, 0, 0)
        leading = self._explored(members, first)
        ends = {state for state in leading if _may_end(members, state)}
        going_on = _going_on(ends, leading)
        if first not in going_on:
            return NOTHING
        names = {}
        for state in leading:
            if state in going_on:
                names[state] = f"{rule}: members, state {self._states}"
                self._states += 1
        for state, name in names.items():
            options: list[Node] = []
            for item, after in leading[state]:
                rest = Reference(names[after]) if after in names else None
                if item is None:
                    options += [rest] if rest is not None else []
                elif after in ends:
                    more = [] if rest is None else [optional(Sequence((members.separator, rest)))]
                    options.append(Sequence((item, *more)) if more else item)
                elif rest is not None:
                    options.append(Sequence((item, members.separator, rest)))
            self.rules[name] = options[0] if len(options) == 1 else Choice(tuple(options))
        return Reference(names[first])

    def _in_places(self, rule: str, members: Members) -> Node:
        """Build one rule per member, last first: what may follow from there. Each rule contains its member once.

        So objects of any size can be written out: there are no more rules than members, where states are counted.
        """
        following: Node | None = None
        may_end = True
        for member in reversed(members.members):
            items = tuple(way.item for way in member.ways)
            name = f"{rule}: members, place {self._places}"
            self._places += 1
            here = items[0] if len(items) == 1 else Choice(items)
            further = Reference(name) if member.repeated else following
            if further is not None:
                more = Sequence((members.separator, further))
                here = Sequence((here, optional(more) if may_end else more))
            self.rules[name] = here if member.required or following is None else Choice((here, following))
            following = Reference(name)
            may_end = may_end and not member.required
        return NOTHING if following is None else following

    def _explored(self, members: Members, first: _State) -> dict[_State, list[_Step]]:
        leading: dict[_State, list[_Step]] = {}
        pending, found = [first], {first}
        later = _met_later(members)
        while pending:
            state = pending.pop()
            steps = _ordered_steps(members, state) if members.ordered else _unordered_steps(members, state)
            leading[state] = [step for step in steps if _is_full(members, step[1].met | later[step[1].place])]
            new = [after for _, after in leading[state] if after not in found]
            pending += dict.fromkeys(new)
            found.update(new)
            # Those that were found, not those that were visited: each of them leads to as many as there are members.
            if self._states + len(found) > MAX_MEMBER_STATES:
                remedy = "name fewer of them, or leave out what depends on several of them"
                raise LimitExceeded("states", MAX_MEMBER_STATES, "a list of members", is_fixed=True, remedy=remedy)
        return leading


def _are_places(members: Members) -> bool:
    """Tell whether the place in the written order is all that matters of the members so far."""
    return (
        members.ordered
        and members.minimum <= 1
        and members.maximum is None
        and not members.conditions
        and not any(member.distinct or (member.repeated and member.required) for member in members.members)
    )


def _met_later(members: Members) -> list[int]:
    """Return, by place, the conditions that members from there on may meet."""
    later = [0]
    for member in reversed(members.members):
        met = later[-1] | member.absent
        for way in member.ways:
            met |= way.meets
        later.append(met)
    return later[::-1]


def _is_full(members: Members, met: int) -> bool:
    return met == (1 << members.conditions) - 1


def _ordered_steps(members: Members, state: _State) -> Iterator[_Step]:
    """Yield the ways of the next member in the written order, and the step that skips it."""
    if state.place < len(members.members):
        member = members.members[state.place]
        yield from _ways(members, member, state, state.place + (not member.repeated), 0)
        if not member.required:
            place = state.place + 1
            while place < len(members.members) and members.members[place] is member:
                place += 1  # to pass by one and write the same one later is to write it now
            yield None, _State(place, 0, state.written, state.met | member.absent, state.seen)


def _unordered_steps(members: Members, state: _State) -> Iterator[_Step]:
    for index, member in enumerate(members.members):
        if not state.used >> index & 1:
            used = state.used if member.repeated else state.used | 1 << index
            yield from _ways(members, member, state, 0, used)


def _ways(members: Members, member: Member, state: _State, place: int, used: int) -> Iterator[_Step]:
    if members.maximum is None or state.written < members.maximum:
        enough = max(members.minimum, 1) if members.maximum is None else members.maximum
        written = min(state.written + 1, enough)
        for way in member.ways:
            if not state.met & way.meets & members.once:
                met = state.met | way.meets
                if not member.distinct:
                    yield way.item, _State(place, used, written, met, state.seen)
                    continue
                for value, item in by_value(way.item):
                    if value not in state.seen:
                        yield item, _State(place, used, written, met, state.seen | {value})


def _may_end(members: Members, state: _State) -> bool:
    """Tell whether a list may end after a member."""
    if state.written < max(members.minimum, 1):
        return False
    met = state.met
    for index in range(state.place, len(members.members)):
        member = members.members[index]
        if not state.used >> index & 1:
            if member.required:
                return False
            met |= member.absent
    return _is_full(members, met)


def _going_on(ends: Iterable[_State], leading: Mapping[_State, list[_Step]]) -> set[_State]:
    """Return the states from which at least one more member leads to an end."""
    written: dict[_State, list[_State]] = {}
    passed_by: dict[_State, list[_State]] = {}
    for state, steps in leading.items():
        for item, after in steps:
            (passed_by if item is None else written).setdefault(after, []).append(state)
    found: set[_State] = set()
    pending = [before for end in ends for before in written.get(end, ())]
    while pending:
        state = pending.pop()
        if state not in found:
            found.add(state)
            pending += [*written.get(state, ()), *passed_by.get(state, ())]
    return found
