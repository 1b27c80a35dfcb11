from . import errors as errors, events as events
from .agents.cli import (
    claude_code as claude_code,
    cli_agent as cli_agent,
    codex as codex,
)
from .agents.completion import (
    Completion as Completion,
    echo as echo,
    from_callable as from_callable,
    metered as metered,
)
from .agents.judge import llm_judge as llm_judge
from .agents.llm import (
    LLMAgent as LLMAgent,
    reflector as reflector,
)
from .agents.providers import (
    claude as claude,
    openai_compatible as openai_compatible,
)
from .agents.retries import with_retries as with_retries
from .agents.tree_reflector import tree_reflector as tree_reflector
from .api import (
    async_evolve as async_evolve,
    evolve as evolve,
)
from .config import AggregatorConfig as AggregatorConfig
from .core.artifact import (
    Contract as Contract,
    Evolvable as Evolvable,
    EvolvingArtifact as EvolvingArtifact,
)
from .core.contracts import SOLVED as SOLVED
from .core.diff import (
    Diff as Diff,
    Dropped as Dropped,
)
from .core.evidence import EvidenceCard as EvidenceCard
from .core.outcomes import (
    MergeOutcome as MergeOutcome,
    MergeReport as MergeReport,
    ProposalOutcome as ProposalOutcome,
    StopReason as StopReason,
)
from .core.protocols import (
    Agent as Agent,
    AggregatorProtocol as AggregatorProtocol,
    ParallelStrategy as ParallelStrategy,
    StalenessPolicy as StalenessPolicy,
    Strategy as Strategy,
    TaskSampler as TaskSampler,
    WorkspaceAgent as WorkspaceAgent,
    WorkUnit as WorkUnit,
)
from .core.reflection import Reflection as Reflection
from .core.scored import Scored as Scored
from .core.task import (
    Task as Task,
    tasks_from as tasks_from,
)
from .core.turns import Turn as Turn
from .dataloader import (
    Dataset as Dataset,
    split_dataset as split_dataset,
)
from .errors import (
    AgentDescentError as AgentDescentError,
    AgentError as AgentError,
    AggregatorContractError as AggregatorContractError,
    BackendError as BackendError,
    ContractError as ContractError,
    EvolutionInterrupted as EvolutionInterrupted,
    GovernanceError as GovernanceError,
    LedgerError as LedgerError,
    PluginError as PluginError,
    ProposalContractError as ProposalContractError,
    ProviderError as ProviderError,
    RewardContractError as RewardContractError,
    RunningLoopError as RunningLoopError,
)
from .frontends import (
    BeforeAfter as BeforeAfter,
    Evolved as Evolved,
    async_evolve_agent_code as async_evolve_agent_code,
    async_evolve_agent_dir as async_evolve_agent_dir,
    async_evolve_skill as async_evolve_skill,
    async_evolve_skill_dir as async_evolve_skill_dir,
    evolve_agent_code as evolve_agent_code,
    evolve_agent_dir as evolve_agent_dir,
    evolve_skill as evolve_skill,
    evolve_skill_dir as evolve_skill_dir,
)
from .ledger.api import Ledger as Ledger
from .merge.aggregator import Aggregator as Aggregator
from .policy.bundle import (
    AcceptDecision as AcceptDecision,
    MergeContext as MergeContext,
    Policies as Policies,
)
from .policy.filetree import FileTree as FileTree
from .policy.parallel import DataParallel as DataParallel
from .policy.parallel_clusters import ClusterParallel as ClusterParallel
from .policy.parallel_pipeline import (
    PipelineChain as PipelineChain,
    PipelineParallel as PipelineParallel,
)
from .policy.parallel_tensor import TensorParallel as TensorParallel
from .policy.rewards import (
    contains as contains,
    exact_match as exact_match,
    last_number as last_number,
    numeric_close as numeric_close,
)
from .policy.sampling import (
    DifficultyWeighted as DifficultyWeighted,
    RoundRobin as RoundRobin,
)
from .policy.staleness import get_policy as get_policy
from .policy.strategies import (
    AppendRules as AppendRules,
    FewShot as FewShot,
    KeyedRules as KeyedRules,
    SingleSlot as SingleSlot,
    rule_id as rule_id,
)
from .policy.unpaired import UnpairedBeta as UnpairedBeta
from .pricing import Price as Price
from .reference import (
    AgentDescent as AgentDescent,
    AsyncAgentDescent as AsyncAgentDescent,
)
from .result import (
    EvolutionResult as EvolutionResult,
    ResumedFrom as ResumedFrom,
    RoundInfo as RoundInfo,
)
from .runners import (
    code_runner as code_runner,
    tree_runner as tree_runner,
)
from .usage import Usage as Usage

__version__: str
