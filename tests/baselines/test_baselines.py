"""Controls at an equal budget: what is equal, what is not, and what may be claimed."""

from dataclasses import replace
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentdescent import AppendRules, BackendError, Task
from agentdescent.baselines import (
    Arm,
    Budget,
    Comparison,
    Reading,
    Trial,
    Workload,
    best_of_n_fork,
    compare,
    interval,
    merge_of_n,
    serial,
)

SEEDS = range(3)
NEEDS = 8
TEN_CALLS = Budget(calls=10)


@pytest.mark.parametrize("amounts", [{}, {"rollouts": 0}, {"rollouts": 4, "calls": 0}])
def test_a_budget_bounds_something(amounts):
    with pytest.raises(ValueError, match="bounds nothing"):
        Budget(**amounts)


@given(st.integers(1, 20), st.integers(20, 300), st.integers(20, 300))
def test_parts_of_a_budget_come_to_the_whole(ways, rollouts, calls):
    parts = Budget(rollouts, calls).split(ways)

    assert len(parts) == ways
    for unit, whole in (("rollouts", rollouts), ("calls", calls)):
        amounts = [getattr(part, unit) for part in parts]
        assert sum(amounts) == whole
        assert max(amounts) - min(amounts) <= 1


def test_what_has_no_bound_has_none_in_parts():
    assert Budget(calls=5).split(2) == [Budget(calls=3), Budget(calls=2)]


@pytest.mark.parametrize(("ways", "why"), [(0, "ways must be at least 1"), (3, "bounds nothing")])
def test_a_budget_is_not_split_into_nothing(ways, why):
    with pytest.raises(ValueError, match=why):
        Budget(rollouts=2).split(ways)


def tasks(name):
    return [Task(f"{name}{i}", "", {"need": str(i)}) for i in range(NEEDS)]


async def run(rendered, task):
    return rendered


async def reward(task, output):
    return float(f"- {task.meta['need']}" in output.splitlines())


def actors(stream):
    """Each proposal is a rule for its task, or with probability 0.2 for none."""
    random = Random(stream)

    async def propose(rendered, task, output, reward):
        return task.meta["need"] if random.random() < 0.8 else "nothing"

    return {"run": run, "reward": reward, "propose": propose, "strategy": AppendRules()}


WORKLOAD = Workload(tasks("train"), tasks("dev"), tasks("test"), actors)


async def arms(budget, n=4, workload=WORKLOAD):
    return (
        await serial(workload, budget, seeds=SEEDS),
        await best_of_n_fork(workload, budget, n, seeds=SEEDS),
        await merge_of_n(workload, budget, n, seeds=SEEDS),
    )


@pytest.mark.parametrize(
    ("budget", "fixed"), [(Budget(calls=80), "calls"), (Budget(rollouts=24), "rollouts")]
)
@pytest.mark.asyncio
async def test_every_arm_spends_exactly_its_budget(budget, fixed):
    found = await arms(budget)

    spent = {getattr(trial, fixed) for arm in found for trial in arm.trials}
    assert spent == {getattr(budget, fixed)}
    assert compare(*found, fixed=fixed).amount == getattr(budget, fixed)


@pytest.mark.asyncio
async def test_those_who_share_learn_most_from_equal_calls():
    comparison = compare(*await arms(Budget(calls=80)), fixed="calls")

    assert comparison.interval("merge of 4").mean > 0.8
    assert comparison.difference("merge of 4", "fork of 4, best on test").mean > 0.5


@pytest.mark.asyncio
async def test_arms_can_be_repeated():
    assert await arms(Budget(calls=60)) == await arms(Budget(calls=60))


@pytest.mark.asyncio
async def test_no_run_sees_the_test_tasks():
    seen = []

    def watching(stream):
        parts = actors(stream)

        async def watched(rendered, task):
            seen.append((stream, task.id))
            return rendered

        return {**parts, "run": watched}

    await serial(replace(WORKLOAD, actors=watching), Budget(calls=40), seeds=[5])

    assert {stream for stream, _ in seen} == {"5/0"}
    tested = [name for _, name in seen if name.startswith("test")]
    assert tested == [name for _, name in seen[-len(tested) :]]
    assert len(seen) - len(tested) <= 40


@pytest.mark.asyncio
async def test_forks_draw_differently_and_the_best_on_dev_counts():
    def lopsided(stream):
        """Fork 1 alone finds anything; on the test tasks, fork 0 earns something for nothing."""
        parts = actors(stream)

        async def propose(rendered, task, output, reward):
            return task.meta["need"] if stream == "0/1" else None

        async def generous(task, output):
            if stream == "0/0" and task.id.startswith("test"):
                return 1.0
            return await reward(task, output)

        return {**parts, "propose": propose, "reward": generous}

    arm = await best_of_n_fork(replace(WORKLOAD, actors=lopsided), Budget(rollouts=8), 2, seeds=[0])

    [trial] = arm.trials
    assert (trial.dev, trial.test, trial.best) == (0.5, 0.5, 1.0)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.asyncio
async def test_a_run_that_failed_is_not_compared():
    def dead(stream):
        async def run(rendered, task):
            raise ConnectionError("nobody is there")

        return {**actors(stream), "run": run}

    with pytest.raises(BackendError, match=r"run 0/0 cannot be compared.* nobody is there"):
        await serial(replace(WORKLOAD, actors=dead), Budget(rollouts=4), seeds=[0])


def arm(name, *tests, budget=TEN_CALLS, spent=10, best=None, forks=False):
    trials = [
        Trial(seed, dev=test, test=test, best=best or test, rollouts=3, calls=spent)
        for seed, test in enumerate(tests)
    ]
    return Arm(name, budget, trials, forks)


def test_a_fork_is_read_both_ways():
    comparison = compare(
        arm("fork of 2", 0.5, 0.6, 0.7, best=0.9, forks=True), arm("merge", 1, 1, 1), fixed="calls"
    )

    assert comparison.readings == [
        Reading("fork of 2, selected on dev", [0.5, 0.6, 0.7], 3, 10),
        Reading("fork of 2, best on test", [0.9, 0.9, 0.9], 3, 10),
        Reading("merge", [1, 1, 1], 3, 10),
    ]


def test_what_is_fixed_is_named_and_the_other_unit_printed():
    comparison = compare(
        arm("serial", 0.5, 0.6, 0.7), arm("merge of 8", 0.6, 0.7, 0.8), fixed="calls"
    )

    assert str(comparison) == (
        "fixed: 10 calls for every arm on each of 3 seeds\n"
        "not fixed, so it confounds: rollouts\n"
        "            test reward, 95 % interval  rollouts  calls\n"
        "serial      0.600 [0.352, 0.848]                3     10\n"
        "merge of 8  0.700 [0.452, 0.948]                3     10\n"
        "merge of 8 - serial: 0.100 [0.100, 0.100]"
    )


def test_nothing_is_claimed_where_the_interval_holds_zero():
    comparison = compare(arm("serial", 0.5, 0.6, 0.7), arm("merge", 0.7, 0.5, 0.8), fixed="calls")

    assert str(comparison).endswith("merge - serial: 0.067 [-0.313, 0.446]: no claim")
    assert not comparison.difference("merge", "serial").excludes_zero


@pytest.mark.parametrize(
    ("others", "fixed", "why"),
    [
        ([], "calls", r"1 arm\(s\) cannot be compared"),
        ([arm("b", 1, 1, 1, budget=Budget(calls=20))], "calls", "not given the same"),
        ([arm("b", 1, 1, 1)], "rollouts", r"number of rollouts.*Budget\(rollouts"),
        ([arm("b", 1, 1)], "calls", "not run on the same seeds"),
        ([arm("b", 1, 1, 1, spent=9)], "calls", "b spent 9 of 10 calls on seed 0"),
    ],
)  # fmt: skip
def test_unequal_arms_are_refused(others, fixed, why):
    with pytest.raises(ValueError, match=why):
        compare(arm("a", 1, 1, 1), *others, fixed=fixed)


def test_two_seeds_are_too_few():
    with pytest.raises(ValueError, match="take 3 or more"):
        compare(arm("a", 0, 1), arm("b", 0, 1), fixed="calls")
    with pytest.raises(ValueError, match="take 3 or more"):
        interval([0.1, 0.2])


@pytest.mark.parametrize(
    ("n", "quantile"),
    [(3, 4.302653), (4, 3.182446), (6, 2.570582), (11, 2.228139), (30, 2.045230)],
)
def test_intervals_are_those_of_students_law(n, quantile):
    values = [float(i % 2) for i in range(n)]
    share = sum(values) / n
    deviation = (n * share * (1 - share) / (n - 1)) ** 0.5

    found = interval(values)

    assert found.high - found.mean == pytest.approx(quantile * deviation / n**0.5, rel=2e-3)
    assert found.mean - found.low == pytest.approx(found.high - found.mean)


def test_a_reading_is_known_by_its_name():
    with pytest.raises(KeyError):
        Comparison("calls", 10, [Reading("merge", [1, 1, 1], 1, 1)]).interval("fork")
