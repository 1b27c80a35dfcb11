"""What a run tells while it goes on: one typed stream, any number of listeners."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from agentdescent.core.model_calls import ModelCall
from agentdescent.core.outcomes import MergeReport


@dataclass(frozen=True, slots=True)
class Event:
    """Something happened.

    Attributes:
        at: Seconds on the monotonic clock of the event loop.
    """

    at: float


@dataclass(frozen=True, slots=True)
class RunStarted(Event):
    """The artifact to start from is known and, if possible, measured.

    Attributes:
        resumed_from: What the run has gone on from, in one line, or that others which are still at
            work keep it from doing so; else "".
    """

    artifact_id: str
    version: int
    initial_reward: float | None
    n_train: int
    n_held_out: int
    resumed_from: str = ""


@dataclass(frozen=True, slots=True)
class RolloutFinished(Event):
    """A worker has finished one rollout; `reward` is None and `error` is set if it failed."""

    worker: int
    task_id: str
    version: int
    reward: float | None
    seconds: float
    error: str


@dataclass(frozen=True, slots=True)
class ProposalMade(Event):
    """A reflector has answered.

    Attributes:
        proposal: What it said.
        dropped: Why that is no candidate: a `ProposalOutcome` value, or "".
        reason: What the strategy, or the scorer of the edited artifact, says about that, or "".
        delta: Reward with the edit minus reward without, on its own task, if that was measured.
    """

    worker: int
    task_id: str
    version: int
    proposal: str | None
    dropped: str
    reason: str
    delta: float | None


@dataclass(frozen=True, slots=True)
class ModelCalled(Event):
    """A completion of this package has made one request, well or badly."""

    call: ModelCall


@dataclass(frozen=True, slots=True)
class EvaluationFinished(Event):
    """A held-out evaluation was paid for; `error` is "" unless it failed for good.

    Attributes:
        cheap: `reward` is that of the cheap reward, by which rivals are ranked.
    """

    task_id: str
    reward: float | None
    seconds: float
    error: str
    cheap: bool = False


@dataclass(frozen=True, slots=True)
class MergeDecided(Event):
    """A merge was judged."""

    round: int
    report: MergeReport


@dataclass(frozen=True, slots=True)
class Committed(Event):
    """A version was written to `dev` and is the head."""

    artifact_id: str
    version: int
    commit: str


@dataclass(frozen=True, slots=True)
class WorkerBackedOff(Event):
    """A worker waits before its next rollout; `seconds` is None when it gave up for good."""

    worker: int
    seconds: float | None
    error: str


@dataclass(frozen=True, slots=True)
class RoundEnded(Event):
    """A round (or sweep) is over; `info` is its `RoundInfo`."""

    info: Any


@dataclass(frozen=True, slots=True)
class RunEnded(Event):
    """The run is over; `result` is its `EvolutionResult`, partial if it was cut short."""

    result: Any


Emit = Callable[[Event], None]
