"""Conflict resolution: of edits that clash, one stays; what can be joined does not clash."""

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from functools import partial

from agentdescent.core.diff import Diff, diffs_contradict
from agentdescent.core.evidence import TIE, EvidenceCard
from agentdescent.merge.candidates import signature
from agentdescent.merge.joining import clash
from agentdescent.merge.record import Merge
from agentdescent.merge.replaced import resolved
from agentdescent.merge.together import together

MOST_RIVALS = 4
"""More rivals for one key than these are halved on half the ranking subset first."""

Clash = Callable[[Diff, Diff], bool]


async def resolve_conflicts(
    merge: Merge, cards: Sequence[EvidenceCard]
) -> tuple[list[EvidenceCard], int]:
    """Keep cards of which no two clash, and count the others.

    Rivals are compared by their summed reward over the ranking subset; a tie keeps the earlier.
    """
    clashes = partial(clash, merge.artifact)
    rivals = _contested(cards, clashes)
    if not rivals:
        return list(cards), 0
    merge.rivals += len(rivals)
    if merge.policies.conflict is not None:
        return await resolved(merge, cards, merge.policies.conflict)
    shortlist = await _halved(merge, cards, rivals, clashes)
    scores = await _totals(merge, _contested(shortlist, clashes), 1.0)
    kept = settle(shortlist, scores, clashes)
    return kept, len(cards) - len(kept)


def settle(
    cards: Sequence[EvidenceCard], scores: Mapping[str, float], clashes: Clash = diffs_contradict
) -> list[EvidenceCard]:
    """Let every newcomer meet the kept cards that it clashes with.

    It takes their place if it scores strictly higher than each of them; else it is dropped.

    Args:
        cards: In their order.
        scores: The score of each edit that clashes with another, by signature.
        clashes: Whether two edits cannot both stay.
    """
    contested = [card for card in cards if signature(card.diff) in scores]
    kept: list[EvidenceCard] = []
    for card in contested:
        rivals = [other for other in kept if clashes(other.diff, card.diff)]
        if all(_beats(card, rival, scores) for rival in rivals):
            kept = [*(other for other in kept if other not in rivals), card]
    dropped = {id(card) for card in contested} - {id(card) for card in kept}
    return [card for card in cards if id(card) not in dropped]


def _beats(card: EvidenceCard, rival: EvidenceCard, scores: Mapping[str, float]) -> bool:
    return scores[signature(card.diff)] > scores[signature(rival.diff)] + TIE


def _contested(cards: Sequence[EvidenceCard], clashes: Clash) -> dict[str, Diff]:
    """The distinct edits that clash with another one, by signature."""
    edits = {signature(card.diff): card.diff for card in cards}
    by_key: defaultdict[str, list[Diff]] = defaultdict(list)
    for edit in edits.values():
        for key in edit.ops:
            by_key[key].append(edit)
    shared = {key: beside for key, beside in by_key.items() if len(beside) > 1}
    return {
        name: edit
        for name, edit in edits.items()
        if any(clashes(edit, other) for key in edit.ops for other in shared.get(key, ()))
    }


async def _halved(
    merge: Merge, cards: Sequence[EvidenceCard], rivals: Mapping[str, Diff], clashes: Clash
) -> list[EvidenceCard]:
    """`cards` without the worse half of the values of each key that has too many."""
    crowded = _crowded(rivals, clashes)
    entrants = {name for sides in crowded for side in sides for name in side}
    scores = await _totals(merge, {n: e for n, e in rivals.items() if n in entrants}, 0.5)
    losers: set[str] = set()
    for sides in crowded:
        ranked = sorted(sides, key=lambda side: -max(scores[name] for name in side))
        losers.update(name for side in ranked[(len(ranked) + 1) // 2 :] for name in side)
    return [card for card in cards if signature(card.diff) not in losers]


def _crowded(rivals: Mapping[str, Diff], clashes: Clash) -> list[list[list[str]]]:
    """For each key with too many values that clash: the signatures of the edits behind each."""
    sides: defaultdict[str, defaultdict[str, list[str]]] = defaultdict(lambda: defaultdict(list))
    for name, edit in rivals.items():
        for key, value in edit.ops.items():
            sides[key][repr(value)].append(name)
    crowds = [_crowd(list(of_key.values()), rivals, clashes) for of_key in sides.values()]
    return [crowd for crowd in crowds if crowd]


def _crowd(sides: list[list[str]], rivals: Mapping[str, Diff], clashes: Clash) -> list[list[str]]:
    """Those of `sides` that cannot stay beside too many of the others."""
    if len(sides) <= MOST_RIVALS:
        return []
    edits = [rivals[side[0]] for side in sides]
    n_rivals = [sum(clashes(edit, other) for other in edits) for edit in edits]
    return [side for side, n in zip(sides, n_rivals, strict=True) if n >= MOST_RIVALS]


async def _totals(merge: Merge, edits: Mapping[str, Diff], fraction: float) -> dict[str, float]:
    async def total(edit: Diff) -> float:
        value: float = await merge.verifier.cheap_total(merge.artifact.apply(edit), fraction)
        return value

    scores = await together(total, edits.values())
    return dict(zip(edits, scores, strict=True))
