"""Ready-made rewards, rewards made of others, and the check of a reward before a run."""

from agentdescent.core.protocols import Reward
from agentdescent.core.scored import Scored
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
from agentdescent.policy.rewards_combine import (
    Combined,
    cost_penalty,
    explained,
    gated,
    length_penalty,
    weighted,
)
from agentdescent.policy.rewards_graded import edit_similarity, matches, number_closeness
from agentdescent.policy.rewards_json import json_field, json_fields

__all__ = [
    "Combined",
    "Reward",
    "RewardContractError",
    "Scored",
    "Scorer",
    "contains",
    "cost_penalty",
    "edit_similarity",
    "exact_match",
    "explained",
    "gated",
    "json_field",
    "json_fields",
    "last_number",
    "length_penalty",
    "matches",
    "multiple_choice",
    "number_closeness",
    "numeric_close",
    "preflight",
    "token_f1",
    "weighted",
]
