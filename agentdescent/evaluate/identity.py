"""What makes two evaluations the same: names for tasks, actors and single measurements."""

from dataclasses import dataclass

from agentdescent.core.identity import Identity, canonical_json, digest, identity_of, utf8
from agentdescent.core.task import Task

__all__ = [
    "EvaluationIdentity",
    "Identity",
    "TaskKey",
    "canonical_json",
    "identity_of",
    "task_key",
]


@dataclass(frozen=True, slots=True)
class TaskKey:
    """A task's content, so that tasks which differ only in `meta` are told apart.

    Attributes:
        digest: SHA-256 of id, prompt and meta.
        is_lasting: It means the same in the next process; False when an object of `meta` can be
            named by its address only.
    """

    digest: bytes
    is_lasting: bool


@dataclass(frozen=True, slots=True)
class EvaluationIdentity:
    """What all evaluations of a run have in common.

    Attributes:
        actor: Who runs the tasks.
        reward: Who scores the outputs.
        evaluation_key: The user's word for whatever else they depend on.
    """

    actor: Identity
    reward: Identity
    evaluation_key: str = ""

    @property
    def is_lasting(self) -> bool:
        """Measurements may be trusted by a later run: the user vouches for actor and reward."""
        return bool(self.evaluation_key) or (self.actor.explicit and self.reward.explicit)

    def key(self, rendered: str, task: TaskKey, repeat: int) -> str:
        """The name of one measurement, the same in every process: 64 hex digits."""
        parts = (self.actor.name, self.reward.name, self.evaluation_key, rendered)
        return digest(*(utf8(part) for part in parts), task.digest, b"%d" % repeat).hex()


def task_key(task: Task) -> TaskKey:
    """Name the content of `task`."""
    meta, is_lasting = canonical_json(task.meta)
    return TaskKey(digest(utf8(task.id), utf8(task.prompt), utf8(meta)), is_lasting)
