"""What a run returns."""

import json
import os
import secrets
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, cast

from agentdescent.core.outcomes import StopReason
from agentdescent.core.protocols import Strategy
from agentdescent.usage import Usage

if TYPE_CHECKING:
    from agentdescent.trees import TreeSpec, WritePlan

SCHEMA = 1


@dataclass(frozen=True, slots=True)
class RoundInfo:
    """One round, or one sweep of the merger when there are no rounds.

    Attributes:
        round: Its index, from 0.
        held_out_reward: Mean reward of the head over all held-out tasks after the merge.
        n_items: Keys in the head's state.
        committed: Merges that committed.
        rejected: Merges that did not.
        reasons: Tally of merge outcomes, and of proposals that never became candidates.
        elapsed_s: Seconds since the run began.
        rollouts: Measured rollouts so far.
        calls: Calls of `run` and `propose` so far, the gate's included.
        considered: Evidence cards looked at.
        discarded_stale: Cards the staleness filter dropped.
        conflicts_dropped: Cards that lost a contradiction.
        fused: Commits of more than one diff.
        screened: Cards whose diff did not help on its own task.
        blamed: Diffs held responsible for a held-out task that a union lost.
    """

    round: int
    held_out_reward: float
    n_items: int
    committed: int
    rejected: int
    reasons: Mapping[str, int] = field(default_factory=dict[str, int])
    elapsed_s: float = 0.0
    rollouts: int = 0
    calls: int = 0
    considered: int = 0
    discarded_stale: int = 0
    conflicts_dropped: int = 0
    fused: int = 0
    screened: int = 0
    blamed: int = 0

    @classmethod
    def of(cls, record: Mapping[str, Any]) -> "RoundInfo":
        """The entry that was written as JSON; what is not known is ignored."""
        return cls(**_known(cls, record))


@dataclass(frozen=True, slots=True)
class ResumedFrom:
    """What a run has gone on from.

    Attributes:
        run: The run that left it.
        version: The version of the artifact.
        whole: That run itself went on, with its budgets and its history; else a new one began.
        rounds: Rounds of its history.
        evaluations: Measurements that need not be paid for again.
        cards: Evidence that waited for a merge.
    """

    run: str
    version: int
    whole: bool = False
    rounds: int = 0
    evaluations: int = 0
    cards: int = 0

    def __str__(self) -> str:
        """One line for people."""
        goes_on = "continues" if self.whole else "starts from what was learned by"
        return (
            f"{goes_on} run {self.run}: version {self.version}, {self.rounds} rounds, "
            f"{self.evaluations} evaluations, {self.cards} waiting proposals"
        )


@dataclass(slots=True)
class EvolutionResult:
    """The evolved artifact and an honest account of how it came about.

    Attributes:
        state: Its {key: value} state.
        rendered: The same as text.
        final_reward: Mean held-out reward, over all held-out tasks.
        history: One entry a round (or sweep).
        ledger_log: Newest commits first, `"<7 hex> <subject>"`, 40 at most.
        error: None, or `"<Type>: <message>"` of the failure that ended the run.
        stop_reason: Why it ended; compares equal to its plain word.
        initial_reward: Held-out reward of the artifact it began with; None if not measurable.
        version: Version of the artifact in the ledger.
        late_outcomes: What `outcomes` counts beside the entries of `history`: proposals dropped
            after the last of them.
        warnings: What was warned about during the run.
        abandoned: Rollouts and synchronous calls that nobody waited for to the end.
        failed_rollouts: Rollouts in which `run`, `reward` or `propose` failed.
        actor_calls: Calls of `run` and `propose`.
        rollouts: Rollouts that were measured.
        wallclock: Seconds, set-up excluded.
        rollout_seconds: Summed over workers, so it may exceed `wallclock`.
        eval_seconds: Spent in held-out evaluations, summed over evaluators.
        stale_considered: Cards that came before the staleness filter.
        stale_discarded: Cards it dropped.
        retired_workers: Workers that gave up.
        cas_conflicts: Merges that lost a commit race.
        cache_hits: Evaluations answered from memory.
        cache_misses: Evaluations that were run.
        usage: What the models were asked for and gave.
        parts: What `final_reward` is made of, where the reward returned a `Scored` with parts: the
            mean of each by its name, over the held-out tasks that have it.
        forced_refreshes: Always 0.
        stragglers: Rollouts that took far longer than predicted and than nine in ten others, and
            those that were cut at a turn.
        events_dropped: Events that slow listeners lost.
        resumed_from: What the run has gone on from beside the artifact, or None.
    """

    state: Mapping[str, Any]
    rendered: str
    final_reward: float
    history: list[RoundInfo] = field(default_factory=list[RoundInfo])
    ledger_log: list[str] = field(default_factory=list[str])
    error: str | None = None
    stop_reason: StopReason = StopReason.ROUNDS
    initial_reward: float | None = None
    version: int = 1
    late_outcomes: Mapping[str, int] = field(default_factory=dict[str, int])
    warnings: list[str] = field(default_factory=list[str])
    abandoned: int = 0
    failed_rollouts: int = 0
    actor_calls: int = 0
    rollouts: int = 0
    wallclock: float = 0.0
    rollout_seconds: float = 0.0
    eval_seconds: float = 0.0
    stale_considered: int = 0
    stale_discarded: int = 0
    retired_workers: int = 0
    cas_conflicts: int = 0
    cache_hits: int = 0
    cache_misses: int = 0
    usage: Usage = field(default_factory=Usage)
    forced_refreshes: int = 0
    stragglers: int = 0
    events_dropped: int = 0
    resumed_from: ResumedFrom | None = None
    parts: Mapping[str, float] = field(default_factory=dict[str, float])

    def outcomes(self) -> dict[str, int]:
        """How often each outcome occurred over the whole run."""
        tally: Counter[str] = Counter(self.late_outcomes)
        for info in self.history:
            tally.update(info.reasons)
        return dict(tally)

    def time_to_quality(self, target: float) -> float | None:
        """Seconds until a round ended with at least `target`; None if none did."""
        return next((i.elapsed_s for i in self.history if i.held_out_reward >= target), None)

    def cost_to_quality(self, target: float) -> int | None:
        """Rollouts until a round ended with at least `target`; None if none did."""
        return next((i.rollouts for i in self.history if i.held_out_reward >= target), None)

    def stale_rate(self) -> float:
        """The share of evidence that the staleness filter dropped."""
        return self.stale_discarded / self.stale_considered if self.stale_considered else 0.0

    def duplicate_rate(self) -> float:
        """The share of evaluations answered from memory."""
        asked = self.cache_hits + self.cache_misses
        return self.cache_hits / asked if asked else 0.0

    def cost_summary(self) -> str:
        """One line of rollouts, calls and seconds; below it, a table of what each role took."""
        line = (
            f"{self.rollouts:,} rollouts, {self.actor_calls:,} actor calls, "
            f"{self.wallclock:.1f}s; {self.usage.summary()}"
        )
        return f"{line}\n{table}" if (table := self.usage.table()) else line

    def record(self) -> dict[str, Any]:
        """The result as JSON values, as `save` writes it."""
        values = asdict(replace(self, state=dict(self.state), usage=Usage()))
        return {"schema": SCHEMA, **values, "usage": self.usage.as_json()}

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the result as UTF-8 JSON, replacing `path` atomically.

        Where that is a link, its target is replaced; a device or a pipe is written to.

        Raises:
            ValueError: Naming a value that JSON does not know, such as NaN; nothing is written.
            OSError: If the file cannot be written; what was there before is then untouched.
        """
        text = _strict(self.record())
        if Path(path).exists() and not Path(path).is_file():
            Path(path).write_text(text, encoding="utf-8", errors="surrogatepass")
            return
        target = Path(path).resolve()
        temporary = target.with_name(f".{target.name}.{secrets.token_hex(4)}")
        try:
            with temporary.open("x", encoding="utf-8", errors="surrogatepass") as file:
                file.write(text)
                file.flush()
                os.fsync(file.fileno())
            temporary.replace(target)
        except BaseException:
            temporary.unlink(missing_ok=True)
            raise

    def write_to(
        self,
        path: str | os.PathLike[str],
        *,
        backup: bool = True,
        prune: bool = False,
        dry_run: bool = False,
        spec: "TreeSpec | None" = None,
    ) -> "WritePlan":
        """Write an evolved directory over `path`, all of it or nothing.

        What else is in the directory stays. Links are never followed, and modes are kept.

        Args:
            path: The directory; it need not exist.
            backup: Keep the old directory beside it, as ``<path>.bak-1``, ``.bak-2``, ...
            prune: Delete files that the artifact does not have, as far as `spec` selects them.
            dry_run: Change nothing; the plan's `diff` shows what would change.
            spec: As it was given to `load_tree`.

        Returns:
            A dict: the files `written`, `extra` ones, those of them `deleted`, where the `backup`
            is, and the `diff`.

        Raises:
            TreeError: If the artifact is no tree of files, or something in the way is a link or of
                another kind.
            OSError: If something cannot be read or written; `path` is then as it was.
        """
        from agentdescent.trees import parse_tree, write_tree  # noqa: PLC0415 - seldom needed

        tree = parse_tree(self.rendered)
        return write_tree(tree, path, backup=backup, prune=prune, dry_run=dry_run, spec=spec)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """Read a saved result. Missing fields take their defaults, unknown ones are ignored.

        Raises:
            ValueError: If the file is no result, or one of a newer schema.
        """
        return cls.from_record(_object(Path(path)), os.fspath(path))

    @classmethod
    def from_ledger(
        cls,
        path: str | os.PathLike[str],
        artifact_id: str = "artifact",
        strategy: Strategy | None = None,
    ) -> "EvolutionResult":
        """Read what the last run in a ledger came to, whether it ended, goes on or was killed.

        It takes no lock and disturbs nobody. Of a run that never ended there is what was saved with
        its last round or commit: `stop_reason` is "interrupted" then.

        Args:
            path: The run's `repo_path`.
            artifact_id: The artifact.
            strategy: Renders the artifact of a run that never ended; `rendered` is "" without.

        Raises:
            LedgerError: If it cannot be read, or holds no run for the artifact.
        """
        from agentdescent.recall import recall  # noqa: PLC0415 - a door to what stands above

        return recall(Path(path), artifact_id, strategy)

    @classmethod
    def from_record(cls, record: Mapping[str, Any], source: str = "the record") -> Self:
        """The result that `record` gave; `source` says in errors where it came from.

        Raises:
            ValueError: If it is no result, or one of a newer schema.
        """
        schema = record.get("schema", SCHEMA)
        if schema > SCHEMA:
            raise ValueError(
                f"{source} has schema {schema}; this version reads up to {SCHEMA}: upgrade "
                "agentdescent to load it"
            )
        if not record.keys() >= {"state", "rendered", "final_reward"}:
            raise ValueError(
                f"{source} is not a saved EvolutionResult; load what save() has written"
            )
        known = _known(cls, record)
        rows: list[dict[str, Any]] = record.get("history", [])
        known["history"] = [RoundInfo.of(row) for row in rows]
        known["usage"] = Usage.from_json(record.get("usage", {}))
        resumed: dict[str, Any] | None = record.get("resumed_from")
        known["resumed_from"] = resumed and ResumedFrom(**_known(ResumedFrom, resumed))
        known["stop_reason"] = StopReason(record.get("stop_reason", StopReason.ROUNDS))
        return cls(**known)


def _strict(record: Mapping[str, Any]) -> str:
    """The record as JSON that every reader understands."""
    for name, value in record.items():
        try:
            json.dumps(value, allow_nan=False)
        except ValueError as error:
            raise ValueError(
                f"{name} of the result cannot be written as JSON ({error}): {value!r:.80}; let "
                "strategies keep text and finite numbers in the state"
            ) from None
    return json.dumps(record, indent=2, ensure_ascii=False)


def _object(path: Path) -> dict[str, Any]:
    """The JSON object in the file; empty if there is none."""
    try:
        content: Any = json.loads(path.read_bytes())
    except ValueError:
        content = None
    return cast("dict[str, Any]", content) if isinstance(content, dict) else {}


def _known(kind: Any, record: Mapping[str, Any]) -> dict[str, Any]:
    names = {f.name for f in fields(kind) if f.init}
    return {key: value for key, value in record.items() if key in names}


def mean(values: Sequence[float]) -> float:
    """The mean of a non-empty sequence."""
    return sum(values) / len(values)
