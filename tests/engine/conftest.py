"""Both schedules through one door."""

import math
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from agentdescent import EvolutionResult, async_evolve
from agentdescent.ledger import MemoryLedger

Evolve = Callable[..., Awaitable[EvolutionResult]]


@pytest.fixture(params=["rounds", "barrier_free"])
def schedule(request: pytest.FixtureRequest) -> str:
    """The name of the schedule a test runs under."""
    return str(request.param)


@pytest.fixture
def evolve_under(schedule: str) -> Evolve:
    """`async_evolve` under either schedule, in memory, with comparable budgets.

    `rounds` means a rollout budget of rounds x n_workers without barriers.
    """

    async def evolve(tasks: Any, reward: Any, **options: Any) -> EvolutionResult:
        options.setdefault("ledger", MemoryLedger() if "repo_path" not in options else None)
        rounds = options.pop("rounds", 6)
        n_workers = options.setdefault("n_workers", 4)
        if schedule == "rounds":
            options.setdefault("max_concurrency", n_workers)
            return await async_evolve(tasks, reward, asynchronous=False, rounds=rounds, **options)
        options.setdefault("max_seconds", math.inf)
        if "max_rollouts" not in options:
            options.setdefault("max_iters", rounds * n_workers)
        return await async_evolve(tasks, reward, asynchronous=True, **options)

    return evolve


@pytest.fixture
def evolve_world(evolve_under: Evolve) -> Evolve:
    """`evolve_under` for a world; its parts can be replaced by name."""

    async def evolve(world: Any, **options: Any) -> EvolutionResult:
        return await evolve_under(**{**world.parts, **options})

    return evolve
