import asyncio

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentdescent.agents.providers.limiter import EndpointLimiter, Window
from agentdescent.calls import Stage


def test_limit_grows_by_one_per_limit_successes_in_a_row():
    window = Window(3)

    limits = [window.succeed(1.0) or window.limit for _ in range(12)]

    assert limits == [3, 3, 4, 4, 4, 4, 5, 5, 5, 5, 5, 6]


def test_refusals_of_one_latency_halve_the_limit_once():
    window = Window(32)
    window.succeed(2.0)

    window.refuse(began=10.0, now=10.1)
    window.refuse(began=10.0, now=10.2)
    window.refuse(began=10.5, now=12.0)
    assert window.limit == 16

    window.refuse(began=12.0, now=12.2)
    assert window.limit == 8


def test_refusal_of_what_began_before_the_last_halving_is_old_news():
    window = Window(32)
    window.succeed(0.1)

    window.refuse(began=0.0, now=1.0)
    window.refuse(began=0.9, now=2.0)

    assert window.limit == 16


def test_refusal_breaks_a_row_of_successes():
    window = Window(2)
    window.succeed(1.0)
    window.refuse(began=0.0, now=1.0)
    assert window.limit == 1

    window.succeed(1.0)
    assert window.limit == 2


def test_latency_is_that_of_the_first_refusal_until_there_is_a_success():
    window = Window()
    window.refuse(began=1.0, now=1.5)
    assert window.latency == 0.5

    window.succeed(1.0)
    assert window.latency == pytest.approx(0.6)


@given(st.lists(st.tuples(st.booleans(), st.floats(0, 100), st.floats(0.001, 10))))
def test_limit_is_always_at_least_one_and_moves_by_one_or_by_half(events):
    window, now = Window(), 0.0
    for is_good, pause, latency in events:
        now += pause
        before = window.limit
        if is_good:
            window.succeed(latency)
            assert window.limit in {before, before + 1}
        else:
            window.refuse(now - latency, now)
            assert window.limit in {before, max(1, before // 2)}


async def hold(limiter, stage, seconds, log, name):
    async with limiter.turn(stage):
        log.append((name, anyio.current_time()))
        await anyio.sleep(seconds)


def narrow(limit):
    limiter = EndpointLimiter()
    limiter.window = Window(limit)
    return limiter


@pytest.mark.asyncio
@pytest.mark.looptime(start=0)
async def test_queues_of_gates_and_rollouts_are_served_alternately():
    limiter, log = narrow(1), []

    async with anyio.create_task_group() as group:
        for name in ("r1", "r2", "r3", "r4"):
            group.start_soon(hold, limiter, Stage.ROLLOUT, 1, log, name)
        await anyio.sleep(0.5)
        for name in ("g1", "g2"):
            group.start_soon(hold, limiter, Stage.GATE, 1, log, name)

    assert log == [("r1", 0), ("r2", 1), ("g1", 2), ("r3", 3), ("g2", 4), ("r4", 5)]


@pytest.mark.asyncio
@pytest.mark.looptime(start=0)
async def test_a_pause_holds_for_everyone_and_may_grow():
    limiter, log = narrow(2), []

    async with anyio.create_task_group() as group:
        limiter.pause(3)
        for name in ("a", "b", "c"):
            group.start_soon(hold, limiter, Stage.GATE, 1, log, name)
        await anyio.sleep(1)
        limiter.pause(4)
        limiter.pause(1)

    assert log == [("a", 5), ("b", 5), ("c", 6)]


@pytest.mark.asyncio
@pytest.mark.looptime(start=0)
async def test_who_is_cancelled_gives_the_turn_to_the_next():
    limiter, log = narrow(1), []

    async with anyio.create_task_group() as group:
        group.start_soon(hold, limiter, Stage.GATE, 2, log, "first")
        await anyio.sleep(1)
        with anyio.move_on_after(0.5):
            await hold(limiter, Stage.GATE, 1, log, "gave up in the queue")
        group.start_soon(hold, limiter, Stage.GATE, 1, log, "next")
    with anyio.move_on_after(1):
        limiter.pause(10)
        await hold(limiter, Stage.GATE, 1, log, "gave up in the pause")

    assert log == [("first", 0), ("next", 2)]
    assert limiter.under_way == 0


@pytest.mark.asyncio
@pytest.mark.looptime(start=0)
async def test_who_is_cancelled_with_the_turn_just_given_passes_it_on():
    limiter, log = narrow(1), []

    first, impatient, last = (
        asyncio.create_task(hold(limiter, Stage.GATE, 1, log, name))
        for name in ("first", "gave up", "next")
    )
    await asyncio.sleep(1)  # wakes after the first, which has just left
    assert limiter.under_way == 1
    impatient.cancel()
    await asyncio.wait([first, impatient, last])

    assert log == [("first", 0), ("next", 1)]
    assert impatient.cancelled()
    assert limiter.under_way == 0


@pytest.mark.asyncio
@pytest.mark.looptime(start=0)
async def test_a_limit_that_shrank_lets_nobody_in_until_enough_have_left():
    limiter, log = narrow(4), []

    async with anyio.create_task_group() as group:
        for index in range(5):
            group.start_soon(hold, limiter, Stage.GATE, index + 1, log, index)
        await anyio.sleep(0.5)
        limiter.window.refuse(began=0.0, now=0.5)

    assert limiter.window.limit == 2
    assert log[-1] == (4, 3)


class Crowded:
    """An endpoint that serves `room` requests at once, in `seconds`, and refuses all others."""

    def __init__(self, room, seconds):
        self.room, self.seconds = room, seconds
        self.inside = self.served = 0
        self.refused_at = []

    async def ask(self, limiter):
        while True:
            async with limiter.turn(Stage.ROLLOUT):
                began = anyio.current_time()
                if await self._serve():
                    limiter.window.succeed(anyio.current_time() - began)
                    return
                limiter.window.refuse(began, anyio.current_time())
            await anyio.sleep(0.5)

    async def _serve(self):
        if self.inside >= self.room:
            self.refused_at.append(anyio.current_time())
            await anyio.sleep(0.01)
            return False
        self.inside += 1
        await anyio.sleep(self.seconds)
        self.inside -= 1
        self.served += 1
        return True


@pytest.mark.asyncio
@pytest.mark.looptime(start=0)
@pytest.mark.parametrize("room", [20, 50])
async def test_limit_settles_where_the_endpoint_is_full(room):
    endpoint, limiter = Crowded(room, 1.0), EndpointLimiter()

    async with anyio.create_task_group() as group:
        for _ in range(1000):
            group.start_soon(endpoint.ask, limiter)

    late = [at for at in endpoint.refused_at if at > 20]
    assert endpoint.served == 1000
    assert len(late) <= 100
    assert anyio.current_time() <= 2 * 1000 / room + 20
