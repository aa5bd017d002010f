"""Special tokens by name: `formats.special` and `Vocabulary.special_tokens`."""

from __future__ import annotations

import pickle
from typing import Any

import pytest

from formatter_core import Compiler, Vocabulary, check, formats, parse
from formatter_core.errors import InvalidFormat, InvalidVocabulary
from formatter_core.formats.protocol import Lowered
from formatter_core.grammar import Grammar, Sequence, Special, literal
from formatter_core.limits import DEFAULT_LIMITS, Limits
from formatter_core.syntax.kbnf import to_kbnf

CALL, END = 257, 256
TOKENS = [*(bytes([byte]) for byte in range(256)), None, None]


@pytest.fixture
def vocabulary() -> Vocabulary:
    return Vocabulary(TOKENS, [END], {"<|call|>": CALL, "</s>": END})


@pytest.fixture
def compiler(engine: Any, vocabulary: Vocabulary) -> Compiler:
    return Compiler(vocabulary, engine=engine)


def test_the_token_of_that_name_is_allowed_and_adds_no_text(compiler: Compiler) -> None:
    compiled = compiler.compile(formats.sequence("a", formats.special("<|call|>"), formats.choice(["b", "c"])))
    formatter = compiled.formatter()
    formatter.accept_token(ord("a"))
    assert formatter.allowed_tokens() == [CALL]
    assert formatter.accept_tokens([CALL, ord("c"), END]) == 3
    result = formatter.result()
    assert (result.text, result.value) == ("ac", ("a", "<|call|>", "c"))


def test_a_text_without_tokens_spells_it(compiler: Compiler) -> None:
    format = formats.sequence("a", formats.special("<|call|>"))
    for result in (parse(format, "a<|call|>"), compiler.compile(format).parse("a<|call|>")):
        assert result.value == ("a", "<|call|>")
    assert not parse(format, "a").is_complete


def test_a_name_that_the_vocabulary_has_not_is_refused_with_those_that_it_has(compiler: Compiler) -> None:
    with pytest.raises(InvalidFormat, match=r"no special token '<call>'.*<\|call\|>"):
        compiler.compile(formats.special("<call>"))
    with pytest.raises(InvalidFormat, match="its special tokens are none"):
        Compiler(Vocabulary.of_bytes()).compile(formats.special("<call>"))


def test_an_end_id_is_refused(compiler: Compiler) -> None:
    with pytest.raises(InvalidFormat, match="end id"):
        compiler.compile(formats.special("</s>"))


def test_check_needs_no_vocabulary() -> None:
    check(formats.sequence(formats.special("<|anything|>"), formats.integer()))


class _Marker:
    """A format whose marker is a special token where the vocabulary has it, and else text."""

    def to_grammar(self, limits: Limits) -> Lowered:
        grammar = Grammar({"start": Sequence((Special("<|call|>", or_text=True), literal("x")))}, "start")
        return Lowered(grammar)

    def to_json(self) -> dict[str, str]:
        return {}

    def key(self) -> str:
        return "marker"


def test_a_marker_is_text_where_the_vocabulary_has_no_such_token(compiler: Compiler) -> None:
    assert compiler.compile(_Marker()).formatter().allowed_tokens() == [CALL]
    assert Compiler(Vocabulary.of_bytes()).compile(_Marker()).formatter().forced_bytes() == b"<|call|>x"


def test_kbnf_cannot_express_one() -> None:
    with pytest.raises(Exception, match="KBNF cannot express"):
        to_kbnf(Grammar({"start": Special("<|call|>")}, "start"), DEFAULT_LIMITS)


@pytest.mark.parametrize("special", [{"a": 97}, {"x": 10**9}, {"x": -1}, {"": CALL}, {"x": True}, {1: CALL}, ["x"]])
def test_names_of_what_is_text_or_no_id_are_refused(special: object) -> None:
    with pytest.raises(InvalidVocabulary):
        Vocabulary(TOKENS, [END], special)  # type: ignore[arg-type]


def test_names_belong_to_the_content_of_a_vocabulary() -> None:
    named = Vocabulary(TOKENS, [END], {"<|call|>": CALL})
    assert named.fingerprint != Vocabulary(TOKENS, [END]).fingerprint
    assert pickle.loads(pickle.dumps(named)).special_tokens == {"<|call|>": CALL}
