"""Workers on the router that do not share what they learn."""

from functools import partial

from agentdescent.api import async_evolve
from agentdescent.blocking import run_blocking
from agentdescent.ledger.memory import MemoryLedger
from agentdescent.reference.orchestrator import on_the_loop
from agentdescent.reference.router import (
    ClusteredTasks,
    RouterSkill,
    RouterStrategy,
    TaskUniverse,
    clustered,
    router_propose,
    router_reward,
    router_run,
)


def run_fork_baseline(
    universe: TaskUniverse,
    n_workers: int = 6,
    noise: float = 0.15,
    rounds: int = 40,
    seed: int = 0,
) -> float:
    """The best of as many workers that do not share: each has its own cluster and its own table.

    Together they make as many rollouts as `AgentDescent.run(rounds)`. Every third of them is noisy.
    What a fork can know is bounded by its cluster; the control in `agentdescent.baselines` gives
    every fork all tasks.

    Returns:
        The share of the held-out texts that the best of the tables labels rightly.

    Raises:
        RunningLoopError: If an event loop is running here; await `arun_fork_baseline` there.
    """
    return run_blocking(
        partial(arun_fork_baseline, universe, n_workers, noise, rounds, seed),
        caller="run_fork_baseline()",
        instead="await arun_fork_baseline(...)",
    )


async def arun_fork_baseline(
    universe: TaskUniverse,
    n_workers: int = 6,
    noise: float = 0.15,
    rounds: int = 40,
    seed: int = 0,
) -> float:
    """As `run_fork_baseline`; cancelled as `async_evolve` is."""
    train, held_out = universe.split()
    tasks = clustered(train, held_out, n_workers)
    best = 0.0
    for index, cluster in enumerate(tasks.train):
        own = ClusteredTasks([cluster], tasks.held_out)
        is_noisy = index % 3 == 2
        propose = router_propose(universe.gold, noise if is_noisy else 0.0, seed)
        result = await async_evolve(
            own.all,
            on_the_loop(router_reward),
            run=on_the_loop(router_run),
            propose=on_the_loop(propose),
            strategy=RouterStrategy(),
            held_out_frac=own.held_out_frac,
            asynchronous=False,
            n_workers=1,
            rounds=rounds,
            ledger=MemoryLedger(),
        )
        best = max(best, RouterSkill(table=result.state).accuracy(held_out))
    return best
