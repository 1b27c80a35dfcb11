"""Warnings of one run."""

import warnings
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Alerts:
    """Warnings of one run: issued at once, and kept for its result."""

    messages: list[str] = field(default_factory=list[str])

    def warn(self, message: str) -> None:
        """Issue a RuntimeWarning and keep its text."""
        self.messages.append(message)
        warnings.warn(message, RuntimeWarning, stacklevel=3)
