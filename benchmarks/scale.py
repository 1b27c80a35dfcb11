"""Whether rounds stay as cheap as the first ones: long runs, many keys, tasks and stale cards."""

import asyncio
import json
import os
import subprocess
import sys
import tempfile
import time
from array import array
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import lru_cache
from pathlib import Path
from random import Random
from typing import Any

from _bench import Row, cpu_seconds, median, rss_mb, run_benchmark

from agentdescent import AppendRules, EvidenceCard, RoundInfo, Strategy, Task, async_evolve
from agentdescent.aggregator import Aggregator, LedgerSnapshot
from agentdescent.core.artifact import EvolvingArtifact
from agentdescent.core.diff import Diff
from agentdescent.evaluate.memo import Memo
from agentdescent.evaluate.pool import EvaluationPool
from agentdescent.evaluate.verifier import Verifier
from agentdescent.ledger import MemoryLedger
from agentdescent.policy.governance import AuditScheduler

CLAIM = "CPU per round and memory, last tenth of a run to its first, with functions of no time"
WORKERS, N_HELD_OUT = 4, 16
BAR = 1.2
ENTRY_BYTES = 400
"""What one entry of the history may take."""

CARDS_PER_MERGE = 100
NAME = "artifact"
KEYS = 1_000
IN_MEMORY = Path("/dev/shm")
"""Where cases put their files: on a disk, removing those of one slows the start of the next."""


@dataclass
class Tenths:
    """Takes the time of every round of a run, and the memory at the ends of two of its tenths.

    Args:
        rounds: How many there will be.
    """

    rounds: int
    moments: "array[float]" = field(default_factory=lambda: array("d"))
    memory: list[float] = field(default_factory=list)

    def end_round(self, info: RoundInfo | None = None) -> None:
        self.moments.append(time.process_time())
        if len(self.moments) in (1, self.rounds // 10, self.rounds):
            self.memory.append(rss_mb())

    def figures(self) -> "Figures":
        tenth = self.rounds // 10
        first = self.moments[tenth - 1] - self.moments[0]
        last = self.moments[-1] - self.moments[-tenth]
        return Figures(1000 * first / (tenth - 1), 1000 * last / (tenth - 1), *self.memory[1:])


@dataclass(frozen=True)
class Figures:
    """Milliseconds of CPU per round, and megabytes, of the first tenth and of the last.

    Where a round commits, there are also the milliseconds that pygit2 takes to commit its tree.
    """

    first_ms: float
    last_ms: float
    first_mb: float
    last_mb: float
    bare_first_ms: float | None = None
    bare_last_ms: float | None = None


@dataclass
class World:
    """Functions that take no time."""

    strategy: Strategy
    n_train: int = 24

    def __post_init__(self) -> None:
        self.tasks = [Task(f"t{i}", f"task {i}") for i in range(self.n_train + N_HELD_OUT)]
        self.proposals = 0

    async def run(self, rendered: str, task: Task, leash: object = None) -> str:
        return rendered

    async def reward(self, task: Task, output: str) -> float:
        raise NotImplementedError

    async def propose(self, rendered: str, task: Task, output: str, reward: float) -> str:
        self.proposals += 1
        return f"proposal {self.proposals}"

    def ledger(self) -> MemoryLedger | None:
        return MemoryLedger()

    def evolved(self, rounds: int) -> Figures:
        tenths = Tenths(rounds)
        result = asyncio.run(
            async_evolve(
                self.tasks,
                self.reward,
                run=self.run,
                propose=self.propose,
                strategy=self.strategy,
                held_out_frac=N_HELD_OUT / len(self.tasks),
                n_workers=WORKERS,
                max_concurrency=WORKERS,
                asynchronous=False,
                rounds=rounds,
                self_verify=False,
                ledger=self.ledger(),
                on_round=tenths.end_round,
            )
        )
        assert result.error is None
        assert len(result.history) == rounds
        return tenths.figures()


class Idle(World):
    """Every task is solved."""

    async def reward(self, task: Task, output: str) -> float:
        return 1.0


class NoGain(World):
    """Every rollout proposes, and nothing helps."""

    async def reward(self, task: Task, output: str) -> float:
        return 0.5


class Chain(World):
    """Every rollout improves another one of many keys, so that every round commits."""

    async def run(self, rendered: str, task: Task) -> int:
        return total(rendered)

    async def reward(self, task: Task, output: int) -> float:
        return output / 1e8

    async def propose(self, rendered: str, task: Task, output: int, reward: float) -> str:
        self.proposals += 1
        return str(self.proposals)

    def ledger(self) -> None:
        """Git, for a ledger in memory holds every version there."""


@lru_cache(maxsize=8)
def total(rendered: str) -> int:
    return sum(map(int, rendered.split()))


class Numbers:
    """Many numbers; a proposal is one that takes the place of another."""

    def initial(self) -> dict[str, str]:
        return {f"key {number}": "0" for number in range(KEYS)}

    def render(self, state) -> str:
        return " ".join(state.values())

    def to_diff(self, state, proposal, author, base_version, target) -> Diff:
        key = f"key {int(proposal) % len(state)}"
        return Diff(f"{author}:{key}:{base_version}", target, {key: proposal}, author=author)


def chain(rounds: int) -> Figures:
    figures = Chain(Numbers()).evolved(rounds)
    first, last = bare_commits(min(rounds // 20, KEYS // 2), KEYS)
    return replace(figures, bare_first_ms=first, bare_last_ms=last)


def bare_commits(*n_set: int, turns: int = 100) -> list[float]:
    """Milliseconds that a commit of one more number takes where so many of all have been set.

    Those that were not are all alike, so that their ids compress well.
    """
    import pygit2  # noqa: PLC0415 - other cases are to be measured without it

    with tempfile.TemporaryDirectory() as folder:
        repository = pygit2.init_repository(folder, bare=True)
        author = pygit2.Signature("bench", "bench@localhost")
        trees: dict[int, Any] = {}

        def commit(arm: int, number: int) -> None:
            blob = repository.create_blob(str(number).encode())
            builder = repository.TreeBuilder(repository[trees[arm]])
            builder.insert(f"key {number % KEYS}", blob, pygit2.enums.FileMode.BLOB)
            trees[arm] = builder.write()
            repository.create_commit(None, author, author, "bare", trees[arm], [])

        for arm in n_set:
            builder = repository.TreeBuilder()
            for number in range(KEYS):
                blob = repository.create_blob(str(number if number < arm else 0).encode())
                builder.insert(f"key {number}", blob, pygit2.enums.FileMode.BLOB)
            trees[arm] = builder.write()
        seconds = dict.fromkeys(n_set, 0.0)
        for turn in range(turns):
            for arm in n_set:
                seconds[arm] += cpu_seconds(lambda arm=arm, turn=turn: commit(arm, arm + turn))
    return [1000 * seconds[arm] / turns for arm in n_set]


class Ledger:
    """One artifact that is far ahead of every card."""

    def __init__(self) -> None:
        self.head = EvolvingArtifact(NAME, {"value": "0"}, 1_000, strategy=AppendRules())

    async def snapshot(self, branch: str = "dev") -> LedgerSnapshot:
        return LedgerSnapshot({NAME: self.head}, {NAME: self.head.version})

    async def promote_to_stable(self, artifact_id: str) -> None:
        return None

    def lag(self, card: EvidenceCard) -> int:
        return self.head.version


def stale(merges: int) -> Figures:
    """An aggregator that is given nothing but stale cards."""
    world, tenths = Idle(AppendRules()), Tenths(merges)
    memo = Memo(world.run, world.reward)
    pool = EvaluationPool(world.run, world.reward, memo, width=1, jitter=Random(0))
    aggregator = Aggregator(Ledger(), Verifier(pool, world.tasks), AuditScheduler())

    async def merge() -> None:
        for number in range(merges):
            for serial in range(CARDS_PER_MERGE):
                diff = Diff(f"d{number}", NAME, {f"key {serial}": str(number)})
                order = (serial, number)
                await aggregator.ingest(EvidenceCard(diff, {NAME: 1}, [NAME], order=order))
            [report] = await aggregator.step()
            assert report.discarded_stale == CARDS_PER_MERGE
            tenths.end_round()

    asyncio.run(merge())
    return tenths.figures()


@dataclass(frozen=True)
class Case:
    rounds: int
    figures: Callable[[int], Figures]
    keeps_history: bool = True


CASES = {
    "10,000 rounds, all solved": Case(10_000, lambda n: Idle(AppendRules()).evolved(n)),
    "10,000 rounds, nothing helps": Case(10_000, lambda n: NoGain(AppendRules()).evolved(n)),
    "1,000 keys, 2,000 commits": Case(2_000, chain),
    "10,000 tasks, 2,000 rounds": Case(
        2_000, lambda n: Idle(AppendRules(), n_train=10_000).evolved(n)
    ),
    "100,000 stale cards, 1,000 merges": Case(1_000, stale, keeps_history=False),
}


def in_a_process(name: str, rounds: int) -> Figures:
    """The figures of a case in a fresh interpreter, so that its memory is its own."""
    command = [sys.executable, __file__, "--one", name, str(rounds)]
    place = {"TMPDIR": str(IN_MEMORY)} if IN_MEMORY.is_dir() else {}
    return Figures(**json.loads(subprocess.check_output(command, env={**os.environ, **place})))


def measure(quick: bool) -> Iterable[Row]:
    for name, case in CASES.items():
        rounds = case.rounds // 10 if quick else case.rounds
        found = [in_a_process(name, rounds) for _ in range(1 if quick else 3)]
        yield _row(name, rounds, case, found)


def _row(name: str, rounds: int, case: Case, found: Sequence[Figures]) -> Row:
    history_mb = rounds * ENTRY_BYTES / 2**20 if case.keeps_history else 0.0
    slower = median([run.last_ms / run.first_ms for run in found])
    larger = median([(run.last_mb - history_mb) / run.first_mb for run in found])
    return {
        "run": name,
        "rounds measured": rounds,
        "first tenth ms": median([run.first_ms for run in found]),
        "last tenth ms": median([run.last_ms for run in found]),
        "bare first ms": _known([run.bare_first_ms for run in found]),
        "bare last ms": _known([run.bare_last_ms for run in found]),
        "time grows": slower,
        "first tenth MB": median([run.first_mb for run in found]),
        "last tenth MB": median([run.last_mb for run in found]),
        "memory grows": larger,
        "bar": BAR,
        "reached": slower <= BAR and larger <= BAR,
    }


def _known(figures: Sequence[float | None]) -> float | None:
    known = [figure for figure in figures if figure is not None]
    return median(known) if known else None


if __name__ == "__main__":
    if sys.argv[1:2] == ["--one"]:
        print(json.dumps(asdict(CASES[sys.argv[2]].figures(int(sys.argv[3])))))
    else:
        run_benchmark(measure, CLAIM)
