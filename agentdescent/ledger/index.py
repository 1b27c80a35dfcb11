"""`ledger.json`: what a commit says of its artifacts beside their states."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from functools import lru_cache
from typing import Any

from agentdescent.core.artifact import Contract
from agentdescent.core.store import Stored
from agentdescent.errors import CASConflict, ContractRejected, LedgerRefused
from agentdescent.ledger.codec import canonical_json

DEV, STABLE = "dev", "stable"
FILE = "ledger.json"
FORMAT = 1


@dataclass(frozen=True, slots=True)
class Entry:
    """One artifact without its state."""

    version: int
    blast_radius: float
    contract: Contract

    @classmethod
    def of(cls, stored: Stored, version: int) -> "Entry":
        """What to write down of `stored` at `version`."""
        return cls(version, stored.blast_radius, stored.contract)

    def agrees_with(self, other: "Entry | None") -> bool:
        """True when both differ in their versions at most."""
        return other is not None and replace(other, version=self.version) == self

    def after(self, other: "Entry | None") -> "Entry":
        """The same as the version that follows `other`."""
        return replace(self, version=other.version + 1 if other else 1)

    def stored(self, artifact_id: str, state: Mapping[str, Any]) -> Stored:
        """The artifact, complete with its state."""
        return Stored(artifact_id, state, self.version, self.blast_radius, self.contract)


Index = Mapping[str, Entry]
"""Artifact id to entry."""


def dump(index: Index) -> str:
    """The text of `ledger.json`."""
    artifacts = {
        name: {
            "version": entry.version,
            "blast_radius": entry.blast_radius,
            "contract": _contract_fields(entry.contract),
        }
        for name, entry in index.items()
    }
    return canonical_json({"format": FORMAT, "artifacts": artifacts})


def load(text: str, repo_path: str | None = None) -> Index:
    """The index in the text of a `ledger.json`.

    Raises:
        LedgerRefused: If it is of a newer format.
        ValueError, LookupError, TypeError: If it is not an index at all.
    """
    raw = json.loads(text)
    check_format(raw["format"], repo_path)
    return {key: _entry(fields) for key, fields in raw["artifacts"].items()}


def check_format(number: int, repo_path: str | None = None) -> None:
    """Refuse what a newer release has written.

    Raises:
        LedgerRefused: If `number` is above ours.
    """
    if number > FORMAT:
        raise LedgerRefused(
            f"it has ledger format {number} and this release reads up to {FORMAT}",
            operation="open",
            repo_path=repo_path,
            hint="upgrade agentdescent, or use another repo_path",
        )


def check_base(index: Index, entry: Stored, base: int, repo_path: str | None = None) -> None:
    """Check that a commit of `entry` on top of version `base` follows what is there.

    Raises:
        CASConflict: If the artifact is not at `base`, or not there at all.
        ContractRejected: If its contract is another than the registered one.
    """
    name, found = entry.artifact_id, index.get(entry.artifact_id)
    if found is None or found.version != base:
        reached = f"is at version {found.version}" if found else "is not registered"
        raise CASConflict(
            f"artifact {name!r} {reached}, but the commit builds on version {base}",
            operation="commit",
            repo_path=repo_path,
            hint="read the ledger again and apply the change to what is there",
        )
    if not found.contract.is_compatible_with(entry.contract):
        raise ContractRejected(
            f"artifact {name!r} is registered with contract major {found.contract.major}, but the "
            f"commit has major {entry.contract.major}; register it under another id"
        )


@lru_cache
def _contract_fields(contract: Contract) -> dict[str, Any]:
    return asdict(contract)


def _entry(fields: Mapping[str, Any]) -> Entry:
    contract = dict(fields["contract"])
    contract["side_effects"] = tuple(contract["side_effects"])
    return Entry(fields["version"], fields["blast_radius"], Contract(**contract))
