"""Virtual time: what waits takes none, and the same run comes out the same."""

import asyncio
import selectors
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


def run_virtually(main: Coroutine[Any, Any, T]) -> T:
    """As `asyncio.run`, on an event loop whose clock jumps to the next timer."""
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        return runner.run(main)


class VirtualLoop(asyncio.SelectorEventLoop):
    """An event loop whose time passes only where nothing is ready."""

    def __init__(self) -> None:
        self._now = 0.0
        super().__init__(_Skipping(self._skip))

    def time(self) -> float:
        return self._now

    def _skip(self, seconds: float) -> None:
        self._now += seconds


class _Skipping(selectors.DefaultSelector):
    """A selector that skips what it would wait."""

    def __init__(self, skip: Callable[[float], None]) -> None:
        super().__init__()
        self._skip = skip

    def select(self, timeout: float | None = None) -> list[Any]:
        if timeout is None:
            raise RuntimeError("everything waits for something that no timer will bring about")
        if timeout > 0:
            self._skip(timeout)
        return super().select(0)
