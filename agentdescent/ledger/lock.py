"""The write lock: an advisory lock on a file, waited for from the event loop.

The kernel releases it when its holder dies, so there is nothing stale to clean up and no process id
to guess about.
"""

import errno
import os
import random
import warnings
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import anyio
from anyio.lowlevel import checkpoint_if_cancelled

from agentdescent.errors import LedgerBusy
from agentdescent.ledger.system import age_s, free, try_seize

_SHORTEST_S, _LONGEST_S = 0.0005, 0.02
STALE_S = 2.0
"""A lock file of git that is older has been left by a program that died."""

_UNSUPPORTED = {errno.ENOLCK, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS}


class Patience:
    """Bounds the attempts at something that others have, and keeps rivals out of step."""

    def __init__(self, seconds: float) -> None:
        self._deadline = anyio.current_time() + seconds
        self._random = random.Random()  # noqa: S311 - jitter is no secret

    async def wait(self) -> bool:
        """Sleep for a moment; False, at once, when the time is up."""
        if anyio.current_time() >= self._deadline:
            return False
        await anyio.sleep(self._random.uniform(_SHORTEST_S, _LONGEST_S))
        return True


class Watch:
    """Keeps an eye on a lock file of git: one that is old was left by a program that died.

    Old by its date or, should the clock have been set back, by how long it has been watched.
    """

    def __init__(self) -> None:
        self._seen: tuple[int, int] | None = None
        self._since = 0.0

    def remove(self, lock: Path, now: float) -> str | None:
        """Remove the file if it is old; what to warn of then.

        Args:
            lock: The file.
            now: The time by a monotonic clock.
        """
        with suppress(FileNotFoundError):
            status = lock.stat()
            identity = status.st_ino, status.st_mtime_ns
            if identity != self._seen:
                self._seen, self._since = identity, now
            age = max(age_s(status), now - self._since)
            if age > STALE_S:
                lock.unlink()
                return left_behind(lock, age)
        return None


def left_behind(lock: Path, age: float) -> str:
    """What to say of a lock of git that was removed, `age` seconds old."""
    return f"removed {lock}, which another git program left behind {age:.0f} s ago"


class WriteLock:
    """Excludes every other writer of one repository, in this process and in others.

    Attributes:
        held: It is ours right now; never so on a file system without locks.
    """

    FILE = Path(".git", "agentdescent.lock")

    def __init__(
        self, path: Path, *, timeout: float, try_seize: Callable[[int], bool] = try_seize
    ) -> None:
        self._path, self._timeout, self._try_seize = path, timeout, try_seize
        self._warned = False
        self.held: bool = False

    @asynccontextmanager
    async def hold(self, seconds: float | None = None) -> AsyncGenerator[None]:
        """Wait for the lock and keep it for a block; not re-entrant.

        Cancelled while it waits, it leaves nothing locked. On a file system without locks it warns
        once and lets the block run: the compare-and-swap of the branches alone loses nothing.

        Args:
            seconds: How long to wait; None for as long as this lock was made for.

        Raises:
            LedgerBusy: If somebody else keeps it for longer than the timeout.
            OSError: If the lock file cannot be opened.
        """
        descriptor = os.open(self._path / self.FILE, os.O_RDWR | os.O_CREAT, 0o666)
        try:
            self.held = held = await self._acquire(
                descriptor, self._timeout if seconds is None else seconds
            )
            try:
                yield
            finally:
                self.held = False
                if held:
                    free(descriptor)
        finally:
            os.close(descriptor)

    async def _acquire(self, descriptor: int, seconds: float) -> bool:
        await checkpoint_if_cancelled()
        try:
            if self._try_seize(descriptor):
                return True
            patience = Patience(seconds)
            while await patience.wait():
                if self._try_seize(descriptor):
                    return True
        except OSError as error:
            if error.errno not in _UNSUPPORTED:
                raise
            self._warn(error)
            return False
        raise LedgerBusy(
            f"another writer has kept the lock for {seconds:g} s",
            operation="lock",
            repo_path=str(self._path),
            hint="wait for the other run, or end it",
        )

    def _warn(self, error: OSError) -> None:
        if not self._warned:
            self._warned = True
            warnings.warn(
                f"the file system of {self._path} has no file locks ({error.strerror}): several "
                "runs on this repo_path stay correct, but slow each other down",
                RuntimeWarning,
                stacklevel=2,
            )
