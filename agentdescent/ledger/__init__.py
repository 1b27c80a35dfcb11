"""Where artifacts live: a git repository through pygit2, or memory.

git itself loads when a ledger is opened.
"""

from agentdescent.ledger.api import Ledger
from agentdescent.ledger.faults import Faults, Step
from agentdescent.ledger.git import GitLedger
from agentdescent.ledger.history import Change, Changes, Version
from agentdescent.ledger.memory import MemoryLedger
from agentdescent.ledger.owners import Owner
from agentdescent.ledger.scratch import scratch_ledger
from agentdescent.ledger.terms import Durability

__all__ = [
    "Change",
    "Changes",
    "Durability",
    "Faults",
    "GitLedger",
    "Ledger",
    "MemoryLedger",
    "Owner",
    "Step",
    "Version",
    "scratch_ledger",
]
