"""Read structural tags as grammars."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any, ClassVar, NamedTuple

from formatter_core.engine.shortest import derives_nothing
from formatter_core.errors import (
    InvalidGrammar,
    InvalidRegex,
    InvalidSchema,
    LimitExceeded,
    UnsatisfiableSchema,
    UnsupportedSchema,
)
from formatter_core.errors.arguments import shown
from formatter_core.formats.json_schema import schema_grammar
from formatter_core.formats.marker_free import marker_free_format
from formatter_core.formats.protocol import Format
from formatter_core.formats.tag_fields import check_type, count, fields, texts, token, tokens
from formatter_core.formats.tag_styles import STYLES, free_arguments, styled
from formatter_core.grammar import (
    ANY_CHAR,
    ANY_TEXT,
    EMPTY,
    Choice,
    Grammar,
    Intersection,
    Node,
    Reference,
    Region,
    Repeat,
    Sequence,
    Special,
    Terminal,
    Token,
    literal,
    optional,
)
from formatter_core.limits import Limits
from formatter_core.schema import KeyOrder, Spelling
from formatter_core.syntax.bnf import parse_ebnf, parse_xgrammar_regex
from formatter_core.syntax.dispatch import any_special, dispatch, text_without, token_dispatch, tokens_without

__all__ = ["read_tag", "why_empty"]

#: Options of a schema that are rejected, with what to write instead.
_NOT_OF_SCHEMAS = {
    "excludes": "give its strings a `pattern`",
    "max_whitespace_cnt": "between tokens there is at most a line break and 64 spaces",
}


def read_tag(tag: dict[str, Any], limits: Limits, spelling: Spelling) -> Grammar:
    """Return the grammar of a structural tag.

    Raises:
        InvalidGrammar: the tag is faulty, or cannot be enforced; the error has a JSON Pointer.
    """
    return _Reader(limits, spelling).read(tag)


def why_empty(tag: dict[str, Any], limits: Limits, spelling: Spelling) -> InvalidGrammar | None:
    """Find the first part of a structural tag that matches no text, if the whole tag matches none."""
    reader = _Reader(limits, spelling)
    reader.read(tag)
    for pointer, node in reader.written:
        if derives_nothing(Grammar({**reader.rules, "part": node}, "part"), limits):
            return InvalidGrammar("no text matches this part; give it a text that ends", pointer=pointer)
    return None


class _Ends(NamedTuple):
    """The ends of the nearest enclosing tag: a free part of this kind contains none of them.

    With `is_between_tokens`, special tokens or the ends of the output are directly before and after, so that no text
    token extends beyond the part.
    """

    texts: tuple[str, ...] = ()
    tokens: tuple[Special | Token, ...] = ()
    is_between_tokens: bool = False

    def of_part(self, *, is_between_tokens: bool) -> _Ends:
        """Return the same ends for a part of this part."""
        return _Ends(self.texts, self.tokens, is_between_tokens)


_NO_ENDS = _Ends()


class _Reader:
    """A reader of one structural tag. Free text inside a tag does not contain the end of the tag."""

    def __init__(self, limits: Limits, spelling: Spelling) -> None:
        self._limits = limits
        self._spelling = spelling
        self.rules: dict[str, Node] = {}
        self.written: list[tuple[str, Node]] = []  # parts given in a notation, with their pointers

    def read(self, tag: dict[str, Any]) -> Grammar:
        check_type(tag, "", "structural_tag")
        if "structures" in tag or "triggers" in tag:
            root = self._older(tag)
        else:
            fields(tag, "", {"format": dict}, {"type": str})
            root = self._format(tag["format"], "/format", _Ends(is_between_tokens=True), 1)
        grammar = Grammar({**self.rules, "structural tag": root}, "structural tag")
        grammar.check(self._limits)
        return grammar

    def _older(self, tag: dict[str, Any]) -> Node:
        """Read the form before XGrammar 0.2: triggers, and structures of `begin`, `schema` and `end`."""
        fields(tag, "", {"structures": list, "triggers": list}, {"type": str})
        tags: list[tuple[str, Node, Node, str]] = []
        for index, structure in enumerate(tag["structures"]):
            pointer = f"/structures/{index}"
            fields(structure, pointer, {"begin": str, "schema": (dict, bool), "end": str}, {})
            content = self._schema(structure["schema"], f"{pointer}/schema")
            tags.append((structure["begin"], content, literal(structure["end"]), pointer))
        return self._triggered(tag["triggers"], "/triggers", tags, (), at_least_one=False, stop=False)

    def _format(self, data: Any, pointer: str, ends: _Ends, depth: int) -> Node:
        if depth > self._limits.depth:
            raise LimitExceeded("depth", self._limits.depth, f"the structural tag at {pointer}")
        kind = data.get("type") if isinstance(data, dict) else None
        reader = self._KINDS.get(kind) if isinstance(kind, str) else None
        if reader is None:
            names = ", ".join(self._KINDS)
            raise InvalidGrammar(f"a format is an object whose `type` is one of {names}", pointer=pointer)
        return reader(self, data, pointer, ends, depth + 1)

    def _const_string(self, data: Any, pointer: str, ends: _Ends, depth: int) -> Node:
        fields(data, pointer, {"value": str}, {})
        return literal(data["value"])

    def _json_schema(self, data: Any, pointer: str, ends: _Ends, depth: int) -> Node:
        options = {"style": str, "any_order": bool, "excludes": list, "max_whitespace_cnt": (int, type(None))}
        fields(data, pointer, {"json_schema": (dict, bool)}, options)
        for name, instead in _NOT_OF_SCHEMAS.items():
            if data.get(name) not in (None, []):
                raise InvalidGrammar(f"`{name}` of a schema is not enforced; {instead}", pointer=f"{pointer}/{name}")
        schema, style, any_order = data["json_schema"], data.get("style", "json"), data.get("any_order", False)
        if style == "json":
            return self._schema(schema, f"{pointer}/json_schema", any_order=any_order)
        if style in STYLES and schema in (True, {}):
            return free_arguments(style, self._other_than_text)
        if style not in STYLES or not isinstance(schema, dict):
            raise InvalidGrammar(
                f"the style {shown(style)} is not enforced here; use one of json, {', '.join(STYLES)} with the schema "
                "of an object, or write the parameters as tags with `json_schema` or `regex` inside",
                pointer=f"{pointer}/style",
            )
        with _located(f"{pointer}/json_schema"):
            # Read it as JSON first, to report any error of the schema with its place.
            schema_grammar(schema, self._limits)
            return styled(schema, style, self._spelling, self._other_than_text, self._limits, any_order=any_order)

    def _other_than_text(self, format: Format, end: str) -> Node:
        return self._part(marker_free_format(format, (end,), self._limits).grammar)

    def _grammar(self, data: Any, pointer: str, ends: _Ends, depth: int) -> Node:
        fields(data, pointer, {"grammar": str}, {})
        try:
            node = self._part(parse_ebnf(data["grammar"], limits=self._limits))
        except InvalidGrammar as error:
            raise InvalidGrammar(str(error), pointer=f"{pointer}/grammar") from None
        self.written.append((f"{pointer}/grammar", node))
        return node

    def _regex(self, data: Any, pointer: str, ends: _Ends, depth: int) -> Node:
        fields(data, pointer, {"pattern": str}, {})
        try:
            node = Terminal(parse_xgrammar_regex(data["pattern"]))
        except InvalidRegex as error:
            raise InvalidGrammar(str(error), pointer=f"{pointer}/pattern") from None
        self.written.append((f"{pointer}/pattern", node))
        return node

    def _any_text(self, data: Any, pointer: str, ends: _Ends, depth: int) -> Node:
        fields(data, pointer, {}, {"excludes": list, "max_tokens": (int, type(None)), "max_chars": (int, type(None))})
        excluded = (*texts(data.get("excludes", []), f"{pointer}/excludes"), *ends.texts)
        node = text_without(excluded) if excluded else Terminal(ANY_TEXT)
        most = data.get("max_chars")
        if most is not None and isinstance(node, Terminal):
            node = Terminal(Intersection((node.item, Repeat(ANY_CHAR, 0, count(most, f"{pointer}/max_chars")))))
        return _within(node, data, pointer)

    def _sequence(self, data: Any, pointer: str, ends: _Ends, depth: int) -> Node:
        elements = _elements(data, pointer)
        between = ends.is_between_tokens
        are_tokens = [between, *(isinstance(each, dict) and each.get("type") == "token" for each in elements), between]
        nodes = []
        for index, element in enumerate(elements):
            around = ends.of_part(is_between_tokens=are_tokens[index] and are_tokens[index + 2])
            nodes.append(self._format(element, f"{pointer}/elements/{index}", around, depth))
        return Sequence(tuple(nodes))

    def _or(self, data: Any, pointer: str, ends: _Ends, depth: int) -> Node:
        elements = enumerate(_elements(data, pointer))
        return Choice(
            tuple(self._format(element, f"{pointer}/elements/{index}", ends, depth) for index, element in elements)
        )

    def _content(self, data: Any, pointer: str, ends: _Ends, depth: int) -> Node:
        fields(data, pointer, {"content": dict}, {})
        return self._format(data["content"], f"{pointer}/content", ends.of_part(is_between_tokens=False), depth)

    def _repeat(self, data: Any, pointer: str, ends: _Ends, depth: int) -> Node:
        fields(data, pointer, {"min": int, "max": int, "content": dict}, {})
        low = count(data["min"], f"{pointer}/min")
        high = None if data["max"] == -1 else count(data["max"], f"{pointer}/max")
        if high is not None and high < low:
            raise InvalidGrammar("`max` is less than `min`; swap them, or give -1 for no bound", pointer=pointer)
        content = self._format(data["content"], f"{pointer}/content", ends.of_part(is_between_tokens=False), depth)
        return Repeat(content, low, high) if high != 0 else EMPTY

    def _tag(self, data: Any, pointer: str, ends: _Ends, depth: int) -> Node:
        begin, content, end = self._tag_parts(data, pointer, depth)
        return Sequence((begin if not isinstance(begin, str) else literal(begin), content, end))

    def _tag_parts(self, data: Any, pointer: str, depth: int) -> tuple[str | Special | Token, Node, Node]:
        fields(data, pointer, {"begin": (str, dict), "content": dict, "end": (str, list, dict)}, {"type": str})
        check_type(data, pointer, "tag")
        begin, end = data["begin"], data["end"]
        if isinstance(end, dict):
            last: Node = _token(end, f"{pointer}/end")
            ends = _Ends(tokens=(_token(end, f"{pointer}/end"),), is_between_tokens=isinstance(begin, dict))
        else:
            spelled = [end] if isinstance(end, str) else texts(end, f"{pointer}/end", empty=True)
            if not spelled:
                raise InvalidGrammar("`end` is empty; give at least one text", pointer=f"{pointer}/end")
            last = Choice(tuple(map(literal, spelled))) if len(spelled) > 1 else literal(spelled[0])
            ends = _Ends(tuple(spelled)) if all(spelled) else _NO_ENDS
        content = self._format(data["content"], f"{pointer}/content", ends, depth)
        return begin if isinstance(begin, str) else _token(begin, f"{pointer}/begin"), content, last

    def _triggered_tags(self, data: Any, pointer: str, ends: _Ends, depth: int) -> Node:
        flags = {"at_least_one": bool, "stop_after_first": bool, "excludes": list}
        fields(data, pointer, {"triggers": list, "tags": list}, flags)
        tags = []
        for index, tag in enumerate(data["tags"]):
            place = f"{pointer}/tags/{index}"
            begin, content, end = self._tag_parts(tag, place, depth)
            if not isinstance(begin, str):
                raise InvalidGrammar(
                    "a triggered tag begins with a text; give `begin` as one", pointer=f"{place}/begin"
                )
            tags.append((begin, content, end, place))
        excluded = (*texts(data.get("excludes", []), f"{pointer}/excludes"), *ends.texts)
        return self._triggered(
            data["triggers"], f"{pointer}/triggers", tags, excluded,
            at_least_one=data.get("at_least_one", False), stop=data.get("stop_after_first", False),
        )  # fmt: skip

    def _triggered(
        self,
        triggers: Any,
        pointer: str,
        tags: list[tuple[str, Node, Node, str]],
        excluded: tuple[str, ...],
        *,
        at_least_one: bool,
        stop: bool,
    ) -> Node:
        known = texts(triggers, pointer)
        branches: list[tuple[str, Node]] = []
        whole: list[Node] = []
        for begin, content, end, place in tags:
            matching = [trigger for trigger in known if begin.startswith(trigger)]
            if len(matching) != 1:
                what = "no trigger begins it" if not matching else f"{' and '.join(map(repr, matching))} begin it"
                reason = f"a tag begins with exactly one of the triggers, but for {begin!r}, {what}"
                raise InvalidGrammar(reason, pointer=f"{place}/begin")
            rest = self._defined("tag", Sequence((content, end)))
            branches.append((matching[0], Sequence((literal(begin[len(matching[0]) :]), rest))))
            whole.append(Sequence((literal(begin), rest)))
        return _tagged(tuple(whole), partial(dispatch, branches, excluded), at_least_one=at_least_one, stop=stop)

    def _tags_with_separator(self, data: Any, pointer: str, ends: _Ends, depth: int) -> Node:
        flags = {"at_least_one": bool, "stop_after_first": bool}
        fields(data, pointer, {"tags": list, "separator": str}, flags)
        if not data["tags"]:
            raise InvalidGrammar("`tags` is empty; give at least one", pointer=f"{pointer}/tags")
        tags = Choice(
            tuple(self._tag(tag, f"{pointer}/tags/{index}", _NO_ENDS, depth) for index, tag in enumerate(data["tags"]))
        )
        tag = self._defined("tags", tags)
        more = Repeat(Sequence((literal(data["separator"]), tag)))
        node: Node = tag if data.get("stop_after_first") else Sequence((tag, more))
        return node if data.get("at_least_one") else optional(node)

    def _dispatch(self, data: Any, pointer: str, ends: _Ends, depth: int) -> Node:
        fields(data, pointer, {"rules": list}, {"loop": bool, "excludes": list})
        branches = []
        for begin, node, place in self._rules_of(data, pointer, "a text", depth):
            if not isinstance(begin, str) or not begin:
                raise InvalidGrammar(f"expected a non-empty text, found {shown(begin)}", pointer=f"{place}/0")
            branches.append((begin, node))
        excluded = (*texts(data.get("excludes", []), f"{pointer}/excludes"), *ends.texts)
        return dispatch(branches, excluded, loop=data.get("loop", True))

    def _rules_of(self, data: Any, pointer: str, first: str, depth: int) -> Iterator[tuple[Any, Node, str]]:
        """Yield the pairs of a dispatch, each with its pointer."""
        for index, rule in enumerate(data["rules"]):
            place = f"{pointer}/rules/{index}"
            if not isinstance(rule, list) or len(rule) != 2:
                raise InvalidGrammar(f"a rule is a pair of {first} and a format", pointer=place)
            yield rule[0], self._format(rule[1], f"{place}/1", _NO_ENDS, depth), place

    def _any_tokens(self, data: Any, pointer: str, ends: _Ends, depth: int) -> Node:
        fields(data, pointer, {}, {"exclude_tokens": list, "max_tokens": (int, type(None))})
        excluded = (*tokens(data.get("exclude_tokens", []), f"{pointer}/exclude_tokens"), *ends.tokens)
        return _within(tokens_without(excluded), data, pointer)

    def _exclude_token(self, data: Any, pointer: str, ends: _Ends, depth: int) -> Node:
        fields(data, pointer, {}, {"exclude_tokens": list})
        if not ends.is_between_tokens:
            raise InvalidGrammar(
                "`exclude_token` is enforced only between special tokens or as the whole output, because elsewhere a "
                "token of text may extend beyond it; use `any_tokens`, or a `regex` for what the token may spell",
                pointer=pointer,
            )
        excluded = (*tokens(data.get("exclude_tokens", []), f"{pointer}/exclude_tokens"), *ends.tokens)
        return Region(Choice((Terminal(Repeat(ANY_CHAR, 1)), any_special(excluded))), 1)

    def _token_triggered_tags(self, data: Any, pointer: str, ends: _Ends, depth: int) -> Node:
        flags = {"at_least_one": bool, "stop_after_first": bool, "exclude_tokens": list}
        fields(data, pointer, {"trigger_tokens": list, "tags": list}, flags)
        triggers = tokens(data["trigger_tokens"], f"{pointer}/trigger_tokens")
        branches: list[tuple[Special | Token, Node]] = []
        for index, tag in enumerate(data["tags"]):
            place = f"{pointer}/tags/{index}"
            begin, content, end = self._tag_parts(tag, place, depth)
            if isinstance(begin, str) or begin not in triggers:
                reason = (
                    "the tag begins with none of `trigger_tokens`; write `begin` as one of them, by the same name or id"
                )
                raise InvalidGrammar(reason, pointer=f"{place}/begin")
            branches.append((begin, self._defined("tag", Sequence((content, end)))))
        excluded = (*triggers, *tokens(data.get("exclude_tokens", []), f"{pointer}/exclude_tokens"), *ends.tokens)
        return _tagged(
            tuple(map(Sequence, branches)), partial(token_dispatch, branches, excluded),
            at_least_one=data.get("at_least_one", False), stop=data.get("stop_after_first", False),
        )  # fmt: skip

    def _token_dispatch(self, data: Any, pointer: str, ends: _Ends, depth: int) -> Node:
        fields(data, pointer, {"rules": list}, {"loop": bool, "exclude_tokens": list})
        branches = [
            (token(begin, f"{place}/0"), node)
            for begin, node, place in self._rules_of(data, pointer, "a special token", depth)
        ]
        excluded = (*tokens(data.get("exclude_tokens", []), f"{pointer}/exclude_tokens"), *ends.tokens)
        return token_dispatch(branches, excluded, loop=data.get("loop", True))

    def _schema(self, schema: Any, pointer: str, *, any_order: bool = False) -> Node:
        with _located(pointer):
            order: KeyOrder = "any" if any_order else "schema"
            return self._part(schema_grammar(schema, self._limits, spelling=self._spelling, key_order=order))

    def _defined(self, kind: str, node: Node) -> Reference:
        self.rules[name := f"{kind} {len(self.rules)}"] = node
        return Reference(name)

    def _part(self, grammar: Grammar) -> Node:
        renamed = grammar.renamed(f"part {len(self.rules)}.")
        self.rules.update(renamed.rules)
        return Reference(renamed.start)

    _KINDS: ClassVar[dict[str, Callable[[_Reader, Any, str, _Ends, int], Node]]] = {
        "const_string": _const_string,
        "json_schema": _json_schema,
        "grammar": _grammar,
        "regex": _regex,
        "any_text": _any_text,
        "sequence": _sequence,
        "or": _or,
        "optional": lambda self, *rest: optional(self._content(*rest)),
        "plus": lambda self, *rest: Repeat(self._content(*rest), 1),
        "star": lambda self, *rest: Repeat(self._content(*rest)),
        "repeat": _repeat,
        "tag": _tag,
        "triggered_tags": _triggered_tags,
        "tags_with_separator": _tags_with_separator,
        "dispatch": _dispatch,
        "token": lambda self, data, pointer, *rest: _token(data, pointer),
        "any_tokens": _any_tokens,
        "exclude_token": _exclude_token,
        "token_triggered_tags": _token_triggered_tags,
        "token_dispatch": _token_dispatch,
    }


@contextmanager
def _located(pointer: str) -> Iterator[None]:
    """Add the pointer of a schema to its errors."""
    try:
        yield
    except UnsupportedSchema as error:
        place = pointer + error.pointer
        raise UnsupportedSchema(error.reason, pointer=place, keyword=error.keyword, remedy="Remove it") from None
    except InvalidSchema as error:
        raise InvalidSchema(error.reason, pointer=pointer + error.pointer, keyword=error.keyword) from None
    except UnsatisfiableSchema as error:
        reason = str(error).partition(": ")[2] or str(error)
        raise UnsatisfiableSchema(reason, pointer=pointer + error.pointer) from None


def _elements(data: Any, pointer: str) -> list[Any]:
    fields(data, pointer, {"elements": list}, {})
    if not data["elements"]:
        raise InvalidGrammar("`elements` is empty; give at least one", pointer=f"{pointer}/elements")
    elements: list[Any] = data["elements"]
    return elements


def _within(node: Node, data: Any, pointer: str) -> Node:
    """Limit a node to the format's `max_tokens`: a token counts for the part that contains its first byte."""
    most = data.get("max_tokens")
    if most is None:
        return node
    return Region(node, most) if count(most, f"{pointer}/max_tokens") else EMPTY


def _token(data: Any, pointer: str) -> Special | Token:
    fields(data, pointer, {"token": (int, str)}, {"type": str})
    check_type(data, pointer, "token")
    return token(data["token"], f"{pointer}/token")


def _tagged(whole: tuple[Node, ...], free: Callable[..., Node], *, at_least_one: bool, stop: bool) -> Node:
    """Return tags in a free text; with `at_least_one`, the first comes at the beginning."""
    if not at_least_one:
        return free(loop=not stop)
    first = Choice(whole)
    return first if stop else Sequence((first, free(loop=True)))
