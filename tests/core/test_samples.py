import copy
import json
import pickle
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentdescent.core.samples import EXACT, Samples

numbers = st.lists(st.integers(0, 1000).map(float), min_size=1, max_size=300)


def of(values):
    samples = Samples()
    for value in values:
        samples.add(value)
    return samples


def test_of_nothing_there_is_no_percentile():
    assert (Samples().count, Samples().p50, Samples().p90) == (0, None, None)


@given(numbers, st.integers(0, 100))
def test_percentiles_of_some_are_exact(values, percent):
    ordered = sorted(values)

    assert of(values).percentile(percent) == ordered[round((len(values) - 1) * percent / 100)]


def test_percentiles_are_exact_for_thousands():
    values = [float(number) for number in range(EXACT)]
    Random(0).shuffle(values)

    assert (of(values).p50, of(values).p90) == (2048, round(0.9 * (EXACT - 1)))


def test_of_many_they_are_near_and_memory_is_bounded():
    values = [float(number) for number in range(50_000)]
    Random(0).shuffle(values)

    samples = of(values)

    assert samples.count == 50_000
    assert len(samples._kept) == EXACT
    assert samples.p50 == pytest.approx(25_000, rel=0.05)
    assert samples.p90 == pytest.approx(45_000, rel=0.03)


def test_late_values_weigh_as_much_as_early_ones():
    samples = of([1.0] * 20_000 + [2.0] * 20_000)

    assert sum(value == 2.0 for value in samples._kept) == pytest.approx(EXACT / 2, rel=0.1)


@given(numbers)
def test_whole_percentiles_survive_being_saved(values):
    samples = of(values)

    loaded = Samples.from_json(json.loads(json.dumps(samples.as_json())))

    assert loaded == samples
    assert [loaded.percentile(p) for p in range(101)] == [samples.percentile(p) for p in range(101)]


def test_what_was_loaded_goes_on_learning():
    loaded = Samples.from_json(of([1.0] * 1000).as_json())
    for _ in range(9000):
        loaded.add(3.0)

    assert (loaded.count, loaded.p50) == (10_000, 3.0)


def test_different_values_are_not_equal():
    assert of([1.0, 2.0]) != of([1.0, 3.0])
    assert of([1.0]) != 1.0


def test_they_can_be_copied_and_stored():
    samples = of([3.0, 1.0])

    assert pickle.loads(pickle.dumps(samples)) == copy.deepcopy(samples) == samples
