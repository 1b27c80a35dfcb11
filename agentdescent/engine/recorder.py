"""The recorder: folds merges and rollouts into the history that a result carries."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from inspect import isawaitable
from typing import Any

from agentdescent.core.events import MergeDecided, RoundEnded
from agentdescent.core.outcomes import MergeOutcome, MergeReport
from agentdescent.core.spend import Unit
from agentdescent.engine.journal import Journal, Window
from agentdescent.engine.shared import Shared
from agentdescent.errors import describe
from agentdescent.result import RoundInfo
from agentdescent.threads import awaited, called, now

OnRound = Callable[[RoundInfo], Any]


class Recorder:
    """Keeps the history of a run.

    Attributes:
        artifact_id: The artifact of this run.
        history: One entry a round or sweep.
        stale_considered: Cards that came before the staleness filter.
        stale_discarded: Cards it dropped.
        cas_conflicts: Merges that lost a commit race.
    """

    def __init__(
        self,
        shared: Shared,
        journal: Journal,
        on_round: OnRound | None,
        artifact_id: str,
        history: list[RoundInfo],
    ) -> None:
        self.artifact_id = artifact_id
        self._shared = shared
        self._journal = journal
        self._on_round = on_round
        self._began = now()
        self._unrecorded: list[MergeReport] = []
        self.history: list[RoundInfo] = history
        self.stale_considered: int = 0
        self.stale_discarded: int = 0
        self.cas_conflicts: int = 0

    def elapsed(self) -> float:
        """Seconds since the run began."""
        return now() - self._began

    def note(self, reports: Iterable[MergeReport]) -> None:
        """Learn of merges; they belong to the round that ends next."""
        for report in reports:
            self._unrecorded.append(report)
            self.stale_considered += report.survived_staleness + report.discarded_stale
            self.stale_discarded += report.discarded_stale
            self.cas_conflicts += report.category == MergeOutcome.CAS_CONFLICT
            if self._shared.emit is not None:
                self._shared.emit(MergeDecided(now(), len(self.history), report))

    async def end_round(self, reward: float) -> RoundInfo:
        """Append the entry of the round that ends now and tell `on_round`."""
        info = self._gather(len(self.history), reward)
        self.history.append(info)
        if self._shared.emit is not None:
            self._shared.emit(RoundEnded(now(), info))
        await self._call_back(info)
        return info

    def fold(self, reward: float) -> None:
        """Add what came after the last round ended to its entry, if there is one."""
        if self.history and self._unrecorded:
            last = self.history[-1]
            self.history[-1] = _sum(last, self._gather(last.round, reward))

    def dump(self) -> dict[str, Any]:
        """The counters, as JSON values; the history is saved apart, entry by entry."""
        return {
            "elapsed": self.elapsed(),
            "stale_considered": self.stale_considered,
            "stale_discarded": self.stale_discarded,
            "cas_conflicts": self.cas_conflicts,
        }

    def restore(self, saved: Mapping[str, Any]) -> None:
        """Go on from what `dump` gave."""
        self._began -= saved["elapsed"]
        self.stale_considered = saved["stale_considered"]
        self.stale_discarded = saved["stale_discarded"]
        self.cas_conflicts = saved["cas_conflicts"]

    def late_outcomes(self) -> dict[str, int]:
        """The tally of what no entry of the history carries."""
        reports, self._unrecorded = self._unrecorded, []
        return _tally(self._journal.take_window(), reports)

    def _gather(self, index: int, reward: float) -> RoundInfo:
        reports, self._unrecorded = self._unrecorded, []
        window = self._journal.take_window()
        committed = sum(report.committed_version is not None for report in reports)
        return RoundInfo(
            round=index,
            held_out_reward=reward,
            n_items=len(self._shared.head.snapshot.state),
            committed=committed,
            rejected=len(reports) - committed,
            reasons=_tally(window, reports),
            elapsed_s=self.elapsed(),
            rollouts=self._journal.rollouts,
            calls=self._shared.spend.count(Unit.CALL),
            considered=sum(report.considered for report in reports) + window.screened,
            discarded_stale=sum(report.discarded_stale for report in reports),
            conflicts_dropped=sum(report.conflicts_dropped for report in reports),
            fused=sum(r.fused and r.committed_version is not None for r in reports),
            screened=window.screened,
            blamed=sum(report.blamed for report in reports),
        )

    async def _call_back(self, info: RoundInfo) -> None:
        if self._on_round is None:
            return
        try:
            answer = called(self._on_round, info)
            if isawaitable(answer):
                await awaited(answer)
        except Exception as error:  # noqa: BLE001 - a progress callback never ends a run
            self._shared.alerts.warn(
                f"on_round raised {describe(error)} in round {info.round}; the run goes on"
            )


def _tally(window: Window, reports: Sequence[MergeReport]) -> dict[str, int]:
    reasons = window.reasons.copy()
    for report in reports:
        reasons[report.category or "unknown"] += 1
    return dict(sorted(reasons.items()))


def _sum(last: RoundInfo, late: RoundInfo) -> RoundInfo:
    return replace(
        late,
        committed=last.committed + late.committed,
        rejected=last.rejected + late.rejected,
        reasons=dict(sorted((Counter(last.reasons) + Counter(late.reasons)).items())),
        considered=last.considered + late.considered,
        discarded_stale=last.discarded_stale + late.discarded_stale,
        conflicts_dropped=last.conflicts_dropped + late.conflicts_dropped,
        fused=last.fused + late.fused,
        screened=last.screened + late.screened,
        blamed=last.blamed + late.blamed,
    )
