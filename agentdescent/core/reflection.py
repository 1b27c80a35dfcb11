"""What a reflector is told: one rollout, and what was learned around it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from agentdescent.core.diff import State
from agentdescent.core.task import Task


@dataclass(frozen=True, slots=True)
class Attempt:
    """What the artifact made of one training task.

    Attributes:
        task: The task.
        output: What `run` returned.
        reward: What that earned.
        feedback: What the scorer said about it, or "".
    """

    task: Task
    output: Any
    reward: float
    feedback: str = ""


@dataclass(frozen=True, slots=True)
class Rejection:
    """A proposal that came to nothing.

    Attributes:
        proposal: The proposal, word for word.
        outcome: Why it was turned down: a `ProposalOutcome` or `MergeOutcome` value.
        delta: By how much it changed the reward, or None if that was not measured: the reward of
            its own task if `outcome` is "no-gain", else the mean over held-out tasks.
        reason: What the strategy or the merge said about it, or "". If it brought no gain, what the
            scorer said about the output that came of it.
    """

    proposal: str
    outcome: str
    delta: float | None = None
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Reflection:
    """What the engine gives to `reflect(reflection)`, for one proposal.

    Nothing in it comes from a held-out task, except the mean change that a merge has measured.

    Attributes:
        rendered: The artifact as `run` was given it.
        state: The same as the strategy's state; a copy.
        version: Its version.
        task: The training task.
        output: What `run` returned.
        reward: What that earned.
        feedback: What the scorer said about it (`Scored.feedback`), or "".
        instructions: What a proposal has to look like for the strategy to read it, or "".
        rejected: Proposals that came to nothing, the most relevant first.
        others: Further tasks that this version failed; empty unless `reflect_batch` is above 1.
        successes: Tasks that this version solved, at most as many as `others` may be.
    """

    rendered: str
    state: State
    version: int
    task: Task
    output: Any
    reward: float
    feedback: str = ""
    instructions: str = ""
    rejected: Sequence[Rejection] = ()
    others: Sequence[Attempt] = ()
    successes: Sequence[Attempt] = ()

    @property
    def meta(self) -> Mapping[str, Any]:
        """The metadata of the task, such as its gold answer."""
        return self.task.meta
