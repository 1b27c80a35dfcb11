"""The merger task: gather, ingest, step, measure, record."""

from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import anyio
from anyio.streams.memory import MemoryObjectReceiveStream

from agentdescent.core.evidence import EvidenceCard
from agentdescent.core.outcomes import SPENT, MergeOutcome, MergeReport
from agentdescent.core.search import dump_card
from agentdescent.core.spend import Exhausted
from agentdescent.engine.health import doubled
from agentdescent.engine.held_out import HeldOut
from agentdescent.engine.journal import Journal
from agentdescent.engine.merging import Merging
from agentdescent.engine.messages import Report
from agentdescent.engine.plugins import plugin_error
from agentdescent.engine.recorder import Recorder
from agentdescent.engine.schedule import Schedule
from agentdescent.engine.search import Search
from agentdescent.engine.shared import Shared
from agentdescent.errors import (
    CASConflict,
    ContractError,
    EvaluationFailed,
    LedgerBusy,
    LedgerError,
    describe,
    is_plugin_bug,
)

WARN_AFTER = 3
BUSY_LIMIT = 3
PAUSE_MAX_S = 30.0


class Merger:
    """Turns evidence into commits, and keeps the score.

    What a backend does to it costs time and nothing else: cards are kept until the aggregator has
    taken them, and the aggregator keeps its batches until it has judged them.
    """

    def __init__(
        self,
        shared: Shared,
        merging: Merging,
        held_out: HeldOut,
        journal: Journal,
        recorder: Recorder,
        search: Search | None = None,
    ) -> None:
        self._shared = shared
        self._merging = merging
        self._held_out = held_out
        self._journal = journal
        self._recorder = recorder
        self._search = search
        self._cards: deque[EvidenceCard] = deque()
        self._takes_again = False
        self._failures = 0
        self._busy = 0

    async def measure_seed(self) -> float | None:
        """Score the artifact the run begins with: the first observation of target and patience."""
        reward = await self._held_out.measure(untried=True)
        self._observe(reward)
        return reward

    async def run(self, schedule: Schedule, inbox: MemoryObjectReceiveStream[Report]) -> None:
        """Merge batch after batch until the schedule is spent."""
        if self._takes_again:
            await self._sweep(())
        while True:
            try:
                batch = await schedule.gather(inbox)
            except anyio.EndOfStream:
                return
            await self._sweep(batch)

    async def flush(self, inbox: MemoryObjectReceiveStream[Report]) -> None:
        """Merge what still waits; it counts to the last round and adds none."""
        if not await self._merging.is_idle():
            self._shared.alerts.warn(
                f"{self._merging.name} is still at work in a thread, which cannot be stopped; "
                "evidence that waits was not merged"
            )
            return
        for _ in range(inbox.statistics().current_buffer_used):
            self._take(inbox.receive_nowait())
        if await self._merge(self._merging.flush):
            await self._held_out.measure()

    async def finish(self) -> None:
        """Let the aggregator conclude a clean run."""
        if not await self._merging.is_idle():
            return
        try:
            await self._merging.finalize()
        except Exception as error:  # noqa: BLE001 - as for a merge
            self._survive(error)
            self._shared.alerts.warn(
                f"the last promotion failed with {describe(error)}; stable may lag behind dev"
            )

    async def _sweep(self, batch: Sequence[Report]) -> None:
        for report in batch:
            self._take(report)
        if self._shared.experience is not None:
            self._shared.experience.settle()
        if self._search is not None:
            self._search.begin_merge()
        merged = await self._merge(self._merging.step)
        if merged or not self._shared.sweeps:
            reward = await self._held_out.measure()
            if reward is not None:
                info = await self._recorder.end_round(reward)
                self._observe(reward)
                if self._search is not None:
                    await self._search.end_round(info)
        self._journal.stop_if_solved()
        if self._failures:
            await self._shared.stop.within(doubled(1.0, self._failures, PAUSE_MAX_S))

    def dump(self) -> list[dict[str, Any]]:
        """The cards that the aggregator has not taken yet."""
        return [dump_card(card) for card in self._cards]

    def take_back(self, cards: Sequence[EvidenceCard], *, again: bool) -> None:
        """Go on with cards that a run before this one has left; `again` merges before all else."""
        self._cards.extend(cards)
        self._journal.in_flight += len(cards)
        self._takes_again = again

    def _take(self, report: Report) -> None:
        if report.candidate is not None:
            self._cards.append(report.candidate)

    def _observe(self, reward: float | None) -> None:
        reason = None if reward is None else self._shared.early.observe(reward)
        if reason is not None:
            self._shared.stop.at_once(reason)

    async def _merge(self, step: Callable[[], Awaitable[Sequence[MergeReport]]]) -> bool:
        """Feed the aggregator and let it merge; False if that must be tried again later."""
        if self._shared.stop.reason in SPENT:
            return False
        commits = self._shared.head.commits
        reported, taken = len(commits), 0
        try:
            while self._cards:
                await self._merging.ingest(self._cards[0])
                self._cards.popleft()
                taken += 1
            reports = await step()
            self._recorder.note(reports)
            if self._shared.experience is not None:
                self._shared.experience.note_merges(reports)
            reported = len(commits)
        except Exhausted as spent:
            self._shared.stop.wind_down(spent.reason)
            return False
        except Exception as error:  # noqa: BLE001 - the one place where a merge's failures end
            self._survive(error)
            return False
        finally:
            self._journal.in_flight -= taken
            self._note_unreported(commits[reported:])
        self._failures = self._busy = 0
        return True

    def _note_unreported(self, commits: Sequence[int]) -> None:
        """Keep the books straight when a step ended after its commits and before its report."""
        self._recorder.note(
            MergeReport(
                artifact_id=self._recorder.artifact_id,
                committed_version=version,
                category=MergeOutcome.COMMITTED,
                reason="committed; the merge was cut short before it could report",
            )
            for version in commits
        )

    def _survive(self, error: Exception) -> None:
        """Raise what ends a run; count what does not."""
        match error:
            case ContractError():
                raise error
            case CASConflict() | EvaluationFailed():
                pass
            case LedgerBusy() if self._busy + 1 < BUSY_LIMIT:
                self._busy += 1
            case LedgerError():
                raise error
            case _ if is_plugin_bug(error):
                raise plugin_error("aggregator", self._merging.name, error) from error
            case _:
                pass
        self._failures += 1
        if self._failures == WARN_AFTER:
            self._shared.alerts.warn(
                f"merging failed {self._failures} times in a row, last with {describe(error)}; "
                "no evidence is lost and the run goes on"
            )
