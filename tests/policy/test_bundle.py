"""Single decisions of a run, replaced one by one; the rest stays as it is."""

import pytest

from agentdescent import Aggregator, AggregatorConfig, PluginError, async_evolve, evolve, get_policy
from agentdescent.core.events import MergeDecided
from agentdescent.errors import LedgerBusy
from agentdescent.ledger import MemoryLedger
from agentdescent.merge.acceptance import gate
from agentdescent.merge.promotion import Promotion
from agentdescent.policy.bundle import AcceptDecision, Policies
from agentdescent.policy.unpaired import UnpairedBeta
from support.merging import SKILL, make_bench
from support.pens import Plain, tasks


class Says:
    """Accepts everything, or nothing, and remembers what it was told."""

    def __init__(self, accept, detail="because"):
        self.decision = AcceptDecision(accept, 0.9, detail)
        self.asked = []
        self.learned = []

    def decide(self, context):
        self.asked.append(context)
        return self.decision

    def learn(self, context, decision, committed):
        self.learned.append((context, decision, committed))


class AsyncSays(Says):
    async def decide(self, context):
        return super().decide(context)


def aggregator(at, policies=None, **knobs):
    return Aggregator(at.ledger, at.verifier, at.audit, AggregatorConfig(**knobs), None, policies)


async def merged(at, *edits, policies, **knobs):
    """The report of one step after `edits`, and the aggregator that made it."""
    made = aggregator(at, policies, **knobs)
    return await at.run(made, *(at.card(edit) for edit in edits)), made


def test_nothing_is_replaced_by_default():
    assert Policies().stages() == {}


def test_stages_are_what_an_aggregator_factory_would_replace():
    beta = UnpairedBeta()

    assert Policies(acceptance=beta, staleness=get_policy("full")).stages() == {"acceptance": beta}


@pytest.mark.parametrize("stage", ["acceptance", "conflict", "fusion", "promotion"])
def test_a_policy_without_the_methods_of_its_stage_is_refused(stage):
    with pytest.raises(TypeError, match=rf"policies\.{stage} must have the methods"):
        Policies(**{stage: object()})


class TestAcceptance:
    @pytest.mark.parametrize("kind", [Says, AsyncSays])
    @pytest.mark.asyncio
    async def test_it_decides_instead_of_the_gate(self, kind):
        policy = kind(accept=False)

        report, _ = await merged(make_bench(), {"k0": "good"}, policies=Policies(acceptance=policy))

        assert (report.category, report.reason) == ("below-threshold", "because")
        assert report.prob_improve == 0.9

    @pytest.mark.asyncio
    async def test_it_may_accept_a_loss(self):
        at = make_bench(state={"k0": "good"})

        report, _ = await merged(at, {"bad0": "x"}, policies=Policies(acceptance=Says(accept=True)))

        assert report.committed_version == 2
        assert dict(at.head.state) == {"bad0": "x", "k0": "good"}

    @pytest.mark.asyncio
    async def test_an_audit_vetoes_what_it_accepts(self):
        at = make_bench(blast_radius=0.6)

        report, _ = await merged(
            at, {"bad0": "good"}, policies=Policies(acceptance=Says(accept=True))
        )

        assert report.category == "oracle-rejected"
        assert at.head.version == 1

    @pytest.mark.asyncio
    async def test_it_is_shown_both_sides_in_full_and_the_evidence(self):
        at, policy = make_bench(n_tasks=4, state={"k3": "good"}), Says(accept=True)

        await merged(at, {"k0": "good"}, policies=Policies(acceptance=policy), base_delta=0.4)

        [seen] = policy.asked
        assert (dict(seen.diff.ops), dict(seen.candidate.state)) == (
            {"k0": "good"},
            {"k0": "good", "k3": "good"},
        )
        assert [dict(card.diff.ops) for card in seen.cards] == [{"k0": "good"}]
        assert (seen.before, seen.after) == ([0, 0, 0, 1], [1, 0, 0, 1])
        assert (seen.base_counts, seen.cand_counts, seen.gain) == ((1, 3), (2, 2), 0.25)
        assert (round(seen.delta, 4), seen.compared) == (0.3957, 1)

    @pytest.mark.asyncio
    async def test_evidence_for_other_keys_is_no_evidence(self):
        policy = Says(accept=True)

        await merged(
            make_bench(),
            {"k0": "good"},
            {"k1": "good"},
            policies=Policies(acceptance=policy, fusion=Best(1)),
        )

        [seen] = policy.asked
        assert [dict(card.diff.ops) for card in seen.cards] == [{"k0": "good"}]

    @pytest.mark.asyncio
    async def test_it_learns_how_the_merge_ended(self):
        yes, no = Says(accept=True), Says(accept=False)
        at = make_bench()

        await merged(at, {"k0": "good"}, policies=Policies(acceptance=no))
        await merged(at, {"k0": "good"}, policies=Policies(acceptance=yes))

        assert [committed for _, _, committed in no.learned] == [False]
        assert yes.learned == [(yes.asked[0], yes.decision, True)]

    @pytest.mark.asyncio
    async def test_of_several_unions_it_learns_about_the_last(self):
        class Gainful(Says):
            def decide(self, context):
                self.asked.append(context)
                return AcceptDecision(accept=context.gain > 0)

        at, policy = make_bench(state={"k1": "good"}), Gainful(accept=True)

        await merged(at, {"k0": "good"}, {"bad1": "x"}, policies=Policies(acceptance=policy))

        assert [sorted(context.diff.ops) for context in policy.asked] == [["bad1", "k0"], ["k0"]]
        assert [sorted(context.diff.ops) for context, *_ in policy.learned] == [["k0"]]

    @pytest.mark.asyncio
    async def test_a_policy_need_not_learn(self):
        class Terse:
            def decide(self, context):
                return AcceptDecision(accept=True)

        report, _ = await merged(
            make_bench(), {"k0": "good"}, policies=Policies(acceptance=Terse())
        )

        assert report.reason.startswith("P(delta>0) = 0.00")

    @pytest.mark.asyncio
    async def test_what_cannot_be_measured_is_not_put_to_it(self):
        at, policy = make_bench(), Says(accept=True)
        at.verifier.broken.add("h0")
        merge = at.merge()
        merge.policies = Policies(acceptance=policy)

        assert (await gate(merge, at.head.apply(at.card(k0="good").diff))).undecided
        assert policy.asked == []

    @pytest.mark.asyncio
    async def test_anything_but_a_decision_is_its_fault(self):
        policy = Says(accept=True)
        policy.decision = True

        with pytest.raises(PluginError, match="must return an AcceptDecision, got bool True"):
            await merged(make_bench(), {"k0": "good"}, policies=Policies(acceptance=policy))

    @pytest.mark.asyncio
    async def test_its_memory_is_part_of_the_aggregators(self):
        beta, again = UnpairedBeta(), UnpairedBeta()
        at = make_bench()
        _, made = await merged(at, {"k0": "good"}, policies=Policies(acceptance=beta))

        saved = made.dump()
        aggregator(at, Policies(acceptance=again)).restore(saved, {})
        aggregator(at).restore(saved, {})

        assert again.prior(SKILL) == beta.prior(SKILL) != UnpairedBeta().prior(SKILL)

    @pytest.mark.asyncio
    async def test_one_that_was_not_saved_begins_anew(self):
        at, beta = make_bench(), UnpairedBeta()

        aggregator(at, Policies(acceptance=beta)).restore(aggregator(at).dump(), {})

        assert beta.dump() == {}


class Newest:
    """Keeps the last of several rivals, unseen."""

    def __init__(self):
        self.asked = []

    def resolve(self, artifact, cards, verifier):
        self.asked.append(len(cards))
        return cards[-1:]


class TestConflict:
    @pytest.mark.asyncio
    async def test_it_chooses_among_rivals(self):
        at = make_bench()
        rivals = [{"k0": value} for value in ("bad", "worse", "good")]

        report, _ = await merged(at, *rivals, policies=Policies(conflict=Newest()), base_delta=1)

        assert dict(at.head.state) == {"k0": "good"}
        assert report.conflicts_dropped == 2

    @pytest.mark.asyncio
    async def test_its_rivals_raise_the_bar(self):
        at = make_bench()
        rivals = [{"k0": value} for value in ("bad", "worse", "good")]

        await merged(at, *rivals, policies=Policies(conflict=Newest()))

        [(_, bar, _)] = at.verifier.gated
        assert bar == pytest.approx(0.5054 ** (1 / 3), abs=1e-4)

    @pytest.mark.asyncio
    async def test_it_is_not_asked_when_nobody_disagrees(self):
        policy = Newest()

        await merged(
            make_bench(), {"k0": "good"}, {"k1": "good"}, policies=Policies(conflict=policy)
        )

        assert policy.asked == []

    @pytest.mark.parametrize("said", [None, [make_bench().card(k9="good")]])
    @pytest.mark.asyncio
    async def test_it_must_name_cards_that_it_was_given(self, said):
        class Wrong:
            async def resolve(self, artifact, cards, verifier):
                return said

        with pytest.raises(PluginError, match=r"conflict\.resolve must return some of the cards"):
            await merged(
                make_bench(),
                {"k0": "bad"},
                {"k0": "good"},
                policies=Policies(conflict=Wrong()),
            )


class Best:
    """Puts the `n` most promising edits to the gate."""

    def __init__(self, n):
        self.n = n

    def choose(self, artifact, diffs, verifier):
        return diffs[: self.n]


class TestFusion:
    @pytest.mark.parametrize(("n", "fused"), [(1, False), (2, True)])
    @pytest.mark.asyncio
    async def test_it_chooses_what_makes_one_commit(self, n, fused):
        at = make_bench()
        cards = [{f"k{i}": "good"} for i in range(3)]

        report, made = await merged(at, *cards, policies=Policies(fusion=Best(n)))

        assert report.fused is fused
        assert sorted(at.head.state) == [f"k{i}" for i in range(n)]
        assert at.waiting(made) == [({f"k{i}": "good"}, 1) for i in range(n, 3)]

    @pytest.mark.asyncio
    async def test_it_may_choose_nothing(self):
        at = make_bench()

        report, made = await merged(
            at, {"k0": "good"}, {"k1": "good"}, policies=Policies(fusion=Best(0))
        )

        assert (report.category, report.reason) == ("below-threshold", "no candidate was chosen")
        assert len(at.waiting(made)) == 2

    @pytest.mark.asyncio
    async def test_what_the_gate_refuses_was_not_fused(self):
        report, _ = await merged(
            make_bench(), {"k8": "good"}, {"k9": "good"}, policies=Policies(fusion=Best(2))
        )

        assert (report.category, report.fused) == ("below-threshold", False)

    @pytest.mark.asyncio
    async def test_a_commit_is_bounded_whatever_it_chooses(self):
        at = make_bench()

        await merged(
            at,
            *({f"k{i}": "good"} for i in range(3)),
            policies=Policies(fusion=Best(3)),
            max_commit_ops=2,
        )

        assert sorted(at.head.state) == ["k0", "k1"]


class AtOnce:
    """Promotes whatever was committed, and nothing at the end."""

    def after_step(self, reports):
        return [report.artifact_id for report in reports if report.committed_version]

    async def at_end(self):
        return []


class TestPromotion:
    @pytest.mark.asyncio
    async def test_it_decides_when_dev_becomes_stable(self):
        at = make_bench()

        _, made = await merged(
            at, {"k0": "good"}, policies=Policies(promotion=AtOnce()), batch_trigger=1
        )

        assert at.ledger.promoted == [(SKILL, 2)]
        await made.step()
        await made.finalize()
        assert at.ledger.promoted == [(SKILL, 2)]

    @pytest.mark.asyncio
    async def test_it_may_wait_for_the_end(self):
        class AtLast:
            def after_step(self, reports):
                return ()

            def at_end(self):
                return [SKILL]

        at = make_bench()

        _, made = await merged(
            at, {"k0": "good"}, policies=Policies(promotion=AtLast()), promote_after_k=1
        )
        await made.step()
        before = list(at.ledger.promoted)
        await made.finalize()

        assert (before, at.ledger.promoted) == ([], [(SKILL, 2)])

    @pytest.mark.asyncio
    async def test_a_busy_ledger_is_asked_again(self):
        at = make_bench()
        at.ledger.failures = [LedgerBusy("others write")]
        promotion = Promotion(at.ledger, 3, AtOnce())

        report, _ = await merged(make_bench(), {"k0": "good"}, policies=None)
        await promotion.observe([report])
        await promotion.observe([])
        await promotion.observe([])

        assert at.ledger.promoted == [(SKILL, 1)]

    @pytest.mark.parametrize("said", ["skill", None, [7]])
    @pytest.mark.asyncio
    async def test_it_must_name_artifacts(self, said):
        class Wrong(AtOnce):
            def after_step(self, reports):
                return said

        with pytest.raises(PluginError, match=r"promotion\.after_step must return the ids"):
            await Promotion(make_bench().ledger, 3, Wrong()).observe([])


class TestInARun:
    def test_a_stage_is_replaced(self):
        plain, reports = Plain(), []

        def listen(event):
            if isinstance(event, MergeDecided):
                reports.append(event.report)

        result = evolve(
            tasks,
            plain.reward,
            agent=plain,
            policies=Policies(acceptance=UnpairedBeta()),
            on_event=listen,
            ledger=MemoryLedger(),
        )

        assert result.final_reward == 1.0
        assert all(report.reason.startswith("P(better)") for report in reports if report.accepted)

    @pytest.mark.asyncio
    async def test_staleness_and_sampler_are_taken_from_the_bundle(self):
        seen = []

        class Counting:
            name = "counting"

            def decide(self, eta, alpha, contract_breaking):
                seen.append(eta)
                return "accept"

            def pick(self, keys, round_index):
                seen.append("pick")
                return keys[round_index % len(keys)]

            def record(self, task_id, score):
                pass

        plain = Plain()
        await async_evolve(
            tasks,
            plain.reward,
            agent=plain,
            asynchronous=False,
            rounds=2,
            policies=Policies(staleness=Counting(), task_sampler=Counting()),
            ledger=MemoryLedger(),
        )

        assert {"pick", 0} <= set(seen)

    @pytest.mark.parametrize("stage", ["acceptance", "conflict", "fusion", "promotion"])
    def test_a_custom_aggregator_together_with_a_stage_is_refused(self, stage):
        policy = {
            "acceptance": UnpairedBeta(),
            "conflict": Newest(),
            "fusion": Best(1),
            "promotion": AtOnce(),
        }[stage]

        with pytest.raises(ValueError, match=rf"aggregator_factory= replaces .*{stage}"):
            run_with(policies=Policies(**{stage: policy}), aggregator_factory=Aggregator)

    def test_a_custom_aggregator_may_come_with_the_other_policies(self):
        result = run_with(
            policies=Policies(staleness=get_policy("full")), aggregator_factory=Aggregator
        )

        assert result.final_reward == 1.0

    @pytest.mark.parametrize(
        ("name", "argument"), [("staleness", "staleness_policy"), ("task_sampler", "task_sampler")]
    )
    def test_one_decision_is_replaced_once(self, name, argument):
        class Both:
            name = "both"

            def decide(self, eta, alpha, contract_breaking):
                return "accept"

            def pick(self, keys, round_index):
                return keys[0]

            def record(self, task_id, score):
                pass

        with pytest.raises(ValueError, match=rf"{argument}= and policies=.*{name}"):
            run_with(policies=Policies(**{name: Both()}), **{argument: Both()})

    def test_anything_but_a_bundle_is_refused(self):
        with pytest.raises(TypeError, match="policies must be Policies, got UnpairedBeta"):
            run_with(policies=UnpairedBeta())

    def test_a_run_goes_on_under_the_same_policies_alone(self, tmp_path):
        plain = Plain()
        options = {"agent": plain, "repo_path": tmp_path, "rounds": 1}
        evolve(tasks, plain.reward, **options)

        with pytest.raises(ValueError, match=r"another run .*policies was \{\}, now .*acceptance"):
            evolve(
                tasks,
                plain.reward,
                **options,
                resume="continue",
                policies=Policies(acceptance=UnpairedBeta()),
            )

    def test_a_policy_of_the_bundle_needs_its_methods_too(self):
        with pytest.raises(TypeError, match="task_sampler must have the methods pick, record"):
            run_with(policies=Policies(task_sampler=object()))


def run_with(**options):
    plain = Plain()
    return evolve(tasks, plain.reward, agent=plain, ledger=MemoryLedger(), **options)
