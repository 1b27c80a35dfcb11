"""What a run grants to completions, and what they tell it."""

import anyio
import pytest

from agentdescent.calls import ModelCall, Role, RunCalls, calls_of, current_run, working_as
from agentdescent.core.outcomes import StopReason
from agentdescent.core.reply import Tokens
from agentdescent.core.spend import Exhausted, Spend, Unit
from agentdescent.errors import UnpricedModelError
from agentdescent.pricing import Price, Prices
from agentdescent.usage import Usage
from support.provider import Provider

pytestmark = [pytest.mark.asyncio, pytest.mark.looptime(start=0)]


def a_run(prices=None, **limits):
    reasons = {
        Unit.ATTEMPT: StopReason.MAX_ATTEMPTS,
        Unit.TOKEN: StopReason.MAX_TOKENS,
        Unit.USD: StopReason.MAX_COST,
    }
    spend = Spend({unit: (limits.get(unit.value), reason) for unit, reason in reasons.items()})
    return RunCalls(spend, Usage(), prices=Prices(prices))


def a_call(**values):
    return ModelCall(
        **{"provider": "acme", "model": "m1", "endpoint": "", "role": "solve"} | values
    )


async def test_without_budgets_everyone_is_admitted_at_once(looptime):
    run, model = a_run(), Provider(seconds=1)

    with calls_of(run):
        async with anyio.create_task_group() as group:
            for _ in range(100):
                group.start_soon(model, "prompt")

    assert (model.most, looptime) == (100, 1)
    assert run.spend.spent(Unit.ATTEMPT) == 100
    assert run.spend.spent(Unit.TOKEN) == 10_000


async def test_who_must_wait_goes_on_when_others_have_taken_less(looptime):
    run, model = a_run(token=1000), Provider(max_tokens=500, seconds=1)

    with calls_of(run):
        async with anyio.create_task_group() as group:
            for _ in range(3):
                group.start_soon(model, "prompt")

    assert (model.most, looptime) == (2, 2)
    assert run.spend.used(Unit.TOKEN) == 300


async def test_who_waits_is_told_when_nothing_is_left(looptime):
    run, model = a_run(token=100), Provider(max_tokens=100, seconds=1)
    told = []

    async def ask():
        try:
            await model("prompt")
        except Exhausted as order:
            told.append((anyio.current_time(), order.reason))

    with calls_of(run):
        async with anyio.create_task_group() as group:
            for _ in range(3):
                group.start_soon(ask)

    assert told == [(1, StopReason.MAX_TOKENS)] * 2
    assert run.spend.count(Unit.ATTEMPT) == 1


async def test_waiting_can_be_cancelled_and_costs_nothing():
    run = a_run(token=100)
    await run.admit(max_tokens=100)

    with anyio.move_on_after(5) as scope:
        await run.admit(max_tokens=100)

    assert scope.cancelled_caught
    assert (run.spend.count(Unit.ATTEMPT), run.spend.used(Unit.TOKEN)) == (1, 100)


async def test_what_is_cancelled_is_a_request_that_gives_back_what_it_held():
    run, model = a_run(token=100), Provider(max_tokens=100, seconds=10)

    with calls_of(run):
        with anyio.move_on_after(1):
            await model("first")
        await model("second")

    assert (model.served, run.spend.used(Unit.TOKEN)) == (2, 100)
    assert (run.usage.provider_calls, run.usage.failures) == (2, 0)
    assert run.usage.seconds == 11


async def test_what_raises_before_it_is_noted_is_a_failed_request():
    run, heard = a_run(token=100), []
    run.listen(heard.append)

    asked = {"provider": "acme", "model": "m1", "endpoint": "http://here", "max_tokens": 60}
    with pytest.raises(KeyError), working_as(Role.MERGE), await run.admit(**asked):
        raise KeyError("x")

    (call,) = heard
    assert (call.provider, call.model, call.endpoint) == ("acme", "m1", "http://here")
    assert (call.role, call.error, call.cancelled) == ("merge", "KeyError", False)
    assert run.spend.used(Unit.TOKEN) == 0
    assert run.usage.failures == 1


async def test_a_call_is_noted_once():
    run = a_run(token=100)

    with await run.admit(max_tokens=60):
        run.note(a_call(tokens=Tokens(10, 5)))

    assert (run.usage.calls, run.spend.used(Unit.TOKEN)) == (1, 15)


async def test_a_call_that_nobody_admitted_is_paid_for_all_the_same():
    run = a_run(token=100)
    with await run.admit(max_tokens=60):
        run.note(a_call(tokens=Tokens(10, 5)))

    run.note(a_call(tokens=Tokens(20, 5)))

    assert (run.usage.calls, run.spend.used(Unit.TOKEN)) == (2, 40)


async def test_an_admission_to_another_run_is_left_alone():
    first, second = a_run(token=100), a_run(token=100)
    admission = await first.admit(max_tokens=60)

    second.note(a_call(tokens=Tokens(10, 5)))

    assert first.spend.used(Unit.TOKEN) == 60
    first.note(a_call(tokens=Tokens(1, 1)), admission)
    assert first.spend.used(Unit.TOKEN) == 2


@pytest.mark.parametrize(
    ("values", "usd"),
    [
        ({"tokens": Tokens(1_000_000, 0)}, 2.0),
        ({"tokens": Tokens(1_000_000, 0), "usd": 5.0}, 5.0),
        ({"tokens": None}, None),
        ({"tokens": Tokens(1_000_000, 0), "model": "m2"}, None),
        ({"tokens": None, "model": "own"}, 0.0),
    ],
)
async def test_calls_are_priced(values, usd):
    run, heard = a_run(prices={"m1": Price(2.0, 8.0), "own": Price(0.0, 0.0)}), []
    run.listen(heard.append)

    run.note(a_call(**values))

    assert heard[0].usd == run.usage.usd == usd


async def test_tokens_held_are_priced_as_output():
    run = a_run(prices={"m1": Price(1.0, 10.0)}, usd=1.0)

    await run.admit(provider="acme", model="m1", max_tokens=1000)

    assert run.spend.used(Unit.USD) == 0.01


async def test_a_budget_of_dollars_needs_a_price():
    run = a_run(usd=1.0)

    with pytest.raises(UnpricedModelError, match="the price of model 'm1' is not known"):
        await run.admit(provider="acme", model="m1")
    assert run.spend.count(Unit.ATTEMPT) == 0


async def test_a_replys_size_is_expected_to_be_what_the_role_usually_takes():
    run = a_run(token=10**6)

    with working_as(Role.SOLVE):
        assert (await run.admit()).held == {Unit.TOKEN: 4096}
        for size in range(1, 101):
            run.note(a_call(role=Role.SOLVE, tokens=Tokens(size, 0)))
        assert (await run.admit()).held == {Unit.TOKEN: 95}
    with working_as(Role.REFLECT):
        assert (await run.admit()).held == {Unit.TOKEN: 4096}


async def test_the_run_is_found_inside_the_block_only():
    run = a_run()

    with calls_of(run):
        assert current_run() is run
    assert current_run() is None


async def test_what_is_shared_is_made_once_and_closed_last_first():
    run, closed = a_run(), []

    async def close(name):
        closed.append(name)

    assert run.once("key", object) is run.once("key", object)
    run.on_close(lambda: close("first"))
    run.on_close(lambda: close("second"))
    await run.aclose()
    await run.aclose()

    assert closed == ["second", "first"]
