import anyio
import pytest

from agentdescent.core.task import Task
from agentdescent.testing import Call, FakeActor, FakeCompletion

pytestmark = pytest.mark.asyncio

ONE, TWO = Task("1", "one"), Task("2", "two")


async def test_each_task_goes_through_its_own_rewards_and_stays_at_the_last():
    actor = FakeActor(rewards={"1": [0.0, 0.5], "2": [1.0]})

    earned = [actor.reward(task, await actor.solve("", task)) for task in (ONE, TWO, ONE, ONE, TWO)]

    assert earned == [0.0, 1.0, 0.5, 0.5, 1.0]


async def test_each_task_goes_through_its_own_proposals():
    actor = FakeActor(proposals={"1": ["be brief", None]})

    said = [await actor.propose("", task, "", 0.0) for task in (ONE, TWO, ONE)]

    assert said == ["be brief", None, None]


async def test_without_a_script_nothing_is_earned():
    assert await FakeActor().solve("", ONE) == 0.0


async def test_a_script_may_be_a_function_of_artifact_and_task():
    actor = FakeActor(
        rewards=lambda rendered, task: float(task.prompt in rendered),
        proposals=lambda rendered, task: f"know {task.prompt}",
    )

    assert await actor.solve("one", ONE) == 1.0
    assert await actor.solve("one", TWO) == 0.0
    assert await actor.propose("one", TWO, "", 0.0) == "know two"


async def test_an_exception_in_a_script_is_raised_in_its_turn():
    actor = FakeActor(rewards={"1": [TimeoutError("slow"), 1.0]})

    with pytest.raises(TimeoutError, match="slow"):
        await actor.solve("", ONE)
    assert await actor.solve("", ONE) == 1.0


async def test_it_remembers_its_calls():
    actor = FakeActor()
    await actor.solve("artifact", ONE)
    await actor.propose("artifact", ONE, "output", 0.25)

    assert actor.calls == [
        Call("solve", "artifact", ONE),
        Call("propose", "artifact", ONE, "output", 0.25),
    ]


@pytest.mark.looptime(start=0)
async def test_calls_take_their_latency_side_by_side(looptime):
    actor = FakeActor(latency=3)

    async with anyio.create_task_group() as tg:
        for task in (ONE, TWO, ONE):
            tg.start_soon(actor.solve, "", task)
        await anyio.sleep(1)
        assert actor.running == 3
    await actor.solve("", ONE)

    assert looptime == 6
    assert (actor.running, actor.peak) == (0, 3)


@pytest.mark.looptime(start=0)
async def test_a_cancelled_call_no_longer_runs(looptime):
    actor = FakeActor(latency=3)

    with anyio.move_on_after(1):
        await actor.solve("", ONE)

    assert looptime == 1
    assert actor.running == 0


@pytest.mark.looptime(start=0)
async def test_a_completion_gives_its_replies_and_remembers_the_prompts(looptime):
    complete = FakeCompletion(["first", TimeoutError("slow"), "last"], latency=2)

    assert await complete("a") == "first"
    with pytest.raises(TimeoutError, match="slow"):
        await complete("b")
    assert [await complete("c"), await complete("d")] == ["last", "last"]
    assert complete.prompts == ["a", "b", "c", "d"]
    assert looptime == 8


async def test_a_completion_may_compute_its_replies():
    assert await FakeCompletion(str.upper)("prompt") == "PROMPT"
