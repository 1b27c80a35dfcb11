"""The trust region: how much one incoming diff may change."""

from collections.abc import Iterable

from agentdescent.config import AggregatorConfig
from agentdescent.core.diff import Diff
from agentdescent.core.evidence import EvidenceCard


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


def most_ops(config: AggregatorConfig) -> int:
    """The largest number of keys one incoming diff may set."""
    return min(config.trust_region_ops, config.max_commit_ops or config.trust_region_ops)


def _fits(diff: Diff, config: AggregatorConfig) -> bool:
    return diff.size() <= most_ops(config) and all(
        len(str(value)) <= config.trust_region_chars for value in diff.ops.values()
    )
