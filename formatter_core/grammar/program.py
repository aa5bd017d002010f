"""A grammar as one program: checked, counted and written in one walk.

The program, version 6: the bytes ``FCG6``, the number of rules, the number of the start rule, and one program for each
rule. That is a list of operations in postfix order, which ends with `RULE_END`; numbers are LEB128. It serves masks and
the parser of captures alike: it contains the number of a capture's name.

`TERMINAL` is a length, and the program of its content, written independently of everything outside, so that the same
terminal is the same bytes in every grammar. Terminals are numbered from 0; the nodes made inside a terminal have their
own numbers from 0. `AGAIN` refers to one by its number. Inside a terminal, `KEPT` is an interned node: a length, and
the program of that node alone, which counts as one node. Engines cache their results for both.

`RULES` replaces rules that many grammars end with: a length, the number of these rules, and their programs, in which
rules and terminals are numbered from 0. Engines cache their results for these rules, too.

`MULTIPLES` takes the step, the number of places after the point, of zeros that the step ends with, and the most digits
before the point, 0 for any number.

`REGION` comes after its item, and takes the number of tokens.

`MEMBERS` comes after the separator and all ways of all members. It takes whether they are ordered, the minimum, the
maximum plus one or 0, the number of conditions, the bits of `once`, and the members: flags (1 required, 2 repeated, 4
not just one way that meets nothing, 8 distinct), then with flag 4 the bits of `absent`, the number of ways, and the
bits that each way meets.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from formatter_core.errors import InvalidGrammar, LimitExceeded
from formatter_core.grammar import operations
from formatter_core.grammar.checked import Program
from formatter_core.grammar.nodes import (
    AnySpecial,
    Bytes,
    Capture,
    Chars,
    Choice,
    Complement,
    Intersection,
    JsonText,
    Members,
    Multiples,
    Node,
    Reference,
    Region,
    Repeat,
    Schema,
    SchemaRules,
    Sequence,
    Shortest,
    Special,
    Substring,
    Terminal,
    Token,
    is_interned,
    walk,
)
from formatter_core.grammar.operations import written_number as _number
from formatter_core.limits import DEFAULT_LIMITS, Limits
from formatter_core.limits.turns import give_way

__all__ = ["Program", "write"]

_RULE_END = _number(operations.RULE_END)
_BYTES = _number(operations.BYTES)
_CHARS = _number(operations.CHARS)
_REPEAT = _number(operations.REPEAT)
_SUBSTRING = _number(operations.SUBSTRING)
_TERMINAL = _number(operations.TERMINAL)
_AGAIN = _number(operations.AGAIN)
_REFERENCE = _number(operations.REFERENCE)
_TOKEN = _number(operations.TOKEN)
_KEPT = _number(operations.KEPT)
_MEMBERS = _number(operations.MEMBERS)
_CAPTURE = _number(operations.CAPTURE)
_LAZY_REPEAT = _number(operations.LAZY_REPEAT)
_REGION = _number(operations.REGION)
_MULTIPLES = _number(operations.MULTIPLES)
_JSON_TEXTS = {"any": _number(operations.JSON_TEXT), "canonical": _number(operations.CANONICAL_TEXT)}
_LISTS: dict[type, bytes] = {
    Sequence: _number(operations.SEQUENCE),
    Choice: _number(operations.CHOICE),
    Intersection: _number(operations.INTERSECTION),
}
_WRAPPERS: dict[type, bytes] = {
    Complement: _number(operations.COMPLEMENT),
    Shortest: _number(operations.SHORTEST),
}
_NOTHING = _LISTS[Choice] + _number(0)
_MAX_TOKENS = 2**30  # no output has that many tokens
_MAX_NODES = 2**48  # more than fits into memory
#: The number of nodes of a terminal after which other threads may run.
_OFTEN = 64
_LEAVES = (Terminal, Bytes, Chars, Substring)
_REGULAR_ONLY = (Intersection, Complement, Shortest, JsonText, Multiples)


def write(rules: Mapping[str, Node], start: str, limits: Limits) -> Program:
    """Write the program of a grammar.

    Args:
        rules: the bodies of the rules, by name.
        start: the name of the start rule.
        limits: bounds on the cost of the grammar.

    Raises:
        InvalidGrammar: an undefined rule, or a node where it is not allowed.
        LimitExceeded: too many nodes, too deep, or too large a repeat.
        FormatterError: a schema cannot be lowered.
    """
    parts: dict[str, SchemaRules] = {}
    for name, body in rules.items():
        if isinstance(body, Schema):
            give_way()
            found = body.source.program(limits, alone=len(rules) == 1)
            if isinstance(found, Program):
                return found
            parts[name] = found
    return _write(rules, start, parts, limits)


def _write(rules: Mapping[str, Node], start: str, parts: Mapping[str, SchemaRules], limits: Limits) -> Program:
    """Write the program of a grammar; `parts` has the rules of its schemas."""
    firsts: dict[str, int] = {}
    count = 0
    for name in rules:
        firsts[name] = count
        count += parts[name].count if name in parts else 1
    writer = _Writer(firsts, limits)
    if start not in firsts:
        raise InvalidGrammar(f"the start rule {start!r} is not defined; define it or name another")
    writer.out += operations.MAGIC + _number(count) + _number(firsts[start])
    try:
        for name, body in rules.items():
            if name in parts:
                writer.schema(parts[name], firsts[name])
            else:
                writer.rule(name, body)
    except RecursionError as error:  # a terminal that is too deep for Python's stack; `Limits.depth` was raised
        raise LimitExceeded("depth", limits.depth, "a terminal deeper than Python's own recursion limit") from error
    if writer.regions and writer.has_members:
        _check_regions(rules)
    return Program(
        bytes(writer.out),
        writer.nodes,
        tuple(writer.tokens),
        tuple(writer.names),
        specials=writer.specials,
        regions=writer.regions,
    )


def _check_regions(rules: Mapping[str, Node]) -> None:
    """Raise if a member of a list contains a region: the shortest text of a list is computed without budgets."""
    known: dict[str, bool] = {}

    def has_region(node: Node) -> bool:
        for part in walk(node):
            if isinstance(part, Region):
                return True
            if isinstance(part, Reference) and part.name not in known and part.name in rules:
                known[part.name] = False
                known[part.name] = has_region(rules[part.name])
            if isinstance(part, Reference) and known.get(part.name):
                return True
        return False

    for name, body in rules.items():
        if any(isinstance(node, Members) and has_region(node) for node in walk(body)):
            raise InvalidGrammar(f"a member in the rule {name!r} holds a region with a budget; only a whole list may")


class _Writer:
    def __init__(self, numbers: Mapping[str, int], limits: Limits) -> None:
        self.out = bytearray()
        self.nodes = 0
        self.tokens: dict[int, None] = {}
        self.names: dict[str, int] = {}
        self.specials = False
        self.regions = 0
        self.has_members = False
        self._rule = ""
        self._limits = limits
        self._references = _references(numbers)
        # Keyed by identity: a grammar may use one terminal in many places, and it is written once. The entries keep the
        # terminals alive. Each gives the reference to a written terminal and its height.
        self._terminals: dict[int, tuple[bytes, int]] = {}
        self._programs = bytearray()
        self._count = 0

    def schema(self, part: SchemaRules, first: int) -> None:
        """Write the rules of a schema; `first` is the number of the first one."""
        give_way()
        data, nodes, terminals, count = part.write(first, bytes(self._programs))
        self.out += data
        self.nodes += nodes
        self._programs += terminals
        self._count += count
        self._check_count()

    def rule(self, name: str, body: Node) -> None:
        """Write a rule."""
        give_way()
        self._rule = name
        out, references, terminals = self.out, self._references, self._terminals
        # Iterative: outside of terminals, the limits may allow any depth. An operation waits on the stack for its
        # operands.
        stack: list[tuple[Node | bytes, int]] = [(body, self._limits.depth)]
        while stack:
            node, room = stack.pop()
            if isinstance(node, bytes):
                out += node
            elif room <= 0:
                raise _too_deep(name, self._limits)
            elif isinstance(node, (Sequence, Choice)):
                self.nodes += 1
                room -= 1
                operation = _LISTS[type(node)] + _number(len(node.items))
                for place, item in enumerate(node.items):
                    if type(item) is Terminal:
                        known = terminals.get(id(item))
                        if known is not None and known[1] <= room:
                            out += known[0]
                        else:
                            self._terminal(item, room)
                    elif type(item) is Reference and room > 0 and item.name in references:
                        out += references[item.name]
                    else:
                        stack.append((operation, 0))
                        stack.extend((each, room) for each in reversed(node.items[place:]))
                        break
                    self.nodes += 1
                else:
                    out += operation
            else:
                self.nodes += 1
                self._other(node, room, stack)
        out += _RULE_END
        self._check_count()

    def _other(self, node: Node, room: int, stack: list[tuple[Node | bytes, int]]) -> None:
        """Write a node outside of terminals that is not a sequence of other nodes."""
        give_way()
        if isinstance(node, Terminal):
            self._terminal(node, room)
        elif isinstance(node, Reference):
            if node.name not in self._references:
                raise InvalidGrammar(
                    f"the rule {node.name!r} is not defined but the rule {self._rule!r} uses it; define it"
                )
            self.out += self._references[node.name]
        elif isinstance(node, Repeat):
            stack += [(_repeat(node, self._rule, self._limits), 0), (node.item, room - 1)]
        elif isinstance(node, Capture):
            number = self.names.setdefault(node.name, len(self.names))
            stack += [(_CAPTURE + _number(number), 0), (node.item, room - 1)]
        elif isinstance(node, Region):
            if node.max_tokens < 1:
                raise InvalidGrammar(f"the budget {node.max_tokens} in the rule {self._rule!r} is below 1")
            self.regions += 1
            stack += [(_REGION + _number(min(node.max_tokens, _MAX_TOKENS)), 0), (node.item, room - 1)]
        elif isinstance(node, Members):
            self.has_members = True
            operands = [node.separator, *(way.item for member in node.members for way in member.ways)]
            stack.append((_members(node, self._rule, self._limits), 0))
            stack.extend((each, room - 1) for each in reversed(operands))
        elif isinstance(node, Token):
            if node.token_id < 0:
                raise InvalidGrammar(f"the token id {node.token_id} in the rule {self._rule!r} is negative")
            self.tokens[node.token_id] = None
            self.out += _TOKEN + _number(node.token_id)
        elif isinstance(node, (Special, AnySpecial)):
            self.specials = True
            self.out += _NOTHING
        elif isinstance(node, _REGULAR_ONLY):
            kind = type(node).__name__
            raise InvalidGrammar(f"a {kind} stands outside a Terminal in the rule {self._rule!r}; wrap it in one")
        elif isinstance(node, (Bytes, Chars, Substring)):
            self.out += _text(node)
        elif isinstance(node, Schema):
            raise InvalidGrammar(f"a Schema stands in a part of the rule {self._rule!r}; give it a rule of its own")

    def _terminal(self, node: Terminal, room: int) -> None:
        known = self._terminals.get(id(node))
        if known is not None:
            again, height = known
            self.out += again
        else:
            # A terminal compiles to one automaton, wherever it is used: it is written and counted once.
            written = _written(node, self._rule, self._limits, room - 1)
            height = 1 + written.height
            self._terminals[id(node)] = _AGAIN + _number(self._count), height
            self._count += 1
            self._programs += written.program
            self.out += written.program
            self.nodes += written.size
            self._check_count()
        if height > room:
            raise _too_deep(self._rule, self._limits)

    def _check_count(self) -> None:
        if self.nodes > self._limits.nodes:
            raise LimitExceeded("nodes", self._limits.nodes, "the grammar")


class _Written(NamedTuple):
    """The program of a terminal or an interned node: its reference, and the sizes that were compared with limits.

    The size and the height are those of a tree, even where nodes are shared.
    """

    program: bytes
    size: int
    height: int
    repeat: int


#: Recently written terminals and interned nodes, by identity; the entries keep the nodes alive.
_recent: dict[int, tuple[Node, _Written]] = {}
_interned: dict[int, _Written] = {}
#: Maximum entries of `_recent`, and bytes of the program of one; when it is full, it is cleared.
_MAX_RECENT = 4096
_MAX_RECENT_BYTES = 512


def _written(node: Terminal, rule: str, limits: Limits, room: int) -> _Written:
    known, written = _recent.get(id(node), (None, None))
    if known is not node or written is None or written.height > room or written.repeat > limits.repeat:
        written = _TerminalWriter(rule, limits).whole(node.item, _TERMINAL, room)
        if len(written.program) <= _MAX_RECENT_BYTES:
            if len(_recent) >= _MAX_RECENT:
                _recent.clear()
            _recent[id(node)] = node, written
    return written


class _TerminalWriter:
    """A writer of the content of one terminal."""

    def __init__(self, rule: str, limits: Limits, *, in_interned: bool = False) -> None:
        self._rule = rule
        self._limits = limits
        self._in_interned = in_interned
        self._out = bytearray()
        self._largest_repeat = 0
        # By identity: the number of a written node, its size and its height.
        self._known: dict[int, tuple[int, int, int]] = {}

    def whole(self, node: Node, operation: bytes, room: int) -> _Written:
        """Write a node as the program of an operation."""
        size, height = self._node(node, room)
        return _Written(_counted(operation, self._out), size, height, self._largest_repeat)

    def _node(self, node: Node, room: int) -> tuple[int, int]:
        """Write a node; return the size and the height of its tree."""
        known = self._known.get(id(node))
        if known is not None:
            number, size, height = known
            self._out += _AGAIN + _number(number)
        elif room <= 0:
            raise _too_deep(self._rule, self._limits)
        else:
            size, height = self._new_node(node, room - 1)
            if len(self._known) % _OFTEN == 0:
                give_way()
            # The tree of shared nodes can be astronomically large, so counting stops at a bound. The bound does not
            # depend on `limits`, since the result is cached for grammars with other limits.
            size = min(size, _MAX_NODES)
            self._known[id(node)] = len(self._known), size, height
        if height > room:
            raise _too_deep(self._rule, self._limits)
        return size, height

    def _new_node(self, node: Node, room: int) -> tuple[int, int]:
        if is_interned(node) and not self._in_interned:
            return self._interned_node(node)
        size = height = 1
        if isinstance(node, (Bytes, Chars)):
            self._out += _text(node)
        elif isinstance(node, (Sequence, Choice, Intersection)):
            for item in node.items:
                size_below, height_below = self._node(item, room)
                size += size_below
                if height_below >= height:
                    height = height_below + 1
            self._out += _LISTS[type(node)] + _number(len(node.items))
        elif isinstance(node, (Repeat, Complement, Shortest)):
            if isinstance(node, Repeat):
                operation = _repeat(node, self._rule, self._limits)
                self._largest_repeat = max(self._largest_repeat, node.minimum, node.maximum or 0)
            else:
                operation = _WRAPPERS[type(node)]
            size_below, height_below = self._node(node.item, room)
            size, height = 1 + size_below, 1 + height_below
            self._out += operation
        elif isinstance(node, JsonText):
            self._out += _counted(_JSON_TEXTS[node.spelling], node.text.encode("utf-8"))
            size = 1 + len(node.text)
        elif isinstance(node, Multiples):
            numbers = (node.step, max(node.places, 0), max(-node.places, 0), node.digits)
            self._out += _MULTIPLES + b"".join(map(_number, numbers))
        elif isinstance(node, (Terminal, Reference, Members, Capture, Region, Token, Special, AnySpecial, Schema)):
            kind = type(node).__name__
            raise InvalidGrammar(f"a {kind} stands inside a Terminal of the rule {self._rule!r}; terminals are regular")
        else:
            self._out += _text(node)
        return size, height

    def _interned_node(self, node: Node) -> tuple[int, int]:
        written = _interned.get(id(node))
        if written is None:
            writer = _TerminalWriter(self._rule, DEFAULT_LIMITS, in_interned=True)
            written = _interned[id(node)] = writer.whole(node, _KEPT, DEFAULT_LIMITS.depth)
        self._out += written.program
        return written.size, written.height


def _references(numbers: Mapping[str, int]) -> dict[str, bytes]:
    """Make the operation that refers to each rule, by rule name."""
    return {name: _REFERENCE + _number(number) for name, number in numbers.items()}


def _repeat(node: Repeat, rule: str, limits: Limits) -> bytes:
    minimum, maximum = node.minimum, node.maximum
    if minimum < 0 or (maximum is not None and maximum < minimum):
        raise InvalidGrammar(f"the repeat {{{minimum},{maximum}}} in the rule {rule!r} needs 0 <= minimum <= maximum")
    if max(minimum, maximum or 0) > limits.repeat:
        raise LimitExceeded("repeat", limits.repeat, f"a repeat in the rule {rule!r}")
    operation = _REPEAT if node.greedy else _LAZY_REPEAT
    return operation + _number(minimum) + _number(0 if maximum is None else maximum + 1)


def _members(node: Members, rule: str, limits: Limits) -> bytes:
    """Make the operation of a list of members, which comes after the separator and all ways."""
    maximum = node.maximum
    if max(node.minimum, maximum or 0) > limits.repeat:
        raise LimitExceeded("repeat", limits.repeat, f"a list of members in the rule {rule!r}")
    if not isinstance(node.separator, _LEAVES):
        raise InvalidGrammar(f"the separator of members in the rule {rule!r} is not regular; wrap it in a Terminal")
    if maximum is not None and maximum < node.minimum:
        raise InvalidGrammar(f"the members in the rule {rule!r} need minimum <= maximum")
    out = bytearray(_MEMBERS)
    out += _number(node.ordered) + _number(node.minimum) + _number(0 if maximum is None else maximum + 1)
    out += _number(node.conditions) + _bits(node.once)
    out += _number(len(node.members))
    for member in node.members:
        give_way()
        if member.repeated and (member.required or member.absent):
            raise InvalidGrammar(
                f"a repeated member in the rule {rule!r} is required, or meets something by its absence"
            )
        ways = member.ways
        if member.distinct and not all(isinstance(_first(way.item), _LEAVES) for way in ways):
            raise InvalidGrammar(f"a distinct member in the rule {rule!r} does not begin with a terminal")
        flags = member.required + 2 * member.repeated + 8 * member.distinct
        if len(ways) == 1 and not (ways[0].meets or member.absent):
            out += _number(flags)
        else:
            out += _number(flags + 4) + _bits(member.absent) + _number(len(ways))
            out += b"".join(_bits(way.meets) for way in ways)
    return bytes(out)


def _first(node: Node) -> Node:
    """Return the node that a node begins with."""
    while isinstance(node, Sequence) and node.items:
        node = node.items[0]
    return node


def _bits(bits: int) -> bytes:
    """Write the number of set bits and the index of each."""
    numbers = [_number(place) for place in range(bits.bit_length()) if bits >> place & 1]
    return _number(len(numbers)) + b"".join(numbers)


def _too_deep(rule: str, limits: Limits) -> LimitExceeded:
    return LimitExceeded("depth", limits.depth, f"the rule {rule!r}")


def _text(node: Bytes | Chars | Substring) -> bytes:
    if isinstance(node, Bytes):
        return _counted(_BYTES, node.value)
    if isinstance(node, Chars):
        bounds = [bound for each in node.ranges for bound in each]
        return _CHARS + _number(len(node.ranges)) + b"".join(map(_number, bounds))
    return _counted(_SUBSTRING, node.text.encode("utf-8", "surrogatepass"))


def _counted(operation: bytes, data: bytes | bytearray) -> bytes:
    return operation + _number(len(data)) + data
