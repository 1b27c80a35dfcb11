"""Task samplers: which task of its share a worker rolls out next."""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from agentdescent.core.contracts import SOLVED

_FLOOR = 0.001
"""Signal of a task that is always or never solved, so that no task is worth nothing."""


@dataclass(frozen=True)
class RoundRobin:
    """Cycle through the share: the task at `round_index` modulo its length."""

    name = "round-robin"

    def pick(self, keys: Sequence[str], round_index: int) -> str:
        """The next of `keys`.

        Raises:
            ValueError: If `keys` is empty.
        """
        _refuse_empty(keys)
        return keys[round_index % len(keys)]

    def record(self, task_id: str, score: float) -> None:
        """Do nothing: the cycle does not depend on rewards."""


def signal(pass_rate: float) -> float:
    """How much a task tells that is passed at this rate: most at one half."""
    return 4.0 * pass_rate * (1.0 - pass_rate) + _FLOOR


@dataclass(slots=True, eq=False)
class DifficultyWeighted:
    """Prefer tasks that are sometimes solved, without forgetting any.

    A task with pass rate p after n rollouts is worth
    ``4p(1-p) + 0.001 + c * sqrt(ln(t + 1) / n)``, where t counts the picks so far; a task that
    was never tried comes first, and of equals the earlier key wins. Deterministic. One sampler
    serves all workers of a run.

    Two things happen to that formula in a run. A pick without a reward, because its rollout is
    still under way or has failed, counts as a try, and k of them divide the first two terms by
    k + 1: workers spread out, and a task that always fails does not hold them. And with every
    commit what was seen before counts a little less, since it is about another artifact.

    Attributes:
        c: How much a rarely tried task is favoured; at least 0. The default is the one that
            `benchmarks/sampling.py` finds best where rewards are noisy; without noise nothing
            between 0.1 and 0.4 makes a difference.
        pass_threshold: A reward this high is a pass, in (0, 1]. None takes the run's own
            `solved_threshold`, which is 0.999 unless `evolve` is told otherwise.
        prior: Pass rate of a task that was never recorded, in [0, 1].
        discount: What passes and trials are multiplied by at each commit, in (0, 1]; 1 never
            forgets.
    """

    name = "difficulty-weighted"

    c: float = 0.4
    pass_threshold: float | None = None
    prior: float = 0.5
    discount: float = 0.9
    _inherited: float = field(default=SOLVED, init=False, repr=False)
    _picks: int = field(default=0, init=False, repr=False)
    _stats: dict[str, tuple[float, float]] = field(
        default_factory=dict[str, tuple[float, float]], init=False, repr=False
    )
    _running: Counter[str] = field(default_factory=Counter[str], init=False, repr=False)
    _lost: Counter[str] = field(default_factory=Counter[str], init=False, repr=False)

    def __post_init__(self) -> None:
        if not self.c >= 0.0:
            raise ValueError(f"c must be at least 0, got {self.c!r}; 0.4 is the default")
        if self.pass_threshold is not None and not 0.0 < self.pass_threshold <= 1.0:
            raise ValueError(
                f"pass_threshold must be in (0, 1], got {self.pass_threshold!r}; "
                "leave it out to use the run's solved_threshold"
            )
        if not 0.0 <= self.prior <= 1.0:
            raise ValueError(f"prior is a pass rate in [0, 1], got {self.prior!r}")
        if not 0.0 < self.discount <= 1.0:
            raise ValueError(f"discount must be in (0, 1], got {self.discount!r}; 1 never forgets")

    def inherit_threshold(self, solved_threshold: float) -> None:
        """Learn the reward that the run counts as solved.

        A run calls this once, before the first pick, on a sampler that has the method. It has no
        effect when `pass_threshold` is set.
        """
        self._inherited = solved_threshold

    def pick(self, keys: Sequence[str], round_index: int) -> str:  # noqa: ARG002 - a sampler's face
        """The most promising of `keys`; `round_index` is ignored.

        Raises:
            ValueError: If `keys` is empty.
        """
        _refuse_empty(keys)
        log_picks = math.log(self._picks + 1)
        self._picks += 1
        chosen = max(keys, key=lambda key: self._worth(key, log_picks))
        self._running[chosen] += 1
        return chosen

    def record(self, task_id: str, score: float) -> None:
        """Count one rollout that earned `score`."""
        threshold = self._inherited if self.pass_threshold is None else self.pass_threshold
        passes, trials = self._stats.get(task_id, (0.0, 0.0))
        self._stats[task_id] = (passes + (score >= threshold), trials + 1.0)
        self._ended(task_id)
        self._lost.pop(task_id, None)

    def note_lost(self, task_id: str) -> None:
        """Learn that a pick came to no reward: its rollout failed, or was not made.

        A run calls this, as `note_commit`, on a sampler that has the method.
        """
        self._ended(task_id)
        self._lost[task_id] += 1

    def note_commit(self) -> None:
        """Learn that the artifact has changed."""
        self._stats = {
            key: (passes * self.discount, trials * self.discount)
            for key, (passes, trials) in self._stats.items()
        }

    def stats(self) -> dict[str, tuple[float, float]]:
        """Task id to (passes, trials), discounted; a copy."""
        return dict(self._stats)

    def dump(self) -> dict[str, Any]:
        """What it has learned, as JSON values. What is under way is not part of it."""
        return {"picks": self._picks, "stats": dict(self._stats), "lost": dict(self._lost)}

    def restore(self, saved: Mapping[str, Any]) -> None:
        """Go on from what `dump` gave."""
        self._picks = saved["picks"]
        self._stats = {key: (passes, trials) for key, (passes, trials) in saved["stats"].items()}
        self._lost = Counter(saved.get("lost", {}))
        self._running.clear()

    def _ended(self, task_id: str) -> None:
        if self._running[task_id] > 1:
            self._running[task_id] -= 1
        else:
            del self._running[task_id]

    def _worth(self, key: str, log_picks: float) -> float:
        passes, trials = self._stats.get(key, (0.0, 0.0))
        unrewarded = self._running[key] + self._lost[key]
        tries = trials + unrewarded
        if not tries:
            return math.inf
        rate = passes / trials if trials else self.prior
        return signal(rate) / (1 + unrewarded) + self.c * math.sqrt(log_picks / tries)


def _refuse_empty(keys: Sequence[str]) -> None:
    if not keys:
        raise ValueError("keys is empty: a sampler needs at least one task id to pick from")
