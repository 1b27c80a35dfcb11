"""The ledger as aggregators see it: reads from memory, commits that publish."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import anyio

from agentdescent.core.artifact import Contract, EvolvingArtifact, Runtime
from agentdescent.core.diff import State
from agentdescent.core.events import Committed, Emit
from agentdescent.core.evidence import EvidenceCard
from agentdescent.core.merging import LedgerSnapshot
from agentdescent.core.protocols import Strategy
from agentdescent.core.store import CommitNote, LedgerStore, Stored
from agentdescent.engine.head import Head
from agentdescent.engine.messages import Snapshot
from agentdescent.engine.plugins import render
from agentdescent.engine.search import Search
from agentdescent.errors import CASConflict, ContractError, ContractRejected
from agentdescent.threads import either


class LedgerView:
    """Joins the ledger and the head, so that they never disagree about what is newest."""

    def __init__(  # noqa: PLR0913 - it joins what else knows nothing of each other
        self,
        *,
        store: LedgerStore,
        head: Head,
        strategy: Strategy,
        artifact: EvolvingArtifact,
        runtime: Runtime | None,
        on_publish: Callable[[Snapshot], None],
        round_index: Callable[[], int],
        emit: Emit | None,
        search: Search | None = None,
    ) -> None:
        self._store = store
        self._head = head
        self._strategy = strategy
        self._identity = artifact
        self._runtime = runtime
        self._on_publish = on_publish
        self._round_index = round_index
        self._save = store.commit if search is None else search.commit
        self._emit = emit

    @property
    def artifact(self) -> EvolvingArtifact:
        """The head as an artifact."""
        head = self._head.snapshot
        return self._artifact(head.version, head.state, self._identity.contract)

    @either
    async def snapshot(self, branch: str = "dev") -> LedgerSnapshot:
        """The artifacts and versions of `branch`; `dev` is read from memory."""
        if branch == "dev":
            artifact = self.artifact
            return LedgerSnapshot({artifact.id: artifact}, {artifact.id: artifact.version})
        stored = await self._store.read(branch)
        artifacts = {
            name: self._artifact(entry.version, entry.state, entry.contract, name)
            for name, entry in stored.items()
        }
        return LedgerSnapshot(artifacts, {name: a.version for name, a in artifacts.items()})

    @either
    async def head_version(self, branch: str = "dev") -> Mapping[str, int]:
        """The version of every artifact on `branch`."""
        return {name: entry.version for name, entry in (await self._store.read(branch)).items()}

    @either
    async def refresh(self) -> LedgerSnapshot:
        """Publish what another run has committed since; then as `snapshot`."""
        stored = (await self._store.read()).get(self._identity.id)
        if stored is not None and stored.version > self._head.snapshot.version:
            foreign = self._rendered(stored.version, stored.state)
            self._head.publish(foreign)
            self._on_publish(foreign)
        return await self.snapshot()

    @either
    async def commit(
        self,
        artifact: EvolvingArtifact,
        base_version: Mapping[str, int],
        branch: str = "dev",
        message: str | CommitNote = "",
    ) -> tuple[str, int]:
        """Commit `artifact` as the next version and announce it, as one step.

        Waiting for the lock can be cancelled; the commit cannot: the ledger and the head must never
        disagree about which version is newest.

        Raises:
            CASConflict: If `base_version` does not name the newest version.
            ContractRejected: If the artifact's contract is not the registered one.
            ContractError: If it is another artifact or branch than the run evolves.
        """
        self._refuse_foreign(artifact, branch)
        base = base_version.get(artifact.id)
        if base is None:
            raise CASConflict(f"base_version names no version of {artifact.id!r}")
        note = CommitNote(subject=message) if isinstance(message, str) else message
        note = replace(note, round=self._round_index())
        next_head = self._rendered(base + 1, artifact.state)
        entry = Stored(
            artifact.id, next_head.state, base, self._identity.blast_radius, artifact.contract
        )
        async with self._store.locked():
            return await self._commit_and_publish(entry, note, next_head)

    @either
    async def promote_to_stable(self, artifact_id: str) -> int | None:
        """Copy the artifact from `dev` to `stable`; its version there, None if unknown."""
        return await self._store.promote(artifact_id)

    @either
    async def log(self, branch: str = "dev", limit: int = 20) -> list[str]:
        """The newest commits as `"<7 hex> <subject>"`, newest first."""
        return await self._store.log(branch, limit)

    def lag(self, card: EvidenceCard) -> int:
        """How many commits since the card's base set or deleted one of its keys."""
        head = self._head.snapshot.version
        return self._head.lag(card.diff.ops, card.base_version.get(self._identity.id, head))

    async def _commit_and_publish(
        self, entry: Stored, note: CommitNote, next_head: Snapshot
    ) -> tuple[str, int]:
        with anyio.CancelScope(shield=True):
            commit = await self._save(entry, entry.version, note)
            self._head.publish(next_head, own=True)
            self._on_publish(next_head)
            if self._emit is not None:
                now = anyio.current_time()
                self._emit(Committed(now, entry.artifact_id, next_head.version, commit[0]))
            return commit
        raise AssertionError("a scope that nobody cancels swallows nothing")

    def _rendered(self, version: int, state: State) -> Snapshot:
        ordered = {key: state[key] for key in sorted(state)}
        return Snapshot(version, ordered, render(self._strategy, ordered))

    def _artifact(
        self, version: int, state: State, contract: Contract, name: str | None = None
    ) -> EvolvingArtifact:
        return EvolvingArtifact(
            id=name or self._identity.id,
            state=state,
            version=version,
            blast_radius=self._identity.blast_radius,
            strategy=self._strategy,
            runtime=self._runtime,
            contract=contract,
            constraints=self._identity.constraints,
        )

    def _refuse_foreign(self, artifact: Any, branch: str) -> None:
        mine = self._identity
        if branch != "dev" or artifact.id != mine.id:
            raise ContractError(
                f"this run evolves {mine.id!r} on branch dev; a commit of {artifact.id!r} on "
                f"branch {branch} was refused; use promote_to_stable for stable"
            )
        if not mine.contract.is_compatible_with(artifact.contract):
            raise ContractRejected(
                f"{mine.id!r} is registered with contract major {mine.contract.major}, the commit "
                f"carries {artifact.contract.major}; register it under another artifact_id"
            )
