"""The router with calls that take time, for runs in virtual time."""

from dataclasses import dataclass
from typing import Any

import anyio

from agentdescent import Task
from agentdescent.reference import (
    RouterStrategy,
    clustered,
    make_task_universe,
    router_propose,
    router_reward,
    router_run,
)


@dataclass
class RouterWorld:
    """24 keywords in 288 texts; one task is a cluster of texts."""

    seed: int
    noise: float = 0.15
    run_s: float = 0.05
    propose_s: float = 0.05
    clusters: int = 6

    def __post_init__(self) -> None:
        universe = make_task_universe(seed=self.seed)
        self._tasks = clustered(*universe.split(), self.clusters)
        self._propose = router_propose(universe.gold, self.noise, self.seed)

    @property
    def parts(self) -> dict[str, Any]:
        """Its tasks and functions, as `evolve` takes them."""
        return {
            "tasks": self._tasks.all,
            "reward": self.reward,
            "run": self.run,
            "propose": self.propose,
            "strategy": RouterStrategy(),
            "held_out_frac": self._tasks.held_out_frac,
        }

    async def run(self, rendered: str, task: Task) -> str:
        await anyio.sleep(self.run_s)
        return router_run(rendered, task)

    async def reward(self, task: Task, output: str) -> float:
        return router_reward(task, output)

    async def propose(self, rendered: str, task: Task, output: str, reward: float) -> str | None:
        await anyio.sleep(self.propose_s)
        return self._propose(rendered, task, output, reward)
