"""Budgets of attempts, tokens and dollars: exact where that is possible, else within bounds."""

import pytest

from agentdescent import ContractError, StopReason
from agentdescent.calls import current_run
from agentdescent.core.reply import Tokens
from agentdescent.errors import UnpricedModelError
from agentdescent.pricing import Price
from agentdescent.threads import on_loop
from support.provider import EACH, PRICES, USD_EACH, Asking, Provider
from support.worlds import N_HELD_OUT, World

pytestmark = pytest.mark.asyncio
virtual = pytest.mark.looptime(start=0)

UNKNOWN = pytest.mark.parametrize(
    "limit", [{"max_attempts": 40}, {"max_tokens": 4000}, {"max_cost": 1.0}], ids=str
)


@virtual
@pytest.mark.parametrize("n_workers", [1, 4, 16])
@pytest.mark.parametrize("budget", [10, 11, 40, 63])
async def test_exactly_so_many_attempts_reach_the_server(evolve_world, n_workers, budget):
    world = Asking()

    result = await evolve_world(world, max_attempts=budget, n_workers=n_workers, rounds=500)

    assert result.stop_reason == StopReason.MAX_ATTEMPTS
    assert world.model.served == budget == result.usage.provider_calls == result.usage.calls
    assert result.error is None


@virtual
@pytest.mark.parametrize("failing", [0, 5])
async def test_forty_calls_of_the_actor_are_forty_requests(evolve_world, failing):
    world = Asking(Provider(failing=failing))

    result = await evolve_world(world, max_calls=40, n_workers=16, rounds=500)

    assert (result.stop_reason, result.actor_calls) == ("max_calls", 40)
    assert world.model.served == result.usage.provider_calls == result.usage.calls == 40
    assert result.usage.failures == failing


@virtual
async def test_failed_attempts_count_as_attempts(evolve_world):
    world = Asking(Provider(failing=7))

    result = await evolve_world(world, max_attempts=40, n_workers=16, rounds=500)

    assert (world.model.served, result.usage.failures) == (40, 7)


@virtual
@pytest.mark.parametrize("n_workers", [1, 16])
async def test_tokens_exceed_their_budget_by_less_than_one_expected_call(evolve_world, n_workers):
    world = Asking(Provider(max_tokens=100))

    result = await evolve_world(world, max_tokens=4050, n_workers=n_workers, rounds=500)

    assert result.stop_reason == StopReason.MAX_TOKENS
    assert result.usage.total_tokens == 4100
    assert world.model.most > 1


@virtual
async def test_what_a_call_takes_is_learnt_where_it_does_not_say(evolve_world):
    world = Asking()

    result = await evolve_world(world, max_tokens=12_000, n_workers=16, rounds=500)

    assert result.usage.total_tokens == 12_000
    assert world.model.most > 3  # at first they were expected to take 4,096 each


@virtual
async def test_calls_dearer_than_expected_exceed_by_what_was_under_way(evolve_world):
    world = Asking(Provider(max_tokens=10))  # each takes 100

    result = await evolve_world(world, max_tokens=4050, n_workers=16, rounds=500)

    assert result.stop_reason == StopReason.MAX_TOKENS
    assert 4050 <= result.usage.total_tokens <= 4050 + world.model.most * EACH.total


@virtual
async def test_dollars_exceed_their_budget_by_less_than_one_expected_call(evolve_world):
    world = Asking(Provider(max_tokens=28))

    result = await evolve_world(
        world, max_cost=40.5 * USD_EACH, prices=PRICES, n_workers=16, rounds=500
    )

    assert result.stop_reason == StopReason.MAX_COST
    assert result.usage.usd == pytest.approx(41 * USD_EACH)
    assert world.model.served == 41


@virtual
async def test_a_budget_below_one_estimate_still_buys_something(evolve_world):
    world = Asking()

    with pytest.warns(RuntimeWarning, match="could not be measured"):
        result = await evolve_world(world, max_tokens=50, rounds=500)

    assert world.model.served == 1
    assert (result.stop_reason, result.initial_reward) == ("max_tokens", None)


@virtual
async def test_replies_of_unknown_size_take_what_was_expected(evolve_world):
    world = Asking(Provider(tokens=None, max_tokens=100))

    result = await evolve_world(world, max_tokens=4000, n_workers=16, rounds=500)

    assert world.model.served == 40
    assert result.usage.total_tokens == 0


@virtual
async def test_failures_take_no_tokens(evolve_world):
    world = Asking(Provider(max_tokens=100, failing=6))

    result = await evolve_world(world, max_tokens=4000, n_workers=16, rounds=500)

    assert world.model.served == 40 + 6
    assert result.usage.total_tokens == 4000


@virtual
async def test_the_first_artifact_is_measured_first(evolve_world):
    world = Asking()

    result = await evolve_world(world, max_attempts=N_HELD_OUT, rounds=500)

    assert {name for _, name in world.seen[:N_HELD_OUT]} == world.held_out
    assert (result.initial_reward, result.final_reward, result.rollouts) == (0.0, 0.0, 0)


@virtual
async def test_nothing_is_committed_without_being_measured(evolve_world):
    for budget in range(30, 90, 7):
        world = Asking()

        result = await evolve_world(world, max_attempts=budget, n_workers=8, rounds=500)

        tried = {name for rendered, name in world.seen if rendered == result.rendered}
        assert tried >= world.held_out
        assert world.model.served == budget


@virtual
async def test_a_judge_pays_like_everyone(evolve_world):
    world, judge = World(), Provider()

    async def reward(task, output):
        await judge(output)
        return await world.reward(task, output)

    result = await evolve_world(world, reward=reward, max_attempts=40, rounds=500)

    assert (judge.served, result.stop_reason) == (40, "max_attempts")
    assert result.usage.roles["judge"].provider_calls == 40


@pytest.mark.parametrize("n_workers", [1, 8])
async def test_the_order_to_end_comes_through_threads(evolve_world, n_workers):
    world = Asking(Provider(seconds=0))

    def run(rendered, task):
        return on_loop(current_run().portal, lambda: world.model(rendered))

    result = await evolve_world(world, run=run, max_attempts=40, n_workers=n_workers, rounds=500)

    assert (world.model.served, result.stop_reason) == (40, "max_attempts")
    assert result.error is None


@virtual
async def test_an_unknown_price_is_told_before_any_request(evolve_world):
    world = Asking()

    with pytest.raises(UnpricedModelError, match=r"'m1'.*prices=\{'m1': Price\(") as caught:
        await evolve_world(world, max_cost=1.0)

    assert isinstance(caught.value, ContractError)
    assert isinstance(caught.value, ValueError)
    assert world.model.served == 0


@virtual
async def test_an_actor_that_names_an_unpriced_model_is_refused_at_once(evolve_world):
    world = Asking()

    class Agent:
        model, provider = "m1", "acme"

        async def __call__(self, rendered, task):
            return await world.model(rendered)

    with pytest.raises(UnpricedModelError, match="m1"):
        await evolve_world(world, run=Agent(), max_cost=1.0)
    assert world.calls == []

    result = await evolve_world(world, run=Agent(), max_cost=1.0, prices=PRICES)
    assert result.usage.usd > 0


@virtual
async def test_a_model_of_ones_own_costs_nothing(evolve_world):
    world = Asking()

    result = await evolve_world(world, max_cost=1.0, prices={"m1": Price(0.0, 0.0)}, rounds=3)

    assert result.usage.usd == 0.0
    assert result.stop_reason in {"rounds", "max_iters"}


@virtual
@UNKNOWN
async def test_a_budget_that_saw_nothing_says_so(evolve_world, limit):
    with pytest.warns(RuntimeWarning, match=f"{next(iter(limit))} limited nothing.*max_calls"):
        result = await evolve_world(World(), rounds=3, **limit)

    assert result.usage.provider_calls is None


@virtual
async def test_a_run_in_which_all_calls_failed_is_told_nothing_of_its_budgets(evolve_world):
    async def unset(rendered, task):
        raise OSError("there is no key")

    with pytest.warns(RuntimeWarning) as seen:
        result = await evolve_world(World(), run=unset, max_tokens=100)

    assert "there is no key" in result.error
    assert not [str(one.message) for one in seen if "limited nothing" in str(one.message)]


@virtual
async def test_spent_budgets_end_waiting_calls_too(evolve_world):
    world = Asking(Provider(tokens=Tokens(5000, 0), max_tokens=4096))

    result = await evolve_world(world, max_tokens=60_001, n_workers=16, rounds=500)

    assert result.stop_reason == "max_tokens"
    assert world.model.served == 13


@pytest.mark.parametrize(
    ("options", "error", "words"),
    [
        ({"max_attempts": 0}, ValueError, "max_attempts must be >= 1, got 0"),
        ({"max_tokens": -1}, ValueError, "max_tokens must be >= 1, got -1"),
        ({"max_cost": 0.0}, ValueError, "max_cost must be > 0, got 0.0"),
        ({"prices": [1]}, TypeError, "prices must map models to Price, got list"),
        ({"prices": {"m": 2.0}}, TypeError, r"prices\['m'\] must be a Price, got 2.0"),
        ({"telemetry": 3}, TypeError, "telemetry must be a path, got int"),
        ({"telemetry": ""}, ValueError, "telemetry='' names no file"),
    ],
)
async def test_what_cannot_be_meant_is_refused(evolve_world, options, error, words):
    world = World()

    with pytest.raises(error, match=words):
        await evolve_world(world, **options)

    assert world.calls == []
