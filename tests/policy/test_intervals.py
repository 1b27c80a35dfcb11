"""Intervals of a mean: they hold for few observations, whatever their law."""

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentdescent.policy.intervals import mean_interval

values = st.lists(st.floats(-1.0, 1.0), min_size=1, max_size=8)


@settings(max_examples=25)
@given(values)
def test_the_mean_lies_within(observed):
    low, high = mean_interval(observed)
    mean = sum(observed) / len(observed)

    assert -1.0 <= low <= mean + 1e-9
    assert mean - 1e-9 <= high <= 1.0


@settings(max_examples=25)
@given(values)
def test_it_is_symmetric(observed):
    low, high = mean_interval(observed)

    assert mean_interval([-value for value in observed]) == pytest.approx((-high, -low), abs=1e-9)


@settings(max_examples=25)
@given(values)
def test_more_of_the_same_says_more(observed):
    low, high = mean_interval(observed)
    more = mean_interval(observed * 3)

    assert more[1] - more[0] <= high - low + 1e-9


@settings(max_examples=25)
@given(values)
def test_less_risk_is_a_wider_interval(observed):
    low, high = mean_interval(observed, 0.2)
    wide = mean_interval(observed, 0.01)

    assert wide[0] <= low + 1e-9
    assert high - 1e-9 <= wide[1]


def test_seven_wins_are_no_proof_and_eight_are():
    assert mean_interval([1.0] * 7 + [0.0] * 24)[0] < 0.0 < mean_interval([1.0] * 8 + [0.0] * 24)[0]


@pytest.mark.parametrize("law", [(0.3, 0.1), (0.05, 0.0), (0.5, 0.5), (0.95, 0.0)])
def test_it_misses_no_more_often_than_it_says(law):
    win, lose = law
    draw = random.Random(1)
    missed = 0
    for _ in range(100):
        seen = draw.choices((1.0, -1.0, 0.0), (win, lose, 1.0 - win - lose), k=15)
        low, high = mean_interval(seen, 0.2)
        missed += not low <= win - lose <= high

    assert missed / 100 <= 0.2


@pytest.mark.parametrize(
    ("observed", "risk", "words"),
    [
        ([], 0.05, "values is empty"),
        ([0.5], 0.0, "risk must lie between 0 and 1"),
        ([0.5], 1.0, "risk must lie between 0 and 1"),
        ([0.0, 1.5], 0.05, "got 1.5"),
        ([float("nan")], 0.05, "got nan"),
    ],
)
def test_what_has_no_interval_is_refused(observed, risk, words):
    with pytest.raises(ValueError, match=words):
        mean_interval(observed, risk)
