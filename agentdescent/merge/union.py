"""Unions: several candidates as one."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from agentdescent.core.artifact import EvolvingArtifact
from agentdescent.core.diff import Diff, apply_ops
from agentdescent.merge.joining import fused, united


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
    for diff in diffs:
        ops = united(head, [*members, diff])
        if ops is not None and (not members or _is_allowed(head, ops, max_ops)):
            members.append(diff)
    return members


def _is_allowed(head: EvolvingArtifact, ops: Mapping[str, Any], max_ops: int | None) -> bool:
    if max_ops is not None and len(ops) > max_ops:
        return False
    return not head.violation(apply_ops(head.state, ops))
