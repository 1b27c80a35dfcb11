"""What an aggregator works with: the ledger, the verifier and the audit, as it sees them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from agentdescent.core.artifact import EvolvingArtifact
from agentdescent.core.evidence import EvidenceCard
from agentdescent.core.store import CommitNote
from agentdescent.core.task import Task


@dataclass(frozen=True, slots=True)
class LedgerSnapshot:
    """What an aggregator sees of a branch."""

    artifacts: Mapping[str, EvolvingArtifact]
    version: Mapping[str, int]

    def get(self, artifact_id: str) -> EvolvingArtifact | None:
        """The artifact of that name, or None."""
        return self.artifacts.get(artifact_id)


class ArtifactLedger(Protocol):
    """The ledger as aggregators are given it.

    Every method but `lag` is awaited on the event loop and blocks in a synchronous aggregator.
    """

    def snapshot(self, branch: str = "dev") -> Any:
        """The branch's artifacts and versions, as a `LedgerSnapshot`; `dev` is from memory."""
        ...

    def refresh(self) -> Any:
        """Read `dev` from the repository again, publish what others committed; a snapshot."""
        ...

    def commit(
        self,
        artifact: EvolvingArtifact,
        base_version: Mapping[str, int],
        branch: str = "dev",
        message: str | CommitNote = "",
    ) -> Any:
        """Commit a full replacement and publish it; (commit id, version).

        Raises:
            CASConflict: If `base_version` does not name the artifact's newest version.
            GovernanceError: If the artifact is frozen.
        """
        ...

    def promote_to_stable(self, artifact_id: str) -> Any:
        """Copy the artifact from `dev` to `stable`; its version there, None if unknown."""
        ...

    def log(self, branch: str = "dev", limit: int = 20) -> Any:
        """The newest commits as `"<7 hex> <subject>"`."""
        ...

    def lag(self, card: EvidenceCard) -> int:
        """How many commits since the card's base set or deleted one of its keys."""
        ...


@dataclass(frozen=True, slots=True)
class Verdict:
    """What the acceptance gate says of one candidate.

    Attributes:
        accepted: It may be committed.
        probability: P(gain) over a random half of the paired evidence; its upper bound when the
            gate stopped early.
        bar: What the probability had to exceed.
        before: Mean held-out reward of the head over the finished tasks.
        after: Mean held-out reward of the candidate over the finished tasks.
        finished: How many held-out tasks were scored.
        total: How many there are.
        won: Held-out tasks the candidate scores higher on, among the finished.
        lost: Held-out tasks it scores lower on, among the finished.
        undecided: Why no verdict was possible (a task could not be scored), or "".
        detail: What an acceptance policy says of it, instead of the usual `reason`.
    """

    accepted: bool
    probability: float
    bar: float
    before: float
    after: float
    finished: int
    total: int
    won: tuple[Task, ...] = ()
    lost: tuple[Task, ...] = ()
    undecided: str = ""
    detail: str = ""

    @property
    def gain(self) -> float:
        """Mean paired difference over the finished tasks."""
        return self.after - self.before

    @property
    def curtailed(self) -> bool:
        """The gate stopped before every task was scored."""
        return self.finished < self.total

    @property
    def reason(self) -> str:
        """One line with the numbers."""
        if self.undecided:
            return f"undecided: {self.undecided}"
        if self.detail:
            return self.detail
        if self.accepted:
            return f"P(delta>0) = {self.probability:.2f} > {self.bar:.2f}"
        if self.curtailed:
            seen = f"after {self.finished} of {self.total} tasks"
            if self.probability > self.bar:
                return f"no gain is left to be had {seen}"
            return f"P(delta>0) <= {self.probability:.2f} <= {self.bar:.2f} {seen}"
        return f"P(delta>0) = {self.probability:.2f}, bar {self.bar:.2f}, gain {self.gain:+.3f}"


class VerifierProtocol(Protocol):
    """Measures artifacts for an aggregator.

    Methods are awaited on the event loop and block in a synchronous aggregator. All of them go
    through one memo, so a value is paid for once.
    """

    @property
    def held_out(self) -> Sequence[Task]:
        """The held-out tasks, in their order."""
        ...

    @property
    def ranking(self) -> Sequence[Task]:
        """The held-out tasks that rivals are compared on."""
        ...

    def gate(
        self,
        head: EvolvingArtifact,
        candidate: EvolvingArtifact,
        bar: float,
        *,
        curtail: bool = True,
        along: Sequence[tuple[EvolvingArtifact, Task]] = (),
    ) -> Any:
        """Compare the two on the held-out tasks: a `Verdict`, curtailed once it is certain.

        `along` is what will be evaluated next if the candidate is accepted; while it looks as if
        it will be, that is measured along with the last held-out tasks.
        """
        ...

    def evaluate(self, artifact: EvolvingArtifact, tasks: Sequence[Task]) -> Any:
        """The reward of each of `tasks`, as a list."""
        ...

    def second(self, artifact: EvolvingArtifact, tasks: Sequence[Task]) -> Any:
        """A second reward of each of `tasks`, which owes nothing to the first, as a list."""
        ...

    def cheap_total(self, artifact: EvolvingArtifact, fraction: float = 1.0) -> Any:
        """The summed reward over the first `fraction` of the ranking subset."""
        ...

    def cheap_eval(self, artifact: EvolvingArtifact) -> Any:
        """The mean reward over the ranking subset of the held-out tasks."""
        ...

    def eval_counts(self, artifact: EvolvingArtifact) -> Any:
        """(successes, failures) over the held-out tasks; fractional for graded rewards."""
        ...

    def oracle_eval(self, artifact: EvolvingArtifact) -> Any:
        """The mean over all held-out tasks while the oracle budget lasts, else `cheap_eval`."""
        ...


class Audit(Protocol):
    """Decides which merges are checked against the ground truth."""

    def force_oracle(self, blast_radius: float, artifact_id: str) -> bool:
        """True if a merge of this artifact must be audited."""
        ...

    def update_trust(self, artifact_id: str, agreed: bool) -> None:  # noqa: FBT001
        """Learn whether the cheap ranking agreed with the ground truth."""
        ...
