"""What an edit must not do: ready-made values for `constraints=`."""

from agentdescent.core.protocols import Constraint
from agentdescent.policy.constraints import (
    forbidden,
    max_chars,
    no_copies,
    parses,
    protected,
    required,
    structured,
)

__all__ = [
    "Constraint",
    "forbidden",
    "max_chars",
    "no_copies",
    "parses",
    "protected",
    "required",
    "structured",
]
