"""What becomes of a diff that was made against an older version: `staleness_policy=`."""

import itertools
import math

import anyio
import pytest

from agentdescent import AggregatorConfig, async_evolve, evolve, get_policy
from agentdescent.ledger import MemoryLedger
from support.pens import agent, reward, tasks

BY_VERSION = AggregatorConfig(lag="version")


class Watched:
    """A policy that keeps (lag, action) of every decision."""

    def __init__(self, name):
        self.name = name
        self._policy = get_policy(name)
        self.decisions = []

    def decide(self, eta, alpha, contract_breaking):
        action = self._policy.decide(eta, alpha, contract_breaking)
        self.decisions.append((eta, str(action)))
        self.tolerated = alpha
        return action

    @property
    def lags(self):
        return {eta for eta, _ in self.decisions}

    @property
    def actions(self):
        return {action for _, action in self.decisions}


class Growing:
    """Every new rule helps a little, so that there is something to commit in every round."""

    def __init__(self):
        self._numbers = itertools.count()

    async def solve(self, rendered, task):
        await anyio.sleep(1)
        return rendered.count("- rule")

    async def propose(self, rendered, task, output, reward):
        return f"rule {next(self._numbers)}"

    async def reward(self, task, output):
        return min(1.0, output / 100)


def test_a_policy_and_something_for_it_to_judge():
    result = evolve(tasks, reward, agent=agent, staleness_policy=get_policy("reflective"),
           refresh_interval=3)  # <- without this there is no staleness to handle # fmt: skip

    assert result.final_reward == 1.0


def grow(policy, **options):
    world = Growing()
    return evolve(tasks, world.reward, agent=world, staleness_policy=policy,
                  agg_config=BY_VERSION, rounds=10, ledger=MemoryLedger(), **options)  # fmt: skip


def test_in_rounds_nothing_is_stale_by_itself_and_all_policies_agree(virtual_time):
    policies = [Watched(name) for name in ("full", "guarded", "reflective")]

    results = [grow(policy) for policy in policies]

    assert [policy.lags for policy in policies] == [{0}] * 3
    assert [policy.actions for policy in policies] == [{"accept"}] * 3
    assert results[0].history == results[1].history == results[2].history
    assert {result.stale_discarded for result in results} == {0}


@pytest.mark.parametrize(
    ("name", "actions"),
    [
        ("full", {"accept"}),
        ("guarded", {"accept", "rebase", "discard"}),
        ("reflective", {"accept", "rebase"}),
    ],
)
def test_keeping_a_snapshot_for_some_rounds_produces_lag(virtual_time, name, actions):
    policy = Watched(name)

    result = grow(policy, refresh_interval=3)

    assert policy.lags == {0, 1, 2}
    assert policy.actions == actions
    assert sum(info.committed for info in result.history) == 10
    assert (result.stale_discarded > 0) == ("discard" in actions)


@pytest.mark.parametrize(
    ("blast_radius", "tolerated"), [(0.2, 1), (0.30, 1), (0.31, 5), (0.6, 5), (0.9, 5)]
)
def test_an_artifact_of_much_impact_tolerates_more_lag(virtual_time, blast_radius, tolerated):
    policy = Watched("guarded")

    result = grow(policy, refresh_interval=3, blast_radius=blast_radius)

    assert policy.tolerated == tolerated
    assert (result.stale_discarded == 0) == (tolerated == 5)


@pytest.mark.parametrize("name", ["full", "guarded", "reflective"])
def test_the_table_of_policies(name):
    decide = get_policy(name).decide
    beyond = {"full": "accept", "guarded": "discard", "reflective": "rebase"}[name]
    within = "accept" if name == "full" else "rebase"

    assert [decide(eta, 2, False) for eta in range(5)] == [
        "accept",
        within,
        within,
        beyond,
        beyond,
    ]
    assert [decide(eta, 0, True) for eta in range(3)] == ["accept", "discard", "discard"]


def test_an_unknown_policy_is_refused_with_the_known_ones():
    with pytest.raises(ValueError, match=r"unknown staleness policy 'strict'.*full, guarded, refl"):
        get_policy("strict")


@pytest.mark.asyncio
@pytest.mark.looptime(start=0)
async def test_without_barriers_a_larger_lag_budget_means_more_stale_diffs():
    async def stale_share(async_ratio):
        world = Growing()
        result = await async_evolve(
            tasks,
            world.reward,
            agent=world,
            n_workers=4,
            async_ratio=async_ratio,
            max_iters=200,
            max_seconds=math.inf,
            agg_config=BY_VERSION,
            self_verify=False,
            ledger=MemoryLedger(),
        )
        assert result.stop_reason == "max_iters"
        return result.stale_rate()

    near, far = await stale_share(0), await stale_share(8)

    assert near < far


@pytest.mark.asyncio
@pytest.mark.looptime(start=0)
async def test_lag_counts_only_commits_to_the_same_keys_by_default():
    world, policy = Growing(), Watched("guarded")

    result = await async_evolve(
        tasks,
        world.reward,
        agent=world,
        n_workers=8,
        async_ratio=8,
        max_iters=200,
        max_seconds=math.inf,
        staleness_policy=policy,
        ledger=MemoryLedger(),
    )

    assert policy.lags == {0}
    assert result.stale_rate() == 0.0
