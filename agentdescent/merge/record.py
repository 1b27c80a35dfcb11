"""What one merge knows, beside the values that its stages hand to each other."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from agentdescent.config import AggregatorConfig
from agentdescent.core.artifact import EvolvingArtifact
from agentdescent.core.diff import Diff, State
from agentdescent.core.evidence import EvidenceCard
from agentdescent.core.merging import Verdict, VerifierProtocol
from agentdescent.core.outcomes import Refusal
from agentdescent.merge.candidates import contains, signature
from agentdescent.policy.bundle import AcceptDecision, MergeContext, Policies

MOST_REFUSALS = 2
"""A card that merges leave out this often is dropped."""

NO_POLICIES = Policies()

_LEFT_OUT = "beside other changes, no gain of it was left"
_LUCK = "on its own task, its gain did not show again"


@dataclass(slots=True)
class Merge:
    """One merge of one artifact, from its first survivor to its report.

    Attributes:
        artifact: The head that candidates are compared with.
        verifier: Measures them.
        config: How strict to be.
        cards: The evidence that survived the staleness filter.
        audited: Gates score every held-out task, and a veto counts as the oracle's.
        policies: What decides instead of the stages as they are.
        rivals: Contradicting candidates whose held-out scores were compared.
        full_gates: Candidates that went through the acceptance gate.
        blamed: Members of a union that were held responsible for a task it lost.
        refused: Edits that the gate turned down for good.
        lucky: Those of `refused` whose gain on their own task did not show again.
        committed: The edit that was committed.
        outrun: The edit that was accepted, but lost to other writers.
        opinions: What the acceptance policy was asked, and what it said.
    """

    artifact: EvolvingArtifact
    verifier: VerifierProtocol
    config: AggregatorConfig
    cards: Sequence[EvidenceCard] = ()
    audited: bool = False
    policies: Policies = NO_POLICIES
    rivals: int = 0
    full_gates: int = 0
    blamed: int = 0
    refused: list[Diff] = field(default_factory=list[Diff])
    lucky: list[Diff] = field(default_factory=list[Diff])
    committed: Diff | None = None
    outrun: Diff | None = None
    opinions: list[tuple[MergeContext, AcceptDecision]] = field(
        default_factory=list[tuple[MergeContext, AcceptDecision]]
    )
    _verdicts: list[tuple[State, Verdict]] = field(default_factory=list[tuple[State, Verdict]])

    def verdict_on(self, candidate: EvolvingArtifact) -> Verdict | None:
        """The gate's earlier verdict on the same content."""
        return next((known for state, known in self._verdicts if state == candidate.state), None)

    def refuse_luck(self, diffs: Iterable[Diff]) -> None:
        """Turn down edits whose gain on their own task did not show again."""
        for diff in diffs:
            self.lucky.append(diff)
            self.refused.append(diff)

    def note(self, candidate: EvolvingArtifact, verdict: Verdict) -> None:
        """Remember the gate's verdict."""
        self._verdicts.append((candidate.state, verdict))

    def forget(self, candidate: EvolvingArtifact) -> None:
        """Forget the gate's verdict, as if it had never been asked for one."""
        self.full_gates -= self.verdict_on(candidate) is not None
        self._verdicts = [known for known in self._verdicts if known[0] != candidate.state]

    def members(self, diff: Diff) -> list[EvidenceCard]:
        """The cards whose whole edit is part of `diff`."""
        return [card for card in self.cards if contains(diff, card.diff)]

    def refusals(self) -> list[Refusal]:
        """What the refusals say of each edit that was ingested; what it did alone goes first."""
        said: dict[str, tuple[int, Refusal]] = {}
        for diff in self.refused:
            verdict = None if diff in self.lucky else self.verdict_on(self.artifact.apply(diff))
            why = _LUCK if diff in self.lucky else _LEFT_OUT
            parts = {signature(card.diff): card.diff for card in self.members(diff)}
            for name, part in parts.items():
                company = len(parts) - 1
                if not self._is_committed(part) and (name not in said or company < said[name][0]):
                    said[name] = company, _refusal(part, verdict, company, why)
        return [refusal for _, refusal in said.values()]

    def left_out(self) -> list[EvidenceCard]:
        """The cards that the next merge should see.

        Those that lost a race to other writers wait as they are. The others were not judged; each
        time counts, and after the second they are dropped.
        """
        waiting: list[EvidenceCard] = []
        for card in self.cards:
            if self.outrun and contains(self.outrun, card.diff):
                waiting.append(card)
            elif not self._is_judged(card) and card.refusals + 1 < MOST_REFUSALS:
                waiting.append(card.refused())
        return waiting

    def _is_judged(self, card: EvidenceCard) -> bool:
        refused = any(contains(diff, card.diff) for diff in self.refused)
        return refused or self._is_committed(card.diff)

    def _is_committed(self, diff: Diff) -> bool:
        return self.committed is not None and contains(self.committed, diff)


def _refusal(diff: Diff, verdict: Verdict | None, company: int, unmeasured: str) -> Refusal:
    if verdict is None:
        return Refusal(diff, None, unmeasured)
    alone = f"together with {company} other change(s)" if company else "alone"
    return Refusal(diff, verdict.gain, f"{alone}, over {verdict.finished} held-out task(s)")
