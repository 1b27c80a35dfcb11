"""The decisions of a run that can be replaced one by one."""

from agentdescent.policy.bundle import (
    AcceptancePolicy,
    AcceptDecision,
    ConflictPolicy,
    FusionPolicy,
    MergeContext,
    Policies,
    PromotionPolicy,
)
from agentdescent.policy.unpaired import BetaPosterior, UnpairedBeta, probability_above

__all__ = [
    "AcceptDecision",
    "AcceptancePolicy",
    "BetaPosterior",
    "ConflictPolicy",
    "FusionPolicy",
    "MergeContext",
    "Policies",
    "PromotionPolicy",
    "UnpairedBeta",
    "probability_above",
]
