"""What the operating system knows: file locks, owners, the disk, time that outlives the process."""

import errno
import os
import socket
import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path

_TAKEN = {errno.EAGAIN, errno.EACCES, errno.EDEADLK}
_BOOT = Path("/proc/sys/kernel/random/boot_id")

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

    def user_id() -> int:
        """Whose files this process may have made, as `os.stat` counts."""
        return 0

    def sync(path: Path) -> None:
        """Return when a file is on the disk; directories need no such thing here."""
        if path.is_file():
            descriptor = os.open(path, os.O_RDWR)
            try:
                os.fsync(descriptor)
            finally:
                os.close(descriptor)
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

    def user_id() -> int:
        """Whose files this process makes, as `os.stat` counts."""
        return os.geteuid()

    def sync(path: Path) -> None:
        """Return when a file, or the names in a directory, are on the disk."""
        descriptor = os.open(path, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


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


def is_writable(*places: Path) -> bool:
    """True if all of these that exist may be written, and their file systems too."""
    return all(os.access(place, os.W_OK) for place in places if place.exists())


def replace(path: Path, content: bytes) -> None:
    """Put a file in place of whatever is at `path`, whole and on the disk."""
    unnamed = path.with_name(f"{path.name}.new")
    unnamed.write_bytes(content)
    sync(unnamed)
    unnamed.replace(path)
    sync(path.parent)


def host_name() -> str:
    """What this machine is called."""
    return socket.gethostname()


def boot_id() -> str:
    """What tells one start of this machine from every other; "" where nothing does."""
    try:
        return _BOOT.read_text(encoding="utf-8").strip()
    except OSError:  # pragma: no cover - not on Linux
        return ""


def now_s() -> float:
    """Seconds since the epoch. Durations are taken from a monotonic clock instead."""
    return datetime.now(UTC).timestamp()


def stamp() -> str:
    """The time as part of a file name, e.g. "20260102T030405Z"."""
    return datetime.now(UTC).strftime("%Y%m%dT%H%M%SZ")


def age_s(status: os.stat_result) -> float:
    """Seconds since a file was last written; negative if its clock is ahead of ours."""
    return now_s() - status.st_mtime


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
