"""A ledger in memory, for runs that keep nothing and for tests in virtual time."""

import hashlib
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from types import MappingProxyType

import anyio

from agentdescent.core.store import CommitNote, Stored
from agentdescent.errors import LedgerClosed, LedgerDamaged
from agentdescent.ledger import codec, index, message
from agentdescent.ledger.codec import Files
from agentdescent.ledger.index import DEV, STABLE, Entry


@dataclass(frozen=True, slots=True)
class _Commit:
    """A commit with everything on it."""

    id: str
    subject: str
    index: index.Index
    files: Mapping[str, Files]


class MemoryLedger:
    """What a `GitLedger` does, without git: the same versions, conflicts, log and errors.

    Args:
        delay: Seconds that each commit takes; a commit that is cancelled meanwhile did not happen.
    """

    def __init__(self, *, delay: float = 0.0) -> None:
        self._delay = delay
        self._lock = anyio.Lock()
        self._branches: dict[str, list[_Commit]] = {}
        self._closed = False

    async def open(self) -> None:
        """Make the first commit of both branches; nothing happens if they have one."""
        if not self._branches and not self._closed:
            genesis = _Commit("0" * 40, "genesis", {}, {})
            self._branches = {DEV: [genesis], STABLE: [genesis]}
        self._history(DEV)

    async def read(self, branch: str = DEV) -> dict[str, Stored]:
        """Every artifact on the tip of `branch`, by id; keys of a state are sorted."""
        tip = self._history(branch)[-1]
        return {
            name: entry.stored(name, MappingProxyType(codec.decode(tip.files[name])))
            for name, entry in tip.index.items()
        }

    async def log(self, branch: str = DEV, limit: int = 20) -> list[str]:
        """`"<7 hex> <subject>"` of the newest commits, newest first."""
        newest = self._history(branch)[::-1][:limit]
        return [f"{commit.id[:7]} {commit.subject}" for commit in newest]

    @asynccontextmanager
    async def locked(self) -> AsyncGenerator[None]:
        """Keep every other writer out for a block; the wait can be cancelled. Not re-entrant."""
        self._history(DEV)
        async with self._lock:
            yield

    async def register(self, entry: Stored) -> Stored:
        """Add an artifact at version 1 to both branches unless it is there; return what is.

        Raises:
            ContractError: If the state is not JSON.
        """
        name = entry.artifact_id
        files = codec.encode(name, entry.state)
        async with self.locked():
            for branch in (STABLE, DEV):
                if name not in self._history(branch)[-1].index:
                    self._append(branch, name, Entry.of(entry, 1), files, message.registered(name))
            return (await self.read())[name]

    async def commit(self, entry: Stored, base: int, note: CommitNote) -> tuple[str, int]:
        """Replace an artifact's state on dev, inside `locked()`; return (commit id, version).

        Raises:
            CASConflict: If the artifact's version on dev is not `base`.
            ContractError: If the state is not JSON, or the contract is another.
        """
        name = entry.artifact_id
        files = codec.encode(name, entry.state)
        await anyio.sleep(self._delay)
        tip = self._history(DEV)[-1]
        index.check_base(tip.index, entry, base)
        text = message.committed(name, base, note, codec.decode(tip.files[name]), entry.state)
        made = self._append(DEV, name, Entry.of(entry, base + 1), files, text)
        return made.id, base + 1

    async def promote(self, artifact_id: str) -> int | None:
        """Copy an artifact from dev to stable; return its version there, None if it is unknown.

        Nothing is written when both agree already.
        """
        async with self.locked():
            dev, stable = self._history(DEV)[-1], self._history(STABLE)[-1]
            ours, theirs = dev.index.get(artifact_id), stable.index.get(artifact_id)
            if ours is None:
                return None
            files = dev.files[artifact_id]
            if theirs and ours.agrees_with(theirs) and files == stable.files[artifact_id]:
                return theirs.version
            entry = ours.after(theirs)
            text = message.promoted(artifact_id, entry.version, dev.id)
            self._append(STABLE, artifact_id, entry, files, text)
            return entry.version

    async def close(self) -> None:
        """Forget everything; later calls raise LedgerClosed. May be called again."""
        self._closed = True
        self._branches = {}

    def _history(self, branch: str) -> list[_Commit]:
        if not self._branches:
            reason = "closed" if self._closed else "not open: await open() first"
            raise LedgerClosed(f"the ledger is {reason}")
        if branch not in self._branches:
            raise LedgerDamaged(f"branch {branch!r} does not exist")
        return self._branches[branch]

    def _append(self, branch: str, name: str, entry: Entry, files: Files, text: str) -> _Commit:
        tip = self._history(branch)[-1]
        content = f"{tip.id}\n{text}\n{index.dump({name: entry})}{sorted(files.items())}"
        made = _Commit(
            hashlib.sha1(
                content.encode("utf-8", "surrogatepass"), usedforsecurity=False
            ).hexdigest(),
            message.subject_of(text),
            {**tip.index, name: entry},
            {**tip.files, name: files},
        )
        self._branches[branch].append(made)
        return made
