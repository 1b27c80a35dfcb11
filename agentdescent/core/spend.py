"""What a run may spend, and what it has spent."""

from collections.abc import Mapping
from enum import StrEnum

from agentdescent.core.outcomes import StopReason


class Unit(StrEnum):
    """What is counted. A call is one invocation of `run` or `propose`."""

    ROLLOUT = "rollout"
    CALL = "call"


class Exhausted(BaseException):
    """A budget is spent: the work at hand ends and the run winds down.

    No Exception, so that no `except Exception` of a plug-in swallows the order.
    """

    def __init__(self, reason: StopReason) -> None:
        super().__init__(f"the budget behind {reason} is spent")
        self.reason = reason


class Spend:
    """The one account of a run. It lives on the event loop and needs no lock.

    Work is paid for before it starts: `reserve` raises `Exhausted` when that would exceed the
    limit.
    """

    def __init__(self, limits: Mapping[Unit, tuple[int | None, StopReason]]) -> None:
        self._limits = dict(limits)
        self._used = dict.fromkeys(Unit, 0)
        self.exhausted: StopReason | None = None

    def used(self, unit: Unit) -> int:
        """How much of `unit` is spent or reserved."""
        return self._used[unit]

    def left(self, unit: Unit) -> int | None:
        """How much of `unit` may still be reserved; None without a limit."""
        limit, _ = self._limits.get(unit, (None, StopReason.ROUNDS))
        return None if limit is None else limit - self._used[unit]

    def reserve(self, unit: Unit) -> None:
        """Pay for one `unit` of work.

        Raises:
            Exhausted: If nothing is left; `exhausted` then names the budget.
        """
        limit, reason = self._limits.get(unit, (None, StopReason.ROUNDS))
        if limit is not None and self._used[unit] >= limit:
            self.exhausted = self.exhausted or reason
            raise Exhausted(reason)
        self._used[unit] += 1

    def release(self, unit: Unit) -> None:
        """Give one reserved `unit` back, because the work failed."""
        self._used[unit] -= 1
