"""The arms: one worker alone, several apart, several together. Each spends the same."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from agentdescent.api import async_evolve
from agentdescent.baselines.workload import Budget, Workload
from agentdescent.core.task import Task
from agentdescent.errors import BackendError
from agentdescent.ledger.memory import MemoryLedger
from agentdescent.result import EvolutionResult


@dataclass(frozen=True, slots=True)
class Trial:
    """One seed of one arm.

    Attributes:
        seed: The seed.
        dev: Mean reward on the dev tasks of the artifact that the arm hands over.
        test: Its mean reward on the test tasks.
        best: The greatest mean reward on the test tasks of any of its artifacts. Nobody who has no
            test tasks could choose that one.
        rollouts: Measured rollouts of all its runs.
        calls: Calls of `run` and `propose` of all its runs.
    """

    seed: int
    dev: float
    test: float
    best: float
    rollouts: int
    calls: int


@dataclass(frozen=True, slots=True)
class Arm:
    """What one way to spend a budget has come to.

    Attributes:
        name: Which way.
        budget: What it was allowed on each seed.
        trials: One for each seed.
        forks: It made several artifacts and had to choose.
    """

    name: str
    budget: Budget
    trials: Sequence[Trial]
    forks: bool = False


async def serial(workload: Workload, budget: Budget, *, seeds: Iterable[int]) -> Arm:
    """One worker, one step after the other, with the whole budget.

    Raises:
        BackendError: If a run, or the measurement on the test tasks, fails.
    """
    trials = [await _trial(workload, [budget], 1, seed) for seed in seeds]
    return Arm("serial", budget, trials)


async def best_of_n_fork(
    workload: Workload, budget: Budget, n: int, *, seeds: Iterable[int]
) -> Arm:
    """`n` workers that do not share, with one part of the budget each; the best of them counts.

    Best is whose artifact earns most on the dev tasks; of equals the first.

    Raises:
        BackendError: As `serial`.
        ValueError: If the budget cannot be split so often.
    """
    trials = [await _trial(workload, budget.split(n), 1, seed) for seed in seeds]
    return Arm(f"fork of {n}", budget, trials, forks=True)


async def merge_of_n(workload: Workload, budget: Budget, n: int, *, seeds: Iterable[int]) -> Arm:
    """`n` workers in rounds whose diffs are merged, with the budget in common.

    Raises:
        BackendError: As `serial`.
    """
    trials = [await _trial(workload, [budget], n, seed) for seed in seeds]
    return Arm(f"merge of {n}", budget, trials)


async def _trial(workload: Workload, budgets: Sequence[Budget], n_workers: int, seed: int) -> Trial:
    runs: list[tuple[EvolutionResult, float]] = []
    for index, budget in enumerate(budgets):
        stream = f"{seed}/{index}"
        result = await _learn(workload, budget, n_workers, stream)
        runs.append((result, await _measure(workload, result, stream)))
    chosen, test = max(runs, key=lambda run: run[0].final_reward)
    return Trial(
        seed=seed,
        dev=chosen.final_reward,
        test=test,
        best=max(score for _, score in runs),
        rollouts=sum(result.rollouts for result, _ in runs),
        calls=sum(result.actor_calls for result, _ in runs),
    )


async def _learn(
    workload: Workload, budget: Budget, n_workers: int, stream: str
) -> EvolutionResult:
    most = max(filter(None, (budget.rollouts, budget.calls)))
    return await _run(
        workload,
        workload.dev,
        stream,
        n_workers=n_workers,
        max_concurrency=n_workers,
        rounds=most,  # never the budget that ends it: a round makes one rollout at least
        max_rollouts=budget.rollouts,
        max_calls=budget.calls,
    )


async def _measure(workload: Workload, learned: EvolutionResult, stream: str) -> float:
    """The mean reward on the test tasks, by a run that ends before its first rollout."""
    measured = await _run(
        workload, workload.test, stream, initial_state=learned.state, target_reward=0.0
    )
    return measured.final_reward


async def _run(
    workload: Workload, held_out: Sequence[Task], stream: str, **options: Any
) -> EvolutionResult:
    actors: Mapping[str, Any] = workload.actors(stream)
    tasks = [*workload.train, *held_out]
    result = await async_evolve(
        tasks,
        held_out_frac=len(held_out) / len(tasks),
        asynchronous=False,
        ledger=MemoryLedger(),
        **options,
        **actors,
    )
    if result.error is not None:
        raise BackendError(
            f"run {stream} cannot be compared, since it ended on {result.error}; mend what failed "
            "and begin again"
        )
    return result
