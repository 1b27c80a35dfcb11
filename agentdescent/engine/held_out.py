"""The held-out reward of the head."""

from collections.abc import Sequence

from agentdescent.core.protocols import Scores
from agentdescent.core.spend import Exhausted
from agentdescent.core.task import Task
from agentdescent.engine.shared import Shared
from agentdescent.errors import EvaluationFailed
from agentdescent.result import mean


class HeldOut:
    """Scores the head on every held-out task.

    Attributes:
        reward: Of the newest head that was measured, or None.
        failure: Why the head could not be measured when it was last tried, or None.
    """

    def __init__(self, shared: Shared, scores: Scores, tasks: Sequence[Task]) -> None:
        self._shared = shared
        self._scores = scores
        self._tasks = tasks
        self.reward: float | None = None
        self.failure: Exception | None = None

    def recall(self) -> float | None:
        """The head's reward from memory alone; None unless all of it is known."""
        values = self._scores.known(self._shared.head.snapshot.rendered, self._tasks)
        if values is not None:
            self.reward = mean(values)
        return self.reward if values is not None else None

    async def measure(self, *, untried: bool = False) -> float | None:
        """The head's reward; None while it cannot be known.

        Args:
            untried: Try even though nothing has ever succeeded in this run.
        """
        known = self.recall()
        if known is not None or not (untried or self._shared.health.ever_succeeded):
            return known
        try:
            values = await self._scores.values(self._shared.head.snapshot.rendered, self._tasks)
        except EvaluationFailed as failed:
            cause = failed.__cause__
            self.failure = cause if isinstance(cause, Exception) else failed
            self._shared.health.blame(self.failure, f"scoring held-out task {failed.task_id!r}")
            return None
        except Exhausted as spent:
            self._shared.stop.wind_down(spent.reason)
            return None
        self.reward = mean(values)
        return self.reward
