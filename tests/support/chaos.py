"""Worlds and settings drawn at random: latencies, failures, budgets, cancellations."""

import math

import anyio
from anyio.lowlevel import checkpoint

from agentdescent import (
    AggregatorConfig,
    AppendRules,
    Diff,
    DifficultyWeighted,
    Task,
    WorkUnit,
    get_policy,
)
from agentdescent.testing import MemoryLedger


class Chance:
    """Draws, each of them rarely out of the ordinary."""

    def __init__(self, random):
        self.random = random

    def of(self, probability):
        return self.random.random() < probability

    def among(self, *values):
        return self.random.choice(values)

    def seldom(self, probability, **choices):
        """Some of the named choices, as keyword arguments."""
        return {
            name: self.among(*values) for name, values in choices.items() if self.of(probability)
        }


class ChaosWorld:
    """Hidden rules as in `toy`; some proposals harm, some do nothing, and calls may fail."""

    def __init__(self, chance):
        self.chance = chance
        self.rules = chance.among(1, 2, 3, 5)
        copies = chance.among(2, 4, 6) + (2 if self.rules == 1 else 0)
        self.tasks = [
            Task(f"t{copy}-{rule}", "", {"rule": rule})
            for copy in range(copies)
            for rule in range(self.rules)
        ]
        self.latency = chance.among(0, 0, 0.01, 0.5, 3)
        self.failing = {
            what: chance.among(0, 0, 0, 0.1, 0.4) for what in ("run", "reward", "propose")
        }
        self.harmful, self.idle = chance.among(0, 0.2, 0.5), chance.among(0, 0.2)
        self.calls = self.under_way = 0

    def worth(self, rendered, task):
        lines, rule = rendered.splitlines(), task.meta["rule"]
        return float(f"- rule{rule}" in lines and f"- harm{rule}" not in lines)

    async def run(self, rendered, task):
        await self._work("run")
        return rendered

    async def reward(self, task, output):
        self._fail("reward")
        return self.worth(output, task)

    async def propose(self, rendered, task, output, reward):
        await self._work("propose")
        if self.chance.of(self.idle):
            return self.chance.among(None, "", f"noop{self.chance.random.randrange(99)}")
        if self.chance.of(self.harmful):
            return f"harm{self.chance.random.randrange(self.rules)}"
        return f"rule{task.meta['rule']}"

    async def _work(self, what):
        self.calls += 1
        self.under_way += 1
        try:
            await anyio.sleep(self.latency * self.chance.among(0, 1, self.chance.random.random()))
            self._fail(what)
        finally:
            self.under_way -= 1

    def _fail(self, what):
        if self.chance.of(self.failing[what]):
            raise ConnectionError(what)


class OneText:
    """All rules in one value, so that proposals contradict each other."""

    def initial(self):
        return {"text": ""}

    def render(self, state):
        return "\n".join(f"- {rule}" for rule in state["text"].split("|"))

    async def to_diff(self, state, proposal, author, base_version, target):
        await checkpoint()
        text = f"{state['text']}|{proposal}"
        return Diff(f"{author}:{base_version}", target, {"text": text}, author=author)


class Replacing(AppendRules):
    """Now and then a new rule takes the place of an old one, and breaks the contract."""

    def to_diff(self, state, proposal, author, base_version, target):
        diff = super().to_diff(state, proposal, author, base_version, target)
        if not isinstance(diff, Diff) or not state or len(proposal) % 2:
            return diff
        ops = {**diff.ops, min(state): None}
        return Diff(diff.diff_id, target, ops, contract_breaking=len(ops) > 2, author=author)


class AnyPlan:
    """Some units for some workers: none, one or several each."""

    name = "any"

    def __init__(self, chance):
        self._chance = chance

    async def plan(self, n_workers, round_index, keys):
        await anyio.sleep(self._chance.among(0, 0.3))
        draw = self._chance.random
        n_units = self._chance.among(0, 1, n_workers, 2 * n_workers)
        return [
            WorkUnit(draw.randrange(n_workers), draw.sample(keys, draw.randint(0, len(keys))))
            for _ in range(n_units)
        ]


def config(chance):
    return AggregatorConfig(
        **chance.seldom(
            0.2,
            batch_trigger=[1, 3, 10**6],
            max_wait_rounds=[2, 10**6],
            base_delta=[0.01, 0.9],
            lag=["version"],
            max_commit_ops=[1, 2],
            multiplicity=["none"],
            eval_waves=[1],
            promote_after_k=[1],
            trust_region_ops=[1],
            alpha_tail=[0, 3],
        )
    )


def settings(chance, schedule):
    """Arguments of a run; `rounds` means rollouts without barriers, as in `evolve_under`."""
    chosen = {
        "n_workers": chance.among(1, 2, 4, 7, 20),
        "rounds": chance.among(1, 2, 5, 12),
        "agg_config": config(chance),
        **chance.seldom(
            0.2,
            max_rollouts=[1, 5, 13, 40],
            max_calls=[40, 41, 60, 90],
            max_seconds=[0.001, 1, 7.5, 60],
            target_reward=[0.0, 0.5, 1.0],
            patience=[1, 2, 5],
            stop_when_solved=[True],
            self_verify=[False],
            shuffle=[True],
            eval_concurrency=[1, 2, 64],
            eval_repeats=[2],
            confirm=[1],
            cheap_eval_tasks=[1, 3],
            blast_radius=[0.31, 1.0],
            max_worker_errors=[1, 2],
            staleness_policy=[get_policy("full"), get_policy("reflective")],
            task_sampler=[DifficultyWeighted()],
            strategy=[OneText(), Replacing()],
        ),
    }
    if schedule == "rounds":
        return chosen | chance.seldom(
            0.3,
            max_concurrency=[1, 2],
            refresh_interval=[2, 7],
            round_timeout=[1e-6, 0.3, 1, 10],
            parallel=[AnyPlan(chance)],
        )
    return {"max_seconds": math.inf} | chosen | chance.seldom(0.3, async_ratio=[0, 1, 9])


class Readable(MemoryLedger):
    """A ledger that can still be read when the run has closed it."""

    def __init__(self, *, delay=0.0):
        super().__init__(delay=delay)
        self.delay = delay

    async def close(self):
        pass
