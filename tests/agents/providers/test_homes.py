"""Where completions are called from: scripts, loops, threads, runs."""

import asyncio
import gc
import threading
import time

import anyio
import pytest
from anyio.from_thread import BlockingPortal

import agentdescent
from agentdescent.agents.providers.connections import Connections
from agentdescent.calls import Role, RunCalls, Stage, calls_of, working_as, working_at
from agentdescent.core.outcomes import StopReason
from agentdescent.core.spend import Exhausted, Spend, Unit
from agentdescent.errors import ProviderAuthError, ProviderTimeout, RunningLoopError
from agentdescent.threads import in_thread
from agentdescent.usage import Usage
from support.apis import (
    CLAUDE,
    FLAVOURS,
    KEY,
    OPENAI,
    free_port,
    hangs,
    refuses,
    says,
    serving,
    serving_in_a_thread,
)

flavours = pytest.mark.parametrize("flavour", FLAVOURS, ids=lambda flavour: flavour.name)


@pytest.fixture
def complete():
    with serving_in_a_thread(says(OPENAI.reply())) as server:
        yield OPENAI.complete(server)


class InRun:
    """A run as completions see it."""

    def __init__(self, limits=None):
        self.calls = []
        spend = Spend(limits or {})
        self.run = RunCalls(spend, Usage(), [self.calls.append])

    async def __aenter__(self):
        self._calls = calls_of(self.run)
        self._calls.__enter__()
        self.run.portal = await BlockingPortal().__aenter__()
        return self

    async def __aexit__(self, *error):
        await self.run.portal.stop()
        await self.run.portal.__aexit__(None, None, None)
        self._calls.__exit__(None, None, None)
        await self.run.aclose()


def test_scripts_need_no_loop(complete):
    assert [bool(complete.sync("x")), bool(complete.sync("y"))] == [True, True]


@flavours
@pytest.mark.asyncio
async def test_a_run_sends_a_key_that_was_refused_no_second_time(flavour):
    async with serving(refuses(401)) as server, InRun():
        complete = flavour.complete(server)
        for attempts in (1, 0, 0):
            with pytest.raises(ProviderAuthError) as caught:
                await complete("x")
            assert (caught.value.status, caught.value.attempts) == (401, attempts)

        with pytest.raises(ProviderAuthError):
            await flavour.complete(server, api_key="sk-another-one")("x")
        assert len(server.requests) == 2


@pytest.mark.asyncio
async def test_a_key_that_was_good_once_is_sent_again():
    acts = [says(OPENAI.reply()), refuses(401), says(OPENAI.reply("better"))]
    async with serving(*acts) as server, InRun():
        complete = OPENAI.complete(server)
        await complete("x")
        with pytest.raises(ProviderAuthError):
            await complete("x")
        assert await complete("x") == "better"


@pytest.mark.asyncio
async def test_outside_of_runs_a_key_may_become_good():
    acts = [refuses(401), says(OPENAI.reply())]
    async with serving(*acts) as server, OPENAI.complete(server) as complete:
        with pytest.raises(ProviderAuthError):
            await complete("x")
        assert await complete("x") == "fine"


@pytest.mark.asyncio
async def test_sync_on_a_loop_is_refused(complete):
    with pytest.raises(RunningLoopError, match=r"use `await complete\(prompt\)`"):
        complete.sync("x")
    async with InRun():
        with pytest.raises(RunningLoopError, match=r"use `await complete\(prompt\)`"):
            complete.sync("x")


def test_several_loops_and_threads_one_after_another(complete):
    replies = []

    def in_a_loop():
        replies.append(asyncio.run(complete("x")))

    for _ in range(2):
        in_a_loop()
        thread = threading.Thread(target=in_a_loop)
        thread.start()
        thread.join()
    replies.append(complete.sync("x"))
    gc.collect()

    assert len([reply for reply in replies if reply]) == 5


def test_threads_at_the_same_time(complete):
    replies = []
    threads = [
        threading.Thread(target=lambda: replies.append(complete.sync("x"))) for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert len(replies) == 4


@pytest.mark.asyncio
async def test_connections_are_pooled_until_they_are_closed():
    async with serving(says(OPENAI.reply())) as server:
        complete = OPENAI.complete(server)
        await complete("x")
        await complete("x")
        assert server.connections == 1

        await complete.aclose()
        await complete("x")
        assert server.connections == 2
        await complete.aclose()
        await complete.aclose()


def test_connections_end_with_their_loop_without_a_word(complete, recwarn):
    async def use():
        await complete("x")
        return await complete._connections.client()

    client = asyncio.run(use())
    gc.collect()

    assert client.is_closed
    assert not recwarn.list


@pytest.mark.asyncio
async def test_connections_end_with_a_completion_that_nobody_holds_any_more():
    async with serving(says(OPENAI.reply())) as server:
        complete = OPENAI.complete(server)
        await complete("x")
        client = await complete._connections.client()
        del complete
        gc.collect()
        await asyncio.sleep(0)  # in which the loop learns of it
        await asyncio.gather(*asyncio.all_tasks() - {asyncio.current_task(), *server.tasks})

        assert client.is_closed


@pytest.mark.asyncio
async def test_a_run_owns_its_connections_and_closes_them():
    async with serving(says(OPENAI.reply())) as server:
        complete = OPENAI.complete(server)
        async with InRun():
            await complete("x")
            client = await complete._connections.client()
            assert not client.is_closed

        assert client.is_closed
        async with InRun():
            assert await complete("x") == "fine"


@pytest.mark.asyncio
async def test_completions_of_a_run_share_the_limiter_of_an_endpoint():
    async with serving(says(OPENAI.reply())) as server:
        one, two, other = (
            OPENAI.complete(server), OPENAI.complete(server), OPENAI.complete(server, api_key="k")
        )  # fmt: skip

        def limiters():
            return [
                each._connections.limiter(each._access.endpoint()) for each in (one, two, other)
            ]

        async with InRun():
            first, second, third = limiters()
        assert first is second
        assert first is not third

        first, second, third = limiters()
        assert first is not second
        assert limiters()[0] is first


@flavours
@pytest.mark.asyncio
async def test_a_run_admits_and_notes_every_attempt(flavour):
    acts = [refuses(500), says(flavour.reply())]
    async with serving(*acts) as server, InRun() as inside:
        complete = flavour.complete(server, usage=inside.run.usage)
        with working_as(Role.REFLECT):
            await complete("x")

    bad, good = inside.calls
    assert (bad.attempt, bad.status, bad.role, bad.tokens) == (1, 500, Role.REFLECT, None)
    assert bad.error.startswith("status 500: no, not even for")
    assert KEY not in bad.error
    assert (good.attempt, good.status, good.error) == (2, 200, "")
    assert good.tokens.total == 4
    assert (good.model, good.endpoint) == ("m-1", server.url)
    assert good.seconds > 0
    usage = inside.run.usage
    assert (usage.calls, usage.provider_calls, usage.failures, usage.total_tokens) == (2, 2, 1, 4)
    assert inside.run.spend.count(Unit.ATTEMPT) == 2


@pytest.mark.asyncio
async def test_an_account_of_its_own_is_kept_beside_the_runs(account):
    async with serving(says(OPENAI.reply())) as server, InRun() as inside:
        await OPENAI.complete(server, usage=account)("x")

    assert account.provider_calls == inside.run.usage.provider_calls == 1


@pytest.mark.asyncio
async def test_a_spent_budget_makes_no_request():
    limits = {Unit.ATTEMPT: (2, StopReason.MAX_CALLS)}
    async with serving(refuses(500)) as server, InRun(limits):
        with pytest.raises(Exhausted):
            await OPENAI.complete(server)("x")

        assert len(server.requests) == 2


@pytest.mark.asyncio
async def test_a_thread_of_a_run_asks_on_the_runs_loop():
    async with serving(says(OPENAI.reply())) as server, InRun() as inside:
        complete = OPENAI.complete(server)
        await complete("x")

        assert await in_thread(complete.sync, "y") == "fine"
        assert await in_thread(lambda: asyncio.run(complete("z"))) == "fine"
        assert await in_thread(lambda: asyncio.run(complete.check())) is not None
        assert server.connections == 1
        assert len(inside.calls) == 4


@pytest.mark.asyncio
async def test_an_order_to_stop_reaches_the_thread():
    limits = {Unit.ATTEMPT: (0, StopReason.MAX_CALLS)}
    async with serving(says(OPENAI.reply())) as server, InRun(limits):
        with pytest.raises(Exhausted):
            await in_thread(OPENAI.complete(server).sync, "x")


@pytest.mark.asyncio
async def test_a_cancelled_call_drops_its_connection_and_is_noted():
    async with serving(hangs()) as server, InRun() as inside:
        complete = OPENAI.complete(server)
        with anyio.move_on_after(0.1) as scope:
            await complete("x")

        assert scope.cancelled_caught
        assert [call.cancelled for call in inside.calls] == [True]
        assert complete._connections.limiter(complete._access.endpoint()).under_way == 0


@pytest.mark.asyncio
async def test_gates_and_rollouts_wait_in_queues_of_their_own():
    served = []

    async def act(writer, request):
        served.append(request.body["messages"][0]["content"])
        return await says(OPENAI.reply())(writer, request)

    async with serving(act) as server, OPENAI.complete(server) as complete:
        limiter = complete._connections.limiter(complete._access.endpoint())
        limiter.window.limit = 1
        limiter.window.succeed = lambda _: None
        async with anyio.create_task_group() as group:
            for prompt in ("r1", "r2", "r3"):
                group.start_soon(complete, prompt)
            await anyio.sleep(0)
            with working_at(Stage.GATE):
                for prompt in ("g1", "g2"):
                    group.start_soon(complete, prompt)

    assert served == ["r1", "r2", "g1", "r3", "g2"]


@pytest.mark.asyncio
async def test_no_turn_before_the_deadline_is_a_timeout():
    async with serving(says(OPENAI.reply())) as server:
        async with OPENAI.complete(server, deadline=0.1) as complete:
            complete._connections.limiter(complete._access.endpoint()).pause(5)
            with pytest.raises(ProviderTimeout, match=r"no turn at the endpoint within 0.1 s"):
                await complete("x")

        assert not server.requests


@pytest.mark.asyncio
async def test_the_deadline_ends_an_attempt_as_well():
    async with serving(hangs()) as server, OPENAI.complete(server, deadline=0.1) as complete:
        with pytest.raises(ProviderTimeout, match=r"no whole reply within 0.1 s \(1 attempt\)"):
            await complete("x")


@pytest.mark.asyncio
async def test_retry_after_holds_back_everyone_at_the_endpoint():
    acts = [refuses(429, extra=["retry-after: 0.3"]), says(OPENAI.reply())]
    arrived = []

    async def act(writer, request):
        arrived.append(time.perf_counter())
        return await acts[min(len(arrived), 2) - 1](writer, request)

    async with (
        serving(act) as server,
        OPENAI.complete(server) as complete,
        anyio.create_task_group() as group,
    ):
        limiter = complete._connections.limiter(complete._access.endpoint())
        limiter.window.limit = 1
        group.start_soon(complete, "refused")
        group.start_soon(complete, "held back")

    assert len(arrived) == 3
    assert min(arrived[1:]) - arrived[0] >= 0.28


@flavours
@pytest.mark.asyncio
async def test_check_says_what_works(flavour):
    acts = says(flavour.reply("It takes 85."))
    async with serving(acts) as server, flavour.complete(server) as complete:
        check = await complete.check()

    assert check.ok
    assert (check.model, check.endpoint, check.reply) == ("m-1", server.url, "It takes 85.")
    assert f"m-1 at {server.url}: key, model and endpoint work (" in str(check)
    assert str(check).endswith("s, 4 tokens)")


@flavours
@pytest.mark.parametrize(
    ("text", "problem"), [("", "nothing but thought"), ("Let me", "the reply was cut off")]
)
@pytest.mark.asyncio
async def test_check_finds_out_a_limit_that_is_too_low(flavour, text, problem):
    reply = flavour.reply(text, reason=flavour.length) | {"usage": None}
    async with serving(says(reply)) as server, flavour.complete(server, max_tokens=8) as complete:
        check = await complete.check()

    assert not check.ok
    assert problem in check.problem
    assert "raise max_tokens (now 8)" in str(check)
    assert "without saying how many tokens" in str(check)


@flavours
@pytest.mark.alone
@pytest.mark.asyncio
async def test_a_wrong_key_and_no_key_fail_at_once(flavour):
    took = []
    async with serving(refuses(401)) as server:
        for key in (KEY, None) * 4:
            async with flavour.complete(server, api_key=key, backoff=60) as complete:
                began = time.perf_counter()
                with pytest.raises(ProviderAuthError):
                    await complete("x")
                took.append(time.perf_counter() - began)
        assert len(server.requests) == 4
    assert min(took) < 0.1


def test_a_run_uses_a_model_through_one_agent(complete):
    result = agentdescent.evolve(
        tasks(20), lambda task, output: 0.5, agent=agentdescent.LLMAgent(complete), rounds=1
    )

    usage = result.usage
    assert result.error is None
    assert usage.provider_calls == usage.calls > 6
    assert usage.total_tokens == 4 * usage.calls
    assert set(usage.roles) == {Role.SOLVE, Role.REFLECT}


def test_a_synchronous_agent_of_a_run_asks_on_its_loop(complete):
    result = agentdescent.evolve(
        tasks(20),
        lambda task, output: float(output == "fine"),
        run=lambda rendered, task: complete.sync(task.prompt),
        propose=lambda *_: None,
        rounds=1,
    )

    assert result.error is None
    assert result.usage.provider_calls == result.usage.calls > 6
    assert result.final_reward == 1.0


def tasks(count):
    return [agentdescent.Task(id=f"t{n}", prompt=f"task {n}") for n in range(count)]


def test_a_given_client_belongs_to_nobody_here():
    given = object()

    assert asyncio.run(Connections(given).client()) is given


def test_an_address_where_nobody_listens(recwarn):
    complete = CLAUDE.make(
        api_key=KEY, base_url=f"http://127.0.0.1:{free_port()}", retries=1, backoff=0
    )

    with pytest.raises(agentdescent.BackendError, match="names a running server"):
        complete.sync("x")
    assert not recwarn.list
