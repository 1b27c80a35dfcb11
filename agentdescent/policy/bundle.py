"""The decisions of a run that can be replaced one by one, each by an object with its methods.

Methods may be `def` or `async def`; all are called on the event loop, one at a time.
"""

from collections.abc import Awaitable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

from agentdescent.core.artifact import EvolvingArtifact
from agentdescent.core.contracts import require_methods
from agentdescent.core.diff import Diff
from agentdescent.core.evidence import EvidenceCard
from agentdescent.core.merging import VerifierProtocol
from agentdescent.core.outcomes import MergeReport
from agentdescent.core.protocols import StalenessPolicy, TaskSampler


@dataclass(frozen=True, slots=True)
class MergeContext:
    """What speaks for and against one candidate, measured in full.

    Attributes:
        artifact: The head, which `candidate` would replace.
        candidate: The head with `diff`.
        diff: The edit.
        cards: The evidence for it: every card of the merge that sets one of its keys.
        before: Rewards of the head, one per held-out task, each in [0, 1].
        after: Rewards of the candidate on the same tasks in the same order.
        delta: The accepted risk of a false commit at the head's version.
        compared: How many candidates' rewards on these tasks led to this one, itself included.
    """

    artifact: EvolvingArtifact
    candidate: EvolvingArtifact
    diff: Diff
    cards: Sequence[EvidenceCard]
    before: Sequence[float]
    after: Sequence[float]
    delta: float
    compared: int = 1

    @property
    def base_counts(self) -> tuple[float, float]:
        """(successes, failures) of the head; fractional for graded rewards."""
        return _counts(self.before)

    @property
    def cand_counts(self) -> tuple[float, float]:
        """(successes, failures) of the candidate."""
        return _counts(self.after)

    @property
    def gain(self) -> float:
        """Mean paired difference."""
        return (sum(self.after) - sum(self.before)) / len(self.before)


def _counts(rewards: Sequence[float]) -> tuple[float, float]:
    successes = sum(rewards)
    return successes, len(rewards) - successes


@dataclass(frozen=True, slots=True)
class AcceptDecision:
    """What an acceptance policy says.

    Attributes:
        accept: The candidate may be committed.
        p_improve: Its probability of being better, as far as the policy has one; reported as
            `prob_improve`.
        detail: One line with the numbers, for people and reflectors.
    """

    accept: bool
    p_improve: float = 0.0
    detail: str = ""


class AcceptancePolicy(Protocol):
    """Judges candidates, instead of the exact paired gate.

    A policy that has them is also told by `learn(context, decision, committed)` how each merge
    ended, and its state outlives the process by `dump()` and `restore(saved)`.
    """

    def decide(self, context: MergeContext, /) -> AcceptDecision | Awaitable[AcceptDecision]:
        """Judge one candidate; one merge may ask about several unions.

        In an audited merge a loss, and above a blast radius of 0.30 also a tie, is refused
        whatever this says.
        """
        ...


class ConflictPolicy(Protocol):
    """Chooses among edits that contradict each other."""

    def resolve(
        self,
        artifact: EvolvingArtifact,
        cards: Sequence[EvidenceCard],
        verifier: VerifierProtocol,
        /,
    ) -> Sequence[EvidenceCard] | Awaitable[Sequence[EvidenceCard]]:
        """Those of `cards` that go on; of two that still contradict, the later one waits.

        All rivals count as compared, which raises the bar of the gate for the one that is left.
        """
        ...


class FusionPolicy(Protocol):
    """Chooses which edits are put to the gate together, instead of one union cleared by blame."""

    def choose(
        self, artifact: EvolvingArtifact, diffs: Sequence[Diff], verifier: VerifierProtocol, /
    ) -> Sequence[Diff] | Awaitable[Sequence[Diff]]:
        """Those of `diffs`, the most promising first, that make one commit; [] for none.

        The others wait for the next merge.
        """
        ...


class PromotionPolicy(Protocol):
    """Decides when `dev` becomes `stable`.

    Its state outlives the process by `dump()` and `restore(saved)`, if it has them.
    """

    def after_step(
        self, reports: Sequence[MergeReport], /
    ) -> Iterable[str] | Awaitable[Iterable[str]]:
        """The ids of the artifacts to promote now; `reports`, perhaps none, are the step's."""
        ...

    def at_end(self) -> Iterable[str] | Awaitable[Iterable[str]]:
        """The ids of the artifacts to promote at the end of a clean run."""
        ...


@dataclass(frozen=True, slots=True)
class Policies:
    """One replacement for each decision; None leaves it as it is.

    The first four are stages of the reference aggregator, so they are refused together with an
    `aggregator_factory`, which may or may not have such stages.

    Attributes:
        acceptance: Judges candidates. Default: the exact paired gate.
        conflict: Chooses among contradicting edits. Default: by their held-out reward.
        fusion: Chooses what is gated together. Default: one union, without those to blame.
        promotion: Decides when `dev` becomes `stable`. Default: after `promote_after_k` steps
            without a change, and at the end.
        staleness: What becomes of diffs against older versions; as `staleness_policy=`.
        task_sampler: Which task a worker takes next; as `task_sampler=`.

    Raises:
        TypeError: If a policy does not have the methods of its stage.
    """

    acceptance: AcceptancePolicy | None = None
    conflict: ConflictPolicy | None = None
    fusion: FusionPolicy | None = None
    promotion: PromotionPolicy | None = None
    staleness: StalenessPolicy | None = None
    task_sampler: TaskSampler | None = None

    def __post_init__(self) -> None:
        for name, policy in self.stages().items():
            require_methods(f"policies.{name}", policy, _STAGES[name])

    def stages(self) -> dict[str, object]:
        """The replaced stages of the reference aggregator, by name."""
        found = {name: getattr(self, name) for name in _STAGES}
        return {name: policy for name, policy in found.items() if policy is not None}


_STAGES = {
    "acceptance": ("decide",),
    "conflict": ("resolve",),
    "fusion": ("choose",),
    "promotion": ("after_step", "at_end"),
}
_APART = {
    "staleness": ("staleness_policy", ("decide",)),
    "task_sampler": ("task_sampler", ("pick", "record")),
}


def bundled(options: Mapping[str, Any]) -> Policies:
    """The policies that the arguments of a run ask for, in the bundle and apart from it.

    Args:
        options: The arguments by name.

    Raises:
        TypeError: If `policies` is no bundle, or a policy does not have the methods it needs.
        ValueError: If a policy is given twice, or a stage together with an `aggregator_factory`.
    """
    policies = Policies() if options["policies"] is None else options["policies"]
    if not isinstance(policies, Policies):
        raise TypeError(
            f"policies must be Policies, got {type(policies).__name__}; write "
            "policies=Policies(acceptance=...)"
        )
    stages = sorted(policies.stages())
    if stages and options["aggregator_factory"] is not None:
        raise ValueError(
            f"aggregator_factory= replaces the stages that policies={stages} are for; give one of "
            "the two, or hand the policies to Aggregator(..., policies=) in your factory"
        )
    return replace(policies, **{name: _apart(name, policies, options) for name in _APART})


def _apart(name: str, policies: Policies, options: Mapping[str, Any]) -> Any:
    """The policy that has an argument of its own, wherever it was given."""
    argument, methods = _APART[name]
    inside, outside = getattr(policies, name), options[argument]
    if inside is not None and outside is not None:
        raise ValueError(
            f"{argument}= and policies=Policies({name}=...) replace the same decision; give one"
        )
    policy = outside if inside is None else inside
    if policy is not None:
        require_methods(argument, policy, methods)
    return policy
