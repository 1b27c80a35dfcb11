import pytest

from support.merging import lines_of, make_bench, rival


@pytest.mark.asyncio
async def test_a_commit_is_reported_with_all_its_figures():
    at = make_bench()
    cards = [at.card(k0="good"), at.card(k1="good"), at.card(k0="good")]

    report = await at.run(at.aggregator(), *cards)

    assert (report.category, report.reason, report.committed_version) == (
        "committed",
        "P(delta>0) = 0.88 > 0.51; 0.000 -> 0.250",
        2,
    )
    assert report.accepted.ops == {"k0": "good", "k1": "good"} == at.head.state
    assert (report.fused, report.blamed, report.prob_improve) == (True, 0, 0.875)
    assert (report.considered, report.survived_staleness, report.discarded_stale) == (3, 3, 0)
    assert lines_of(at.ledger.notes[0])[0] == "merge w0:1 + w1:1 + w2:1"
    assert at.ledger.notes[0].reward == (0.0, 0.25)


@pytest.mark.asyncio
async def test_identical_proposals_are_one_edit_and_no_fusion():
    at = make_bench()

    report = await at.run(at.aggregator(), at.card(k0="good"), at.card(k0="good"))

    assert (report.fused, report.accepted.author) == (False, "w0+w1")
    assert (report.conflicts_dropped, report.considered) == (0, 2)


@pytest.mark.asyncio
async def test_a_candidate_that_does_not_help_is_below_the_threshold_and_out():
    at = make_bench()
    aggregator = at.aggregator()

    report = await at.run(aggregator, at.card(k0="useless"))

    assert (report.category, report.prob_improve) == ("below-threshold", 0.5)
    assert report.reason == "P(delta>0) = 0.50, bar 0.51, gain +0.000"
    assert (report.accepted, report.committed_version, aggregator.pending()) == (None, None, 0)


@pytest.mark.parametrize(
    ("blast_radius", "category"), [(0.30, "below-threshold"), (0.31, "oracle-rejected")]
)
@pytest.mark.asyncio
async def test_a_tie_is_named_by_the_blast_radius(blast_radius, category):
    at = make_bench(blast_radius=blast_radius)

    report = await at.run(at.aggregator(), at.card(k0="useless"))

    assert report.category == category
    assert at.audit.audits == (category == "oracle-rejected")


@pytest.mark.asyncio
async def test_lost_trust_has_every_merge_audited():
    at = make_bench()
    at.audit.update_trust("skill", agreed=False)

    await at.run(at.aggregator(), at.card(k0="good"))

    assert at.audit.audits == 1
    assert [curtail for _, _, curtail in at.verifier.gated] == [False]


@pytest.mark.asyncio
async def test_a_commit_teaches_trust_in_the_ranking():
    at = make_bench(ranking=2)

    await at.run(at.aggregator(), at.card(k0="good"))

    assert at.audit.trust("skill") == 1.25


@pytest.mark.asyncio
async def test_evidence_that_lags_too_far_is_stale():
    at = make_bench()
    at.ledger.publish(k0="x")
    at.ledger.publish(k0="y")

    report = await at.run(at.aggregator(), at.card(k0="good"), at.card(k0="good"))

    assert (report.category, report.discarded_stale) == ("all-stale", 2)
    assert report.reason == "2 of 2 cards lag too far, or help no more"
    assert at.audit.audits == 0


@pytest.mark.asyncio
async def test_edits_outside_the_trust_region_are_oversized():
    at = make_bench()

    report = await at.run(at.aggregator(trust_region_ops=1), at.card(k0="good", k1="good"))

    assert (report.category, report.considered, report.discarded_stale) == ("oversized", 1, 0)
    assert report.reason == (
        "1 of 1 cards set more than 1 keys or a value of more than 32000 characters"
    )


@pytest.mark.asyncio
async def test_stale_and_oversized_together_are_stale():
    at = make_bench()
    at.ledger.publish(k0="x")
    at.ledger.publish(k0="y")

    report = await at.run(
        at.aggregator(trust_region_ops=1), at.card(k0="good"), at.card(k0="good", k1="good")
    )

    assert (report.category, report.discarded_stale, report.survived_staleness) == (
        "all-stale",
        1,
        0,
    )
    assert report.reason.startswith("1 of 2 cards lag too far, or help no more; 1 of 2 cards set")


@pytest.mark.asyncio
async def test_an_artifact_that_the_ledger_does_not_hold_is_unknown():
    at = make_bench()
    at.ledger.visible.clear()

    report = await at.run(at.aggregator(), at.card(k0="good"))

    assert (report.category, report.considered) == ("unknown-artifact", 1)
    assert report.reason == "the ledger holds [], not 'skill'"


@pytest.mark.asyncio
async def test_a_lost_race_is_reported_and_its_evidence_waits_unblamed():
    at = make_bench()
    at.ledger.rivals = [rival(x=str(i)) for i in range(3)]
    aggregator = at.aggregator(cas_backoff=0.0)

    report = await at.run(aggregator, at.card(k0="good"), at.card(k1="useless"))

    assert (report.category, report.reason) == ("cas-conflict", "other writers were first")
    assert (report.accepted, report.fused) == (None, False)
    assert at.waiting(aggregator) == [({"k0": "good"}, 0), ({"k1": "useless"}, 0)]


@pytest.mark.asyncio
async def test_after_a_lost_race_the_next_step_commits():
    at = make_bench()
    at.ledger.rivals = [rival(x="1")]
    aggregator = at.aggregator(cas_attempts=1)
    await at.run(aggregator, at.card(k0="good"))

    [report] = await aggregator.step()

    assert (report.category, dict(at.head.state)) == ("committed", {"k0": "good", "x": "1"})


@pytest.mark.asyncio
async def test_a_candidate_that_cannot_be_scored_waits_for_one_more_merge():
    at = make_bench()
    at.verifier.broken = {"h0"}
    aggregator = at.aggregator()

    report = await at.run(aggregator, at.card(k0="good"))

    assert (report.category, report.reason) == ("below-threshold", "undecided: h0 failed")
    assert at.waiting(aggregator) == [({"k0": "good"}, 1)]
    await aggregator.step()
    assert aggregator.pending() == 0
