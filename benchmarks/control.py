"""Merging against forks against one worker, at equal calls, on three families of workloads."""

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass
from random import Random
from typing import Any

from _bench import Row, run_benchmark

from agentdescent import AppendRules, SingleSlot, Task
from agentdescent.baselines import (
    Budget,
    Comparison,
    Workload,
    best_of_n_fork,
    compare,
    merge_of_n,
    serial,
)

CLAIM = "test reward at equal calls, means and 95 % intervals over seeds"
WORKERS = 8
NEEDS = 24
BUDGETS = (1200, 4800)
HARMFUL = 0.2
WRONG = 0.3


def tasks(name: str, per_need: int) -> list[Task]:
    return [Task(f"{name}{i}", "", {"need": i % NEEDS}) for i in range(NEEDS * per_need)]


async def run(rendered: str, task: Task) -> str:
    return rendered


@dataclass
class Additive:
    """A task is solved by a rule for its need; a proposal is one, or does nothing, or does harm."""

    random: Random
    useless: float = 0.0
    harmful: float = 0.0

    def actors(self) -> dict[str, Any]:
        return {
            "run": run,
            "reward": self.reward,
            "propose": self.propose,
            "strategy": AppendRules(),
        }

    async def reward(self, task: Task, output: str) -> float:
        words = [line.split() for line in output.splitlines()]
        need = str(task.meta["need"])
        met = any(word[:3] == ["-", "meet", need] for word in words)
        return float(met and not any(word[3:] == ["never", need] for word in words))

    async def propose(self, rendered: str, task: Task, output: str, reward: float) -> str:
        rule, draw = f"meet {task.meta['need']}", self.random.random()
        if draw < self.useless:
            return "meet nothing"
        return f"{rule} never {self.random.randrange(NEEDS)}" if draw < self.harmful else rule


@dataclass
class OneText:
    """A task is solved by its need's place in one text, which every proposal writes anew."""

    random: Random

    def actors(self) -> dict[str, Any]:
        text = SingleSlot(" ".join(["-"] * NEEDS))
        return {"run": run, "reward": self.reward, "propose": self.propose, "strategy": text}

    async def reward(self, task: Task, output: str) -> float:
        return float(output.split()[task.meta["need"]] == "right")

    async def propose(self, rendered: str, task: Task, output: str, reward: float) -> str:
        places = rendered.split()
        places[task.meta["need"]] = "wrong" if self.random.random() < WRONG else "right"
        return " ".join(places)


FAMILIES = {
    "additive rules": lambda random: Additive(random, useless=WRONG),
    "one key, conflicting values": OneText,
    "20 % harmful proposals": lambda random: Additive(random, harmful=HARMFUL),
}


def workload(family: str) -> Workload:
    """For each need two tasks to learn from, three for the gates and three to be measured on."""
    make = FAMILIES[family]
    return Workload(
        tasks("train", 2),
        tasks("dev", 3),
        tasks("test", 3),
        lambda stream: make(Random(stream)).actors(),
    )


async def control(family: str, calls: int, seeds: range) -> Comparison:
    work, budget = workload(family), Budget(calls=calls)
    return compare(
        await serial(work, budget, seeds=seeds),
        await best_of_n_fork(work, budget, WORKERS, seeds=seeds),
        await merge_of_n(work, budget, WORKERS, seeds=seeds),
        fixed="calls",
    )


def measure(quick: bool) -> Iterable[Row]:
    seeds = range(3 if quick else 30)
    for family in FAMILIES:
        for calls in BUDGETS[:1] if quick else BUDGETS:
            comparison = asyncio.run(control(family, calls, seeds))
            yield from _rows(family, comparison)


def _rows(family: str, comparison: Comparison) -> Iterable[Row]:
    *_, merged = comparison.readings
    for reading in comparison.readings:
        gap = comparison.difference(merged.name, reading.name)
        ahead = "merge" if gap.low > 0 else "this" if gap.high < 0 else "nobody"
        yield {
            "family": family,
            "calls": comparison.amount,
            "arm": reading.name,
            "test reward": f"{comparison.interval(reading.name)}",
            "merge minus this": "" if reading is merged else str(gap),
            "ahead": "" if reading is merged else ahead,
            "rollouts (not fixed)": reading.rollouts,
            "calls spent": reading.calls,
        }


if __name__ == "__main__":
    run_benchmark(measure, CLAIM)
