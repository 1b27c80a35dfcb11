"""Conflict resolution: of edits that give one key different values, one stays."""

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence

from agentdescent.core.diff import Diff
from agentdescent.core.evidence import TIE, EvidenceCard
from agentdescent.merge.candidates import signature
from agentdescent.merge.record import Merge
from agentdescent.merge.together import together

MOST_RIVALS = 4
"""More rivals for one key than these are halved on half the ranking subset first."""


async def resolve_conflicts(
    merge: Merge, cards: Sequence[EvidenceCard]
) -> tuple[list[EvidenceCard], int]:
    """Keep cards of which no two contradict, and count the others.

    Rivals are compared by their summed reward over the ranking subset; a tie keeps the earlier.
    """
    rivals = _contested(cards)
    merge.rivals += len(rivals)
    shortlist = await _halved(merge, cards, rivals) if rivals else list(cards)
    scores = await _totals(merge, _contested(shortlist), 1.0)
    kept = settle(shortlist, scores)
    return kept, len(cards) - len(kept)


def settle(cards: Sequence[EvidenceCard], scores: Mapping[str, float]) -> list[EvidenceCard]:
    """Let every newcomer meet the kept cards that it contradicts.

    It takes their place if it scores strictly higher than each of them; else it is dropped.

    Args:
        cards: In their order.
        scores: The score of each edit that contradicts another, by signature.
    """
    contested = [card for card in cards if signature(card.diff) in scores]
    kept: list[EvidenceCard] = []
    for card in contested:
        rivals = [other for other in kept if other.diff.contradicts(card.diff)]
        if all(_beats(card, rival, scores) for rival in rivals):
            kept = [*(other for other in kept if other not in rivals), card]
    dropped = {id(card) for card in contested} - {id(card) for card in kept}
    return [card for card in cards if id(card) not in dropped]


def _beats(card: EvidenceCard, rival: EvidenceCard, scores: Mapping[str, float]) -> bool:
    return scores[signature(card.diff)] > scores[signature(rival.diff)] + TIE


def _contested(cards: Sequence[EvidenceCard]) -> dict[str, Diff]:
    """The distinct edits that contradict another one, by signature."""
    edits = {signature(card.diff): card.diff for card in cards}
    values: defaultdict[str, list[object]] = defaultdict(list)
    for edit in edits.values():
        for key, value in edit.ops.items():
            if value not in values[key]:
                values[key].append(value)
    return {
        name: edit for name, edit in edits.items() if any(len(values[key]) > 1 for key in edit.ops)
    }


async def _halved(
    merge: Merge, cards: Sequence[EvidenceCard], rivals: Mapping[str, Diff]
) -> list[EvidenceCard]:
    """`cards` without the worse half of the values of each key that has too many."""
    crowded = _crowded(rivals)
    entrants = {name for sides in crowded for side in sides for name in side}
    scores = await _totals(merge, {n: e for n, e in rivals.items() if n in entrants}, 0.5)
    losers: set[str] = set()
    for sides in crowded:
        ranked = sorted(sides, key=lambda side: -max(scores[name] for name in side))
        losers.update(name for side in ranked[(len(ranked) + 1) // 2 :] for name in side)
    return [card for card in cards if signature(card.diff) not in losers]


def _crowded(rivals: Mapping[str, Diff]) -> list[list[Collection[str]]]:
    """For each key with too many values: the signatures of the edits behind each value."""
    sides: defaultdict[str, defaultdict[str, list[str]]] = defaultdict(lambda: defaultdict(list))
    for name, edit in rivals.items():
        for key, value in edit.ops.items():
            sides[key][repr(value)].append(name)
    return [list(of_key.values()) for of_key in sides.values() if len(of_key) > MOST_RIVALS]


async def _totals(merge: Merge, edits: Mapping[str, Diff], fraction: float) -> dict[str, float]:
    async def total(edit: Diff) -> float:
        value: float = await merge.verifier.cheap_total(merge.artifact.apply(edit), fraction)
        return value

    scores = await together(total, edits.values())
    return dict(zip(edits, scores, strict=True))
