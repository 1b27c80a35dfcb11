from random import Random

import anyio
import pytest

from agentdescent.core.diff import Diff
from agentdescent.core.outcomes import StopReason
from agentdescent.core.spend import Exhausted
from agentdescent.errors import (
    EvaluationFailed,
    GovernanceError,
    LedgerBusy,
    LedgerFull,
    RewardContractError,
)
from agentdescent.policy.staleness import get_policy
from support.merging import make_bench, worth


@pytest.mark.asyncio
async def test_a_card_that_did_not_help_on_its_own_task_is_turned_away():
    at = make_bench()
    aggregator = at.aggregator()
    for gain in (0.0, -0.5, 0.5, None):
        await aggregator.ingest(at.card(k0="good", gain=gain))

    assert (aggregator.pending(), aggregator.screened) == (2, 2)


@pytest.mark.asyncio
async def test_a_step_takes_what_is_due_and_leaves_the_rest():
    at = make_bench()
    aggregator = at.aggregator(batch_trigger=2, max_wait_rounds=2)
    await aggregator.ingest(at.card(k0="good"))

    assert await aggregator.step() == []
    assert aggregator.pending() == 1
    [report] = await aggregator.step()
    assert (report.committed_version, aggregator.pending()) == (2, 0)


@pytest.mark.asyncio
async def test_a_flush_takes_whatever_waits():
    at = make_bench()
    aggregator = at.aggregator(batch_trigger=9, max_wait_rounds=9)
    await aggregator.ingest(at.card(k0="good"))

    [report] = await aggregator.flush()

    assert (report.committed_version, aggregator.pending()) == (2, 0)


@pytest.mark.asyncio
async def test_without_evidence_there_is_no_report():
    aggregator = make_bench().aggregator()

    assert (await aggregator.step(), await aggregator.flush()) == ([], [])


@pytest.mark.asyncio
async def test_cards_are_judged_in_the_order_of_worker_and_serial_whatever_came_first():
    at = make_bench(worth(one=0.5, two=0.5))
    early, late = at.card(k="one"), at.card(k="two")

    report = await at.run(at.aggregator(), late, early)

    assert report.accepted.ops == {"k": "one"}


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.asyncio
async def test_what_is_merged_does_not_depend_on_the_order_of_arrival(seed):
    at = make_bench(state={"k6": "good"})
    cards = [
        *(at.card({f"k{i}": value}) for i in range(3) for value in ("good", "poor")),
        at.card(bad6="x"),
        at.card(k0="good"),
    ]
    Random(seed).shuffle(cards)

    report = await at.run(at.aggregator(), *cards)

    assert report.accepted.diff_id == "fused(w0:k0:1+w2:k1:1+w4:k2:1)"
    assert list(report.accepted.ops) == ["k0", "k1", "k2"]
    assert (report.conflicts_dropped, report.blamed, report.prob_improve) == (3, 1, 0.9375)


FAILURES = [
    EvaluationFailed("h0", TimeoutError("slow")),
    RewardContractError("47"),
    LedgerFull("no space"),
    KeyError("a bug"),
    Exhausted(StopReason.MAX_CALLS),
    KeyboardInterrupt(),
]


@pytest.mark.parametrize("error", FAILURES, ids=lambda error: type(error).__name__)
@pytest.mark.parametrize("stage", ["verifier", "ledger"])
@pytest.mark.asyncio
async def test_whatever_ends_a_merge_puts_its_cards_back(stage, error):
    at = make_bench()
    getattr(at, stage).failures = [error]
    aggregator = at.aggregator()
    for card in (at.card(k0="good"), at.card(k1="good")):
        await aggregator.ingest(card)

    with pytest.raises(type(error)) as caught:
        await aggregator.step()

    assert caught.value is error
    assert at.waiting(aggregator) == [({"k0": "good"}, 0), ({"k1": "good"}, 0)]
    [report] = await aggregator.step()
    assert report.accepted.ops == {"k0": "good", "k1": "good"}


@pytest.mark.asyncio
async def test_cancellation_puts_the_cards_back_before_those_that_came_meanwhile():
    at = make_bench()
    aggregator = at.aggregator()
    await aggregator.ingest(at.card(k0="good"))

    async def hang(*_args, **_kwargs):
        await aggregator.ingest(at.card(k1="good"))
        await anyio.sleep_forever()

    at.verifier.gate = hang
    with anyio.move_on_after(0.01):
        await aggregator.step()

    assert at.waiting(aggregator) == [({"k0": "good"}, 0), ({"k1": "good"}, 0)]


@pytest.mark.asyncio
async def test_a_frozen_artifact_is_not_merged():
    at = make_bench()
    aggregator = at.aggregator()
    at.ledger.visible["oracle"] = at.head
    card = at.card(k0="good")
    frozen = type(card)(Diff("d", "oracle", {"k0": "good"}), {"oracle": 1}, ["oracle"])
    await aggregator.ingest(frozen)

    with pytest.raises(GovernanceError, match="oracle"):
        await aggregator.step()

    assert aggregator.pending() == 1


@pytest.mark.asyncio
async def test_what_survives_is_promoted_and_a_clean_end_promotes_the_rest():
    at = make_bench()
    aggregator = at.aggregator(promote_after_k=2)
    await at.run(aggregator, at.card(k0="good"))
    for _ in range(2):
        await aggregator.step()
    await at.run(aggregator, at.card(k1="good", base=2))

    await aggregator.finalize()

    assert at.ledger.promoted == [("skill", 2), ("skill", 3)]


@pytest.mark.asyncio
async def test_a_ledger_too_busy_to_promote_costs_no_merge():
    at = make_bench()
    aggregator = at.aggregator(promote_after_k=1)
    await at.run(aggregator, at.card(k0="good"))
    at.ledger.failures = [LedgerBusy("locked")]

    assert await aggregator.step() == []
    assert await aggregator.step() == []
    assert at.ledger.promoted == [("skill", 2)]


@pytest.mark.asyncio
async def test_the_staleness_policy_is_the_one_given():
    at = make_bench()
    for value in "xyz":
        at.ledger.publish(k0=value)

    report = await at.run(at.aggregator(policy=get_policy("full")), at.card(k0="good"))

    assert report.category == "committed"
    assert at.aggregator().staleness_policy.name == "guarded"
