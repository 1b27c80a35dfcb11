"""The journal: what every rollout came to, at once."""

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import anyio

from agentdescent.core.durations import Durations
from agentdescent.core.events import Emit, ProposalMade, RolloutFinished
from agentdescent.core.outcomes import MergeOutcome, ProposalOutcome, StopReason
from agentdescent.core.spend import Unit
from agentdescent.engine.messages import REFLECTION, Report
from agentdescent.engine.shared import Shared
from agentdescent.errors import FailureKind, describe


@dataclass(slots=True)
class Window:
    """What happened since the last round ended, apart from merges."""

    reasons: Counter[str] = field(default_factory=Counter[str])
    screened: int = 0


class Solved:
    """Which training tasks the head is known to solve.

    A rollout against the head adds or removes its task; a new head clears the set.

    Args:
        train_ids: All training tasks.
        threshold: The reward from which a task is solved.
        pending: How many cards wait inside the aggregator.
    """

    def __init__(
        self, train_ids: frozenset[str], threshold: float, pending: Callable[[], int]
    ) -> None:
        self._train = train_ids
        self._threshold = threshold
        self._pending = pending
        self._version = -1
        self._ids: set[str] = set()

    def note(self, report: Report, head: int) -> None:
        """Learn one report; failed rollouts and older versions change nothing."""
        self._forget(head)
        if report.reward is None or report.ticket.snapshot.version != head:
            return
        task = report.ticket.task.id
        if report.reward >= self._threshold:
            self._ids.add(task)
        else:
            self._ids.discard(task)

    def everything(self, head: int) -> bool:
        """True when the head solves every training task and no card is pending."""
        self._forget(head)
        return self._ids >= self._train and not self._pending()

    def dump(self) -> dict[str, Any]:
        """What it knows, as JSON values."""
        return {"version": self._version, "ids": sorted(self._ids)}

    def restore(self, saved: Mapping[str, Any]) -> None:
        """Go on from what `dump` gave."""
        self._version = saved["version"]
        self._ids = set(saved["ids"])

    def _forget(self, head: int) -> None:
        if head != self._version:
            self._version = head
            self._ids.clear()


class Journal:
    """Learns of every rollout in the moment it ends; owned by the loop.

    Attributes:
        rollouts: Rollouts that were measured.
        failed: Rollouts in which user code failed.
        rollout_seconds: Their time in run and reward, summed.
        stragglers: Rollouts that took far longer than others, or were cut.
        in_flight: Candidates that were reported and that no merge has looked at yet.
    """

    def __init__(
        self, shared: Shared, solved: Solved | None, n_train: int, durations: Durations
    ) -> None:
        self._shared = shared
        self._solved = solved
        self._n_train = n_train
        self._durations = durations
        self._window = Window()
        self._unproductive = 0
        self.rollouts: int = 0
        self.failed: int = 0
        self.rollout_seconds: float = 0.0
        self.stragglers: int = 0
        self.in_flight: int = 0

    def note(self, report: Report) -> None:
        """Enter one report.

        Raises:
            ContractError: If the rollout broke a contract.
        """
        failure = report.failure
        if failure is not None and failure.kind is FailureKind.CONTRACT:
            raise failure.error
        self.failed += failure is not None
        if report.reward is None:
            self._shared.spend.release(Unit.ROLLOUT)
            self.stragglers += report.checkpoint is not None
        else:
            self.rollouts += 1
            self._note_duration(report)
        if report.exhausted and self._shared.spend.exhausted is not None:
            self._shared.stop.wind_down(self._shared.spend.exhausted)
        self._shared.health.note(report)
        self._tally(report)
        if self._shared.experience is not None:
            self._shared.experience.note(report)
        if self._shared.sweeps:
            self._notice_convergence(report)
        if self._shared.emit is not None:
            self._tell(report, self._shared.emit)

    def dump(self) -> dict[str, Any]:
        """The counters, and what the round that is open has seen, as JSON values."""
        return {
            "rollouts": self.rollouts,
            "failed": self.failed,
            "rollout_seconds": self.rollout_seconds,
            "stragglers": self.stragglers,
            "unproductive": self._unproductive,
            "reasons": dict(self._window.reasons),
            "screened": self._window.screened,
            "solved": None if self._solved is None else self._solved.dump(),
        }

    def restore(self, saved: Mapping[str, Any]) -> None:
        """Go on from what `dump` gave."""
        self.rollouts = saved["rollouts"]
        self.failed = saved["failed"]
        self.rollout_seconds = saved["rollout_seconds"]
        self.stragglers = saved.get("stragglers", 0)
        self._unproductive = saved["unproductive"]
        self._window = Window(Counter(saved["reasons"]), saved["screened"])
        if self._solved is not None and saved["solved"] is not None:
            self._solved.restore(saved["solved"])

    def take_window(self) -> Window:
        """What happened since this was last asked."""
        window, self._window = self._window, Window()
        return window

    def stop_if_solved(self) -> None:
        """End the run if the head solves every training task and no evidence waits."""
        if self._solved is None or self.in_flight:
            return
        if self._solved.everything(self._shared.head.snapshot.version):
            self._shared.stop.at_once(StopReason.NOTHING_TO_LEARN)

    def _note_duration(self, report: Report) -> None:
        task = report.ticket.task
        self.rollout_seconds += report.seconds
        self.stragglers += self._durations.is_overdue(task, report.seconds)
        self._durations.note(task, report.seconds)

    def _tally(self, report: Report) -> None:
        if report.candidate is not None:
            self.in_flight += 1
        if report.strayed:
            self._window.reasons[MergeOutcome.SECTION_VIOLATION] += 1
        if report.dropped:
            self._window.reasons[report.dropped] += 1
            self._window.screened += report.dropped == ProposalOutcome.NO_GAIN
        if self._solved is not None:
            self._solved.note(report, self._shared.head.snapshot.version)

    def _notice_convergence(self, report: Report) -> None:
        health, stop = self._shared.health, self._shared.stop
        if health.dead:
            stop.at_once(StopReason.ERROR, health.first_error)
        if report.reward is None:
            return
        self.stop_if_solved()
        self._unproductive = 0 if report.candidate is not None else self._unproductive + 1
        if self._unproductive >= self._n_train:
            self._unproductive = 0
            reason = self._shared.early.stall()
            if reason is not None:
                stop.at_once(reason)

    def _tell(self, report: Report, emit: Emit) -> None:
        ticket = report.ticket
        now = anyio.current_time()
        error = describe(report.failure.error) if report.failure else ""
        who = (now, ticket.worker, ticket.task.id, ticket.snapshot.version)
        emit(RolloutFinished(*who, report.reward, report.seconds, error))
        if report.step in REFLECTION and not report.failure and not report.exhausted:
            delta = report.card.before_after_delta if report.card else None
            emit(ProposalMade(*who, report.proposal, report.dropped, report.reason, delta))
