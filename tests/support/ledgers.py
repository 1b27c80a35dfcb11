"""Short forms for tests of ledgers."""

from agentdescent.core.artifact import TEXT_CONTRACT
from agentdescent.core.store import CommitNote, Stored

NOTE = CommitNote("merge w0:1")


def stored(state=None, artifact_id="skill", *, contract=TEXT_CONTRACT, blast_radius=0.2):
    """An artifact to register or commit."""
    return Stored(
        artifact_id, {"rule": "be brief"} if state is None else state, 0, blast_radius, contract
    )


async def commit(ledger, state, base, artifact_id="skill", note=NOTE):
    """Commit a state under the lock; return (commit id, version)."""
    async with ledger.locked():
        return await ledger.commit(stored(state, artifact_id), base, note)


async def state_of(ledger, artifact_id="skill", branch="dev"):
    """The state and version of an artifact."""
    entry = (await ledger.read(branch))[artifact_id]
    return dict(entry.state), entry.version
