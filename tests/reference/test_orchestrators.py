"""Whole runs on the router: sharing finds the whole table, and nothing falls without a commit."""

from itertools import pairwise

import anyio
import pytest

from agentdescent import (
    Aggregator,
    AggregatorConfig,
    RunningLoopError,
    async_evolve,
    get_policy,
)
from agentdescent.ledger import MemoryLedger
from agentdescent.reference import (
    AgentDescent,
    AsyncAgentDescent,
    AsyncConfig,
    make_task_universe,
    router_run,
    run_fork_baseline,
)
from support.router import RouterWorld

UNIVERSE = make_task_universe(seed=7)


@pytest.fixture(scope="module")
def descent(tmp_path_factory):
    descent = AgentDescent(tmp_path_factory.mktemp("router") / "ledger", UNIVERSE)
    return descent, descent.run(rounds=40)


def test_sharing_finds_the_whole_table(descent):
    descent, stats = descent

    assert len(stats) == 40
    assert stats[-1].dev_accuracy == 1.0
    assert (descent.final_accuracy(), descent.final_accuracy("stable")) == (1.0, 1.0)


def test_the_best_fork_at_the_same_number_of_rollouts_is_far_behind(descent):
    descent, _ = descent

    assert descent.result.rollouts == 6 * 40
    assert run_fork_baseline(UNIVERSE) <= descent.final_accuracy() - 0.5


def test_dev_and_stable_never_fall_without_a_commit(descent):
    _, stats = descent

    for before, after in pairwise(stats):
        assert after.committed or after.dev_accuracy >= before.dev_accuracy
        assert after.committed or after.stable_accuracy >= before.stable_accuracy
    assert stats[0].stable_accuracy < stats[-1].stable_accuracy == 1.0


def test_a_round_says_what_the_history_says(descent):
    descent, stats = descent

    for name in ("round", "committed", "fused", "discarded_stale", "conflicts_dropped"):
        assert [getattr(stat, name) for stat in stats] == [
            getattr(info, name) for info in descent.result.history
        ]
    assert sum(stat.fused for stat in stats) > 0


def test_parts_of_the_run_can_be_looked_at(descent):
    descent, stats = descent

    assert (len(descent.train), len(descent.held_out)) == (172, 116)
    assert descent.aggregator.config == AggregatorConfig(batch_trigger=4, max_wait_rounds=3)
    assert descent.verifier.budget.oracle_calls_used == stats[-1].oracle_used == 0
    assert descent.ledger.version(artifact="mol-router").number == descent.result.version


def test_equal_arguments_give_equal_rounds(descent, tmp_path):
    _, stats = descent

    again = AgentDescent(tmp_path, UNIVERSE).run(rounds=5)

    assert again[:4] == stats[:4]  # the last one also merges what still waits


def test_workers_without_a_cluster_are_warned_about(tmp_path):
    with pytest.warns(RuntimeWarning, match="only 11 of 12 workers have anything to do"):
        AgentDescent(tmp_path, UNIVERSE, n_workers=12)


@pytest.mark.asyncio
async def test_in_a_running_loop_the_twin_is_awaited(tmp_path):
    descent = AgentDescent(tmp_path, UNIVERSE)

    with pytest.raises(RunningLoopError, match=r"await agent_descent\.arun"):
        descent.run()
    assert len(await descent.arun(rounds=2)) == 2


@pytest.mark.parametrize("policy", ["full", "guarded", "reflective"])
def test_without_barriers_every_seed_reaches_the_target(policy, tmp_path):
    found = []
    for seed in range(10):
        descent = AsyncAgentDescent(
            tmp_path / str(seed),
            make_task_universe(seed=seed),
            AsyncConfig(seed=seed),
            staleness_policy=get_policy(policy),
        )
        stats = descent.run()
        found.append((stats.final_dev_accuracy, stats.final_stable_accuracy, stats.error))

    assert [dev >= 0.98 for dev, _, _ in found] == [True] * 10
    assert [(stable, error) for _, stable, error in found] == [(dev, None) for dev, _, _ in found]


def test_without_barriers_the_account_adds_up(tmp_path):
    descent = AsyncAgentDescent(tmp_path, UNIVERSE)
    assert descent.buffer_pending() == 0

    stats = descent.run()

    assert descent.buffer_pending() == 0
    assert stats.rollouts == descent.result.rollouts
    assert stats.sweeps == len(descent.result.history)
    assert len(stats.timeline) == stats.commits == descent.result.version - 1
    assert stats.timeline[-1][1] >= 0.98
    assert stats.proposals >= stats.commits
    assert 0.0 < stats.wallclock < 20.0
    assert (stats.forced_refreshes, stats.retired_workers, stats.oracle_used) == (0, 0, 0)


async def shares(policy):
    """How much of the evidence is dropped on five seeds, where every commit counts as lag."""
    results = [
        await async_evolve(
            **RouterWorld(seed, noise=0.5, clusters=12).parts,
            n_workers=6,
            async_ratio=4,
            target_reward=0.98,
            agg_config=AggregatorConfig(lag="version", batch_trigger=1),
            staleness_policy=get_policy(policy),
            ledger=MemoryLedger(),
        )
        for seed in range(5)
    ]
    assert [result.stop_reason for result in results] == ["target_reward"] * 5
    discarded = sum(result.stale_discarded for result in results)
    return discarded / sum(result.stale_considered for result in results)


@pytest.mark.asyncio
@pytest.mark.looptime(start=0)
async def test_the_stricter_policy_drops_more():
    full, reflective, guarded = [
        await shares(policy) for policy in ("full", "reflective", "guarded")
    ]

    assert 0.0 == full <= reflective < guarded


def test_a_rollout_may_take_its_time(tmp_path):
    async def slow(rendered, task):
        await anyio.sleep(0.002 * (1 + int(task.id[1:])))
        return router_run(rendered, task)

    stats = AsyncAgentDescent(tmp_path, UNIVERSE, rollout=slow).run()

    assert (stats.final_dev_accuracy >= 0.98, stats.error) == (True, None)


def test_a_rollout_that_always_fails_ends_the_run(tmp_path):
    def dead(rendered, task):
        raise ConnectionError("nobody is there")

    with pytest.warns(RuntimeWarning):
        stats = AsyncAgentDescent(tmp_path, UNIVERSE, rollout=dead).run()

    assert stats.error == "ConnectionError: nobody is there"
    assert (stats.rollouts, stats.commits, stats.final_dev_accuracy) == (0, 0, 0.0)


def test_the_optimizer_can_be_replaced(tmp_path):
    class Mine(Aggregator):
        pass

    descent = AsyncAgentDescent(tmp_path, UNIVERSE, aggregator_factory=Mine)

    assert descent.run().final_dev_accuracy >= 0.98
    assert type(descent.aggregator) is Mine
