"""The accounts: what the books of a run say in the end."""

from collections.abc import Callable, Mapping
from typing import Any

from agentdescent.core.outcomes import StopReason
from agentdescent.core.protocols import EvaluationFigures
from agentdescent.core.spend import Unit
from agentdescent.core.store import LedgerStore
from agentdescent.engine.held_out import HeldOut
from agentdescent.engine.journal import Journal
from agentdescent.engine.messages import Snapshot
from agentdescent.engine.recorder import Recorder
from agentdescent.engine.shared import Shared
from agentdescent.errors import describe
from agentdescent.result import EvolutionResult, ResumedFrom
from agentdescent.threads import DaemonThreads
from agentdescent.usage import Usage

LOG_LINES = 40
MANY_CARDS = 20
GRACE_S = 0.1
"""A synchronous call that ends so soon after the run is not worth a warning."""


class Accounts:
    """Draws up the result of a run, whole or partial.

    Attributes:
        artifact_id: The artifact.
        initial_reward: Held-out reward of the artifact the run began with, or None.
        resumed_from: What the run has gone on from, or None.
        alone: Why it has gone on from nothing but the artifact, as far as others are the reason.
    """

    def __init__(
        self,
        shared: Shared,
        held_out: HeldOut,
        journal: Journal,
        recorder: Recorder,
        *,
        usage: Usage,
        abandoned: Callable[[], int],
        threads: DaemonThreads,
        figures: Callable[[], EvaluationFigures],
    ) -> None:
        self.artifact_id: str = recorder.artifact_id
        self.initial_reward: float | None = None
        self.resumed_from: ResumedFrom | None = None
        self.alone: str = ""
        self._began_with: Snapshot = shared.head.snapshot
        self._shared = shared
        self._held_out = held_out
        self._journal = journal
        self._recorder = recorder
        self._usage = usage
        self._abandoned = abandoned
        self._threads = threads
        self._figures = figures

    async def result(self, store: LedgerStore) -> EvolutionResult:
        """The result of a run that came to its end, with the ledger's log if it can be read."""
        await self._threads.settle(GRACE_S)
        if running := self._threads.running:
            self._shared.alerts.warn(
                f"{running} synchronous call(s) are still running in threads, which cannot be "
                "stopped; make run, reward and propose coroutine functions to have them cancelled"
            )
        log = await self._log(store)
        self._refuse_to_look_clean()
        self._warn_about_budgets()
        result = self._draw_up(self._shared.stop.reason or StopReason.ERROR)
        result.ledger_log = log
        self._warn_about(result)
        return result

    def interrupted(self) -> EvolutionResult:
        """The result of a run that was cancelled from outside."""
        return self._draw_up(StopReason.INTERRUPTED)

    def broken_off(self, error: Exception) -> EvolutionResult:
        """The result of a run in which the caller's code broke a contract."""
        result = self._draw_up(StopReason.ERROR)
        result.error = describe(error)
        return result

    def dump(self) -> dict[str, Any]:
        """What the run began with, as JSON values."""
        return {"initial_reward": self.initial_reward}

    def restore(self, saved: Mapping[str, Any]) -> None:
        """Go on from what `dump` gave."""
        self.initial_reward = saved["initial_reward"]

    @property
    def has_committed(self) -> bool:
        """True if the head is no longer what the run began with."""
        return self._shared.head.snapshot.version != self._began_with.version

    def _warn_about_budgets(self) -> None:
        """A budget of what no completion of ours has asked for has limited nothing.

        A run that failed is told of that failure alone: it may have kept all requests from being
        made.
        """
        spend = self._shared.spend
        if not spend.count(Unit.CALL) or spend.count(Unit.ATTEMPT) or self._shared.stop.error:
            return
        units = {Unit.ATTEMPT: "max_attempts", Unit.TOKEN: "max_tokens", Unit.USD: "max_cost"}
        if names := [name for unit, name in units.items() if spend.is_limited(unit)]:
            self._shared.alerts.warn(
                f"{' and '.join(names)} limited nothing: run and propose called none of this "
                "package's completions, and other calls of models are not seen; use max_calls"
            )

    def _refuse_to_look_clean(self) -> None:
        """A run that could never score its held-out tasks has failed, however it ended."""
        failure, stop = self._held_out.failure, self._shared.stop
        if failure is not None and self._held_out.reward is None and stop.error is None:
            stop.fail(failure)

    def _warn_about(self, result: EvolutionResult) -> None:
        warn, stale = self._shared.alerts.warn, result.stale_discarded
        many = result.stale_considered >= MANY_CARDS
        if self._shared.sweeps and many and result.stale_rate() > 0.5:
            warn(
                f"{stale} of {result.stale_considered} evidence cards were discarded as stale; "
                "lower async_ratio, raise alpha_tail or use asynchronous=False"
            )
        if result.error is not None:
            where = f"; it began {self._shared.health.where}" if self._shared.health.where else ""
            warn(
                f"the run stopped early after {len(result.history)} round(s): {result.error}{where}"
            )
        elif self._held_out.recall() is None:
            warn("the final version could not be measured; final_reward is the last one known")

    async def _log(self, store: LedgerStore) -> list[str]:
        try:
            return await store.log(limit=LOG_LINES)
        except Exception:  # noqa: BLE001 - a log is no reason to lose a result
            return []

    def _draw_up(self, reason: StopReason) -> EvolutionResult:
        head = self._shared.head.snapshot
        final = self._held_out.recall()
        if final is not None:
            self._recorder.fold(final)
        history = self._recorder.history
        if final is None:
            final = history[-1].held_out_reward if history else self._held_out.reward or 0.0
        error = self._shared.stop.error or self._shared.health.first_error
        figures = self._figures()
        return EvolutionResult(
            state=head.state,
            rendered=head.rendered,
            final_reward=final,
            history=history,
            error=describe(error) if reason is StopReason.ERROR and error is not None else None,
            stop_reason=reason,
            initial_reward=self.initial_reward,
            resumed_from=self.resumed_from,
            version=head.version,
            late_outcomes=self._recorder.late_outcomes(),
            warnings=self._shared.alerts.messages,
            abandoned=self._abandoned(),
            failed_rollouts=self._journal.failed,
            actor_calls=self._shared.spend.count(Unit.CALL),
            rollouts=self._journal.rollouts,
            wallclock=self._recorder.elapsed(),
            rollout_seconds=self._journal.rollout_seconds,
            stragglers=self._journal.stragglers,
            eval_seconds=figures.seconds,
            stale_considered=self._recorder.stale_considered,
            stale_discarded=self._recorder.stale_discarded,
            retired_workers=self._shared.health.retired,
            cas_conflicts=self._recorder.cas_conflicts,
            cache_hits=figures.hits,
            cache_misses=figures.misses,
            parts=figures.parts,
            usage=self._usage,
        )
