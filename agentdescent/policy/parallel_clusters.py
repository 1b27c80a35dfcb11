"""Cluster parallelism: whole groups of tasks, leased where there is most to learn."""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from agentdescent.core.contracts import SOLVED
from agentdescent.core.protocols import WorkUnit
from agentdescent.policy.parallel import share_out
from agentdescent.policy.sampling import signal

_KEPT_VALUE = 0.8
_KEPT_RATE = 0.9
_LEARNED = ("recent_value", "n_evidence", "pass_rate", "n_leased")


@dataclass(slots=True)
class TaskCluster:
    """Tasks that are alike, and what rollouts of them have shown.

    Attributes:
        id: Its name.
        tasks: Ids of its tasks.
        recent_value: How much there was to learn lately, in [0, 1].
        n_evidence: Rollouts that were recorded.
        pass_rate: The share that was solved lately.
        n_leased: Rollouts that were handed out, recorded or not.
    """

    id: str
    tasks: Sequence[str]
    recent_value: float = 0.5
    n_evidence: float = 0.0
    pass_rate: float = 0.5
    n_leased: int = 0

    @property
    def n_tried(self) -> float:
        """Rollouts handed out or recorded: one that failed was a try as well."""
        return max(self.n_evidence, self.n_leased)


class TaskScheduler:
    """Ranks clusters by what there is to learn, without forgetting any.

    A cluster is worth ``recent_value * (4p(1-p) + 0.001) + c * sqrt(ln(max(2, t)) / n)``, where p
    is its pass rate, n its tries and t those of all; one that was never tried comes first, and of
    equals the earlier.

    Args:
        clusters: What to rank.
        c: How much a rarely tried cluster is favoured; at least 0.

    Raises:
        ValueError: If there is no cluster, two have one id, or `c` is negative.
    """

    def __init__(self, clusters: Iterable[TaskCluster], c: float = 1.4) -> None:
        listed = list(clusters)
        self._clusters = {cluster.id: cluster for cluster in listed}
        if not listed or len(self._clusters) < len(listed):
            names = [cluster.id for cluster in listed]
            raise ValueError(f"clusters must be some, with an id of their own each, got {names!r}")
        self._c = _checked(c)

    @property
    def clusters(self) -> Sequence[TaskCluster]:
        """All of them, in the order given."""
        return tuple(self._clusters.values())

    def select(self) -> TaskCluster:
        """The most promising cluster."""
        return self.select_batch(1)[0]

    def select_batch(self, k: int) -> list[TaskCluster]:
        """The `k` most promising, best first; from the best again where there are fewer."""
        log_tries = math.log(max(2.0, sum(cluster.n_tried for cluster in self.clusters)))
        ranking = sorted(self.clusters, key=lambda cluster: -self._worth(cluster, log_tries))
        return [ranking[place % len(ranking)] for place in range(k)]

    def record(self, cluster_id: str, learning_value: float, *, passed: bool) -> None:
        """Learn of one rollout of a cluster.

        Args:
            cluster_id: Whose.
            learning_value: How much there was to learn, in [0, 1].
            passed: It was solved.
        """
        cluster = self._clusters[cluster_id]
        cluster.n_evidence += 1
        cluster.recent_value = _moved(cluster.recent_value, learning_value, _KEPT_VALUE)
        cluster.pass_rate = _moved(cluster.pass_rate, float(passed), _KEPT_RATE)

    def _worth(self, cluster: TaskCluster, log_tries: float) -> float:
        if not cluster.n_tried:
            return math.inf
        bonus = self._c * math.sqrt(log_tries / cluster.n_tried)
        return cluster.recent_value * signal(cluster.pass_rate) + bonus


@dataclass(slots=True, eq=False)
class ClusterParallel:
    """Give workers whole clusters of tasks, those first where there is most to learn.

    Each round leases as many clusters as there are workers. Where there are fewer clusters,
    several workers share the tasks of one out among themselves. Within a cluster the task sampler
    decides. What was learned lasts over runs with one plan, as far as clusters keep their names.

    Attributes:
        cluster_of: From the id of a task to the name of its cluster.
        c: How much a rarely tried cluster is favoured; at least 0.
        pass_threshold: A reward this high is a pass, in (0, 1]. None takes the run's own
            `solved_threshold`.
    """

    name = "CP"

    cluster_of: Callable[[str], object]
    c: float = 1.4
    pass_threshold: float | None = None
    _inherited: float = field(default=SOLVED, init=False, repr=False)
    _keys: tuple[str, ...] = field(default=(), init=False, repr=False)
    _names: dict[str, str] = field(default_factory=dict[str, str], init=False, repr=False)
    _figures: dict[str, Any] = field(default_factory=dict[str, Any], init=False, repr=False)
    _scheduler: TaskScheduler | None = field(default=None, init=False, repr=False)

    def __post_init__(self) -> None:
        if not callable(self.cluster_of):
            raise TypeError(
                "cluster_of must be a function of the form cluster_of(task_id), got "
                f"{self.cluster_of!r:.80}"
            )
        _checked(self.c)
        if self.pass_threshold is not None and not 0.0 < self.pass_threshold <= 1.0:
            raise ValueError(
                f"pass_threshold must be in (0, 1], got {self.pass_threshold!r}; "
                "leave it out to use the run's solved_threshold"
            )

    def inherit_threshold(self, solved_threshold: float) -> None:
        """Learn the reward that the run counts as solved; no effect with a `pass_threshold`."""
        self._inherited = solved_threshold

    def plan(self, n_workers: int, round_index: int, keys: Sequence[str]) -> list[WorkUnit]:
        """One cluster a worker, or a part of one."""
        if not keys:
            return []
        chosen = self._scheduled(keys).select_batch(n_workers)
        units: list[WorkUnit] = []
        for name in dict.fromkeys(cluster.id for cluster in chosen):
            owners = [worker for worker, cluster in enumerate(chosen) if cluster.id == name]
            units += _lease(chosen[owners[0]], owners, round_index)
        return sorted(units, key=lambda unit: unit.worker)

    def observe(self, unit: WorkUnit, task_id: str, score: float) -> None:  # noqa: ARG002 - a plan's face
        """Learn the reward of one rollout: the less it earned, the more there is to learn."""
        threshold = self._inherited if self.pass_threshold is None else self.pass_threshold
        if self._scheduler is not None and task_id in self._names:
            name = self._names[task_id]
            self._scheduler.record(name, max(0.0, 1.0 - score), passed=score >= threshold)

    def dump(self) -> dict[str, Any]:
        """What it has learned of each cluster, as JSON values."""
        known = () if self._scheduler is None else self._scheduler.clusters
        learned = {
            cluster.id: {name: getattr(cluster, name) for name in _LEARNED} for cluster in known
        }
        return {**self._figures, **learned}

    def restore(self, saved: Mapping[str, Any]) -> None:
        """Go on from what `dump` gave."""
        self._figures = dict(saved)
        self._scheduler = None

    def _scheduled(self, keys: Sequence[str]) -> TaskScheduler:
        """The scheduler of these tasks, with what is known of clusters of the same names."""
        if self._scheduler is not None and self._keys == tuple(keys):
            return self._scheduler
        self._figures = self.dump()
        self._keys = tuple(keys)
        self._names = {key: str(self.cluster_of(key)) for key in keys}
        tasks: dict[str, list[str]] = {}
        for key, name in self._names.items():
            tasks.setdefault(name, []).append(key)
        clusters = [
            TaskCluster(name, listed, **self._figures.get(name, {}))
            for name, listed in tasks.items()
        ]
        self._scheduler = TaskScheduler(clusters, self.c)
        return self._scheduler


def _lease(cluster: TaskCluster, owners: Sequence[int], round_index: int) -> list[WorkUnit]:
    shares = share_out(cluster.tasks, cluster.n_leased, len(owners), round_index)
    units = [WorkUnit(worker, share) for worker, share in zip(owners, shares, strict=True) if share]
    cluster.n_leased += len(units)
    return units


def _moved(average: float, value: float, kept: float) -> float:
    return kept * average + (1.0 - kept) * value


def _checked(c: float) -> float:
    if not c >= 0.0:
        raise ValueError(f"c must be at least 0, got {c!r}; 1.4 is the default")
    return c
