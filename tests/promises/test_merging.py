"""What is merged, and how carefully: `blast_radius=`, `agg_config=`, `aggregator_factory=`."""

import re

import pytest

from agentdescent import Aggregator, AggregatorConfig, GovernanceError, MergeReport, evolve
from support import pens
from support.pens import Plain, agent, reward, tasks


@pytest.mark.parametrize("blast_radius", [0.2, 0.6])
def test_an_artifact_of_any_layer_evolves(blast_radius):
    result = evolve(tasks, reward, agent=agent, blast_radius=blast_radius)

    assert result.final_reward == 1.0


@pytest.mark.parametrize(
    ("blast_radius", "refusal"),
    [(0.2, "below-threshold"), (0.30, "below-threshold"), (0.31, "oracle-rejected"),
     (0.6, "oracle-rejected"), (0.9, "oracle-rejected")],
)  # fmt: skip
def test_above_a_blast_radius_of_030_every_merge_goes_through_the_oracle(blast_radius, refusal):
    result = evolve(
        tasks,
        reward,
        run=lambda rendered, task: rendered,
        propose=lambda rendered, task, out, score: f"a rule for task {task.id} that helps nobody",
        self_verify=False,
        blast_radius=blast_radius,
        rounds=2,
    )

    assert set(result.outcomes()) == {refusal}


@pytest.mark.parametrize(
    "name", ["oracle", "audit_budget", "merge_permissions", "safety_constraints"]
)
def test_frozen_ids_are_read_only(name):
    calls = []

    with pytest.raises(GovernanceError, match=name):
        evolve(
            tasks,
            reward,
            run=lambda rendered, task: calls.append(task),
            propose=lambda rendered, task, out, score: None,
            artifact_id=name,
        )

    assert calls == []


def test_knobs_of_the_pipeline_can_be_tuned():
    result = evolve(tasks, reward, agent=agent,
           agg_config=AggregatorConfig(base_delta=0.5, trust_region_ops=6))  # fmt: skip
    plain = evolve(tasks, reward, agent=agent)

    assert [i.committed for i in result.history] == [i.committed for i in plain.history]
    assert result.state == plain.state


# replace: subclass one decision (or satisfy AggregatorProtocol from scratch)
class StrictAggregator(Aggregator):
    def _tournament(self, artifact, diffs):
        return super()._tournament(artifact, [diffs[0]] if diffs else diffs)  # never fuse


class TestOneDecisionReplaced:
    def learn(self, **options):
        plain = Plain()
        return evolve(
            tasks, plain.reward, agent=plain, n_workers=6, max_concurrency=6, rounds=5, **options
        )

    def test_the_reference_fuses(self):
        assert self.learn().history[0].fused == 1

    def test_a_strict_aggregator_never_fuses(self):
        result = self.learn(
           aggregator_factory=lambda ledger, verifier, audit, config, policy:
               StrictAggregator(ledger, verifier, audit, config, staleness_policy=policy),
        )  # fmt: skip

        assert [info.fused for info in result.history] == [0] * 5
        assert [info.committed for info in result.history] == [1, 1, 1, 0, 0]
        assert result.final_reward == 1.0

    def test_what_it_left_out_gets_its_turn_later(self):
        result = self.learn(aggregator_factory=StrictAggregator, self_verify=False)

        assert sorted(result.state.values()) == sorted(Plain.names)

    def test_it_reads_a_report_with_category_and_reason(self):
        reports = []

        class Reporting(Aggregator):
            def step(self):
                new = super().step()
                reports.extend(new)
                return new

        result = self.learn(aggregator_factory=Reporting)

        assert {report.category for report in reports} == set(result.outcomes()) == {"committed"}
        (report,) = reports
        assert report.prob_improve > 0.99
        assert report.accepted.author == "aggregator"
        assert report.committed_version == result.version == 2

    def test_a_refusal_interpolates_what_was_measured(self):
        reports = []

        class Reporting(Aggregator):
            async def step(self):
                new = await super().step()
                reports.extend(new)
                return new

        evolve(
            tasks,
            reward,
            run=lambda rendered, task: rendered,
            propose=lambda rendered, task, out, score: "a rule that helps nobody",
            self_verify=False,
            aggregator_factory=Reporting,
            rounds=1,
        )

        (report,) = reports
        assert report.category == "below-threshold"
        assert re.search(r"P\(delta>0\) = 0\.50\b.* 0\.51\b", report.reason)


def test_an_aggregator_from_scratch_replaces_the_optimizer():
    class Greedy:
        """Commits whatever comes, unseen."""

        def __init__(self, ledger, verifier, audit, config, staleness_policy):
            self.ledger, self.cards = ledger, []

        def ingest(self, card):
            self.cards.append(card)

        def step(self):
            reports = []
            for card in self.cards:
                head = self.ledger.snapshot()
                artifact = head.get(card.diff.target)
                _, version = self.ledger.commit(artifact.apply(card.diff), head.version)
                reports.append(merged(card, version))
            self.cards = []
            return reports

    result = evolve(tasks, reward, agent=agent, aggregator_factory=Greedy, rounds=1)

    assert result.version == 5
    assert result.outcomes() == {"committed": 4}
    assert result.rendered == f"# Playbook\n- {pens.RULE}"


def merged(card, version):
    return MergeReport(
        card.diff.target, accepted=card.diff, committed_version=version, category="committed"
    )
