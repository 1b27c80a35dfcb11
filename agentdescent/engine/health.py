"""Has anything ever worked? The one question that tells a dead backend from a bad day."""

from collections.abc import Mapping
from typing import Any

from agentdescent.engine.alerts import Alerts
from agentdescent.engine.messages import REFLECTION, Report, Step
from agentdescent.errors import ProviderAuthError, describe, raised_at

BACKOFF_BASE_S = 0.25
BACKOFF_MAX_S = 5.0


class Health:
    """Judges failures of the backend.

    Before the first success in the whole run, failures mean a wrong key or a dead endpoint: give up
    after `max_errors` in a row, and at once if a provider refuses the key. After it they mean a
    transient: back off and go on.

    Attributes:
        ever_succeeded: Some rollout has been measured.
        first_error: The first failure, which is the one worth reporting.
        where: What was being done then, on which task, and the line that raised.
        dead: The run cannot make progress.
        retired: Workers that gave up (barrier-free only).
    """

    def __init__(self, max_errors: int, n_workers: int, alerts: Alerts, *, backs_off: bool) -> None:
        self._alerts = alerts
        self._backs_off = backs_off
        self._max_errors = max_errors
        self._failed_proposals_allowed = max_errors * n_workers
        self._in_a_row: dict[int, int] = {}
        self._dead_rounds = 0
        self._failed_proposals = 0
        self._ever_proposed = False
        self.ever_succeeded: bool = False
        self.first_error: Exception | None = None
        self.where: str = ""
        self.dead: bool = False
        self.retired = 0

    def note(self, report: Report) -> None:
        """Learn how one rollout ended."""
        if report.exhausted:
            return
        if report.reward is not None:
            self.ever_succeeded = True
        if report.step in REFLECTION:
            self._note_reflection(report)
        if report.failure is None:
            self._in_a_row.pop(report.ticket.worker, None)
            return
        task = report.ticket.task.id
        self.blame(report.failure.error, f"in {report.step} of task {task!r}")
        self._count_in_a_row(report.ticket.worker)

    def blame(self, error: Exception, where: str) -> None:
        """Remember `error` if it is the first."""
        if self.first_error is None:
            self.first_error = error
            self.where = " ".join(filter(None, (where, raised_at(error))))

    def close_round(self, *, failed: int, succeeded: int) -> None:
        """Judge a round: it is dead when some rollout failed and none succeeded."""
        self._dead_rounds = self._dead_rounds + 1 if failed and not succeeded else 0
        if self._is_hopeless(self._dead_rounds):
            self.dead = True

    def backoff(self, worker: int) -> float | None:
        """Seconds `worker` should wait before its next rollout; None when it should give up."""
        failures = self._in_a_row.get(worker, 0)
        if self._is_hopeless(failures):
            return None
        return doubled(BACKOFF_BASE_S, failures, BACKOFF_MAX_S) if failures else 0.0

    def _is_hopeless(self, failures: int) -> bool:
        """True if nothing has ever worked, and after so many failures nothing will."""
        enough = 1 if isinstance(self.first_error, ProviderAuthError) else self._max_errors
        return failures >= enough and not self.ever_succeeded

    def dump(self) -> dict[str, Any]:
        """Whether the backend has worked, as JSON values."""
        return {
            "ever_succeeded": self.ever_succeeded,
            "ever_proposed": self._ever_proposed,
            "failed_proposals": self._failed_proposals,
            "dead_rounds": self._dead_rounds,
        }

    def restore(self, saved: Mapping[str, Any]) -> None:
        """Go on from what `dump` gave."""
        self.ever_succeeded = saved["ever_succeeded"]
        self._ever_proposed = saved["ever_proposed"]
        self._failed_proposals = saved["failed_proposals"]
        self._dead_rounds = saved["dead_rounds"]

    def _count_in_a_row(self, worker: int) -> None:
        failures = self._in_a_row[worker] = self._in_a_row.get(worker, 0) + 1
        if self.ever_succeeded and failures == self._max_errors:
            cause = describe(self.first_error) if self.first_error else "unknown"
            then = "is backing off" if self._backs_off else "is tried again"
            self._alerts.warn(
                f"worker w{worker} failed {failures} times in a row and {then} rather than "
                f"retiring, since the backend has worked before; first failure: {cause}"
            )

    def _note_reflection(self, report: Report) -> None:
        if report.failure is None or report.step is Step.VERIFY:
            self._ever_proposed = True
            self._failed_proposals = 0
            return
        self._failed_proposals += 1
        if self._failed_proposals == self._max_errors:
            self._alerts.warn(
                f"propose failed {self._failed_proposals} times in a row, last with "
                f"{describe(report.failure.error)}; failed tasks go unreflected meanwhile"
            )
        if not self._ever_proposed and self._failed_proposals == self._failed_proposals_allowed:
            self.dead = True


def doubled(seconds: float, times: int, most: float) -> float:
    """`seconds` doubled so many times, at most `most`; for outages of any length."""
    return min(seconds * 2.0 ** min(times, 64), most)
