from .cli import (
    CliAgent as CliAgent,
    WorkspaceAgent as WorkspaceAgent,
    claude_code as claude_code,
    cli_agent as cli_agent,
    codex as codex,
)
from .completion import (
    Completion as Completion,
    Reply as Reply,
    echo as echo,
    from_callable as from_callable,
    metered as metered,
)
from .judge import Judge as Judge, llm_judge as llm_judge
from .llm import LLMAgent as LLMAgent, Reflector as Reflector, reflector as reflector
from .providers import (
    ApiCompletion as ApiCompletion,
    Check as Check,
    claude as claude,
    openai_compatible as openai_compatible,
)
from .pruning import pruning as pruning
from .retries import with_retries as with_retries
from .tree_reflector import tree_reflector as tree_reflector
