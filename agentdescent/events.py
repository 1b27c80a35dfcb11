"""What a run tells while it goes on: give `on_event=` a listener."""

from agentdescent.core.events import (
    Committed,
    EvaluationFinished,
    Event,
    MergeDecided,
    ModelCalled,
    ProposalMade,
    RolloutFinished,
    RoundEnded,
    RunEnded,
    RunStarted,
    WorkerBackedOff,
)

__all__ = [
    "Committed",
    "EvaluationFinished",
    "Event",
    "MergeDecided",
    "ModelCalled",
    "ProposalMade",
    "RolloutFinished",
    "RoundEnded",
    "RunEnded",
    "RunStarted",
    "WorkerBackedOff",
]
