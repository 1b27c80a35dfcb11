from random import Random

import anyio
import pytest

from agentdescent.aggregator import Aggregator, AggregatorConfig
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
from agentdescent.threads import invoke


def worth(**values):
    """The reward of a state is the greatest that one of its values has."""
    return lambda state, _: max((values.get(v, 0.0) for v in state.values()), default=0.0)


def rival(**ops):
    """Somebody who commits `ops` just before we do."""
    return lambda ledger: ledger.put(ledger.artifacts["skill"].apply(Diff("r", "skill", ops)))


def waiting(aggregator):
    """(edit, refusals) of every card that waits."""
    batch = aggregator.buffer.lease("skill")
    found = [(dict(card.diff.ops), card.refusals) for card in batch.cards]
    batch.restore()
    return found


# --- taking evidence in


@pytest.mark.asyncio
async def test_a_card_that_did_not_help_on_its_own_task_is_turned_away(bench):
    at = bench()
    aggregator = at.aggregator()
    for gain in (0.0, -0.5, 0.5, None):
        await aggregator.ingest(at.card(k0="good", gain=gain))

    assert (aggregator.pending(), aggregator.screened) == (2, 2)


@pytest.mark.asyncio
async def test_a_step_takes_what_is_due_and_leaves_the_rest(bench):
    at = bench()
    aggregator = at.aggregator(batch_trigger=2, max_wait_rounds=2)
    await aggregator.ingest(at.card(k0="good"))

    assert await aggregator.step() == []
    assert aggregator.pending() == 1
    [report] = await aggregator.step()
    assert (report.committed_version, aggregator.pending()) == (2, 0)


@pytest.mark.asyncio
async def test_a_flush_takes_whatever_waits(bench):
    at = bench()
    aggregator = at.aggregator(batch_trigger=9, max_wait_rounds=9)
    await aggregator.ingest(at.card(k0="good"))

    [report] = await aggregator.flush()

    assert (report.committed_version, aggregator.pending()) == (2, 0)


@pytest.mark.asyncio
async def test_without_evidence_there_is_no_report(bench):
    aggregator = bench().aggregator()

    assert (await aggregator.step(), await aggregator.flush()) == ([], [])


@pytest.mark.asyncio
async def test_cards_are_judged_in_the_order_of_worker_and_serial_whatever_came_first(bench):
    at = bench(worth(one=0.5, two=0.5))
    early, late = at.card(k="one"), at.card(k="two")

    report = await at.run(at.aggregator(), late, early)

    assert report.accepted.ops == {"k": "one"}


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.asyncio
async def test_what_is_merged_does_not_depend_on_the_order_of_arrival(bench, seed):
    at = bench(state={"k6": "good"})
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


# --- what reports say


@pytest.mark.asyncio
async def test_a_commit_is_reported_with_all_its_figures(bench, note_of):
    at = bench()
    cards = [at.card(k0="good"), at.card(k1="good"), at.card(k0="good")]

    report = await at.run(at.aggregator(), *cards)

    assert (report.category, report.reason, report.committed_version) == (
        "committed",
        "committed",
        2,
    )
    assert report.accepted.ops == {"k0": "good", "k1": "good"} == at.head.state
    assert (report.fused, report.blamed, report.prob_improve) == (True, 0, 0.875)
    assert (report.considered, report.survived_staleness, report.discarded_stale) == (3, 3, 0)
    assert note_of(at.ledger.notes[0])[0] == "merge w0:1 + w1:1 + w2:1"
    assert at.ledger.notes[0].reward == (0.0, 0.25)


@pytest.mark.asyncio
async def test_identical_proposals_are_one_edit_and_no_fusion(bench):
    at = bench()

    report = await at.run(at.aggregator(), at.card(k0="good"), at.card(k0="good"))

    assert (report.fused, report.accepted.author) == (False, "w0+w1")
    assert (report.conflicts_dropped, report.considered) == (0, 2)


@pytest.mark.asyncio
async def test_a_candidate_that_does_not_help_is_below_the_threshold_and_out(bench):
    at = bench()
    aggregator = at.aggregator()

    report = await at.run(aggregator, at.card(k0="useless"))

    assert (report.category, report.prob_improve) == ("below-threshold", 0.5)
    assert report.reason == "P(delta>0) = 0.50, bar 0.51, gain +0.000"
    assert (report.accepted, report.committed_version, aggregator.pending()) == (None, None, 0)


@pytest.mark.parametrize(
    ("blast_radius", "category"), [(0.30, "below-threshold"), (0.31, "oracle-rejected")]
)
@pytest.mark.asyncio
async def test_a_tie_is_named_by_the_blast_radius(bench, blast_radius, category):
    at = bench(blast_radius=blast_radius)

    report = await at.run(at.aggregator(), at.card(k0="useless"))

    assert report.category == category
    assert at.audit.audits == (category == "oracle-rejected")


@pytest.mark.asyncio
async def test_lost_trust_has_every_merge_audited(bench):
    at = bench()
    at.audit.update_trust("skill", agreed=False)

    await at.run(at.aggregator(), at.card(k0="good"))

    assert at.audit.audits == 1
    assert [curtail for _, _, curtail in at.verifier.gated] == [False]


@pytest.mark.asyncio
async def test_a_commit_teaches_trust_in_the_ranking(bench):
    at = bench(ranking=2)

    await at.run(at.aggregator(), at.card(k0="good"))

    assert at.audit.trust("skill") == 1.25


@pytest.mark.asyncio
async def test_evidence_that_lags_too_far_is_stale(bench):
    at = bench()
    at.ledger.publish(k0="x")
    at.ledger.publish(k0="y")

    report = await at.run(at.aggregator(), at.card(k0="good"), at.card(k0="good"))

    assert (report.category, report.discarded_stale) == ("all-stale", 2)
    assert report.reason == "2 of 2 cards lag too far, or help no more"
    assert at.audit.audits == 0


@pytest.mark.asyncio
async def test_edits_outside_the_trust_region_are_oversized(bench):
    at = bench()

    report = await at.run(at.aggregator(trust_region_ops=1), at.card(k0="good", k1="good"))

    assert (report.category, report.considered, report.discarded_stale) == ("oversized", 1, 0)
    assert report.reason == (
        "1 of 1 cards set more than 1 keys or a value of more than 32000 characters"
    )


@pytest.mark.asyncio
async def test_stale_and_oversized_together_are_stale(bench):
    at = bench()
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
async def test_an_artifact_that_the_ledger_does_not_hold_is_unknown(bench):
    at = bench()
    at.ledger.visible.clear()

    report = await at.run(at.aggregator(), at.card(k0="good"))

    assert (report.category, report.considered) == ("unknown-artifact", 1)
    assert report.reason == "the ledger holds [], not 'skill'"


@pytest.mark.asyncio
async def test_a_lost_race_is_reported_and_its_evidence_waits_unblamed(bench):
    at = bench()
    at.ledger.rivals = [rival(x=str(i)) for i in range(3)]
    aggregator = at.aggregator(cas_backoff=0.0)

    report = await at.run(aggregator, at.card(k0="good"), at.card(k1="useless"))

    assert (report.category, report.reason) == ("cas-conflict", "other writers were first")
    assert (report.accepted, report.fused) == (None, False)
    assert waiting(aggregator) == [({"k0": "good"}, 0), ({"k1": "useless"}, 0)]


@pytest.mark.asyncio
async def test_after_a_lost_race_the_next_step_commits(bench):
    at = bench()
    at.ledger.rivals = [rival(x="1")]
    aggregator = at.aggregator(cas_attempts=1)
    await at.run(aggregator, at.card(k0="good"))

    [report] = await aggregator.step()

    assert (report.category, dict(at.head.state)) == ("committed", {"k0": "good", "x": "1"})


@pytest.mark.asyncio
async def test_a_candidate_that_cannot_be_scored_waits_for_one_more_merge(bench):
    at = bench()
    at.verifier.broken = {"h0"}
    aggregator = at.aggregator()

    report = await at.run(aggregator, at.card(k0="good"))

    assert (report.category, report.reason) == ("below-threshold", "undecided: h0 failed")
    assert waiting(aggregator) == [({"k0": "good"}, 1)]
    await aggregator.step()
    assert aggregator.pending() == 0


# --- who is left out


@pytest.mark.asyncio
async def test_losers_of_a_conflict_are_verified_again_on_what_won(bench):
    at = bench(worth(best=1.0, good=0.6, fair=0.5))
    aggregator = at.aggregator()
    cards = [at.card(k=v, tasks=at.verifier.held_out[:1]) for v in ("fair", "best", "good")]

    report = await at.run(aggregator, *cards)

    assert (report.conflicts_dropped, report.category) == (2, "committed")
    assert waiting(aggregator) == [({"k": "fair"}, 1), ({"k": "good"}, 1)]
    [report] = await aggregator.step()
    assert (report.category, report.discarded_stale) == ("all-stale", 2)
    assert aggregator.pending() == 0


@pytest.mark.asyncio
async def test_a_card_that_is_left_out_twice_is_out(bench):
    at = bench()
    aggregator = at.aggregator()

    await at.run(aggregator, *(at.card(k=v) for v in ("a", "b", "c")))

    assert waiting(aggregator) == [({"k": "b"}, 1), ({"k": "c"}, 1)]
    await aggregator.step()
    assert aggregator.pending() == 0


@pytest.mark.asyncio
async def test_the_bar_rises_with_the_number_of_rivals(bench):
    at = bench()

    await at.run(at.aggregator(), *(at.card(k0=v) for v in ("good", "b", "c", "d")))

    [(state, bar, _)] = at.verifier.gated
    assert (state, bar) == ({"k0": "good"}, round((1 - 0.5 * 0.5 ** (1 / 64)) ** 0.25, 6))


@pytest.mark.asyncio
async def test_what_no_longer_fits_into_a_commit_waits(bench):
    at = bench()
    aggregator = at.aggregator(max_commit_ops=2)

    report = await at.run(aggregator, *(at.card({f"k{i}": "good"}) for i in range(3)))

    assert report.accepted.ops == {"k0": "good", "k1": "good"}
    assert waiting(aggregator) == [({"k2": "good"}, 1)]
    [report] = await aggregator.step()
    assert report.accepted.ops == {"k2": "good"}


@pytest.mark.asyncio
async def test_a_blamed_edit_that_only_lost_is_out_at_once(bench):
    at = bench(state={"k6": "good"})
    aggregator = at.aggregator()

    report = await at.run(aggregator, at.card(k0="good"), at.card(bad6="x"), at.card(k1="good"))

    assert (report.blamed, report.accepted.ops) == (1, {"k0": "good", "k1": "good"})
    assert aggregator.pending() == 0
    assert "Held responsible for lost tasks: 1." in at.ledger.notes[0].body


@pytest.mark.asyncio
async def test_a_blamed_edit_that_nobody_had_time_to_judge_waits(bench):
    at = bench(state={f"k{i}": "good" for i in (4, 5, 6, 7)})
    aggregator = at.aggregator()

    report = await at.run(
        aggregator, *(at.card({f"k{i}": "good", f"bad{i + 4}": "x"}) for i in range(4))
    )

    assert (report.category, report.blamed) == ("below-threshold", 4)
    assert waiting(aggregator) == [
        ({"k2": "good", "bad6": "x"}, 1),
        ({"k3": "good", "bad7": "x"}, 1),
    ]


# --- merging is safe


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
async def test_whatever_ends_a_merge_puts_its_cards_back(bench, stage, error):
    at = bench()
    getattr(at, stage).failures = [error]
    aggregator = at.aggregator()
    for card in (at.card(k0="good"), at.card(k1="good")):
        await aggregator.ingest(card)

    with pytest.raises(type(error)) as caught:
        await aggregator.step()

    assert caught.value is error
    assert waiting(aggregator) == [({"k0": "good"}, 0), ({"k1": "good"}, 0)]
    [report] = await aggregator.step()
    assert report.accepted.ops == {"k0": "good", "k1": "good"}


@pytest.mark.asyncio
async def test_cancellation_puts_the_cards_back_before_those_that_came_meanwhile(bench):
    at = bench()
    aggregator = at.aggregator()
    await aggregator.ingest(at.card(k0="good"))

    async def hang(*_args, **_kwargs):
        await aggregator.ingest(at.card(k1="good"))
        await anyio.sleep_forever()

    at.verifier.gate = hang
    with anyio.move_on_after(0.01):
        await aggregator.step()

    assert waiting(aggregator) == [({"k0": "good"}, 0), ({"k1": "good"}, 0)]


@pytest.mark.asyncio
async def test_a_frozen_artifact_is_not_merged(bench):
    at = bench()
    aggregator = at.aggregator()
    at.ledger.visible["oracle"] = at.head
    card = at.card(k0="good")
    frozen = type(card)(Diff("d", "oracle", {"k0": "good"}), {"oracle": 1}, ["oracle"])
    await aggregator.ingest(frozen)

    with pytest.raises(GovernanceError, match="oracle"):
        await aggregator.step()

    assert aggregator.pending() == 1


@pytest.mark.asyncio
async def test_what_survives_is_promoted_and_a_clean_end_promotes_the_rest(bench):
    at = bench()
    aggregator = at.aggregator(promote_after_k=2)
    await at.run(aggregator, at.card(k0="good"))
    for _ in range(2):
        await aggregator.step()
    await at.run(aggregator, at.card(k1="good", base=2))

    await aggregator.finalize()

    assert at.ledger.promoted == [("skill", 2), ("skill", 3)]


@pytest.mark.asyncio
async def test_a_ledger_too_busy_to_promote_costs_no_merge(bench):
    at = bench()
    aggregator = at.aggregator(promote_after_k=1)
    await at.run(aggregator, at.card(k0="good"))
    at.ledger.failures = [LedgerBusy("locked")]

    assert await aggregator.step() == []
    assert await aggregator.step() == []
    assert at.ledger.promoted == [("skill", 2)]


@pytest.mark.asyncio
async def test_the_staleness_policy_is_the_one_given(bench):
    at = bench()
    for value in "xyz":
        at.ledger.publish(k0=value)

    report = await at.run(at.aggregator(policy=get_policy("full")), at.card(k0="good"))

    assert report.category == "committed"
    assert at.aggregator().staleness_policy.name == "guarded"


# --- override points


class Strict(Aggregator):
    def _tournament(self, artifact, diffs):
        return super()._tournament(artifact, [diffs[0]] if diffs else diffs)  # never fuse


class StrictAwaiting(Aggregator):
    async def _tournament(self, artifact, diffs):
        return await super()._tournament(artifact, diffs[:1])


class StrictReturning(Aggregator):
    def _tournament(self, artifact, diffs):
        first = diffs[0]
        return first, artifact.apply(first), False


@pytest.mark.parametrize("kind", [Strict, StrictAwaiting, StrictReturning])
@pytest.mark.asyncio
async def test_an_aggregator_that_never_fuses(bench, kind):
    at = bench()
    aggregator = at.aggregator(kind)
    cards = [at.card(k0="good", gain=0.5), at.card(k1="good", gain=1.0)]

    report = await at.run(aggregator, *cards)

    assert (report.accepted.ops, report.fused) == ({"k1": "good"}, False)
    assert waiting(aggregator) == [({"k0": "good"}, 1)]
    [report] = await aggregator.step()
    assert (report.accepted.ops, at.head.version) == ({"k0": "good"}, 3)


@pytest.mark.asyncio
async def test_an_aggregator_can_be_built_as_a_factory_does(bench):
    at = bench()

    aggregator = Strict(
        at.ledger,
        at.verifier,
        at.audit,
        AggregatorConfig(),
        staleness_policy=get_policy("reflective"),
    )

    assert (aggregator.ledger, aggregator.verifier) == (at.ledger, at.verifier)
    assert aggregator.staleness_policy.name == "reflective"
    assert Strict(at.ledger, at.verifier, at.audit).config == AggregatorConfig()


class Nested(Aggregator):
    """Every override point as a plain function that hands on to the reference."""

    def __init__(self, *args):
        super().__init__(*args)
        self.called = []

    def ingest(self, card):
        self.called.append("ingest")
        return super().ingest(card)

    def step(self):
        self.called.append("step")
        return super().step()

    def _process(self, artifact_id):
        self.called.append("process")
        return super()._process(artifact_id)

    def _staleness_filter(self, artifact, head, cards):
        self.called.append("staleness")
        survivors, discarded = super()._staleness_filter(artifact, head, cards)
        return survivors, discarded

    def _resolve_conflicts(self, artifact, cards):
        self.called.append("conflicts")
        kept, dropped = super()._resolve_conflicts(artifact, cards)
        return kept, dropped

    def _tournament(self, artifact, diffs):
        self.called.append("tournament")
        measured = self.verifier.cheap_eval(artifact)
        branch = self.ledger.snapshot().version
        self.called.append((measured, branch))
        return super()._tournament(artifact, diffs)


@pytest.mark.asyncio
async def test_plain_overrides_nest_and_block(bench):
    at = bench(state={"k6": "good"})
    aggregator = at.aggregator(Nested)
    for card in (at.card(k0="good"), at.card(k1="good"), at.card(bad6="x")):
        await invoke(aggregator.ingest, card)

    [report] = await invoke(aggregator.step)

    assert (report.category, report.blamed) == ("committed", 1)
    assert aggregator.called == [
        *["ingest"] * 3,
        "step",
        "process",
        "staleness",
        "conflicts",
        "tournament",
        (0.125, {"skill": 1}),
    ]


@pytest.mark.asyncio
async def test_an_error_in_a_plain_override_leaves_as_it_is_and_loses_nothing(bench):
    class Broken(Aggregator):
        def _resolve_conflicts(self, artifact, cards):
            raise LookupError("a bug")

    at = bench()
    aggregator = at.aggregator(Broken)

    with pytest.raises(LookupError, match="a bug"):
        await at.run(aggregator, at.card(k0="good"))

    assert waiting(aggregator) == [({"k0": "good"}, 0)]


@pytest.mark.asyncio
async def test_an_override_may_choose_nothing(bench):
    class Idle(Aggregator):
        def _tournament(self, artifact, diffs):
            return None, artifact, False

    at = bench()
    aggregator = at.aggregator(Idle)

    report = await at.run(aggregator, at.card(k0="good"))

    assert (report.category, report.reason) == ("below-threshold", "no candidate was chosen")
    assert waiting(aggregator) == [({"k0": "good"}, 1)]


@pytest.mark.asyncio
async def test_an_override_may_keep_no_card(bench):
    class Empty(Aggregator):
        async def _resolve_conflicts(self, artifact, cards):
            return [], len(cards)

    at = bench()
    aggregator = at.aggregator(Empty)

    report = await at.run(aggregator, at.card(k0="good"))

    assert (report.category, report.conflicts_dropped) == ("below-threshold", 1)
    assert waiting(aggregator) == [({"k0": "good"}, 1)]


@pytest.mark.asyncio
async def test_an_override_may_commit_an_edit_of_its_own(bench, note_of):
    class Own(Aggregator):
        async def _tournament(self, artifact, diffs):
            own = Diff("my-own", artifact.id, {"k5": "good"})
            return own, artifact.apply(own), False

    at = bench()
    aggregator = at.aggregator(Own)

    report = await at.run(aggregator, at.card(k0="good"))

    assert report.accepted.diff_id == "my-own"
    assert note_of(at.ledger.notes[0])[0] == "merge my-own"
    assert waiting(aggregator) == [({"k0": "good"}, 1)]


@pytest.mark.asyncio
async def test_an_override_that_keeps_contradictions_fuses_none_of_them(bench):
    class Blind(Aggregator):
        async def _resolve_conflicts(self, artifact, cards):
            return cards, 0

    at = bench()

    report = await at.run(at.aggregator(Blind), at.card(k0="good"), at.card(k0="other"))

    assert (report.accepted.ops, report.fused) == ({"k0": "good"}, False)


@pytest.mark.asyncio
async def test_stages_work_on_their_own(bench):
    at = bench()
    aggregator = at.aggregator()
    cards = [at.card(k0="good"), at.card(k0="x"), at.card(k1="good")]

    kept, dropped = await aggregator._resolve_conflicts(at.head, cards)
    diff, candidate, fused = await aggregator._tournament(at.head, [card.diff for card in kept])

    assert (dropped, fused) == (1, True)
    assert candidate.state == diff.ops == {"k0": "good", "k1": "good"}
    assert await aggregator._tournament(at.head, []) == (None, at.head, False)
