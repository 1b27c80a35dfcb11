"""Unions: several candidates as one."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from agentdescent.core.artifact import EvolvingArtifact
from agentdescent.core.diff import Diff, fuse_diffs


@dataclass(frozen=True, slots=True)
class Union:
    """Some candidates as one diff, and the artifact with it applied."""

    members: tuple[Diff, ...]
    diff: Diff
    artifact: EvolvingArtifact

    @classmethod
    def of(cls, head: EvolvingArtifact, members: Sequence[Diff]) -> "Union":
        """The union of `members`, of which no two contradict."""
        diff = members[0] if len(members) == 1 else fuse_diffs(members)
        return cls(tuple(members), diff, head.apply(diff))

    @property
    def fused(self) -> bool:
        """It has more than one member."""
        return len(self.members) > 1


def fitting(diffs: Sequence[Diff], max_ops: int | None) -> list[Diff]:
    """The first of `diffs`, and of the others as many as one commit may hold beside it.

    None that contradicts an earlier one is among them.
    """
    members: list[Diff] = []
    taken: dict[str, Any] = {}
    for diff in diffs:
        n_ops = len(taken) + len(diff.ops.keys() - taken.keys())
        fits = not members or max_ops is None or n_ops <= max_ops
        if fits and all(taken.get(key, value) == value for key, value in diff.ops.items()):
            members.append(diff)
            taken |= diff.ops
    return members
