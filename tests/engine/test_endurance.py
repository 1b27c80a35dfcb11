"""What must end does end, and what may go on does: long outages, odd budgets, hung threads."""

import threading

import anyio
import pytest

from agentdescent import Aggregator
from support.worlds import N_HELD_OUT, PATIENT, Silent, World, barrier_free, in_rounds, solved_by

in_virtual_time = pytest.mark.looptime(start=0)

pytestmark = pytest.mark.asyncio


@in_virtual_time
async def test_a_failed_rollout_is_not_made_up_when_no_call_is_left_for_it():
    class Uneven(World):
        async def run(self, rendered, task):
            if task.id in self.train:
                await anyio.sleep({"rule0": 1, "rule1": 2, "rule2": 0}[task.meta["rule"]])
            return await super().run(rendered, task)

    world = Uneven(failing={"t0-0": 1})

    result = await barrier_free(
        world,
        initial_state=solved_by(2),
        n_workers=3,
        max_iters=3,
        max_calls=N_HELD_OUT + 3,
    )

    assert result.stop_reason == "max_iters"
    assert result.rollouts == 2
    assert len(world.calls) == N_HELD_OUT + 3


@in_virtual_time
@pytest.mark.filterwarnings("ignore:worker w. failed")
async def test_workers_outlive_an_outage_of_two_hours():
    class Outage(World):
        async def run(self, rendered, task):
            output = await super().run(rendered, task)
            if 5 < anyio.current_time() < 7200:
                raise ConnectionError("no answer")
            return output

    result = await barrier_free(Outage(), n_workers=2, max_iters=100)

    assert result.error is None
    assert result.rollouts == 100


@in_virtual_time
@pytest.mark.filterwarnings("ignore:merging failed 3 times")
async def test_the_merger_outlives_an_outage_of_nine_hours(looptime):
    class Down(Aggregator):
        async def step(self):
            raise ConnectionError("the merge model gives no answer")

    result = await in_rounds(Silent(), n_workers=1, rounds=1100, aggregator_factory=Down)

    assert looptime > 9 * 3600
    assert (result.stop_reason, result.error) == ("rounds", None)


@in_virtual_time
@pytest.mark.parametrize("evolve", [in_rounds, barrier_free])
async def test_the_last_merge_keeps_to_the_time_limit_as_well(evolve, looptime):
    class Slow(World):
        async def run(self, rendered, task):
            if "rule0" in rendered and task.id in self.held_out:
                await anyio.sleep(1000)
            return await super().run(rendered, task)

    budget = {"rounds": 3} if evolve is in_rounds else {"max_iters": 12}
    result = await evolve(Slow(), agg_config=PATIENT, max_seconds=50, **budget)

    assert looptime == 50
    assert result.stop_reason == "max_seconds"
    assert (result.version, result.final_reward) == (1, 0.0)


@pytest.mark.leaves_thread
@pytest.mark.filterwarnings("ignore:4 synchronous call")
async def test_a_run_whose_every_thread_hangs_ends_with_the_timeout_as_its_error():
    world, release = World(), threading.Event()

    def run(rendered, task):
        if task.id in world.train:
            release.wait()
        return rendered

    world.run = run
    try:
        with pytest.warns(RuntimeWarning, match="stopped early"):
            result = await in_rounds(world, rounds=50, round_timeout=0.05)
    finally:
        release.set()

    assert result.stop_reason == "error"
    assert result.error.startswith("TimeoutError: ")
    assert (result.rollouts, result.abandoned) == (0, 4)


@pytest.mark.filterwarnings("ignore:parallel planned no work")
async def test_rounds_without_any_work_can_be_cancelled():
    class Nothing:
        name = "nothing"

        def plan(self, n_workers, round_index, keys):
            return []

    with anyio.move_on_after(0.05) as scope:
        await in_rounds(World(), parallel=Nothing(), rounds=10**9)

    assert scope.cancelled_caught
