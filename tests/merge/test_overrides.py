import pytest

from agentdescent.aggregator import Aggregator, AggregatorConfig
from agentdescent.core.diff import Diff
from agentdescent.policy.staleness import get_policy
from agentdescent.threads import invoke
from support.merging import lines_of, make_bench


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
async def test_an_aggregator_that_never_fuses(kind):
    at = make_bench()
    aggregator = at.aggregator(kind)
    cards = [at.card(k0="good", gain=0.5), at.card(k1="good", gain=1.0)]

    report = await at.run(aggregator, *cards)

    assert (report.accepted.ops, report.fused) == ({"k1": "good"}, False)
    assert at.waiting(aggregator) == [({"k0": "good"}, 1)]
    [report] = await aggregator.step()
    assert (report.accepted.ops, at.head.version) == ({"k0": "good"}, 3)


@pytest.mark.asyncio
async def test_an_aggregator_can_be_built_as_a_factory_does():
    at = make_bench()

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
async def test_plain_overrides_nest_and_block():
    at = make_bench(state={"k6": "good"})
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
async def test_an_error_in_a_plain_override_leaves_as_it_is_and_loses_nothing():
    class Broken(Aggregator):
        def _resolve_conflicts(self, artifact, cards):
            raise LookupError("a bug")

    at = make_bench()
    aggregator = at.aggregator(Broken)

    with pytest.raises(LookupError, match="a bug"):
        await at.run(aggregator, at.card(k0="good"))

    assert at.waiting(aggregator) == [({"k0": "good"}, 0)]


@pytest.mark.asyncio
async def test_an_override_may_choose_nothing():
    class Idle(Aggregator):
        def _tournament(self, artifact, diffs):
            return None, artifact, False

    at = make_bench()
    aggregator = at.aggregator(Idle)

    report = await at.run(aggregator, at.card(k0="good"))

    assert (report.category, report.reason) == ("below-threshold", "no candidate was chosen")
    assert at.waiting(aggregator) == [({"k0": "good"}, 1)]


@pytest.mark.asyncio
async def test_an_override_may_keep_no_card():
    class Empty(Aggregator):
        async def _resolve_conflicts(self, artifact, cards):
            return [], len(cards)

    at = make_bench()
    aggregator = at.aggregator(Empty)

    report = await at.run(aggregator, at.card(k0="good"))

    assert (report.category, report.conflicts_dropped) == ("below-threshold", 1)
    assert at.waiting(aggregator) == [({"k0": "good"}, 1)]


@pytest.mark.asyncio
async def test_an_override_may_commit_an_edit_of_its_own():
    class Own(Aggregator):
        async def _tournament(self, artifact, diffs):
            own = Diff("my-own", artifact.id, {"k5": "good"})
            return own, artifact.apply(own), False

    at = make_bench()
    aggregator = at.aggregator(Own)

    report = await at.run(aggregator, at.card(k0="good"))

    assert report.accepted.diff_id == "my-own"
    assert lines_of(at.ledger.notes[0])[0] == "merge my-own"
    assert at.waiting(aggregator) == [({"k0": "good"}, 1)]


@pytest.mark.asyncio
async def test_an_override_that_keeps_contradictions_fuses_none_of_them():
    class Blind(Aggregator):
        async def _resolve_conflicts(self, artifact, cards):
            return cards, 0

    at = make_bench()

    report = await at.run(at.aggregator(Blind), at.card(k0="good"), at.card(k0="other"))

    assert (report.accepted.ops, report.fused) == ({"k0": "good"}, False)


@pytest.mark.asyncio
async def test_stages_work_on_their_own():
    at = make_bench()
    aggregator = at.aggregator()
    cards = [at.card(k0="good"), at.card(k0="x"), at.card(k1="good")]

    kept, dropped = await aggregator._resolve_conflicts(at.head, cards)
    diff, candidate, fused = await aggregator._tournament(at.head, [card.diff for card in kept])

    assert (dropped, fused) == (1, True)
    assert candidate.state == diff.ops == {"k0": "good", "k1": "good"}
    assert await aggregator._tournament(at.head, []) == (None, at.head, False)
