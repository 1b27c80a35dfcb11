"""What a front end returns: a result, and what tasks that nobody has seen say about it."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, Self

from agentdescent.core.evidence import TIE
from agentdescent.errors import TreeError
from agentdescent.frontends.writing import Origin, put_back
from agentdescent.policy.intervals import mean_interval
from agentdescent.result import EvolutionResult, mean
from agentdescent.trees import TreeSpec, WritePlan


@dataclass(frozen=True, slots=True)
class BeforeAfter:
    """The artifact before a run and after it, on tasks that the run has not seen.

    Attributes:
        tasks: The ids of the tasks.
        rewards_before: The reward on each before the run, in [0, 1].
        rewards_after: The reward on each after it.
    """

    tasks: Sequence[str]
    rewards_before: Sequence[float]
    rewards_after: Sequence[float]

    @property
    def before(self) -> float:
        """The mean reward before the run."""
        return mean(self.rewards_before)

    @property
    def after(self) -> float:
        """The mean reward after the run."""
        return mean(self.rewards_after)

    @property
    def gain(self) -> float:
        """The mean of the differences, task by task."""
        return mean(self._differences())

    @property
    def interval(self) -> tuple[float, float]:
        """Bounds of the gain on tasks of this kind, missed with probability 0.05 at most.

        It needs no assumption but that the tasks were drawn independently, so that it is wide for
        few tasks; see `mean_interval`.
        """
        return mean_interval(self._differences())

    @property
    def is_worse(self) -> bool:
        """The mean reward has fallen."""
        return self.gain < -TIE

    def __str__(self) -> str:
        """One line for people."""
        low, high = self.interval
        return (
            f"test reward {self.before:.3f} -> {self.after:.3f} on {len(self.tasks)} tasks, "
            f"gain {self.gain:+.3f}, 95 % interval [{low:+.3f}, {high:+.3f}]"
        )

    def _differences(self) -> list[float]:
        pairs = zip(self.rewards_before, self.rewards_after, strict=True)
        return [after - before for before, after in pairs]


@dataclass
class Evolved(EvolutionResult):
    """What a front end returns: the result of the run, and what the test split says about it.

    Attributes:
        test: The artifact before and after, on the test split. None if there is no such split, if
            the run did not come to its end, or if the tasks could not be measured; `warnings` says
            why.
        origin: The directory that the run began with; None if it began with a text.
        written: What was written back into that directory; None if nothing was.
    """

    test: BeforeAfter | None = None
    origin: Origin | None = None
    written: WritePlan | None = None

    @classmethod
    def of(cls, result: EvolutionResult, origin: Origin | None) -> Self:
        """`result` as one that was not tested."""
        known = {field.name: getattr(result, field.name) for field in fields(EvolutionResult)}
        return cls(**known, origin=origin)

    @property
    def is_supported(self) -> bool:
        """The test split was measured, and the artifact has not become worse on it."""
        return self.test is not None and not self.test.is_worse

    def write_to(
        self,
        path: str | os.PathLike[str] | None = None,
        *,
        backup: bool = True,
        prune: bool = False,
        dry_run: bool = False,
        spec: TreeSpec | None = None,
    ) -> WritePlan:
        """Write the evolved directory over the one it began as, all of it or nothing.

        Beside the backup ``<path>.bak-N`` lies ``<path>.bak-N.json``, which says what took its
        place: the version, the rewards before and after, and where the ledger is.

        Args:
            path: Another directory; by default the one that the run began with.
            backup: As in `EvolutionResult`, as all that follow.
            prune: Delete what the artifact does not have any more.
            dry_run: Change nothing.
            spec: By default the one that the run was given.

        Raises:
            TreeError: If the directory has changed since the run began, so that it holds neither
                what that began with nor what it ended with; besides as in `EvolutionResult`.
            OSError: If something cannot be read or written.
        """
        origin = self.origin
        if origin is None:
            if path is None:
                raise TreeError("the run did not begin with a directory; name the one to write to")
            return super().write_to(path, backup=backup, prune=prune, dry_run=dry_run, spec=spec)
        return put_back(
            origin,
            self.rendered,
            origin.path if path is None else Path(path),
            self._note(origin),
            spec=spec,
            backup=backup,
            prune=prune,
            dry_run=dry_run,
        )

    def _note(self, origin: Origin) -> dict[str, Any]:
        test = self.test
        return {
            "version": self.version,
            "held_out": {"before": self.initial_reward, "after": self.final_reward},
            "test": test and {"before": test.before, "after": test.after, "tasks": len(test.tasks)},
            "ledger": origin.ledger,
        }

    @classmethod
    def from_record(cls, record: Mapping[str, Any], source: str = "the record") -> Self:
        """As of `EvolutionResult`."""
        result = super().from_record(record, source)
        test, origin = record.get("test"), record.get("origin")
        result.test = test and BeforeAfter(**test)
        result.origin = origin and Origin(**origin)
        return result
