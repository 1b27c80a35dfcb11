"""The ledger that is a git repository."""

import os
import warnings
from collections.abc import AsyncGenerator, Callable
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar, get_args

import anyio

from agentdescent.core.store import CommitNote, SavedSearch, SearchSave, Stored
from agentdescent.errors import ContractError, LedgerBusy, LedgerClosed, LedgerError
from agentdescent.ledger import codec
from agentdescent.ledger.failures import Contended, translated
from agentdescent.ledger.faults import Faults, NoFaults
from agentdescent.ledger.index import DEV
from agentdescent.ledger.lock import Patience, Watch, WriteLock
from agentdescent.ledger.owners import Owner, new_run
from agentdescent.ledger.system import is_writable
from agentdescent.ledger.terms import Durability, Terms
from agentdescent.threads import DaemonThreads

if TYPE_CHECKING:
    from agentdescent.ledger.session import Session
    from agentdescent.ledger.store import Store

T = TypeVar("T")

_LEAVING_S = 1.0
"""How long a run that leaves waits for the lock, to tidy up."""


class GitLedger:
    """A bare git repository in `<path>/.git` with the branches `dev` and `stable`.

    One file a key, so that git itself shows what evolved: `git -C PATH log dev`,
    `git -C PATH show dev:artifacts/ID/state/KEY`. Any number of processes may have one path open:
    writers exclude each other by a lock, every commit is a compare and swap of its artifact's
    version, and readers wait for nobody. git itself may read and write meanwhile. Configuration,
    hooks and environment of the user's git have no effect.

    Calls work on a thread of the ledger's own: one that is cancelled before its work has begun does
    nothing, a later one finishes first.

    Every method raises a LedgerError if git or the file system fails, and LedgerClosed before
    `open` and after `close`.

    Args:
        path: The directory; made by `open` where it is missing, never removed.
        lock_timeout: Seconds that a write waits for other writers before it raises LedgerBusy.
        durability: What a commit that returned survives: "process", the death of the process, and
            after a power failure `open` finds the newest commit that is intact; "power", a power
            failure as well, for a commit that takes some ten times as long; "none", for what nobody
            keeps. A ledger that was closed survives a power failure, but for "none".
        exclusive: Refuse to open what another run has open.
        faults: For tests: told of every step.

    Attributes:
        path: The directory.
        run_id: Names this run among all that open the ledger.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        lock_timeout: float = 30.0,
        durability: Durability = "process",
        exclusive: bool = False,
        faults: Faults | None = None,
    ) -> None:
        if durability not in get_args(Durability):
            raise ContractError(
                f"durability {durability!r} is none of {', '.join(get_args(Durability))}"
            )
        self.path: Path = Path(path).absolute()
        self.run_id: str = new_run()
        self._durability: Durability = durability
        self._exclusive, self._faults = exclusive, faults or NoFaults()
        self._lock_timeout = lock_timeout
        self._lock = WriteLock(self.path, timeout=lock_timeout)
        self._worker = anyio.CapacityLimiter(1)
        self._threads = DaemonThreads()
        self._session: Session | None = None
        self._closed = False

    async def open(self) -> None:
        """Open the repository and put it in order; nothing happens if it is open.

        It is made if there is none. What a dead run left locked is unlocked; after a crash or a
        power failure every object is checked, damaged ones are put aside and the branches step back
        to the newest version that is intact, with a RuntimeWarning. A ledger that may not be
        written is opened as it is, for reading.

        Raises:
            LedgerRefused: If the path holds something else or a newer format, or another run has
                it open and `exclusive` is wanted. Nothing is touched.
            LedgerDamaged: If nothing intact is left. Nothing is changed.
            LedgerBusy: If another run keeps the lock for `lock_timeout`.
        """
        if self._session is None:
            if self._closed:
                self._ready()
            await self._work("open", self._prepare)
            with translated("open", self.path, writing=True):
                await self._enter()
            _tell(self._ready())

    @property
    def dead_runs(self) -> tuple[Owner, ...]:
        """The runs that had died over the ledger when this one opened it."""
        return self._ready().dead

    async def live_runs(self) -> tuple[Owner, ...]:
        """The other runs that have the ledger open now."""
        return await self._work("look", lambda: self._ready().live())

    async def read(self, branch: str = DEV) -> dict[str, Stored]:
        """Every artifact on the tip of `branch`, by id; keys of a state are sorted."""
        return await self._work("read", lambda: self._ready().store.read(branch))

    async def log(self, branch: str = DEV, limit: int = 20) -> list[str]:
        """`"<7 hex> <subject>"` of the newest commits, newest first."""
        return await self._work("log", lambda: self._ready().store.log(branch, limit))

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
            if self._session and self._session.is_crowded:
                await self._work("pack", self._session.pack)
                _tell(self._session)

    async def register(self, entry: Stored) -> Stored:
        """Add an artifact at version 1 to both branches unless it is there; return what is.

        Raises:
            ContractError: If the state is not JSON; nothing was locked.
        """
        files = codec.encode(entry.artifact_id, entry.state)
        async with self.locked():
            return await self._write("register", lambda store: store.register(entry, files))

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
        return await self._write("commit", lambda store: store.commit(entry, files, base, note))

    async def adopt(self, artifact_id: str) -> SavedSearch | None:
        """The newest state of a search for the artifact whose run is no longer alive, or None.

        It is this run's from now on. A commit that its run did not live to acknowledge is finished.
        A RuntimeWarning tells of searches that are too damaged to be adopted.
        """
        async with self.locked():
            alive = await self._work("look", lambda: self._ready().alive())
            adopted = await self._write("adopt", lambda store: store.adopt(artifact_id, alive))
        _tell(self._ready())
        return adopted

    async def save(self, save: SearchSave) -> None:
        """Write the state of this run's search.

        Raises:
            ContractError: If it is not JSON; nothing was written.
        """
        async with self.locked():
            await self._write("save", lambda store: store.save(save))

    async def commit_with_search(
        self, entry: Stored, base: int, note: CommitNote, save: SearchSave
    ) -> tuple[str, int]:
        """As `commit`, with the state of this run's search: both are there after it, or neither.

        If the process dies in between, whoever adopts the search finishes the commit.
        """
        files = codec.encode(entry.artifact_id, entry.state)
        return await self._write(
            "commit", lambda store: store.commit(entry, files, base, note, save)
        )

    async def promote(self, artifact_id: str) -> int | None:
        """Copy an artifact from dev to stable; return its version there, None if it is unknown.

        Nothing is written when both agree already.
        """
        async with self.locked():
            return await self._write("promote", lambda store: store.promote(artifact_id))

    async def rollback(self, artifact_id: str, to: int) -> int:
        """Give an artifact on dev the state of version `to` again; return its version then.

        That is a new version, on top of all others. Nothing is written if it has the state already.

        Raises:
            NotInLedger: If there is no such artifact or version.
        """
        async with self.locked():
            return await self._write("rollback", lambda store: store.rollback(artifact_id, to))

    async def close(self) -> None:
        """Sync and pack what has to be, and release everything; may be called again.

        It goes on to its end whatever is cancelled, and later calls fail from its beginning.
        """
        self._closed = True
        try:
            with anyio.CancelScope(shield=True):
                session = await self._work("close", self._take)
                if session:
                    await self._leave(session)
        finally:
            self._threads.close()

    def _ready(self) -> "Session":
        if self._session is None:
            reason = "closed" if self._closed else "not open: await open() first"
            raise LedgerClosed(f"the git ledger is {reason}", repo_path=str(self.path))
        return self._session

    def _own(self) -> "Store":
        session = self._ready()
        session.own()
        return session.store

    def _prepare(self) -> None:
        from agentdescent.ledger.repository import prepare  # noqa: PLC0415 - git loads on first use

        prepare(self.path, self._terms())

    async def _enter(self) -> None:
        """Open under the lock; without it what may not be written."""
        async with AsyncExitStack() as stack:
            writable = self._exclusive or await self._work("open", self._is_writable)
            if writable:
                await stack.enter_async_context(self._lock.hold())
            begin = partial(self._begin, held=self._lock.held, writable=writable)
            await self._work("open", begin, writing=writable)

    def _is_writable(self) -> bool:
        git_dir = self.path / ".git"
        lock, heads = self.path / WriteLock.FILE, git_dir / "refs" / "heads"
        return is_writable(git_dir, git_dir / "objects", heads, lock)

    def _begin(self, *, held: bool, writable: bool) -> None:
        from agentdescent.ledger.session import Session  # noqa: PLC0415 - git loads on first use

        if self._closed:
            self._ready()
        if self._session is None:
            self._session = Session(self.path, self._terms(), held=held, writable=writable)

    def _terms(self) -> Terms:
        return Terms(self._durability, self._exclusive, self._faults, self.run_id)

    def _take(self) -> "Session | None":
        session, self._session = self._session, None
        return session

    async def _leave(self, session: "Session") -> None:
        try:
            with suppress(LedgerError):  # whoever has the lock, or opens next, will tidy up
                if await self._work("close", session.is_untidy):
                    await self._tidy(session)
        finally:
            await self._work("close", session.leave, writing=True)
            _tell(session)

    async def _tidy(self, session: "Session") -> None:
        async with AsyncExitStack() as stack:
            with translated("lock", self.path, writing=True):
                await stack.enter_async_context(self._lock.hold(_LEAVING_S))
            await self._work("close", partial(session.pack, leaving=True))

    async def _write(self, operation: str, step: Callable[["Store"], T]) -> T:
        """Run `step` until no other program is moving the branch."""
        patience, watch = Patience(self._lock_timeout), Watch()
        while True:
            try:
                return await self._work(operation, lambda: step(self._own()), writing=True)
            except Contended as contended:
                if not await patience.wait():
                    raise LedgerBusy(
                        f"{contended} for {self._lock_timeout:g} s",
                        operation=operation,
                        repo_path=str(self.path),
                        hint="end what else uses this git repository",
                    ) from contended
                if self._lock.held:
                    look = partial(watch.remove, contended.lock, anyio.current_time())
                    _warn_of(await self._work(operation, look))

    async def _work(self, operation: str, step: Callable[[], T], *, writing: bool = False) -> T:
        """Run `step` in a thread, one at a time; one that has begun is waited for in any case."""

        def translating() -> T:
            with translated(operation, self.path, writing=writing):
                return step()

        async with self._worker:
            return await self._threads.finish(translating)


def _tell(session: "Session") -> None:
    """Warn, on the event loop, of what the ledger's thread had to do."""
    _warn_of(*session.take_warnings())


def _warn_of(*texts: str | None) -> None:
    for text in filter(None, texts):
        warnings.warn(text, RuntimeWarning, stacklevel=2)
