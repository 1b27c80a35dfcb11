import pytest

from agentdescent.aggregator import AggregatorConfig
from agentdescent.merge.trust import most_ops, within_trust_region
from support.merging import make_bench


def split(cards, **knobs):
    fitting, oversized = within_trust_region(cards, AggregatorConfig(**knobs))
    return [c.diff.ops for c in fitting], [c.diff.ops for c in oversized]


def test_too_many_keys_are_outside():
    small, large = {"a": "1", "b": "1"}, {"a": "1", "b": "1", "c": "1"}
    cards = [make_bench().card(ops) for ops in (large, small)]

    assert split(cards, trust_region_ops=2) == ([small], [large])


def test_a_value_that_is_too_long_is_outside():
    short, long = {"a": "12345"}, {"a": "x", "b": "123456"}
    cards = [make_bench().card(ops) for ops in (short, long)]

    assert split(cards, trust_region_chars=5) == ([short], [long])


def test_values_of_any_kind_are_measured_by_their_text():
    cards = [make_bench().card({"a": [1, 2, 3]}), make_bench().card({"a": None})]

    assert split(cards, trust_region_chars=8) == ([{"a": None}], [{"a": [1, 2, 3]}])


@pytest.mark.parametrize(("commit", "most"), [(None, 6), (4, 4), (9, 6)])
def test_what_no_commit_can_hold_is_outside_too(commit, most):
    assert most_ops(AggregatorConfig(max_commit_ops=commit)) == most
