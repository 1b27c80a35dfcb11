"""Governance: how much care an artifact is owed, by how much a bad change could break."""

from collections.abc import Mapping
from enum import IntEnum
from typing import Any

from agentdescent.errors import GovernanceError

FAST_MAX = 0.30
"""The largest blast radius whose merges need no audit."""

FROZEN_IDS = frozenset({"oracle", "audit_budget", "merge_permissions", "safety_constraints"})
"""Artifact ids that no run may evolve."""

_TRUST_START, _TRUST_MIN, _TRUST_MAX = 1.0, 0.25, 4.0
_TRUST_GAIN, _TRUST_LOSS = 0.25, 0.5
_TRUST_AUDITED_BELOW = 0.75


class Layer(IntEnum):
    """The care an artifact is owed; a smaller number means more."""

    L0_FROZEN = 0
    """Never changed: what judges the run, or what keeps it safe."""

    L1_SLOW = 1
    """Every merge is audited, and evidence may lag `alpha_head` commits."""

    L2_FAST = 2
    """Merges pass on the ranking alone, and evidence may lag `alpha_tail` commits."""


def classify_layer(artifact_id: str, blast_radius: float) -> Layer:
    """The layer of an artifact: frozen by its id, else by its blast radius."""
    if artifact_id in FROZEN_IDS:
        return Layer.L0_FROZEN
    return Layer.L2_FAST if blast_radius <= FAST_MAX else Layer.L1_SLOW


def assert_mutable(artifact_id: str) -> None:
    """Refuse to evolve a frozen artifact.

    Raises:
        GovernanceError: If the name is reserved.
    """
    if artifact_id in FROZEN_IDS:
        raise GovernanceError(
            f"artifact_id={artifact_id!r} is a reserved name: {sorted(FROZEN_IDS)} are frozen and "
            f"never evolve; rename the artifact, for example to {'my_' + artifact_id!r}"
        )


def tolerance(
    blast_radius: float, *, contract_breaking: bool, alpha_head: int, alpha_tail: int
) -> int:
    """How many commits a diff may lag behind: none when it breaks the contract."""
    if contract_breaking:
        return 0
    return alpha_tail if blast_radius <= FAST_MAX else alpha_head


class AuditScheduler:
    """Decides which merges are checked against the ground truth, and counts them.

    Each artifact starts with trust 1.0 in its cheap ranking. An agreement with the ground truth
    adds 0.25, up to 4; a disagreement halves it, down to 0.25. So one disagreement opens the
    audit, and one agreement closes it again.

    Attributes:
        audits: How often an audit was demanded.
    """

    def __init__(self) -> None:
        self.audits: int = 0
        self._trust: dict[str, float] = {}

    def trust(self, artifact_id: str) -> float:
        """Trust in the artifact's cheap ranking, in [0.25, 4]."""
        return self._trust.get(artifact_id, _TRUST_START)

    def dump(self) -> dict[str, Any]:
        """What it has learned, as JSON values."""
        return {"audits": self.audits, "trust": dict(self._trust)}

    def restore(self, saved: Mapping[str, Any]) -> None:
        """Go on from what `dump` gave."""
        self.audits = saved["audits"]
        self._trust = dict(saved["trust"])

    def force_oracle(self, blast_radius: float, artifact_id: str) -> bool:
        """True above a blast radius of 0.30 and below a trust of 0.75."""
        forced = blast_radius > FAST_MAX or self.trust(artifact_id) < _TRUST_AUDITED_BELOW
        self.audits += forced
        return forced

    def update_trust(self, artifact_id: str, agreed: bool) -> None:  # noqa: FBT001 - as the protocol has it
        """Learn whether the cheap ranking agreed with the ground truth."""
        trust = self.trust(artifact_id)
        self._trust[artifact_id] = (
            min(_TRUST_MAX, trust + _TRUST_GAIN) if agreed else max(_TRUST_MIN, trust * _TRUST_LOSS)
        )
