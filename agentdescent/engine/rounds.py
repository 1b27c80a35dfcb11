"""The barrier schedule: one report from every free worker, then one merge."""

from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import Any

import anyio
from anyio.lowlevel import checkpoint
from anyio.streams.memory import MemoryObjectReceiveStream

from agentdescent.core.durations import longest_first
from agentdescent.core.outcomes import StopReason
from agentdescent.core.protocols import ParallelStrategy, WorkUnit
from agentdescent.core.spend import Exhausted, Unit
from agentdescent.core.task import Task
from agentdescent.core.turns import ResumeItem
from agentdescent.engine.messages import Report, Snapshot, Ticket
from agentdescent.engine.plugins import ask, consult
from agentdescent.engine.schedule import Picker, arrivals, waiting
from agentdescent.engine.shared import Shared

ValidatePlan = Callable[[Sequence[WorkUnit]], Sequence[WorkUnit]]


class Plan:
    """A parallel strategy together with the check that its plans can be carried out."""

    def __init__(
        self,
        parallel: ParallelStrategy,
        validate: ValidatePlan,
        n_workers: int,
        train_ids: Sequence[str],
    ) -> None:
        self._parallel = parallel
        self._validate = validate
        self._n_workers = n_workers
        self._train_ids = tuple(train_ids)
        self._observe: Any = getattr(parallel, "observe", None)

    async def units(self, round_index: int) -> Sequence[WorkUnit]:
        """The non-empty units of one round, by worker.

        Raises:
            PluginError: If the plan cannot be made or carried out.
        """
        units = await consult(
            "parallel", self._parallel.plan, self._n_workers, round_index, self._train_ids
        )
        return ask("parallel", self._validate, units)

    async def observe(self, unit: WorkUnit, task_id: str, reward: float) -> None:
        """Tell the strategy the reward of a rollout, if it wants to know."""
        if self._observe is not None:
            await consult("parallel", self._observe, unit, task_id, reward)


class Rounds:
    """Opens a round, waits for the workers that were free then, and hands over their reports.

    Asking for the next batch says that the last merge is done, so `gather` opens the next round.
    All picks of a round are made when it opens and all rewards are recorded when it closes, in
    the order (worker, serial), so that a seeded run does not depend on timing.

    A round waits at most `timeout` seconds and for no straggler twice; without a timeout a wedged
    rollout holds its round for ever. One that was cut at a turn goes on as soon as its task is in
    the unit of a free worker, in place of a pick and with the newest version.

    Attributes:
        abandoned: Rollouts that a round stopped waiting for: cancelled ones, and threads once they
            have come back.
    """

    def __init__(
        self,
        shared: Shared,
        picker: Picker,
        plan: Plan,
        *,
        n_workers: int,
        rounds: int,
        timeout: float | None,
        refresh_interval: int,
        predict: Callable[[Task], float] | None,
    ) -> None:
        """Prepare the first round.

        Args:
            shared: What all tasks look at.
            picker: Which task of a unit comes next.
            plan: The units of each round.
            n_workers: How many workers there are.
            rounds: How many rounds.
            timeout: Seconds that a round waits at most, or None.
            refresh_interval: Rounds that a worker keeps its version.
            predict: Seconds that a rollout of a task will take, to start the longest first; None
                starts them by worker.
        """
        self._shared = shared
        self._picker = picker
        self._plan = plan
        self._predict = predict
        self._rounds = rounds
        self._timeout = timeout
        self._refresh_interval = refresh_interval
        self._round = 0
        self._bells: dict[int, anyio.Event] = {}
        self._free = set(range(n_workers))
        self._late: dict[int, bool] = {}
        self._queues: dict[int, deque[Ticket]] = {}
        self._running: dict[int, Ticket] = {}
        self._due: dict[int, int] = {}
        self._serial = [0] * n_workers
        self._snapshots: dict[int, Snapshot] = {}
        self._told_empty = False
        self.abandoned: int = 0
        self.crew: range = range(n_workers)

    async def admit(self, worker: int) -> Ticket:
        """Wait until a round has a rollout for `worker`."""
        if self._queues.get(worker):
            await checkpoint()
        while not self._queues.get(worker):
            await self._bells.setdefault(worker, anyio.Event()).wait()
        ticket = self._running[worker] = self._queues[worker].popleft()
        return ticket

    def note(self, report: Report) -> None:
        """Learn that a rollout has ended; nothing is done before the round closes."""

    def wants(self, report: Report) -> bool:
        """The barrier waits for every end of a rollout."""
        del report
        return True

    async def gather(self, inbox: MemoryObjectReceiveStream[Report]) -> Sequence[Report]:
        """Open a round and wait for it to close.

        Raises:
            anyio.EndOfStream: After the last round, or when a budget or the backend is spent.
        """
        if self._round == self._rounds:
            self._shared.stop.wind_down(StopReason.ROUNDS)
        if self._shared.stop.reason is not None:
            raise anyio.EndOfStream
        reports = await self._stragglers_back(inbox)
        await self._open()
        with anyio.move_on_after(self._timeout):
            while self._due or (self._late and not reports):
                for report in await arrivals(inbox):
                    self._welcome_back(report)
                    reports.append(report)
        expired = self._give_up_on_stragglers()
        reports.sort(key=lambda report: report.ticket.order)
        await self._close(reports, expired)
        return reports

    def dump(self) -> dict[str, Any]:
        """Rounds opened, rollouts begun and the versions that workers hold, as JSON values."""
        held = {snapshot.version: snapshot for snapshot in self._snapshots.values()}
        return {
            "round": self._round,
            "serial": list(self._serial),
            "waiting": [*self._picker.waiting.dump(), *map(asdict, self._cut_just_now())],
            "holds": {str(worker): held.version for worker, held in self._snapshots.items()},
            "versions": {
                str(version): {"state": dict(snapshot.state), "rendered": snapshot.rendered}
                for version, snapshot in held.items()
                if snapshot is not self._shared.head.snapshot
            },
        }

    def restore(self, saved: Mapping[str, Any]) -> None:
        """Go on from what `dump` gave."""
        self._round = saved["round"]
        self._serial[:] = saved["serial"]
        self._picker.waiting.restore(saved.get("waiting", ()))
        head = self._shared.head.snapshot
        held = {
            int(version): Snapshot(int(version), entry["state"], entry["rendered"])
            for version, entry in saved["versions"].items()
        }
        self._snapshots = {
            int(worker): held.get(version, head) for worker, version in saved["holds"].items()
        }

    def _cut_just_now(self) -> Iterator[ResumeItem]:
        """What stragglers, who have not reported back yet, can be gone on with."""
        for worker in sorted(self._late):
            checkpoint = self._running[worker].checkpoint()
            if checkpoint is not None:
                yield checkpoint

    async def _stragglers_back(self, inbox: MemoryObjectReceiveStream[Report]) -> list[Report]:
        """Reports of rollouts called off before, whose workers are free again."""
        if not self._late:
            return []
        await checkpoint()  # lets those end that were cancelled just now
        late = waiting(inbox)
        for report in late:
            self._welcome_back(report)
        return late

    async def _open(self) -> None:
        index, self._round = self._round, self._round + 1
        units = await self._plan.units(index)
        tickets = [await self._ticket(unit, index) for unit in units if unit.worker in self._free]
        if not units:
            await self._note_empty(index)
        paid = tickets[: self._pay_for(len(tickets))]
        for ticket in tickets[len(paid) :]:
            self._put_back(ticket)
        if tickets and not paid:
            self._shared.stop.wind_down(StopReason.MAX_ROLLOUTS)
            raise anyio.EndOfStream
        for ticket in paid:
            self._queues.setdefault(ticket.worker, deque()).append(ticket)
            self._due[ticket.worker] = self._due.get(ticket.worker, 0) + 1
        self._free -= self._due.keys()
        self._ring()

    def _ring(self) -> None:
        """Let the workers of this round begin, whoever will take longest first."""
        workers = sorted(self._due)
        if self._predict is not None:
            seconds = [sum(map(self._predict, self._tasks_of(worker))) for worker in workers]
            workers = [workers[place] for place in longest_first(seconds)]
        for worker in workers:
            bell = self._bells.pop(worker, None)
            if bell is not None:
                bell.set()

    def _tasks_of(self, worker: int) -> Iterator[Task]:
        return (ticket.task for ticket in self._queues[worker])

    async def _note_empty(self, index: int) -> None:
        await checkpoint()  # else rounds that run nothing would starve the loop
        if not self._told_empty:
            self._told_empty = True
            self._shared.alerts.warn(
                f"parallel planned no work for round {index}; rounds without any unit run nothing"
            )

    async def _ticket(self, unit: WorkUnit, index: int) -> Ticket:
        worker = unit.worker
        due = index % self._refresh_interval == worker % self._refresh_interval
        if due or worker not in self._snapshots:
            self._snapshots[worker] = self._shared.head.snapshot
        serial = self._serial[worker]
        self._serial[worker] += 1
        resumed = self._picker.resume(unit)
        if resumed is not None:
            return Ticket(worker, serial, self._shared.head.snapshot, unit, *resumed)
        task = await self._picker.pick(unit, index)
        return Ticket(worker, serial, self._snapshots[worker], unit, task)

    def _put_back(self, ticket: Ticket) -> None:
        """Keep for later what there was no time or money for."""
        if ticket.resume is not None:
            self._picker.waiting.push(ticket.resume)
        else:
            self._picker.note_lost(ticket.task)

    def _pay_for(self, wanted: int) -> int:
        for paid in range(wanted):
            try:
                self._shared.spend.reserve(Unit.ROLLOUT)
            except Exhausted:
                return paid
        return wanted

    def _welcome_back(self, report: Report) -> None:
        worker = report.ticket.worker
        if report.checkpoint is not None:
            self._picker.waiting.push(report.checkpoint)
        if self._running.get(worker) is report.ticket:
            del self._running[worker]
        if worker in self._late:
            self.abandoned += self._late.pop(worker)
            self._free.add(worker)
            return
        self._due[worker] -= 1
        if report.exhausted:
            self._drop_queue(worker)
        if not self._due[worker]:
            del self._due[worker]
            self._free.add(worker)

    def _give_up_on_stragglers(self) -> list[Ticket]:
        stragglers = sorted(self._due)
        self._due.clear()
        expired: list[Ticket] = []
        for worker in stragglers:
            self._drop_queue(worker)
            ticket = self._running.get(worker)
            if ticket is None:
                self._free.add(worker)
            else:
                in_thread = ticket.expire()
                is_lost = ticket.checkpoint() is None
                self._late[worker] = is_lost and in_thread
                if is_lost:
                    self.abandoned += not in_thread
                    expired.append(ticket)
        return expired

    def _drop_queue(self, worker: int) -> None:
        for ticket in self._queues.pop(worker, ()):
            self._put_back(ticket)
            self._shared.spend.release(Unit.ROLLOUT)
            if worker in self._due:
                self._due[worker] -= 1

    async def _close(self, reports: Sequence[Report], expired: Sequence[Ticket]) -> None:
        succeeded = failed = 0
        for report in reports:
            if report.reward is None:
                self._note_unrewarded(report)
                failed += report.failure is not None and not report.timed_out
                continue
            succeeded += 1
            task = report.ticket.task
            self._picker.note(task, report.reward)
            await self._plan.observe(report.ticket.unit, task.id, report.reward)
        await self._picker.record_all()
        if expired and self._shared.health.first_error is None:
            self._shared.health.blame(expired[0].late(), "")
        stuck = sum(self._running[worker].checkpoint() is None for worker in self._late)
        self._shared.health.close_round(failed=failed + stuck, succeeded=succeeded)
        if self._shared.health.dead:
            self._shared.stop.at_once(StopReason.ERROR, self._shared.health.first_error)

    def _note_unrewarded(self, report: Report) -> None:
        """A pick is lost, unless its rollout goes on later."""
        if report.checkpoint is None:
            self._picker.note_lost(report.ticket.task)
