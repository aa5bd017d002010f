"""The comparison of engines: honest random grammars, and a report of each difference."""

from __future__ import annotations

import pytest

from formatter_core.errors import UnsupportedByEngine
from formatter_core.grammar import (
    Bytes,
    Chars,
    Choice,
    Complement,
    Grammar,
    Intersection,
    Multiples,
    Node,
    Reference,
    Repeat,
    Sequence,
    Shortest,
    Substring,
    Token,
    walk,
)
from formatter_core.limits import Limits
from formatter_core.testing.compare import compare
from formatter_core.testing.oracle import OracleEngine, OracleGrammar
from formatter_core.testing.preferred import is_ambiguous
from formatter_core.testing.random_grammars import Features, random_case
from formatter_core.testing.traits import traits_of
from formatter_core.vocabulary import Vocabulary
from tests.sabotage.faulty_engines import FAULTS, FaultyEngine


def test_the_random_grammars_are_honest() -> None:
    report = compare(OracleEngine(), OracleEngine(), range(50))
    assert report.differences == []
    assert report.cases == report.grammars == 50
    assert report.share("recursive") >= 0.3
    assert report.share("ambiguous") >= 0.2
    assert report.share("empty") >= 0.2
    assert report.share("cyclic or useless") >= 0.1
    assert report.masks >= 6 * report.grammars
    assert "50 grammars" in report.summary()


def test_cases_are_reproducible_and_keep_to_their_features() -> None:
    rare = ("counts", "non_ascii", "substrings", "shortest", "complements", "multiples", "tokens")
    few = Features(**dict.fromkeys(rare, False))
    kinds: set[type] = set()
    for seed in range(150):
        case = random_case(seed)
        again = random_case(seed)
        assert case.grammar == again.grammar
        assert case.vocabulary.tokens == again.vocabulary.tokens
        kinds |= {type(node) for body in case.grammar.rules.values() for node in walk(body)}
        for body in random_case(seed, few).grammar.rules.values():
            for node in walk(body):
                assert not isinstance(node, (Substring, Shortest, Intersection, Complement, Multiples, Token))
                assert not isinstance(node, Repeat) or (node.maximum or 0) <= 1
    assert kinds >= {Substring, Shortest, Intersection, Complement, Multiples, Token, Chars, Repeat}


def test_vocabularies_have_everything_that_is_awkward() -> None:
    for seed in range(20):
        vocabulary = random_case(seed).vocabulary
        texts = [token for token in vocabulary.tokens if token]
        assert {b"", None, b"\xf0\x9f", b"\xff"} <= set(vocabulary.tokens)
        assert len(set(texts)) < len(texts)
        assert any(len(text) > 1 for text in texts)


@pytest.mark.parametrize(
    ("rules", "traits"),
    [
        ({"s": Bytes(b"a")}, set()),
        ({"s": Choice((Sequence((Bytes(b"a"), Reference("s"))), Bytes(b"b")))}, {"recursive"}),
        ({"s": Choice((Bytes(b"a"), Bytes(b"a")))}, {"ambiguous"}),
        ({"s": Choice((Sequence((Reference("s"), Reference("s"))), Bytes(b"a")))}, {"recursive", "ambiguous"}),
        ({"s": Repeat(Bytes(b"a"))}, {"empty"}),
        ({"s": Choice((Reference("s"), Bytes(b"a")))}, {"recursive", "cyclic"}),
        ({"s": Bytes(b"a"), "t": Bytes(b"b")}, {"useless"}),
        ({"s": Choice((Bytes(b"a"), Reference("t"))), "t": Sequence((Bytes(b"b"), Reference("t")))}, {"useless"}),
    ],
)
def test_traits(rules: dict[str, Node], traits: set[str]) -> None:
    assert traits_of(Grammar(rules, "s")) == traits


def test_ambiguity_is_that_of_one_text() -> None:
    grammar = Grammar({"s": Sequence((Repeat(Bytes(b"a")), Repeat(Bytes(b"a"), 0, 1), Bytes(b"b")))}, "s")
    assert not is_ambiguous(grammar, [b"b"])
    assert is_ambiguous(grammar, [b"aab"])


def test_captures_are_compared_of_grammars_that_have_some() -> None:
    assert compare(OracleEngine(), OracleEngine(), range(20)).captures > 20
    assert compare(OracleEngine(), OracleEngine(), range(10), features=Features(captures=False)).captures == 0


@pytest.mark.parametrize("fault", ["rollback is off by one", "the last of several alternatives is lost"])
def test_a_difference_names_its_grammar_and_its_seed(fault: str) -> None:
    """More faults that the comparison must find are planted in `tests/sabotage`."""
    report = compare(OracleEngine(), FaultyEngine(OracleEngine(), *FAULTS[fault]), range(60), most_differences=1)
    (difference,) = report.differences
    assert difference.grammar == random_case(difference.seed).grammar
    assert f"seed {difference.seed}" in str(difference)


def test_refusals_are_counted_by_reason() -> None:
    class Refuses(OracleEngine):
        def compile(self, grammar: Grammar, vocabulary: Vocabulary, limits: Limits) -> OracleGrammar:
            if any(isinstance(node, Chars) for body in grammar.rules.values() for node in walk(body)):
                raise UnsupportedByEngine("it has no classes", engine="refuses", node="Chars(...)")
            return super().compile(grammar, vocabulary, limits)

    report = compare(OracleEngine(), Refuses(), range(30))
    assert report.differences == []
    assert report.refusals["Chars: it has no classes"] == report.refusals.total() > 0
    assert report.grammars == 30 - report.refusals.total()
