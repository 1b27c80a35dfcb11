"""Which task of its share a worker rolls out next."""

from agentdescent.core.protocols import TaskSampler
from agentdescent.policy.sampling import DifficultyWeighted, RoundRobin

__all__ = ["DifficultyWeighted", "RoundRobin", "TaskSampler"]
