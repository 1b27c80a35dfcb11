"""What a run has come to so far, folded from its events; every display draws from it."""

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from time import monotonic

from agentdescent.core.events import (
    Committed,
    EvaluationFinished,
    Event,
    MergeDecided,
    ProposalMade,
    RolloutFinished,
    RoundEnded,
    RunEnded,
    RunStarted,
    WorkerBackedOff,
)
from agentdescent.usage import Usage

BARS = "▁▂▃▄▅▆▇█"


def sparkline(rewards: list[float], width: int) -> str:
    """The newest `width` rewards, each of [0, 1] drawn as one bar."""
    top = len(BARS) - 1
    shown = rewards[-width:] if width > 0 else []
    return "".join(BARS[round(min(1.0, max(0.0, reward)) * top)] for reward in shown)


@dataclass(frozen=True, slots=True)
class Budget:
    """One limit of a run, and how much of it is spent."""

    name: str
    used: float
    limit: float

    @property
    def share(self) -> float:
        """The part that is spent, at most 1."""
        return min(1.0, self.used / self.limit)

    def seconds_left(self, elapsed: float) -> float | None:
        """How long it lasts at the pace so far; None while there is no pace."""
        return elapsed * (1 - self.share) / self.share if self.share > 0 else None


@dataclass(slots=True)
class Board:
    """A listener that counts. It is written on the event loop and may be read from anywhere.

    Attributes:
        limits: The budgets of the run, by name: rounds, rollouts, seconds, calls, attempts, tokens,
            cost.
        usage: The account that the run keeps.
        rewards: The held-out reward before the run and after each round.
        counts: How often each stage was passed.
        outcomes: How often each outcome occurred.
    """

    limits: Mapping[str, float]
    usage: Usage = field(default_factory=Usage)
    clock: Callable[[], float] = monotonic
    rewards: list[float] = field(default_factory=list[float])
    counts: Counter[str] = field(default_factory=Counter[str])
    outcomes: Counter[str] = field(default_factory=Counter[str])
    version: int = 0
    first_version: int = 0
    n_train: int = 0
    n_held_out: int = 0
    last_merge: str = ""
    trouble: str = ""
    began: float | None = None
    ended: float | None = None
    _rounds: int = 0
    _calls: int = 0

    def __call__(self, event: Event) -> None:
        """Learn of an event."""
        if self.began is None:
            self.began = self.clock()
        if isinstance(event, RunStarted):
            self._start(event)
        else:
            self._count(event)

    def _count(self, event: Event) -> None:
        match event:
            case RolloutFinished():
                self.counts["rollouts"] += not event.error
                self.counts["failures"] += bool(event.error)
            case EvaluationFinished():
                self.counts["evaluations"] += 1
            case ProposalMade():
                self.counts["proposals"] += event.proposal is not None
                self.outcomes[event.dropped] += bool(event.dropped)
            case MergeDecided(report=report):
                self.counts["merges"] += 1
                self.outcomes[report.category or "unknown"] += 1
                self.last_merge = f"{report.category}: {report.reason}"
            case Committed():
                self.counts["commits"] += 1
                self.version = event.version
            case RoundEnded(info=info):
                self.rewards.append(info.held_out_reward)
                self._rounds, self._calls = self._rounds + 1, info.calls
            case WorkerBackedOff():
                wait = "gave up" if event.seconds is None else f"waits {event.seconds:g} s"
                self.trouble = f"worker {event.worker} {wait}: {event.error}"
            case RunEnded():
                self.ended = self.clock()
            case _:
                pass

    @property
    def reward(self) -> float | None:
        """The newest held-out reward, if there is one."""
        return self.rewards[-1] if self.rewards else None

    @property
    def elapsed(self) -> float:
        """Seconds since the run began."""
        if self.began is None:
            return 0.0
        return (self.clock() if self.ended is None else self.ended) - self.began

    def budgets(self) -> list[Budget]:
        """Every limit with what is spent of it."""
        used = {
            "rounds": self._rounds,
            "rollouts": self.counts["rollouts"],
            "calls": self._calls,
            "attempts": self.usage.provider_calls or 0,
            "tokens": self.usage.total_tokens,
            "cost": self.usage.usd or 0.0,
            "seconds": self.elapsed,
        }
        return [Budget(name, used.get(name, 0), limit) for name, limit in self.limits.items()]

    def eta(self) -> tuple[float, str] | None:
        """Seconds until the budget that binds is spent, and its name; None if nobody can say."""
        guesses = [
            (seconds, budget.name)
            for budget in self.budgets()
            if (seconds := budget.seconds_left(self.elapsed)) is not None
        ]
        return min(guesses, default=None)

    def _start(self, event: RunStarted) -> None:
        self.version = self.first_version = event.version
        self.n_train, self.n_held_out = event.n_train, event.n_held_out
        if event.initial_reward is not None:
            self.rewards.append(event.initial_reward)
