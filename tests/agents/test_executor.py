import asyncio
import threading
from functools import partial

import anyio
import pytest

from agentdescent.agents import executor
from agentdescent.agents.completion import metered
from agentdescent.agents.executor import Executor
from agentdescent.core.leash import Leash
from agentdescent.core.outcomes import StopReason
from agentdescent.core.spend import Exhausted, Spend, Unit
from agentdescent.errors import BackendError
from agentdescent.testing import FakeCompletion, run_trio
from agentdescent.threads import DaemonThreads, in_thread, is_async
from agentdescent.usage import Usage


@pytest.fixture
def threads():
    daemons = DaemonThreads()
    yield daemons
    daemons.close()


@pytest.fixture
def usage():
    return Usage()


@pytest.fixture
def make(threads, usage):
    """A door of a function, in a run that allows `max_calls` counted calls."""

    def door(function, *, counts=False, max_calls=None):
        spend = Spend({Unit.CALL: (max_calls, StopReason.MAX_CALLS)})
        return Executor(threads, spend, usage).door(function, counts=counts)

    return door


def here(*_):
    return threading.current_thread() is threading.main_thread()


async def awaited_here(*_):
    return here()


def deferred(*_):
    return awaited_here()


def on_leash():
    scope = anyio.CancelScope()
    return scope, Leash(scope.cancel)


class Agent:
    async def solve(self, rendered, task):
        return here()

    async def __call__(self, rendered, task):
        return here()


@pytest.mark.asyncio
@pytest.mark.parametrize(
    "function",
    [awaited_here, Agent().solve, Agent(), partial(Agent().solve, "rendered")],
    ids=["function", "method", "object", "partial"],
)
async def test_what_is_asynchronous_runs_on_the_loop(make, function):
    arguments = ["task"] if isinstance(function, partial) else ["rendered", "task"]

    assert await make(function)(*arguments) is True


@pytest.mark.asyncio
async def test_what_is_synchronous_runs_in_a_thread(make):
    assert await make(here)("rendered", "task") is False


@pytest.mark.asyncio
async def test_what_is_pure_runs_on_the_loop(make):
    def score(task, output):
        return here()

    score.is_pure = True

    assert await make(score)("task", "output") is True


@pytest.mark.asyncio
@pytest.mark.parametrize("is_pure", [True, False])
async def test_an_awaitable_that_a_plain_function_returns_is_awaited_on_the_loop(make, is_pure):
    def run(rendered, task):
        return awaited_here()

    run.is_pure = is_pure

    assert await make(run)("rendered", "task") is True


@pytest.mark.asyncio
async def test_the_loops_context_is_the_callers(make):
    task = asyncio.current_task()

    async def run():
        return asyncio.current_task()

    assert await make(run)() is task


@pytest.mark.asyncio
@pytest.mark.parametrize("kind", ["async", "sync", "awaitable", "pure"])
async def test_an_exception_comes_out_as_it_is(make, kind):
    error = KeyError("gold")

    async def run():
        raise error

    def fail():
        raise error

    fail.is_pure = kind == "pure"

    def defer():
        return run()

    functions = {"async": run, "sync": fail, "pure": fail, "awaitable": defer}

    with pytest.raises(KeyError) as caught:
        await make(functions[kind])()

    assert caught.value is error


@pytest.mark.asyncio
async def test_a_cancellation_of_the_users_making_does_not_end_the_worker(make):
    async def run():
        raise asyncio.CancelledError

    with pytest.raises(BackendError, match="run ended with CancelledError"):
        await make(run)()


@pytest.mark.asyncio
async def test_neither_does_one_that_a_pure_function_raises(make):
    def gives_up():
        raise asyncio.CancelledError

    gives_up.is_pure = True

    with pytest.raises(BackendError, match="gives_up ended with CancelledError of its own making"):
        await make(gives_up)()


@pytest.mark.asyncio
async def test_blocking_calls_of_async_code_are_the_runs(make, threads):
    async def run():
        return await in_thread(lambda: threads.running)

    def defer():
        return run()

    assert await make(run)() == 1
    assert await make(defer)() == 1


def test_what_runs_on_the_loop_runs_on_any_loop(make):
    def score(output):
        return len(output)

    score.is_pure = True
    run, reward = make(FakeCompletion(["four"]), counts=True), make(score)

    async def rollout():
        return await reward(await run("prompt"))

    assert run_trio(rollout) == 4


@pytest.mark.asyncio
class TestCalls:
    async def test_counted_calls_end_with_the_budget(self, make):
        run = make(awaited_here, counts=True, max_calls=2)
        await run()
        await run()

        with pytest.raises(Exhausted, match="max_calls"):
            await run()

    async def test_uncounted_calls_cost_nothing(self, make, usage):
        reward = make(awaited_here, max_calls=0)

        assert await reward() is True
        assert usage.calls == 0

    @pytest.mark.parametrize("kind", ["async", "sync"])
    async def test_many_at_once_make_exactly_as_many_calls_as_allowed(self, make, kind):
        made = []

        async def run(number):
            await anyio.sleep(0)
            made.append(number)

        door = make(run if kind == "async" else made.append, counts=True, max_calls=40)
        refused = []

        async def worker(number):
            try:
                while True:
                    await door(number)
            except Exhausted:
                refused.append(number)

        async with anyio.create_task_group() as tg:
            for number in range(16):
                tg.start_soon(worker, number)

        assert len(made) == 40
        assert len(refused) == 16

    async def test_a_refused_call_is_not_made(self, make):
        made = []

        with pytest.raises(Exhausted):
            await make(made.append, counts=True, max_calls=0)(1)

        assert made == []

    async def test_a_thread_that_is_cancelled_before_it_begins_costs_nothing(self, threads, usage):
        spend = Spend({})
        door = Executor(threads, spend, usage).door(here, counts=True)

        with anyio.CancelScope() as scope:
            scope.cancel()
            await door("text", None)

        assert scope.cancelled_caught
        assert (spend.used(Unit.CALL), usage.calls) == (0, 0)

    async def test_usage_has_every_counted_call_and_its_failure(self, make, usage):
        async def run(error):
            if error is not None:
                raise error

        door = make(run, counts=True)
        await door(None)
        with pytest.raises(ValueError, match="bad"):
            await door(ValueError("bad"))

        assert (usage.calls, usage.failures) == (2, 1)
        assert usage.seconds > 0

    async def test_a_cancelled_call_is_no_failure(self, make, usage):
        with anyio.CancelScope() as scope:
            scope.cancel()
            await make(anyio.sleep_forever, counts=True)()

        assert (usage.calls, usage.failures) == (1, 0)

    @pytest.mark.parametrize("kind", ["async", "sync"])
    async def test_a_call_is_counted_once_where_it_is_nearest_to_the_model(self, make, usage, kind):
        async def model(prompt):
            return prompt

        complete = metered(model if kind == "async" else str.upper, usage)

        async def run(rendered):
            await _complete(complete, rendered)
            await _complete(complete, rendered)

        await make(run, counts=True)("rendered")

        assert usage.calls == 2

    async def test_a_completion_with_an_account_of_its_own_does_not_hide_the_call(
        self, make, usage
    ):
        other = Usage()

        await make(metered(str.upper, other), counts=True)("prompt")

        assert (usage.calls, other.calls) == (1, 1)


@pytest.mark.asyncio
class TestLeash:
    """What happens at a round's deadline to a call that is under way."""

    async def test_async_code_is_cancelled_where_it_waits(self, make):
        scope, leash = on_leash()

        async def run():
            leash.call_off()
            await anyio.sleep_forever()

        with scope:
            await make(run)(leash=leash)

        assert scope.cancelled_caught

    async def test_a_thread_is_left_alone_and_its_value_is_returned(self, make):
        scope, leash = on_leash()
        loop = asyncio.get_running_loop()

        def run():
            called = threading.Event()
            loop.call_soon_threadsafe(lambda: (leash.call_off(), called.set()))
            called.wait()
            return leash.in_thread, leash.overdue

        with scope:
            assert await make(run)(leash=leash) == (1, True)

        assert not scope.cancel_called
        assert leash.in_thread == 0

    async def test_what_goes_on_asynchronously_after_the_thread_is_cancelled_there(self, make):
        scope, leash = on_leash()
        log = []

        async def agent():
            try:
                await anyio.sleep_forever()
            finally:
                log.append("called off")

        def run():
            leash.overdue = True
            return agent()

        with scope:
            await make(run)(leash=leash)

        assert scope.cancelled_caught
        assert log == ["called off"]

    async def test_in_time_it_goes_on_asynchronously(self, make):
        scope, leash = on_leash()
        with scope:
            assert await make(deferred)(leash=leash) is True

        assert not scope.cancel_called

    async def test_a_blocking_call_of_async_code_is_left_alone(self, make):
        scope, leash = on_leash()
        loop = asyncio.get_running_loop()

        def block():
            called = threading.Event()
            loop.call_soon_threadsafe(lambda: (leash.call_off(), called.set()))
            called.wait()
            return "late"

        async def run():
            return await in_thread(block)

        with scope:
            assert await make(run)(leash=leash) == "late"

        assert leash.overdue
        assert not scope.cancel_called


def test_the_executor_offers_what_tells_kinds_apart():
    assert executor.is_async is is_async


async def _complete(complete, prompt):
    return await complete(prompt) if is_async(complete) else await in_thread(complete, prompt)
