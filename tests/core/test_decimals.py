"""Plain decimals of an interval, judged by `decimal`."""

from __future__ import annotations

import re
from decimal import Decimal

from hypothesis import given, settings
from hypothesis import strategies as st

from formatter_core.grammar.automaton import Automaton
from formatter_core.grammar.decimals import integers, numbers

PLAIN = re.compile(r"-?(0|[1-9][0-9]*)(\.[0-9]+)?")

bounds = st.one_of(
    st.none(), st.decimals(-2000, 2000, places=3), st.sampled_from([Decimal(0), Decimal(10), Decimal("-0.5")])
)
texts = st.one_of(
    st.from_regex(r"-?(0|[1-9][0-9]{0,4})(\.[0-9]{1,4})?", fullmatch=True),
    st.sampled_from(["-0", "00", "01", "1.", ".5", "-", "", "1e3", "-0.0", "+1"]),
)


def near(bound: Decimal | None) -> list[str]:
    """Spellings at and beside a bound, where mistakes live."""
    if bound is None:
        return []
    plain = format(bound, "f")
    return [
        plain,
        plain.rstrip("0").rstrip("."),
        plain + "0",
        plain + "1",
        *(format(bound + Decimal(d).scaleb(-3), "f") for d in (-1, 1, 9, -9)),
    ]


@settings(max_examples=60, deadline=None)
@given(bounds, bounds, st.booleans(), st.booleans(), st.lists(texts, max_size=20))
def test_numbers(low: Decimal | None, high: Decimal | None, above: bool, below: bool, samples: list[str]) -> None:
    automaton = Automaton(numbers(low, high, exclude_minimum=above, exclude_maximum=below))
    for text in [*samples, *near(low), *near(high)]:
        good = bool(PLAIN.fullmatch(text))
        if good:
            value = Decimal(text)
            good = not (text.startswith("-") and value == 0)
            good &= low is None or (value > low if above else value >= low)
            good &= high is None or (value < high if below else value <= high)
        assert automaton.matches(text.encode()) == good, text


@settings(max_examples=60, deadline=None)
@given(bounds, bounds, st.lists(texts, max_size=20))
def test_integers(low: Decimal | None, high: Decimal | None, samples: list[str]) -> None:
    automaton = Automaton(integers(low, high))
    around = [str(int(bound) + d) for bound in (low, high) if bound is not None for d in range(-2, 3)]
    for text in [*samples, *around]:
        good = bool(re.fullmatch(r"0|-?[1-9][0-9]*", text))
        good = good and (low is None or int(text) >= low) and (high is None or int(text) <= high)
        assert automaton.matches(text.encode()) == good, text


def test_large_bounds_stay_small_and_exact() -> None:
    bound = 10**40 + 7
    for automaton in (
        Automaton(integers(Decimal(-bound), Decimal(bound))),
        Automaton(numbers(Decimal(-bound), Decimal(bound))),
    ):
        assert automaton.explore(500) < 500
        for sign in ("", "-"):
            assert automaton.matches(f"{sign}{bound}".encode())
            assert not automaton.matches(f"{sign}{bound + 1}".encode())
