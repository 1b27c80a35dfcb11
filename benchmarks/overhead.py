"""Processor time the engine adds to instantaneous rollouts, next to the bare loop."""

import asyncio
import json
import math
import subprocess
import sys
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import partial

from _bench import Row, cpu_seconds, median, ratio, run_benchmark, spread, take_turns, wall_seconds
from _floor import Floor, Floored

from agentdescent import AppendRules, EvolutionResult, SingleSlot, Strategy, Task, async_evolve
from agentdescent.ledger import MemoryLedger

CLAIM = "CPU ms per rollout with functions that take no time, 4 workers; start-up; import"
WORKERS = 4
N_TRAIN, N_HELD_OUT = 24, 16
HEAVY = ("numpy", "pygit2", "httpx", "tenacity", "pydantic", "anyio", "asyncio")
LAZY = {"numpy", "pygit2", "httpx", "tenacity"}


@dataclass
class World:
    """24 training tasks, 16 held-out ones, and an actor that answers at once."""

    strategy: Strategy
    initial: list[str] = field(default_factory=list)
    is_instant = True

    def __post_init__(self) -> None:
        self.tasks = [Task(f"t{i}", f"task {i}") for i in range(N_TRAIN + N_HELD_OUT)]
        self.train, self.held_out = self.tasks[:N_TRAIN], self.tasks[N_TRAIN:]
        self.proposals = 0

    def render(self, parts: list[str]) -> str:
        return "\n".join(parts)

    async def run(self, rendered: str, task: Task) -> str:
        return rendered

    async def reward(self, task: Task, output: str) -> float:
        raise NotImplementedError

    async def propose(self, rendered: str, task: Task, output: str, reward: float) -> str:
        self.proposals += 1
        return f"proposal {self.proposals}"


class Idle(World):
    """Every task is solved."""

    async def reward(self, task: Task, output: str) -> float:
        return 1.0


class NoGain(World):
    """Every rollout proposes, and nothing helps."""

    async def reward(self, task: Task, output: str) -> float:
        return 0.5


class Chain(World):
    """One value that can always be improved by one."""

    def render(self, parts: list[str]) -> str:
        return parts[-1]

    async def reward(self, task: Task, output: str) -> float:
        return int(output) / 250

    async def propose(self, rendered: str, task: Task, output: str, reward: float) -> str:
        return str(int(rendered) + 1)


@dataclass(frozen=True)
class Case:
    name: str
    world: type[World]
    rounds: int
    bar: float
    slot: bool = False
    asynchronous: bool = False

    def make(self) -> World:
        if self.slot:
            return self.world(SingleSlot("0"), ["0"])
        return self.world(AppendRules())


CASES = (
    Case("idle", Idle, 1000, 0.05),
    Case("nogain, one union", NoGain, 200, 0.3),
    Case("nogain, rivals", NoGain, 200, 0.3, slot=True),
    Case("chain", Chain, 200, 1.0, slot=True),
    Case("idle, no barriers", Idle, 1000, 0.05, asynchronous=True),
    Case("nogain, no barriers", NoGain, 200, 0.3, asynchronous=True),
    Case("chain, no barriers", Chain, 200, 1.0, slot=True, asynchronous=True),
)


def ours(case: Case, rounds: int, **options: object) -> EvolutionResult:
    world = case.make()
    budget = (
        {"max_rollouts": rounds * WORKERS, "max_seconds": math.inf}
        if case.asynchronous
        else {"rounds": rounds, "max_concurrency": WORKERS}
    )
    return asyncio.run(
        async_evolve(
            world.tasks,
            world.reward,
            run=world.run,
            propose=world.propose,
            strategy=world.strategy,
            n_workers=WORKERS,
            held_out_frac=N_HELD_OUT / len(world.tasks),
            asynchronous=case.asynchronous,
            self_verify=False,
            **budget,
            **options,
        )
    )


def theirs(case: Case, rounds: int) -> Floored:
    floor = Floor(case.make(), slot=case.slot)
    if case.asynchronous:
        return asyncio.run(floor.barrier_free(WORKERS, rounds * WORKERS))
    return asyncio.run(floor.rounds(WORKERS, rounds))


def check(case: Case, rounds: int) -> None:
    """Both do the same work, before either is timed."""
    result, least = ours(case, rounds), theirs(case, rounds)
    assert result.error is None
    assert result.rollouts == least.rollouts == rounds * WORKERS
    if not case.asynchronous:  # without barriers, what one merge gets to see is a matter of time
        commits = sum(info.committed for info in result.history)
        assert commits == least.commits == (rounds if case.world is Chain else 0)
        assert math.isclose(result.final_reward, least.final_reward)


def engine(quick: bool) -> Iterable[Row]:
    for case in CASES:
        rounds = case.rounds // 10 if quick else case.rounds
        check(case, rounds // 4)
        yield _engine_row(case, rounds, turns=1 if quick else 7)


def _engine_row(case: Case, rounds: int, turns: int) -> Row:
    per_rollout = 1000 / (rounds * WORKERS)
    contestants = {
        "ours": lambda: cpu_seconds(lambda: ours(case, rounds)) * per_rollout,
        "floor": lambda: cpu_seconds(lambda: theirs(case, rounds)) * per_rollout,
    }
    if case.asynchronous:  # a bare loop that never waits never merges either: nothing to compare
        del contestants["floor"]
    figures = take_turns(contestants, turns)
    cost = median(figures["ours"])
    row = {"case": case.name, "ms": cost, "spread": spread(figures["ours"]), "bar ms": case.bar}
    if "floor" in figures:
        row["floor ms"] = median(figures["floor"])
        row["to floor"] = ratio(figures["ours"], figures["floor"])
    return row | {"reached": cost <= case.bar}


def start_up(quick: bool) -> Iterable[Row]:
    contestants = {
        "scratch ledger": (25.0, lambda: ours(CASES[0], 1)),
        "in memory": (3.0, lambda: ours(CASES[0], 1, ledger=MemoryLedger())),
        "floor": (math.inf, lambda: theirs(CASES[0], 1)),
    }
    for measure_ms, clock in ((cpu_seconds, "CPU"), (wall_seconds, "wall")):
        figures = take_turns(
            {
                name: partial(lambda measure, work: measure(work) * 1000, measure_ms, work)
                for name, (_, work) in contestants.items()
            },
            3 if quick else 15,
        )
        for name, (bar, _) in contestants.items():
            cost = median(figures[name])
            yield {
                "second run in a process": name,
                "clock": clock,
                "ms": cost,
                "spread": spread(figures[name]),
                "bar ms": bar,
                "reached": cost <= bar,
            }


IMPORT = """
import json, sys, time
wall, cpu = time.perf_counter(), time.process_time()
import agentdescent
print(json.dumps({
    "wall": (time.perf_counter() - wall) * 1000,
    "CPU": (time.process_time() - cpu) * 1000,
    "modules": sorted({name.partition(".")[0] for name in sys.modules}),
}))
"""


def importing(quick: bool) -> Iterable[Row]:
    runs = [
        json.loads(subprocess.check_output([sys.executable, "-c", IMPORT]))
        for _ in range(3 if quick else 9)
    ]
    loaded = set(runs[-1]["modules"])
    for clock in ("CPU", "wall"):
        costs = [run[clock] for run in runs]
        yield {
            "import agentdescent": clock,
            "ms": median(costs),
            "spread": spread(costs),
            "bar ms": 150.0,
            "reached": median(costs) <= 150.0 and not loaded & LAZY,
            "loaded": " ".join(name for name in HEAVY if name in loaded),
            "too early": " ".join(sorted(loaded & LAZY)) or "nothing",
        }


def measure(quick: bool) -> Iterable[Row]:
    yield from importing(quick)
    yield from start_up(quick)
    yield from engine(quick)


if __name__ == "__main__":
    run_benchmark(measure, CLAIM)
