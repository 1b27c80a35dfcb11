"""Promotion: from `dev` to `stable`, once a version has stood the test of time."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, cast

from agentdescent.core.merging import ArtifactLedger, LedgerSnapshot
from agentdescent.core.outcomes import MergeOutcome, MergeReport
from agentdescent.errors import LedgerBusy, PluginError
from agentdescent.merge.replaced import answer
from agentdescent.policy.bundle import PromotionPolicy


class Promotion:
    """Counts the steps that each artifact has gone without a change or a veto, or asks a policy."""

    def __init__(
        self, ledger: ArtifactLedger, after: int, policy: PromotionPolicy | None = None
    ) -> None:
        self._ledger = ledger
        self._after = after
        self._policy = policy
        self._owed: list[str] = []
        self._survived: dict[str, int] = {}
        self._promoted: dict[str, int] = {}

    async def observe(self, reports: Iterable[MergeReport]) -> None:
        """Learn the reports of one step, and promote what has survived long enough.

        A ledger that is busy is asked again after the next step.

        Raises:
            LedgerError: If it fails otherwise.
            PluginError: If the policy names anything but artifacts.
        """
        listed = list(reports)
        if self._policy is None:
            due = self._count(listed)
        else:
            due = [*self._owed, *_ids(await answer(self._policy.after_step, listed), "after_step")]
        self._owed = [
            artifact_id
            for artifact_id in dict.fromkeys(due)
            if not await self._promote_unless_busy(artifact_id)
        ]

    def _count(self, reports: Sequence[MergeReport]) -> list[str]:
        """The artifacts that have survived long enough, these reports included."""
        unsettled: set[str] = set()
        for report in reports:
            self._survived.setdefault(report.artifact_id, 0)
            vetoed = report.category == MergeOutcome.ORACLE_REJECTED
            if vetoed or report.committed_version is not None:
                unsettled.add(report.artifact_id)
        for artifact_id in self._survived:
            survived = 0 if artifact_id in unsettled else self._survived[artifact_id] + 1
            self._survived[artifact_id] = survived
        return [name for name, survived in self._survived.items() if survived >= self._after]

    def dump(self) -> dict[str, Any]:
        """What it has counted, as JSON values."""
        return {"survived": dict(self._survived), "promoted": dict(self._promoted)}

    def restore(self, saved: Mapping[str, Any]) -> None:
        """Go on from what `dump` gave."""
        self._survived = dict(saved["survived"])
        self._promoted = dict(saved["promoted"])

    async def finish(self) -> None:
        """Promote every artifact that a report has named, or those that the policy names.

        Raises:
            LedgerError: If the ledger fails or stays busy.
            PluginError: If the policy names anything but artifacts.
        """
        due: Iterable[str] = self._survived
        if self._policy is not None:
            due = _ids(await answer(self._policy.at_end), "at_end")
        for artifact_id in due:
            await self._promote(artifact_id)

    async def _promote_unless_busy(self, artifact_id: str) -> bool:
        try:
            await self._promote(artifact_id)
        except LedgerBusy:
            return False
        self._survived[artifact_id] = 0
        return True

    async def _promote(self, artifact_id: str) -> None:
        snapshot: LedgerSnapshot = await self._ledger.snapshot()
        version = snapshot.version.get(artifact_id)
        if version is not None and version != self._promoted.get(artifact_id):
            await self._ledger.promote_to_stable(artifact_id)
            self._promoted[artifact_id] = version


def _ids(said: Any, method: str) -> list[str]:
    listed = list(cast("Iterable[Any]", said)) if isinstance(said, Iterable) else [said]
    if not isinstance(said, str) and all(isinstance(name, str) for name in listed):
        return listed
    raise PluginError(
        f"promotion.{method} must return the ids of the artifacts to promote, got {listed!r:.80}; "
        "return a list of text, or [] for none"
    )
