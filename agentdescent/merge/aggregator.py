"""The reference aggregator: its stages in order, each of them an override point."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from agentdescent.config import AggregatorConfig
from agentdescent.core.artifact import EvolvingArtifact
from agentdescent.core.diff import Diff
from agentdescent.core.evidence import EvidenceCard
from agentdescent.core.merging import ArtifactLedger, Audit, LedgerSnapshot, VerifierProtocol
from agentdescent.core.outcomes import MergeOutcome, MergeReport, Refusal
from agentdescent.core.protocols import StalenessPolicy
from agentdescent.core.task import Task
from agentdescent.merge.acceptance import gate, learn_trust, refuse
from agentdescent.merge.buffer import EvidenceBuffer
from agentdescent.merge.candidates import candidates
from agentdescent.merge.commit import Committer
from agentdescent.merge.conflict import resolve_conflicts
from agentdescent.merge.fusion import tournament
from agentdescent.merge.own_tasks import OwnTasks
from agentdescent.merge.promotion import Promotion
from agentdescent.merge.record import NO_POLICIES, Merge
from agentdescent.merge.replaced import fused_by, tell
from agentdescent.merge.second_look import TurnedDown, look_again
from agentdescent.merge.staleness import StalenessFilter
from agentdescent.merge.trust import most_ops, within_constraints, within_trust_region
from agentdescent.merge.union import Union
from agentdescent.policy.bundle import Policies
from agentdescent.policy.governance import assert_mutable
from agentdescent.policy.staleness import get_policy
from agentdescent.threads import either, invoke


class Aggregator:
    """Decides what to merge.

    Evidence cards wait in a buffer. A merge takes the cards of one artifact through six stages:
    trust region, staleness filter, conflict resolution, one union of all candidates, acceptance
    gate, commit. Cards that it left out without judging them wait for the next one.

    `ingest`, `step`, `flush`, `finalize`, `_process`, `_staleness_filter`, `_resolve_conflicts` and
    `_tournament` may each be overridden by a `def` or an `async def`, which calls `super()` in
    kind: an `async def` awaits it; a plain `def` runs in a thread of its own, where it gets plain
    values from `super()` as well as from `self.verifier` and `self.ledger`.

    Attributes:
        ledger: Where accepted candidates go.
        verifier: Measures candidates.
        audit: Says which merges are checked against the whole held-out set.
        config: How strict to be.
        staleness_policy: Judges evidence made against an older version.
        policies: What decides instead of the stages as they are.
        buffer: The cards that wait.
        screened: How many cards were turned away because they did not help on their own task.
    """

    def __init__(
        self,
        ledger: ArtifactLedger,
        verifier: VerifierProtocol,
        audit: Audit,
        config: AggregatorConfig | None = None,
        staleness_policy: StalenessPolicy | None = None,
        policies: Policies | None = None,
    ) -> None:
        self.ledger = ledger
        self.verifier = verifier
        self.audit = audit
        self.config: AggregatorConfig = config or AggregatorConfig()
        self.policies: Policies = policies or NO_POLICIES
        self.staleness_policy: StalenessPolicy = (
            staleness_policy or self.policies.staleness or get_policy("guarded")
        )
        self.buffer: EvidenceBuffer = EvidenceBuffer()
        self.screened: int = 0
        self._staleness = StalenessFilter(ledger, verifier, self.staleness_policy, self.config)
        self._committer = Committer(ledger, self.config)
        self._promotion = Promotion(ledger, self.config.promote_after_k, self.policies.promotion)
        self._turned_down = TurnedDown()
        self._merge: Merge | None = None

    def pending(self) -> int:
        """How many cards wait for a merge."""
        return self.buffer.pending()

    def dump(self) -> dict[str, Any]:
        """What waits and what has been counted, as JSON values."""
        return {
            "buffer": self.buffer.dump(),
            "promotion": self._promotion.dump(),
            "screened": self.screened,
            "turned_down": self._turned_down.dump(),
            "policies": {name: policy.dump() for name, policy in self._lasting().items()},
        }

    def restore(self, saved: Mapping[str, Any], tasks: Mapping[str, Task]) -> None:
        """Go on from what `dump` gave; `tasks` are all training tasks by id."""
        self.buffer.restore(saved["buffer"], tasks)
        self._promotion.restore(saved["promotion"])
        self.screened = saved["screened"]
        self._turned_down.restore(saved.get("turned_down", {}))
        known = saved.get("policies", {})
        for name, policy in self._lasting().items():
            if name in known:
                policy.restore(known[name])

    def _lasting(self) -> dict[str, Any]:
        """The stages whose state outlives the process."""
        stages = self.policies.stages()
        return {name: policy for name, policy in stages.items() if hasattr(policy, "dump")}

    @either
    async def ingest(self, card: EvidenceCard) -> None:
        """File `card`, unless it was tried on its own task and did not help there."""
        if card.is_candidate:
            self.buffer.add(card)
        else:
            self.screened += 1

    @either
    async def step(self) -> list[MergeReport]:
        """Merge what is due, one report per artifact, and promote what has survived.

        Whatever ends a merge early, cancellation included, puts its cards back.

        Raises:
            ContractError: If the caller's code broke a promise.
            LedgerError: If the ledger fails.
            EvaluationFailed: If a task that a decision needs could not be scored.
        """
        self.buffer.tick()
        return await self._merge_each(self.buffer.due(self.config))

    @either
    async def flush(self) -> list[MergeReport]:
        """As `step`, but whatever waits is due."""
        return await self._merge_each(self.buffer.waiting())

    @either
    async def finalize(self) -> None:
        """Promote every artifact that was merged, at the end of a clean run.

        Raises:
            LedgerError: If the ledger fails.
        """
        await self._promotion.finish()

    async def _merge_each(self, artifact_ids: Iterable[str]) -> list[MergeReport]:
        reports: list[MergeReport] = [
            await invoke(self._process, artifact_id) for artifact_id in artifact_ids
        ]
        await self._promotion.observe(reports)
        return reports

    @either
    async def _process(self, artifact_id: str) -> MergeReport:
        """One merge: take the cards of one artifact from the buffer through all stages."""
        with self.buffer.lease(artifact_id) as batch:
            report = MergeReport(artifact_id, considered=len(batch.cards))
            snapshot: LedgerSnapshot = await self.ledger.snapshot()
            artifact = snapshot.get(artifact_id)
            if artifact is None:
                return replace(
                    report,
                    category=MergeOutcome.UNKNOWN_ARTIFACT,
                    reason=f"the ledger holds {sorted(snapshot.artifacts)}, not {artifact_id!r}",
                )
            assert_mutable(artifact_id)
            cards = sorted(batch.cards, key=lambda card: card.order)
            fitting, oversized = within_trust_region(cards, self.config)
            survivors, stale = await invoke(
                self._staleness_filter, artifact, snapshot.version, fitting
            )
            report = replace(report, survived_staleness=len(survivors), discarded_stale=stale)
            allowed, forbidden = within_constraints(artifact, survivors)
            turned_down = [*(self._too_large(card.diff) for card in oversized), *forbidden]
            if not allowed:
                report = replace(report, refused=turned_down)
                return self._nothing_left(report, len(oversized), forbidden)
            self._merge = merge = self._open(artifact, allowed)
            try:
                report = await self._judge(merge, report)
            finally:
                self._merge = None
            batch.commit(merge.left_out())
            return replace(report, refused=[*turned_down, *merge.refusals()])

    @either
    async def _staleness_filter(
        self, artifact: EvolvingArtifact, head: Mapping[str, int], cards: Sequence[EvidenceCard]
    ) -> tuple[list[EvidenceCard], int]:
        """The cards that may go on, based on the versions of `head`, and how many may not."""
        return await self._staleness.sift(artifact, head, cards)

    @either
    async def _resolve_conflicts(
        self, artifact: EvolvingArtifact, cards: Sequence[EvidenceCard]
    ) -> tuple[list[EvidenceCard], int]:
        """Cards of which no two contradict, and how many others there were."""
        return await resolve_conflicts(self._merge_of(artifact), cards)

    @either
    async def _tournament(
        self, artifact: EvolvingArtifact, diffs: Sequence[Diff]
    ) -> tuple[Diff | None, EvolvingArtifact, bool]:
        """The edit to put to the gate, the artifact with it, and whether it is a fusion.

        `diffs` are the candidates, the most promising first. The edit may be any of them, a union,
        or None for none at all; with one candidate nothing is evaluated here. Candidates that are
        neither part of it nor turned down by the gate wait for the next merge.
        """
        if not diffs:
            return None, artifact, False
        merge, policy = self._merge_of(artifact), self.policies.fusion
        if policy is None:
            best = await tournament(merge, diffs)
        else:
            best = await fused_by(merge, diffs, policy)
        return (best.diff, best.artifact, best.fused) if best else (None, artifact, False)

    def _open(self, artifact: EvolvingArtifact, cards: Sequence[EvidenceCard] = ()) -> Merge:
        audited = self.audit.force_oracle(artifact.blast_radius, artifact.id)
        return Merge(artifact, self.verifier, self.config, cards, audited, self.policies)

    def _merge_of(self, artifact: EvolvingArtifact) -> Merge:
        """The merge under way, or a new one for a stage that is called on its own."""
        merge = self._merge
        return merge if merge and merge.artifact is artifact else self._open(artifact)

    def _too_large(self, diff: Diff) -> Refusal:
        return Refusal(diff, None, f"it sets {self._limits}", MergeOutcome.OVERSIZED)

    @property
    def _limits(self) -> str:
        chars = self.config.trust_region_chars
        return f"more than {most_ops(self.config)} keys or a value of more than {chars} characters"

    def _nothing_left(
        self, report: MergeReport, oversized: int, forbidden: Sequence[Refusal]
    ) -> MergeReport:
        if forbidden:
            category, reason = forbidden[0].category, forbidden[0].reason
            return replace(report, category=category, reason=reason)
        stale = report.discarded_stale
        limits = f"{oversized} of {report.considered} cards set {self._limits}"
        if not stale:
            return replace(report, category=MergeOutcome.OVERSIZED, reason=limits)
        lag = f"{stale} of {report.considered} cards lag too far, or help no more"
        reason = f"{lag}; {limits}" if oversized else lag
        return replace(report, category=MergeOutcome.ALL_STALE, reason=reason)

    async def _judge(self, merge: Merge, report: MergeReport) -> MergeReport:
        kept, dropped = await invoke(self._resolve_conflicts, merge.artifact, merge.cards)
        if dropped:
            report = replace(report, conflicts_dropped=dropped)
        diff, candidate, fused = await invoke(self._tournament, merge.artifact, candidates(kept))
        if diff is None:
            category, reason = MergeOutcome.BELOW_THRESHOLD, "no candidate was chosen"
            return replace(report, category=category, reason=reason)
        report = await self._conclude(merge, report, diff, candidate)
        await tell(merge, candidate)
        return replace(report, fused=True) if fused and report.accepted is not None else report

    async def _conclude(
        self, merge: Merge, report: MergeReport, diff: Diff, candidate: EvolvingArtifact
    ) -> MergeReport:
        own = OwnTasks(merge, Union((diff,), diff, candidate))  # none, if it was made of several
        verdict = await gate(merge, candidate, own.trials)
        if not verdict.accepted and self._turned_down.has(merge, diff):
            verdict = await look_again(merge, candidate, verdict)
        report = replace(report, prob_improve=verdict.probability, blamed=merge.blamed)
        await learn_trust(merge, candidate, verdict, self.audit)
        if not verdict.accepted:
            category, reason = refuse(merge, diff, verdict)
            if not verdict.undecided:
                self._turned_down.note(merge, diff)
            return replace(report, category=category, reason=reason)
        if await own.lucky(own.promises):
            merge.refuse_luck([diff])
            category, reason = MergeOutcome.BELOW_THRESHOLD, "its gain on its own task was luck"
            return replace(report, category=category, reason=reason)
        version = await self._committer.commit(merge, candidate, diff, verdict)
        if version is None:
            category, reason = MergeOutcome.CAS_CONFLICT, "other writers were first"
            return replace(report, category=category, reason=reason)
        return replace(
            report,
            accepted=diff,
            committed_version=version,
            category=MergeOutcome.COMMITTED,
            reason=f"{verdict.reason}; {verdict.before:.3f} -> {verdict.after:.3f}",
        )
