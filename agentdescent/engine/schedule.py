"""The joint that makes one engine of two modes, and what both schedules share."""

from collections.abc import Awaitable, Mapping, Sequence
from typing import Any, Protocol

from anyio.streams.memory import MemoryObjectReceiveStream

from agentdescent.core.protocols import TaskSampler, WorkUnit
from agentdescent.core.task import Task
from agentdescent.core.turns import ResumeItem, ResumeQueue
from agentdescent.engine.head import Head
from agentdescent.engine.messages import Report, Ticket
from agentdescent.engine.plugins import consult
from agentdescent.errors import PluginError


class Schedule(Protocol):
    """When a worker may start, and which reports make one merge. Nothing else differs."""

    @property
    def crew(self) -> Sequence[int]:
        """The workers to start."""
        ...

    def admit(self, worker: int, /) -> Awaitable[Ticket | None]:
        """Wait until `worker` may start a rollout; None once there is no more work for it.

        Others run meanwhile, so that instantaneous rollouts do not starve the loop.
        """
        ...

    def note(self, report: Report, /) -> None:
        """Learn that a rollout has ended."""
        ...

    def wants(self, report: Report, /) -> bool:
        """True when a merge needs `report`: a diff; in rounds also the end of a unit."""
        ...

    def dump(self) -> Any:
        """How far it has come, as JSON values."""
        ...

    def restore(self, saved: Any, /) -> None:
        """Go on from what `dump` gave."""
        ...

    async def gather(self, inbox: MemoryObjectReceiveStream[Report], /) -> Sequence[Report]:
        """Wait for the reports that make up one merge, in the order they are judged in.

        Raises:
            anyio.EndOfStream: When the schedule is spent.
        """
        ...


async def arrivals(inbox: MemoryObjectReceiveStream[Report]) -> list[Report]:
    """Wait for one report and take what else is there.

    Raises:
        anyio.EndOfStream: When all workers have left.
    """
    return [await inbox.receive(), *waiting(inbox)]


def waiting(inbox: MemoryObjectReceiveStream[Report]) -> list[Report]:
    """The reports that are there already."""
    return [inbox.receive_nowait() for _ in range(inbox.statistics().current_buffer_used)]


class Picker:
    """Asks the task sampler which task of a unit comes next, and tells it what came of it.

    Args:
        sampler: Whom to ask.
        tasks: All training tasks, by id.
        head: The newest version: a sampler that wants to know hears of each new one.
        waiting: Rollouts that were cut.
    """

    def __init__(
        self,
        sampler: TaskSampler,
        tasks: Mapping[str, Task],
        head: Head,
        waiting: ResumeQueue,
    ) -> None:
        self._sampler = sampler
        self._tasks = tasks
        self._head = head
        self.waiting: ResumeQueue = waiting
        self._version = head.snapshot.version
        self._note_commit: Any = getattr(sampler, "note_commit", None)
        self._note_lost: Any = getattr(sampler, "note_lost", None)
        self._unrecorded: list[tuple[str, float | None]] = []
        self._ids: dict[int, tuple[Sequence[str], frozenset[str]]] = {}

    def resume(self, unit: WorkUnit) -> tuple[Task, ResumeItem] | None:
        """The oldest rollout that was cut on a task of `unit`, which now goes on; None if none."""
        item = self.waiting.pop(self._ids_of(unit)) if self.waiting else None
        return None if item is None else (self._tasks[item.task_id], item)

    async def pick(self, unit: WorkUnit, turn: int) -> Task:
        """The next task of `unit`; all that was noted before is recorded first.

        Raises:
            PluginError: If the sampler raises or names a task that is not in the unit.
        """
        if self._unrecorded:
            await self.record_all()
        if self._version != self._head.snapshot.version:
            await self._tell_of_commits()
        name: Any = await consult("task_sampler", self._sampler.pick, unit.keys, turn)
        if not isinstance(name, str) or name not in self._ids_of(unit):
            raise PluginError(
                f"task_sampler.pick returned {name!r}, which is none of the {len(unit.keys)} task "
                "ids it was given; return one of its keys argument"
            )
        return self._tasks[name]

    def note(self, task: Task, reward: float) -> None:
        """Keep the reward of one finished rollout for the sampler."""
        self._unrecorded.append((task.id, reward))

    def note_lost(self, task: Task) -> None:
        """Learn that a pick came to no reward."""
        if self._note_lost is not None:
            self._unrecorded.append((task.id, None))

    async def record_all(self) -> None:
        """Hand what was noted to the sampler, in the order it was noted."""
        notes, self._unrecorded = self._unrecorded, []
        for name, reward in notes:
            if reward is None:
                await consult("task_sampler", self._note_lost, name)
            else:
                await consult("task_sampler", self._sampler.record, name, reward)

    async def _tell_of_commits(self) -> None:
        known, self._version = self._version, self._head.snapshot.version
        if self._note_commit is not None:
            for _ in range(self._version - known):
                await consult("task_sampler", self._note_commit)

    def _ids_of(self, unit: WorkUnit) -> frozenset[str]:
        """The keys of `unit`, as a set that is made once for as long as its worker keeps them."""
        keys, ids = self._ids.get(unit.worker, ((), frozenset[str]()))
        if keys is not unit.keys:
            ids = frozenset(unit.keys)
            self._ids[unit.worker] = (unit.keys, ids)
        return ids
