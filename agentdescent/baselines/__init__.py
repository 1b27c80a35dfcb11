"""Controls at an equal budget: is sharing worth more than working alone, or apart?"""

from agentdescent.baselines.arms import Arm, Trial, best_of_n_fork, merge_of_n, serial
from agentdescent.baselines.compare import Comparison, Interval, Reading, compare, interval
from agentdescent.baselines.workload import Budget, Workload

__all__ = [
    "Arm",
    "Budget",
    "Comparison",
    "Interval",
    "Reading",
    "Trial",
    "Workload",
    "best_of_n_fork",
    "compare",
    "interval",
    "merge_of_n",
    "serial",
]
