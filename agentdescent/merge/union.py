"""Unions: several candidates as one."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from agentdescent.core.artifact import EvolvingArtifact
from agentdescent.core.diff import Diff, apply_ops
from agentdescent.merge.joining import fused, joined


@dataclass(frozen=True, slots=True)
class Union:
    """Some candidates as one diff, and the artifact with it applied."""

    members: tuple[Diff, ...]
    diff: Diff
    artifact: EvolvingArtifact

    @classmethod
    def of(cls, head: EvolvingArtifact, members: Sequence[Diff]) -> "Union":
        """The union of `members`, of which no two clash."""
        diff = members[0] if len(members) == 1 else fused(head, members)
        return cls(tuple(members), diff, head.apply(diff))

    @property
    def fused(self) -> bool:
        """It has more than one member."""
        return len(self.members) > 1


def fitting(head: EvolvingArtifact, diffs: Sequence[Diff], max_ops: int | None) -> list[Diff]:
    """The first of `diffs`, and of the others as many as one commit may hold beside it.

    None that clashes with an earlier one, or with which a constraint is broken, is among them.
    """
    members: list[Diff] = []
    union = _Growing(head)
    for diff in diffs:
        more = union.beside(diff)
        if more is not None and (not members or union.allows(more, max_ops)):
            union.add(diff, more)
            members.append(diff)
    return members


class _Growing:
    """A union of edits of `head` to which one after another is added."""

    def __init__(self, head: EvolvingArtifact) -> None:
        self._head = head
        self._values: dict[str, list[Any]] = {}
        self._ops: dict[str, Any] = {}

    def beside(self, diff: Diff) -> dict[str, Any] | None:
        """What the keys of `diff` come to in the union; None if it clashes with that."""
        ops: dict[str, Any] = {}
        for key, value in diff.ops.items():
            values = self._values_with(key, value)
            ops[key] = value
            if len(values) > 1:
                ops[key] = joined(self._head, key, self._head.state.get(key), *values)
                if ops[key] is None:
                    return None
        return ops

    def allows(self, more: Mapping[str, Any], max_ops: int | None) -> bool:
        """True if the union with `more` is small enough and keeps the constraints."""
        size = len(self._ops) + sum(key not in self._ops for key in more)
        if max_ops is not None and size > max_ops:
            return False
        if not self._head.constraints:
            return True
        return not self._head.violation(apply_ops(self._head.state, {**self._ops, **more}))

    def add(self, diff: Diff, more: Mapping[str, Any]) -> None:
        """Add `diff`, which comes to `more`."""
        for key, value in diff.ops.items():
            self._values[key] = self._values_with(key, value)
        self._ops.update(more)

    def _values_with(self, key: str, value: Any) -> list[Any]:
        values = self._values.get(key, [])
        return values if value in values else [*values, value]
