"""`round_timeout`: the round is bounded, and what it no longer waits for is called off."""

import threading

import anyio
import pytest

from agentdescent import async_evolve
from agentdescent.ledger import MemoryLedger
from support.toy import HiddenRules


class Hanging(HiddenRules):
    """The first rollout of `stuck` never ends by itself."""

    def __init__(self, stuck: str) -> None:
        super().__init__(rules=2, per_rule=6, run_s=1.0)
        self.stuck = stuck
        self.cleaned_up: list[float] = []

    async def run(self, rendered, task):
        if task.id == self.stuck:
            self.stuck = ""
            try:
                await anyio.sleep_forever()
            finally:
                self.cleaned_up.append(anyio.current_time())
        return await super().run(rendered, task)


@pytest.mark.asyncio
@pytest.mark.looptime(start=0)
async def test_a_hanging_coroutine_is_cancelled_at_the_deadline(looptime):
    world = Hanging(stuck="t0-0")

    result = await async_evolve(
        **world.parts,
        asynchronous=False,
        rounds=3,
        n_workers=2,
        max_concurrency=2,
        round_timeout=5,
        ledger=MemoryLedger(),
    )

    seed_s = 1
    assert world.cleaned_up == [seed_s + 5]
    assert result.abandoned == 1
    assert len(result.history) == 3
    assert result.error is None


@pytest.mark.asyncio
@pytest.mark.looptime(start=0)
async def test_a_slow_cleanup_is_not_waited_for_and_its_worker_sits_out(looptime):
    class SlowCleanup(Hanging):
        async def run(self, rendered, task):
            if task.id == self.stuck:
                self.stuck = ""
                try:
                    await anyio.sleep_forever()
                finally:
                    with anyio.CancelScope(shield=True):
                        await anyio.sleep(7)
            self.calls.append(f"at {anyio.current_time()} {task.id}")
            return await HiddenRules.run(self, rendered, task)

    world = SlowCleanup(stuck="t0-0")

    result = await async_evolve(
        **world.parts,
        self_verify=False,
        asynchronous=False,
        rounds=4,
        n_workers=2,
        max_concurrency=2,
        round_timeout=5,
        ledger=MemoryLedger(),
    )

    assert len(result.history) == 4
    assert [info.rollouts for info in result.history] == [1, 2, 3, 4]
    assert result.abandoned == 1


@pytest.mark.asyncio
@pytest.mark.looptime(start=0)
async def test_a_run_whose_every_rollout_hangs_ends_with_the_timeout_as_its_error(looptime):
    async def hang(rendered, task):
        if task.id not in held_out:
            await anyio.sleep_forever()
        return rendered

    world = HiddenRules(rules=1, per_rule=10)
    held_out = [task.id for task in world.tasks[6:]]
    with pytest.warns(RuntimeWarning, match="stopped early"):
        result = await async_evolve(
            world.tasks,
            world.reward,
            run=hang,
            propose=world.propose,
            asynchronous=False,
            rounds=9,
            round_timeout=2,
            max_concurrency=4,
            ledger=MemoryLedger(),
        )

    assert result.stop_reason == "error"
    assert result.error.startswith("TimeoutError: ")
    assert "round_timeout" in result.error
    assert looptime == 3 * 2


@pytest.mark.asyncio
@pytest.mark.leaves_thread
async def test_hung_threads_keep_their_slots_so_that_max_concurrency_always_holds():
    world = HiddenRules(rules=2, per_rule=8)
    release, lock = threading.Event(), threading.Lock()
    running, most, hung = 0, 0, 0

    def run(rendered, task):
        nonlocal running, most, hung
        with lock:
            running += 1
            most = max(most, running)
            hang = not task.id.startswith(("t5", "t6", "t7")) and hung < 2
            hung += hang
        if hang:
            release.wait()
        with lock:
            running -= 1
        return rendered

    try:
        with pytest.warns(RuntimeWarning, match="2 synchronous call.* still running"):
            result = await async_evolve(
                world.tasks,
                world.reward,
                run=run,
                propose=world.propose,
                self_verify=False,
                asynchronous=False,
                rounds=4,
                n_workers=6,
                max_concurrency=3,
                eval_concurrency=1,
                round_timeout=0.2,
                ledger=MemoryLedger(),
            )
    finally:
        release.set()

    rollouts_and_gate = 3 + 1
    assert most <= rollouts_and_gate
    assert hung == 2
    assert result.abandoned >= 2
    assert result.error is None


@pytest.mark.asyncio
@pytest.mark.looptime(start=0)
async def test_a_late_answer_of_a_called_off_rollout_makes_the_run_alive_again(looptime):
    """A rollout that ignores its cancellation still reports, in a later round."""

    class Stubborn(HiddenRules):
        async def run(self, rendered, task):
            self.calls.append(f"run {task.id}")
            with anyio.CancelScope(shield=True):
                await anyio.sleep(3)
            return rendered

    world = Stubborn(rules=1, per_rule=10)

    result = await async_evolve(
        **world.parts,
        self_verify=False,
        asynchronous=False,
        rounds=4,
        n_workers=1,
        round_timeout=2,
        ledger=MemoryLedger(),
    )

    assert result.error is None
    assert result.abandoned >= 1
