"""Warnings of one run."""

import inspect
import warnings
from dataclasses import dataclass, field

_MACHINERY = frozenset({"agentdescent", "anyio", "asyncio", "contextlib", "functools"})


@dataclass(frozen=True, slots=True)
class Alerts:
    """Warnings of one run: issued at once, and kept for its result."""

    messages: list[str] = field(default_factory=list[str])

    def warn(self, message: str) -> None:
        """Issue a RuntimeWarning at the caller's own line, where it can be told; keep its text."""
        self.messages.append(message)
        warnings.warn(message, RuntimeWarning, stacklevel=_level_of_the_caller())


def _level_of_the_caller() -> int:
    """How many frames above `Alerts.warn` the code stands that called the package."""
    here = inspect.currentframe()
    level, frame = 1, here.f_back if here is not None else None
    while frame is not None:
        module: str = frame.f_globals.get("__name__", "")
        if module.partition(".")[0] not in _MACHINERY:
            return level
        level, frame = level + 1, frame.f_back
    return 1
