"""Counting calls where they are seen nearest to the model."""

from agentdescent.usage import Counted

__all__ = ["Counted"]
