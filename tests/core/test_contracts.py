"""What callers owe the engine, and what a run may spend."""

import math
from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentdescent import ProposalContractError, RewardContractError, StopReason, Task
from agentdescent.core.contracts import (
    check_callable,
    check_parts,
    check_proposal,
    check_reward,
    require_methods,
)
from agentdescent.core.leash import Leash
from agentdescent.core.merging import LedgerSnapshot, Verdict
from agentdescent.core.outcomes import MergeOutcome
from agentdescent.core.scored import Scored
from agentdescent.core.spend import Exhausted, Spend, Unit

TASK = Task("7", "p")


@given(st.floats(0, 1))
def test_a_reward_in_range_stays_what_it_is(value):
    assert check_reward(TASK, value) == value


@pytest.mark.parametrize(
    ("value", "reward"), [(True, 1.0), (0, 0.0), ("0.5", 0.5), (1 + 1e-9, 1.0), (-1e-7, 0.0)]
)
def test_what_reads_as_a_number_is_one_and_a_hair_outside_is_clamped(value, reward):
    assert check_reward(TASK, value) == reward


@pytest.mark.parametrize("value", [47, -0.1, math.nan, math.inf, 1.00001])
def test_a_reward_outside_names_task_value_and_remedy(value):
    with pytest.raises(RewardContractError, match=r"task '7'.*outside \[0, 1\]; normalise it"):
        check_reward(TASK, value)


@pytest.mark.parametrize("value", [None, "good", [1.0], object()])
def test_a_reward_that_is_no_number_is_shown(value):
    with pytest.raises(RewardContractError, match=type(value).__name__):
        check_reward(TASK, value)


def test_a_proposal_is_text_or_none():
    assert check_proposal(TASK, None) is None
    assert check_proposal(TASK, "do") == "do"
    with pytest.raises(ProposalContractError, match=r"task '7' it returned list \['a'\]"):
        check_proposal(TASK, ["a"])
    with pytest.raises(ProposalContractError, match=r"\.\.\.;"):
        check_proposal(TASK, ["a" * 200])


def test_a_callable_is_bound_before_it_is_called():
    check_callable("run", lambda rendered, task: None, ("rendered", "task"))
    check_callable("run", partial(lambda a, b, c: None, 1), ("rendered", "task"))
    check_callable("run", dict, ("rendered", "task"))
    with pytest.raises(
        TypeError, match=r"run must be callable as run\(rendered, task\), but it is"
    ):
        check_callable("run", lambda rendered: None, ("rendered", "task"))
    with pytest.raises(TypeError, match="run must be a function of the form"):
        check_callable("run", "solve", ("rendered", "task"))


def test_a_plug_in_must_have_its_methods():
    require_methods("a list", [], ("append",))
    with pytest.raises(
        TypeError, match=r"a list must have the methods append, lend; list has no lend"
    ):
        require_methods("a list", [], ("append", "lend"))


def test_a_budget_is_exact_and_can_be_given_back():
    spend = Spend({Unit.CALL: (2, StopReason.MAX_CALLS)})
    spend.reserve(Unit.CALL)
    spend.reserve(Unit.CALL)

    with pytest.raises(Exhausted, match="max_calls"):
        spend.reserve(Unit.CALL)
    spend.release(Unit.CALL)
    spend.reserve(Unit.CALL)

    assert (spend.used(Unit.CALL), spend.left(Unit.CALL)) == (2, 0)
    assert spend.exhausted is StopReason.MAX_CALLS
    assert spend.left(Unit.ROLLOUT) is None


def test_a_leash_cancels_what_awaits_and_waits_for_threads():
    cancelled = []
    leash = Leash(lambda: cancelled.append(1))
    leash.in_thread = 1
    leash.call_off()
    assert (cancelled, leash.overdue) == ([], True)
    leash.in_thread = 0
    leash.call_off()
    assert cancelled == [1]


def test_outcome_words_print_as_plain_text():
    assert f"{ {MergeOutcome.COMMITTED: 1} }" == "{'committed': 1}"
    assert StopReason.ROUNDS == "rounds"


@pytest.mark.parametrize(
    ("verdict", "reason"),
    [
        (Verdict(True, 0.9, 0.5, 0.2, 0.4, 5, 5), "P(delta>0) = 0.90 > 0.50"),
        (Verdict(False, 0.31, 0.75, 0, 0, 9, 16), "P(delta>0) <= 0.31 <= 0.75 after 9 of 16 tasks"),
        (Verdict(False, 0.45, 0.4, 0, 0, 9, 16), "no gain is left to be had after 9 of 16 tasks"),
        (Verdict(False, 0.4, 0.5, 0.5, 0.4, 5, 5), "P(delta>0) = 0.40, bar 0.50, gain -0.100"),
        (Verdict(False, 0.4, 0.5, 0, 0, 1, 5, undecided="429"), "undecided: 429"),
    ],
)
def test_a_verdict_gives_its_numbers(verdict, reason):
    assert verdict.reason == reason


def test_a_snapshot_is_asked_by_name():
    assert LedgerSnapshot({}, {}).get("skill") is None


def test_parts_are_numbers():
    assert check_parts(TASK, Scored(1.0, "", {"a": True, "b": 0.5})) == {"a": 1.0, "b": 0.5}


@pytest.mark.parametrize("part", [None, "high", float("nan"), float("inf"), 10**400])
def test_a_part_that_is_no_finite_number_is_refused(part):
    with pytest.raises(RewardContractError, match="part 'depth' of the reward for task"):
        check_parts(TASK, Scored(1.0, "", {"depth": part}))
