"""The command line `agentdescent`. Nothing of it is loaded by ``import agentdescent``."""

from agentdescent.cli.app import main

__all__ = ["main"]
