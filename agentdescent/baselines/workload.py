"""What all arms of a comparison work on, and what each of them may spend."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from agentdescent.core.task import Task

Unit = Literal["rollouts", "calls"]
"""What can be held equal: measured rollouts, or calls of `run` and `propose`."""


@dataclass(frozen=True, slots=True)
class Budget:
    """What one arm may spend on one seed; None for no bound of that kind.

    Both units cannot be equal at once where they matter: forks reflect more often than those who
    share, and one gate for many diffs is cheaper than a gate for each.

    Attributes:
        rollouts: Measured rollouts.
        calls: Calls of `run` and `propose`, those of gates included.

    Raises:
        ValueError: If there is no bound, or one below 1.
    """

    rollouts: int | None = None
    calls: int | None = None

    def __post_init__(self) -> None:
        amounts = [amount for amount in (self.rollouts, self.calls) if amount is not None]
        if not amounts or min(amounts) < 1:
            raise ValueError(f"{self} bounds nothing; give rollouts=, calls= or both, at least 1")

    def split(self, ways: int) -> list["Budget"]:
        """The same in so many parts, which differ by 1 at most and come to the whole.

        Raises:
            ValueError: If `ways` is below 1, or there is not enough for every part.
        """
        if ways < 1:
            raise ValueError(f"ways must be at least 1, got {ways}")
        parts = zip(_shares(self.rollouts, ways), _shares(self.calls, ways), strict=True)
        return [Budget(rollouts, calls) for rollouts, calls in parts]


def _shares(amount: int | None, ways: int) -> list[int | None]:
    if amount is None:
        return [None] * ways
    each, rest = divmod(amount, ways)
    return [each + (index < rest) for index in range(ways)]


@dataclass(frozen=True, slots=True)
class Workload:
    """What is to be learned, and by what means; the same object for every arm.

    Attributes:
        train: Tasks to learn from, at least one.
        dev: The held-out tasks of every run. Its gates, and the choice among forks, see them.
        test: Tasks that no run sees. Arms are compared on them, at nobody's expense.
        actors: Makes what acts in one run: the arguments of `async_evolve` by name, at least
            `reward`, and `agent` or `run` and `propose`. Called once a run, with a text that names
            the run: whatever is drawn at random should be drawn from ``Random(stream)``, so that
            forks differ from each other and a comparison can be repeated.
    """

    train: Sequence[Task]
    dev: Sequence[Task]
    test: Sequence[Task]
    actors: Callable[[str], Mapping[str, Any]]
