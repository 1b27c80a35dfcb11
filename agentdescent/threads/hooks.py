"""Override points that may be plain `def`: each call of one runs in a hook thread of its own."""

import contextvars
import threading
from collections.abc import Awaitable, Callable, Generator
from contextlib import contextmanager
from functools import partial, wraps
from inspect import isawaitable
from typing import Any, Concatenate, ParamSpec, TypeVar, cast

import anyio
import anyio.from_thread

from agentdescent.errors import ungrouped
from agentdescent.threads.daemon import DaemonThreads, awaited, is_async, loop_is_running

P = ParamSpec("P")
S = TypeVar("S")
T = TypeVar("T")

_Outcome = tuple[T, None] | tuple[None, BaseException]


class _Hook(threading.local):
    portal: anyio.from_thread.BlockingPortal | None = None


_hook = _Hook()


def either(
    method: Callable[Concatenate[S, P], Awaitable[T]],
) -> Callable[Concatenate[S, P], Any]:
    """Let an `async def` method serve synchronous callers too.

    On an event loop it returns an awaitable, in a hook thread (`invoke`) it blocks and returns the
    plain value.
    """

    @wraps(method)
    def call(self: S, *args: P.args, **kwargs: P.kwargs) -> Any:
        portal = _hook.portal
        if portal is None or loop_is_running():
            return method(self, *args, **kwargs)
        return on_loop(portal, partial(method, self, *args, **kwargs))

    call.__dict__["serves_both"] = True
    return call


def on_loop(portal: anyio.from_thread.BlockingPortal, function: Callable[[], Awaitable[T]]) -> T:
    """Have `function()` awaited on the portal's loop, and wait for it in this thread."""
    value, error = portal.call(_carried, function)
    if error is None:
        return cast("T", value)
    try:
        raise error
    finally:
        del error  # else the error and this frame keep each other alive


async def _carried(function: Callable[[], Awaitable[T]]) -> _Outcome[T]:
    try:
        return await function(), None
    except anyio.get_cancelled_exc_class():
        raise
    except BaseException as error:  # noqa: BLE001 - raised in the hook's own thread
        return None, error


async def invoke(method: Callable[..., Any], *args: object) -> Any:
    """Call an override point, be it `def` or `async def`, and return its value.

    Reference implementations (`either`) and coroutine functions run on the loop. A plain `def` runs
    in a daemon thread of its own, where `either` methods block; an awaitable that it returns is
    awaited. Cancelled, it calls off what runs on the loop and abandons the thread.

    Raises:
        BackendError: As `awaited`.
    """
    if getattr(method, "serves_both", False) or is_async(method):
        return await awaited(method(*args))
    value = await _in_hook_thread(method, *args)
    return await awaited(value) if isawaitable(value) else value


_left_behind: contextvars.ContextVar[list[DaemonThreads] | None] = contextvars.ContextVar(
    "_left_behind", default=None
)


@contextmanager
def noting_abandoned_hooks(left_behind: list[DaemonThreads]) -> Generator[None]:
    """Within the block, the threads of hooks that are abandoned are added to `left_behind`."""
    token = _left_behind.set(left_behind)
    try:
        yield
    finally:
        _left_behind.reset(token)


async def _in_hook_thread(method: Callable[..., Any], *args: object) -> Any:
    threads = DaemonThreads()
    value: Any = None
    try:
        with ungrouped():
            async with anyio.from_thread.BlockingPortal() as portal:
                value = await threads.run(_with_portal, portal, method, *args)
    finally:
        threads.close()
        left_behind = _left_behind.get()
        if threads.running and left_behind is not None:
            left_behind.append(threads)
    return value


def _with_portal(
    portal: anyio.from_thread.BlockingPortal, method: Callable[..., Any], *args: object
) -> Any:
    _hook.portal = portal
    try:
        return method(*args)
    finally:
        _hook.portal = None
