"""The loop: tasks -> workers -> evidence -> merger -> ledger -> head -> workers."""

import math
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass

import anyio
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream

from agentdescent.core.events import RunEnded, RunStarted
from agentdescent.core.outcomes import SPENT, StopReason
from agentdescent.core.store import LedgerStore
from agentdescent.engine.accounts import Accounts
from agentdescent.engine.events import Events
from agentdescent.engine.journal import Journal
from agentdescent.engine.merger import Merger
from agentdescent.engine.messages import Report
from agentdescent.engine.rollout import Rollouts
from agentdescent.engine.schedule import Schedule
from agentdescent.engine.search import Search
from agentdescent.engine.shared import Shared
from agentdescent.engine.worker import work
from agentdescent.errors import BackendError, ContractError, LedgerError, ungrouped
from agentdescent.result import EvolutionResult


@dataclass(frozen=True, slots=True)
class Parts:
    """Everything one run is made of.

    Attributes:
        shared: What all tasks look at.
        schedule: When workers start, and what makes one merge.
        rollouts: What a worker does.
        journal: Learns of every rollout.
        merger: Merges and keeps the score.
        accounts: Turns the books into a result.
        events: The listeners.
        store: The ledger.
        evaluators: Runs the evaluator tasks while it is entered.
        search: Saves what the next run has to know; None if nobody could find it.
        max_seconds: The time limit, or None.
        counts: (training tasks, held-out tasks).
    """

    shared: Shared
    schedule: Schedule
    rollouts: Rollouts
    journal: Journal
    merger: Merger
    accounts: Accounts
    events: Events
    store: LedgerStore
    evaluators: Callable[[], AbstractAsyncContextManager[object]]
    search: Search | None
    max_seconds: float | None
    counts: tuple[int, int]


async def evolve_parts(parts: Parts) -> EvolutionResult:
    """Run to the end and account for it.

    Raises:
        ContractError: If the caller's code broke a promise; `partial_result` has what was reached
            when something had been committed before.
    """
    try:
        return await _told(parts)
    except ContractError as error:
        result = parts.accounts.broken_off(error)
        error.partial_result = result if parts.accounts.has_committed else None
        await parts.events.abort(RunEnded(anyio.current_time(), result))
        raise
    except BaseException:
        result = parts.accounts.interrupted()
        await parts.events.abort(RunEnded(anyio.current_time(), result))
        raise


async def _told(parts: Parts) -> EvolutionResult:
    with ungrouped():
        async with anyio.create_task_group() as listeners:
            parts.events.start(listeners)
            await _evolve(parts)
            result = await parts.accounts.result(parts.store)
            result.events_dropped = parts.events.dropped
            await _save_the_end(parts, result)
            await parts.events.finish(RunEnded(anyio.current_time(), result))
            return result
    raise _cut_off()


async def _save_the_end(parts: Parts, result: EvolutionResult) -> None:
    if parts.search is None or isinstance(parts.shared.stop.error, LedgerError):
        return
    try:
        await parts.search.finish(result)
    except LedgerError as error:
        parts.shared.alerts.warn(
            f"how the run ended could not be saved ({error}); resume='continue' would go on from "
            "what was saved before"
        )


async def _evolve(parts: Parts) -> None:
    try:
        with ungrouped():
            async with parts.evaluators():
                await _within_budget(parts)
                if parts.shared.stop.error is None:
                    await parts.merger.finish()
    except LedgerError as error:
        parts.shared.stop.fail(error)
    if parts.shared.stop.reason is None:
        parts.shared.stop.fail(_cut_off())


def _cut_off() -> BackendError:
    return BackendError(
        "a task of the run was cancelled by the code that it was calling; let that code raise an "
        "error instead"
    )


async def _within_budget(parts: Parts) -> None:
    stop = parts.shared.stop
    outbox, inbox = anyio.create_memory_object_stream[Report](math.inf)
    with outbox, inbox:
        with anyio.move_on_after(parts.max_seconds) as clock:
            await _begin(parts)
            if stop.reason is None:
                await _work_and_merge(parts, outbox, inbox)
            if stop.reason not in SPENT and stop.reason is not StopReason.ERROR:
                await parts.merger.flush(inbox)
        if clock.cancelled_caught:
            stop.reason = StopReason.MAX_SECONDS


async def _begin(parts: Parts) -> None:
    resumed = parts.accounts.resumed_from
    if resumed is None or not resumed.whole:
        parts.accounts.initial_reward = await parts.merger.measure_seed()
    reward = parts.accounts.initial_reward
    if parts.search is not None:
        await parts.search.begin()
    if parts.shared.emit is not None:
        version = parts.shared.head.snapshot.version
        name = parts.accounts.artifact_id
        began = (anyio.current_time(), name, version, reward, *parts.counts)
        parts.shared.emit(RunStarted(*began, resumed_from=str(resumed or parts.accounts.alone)))


async def _work_and_merge(
    parts: Parts,
    outbox: MemoryObjectSendStream[Report],
    inbox: MemoryObjectReceiveStream[Report],
) -> None:
    async with anyio.create_task_group() as group:
        parts.shared.stop.watch(group.cancel_scope.cancel)
        for worker in parts.schedule.crew:
            group.start_soon(
                work, worker, parts.schedule, parts.rollouts, parts.journal, outbox.clone()
            )
        outbox.close()
        await parts.merger.run(parts.schedule, inbox)
        group.cancel_scope.cancel()
