"""Committing an accepted candidate, whoever else writes to the ledger."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from random import Random

import anyio

from agentdescent.config import AggregatorConfig
from agentdescent.core.artifact import EvolvingArtifact
from agentdescent.core.diff import Diff
from agentdescent.core.evidence import EvidenceCard
from agentdescent.core.merging import ArtifactLedger, LedgerSnapshot, Verdict
from agentdescent.core.outcomes import MergeOutcome
from agentdescent.core.store import CommitNote
from agentdescent.errors import CASConflict
from agentdescent.merge.candidates import signature
from agentdescent.merge.joining import moved, overruns
from agentdescent.merge.record import Merge

NAMED = 4
"""A commit's subject names this many proposals at most."""


class Committer:
    """Commits with compare-and-swap, and re-applies the diff when another writer was first."""

    def __init__(
        self, ledger: ArtifactLedger, config: AggregatorConfig, random: Random | None = None
    ) -> None:
        self._ledger = ledger
        self._config = config
        self._random = random or Random(0)  # noqa: S311 - spreads writers, guards nothing

    async def commit(
        self, merge: Merge, candidate: EvolvingArtifact, diff: Diff, verdict: Verdict
    ) -> int | None:
        """Commit `candidate`, which is the head with `diff`, on whatever the head has become.

        Returns:
            The new version, or None if other writers were first at every attempt, or what they
            made of the head already has the change, has no room for it, or would be undone by it.

        Raises:
            LedgerError: If the ledger fails.
        """
        head, note = merge.artifact, commit_note(merge, diff, verdict)
        for attempt in range(self._config.cas_attempts):
            try:
                version = await self._replace(head, candidate, note)
            except CASConflict:
                fresh = await self._newest(head.id, attempt)
            else:
                merge.committed = diff
                return version
            if fresh is None or overruns(diff, merge.artifact.state, fresh):
                break
            head, candidate = fresh, fresh.apply(moved(diff, merge.artifact.state, fresh))
            if candidate.state == head.state or head.violation(candidate.state):
                break
            note = replace(note, reward=None)  # it was measured on an older head
        merge.outrun = diff
        return None

    async def _replace(
        self, head: EvolvingArtifact, candidate: EvolvingArtifact, note: CommitNote
    ) -> int:
        base = {head.id: head.version}
        _, version = await self._ledger.commit(candidate, base, "dev", note)
        return int(version)

    async def _newest(self, artifact_id: str, attempt: int) -> EvolvingArtifact | None:
        if attempt + 1 < self._config.cas_attempts:
            await anyio.sleep(self._random.uniform(0, self._config.cas_backoff) * 2**attempt)
        snapshot: LedgerSnapshot = await self._ledger.refresh()
        return snapshot.get(artifact_id)


def commit_note(merge: Merge, diff: Diff, verdict: Verdict) -> CommitNote:
    """What the commit of `diff` says: whose it is, and what speaks for it."""
    cards = merge.members(diff)
    edits = len({signature(card.diff) for card in cards})
    counts = f"{len(verdict.won)} won, {len(verdict.lost)} lost"
    body = [
        f"{edits} proposals fused; {_agreement(cards)}." if edits > 1 else "",
        f"Held responsible for lost tasks: {merge.blamed}." if merge.blamed else "",
        f"{verdict.reason}; of {verdict.total} held-out tasks {counts}.",
    ]
    return CommitNote(
        subject=f"merge {_names(cards, merge.artifact.id) or diff.diff_id}",
        body="\n".join(filter(None, body)),
        category=MergeOutcome.COMMITTED,
        reward=(verdict.before, verdict.after),
    )


def _agreement(cards: Sequence[EvidenceCard]) -> str:
    """How it can be that several edits are one commit."""
    values: defaultdict[str, set[str]] = defaultdict(set)
    for card in cards:
        for key, value in card.diff.ops.items():
            values[key].add(repr(value))
    shared = sorted(key for key, found in values.items() if len(found) > 1)
    if not shared:
        return "no two of them disagree on a key"
    more = [f"{len(shared) - NAMED} more"] if len(shared) > NAMED else []
    return f"their changes to {', '.join([*shared[:NAMED], *more])} do not overlap"


def _names(cards: Sequence[EvidenceCard], artifact_id: str) -> str:
    """E.g. "w2:7 + w0:7": author and base version of each proposal."""
    names = list(
        dict.fromkeys(
            f"{card.diff.author}:{card.base_version.get(artifact_id, 0)}" for card in cards
        )
    )
    more = [f"{len(names) - NAMED} more"] if len(names) > NAMED else []
    return " + ".join([*names[:NAMED], *more])
