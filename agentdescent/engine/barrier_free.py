"""The schedule without barriers: workers never wait for a merge."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
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
from agentdescent.engine.schedule import Picker, arrivals
from agentdescent.engine.shared import Shared
from agentdescent.errors import describe


class BarrierFree:
    """A worker starts on the newest head as soon as it is free.

    It waits in three cases only: while more than `async_ratio` of its diffs have not been looked at
    by a merge, while each of its tasks has a diff that no merge has judged, and while it backs off
    after failures. A task that has one is not rolled out again: that would tell what is known. A
    merge takes whatever is there.

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
        self._at_the_merge: Sequence[Report] = ()
        self._looked = anyio.Event()
        self._is_spent = False
        self.crew: list[int] = [unit.worker for unit in self._units if unit.keys]

    async def admit(self, worker: int) -> Ticket | None:
        """Wait until `worker` may start; None when the budget is spent or it gives up."""
        await checkpoint()
        if not await self._recovered(worker):
            return None
        while not self._may_go_on(worker):
            await self._looked.wait()
        if self._ends() or not self._pay():
            return None
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
            self._unjudged[report.ticket.worker].add(report.ticket.task.id)
        if report.exhausted:
            self._is_spent = True

    def wants(self, report: Report) -> bool:
        """Merges need diffs only."""
        return report.candidate is not None

    async def gather(self, inbox: MemoryObjectReceiveStream[Report]) -> Sequence[Report]:
        """Wait for one diff and take what else is there."""
        for report in self._at_the_merge:
            self._unjudged[report.ticket.worker].discard(report.ticket.task.id)
        self._let_go_on()
        batch = self._at_the_merge = await arrivals(inbox)
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
        is_ahead = self._unlooked[worker] > self._async_ratio
        return not is_ahead and len(self._unjudged[worker]) < len(self._units[worker].keys)

    async def _pick(self, worker: int, serial: int) -> Task:
        """The sampler's choice, or its choice among the rest if that has a diff unjudged."""
        unit, unjudged = self._units[worker], self._unjudged[worker]
        task = await self._picker.pick(unit, serial)
        if task.id not in unjudged:
            return task
        self._picker.note_lost(task)
        rest = [key for key in unit.keys if key not in unjudged]
        return await self._picker.pick(replace(unit, keys=rest), serial)

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
