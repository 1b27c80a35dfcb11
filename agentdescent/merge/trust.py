"""How much one incoming diff may change, and what it must not."""

from collections.abc import Iterable

from agentdescent.config import AggregatorConfig
from agentdescent.core.artifact import EvolvingArtifact
from agentdescent.core.diff import Diff, apply_ops
from agentdescent.core.evidence import EvidenceCard
from agentdescent.core.outcomes import ProposalOutcome, Refusal


def within_trust_region(
    cards: Iterable[EvidenceCard], config: AggregatorConfig
) -> tuple[list[EvidenceCard], list[EvidenceCard]]:
    """Part the cards whose diff is small enough from those whose diff is not.

    A diff larger than `max_commit_ops` could never be committed, so it counts as too large.
    """
    fitting: list[EvidenceCard] = []
    oversized: list[EvidenceCard] = []
    for card in cards:
        (fitting if _fits(card.diff, config) else oversized).append(card)
    return fitting, oversized


def within_constraints(
    artifact: EvolvingArtifact, cards: Iterable[EvidenceCard]
) -> tuple[list[EvidenceCard], list[Refusal]]:
    """Part the cards that `artifact` may take as it is now from those that break a constraint.

    A card was checked when it was made; what was committed since may leave no room for it.
    """
    if not artifact.constraints:
        return list(cards), []
    allowed: list[EvidenceCard] = []
    refused: list[Refusal] = []
    for card in cards:
        reason = artifact.violation(apply_ops(artifact.state, card.diff.ops))
        if reason:
            refused.append(Refusal(card.diff, None, reason, ProposalOutcome.CONSTRAINT))
        else:
            allowed.append(card)
    return allowed, refused


def most_ops(config: AggregatorConfig) -> int:
    """The largest number of keys one incoming diff may set."""
    return min(config.trust_region_ops, config.max_commit_ops or config.trust_region_ops)


def _fits(diff: Diff, config: AggregatorConfig) -> bool:
    return diff.size() <= most_ops(config) and all(
        len(str(value)) <= config.trust_region_chars for value in diff.ops.values()
    )
