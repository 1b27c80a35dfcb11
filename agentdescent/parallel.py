"""How a round's tasks are divided among the workers."""

from agentdescent.policy.parallel import (
    DataParallel,
    ParallelStrategy,
    WorkUnit,
    shard_round_robin,
    validate_plan,
)
from agentdescent.policy.parallel_clusters import ClusterParallel, TaskCluster, TaskScheduler
from agentdescent.policy.parallel_pipeline import PipelineChain, PipelineParallel
from agentdescent.policy.parallel_tensor import TensorParallel, assign_key_sections

__all__ = [
    "ClusterParallel",
    "DataParallel",
    "ParallelStrategy",
    "PipelineChain",
    "PipelineParallel",
    "TaskCluster",
    "TaskScheduler",
    "TensorParallel",
    "WorkUnit",
    "assign_key_sections",
    "shard_round_robin",
    "validate_plan",
]
