"""What travels between the tasks of a run: the head's snapshot, tickets and reports."""

from dataclasses import dataclass
from enum import StrEnum

from agentdescent.core.diff import State
from agentdescent.core.evidence import EvidenceCard
from agentdescent.core.leash import Leash
from agentdescent.core.protocols import WorkUnit
from agentdescent.core.task import Task
from agentdescent.core.turns import Course, ResumeItem
from agentdescent.errors import Failure


@dataclass(frozen=True, slots=True)
class Snapshot:
    """One version of the artifact, ready to be worked with."""

    version: int
    state: State
    rendered: str


@dataclass(slots=True)
class Ticket:
    """Permission for one rollout: who runs it, on which task, against which version.

    Attributes:
        worker: From 0.
        serial: Counts the worker's rollouts, from 0.
        snapshot: The version it works with.
        unit: The work unit it belongs to.
        task: The training task.
        resume: What the rollout goes on with; None if it begins.
        course: How far it has come while it exposes its turns, else None.
        leash: By which the schedule may call the rollout off; None while it has none.
        expired: The schedule has stopped waiting for it.
    """

    worker: int
    serial: int
    snapshot: Snapshot
    unit: WorkUnit
    task: Task
    resume: ResumeItem | None = None
    course: Course | None = None
    leash: Leash | None = None
    expired: bool = False

    @property
    def order(self) -> tuple[int, int]:
        """Reports are judged in this order, whenever they arrive."""
        return self.worker, self.serial

    def checkpoint(self) -> ResumeItem | None:
        """What to go on with if it is cut now; None if it has made no turn, or all of them."""
        return None if self.course is None else self.course.checkpoint()

    def late(self) -> TimeoutError:
        """The failure of a rollout that its round no longer waited for."""
        return TimeoutError(
            f"the rollout of task {self.task.id!r} outlived the round_timeout of its round"
        )

    def expire(self) -> bool:
        """Stop waiting for the rollout: cancel it, or leave it to its thread; True if to that."""
        self.expired = True
        if self.leash is None:
            return False
        self.leash.call_off()
        return bool(self.leash.in_thread)


class Step(StrEnum):
    """The part of a rollout that is under way."""

    RUN = "run"
    REWARD = "reward"
    PROPOSE = "propose"
    VERIFY = "verify"


REFLECTION = frozenset({Step.PROPOSE, Step.VERIFY})
"""The steps after the head was measured."""


@dataclass(slots=True)
class Report:
    """What one rollout came to; the worker fills it in and then lets go of it.

    Attributes:
        ticket: The rollout.
        step: How far it got.
        reward: What the artifact earned on the task, or None if that is not known.
        proposal: What `propose` returned.
        card: The evidence for a diff, or None.
        dropped: Why a proposal is no candidate: a `ProposalOutcome` value, or "".
        reason: What the strategy, or the scorer of the edited artifact, says about that.
        strayed: A part of the diff was outside the section of the work unit, and was dropped.
        checkpoint: What to go on with later, if the rollout was cut, else None.
        failure: What went wrong, or None.
        exhausted: The rollout ended because a budget is spent.
        seconds: Time in run and reward.
    """

    ticket: Ticket
    step: Step = Step.RUN
    reward: float | None = None
    proposal: str | None = None
    card: EvidenceCard | None = None
    dropped: str = ""
    reason: str = ""
    strayed: bool = False
    checkpoint: ResumeItem | None = None
    failure: Failure | None = None
    exhausted: bool = False
    seconds: float = 0.0

    @property
    def candidate(self) -> EvidenceCard | None:
        """The card, if a merge should see it."""
        return self.card if self.card is not None and self.card.is_candidate else None

    @property
    def is_solved(self) -> bool:
        """The artifact earned so much that no proposal was asked for."""
        return self.reward is not None and self.step is Step.REWARD

    @property
    def timed_out(self) -> bool:
        """Nobody waited for it any more and it came to nothing."""
        return self.ticket.expired and self.failure is not None
