"""A leash on one piece of user code."""

from collections.abc import Callable


class Leash:
    """Calls off work that is no longer wanted, as far as Python can.

    Asynchronous work is cancelled. Work inside a thread is left alone and marked overdue: when the
    thread returns and the work turns out to go on asynchronously, it is cancelled there.

    Attributes:
        in_thread: How many threads are running user code right now.
        overdue: The work was called off.
    """

    __slots__ = ("_cancel", "in_thread", "overdue")

    def __init__(self, cancel: Callable[[], object]) -> None:
        self._cancel = cancel
        self.in_thread: int = 0
        self.overdue: bool = False

    def call_off(self) -> None:
        """Cancel the work, or mark it overdue while a thread runs it."""
        self.overdue = True
        if not self.in_thread:
            self._cancel()
