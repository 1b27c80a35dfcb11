"""The one door to OS threads: synchronous user code, and override points that are plain `def`."""

import asyncio
import contextvars
import threading
from collections.abc import Awaitable, Callable
from functools import partial, wraps
from inspect import isawaitable, iscoroutinefunction
from queue import SimpleQueue
from typing import Any, Concatenate, ParamSpec, TypeVar

import anyio.from_thread

from agentdescent.errors import ungrouped

P = ParamSpec("P")
S = TypeVar("S")
T = TypeVar("T")

_Jobs = SimpleQueue[Callable[[], None] | None]


class DaemonThreads:
    """Daemon threads for synchronous calls, reused while the owner is open.

    A thread cannot be stopped. When the task that waits for one is cancelled, the thread is
    abandoned: its result is dropped, and being a daemon it never keeps the process alive.

    Attributes:
        abandoned: How many calls nobody waited for to the end.
        running: How many calls are under way, abandoned ones included.
    """

    def __init__(self) -> None:
        self._idle: list[_Jobs] = []
        self._closed = False
        self.abandoned = 0
        self.running = 0

    async def run(self, function: Callable[..., T], *args: object) -> T:
        """Call `function` in a thread, in a copy of the current context, and wait for it."""
        loop = asyncio.get_running_loop()
        done: asyncio.Future[T] = loop.create_future()
        context = contextvars.copy_context()
        jobs = self._idle.pop() if self._idle else _start_thread()

        def job() -> None:
            try:
                outcome = partial(_settle, done, context.run(function, *args))
            except BaseException as error:  # noqa: BLE001 - carried to whoever waits
                outcome = partial(_fail, done, error)
            try:
                loop.call_soon_threadsafe(self._finish, jobs, outcome)
            except RuntimeError:  # the loop is gone, and with it everyone who cared
                jobs.put(None)

        self.running += 1
        jobs.put(job)
        try:
            return await done
        except asyncio.CancelledError:
            if done.cancelled():
                self.abandoned += 1
            raise

    def close(self) -> None:
        """End the idle threads; a busy one ends after its call."""
        self._closed = True
        while self._idle:
            self._idle.pop().put(None)

    def _finish(self, jobs: _Jobs, outcome: Callable[[], None]) -> None:
        self.running -= 1
        if self._closed:
            jobs.put(None)
        else:
            self._idle.append(jobs)
        outcome()


def _start_thread() -> _Jobs:
    jobs: _Jobs = SimpleQueue()

    def serve() -> None:
        while (job := jobs.get()) is not None:
            job()

    threading.Thread(target=serve, name="agentdescent", daemon=True).start()
    return jobs


def _settle(done: asyncio.Future[T], result: T) -> None:
    if not done.done():
        done.set_result(result)


def _fail(done: asyncio.Future[Any], error: BaseException) -> None:
    if done.done():
        return
    if isinstance(error, StopIteration):  # a future cannot carry it
        wrapped = RuntimeError("user code raised StopIteration")
        wrapped.__cause__ = error
        error = wrapped
    done.set_exception(error)


_here = threading.local()


def either(
    method: Callable[Concatenate[S, P], Awaitable[T]],
) -> Callable[Concatenate[S, P], Any]:
    """Let an `async def` method serve synchronous callers too.

    On the event loop it returns an awaitable, in a hook thread (`invoke`) it blocks and returns
    the plain value.
    """

    @wraps(method)
    def call(self: S, *args: P.args, **kwargs: P.kwargs) -> Any:
        portal: anyio.from_thread.BlockingPortal | None = getattr(_here, "portal", None)
        if portal is None:
            return method(self, *args, **kwargs)
        return portal.call(partial(method, self, *args, **kwargs))

    call.__dict__["serves_both"] = True
    return call


async def invoke(method: Callable[..., Any], *args: object) -> Any:
    """Call an override point, be it `def` or `async def`, and return its value.

    Reference implementations (`either`) and coroutine functions run on the loop. A plain `def` runs
    in a daemon thread of its own, where `either` methods block; an awaitable that it returns is
    awaited.
    """
    function = getattr(method, "__func__", method)
    if iscoroutinefunction(function) or getattr(function, "serves_both", False):
        return await method(*args)
    value = await _in_hook_thread(method, *args)
    return await value if isawaitable(value) else value


async def _in_hook_thread(method: Callable[..., Any], *args: object) -> Any:
    threads = DaemonThreads()
    value: Any = None
    try:
        with ungrouped():
            async with anyio.from_thread.BlockingPortal() as portal:
                value = await threads.run(_with_portal, portal, method, *args)
    finally:
        threads.close()
    return value


def _with_portal(
    portal: anyio.from_thread.BlockingPortal, method: Callable[..., Any], *args: object
) -> Any:
    _here.portal = portal
    try:
        return method(*args)
    finally:
        del _here.portal
