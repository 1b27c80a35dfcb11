"""Workspaces: directories for one rollout each, gone when it ends, whatever its end.

Beside each lies a file that is locked for as long as its owner lives. When the owner is killed, the
next one who makes a workspace at the same place removes what it has left.
"""

import os
import secrets
import stat
import tempfile
import warnings
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import anyio

from agentdescent.locks import close_private, open_private, try_seize
from agentdescent.process import StrPath
from agentdescent.runners.calling import Remembered, to_the_end
from agentdescent.runners.isolation import Isolation, Workspace
from agentdescent.runners.removal import remove
from agentdescent.runners.strays import end_strays

PREFIX = "agentdescent-ws-"
_KEPT = "agentdescent-kept-"
_LOCK = ".lock"


class Workspaces:
    """Makes workspaces below one directory, all with the same isolation.

    Args:
        isolation: How programs will be started in them.
        root: Where they are made; by default where temporary files are.
        keep_failed: Keep a copy of those that are left by an error, and say where.
    """

    def __init__(
        self, isolation: Isolation, root: StrPath | None = None, *, keep_failed: bool = False
    ) -> None:
        self.isolation: Isolation = isolation
        self._root = root
        self._keep_failed = keep_failed
        self._ready = Remembered[None](1)

    @asynccontextmanager
    async def lease(self, fill: Callable[[Path], object]) -> AsyncGenerator[Workspace]:
        """A fresh workspace, removed when the block ends, with all that runs for it.

        Removal does not heed cancellation; what resists it is reported by a RuntimeWarning.

        Args:
            fill: Called in a thread with the directory to work in, to put things there.

        Raises:
            AgentError: If the isolation cannot be had.
            OSError: If there is no room.
        """
        root = _root(self._root)
        await self._ready.get(root, lambda: self._prepare(root))
        lease = await to_the_end(_Lease, root, fill)
        try:
            yield lease.space
        except Exception:
            if self._keep_failed:
                kept = await to_the_end(lease.keep)
                warnings.warn(f"the failed workspace is kept in {kept}", RuntimeWarning, 2)
            raise
        finally:
            with anyio.CancelScope(shield=True):
                try:
                    await self.isolation.clear(lease.space)
                finally:
                    await to_the_end(lease.end)

    async def _prepare(self, root: Path) -> None:
        await to_the_end(sweep, root)
        await self.isolation.prepare(root)


def sweep(root: StrPath | None = None) -> list[Path]:
    """Remove the workspaces below `root` whose owners died, and kill what ran for them.

    Args:
        root: By default where temporary files are.

    Returns:
        Those that were removed. What belongs to another user stays.
    """
    swept: list[Path] = []
    for lock in sorted(_root(root).glob(f"{PREFIX}*{_LOCK}")):
        with suppress(OSError):
            swept += _swept(lock)
    return swept


def _swept(lock: Path) -> list[Path]:
    status = lock.lstat()
    if not stat.S_ISREG(status.st_mode) or status.st_uid != os.geteuid():
        return []
    descriptor = open_private(lock, os.O_RDWR | os.O_NOFOLLOW)
    try:
        if not try_seize(descriptor):
            return []
        path = lock.with_suffix("")
        end_strays(path)
        remove(path)
        lock.unlink()
        return [path]
    finally:
        close_private(descriptor)


def _root(root: StrPath | None) -> Path:
    return Path(tempfile.gettempdir() if root is None else root).expanduser().absolute()


class _Lease:
    """A workspace, and the lock that says that it is somebody's."""

    def __init__(self, root: Path, fill: Callable[[Path], object]) -> None:
        root.mkdir(parents=True, exist_ok=True)
        path, self._descriptor = _claim(root)
        self.space: Workspace = Workspace(path)
        try:
            for folder in (path, self.space.work, self.space.home, self.space.tmp):
                folder.mkdir(0o700)
            fill(self.space.work)
        except BaseException:
            self.end()
            raise

    def keep(self) -> Path:
        """Set the directory it worked in aside; where it is now."""
        kept = Path(tempfile.mkdtemp(prefix=_KEPT, dir=self.space.path.parent))
        return self.space.work.rename(kept)

    def end(self) -> None:
        """Remove it and, last of all, give up the lock."""
        try:
            remove(self.space.path)
            self.space.path.with_suffix(_LOCK).unlink(missing_ok=True)
        except OSError as error:
            warnings.warn(
                f"the workspace {self.space.path} could not be removed: {error}", RuntimeWarning, 2
            )
        finally:
            close_private(self._descriptor)


def _claim(root: Path) -> tuple[Path, int]:
    """A name that nobody has, and its lock."""
    while True:
        path = root / f"{PREFIX}{secrets.token_hex(8)}"
        lock = path.with_suffix(_LOCK)
        descriptor = open_private(lock, os.O_RDWR | os.O_CREAT | os.O_EXCL)
        held = True
        with suppress(OSError):  # no locks here: then nobody can take it for dead either
            held = try_seize(descriptor)
        if held and os.fstat(descriptor).st_nlink:
            return path, descriptor
        close_private(descriptor)  # somebody took it for dead before it was locked
