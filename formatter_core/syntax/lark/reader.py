"""Lark text -> grammar, see the package."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from formatter_core.errors import InvalidGrammar, InvalidRegex, LimitExceeded
from formatter_core.errors.arguments import shown
from formatter_core.grammar import (
    ANY_TEXT,
    EMPTY,
    Bytes,
    Capture,
    Chars,
    Choice,
    Complement,
    Grammar,
    Intersection,
    Node,
    Reference,
    Region,
    Repeat,
    Sequence,
    Shortest,
    Special,
    Substring,
    Terminal,
    Token,
    inner_first,
    literal,
    map_children,
    nullable,
    walk,
    without,
)
from formatter_core.limits import DEFAULT_LIMITS, Limits
from formatter_core.syntax.expression import Expression
from formatter_core.syntax.lark.common import COMMON
from formatter_core.syntax.lark.gaps import with_gaps
from formatter_core.syntax.lark.lazy import with_lazy_first
from formatter_core.syntax.lark.lexer import Lexeme, tokens_of
from formatter_core.syntax.lark.suffixes import Suffixed, with_captures, without_stops
from formatter_core.syntax.regex import escape, parse_rust
from formatter_core.syntax.rules import Rules, cut, similar
from formatter_core.syntax.source import Source

__all__ = ["parse_lark"]

_OPERATORS: dict[str, tuple[int, int | None]] = {"*": (0, None), "+": (1, None), "?": (0, 1)}
_HEX = re.compile(r"\\x([0-9A-Fa-f]{2})|\\(.)")
_TOKEN_ID = re.compile(r"<\[([0-9]{1,10})\]>")
_REFUSED = {
    "temperature": "a grammar does not choose how to sample; give the temperature to the sampler",
    "%override": "write the rule once",
    "%lark": "put its rules beside the others, with names of their own",
    "%if": "write the rules out",
}


def parse_lark(text: str, json_schema: Callable[[Any], Grammar], limits: Limits = DEFAULT_LIMITS) -> Grammar:
    """Read llguidance's Lark; the start rule is `start`.

    Args:
        text: the grammar.
        json_schema: lowers the schema after `%json`, which may have options (`x-guidance`).
        limits: what it may cost.

    Raises:
        InvalidGrammar: a fault in the text, with its line and column.
        LimitExceeded: groups nested too deep, too large a repeat, or too many nodes.
    """
    return _Reader(text, json_schema, limits).read()


@dataclass(slots=True)
class _Open:
    """A bracket that is open."""

    closer: str
    negated: bool


class _Reader:
    def __init__(self, text: str, json_schema: Callable[[Any], Grammar], limits: Limits) -> None:
        self._source = Source(text)
        self._limits = limits
        self._json_schema = json_schema
        self._tokens = tokens_of(self._source, limits)
        self._at = 0
        self._rules = Rules(self._source)
        self._parts = 0
        self._schemas: set[str] = set()
        #: Terminals as written, with references to each other, and the positions of the terminals and their uses.
        self._terminals: dict[str, Node] = {}
        self._places: dict[str, int] = {}
        self._uses: dict[str, int] = {}
        self._ignored: list[Node] = []
        self._bodies: list[tuple[str, int, Node, dict[str, Any]]] = []
        self._lexemes: dict[str, Node] = {}
        #: Rules whose end is outside their capture, by the names of the captures that represent both for now.
        self._suffixed: dict[str, Suffixed] = {}

    def read(self) -> Grammar:
        while self._peek().kind != "end":
            if not self._take("newline"):
                self._item()
        resolved = self._resolved()
        ignored = [self._regular(node, resolved) for node in self._ignored]
        self._lexemes = {name: Terminal(_of_text(node)) for name, node in resolved.items()}
        self._join_stops()
        for name, offset, body, options in self._bodies:
            self._rules.define(name, offset, self._rule_body(name, offset, body, options, resolved))
        grammar = self._rules.grammar("start", self._limits)
        own = {name: grammar.rules[name] for name, *_ in self._bodies}
        others = {name: body for name, body in grammar.rules.items() if name not in own}
        own, start = with_lazy_first(own, "start", self._fault_in_rule, self._limits)
        if ignored:
            gap = Terminal(Repeat(ignored[0] if len(ignored) == 1 else Choice(tuple(ignored))))
            own, start = with_gaps(own, gap, start), f"{start} with gaps"
        if self._suffixed:
            own = {name: with_captures(body, self._suffixed, self._fault_in_captures) for name, body in own.items()}
        return Grammar({**others, **own}, start)

    # --- definitions ---------------------------------------------------------------------------------------------

    def _item(self) -> None:
        token = self._next()
        if token.kind == "rule":
            name = token.text.lstrip("!").lstrip("?")
            options = self._options(name, token)
            self._expect(":")
            self._bodies.append((name, token.offset, self._expression(), options))
        elif token.kind == "terminal":
            self._refuse_extras()
            self._expect(":")
            if token.text in self._terminals:
                raise self._fault(token, f"the terminal `{cut(token.text)}` is defined twice; join them with `|`")
            self._places[token.text] = token.offset
            self._terminals[token.text] = self._expression(is_terminal=True)
        elif token.text == "%ignore":
            self._ignored.append(self._expression(is_terminal=True))
        elif token.text == "%import":
            self._import()
        elif token.text == "%declare":
            while self._peek().kind in ("terminal", "rule"):
                self._next()  # a name without a definition; using it is a fault
        elif token.text == "%llguidance":
            self._check_settings(token)
        elif token.text in _REFUSED:
            raise self._fault(token, f"`{token.text}` is not supported; {_REFUSED[token.text]}")
        else:
            raise self._fault(token, "expected a rule `name: …`, a terminal `NAME: …` or a directive such as `%ignore`")
        if self._peek().kind not in ("newline", "end"):
            raise self._fault(self._peek(), "expected the end of the line; only `|` continues a definition")

    def _check_settings(self, token: Lexeme) -> None:
        if not isinstance(token.value, dict):
            raise self._fault(token, "expected an object after `%llguidance`, as in `%llguidance {}`")
        for key, value in token.value.items():
            if key != "no_forcing":
                raise self._fault(token, f"the option {key!r} is not enforced; leave it out")
            if not isinstance(value, bool):
                raise self._fault(token, f"the option 'no_forcing' is {shown(value)}; write true or false")

    def _refuse_extras(self) -> None:
        token = self._peek()
        if token.kind == "{":
            raise self._fault(token, "templates are not supported; write the rule out for each argument")
        if token.kind == "::":
            raise self._fault(token, "rules with a parameter are not supported; write them out")
        if token.kind == ".":
            raise self._fault(token, "priorities are not supported; order the alternatives instead")

    def _options(self, name: str, rule: Lexeme) -> dict[str, Any]:
        self._refuse_extras()
        found: dict[str, Any] = {}
        written: set[str] = set()
        if not self._take("["):
            return found
        while not self._take("]"):
            if found:
                self._expect(",")
            option = self._next()
            if option.text in written:
                raise self._fault(option, f"the option `{cut(option.text)}` stands twice; leave one of them out")
            written.add(option.text)
            if option.text in _REFUSED:
                raise self._fault(option, f"the option `{option.text}` is not enforced; {_REFUSED[option.text]}")
            if option.text == "capture":
                found["capture"] = self._text(self._next()) if self._take("=") else name
            elif option.text == "lazy":
                found.setdefault("suffix", EMPTY)  # a suffix is lazy too
            elif option.text == "max_tokens":
                self._expect("=")
                found["max_tokens"] = self._count()
            elif option.text == "suffix":
                self._expect("=")
                found["suffix"] = self._value(self._next(), is_terminal=True)
                if found["suffix"] == EMPTY:
                    raise self._fault(option, "an empty suffix ends nothing; write `lazy`, or leave it out")
            elif option.text == "stop":
                self._expect("=")
                found["stop"] = found["suffix"] = self._value(self._next(), is_terminal=True)
                if not isinstance(found["stop"], Bytes):
                    raise self._fault(option, "a stop is enforced where it is a text that is not empty; use `suffix`")
            elif option.text == "stop_capture":
                self._expect("=")
                found["stop_capture"] = self._text(self._next())
            else:
                raise self._fault(option, "the options of a rule are `capture`, `lazy`, `suffix`, `stop`, "
                                          "`stop_capture` and `max_tokens`")  # fmt: skip
        if "stop" in found and not {"lazy", "suffix", "max_tokens"}.isdisjoint(written):
            raise self._fault(rule, "`stop` is enforced without `lazy`, `suffix` and `max_tokens`; leave these out")
        if "stop_capture" in found and found.get("suffix", EMPTY) == EMPTY:
            raise self._fault(rule, "`stop_capture` captures a suffix or a stop; add one")
        return found

    def _import(self) -> None:
        path = self._next()
        if path.text != "common":
            raise self._fault(path, "only Lark's library `common` can be imported; define the others here")
        names: list[tuple[Lexeme, str]] = []
        if self._take("("):
            while not self._take(")"):
                if names:
                    self._expect(",")
                token = self._next()
                names.append((token, token.text))
        else:
            self._expect(".")
            token = self._next()
            names.append((token, self._next().text if self._take("->") else token.text))
        for token, alias in names:
            if token.text not in COMMON:
                raise self._fault(token, f"`common` has no `{cut(token.text)}`{similar(token.text, COMMON)}")
            self._places[alias] = token.offset
            self._terminals[alias] = parse_rust(COMMON[token.text])

    # --- expressions -----------------------------------------------------------------------------------------------

    def _expression(self, *, is_terminal: bool = False) -> Node:
        expression = Expression(self._source, self._limits, self._peek().offset)
        opened: list[_Open] = []
        negated = False
        while True:
            token = self._peek()
            if token.kind == "newline" and self._tokens[self._at + 1].kind == "|":
                self._at += 1
                continue
            if token.kind in ("newline", "end"):
                break
            self._at += 1
            if token.kind == "|":
                expression.alternative()
            elif token.kind == "&":
                self._require_terminal(token, is_terminal)
                expression.conjunction()
            elif token.kind == "~":
                self._require_terminal(token, is_terminal)
                negated = True
                continue
            elif token.kind == "->":
                self._next()  # the name of a part of Lark's tree
            elif token.kind in ("(", "["):
                expression.open(token.offset)
                opened.append(_Open(")" if token.kind == "(" else "]", negated))
            elif opened and token.kind == opened[-1].closer:
                expression.close()
                if token.kind == "]":
                    expression.repeat(0, 1)
                self._finish_item(expression, opened.pop().negated)
            else:
                expression.add(self._value(token, is_terminal=is_terminal))
                self._finish_item(expression, negated)
            negated = False
        return expression.finish()

    def _require_terminal(self, token: Lexeme, is_terminal: bool) -> None:
        if not is_terminal:
            raise self._fault(
                token, f"`{token.text}` is allowed only in terminals; define one, `NAME: …`, and use its name"
            )

    def _finish_item(self, expression: Expression, negated: bool) -> None:
        if negated:
            expression.add(Complement(expression.pop()))
        token = self._peek()
        if token.kind in _OPERATORS:
            self._at += 1
            expression.repeat(*_OPERATORS[token.kind])
        elif token.kind == "~" and self._tokens[self._at + 1].kind == "number":
            self._at += 1
            low = self._count()
            self._repeat(token, expression, low, self._count() if self._take("..") else low)
        elif token.kind == "{":
            self._at += 1
            low = 0 if self._peek().kind == "," else self._count()
            high: int | None = low
            if self._take(","):
                high = None if self._peek().kind == "}" else self._count()
            self._expect("}")
            self._repeat(token, expression, low, high)

    def _repeat(self, token: Lexeme, expression: Expression, low: int, high: int | None) -> None:
        if high is not None and high < low:
            raise self._fault(token, f"minimum exceeds maximum in {{{low},{high}}}; swap them")
        expression.repeat(low, high)

    def _count(self) -> int:
        token = self._next()
        if token.kind != "number" or not token.text.isdecimal():
            raise self._fault(token, "expected a whole number from 0")
        if len(token.text) > 12 or int(token.text) > self._limits.repeat:
            raise LimitExceeded("repeat", self._limits.repeat, f"the repeat at {self._source.where(token.offset)}")
        return int(token.text)

    def _value(self, token: Lexeme, *, is_terminal: bool) -> Node:
        """Read one item. In rules, a lexeme is wrapped in a `Terminal`."""
        node: Node
        if token.kind == "string":
            node = self._string(token)
        elif token.kind == "regex":
            node = self._regex(token)
        elif token.text == "%regex":
            node = self._substring(token)
        elif token.kind == "terminal":
            self._uses.setdefault(token.text, token.offset)
            return Reference(token.text)
        elif token.kind == "rule" and not is_terminal:
            self._rules.use(token.text, token.offset)
            return Reference(token.text)
        elif token.kind == "special" and not is_terminal:
            by_id = _TOKEN_ID.fullmatch(token.text)
            if token.text.startswith("<[") and by_id is None:
                raise self._fault(token, "a range of token ids is not enforced; write `<[id]>` for one special token, "
                                         "or a regex for text")  # fmt: skip
            return Special(token.text) if by_id is None else Token(int(by_id[1]))
        elif token.text == "%json" and not is_terminal:
            grammar = self._json_schema(token.value).renamed(f"json {self._parts}.")
            self._parts += 1
            self._schemas.add(grammar.start)
            for name, body in grammar.rules.items():
                self._rules.define(name, token.offset, body)
            return Reference(grammar.start)
        elif token.kind == "reference":
            raise self._fault(token, "another grammar cannot be named; put its rules here")
        elif token.kind in ("rule", "special", "data"):
            raise self._fault(
                token, f"`{cut(token.text)}` cannot stand in a terminal, which is regular; use it in a rule"
            )
        else:
            raise self._fault(token, f"expected a text, a regex, a name or a group, but found `{cut(token.text)}`")
        return node if is_terminal else Terminal(node)

    def _string(self, token: Lexeme) -> Node:
        if self._take(".."):
            low, high = self._text(token), self._text(self._next())
            if len(low) != 1 or len(high) != 1 or low > high:
                raise self._fault(token, 'a range is written from one character to a later one, as in "a".."z"')
            return Chars.of([(ord(low), ord(high))])
        if token.text.endswith("i"):
            return parse_rust(
                "(?i)" + escape(self._text(Lexeme("string", token.text[:-1], token.offset))), self._limits
            )
        text = self._text(token)
        return literal(text) if text else EMPTY

    def _text(self, token: Lexeme) -> str:
        if token.kind != "string" or token.text.endswith("i"):
            raise self._fault(token, 'expected a text, as in "text"')
        written = _HEX.sub(lambda match: f"\\u00{match[1]}" if match[1] else match.group(), token.text)
        text: str = json.loads(written)
        if any("\ud800" <= char <= "\udfff" for char in text):
            raise self._fault(token, "a lone surrogate is not a character; write both halves of the pair")
        return text

    def _regex(self, token: Lexeme) -> Node:
        end = token.text.rindex("/")
        flags = "".join(dict.fromkeys(token.text[end + 1 :])).replace("u", "")
        if "l" in flags:
            raise self._fault(token, "the flag `l` depends on a locale; leave it out")
        pattern = re.sub(r"\\(.)", lambda match: "/" if match[1] == "/" else match.group(), token.text[1:end])
        prefix = f"(?{flags})" if flags else ""
        try:
            node = parse_rust(prefix + pattern, self._limits)
        except InvalidRegex as error:
            place = token.offset + 1 + max(0, error.position - len(prefix))
            raise self._source.fault(place, f"in this regex: {error.reason}") from None
        return without(Capture, node)

    def _substring(self, token: Lexeme) -> Node:
        data = token.value if isinstance(token.value, dict) else {}
        text = data.get("substring_chars")
        if len(data) == 1 and isinstance(text, str):
            return Substring(text)
        chunks = data.get("substring_chunks")
        if isinstance(data.get("substring_words"), str):
            chunks = re.findall(r"\w+|[^\w\s]+|\s+", data["substring_words"])
        if len(data) != 1 or not isinstance(chunks, list) or not all(isinstance(each, str) for each in chunks):
            raise self._fault(token, "`%regex` takes `substring_chars`, `substring_chunks` or `substring_words`")
        if len(chunks) > self._limits.depth // 2:
            raise LimitExceeded("depth", self._limits.depth, f"the chunks at {self._source.where(token.offset)}")
        rest: Node = EMPTY
        starts: list[Node] = [EMPTY]
        for chunk in reversed(chunks):
            rest = Choice((Sequence((literal(chunk), rest)), EMPTY))
            starts.append(rest)
        return Choice(tuple(reversed(starts)))

    # --- terminals and rules -----------------------------------------------------------------------------------------

    def _resolved(self) -> dict[str, Node]:
        """Return the terminals with references to each other replaced.

        Raises:
            InvalidGrammar: one is not defined, or refers to itself.
        """
        for name, offset in self._uses.items():
            if name not in self._terminals:
                hint = similar(name, self._terminals)
                raise self._source.fault(offset, f"the terminal `{cut(name)}` is not defined{hint}; define it")
        order = inner_first(self._terminals)
        if len(order) < len(self._terminals):
            name = next(name for name in self._terminals if name not in set(order))
            reason = f"the terminal `{cut(name)}` refers to itself; terminals are regular, so make it a rule"
            raise self._source.fault(self._places[name], reason)
        found: dict[str, Node] = {}
        sizes: dict[str, int] = {}
        for name in order:
            parts = walk(self._terminals[name])
            sizes[name] = sum(sizes[part.name] if isinstance(part, Reference) else 1 for part in parts)
            if sizes[name] > self._limits.nodes:
                raise LimitExceeded("nodes", self._limits.nodes, f"the terminal `{cut(name)}`")
            found[name] = self._regular(self._terminals[name], found)
        return found

    def _regular(self, node: Node, resolved: dict[str, Node]) -> Node:
        if isinstance(node, Reference):
            return resolved[node.name]
        return map_children(node, lambda child: self._regular(child, resolved))

    def _rule_body(
        self, name: str, offset: int, body: Node, options: dict[str, Any], resolved: dict[str, Node]
    ) -> Node:
        most = options.get("max_tokens")
        if "suffix" in options or (most is not None and not self._is_schema(body)):
            if any(isinstance(part, (Special, Token)) or self._is_rule(part) for part in walk(body)):
                kind = "a lazy rule" if "suffix" in options else "a rule with `max_tokens`"
                reason = f"`{cut(name)}` is {kind}, whose body is made of terminals only; define one for it"
                raise self._source.fault(offset, reason)
            plain = self._regular(without(Terminal, body), resolved)
            if options.get("suffix") == EMPTY and nullable(plain):
                body = EMPTY
            elif "suffix" in options:
                suffix = self._regular(options["suffix"], resolved)
                body = Terminal(Shortest(_of_text(Sequence((plain, suffix)))))
                if suffix != EMPTY and not options.keys().isdisjoint(("capture", "stop_capture")):
                    body = self._with_captured_parts(name, offset, body, plain, suffix, options)
                    options = {**options, "capture": None}
            else:
                body = Terminal(_of_text(plain))
        else:
            body = self._with_lexemes(body)
        if most is not None:
            body = Region(body, most) if most else EMPTY
        capture = options.get("capture")
        return body if capture is None else Capture(capture, body)

    def _with_captured_parts(
        self, name: str, offset: int, lexeme: Node, body: Node, suffix: Node, options: dict[str, Any]
    ) -> Node:
        """Return the lexeme of a rule that does not capture its suffix."""
        if not isinstance(suffix, Bytes):
            reason = f"`{cut(name)}` captures what is before a suffix, which is enforced where that is a text"
            raise self._source.fault(offset, f"{reason}; put the suffix into a rule of its own")
        captures = options.get("capture"), options.get("stop_capture")
        self._suffixed[f"{name} with suffix"] = Suffixed(lexeme, _of_text(body), suffix.value, *captures)
        return Capture(f"{name} with suffix", lexeme)

    def _join_stops(self) -> None:
        """Let rules with a stop end with it, instead of what follows them.

        Raises:
            InvalidGrammar: something else follows one.
        """
        stops = {name: options["stop"].value.decode() for name, _, _, options in self._bodies if "stop" in options}
        if not stops:
            return

        def refuse(name: str) -> Exception:
            stop = json.dumps(stops[name], ensure_ascii=False)
            where = "leave %ignore out" if self._ignored else f"write {stop} after each use"
            return self._fault_in_rule(name, f"what a stop matches is hidden from the model: {where}, or use `suffix`")

        if self._ignored or "start" in stops:
            raise refuse("start" if "start" in stops else next(iter(stops)))
        self._bodies = [
            (name, offset, without_stops(body, stops, refuse), options) for name, offset, body, options in self._bodies
        ]

    def _is_schema(self, body: Node) -> bool:
        return isinstance(body, Reference) and body.name in self._schemas

    def _is_rule(self, part: Node) -> bool:
        return isinstance(part, Reference) and part.name not in self._terminals

    def _with_lexemes(self, node: Node) -> Node:
        if isinstance(node, Reference):
            return self._lexemes.get(node.name, node)
        return node if isinstance(node, Terminal) else map_children(node, self._with_lexemes)

    # --- tokens ------------------------------------------------------------------------------------------------------

    def _peek(self) -> Lexeme:
        return self._tokens[self._at]

    def _next(self) -> Lexeme:
        token = self._tokens[self._at]
        if token.kind == "end":
            raise self._fault(token, "the text ends in the middle of a definition; finish it")
        self._at += 1
        return token

    def _take(self, kind: str) -> bool:
        if self._peek().kind != kind:
            return False
        self._at += 1
        return True

    def _expect(self, kind: str) -> None:
        token = self._peek()
        if not self._take(kind):
            found = f"`{cut(token.text)}`" if token.text.strip() else "the end of the line"
            raise self._fault(token, f"expected `{kind}`, but found {found}")

    def _fault_in_captures(self, capture: str) -> InvalidGrammar:
        reason = "another lazy rule may end this one, so that its capture is unclear; leave `capture` out"
        return self._fault_in_rule(capture.removesuffix(" with suffix"), reason)

    def _fault_in_rule(self, name: str, reason: str) -> InvalidGrammar:
        offset = next(offset for known, offset, *_ in self._bodies if known == name)
        return self._source.fault(offset, f"`{cut(name)}`: {reason}")

    def _fault(self, token: Lexeme, reason: str) -> InvalidGrammar:
        return self._source.fault(token.offset, reason)


def _of_text(node: Node) -> Node:
    """Return the node without the bytes that are not text where a `~` would match them."""
    has_complement = any(isinstance(part, Complement) for part in walk(node))
    return Intersection((node, ANY_TEXT)) if has_complement else node
