"""The evaluation pool: evaluator tasks, and sweeps that ask them for measurements."""

import math
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from functools import partial
from random import Random
from types import TracebackType
from typing import Self

import anyio
from anyio.abc import TaskGroup
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream

from agentdescent.calls import Stage, working_at
from agentdescent.core.events import Emit, EvaluationFinished
from agentdescent.core.leash import Leash
from agentdescent.core.protocols import Door, HasRendered
from agentdescent.core.spend import Exhausted
from agentdescent.core.task import Task
from agentdescent.errors import ContractError, EvaluationFailed, describe, ungrouped
from agentdescent.evaluate.measure import Measure, Outputs
from agentdescent.evaluate.memo import Key, Memo, mean
from agentdescent.retry import retrying

Learn = Callable[[int, float], bool | None]
"""Told (index, value) of each finished task; True ends the sweep."""

_BURST = 32
"""Measurements that one evaluator takes in a row before it lets other tasks run."""


def widths(held_out: int, is_async: bool, eval_concurrency: int | None) -> int:  # noqa: FBT001
    """How many evaluator tasks a run has.

    Args:
        held_out: Number of held-out tasks.
        is_async: `run` is a coroutine function, so that waiting for it costs no thread.
        eval_concurrency: What the user asked for; None for the default.
    """
    return eval_concurrency or min(held_out, 32 if is_async else 8)


class EvaluationPool:
    """Measures artifacts on tasks: once per artifact, task and repeat, at most `width` at a time.

    Everybody who asks for a measurement under way waits for the same one. It is called off when
    nobody waits any more: work that awaits is cancelled, work inside a thread goes on and its value
    is remembered. Requests are served in the order they were made.

    Attributes:
        memo: What has been measured so far.
        cheap: Measures by the cheap reward; by the reward itself if there is none.
        repeats: Measurements that make up one value.
        head: The text of the head, None until `follow_head` has been called.
        cache_hits: Measurements that were known or under way when they were asked for.
        cache_misses: Measurements that were started.
        eval_seconds: Their summed durations, those of failed and cancelled ones included.
    """

    def __init__(
        self,
        run: Door,
        reward: Door,
        memo: Memo,
        *,
        width: int,
        jitter: Random,
        repeats: int = 1,
        emit: Emit | None = None,
        cheap: tuple[Door, Memo] | None = None,
    ) -> None:
        """Prepare a pool; `open` starts it.

        Args:
            run: Called with (rendered, task).
            reward: Called with (task, output).
            memo: Where measurements are kept.
            width: Number of evaluator tasks.
            jitter: Spreads retries.
            repeats: Measurements that make up one value, which is their mean; at least 1.
            emit: Told of every measurement that was run to its end.
            cheap: Another reward, called like the first, and where its measurements are kept.
        """
        outputs: Outputs | None = None if cheap is None else {}
        self.full: Measure = Measure(run, reward, memo, outputs)
        self.cheap: Measure = self.full if cheap is None else Measure(run, *cheap, outputs)
        self.memo = memo
        self.repeats = repeats
        self._emit = emit
        self.head: str | None = None
        self.cache_hits: int = 0
        self.cache_misses: int = 0
        self.eval_seconds: float = 0.0
        self._width = width
        self._jitter = jitter
        self._hired = 0
        self._flights: dict[tuple[Measure, Key], _Flight] = {}
        self._outbox: MemoryObjectSendStream[_Flight] | None = None
        self._known: tuple[str, Sequence[Task], tuple[float, ...] | None] | None = None

    @asynccontextmanager
    async def open(self) -> AsyncGenerator[Self]:
        """Run the evaluator tasks for as long as the context lasts; requests belong inside it."""
        outbox, inbox = anyio.create_memory_object_stream[_Flight](math.inf)
        with ungrouped():
            async with outbox, inbox, anyio.create_task_group() as evaluators:
                self._outbox = outbox
                with working_at(Stage.GATE):  # every evaluator, for each hires the next
                    self._hire(evaluators, inbox, anyio.Lock(fast_acquire=True))
                try:
                    yield self
                finally:
                    self._outbox = None
                    evaluators.cancel_scope.cancel()

    def follow_head(self, head: HasRendered) -> None:
        """Take note of a new head, whose measurements are kept whatever happens."""
        self.head = head.rendered
        for measure in {self.full, self.cheap}:
            measure.memo.pin(head.rendered)

    async def values(
        self, rendered: str, tasks: Sequence[Task], *, cheap: bool = False
    ) -> list[float]:
        """The reward, or the cheap one, of each of `tasks`, in their order.

        Cancelling it withdraws what nobody else waits for.

        Raises:
            EvaluationFailed: If one could not be scored after its retries.
            ContractError: If a reward is no number in [0, 1].
        """
        found = [0.0] * len(tasks)
        with Sweep(self, found.__setitem__, cheap=cheap) as sweep:
            sweep.ask(rendered, tasks)
            await sweep.finished()
        return found

    def known(self, rendered: str, tasks: Sequence[Task]) -> tuple[float, ...] | None:
        """The same from memory alone; None unless every value is there."""
        if self._known is None or self._known[0] != rendered or self._known[1] is not tasks:
            page = self.memo.page(rendered)
            values = [page.value(self.memo.task_key(task), self.repeats) for task in tasks]
            found = tuple(value for value in values if value is not None)
            self._known = rendered, tasks, found if len(found) == len(values) else None
        return self._known[2]

    def join(self, measure: Measure, key: Key, rendered: str, item: "_Item") -> "_Flight":
        """Let `item` wait for one measurement, started unless it is under way."""
        flight = self._flights.get((measure, key))
        if flight is None:
            if self._outbox is None:
                raise RuntimeError("the evaluation pool is not open; use `async with pool.open()`")
            self.cache_misses += 1
            flight = self._flights[measure, key] = _Flight(measure, key, rendered, item.task)
            self._outbox.send_nowait(flight)
        else:
            self.cache_hits += 1
            if flight.leash is not None:
                flight.leash.overdue = False
        flight.waiting.append(item)
        return flight

    def leave(self, flight: "_Flight", sweep: "Sweep") -> None:
        """Let no item of `sweep` wait for `flight` any more."""
        flight.waiting = [item for item in flight.waiting if item.sweep is not sweep]
        if flight.leash is not None and not flight.waiting:
            flight.leash.call_off()

    def _hire(
        self, group: TaskGroup, inbox: MemoryObjectReceiveStream["_Flight"], turn: anyio.Lock
    ) -> None:
        """Start one more evaluator, unless there are enough."""
        if self._hired < self._width:
            self._hired += 1
            group.start_soon(self._evaluate, group, inbox, turn)

    async def _evaluate(
        self, group: TaskGroup, inbox: MemoryObjectReceiveStream["_Flight"], turn: anyio.Lock
    ) -> None:
        while True:
            async with turn:  # one idle evaluator listens, so that one wakes for quick work
                flight = await inbox.receive()
                if not turn.statistics().tasks_waiting:
                    self._hire(group, inbox, turn)
            started = anyio.current_time()
            try:
                await self._fly_all(flight, inbox)
            finally:
                self.eval_seconds += anyio.current_time() - started

    async def _fly_all(
        self, flight: "_Flight", inbox: MemoryObjectReceiveStream["_Flight"]
    ) -> None:
        """Fly `flight` and what is queued behind it, until one is called off or others must run."""
        with anyio.CancelScope() as scope, suppress(anyio.WouldBlock):
            goes_on = await self._fly(flight, scope)
            flown = 1
            while goes_on and flown < _BURST:
                goes_on = await self._fly(inbox.receive_nowait(), scope)
                flown += 1

    async def _fly(self, flight: "_Flight", scope: anyio.CancelScope) -> bool:
        """Measure once; False if that was called off, and `scope` with it."""
        if not flight.waiting:
            self._forget(flight)
            return True
        flight.leash = leash = Leash(partial(self._cancel, flight, scope))
        started = anyio.current_time() if self._emit is not None else 0.0
        try:
            value = await retrying(partial(self._measure, flight, leash), self._jitter)
        except (Exception, Exhausted) as error:  # noqa: BLE001 - carried to who waits
            self._forget(flight)
            self._tell(flight, started, None, describe(error))
            for item in flight.waiting:
                item.sweep.fail(_as_seen(error, flight.task))
        else:
            self._forget(flight)
            self._tell(flight, started, value, "")
            flight.measure.memo.store(*flight.key, value)
            self._known = None
            for item in flight.waiting:
                item.sweep.receive(flight, item, value)
        return not leash.overdue

    def _tell(self, flight: "_Flight", started: float, value: float | None, error: str) -> None:
        if self._emit is not None:
            now = anyio.current_time()
            cheap = flight.measure is not self.full
            self._emit(EvaluationFinished(now, flight.task.id, value, now - started, error, cheap))

    async def _measure(self, flight: "_Flight", leash: Leash) -> float:
        try:
            return await flight.measure(flight.key, flight.rendered, flight.task, leash)
        except Exception:
            if leash.overdue:
                leash.call_off()  # it failed inside a thread, and nobody waits for another attempt
            raise

    def _cancel(self, flight: "_Flight", scope: anyio.CancelScope) -> None:
        self._forget(flight)
        scope.cancel()

    def _forget(self, flight: "_Flight") -> None:
        """Let nobody join `flight` any more, nor call it off."""
        flight.leash = None
        place = flight.measure, flight.key
        if self._flights.get(place) is flight:
            del self._flights[place]


class Sweep:
    """One requester's tasks: it learns each value as it comes and may stop early.

    Use it as a context manager: leaving withdraws from everything still under way.
    """

    def __init__(self, pool: EvaluationPool, learn: Learn, *, cheap: bool = False) -> None:
        self._pool = pool
        self._measure = pool.cheap if cheap else pool.full
        self._learn = learn
        self._asked = 0
        self._open = 0
        self._is_over = False
        self._error: BaseException | None = None
        self._flights: dict[_Flight, None] = {}  # in order, so that endings are too
        self._ended: anyio.Event | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.end()

    def ask(
        self, rendered: str, tasks: Sequence[Task], *, fresh: int = 0, second: bool = False
    ) -> None:
        """Ask for the value of each of `tasks`; their indices continue those asked for before.

        Known values are learned at once, before anything is started; nothing is started when they
        settle the matter.

        Args:
            rendered: The artifact.
            tasks: What to measure it on.
            fresh: Measure each task so many times anew and learn the mean of these alone; 0 for
                the value, measured only where it is not known.
            second: Learn a second value that owes nothing to the first, known or not.
        """
        pool = self._pool
        memo = self._measure.memo
        page = memo.page(rendered)
        unknown: list[tuple[int, Task, bytes]] = []
        for index, task in enumerate(tasks, self._asked):
            key = memo.task_key(task)
            known = page.second if second else page.value
            value = None if fresh else known(key, pool.repeats)
            if value is None:
                unknown.append((index, task, key))
            elif not self._is_over:
                pool.cache_hits += pool.repeats
                self._settle(index, value)
        self._asked += len(tasks)
        if self._is_over:
            return
        self._open += len(unknown)
        for index, task, key in unknown:
            repeats = range(pool.repeats, 2 * pool.repeats) if second else range(pool.repeats)
            repeats = page.reserve(key, pool.repeats, fresh) if fresh else repeats
            drawn = page.drawn(key, repeats) if len(repeats) > 1 else {}  # a single one is unknown
            missing = [repeat for repeat in repeats if repeat not in drawn]
            pool.cache_hits += len(drawn)
            item = _Item(self, index, task, list(drawn.values()), len(missing))
            for repeat in missing:
                flight = pool.join(self._measure, (page.digest, key, repeat), rendered, item)
                self._flights[flight] = None

    async def finished(self) -> None:
        """Wait until everything asked for has been learned, or `learn` has returned True.

        Raises:
            EvaluationFailed: If a task could not be scored after its retries: the first that fails
                ends the sweep.
            ContractError: If a reward is no number in [0, 1].
            Exhausted: If a budget is spent.
        """
        if self._open and not self._is_over:
            self._ended = anyio.Event()
            await self._ended.wait()
        if self._error is not None:
            raise self._error

    def receive(self, flight: "_Flight", item: "_Item", value: float) -> None:
        """Take one measurement."""
        if self._is_over:
            return
        self._flights.pop(flight, None)
        item.draws.append(value)
        item.missing -= 1
        if item.missing == 0:
            self._open -= 1
            self._settle(item.index, mean(item.draws))
            if self._open == 0:
                self._wake()

    def fail(self, error: BaseException) -> None:
        """End with `error`, unless it has ended."""
        if not self._is_over:
            self._error = error
            self.end()

    def end(self) -> None:
        """Learn no more, and withdraw from everything still under way."""
        self._is_over = True
        for flight in self._flights:
            self._pool.leave(flight, self)
        self._flights.clear()
        self._wake()

    def _settle(self, index: int, value: float) -> None:
        if self._learn(index, value):
            self.end()

    def _wake(self) -> None:
        if self._ended is not None:
            self._ended.set()


class _Flight:
    """One measurement wanted or under way; the pool's, not its requesters'."""

    __slots__ = ("key", "leash", "measure", "rendered", "task", "waiting")

    def __init__(self, measure: Measure, key: Key, rendered: str, task: Task) -> None:
        self.measure: Measure = measure
        self.key: Key = key
        self.rendered: str = rendered
        self.task: Task = task
        self.waiting: list[_Item] = []
        self.leash: Leash | None = None


class _Item:
    """One task of a sweep, and its measurements so far."""

    __slots__ = ("draws", "index", "missing", "sweep", "task")

    def __init__(
        self, sweep: Sweep, index: int, task: Task, draws: list[float], missing: int
    ) -> None:
        self.sweep: Sweep = sweep
        self.index: int = index
        self.task: Task = task
        self.draws: list[float] = draws
        self.missing: int = missing


def _as_seen(error: BaseException, task: Task) -> BaseException:
    """What requesters are told: orders and broken contracts as they are."""
    if isinstance(error, ContractError) or not isinstance(error, Exception):
        return error
    return EvaluationFailed(task.id, error)
