"""The write lock: an advisory lock on a file, waited for from the event loop.

The kernel releases it when its holder dies, so there is nothing stale to clean up and no process id
to guess about.
"""

import errno
import random
import warnings
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import anyio
from anyio.lowlevel import checkpoint_if_cancelled

from agentdescent.errors import LedgerBusy
from agentdescent.ledger.system import age_s
from agentdescent.locks import private, try_seize

_SHORTEST_S, _SOON_S, _LONGEST_S = 0.0005, 0.001, 0.02
_SLOW_S = 1.0
STALE_S = 2.0
"""A lock file of git that is older has been left by a program that died."""

_UNSUPPORTED = {errno.ENOLCK, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS}


class Patience:
    """Bounds the attempts at something that others have, and keeps rivals out of step.

    Attributes:
        seconds: How long it lasts.
    """

    def __init__(self, seconds: float) -> None:
        self._began = anyio.current_time()
        self.seconds: float = seconds
        self._random = random.Random()  # noqa: S311 - jitter is no secret

    async def wait(self, *, first: bool = False) -> bool:
        """Sleep for a moment; False, at once, when the time is up.

        Who has waited for longer looks more often, and so comes first; but who waits for something
        slow saves its strength.

        Args:
            first: Nobody else waits in our place.
        """
        waited = anyio.current_time() - self._began
        if waited >= self.seconds:
            return False
        longest = _SOON_S if first else max(_SOON_S, _LONGEST_S - waited / 2)
        longest = longest if waited < _SLOW_S else _LONGEST_S
        await anyio.sleep(self._random.uniform(_SHORTEST_S, longest))
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

    Who waits holds a second lock, the place at the head of the queue. Whoever has just been served
    has to get that place first, and so cannot be faster than those who wait.

    Attributes:
        held: It is ours right now; never so on a file system without locks.
    """

    FILE = Path(".git", "agentdescent.lock")
    QUEUE = Path(".git", "agentdescent.queue")

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
        await checkpoint_if_cancelled()
        with private(self._path / self.FILE) as lock:
            try:
                await self._acquire(lock, self._timeout if seconds is None else seconds)
                self.held = True
            except OSError as error:
                if error.errno not in _UNSUPPORTED:
                    raise
                self._warn(error)
            try:
                yield
            finally:
                self.held = False

    async def _acquire(self, lock: int, seconds: float) -> None:
        patience = Patience(seconds)
        with private(self._path / self.QUEUE) as queue:
            while not self._try_seize(queue):
                await self._be_patient(patience, first=False)
            while not self._try_seize(lock):
                await self._be_patient(patience, first=True)

    async def _be_patient(self, patience: Patience, *, first: bool) -> None:
        if not await patience.wait(first=first):
            raise LedgerBusy(
                f"another writer has kept the lock for {patience.seconds:g} s",
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
