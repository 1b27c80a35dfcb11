"""Where artifacts live: a git repository through pygit2, or memory.

git itself loads when a ledger is opened.
"""

from agentdescent.ledger.git import GitLedger
from agentdescent.ledger.memory import MemoryLedger
from agentdescent.ledger.scratch import scratch_ledger

__all__ = ["GitLedger", "MemoryLedger", "scratch_ledger"]
