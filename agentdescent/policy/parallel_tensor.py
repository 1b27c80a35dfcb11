"""Tensor parallelism: the artifact in disjoint sections, each worked on by its owners alone."""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from agentdescent.core.protocols import Strategy, WorkUnit
from agentdescent.errors import PluginError, describe
from agentdescent.policy.parallel import shard_round_robin, share_out, turned

_SHOWN = 5
"""Ids and keys in a message."""


def assign_key_sections(keys: Iterable[str], n_sections: int) -> dict[str, int]:
    """The section of each key: sorted, each once, dealt in turn; sizes differ by at most one."""
    return {key: place % n_sections for place, key in enumerate(sorted(set(keys)))}


@dataclass(frozen=True)
class TensorParallel:
    """Split the keys of the artifact into disjoint sections, so that merges cannot contradict.

    A worker may edit the keys of its section alone. What else a proposal of it sets or deletes is
    dropped and counted as `section-violation`. Worker i owns section ``i % n_sections``; where
    there are fewer workers than sections, the sections go round, so that each has its turn.

    With `route`, a worker sees only tasks whose failures edit its section; workers that own one
    section share its tasks out among themselves, and a section without tasks has no owner. Without
    it, tasks are dealt as by `DataParallel`, and a task often meets a worker that may not act on
    it.

    Attributes:
        n_sections: How many sections; at least 1 and at most the number of keys.
        keys: The keys that the artifact can have. None takes those that the strategy declares by a
            method `keys()`, as `KeyedRules` and `SingleSlot` do.
        route: From the id of a task to the key that its failure edits. Tasks whose key is none of
            `keys` are left out of the run, with a warning.
    """

    name = "TP"

    n_sections: int
    keys: Sequence[str] | None = None
    route: Callable[[str], str | None] | None = None

    def __post_init__(self) -> None:
        if self.n_sections < 1:
            raise ValueError(f"n_sections must be at least 1, got {self.n_sections!r}")
        if isinstance(self.keys, str):
            raise TypeError(
                f"keys must be a list of keys, got the text {self.keys!r}; write "
                f"keys=[{self.keys!r}]"
            )
        if self.route is not None and not callable(self.route):
            raise TypeError(
                f"route must be a function of the form route(task_id), got {self.route!r:.80}"
            )
        if self.keys is not None:
            self._refuse_too_many()

    @cached_property
    def section_map(self) -> Mapping[str, int]:
        """The section of each key; empty while there are no keys."""
        return assign_key_sections(self.keys or (), self.n_sections)

    def fit(
        self, strategy: Strategy, task_ids: Sequence[str], warn: Callable[[str], object]
    ) -> "TensorParallel":
        """The same plan with the keys of `strategy`. A run calls this before the first rollout.

        Args:
            strategy: What the artifact is.
            task_ids: All training tasks.
            warn: Told of tasks that are routed nowhere.

        Raises:
            ValueError: If the strategy declares no keys and none are given, can never write some
                that are given, or has fewer than there are sections; or if every task is routed
                nowhere.
            PluginError: If `route` raises.
        """
        fitted = replace(self, keys=_keys_of(strategy, self.keys))
        if self.route is not None:
            lost = [name for name in task_ids if fitted.section_of(name) is None]
            _warn_of(lost, len(task_ids), fitted.keys or (), warn)
        return fitted

    def plan(self, n_workers: int, round_index: int, keys: Sequence[str]) -> list[WorkUnit]:
        """One unit a worker; one that owns nothing to work on has none.

        Raises:
            ValueError: If there is a route and the keys are not known.
            PluginError: If `route` raises.
        """
        if self.route is None:
            return self._unrouted(n_workers, round_index, keys)
        if self.keys is None:
            raise ValueError(
                "a route leads to keys, and this plan knows none; give keys=, or let evolve fit "
                "it to a strategy"
            )
        return _routed(self._groups(keys), n_workers, round_index)

    def _unrouted(self, n_workers: int, round_index: int, ids: Sequence[str]) -> list[WorkUnit]:
        if n_workers >= self.n_sections or not ids:
            shards = turned(shard_round_robin(ids, n_workers), round_index)
            return [
                WorkUnit(worker, shard, section=worker % self.n_sections)
                for worker, shard in enumerate(shards)
            ]
        turn = round_index * n_workers
        repeats_after = math.lcm(self.n_sections, len(ids), n_workers) // n_workers
        start = turn + round_index // repeats_after  # so that every task meets every section
        shares = share_out(ids, start, n_workers, round_index)
        return [
            WorkUnit(worker, share, section=(turn + worker) % self.n_sections)
            for worker, share in enumerate(shares)
        ]

    def _groups(self, ids: Sequence[str]) -> dict[int, list[str]]:
        """The tasks of each section that has any."""
        groups: dict[int, list[str]] = {}
        for name in ids:
            section = self.section_of(name)
            if section is not None:
                groups.setdefault(section, []).append(name)
        return groups

    def section_of(self, task_id: str) -> int | None:
        """The section that a task is routed to; None if to none, or if there is no route.

        Raises:
            PluginError: If `route` raises.
        """
        if self.route is None:
            return None
        try:
            key = self.route(task_id)
        except Exception as error:
            raise PluginError(
                f"route failed for task {task_id!r}: {describe(error)}; return None for a task "
                "that edits no key"
            ) from error
        if key is None:
            return None
        section = self.section_map.get(key)
        return self._sections_by_name.get(_folded(key)) if section is None else section

    @cached_property
    def _sections_by_name(self) -> Mapping[str, int]:
        """As `section_map`, for keys that are written in another case or with other spaces."""
        return {_folded(key): section for key, section in self.section_map.items()}

    def _refuse_too_many(self) -> None:
        n_keys = len(set(self.keys or ()))
        if self.n_sections > n_keys:
            raise ValueError(
                f"n_sections={self.n_sections} is more than there are keys: the artifact has only "
                f"{n_keys} key(s); lower n_sections"
            )


def _warn_of(
    lost: Sequence[str], n_tasks: int, keys: Sequence[str], warn: Callable[[str], object]
) -> None:
    if not lost:
        return
    what = (
        f"{len(lost)} of {n_tasks} training tasks are routed to none of the keys {_shown(keys)}: "
        f"{_shown(lost)}"
    )
    if len(lost) == n_tasks:
        raise ValueError(f"{what}; let route(task_id) return one of these keys")
    warn(f"{what}; they are left out of this run")


def _keys_of(strategy: Strategy, given: Sequence[str] | None) -> Sequence[str]:
    """The keys that a plan for `strategy` divides."""
    name = type(strategy).__name__
    declare = getattr(strategy, "keys", None)
    declared: Sequence[str] | None = None if declare is None else [*declare()]
    if declared is None and (given is None or getattr(strategy, "content_addressed", False)):
        raise ValueError(
            f"TensorParallel needs keys that are known beforehand, and strategy={name} declares "
            "none: there is no method keys(); give explicit keys=[...] of a strategy that writes "
            "them, use KeyedRules(categories=[...]), or divide tasks alone by DataParallel()"
        )
    if given is None or declared is None:
        return given or declared or ()
    unknown = [key for key in given if key not in declared]
    if unknown:
        raise ValueError(
            f"strategy={name} can never write the keys {_shown(unknown)}; its keys are "
            f"{_shown(declared)}: leave keys= out to use these"
        )
    return given


def _routed(
    groups: Mapping[int, Sequence[str]], n_workers: int, round_index: int
) -> list[WorkUnit]:
    live = sorted(groups)
    if not live:
        return []
    is_short = n_workers < len(live)
    turn = round_index * n_workers if is_short else 0
    shares: dict[int, Iterator[list[str]]] = {}
    units: list[WorkUnit] = []
    for worker in range(n_workers):
        visits, place = divmod(turn + worker, len(live))
        section = live[place]
        if section not in shares:
            n_owners = 1 if is_short else len(range(place, n_workers, len(live)))
            start = visits if is_short else round_index * n_owners
            shares[section] = iter(share_out(groups[section], start, n_owners, round_index))
        units.append(WorkUnit(worker, next(shares[section]), section=section))
    return units


def _folded(key: str) -> str:
    return " ".join(str(key).casefold().split())


def _shown(names: Sequence[str]) -> str:
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return ", ".join(map(repr, names[:_SHOWN])) + more
