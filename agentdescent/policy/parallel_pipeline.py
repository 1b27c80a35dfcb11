"""Pipelines of stages: their order, and which stage to blame. A run evolves one artifact alone."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from agentdescent.core.protocols import WorkUnit


@dataclass(frozen=True)
class PipelineChain:
    """Stages in the order in which they run, each fed by the one before it.

    Attributes:
        stages: Their names, each once.
    """

    stages: Sequence[str]

    def __post_init__(self) -> None:
        if isinstance(self.stages, str) or not self.stages:
            raise ValueError(
                f"stages must be a list of names, and at least one, got {self.stages!r}"
            )
        if len(set(self.stages)) < len(self.stages):
            raise ValueError(f"every stage needs a name of its own, got {list(self.stages)!r}")

    def upstream_of(self, stage: str) -> list[str]:
        """The stages before `stage`.

        Raises:
            ValueError: If there is no such stage.
        """
        return list(self.stages[: self._place(stage)])

    def blame(self, success: Mapping[str, bool]) -> str | None:
        """The earliest stage that failed, since those after it had no good input; None if none did.

        Args:
            success: Whether each stage did well; a stage that is left out did.

        Raises:
            ValueError: If it names a stage that there is not.
        """
        for stage in success:
            self._place(stage)
        return next((stage for stage in self.stages if not success.get(stage, True)), None)

    def counterfactual_pairs(self, stage: str) -> list[tuple[str, str]]:
        """What to run to learn the effect of `stage` alone: its old and its new version.

        All other stages stay as they are.

        Raises:
            ValueError: If there is no such stage.
        """
        self._place(stage)
        return [(f"old:{stage}", f"new:{stage}")]

    def _place(self, stage: str) -> int:
        if stage not in self.stages:
            raise ValueError(f"there is no stage {stage!r}; the stages are {list(self.stages)!r}")
        return self.stages.index(stage)


@dataclass(frozen=True)
class PipelineParallel:
    """Worker i works for stage ``i % len(stages)``, on all tasks.

    `evolve` refuses it, since it would take one artifact a stage. It plans for loops of your own,
    and `chain` has what is known about the stages.

    Attributes:
        stages: Their names, in order, each once.
    """

    name = "PP"

    stages: Sequence[str]

    def __post_init__(self) -> None:
        self.chain()

    def chain(self) -> PipelineChain:
        """The order of the stages."""
        return PipelineChain(self.stages)

    def plan(self, n_workers: int, round_index: int, keys: Sequence[str]) -> list[WorkUnit]:  # noqa: ARG002 - a plan's face
        """All keys for everyone, in every round; a worker stays with its stage."""
        return [
            WorkUnit(worker, list(keys), stage=worker % len(self.stages))
            for worker in range(n_workers)
        ]
