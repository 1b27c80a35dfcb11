"""What a ledger stores, and what it must do."""

from collections.abc import Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from typing import Any, Protocol

from agentdescent.core.artifact import Contract
from agentdescent.core.diff import State


@dataclass(frozen=True, slots=True)
class Stored:
    """One artifact as a ledger holds it."""

    artifact_id: str
    state: State
    version: int
    blast_radius: float
    contract: Contract


@dataclass(frozen=True, slots=True)
class CommitNote:
    """What a commit says about itself.

    Attributes:
        subject: E.g. "merge w2:7 + w0:7"; the ledger completes it with artifact, versions and
            rewards. "" gives "update".
        body: Free text for people.
        category: A `MergeOutcome` value, or "".
        round: The round or sweep.
        reward: Held-out reward (before, after).
    """

    subject: str = ""
    body: str = ""
    category: str = ""
    round: int | None = None
    reward: tuple[float, float] | None = None


@dataclass(frozen=True, slots=True)
class SearchSave:
    """The state of a search, to be written.

    Attributes:
        document: JSON values; replaces the one written before.
        pages: What is added to the pages written before, by name; a page never changes.
    """

    document: Mapping[str, Any]
    pages: Mapping[str, bytes] = field(default_factory=dict[str, bytes])


@dataclass(frozen=True, slots=True)
class SavedSearch:
    """The state of a search, as a ledger gave it back.

    Attributes:
        run: The run that wrote it.
        document: The last one it wrote.
        pages: Every page it wrote, by name.
        base: The artifact at the version that the document names as its `head`.
        commits: What has been committed since, oldest first: commit id and artifact.
    """

    run: str
    document: Mapping[str, Any]
    pages: Mapping[str, bytes]
    base: Stored
    commits: Sequence[tuple[str, Stored]] = ()


class LedgerStore(Protocol):
    """A repository of artifacts with the branches `dev` and `stable`."""

    async def open(self) -> None:
        """Create or open the repository; called once, before anything else."""
        ...

    async def read(self, branch: str = "dev") -> Mapping[str, Stored]:
        """Every artifact on the tip of `branch`, by id."""
        ...

    async def register(self, entry: Stored) -> Stored:
        """Add `entry` at version 1 on both branches unless it is there; return what is there."""
        ...

    def locked(self) -> AbstractAsyncContextManager[None]:
        """Hold the write lock; waiting for it can be cancelled."""
        ...

    async def commit(self, entry: Stored, base: int, note: CommitNote) -> tuple[str, int]:
        """Replace the artifact's state on `dev`, under `locked()`; return (commit id, version).

        `entry.version` is ignored; the new version is `base` + 1. Cancelled, it either has not
        happened, or it goes on to its end and returns.

        Raises:
            CASConflict: If the artifact's version on `dev` is not `base`.
        """
        ...

    async def promote(self, artifact_id: str) -> int | None:
        """Copy the artifact from `dev` to `stable`; its new version there, None if unknown."""
        ...

    async def log(self, branch: str = "dev", limit: int = 20) -> list[str]:
        """`"<7 hex> <subject>"` of the newest commits, newest first."""
        ...

    async def close(self) -> None:
        """Release everything; later calls raise LedgerClosed. May be called again."""
        ...


class SearchStore(LedgerStore, Protocol):
    """A ledger that also keeps, for each run, the state of its search."""

    async def adopt(self, artifact_id: str) -> SavedSearch | None:
        """The newest state of a search for the artifact whose run is no longer alive, or None.

        It is this run's from now on: nobody else is given it.
        """
        ...

    async def live_runs(self) -> Sequence[object]:
        """The other runs that have the ledger open now; `str` of each says who it is."""
        ...

    async def save(self, save: SearchSave) -> None:
        """Write the state of this run's search; waiting for the lock can be cancelled."""
        ...

    async def commit_with_search(
        self, entry: Stored, base: int, note: CommitNote, save: SearchSave
    ) -> tuple[str, int]:
        """As `commit`, and `save` with it: after a crash at any point both are there, or neither.

        Raises:
            CASConflict: If the artifact's version on `dev` is not `base`.
        """
        ...
