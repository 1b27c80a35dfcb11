"""The router in rounds."""

import os
from dataclasses import dataclass
from functools import partial
from typing import Any

from agentdescent.blocking import run_blocking
from agentdescent.config import AggregatorConfig
from agentdescent.core.protocols import StalenessPolicy
from agentdescent.merge.aggregator import Aggregator
from agentdescent.reference.orchestrator import Orchestrator, on_the_loop
from agentdescent.reference.router import TaskUniverse, router_propose, router_run

_IN_BATCHES = AggregatorConfig(batch_trigger=4, max_wait_rounds=3)


@dataclass(frozen=True, slots=True)
class RoundStat:
    """One round of `AgentDescent`.

    Attributes:
        round: Its index, from 0.
        dev_accuracy: Mean accuracy of the newest table over the held-out clusters.
        stable_accuracy: Accuracy of the promoted table on the held-out texts.
        committed: Merges that committed.
        fused: Commits of more than one diff.
        discarded_stale: Cards the staleness filter dropped.
        conflicts_dropped: Cards that lost a contradiction.
        oracle_used: Checks against all held-out tasks that the aggregator asked for.
    """

    round: int
    dev_accuracy: float
    stable_accuracy: float
    committed: int
    fused: int
    discarded_stale: int
    conflicts_dropped: int
    oracle_used: int


class AgentDescent(Orchestrator):
    """Rounds on the router: every worker learns from its own cluster, all write one table.

    Merges wait for 4 cards, or 3 rounds, unless `config` says otherwise. Everything is drawn from
    `seed`: equal arguments give equal rounds.

    Args:
        repo_path: Directory of the git ledger.
        universe: The texts, from `make_task_universe`.
        n_workers: Workers, and clusters; with fewer clusters that have texts a warning says so.
        noise: Probability that a proposed row is wrong.
        refresh_interval: Rounds a worker keeps its version of the table.
        skill_id: Name of the table in the ledger.
        config: How strict a merge is.
        oracle_budget: As for `evolve`.
        seed: Of the noise.
        staleness_policy: What becomes of diffs against older versions; default guarded.
        self_verify: Try each diff on its own cluster first.
    """

    def __init__(  # noqa: PLR0913 - the knobs of one experiment
        self,
        repo_path: str | os.PathLike[str],
        universe: TaskUniverse,
        n_workers: int = 6,
        noise: float = 0.15,
        refresh_interval: int = 2,
        skill_id: str = "mol-router",
        config: AggregatorConfig | None = None,
        *,
        oracle_budget: int = 300,
        seed: int = 0,
        staleness_policy: StalenessPolicy | None = None,
        self_verify: bool = True,
    ) -> None:
        super().__init__(repo_path, universe, skill_id, n_workers, Aggregator)
        self._noise = noise
        self._options: dict[str, Any] = {
            "n_workers": n_workers,
            "refresh_interval": refresh_interval,
            "agg_config": config or _IN_BATCHES,
            "oracle_budget": oracle_budget,
            "seed": seed,
            "staleness_policy": staleness_policy,
            "self_verify": self_verify,
        }

    def run(self, rounds: int = 40) -> list[RoundStat]:
        """Run so many rounds and block until that is done; `result` has the rest.

        Raises:
            RunningLoopError: If an event loop is running here; await `arun` there.
        """
        return run_blocking(
            partial(self.arun, rounds),
            caller="AgentDescent.run()",
            instead="await agent_descent.arun(...)",
        )

    async def arun(self, rounds: int = 40) -> list[RoundStat]:
        """As `run`; cancelled as `async_evolve` is."""
        propose = router_propose(self._universe.gold, self._noise, self._options["seed"])
        result = await self._evolve(
            on_the_loop(router_run),
            on_the_loop(propose),
            asynchronous=False,
            rounds=rounds,
            **self._options,
        )
        return [
            RoundStat(
                round=info.round,
                dev_accuracy=info.held_out_reward,
                stable_accuracy=stable,
                committed=info.committed,
                fused=info.fused,
                discarded_stale=info.discarded_stale,
                conflicts_dropped=info.conflicts_dropped,
                oracle_used=oracle_used,
            )
            for info, (stable, oracle_used) in zip(result.history, self._seen, strict=True)
        ]
