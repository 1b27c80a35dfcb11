"""Diffs: proposed edits, and the algebra that merging rests on."""

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

State = Mapping[str, Any]
"""An artifact's content: a flat mapping from keys to text (or any other JSON value)."""


def stable_hash(key: object) -> int:
    """A hash that is the same in every process: 8 bytes of BLAKE2b over `repr(key)`."""
    digest = hashlib.blake2b(repr(key).encode("utf-8", "surrogatepass"), digest_size=8).digest()
    return int.from_bytes(digest, "big")


@dataclass(frozen=True, slots=True)
class Diff:
    """One proposed edit: the keys it sets on one artifact.

    Attributes:
        diff_id: A name for logs and commits; need not be unique.
        target: The artifact's id.
        ops: Key to new value; None deletes the key.
        contract_breaking: The edit changes what the artifact promises; it is never rebased.
        author: Who proposed it, e.g. "w2".
        parts: The edits it was made of, if it is a union, or was moved to a newer version.
        notes: What was left out of the proposal, and why; one line each.
    """

    diff_id: str
    target: str
    ops: Mapping[str, Any] = field(default_factory=dict[str, Any])
    contract_breaking: bool = False
    author: str = "unknown"
    parts: tuple["Diff", ...] = field(default=(), compare=False, repr=False)
    notes: tuple[str, ...] = field(default=(), compare=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "ops", MappingProxyType(dict(self.ops)))

    def size(self) -> int:
        """The number of keys set or deleted."""
        return len(self.ops)

    def edits(self) -> Iterator["Diff"]:
        """This edit and, at any depth, those it was made of."""
        yield self
        for part in self.parts:
            yield from part.edits()

    def contradicts(self, other: "Diff") -> bool:
        """True when both give one key different values."""
        shared = self.ops.keys() & other.ops.keys()
        return any(self.ops[key] != other.ops[key] for key in shared)


@dataclass(frozen=True, slots=True)
class Dropped:
    """What a strategy returns for a proposal that it read but will not make a diff of.

    Attributes:
        category: "unparsable", "no-op" or "constraint"; counted under it in `outcomes()`.
        reason: One line for the log.
    """

    category: str
    reason: str = ""


def apply_ops(state: State, ops: Mapping[str, Any]) -> dict[str, Any]:
    """`state` with `ops` applied, its keys sorted so that equal states render alike."""
    merged = {**state, **ops}
    return {key: merged[key] for key in sorted(merged) if merged[key] is not None}


def diffs_conflict(a: Diff, b: Diff) -> bool:
    """True when both touch a key, whatever they make of it."""
    return not a.ops.keys().isdisjoint(b.ops.keys())


def diffs_contradict(a: Diff, b: Diff) -> bool:
    """True when both give one key different values."""
    return a.contradicts(b)


def fuse_diffs(diffs: Sequence[Diff]) -> Diff:
    """The union of `diffs`; on a shared key the later one wins.

    Raises:
        ValueError: If there are none.
    """
    if not diffs:
        raise ValueError("nothing to fuse: diffs is empty")
    ops: dict[str, Any] = {}
    for diff in diffs:
        ops.update(diff.ops)
    return Diff(
        diff_id=f"fused({'+'.join(sorted(diff.diff_id for diff in diffs))})",
        target=diffs[0].target,
        ops=ops,
        contract_breaking=any(diff.contract_breaking for diff in diffs),
        author="aggregator",
    )


VersionVector = Mapping[str, int]
"""Artifact id to version."""


def vv_staleness(head: VersionVector, base: VersionVector) -> int:
    """How many versions `base` lies behind `head`, at most over its artifacts; never negative."""
    lags = (head.get(key, 0) - version for key, version in base.items())
    return max(0, max(lags, default=0))


def vv_dominates(a: VersionVector, b: VersionVector) -> bool:
    """True when `a` is at least as new as `b` for every artifact of `b`."""
    return all(a.get(key, 0) >= version for key, version in b.items())


def touched_keys(diffs: Iterable[Diff]) -> frozenset[str]:
    """Every key that one of `diffs` sets or deletes."""
    return frozenset(key for diff in diffs for key in diff.ops)
