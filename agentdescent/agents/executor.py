"""The one door to the caller's functions: always awaited, whatever they are."""

from collections.abc import Callable
from inspect import isawaitable
from types import CoroutineType
from typing import Any

from anyio.lowlevel import checkpoint_if_cancelled

from agentdescent.agents.metering import Counted
from agentdescent.agents.turns import take_turns
from agentdescent.calls import Role, working_as
from agentdescent.core.leash import Leash
from agentdescent.core.protocols import CourseDoor, Door
from agentdescent.core.spend import Spend, Unit
from agentdescent.core.turns import Course, has_turns
from agentdescent.threads import DaemonThreads, called, follow, is_async
from agentdescent.usage import Usage

__all__ = ["Executor", "is_async"]


class Executor:
    """Makes doors of callables, and keeps account of the calls through them.

    Args:
        threads: Where synchronous functions run.
        spend: Pays for counted calls, before each is made.
        usage: Told of each counted call in which no completion has recorded one there itself.
    """

    def __init__(self, threads: DaemonThreads, spend: Spend, usage: Usage | None = None) -> None:
        self._threads = threads
        self._spend = spend
        self._usage = Usage() if usage is None else usage

    def door(self, function: Callable[..., Any], *, counts: bool, role: Role = Role.OTHER) -> Door:
        """Decide once how `function` is to be called.

        A coroutine function runs on the loop, in the context of whoever awaits the door, and is
        cancelled with it. A function with a true `is_pure` attribute is called on the loop as well.
        One that makes an async generator of turns runs there to its output.
        Any other runs in a daemon thread, which is abandoned on cancellation. An awaitable that a
        plain function returns is awaited on the loop; if the door's leash became overdue while the
        thread ran, that awaitable is called off at once, whereas a plain value is still returned.

        Args:
            function: What to call.
            counts: Reserve one `Unit.CALL` before each call; the door then raises `Exhausted` once
                none is left.
            role: What models are asked for inside it.
        """
        if is_async(function):
            call = self._on_the_loop(function)
        elif has_turns(function):
            call = self._turn_by_turn(function)
        elif getattr(function, "is_pure", False) is True:
            call = self._at_once(function)
            return self._counted(call, role) if counts else call
        else:
            call = self._in_a_thread(function)
            return self._unless_cancelled(self._counted(call, role)) if counts else _as(role, call)
        return self._counted(call, role) if counts else _as(role, call)

    def course(self, function: Callable[..., Any], *, role: Role) -> CourseDoor:
        """A door to a function that exposes its turns, for rollouts that may be cut.

        Each passage is one call, paid for as by `door`. It may also raise `Cut`.
        """
        threads, spend, usage = self._threads, self._spend, self._usage

        async def call(*args: Any, leash: Leash | None, course: Course) -> Any:
            spend.reserve(Unit.CALL)
            with Counted(usage, role), working_as(role):
                return await take_turns(function, args, threads, leash, course)

        return call

    def _counted(self, door: Door, role: Role) -> Door:
        spend, usage = self._spend, self._usage

        async def call(*args: Any, leash: Leash | None = None) -> Any:
            spend.reserve(Unit.CALL)
            with Counted(usage, role), working_as(role):
                return await door(*args, leash=leash)

        return call

    def _unless_cancelled(self, door: Door) -> Door:
        """What is cancelled before its thread could begin is not made, and so not paid for."""

        async def call(*args: Any, leash: Leash | None = None) -> Any:
            await checkpoint_if_cancelled()
            return await door(*args, leash=leash)

        return call

    def _on_the_loop(self, function: Callable[..., Any]) -> Door:
        threads = self._threads

        def call(*args: Any, leash: Leash | None = None) -> "CoroutineType[Any, Any, Any]":
            return follow(function(*args), threads, leash)

        return call

    def _turn_by_turn(self, function: Callable[..., Any]) -> Door:
        threads = self._threads

        def call(*args: Any, leash: Leash | None = None) -> "CoroutineType[Any, Any, Any]":
            return take_turns(function, args, threads, leash)

        return call

    def _at_once(self, function: Callable[..., Any]) -> Door:
        threads = self._threads

        async def call(*args: Any, leash: Leash | None = None) -> Any:
            value = called(function, *args)
            return await follow(value, threads, leash) if isawaitable(value) else value

        return call

    def _in_a_thread(self, function: Callable[..., Any]) -> Door:
        threads = self._threads

        async def call(*args: Any, leash: Leash | None = None) -> Any:
            value = await threads.run(function, *args, leash=leash)
            if not isawaitable(value):
                return value
            if leash is not None and leash.overdue:
                leash.call_off()
            return await follow(value, threads, leash)

        return call


def _as(role: Role, door: Door) -> Door:
    async def call(*args: Any, leash: Leash | None = None) -> Any:
        with working_as(role):
            return await door(*args, leash=leash)

    return call
