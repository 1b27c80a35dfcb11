"""Blame: which members of a union it is better off without, found by halving on few tasks."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from agentdescent.core.diff import Diff
from agentdescent.core.evidence import TIE
from agentdescent.core.task import Task
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
