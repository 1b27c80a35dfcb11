"""Blame: which members of a union it is better off without, found by halving on few tasks."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from agentdescent.core.diff import Diff
from agentdescent.core.evidence import TIE
from agentdescent.core.task import Task
from agentdescent.merge.own_tasks import OwnTasks, Promise
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


async def blame(merge: Merge, union: Union, lost: Sequence[Task]) -> list[Diff]:
    """The members of `union` that lose one of the tasks `lost`.

    Only those tasks are evaluated: head and union first for a second time, since most losses of
    sampled models are chance and do not show again. Nobody is blamed for what members lose only
    together, nor for what each of them loses on its own: there the head was lucky.
    """
    second = partial(merge.verifier.second, tasks=lost)
    before, after = await together(second, [merge.artifact, union.artifact]) if lost else ((), ())
    charges = [
        Charge(task, old)
        for task, old, new in zip(lost, before, after, strict=True)
        if new < old - TIE
    ]
    found = await together(partial(_spoilers, merge, union.members), charges)
    return _united(union.members, [some for some in found if len(some) < len(union.members)])


async def breakers(merge: Merge, own: OwnTasks) -> list[Diff]:
    """The members that do not help on their own task, and those because of which others do not.

    Every member that was tried on its own task is tried on it once more, in company. If that is
    worth less than its gain, those are to blame who take it back. A gain that does not show alone
    either, or that shows as much without the member, was luck, and the member is refused.
    """
    broken = await own.broken()
    found = await together(partial(_who_broke, merge, own), broken)
    lucky = await own.lucky([promise for promise in own.promises if promise not in broken])
    merge.refuse_luck(lucky)
    return _united(own.union.members, [*found, lucky])


async def _who_broke(merge: Merge, own: OwnTasks, promise: Promise) -> list[Diff]:
    member, others = promise.member, [m for m in own.union.members if m is not promise.member]
    if not await own.shows_alone(promise):
        merge.refuse_luck([member])
        return [member]
    return await _spoilers(merge, others, Charge(promise.task, promise.gain, (member,)))


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
