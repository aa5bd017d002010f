"""XGrammar's structural tags as a format."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from formatter_core.errors import (
    InvalidGrammar,
    InvalidRegex,
    InvalidSchema,
    LimitExceeded,
    UnsatisfiableSchema,
    UnsupportedSchema,
)
from formatter_core.formats.one_of import Alternatives
from formatter_core.formats.protocol import Lowered
from formatter_core.grammar import (
    ANY_CHAR,
    ANY_TEXT,
    EMPTY,
    Choice,
    Grammar,
    Intersection,
    Node,
    Reference,
    Repeat,
    Sequence,
    Special,
    Terminal,
    Token,
    literal,
    optional,
)
from formatter_core.limits import Limits
from formatter_core.schema import lower_schema
from formatter_core.schema.load import own_json, read_json
from formatter_core.support.arguments import shown
from formatter_core.syntax.bnf import parse_ebnf, parse_xgrammar_regex
from formatter_core.syntax.dispatch import dispatch, text_without

__all__ = ["StructuralTagFormat", "structural_tag"]

#: What is refused, and what to write instead.
_REFUSED = {
    "exclude_token": "a text does not say which tokens it is made of; use `any_text` or `regex`",
    "any_tokens": "a text does not say which tokens it is made of; use `any_text`, which holds no special token",
    "token_triggered_tags": "its free part counts tokens; use a `sequence` of `any_text` and a `star` of tags, whose "
    "`begin` may be a token",
    "token_dispatch": "its free part counts tokens; use a `sequence` of `any_text` and a `star` of the branches",
}


@dataclass(frozen=True, eq=False)
class StructuralTagFormat(Alternatives):
    """What a structural tag describes. `tag` is the format's own copy: leave it unchanged."""

    tag: dict[str, Any]

    def to_grammar(self, limits: Limits) -> Lowered:
        return Lowered(_Reader(limits).read(self.tag))

    def to_json(self) -> dict[str, Any]:
        return {"type": "structural_tag", "tag": own_json(self.tag)}

    def __eq__(self, other: object) -> bool:
        return isinstance(other, StructuralTagFormat) and self.key() == other.key()

    def __hash__(self) -> int:
        return hash(self.key())

    def key(self) -> Hashable:
        return ("structural_tag", repr(self.tag))  # which tells 1 from True, and one order of keys from another


def structural_tag(tag: Mapping[str, Any] | str) -> StructuralTagFormat:
    """What a structural tag of XGrammar describes, as a dict or as JSON text.

    Either `{"type": "structural_tag", "format": {…}}`, or the older `{"structures": […], "triggers": […]}`. Faults, and
    what is not enforced, are reported with a JSON Pointer when the format is compiled.

    Raises:
        InvalidSchema: not JSON.
    """
    data = read_json(tag) if isinstance(tag, str) else own_json(tag)
    if not isinstance(data, dict):
        raise InvalidSchema(f"a structural tag is an object, found {shown(tag)}; give a dict, or JSON text of one")
    return StructuralTagFormat(data)


class _Reader:
    """One pass over a structural tag. A free text inside a tag does not hold what ends the tag."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._rules: dict[str, Node] = {}

    def read(self, tag: dict[str, Any]) -> Grammar:
        if "structures" in tag or "triggers" in tag:
            root = self._older(tag)
        else:
            _fields(tag, "", {"format": dict}, {"type": str})
            root = self._format(tag["format"], "/format", (), 1)
        grammar = Grammar({**self._rules, "structural tag": root}, "structural tag")
        grammar.check(self._limits)
        return grammar

    def _older(self, tag: dict[str, Any]) -> Node:
        """The shape before XGrammar 0.2: triggers, and structures of `begin`, `schema` and `end`."""
        _fields(tag, "", {"structures": list, "triggers": list}, {"type": str})
        tags: list[tuple[str, Node, Node, str]] = []
        for index, structure in enumerate(tag["structures"]):
            pointer = f"/structures/{index}"
            _fields(structure, pointer, {"begin": str, "schema": (dict, bool), "end": str}, {})
            content = self._schema(structure["schema"], f"{pointer}/schema")
            tags.append((structure["begin"], content, literal(structure["end"]), pointer))
        return self._triggered(tag["triggers"], "/triggers", tags, (), at_least_one=False, stop=False)

    def _format(self, data: Any, pointer: str, ends: tuple[str, ...], depth: int) -> Node:
        if depth > self._limits.depth:
            raise LimitExceeded("depth", self._limits.depth, f"the structural tag at {pointer}")
        kind = data.get("type") if isinstance(data, dict) else None
        if kind in _REFUSED:
            raise InvalidGrammar(f"`{kind}` is not enforced: {_REFUSED[kind]}", pointer=pointer)
        reader = self._KINDS.get(kind) if isinstance(kind, str) else None
        if reader is None:
            names = ", ".join(self._KINDS)
            raise InvalidGrammar(f"a format is an object whose `type` is one of {names}", pointer=pointer)
        return reader(self, data, pointer, ends, depth + 1)

    def _const_string(self, data: Any, pointer: str, ends: tuple[str, ...], depth: int) -> Node:
        _fields(data, pointer, {"value": str}, {})
        return literal(data["value"])

    def _json_schema(self, data: Any, pointer: str, ends: tuple[str, ...], depth: int) -> Node:
        _fields(data, pointer, {"json_schema": (dict, bool)}, {"style": str, "any_order": bool})
        if data.get("style", "json") != "json":
            raise InvalidGrammar(
                f"the style {shown(data['style'])} is not enforced; write the parameters as tags with `json_schema` or "
                "`regex` inside",
                pointer=f"{pointer}/style",
            )
        if data.get("any_order"):
            raise InvalidGrammar(
                "`any_order` lets keys be missing or stand twice, which is not enforced; leave it out, or use "
                'formats.json_schema(schema, key_order="any")',
                pointer=f"{pointer}/any_order",
            )
        return self._schema(data["json_schema"], f"{pointer}/json_schema")

    def _grammar(self, data: Any, pointer: str, ends: tuple[str, ...], depth: int) -> Node:
        _fields(data, pointer, {"grammar": str}, {})
        try:
            return self._part(parse_ebnf(data["grammar"], limits=self._limits))
        except InvalidGrammar as error:
            raise InvalidGrammar(str(error), pointer=f"{pointer}/grammar") from error

    def _regex(self, data: Any, pointer: str, ends: tuple[str, ...], depth: int) -> Node:
        _fields(data, pointer, {"pattern": str}, {})
        try:
            return Terminal(parse_xgrammar_regex(data["pattern"]))
        except InvalidRegex as error:
            raise InvalidGrammar(str(error), pointer=f"{pointer}/pattern") from error

    def _any_text(self, data: Any, pointer: str, ends: tuple[str, ...], depth: int) -> Node:
        _fields(data, pointer, {}, {"excludes": list, "max_tokens": (int, type(None)), "max_chars": (int, type(None))})
        if data.get("max_tokens") is not None:
            raise InvalidGrammar(
                "a text does not say how many tokens it has; bound its characters with `max_chars`",
                pointer=f"{pointer}/max_tokens",
            )
        excluded = (*_texts(data.get("excludes", []), f"{pointer}/excludes"), *ends)
        node = text_without(excluded) if excluded else Terminal(ANY_TEXT)
        most = data.get("max_chars")
        if most is None or not isinstance(node, Terminal):
            return node
        return Terminal(Intersection((node.item, Repeat(ANY_CHAR, 0, _count(most, f"{pointer}/max_chars")))))

    def _sequence(self, data: Any, pointer: str, ends: tuple[str, ...], depth: int) -> Node:
        return Sequence(self._elements(data, pointer, ends, depth))

    def _or(self, data: Any, pointer: str, ends: tuple[str, ...], depth: int) -> Node:
        return Choice(self._elements(data, pointer, ends, depth))

    def _elements(self, data: Any, pointer: str, ends: tuple[str, ...], depth: int) -> tuple[Node, ...]:
        _fields(data, pointer, {"elements": list}, {})
        if not data["elements"]:
            raise InvalidGrammar("there is no element; give at least one", pointer=f"{pointer}/elements")
        return tuple(
            self._format(element, f"{pointer}/elements/{index}", ends, depth)
            for index, element in enumerate(data["elements"])
        )

    def _content(self, data: Any, pointer: str, ends: tuple[str, ...], depth: int) -> Node:
        _fields(data, pointer, {"content": dict}, {})
        return self._format(data["content"], f"{pointer}/content", ends, depth)

    def _repeat(self, data: Any, pointer: str, ends: tuple[str, ...], depth: int) -> Node:
        _fields(data, pointer, {"min": int, "max": int, "content": dict}, {})
        low = _count(data["min"], f"{pointer}/min")
        high = None if data["max"] == -1 else _count(data["max"], f"{pointer}/max")
        if high is not None and high < low:
            raise InvalidGrammar("`max` is less than `min`; exchange them, or give -1 for no bound", pointer=pointer)
        content = self._format(data["content"], f"{pointer}/content", ends, depth)
        return Repeat(content, low, high) if high != 0 else EMPTY

    def _tag(self, data: Any, pointer: str, ends: tuple[str, ...], depth: int) -> Node:
        begin, content, end = self._tag_parts(data, pointer, depth)
        return Sequence((begin if not isinstance(begin, str) else literal(begin), content, end))

    def _tag_parts(self, data: Any, pointer: str, depth: int) -> tuple[str | Node, Node, Node]:
        _fields(data, pointer, {"begin": (str, dict), "content": dict, "end": (str, list, dict)}, {"type": str})
        begin, end = data["begin"], data["end"]
        ends: tuple[str, ...] = ()
        if isinstance(end, dict):
            last = self._token(end, f"{pointer}/end", (), depth)
        else:
            texts = [end] if isinstance(end, str) else _texts(end, f"{pointer}/end", empty=True)
            if not texts:
                raise InvalidGrammar("there is no end; give at least one text", pointer=f"{pointer}/end")
            last = Choice(tuple(map(literal, texts))) if len(texts) > 1 else literal(texts[0])
            ends = tuple(texts) if all(texts) else ()
        content = self._format(data["content"], f"{pointer}/content", ends, depth)
        return begin if isinstance(begin, str) else self._token(begin, f"{pointer}/begin", (), depth), content, last

    def _triggered_tags(self, data: Any, pointer: str, ends: tuple[str, ...], depth: int) -> Node:
        flags = {"at_least_one": bool, "stop_after_first": bool, "excludes": list}
        _fields(data, pointer, {"triggers": list, "tags": list}, flags)
        tags = []
        for index, tag in enumerate(data["tags"]):
            place = f"{pointer}/tags/{index}"
            begin, content, end = self._tag_parts(tag, place, depth)
            if not isinstance(begin, str):
                raise InvalidGrammar(
                    "a triggered tag begins with a text; give `begin` as one", pointer=f"{place}/begin"
                )
            tags.append((begin, content, end, place))
        excluded = (*_texts(data.get("excludes", []), f"{pointer}/excludes"), *ends)
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
        known = _texts(triggers, pointer)
        branches: list[tuple[str, Node]] = []
        whole: list[Node] = []
        for number, (begin, content, end, place) in enumerate(tags):
            matching = [trigger for trigger in known if begin.startswith(trigger)]
            if len(matching) != 1:
                what = "no trigger begins it" if not matching else f"{' and '.join(map(repr, matching))} begin it"
                reason = f"a tag begins with exactly one of the triggers, but of {begin!r} {what}"
                raise InvalidGrammar(reason, pointer=f"{place}/begin")
            name = f"tag {len(self._rules)}.{number}"
            self._rules[name] = Sequence((content, end))
            branches.append((matching[0], Sequence((literal(begin[len(matching[0]) :]), Reference(name)))))
            whole.append(Sequence((literal(begin), Reference(name))))
        if not at_least_one:
            return dispatch(branches, excluded, loop=not stop)
        first = Choice(tuple(whole))
        return first if stop else Sequence((first, dispatch(branches, excluded, loop=True)))

    def _tags_with_separator(self, data: Any, pointer: str, ends: tuple[str, ...], depth: int) -> Node:
        flags = {"at_least_one": bool, "stop_after_first": bool}
        _fields(data, pointer, {"tags": list, "separator": str}, flags)
        if not data["tags"]:
            raise InvalidGrammar("there is no tag; give at least one", pointer=f"{pointer}/tags")
        tags = Choice(
            tuple(self._tag(tag, f"{pointer}/tags/{index}", (), depth) for index, tag in enumerate(data["tags"]))
        )
        self._rules[name := f"tags {len(self._rules)}"] = tags
        tag = Reference(name)
        more = Repeat(Sequence((literal(data["separator"]), tag)))
        node: Node = tag if data.get("stop_after_first") else Sequence((tag, more))
        return node if data.get("at_least_one") else optional(node)

    def _dispatch(self, data: Any, pointer: str, ends: tuple[str, ...], depth: int) -> Node:
        _fields(data, pointer, {"rules": list}, {"loop": bool, "excludes": list})
        branches: list[tuple[str, Node]] = []
        for index, rule in enumerate(data["rules"]):
            place = f"{pointer}/rules/{index}"
            if not isinstance(rule, list) or len(rule) != 2 or not isinstance(rule[0], str) or not rule[0]:
                raise InvalidGrammar("a rule is a pair of a non-empty text and a format", pointer=place)
            branches.append((rule[0], self._format(rule[1], f"{place}/1", (), depth)))
        excluded = (*_texts(data.get("excludes", []), f"{pointer}/excludes"), *ends)
        return dispatch(branches, excluded, loop=data.get("loop", True))

    def _token(self, data: Any, pointer: str, ends: tuple[str, ...], depth: int) -> Node:
        _fields(data, pointer, {"token": (int, str)}, {"type": str})
        token = data["token"]
        if data.get("type", "token") != "token" or (isinstance(token, str) and not token):
            raise InvalidGrammar('a token is written {"type": "token", "token": id or name}', pointer=pointer)
        return Special(token) if isinstance(token, str) else Token(_count(token, f"{pointer}/token"))

    def _schema(self, schema: Any, pointer: str) -> Node:
        try:
            return self._part(lower_schema(schema, limits=self._limits))
        except (UnsupportedSchema, InvalidSchema) as error:
            facts: dict[str, Any] = {"pointer": pointer + error.pointer, "keyword": error.keyword}
            raise type(error)(error.reason, **facts) from error
        except UnsatisfiableSchema as error:
            reason = str(error).partition(": ")[2] or str(error)
            raise UnsatisfiableSchema(reason, pointer=pointer + error.pointer) from error

    def _part(self, grammar: Grammar) -> Node:
        renamed = grammar.renamed(f"part {len(self._rules)}.")
        self._rules.update(renamed.rules)
        return Reference(renamed.start)

    _KINDS: ClassVar[dict[str, Callable[[_Reader, Any, str, tuple[str, ...], int], Node]]] = {
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
        "token": _token,
    }


def _fields(data: Any, pointer: str, needed: dict[str, Any], others: dict[str, Any]) -> None:
    """Refuse an object that lacks a field, has one of another type, or one that is not known."""
    if not isinstance(data, dict):
        raise InvalidGrammar(f"expected an object, found {shown(data)}", pointer=pointer)
    for name in needed:
        if name not in data:
            raise InvalidGrammar(f"the field `{name}` is missing; add it", pointer=pointer)
    known = {"type": str, **needed, **others}
    for name, value in data.items():
        if name not in known:
            raise InvalidGrammar(f"the field `{name}` is not known here; there are {', '.join(known)}", pointer=pointer)
        kinds = known[name] if isinstance(known[name], tuple) else (known[name],)
        if type(value) not in kinds:
            words = " or ".join(_WORDS[kind] for kind in kinds)
            raise InvalidGrammar(f"`{name}` is {words}, found {shown(value)}", pointer=f"{pointer}/{name}")


_WORDS: dict[type, str] = {
    str: "a text", int: "a whole number", bool: "true or false", list: "an array", dict: "an object", type(None): "null"
}  # fmt: skip


def _texts(values: Any, pointer: str, *, empty: bool = False) -> list[str]:
    if not isinstance(values, list) or not all(isinstance(each, str) and (each or empty) for each in values):
        raise InvalidGrammar(f"expected an array of non-empty texts, found {shown(values)}", pointer=pointer)
    return values


def _count(value: int, pointer: str) -> int:
    if value < 0:
        raise InvalidGrammar(f"expected a whole number from 0, found {value}", pointer=pointer)
    return value
