"""Running asynchronous code where the order of tasks may not matter."""

from collections.abc import Awaitable, Callable
from typing import TypeVar

import anyio

T = TypeVar("T")


def run_trio(function: Callable[..., Awaitable[T]], *args: object) -> T:
    """Run `function` on trio, in virtual time, and return its result. Needs `trio`.

    Trio shuffles the tasks that are ready, so a test that passes again and again does not depend on
    their order. When all of them wait, the clock jumps to the next deadline. It does so as well
    while a thread works: keep threads out of such tests.
    """
    from trio.testing import MockClock  # noqa: PLC0415 - trio is no dependency of the package

    clock = MockClock(autojump_threshold=0)
    return anyio.run(function, *args, backend="trio", backend_options={"clock": clock})
