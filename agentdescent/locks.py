"""Locks on files, which end with the process that holds them."""

import errno
import os
import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from pathlib import Path

_TAKEN = {errno.EAGAIN, errno.EACCES, errno.EDEADLK}

if sys.platform == "win32":  # pragma: no cover
    import msvcrt

    def _seize(descriptor: int) -> None:
        msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)

    def _look(descriptor: int) -> None:
        _seize(descriptor)
        free(descriptor)

    def free(descriptor: int) -> None:
        """Unlock an open file."""
        msvcrt.locking(descriptor, msvcrt.LK_UNLCK, 1)
else:
    import fcntl

    def _seize(descriptor: int) -> None:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)

    def _look(descriptor: int) -> None:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
        free(descriptor)

    def free(descriptor: int) -> None:
        """Unlock an open file, also for a forked child that has inherited it."""
        fcntl.flock(descriptor, fcntl.LOCK_UN)


def open_private(path: Path, flags: int = os.O_RDWR | os.O_CREAT) -> int:
    """Open a file to lock it; neither a forked child nor another program has it, nor its lock."""
    descriptor = os.open(path, flags, 0o666)
    _private.add(descriptor)
    return descriptor


def close_private(descriptor: int) -> None:
    """Unlock and close what `open_private` has opened; nothing happens in a forked child."""
    if descriptor in _private:
        _private.discard(descriptor)
        with suppress(OSError):  # there are no locks here
            free(descriptor)
        os.close(descriptor)


@contextmanager
def private(path: Path) -> Generator[int]:
    """Have a file open, as `open_private` opens it, for a block."""
    descriptor = open_private(path)
    try:
        yield descriptor
    finally:
        close_private(descriptor)


def try_seize(descriptor: int) -> bool:
    """Lock an open file at once, until it is closed; False if somebody else has.

    Raises:
        OSError: If the file system has no locks.
    """
    return _unless_taken(_seize, descriptor)


def is_seized(descriptor: int) -> bool:
    """Whether somebody has locked an open file; those who only look do not see each other.

    Raises:
        OSError: If the file system has no locks.
    """
    return not _unless_taken(_look, descriptor)


_private: set[int] = set()


def _close_inherited() -> None:
    """A lock lives as long as any copy of its descriptor, and a child may outlive its parent."""
    while _private:
        os.close(_private.pop())


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_close_inherited)


def _unless_taken(attempt: Callable[[int], None], descriptor: int) -> bool:
    try:
        attempt(descriptor)
    except OSError as error:
        if error.errno in _TAKEN:
            return False
        raise
    return True
