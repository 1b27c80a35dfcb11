"""When a run ends, and why: one writer of the stop reason, one early stop."""

import math
from collections.abc import Callable, Mapping
from typing import Any

import anyio

from agentdescent.core.outcomes import StopReason

EPSILON = 1e-9


class Stop:
    """The order to end a run. The first reason given is the reason.

    Attributes:
        reason: Why the run ends, or None while it goes on.
        error: The failure behind it, or None.
    """

    def __init__(self) -> None:
        self.reason: StopReason | None = None
        self.error: Exception | None = None
        self._requested = anyio.Event()
        self._cancel: Callable[[], None] | None = None

    def watch(self, cancel: Callable[[], None]) -> None:
        """Call `cancel` when a run must end at once."""
        self._cancel = cancel

    def wind_down(self, reason: StopReason) -> None:
        """Start no new work; what is under way may end by itself."""
        if self.reason is None:
            self.reason = reason
            self._requested.set()

    def fail(self, error: Exception) -> None:
        """The run ends with `error`, whatever it was about to end with."""
        self.reason = StopReason.ERROR
        self.error = error

    def at_once(self, reason: StopReason, error: Exception | None = None) -> None:
        """End the run now and cancel what is under way."""
        if self.reason is None:
            self.error = error
        self.wind_down(reason)
        if self._cancel is not None:
            self._cancel()

    async def within(self, seconds: float) -> bool:
        """Wait at most `seconds` for the order; True if it came."""
        with anyio.move_on_after(seconds):
            await self._requested.wait()
        return self.reason is not None


class EarlyStop:
    """Stops a run that has reached its target, or no longer improves.

    Attributes:
        best: The highest reward observed.
        stalled: Observations since the last improvement.
    """

    def __init__(self, target_reward: float | None, patience: int | None) -> None:
        self._target = target_reward
        self._patience = patience
        self.best: float = -math.inf
        self.stalled: int = 0

    def observe(self, reward: float) -> StopReason | None:
        """Learn one full held-out reward; the target is tested before patience."""
        if reward > self.best + EPSILON:
            self.best, self.stalled = reward, 0
        else:
            self.stalled += 1
        if self._target is not None and reward >= self._target:
            return StopReason.TARGET_REWARD
        return self._out_of_patience()

    def stall(self) -> StopReason | None:
        """Learn that a full pass over the training tasks brought nothing new."""
        self.stalled += 1
        return self._out_of_patience()

    def dump(self) -> dict[str, Any]:
        """What it has observed, as JSON values."""
        return {"best": self.best if math.isfinite(self.best) else None, "stalled": self.stalled}

    def restore(self, saved: Mapping[str, Any]) -> None:
        """Go on from what `dump` gave."""
        self.best = -math.inf if saved["best"] is None else saved["best"]
        self.stalled = saved["stalled"]

    def _out_of_patience(self) -> StopReason | None:
        if self._patience is not None and self.stalled >= self._patience:
            return StopReason.PATIENCE
        return None
