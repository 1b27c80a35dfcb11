"""A domain without a model, in which every figure can be checked: routing texts by keyword."""

from agentdescent.reference.barrier_free import AsyncAgentDescent, AsyncConfig, AsyncStats
from agentdescent.reference.forks import arun_fork_baseline, run_fork_baseline
from agentdescent.reference.rounds import AgentDescent, RoundStat
from agentdescent.reference.router import (
    ClusteredTasks,
    RouterSkill,
    RouterStrategy,
    RouterTask,
    TaskUniverse,
    clustered,
    make_task_universe,
    router_propose,
    router_reward,
    router_run,
)

__all__ = [
    "AgentDescent",
    "AsyncAgentDescent",
    "AsyncConfig",
    "AsyncStats",
    "ClusteredTasks",
    "RoundStat",
    "RouterSkill",
    "RouterStrategy",
    "RouterTask",
    "TaskUniverse",
    "arun_fork_baseline",
    "clustered",
    "make_task_universe",
    "router_propose",
    "router_reward",
    "router_run",
    "run_fork_baseline",
]
