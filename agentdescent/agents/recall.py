"""Answers that are asked for once: remembered, and awaited together."""

from collections.abc import Awaitable, Callable, Hashable
from dataclasses import dataclass, field
from typing import Generic, TypeVar, cast

import anyio
from anyio.lowlevel import EventLoopToken, current_token

from agentdescent.threads import Lock

T = TypeVar("T")

_UNKNOWN = object()


@dataclass(slots=True)
class _Flight(Generic[T]):
    """One answer under way; neither a value nor an error at its end if it was cancelled."""

    ended: anyio.Event = field(default_factory=anyio.Event)
    answer: tuple[T] | None = None
    error: Exception | None = None


class Recall(Generic[T]):
    """Remembers answers by key, those asked for longest ago not, and makes none twice at a time.

    It may be used from several event loops and threads; only within one loop do those who ask for
    the same key wait for one another.
    """

    def __init__(self, capacity: int) -> None:
        """Remember `capacity` answers, at least 1."""
        self._capacity = capacity
        self._lock = Lock()
        self._known: dict[Hashable, T] = {}
        self._flights: dict[tuple[EventLoopToken, Hashable], _Flight[T]] = {}

    async def get(self, key: Hashable, make: Callable[[], Awaitable[T]]) -> T:
        """The answer to `key`; what is not known is made by the first who asks.

        An error reaches all who wait for it and is not remembered. If the first is cancelled,
        another of them makes the answer.
        """
        here = (current_token(), key)
        while True:
            known = self._remembered(key)
            if known is not _UNKNOWN:
                return cast("T", known)
            flight = self._flights.get(here)
            if flight is None:
                return await self._fly(here, make)
            await flight.ended.wait()
            if flight.error is not None:
                raise flight.error
            if flight.answer is not None:
                return flight.answer[0]

    async def _fly(
        self, here: tuple[EventLoopToken, Hashable], make: Callable[[], Awaitable[T]]
    ) -> T:
        flight = self._flights[here] = _Flight[T]()
        try:
            answer = await make()
        except Exception as error:
            flight.error = error
            raise
        else:
            flight.answer = (answer,)
            self._remember(here[1], answer)
            return answer
        finally:
            del self._flights[here]
            flight.ended.set()

    def _remembered(self, key: Hashable) -> object:
        with self._lock:
            known = self._known.pop(key, _UNKNOWN)
            if known is not _UNKNOWN:
                self._known[key] = cast("T", known)
            return known

    def _remember(self, key: Hashable, answer: T) -> None:
        with self._lock:
            self._known[key] = answer
            while len(self._known) > self._capacity:
                del self._known[next(iter(self._known))]
