"""`JsonText`: a leaf for every JSON spelling of a text, read alike by every grammar engine and the parser."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from formatter_core import Compiler, Limits, Vocabulary
from formatter_core.errors import InvalidGrammar
from formatter_core.formats.protocol import Lowered
from formatter_core.grammar import Bytes, Choice, Grammar, JsonText, Repeat, Sequence, Terminal, interned
from formatter_core.grammar.json_text import spelled, without_json_texts
from formatter_core.testing.automaton import Automaton

BYTES = Vocabulary.of_bytes()
EDGES = '\x00\x08\x1f "/\\\x7f\x80\u07ff\u0800\ud7ff\ue000\uffff\U00010000\U0001f600\U0010ffff\n\r\t\f'
TEXTS = st.text(st.one_of(st.sampled_from(EDGES + "aZ0"), st.characters(exclude_categories=["Cs"])), max_size=4)
ENGINES = ["native", "kbnf"]


class _Format:
    """A grammar as it is."""

    def __init__(self, node: Terminal) -> None:
        self.grammar = Grammar({"text": Sequence((Bytes(b"<"), node, Bytes(b">")))}, "text")

    def to_grammar(self, limits: Limits) -> Lowered:
        return Lowered(self.grammar)

    def to_json(self) -> dict[str, object]:
        raise NotImplementedError

    def key(self) -> int:
        return id(self)


def spellings(text: str) -> list[str]:
    """The text raw, with short escapes, and with hexadecimal ones in both cases."""
    raw = json.dumps(text, ensure_ascii=False)[1:-1]
    escaped = "".join(f"\\u{int.from_bytes(unit, 'big'):04x}" for unit in _units(text))
    mixed = "".join(f"\\u{int.from_bytes(unit, 'big'):04X}" for unit in _units(text))
    return [raw, raw.replace("/", "\\/"), escaped, mixed]


def _units(text: str) -> list[bytes]:
    data = text.encode("utf-16-be")
    return [data[place : place + 2] for place in range(0, len(data), 2)]


@given(TEXTS)
@settings(deadline=None, max_examples=60)
def test_the_leaf_is_what_it_stands_for(text: str) -> None:
    leaf, written = Automaton(JsonText(text)), Automaton(spelled(JsonText(text)))
    for spelling in spellings(text):
        for probe in (spelling, spelling[1:], spelling + "x", spelling.replace("u", "U")):
            assert leaf.matches(probe.encode()) == written.matches(probe.encode())
        assert leaf.matches(spelling.encode())


@pytest.mark.parametrize("engine", ENGINES)
def test_engines_read_the_leaf(engine: str) -> None:
    compiler = Compiler(BYTES, engine=engine)
    kept = interned(Sequence((JsonText("é"), Repeat(Bytes(b"-"), 0, 2))))
    texts = [*EDGES, "a/b", 'say "é"', "😀"]
    for text in texts:
        node = Terminal(Choice((Sequence((JsonText(text), kept)), Sequence((kept, kept, JsonText(text))))))
        compiled = compiler.compile(_Format(node))
        for spelling in spellings(text):
            for body, expected in (
                (spelling + "é-", True),
                ("é" + "\\u00e9--" + spelling, True),
                (spelling, False),
                (spelling + "é---", False),
            ):
                formatter = compiled.formatter()
                data = f"<{body}>".encode()
                taken = formatter.accept_tokens(list(data))
                assert (taken == len(data) and formatter.can_stop) is expected, (text, body)
                assert compiled.parse(data).is_complete is expected


def test_it_stands_only_in_terminals() -> None:
    with pytest.raises(InvalidGrammar, match="JsonText stands outside a Terminal"):
        Grammar({"a": JsonText("x")}, "a").check(Limits())


def test_written_out_grammars_share_what_was_shared() -> None:
    shared = Sequence((JsonText("ab"), Bytes(b"!")))
    terminal = Terminal(Choice((shared, Sequence((shared, shared)))))
    body = without_json_texts(Grammar({"a": terminal}, "a")).rules["a"]
    assert isinstance(body, Terminal)
    assert isinstance(body.item, Choice)
    first, second = body.item.items
    assert isinstance(second, Sequence)
    assert [item is first for item in second.items] == [True, True]
