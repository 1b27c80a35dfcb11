"""The router without barriers."""

import os
from collections.abc import Sequence
from dataclasses import dataclass

from agentdescent.blocking import run_blocking
from agentdescent.config import AggregatorConfig
from agentdescent.core.protocols import AggregatorFactory, Run, StalenessPolicy
from agentdescent.merge.aggregator import Aggregator
from agentdescent.reference.orchestrator import Orchestrator, on_the_loop
from agentdescent.reference.router import TaskUniverse, router_propose, router_run
from agentdescent.threads import in_thread


@dataclass(frozen=True, slots=True)
class AsyncConfig:
    """The knobs of `AsyncAgentDescent`.

    Attributes:
        n_workers: Workers, and clusters.
        async_ratio: Diffs of one worker that may wait for a merge before it must wait.
        noise: Probability that a proposed row is wrong.
        target_accuracy: Stop at this mean accuracy over the held-out clusters.
        max_seconds: Stop after so many seconds.
        oracle_budget: As for `evolve`.
        seed: Of the noise.
        self_verify: Try each diff on its own cluster first.
    """

    n_workers: int = 6
    async_ratio: int = 3
    noise: float = 0.15
    target_accuracy: float = 0.98
    max_seconds: float = 20.0
    oracle_budget: int = 400
    seed: int = 0
    self_verify: bool = True


@dataclass(frozen=True, slots=True)
class AsyncStats:
    """What a run of `AsyncAgentDescent` came to.

    Attributes:
        rollouts: Rollouts that were measured.
        proposals: Cards that came before the staleness filter.
        sweeps: Merges of the merger.
        commits: Merges that committed.
        fused: Commits of more than one diff.
        discarded_stale: Cards the staleness filter dropped.
        conflicts_dropped: Cards that lost a contradiction.
        forced_refreshes: Always 0: every rollout starts from the newest version.
        stragglers_checkpointed: Rollouts that took far longer than predicted.
        retired_workers: Workers that gave up.
        oracle_used: Checks against all held-out tasks that the aggregator asked for.
        final_dev_accuracy: Share of the held-out texts that the newest table labels rightly.
        final_stable_accuracy: The same of the promoted table.
        wallclock: Seconds, set-up excluded.
        error: None, or what ended the run.
        timeline: (sweep, mean accuracy over the held-out clusters) after each commit.
    """

    rollouts: int = 0
    proposals: int = 0
    sweeps: int = 0
    commits: int = 0
    fused: int = 0
    discarded_stale: int = 0
    conflicts_dropped: int = 0
    forced_refreshes: int = 0
    stragglers_checkpointed: int = 0
    retired_workers: int = 0
    oracle_used: int = 0
    final_dev_accuracy: float = 0.0
    final_stable_accuracy: float = 0.0
    wallclock: float = 0.0
    error: str | None = None
    timeline: Sequence[tuple[int, float]] = ()


class AsyncAgentDescent(Orchestrator):
    """The router without barriers: workers go on while their diffs are merged.

    Args:
        repo_path: Directory of the git ledger.
        universe: The texts, from `make_task_universe`.
        config: The knobs of the run.
        agg_config: How strict a merge is.
        staleness_policy: What becomes of diffs against older versions; default guarded.
        skill_id: Name of the table in the ledger.
        aggregator_factory: Replaces the optimizer.
        rollout: ``(rendered, task) -> output``, `def` or `async def`, instead of `router_run`: to
            make it slow, or fail.
    """

    def __init__(
        self,
        repo_path: str | os.PathLike[str],
        universe: TaskUniverse,
        config: AsyncConfig | None = None,
        agg_config: AggregatorConfig | None = None,
        staleness_policy: StalenessPolicy | None = None,
        skill_id: str = "mol-router",
        aggregator_factory: AggregatorFactory | None = None,
        rollout: Run | None = None,
    ) -> None:
        self._config = config or AsyncConfig()
        n_workers = self._config.n_workers
        super().__init__(repo_path, universe, skill_id, n_workers, aggregator_factory or Aggregator)
        self._agg_config = agg_config
        self._staleness_policy = staleness_policy
        self._rollout: Run = rollout or on_the_loop(router_run)

    def run(self) -> AsyncStats:
        """Run until the target, or out of time, and block until then; `result` has the rest.

        Raises:
            RunningLoopError: If an event loop is running here; await `arun` there.
        """
        return run_blocking(
            self.arun,
            caller="AsyncAgentDescent.run()",
            instead="await async_agent_descent.arun()",
        )

    async def arun(self) -> AsyncStats:
        """As `run`; cancelled as `async_evolve` is."""
        config = self._config
        result = await self._evolve(
            self._rollout,
            on_the_loop(router_propose(self._universe.gold, config.noise, config.seed)),
            asynchronous=True,
            n_workers=config.n_workers,
            async_ratio=config.async_ratio,
            target_reward=config.target_accuracy,
            max_seconds=config.max_seconds,
            oracle_budget=config.oracle_budget,
            seed=config.seed,
            self_verify=config.self_verify,
            agg_config=self._agg_config,
            staleness_policy=self._staleness_policy,
        )
        history = result.history
        return AsyncStats(
            rollouts=result.rollouts,
            proposals=result.stale_considered,
            sweeps=len(history),
            commits=sum(info.committed for info in history),
            fused=sum(info.fused for info in history),
            discarded_stale=result.stale_discarded,
            conflicts_dropped=sum(info.conflicts_dropped for info in history),
            forced_refreshes=result.forced_refreshes,
            stragglers_checkpointed=result.stragglers,
            retired_workers=result.retired_workers,
            oracle_used=self.verifier.budget.oracle_calls_used,
            final_dev_accuracy=await in_thread(self.final_accuracy),
            final_stable_accuracy=await in_thread(self.final_accuracy, "stable"),
            wallclock=result.wallclock,
            error=result.error,
            timeline=[(i.round, i.held_out_reward) for i in history if i.committed],
        )

    def buffer_pending(self) -> int:
        """How many cards wait for a merge; 0 before the first run."""
        return self.aggregator.pending() if self.aggregator else 0
