"""What all runs on the router share: its tasks, a ledger on disk, and sight of their parts."""

import os
import warnings
from collections.abc import Awaitable, Callable
from functools import wraps
from typing import Any, TypeVar

from agentdescent.api import async_evolve
from agentdescent.config import AggregatorConfig
from agentdescent.core.diff import State
from agentdescent.core.merging import ArtifactLedger, Audit, LedgerSnapshot, VerifierProtocol
from agentdescent.core.protocols import AggregatorFactory, Run, StalenessPolicy
from agentdescent.ledger.api import Ledger
from agentdescent.reference.router import (
    ClusteredTasks,
    RouterSkill,
    RouterStrategy,
    TaskUniverse,
    clustered,
    router_reward,
)
from agentdescent.result import EvolutionResult, RoundInfo

T = TypeVar("T")


class Orchestrator:
    """What both have: a universe as tasks, a ledger on disk, and sight of the parts of the run.

    Attributes:
        train: The texts to learn from.
        held_out: The texts to be measured on.
        ledger: What the run leaves behind, to be read.
        aggregator: The optimizer of the last run, or None.
        verifier: What measured for it, or None.
        result: What the last run came to, or None.
    """

    def __init__(
        self,
        repo_path: str | os.PathLike[str],
        universe: TaskUniverse,
        skill_id: str,
        n_workers: int,
        build: AggregatorFactory,
    ) -> None:
        self.train, self.held_out = universe.split()
        self.ledger: Ledger = Ledger(repo_path)
        self.aggregator: Any = None
        self.verifier: Any = None
        self.result: EvolutionResult | None = None
        self._universe = universe
        self._skill_id = skill_id
        self._build = build
        self._seen: list[tuple[float, int]] = []
        self._tasks: ClusteredTasks = clustered(self.train, self.held_out, n_workers)
        if len(self._tasks.train) < n_workers:
            warnings.warn(
                f"only {len(self._tasks.train)} of {n_workers} workers have anything to do: there "
                "is one cluster of keywords for each of those; take fewer workers or more keywords",
                RuntimeWarning,
                stacklevel=3,
            )

    def final_accuracy(self, branch: str = "dev") -> float:
        """The share of the held-out texts that the newest table on `branch` labels rightly.

        Raises:
            LedgerError: If there has been no run, or the ledger cannot be read.
        """
        return self._accuracy(self.ledger.at(artifact=self._skill_id, branch=branch))

    async def _evolve(
        self, run: Run, propose: Callable[..., Any], **options: Any
    ) -> EvolutionResult:
        self._seen = []
        self.result = await async_evolve(
            self._tasks.all,
            on_the_loop(router_reward),
            run=run,
            propose=propose,
            strategy=RouterStrategy(),
            artifact_id=self._skill_id,
            held_out_frac=self._tasks.held_out_frac,
            repo_path=self.ledger.path,
            aggregator_factory=self._aggregator,
            on_round=self._look,
            **options,
        )
        return self.result

    def _aggregator(
        self,
        ledger: ArtifactLedger,
        verifier: VerifierProtocol,
        audit: Audit,
        config: AggregatorConfig,
        staleness_policy: StalenessPolicy,
    ) -> Any:
        self._view, self.verifier = ledger, verifier
        self.aggregator = self._build(ledger, verifier, audit, config, staleness_policy)
        return self.aggregator

    async def _look(self, info: RoundInfo) -> None:
        """Note what the history does not say of a round that has ended."""
        del info
        stable: LedgerSnapshot = await self._view.snapshot("stable")
        table = stable.artifacts[self._skill_id].state
        self._seen.append((self._accuracy(table), self.verifier.budget.oracle_calls_used))

    def _accuracy(self, table: State) -> float:
        return RouterSkill(table=table).accuracy(self.held_out)


def on_the_loop(function: Callable[..., T]) -> Callable[..., Awaitable[T]]:
    """`function`, which takes no time worth a thread, as a coroutine function."""

    @wraps(function)
    async def call(*args: Any) -> T:
        return function(*args)

    return call
