"""Own tasks: whether the members of a union still earn there what brought them into it."""

from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import partial

from agentdescent.core.artifact import EvolvingArtifact
from agentdescent.core.diff import Diff
from agentdescent.core.evidence import TIE, EvidenceCard
from agentdescent.core.task import Task
from agentdescent.merge.candidates import signature
from agentdescent.merge.record import Merge
from agentdescent.merge.together import together
from agentdescent.merge.union import Union


@dataclass(frozen=True, slots=True)
class Promise:
    """The greatest gain that a member was seen to bring on its own task.

    Attributes:
        member: The member.
        task: The task of the rollout that it comes from.
        gain: What it gained there.
        others: The union without it; the head, if it was alone.
        seen_once: No other rollout has proposed and tried the same edit.
    """

    member: Diff
    task: Task
    gain: float
    others: EvolvingArtifact
    seen_once: bool


class OwnTasks:
    """The members of a union, each on the task of the rollout that it comes from.

    Attributes:
        union: The union.
        promises: One for each member whose gain was measured, without those of `kept`: members that
            have earned their gains in greater company.
    """

    def __init__(self, merge: Merge, union: Union, kept: Collection[Diff] = ()) -> None:
        self.union: Union = union
        self.promises: list[Promise] = [
            promise for promise in _promises(merge, union) if promise.member not in kept
        ]
        self._merge = merge

    @property
    def trials(self) -> list[tuple[EvolvingArtifact, Task]]:
        """What is evaluated first: every member in company, and whoever is in doubt left out."""
        in_company = [(self.union.artifact, promise.task) for promise in self.promises]
        return (in_company if self.union.fused else []) + [
            (promise.others, promise.task) for promise in self.promises if promise.seen_once
        ]

    async def broken(self) -> list[Promise]:
        """The promises that are not kept in company; all trials are made here, at once."""
        rewards = await together(self._try, self.trials)
        pairs = zip(self.promises, rewards, strict=False)  # those in company come first
        return [promise for promise, reward in pairs if reward < promise.gain - TIE]

    async def lucky(self, among: Sequence[Promise]) -> list[Diff]:
        """The members whose gain was luck, because head or edit had a chance result.

        A gain that was seen once, on a task which the others do as well without the member, is
        measured again: the head and the member alone, both for a second time.
        """
        doubtful = [promise for promise in among if promise.seen_once]
        is_luck = await together(self._is_luck, doubtful)
        return [promise.member for promise, luck in zip(doubtful, is_luck, strict=True) if luck]

    async def shows_alone(self, promise: Promise) -> bool:
        """True if the member earns its gain without the others."""
        alone = Union.of(self._merge.artifact, [promise.member])
        return await self._reward(alone.artifact, promise.task) >= promise.gain - TIE

    async def _is_luck(self, promise: Promise) -> bool:
        least = await self._in_company(promise) if self.union.fused else promise.gain
        if await self._reward(promise.others, promise.task) < least - TIE:
            return False
        head = self._merge.artifact
        alone = Union.of(head, [promise.member]).artifact
        second = partial(self._merge.verifier.second, tasks=[promise.task])
        [without], [by_it] = await together(second, [head, alone])
        return by_it <= without + TIE

    async def _in_company(self, promise: Promise) -> float:
        return await self._reward(self.union.artifact, promise.task)

    async def _try(self, trial: tuple[EvolvingArtifact, Task]) -> float:
        return await self._reward(*trial)

    async def _reward(self, artifact: EvolvingArtifact, task: Task) -> float:
        [reward] = await self._merge.verifier.evaluate(artifact, [task])
        return reward


def _promises(merge: Merge, union: Union) -> list[Promise]:
    best: dict[str, tuple[EvidenceCard, Task]] = {}
    seen: Counter[str] = Counter()
    for card in sorted(merge.cards, key=lambda card: card.before_after_delta):
        own = next((ref for ref in card.trajectory_refs if isinstance(ref, Task)), None)
        if card.verified and own is not None:
            name = signature(card.diff)
            best[name] = card, own
            seen[name] += 1
    made: list[Promise] = []
    for member in union.members:
        name = signature(member)
        if name in best:
            card, own = best[name]
            others = _without(merge.artifact, union.members, member)
            made.append(Promise(member, own, card.before_after_delta, others, seen[name] == 1))
    return made


def _without(head: EvolvingArtifact, members: Sequence[Diff], member: Diff) -> EvolvingArtifact:
    others = [other for other in members if other is not member]
    return Union.of(head, others).artifact if others else head
