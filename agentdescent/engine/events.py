"""Telling listeners what happens, without ever waiting for them."""

from collections.abc import Callable, Sequence
from inspect import isawaitable
from typing import Any

import anyio
from anyio.abc import TaskGroup
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream

from agentdescent.core.events import Event
from agentdescent.engine.alerts import Alerts
from agentdescent.errors import describe
from agentdescent.threads import awaited, called

BACKLOG = 1024
"""Events a listener may lag behind before it loses some."""

Listener = Callable[[Event], Any]


class Events:
    """One queue and one task a listener.

    A listener that is too slow loses events, which are counted; one that raises is reported once
    and goes on being told.

    Args:
        listeners: Told of everything, each by a task of its own.
        on_end: Told of the last event at once, however the run ends.
        alerts: Where listeners that raise are reported.

    Attributes:
        dropped: Events lost to slow listeners.
    """

    def __init__(
        self, listeners: Sequence[Listener], on_end: Callable[[Event], object], alerts: Alerts
    ) -> None:
        self._listeners = listeners
        self._on_end = on_end
        self._alerts = alerts
        self._queues: list[MemoryObjectSendStream[Event]] = []
        self._inboxes: list[MemoryObjectReceiveStream[Event]] = []
        self._reported: set[int] = set()
        self._last: Event | None = None
        self._through: set[int] = set()
        self.dropped: int = 0

    def start(self, group: TaskGroup) -> None:
        """Start one task a listener."""
        for index, listener in enumerate(self._listeners):
            queue, inbox = anyio.create_memory_object_stream[Event](BACKLOG)
            self._queues.append(queue)
            self._inboxes.append(inbox)
            group.start_soon(self._serve, index, listener, inbox)

    def emit(self, event: Event) -> None:
        """Queue `event` for every listener."""
        for queue in self._queues:
            try:
                queue.send_nowait(event)
            except (anyio.WouldBlock, anyio.BrokenResourceError):
                self.dropped += 1

    async def finish(self, last: Event) -> None:
        """Tell everyone the last event, after all that is queued for them."""
        self._last = last
        self._on_end(last)
        for queue in self._queues:
            await queue.send(last)
        self.close()

    async def abort(self, last: Event) -> None:
        """Tell everyone what is queued and the last event, as far as no waiting is involved.

        Where `finish` has been called, its event stays the last one; nobody is told it twice.
        """
        if self._last is None:
            self._last = last
            self._on_end(last)
        last = self._last
        self.close()
        waiting = [_emptied(inbox) for inbox in self._inboxes]
        for index, events in enumerate(waiting):
            for event in (*events, last):
                if index not in self._through:
                    with anyio.move_on_after(0, shield=True):
                        await self._tell(index, self._listeners[index], event)

    def close(self) -> None:
        """Let the listeners' tasks end once they are through."""
        for queue in self._queues:
            queue.close()

    async def _serve(
        self, index: int, listener: Listener, inbox: MemoryObjectReceiveStream[Event]
    ) -> None:
        async for event in inbox:
            await self._tell(index, listener, event)
            while inbox.statistics().current_buffer_used:  # all of it, before workers go on
                await self._tell(index, listener, inbox.receive_nowait())
        inbox.close()

    async def _tell(self, index: int, listener: Listener, event: Event) -> None:
        if event is self._last:
            self._through.add(index)
        try:
            answer = called(listener, event)
            if isawaitable(answer):
                await awaited(answer)
        except Exception as error:  # noqa: BLE001 - a listener never ends a run
            if index not in self._reported:
                self._reported.add(index)
                self._alerts.warn(f"an event listener raised {describe(error)}; the run goes on")


def _emptied(inbox: MemoryObjectReceiveStream[Event]) -> list[Event]:
    """What waits in `inbox`, which is closed."""
    with inbox:
        return [inbox.receive_nowait() for _ in range(inbox.statistics().current_buffer_used)]
