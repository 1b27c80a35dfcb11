"""A merge tells which edits it turned down, and what was measured."""

import pytest

from agentdescent.aggregator import AggregatorConfig, Verdict
from agentdescent.core.diff import Diff
from agentdescent.merge.record import Merge
from support.merging import SKILL, make_bench, worth


def told(report):
    return {
        tuple(refusal.diff.ops.items()): (refusal.category, refusal.gain, refusal.reason)
        for refusal in report.refused
    }


@pytest.mark.asyncio
async def test_a_single_edit_is_refused_with_its_gain():
    at = make_bench(worth(start=0.5, bad=0.25), state={"k": "start"})

    report = await at.run(at.aggregator(), at.card(k="bad"))

    assert report.category == "below-threshold"
    [(category, gain, reason)] = told(report).values()
    assert (category, gain) == ("below-threshold", -0.25)
    assert reason.startswith("alone, over ")


@pytest.mark.asyncio
async def test_what_was_committed_is_not_refused():
    at = make_bench()

    report = await at.run(at.aggregator(), at.card(k0="good"))

    assert report.category == "committed"
    assert list(report.refused) == []


@pytest.mark.asyncio
async def test_edits_of_a_union_are_refused_together():
    at = make_bench(worth())

    report = await at.run(at.aggregator(), at.card(a="x"), at.card(b="x"))

    assert report.category == "below-threshold"
    assert told(report).keys() == {(("a", "x"),), (("b", "x"),)}
    assert all(
        (category, gain) == ("below-threshold", 0.0)
        and reason.startswith("together with 1 other change(s), over ")
        for category, gain, reason in told(report).values()
    )


@pytest.mark.asyncio
async def test_an_edit_that_a_commit_did_better_without_is_refused_unmeasured():
    at = make_bench(state={"k6": "good"})

    report = await at.run(
        at.aggregator(), at.card(k0="good"), at.card(bad6="x"), at.card(k1="good")
    )

    assert report.category == "committed"
    assert told(report) == {
        (("bad6", "x"),): ("below-threshold", None, "beside other changes, no gain of it was left")
    }


@pytest.mark.asyncio
async def test_what_an_edit_did_alone_goes_before_what_it_did_in_company():
    at = make_bench(worth())
    merge = Merge(at.ledger.artifacts[SKILL], at.verifier, AggregatorConfig())
    merge.cards = [at.card(a="x"), at.card(b="x")]
    both, alone = ({"a": "x", "b": "x"}, {"a": "x"})
    for ops, gain in ((both, -0.5), (alone, -0.25)):
        diff = Diff("d", SKILL, ops)
        merge.note(merge.artifact.apply(diff), Verdict(False, 0.1, 0.5, 0.5, 0.5 + gain, 8, 8))
        merge.refused.append(diff)

    said = {tuple(refusal.diff.ops): refusal for refusal in merge.refusals()}

    assert (said["a",].gain, said["a",].reason) == (-0.25, "alone, over 8 held-out task(s)")
    assert said["b",].gain == -0.5


@pytest.mark.asyncio
@pytest.mark.parametrize("companions", [0, 1])
async def test_what_is_too_large_is_refused_unmeasured(companions):
    at = make_bench()
    cards = [at.card({f"k{i}": "good" for i in range(7)})]
    cards += [at.card(k0="good")] * companions

    report = await at.run(at.aggregator(), *cards)

    assert report.category == ("committed" if companions else "oversized")
    [(category, gain, reason)] = told(report).values()
    assert (category, gain) == ("oversized", None)
    assert reason == "it sets more than 6 keys or a value of more than 32000 characters"


@pytest.mark.asyncio
async def test_an_undecided_edit_is_not_refused():
    at = make_bench()
    at.verifier.broken.add("h0")

    report = await at.run(at.aggregator(), at.card(k0="good"))

    assert report.reason.startswith("undecided")
    assert list(report.refused) == []
