"""How long rollouts take, in which order to start them, and those that are cut at a turn."""

from agentdescent.core.durations import DurationEstimator, fifo_makespan, lpt_schedule
from agentdescent.core.turns import ResumeItem, ResumeQueue, Turn
from agentdescent.policy.parallel_clusters import TaskCluster, TaskScheduler

__all__ = [
    "DurationEstimator",
    "ResumeItem",
    "ResumeQueue",
    "TaskCluster",
    "TaskScheduler",
    "Turn",
    "fifo_makespan",
    "lpt_schedule",
]
