"""Ready-made rewards, and the check of a reward against every task before a run."""

from agentdescent.core.protocols import Reward
from agentdescent.errors import RewardContractError
from agentdescent.policy.rewards import (
    Scorer,
    contains,
    exact_match,
    last_number,
    multiple_choice,
    numeric_close,
    preflight,
    token_f1,
)

__all__ = [
    "Reward",
    "RewardContractError",
    "Scorer",
    "contains",
    "exact_match",
    "last_number",
    "multiple_choice",
    "numeric_close",
    "preflight",
    "token_f1",
]
