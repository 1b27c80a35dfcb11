"""Evidence cards: a diff and what speaks for it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from agentdescent.core.diff import Diff

TIE = 1e-9
"""Rewards closer than this are equal."""


@dataclass(frozen=True, slots=True)
class EvidenceCard:
    """A proposed diff with its base and its local before/after reward.

    Attributes:
        diff: The edit.
        base_version: Artifact id to the version the edit was made against.
        touched: The artifact ids it changes.
        before_after_delta: Reward with the edit minus reward without, on its own task; 0.0 when
            it was not measured.
        trajectory_refs: The tasks it rests on, as Task objects.
        order: (worker, serial) of the rollout; a merge judges its cards in this order.
        verified: `before_after_delta` was measured.
        refusals: How often a merge has left it out so far.
        base_values: What its keys held in the version it was made against, None for nothing; empty
            if that is not known.
        cost_tokens: Tokens spent on it, as far as known.
        cost_wallclock: Seconds spent on it.
    """

    diff: Diff
    base_version: Mapping[str, int]
    touched: Sequence[str] = ()
    before_after_delta: float = 0.0
    trajectory_refs: Sequence[Any] = ()
    order: tuple[int, int] = (0, 0)
    verified: bool = False
    refusals: int = 0
    base_values: Mapping[str, Any] = field(default_factory=dict[str, Any], compare=False)
    cost_tokens: int = field(default=0, compare=False)
    cost_wallclock: float = field(default=0.0, compare=False)

    @property
    def is_candidate(self) -> bool:
        """False when the edit was tried on its own task and did not help there."""
        return not self.verified or self.before_after_delta > TIE

    def rebased_onto(self, head: Mapping[str, int]) -> "EvidenceCard":
        """The same card, based on the versions of `head`."""
        fresh = {key: head[key] for key in self.touched if key in head}
        if fresh.items() <= self.base_version.items():
            return self
        return replace(self, base_version={**self.base_version, **fresh})

    def refused(self) -> "EvidenceCard":
        """The same card, left out once more."""
        return replace(self, refusals=self.refusals + 1)
