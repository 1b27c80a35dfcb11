"""What the operating system knows: file locks, owners, and time that outlives the process."""

import errno
import os
import sys
from datetime import UTC, datetime

_TAKEN = {errno.EAGAIN, errno.EACCES, errno.EDEADLK}

if sys.platform == "win32":  # pragma: no cover
    import msvcrt

    def _seize(descriptor: int) -> None:
        msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)

    def free(descriptor: int) -> None:
        """Unlock an open file."""
        msvcrt.locking(descriptor, msvcrt.LK_UNLCK, 1)

    def user_id() -> int:
        """Whose files this process may have made, as `os.stat` counts."""
        return 0
else:
    import fcntl

    def _seize(descriptor: int) -> None:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)

    def free(descriptor: int) -> None:
        """Unlock an open file, also for a forked child that has inherited it."""
        fcntl.flock(descriptor, fcntl.LOCK_UN)

    def user_id() -> int:
        """Whose files this process makes, as `os.stat` counts."""
        return os.geteuid()


def try_seize(descriptor: int) -> bool:
    """Lock an open file at once, until it is closed; False if somebody else has.

    Raises:
        OSError: If the file system has no locks.
    """
    try:
        _seize(descriptor)
    except OSError as error:
        if error.errno in _TAKEN:
            return False
        raise
    return True


def now_s() -> float:
    """Seconds since the epoch. Durations are taken from a monotonic clock instead."""
    return datetime.now(UTC).timestamp()


def age_s(status: os.stat_result) -> float:
    """Seconds since a file was last written; negative if its clock is ahead of ours."""
    return now_s() - status.st_mtime
