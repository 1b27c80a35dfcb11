"""Joining: two values for one key that are one value with both changes.

A strategy whose values can be joined offers ``merge_values(key, base, ours, theirs)``: the value
with both changes to `base`, or None if they overlap. Without it, two values contradict each other.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from agentdescent.core.artifact import EvolvingArtifact
from agentdescent.core.diff import Diff, diffs_contradict, fuse_diffs
from agentdescent.core.evidence import EvidenceCard
from agentdescent.errors import PluginError


def joined(artifact: EvolvingArtifact, key: str, base: Any, ours: Any, theirs: Any) -> Any:
    """The value of `key` with both changes to `base`; None if they contradict each other.

    Raises:
        PluginError: If the strategy gives anything but text.
    """
    if ours == theirs:
        return ours
    join = getattr(artifact.strategy, "merge_values", None)
    if join is None or ours is None or theirs is None:
        return None
    value = join(key, base, ours, theirs)
    if value is None or isinstance(value, str):
        return value
    raise PluginError(
        f"strategy.merge_values must return text or None, got {type(value).__name__} "
        f"{value!r:.80} for key {key!r}; mend the strategy, a retry would not help"
    )


def clash(head: EvolvingArtifact, one: Diff, other: Diff) -> bool:
    """True when both give one key of `head` different values that cannot be joined."""
    return diffs_contradict(one, other) and any(
        one.ops[key] != other.ops[key]
        and joined(head, key, head.state.get(key), one.ops[key], other.ops[key]) is None
        for key in one.ops.keys() & other.ops.keys()
    )


def added(head: EvolvingArtifact, taken: Mapping[str, Any], diff: Diff) -> dict[str, Any] | None:
    """`taken`, which are edits of `head`, together with `diff`; None if they clash."""
    ops = dict(taken)
    for key, value in diff.ops.items():
        if key in ops and ops[key] != value:
            value = joined(head, key, head.state.get(key), ops[key], value)  # noqa: PLW2901
            if value is None:
                return None
        ops[key] = value
    return ops


def fused(head: EvolvingArtifact, members: Sequence[Diff]) -> Diff:
    """The union of `members`, edits of `head`; where two clash the later one wins."""
    ops: dict[str, Any] = {}
    for member in members:
        ops = added(head, ops, member) or {**ops, **member.ops}
    return replace(fuse_diffs(members), ops=ops, parts=tuple(members))


def moved(diff: Diff, base: Mapping[str, Any], head: EvolvingArtifact) -> Diff:
    """`diff`, an edit of `base`, as an edit of `head` that keeps what changed in between.

    Where both changed a key and cannot be joined, or `base` does not say what it held, the value of
    `diff` stays.
    """
    ops = dict(diff.ops)
    for key in ops.keys() & base.keys():
        if base[key] != head.state.get(key):
            value = joined(head, key, base[key], head.state.get(key), ops[key])
            ops[key] = ops[key] if value is None else value
    return diff if ops == diff.ops else replace(diff, ops=ops, parts=(diff,))


def caught_up(
    card: EvidenceCard, head: EvolvingArtifact, version: Mapping[str, int]
) -> EvidenceCard:
    """`card` based on `head`, which is at `version`, with its edit moved there."""
    values = {key: head.state.get(key) for key in card.base_values}
    diff = moved(card.diff, card.base_values, head)
    return replace(card.rebased_onto(version), diff=diff, base_values=values)
