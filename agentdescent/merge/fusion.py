"""Fusion: one union of all candidates, and blame for the tasks that it lost."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from agentdescent.core.artifact import EvolvingArtifact
from agentdescent.core.diff import Diff, fuse_diffs
from agentdescent.core.evidence import TIE
from agentdescent.core.merging import Verdict
from agentdescent.core.task import Task
from agentdescent.merge.acceptance import gate
from agentdescent.merge.record import Merge
from agentdescent.merge.together import together

MAX_GATES = 3
"""A merge judges at most this many candidates on the held-out tasks."""


@dataclass(frozen=True, slots=True)
class Union:
    """Some candidates as one diff, and the artifact with it applied."""

    members: tuple[Diff, ...]
    diff: Diff
    artifact: EvolvingArtifact

    @classmethod
    def of(cls, head: EvolvingArtifact, members: Sequence[Diff]) -> "Union":
        """The union of `members`, of which no two contradict."""
        diff = members[0] if len(members) == 1 else fuse_diffs(members)
        return cls(tuple(members), diff, head.apply(diff))

    @property
    def fused(self) -> bool:
        """It has more than one member."""
        return len(self.members) > 1


async def tournament(merge: Merge, diffs: Sequence[Diff]) -> Union:
    """Find the best of the unions of `diffs`, at least one, of which no two contradict.

    A single diff is handed on without any evaluation. Several are gated as one union; members
    that it lost tasks by are taken out and the rest is gated again. What is returned has passed
    the gate, unless nothing has.
    """
    members = fitting(diffs, merge.config.max_commit_ops)
    if len(members) == 1:
        return Union.of(merge.artifact, members)
    return await _Tournament(merge).run(members)


def fitting(diffs: Sequence[Diff], max_ops: int | None) -> list[Diff]:
    """The first of `diffs`, and of the others as many as one commit may hold beside it.

    None that contradicts an earlier one is among them.
    """
    members: list[Diff] = []
    taken: dict[str, Any] = {}
    for diff in diffs:
        n_ops = len(taken) + len(diff.ops.keys() - taken.keys())
        fits = not members or max_ops is None or n_ops <= max_ops
        if fits and all(taken.get(key, value) == value for key, value in diff.ops.items()):
            members.append(diff)
            taken |= diff.ops
    return members


async def blame(merge: Merge, members: Sequence[Diff], lost: Sequence[Task]) -> list[Diff]:
    """The members that lose one of the tasks `lost` by their union.

    Only those tasks are evaluated. Nobody is blamed for what members lose only together, nor for
    what each of them loses on its own: there the head was lucky.
    """
    losers = await together(partial(_losers, merge, members), lost)
    guilty = [diff for found in losers if len(found) < len(members) for diff in found]
    return [diff for diff in members if diff in guilty]


async def _losers(merge: Merge, members: Sequence[Diff], task: Task) -> list[Diff]:
    """The members that lose `task` on their own, found by halving."""
    middle = len(members) // 2
    halves = [members[:middle], members[middle:]]
    found = await together(partial(_losers_within, merge, task), halves)
    return [diff for half in found for diff in half]


async def _losers_within(merge: Merge, task: Task, half: Sequence[Diff]) -> list[Diff]:
    [before] = await merge.verifier.evaluate(merge.artifact, [task])
    [after] = await merge.verifier.evaluate(Union.of(merge.artifact, half).artifact, [task])
    if after >= before - TIE:
        return []
    return list(half) if len(half) == 1 else await _losers(merge, half, task)


class _Tournament:
    """The unions of one tournament, from all members to the best that passed the gate."""

    def __init__(self, merge: Merge) -> None:
        self._merge = merge
        self._blamed: list[Diff] = []
        self._passing: list[tuple[Union, Verdict]] = []

    async def run(self, members: Sequence[Diff]) -> Union:
        whole = Union.of(self._merge.artifact, members)
        last = await self._weed(whole)
        self._merge.blamed += len(self._blamed)
        if (await self._gate(last)).undecided or not self._blamed:
            return last
        if await self._adds_nothing(whole):
            self._merge.refused += self._blamed
        else:
            last = await self._each_alone() or last
        return max(self._passing, key=_merit)[0] if self._passing else last

    async def _gate(self, union: Union) -> Verdict:
        return await gate(self._merge, union.artifact)

    async def _weed(self, union: Union) -> Union:
        """Gate `union`, then the rest of it without those to blame; the last one gated."""
        while True:
            verdict = await self._gate(union)
            if verdict.accepted:
                self._passing = [(union, verdict)]
            guilty = await self._guilty(union, verdict)
            self._blamed += guilty
            rest = [diff for diff in union.members if diff not in guilty]
            if not guilty and not verdict.accepted and not verdict.undecided:
                self._merge.refused.append(union.diff)
            if not guilty or not rest:
                return union
            union = Union.of(self._merge.artifact, rest)

    async def _guilty(self, union: Union, verdict: Verdict) -> list[Diff]:
        gates_left = self._merge.full_gates < MAX_GATES
        if union.fused and verdict.lost and not verdict.undecided and gates_left:
            return await blame(self._merge, union.members, verdict.lost)
        return []

    async def _adds_nothing(self, whole: Union) -> bool:
        """True if the blamed add nothing but losses, so that they need no gate of their own.

        Then what passed does without them, and wins all that `whole` was seen to win.
        """
        if not self._passing:
            return False
        [(passed, _)] = self._passing
        if any(diff in self._blamed for diff in passed.members):
            return False
        won = (await self._gate(whole)).won
        with_them = await self._merge.verifier.evaluate(whole.artifact, won)
        without = await self._merge.verifier.evaluate(passed.artifact, won)
        return all(new >= old - TIE for old, new in zip(with_them, without, strict=True))

    async def _each_alone(self) -> Union | None:
        """Gate the blamed one by one, since one may win more than it loses; the last one gated."""
        union = None
        for diff in self._blamed:
            if self._merge.full_gates >= MAX_GATES:
                break
            union = Union.of(self._merge.artifact, [diff])
            verdict = await self._gate(union)
            if verdict.accepted:
                self._passing.append((union, verdict))
            elif not verdict.undecided:
                self._merge.refused.append(diff)
        return union


def _merit(judged: tuple[Union, Verdict]) -> tuple[float, int, int]:
    """The greatest gain first, then the fewest losses, then the smallest commit."""
    union, verdict = judged
    return round(verdict.gain, 9), -len(verdict.lost), -len(union.members)
