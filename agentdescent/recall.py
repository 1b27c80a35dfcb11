"""The result of a run, out of its ledger alone."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

from agentdescent.core.outcomes import StopReason
from agentdescent.core.protocols import Strategy
from agentdescent.core.spend import Unit
from agentdescent.engine.search import rounds_of
from agentdescent.errors import NotInLedger
from agentdescent.result import EvolutionResult, RoundInfo
from agentdescent.usage import Usage

if TYPE_CHECKING:
    from agentdescent.ledger.reader import Reader
    from agentdescent.ledger.searches import Found

LOG_LINES = 40


def recall(path: Path, artifact_id: str, strategy: Strategy | None) -> EvolutionResult:
    """What the last run for an artifact came to; as far as it was saved, if it never ended.

    Raises:
        NotInLedger: If no run for the artifact was saved there.
        LedgerError: If the ledger cannot be read.
    """
    from agentdescent.ledger.reader import read  # noqa: PLC0415 - git loads on first use

    def step(reader: "Reader") -> EvolutionResult:
        found = reader.last_search(artifact_id)
        if found is None:
            raise NotInLedger(
                f"no run for artifact {artifact_id!r} was saved",
                operation="read",
                repo_path=str(path),
                hint="runs with repo_path= save themselves; Ledger(path) reads the artifacts",
            )
        history = rounds_of(found.document, found.pages)
        if "result" in found.document:
            record = {**found.document["result"], "history": history}
            return EvolutionResult.from_record(record, str(path))
        result = _unfinished(reader, found, artifact_id, strategy)
        result.history = [RoundInfo.of(entry) for entry in history]
        if history:
            result.final_reward = result.history[-1].held_out_reward
        return result

    return read(path, "read", step)


def _unfinished(
    reader: "Reader", found: "Found", artifact_id: str, strategy: Strategy | None
) -> EvolutionResult:
    """The artifact as it is now, and what was counted when the run was saved for the last time."""
    dev = reader.tip("dev")
    version, commit = reader.find(dev, artifact_id)
    state = dict(reader.state(commit, artifact_id))
    parts: dict[str, Any] = found.document["parts"]
    spent: dict[str, Any] = found.document["spent"]
    journal, recorder = parts["journal"], parts["recorder"]
    initial: float | None = parts["accounts"]["initial_reward"]
    log = zip(range(LOG_LINES), reader.commits(dev), strict=False)
    return EvolutionResult(
        state=state,
        rendered=strategy.render(state) if strategy is not None else "",
        final_reward=initial or 0.0,
        stop_reason=StopReason.INTERRUPTED,
        initial_reward=initial,
        version=version,
        late_outcomes=journal["reasons"],
        ledger_log=[f"{commit.id[:7]} {commit.message.subject}" for _, commit in log],
        rollouts=journal["rollouts"],
        failed_rollouts=journal["failed"],
        rollout_seconds=journal["rollout_seconds"],
        actor_calls=int(spent["spend"][Unit.CALL]),
        wallclock=recorder["elapsed"],
        stale_considered=recorder["stale_considered"],
        stale_discarded=recorder["stale_discarded"],
        cas_conflicts=recorder["cas_conflicts"],
        usage=Usage.from_json(spent["usage"]),
    )
