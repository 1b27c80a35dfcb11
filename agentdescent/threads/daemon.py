"""Daemon threads for synchronous user code, and how user code is called on the loop."""

import asyncio
import contextvars
import sys
import threading
from collections.abc import Awaitable, Callable, Generator
from contextlib import contextmanager
from functools import partial
from inspect import iscoroutine, iscoroutinefunction, ismethod
from queue import SimpleQueue
from types import CoroutineType
from typing import Any, ParamSpec, TypeVar, cast

import anyio
from anyio.lowlevel import checkpoint_if_cancelled

from agentdescent.core.leash import Leash
from agentdescent.errors import BackendError

P = ParamSpec("P")
S = TypeVar("S")
T = TypeVar("T")

Lock = threading.Lock
"""For the few values that user code in threads and the event loop both write."""

_Jobs = SimpleQueue[Callable[[], None] | None]


def is_async(function: object) -> bool:
    """True if calling `function` gives a coroutine.

    So it is for coroutine functions, for partials and bound methods of them, and for objects with
    an `async def __call__`. A plain function that returns an awaitable cannot be told by its looks.
    """
    while isinstance(function, partial) or ismethod(function):
        function = function.func if isinstance(function, partial) else function.__func__
    return iscoroutinefunction(function) or iscoroutinefunction(
        getattr(type(function), "__call__", None)  # noqa: B004 - asks what kind it is
    )


class DaemonThreads:
    """Daemon threads for synchronous calls, reused while the owner is open.

    A thread cannot be stopped. When the task that waits for one is cancelled, the thread is
    abandoned: its result is dropped, and being a daemon it never keeps the process alive.

    Attributes:
        abandoned: How many calls nobody waited for to the end.
        running: How many calls are under way, abandoned ones included.
    """

    def __init__(self) -> None:
        self._all: list[_Jobs] = []
        self._idle: list[_Jobs] = []
        self._closed = False
        self.abandoned: int = 0
        self.running: int = 0
        self._ended: anyio.Event | None = None

    async def run(self, function: Callable[..., T], *args: object, leash: Leash | None = None) -> T:
        """Call `function` in a thread, in a copy of the current context, and wait for it.

        Cancelled before, it does not call; cancelled meanwhile, it abandons the thread.

        Args:
            function: What to call.
            *args: Its arguments.
            leash: Counts the thread while this call waits for it.

        Raises:
            BackendError: If `function` raised what no task can be handed: StopIteration, or a
                cancellation that nobody had asked for.
        """
        await checkpoint_if_cancelled()
        return await self._wait(self._begin(function, args), leash)

    async def finish(self, function: Callable[..., T], *args: object) -> T:
        """Call `function` in a thread as `run` does, and wait for its end in any case.

        Cancelled before, it does not call. A cancellation meanwhile, of a scope or of the bare
        task, goes on at the next `await` after it.
        """
        await checkpoint_if_cancelled()
        done = self._begin(function, args)
        await _to_the_end(done)
        return done.result()

    def _begin(self, function: Callable[..., T], args: tuple[object, ...]) -> "asyncio.Future[T]":
        loop = asyncio.get_running_loop()
        done: asyncio.Future[T] = loop.create_future()
        context = _of_a_thread()
        jobs = self._idle.pop() if self._idle else self._start()

        def job() -> None:
            outcome = _attempt(context, function, args)
            try:
                loop.call_soon_threadsafe(self._finish, jobs, done, outcome)
            except RuntimeError:  # the loop is gone, and with it everyone who cared
                jobs.put(None)

        self.running += 1
        jobs.put(job)
        if self._closed:
            jobs.put(None)
        return done

    async def _wait(self, done: "asyncio.Future[T]", leash: Leash | None) -> T:
        if leash is not None:
            leash.in_thread += 1
        try:
            return await done
        except asyncio.CancelledError:
            if done.cancelled():
                self.abandoned += 1
            elif done.exception() is None:  # asked for, so that the loop does not report it as lost
                _drop(done.result())
            raise
        finally:
            if leash is not None:
                leash.in_thread -= 1

    async def settle(self, seconds: float) -> None:
        """Give the calls under way at most `seconds` to end."""
        with anyio.move_on_after(seconds):
            while self.running:
                self._ended = anyio.Event()
                await self._ended.wait()

    def close(self) -> None:
        """End the idle threads at once and each busy one after its call."""
        self._closed = True
        self._idle.clear()
        for jobs in self._all:
            jobs.put(None)
        self._all.clear()

    def _start(self) -> _Jobs:
        jobs: _Jobs = SimpleQueue()

        def serve() -> None:
            while (job := jobs.get()) is not None:
                job()
                del job  # an idle thread keeps no argument or result alive

        threading.Thread(target=serve, name="agentdescent", daemon=True).start()
        self._all.append(jobs)
        return jobs

    def _finish(self, jobs: _Jobs, done: "asyncio.Future[T]", outcome: "_Outcome[T]") -> None:
        self.running -= 1
        if self._ended is not None:
            self._ended.set()
        if not self._closed:
            self._idle.append(jobs)
        if done.cancelled():
            _drop(outcome[0])
        elif outcome[1] is None:
            done.set_result(outcome[0])
        else:
            done.set_exception(outcome[1])


def _of_a_thread() -> contextvars.Context:
    """A copy of the current context that does not take its thread for the one with the loop."""
    context = contextvars.copy_context()
    sniffio: Any = sys.modules.get("sniffio")
    if sniffio is not None:
        context.run(sniffio.current_async_library_cvar.set, None)
    return context


def _drop(value: object) -> None:
    """Let a result go that came too late; Python complains of a coroutine that nobody awaits."""
    if iscoroutine(value):
        value.close()


async def _to_the_end(done: "asyncio.Future[Any]") -> None:
    """Wait for `done`, and be cancelled afterwards by what would have cancelled the wait."""
    task = cast("asyncio.Task[object]", asyncio.current_task())
    postponed: list[asyncio.CancelledError] = []
    with anyio.CancelScope(shield=True):
        while not done.done():
            try:
                await asyncio.wait([done])
            except asyncio.CancelledError as error:
                task.uncancel()
                postponed.append(error)
    for error in postponed:
        task.cancel(*error.args)


_Outcome = tuple[T, None] | tuple[None, BaseException]


def _attempt(
    context: contextvars.Context, function: Callable[..., T], args: tuple[object, ...]
) -> _Outcome[T]:
    try:
        return context.run(function, *args), None
    except (StopIteration, asyncio.CancelledError) as error:
        return None, _from_within(function, error)
    except BaseException as error:  # noqa: BLE001 - carried to whoever waits
        return None, error


def _from_within(source: object, error: BaseException) -> BackendError:
    name = getattr(source, "__qualname__", type(source).__name__)
    wrapped = BackendError(
        f"{name} ended with {type(error).__name__} of its own making; catch it there, or raise "
        "another error"
    )
    wrapped.__cause__ = error
    return wrapped


_Seat = tuple[DaemonThreads, Leash | None, int]
"""Where user code on the loop sends its own blocking calls, and the thread which that loop has."""

_seat: contextvars.ContextVar[_Seat | None] = contextvars.ContextVar("_seat", default=None)


@contextmanager
def seated(threads: DaemonThreads) -> Generator[None]:
    """Within the block, and in the tasks started in it, `in_thread` uses `threads`."""
    token = _seat.set((threads, None, threading.get_ident()))
    try:
        yield
    finally:
        _seat.reset(token)


def follow(
    awaitable: Awaitable[T], threads: DaemonThreads, leash: Leash | None
) -> "CoroutineType[Any, Any, T]":
    """As `awaited`; what the user code passes to `in_thread` runs in `threads`, on `leash`."""
    seat = (threads, leash, threading.get_ident())
    return awaited(awaitable) if _seat.get() == seat else _seated(seat, awaitable)


async def _seated(seat: _Seat, awaitable: Awaitable[T]) -> T:
    token = _seat.set(seat)
    try:
        return await awaitable
    except asyncio.CancelledError as error:
        _refuse_unasked(awaitable, error)
        raise
    finally:
        _seat.reset(token)


def called(function: Callable[..., T], *args: object) -> T:
    """Call user code on the loop.

    Raises:
        BackendError: If it raised a cancellation, for which nobody can have asked.
    """
    try:
        return function(*args)
    except asyncio.CancelledError as error:
        raise _from_within(function, error) from error


async def awaited(awaitable: Awaitable[T]) -> T:
    """Await user code on the loop.

    Raises:
        BackendError: If it ended with a cancellation that nobody had asked for, which would
            otherwise end the awaiting task without a word.
    """
    try:
        return await awaitable
    except asyncio.CancelledError as error:
        _refuse_unasked(awaitable, error)
        raise


def _refuse_unasked(source: object, error: asyncio.CancelledError) -> None:
    """Raise a BackendError if nobody has asked for this cancellation."""
    task = asyncio.current_task()
    if task is None or not task.cancelling():
        raise _from_within(source, error) from error


def now() -> float:
    """The time of the event loop in this thread, in seconds: `anyio.current_time`, found faster."""
    try:
        return asyncio.get_running_loop().time()
    except RuntimeError:  # another kind of event loop
        return anyio.current_time()


def loop_is_running() -> bool:
    """True where an event loop runs in this very thread."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


async def in_thread(function: Callable[..., T], *args: object) -> T:
    """Call `function` in a thread: one of the run around us, outside a run one of its own.

    Cancelled, it abandons the thread.
    """
    seat = _seat.get()
    if seat is not None and seat[2] == threading.get_ident():
        return await seat[0].run(function, *args, leash=seat[1])
    threads = DaemonThreads()
    try:
        return await threads.run(function, *args)
    finally:
        threads.close()
