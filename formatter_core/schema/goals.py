"""Goals: conjunctions of literals, without repetition and open contradiction."""

from __future__ import annotations

import json
from collections.abc import Iterable

from formatter_core.schema.keywords import ANNOTATIONS
from formatter_core.schema.load import FALSE, TRUE, Loader
from formatter_core.schema.shapes import Goal

__all__ = ["Goals"]


_SAID = json.JSONEncoder(sort_keys=True, default=repr)


class Goals:
    """Makes goals, and finds equal schemas."""

    def __init__(self, loader: Loader) -> None:
        self._loader = loader
        self._same: dict[int, int] = {}
        self._first_to_say: dict[tuple[int, str], int] = {}
        self._conjoined: dict[tuple[int, ...], Goal] = {}

    def conjoin(self, literals: Iterable[int]) -> Goal:
        """The goal of these literals; `(FALSE,)` if one schema is both required and forbidden."""
        given = tuple(literals)
        found = self._conjoined.get(given)
        if found is None:
            found = self._conjoined[given] = self._conjoin(given)
        return found

    def _conjoin(self, literals: tuple[int, ...]) -> Goal:
        kept = dict.fromkeys(literals)
        if FALSE in kept:
            return (FALSE,)
        kept.pop(TRUE, None)
        if len(kept) < 2:
            return tuple(kept)
        distinct = {self.same_schema(literal): literal for literal in reversed(kept)}
        if any(-same in distinct for same in distinct):
            return (FALSE,)
        return tuple(reversed(distinct.values()))

    def same_schema(self, literal: int) -> int:
        """One literal for all equal schemas."""
        if abs(literal) == TRUE:
            return literal
        same = self._same.get(abs(literal))
        if same is None:
            location = self._loader.location(literal)
            said = {keyword: value for keyword, value in location.schema.items() if keyword not in ANNOTATIONS}
            key = (id(location.resource), _SAID.encode(said))
            if said.keys() == {"$ref"}:
                self._same[abs(literal)] = abs(literal)
                same = self.same_schema(self._loader.resolve(location, "$ref"))
            else:
                same = self._first_to_say.setdefault(key, abs(literal))
            self._same[abs(literal)] = same
        return same if literal > 0 else -same
