"""The words in which a run reports what happened."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from agentdescent.core.diff import Diff


class _Word(StrEnum):
    """A string enum whose `repr` is the plain value, so that a printed dict reads well."""

    def __repr__(self) -> str:
        return repr(self.value)


class MergeOutcome(_Word):
    """What became of one merge."""

    COMMITTED = "committed"
    BELOW_THRESHOLD = "below-threshold"
    ALL_STALE = "all-stale"
    OVERSIZED = "oversized"
    ORACLE_REJECTED = "oracle-rejected"
    CAS_CONFLICT = "cas-conflict"
    UNKNOWN_ARTIFACT = "unknown-artifact"
    SECTION_VIOLATION = "section-violation"


class ProposalOutcome(_Word):
    """Why a proposal never became a candidate; counted beside the merge outcomes."""

    NO_PROPOSAL = "no-proposal"
    UNPARSABLE = "unparsable"
    NO_OP = "no-op"
    CONSTRAINT = "constraint"
    NO_GAIN = "no-gain"


class StopReason(_Word):
    """Why a run ended."""

    ROUNDS = "rounds"
    TARGET_REWARD = "target_reward"
    PATIENCE = "patience"
    NOTHING_TO_LEARN = "nothing_to_learn"
    MAX_SECONDS = "max_seconds"
    MAX_ITERS = "max_iters"
    MAX_ROLLOUTS = "max_rollouts"
    MAX_CALLS = "max_calls"
    MAX_ATTEMPTS = "max_attempts"
    MAX_TOKENS = "max_tokens"
    MAX_COST = "max_cost"
    INTERRUPTED = "interrupted"
    ERROR = "error"


SPENT = frozenset(
    {
        StopReason.MAX_SECONDS,
        StopReason.MAX_CALLS,
        StopReason.MAX_ATTEMPTS,
        StopReason.MAX_TOKENS,
        StopReason.MAX_COST,
    }
)
"""Endings after which nothing more may be evaluated."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """An edit that a merge turned down for good.

    Attributes:
        diff: The edit, as it was ingested.
        gain: Mean held-out reward with it minus that without, over the tasks that were scored, or
            None if that was not measured. In company, it is the gain of all of them together.
        reason: One line for people and reflectors; it names no held-out task.
        category: Why: a `MergeOutcome` value.
    """

    diff: Diff
    gain: float | None = None
    reason: str = ""
    category: str = MergeOutcome.BELOW_THRESHOLD


@dataclass(frozen=True, slots=True)
class MergeReport:
    """What one merge of one artifact came to.

    Attributes:
        artifact_id: The artifact.
        accepted: The committed diff, or None.
        fused: It has more than one member.
        considered: Cards looked at.
        survived_staleness: Cards left after the staleness filter.
        discarded_stale: Cards it dropped.
        conflicts_dropped: Cards that lost a contradiction.
        prob_improve: The gate's probability (or its upper bound, when it stopped early).
        committed_version: The new version, or None.
        reason: One line for people; it interpolates numbers.
        category: The stable word to count by: a `MergeOutcome` value.
        blamed: Members of the union that were held responsible for a lost task.
        refused: The edits that were turned down for good; reflectors are told.
    """

    artifact_id: str
    accepted: Diff | None = None
    fused: bool = False
    considered: int = 0
    survived_staleness: int = 0
    discarded_stale: int = 0
    conflicts_dropped: int = 0
    prob_improve: float = 0.0
    committed_version: int | None = None
    reason: str = ""
    category: str = ""
    blamed: int = 0
    refused: Sequence[Refusal] = ()
