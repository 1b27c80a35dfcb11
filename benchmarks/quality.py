"""Calls of `run` until hidden rules are found, next to the bare loop that saves calls.

Calls take virtual time, so a seed always gives the same run.
"""

import asyncio
import math
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from random import Random

from _bench import Row, median, run_benchmark
from _floor import Floor
from _virtual import run_virtually

from agentdescent import EvolutionResult, Task, async_evolve
from agentdescent.ledger import MemoryLedger

CLAIM = "calls of run, the seed's score included, until the held-out reward is 0.95"
RULES = 20
PER_RULE = 2
TARGET = 0.95
NAMES_IT, FLIPS = 0.7, 0.01
LATENCY_S = 0.002
GIVE_UP_ROUNDS = 60
CREWS = (4, 16, 64)
BARS = {"rounds": 1.15, "barrier-free": 1.5}
SPOILS = "spoil "


@dataclass
class World:
    """Each of 40 training and 40 held-out tasks needs one of 20 rules.

    `propose` names the missing rule with probability 0.7, else one that spoils every task of some
    rule. One reward in a hundred is flipped.
    """

    seed: int
    initial: list[str] = field(default_factory=list)
    is_instant = False

    def __post_init__(self) -> None:
        self._random = Random(self.seed)
        n = RULES * PER_RULE
        self.tasks = [Task(f"t{i}", "", {"rule": f"rule {i % RULES}"}) for i in range(2 * n)]
        self.train, self.held_out = self.tasks[:n], self.tasks[n:]
        self._train = {task.id for task in self.train}
        self.calls: Counter[str] = Counter()

    def render(self, parts: list[str]) -> str:
        return "\n".join(["# Playbook", *(f"- {part}" for part in sorted(set(parts)))])

    async def run(self, rendered: str, task: Task) -> str:
        self.calls["train" if task.id in self._train else "held-out"] += 1
        await asyncio.sleep(LATENCY_S * self._random.uniform(0.5, 1.5))
        return rendered

    async def reward(self, task: Task, output: str) -> float:
        lines = output.splitlines()
        rule = task.meta["rule"]
        solved = f"- {rule}" in lines and f"- {SPOILS}{rule}" not in lines
        return float(solved ^ (self._random.random() < FLIPS))

    async def propose(self, rendered: str, task: Task, output: str, reward: float) -> str:
        if self._random.random() < NAMES_IT:
            return str(task.meta["rule"])
        return f"{SPOILS}rule {self._random.randrange(RULES)}"


@dataclass(frozen=True)
class Found:
    """What one run came to."""

    calls: int
    held_out_calls: int
    commits: int
    harmful: int
    hit: bool


def ours(seed: int, n_workers: int, schedule: str) -> tuple[Found, EvolutionResult]:
    world = World(seed)
    budget = (
        {"rounds": GIVE_UP_ROUNDS, "max_concurrency": n_workers}
        if schedule == "rounds"
        else {"max_rollouts": GIVE_UP_ROUNDS * n_workers, "max_seconds": math.inf}
    )
    result = run_virtually(
        async_evolve(
            world.tasks,
            world.reward,
            run=world.run,
            propose=world.propose,
            held_out_frac=0.5,
            n_workers=n_workers,
            asynchronous=schedule != "rounds",
            target_reward=TARGET,
            seed=seed,
            ledger=MemoryLedger(),
            **budget,
        )
    )
    assert result.error is None
    commits = sum(info.committed for info in result.history)
    return _found(world, result.final_reward, result.rendered, commits), result


def theirs(seed: int, n_workers: int, schedule: str) -> Found:
    world = World(seed)
    floor = Floor(world, frugal=True, target_reward=TARGET)
    run = (
        floor.rounds(n_workers, GIVE_UP_ROUNDS)
        if schedule == "rounds"
        else floor.barrier_free(n_workers, GIVE_UP_ROUNDS * n_workers)
    )
    least = run_virtually(run)
    return _found(world, least.final_reward, least.rendered, least.commits)


def _found(world: World, reward: float, rendered: str, commits: int) -> Found:
    harmful = rendered.count(SPOILS)
    calls = world.calls
    return Found(calls.total(), calls["held-out"], commits, harmful, reward >= TARGET)


def measure(quick: bool) -> Iterable[Row]:
    seeds = range(3 if quick else 100)
    for n_workers in CREWS[:2] if quick else CREWS:
        floor = {
            schedule: [theirs(seed, n_workers, schedule) for seed in seeds] for schedule in BARS
        }
        for schedule, bar in BARS.items():
            yield {"floor": schedule} | _row(n_workers, floor[schedule], floor["rounds"])
            found = [ours(seed, n_workers, schedule)[0] for seed in seeds]
            row = _row(n_workers, found, floor["rounds"])
            to_floor = row["to the floor in rounds"]
            clean = all(run.hit and not run.harmful for run in found)
            judged = {"bar": bar, "reached": to_floor <= bar and clean}
            yield {"schedule": schedule} | row | judged


def _row(n_workers: int, found: list[Found], floor: list[Found]) -> Row:
    calls = sorted(run.calls for run in found)
    return {
        "workers": n_workers,
        "calls": median(calls),
        "least": calls[0],
        "most": calls[-1],
        "held-out": median([run.held_out_calls for run in found]),
        "commits": median([run.commits for run in found]),
        "to the floor in rounds": median(calls) / median([run.calls for run in floor]),
        "hits": f"{sum(run.hit for run in found)}/{len(found)}",
        "with harm": sum(run.harmful > 0 for run in found),
    }


if __name__ == "__main__":
    run_benchmark(measure, CLAIM)
