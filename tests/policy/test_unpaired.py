"""Acceptance by two Beta posteriors: exact, and strict about everything but ties."""

from math import exp, lgamma, log

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentdescent import EvolvingArtifact
from agentdescent.core.diff import Diff
from agentdescent.core.evidence import EvidenceCard
from agentdescent.policy.bundle import AcceptDecision, MergeContext
from agentdescent.policy.stats import accepted_risk, probability_of_gain
from agentdescent.policy.unpaired import BetaPosterior, UnpairedBeta, probability_above

HEAD = EvolvingArtifact("skill")


def solved(k, n):
    return BetaPosterior(k, n - k)


def context(before, after, *deltas, n=12, version=1, compared=1):
    """So many of n tasks solved, and cards whose gains on their own tasks are `deltas`."""
    diff = Diff("d", "skill", {"k": "v"})
    cards = [EvidenceCard(diff, {}, before_after_delta=delta) for delta in deltas]
    rewards = [[1.0] * k + [0.0] * (n - k) for k in (before, after)]
    delta = accepted_risk(version, base_delta=0.5, half_life=64)
    return MergeContext(HEAD, HEAD.apply(diff), diff, cards, *rewards, delta, compared)


@pytest.mark.parametrize(
    ("n", "half", "first", "all_of_them", "local"),
    [
        (4, 0.7381, 0.7778, 0.9960, 0.6082),
        (5, 0.7165, 0.7727, 0.9989, 0.6166),
        (8, 0.6814, 0.7647, 1.0000, 0.5859),
        (12, 0.6525, 0.7600, 1.0000, 0.5734),
        (20, 0.6211, 0.7561, 1.0000, 0.5591),
        (50, 0.5784, 0.7525, 1.0000, 0.5388),
        (100, 0.5559, 0.7512, 1.0000, 0.5278),
    ],
)
def test_probabilities_agree_with_integration(n, half, first, all_of_them, local):
    head = solved(n // 2, n)

    found = [
        probability_above(solved(n // 2 + 1, n), head),
        probability_above(solved(1, n), solved(0, n)),
        probability_above(solved(n, n), solved(0, n)),
        probability_above(head.observe_delta(0.25), head),
    ]

    assert [round(p, 4) for p in found] == [half, first, all_of_them, local]


@pytest.mark.parametrize(("k", "p"), [(8, 0.7858), (9, 0.8869), (10, 0.9516)])
def test_more_solved_tasks_count_for_more(k, p):
    assert round(probability_above(solved(k, 12), solved(6, 12)), 4) == p


def finite_sum(x, y):
    """P(X > Y) in closed form, for whole counts."""
    (a1, b1), (a0, b0) = (x.alpha, x.beta), (y.alpha, y.beta)
    terms = (
        log_beta(a0 + i, b0 + b1) - log(b1 + i) - log_beta(1 + i, b1) - log_beta(a0, b0)
        for i in range(int(a1))
    )
    return sum(map(exp, terms))


def log_beta(a, b):
    return lgamma(a) + lgamma(b) - lgamma(a + b)


@pytest.mark.parametrize("k", [1, 5010, 9999])
def test_it_holds_for_ten_thousand_tasks(k):
    x, y = solved(k, 10_000), solved(5000, 10_000)

    assert probability_above(x, y) == pytest.approx(finite_sum(x, y), abs=1e-9)


@given(st.floats(0, 60), st.floats(0, 60), st.floats(0, 60), st.floats(0, 60))
def test_one_of_two_rates_is_higher(a, b, c, d):
    x, y = BetaPosterior(a, b), BetaPosterior(c, d)

    assert probability_above(x, y) + probability_above(y, x) == pytest.approx(1.0, abs=1e-6)


def test_nothing_but_equal_counts_is_a_coin_flip():
    assert probability_above(solved(6, 12), solved(6, 12)) == 0.5


def test_a_posterior_knows_its_mean():
    assert BetaPosterior(2.0, 0.0).mean == 0.75


@pytest.mark.parametrize(
    ("delta", "posterior"),
    [(0.5, (1.000001, 0.0)), (0.1, (0.400001, 0.0)), (-0.1, (0.0, 0.400001)), (0.0, (0.0, 1e-6))],
)
def test_a_gain_of_a_quarter_is_a_whole_observation(delta, posterior):
    seen = BetaPosterior().observe_delta(delta)

    assert (seen.successes, seen.failures) == pytest.approx(posterior)


@pytest.mark.parametrize(
    ("version", "of_12", "of_50", "paired"),
    [(1, 1, 1, 1), (64, 2, 4, 2), (128, 3, 6, 3), (256, 5, 10, 5), (400, 6, 12, 6)],
)
def test_it_asks_for_more_as_the_risk_anneals(version, of_12, of_50, paired):
    def needed(n, accepts):
        cases = (context(n // 2, n // 2 + k, n=n, version=version) for k in range(1, n // 2 + 1))
        return 1 + next(k for k, case in enumerate(cases) if accepts(case))

    def is_accepted(case):
        return UnpairedBeta().decide(case).accept

    def passes_the_gate(case):
        return probability_of_gain(case.before, case.after) > 1 - case.delta

    assert (needed(12, is_accepted), needed(50, is_accepted)) == (of_12, of_50)
    assert needed(50, passes_the_gate) == paired


def test_a_tie_without_local_gains_is_refused():
    decision = UnpairedBeta().decide(context(6, 6))

    assert decision == AcceptDecision(
        accept=False, p_improve=0.5, detail="P(better) = 0.50 <= 0.51"
    )


def test_a_tie_with_a_local_gain_is_accepted():
    decision = UnpairedBeta().decide(context(6, 6, 0.5))

    assert (decision.accept, decision.detail) == (True, "P(better) = 0.57 > 0.51")


def test_local_gains_never_outweigh_a_loss():
    decision = UnpairedBeta().decide(context(6, 5, *[1.0] * 20))

    assert decision.p_improve > 0.9
    assert (decision.accept, decision.detail) == (False, "worse by 0.083")


def test_it_remembers_what_merges_came_to():
    policy, seen = UnpairedBeta(), context(6, 8)
    decision = policy.decide(seen)

    policy.learn(seen, decision, True)
    policy.learn(seen, decision, False)  # outrun by others: it tells nothing
    policy.learn(context(6, 6), AcceptDecision(accept=False), False)

    assert policy.prior("skill") == BetaPosterior(2.0, 1e-6)
    assert policy.prior("another") == BetaPosterior()


def test_its_memory_makes_it_slower():
    policy = UnpairedBeta()
    for _ in range(10):
        policy.learn(context(6, 7), AcceptDecision(accept=True), True)

    assert round(policy.decide(context(6, 7)).p_improve, 4) == 0.6246
    assert round(policy.decide(context(6, 8)).p_improve, 4) == 0.7447


def test_its_memory_outlives_the_process():
    policy, again = UnpairedBeta(), UnpairedBeta()
    policy.learn(context(6, 7), AcceptDecision(accept=True), True)

    again.restore(policy.dump())

    assert again.prior("skill") == policy.prior("skill") == BetaPosterior(2.0, 0.0)
