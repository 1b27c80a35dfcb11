"""Strategies: what an artifact is, and how a proposal becomes a diff."""

from agentdescent.policy.strategies_few_shot import FewShot, chat_turns, worked_example
from agentdescent.policy.strategies_text import AppendRules, KeyedRules, SingleSlot, rule_id

__all__ = [
    "AppendRules",
    "FewShot",
    "KeyedRules",
    "SingleSlot",
    "chat_turns",
    "rule_id",
    "worked_example",
]
