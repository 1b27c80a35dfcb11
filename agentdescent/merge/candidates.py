"""From cards to candidates: identical edits are one candidate."""

from collections.abc import Iterable, Sequence
from dataclasses import replace

from agentdescent.core.diff import Diff
from agentdescent.core.evidence import EvidenceCard


def signature(diff: Diff) -> str:
    """Text that is equal for identical edits."""
    return repr(sorted(diff.ops.items()))


def contains(diff: Diff, part: Diff) -> bool:
    """True when `diff`, or one of those it was made of, makes every edit that `part` makes."""
    return any(part.ops.items() <= edit.ops.items() for edit in diff.edits())


def candidates(cards: Iterable[EvidenceCard]) -> list[Diff]:
    """One diff for each distinct edit: greatest gain on its own task first, then first come.

    Where several cards carry the same edit, the diff names all their authors.
    """
    groups: dict[str, list[EvidenceCard]] = {}
    for card in cards:
        groups.setdefault(signature(card.diff), []).append(card)
    ranked = sorted(groups.values(), key=_rank)
    return [_joined(group) for group in ranked]


def _rank(group: Sequence[EvidenceCard]) -> tuple[float, tuple[int, int]]:
    gain = max(card.before_after_delta for card in group)
    return -gain, min(card.order for card in group)


def _joined(group: Sequence[EvidenceCard]) -> Diff:
    if len(group) == 1:
        return group[0].diff
    authors = dict.fromkeys(card.diff.author for card in group)
    return replace(
        group[0].diff,
        author="+".join(authors),
        contract_breaking=any(card.diff.contract_breaking for card in group),
    )
