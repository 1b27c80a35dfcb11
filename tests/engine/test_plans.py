"""Plans and samplers in rounds: when they are asked, in which order, and what they are told."""

import anyio
import pytest

from agentdescent import DifficultyWeighted, WorkUnit, async_evolve
from agentdescent.ledger import MemoryLedger
from support.toy import HiddenRules


async def in_rounds(world, **options):
    return await async_evolve(
        **world.parts,
        asynchronous=False,
        ledger=MemoryLedger(),
        **options,
    )


class Scripted:
    """Gives the same units every round and notes what it is told."""

    name = "scripted"

    def __init__(self, *units):
        self.units, self.asked, self.told = units, [], []

    def plan(self, n_workers, round_index, keys):
        self.asked.append((n_workers, round_index, tuple(keys)))
        return list(self.units)

    def observe(self, unit, task_id, reward):
        self.told.append((unit.worker, task_id, reward))


@pytest.mark.asyncio
@pytest.mark.looptime(start=0)
async def test_several_units_of_one_worker_run_one_after_another_in_one_round(looptime):
    world = HiddenRules(run_s=1.0)
    plan = Scripted(
        WorkUnit(1, ["t0-3"]), WorkUnit(0, ["t0-0"]), WorkUnit(0, ["t0-1"]), WorkUnit(0, ["t0-2"])
    )

    result = await in_rounds(
        world, parallel=plan, rounds=1, n_workers=2, max_concurrency=2, self_verify=False
    )

    seed_s, three_units_s, gate_s = 1, 3, 1
    assert looptime == seed_s + three_units_s + gate_s
    assert plan.told == [(0, "t0-0", 0.0), (0, "t0-1", 0.0), (0, "t0-2", 0.0), (1, "t0-3", 0.0)]
    assert result.history[0].rollouts == 4
    assert result.final_reward == 1.0


@pytest.mark.asyncio
async def test_rounds_without_work_keep_their_entries_and_warn_once():
    world = HiddenRules()

    with pytest.warns(RuntimeWarning, match="planned no work for round 0") as caught:
        result = await in_rounds(world, parallel=Scripted(), rounds=3)

    assert len(caught) == 1
    assert [info.rollouts for info in result.history] == [0, 0, 0]
    assert result.stop_reason == "rounds"


@pytest.mark.asyncio
async def test_a_unit_without_keys_asks_nobody_to_work():
    world = HiddenRules()

    result = await in_rounds(
        world, parallel=Scripted(WorkUnit(0, []), WorkUnit(1, ["t0-0"])), rounds=2, n_workers=2
    )

    assert result.rollouts == 2


@pytest.mark.asyncio
async def test_plans_and_samplers_may_be_coroutine_functions():
    class Slow(Scripted):
        async def plan(self, n_workers, round_index, keys):
            await anyio.sleep(0)
            return super().plan(n_workers, round_index, keys)

        async def observe(self, unit, task_id, reward):
            await anyio.sleep(0)
            super().observe(unit, task_id, reward)

    class Last:
        def __init__(self):
            self.recorded = []

        async def pick(self, keys, round_index):
            await anyio.sleep(0)
            return keys[-1]

        async def record(self, task_id, score):
            self.recorded.append((task_id, score))

    world, plan, sampler = HiddenRules(), Slow(WorkUnit(0, ["t0-0", "t0-1"])), Last()

    await in_rounds(world, parallel=plan, task_sampler=sampler, rounds=2)

    assert sampler.recorded == [("t0-1", 0.0), ("t0-1", 1.0)]
    assert [task for _, task, _ in plan.told] == ["t0-1", "t0-1"]


@pytest.mark.asyncio
@pytest.mark.looptime(start=0)
async def test_rewards_are_recorded_when_the_round_closes_whatever_finished_first():
    class Watching(DifficultyWeighted):
        def __init__(self):
            super().__init__()
            self.log = []

        def pick(self, keys, round_index):
            self.log.append("pick")
            return super().pick(keys, round_index)

        def record(self, task_id, score):
            self.log.append(task_id)
            super().record(task_id, score)

    class Uneven(HiddenRules):
        async def run(self, rendered, task):
            await anyio.sleep(5 - int(task.id[-1]))
            return await super().run(rendered, task)

    sampler = Watching()
    world = Uneven()

    await in_rounds(
        world, task_sampler=sampler, rounds=2, n_workers=4, max_concurrency=4, self_verify=False
    )

    assert sampler.log == [
        *("pick",) * 4,
        *("t0-0", "t0-1", "t0-2", "t0-3"),
        *("pick",) * 4,
        *("t1-1", "t1-2", "t1-3", "t1-0"),
    ]


@pytest.mark.asyncio
async def test_a_rollout_budget_cuts_a_round_in_the_order_of_workers():
    world = HiddenRules()

    result = await in_rounds(world, rounds=9, n_workers=4, max_rollouts=6)

    assert [info.rollouts for info in result.history] == [4, 6]
    assert result.stop_reason == "max_rollouts"


@pytest.mark.asyncio
@pytest.mark.looptime(start=0)
async def test_workers_keep_their_version_for_refresh_interval_rounds():
    seen = []

    class Noting(HiddenRules):
        async def run(self, rendered, task):
            if task.id.startswith(("t0", "t1", "t2", "t3-0", "t3-1")):
                seen.append((task.id, len(rendered.splitlines())))
            return await super().run(rendered, task)

    world = Noting(rules=4)
    plan = Scripted(WorkUnit(0, ["t0-0"]), WorkUnit(1, ["t0-1"]))

    await in_rounds(
        world,
        parallel=plan,
        refresh_interval=2,
        rounds=3,
        n_workers=2,
        max_concurrency=2,
        self_verify=False,
    )

    assert seen == [("t0-0", 2), ("t0-1", 2), ("t0-0", 2), ("t0-1", 3), ("t0-0", 3), ("t0-1", 3)]
