"""Counting calls where they are seen nearest to the model."""

import time
from contextvars import ContextVar
from typing import Self

from agentdescent.usage import Usage


class Counted:
    """A block that is one call in `usage`, unless such a block inside it was one.

    An exception makes it a failed call; a cancelled one is a call like any other.
    """

    __slots__ = ("_began", "_outer", "_token", "is_counted", "usage")

    def __init__(self, usage: Usage) -> None:
        self.usage: Usage = usage
        self.is_counted: bool = False

    def __enter__(self) -> Self:
        self._outer = _innermost.get()
        self._token = _innermost.set(self)
        self._began = time.perf_counter()
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        _innermost.reset(self._token)
        if not self.is_counted:
            seconds = time.perf_counter() - self._began
            failed = kind is not None and issubclass(kind, Exception)
            self.usage.record(seconds=seconds, failed=failed)
        outer = self._outer
        if outer is not None and outer.usage is self.usage:
            outer.is_counted = True


_innermost: ContextVar[Counted | None] = ContextVar("_innermost", default=None)
