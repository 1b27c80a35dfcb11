"""How long rollouts take: prediction, the longest first, and who is overdue."""

import heapq
from bisect import bisect_left, insort
from collections import deque
from collections.abc import Sequence

from agentdescent.core.task import Task
from agentdescent.core.turns import ResumeQueue

_NO_SPREAD = 1e-12
_WINDOW = 256
_ENOUGH = 10


class DurationEstimator:
    """Predicts seconds from a size, by a straight line through what was observed.

    Args:
        prior: Seconds that are predicted before anything was observed.
        min_samples: Before so many observations, or while all sizes are the same, the prediction
            is their mean.
    """

    def __init__(self, prior: float = 0.05, min_samples: int = 3) -> None:
        self._prior = prior
        self._min_samples = min_samples
        self._n = 0
        self._mean_size = 0.0
        self._mean_seconds = 0.0
        self._spread = 0.0
        self._together = 0.0

    @property
    def params(self) -> tuple[float, float]:
        """Intercept and slope of the line, in seconds and seconds per size."""
        if not self._n:
            return self._prior, 0.0
        if self._n < self._min_samples or self._spread <= _NO_SPREAD:
            return self._mean_seconds, 0.0
        slope = self._together / self._spread
        return self._mean_seconds - slope * self._mean_size, slope

    def observe(self, size: float, seconds: float) -> None:
        """Learn how long something of this size took."""
        self._n += 1
        off = size - self._mean_size
        self._mean_size += off / self._n
        self._mean_seconds += (seconds - self._mean_seconds) / self._n
        self._spread += off * (size - self._mean_size)
        self._together += off * (seconds - self._mean_seconds)

    def estimate(self, size: float) -> float:
        """Predicted seconds, at least 0."""
        intercept, slope = self.params
        return max(0.0, intercept + slope * size)


def longest_first(weights: Sequence[float]) -> list[int]:
    """Places of `weights`, the heaviest first; of equals the earlier."""
    return sorted(range(len(weights)), key=lambda place: -weights[place])


def lpt_schedule(weights: Sequence[float], n: int) -> tuple[list[list[int]], float]:
    """Give the heaviest item to whoever has least, again and again.

    Args:
        weights: What each item takes, at least 0.
        n: How many share them, at least 1.

    Returns:
        The places of the items of each of the `n`, and the heaviest load: at most 4/3 of the least
        that is possible.

    Raises:
        ValueError: If `n` is below 1.
    """
    _refuse_nobody(n)
    assignment: list[list[int]] = [[] for _ in range(n)]
    loads = [(0.0, one) for one in range(n)]
    for place in longest_first(weights):
        load, one = loads[0]
        assignment[one].append(place)
        heapq.heapreplace(loads, (load + weights[place], one))
    return assignment, max(load for load, _ in loads)


def fifo_makespan(weights: Sequence[float], n: int) -> float:
    """The heaviest load when items are dealt to `n` in turn; to compare `lpt_schedule` with.

    Raises:
        ValueError: If `n` is below 1.
    """
    _refuse_nobody(n)
    return float(max(sum(weights[first::n]) for first in range(n)))


class Durations:
    """What a run knows of how long its rollouts take.

    Args:
        estimator: Predicts a task that was never rolled out, from the length of its prompt.
        rule: When a rollout is overdue.
    """

    def __init__(
        self, estimator: DurationEstimator | None = None, rule: ResumeQueue | None = None
    ) -> None:
        self._estimator = estimator or DurationEstimator()
        self._rule = rule or ResumeQueue()
        self._floor = self._estimator.estimate(0)
        self._last: dict[str, float] = {}
        self._recent: deque[float] = deque()
        self._sorted: list[float] = []

    def note(self, task: Task, seconds: float) -> None:
        """Learn how long a whole rollout of `task` took."""
        self._estimator.observe(len(task.prompt), seconds)
        self._last[task.id] = seconds
        if len(self._recent) == _WINDOW:
            oldest = self._recent.popleft()
            del self._sorted[bisect_left(self._sorted, oldest)]
        self._recent.append(seconds)
        insort(self._sorted, seconds)

    def predict(self, task: Task) -> float:
        """Seconds that a rollout of `task` will take: as last time, else by its size."""
        known = self._last.get(task.id)
        return self._estimator.estimate(len(task.prompt)) if known is None else known

    def is_overdue(self, task: Task, seconds: float) -> bool:
        """True if a rollout of `task` that has taken so long is out of the ordinary.

        It is one that has exceeded by far its own prediction and what nine in ten rollouts take;
        nobody is before ten were seen.
        """
        n_seen = len(self._sorted)
        if n_seen < _ENOUGH:
            return False
        p90 = self._sorted[(9 * n_seen) // 10]
        if not self._rule.should_checkpoint(seconds, max(p90, self._floor)):
            return False
        return self._rule.should_checkpoint(seconds, self.predict(task))


def _refuse_nobody(n: int) -> None:
    if n < 1:
        raise ValueError(f"n must be at least 1, got {n!r}: somebody has to do the work")
