"""Evolve prompts, rules and worked examples of an agent against examples of your own.

`evolve` for scripts and ``await async_evolve(...)`` for async applications take the same
parameters; everything else here is what can be plugged into them.
"""

from agentdescent.agents.completion import Completion, echo, from_callable, metered
from agentdescent.agents.judge import llm_judge
from agentdescent.agents.llm import LLMAgent, reflector
from agentdescent.api import async_evolve, evolve
from agentdescent.config import AggregatorConfig
from agentdescent.core.artifact import Contract, Evolvable, EvolvingArtifact
from agentdescent.core.contracts import SOLVED
from agentdescent.core.diff import Diff, Dropped
from agentdescent.core.evidence import EvidenceCard
from agentdescent.core.outcomes import MergeOutcome, MergeReport, ProposalOutcome, StopReason
from agentdescent.core.protocols import (
    Agent,
    AggregatorProtocol,
    ParallelStrategy,
    StalenessPolicy,
    Strategy,
    TaskSampler,
    WorkUnit,
)
from agentdescent.core.reflection import Reflection
from agentdescent.core.scored import Scored
from agentdescent.core.task import Task, tasks_from
from agentdescent.core.turns import Turn
from agentdescent.errors import (
    AgentDescentError,
    AggregatorContractError,
    BackendError,
    ContractError,
    EvolutionInterrupted,
    GovernanceError,
    LedgerError,
    PluginError,
    ProposalContractError,
    RewardContractError,
    RunningLoopError,
)
from agentdescent.ledger.api import Ledger
from agentdescent.merge.aggregator import Aggregator
from agentdescent.policy.filetree import FileTree
from agentdescent.policy.parallel import DataParallel
from agentdescent.policy.parallel_clusters import ClusterParallel
from agentdescent.policy.parallel_pipeline import PipelineChain, PipelineParallel
from agentdescent.policy.parallel_tensor import TensorParallel
from agentdescent.policy.rewards import contains, exact_match, last_number, numeric_close
from agentdescent.policy.sampling import DifficultyWeighted, RoundRobin
from agentdescent.policy.staleness import get_policy
from agentdescent.policy.strategies import AppendRules, FewShot, KeyedRules, SingleSlot, rule_id
from agentdescent.result import EvolutionResult, RoundInfo
from agentdescent.usage import Usage

__version__ = "0.1.0"

__all__ = [
    "SOLVED",
    "Agent",
    "AgentDescentError",
    "Aggregator",
    "AggregatorConfig",
    "AggregatorContractError",
    "AggregatorProtocol",
    "AppendRules",
    "BackendError",
    "ClusterParallel",
    "Completion",
    "Contract",
    "ContractError",
    "DataParallel",
    "Diff",
    "DifficultyWeighted",
    "Dropped",
    "EvidenceCard",
    "EvolutionInterrupted",
    "EvolutionResult",
    "Evolvable",
    "EvolvingArtifact",
    "FewShot",
    "FileTree",
    "GovernanceError",
    "KeyedRules",
    "LLMAgent",
    "Ledger",
    "LedgerError",
    "MergeOutcome",
    "MergeReport",
    "ParallelStrategy",
    "PipelineChain",
    "PipelineParallel",
    "PluginError",
    "ProposalContractError",
    "ProposalOutcome",
    "Reflection",
    "RewardContractError",
    "RoundInfo",
    "RoundRobin",
    "RunningLoopError",
    "Scored",
    "SingleSlot",
    "StalenessPolicy",
    "StopReason",
    "Strategy",
    "Task",
    "TaskSampler",
    "TensorParallel",
    "Turn",
    "Usage",
    "WorkUnit",
    "async_evolve",
    "contains",
    "echo",
    "evolve",
    "exact_match",
    "from_callable",
    "get_policy",
    "last_number",
    "llm_judge",
    "metered",
    "numeric_close",
    "reflector",
    "rule_id",
    "tasks_from",
]
