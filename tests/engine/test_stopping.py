"""Why a run ends: target, patience, nothing left to learn."""

import anyio
import pytest

from agentdescent import WorkUnit
from support.toy import final_rules
from support.worlds import (
    N_HELD_OUT,
    N_TRAIN,
    PATIENT,
    Moody,
    Often,
    Silent,
    Useless,
    World,
    barrier_free,
    in_rounds,
    solved_by,
)

pytestmark = [pytest.mark.asyncio, pytest.mark.looptime(start=0)]


class TestTarget:
    async def test_a_first_artifact_that_meets_it_is_returned_untouched(self, evolve_world):
        world = World()

        result = await evolve_world(world, initial_state=solved_by(0, 1, 2, 3), target_reward=1.0)

        assert result.stop_reason == "target_reward"
        assert (result.history, result.rollouts, result.version) == ([], 0, 1)
        assert (result.initial_reward, result.final_reward) == (1.0, 1.0)
        assert result.actor_calls == len(world.calls) == N_HELD_OUT

    async def test_it_ends_the_run_with_the_merge_that_meets_it(self, evolve_world):
        result = await evolve_world(World(), rounds=50, target_reward=1.0)

        assert result.stop_reason == "target_reward"
        assert [info.held_out_reward >= 1.0 for info in result.history[:-1]] == [False] * (
            len(result.history) - 1
        )
        assert result.history[-1].held_out_reward == result.final_reward == 1.0

    async def test_equal_is_enough(self, evolve_world):
        result = await evolve_world(World(), initial_state=solved_by(0), target_reward=0.2)

        assert result.initial_reward == 0.2
        assert result.history == []

    async def test_it_is_looked_at_before_patience(self, evolve_world):
        world = World()

        result = await evolve_world(world, target_reward=0.0, patience=1)

        assert result.stop_reason == "target_reward"

    async def test_a_target_out_of_reach_costs_the_budget(self, evolve_world, schedule):
        result = await evolve_world(Silent(), target_reward=1.0, rounds=5)

        assert result.stop_reason == ("rounds" if schedule == "rounds" else "max_iters")
        assert result.rollouts == 20


class TestPatience:
    @pytest.mark.parametrize("patience", [1, 2, 5])
    async def test_rounds_are_counted_from_the_first_artifact_on(self, patience):
        world = Silent()

        result = await in_rounds(world, rounds=50, patience=patience)

        assert result.stop_reason == "patience"
        assert len(result.history) == patience

    @pytest.mark.parametrize("patience", [1, 2])
    async def test_without_barriers_a_pass_without_proposals_counts_as_one(self, patience):
        world = Silent()

        result = await barrier_free(world, patience=patience, n_workers=1)

        assert result.stop_reason == "patience"
        assert result.rollouts == patience * N_TRAIN
        assert result.history == []

    async def test_without_barriers_a_proposal_that_did_not_help_counts_as_none(self):
        world = Useless()

        result = await barrier_free(world, patience=1, n_workers=1)

        assert result.stop_reason == "patience"
        assert result.rollouts == N_TRAIN
        assert result.outcomes() == {"no-gain": N_TRAIN}

    async def test_without_barriers_a_sweep_without_improvement_counts(self):
        world = Useless()

        result = await barrier_free(world, patience=3, self_verify=False)

        assert result.stop_reason == "patience"
        assert len(result.history) == 3
        assert {info.held_out_reward for info in result.history} == {0.0}

    async def test_an_improvement_begins_the_count_anew(self):
        late = World(rules=4)
        quiet = iter([True, True, False, True, True, True, True])

        async def propose(rendered, task, output, reward):
            return None if next(quiet, True) else task.meta["rule"]

        result = await in_rounds(late, propose=propose, n_workers=1, rounds=50, patience=3)

        assert [info.committed for info in result.history] == [0, 0, 1, 0, 0, 0]
        assert result.stop_reason == "patience"

    async def test_a_converged_run_is_noticed_under_both_schedules(self, evolve_world):
        result = await evolve_world(World(), rounds=500, patience=2)

        assert result.stop_reason == "patience"
        assert result.final_reward == 1.0
        assert result.rollouts < 100


class TestNothingToLearn:
    @pytest.mark.parametrize("n_workers", [1, 4])
    async def test_every_training_task_was_solved_by_the_final_artifact(
        self, evolve_world, n_workers
    ):
        world = World()

        result = await evolve_world(
            world,
            initial_state=solved_by(0),
            stop_when_solved=True,
            n_workers=n_workers,
            rounds=500,
        )

        assert result.stop_reason == "nothing_to_learn"
        assert final_rules(result.rendered) == ["rule0", "rule1", "rule2", "rule3"]
        tried = {name for rendered, name in world.seen if rendered == result.rendered}
        assert tried >= world.train

    async def test_a_commit_puts_every_task_in_question_again(self, evolve_world):
        class NeverAgain:
            """Picks what has not been solved yet."""

            def __init__(self):
                self.solved = set()

            def pick(self, keys, round_index):
                return next((key for key in keys if key not in self.solved), keys[-1])

            def record(self, task_id, score):
                self.solved |= {task_id} if score == 1.0 else set()

        world = World()

        result = await evolve_world(
            world,
            initial_state=solved_by(0),
            stop_when_solved=True,
            task_sampler=NeverAgain(),
            n_workers=1,
            rounds=60,
        )

        assert result.final_reward == 1.0
        assert result.rollouts == 60

    async def test_what_an_older_artifact_solved_does_not_count(self):
        class Slow(World):
            async def run(self, rendered, task):
                if task.id == "t0-0" and not self.seen_by(task):
                    await anyio.sleep(30)
                return await super().run(rendered, task)

            def seen_by(self, task):
                return sum(call.endswith(task.id) for call in self.calls) > 0

        world = Slow()

        result = await barrier_free(
            world, initial_state=solved_by(0), stop_when_solved=True, max_seconds=999
        )

        assert result.stop_reason == "nothing_to_learn"
        assert (result.rendered, "t0-0") in world.seen

    async def test_evidence_that_is_being_judged_keeps_the_run_going(self, looptime):
        class Laborious(Moody):
            async def run(self, rendered, task):
                if task.id in self.held_out and len(self.seen) >= N_HELD_OUT:
                    await anyio.sleep(100)
                return await super().run(rendered, task)

            async def reward(self, task, output):
                if task.id in self.held_out:
                    return 0.5
                return await super().reward(task, output)

        world = Laborious()

        result = await barrier_free(
            world,
            initial_state=solved_by(0, 1, 2, 3),
            stop_when_solved=True,
            self_verify=False,
            max_seconds=999,
        )

        assert result.stop_reason == "nothing_to_learn"
        assert looptime > 100
        assert result.history[0].reasons == {"below-threshold": 1}

    async def test_not_a_rollout_more_than_one_pass_over_what_was_solved_already(
        self, evolve_world
    ):
        world = World()

        result = await evolve_world(
            world,
            initial_state=solved_by(0, 1, 2, 3),
            stop_when_solved=True,
            n_workers=1,
            rounds=99,
        )

        assert result.stop_reason == "nothing_to_learn"
        assert result.rollouts == N_TRAIN
        assert result.actor_calls == N_HELD_OUT + N_TRAIN

    async def test_without_the_option_the_budget_is_spent(self, evolve_world, schedule):
        world = World()

        result = await evolve_world(world, initial_state=solved_by(0, 1, 2, 3), rounds=10)

        assert result.stop_reason == ("rounds" if schedule == "rounds" else "max_iters")
        assert result.rollouts == 40

    async def test_one_unsolved_task_keeps_the_run_going(self, evolve_world, schedule):
        world = Silent()

        result = await evolve_world(
            world, initial_state=solved_by(0, 1, 2), stop_when_solved=True, rounds=10
        )

        assert result.stop_reason == ("rounds" if schedule == "rounds" else "max_iters")

    async def test_a_task_that_fails_is_not_solved(self, evolve_world, schedule):
        world = World(failing={"t0-0": 10**6})

        result = await evolve_world(
            world, initial_state=solved_by(0, 1, 2, 3), stop_when_solved=True, rounds=10
        )

        assert result.stop_reason == ("rounds" if schedule == "rounds" else "max_iters")
        assert result.error is None

    async def test_a_task_that_is_solved_no_more_does_not_count(self, evolve_world):
        world = Moody()

        result = await evolve_world(
            world,
            propose=Silent.propose.__get__(world),
            initial_state=solved_by(0, 1, 2, 3),
            stop_when_solved=True,
            task_sampler=Often("t0-0"),
            n_workers=1,
            rounds=100,
        )

        trials = [name for _, name in world.seen if name in world.train]
        assert result.stop_reason == "nothing_to_learn"
        assert set(trials[:-1]) == world.train
        assert trials[-1] == "t0-0"
        assert trials.count("t0-0") % 2 == 0

    async def test_a_task_that_no_unit_offers_is_not_solved(self):
        class Partial:
            name = "partial"

            def plan(self, n_workers, round_index, keys):
                return [WorkUnit(0, keys[:-1])]

        result = await in_rounds(
            World(),
            initial_state=solved_by(0, 1, 2, 3),
            parallel=Partial(),
            stop_when_solved=True,
            rounds=40,
        )

        assert result.stop_reason == "rounds"

    async def test_evidence_that_waits_keeps_the_run_going(self, evolve_world, schedule):
        world = Moody()

        result = await evolve_world(
            world,
            initial_state=solved_by(0, 1, 2, 3),
            stop_when_solved=True,
            self_verify=False,
            agg_config=PATIENT,
            rounds=50,
            n_workers=1,
        )

        assert result.stop_reason == ("rounds" if schedule == "rounds" else "max_iters")


class TestUnmeasurableFirstArtifact:
    async def test_the_run_goes_on_without_an_initial_reward(self, evolve_world):
        world = World(failing={"t5-3": 3})

        result = await evolve_world(world, rounds=6)

        assert result.initial_reward is None
        assert result.final_reward == 1.0
        assert result.error is None

    async def test_it_is_tried_three_times(self, evolve_world):
        world = World(failing={"t5-3": 2})

        result = await evolve_world(world, rounds=1)

        assert result.initial_reward == 0.0
        assert world.failing["t5-3"] == 0

    async def test_the_first_merge_is_then_the_first_observation(self):
        world = Silent(failing={"t5-3": 3})

        result = await in_rounds(world, rounds=50, patience=2)

        assert result.initial_reward is None
        assert len(result.history) == 3
