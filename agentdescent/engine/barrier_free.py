"""The schedule without barriers: workers do not wait for one another."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from statistics import median_low
from typing import Any

import anyio
from anyio.lowlevel import checkpoint
from anyio.streams.memory import MemoryObjectReceiveStream

from agentdescent.core.events import WorkerBackedOff
from agentdescent.core.outcomes import StopReason
from agentdescent.core.protocols import WorkUnit
from agentdescent.core.spend import Exhausted, Unit
from agentdescent.core.task import Task
from agentdescent.core.turns import ResumeItem
from agentdescent.engine.messages import Report, Ticket
from agentdescent.engine.schedule import Picker, arrivals, waiting
from agentdescent.engine.shared import Shared
from agentdescent.errors import describe

PATIENCE = 6
"""For how many typical rollouts workers wait for a merge rather than repeat what is solved.

A gate takes two rollouts, one with members to weed out about six; what takes longer has
stragglers.
"""


class BarrierFree:
    """A worker starts on the newest head as soon as it is free.

    It waits in three cases only: while more than `async_ratio` of its diffs have not been looked at
    by a merge, while there is nothing to learn from its tasks before the next merge is done, and
    while it backs off after failures. Nothing is to be learned from a task that has a diff which no
    merge has judged, nor, as long as there is any such diff, from one that the head has solved; but
    a merge that takes longer than `PATIENCE` rollouts is not waited for with tasks of that kind.

    A merge takes whatever is there. Since it costs the same for one diff and for many, it first
    waits for half of the crew to report, though no longer than the first diff's rollout took.

    A rollout that was cut at a turn goes on, with the newest version, after its worker has made
    another one in between.
    """

    def __init__(
        self,
        shared: Shared,
        picker: Picker,
        shards: Sequence[Sequence[str]],
        *,
        async_ratio: int,
    ) -> None:
        self._shared = shared
        self._picker = picker
        self._units = [WorkUnit(index, keys) for index, keys in enumerate(shards)]
        self._just_cut: set[int] = set()
        self._async_ratio = async_ratio
        self._serial = [0] * len(shards)
        self._unlooked = [0] * len(shards)
        self._unjudged: list[set[str]] = [set() for _ in shards]
        self._n_unjudged = 0
        self._solved: list[dict[str, int]] = [{} for _ in shards]
        self._at_the_merge: Sequence[Report] = ()
        self._patience_ends = math.inf
        self._looked = anyio.Event()
        self._reported: set[int] = set()
        self._resting: set[int] = set()
        self._heard = anyio.Event()
        self._is_spent = False
        self.crew: list[int] = [unit.worker for unit in self._units if unit.keys]

    async def admit(self, worker: int) -> Ticket | None:
        """Wait until `worker` may start; None when the budget is spent or it gives up."""
        await checkpoint()
        if not await self._recovered(worker):
            return self._leave(worker)
        while not self._may_go_on(worker):
            await self._rest(worker)
        if self._ends() or not self._pay():
            return self._leave(worker)
        serial = self._serial[worker]
        self._serial[worker] += 1
        unit = self._units[worker]
        task, resume = self._resumed(worker) or (await self._pick(worker, serial), None)
        if resume is None:
            resume = self._picker.waiting.pop({task.id})
        return Ticket(worker, serial, self._shared.head.snapshot, unit, task, resume)

    def note(self, report: Report) -> None:
        """Learn that a rollout has ended."""
        if report.reward is not None:
            self._picker.note(report.ticket.task, report.reward)
        elif report.checkpoint is None:
            self._picker.note_lost(report.ticket.task)
        else:
            self._picker.waiting.push(report.checkpoint)
            self._just_cut.add(report.ticket.worker)
        if report.candidate is not None:
            self._unlooked[report.ticket.worker] += 1
            self._await_judgement(report.ticket)
        if report.is_solved:
            ticket = report.ticket
            self._solved[ticket.worker][ticket.task.id] = ticket.snapshot.version
        if report.exhausted:
            self._is_spent = True
        self._reported.add(report.ticket.worker)
        self._heard.set()

    def wants(self, report: Report) -> bool:
        """Merges need diffs only."""
        return report.candidate is not None

    async def gather(self, inbox: MemoryObjectReceiveStream[Report]) -> Sequence[Report]:
        """Wait for one diff and for company, and take what is there."""
        for report in self._at_the_merge:
            self._note_judged(report.ticket)
        self._let_go_on()
        first = await arrivals(inbox)
        await self._company(first[0].seconds)
        batch = self._at_the_merge = [*first, *waiting(inbox)]
        self._reported.clear()
        patience = PATIENCE * median_low(report.seconds for report in batch)
        self._patience_ends = anyio.current_time() + patience
        for report in batch:
            self._unlooked[report.ticket.worker] -= 1
        self._let_go_on()
        return sorted(batch, key=lambda report: report.ticket.order)

    def dump(self) -> dict[str, Any]:
        """How many rollouts each worker has begun, and those that were cut, as JSON values."""
        return {"serial": list(self._serial), "waiting": self._picker.waiting.dump()}

    def restore(self, saved: Mapping[str, Any]) -> None:
        """Go on from what `dump` gave."""
        self._serial[:] = saved["serial"]
        self._picker.waiting.restore(saved["waiting"])

    def _let_go_on(self) -> None:
        """Let workers that wait for a merge look again."""
        self._looked.set()
        self._looked = anyio.Event()

    def _may_go_on(self, worker: int) -> bool:
        return self._unlooked[worker] <= self._async_ratio and bool(self._worthwhile(worker))

    def _worthwhile(self, worker: int) -> Sequence[str]:
        """The tasks of `worker` from which there is something to learn now."""
        keys = self._units[worker].keys
        if not self._n_unjudged:
            return keys
        unjudged, solved = self._unjudged[worker], self._solved[worker]
        untouched = [key for key in keys if key not in unjudged]
        head = self._shared.head.snapshot.version
        unsolved = [key for key in untouched if solved.get(key) != head]
        if unsolved or not untouched or anyio.current_time() < self._patience_ends:
            return unsolved
        return untouched

    async def _pick(self, worker: int, serial: int) -> Task:
        """The sampler's choice, or its choice among the rest if that is not worthwhile."""
        unit, keys = self._units[worker], self._worthwhile(worker)
        task = await self._picker.pick(unit, serial)
        if keys is unit.keys or task.id in keys:
            return task
        self._picker.note_lost(task)
        return await self._picker.pick(replace(unit, keys=keys), serial)

    def _await_judgement(self, ticket: Ticket) -> None:
        unjudged = self._unjudged[ticket.worker]
        self._n_unjudged += ticket.task.id not in unjudged
        unjudged.add(ticket.task.id)

    def _note_judged(self, ticket: Ticket) -> None:
        unjudged = self._unjudged[ticket.worker]
        self._n_unjudged -= ticket.task.id in unjudged
        unjudged.discard(ticket.task.id)

    async def _company(self, seconds: float) -> None:
        """Wait, at most so long, for half of the crew to report, to rest or to leave."""
        with anyio.move_on_after(seconds):
            while 2 * len(self._reported | self._resting) < len(self.crew):
                self._heard = anyio.Event()
                await self._heard.wait()

    async def _rest(self, worker: int) -> None:
        """Wait until the merge has looked at a batch, has judged one, or takes too long."""
        self._leave(worker)
        left = self._patience_ends - anyio.current_time()
        with anyio.move_on_after(left if left > 0 else math.inf):
            await self._looked.wait()
        self._resting.discard(worker)

    def _leave(self, worker: int) -> None:
        """Start nothing, for now or for good."""
        self._resting.add(worker)
        self._heard.set()

    def _resumed(self, worker: int) -> tuple[Task, ResumeItem] | None:
        """A rollout to go on with, unless the worker has left one just now."""
        if worker in self._just_cut:
            self._just_cut.remove(worker)
            return None
        return self._picker.resume(self._units[worker])

    def _ends(self) -> bool:
        """True when nobody starts any more: what only rollouts are short of, failures give back."""
        return self._is_spent or self._shared.stop.reason not in (None, StopReason.MAX_ITERS)

    def _pay(self) -> bool:
        try:
            self._shared.spend.reserve(Unit.ROLLOUT)
        except Exhausted as spent:
            self._shared.stop.wind_down(spent.reason)
            return False
        return True

    async def _recovered(self, worker: int) -> bool:
        """Wait until `worker` has backed off long enough; False when it will not go on."""
        health = self._shared.health
        seconds = health.backoff(worker)
        if seconds == 0.0:
            return True
        if self._shared.emit is not None:
            error = "" if health.first_error is None else describe(health.first_error)
            self._shared.emit(WorkerBackedOff(anyio.current_time(), worker, seconds, error))
        if seconds is not None:
            return not await self._shared.stop.within(seconds)
        health.retired += 1
        if health.retired == len(self.crew):
            self._shared.stop.at_once(StopReason.ERROR, health.first_error)
        return False
