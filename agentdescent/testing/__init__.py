"""Fakes and instruments for tests of code that uses this package.

`agentdescent.testing.strategies` has hypothesis strategies; it is imported on its own, for it needs
hypothesis.
"""

from agentdescent.ledger.memory import MemoryLedger
from agentdescent.testing.actor import Call, FakeActor, FakeCompletion, Script
from agentdescent.testing.order import run_trio

__all__ = ["Call", "FakeActor", "FakeCompletion", "MemoryLedger", "Script", "run_trio"]
