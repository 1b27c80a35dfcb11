"""The evaluation pool: sharing, withdrawing, retrying, width."""

import threading
from random import Random

import anyio
import pytest
from anyio.lowlevel import checkpoint

from agentdescent.agents.executor import Executor
from agentdescent.core.spend import Exhausted, Spend, StopReason, Unit
from agentdescent.core.task import Task
from agentdescent.errors import BackendError, EvaluationFailed, RewardContractError
from agentdescent.evaluate.pool import Sweep, widths
from agentdescent.threads import DaemonThreads
from support.lab import Lab, tasks_named

ABC = tasks_named("abc")
JITTER = Random(0)
FIRST_WAIT = 0.2 * JITTER.uniform(0.9, 1.1)
BOTH_WAITS = FIRST_WAIT + 0.4 * JITTER.uniform(0.9, 1.1)


@pytest.mark.asyncio
async def test_values_come_in_the_order_of_the_tasks_and_are_measured_once():
    lab = Lab()
    lab.rewards = {("x", "a"): 0.1, ("x", "b"): 0.2, ("x", "c"): 0.3}
    async with lab.pool().open() as pool:
        assert await pool.values("x", ABC) == [0.1, 0.2, 0.3]
        assert await pool.values("x", ABC[::-1]) == [0.3, 0.2, 0.1]
    assert sorted(lab.calls) == ["a", "b", "c"]
    assert (pool.cache_misses, pool.cache_hits) == (3, 3)


@pytest.mark.asyncio
async def test_artifacts_with_other_text_are_measured_apart():
    lab = Lab()
    lab.rewards = {("x", "a"): 0.1, ("y", "a"): 0.2}
    async with lab.pool().open() as pool:
        assert await pool.values("x", ABC[:1]) == [0.1]
        assert await pool.values("y", ABC[:1]) == [0.2]
    assert lab.calls == ["a", "a"]


@pytest.mark.asyncio
async def test_task_named_twice_is_measured_once():
    lab = Lab()
    async with lab.pool().open() as pool:
        assert await pool.values("x", [ABC[0], ABC[0]]) == [1.0, 1.0]
    assert lab.calls == ["a"]
    assert (pool.cache_misses, pool.cache_hits) == (1, 1)


@pytest.mark.asyncio
@pytest.mark.looptime(start=0)
async def test_no_more_run_at_a_time_than_the_pool_is_wide(looptime):
    lab = Lab(latency=1.0)
    async with lab.pool(width=4).open() as pool:
        await pool.values("x", tasks_named("abcdefghij"))
    assert lab.most == 4
    assert lab.calls == list("abcdefghij")
    assert looptime == 3
    assert pool.eval_seconds == 10


@pytest.mark.asyncio
@pytest.mark.looptime(start=0)
async def test_two_requesters_share_one_measurement(looptime):
    lab, found = Lab(latency=1.0), []

    async def ask(pool, delay):
        await anyio.sleep(delay)
        found.append((await pool.values("x", ABC[:1]), anyio.current_time()))

    async with lab.pool().open() as pool, anyio.create_task_group() as requesters:
        requesters.start_soon(ask, pool, 0)
        requesters.start_soon(ask, pool, 0.5)
    assert found == [([1.0], 1.0), ([1.0], 1.0)]
    assert lab.calls == ["a"]
    assert (pool.cache_misses, pool.cache_hits) == (1, 1)


@pytest.mark.asyncio
@pytest.mark.looptime(start=0)
async def test_cancelling_one_of_two_requesters_leaves_the_other_its_value():
    lab, found = Lab(latency=1.0), []

    async def ask(pool):
        found.append((await pool.values("x", ABC[:1]), anyio.current_time()))

    async with lab.pool().open() as pool, anyio.create_task_group() as requesters:
        requesters.start_soon(ask, pool)
        with anyio.move_on_after(0.5):
            await pool.values("x", ABC[:1])
    assert found == [([1.0], 1.0)]
    assert lab.calls == ["a"]


@pytest.mark.asyncio
@pytest.mark.looptime(start=0)
async def test_work_that_nobody_waits_for_any_more_is_cancelled_and_can_be_had_again():
    lab = Lab(latency=1.0)
    async with lab.pool().open() as pool:
        with anyio.move_on_after(0.25):
            await pool.values("x", ABC[:1])
        await checkpoint()
        assert lab.ended == [("a", 0.25)]
        assert pool.known("x", ABC[:1]) is None
        assert await pool.values("x", ABC[:1]) == [1.0]
    assert lab.ended == [("a", 0.25), ("a", 1.25)]


@pytest.mark.asyncio
@pytest.mark.looptime(start=0)
async def test_asking_again_just_after_a_withdrawal_starts_afresh():
    """The first run is still ending; whoever asks now must not wait for it."""
    lab = Lab(latency=1.0)
    async with lab.pool().open() as pool:
        with anyio.CancelScope() as scope, Sweep(pool, lambda *_: False) as sweep:
            sweep.ask("x", ABC[:1])
            await anyio.sleep(0.5)
            scope.cancel()
            await checkpoint()
        assert await pool.values("x", ABC[:1]) == [1.0]
    assert lab.ended == [("a", 0.5), ("a", 1.5)]


@pytest.mark.asyncio
@pytest.mark.looptime(start=0)
async def test_value_of_work_that_resists_its_cancellation_is_remembered():
    lab = Lab(latency=1.0)

    async def run(rendered, task, leash=None):
        with anyio.move_on_after(0.5, shield=True):
            return await lab.run(rendered, task)
        return rendered

    async with lab.pool(width=1, run=run).open() as pool:
        with anyio.move_on_after(0.25):
            await pool.values("x", ABC[:1])
        assert await pool.values("x", ABC[1:2]) == [1.0]
        assert pool.known("x", ABC[:1]) == (1.0,)
    assert lab.ended == [("a", 0.5), ("b", 1.0)]


@pytest.mark.asyncio
@pytest.mark.looptime(start=0)
async def test_withdrawn_requests_are_never_started():
    lab = Lab(latency=1.0)
    async with lab.pool(width=1).open() as pool:
        with anyio.move_on_after(1.5):
            await pool.values("x", ABC)
        assert await pool.values("y", ABC[2:]) == [1.0]
    assert lab.calls == ["a", "b", "c"]
    assert pool.known("x", ABC[:1]) == (1.0,)


@pytest.mark.asyncio
@pytest.mark.looptime(start=0)
async def test_withdrawn_request_that_is_wanted_again_keeps_its_place():
    lab = Lab(latency=1.0)
    async with lab.pool(width=1).open() as pool, anyio.create_task_group() as others:
        others.start_soon(pool.values, "y", ABC[:1])
        await checkpoint()
        with Sweep(pool, lambda *_: False) as sweep:
            sweep.ask("x", ABC[1:2])
        others.start_soon(pool.values, "y", ABC[2:])
        assert await pool.values("x", ABC[1:2]) == [1.0]
        assert anyio.current_time() == 2
    assert lab.calls == ["a", "b", "c"]


@pytest.mark.asyncio
@pytest.mark.looptime(start=0)
async def test_called_off_work_keeps_its_slot_until_it_has_ended():
    lab = Lab()

    async def run(rendered, task, leash=None):
        try:
            await lab.run(rendered, task)
            await anyio.sleep(5)
        finally:
            with anyio.CancelScope(shield=True):
                await anyio.sleep(1)

    async with lab.pool(width=1, run=run).open() as pool:
        with anyio.move_on_after(1):
            await pool.values("x", ABC[:1])
        with anyio.move_on_after(1.5):
            await pool.values("x", ABC[1:2])
    assert lab.ended == [("a", 0.0), ("b", 2.0)]


@pytest.mark.asyncio
@pytest.mark.looptime(start=0)
async def test_failed_attempts_are_repeated_after_the_waits():
    lab = Lab()
    lab.errors["a"] = [OSError("reset"), TimeoutError("slow")]
    async with lab.pool().open() as pool:
        assert await pool.values("x", ABC[:1]) == [1.0]
    assert [time for _, time in lab.ended] == pytest.approx([0, FIRST_WAIT, BOTH_WAITS], abs=1e-5)
    assert pool.eval_seconds == pytest.approx(BOTH_WAITS, abs=1e-5)


@pytest.mark.asyncio
@pytest.mark.looptime(start=0)
async def test_failure_reaches_the_requester_after_three_attempts_and_is_not_remembered():
    lab, cause = Lab(), OSError("third")
    lab.errors["b"] = [OSError("first"), OSError("second"), cause]
    async with lab.pool().open() as pool:
        with pytest.raises(EvaluationFailed, match="'b' could not be scored: OSError") as caught:
            await pool.values("x", ABC)
        assert (caught.value.task_id, caught.value.__cause__) == ("b", cause)
        assert anyio.current_time() == pytest.approx(BOTH_WAITS, abs=1e-5)
        assert pool.known("x", ABC) is None
        assert await pool.values("x", ABC) == [1.0, 1.0, 1.0]
    assert (lab.count("a"), lab.count("b"), lab.count("c")) == (1, 4, 1)


@pytest.mark.asyncio
@pytest.mark.looptime(start=0)
async def test_error_that_was_retried_below_is_not_retried_again():
    lab, cause = Lab(), BackendError("throttled")
    cause.attempts_made = 4
    lab.errors["a"] = [cause]
    async with lab.pool().open() as pool:
        with pytest.raises(EvaluationFailed) as caught:
            await pool.values("x", ABC[:1])
    assert caught.value.__cause__ is cause
    assert lab.calls == ["a"]


@pytest.mark.asyncio
@pytest.mark.looptime(start=0)
async def test_first_failure_withdraws_the_rest():
    lab, failed = Lab(latency=1.0), BackendError("down")
    failed.attempts_made = 1
    lab.errors["b"] = [failed]
    lab.seconds["b"] = 0.5
    async with lab.pool(width=2).open() as pool:
        with pytest.raises(EvaluationFailed):
            await pool.values("x", ABC)
        await checkpoint()
    assert lab.ended == [("b", 0.5), ("a", 0.5)]


@pytest.mark.asyncio
@pytest.mark.looptime(start=0)
async def test_failure_reaches_everyone_who_waits():
    lab, failed = Lab(latency=1.0), BackendError("down")
    failed.attempts_made = 1
    lab.errors["a"] = [failed]
    causes = []

    async def ask(pool):
        with pytest.raises(EvaluationFailed) as caught:
            await pool.values("x", ABC[:1])
        causes.append(caught.value.__cause__)

    async with lab.pool().open() as pool, anyio.create_task_group() as requesters:
        requesters.start_soon(ask, pool)
        requesters.start_soon(ask, pool)
    assert causes == [failed, failed]
    assert lab.calls == ["a"]


@pytest.mark.asyncio
async def test_task_named_twice_fails_once():
    lab, failed = Lab(), BackendError("down")
    failed.attempts_made = 1
    lab.errors["a"] = [failed]
    async with lab.pool().open() as pool:
        with pytest.raises(EvaluationFailed):
            await pool.values("x", [ABC[0], ABC[0]])
    assert lab.calls == ["a"]


@pytest.mark.asyncio
@pytest.mark.looptime(start=0)
async def test_waiting_for_another_attempt_can_be_withdrawn():
    lab = Lab()
    lab.errors["a"] = [OSError(), OSError(), OSError()]
    async with lab.pool().open() as pool:
        with anyio.move_on_after(0.1):
            await pool.values("x", ABC[:1])
        await anyio.sleep(10)
    assert lab.calls == ["a"]


@pytest.mark.asyncio
async def test_broken_contract_reaches_the_requester_as_it_is_and_at_once():
    lab = Lab()
    lab.rewards["x", "b"] = 1.5
    async with lab.pool().open() as pool:
        with pytest.raises(RewardContractError, match="'b'"):
            await pool.values("x", ABC)
        assert await pool.values("y", ABC) == [1.0, 1.0, 1.0]
    assert lab.count("b") == 2


@pytest.mark.asyncio
async def test_spent_budget_reaches_the_requester_as_it_is():
    lab = Lab()
    spend = Spend({Unit.CALL: (2, StopReason.MAX_CALLS)})

    async def run(rendered, task, leash=None):
        spend.reserve(Unit.CALL)
        return await lab.run(rendered, task)

    async with lab.pool(width=1, run=run).open() as pool:
        with pytest.raises(Exhausted) as caught:
            await pool.values("x", ABC)
        assert caught.value.reason == StopReason.MAX_CALLS
        assert pool.known("x", ABC[:2]) == (1.0, 1.0)
        with pytest.raises(Exhausted):
            await pool.values("x", ABC)
    assert lab.calls == ["a", "b"]


@pytest.mark.asyncio
async def test_values_are_known_only_together():
    lab = Lab()
    async with lab.pool().open() as pool:
        await pool.values("x", ABC[:2])
        assert pool.known("x", ABC) is None
        assert pool.known("x", ABC[:2]) == (1.0, 1.0)
        assert pool.known("y", ABC[:2]) is None


@pytest.mark.asyncio
async def test_head_is_remembered_whatever_comes():
    class Published:
        rendered = "head"

    lab = Lab()
    async with lab.pool(capacity=4).open() as pool:
        pool.follow_head(Published())
        await pool.values("head", ABC)
        for number in range(10):
            await pool.values(f"candidate {number}", ABC[:2])
        assert pool.known("head", ABC) == (1.0, 1.0, 1.0)
    assert pool.head == "head"


@pytest.mark.asyncio
async def test_instant_work_lets_others_run():
    lab, turns = Lab(), 0

    async def tick():
        nonlocal turns
        while True:
            await checkpoint()
            turns += 1

    async with lab.pool().open() as pool, anyio.create_task_group() as others:
        others.start_soon(tick)
        await pool.values("x", tasks_named(map(str, range(400))))
        others.cancel_scope.cancel()
    assert turns >= 10


@pytest.mark.asyncio
async def test_request_to_a_closed_pool_says_what_to_do():
    with pytest.raises(RuntimeError, match="open"):
        await Lab().pool().values("x", ABC)


@pytest.mark.asyncio
async def test_error_of_the_user_of_the_pool_leaves_it_as_it_is():
    with pytest.raises(ZeroDivisionError):
        async with Lab().pool().open():
            raise ZeroDivisionError


# -- repeats --------------------------------------------------------------------------------------


@pytest.mark.asyncio
async def test_value_is_the_mean_of_its_repeats():
    lab = Lab()
    lab.rewards["x", "a"] = [0.0, 1.0, 0.5]
    async with lab.pool(repeats=3).open() as pool:
        assert await pool.values("x", ABC[:1]) == [0.5]
        assert await pool.values("x", ABC[:1]) == [0.5]
    assert lab.calls == ["a", "a", "a"]
    assert (pool.cache_misses, pool.cache_hits) == (3, 3)


@pytest.mark.asyncio
@pytest.mark.looptime(start=0)
async def test_only_missing_repeats_are_run():
    lab = Lab(latency=1.0)
    lab.rewards["x", "a"] = [0.0, 1.0]
    async with lab.pool(width=1, repeats=2).open() as pool:
        with anyio.move_on_after(1.5):
            await pool.values("x", ABC[:1])
        assert pool.known("x", ABC[:1]) is None
        assert await pool.values("x", ABC[:1]) == [0.5]
    assert lab.ended == [("a", 1.0), ("a", 1.5), ("a", 2.5)]


@pytest.mark.asyncio
async def test_fresh_measurements_are_learned_alone_and_averaged_into_the_value():
    lab, learned = Lab(), []
    lab.rewards["x", "a"] = [1.0, 0.0, 0.5]
    async with lab.pool(width=1).open() as pool:
        assert await pool.values("x", ABC[:1]) == [1.0]
        with Sweep(pool, lambda index, value: learned.append((index, value))) as sweep:
            sweep.ask("x", ABC[:1], fresh=2)
            await sweep.finished()
        assert learned == [(0, 0.25)]
        assert await pool.values("x", ABC[:1]) == [0.5]
    assert lab.calls == ["a", "a", "a"]


# -- sweeps ---------------------------------------------------------------------------------------


@pytest.mark.asyncio
@pytest.mark.looptime(start=0)
async def test_sweep_learns_each_value_as_it_comes():
    lab, learned = Lab(latency=1.0), []
    lab.seconds["b"] = 0.5
    async with lab.pool().open() as pool:
        with Sweep(pool, lambda index, value: learned.append(index)) as sweep:
            sweep.ask("x", ABC)
            await sweep.finished()
    assert learned == [1, 0, 2]


@pytest.mark.asyncio
@pytest.mark.looptime(start=0)
async def test_sweep_that_knows_enough_withdraws_from_the_rest():
    lab = Lab(latency=1.0)
    lab.seconds["b"] = 0.5
    async with lab.pool(width=2).open() as pool:
        with Sweep(pool, lambda index, value: index == 1) as sweep:
            sweep.ask("x", ABC)
            await sweep.finished()
            sweep.ask("y", ABC)
            await sweep.finished()
        await checkpoint()
    assert lab.ended == [("b", 0.5), ("a", 0.5)]


@pytest.mark.asyncio
async def test_known_values_are_learned_before_anything_is_started():
    lab = Lab()
    async with lab.pool().open() as pool:
        await pool.values("x", ABC[2:])
        with Sweep(pool, lambda index, value: True) as sweep:
            sweep.ask("x", ABC)
            await sweep.finished()
    assert lab.calls == ["c"]


@pytest.mark.asyncio
async def test_indices_go_on_from_one_request_to_the_next():
    lab, learned = Lab(), {}
    lab.rewards = {("x", "a"): 0.1, ("y", "a"): 0.2, ("y", "b"): 0.3}
    async with lab.pool().open() as pool:
        with Sweep(pool, learned.__setitem__) as sweep:
            sweep.ask("x", ABC[:1])
            await sweep.finished()
            sweep.ask("y", ABC[:2])
            await sweep.finished()
    assert learned == {0: 0.1, 1: 0.2, 2: 0.3}


@pytest.mark.asyncio
async def test_task_named_twice_is_not_learned_after_the_end():
    lab, learned = Lab(), []

    def learn(index, value):
        learned.append(index)
        return True

    async with lab.pool().open() as pool:
        with Sweep(pool, learn) as sweep:
            sweep.ask("x", [ABC[0], ABC[0]])
            await sweep.finished()
    assert learned == [0]


@pytest.mark.asyncio
async def test_known_values_after_the_deciding_one_are_not_learned():
    lab, learned = Lab(), []

    def learn(index, value):
        learned.append(index)
        return index == 1

    async with lab.pool().open() as pool:
        await pool.values("x", ABC)
        with Sweep(pool, learn) as sweep:
            sweep.ask("x", ABC)
    assert learned == [0, 1]


# -- synchronous actors ---------------------------------------------------------------------------


class Blocking:
    """A synchronous `run` that waits in its thread until it is released."""

    def __init__(self, errors=()):
        self.started = anyio.Event()
        self.released = threading.Event()
        self.errors = list(errors)
        self.calls = []
        self._threads = DaemonThreads()

    def __call__(self, rendered, task):
        self.calls.append(task.id)
        if task.id == "a":
            assert self.released.wait(10)
            if self.errors:
                raise self.errors.pop(0)
        return rendered

    def door(self):
        inner = Executor(self._threads, Spend({})).door(self, counts=False)

        async def run(rendered, task, leash=None):
            async with anyio.create_task_group() as group:
                group.start_soon(self._announce)
                return await inner(rendered, task, leash=leash)

        return run

    async def _announce(self):
        self.started.set()

    def close(self):
        self.released.set()
        self._threads.close()


async def withdrawn_in_its_thread(pool, blocking):
    """Ask for task a, and give up while its thread runs."""
    async with anyio.create_task_group() as requester:
        requester.start_soon(pool.values, "x", ABC[:1])
        await blocking.started.wait()
        requester.cancel_scope.cancel()


@pytest.mark.asyncio
async def test_work_inside_a_thread_is_left_alone_and_its_value_remembered():
    lab, blocking = Lab(), Blocking()
    async with lab.pool(width=1, run=blocking.door()).open() as pool:
        await withdrawn_in_its_thread(pool, blocking)
        blocking.released.set()
        await pool.values("x", ABC[1:2])
        assert pool.known("x", ABC[:1]) == (1.0,)
    blocking.close()
    assert blocking.calls == ["a", "b"]


@pytest.mark.asyncio
async def test_work_inside_a_thread_can_be_joined_again():
    lab, blocking = Lab(), Blocking([OSError("reset")])
    async with lab.pool(width=1, run=blocking.door()).open() as pool:
        await withdrawn_in_its_thread(pool, blocking)
        async with anyio.create_task_group() as requester:
            requester.start_soon(pool.values, "x", ABC[:1])
            await checkpoint()
            blocking.released.set()
        assert pool.known("x", ABC[:1]) == (1.0,)
    blocking.close()
    assert blocking.calls == ["a", "a"]


@pytest.mark.asyncio
async def test_work_that_fails_inside_a_thread_is_not_repeated_for_nobody():
    lab, blocking = Lab(), Blocking([OSError("reset")])
    async with lab.pool(width=1, run=blocking.door()).open() as pool:
        await withdrawn_in_its_thread(pool, blocking)
        blocking.released.set()
        await pool.values("x", ABC[1:2])
        assert pool.known("x", ABC[:1]) is None
    blocking.close()
    assert blocking.calls == ["a", "b"]


@pytest.mark.parametrize(
    ("held_out", "is_async", "asked", "width"),
    [
        (16, True, None, 16),
        (200, True, None, 32),
        (200, False, None, 8),
        (5, False, None, 5),
        (5, True, 200, 200),
        (200, False, 1, 1),
    ],
)
def test_width_follows_the_kind_of_actor_unless_it_is_given(held_out, is_async, asked, width):
    assert widths(held_out, is_async, asked) == width


def test_tasks_that_differ_in_meta_only_are_measured_apart():
    async def main():
        lab = Lab()
        async with lab.pool().open() as pool:
            for gold in (1, 2):
                await pool.values("x", [Task("a", "p", {"gold": gold})])
        return lab.calls

    assert anyio.run(main) == ["a", "a"]
