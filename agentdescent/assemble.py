"""From arguments to the objects a run is made of: the only room that knows the defaults."""

import math
import random
from collections.abc import Sequence
from contextlib import ExitStack
from functools import partial
from typing import Any, cast

import anyio

from agentdescent import resume
from agentdescent.agents.executor import Executor
from agentdescent.calls import Role, RunCalls
from agentdescent.config import AggregatorConfig
from agentdescent.console import log_progress, progress_on_log
from agentdescent.core.artifact import EvolvingArtifact
from agentdescent.core.durations import Durations
from agentdescent.core.events import ModelCalled
from agentdescent.core.model_calls import ModelCall
from agentdescent.core.protocols import Door, EvaluationFigures
from agentdescent.core.search import Persistent
from agentdescent.core.spend import Spend
from agentdescent.core.store import LedgerStore, SearchStore, Stored
from agentdescent.core.task import Task
from agentdescent.core.turns import ResumeQueue, has_turns
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
from agentdescent.engine.plugins import ask, render
from agentdescent.engine.recorder import Recorder
from agentdescent.engine.resume import Resumption
from agentdescent.engine.rollout import Rollouts
from agentdescent.engine.rounds import Plan, Rounds
from agentdescent.engine.schedule import Picker, Schedule
from agentdescent.engine.search import PAUSE_S, Search
from agentdescent.engine.shared import Shared
from agentdescent.engine.view import LedgerView
from agentdescent.evaluate.memo import Memo
from agentdescent.evaluate.pool import EvaluationPool, widths
from agentdescent.evaluate.verifier import Verifier
from agentdescent.merge.aggregator import Aggregator
from agentdescent.opening import limits, opened_calls, opened_ledger, recorded, stored_artifact
from agentdescent.policy.governance import AuditScheduler
from agentdescent.policy.parallel import shard_round_robin, validate_plan
from agentdescent.policy.staleness import get_policy
from agentdescent.request import Request
from agentdescent.result import EvolutionResult, RoundInfo
from agentdescent.threads import DaemonThreads, is_async, seated
from agentdescent.usage import Usage


async def carry_out(request: Request) -> EvolutionResult:
    """Open the ledger, build the parts, run them and close everything."""
    threads = DaemonThreads()
    with ExitStack() as stack:
        stack.callback(threads.close)
        stack.enter_context(seated(threads))
        if request.config.verbose:
            stack.enter_context(progress_on_log())
        calls = RunCalls(Spend(limits(request)), request.usage, prices=request.prices)
        async with (
            recorded(request) as heard,
            opened_calls(calls),
            opened_ledger(heard) as store,
        ):
            newest = await stored_artifact(heard, store)
            resumption = await resume.found(heard, store, newest)
            ended = resume.stored_result(resumption)
            if ended is not None:
                return ended
            parts = _Assembly(heard, store, newest, resumption, calls, threads).parts()
            if resumption is None:
                parts.accounts.alone = await resume.alone(heard, store)
            return await evolve_parts(parts)


class _Assembly:
    """Wires one run together, from the bottom up."""

    def __init__(
        self,
        request: Request,
        store: LedgerStore,
        newest: Stored,
        resumption: Resumption | None,
        calls: RunCalls,
        threads: DaemonThreads,
    ) -> None:
        self._request = request
        self._resumption = resumption
        self._store = store
        self._threads = threads
        config = request.config
        listeners = [*request.listeners, *([log_progress] if config.verbose else [])]
        self._events = Events(listeners, request.on_end, request.alerts)
        if listeners:
            calls.listen(self._tell_of_call)
        head = self._head(newest)
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
            blast_radius=max(newest.blast_radius, config.blast_radius),
            contract=newest.contract,
            constraints=request.constraints,
        )
        self._executor = Executor(threads, self._shared.spend, request.usage)
        self._waiting = ResumeQueue()
        self._durations = Durations(rule=self._waiting)
        self._history: list[RoundInfo] = resumption.history() if resumption else []
        self._audit = AuditScheduler()
        self._search = self._open_search()

    def _head(self, newest: Stored) -> Head:
        """The newest version; or, to take a merge again, the one that merge began with."""
        resumption = self._resumption
        if resumption is None:
            return Head(self._snapshot(newest))
        head = Head(self._snapshot(resumption.saved.base))
        head.restore(resumption.saved.document["parts"]["head"])
        if resumption.base.version != resumption.saved.base.version:
            head.publish(self._snapshot(resumption.base))
        return head

    def _snapshot(self, stored: Stored) -> Snapshot:
        state = {key: stored.state[key] for key in sorted(stored.state)}
        return Snapshot(stored.version, state, render(self._request.strategy, state))

    def _open_search(self) -> Search | None:
        """What saves the search, if the ledger is one that a later run may find."""
        request, store = self._request, self._store
        is_scratch = request.repo_path is None and request.ledger is None
        if is_scratch or not resume.keeps_searches(store):
            return None
        search = Search(
            cast("SearchStore", store),
            resume.about(request),
            pause=PAUSE_S if request.config.asynchronous else 0.0,
            head=lambda: self._shared.head.snapshot,
            spent=self._spent,
        )
        if self._resumption is not None:
            search.go_on(self._resumption.evaluations, self._history)
            search.made = self._resumption.made()
        return search

    def _spent(self) -> dict[str, Any]:
        return {"spend": self._shared.spend.dump(), "usage": self._request.usage.as_json()}

    def _go_on(self, lasting: dict[str, Persistent], merger: Merger, memo: Memo) -> None:
        """Let a search from before go on, and have this one saved."""
        request, shared = self._request, self._shared
        lasting |= {"audit": self._audit, "early": shared.early, "health": shared.health}
        if shared.experience is not None:
            lasting["experience"] = shared.experience
        for name, plugin in (("sampler", request.task_sampler), ("parallel", request.parallel)):
            if hasattr(plugin, "dump"):
                lasting[name] = cast("Persistent", plugin)
        if self._resumption is not None:
            self._resumption.restore(lasting)
            merger.take_back(self._resumption.cards, again=self._resumption.merges_again)
            memo.restore(self._resumption.evaluations)
            if self._resumption.whole:
                spent: dict[str, Any] = self._resumption.saved.document["spent"]
                shared.spend.restore(spent["spend"])
                request.usage.absorb(Usage.from_json(spent["usage"]))
        if self._search is not None:
            self._search.keep({**lasting, "head": shared.head, "merger": merger})
            if memo.identity.is_lasting:
                memo.tell(self._search.evaluations.add)

    def _tell_of_call(self, call: ModelCall) -> None:
        self._events.emit(ModelCalled(anyio.current_time(), call))

    def parts(self) -> Parts:
        """Everything the loop needs."""
        request, shared, config = self._request, self._shared, self._request.config
        run = self._executor.door(request.run, counts=True, role=Role.SOLVE)
        reward = self._executor.door(request.reward, counts=False, role=Role.JUDGE)
        pool = self._pool(run, reward)
        verifier = self._verifier(pool)
        merging = self._merging(pool, verifier)
        solved = None
        if config.stop_when_solved:
            ids = frozenset(task.id for task in request.train)
            solved = Solved(ids, config.solved_threshold, merging.pending)
        n_train = len(request.train)
        journal = Journal(shared, solved, n_train, self._durations)
        recorder = Recorder(shared, journal, request.on_round, config.artifact_id, self._history)
        held_out = HeldOut(shared, pool, request.held_out)
        schedule = self._schedule()
        abandoned = partial(_abandoned, schedule, self._threads)
        merger = Merger(shared, merging, held_out, journal, recorder, self._search)
        accounts = Accounts(
            shared,
            held_out,
            journal,
            recorder,
            usage=request.usage,
            abandoned=abandoned,
            threads=self._threads,
            figures=partial(_figures, pool, request.held_out),
        )
        lasting: dict[str, Persistent] = {
            "accounts": accounts,
            "aggregator": merging,
            "journal": journal,
            "recorder": recorder,
            "schedule": schedule,
            "verifier": verifier,
        }
        self._go_on(lasting, merger, pool.memo)
        if self._resumption is not None:
            accounts.resumed_from = self._resumption.summary
        return Parts(
            shared=shared,
            schedule=schedule,
            rollouts=self._rollouts(run, reward),
            journal=journal,
            merger=merger,
            accounts=accounts,
            events=self._events,
            store=self._store,
            evaluators=pool.open,
            search=self._search,
            max_seconds=_seconds(config.max_seconds),
            counts=(n_train, len(request.held_out)),
        )

    def _pool(self, run: Door, reward: Door) -> EvaluationPool:
        request = self._request
        config = request.config
        on_the_loop = is_async(request.run) or has_turns(request.run)
        pool = EvaluationPool(
            run,
            reward,
            Memo(request.run, request.reward, config.evaluation_key),
            width=widths(len(request.held_out), on_the_loop, config.eval_concurrency),
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

    def _verifier(self, pool: EvaluationPool) -> Verifier:
        request, config = self._request, self._request.config
        return Verifier(
            pool,
            request.held_out,
            eval_waves=(request.agg_config or AggregatorConfig()).eval_waves,
            confirm=config.confirm,
            cheap_tasks=config.cheap_eval_tasks,
            oracle_budget=config.oracle_budget,
        )

    def _merging(self, pool: EvaluationPool, verifier: Verifier) -> Merging:
        request = self._request
        agg_config = request.agg_config or AggregatorConfig()
        policy = request.staleness_policy or get_policy("guarded")
        view = LedgerView(
            store=self._store,
            head=self._shared.head,
            strategy=request.strategy,
            artifact=self._artifact,
            runtime=verifier,
            on_publish=pool.follow_head,
            round_index=lambda: len(self._history),
            emit=self._shared.emit,
            search=self._search,
        )
        build = request.aggregator_factory or partial(Aggregator, policies=request.policies)
        tasks = {task.id: task for task in request.train}
        return Merging(
            ask("aggregator_factory", build, view, verifier, self._audit, agg_config, policy),
            tasks,
        )

    def _rollouts(self, run: Door, reward: Door) -> Rollouts:
        request, config = self._request, self._request.config
        in_rounds = not config.asynchronous
        is_bounded = in_rounds and config.max_concurrency < config.n_workers
        turns = self._executor.course(request.run, role=Role.SOLVE)
        return Rollouts(
            run=run,
            turns=turns if has_turns(request.run) else None,
            is_overdue=_never if in_rounds else self._durations.is_overdue,
            reward=reward,
            propose=self._executor.door(
                request.reflect or request.propose, counts=True, role=Role.REFLECT
            ),
            experience=self._shared.experience,
            strategy=request.strategy,
            constraints=request.constraints,
            sections=getattr(request.parallel, "section_map", None) or {},
            artifact_id=config.artifact_id,
            solved_threshold=config.solved_threshold,
            self_verify=config.self_verify,
            slots=anyio.CapacityLimiter(config.max_concurrency) if is_bounded else None,
            leashed=in_rounds and config.round_timeout is not None,
        )

    def _schedule(self) -> Schedule:
        request, config = self._request, self._request.config
        tasks = {task.id: task for task in request.train}
        picker = Picker(request.task_sampler, tasks, self._shared.head, self._waiting)
        if config.asynchronous:
            shards = shard_round_robin(list(tasks), config.n_workers)
            return BarrierFree(self._shared, picker, shards, async_ratio=config.async_ratio)
        is_narrow = 1 < config.max_concurrency < config.n_workers
        validate = partial(validate_plan, n_workers=config.n_workers, known_ids=tasks.keys())
        return Rounds(
            self._shared,
            picker,
            Plan(request.parallel, validate, config.n_workers, list(tasks)),
            n_workers=config.n_workers,
            rounds=request.rounds,
            timeout=config.round_timeout,
            refresh_interval=config.refresh_interval,
            predict=self._durations.predict if is_narrow else None,
        )


def _experience(request: Request, head: Head) -> Experience | None:
    if request.reflect is None:
        return None
    config = request.config
    in_rounds = not config.asynchronous
    return Experience(head, request.strategy, config.reflect_batch, in_rounds=in_rounds)


def _never(task: Task, seconds: float) -> bool:
    """A round cuts nobody before its deadline: what it comes to must not depend on timing."""
    del task, seconds
    return False


def _seconds(limit: float | None) -> float | None:
    return None if limit is None or math.isinf(limit) else limit


def _abandoned(schedule: Schedule, threads: DaemonThreads) -> int:
    overdue = schedule.abandoned if isinstance(schedule, Rounds) else 0
    return overdue + threads.abandoned


def _figures(pool: EvaluationPool, held_out: Sequence[Task]) -> EvaluationFigures:
    parts = pool.memo.parts(pool.head or "", held_out)
    return EvaluationFigures(pool.cache_hits, pool.cache_misses, pool.eval_seconds, parts)
