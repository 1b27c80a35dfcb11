"""How runners call and wait: threads that are not abandoned, callables of either kind."""

from collections import OrderedDict
from collections.abc import Awaitable, Callable, Hashable
from inspect import isawaitable
from typing import Any, Generic, TypeVar

import anyio
from anyio.lowlevel import EventLoopToken, current_token

from agentdescent.threads import DaemonThreads, awaited, in_thread, is_async

T = TypeVar("T")


async def to_the_end(function: Callable[..., T], *args: object) -> T:
    """Call `function` in a thread, and wait for its end whoever cancels meanwhile.

    Cancelled before, it does not call.
    """
    threads = DaemonThreads()
    try:
        return await threads.finish(function, *args)
    finally:
        threads.close()


async def answer_of(function: Callable[..., Any], *args: object) -> Any:
    """What `function` gives, be it synchronous (then in a thread) or not.

    Cancelled, it abandons the thread.
    """
    answer = function(*args) if is_async(function) else await in_thread(function, *args)
    return await awaited(answer) if isawaitable(answer) else answer


class Remembered(Generic[T]):
    """Values by key, each made once however many ask for it; the longest unused are forgotten.

    Args:
        most: How many are kept.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._values: OrderedDict[Hashable, T] = OrderedDict()
        self._turns: dict[tuple[EventLoopToken, Hashable], anyio.Lock] = {}

    async def get(self, key: Hashable, make: Callable[[], Awaitable[T]]) -> T:
        """The value of `key`, made by `make()` if nobody has.

        If whoever makes it fails or is cancelled, the next one who waits makes it.
        """
        turns = (current_token(), key)
        turn = self._turns.setdefault(turns, anyio.Lock())
        try:
            async with turn:
                if key not in self._values:
                    self._values[key] = await make()
                self._values.move_to_end(key)
                value = self._values[key]
                while len(self._values) > self._most:
                    self._values.popitem(last=False)
                return value
        finally:
            if not turn.locked():
                self._turns.pop(turns, None)
