"""How many requests an endpoint takes at once, learned from how it answers."""

from collections import deque
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import anyio

from agentdescent.agents.providers.failures import Failure
from agentdescent.calls import Stage

FIRST_LIMIT = 32

SMOOTHING = 0.2
"""The weight of the newest latency."""


class Window:
    """Additive increase, multiplicative decrease; it is told the time and waits for nothing.

    Attributes:
        limit: How many requests may be under way; at least 1.
        latency: Smoothed seconds of a good reply; of the first refusal while there is none.
    """

    def __init__(self, limit: int = FIRST_LIMIT) -> None:
        self.limit: int = limit
        self.latency: float = 0.0
        self._streak = 0
        self._halved_at = float("-inf")

    def succeed(self, latency: float) -> None:
        """A good reply took `latency` seconds; after `limit` in a row the limit grows by one."""
        self.latency += (latency - self.latency) * (SMOOTHING if self.latency else 1.0)
        self._streak += 1
        if self._streak >= self.limit:
            self._streak = 0
            self.limit += 1

    def refuse(self, began: float, now: float) -> None:
        """A request that began at `began` was refused: halve the limit.

        Not if it began before the limit was last halved, for then it tells of the old limit, nor
        within one latency of that.
        """
        self._streak = 0
        self.latency = self.latency or now - began
        if began >= self._halved_at and now >= self._halved_at + self.latency:
            self._halved_at = now
            self.limit = max(1, self.limit // 2)


class EndpointLimiter:
    """Turns at one endpoint: first come, first served, in two queues served alternately.

    It belongs to one event loop. Cancelling a wait gives the turn to the next.

    Attributes:
        window: How many turns there are.
        under_way: How many are taken.
        has_served: Some reply was good, so that the key is.
        refusal: How the key was refused, where nothing else has ever come back.
    """

    def __init__(self) -> None:
        self.has_served: bool = False
        self.refusal: Failure | None = None
        self.window: Window = Window()
        self.under_way: int = 0
        self._queues: dict[Stage, deque[anyio.Event]] = {stage: deque() for stage in Stage}
        self._served = list(Stage)  # the one that has waited longer comes first
        self._resumes_at = float("-inf")

    @asynccontextmanager
    async def turn(self, stage: Stage) -> AsyncGenerator[None]:
        """Wait for a turn, and for the end of a pause, and hold the turn within the block."""
        await self._take(stage)
        try:
            await self._end_of_pause()
            yield
        finally:
            self._release()

    def pause(self, seconds: float) -> None:
        """Let nobody begin for so long."""
        self._resumes_at = max(self._resumes_at, anyio.current_time() + seconds)

    async def _end_of_pause(self) -> None:
        """A pause may grow while it is waited for."""
        while (pause := self._resumes_at - anyio.current_time()) > 0:  # noqa: ASYNC110
            await anyio.sleep(pause)

    async def _take(self, stage: Stage) -> None:
        if self.under_way < self.window.limit:
            self.under_way += 1
            return
        turn = anyio.Event()
        queue = self._queues[stage]
        queue.append(turn)
        try:
            await turn.wait()
        except BaseException:
            if turn.is_set():
                self._release()
            else:
                queue.remove(turn)
            raise

    def _release(self) -> None:
        self.under_way -= 1
        while self.under_way < self.window.limit and (turn := self._next()) is not None:
            self.under_way += 1
            turn.set()

    def _next(self) -> anyio.Event | None:
        for stage in self._served:
            if self._queues[stage]:
                self._served.remove(stage)
                self._served.append(stage)
                return self._queues[stage].popleft()
        return None
