"""Without barriers: `evolve(asynchronous=True)` and `await async_evolve(...)`."""

import warnings

import anyio
import pytest

from agentdescent import (
    Aggregator,
    AppendRules,
    DataParallel,
    LLMAgent,
    async_evolve,
    evolve,
    get_policy,
)
from agentdescent.ledger import MemoryLedger
from support import pens
from support.pens import Plain, agent, claude, reward, tasks


def test_all_blocks_together():
    result = evolve(
        tasks, reward,
        agent=LLMAgent(claude(model="claude-haiku-4-5")),   # 1. actor       (agents)
        strategy=AppendRules(),                              # 2. rule        (strategy)
        parallel=DataParallel(),                             # 3. parallelism (parallel)
        blast_radius=0.2,                                    # 4. governance  (L2)
        rounds=6, n_workers=4,
    )  # fmt: skip

    assert result.final_reward == 1.0
    assert len(result.history) == 6


def test_one_argument_removes_the_barrier():
    result = evolve(tasks, reward, agent=agent, asynchronous=True, async_ratio=3, max_seconds=30)

    assert result.final_reward == 1.0
    assert result.stop_reason == "max_iters"
    assert result.rollouts == 15 * 4


@pytest.mark.asyncio
async def test_the_coroutine_takes_the_same_plugins():
    result = await async_evolve(tasks, reward, agent=agent,
                          n_workers=4, async_ratio=3, max_seconds=30, max_iters=60,
                          staleness_policy=get_policy("reflective"))  # fmt: skip

    assert result.final_reward == 1.0


@pytest.mark.asyncio
async def test_both_doors_reach_both_schedules():
    in_rounds = await async_evolve(tasks, reward, agent=agent, asynchronous=False, rounds=2)

    assert [info.round for info in in_rounds.history] == [0, 1]
    assert in_rounds.stop_reason == "rounds"


@pytest.mark.asyncio
@pytest.mark.looptime(start=0)
async def test_workers_never_wait_for_the_merge():
    begun = []

    async def run(rendered, task):
        if int(task.id) <= 12:
            begun.append(anyio.current_time())
        await anyio.sleep(1 if int(task.id) <= 12 else 50)
        return pens.answer(rendered, task.prompt)

    async def propose(rendered, task, output, reward):
        return pens.RULE

    await async_evolve(tasks, reward, run=run, propose=propose, n_workers=1, async_ratio=3,
                       self_verify=False, max_seconds=120, ledger=MemoryLedger())  # fmt: skip

    first_artifact = 50.0
    assert begun[:5] == [first_artifact + seconds for seconds in (0, 1, 2, 3, 4)]


class TestArgumentsThatChangeTheirMeaning:
    @pytest.mark.parametrize(
        ("name", "value"),
        [
            ("parallel", DataParallel()),
            ("max_concurrency", 4),
            ("round_timeout", 300),
            ("refresh_interval", 3),
        ],
    )
    def test_what_belongs_to_rounds_is_ignored_with_a_warning(self, name, value):
        with pytest.warns(RuntimeWarning, match=f"ignores {name}=") as caught:
            result = evolve(tasks, reward, agent=agent, asynchronous=True, max_seconds=30,
                            **{name: value})  # fmt: skip

        assert len(caught) == 1
        assert result.warnings == [str(caught[0].message)]
        assert result.final_reward == 1.0

    def test_rounds_become_a_budget_of_rollouts(self):
        with pytest.warns(RuntimeWarning, match="reinterpreted as a budget of 40 rollouts"):
            result = evolve(tasks, reward, agent=agent, asynchronous=True, max_seconds=30,
                            rounds=10)  # fmt: skip

        assert result.rollouts == 40
        assert result.stop_reason == "max_iters"

    def test_a_call_that_says_what_it_means_is_silent(self):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            evolve(tasks, reward, agent=agent, asynchronous=True, max_seconds=30, max_iters=20)

        assert [w for w in caught if issubclass(w.category, RuntimeWarning)] == []


class TestRecipes:
    def test_1_workers_of_a_round_overlap_and_the_aggregator_is_the_barrier(self):
        result = evolve(tasks, reward, agent=agent, n_workers=8, max_concurrency=8, rounds=10)

        assert len(result.history) == 10
        assert result.rollouts == 80
        assert result.final_reward == 1.0

    def test_2_run_for_twenty_minutes_and_keep_the_best_head_so_far(self, virtual_time):
        class Slow(Plain):
            async def solve(self, rendered, task):
                await anyio.sleep(100)
                return await super().solve(rendered, task)

        slow = Slow()

        result = evolve(tasks, slow.reward, agent=slow, asynchronous=True, async_ratio=3,
                        max_seconds=1200, ledger=MemoryLedger())  # fmt: skip

        assert result.stop_reason == "max_seconds"
        assert result.wallclock == pytest.approx(1200)
        assert result.final_reward == max(info.held_out_reward for info in result.history) == 1.0

    @pytest.mark.asyncio
    async def test_3_stop_as_soon_as_held_out_reward_crosses_a_bar(self):
        result = await async_evolve(tasks, reward, agent=agent, n_workers=6, target_reward=0.85)

        assert result.stop_reason == "target_reward"
        assert result.history[-1].held_out_reward == result.final_reward == 1.0

    @pytest.mark.asyncio
    async def test_4_cap_rollouts_instead_of_seconds(self):
        result = await async_evolve(tasks, reward, agent=agent, n_workers=4, max_iters=200)

        assert result.stop_reason == "max_iters"
        assert result.rollouts == 200

    @pytest.mark.filterwarnings("ignore:max_seconds=None becomes 20")
    def test_5_skip_the_re_run_of_each_trajectory(self):
        plain, strat, factory = Plain(), AppendRules(), Aggregator
        trained = []

        async def run(rendered, task):
            trained.extend([task.id] if int(task.id) <= 12 else [])
            return await plain.solve(rendered, task)

        async def propose(rendered, task, output, reward):
            return await plain.propose(rendered, task, output, reward)

        result = evolve(tasks, plain.reward, run=run, propose=propose, strategy=strat,
               aggregator_factory=factory, asynchronous=True, self_verify=False)  # fmt: skip

        assert result.final_reward == 1.0
        assert len(trained) == result.rollouts == 60

    @pytest.mark.asyncio
    async def test_6_a_large_lag_budget_and_reflective_verification(self):
        result = await async_evolve(tasks, reward, agent=agent, n_workers=8, async_ratio=8,
                     staleness_policy=get_policy("reflective"), max_iters=200)  # fmt: skip

        assert result.final_reward == 1.0
        assert result.rollouts == 200
