"""Exact sets of strings: lengths, patterns, formats and lists of values."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator
from dataclasses import replace
from functools import lru_cache
from typing import NamedTuple

from formatter_core.engine import emptiness
from formatter_core.errors import UnsupportedSchema
from formatter_core.grammar import (
    ANY_CHAR,
    Bytes,
    Chars,
    Choice,
    Complement,
    Intersection,
    Node,
    Repeat,
    Sequence,
    holds_of_parts,
    literal,
)
from formatter_core.grammar.automaton import Automaton
from formatter_core.grammar.values import value
from formatter_core.limits import Limits
from formatter_core.schema.spelling import QUOTE, Spelling, free_body, free_char, not_in, spell, words
from formatter_core.schema.string_formats import format_node, left_out, spelled_format, wide_name
from formatter_core.syntax.regex import parse_ecma

__all__ = [
    "ANY_STRING",
    "MOST_COMPARED",
    "StringSet",
    "Test",
    "as_enforced",
    "count_texts",
    "decide_no_string",
    "is_empty",
    "largest_strings",
    "matches",
    "meet_strings",
    "other_strings",
    "string_body",
    "string_node",
    "string_nodes",
    "text_node",
    "texts",
]

#: Maximum states of an automaton that decides emptiness; above it the answer is "not known to be empty".
_DECIDING = Limits(states=500, work=20_000)
_COUNTING = Limits(states=5_000, work=1_000_000)
#: Maximum wider alternatives that we compare an alternative with.
MOST_COMPARED = 64


class Test(NamedTuple):
    """A regular property of a text: an ECMA 262 pattern matches in it, or it has a format.

    `narrowed` is where the schema says so, if texts are left out that pass it: then nobody knows what fails it.
    """

    kind: str
    argument: str
    narrowed: str | None = None

    def node(self) -> Node:
        """The texts that pass, but for those that are left out."""
        return _test_node(self.kind, self.argument)

    def wide(self) -> Test | None:
        """A test that all of them pass, those that are left out too; None for that of any text."""
        wide = self.argument if self.narrowed is None else wide_name(self.argument)
        return None if wide is None else Test(self.kind, wide)


@value()
class StringSet:
    """The texts with a length (in code points) within bounds that pass and fail these tests.

    `values`, where not None, lists the members instead, and no other field counts. `excluded` are single texts.
    """

    minimum: int = 0
    maximum: int | None = None
    passed: tuple[Test, ...] = ()
    failed: tuple[Test, ...] = ()
    excluded: frozenset[str] = frozenset()
    values: tuple[str, ...] | None = None

    def __contains__(self, text: str) -> bool:
        if self.values is not None:
            return text in self.values
        return (
            self.minimum <= len(text)
            and (self.maximum is None or len(text) <= self.maximum)
            and text not in self.excluded
            and all(matches(test, text) for test in self.passed)
            and not any(matches(test, text) for test in self.failed)
        )


ANY_STRING = StringSet()


@lru_cache(maxsize=1024)
def matches(test: Test, text: str) -> bool:
    """Whether a text passes a test.

    Raises:
        UnsupportedSchema: it may be one of those that are left out.
    """
    found = _test_automaton(test.kind, test.argument).matches(literal(text).value)
    if not found and test.narrowed is not None and ((wide := test.wide()) is None or matches(wide, text)):
        reason = f"{left_out(test.argument)}, and {text!r}, which the schema lists, may be one; list others"
        raise UnsupportedSchema(reason, pointer=test.narrowed, keyword=test.kind)
    return found


def meet_strings(a: StringSet, b: StringSet) -> StringSet | None:
    """The intersection; None if it is certainly empty."""
    if a is ANY_STRING or a is b:
        return b
    if b is ANY_STRING:
        return a
    if a.values is not None or b.values is not None:
        first, second = (a, b) if a.values is not None else (b, a)
        kept = tuple(value for value in first.values or () if value in second)
        return StringSet(values=kept) if kept else None
    minimum = max(a.minimum, b.minimum)
    maximum = b.maximum if a.maximum is None else a.maximum if b.maximum is None else min(a.maximum, b.maximum)
    passed = tuple(dict.fromkeys((*a.passed, *b.passed)))
    failed = tuple(dict.fromkeys((*a.failed, *b.failed)))
    if (maximum is not None and minimum > maximum) or not set(passed).isdisjoint(failed):
        return None
    return StringSet(minimum, maximum, passed, failed, a.excluded | b.excluded)


def as_enforced(a: StringSet) -> StringSet:
    """The set without what is left out of it."""
    return replace(a, passed=tuple(Test(test.kind, test.argument) for test in a.passed))


def other_strings(a: StringSet) -> list[StringSet]:
    """The texts outside a set, as a union.

    Raises:
        UnsupportedSchema: some texts are left out of it.
    """
    narrowed = next((test for test in a.passed if test.narrowed is not None), None)
    if narrowed is not None:
        reason = f"what is not in the format cannot be told, since {left_out(narrowed.argument)}"
        raise UnsupportedSchema(reason, pointer=narrowed.narrowed or "", keyword=narrowed.kind)
    if a.values is not None:
        return [StringSet(excluded=frozenset(a.values))]
    found: list[StringSet] = []
    if a.minimum:
        found.append(StringSet(maximum=a.minimum - 1))
    if a.maximum is not None:
        found.append(StringSet(minimum=a.maximum + 1))
    found += [StringSet(failed=(test,)) for test in a.passed]
    found += [StringSet(passed=(test,)) for test in a.failed]
    if a.excluded:
        found.append(StringSet(values=tuple(sorted(a.excluded))))
    return found


def largest_strings(union: tuple[StringSet, ...]) -> tuple[StringSet, ...]:
    """A union without alternatives that are obviously inside others; products of unions have many."""
    if len(union) < 2:
        return union
    demands = [frozenset((*each.passed, *((test, False) for test in each.failed), *each.excluded)) for each in union]
    wide: list[int] = []
    kept = {index for index, each in enumerate(union) if each.values is not None}
    for index in sorted(set(range(len(union))) - kept, key=lambda index: len(demands[index])):
        if not any(
            demands[other] <= demands[index] and _lies_within(union[index], union[other])
            for other in wide[:MOST_COMPARED]
        ):
            wide.append(index)
    return tuple(union[index] for index in sorted(kept.union(wide)))


def _lies_within(narrow: StringSet, wide: StringSet) -> bool:
    """Whether the bounds of one set's lengths are inside those of another."""
    return narrow.minimum >= wide.minimum and (
        wide.maximum is None or (narrow.maximum is not None and narrow.maximum <= wide.maximum)
    )


def is_empty(strings: StringSet) -> bool:
    """Whether a set is known to be empty."""
    return decide_no_string(strings)[0]


@lru_cache(maxsize=4096)
def decide_no_string(strings: StringSet) -> tuple[bool, int]:
    """Whether a set is known to be empty, and the elementary steps that the first call takes."""
    if strings.values is not None:
        return not strings.values, 0
    if not strings.passed and not (strings.failed and strings.maximum is not None):
        return False, 0
    begin = [_beginning(test.node()) for test in strings.passed]
    longest = max(begin, key=len, default=b"")
    if not all(map(longest.startswith, begin)):
        return True, 0
    # What passes does not meet those that begin otherwise.
    failed = tuple(test for test in strings.failed if _agree(_beginning(test.node()), longest))
    wide = (test.wide() for test in strings.passed)
    strings = replace(strings, passed=tuple(test for test in wide if test is not None), failed=failed)
    if strings == StringSet(passed=strings.passed[:1]) and strings.passed and _has_text(strings.passed[0]):
        return False, 0
    return emptiness.decide_empty(text_node(strings), _DECIDING)


def _agree(one: bytes, other: bytes) -> bool:
    """Whether some text has both beginnings."""
    return one.startswith(other) or other.startswith(one)


def _beginning(node: Node) -> bytes:
    """What every text of a node obviously begins with."""
    while isinstance(node, Sequence) and node.items:
        node = node.items[0]
    return node.value if isinstance(node, Bytes) else b""


def count_texts(strings: StringSet, most: int) -> tuple[int, int]:
    """How many texts are in a set, at most `most`, and the elementary steps that this took.

    Raises:
        LimitExceeded: they are too complex to be counted.
    """
    if strings.values is not None:
        return min(len(strings.values), most), 0
    return emptiness.count_texts(text_node(strings), _COUNTING, most)


def texts(strings: StringSet) -> Iterator[str]:
    """The texts of a set, the shortest first."""
    if strings.values is not None:
        return iter(strings.values)
    return (text.decode() for text in Automaton(text_node(strings)).texts())


def text_node(strings: StringSet) -> Node:
    """The texts of a set as they are, without quotes and escapes."""
    if strings.values is not None:
        return Choice(tuple(literal(text) for text in strings.values))
    items = [test.node() for test in strings.passed] + [Complement(test.node()) for test in strings.failed]
    if strings.minimum or strings.maximum is not None or not strings.passed:
        items.append(Repeat(ANY_CHAR, strings.minimum, strings.maximum))
    if strings.excluded:
        items.append(Complement(Choice(tuple(literal(text) for text in sorted(strings.excluded)))))
    return items[0] if len(items) == 1 else Intersection(tuple(items))


def _has_text(test: Test) -> bool:
    """Whether some text obviously passes a test: every format, and patterns without negation."""
    return test.kind == "format" or _is_plain(test.node())


def _is_plain(node: Node) -> bool:
    if isinstance(node, Chars):
        return bool(node.ranges)
    return holds_of_parts(node, _is_plain) or isinstance(node, Bytes)


def string_nodes(union: Iterable[StringSet], spelling: Spelling) -> list[Node]:
    """The spellings of the texts of a union, in quotes, as alternatives. Shared constraints are written once."""
    found: list[Node] = []
    demands: list[dict[Hashable, Node]] = []
    for strings in union:
        if strings == ANY_STRING or strings.values is not None:
            found.append(string_node(strings, spelling))
        else:
            demands.append(_demands(strings, spelling))
    if not demands:
        return found
    shared = [key for key in demands[0] if all(key in each for each in demands)] if len(demands) > 1 else []
    if not shared:
        return found + [Sequence((QUOTE, _all_of(list(each.values())), QUOTE)) for each in demands]
    items = [demands[0][key] for key in shared]
    rest = [[node for key, node in each.items() if key not in shared] for each in demands]
    if all(rest):
        items.append(Choice(tuple(_all_of(nodes) for nodes in rest)))
    return [*found, Sequence((QUOTE, _all_of(items), QUOTE))]


def string_node(strings: StringSet, spelling: Spelling) -> Node:
    """The spellings of the texts of a set, in quotes."""
    return Sequence((QUOTE, string_body(strings, spelling), QUOTE))


def string_body(strings: StringSet, spelling: Spelling) -> Node:
    """The spellings of the texts of a set, without quotes."""
    if strings == ANY_STRING:
        return free_body(spelling)
    if strings.values is not None:
        return words(strings.values, spelling)
    return _all_of(list(_demands(strings, spelling).values()))


def _demands(strings: StringSet, spelling: Spelling) -> dict[Hashable, Node]:
    """The constraints of a set that is not a list of values, each as the texts that meet it."""
    found: dict[Hashable, Node] = {}
    for test in strings.passed:
        is_format = test.kind == "format"
        found[test, True] = spelled_format(test.argument, spelling) if is_format else _spelled_test(test, spelling)
    if strings.minimum or strings.maximum is not None:
        found[strings.minimum, strings.maximum] = Repeat(free_char(spelling), strings.minimum, strings.maximum)
    if strings.excluded:
        found[strings.excluded] = not_in(sorted(strings.excluded), spelling)
    if not found:
        found["any"] = free_body(spelling)
    for test in strings.failed:
        found[test, False] = Complement(_spelled_test(test, spelling))
    return found


def _all_of(items: list[Node]) -> Node:
    return items[0] if len(items) == 1 else Intersection(tuple(items))


@lru_cache(maxsize=512)
def _test_node(kind: str, argument: str) -> Node:
    return parse_ecma(argument) if kind == "pattern" else format_node(argument)


@lru_cache(maxsize=512)
def _spelled_test(test: Test, spelling: Spelling) -> Node:
    return spell(test.node(), spelling)


@lru_cache(maxsize=256)
def _test_automaton(kind: str, argument: str) -> Automaton:
    return Automaton(_test_node(kind, argument))
