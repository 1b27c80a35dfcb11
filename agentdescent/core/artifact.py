"""Artifacts: what evolves."""

from collections.abc import Awaitable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any, Protocol, Self, runtime_checkable

from agentdescent.core.constraints import violation
from agentdescent.core.diff import Diff, State, apply_ops
from agentdescent.core.evidence import EvidenceCard
from agentdescent.core.protocols import Constraint, Strategy
from agentdescent.core.task import Task


@dataclass(frozen=True, slots=True)
class Contract:
    """What an artifact takes and gives; artifacts of one major number are interchangeable."""

    input_schema: str = "any"
    output_schema: str = "any"
    side_effects: tuple[str, ...] = ()
    major: int = 1

    def is_compatible_with(self, other: "Contract") -> bool:
        """True when both have the same major number."""
        return self.major == other.major


TEXT_CONTRACT = Contract("task", "text")
"""The contract of every artifact that `evolve` makes."""


@runtime_checkable
class Evolvable(Protocol):
    """What a ledger can hold and a merger can edit."""

    id: str
    version: int
    contract: Contract
    blast_radius: float

    def diff(self, other: Self, /) -> Diff:
        """The edit that turns this artifact into `other`."""
        ...

    def apply(self, diff: Diff, /) -> Self:
        """A new artifact with `diff` applied; never in place."""
        ...

    def evidence_eval(self, card: EvidenceCard, /) -> Any:
        """The mean reward on the tasks of `card`."""
        ...


class Runtime(Protocol):
    """What lets an artifact be scored: given by the engine, absent elsewhere."""

    def score(
        self, artifact: "EvolvingArtifact", tasks: Sequence[Task], /
    ) -> float | Awaitable[float]:
        """The mean reward over `tasks`; a plain value in a synchronous aggregator."""
        ...


@dataclass(frozen=True)
class EvolvingArtifact:
    """A flat state together with the strategy that renders it.

    Attributes:
        id: The artifact's name in the ledger.
        state: Key to value; copied, read-only.
        version: 1 at registration, one more with each commit.
        blast_radius: How much a bad change could break, in [0, 1].
        strategy: Renders the state.
        runtime: Scores it; None outside a run.
        contract: What it promises its users.
        constraints: What every edit of it has to satisfy.
    """

    id: str
    state: State = field(default_factory=dict[str, Any])
    version: int = 1
    blast_radius: float = 0.2
    strategy: Strategy | None = None
    runtime: Runtime | None = field(default=None, compare=False, repr=False)
    contract: Contract = TEXT_CONTRACT
    constraints: Sequence[Constraint] = field(default=(), compare=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "state", MappingProxyType(dict(self.state)))

    def render(self) -> str:
        """The state as the text that `run` is given; the strategy gets a dict of its own.

        Raises:
            ValueError: If the artifact has no strategy.
        """
        if self.strategy is None:
            raise ValueError(f"artifact {self.id!r} has no strategy to render it with")
        return self.strategy.render(dict(self.state))

    def violation(self, state: State) -> str:
        """Why this artifact may not become `state`, or "".

        Raises:
            PluginError: If a constraint fails.
        """
        return violation(self.constraints, self.state, state)

    def apply(self, diff: Diff) -> "EvolvingArtifact":
        """A new artifact, one version on, with the keys of `diff` set or deleted."""
        return replace(self, state=apply_ops(self.state, diff.ops), version=self.version + 1)

    def diff(self, other: "EvolvingArtifact") -> Diff:
        """The edit for which ``self.apply(edit).state == other.state``."""
        changed = {k: v for k, v in other.state.items() if self.state.get(k) != v}
        gone = dict.fromkeys(self.state.keys() - other.state.keys())
        return Diff(f"{self.id}:diff", self.id, {**changed, **gone})

    def score(self, tasks: Iterable[Task]) -> Any:
        """The mean reward over `tasks`: awaitable on the event loop, a float in a hook thread.

        0.0 without tasks or outside a run.
        """
        listed = list(tasks)
        return self.runtime.score(self, listed) if self.runtime and listed else 0.0

    def evidence_eval(self, card: EvidenceCard) -> Any:
        """As `score`, over the tasks that `card` rests on."""
        return self.score(ref for ref in card.trajectory_refs if isinstance(ref, Task))

    def full_eval(self, tasks: Iterable[Task]) -> Mapping[str, Any]:
        """``{"reward": score(tasks)}``."""
        return {"reward": self.score(tasks)}
