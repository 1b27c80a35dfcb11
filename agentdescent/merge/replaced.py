"""Stages that a policy has replaced: it is asked, and its answer is checked."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from inspect import isawaitable
from typing import Any, TypeVar, cast

from agentdescent.core.artifact import EvolvingArtifact
from agentdescent.core.diff import Diff
from agentdescent.core.evidence import EvidenceCard
from agentdescent.core.merging import Verdict
from agentdescent.errors import PluginError
from agentdescent.merge.record import Merge
from agentdescent.merge.union import Union, fitting
from agentdescent.policy.bundle import (
    AcceptancePolicy,
    AcceptDecision,
    ConflictPolicy,
    FusionPolicy,
    MergeContext,
)
from agentdescent.policy.stats import accepted_risk
from agentdescent.threads import awaited, called

T = TypeVar("T")


async def answer(method: Callable[..., Any], *args: object) -> Any:
    """What a method of a policy says, be it `def` or `async def`."""
    value = called(method, *args)
    return await awaited(value) if isawaitable(value) else value


async def judged(
    merge: Merge, candidate: EvolvingArtifact, policy: AcceptancePolicy, compared: int
) -> Verdict:
    """The verdict of `policy`, to whom both sides are shown on every held-out task.

    Raises:
        PluginError: If it gives anything but a decision.
    """
    measured: Verdict = await merge.verifier.gate(merge.artifact, candidate, 0.0, curtail=False)
    if measured.undecided:
        return measured
    diff = merge.artifact.diff(candidate)
    held_out, config = merge.verifier.held_out, merge.config
    context = MergeContext(
        merge.artifact,
        candidate,
        diff,
        [card for card in merge.cards if card.diff.ops.keys() & diff.ops.keys()],
        await merge.verifier.evaluate(merge.artifact, held_out),
        await merge.verifier.evaluate(candidate, held_out),
        accepted_risk(
            merge.artifact.version,
            base_delta=config.base_delta,
            half_life=config.anneal_half_life,
        ),
        compared,
    )
    decision = await answer(policy.decide, context)
    if not isinstance(decision, AcceptDecision):
        raise PluginError(
            f"acceptance.decide must return an AcceptDecision, got {type(decision).__name__} "
            f"{decision!r:.80}; write AcceptDecision(accept=...)"
        )
    merge.opinions.append((context, decision))
    return replace(
        measured,
        accepted=decision.accept,
        probability=decision.p_improve,
        bar=1.0 - context.delta,
        detail=decision.detail,
    )


async def tell(merge: Merge, candidate: EvolvingArtifact) -> None:
    """Let the acceptance policy know how the merge ended, if it was asked and wants to."""
    learn: Callable[..., Any] | None = getattr(merge.policies.acceptance, "learn", None)
    if learn is None:
        return
    for context, decision in merge.opinions:
        if context.candidate.state == candidate.state:
            await answer(learn, context, decision, merge.committed is not None)


async def resolved(
    merge: Merge, cards: Sequence[EvidenceCard], policy: ConflictPolicy
) -> tuple[list[EvidenceCard], int]:
    """The cards that `policy` lets go on, and how many others there were.

    Raises:
        PluginError: If it gives anything but some of them.
    """
    said = await answer(policy.resolve, merge.artifact, list(cards), merge.verifier)
    kept = _some_of(cards, said, "conflict.resolve", "cards")
    return kept, len(cards) - len(kept)


async def fused_by(merge: Merge, diffs: Sequence[Diff], policy: FusionPolicy) -> Union | None:
    """The union of what `policy` chooses, as far as one commit may hold it; None for nothing.

    Raises:
        PluginError: If it chooses anything but some of `diffs`.
    """
    said = await answer(policy.choose, merge.artifact, list(diffs), merge.verifier)
    chosen = _some_of(diffs, said, "fusion.choose", "diffs")
    if not chosen:
        return None
    members = fitting(merge.artifact, chosen, merge.config.max_commit_ops)
    return Union.of(merge.artifact, members)


def _some_of(given: Sequence[T], said: Any, method: str, kind: str) -> list[T]:
    """Those of `given` that were said, in the order of `given`."""
    listed = list(cast("Iterable[Any]", said)) if isinstance(said, Iterable) else [said]
    chosen = {id(item) for item in listed}
    if not chosen <= {id(item) for item in given}:
        raise PluginError(
            f"{method} must return some of the {kind} it was given, got {listed!r:.80}; return "
            "them as they are, in any order, or [] for none"
        )
    return [item for item in given if id(item) in chosen]
