"""Worlds that put a run to the test, and short forms of running them."""

import math

from agentdescent import AggregatorConfig, async_evolve
from agentdescent.ledger import MemoryLedger
from support.toy import HiddenRules

N_TRAIN, N_HELD_OUT = 14, 10  # of the 24 tasks of the default world

PATIENT = AggregatorConfig(batch_trigger=1000, max_wait_rounds=1000)


class World(HiddenRules):
    """Hidden rules; remembers which artifact met which task, and may be unwell.

    `failing` says how often `run` still fails on a task.
    """

    def __init__(self, *, failing=None, **settings):
        super().__init__(run_s=0.1, **settings)
        self.seen = []
        self.failing = failing or {}

    async def run(self, rendered, task):
        self.seen.append((rendered, task.id))
        output = await super().run(rendered, task)
        if self.failing.get(task.id, 0) > 0:
            self.failing[task.id] -= 1
            raise ConnectionError("no answer")
        return output

    @property
    def train(self):
        return {task.id for task in self.tasks[:N_TRAIN]}

    @property
    def held_out(self):
        return {task.id for task in self.tasks[N_TRAIN:]}


class Theirs(World):
    """The same world with other rules."""

    @property
    def tasks(self):
        tasks = super().tasks
        for task in tasks:
            task.meta["rule"] = task.meta["rule"].replace("rule", "other")
        return tasks


class Silent(World):
    """Nobody ever proposes anything."""

    async def propose(self, rendered, task, output, reward):
        self.calls.append(f"propose {task.id}")


class Useless(World):
    """Every proposal is new, and none helps."""

    async def propose(self, rendered, task, output, reward):
        self.calls.append(f"propose {task.id}")
        return f"rule {len(self.calls)} that helps nobody"


class Moody(World):
    """One task is solved at every second trial only."""

    async def reward(self, task, output):
        if task.id == "t0-0":
            return float(sum(name == "t0-0" for _, name in self.seen) % 2 == 0)
        return await super().reward(task, output)


class Often:
    """A sampler that picks one task between any two others."""

    def __init__(self, favourite):
        self.favourite = favourite

    def pick(self, keys, round_index):
        return keys[round_index // 2 % len(keys)] if round_index % 2 else self.favourite

    def record(self, task_id, score):
        pass


def solved_by(*rules):
    """A first state that holds these rules."""
    return {f"r{rule}": f"rule{rule}" for rule in rules}


async def in_rounds(world, **options):
    """A run in rounds, all of whose workers overlap."""
    options = {"n_workers": 4, "propose": world.propose, **options}
    options.setdefault("max_concurrency", options["n_workers"])
    return await async_evolve(
        world.tasks,
        world.reward,
        run=world.run,
        asynchronous=False,
        ledger=MemoryLedger(),
        **options,
    )


async def barrier_free(world, **options):
    """A run without barriers, and without a time limit."""
    options = {"max_seconds": math.inf, "propose": world.propose, **options}
    return await async_evolve(
        world.tasks, world.reward, run=world.run, ledger=MemoryLedger(), **options
    )
