"""The ledger that is a git repository."""

import os
import warnings
from collections.abc import AsyncGenerator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import anyio

from agentdescent.core.store import CommitNote, Stored
from agentdescent.errors import LedgerBusy, LedgerClosed
from agentdescent.ledger import codec
from agentdescent.ledger.failures import Contended, translated
from agentdescent.ledger.index import DEV
from agentdescent.ledger.lock import Patience, WriteLock
from agentdescent.ledger.system import age_s
from agentdescent.threads import DaemonThreads

if TYPE_CHECKING:
    from agentdescent.ledger.store import Store

T = TypeVar("T")

_STALE_S = 2.0
"""A lock file of git that is older has been left by a process that died."""


class GitLedger:
    """A bare git repository in `<path>/.git` with the branches `dev` and `stable`.

    One file a key, so that git itself shows what evolved: `git -C PATH log dev`,
    `git -C PATH show dev:artifacts/ID/state/KEY`. Any number of processes may have one path open:
    writers exclude each other by a lock, every commit is a compare and swap of its artifact's
    version, and readers wait for nobody. git itself may read and write meanwhile. Configuration,
    hooks and environment of the user's git have no effect.

    A commit that returned survives the death of the process. Calls work on a thread of the ledger's
    own: one that is cancelled before its work has begun does nothing, a later one finishes first.

    Every method raises a LedgerError if git or the file system fails, and LedgerClosed before
    `open` and after `close`.

    Args:
        path: The directory; made by `open` where it is missing, never removed.
        lock_timeout: Seconds that a write waits for other writers before it raises LedgerBusy.
    """

    def __init__(self, path: str | os.PathLike[str], *, lock_timeout: float = 30.0) -> None:
        self.path: Path = Path(path).absolute()
        self._lock_timeout = lock_timeout
        self._lock = WriteLock(self.path, timeout=lock_timeout)
        self._worker = anyio.CapacityLimiter(1)
        self._threads = DaemonThreads()
        self._store: Store | None = None
        self._closed = False

    async def open(self) -> None:
        """Open the repository, made first if there is none; nothing happens if it is open.

        Raises:
            LedgerRefused: If the path holds something else or a newer format. Nothing is touched.
            LedgerDamaged: If a branch or something on its tip is not intact.
        """
        await self._work("open", self._open)

    async def read(self, branch: str = DEV) -> dict[str, Stored]:
        """Every artifact on the tip of `branch`, by id; keys of a state are sorted."""
        return await self._work("read", lambda: self._ready().read(branch))

    async def log(self, branch: str = DEV, limit: int = 20) -> list[str]:
        """`"<7 hex> <subject>"` of the newest commits, newest first."""
        return await self._work("log", lambda: self._ready().log(branch, limit))

    @asynccontextmanager
    async def locked(self) -> AsyncGenerator[None]:
        """Keep every other writer out for a block; the wait can be cancelled. Not re-entrant.

        Raises:
            LedgerBusy: If another writer keeps the lock for `lock_timeout`.
        """
        self._ready()
        async with AsyncExitStack() as stack:
            with translated("lock", self.path, writing=True):
                await stack.enter_async_context(self._lock.hold())
            yield

    async def register(self, entry: Stored) -> Stored:
        """Add an artifact at version 1 to both branches unless it is there; return what is.

        Raises:
            ContractError: If the state is not JSON; nothing was locked.
        """
        files = codec.encode(entry.artifact_id, entry.state)
        async with self.locked():
            return await self._write("register", lambda: self._ready().register(entry, files))

    async def commit(self, entry: Stored, base: int, note: CommitNote) -> tuple[str, int]:
        """Replace an artifact's state on dev, inside `locked()`; return (commit id, version).

        The new version is `base` + 1; `entry.version` is ignored. When others have committed other
        artifacts meanwhile, the commit goes on top of theirs.

        Raises:
            CASConflict: If the artifact's version on dev is not `base`.
            ContractError: If the state is not JSON, or the contract is another; nothing was
                written.
        """
        files = codec.encode(entry.artifact_id, entry.state)
        return await self._write("commit", lambda: self._ready().commit(entry, files, base, note))

    async def promote(self, artifact_id: str) -> int | None:
        """Copy an artifact from dev to stable; return its version there, None if it is unknown.

        Nothing is written when both agree already.
        """
        async with self.locked():
            return await self._write("promote", lambda: self._ready().promote(artifact_id))

    async def close(self) -> None:
        """Release everything, at once and whatever is cancelled; may be called again."""
        self._closed = True
        try:
            with anyio.CancelScope(shield=True):
                await self._work("close", self._release)
        finally:
            self._threads.close()

    def _ready(self) -> "Store":
        if self._store is None:
            reason = "closed" if self._closed else "not open: await open() first"
            raise LedgerClosed(f"the git ledger is {reason}", repo_path=str(self.path))
        return self._store

    def _open(self) -> None:
        if self._closed:
            self._ready()
        if self._store is None:
            from agentdescent.ledger.store import Store  # noqa: PLC0415 - git loads on first use

            self._store = Store.at(self.path)

    def _release(self) -> None:
        store, self._store = self._store, None
        if store:
            store.close()

    async def _write(self, operation: str, step: Callable[[], T]) -> T:
        """Run `step` until no other program is moving the branch."""
        patience = Patience(self._lock_timeout)
        while True:
            try:
                return await self._work(operation, step, writing=True)
            except Contended as contended:
                if not await patience.wait():
                    raise LedgerBusy(
                        f"{contended} for {self._lock_timeout:g} s",
                        operation=operation,
                        repo_path=str(self.path),
                        hint="end what else uses this git repository",
                    ) from contended
                if self._lock.held:
                    await self._work(operation, partial(_remove_stale, contended.lock))

    async def _work(self, operation: str, step: Callable[[], T], *, writing: bool = False) -> T:
        """Run `step` in a thread, one at a time; one that has begun is waited for in any case."""

        def translating() -> T:
            with translated(operation, self.path, writing=writing):
                return step()

        async with self._worker:
            return await self._threads.finish(translating)


def _remove_stale(lock: Path) -> None:
    try:
        age = age_s(lock.stat())
        if age <= _STALE_S:
            return
        lock.unlink()
    except FileNotFoundError:
        return
    warnings.warn(
        f"removed {lock}, which another git program left behind {age:.0f} s ago",
        RuntimeWarning,
        stacklevel=2,
    )
