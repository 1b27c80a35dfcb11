"""What can evolve, and how a proposal becomes a diff: the ready-made strategies."""

from agentdescent.core.diff import Diff, Dropped
from agentdescent.core.protocols import Strategy
from agentdescent.policy.filetree import FileTree
from agentdescent.policy.strategies import (
    AppendRules,
    FewShot,
    KeyedRules,
    SingleSlot,
    chat_turns,
    rule_id,
    worked_example,
)

__all__ = [
    "AppendRules",
    "Diff",
    "Dropped",
    "FewShot",
    "FileTree",
    "KeyedRules",
    "SingleSlot",
    "Strategy",
    "chat_turns",
    "rule_id",
    "worked_example",
]
