"""Joining: several values for one key that are one value with all of their changes.

A strategy whose values can be joined offers ``merge_values(key, base, ours, theirs)``: the value
with both changes to `base`, or None if they overlap. It may take any number of values, which is
exact; else more than two are joined one after another. Without it, two values contradict each
other. It may also offer ``rebase_value(key, base, head, value)``: `value`, which was made of
`base`, with those changes of `head` that do not overlap its own.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from agentdescent.core.artifact import EvolvingArtifact
from agentdescent.core.contracts import takes
from agentdescent.core.diff import Diff, fuse_diffs
from agentdescent.core.evidence import EvidenceCard
from agentdescent.errors import PluginError


def joined(artifact: EvolvingArtifact, key: str, base: Any, *values: Any) -> str | None:
    """The value of `key` with the changes that `values` make to `base`; None if two overlap.

    Raises:
        PluginError: If the strategy gives anything but text.
    """
    join = getattr(artifact.strategy, "merge_values", None)
    if join is None or None in values:
        return None
    if len(values) == 2 or takes(join, ("key", "base", *map(str, range(len(values))))):
        return _text(key, join(key, base, *values))
    return _one_by_one(join, key, base, values)


def united(head: EvolvingArtifact, members: Sequence[Diff]) -> dict[str, Any] | None:
    """What `members`, which are edits of `head`, make of their keys; None if two clash."""
    found: dict[str, list[Any]] = {}
    for member in members:
        for key, value in member.ops.items():
            values = found.setdefault(key, [])
            if value not in values:
                values.append(value)
    ops: dict[str, Any] = {}
    for key, values in found.items():
        ops[key] = values[0]
        if len(values) > 1:
            ops[key] = joined(head, key, head.state.get(key), *values)
            if ops[key] is None:
                return None
    return ops


def clash(head: EvolvingArtifact, one: Diff, other: Diff) -> bool:
    """True when both give one key of `head` different values that cannot be joined."""
    return any(
        joined(head, key, head.state.get(key), value, other.ops[key]) is None
        for key, value in one.ops.items()
        if key in other.ops and value != other.ops[key]
    )


def fused(head: EvolvingArtifact, members: Sequence[Diff]) -> Diff:
    """The union of `members`, which are edits of `head`; where two clash the later one wins."""
    union, ops = fuse_diffs(members), united(head, members)
    return replace(union, ops=union.ops if ops is None else ops, parts=tuple(members))


def moved(diff: Diff, base: Mapping[str, Any], head: EvolvingArtifact) -> Diff:
    """`diff`, an edit of `base`, as an edit of `head` that keeps what changed in between.

    Where both changed a key and cannot be joined, it keeps as much as the strategy can tell apart.
    Where that is nothing, or `base` does not say what it held, the value of `diff` stays.
    """
    ops = dict(diff.ops)
    for key in ops.keys() & base.keys():
        if base[key] != head.state.get(key):
            value = _rebased(head, key, base[key], ops[key])
            ops[key] = ops[key] if value is None else value
    return diff if ops == diff.ops else replace(diff, ops=ops, parts=(diff,))


def overruns(diff: Diff, base: Mapping[str, Any], head: EvolvingArtifact) -> bool:
    """True if `diff`, an edit of `base`, would undo what `head` has changed of its keys since.

    Never where values cannot be rebased: there any change of a key undoes the one before.
    """
    if getattr(head.strategy, "rebase_value", None) is None:
        return False
    for key, value in diff.ops.items():
        before, now = base.get(key), head.state.get(key)
        if now not in (before, value) and joined(head, key, before, now, value) is None:
            return True
    return False


def caught_up(
    card: EvidenceCard, head: EvolvingArtifact, version: Mapping[str, int]
) -> EvidenceCard:
    """`card` based on `head`, which is at `version`, with its edit moved there."""
    rebased = card.rebased_onto(version)
    if rebased is card:
        return card
    values = {key: head.state.get(key) for key in card.base_values}
    diff = moved(card.diff, card.base_values, head)
    return replace(rebased, diff=diff, base_values=values)


def _rebased(head: EvolvingArtifact, key: str, base: Any, value: Any) -> str | None:
    now = head.state.get(key)
    whole = joined(head, key, base, now, value)
    rebase = getattr(head.strategy, "rebase_value", None)
    if whole is not None or rebase is None or None in (base, now, value):
        return whole
    return _text(key, rebase(key, base, now, value), "rebase_value")


def _one_by_one(join: Callable[..., Any], key: str, base: Any, values: Sequence[Any]) -> str | None:
    merged: Any = values[0]
    for value in values[1:]:
        merged = _text(key, join(key, base, merged, value))
        if merged is None:
            break
    return merged


def _text(key: str, value: Any, method: str = "merge_values") -> str | None:
    if value is None or isinstance(value, str):
        return value
    raise PluginError(
        f"strategy.{method} must return text or None, got {type(value).__name__} "
        f"{value!r:.80} for key {key!r}; mend the strategy, a retry would not help"
    )
