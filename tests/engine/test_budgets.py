"""What a run may spend, exactly, and what is still merged when it is spent."""

import math

import anyio
import pytest

from agentdescent import EvolutionResult, StopReason, async_evolve
from agentdescent.core.events import Committed
from agentdescent.ledger import MemoryLedger
from support.toy import final_rules
from support.worlds import (
    N_HELD_OUT,
    N_TRAIN,
    PATIENT,
    Silent,
    World,
    barrier_free,
    in_rounds,
    solved_by,
)

pytestmark = [pytest.mark.asyncio, pytest.mark.looptime(start=0)]


class TestRollouts:
    @pytest.mark.parametrize("budget", [1, 6, 10])
    async def test_exactly_as_many_are_measured(self, evolve_world, schedule, budget):
        world = World()

        result = await evolve_world(world, rounds=99, max_rollouts=budget)

        assert result.stop_reason == ("max_rollouts" if schedule == "rounds" else "max_iters")
        assert result.rollouts == budget

    async def test_max_iters_is_the_same_budget(self, evolve_world, schedule):
        result = await evolve_world(World(), max_iters=7, max_rollouts=7, rounds=99)

        assert result.stop_reason == ("max_rollouts" if schedule == "rounds" else "max_iters")
        assert result.rollouts == 7

    async def test_a_failed_rollout_gives_its_own_back(self, evolve_world):
        world = World(failing={"t0-0": 1, "t0-1": 1, "t0-2": 1})

        result = await evolve_world(world, max_rollouts=40, rounds=99, self_verify=False)

        assert set(world.failing.values()) == {0}
        assert result.rollouts == 40
        assert sum(name in world.train for _, name in world.seen) == 40 + 3

    async def test_the_last_one_is_not_cut_short(self, evolve_world):
        result = await evolve_world(World(rules=1, per_rule=12), max_rollouts=1, rounds=99)

        assert result.final_reward == 1.0

    async def test_rounds_without_a_limit_are_fifteen(self):
        result = await in_rounds(World())

        assert result.stop_reason == "rounds"
        assert (len(result.history), result.rollouts) == (15, 60)

    async def test_rounds_are_counted_exactly(self):
        result = await in_rounds(World(), rounds=5)

        assert [info.round for info in result.history] == [0, 1, 2, 3, 4]

    async def test_without_barriers_there_is_no_rollout_budget(self, looptime):
        result = await barrier_free(World(), max_seconds=30.0)

        assert result.stop_reason == "max_seconds"
        assert result.rollouts > 15 * 4

    async def test_without_barriers_rounds_are_a_budget_of_rollouts(self):
        with pytest.warns(RuntimeWarning, match="reinterpreted as a budget of 12 rollouts"):
            result = await barrier_free(World(), rounds=3)

        assert result.stop_reason == "max_iters"
        assert result.rollouts == 12


class TestCalls:
    @pytest.mark.parametrize("n_workers", [1, 4, 16])
    @pytest.mark.parametrize("budget", [10, 11, 25, 40, 63])
    async def test_exactly_as_many_are_made(self, evolve_world, n_workers, budget):
        world = World()

        result = await evolve_world(world, max_calls=budget, n_workers=n_workers, rounds=500)

        assert result.stop_reason == "max_calls"
        assert len(world.calls) == budget
        assert result.actor_calls == budget
        assert result.error is None

    @pytest.mark.parametrize("n_workers", [1, 4, 16])
    async def test_nothing_is_committed_without_being_measured(self, evolve_world, n_workers):
        world, commits = World(), []

        def note(event):
            if isinstance(event, Committed):
                commits.append(len(world.calls))

        result = await evolve_world(
            world, max_calls=60, n_workers=n_workers, rounds=500, on_event=note
        )

        assert result.version == 1 + len(commits)
        tried = {name for rendered, name in world.seen if rendered == result.rendered}
        assert tried >= world.held_out
        rules = final_rules(result.rendered)
        deserved = [task for task in world.tasks[N_TRAIN:] if task.meta["rule"] in rules]
        assert result.final_reward == len(deserved) / N_HELD_OUT

    async def test_a_budget_for_the_first_artifact_alone_measures_it(self, evolve_world):
        world = World()

        result = await evolve_world(world, max_calls=N_HELD_OUT, initial_state=solved_by(1))

        assert (result.initial_reward, result.final_reward) == (0.2, 0.2)
        assert (result.rollouts, result.stop_reason) == (0, "max_calls")
        assert {name for _, name in world.seen} == world.held_out

    async def test_the_cheaper_budget_decides(self, evolve_world, schedule):
        result = await evolve_world(World(), max_calls=500, max_rollouts=3, rounds=99)

        assert result.stop_reason == ("max_rollouts" if schedule == "rounds" else "max_iters")


class TestSeconds:
    @pytest.mark.parametrize("limit", [0.25, 1.0, 7.77])
    async def test_the_run_ends_then(self, evolve_world, looptime, limit):
        result = await evolve_world(Silent(), max_seconds=limit, rounds=10**6)

        assert result.stop_reason == "max_seconds"
        assert looptime == limit
        assert result.wallclock == pytest.approx(limit)
        assert result.error is None

    async def test_what_is_under_way_is_cancelled_and_cleaned_up(self, evolve_world, looptime):
        ended = []

        async def run(rendered, task):
            try:
                await anyio.sleep(3 if "t5" in task.id or "t4" in task.id else 100)
            finally:
                ended.append(task.id)
            return rendered

        world = World()
        world.run = run

        result = await evolve_world(world, max_seconds=50, held_out_frac=1 / 3)

        assert looptime == 50
        assert result.stop_reason == "max_seconds"
        assert len(ended) == 8 + 4

    async def test_nothing_is_merged_afterwards(self, evolve_world):

        result = await evolve_world(World(), max_seconds=3, agg_config=PATIENT, rounds=10**6)

        assert result.stop_reason == "max_seconds"
        assert result.version == 1
        assert result.final_reward == result.initial_reward == 0.0

    async def test_a_first_artifact_that_takes_longer_is_not_measured(self, evolve_world, looptime):
        with pytest.warns(RuntimeWarning, match="could not be measured"):
            result = await evolve_world(World(), max_seconds=0.05)

        assert result.stop_reason == "max_seconds"
        assert (result.initial_reward, result.history, result.rollouts) == (None, [], 0)

    async def test_infinity_is_no_limit(self, evolve_world, schedule):
        result = await evolve_world(World(), max_seconds=math.inf, rounds=300)

        assert result.stop_reason == ("rounds" if schedule == "rounds" else "max_iters")
        assert result.rollouts == 1200

    async def test_rounds_have_no_limit_by_themselves(self, looptime):
        result = await in_rounds(Silent(), rounds=300, max_concurrency=1)

        assert looptime > 100
        assert result.stop_reason == "rounds"

    async def test_without_barriers_the_limit_is_twenty(self, looptime):
        world = World()

        result = await async_evolve(**world.parts, ledger=MemoryLedger())

        assert looptime == 20
        assert result.stop_reason == "max_seconds"


class TestFlush:
    async def test_what_waits_after_the_last_round_is_merged_into_its_entry(self, evolve_world):
        told = []

        result = await evolve_world(World(), agg_config=PATIENT, rounds=3, on_round=told.append)

        assert len(result.history) == len(told)
        assert sum(info.committed for info in told) == 0
        assert result.history[-1].committed == 1
        assert result.history[-1].reasons["committed"] == 1
        assert result.history[:-1] == told[:-1]
        assert result.history[-1].held_out_reward == result.final_reward == 1.0
        assert result.history[-1].n_items == 4

    async def test_rounds_stay_exactly_as_many_as_asked_for(self):

        result = await in_rounds(World(), agg_config=PATIENT, rounds=5)

        assert len(result.history) == 5
        assert result.final_reward == 1.0

    @pytest.mark.parametrize(
        ("options", "reason"), [({"patience": 2}, "patience"), ({"max_rollouts": 8}, "max_")]
    )
    async def test_it_follows_every_ending_that_leaves_a_budget(
        self, evolve_world, options, reason
    ):

        result = await evolve_world(World(), agg_config=PATIENT, rounds=99, **options)

        assert result.stop_reason.startswith(reason)
        assert result.final_reward > result.initial_reward
        assert result.version == 2

    async def test_a_spent_call_budget_leaves_what_waits_unmerged(self, evolve_world):

        result = await evolve_world(World(), agg_config=PATIENT, rounds=99, max_calls=40)

        assert result.stop_reason == "max_calls"
        assert result.version == 1


async def test_a_result_of_any_ending_survives_being_saved(evolve_world, tmp_path):
    endings = [
        {"target_reward": 1.0},
        {"patience": 1},
        {"stop_when_solved": True},
        {"max_seconds": 2.0},
        {"max_rollouts": 3},
        {"max_calls": 33},
    ]
    for options in endings:
        result = await evolve_world(World(), rounds=200, **options)
        result.save(tmp_path / "result.json")
        loaded = EvolutionResult.load(tmp_path / "result.json")

        assert loaded == result
        assert loaded.stop_reason in StopReason
        assert loaded.stop_reason == str(result.stop_reason)
