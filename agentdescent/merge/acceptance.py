"""Acceptance: the gate that every commit has passed, and what a refusal is called."""

from collections.abc import Sequence
from dataclasses import replace

from agentdescent.core.artifact import EvolvingArtifact
from agentdescent.core.diff import Diff
from agentdescent.core.evidence import TIE
from agentdescent.core.merging import Audit, Verdict
from agentdescent.core.outcomes import MergeOutcome
from agentdescent.core.task import Task
from agentdescent.merge.record import Merge
from agentdescent.merge.replaced import judged
from agentdescent.policy.governance import FAST_MAX
from agentdescent.policy.stats import commit_bar


async def gate(
    merge: Merge, candidate: EvolvingArtifact, along: Sequence[tuple[EvolvingArtifact, Task]] = ()
) -> Verdict:
    """Compare `candidate` with the head on the held-out tasks.

    Within one merge a candidate is judged once: later calls repeat the first verdict. Each one
    judged raises the bar for the next, for the best of several looks better than it is. `along` is
    what will be evaluated next if `candidate` is accepted.
    """
    known = merge.verdict_on(candidate)
    if known is not None:
        return known
    merge.full_gates += 1
    if merge.policies.acceptance is None:
        verdict: Verdict = await merge.verifier.gate(
            merge.artifact, candidate, bar(merge), curtail=not merge.audited, along=along
        )
    else:
        verdict = await judged(merge, candidate, merge.policies.acceptance, compared(merge))
        verdict = replace(verdict, accepted=verdict.accepted and not _is_vetoed(merge, verdict))
    merge.note(candidate, verdict)
    return verdict


def bar(merge: Merge) -> float:
    """What the probability of a gain has to exceed for the gate at hand."""
    config = merge.config
    return commit_bar(
        merge.artifact.version,
        base_delta=config.base_delta,
        half_life=config.anneal_half_life,
        k=compared(merge),
    )


def compared(merge: Merge) -> int:
    """How many candidates' scores on the same tasks led to the one at the gate.

    One, if the gate measures afresh: then nothing was chosen by the values that it judges.
    """
    if merge.config.multiplicity == "none" or getattr(merge.verifier, "confirm", 0) > 0:
        return 1
    return max(1, merge.rivals) + merge.full_gates - 1


def refuse(merge: Merge, diff: Diff, verdict: Verdict) -> tuple[MergeOutcome, str]:
    """Note that the gate turned `diff` down; the category and the reason.

    Without a verdict it may be tried again.
    """
    if not verdict.undecided:
        merge.refused.append(diff)
    if _is_vetoed(merge, verdict):
        reason = f"audit: gain {verdict.gain:+.3f} over {verdict.total} held-out tasks"
        return MergeOutcome.ORACLE_REJECTED, reason
    return MergeOutcome.BELOW_THRESHOLD, verdict.reason


def _is_vetoed(merge: Merge, verdict: Verdict) -> bool:
    """An audit vetoes every loss, and a tie above the blast radius that always is audited."""
    if not merge.audited or verdict.undecided:
        return False
    least = TIE if merge.artifact.blast_radius > FAST_MAX else -TIE
    return verdict.gain <= least


async def learn_trust(
    merge: Merge, candidate: EvolvingArtifact, verdict: Verdict, audit: Audit
) -> None:
    """Tell `audit` whether the ranking subset ordered head and candidate as all tasks do.

    Nothing is learned from a subset that is no smaller than the held-out set or sees no
    difference, nor from a gate that stopped early.
    """
    verifier = merge.verifier
    sees_all = len(verifier.ranking) >= len(verifier.held_out)
    if sees_all or verdict.curtailed or verdict.undecided:
        return
    before: float = await verifier.cheap_total(merge.artifact)
    after: float = await verifier.cheap_total(candidate)
    if abs(after - before) > TIE:
        audit.update_trust(merge.artifact.id, (after > before) == (verdict.gain > TIE))
