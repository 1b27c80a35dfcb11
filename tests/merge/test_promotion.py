import pytest

from agentdescent.aggregator import MergeReport
from agentdescent.errors import LedgerBusy, LedgerFull
from agentdescent.merge.promotion import Promotion
from support.merging import make_bench

COMMITTED = MergeReport("skill", committed_version=2, category="committed")
REJECTED = MergeReport("skill", category="below-threshold")
VETOED = MergeReport("skill", category="oracle-rejected")
UNKNOWN = MergeReport("nobody", category="unknown-artifact")


async def promotions(at, *steps, after=2):
    """How many promotions there are after each of `steps`, which are lists of reports."""
    promotion = Promotion(at.ledger, after)
    counts = []
    for reports in steps:
        await promotion.observe(reports)
        counts.append(len(at.ledger.promoted))
    return counts


@pytest.mark.asyncio
async def test_a_version_is_promoted_after_so_many_steps_without_a_change():
    assert await promotions(make_bench(), [COMMITTED], [], []) == [0, 0, 1]


@pytest.mark.asyncio
async def test_a_rejection_below_the_threshold_counts_as_survived():
    assert await promotions(make_bench(), [REJECTED], [REJECTED]) == [0, 1]


@pytest.mark.parametrize("setback", [COMMITTED, VETOED])
@pytest.mark.asyncio
async def test_a_change_or_a_veto_starts_the_count_anew(setback):
    assert await promotions(make_bench(), [REJECTED], [setback], [], []) == [0, 0, 0, 1]


@pytest.mark.asyncio
async def test_the_same_version_is_promoted_once():
    at = make_bench()

    assert await promotions(at, [COMMITTED], [], [], [], [], []) == [0, 0, 1, 1, 1, 1]
    assert at.ledger.promoted == [("skill", 1)]


@pytest.mark.asyncio
async def test_a_newer_version_is_promoted_again():
    at = make_bench()
    promotion = Promotion(at.ledger, after=1)
    await promotion.observe([REJECTED])
    at.ledger.publish(k="x")
    await promotion.observe([COMMITTED])
    await promotion.observe([])

    assert at.ledger.promoted == [("skill", 1), ("skill", 2)]


@pytest.mark.asyncio
async def test_an_unknown_artifact_is_never_promoted():
    at = make_bench()
    promotion = Promotion(at.ledger, after=1)
    await promotion.observe([UNKNOWN])
    await promotion.finish()

    assert at.ledger.promoted == []


@pytest.mark.asyncio
async def test_a_busy_ledger_is_asked_again_after_the_next_step():
    at = make_bench()
    at.ledger.failures = [LedgerBusy("locked")]

    assert await promotions(at, [REJECTED], [], []) == [0, 0, 1]


@pytest.mark.asyncio
async def test_any_other_ledger_error_is_raised():
    at = make_bench()
    at.ledger.failures = [LedgerFull("no space")]

    with pytest.raises(LedgerFull):
        await promotions(at, [REJECTED], after=1)


@pytest.mark.asyncio
async def test_finishing_promotes_every_artifact_that_a_report_named():
    at = make_bench()
    promotion = Promotion(at.ledger, after=9)
    await promotion.observe([COMMITTED])

    await promotion.finish()
    await promotion.finish()

    assert at.ledger.promoted == [("skill", 1)]


@pytest.mark.asyncio
async def test_finishing_promotes_nothing_that_no_report_named():
    at = make_bench()

    await Promotion(at.ledger, after=1).finish()

    assert at.ledger.promoted == []


@pytest.mark.asyncio
async def test_finishing_does_not_hide_a_busy_ledger():
    at = make_bench()
    promotion = Promotion(at.ledger, after=9)
    await promotion.observe([COMMITTED])
    at.ledger.failures = [LedgerBusy("locked")]

    with pytest.raises(LedgerBusy):
        await promotion.finish()
