"""Runners: how a tree of files meets the agent, the program or the tests that use it."""

from agentdescent.core.protocols import WorkspaceAgent
from agentdescent.process import Launch, Limits
from agentdescent.runners.bubblewrap import Bubblewrap
from agentdescent.runners.code import CodeRunner, code_runner
from agentdescent.runners.container import Container
from agentdescent.runners.gate import TEST_FAILURE_MARKER, scores_zero, zero_if_failed
from agentdescent.runners.isolation import DEFAULT_LIMITS, Isolation, Plain, Workspace
from agentdescent.runners.scorer import CommandScorer, command_scorer
from agentdescent.runners.staging import LAYOUTS
from agentdescent.runners.tree import (
    PROMPT_TEMPLATE,
    TreeReply,
    TreeRunner,
    agent_edits,
    tree_runner,
)
from agentdescent.runners.workspaces import sweep

__all__ = [
    "DEFAULT_LIMITS",
    "LAYOUTS",
    "PROMPT_TEMPLATE",
    "TEST_FAILURE_MARKER",
    "Bubblewrap",
    "CodeRunner",
    "CommandScorer",
    "Container",
    "Isolation",
    "Launch",
    "Limits",
    "Plain",
    "TreeReply",
    "TreeRunner",
    "Workspace",
    "WorkspaceAgent",
    "agent_edits",
    "code_runner",
    "command_scorer",
    "scores_zero",
    "sweep",
    "tree_runner",
    "zero_if_failed",
]
