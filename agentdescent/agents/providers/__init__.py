"""Models behind HTTP APIs, as completions."""

from agentdescent.agents.providers.completion import ApiCompletion, Check
from agentdescent.agents.providers.factories import claude, openai_compatible

__all__ = ["ApiCompletion", "Check", "claude", "openai_compatible"]
