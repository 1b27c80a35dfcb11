"""From arguments to the objects a run is made of: the only room that knows the defaults."""

import math
import random
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import ExitStack, asynccontextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path

import anyio
from anyio.from_thread import BlockingPortal

from agentdescent import ledger
from agentdescent.agents.executor import Executor
from agentdescent.calls import Role, RunCalls, calls_of
from agentdescent.config import AggregatorConfig
from agentdescent.console import log_progress, progress_on_log
from agentdescent.core.artifact import TEXT_CONTRACT, EvolvingArtifact
from agentdescent.core.events import ModelCalled
from agentdescent.core.model_calls import ModelCall
from agentdescent.core.outcomes import StopReason
from agentdescent.core.protocols import Door, EvaluationFigures
from agentdescent.core.spend import Spend, Unit
from agentdescent.core.store import LedgerStore, Stored
from agentdescent.core.task import Task
from agentdescent.engine.accounts import Accounts
from agentdescent.engine.barrier_free import BarrierFree
from agentdescent.engine.budget import EarlyStop, Stop
from agentdescent.engine.events import Events
from agentdescent.engine.experience import Experience
from agentdescent.engine.head import Head
from agentdescent.engine.health import Health
from agentdescent.engine.held_out import HeldOut
from agentdescent.engine.journal import Journal, Solved
from agentdescent.engine.loop import Parts, evolve_parts
from agentdescent.engine.merger import Merger
from agentdescent.engine.merging import Merging
from agentdescent.engine.messages import Snapshot
from agentdescent.engine.plugins import ask, first_state, render
from agentdescent.engine.recorder import Recorder
from agentdescent.engine.rollout import Rollouts
from agentdescent.engine.rounds import Plan, Rounds
from agentdescent.engine.schedule import Picker, Schedule
from agentdescent.engine.shared import Shared
from agentdescent.engine.view import LedgerView
from agentdescent.errors import ungrouped
from agentdescent.evaluate.memo import Memo
from agentdescent.evaluate.pool import EvaluationPool, widths
from agentdescent.evaluate.verifier import Verifier
from agentdescent.merge.aggregator import Aggregator
from agentdescent.policy.governance import AuditScheduler
from agentdescent.policy.parallel import shard_round_robin, validate_plan
from agentdescent.policy.staleness import get_policy
from agentdescent.request import Request
from agentdescent.result import EvolutionResult, RoundInfo
from agentdescent.telemetry import recording
from agentdescent.threads import DaemonThreads, is_async, seated


async def carry_out(request: Request) -> EvolutionResult:
    """Open the ledger, build the parts, run them and close everything."""
    threads = DaemonThreads()
    with ExitStack() as stack:
        stack.callback(threads.close)
        stack.enter_context(seated(threads))
        if request.config.verbose:
            stack.enter_context(progress_on_log())
        calls = RunCalls(Spend(_limits(request)), request.usage, prices=request.prices)
        async with (
            _recorded(request) as heard,
            _open_calls(calls),
            _open_ledger(heard) as store,
        ):
            stored = await _stored(heard, store)
            parts = _Assembly(heard, store, stored, calls, threads).parts()
            return await evolve_parts(parts)


@asynccontextmanager
async def _recorded(request: Request) -> AsyncGenerator[Request]:
    """The same request, whose events also go to its telemetry file, if it has one."""
    if request.telemetry is None:
        yield request
        return
    config = request.config
    about = {
        "artifact_id": config.artifact_id,
        "asynchronous": config.asynchronous,
        "n_workers": config.n_workers,
        "n_train": len(request.train),
        "n_held_out": len(request.held_out),
    }
    async with recording(request.telemetry, about, request.alerts.warn) as log:
        yield replace(request, listeners=[*request.listeners, log])


@asynccontextmanager
async def _open_calls(calls: RunCalls) -> AsyncGenerator[None]:
    """Let the completions called in the block belong to `calls`, and close what they opened."""
    with calls_of(calls), ungrouped():
        try:
            async with BlockingPortal() as calls.portal:
                try:
                    yield
                finally:
                    await calls.portal.stop(cancel_remaining=True)
        finally:
            await calls.aclose()


@asynccontextmanager
async def _open_ledger(request: Request) -> AsyncGenerator[LedgerStore]:
    store = request.ledger
    if store is None and request.repo_path is not None:
        store = ledger.GitLedger(Path(request.repo_path))
    if store is None:
        async with ledger.scratch_ledger() as scratch:
            yield scratch
        return
    try:
        await store.open()
        yield store
    finally:
        with anyio.CancelScope(shield=True):
            await store.close()


async def _stored(request: Request, store: LedgerStore) -> Stored:
    """The artifact to go on from: what the ledger holds, else the strategy's first state."""
    config = request.config
    found = (await store.read()).get(config.artifact_id)
    if found is None:
        state = request.initial_state or first_state(request.strategy)
        radius = config.blast_radius
        return await store.register(Stored(config.artifact_id, state, 1, radius, TEXT_CONTRACT))
    if request.initial_state:
        request.alerts.warn(
            f"initial_state is ignored: {request.repo_path or 'the ledger'} holds version "
            f"{found.version} of {config.artifact_id!r} already; use a fresh repo_path to restart"
        )
    if found.blast_radius != config.blast_radius:
        request.alerts.warn(
            f"blast_radius={config.blast_radius} differs from the stored {found.blast_radius}; "
            "the stricter, larger one holds"
        )
    return found


class _Assembly:
    """Wires one run together, from the bottom up."""

    def __init__(
        self,
        request: Request,
        store: LedgerStore,
        stored: Stored,
        calls: RunCalls,
        threads: DaemonThreads,
    ) -> None:
        self._request = request
        self._store = store
        self._threads = threads
        config = request.config
        state = {key: stored.state[key] for key in sorted(stored.state)}
        rendered = render(request.strategy, state)
        listeners = [*request.listeners, *([log_progress] if config.verbose else [])]
        self._events = Events(listeners, request.on_end, request.alerts)
        if listeners:
            calls.listen(self._tell_of_call)
        head = Head(Snapshot(stored.version, state, rendered))
        self._shared = Shared(
            head=head,
            spend=calls.spend,
            health=Health(
                config.max_worker_errors,
                config.n_workers,
                request.alerts,
                backs_off=config.asynchronous,
            ),
            stop=Stop(),
            early=EarlyStop(config.target_reward, config.patience),
            alerts=request.alerts,
            emit=self._events.emit if listeners else None,
            experience=_experience(request, head),
            sweeps=config.asynchronous,
        )
        self._artifact = EvolvingArtifact(
            id=config.artifact_id,
            blast_radius=max(stored.blast_radius, config.blast_radius),
            contract=stored.contract,
            constraints=request.constraints,
        )
        self._executor = Executor(threads, self._shared.spend, request.usage)
        self._history: list[RoundInfo] = []

    def _tell_of_call(self, call: ModelCall) -> None:
        self._events.emit(ModelCalled(anyio.current_time(), call))

    def parts(self) -> Parts:
        """Everything the loop needs."""
        request, shared, config = self._request, self._shared, self._request.config
        run = self._executor.door(request.run, counts=True, role=Role.SOLVE)
        reward = self._executor.door(request.reward, counts=False, role=Role.JUDGE)
        pool = self._pool(run, reward)
        merging = self._merging(pool)
        solved = None
        if config.stop_when_solved:
            ids = frozenset(task.id for task in request.train)
            solved = Solved(ids, config.solved_threshold, merging.pending)
        n_train = len(request.train)
        journal = Journal(shared, solved, n_train)
        recorder = Recorder(shared, journal, request.on_round, config.artifact_id, self._history)
        held_out = HeldOut(shared, pool, request.held_out)
        schedule = self._schedule()
        abandoned = partial(_abandoned, schedule, self._threads)
        return Parts(
            shared=shared,
            schedule=schedule,
            rollouts=self._rollouts(run, reward),
            journal=journal,
            merger=Merger(shared, merging, held_out, journal, recorder),
            accounts=Accounts(
                shared,
                held_out,
                journal,
                recorder,
                usage=request.usage,
                abandoned=abandoned,
                threads=self._threads,
                figures=partial(_figures, pool, request.held_out),
            ),
            events=self._events,
            store=self._store,
            evaluators=pool.open,
            max_seconds=_seconds(config.max_seconds),
            counts=(n_train, len(request.held_out)),
        )

    def _pool(self, run: Door, reward: Door) -> EvaluationPool:
        request = self._request
        config = request.config
        pool = EvaluationPool(
            run,
            reward,
            Memo(request.run, request.reward, config.evaluation_key),
            width=widths(len(request.held_out), is_async(request.run), config.eval_concurrency),
            repeats=config.eval_repeats,
            jitter=random.Random(config.seed),  # noqa: S311 - it spreads retries
            emit=self._shared.emit,
            cheap=self._cheap(),
        )
        pool.follow_head(self._shared.head.snapshot)
        return pool

    def _cheap(self) -> tuple[Door, Memo] | None:
        """The cheap reward and its own memory, if there is one."""
        request = self._request
        if request.cheap_reward is None:
            return None
        door = self._executor.door(request.cheap_reward, counts=False, role=Role.JUDGE)
        return door, Memo(request.run, request.cheap_reward, request.config.evaluation_key)

    def _merging(self, pool: EvaluationPool) -> Merging:
        request, config = self._request, self._request.config
        agg_config = request.agg_config or AggregatorConfig()
        policy = request.staleness_policy or get_policy("guarded")
        verifier = Verifier(
            pool,
            request.held_out,
            eval_waves=agg_config.eval_waves,
            confirm=config.confirm,
            cheap_tasks=config.cheap_eval_tasks,
            oracle_budget=config.oracle_budget,
        )
        view = LedgerView(
            store=self._store,
            head=self._shared.head,
            strategy=request.strategy,
            artifact=self._artifact,
            runtime=verifier,
            on_publish=pool.follow_head,
            round_index=lambda: len(self._history),
            emit=self._shared.emit,
        )
        build = request.aggregator_factory or Aggregator
        return Merging(
            ask("aggregator_factory", build, view, verifier, AuditScheduler(), agg_config, policy)
        )

    def _rollouts(self, run: Door, reward: Door) -> Rollouts:
        request, config = self._request, self._request.config
        in_rounds = not config.asynchronous
        is_bounded = in_rounds and config.max_concurrency < config.n_workers
        return Rollouts(
            run=run,
            reward=reward,
            propose=self._executor.door(
                request.reflect or request.propose, counts=True, role=Role.REFLECT
            ),
            experience=self._shared.experience,
            strategy=request.strategy,
            constraints=request.constraints,
            artifact_id=config.artifact_id,
            solved_threshold=config.solved_threshold,
            self_verify=config.self_verify,
            slots=anyio.CapacityLimiter(config.max_concurrency) if is_bounded else None,
            leashed=in_rounds and config.round_timeout is not None,
        )

    def _schedule(self) -> Schedule:
        request, config = self._request, self._request.config
        tasks = {task.id: task for task in request.train}
        picker = Picker(request.task_sampler, tasks)
        if config.asynchronous:
            shards = shard_round_robin(list(tasks), config.n_workers)
            return BarrierFree(self._shared, picker, shards, async_ratio=config.async_ratio)
        validate = partial(validate_plan, n_workers=config.n_workers, known_ids=tasks.keys())
        return Rounds(
            self._shared,
            picker,
            Plan(request.parallel, validate, config.n_workers, list(tasks)),
            n_workers=config.n_workers,
            rounds=request.rounds,
            timeout=config.round_timeout,
            refresh_interval=config.refresh_interval,
        )


def _limits(request: Request) -> Mapping[Unit, tuple[float | None, StopReason]]:
    config = request.config
    rollouts = StopReason.MAX_ITERS if config.asynchronous else StopReason.MAX_ROLLOUTS
    return {
        Unit.ROLLOUT: (request.rollout_budget, rollouts),
        Unit.CALL: (config.max_calls, StopReason.MAX_CALLS),
        Unit.ATTEMPT: (config.max_attempts, StopReason.MAX_ATTEMPTS),
        Unit.TOKEN: (config.max_tokens, StopReason.MAX_TOKENS),
        Unit.USD: (config.max_cost, StopReason.MAX_COST),
    }


def _experience(request: Request, head: Head) -> Experience | None:
    if request.reflect is None:
        return None
    config = request.config
    in_rounds = not config.asynchronous
    return Experience(head, request.strategy, config.reflect_batch, in_rounds=in_rounds)


def _seconds(limit: float | None) -> float | None:
    return None if limit is None or math.isinf(limit) else limit


def _abandoned(schedule: Schedule, threads: DaemonThreads) -> int:
    overdue = schedule.abandoned if isinstance(schedule, Rounds) else 0
    return overdue + threads.abandoned


def _figures(pool: EvaluationPool, held_out: Sequence[Task]) -> EvaluationFigures:
    parts = pool.memo.parts(pool.head or "", held_out)
    return EvaluationFigures(pool.cache_hits, pool.cache_misses, pool.eval_seconds, parts)
