"""The state of a search: what its next decision depends on, as JSON."""

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from agentdescent.core.diff import Diff
from agentdescent.core.evidence import EvidenceCard
from agentdescent.core.task import Task


class Dumping(Protocol):
    """Something that can write down its state."""

    def dump(self) -> Any:
        """The state as JSON values; cheap, and unaffected by what happens afterwards."""
        ...


class Persistent(Dumping, Protocol):
    """Something whose state outlives the process. Samplers, plans and aggregators may be one."""

    def restore(self, saved: Any, /) -> None:
        """Go on from what `dump` gave, perhaps in another process."""
        ...


def dump_card(card: EvidenceCard) -> dict[str, Any]:
    """`card` as JSON values; its tasks by their ids."""
    diff = card.diff
    return {
        "diff": {
            "diff_id": diff.diff_id,
            "target": diff.target,
            "ops": dict(diff.ops),
            "contract_breaking": diff.contract_breaking,
            "author": diff.author,
        },
        "base_version": dict(card.base_version),
        "touched": list(card.touched),
        "delta": card.before_after_delta,
        "tasks": [task.id for task in card.trajectory_refs if isinstance(task, Task)],
        "order": list(card.order),
        "verified": card.verified,
        "refusals": card.refusals,
        "base_values": dict(card.base_values),
    }


def load_cards(saved: Sequence[Mapping[str, Any]], tasks: Mapping[str, Task]) -> list[EvidenceCard]:
    """The cards that `dump_card` gave; a task that is not among `tasks` is left out of its card."""
    return [_load_card(record, tasks) for record in saved]


def _load_card(record: Mapping[str, Any], tasks: Mapping[str, Task]) -> EvidenceCard:
    worker, serial = record["order"]
    return EvidenceCard(
        diff=Diff(**record["diff"]),
        base_version=record["base_version"],
        touched=record["touched"],
        before_after_delta=record["delta"],
        trajectory_refs=[tasks[name] for name in record["tasks"] if name in tasks],
        order=(worker, serial),
        verified=record["verified"],
        refusals=record["refusals"],
        base_values=record.get("base_values", {}),
    )
