"""Every plug-in as a Protocol: none needs a base class.

Parameters are positional, so that users' own names for them are theirs.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from agentdescent.core.diff import Diff, Dropped, State
from agentdescent.core.evidence import EvidenceCard
from agentdescent.core.leash import Leash
from agentdescent.core.outcomes import MergeReport
from agentdescent.core.task import Task
from agentdescent.core.turns import Course


class Reward(Protocol):
    """Scores an output: a number in [0, 1]. May be a coroutine function."""

    def __call__(self, task: Task, output: Any, /) -> Any: ...


class Run(Protocol):
    """Works on a task with the rendered artifact. May be a coroutine function.

    Or an async generator function: it yields `Turn(state)` after each turn and `Turn(output=...)`
    last, and takes ``resume=`` with such a state.
    """

    def __call__(self, rendered: str, task: Task, /) -> Any: ...


class Propose(Protocol):
    """Says what to change after a rollout: text, or None. May be a coroutine function."""

    def __call__(self, rendered: str, task: Task, output: Any, reward: float, /) -> Any: ...


class Agent(Protocol):
    """An actor with both halves."""

    def solve(self, rendered: str, task: Task, /) -> Any:
        """Work on `task` with the rendered artifact."""
        ...

    def propose(self, rendered: str, task: Task, output: Any, reward: float, /) -> Any:
        """Say what to change, or None."""
        ...


@runtime_checkable
class WorkspaceAgent(Protocol):
    """An agent that works on the files of a directory."""

    def __call__(self, prompt: str, /) -> str | Awaitable[str]:
        """Answer the prompt."""
        ...

    def in_workspace(self, path: Path, /) -> Callable[[str], str | Awaitable[str]]:
        """The same agent, at work in `path`; this one stays where it is."""
        ...


class Strategy(Protocol):
    """What the artifact is, and how a proposal becomes a diff."""

    def initial(self) -> State:
        """The state of a new artifact."""
        ...

    def render(self, state: State, /) -> str:
        """The text for `run`; equal texts are one artifact to the evaluation memo."""
        ...

    def to_diff(
        self, state: State, proposal: str, author: str, base_version: int, target: str, /
    ) -> Diff | Dropped | None:
        """The edit that `proposal` asks for; None if it changes nothing."""
        ...


class Constraint(Protocol):
    """What every edit has to satisfy, checked before any evaluation of it is paid for.

    A plain function, called on the event loop; it should take no longer than a look at the texts.
    """

    def __call__(self, before: State, after: State, /) -> str | None:
        """Why the edit that turns `before` into `after` is refused; None if it is not."""
        ...


class TaskSampler(Protocol):
    """Chooses which task of its share a worker rolls out next."""

    def pick(self, keys: Sequence[str], round_index: int, /) -> str | Awaitable[str]:
        """One of `keys`, which are task ids."""
        ...

    def record(self, task_id: str, score: float, /) -> object:
        """Learn the reward of one finished rollout.

        A sampler that has them is also told by `note_lost(task_id)` of a pick that came to no
        reward, by `note_commit()` of each new version of the artifact, and by
        `inherit_threshold(reward)`, before all else, from which reward on a task is solved.
        """
        ...


@dataclass(frozen=True, slots=True)
class WorkUnit:
    """What one worker may work on in one round.

    Attributes:
        worker: Whose it is, from 0.
        keys: Ids of training tasks; the sampler picks one.
        stage: For pipelines.
        section: The section of the artifact that its diffs may touch; None for all.
    """

    worker: int
    keys: Sequence[str]
    stage: int = 0
    section: int | None = None


class ParallelStrategy(Protocol):
    """Divides a round's tasks among the workers.

    A plan may have more: `observe(unit, task_id, reward)` is called for every rollout of a round
    when it closes, `inherit_threshold(reward)` as for samplers, `fit(strategy, task_ids, warn)`
    returns the plan to use for a run, and `section_map`, from keys of the artifact to sections,
    is what the sections of its units are enforced by.
    """

    @property
    def name(self) -> str:
        """A short name for logs."""
        ...

    def plan(
        self, n_workers: int, round_index: int, keys: Sequence[str], /
    ) -> Sequence[WorkUnit] | Awaitable[Sequence[WorkUnit]]:
        """The units of one round; `keys` are all training task ids."""
        ...


class StaleAction(StrEnum):
    """What to do with a diff made against an older version."""

    ACCEPT = "accept"
    REBASE = "rebase"
    DISCARD = "discard"


class StalenessPolicy(Protocol):
    """Judges how far a diff may lag behind the head."""

    @property
    def name(self) -> str:
        """A short name for logs."""
        ...

    def decide(self, eta: int, alpha: int, contract_breaking: bool, /) -> StaleAction:  # noqa: FBT001
        """Judge a diff that lags `eta` commits where `alpha` are tolerated."""
        ...


class AggregatorProtocol(Protocol):
    """The optimizer: takes evidence in, decides what to commit. `def` or `async def`."""

    def ingest(self, card: EvidenceCard, /) -> Awaitable[None] | None:
        """File one card."""
        ...

    def step(self) -> Sequence[MergeReport] | Awaitable[Sequence[MergeReport]]:
        """Merge what is due and report each merge."""
        ...


class AggregatorFactory(Protocol):
    """Builds an aggregator for one run; called positionally."""

    def __call__(
        self, ledger: Any, verifier: Any, audit: Any, config: Any, staleness_policy: Any, /
    ) -> Any: ...


class Door(Protocol):
    """A user's callable behind the executor: always awaited, whatever it is."""

    async def __call__(self, *args: Any, leash: Leash | None = None) -> Any: ...


class CourseDoor(Protocol):
    """A door to a `run` that exposes its turns, which may be cut after any of them."""

    async def __call__(self, *args: Any, leash: Leash | None, course: Course) -> Any: ...


class HasRendered(Protocol):
    """A published head, as far as evaluation is concerned."""

    @property
    def rendered(self) -> str:
        """Its text."""
        ...


class Scores(Protocol):
    """What the engine needs of the evaluation pool."""

    async def values(self, rendered: str, tasks: Sequence[Task], /) -> Sequence[float]:
        """The reward of each of `tasks`, memoised.

        Raises:
            EvaluationFailed: If one could not be scored after its retries.
        """
        ...

    def known(self, rendered: str, tasks: Sequence[Task], /) -> tuple[float, ...] | None:
        """The same from memory alone; None unless every value is there."""
        ...


@dataclass(frozen=True, slots=True)
class EvaluationFigures:
    """What held-out evaluations came to.

    Attributes:
        hits: Evaluations answered from memory.
        misses: Evaluations that were run.
        seconds: Spent running them.
        parts: What the head's held-out reward is made of, by name.
    """

    hits: int = 0
    misses: int = 0
    seconds: float = 0.0
    parts: Mapping[str, float] = field(default_factory=dict[str, float])
