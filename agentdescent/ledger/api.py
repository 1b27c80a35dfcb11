"""The ledger for scripts and notebooks: read its history, take a version back, promote one."""

import os
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from agentdescent.blocking import run_blocking
from agentdescent.core.diff import State
from agentdescent.ledger.git import GitLedger
from agentdescent.ledger.history import Changes, Version
from agentdescent.ledger.index import DEV, STABLE
from agentdescent.threads import in_thread

if TYPE_CHECKING:
    from agentdescent.ledger.reader import Reader

T = TypeVar("T")

_ARTIFACT = "artifact"
"""The id that a run gives its artifact unless told otherwise."""


class Ledger:
    """The ledger that a run keeps at its `repo_path`.

    Reading takes no lock, waits for nobody and leaves no trace: it works while a run writes and
    where nothing may be written, and does not disturb either. It opens and closes the repository
    each time, so an object of this class holds nothing. Writing does what a run does: it waits for
    the lock, and a run whose artifact changes meanwhile goes on from the new version.

    Methods that read raise LedgerRefused where there is no ledger, NotInLedger, which is a
    KeyError, for what it does not have, and LedgerDamaged for what cannot be read any more.

    Args:
        path: The `repo_path` of the run.
        lock_timeout: Seconds that `rollback` and `promote` wait for others before LedgerBusy.

    Attributes:
        path: The directory.
    """

    def __init__(self, path: str | os.PathLike[str], *, lock_timeout: float = 30.0) -> None:
        self.path: Path = Path(path).absolute()
        self._lock_timeout = lock_timeout

    def artifacts(self, branch: str = DEV) -> dict[str, int]:
        """The newest version of every artifact, by id."""

        def step(reader: "Reader") -> dict[str, int]:
            found = reader.index(reader.tip(branch))
            return {name: entry.version for name, entry in found.items()}

        return self._read(step)

    def history(self, artifact: str = _ARTIFACT, branch: str = DEV) -> list[Version]:
        """Every version of an artifact, the oldest first; their numbers are 1, 2, 3, ..."""
        return self._read(lambda reader: reader.history(reader.tip(branch), artifact))

    def version(
        self, number: int | None = None, artifact: str = _ARTIFACT, branch: str = DEV
    ) -> Version:
        """One version of an artifact; the newest by default."""

        def step(reader: "Reader") -> Version:
            found = reader.find(reader.tip(branch), artifact, number)
            return reader.version(*found, artifact)

        return self._read(step)

    def at(self, version: int | None = None, artifact: str = _ARTIFACT, branch: str = DEV) -> State:
        """The state that an artifact has at a version, read-only; the newest by default.

        `strategy.render(state)` turns it into the text that the agent is given.
        """

        def step(reader: "Reader") -> State:
            _, commit = reader.find(reader.tip(branch), artifact, version)
            return reader.state(commit, artifact)

        return self._read(step)

    def diff(self, a: int, b: int, artifact: str = _ARTIFACT, branch: str = DEV) -> Changes:
        """What leads from version `a` to version `b`; ``print`` it for unified diffs."""
        return self._read(lambda reader: reader.changes(reader.tip(branch), artifact, a, b))

    def log(self, limit: int = 20, branch: str = DEV) -> list[str]:
        """`"<7 hex> <subject>"` of the newest commits of all artifacts, newest first."""

        def step(reader: "Reader") -> list[str]:
            commits = zip(range(limit), reader.commits(reader.tip(branch)), strict=False)
            return [f"{commit.id[:7]} {commit.message.subject}" for _, commit in commits]

        return self._read(step)

    def rollback(self, to: int, artifact: str = _ARTIFACT) -> Version:
        """Commit the state of version `to` again, as a new version of dev; return that version.

        History stays as it was. Nothing is written, and the newest version is returned, if that
        has the state already.

        Raises:
            LedgerError: If it cannot be written; LedgerBusy if others keep the lock.
            RunningLoopError: If an event loop is running here; await `arollback` there.
        """
        return run_blocking(
            partial(self.arollback, to, artifact),
            caller="Ledger.rollback()",
            instead="await ledger.arollback(...)",
        )

    async def arollback(self, to: int, artifact: str = _ARTIFACT) -> Version:
        """As `rollback`; cancelled, it has happened or it has not."""
        return await self._write(lambda ledger: ledger.rollback(artifact, to), artifact, DEV)

    def promote(self, artifact: str = _ARTIFACT) -> Version:
        """Commit the newest version of dev to stable; return the version that it is there.

        Nothing is written if both agree already.

        Raises:
            LedgerError: If it cannot be written; LedgerBusy if others keep the lock.
            RunningLoopError: If an event loop is running here; await `apromote` there.
        """
        return run_blocking(
            partial(self.apromote, artifact),
            caller="Ledger.promote()",
            instead="await ledger.apromote(...)",
        )

    async def apromote(self, artifact: str = _ARTIFACT) -> Version:
        """As `promote`; cancelled, it has happened or it has not."""
        return await self._write(lambda ledger: ledger.promote(artifact), artifact, STABLE)

    async def _write(
        self, step: Callable[[GitLedger], Awaitable[int | None]], artifact: str, branch: str
    ) -> Version:
        await in_thread(self.artifacts)  # raises where opening would make a ledger
        ledger = GitLedger(self.path, lock_timeout=self._lock_timeout)
        try:
            await ledger.open()
            number = await step(ledger)
        finally:
            await ledger.close()
        return await in_thread(self.version, number, artifact, branch)

    def _read(self, step: Callable[["Reader"], T]) -> T:
        from agentdescent.ledger.reader import read  # noqa: PLC0415 - git loads on first use

        return read(self.path, "read", step)
