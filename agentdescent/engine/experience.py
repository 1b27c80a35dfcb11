"""Experience: what a run remembers for those who reflect."""

from collections import deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from agentdescent.core.diff import Diff, State
from agentdescent.core.outcomes import MergeReport
from agentdescent.core.protocols import Strategy
from agentdescent.core.reflection import Attempt, Reflection, Rejection
from agentdescent.engine.head import Head
from agentdescent.engine.messages import Report, Ticket
from agentdescent.engine.plugins import ask

SHOWN = 5
"""Rejected proposals in one reflection."""

KEPT = 64
"""Rejected proposals that are remembered."""

UNJUDGED = 256
"""Proposals that are remembered until a merge says what became of them."""

CHOICE = 8
"""Attempts that are remembered for each that may be shown."""


@dataclass(frozen=True, slots=True)
class _Memory:
    """A rejection, and what it was about."""

    rejection: Rejection
    task_id: str
    version: int
    ops: Mapping[str, Any] = field(default_factory=dict[str, Any])


class Experience:
    """Remembers rejected proposals and recent attempts, and makes reflections of them.

    In rounds, what a round has rejected is known from its end on, in the order (worker, serial), so
    that a seeded run does not depend on timing; attempts are known at once, in both schedules.
    Everything is bounded: the oldest is forgotten first.

    Args:
        head: The newest version; it tells which keys have changed since a rejection.
        strategy: May say what proposals have to look like.
        batch: How many failures one reflection shows, its own included.
        in_rounds: Wait for `settle` before a rejection is known.
    """

    def __init__(self, head: Head, strategy: Strategy, batch: int, *, in_rounds: bool) -> None:
        self._head = head
        self._describe: Callable[[State], str] | None = getattr(
            strategy, "proposal_instructions", None
        )
        self._n_others = batch - 1
        self._in_rounds = in_rounds
        self._fresh: list[tuple[tuple[int, int], _Memory]] = []
        self._rejected: dict[str, _Memory] = {}
        self._unjudged: dict[str, _Memory] = {}
        n_attempts = CHOICE * self._n_others
        self._failures: deque[tuple[int, Attempt]] = deque(maxlen=n_attempts)
        self._successes: deque[tuple[int, Attempt]] = deque(maxlen=n_attempts)

    def note_success(self, ticket: Ticket, attempt: Attempt) -> None:
        """Remember a task that needs no reflection."""
        self._successes.append((ticket.snapshot.version, attempt))

    def reflection(self, ticket: Ticket, attempt: Attempt) -> Reflection:
        """What there is to say about a failed rollout; the failure is remembered for others.

        Raises:
            PluginError: If the strategy cannot say what it reads.
        """
        head, task = ticket.snapshot, ticket.task
        failures = _recent(self._failures, head.version, other_than=task.id)
        failures.sort(key=lambda other: (not other.feedback, other.reward))
        reflection = Reflection(
            rendered=head.rendered,
            state=dict(head.state),
            version=head.version,
            task=task,
            output=attempt.output,
            reward=attempt.reward,
            feedback=attempt.feedback,
            instructions=self._instructions(head.state),
            rejected=self._relevant(task.id),
            others=tuple(failures[: self._n_others]),
            successes=tuple(
                _recent(self._successes, head.version, other_than=task.id)[: self._n_others]
            ),
        )
        self._failures.append((head.version, attempt))
        return reflection

    def note(self, report: Report) -> None:
        """Learn what became of a proposal, as far as its rollout tells."""
        if not report.proposal or not report.proposal.strip():
            return
        if report.dropped:
            delta = report.card.before_after_delta if report.card else None
            why = Rejection(report.proposal, str(report.dropped), delta, report.reason)
            self._fresh.append((report.ticket.order, _memory(report, why)))
        elif report.candidate is not None:
            memory = _memory(report, Rejection(report.proposal, ""))
            _put(self._unjudged, _signature(memory.ops), memory, UNJUDGED)
        if not self._in_rounds:
            self.settle()

    def settle(self) -> None:
        """Let what was noted be known."""
        fresh, self._fresh = self._fresh, []
        for _, memory in sorted(fresh, key=lambda item: item[0]):
            self._reject(memory)

    def note_merges(self, reports: Iterable[MergeReport]) -> None:
        """Learn which proposals a merge has committed, and which it turned down and why."""
        for report in reports:
            for refusal in report.refused:
                for memory in self._proposed(refusal.diff):
                    why = Rejection(
                        memory.rejection.proposal, refusal.category, refusal.gain, refusal.reason
                    )
                    self._reject(_Memory(why, memory.task_id, memory.version, memory.ops))
            if report.accepted is not None:
                for edit in report.accepted.edits():
                    self._forgive(edit.ops)

    def dump(self) -> dict[str, Any]:
        """Proposals that were rejected or wait for a merge, as JSON values."""
        return {
            "fresh": [[*order, _dumped(memory)] for order, memory in self._fresh],
            "rejected": [_dumped(memory) for memory in self._rejected.values()],
            "unjudged": [_dumped(memory) for memory in self._unjudged.values()],
        }

    def restore(self, saved: Mapping[str, Any]) -> None:
        """Go on from what `dump` gave."""
        self._fresh = [((worker, serial), _loaded(it)) for worker, serial, it in saved["fresh"]]
        for record in saved["rejected"]:
            self._reject(_loaded(record))
        for record in saved["unjudged"]:
            memory = _loaded(record)
            _put(self._unjudged, _signature(memory.ops), memory, UNJUDGED)

    def _proposed(self, diff: Diff) -> list[_Memory]:
        """The proposals behind an edit, which may have been moved to a newer version."""
        names = dict.fromkeys(_signature(edit.ops) for edit in diff.edits())
        return [self._unjudged[name] for name in names if name in self._unjudged]

    def _reject(self, memory: _Memory) -> None:
        name = " ".join(memory.rejection.proposal.split()).casefold()
        _put(self._rejected, name, memory, KEPT)

    def _forgive(self, committed: Mapping[str, Any]) -> None:
        """Forget what was said against edits that are in the artifact now."""
        for name, memory in list(self._rejected.items()):
            if memory.ops and memory.ops.items() <= committed.items():
                del self._rejected[name]

    def _relevant(self, task_id: str) -> tuple[Rejection, ...]:
        """Those for the same task first, then those about keys that have not changed since."""

        def is_far(memory: _Memory) -> tuple[bool, bool]:
            has_changed = self._head.lag(memory.ops, memory.version) > 0
            return memory.task_id != task_id, has_changed

        newest_first = [*reversed(self._rejected.values())]
        ranked = sorted(newest_first, key=is_far)
        return tuple(memory.rejection for memory in ranked[:SHOWN])

    def _instructions(self, state: State) -> str:
        if self._describe is None:
            return ""
        return str(ask("strategy", self._describe, dict(state)))


def _recent(
    attempts: deque[tuple[int, Attempt]], version: int, *, other_than: str
) -> list[Attempt]:
    """The last attempt at each other task against `version`, the newest first."""
    last: dict[str, Attempt] = {}
    for base, tried in reversed(attempts):
        if base == version and tried.task.id != other_than:
            last.setdefault(tried.task.id, tried)
    return [*last.values()]


def _memory(report: Report, why: Rejection) -> _Memory:
    ticket = report.ticket
    ops: Mapping[str, Any] = report.card.diff.ops if report.card else {}
    return _Memory(why, ticket.task.id, ticket.snapshot.version, ops)


def _dumped(memory: _Memory) -> dict[str, Any]:
    return {
        "rejection": asdict(memory.rejection),
        "task_id": memory.task_id,
        "version": memory.version,
        "ops": dict(memory.ops),
    }


def _loaded(record: Mapping[str, Any]) -> _Memory:
    why = Rejection(**record["rejection"])
    return _Memory(why, record["task_id"], record["version"], record["ops"])


def _signature(ops: Mapping[str, Any]) -> str:
    return repr(sorted(ops.items()))


def _put(memories: dict[str, _Memory], name: str, memory: _Memory, most: int) -> None:
    memories.pop(name, None)
    memories[name] = memory
    if len(memories) > most:
        del memories[next(iter(memories))]
