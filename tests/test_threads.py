import asyncio
import gc
import inspect
import subprocess
import sys
import threading
import time
import weakref
from contextlib import contextmanager
from contextvars import ContextVar
from functools import partial, wraps

import anyio
import pytest
import sniffio

from agentdescent.core.leash import Leash
from agentdescent.core.outcomes import StopReason
from agentdescent.core.spend import Exhausted
from agentdescent.errors import BackendError, RewardContractError
from agentdescent.threads import (
    DaemonThreads,
    either,
    follow,
    in_thread,
    invoke,
    is_async,
    seated,
)

colour = ContextVar("colour", default="none")


@pytest.fixture
def threads():
    daemons = DaemonThreads()
    yield daemons
    daemons.close()


class Gate:
    """A synchronous function that tells the loop when it is in, and waits to be let go."""

    def __init__(self):
        self._loop = asyncio.get_running_loop()
        self.entered = asyncio.Event()
        self.opened = threading.Event()
        self.thread = None

    def __call__(self, error=None):
        self.thread = threading.current_thread()
        self._loop.call_soon_threadsafe(self.entered.set)
        self.opened.wait()
        if error is not None:
            raise error
        return "through"

    async def thread_ends(self):
        self.opened.set()
        await anyio.to_thread.run_sync(self.thread.join)


@contextmanager
def closed_gate():
    gate = Gate()
    try:
        yield gate
    finally:
        gate.opened.set()


async def abandon(call, gate):
    """Start `call`, which runs `gate` in a thread, and cancel it once the thread is in."""
    async with anyio.create_task_group() as tg:
        tg.start_soon(call)
        await gate.entered.wait()
        tg.cancel_scope.cancel()


class Methods:
    async def awaited(self):
        pass

    def plain(self):
        pass


class AwaitedCall:
    async def __call__(self):
        pass


class PlainCall:
    def __call__(self):
        pass


@wraps(Methods.awaited)
def disguised():
    pass


@pytest.mark.parametrize(
    ("function", "expected"),
    [
        (Methods.awaited, True),
        (Methods().awaited, True),
        (partial(Methods().awaited), True),
        (partial(partial(Methods.awaited, 1), 2), True),
        (AwaitedCall(), True),
        (partial(AwaitedCall()), True),
        (AwaitedCall().__call__, True),
        (Methods().plain, False),
        (partial(Methods().plain), False),
        (PlainCall(), False),
        (AwaitedCall, False),
        (lambda: Methods().awaited(), False),
        (disguised, False),
        (print, False),
        (None, False),
    ],
)
def test_is_async_sees_through_partials_methods_and_objects(function, expected):
    assert is_async(function) is expected


class TestDaemonThreads:
    @pytest.mark.asyncio
    async def test_a_call_runs_in_a_daemon_thread_of_its_own(self, threads):
        thread = await threads.run(threading.current_thread)

        assert thread is not threading.main_thread()
        assert thread.daemon

    @pytest.mark.asyncio
    async def test_arguments_go_in_and_the_result_comes_out(self, threads):
        assert await threads.run(divmod, 17, 5) == (3, 2)

    @pytest.mark.asyncio
    async def test_the_context_is_copied_and_the_copy_is_dropped(self, threads):
        colour.set("red")

        assert await threads.run(colour.get) == "red"
        await threads.run(colour.set, "blue")
        assert colour.get() == "red"

    @pytest.mark.asyncio
    async def test_an_idle_thread_is_used_again(self, threads):
        first = await threads.run(threading.current_thread)
        second = await threads.run(threading.current_thread)

        assert first is second

    @pytest.mark.asyncio
    async def test_calls_at_the_same_time_have_threads_of_their_own(self, threads):
        meeting = threading.Barrier(3)

        async with anyio.create_task_group() as tg:
            for _ in range(3):
                tg.start_soon(threads.run, meeting.wait)
            await anyio.sleep(0)
            assert threads.running == 3

        assert threads.running == 0

    @pytest.mark.asyncio
    async def test_an_exception_surfaces_as_it_is(self, threads):
        error = KeyError("no such column")

        with pytest.raises(KeyError) as caught:
            await threads.run(_raise, error)

        assert caught.value is error

    @pytest.mark.asyncio
    async def test_a_base_exception_surfaces_as_it_is(self, threads):
        with pytest.raises(Exhausted, match="max_calls"):
            await threads.run(_raise, Exhausted(StopReason.MAX_CALLS))

    @pytest.mark.asyncio
    @pytest.mark.parametrize("error", [StopIteration(7), asyncio.CancelledError()])
    async def test_what_no_task_can_be_handed_is_a_backend_error(self, threads, error):
        with pytest.raises(BackendError, match="_raise ended with") as caught:
            await threads.run(_raise, error)

        assert caught.value.__cause__ is error

    @pytest.mark.asyncio
    async def test_a_cancelled_call_leaves_its_thread_behind(self, threads):
        with closed_gate() as gate:
            await abandon(partial(threads.run, gate), gate)

            assert (threads.abandoned, threads.running) == (1, 1)
            threads.close()
            await gate.thread_ends()
            assert (threads.abandoned, threads.running) == (1, 0)

    @pytest.mark.asyncio
    async def test_a_call_that_is_cancelled_beforehand_is_never_made(self, threads):
        calls = []

        with anyio.CancelScope() as scope:
            scope.cancel()
            await threads.run(calls.append, 1)

        assert (calls, threads.running, threads.abandoned) == ([], 0, 0)

    @pytest.mark.asyncio
    async def test_an_abandoned_error_is_reported_to_nobody(self, threads):
        reports = []
        asyncio.get_running_loop().set_exception_handler(lambda _, report: reports.append(report))

        with closed_gate() as gate:
            await abandon(partial(threads.run, gate, ValueError("late")), gate)
            threads.close()
            await gate.thread_ends()
        gc.collect()

        assert reports == []

    @pytest.mark.asyncio
    async def test_an_error_that_meets_a_cancellation_is_reported_to_nobody(
        self, threads, monkeypatch
    ):
        reports = []
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(lambda _, report: reports.append(report))
        post = loop.call_soon_threadsafe
        call = asyncio.ensure_future(threads.run(_raise, ValueError("just in time")))

        def settle_then_cancel(settle, *args):
            def both():
                settle(*args)
                call.cancel()

            return post(both)

        monkeypatch.setattr(loop, "call_soon_threadsafe", settle_then_cancel)
        with pytest.raises(asyncio.CancelledError):
            await call
        gc.collect()

        assert (reports, threads.abandoned) == ([], 0)

    @pytest.mark.asyncio
    async def test_a_coroutine_that_comes_too_late_is_closed(self, threads):
        with closed_gate() as gate:
            late = anyio.sleep(0)
            await abandon(partial(threads.run, lambda: (gate(), late)[1]), gate)
            threads.close()
            await gate.thread_ends()

        assert inspect.getcoroutinestate(late) == inspect.CORO_CLOSED

    @pytest.mark.asyncio
    async def test_a_coroutine_that_meets_a_cancellation_is_closed(self, threads, monkeypatch):
        loop, late = asyncio.get_running_loop(), anyio.sleep(0)
        post = loop.call_soon_threadsafe
        call = asyncio.ensure_future(threads.run(lambda: late))

        def settle_then_cancel(settle, *args):
            return post(lambda: (settle(*args), call.cancel()))

        monkeypatch.setattr(loop, "call_soon_threadsafe", settle_then_cancel)
        with pytest.raises(asyncio.CancelledError):
            await call

        assert inspect.getcoroutinestate(late) == inspect.CORO_CLOSED

    @pytest.mark.asyncio
    async def test_a_leash_counts_the_threads_it_waits_for(self, threads):
        leash = Leash(lambda: None)

        with closed_gate() as one, closed_gate() as other:
            async with anyio.create_task_group() as tg:
                tg.start_soon(partial(threads.run, one, leash=leash))
                tg.start_soon(partial(threads.run, other, leash=leash))
                await one.entered.wait()
                await other.entered.wait()
                assert leash.in_thread == 2
                one.opened.set()
                other.opened.set()
        assert leash.in_thread == 0

    @pytest.mark.asyncio
    async def test_a_leash_forgets_an_abandoned_thread(self, threads):
        leash = Leash(lambda: None)

        with closed_gate() as gate:
            await abandon(partial(threads.run, gate, leash=leash), gate)

        assert leash.in_thread == 0

    @pytest.mark.asyncio
    async def test_closing_ends_the_idle_threads(self, threads):
        thread = await threads.run(threading.current_thread)

        threads.close()

        await anyio.to_thread.run_sync(thread.join)

    @pytest.mark.asyncio
    async def test_a_call_after_closing_ends_its_thread_with_it(self, threads):
        threads.close()

        thread = await threads.run(threading.current_thread)

        await anyio.to_thread.run_sync(thread.join)

    @pytest.mark.asyncio
    async def test_an_idle_thread_keeps_nothing_alive(self, threads):
        class Output:
            pass

        output = await threads.run(lambda given: given, Output())
        await threads.run(len, "")  # by now the thread has come back for the next job
        watched = weakref.ref(output)
        del output
        gc.collect()

        assert watched() is None

    def test_a_thread_that_outlives_its_loop_ends_quietly(self):
        async def leave_one_behind():
            gate = Gate()
            await abandon(partial(DaemonThreads().run, gate), gate)
            return gate

        gate = asyncio.run(leave_one_behind())
        gate.opened.set()

        gate.thread.join(timeout=2)
        assert not gate.thread.is_alive()

    def test_an_abandoned_thread_does_not_keep_the_process_alive(self):
        script = (
            "import threading, time, anyio\n"
            "from agentdescent.threads import DaemonThreads\n"
            "async def main():\n"
            "    threads = DaemonThreads()\n"
            "    with anyio.move_on_after(0.05):\n"
            "        await threads.run(threading.Event().wait)\n"
            "    print(threads.abandoned, time.monotonic(), flush=True)\n"
            "anyio.run(main)\n"
        )
        child = subprocess.run(
            [sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=15
        )

        abandoned, ended = child.stdout.split()
        assert abandoned == "1"
        assert time.monotonic() - float(ended) < 2


class TestFinish:
    @pytest.mark.asyncio
    async def test_arguments_go_in_and_the_result_comes_out(self, threads):
        assert await threads.finish(divmod, 7, 2) == (3, 1)

    @pytest.mark.asyncio
    async def test_an_exception_surfaces_as_it_is(self, threads):
        error = KeyError("no such key")

        with pytest.raises(KeyError) as caught:
            await threads.finish(_raise, error)

        assert caught.value is error

    @pytest.mark.asyncio
    async def test_a_call_that_is_cancelled_beforehand_is_never_made(self, threads):
        calls = []
        with anyio.CancelScope() as scope:
            scope.cancel()
            await threads.finish(calls.append, 1)

        assert scope.cancelled_caught
        assert calls == []

    @pytest.mark.asyncio
    @pytest.mark.parametrize("times", [1, 3])
    async def test_a_bare_task_gets_its_result_before_it_is_cancelled(self, threads, times):
        gate, results = Gate(), []

        async def call():
            results.append(await threads.finish(gate))
            await anyio.sleep_forever()

        task = asyncio.ensure_future(call())
        await gate.entered.wait()
        for _ in range(times):
            task.cancel("enough")
            await asyncio.sleep(0)
        assert not task.done()
        gate.opened.set()

        with pytest.raises(asyncio.CancelledError, match="enough"):
            await task
        assert results == ["through"]
        assert threads.abandoned == 0

    @pytest.mark.asyncio
    async def test_a_scope_waits_for_the_thread_as_well(self, threads):
        gate, results = Gate(), []

        async def cancel():
            await gate.entered.wait()
            scope.cancel()
            await anyio.wait_all_tasks_blocked()
            gate.opened.set()

        async with anyio.create_task_group() as group:
            group.start_soon(cancel)
            with anyio.CancelScope() as scope:
                results.append(await threads.finish(gate))
                await anyio.sleep_forever()

        assert results == ["through"]

    @pytest.mark.asyncio
    async def test_a_timeout_is_told_from_a_cancellation_as_ever(self, threads):
        gate, results = Gate(), []

        async def expire(limit):
            await gate.entered.wait()
            limit.reschedule(0)
            while not limit.expired():
                await asyncio.sleep(0)
            gate.opened.set()

        async with anyio.create_task_group() as group:
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(None) as limit:
                    group.start_soon(expire, limit)
                    results.append(await threads.finish(gate))
                    await anyio.sleep_forever()

        assert results == ["through"]
        assert asyncio.current_task().cancelling() == 0


class TestFollow:
    @pytest.mark.asyncio
    async def test_blocking_calls_inside_go_to_the_threads_and_on_the_leash(self, threads):
        leash = Leash(lambda: None)

        async def agent():
            return await in_thread(lambda: (threads.running, leash.in_thread))

        assert await follow(agent(), threads, leash) == (1, 1)

    @pytest.mark.asyncio
    async def test_afterwards_blocking_calls_go_elsewhere_again(self, threads):
        await follow(anyio.sleep(0), threads, None)

        assert await in_thread(lambda: threads.running) == 0

    @pytest.mark.asyncio
    async def test_within_a_block_every_task_uses_its_threads(self, threads):
        running = []

        async def task():
            running.append(await in_thread(lambda: threads.running))

        with seated(threads):
            async with anyio.create_task_group() as group:
                group.start_soon(task)
            await follow(task(), threads, None)
        await task()

        assert running == [1, 1, 0]

    @pytest.mark.asyncio
    async def test_a_leash_counts_within_a_block_too(self, threads):
        leash = Leash(lambda: None)

        async def agent():
            return await in_thread(lambda: leash.in_thread)

        with seated(threads):
            assert await follow(agent(), threads, leash) == 1
            assert await in_thread(lambda: leash.in_thread) == 0

    @pytest.mark.asyncio
    async def test_a_loop_within_a_thread_has_threads_of_its_own(self, threads):
        async def agent():
            return await in_thread(lambda: threads.running)

        async def bridge():
            return await in_thread(asyncio.run, agent())

        assert await follow(bridge(), threads, None) == 1

    @pytest.mark.asyncio
    async def test_a_thread_outside_a_run_ends_after_its_call(self):
        thread = await in_thread(threading.current_thread)

        assert thread.daemon
        await anyio.to_thread.run_sync(thread.join)

    @pytest.mark.asyncio
    async def test_a_cancellation_that_nobody_asked_for_is_a_backend_error(self, threads):
        async def agent():
            raise asyncio.CancelledError

        with pytest.raises(BackendError, match="agent ended with CancelledError"):
            await follow(agent(), threads, None)

    @pytest.mark.asyncio
    async def test_an_awaited_task_that_was_cancelled_is_a_backend_error(self, threads):
        task = asyncio.ensure_future(anyio.sleep_forever())
        task.cancel()

        with pytest.raises(BackendError, match="Task ended with CancelledError"):
            await follow(task, threads, None)

    @pytest.mark.asyncio
    async def test_a_cancellation_from_outside_passes(self, threads):
        with anyio.CancelScope() as scope:
            scope.cancel()
            await follow(anyio.sleep_forever(), threads, None)

        assert scope.cancelled_caught

    @pytest.mark.asyncio
    async def test_a_timeout_inside_stays_a_timeout(self, threads):
        async def agent():
            async with asyncio.timeout(0):
                await anyio.sleep_forever()

        with pytest.raises(TimeoutError):
            await follow(agent(), threads, None)


class Reference:
    """An object with override points, as an aggregator has."""

    def __init__(self):
        self.log = []
        self.waits = asyncio.Event()

    @either
    async def step(self, number):
        return await invoke(self.choose, number) * 10

    @either
    async def choose(self, number):
        await anyio.sleep(0)
        if isinstance(number, BaseException):
            raise number
        return number + 1

    @either
    async def wait(self):
        self.waits.set()
        try:
            await anyio.sleep_forever()
        finally:
            self.log.append("called off")


class TestInvoke:
    @pytest.mark.asyncio
    async def test_a_reference_hook_runs_on_the_loop(self):
        assert await invoke(Reference().step, 1) == 20
        assert await Reference().step(1) == 20

    @pytest.mark.asyncio
    async def test_a_plain_hook_calls_the_reference_and_gets_a_value(self):
        class Doubled(Reference):
            def choose(self, number):
                return super().choose(number) * 2

        assert await invoke(Doubled().step, 1) == 40

    @pytest.mark.asyncio
    async def test_a_plain_hook_runs_in_a_thread_so_that_it_may_block(self):
        class Where(Reference):
            def choose(self, number):
                return threading.current_thread() is threading.main_thread()

        assert await invoke(Where().choose, 1) is False

    @pytest.mark.asyncio
    async def test_an_async_hook_awaits_the_reference(self):
        class Doubled(Reference):
            async def choose(self, number):
                return await super().choose(number) * 2

        assert await invoke(Doubled().step, 1) == 40

    @pytest.mark.asyncio
    async def test_hooks_nest_a_plain_one_above_a_plain_one(self):
        class Nested(Reference):
            def step(self, number):
                return super().step(number) + 0.5

            def choose(self, number):
                return super().choose(number) + 1

        assert await invoke(Nested().step, 1) == 30.5

    @pytest.mark.asyncio
    async def test_a_loop_inside_a_plain_hook_is_a_loop_like_any_other(self):
        class Hook(Reference):
            def step(self, number):
                async def elsewhere():
                    return await Reference().step(number)

                return anyio.run(elsewhere)

        assert await invoke(Hook().step, 3) == await invoke(Reference().step, 3)

    @pytest.mark.asyncio
    async def test_an_awaitable_from_a_plain_hook_is_awaited(self):
        async def value():
            return 7

        def hook():
            return value()

        assert await invoke(hook) == 7

    @pytest.mark.asyncio
    async def test_a_hook_sees_the_context_of_its_caller(self):
        colour.set("green")

        class Looks(Reference):
            def choose(self, number):
                return colour.get()

        assert await invoke(Looks().choose, 1) == "green"

    @pytest.mark.asyncio
    async def test_a_contract_error_comes_out_of_nested_hooks_unwrapped(self):
        class Nested(Reference):
            def step(self, number):
                return super().step(number)

            def choose(self, number):
                return super().choose(number)

        error = RewardContractError("reward returned 47")
        with pytest.raises(RewardContractError) as caught:
            await invoke(Nested().step, error)

        assert caught.value is error

    @pytest.mark.asyncio
    async def test_a_plain_hook_can_handle_what_the_reference_raises(self):
        class Careful(Reference):
            def choose(self, number):
                try:
                    return super().choose(number)
                except ValueError as error:
                    return str(error)

        assert await invoke(Careful().choose, ValueError("no")) == "no"

    @pytest.mark.asyncio
    async def test_a_spent_budget_passes_through_a_hook_and_its_finally(self):
        class Tidy(Reference):
            def choose(self, number):
                try:
                    return super().choose(number)
                except Exception:
                    self.log.append("swallowed")
                    raise
                finally:
                    self.log.append("tidied")

        tidy = Tidy()
        with pytest.raises(Exhausted):
            await invoke(tidy.step, Exhausted(StopReason.MAX_CALLS))

        assert tidy.log == ["tidied"]

    @pytest.mark.asyncio
    async def test_cancellation_calls_off_what_a_hook_waits_for(self):
        class Waiting(Reference):
            def choose(self, number):
                super().wait()

        waiting = Waiting()
        async with anyio.create_task_group() as tg:
            tg.start_soon(invoke, waiting.choose, 1)
            await waiting.waits.wait()
            tg.cancel_scope.cancel()

        assert waiting.log == ["called off"]


def _raise(error):
    raise error


@pytest.mark.asyncio
async def test_a_thread_may_run_a_loop_of_its_own(threads):
    """Also where `sniffio` is installed, by which libraries tell whose loop runs."""

    async def answer():
        await anyio.sleep(0)
        return 42

    assert sniffio.current_async_library() == "asyncio"
    assert await threads.run(anyio.run, answer) == 42
