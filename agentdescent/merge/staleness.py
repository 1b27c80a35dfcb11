"""The staleness filter: what becomes of evidence made against an older version."""

import warnings
from collections.abc import Mapping, Sequence
from functools import partial
from inspect import isawaitable
from typing import Any

from agentdescent.config import AggregatorConfig
from agentdescent.core.artifact import EvolvingArtifact
from agentdescent.core.diff import vv_staleness
from agentdescent.core.evidence import TIE, EvidenceCard
from agentdescent.core.merging import ArtifactLedger, VerifierProtocol
from agentdescent.core.protocols import StaleAction, StalenessPolicy
from agentdescent.core.task import Task
from agentdescent.errors import PluginError
from agentdescent.merge.joining import caught_up
from agentdescent.merge.together import together
from agentdescent.policy.governance import tolerance


class StalenessFilter:
    """Asks a policy about every card, and verifies again those that it wants rebased."""

    def __init__(
        self,
        ledger: ArtifactLedger,
        verifier: VerifierProtocol,
        policy: StalenessPolicy,
        config: AggregatorConfig,
    ) -> None:
        self._ledger = ledger
        self._verifier = verifier
        self._policy = policy
        self._config = config
        self._warned = False

    async def sift(
        self, artifact: EvolvingArtifact, head: Mapping[str, int], cards: Sequence[EvidenceCard]
    ) -> tuple[list[EvidenceCard], int]:
        """The cards that may go on, based on `head` from now on, and how many may not.

        Where the strategy can join values, an edit keeps what was changed since it was made.
        """
        actions = [await self._decide(artifact, head, card) for card in cards]
        moved = [caught_up(card, artifact, head) for card in cards]
        judged = list(zip(moved, actions, strict=True))
        unproved = [card for card, action in judged if action == StaleAction.REBASE]
        still_helping = iter(await together(partial(self._still_helps, artifact), unproved))
        survivors = [
            card
            for card, action in judged
            if action == StaleAction.ACCEPT
            or (action == StaleAction.REBASE and next(still_helping))
        ]
        return survivors, len(cards) - len(survivors)

    async def _decide(
        self, artifact: EvolvingArtifact, head: Mapping[str, int], card: EvidenceCard
    ) -> StaleAction:
        breaking = card.diff.contract_breaking
        alpha = tolerance(
            artifact.blast_radius,
            contract_breaking=breaking,
            alpha_head=self._config.alpha_head,
            alpha_tail=self._config.alpha_tail,
        )
        if self._config.lag == "key" and not breaking:
            eta = self._ledger.lag(card)
        else:
            eta = vv_staleness(head, card.base_version)
        decision: Any = self._policy.decide(eta, alpha, breaking)
        return _action(await decision if isawaitable(decision) else decision)

    async def _still_helps(self, artifact: EvolvingArtifact, card: EvidenceCard) -> bool:
        """True if the head is no worse with the edit, over the card's own tasks."""
        candidate = artifact.apply(card.diff)
        if candidate.state == artifact.state or artifact.violation(candidate.state):
            return True  # nothing to measure; what breaks a constraint is refused for that
        tasks = [ref for ref in card.trajectory_refs if isinstance(ref, Task)]
        if not tasks:
            self._warn_once(card)
            return True
        without = await self._verifier.evaluate(artifact, tasks)
        with_it = await self._verifier.evaluate(candidate, tasks)
        return sum(with_it) >= sum(without) - TIE

    def _warn_once(self, card: EvidenceCard) -> None:
        if not self._warned:
            self._warned = True
            warnings.warn(
                f"evidence card {card.diff.diff_id!r} has nothing to score: its trajectory_refs "
                "hold no Task, so rebasing keeps it unverified; give it its Task objects",
                RuntimeWarning,
                stacklevel=2,
            )


def _action(decision: object) -> StaleAction:
    try:
        return StaleAction(decision)
    except ValueError:
        raise PluginError(
            f"staleness_policy.decide returned {decision!r}; it must return one of "
            f"{[action.value for action in StaleAction]}"
        ) from None
