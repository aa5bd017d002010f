"""Shared by both readers: positions, errors, and a stack of open groups instead of recursion."""

from __future__ import annotations

import re
from collections.abc import Callable

from formatter_core.errors import InvalidRegex, LimitExceeded
from formatter_core.grammar import EMPTY, Bytes
from formatter_core.limits import Limits
from formatter_core.syntax.regex.classes import Members, Ranges
from formatter_core.syntax.regex.tree import Tree, alternate, concat, loop

__all__ = ["Scanner"]


class _Frame:
    """An open group: the finished alternatives, and the items of the current one.

    `highest` is the height of the highest item at hand; `last` that of the last one, 0 where no quantifier may follow.
    """

    __slots__ = ("branches", "flags", "height", "highest", "items", "last", "position", "wrap")

    def __init__(self, position: int, flags: int, wrap: Callable[[Tree], Tree] | None) -> None:
        self.position = position
        self.flags = flags
        self.wrap = wrap
        self.branches: list[Tree] = []
        self.height = 0
        self.items: list[Tree] = []
        self.highest = 0
        self.last = 0

    def end_branch(self) -> None:
        self.branches.append(concat(self.items) if self.items else EMPTY)
        self.height = max(self.height, self.highest + (len(self.items) > 1))
        self.items = []
        self.highest = self.last = 0


class Scanner:
    """The state of a reader: `at` is the position; a group restores `flags` when it closes."""

    def __init__(self, pattern: str, limits: Limits) -> None:
        self.pattern = pattern
        self.limits = limits
        self.at = 0
        self.flags = 0
        self._nodes = 0
        self._work = 0
        self._frames = [_Frame(0, 0, None)]

    def read_run(self, plain: re.Pattern[str]) -> bool:
        """Take a run of plain characters at once, except the last, which a quantifier may follow."""
        run = plain.match(self.pattern, self.at)
        if run is None:
            return False
        end = run.end()
        if end - self.at > 1 and self.pattern[end : end + 1] in ("*", "+", "?", "{"):
            end -= 1
        self.add(Bytes(self.pattern[self.at : end].encode()))
        self.at = end
        return True

    def peek(self, ahead: int = 0) -> str:
        """The current character, or "" at the end."""
        return self.pattern[self.at + ahead : self.at + ahead + 1]

    def take(self, text: str) -> bool:
        """Step over `text` if it comes next."""
        if self.pattern.startswith(text, self.at):
            self.at += len(text)
            return True
        return False

    def error(self, reason: str, position: int) -> InvalidRegex:
        """The error at a position of the pattern."""
        return InvalidRegex(reason, pattern=self.pattern, position=position)

    def add(self, tree: Tree) -> None:
        """Append an item to the current alternative."""
        frame = self._frames[-1]
        frame.items.append(tree)
        frame.last = 1
        frame.highest = frame.highest or 1
        self._nodes += 1
        if self._nodes > self.limits.nodes:
            raise LimitExceeded("nodes", self.limits.nodes, "the pattern")

    def collect(self, members: Members, ranges: Ranges) -> None:
        """Charge for a set in a class: each range is read, sorted, merged and perhaps negated."""
        self.spend(4 * members.add(ranges))

    def spend(self, steps: int) -> None:
        """Charge elementary steps for the pattern's classes."""
        self._work += steps
        if self._work > self.limits.work:
            raise LimitExceeded("work", self.limits.work, "reading the pattern's classes")

    def forbid_quantifier(self) -> None:
        """Forbid a quantifier after the last item."""
        self._frames[-1].last = 0

    def repeat(self, minimum: int, maximum: int | None, greedy: bool, position: int) -> None:
        """Apply a quantifier, which begins at `position`, to the last item."""
        frame = self._frames[-1]
        if not frame.last:
            raise self.error("this quantifier has nothing to repeat; escape it for the character", position)
        if maximum is not None and maximum < minimum:
            raise self.error(f"minimum exceeds maximum in {{{minimum},{maximum}}}; swap them", position)
        if max(minimum, maximum or 0) > self.limits.repeat:
            raise LimitExceeded("repeat", self.limits.repeat, f"the repeat at position {position} of the pattern")
        frame.items[-1] = loop(frame.items[-1], minimum, maximum, greedy, position)
        self._grow(frame, frame.last + 1)

    def read_bar(self) -> None:
        """A `|`: the next branch begins."""
        self.at += 1
        self._frames[-1].end_branch()

    def open(self, position: int, wrap: Callable[[Tree], Tree] | None = None) -> None:
        """Begin a group; `wrap` turns its content into an item."""
        if len(self._frames) > self.limits.depth:
            raise LimitExceeded("depth", self.limits.depth, "the nesting of the pattern's groups")
        self._frames.append(_Frame(position, self.flags, wrap))

    def read_close(self) -> None:
        """A `)`: the innermost group ends."""
        position = self.at
        self.at += 1
        if len(self._frames) == 1:
            raise self.error("this `)` closes no group; remove it, or write `\\)` for the character", position)
        frame = self._frames.pop()
        tree = self._body(frame)
        height = frame.height + (len(frame.branches) > 1)
        if frame.wrap is not None:
            tree = frame.wrap(tree)
            height += 1
        self.flags = frame.flags
        self.add(tree)
        self._grow(self._frames[-1], max(height, 1))

    def finish(self) -> Tree:
        """The whole pattern, once its end is reached."""
        if len(self._frames) > 1:
            raise self.error(
                "this group is not closed; add `)`, or write `\\(` for the character", self._frames[-1].position
            )
        return self._body(self._frames[0])

    def _body(self, frame: _Frame) -> Tree:
        frame.end_branch()
        return alternate(frame.branches)

    def _grow(self, frame: _Frame, height: int) -> None:
        if height > self.limits.depth:
            raise LimitExceeded("depth", self.limits.depth, "the pattern")
        frame.last = height
        frame.highest = max(frame.highest, height)
