import pytest

from agentdescent.aggregator import Verdict
from agentdescent.core.diff import Diff
from agentdescent.merge.acceptance import bar, gate, learn_trust, refuse
from agentdescent.policy.stats import commit_bar
from support.merging import make_bench


def edit(name):
    return Diff(name, "skill", {name: "good"})


def verdict(gain, *, finished=8, undecided=""):
    return Verdict(False, 0.4, 0.5, 0.5, 0.5 + gain, finished, 8, undecided=undecided)


@pytest.mark.parametrize(
    ("knobs", "rivals", "full_gates", "k"),
    [
        ({}, 0, 1, 1),
        ({}, 1, 1, 1),
        ({}, 4, 1, 4),
        ({}, 0, 3, 3),
        ({}, 4, 3, 6),
        ({"multiplicity": "none"}, 4, 3, 1),
    ],
)
def test_every_candidate_that_was_compared_raises_the_bar(knobs, rivals, full_gates, k):
    merge = make_bench(version=64).merge(base_delta=0.5, anneal_half_life=64, **knobs)
    merge.rivals, merge.full_gates = rivals, full_gates

    assert bar(merge) == commit_bar(64, base_delta=0.5, half_life=64, k=k) == 0.75 ** (1 / k)


def test_fresh_measurements_need_no_correction():
    at = make_bench()
    at.verifier.confirm = 1
    merge = at.merge()
    merge.rivals = 8

    assert bar(merge) == commit_bar(1, base_delta=0.5, half_life=64, k=1)


@pytest.mark.asyncio
async def test_a_candidate_is_judged_once_and_does_not_count_again():
    at = make_bench()
    merge = at.merge()
    candidate = at.head.apply(edit("k0"))

    first = await gate(merge, candidate)
    await gate(merge, at.head.apply(edit("k1")))
    again = await gate(merge, at.head.apply(edit("k0")))

    assert again is first
    assert merge.full_gates == 2


@pytest.mark.parametrize("audited", [False, True])
@pytest.mark.asyncio
async def test_audited_merges_are_never_curtailed(audited):
    at = make_bench()
    merge = at.merge()
    merge.audited = audited

    await gate(merge, at.head.apply(edit("k0")))

    assert [curtail for _, _, curtail in at.verifier.gated] == [not audited]


@pytest.mark.parametrize(
    ("blast_radius", "audited", "gain", "category"),
    [
        (0.2, False, -0.5, "below-threshold"),
        (0.2, False, 0.0, "below-threshold"),
        (0.6, True, -0.5, "oracle-rejected"),
        (0.6, True, 0.0, "oracle-rejected"),
        (0.6, True, 0.1, "below-threshold"),
        (0.2, True, -0.5, "oracle-rejected"),
        (0.2, True, 0.0, "below-threshold"),
    ],
)
def test_an_audit_vetoes_losses_and_above_the_limit_ties(blast_radius, audited, gain, category):
    merge = make_bench(blast_radius=blast_radius).merge()
    merge.audited = audited

    found, reason = refuse(merge, edit("a"), verdict(gain))

    assert found == category
    assert reason.startswith("audit: gain" if category == "oracle-rejected" else "P(delta>0)")
    assert merge.refused == [edit("a")]


def test_what_could_not_be_judged_is_neither_vetoed_nor_refused():
    merge = make_bench(blast_radius=0.6).merge()
    merge.audited = True

    found = refuse(merge, edit("a"), verdict(0.0, undecided="h0 failed"))

    assert found == ("below-threshold", "undecided: h0 failed")
    assert merge.refused == []


@pytest.mark.parametrize(
    ("key", "gain", "trust"),
    [
        pytest.param("k0", 0.1, 1.25, id="both see a gain"),
        pytest.param("k0", -0.1, 0.5, id="the subset alone sees a gain"),
        pytest.param("bad0", -0.1, 1.25, id="both see a loss"),
        pytest.param("bad0", 0.1, 0.5, id="the subset alone sees a loss"),
        pytest.param("k7", 0.1, 1.0, id="the subset sees no difference"),
    ],
)
@pytest.mark.asyncio
async def test_trust_follows_the_agreement_of_the_subset_with_all_tasks(key, gain, trust):
    at = make_bench(
        lambda state, i: 0.5 + (f"k{i}" in state) / 2 - (f"bad{i}" in state) / 2, ranking=2
    )

    await learn_trust(at.merge(), at.head.apply(edit(key)), verdict(gain), at.audit)

    assert at.audit.trust("skill") == trust


@pytest.mark.parametrize(
    ("ranking", "judged"),
    [
        pytest.param(8, verdict(0.1), id="the subset is the whole"),
        pytest.param(2, verdict(0.1, finished=3), id="the gate stopped early"),
        pytest.param(2, verdict(0.1, undecided="h0 failed"), id="the gate came to no verdict"),
    ],
)
@pytest.mark.asyncio
async def test_nothing_is_learned_without_two_rankings(ranking, judged):
    at = make_bench(ranking=ranking)

    await learn_trust(at.merge(), at.head.apply(edit("k0")), judged, at.audit)

    assert (at.audit.trust("skill"), at.verifier.scored) == (1.0, [])
