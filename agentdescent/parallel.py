"""How a round's tasks are divided among the workers."""

from agentdescent.policy.parallel import (
    DataParallel,
    ParallelStrategy,
    WorkUnit,
    shard_round_robin,
    validate_plan,
)

__all__ = ["DataParallel", "ParallelStrategy", "WorkUnit", "shard_round_robin", "validate_plan"]
