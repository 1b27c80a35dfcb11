"""A cancellation that user code makes up is an error of that code, never a quiet end."""

import asyncio

import anyio
import pytest

from agentdescent import (
    Aggregator,
    AppendRules,
    BackendError,
    DataParallel,
    PluginError,
    RoundRobin,
)
from agentdescent.core.events import MergeDecided, RunEnded
from support.refusals import broken
from support.worlds import World, in_rounds

pytestmark = [pytest.mark.asyncio, pytest.mark.looptime(start=0)]


async def gives_up(*_):
    await anyio.sleep(0)
    raise asyncio.CancelledError


def gives_up_at_once(*_):
    raise asyncio.CancelledError


either_way = pytest.mark.parametrize("failing", [gives_up, gives_up_at_once])


@pytest.fixture
def evolve_world(evolve_under):
    async def attempt(world=None, **options):
        world = world or World()
        run, propose = options.pop("run", world.run), options.pop("propose", world.propose)
        return await evolve_under(world.tasks, world.reward, run=run, propose=propose, **options)

    return attempt


def own(kind, method, failing):
    return type("Own", (kind,), {method: staticmethod(failing)})


@either_way
@pytest.mark.parametrize(
    ("role", "kind", "method"),
    [
        ("strategy", AppendRules, "to_diff"),
        ("task_sampler", RoundRobin, "pick"),
        ("task_sampler", RoundRobin, "record"),
    ],
)
async def test_a_plugin_that_raises_one_is_broken(evolve_world, role, kind, method, failing):
    error = await broken(PluginError, evolve_world(**{role: own(kind, method, failing)()}))

    name = failing.__name__
    assert str(error).startswith(f"{role} failed in {name}: BackendError: {name} ended with ")


@either_way
async def test_a_plan_that_raises_one_is_broken(failing):
    parallel = own(DataParallel, "plan", failing)()

    error = await broken(PluginError, in_rounds(World(), parallel=parallel))

    assert str(error).startswith(f"parallel failed in {failing.__name__}: BackendError: ")


@either_way
@pytest.mark.parametrize("callback", ["on_round", "on_event"])
async def test_a_callback_that_raises_one_is_reported_and_the_run_goes_on(
    evolve_world, callback, failing
):
    reported = f"raised BackendError: {failing.__name__} ended with CancelledError"
    with pytest.warns(RuntimeWarning, match=reported):
        result = await evolve_world(**{callback: failing})

    assert result.error is None
    assert result.final_reward == 1.0
    assert result.rollouts == 24


async def test_a_merge_that_raises_one_is_tried_again(evolve_world):
    class Gives(Aggregator):
        gave_up = False

        async def step(self):
            if not Gives.gave_up:
                Gives.gave_up = True
                await gives_up()
            return await super().step()

    result = await evolve_world(aggregator_factory=Gives)

    assert result.error is None
    assert result.final_reward == 1.0


@pytest.mark.filterwarnings("ignore:the run stopped early")
@pytest.mark.parametrize("where", ["train", "held_out"])
async def test_a_call_that_cancels_the_task_it_is_in_ends_the_run_with_an_error(
    evolve_world, where
):
    world = World()

    async def run(rendered, task):
        if task.id in getattr(world, where) and len(world.calls) >= 9:
            asyncio.current_task().cancel()
        return await world.run(rendered, task)

    result = await evolve_world(world, run=run)

    assert result.stop_reason == "error"
    assert result.error.startswith("BackendError: a task of the run was cancelled by the code ")


async def test_a_listener_that_cancels_the_task_it_is_in_ends_the_run_with_an_error(evolve_world):
    cancelled, told = [], []

    async def listen(event):
        if isinstance(event, MergeDecided) and not cancelled:
            cancelled.append(event)
            asyncio.current_task().cancel()
            await anyio.sleep(0)

    def note(event):
        told.append(event)

    with pytest.raises(BackendError, match="a task of the run was cancelled"):
        await evolve_world(on_event=[listen, note])

    assert [e.result.stop_reason for e in told if isinstance(e, RunEnded)] == ["interrupted"]
