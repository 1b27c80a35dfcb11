"""What a sampler is told in a run: rewards, commits, and picks that came to nothing."""

import anyio
import pytest

from agentdescent import RoundRobin, WorkUnit
from support.toy import HiddenRules
from support.worlds import World, barrier_free, in_rounds

pytestmark = [pytest.mark.asyncio, pytest.mark.looptime(start=0)]


class Listening(RoundRobin):
    """Takes tasks in turn and keeps what it is told, in order."""

    def __init__(self):
        self.__dict__["log"] = []

    def pick(self, keys, round_index):
        name = super().pick(keys, round_index)
        self.log.append(f"pick {name}")
        return name

    def record(self, task_id, score):
        self.log.append(f"{task_id} {score}")

    def note_lost(self, task_id):
        self.log.append(f"lost {task_id}")

    async def note_commit(self):
        await anyio.sleep(0)
        self.log.append("commit")


@pytest.mark.parametrize("run_under", [in_rounds, barrier_free])
async def test_every_commit_is_told_once_and_before_the_next_pick(run_under):
    sampler = Listening()

    result = await run_under(
        World(rules=2, per_rule=6), task_sampler=sampler, n_workers=1, max_rollouts=8
    )

    commits = [at for at, what in enumerate(sampler.log) if what == "commit"]
    assert len(commits) == result.version - 1 == 2
    assert all(sampler.log[at + 1].startswith("pick") for at in commits)


@pytest.mark.parametrize("run_under", [in_rounds, barrier_free])
async def test_a_rollout_that_failed_is_told_as_lost(run_under):
    sampler = Listening()
    world = World(rules=2, per_rule=6, failing={"t0-0": 1})

    await run_under(world, task_sampler=sampler, n_workers=1, max_rollouts=7)

    assert sampler.log[:2] == ["pick t0-0", "lost t0-0"]
    assert sampler.log.count("lost t0-0") == 1


async def test_a_pick_that_was_not_paid_for_is_told_as_lost():
    sampler = Listening()
    world = World(rules=2, per_rule=6, failing={"t0-0": 1})

    await in_rounds(world, task_sampler=sampler, n_workers=2, max_rollouts=2, rounds=9)

    assert sampler.log[:4] == ["pick t0-0", "pick t0-1", "lost t0-0", "t0-1 0.0"]
    first, second = (what.removeprefix("pick ") for what in sampler.log[5:7])
    assert sampler.log[7:9] == [f"lost {second}", f"{first} 1.0"]


async def test_a_unit_behind_a_straggler_is_told_as_lost():
    class Hanging(HiddenRules):
        async def run(self, rendered, task):
            if task.id == "t0-0":
                await anyio.sleep_forever()
            return rendered

    class Two:
        name = "two"

        def plan(self, n_workers, round_index, keys):
            return [WorkUnit(0, ["t0-0"]), WorkUnit(0, ["t0-1"])]

    sampler = Listening()
    await in_rounds(
        Hanging(), parallel=Two(), task_sampler=sampler, n_workers=1, round_timeout=3, rounds=2
    )

    assert sampler.log[:2] == ["pick t0-0", "pick t0-1"]
    assert sampler.log[2] == "lost t0-1"
    assert "lost t0-0" in sampler.log
