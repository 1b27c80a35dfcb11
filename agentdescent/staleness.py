"""What becomes of a diff made against an older version."""

from agentdescent.core.protocols import StaleAction, StalenessPolicy
from agentdescent.policy.staleness import Full, Guarded, Reflective, get_policy

__all__ = ["Full", "Guarded", "Reflective", "StaleAction", "StalenessPolicy", "get_policy"]
