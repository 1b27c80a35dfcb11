"""Promotion: from `dev` to `stable`, once a version has stood the test of time."""

from collections.abc import Iterable, Mapping
from typing import Any

from agentdescent.core.merging import ArtifactLedger, LedgerSnapshot
from agentdescent.core.outcomes import MergeOutcome, MergeReport
from agentdescent.errors import LedgerBusy


class Promotion:
    """Counts the steps that each artifact has gone without a change or a veto."""

    def __init__(self, ledger: ArtifactLedger, after: int) -> None:
        self._ledger = ledger
        self._after = after
        self._survived: dict[str, int] = {}
        self._promoted: dict[str, int] = {}

    async def observe(self, reports: Iterable[MergeReport]) -> None:
        """Learn the reports of one step, and promote what has survived long enough.

        A ledger that is busy is asked again after the next step.

        Raises:
            LedgerError: If it fails otherwise.
        """
        unsettled: set[str] = set()
        for report in reports:
            self._survived.setdefault(report.artifact_id, 0)
            vetoed = report.category == MergeOutcome.ORACLE_REJECTED
            if vetoed or report.committed_version is not None:
                unsettled.add(report.artifact_id)
        for artifact_id in self._survived:
            survived = 0 if artifact_id in unsettled else self._survived[artifact_id] + 1
            self._survived[artifact_id] = survived
            if survived >= self._after:
                await self._promote_unless_busy(artifact_id)

    def dump(self) -> dict[str, Any]:
        """What it has counted, as JSON values."""
        return {"survived": dict(self._survived), "promoted": dict(self._promoted)}

    def restore(self, saved: Mapping[str, Any]) -> None:
        """Go on from what `dump` gave."""
        self._survived = dict(saved["survived"])
        self._promoted = dict(saved["promoted"])

    async def finish(self) -> None:
        """Promote every artifact that a report has named.

        Raises:
            LedgerError: If the ledger fails or stays busy.
        """
        for artifact_id in self._survived:
            await self._promote(artifact_id)

    async def _promote_unless_busy(self, artifact_id: str) -> None:
        try:
            await self._promote(artifact_id)
        except LedgerBusy:
            return
        self._survived[artifact_id] = 0

    async def _promote(self, artifact_id: str) -> None:
        snapshot: LedgerSnapshot = await self._ledger.snapshot()
        version = snapshot.version.get(artifact_id)
        if version is not None and version != self._promoted.get(artifact_id):
            await self._ledger.promote_to_stable(artifact_id)
            self._promoted[artifact_id] = version
