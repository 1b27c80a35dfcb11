"""Throwaway ledgers, and the removal of those whose owners died."""

import os
import shutil
import stat
import tempfile
import weakref
from collections.abc import AsyncGenerator, Iterable
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import anyio
import anyio.to_thread

from agentdescent.ledger.failures import translated
from agentdescent.ledger.git import GitLedger
from agentdescent.ledger.system import age_s, user_id
from agentdescent.locks import try_seize

PREFIX = "agentdescent-evolve-"
_OWNER = "owner.lock"
_ORPHANED_S = 24 * 3600.0


@asynccontextmanager
async def scratch_ledger(*, lock_timeout: float = 30.0) -> AsyncGenerator[GitLedger]:
    """An open ledger in a directory of its own, which goes when the block ends, however it does.

    Removal does not heed cancellation. Should the block never end, the interpreter removes the
    directory when it exits, and after a hard death the next scratch ledger of the same user does.

    Args:
        lock_timeout: As of `GitLedger`.

    Raises:
        LedgerError: If there is no room for it.
    """
    limiter, place = anyio.CapacityLimiter(1), Path(tempfile.gettempdir())
    with translated("create", place, writing=True):
        home = _Home()
    try:
        with translated("create", place, writing=True):
            home.claim()
        await anyio.to_thread.run_sync(_sweep, place, limiter=limiter)
        ledger = GitLedger(home.path, lock_timeout=lock_timeout, durability="none")
        try:
            await ledger.open()
            yield ledger
        finally:
            await ledger.close()
    finally:
        with anyio.CancelScope(shield=True):
            await anyio.to_thread.run_sync(home.remove, limiter=limiter)


class _Home:
    """A directory that is removed by `remove`, or when the interpreter exits."""

    def __init__(self) -> None:
        self.path = Path(tempfile.mkdtemp(prefix=PREFIX))
        self._claims: list[int] = []
        self.remove = weakref.finalize(self, _remove, self.path, self._claims, os.getpid())

    def claim(self) -> None:
        """Hold a lock on a file in it for as long as the process or the directory lives.

        The file gets its name when it is locked already: whoever finds it free may take it.
        """
        unnamed = self.path / f"{_OWNER}.new"
        claim = os.open(unnamed, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
        self._claims.append(claim)
        with suppress(OSError):  # no locks here: then nobody can take it for dead either
            try_seize(claim)
        unnamed.rename(self.path / _OWNER)


def _remove(path: Path, claims: Iterable[int], owner: int) -> None:
    """Remove a home and give up its lock, last of all; not in a forked child."""
    if os.getpid() == owner:
        shutil.rmtree(path / ".git", ignore_errors=True)
        shutil.rmtree(path, ignore_errors=True)
        for claim in claims:
            os.close(claim)


def _sweep(parent: Path) -> None:
    """Remove the homes of dead owners; at once, or after a day where the lock is missing."""
    for home in parent.glob(f"{PREFIX}*"):
        with suppress(OSError):
            _reap(home)


def _reap(home: Path) -> None:
    status = home.lstat()
    if not stat.S_ISDIR(status.st_mode) or status.st_uid != user_id():
        return
    try:
        claim = os.open(home / _OWNER, os.O_RDWR | getattr(os, "O_NOFOLLOW", 0))
    except FileNotFoundError:
        if age_s(status) > _ORPHANED_S:
            shutil.rmtree(home)
        return
    try:
        if try_seize(claim):
            shutil.rmtree(home / ".git", ignore_errors=True)
            shutil.rmtree(home)
    finally:
        os.close(claim)
