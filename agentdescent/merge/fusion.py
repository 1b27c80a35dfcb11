"""Fusion: one union of all candidates, without those who do harm in it."""

from collections.abc import Sequence

from agentdescent.core.diff import Diff
from agentdescent.core.evidence import TIE
from agentdescent.core.merging import Verdict
from agentdescent.merge.acceptance import gate
from agentdescent.merge.blame import blame, breakers
from agentdescent.merge.own_tasks import OwnTasks
from agentdescent.merge.record import Merge
from agentdescent.merge.union import Union, fitting

MAX_GATES = 3
"""A merge judges at most this many candidates on the held-out tasks."""


async def tournament(merge: Merge, diffs: Sequence[Diff]) -> Union:
    """Find the best of the unions of `diffs`, at least one, of which no two clash.

    A single diff is handed on without any evaluation. Several are gated as one union; members
    that it lost tasks by, or that keep others from helping, are taken out and the rest is gated
    again. What is returned has passed the gate, unless nothing has.
    """
    members = fitting(merge.artifact, diffs, merge.config.max_commit_ops)
    if len(members) == 1:
        return Union.of(merge.artifact, members)
    return await _Tournament(merge).run(members)


class _Tournament:
    """The unions of one tournament, from all members to the best that passed the gate."""

    def __init__(self, merge: Merge) -> None:
        self._merge = merge
        self._blamed: list[Diff] = []
        self._passing: list[tuple[Union, Verdict]] = []
        self._own_tasks: OwnTasks | None = None
        self._kept: list[Diff] = []

    async def run(self, members: Sequence[Diff]) -> Union:
        whole = Union.of(self._merge.artifact, members)
        last = await self._weed(whole)
        self._merge.blamed += len(self._blamed)
        if (await self._gate(last)).undecided or not self._blamed:
            return last
        in_doubt = [diff for diff in self._blamed if diff not in self._merge.refused]
        if await self._adds_nothing(whole):
            self._merge.refused += in_doubt
        else:
            last = await self._each_alone(in_doubt) or last
        return max(self._passing, key=_merit)[0] if self._passing else last

    async def _gate(self, union: Union) -> Verdict:
        """The verdict on `union`, with a look ahead at what `_guilty` will want to know."""
        looks = self._may_weed(union) and self._merge.verdict_on(union.artifact) is None
        return await gate(self._merge, union.artifact, self._own(union).trials if looks else ())

    def _may_weed(self, union: Union) -> bool:
        """True if members could be taken out of `union` once one more candidate has been gated."""
        return union.fused and self._merge.full_gates + 1 < MAX_GATES

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
        if not union.fused or verdict.undecided or not gates_left:
            return []
        guilty = await blame(self._merge, union, verdict.lost)
        if not guilty and verdict.accepted:
            own = self._own(union)
            guilty = await breakers(self._merge, own)
            self._kept += [p.member for p in own.promises if p.member not in guilty]
        return guilty

    def _own(self, union: Union) -> OwnTasks:
        if self._own_tasks is None or self._own_tasks.union is not union:
            self._own_tasks = OwnTasks(self._merge, union, self._kept)
        return self._own_tasks

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

    async def _each_alone(self, blamed: Sequence[Diff]) -> Union | None:
        """Gate the blamed one by one, since one may win more than it loses; the last one gated."""
        union = None
        for diff in blamed:
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
