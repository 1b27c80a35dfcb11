"""Plans: how a round's training tasks are divided among the workers."""

from collections.abc import Collection, Iterable, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from agentdescent.core.protocols import ParallelStrategy, WorkUnit

__all__ = [
    "DataParallel",
    "ParallelStrategy",
    "WorkUnit",
    "refuse_unsupported",
    "shard_round_robin",
    "share_out",
    "turned",
    "validate_plan",
]

T = TypeVar("T")


def shard_round_robin(items: Iterable[T], n: int) -> list[list[T]]:
    """Deal `items` into `n` shards in turn; one shard when `n` is below 1."""
    listed, n = list(items), max(1, n)
    return [listed[first::n] for first in range(n)]


def turned(items: Sequence[T], by: int) -> list[T]:
    """`items` from the one at `by` on, modulo their number, and then those before it."""
    start = by % max(1, len(items))
    return [*items[start:], *items[:start]]


def share_out(items: Sequence[T], start: int, n: int, round_index: int) -> list[list[T]]:
    """Deal `items` to `n` owners, none of them twice.

    A sampler that cycles through a share by the index of the round takes the items at `start`,
    `start` + 1 and so on: with `start` the number of picks so far, none is passed over.
    """
    return [turned(shard, -round_index) for shard in shard_round_robin(turned(items, start), n)]


@dataclass(frozen=True)
class DataParallel:
    """Deal the tasks into one shard a worker; the shards move on by one worker each round.

    Workers beyond the number of tasks take part in the shards of the first: a second try at a task
    is worth more than a worker at rest.
    """

    name = "DP"

    def plan(self, n_workers: int, round_index: int, keys: Sequence[str]) -> list[WorkUnit]:
        """Worker i works on shard ``(i + round_index) % n_shards``, of which none is empty."""
        shards = shard_round_robin(keys, min(n_workers, len(keys)))
        return [
            WorkUnit(worker, shards[(worker + round_index) % len(shards)])
            for worker in range(n_workers)
        ]


def validate_plan(
    units: Iterable[WorkUnit], n_workers: int, known_ids: Collection[str]
) -> tuple[WorkUnit, ...]:
    """Check what a plan returned; the units that have keys, sorted by worker.

    Units of one worker keep their order. Lists of keys are copied, so that what the plan does with
    its own later on does not matter.

    Raises:
        ValueError: If something is no WorkUnit, a worker is not in [0, n_workers), or a key is no
            training task; the message names it.
    """
    listed = _listed(units)
    known = known_ids if isinstance(known_ids, AbstractSet) else frozenset(known_ids)
    for unit in listed:
        _check_unit(unit, n_workers, known)
    working = sorted((unit for unit in listed if unit.keys), key=lambda unit: unit.worker)
    return tuple(_frozen(unit) for unit in working)


def refuse_unsupported(parallel: object) -> None:
    """Refuse pipeline parallelism, known by its class name or by the name "PP".

    Raises:
        ValueError: Because it needs one artifact a stage and a run evolves one.
    """
    if type(parallel).__name__ == "PipelineParallel" or getattr(parallel, "name", "") == "PP":
        raise ValueError(
            f"parallel={type(parallel).__name__} is a pipeline, which needs one artifact a stage, "
            "and a run evolves one; use DataParallel() or TensorParallel(...) here, and "
            "agentdescent.parallel.PipelineChain to order stages and to find the one to blame"
        )


def _listed(units: Any) -> list[Any]:
    try:
        return list(units)
    except TypeError:
        raise ValueError(
            f"plan must return a list of WorkUnit, got {type(units).__name__} {units!r}"
        ) from None


def _check_unit(unit: object, n_workers: int, known: AbstractSet[str]) -> None:
    if not isinstance(unit, WorkUnit):
        raise ValueError(f"plan must return WorkUnit objects, got {type(unit).__name__} {unit!r}")  # noqa: TRY004 - one error for every flaw of a plan
    if unit.worker not in range(n_workers):
        raise ValueError(
            f"plan names worker {unit.worker!r}; workers are numbered from 0 to {n_workers - 1}"
        )
    for key in unit.keys:
        if key not in known:
            raise ValueError(
                f"plan gives worker {unit.worker} the task id {key!r}, which is no training task; "
                "plan() may use only the ids in its keys argument"
            )


def _frozen(unit: WorkUnit) -> WorkUnit:
    return replace(unit, keys=[*unit.keys]) if isinstance(unit.keys, list) else unit
