"""Blame: which members of a union it is better off without, found by halving on few tasks."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from agentdescent.core.diff import Diff
from agentdescent.core.evidence import TIE, EvidenceCard
from agentdescent.core.task import Task
from agentdescent.merge.candidates import signature
from agentdescent.merge.record import Merge
from agentdescent.merge.together import together
from agentdescent.merge.union import Union


@dataclass(frozen=True, slots=True)
class Charge:
    """A reward on one task that a union has not kept up.

    Attributes:
        task: The task.
        reward: What it must be at least.
        company: Who earned it on top of the head; nobody, if it is the head's own.
    """

    task: Task
    reward: float
    company: tuple[Diff, ...] = ()


async def blame(merge: Merge, members: Sequence[Diff], lost: Sequence[Task]) -> list[Diff]:
    """The members that lose one of the tasks `lost` by their union.

    Only those tasks are evaluated. Nobody is blamed for what members lose only together, nor for
    what each of them loses on its own: there the head was lucky.
    """
    rewards = await merge.verifier.evaluate(merge.artifact, lost)
    charges = [Charge(task, reward) for task, reward in zip(lost, rewards, strict=True)]
    found = await together(partial(_spoilers, merge, members), charges)
    return _united(members, [some for some in found if len(some) < len(members)])


async def breakers(merge: Merge, members: Sequence[Diff]) -> list[Diff]:
    """The members because of which one of them no longer helps on its own task.

    Every member that was tried on its own task is tried on it once more, in company. If that is
    worth less than its gain, those are to blame who take it back. When the gain does not show
    without the others either, it was luck, and the member is refused.
    """
    promises = _promises(merge, members)
    union = Union.of(merge.artifact, members)
    rewards = await together(partial(_reward, merge, union), [charge.task for charge in promises])
    broken = [
        charge
        for charge, reward in zip(promises, rewards, strict=True)
        if reward < charge.reward - TIE
    ]
    return _united(members, await together(partial(_who_broke, merge, members), broken))


def own_tasks(merge: Merge, members: Sequence[Diff]) -> list[Task]:
    """The tasks that `breakers` begins with."""
    return [charge.task for charge in _promises(merge, members)]


def _promises(merge: Merge, members: Sequence[Diff]) -> list[Charge]:
    """One for each member with a measured gain: the greatest of its cards."""
    best: dict[str, EvidenceCard] = {}
    for card in sorted(merge.cards, key=lambda card: card.before_after_delta):
        if card.verified and any(isinstance(ref, Task) for ref in card.trajectory_refs):
            best[signature(card.diff)] = card
    kept = [(member, best.get(signature(member))) for member in members]
    return [
        Charge(_own_task(card), card.before_after_delta, (member,)) for member, card in kept if card
    ]


def _own_task(card: EvidenceCard) -> Task:
    return next(ref for ref in card.trajectory_refs if isinstance(ref, Task))


async def _who_broke(merge: Merge, members: Sequence[Diff], charge: Charge) -> list[Diff]:
    [member] = charge.company
    alone = Union.of(merge.artifact, charge.company)
    if await _reward(merge, alone, charge.task) < charge.reward - TIE:
        merge.refused.append(member)
        return [member]
    return await _spoilers(merge, [other for other in members if other is not member], charge)


async def _spoilers(merge: Merge, members: Sequence[Diff], charge: Charge) -> list[Diff]:
    """Those of `members` beside whom the company does not earn the reward, found by halving."""
    middle = len(members) // 2
    halves = [half for half in (members[:middle], members[middle:]) if half]
    found = await together(partial(_spoilers_among, merge, charge), halves)
    return [diff for half in found for diff in half]


async def _spoilers_among(merge: Merge, charge: Charge, half: Sequence[Diff]) -> list[Diff]:
    union = Union.of(merge.artifact, [*charge.company, *half])
    if await _reward(merge, union, charge.task) >= charge.reward - TIE:
        return []
    return list(half) if len(half) == 1 else await _spoilers(merge, half, charge)


async def _reward(merge: Merge, union: Union, task: Task) -> float:
    [reward] = await merge.verifier.evaluate(union.artifact, [task])
    return reward


def _united(members: Sequence[Diff], groups: Sequence[Sequence[Diff]]) -> list[Diff]:
    """The members that are in one of `groups`, each once."""
    return [diff for diff in members if any(diff in group for group in groups)]
