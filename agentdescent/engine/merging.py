"""An aggregator, reference or custom, as the merger drives it."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from agentdescent.core.contracts import require_methods
from agentdescent.core.evidence import EvidenceCard
from agentdescent.core.outcomes import MergeReport
from agentdescent.core.task import Task
from agentdescent.engine.plugins import ask
from agentdescent.errors import AggregatorContractError
from agentdescent.threads import DaemonThreads, invoke, noting_abandoned_hooks

GRACE_S = 0.5


class Merging:
    """Awaits every method of an aggregator, `def` or `async def`, and checks what it returns.

    Attributes:
        name: The aggregator's class.
    """

    def __init__(self, aggregator: Any, tasks: Mapping[str, Task] | None = None) -> None:
        """Check the aggregator; `tasks` are all training tasks, by id."""
        require_methods("aggregator_factory must return an aggregator, which", aggregator, METHODS)
        self._aggregator = aggregator
        self._tasks = tasks or {}
        self._left_behind: list[DaemonThreads] = []
        self.name: str = type(aggregator).__qualname__

    async def is_idle(self) -> bool:
        """False while a method that was given up still runs in a thread; call no other then.

        It is given a moment to end, for what it asks of the run fails at once.
        """
        for threads in self._left_behind:
            await threads.settle(GRACE_S)
        return not any(threads.running for threads in self._left_behind)

    async def ingest(self, card: EvidenceCard) -> None:
        """File one card."""
        await self._call(self._aggregator.ingest, card)

    async def step(self) -> Sequence[MergeReport]:
        """Merge what is due.

        Raises:
            AggregatorContractError: If it returns anything but merge reports.
        """
        return _checked(await self._call(self._aggregator.step))

    async def flush(self) -> Sequence[MergeReport]:
        """Merge everything that waits; an aggregator without `flush` is asked for one more step."""
        return _checked(await self._call(self._optional("flush") or self._aggregator.step))

    async def finalize(self) -> None:
        """End of a clean run, for aggregators that care."""
        finalize = self._optional("finalize")
        if finalize is not None:
            await self._call(finalize)

    def dump(self) -> Any:
        """What the aggregator knows, as JSON values; None if it does not say."""
        dump = self._optional("dump")
        return None if dump is None else ask("aggregator", dump)

    def restore(self, saved: Any) -> None:
        """Let the aggregator go on from what it has dumped; it is given the training tasks, too."""
        restore = self._optional("restore")
        if restore is not None and saved is not None:
            ask("aggregator", restore, saved, self._tasks)

    def pending(self) -> int:
        """Cards that wait for a merge, as far as the aggregator tells."""
        pending = self._optional("pending")
        n_cards = 0 if pending is None else ask("aggregator", pending)
        if isinstance(n_cards, int):
            return n_cards
        raise AggregatorContractError(
            f"pending must be a plain function that returns how many cards wait, but it returned "
            f"{type(n_cards).__name__} {n_cards!r:.80}; leave it out if that is not known"
        )

    async def _call(self, method: Callable[..., Any], *args: object) -> Any:
        with noting_abandoned_hooks(self._left_behind):
            return await invoke(method, *args)

    def _optional(self, name: str) -> Callable[..., Any] | None:
        method = getattr(self._aggregator, name, None)
        return method if callable(method) else None


METHODS = ("ingest", "step")


def _checked(reports: Any) -> Sequence[MergeReport]:
    try:
        listed = list(reports)
    except TypeError:
        listed = None
    if listed is None or not all(isinstance(report, MergeReport) for report in listed):
        raise AggregatorContractError(
            f"step must return a list of MergeReport, got {type(reports).__name__} "
            f"{reports!r:.80}; return [] when there was nothing to merge"
        )
    return listed
