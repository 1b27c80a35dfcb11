"""What a long life costs: memory and open files of long runs, and of many."""

import asyncio
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import astuple
from itertools import pairwise
from pathlib import Path
from typing import Any

from _bench import Row, rss_mb, run_benchmark

from agentdescent import EvolutionResult, RoundInfo, Task, async_evolve
from agentdescent.core.protocols import StaleAction
from agentdescent.core.store import SearchSave
from agentdescent.ledger import GitLedger, MemoryLedger

CLAIM = "memory (history apart), open files and CPU time stay flat over cards, rounds and runs"
GROWTH_BAR_MB, FLAT_BAR, FILES_BAR = 8.0, 1.5, 11_000
RULES, TASKS, TRAIN = 4, 24, 14


class World:
    """Hidden rules, each of which solves its own tasks; whoever fails proposes the missing one."""

    def __init__(self) -> None:
        names = [f"rule{number % RULES}" for number in range(TASKS)]
        self.tasks = [
            Task(f"t{i}", f"needs {name}", {"rule": name}) for i, name in enumerate(names)
        ]

    async def run(self, rendered: str, task: Task) -> str:
        return rendered

    async def reward(self, task: Task, output: str) -> float:
        return float(f"- {task.meta['rule']}" in output)

    async def propose(self, rendered: str, task: Task, output: str, reward: float) -> str:
        return str(task.meta["rule"])

    async def evolve(self, **options: Any) -> EvolutionResult:
        return await async_evolve(
            self.tasks,
            self.reward,
            run=self.run,
            propose=self.propose,
            **{"asynchronous": False, "max_concurrency": 32, "evaluation_key": "v1", **options},
        )


class Restless(World):
    """No rule ever helps, so that nobody stops proposing."""

    async def reward(self, task: Task, output: str) -> float:
        return 0.0


class Discarding:
    """Takes every card for stale."""

    name = "discarding"

    def decide(self, eta: int, alpha: int, contract_breaking: bool, /) -> StaleAction:
        return StaleAction.DISCARD


class Watch:
    """Looks at the process when the n-th of something is over, half way and in the end."""

    def __init__(self, n: int) -> None:
        self._n = n
        self._seen = 0
        self.ends: list[float] = []
        self.memory: list[float] = []
        self.files: list[int] = []

    def __call__(self, _: object = None) -> None:
        self._seen += 1
        self.ends.append(time.process_time())
        if self._seen in (self._n // 2, self._n):
            self.memory.append(rss_mb())
            self.files.append(len(list(Path("/proc/self/fd").iterdir())))

    def row(self, what: str, kept_mb: float = 0.0) -> Row:
        """What grew in the second half, but for `kept_mb`."""
        grown = self.memory[1] - self.memory[0] - kept_mb
        tenth = self._n // 10
        first = statistics.median(_steps(self.ends[: tenth + 1]))
        last = statistics.median(_steps(self.ends[-tenth - 1 :]))
        return {
            what: self._n,
            "MB": self.memory[1],
            "grown MB": grown,
            "bar MB": GROWTH_BAR_MB,
            "open files": self.files[1] - self.files[0],
            "first CPU ms": first * 1000,
            "last CPU ms": last * 1000,
            "reached": grown <= GROWTH_BAR_MB
            and self.files[0] == self.files[1]
            and last <= FLAT_BAR * first,
        }


def _steps(times: list[float]) -> list[float]:
    return [after - before for before, after in pairwise(times)]


def size_mb(history: list[RoundInfo]) -> float:
    """The memory that a history takes."""
    return sum(_size(info) for info in history) / 1e6


def _size(info: RoundInfo) -> int:
    inner = sum(map(sys.getsizeof, astuple(info)))
    return sys.getsizeof(info) + inner + 8  # its place in the list


@contextmanager
def place() -> Iterator[Path]:
    folder = Path(tempfile.mkdtemp(prefix="bench-endurance-"))
    try:
        yield folder
    finally:
        shutil.rmtree(folder)


def stale_cards(n: int) -> Row:
    n_rounds = -(-n // TRAIN)
    watch = Watch(n_rounds)
    result = asyncio.run(
        Restless().evolve(
            rounds=n_rounds,
            n_workers=TRAIN,
            self_verify=False,
            staleness_policy=Discarding(),
            on_round=watch,
            ledger=MemoryLedger(),
        )
    )
    row = watch.row("rounds of stale cards", size_mb(result.history[n_rounds // 2 :]))
    return {**row, "stale cards": result.stale_discarded}


def rounds(n: int) -> Row:
    watch = Watch(n)
    result = asyncio.run(
        Restless().evolve(rounds=n, n_workers=4, on_round=watch, ledger=MemoryLedger())
    )
    return watch.row("rounds", size_mb(result.history[n // 2 :]))


def saved_rounds(n: int) -> Row:
    watch = Watch(n)
    with place() as path:
        result = asyncio.run(
            Restless().evolve(rounds=n, n_workers=4, on_round=watch, repo_path=path / "ledger")
        )
        files = sum(1 for file in path.rglob("*") if file.is_file())
    row = watch.row("saved rounds", size_mb(result.history[n // 2 :]))
    return {**row, "files": files, "reached": row["reached"] and files <= FILES_BAR}


def saves(n: int) -> Row:
    """Saves of a search alone, each with a page, as of rounds that take their time."""
    watch, n_tasks = Watch(n), 300

    async def save(path: Path) -> None:
        ledger = GitLedger(path)
        await ledger.open()
        for number in range(n):
            sampler = {f"task {i}": [number, i] for i in range(n_tasks)}
            page = {f"history/{number:08d}": b'{"round": 1}\n'}
            await ledger.save(SearchSave({"artifact": "a", "sampler": sampler}, page))
            watch()
        await ledger.close()

    with place() as path:
        asyncio.run(save(path))
        files = sum(1 for file in path.rglob("*") if file.is_file())
    row = watch.row("saves")
    return {**row, "files": files, "reached": row["reached"] and files <= FILES_BAR}


def runs(n: int) -> Row:
    """Half of them on one path, half on paths that nobody keeps."""
    watch = Watch(n)
    with place() as path:
        for number in range(n):
            options = {"repo_path": path / "ledger"} if number % 2 else {}
            asyncio.run(World().evolve(rounds=3, n_workers=4, **options))
            watch()
        files = sum(1 for file in path.rglob("*") if file.is_file())
    row = watch.row("runs")
    return {**row, "files": files, "reached": row["reached"] and files <= FILES_BAR}


def measure(quick: bool) -> Iterable[Row]:
    yield stale_cards(3_200 if quick else 100_000)
    yield rounds(200 if quick else 10_000)
    yield saved_rounds(200 if quick else 10_000)
    yield saves(200 if quick else 10_000)
    yield runs(20 if quick else 200)


if __name__ == "__main__":
    run_benchmark(measure, CLAIM)
