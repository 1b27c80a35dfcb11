"""What a run may spend, and what it has spent."""

from collections.abc import Mapping
from enum import StrEnum

from agentdescent.core.outcomes import StopReason


class Unit(StrEnum):
    """What is counted.

    A call is one invocation of `run` or `propose`, an attempt one request to a provider.
    """

    ROLLOUT = "rollout"
    CALL = "call"
    ATTEMPT = "attempt"
    TOKEN = "token"  # noqa: S105 - counted, not secret
    USD = "usd"


class Exhausted(BaseException):
    """A budget is spent: the work at hand ends and the run winds down.

    No Exception, so that no `except Exception` of a plug-in swallows the order.
    """

    def __init__(self, reason: StopReason) -> None:
        super().__init__(f"the budget behind {reason} is spent")
        self.reason = reason


class Spend:
    """The one account of a run. It lives on the event loop and needs no lock.

    Work is paid for before it starts: `reserve` raises `Exhausted` when nothing is left. Where the
    price is known only afterwards, an estimate is held and `settle` corrects it.
    """

    def __init__(self, limits: Mapping[Unit, tuple[float | None, StopReason]]) -> None:
        self._limits = dict(limits)
        self._spent: dict[Unit, float] = dict.fromkeys(Unit, 0)
        self._reserved: dict[Unit, float] = dict.fromkeys(Unit, 0)
        self.exhausted: StopReason | None = None

    def used(self, unit: Unit) -> float:
        """How much of `unit` is spent or reserved."""
        return self._spent[unit] + self._reserved[unit]

    def count(self, unit: Unit) -> int:
        """How much of a `unit` that comes in whole numbers is spent or reserved."""
        return int(self.used(unit))

    def spent(self, unit: Unit) -> float:
        """How much of `unit` is spent for certain."""
        return self._spent[unit]

    def is_limited(self, unit: Unit) -> bool:
        """True if there is a budget of `unit`."""
        return self._limit(unit)[0] is not None

    def left(self, unit: Unit) -> float | None:
        """How much of `unit` may still be reserved; None without a limit."""
        limit, _ = self._limit(unit)
        return None if limit is None else limit - self.used(unit)

    def reserve(self, unit: Unit) -> None:
        """Pay for one `unit` of work.

        Raises:
            Exhausted: If nothing is left; `exhausted` then names the budget.
        """
        self._refuse_beyond_limit(unit, self.used(unit))
        self._spent[unit] += 1

    def hold(self, amounts: Mapping[Unit, float]) -> bool:
        """Reserve estimated amounts, all or none; False if others must settle theirs first.

        The last reservation may exceed a limit: else a budget below one estimate buys nothing.

        Raises:
            Exhausted: If nothing is left whatever becomes of what is reserved.
        """
        for unit in amounts:
            self._refuse_beyond_limit(unit, self._spent[unit])
        if any((left := self.left(unit)) is not None and left <= 0 for unit in amounts):
            return False
        for unit, amount in amounts.items():
            self._reserved[unit] += amount
        return True

    def settle(self, unit: Unit, held: float, amount: float) -> None:
        """Replace what was held by what the work really took."""
        self._reserved[unit] = max(0, self._reserved[unit] - held)  # floats do not sum to 0
        self._spent[unit] += amount

    def dump(self) -> dict[str, float]:
        """What is spent for certain, as JSON values."""
        return {str(unit): amount for unit, amount in self._spent.items()}

    def restore(self, saved: Mapping[str, float]) -> None:
        """Go on from what `dump` gave."""
        for unit in Unit:
            self._spent[unit] += saved.get(unit, 0)

    def release(self, unit: Unit) -> None:
        """Give one reserved `unit` back, because the work failed."""
        self._spent[unit] -= 1

    def _limit(self, unit: Unit) -> tuple[float | None, StopReason]:
        return self._limits.get(unit, (None, StopReason.ROUNDS))

    def _refuse_beyond_limit(self, unit: Unit, used: float) -> None:
        limit, reason = self._limit(unit)
        if limit is not None and used >= limit:
            self.exhausted = self.exhausted or reason
            raise Exhausted(reason)
