"""Explanations for people: how an object's keys cause a text to stop matching."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from formatter_core.grammar import Bytes, JsonText, Members, Node, Terminal, children
from formatter_core.parsing.expectation import listed, place, place_in_words

__all__ = ["fault_of_keys"]

#: A punctuation sign, a string, which may be cut, or the text between these.
_TOKEN = re.compile(r'\s*([{}\[\],:]|"(?:[^"\\]|\\.)*\\?"?|[^\s{}\[\],:"]*)', re.DOTALL)
_KEY = re.compile(r'\s*,?\s*("(?:[^"\\]|\\.)*")', re.DOTALL)
_DECODER = json.JSONDecoder()
#: So many missing keys are named, and so many characters of a key.
_NAMED, _SHOWN_OF_KEY = 20, 100
_ANY_ORDER = 'key_order="any" takes keys in any order'


@dataclass(slots=True)
class _Object:
    """An object that a text leaves open.

    Attributes:
        begin: where it begins.
        known: its keys whose members are complete.
        end: where the members after those begin, at a comma or a quotation mark.
        key: the key of the current member, as it is spelled; "" before it begins.
        is_in_value: whether its colon has been read, but no value.
        has_value: whether its value has begun.
    """

    begin: int
    known: set[str]
    end: int
    key: str = ""
    is_in_value: bool = False
    has_value: bool = False

    def take_member(self, at: int) -> None:
        """Take the member that ends here, if one is under way."""
        if self.has_value:
            self.known.add(_decoded(self.key) or "")
        self.end, self.key, self.has_value = at, "", False


def fault_of_keys(find_rules: Callable[[], Mapping[str, Node]], before: str, after: str) -> str | None:
    """Explain the fault in the keys of an object; None if the keys are not why the text stops matching.

    Args:
        find_rules: finds those in which something else was expected; it is called if the text ends inside an object.
        before: the text up to there.
        after: the rest of the text; "" where all of it matches so far.
    """
    around = _object_before(before)
    if around is None:
        return None
    objects = [(rule, each) for rule, body in find_rules().items() for each in _members_in(body)]
    if len(objects) != 1:
        return None
    ((rule, members),) = objects
    where = f" {place_in_words(place((), rule, is_start=True))}".rstrip()
    names = [None if member.repeated else _name_of(member.ways[0].item) for member in members.members]
    missing = [
        name
        for name, member in zip(names, members.members, strict=True)
        if name is not None and member.required and name not in around.known
    ]
    text = before + after
    key = _key_at(text, around.end)
    if key is None:
        ends = not after or after.lstrip().startswith("}")
        return _missing(missing, where) if missing and ends else None
    if key not in names and None not in names:
        return f"there is no key {_shown(key)}{where}"
    if key in names and key in around.known:
        return f"the key {_shown(key)} comes a second time{where}"
    index = names.index(key if key in names else None)
    earlier = next((name for name in missing if names.index(name) < index), None)
    later = next((name for name in names[index + 1 :] if name in around.known), None)
    if not members.ordered:
        return None
    if earlier is not None:
        absent = _absent(missing, text, around.begin)
        return _missing(absent, where) if earlier in absent else _out_of_order(earlier, key, where)
    return None if later is None else _out_of_order(key, later, where)


def _out_of_order(first: str, second: str, where: str) -> str:
    return f"the key {_shown(first)} must come before {_shown(second)}{where}; {_ANY_ORDER}"


def _missing(names: list[str], where: str) -> str:
    words = [*map(_shown, names[:_NAMED]), *([f"{len(names) - _NAMED:,} more"] if len(names) > _NAMED else [])]
    return f"missing the key{'s' * (len(names) > 1)} {listed(words, 'and')}{where}"


def _shown(key: str) -> str:
    """Quote a key as JSON text, with escapes for what does not print; a long key is cut."""
    text = json.dumps(key if len(key) <= _SHOWN_OF_KEY else f"{key[:_SHOWN_OF_KEY]}…", ensure_ascii=False)
    return "".join(c if c.isprintable() else json.dumps(c)[1:-1] for c in text)


def _absent(names: list[str], text: str, begin: int) -> list[str]:
    """Return the names that the whole object does not have; all of them if it is not JSON."""
    try:
        found, _ = _DECODER.raw_decode(text, begin)
    except (ValueError, RecursionError):
        return names
    return [name for name in names if name not in found]


def _members_in(body: Node) -> list[Members]:
    """Yield the lists of members in a rule; a terminal has none."""
    found: list[Members] = []
    stack = [body]
    while stack:
        node = stack.pop()
        if isinstance(node, Members):
            found.append(node)
        elif not isinstance(node, Terminal):
            stack += children(node)
    return found


def _name_of(item: Node) -> str | None:
    """Return the key that a member begins with; None if it may be any of several."""
    leaf = _first_leaves(item, 2)[-1]  # after the quotation mark
    if isinstance(leaf, Bytes):  # in canonical spelling
        return _decoded(f'"{leaf.value.decode()}"')
    return leaf.text if isinstance(leaf, JsonText) else None


def _first_leaves(node: Node, count: int) -> list[Node]:
    below = children(node)
    if not below:
        return [node]
    found: list[Node] = []
    for child in below:
        if len(found) < count:
            found += _first_leaves(child, count - len(found))
    return found


def _object_before(text: str) -> _Object | None:
    """Find the innermost object or array that the text leaves open.

    Return it if it is an object, but not before a value in it.
    """
    stack: list[_Object | None] = []
    at = 0
    while at < len(text):
        if not stack:
            at = text.find("{", at)
            if at < 0:
                return None
        token = _TOKEN.match(text, at)
        if token is None:
            return None
        at, word = token.end(), token[1]
        top = stack[-1] if stack else None
        if word in ("}", "]"):
            stack.pop()
        elif word == ",":
            if top is not None:
                top.take_member(token.start(1))
        elif word == ":":
            if top is not None:
                top.is_in_value = True
        elif word:
            if top is not None and top.is_in_value:
                top.is_in_value, top.has_value = False, True
            elif top is not None:
                top.key, top.end = word, token.start(1)
            if word in ("{", "["):
                stack.append(_Object(token.start(1), set(), at) if word == "{" else None)
    found = stack[-1] if stack else None
    if found is None or found.is_in_value:
        return None
    if found.has_value:
        found.take_member(at)
    return found


def _decoded(spelled: str) -> str | None:
    try:
        return str(json.loads(spelled))
    except ValueError:
        return None


def _key_at(text: str, at: int) -> str | None:
    """Return the key of the member at a place, or after the comma there."""
    found = _KEY.match(text, at)
    return None if found is None else _decoded(found[1])
