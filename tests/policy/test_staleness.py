import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentdescent.staleness import Full, Guarded, Reflective, StaleAction, get_policy

names = st.sampled_from(["full", "guarded", "reflective"])
ALPHA = 2


@pytest.mark.parametrize(
    ("name", "fresh", "breaking", "within", "beyond"),
    [
        ("full", "accept", "discard", "accept", "accept"),
        ("guarded", "accept", "discard", "rebase", "discard"),
        ("reflective", "accept", "discard", "rebase", "rebase"),
    ],
)
def test_the_table_of_policies(name, fresh, breaking, within, beyond):
    policy = get_policy(name)

    assert policy.name == name
    assert policy.decide(0, ALPHA, False) == fresh
    assert policy.decide(1, ALPHA, True) == breaking
    assert [policy.decide(eta, ALPHA, False) for eta in (1, ALPHA)] == [within, within]
    assert policy.decide(ALPHA + 1, ALPHA, False) == beyond


@pytest.mark.parametrize("name", ["full", "guarded", "reflective"])
def test_up_to_date_edits_may_break_the_contract(name):
    assert get_policy(name).decide(0, 0, True) is StaleAction.ACCEPT


@given(names, st.integers(max_value=0), st.integers(), st.booleans())
def test_a_negative_lag_counts_as_none(name, eta, alpha, breaking):
    assert get_policy(name).decide(eta, alpha, breaking) is StaleAction.ACCEPT


@given(st.integers(), st.integers(), st.booleans())
def test_a_more_patient_policy_never_discards_more(eta, alpha, breaking):
    discards = [
        policy.decide(eta, alpha, breaking) is StaleAction.DISCARD
        for policy in (Guarded(), Reflective(), Full())
    ]

    assert discards == sorted(discards, reverse=True)


def test_an_unknown_policy_is_refused_with_the_names_there_are():
    with pytest.raises(
        ValueError,
        match="unknown staleness policy 'strict'; choose one of full, guarded, reflective",
    ):
        get_policy("strict")


def test_policies_show_how_to_make_them():
    assert [repr(policy) for policy in (Full(), Guarded(), Reflective())] == [
        "Full()",
        "Guarded()",
        "Reflective()",
    ]
